"""`learn_from` takes rates, scales and weights from another bandit, but no readings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Candidates, Every, Limit, Space, policies
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.validation import Array

TARGET = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
SOURCE = Candidates(np.linspace(20.0, 31.0, 17)[:, None])


def reward(X: Array, t: float) -> Array:
    return np.asarray(50.0 + 20.0 * np.sin(X[:, 0] + 0.1 * t))


def play(bandit: Any, steps: int, sign: float = 1.0) -> Any:
    rng = np.random.default_rng(1)
    for t in range(1, steps + 1):
        X = bandit.ask(t)
        bandit.tell(X, sign * (reward(X, t) + rng.normal(size=len(X))), t)
    return bandit


def test_learn_from_sets_half_of_the_prior_weight_of_models() -> None:
    source = play(policies.adaptive_gp_ucb(SOURCE), 40)
    rule = policies.adaptive_gp_ucb(TARGET).learn_from(source).recipe.posterior
    weights_of_source = dict(rule.prior_weights)
    ensemble = replace(
        FilterEnsemble.of(TARGET.X, 1.0, both=True),
        prior_weights=rule.prior_weights,
        prior_scale=rule.prior_scale,
    )
    ensemble = ensemble.update([0], np.array([50.0]), None, 1.0)
    scores = np.exp(ensemble._log_weights)
    plain = np.full(len(scores), 1.0 / len(scores))
    shares = np.array([weights_of_source.get(each, 0.0) for each in ensemble.current_models])
    assert 0.9 < shares.sum() <= 1.0 + 1e-12
    expected = 0.5 * plain + 0.5 * shares
    np.testing.assert_allclose(scores / scores.sum(), expected / expected.sum(), rtol=1e-12)
    assert 5.0 < rule.prior_scale < 50.0
    assert (ensemble.squared_scales >= 0.9 * rule.prior_scale**2).all()


def test_learn_from_takes_the_weights_of_the_other_ensemble() -> None:
    source = play(policies.adaptive_gp_ucb(SOURCE, noise_variance=1.0), 40)
    source.ask(41)
    ensemble = source.state.posterior.ensemble
    weights = dict(zip(ensemble.current_models, ensemble.weights, strict=True))
    rule = policies.adaptive_gp_ucb(TARGET, noise_variance=1.0).learn_from(source).recipe.posterior
    assert len(rule.prior_weights) > 1
    for model, weight in rule.prior_weights:
        assert weight == pytest.approx(weights[model], rel=0.2)


@pytest.mark.parametrize(
    "space", [Box([(0, 10), (0, 1)]), Space(flow=(0, 10), load=(0, 1))], ids=str
)
def test_learn_from_starts_a_fit_at_the_learned_hyperparameters(space: Any) -> None:
    source = play(policies.adaptive_gp_ucb(space), 45)
    plain = policies.adaptive_gp_ucb(space)
    target = plain.learn_from(source)
    assert target.recipe.kernel.theta == pytest.approx(
        source.state.model.fit.kernels[0].theta, abs=1.5
    )
    assert np.abs(target.recipe.kernel.theta - plain.recipe.kernel.theta).max() > 0.3
    assert target.recipe.kernel.bounds == pytest.approx(plain.recipe.kernel.bounds)
    assert len(target.recipe.learn.rivals) == len(plain.recipe.learn.rivals)
    play(target, 10)
    assert target.state.model.fit.fits > 0


def test_learn_from_takes_the_forgetting_rate() -> None:
    source = play(policies.ui_gp_ucb(SOURCE, kernel=RBF(2.0), forgetting_rate=Every(20)), 45)
    target = policies.ui_gp_ucb(TARGET, kernel=RBF(2.0), forgetting_rate=Every(20)).learn_from(
        source
    )
    assert target.recipe.aging.forgetting_rate == pytest.approx(
        source.state.model.aging.forgetting_rate, rel=0.5
    )
    assert (
        target.recipe.aging
        != policies.ui_gp_ucb(TARGET, kernel=RBF(2.0), forgetting_rate=Every(20)).recipe.aging
    )


@pytest.mark.parametrize(
    "target",
    [
        policies.adaptive_gp_ucb(TARGET, noise_variance=1.0),
        policies.adaptive_gp_ucb(Box([(0, 10)]), noise_variance=1.0),
        policies.ui_gp_ucb(TARGET, kernel=RBF(2.0), noise_variance=1.0, forgetting_rate=Every(20)),
    ],
)
def test_learn_from_uses_the_given_noise_for_readings_with_learned_noise(target: Any) -> None:
    source, source_with_noise = (
        policies.adaptive_gp_ucb(SOURCE, noise_variance=noise) for noise in (None, 1.0)
    )
    rewards = play(source, 30).state.rewards
    source_with_noise.tell(rewards.X, rewards.y, rewards.t)
    recipe, expected = (target.learn_from(each).recipe for each in (source, source_with_noise))
    assert recipe == expected
    assert recipe != target.recipe


def test_learn_from_changes_nothing_but_the_prior() -> None:
    source = play(policies.adaptive_gp_ucb(SOURCE, minimize=True), 12, sign=-1.0)
    limited = (
        policies.adaptive_gp_ucb(TARGET)
        .with_options(limits=[Limit("q", at_most=900)])
        .with_options(move_cost=0.1)
    )
    bandit = play(limited, 0)
    bandit.tell([[1.0], [2.0]], [0.1, 0.2], [1, 2], outcomes={"q": [1.0, 2.0]})
    pending = bandit.ask(3)
    before, source_state = bandit.state, source.state
    target = bandit.learn_from(source)
    assert bandit.state == before
    assert source.state == source_state
    assert (target.pending == pending).all()
    assert target.state.rewards.y.tolist() == [0.1, 0.2]
    assert target.history.drop(columns="variance").equals(bandit.history.drop(columns="variance"))
    rule = replace(target.recipe.posterior, both=False)
    outcome = replace(target.recipe, posterior=rule).make_outcome_recipe(Limit("q", at_most=900))
    assert rule.prior_scale > 0.0
    assert outcome.posterior == replace(rule, prior_scale=0.0)


def test_learn_from_works_between_a_box_and_candidates() -> None:
    box = play(policies.adaptive_gp_ucb(Box([(0, 10)])), 12)
    assert policies.adaptive_gp_ucb(TARGET).learn_from(box).recipe.posterior.prior_weights
    candidates = play(policies.gp_ucb(SOURCE, kernel=RBF(1.0), noise_variance=1.0), 9)
    assert (
        len(play(policies.adaptive_gp_ucb(Box([(0, 10)])).learn_from(candidates), 3).history) == 3
    )


def history_of_a_bandit() -> Any:
    return play(policies.gp_ucb(SOURCE, kernel=RBF(2.0), noise_variance=1.0), 3).history


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (None, "a bandit or a campaign, or its state"),
        ("other.db", "a bandit or a campaign, or its state"),
        (Bandit, "a bandit or a campaign, or its state"),
        (history_of_a_bandit(), "a bandit or a campaign, or its state"),
        (policies.uniform(SOURCE), "a bandit or a campaign, or its state"),
        (
            policies.gp_ucb(SOURCE, kernel=RBF(2.0), noise_variance=1.0),
            "the other bandit has no rewards",
        ),
        (
            policies.gp_ucb(Box([(0, 1)] * 2), kernel=RBF(2.0), noise_variance=1.0),
            "1 coordinates, but those of the other bandit 2",
        ),
    ],
)
def test_learn_from_refuses_an_unsuitable_source(other: Any, message: str) -> None:
    bandit = policies.adaptive_gp_ucb(TARGET)
    before = bandit.state
    assert_refused(ValueError, message, bandit.learn_from, other)
    assert bandit.state == before


def test_learn_from_is_refused_by_a_bandit_that_learns_nothing() -> None:
    source = play(policies.gp_ucb(SOURCE, kernel=RBF(2.0), noise_variance=1.0), 3)
    with_control = policies.adaptive_gp_ucb(TARGET).with_options(control=TARGET.X[0])
    for each in (with_control, policies.gp_ucb(TARGET, kernel=RBF(2.0), noise_variance=1.0)):
        before = each.state
        assert_refused(
            ValueError, "no rate, scale or weight that it could adopt", each.learn_from, source
        )
        assert each.state == before

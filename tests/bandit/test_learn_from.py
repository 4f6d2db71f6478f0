"""Start from what others learned: rates, scales and weights, no readings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import refused
from tvbandits import Bandit, Box, Candidates, Every, Limit, Space, policies
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.validation import Array

HERE = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
THERE = Candidates(np.linspace(20.0, 31.0, 17)[:, None])


def reward(X: Array, t: float) -> Array:
    return np.asarray(50.0 + 20.0 * np.sin(X[:, 0] + 0.1 * t))


def played(bandit: Any, steps: int, sign: float = 1.0) -> Any:
    rng = np.random.default_rng(1)
    for t in range(1, steps + 1):
        X = bandit.ask(t)
        bandit.tell(X, sign * (reward(X, t) + rng.normal(size=len(X))), t)
    return bandit


def test_half_of_the_prior_weight_of_models_is_what_was_learned() -> None:
    there = played(policies.adaptive_gp_ucb(THERE), 40)
    rule = policies.adaptive_gp_ucb(HERE).learn_from(there).recipe.posterior
    learned = dict(rule.prior_weights)
    begun = replace(
        FilterEnsemble.of(HERE.X, 1.0, both=True),
        prior_weights=rule.prior_weights,
        prior_scale=rule.prior_scale,
    )
    begun = begun.update([0], np.array([50.0]), None, 1.0)
    scores = np.exp(begun._log_weights)
    plain = np.full(len(scores), 1.0 / len(scores))
    shares = np.array([learned.get(each, 0.0) for each in begun.active_models])
    assert 0.9 < shares.sum() <= 1.0 + 1e-12
    expected = 0.5 * plain + 0.5 * shares
    np.testing.assert_allclose(scores / scores.sum(), expected / expected.sum(), rtol=1e-12)
    assert 5.0 < rule.prior_scale < 50.0
    assert (begun.squared_scales >= 0.9 * rule.prior_scale**2).all()


def test_weights_are_those_of_the_other_one() -> None:
    there = played(policies.adaptive_gp_ucb(THERE, noise_variance=1.0), 40)
    there.ask(41)
    known = there.state.posterior.ensemble
    weights = dict(zip(known.active_models, known.weights, strict=True))
    rule = policies.adaptive_gp_ucb(HERE, noise_variance=1.0).learn_from(there).recipe.posterior
    assert len(rule.prior_weights) > 1
    for model, weight in rule.prior_weights:
        assert weight == pytest.approx(weights[model], rel=0.2)


@pytest.mark.parametrize(
    "space", [Box([(0, 10), (0, 1)]), Space(flow=(0, 10), load=(0, 1))], ids=str
)
def test_a_fit_begins_with_the_numbers_that_were_learned(space: Any) -> None:
    there = played(policies.adaptive_gp_ucb(space), 45)
    plain = policies.adaptive_gp_ucb(space)
    here = plain.learn_from(there)
    assert here.recipe.kernel.theta == pytest.approx(
        there.state.model.fit.kernels[0].theta, abs=1.5
    )
    assert np.abs(here.recipe.kernel.theta - plain.recipe.kernel.theta).max() > 0.3
    assert here.recipe.kernel.bounds == pytest.approx(plain.recipe.kernel.bounds)
    assert len(here.recipe.learn.rivals) == len(plain.recipe.learn.rivals)
    played(here, 10)
    assert here.state.model.fit.fits > 0


def test_a_pace_carries_over() -> None:
    there = played(policies.ui_gp_ucb(THERE, kernel=RBF(2.0), forgetting_rate=Every(20)), 45)
    here = policies.ui_gp_ucb(HERE, kernel=RBF(2.0), forgetting_rate=Every(20)).learn_from(there)
    assert here.recipe.aging.forgetting_rate == pytest.approx(
        there.state.model.aging.forgetting_rate, rel=0.5
    )
    assert (
        here.recipe.aging
        != policies.ui_gp_ucb(HERE, kernel=RBF(2.0), forgetting_rate=Every(20)).recipe.aging
    )


@pytest.mark.parametrize(
    "here",
    [
        policies.adaptive_gp_ucb(HERE, noise_variance=1.0),
        policies.adaptive_gp_ucb(Box([(0, 10)]), noise_variance=1.0),
        policies.ui_gp_ucb(HERE, kernel=RBF(2.0), noise_variance=1.0, forgetting_rate=Every(20)),
    ],
)
def test_a_noise_that_is_given_is_that_of_readings_whose_noise_was_learned(here: Any) -> None:
    there, alike = (policies.adaptive_gp_ucb(THERE, noise_variance=noise) for noise in (None, 1.0))
    rewards = played(there, 30).state.rewards
    alike.tell(rewards.X, rewards.y, rewards.t)
    found, expected = (here.learn_from(each).recipe for each in (there, alike))
    assert found == expected
    assert found != here.recipe


def test_nothing_else_changes() -> None:
    there = played(policies.adaptive_gp_ucb(THERE, minimize=True), 12, sign=-1.0)
    limited = (
        policies.adaptive_gp_ucb(HERE)
        .with_options(limits=[Limit("q", at_most=900)])
        .with_options(move_cost=0.1)
    )
    own = played(limited, 0)
    own.tell([[1.0], [2.0]], [0.1, 0.2], [1, 2], outcomes={"q": [1.0, 2.0]})
    out = own.ask(3)
    before, theirs = own.state, there.state
    here = own.learn_from(there)
    assert own.state == before
    assert there.state == theirs
    assert (here.pending == out).all()
    assert here.state.rewards.y.tolist() == [0.1, 0.2]
    assert here.history.drop(columns="variance").equals(own.history.drop(columns="variance"))
    rule = replace(here.recipe.posterior, both=False)
    outcome = replace(here.recipe, posterior=rule).make_outcome_recipe(Limit("q", at_most=900))
    assert rule.prior_scale > 0.0
    assert outcome.posterior == replace(rule, prior_scale=0.0)


def test_a_box_may_teach_candidates_and_the_other_way_round() -> None:
    box = played(policies.adaptive_gp_ucb(Box([(0, 10)])), 12)
    assert policies.adaptive_gp_ucb(HERE).learn_from(box).recipe.posterior.prior_weights
    candidates = played(policies.gp_ucb(THERE, kernel=RBF(1.0), noise_variance=1.0), 9)
    assert (
        len(played(policies.adaptive_gp_ucb(Box([(0, 10)])).learn_from(candidates), 3).history) == 3
    )


def a_frame() -> Any:
    return played(policies.gp_ucb(THERE, kernel=RBF(2.0), noise_variance=1.0), 3).history


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (None, "a bandit or a campaign, or its state"),
        ("other.db", "a bandit or a campaign, or its state"),
        (Bandit, "a bandit or a campaign, or its state"),
        (a_frame(), "a bandit or a campaign, or its state"),
        (policies.uniform(THERE), "a bandit or a campaign, or its state"),
        (policies.gp_ucb(THERE, kernel=RBF(2.0), noise_variance=1.0), "has no rewards"),
        (
            policies.gp_ucb(Box([(0, 1)] * 2), kernel=RBF(2.0), noise_variance=1.0),
            "1 coordinates, but those of the other bandit 2",
        ),
    ],
)
def test_what_nothing_can_be_learned_from(other: Any, says: str) -> None:
    bandit = policies.adaptive_gp_ucb(HERE)
    before = bandit.state
    refused(ValueError, says, bandit.learn_from, other)
    assert bandit.state == before


def test_who_learns_nothing() -> None:
    there = played(policies.gp_ucb(THERE, kernel=RBF(2.0), noise_variance=1.0), 3)
    beside = policies.adaptive_gp_ucb(HERE).with_options(control=HERE.X[0])
    for each in (beside, policies.gp_ucb(HERE, kernel=RBF(2.0), noise_variance=1.0)):
        before = each.state
        refused(ValueError, "learn_from needs a policy that learns", each.learn_from, there)
        assert each.state == before

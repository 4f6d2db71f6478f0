"""Bandits with an ensemble of models: recipes, plays, predictions, and continuing from a state."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import NOISE, SITES, decision_deviation, tides as value
from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tests.helpers.views import condition
from tvbandits import Answers, Bandit, Box, Candidates, Every, Options, Recipe, policies
from tvbandits.acquisition.widths import Theory
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.forgetting.aging import Window
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.posterior import ModelEnsemble
from tvbandits.gp.kernels.units import scale_columns
from tvbandits.queries import NextDecision
from tvbandits.queries.plans import QueryConfig, choose_questions
from tvbandits.validation import Array


def reward(X: Array, t: float) -> Array:
    return value(X, t) + 0.1 * keyed_normal(0, 1, X, t)


class NoisyExpert:
    """An expert that answers with noise."""

    def __init__(self, sign: float = 1.0) -> None:
        self.sign = sign
        self.asked: list[tuple[float, Array]] = []

    def query(self, X: Array, t: float) -> Answers:
        self.asked.append((t, X))
        return Answers(self.sign * (value(X, t) + 0.1 * keyed_normal(0, 2, X, t)), NOISE)


def frugal(expert: Any = None, **more: Any) -> Bandit:
    values = {"noise_variance": NOISE, "expert": expert, "queries_per_step": 2.0, **more}
    bandit: Bandit = build(policies.frugal_gp_ucb, SITES, **values)
    return bandit


def adaptive(**more: Any) -> Bandit:
    values = {"noise_variance": NOISE, "posterior": "ensemble", **more}
    bandit: Bandit = build(policies.adaptive_gp_ucb, SITES, **values)
    return bandit


def play(bandit: Bandit, times: range, sign: float = 1.0) -> Array:
    points = []
    for t in times:
        X = bandit.ask(t)
        bandit.tell(X, sign * reward(X, t))
        points.append(X)
    return np.concatenate(points)


def ensemble_of(bandit: Bandit) -> FilterEnsemble:
    return bandit.state.posterior.ensemble


def test_frugal_gp_ucb_on_candidates_has_an_ensemble_unless_a_fit_is_needed() -> None:
    assert frugal().recipe.posterior == ModelEnsemble(both=True)
    assert frugal().recipe.learn is None
    assert (
        policies.frugal_gp_ucb(
            SITES, kernel=RBF(1.0), noise_variance=NOISE, expert=None
        ).recipe.learn
        is not None
    )
    for options in ({"refit": True}, {"mean": 3.0}, {"beta": "theory"}):
        assert frugal(**options).recipe.learn is not None
    for domain in (Box([(0, 3), (0, 3)]), Candidates(SITES.X, context=[1])):
        assert (
            policies.frugal_gp_ucb(domain, noise_variance=NOISE, expert=None).recipe.learn
            is not None
        )
    # Without an expert there is an ensemble on demand, with a kernel or without.
    assert (
        policies.adaptive_gp_ucb(SITES, kernel=RBF(1.0), noise_variance=NOISE).recipe.learn
        is not None
    )
    for kernel in (None, RBF(1.0)):
        recipe = policies.adaptive_gp_ucb(
            SITES, kernel=kernel, noise_variance=NOISE, options=Options(posterior="ensemble")
        ).recipe
        assert recipe.posterior == ModelEnsemble()
        assert recipe.learn is None


def test_frugal_gp_ucb_plays_as_a_plain_loop() -> None:
    expert = NoisyExpert()
    points = play(frugal(expert), range(1, 16))
    ensemble, count = FilterEnsemble.of(scale_columns(SITES.X), NOISE, both=True), 0
    row = int((points[0] == SITES.X).all(axis=1).argmax())
    for t in range(1, 16):
        np.testing.assert_array_equal(points[t - 1], SITES.X[row])
        ensemble = ensemble.update([row], reward(SITES.X[[row]], t), NOISE, t)
        rows = choose_questions(ensemble.joint_posterior(t + 1.0), 2, count)
        np.testing.assert_array_equal(expert.asked[t - 1][1], SITES.X[rows])
        count += len(rows)
        answers = value(SITES.X[rows], t) + 0.1 * keyed_normal(0, 2, SITES.X[rows], t)
        ensemble = ensemble.update(rows, answers, NOISE, t)
        row = int(ensemble.predict(t + 1.0).mean.argmax())  # the width is 0 after answers


def test_frugal_gp_ucb_refuses_a_season_with_a_fit() -> None:
    assert_refused(ValueError, "season=24", frugal, season=24, refit=True)


def test_adaptive_gp_ucb_with_an_ensemble_maximizes_the_bound() -> None:
    bandit = adaptive()
    play(bandit, range(1, 9))
    (x,) = bandit.ask(9.0)
    forecast = ensemble_of(bandit).predict(9.0)
    best = int((forecast.mean + 2.0 * forecast.learnable).argmax())
    np.testing.assert_array_equal(x, SITES.X[best])


def test_predict_of_an_ensemble_includes_the_nugget() -> None:
    bandit = frugal(NoisyExpert())
    play(bandit, range(1, 13))
    bandit.ask(13.0)
    forecast = ensemble_of(bandit).predict(13.0)
    mean, deviation = bandit.predict(SITES.X, 13.0)
    np.testing.assert_allclose(mean, forecast.mean)
    learnable, nugget = decision_deviation(bandit, SITES.X, 13.0), condition(bandit, 13.0)[1].nugget
    expected = np.sqrt(learnable**2 + nugget)
    # Models of small weight are left out.
    np.testing.assert_allclose(expected, forecast.deviation, rtol=0.05)
    # The prior variance was learned, so that `predict` is wider.
    assert (deviation > expected).all()
    assert (deviation < 1.5 * expected).all()
    before = bandit.state
    bandit.predict(np.array([[1.0, 1.0], [9.0, 9.0]]), 20.0)
    assert bandit.state == before


@pytest.mark.parametrize("robust", [False, True])
def test_tell_without_ask_updates_an_ensemble_once_per_reading(
    robust: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is bitwise that of a new start."""
    calls, observe = [], FilterEnsemble.update
    monkeypatch.setattr(
        FilterEnsemble, "update", lambda *arguments: calls.append(1) or observe(*arguments)
    )
    bandit = adaptive(options=Options(robust=robust))
    for t in range(1, 41):
        bandit.tell(SITES.X[[t % 7]], reward(SITES.X[[t % 7]], t), t)
        prediction = bandit.predict(SITES.X, t + 2.0)
    assert len(calls) < 100  # an ensemble starts again in its first steps
    fresh = Bandit.from_state(bandit.recipe, bandit.state)
    np.testing.assert_array_equal(fresh.predict(SITES.X, 42.0), prediction)


def test_info_of_an_ensemble_lists_the_models_of_largest_weight() -> None:
    bandit = frugal(NoisyExpert())
    play(bandit, range(1, 13))
    bandit.ask(13.0)
    info = bandit.info.model
    assert len(info.models) > 1
    assert 0 < sum(weight for weight, _ in info.models) <= 1.0 + 1e-12
    assert 0 < info.nugget < info.scale
    assert abs(info.mean - 5.0) < 3.0
    assert bandit.info.posterior.in_use == 12 + 24
    assert len(bandit.history) >= 36


def test_from_state_switches_between_ensemble_and_fit() -> None:
    bandit = frugal(NoisyExpert())
    play(bandit, range(1, 7))
    fit = frugal(NoisyExpert(), refit=Every(8, first=(4,), observations=20, iterations=1)).recipe
    other = Bandit.from_state(fit, bandit.state)
    assert other.predict(SITES.X, 7.0)[0].shape == (10,)
    back = Bandit.from_state(bandit.recipe, other.state)
    np.testing.assert_array_equal(back.predict(SITES.X, 7.0), bandit.predict(SITES.X, 7.0))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"domain": Box([(0, 3), (0, 3)])}, "needs a finite domain: give Candidates"),
        ({"aging": Window(last=5)}, "learns by itself: aging must be Constant"),
        ({"learn": Every()}, "learns by itself: learn must be None"),
        ({"reset": EventTrigger()}, "learns by itself: reset must be None"),
        ({"mean": 2.0}, "learns by itself: mean must be 'online', got 2.0"),
        ({"beta": Theory()}, "depends on the information gain under one kernel"),
        ({"query_config": QueryConfig(NextDecision(2))}, "keeps all answers.*give QueryConfig"),
    ],
)
def test_recipe_with_an_ensemble_names_parts_that_do_not_fit(
    change: dict[str, Any], match: str
) -> None:
    recipe = adaptive().recipe
    assert_refused(ValueError, match, replace, recipe, **change)
    assert isinstance(recipe, Recipe)


def test_tv_gp_ucb_refuses_an_ensemble() -> None:
    with pytest.raises(ValueError, match=r"ModelEnsemble.*adaptive_gp_ucb"):
        policies.tv_gp_ucb(
            SITES,
            kernel=RBF(1.0),
            noise_variance=NOISE,
            forgetting_rate=0.1,
            options=Options(posterior="ensemble"),
        )

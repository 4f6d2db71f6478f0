"""A bandit with an ensemble: batches, late rewards, answers, what it shows, and going on later."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import NOISE, SITES, deciding, tides as value
from tests.helpers.recipes import build
from tests.helpers.refusals import refused
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


class Truth:
    """Answers with noise."""

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


def alone(**more: Any) -> Bandit:
    values = {"noise_variance": NOISE, "posterior": "ensemble", **more}
    bandit: Bandit = build(policies.adaptive_gp_ucb, SITES, **values)
    return bandit


def play(bandit: Bandit, times: range, sign: float = 1.0) -> Array:
    played = []
    for t in times:
        X = bandit.ask(t)
        bandit.tell(X, sign * reward(X, t))
        played.append(X)
    return np.concatenate(played)


def bank_of(bandit: Bandit) -> FilterEnsemble:
    return bandit.state.posterior.ensemble


def test_who_asks_on_candidates_has_a_bank_unless_a_fit_is_asked_for() -> None:
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
    # Who asks nobody has the same on demand, with a kernel or without.
    assert (
        policies.adaptive_gp_ucb(SITES, kernel=RBF(1.0), noise_variance=NOISE).recipe.learn
        is not None
    )
    for kernel in (None, RBF(1.0)):
        given = policies.adaptive_gp_ucb(
            SITES, kernel=kernel, noise_variance=NOISE, options=Options(posterior="ensemble")
        ).recipe
        assert given.posterior == ModelEnsemble()
        assert given.learn is None


def test_it_plays_what_a_plain_loop_plays() -> None:
    expert = Truth()
    played = play(frugal(expert), range(1, 16))
    bank, asked = FilterEnsemble.of(scale_columns(SITES.X), NOISE, both=True), 0
    row = int((played[0] == SITES.X).all(axis=1).argmax())
    for t in range(1, 16):
        np.testing.assert_array_equal(played[t - 1], SITES.X[row])
        bank = bank.update([row], reward(SITES.X[[row]], t), NOISE, t)
        rows = choose_questions(bank.joint_posterior(t + 1.0), 2, asked)
        np.testing.assert_array_equal(expert.asked[t - 1][1], SITES.X[rows])
        asked += len(rows)
        answers = value(SITES.X[rows], t) + 0.1 * keyed_normal(0, 2, SITES.X[rows], t)
        bank = bank.update(rows, answers, NOISE, t)
        row = int(bank.predict(t + 1.0).mean.argmax())  # greedy, once it is informed


def test_a_season_is_part_of_an_ensemble() -> None:
    refused(ValueError, "season=24", frugal, season=24, refit=True)


def test_without_an_expert_the_width_counts() -> None:
    bandit = alone()
    play(bandit, range(1, 9))
    (x,) = bandit.ask(9.0)
    forecast = bank_of(bandit).predict(9.0)
    best = int((forecast.mean + 2.0 * forecast.learnable).argmax())
    np.testing.assert_array_equal(x, SITES.X[best])


def test_what_it_predicts_holds_with_what_nobody_can_know() -> None:
    bandit = frugal(Truth())
    play(bandit, range(1, 13))
    bandit.ask(13.0)
    forecast = bank_of(bandit).predict(13.0)
    mean, deviation = bandit.predict(SITES.X, 13.0)
    np.testing.assert_allclose(mean, forecast.mean)
    learnable, new = deciding(bandit, SITES.X, 13.0), condition(bandit, 13.0)[1].nugget
    stated = np.sqrt(learnable**2 + new)
    np.testing.assert_allclose(stated, forecast.deviation, rtol=0.05)  # faint members are left out
    # Of what no reading has tested, more is shown.
    assert (deviation > stated).all()
    assert (deviation < 1.5 * stated).all()
    before = bandit.state
    bandit.predict(np.array([[1.0, 1.0], [9.0, 9.0]]), 20.0)
    assert bandit.state == before


@pytest.mark.parametrize("robust", [False, True])
def test_who_never_asks_observes_each_reading_once(
    robust: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And comes to the same bits as who looks for the first time."""
    calls, observe = [], FilterEnsemble.update
    monkeypatch.setattr(FilterEnsemble, "update", lambda *given: calls.append(1) or observe(*given))
    bandit = alone(options=Options(robust=robust))
    for t in range(1, 41):
        bandit.tell(SITES.X[[t % 7]], reward(SITES.X[[t % 7]], t), t)
        found = bandit.predict(SITES.X, t + 2.0)
    assert len(calls) < 100  # in its first steps an ensemble begins again
    fresh = Bandit.from_state(bandit.recipe, bandit.state)
    np.testing.assert_array_equal(fresh.predict(SITES.X, 42.0), found)


def test_info_says_which_models_carry_weight() -> None:
    bandit = frugal(Truth())
    play(bandit, range(1, 13))
    bandit.ask(13.0)
    about = bandit.info.model
    assert len(about.models) > 1
    assert 0 < sum(weight for weight, _ in about.models) <= 1.0 + 1e-12
    assert 0 < about.nugget < about.scale
    assert abs(about.mean - 5.0) < 3.0
    assert bandit.info.posterior.in_use == 12 + 24
    assert len(bandit.history) >= 36


def test_other_parts_can_go_on_from_it_and_it_from_others() -> None:
    bandit = frugal(Truth())
    play(bandit, range(1, 7))
    fit = frugal(Truth(), refit=Every(8, first=(4,), observations=20, iterations=1)).recipe
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
def test_parts_that_do_not_fit_are_named(change: dict[str, Any], match: str) -> None:
    recipe = alone().recipe
    refused(ValueError, match, replace, recipe, **change)
    assert isinstance(recipe, Recipe)


def test_who_has_one_model_takes_no_ensemble() -> None:
    with pytest.raises(ValueError, match=r"ModelEnsemble.*adaptive_gp_ucb"):
        policies.tv_gp_ucb(
            SITES,
            kernel=RBF(1.0),
            noise_variance=NOISE,
            forgetting_rate=0.1,
            options=Options(posterior="ensemble"),
        )

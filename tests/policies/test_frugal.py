"""Frugal-GP-UCB: its budget, its plays, and what it believes, on odd problems as on plain ones."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.helpers.players import deciding
from tests.oracles import loops
from tvbandits import Answers, Bandit, Box, Candidates, Every, ExpertDownWarning, policies
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.kernels.terms import leaves_of
from tvbandits.policies.expert import INFORMED_WIDTH
from tvbandits.queries import OnAverage, PlausibleMaximisers, RandomPoints

LINE = Candidates.grid([[0, 3]], 10)
LEARN = Every(steps=8, first=(4,), observations=40, iterations=2)
NOISE = 0.01


def value(X: Array, t: float) -> Array:
    return np.asarray(np.sin(2.0 * X[:, 0] + t / 5.0) + 0.3 * np.cos(X.sum(axis=1) + t / 9.0))


class Asked:
    """An expert that keeps what it was asked and what it said; it answers as `answers` says."""

    def __init__(self, unit: float = 1.0, answers: Any = None, truth: Any = value) -> None:
        self.unit, self.answers, self.truth = unit, answers, truth
        self.points: list[Array] = []
        self.times: list[float] = []
        self.said: list[Array] = []

    def query(self, X: Array, t: float) -> Answers:
        self.points.append(X)
        self.times.append(t)
        said = self.truth(X, t) + 0.1 * keyed_normal(0, 2, X, t)
        if self.answers is not None:
            said = np.where(self.answers(X, t), said, np.nan)
        self.said.append(self.unit * said)
        return Answers(self.said[-1], NOISE * self.unit**2)


class Down:
    def query(self, X: Array, t: float) -> Answers:
        raise ConnectionError(f"no line for {len(X)} questions at {t}")


def frugal(
    expert: Any, domain: Any = LINE, unit: float = 1.0, kernel: Any = None, **more: Any
) -> Bandit:
    space = RBF(0.5) if kernel is None else kernel
    parts = {"learn": LEARN, "budget": 2.0, "noise": NOISE, **more}
    noise = parts.pop("noise")
    return policies.frugal_gp_ucb(domain, space, noise * unit**2, expert=expert, **parts)


def play(bandit: Bandit, times: Sequence[float], unit: float = 1.0, truth: Any = value) -> Array:
    def reward(x: Array, t: float) -> Array:
        return unit * (truth(x, t) + 0.1 * keyed_normal(0, 1, x, t))

    return loops.play(bandit, reward, times)


STEPS = range(1, 13)


# --- the budget -----------------------------------------------------------------------------------


@given(
    budget=st.sampled_from([0.0, 0.3, 1.0, 2.5, 7.0]),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=20)
def test_never_more_questions_than_the_budget(budget: float, sizes: list[int], seed: int) -> None:
    expert, rng = Asked(answers=lambda X, _t: X[:, 0] < 2.0), np.random.default_rng(seed)
    bandit = frugal(expert, budget=budget, learn=Every(steps=3, observations=30, iterations=1))
    for t, n in enumerate(sizes, 1):
        X = LINE.X[rng.integers(0, 10, n)]  # several rewards at once, some of them late
        info = bandit.tell(X, value(X, t), t - rng.integers(0, 2, n) * 0.5)
        asked = sum(map(len, expert.points))
        assert asked == info.queries.total_asked <= budget * info.told
        assert info.told == sum(sizes[:t])
    assert info.queries.total_answered == sum(
        (points[:, 0] < 2.0).sum() for points in expert.points
    )


def test_the_plan_is_the_one_that_is_given() -> None:
    assert frugal(Asked(), budget=2.5).recipe.asking.plan == PlausibleMaximisers(OnAverage(2.5))
    assert frugal(Asked(), queries=RandomPoints(2)).recipe.asking.plan == RandomPoints(2)


def test_answers_are_kept_as_observations() -> None:
    expert = Asked(answers=lambda X, t: np.full(len(X), t % 3 != 0))
    bandit = frugal(expert)
    play(bandit, STEPS)
    said, times = np.concatenate(expert.said), np.repeat(expert.times, list(map(len, expert.said)))
    answered = ~np.isnan(said)
    assert 0 < answered.sum() < len(said)
    kept = bandit.state.answers
    np.testing.assert_array_equal(kept.y, said[answered])
    np.testing.assert_array_equal(kept.t, times[answered])
    np.testing.assert_array_equal(kept.X, np.concatenate(expert.points)[answered])
    info = bandit.info
    assert info.queries.total_answered == answered.sum()
    assert info.queries.total_refused == info.queries.total_asked - info.queries.total_answered
    assert bandit.state.rewards.t.tolist() == list(STEPS)
    bandit.ask()
    assert bandit.info.posterior.in_use == 12 + len(kept)
    assert bandit.info.posterior.forgotten == 0


# --- the plays ------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", ["theory", 3.0, 0.4])
def test_a_decision_after_answers_takes_a_smaller_width(confidence: Any) -> None:
    expert = Asked(answers=lambda X, t: np.full(len(X), t % 3 == 0))
    bandit = frugal(expert, confidence=confidence)
    assert bandit.recipe.asking.informed_width == INFORMED_WIDTH
    answered, differ = [], 0
    for t in range(1, 19):
        mean, deviation = bandit.predict(LINE.X, t)[0], deciding(bandit, LINE.X, t)
        explored = bandit.info.queries.answered > 0
        assert bandit.state.questions.informed == explored
        x = bandit.ask(t)
        beta = bandit.info.beta
        if confidence != "theory":
            assert beta == confidence  # the width is what it was, whatever is taken of it
        upper, informed = mean + beta * deviation, mean + min(beta, INFORMED_WIDTH) * deviation
        expected = informed if explored else upper
        np.testing.assert_array_equal(bandit.predict(LINE.X, t)[0], mean)
        assert expected[LINE.index(x)[0]] == pytest.approx(expected.max(), abs=1e-12)
        differ += int(informed.argmax() != upper.argmax())
        answered.append(explored)
        bandit.tell(x, value(x, t), t)
    assert 2 <= sum(answered) <= 9
    # One could not be taken for the other, unless the width is small anyway.
    assert differ == 0 if confidence == 0.4 else differ > 2


def test_answers_of_an_earlier_tell_are_answers_too() -> None:
    bandit = frugal(Asked(answers=lambda X, _t: np.full(len(X), len(expert.times) == 1)))
    expert: Any = bandit.recipe.asking.expert
    bandit.tell(LINE.X[[0]], value(LINE.X[[0]], 5.0), 5.0)
    assert bandit.info.queries.answered > 0
    asked = bandit.info.queries.total_asked
    bandit.tell(LINE.X[[0]], value(LINE.X[[0]], 4.5), 4.5)  # late: nothing is asked about the past
    assert (expert.times, bandit.info.queries.total_asked) == ([5.0], asked)
    mean, deviation = bandit.predict(LINE.X, 6.0)
    x = bandit.ask(6.0)
    informed, upper = mean + deviation, mean + bandit.info.beta * deviation
    assert bandit.info.beta > 1.0
    assert informed.argmax() != upper.argmax()
    assert LINE.index(x)[0] == informed.argmax()
    # They inform one decision: the next one is not after an answer.
    assert LINE.index(bandit.ask(6.0))[0] == upper.argmax()


@pytest.mark.parametrize("domain", [LINE, Box([[0.0, 3.0]], samples=32, starts=1)], ids=str)
@pytest.mark.parametrize("how", ["down", "refusing"])
def test_without_answers_it_is_the_upper_bound_of_the_same_recipe(how: str, domain: Any) -> None:
    expert = Down() if how == "down" else Asked(answers=lambda X, _t: np.zeros(len(X), bool))
    bandit = frugal(expert, domain)
    # Where the domain is not finite, questions take numbers from the generator: ask nobody, there.
    plain = Bandit(replace(bandit.recipe, asking=None))
    steps = STEPS if isinstance(domain, Candidates) else range(1, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plays = play(bandit, steps)
    np.testing.assert_array_equal(plays, play(plain, steps))
    np.testing.assert_array_equal(bandit.state.model.kernel.theta, plain.state.model.kernel.theta)
    assert bandit.info.queries.total_answered == 0
    assert bandit.info.queries.total_refused == bandit.info.queries.total_asked > 0
    outages = [each for each in caught if issubclass(each.category, ExpertDownWarning)]
    assert len(outages) == len(caught) == (1 if how == "down" else 0)


def test_answers_help() -> None:
    def regret(budget: float) -> float:
        bandit = frugal(Asked(), budget=budget, seed=1)
        plays = play(bandit, range(1, 31))
        best = np.array([value(LINE.X, t).max() for t in range(1, 31)])
        got = np.array([value(x[None], t)[0] for t, x in enumerate(plays, 1)])
        return float((best - got).mean())

    helped, alone = regret(3.0), regret(0.0)
    assert helped < 0.7 * alone


# --- odd problems ---------------------------------------------------------------------------------


RNG = np.random.default_rng(0)

ODD: dict[str, dict[str, Any]] = {
    "one candidate": {"domain": Candidates([[0.3]])},
    "three dimensions": {"domain": Candidates(RNG.random((30, 3)))},
    "any kernel, three dimensions": {"domain": Candidates(RNG.random((20, 3))), "kernel": False},
    "no noise": {"noise": 1e-12},
    "an offset": {"truth": lambda X, t: 1e6 + value(X, t)},
    "a large budget": {"budget": 30.0},
    "a large domain": {"domain": Candidates.grid([[0, 1e6]], 12), "kernel": RBF(2e5)},
    "a short length scale": {"kernel": RBF(1e-3)},
    "a long length scale": {"kernel": RBF(1e4)},
}


def healthy(bandit: Bandit, domain: Any, plays: Array, steps: int) -> None:
    """What holds on any problem."""
    np.testing.assert_array_equal(domain.check(plays), plays)
    assert len(bandit.state.rewards) == steps
    assert bandit.info.queries.total_asked <= bandit.info.told * 30
    mean, deviation = bandit.predict(plays)
    assert np.isfinite(mean).all()
    assert np.isfinite(deviation).all()
    assert (deviation >= 0).all()
    kernel = bandit.state.model.kernel
    assert bandit.info.model.fits == 2
    assert (kernel.theta >= kernel.bounds[:, 0] - 1e-9).all()
    assert (kernel.theta <= kernel.bounds[:, 1] + 1e-9).all()


@pytest.mark.parametrize("name", ODD)
def test_odd_problems(name: str) -> None:
    parts = {"domain": LINE, **ODD[name]}
    truth = parts.pop("truth", value)
    if parts.get("kernel") is False:
        del parts["kernel"]
        bandit = policies.frugal_gp_ucb(
            parts["domain"], None, NOISE, expert=Asked(), budget=2.0, learn=LEARN
        )
        assert len(bandit.recipe.learn.rivals) == 1  # type: ignore[union-attr]
    else:
        bandit = frugal(Asked(truth=truth), **parts)
    healthy(bandit, parts["domain"], play(bandit, range(1, 10), truth=truth), 9)
    assert leaves_of(bandit.state.model.kernel) is not None


@pytest.mark.parametrize("unit", [1e-6, 3.0, 1e6])
def test_another_unit_of_reward_changes_nothing_but_units(unit: float) -> None:
    one, other = frugal(Asked()), frugal(Asked(unit), unit=unit)
    plays = play(one, STEPS)
    np.testing.assert_array_equal(play(other, STEPS, unit), plays)
    assert other.info.queries.total_asked == one.info.queries.total_asked
    for mine, its in zip(other.predict(LINE.X), one.predict(LINE.X), strict=True):
        np.testing.assert_allclose(mine, unit * its, rtol=1e-9, atol=1e-9 * unit)
    for component, its_own in zip(other.info.model.terms, one.info.model.terms, strict=True):
        assert component.deviation == pytest.approx(unit * its_own.deviation, rel=1e-9)


# --- forecasts ------------------------------------------------------------------------------------

AHEAD = [0.0, 1.0, 5.0, 20.0, 100.0, 1e3, 1e6]


def test_forecasts_return_to_the_level() -> None:
    # Everything drifts: far ahead nothing is left but the centre and the prior deviation.
    kernel = ConstantKernel(0.3) * OnTime(Matern(5.0, nu=0.5)) + ConstantKernel(0.7) * OnSpace(
        RBF(0.5)
    ) * OnTime(Matern(8.0, nu=1.5))
    bandit = frugal(Asked(), kernel=kernel)
    play(bandit, STEPS)
    bandit.ask(13.0)
    centre, scale = bandit.info.model.centre, bandit.info.model.scale
    off = [np.abs(bandit.predict(LINE.X, 13.0 + ahead)[0] - centre).max() for ahead in AHEAD]
    assert off[0] > 0.3
    assert off[-1] < 1e-9 * scale
    assert off[-2] <= off[2] <= 1.5 * off[0]
    deviation = deciding(bandit, LINE.X, 13.0 + AHEAD[-1])
    prior = scale * np.sqrt(bandit.state.model.kernel.diag(np.column_stack([LINE.X, np.zeros(10)])))
    np.testing.assert_allclose(deviation, prior, rtol=1e-6)


def test_a_forecast_is_the_exact_posterior() -> None:
    bandit = frugal(Asked(), mean=0.1)
    play(bandit, STEPS)
    state = bandit.state
    seen = state.rewards.append(state.answers)
    Z, kernel = np.column_stack([seen.X, seen.t]), state.model.kernel
    for ahead in (-9.0, -0.5, 0.0, 1.0, 7.5):  # of the past, with what came after it
        at = np.column_stack([LINE.X, np.full(10, 12.0 + ahead)])
        A, k = kernel(Z) + np.diag(seen.variance), kernel(at, Z)
        mean, deviation = (
            bandit.predict(LINE.X, 12.0 + ahead)[0],
            deciding(bandit, LINE.X, 12.0 + ahead),
        )
        np.testing.assert_allclose(mean, 0.1 + k @ np.linalg.solve(A, seen.y - 0.1), atol=5e-3)
        variance = kernel.diag(at) - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))
        np.testing.assert_allclose(deviation, np.sqrt(variance), atol=5e-3)

"""Frugal-GP-UCB: its budget, its plays, and what it believes, on odd problems as on plain ones."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.oracles import loops
from tvbandits import Answers, Bandit, Box, Candidates, policies
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.core.protocols import ExpertDownWarning
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.kernels.terms import leaves_of
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.state_space import StateSpace
from tvbandits.policies.expert import INFORMED_WIDTH
from tvbandits.queries.budgets import OnAverage
from tvbandits.queries.plans import PlausibleMaximisers, RandomPoints

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


def test_what_is_asked() -> None:
    expert = Asked()
    bandit = frugal(expert)
    play(bandit, STEPS)
    assert bandit.info.queries.total_asked > 12  # it makes use of the budget
    assert sorted(set(expert.times)) == sorted(expert.times)
    assert set(expert.times) <= set(map(float, STEPS))
    for points in expert.points:
        np.testing.assert_array_equal(LINE.check(points), points)
        assert len(np.unique(points, axis=0)) == len(points)
    played = {float(x) for x in bandit.state.visited[:, 0]}
    assert {float(x) for points in expert.points for x in points[:, 0]} - played  # anywhere


def test_the_plan_is_the_one_that_is_given() -> None:
    assert frugal(Asked(), budget=2.5).recipe.asking.plan == PlausibleMaximisers(OnAverage(2.5))
    assert frugal(Asked(), queries=RandomPoints(2)).recipe.asking.plan == RandomPoints(2)


def test_answers_are_kept_as_observations() -> None:
    expert = Asked(answers=lambda X, t: (X[:, 0] < 2.0) | (t > 6))
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
        mean, deviation = bandit.predict(LINE.X, t)
        explored = bandit.info.queries.answered > 0
        assert bandit.state.questions.informed == explored
        x = bandit.ask(t)
        beta = bandit.info.beta
        if confidence != "theory":
            assert beta == confidence  # the width is what it was, whatever is taken of it
        deviation = deviation / bandit.info.model.widening  # which a width leaves out
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


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_any_width_of_an_informed_decision(width: float) -> None:
    made = frugal(Asked(), confidence=9.0)
    asking = replace(made.recipe.asking, informed_width=width)
    bandit = Bandit(replace(made.recipe, asking=asking))
    differ = 0
    for t in range(1, 13):
        mean, deviation = bandit.predict(LINE.X, t)
        explored = bandit.state.questions.informed
        x = bandit.ask(t)
        expected = mean + (width if explored else 9.0) * deviation
        assert expected[LINE.index(x)[0]] == pytest.approx(expected.max(), abs=1e-12)
        differ += int(expected.argmax() != (mean + 9.0 * deviation).argmax())
        bandit.tell(x, value(x, t), t)
    assert differ > 2


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf, "1"])
def test_a_width_that_is_none(bad: Any) -> None:
    asking: Any = frugal(Asked()).recipe.asking
    with pytest.raises(
        ValueError, match=f"informed_width must be finite and not negative, got {bad!r}"
    ):
        replace(asking, informed_width=bad)


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


@pytest.mark.parametrize("recipe", ["frugal", "tv"])
def test_a_kernel_that_a_state_space_cannot_take_is_refused(recipe: str) -> None:
    kernel = OnSpace(RBF(0.5)) * OnTime(RBF(5.0))

    def made(**parts: Any) -> Bandit:
        if recipe == "tv":
            return policies.adaptive_gp_ucb(LINE, kernel, NOISE, learn=LEARN, **parts)
        return frugal(Asked(), kernel=kernel, **parts)

    for parts in ({}, {"posterior": StateSpace()}):
        with pytest.raises(ValueError, match="the kernel must be a sum of space-time terms, got "):
            made(**parts)
    bandit = made(posterior=Exact())
    play(bandit, range(1, 7))
    assert bandit.info.model.fits == 1


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


def test_an_expert_that_is_down_is_named() -> None:
    bandit = frugal(Down())
    with pytest.warns(ExpertDownWarning, match="the expert cannot be reached at t = 1"):
        play(bandit, [1])
    assert bandit.info.queries.failures == 1


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


def constant(X: Array, t: float) -> Array:  # noqa: ARG001
    return np.full(len(X), 2.0)


RNG = np.random.default_rng(0)

ODD: dict[str, dict[str, Any]] = {
    "one candidate": {"domain": Candidates([[0.3]])},
    "two candidates": {"domain": Candidates([[0.0], [1.0]])},
    "three dimensions": {"domain": Candidates(RNG.random((30, 3)))},
    "any kernel": {"kernel": False},
    "any kernel, three dimensions": {"domain": Candidates(RNG.random((20, 3))), "kernel": False},
    "no noise": {"noise": 1e-12},
    "an offset": {"truth": lambda X, t: 1e6 + value(X, t)},
    "an answer in ten": {"budget": 0.1},
    "a large budget": {"budget": 30.0},
    "a fixed mean": {"mean": 0.2},
    "a constant width": {"confidence": 2.0},
    "points at random": {"queries": RandomPoints(2)},
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


def test_a_single_candidate_needs_no_question() -> None:
    expert, domain = Asked(), Candidates([[0.3]])
    play(frugal(expert, domain), STEPS)
    assert expert.points == []


def test_a_box() -> None:
    box, expert = Box([[0.0, 3.0], [0.0, 1.0]], samples=32, starts=1), Asked()
    bandit = frugal(expert, box)
    healthy(bandit, box, play(bandit, range(1, 10)), 9)
    assert 9 <= bandit.info.queries.total_asked <= 18
    for points in expert.points:
        np.testing.assert_array_equal(box.check(points), points)


def test_constant_rewards() -> None:
    bandit = frugal(Asked(truth=constant))
    for t in STEPS:  # exactly the same, again and again
        x = bandit.ask(t)
        bandit.tell(x, [2.0], t)
    mean, deviation = bandit.predict(LINE.X)
    np.testing.assert_allclose(mean, 2.0, atol=0.1)
    assert (deviation < 0.5).all()


def test_noise_far_below_the_rewards() -> None:
    domain = Candidates([[0.0], [1.0]])
    bandit, rng = frugal(Asked(100.0), domain, noise=1e-12), np.random.default_rng(0)
    for t in range(1, 9):  # five rewards of one point at one time
        x = bandit.ask(t)
        bandit.tell(np.repeat(x, 5, axis=0), 10.0 * rng.standard_normal(5), t)
        assert np.isfinite(bandit.predict(domain.X)).all()
    assert bandit.info.posterior.jitter > 0.0


@pytest.mark.parametrize("unit", [1e-6, *(10.0**power for power in range(-3, 7)), 3.0])
def test_another_unit_of_reward_changes_nothing_but_units(unit: float) -> None:
    one, other = frugal(Asked()), frugal(Asked(unit), unit=unit)
    plays = play(one, STEPS)
    np.testing.assert_array_equal(play(other, STEPS, unit), plays)
    assert other.info.queries.total_asked == one.info.queries.total_asked
    for mine, its in zip(other.predict(LINE.X), one.predict(LINE.X), strict=True):
        np.testing.assert_allclose(mine, unit * its, rtol=1e-9, atol=1e-9 * unit)
    for component, its_own in zip(other.info.model.terms, one.info.model.terms, strict=True):
        assert component.deviation == pytest.approx(unit * its_own.deviation, rel=1e-9)


def test_uneven_times_and_late_rewards() -> None:
    expert = Asked()
    bandit = frugal(expert)
    for i, t in enumerate([0.5, 0.7, 4.0, 4.0, 30.25, 31.0, 200.0, 201.5], 1):
        x = bandit.ask(t)
        bandit.tell(x, value(x, t), t)
        # A reward of long ago, of a point of its own.
        info = bandit.tell(LINE.X[[i]], value(LINE.X[[i]], t - 0.3), t - 0.3)
        assert bandit.state.time == t
        assert info.queries.total_asked <= 2.0 * info.told
    assert set(expert.times) <= {0.5, 0.7, 4.0, 30.25, 31.0, 200.0, 201.5}
    assert bandit.info.told == 16
    with pytest.raises(ValueError, match=r"cannot ask for t = 100\.0"):
        bandit.ask(100.0)


def test_the_order_of_late_rewards_does_not_change_the_beliefs() -> None:
    learn = Every(steps=1000, first=())
    one, other = (frugal(Asked(), budget=0.0, learn=learn, mean=0.0) for _ in range(2))
    X, t = LINE.X[[1, 5, 3, 8, 2, 7]], np.arange(1.0, 7.0)
    y = np.array([value(x[None], when)[0] for x, when in zip(X, t, strict=True)])
    one.tell(X, y, t)
    for i in (0, 5, 2, 4, 1, 3):
        other.tell(X[[i]], y[[i]], t[i])
    for mine, its in zip(other.predict(LINE.X), one.predict(LINE.X), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-8, atol=1e-10)


def test_a_batch_of_one_point() -> None:
    bandit = frugal(Asked())
    info = bandit.tell(np.repeat(LINE.X[[2]], 9, axis=0), [0.5] * 9, 3.0)
    assert (info.told, info.model.fits) == (9, 1)
    assert info.queries.total_asked <= 18
    assert len(bandit.ask()) == 1


@pytest.mark.parametrize("stop", [4, 6])
def test_a_state_resumes_bit_for_bit(stop: int) -> None:
    whole, part = frugal(Asked()), frugal(Asked())
    plays = play(whole, STEPS)
    play(part, range(1, stop + 1))
    resumed = Bandit.from_state(*pickle.loads(pickle.dumps((part.recipe, part.state))))
    np.testing.assert_array_equal(play(resumed, range(stop + 1, 13)), plays[stop:])
    np.testing.assert_array_equal(resumed.state.model.kernel.theta, whole.state.model.kernel.theta)
    np.testing.assert_array_equal(resumed.state.answers.y, whole.state.answers.y)
    assert resumed.info.queries.total_asked == whole.info.queries.total_asked


def test_a_bad_reward_changes_nothing() -> None:
    bandit = frugal(Asked())
    play(bandit, range(1, 8))
    before = bandit.state
    for y in ([-np.inf], [np.inf], [1.0, 2.0]):
        with pytest.raises(ValueError, match=r"y must (be at most|have shape)"):
            bandit.tell(LINE.X[[0]], y, 8.0)
        assert bandit.state is before


# --- forecasts ------------------------------------------------------------------------------------

AHEAD = [0.0, 1.0, 5.0, 20.0, 100.0, 1e3, 1e6]


def test_recommendations_for_times_ahead() -> None:
    bandit = frugal(Asked())
    play(bandit, STEPS)
    state = bandit.state
    for ahead in AHEAD:
        t = 12.0 + ahead
        mean, _ = bandit.predict(LINE.X, t)
        chosen = bandit.recommend(t)
        assert mean[LINE.index(chosen)[0]] == mean.max()
    assert bandit.state is state  # looking ahead changes nothing


def test_forecasts_grow_less_certain() -> None:
    bandit = frugal(Asked())
    play(bandit, STEPS)
    deviations = np.array([bandit.predict(LINE.X, 12.0 + ahead)[1] for ahead in AHEAD])
    assert (np.diff(deviations, axis=0) >= -1e-9).all()
    assert (deviations[-1] > deviations[0] * 1.01).all()


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
    _, deviation = bandit.predict(LINE.X, 13.0 + AHEAD[-1])
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
        mean, deviation = bandit.predict(LINE.X, 12.0 + ahead)
        np.testing.assert_allclose(mean, 0.1 + k @ np.linalg.solve(A, seen.y - 0.1), atol=5e-3)
        variance = kernel.diag(at) - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))
        np.testing.assert_allclose(deviation, np.sqrt(variance), atol=5e-3)

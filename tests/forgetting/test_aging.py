from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.helpers.refusals import refused
from tests.oracles import loops
from tests.oracles.dense import Dense
from tvbandits import Bandit, Candidates, Dataset, Every, Options, Recipe, policies
from tvbandits.data import Source
from tvbandits.experts import CallableExpert
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.forgetting.aging import (
    Ages,
    Aging,
    Constant,
    DiscardAbove,
    Exponential,
    Linear,
    LogThreshold,
    ResetEvery,
    Wiener,
    Window,
    compose,
)
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.learned_rate import CONFIG, Predictions, learn_rate, rate_scale
from tvbandits.queries import RandomPoints
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import Array

modest = settings(deadline=None, max_examples=40)


def observed(t: list[float], source: list[int] | None = None) -> Dataset:
    n = len(t)
    return Dataset(np.zeros((n, 1)), t, np.zeros(n), np.full(n, 0.5), source)  # type: ignore[arg-type]


def ages(age: Array, told: int | None = None) -> Ages:
    """Of rewards told one after the other, the oldest first."""
    n = len(age)
    return Ages(age, np.arange(n)[::-1].copy(), n if told is None else told)


# Maps, and the effective variance by age, number of newer rewards and rewards told.
FORMULAS: list[tuple[Aging, Any]] = [
    (Constant(), lambda s, *_: s),
    (Exponential(0.9), lambda s, age, *_: s / 0.9**age),
    (Exponential(0.01), lambda s, age, *_: s / 0.01**age),
    (Linear(), lambda s, age, *_: s * (1 + age**2)),
    (Linear(0.3), lambda s, age, *_: s + s * (0.3 * age) ** 2),
    (Wiener(0.2), lambda s, age, *_: s + 0.2 * age),
    (Window(within=2.5), lambda s, age, *_: s if age < 2.5 else math.inf),
    (Window(last=2), lambda s, _age, newer, *_: s if newer < 2 else math.inf),
    (Window(last=3, within=2.0), lambda s, age, n, *_: s if n < 3 and age < 2.0 else math.inf),
    (ResetEvery(4), lambda s, _age, newer, told: s if newer < told % 4 else math.inf),
]


@pytest.mark.parametrize(("aging", "formula"), FORMULAS, ids=lambda part: str(part)[:24])
def test_aging_maps_match_formulas(aging: Aging, formula: Any) -> None:
    age = np.array([40.0, 7.25, 2.5, 2.0, 0.5, 0.0])
    variance = np.array([0.1, 2.0, 0.5, 1e-6, 3.0, 0.25])
    before = variance.copy()
    given = aging(variance, ages(age))
    told = len(age)
    expected = [formula(s, age[i], told - 1 - i, told) for i, s in enumerate(variance)]
    np.testing.assert_allclose(given, expected, rtol=1e-12)
    assert np.array_equal(variance, before)
    assert given[-1] == variance[-1]  # nothing has aged at age 0


# Who is newer, and how old.


@modest
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=15), st.integers(0, 9))
def test_ages_match_plain_count(rows: list[tuple[int, int]], now: int) -> None:
    t, source = [float(a) for a, _ in rows], [b for _, b in rows]
    made = Ages.of(observed(t, source), float(now))
    rewards = [i for i in range(len(t)) if source[i] == Source.REWARD]
    assert made.total == len(rewards)
    for i in range(len(t)):
        assert made.age[i] == max(now - t[i], 0.0)
        if source[i] == Source.REWARD:  # among equal times, the one told later is the newer
            newer = [j for j in rewards if (t[j], j) > (t[i], i)]
        else:  # an answer comes after the rewards of its own time
            newer = [j for j in rewards if t[j] > t[i]]
        assert made.newer[i] == len(newer)


def kept(aging: Aging, observations: Dataset, now: float) -> list[int]:
    effective = aging(observations.variance, Ages.of(observations, now))
    return np.flatnonzero(np.isfinite(effective)).tolist()


# Thresholds and compositions.


@modest
@given(
    st.lists(st.floats(0.01, 50.0), min_size=1, max_size=12),
    st.floats(0.0, 1e3),
    st.floats(0.0, 3.0),
)
def test_discard_above_keeps_newest_reward(times: list[float], later: float, limit: float) -> None:
    some = observed(times)
    aging = compose(Linear(), DiscardAbove(lambda _: limit))
    aged = Linear()(some.variance, Ages.of(some, 50.0 + later))
    newest = max(range(len(times)), key=lambda i: (times[i], i))
    expected = [i for i in range(len(times)) if i == newest or aged[i] <= limit]
    assert kept(aging, some, 50.0 + later) == expected


def test_discard_above_keeps_reward_at_threshold() -> None:
    """Discarded is what has a noise above it ([S] Algorithm 1, line 4)."""
    at, above = 0.3, np.nextafter(0.3, 1.0)
    aged = DiscardAbove(lambda _: 0.3)(np.array([at, above, at, 0.1]), ages(np.arange(4.0)[::-1]))
    assert aged.tolist() == [at, math.inf, at, 0.1]


def test_discard_above_passes_number_of_rewards() -> None:
    seen: list[int] = []

    def threshold(told: int) -> float:
        seen.append(told)
        return math.inf

    kept(DiscardAbove(threshold), observed([1, 2, 3, 3], [0, 0, 0, 1]), 4.0)
    assert seen == [3]
    with pytest.raises(ValueError, match=r"threshold\(2\) must be .*nan"):
        DiscardAbove(lambda _: math.nan)(np.ones(2), ages(np.zeros(2)))


def test_compose_applies_first_to_last() -> None:
    variance, some = np.array([1.0, 2.0]), ages(np.array([3.0, 0.0]))
    given = compose(Wiener(1.0), Linear(1.0))(variance, some)
    assert given.tolist() == [(1 + 3) * (1 + 9), 2.0]
    assert compose(Linear(1.0), Wiener(1.0))(variance, some).tolist() == [1 * (1 + 9) + 3, 2.0]
    assert compose(Linear(1.0), DiscardAbove(lambda _: 5.0))(variance, some)[0] == math.inf
    assert compose(DiscardAbove(lambda _: 5.0), Linear(1.0))(variance, some)[0] == 10.0
    refused(ValueError, "maps of a composition must be at least one, got none", compose)
    refused(ValueError, "a window needs last=", Window)


@pytest.mark.parametrize("aging", [Linear(1e308), Wiener(1e308), Exponential(1e-30)])
def test_aging_beyond_float_is_infinite_without_warning(aging: Aging) -> None:
    assert aging(np.array([1.0, 1.0]), ages(np.array([20.0, 0.0]))).tolist() == [math.inf, 1.0]


# --- event-triggered resets, against the paper's algorithm written plainly

DOMAIN = Candidates(np.sort(np.random.default_rng(5).uniform(0, 10, 60))[:, None])
KERNEL, NOISE, DELTA, BETA = RBF(1.3), 0.02, 0.1, 2.0


def reward(X: Array, t: float) -> Array:
    """A hill that jumps every 40 steps."""
    return np.asarray(1.5 * np.exp(-((X[:, 0] - 2.0 - 3.0 * (t // 40 % 3)) ** 2)))


def told(X: Array, t: float) -> Array:
    return reward(X, t) + math.sqrt(NOISE) * keyed_normal(0, 1, X, t)


def dense(X: Array, y: Array, at: Array) -> tuple[Array, Array]:
    """Mean and deviation."""
    oracle = Dense(KERNEL, X, y[:, None], np.full(len(y), NOISE))
    return oracle.mean(at)[:, 0], oracle.deviation(at)


def plain(points: list[float]) -> list[int]:
    """The algorithm of the paper: the steps whose reward was an event, as it plays the points.

    Each has the largest bound, or ties with it: which of those is played is a draw.
    """
    X, y = np.empty((0, 1)), np.empty(0)
    events = []
    for t, point in enumerate(points, start=1):
        mean, deviation = dense(X, y, DOMAIN.X)
        bound, x = mean + BETA * deviation, np.array([[point]])
        assert bound[DOMAIN.index(x)[0]] >= (1 - 1e-9) * bound.max(), f"step {t}"
        value = told(x, float(t))
        (mu,), (sigma,) = dense(X, y, x)
        n = len(y) + 1
        pi = math.pi**2 * n**2 / 6
        rho = 2 * math.log(2 * pi / DELTA)
        w = math.sqrt(2 * NOISE * math.log(2 * pi / DELTA))
        if len(y) and abs(value[0] - mu) > math.sqrt(rho) * sigma + w:
            events.append(t)
            X, y = np.empty((0, 1)), np.empty(0)
        X, y = np.vstack([X, x]), np.append(y, value)
    return events


def make(**parts: Any) -> Bandit:
    return policies.et_gp_ucb(
        DOMAIN,
        kernel=KERNEL,
        noise_variance=NOISE,
        delta=DELTA,
        beta=BETA,
        seed=0,
        **parts,
        options=Options(mean=0.0),
    )


def play(bandit: Bandit, first: int, last: int) -> tuple[list[float], list[int]]:
    """The points, and the steps whose reward was an event."""
    resets = []

    def reward(x: Array, t: float) -> Array:
        resets.append(bandit.info.model.resets)
        return told(x, t)

    points = loops.play(bandit, reward, range(first, last + 1))
    resets.append(bandit.info.model.resets)
    return points[:, 0].tolist(), (first + np.flatnonzero(np.diff(resets))).tolist()


def test_event_trigger_follows_paper() -> None:
    points, events = play(make(), 1, 150)
    assert len(events) >= 3  # else nothing is tested
    assert events == plain(points)


def test_event_trigger_threshold() -> None:
    trigger = EventTrigger(0.1)
    rho = 2 * math.log(2 * (math.pi**2 * 49 / 6) / 0.1)
    limit = math.sqrt(rho) * 0.3 + math.sqrt(rho * 0.04)
    assert trigger(limit * 1.0001, 0.3, 0.04, 7)
    assert not trigger(limit * 0.9999, 0.3, 0.04, 7)


def test_late_reward_triggers_no_event() -> None:
    bandit = make()
    x = DOMAIN.X[[30]]
    bandit.tell(np.vstack([x, x]), [0.1, 0.12], [1.0, 2.0])
    bandit.tell(x, [9.0], 1.5)
    assert bandit.info.model.resets == 0
    bandit.tell(x, [90.0], 2.0)  # at the latest time it is
    assert bandit.info.model.resets == 1


def test_event_within_batch() -> None:
    bandit = make()
    x = DOMAIN.X[[30]]
    bandit.tell(np.vstack([x, x]), [0.1, 0.12], [1.0, 2.0])
    bandit.tell(np.vstack([x, x, x]), [0.1, 9.0, 9.1], [3.0, 4.0, 5.0])
    bandit.ask()
    assert (bandit.info.model.resets, bandit.info.posterior.in_use) == (1, 2)


@pytest.mark.parametrize("most", [None, 3])
def test_event_forgets_answers(most: int | None) -> None:
    query_config = QueryConfig(
        RandomPoints(1), None, pool="domain", reuse_answers=True, most_answers=most
    )
    bandit = Bandit(replace(make().recipe, query_config=query_config))
    bandit.tell(DOMAIN.X[[30]], [0.1], 1)
    bandit.answer(DOMAIN.X[[10, 40]], [0.2, 0.3], 1.0)
    bandit.tell(DOMAIN.X[[30]], [9.0], 2)
    bandit.answer(DOMAIN.X[[11, 41]], [0.2, 0.3], 2.0)
    bandit.ask(3)
    # In use are the event and what was answered since, whatever was there and is not kept.
    assert (bandit.info.model.resets, bandit.info.posterior.in_use) == (1, 3)


# --- how fast observations age, learned by prediction: against plain loops and brute force

KERNEL_LEARNED_RATE = ConstantKernel(0.9) * RBF(0.8)

# Variance of one reward, of its variance, age, number of newer rewards and number told.
Effective = Callable[[float, float, int, int], float]


def log_threshold(v: float, newer: int, told: int) -> float:
    return v if v <= 0.4 * math.log(told) or newer == 0 else math.inf


MAPS: dict[str, tuple[Any, Effective]] = {
    "never": (Constant(), lambda v, _a, _n, _t: v),
    "discarded": (
        compose(Linear(0.5), DiscardAbove(LogThreshold(0.4))),
        lambda v, a, n, t: log_threshold(v * (1 + (0.5 * a) ** 2), n, t),
    ),
    "exponential in a span": (
        compose(Window(within=6.0), Exponential(0.9)),
        lambda v, a, _n, _t: v / 0.9**a if a < 6.0 else math.inf,
    ),
    "resets": (
        compose(Wiener(0.1), ResetEvery(5)),
        # Reward number t - n (from 1) is kept in the block that the next one belongs to.
        lambda v, a, n, t: v + 0.1 * a if (t - n - 1) // 5 == t // 5 else math.inf,
    ),
}


def sample(n: int, seed: int, rate: float = 20.0, noise: float = 0.05) -> Dataset:
    """Rewards at uneven times (some of them equal), which drift with the time scale `rate`."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, (n, 2))
    t = np.cumsum(rng.choice([0.0, 1.0, 1.0, 2.5], n))
    K = KERNEL_LEARNED_RATE(X) * np.exp(-np.abs(t[:, None] - t) / rate)
    variance = noise * rng.uniform(0.5, 2.0, n)
    y = np.linalg.cholesky(K + np.diag(variance)) @ rng.standard_normal(n)
    return Dataset(X, t, y, variance)


def restated(
    kernel: Any, rewards: Dataset, effective: Effective, parts: tuple[float, float, int]
) -> float:
    """Each of the latest rewards from at most 30 before it, one after the other, by plain algebra."""
    centre, scale, told = parts
    n, total = len(rewards), 0.0
    for i in range(max(n - CONFIG.targets, 1), n):
        earlier = range(max(i - CONFIG.predictors, 0), i)
        noise = {
            j: effective(
                float(rewards.variance[j]),
                float(rewards.t[i] - rewards.t[j]),
                i - 1 - j,
                told - n + i,
            )
            for j in earlier
        }
        rows = [j for j in earlier if math.isfinite(noise[j])]
        mean, variance = centre, scale**2 * float(kernel(rewards.X[[i]])[0, 0])
        if rows:
            A = scale**2 * kernel(rewards.X[rows]) + np.diag([noise[j] for j in rows])
            k = scale**2 * kernel(rewards.X[[i]], rewards.X[rows])[0]
            mean += k @ np.linalg.solve(A, rewards.y[rows] - centre)
            variance -= k @ np.linalg.solve(A, k)
        variance += rewards.variance[i]
        # The density of the standardised reward: scale times that of the reward.
        total += -0.5 * (rewards.y[i] - mean) ** 2 / variance
        total += -0.5 * math.log(2 * math.pi * variance) + math.log(scale)
    return float(total)


# --- the score ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("n", [2, 9, 41, 70])
def test_predictions_match_plain_loop(name: str, n: int) -> None:
    each, effective = MAPS[name]
    rewards = sample(n, 1)
    for centre, scale, told in ((0.0, 1.0, n), (0.4, 2.5, n + 13)):
        score = Predictions(KERNEL_LEARNED_RATE, rewards, centre, scale, total=told)
        expected = restated(KERNEL_LEARNED_RATE, rewards, effective, (centre, scale, told))
        assert score(each) == pytest.approx(expected, rel=1e-9)


def test_predictions_ignore_time_of_kernel() -> None:
    still, rewards = OnSpace(RBF(0.8)), sample(30, 2)
    moving = still * OnTime(Matern(2.0, nu=0.5))
    score = Predictions(moving, rewards, 0.0, 1.0, total=30)
    expected = Predictions(still, rewards, 0.0, 1.0, total=30)
    assert score(Wiener(0.2)) == pytest.approx(expected(Wiener(0.2)), rel=1e-12)
    assert inputs(moving, rewards.X, rewards.t).shape == (30, 3)


def test_learn_rate_with_little_noise() -> None:
    rewards = Dataset(
        np.ones((20, 2)), np.arange(20.0), np.sin(np.arange(20.0)), np.full(20, 1e-18)
    )
    for each, _ in MAPS.values():
        assert math.isfinite(Predictions(KERNEL_LEARNED_RATE, rewards, 0.0, 1.0, total=20)(each))
    rate = learn_rate(Exponential(0.9), KERNEL_LEARNED_RATE, rewards, 0.0, 1.0)
    assert CONFIG.slowest <= rate <= CONFIG.fastest


# --- the forgetting rate -----------------------------------------------------------------------

PACED: dict[str, Any] = {
    "wiener": Wiener(0.5),
    "linear": Linear(1.0),
    "exponential": Exponential(0.95),
    "discarded": compose(Linear(1.0), DiscardAbove(LogThreshold(0.4))),
    "in a window": compose(Window(last=12), Wiener(0.5)),
}


@pytest.mark.parametrize("rate", [3.0, 100.0])
@pytest.mark.parametrize("name", PACED)
def test_learn_rate_matches_brute_force(name: str, rate: float) -> None:
    each, scale = PACED[name], 1.3
    for seed in range(2):
        rewards = sample(80, seed, rate)
        learned = learn_rate(each, KERNEL_LEARNED_RATE, rewards, 0.1, scale)
        unit = rate_scale(each, scale)
        assert CONFIG.slowest * unit * 0.999 <= learned <= CONFIG.fastest * unit * 1.001
        kept = rewards.take(slice(-(CONFIG.targets + CONFIG.predictors), None))
        gone = len(rewards) - len(kept)  # who keeps no more learns the same
        assert learn_rate(each, KERNEL_LEARNED_RATE, kept, 0.1, scale, gone) == learned
        score = Predictions(KERNEL_LEARNED_RATE, kept, 0.1, scale, total=80)
        grid = np.geomspace(CONFIG.slowest * unit, CONFIG.fastest * unit, 120)
        best = max(score(each.at_rate(float(x))) for x in grid)
        # A threshold makes the score jump wherever a reward is discarded.
        assert score(each.at_rate(learned)) > best - (1.5 if name == "discarded" else 0.1)
        # Where the score tells rates apart, it is no accident.
        assert best - score(each.at_rate(float(grid[-1]))) > 1.0


def test_learn_rate_of_few_rewards_is_none() -> None:
    assert (
        learn_rate(Wiener(0.5), KERNEL_LEARNED_RATE, sample(CONFIG.fewest - 1, 0), 0.0, 1.0) is None
    )
    assert (
        learn_rate(Wiener(0.5), KERNEL_LEARNED_RATE, sample(CONFIG.fewest, 0), 0.0, 1.0) is not None
    )


@pytest.mark.parametrize("each", [Constant(), compose(Window(last=5))], ids=str)
def test_learn_without_pace_is_refused(each: Any) -> None:
    parts: Any = (DOMAIN_LEARNED_RATE, RBF(0.8), 0.01)
    with pytest.raises(ValueError, match=r"learn= needs a kernel .* got aging="):
        Recipe(*parts, aging=each, learn=LEARN)
    assert Recipe(*parts, aging=compose(each, Linear(0.1)), learn=LEARN).learn is LEARN


def test_rate_unit_of_own_map() -> None:
    @dataclass(frozen=True)
    class Steps:
        """A variance for every reward that is newer."""

        forgetting_rate: float
        adds_variance = True

        def __call__(self, variance: Array, ages: Ages) -> Array:
            return np.asarray(variance + self.forgetting_rate * ages.newer)

        def at_rate(self, rate: float) -> Steps:
            return Steps(rate)

    assert rate_scale(Steps(0.1), 7.0) == rate_scale(compose(Constant(), Steps(0.1)), 7.0) == 49.0
    assert learn_rate(Steps(0.1), KERNEL_LEARNED_RATE, sample(60, 3), 0.0, 1.3) is not None


@pytest.mark.parametrize(("step", "unit"), [(86400.0, 1.0), (1e-3, 1.0), (1.0, 2.0**10)])
@pytest.mark.parametrize("name", ["wiener", "linear", "exponential"])
def test_learn_rate_follows_units(name: str, step: float, unit: float) -> None:
    rewards, aging = sample(60, 3), PACED[name]
    scaled = Dataset(rewards.X, step * rewards.t, unit * rewards.y, unit**2 * rewards.variance)
    one = learn_rate(aging, KERNEL_LEARNED_RATE, rewards, 0.1, 1.3)
    other = learn_rate(aging, KERNEL_LEARNED_RATE, scaled, 0.1 * unit, 1.3 * unit)
    assert other * step == pytest.approx(one * (unit**2 if name == "wiener" else 1.0), rel=1e-4)
    assert one < CONFIG.fastest * rate_scale(aging, 1.3)  # so that a limit would be seen


# --- in a bandit ----------------------------------------------------------------------------------

DOMAIN_LEARNED_RATE = Candidates.grid([[0, 3]], 10)
LEARN = Every(steps=10, first=(8,))


def value(X: Array, t: float) -> Array:
    return np.asarray(np.sin(2.0 * X[:, 0] + t / 4.0))


def recipe(name: str, unit: float = 1.0, learn: Any = LEARN) -> Bandit:
    noise = 0.01 * unit**2
    parts: Any = {"domain": DOMAIN_LEARNED_RATE, "kernel": RBF(0.8), "noise_variance": noise}
    if name == "sparq":
        expert = CallableExpert(lambda X, t: unit * value(X, t), 0.01 * unit**2)
        return policies.sparq_gp_ucb(**parts, expert=expert, forgetting_rate=learn)
    if name == "w":
        return policies.w_gp_ucb(**parts, discount=learn)
    return policies.ui_gp_ucb(**parts, forgetting_rate=learn)


NAMES = ["ui", "w", "sparq"]


def play_learned_rate(bandit: Bandit, times: range, unit: float = 1.0) -> Array:
    def reward(x: Array, t: float) -> Array:
        return unit * (value(x, t) + 0.1 * np.random.default_rng(int(t)).standard_normal())

    return loops.play(bandit, reward, times)


@pytest.mark.parametrize("name", NAMES)
def test_bandit_learns_pace(name: str) -> None:
    bandit = recipe(name)
    play_learned_rate(bandit, range(1, 8))
    assert math.isnan(bandit.info.model.forgetting_rate)
    assert bandit.state.model.aging == bandit.recipe.aging
    for stop, fits in ((8, 1), (9, 1), (10, 2), (20, 3)):
        play_learned_rate(bandit, range(len(bandit.state.rewards) + 1, stop + 1))
        assert bandit.info.model.fits == fits
        state = bandit.state
        assert state.model.aging.forgetting_rate == bandit.info.model.forgetting_rate  # type: ignore[attr-defined]
        assert state.model.aging == bandit.recipe.aging.at_rate(bandit.info.model.forgetting_rate)  # type: ignore[attr-defined]
        assert state.model.kernel is bandit.recipe.kernel


@pytest.mark.parametrize("name", NAMES)
def test_learn_rate_of_late_reward_is_same(name: str) -> None:
    early, late = recipe(name), recipe(name)
    X = DOMAIN_LEARNED_RATE.X[[1, 4, 2, 8, 5, 3, 7, 0, 6, 2]]
    y = np.concatenate([value(X[[i]], float(i)) for i in range(10)])
    order = [0, 1, 2, 9, 4, 5, 6, 7, 8, 3]
    for bandit, rows in ((early, list(range(10))), (late, order)):
        bandit.tell(X[rows], y[rows], np.array(rows, float))
    assert late.info.model.forgetting_rate == pytest.approx(
        early.info.model.forgetting_rate, rel=1e-6
    )


def test_stated_pace_is_kept_and_other_map_has_its_own() -> None:
    bandit = recipe("ui")
    play_learned_rate(bandit, range(1, 15))
    parts: Any = {"domain": DOMAIN_LEARNED_RATE, "kernel": RBF(0.8), "noise_variance": 0.01}
    given = policies.ui_gp_ucb(**parts, forgetting_rate=0.3)
    play_learned_rate(given, range(1, 15))
    assert given.info.model.fits == 0
    assert given.state.model.aging == given.recipe.aging
    with pytest.raises(ValueError, match="never"):
        policies.ui_gp_ucb(**parts, forgetting_rate="never")  # type: ignore[arg-type]
    for other in (recipe("w"), policies.gp_ucb(**parts), given):
        taken = Bandit.from_state(other.recipe, bandit.state)
        assert taken.state.model.aging == other.recipe.aging
        assert math.isnan(taken.info.model.forgetting_rate)


def test_info_has_pace_of_map() -> None:
    # Steps so short that a discount per unit of time leaves the range of a float: it stays in it.
    bandit = recipe("w")
    y = np.random.default_rng(0).standard_normal(12)
    bandit.tell(DOMAIN_LEARNED_RATE.X[np.arange(12) % 2], y, 1e-4 * np.arange(12))
    assert bandit.info.model.fits == 1
    assert bandit.info.model.forgetting_rate == bandit.state.model.aging.forgetting_rate == 700.0  # type: ignore[attr-defined]

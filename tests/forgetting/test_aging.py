from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.helpers.refusals import assert_refused
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


def data_at(t: list[float], source: list[int] | None = None) -> Dataset:
    n = len(t)
    return Dataset(np.zeros((n, 1)), t, np.zeros(n), np.full(n, 0.5), source)  # type: ignore[arg-type]


def ages(age: Array, total: int | None = None) -> Ages:
    """Return ages of rewards told one after the other, the oldest first."""
    n = len(age)
    return Ages(age, np.arange(n)[::-1].copy(), n if total is None else total)


# Forgetting rules, and the effective variance by age, number of newer rewards and of all rewards.
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
    (
        ResetEvery(4),
        lambda s, _age, newer, noisy_reward: s if newer < noisy_reward % 4 else math.inf,
    ),
]


@pytest.mark.parametrize(("aging", "formula"), FORMULAS, ids=lambda part: str(part)[:24])
def test_aging_rules_match_their_formulas(aging: Aging, formula: Any) -> None:
    age = np.array([40.0, 7.25, 2.5, 2.0, 0.5, 0.0])
    variance = np.array([0.1, 2.0, 0.5, 1e-6, 3.0, 0.25])
    before = variance.copy()
    result = aging(variance, ages(age))
    total = len(age)
    expected = [formula(s, age[i], total - 1 - i, total) for i, s in enumerate(variance)]
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert np.array_equal(variance, before)
    assert result[-1] == variance[-1]  # the variance at age 0 is unchanged


# Ages, and numbers of newer rewards.


@modest
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=15), st.integers(0, 9))
def test_ages_match_a_plain_count(rows: list[tuple[int, int]], now: int) -> None:
    t, source = [float(a) for a, _ in rows], [b for _, b in rows]
    ages_of_rows = Ages.of(data_at(t, source), float(now))
    rewards = [i for i in range(len(t)) if source[i] == Source.REWARD]
    assert ages_of_rows.total == len(rewards)
    for i in range(len(t)):
        assert ages_of_rows.age[i] == max(now - t[i], 0.0)
        if source[i] == Source.REWARD:  # at equal times, the later row is newer
            newer = [j for j in rewards if (t[j], j) > (t[i], i)]
        else:  # an answer comes after the rewards of its own time
            newer = [j for j in rewards if t[j] > t[i]]
        assert ages_of_rows.newer[i] == len(newer)


def rows_in_use(aging: Aging, observations: Dataset, now: float) -> list[int]:
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
    data = data_at(times)
    aging = compose(Linear(), DiscardAbove(lambda _: limit))
    aged = Linear()(data.variance, Ages.of(data, 50.0 + later))
    newest = max(range(len(times)), key=lambda i: (times[i], i))
    expected = [i for i in range(len(times)) if i == newest or aged[i] <= limit]
    assert rows_in_use(aging, data, 50.0 + later) == expected


def test_discard_above_keeps_reward_at_threshold() -> None:
    """Only noise above the threshold is discarded ([S] Algorithm 1, line 4)."""
    at, above = 0.3, np.nextafter(0.3, 1.0)
    aged = DiscardAbove(lambda _: 0.3)(np.array([at, above, at, 0.1]), ages(np.arange(4.0)[::-1]))
    assert aged.tolist() == [at, math.inf, at, 0.1]


def test_discard_above_passes_the_number_of_rewards() -> None:
    counts: list[int] = []

    def threshold(count: int) -> float:
        counts.append(count)
        return math.inf

    rows_in_use(DiscardAbove(threshold), data_at([1, 2, 3, 3], [0, 0, 0, 1]), 4.0)
    assert counts == [3]
    with pytest.raises(ValueError, match=r"threshold\(2\) must be .*nan"):
        DiscardAbove(lambda _: math.nan)(np.ones(2), ages(np.zeros(2)))


def test_compose_applies_rules_from_first_to_last() -> None:
    variance, ages_of_two = np.array([1.0, 2.0]), ages(np.array([3.0, 0.0]))
    result = compose(Wiener(1.0), Linear(1.0))(variance, ages_of_two)
    assert result.tolist() == [(1 + 3) * (1 + 9), 2.0]
    assert compose(Linear(1.0), Wiener(1.0))(variance, ages_of_two).tolist() == [
        1 * (1 + 9) + 3,
        2.0,
    ]
    assert compose(Linear(1.0), DiscardAbove(lambda _: 5.0))(variance, ages_of_two)[0] == math.inf
    assert compose(DiscardAbove(lambda _: 5.0), Linear(1.0))(variance, ages_of_two)[0] == 10.0
    assert_refused(ValueError, "a composition needs at least one aging map, got none", compose)
    assert_refused(ValueError, "a window needs last=", Window)


@pytest.mark.parametrize("aging", [Linear(1e308), Wiener(1e308), Exponential(1e-30)])
def test_aging_that_overflows_is_infinite_without_a_warning(aging: Aging) -> None:
    assert aging(np.array([1.0, 1.0]), ages(np.array([20.0, 0.0]))).tolist() == [math.inf, 1.0]


# --- event-triggered resets, against a plain restatement of the paper

DOMAIN = Candidates(np.sort(np.random.default_rng(5).uniform(0, 10, 60))[:, None])
KERNEL, NOISE, DELTA, BETA = RBF(1.3), 0.02, 0.1, 2.0


def reward(X: Array, t: float) -> Array:
    """Return a hill that jumps every 40 steps."""
    return np.asarray(1.5 * np.exp(-((X[:, 0] - 2.0 - 3.0 * (t // 40 % 3)) ** 2)))


def noisy_reward(X: Array, t: float) -> Array:
    return reward(X, t) + math.sqrt(NOISE) * keyed_normal(0, 1, X, t)


def dense(X: Array, y: Array, at: Array) -> tuple[Array, Array]:
    """Return mean and deviation by dense algebra."""
    oracle = Dense(KERNEL, X, y[:, None], np.full(len(y), NOISE))
    return oracle.mean(at)[:, 0], oracle.deviation(at)


def plain_events(points: list[float]) -> list[int]:
    """Return the steps whose reward is an event in the algorithm of the paper.

    Each point has the largest bound or ties with it, as ties are broken at random.
    """
    X, y = np.empty((0, 1)), np.empty(0)
    events = []
    for t, point in enumerate(points, start=1):
        mean, deviation = dense(X, y, DOMAIN.X)
        bound, x = mean + BETA * deviation, np.array([[point]])
        assert bound[DOMAIN.index(x)[0]] >= (1 - 1e-9) * bound.max(), f"step {t}"
        value = noisy_reward(x, float(t))
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
    """Return the points, and the steps whose reward was an event."""
    resets = []

    def reward(x: Array, t: float) -> Array:
        resets.append(bandit.info.model.resets)
        return noisy_reward(x, t)

    points = loops.play(bandit, reward, range(first, last + 1))
    resets.append(bandit.info.model.resets)
    return points[:, 0].tolist(), (first + np.flatnonzero(np.diff(resets))).tolist()


def test_event_trigger_matches_the_paper() -> None:
    points, events = play(make(), 1, 150)
    assert len(events) >= 3  # otherwise the test has no content
    assert events == plain_events(points)


def test_event_trigger_has_the_threshold_of_the_paper() -> None:
    trigger = EventTrigger(0.1)
    rho = 2 * math.log(2 * (math.pi**2 * 49 / 6) / 0.1)
    limit = math.sqrt(rho) * 0.3 + math.sqrt(rho * 0.04)
    assert trigger(limit * 1.0001, 0.3, 0.04, 7)
    assert not trigger(limit * 0.9999, 0.3, 0.04, 7)


def test_event_trigger_ignores_a_late_reward() -> None:
    bandit = make()
    x = DOMAIN.X[[30]]
    bandit.tell(np.vstack([x, x]), [0.1, 0.12], [1.0, 2.0])
    bandit.tell(x, [9.0], 1.5)
    assert bandit.info.model.resets == 0
    bandit.tell(x, [90.0], 2.0)  # a reward at the latest time triggers one
    assert bandit.info.model.resets == 1


def test_event_trigger_resets_within_a_batch() -> None:
    bandit = make()
    x = DOMAIN.X[[30]]
    bandit.tell(np.vstack([x, x]), [0.1, 0.12], [1.0, 2.0])
    bandit.tell(np.vstack([x, x, x]), [0.1, 9.0, 9.1], [3.0, 4.0, 5.0])
    bandit.ask()
    assert (bandit.info.model.resets, bandit.info.posterior.in_use) == (1, 2)


@pytest.mark.parametrize("most", [None, 3])
def test_event_trigger_forgets_earlier_answers(most: int | None) -> None:
    query_config = QueryConfig(
        RandomPoints(1), None, pool="domain", reuse_answers=True, most_answers=most
    )
    bandit = Bandit(replace(make().recipe, query_config=query_config))
    bandit.tell(DOMAIN.X[[30]], [0.1], 1)
    bandit.answer(DOMAIN.X[[10, 40]], [0.2, 0.3], 1.0)
    bandit.tell(DOMAIN.X[[30]], [9.0], 2)
    bandit.answer(DOMAIN.X[[11, 41]], [0.2, 0.3], 2.0)
    bandit.ask(3)
    # In use are the reward of the event and the answers since, but no earlier answer.
    assert (bandit.info.model.resets, bandit.info.posterior.in_use) == (1, 3)


# --- the forgetting rate, learned by prediction: against plain loops and brute force

KERNEL_LEARNED_RATE = ConstantKernel(0.9) * RBF(0.8)

# (variance, age, number of newer rewards, number of all rewards) -> effective variance.
Effective = Callable[[float, float, int, int], float]


def log_threshold(v: float, newer: int, total: int) -> float:
    return v if v <= 0.4 * math.log(total) or newer == 0 else math.inf


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
        # Reward number t - n (from 1) is in use if it is in the block of the next one.
        lambda v, a, n, t: v + 0.1 * a if (t - n - 1) // 5 == t // 5 else math.inf,
    ),
}


def sample(n: int, seed: int, rate: float = 20.0, noise: float = 0.05) -> Dataset:
    """Return rewards at uneven times (some of them equal), which drift with the time scale `rate`."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, (n, 2))
    t = np.cumsum(rng.choice([0.0, 1.0, 1.0, 2.5], n))
    K = KERNEL_LEARNED_RATE(X) * np.exp(-np.abs(t[:, None] - t) / rate)
    variance = noise * rng.uniform(0.5, 2.0, n)
    y = np.linalg.cholesky(K + np.diag(variance)) @ rng.standard_normal(n)
    return Dataset(X, t, y, variance)


def plain_score(
    kernel: Any, rewards: Dataset, effective: Effective, parts: tuple[float, float, int]
) -> float:
    """Return the log score of the latest rewards, each predicted from at most 30 before it."""
    centre, scale, total_count = parts
    n, total = len(rewards), 0.0
    for i in range(max(n - CONFIG.targets, 1), n):
        earlier = range(max(i - CONFIG.predictors, 0), i)
        noise = {
            j: effective(
                float(rewards.variance[j]),
                float(rewards.t[i] - rewards.t[j]),
                i - 1 - j,
                total_count - n + i,
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
def test_predictions_match_a_plain_loop(name: str, n: int) -> None:
    each, effective = MAPS[name]
    rewards = sample(n, 1)
    for centre, scale, count in ((0.0, 1.0, n), (0.4, 2.5, n + 13)):
        score = Predictions(KERNEL_LEARNED_RATE, rewards, centre, scale, total=count)
        expected = plain_score(KERNEL_LEARNED_RATE, rewards, effective, (centre, scale, count))
        assert score(each) == pytest.approx(expected, rel=1e-9)


def test_predictions_ignore_the_time_kernel() -> None:
    still, rewards = OnSpace(RBF(0.8)), sample(30, 2)
    moving = still * OnTime(Matern(2.0, nu=0.5))
    score = Predictions(moving, rewards, 0.0, 1.0, total=30)
    expected = Predictions(still, rewards, 0.0, 1.0, total=30)
    assert score(Wiener(0.2)) == pytest.approx(expected(Wiener(0.2)), rel=1e-12)
    assert inputs(moving, rewards.X, rewards.t).shape == (30, 3)


def test_learn_rate_is_within_limits_under_tiny_noise() -> None:
    rewards = Dataset(
        np.ones((20, 2)), np.arange(20.0), np.sin(np.arange(20.0)), np.full(20, 1e-18)
    )
    for each, _ in MAPS.values():
        assert math.isfinite(Predictions(KERNEL_LEARNED_RATE, rewards, 0.0, 1.0, total=20)(each))
    rate = learn_rate(Exponential(0.9), KERNEL_LEARNED_RATE, rewards, 0.0, 1.0)
    assert CONFIG.slowest <= rate <= CONFIG.fastest


# --- the forgetting rate -----------------------------------------------------------------------

RATED: dict[str, Any] = {
    "wiener": Wiener(0.5),
    "linear": Linear(1.0),
    "exponential": Exponential(0.95),
    "discarded": compose(Linear(1.0), DiscardAbove(LogThreshold(0.4))),
    "in a window": compose(Window(last=12), Wiener(0.5)),
}


@pytest.mark.parametrize("rate", [3.0, 100.0])
@pytest.mark.parametrize("name", RATED)
def test_learn_rate_matches_brute_force(name: str, rate: float) -> None:
    each, scale = RATED[name], 1.3
    for seed in range(2):
        rewards = sample(80, seed, rate)
        result = learn_rate(each, KERNEL_LEARNED_RATE, rewards, 0.1, scale)
        unit = rate_scale(each, scale)
        assert CONFIG.slowest * unit * 0.999 <= result <= CONFIG.fastest * unit * 1.001
        latest = rewards.take(slice(-(CONFIG.targets + CONFIG.predictors), None))
        dropped_count = len(rewards) - len(latest)  # earlier rewards do not change the rate
        assert learn_rate(each, KERNEL_LEARNED_RATE, latest, 0.1, scale, dropped_count) == result
        score = Predictions(KERNEL_LEARNED_RATE, latest, 0.1, scale, total=80)
        grid = np.geomspace(CONFIG.slowest * unit, CONFIG.fastest * unit, 120)
        best = max(score(each.at_rate(float(x))) for x in grid)
        # A threshold makes the score jump wherever a reward is discarded.
        assert score(each.at_rate(result)) > best - (1.5 if name == "discarded" else 0.1)
        # The score depends on the rate.
        assert best - score(each.at_rate(float(grid[-1]))) > 1.0


def test_learn_rate_of_few_rewards_is_none() -> None:
    assert (
        learn_rate(Wiener(0.5), KERNEL_LEARNED_RATE, sample(CONFIG.fewest - 1, 0), 0.0, 1.0) is None
    )
    assert (
        learn_rate(Wiener(0.5), KERNEL_LEARNED_RATE, sample(CONFIG.fewest, 0), 0.0, 1.0) is not None
    )


@pytest.mark.parametrize("each", [Constant(), compose(Window(last=5))], ids=str)
def test_recipe_refuses_to_learn_a_rule_without_a_rate(each: Any) -> None:
    parts: Any = (DOMAIN_LEARNED_RATE, RBF(0.8), 0.01)
    with pytest.raises(ValueError, match=r"learn= needs a kernel .* got aging="):
        Recipe(*parts, aging=each, learn=LEARN)
    assert Recipe(*parts, aging=compose(each, Linear(0.1)), learn=LEARN).learn is LEARN


def test_rate_scale_of_a_custom_rule_that_adds_variance_is_squared() -> None:
    @dataclass(frozen=True)
    class Steps:
        """A rule that adds a variance for every newer reward."""

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
    rewards, aging = sample(60, 3), RATED[name]
    scaled = Dataset(rewards.X, step * rewards.t, unit * rewards.y, unit**2 * rewards.variance)
    one = learn_rate(aging, KERNEL_LEARNED_RATE, rewards, 0.1, 1.3)
    other = learn_rate(aging, KERNEL_LEARNED_RATE, scaled, 0.1 * unit, 1.3 * unit)
    assert other * step == pytest.approx(one * (unit**2 if name == "wiener" else 1.0), rel=1e-4)
    assert one < CONFIG.fastest * rate_scale(aging, 1.3)  # the result is not at the limit


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
def test_bandit_learns_the_forgetting_rate_on_schedule(name: str) -> None:
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
def test_learned_rate_ignores_the_order_of_rewards(name: str) -> None:
    early, late = recipe(name), recipe(name)
    X = DOMAIN_LEARNED_RATE.X[[1, 4, 2, 8, 5, 3, 7, 0, 6, 2]]
    y = np.concatenate([value(X[[i]], float(i)) for i in range(10)])
    order = [0, 1, 2, 9, 4, 5, 6, 7, 8, 3]
    for bandit, rows in ((early, list(range(10))), (late, order)):
        bandit.tell(X[rows], y[rows], np.array(rows, float))
    assert late.info.model.forgetting_rate == pytest.approx(
        early.info.model.forgetting_rate, rel=1e-6
    )


def test_from_state_with_another_rule_takes_its_own_rate() -> None:
    bandit = recipe("ui")
    play_learned_rate(bandit, range(1, 15))
    parts: Any = {"domain": DOMAIN_LEARNED_RATE, "kernel": RBF(0.8), "noise_variance": 0.01}
    with_given_rate = policies.ui_gp_ucb(**parts, forgetting_rate=0.3)
    play_learned_rate(with_given_rate, range(1, 15))
    assert with_given_rate.info.model.fits == 0
    assert with_given_rate.state.model.aging == with_given_rate.recipe.aging
    with pytest.raises(ValueError, match="never"):
        policies.ui_gp_ucb(**parts, forgetting_rate="never")  # type: ignore[arg-type]
    for other in (recipe("w"), policies.gp_ucb(**parts), with_given_rate):
        continued = Bandit.from_state(other.recipe, bandit.state)
        assert continued.state.model.aging == other.recipe.aging
        assert math.isnan(continued.info.model.forgetting_rate)


def test_info_reports_the_forgetting_rate_in_use() -> None:
    # In steps this short, the discount per unit of time would underflow, so that it is bounded.
    bandit = recipe("w")
    y = np.random.default_rng(0).standard_normal(12)
    bandit.tell(DOMAIN_LEARNED_RATE.X[np.arange(12) % 2], y, 1e-4 * np.arange(12))
    assert bandit.info.model.fits == 1
    assert bandit.info.model.forgetting_rate == bandit.state.model.aging.forgetting_rate == 700.0  # type: ignore[attr-defined]

"""Query plans besides k-DPPs, budgets, the pool of played points, and unreliable experts."""

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import chisquare
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests.helpers.refusals import assert_refused
from tests.oracles import loops
from tests.oracles.subsets import subsets
from tvbandits import (
    Answers,
    Bandit,
    Candidates,
    ExpertDownWarning,
    ExpertError,
    ExpertUnavailableError,
    policies,
)
from tvbandits.data import Dataset
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.experts.protocol import MISTAKES, inform
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.queries.plans import (
    CONFIG,
    KDPP,
    Following,
    LogSchedule,
    NextDecision,
    OnAverage,
    PerStep,
    PlausibleMaximizers,
    PlayedPool,
    Pool,
    RandomPoints,
    as_budget,
)
from tvbandits.validation import Array

N, NOISE = 9, 0.04
POINTS = np.random.default_rng(0).uniform(0, 4, (N, 1))
PRIOR = RBF(0.7)(POINTS)
MEAN = np.random.default_rng(1).normal(0, 0.4, N)
PLANS: list[Any] = [NextDecision, RandomPoints]


NO_TIES = np.sqrt(np.diag(PRIOR)) * np.linspace(1.0, 1.0001, N)


def joint_posterior(
    mean: Array = MEAN, beta: float = 2.0, K: Array = PRIOR, deviation: Array = NO_TIES
) -> JointPosterior:
    """Return the joint posterior of a prior that does not change with time."""
    return JointPosterior(
        mean,
        deviation,
        beta,
        NOISE,
        lambda rows, others=slice(None): K[list(rows)][:, others],
        lambda rows, others: K[np.ix_(list(rows), list(others))],
    )


def pool(count: int = 5, asked: int = 0, **parts: Any) -> Pool:
    return Pool(POINTS, count, lambda: PRIOR, joint_posterior(**parts), asked)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_random_points_are_uniform() -> None:
    draws = Counter(tuple(RandomPoints(3).choose(pool(), g)) for g in [rng()] for _ in range(8400))
    counts = np.array([draws[subset] for subset in subsets(N, 3)])
    assert counts.sum() == 8400  # every draw is a sorted subset
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("plan", PLANS)
def test_plans_select_as_many_points_as_their_budget(plan: Any) -> None:
    assert len(plan(0).choose(pool(), rng())) == 0
    for k in (N, N + 1, 100):
        np.testing.assert_array_equal(plan(k).choose(pool(), rng()), np.arange(N))
    for k in (1, 5):
        assert len(set(plan(k).choose(pool(), rng()).tolist())) == k
    # At 3 a step on average, 15 are allowed after five rewards, of which 11 are spent.
    assert len(plan(OnAverage(3.0)).choose(pool(5, 11), rng())) == 4
    assert len(plan(OnAverage(3.0)).choose(pool(5, 15), rng())) == 0


@pytest.mark.parametrize(("plan", "sizes"), [(NextDecision, (0, N)), (PlausibleMaximizers, (0,))])
def test_plans_use_the_posterior_only_if_they_have_a_choice(
    plan: Any, sizes: tuple[int, ...]
) -> None:
    pool_without_posterior = Pool(POINTS, 5, lambda: PRIOR, None)
    for k in sizes:
        assert len(plan(k).choose(pool_without_posterior, rng())) == k
    with pytest.raises(ValueError, match="uses the posterior"):
        plan(3).choose(pool_without_posterior, rng())


@pytest.mark.parametrize("plan", [NextDecision, PlausibleMaximizers])
def test_plans_break_ties_by_order_and_leave_the_posterior_unchanged(plan: Any) -> None:
    last_bits = 1e-14 * rng().standard_normal(N)
    posterior = joint_posterior(last_bits, K=np.eye(N), deviation=1.0 + last_bits)
    before = np.array([posterior.deviation, posterior.mean])
    rows = plan(5).choose(Pool(POINTS, 5, lambda: np.eye(N), posterior), rng())
    assert rows.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal([posterior.deviation, posterior.mean], before)


@pytest.mark.parametrize("plan", [*PLANS, PlausibleMaximizers])
def test_plans_refuse_a_negative_budget(plan: Any) -> None:
    with pytest.raises(ValueError, match=r"budget must .*-2"):
        plan(lambda count, spent: -2).choose(pool(), rng())  # noqa: ARG005


# --- plausible maximizers -------------------------------------------------------------------------


AMPLITUDE = np.random.default_rng(2).permutation(np.linspace(0.3, 1.7, N))
UNEVEN = AMPLITUDE[:, None] * PRIOR * AMPLITUDE


def uneven(asked: int = 0, mean: Array = MEAN, beta: float = 2.0) -> Pool:
    """Return a pool of points with different variances."""
    return Pool(POINTS, 5, lambda: UNEVEN, joint_posterior(mean, beta, UNEVEN, AMPLITUDE), asked)


def covariance_after(rows: list[int]) -> Array:
    """Return the covariance after answers about some points, by inversion."""
    if not rows:
        return UNEVEN
    K = UNEVEN[np.ix_(rows, rows)] + NOISE * np.eye(len(rows))
    return np.asarray(UNEVEN - UNEVEN[:, rows] @ np.linalg.inv(K) @ UNEVEN[rows])


def gain(row: int, rows: list[int], mean: Array, among: list[int]) -> float:
    """Return the mean increase of the best mean of some points by an answer about a point."""
    covariance = covariance_after(rows)
    moves = covariance[row] / np.sqrt(covariance[row, row] + NOISE)
    nodes, weights = hermegauss(9)
    total = 0.0
    for z, weight in zip(nodes, weights / weights.sum(), strict=True):
        total += weight * max(mean[j] + z * moves[j] for j in among)
    return float(max(total - max(mean[j] for j in among), 0.0))


def plain_choice(
    k: int, asked: int, mean: Array, beta: float, ties: Sequence[int] = ()
) -> list[int]:
    """Return the queries, selected one by one among all points.

    If gains differ by rounding alone, the choice in `ties` is accepted.
    """
    rows: list[int] = []
    while len(rows) < min(k, N):
        deviation = np.sqrt(np.diag(covariance_after(rows)))
        upper, lower = mean + beta * deviation, mean - beta * deviation
        plausible = [i for i in range(N) if upper[i] >= lower.max()]
        promise = mean + CONFIG.promise * deviation
        plausible.sort(key=lambda i: -promise[i])
        open_ = [i for i in plausible if i not in rows]
        if len(plausible) == 1 or not open_:
            break
        gains = {i: gain(i, rows, mean, plausible) for i in open_}
        best = max(open_, key=lambda i: gains[i])
        if len(ties) > len(rows) and gains.get(ties[len(rows)], -1.0) > gains[best] - 1e-12:
            best = ties[len(rows)]
        if (asked + len(rows) + 1) % CONFIG.discover_every == 0:
            best = max(open_, key=lambda i: deviation[i])
        rows.append(best)
    return rows


@given(
    seed=st.integers(0, 999),
    k=st.integers(0, 12),
    beta=st.floats(0.05, 3.0),
    asked=st.integers(0, 9),
)
@settings(deadline=None, max_examples=30)
def test_plausible_maximizers_match_a_plain_choice(
    seed: int, k: int, beta: float, asked: int
) -> None:
    mean = np.random.default_rng(seed).normal(0.0, 1.0, N)
    rows = PlausibleMaximizers(k).choose(uneven(asked, mean, beta), rng()).tolist()
    assert rows == plain_choice(k, asked, mean, beta, ties=rows)


@pytest.mark.parametrize("plan", [NextDecision, PlausibleMaximizers])
def test_plans_select_no_point_twice_under_large_noise(plan: Any) -> None:
    for seed in range(20):
        mean = np.random.default_rng(seed).normal(0.0, 0.1, N)
        posterior = replace(joint_posterior(mean, 2.0, UNEVEN, AMPLITUDE), noise_variance=50.0)
        for asked in range(CONFIG.discover_every):
            rows = plan(6).choose(Pool(POINTS, 5, lambda: UNEVEN, posterior, asked), rng())
            assert len(rows) == len({*rows.tolist()}) == 6


# --- budgets: never more than allowed, and the unused part stays available


@given(rate=st.floats(0, 20), wishes=st.lists(st.integers(0, 60), max_size=60))
def test_on_average_never_exceeds_its_rate(rate: float, wishes: list[int]) -> None:
    budget, spent = OnAverage(rate), 0
    for count, wish in enumerate(wishes, 1):
        allowed = budget(count, spent)
        # The budget allows all that remains.
        assert allowed == math.floor(rate * count + 1e-9) - spent >= 0
        spent += min(allowed, wish)
        assert spent <= rate * count + 1e-9


def test_on_average_does_not_lose_a_query_by_rounding() -> None:
    for hundredths in range(1, 100):
        assert OnAverage(hundredths / 100)(100, 0) == hundredths


def test_log_schedule_with_every_is_zero_at_other_decisions() -> None:
    always, seldom = LogSchedule(6.0), LogSchedule(6.0, every=5)
    assert [seldom(t) for t in range(1, 21)] == [0 if t % 5 else always(t) for t in range(1, 21)]


def test_as_budget_reads_a_number_as_queries_per_step() -> None:
    assert as_budget(3) == PerStep(3)
    budget = OnAverage(2.0)
    assert as_budget(budget) is budget


def test_following_budget_repeats_the_counts_of_a_run() -> None:
    budget = Following((0, 3, 2, 4))
    assert [budget(1, 0), budget(2, 0), budget(3, 3), budget(4, 5)] == [0, 3, 2, 4]
    assert budget(4, 3) == 6  # three rewards were told at once
    assert budget(9, 9) == 0
    assert budget(1, 5) == 0


# --- the pool of a query plan: all points while it is small, then only informative ones


def identity(X):
    return X


def test_played_pool_contains_all_points_while_small():
    X = np.random.default_rng(0).random((30, 2))
    pool = PlayedPool.none()
    for n in (3, 10, 30):
        pool = pool.extend(X[:n], RBF(1.0), identity, None)
    assert pool.rows.tolist() == list(range(30))
    assert PlayedPool.none().extend(X, RBF(1.0), identity, 30).rows.tolist() == list(range(30))


@pytest.mark.parametrize("step", [1, 7])
def test_played_pool_when_full_adds_only_undetermined_points(step):
    X = np.random.default_rng(1).random((120, 1)) * 20
    pool = PlayedPool.none()
    for n in range(step, 121, step):
        pool = pool.extend(X[:n], RBF(1.0), identity, 10)
    rows = list(range(10))
    count = len(X) - len(X) % step
    for row in range(10, count):
        K = RBF(1.0)(X[rows]) + CONFIG.pool_noise * np.eye(len(rows))
        k = RBF(1.0)(X[rows], X[row : row + 1])[:, 0]
        if 1 - k @ np.linalg.solve(K, k) > CONFIG.determined_share:
            rows.append(row)
    assert pool.rows.tolist() == rows
    assert 10 < len(rows) < 60


@pytest.mark.parametrize("amplitude", [1e-4, 1e4])
def test_played_pool_ignores_the_unit_of_the_kernel(amplitude: float) -> None:
    X = np.random.default_rng(1).random((120, 1)) * 20
    plain, scaled = (
        PlayedPool.none().extend(X, kernel, identity, 10).rows
        for kernel in (RBF(1.0), ConstantKernel(amplitude) * RBF(1.0))
    )
    assert scaled.tolist() == plain.tolist()


# --- experts that answer in part or fail for a time; experts that observe rewards

DOMAIN = Candidates(np.linspace(0, 10, 41)[:, None])
EXPERT_NOISE = 0.01


def truth(X: Array, t: float) -> Array:
    return np.asarray(np.exp(-((X[:, 0] - 5 - 3 * np.sin(t / 9)) ** 2)))


@dataclass
class UnreliableExpert:
    """An expert that fails at some times, and refuses some points."""

    down: frozenset[int] = frozenset()
    share: float = 1.0
    error: Exception = field(default_factory=lambda: ConnectionError("no route"))
    asked: list[tuple[float, int, int]] = field(default_factory=list)

    def query(self, X: Array, t: float) -> Answers:
        if int(t) in self.down:
            self.asked.append((t, len(X), 0))
            raise self.error
        values = truth(X, t) + EXPERT_NOISE**0.5 * keyed_normal(0, 7, X, t)
        answered = np.abs(keyed_normal(0, 8, X, t)) < self.share * 3
        values = np.where(answered, values, np.nan)
        self.asked.append((t, len(X), int(answered.sum())))
        return Answers(
            values, EXPERT_NOISE, 0.5 * len(X), ("some are deaf",) if not answered.all() else ()
        )


def sparq(expert: Any, plan: KDPP | None = None) -> Bandit:
    return policies.sparq_gp_ucb(
        DOMAIN,
        kernel=RBF(1.0),
        noise_variance=EXPERT_NOISE,
        expert=expert,
        queries_per_step=plan or KDPP(6),
        beta=2.0,
        seed=3,
    )


def play(bandit: Bandit, first: int, last: int) -> Array:
    def reward(x: Array, t: float) -> Array:
        return truth(x, t) + EXPERT_NOISE**0.5 * keyed_normal(0, 1, x, t)

    return loops.play(bandit, reward, range(first, last + 1))


def test_bandit_warns_once_per_outage_of_its_expert() -> None:
    expert = UnreliableExpert(down=frozenset([*range(8, 15), 20, 21]))
    bandit = sparq(expert)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(bandit, 1, 30)
    messages = [str(each.message) for each in caught]
    assert [each.category for each in caught] == [ExpertDownWarning, ExpertDownWarning]
    assert "cannot be reached at t = 8 (ConnectionError: no route)" in messages[0]
    assert "at t = 20 " in messages[1]
    assert all(each.filename == loops.__file__ for each in caught)
    queries, (_, asked, answered) = bandit.info.queries, np.array(expert.asked).T
    assert (queries.total_asked, queries.total_answered) == (asked.sum(), answered.sum())
    assert queries.failures == 9
    answered_counts = [q for t, q, _ in expert.asked if int(t) not in expert.down]
    assert queries.total_cost == 0.5 * sum(answered_counts)


def test_info_reports_the_counts_and_notes_of_a_failed_query() -> None:
    bandit = sparq(UnreliableExpert(down=frozenset([5])))
    with pytest.warns(ExpertDownWarning, match="at t = 5 "):
        play(bandit, 1, 5)
    info = bandit.info
    assert info.queries.asked > 0
    assert info.queries.refused == info.queries.asked
    assert (info.queries.answered, info.queries.cost) == (0, 0.0)
    assert info.queries.notes == ("ConnectionError: no route",)
    assert bandit.state.queries.down
    # Earlier answers do not count as those of the failed query.
    assert len(bandit.state.answers) == 0
    play(bandit, 6, 6)
    assert not bandit.state.queries.down
    assert bandit.info.queries.notes == ()
    assert bandit.info.queries.failures == 1


def test_from_state_continues_an_outage_without_another_warning() -> None:
    bandit = sparq(UnreliableExpert(down=frozenset(range(4, 9))))
    with pytest.warns(ExpertDownWarning, match="at t = 4 "):
        play(bandit, 1, 6)
    continued = Bandit.from_state(bandit.recipe, bandit.state)
    play(continued, 7, 8)  # warnings are errors here
    assert continued.info.queries.failures == 5


@pytest.mark.parametrize("error", [OSError("x"), TimeoutError("x"), ExpertUnavailableError("x")])
def test_bandit_treats_connection_errors_as_an_outage(error: Exception) -> None:
    bandit = sparq(UnreliableExpert(down=frozenset([1]), error=error))
    with pytest.warns(ExpertDownWarning, match=type(error).__name__):
        play(bandit, 1, 1)


@pytest.mark.parametrize("kind", [*MISTAKES, ExpertError], ids=lambda kind: kind.__name__)
def test_bandit_raises_expert_error_for_other_errors(kind: type[Exception]) -> None:
    bandit = sparq(UnreliableExpert(down=frozenset([3]), error=kind("wrong")))
    play(bandit, 1, 2)
    state = bandit.state
    message = f"the expert failed on . points .*{kind.__name__}: wrong"
    assert_refused(ExpertError, message, bandit.tell, [[1.0]], [0.5], 3)
    assert bandit.state is state


@dataclass
class ObservingExpert(UnreliableExpert):
    observations: list[Dataset] = field(default_factory=list)

    def observe(self, rewards: Dataset) -> None:
        if (rewards.y < -1).any():
            raise OSError("disk is full")
        self.observations.append(rewards)


def test_tell_shows_rewards_to_an_observing_expert() -> None:
    expert = ObservingExpert()
    bandit = sparq(expert)
    play(bandit, 1, 5)
    bandit.tell([[1.0], [2.0]], [0.1, 0.2], [2.0, 6.0], noise_variance=[0.5, 0.6])
    assert [len(each) for each in expert.observations] == [1, 1, 1, 1, 1, 2]
    np.testing.assert_array_equal(expert.observations[-1].t, [2.0, 6.0])
    np.testing.assert_array_equal(expert.observations[-1].variance, [0.5, 0.6])
    inform(UnreliableExpert(), expert.observations[0])  # an expert without `observe` is skipped


def test_tell_changes_nothing_if_the_expert_fails_on_a_reward() -> None:
    bandit = sparq(ObservingExpert())
    play(bandit, 1, 2)
    state = bandit.state
    assert_refused(
        ExpertError, "shown 1 rewards: OSError: disk is full", bandit.tell, [[1.0]], [-2.0]
    )
    assert bandit.state is state


def test_answers_refuse_notes_that_are_a_text() -> None:
    with pytest.raises(ValueError, match=r"notes must .*'closed'"):
        Answers([1.0], 1.0, notes="closed")

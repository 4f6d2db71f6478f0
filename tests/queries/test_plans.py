"""Query plans besides the paper's: which points, by enumeration, and how many."""

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

from tests.helpers.refusals import refused
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


def beliefs(
    mean: Array = MEAN, beta: float = 2.0, K: Array = PRIOR, deviation: Array = NO_TIES
) -> JointPosterior:
    """Of a prior: what holds now holds at the next decision too."""
    return JointPosterior(
        mean,
        deviation,
        beta,
        NOISE,
        lambda rows, others=slice(None): K[list(rows)][:, others],
        lambda rows, others: K[np.ix_(list(rows), list(others))],
    )


def pool(told: int = 5, asked: int = 0, **parts: Any) -> Pool:
    return Pool(POINTS, told, lambda: PRIOR, beliefs(**parts), asked)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_random_points_are_uniform() -> None:
    draws = Counter(tuple(RandomPoints(3).choose(pool(), g)) for g in [rng()] for _ in range(8400))
    counts = np.array([draws[subset] for subset in subsets(N, 3)])
    assert counts.sum() == 8400  # every draw is a sorted subset
    assert chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("plan", PLANS)
def test_how_many(plan: Any) -> None:
    assert len(plan(0).choose(pool(), rng())) == 0
    for k in (N, N + 1, 100):
        np.testing.assert_array_equal(plan(k).choose(pool(), rng()), np.arange(N))
    for k in (1, 5):
        assert len(set(plan(k).choose(pool(), rng()).tolist())) == k
    # 3 a step on average: 15 after five rewards, of which 11 are spent.
    assert len(plan(OnAverage(3.0)).choose(pool(5, 11), rng())) == 4
    assert len(plan(OnAverage(3.0)).choose(pool(5, 15), rng())) == 0


@pytest.mark.parametrize(("plan", "free"), [(NextDecision, (0, N)), (PlausibleMaximizers, (0,))])
def test_a_question_that_is_not_asked_costs_nothing(plan: Any, free: tuple[int, ...]) -> None:
    shut = Pool(POINTS, 5, lambda: PRIOR, None)
    for k in free:
        assert len(plan(k).choose(shut, rng())) == k
    with pytest.raises(ValueError, match="uses the posterior"):
        plan(3).choose(shut, rng())


@pytest.mark.parametrize("plan", [NextDecision, PlausibleMaximizers])
def test_ties_go_by_their_order_and_the_beliefs_that_are_shown_stay_as_they_were(plan: Any) -> None:
    last_bits = 1e-14 * rng().standard_normal(N)
    shown = beliefs(last_bits, K=np.eye(N), deviation=1.0 + last_bits)
    before = np.array([shown.deviation, shown.mean])
    rows = plan(5).choose(Pool(POINTS, 5, lambda: np.eye(N), shown), rng())
    assert rows.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal([shown.deviation, shown.mean], before)


@pytest.mark.parametrize("plan", [*PLANS, PlausibleMaximizers])
def test_a_budget_that_is_none(plan: Any) -> None:
    with pytest.raises(ValueError, match=r"budget must .*-2"):
        plan(lambda told, asked: -2).choose(pool(), rng())  # noqa: ARG005


# --- plausible maximizers -------------------------------------------------------------------------


AMPLITUDE = np.random.default_rng(2).permutation(np.linspace(0.3, 1.7, N))
UNEVEN = AMPLITUDE[:, None] * PRIOR * AMPLITUDE


def uneven(asked: int = 0, mean: Array = MEAN, beta: float = 2.0) -> Pool:
    """A pool of points that differ in what is known of them."""
    return Pool(POINTS, 5, lambda: UNEVEN, beliefs(mean, beta, UNEVEN, AMPLITUDE), asked)


def covariance_after(rows: list[int]) -> Array:
    """Once some points are asked about, by plain inversion."""
    if not rows:
        return UNEVEN
    K = UNEVEN[np.ix_(rows, rows)] + NOISE * np.eye(len(rows))
    return np.asarray(UNEVEN - UNEVEN[:, rows] @ np.linalg.inv(K) @ UNEVEN[rows])


def gain(row: int, rows: list[int], mean: Array, among: list[int]) -> float:
    """What an answer about a point adds to the best mean of some points, on average."""
    covariance = covariance_after(rows)
    moves = covariance[row] / np.sqrt(covariance[row, row] + NOISE)
    nodes, weights = hermegauss(9)
    total = 0.0
    for z, weight in zip(nodes, weights / weights.sum(), strict=True):
        total += weight * max(mean[j] + z * moves[j] for j in among)
    return float(max(total - max(mean[j] for j in among), 0.0))


def by_hand(k: int, asked: int, mean: Array, beta: float, ties: Sequence[int] = ()) -> list[int]:
    """The questions, one after the other, by looking at every point.

    Where gains differ by no more than rounding, what was found in `ties` is as good.
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
def test_plausible_maximizers_of_any_pool(seed: int, k: int, beta: float, asked: int) -> None:
    mean = np.random.default_rng(seed).normal(0.0, 1.0, N)
    rows = PlausibleMaximizers(k).choose(uneven(asked, mean, beta), rng()).tolist()
    assert rows == by_hand(k, asked, mean, beta, ties=rows)


@pytest.mark.parametrize("plan", [NextDecision, PlausibleMaximizers])
def test_no_point_is_asked_about_twice_however_little_an_answer_says(plan: Any) -> None:
    for seed in range(20):
        mean = np.random.default_rng(seed).normal(0.0, 0.1, N)
        vague = replace(beliefs(mean, 2.0, UNEVEN, AMPLITUDE), noise_variance=50.0)
        for asked in range(CONFIG.discover_every):
            rows = plan(6).choose(Pool(POINTS, 5, lambda: UNEVEN, vague, asked), rng())
            assert len(rows) == len({*rows.tolist()}) == 6


# --- budgets: never more than allowed, and what is saved is not lost


@given(rate=st.floats(0, 20), wishes=st.lists(st.integers(0, 60), max_size=60))
def test_on_average_holds_at_every_time(rate: float, wishes: list[int]) -> None:
    budget, asked = OnAverage(rate), 0
    for told, wish in enumerate(wishes, 1):
        allowed = budget(told, asked)
        assert allowed == math.floor(rate * told + 1e-9) - asked >= 0  # all that is left
        asked += min(allowed, wish)
        assert asked <= rate * told + 1e-9


def test_what_an_average_allows_is_not_one_less_by_rounding() -> None:
    for hundredths in range(1, 100):
        assert OnAverage(hundredths / 100)(100, 0) == hundredths


def test_a_schedule_asks_in_every_so_manieth_decision_as_much_as_it_would() -> None:
    always, seldom = LogSchedule(6.0), LogSchedule(6.0, every=5)
    assert [seldom(t) for t in range(1, 21)] == [0 if t % 5 else always(t) for t in range(1, 21)]


def test_a_number_is_a_number_per_step() -> None:
    assert as_budget(3) == PerStep(3)
    budget = OnAverage(2.0)
    assert as_budget(budget) is budget


def test_following_somebody_else() -> None:
    budget = Following((0, 3, 2, 4))
    assert [budget(1, 0), budget(2, 0), budget(3, 3), budget(4, 5)] == [0, 3, 2, 4]
    assert budget(4, 3) == 6  # three rewards were told at once
    assert budget(9, 9) == 0
    assert budget(1, 5) == 0


# --- the pool of a query plan: everything while it is small, then only what adds to it


def same(X):
    return X


def test_all_points_belong_to_a_small_pool():
    X = np.random.default_rng(0).random((30, 2))
    pool = PlayedPool.none()
    for n in (3, 10, 30):
        pool = pool.extend(X[:n], RBF(1.0), same, None)
    assert pool.rows.tolist() == list(range(30))
    assert PlayedPool.none().extend(X, RBF(1.0), same, 30).rows.tolist() == list(range(30))


@pytest.mark.parametrize("step", [1, 7])
def test_a_full_pool_takes_what_it_does_not_determine(step):
    X = np.random.default_rng(1).random((120, 1)) * 20
    pool = PlayedPool.none()
    for n in range(step, 121, step):
        pool = pool.extend(X[:n], RBF(1.0), same, 10)
    rows = list(range(10))
    seen = len(X) - len(X) % step
    for row in range(10, seen):
        K = RBF(1.0)(X[rows]) + CONFIG.pool_noise * np.eye(len(rows))
        k = RBF(1.0)(X[rows], X[row : row + 1])[:, 0]
        if 1 - k @ np.linalg.solve(K, k) > CONFIG.determined_share:
            rows.append(row)
    assert pool.rows.tolist() == rows
    assert 10 < len(rows) < 60


@pytest.mark.parametrize("amplitude", [1e-4, 1e4])
def test_the_unit_of_the_kernel_changes_no_pool(amplitude: float) -> None:
    X = np.random.default_rng(1).random((120, 1)) * 20
    plain, scaled = (
        PlayedPool.none().extend(X, kernel, same, 10).rows
        for kernel in (RBF(1.0), ConstantKernel(amplitude) * RBF(1.0))
    )
    assert scaled.tolist() == plain.tolist()


# --- experts that answer in part, go down and come back; experts that want to see rewards

DOMAIN = Candidates(np.linspace(0, 10, 41)[:, None])
NOISE_CONSULTATION = 0.01


def truth(X: Array, t: float) -> Array:
    return np.asarray(np.exp(-((X[:, 0] - 5 - 3 * np.sin(t / 9)) ** 2)))


@dataclass
class Flaky:
    """Down at some times, deaf to some points, and honest about the rest."""

    down: frozenset[int] = frozenset()
    share: float = 1.0
    error: Exception = field(default_factory=lambda: ConnectionError("no route"))
    asked: list[tuple[float, int, int]] = field(default_factory=list)

    def query(self, X: Array, t: float) -> Answers:
        if int(t) in self.down:
            self.asked.append((t, len(X), 0))
            raise self.error
        values = truth(X, t) + NOISE_CONSULTATION**0.5 * keyed_normal(0, 7, X, t)
        heard = np.abs(keyed_normal(0, 8, X, t)) < self.share * 3
        values = np.where(heard, values, np.nan)
        self.asked.append((t, len(X), int(heard.sum())))
        return Answers(
            values, NOISE_CONSULTATION, 0.5 * len(X), ("some are deaf",) if not heard.all() else ()
        )


def sparq(expert: Any, plan: KDPP | None = None) -> Bandit:
    return policies.sparq_gp_ucb(
        DOMAIN,
        kernel=RBF(1.0),
        noise_variance=NOISE_CONSULTATION,
        expert=expert,
        queries_per_step=plan or KDPP(6),
        beta=2.0,
        seed=3,
    )


def play(bandit: Bandit, first: int, last: int) -> Array:
    def reward(x: Array, t: float) -> Array:
        return truth(x, t) + NOISE_CONSULTATION**0.5 * keyed_normal(0, 1, x, t)

    return loops.play(bandit, reward, range(first, last + 1))


def test_one_warning_for_an_outage() -> None:
    expert = Flaky(down=frozenset([*range(8, 15), 20, 21]))
    bandit = sparq(expert)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(bandit, 1, 30)
    said = [str(each.message) for each in caught]
    assert [each.category for each in caught] == [ExpertDownWarning, ExpertDownWarning]
    assert "cannot be reached at t = 8 (ConnectionError: no route)" in said[0]
    assert "at t = 20 " in said[1]
    assert all(each.filename == loops.__file__ for each in caught)
    found, (_, asked, heard) = bandit.info.queries, np.array(expert.asked).T
    assert (found.total_asked, found.total_answered) == (asked.sum(), heard.sum())
    assert found.failures == 9
    paid = [q for t, q, _ in expert.asked if int(t) not in expert.down]
    assert found.total_cost == 0.5 * sum(paid)


def test_the_last_query_s_counts_and_notes_speak_of_an_outage() -> None:
    bandit = sparq(Flaky(down=frozenset([5])))
    with pytest.warns(ExpertDownWarning, match="at t = 5 "):
        play(bandit, 1, 5)
    info = bandit.info
    assert info.queries.asked > 0
    assert info.queries.refused == info.queries.asked
    assert (info.queries.answered, info.queries.cost) == (0, 0.0)
    assert info.queries.notes == ("ConnectionError: no route",)
    assert bandit.state.queries.down
    assert len(bandit.state.answers) == 0  # those before it are not held for its answers
    play(bandit, 6, 6)
    assert not bandit.state.queries.down
    assert bandit.info.queries.notes == ()
    assert bandit.info.queries.failures == 1


def test_an_outage_goes_on_over_a_resume_without_another_warning() -> None:
    bandit = sparq(Flaky(down=frozenset(range(4, 9))))
    with pytest.warns(ExpertDownWarning, match="at t = 4 "):
        play(bandit, 1, 6)
    again = Bandit.from_state(bandit.recipe, bandit.state)
    play(again, 7, 8)  # warnings are errors here
    assert again.info.queries.failures == 5


@pytest.mark.parametrize("error", [OSError("x"), TimeoutError("x"), ExpertUnavailableError("x")])
def test_what_counts_as_down(error: Exception) -> None:
    bandit = sparq(Flaky(down=frozenset([1]), error=error))
    with pytest.warns(ExpertDownWarning, match=type(error).__name__):
        play(bandit, 1, 1)


@pytest.mark.parametrize("kind", [*MISTAKES, ExpertError], ids=lambda kind: kind.__name__)
def test_what_counts_as_broken(kind: type[Exception]) -> None:
    bandit = sparq(Flaky(down=frozenset([3]), error=kind("wrong")))
    play(bandit, 1, 2)
    state = bandit.state
    says = f"the expert failed on . points .*{kind.__name__}: wrong"
    refused(ExpertError, says, bandit.tell, [[1.0]], [0.5], 3)
    assert bandit.state is state


@dataclass
class Watching(Flaky):
    seen: list[Dataset] = field(default_factory=list)

    def observe(self, rewards: Dataset) -> None:
        if (rewards.y < -1).any():
            raise OSError("disk is full")
        self.seen.append(rewards)


def test_an_expert_may_watch_the_rewards() -> None:
    expert = Watching()
    bandit = sparq(expert)
    play(bandit, 1, 5)
    bandit.tell([[1.0], [2.0]], [0.1, 0.2], [2.0, 6.0], noise_variance=[0.5, 0.6])
    assert [len(each) for each in expert.seen] == [1, 1, 1, 1, 1, 2]
    np.testing.assert_array_equal(expert.seen[-1].t, [2.0, 6.0])
    np.testing.assert_array_equal(expert.seen[-1].variance, [0.5, 0.6])
    inform(Flaky(), expert.seen[0])  # who does not want to see is not bothered


def test_an_expert_that_fails_on_a_reward_stops_the_call() -> None:
    bandit = sparq(Watching())
    play(bandit, 1, 2)
    state = bandit.state
    refused(ExpertError, "shown 1 rewards: OSError: disk is full", bandit.tell, [[1.0]], [-2.0])
    assert bandit.state is state


def test_a_note_is_one_of_several() -> None:
    with pytest.raises(ValueError, match=r"notes must .*'closed'"):
        Answers([1.0], 1.0, notes="closed")

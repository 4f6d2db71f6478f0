"""Query plans besides the paper's: which points, by enumeration, and how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import chisquare
from sklearn.gaussian_process.kernels import RBF

from tests.oracles.subsets import subsets
from tvbandits import Answers, Bandit, Candidates, policies
from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.queries.budgets import OnAverage
from tvbandits.queries.plans import (
    PROMISE,
    NextDecision,
    PlausibleMaximisers,
    RandomPoints,
)
from tvbandits.queries.pool import Pool

N, NOISE = 9, 0.04
POINTS = np.random.default_rng(0).uniform(0, 4, (N, 1))
PRIOR = RBF(0.7)(POINTS)
MEAN = np.random.default_rng(1).normal(0, 0.4, N)
PLANS: list[Any] = [NextDecision, RandomPoints]


def beliefs(mean: Array = MEAN, beta: float = 2.0) -> JointPosterior:
    """Of a prior: what holds now holds at the next decision too."""
    return JointPosterior(
        mean,
        np.sqrt(np.diag(PRIOR)) * np.linspace(1.0, 1.0001, N),  # no ties
        beta,
        NOISE,
        lambda rows: PRIOR[list(rows)],
        lambda rows, others: PRIOR[np.ix_(list(rows), list(others))],
    )


def pool(told: int = 5, asked: int = 0, **parts: Any) -> Pool:
    return Pool(POINTS, told, lambda: PRIOR, beliefs(**parts), asked)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_random_points_are_uniform() -> None:
    draws = Counter(
        tuple(RandomPoints(3).choose(pool(), g).rows) for g in [rng()] for _ in range(8400)
    )
    counts = np.array([draws[subset] for subset in subsets(N, 3)])
    assert counts.sum() == 8400  # every draw is a sorted subset
    assert chisquare(counts).pvalue > 1e-3
    lazy = counts.copy()
    lazy[: len(lazy) // 2] += lazy[len(lazy) // 2 :] // 3  # a draw that prefers some would be seen
    assert chisquare(lazy).pvalue < 1e-3


@pytest.mark.parametrize("plan", PLANS)
def test_how_many(plan: Any) -> None:
    assert len(plan(0).choose(pool(), rng()).rows) == 0
    for k in (N, N + 1, 100):
        np.testing.assert_array_equal(plan(k).choose(pool(), rng()).rows, np.arange(N))
    for k in (1, 5):
        rows = plan(k).choose(pool(), rng()).rows
        assert len(set(rows.tolist())) == k
    # 3 a step on average: 15 after five rewards, of which 11 are spent.
    assert len(plan(OnAverage(3.0)).choose(pool(5, 11), rng()).rows) == 4
    assert len(plan(OnAverage(3.0, most=2)).choose(pool(5, 11), rng()).rows) == 2
    assert len(plan(OnAverage(3.0)).choose(pool(5, 15), rng()).rows) == 0


def test_a_question_that_is_not_asked_costs_nothing() -> None:
    shut = Pool(POINTS, 5, lambda: PRIOR, None)
    for k in (0, N):
        NextDecision(k).choose(shut, rng())
    with pytest.raises(ValueError, match="looks at the posterior, and the pool has no beliefs"):
        NextDecision(3).choose(shut, rng())


@pytest.mark.parametrize("plan", [NextDecision, PlausibleMaximisers])
def test_the_beliefs_that_are_shown_stay_as_they_were(plan: Any) -> None:
    shown = beliefs()
    before = shown.deviation.copy(), shown.mean.copy()
    plan(5).choose(Pool(POINTS, 5, lambda: PRIOR, shown), rng())
    np.testing.assert_array_equal(shown.deviation, before[0])
    np.testing.assert_array_equal(shown.mean, before[1])


@pytest.mark.parametrize("plan", [*PLANS, PlausibleMaximisers])
@pytest.mark.parametrize("bad", [-1, 1.5, "many"])
def test_bad_budgets(plan: Any, bad: Any) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        plan(bad)


@pytest.mark.parametrize("plan", [*PLANS, PlausibleMaximisers])
def test_a_budget_that_is_none(plan: Any) -> None:
    with pytest.raises(ValueError, match=r"budget must be a whole number of at least 0, got -2"):
        plan(lambda told, asked: -2).choose(pool(), rng())  # noqa: ARG005


@pytest.mark.parametrize("about", ["played", "domain"])
@pytest.mark.parametrize("plan", PLANS)
def test_in_a_bandit(plan: Any, about: str) -> None:
    class Wave:
        asked = 0

        def query(self, X: Array, t: float) -> Answers:
            self.asked += len(X)
            return Answers(np.sin(X[:, 0] + t / 9), 0.01)

    domain = Candidates(np.linspace(0, 6, 40)[:, None])
    kernel, expert = RBF(1.0), Wave()
    parts: Any = {"expert": expert, "queries": plan(OnAverage(2.0)), "confidence": 2.0}
    bandit = policies.sparq_gp_ucb(domain, kernel, 0.01, **parts)
    asking: Any = replace(bandit.recipe.asking, about=about)  # type: ignore[type-var]
    bandit = Bandit(replace(bandit.recipe, asking=asking), seed=0)
    for t in range(1, 31):
        x = bandit.ask(t)
        info = bandit.tell(x, np.sin(x[:, 0] + t / 9), t)
        assert info.queries.total_asked <= 2 * t
    assert info.queries.total_asked == expert.asked
    assert (
        info.queries.total_asked == 60 if about == "domain" else 40 < info.queries.total_asked <= 60
    )


# --- plausible maximisers -------------------------------------------------------------------------


AMPLITUDE = np.random.default_rng(2).permutation(np.linspace(0.3, 1.7, N))
UNEVEN = AMPLITUDE[:, None] * PRIOR * AMPLITUDE


def uneven(asked: int = 0, mean: Array = MEAN, beta: float = 2.0) -> Pool:
    """A pool of points that differ in what is known of them."""
    shown = JointPosterior(
        mean,
        AMPLITUDE,
        beta,
        NOISE,
        lambda rows: UNEVEN[list(rows)],
        lambda rows, others: UNEVEN[np.ix_(list(rows), list(others))],
    )
    return Pool(POINTS, 5, lambda: UNEVEN, shown, asked)


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


def by_hand(
    plan: PlausibleMaximisers,
    k: int,
    asked: int,
    mean: Array,
    beta: float,
    ties: Sequence[int] = (),
) -> list[int]:
    """The questions, one after the other, by looking at every point.

    Where gains differ by no more than rounding, what was found in `ties` is as good.
    """
    rows: list[int] = []
    while len(rows) < min(k, N):
        deviation = np.sqrt(np.diag(covariance_after(rows)))
        upper, lower = mean + beta * deviation, mean - beta * deviation
        plausible = [i for i in range(N) if upper[i] >= lower.max()]
        promise = mean + PROMISE * deviation
        plausible.sort(key=lambda i: -promise[i])
        open_ = [i for i in plausible[: plan.looked_at + len(rows)] if i not in rows]
        if len(plausible) == 1 or not open_:
            break
        gains = {i: gain(i, rows, mean, plausible[: plan.compared]) for i in open_}
        best = max(open_, key=lambda i: gains[i])
        if len(ties) > len(rows) and gains.get(ties[len(rows)], -1.0) > gains[best] - 1e-12:
            best = ties[len(rows)]
        if gains[best] < plan.tolerance * NOISE**0.5:
            break
        turn = asked + len(rows) + 1
        if plan.explore_every is not None and turn % plan.explore_every == 0:
            best = max((i for i in plausible if i not in rows), key=lambda i: deviation[i])
        rows.append(best)
    return rows


def asked_by(
    plan: PlausibleMaximisers, asked: int = 0, mean: Array = MEAN, beta: float = 2.0
) -> list[int]:
    return rows_of(plan, uneven(asked, mean, beta))


@given(
    seed=st.integers(0, 999),
    k=st.integers(0, 12),
    beta=st.floats(0.05, 3.0),
    asked=st.integers(0, 9),
    every=st.sampled_from([None, 1, 3, 4]),
    tolerance=st.sampled_from([0.0, 0.3, 1.0]),
    looked_at=st.integers(1, 12),
    compared=st.integers(1, 12),
)
@settings(deadline=None, max_examples=60)
def test_plausible_maximisers_of_any_pool(seed: int, k: int, beta: float, **parts: Any) -> None:
    mean, asked = np.random.default_rng(seed).normal(0.0, 1.0, N), parts.pop("asked")
    parts["explore_every"] = parts.pop("every")
    plan = PlausibleMaximisers(k, **parts)
    rows = asked_by(plan, asked, mean, beta)
    assert rows == by_hand(plan, k, asked, mean, beta, ties=rows)


def apart(mean: list[float], deviation: list[float], beta: float = 1.0, noise: float = 0.01) -> Any:
    """A pool of points that say nothing about each other."""
    K, n = np.diag(np.square(deviation)), len(mean)
    shown = JointPosterior(
        np.array(mean),
        np.array(deviation),
        beta,
        noise,
        lambda rows: K[list(rows)],
        lambda rows, others: K[np.ix_(list(rows), list(others))],
    )
    return Pool(np.arange(float(n))[:, None], 1, lambda: K, shown, 0)


def rows_of(plan: PlausibleMaximisers, pool_: Any) -> list[int]:
    return [int(i) for i in plan.choose(pool_, rng()).rows]


def test_only_what_may_be_the_best_is_asked_about() -> None:
    # Upper bounds 1, 1.1, -1 and lower bounds -1, -0.9, -9: the last one is out of the question.
    shown = apart([0.0, 0.1, -5.0], [1.0, 1.0, 4.0])
    for every in (None, 1, 2):
        assert sorted(rows_of(PlausibleMaximisers(3, explore_every=every), shown)) == [0, 1]
    # An upper bound that is just the best lower bound is enough.
    bound = apart([0.0, 3.0], [1.0, 2.0])
    assert rows_of(PlausibleMaximisers(1, explore_every=1), bound) == [1]
    short = apart([0.0, 3.1], [1.0, 2.0])
    assert rows_of(PlausibleMaximisers(1, explore_every=1), short) == []


def test_where_no_answer_changes_the_decision_what_promises_most_is_asked_about() -> None:
    # Promises at most 4, -7 and 5 above the centre; with so much noise no answer lifts a mean by 9.
    for centre in (0.0, 7.3, 100.0):
        for deviation in (0.5, 1.0, 1.3, 2.0):
            means = [centre, centre - 9.0, centre - 9.0]
            shown = apart(means, [deviation, 1.0, 7.0], beta=9.0, noise=1e4)
            assert rows_of(PlausibleMaximisers(1), shown) == [2]


def test_no_budget_no_look() -> None:
    shut = Pool(POINTS, 5, lambda: PRIOR, None)
    assert rows_of(PlausibleMaximisers(0), shut) == []
    with pytest.raises(ValueError, match="looks at the posterior, and the pool has no beliefs"):
        rows_of(PlausibleMaximisers(1), shut)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"tolerance": -0.1}, r"tolerance must be finite and not negative, got -0\.1"),
    ({"explore_every": 0}, "explore_every must be a whole number of at least 1, got 0"),
    ({"looked_at": 0}, "looked_at must be a whole number of at least 1, got 0"),
    ({"compared": -1}, "compared must be a whole number of at least 1, got -1"),
]


@pytest.mark.parametrize(("parts", "message"), BAD, ids=str)
def test_what_is_no_plan(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PlausibleMaximisers(3, **parts)

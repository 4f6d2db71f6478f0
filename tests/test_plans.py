"""Query plans besides the paper's: which points, by enumeration, and how many."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, norm
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Bandit, Candidates, policies
from tvbandits.beliefs import Beliefs
from tvbandits.budgets import OnAverage
from tvbandits.observations import Array
from tvbandits.queries import (
    GreedyVariance,
    Pool,
    QualityKDPP,
    RandomPoints,
    UCBBatch,
)

N, NOISE = 9, 0.04
POINTS = np.random.default_rng(0).uniform(0, 4, (N, 1))
PRIOR = RBF(0.7)(POINTS)
MEAN = np.random.default_rng(1).normal(0, 0.4, N)
PLANS: list[Any] = [GreedyVariance, UCBBatch, RandomPoints, QualityKDPP]
LOOKING = [GreedyVariance, UCBBatch, QualityKDPP]


def beliefs(mean: Array = MEAN, beta: float = 2.0) -> Beliefs:
    """Of a prior: what holds now holds at the next decision too."""
    return Beliefs(
        mean,
        np.sqrt(np.diag(PRIOR)) * np.linspace(1.0, 1.0001, N),  # no ties
        beta,
        NOISE,
        lambda rows: PRIOR[list(rows)],
        lambda rows, others: PRIOR[np.ix_(list(rows), list(others))],
    )


def pool(told: int = 5, asked: int = 0, **parts: Any) -> Pool:
    return Pool(POINTS, told, lambda: PRIOR, lambda: beliefs(**parts), asked)


def left(rows: list[int]) -> Array:
    """Variances once some points are known, by plain inversion."""
    start = np.linspace(1.0, 1.0001, N) ** 2
    if not rows:
        return start
    K = PRIOR[np.ix_(rows, rows)] + NOISE * np.eye(len(rows))
    k = PRIOR[:, rows]
    return start - np.einsum("ij,ij->i", k @ np.linalg.inv(K), k)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_greedy_variance(k: int) -> None:
    rows: list[int] = []
    for _ in range(k):
        variance = left(rows)
        variance[rows] = -1.0
        rows.append(int(variance.argmax()))
    np.testing.assert_array_equal(GreedyVariance(k).choose(pool(), rng()).rows, rows)


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_ucb_batch(k: int, beta: float) -> None:
    rows: list[int] = []
    for _ in range(k):
        bound = MEAN + beta * np.sqrt(np.maximum(left(rows), 0.0))
        bound[rows] = -np.inf
        rows.append(int(bound.argmax()))
    np.testing.assert_array_equal(UCBBatch(k).choose(pool(beta=beta), rng()).rows, rows)


def test_random_points_are_uniform() -> None:
    draws = Counter(
        tuple(RandomPoints(3).choose(pool(), g).rows) for g in [rng()] for _ in range(8400)
    )
    subsets = list(combinations(range(N), 3))
    counts = np.array([draws[subset] for subset in subsets])
    assert counts.sum() == 8400  # every draw is a sorted subset
    assert chisquare(counts).pvalue > 1e-3
    lazy = counts.copy()
    lazy[: len(lazy) // 2] += lazy[len(lazy) // 2 :] // 3  # a draw that prefers some would be seen
    assert chisquare(lazy).pvalue < 1e-3


def quality() -> Array:
    deviation = beliefs().deviation
    q = norm.cdf((MEAN - MEAN.max()) / deviation)
    return np.maximum(q / q.max(), 1e-6)


def test_quality_kdpp_has_its_law() -> None:
    # A long chain, so that the start is forgotten; P(S) is proportional to det of q_i K_ij q_j.
    k, draws = 3, 3000
    L = quality()[:, None] * PRIOR * quality()
    subsets = list(combinations(range(N), k))
    weights = np.array([np.linalg.det(L[np.ix_(s, s)]) for s in subsets])
    expected = draws * weights / weights.sum()
    plan, g = QualityKDPP(k, sweeps=60.0), rng()
    seen = Counter(tuple(sorted(plan.choose(pool(), g).rows.tolist())) for _ in range(draws))
    observed = np.array([seen[s] for s in subsets], dtype=float)
    order = np.argsort(expected)[::-1]
    big = order[expected[order] >= 8]
    rest = np.setdiff1d(order, big)
    lumped = np.append(observed[big], observed[rest].sum())
    wanted = np.append(expected[big], expected[rest].sum())
    assert chisquare(lumped, wanted * lumped.sum() / wanted.sum()).pvalue > 1e-3
    # The same counts do not fit the law without the quality.
    plain = np.array([np.linalg.det(PRIOR[np.ix_(s, s)]) for s in subsets])
    plain = draws * plain / plain.sum()
    unfit = np.append(plain[big], plain[rest].sum())
    assert chisquare(lumped, unfit * lumped.sum() / unfit.sum()).pvalue < 1e-6


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


@pytest.mark.parametrize("plan", LOOKING)
def test_a_question_that_is_not_asked_costs_nothing(plan: Any) -> None:
    def refuse() -> Beliefs:
        raise AssertionError("the posterior was not needed")

    shut = Pool(POINTS, 5, lambda: PRIOR, refuse)
    for k in (0, N):
        plan(k).choose(shut, rng())
    with pytest.raises(AssertionError, match="not needed"):
        plan(3).choose(shut, rng())


def test_random_points_look_at_nothing() -> None:
    rows = RandomPoints(3).choose(Pool(POINTS, 5, lambda: PRIOR, None), rng()).rows
    assert len(rows) == 3


@pytest.mark.parametrize("plan", [GreedyVariance, RandomPoints])
def test_plans_that_do_not_see_values(plan: Any) -> None:
    one = plan(4).choose(pool(mean=MEAN), rng()).rows
    other = plan(4).choose(pool(mean=-3.0 * MEAN), rng()).rows
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("plan", [GreedyVariance, UCBBatch])
def test_the_beliefs_that_are_shown_stay_as_they_were(plan: Any) -> None:
    shown = beliefs()
    before = shown.deviation.copy(), shown.mean.copy()
    plan(5).choose(Pool(POINTS, 5, lambda: PRIOR, lambda: shown), rng())
    np.testing.assert_array_equal(shown.deviation, before[0])
    np.testing.assert_array_equal(shown.mean, before[1])


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("bad", [-1, 1.5, "many"])
def test_bad_budgets(plan: Any, bad: Any) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        plan(bad)


@pytest.mark.parametrize("plan", PLANS)
def test_a_budget_that_is_none(plan: Any) -> None:
    with pytest.raises(ValueError, match=r"budget must be a whole number >= 0, got -2"):
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
    bandit = Bandit(replace(bandit.recipe, ask_about=about), seed=0)
    for t in range(1, 31):
        x = bandit.ask(t)
        info = bandit.tell(x, np.sin(x[:, 0] + t / 9), t)
        assert info.total_asked <= 2 * t
    assert info.total_asked == expert.asked
    assert info.total_asked == 60 if about == "domain" else 40 < info.total_asked <= 60

"""Query plans: how many points, which ones, and what they may depend on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import LINE
from tvbandits import Answers, policies
from tvbandits.core.arrays import Array
from tvbandits.queries import k_dpp
from tvbandits.queries.budgets import LogSchedule, OnAverage
from tvbandits.queries.plans import KDPP
from tvbandits.queries.pool import Choice, Pool

KERNEL = RBF(0.6)


def refuse() -> Array:
    raise AssertionError("the covariance was not needed")


def pool(n: int, told: int, seed: int = 0) -> Pool:
    points = np.random.default_rng(seed).uniform(0, 5, (n, 1))
    return Pool(points, told, lambda: np.asarray(KERNEL(points)))


# --- schedules ------------------------------------------------------------------------------------


@given(told=st.integers(1, 10**9), factor=st.floats(0, 50))
@settings(deadline=None)
def test_log_schedule(told: int, factor: float) -> None:
    assert LogSchedule(factor)(told) == math.ceil(factor * math.log(told))


def test_log_schedule_of_the_paper() -> None:
    assert [LogSchedule()(t) for t in (0, 1, 2, 3, 10, 500)] == [0, 0, 5, 7, 14, 38]


# --- k-DPP ----------------------------------------------------------------------------------------


@given(n=st.integers(1, 25), k=st.integers(0, 30), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_as_many_distinct_rows_as_the_schedule_says(n: int, k: int, seed: int) -> None:
    choice = KDPP(lambda told: k + told).choose(pool(n, 2, seed), np.random.default_rng(seed))
    rows = choice.rows.tolist()
    assert len(rows) == len(set(rows)) == min(k + 2, n)
    assert set(rows) <= set(range(n))
    assert choice.rows.dtype.kind == "i"
    assert math.isnan(choice.acceptance) == (k + 2 >= n)


@pytest.mark.parametrize("k", [5, 6, 10**9])
def test_all_points_are_asked_where_there_are_no_more(k: int) -> None:
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    choice = KDPP(lambda _: k).choose(Pool(np.zeros((5, 2)), 9, refuse), rng)
    np.testing.assert_array_equal(choice.rows, np.arange(5))
    assert math.isnan(choice.acceptance)
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("wanted", [2.5, -1, math.nan, math.inf])
def test_bad_schedules(wanted: float) -> None:
    match = rf"schedule\(3\) must be a whole number of at least 0, got {wanted}"
    with pytest.raises(ValueError, match=match):
        KDPP(lambda _: wanted).choose(pool(4, 3), np.random.default_rng(0))  # type: ignore[arg-type, return-value]


def test_bad_plans() -> None:
    for sweeps in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"sweeps must lie in .* got {sweeps}"):
            KDPP(sweeps=sweeps)
    for accuracy in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=rf"accuracy must lie in \(0, 1\), got {accuracy}"):
            KDPP(accuracy=accuracy)


def test_without_a_chain_the_set_is_the_greedy_one() -> None:
    plan, given_pool = KDPP(lambda _: 4, sweeps=0.0), pool(12, 3)
    choice = plan.choose(given_pool, np.random.default_rng(0))
    assert set(choice.rows) == set(k_dpp.greedy(given_pool.covariance(), 4))


def test_the_length_of_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    sample = k_dpp.sample_mcmc

    def noted(K: Any, k: int, **options: Any) -> k_dpp.Sample:
        lengths.append(options["steps"])
        return sample(K, k, **options)

    monkeypatch.setattr(k_dpp, "sample_mcmc", noted)
    for plan in (
        KDPP(lambda _: 4, sweeps=2.3),
        KDPP(lambda _: 4, accuracy=0.1),
        KDPP(lambda _: 4, sweeps=7.0, accuracy=0.01),
    ):
        plan.choose(pool(12, 3), np.random.default_rng(0))
    assert lengths == [10, k_dpp.mixing_steps(12, 4, 0.1), k_dpp.mixing_steps(12, 4, 0.01)]


# --- what a plan may see --------------------------------------------------------------------------


@dataclass
class Noted:
    """A plan that leaves behind what it chose and from what."""

    plan: KDPP = field(default_factory=KDPP)
    choices: list[list[int]] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)

    def choose(self, given_pool: Pool, rng: np.random.Generator) -> Choice:
        choice = self.plan.choose(given_pool, rng)
        self.choices.append(choice.rows.tolist())
        self.pools.append(given_pool)
        return choice


class Zero:
    def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
        return Answers(np.zeros(len(X)), 0.01)


class Wild:
    def query(self, X: Array, t: float) -> Answers:
        return Answers(1e6 * np.sin(X[:, 0] * t), 5.0)


@pytest.mark.slow
@given(seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_choices_do_not_depend_on_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, y = rng.integers(41, size=25), rng.standard_normal(25)
    chosen = []
    for rewards, expert in ((y, Zero()), (rng.permutation(y), Zero()), (1e3 * y, Wild())):
        plan = Noted()
        bandit = policies.sparq_gp_ucb(LINE, KERNEL, 0.01, expert=expert, queries=plan, seed=seed)
        for row, reward in zip(rows, rewards, strict=True):
            bandit.tell(LINE.X[row], [reward])
        chosen.append(plan.choices)
    assert chosen[0] == chosen[1] == chosen[2]
    assert max(map(len, chosen[0])) > 5


def test_a_number_is_a_constant_schedule() -> None:
    X = np.random.default_rng(0).random((12, 2))
    for told in (1, 400):
        pool = Pool(X, told, lambda: RBF(0.3)(X))
        assert len(KDPP(5).choose(pool, np.random.default_rng(0)).rows) == 5
    with pytest.raises(
        ValueError,
        match="schedule, where it is no function, must be a whole number of at least 0, got",
    ):
        KDPP(-1)


def test_a_budget_instead_of_a_schedule() -> None:
    rng = np.random.default_rng(0)
    for told, asked, wanted in ((4, 0, 8), (4, 7, 1), (4, 8, 0)):
        shown = pool(20, told)
        shown = Pool(shown.points, told, shown.covariance, None, asked)
        assert len(KDPP(budget=OnAverage(2.0)).choose(shown, rng).rows) == wanted
    with pytest.raises(ValueError, match=r"budget must be a whole number per step, or a budget"):
        KDPP(budget=OnAverage)  # type: ignore[arg-type]

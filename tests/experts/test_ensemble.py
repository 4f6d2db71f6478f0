"""`Ensemble`: a weighted mean of whoever answers."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chi2

from tvbandits import Answers, Expert, ExpertError, ExpertUnavailableError, Observations
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import MISTAKES
from tvbandits.experts.ensemble import DISAGREEMENT, Ensemble

X = np.arange(3.0)[:, None]


class Says:
    """Answers what it was given."""

    def __init__(self, values: Any, variance: Any = 1.0, cost: float = 1.0) -> None:
        self.values, self.variance, self.cost = np.array(values, float), variance, cost
        self.asked = 0
        self.shown: list[Observations] = []

    def query(self, points: Array, _t: float) -> Answers:
        self.asked += 1
        points[:] = -1.0  # nobody else sees that
        return Answers(self.values, self.variance, self.cost, ("inner",))

    def observe(self, rewards: Observations) -> None:
        self.shown.append(rewards)


class Raises:
    """Raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def query(self, _points: Array, _t: float) -> Answers:
        raise self.error


def restated(answers: list[tuple[float, float]], inflate: bool) -> tuple[float, float]:
    """Value and variance of one point, from pairs (value, variance) that are not NaN."""
    if not answers:
        return math.nan, math.nan
    precision = sum(1 / v for _, v in answers)
    mean = sum(a / v for a, v in answers) / precision
    chi_square = sum((a - mean) ** 2 / v for a, v in answers)
    free = len(answers) - 1
    torn = inflate and free > 0 and chi_square > chi2.isf(0.01, free)
    return mean, (chi_square / free if torn else 1.0) / precision


@given(
    table=st.integers(1, 4).flatmap(
        lambda q: st.lists(
            st.lists(
                st.tuples(st.just(math.nan) | st.floats(-9, 9), st.floats(0.01, 9)),
                min_size=q,
                max_size=q,
            ),
            min_size=1,
            max_size=4,
        )
    ),
    inflate=st.booleans(),
)
def test_it_agrees_with_a_plain_mean(table: list[list[tuple[float, float]]], inflate: bool) -> None:
    experts = [Says([a for a, _ in row], [v for _, v in row], cost=0.5) for row in table]
    q = len(table[0])
    said = Ensemble(experts, inflate=inflate).query(np.zeros((q, 1)), 1.0)
    columns = [
        [pair for pair in column if pair[0] == pair[0]] for column in zip(*table, strict=True)
    ]
    expected = [restated(column, inflate) for column in columns]
    np.testing.assert_allclose(said.values, [value for value, _ in expected], atol=1e-12)
    np.testing.assert_allclose(said.variance, [variance for _, variance in expected])
    assert said.cost == 0.5 * len(table)


def test_the_variance_it_states_is_true() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    variances = (1.0, 0.25, 4.0)
    experts = [Says(rng.normal(0, math.sqrt(v), n), v) for v in variances]
    said = Ensemble(experts).query(np.zeros((n, 1)), 1.0)
    stated = 1 / (1 + 4 + 0.25)
    assert (said.values**2).mean() == pytest.approx(stated, rel=4.5 * math.sqrt(2 / n))
    inflated = (said.variance > 1.000001 * stated).mean()  # false alarms, as often as is said
    assert abs(inflated - DISAGREEMENT) < 4.5 * math.sqrt(DISAGREEMENT / n)


def test_experts_that_disagree_are_believed_less() -> None:
    pair = [Says([0.0, 5.0, 0.0]), Says([1.0, -5.0, np.nan])]
    said = Ensemble(pair).query(X, 1.0)
    np.testing.assert_allclose(said.values, [0.5, 0.0, 0.0])
    np.testing.assert_allclose(
        said.variance, [0.5, 25.0, 1.0]
    )  # 25: (5 - 0)^2 + (-5 - 0)^2, halved
    note = "experts disagree on 1 of 3 points: their variance is inflated"
    assert said.notes == ("inner", "inner", note)
    plain = Ensemble(pair, inflate=False).query(X, 1.0)
    np.testing.assert_allclose(plain.variance, [0.5, 0.5, 1.0])
    assert plain.notes[-1] == "experts disagree on 1 of 3 points: taken as they are"


def test_one_that_is_down_is_left_out() -> None:
    down = ExpertUnavailableError("no line")
    said = Ensemble([Raises(OSError("gone")), Says([1, 2, 3]), Raises(down)]).query(X, 1.0)
    np.testing.assert_array_equal(said.values, [1, 2, 3])
    assert said.cost == 1.0
    assert said.notes == (
        "expert 1 (Raises) left out: OSError: gone",
        "inner",
        "expert 3 (Raises) left out: ExpertUnavailableError: no line",
    )


def test_only_if_all_are_down_it_is() -> None:
    last = ExpertUnavailableError("no line")
    match = (
        r"none of 2 experts can be reached: expert 1 \(Raises\) left out: OSError: gone; expert 2"
    )
    with pytest.raises(ExpertUnavailableError, match=match) as caught:
        Ensemble([Raises(OSError("gone")), Raises(last)]).query(X, 1.0)
    assert caught.value.__cause__ is last


@pytest.mark.parametrize("kind", [*MISTAKES, ExpertError, KeyboardInterrupt])
def test_mistakes_are_raised(kind: type[BaseException]) -> None:
    with pytest.raises(kind, match="wrong"):
        Ensemble([Says([1, 2, 3]), Raises(kind("wrong"))]).query(X, 1.0)


def test_answers_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(ExpertError, match="Says must answer 3 points, got 2 values"):
        Ensemble([Says([1, 2, 3]), Says([1, 2])]).query(X, 1.0)


def test_tiny_and_huge_variances() -> None:
    said = Ensemble([Says([1.0], 1e-50), Says([1.0], 1e100)]).query(X[:1], 1.0)
    np.testing.assert_array_equal((said.values[0], said.variance[0]), (1.0, 1e-50))
    said = Ensemble([Says([3.0], 1e-50), Says([1.0], 1e-50)], inflate=False).query(X[:1], 1.0)
    assert said.values[0] == 2.0


def test_the_rest() -> None:
    pair = [Says([1, 2, 3]), Says([1, 2, 3])]
    expert = Ensemble(pair)
    rewards = Observations(X[:1], [1.0], [2.0], [0.1])  # type: ignore[arg-type]
    expert.observe(rewards)
    assert [each.shown for each in pair] == [[rewards], [rewards]]
    assert isinstance(expert, Expert)
    again = pickle.loads(pickle.dumps(Ensemble([Says([1, 2, 3])])))
    assert again.query(X, 1.0).answered.all()
    assert repr(Ensemble([Ensemble(pair)], inflate=False)).startswith("Ensemble([Ensemble([<")
    assert repr(Ensemble([Ensemble(pair)], inflate=False)).endswith(">])], inflate=False)")
    assert len(Ensemble([Says([])]).query(np.empty((0, 1)), 1.0)) == 0


@pytest.mark.parametrize("experts", [[], (), None, Says([1])])
def test_it_needs_experts(experts: Any) -> None:
    with pytest.raises(ValueError, match="experts must be a sequence of at least one expert, got"):
        Ensemble(experts)


@pytest.mark.parametrize("experts", [[3], [Says([1]), "a"], "a"])
def test_it_needs_experts_in_it(experts: Any) -> None:
    with pytest.raises(ValueError, match=r"each of experts must have a method query\(X, t\), got"):
        Ensemble(experts)

"""The problem on a fixed table, and the references to read regret against."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from tvbandits.datasets.tables.problem import TableProblem
from tvbandits.datasets.tables.references import references

TABLE = np.array([[1.0, 3.0, 2.0], [4.0, 0.0, 4.0], [5.0, 6.0, 1.0]])


def table_problem(values: object = TABLE, points: object = ((0,), (1,), (2,))) -> TableProblem:
    return TableProblem(
        np.asarray(values), np.asarray(points), name="t", unit="", noise_variance=1.0
    )


def test_table_problem_by_hand() -> None:
    problem = table_problem()
    assert problem.horizon == 3
    assert [problem.best(t) for t in (1, 2.0, np.float64(3))] == [3.0, 4.0, 6.0]
    np.testing.assert_array_equal(problem.value(np.array([[2.0], [0.0], [2.0]]), 2.0), [4, 4, 4])
    assert problem.variation == (3 + 6) / 2
    # Uniform: (1, 4/3, 2). Fixed: the first column. Last best: 4 on day 2; on day 3 a fair coin
    # between the first column (1 behind) and the third (5 behind). With all read: the second column on
    # day 2, and then the third, which was better than the first on day 1 and as good on day 2.
    expected = (13 / 9, 1.0, 3.5, 4.5)
    np.testing.assert_allclose(problem.references(), expected, rtol=1e-14)
    np.testing.assert_allclose(references(TABLE[:, ::-1]), expected, rtol=1e-14)


def test_table_of_one_step() -> None:
    problem = table_problem(TABLE[:1])
    assert problem.variation is None
    assert problem.references() == (1.0, 0.0, 1.0, 1.0)


def test_references_keep_to_what_is_allowed() -> None:
    """By hand: the best of a step is 2, 4 and 5; a fixed site that is not allowed is left for a draw."""
    allowed = np.array([[True, False, True], [True, True, False], [True, False, True]])
    found = references(TABLE, allowed)
    uniform = np.array([0.5, 2.0, 2.0])
    fixed = [(1 + 0 + 0) / 3, uniform[0] + 4 + uniform[2], (0 + uniform[1] + 4) / 3]
    assert found.uniform == pytest.approx(uniform.mean())
    assert found.best_fixed == pytest.approx(min(fixed))
    # The second column was the best on day 1, the first of what is allowed on day 3 on day 2, equally.
    assert found.last_best == pytest.approx((4.0 + 2.0) / 2)
    everything = references(TABLE, np.ones((3, 3), dtype=bool))
    np.testing.assert_allclose(everything, references(TABLE), rtol=1e-14)
    assert references(TABLE[:1], allowed[:1])[2:] == (0.5, 0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones((3, 2), dtype=bool),
        np.ones(3, dtype=bool),
        np.ones((2, 3), dtype=bool),
        np.zeros((3, 3), dtype=bool),
        np.ones((3, 3)),
        np.ones((3, 3), dtype=int),
        True,
        "yes",
        np.array([[True] * 3, [False] * 3, [True] * 3]),
        np.array(None),
    ],
)
def test_a_mask_of_another_form_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="allowed must be True or False"):
        references(TABLE, wrong)  # type: ignore[arg-type]


def test_table_is_frozen_and_travels() -> None:
    values = TABLE.copy()
    problem = table_problem(values)
    values[0, 0] = 99.0
    assert problem.value(np.array([[0.0]]), 1)[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        problem.values[0, 0] = 99.0
    sent = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(sent.values, TABLE)
    assert sent.best(2) == 4.0


@pytest.mark.parametrize("t", [0, 4, 1.5, -1, float("nan"), float("inf")])
def test_times_outside_the_table(t: float) -> None:
    needs = "a whole number from 1 to 3" if math.isfinite(t) else "a finite number"
    message = rf"t must be {needs}, got {t}"
    with pytest.raises(ValueError, match=message):
        table_problem().value(np.array([[0.0]]), t)
    with pytest.raises(ValueError, match=message):
        table_problem().best(t)


def test_tables_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="must be candidates"):
        table_problem().value(np.array([[0.5]]), 1)
    with pytest.raises(ValueError, match=r"points must have 3 rows, .* got 2"):
        table_problem(points=[[0], [1]])
    with pytest.raises(ValueError, match=r"got nan in row 1, column 0"):
        table_problem([[1, 2, 3], [np.nan, 2, 3]])
    with pytest.raises(ValueError, match=r"values must have shape \(T, A\).* got \(3,\)"):
        references([1, 2, 3])
    with pytest.raises(ValueError, match="noise_variance must be positive and finite, got 0"):
        TableProblem(TABLE, np.eye(3), name="t", unit="", noise_variance=0)
    with pytest.raises(ValueError, match="labels must name 3 points, got 1"):
        TableProblem(TABLE, np.eye(3), name="t", unit="", noise_variance=1, labels=("a",))

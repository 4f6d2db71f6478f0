"""The problem on a fixed table, and the references to read regret against."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tests.helpers.refusals import refused
from tvbandits.datasets import TableProblem
from tvbandits.datasets.tables.references import AllRead, average_regret, references

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
    [np.ones((3, 2), dtype=bool), np.ones((3, 3)), np.diag([True, True, False]), True, "yes"],
)
def test_a_mask_of_another_form_is_refused(wrong: object) -> None:
    refused(ValueError, "allowed must be True or False", references, TABLE, wrong)


@pytest.mark.parametrize("t", [0, 4, 1.5, -1, float("nan"), float("inf")])
def test_times_outside_the_table(t: float) -> None:
    needs = "a whole number from 1 to 3" if math.isfinite(t) else "a finite number"
    message = rf"t must be {needs}, got {t}"
    refused(ValueError, message, table_problem().value, np.array([[0.0]]), t)
    refused(ValueError, message, table_problem().best, t)


def test_tables_that_cannot_be() -> None:
    refused(ValueError, "must be candidates", table_problem().value, np.array([[0.5]]), 1)
    refused(ValueError, r"points must have 3 rows, .* got 2", table_problem, points=[[0], [1]])
    refused(ValueError, r"got nan in row 1, column 0", table_problem, [[1, 2, 3], [np.nan, 2, 3]])
    refused(ValueError, r"values must have shape \(T, A\).* got \(3,\)", references, [1, 2, 3])
    with pytest.raises(ValueError, match="noise_variance must be positive and finite, got 0"):
        TableProblem(TABLE, np.eye(3), name="t", unit="", noise_variance=0)
    with pytest.raises(ValueError, match="labels must name 3 points, got 1"):
        TableProblem(TABLE, np.eye(3), name="t", unit="", noise_variance=1, labels=("a",))
    with pytest.raises(ValueError, match="steps must be at most 3, got 4"):
        TableProblem(TABLE, np.eye(3), name="t", unit="", noise_variance=1, steps=4)


# --- the reference that reads every place at every step


def test_all_read_learns_what_persists() -> None:
    rng = np.random.default_rng(2)
    site, fast, errors, naive = rng.normal(0, 2, 12), np.zeros(12), [], []
    reference, last = AllRead(12), None
    for _ in range(300):
        fast = 0.7 * fast + rng.normal(0, 1, 12)
        y = 50 + site + fast + rng.normal(0, 1, 12)
        if last is not None:
            errors.append(((reference.forecast() - y) ** 2).mean())
            naive.append(((last - y) ** 2).mean())
        reference.read(y)
        last = y
    assert np.mean(errors[50:]) < 0.85 * np.mean(naive[50:])


def test_regret_is_that_of_the_largest_forecast() -> None:
    rng = np.random.default_rng(4)
    values = np.cumsum(rng.normal(0, 1, (40, 6)), axis=0)
    reference, regret = AllRead(6), []
    for before, now in pairwise(values):
        reference.read(before)
        regret.append(now.max() - now[np.argmax(reference.forecast())])
    assert average_regret(values) == pytest.approx(np.mean(regret))
    # The order of places does not matter.
    assert average_regret(values[:, ::-1]) == pytest.approx(np.mean(regret))

"""The problem on a fixed table, and the references to read regret against."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.refusals import assert_refused
from tvbandits.comparison.arguments import make_problem
from tvbandits.datasets import TableProblem, table
from tvbandits.datasets.tables.references import Forecaster, references

TABLE = np.array([[1.0, 3.0, 2.0], [4.0, 0.0, 4.0], [5.0, 6.0, 1.0]])


def table_problem(
    values: object = TABLE, points: object = ((0,), (1,), (2,)), **more: Any
) -> TableProblem:
    given = {"name": "t", "unit": "", "noise_variance": 1.0, **more}
    return TableProblem(np.asarray(values), np.asarray(points), **given)


def test_table_problem_matches_hand_calculation() -> None:
    problem = table_problem()
    assert problem.horizon == 3
    assert [problem.best(t) for t in (1, 2.0, np.float64(3))] == [3.0, 4.0, 6.0]
    np.testing.assert_array_equal(problem.value(np.array([[2.0], [0.0], [2.0]]), 2.0), [4, 4, 4])
    assert problem.variation == (3 + 6) / 2
    # Uniform: (1, 4/3, 2). Fixed: the first column. Last best: 4 on day 2; on day 3 a fair coin
    # between the first column (1 behind) and the third (5 behind). With all read: the second column on
    # day 2, and then the third, which was better than the first on day 1 and as good on day 2.
    expected = (13 / 9, 1.0, 3.5, 4.5)
    np.testing.assert_allclose(problem.references()[:4], expected, rtol=1e-14)
    np.testing.assert_allclose(references(TABLE[:, ::-1])[:4], expected, rtol=1e-14)


def test_table_problem_of_one_step_has_no_variation() -> None:
    problem = table_problem(TABLE[:1])
    assert problem.variation is None
    assert problem.references()[:4] == (1.0, 0.0, 1.0, 1.0)


def test_references_respect_the_allowed_places() -> None:
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
    np.testing.assert_allclose(everything[:4], references(TABLE)[:4], rtol=1e-14)
    assert references(TABLE[:1], allowed[:1])[2:4] == (0.5, 0.5)


@pytest.mark.parametrize("points", [1, 2, 3, 4, 9])
def test_references_of_several_points_match_all_subsets(points: int) -> None:
    rng = np.random.default_rng(points)
    values = rng.integers(0, 4, (6, 4)).astype(float)  # with ties
    allowed = rng.random((6, 4)) < 0.8
    allowed[:, 0] = True
    found = references(values, allowed, points)
    regrets = np.where(allowed, values, -np.inf).max(axis=1, keepdims=True) - values
    uniform, best_of_uniform, last = [], [], []
    for t, (regret, mask) in enumerate(zip(regrets, allowed, strict=True)):
        sites = np.flatnonzero(mask)
        sets = [list(each) for each in combinations(sites, min(points, len(sites)))]
        uniform.append(np.mean([regret[each].mean() for each in sets]))
        best_of_uniform.append(np.mean([regret[each].min() for each in sets]))
        if t:
            before = [values[t - 1][each].sum() for each in sets]
            most = [each for each, total in zip(sets, before, strict=True) if total == max(before)]
            last.append(np.mean([regret[each].mean() for each in most]))
    of_site = np.where(allowed, regrets, np.array(uniform)[:, None])
    sets = [list(each) for each in combinations(range(4), min(points, 4))]
    assert found.uniform == pytest.approx(np.mean(uniform))
    assert found.best_fixed == pytest.approx(min(of_site[:, each].mean() for each in sets))
    assert found.last_best == pytest.approx(np.mean(last))
    if points == 1:
        assert found[4:] == (1, None, None)
        return
    assert found.points == points
    assert found.best_of_uniform == pytest.approx(np.mean(best_of_uniform))
    fixed = min(sets, key=lambda each: of_site[:, each].mean())
    assert found.best_of_fixed == pytest.approx(of_site[:, fixed].min(axis=1).mean())


@pytest.mark.parametrize(
    "wrong",
    [np.ones((3, 2), dtype=bool), np.ones((3, 3)), np.diag([True, True, False]), True, "yes"],
)
def test_references_refuse_an_invalid_mask(wrong: object) -> None:
    assert_refused(ValueError, "allowed must", references, TABLE, wrong)


@pytest.mark.parametrize("t", [0, 4, 1.5, -1, float("nan"), float("inf")])
def test_table_problem_refuses_times_outside_the_table(t: float) -> None:
    message = rf"t must .*{t}"
    assert_refused(ValueError, message, table_problem().value, np.array([[0.0]]), t)
    assert_refused(ValueError, message, table_problem().best, t)


def test_table_problem_refuses_invalid_arguments() -> None:
    assert_refused(ValueError, "must be candidates", table_problem().value, np.array([[0.5]]), 1)
    assert_refused(ValueError, "points must .*2", table_problem, points=[[0], [1]])
    assert_refused(
        ValueError, r"nan in row 1, column 0", table_problem, [[1, 2, 3], [np.nan, 2, 3]]
    )
    assert_refused(ValueError, r"values must .*\(3,\)", references, [1, 2, 3])
    for wrong, message in (
        ({"noise_variance": 0}, "noise_variance must .*0"),
        ({"labels": ("a",)}, "labels must .*1"),
        ({"steps": 4}, "steps must .*4"),
    ):
        assert_refused(ValueError, message, table_problem, **wrong)


# --- tables of rewards


def test_table_reads_constant_rewards_and_estimates_noise(tmp_path: Path) -> None:
    path = tmp_path / "my rewards.csv"
    path.write_text("a,reward\n0,1e8\n0,100000001\n1,0\n")
    assert table(path).noise_variance == 0.5
    path.write_text("a,reward\n" + 6 * "0,0.8\n" + 6 * "1,2.8\n")  # equal rewards: no noise
    assert table(path).noise_variance == pytest.approx(1e-4)
    path.write_text("a,b,reward\n0,1,2.0\n1,1,5.0\n0,1,3.0\n2,0,-1.0\n")
    for made in (table(path), make_problem(f"table:{path}", [], None)):
        assert made.horizon == 500
        assert len(made.domain) == 3
        assert made.best(1.0) == 5.0
        assert made.value(made.domain.X, 1.0).tolist() == [2.5, 5.0, -1.0]
        assert made.noise_variance == pytest.approx(0.5)  # of 2 and 3 around 2.5
        assert made.domain.X.std(axis=0) == pytest.approx([1.0, 1.0])


def test_table_reads_rewards_that_change_with_time(tmp_path: Path) -> None:
    rows = [(x, t, x * t) for t in (3, 1, 2) for x in (1.0, -2.0)]
    frame = pd.DataFrame(rows, columns=["x", "Time", "gain"])
    for path in (tmp_path / "a.csv", tmp_path / "a.parquet"):
        (frame.to_csv if path.suffix == ".csv" else frame.to_parquet)(path, index=False)  # type: ignore[operator]
        made = make_problem(f"table:{path}:reward=gain,scale_inputs=false", [], 2)
        assert isinstance(made, TableProblem)
        assert made.horizon == 2
        assert made.value(np.array([[1.0], [-2.0]]), 2.0).tolist() == [2.0, -4.0]
        assert made.best(1.0) == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n", "reward must"),
        ("\x1b[2Jx,y\n1,2\n", r'no "reward" among  \[2Jx, y$'),  # nothing that a terminal obeys
        ("reward\n1\n", "input"),
        (",x,reward\n0,1,2\n", "without a name"),
        ("x,reward\n1,two\n", "reward must .*two in row 1 of 1"),
        ("x,t,reward\n1,1,2\n2,1,3\n1,2,5\n", r"1 rewards are missing.* \[2.0\] at time 2"),
        ("x,t,reward\n1,1,2\n1,1,3\n", r"two rewards of \[1.0\] at time 1"),
    ],
)
def test_table_refuses_invalid_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert_refused(ValueError, message, table, path)


# --- the reference that reads every place at every step


def test_forecaster_predicts_better_than_the_last_reading() -> None:
    rng = np.random.default_rng(2)
    site, fast, table = rng.normal(0, 2, 12), np.zeros(12), []
    for _ in range(300):
        fast = 0.7 * fast + rng.normal(0, 1, 12)
        table.append(50 + site + fast + rng.normal(0, 1, 12))
    values = np.array(table)
    errors = np.array(list(Forecaster().forecasts(values))) - values[1:]
    assert (errors[50:] ** 2).mean() < 0.85 * (np.diff(values, axis=0)[50:] ** 2).mean()


def test_references_all_read_is_the_regret_of_the_largest_forecast() -> None:
    values = np.cumsum(np.random.default_rng(4).normal(0, 1, (40, 6)), axis=0)
    steps = zip(Forecaster().forecasts(values), values[1:], strict=True)
    regret = [now.max() - now[np.argmax(expected)] for expected, now in steps]
    assert references(values).all_read == pytest.approx(np.mean(regret))
    # The order of places does not matter.
    assert references(values[:, ::-1]).all_read == pytest.approx(np.mean(regret))

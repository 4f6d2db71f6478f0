"""Tables of rewards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tvbandits.cli.problems import make_problem
from tvbandits.datasets import table
from tvbandits.datasets.regression import RegressionProblem
from tvbandits.datasets.tables.problem import TableProblem


def test_a_table_that_stands_still(tmp_path: Path) -> None:
    path = tmp_path / "my rewards.csv"
    path.write_text("a,b,reward\n0,1,2.0\n1,1,5.0\n0,1,3.0\n2,0,-1.0\n")
    for made in (table(path), make_problem(f"table:{path}", [], None)):
        assert isinstance(made, RegressionProblem)
        assert len(made.domain) == 3
        assert made.best(1.0) == 5.0
        assert made.value(made.domain.X, 1.0).tolist() == [2.5, 5.0, -1.0]
        assert made.noise_variance == pytest.approx(0.5)  # of 2 and 3 around 2.5
        assert made.domain.X.std(axis=0) == pytest.approx([1.0, 1.0])


def test_a_table_that_drifts(tmp_path: Path) -> None:
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
        ("x,y\n1,2\n", 'reward must be a column; there is no "reward" in x, y'),
        ("reward\n1\n", "an input besides the reward"),
        ("x,reward\n1,two\n", "reward must be a finite number, got two in row 1 of 1"),
        ("x,t,reward\n1,1,2\n2,1,3\n1,2,5\n", r"1 rewards are missing.* \[2.0\] at 2"),
        ("x,t,reward\n1,1,2\n1,1,3\n", r"two rewards of \[1.0\] at time 1"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        table(path)

"""Tables of rewards, and a small made-up file in the form of NAS-Bench-101."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.attack.cells import CELL, OPS, RECORDS, framed
from tvbandits.cli.problems import make_problem
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.datasets import nas_bench, table
from tvbandits.datasets.finite import encoded, fields_of
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


# --- NAS-Bench-101 ----------------------------------------------------------------------------------


def test_cells_are_read_as_the_paper_encodes_them(tmp_path: Path) -> None:
    path = tmp_path / "nasbench.tfrecord"
    path.write_bytes(framed(RECORDS))
    made = make_problem("nas-bench", [path], 12)
    assert isinstance(made, RegressionProblem)
    assert made.horizon == 12
    assert len(made.domain) == 2
    np.testing.assert_allclose(made.rewards, [0.91, 0.80])
    assert made.noise_variance == pytest.approx(2e-4)  # of 0.90 and 0.92 around 0.91
    assert made.kernel.length_scale == 100.0
    # Rows of the upper half: 11001 0101 011? of CELL, without the first and the last.
    upper = [1, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1]
    edges = np.array(upper[1:-1], dtype=float)
    found = made.domain.X[0]
    np.testing.assert_allclose(found[:13], edges / np.sqrt(edges.sum()))
    np.testing.assert_allclose(found[13:], np.array([1, 0, 1, 0]) / np.sqrt(2))
    assert found.shape == (17,)
    rows = [run.rows for run in iterate(Comparison(made, ["uniform", "bkb"], 1))]
    assert [len(run) for run in rows] == [12, 12]


def test_only_cells_of_four_inner_nodes_count() -> None:
    assert encoded("010001000", "input,maxpool3x3,output") is None
    assert encoded(CELL, OPS.replace("maxpool3x3", "conv1x1-bn-relu")) is None
    assert dict(fields_of(b"\x08\x96\x01"))[1] == 150


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (framed(RECORDS)[:-3], "ends within a record"),
        (b"x" * 40, "this is no .tfrecord file"),
        (struct.pack("<Q", 2) + b"crc1{}crc2", "none of NAS-Bench-101"),
        (framed(RECORDS[3:]), "no cell of four inner nodes"),
        (framed(RECORDS[:2]), "all 1 cells have the accuracy 0.91"),
    ],
)
def test_files_that_are_none(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "broken.tfrecord"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=said):
        nas_bench(path)

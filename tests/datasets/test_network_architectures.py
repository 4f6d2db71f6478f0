"""Architectures of networks: the form of a table, the inputs of BBKB's appendix, and all cells."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.commands import check_error_line, commands
from tests.helpers.ozone_samples import assert_same_problem, csv
from tests.helpers.refusals import assert_refused
from tvbandits import compare
from tvbandits.comparison.arguments import make_problem
from tvbandits.datasets import TableProblem, nas_bench, simulate_nas_bench
from tvbandits.datasets.network_architectures import enumerate_cells

PAIRS = [(i, j) for i in range(6) for j in range(i + 1, 6)]  # row by row of the upper half


def code_of(*edges: tuple[int, int]) -> str:
    """The 15 digits of a graph."""
    return "".join("1" if pair in edges else "0" for pair in PAIRS)


def edges_of(code: str) -> set[tuple[int, int]]:
    """The edges of a code."""
    return {pair for pair, digit in zip(PAIRS, code[:15], strict=True) if digit == "1"}


CHAIN = code_of((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
FORK = code_of((0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5))
# Trainings, two of them of one architecture.
TABLE = pd.DataFrame(
    {
        "architecture": [CHAIN + "1000", FORK + "1111", CHAIN + "1000", FORK + "0000"],
        "accuracy": [0.90, 0.94, 0.92, 0.80],
    }
)


# --- the problem


def test_nas_bench_scales_edges_and_nodes_to_at_most_unit_norm() -> None:
    problem = nas_bench(TABLE, bandwidth=3.0, horizon=7)
    edges = np.array([[float(d) for d in code[1:14]] for code in (CHAIN, FORK, FORK)])
    nodes = np.array([[1.0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    largest = max(sum(row) for row in edges) ** 0.5
    np.testing.assert_allclose(problem.points, np.hstack([edges / largest, nodes / 2]), rtol=1e-15)
    assert problem.points.shape == (3, 17)
    assert (problem.kernel, problem.horizon, problem.unit) == (RBF(3.0), 7, "accuracy")
    assert problem.labels == (CHAIN + "1000", FORK + "1111", FORK + "0000")


def test_nas_bench_averages_trainings_and_estimates_their_noise() -> None:
    problem = nas_bench(TABLE)
    np.testing.assert_allclose(problem.values, [[0.91, 0.94, 0.80]], rtol=1e-15)
    assert problem.noise_variance == pytest.approx(2e-4)  # of 0.90 and 0.92 around 0.91
    assert nas_bench(TABLE, noise_variance=0.5).noise_variance == 0.5
    assert nas_bench(TABLE[1:]).noise_variance == pytest.approx(1e-4 * np.var([0.94, 0.92, 0.80]))


def test_nas_bench_reads_every_form_of_the_same_table(tmp_path: Path) -> None:
    problem = nas_bench(TABLE)
    assert_same_problem(nas_bench(csv(tmp_path / "cells.csv", TABLE)), problem)
    numbers = TABLE.astype({"architecture": "int64"})  # the first digit is never 0
    assert_same_problem(nas_bench(numbers), problem)
    path = tmp_path / "cells.parquet"
    pytest.importorskip("pyarrow")
    numbers.to_parquet(path)
    assert_same_problem(nas_bench(path), problem)
    other = TABLE.rename(columns={"architecture": "Code", "accuracy": "validation accuracy"})
    assert_same_problem(
        make_problem("nas-bench", [csv(tmp_path / "other.csv", other)], None), problem
    )


LOST = code_of((1, 2), (2, 3), (3, 4), (4, 5))
ENDLESS = code_of((0, 1), (1, 2), (2, 3), (3, 4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.rename(columns={"accuracy": "loss"}),
            r"missing: accuracy; .*, got arch.*, loss$",
        ),
        (lambda t: t[["accuracy"]], r"missing: architecture; it needs architecture \(19 digits"),
        (lambda t: t[:0], "has a header and no rows$"),
        (
            lambda t: t.assign(architecture=["1.00001E+18", *t["architecture"][1:]]),
            r"19 digits 0 or 1: .*got '1.00001E\+18' in row 1 of 4: write the column as text",
        ),
        (
            lambda t: t.assign(architecture=[*t["architecture"][:3], CHAIN]),
            f"19 digits .*got '{CHAIN}' in row 4 of 4",
        ),
        (
            lambda t: t.assign(architecture=[*t["architecture"][:3], CHAIN + "1002"]),
            f"19 digits .*got '{CHAIN}1002' in row 4",
        ),
        (
            lambda t: t.assign(
                architecture=[*t["architecture"][:2], LOST + "1111", CHAIN + "0000"]
            ),
            rf"{LOST}1111 in row 3 of 4, with none into inner node 1: .* row by row$",
        ),
        (
            lambda t: t.assign(architecture=[ENDLESS + "1111", *t["architecture"][1:]]),
            r"in row 1 of 4, with none out of inner node 4",
        ),
        (
            lambda t: t.assign(accuracy=[0.9, 93.5, 0.9, 0.8]),
            r"got 93.5 in row 2 of 4: divide perc",
        ),
        (lambda t: t.assign(accuracy=[0.9, 0.8, -0.1, 0.8]), r"from 0 to 1, got -0.1 in row 3"),
        (
            lambda t: t.assign(accuracy=["a", "b", "c", "d"]),
            "accuracy must be a finite .* got a in",
        ),
        (lambda t: t.assign(accuracy=[0.9, np.nan, 0.9, 0.8]), "accuracy must be .* in row 2 of 4"),
        (lambda t: t.assign(accuracy=0.9), "accuracy is 0.9 for every architecture"),
    ],
)
def test_nas_bench_refuses_invalid_tables_with_a_remedy(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str, tmp_path: Path
) -> None:
    wrong = change(TABLE)
    assert_refused(ValueError, message, nas_bench, wrong)
    path = csv(tmp_path / "wrong.csv", wrong)
    with pytest.raises(ValueError, match=f"wrong.csv: .*{message}") as raised:
        nas_bench(path)
    assert "\n" not in str(raised.value)


def test_nas_bench_and_simulate_nas_bench_refuse_invalid_options() -> None:
    assert_refused(ValueError, "bandwidth must .*0", nas_bench, TABLE, bandwidth=0)
    assert_refused(ValueError, "horizon must .*0", nas_bench, TABLE, horizon=0)
    assert_refused(ValueError, "noise_variance must .*-1", nas_bench, TABLE, noise_variance=-1)
    assert_refused(ValueError, "source must .*7", nas_bench, 7)
    assert_refused(
        ValueError, "architectures must .*12417", simulate_nas_bench, architectures=12_417
    )
    assert_refused(ValueError, "seed must .*-1", simulate_nas_bench, -1)
    assert_refused(ValueError, "trainings must .*0", simulate_nas_bench, trainings=0)


# --- the cells


@pytest.mark.slow
def test_enumerate_cells_returns_one_cell_of_every_isomorphism_class() -> None:
    """By sets of edges, of all graphs that an edge enters and leaves at each inner node."""
    orders = [(0, *inner, 5) for inner in itertools.permutations(range(1, 5))]

    def names(edges: set[tuple[int, int]], nodes: str) -> set[tuple[object, str]]:
        """What a cell is called under each renaming of its inner nodes."""
        return {
            (
                frozenset((order[i], order[j]) for i, j in edges),
                "".join(nodes[order.index(node) - 1] for node in range(1, 5)),
            )
            for order in orders
        }

    codes = ["".join(map(str, code)) for code in enumerate_cells()]
    assert codes == sorted(codes)
    assert len(codes) == 12_416  # [BB] appendix D.2
    class_of: dict[tuple[object, str], str] = {}
    for code in codes:
        for name in names(edges_of(code), code[15:]):
            assert class_of.setdefault(name, code) == code
    inner = {1, 2, 3, 4}
    for free in itertools.product("01", repeat=13):
        edges = edges_of("1" + "".join(free) + "1")
        if len(edges) <= 9 and inner <= {i for i, _ in edges} and inner <= {j for _, j in edges}:
            for nodes in itertools.product("01", repeat=4):
                assert (frozenset(edges), "".join(nodes)) in class_of


def test_simulate_nas_bench_draws_the_table_by_its_seed() -> None:
    table = simulate_nas_bench(3, architectures=50, trainings=2)
    pd.testing.assert_frame_equal(table, simulate_nas_bench(3, architectures=50, trainings=2))
    assert not table.equals(simulate_nas_bench(4, architectures=50, trainings=2))
    assert table["architecture"].value_counts().tolist() == [2] * 50
    assert set(table["architecture"]) <= {"".join(map(str, code)) for code in enumerate_cells()}
    assert table["accuracy"].between(0.0, 1.0).all()
    everything = nas_bench(simulate_nas_bench(architectures=12_416, trainings=2))
    assert len(everything.domain) == 12_416
    assert everything.noise_variance == pytest.approx(0.003**2, rel=0.05)


# --- in a comparison

POLICIES = ["bbkb", "gp-bucb", "thompson", "eps-greedy", "evolution"]


def test_compare_plays_policies_of_the_paper_on_nas_bench() -> None:
    problem = nas_bench(simulate_nas_bench(0, architectures=60), horizon=40)
    assert isinstance(problem, TableProblem)
    rows = compare(problem, POLICIES, 1)
    assert rows.groupby("policy").size().to_dict() == dict.fromkeys(POLICIES, 40)


def test_compare_command_plays_policies_of_the_paper_on_nas_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say = commands(monkeypatch, capsys, "compare", "nas-bench")
    path = csv(tmp_path / "cells.csv", simulate_nas_bench(0, architectures=60))
    words = [word for name in POLICIES for word in ("--policy", name)]
    given = ["--horizon", "20", "--seeds", "1", "--jobs", "1"]
    said = say("--data", str(path), *words, *given)
    assert said.status == 0, said.err
    assert all(name in said.out for name in POLICIES)
    check_error_line(say(*words), '"nas-bench" reads files: give 1 by --data FILE, got 0')
    check_error_line(
        say("--data", str(csv(tmp_path / "wrong.csv", TABLE[["accuracy"]]))),
        "wrong.csv: this is not a",
    )

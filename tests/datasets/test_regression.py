"""Regression tables as stationary problems, against plain formulas on small made-up tables."""

import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.ozone_samples import assert_same_problem, csv
from tests.helpers.refusals import assert_refused
from tests.places import DATA
from tvbandits import Candidates, Problem
from tvbandits.comparison.arguments import make_problem
from tvbandits.datasets import Lifted
from tvbandits.datasets.finite import abalone, california
from tvbandits.datasets.lifted import FUNCTIONS
from tvbandits.datasets.table_problem import TableProblem

REAL = DATA / "tables"

Make = Callable[..., TableProblem]

# Rows 0 and 3 have the same inputs; their mean is 10.5, so rewards run from 7 to 10.5.
SHELLS = pd.DataFrame(
    {
        "sex": ["M", "F", "I", "M", "M"],
        "length": [0.45, 0.35, 0.53, 0.45, 0.44],
        "diameter": [0.365, 0.265, 0.42, 0.365, 0.365],
        "height": [0.095, 0.09, 0.135, 0.095, 0.125],
        "whole_weight": [0.514, 0.2255, 0.677, 0.514, 0.516],
        "shucked_weight": [0.2245, 0.0995, 0.2565, 0.2245, 0.2155],
        "viscera_weight": [0.10099999999999999, 0.0485, 0.1415, 0.10099999999999999, 0.114],
        "shell_weight": [0.15, 0.07, 0.21, 0.15, 0.155],
        "rings": [15, 7, 9, 6, 10],
    }
)

_drawn = np.random.default_rng(3).lognormal(size=(6, 9))
BLOCKS = pd.DataFrame(
    _drawn,
    columns=[
        *("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup"),
        *("Latitude", "Longitude", "MedHouseVal"),
    ],
)


def parquet(path: Path, frame: pd.DataFrame) -> Path:
    pytest.importorskip("pyarrow")
    frame.to_parquet(path)
    return path


@pytest.fixture
def shells(tmp_path: Path) -> TableProblem:
    return abalone(csv(tmp_path / "shells.csv", SHELLS))


@pytest.fixture
def blocks(tmp_path: Path) -> TableProblem:
    return california(csv(tmp_path / "blocks.csv", BLOCKS))


# --- what is made of a table


def plainly_standardised(columns: list[list[float]]) -> NDArray[np.float64]:
    rows = [
        [(value - statistics.fmean(column)) / statistics.pstdev(column) for value in column]
        for column in columns
    ]
    return np.array(rows).T


def test_abalone_and_california_standardise_inputs(
    shells: TableProblem, blocks: TableProblem
) -> None:
    coded = SHELLS.assign(sex=[0.0, 1.0, 2.0, 0.0, 0.0])
    expected = plainly_standardised([coded[name].tolist() for name in coded.columns[:8]])
    np.testing.assert_allclose(shells.points, expected[[0, 1, 2, 4]], rtol=1e-12, atol=1e-14)
    expected = plainly_standardised([BLOCKS[name].tolist() for name in BLOCKS.columns[:8]])
    np.testing.assert_allclose(blocks.points, expected, rtol=1e-12, atol=1e-14)


def test_california_merges_rows_with_equal_inputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        np.column_stack([rng.integers(-1, 2, (80, 8)) * (np.arange(8) < 3), rng.random(80)]),
        columns=BLOCKS.columns,
    )
    problem = california(csv(tmp_path / "coarse.csv", frame))
    groups: dict[tuple[float, ...], list[float]] = {}
    for *inputs, target in frame.to_numpy().tolist():
        groups.setdefault(tuple(inputs), []).append(target)
    assert 1 < len(groups) < 28
    means = [statistics.fmean(targets) for targets in groups.values()]
    expected = [(mean - min(means)) / (max(means) - min(means)) for mean in means]
    np.testing.assert_allclose(problem.values[0], expected, rtol=1e-12, atol=1e-14)
    assert f"80 rows, {80 - len(groups)} of them merged" in problem.summary
    # In the order of their first rows: the raw inputs give back the points by one map a column.
    raw = np.array(list(groups))[:, :3]
    for j in range(3):
        slope, intercept = np.polyfit(raw[:, j], problem.points[:, j], 1)
        assert slope > 0
        np.testing.assert_allclose(slope * raw[:, j] + intercept, problem.points[:, j], atol=1e-12)


def test_california_sets_a_constant_column_to_zero(tmp_path: Path) -> None:
    frame = BLOCKS.assign(Latitude=0.1, HouseAge=1e-9)  # six times 0.1 does not add up to 0.6
    problem = california(csv(tmp_path / "flat.csv", frame))
    assert (problem.points[:, [1, 6]] == 0.0).all()
    np.testing.assert_allclose(problem.points[:, 0].std(), 1.0)


# --- the problem


@pytest.mark.parametrize("kind", ["shells", "blocks"])
def test_abalone_and_california_are_constant_problems(
    kind: str, request: pytest.FixtureRequest
) -> None:
    problem: TableProblem = request.getfixturevalue(kind)
    assert isinstance(problem, Problem)
    assert isinstance(problem.domain, Candidates)
    assert problem.name == {"shells": "abalone", "blocks": "california"}[kind]
    assert problem.kernel == RBF({"shells": 17.5, "blocks": 12.5}[kind])
    assert (problem.horizon, problem.noise_variance) == (10_000, 1e-4)
    assert (problem.unit, problem.variation) == ("", 0.0)
    order = np.array([2, 0, 2, 3])
    for t in (1, 2, 10_000):
        np.testing.assert_array_equal(
            problem.value(problem.domain.X[order], t), problem.values[0, order]
        )
        assert problem.best(t) == 1.0


def test_references_of_abalone_match_hand_calculation(shells: TableProblem) -> None:
    uniform = statistics.fmean(1.0 - reward for reward in shells.values[0].tolist())
    np.testing.assert_allclose(shells.references()[:4], (uniform, 0.0, 0.0, 0.0), rtol=1e-14)
    once = replace(shells, steps=1)
    np.testing.assert_allclose(once.references()[:4], (uniform, 0.0, uniform, uniform), rtol=1e-14)


# --- files


def test_california_reads_every_form_of_the_same_table(
    blocks: TableProblem, tmp_path: Path
) -> None:
    assert_same_problem(california(parquet(tmp_path / "blocks.parquet", BLOCKS)), blocks)
    assert_same_problem(california(parquet(tmp_path / "no_suffix", BLOCKS)), blocks)
    assert_same_problem(california(str(tmp_path / "blocks.csv")), blocks)
    BLOCKS.to_csv(tmp_path / "indexed.csv")  # with a nameless first column
    assert_same_problem(california(tmp_path / "indexed.csv"), blocks)
    BLOCKS[BLOCKS.columns[::-1]].to_csv(tmp_path / "backwards.csv.gz", index=False)
    assert_same_problem(california(tmp_path / "backwards.csv.gz"), blocks)


@pytest.mark.parametrize(
    "frame",
    [
        SHELLS.rename(columns=lambda name: name.replace("_", " ").capitalize()),
        SHELLS.rename(columns=str.capitalize).rename(columns={"Rings": "Class_number_of_rings"}),
        SHELLS.assign(sex=[" m", "f ", "i", "M", "M"]),
        SHELLS.assign(id=range(5)),
    ],
    ids=["UCI", "OpenML", "spaces", "more"],
)
def test_abalone_reads_other_spellings_of_columns(
    frame: pd.DataFrame, shells: TableProblem, tmp_path: Path
) -> None:
    assert_same_problem(abalone(csv(tmp_path / "other.csv", frame)), shells)
    assert_same_problem(abalone(parquet(tmp_path / "other.parquet", frame)), shells)


@pytest.mark.parametrize(
    ("make", "frame", "message"),
    [
        (california, SHELLS, "not the california table: columns missing: MedInc, HouseAge, .*Val$"),
        (abalone, BLOCKS, "not the abalone table: columns missing: sex, length, .*, rings$"),
        (abalone, SHELLS.drop(columns=["height", "sex"]), "columns missing: sex, height$"),
        (abalone, SHELLS[:0], "the table has a header and no rows$"),
        (abalone, SHELLS.assign(sex=["M", "F", "?", "X", "?"]), r"M, F or I, got '\?', 'X'$"),
        (abalone, SHELLS.assign(sex=["M", "F", "", "M", "M"]), "M, F or I, got 'nan'$"),
        (abalone, SHELLS.assign(rings=9), "rings is 9.0 in every row: there is"),
        (abalone, SHELLS.assign(length=["1", "2", "x", "4", "5"]), "got x in row 3 of 5$"),
        (abalone, SHELLS.assign(rings=[1, 2, 3, np.nan, 5]), "rings must be .* got nan in row 4"),
        (california, BLOCKS.assign(MedInc=np.inf), "MedInc must be a finite .* got inf in row 1"),
    ],
)
def test_abalone_and_california_refuse_invalid_tables(
    make: Make, frame: pd.DataFrame, message: str, tmp_path: Path
) -> None:
    path = csv(tmp_path / "wrong.csv", frame)
    with pytest.raises(ValueError, match=f"wrong.csv: .*{message}") as raised:
        make(path)
    assert "\n" not in str(raised.value)


def test_abalone_and_california_refuse_invalid_parquet_tables(tmp_path: Path) -> None:
    path = parquet(tmp_path / "numbered.parquet", BLOCKS.set_axis(range(9), axis=1))
    assert_refused(ValueError, r"numbered\.parquet: .*california", california, path)

    frame = SHELLS.assign(rings=pd.array([1, 2, None, 4, 5], dtype="Int64"))
    path = parquet(tmp_path / "gap.parquet", frame)
    assert_refused(ValueError, r"gap\.parquet: rings must .* row 3", abalone, path)
    path = parquet(tmp_path / "sex.parquet", SHELLS.assign(sex=[1.0, 2.0, 3.0, 1.0, 1.0]))
    assert_refused(ValueError, r"sex must .*'1\.0', '2\.0', '3\.0'", abalone, path)


def test_california_names_the_remedy_for_parquet_without_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "blocks.parquet", BLOCKS)
    for name in ("pyarrow", "pyarrow.parquet", "fastparquet"):
        monkeypatch.setitem(sys.modules, name, None)
    match = r'blocks\.parquet: .* needs pyarrow: pip install "tvbandits\[parquet\]"$'
    assert_refused(ValueError, match, california, path)


def test_make_problem_refuses_two_files_for_abalone(tmp_path: Path) -> None:
    both = [tmp_path / "a.csv", tmp_path / "b.csv"]
    match = '"abalone" reads files: give 1 by --data FILE, got 2'
    assert_refused(ValueError, match, make_problem, "abalone", both, None)


# --- the real tables


@pytest.mark.parametrize(
    ("make", "name", "rows", "target", "uniform"),
    [
        (abalone, "abalone.csv", 4177, "rings from 1 to 29", 0.680940),
        (california, "california_housing.parquet", 20640, "MedHouseVal from 0.14999", 0.604421),
    ],
)
def test_abalone_and_california_reproduce_the_real_tables(
    make: Make, name: str, rows: int, target: str, uniform: float
) -> None:
    path = REAL / name
    if not path.is_file():
        pytest.skip(f"table not here: {name} (looked for in {REAL})")
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
    problem = make(path)
    assert problem.points.shape == (rows, 8)
    assert problem.summary.startswith(f"{rows} rows, 0 of them merged")
    assert target in problem.summary
    assert (problem.values.min(), problem.values.max(), problem.best(1)) == (0.0, 1.0, 1.0)
    np.testing.assert_allclose(problem.points.mean(axis=0), 0.0, atol=1e-11)
    np.testing.assert_allclose(problem.points.std(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(problem.references()[:4], (uniform, 0.0, 0.0, 0.0), atol=1e-6)
    some = slice(None, None, 97)
    np.testing.assert_array_equal(problem.value(problem.points[some], 5), problem.values[0, some])


# --- test functions with time as the last coordinate: their printed minima, and an independent search

# Minimizers and minima as they are printed (Surjanovic and Bingham 2013), and to which digit.
MINIMA = {
    "ackley4": ([0.0] * 4, 0.0, 1e-12),
    "eggholder": ([512.0, 404.2319], -959.6407, 1e-4),
    "griewank6": ([0.0] * 6, 0.0, 1e-12),
    "hartmann3": ([0.114614, 0.555649, 0.852547], -3.86278, 1e-5),
    "hartmann6": ([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573], -3.32237, 1e-5),
    "powell4": ([0.0] * 4, 0.0, 1e-12),
    "schwefel4": ([420.9687] * 4, 0.0, 1e-4),
    "shekel4": ([4.0] * 4, -10.536, 1e-3),
}


@pytest.mark.parametrize("name", MINIMA)
def test_functions_reach_their_printed_minimum(name: str) -> None:
    x, minimum, tolerance = MINIMA[name]
    assert FUNCTIONS[name].formula(np.array([x]))[0] == pytest.approx(minimum, abs=tolerance)


def test_minima_cover_every_function() -> None:
    assert set(MINIMA) == set(FUNCTIONS)


def test_functions_match_values_by_hand() -> None:
    Z = np.array([[1.0, 2.0, 3.0, 4.0]])
    expected = {
        "ackley4": 20 + np.e - 20 * np.exp(-0.2 * np.sqrt(7.5)) - np.e,
        "powell4": 21.0**2 + 5 + 256 + 810,
        "schwefel4": 418.9828872724339 * 4 - sum(z * np.sin(z**0.5) for z in range(1, 5)),
        "shekel4": -sum(
            1 / (((Z[0] - c) ** 2).sum() + w)
            for c, w in zip(
                [
                    [4, 4, 4, 4], [1, 1, 1, 1], [8, 8, 8, 8], [6, 6, 6, 6], [3, 7, 3, 7],
                    [2, 9, 2, 9], [5, 3, 5, 3], [8, 1, 8, 1], [6, 2, 6, 2], [7, 3.6, 7, 3.6],
                ],
                [0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5],
                strict=True,
            )
        ),
    }  # fmt: skip
    for name, value in expected.items():
        assert FUNCTIONS[name].formula(Z)[0] == pytest.approx(value, rel=1e-12), name


def test_lifted_scatters_candidates_over_the_cube() -> None:
    cube, few = Lifted("schwefel4", horizon=9), Lifted("schwefel4", horizon=9, candidates=100)
    X = few.domain.sample(100, np.random.default_rng(0))
    assert len(np.unique(X, axis=0)) > 50
    assert X.min() < -450
    assert X.max() > 450
    assert len(few.domain) == 100  # type: ignore[arg-type]
    for t in (1, 5, 9):
        np.testing.assert_array_equal(few.value(X, t), cube.value(X, t))
        everywhere = few.value(few.domain.X, t)  # type: ignore[union-attr]
        assert few.best(t) == everywhere.max() <= cube.best(t)
    assert few.variation == cube.variation
    assert_refused(ValueError, "candidates must be", Lifted, candidates=-1)


def test_lifted_uses_time_as_the_last_coordinate() -> None:
    problem = Lifted("schwefel4", horizon=11)
    formula = FUNCTIONS["schwefel4"].formula
    X = np.array([[1.0, -2.0, 300.0]])
    for t, last in ((1, -500.0), (3.5, -250.0), (6, 0.0), (11, 500.0)):
        assert problem.value(X, t)[0] == -formula(np.append(X[0], last)[None])[0]
    assert_refused(ValueError, r"defined for 1 <= t <= 11; got t = 12", problem.value, X, 12)


def test_lifted_takes_noise_and_deviation_from_the_whole_cube() -> None:
    rng = np.random.default_rng(3)
    for name in ("ackley4", "hartmann3"):
        problem = Lifted(name)
        low, high = FUNCTIONS[name].bounds
        Z = rng.uniform(low, high, (200_000, problem.domain.dimension + 1))
        assert problem.deviation == pytest.approx(FUNCTIONS[name].formula(Z).std(), rel=0.02)
        assert problem.noise_variance == pytest.approx(0.025 * problem.deviation**2)


def test_make_problem_reads_the_parameters_of_lifted() -> None:
    assert make_problem("lifted:hartmann3", [], None) == Lifted("hartmann3")
    assert make_problem("lifted:ackley4,horizon=120", [], 7) == Lifted("ackley4", horizon=120)
    assert make_problem("Lifted:function=powell4", [], 7) == Lifted("powell4", horizon=7)
    assert make_problem("lifted", [], None) == Lifted()
    says = "function must be .*, got 'akley4'"
    assert_refused(ValueError, says, make_problem, "lifted:akley4", [], None)

"""What a point or a comma in a number means: as its column shows, as somebody says, or refused."""

from pathlib import Path

import pytest

from tvbandits.datasets import sensor_field
from tvbandits.datasets.tables.layout import FileOptions
from tvbandits.datasets.tables.sheets import read_sheet

# A column, and what is read.
CLEAR = {
    "thousands beside a decimal comma": (["1.012", "998,5"], [1012.0, 998.5]),
    "thousands beside a decimal point": (["1,012", "998.5"], [1012.0, 998.5]),
    "both marks in one number": (["1.012,5", "1.012", "3"], [1012.5, 1012.0, 3.0]),
    "the other way round": (["1,012.5", "1,012", "3"], [1012.5, 1012.0, 3.0]),
    "two groups": (["1.012.345", "2.000"], [1012345.0, 2000.0]),
    "decimals of three places": (["1,012", "0,998"], [1.012, 0.998]),
    "points of three places": (["1.012", "0.998"], [1.012, 0.998]),
    "a point before other than three digits": (["1.012", "2.34"], [1.012, 2.34]),
    "commas alone": (["1,012", "-2,345"], [1.012, -2.345]),
    "decimals of both kinds": (["1,50E+00", "0.5", "2"], [1.5, 0.5, 2.0]),
    "signs and spaces": (["-1.012", " +998,5 "], [-1012.0, 998.5]),
}

UNCLEAR = {
    "both kinds of decimals": ["1.012", "998,5", "0.5"],
    "thousands of both kinds": ["1.012", "1,012"],
    "points before three digits alone": ["1.012", "1.015"],
}


def column(
    path: Path,
    cells: list[str],
    decimal: str | None = None,
    other: str = "x",
    separator: str = ";",
    names: tuple[str, str] = ("a", "b"),
) -> list[float]:
    rows = [names, *((cell, other) for cell in cells)]
    path.write_text("".join(f"{separator.join(row)}\n" for row in rows))
    cells = read_sheet(path, FileOptions(decimal=decimal)).cells
    return [float(cell) for cell in cells[names[0]]]


@pytest.mark.parametrize("case", CLEAR)
def test_read_sheet_infers_the_decimal_mark_from_the_column(case: str, tmp_path: Path) -> None:
    cells, values = CLEAR[case]
    assert column(tmp_path / "a.csv", cells) == values


@pytest.mark.parametrize("case", UNCLEAR)
def test_read_sheet_refuses_an_ambiguous_column_without_a_decimal_option(
    case: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"1[.,]012 in column a .*decimal="):
        column(tmp_path / "a.csv", UNCLEAR[case])
    if case == "thousands of both kinds":
        assert column(tmp_path / "a.csv", UNCLEAR[case][:1], "comma") == [1012.0]


def test_read_sheet_infers_the_decimal_mark_from_other_cells_or_headings(tmp_path: Path) -> None:
    cells, path = ["1.012", "1.015"], tmp_path / "a.csv"
    assert column(path, cells, other="0.5") == [1.012, 1.015]
    assert column(path, cells, separator=",") == [1.012, 1.015]
    assert column(path, cells, "comma") == [1012.0, 1015.0]
    assert column(path, ["52.123", "52.456"], other="13.123", names=("lat", "lon")) == [
        52.123,
        52.456,
    ]


@pytest.mark.parametrize("cell", ["1.012", "1,012"])
def test_read_sheet_refuses_a_mark_before_three_digits_between_tabs(
    cell: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=rf"{cell} in column a .*decimal="):
        column(tmp_path / "a.csv", [cell], separator="\t")


def test_read_sheet_infers_the_decimal_mark_from_a_mean_in_the_last_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Zeit;a\n01.02.2026 00:00;1.012\n01.02.2026 01:00;1.015\nMittelwert;1.013,5\n")
    assert read_sheet(path, FileOptions()).cells["a"].tolist() == ["1012", "1015"]


def test_read_sheet_refuses_a_column_if_another_has_the_other_mark(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"1\.012 in column a"):
        column(tmp_path / "a.csv", ["1.012", "2.345"], other="0,5")
    assert column(tmp_path / "a.csv", ["1.012", "2.345"], "comma", "0,5") == [1012.0, 2345.0]
    assert column(tmp_path / "a.csv", ["1.012", "2.345"], "point", "0,5") == [1.012, 2.345]
    with pytest.raises(ValueError, match=r"decimal must be .*comma.*point"):
        column(tmp_path / "a.csv", ["1.012"], ",")


def test_sensor_field_reads_thousands_by_the_decimal_option(tmp_path: Path) -> None:
    values, sites = tmp_path / "values.csv", tmp_path / "sites.csv"
    values.write_text("t;p;q\n1;1.012;1.013\n2;998,5;1.001\n3;1.003,2;1.002\n")
    sites.write_text("id;x;y\np;0;0\nq;1,5;0\n")
    with pytest.raises(ValueError, match=r"values\.csv: 1\.013 in column q"):
        sensor_field(values, sites, noise_variance=0.1)
    problem = sensor_field(values, sites, noise_variance=0.1, options=FileOptions(decimal="comma"))
    assert problem.values.tolist() == [[1012.0, 1013.0], [998.5, 1001.0], [1003.2, 1002.0]]

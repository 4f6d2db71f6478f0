"""Cells of numbers, of limits of detection, of units, and of years with two digits."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tvbandits.datasets import FileOptions
from tvbandits.datasets.tables.cells import remedy_for_cell
from tvbandits.datasets.tables.layout import NO_OPTIONS, find_columns, tidy
from tvbandits.datasets.tables.readings import parse_times
from tvbandits.datasets.tables.sentinels import describe_isolated_values, describe_spikes
from tvbandits.datasets.tables.sheets import Sheet, read_sheet
from tvbandits.datasets.tables.times import expand_years

# Cells of a csv with semicolons and the number they are; a None stays a text.
NUMBERS = {
    "\u22125,5": -5.5,
    "\u20131,5": -1.5,
    "\u22121 012,5": -1012.5,
    "1\u202f012\u202f345,5": 1012345.5,
    "1\u00a0012,5": 1012.5,
    "1'012,5": 1012.5,
    "2,5\u00a0": 2.5,
    "1,5e\u22123": 0.0015,
    "5\u20137": None,
    "12 34": None,
    "1 012\u202f345": None,
    "0 012": None,
}


def sheet_of(path: Path, text: str, options: FileOptions = NO_OPTIONS) -> Sheet:
    path.write_text(text, encoding="utf-8")
    return read_sheet(path, options)


@pytest.mark.parametrize("cell", NUMBERS)
def test_read_sheet_reads_a_minus_and_spaces_between_thousands_and_no_other_text(
    cell: str, tmp_path: Path
) -> None:
    sheet = sheet_of(tmp_path / "a.csv", f"time;a\n1;{cell}\n2;0,5\n")
    assert sheet.cells["a"].iloc[1] == "0.5"
    number = NUMBERS[cell]
    read = sheet.cells["a"].iloc[0]
    assert read == cell if number is None else float(read) == number


def test_read_sheet_leaves_names_of_stations_as_they_are(tmp_path: Path) -> None:
    sites = sheet_of(tmp_path / "sites.csv", "id,x,y\n1 012,1 012.5,\u22122\n")
    assert sites.cells.to_numpy().tolist() == [["1 012", "1012.5", "-2"]]
    readings = sheet_of(tmp_path / "a.csv", "time,station,value\n1,1 012,1 012.5\n")
    assert readings.cells.to_numpy().tolist() == [["1", "1 012", "1012.5"]]
    own = FileOptions(station="Punkt")
    readings = sheet_of(tmp_path / "a.csv", "time,Punkt,value\n1,1 012,1 012.5\n", own)
    assert readings.cells.to_numpy().tolist() == [["1", "1 012", "1012.5"]]


def test_tidy_reads_a_dash_as_a_gap(tmp_path: Path) -> None:
    cells = sheet_of(tmp_path / "a.csv", "time,a,b\n1,\u2013,1\n2,\u2212,2\n3,\u2014,3\n").cells
    readings = tidy(cells, find_columns(cells, NO_OPTIONS), NO_OPTIONS)
    assert readings["value"].dropna().tolist() == [1, 2, 3]


@pytest.mark.parametrize("others", ["7", "<0.5"])
def test_tidy_refuses_a_value_below_the_limit_of_detection_with_a_remedy(
    others: str, tmp_path: Path
) -> None:
    text = f"time,a,b\n1,1,<0.5\n2,2,{others}\n"
    cells = sheet_of(tmp_path / "a.csv", text).cells
    layout = find_columns(cells, NO_OPTIONS)
    with pytest.raises(
        ValueError, match=r"column b .*'<0\.5' in line 2: it is below the limit of det"
    ):
        tidy(cells, layout, NO_OPTIONS)
    readings = tidy(cells, layout, FileOptions(missing=["<0.5"]))
    assert readings["value"].notna().sum() == 2 + (others == "7")


def test_remedy_for_cell_says_what_the_cell_may_be() -> None:
    assert (
        "such as half of 0,5, or leave it out by FileOptions(missing=['< 0,5'])"
        in remedy_for_cell("< 0,5")
    )
    assert "above the limit of detection: write a number for it, such as 100," in remedy_for_cell(
        ">100"
    )
    assert remedy_for_cell("12.5 ppb").startswith("if 'ppb' is a unit, remove it from all cells; ")
    assert remedy_for_cell("12.5°C").startswith("if '°C' is a unit")
    assert "decimal='comma'" in remedy_for_cell("1,5")
    for cell in ("pump failed", "2024-01-31", "1.2.3"):
        assert (
            remedy_for_cell(cell)
            == f"if it stands for no reading, say FileOptions(missing=[{cell!r}])"
        )


def test_tidy_asks_for_the_column_of_values_if_none_holds_numbers(tmp_path: Path) -> None:
    text = "time,station,ozone\n1,a,12.5 ppb\n2,b,3.5 ppb\n"
    cells = sheet_of(tmp_path / "a.csv", text).cells
    with pytest.raises(ValueError, match=r"the value is in no column of numbers: .*value='COLUMN'"):
        tidy(cells, find_columns(cells, NO_OPTIONS), NO_OPTIONS)


def test_parse_times_proposes_years_of_four_digits() -> None:
    with pytest.raises(
        ValueError, match=r"'31\.01\.24 12:00' in row 1: .* 31\.01\.2024 or 31\.01\.1924"
    ):
        parse_times(["31.01.24 12:00"])
    assert expand_years("24-01-31") == ["2024-01-31", "24-01-2031"]
    assert expand_years("31-Jan-24") == ["31-Jan-2024", "31-Jan-1924"]
    for text in ("31.01.2024", "2024-01-31", "1.2.3.4", "12:00", "Hall 3"):
        assert expand_years(text) == []


def test_describe_spikes_names_a_value_far_more_frequent_than_its_neighbours() -> None:
    values = np.random.default_rng(0).normal(0, 2, 300).round(2)
    assert describe_spikes(pd.DataFrame({"value": values}), NO_OPTIONS) == []
    for code in (0.0, -1.0):
        table = pd.DataFrame({"value": [*values, *[code] * 30]})
        (note,) = describe_spikes(table, NO_OPTIONS)
        assert note.startswith(f"{code:g} is 9.")
        assert f"missing=['{code:g}']" in note
        assert describe_spikes(table, FileOptions(missing=["none"])) == []
    # Whole numbers, of which each is a large share.
    whole = pd.DataFrame({"value": np.round(values * 5)})
    assert describe_spikes(whole, NO_OPTIONS) == []


def test_describe_isolated_values_names_a_few_zeros_far_from_all_other_values() -> None:
    values = np.linspace(12, 20, 98)
    for code in (0.0, -1.0):
        table = pd.DataFrame({"value": [*values, code, code]})
        (note,) = describe_isolated_values(table, NO_OPTIONS)
        assert note.startswith(f"{code:g} comes 2 times, far from all other values, which are 12")
        assert f"missing=['{code:g}']" in note
        assert describe_isolated_values(table, FileOptions(missing=["none"])) == []
    for near in (values - 12, values - 13, np.round(values)):  # from 0, below 0, few values
        assert (
            describe_isolated_values(pd.DataFrame({"value": [*near, 0.0, -1.0]}), NO_OPTIONS) == []
        )

"""Which columns of a table hold what, and what the options of readings mean for other tables."""

from pathlib import Path

import pandas as pd
import pytest

from tvbandits.datasets import FileOptions, sensor_field
from tvbandits.datasets.tables.layout import (
    NO_OPTIONS,
    find_columns,
    read_ids,
    read_stations,
    read_times,
    tidy,
)
from tvbandits.datasets.tables.readings import parse_times
from tvbandits.datasets.tables.sheets import read_sheet

LONG = pd.DataFrame(
    {
        "Day": ["2024-01-30", "2024-01-30", "2024-01-30", "2024-01-30"],
        "Clock": ["01:00", "01:00", "02:00", "02:00"],
        "Zone": ["+01:00"] * 4,
        "Gauge": ["a", "b", "a", "b"],
        "Level": ["1", "2", "3", "4"],
        "Error": ["0", "0", "0", "0"],
    }
)
OPTIONS = FileOptions(time="Day+Clock+Zone", station="Gauge", value="Level")
SITES = pd.DataFrame({"name": ["a", "b"], "x": [0.0, 1.0], "y": [0.0, 0.0]})


def test_sensor_field_applies_columns_of_readings_to_readings_alone() -> None:
    problem = sensor_field(LONG, SITES, options=OPTIONS)
    assert problem.values.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert problem.labels == ("a", "b")


def test_sensor_field_refuses_a_time_column_absent_from_the_readings() -> None:
    with pytest.raises(ValueError, match=r"time='hour'\): there is no such column"):
        sensor_field(LONG, SITES, options=FileOptions(time="hour", station="Gauge"))


def test_read_times_joins_all_parts_of_a_time() -> None:
    times = read_times(LONG, find_columns(LONG, OPTIONS), OPTIONS)
    assert times.iloc[0] == "2024-01-30 01:00+01:00"
    # The offset counts: hours of Greenwich.
    assert sensor_field(LONG, SITES, options=OPTIONS).summary.startswith(
        "2 sensors, 2024-01-30 00:00:00 to 2024-01-30 01:00:00"
    )


def test_sensor_field_refuses_parts_of_a_time_that_form_no_date() -> None:
    with pytest.raises(ValueError, match=r"time must be .*'2024-01-30 01:00 a'"):
        sensor_field(LONG, SITES, options=FileOptions(time="Day+Clock+Gauge", station="Gauge",
                                                      value="Level"))  # fmt: skip


def test_read_stations_joins_several_columns() -> None:
    options = FileOptions(time="Day+Clock", station="Gauge+Zone", value="Level")
    stations = read_stations(LONG, find_columns(LONG, options))
    assert stations.tolist() == ["a-+01:00", "b-+01:00"] * 2
    assert tidy(LONG, find_columns(LONG, options), options)["value"].tolist() == [1, 2, 3, 4]


def test_read_ids_returns_equal_texts_for_numbers_and_texts() -> None:
    column = pd.Series([7, 7.0, "7", "7.0", "007", None, float("nan"), pd.NA, " b "], dtype=object)
    column.index = pd.Index(range(3, 12))
    ids = read_ids(column)
    assert ids.tolist() == ["7", "7", "7", "7", "007", "", "", "", "b"]
    assert ids.index.equals(column.index)


def test_read_sheet_prefers_the_visible_decimal_mark_to_the_option(tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    path.write_text("site;x;y\nA;11.50;1.012\nB;11.125;2.500\n")
    cells = read_sheet(path, FileOptions(decimal="comma")).cells
    assert cells["x"].tolist() == ["11.50", "11.125"]
    assert cells["y"].tolist() == ["1012", "2500"]


@pytest.mark.parametrize(
    ("header", "row", "time"),
    [
        ("Year,Month,Day,A,B", "2026,{month},31,1,2", "2026-{month:02}-31"),
        ("Jahr,Monat,Tag,Stunde,A,B", "2026,{month:02},31,24,1,2", "2026-{month:02}-31 24:00"),
        ("A,B,year,month,day,hour,minute", "1,2,2026,{month},31,7,30", "2026-{month:02}-31 07:30"),
        ("A,B,MESS_DATUM", "1,2,2026{month:02}3107", "2026-{month:02}-31 07:00"),
    ],
)
def test_tidy_reads_a_date_in_parts_or_digits_as_the_time(
    tmp_path: Path, header: str, row: str, time: str
) -> None:
    months = 1, 3, 5
    rows = [row.format(month=month) for month in months]
    file = tmp_path / "r.csv"
    file.write_text("\n".join([header, *rows]) + "\n")
    cells = read_sheet(file, NO_OPTIONS).cells
    readings = tidy(cells, find_columns(cells, NO_OPTIONS), NO_OPTIONS)
    assert sorted(set(readings["station"])) == ["A", "B"]
    expected = [time.format(month=month) for month in months]
    assert list(parse_times(readings["time"])[::2]) == list(parse_times(expected))


def test_find_columns_prefers_a_timestamp_to_a_date_in_parts() -> None:
    columns = ["timestamp", "year", "month", "day", "station", "value"]
    cells = pd.DataFrame([["2026-01-31", "2026", "1", "31", "A", "1"]], columns=columns)
    assert find_columns(cells, NO_OPTIONS).time == ("timestamp",)

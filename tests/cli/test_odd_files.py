"""Unusual tables: read correctly, or refused with the value and the remedy."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import Command, check_success
from tvbandits.datasets import FileOptions, sensor_field

HOURS = pd.date_range("2024-01-01", periods=30, freq="1h")
NAMES = ["Nord", "Ost", "West"]
VALUES = np.round(10 + np.sin(np.arange(30))[:, None] + np.arange(3) / 2, 2)
SITES = pd.DataFrame({"name": NAMES, "x": [0, 1, 2], "y": [0, 1, 0]})


pytestmark = pytest.mark.usefixtures("empty_folder")


def write(times: list[str], heading: str = "time", names: str = "Nord,Ost,West") -> None:
    rows = [f"{t},{a},{b},{c}" for t, (a, b, c) in zip(times, VALUES, strict=True)]
    Path("r.csv").write_text("\n".join([f"{heading},{names}", *rows]) + "\n", encoding="utf-8")


def info(command: Command, *flags: str) -> dict[str, object]:
    (facts,) = json.loads(
        check_success(command("data", "info", "r.csv", *flags, "--format", "json"))
    )["files"]
    return dict(facts)


@pytest.mark.parametrize(
    ("heading", "times"),
    [
        ("Timestamp", [f"{t:%Y%m%d%H%M}" for t in HOURS]),
        ("time", [f"{t:%Y%m%d%H%M%S}" for t in HOURS]),
        ("Date", [f"{45292 + i / 24:.6f}" for i in range(30)]),
        ("Datum", [f"{45292 + i / 24:.6f}" for i in range(30)]),
    ],
)
def test_data_info_reads_dates_as_digits_and_spreadsheet_days(
    command: Command, heading: str, times: list[str]
) -> None:
    write(times, heading)
    facts = info(command)
    assert (facts["from"], facts["to"]) == ("2024-01-01 00:00:00", "2024-01-02 05:00:00")
    assert (facts["step"], facts["questions"]) == ("1h", [])


@pytest.mark.parametrize(("heading", "start"), [("hour", 45292.0), ("t", 1.5), ("Date", 3.5)])
def test_data_info_keeps_other_times_as_numbers(
    command: Command, heading: str, start: float
) -> None:
    write([str(start + i) for i in range(30)], heading)
    assert info(command)["from"] == str(start)


def test_data_info_and_sensor_field_refuse_times_with_and_without_an_offset(
    command: Command,
) -> None:
    write([f"{t:%Y-%m-%d %H:%M}{'+01:00' * (i % 2)}" for i, t in enumerate(HOURS)])
    said = check_success(command("data", "info", "r.csv"))
    assert (
        "unclear: 2024-01-01 01:00+01:00 has an offset from UTC and 2024-01-01 00:00 has none"
        in said
    )
    with pytest.raises(ValueError, match="has an offset from UTC"):
        sensor_field("r.csv", SITES)


def test_data_info_and_sensor_field_note_names_that_differ_by_case_or_spaces(
    command: Command,
) -> None:
    write([str(t) for t in HOURS], names="Nord, nord,West")
    said = check_success(command("data", "info", "r.csv"))
    assert "note: 'Nord' and 'nord' are read as different stations" in said
    with pytest.warns(UserWarning, match="'Nord' and 'nord' are read"):
        sensor_field("r.csv", SITES)


def test_data_info_asks_about_two_columns_of_one_name(command: Command) -> None:
    write([str(t) for t in HOURS], names="Nord,Nord,West")
    said = check_success(command("data", "info", "r.csv"))
    assert "unclear: Nord is the name of 2 columns" in said
    assert "next:" not in said


@pytest.mark.parametrize("first", [0, 1])
def test_data_info_takes_no_nameless_column_of_row_numbers_for_a_station(
    command: Command, first: int
) -> None:
    times = [f"{i},{t}" for i, t in enumerate(HOURS, first)]
    write(times, ",time")
    assert info(command)["stations"] == NAMES
    write(times, "no,time")  # a column with a name may be a station
    assert info(command)["stations"] == ["no", *NAMES]


@pytest.mark.parametrize(
    "second", ["time,Süd,Mitte\n2024-01-01 00:00,1,2\n", "site,x,y\nNord,1,2\n"]
)
def test_data_info_refuses_a_second_table_below_the_first_by_its_line(
    command: Command, second: str
) -> None:
    write([str(t) for t in HOURS])
    with Path("r.csv").open("a", encoding="utf-8") as file:
        file.write(f"\n{second}")
    said = command("data", "info", "r.csv")
    assert said.status == 2
    assert re.search(
        r"r\.csv: a second table begins in line 33 \(.*\): put it into a file", said.err
    )


def test_data_info_accepts_a_repeated_header_only_in_the_same_order(command: Command) -> None:
    write([str(t) for t in HOURS])
    with Path("r.csv").open("a", encoding="utf-8") as file:
        file.write("Time,Nord,Ost,West\n2024-01-02 06:00,1,2,3\n")
    facts = info(command)
    assert (facts["to"], facts["repeated_headers"]) == ("2024-01-02 06:00:00", 1)
    with Path("r.csv").open("a", encoding="utf-8") as file:
        file.write("Time,West,Nord,Ost\n2024-01-02 07:00,3,1,2\n")
    said = command("data", "info", "r.csv")
    assert said.status == 2
    assert "r.csv: line 34 names columns as line 1 does, but others, or in another" in said.err


def test_data_info_asks_about_a_large_code_and_missing_leaves_it_out(command: Command) -> None:
    write([str(t) for t in HOURS])
    text = Path("r.csv").read_text(encoding="utf-8")
    Path("r.csv").write_text(text.replace(f",{VALUES[3, 1]},", ",1e30,"), encoding="utf-8")
    assert "1e+30 comes 1 time, outside" in check_success(command("data", "info", "r.csv"))
    assert info(command, "--missing", "1e+30")["questions"] == []
    problem = sensor_field("r.csv", SITES, options=FileOptions(missing=["1e+30"]))
    assert problem.values.max() < 20


def test_data_info_quotes_a_remedy_for_a_shell(command: Command) -> None:
    write([str(t) for t in HOURS])
    text = Path("r.csv").read_text(encoding="utf-8")
    Path("r.csv").write_text(text.replace(f",{VALUES[3, 1]},", ",<0.5,"), encoding="utf-8")
    assert "--missing '<0.5'" in check_success(command("data", "info", "r.csv"))
    assert info(command, "--missing", "<0.5")["questions"] == []


def test_data_info_notes_a_value_far_more_frequent_than_its_neighbours(command: Command) -> None:
    rows = [f"{i},{0 if i % 7 == 0 else i / 10 - 9}" for i in range(200)]
    Path("zeros.csv").write_text("\n".join(["time,a", *rows]), encoding="utf-8")
    info = check_success(command("data", "info", "zeros.csv"))
    assert "note: 0 is 15.0% of the values" in info
    assert "next: " in info


def test_data_info_asks_for_years_with_four_digits(command: Command) -> None:
    Path("short.csv").write_text("time,a,b\n31.01.24,1,2\n01.02.24,2,3\n", encoding="utf-8")
    assert "write years with four digits, as 31.01.2024 " in check_success(
        command("data", "info", "short.csv")
    )


def test_commands_and_sensor_field_note_zeros_far_from_all_other_values(command: Command) -> None:
    write([str(t) for t in HOURS])
    text = Path("r.csv").read_text(encoding="utf-8")
    Path("r.csv").write_text(text.replace(f",{VALUES[3, 1]},", ",0,"), encoding="utf-8")
    SITES.to_csv("s.csv", index=False)
    new = ("--policy", "adaptive-gp-ucb", "--sites", "s.csv", "--history", "r.csv")
    for said in (
        check_success(command("data", "info", "r.csv")),
        check_success(command("campaign", "new", "c.db", *new)),
    ):
        assert "note: 0 comes 1 time, far from all other values" in said
    with pytest.warns(UserWarning, match=r"0 comes 1 time, .*missing=\['0'\]"):
        sensor_field("r.csv", SITES)
    assert info(command, "--missing", "0")["notes"] == []


def test_data_info_takes_a_table_with_empty_coordinates_for_readings(command: Command) -> None:
    rows = [f"{t} UTC,{i},{i / 7},,,," for i, t in enumerate(HOURS)]
    header = "created_at,entry_id,field1,latitude,longitude,elevation,status"
    Path("r.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
    facts = info(command)
    assert (facts["form"], facts["from"]) == ("wide", "2024-01-01 00:00:00")


def test_data_info_asks_which_of_two_columns_is_the_time(command: Command) -> None:
    rows = [f"{n},{t},{t + pd.Timedelta('1h')},7" for t in HOURS for n in NAMES]
    Path("r.csv").write_text("\n".join(["station,begin,end,value", *rows]), encoding="utf-8")
    (question,) = info(command)["questions"]  # type: ignore[misc]
    assert question == "the time may be begin or end: say which by --time COLUMN"
    assert info(command, "--time", "end")["from"] == "2024-01-01 01:00:00"


def test_new_and_tell_commands_read_seconds_since_1970_as_dates(command: Command) -> None:
    write([str(int(t.timestamp())) for t in HOURS])
    SITES.to_csv("s.csv", index=False)
    new = ("--policy", "adaptive-gp-ucb", "--sites", "s.csv", "--history", "r.csv")
    said = check_success(command("campaign", "new", "c.db", *new, "--dates", "s"))
    assert "90 readings of 30 times as a history" in said
    write([str(int(t.timestamp()) + 30 * 3600) for t in HOURS])
    said = check_success(command("campaign", "tell", "c.db", "--csv", "r.csv", "--dates", "s"))
    assert said.startswith("90 new readings")
    assert "the last at 2024-01-03 11:00:00+00:00" in check_success(
        command("campaign", "status", "c.db")
    )


def test_compare_takes_several_tables_as_data_info_says(command: Command) -> None:
    write([str(t) for t in HOURS])
    lines = Path("r.csv").read_text().splitlines()
    Path("one.csv").write_text("\n".join(lines[:16]) + "\n")
    Path("two.csv").write_text("\n".join([lines[0], *lines[16:]]) + "\n")
    SITES.to_csv("sites.csv", index=False)
    said = check_success(command("data", "info", "one.csv", "two.csv", "sites.csv"))
    words = "--data one.csv --data two.csv --data sites.csv"
    assert f"next: tvbandits compare sensor-field {words}\n" in said
    result = command("compare", "sensor-field", *words.split(), "--policy", "uniform", "--seeds", 1)
    assert result.status == 0
    assert "3 sensors, 2024-01-01 00:00:00 to 2024-01-02 05:00:00 (30 steps)" in result.err


def test_new_writes_the_path_of_sites_from_the_folder_of_its_configuration(
    command: Command,
) -> None:
    SITES.to_csv("sites.csv", index=False)
    Path("plans").mkdir()
    new = ("campaign", "new", "c.db", "--policy", "adaptive-gp-ucb", "--sites", "sites.csv")
    check_success(command(*new, "--config", "plans/c.toml"))
    assert 'sites = "../sites.csv"' in Path("plans/c.toml").read_text()

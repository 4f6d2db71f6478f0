"""Files as agencies, loggers and spreadsheets write them: from the file to a decision by commands."""

import json
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import Command, check_error_line, check_success, commands
from tests.helpers.received import FILES, STATIONS, truth
from tests.places import ROOT
from tvbandits import Campaign
from tvbandits.datasets import FileOptions, sensor_field

# The options that a file needs, if any.
SAID: dict[str, dict[str, Any]] = {
    "openaq.csv": {"parameter": "pm25"},
    "sensor_community.csv": {"value": "P2"},
    "sentinel.csv": {"missing": ["-999"]},
}

# The stations that have a gap, and the rest of what `data info` must find.
READINGS = [name for name in FILES if name != "sites.csv"]
GAPS = {"spreadsheet.csv": 1, "uk_air.csv": 1, "campbell.dat": 1, "sentinel.csv": 2}

FACTS: dict[str, dict[str, Any]] = {
    "openaq.csv": {"form": "long", "parameters": {"pm25": 192, "no2": 192}, "step": "1h"},
    "aqs_hourly.csv": {"time": ["Date GMT", "Time GMT"], "value": ["Sample Measurement"]},
    "aqs_daily.csv": {"time": ["Date Local"], "value": ["Arithmetic Mean"], "step": "1D"},
    "sensor_community.csv": {"repeated_headers": 3, "regular": False, "step": "30min"},
    "spreadsheet.csv": {"left_out": [1], "units": [4], "decimal": "comma", "no_reading": {"-": 1}},
    "uk_air.csv": {"left_out": [1, 2, 3, 55], "no_reading": {"No data": 1}, "to": "2024-02-01 00:00:00"},
    "campbell.dat": {"header": 2, "left_out": [1], "units": [3, 4], "no_reading": {"NAN": 1}},
    "influx.csv": {"header": 4, "left_out": [1, 2, 3], "repeated_headers": 3, "station": ["device"]},
    "hours.csv": {"form": "long", "time": ["Datum", "hour"], "to": "2024-02-01 00:00:00"},
    "thousands.csv": {"separator": "semicolon", "decimal": "comma", "form": "wide"},
    "sentinel.csv": {"no_reading": {"-999.0": 2}, "stations": list(STATIONS)},
    "day_first.csv": {"from": "2024-01-30 01:00:00", "to": "2024-02-01 00:00:00"},
}  # fmt: skip


def test_data_info_asks_whether_columns_of_different_units_are_stations(command: Command) -> None:
    lines = check_success(command("data", "info", "campbell.dat"))
    asked = r"  unclear: columns have different units \(RN: RECORD; Volts: BattV; Deg C: Nord, .*\)"
    assert re.search(asked + r": leave out .* by --without RECORD", lines)
    assert "next:" not in lines
    others = ("--without", "RECORD", "--without", "BattV")
    assert "unclear:" not in check_success(command("data", "info", "campbell.dat", *others))


def test_data_info_and_tell_count_readings_averaged_at_one_site_and_time(command: Command) -> None:
    first, *rows = Path("aqs_hourly.csv").read_text(encoding="utf-8").splitlines()
    Path("twice.csv").write_text("\n".join([first, *rows, *rows[:96]]), encoding="utf-8")
    averaged = "96 readings averaged with others of the same site and time (all equal)"
    assert f"\n  {averaged}\n" in check_success(command("data", "info", "twice.csv"))
    policy = ("--policy", "adaptive-gp-ucb", "--sites", "aqs_hourly.csv")
    check_success(command("campaign", "new", "c.db", *policy, "--clock", "1h"))
    said = check_success(command("campaign", "tell", "c.db", "--csv", "twice.csv"))
    assert said.endswith(f"; {averaged}\n")
    assert "left out" not in said


@cache
def texts() -> dict[str, str]:
    return {name: text() for name, text in FILES.items()}


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """`tvbandits ...` in a folder with all files."""
    monkeypatch.chdir(tmp_path)
    for name, text in texts().items():
        Path(name).write_text(text, encoding="utf-8")
    return commands(monkeypatch, capsys)


def flags(name: str) -> list[str]:
    return [
        word
        for option, value in SAID.get(name, {}).items()
        for word in (f"--{option}", value[0] if isinstance(value, list) else value)
    ]


@pytest.mark.parametrize("name", READINGS)
def test_data_info_finds_the_layout_and_asks_nothing(command: Command, name: str) -> None:
    # The table of sites shows that its columns of other units are no stations.
    files = [name, "sites.csv"] if name == "campbell.dat" else [name]
    found = json.loads(
        check_success(command("data", "info", *files, *flags(name), "--format", "json"))
    )
    facts = found["files"][0]
    assert facts["questions"] == []
    assert {key: facts[key] for key in FACTS[name]} == FACTS[name]
    lines = check_success(command("data", "info", *files, *flags(name)))
    assert "next: tvbandits compare sensor-field" in lines
    assert " ".join(flags(name)) in lines


@pytest.mark.parametrize("name", sorted(SAID))
def test_data_info_asks_about_the_unclear_part_of_a_file(command: Command, name: str) -> None:
    option = flags(name)[0]
    lines = check_success(command("data", "info", name))
    assert re.search(rf"  unclear: .*{option}", lines)
    assert "next:" not in lines
    sites = "sites.csv" if name == "sentinel.csv" else name
    said = command("compare", "sensor-field:every=1h", "--data", name, "--data", sites)
    check_error_line(said, f"{re.escape(name)}: .*{option}")


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.usefixtures("command")
def test_sensor_field_reads_the_values_that_were_written(name: str) -> None:
    has_places = name in ("openaq.csv", "aqs_hourly.csv", "aqs_daily.csv", "sensor_community.csv")
    problem = sensor_field(
        name,
        name if has_places else "sites.csv",
        every="1h" if name == "sensor_community.csv" else None,
        options=FileOptions(**SAID.get(name, {})),
    )
    expected = truth(40 if name == "thousands.csv" else 1).to_numpy()
    differs = ~np.isclose(problem.values, expected)
    assert differs.sum() == GAPS.get(name, 0)
    assert not differs[[row for row in range(48) if row not in (10, 20)]].any()
    assert len(problem.points) == 4


CAMPAIGNS = {
    "openaq.csv": ("openaq.csv", "101"),
    "aqs_hourly.csv": ("aqs_hourly.csv", "36-001-0101"),
    "aqs_daily.csv": ("aqs_daily.csv", "36-001-0101"),
    "spreadsheet.csv": ("sites.csv", "Nord"),
    "uk_air.csv": ("sites.csv", "Nord"),
    "campbell.dat": ("sites.csv", "Nord"),
    "hours.csv": ("sites.csv", "Nord"),
    "thousands.csv": ("sites.csv", "Nord"),
    "sentinel.csv": ("sites.csv", "Nord"),
    "day_first.csv": ("sites.csv", "Nord"),
}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_tell_command_stores_all_readings_of_a_file(command: Command, name: str) -> None:
    sites, first = CAMPAIGNS[name]
    options = flags(name) if sites == name else []
    clock = [] if sites == name else ["--clock", "1h"]
    policy = ("--policy", "tv-gp-ucb:forgetting_rate=0.01", "--noise-sd", 1.0)
    command("campaign", "new", "c.db", *policy, "--sites", sites, *options, *clock)
    # The draft of this policy leaves the length scale to the user.
    toml = Path("campaign.toml").read_text(encoding="utf-8")
    Path("campaign.toml").write_text(toml.replace("# length_scale = 1.0", "length_scale = 9.0"))
    if not Path("c.db").exists():
        check_success(command("campaign", "new", "c.db", "--config", "campaign.toml"))
    out = check_success(command("campaign", "tell", "c.db", "--csv", name, *flags(name)))
    count = 192 - GAPS.get(name, 0)
    assert out.startswith(f"{count} new readings; {count} readings in all")
    with Campaign.open("c.db") as campaign:
        rewards = campaign.state.rewards
        assert campaign.clock is not None
        X = campaign.resolve_points(first)
        own = np.isclose(rewards.X, X).all(axis=1)
        expected = truth(40 if name == "thousands.csv" else 1)["Nord"].to_numpy()
        absent = [10] if name in GAPS else []
        np.testing.assert_allclose(np.sort(rewards.y[own]), np.sort(np.delete(expected, absent)))
        assert np.allclose(np.diff(np.unique(rewards.t)), 1.0)
    assert "0 new readings" in check_success(
        command("campaign", "tell", "c.db", "--csv", name, *flags(name))
    )


def test_tell_command_refuses_a_missing_value_code_by_its_line(command: Command) -> None:
    new = ("--policy", "adaptive-gp-ucb", "--sites", "sites.csv", "--clock", "1h")
    check_success(command("campaign", "new", "c.db", *new))
    said = command("campaign", "tell", "c.db", "--csv", "sentinel.csv")
    assert said.status == 2
    assert said.out.startswith("190 new readings")
    assert "sentinel.csv, line 12: -999 of Nord" in said.err
    assert said.err.count("--missing -999") == 2


# A wrong or unclear table of readings, the options of the command, and what the error must contain.
WRONG: dict[str, tuple[str, list[str], str]] = {
    "no names": ("2024-01-30 01:00,1,2\n2024-01-30 02:00,1,2\n", [],
        "line 1 .*names.* '2024-01-30 01:00'.*--header"),
    "a broken row": ("time,Nord,Ost\n1,2,3\n" * 1 + "2,3,4\n" * 300 + "3,1,2,3\n", [],
        "line 303 has 4 cells, and no line before more than 3.*quotation"),
    "a cell too many": ("time,Nord,Ost\n1,2,3\n2,3,4,5\n", [],
        "line 3 has '5' in column 4, which has no name in line 1"),
    "a quotation mark": ('time,Nord,Ost\n1,2,3\n2,"3,4\n3,1,2\n', [], "line 3 .*never closed"),
    "a word": ("time,Nord,Ost\n1,2,3\n2,calib,4\n3,1,2\n", [],
        "Nord .*'calib' at 2.0.*--missing calib"),
    "a comma in quotes": ('time,Nord,Ost\n1,"2,512",3\n2,"2,712",4\n', [],
        "2,512 in column Nord may be 2.512 or 2512: say .* --decimal comma or --decimal point"),
    "day or month": ("time,Nord,Ost\n03/02/2024,2,3\n04/02/2024,2,4\n", [],
        "03/02/2024 may be 3 February or 2 March.*--dates day"),
    "both": ("time,Nord,Ost\n13/02/2024,2,3\n02/14/2024,2,4\n", [],
        "day comes first in 13/02/2024 and the month in 02/14/2024"),
    "the other one": ("time,Nord,Ost\n13/02/2024,2,3\n14/02/2024,2,4\n", ["--dates", "month"],
        "--dates month: the day comes first in 13/02/2024"),
    "no such line": ("time,Nord,Ost\n1,2,3\n2,2,4\n", ["--header", "9"], "--header 9: .*no such"),
    "no such parameter": ("time,site,parameter,value\n1,Nord,no2,4\n2,Ost,o3,5\n",
        ["--parameter", "pm10"], "--parameter pm10: .*no2, o3"),
    "two parameters": ("time,site,parameter,value\n1,Nord,no2,4\n2,Ost,o3,5\n", [],
        "several parameters: no2, o3; .*--parameter"),
    "no such column": ("time,site,a,b\n1,Nord,3,4\n2,Ost,4,5\n", ["--value", "c"],
        "--value c: .*time, site, a, b"),
    "a time": ("time,Nord,Ost\n1,2,3\nnoon,2,4\n2,1,1\n", [], "'noon'.*--time"),
    "no row": ("time,Nord,Ost\n", [], "own.csv: .*no rows"),
    "no names, days first": ("30.01.2024 01:00;1;2\n30.01.2024 02:00;1;2\n", [],
        "line 1 .*names.* '30.01.2024 01:00'.*--header"),
    "a line of means among others": ("time,Nord,Ost\n1,2,3\nmean,2,3.5\n2,2,4\n", [],
        "got 'mean' in line 3: remove it"),
    "a gap in the times": ("Title\ntime,Nord,Ost\n1,2,3\n,2,4\n", [], "missing in line 4"),
    "no option for it": ("time,Nord,Ost\n1,2,3\n2,2,4\n", ["--decimal", "dot"], "decimal .*dot"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_compare_command_refuses_a_wrong_table_with_value_and_remedy(
    command: Command, case: str
) -> None:
    text, options, message = WRONG[case]
    Path("own.csv").write_text(text)
    data = ("--data", "own.csv", "--data", "sites.csv", "--policy", "uniform", "--seeds", 1)
    check_error_line(command("compare", "sensor-field", *data, *options), message)


WITHOUT_ROWS = {
    "data info": ["data", "info", "own.csv"],
    "campaign new": [
        "campaign",
        "new",
        "d.db",
        "--policy",
        "adaptive-gp-ucb",
        "--sites",
        "own.csv",
    ],
    "campaign tell": ["campaign", "tell", "c.db", "--csv", "own.csv"],
}


@pytest.mark.parametrize("names", ["time,Nord,Ost", "time,station,value", "station,lat,lon", "x"])
@pytest.mark.parametrize("line", WITHOUT_ROWS)
def test_commands_refuse_a_table_without_rows_by_its_name(
    command: Command, line: str, names: str
) -> None:
    if line == "campaign tell":
        new = ("--policy", "adaptive-gp-ucb", "--sites", "sites.csv")
        check_success(command("campaign", "new", "c.db", *new))
    Path("own.csv").write_text(f"{names}\n")
    check_error_line(
        command(*WITHOUT_ROWS[line]), "own.csv: .*(no rows|must have rows|must be columns)"
    )


def test_compare_command_refuses_irregular_minutes_with_the_step_to_give(command: Command) -> None:
    data = ("--data", "sensor_community.csv") * 2
    said = command("compare", "sensor-field", *data, "--value", "P2", "--policy", "uniform")
    check_error_line(said, "0 of 4 sensors .*; with every=30min they have 100% of their readings")


def irregular(name: str) -> None:
    """Write a table of minutes that differ, with the day first, and -999 for no reading."""
    minutes = 10 * np.arange(60) + np.resize([2, 0, 3, 1, 4, 7], 60)
    lines = ["when,Nord,Ost,West"]
    for number, minute in enumerate(minutes):
        hour, rest = divmod(int(minute), 60)
        value = "-999" if number in (7, 30) else f"{number / 10}"
        lines.append(f"30/01/2024 {hour:02d}:{rest:02d},{value},{number / 5},{5 - number / 10}")
    Path(name).write_text("\n".join([*lines, ""]))


def test_commands_handle_irregular_minutes_from_data_info_to_ask(command: Command) -> None:
    irregular("gauge.csv")
    lines = check_success(command("data", "info", "gauge.csv", "sites.csv"))
    assert re.search(r"irregular; a step of 10min; .*every=10min", lines)
    assert re.search(r"unclear: -999 comes 2 times.*--missing -999", lines)
    lines = check_success(command("data", "info", "gauge.csv", "sites.csv", "--missing", "-999"))
    (compare,) = re.findall("next: tvbandits (.*)", lines)
    assert compare.startswith("compare sensor-field:every=10min --data gauge.csv --data sites.csv ")
    play = ("--policy", "uniform", "--seeds", 1, "--jobs", 1)
    assert command(*shlex.split(compare), *play).status == 0
    clock = ("--clock", "10min")
    check_success(
        command(
            "campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv", *clock
        )
    )
    said = command("campaign", "tell", "c.db", "--csv", "gauge.csv")
    assert said.out.startswith("178 new readings; 178 readings in all")
    assert "line 9, 32: -999 of Nord" in said.err
    said = command("campaign", "tell", "c.db", "--csv", "gauge.csv", "--missing", "-999")
    assert check_success(said).startswith(
        "0 new readings, 178 already recorded; 178 readings in all"
    )
    assert (
        check_success(command("campaign", "ask", "c.db", "--at", "30.01.2024 11:00")).strip()
        in STATIONS
    )


def test_tell_command_names_all_errors_of_a_line(command: Command) -> None:
    Path("two.csv").write_text("time,Nord,Ost,West\n1,5,6,7\n2,-999,-999,8\n3,6,7,8\n")
    new = ("--policy", "frugal-gp-ucb", "--sites", "sites.csv", "--format", "json")
    check_success(command("campaign", "new", "c.db", *new[:4]))
    said = command("campaign", "tell", "c.db", "--csv", "two.csv", *new[4:])
    refused = json.loads(said.out)["refused"]
    assert [each["line"] for each in refused] == [3, 3]
    assert ["Nord" in refused[0]["error"], "Ost" in refused[1]["error"]] == [True, True]
    assert json.loads(said.out)["received"] == 7


def test_commands_accept_the_same_options_that_name_columns(command: Command) -> None:
    rows = [f"{t},{name},{t + number}" for t in (1, 2, 3) for number, name in enumerate(STATIONS)]
    Path("own.csv").write_text("\n".join(["tick,post,level", *rows, ""]), encoding="utf-8")
    columns = ("--time", "tick", "--station", "post", "--value", "level")
    lines = check_success(command("data", "info", "own.csv", "sites.csv", *columns))
    assert "a table of 4 sites" in lines
    (compare,) = re.findall("next: tvbandits (.*)", lines)
    play = ("--policy", "uniform", "--seeds", 1, "--jobs", 1)
    assert command(*shlex.split(compare), *play).status == 0
    check_success(
        command("campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv")
    )
    said = command("campaign", "tell", "c.db", "--csv", "own.csv", *columns)
    assert check_success(said).startswith("12 new readings")


def test_new_command_refuses_a_table_of_readings_as_sites(command: Command) -> None:
    new = ("campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites")
    said = command(*new, "day_first.csv")
    assert said.status == 2
    assert re.search("'30/01/2024 01:00' is a time, not the name of a site", said.err)


def test_tell_command_refuses_dates_without_a_clock_with_the_section_to_write(
    command: Command,
) -> None:
    check_success(
        command("campaign", "new", "c.db", "--policy", "adaptive-gp-ucb", "--sites", "sites.csv")
    )
    said = command("campaign", "tell", "c.db", "--csv", "campbell.dat")
    check_error_line(said, r"no clock .*\[clock\]")


# --- the page


PAGE = (ROOT / "docs" / "files-as-they-come.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\|.*\| `(\w+\.(?:csv|dat)[^`]*)` \|$", PAGE, re.MULTILINE)
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_files_page_shows_what_data_info_prints(command: Command) -> None:
    shown = re.search(r"```console\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    assert check_success(command(*shlex.split(shown[1])[1:])) == shown[2]


@pytest.mark.parametrize("row", ROWS)
def test_files_page_gives_options_that_leave_nothing_unclear(command: Command, row: str) -> None:
    lines = check_success(command("data", "info", *shlex.split(row)))
    assert "unclear: " not in lines
    assert "next: tvbandits compare sensor-field" in lines


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS[1:], ids=["long", "wide"])
def test_files_page_blocks_run_from_a_file_to_a_decision(command: Command, block: str) -> None:
    for line in block.splitlines():
        said = command(*shlex.split(line)[1:])
        assert said.status == 0, (line, said)
    assert said.out


def test_files_page_names_every_file() -> None:
    assert {row.split()[0] for row in ROWS} == set(READINGS)
    assert "sites.csv" in PAGE

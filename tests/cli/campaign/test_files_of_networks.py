"""Files of a sensor network in a campaign: stations left out, zones, headers, codes for missing."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.commands import Command, check_error_line, check_success, commands
from tvbandits import Campaign, Clock, policies
from tvbandits.datasets import FileOptions, sensor_field

SITES = "Messstelle;Breite;Länge\nAm Dom;51,10;7,20\nBad Süd;51,20;7,30\nEck;51,15;7,40\n"
HOURS = pd.date_range("2026-03-27", periods=60, freq="1h", tz="Europe/Berlin")
NEW = ("--policy", "adaptive-gp-ucb", "--sites", "sites.csv", "--history", "past.csv")


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text(SITES, encoding="cp1252")
    write("past.csv", [f"{t:%d.%m.%Y %H:%M}" for t in HOURS.tz_localize(None)])
    return commands(monkeypatch, capsys, "campaign")


def write(name: str, times: list[str], above: str = "") -> None:
    """Write a wide table with decimal commas, in which Eck is 9999 at the last two times."""
    rows = [f"{t};{i % 7},5;{i % 5},25;{i % 3},1" for i, t in enumerate(times)]
    rows[-2:] = [f"{row.rsplit(';', 1)[0]};9999" for row in rows[-2:]]
    names = f"{above}Datum;Am Dom;Bad Süd;Eck"
    Path(name).write_text("\n".join([names, *rows]) + "\n", encoding="cp1252")


def test_new_command_leaves_out_a_station_of_without(command: Command) -> None:
    out = check_success(command("new", "c.db", *NEW, "--without", "Eck"))
    assert "columns that are not sites ('Eck')" in out
    assert "Eck" not in check_success(command("sites", "list", "c.db"))


def test_new_command_names_a_sensor_that_was_stuck_in_the_history(command: Command) -> None:
    rows = [f"{t:%Y-%m-%d %H:%M};{i % 7};{i % 5};{9 if 10 <= i < 50 else i % 3}"
            for i, t in enumerate(HOURS.tz_convert("UTC"))]  # fmt: skip
    Path("past.csv").write_text("\n".join(["Datum;Am Dom;Bad Süd;Eck", *rows]) + "\n")
    out = check_success(command("new", "c.db", *NEW, "--clock", "1h", "--yes"))
    stretch = "Eck repeats 9 in 40 rounds, 2026-03-27 09:00:00 to 2026-03-29 00:00:00"
    assert f"note: {stretch}, is that right?: --without Eck leaves it out" in out


def test_tell_command_leaves_out_a_column_of_without(command: Command) -> None:
    check_success(command("new", "c.db", *NEW[:4], "--clock", "1h", "--without", "Eck"))
    assert "120 new readings" in check_success(
        command("tell", "c.db", "--csv", "past.csv", "--without", "Eck")
    )
    check_error_line(
        command("tell", "c.db", "--csv", "past.csv", "--without", "Ekc"), "--without Ekc: "
    )


def test_new_command_takes_origin_and_zone_of_the_clock_from_the_history(command: Command) -> None:
    write("past.csv", [t.isoformat(sep=" ") for t in HOURS])
    check_success(command("new", "c.db", *NEW, "--clock", "30min", "--missing", "9999"))
    assert 'unit = "30min"\norigin = "2026-03-27 00:00:00+01:00"' in Path(
        "campaign.toml"
    ).read_text(encoding="utf-8")
    with Campaign.open("c.db") as campaign:
        assert campaign.history["t"].max() == 118.0


def test_new_command_makes_no_clock_for_a_history_with_numbers_as_times(command: Command) -> None:
    write("past.csv", [str(1990 + i) for i in range(60)])
    assert "no clock" in check_success(command("new", "c.db", *NEW, "--missing", "9999"))


def test_new_command_applies_header_and_time_to_the_history(command: Command) -> None:
    times = [f"{t:%d.%m.%Y %H:%M}" for t in HOURS.tz_localize(None)]
    write("past.csv", times, "Netz\nStand\n")
    options = ("--header", 3, "--time", "Datum", "--missing", "9999")
    assert "178 readings of 60 times" in check_success(command("new", "c.db", *NEW, *options))


def test_new_command_refuses_a_wrong_history_before_recording(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Campaign, "record", None)
    check_error_line(
        command("new", "c.db", *NEW), "past.csv, line 60: 9999 of Eck .*--missing 9999"
    )


def test_tell_command_names_rows_with_the_same_error_in_one_line(command: Command) -> None:
    check_success(command("new", "c.db", *NEW[:4], "--clock", "1h"))
    said = command("tell", "c.db", "--csv", "past.csv")
    assert said.out.startswith("178 new readings")
    assert "past.csv, line 60, 61: 9999 of Eck" in said.err
    assert said.err.count("\n") == 1


def test_tell_and_ask_commands_refuse_an_offset_if_the_clock_has_none(command: Command) -> None:
    check_success(command("new", "c.db", *NEW[:4], "--clock", "1h"))
    write("day.csv", [t.isoformat(sep=" ") for t in HOURS])
    check_error_line(
        command("tell", "c.db", "--csv", "day.csv", "--missing", 9999), "but time has UTC"
    )
    check_error_line(
        command("ask", "c.db", "--at", "2026-03-27 00:00+01:00"), "or give the origin one"
    )


def test_ask_and_tell_commands_read_a_date_in_the_zone_of_the_clock(command: Command) -> None:
    write("past.csv", [t.isoformat(sep=" ") for t in HOURS])
    check_success(command("new", "c.db", *NEW, "--missing", "9999"))
    ask = command("ask", "c.db", "--at", "2026-03-30T10:00", "--format", "json")
    assert json.loads(ask.out)["t"] == 82.0
    check_success(
        command("tell", "c.db", "--site", "Eck", "--at", "30.03.2026 10:00", "--reward", 1)
    )
    check_success(
        command("tell", "c.db", "--site", "Eck", "--at", "2026-03-30 09:00Z", "--reward", 1)
    )
    with Campaign.open("c.db") as campaign:
        assert campaign.status.readings == 178 + 1
    Path("day.csv").write_text("site,time,reward\nEck,2026-03-30 11:00,1\n")
    check_error_line(command("tell", "c.db", "--csv", "day.csv"), "line 2: .*but time has none")


def test_errors_name_an_option_as_the_command_line_or_python_writes_it(command: Command) -> None:
    check_error_line(command("new", "c.db", *NEW, "--without", "Bad Sud"), "--without 'Bad Sud': ")
    with pytest.raises(ValueError, match=r"FileOptions\(missing=\['9999'\]\), and otherwise"):
        sensor_field("past.csv", "sites.csv")
    with pytest.raises(ValueError, match=r"FileOptions\(time='Zeit'\): there is no such column"):
        sensor_field("past.csv", "sites.csv", options=FileOptions(time="Zeit"))


def test_new_command_refuses_readings_without_coordinates_as_sites(command: Command) -> None:
    rows = [f"{s},{51 + i / 10},{7 + i / 7:.3f},{t},1" for t in (1, 2) for i, s in enumerate("AB")]
    Path("long.csv").write_text("\n".join(["Sensor,yy,xx,t,Value", *rows]) + "\n")
    new = ("new", "c.db", *NEW[:2], "--sites", "long.csv")
    check_error_line(command(*new), "several rows, and no latitude .*--degrees LAT[+]LON")
    with pytest.raises(ValueError, match=r"several rows, .*FileOptions\(degrees='LAT[+]LON'\)"):
        sensor_field("long.csv", "long.csv")
    check_success(command(*new, "--degrees", "yy+xx", "--history", "long.csv"))


def test_tell_command_accepts_degrees_only_by_names_of_columns(command: Command) -> None:
    rows = [
        f"{station},{51 + i / 10},{7 + i / 7:.3f},{t},{i + t / 10}"
        for t in (1, 2)
        for i, station in enumerate("ABC")
    ]
    Path("long.csv").write_text("\n".join(["Sensor,yy,xx,t,ozone", *rows]) + "\n")
    degrees, tell = ("--degrees", "yy+xx"), ("tell", "c.db", "--csv", "long.csv")
    check_success(command("new", "c.db", *NEW[:2], "--sites", "long.csv", *degrees))
    check_error_line(command(*tell), "the value may be any of yy, xx, ozone")
    check_success(command(*tell, *degrees))
    with Campaign.open("c.db") as campaign:
        assert campaign.state.readings.y.tolist() == [0.1, 1.1, 2.1, 0.2, 1.2, 2.2]
    for wrong in ("yy+zz", "zz+ww", "yy", "yy+xx+t"):
        said = command(*tell, "--value", "ozone", "--degrees", wrong)
        check_error_line(said, "long.csv: --degrees .*there are: Sensor, yy, xx")
    check_error_line(
        command("tell", "c.db", "--site", "A", "--reward", 1, *degrees), "--degrees is for"
    )


def test_new_command_leaves_out_columns_of_the_history_that_are_no_sites(command: Command) -> None:
    lines = Path("past.csv").read_text(encoding="cp1252").splitlines()
    lines = [f"{line};{'Temp' if i == 0 else '20,5'}" for i, line in enumerate(lines)]
    Path("past.csv").write_text("\n".join(lines) + "\n", encoding="cp1252")
    missing = ("--missing", 9999)
    said = command("new", "c.db", *NEW, *missing, "--without", "Tmep")
    check_error_line(
        said, "--without Tmep: neither sites.csv nor past.csv .*'Am Dom', 'Bad Süd', 'Eck'"
    )
    assert not Path("campaign.toml").exists()
    check_success(command("new", "c.db", *NEW, *missing, "--without", "Temp", "--without", "Eck"))
    assert check_success(command("sites", "list", "c.db")).count("\n") == 3
    assert 'without = ["Eck"]' in Path("campaign.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("start", [b"PK\3\4", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"])
def test_commands_refuse_a_workbook_with_how_to_save_it(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    start: bytes,
) -> None:
    check_success(command("new", "c.db", *NEW[:4], "--clock", "1h"))
    Path("campaign.toml").unlink()
    Path("readings.xlsx").write_bytes(start + bytes(200))
    said = "^tvbandits: (campaign.toml: )?readings.xlsx: a workbook .*save its sheet as CSV .*UTF-8"
    check_error_line(command("tell", "c.db", "--csv", "readings.xlsx"), said)
    for name in ("--history", "--sites"):
        given = {"--sites": "sites.csv"} | {name: "readings.xlsx"}
        words = [word for pair in given.items() for word in pair]
        check_error_line(command("new", "d.db", *NEW[:2], *words), said)
        assert not Path("campaign.toml").exists()
    check_error_line(commands(monkeypatch, capsys, "data", "info")("readings.xlsx"), said)


def test_new_command_names_a_wrong_time_of_the_history(command: Command) -> None:
    write("past.csv", [f"{h}.01.2026" for h in range(1, 33)])
    check_error_line(command("new", "c.db", *NEW), "past.csv: Datum must .*'32.01.2026' in line 33")


@pytest.mark.usefixtures("command")
def test_adaptive_gp_ucb_refuses_a_history_with_dates_with_a_working_remedy() -> None:
    problem = sensor_field("past.csv", "sites.csv", options=FileOptions(missing=["9999"]))
    table = pd.DataFrame(problem.values, HOURS)
    with pytest.raises(
        ValueError, match=r"numbers, .*2026-03-27.*: Clock\(\.\.\.\)\.number\(index"
    ):
        policies.adaptive_gp_ucb(problem.domain, history=table)
    table.index = Clock("1h", HOURS[0]).number(HOURS)
    assert len(policies.adaptive_gp_ucb(problem.domain, history=table).history) >= 178

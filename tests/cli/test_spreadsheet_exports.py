"""Exports of spreadsheets: a row of units, rows of sums, and numbers with points before three digits."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import Command, check_error_line, check_success, commands

SITES = "id;x;y\nNord;0,0;0,0\nOst;1,5;0,5\nWest;3,5;2,5\n"
STARTS = [f"{day:02}.02.2026 {hour:02}:00" for day in (1, 2) for hour in range(24)]
PRESSURES = [
    f"{start};1.{i % 7:03};1.{i % 5 + 10:03};1.{i % 3 + 9:03}" for i, start in enumerate(STARTS)
]
HEADING = "Zeit;Nord;Ost;West"
TEMPERATURES = [f"{start};{i % 7},5;{i % 5},4;{i % 3},1" for i, start in enumerate(STARTS)]
UNITS = "[MEZ];°C;°C;°C"
SUMS = ["Mittelwert;3,1;2,2;1,0", "Summe;140,5;100,1;50,4"]
POLICY = ("--policy", "adaptive-gp-ucb", "--sites", "sites.csv", "--clock", "1h")
COMPARE = (
    "--data",
    "sites.csv",
    "--policy",
    "uniform",
    "--seeds",
    "1",
    "--horizon",
    "5",
    "--jobs",
    1,
)


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """`tvbandits ...` in a folder with a table of sites, and tables of pressure and temperature."""
    monkeypatch.chdir(tmp_path)
    files = {
        "sites.csv": SITES,
        "pressure.csv": "\n".join([HEADING, *PRESSURES]),
        "export.csv": "\n".join([HEADING, UNITS, *TEMPERATURES, *SUMS]),
        "plain.csv": "\n".join([HEADING, *TEMPERATURES]),
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    return commands(monkeypatch, capsys)


def test_commands_refuse_unclear_points_before_three_digits(command: Command) -> None:
    asked = r"pressure\.csv: 1\.\d{3} in column Nord may be .*--decimal comma or --decimal point"
    check_error_line(command("data", "info", "pressure.csv"), asked)
    check_error_line(command("compare", "sensor-field", "--data", "pressure.csv", *COMPARE), asked)
    check_error_line(
        command("campaign", "new", "c.db", *POLICY, "--history", "pressure.csv"), asked
    )
    check_success(command("campaign", "new", "c.db", *POLICY))
    check_error_line(command("campaign", "tell", "c.db", "--csv", "pressure.csv"), asked)
    said = check_success(
        command("campaign", "tell", "c.db", "--csv", "pressure.csv", "--decimal", "comma")
    )
    assert said.startswith("144 new readings")


def test_data_info_leaves_out_a_row_of_units_and_rows_of_sums_by_line(command: Command) -> None:
    (facts,) = json.loads(check_success(command("data", "info", "export.csv", "--format", "json")))[
        "files"
    ]
    assert (facts["units"], facts["sums"], facts["rows"]) == ([2], [51, 52], 48)
    assert facts["questions"] == []
    lines = check_success(command("data", "info", "export.csv"))
    assert "left out: 1 row of units (line 2), 2 rows of sums (line 51, 52)" in lines


def test_compare_new_and_tell_commands_leave_out_units_and_sums(command: Command) -> None:
    left_out = "left out: 1 row of units, 2 rows of sums"
    said = command("compare", "sensor-field", "--data", "export.csv", *COMPARE)
    assert (said.status, left_out in said.err) == (0, True)
    assert left_out in check_success(
        command("campaign", "new", "h.db", *POLICY, "--history", "export.csv", "--config", "h.toml")
    )
    check_success(command("campaign", "new", "c.db", *POLICY))
    told = check_success(command("campaign", "tell", "c.db", "--csv", "export.csv"))
    assert told.startswith("144 new readings")
    assert left_out in told
    again = check_success(command("campaign", "tell", "c.db", "--csv", "plain.csv"))
    assert again.startswith("0 new readings, 144 already recorded")


@pytest.mark.parametrize("row", ["gestern;1,0;2,0;3,0", "-;-;-;-", "heute;;;"])
def test_data_info_asks_about_a_row_without_a_date(command: Command, row: str) -> None:
    rows = [HEADING, *TEMPERATURES[:3], row, *TEMPERATURES[3:]]
    Path("odd.csv").write_text("\n".join(rows), encoding="utf-8")
    assert "unclear: " in check_success(command("data", "info", "odd.csv"))


def test_data_info_takes_no_first_row_of_failed_readings_for_units(command: Command) -> None:
    Path("odd.csv").write_text("\n".join([HEADING, "gestern;-;-;-", *TEMPERATURES]))
    assert "unclear: " in check_success(command("data", "info", "odd.csv"))


def test_data_info_takes_no_site_named_by_a_word_for_sums(command: Command) -> None:
    (facts,) = json.loads(check_success(command("data", "info", "sites.csv", "--format", "json")))[
        "files"
    ]
    assert facts["stations"] == ["Nord", "Ost", "West"]

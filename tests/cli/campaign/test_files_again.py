"""A table that is told again, as by a cron job: readings withdrawn since then stay out."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.campaign.conftest import CONFIG
from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign

LINES = ["A,1,5.0", "B,1,6.0", "C,1,5.5", "D,1,6.5", "A,2,5.0", "B,2,6.0", "C,2,5.4", "D,2,900"]


@pytest.fixture
def imported(command: Command, place: Path) -> Path:
    Path("day.csv").write_text("site,time,reward\n" + "\n".join(LINES) + "\n")
    check_success(command("tell", place, "--csv", "day.csv", "--yes"))
    return place


def test_tell_command_lists_withdrawn_readings_of_a_table(command: Command, imported: Path) -> None:
    check_success(command("retract", imported, "--site", "D", "--at", 2))
    check_success(command("correct", imported, "--site", "A", "--at", 2, "--to", 3))
    said = check_success(
        command("tell", imported, "--csv", "day.csv")
    )  # nor does 900 need --yes again
    assert said.startswith(
        "0 new readings, 6 already recorded, 2 left out as withdrawn before (A at t = 2: 5 was moved to "
        "t = 3 by "
    )
    assert "D at t = 2: 900 was retracted by " in said
    assert "; to record one again, give it its own --key); 7 readings in all" in said
    values = json.loads(
        check_success(command("tell", imported, "--csv", "day.csv", "--format", "json"))
    )
    assert [each["line"] for each in values["withdrawn"]] == [6, 9]
    assert (values["received"], values["new"], values["readings"]) == (8, 0, 7)


def test_tell_command_stores_new_rows_beside_withdrawn_ones(
    command: Command, imported: Path
) -> None:
    check_success(command("retract", imported, "--site", "D", "--at", 2))
    check_success(command("retract", imported, "--site", "A", "--at", 2))
    rows = [*LINES[4:], "A,3,5.1", "B,3,6.1"]
    Path("day.csv").write_text("site,time,reward\n" + "\n".join(rows) + "\n")
    said = check_success(command("tell", imported, "--csv", "day.csv"))
    assert said.startswith("2 new readings, 2 already recorded, 2 left out as withdrawn before (")
    with Campaign.open(imported) as campaign:
        assert campaign.status.readings == 8
        assert campaign.verify().consistent


def test_tell_command_records_a_withdrawn_reading_under_a_key(
    command: Command, imported: Path
) -> None:
    reading = ("tell", imported, "--site", "D", "--at", 2, "--reward", 900)
    check_success(command("retract", imported, "--site", "D", "--at", 2))
    assert "1 left out as withdrawn before (D at t = 2: 900 was retr" in check_success(
        command(*reading)
    )
    said = command(*reading, "--key", "it was right", "--yes")
    assert check_success(said).startswith("1 new reading; 8 readings in all")


def test_tell_command_does_not_doubt_accepted_rows_again(command: Command, imported: Path) -> None:
    assert check_success(command("tell", imported, "--csv", "day.csv")).startswith(
        "0 new readings, 8 al"
    )
    Path("day.csv").write_text("site,time,reward\n" + "\n".join([*LINES, "A,3,-900"]) + "\n")
    check_error_line(command("tell", imported, "--csv", "day.csv", "--site", "A"), "--csv cannot")
    said = command("tell", imported, "--csv", "day.csv")
    assert said.status == 2
    assert "line 10: A: -900 is far" in said.err


def test_tell_command_stores_rows_of_one_time_as_one_journal_row(imported: Path) -> None:
    with Campaign.open(imported) as campaign:
        assert [len(row.arguments["X"]) for row in campaign.journal()] == [4, 4]


def test_tell_command_leaves_out_only_the_wrong_row_of_its_time(
    command: Command, imported: Path
) -> None:
    rows = ["A,3,5.0,0.1", "B,3,6.0,-1", "C,3,5.5,0.1"]
    Path("day.csv").write_text("site,time,reward,variance\n" + "\n".join(rows) + "\n")
    said = command("tell", imported, "--csv", "day.csv")
    assert (said.status, said.out[:15]) == (2, "2 new readings;")
    assert "line 3: noise_variance must be positive" in said.err


def test_tell_command_does_not_doubt_accepted_rows_with_keys_again(
    command: Command, imported: Path
) -> None:
    Path("day.csv").write_text("site,time,reward,key\nA,3,5.1,a\nB,3,-900,b\n")
    assert command("tell", imported, "--csv", "day.csv").status == 2
    check_success(command("tell", imported, "--csv", "day.csv", "--yes"))
    said = check_success(command("tell", imported, "--csv", "day.csv"))
    assert said.startswith("0 new readings, 2 already recorded")


@pytest.mark.parametrize("minimize", [False, True])
def test_tell_command_names_stored_readings_now_missing_and_how_to_retract_them(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, minimize: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,km\nA,0\nB b,2\n")
    noise = f"noise_sd = 0.1\nminimize = {str(minimize).lower()}"
    clock = '\n[clock]\nunit = "1h"\norigin = "2026-01-01"\n'
    config = CONFIG.format(context="").replace("noise_sd = 0.1", noise)
    Path("c.toml").write_text(config + clock)
    check_success(command("new", "c.db", "--config", "c.toml"))
    rows = ["2026-01-01 00:00,1.0,-9999", "2026-01-01 01:00,-9999,2", "2026-01-01 02:00,1,3"]
    Path("f.csv").write_text("time,A,B b\n" + "\n".join(rows) + "\n")
    check_success(command("tell", "c.db", "--csv", "f.csv", "--yes"))
    again = command("tell", "c.db", "--csv", "f.csv", "--missing", "-9999")
    assert again.out.startswith("0 new readings, 4 already recorded; 6 readings in all")
    assert "B b at 2026-01-01 00:00:00: -9999, A at 2026-01-01 01:00:00: -9999" in again.err
    for _ in range(2):
        line = command("tell", "c.db", "--csv", "f.csv", "--missing", "-9999").err
        retract = shlex.split(line.rpartition("tvbandits campaign ")[2])
        check_success(command(*retract))
    assert check_success(
        command("tell", "c.db", "--csv", "f.csv", "--missing", "-9999")
    ).startswith("0 new")
    with Campaign.open("c.db") as campaign:
        assert sorted(campaign.state.readings.y.tolist()) == [1.0, 1.0, 2.0, 3.0]

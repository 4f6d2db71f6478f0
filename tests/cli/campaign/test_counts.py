"""Counts on the command line: their tables, batches of arms, and their noise."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign

CONFIG = """
[domain]
arms = ["red", "green", "blue"]
[policy]
name = "adaptive-gp-ucb"
"""


@pytest.fixture
def letters(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(CONFIG)
    check_success(command("new", "c.db", "--config", "c.toml"))
    return "c.db"


def test_ask_command_lists_a_large_batch_by_arm(command: Command, letters: str) -> None:
    said = check_success(command("ask", letters, "--at", 1, "-n", 90))
    counts = {part.split()[0]: int(part.split("(")[1].split()[0]) for part in said.split("; ")}
    assert sum(counts.values()) == 90
    assert {*counts} <= {"red", "green", "blue"}
    assert len(check_success(command("status", letters))) < 400


def test_tell_command_of_counts_completes_all_plays_of_the_batch(
    command: Command, letters: str
) -> None:
    said = command("ask", letters, "--at", 1, "-n", 90, "--format", "json")
    arms = {each["site"] for each in json.loads(check_success(said))["points"]}
    check_success(command("ask", letters, "--at", 2, "-n", 4))
    rows = "".join(f"{arm},1,{k},40\n" for k, arm in enumerate(sorted(arms), start=1))
    Path("day.csv").write_text(f"site,time,successes,trials\n{rows}")
    check_success(command("tell", letters, "--csv", "day.csv"))
    with Campaign.open(letters) as campaign:
        assert [each.t for each in campaign.pending_points] == [2.0] * 4
        assert campaign.pending.tolist() == campaign.state.pending.X.tolist()
        assert campaign.verify().consistent


def test_tell_command_accepts_another_name_of_the_column_of_arms(
    command: Command, letters: str
) -> None:
    Path("arms.csv").write_text("Arm,time,successes,trials\nred,1,3,40\n")
    Path("ads.csv").write_text("ad;hour;successes;trials\nblue;2;5;50\n")
    check_success(command("tell", letters, "--csv", "arms.csv"))
    check_success(command("tell", letters, "--csv", "ads.csv", "--station", "ad", "--time", "hour"))
    with Campaign.open(letters) as campaign:
        rows = campaign.history[["time", "site", "reward"]].to_numpy().tolist()
    assert rows == [[1.0, "red", 3 / 40], [2.0, "blue", 5 / 50]]


def test_drop_command_with_all_drops_the_rest_of_a_batch(command: Command, letters: str) -> None:
    check_success(command("ask", letters, "--at", 1, "-n", 90))
    check_error_line(command("drop", letters), "--site, or --all")
    with Campaign.open(letters) as campaign:
        reds = [each.place for each in campaign.pending_points].count("red")
    said = check_success(command("drop", letters, "--site", "red", "--all"))
    assert said == f"dropped; {90 - reds} still pending\n"
    assert check_success(command("drop", letters, "--all")) == "dropped; 0 still pending\n"
    check_error_line(command("drop", letters, "--all"), "nothing is pending")


def test_tell_command_leaves_out_arms_without_trials(command: Command, letters: str) -> None:
    Path("day.csv").write_text("site,time,successes,trials\nred,1,3,40\ngreen,1,0,0\n")
    assert "left out: 1 row without trials" in check_success(
        command("tell", letters, "--csv", "day.csv")
    )
    with Campaign.open(letters) as campaign:
        assert (campaign.status.readings, campaign.status.failed) == (1, 0)


def test_status_command_shows_no_note_on_the_noise_of_rates(command: Command, letters: str) -> None:
    rows = "".join(
        f"{arm},{t},{k + t % 2},400\n"
        for t in range(1, 11)
        for arm, k in (("red", 8), ("green", 60), ("blue", 160))
    )
    Path("day.csv").write_text(f"site,time,successes,trials\n{rows}")
    check_success(command("tell", letters, "--csv", "day.csv"))
    said = check_success(command("status", letters, "--best"))
    assert "best: blue" in said
    assert "no reading has differed" not in said
    assert "from 0 readings" not in said


@pytest.mark.parametrize("row", ["red,1,2,", "red,1,,40"])
def test_tell_command_leaves_out_half_of_a_count_and_names_its_line(
    command: Command, letters: str, row: str
) -> None:
    Path("day.csv").write_text(f"site,time,successes,trials\ngreen,1,3,40\n{row}\n")
    result = command("tell", letters, "--csv", "day.csv")
    assert result.status == 2
    assert "line 3: " in result.err
    with Campaign.open(letters) as campaign:
        assert (campaign.info.readings, campaign.info.failed) == (1, 0)

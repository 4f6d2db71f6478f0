"""Answers of people to open questions: checked like readings, corrected and retracted."""

import json
import re
from pathlib import Path

import pytest

from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign

CONFIG = """
[domain]
sites = "sites.csv"
[policy]
name = "frugal-gp-ucb"
length_scale = 2.0
noise_sd = 0.1
[policy.options]
queries_per_step = 1
[clock]
unit = "1h"
origin = "2024-01-01"
"""


@pytest.fixture
def asked(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A campaign with ten readings near 19 and a question at 5 h; the name of its site."""
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,km\nA,0\nB,2\nC,4\nD,6\n")
    Path("c.toml").write_text(CONFIG)
    check_success(command("new", "c.db", "--config", "c.toml"))
    rows = "".join(f"{'ABCD'[i % 4]},{1 + i // 4},{19 + i / 10}\n" for i in range(16))
    Path("day.csv").write_text(f"site,time,reward\n{rows}")
    check_success(command("tell", "c.db", "--csv", "day.csv"))
    site = re.split("[;\\n]", check_success(command("questions", "c.db", "--at", 5)))[0]
    return Path("c.db"), site


def test_questions_command_names_the_time_of_the_questions(
    asked: tuple[Path, str], command: Command
) -> None:
    file, _ = asked
    check_success(command("tell", file, "--site", "A", "--reward", 19.5, "--at", 6))
    said = command("questions", file, "--format", "json")
    assert json.loads(said.out)["t"] == 6
    assert "for 2024-01-01 06:00:00" in said.err
    shown = command("questions", file, "--at", 7)
    assert shown.err == ""


def test_answer_command_refuses_a_doubtful_answer(
    command: Command, asked: tuple[Path, str]
) -> None:
    file, site = asked
    said = ("answer", file, "--site", site, "--value")
    check_error_line(command(*said, 1927), f"{site}: 1927 is far from .*: add --yes if it is right")
    with Campaign.open(file) as campaign:
        assert len(campaign.state.answers) == 0
    assert check_success(command(*said, 19.27)).startswith("1 new answer;")


def test_answer_command_names_the_open_questions_if_none_matches(
    command: Command, asked: tuple[Path, str]
) -> None:
    file, site = asked
    other = next(name for name in "ABCD" if name != site)
    check_error_line(
        command("answer", file, "--site", other, "--value", 19, "--at", "2024-01-01 02:00"),
        f"about {other} at 2024-01-01 02:00:00; open questions: .*{site} at 2024-01-01 05:00:00",
    )
    check_success(command("answer", file, "--site", site, "--value", 19.27))
    with Campaign.open(file) as campaign:  # at the time of its question
        assert campaign.state.answers.t.tolist() == [5.0]


def test_answer_command_refuses_a_second_answer_by_site_and_time(
    command: Command, asked: tuple[Path, str]
) -> None:
    file, site = asked
    check_success(command("answer", file, "--site", site, "--value", 19.27))
    check_error_line(
        command("answer", file, "--site", site, "--value", 19.5),
        f"already an answer about {site} at 2024-01-01 05:00:00: 19.27; .*correct --answer",
    )


def test_answer_command_accepts_an_answer_after_a_failed_one(
    command: Command, asked: tuple[Path, str]
) -> None:
    file, site = asked
    check_success(command("answer", file, "--site", site, "--value", "nan"))
    again = check_success(command("answer", file, "--site", site, "--value", "nan"))
    assert again.startswith("0 new answers, 1 already recorded")
    assert check_success(command("answer", file, "--site", site, "--value", 19)).startswith(
        "1 new answer;"
    )


def test_correct_and_retract_commands_change_an_answer(
    command: Command, asked: tuple[Path, str]
) -> None:
    file, site = asked
    check_success(command("answer", file, "--site", site, "--value", 1927, "--yes"))
    check_error_line(command("correct", file, "--site", site, "--answer", 1926), "1926 is far from")
    said = check_success(command("correct", file, "--site", site, "--answer", 19.27))
    assert said == (
        f"corrected: {site} at 2024-01-01 05:00:00, which was 1927 and is 19.27 now; "
        "1 answer in all\n"
    )
    with Campaign.open(file) as campaign:
        assert campaign.state.answers.y.tolist() == [19.27]
        changed = campaign.history[campaign.history["kind"] == "corrected"]
        assert changed["reward"].tolist() == [1927.0]
    said = check_success(command("retract", file, "--site", site, "--answer"))
    assert said.endswith("which was 19.27; 0 answers in all\n")
    check_error_line(
        command("retract", file, "--site", site, "--answer"), f"no answer about {site}; there"
    )
    with Campaign.open(file) as campaign:
        assert len(campaign.state.answers) == 0
        assert campaign.verify().consistent
    # The question is open again.
    assert check_success(command("answer", file, "--site", site, "--value", 20)).startswith(
        "1 new answer;"
    )


def test_correct_command_of_an_answer_restores_the_right_predictions(
    command: Command, asked: tuple[Path, str]
) -> None:
    file, site = asked
    check_success(command("backup", file, "twin.db"))
    check_success(command("answer", "twin.db", "--site", site, "--value", 19.27))
    check_success(command("answer", file, "--site", site, "--value", 1927, "--yes"))
    check_success(command("correct", file, "--site", site, "--answer", 19.27))
    with Campaign.open(file) as campaign, Campaign.open("twin.db") as twin:
        X = campaign.recipe.domain.X  # type: ignore[union-attr]
        mean, deviation = campaign.predict(X, 6.0)
        right, spread = twin.predict(X, 6.0)
    assert mean.tolist() == pytest.approx(right.tolist(), rel=1e-9)
    assert deviation.tolist() == pytest.approx(spread.tolist(), rel=1e-9)

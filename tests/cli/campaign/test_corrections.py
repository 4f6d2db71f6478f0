"""Corrections of many readings by a table."""

from pathlib import Path

import pytest

from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign

pytestmark = pytest.mark.usefixtures("empty_folder")

CONFIG = """
[domain]
arms = ["Nord", "Ost"]
[policy]
name = "adaptive-gp-ucb"
[clock]
origin = "2026-01-01"
"""


@pytest.fixture
def told(command: Command) -> Command:
    Path("c.toml").write_text(CONFIG)
    check_success(command("new", "c.db", "--config", "c.toml"))
    rows = [f"2026-01-01 0{hour}:00,{hour + 1.5},{hour + 2.25}" for hour in range(9)]
    Path("r.csv").write_text("\n".join(["time,Nord,Ost", *rows, ""]))
    check_success(command("tell", "c.db", "--csv", "r.csv"))
    return command


def values() -> list[float]:
    with Campaign.open("c.db") as campaign:
        return campaign.state.readings.y.tolist()


def test_correct_replaces_the_readings_that_differ_in_a_table(told: Command) -> None:
    before = values()
    text = Path("r.csv").read_text().replace(",1.5,", ",1.75,").replace(",10.25", ",9.75")
    Path("right.csv").write_text(text)
    lines = check_success(told("correct", "c.db", "--csv", "right.csv")).splitlines()
    assert lines[0] == "2 readings corrected, 16 as recorded"
    assert lines[1:] == [
        "Nord at 2026-01-01 00:00:00: 1.5 -> 1.75",
        "Ost at 2026-01-01 08:00:00: 10.25 -> 9.75",
    ]
    assert sorted(values()) == sorted([1.75, 9.75, *(v for v in before if v not in (1.5, 10.25))])
    again = check_success(told("correct", "c.db", "--csv", "right.csv"))
    assert again == "0 readings corrected, 18 as recorded\n"
    assert "consistent" in check_success(told("verify", "c.db"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "2026-01-02 00:00,4,5",
            "line 3: there is no reading of Nord at 2026-01-02 00:00:00: .*tell",
        ),
        ("2026-01-01 01:00,x,5", "'x' in line 3.*--missing x"),
        ("2026-01-01 01:00,1e9,5", "1e\\+09.*add --yes"),
    ],
)
def test_correct_changes_nothing_if_a_row_of_its_table_is_wrong(
    told: Command, row: str, message: str
) -> None:
    before = values()
    Path("right.csv").write_text(f"time,Nord,Ost\n2026-01-01 00:00,1.75,2.25\n{row}\n")
    check_error_line(told("correct", "c.db", "--csv", "right.csv"), message)
    assert values() == before


def test_correct_takes_a_table_or_one_reading(told: Command) -> None:
    one = ("--site", "Nord", "--reward", "3")
    check_error_line(told("correct", "c.db", "--csv", "r.csv", *one), "--csv cannot be combined")
    check_error_line(
        told("correct", "c.db", *one, "--zone", "CET"), "--zone is for the table of --csv"
    )
    check_error_line(told("correct", "c.db", "--reward", "3"), "correct needs --site, or --csv")

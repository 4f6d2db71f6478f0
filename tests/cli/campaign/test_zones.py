"""Campaigns and tables of local times in a time zone with a name."""

from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign, Clock
from tvbandits.clock import restore_clock

pytestmark = pytest.mark.usefixtures("empty_folder")

CONFIG = """
[domain]
arms = ["Nord", "Ost"]
[policy]
name = "adaptive-gp-ucb"
[clock]
unit = "1h"
origin = "2024-10-26"
zone = "Europe/Berlin"
"""


def test_campaign_has_a_clock_in_a_zone_of_a_name(command: Command) -> None:
    Path("c.toml").write_text(CONFIG)
    check_success(command("new", "c.db", "--config", "c.toml"))
    rows = ["2024-10-27 01:00,Nord,1", "2024-10-27 02:00,Nord,2", "2024-10-27 02:00,Nord,3"]
    Path("r.csv").write_text("\n".join(["time,site,reward", *rows, ""]))
    tell = ("tell", "c.db", "--csv", "r.csv", "--zone", "Europe/Berlin")
    assert "3 new readings" in check_success(command(*tell))
    with Campaign.open("c.db") as campaign:
        assert [f"{t:%H:%M%z}" for t in campaign.history["time"]] == [
            "01:00+0200",
            "02:00+0200",
            "02:00+0100",
        ]
    at = ("--site", "Nord", "--reward", "4", "--at")
    twice = command("tell", "c.db", *at, "2024-10-27 02:30")
    check_error_line(twice, r"occurs twice in Europe/Berlin.*write 2024-10-27T02:30:00\+02:00 or")


def test_new_writes_the_zone_of_the_history(command: Command) -> None:
    local = pd.date_range("2024-10-26", periods=40, freq="1h", tz="UTC").tz_convert("Europe/Berlin")
    table = pd.DataFrame({"Nord": range(40), "Ost": range(1, 41)}, local.strftime("%d.%m.%Y %H:%M"))
    table.rename_axis("time").to_csv("r.csv")
    Path("sites.csv").write_text("site,x,y\nNord,0,1\nOst,1,0\n")
    new = ("new", "c.db", "--policy", "adaptive-gp-ucb", "--sites", "sites.csv")
    result = command(*new, "--history", "r.csv", "--zone", "Europe/Berlin", "--yes")
    assert result.status == 0, result
    text = Path("campaign.toml").read_text()
    assert 'origin = "2024-10-26 00:00:00"\nzone = "Europe/Berlin"' in text
    check_success(
        command("tell", "c.db", *("--site", "Ost", "--reward", "7"), "--at", "2024-10-28 12:00")
    )


def test_restore_clock_keeps_the_rules_of_a_zone_without_a_slash() -> None:
    clock = Clock("1h", pd.Timestamp("2024-07-01", tz="CET"))
    again = restore_clock(str(clock.unit), clock.origin.isoformat(), "CET")
    assert again.text(24 * 180) == clock.text(24 * 180)


def test_new_names_a_zone_that_does_not_exist(command: Command) -> None:
    Path("c.toml").write_text(CONFIG.replace("Berlin", "Berln"))
    message = (
        "zone must be the name of a time zone, .*got 'Europe/Berln': did you mean Europe/Berlin"
    )
    check_error_line(command("new", "c.db", "--config", "c.toml"), message)

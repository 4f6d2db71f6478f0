"""Names, dates and units in campaigns, their commands, service and page; pending points."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_data import CONFIG as CONFIG_OF_SITES
from tests.helpers.commands import Command, check_success, commands
from tests.helpers.refusals import assert_refused
from tvbandits import Campaign, Candidates, Clock, policies

SITES = (
    "station,latitude,longitude\nAQ01,60.10,11.50\nAQ02,60.14,11.50\nAQ03,60.10,11.56\n"
    "AQ04,60.18,11.62\nAQ05,60.22,11.40\n"
)

CONFIG = """
[clock]
unit = "1h"
origin = "2026-01-01"
[campaign]
title = "Ozone in town"
unit = "ppb"
drop_after = 6
"""


def hour(number: int) -> str:
    return f"2026-01-01 {number:02}:00:00"


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """`tvbandits campaign ...` in a folder with a campaign that has a clock, a title and a unit."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites.csv").write_text(SITES)
    (tmp_path / "c.toml").write_text(CONFIG_OF_SITES + CONFIG)
    command = commands(monkeypatch, capsys, "campaign")
    check_success(command("new", "c.db", "--config", "c.toml"))
    return command


def tell(command: Command, site: str, reward: float, at: int) -> None:
    check_success(command("tell", "c.db", "--site", site, "--reward", reward, "--at", hour(at)))


def test_history_command_and_table_show_names_and_dates(command: Command) -> None:
    tell(command, "AQ02", 21.0, 8)
    check_success(command("ask", "c.db", "--at", hour(9), "--available", "AQ05"))
    (told, out) = check_success(command("history", "c.db")).splitlines()[1:]
    assert told.startswith(f"{hour(8)},8.0,AQ02,")
    assert out.startswith(f"{hour(9)},9.0,AQ05,")
    with Campaign.open("c.db") as campaign:
        history = campaign.history
        assert list(history) == [
            "time", "t", "site", "km east", "km north", "reward", "variance", "source", "kind",
        ]  # fmt: skip
        assert history["time"][0] == pd.Timestamp(hour(8))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (("ask", "c.db", "--at", hour(7)),
         f"cannot ask for {hour(7)}: there is a later reading, at {hour(8)}"),
        (("correct", "c.db", "--site", "AQ02", "--at", hour(7), "--reward", 2),
         f"there is no reading of AQ02 at {hour(7)}; there are some at {hour(8)}"),
        (("drop", "c.db", "--site", "AQ03"), "AQ03 is not pending; 0 points are"),
    ],
)  # fmt: skip
def test_campaign_commands_name_sites_and_dates_in_errors(
    command: Command, line: tuple[object, ...], error: str
) -> None:
    tell(command, "AQ02", 21.0, 8)
    said = command(*line)
    assert (said.status, said.err) == (2, f"tvbandits: {error}\n")


def test_campaign_methods_accept_names_and_dates(command: Command) -> None:
    del command
    with Campaign.open("c.db") as campaign:
        X = campaign.ask(hour(8), available=["AQ04"])
        assert campaign.names.name(X[0]) == "AQ04"
        campaign.tell("aq04", 20.0, hour(8))
        campaign.tell(["AQ01", "AQ02"], [21.0, 22.0], hour(9))
        mean, _ = campaign.predict(["AQ04", "AQ02"], hour(9))
        assert mean[1] > mean[0]
        campaign.correct("AQ04", 30.0)
        campaign.retract("AQ02", hour(9))
        best = campaign.recommend(hour(10), available=["AQ01", "AQ04"])
        assert campaign.names.name(best) == "AQ04"
        with pytest.raises(ValueError, match=r'unknown site "AQ9"; there are: AQ01, '):
            campaign.tell(["AQ01", "AQ9"], [1.0, 2.0], hour(11))
        assert campaign.verify().consistent


# --- pending points


def test_status_command_shows_the_age_of_a_pending_point_and_how_to_drop_it(
    command: Command,
) -> None:
    check_success(command("ask", "c.db", "--at", hour(8), "--available", "AQ05"))
    out = check_success(command("status", "c.db"))
    assert " UTC, 0 min ago);" in out
    assert "overdue" not in out
    tell(command, "AQ02", 21.0, 9)
    line = "tvbandits campaign drop c.db --site AQ05"
    assert check_success(command("status", "c.db")).endswith(
        f"; overdue: report the reading of AQ05, or drop it: {line}\n"
    )
    with Campaign.open("c.db") as campaign:
        (row,) = campaign.pending_points
        assert (row.place, row.t, row.who) == ("AQ05", 8.0, campaign.journal()[0].who)
    assert check_success(command(*line.split()[2:])) == "dropped; 0 still pending\n"


@pytest.mark.usefixtures("command")
def test_pending_points_name_each_person_sent_to_one_site() -> None:
    with Campaign.open("c.db") as campaign:
        for who in ("anna", "bert"):
            campaign.ask(8.0, available=["AQ05"], who=who)
        assert [each.who for each in campaign.pending_points] == ["anna", "bert"]


def test_ask_command_drops_a_pending_point_after_drop_after(command: Command) -> None:
    for at in (8, 9):
        check_success(command("ask", "c.db", "--at", hour(at), "--available", "AQ05,AQ03", "-n", 1))
    tell(command, "AQ02", 21.0, 10)
    check_success(command("ask", "c.db", "--at", hour(13)))
    with Campaign.open("c.db") as campaign:
        assert campaign.drop_after == 6.0
        assert [each.t for each in campaign.pending_points] == [8.0, 9.0, 13.0]
        before = campaign.status.rows
    last = check_success(command("ask", "c.db", "--at", hour(14), "--key", "late"))
    assert check_success(command("ask", "c.db", "--at", hour(14), "--key", "late")) == last
    with Campaign.open("c.db") as campaign:
        dropped, asked = campaign.journal(before)
        assert (dropped.kind, dropped.who, asked.kind) == ("drop", "expiry", "ask")
        assert [each.t for each in campaign.pending_points] == [9.0, 13.0, 14.0]
        assert campaign.verify().consistent
    tell(command, "AQ05", 20.0, 11)  # a reading that comes late still counts


# --- the page


def test_campaign_page_shows_title_unit_and_map(command: Command) -> None:
    pytest.importorskip("jinja2", reason="no jinja2: no page")
    from tvbandits.campaign.service.page import MAP_SHAPE, Facts, campaign_page, sites_map

    tell(command, "AQ02", 21.0, 8)
    check_success(command("ask", "c.db", "--at", hour(9), "--available", "AQ05"))
    forecast = command("forecast", "c.db", "--at", hour(9), "--site", "AQ01")
    assert " ppb (95%)\n" in forecast.out
    assert "a single reading" in forecast.err  # its deviation is a guess
    with Campaign.open("c.db") as campaign:
        facts, text = Facts(campaign), campaign_page(campaign)
        assert facts.plane is not None
        plot = sites_map(facts, facts.plane)
    assert (plot.x.title, plot.y.title) == ("longitude", "latitude")
    lengths = [axis.high - axis.low for axis in (plot.x, plot.y)]
    ratio = lengths[0] / (lengths[1] / np.cos(np.radians(60.148)))
    assert ratio == pytest.approx(MAP_SHAPE)  # a kilometre is as long in both directions
    assert plot.labels[0][2] == "AQ05"  # where to go
    for said in ("<title>Ozone in town", "reward [ppb]", "mean [ppb]", "0 min ago<", " ppb"):
        assert said in text, said
    assert "tvbandits campaign drop FILE --site AQ05" in text


# --- over HTTP


@pytest.fixture
def served(command: Command, tmp_path: Path) -> Iterator[Any]:
    """A service of that campaign."""
    pytest.importorskip("fastapi", reason="no fastapi: no service")
    from tests.campaign.service.serving import serving

    del command
    with serving(tmp_path, campaign=Campaign.open("c.db"), place=Path("c.db")) as found:
        yield found


@pytest.mark.slow
def test_service_accepts_and_returns_names_and_dates(served: Any) -> None:
    assert served.post("/ask", t=hour(8), available=["AQ01"]).json()["sites"] == ["AQ01"]
    assert served.post("/ask", t=hour(8), available=["AQ03"]).json()["sites"] == ["AQ03"]
    assert served.get("/status").json()["title"] == "Ozone in town"
    for path, body in (
        ("/tell", {"points": ["AQ01"], "rewards": [20.0], "t": hour(8)}),
        ("/drop", {"points": ["AQ03"]}),
        ("/correct", {"points": ["AQ01"], "rewards": [21.0], "t": hour(8), "to": hour(9)}),
    ):
        assert served.post(path, **body).status_code == 200, path
    (right,) = [row for row in served.get("/history").json()["rows"] if row["kind"] == "reward"]
    assert (right["site"], right["reward"]) == ("AQ01", 21.0)
    assert pd.Timestamp(right["time"]) == pd.Timestamp(hour(9))
    assert served.post("/retract", points=["AQ01"]).status_code == 200
    assert served.get("/status").json()["readings"] == 0


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "b "]])
def test_campaign_refuses_equal_empty_or_padded_names_of_sites(tmp_path: Any, names: Any) -> None:
    bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0]]))
    path, about = tmp_path / "names.db", {"names": json.dumps(names)}
    assert_refused(ValueError, "names of sites must", Campaign.create, path, bandit, about=about)
    assert not path.exists()
    with Campaign.create(path, bandit, about={"names": json.dumps(["a", "b"])}) as campaign:
        assert_refused(ValueError, "to add must", campaign.change_sites, {" c": [2.0]})
        assert_refused(ValueError, r"unknown site \"a\\u200b\"", campaign.tell, "a\u200b", [1.0], 1)


def test_campaign_names_the_argument_with_an_unreadable_date(tmp_path: Any) -> None:
    bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0]]))
    with Campaign.create(tmp_path / "c.db", bandit, clock=Clock("1h", "2026-01-01")) as campaign:
        for t in ("08:00", 1767225600, ["2026-01-01"]):
            assert_refused(ValueError, "^t", campaign.ask, t)
        assert_refused(ValueError, "^to must", campaign.correct, [[0.0]], to="08:00")


def test_campaign_names_the_argument_with_an_unknown_site(tmp_path: Any) -> None:
    bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0]]), noise_variance=0.01)
    about = {"names": json.dumps(["east", "west"])}
    with Campaign.create(tmp_path / "c.db", bandit, about=about) as campaign:
        for argument, call in (
            ("available", lambda: campaign.ask(1, available=["mill"])),
            ("without", lambda: campaign.ask(1, without=["mill"])),
            ("available", lambda: campaign.recommend(1, available=["mill"])),
            ("retire", lambda: campaign.change_sites(retire=["mill"])),
            ("confirm", lambda: campaign.change_sites(confirm=["mill"])),
        ):
            assert_refused(ValueError, f'^{argument}: unknown site "mill"', call)
        assert campaign.status.rows == 0

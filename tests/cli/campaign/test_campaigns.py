"""Every command of `tvbandits campaign`: its output, its files, its refusals; resumed comparisons."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.campaign.test_campaign import execute
from tests.helpers.commands import Command, check_error_line, check_success, commands
from tests.helpers.folders import fill_once
from tvbandits import Campaign, Candidates, policies, rate
from tvbandits.comparison import files
from tvbandits.comparison.compare import iterate
from tvbandits.comparison.summary import Run
from tvbandits.text import format_interval

SITES = "site,km,height\nnorth,0,1\nmill,2.5,1\nsouth,5,2\neast,7.5,0\n"

CONFIG = """
[domain]
sites = "sites.csv"
[policy]
name = "{policy}"
length_scale = 2.0
noise_sd = 0.1
{options}
[clock]
unit = "1h"
origin = "2024-01-01"
"""

BROUGHT = CONFIG.format(policy="frugal-gp-ucb", options="options = { queries_per_step = 2 }")


@pytest.fixture
def place(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign at four sites, with a clock."""
    monkeypatch.chdir(tmp_path)
    config = CONFIG.format(policy="tv-gp-ucb", options="options = { forgetting_rate = 0.01 }")

    def new() -> None:
        (tmp_path / "sites.csv").write_text(SITES)
        (tmp_path / "c.toml").write_text(config)
        made = check_success(command("new", "c.db", "--config", "c.toml"))
        assert made.startswith("c.db: a campaign on Candidates")

    fill_once(config, tmp_path, new)
    return tmp_path / "c.db"


@pytest.fixture
def brought(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign whose expert is asked by people."""
    monkeypatch.chdir(tmp_path)

    def new() -> None:
        (tmp_path / "sites.csv").write_text(SITES)
        (tmp_path / "b.toml").write_text(BROUGHT)
        assert command("new", "b.db", "--config", "b.toml").status == 0

    fill_once(BROUGHT, tmp_path, new)
    return tmp_path / "b.db"


def objects(text: str) -> list[Any]:
    def refuse(token: str) -> NoReturn:
        raise AssertionError(f"{token} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_ask_and_tell_commands_count_a_repeated_call_once(command: Command, place: Path) -> None:
    out = check_success(command("ask", place, "--at", "2024-01-01 08:00", "--key", "first"))
    assert out.strip() in ("north", "mill", "south", "east")
    assert check_success(command("ask", place, "--at", "2024-01-01 08:00", "--key", "first")) == out
    told = ("tell", place, "--site", out.strip(), "--reward", 0.5, "--at", "2024-01-01 08:00")
    assert (
        check_success(command(*told, "--who", "anna"))
        == "1 new reading; 1 reading in all, 0 pending\n"
    )
    assert (
        check_success(command(*told))
        == "0 new readings, 1 already recorded; 1 reading in all, 0 pending\n"
    )
    with Campaign.open(place) as campaign:
        journal = campaign.journal()
        assert [(row.kind, row.key) for row in journal] == [("ask", "first"), ("tell", None)]
        assert journal[1].who == "anna"
        assert campaign.state.rewards.t.tolist() == [8.0]


def test_ask_tell_drop_and_status_commands_print_json(command: Command, place: Path) -> None:
    (asked,) = objects(check_success(command("ask", place, "--at", 8, "-n", 2, "--format", "json")))
    assert asked["t"] == 8.0
    first, second = (each["site"] for each in asked["points"])
    assert first != second
    said = ("tell", place, "--site", first, "--reward", "nan", "--at", 8, "--format", "json")
    assert objects(check_success(command(*said))) == [{"received": 1, "new": 1, "readings": 0}]
    (left,) = objects(check_success(command("drop", place, "--site", second, "--format", "json")))
    assert left == {"pending": 0}
    (status,) = objects(check_success(command("status", place, "--best", "--format", "json")))
    assert (status["readings"], status["failed"], status["pending_sites"]) == (0, 1, [])
    assert status["best"] is None


def test_ask_command_chooses_among_the_available_sites(command: Command, place: Path) -> None:
    for t in range(1, 5):
        out = check_success(command("ask", place, "--at", t, "--available", "mill; EAST"))
        assert out.strip() in ("mill", "east")
        out = check_success(command("ask", place, "--at", t, "--without", "mill, east"))
        assert out.strip() in ("north", "south")


def test_ask_command_accepts_a_name_with_a_comma(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arms = '[domain]\narms = ["hall, west", "mill"]\n[policy]\nname = "adaptive-gp-ucb"\n'
    Path("a.toml").write_text(arms)
    assert command("new", "a.db", "--config", "a.toml").status == 0
    for option, name in (("--available", "hall, west"), ("--without", "mill")):
        assert check_success(command("ask", "a.db", "--at", 1, option, name)) == "hall, west\n"
    Path("day.csv").write_text("ad,time,successes,trials\nmill,1,1,9\n")
    missing = (
        r"columns site \(or the column of --station\), and .*: ad, time, successes, trials\. For"
    )
    check_error_line(command("tell", "a.db", "--csv", "day.csv"), missing)


@pytest.mark.slow
def test_campaign_command_names_a_missing_package_in_one_line() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None; "
        "sys.argv = ['tvbandits', 'campaign', 'status', 'c.db']; "
        "from tvbandits.__main__ import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr == (
        'tvbandits: a campaign needs the package sqlalchemy: pip install "tvbandits[campaign]"\n'
    )


TABLE = """time;site;reward;variance;who
2024-01-01 01:00;north;1,50E+00;;anna
;;;;
2024-01-01 02:00;mill;;;
3;south;0.5;0.04;bert
"""


def test_tell_command_reads_a_table_and_counts_it_once(command: Command, place: Path) -> None:
    Path("day.csv").write_text(TABLE)
    assert (
        check_success(command("tell", place, "--csv", "day.csv"))
        == "3 new readings; 2 readings in all, 0 pending\n"
    )
    again = command("tell", place, "--csv", "day.csv", "--format", "json")
    assert objects(check_success(again)) == [{"received": 3, "new": 0, "readings": 2}]
    with Campaign.open(place) as campaign:
        rewards = campaign.state.rewards
        assert rewards.t.tolist() == [1.0, 3.0]
        assert rewards.y.tolist() == [1.5, 0.5]
        assert rewards.X.tolist() == [[0, 1], [5, 2]]
        assert np.allclose(rewards.variance, [0.01, 0.04])
        assert campaign.state.failed.t.tolist() == [2.0]
        assert [row.who for row in campaign.journal()][::2] == ["anna", "bert"]


def test_tell_command_reads_sites_and_contexts_of_a_table(command: Command, place: Path) -> None:
    config = (place.parent / "c.toml").read_text().replace("tv-gp-ucb", "adaptive-gp-ucb")
    config = config.replace("options = { forgetting_rate = 0.01 }", "")
    context = "[domain.context]\noutside.interval = [-15, 20]\nWind.interval = [0, 9]\n"
    Path("h.toml").write_text(config + context)
    assert command("new", "h.db", "--config", "h.toml").err == ""
    Path("day.csv").write_text("site,outside,wind,time,reward\nnorth,3.5,1,1,0.5\nmill,-2,0,2,1\n")
    assert check_success(command("tell", "h.db", "--csv", "day.csv")).startswith(
        "2 new readings; 2 readings in all"
    )
    with Campaign.open("h.db") as campaign:
        assert campaign.state.rewards.X.tolist() == [[0, 1, 3.5, 1], [2.5, 1, -2, 0]]
    Path("day.csv").write_text("site,outside,wind,time,reward\nnorth,3.5,,3,0.5\n")
    assert "line 2: context 'Wind' is missing" in command("tell", "h.db", "--csv", "day.csv").err


def test_tell_command_replaces_a_failed_reading(command: Command, place: Path) -> None:
    Path("old.csv").write_text("site,time,reward\nnorth,1,\nmill,1,\n")
    Path("new.csv").write_text("site,time,reward\nnorth,1,0.5\nmill,1,\n")
    check_success(command("tell", place, "--csv", "old.csv"))
    check_success(command("tell", place, "--csv", "new.csv"))
    for name in ("old.csv", "new.csv"):
        assert "2 already recorded; 1 reading in all" in check_success(
            command("tell", place, "--csv", name)
        )
    with Campaign.open(place) as campaign:
        assert (campaign.status.readings, campaign.status.failed) == (1, 1)
        assert campaign.state.failed.X.tolist() == [[2.5, 1.0]]
        assert campaign.verify().consistent


@pytest.mark.usefixtures("place")
def test_new_command_names_sites_as_in_their_table(command: Command) -> None:
    Path("sites.csv").write_text("site,km,height\n 007 ,0,1\n7,2,1\nNA,3,1\n,,\n")
    check_success(command("new", "z.db", "--config", "c.toml"))
    with Campaign.open("z.db") as campaign:
        assert campaign.sites == ["007", "7", "NA"]


@pytest.mark.usefixtures("place")
def test_ask_and_tell_commands_keep_all_digits_of_a_point_of_a_box(command: Command) -> None:
    text = Path("c.toml").read_text().replace('sites = "sites.csv"', "box = [[0, 1e5], [0, 1e-3]]")
    Path("box.toml").write_text(text)
    made = check_success(command("new", "box.db", "--config", "box.toml"))
    assert made == "box.db: a campaign on Box([[0.0, 100000.0], [0.0, 0.001]])\n"
    strip = ("--available", "x0=2e4..3e4", "--available", "x1=0..1e-4")
    inside = check_success(command("ask", "box.db", "--at", 0, *strip)).strip().split(",")
    assert 2e4 <= float(inside[0]) <= 3e4
    assert 0 <= float(inside[1]) <= 1e-4
    assert "x7" in command("ask", "box.db", "--at", 0, "--available", "x7=0..1").err
    assert "x0=0..5" in command("ask", "box.db", "--at", 0, "--available", "A7").err
    check_success(command("drop", "box.db", "--site", ",".join(inside)))
    site = check_success(command("ask", "box.db", "--at", 1)).strip()
    said = command("tell", "box.db", "--site", site, "--reward", 1, "--at", 1)
    assert check_success(said) == "1 new reading; 1 reading in all, 0 pending\n"
    for x in ("0.12345678", "0.12345679"):
        check_success(command("tell", "box.db", "--site", f"{x},1e-4", "--reward", x, "--at", 2))


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("policy", ["gp-ucb", "et-gp-ucb"])  # the second may reset at any reading
def test_tell_command_of_a_table_matches_telling_its_rows_one_by_one(
    command: Command, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """The table is told in chunks: once with a wrong row; then interrupted, and told again twice."""
    monkeypatch.setattr("tvbandits.cli.campaign_readings.CHUNK", 4)
    Path("p.toml").write_text(CONFIG.format(policy=policy, options=""))
    for name in ("t.db", "twin.db", "wrong.db"):
        assert command("new", name, "--config", "p.toml").err == ""
    rows = [["", t, 2.5 * (t % 3), 1 + (t % 3 == 2), t / 8, 0.5 * t or ""] for t in range(10)]
    rows += [[key, 9, 5, 2, y, ""] for key, y in (("a", "nan"), ("b", 3), ("c", 3))]
    rows[2][4] = rows[7][4] = "nan"

    def told(*wrong: Any) -> Any:
        columns = ["key", "t", "km", "height", "value", "variance"]
        frame = pd.DataFrame(rows, columns=columns, dtype=object)
        frame.iloc[6, 4] = wrong[0] if wrong else frame.iloc[6, 4]
        frame.to_csv("day.csv", index=False)
        return command("tell", "wrong.db" if wrong else "t.db", "--csv", "day.csv", "--yes")

    with Campaign.open("twin.db") as twin:
        for key, t, *x, y, variance in rows:
            own = [variance] if variance else None
            twin.tell([x], [float(y)], float(t), own, key=key or None)
        said = told(1e300)
        assert (said.status, said.out) == (2, "12 new readings; 9 readings in all, 0 pending\n")
        assert re.fullmatch(r"tvbandits: day\.csv, line 8: y must [^\n]+\n", said.err)
        with monkeypatch.context() as patch:
            limited = iter([Campaign.record] * 2)
            patch.setattr(Campaign, "record", lambda *given: next(limited, interrupted)(*given))
            assert told().status == 130
        for new in ("5 new readings, 8 already recorded", "0 new readings, 13 already recorded"):
            assert check_success(told()).startswith(f"{new}; 10 readings in all")
        with Campaign.open("t.db") as campaign:
            assert campaign.state == twin.state
            assert campaign.history.equals(twin.history)


def interrupted(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def test_questions_and_answer_commands_count_a_repeated_call_once(
    command: Command, brought: Path
) -> None:
    for t in range(1, 4):
        site = check_success(command("ask", brought, "--at", t)).strip()
        check_success(command("tell", brought, "--site", site, "--reward", t / 10, "--at", t))
    shown = command("questions", brought, "--at", 3, "--key", "q", "--format", "json")
    (asked,) = objects(check_success(shown))
    sites = [each["site"] for each in asked["questions"]]
    assert 1 <= len(sites) <= 6
    assert (
        check_success(command("questions", brought, "--at", 3, "--key", "q"))
        == "; ".join(sites) + "\n"
    )
    said = ("answer", brought, "--site", sites[0], "--value", 0.7, "--at", 3, "--variance", 0.04)
    assert check_success(command(*said)).startswith("1 new answer; 3 readings in all")
    for again in (said, (*said[:6], *said[8:])):  # also without --at
        assert check_success(command(*again)).startswith("0 new answers, 1 already recorded")
    with Campaign.open(brought) as campaign:
        assert len(campaign.state.answers) == 1


@pytest.fixture
def played(command: Command, place: Path) -> Path:
    for t, site in enumerate(("north", "mill", "south", "north"), start=1):
        check_success(command("tell", place, "--site", site, "--reward", t / 10, "--at", t))
    check_success(command("ask", place, "--at", 5))
    return place


def test_status_command_prints_one_line_with_the_pending_and_the_best_site(
    command: Command, played: Path
) -> None:
    line = check_success(command("status", played))
    out = check_success(command("status", played, "--best"))
    assert out.startswith(line.rstrip("\n") + "; best: ")
    found = re.fullmatch(
        r"4 readings, the last at 2024-01-01 04:00:00; "
        r"pending: (\w+) \(asked [-\d]+ [\d:]+ UTC, 0 min ago\); 0 questions; best: (\w+)\n",
        out,
    )
    assert found, out
    (said,) = objects(check_success(command("status", played, "--best", "--format", "json")))
    assert (*said["pending_sites"], said["best"]) == found.groups()
    assert (said["readings"], said["pending"], said["rows"], said["time"]) == (4, 1, 5, 4.0)


def test_history_command_prints_the_history_of_the_campaign(command: Command, played: Path) -> None:
    with Campaign.open(played) as campaign:
        whole = campaign.history
    shown = pd.read_csv(StringIO(check_success(command("history", played, "--last", 0))))
    assert shown["reward"].dropna().tolist() == [0.1, 0.2, 0.3, 0.4]
    assert len(shown) == len(whole) == 5
    (last,) = objects(check_success(command("history", played, "--last", 2, "--format", "json")))
    assert [row["t"] for row in last] == [4.0, 5.0]
    assert [row["time"] for row in last] == ["2024-01-01 04:00:00", "2024-01-01 05:00:00"]
    assert command("history", played, "--last", 2).err == "2 of 5 rows; --last 0 shows all\n"
    assert command("history", played).err == ""


def test_forecast_command_prints_predictions_best_first(command: Command, played: Path) -> None:
    (said,) = objects(check_success(command("forecast", played, "--at", 9, "--format", "json")))
    with Campaign.open(played) as campaign:
        mean, deviation = campaign.predict(campaign.recipe.domain.X, 9.0)
    order = np.argsort(-mean)
    names = ["north", "mill", "south", "east"]
    assert [row["site"] for row in said["forecast"]] == [names[i] for i in order]
    assert [row["mean"] for row in said["forecast"]] == mean[order].tolist()
    assert [row["deviation"] for row in said["forecast"]] == deviation[order].tolist()
    one = check_success(command("forecast", played, "--at", "2024-01-01 09:00", "--site", "mill"))
    assert one == f"mill: {format_interval(mean[1], 1.96 * deviation[1], '+-')} (95%)\n"
    low, high = mean - 1.96 * deviation, mean + 1.96 * deviation
    bounds = np.array([row["interval_95"] for row in said["forecast"]])
    np.testing.assert_allclose(bounds, np.stack([low, high], axis=1)[order])
    assert check_success(command("forecast", played, "--at", 9, "--site", "2.5,1")) == one
    assert said["at"] == "2024-01-01 09:00:00"


def test_forecast_command_names_the_time_of_the_forecast(command: Command, played: Path) -> None:
    (said,) = objects(check_success(command("forecast", played, "--format", "json")))
    usual = command("forecast", played)
    assert f"for {said['at']}, one unit of time after the last reading" in usual.err
    assert usual.out == check_success(command("forecast", played, "--at", said["at"]))
    assert command("forecast", played, "--at", said["at"]).err == ""


def test_tell_command_says_that_a_reading_failed(command: Command, played: Path) -> None:
    said = check_success(
        command("tell", played, "--site", "mill", "--reward", "nan", "--at", 40, "--yes")
    )
    assert said.startswith("1 new failed reading; ")


def test_forecast_command_predicts_relative_to_the_control(command: Command, place: Path) -> None:
    text = CONFIG.replace("[policy]", "control = 'mill'\n[policy]")
    Path("k.toml").write_text(text.format(policy="gp-ucb", options=""))
    check_success(command("new", "k.db", "--config", "k.toml"))
    for site, reward in (("mill", 7.0), ("north", 9.0)):
        check_success(command("tell", "k.db", "--site", site, "--reward", reward, "--at", 1))
    said = check_success(command("forecast", "k.db", "--at", 2))
    assert re.match(
        r"north: (8[.]9|9[.]0) [+]- [1-9]", said
    )  # one reading says little about the level
    assert re.match(
        r"north: (1[.]9\d|2[.]0\d) [+]- ",
        check_success(command("forecast", "k.db", "--at", 2, "--relative")),
    )
    check_error_line(
        command("forecast", place, "--relative"), "relative predictions need a control"
    )


def test_backup_command_copies_a_campaign_and_replaces_no_file(
    command: Command, played: Path
) -> None:
    assert check_success(command("backup", played, "copy.db")) == "copy.db\n"
    one, other = (
        check_success(command("status", each, "--format", "json")) for each in (played, "copy.db")
    )
    assert one == other
    refused = command("backup", played, "copy.db")
    assert refused == (2, "", "tvbandits: copy.db already exists\n")


def test_verify_command_finds_a_changed_row(command: Command, played: Path) -> None:
    out = check_success(command("verify", played))
    assert re.fullmatch(r"5 rows, 5 operations, \d snapshots?: consistent\n", out)
    (said,) = objects(check_success(command("verify", played, "--format", "json")))
    assert (said["consistent"], said["problems"], said["rows"]) == (True, [], 5)
    execute(played, "UPDATE journal SET body = replace(body, '0.3', '0.9') WHERE seq = 3")
    changed = command("verify", played)
    assert changed.status == 2
    assert "row 3 of the journal ('tell') is not as it was written" in changed.out + changed.err


def test_report_command_writes_a_page(command: Command, played: Path) -> None:
    pytest.importorskip("jinja2", reason="no jinja2: no report")
    said = command("report", played)
    assert (said.status, said.err) == (0, f"{played}.html\n")
    text = Path(f"{played}.html").read_text()
    assert "north" in text
    assert command("report", played, "--out", "page.html").status == 0
    assert Path("page.html").read_text() == text


def test_token_command_makes_and_revokes_tokens(command: Command, place: Path) -> None:
    pytest.importorskip("fastapi", reason="no fastapi: no service")
    from tvbandits.campaign.service import Tokens

    said = command("token", place, "anna", "--role", "read", "--role", "tell")
    assert said.status == 0
    with Tokens(place) as tokens:
        found = tokens.holder(said.out.strip())
        assert found is not None
        assert (found.name, found.roles) == ("anna", {"read", "tell"})
        bert = tokens.holder(command("token", place, "bert").out.strip())
        assert bert is not None
        assert bert.roles == {"read"}
        assert command("token", place, "anna", "--revoke").status == 0
        assert tokens.names == ("bert",)
        assert tokens.holder(said.out.strip()) is None


# --- refusals


WRONG: dict[str, tuple[str, str]] = {
    "no campaign": ("status none.db", r"none\.db: there is no campaign"),
    "no campaign either": ("status sites.csv", r"sites\.csv: .*not a campaign"),
    "ask at a word": ("ask c.db --at soon", "soon"),
    "ask for none": ("ask c.db --at 1 -n 0", "Invalid value for .-n.*greater than or equal to 1, got"),
    "ask elsewhere": ("ask c.db --at 1 --available north,west", 'unknown site "west"; there are: north'),
    "ask of another": ("ask c.db --at 1 --key a\tb", "key must be a printable text"),
    "tell nothing": ("tell c.db --at 1", "tell needs --site and either --reward or counts"),
    "tell of nowhere": ("tell c.db --reward 1", "tell needs --site"),
    "tell a value": (
        "tell c.db --site a --value 3",
        "--value is for the table of --csv: give one reading by --site and --reward",
    ),
    "tell both": ("tell c.db --site north --reward 1 --csv sites.csv", "--csv"),
    "tell too much": ("tell c.db --site north --reward 1e300 --at 1", "1e"),
    "a table and a key": ("tell c.db --csv day.csv --key k", "--csv"),
    "a table of others": ("tell c.db --csv sites.csv", r"sites\.csv: there must be columns site"),
    "a number of a site": ("tell c.db --site 3 --reward 1", 'unknown site "3"; there are: north'),
    "a table with more": ("tell c.db --csv more.csv", "line 2 has '7' in column 4, which has no name"),
    "a table with two": ("tell c.db --csv two.csv", 'two.csv: there are two columns "reward"'),
    "drop what is not out": ("drop c.db --site north", "north is not pending"),
    "questions": ("questions c.db --at 1", "questions need a query plan"),
    "answers": ("answer c.db --site north --value 1 --at 1", "answer needs a query plan"),
    "a token of no campaign": ("token none/c.db anna", "none/c.db"),
    "a token of a file of another kind": ("token sites.csv anna", "sites.csv"),
    "a token of an unknown role": ("token c.db anna --role root", "root"),
    "a token that nobody has": ("token c.db anna --revoke", "anna"),
    "served to nobody": ("serve c.db", "tvbandits campaign token"),
    "another's expert": ("ask c.db --at 1 --expert os:system", "no maker in .*, got os:system"),
    "a name without end": ("new --config c.toml " + "x" * 300, "has at most 255 bytes"),
    "a second time": ("new c.db --config c.toml", r"c\.db already exists"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_campaign_commands_refuse_an_invalid_argument_and_change_nothing(
    command: Command, place: Path, name: str
) -> None:
    arguments, message = WRONG[name]
    if "token" in arguments or "serve" in arguments:
        pytest.importorskip("fastapi", reason="no fastapi: no service")
    Path("day.csv").write_text(TABLE)
    Path("two.csv").write_text("site,time,Reward,reward\nnorth,1,0.5,0.7\n")
    Path("more.csv").write_text("site,time,reward\nnorth,1,0.5,7\n")
    before = {path.name for path in place.parent.iterdir()}
    check_error_line(command(*arguments.split(" ")), message)
    with Campaign.open(place) as campaign:
        assert campaign.status.rows == 0
    left = {path.name for path in place.parent.iterdir()} - before
    assert not {each for each in left if not each.startswith("c.db-")}


def test_serve_command_refuses_a_public_host(command: Command, place: Path) -> None:
    pytest.importorskip("fastapi", reason="no fastapi: no service")
    command("token", place, "anna")
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):
        check_error_line(command("serve", place, "--host", host), re.escape(host))


LONG = "domain.sites = 'sites.csv'\n[policy]\nname = 'gp-ucb'\nlength_scale = {}\n"
HEATED = """[policy]
name = "adaptive-gp-ucb"
[domain.space]
flow.interval = [25, 55]
[domain.context]
outside = {}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[policy]\nname='gp-ucb'", r"there must be a section \[domain\]"),
        (CONFIG.format(policy="tv-gp-ucb", options="evil = 1"), "unknown 'evil'.* to .policy.options"),
        (CONFIG.format(policy="tv-gp-ucb", options="options = { evil = 1 }"), "unknown 'evil'"),
        (BROUGHT.replace("= 2.0", "= []"), r"\[policy\] length_scale must be positive, one .* got \[\]"),
        (BROUGHT.replace("= 2.0", '= "2"'), "length_scale must be numeric, got '2': texts are no"),
        (CONFIG.format(policy="gp-ucb", options="kernel = 'matern'\nsmoothness = true"), "smoothness"),
        (CONFIG.format(policy="tv-gp-ucb", options="kernel = 'pickle'"), 'must be "rbf" or "matern"'),
        (CONFIG.format(policy="uniform", options=""), "no model"),
        (BROUGHT + "[expert]\nmaker = 'os:system'", "--expert os:system"),
        (HEATED.format("3"), r"outside must be .*words .* got 3"),
        (HEATED.format("[-15, 20]"), r"write { interval = \[-15, 20\] } or { choices = \[-15, 20\] }"),
        (HEATED.format("[16, 32, 64]"), r"these are choices: write { choices = \[16, 32, 64\] }$"),
        (HEATED.format("[16]"), r"these are choices: write { choices = \[16\] }$"),
        (HEATED.format("{ interval = [3] }"), r"outside must be .* got {\"interval\": \[3\]}"),
        (HEATED.format("{ log = [0, 3] }"), "outside: low must be .*0"),
        (HEATED.format("{ log = [1, 3], whole = [1, 3] }"), "outside must be .* got {"),
        (HEATED.format("{ circle = [1, 3] }"), "outside must be .*periodic.* got {"),
        (HEATED.format("[]"), r"outside must be .*a list .*got \[\]"),
        (HEATED.format("[1, 'a']"), r"outside: categories must be texts, got 1"),
        ("[policy]\nname='uniform'\n[domain]\nbox = [[0, 1]]\ncontext = 3", "context must be a table"),
        (LONG.format("1\nsmoothness = 1.5"), 'smoothness is for kernel = "matern"'),
        (LONG.format("1\nkernel = 'matern'\nsmoothness = []"), r"smoothness must be .* got \[\]"),
        (LONG.format("1\nnoise_sd = 1e300"), r"noise_sd must .*, got 1e\+300"),
        (LONG.format("1\n[expert]\nbrought = true"), "unknown 'brought'; there are: budget, maker"),
        ("domain.coordinates = 1\n" + LONG.format(1), "coordinates must be a list of columns, got 1"),
        ("domain.safe = ['north']\n" + LONG.format(1), "safe is for campaigns with limits"),
        ('[domain]\narms = ["a\\u001b", "b"]\n[policy]', "each site must be a printable text"),
        ("[[[", "c2.toml"),
    ],
)  # fmt: skip
def test_new_command_refuses_an_invalid_configuration_and_leaves_no_file(
    command: Command, place: Path, text: str, message: str
) -> None:
    Path("c2.toml").write_text(text)
    check_error_line(command("new", "new.db", "--config", "c2.toml"), message)
    assert not list(place.parent.glob("new.db*"))


NO_EXPERTS = {"os:system": "<built-in function system>", "os:getcwd": "'/", "os:path": "<module"}


@pytest.mark.parametrize(("maker", "got"), NO_EXPERTS.items())
def test_new_command_refuses_a_maker_that_returns_no_expert(
    command: Command, place: Path, maker: str, got: str
) -> None:
    Path("m.toml").write_text(f'{BROUGHT}[expert]\nmaker = "{maker}"\n')
    given = ("new", "m.db", "--config", "m.toml", "--expert")
    check_error_line(
        command(*given, maker),
        rf"what the maker returns must be an object with query\(X, t\), got {got}",
    )
    other = f"m.toml: --expert must be {maker}, as in the configuration, got os:abort$"
    check_error_line(command(*given, "os:abort"), other)
    assert not list(place.parent.glob("m.db*"))


def test_tell_command_reads_a_table_of_counts_as_rates(command: Command, place: Path) -> None:
    rows = "site,time,successes,trials\nnorth,1,0,100\nmill,1,3,50\nsouth,2,,\n"
    Path("clicks.csv").write_text(rows)
    assert check_success(command("tell", place, "--csv", "clicks.csv")).startswith(
        "3 new readings; 2 readings in all"
    )
    Path("clicks.csv").write_text("site,time,successes,trials\n")
    assert check_success(command("tell", place, "--csv", "clicks.csv")).startswith(
        "0 new readings; 2 readings"
    )
    Path("clicks.csv").write_text(rows + "south,1,1,10\n")  # stored rates stay as they are
    assert "1 new reading, 3 already recorded; 3 readings" in check_success(
        command("tell", place, "--csv", "clicks.csv")
    )
    with Campaign.open(place) as campaign:
        known, made = campaign.state.rewards, rate([0, 3], [100, 50])
        assert known.y.tolist() == [*made.values, 0.1]
        assert known.variance[:2].tolist() == made.variance.tolist()
        assert known.variance[2] == pytest.approx((6 / 164) * (158 / 164) / 10)
    Path("clicks.csv").write_text(rows.replace("0,100", "0,200"))
    said = command("tell", place, "--csv", "clicks.csv")
    assert (said.status, said.out) == (
        2,
        "0 new readings, 2 already recorded; 3 readings in all, 0 pending\n",
    )
    assert "line 2: there is already a reading of north at 2024-01-01 01:00:00: 0" in said.err
    Path("clicks.csv").write_text("site,time,events,exposure,variance\nnorth,9,3,2,1\n")
    check_error_line(
        command("tell", place, "--csv", "clicks.csv"), "events and exposure replace variance"
    )


def test_campaign_doubts_accept_another_value_after_equal_ones(tmp_path: Path) -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=None)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        campaign.tell([[0.0]] * 3, [5.0] * 3, [1, 2, 3])
        doubts = campaign.doubts()
        assert doubts.about_reading("A", 4.0, 5.1) == []
        # A rate of few trials may be far from the others.
        assert doubts.about_reading("A", 5.0, 20.0, 400.0) == []
        assert len(doubts.about_reading("A", 5.0, 999.0)) == 1


# --- a folder that holds a comparison: the same is resumed, another is refused

PROBLEMS = ["drifting-bump:candidates=21", "gp-drift:points_per_axis=3"]
GIVEN = [
    "compare", *PROBLEMS, "--policy=uniform", "--policy=sparq-gp-ucb", "--horizon=7", "--seeds=3",
    "--jobs=1",
]  # fmt: skip


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`tvbandits ...`."""
    return commands(monkeypatch, capsys)


def stopped_after(count: int, meanwhile: Path | None = None) -> Callable[..., Iterator[Run]]:
    def runs(*given: Any) -> Iterator[Run]:
        going = iterate(*given)
        yield from (next(going) for _ in range(count))
        if meanwhile is not None:
            shutil.copytree(meanwhile, meanwhile.parent / "both", dirs_exist_ok=True)
        raise KeyboardInterrupt

    return runs


def rows_of(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / files.ROWS, dtype=str, keep_default_na=False).drop(
        columns="seconds"
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 5, 8])
def test_compare_command_resumes_an_interrupted_comparison(
    typed: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert typed(*GIVEN, "--out", whole)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr("tvbandits.cli.comparing.iterate", stopped_after(count))
        assert typed(*GIVEN, "--out", parts)[0] == 130
        # If another process completes the comparison in the same folder, its rows are kept.
        patch.setattr("tvbandits.cli.comparing.iterate", stopped_after(count, whole))
        assert typed(*GIVEN, "--out", tmp_path / "both")[0] == 130
    pd.testing.assert_frame_equal(rows_of(tmp_path / "both"), rows_of(whole))
    assert len(rows_of(parts)) == count * 7
    before = pd.read_csv(parts / files.ROWS)["seconds"]
    status, _, err = typed(*GIVEN, "--out", parts)
    assert status == 0
    assert f"{count} of 12 runs exist already\n" in err
    pd.testing.assert_frame_equal(rows_of(parts), rows_of(whole))
    assert before.isin(pd.read_csv(parts / files.ROWS)["seconds"]).all()
    assert json.loads((parts / files.RUN).read_text())["arguments"]["interrupted"] is False


@pytest.mark.slow
def test_compare_command_does_not_repeat_finished_runs(typed: Command, tmp_path: Path) -> None:
    assert typed(*GIVEN, "--out", tmp_path)[0] == 0
    before = (tmp_path / files.ROWS).read_bytes()
    status, out, err = typed(*GIVEN[:-1], "--jobs=2", "--out", tmp_path)
    assert status == 0
    assert "12 of 12 runs exist already\n" in err
    assert "sparq-gp-ucb" in out
    assert (tmp_path / files.ROWS).read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--horizon=7": "--horizon=6"}, "its horizon is 7, not 6"),
        ({"compare": "frontier", "--policy=uniform": "--plan=kdpp",
          "--policy=sparq-gp-ucb": "--plan=random"},
         'its command is "compare", not "frontier"'),
    ],
)  # fmt: skip
def test_compare_command_refuses_the_folder_of_another_comparison(
    typed: Command, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    assert typed(*GIVEN, "--out", tmp_path)[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status, out, err = typed(*(change.get(each, each) for each in GIVEN), "--out", tmp_path)
    assert (status, out) == (2, "")
    assert re.search(message, err), err
    assert "give another folder" in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_compare_command_refuses_a_folder_without_run_json(typed: Command, tmp_path: Path) -> None:
    (tmp_path / files.ROWS).write_text("mine")
    status, _, err = typed(*GIVEN, "--out", tmp_path)
    assert status == 2
    assert "run.json is missing" in err
    assert (tmp_path / files.ROWS).read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["typer.core", "numpy.exceptions", "pandas"])
def test_module_interrupted_during_imports_prints_no_traceback(module: str) -> None:
    running = subprocess.Popen(
        [
            sys.executable, "-X", "importtime", "-m", "tvbandits", "compare", PROBLEMS[0],
            "--seeds=1", "--jobs=1",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert any(line.split("|")[-1].strip() == module for line in running.stderr)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    # While it creates a class, Python ends by the signal itself; a shell shows 130 then, too.
    assert running.returncode in (130, -signal.SIGINT), err
    assert "Traceback" not in err


@pytest.mark.slow
def test_compare_command_prints_ascii_on_an_ascii_terminal() -> None:
    said = subprocess.run(
        [
            sys.executable, "-m", "tvbandits", "compare", PROBLEMS[0], "--policy=uniform",
            "--horizon=4", "--seeds=2", "--jobs=1",
        ],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "dumb"},
        capture_output=True, check=True,
    )  # fmt: skip
    assert said.stderr == b""
    assert b"95% +-" in said.stdout
    assert "| uniform |" in said.stdout.decode("ascii")

"""Checks of commands against wrong sites, times and values; tables told by cron jobs."""

import json
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign

CONFIG = (
    '[domain]\nsites = "sites.csv"\n[policy]\nname = "gp-ucb"\nlength_scale = 9.0\nnoise_sd = 0.5\n'
)
CLOCK = '[clock]\nunit = "1h"\norigin = "2024-01-30"\n'
DEGREES = "site,latitude,longitude\nST1,45.4,9.1\nST2,45.5,9.2\nST3,45.6,9.4\n"
GOOD = "site,time,reward\n" + "".join(f"ST{1 + t % 3},{t},{t % 4}\n" for t in range(1, 10))


@pytest.fixture
def network(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text(DEGREES)
    Path("n.toml").write_text(CONFIG + CLOCK)
    check_success(command("new", "n.db", "--config", "n.toml"))
    return tmp_path / "n.db"


def test_sites_list_command_prints_a_table_of_sites(command: Command, network: Path) -> None:
    assert check_success(command("sites", "list", network)) == DEGREES
    assert check_success(command("sites", network)) == DEGREES
    check_success(command("sites", "add", network, "ST4=45.5,9.3"))
    check_success(command("sites", "retire", network, "ST2"))
    lines = check_success(command("sites", "list", network)).splitlines()
    assert lines[0] == "site,latitude,longitude,retired"
    assert lines[2:] == ["ST2,45.5,9.2,yes", "ST3,45.6,9.4,", "ST4,45.5,9.3,"]
    sites = json.loads(check_success(command("sites", "list", network, "--format", "json")))[
        "sites"
    ]
    assert sites[1] == {"site": "ST2", "x": [45.5, 9.2], "retired": True}


def test_campaign_commands_name_the_choices_for_an_invalid_word(
    command: Command, network: Path
) -> None:
    check_error_line(
        command("sites", "lst", network), r"'action': 'lst' is not one of 'list', 'add'"
    )
    check_error_line(
        command("status", network, "--format", "xml"), r"'--format': 'xml' is not one of"
    )
    check_error_line(command("sites", "add"), "Missing argument 'FILE'")


def test_forecast_command_leaves_out_retired_sites_unless_named(
    command: Command, network: Path
) -> None:
    Path("good.csv").write_text(GOOD)
    check_success(command("tell", network, "--csv", "good.csv"))
    check_success(command("sites", "retire", network, "ST2"))
    said = check_success(command("forecast", network, "--at", 10))
    assert sorted(line.partition(":")[0] for line in said.splitlines()) == ["ST1", "ST3"]
    assert check_success(command("forecast", network, "--at", 10, "--site", "ST2")).startswith(
        "ST2: "
    )


@pytest.mark.usefixtures("network")
def test_sites_list_command_prints_only_names_of_arms(command: Command) -> None:
    Path("a.toml").write_text('[domain]\narms = ["red", "green"]\n[policy]\nname = "gp-ucb"\n'
                              "length_scale = 1.0\n")  # fmt: skip
    check_success(command("new", "a.db", "--config", "a.toml"))
    assert check_success(command("sites", "list", "a.db")) == "site\nred\ngreen\n"


def test_sites_command_accepts_names_only_for_changes(command: Command, network: Path) -> None:
    check_error_line(command("sites", "list", network, "ST1"), "list takes no names")
    check_error_line(command("sites", "add", network), "add takes names")


def test_sites_add_and_new_commands_refuse_a_latitude_without_a_longitude(
    command: Command, network: Path
) -> None:
    check_error_line(
        command("sites", "add", network, "ST4=45.5"), r'"ST4" .*\(latitude, longitude\), got 1'
    )
    check_error_line(
        command("sites", "add", network, "ST4"), r'"ST4" .*\(latitude, longitude\), got 0'
    )
    Path("sites.csv").write_text("site,latitude,x\nST1,45.4,9.1\nST2,45.5,9.2\n")
    check_error_line(command("new", "b.db", "--config", "n.toml"), '"latitude" but no longitude')
    Path("sites.csv").write_text("site,latitude,longitude\nST1,45.4,9.1\nST2,45.5,\n")
    check_error_line(command("new", "b.db", "--config", "n.toml"), "site 'ST2' has no longitude")
    with Campaign.open(network) as campaign:
        assert campaign.sites == ["ST1", "ST2", "ST3"]


def test_status_command_shows_the_best_site_at_the_given_time(
    command: Command, network: Path
) -> None:
    Path("day.csv").write_text(GOOD)
    check_success(command("tell", network, "--csv", "day.csv"))
    text = check_success(command("status", network, "--best", "--at", "30.01.2024 12:00"))
    assert "best at 2024-01-30 12:00:00: ST" in text
    best = json.loads(
        check_success(command("status", network, "--best", "--at", 12, "--format", "json"))
    )
    with Campaign.open(network) as campaign:
        assert best["best"] == campaign.names.name(campaign.recommend(12))
    assert best["best_at"] == 12
    check_error_line(command("status", network, "--at", 12), "--at is for --best")


def test_correct_command_prints_the_old_and_the_new_value(command: Command, network: Path) -> None:
    check_success(command("tell", network, "--site", "ST1", "--at", 3, "--reward", 1.5))
    said = check_success(command("correct", network, "--site", "ST1", "--at", 3, "--reward", 2.5))
    assert said.startswith("corrected: ST1 at 2024-01-30 03:00:00, which was 1.5 and is 2.5 now;")
    said = check_success(command("correct", network, "--site", "ST1", "--at", 3, "--to", 4))
    assert "which was 2.5, moved to 2024-01-30 04:00:00;" in said


def test_tell_command_accepts_a_table_again_after_a_correction(
    command: Command, network: Path
) -> None:
    Path("day.csv").write_text(GOOD)
    check_success(command("tell", network, "--csv", "day.csv"))
    with Campaign.open(network) as campaign:
        first = campaign.names.name(campaign.state.rewards.X[0])
        told = campaign.state.rewards.y[0]
    check_success(command("correct", network, "--site", first, "--at", 1, "--reward", told + 0.25))
    assert check_success(command("tell", network, "--csv", "day.csv")).startswith(
        "0 new readings, 9 already"
    )
    with Campaign.open(network) as campaign:
        assert campaign.state.rewards.y[0] == told + 0.25
    Path("day.csv").write_text(f"site,time,reward\n{first},1,{told + 0.125}\n")
    check_error_line(command("tell", network, "--csv", "day.csv"), "there is already a reading of")


def test_ask_command_refuses_available_sites_that_are_retired(
    command: Command, network: Path
) -> None:
    check_success(command("sites", "retire", network, "ST2"))
    check_error_line(
        command("ask", network, "--at", 7, "--available", "ST2"), "would be are retired"
    )


def test_tell_command_without_a_time_names_the_time_for_a_site_not_pending(
    command: Command, network: Path
) -> None:
    asked = check_success(command("ask", network, "--at", 70)).strip()
    other = {"ST1": "ST2"}.get(asked, "ST1")
    said = command("tell", network, "--site", other, "--reward", 1.5)
    assert (
        f"{other} was not pending, so this reading is for 2024-02-01 22:00:00: use --at" in said.err
    )
    for options in (("--site", asked), ("--site", other, "--at", 69)):
        assert command("tell", network, "--reward", 1.5, *options).err == ""


def test_tell_command_with_skip_doubtful_leaves_out_rows_without_asking(
    command: Command, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("day.csv").write_text(f"{GOOD}ST1,10,5000\nST2,11,1\n")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: pytest.fail("a question was asked"))
    said = command("tell", network, "--csv", "day.csv", "--skip-doubtful", "--format", "json")
    assert said.status == 2
    assert [each["line"] for each in json.loads(said.out)["refused"]] == [11]
    assert "day.csv, line 11: ST1: 5000 is far from the readings" in said.err
    with Campaign.open(network) as campaign:
        assert campaign.state.rewards.t.tolist() == [*range(1, 10), 11]
    Path("day.csv").write_text(GOOD)
    assert check_success(
        command("tell", network, "--csv", "day.csv", "--skip-doubtful")
    ).startswith("0 new")


def test_tell_command_with_skip_doubtful_leaves_out_one_cell_of_a_wide_line(
    command: Command, network: Path
) -> None:
    Path("day.csv").write_text(GOOD)
    check_success(command("tell", network, "--csv", "day.csv"))
    Path("wide.csv").write_text("time,ST1,ST2,ST3\n10,1,5000,3\n11,1,2,3\n")
    said = command("tell", network, "--csv", "wide.csv", "--skip-doubtful", "--format", "json")
    (refused,) = json.loads(said.out)["refused"]
    assert refused["line"] == 2
    assert "ST2: 5000 is far" in refused["error"]
    with Campaign.open(network) as campaign:
        rewards = campaign.state.rewards
        assert rewards.y[rewards.t == 10].tolist() == [1, 3]
        assert rewards.y[rewards.t == 11].tolist() == [1, 2, 3]


def test_tell_command_refuses_skip_doubtful_with_yes_or_without_csv(
    command: Command, network: Path
) -> None:
    check_error_line(
        command("tell", network, "--csv", "day.csv", "--skip-doubtful", "--yes"), "--yes"
    )
    one = ("--site", "ST1", "--reward", 1)
    check_error_line(
        command("tell", network, *one, "--skip-doubtful"), "--skip-doubtful is for --csv"
    )


@pytest.mark.usefixtures("network")
def test_new_command_says_whether_times_may_be_dates(command: Command) -> None:
    new = ("--policy", "frugal-gp-ucb", "--sites", "sites.csv", "--config")
    assert "no clock: times are numbers; with --clock 1h" in check_success(
        command("new", "c.db", *new, "c.toml")
    )
    assert "no clock" not in check_success(command("new", "d.db", *new, "d.toml", "--clock", "1h"))


def test_tell_command_reads_times_from_two_columns_or_a_named_one(
    command: Command, network: Path
) -> None:
    Path("day.csv").write_text(
        "site,date,time,reward\nST1,30.01.2024,05:00,1\nST2,30.01.2024,06:00,2\n"
    )
    check_success(command("tell", network, "--csv", "day.csv"))
    Path("next.csv").write_text("site,time,read at,reward\nST1,99,7,1\nST2,98,8,2\n")
    check_success(command("tell", network, "--csv", "next.csv", "--time", "read at"))
    with Campaign.open(network) as campaign:
        assert campaign.state.rewards.t.tolist() == [5.0, 6.0, 7.0, 8.0]


@pytest.mark.usefixtures("network")
def test_new_command_leaves_no_file_after_an_error(command: Command) -> None:
    Path("bad.csv").write_text("site,latitude,longitude\nST1,45.4,9.1\nST2,45.5,\n")
    new = ("new", "x.db", "--policy", "frugal-gp-ucb", "--sites")
    before = sorted(Path().iterdir())
    check_error_line(command(*new, "bad.csv"), "site 'ST2' has no longitude")
    assert sorted(Path().iterdir()) == before
    assert "wrote campaign.toml\n" in check_success(command(*new, "sites.csv"))


@pytest.fixture
def gauges(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A network whose gauges have different levels; the first reads near 19."""
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,x\nA,0\nB,20\nC,40\nD,60\n")
    Path("n.toml").write_text(CONFIG + CLOCK)
    check_success(command("new", "g.db", "--config", "n.toml"))
    rows = "".join(
        f"{site},{t},{level + t % 3 * 0.3}\n"
        for t in range(1, 25)
        for site, level in (("A", 19), ("B", 0.2), ("C", 10), ("D", 8))
    )
    Path("day.csv").write_text(f"site,time,reward\n{rows}")
    check_success(command("tell", "g.db", "--csv", "day.csv"))
    return "g.db"


def test_tell_command_doubts_a_value_unusual_for_its_site(command: Command, gauges: str) -> None:
    said = "tell", gauges, "--at", 25, "--reward"
    check_error_line(
        command(*said, 0.19, "--site", "A"), "A: 0.19 is far from its readings so far, 19 to"
    )
    assert check_success(command(*said, 0.19, "--site", "B")).startswith("1 new reading")
    assert check_success(command(*said, 19.27, "--site", "A")).startswith("1 new reading")


def test_tell_command_doubts_a_value_near_an_accepted_doubtful_one(
    command: Command, gauges: str
) -> None:
    one = "tell", gauges, "--site", "A", "--at"
    check_success(command(*one, 25, "--reward", 1927, "--yes"))
    check_error_line(
        command(*one, 26, "--reward", 1925), "1925 is far from the readings so far, 0.2 to 19.6"
    )


def test_ask_command_without_a_time_names_the_time_of_its_points(
    command: Command, gauges: str
) -> None:
    said = command("ask", gauges)
    assert said.status == 0
    assert said.err.startswith(
        "tvbandits: points for 2024-01-31 01:00:00, one unit of the clock after the last reading; it is "
        "now "
    )
    assert "--at" in said.err
    assert command("ask", gauges, "--at", "2024-01-31 02:00").err == ""

"""Tables with wrong rows: the good rows are stored, the wrong ones named, and the exit status is 2."""

import json
from pathlib import Path

import pytest

from tests.cli.campaign.conftest import CONFIG
from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign

GOOD = "site,time,reward\nA,1,1.0\nB,2,1.1\nC,3,0.9\nA,4,1.2\n"


# A wrong row, and what the error must contain.
WRONG = {
    "a gross error": ("B,5,9999", "9999"),
    "a word": ("B,5,much", "much"),
    "swapped columns": ("1.0,5,north", 'reward must be a number, got "north"'),
    "an unknown site": ("west,5,1.0", '"west"'),
    "no time": ("B,,1.0", "time"),
    "the same place and time": ("A,1,1.1", "line 2"),
    "too large": ("B,5,1e300", "1e+300"),
    "far ahead": ("B,1e9,1.0", "1000000000"),
}


@pytest.mark.parametrize("case", WRONG)
def test_tell_command_stores_good_rows_and_names_the_line_of_a_wrong_one(
    command: Command, place: Path, case: str
) -> None:
    row, named = WRONG[case]
    Path("day.csv").write_text(f"{GOOD}{row}\nC,6,1.0\n")
    said = command("tell", place, "--csv", "day.csv")
    assert (said.status, said.out) == (2, "5 new readings; 5 readings in all, 0 pending\n")
    assert said.err.count("\n") == 1
    assert "day.csv, line 6: " in said.err
    assert named in said.err
    again = command("tell", place, "--csv", "day.csv", "--format", "json")
    assert (again.status, json.loads(again.out)["new"]) == (2, 0)
    assert [each["line"] for each in json.loads(again.out)["refused"]] == [6]
    with Campaign.open(place) as campaign:
        assert campaign.state.rewards.t.tolist() == [1.0, 2.0, 3.0, 4.0, 6.0]


def test_tell_command_leaves_out_two_equal_gross_errors(command: Command, place: Path) -> None:
    Path("day.csv").write_text(f"{GOOD}B,5,9999\nC,6,9999\nA,7,1.0\n")
    said = command("tell", place, "--csv", "day.csv")
    assert (said.status, said.out) == (2, "5 new readings; 5 readings in all, 0 pending\n")
    assert "day.csv, line 6, 7: " in said.err
    out = check_success(command("tell", place, "--csv", "day.csv", "--yes"))
    assert out.startswith("2 new readings, 5 already recorded")


def test_tell_command_refuses_a_table_of_wrong_rows_only(command: Command, place: Path) -> None:
    Path("day.csv").write_text("site,time,reward\nwest,1,1.0\neast,2,1.0\n")
    check_error_line(
        command("tell", place, "--csv", "day.csv"), r'day\.csv, line 2: unknown site "west"'
    )
    with Campaign.open(place) as campaign:
        assert campaign.journal() == []


DEGREES = "site,latitude,longitude\nST1,45.4,9.1\nST2,45.5,9.2\nST3,45.6,9.4\n"


@pytest.fixture
def network(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text(DEGREES)
    Path("n.toml").write_text(CONFIG.format(context=""))
    check_success(command("new", "n.db", "--config", "n.toml"))
    return tmp_path / "n.db"


def test_sites_add_command_refuses_swapped_latitude_and_longitude(
    command: Command, network: Path
) -> None:
    for more in ((), ("--yes",)):
        said = command("sites", "add", network, "ST27=9.3,45.5", *more)
        check_error_line(
            said, "km from the nearest site: the order is latitude, longitude; 45.5,9.3 would"
        )
    with Campaign.open(network) as campaign:
        assert campaign.sites == ["ST1", "ST2", "ST3"]
        with pytest.raises(ValueError, match=r"45\.5,9\.3"):
            campaign.change_sites({"ST27": [9.3, 45.5]})
    assert check_success(command("sites", "add", network, "ST27=45.5,9.3")) == "4 active sites\n"


def test_sites_add_command_refuses_a_far_site_unless_sure(
    command: Command, network: Path, place: Path
) -> None:
    said = command("sites", "add", network, "ST9=50.0,14.0", "--key", "k")
    check_error_line(said, '"ST9" is .* km from the nearest site.*--yes')
    said = command("sites", "add", place, "E=4000")  # metres among kilometres
    check_error_line(said, '"E" is 3994 from the nearest site.*--yes')
    for _ in range(2):
        check_success(command("sites", "add", network, "ST9=50.0,14.0", "--yes", "--key", "k"))
    check_success(command("sites", "add", network, "ST10=45.5,9.9"))
    check_success(command("sites", "add", place, "E=9"))


def test_tell_command_reads_thousands_points_and_refuses_unclear_ones(
    command: Command, place: Path
) -> None:
    Path("day.csv").write_text("site;time;reward\nA;1;1.012\nB;2;998,5\n")
    check_success(command("tell", place, "--csv", "day.csv"))
    Path("next.csv").write_text("site;time;reward;variance\nA;3;1.013;0,04\n")
    check_error_line(
        command("tell", place, "--csv", "next.csv"), r"1\.013 in column reward.*--decimal"
    )
    check_success(command("tell", place, "--csv", "next.csv", "--decimal", "comma"))
    check_error_line(
        command("tell", place, "--site", "A", "--reward", 1, "--decimal", "comma"), "--csv"
    )
    with Campaign.open(place) as campaign:
        assert campaign.state.rewards.y.tolist() == [1012.0, 998.5, 1013.0]


def test_tell_command_refuses_a_missing_value_code_as_the_first_reading(
    command: Command, place: Path
) -> None:
    Path("day.csv").write_text("site,datetime,reward\nA,1,-999\nB,2,1.5\n")
    said = command("tell", place, "--csv", "day.csv")
    assert (said.status, said.out) == (2, "1 new reading; 1 reading in all, 0 pending\n")
    assert "day.csv, line 2: -999 " in said.err
    assert "--missing -999" in said.err
    check_success(command("tell", place, "--csv", "day.csv", "--missing", "none", "--yes"))


def test_campaign_commands_read_days_before_months_and_refuse_ambiguous_dates(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sites.csv").write_text("site,km\nA,0\nB,2\n")
    clock = '\n[clock]\nunit = "1D"\norigin = "2024-01-31"\n'
    Path("c.toml").write_text(CONFIG.format(context="") + clock)
    check_success(command("new", "c.db", "--config", "c.toml"))
    Path("day.csv").write_text("site,time,reward\nA,31/01/2024 24:00,1\nB,02.02.2024,2\n")
    check_success(command("tell", "c.db", "--csv", "day.csv"))
    check_success(command("tell", "c.db", "--site", "A", "--reward", 3, "--at", "03.02.2024 12:00"))
    unclear = "tell", "c.db", "--site", "A", "--reward", 3, "--at", "04/02/2024"
    either = "--at: 04/02/2024 may be 4 February or 2 April: write 2024-02-04 or 2024-04-02$"
    check_error_line(command(*unclear), either)
    for verb in ("ask", "forecast", "questions"):
        check_error_line(command(verb, "c.db", "--at", "04/02/2024"), either)
    for verb in (("retract", "--site", "A"), ("answer", "--site", "A", "--value", 1)):
        check_error_line(command(verb[0], "c.db", *verb[1:], "--at", "04/02/2024"), either)
    correct = ("correct", "c.db", "--site", "A", "--at", "03.02.2024 12:00", "--to", "04/02/2024")
    check_error_line(command(*correct), either.replace("--at", "--to"))
    in_iso = check_success(command("forecast", "c.db", "--at", "2024-02-13"))
    assert check_success(command("forecast", "c.db", "--at", "13/02/2024")) == in_iso
    with Campaign.open("c.db") as campaign:
        assert campaign.state.rewards.t.tolist() == [1.0, 2.0, 3.5]

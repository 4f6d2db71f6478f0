"""A table with wrong rows: the good ones are told, the wrong ones named, and the exit status says so."""

import json
from pathlib import Path

import pytest

from tests.cli.campaign.conftest import CONFIG
from tests.helpers.commands import Command, check_error_line, check_success
from tvbandits import Campaign

GOOD = "site,time,reward\nA,1,1.0\nB,2,1.1\nC,3,0.9\nA,4,1.2\n"


# A wrong row, and what must be named of it.
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
def test_good_rows_are_told_and_a_wrong_one_is_named_by_line(
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
    assert (again.status, json.loads(again.out)["new"]) == (2, False)
    assert [each["line"] for each in json.loads(again.out)["refused"]] == [6]
    with Campaign.open(place) as campaign:
        assert campaign.state.rewards.t.tolist() == [1.0, 2.0, 3.0, 4.0, 6.0]


def test_two_gross_errors_of_one_size_are_both_left_out(command: Command, place: Path) -> None:
    Path("day.csv").write_text(f"{GOOD}B,5,9999\nC,6,9999\nA,7,1.0\n")
    said = command("tell", place, "--csv", "day.csv")
    assert (said.status, said.out) == (2, "5 new readings; 5 readings in all, 0 pending\n")
    assert "day.csv, line 6, 7: " in said.err
    out = check_success(command("tell", place, "--csv", "day.csv", "--yes"))
    assert out.startswith("2 new readings, 5 already recorded")


def test_a_table_of_wrong_rows_alone_is_one_line_and_no_change(
    command: Command, place: Path
) -> None:
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


def test_a_site_with_its_longitude_first_is_refused_with_the_right_order(
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


def test_a_site_far_from_all_others_is_added_only_when_somebody_is_sure(
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


def test_a_table_with_thousands_points_is_read_as_such(command: Command, place: Path) -> None:
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


def test_a_number_of_no_reading_is_refused_even_as_the_first(command: Command, place: Path) -> None:
    Path("day.csv").write_text("site,datetime,reward\nA,1,-999\nB,2,1.5\n")
    said = command("tell", place, "--csv", "day.csv")
    assert (said.status, said.out) == (2, "1 new reading; 1 reading in all, 0 pending\n")
    assert "day.csv, line 2: -999 " in said.err
    assert "--missing -999" in said.err
    check_success(command("tell", place, "--csv", "day.csv", "--missing", "none", "--yes"))


def test_days_before_months_are_read_in_a_table_and_in_an_option(
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

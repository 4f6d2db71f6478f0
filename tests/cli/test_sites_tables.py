"""Tables of sites and readings: coordinates, names, units, times, gaps; in `data info` and campaigns."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import Command, check_success
from tvbandits import Campaign
from tvbandits.clock import is_date_text, to_iso_date
from tvbandits.datasets import sensor_field
from tvbandits.datasets.tables.readings import describe_averages

NUMBERS = "A,45.1,9.1,120\nB,45.2,9.3,240\nC,45.4,9.2,900\n"


pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.mark.parametrize(
    ("header", "coordinates"),
    [
        ("name,latitude,longitude,height", ["latitude", "longitude"]),
        ("name,Latitude (deg),Longitude [deg],Height (m)", ["Latitude (deg)", "Longitude [deg]"]),
        ("name,easting,northing,height", ["easting", "northing", "height"]),
    ],
)
def test_data_info_recognizes_a_table_of_sites(
    command: Command, header: str, coordinates: list[str]
) -> None:
    Path("sites.csv").write_text(f"{header}\n{NUMBERS}")
    (facts,) = json.loads(check_success(command("data", "info", "sites.csv", "--format", "json")))[
        "files"
    ]
    assert (facts["form"], facts["stations"]) == ("sites", ["A", "B", "C"])
    assert facts["coordinates"] == coordinates
    assert facts["questions"] == []


def test_new_command_reads_heights_as_coordinates_only_if_named(command: Command) -> None:
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    Path("r.csv").write_text("time,A,B,C\n0,1,2,3\n1,2,3,1\n2,3,1,2\n")
    assert "not read: 'height'; to use them" in check_success(command("data", "info", "sites.csv"))
    new = "campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv"
    problem = sensor_field("r.csv", "sites.csv")
    text = (
        "latitude and longitude as km north and east of the centre; "
        "'height' of the table of sites not read"
    )
    for said in (check_success(command(*new)), str(problem)):
        assert text in said
    with Campaign.open("c.db") as campaign:
        assert campaign.domain.dimension == problem.domain.dimension == 2
    Path("c.toml").write_text(
        '[domain]\nsites = "sites.csv"\ncoordinates = ["latitude", "longitude", "height"]\n'
        '[policy]\nname = "frugal-gp-ucb"\n'
    )
    said = check_success(command("campaign", "new", "d.db", "--config", "c.toml"))
    assert "'height' as a further coordinate: 1 of its unit counts like 1 km" in said
    with Campaign.open("d.db") as campaign:
        assert campaign.domain.X[:, 2].tolist() == [120.0, 240.0, 900.0]


def test_new_command_reads_no_words_beside_degrees_as_coordinates(command: Command) -> None:
    Path("sites.csv").write_text(
        "station_no,station_name,river,latitude,longitude\n"
        "0101,Upper Mill,Aach,47.1,9.1\n0102,Bridge,Rotach,47.2,9.3\n0103,Weir,Rotach,47.4,9.2\n"
    )
    (facts,) = json.loads(check_success(command("data", "info", "sites.csv", "--format", "json")))[
        "files"
    ]
    assert (facts["words"], facts["others"]) == (["station_name", "river"], [])
    new = "campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv"
    assert "'river', 'station_name' of the table of sites not read" in check_success(command(*new))
    with Campaign.open("c.db") as campaign:
        assert campaign.names.sites == ["0101", "0102", "0103"]
        assert campaign.domain.dimension == 2


@pytest.mark.parametrize("heading", ["station_no", "code"])
def test_new_command_reads_ids_of_digits_as_names_of_sites(command: Command, heading: str) -> None:
    Path("sites.csv").write_text(f"{heading},latitude,longitude\n0101,47.1,9.1\n0102,47.2,9.3\n")
    new = "campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv"
    check_success(command(*new))
    with Campaign.open("c.db") as campaign:
        assert campaign.names.sites == ["0101", "0102"]
        assert campaign.domain.dimension == 2


def test_new_command_requires_coordinates_for_words_beside_lengths(command: Command) -> None:
    Path("sites.csv").write_text("site,east,north,soil\nA,1,2,clay\nB,3,4,sand\n")
    new = "campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv"
    said = command(*new)
    assert said.status == 2
    assert "'soil'" in said.err
    assert "[domain] coordinates" in said.err
    assert not Path("c.db").exists()


def test_new_command_with_coordinates_keeps_the_names_of_sites(command: Command) -> None:
    Path("sites.csv").write_text("probe,east,north,soil\nP1,1,2,clay\nP2,3,4,sand\n")
    Path("c.toml").write_text(
        '[domain]\nsites = "sites.csv"\ncoordinates = ["east", "north"]\n'
        '[policy]\nname = "frugal-gp-ucb"\n'
    )
    check_success(command("campaign", "new", "c.db", "--config", "c.toml"))
    with Campaign.open("c.db") as campaign:
        assert campaign.names.sites == ["P1", "P2"]


def test_data_info_tell_and_sensor_field_name_quality_flags(command: Command) -> None:
    rows = [f"{s},2026-01-01 {h:02d}:00,{h}.5,{'suspect' if h == 3 else 'good'}"
            for s in ("A", "B") for h in range(8)]  # fmt: skip
    Path("r.csv").write_text("\n".join(["gauge_no,time,value,quality", *rows]) + "\n")
    Path("sites.csv").write_text("gauge_no,latitude,longitude\nA,47.1,9.1\nB,47.2,9.3\n")
    (facts,) = json.loads(check_success(command("data", "info", "r.csv", "--format", "json")))[
        "files"
    ]
    assert (facts["form"], facts["stations"]) == ("long", ["A", "B"])
    remedy = "--keep quality=good keeps these alone"
    assert facts["flags"] == f"column quality (good 14, suspect 2; {remedy})"
    check_success(command("campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv",
                 "--clock", "1h"))  # fmt: skip
    assert "quality (good 14, suspect 2; " in check_success(
        command("campaign", "tell", "c.db", "--csv", "r.csv")
    )
    assert "quality (good 14, suspect 2; " in str(sensor_field("r.csv", "sites.csv"))


def test_data_info_counts_averaged_readings_of_a_wide_table(command: Command) -> None:
    rows = [f"2026-01-01 {h:02d}:00,{h}.5,{h % 3}.5,{h % 5}.5" for h in range(8)]
    Path("r.csv").write_text("\n".join(["time,A,B,C", *rows, rows[2]]) + "\n")
    assert "  3 readings averaged with others" in check_success(command("data", "info", "r.csv"))


def test_data_info_asks_about_a_column_of_words(command: Command) -> None:
    Path("r.csv").write_text("standort,kind,time,value\n7,W,2026-01-01,1.5\n8,W,2026-01-01,2.5\n")
    (facts,) = json.loads(check_success(command("data", "info", "r.csv", "--format", "json")))[
        "files"
    ]
    (question,) = facts["questions"]
    assert "--station" in question
    assert "--without kind" in question


def test_data_info_shows_the_shares_of_empty_cells_and_absent_times(command: Command) -> None:
    rows = [f"2024-01-01 {hour:02d}:00,{'' if hour % 2 else hour},1.5" for hour in range(20)]
    Path("r.csv").write_text("\n".join(["time,A,B", *rows[:5], *rows[6:]]) + "\n")
    said = check_success(command("data", "info", "r.csv"))
    assert "a step of 1h; 5.0% of all steps have no row" in said
    assert "no reading: 'empty' 9 times, 23.7% of the cells" in said


HOUR = "the hour of '2024-10-27 02:00' comes twice, as where summer time ends"


@pytest.mark.parametrize("form", ["long", "wide"])
def test_commands_and_sensor_field_name_an_hour_repeated_after_summer_time(
    command: Command, form: str
) -> None:
    hours = pd.date_range("2024-10-25", "2024-10-29", freq="h", tz="Europe/Berlin")
    local = hours.tz_localize(None)
    table = pd.DataFrame({each: np.sin(local.hour + i) for i, each in enumerate("ABC")}, local)
    table = table.round(3).rename_axis("time")
    if form == "long":
        table = table.reset_index().melt("time", var_name="gauge", value_name="level")
    table.to_csv("r.csv", index=form == "wide")
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    new = ("--policy", "adaptive-gp-ucb", "--sites", "sites.csv", "--clock", "1h")
    said = [
        check_success(command("data", "info", "r.csv")),
        check_success(command("campaign", "new", "c.db", *new, "--history", "r.csv")),
        str(sensor_field("r.csv", "sites.csv")),
    ]
    for text in said:
        assert "3 readings averaged with others of the same site and time" in text
        assert HOUR in text
        assert "offset from UTC" in text


def test_describe_averages_names_no_summer_time_for_other_repeated_times() -> None:
    hours = pd.date_range("2024-10-25", "2024-10-29", freq="h")
    rows = pd.DataFrame({"time": hours, "station": "A"})
    for again in ("2024-10-26 02:00", "2024-10-27 14:00", "2024-06-30 02:00"):
        more = pd.DataFrame({"time": [pd.Timestamp(again)] * 2, "station": "A"})
        text = describe_averages(pd.concat([rows, more]))
        assert "averaged" in text
        assert "summer time" not in text
    assert "summer time" not in describe_averages(pd.concat([rows, rows]))
    assert describe_averages(rows) == ""
    numbers = pd.DataFrame({"time": [1.0, 1.0, 2.0], "station": "A"})
    assert describe_averages(numbers) == "1 reading averaged with others of the same site and time"


HOURS = pd.date_range("2024-03-04", periods=30, freq="h")
LEVELS = pd.DataFrame({each: np.cos(np.arange(30.0) + i) for i, each in enumerate("ABC")}).round(3)


@pytest.mark.parametrize(
    "form", ["%d-%b-%Y %H:%M", "%d%b%Y %H:%M", "%B %d, %Y %I:%M %p", "%d. März %Y %H:%M"]
)
def test_sensor_field_reads_dates_with_the_month_as_a_word(form: str) -> None:
    LEVELS.assign(time=[f"{t:{form}}" for t in HOURS]).to_csv("r.csv", index=False, sep="|")
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    problem = sensor_field("r.csv", "sites.csv")
    np.testing.assert_array_equal(problem.values, LEVELS)
    assert "2024-03-04 00:00:00 to 2024-03-05 05:00:00" in str(problem)


@pytest.mark.parametrize("text", ["4 Foo 2024", "Ju 4, 2024", "Mar 42024", "Hall May 2024"])
def test_to_iso_date_leaves_other_words_unchanged(text: str) -> None:
    assert to_iso_date(text) == text
    assert not is_date_text(text)


@pytest.mark.parametrize(
    ("unit", "origin", "says"),
    [
        ("1s", "1970-01-01", "seconds since 1970, from 2024-03-04 00:00: then say --dates s"),
        ("1ms", "1970-01-01", "milliseconds since 1970, from 2024-03-04 00:00"),
        ("1D", "1899-12-30", "days as spreadsheets count them, from 2024-03-04 00:00"),
        ("1h", "2024-01-01", ""),
    ],
)
def test_commands_note_times_that_may_count_from_a_date(
    command: Command, unit: str, origin: str, says: str
) -> None:
    numbers = (HOURS - pd.Timestamp(origin)) / pd.Timedelta(unit)
    LEVELS.set_index(numbers).rename_axis("time").to_csv("r.csv")
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    new = ("--policy", "adaptive-gp-ucb", "--sites", "sites.csv", "--history", "r.csv")
    for said in (
        check_success(command("data", "info", "r.csv")),
        check_success(command("campaign", "new", "c.db", *new)),
    ):
        assert ("note: the times may be" in said) == bool(says)
        assert says in said


def test_data_info_names_the_accepted_separators(command: Command) -> None:
    lines = [f"{t:%Y-%m-%dT%H:%M}  {i}  {i + 1}" for i, t in enumerate(HOURS)]
    Path("r.txt").write_text("\n".join(["Time A B", *lines]) + "\n")
    says = "separated by commas, semicolons, tabs or vertical bars"
    assert says in command("data", "info", "r.txt").out


@pytest.mark.parametrize(
    ("date", "clocks"),
    [
        ("%Y-%m-%d", [f"{t.hour * 100}" for t in HOURS]),
        ("%Y%m%d", [f"{t.hour * 100:04d}" for t in HOURS]),
        ("%Y%m%d", [f"{t.hour}" for t in HOURS]),
        ("%d.%m.%Y", [f"{t:%H:%M}" for t in HOURS]),
    ],
)
def test_sensor_field_reads_hours_in_a_column_beside_the_date(date: str, clocks: list[str]) -> None:
    dates = [f"{t:{date}}" for t in HOURS]
    table = pd.concat([pd.DataFrame({"date": dates, "hour": clocks}), LEVELS], axis=1)
    table.to_csv("r.csv", index=False)
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    problem = sensor_field("r.csv", "sites.csv")
    np.testing.assert_array_equal(problem.values, LEVELS)
    assert "2024-03-04 00:00:00 to 2024-03-05 05:00:00" in str(problem)


def test_sensor_field_reads_hour_24_as_the_end_of_the_day() -> None:
    clocks = [f"{(t.hour + 1) * 100:04d}" for t in HOURS]
    table = pd.DataFrame({"date": [f"{t:%Y-%m-%d}" for t in HOURS], "time": clocks})
    pd.concat([table, LEVELS], axis=1).to_csv("r.csv", index=False)
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    text = str(sensor_field("r.csv", "sites.csv"))
    assert "2024-03-04 01:00:00 to 2024-03-05 06:00:00 (30 steps)" in text


@pytest.mark.parametrize("other", ["mg/m3", "µg/m³"])
def test_commands_refuse_several_units_but_accept_spellings_of_one(
    command: Command, other: str
) -> None:
    rows = [
        f"{name},{t:%Y-%m-%d %H:%M},{i}.5,{'ug/m3' if name != 'C' else other}"
        for i, t in enumerate(HOURS)
        for name in "ABC"
    ]
    Path("r.csv").write_text("\n".join(["station,time,value,unit", *rows]) + "\n", encoding="utf-8")
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    new = ("campaign", "new", "c.db", "--policy", "adaptive-gp-ucb", "--sites", "sites.csv")
    says = "several units (60 in ug/m3, 30 in mg/m3)"
    info = command("data", "info", "r.csv")
    history = command(*new, "--clock", "1h", "--history", "r.csv")
    if other == "mg/m3":
        assert says in info.out
        assert says in history.err
        without = command(*new, "--clock", "1h", "--history", "r.csv", "--without", "C")
        assert without.status == 0
    else:
        assert "several units" not in info.out
        assert history.status == 0


def test_data_info_names_a_second_column_of_times(command: Command) -> None:
    local = [f"{t:%Y-%m-%d %H:%M}" for t in HOURS + pd.Timedelta("1h")]
    utc = [f"{t:%Y-%m-%d %H:%M}" for t in HOURS]
    pd.concat([pd.DataFrame({"time_local": local, "time_utc": utc}), LEVELS], axis=1).to_csv(
        "r.csv", index=False
    )
    assert "column time_utc has dates" in command("data", "info", "r.csv").out
    said = check_success(
        command("data", "info", "r.csv", "--time", "time_utc", "--without", "time_local")
    )
    assert "2024-03-04 00:00:00 to 2024-03-05 05:00:00" in said


def test_commands_note_a_time_far_from_all_others(command: Command) -> None:
    times = [f"{t:%Y-%m-%d %H:%M}" for t in HOURS]
    for early, says in ((True, True), (False, False)):
        written = [*times[:7], "1970-01-01 00:00" if early else times[7], *times[8:]]
        LEVELS.assign(time=written)[["time", *"ABC"]].to_csv("r.csv", index=False)
        Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
        new = ("--policy", "adaptive-gp-ucb", "--sites", "sites.csv", "--clock", "1h")
        for said in (
            check_success(command("data", "info", "r.csv")),
            check_success(command("campaign", "new", f"{early}.db", *new, "--history", "r.csv")),
        ):
            doubt = "1 time is far from all others, such as 1970-01-01 00:00:00: is that right?"
            assert (f"note: {doubt}" in said) == says
        Path("campaign.toml").unlink()

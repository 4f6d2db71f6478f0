"""What `data info` says of tables of sites, of heights in them, and of gaps in readings."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import Command, fine
from tvbandits import Campaign

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
def test_a_table_of_names_and_numbers_is_a_table_of_sites(
    command: Command, header: str, coordinates: list[str]
) -> None:
    Path("sites.csv").write_text(f"{header}\n{NUMBERS}")
    (facts,) = json.loads(fine(command("data", "info", "sites.csv", "--format", "json")))["files"]
    assert (facts["form"], facts["stations"]) == ("sites", ["A", "B", "C"])
    assert facts["coordinates"] == coordinates
    assert facts["questions"] == []


def test_the_height_of_a_site_is_said_to_be_a_coordinate(command: Command) -> None:
    Path("sites.csv").write_text(f"name,latitude,longitude,height\n{NUMBERS}")
    assert "not read: 'height'; a campaign takes" in fine(command("data", "info", "sites.csv"))
    new = "campaign", "new", "c.db", "--policy", "frugal-gp-ucb", "--sites", "sites.csv"
    said = fine(command(*new))
    assert "'height' as a further coordinate: 1 of its unit counts like 1 km" in said
    with Campaign.open("c.db") as campaign:
        assert campaign.domain.dimension == 3


def test_empty_cells_are_a_share_of_all_beside_times_without_a_row(command: Command) -> None:
    rows = [f"2024-01-01 {hour:02d}:00,{'' if hour % 2 else hour},1.5" for hour in range(20)]
    Path("r.csv").write_text("\n".join(["time,A,B", *rows[:5], *rows[6:]]) + "\n")
    said = fine(command("data", "info", "r.csv"))
    assert "a step of 1h, of which 5.0% have no row" in said
    assert "no reading: 'empty' 9 times, 23.7% of the cells" in said

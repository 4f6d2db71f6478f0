"""Which columns are degrees: by their headings in several languages, by an option, or in doubt."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import Command, check_success
from tvbandits.datasets import FileOptions, sensor_field
from tvbandits.datasets.sensor_field import describe_degrees_doubt, kilometres
from tvbandits.datasets.tables.headings import find_latitude_and_longitude

LAT, LON = np.array([45.1, 45.2, 45.4]), np.array([9.1, 9.3, 9.2])
VALUES = pd.DataFrame({"hour": range(4), "A": 1.0, "B": [1.0, 2, 3, 4], "C": 0.5})


pytestmark = pytest.mark.usefixtures("empty_folder")


def sites(latitude: str, longitude: str) -> pd.DataFrame:
    return pd.DataFrame({"name": ["A", "B", "C"], longitude: LON, latitude: LAT})


@pytest.mark.parametrize(
    ("latitude", "longitude"),
    [
        ("Breite", "Länge"),
        ("Geogr. Breite", "Geogr. Länge"),
        ("Breitengrad", "Längengrad"),
        ("latitud", "longitud"),
        ("Latitudine", "Longitudine"),
        ("breedtegraad", "lengtegraad"),
        ("szerokość geograficzna", "długość geograficzna"),
        ("zeměpisná šířka", "zeměpisná délka"),
        ("Широта", "Долгота"),
        ("γεωγραφικό πλάτος", "γεωγραφικό μήκος"),
        ("lat_wgs84", "lon_wgs84"),
        ("geo_lat", "geo_lng"),
        ("stationLatitude", "stationLongitude"),
        ("Latitude (DD)", "Longitude (DD)"),
    ],
)
def test_find_latitude_and_longitude_reads_headings_in_several_languages(
    latitude: str, longitude: str
) -> None:
    assert find_latitude_and_longitude(["name", longitude, latitude]) == (latitude, longitude)
    problem = sensor_field(VALUES, sites(latitude, longitude))
    np.testing.assert_array_equal(problem.points, kilometres(LAT, LON))


@pytest.mark.parametrize("columns", [["Länge", "Höhe"], ["lat_error", "lon_error"], ["plate", "a"]])
def test_find_latitude_and_longitude_ignores_headings_of_other_meaning(columns: list[str]) -> None:
    assert find_latitude_and_longitude(columns) == (None, None)


@pytest.mark.parametrize(
    ("latitude", "longitude"), [("y_coord", "x_coord"), ("y", "x"), ("a", "b")]
)
def test_sensor_field_and_data_info_name_the_option_for_possible_degrees(
    command: Command, latitude: str, longitude: str
) -> None:
    sites(latitude, longitude).to_csv("sites.csv", index=False)
    VALUES.to_csv("values.csv", index=False)
    doubt = f"degrees='({latitude}.{longitude}|{longitude}.{latitude})'"
    with pytest.warns(UserWarning, match=doubt):
        sensor_field("values.csv", "sites.csv")
    said = check_success(command("data", "info", "sites.csv"))
    assert "note: " in said
    assert "--degrees" in said
    option = f"{latitude}+{longitude}"
    (facts,) = json.loads(
        check_success(command("data", "info", "sites.csv", "--degrees", option, "--format", "json"))
    )["files"]
    assert facts["coordinates"] == ["latitude", "longitude"]
    assert facts["notes"] == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = sensor_field("values.csv", "sites.csv", options=FileOptions(degrees=option))
        np.testing.assert_array_equal(problem.points, kilometres(LAT, LON))
        flat = sensor_field("values.csv", "sites.csv", options=FileOptions(degrees="none"))
        assert {*flat.points[:, 0]} <= {*LAT, *LON}


def test_sensor_field_reads_lengths_if_the_option_excludes_degrees() -> None:
    options = FileOptions(degrees="none")
    table = sites("Breite", "Länge")
    np.testing.assert_array_equal(
        sensor_field(VALUES, table, options=options).points, np.column_stack([LON, LAT])
    )
    with pytest.raises(
        ValueError, match=r"degrees='north\+x'\) must name two columns.*name, Länge"
    ):
        sensor_field(VALUES, table, options=FileOptions(degrees="north+x"))


def test_describe_degrees_doubt_is_empty_for_lengths_of_a_plane() -> None:
    plane = pd.DataFrame({"x": [0.0, 1.0, 40.0], "y": [3.0, 0.0, 7.0]})
    assert not describe_degrees_doubt(plane)
    assert not describe_degrees_doubt(plane.set_axis(["a", "b"], axis=1))
    plane += 0.25
    assert not describe_degrees_doubt(plane)
    assert not describe_degrees_doubt(plane.set_axis(["easting", "northing"], axis=1))
    assert not describe_degrees_doubt(
        plane.assign(x=[4.5e5, 4.6e5, 4.7e5]).set_axis(["a", "b"], axis=1)
    )


def test_campaign_new_warns_of_coordinates_that_may_be_degrees(command: Command) -> None:
    sites("y_coord", "x_coord").to_csv("sites.csv", index=False)
    new = ("campaign", "new", "c.db", "--policy", "gp-ucb", "--sites", "sites.csv")
    with pytest.warns(UserWarning, match="say --degrees"):
        command(*new)
    Path("campaign.toml").unlink()
    said = command(*new[:2], "d.db", *new[3:], "--degrees", "y_coord+x_coord")
    assert "km north and east" in said.out

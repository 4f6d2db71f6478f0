"""Stations of a table that are silent, stand still or stand out, and the option that leaves them out."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import Command, check_success
from tvbandits.datasets import FileOptions, sensor_field
from tvbandits.datasets.tables.rounds import STUCK_ROUNDS, Rounds, doubts_about_stations

NAMES = [*"ABCDEFGH"]
SITES = pd.DataFrame({"name": NAMES, "x": range(8), "y": [0, 1] * 4})


def network(hours: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    wave = np.sin(np.arange(hours) / 5)[:, None] + rng.normal(0, 0.1, 8)
    table = pd.DataFrame(wave + 0.05 * rng.standard_normal((hours, 8)), columns=NAMES)
    return table.set_axis(pd.date_range("2024-01-01", periods=hours, freq="1h", name="time"))


def faults() -> pd.DataFrame:
    table = network()
    table.iloc[-10:, 1] = np.nan
    table.iloc[-20:, 3] = 0.7
    table["G"] += 9.0
    return table


pytestmark = pytest.mark.usefixtures("empty_folder")


def test_doubts_about_stations_is_empty_without_faults() -> None:
    assert doubts_about_stations(network()) == []


def test_doubts_about_stations_names_each_faulty_station_with_a_remedy() -> None:
    silent, still, off = doubts_about_stations(faults().assign(E=network()["E"]))
    assert silent == (
        "B has no reading in the last 10 times at which others were read: "
        "FileOptions(without=['B']) leaves it out"
    )
    assert still.startswith("D stands still: its last 20 readings are equal")
    assert off.startswith("G is usually +")
    empty = doubts_about_stations(network().assign(H=np.nan))
    assert empty == ["H has no reading at all: FileOptions(without=['H']) leaves it out"]


def test_doubts_about_stations_names_the_times_of_a_long_repetition() -> None:
    table = network(120)
    table.iloc[30:60, 3] = 0.7
    table.iloc[40, 3] = np.nan  # a gap does not end it
    (text,) = doubts_about_stations(table)
    assert text == (
        "D repeats 0.7 in 30 rounds, 2024-01-02 06:00:00 to 2024-01-03 11:00:00, is that right?: "
        "FileOptions(without=['D']) leaves it out"
    )
    assert doubts_about_stations(table.assign(D=table["D"].where(table["D"] != 0.7))) == []


def test_doubts_about_stations_ignores_usual_values_and_common_repetitions() -> None:
    night = network(240)
    night[:] = np.where((np.arange(240) % 24 < 9)[:, None], 0.0, night)
    night.iloc[100:140, 2] = 0.0  # a dark day
    assert doubts_about_stations(night) == []
    calm = network(120)
    calm.iloc[30:60, :4] = 0.0
    assert doubts_about_stations(calm) == []


def test_doubts_about_stations_rarely_names_a_sound_station_of_few() -> None:
    rng, found = np.random.default_rng(1), 0
    for _ in range(300):
        levels = rng.standard_normal(5)
        found += len(
            doubts_about_stations(pd.DataFrame(levels + 0.01 * rng.standard_normal((20, 5))))
        )
    assert found <= 12  # without the correction for few places 24


def test_rounds_find_no_stuck_station_in_dry_nights_or_usual_steps() -> None:
    rain = network()
    rain.iloc[-STUCK_ROUNDS:] = 0.0  # a dry night
    assert not Rounds.of_table(rain).stuck.any()
    steps = network()
    steps["A"] = np.repeat(np.arange(4.0), 15)  # it always goes by steps
    assert not Rounds.of_table(steps).stuck.any()


@pytest.mark.parametrize("long", [False, True])
def test_data_info_and_sensor_field_name_faulty_stations_unless_excluded(
    command: Command, long: bool
) -> None:
    table = faults()
    wide = table.reset_index()
    (wide.melt("time", var_name="station") if long else wide).to_csv("r.csv", index=False)
    (facts,) = json.loads(check_success(command("data", "info", "r.csv", "--format", "json")))[
        "files"
    ]
    assert [each.split()[0] for each in facts["notes"]] == ["B", "D", "G"]
    assert "note: B has no reading" in check_success(command("data", "info", "r.csv"))
    with pytest.warns(UserWarning, match="^B has .* D stands .* G is usually") as caught:
        sensor_field("r.csv", SITES)
    assert len(caught) == 1
    problem = sensor_field("r.csv", SITES, options=FileOptions(without=["B", "D", "G"]))
    assert problem.labels == ("A", "C", "E", "F", "H")
    flags = [word for each in "BDG" for word in ("--without", each)]
    said = check_success(command("data", "info", "r.csv", *flags))
    assert "note" not in said
    assert "--without B --without D --without G" in said


@pytest.mark.parametrize("long", [False, True])
def test_sensor_field_refuses_to_exclude_an_absent_station(long: bool) -> None:
    wide = network().reset_index()
    table = wide.melt("time", var_name="station") if long else wide
    with pytest.raises(
        ValueError, match=r"without=\['Z'\]\): there is no such station; there are: A, B"
    ):
        sensor_field(table, SITES, options=FileOptions(without=["Z"]))


def test_data_info_proposes_no_step_that_averages_most_readings_away(command: Command) -> None:
    rows = ["01/13/2026 1:00 AM,1,2,3", "01/13/2026 9:00 AM,2,3,4", "01/19/2026 1:00 PM,3,4,5"]
    Path("ampm.csv").write_text("time,A,B,C\n" + "\n".join(rows) + "\n")
    (facts,) = json.loads(check_success(command("data", "info", "ampm.csv", "--format", "json")))[
        "files"
    ]
    assert facts["step"] == "6h"
    assert "7D" not in check_success(command("data", "info", "ampm.csv"))


def test_sensor_field_reports_irregular_steps_unless_every_is_given() -> None:
    times = pd.Timestamp("2026-01-01") + pd.to_timedelta([0, 70, 100, 1500], unit="min")
    values = pd.DataFrame(np.arange(8.0).reshape(4, 2), index=times, columns=["A", "B"])
    text = "a step is a row, 0 days 00:30:00 to 0 days 23:20:00 after the last: every="
    assert text in sensor_field(values, SITES).summary
    assert "every=" not in sensor_field(values, SITES, every="1D").summary
    even = values.set_axis(pd.date_range("2026-01-01", periods=4, freq="1h"), axis=0)
    assert "every=" not in sensor_field(even, SITES).summary

"""The ozone field and its problem: on small files written here, and on real ones where present."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.ozone_samples import PLACES, Reading, airdata, csv, field, of_site
from tests.places import DATA
from tvbandits.core.protocols import Problem
from tvbandits.datasets.epa_ozone.problem import OzoneField, load_ozone, ozone
from tvbandits.datasets.tables.sensor_field import kilometres

REAL = DATA / "ozone"


@pytest.fixture
def reference(tmp_path: Path) -> OzoneField:
    return load_ozone(csv(tmp_path / "reference.csv", airdata(field())))


def test_field_is_the_mean_over_instruments(reference: OzoneField) -> None:
    readings = field()
    assert list(reference.sites["site"]) == sorted(PLACES)
    for column, site in enumerate(sorted(PLACES)):
        for row, day in enumerate(reference.dates.strftime("%Y-%m-%d")):
            levels = [y for s, _, d, y in readings if (s, d) == (site, day)]
            assert reference.values[row, column] == np.mean(levels)
    assert reference.filled == 0
    assert list(reference.sites["name"]) == [PLACES[site][2] for site in sorted(PLACES)]


# --- completeness and gaps


def partial_days(site: str, count: int) -> list[Reading]:
    days = pd.date_range("2008-01-01", periods=8).strftime("%Y-%m-%d")
    return of_site(site, dict.fromkeys(days[:count], 10.0))


def test_three_quarters_of_the_days_is_enough(tmp_path: Path) -> None:
    albany, bronx, leonia, north = PLACES
    counts = {albany: 8, bronx: 6, leonia: 5, north: 7}
    path = csv(
        tmp_path / "a.csv", airdata([r for s, n in counts.items() for r in partial_days(s, n)])
    )
    kept = load_ozone(path)
    assert list(kept.sites["site"]) == sorted([albany, bronx, north])
    assert list(kept.sites["completeness"]) == [7 / 8, 1.0, 6 / 8]
    assert kept.filled == 3
    assert kept.filled_fraction == 3 / 24
    assert str(kept) == (
        "3 sites, 2008-01-01 to 2008-01-08 (8 days), 3 of 24 values filled in (12.5%)"
    )
    assert list(load_ozone(path, sites=2).sites["site"]) == sorted([albany, north])
    assert len(load_ozone(path, min_completeness=0.0).sites) == 4
    with pytest.raises(ValueError, match=r"sites=4 asked for, but 3 of 4 sites .* 0\.75 of"):
        load_ozone(path, sites=4)
    # Over a longer range the same readings are fewer.
    with pytest.raises(ValueError, match=r"sites=all asked for, but 0 of 4 sites .* on 0\.5\)"):
        load_ozone(path, end="2008-01-16")


def test_of_equally_complete_sites_the_lower_id_is_kept(tmp_path: Path) -> None:
    readings = [r for site in PLACES for r in partial_days(site, 8)]
    kept = load_ozone(csv(tmp_path / "a.csv", airdata(readings[::-1])), sites=2)
    assert list(kept.sites["site"]) == ["01-073-0023", "34-003-0006"]


def test_ties_among_many_sites(tmp_path: Path) -> None:
    one = airdata(partial_days("36-001-0012", 8))
    many = [one.assign(**{"Site Num": f"{k:04d}"}, Latitude=40 + k / 100) for k in range(80)]
    # Every fourth site lacks a day, and is chosen after all the others.
    rows = pd.concat([site.iloc[int(k % 4 == 0) :] for k, site in enumerate(many)])
    path = csv(tmp_path / "many.csv", rows.sample(frac=1, random_state=2))
    complete = [f"36-001-{k:04d}" for k in range(80) if k % 4]
    assert list(load_ozone(path, sites=30).sites["site"]) == complete[:30]
    assert list(load_ozone(path, sites=62).sites["site"]) == sorted(
        [*complete, "36-001-0000", "36-001-0004"]
    )


def test_gaps_are_filled_linearly_and_ends_with_the_nearest_reading(tmp_path: Path) -> None:
    albany, bronx, *_ = PLACES
    holes = {"2008-02-28": 10.0, "2008-03-02": 40.0}  # the 29th lies between: a leap year
    whole = dict.fromkeys(pd.date_range("2008-02-26", "2008-03-03").strftime("%Y-%m-%d"), 1.0)
    path = csv(tmp_path / "a.csv", airdata(of_site(albany, holes) + of_site(bronx, whole)))
    filled = load_ozone(path, min_completeness=0.25)
    np.testing.assert_allclose(filled.values[:, 0], [10, 10, 10, 20, 30, 40, 40], rtol=1e-15)
    assert filled.filled == 5


def test_readings_without_a_level_are_gaps(tmp_path: Path) -> None:
    frame = airdata(partial_days("36-001-0012", 8))
    frame.loc[2, "1st Max Value"] = np.nan
    assert load_ozone(csv(tmp_path / "a.csv", frame)).filled == 1


# --- filters


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"state": "new york"}, ["36-001-0012", "36-005-0110"]),
        ({"state": "36"}, ["36-001-0012", "36-005-0110"]),
        ({"state": "1"}, ["01-073-0023"]),
        ({"cbsa": "york-newark"}, ["34-003-0006", "36-005-0110"]),
        ({"cbsa": "newark", "state": "New Jersey"}, ["34-003-0006"]),
    ],
)
def test_filters_of_place(
    filters: dict[str, str], expected: list[str], reference: OzoneField, tmp_path: Path
) -> None:
    kept = load_ozone(
        tmp_path / "reference.csv", state=filters.get("state"), cbsa=filters.get("cbsa")
    )
    assert list(kept.sites["site"]) == expected
    columns = np.isin(reference.sites["site"], expected)
    np.testing.assert_array_equal(kept.values, reference.values[:, columns])


def test_first_and_last_day_are_included(reference: OzoneField, tmp_path: Path) -> None:
    kept = load_ozone(tmp_path / "reference.csv", start="2008-01-30", end="2008-02-02")
    np.testing.assert_array_equal(kept.values, reference.values[1:5])
    assert len(load_ozone(tmp_path / "reference.csv", start="2008-02-01").dates) == 3


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"state": "Utah"}, r"state=Utah has no rows; the files hold 'Alabama \(01\)', 'New Jer"),
        ({"cbsa": "Boston"}, r"cbsa=Boston has no rows; there are 'Albany, NY', 'New York-N"),
        ({"state": "01", "cbsa": "x"}, r"cbsa=x has no rows; there are no names of areas"),
        ({"start": "2009-01-01"}, r"no rows; the rows run from 2008-01-29 to 2008-02-03"),
        ({"start": "2008-02-02", "end": "2008-02-01"}, r"start must not be after end, got start="),
        ({"start": "2/1/2008"}, r"start must be a day like 2008-01-31, got '2/1/2008'"),
        ({"end": "soon"}, r"end must be a day like 2008-01-31, got 'soon'"),
        ({"sites": 0}, r"sites must be a whole number of at least 1, got 0"),
        ({"min_completeness": 75}, r"min_completeness must lie in .0, 1., got 75"),
    ],
)
@pytest.mark.usefixtures("reference")
def test_filters_that_cannot_be_used(
    filters: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        load_ozone(tmp_path / "reference.csv", **filters)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_sites_need_places_of_their_own(tmp_path: Path) -> None:
    crowded = airdata(field()).assign(Latitude=40.0, Longitude=-74.0)
    with pytest.raises(ValueError, match="sites stand at the same place as others: '01-073-0023'"):
        load_ozone(csv(tmp_path / "a.csv", crowded))
    lost = airdata(field()).assign(Latitude=np.nan)
    with pytest.raises(ValueError, match="site 01-073-0023 has no latitude or longitude"):
        load_ozone(csv(tmp_path / "a.csv", lost))


# --- the problem


def test_kilometres_against_the_great_circle() -> None:
    albany, bronx = np.radians([(42.68, -73.76), (40.82, -73.90)])
    cosine = np.sin(albany[0]) * np.sin(bronx[0]) + np.cos(albany[0]) * np.cos(bronx[0]) * np.cos(
        albany[1] - bronx[1]
    )
    points = kilometres(np.array([42.68, 40.82]), np.array([-73.76, -73.90]))
    assert np.hypot(*(points[0] - points[1])) == pytest.approx(6371.0088 * np.arccos(cosine), 1e-3)
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-9)
    assert (points[0] > points[1]).all()  # Albany lies north, and a little east


def test_problem_of_a_file(reference: OzoneField, tmp_path: Path) -> None:
    problem = ozone(tmp_path / "reference.csv", noise_variance=2.5)
    assert isinstance(problem, Problem)
    assert (problem.name, problem.unit, problem.noise_variance) == ("ozone", "ppb", 2.5)
    assert problem.kernel is None
    assert problem.labels == tuple(sorted(PLACES))
    assert str(problem) == f"ozone: {reference.summary}"
    assert problem.realise(7) is problem
    np.testing.assert_array_equal(
        problem.value(problem.domain.X[::-1], 3), reference.values[2][::-1]
    )


# --- real files


def real(*names: str) -> list[Path]:
    paths = [REAL / name for name in names]
    for path in paths:
        if not path.is_file():
            pytest.skip(f"EPA file not here: {path.name} (looked for in {path.parent})")
    return paths


def test_new_york_2008_2009() -> None:
    files = real("daily_ozone_2008.csv", "daily_ozone_2009.csv")
    loaded = load_ozone(files, sites=28)
    assert loaded.values.shape == (731, 28)
    assert loaded.filled == 275
    assert (f"{loaded.dates[0]:%F}", f"{loaded.dates[-1]:%F}") == ("2008-01-01", "2009-12-31")
    np.testing.assert_array_equal(
        np.round(loaded.problem().references(), 2), [12.67, 8.47, 6.18, 5.38]
    )


def test_new_york_2020_as_downloaded() -> None:
    loaded = load_ozone(real("ad_viz_plotval_data_NY_2020.csv"), state="36")
    assert loaded.values.shape == (365, 27)
    assert loaded.sites["site"].iloc[0] == "36-001-0012"
    # First row of the file: 2/1/2020, Loudonville, 0.019 ppm.
    assert loaded.values[list(loaded.dates).index(pd.Timestamp("2020-02-01")), 0] == 19.0


def test_one_state_of_the_whole_us_zip() -> None:
    loaded = load_ozone(real("daily_44201_2021.zip"), state="New York")
    assert loaded.values.shape == (273, 29)
    assert set(loaded.sites["state"]) == {"New York"}
    assert loaded.values.min() >= 0
    assert loaded.values.max() < 150

"""The ozone field and its problem: on small files written here, and on real ones where present."""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.helpers.ozone_samples import (
    PLACES,
    Reading,
    airdata,
    assert_same_problem,
    csv,
    download,
    field,
    readings_at_site,
    snake,
)
from tests.helpers.refusals import assert_refused
from tests.places import DATA
from tvbandits.datasets.epa_ozone.benchmark import ozone
from tvbandits.datasets.epa_ozone.simulated import OzoneField, ozone_network
from tvbandits.datasets.sensor_field import kilometres
from tvbandits.datasets.table_problem import TableProblem
from tvbandits.domains.problem import Problem
from tvbandits.validation import Array

REAL = DATA / "ozone"


@pytest.fixture
def reference(tmp_path: Path) -> TableProblem:
    return ozone(csv(tmp_path / "reference.csv", airdata(field())))


def test_ozone_averages_instruments_of_a_site(reference: TableProblem) -> None:
    readings = field()
    days = sorted({day for _, _, day, _ in readings})
    assert list(reference.labels) == sorted(PLACES)
    for column, site in enumerate(sorted(PLACES)):
        for row, day in enumerate(days):
            levels = [y for s, _, d, y in readings if (s, d) == (site, day)]
            assert reference.values[row, column] == np.mean(levels)
    assert reference.summary.endswith("(6 days), 0 of 24 values filled in (0.0%)")


# --- completeness and gaps


def partial_days(site: str, count: int) -> list[Reading]:
    days = pd.date_range("2008-01-01", periods=8).strftime("%Y-%m-%d")
    return readings_at_site(site, dict.fromkeys(days[:count], 10.0))


def test_ozone_keeps_sites_with_three_quarters_of_the_days(tmp_path: Path) -> None:
    albany, bronx, leonia, north = PLACES
    counts = {albany: 8, bronx: 6, leonia: 5, north: 7}
    path = csv(
        tmp_path / "a.csv", airdata([r for s, n in counts.items() for r in partial_days(s, n)])
    )
    kept = ozone(path)
    assert list(kept.labels) == sorted([albany, bronx, north])
    assert kept.summary == (
        "3 sites, 2008-01-01 to 2008-01-08 (8 days), 3 of 24 values filled in (12.5%)"
    )
    assert list(ozone(path, sites=2).labels) == sorted([albany, north])
    assert_refused(
        ValueError, r"3 of 4 sites .* 0\.75 of .*; expected 4 or more", ozone, path, sites=4
    )


def test_ozone_breaks_ties_among_many_sites_by_name(tmp_path: Path) -> None:
    one = airdata(partial_days("36-001-0012", 8))
    many = [one.assign(**{"Site Num": f"{k:04d}"}, Latitude=40 + k / 100) for k in range(80)]
    # Every fourth site lacks a day, and is chosen after all the others.
    rows = pd.concat([site.iloc[int(k % 4 == 0) :] for k, site in enumerate(many)])
    path = csv(tmp_path / "many.csv", rows.sample(frac=1, random_state=2))
    complete = [f"36-001-{k:04d}" for k in range(80) if k % 4]
    assert list(ozone(path, sites=30).labels) == complete[:30]
    assert list(ozone(path, sites=62).labels) == sorted([*complete, "36-001-0000", "36-001-0004"])


def test_ozone_treats_readings_without_a_level_as_gaps(tmp_path: Path) -> None:
    frame = airdata(partial_days("36-001-0012", 8))
    frame.loc[2, "1st Max Value"] = np.nan
    assert "1 of 8 values" in ozone(csv(tmp_path / "a.csv", frame)).summary


# --- filters


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"state": "new york"}, ["36-001-0012", "36-005-0110"]),
        ({"state": "36"}, ["36-001-0012", "36-005-0110"]),
        ({"state": "1"}, ["01-073-0023"]),
    ],
)
def test_ozone_selects_sites_by_state(
    filters: dict[str, str], expected: list[str], reference: TableProblem, tmp_path: Path
) -> None:
    kept = ozone(tmp_path / "reference.csv", state=filters["state"])
    assert list(kept.labels) == expected
    columns = np.isin(reference.labels, expected)
    np.testing.assert_array_equal(kept.values, reference.values[:, columns])


def test_ozone_includes_the_first_and_last_day(reference: TableProblem, tmp_path: Path) -> None:
    kept = ozone(tmp_path / "reference.csv", start="2008-01-30", end="2008-02-02")
    np.testing.assert_array_equal(kept.values, reference.values[1:5])
    assert ozone(tmp_path / "reference.csv", start="2008-02-01").horizon == 3


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (
            {"state": "Utah"},
            r"state=Utah has no rows; the files contain the states 'Alabama \(01\)', 'New Jer",
        ),
        ({"start": "2009-01-01"}, r"no reading lies between .*: times are 2008-01-29"),
        ({"start": "2008-02-02", "end": "2008-02-01"}, r"no reading lies between start=2008-02-02"),
        ({"end": "soon"}, r"end must be a date such as 2008-01-31, got 'soon'"),
        ({"noise_variance": None}, r"noise_variance must be .*, got None"),
        ({"sites": 0}, r"sites must be a whole number of at least 1, got 0"),
    ],
)
@pytest.mark.usefixtures("reference")
def test_ozone_refuses_invalid_filters(
    filters: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        ozone(tmp_path / "reference.csv", **filters)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_ozone_refuses_sites_without_a_place_of_their_own(tmp_path: Path) -> None:
    crowded = airdata(field()).assign(Latitude=40.0, Longitude=-74.0)
    with pytest.raises(ValueError, match="'01-073-0023'"):
        ozone(csv(tmp_path / "a.csv", crowded))
    lost = airdata(field()).assign(Latitude=np.nan)
    with pytest.raises(ValueError, match="01-073-0023"):
        ozone(csv(tmp_path / "a.csv", lost))


# --- the problem


def test_kilometres_match_the_great_circle() -> None:
    (a, albany), (b, bronx) = np.radians([(42.68, -73.76), (40.82, -73.90)])
    cosine = np.sin(a) * np.sin(b) + np.cos(a) * np.cos(b) * np.cos(albany - bronx)
    for longitude in ([-73.76, -73.90], [0.04, 359.90], [-179.96, 179.90]):  # as far apart
        points = kilometres(np.array([42.68, 40.82]), np.array(longitude))
        distance = 6371.0088 * np.arccos(cosine)
        assert np.hypot(*(points[0] - points[1])) == pytest.approx(distance, 1e-3)
        np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-9)
        assert (points[0] > points[1]).all()  # Albany lies north, and a little east


def test_ozone_returns_a_problem_with_name_unit_and_labels(
    reference: TableProblem, tmp_path: Path
) -> None:
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


def test_ozone_reproduces_the_references_of_new_york_2008_2009() -> None:
    loaded = ozone(real("daily_ozone_2008.csv", "daily_ozone_2009.csv"), sites=28)
    assert loaded.values.shape == (731, 28)
    assert "2008-01-01 to 2009-12-31 (731 days), 275 of" in loaded.summary
    np.testing.assert_array_equal(np.round(loaded.references()[:4], 2), [12.67, 8.47, 6.18, 5.38])


# --- every form of the EPA files gives one table; every file of another kind is named


@pytest.mark.parametrize(
    "frame",
    [
        snake(field()),
        airdata(field(), "Parts per billion"),
        download(field()),
        download(field(), "ppb"),
        download(field()).rename(
            columns={
                "UNITS": "Units",
                "Site Name": "Local Site Name",
                "CBSA_NAME": "CBSA Name",
                "STATE": "State",
                "SITE_LATITUDE": "Site Latitude",
                "SITE_LONGITUDE": "Site Longitude",
            }
        ),
        download(field()).rename(columns={"Site ID": "AQS_SITE_ID"}),
        airdata(field()).astype({"State Code": int, "County Code": int, "Site Num": int}),
        airdata(field()).sample(frac=1, random_state=1),
    ],
    ids=["snake", "ppb", "download", "download-ppb", "newer", "older", "no-zeros", "shuffled"],
)
def test_ozone_reads_every_form_of_the_epa_files(
    frame: pd.DataFrame, reference: TableProblem, tmp_path: Path
) -> None:
    assert_same_problem(ozone(csv(tmp_path / "other.csv", frame)), reference)


def test_ozone_reads_a_zip_as_its_csv(reference: TableProblem, tmp_path: Path) -> None:
    path = tmp_path / "daily.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "reference.csv", "daily_44201_2008.csv")
        archive.writestr("__MACOSX/._daily_44201_2008.csv", b"\x00\x05\x16\x07")
    assert_same_problem(ozone(path), reference)
    assert_same_problem(ozone(str(path)), reference)


def test_ozone_reads_a_byte_order_mark_and_foreign_letters(
    reference: TableProblem, tmp_path: Path
) -> None:
    path = tmp_path / "excel.csv"
    text = airdata(field()).to_csv(index=False).replace("MAIN", "PEÑA")
    path.write_bytes(text.encode("utf-8-sig"))
    assert_same_problem(ozone(path), reference)
    path.write_bytes(text.encode("latin-1"))
    assert_same_problem(ozone(path), reference)


def test_ozone_joins_files_and_counts_a_repeated_day_once(
    reference: TableProblem, tmp_path: Path
) -> None:
    early = csv(tmp_path / "a.csv", airdata([r for r in field() if r[2] < "2008-02-01"]))
    late = csv(tmp_path / "b.csv", download([r for r in field() if r[2] >= "2008-01-31"]))
    assert_same_problem(ozone([early, late]), reference)


def test_ozone_averages_rows_of_an_instrument_before_instruments(tmp_path: Path) -> None:
    one, other = "2008-01-01", "36-001-0012"
    readings = [(other, 1, one, 10.0), (other, 1, one, 20.0), (other, 2, one, 45.0)]
    frame = airdata(readings).assign(**{"Pollutant Standard": ["2008", "2015", "2015"]})
    assert ozone(csv(tmp_path / "a.csv", frame)).values.item() == 30.0


def test_ozone_reads_only_eight_hour_rows_of_ozone(reference: TableProblem, tmp_path: Path) -> None:
    higher = [(site, instrument, day, 2 * level) for site, instrument, day, level in field()]
    hourly = airdata(higher).assign(**{"Sample Duration": "1 HOUR"})
    other = airdata(field()).assign(
        **{"Parameter Code": "42602", "Units of Measure": "Parts per cow"}
    )
    mixed = pd.concat([hourly, airdata(field()), other])
    assert_same_problem(ozone(csv(tmp_path / "mixed.csv", mixed)), reference)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (airdata(field()).drop(columns=["Date Local", "POC"]), "missing: POC, Date Local$"),
        (download(field()).drop(columns="UNITS"), "not an EPA daily ozone file: .*missing: UNITS$"),
        (airdata(field()).head(0), "a header and no rows"),
        (airdata(field(), "Micrograms/cubic meter"), "units must be ppm or ppb, got 'Micrograms"),
        (airdata(field()).assign(**{"Parameter Code": "42602"}), "44201.*, but parameter '42602'"),
        (airdata(field()).assign(**{"Sample Duration": "1 HOUR"}), "but duration '1 HOUR'"),
        (airdata(field()).assign(**{"Date Local": "20080101"}), "dates must read .*got '20080101'"),
        (airdata(field()).assign(**{"Date Local": "9999-12-31"}), "to 2149, got '9999-12-31'"),
        (airdata(field()).assign(**{"1st Max Value": "high"}), "high"),
    ],
)
def test_ozone_refuses_a_file_of_another_kind_by_name(
    frame: pd.DataFrame, message: str, tmp_path: Path
) -> None:
    good = csv(tmp_path / "good.csv", airdata(field()))
    with pytest.raises(ValueError, match=rf"other\.csv: .*{message}") as error:
        ozone([good, csv(tmp_path / "other.csv", frame)])
    assert "\n" not in str(error.value)


def test_ozone_refuses_absent_or_unsuitable_files(tmp_path: Path) -> None:
    assert_refused(ValueError, r"nowhere\.csv: ", ozone, tmp_path / "nowhere.csv")
    assert_refused(ValueError, "files must", ozone, [])
    (tmp_path / "wide.csv").write_text("a," * 1_000_000)  # at once, not after hours
    assert_refused(ValueError, r"wide\.csv: at least 1000001 ", ozone, tmp_path / "wide.csv")
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("readme.txt", "no table here")
    with pytest.raises(ValueError, match=r"notes\.zip: .*'readme"):
        ozone(tmp_path / "notes.zip")


# --- the simulated ozone network: its statistics against those measured on a real field

SEEDS = range(6)


def lag_one(series: Array) -> float:
    """Correlation from one day to the next, pooled over columns."""
    centred = series - series.mean(axis=0)
    return float((centred[1:] * centred[:-1]).mean() / (centred**2).mean())


def statistics(problem: TableProblem) -> dict[str, float]:
    values = problem.values
    days, stations = values.shape
    daily, offset = values.mean(axis=1), values.mean(axis=0) - values.mean()
    angle = 2 * np.pi * np.arange(days) / 365.25
    seasons = np.column_stack([np.ones(days), np.cos(angle), np.sin(angle)])
    fit = np.linalg.lstsq(seasons, daily)[0]
    level = daily - seasons @ fit
    anomaly = values - daily[:, None] - offset
    departure = anomaly - seasons @ np.linalg.lstsq(seasons, anomaly)[0]
    distance = np.hypot(*(problem.points[:, None] - problem.points).T)
    pairs = np.triu_indices(stations, 1)
    correlation, apart = np.corrcoef(departure.T)[pairs], distance[pairs]
    return {
        "mean": float(fit[0]),
        "season": float(np.hypot(*fit[1:])),
        "level_sd": float(level.std()),
        "level_persistence": lag_one(level),
        "offset_sd": float(offset.std()),
        "anomaly_sd": float(anomaly.std()),
        "anomaly_persistence": lag_one(anomaly),
        "near": float(correlation[apart < 50].mean()),
        "far": float(correlation[apart > 400].mean()),
        **problem.references().averages,
    }


@pytest.fixture(scope="module")
def simulated() -> dict[str, float]:
    runs = [statistics(ozone_network(seed)) for seed in SEEDS]
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}


@pytest.mark.parametrize(
    ("statistic", "measured", "tolerance"),
    [
        ("mean", 35.9, 1.5),
        ("season", 11.1, 1.5),
        ("level_sd", 7.1, 0.7),
        ("level_persistence", 0.55, 0.06),
        ("offset_sd", 3.2, 0.4),
        ("anomaly_sd", 6.8, 0.7),
        ("anomaly_persistence", 0.42, 0.06),
        ("near", 0.6, 0.15),
        ("far", -0.27, 0.15),
        ("uniform", 12.67, 1.9),
        ("best_fixed", 8.47, 1.3),
        ("last_best", 6.18, 0.9),
    ],
)
def test_ozone_network_matches_statistics_of_the_real_field(
    statistic: str, measured: float, tolerance: float, simulated: dict[str, float]
) -> None:
    assert simulated[statistic] == pytest.approx(measured, abs=tolerance)


def test_ozone_network_has_shape_unit_and_floor_of_the_real_field() -> None:
    problem = ozone_network()
    assert isinstance(problem, Problem)
    assert problem.values.shape == (731, 28)
    assert (problem.unit, problem.horizon, problem.domain.dimension) == ("ppb", 731, 2)
    assert (problem.values >= OzoneField.floor).all()
    assert (problem.values == OzoneField.floor).mean() < 0.005
    assert len(problem.labels) == 28


def test_ozone_network_draws_only_the_weather_by_its_seed() -> None:
    problem = ozone_network(1, stations=12, days=4000)
    other = problem.realise(2)
    np.testing.assert_array_equal(problem.points, other.points)
    np.testing.assert_array_equal(other.values, ozone_network(2, stations=12, days=4000).values)
    np.testing.assert_array_equal(problem.realise(1).values, problem.values)
    assert np.abs(problem.values - other.values).mean() > 5.0
    # What sets the stations apart for good stays when the weather is averaged out.
    assert np.corrcoef(problem.values.mean(axis=0), other.values.mean(axis=0))[0, 1] > 0.95


def test_ozone_network_varies_as_much_on_the_first_day() -> None:
    runs = [ozone_network(seed, stations=4, days=2).values for seed in range(600)]
    first, second = np.array(runs).mean(axis=2).std(axis=0)
    assert first / second == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize(("stations", "days"), [(2, 1), (2, 2), (200, 3)])
def test_ozone_network_accepts_few_and_many_stations(stations: int, days: int) -> None:
    assert ozone_network(stations=stations, days=days).values.shape == (days, stations)

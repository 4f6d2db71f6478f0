"""What files are: every kind is known, and a file of no kind gets a clear line."""

from __future__ import annotations

import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from tests.helpers.ozone_samples import PLACES, airdata, csv, download, field, of_site
from tests.helpers.refusals import refused
from tvbandits import Answers
from tvbandits.datasets import describe, from_long, ozone
from tvbandits.datasets.description import _longest_run
from tvbandits.datasets.regression import ABALONE, CALIFORNIA
from tvbandits.experts import Recording


def facts(text: str) -> tuple[str, dict[str, str]]:
    """The first line, and the others by what they are about."""
    first, *lines = text.splitlines()
    return first, dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in lines)


# --- EPA files


@pytest.mark.parametrize("form", [airdata, download])
def test_ozone(form: Callable[..., pd.DataFrame], tmp_path: Path) -> None:
    readings = [r for r in field(8) if not (r[0].startswith("34") and r[2] > "2008-02-01")]
    gap = ("2008-01-31", "2008-02-01")
    readings = [r for r in readings if not (r[0].startswith("01") and r[2] in gap)]
    path = csv(tmp_path / "our file.csv", form(readings))
    first, found = facts(describe(path))
    assert first == f"{path}: EPA daily ozone"
    assert found["rows"] == f"{len(readings)} readings, 2008-01-29 to 2008-02-05 (8 days)"
    assert "New York" in found["states"]
    assert "(01)" in found["states"]
    assert found["sites"] == "4, 3 of them with readings on at least 75% of the days"
    assert found["most complete"] == (
        "36-001-0012 LOUDON 100.0%, 36-005-0110 IS 52 100.0%, 01-073-0023 NORTH 75.0%, "
        "34-003-0006 LEONIA 50.0%"
    )
    assert found["gaps"] == "8.3% of the days of those 3 sites; the longest is 2 days"
    assert found["use"] == f"tvbandits compare ozone --data '{path}'"
    assert len(ozone(path).labels) == 3


@given(arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 3))))
@settings(deadline=None)
def test_the_longest_gap(missing: np.ndarray) -> None:
    runs = [
        len(run) for column in missing.T for run in "".join("01"[int(m)] for m in column).split("0")
    ]
    assert _longest_run(missing) == max(runs)


def test_ozone_in_a_zip(tmp_path: Path) -> None:
    csv(tmp_path / "a.csv", airdata(field()))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.csv", "a.csv")
    text = describe(tmp_path / "a.csv")
    assert describe(tmp_path / "a.zip") == text.replace("a.csv", "a.zip")
    assert "0.0% of the days of those 4 sites; the longest is 0 days" in text


def test_ozone_that_is_too_thin(tmp_path: Path) -> None:
    albany, bronx, *_ = PLACES
    days = pd.date_range("2008-01-01", periods=8).strftime("%Y-%m-%d")
    rows = of_site(albany, dict.fromkeys(days, 1.0)) + of_site(bronx, dict.fromkeys(days[:3], 2.0))
    path = csv(tmp_path / "a.csv", airdata(rows))
    _, found = facts(describe(path))
    assert found["use"].endswith(
        "fewer than two sites are complete enough; try min_completeness=0.37"
    )
    assert len(ozone(path, min_completeness=0.37).labels) == 2


def test_many_sites_and_sites_at_one_place(tmp_path: Path) -> None:
    frame = airdata(of_site("36-001-0012", {"2008-01-01": 1.0, "2008-01-02": 2.0}))
    many = pd.concat(
        [frame.assign(**{"Site Num": f"{n:04}", "Latitude": 40 + n / 100}) for n in range(29)]
    )
    assert "use            tvbandits compare ozone:sites=28" in describe(
        csv(tmp_path / "m.csv", many)
    )
    both = csv(tmp_path / "b.csv", pd.concat([frame, frame.assign(**{"Site Num": "0099"})]))
    assert "caution        sites stand at the same place as others: '36-001-0012'" in describe(both)


# --- tables of a user's own network


def readings_table() -> pd.DataFrame:
    times = pd.date_range("2026-01-01", periods=8, freq="1h")
    table = pd.DataFrame({"time": times, "007": 1.5, "8": np.arange(8.0), "note": "x"})
    table.loc[:3, "8"] = np.nan
    return table


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_readings(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"r.{ending}"
    table = readings_table()
    table.to_parquet(path) if ending == "parquet" else table.to_csv(path, index=False)
    first, found = facts(describe(path))
    assert first == f"{path}: a table of readings, time x sensor"
    assert found == {
        "rows": "8, 2026-01-01 00:00:00 to 2026-01-01 07:00:00, usual step 1:00:00",
        "sensors": "2: '007', '8'",
        "readings": "75.0% are there; 1 sensors have one in at least 75% of the rows",
        "left out": "columns that hold no numbers: 'note'",
        "use": f"tvbandits compare sensor-field --data {path} --data SITES",
    }


def test_times_that_are_numbers(tmp_path: Path) -> None:
    table = readings_table().assign(time=np.arange(8.0) * 2)
    _, found = facts(describe(csv(tmp_path / "r.csv", table)))
    assert found["rows"] == "8, 0.0 to 14.0, usual step 2.0"
    # Numbers that go up and down are no times.
    with pytest.raises(ValueError, match=r"r\.csv: not a file that is known here; its columns are"):
        describe(csv(tmp_path / "r.csv", table.assign(time=[3, 1] * 4)))


def test_sites(tmp_path: Path) -> None:
    sites = pd.DataFrame(
        {"id": ["a", "b", "c"], "lat": [42.0, 42.0, None], "lon": [-73.0, -72, -71]}
    )
    path = csv(tmp_path / "s.csv", sites)
    first, found = facts(describe(path))
    assert first == f"{path}: a table of sites"
    east = 6371.0088 * np.radians(1) * np.cos(np.radians(42))
    assert found == {
        "sites": "2: 'a', 'b'",
        "coordinates": f"lat, lon; {east:.4g} x 0 km in all",
        "unit": "lat and lon as km north and east of the centre; a length scale is in km",
        "left out": "1 sites without coordinates",
        "use": f"tvbandits compare sensor-field --data READINGS --data {path}",
    }
    plane = csv(tmp_path / "p.csv", pd.DataFrame({"moteid": [1, 2], "x": [0, 3], "y": [1, 1]}))
    assert "x, y; 3 x 0 in all" in describe(plane)
    with pytest.raises(
        ValueError, match=r"p\.csv: sites stand at the same place as others: '1', '2'"
    ):
        describe(csv(tmp_path / "p.csv", pd.DataFrame({"id": [1, 2], "x": 0, "y": 1})))


def test_a_sensor_that_is_stuck(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(20, 3, (300, 4)), columns=["a", "b", "c", "dry"])
    table.loc[40:279, "b"] = 17.3  # 240 readings, two of them missing
    table.loc[[60, 61], "b"] = np.nan
    table.loc[100:122, "c"] = 17.3  # 23
    table["dry"] = 0.0
    table.loc[[5, 9], "dry"] = 1.0, 2.0
    table.insert(0, "time", pd.date_range("2026-01-01", periods=300, freq="h"))
    _, found = facts(describe(csv(tmp_path / "w.csv", table)))
    assert found["caution"] == (
        "identical readings in a row, as of a sensor that is stuck: 'b' 238"
    )


def test_a_long_table_says_how_to_widen_it(tmp_path: Path) -> None:
    long = pd.DataFrame(
        {"date": "2026-01-01", "time": "10:00", "moteid": [1, 2, 1], "value": [1.0, 2, 3]}
    )
    path = csv(tmp_path / "l.csv", long)
    first, found = facts(describe(path))
    assert first.endswith("a long table, with a row for each reading")
    assert found["rows"] == "3 readings of 2 sensors (moteid): '1', '2'"
    call = found["use"].partition("datasets.")[2]
    table = eval(call, {"from_long": from_long})
    assert table.to_numpy().tolist() == [[2.0, 2.0]]


# --- regression tables


@pytest.mark.parametrize("source", [ABALONE, CALIFORNIA], ids=lambda source: source.name)
def test_regression_tables(source: object, tmp_path: Path) -> None:
    assert source in (ABALONE, CALIFORNIA)
    columns = [*ABALONE.form.required] if source is ABALONE else [*CALIFORNIA.form.required]
    name = "abalone" if source is ABALONE else "california"
    table = pd.DataFrame({column: [1.0, 2.0, 3.0] for column in columns})
    if source is ABALONE:
        table["sex"] = ["M", "F", "I"]
    path = csv(tmp_path / "t.csv", table)
    first, found = facts(describe(path))
    assert first == f"{path}: the {name} table"
    assert found["rows"].startswith("3 rows, 0 of them merged")
    assert found["use"] == f"tvbandits compare {name} --data {path}"
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))}: \w+ must be .*, got '?oops"):
        describe(csv(path, table.assign(**{columns[0]: "oops"})))


# --- answers of an expert

ANSWERS = pd.DataFrame(
    {
        "question": [1, 1, 2, 3],
        "asked_at": ["2026-01-01T10:00:00", "2026-01-01T10:00:00", "2026-01-02T09:00:00", None],
        "x0": [0.0, 1.0, 0.0, 0.0],
        "x1": [0.0, 0.0, 0.0, 5.0],
        "t": [1.0, 1.0, 2.5, 4.0],
        "value": [3.0, None, -1.5, 2.0],
        "variance": [0.1, None, 0.2, 0.1],
        "cost": [1.0, 0.0, 1.0, 1.5],
    }
)
EXPECTED = {
    "rows": "4 answers, to 3 questions; 1 refused (without a value)",
    "points": "3 different ones of 2 coordinates",
    "time": "t from 1 to 4, asked from 2026-01-01T10:00:00 to 2026-01-02T09:00:00",
    "values": "-1.5 to 3, variance 0.1 to 0.2",
    "cost": "3.5 in all",
}


def test_answers(tmp_path: Path) -> None:
    for path in (csv(tmp_path / "a.csv", ANSWERS), tmp_path / "a.parquet"):
        if path.suffix == ".parquet":
            ANSWERS.to_parquet(path)
        first, found = facts(describe(path))
        assert first == f"{path}: answers of an expert"
        assert found == EXPECTED


class Known:
    def query(self, X: np.ndarray, t: float) -> Answers:  # noqa: ARG002
        return Answers(np.where(X[:, 0] > 0, np.nan, 3.0), 0.25, cost=1.5)


def test_a_recording(tmp_path: Path) -> None:
    with Recording(Known(), tmp_path / "a.db") as expert:
        assert "no answers yet" in describe(tmp_path / "a.db")
        for t in (1.0, 2.5):
            expert.query([[0.0, 0.0], [1.0, 0.0]], t)
    first, found = facts(describe(tmp_path / "a.db"))
    assert first.endswith("a.db: answers of an expert (SQLite)")
    assert found["rows"] == "4 answers, to 2 questions; 2 refused (without a value)"
    assert found["points"] == "2 different ones of 2 coordinates"
    assert found["time"].startswith("t from 1 to 2.5, asked from 2")
    assert (found["values"], found["cost"]) == ("3 to 3, variance 0.25 to 0.25", "3 in all")


def test_answers_without_the_extras(tmp_path: Path) -> None:
    bare = ANSWERS[["x0", "t", "value", "variance"]]
    _, found = facts(describe(csv(tmp_path / "a.csv", bare)))
    assert found["rows"] == "4 answers; 1 refused (without a value)"
    assert set(found) == {"rows", "points", "time", "values"}
    _, found = facts(describe(csv(tmp_path / "a.csv", bare.assign(value=None))))
    assert found["rows"] == "4 answers; 4 refused (without a value)"
    assert "values" not in found
    assert "no answers yet; points of 1 coord" in describe(csv(tmp_path / "a.csv", bare[:0]))
    with pytest.raises(ValueError, match=r"a\.csv: column t must hold finite numbers, got 'now'"):
        describe(csv(tmp_path / "a.csv", bare.assign(t="now")))


def test_logs_that_cannot_be(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        ANSWERS.to_sql("other", connection, index=False)
    refused(ValueError, r"b\.db: .* is no recording; it holds 'other'", describe, tmp_path / "b.db")
    (tmp_path / "d.db").write_bytes(b"SQLite format 3\0" + b"\1" * 200)
    with pytest.raises(ValueError, match=r"d\.db: a SQLite file that cannot be read"):
        describe(tmp_path / "d.db")


# --- files of no kind

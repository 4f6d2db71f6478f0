"""A user's own network as a problem: two tables in, one table without gaps out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from tests.helpers.refusals import assert_refused
from tvbandits import compare
from tvbandits.comparison.arguments import make_problem
from tvbandits.datasets import TableProblem, sensor_field
from tvbandits.datasets.sensor_field import kilometres
from tvbandits.datasets.tables.readings import parse_times, read_table
from tvbandits.domains.problem import Problem, get_added_noise
from tvbandits.experts import SimulatorExpert

SITES = pd.DataFrame({"id": ["7", "8", "9"], "x": [0.0, 1.0, 0.0], "y": [0.0, 0.0, 2.0]})
TIMES = pd.date_range("2026-01-01", periods=6, freq="10min")
VALUES = pd.DataFrame(np.arange(18.0).reshape(6, 3) ** 2, index=TIMES, columns=["7", "8", "9"])


def made(values: Any = VALUES, sites: Any = SITES, **more: Any) -> TableProblem:
    return sensor_field(values, sites, **{"noise_variance": 1.0, **more})


def test_sensor_field_returns_values_and_places_as_a_problem() -> None:
    problem = made(unit="°C", name="hall")
    assert isinstance(problem, Problem)
    np.testing.assert_array_equal(problem.values, VALUES.to_numpy())
    np.testing.assert_array_equal(problem.points, SITES[["x", "y"]])
    assert (problem.name, problem.unit, problem.noise_variance) == ("hall", "°C", 1.0)
    assert problem.labels == ("7", "8", "9")
    assert problem.summary == (
        "3 sensors, 2026-01-01 00:00:00 to 2026-01-01 00:50:00 (6 steps), "
        "0 of 18 values filled in (0.0%)"
    )


# --- where times and sensors are found


def as_first_column(values: pd.DataFrame) -> pd.DataFrame:
    return values.reset_index(names="when")


FORMS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "index": lambda v: v,
    "first column": as_first_column,
    "texts": lambda v: as_first_column(v).astype(str),
    "us": lambda v: v.set_axis(v.index.strftime("%m/%d/%Y %H:%M"), axis=0),
    "seconds, other zone": lambda v: v.set_axis(
        [f"{t - pd.Timedelta('5h'):%Y-%m-%dT%H:%M:%S}-05:00" for t in v.index], axis=0
    ),
    "zoned": lambda v: v.set_axis(v.index.tz_localize("UTC").tz_convert("America/New_York")),
    "datetimes": lambda v: as_first_column(v).astype({"when": object}),
    "whole numbers as names": lambda v: v.set_axis([7, 8, 9], axis=1),
    "floats as names": lambda v: v.set_axis([7.0, 8.0, 9.0], axis=1),
    "shuffled": lambda v: v.sample(frac=1, random_state=3),
    "doubled": lambda v: pd.concat([v - 1, v + 1]),
    "filtered": lambda v: as_first_column(pd.concat([v, v.set_axis(v.index + pd.Timedelta("1D"))]))[
        lambda f: f["when"] < "2026-01-02"
    ],
    "other columns": lambda v: v.assign(total="many", room=[None] * 6),
}


@pytest.mark.parametrize("form", FORMS)
def test_sensor_field_reads_every_form_of_the_same_table(form: str) -> None:
    problem = made(FORMS[form](VALUES))
    np.testing.assert_array_equal(problem.values, VALUES.to_numpy())
    assert problem.summary.startswith("3 sensors, 2026-01-01 00:00:00 to 2026-01-01 00:50:00 (6")


@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [
        ("2026-01-01 00:20", None, slice(2, None)),
        (None, "2026-01-01 00:20", slice(None, 3)),
        ("2026-01-01 00:15", "2026-01-01 00:30:00", slice(2, 4)),
        ("2026-01", "2026", slice(None)),
        (None, "01.01.2026", slice(None)),
        ("01/01/2026 00:20", None, slice(2, None)),
        (None, None, slice(None)),
    ],
)
def test_sensor_field_selects_times_from_start_to_end(
    start: str | None, end: str | None, rows: slice
) -> None:
    for table in (VALUES, VALUES[::-1]):
        problem = made(table, start=start, end=end)
        np.testing.assert_array_equal(problem.values, VALUES.to_numpy()[rows])
    numbered = VALUES.set_axis(np.arange(6.0), axis=0)
    np.testing.assert_array_equal(
        made(numbered, start="1", end="3.5").values, VALUES.to_numpy()[1:4]
    )


@pytest.mark.parametrize(
    ("numbers", "start", "end", "message"),
    [
        (False, "tomorrow", None, "start must .*'tomorrow'"),
        (True, "2026-01", None, "start must .*'2026-01'"),
        (False, None, pd.NaT, "end must .*NaT"),
        (False, 2026, None, "start must .*2026"),
        (False, "02/03/2026", None, "start: 02/03/2026 may be .*: write 2026-03-02 or 2026-02-03$"),
        (False, None, "2026\x1b[31m", "end must"),
        (False, "2027", None, "start=2027 .*end=None.* 2026"),
    ],
)
def test_sensor_field_refuses_an_invalid_start_or_end(
    numbers: bool, start: Any, end: Any, message: str
) -> None:
    table = VALUES.set_axis(np.arange(6.0), axis=0) if numbers else VALUES
    assert_refused(ValueError, message, made, table, start=start, end=end)


def test_parse_times_infers_day_or_month_first_from_the_column() -> None:
    days = ["02/03/2026", "03/31/2026 10:30", "03/02/2026 1:30 PM", "2026-12-31", "2026-12-31T10Z"]
    found = parse_times(days)
    first = ["2026-02-03 00:00:00", "2026-03-31 10:30:00", "2026-03-02 13:30:00"]
    assert [str(day) for day in found] == [*first, "2026-12-31 00:00:00", "2026-12-31 10:00:00"]
    assert str(parse_times(["02/03/2026", "31/03/2026"])[0]) == "2026-03-02 00:00:00"
    assert str(parse_times(["02-03-2026 24:00"], dates="day")[0]) == "2026-03-03 00:00:00"
    assert str(parse_times(["02/03/2026"], dates="month")[0]) == "2026-02-03 00:00:00"
    assert str(parse_times(["31.01.2026 10:30"])[0]) == "2026-01-31 10:30:00"  # with dots, the day
    assert_refused(
        ValueError, "02/03/2026 may be 2 March or 3 February: .*dates=", parse_times, days[:1]
    )
    assert_refused(ValueError, "03/31/2026", parse_times, [*days, "31/12/2026"])
    assert_refused(ValueError, r"dates='day'\): .* 03/31/2026", parse_times, days, dates="day")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_sensor_field_reads_files_of_a_german_spreadsheet(encoding: str, tmp_path: Path) -> None:
    names = ["Köln, Süd", "Gießen", "Lübeck"]
    values = VALUES.set_axis(names, axis=1) + 0.25
    values.index = values.index.strftime("%d.%m.%Y %H:%M:%S")
    sites = SITES.assign(id=names)
    files = [tmp_path / "values.csv", tmp_path / "sites.csv"]
    written = {"sep": ";", "decimal": ",", "encoding": encoding}
    values.to_csv(files[0], **written)
    sites.to_csv(files[1], index=False, **written)
    problem = made(*files)
    np.testing.assert_array_equal(problem.values, VALUES.to_numpy() + 0.25)
    assert problem.labels == tuple(names)


def test_read_table_takes_a_comma_within_a_quoted_number_for_a_decimal_comma(
    tmp_path: Path,
) -> None:
    path = tmp_path / "values.csv"
    path.write_text('time,a,b\n1,"1,5","a,5"\n', encoding="utf-8")
    assert [*read_table(path).iloc[0]] == ["1", "1.5", "a,5"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "tsv", "semicolons.csv"])
def test_sensor_field_reads_files_of_every_format(ending: str, tmp_path: Path) -> None:
    values, sites = tmp_path / f"values.{ending}", tmp_path / f"sites.{ending}"
    separator = {"tsv": "\t", "semicolons.csv": ";"}.get(ending, ",")
    if ending == "parquet":
        VALUES.to_parquet(values)
        SITES.to_parquet(sites)
    else:
        VALUES.to_csv(values, sep=separator)
        SITES.to_csv(sites, index=False, sep=separator)
    for one, other in ((values, sites), (str(values), str(sites))):
        np.testing.assert_array_equal(made(one, other).values, VALUES.to_numpy())
    text = "sensor-field:unit=K,noise_variance=2.0,every=20min"
    problem = make_problem(text, [values, sites], None)
    expected = made(every="20min")
    np.testing.assert_array_equal(problem.values, expected.values)
    np.testing.assert_array_equal(problem.points, expected.points)
    assert (problem.unit, problem.noise_variance) == ("K", 2.0)


def test_sensor_field_numbers_the_rows_of_a_table_without_times(tmp_path: Path) -> None:
    values = pd.DataFrame(VALUES.to_numpy(), columns=["7", "8", "9"])
    problem = made(values)
    np.testing.assert_array_equal(problem.values, VALUES.to_numpy())
    assert "0.0 to 5.0 (6 steps)" in problem.summary
    values.to_csv(tmp_path / "values.csv", index=False)
    np.testing.assert_array_equal(made(tmp_path / "values.csv").values, VALUES.to_numpy())


def test_sensor_field_reads_ids_from_the_first_column_or_index() -> None:
    numbers = SITES.assign(id=[7, 8, 9])
    for sites in (numbers, numbers.set_index("id"), SITES.rename(columns={"id": "whatever"})):
        np.testing.assert_array_equal(made(sites=sites).points, SITES[["x", "y"]])
    padded = made(sites=SITES.assign(id=["007", "8", "9"]))
    assert padded.labels == ("8", "9")
    assert "without coordinates: '7'; without readings: '007'" in padded.summary


# --- coordinates


def test_sensor_field_converts_degrees_to_kilometres() -> None:
    latitude, longitude = np.array([42.0, 42.1, 41.9]), np.array([-73.0, -73.2, -73.1])
    expected = kilometres(latitude, longitude)
    for names in (("latitude", "longitude"), ("Lat", "LNG"), ("SITE_LATITUDE", "Site Longitude")):
        sites = pd.DataFrame(
            {"id": [7, 8, 9], names[1]: longitude, "road": "A1", names[0]: latitude}
        )
        np.testing.assert_array_equal(made(sites=sites).points, expected)
    # The centre is that of the sensors that are kept.
    kept = made(VALUES[["7", "8"]], sites).points
    np.testing.assert_array_equal(kept, kilometres(latitude[:2], longitude[:2]))


def test_sensor_field_takes_coordinates_from_named_or_other_columns() -> None:
    sites = SITES.assign(z=[5.0, 6.0, 7.0], floor=[1, 2, 3])
    np.testing.assert_array_equal(made(sites=sites).points, sites[["x", "y", "z"]])
    unnamed = SITES.set_axis(["id", "a", "b"], axis=1)
    np.testing.assert_array_equal(made(sites=unnamed).points, unnamed[["a", "b"]])


SITES_THAT_CANNOT_BE = {
    "not unique": (SITES.assign(id=["7", "7", "9"]), "sites are given twice: '7'"),
    "no id": (SITES.assign(id=["7", None, "9"]), r"all have an id \(id\); row 2 has none"),
    "same place": (SITES.assign(x=0.0, y=[0.0, 0.0, 1.0]),
        "sites stand at the same place as others: '7', '8'"),
    "text": (SITES.assign(x=["0", "far", "1"]), "coordinate x must hold finite .* got 'far'"),
    "too few": (SITES[["id", "x"]], "columns of ids and 2 or 3 coordinates, got 3 rows of 'id'"),
    "no rows": (SITES[:0], "got 0 rows of"),
    "which": (SITES.set_axis(["id", "a", "b"], axis=1).assign(c=1, d=2),
        "which columns are coordinates. Leave 2 or 3 of 'a', 'b', 'c', 'd'"),
    "degrees": (SITES.rename(columns={"x": "lat", "y": "lon"}).assign(lat=[1.0, 91.0, 3.0]),
        "site 8: lat must .*91.0"),
    "no match": (SITES.assign(id=list("abc")), "values are of '7', '8', '9', .* of 'a', 'b', 'c'"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", SITES_THAT_CANNOT_BE)
def test_sensor_field_refuses_invalid_sites(wrong: str) -> None:
    sites, message = SITES_THAT_CANNOT_BE[wrong]
    assert_refused(ValueError, message, made, sites=sites)


def test_sensor_field_omits_a_site_without_coordinates() -> None:
    problem = made(sites=SITES.assign(x=[0.0, np.nan, 1.0]))
    assert problem.labels == ("7", "9")
    assert "without coordinates: '8'" in problem.summary


# --- gaps, and even times


def filled_plainly(times: list[float], cells: list[float]) -> list[float]:
    """Linear in time between readings, and the nearest reading at the ends."""
    known = [(t, y) for t, y in zip(times, cells, strict=True) if y == y]
    result = []
    for t in times:
        before = [each for each in known if each[0] <= t]
        after = [each for each in known if each[0] >= t]
        if not before or not after:
            result.append((before or [known[0]])[-1][1] if not after else after[0][1])
            continue
        (t0, y0), (t1, y1) = before[-1], after[0]
        result.append(y0 if t0 == t1 else y0 + (y1 - y0) * (t - t0) / (t1 - t0))
    return result


cells = st.lists(
    st.tuples(
        st.integers(0, 40), st.none() | st.integers(-98, 98), st.none() | st.integers(-98, 98)
    ),
    min_size=2,
    max_size=25,
    unique_by=lambda row: row[0],
).filter(lambda rows: all(any(row[k] is not None for row in rows) for k in (1, 2)))


@settings(deadline=None, max_examples=25)
@given(cells, st.booleans())
def test_sensor_field_fills_gaps_linearly_in_time(rows: list[tuple[Any, ...]], dates: bool) -> None:
    table = pd.DataFrame(rows, columns=["t", "7", "8"]).astype(float)
    if dates:
        table["t"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(table["t"], unit="min")
    problem = made(table, minimum_completeness=0.0)
    ordered = sorted(rows)
    for place in (0, 1):
        expected = filled_plainly(
            [float(row[0]) for row in ordered],
            [float("nan") if row[place + 1] is None else float(row[place + 1]) for row in ordered],
        )
        np.testing.assert_allclose(problem.values[:, place], expected, rtol=1e-12, atol=1e-10)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(-98, 98)), min_size=2, max_size=30),
    st.integers(1, 90),
    st.booleans(),
)
def test_sensor_field_averages_readings_of_each_even_step(
    rows: list[tuple[int, int]], width: int, dates: bool
) -> None:
    table = pd.DataFrame(rows, columns=["t", "7"]).astype(float)
    table["8"] = -table["7"]
    start = pd.Timestamp("2026-03-01")
    if dates:
        table["t"] = start + pd.to_timedelta(table["t"], unit="min")
    bins = [t // width for t, _ in rows]
    if len(set(bins)) == 1:
        return
    times = range(min(bins), max(bins) + 1)
    means = [
        float(np.mean([y for b, (_, y) in zip(bins, rows, strict=True) if b == k]))
        if k in bins
        else float("nan")
        for k in times
    ]
    problem = made(table, every=f"{width}min" if dates else str(width), minimum_completeness=0.0)
    expected = filled_plainly([float(k) for k in times], means)
    np.testing.assert_allclose(problem.values[:, 0], expected, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(problem.values[:, 1], -problem.values[:, 0])


def test_sensor_field_omits_sensors_with_too_few_readings() -> None:
    values = VALUES.copy()
    values.loc[TIMES[:2], "9"] = np.nan
    values.loc[TIMES[5], "7"] = np.nan
    problem = made(values)
    assert problem.labels == ("7", "8")
    assert problem.summary.endswith("1 of 12 values filled in (8.3%); with too few readings: '9'")
    assert made(values, minimum_completeness=4 / 6).labels == ("7", "8", "9")
    assert made(values.assign(**{"8": np.nan}), minimum_completeness=0.0).labels == ("7", "9")
    match = r"1 of 3 sensors .* at least 0.9 of the 6 steps .* in 1\)"
    assert_refused(ValueError, match, made, values, minimum_completeness=0.9)
    assert_refused(ValueError, r"lie in .0, 1., got 1\.5", made, minimum_completeness=1.5)


def test_sensor_field_reads_empty_cells_and_na_as_gaps(tmp_path: Path) -> None:
    text = VALUES.astype(str)
    text.iloc[0, 0], text.iloc[1, 1], text.iloc[2, 2] = "", "NA", "  "
    text.to_csv(tmp_path / "v.csv")
    assert "3 of 18 values filled in" in made(tmp_path / "v.csv").summary


def bad(place: tuple[int, int], value: object) -> pd.DataFrame:
    values = VALUES.astype(object)
    values.iloc[place] = value
    return values


VALUES_THAT_CANNOT_BE: dict[str, tuple[pd.DataFrame, dict[str, Any], str]] = {
    "text": (bad((1, 1), "off"), {}, "sensor 8 must hold finite numbers, got 'off'"),
    "infinite": (bad((1, 1), np.inf), {}, "sensor 8 must .*inf"),
    "time": (VALUES.set_axis(["1", *"23456"[:4], "noon"], axis=0), {}, "got 'noon'"),
    "both first": (VALUES.set_axis([*["12/31/2026"] * 5, "31/12/2026"], axis=0), {}, "31/12/2026"),
    "no time": (VALUES.set_axis([*TIMES[:5], pd.NaT]), {}, "time must be given .* in row 6"),
    "twice": (VALUES.set_axis(["7", "8", "8"], axis=1), {}, "more than one column: '8'"),
    "no rows": (VALUES[:0], {}, "no rows"),
    "one row": (VALUES[:1], {}, "must have at least two steps, got 1"),
    "every": (VALUES, {"every": "often"}, "every must be an interval such as 10min.* got 'often'"),
    "back": (VALUES, {"every": "-1h"}, "and positive, got '-1h'"),
    "never": (VALUES, {"every": "NaT"}, "and positive, got 'NaT'"),
    "no number": (VALUES.set_axis(np.arange(6.0), axis=0), {"every": "10min"},
        "every must be a number, as times are numbers, and positive, got '10min'"),
    "infinite steps": (VALUES.set_axis(np.arange(6.0), axis=0), {"every": "inf"},
        "and positive, got 'inf'"),
    "old": (VALUES.set_axis([pd.Timestamp("1970-01-01"), *TIMES[1:]], axis=0), {"every": "1s"},
        r"every=1s makes 1\.77e\+09 steps of 3 sensors, from 1970-01-01 .* times wrong"),
    "noise": (VALUES, {"noise_variance": 0.0}, "noise_variance must .*0"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", VALUES_THAT_CANNOT_BE)
def test_sensor_field_refuses_invalid_values(wrong: str) -> None:
    values, more, message = VALUES_THAT_CANNOT_BE[wrong]
    assert_refused(ValueError, message, made, values, **more)


# --- noise


def test_sensor_field_without_noise_variance_can_be_compared() -> None:
    table = pd.DataFrame(np.random.default_rng(1).standard_normal((40, 3)), columns=["7", "8", "9"])
    problem = made(table, noise_variance=None)
    assert problem.noise_variance is None
    rows = compare(problem, ["frugal-gp-ucb:queries_per_step=2", "sw-gp-ucb"], seeds=1, horizon=12)
    assert (rows["answered"].sum(), len(rows)) == (24, 24)


def test_simulator_expert_adds_no_noise_to_readings() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.standard_normal((50, 3)), columns=["7", "8", "9"])
    problem = made(table, noise_variance=None)
    X, t = problem.domain.X[:1], 3.0
    assert get_added_noise(problem) == 0.0
    said = SimulatorExpert(problem).query(X, t)
    assert said.values[0] == problem.value(X, t)[0]
    assert said.variance is None


# --- two files for the command line


def test_make_problem_refuses_a_sensor_field_without_two_files(tmp_path: Path) -> None:
    for files in ([], [tmp_path / "v.csv"]):
        match = f'"sensor-field" reads files: give 2 or more by --data FILE, got {len(files)}'
        assert_refused(ValueError, match, make_problem, "sensor-field", files, None)


def test_sensor_field_names_the_file_of_an_error(tmp_path: Path) -> None:
    one, other = tmp_path / "v.csv", tmp_path / "s.csv"
    VALUES.to_csv(one)
    for sites, match in (
        (SITES.assign(id=list("abc")), r"v\.csv: "),
        (SITES.assign(x=0.0, y=0.0), r"s\.csv: "),
        (SITES[["id", "x"]], r"s\.csv: "),
    ):
        sites.to_csv(other, index=False)
        assert_refused(ValueError, match, sensor_field, one, other)


HOURS = pd.date_range("2024-01-30", periods=40, freq="1h")
TABLE = pd.DataFrame(np.sin(np.arange(40)[:, None] / 5 + np.arange(3)), HOURS, list("abc"))
PLACES = pd.DataFrame({"id": ["a", "b", "c"], "x": [0.0, 1.0, 2.0], "y": 0.0})


def test_sensor_field_joins_tables_of_months_and_of_stations(tmp_path: Path) -> None:
    whole = sensor_field(TABLE, PLACES)
    for parts in ([TABLE[:15], TABLE[15:]], [TABLE[["a"]], TABLE[["c", "b"]]]):
        joined = sensor_field(parts, PLACES)
        assert sorted(joined.labels) == ["a", "b", "c"]
        order = [joined.labels.index(name) for name in whole.labels]
        np.testing.assert_array_equal(joined.values[:, order], whole.values)
    for name in "abc":
        TABLE[[name]].rename(columns={name: "PM10"}).rename_axis("t").to_csv(
            tmp_path / f"{name}.csv"
        )
    files = [tmp_path / f"{name}.csv" for name in "abc"]
    np.testing.assert_allclose(sensor_field(files, PLACES).values, whole.values)


def test_sensor_field_says_what_tables_of_one_network_have_twice() -> None:
    overlap = sensor_field([TABLE[:20], TABLE[18:]], PLACES)
    assert "6 readings averaged with those of another table" in overlap.summary


def test_sensor_field_refuses_tables_of_one_network_that_differ_in_kind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="times are dates in table 1 and numbers in table 2"):
        sensor_field([TABLE, TABLE.set_axis(range(40))], PLACES)
    zone = TABLE[20:].set_axis(TABLE.index[20:].tz_localize("UTC"))
    with pytest.raises(ValueError, match="an offset from UTC in table 2 and none in table 1"):
        sensor_field([TABLE[:20], zone], PLACES)
    for unit in ("ppb", "ppm"):
        rows = [f"{t},{s},{TABLE.at[t, s]},{unit}" for t in HOURS for s in "abc"]
        (tmp_path / unit).write_text("\n".join(["time,station,value,unit", *rows, ""]))
    with pytest.raises(ValueError, match=r"readings are in ppb in .*ppb and in ppm in .*ppm"):
        sensor_field([tmp_path / "ppb", tmp_path / "ppm"], PLACES)
    with pytest.raises(ValueError, match="is given twice"):
        sensor_field([tmp_path / "ppb", tmp_path / "ppb"], PLACES)

"""A problem for a user's own network of sensors, from tables of readings and of sites.

Coordinates in degrees are converted to kilometres, gaps are filled, and sites at the same place are an
error.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.datasets.table_problem import TableProblem
from tvbandits.datasets.tables.headings import (
    PLANE,
    describe_similar_names,
    find_latitude_and_longitude,
    is_length,
    simplify_heading,
)
from tvbandits.datasets.tables.layout import (
    NO_OPTIONS,
    FileOptions,
    columns_of_option,
    find_columns,
    move_index_to_column,
    options_of_sites,
    read_stations,
)
from tvbandits.datasets.tables.readings import (
    Source,
    TimeTable,
    as_ids,
    average_steps,
    join_tables,
    name_source_in_errors,
    parse_numbers,
    pivot_by_time,
    quote_few,
    read_source,
    read_table,
    select_times,
)
from tvbandits.datasets.tables.rounds import doubts_about_stations, find_step
from tvbandits.datasets.tables.sentinels import check_sentinels, describe_isolated_values
from tvbandits.domains.problem import NamedProblem
from tvbandits.option_text import format_option
from tvbandits.validation import Array, check_instance, finite_number


def kilometres(latitude: Array, longitude: Array, radius: float = 6371.0088) -> Array:
    """Return kilometres (A, 2) east and north of the mean position, by the equirectangular projection.

    Latitudes and longitudes are degrees, shape (A,), and `radius` is the mean radius of the earth. At
    the scale of a state, distances have an error of about one per cent. Longitudes may cross 180 or 360
    degrees.
    """
    longitude = np.unwrap(longitude, period=360.0)
    north = np.radians(latitude - latitude.mean())
    east = np.radians(longitude - longitude.mean()) * np.cos(np.radians(latitude.mean()))
    return radius * np.column_stack([east, north])


def check_places(ids: pd.Series[str], places: pd.DataFrame) -> None:
    """Raise a `ValueError` if a site lacks a coordinate, or has the same place as another site.

    Parameters
    ----------
    ids : Series of A str
        Names of the sites.
    places : DataFrame of A rows
        Coordinates of the sites, one in each column.
    """
    is_incomplete = places.isna().any(axis=1)
    if is_incomplete.any():
        coordinates = " or ".join(str(column) for column in places.columns)
        raise ValueError(f"site {ids[is_incomplete].iloc[0]} has no {coordinates}")
    is_repeated = places.duplicated(keep=False)
    if is_repeated.any():
        raise ValueError(f"sites stand at the same place as others: {quote_few(ids[is_repeated])}")


def find_complete_columns(
    readings: pd.DataFrame, fraction: float, fewest: int, subject: str
) -> pd.Series[float]:
    """Return the fractions of rows with readings of the columns where these are large enough.

    Raises
    ------
    ValueError
        If fewer than `fewest` columns have readings in at least `fraction` of the rows.
    """
    fractions = readings.notna().mean()
    complete = fractions[(fractions >= fraction) & (fractions > 0)]
    if len(complete) < fewest:
        raise ValueError(
            f"{len(complete)} of {len(fractions)} {subject} have readings in at least {fraction:.4g} of "
            f"the {len(readings)} steps from {readings.index[0]} to {readings.index[-1]} (the most "
            f"complete in {fractions.max():.4g}); expected {fewest} or more"
        )
    return complete


def describe_gaps(table: pd.DataFrame) -> str:
    """Return a text with the number of gaps in a table, which are filled."""
    gaps = int(table.isna().to_numpy().sum())
    return f"{gaps} of {table.size} values filled in ({gaps / table.size:.1%})"


def sensor_field(
    values: Source | Sequence[Source],
    sites: Source,
    *,
    unit: str = "",
    noise_variance: float | None = None,
    name: str = "sensor-field",
    minimum_completeness: float = 0.75,
    every: str | None = None,
    start: str | float | None = None,
    end: str | float | None = None,
    options: FileOptions = NO_OPTIONS,
) -> TableProblem:
    """Choose, step by step, the sensor with the highest reading.

    Rows are sorted by time, and those with the same time averaged. Gaps are interpolated linearly in
    time, and filled at the ends with the nearest reading. The summary of the problem names the sensors
    with too few readings, the sensors without coordinates, and the sites without readings, which are all
    left out. Ids of sensors are compared as texts: 7 and "7" are one sensor, "007" is another.

    Parameters
    ----------
    values : DataFrame or path, or a list of them
        Readings, in `unit`: a column for each sensor, whose heading is its id, with times as the index
        or in the first column; or a row for each reading, with columns of time, station and value. Times
        are numbers, or dates such as 2008-01-31 12:00 (with an offset, they are converted to UTC).
        Several tables of one network, such as one for each month or station, are a list. A table with
        one column of readings, which is no site, has those of the site with the name of its file.
    sites : DataFrame or path
        A row for each sensor: its id in the first column, and 2 or 3 coordinates. Both tables may be CSV
        or Parquet files. The table may also have a row for each reading, with latitude and longitude,
        such as `values` itself.
        Coordinates are latitude and longitude in degrees, which are converted to km east and north of
        the centre, or else x, y, z, or else all other columns, which are not converted. A warning names
        columns that may be degrees; `options.degrees` decides.
    unit : str
        Unit of a reading.
    noise_variance : float, optional
        Noise variance of a reading (unit squared), that of the instrument if you know it. None: each
        policy learns it.
    name : str
        The name of the problem in rows and pictures.
    minimum_completeness : float
        Keep sensors with readings in at least this fraction of the steps.
    every : str, optional
        Length of a step, "10min" or "1D" (a number if times are numbers), over which readings are
        averaged. None: each row is a step, of any length.
    start, end : str or float, optional
        First and last time: 2008-01-31, or 2008 for the whole year (numbers if times are numbers). None:
        the first and the last time of the readings.
    options : FileOptions, optional
        Decisions that the tables leave open, such as the parameter, or numbers that mean no reading.

    Raises
    ------
    ValueError
        If a table cannot be read, fewer than two sensors or two steps are left, or two sensors have the
        same place.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets import sensor_field
    >>> levels = pd.DataFrame({"hour": range(4), "a": [1.0, 2.0, None, 4.0], "b": [3.0, 3.0, 2.0, 1.0]})
    >>> sites = pd.DataFrame({"id": ["a", "b"], "x": [0.0, 1.0], "y": [0.0, 0.0]})
    >>> problem = sensor_field(levels, sites, noise_variance=0.01, unit="m")
    >>> print(problem.values)  # the gap is filled in time
    [[1. 3.]
     [2. 3.]
     [3. 2.]
     [4. 1.]]
    """
    finite_number("minimum_completeness", minimum_completeness, low=0.0, high=1.0)
    check_instance("options", options, FileOptions, "FileOptions(...)")
    places, unused = _read_sites(sites, options)
    sources: list[Any] = [*values] if isinstance(values, list | tuple) else [values]
    table, omitted, names = _read_tables(sources, places, sites, options)
    with name_source_in_errors(sources[0]) if len(sources) == 1 else nullcontext():
        numbers = select_times(table.cells, start, end)
        check_sentinels(numbers, options)
        readings = _complete_readings(numbers, every, minimum_completeness)
        doubts = (
            describe_similar_names(names)
            + doubts_about_stations(readings)
            + describe_isolated_values(numbers, options)
        )
        if doubts:
            warnings.warn("; ".join(doubts), UserWarning, stacklevel=2)
    with name_source_in_errors(sites):
        points = project_places(places.loc[readings.columns])
        warn_of_degrees(places, options)
    omissions = {
        "with too few readings": [
            sensor for sensor in table.cells.columns if sensor not in readings.columns
        ],
        "without coordinates": [sensor for sensor in names if sensor not in places.index],
        "without readings": [site for site in places.index if site not in names],
    }
    return TableProblem(
        readings.interpolate("index", limit_direction="both").to_numpy(float),
        points,
        name=name,
        unit=unit,
        noise_variance=noise_variance,
        added_noise=0.0,  # readings contain the noise of their instruments
        labels=tuple(readings.columns),
        summary=_summary(
            readings,
            omissions,
            f"left out: {', '.join(omitted)}" if omitted else "",
            f"not read: {table.flags}" if table.flags else "",
            table.averaged,
            "" if every is not None else _steps_text(readings.index),
            describe_conversions(places.columns, unused),
        ),
    )


def _read_tables(
    sources: Sequence[Source], places: pd.DataFrame, sites: Source, options: FileOptions
) -> tuple[TimeTable, list[str], list[str]]:
    """Return the readings of sites in all tables, what is left out, and all stations of the tables."""
    if not sources:
        raise ValueError("values must be a table or several, got none")
    tables, omitted, names = dict[str, TimeTable](), list[str](), list[str]()
    for number, source in enumerate(sources, 1):
        label = f"table {number}" if isinstance(source, pd.DataFrame) else str(source)
        if label in tables:
            raise ValueError(f"{label} is given twice: give each table of readings once")
        tables[label], notes, listed = _read_values(source, places, sites, options)
        omitted, names = [*omitted, *notes], [*names, *listed]
    return join_tables(tables), omitted, [*dict.fromkeys(names)]


def _read_values(
    source: Source, places: pd.DataFrame, sites: Source, options: FileOptions
) -> tuple[TimeTable, list[str], list[str]]:
    """Return the numbers of a table of readings of sites, what is left out, and all its stations."""
    sheet = read_source(source, "values", options)
    with name_source_in_errors(source):
        table = pivot_by_time(sheet.cells, places.index, options)
        cells = table.cells
        if not isinstance(source, pd.DataFrame) and cells.shape[1] == 1:
            name = Path(source).name.partition(".")[0]
            if cells.columns[0] not in places.index and name in places.index:
                cells = cells.set_axis([name], axis=1)
        numbers = parse_numbers(cells[_find_common(cells, places, sites)], options=options)
    flags = "; ".join(filter(None, (sheet.flags, table.flags)))
    return table._replace(cells=numbers, flags=flags), sheet.omissions, [*map(str, cells.columns)]


def _read_sites(sites: Source, options: FileOptions) -> tuple[pd.DataFrame, list[str]]:
    """Return the coordinates by id in a table of sites, and the columns of the table that are not used.

    The table may also be one of readings, of which no column counts as unused. `options` are those for
    the readings.
    """
    rows = read_table(sites, "sites", replace(options, header=None, keep=()))
    with name_source_in_errors(sites):
        site_options = options_of_sites(options, rows)
        places = read_places(rows, site_options)
        columns = select_places(move_index_to_column(rows), site_options).columns[1:]
    return places, [str(column) for column in columns if column not in places.columns]


def _find_common(table: pd.DataFrame, places: pd.DataFrame, sites: Source) -> list[str]:
    """Return the sensors with both readings and coordinates; raise a `ValueError` if there are none."""
    common = [sensor for sensor in table.columns if sensor in places.index]
    if not common:
        path = "" if isinstance(sites, pd.DataFrame) else f" ({sites})"
        raise ValueError(
            f"no sensor has both readings and coordinates: values are of {quote_few(table.columns)}, "
            f"coordinates of {quote_few(places.index)}{path}"
        )
    return common


def _complete_readings(numbers: pd.DataFrame, every: str | None, fraction: float) -> pd.DataFrame:
    """Return readings by step, of the sensors with readings in a large enough fraction of the steps."""
    readings = average_steps(numbers, every)
    try:
        sensors = find_complete_columns(readings, fraction, 2, "sensors with coordinates").index
    except ValueError as error:
        raise ValueError(f"{error}{_step_hint(numbers, every)}") from None
    if len(readings) < 2:
        raise ValueError(f"the readings must have at least two steps, got {len(readings)}")
    return readings[sensors]


def _step_hint(numbers: pd.DataFrame, every: str | None) -> str:
    """Return a hint at the step at which most sensors have readings, or "" if it is `every`."""
    if not isinstance(numbers.index, pd.DatetimeIndex):
        return ""
    rows = numbers.rename_axis("time").reset_index().melt("time").dropna()
    grid = find_step(rows["time"], rows["variable"])
    if grid is None or grid.step in ("", every):
        return ""
    return f"; with every={grid.step} they have {grid.share:.0%} of their readings"


def read_places(sites: pd.DataFrame, options: FileOptions = NO_OPTIONS) -> pd.DataFrame:
    """Return coordinates by id from a table of sites, as `sensor_field` describes it.

    Rows without a coordinate are left out. The table may also have a row for each reading of a station.

    Raises
    ------
    ValueError
        If columns are missing, ids are missing or not unique, or a coordinate is not a number.
    """
    table = select_places(move_index_to_column(sites), options)
    if not len(table) or len(table.columns) < 3:
        raise ValueError(
            "the table of sites must have rows, and columns of ids and 2 or 3 coordinates, got "
            f"{len(table)} rows of {quote_few(map(str, table.columns)) or 'nothing'}"
        )
    column = str(table.columns[0])
    ids = as_ids(table[column])
    if "" in ids:
        raise ValueError(f"sites must all have an id ({column}); row {ids.index('') + 1} has none")
    duplicates = [site for site, count in Counter(ids).items() if count > 1]
    if duplicates:
        raise ValueError(
            f"sites are given twice: {quote_few(duplicates)}; of a table of readings, name the columns "
            f"by {format_option('time', 'COLUMN')} and {format_option('station', 'COLUMN')}"
        )
    return parse_numbers(table[_coordinates(table)].set_axis(ids, axis=0), "coordinate").dropna()


def select_places(table: pd.DataFrame, options: FileOptions) -> pd.DataFrame:
    """Return station, latitude and longitude of each station in a table of readings.

    A table without columns of times and stations is returned unchanged.

    Raises
    ------
    ValueError
        If a station has two places, or several rows without places.
    """
    table, options = rename_degrees(table, options), replace(options, degrees=None)
    layout = find_columns(table, options)
    if not layout.is_long:
        return table
    if not layout.places:
        if read_stations(table, layout).duplicated().any():
            raise ValueError(
                "stations have several rows, and no latitude and longitude: name these columns by "
                f"{format_option('degrees', 'LAT+LON')}, or give the places in a table of their own"
            )
        return table
    rows = table[list(layout.places)].assign(station=read_stations(table, layout)).drop_duplicates()
    rows = rows[["station", *layout.places]]
    conflicts = rows[rows["station"].duplicated()]
    if len(conflicts):
        raise ValueError(
            f"station {conflicts['station'].iloc[0]} has two places in the table: give the places of "
            "the stations in a table of their own"
        )
    return rows.reset_index(drop=True)


def rename_degrees(table: pd.DataFrame, options: FileOptions) -> pd.DataFrame:
    """Return a table with the columns of the option `degrees` renamed to latitude and longitude.

    If the option is "none", columns with names of degrees are renamed to y and x.

    Raises
    ------
    ValueError
        If the option does not name two columns of the table.
    """
    if options.degrees is None:
        return table
    degrees = find_latitude_and_longitude(table.columns)
    if options.degrees.strip().lower() == "none":
        pairs = zip(degrees, ("y", "x"), strict=True)
        return table.rename(columns={name: other for name, other in pairs if name is not None})
    by_heading = {simplify_heading(name): name for name in reversed(table.columns)}
    columns = [
        by_heading.get(simplify_heading(name))
        for name in columns_of_option(options, "degrees", table.columns)
    ]
    if len(set(columns)) != 2 or None in columns:
        raise ValueError(
            f"{format_option('degrees', options.degrees)} must name two columns, LAT+LON, or be "
            f"none; there are: {', '.join(map(str, table.columns))}"
        )
    others = [name for name in degrees if name is not None and name not in columns]
    names = dict(zip(columns, ("latitude", "longitude"), strict=True))
    return table.drop(columns=others).rename(columns=names)


def describe_degrees_doubt(places: pd.DataFrame, options: FileOptions = NO_OPTIONS) -> str:
    """Return a sentence if coordinates that are used as lengths may be degrees, else an empty text.

    Integers are not degrees. If columns are called x and y, coordinates may be degrees only if the
    extent of the network is small compared with its distance from 0.
    """
    names = [str(column) for column in places.columns]
    if len(names) not in (2, 3) or options.degrees is not None or any(map(is_length, names)):
        return ""
    first, second = places.iloc[:, 0].to_numpy(float), places.iloc[:, 1].to_numpy(float)
    is_grid = bool((np.r_[first, second] % 1 == 0).all())
    if find_degrees(names) is not None or is_grid:
        return ""
    pairs = {f"{names[0]}+{names[1]}": (first, second), f"{names[1]}+{names[0]}": (second, first)}
    possible = [
        text
        for text, (latitude, longitude) in pairs.items()
        if np.abs(latitude).max() <= 90 and np.abs(longitude).max() <= 180
    ]
    is_small = min(np.hypot(first, second)) > 4 * np.hypot(np.ptp(first), np.ptp(second))
    if not possible or (not is_small and {simplify_heading(name) for name in names} <= PLANE):
        return ""
    # A first column x is probably the longitude; otherwise the first one is probably the latitude.
    text = possible[-1] if simplify_heading(names[0]).startswith(("x", "e", "lo")) else possible[0]
    return (
        f"{names[0]} and {names[1]} may be degrees, but are used as lengths, as they are: if they are "
        f"degrees, say {format_option('degrees', text)} (LAT+LON), and otherwise "
        f"{format_option('degrees', 'none')}"
    )


def warn_of_degrees(places: pd.DataFrame, options: FileOptions) -> None:
    """Warn if coordinates that are used as lengths may be degrees."""
    if doubt := describe_degrees_doubt(places, options):
        warnings.warn(doubt, UserWarning, stacklevel=3)


def _coordinates(table: pd.DataFrame) -> list[str]:
    """Return the columns of coordinates: degrees, or x, y and z, or all columns but the ids."""
    names = list(table.columns[1:])
    by_heading = {simplify_heading(name): name for name in names}
    columns = list(find_degrees(names) or ())
    if not columns and {"x", "y"} <= by_heading.keys():
        columns = [by_heading[name] for name in ("x", "y", "z") if name in by_heading]
    if not columns and len(names) not in (2, 3):
        raise ValueError(
            f"which columns are coordinates? Leave 2 or 3 of {quote_few(map(str, names))}, or call them "
            "latitude and longitude, or x and y; the sites are the second table"
        )
    return columns or names


def find_degrees(columns: Iterable[str]) -> tuple[str, str] | None:
    """Return the columns of latitude and longitude, by their names, or None if there are none.

    Raises
    ------
    ValueError
        If only one of them exists.
    """
    names = list(columns)
    latitude, longitude = find_latitude_and_longitude(names)
    if latitude is None and longitude is None:
        return None
    if latitude is None or longitude is None:
        present, missing = (latitude, "longitude") if longitude is None else (longitude, "latitude")
        raise ValueError(
            f'there is "{present}" but no {missing} among {quote_few(map(str, names))}'
        )
    return latitude, longitude


def describe_conversions(columns: Iterable[str], unused: Iterable[str] = ()) -> str:
    """Return a note on conversions of coordinates by `project_places`, and on unused columns, or ""."""
    names, parts = list(columns), []
    degrees = find_degrees(names)
    if degrees is not None:
        parts.append(f"{degrees[0]} and {degrees[1]} as km north and east of the centre")
        if others := [name for name in names if name not in degrees]:
            parts.append(
                f"{quote_few(others)} as a further coordinate: 1 of its unit counts like 1 km"
            )
    if unused := list(unused):
        parts.append(f"{quote_few(unused)} of the table of sites not read")
    return "; ".join(parts)


def project_places(places: pd.DataFrame) -> Array:
    """Return coordinates (A, d), with degrees as km east and north of the centre, others unchanged.

    Raises
    ------
    ValueError
        If two sites have the same place, or degrees are out of range.
    """
    check_places(pd.Series(places.index), places.reset_index(drop=True))
    degrees = find_degrees(places.columns)
    if degrees is None:
        return places.to_numpy(float)
    latitude, longitude = degrees
    for name, most in ((latitude, 90), (longitude, 360)):
        wrong = places[name][places[name].abs() > most]
        if len(wrong):
            raise ValueError(
                f"site {wrong.index[0]}: {name} must be degrees, got {wrong.iloc[0]}: if it is a "
                f"length, say {format_option('degrees', 'none')}"
            )
    east_north = kilometres(places[latitude].to_numpy(float), places[longitude].to_numpy(float))
    others = places.drop(columns=[latitude, longitude]).to_numpy(float)
    return np.column_stack([east_north, others])


def _summary(readings: pd.DataFrame, omissions: dict[str, list[str]], *notes: str) -> str:
    """Return one line with the size, the number of gaps, the omissions, and the notes."""
    steps, sensors = readings.shape
    size = f"{sensors} sensors, {readings.index[0]} to {readings.index[-1]} ({steps} steps)"
    parts = [f"{size}, {describe_gaps(readings)}"]
    parts += [f"{reason}: {quote_few(names)}" for reason, names in omissions.items() if names]
    return "; ".join([*parts, *filter(None, notes)])


def _steps_text(times: pd.Index[Any]) -> str:
    """Return a note on the lengths of the steps of a table, or "" if they are equal."""
    lengths = times.to_series().diff().dropna()
    shortest, longest = lengths.min(), lengths.max()
    if longest <= shortest * (1 + 1e-6):
        return ""
    return f"a step is a row, {shortest} to {longest} after the last: every= makes steps equal"


PROBLEMS = (
    NamedProblem(
        "sensor-field",
        sensor_field,
        "your own network: --data files of readings, one or several, and then that of the sites; a "
        "file with both goes in twice",
        files=2,
        may_repeat=True,
    ),
)

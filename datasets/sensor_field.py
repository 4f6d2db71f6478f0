"""A problem of a user's own network of sensors: readings by time and sensor, and their places.

Places in degrees become kilometres, gaps are filled, and sites at one place are refused.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.datasets.table_problem import TableProblem
from tvbandits.datasets.tables.headings import (
    PLANE,
    is_length,
    latitude_and_longitude,
    plain,
    similar_names,
)
from tvbandits.datasets.tables.layout import (
    NO_OPTIONS,
    FileOptions,
    columns_of_option,
    find_columns,
    options_of_sites,
    stations_of,
)
from tvbandits.datasets.tables.readings import (
    Source,
    as_ids,
    as_numbers,
    average_steps,
    by_time,
    few,
    naming_source,
    read_source,
    read_table,
    select_times,
    with_index_as_column,
)
from tvbandits.datasets.tables.rounds import doubts_about, find_step
from tvbandits.datasets.tables.sentinels import check_sentinels, zero_notes
from tvbandits.domains.problem import NamedProblem
from tvbandits.option_text import format_option
from tvbandits.validation import Array, check_instance, finite_number


def kilometres(latitude: Array, longitude: Array, radius: float = 6371.0088) -> Array:
    """Return kilometres east and north of the mean position, by the equirectangular projection.

    Takes degrees, each of shape (A,), and the mean radius of the earth, and returns shape (A, 2). At the
    scale of a state, distances are right to about one per cent, also where longitudes begin anew, at
    180 or at 360 degrees.
    """
    longitude = np.unwrap(longitude, period=360.0)
    north = np.radians(latitude - latitude.mean())
    east = np.radians(longitude - longitude.mean()) * np.cos(np.radians(latitude.mean()))
    return radius * np.column_stack([east, north])


def check_places(ids: pd.Series[str], places: pd.DataFrame) -> None:
    """Raise a `ValueError` that names the sites without a place, or with that of another site.

    Parameters
    ----------
    ids : Series of A str
        Names of the sites.
    places : DataFrame of A rows
        Their coordinates, a column each.
    """
    nowhere = places.isna().any(axis=1)
    if nowhere.any():
        missing = " or ".join(str(column) for column in places.columns)
        raise ValueError(f"site {ids[nowhere].iloc[0]} has no {missing}")
    shared = places.duplicated(keep=False)
    if shared.any():
        raise ValueError(f"sites stand at the same place as others: {few(ids[shared])}")


def complete_columns(
    readings: pd.DataFrame, share: float, fewest: int, what: str
) -> pd.Series[float]:
    """Return the share of rows with readings of each column where it is large enough.

    A `ValueError` says if there are fewer such columns than `fewest`.
    """
    shares = readings.notna().mean()
    enough = shares[(shares >= share) & (shares > 0)]
    if len(enough) < fewest:
        raise ValueError(
            f"{len(enough)} of {len(shares)} {what} have readings in at least {share:.4g} of the "
            f"{len(readings)} steps from {readings.index[0]} to {readings.index[-1]} (the most complete "
            f"in {shares.max():.4g}); expected {fewest} or more"
        )
    return enough


def gaps_text(table: pd.DataFrame) -> str:
    """Return the number of gaps of a table, in words."""
    gaps = int(table.isna().to_numpy().sum())
    return f"{gaps} of {table.size} values filled in ({gaps / table.size:.1%})"


def sensor_field(
    values: Source,
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

    Rows are put in the order of time, and those of one time averaged. Gaps are filled linearly in
    time, and at the ends with the nearest reading. The summary of the problem names what it leaves out:
    sensors with too few readings; columns of values that `sites` has no coordinates for; and sites
    that have no column. Sensors are known by text: 7 and "7" are one, "007" is another.

    Parameters
    ----------
    values : DataFrame or path
        Readings, in `unit`: a column a sensor, headed by its id, and times as index or first column; or
        a row for each reading, with columns of time, station and value. Times are numbers, or dates
        such as 2008-01-31 12:00 (offsets are turned into UTC).
    sites : DataFrame or path
        A row a sensor: its id, and 2 or 3 coordinates. Both tables may be csv or Parquet files. The ids
        stand in the first column. It may be a table with a row for each reading that has latitude and
        longitude, such as `values` itself.
        Coordinates are latitude and longitude, which are degrees and become km east and north of the
        centre, or else x, y, z, or else all other columns, which are used as they are; a warning names
        those that may be degrees, and `options.degrees` says whether they are.
    unit : str
        Unit of a reading.
    noise_variance : float, optional
        Noise variance of a reading (unit squared): give that of the instrument if you know it. None:
        nobody knows it, and each policy learns it.
    name : str
        The name of the problem in rows and pictures.
    minimum_completeness : float
        Keep sensors with readings in at least this fraction of the steps.
    every : str, optional
        Average the readings of steps of this length, "10min" or "1D" (a number where times are
        numbers). None: each row is one step, however long.
    start, end : str or float, optional
        Rows from one time to another, both included: 2008-01-31, or 2008 for all of a year (numbers
        where times are numbers). None: all there are.
    options : FileOptions, optional
        What the tables do not say themselves: which parameter, which numbers stand for no reading.

    Raises
    ------
    ValueError
        If a table cannot be read, fewer than two sensors or two steps are left, or sensors stand
        at the same place.

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
    places, unread = _sites_table(sites, options)
    sheet = read_source(values, "values", options)
    with naming_source(values):
        table, flags, averaged = by_time(sheet.cells, places.index, options)
        common = _common_sensors(table, places, sites)
        numbers = select_times(as_numbers(table[common], options=options), start, end)
        check_sentinels(numbers, options)
        readings = _complete_readings(numbers, every, minimum_completeness)
        doubts = (
            similar_names(table.columns) + doubts_about(readings) + zero_notes(numbers, options)
        )
        if doubts:
            warnings.warn("; ".join(doubts), UserWarning, stacklevel=2)
    with naming_source(sites):
        points = points_of(places.loc[readings.columns])
        warn_of_degrees(places, options)
    omissions = {
        "with too few readings": [each for each in common if each not in readings.columns],
        "without coordinates": [each for each in table.columns if each not in places.index],
        "without readings": [site for site in places.index if site not in table.columns],
    }
    return TableProblem(
        readings.interpolate("index", limit_direction="both").to_numpy(float),
        points,
        name=name,
        unit=unit,
        noise_variance=noise_variance,
        added_noise=0.0,  # a reading holds the noise of its instrument
        labels=tuple(readings.columns),
        summary=_summary(
            readings,
            omissions,
            f"left out: {', '.join(sheet.omissions)}" if sheet.omissions else "",
            f"not read: {flags}" if flags else "",
            averaged,
            "" if every is not None else _steps_text(readings.index),
            places_text(places.columns, unread),
        ),
    )


def _sites_table(sites: Source, options: FileOptions) -> tuple[pd.DataFrame, list[str]]:
    """Return coordinates by id of a table of sites, read with the options of the readings.

    And its columns that are not read; of a table of readings there are none.
    """
    rows = read_table(sites, "sites", replace(options, header=None))
    with naming_source(sites):
        own = options_of_sites(options, rows)
        places = read_places(rows, own)
        columns = places_in_readings(with_index_as_column(rows), own).columns[1:]
    return places, [str(each) for each in columns if each not in places.columns]


def _common_sensors(table: pd.DataFrame, places: pd.DataFrame, sites: Source) -> list[str]:
    """Return the sensors with both readings and coordinates; none is a `ValueError`."""
    common = [sensor for sensor in table.columns if sensor in places.index]
    if not common:
        where = "" if isinstance(sites, pd.DataFrame) else f" ({sites})"
        raise ValueError(
            f"no sensor has both readings and coordinates: values are of {few(table.columns)}, "
            f"coordinates of {few(places.index)}{where}"
        )
    return common


def _complete_readings(numbers: pd.DataFrame, every: str | None, share: float) -> pd.DataFrame:
    """Return readings by step of the sensors that have a large enough share of them."""
    readings = average_steps(numbers, every)
    try:
        sensors = complete_columns(readings, share, 2, "sensors with coordinates").index
    except ValueError as error:
        raise ValueError(f"{error}{_step_hint(numbers, every)}") from None
    if len(readings) < 2:
        raise ValueError(f"expected at least two steps, got {len(readings)}")
    return readings[sensors]


def _step_hint(numbers: pd.DataFrame, every: str | None) -> str:
    """Return the step with which most sensors have a reading, in words, if it differs from `every`."""
    if not isinstance(numbers.index, pd.DatetimeIndex):
        return ""
    rows = numbers.rename_axis("time").reset_index().melt("time").dropna()
    grid = find_step(rows["time"], rows["variable"])
    if grid is None or grid.step in ("", every):
        return ""
    return f"; with every={grid.step} they have {grid.share:.0%} of their readings"


def read_places(sites: pd.DataFrame, options: FileOptions = NO_OPTIONS) -> pd.DataFrame:
    """Return coordinates by id: the columns that `sensor_field` describes, without rows that lack one.

    Of a table with a row for each reading, they are those of its stations.

    Raises
    ------
    ValueError
        If columns are missing, ids are not given or not unique, or a coordinate is no number.
    """
    table = places_in_readings(with_index_as_column(sites), options)
    if not len(table) or len(table.columns) < 3:
        raise ValueError(
            "the table of sites must have rows, and columns of ids and 2 or 3 coordinates, got "
            f"{len(table)} rows of {few(map(str, table.columns)) or 'nothing'}"
        )
    column = str(table.columns[0])
    ids = as_ids(table[column])
    if "" in ids:
        raise ValueError(f"sites must all have an id ({column}); row {ids.index('') + 1} has none")
    twice = [each for each, times in Counter(ids).items() if times > 1]
    if twice:
        raise ValueError(
            f"sites are given twice: {few(twice)}; of a table of readings, name the columns by "
            f"{format_option('time', 'COLUMN')} and {format_option('station', 'COLUMN')}"
        )
    return as_numbers(table[_coordinates(table)].set_axis(ids, axis=0), "coordinate").dropna()


def places_in_readings(table: pd.DataFrame, options: FileOptions) -> pd.DataFrame:
    """Return station, latitude and longitude of each station in a table of readings.

    A table without times, stations and places is returned as it is.

    Raises
    ------
    ValueError
        If a station has two places, or several rows without places.
    """
    table, options = with_degrees(table, options), replace(options, degrees=None)
    layout = find_columns(table, options)
    if not layout.is_long:
        return table
    if not layout.places:
        if stations_of(table, layout).duplicated().any():
            raise ValueError(
                "stations have several rows, and no latitude and longitude: name these columns by "
                f"{format_option('degrees', 'LAT+LON')}, or give the places in a table of their own"
            )
        return table
    rows = table[list(layout.places)].assign(station=stations_of(table, layout)).drop_duplicates()
    rows = rows[["station", *layout.places]]
    conflicts = rows[rows["station"].duplicated()]
    if len(conflicts):
        raise ValueError(
            f"station {conflicts['station'].iloc[0]} has two places in the table: give the places of "
            "the stations in a table of their own"
        )
    return rows.reset_index(drop=True)


def with_degrees(table: pd.DataFrame, options: FileOptions) -> pd.DataFrame:
    """Return a table whose columns `options.degrees` are called latitude and longitude.

    If there are none, columns with names of degrees are called y and x.

    Raises
    ------
    ValueError
        If the option does not name two columns that are there.
    """
    if options.degrees is None:
        return table
    found = latitude_and_longitude(table.columns)
    if options.degrees.strip().lower() == "none":
        pairs = zip(found, ("y", "x"), strict=True)
        return table.rename(columns={name: other for name, other in pairs if name is not None})
    own = {plain(name): name for name in reversed(table.columns)}
    columns = [
        own.get(plain(each)) for each in columns_of_option(options, "degrees", table.columns)
    ]
    if len(set(columns)) != 2 or None in columns:
        raise ValueError(
            f"{format_option('degrees', options.degrees)} must name two columns, LAT+LON, or be "
            f"none; there are: {', '.join(map(str, table.columns))}"
        )
    rest = table.drop(columns=[each for each in found if each is not None and each not in columns])
    return rest.rename(columns=dict(zip(columns, ("latitude", "longitude"), strict=True)))


def degrees_doubt(places: pd.DataFrame, options: FileOptions = NO_OPTIONS) -> str:
    """Return the doubt whether coordinates, used as they are, are degrees; an empty text for none.

    Whole numbers are none. Where columns are called x and y, only a network that is small beside its
    distance from 0 may be one of degrees.
    """
    names = [str(each) for each in places.columns]
    if len(names) not in (2, 3) or options.degrees is not None or any(map(is_length, names)):
        return ""
    first, second = places.iloc[:, 0].to_numpy(float), places.iloc[:, 1].to_numpy(float)
    is_grid = bool((np.r_[first, second] % 1 == 0).all())
    if find_degrees(names) is not None or is_grid:
        return ""
    pairs = {f"{names[0]}+{names[1]}": (first, second), f"{names[1]}+{names[0]}": (second, first)}
    fitting = [
        text
        for text, (latitude, longitude) in pairs.items()
        if np.abs(latitude).max() <= 90 and np.abs(longitude).max() <= 180
    ]
    away = min(np.hypot(first, second)) > 4 * np.hypot(np.ptp(first), np.ptp(second))
    if not fitting or (not away and {plain(each) for each in names} <= PLANE):
        return ""
    # x, and what comes first elsewhere, is more often to the east.
    text = fitting[-1] if plain(names[0]).startswith(("x", "e", "lo")) else fitting[0]
    return (
        f"{names[0]} and {names[1]} may be degrees, and are used as lengths, as they are: if they are "
        f"degrees, say {format_option('degrees', text)} (LAT+LON), and otherwise "
        f"{format_option('degrees', 'none')}"
    )


def warn_of_degrees(places: pd.DataFrame, options: FileOptions) -> None:
    """Warn if coordinates that are used as they are may be degrees."""
    if doubt := degrees_doubt(places, options):
        warnings.warn(doubt, UserWarning, stacklevel=3)


def _coordinates(table: pd.DataFrame) -> list[str]:
    """Return the columns of coordinates: degrees, or x, y and z, or all but the ids."""
    names = list(table.columns[1:])
    by_heading = {plain(name): name for name in names}
    columns = list(find_degrees(names) or ())
    if not columns and {"x", "y"} <= by_heading.keys():
        columns = [by_heading[each] for each in ("x", "y", "z") if each in by_heading]
    if not columns and len(names) not in (2, 3):
        raise ValueError(
            f"which columns are coordinates? Leave 2 or 3 of {few(map(str, names))}, or call them "
            "latitude and longitude, or x and y; the sites are the second table"
        )
    return columns or names


def find_degrees(columns: Iterable[str]) -> tuple[str, str] | None:
    """Return the columns of latitude and longitude, by their names; None if there is neither.

    Raises
    ------
    ValueError
        If there is one without the other.
    """
    names = list(columns)
    latitude, longitude = latitude_and_longitude(names)
    if latitude is None and longitude is None:
        return None
    if latitude is None or longitude is None:
        there, lacks = (latitude, "longitude") if longitude is None else (longitude, "latitude")
        raise ValueError(f'there is "{there}" but no {lacks} among {few(map(str, names))}')
    return latitude, longitude


def places_text(columns: Iterable[str], unread: Iterable[str] = ()) -> str:
    """Return what `points_of` does to columns of coordinates, and which columns are not read, in words.

    An empty text if coordinates are used as they are, and all columns are read.
    """
    names, parts = list(columns), []
    degrees = find_degrees(names)
    if degrees is not None:
        parts.append(f"{degrees[0]} and {degrees[1]} as km north and east of the centre")
        if others := [name for name in names if name not in degrees]:
            parts.append(f"{few(others)} as a further coordinate: 1 of its unit counts like 1 km")
    if unread := list(unread):
        parts.append(f"{few(unread)} of the table of sites not read")
    return "; ".join(parts)


def points_of(places: pd.DataFrame) -> Array:
    """Return coordinates (A, d): degrees as km east and north of the centre, others as they are.

    Raises
    ------
    ValueError
        If two sites share a place, or degrees are out of range.
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
    """Return size, gaps, omissions and notes that are not empty, in one line."""
    steps, sensors = readings.shape
    size = f"{sensors} sensors, {readings.index[0]} to {readings.index[-1]} ({steps} steps)"
    parts = [f"{size}, {gaps_text(readings)}"]
    parts += [f"{reason}: {few(names)}" for reason, names in omissions.items() if names]
    return "; ".join([*parts, *filter(None, notes)])


def _steps_text(times: pd.Index[Any]) -> str:
    """Return between which lengths of time the steps of a table are, in words, if they differ."""
    lengths = times.to_series().diff().dropna()
    shortest, longest = lengths.min(), lengths.max()
    if longest <= shortest * (1 + 1e-6):
        return ""
    return f"a step is a row, {shortest} to {longest} after the last: every= makes steps equal"


PROBLEMS = (
    NamedProblem(
        "sensor-field",
        sensor_field,
        "your own network: two --data files, readings and sites; a file with both goes in twice, "
        "and those of several files, with the same columns, go below one another into one",
        files=2,
    ),
)

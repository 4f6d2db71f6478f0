"""Readers of a user's tables: readings by time and sensor, and coordinates of sensors.

Ids of sensors are compared as texts: 7, 7.0 and "7" are one sensor, "007" is another. Times are numbers,
or dates and times such as 2008-01-31 12:00, 01/31/2008 12:00 or 31.01.2008 12:00; times with an offset
are converted to UTC. `layout` finds out which column contains what. The last part of this module reads
columns of other tables, with candidates and their rewards.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tvbandits.clock import to_iso_date
from tvbandits.datasets.tables.flags import describe_column, describe_distinction, is_flag_heading
from tvbandits.datasets.tables.headings import as_id, simplify_heading
from tvbandits.datasets.tables.layout import (
    LINE,
    NO_OPTIONS,
    FileOptions,
    Layout,
    check_is_wide,
    check_units,
    find_columns,
    is_gap,
    is_numbering,
    parse_values,
    read_times,
    stations_mask,
    tidy,
)
from tvbandits.datasets.tables.sentinels import check_sentinels
from tvbandits.datasets.tables.sheets import Sheet, read_sheet, select_rows
from tvbandits.datasets.tables.spreadsheets import File
from tvbandits.datasets.tables.times import OFFSET, expand_years, to_iso_times
from tvbandits.io import name_file_in_errors
from tvbandits.option_text import format_option
from tvbandits.validation import Array, check_text, describe, file_path, is_date, is_finite_number

# A table, or the path of a CSV or Parquet file with a table.
Source = pd.DataFrame | File

# The name of a time zone after a time of day, or in brackets after its offset.
_ZONE = re.compile(
    r"(?<=:\d\d)\s*([A-Z]{3,5}|[A-Z][a-z]+/\w+)$|\[[^\]]+\]$|(?<=:\d\d )[A-Z]{3,5}\b"
)


def read_table(
    source: Source, name: str = "source", options: FileOptions = NO_OPTIONS
) -> pd.DataFrame:
    """Return a table, or the table of a file, in which the cells of a CSV are texts.

    The parameters and errors are those of `read_source`.
    """
    return read_source(source, name, options).cells


def read_source(source: Source, name: str = "source", options: FileOptions = NO_OPTIONS) -> Sheet:
    """Return the sheet of a table or of a file, with the numbers of the lines that it leaves out.

    Parameters
    ----------
    source : DataFrame or path
    name : str
        Name of the argument, for messages.
    options : FileOptions, optional

    Raises
    ------
    ValueError
        If a file cannot be read, is empty, or is no table; the one-line message names the file.
    """
    if isinstance(source, pd.DataFrame):
        return select_rows(Sheet(source), options)
    if not isinstance(source, str | os.PathLike):
        raise ValueError(
            f"{name} must be a DataFrame or the path of a file, got {describe(source)}"
        )
    path = file_path(name, source)
    with name_file_in_errors(path):
        return read_sheet(path, options)


def name_source_in_errors(source: Source) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that adds the name of the table's file to errors."""
    return (
        contextlib.nullcontext()
        if isinstance(source, pd.DataFrame)
        else name_file_in_errors(Path(source))
    )


def as_ids(values: Iterable[Any]) -> list[str]:
    """Return the ids of sensors as texts: 7, 7.0, "7" and "7.0" become "7"; "007" does not change."""
    return [as_id(value) for value in values]


def parse_times(
    column: Iterable[Any], name: str = "time", dates: str | None = None
) -> pd.Index[Any]:
    """Return times as a `DatetimeIndex` (UTC if they have offsets), or as an index of floats.

    Parameters
    ----------
    column : iterable
    name : str
        Name of the column, for messages.
    dates : str, optional
        The option `dates` of `FileOptions`. None: the order of day and month is that of other dates.

    Raises
    ------
    ValueError
        If a time is missing, or neither a number nor a date.
    """
    series = pd.Series(list(column), dtype=object)
    codes, different = pd.factorize(series)
    if 2 * len(different) < len(series) and (codes >= 0).all():
        with contextlib.suppress(ValueError):  # the message needs the row of the time
            return parse_times(different, name, dates).take(codes)
    missing = series.isna() | (series == "")
    if missing.any():
        row = _describe_row(column, int(missing.to_numpy().argmax()))
        raise ValueError(
            f"{name} must be given in every row, and is missing in {row}: remove the row if it is no "
            "reading"
        )
    numbers = pd.to_numeric(series.mask(series.map(is_date).astype(bool)), errors="coerce")
    if np.isfinite(numbers.to_numpy(float)).all():
        floats: pd.Index[Any] = pd.Index(numbers.to_numpy(float), name=name)
        return floats
    moments = pd.to_datetime(series, format="ISO8601", errors="coerce", utc=True)
    if moments.isna().any():
        iso = to_iso_times(series, dates)
        moments = pd.to_datetime(iso, format="ISO8601", errors="coerce", utc=True)
    if moments.notna().all():
        return pd.DatetimeIndex(moments.dt.tz_localize(None), name=name).as_unit("us")
    wrong = moments.isna() & numbers.isna()
    index = int((wrong if wrong.any() else moments.isna()).to_numpy().argmax())
    raise ValueError(
        f"{name} must be numbers, or dates like 2008-01-31 12:00, 01/31/2008 12:00 or "
        f"31.01.2008 12:00, got {describe(series[index])} in {_describe_row(column, index)}: "
        f"{_remedy_of_time(series[index])}, or name another column by {format_option('time', 'COLUMN')}"
    )


def _remedy_of_time(cell: object) -> str:
    """Return a remedy, for a message, for a cell that is not a time."""
    text = str(cell).strip()
    dates = expand_years(text)
    if dates:
        remedy = f"write years with four digits, as {' or '.join(dates)}"
    elif zone := _ZONE.search(text):
        name = zone[0].strip()
        remedy = (
            f"remove {name}"
            if name.startswith("[")
            else f"write the offset from UTC, such as +01:00, in place of {name}, or name the time zone "
            f"by {format_option('zone', name if '/' in name else 'Europe/Berlin')}"
        )
    else:
        remedy = "remove it if it is no reading"
    if not re.search(r"\d.*\d", text):
        return remedy
    return (
        f"{remedy}, or say how times are written, as by {format_option('dates', '%d.%m.%y %H:%M')}"
    )


def _describe_row(column: Iterable[Any], row: int) -> str:
    """Return the text of a row's number, which is the line of a file or the row of another table."""
    if isinstance(column, pd.Series) and column.index.name == LINE:
        return f"line {column.index[row]}"
    return f"row {row + 1}"


def parse_numbers(
    table: pd.DataFrame, label: str = "sensor", options: FileOptions = NO_OPTIONS
) -> pd.DataFrame:
    """Return cells as floats, with NaN for a missing reading, such as NA.

    Raises
    ------
    ValueError
        If a cell is not a finite number; the message names the column, after the word `label`.
    """
    columns = {
        str(name): parse_values(table.iloc[:, i], options, f"{label} {name}")
        for i, name in enumerate(table.columns)
    }
    return pd.DataFrame(columns, index=table.index)


class TimeTable(NamedTuple):
    """A table of cells by time and sensor, with notes on flags and averages.

    Attributes
    ----------
    cells : DataFrame
        Cells with times as the index and the ids of sensors as columns.
    flags, averaged : str
        The results of `describe_flags` and `describe_averages`.
    unit : str
        The unit of readings that a long table names.
    has_offsets : bool
        Whether times were written with their offset from UTC.
    """

    cells: pd.DataFrame
    flags: str = ""
    averaged: str = ""
    unit: str = ""
    has_offsets: bool = False


def pivot_by_time(
    table: pd.DataFrame, sensors: Iterable[str], options: FileOptions = NO_OPTIONS
) -> TimeTable:
    """Return a table with times as the index and the sensors' ids as columns; cells are not parsed.

    A table with a row for each reading becomes one with a column for each sensor. In other tables, times
    are the index if it has a name or is not of integers; otherwise they are in the columns that
    `find_columns` finds, or in the first column. If that is one of `sensors`, there is no column of
    times, and the times are the numbers of rows.

    Raises
    ------
    ValueError
        If the table is empty, one of `sensors` has two columns, or times cannot be read.
    """
    names, flags = as_ids(table.columns), ""
    times: pd.Index[Any] | pd.Series[Any] = table.index
    if not len(table) or not names:
        raise ValueError("the table of values has no rows")
    layout = find_columns(table, options) if is_numbering(table.index) else None
    if layout is None:
        if options.zone is not None:
            times = to_iso_times(pd.Series([*map(str, times)]), options.dates, options.zone)
        index = parse_times(times, str(table.index.name or "time"), options.dates)
    elif names[0] in set(sensors) and layout.time in ((), (str(table.columns[0]),)):
        index = parse_times(table.index)
    else:
        flags = describe_flags(table, layout)
        if layout.is_long:
            unit = check_units(table, layout, options, sensors)
            rows = tidy(table, layout, options)
            has_offsets = _have_offsets(rows["time"])
            check_sentinels(rows[["value"]], options)
            rows = rows.assign(time=parse_times(rows["time"], "time", options.dates))
            wide = rows.pivot_table("value", "time", "station", dropna=False)
            averaged = describe_averages(rows.dropna(subset="value"), table, layout)
            return TimeTable(wide.rename_axis(columns=None), flags, averaged, unit, has_offsets)
        times = read_times(table, layout, options)
        index = parse_times(times, " ".join(layout.time) or "time", options.dates)
        others = [i for i, name in enumerate(table.columns) if str(name) not in layout.time]
        names, table = [names[i] for i in others], table.iloc[:, others]
    used = stations_mask(names, options)
    if not {*names} & {*sensors}:
        check_is_wide(table.loc[:, used], pd.Series(index))
    names, table = [name for name, use in zip(names, used, strict=True) if use], table.loc[:, used]
    duplicates = {name for name, count in Counter(names).items() if count > 1} & set(sensors)
    if duplicates:
        raise ValueError(
            f"sensors have more than one column: {quote_few(duplicates)}; rename or delete the others"
        )
    cells = table.set_axis(names, axis=1).set_axis(index, axis=0)
    averaged = _averages_of_columns(cells, options)
    return TimeTable(cells, flags, averaged, has_offsets=_have_offsets(times))


def _have_offsets(times: pd.Index[Any] | pd.Series[Any]) -> bool:
    """Return whether some times were written with their offset from UTC."""
    if isinstance(times.dtype, pd.DatetimeTZDtype):
        return True
    texts = pd.Series(times.unique()).astype(str)
    return bool(texts.str.contains(OFFSET).any())


def join_tables(tables: Mapping[str, TimeTable]) -> TimeTable:
    """Return the readings of several tables of one network, by file: one for each month or station.

    Cells are numbers. A reading that several tables have is averaged.

    Raises
    ------
    ValueError
        If tables differ in the unit of readings, or in how times are written.
    """
    (first, table), *others = tables.items()
    if not others:
        return table
    for name, other in others:
        kinds = [isinstance(each.cells.index, pd.DatetimeIndex) for each in (table, other)]
        if kinds[0] != kinds[1]:
            words = ["dates" if kind else "numbers" for kind in kinds]
            raise ValueError(
                f"times are {words[0]} in {first} and {words[1]} in {name}: write all alike"
            )
        if table.has_offsets != other.has_offsets:
            with_offset, without = (first, name) if table.has_offsets else (name, first)
            raise ValueError(
                f"times have an offset from UTC in {with_offset} and none in {without}: name the time "
                f"zone of the others by {format_option('zone', 'Europe/Berlin')}"
            )
        if table.unit and other.unit and table.unit != other.unit:
            raise ValueError(
                f"readings are in {table.unit} in {first} and in {other.unit} in {name}: write all of "
                "them in one unit"
            )
    means = [each.cells.groupby(level=0).mean() for each in tables.values()]
    counts = pd.concat([part.notna().astype(int) for part in means]).groupby(level=0).sum()
    repeated = int((counts - 1).clip(lower=0).to_numpy().sum())
    notes = [each.averaged for each in tables.values()]
    if repeated:
        notes.append(
            f"{repeated} reading{'s' * (repeated > 1)} averaged with those of another table"
        )
    flags = dict.fromkeys(each.flags for each in tables.values() if each.flags)
    cells = pd.concat([each.cells for each in tables.values()])
    return TimeTable(cells, "; ".join(flags), "; ".join(filter(None, notes)))


def _averages_of_columns(cells: pd.DataFrame, options: FileOptions) -> str:
    """Return `describe_averages` for a table with a column for each sensor."""
    repeated = cells[cells.index.duplicated(keep=False)]
    parts = [
        pd.DataFrame(
            {
                "time": repeated.index,
                "station": i,
                "value": pd.to_numeric(column, errors="coerce").to_numpy(),
            }
        )[~is_gap(column, options).to_numpy()]
        for i, (_, column) in enumerate(repeated.items())
    ]
    return describe_averages(pd.concat(parts)) if len(repeated) else ""


def describe_averages(
    rows: pd.DataFrame, cells: pd.DataFrame | None = None, layout: Layout | None = None
) -> str:
    """Return a note on the number of readings with the same time and station as another, or "".

    The note says how far they differ, and in which column of the table, if there is one; and it names an
    hour that clocks show twice at the end of summer time.

    Parameters
    ----------
    rows : DataFrame
        Readings with columns time, station and value; the index has their rows in the table.
    cells : DataFrame, optional
        The table, and its `layout`.
    layout : Layout, optional
    """
    keys = ["time", "station"]
    is_repeated = rows.duplicated(keys)
    count = int(is_repeated.sum())
    if not count:
        return ""
    groups = rows[rows.duplicated(keys, keep=False)]
    text = f"{count} reading{'s' * (count > 1)} averaged with others of the same site and time"
    if "value" in groups:
        values = groups.groupby(keys)["value"]
        spread = float((values.max() - values.min()).max())
        text += f" (up to {spread:.4g} apart)" if spread > 0 else " (all equal)"
    if cells is not None and layout is not None and layout.is_long:
        used = (*layout.time, *layout.station, *layout.values, *layout.places, layout.parameter)
        text += describe_distinction(cells, used, groups)
    rows, is_repeated = rows.reset_index(drop=True), is_repeated.reset_index(drop=True)
    if hours := _find_repeated_hours(rows, is_repeated):
        text += (
            f"; the hour of {quote_few(hours)} comes twice, as where summer time ends: write the times "
            f"with their offset from UTC, name the time zone by "
            f"{format_option('zone', 'Europe/Berlin')}, or a column of times in UTC by "
            f"{format_option('time', 'COLUMN')}"
        )
    return text


def _find_repeated_hours(rows: pd.DataFrame, is_repeated: pd.Series[bool]) -> list[str]:
    """Return the hours in which most readings occur twice, and which may be the end of summer time.

    Summer time ends at 1, 2 or 3 o'clock on a Sunday in September to November (north) or in March or
    April (south). An hour counts only if no other hour of its day is repeated.
    """
    if pd.api.types.is_numeric_dtype(rows["time"]):
        return []
    times = pd.to_datetime(rows["time"], format="ISO8601", errors="coerce", utc=True)
    hours = times.dt.floor("h")
    fractions = is_repeated.groupby(hours).mean()
    fractions = fractions[fractions > 0]
    dates = pd.DatetimeIndex(fractions.index)
    is_change = (dates.day_of_week == 6) & dates.month.isin((3, 4, 9, 10, 11)) & (dates.hour <= 3)
    is_alone = ~dates.normalize().duplicated(keep=False)
    # Only the second of two readings is a duplicate, so the fraction is at most a half.
    selection = dates[is_change & is_alone & (fractions.to_numpy() >= 0.4)]
    return [f"{hour:%Y-%m-%d %H:%M}" for hour in selection]


def describe_flags(cells: pd.DataFrame, layout: Layout) -> str:
    """Return a note on the columns of flags in a long table, with the count of each flag, or "".

    All rows are used whatever their flags, since it is not known which flags mean bad readings.
    """
    notes = [
        describe_column(str(name), cells[name], f"column {name}")
        for name in (cells.columns if layout.is_long else ())
        if is_flag_heading(name) and str(name) not in (*layout.values, layout.parameter)
    ]
    return "; ".join(filter(None, notes))


def select_times(
    table: pd.DataFrame, start: str | float | None, end: str | float | None
) -> pd.DataFrame:
    """Return the rows from a start to an end time, both included, in the order of time.

    Parameters
    ----------
    table : DataFrame
        A table with times as the index.
    start, end : str or float, optional
        Dates such as 2008-01-31, 2008-01 or 2008, which include the whole day, month or year; or numbers
        if times are numbers. None: the first or the last time.

    Raises
    ------
    ValueError
        If `start` or `end` is no time, or there is no row between them.
    """
    if start is None and end is None:
        return table
    table = table.sort_index(kind="stable")
    rows = _select_from(_select_from(table, "start", start), "end", end)
    if len(rows) == 0:
        raise ValueError(
            f"no reading lies between start={start} and end={end}: times are "
            f"{table.index[0]} to {table.index[-1]}"
        )
    return rows


def _select_from(table: pd.DataFrame, name: str, time: str | float | None) -> pd.DataFrame:
    """Return the rows of a sorted table from a time on (`name` "start"), or up to it ("end")."""
    if time is None:
        return table
    dates = isinstance(table.index, pd.DatetimeIndex)
    expected = "a date such as 2008-01-31" if dates else "a number, as times are numbers"
    if isinstance(time, str):
        try:
            iso = to_iso_date(check_text(name, time))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        # A date without a time of day means the whole day.
        time = iso if iso == time or ":" in time else iso[: len("2008-01-31")]
    elif dates or not is_finite_number(time):
        raise ValueError(f"{name} must be {expected}, got {describe(time)}")
    try:
        bound = time if dates else float(time)
        return table.loc[slice(bound, None) if name == "start" else slice(bound)]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{name} must be {expected}, got {describe(time)}") from error


def average_steps(table: pd.DataFrame, every: str | None, most: int = 50_000_000) -> pd.DataFrame:
    """Return a table sorted by time, with means of all rows at one time, or in one interval.

    Parameters
    ----------
    table : DataFrame of floats
        A table with times as the index.
    every : str, optional
        Length of the intervals, "10min" or "1D", or a number if times are numbers. The time of a row is
        the start of its interval; intervals begin at midnight, or at 0, and those without a reading are
        gaps. None: a row for each time.
    most : int
        Largest number of values (times x sensors) of the result.

    Raises
    ------
    ValueError
        If `every` is no interval, or the result would have too many values.
    """
    if every is None:
        return table.groupby(level=0).mean()
    times, dates = table.index, isinstance(table.index, pd.DatetimeIndex)
    width, zero = _width(every, dates), times.min().normalize() if dates else 0.0
    # The tiny term prevents that 0.3 / 0.1 is rounded down to 2.
    numbers = np.floor(((times - zero) / width).to_numpy(float) + 1e-9)
    first, last = numbers.min(), numbers.max()
    if (last - first + 1) * table.shape[1] > most:
        raise ValueError(
            f"every={every} makes {last - first + 1:.3g} steps of {table.shape[1]} sensors, from "
            f"{times.min()} to {times.max()}: is one of the times wrong?"
        )
    starts, grid = (
        pd.Index(zero + width * steps.astype(np.int64), name=times.name)
        for steps in (numbers, np.arange(first, last + 1))
    )
    return table.groupby(starts).mean().reindex(grid)


def _width(every: Any, dates: bool) -> Any:
    """Return the length of an interval of time: a duration, or a float for numeric times."""
    expected = "an interval such as 10min, 1h or 1D" if dates else "a number, as times are numbers"
    width: Any = math.nan
    if isinstance(every, str) or (is_finite_number(every) and not dates):
        with contextlib.suppress(ValueError, OverflowError):
            width = pd.Timedelta(every) if dates else float(every)
    if not (width > width * 0 and width < width * 2):
        raise ValueError(f"every must be {expected}, and positive, got {describe(every)}")
    return width


# --- columns of other tables ---------------------------------------------------------------------


def finite_column(column: pd.Series[Any], name: str) -> Array:
    """Return a column as finite numbers; raise a `ValueError` with the first cell that is not one."""
    # `float` reads all digits of a text, so that an export has the same values as its original.
    numbers = np.array([_parse_number(value) for value in column])
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{name} must be a finite number, got {column.iloc[row]} in row {row + 1} of {len(bad)}"
        )
    return numbers


def _parse_number(value: Any) -> float:
    """Return a value as a float, or NaN if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def encode(texts: pd.Series[str], codes: Mapping[str, float], requirement: str) -> pd.Series[float]:
    """Return the code of each text, whose case does not matter.

    Raises
    ------
    ValueError
        If texts have no code; the message is the requirement and these texts.
    """
    values = texts.str.lower().map(codes)
    unknown = values.isna()
    if unknown.any():
        raise ValueError(f"{requirement}, got {quote_few(texts[unknown])}")
    return values.astype(float)


def standardise(inputs: Array) -> Array:
    """Return columns (n, d) with mean 0 and standard deviation 1; a constant column becomes 0."""
    # The mean of equal numbers may be wrong by rounding, which must not be scaled to a deviation of 1.
    varies = np.ptp(inputs, axis=0) > 0
    deviations = np.where(varies, inputs.std(axis=0), 1.0)
    return np.where(varies, (inputs - inputs.mean(axis=0)) / deviations, 0.0)


def merge_rows(points: Array, target: Array) -> tuple[Array, Array, NDArray[np.integer]]:
    """Return the different points (m, d), their mean targets (m,), and each row's index among them (n,).

    Points are in the order of their first rows.
    """
    frame = pd.DataFrame(points)
    groups = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    first_rows = np.unique(groups, return_index=True)[1]
    means = np.bincount(groups, weights=target) / np.bincount(groups)
    return points[first_rows], means, groups


@dataclass(frozen=True)
class Form:
    """The headings of one kind of file.

    Attributes
    ----------
    required, optional : dict of str to tuple of str
        By the key of a column, its possible headings, the usual one first.
    """

    required: dict[str, tuple[str, ...]]
    optional: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def match(self, header: Iterable[str]) -> dict[str, str]:
        """Return a mapping from the keys of columns to their headings in a file."""
        columns = {simplify_heading(column): column for column in header}
        return {
            key: columns[
                next(
                    simplify_heading(name) for name in headings if simplify_heading(name) in columns
                )
            ]
            for key, headings in {**self.required, **self.optional}.items()
            if any(simplify_heading(name) in columns for name in headings)
        }

    def missing(self, header: Iterable[str]) -> list[str]:
        """Return the usual headings of the required columns that a file lacks."""
        present = self.match(header)
        return [usual for key, (usual, *_) in self.required.items() if key not in present]


def headings_by_key(*columns: str) -> dict[str, tuple[str, ...]]:
    """Return the headings of columns by keys, which are the simplified headings."""
    return {simplify_heading(column): (column,) for column in columns}


def quote_few(values: Iterable[str], most: int = 8) -> str:
    """Return the first few different values in quotes, and the number of all, for a message."""
    different = sorted(set(values))
    text = ", ".join(repr(value) for value in different[:most])
    return text if len(different) <= most else f"{text}, ... ({len(different)} in all)"

"""Reading the tables of a user's own network: values by time and sensor, and places of sensors.

Sensors are known by text: 7, 7.0 and "7" are one sensor, "007" is another. Times are numbers, or dates
and times such as 2008-01-31 12:00, 01/31/2008 12:00 or 31.01.2008 12:00; those with an offset are
turned into UTC. `layout` finds out what is in which column. The end of this module has columns of other
tables as candidates and their rewards, and the headings of the kinds of tables.
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
from tvbandits.datasets.tables.headings import as_id, plain
from tvbandits.datasets.tables.layout import (
    LINE,
    NO_OPTIONS,
    FileOptions,
    Layout,
    as_values,
    check_is_wide,
    check_units,
    find_columns,
    is_gap,
    stations_used,
    tidy,
    times_of,
)
from tvbandits.datasets.tables.sentinels import check_sentinels
from tvbandits.datasets.tables.sheets import Sheet, read_sheet
from tvbandits.datasets.tables.spreadsheets import File
from tvbandits.datasets.tables.times import iso_times, with_long_years
from tvbandits.io import name_file_in_errors
from tvbandits.option_text import format_option
from tvbandits.validation import Array, check_text, describe, file_path, is_date, is_finite_number

# A table, or the path of a csv or Parquet file that holds it.
Source = pd.DataFrame | File

# Headings, as `plain` writes them, of marks of the quality of a reading.
_FLAG = re.compile(
    "(^|_)(flags?|quality|qc|qa|qaqc|qualifier|quality_code|status|validity|grade|qualitat|"
    "qualitaet|guete|gute|qualite)(_|$)"
)
# The name of a zone behind a time of day, or in brackets behind its offset.
_ZONE = re.compile(
    r"(?<=:\d\d)\s*([A-Z]{3,5}|[A-Z][a-z]+/\w+)$|\[[^\]]+\]$|(?<=:\d\d )[A-Z]{3,5}\b"
)
_MOST_FLAGS = 20  # a column with more different texts has remarks


def read_table(
    source: Source, name: str = "source", options: FileOptions = NO_OPTIONS
) -> pd.DataFrame:
    """Return a table, or that of a file: of a csv all cells as text, under their own headings.

    Parameters and errors are those of `read_source`.
    """
    return read_source(source, name, options).cells


def read_source(source: Source, name: str = "source", options: FileOptions = NO_OPTIONS) -> Sheet:
    """Return a table, or the sheet of a file, which says what of the file it leaves out.

    Parameters
    ----------
    source : DataFrame or path
    name : str
        What messages call it.
    options : FileOptions, optional
        What the file does not say itself.

    Raises
    ------
    ValueError
        If a file cannot be read, is empty, or is no table: one line that names it and why.
    """
    if isinstance(source, pd.DataFrame):
        return Sheet(source)
    if not isinstance(source, str | os.PathLike):
        raise ValueError(
            f"{name} must be a DataFrame or the path of a file, got {describe(source)}"
        )
    path = file_path(name, source)
    with name_file_in_errors(path):
        return read_sheet(path, options)


def naming_source(source: Source) -> contextlib.AbstractContextManager[None]:
    """Return a context that names the file of a table in its errors."""
    return (
        contextlib.nullcontext()
        if isinstance(source, pd.DataFrame)
        else name_file_in_errors(Path(source))
    )


def as_ids(values: Iterable[Any]) -> list[str]:
    """Return the ids of sensors as texts: 7, 7.0, "7" and "7.0" are "7", and "007" stays as it is."""
    return [as_id(value) for value in values]


def as_times(column: Iterable[Any], name: str = "time", dates: str | None = None) -> pd.Index[Any]:
    """Return times as a `DatetimeIndex` (UTC where offsets are given), or as an index of floats.

    Parameters
    ----------
    column : iterable
    name : str
        What messages call it.
    dates : str, optional
        What comes first in 03/02/2026, the "day" or the "month". None: as other dates show it.

    Raises
    ------
    ValueError
        If one of them is missing, or neither a number nor a date.
    """
    series = pd.Series(list(column), dtype=object)
    missing = series.isna() | (series == "")
    if missing.any():
        where = _place_in(column, int(missing.to_numpy().argmax()))
        raise ValueError(f"{name} must be given in every row, and is missing in {where}")
    numbers = pd.to_numeric(series.mask(series.map(is_date).astype(bool)), errors="coerce")
    if np.isfinite(numbers.to_numpy(float)).all():
        floats: pd.Index[Any] = pd.Index(numbers.to_numpy(float), name=name)
        return floats
    moments = pd.to_datetime(series, format="ISO8601", errors="coerce", utc=True)
    if moments.isna().any():
        iso = iso_times(series, dates)
        moments = pd.to_datetime(iso, format="ISO8601", errors="coerce", utc=True)
    if moments.notna().all():
        return pd.DatetimeIndex(moments.dt.tz_localize(None), name=name).as_unit("us")
    wrong = moments.isna() & numbers.isna()
    place = int((wrong if wrong.any() else moments.isna()).to_numpy().argmax())
    raise ValueError(
        f"{name} must be numbers, or dates like 2008-01-31 12:00, 01/31/2008 12:00 or "
        f"31.01.2008 12:00, got {describe(series[place])} in {_place_in(column, place)}: "
        f"{_remedy_of_time(series[place])}, or name another column by {format_option('time', 'COLUMN')}"
    )


def _remedy_of_time(cell: object) -> str:
    """Return what to do about a cell that is no time."""
    written = str(cell).strip()
    dates = with_long_years(written)
    if dates:
        what = f"write years with four digits, as {' or '.join(dates)}"
    elif zone := _ZONE.search(written):
        name = zone[0].strip()
        what = (
            f"remove {name}"
            if name.startswith("[")
            else f"write the offset from UTC, such as +01:00, in place of {name}"
        )
    else:
        what = "remove it if it is no reading"
    if not re.search(r"\d.*\d", written):
        return what
    return f"{what}, or say how times are written, as by {format_option('dates', '%d.%m.%y %H:%M')}"


def _place_in(column: Iterable[Any], place: int) -> str:
    """Return the line of a file, or the row of another table, as a text."""
    if isinstance(column, pd.Series) and column.index.name == LINE:
        return f"line {column.index[place]}"
    return f"row {place + 1}"


def as_numbers(
    table: pd.DataFrame, what: str = "sensor", options: FileOptions = NO_OPTIONS
) -> pd.DataFrame:
    """Return cells as floats; one that stands for no reading, such as NA, is NaN.

    Raises
    ------
    ValueError
        If a cell is no number, or not finite; it names the column after the word `what`.
    """
    columns = {
        str(name): as_values(table.iloc[:, place], options, f"{what} {name}")
        for place, name in enumerate(table.columns)
    }
    return pd.DataFrame(columns, index=table.index)


class TimeTable(NamedTuple):
    """Cells by time and sensor, and in words what of the source is not read as it is.

    Attributes
    ----------
    cells : DataFrame
        Times as index and the ids of sensors as columns.
    flags, averaged : str
        Of `flags_text` and `averages_text`.
    """

    cells: pd.DataFrame
    flags: str = ""
    averaged: str = ""


def by_time(
    table: pd.DataFrame, sensors: Iterable[str], options: FileOptions = NO_OPTIONS
) -> TimeTable:
    """Return a table with times as index and the sensors' ids as columns, cells as they are.

    A table with a row for each reading becomes one with a column for each sensor. Of others, times are
    the index if it has a name or holds anything but whole numbers; else what `find_columns` finds, or
    the first column. If that is one of `sensors`, there is no column of times and rows are numbered.

    Raises
    ------
    ValueError
        If the table is empty, one of `sensors` has two columns, or times cannot be read.
    """
    names, flags = as_ids(table.columns), ""
    if not len(table) or not names:
        raise ValueError("the table of values has no rows")
    layout = find_columns(table, options) if counts_only(table.index) else None
    if layout is None:
        index = as_times(table.index, str(table.index.name or "time"), options.dates)
    elif names[0] in set(sensors) and layout.time in ((), (str(table.columns[0]),)):
        index = as_times(table.index)
    else:
        flags = flags_text(table, layout)
        if layout.is_long:
            check_units(table, layout, options, sensors)
            rows = tidy(table, layout, options)
            check_sentinels(rows[["value"]], options)
            rows = rows.assign(time=as_times(rows["time"], "time", options.dates))
            wide = rows.pivot_table("value", "time", "station", dropna=False)
            averaged = averages_text(rows.dropna(subset="value"))
            return TimeTable(wide.rename_axis(columns=None), flags, averaged)
        times = times_of(table, layout, options)
        index = as_times(times, " ".join(layout.time) or "time", options.dates)
        rest = [i for i, name in enumerate(table.columns) if str(name) not in layout.time]
        names, table = [names[i] for i in rest], table.iloc[:, rest]
    used = stations_used(names, options)
    if not {*names} & {*sensors}:
        check_is_wide(table.loc[:, used], pd.Series(index))
    names, table = [each for each, use in zip(names, used, strict=True) if use], table.loc[:, used]
    twice = {name for name, times in Counter(names).items() if times > 1} & set(sensors)
    if twice:
        raise ValueError(f"sensors have more than one column: {few(twice)}")
    cells = table.set_axis(names, axis=1).set_axis(index, axis=0)
    return TimeTable(cells, flags, _averages_of_columns(cells, options))


def _averages_of_columns(cells: pd.DataFrame, options: FileOptions) -> str:
    """Return `averages_text` of a table with a column for each sensor."""
    shared = cells[cells.index.duplicated(keep=False)]
    parts = [
        pd.DataFrame({"time": shared.index, "station": place})[~is_gap(column, options).to_numpy()]
        for place, (_, column) in enumerate(shared.items())
    ]
    return averages_text(pd.concat(parts)) if len(shared) else ""


def averages_text(rows: pd.DataFrame) -> str:
    """Return how many readings of a table of time and station share both with another, in words.

    An hour that a clock shows twice, at the end of summer time, is named.
    """
    rows = rows.reset_index(drop=True)
    twice = rows.duplicated(["time", "station"])
    count = int(twice.sum())
    if not count:
        return ""
    text = f"{count} reading{'s' * (count > 1)} averaged with others of the same site and time"
    if hours := _hours_shown_twice(rows, twice):
        text += (
            f"; the hour of {few(hours)} comes twice, as where summer time ends: write the times with "
            f"their offset from UTC, or name a column of times in UTC by "
            f"{format_option('time', 'COLUMN')}"
        )
    return text


def _hours_shown_twice(rows: pd.DataFrame, twice: pd.Series[bool]) -> list[str]:
    """Return the hours that most readings share with another, each alone on its Sunday of a change.

    Summer time ends at 1, 2 or 3 o'clock on a Sunday of September to November in the north, and of
    March or April in the south.
    """
    if pd.api.types.is_numeric_dtype(rows["time"]):
        return []
    times = pd.to_datetime(rows["time"], format="ISO8601", errors="coerce", utc=True)
    hours = times.dt.floor("h")
    shared = twice.groupby(hours).mean()
    shared = shared[shared > 0]
    dates = pd.DatetimeIndex(shared.index)
    is_change = (dates.day_of_week == 6) & dates.month.isin((3, 4, 9, 10, 11)) & (dates.hour <= 3)
    is_alone = ~dates.normalize().duplicated(keep=False)
    # Of two readings of a time, the second one is a duplicate.
    found = dates[is_change & is_alone & (shared.to_numpy() >= 0.4)]
    return [f"{each:%Y-%m-%d %H:%M}" for each in found]


def flags_text(cells: pd.DataFrame, layout: Layout) -> str:
    """Return the columns of flags in a long table and how often each flag stands there, in words.

    Rows count whatever their flag: an institute's words do not say which readings are good.
    """
    columns = list[str]()
    for name in cells.columns if layout.is_long else ():
        if _FLAG.search(plain(name)) and str(name) not in (*layout.values, layout.parameter):
            flags = cells[name].astype(str).str.strip()
            counts = flags[flags != ""].value_counts()
            if 2 <= len(counts) <= _MOST_FLAGS:
                listed = ", ".join(f"{flag} {count}" for flag, count in counts.items())
                columns.append(f"column {name} ({listed})")
    return "; ".join(columns)


def counts_only(index: pd.Index[Any]) -> bool:
    """Return whether an index only numbers the rows, or the lines of a file."""
    return index.name in (None, LINE) and pd.api.types.is_integer_dtype(index.dtype)


def with_index_as_column(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose index is its first column, unless it only numbers the rows."""
    return table.reset_index(drop=counts_only(table.index))


def select_times(
    table: pd.DataFrame, start: str | float | None, end: str | float | None
) -> pd.DataFrame:
    """Return the rows from one time to another, both included, in the order of time.

    Parameters
    ----------
    table : DataFrame
        Times as index.
    start, end : str or float, optional
        Dates such as 2008-01-31, 2008-01 or 2008, which mean all of the day, month or year; or numbers
        where times are numbers. None: as far as there are rows.

    Raises
    ------
    ValueError
        If one of them is no time, or nothing lies between them.
    """
    if start is None and end is None:
        return table
    table = table.sort_index(kind="stable")
    rows = _cut(_cut(table, "start", start), "end", end)
    if len(rows) == 0:
        raise ValueError(
            f"no reading lies between start={start} and end={end}: times are "
            f"{table.index[0]} to {table.index[-1]}"
        )
    return rows


def _cut(table: pd.DataFrame, name: str, time: str | float | None) -> pd.DataFrame:
    """Return the rows of a table in order, from a `start` or up to an `end`."""
    if time is None:
        return table
    dates = isinstance(table.index, pd.DatetimeIndex)
    expected = "a date such as 2008-01-31" if dates else "a number, as times are numbers"
    if isinstance(time, str):
        try:
            iso = to_iso_date(check_text(name, time))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        # A day without a time of day is all of the day.
        time = iso if iso == time or ":" in time else iso[: len("2008-01-31")]
    elif dates or not is_finite_number(time):
        raise ValueError(f"{name} must be {expected}, got {describe(time)}")
    try:
        bound = time if dates else float(time)
        return table.loc[slice(bound, None) if name == "start" else slice(bound)]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{name} must be {expected}, got {describe(time)}") from error


def average_steps(table: pd.DataFrame, every: str | None, most: int = 50_000_000) -> pd.DataFrame:
    """Return rows in the order of time: means of those of one time, or of one interval.

    Parameters
    ----------
    table : DataFrame of floats
        Times as index.
    every : str, optional
        Interval of time a row stands for, "10min" or "1D", or its length where times are numbers.
        Intervals without a reading are gaps, and a row's time is the interval's beginning; intervals
        are counted from midnight, or from 0. None: a row for each time.
    most : int
        The most values (time x sensor) of the result.

    Raises
    ------
    ValueError
        If `every` is no interval, or makes a table of more values than that.
    """
    if every is None:
        return table.groupby(level=0).mean()
    times, dates = table.index, isinstance(table.index, pd.DatetimeIndex)
    width, zero = _width(every, dates), times.min().normalize() if dates else 0.0
    # The tiny addition keeps 0.3 / 0.1 from being 2.
    numbers = np.floor(((times - zero) / width).to_numpy(float) + 1e-9)
    first, last = numbers.min(), numbers.max()
    if (last - first + 1) * table.shape[1] > most:
        raise ValueError(
            f"every={every} makes {last - first + 1:.3g} steps of {table.shape[1]} sensors, from "
            f"{times.min()} to {times.max()}: is one of the times wrong?"
        )
    begins, grid = (
        pd.Index(zero + width * each.astype(np.int64), name=times.name)
        for each in (numbers, np.arange(first, last + 1))
    )
    return table.groupby(begins).mean().reindex(grid)


def _width(every: Any, dates: bool) -> Any:
    """Return the length of an interval of time."""
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
    """Return a column as finite numbers; a `ValueError` names the first cell that is none."""
    # Texts of a CSV are read to the last digit, so that an export is the same table as its original.
    numbers = np.array([_number(value) for value in column])
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{name} must be a finite number, got {column.iloc[row]} in row {row + 1} of {len(bad)}"
        )
    return numbers


def _number(value: Any) -> float:
    """Return a number, or NaN for a value that is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def encode(texts: pd.Series[str], codes: Mapping[str, float], needs: str) -> pd.Series[float]:
    """Return the number of each text, whatever its case; a `ValueError` shows the texts without one."""
    values = texts.str.lower().map(codes)
    unknown = values.isna()
    if unknown.any():
        raise ValueError(f"{needs}, got {few(texts[unknown])}")
    return values.astype(float)


def standardise(inputs: Array) -> Array:
    """Return columns of zero mean and unit deviation; a column that never varies is 0."""
    # The mean of equal numbers can be off by rounding, which must not be blown up to a deviation of 1.
    varies = np.ptp(inputs, axis=0) > 0
    deviations = np.where(varies, inputs.std(axis=0), 1.0)
    return np.where(varies, (inputs - inputs.mean(axis=0)) / deviations, 0.0)


def merge_rows(points: Array, target: Array) -> tuple[Array, Array, NDArray[np.integer]]:
    """Return the different points in order of appearance, their mean targets, and each row's point."""
    frame = pd.DataFrame(points)
    which = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    first = np.unique(which, return_index=True)[1]
    means = np.bincount(which, weights=target) / np.bincount(which)
    return points[first], means, which


@dataclass(frozen=True)
class Form:
    """The headings of one kind of file: our name of a column -> its spellings, the usual one first."""

    required: dict[str, tuple[str, ...]]
    optional: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def match(self, header: Iterable[str]) -> dict[str, str]:
        """Return our names of the columns of a header -> the header's own spelling."""
        own = {plain(column): column for column in header}
        return {
            name: own[next(plain(each) for each in spellings if plain(each) in own)]
            for name, spellings in {**self.required, **self.optional}.items()
            if any(plain(each) in own for each in spellings)
        }

    def missing(self, header: Iterable[str]) -> list[str]:
        """Return the usual spelling of the required columns that a header lacks."""
        present = self.match(header)
        return [usual for name, (usual, *_) in self.required.items() if name not in present]


def same_names(*columns: str) -> dict[str, tuple[str, ...]]:
    """Return the spellings of columns that we call as their files do, but for case and punctuation."""
    return {plain(column): (column,) for column in columns}


def few(values: Iterable[str], most: int = 8) -> str:
    """Return the first few different values, for a message."""
    different = sorted(set(values))
    shown = ", ".join(repr(value) for value in different[:most])
    return shown if len(different) <= most else f"{shown}, ... ({len(different)} in all)"

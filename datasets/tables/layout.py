r"""Tables of readings as instruments, agencies and spreadsheets write them.

This module finds out how a file is laid out, so that every command reads the same file in the same way.
A file becomes a sheet (`sheets`), its cells as texts under their names; the columns of a sheet are
described by a `Layout`; and the two become a frame of station, time and value, a row for each reading.

What a file leaves open is an error, which names the option that decides it: a field of `FileOptions`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tvbandits.clock import is_date_text
from tvbandits.datasets.tables.cells import remedy_of
from tvbandits.datasets.tables.headings import as_id, latitude_and_longitude, plain, spellings
from tvbandits.datasets.tables.other_rows import GAPS
from tvbandits.datasets.tables.times import (
    CLOCK,
    EPOCHS,
    PAIRS,
    TIMES,
    are_clocks,
    date_parts,
    is_day,
    iso_times,
    join_date_parts,
    numbers_as_dates,
    with_colons,
)
from tvbandits.option_text import format_option
from tvbandits.validation import (
    as_list,
    check_choice,
    check_optional,
    check_text,
    describe,
    whole_number,
)

# Headings as `plain` writes them, the one to prefer first.
STATIONS = (
    *("location_id", "sensor_id", "station_id", "site_id", "device_id"),
    *("station", "site", "location", "station_no", "station_nr", "station_number", "station_code"),
    *("site_no", "site_number", "site_code", "stations_id", "stationsnummer", "messstellennummer"),
    *("messstelle", "gauge_id", "gauge_no", "gauge", "probe_id", "probe", "sampling_point"),
    *("sensor", "sensor_index", "device", "mote", "moteid", "detector", "stn", "num_poste"),
    *("station_name", "site_name", "location_name"),
)
AQS = ("state_code", "county_code", "site_num")  # with so many digits each:
AQS_DIGITS = (2, 3, 4)
PARAMETERS = ("parameter", "parameter_name", "pollutant", "variable", "species", "quantity")
VALUES = (
    *("value", "reading", "sample_measurement", "arithmetic_mean", "measurement", "concentration"),
    *("observation", "result", "reward"),
)
UNITS = ("unit", "units", "units_of_measure")
NO_VALUES = {*UNITS, "status", "flag", "qualifier", "quality"}

_TEMPERATURE = "T"  # no time, which is t
_SAMPLE = 100  # rows, of which columns of dates are found out
LINE = "line"  # the name of an index of numbers of lines


@dataclass(frozen=True)
class FileOptions:
    """What a person says of files of readings where these do not decide it themselves.

    Each field is an option of the commands that read files: `missing` is --missing there.

    Attributes
    ----------
    header : int, optional
        The line with the names of the columns.
    decimal : str, optional
        The decimal mark, "comma" or "point".
    dates : str, optional
        What comes first in 03/02/2026, the "day" or the "month"; or how dates are written, as "%d.%m.%y
        %H:%M"; or "s" or "ms", for times counted since 1970 in UTC.
    time, station, value : str, optional
        The columns of them; "Date+Hour" joins several.
    parameter : str, optional
        The parameter to read, where a table has several.
    degrees : str, optional
        The columns of latitude and longitude, "Y+X"; "none": coordinates are no degrees.
    missing : sequence of str
        Cells that stand for no reading, such as "-999"; "none" says that such numbers are readings.
    without : sequence of str
        Stations to leave out.

    Examples
    --------
    >>> from tvbandits.datasets import FileOptions
    >>> FileOptions(parameter="pm25", missing=["-999"]).missing
    ('-999',)
    """

    header: int | None = None
    decimal: str | None = None
    dates: str | None = None
    time: str | None = None
    station: str | None = None
    parameter: str | None = None
    value: str | None = None
    degrees: str | None = None
    missing: Sequence[str] = ()
    without: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_optional(whole_number, "header", self.header, at_least=1)
        if self.decimal is not None:
            check_choice("decimal", self.decimal, ("comma", "point"))
        if self.dates is not None and "%" not in check_text("dates", self.dates):
            check_choice("dates", self.dates, ("day", "month", *EPOCHS, "%d.%m.%y %H:%M"))
        for name in ("time", "station", "parameter", "value", "degrees"):
            check_optional(check_text, name, getattr(self, name))
        missing = as_list("missing", self.missing, "the cells of no reading, a list")
        object.__setattr__(self, "missing", tuple(str(each).strip() for each in missing))
        without = as_list("without", self.without, "the names of stations, a list")
        object.__setattr__(self, "without", tuple(map(as_id, without)))


NO_OPTIONS = FileOptions()


def columns_of_option(options: FileOptions, name: str, columns: Iterable[object]) -> list[str]:
    """Return the columns that an option such as `time` names, several in "Date+Hour".

    A plus may also be part of the name of one of the columns: "Date Time, GMT+01:00".
    """
    given = getattr(options, name) or ""
    if given and plain(given) in map(plain, columns):
        return [given]
    return [each.strip() for each in given.split("+") if each.strip()]


def options_of_sites(options: FileOptions, cells: pd.DataFrame) -> FileOptions:
    """Return options of readings for a table of sites: without the columns that it lacks.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.layout import FileOptions, options_of_sites
    >>> options = FileOptions(time="hour", station="Site")
    >>> options_of_sites(options, pd.DataFrame({"site": ["a"], "x": [0], "y": [1]})).time is None
    True
    """
    names = {plain(column) for column in cells.columns}
    absent: dict[str, Any] = {
        name: None
        for name in ("time", "station", "value")
        if not {plain(each) for each in columns_of_option(options, name, cells.columns)} <= names
    }
    return replace(options, **absent)


@dataclass(frozen=True)
class Layout:
    """Which columns of a table hold what.

    Attributes
    ----------
    time, station : tuple of str
        Their columns; no station in a table with a column for each.
    parameter, unit : str
        Their columns in a table with a row for each reading, or empty.
    values : tuple of str
        The columns that may hold the value in such a table.
    places : tuple of str
        Columns of latitude and longitude.
    """

    time: tuple[str, ...]
    station: tuple[str, ...] = ()
    parameter: str = ""
    values: tuple[str, ...] = ()
    unit: str = ""
    places: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """The column of the value; a `ValueError` if several may be it, or none."""
        if len(self.values) != 1:
            found = (
                f"may be any of {', '.join(self.values)}"
                if self.values
                else "is in no column of numbers"
            )
            raise ValueError(f"the value {found}: say which by {format_option('value', 'COLUMN')}")
        return self.values[0]

    @property
    def is_long(self) -> bool:
        """Whether the table has a row for each reading, and not a column for each station."""
        return bool(self.station)


# --- from its cells to the layout -------------------------------------------------------------------


def find_columns(cells: pd.DataFrame, options: FileOptions) -> Layout:
    """Return which columns hold time, station, parameter, value and place.

    Raises
    ------
    ValueError
        If an option names a column that is not there.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.layout import FileOptions, find_columns
    >>> cells = pd.DataFrame({"mote": ["3"], "when": ["2004-02-28"], "volts": ["2.7"]})
    >>> layout = find_columns(cells, FileOptions())
    >>> print(layout.time, layout.station, layout.value)
    ('when',) ('mote',) volts
    """
    columns = _Columns(cells, options)
    time, station = columns.time(), columns.station()
    dated = () if time or not station else dated_columns(cells, station)
    if not (station and (time or dated or options.station)):
        return Layout(time or tuple(map(str, cells.columns[:1])))
    time = time or (dated if len(dated) == 1 else ())
    degrees = latitude_and_longitude(cells.columns)
    places = columns.present("degrees") or tuple(each for each in degrees if each is not None)
    parameter, unit = columns.first(PARAMETERS), columns.first(UNITS)
    value = columns.by_option("value") or columns.first(VALUES)
    if not value:
        others = {*time, *dated, *station, *places, *parameter, *unit}
        other_names = {*STATIONS, *TIMES, *NO_VALUES, *AQS}
        value = tuple(
            column
            for column in dict.fromkeys(map(str, cells.columns))
            if column not in others
            and (plain(column) not in other_names or column == _TEMPERATURE)
            and has_numbers(cells[column])
        )
    places = places if len(places) == 2 else ()
    return Layout(time, station, "".join(parameter), value, "".join(unit), places)


def station_columns(cells: pd.DataFrame, options: FileOptions) -> tuple[str, ...]:
    """Return the columns of the station by an option or by their headings, also without times."""
    return _Columns(cells, options).station()


def time_columns(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns of the time by their headings."""
    return _Columns(cells, NO_OPTIONS).time()


def dated_columns(cells: pd.DataFrame, station: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of dates, by their cells, of a table with several rows for a station."""
    if not cells.duplicated([*station]).any():
        return ()
    samples = {str(name): cells[name].iloc[:_SAMPLE].astype(str) for name in dict.fromkeys(cells)}
    return tuple(
        name
        for name, sample in samples.items()
        if name not in station and numbers_as_dates(sample).map(is_date_text).all()
    )


class _Columns:
    """The columns of a table by their plain names."""

    def __init__(self, cells: pd.DataFrame, options: FileOptions) -> None:
        self._cells, self._options = cells, options
        self._names = {plain(column): str(column) for column in reversed(cells.columns)}
        # Their words apart, as of "sensorId".
        self._words = {spellings(column)[1]: str(column) for column in reversed(cells.columns)}
        # Without a unit or a zone, as of "Time (UTC)": of stations, that is part of the name.
        self._bare = {spellings(column)[2]: str(column) for column in reversed(cells.columns)}

    def first(self, choices: Sequence[str], *, bare: bool = False) -> tuple[str, ...]:
        """Return the first of some names that is there."""
        for names in (self._names, self._words, *([self._bare] if bare else [])):
            for each in choices:
                if each in names:
                    return (names[each],)
        return ()

    def by_option(self, option: str) -> tuple[str, ...]:
        """Return the columns that an option names, if any."""
        columns = columns_of_option(self._options, option, self._cells.columns)
        for each in columns:
            if plain(each) not in self._names:
                listed = ", ".join(map(str, self._cells.columns))
                raise ValueError(
                    f"{format_option(option, each)}: there is no such column; there are: {listed}"
                )
        return tuple(self._names[plain(each)] for each in columns)

    def present(self, option: str) -> tuple[str, ...]:
        """Return the columns that an option names; none if they are those of another table.

        Raises
        ------
        ValueError
            If the table has some of them, and not all.
        """
        columns = columns_of_option(self._options, option, self._cells.columns)
        is_here = any(plain(each) in self._names for each in columns)
        return self.by_option(option) if is_here else ()

    def time(self) -> tuple[str, ...]:
        """Return the columns of the time, of which a second one has hours."""
        pairs = [self.first([a]) + self.first([b]) for a, b in PAIRS]
        pairs = [each for each in pairs if len(each) == 2 and are_clocks(self._cells[each[1]])]
        dated = pairs[0] if pairs else self.first(TIMES, bare=True)
        dated = () if dated == (_TEMPERATURE,) else dated
        parts = date_parts(self._cells.columns)
        # The day of a month is no time: with year and month it is.
        found = parts if {*dated} <= {*parts} else (*dated, *self._clock_beside(dated))
        return self.by_option("time") or found

    def _clock_beside(self, dated: tuple[str, ...]) -> tuple[str, ...]:
        """Return the column of times of day beside one of days, if there is one."""
        if len(dated) != 1 or not all(map(is_day, self._cells[dated[0]].unique())):
            return ()
        clocks = [
            str(name)
            for name in dict.fromkeys(self._cells)
            if self._cells[name].astype(str).str.fullmatch(CLOCK).all()
        ]
        return tuple(clocks) if len(clocks) == 1 else ()

    def station(self) -> tuple[str, ...]:
        """Return the columns of the station, of which the EPA has three."""
        aqs = tuple(each for name in AQS for each in self.first([name]))
        return self.by_option("station") or (aqs if len(aqs) == len(AQS) else self.first(STATIONS))


def has_numbers(column: pd.Series[Any]) -> bool:
    """Tell whether any cell of a column is a number."""
    return bool(pd.to_numeric(column, errors="coerce").notna().any())


# --- from the layout to readings --------------------------------------------------------------------


def times_of(cells: pd.DataFrame, layout: Layout, options: FileOptions) -> pd.Series[Any]:
    """Return the times of the rows, dates as texts of ISO 8601."""
    columns = [cells[column] for column in layout.time]
    if not columns:
        listed = " or ".join(dated_columns(cells, layout.station)) or "in any column"
        raise ValueError(
            f"the time may be {listed}: say which by {format_option('time', 'COLUMN')}"
        )
    if layout.time and date_parts(layout.time) == layout.time:
        return iso_times(join_date_parts(cells[[*layout.time]]), options.dates)
    if len(columns) == 1:
        return iso_times(columns[0], options.dates)
    first, *others = (column.astype(str).str.strip() for column in columns)
    first = first.str.replace(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3", regex=True)
    clocks = [with_colons(each) for each in others]
    joined = first.str.cat(clocks, sep=" ")  # type: ignore[arg-type]  # stubs lack lists of Series
    joined = joined.str.strip().str.replace(r" (?=[+-]\d\d:?\d\d$|Z$)", "", regex=True)
    return iso_times(joined, options.dates)


def stations_of(cells: pd.DataFrame, layout: Layout) -> pd.Series[str]:
    """Return the station of each row of a long table; of the EPA's as 36-001-0012."""
    parts = [ids_of(cells[column]) for column in layout.station]
    if tuple(map(plain, layout.station)) == AQS:
        parts = [part.str.zfill(n) for part, n in zip(parts, AQS_DIGITS, strict=True)]
    return parts[0].str.cat(parts[1:], sep="-")  # type: ignore[arg-type]  # as above


def stations_used(names: Iterable[str], options: FileOptions) -> NDArray[np.bool_]:
    """Return which of some stations the options do not leave out.

    Raises
    ------
    ValueError
        If they leave out one that is not there.
    """
    stations = list(names)
    for each in options.without:
        if each not in stations:
            listed = ", ".join(dict.fromkeys(stations))
            raise ValueError(
                f"{format_option('without', each)}: there is no such station; there are: {listed}"
            )
    return ~np.isin(np.array(stations, dtype=str), options.without)


def select_parameter(cells: pd.DataFrame, layout: Layout, options: FileOptions) -> pd.DataFrame:
    """Return the rows of one parameter.

    Raises
    ------
    ValueError
        If there are several and the options name none, or one that is not there.
    """
    if not layout.parameter:
        if options.parameter:
            raise ValueError(
                f"{format_option('parameter', options.parameter)}: there is no column of parameters; "
                f"{format_option('value', 'COLUMN')} chooses a column"
            )
        return cells
    column = cells[layout.parameter].astype(str).str.strip()
    listed = ", ".join(sorted(set(column)))
    parameter = options.parameter
    if parameter is None:
        if column.nunique() > 1:
            raise ValueError(
                f"there are several parameters: {listed}; choose by {format_option('parameter', 'NAME')}"
            )
        return cells
    rows = cells[column.str.casefold() == parameter.strip().casefold()]
    if rows.empty:
        raise ValueError(
            f"{format_option('parameter', parameter)}: there is none of this name; there are: {listed}"
        )
    return rows


def check_units(
    cells: pd.DataFrame, layout: Layout, options: FileOptions, sites: Iterable[str] | None = None
) -> None:
    """Raise an error if readings of a long table are in several units; spellings do not matter.

    Given sites, the others do not matter, either.
    """
    if not (layout.is_long and layout.unit):
        return
    rows = select_parameter(cells, layout, options)
    stations = stations_of(rows, layout)
    used = stations_used(stations, options) & (True if sites is None else stations.isin([*sites]))
    units = rows[layout.unit][used].astype(str).str.strip()
    counts = units[units != ""].value_counts()
    spellings = counts.index.str.translate(str.maketrans("µμ³²", "uu32", " ^*")).str.casefold()
    if spellings.nunique() > 1:
        listed = ", ".join(f"{count} in {unit}" for unit, count in counts.items())
        raise ValueError(
            f"the readings are in several units ({listed}): write all of them in one, or leave stations "
            f"out by {format_option('without', 'STATION')}"
        )


def codes_of(options: FileOptions) -> list[float]:
    """Return the numbers that stand for no reading by the options."""
    return [float(each.replace(",", ".")) for each in options.missing if _is_code(each)]


def is_gap(cells: pd.Series[Any], options: FileOptions) -> pd.Series[bool]:
    """Return which cells stand for no reading, by usual words or as the options say."""
    codes = codes_of(options)
    numbers = pd.to_numeric(cells, errors="coerce")
    gap = cells.isna() | numbers.isin(codes)
    unread = numbers.isna() & ~gap
    words = cells[unread].astype(str).str.strip()
    gap[unread] = words.str.casefold().isin(GAPS) | words.isin(options.missing)
    return gap.astype(bool)  # before pandas 3 a column of texts may make truth values objects


def _is_code(cell: str) -> bool:
    return re.fullmatch(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?", cell) is not None


def as_values(cells: pd.Series[Any], options: FileOptions, name: str) -> pd.Series[float]:
    """Return cells as floats; one that stands for no reading is NaN.

    Raises
    ------
    ValueError
        If another cell is no finite number.
    """
    gap = is_gap(cells, options)
    numbers = pd.to_numeric(cells.mask(gap), errors="coerce").astype(float)
    wrong = (numbers.isna() & ~gap) | np.isinf(numbers)
    if wrong.any():
        place, cell = cells.index[wrong.to_numpy()][0], cells[wrong].iloc[0]
        where = f" {'in line' if cells.index.name == LINE else 'at'} {place}: {remedy_of(cell)}"
        raise ValueError(f"{name} must hold finite numbers, got {describe(cell)}{where}")
    return numbers


def _check_is_station(column: pd.Series[Any], options: FileOptions) -> None:
    """Raise an error for a column of words alone, which is no station of a wide table."""
    words = column[~is_gap(column, options)]
    if len(words) and is_date_text(str(words.iloc[0])):
        raise ValueError(
            f"column {column.name} has dates, such as {describe(words.iloc[0])}: name the column of "
            f"times by {format_option('time', 'COLUMN')}, and leave the other one out by "
            f"{format_option('without', str(column.name))}"
        )
    if len(words) and not words.astype(str).str.match(r"\s*[-+<>≤≥]?\s*\d").any():
        raise ValueError(
            f"column {column.name} has words alone, such as {describe(words.iloc[0])}: if each row is "
            f"a reading of one station, name their column by {format_option('station', 'COLUMN')}, and "
            f"otherwise leave this one out by {format_option('without', str(column.name))}"
        )


def check_is_wide(cells: pd.DataFrame, times: pd.Series[Any]) -> None:
    """Raise a `ValueError` if each row seems to be a reading of the station that one column names.

    That is so if times repeat, each with other values of the column, of which there are few.

    Parameters
    ----------
    cells : DataFrame
        Without the columns of times.
    times : Series
        Of its rows.
    """
    counts = times.value_counts()
    if len(times) < 2 * len(counts):
        return
    for i, name in enumerate(cells.columns):
        pairs = pd.DataFrame({"time": times.to_numpy(), "cell": cells.iloc[:, i].to_numpy()})
        if pairs["cell"].nunique() <= 2 * counts.iloc[0] and not pairs.duplicated().any():
            raise ValueError(
                f"{counts.index[0]} comes {counts.iloc[0]} times, with another {name} each: if a row is "
                f"a reading of one station, say {format_option('station', str(name))}, and otherwise "
                f"leave this column out by {format_option('without', str(name))}"
            )


def tidy(cells: pd.DataFrame, layout: Layout, options: FileOptions) -> pd.DataFrame:
    """Return the readings of a table, a row for each: station, time and value, by line.

    Of a table with a column for each station, its cells become rows.

    Raises
    ------
    ValueError
        If the parameter, a date or a value is not certain.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.layout import FileOptions, find_columns, tidy
    >>> cells = pd.DataFrame({"time": ["31.01.2026 24:00"], "a": ["1.5"], "b": ["NAN"]})
    >>> print(tidy(cells, find_columns(cells, FileOptions()), FileOptions()))
      station                 time  value
    0       a  2026-02-01 00:00:00    1.5
    0       b  2026-02-01 00:00:00    NaN
    """
    if not layout.is_long:
        times = times_of(cells, layout, options)
        columns = [i for i, name in enumerate(cells.columns) if name not in layout.time]
        counts = Counter(str(cells.columns[i]) for i in columns)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(
                f"{twice[0]} is the name of {counts[twice[0]]} columns: rename one of them"
            )
        is_used = stations_used([as_id(cells.columns[i]) for i in columns], options)
        columns = [i for i, used in zip(columns, is_used, strict=True) if used]
        if not columns:
            raise ValueError(
                f"there is no column of readings beside {' and '.join(layout.time) or 'the times'}: "
                "cells are separated by commas, semicolons, tabs or vertical bars"
            )
        for i in columns:
            _check_is_station(cells.iloc[:, i], options)
        check_is_wide(cells.iloc[:, columns], times)
        blocks = [
            pd.DataFrame(
                {
                    "station": as_id(cells.columns[i]),
                    "time": times,
                    "value": as_values(cells.iloc[:, i], options, f"column {cells.columns[i]}"),
                }
            )
            for i in columns
        ]
        return pd.concat(blocks).sort_index(kind="stable")
    rows = select_parameter(cells, layout, options)
    rows = rows[stations_used(stations_of(rows, layout), options)]
    return pd.DataFrame(
        {
            "station": stations_of(rows, layout),
            "time": times_of(rows, layout, options),
            "value": as_values(rows[layout.value], options, f"column {layout.value}"),
        }
    )


# --- names ------------------------------------------------------------------------------------------


def ids_of(column: pd.Series[Any]) -> pd.Series[str]:
    """Return the id of each cell of a column, as `as_id`."""
    codes, cells = pd.factorize(column, use_na_sentinel=False)
    ids = np.array([as_id(cell) for cell in cells], dtype=object)
    return pd.Series(ids[codes], column.index)

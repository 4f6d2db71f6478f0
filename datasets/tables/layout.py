r"""Layouts of tables of readings as instruments, agencies and spreadsheets write them.

This module determines the layout of a file, so that every command reads the same file in the same way.
`sheets` reads a file into a sheet, whose cells are texts in columns with names; a `Layout` describes the
columns of a sheet; and `tidy` converts both to a frame of station, time and value, with a row for each
reading. If a file can be read in several ways, an error names the field of `FileOptions` that decides.
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

from tvbandits.clock import is_date_text, parse_zone
from tvbandits.datasets.tables.cells import remedy_for_cell
from tvbandits.datasets.tables.headings import (
    as_id,
    find_latitude_and_longitude,
    heading_variants,
    simplify_heading,
)
from tvbandits.datasets.tables.other_rows import GAPS
from tvbandits.datasets.tables.times import (
    CLOCK,
    EPOCHS,
    PAIRS,
    TIMES,
    add_colons,
    are_clocks,
    convert_numeric_dates,
    find_date_parts,
    is_day,
    join_date_parts,
    to_iso_times,
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

# Headings in the form of `simplify_heading`, preferred ones first.
STATIONS = (
    *("location_id", "sensor_id", "station_id", "site_id", "device_id"),
    *("station", "site", "location", "station_no", "station_nr", "station_number", "station_code"),
    *("site_no", "site_number", "site_code", "stations_id", "stationsnummer", "messstellennummer"),
    *("messstelle", "gauge_id", "gauge_no", "gauge", "probe_id", "probe", "sampling_point"),
    *("sensor", "sensor_index", "device", "mote", "moteid", "detector", "stn", "num_poste"),
    *("entity_id",),
    *("station_name", "site_name", "location_name"),
)
AQS = ("state_code", "county_code", "site_num")  # the EPA's columns of a station
AQS_DIGITS = (2, 3, 4)
PARAMETERS = ("parameter", "parameter_name", "pollutant", "variable", "species", "quantity")
VALUES = (
    *("value", "reading", "sample_measurement", "arithmetic_mean", "measurement", "concentration"),
    *("observation", "result", "reward"),
)
UNITS = ("unit", "units", "units_of_measure")
NO_VALUES = {*UNITS, "status", "flag", "qualifier", "quality"}

_TEMPERATURE = "T"  # only a lower-case t is a time
_SAMPLE = 100  # rows from which columns of dates are recognized
LINE = "line"  # the name of an index with the numbers of a file's lines


@dataclass(frozen=True)
class FileOptions:
    """Decisions of the user about files of readings that can be read in several ways.

    Each field is also an option of the commands that read files, such as --missing.

    Attributes
    ----------
    header : int, optional
        The line with the names of the columns.
    decimal : str, optional
        The decimal mark, "comma" or "point".
    dates : str, optional
        The first number in 03/02/2026, "day" or "month"; or the format of dates, "%d.%m.%y %H:%M"; or
        "s", "ms", "us" or "ns", for times counted since 1970 in UTC.
    time, station, value : str, optional
        The columns of time, station and value; several columns are joined with a plus, "Date+Hour".
    parameter : str, optional
        The parameter to read from a table with several.
    degrees : str, optional
        The columns of latitude and longitude, "Y+X"; "none": coordinates are not degrees.
    zone : str, optional
        The time zone of times without an offset from UTC, "Europe/Berlin".
    missing : sequence of str
        Cells that mean a missing reading, such as "-999"; "none": such numbers are readings.
    without : sequence of str
        Stations to leave out.
    keep : sequence of str
        Cells of a column, "qc=1": only rows with one of them are read, or only readings with that flag
        if each station has a column of flags.

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
    zone: str | None = None
    missing: Sequence[str] = ()
    without: Sequence[str] = ()
    keep: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_optional(whole_number, "header", self.header, at_least=1)
        if self.decimal is not None:
            check_choice("decimal", self.decimal, ("comma", "point"))
        if self.dates is not None and "%" not in check_text("dates", self.dates):
            check_choice("dates", self.dates, ("day", "month", *EPOCHS, "%d.%m.%y %H:%M"))
        for name in ("time", "station", "parameter", "value", "degrees"):
            check_optional(check_text, name, getattr(self, name))
        if self.zone is not None:
            parse_zone(self.zone, format_option("zone", self.zone))
        missing = as_list("missing", self.missing, "the cells of no reading, a list")
        object.__setattr__(self, "missing", tuple(str(cell).strip() for cell in missing))
        without = as_list("without", self.without, "the names of stations, a list")
        object.__setattr__(self, "without", tuple(map(as_id, without)))
        keep = tuple(map(str, as_list("keep", self.keep, 'texts such as "qc=1", a list')))
        for text in keep:
            if not text.partition("=")[0].strip() or "=" not in text:
                raise ValueError(f"{format_option('keep', text)} must be COLUMN=CELL, such as qc=1")
        object.__setattr__(self, "keep", keep)


NO_OPTIONS = FileOptions()


def columns_of_option(options: FileOptions, name: str, columns: Iterable[object]) -> list[str]:
    """Return the columns that an option such as `time` names, which may be joined by a plus.

    A plus may also be part of the name of a column, such as "Date Time, GMT+01:00".
    """
    option = getattr(options, name) or ""
    if option and simplify_heading(option) in map(simplify_heading, columns):
        return [option]
    return [part.strip() for part in option.split("+") if part.strip()]


def options_of_sites(options: FileOptions, cells: pd.DataFrame) -> FileOptions:
    """Return options for a table of sites: those for readings, without columns that the table lacks.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.layout import FileOptions, options_of_sites
    >>> options = FileOptions(time="hour", station="Site")
    >>> options_of_sites(options, pd.DataFrame({"site": ["a"], "x": [0], "y": [1]})).time is None
    True
    """
    names = {simplify_heading(column) for column in cells.columns}
    absent: dict[str, Any] = {
        name: None
        for name in ("time", "station", "value")
        if not set(map(simplify_heading, columns_of_option(options, name, cells.columns))) <= names
    }
    return replace(options, **absent)


@dataclass(frozen=True)
class Layout:
    """A description of the columns of a table.

    A long table has a row for each reading, a wide one a column for each station.

    Attributes
    ----------
    time, station : tuple of str
        The columns of time and of station; a wide table has none of station.
    parameter, unit : str
        The columns of parameter and of unit in a long table, or "".
    values : tuple of str
        The columns of a long table that may be that of the value.
    places : tuple of str
        The columns of latitude and longitude.
    """

    time: tuple[str, ...]
    station: tuple[str, ...] = ()
    parameter: str = ""
    values: tuple[str, ...] = ()
    unit: str = ""
    places: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """Return the column of the value; raise a `ValueError` unless exactly one is possible."""
        if len(self.values) != 1:
            problem = (
                f"may be any of {', '.join(self.values)}"
                if self.values
                else "is in no column of numbers"
            )
            raise ValueError(
                f"the value {problem}: say which by {format_option('value', 'COLUMN')}"
            )
        return self.values[0]

    @property
    def is_long(self) -> bool:
        """Return whether the table has a row for each reading, and not a column for each station."""
        return bool(self.station)


# --- from its cells to the layout -------------------------------------------------------------------


def find_columns(cells: pd.DataFrame, options: FileOptions) -> Layout:
    """Return the columns of time, station, parameter, value and place.

    Raises
    ------
    ValueError
        If an option names a column that does not exist.

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
    dated = () if time or not station else find_dated_columns(cells, station)
    if not (station and (time or dated or options.station)):
        return Layout(time or tuple(map(str, cells.columns[:1])))
    time = time or (dated if len(dated) == 1 else ())
    degrees = find_latitude_and_longitude(cells.columns)
    places = columns.present("degrees") or tuple(name for name in degrees if name is not None)
    parameter, unit = columns.first(PARAMETERS), columns.first(UNITS)
    value = columns.by_option("value") or columns.first(VALUES)
    if not value:
        others = {*time, *dated, *station, *places, *parameter, *unit}
        other_names = {*STATIONS, *TIMES, *NO_VALUES, *AQS}
        value = tuple(
            column
            for column in dict.fromkeys(map(str, cells.columns))
            if column not in others
            and (simplify_heading(column) not in other_names or column == _TEMPERATURE)
            and has_numbers(cells[column])
        )
    places = places if len(places) == 2 else ()
    return Layout(time, station, "".join(parameter), value, "".join(unit), places)


def find_station_columns(cells: pd.DataFrame, options: FileOptions) -> tuple[str, ...]:
    """Return the columns of the station, by an option or by their headings; times are not needed."""
    return _Columns(cells, options).station()


def find_time_columns(cells: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns of the time by their headings."""
    return _Columns(cells, NO_OPTIONS).time()


def find_dated_columns(cells: pd.DataFrame, station: Sequence[str]) -> tuple[str, ...]:
    """Return the columns with dates in their cells, for a table with several rows for a station."""
    if not cells.duplicated([*station]).any():
        return ()
    samples = {str(name): cells[name].iloc[:_SAMPLE].astype(str) for name in dict.fromkeys(cells)}
    return tuple(
        name
        for name, sample in samples.items()
        if name not in station and convert_numeric_dates(sample).map(is_date_text).all()
    )


class _Columns:
    """The columns of a table, which are found by variants of their headings."""

    def __init__(self, cells: pd.DataFrame, options: FileOptions) -> None:
        self._cells, self._options = cells, options
        self._names = {simplify_heading(column): str(column) for column in reversed(cells.columns)}
        # With separated words, as in "sensorId".
        self._words = {
            heading_variants(column)[1]: str(column) for column in reversed(cells.columns)
        }
        # Without a unit or a zone, as in "Time (UTC)". For a station, these are part of the name.
        self._bare = {
            heading_variants(column)[2]: str(column) for column in reversed(cells.columns)
        }

    def first(self, choices: Sequence[str], *, bare: bool = False) -> tuple[str, ...]:
        """Return the column of the first heading among some that exists, or ()."""
        # "locationId" stands before "location", as "location_id" does.
        for variants in ((self._names, self._words), *([(self._bare,)] if bare else [])):
            for heading in choices:
                for names in variants:
                    if heading in names:
                        return (names[heading],)
        return ()

    def by_option(self, option: str) -> tuple[str, ...]:
        """Return the columns that an option names; raise a `ValueError` if one does not exist."""
        columns = columns_of_option(self._options, option, self._cells.columns)
        for column in columns:
            if simplify_heading(column) not in self._names:
                listed = ", ".join(map(str, self._cells.columns))
                raise ValueError(
                    f"{format_option(option, column)}: there is no such column; there are: {listed}"
                )
        return tuple(self._names[simplify_heading(column)] for column in columns)

    def present(self, option: str) -> tuple[str, ...]:
        """Return the columns that an option names, or () if it is about another table.

        Raises
        ------
        ValueError
            If the table has only some of these columns.
        """
        columns = columns_of_option(self._options, option, self._cells.columns)
        has_any = any(simplify_heading(column) in self._names for column in columns)
        return self.by_option(option) if has_any else ()

    def time(self) -> tuple[str, ...]:
        """Return the columns of the time; if there are two, the second one has times of day."""
        pairs = [self.first([a]) + self.first([b]) for a, b in PAIRS]
        pairs = [pair for pair in pairs if len(pair) == 2 and are_clocks(self._cells[pair[1]])]
        dates = pairs[0] if pairs else self.first(TIMES, bare=True)
        dates = () if dates == (_TEMPERATURE,) else dates
        parts = find_date_parts(self._cells.columns)
        # A column of days of the month is a time only together with year and month.
        columns = parts if {*dates} <= {*parts} else (*dates, *self._find_clock(dates))
        return self.by_option("time") or columns

    def _find_clock(self, dates: tuple[str, ...]) -> tuple[str, ...]:
        """Return the only column of times of day, if the column of dates has only days; else ()."""
        if len(dates) != 1 or not all(map(is_day, self._cells[dates[0]].unique())):
            return ()
        clocks = [
            str(name)
            for name in dict.fromkeys(self._cells)
            if self._cells[name].astype(str).str.fullmatch(CLOCK).all()
        ]
        return tuple(clocks) if len(clocks) == 1 else ()

    def station(self) -> tuple[str, ...]:
        """Return the column of the station, or the EPA's three columns."""
        aqs = tuple(column for name in AQS for column in self.first([name]))
        return self.by_option("station") or (aqs if len(aqs) == len(AQS) else self.first(STATIONS))


def has_numbers(column: pd.Series[Any]) -> bool:
    """Return whether any cell of a column is a number."""
    return bool(pd.to_numeric(column, errors="coerce").notna().any())


def is_numbering(index: pd.Index[Any]) -> bool:
    """Return whether an index contains only the numbers of rows, or of a file's lines."""
    return index.name in (None, LINE) and pd.api.types.is_integer_dtype(index.dtype)


def move_index_to_column(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its index as the first column, unless that has only the numbers of rows."""
    return table.reset_index(drop=is_numbering(table.index))


# --- from the layout to readings --------------------------------------------------------------------


def read_times(cells: pd.DataFrame, layout: Layout, options: FileOptions) -> pd.Series[Any]:
    """Return the times of the rows, with dates as texts of ISO 8601."""
    columns = [cells[column] for column in layout.time]
    if not columns:
        listed = " or ".join(find_dated_columns(cells, layout.station)) or "in any column"
        raise ValueError(
            f"the time may be {listed}: say which by {format_option('time', 'COLUMN')}"
        )
    stations = read_stations(cells, layout) if options.zone and layout.is_long else None
    how = options.dates, options.zone, stations
    if layout.time and not options.time:
        _check_times_are_complete(cells, layout)
    if layout.time and find_date_parts(layout.time) == layout.time:
        return to_iso_times(join_date_parts(cells[[*layout.time]]), *how)
    if len(columns) == 1:
        return to_iso_times(columns[0], *how)
    dates, *others = (column.astype(str).str.strip() for column in columns)
    dates = dates.str.replace(r"^(\d{4})(\d\d)(\d\d)$", r"\1-\2-\3", regex=True)
    clocks = [add_colons(clock) for clock in others]
    joined = dates.str.cat(clocks, sep=" ")  # type: ignore[arg-type]  # stubs lack lists of Series
    joined = joined.str.strip().str.replace(r" (?=[+-]\d\d:?\d\d$|Z$)", "", regex=True)
    return to_iso_times(joined, *how)


def _check_times_are_complete(cells: pd.DataFrame, layout: Layout) -> None:
    """Raise a `ValueError` if a table has a column of the year that is no part of its times."""
    if not all(
        simplify_heading(name) in ("year", "hour", "hr", "day", "t") for name in layout.time
    ):
        return
    words = {simplify_heading(name): str(name) for name in reversed(cells.columns)}
    parts = [
        (words[name], code)
        for name, code in (
            ("year", "%Y"),
            ("doy", "%j"),
            ("jday", "%j"),
            ("hour", "%H"),
            ("hr", "%H"),
        )
        if name in words
    ]
    if "year" in words and len(parts) > 1:
        columns, codes = zip(*parts, strict=True)
        raise ValueError(
            f"{' and '.join(layout.time)} may be a part of the time, as there are columns "
            f"{', '.join(columns)}: name all parts of it, and how they are written, as by "
            f"{format_option('time', '+'.join(columns))} {format_option('dates', ' '.join(codes))}"
        )


def read_stations(cells: pd.DataFrame, layout: Layout) -> pd.Series[str]:
    """Return the station of each row of a long table; the EPA's are written 36-001-0012."""
    parts = [read_ids(cells[column]) for column in layout.station]
    for part in parts:
        if (part == "").any():
            line = part.index[part == ""][0]
            position = f"{'line' if part.index.name == LINE else 'row'} {line}"
            raise ValueError(
                f"{part.name} must name a station in every row, and is empty in {position}: remove the "
                "row if it is no reading"
            )
    if tuple(map(simplify_heading, layout.station)) == AQS:
        parts = [part.str.zfill(n) for part, n in zip(parts, AQS_DIGITS, strict=True)]
    return parts[0].str.cat(parts[1:], sep="-")  # type: ignore[arg-type]  # as above


def stations_mask(names: Iterable[str], options: FileOptions) -> NDArray[np.bool_]:
    """Return a mask of the stations that the options do not leave out.

    Raises
    ------
    ValueError
        If the options leave out a station that does not exist.
    """
    stations = list(names)
    for name in options.without:
        if name not in stations:
            listed = ", ".join(dict.fromkeys(stations))
            raise ValueError(
                f"{format_option('without', name)}: there is no such station; there are: {listed}"
            )
    return ~np.isin(np.array(stations, dtype=str), options.without)


def select_parameter(cells: pd.DataFrame, layout: Layout, options: FileOptions) -> pd.DataFrame:
    """Return the rows of the parameter that the options name, or of the only one.

    Raises
    ------
    ValueError
        If there are several and the options name none, or the named one does not exist.
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
) -> str:
    """Return the unit of the readings of a long table, or of some sites; "" if it has none.

    Spellings of the same unit are not several units.

    Raises
    ------
    ValueError
        If there are several units.
    """
    if not (layout.is_long and layout.unit):
        return ""
    rows = select_parameter(cells, layout, options)
    stations = read_stations(rows, layout)
    used = stations_mask(stations, options) & (True if sites is None else stations.isin([*sites]))
    units = rows[layout.unit][used].astype(str).str.strip()
    counts = units[units != ""].value_counts()
    names = counts.index.str.translate(str.maketrans("µμ³²", "uu32", " ^*")).str.casefold()
    if names.nunique() > 1:
        listed = ", ".join(f"{count} in {unit}" for unit, count in counts.items())
        raise ValueError(
            f"the readings are in several units ({listed}): write all of them in one, or leave stations "
            f"out by {format_option('without', 'STATION')}"
        )
    return str(names[0]) if len(names) else ""


def missing_codes(options: FileOptions) -> list[float]:
    """Return the numbers that mean a missing reading according to the options."""
    return [float(code.replace(",", ".")) for code in options.missing if _is_code(code)]


def is_gap(cells: pd.Series[Any], options: FileOptions) -> pd.Series[bool]:
    """Return a mask of the cells that mean a missing reading, by usual words or by the options."""
    codes = missing_codes(options)
    numbers = pd.to_numeric(cells, errors="coerce")
    gap = cells.isna() | numbers.isin(codes)
    is_text = numbers.isna() & ~gap
    words = cells[is_text].astype(str).str.strip()
    gap[is_text] = words.str.casefold().isin(GAPS) | words.isin(options.missing)
    return gap.astype(bool)  # before pandas 3, the mask of a column of texts may have type object


def _is_code(cell: str) -> bool:
    return re.fullmatch(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?", cell) is not None


def parse_values(cells: pd.Series[Any], options: FileOptions, name: str) -> pd.Series[float]:
    """Return cells as floats, with NaN for a missing reading.

    Raises
    ------
    ValueError
        If another cell is not a finite number.
    """
    gap = is_gap(cells, options)
    numbers = pd.to_numeric(cells.mask(gap), errors="coerce").astype(float)
    wrong = (numbers.isna() & ~gap) | np.isinf(numbers)
    if wrong.any():
        row, cell = cells.index[wrong.to_numpy()][0], cells[wrong].iloc[0]
        position = f"{'in line' if cells.index.name == LINE else 'at'} {row}"
        raise ValueError(
            f"{name} must hold finite numbers, got {describe(cell)} {position}: {remedy_for_cell(cell)}"
        )
    return numbers


def _check_are_stations(cells: pd.DataFrame, times: pd.Series[Any], options: FileOptions) -> None:
    """Raise a `ValueError` for columns with only words or dates, which are no stations of a wide table.

    A column of words may be that of the station if its words differ among the rows of each time.
    """
    texts = {
        str(name): filled.astype(str)
        for name, column in cells.items()
        if len(filled := column[~is_gap(column, options)])
    }
    words = [
        name for name, filled in texts.items() if not filled.str.match(r"\s*[-+<>≤≥]?\s*\d").any()
    ]
    if words:
        keys = {
            name: pd.DataFrame({"time": times.to_numpy(), "cell": cells[name].to_numpy()})
            for name in words
        }
        stations = [name for name in words if not keys[name].duplicated().any()]
        name = (stations or words)[0]
        is_long = bool(stations) and times.duplicated().any()
        option = format_option("station", name if is_long else "COLUMN")
        omissions = format_option("without", *words)
        raise ValueError(
            f"column {name} has words alone, such as {describe(texts[name].iloc[0])}: if each row is a "
            f"reading of one station, name their column by {option}, and otherwise leave "
            f"{'these columns' if len(words) > 1 else 'this one'} out by {omissions}"
        )
    for name, dates in texts.items():
        if is_date_text(dates.iloc[0]):
            raise ValueError(
                f"column {name} has dates, such as {describe(dates.iloc[0])}: name the column of times "
                f"by {format_option('time', 'COLUMN')}, and leave the other one out by "
                f"{format_option('without', name)}"
            )


def check_is_wide(cells: pd.DataFrame, times: pd.Series[Any]) -> None:
    """Raise a `ValueError` if a table seems to be long, with a column that is not known as the station.

    It seems so if times repeat, and a column has few different values, all different at each time.

    Parameters
    ----------
    cells : DataFrame
        The table without the columns of times.
    times : Series
        The times of its rows.
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
    """Return the readings of a table with a row for each: station, time and value, sorted by line.

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
        times = read_times(cells, layout, options)
        columns = [i for i, name in enumerate(cells.columns) if name not in layout.time]
        counts = Counter(str(cells.columns[i]) for i in columns)
        if duplicates := [name for name, count in counts.items() if count > 1]:
            name = duplicates[0]
            raise ValueError(f"{name} is the name of {counts[name]} columns: rename one of them")
        is_used = stations_mask([as_id(cells.columns[i]) for i in columns], options)
        columns = [i for i, used in zip(columns, is_used, strict=True) if used]
        if not columns:
            raise ValueError(
                f"there is no column of readings beside {' and '.join(layout.time) or 'the times'}: "
                "cells are separated by commas, semicolons, tabs or vertical bars"
            )
        _check_are_stations(cells.iloc[:, columns], times, options)
        check_is_wide(cells.iloc[:, columns], times)
        blocks = [
            pd.DataFrame(
                {
                    "station": as_id(cells.columns[i]),
                    "time": times,
                    "value": parse_values(cells.iloc[:, i], options, f"column {cells.columns[i]}"),
                }
            )
            for i in columns
        ]
        return pd.concat(blocks).sort_index(kind="stable")
    rows = select_parameter(cells, layout, options)
    rows = rows[stations_mask(read_stations(rows, layout), options)]
    return pd.DataFrame(
        {
            "station": read_stations(rows, layout),
            "time": read_times(rows, layout, options),
            "value": parse_values(rows[layout.value], options, f"column {layout.value}"),
        }
    )


# --- names ------------------------------------------------------------------------------------------


def read_ids(column: pd.Series[Any]) -> pd.Series[str]:
    """Return the id of each cell of a column (see `as_id`)."""
    codes, cells = pd.factorize(column, use_na_sentinel=False)
    ids = np.array([as_id(cell) for cell in cells], dtype=object)
    return pd.Series(ids[codes], column.index, name=column.name)

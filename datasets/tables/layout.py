r"""Tables of readings as instruments, agencies and spreadsheets write them.

This module finds out how a file is laid out, so that every command reads the same file in the same way.
A file becomes a `Sheet`, its cells as texts under their names; the columns of a sheet are described by a
`Layout`; and the two become a frame of station, time and value, a row for each reading.

What a file leaves open is an error, which names the option that decides it: a field of `FileOptions`.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tvbandits.clock import is_date_text
from tvbandits.datasets.tables.cells import plain_numbers, remedy_of
from tvbandits.datasets.tables.headings import as_id, latitude_and_longitude, plain
from tvbandits.datasets.tables.other_rows import GAPS, end_lines, sum_lines, unit_lines
from tvbandits.datasets.tables.spreadsheets import (
    is_parquet,
    read_csv,
    read_parquet,
    unpack,
    with_points,
)
from tvbandits.datasets.tables.times import (
    PAIRS,
    TIMES,
    are_clocks,
    date_parts,
    iso_times,
    join_date_parts,
    with_colons,
)
from tvbandits.io import check_size
from tvbandits.option_text import format_option
from tvbandits.validation import (
    as_list,
    check_choice,
    check_optional,
    check_text,
    describe,
    whole_number,
)

# The first bytes of workbooks: of zip archives, as Excel and LibreOffice write them, and of older Excel.
WORKBOOKS = (b"PK\3\4", b"\xd0\xcf\x11\xe0")

# Headings as `plain` writes them, the one to prefer first.
STATIONS = (
    *("location_id", "sensor_id", "station_id", "site_id", "device_id"),
    *("station", "site", "location", "station_no", "station_nr", "station_number", "station_code"),
    *("site_no", "site_number", "site_code", "stations_id", "stationsnummer", "messstellennummer"),
    *("messstelle", "gauge_id", "gauge_no", "gauge", "probe_id", "probe"),
    *("sensor", "device", "mote", "moteid", "detector"),
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

LINE = "line"  # the name of an index of numbers of lines

_SAMPLE = 200  # lines, of which separator and names are found out
# Marks before three digits which, beside each separator, may be decimal ones or stand between thousands:
# only people who write decimal points separate cells by commas, and decimal commas by semicolons.
DOUBTFUL = {";": ".", "\t": ".,"}
SEPARATORS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "vertical bar"}
ENCODINGS = {"utf-8-sig": "UTF-8", "cp1252": "Windows-1252", "utf-16": "UTF-16"}


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
        What comes first in 03/02/2026, the "day" or the "month".
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
        for name, words in (("decimal", ("comma", "point")), ("dates", ("day", "month"))):
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), words)
        for name in ("time", "station", "parameter", "value", "degrees"):
            check_optional(check_text, name, getattr(self, name))
        missing = as_list("missing", self.missing, "the cells of no reading, a list")
        object.__setattr__(self, "missing", tuple(str(each).strip() for each in missing))
        without = as_list("without", self.without, "the names of stations, a list")
        object.__setattr__(self, "without", tuple(map(as_id, without)))


NO_OPTIONS = FileOptions()


def columns_of_option(options: FileOptions, name: str) -> list[str]:
    """Return the columns that an option such as `time` names, several in "Date+Hour"."""
    return [each.strip() for each in (getattr(options, name) or "").split("+") if each.strip()]


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
        if not {plain(each) for each in columns_of_option(options, name)} <= names
    }
    return replace(options, **absent)


@dataclass(frozen=True)
class Sheet:
    """The cells of a file under their names, and where they stood.

    Attributes
    ----------
    cells : DataFrame
        Texts of a csv; the index `LINE` has the numbers of their lines.
    encoding, separator, decimal : str
        The decimal mark is empty where no number shows one.
    header : int
        The line of the names.
    titles : tuple of int
        Lines that hold no readings: titles, and the last ones such as "End".
    units, sums : tuple of int
        Lines of units below the names, and of means and sums at the end.
    unit_of : mapping of str to str
        The unit of each column in the first of these lines.
    repeats : int
        The number of lines that repeat the names.
    """

    cells: pd.DataFrame
    encoding: str = ""
    separator: str = ""
    decimal: str = ""
    header: int = 1
    titles: tuple[int, ...] = ()
    units: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    unit_of: Mapping[str, str] = field(default_factory=dict)
    repeats: int = 0

    @property
    def omissions(self) -> list[str]:
        """The rows of units and of sums that are left out, in words."""
        rows = {"units": len(self.units), "sums": len(self.sums)}
        return [f"{n} row{'s' * (n > 1)} of {what}" for what, n in rows.items() if n]


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


# --- from a file to its cells -----------------------------------------------------------------------


def read_sheet(path: Path, options: FileOptions, *, may_be_empty: bool = False) -> Sheet:
    r"""Return the cells of a csv, also a packed one, or of a Parquet file.

    Parameters
    ----------
    path : Path
    options : FileOptions
    may_be_empty : bool
        Whether a header without rows will do, as of a day without readings.

    Raises
    ------
    ValueError, OSError
        If it cannot be read, or has no row; see `tvbandits.io.name_file_in_errors`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.layout import FileOptions, read_sheet
    >>> size = Path("hall.csv").write_text("Hall 3\ntime;a\n;Grad C\n1;1,5\n")
    >>> sheet = read_sheet(Path("hall.csv"), FileOptions())
    >>> print(sheet.cells.to_dict("index"), sheet.titles, sheet.units)
    {4: {'time': '1', 'a': '1.5'}} (1,) (3,)
    """
    sheet = _read_sheet(path, options)
    if sheet.cells.empty and not may_be_empty:
        raise ValueError("the table has a header and no rows")
    return sheet


def _read_sheet(path: Path, options: FileOptions) -> Sheet:
    if is_parquet(path):
        return Sheet(read_parquet(path), "Parquet")
    try:
        return _read_text(path, options, "utf-8-sig")
    except UnicodeDecodeError:
        return _read_text(path, options, "cp1252")


def _read_text(path: Path, options: FileOptions, encoding: str) -> Sheet:
    frame, separator, rows, encoding = _read_cells(path, encoding)
    header = options.header or _find_header(rows)
    if header not in frame.index:
        raise ValueError(
            f"{format_option('header', header)}: there is no such line, or it is empty"
        )
    names = frame.loc[header].str.strip()
    _check_names(names, header)
    above, body = frame.loc[: header - 1], frame.loc[header + 1 :]
    _check_one_table(body)
    repeats = (body.apply(lambda column: column.str.strip()) == names).all(axis=1)
    body = body[~repeats]
    empty = _unnamed_columns(body, names, header, separator)
    body, above, names = (body.drop(columns=empty), above.drop(columns=empty), names.drop(empty))
    cells = body.set_axis(list(names), axis=1)
    stations = station_columns(cells, NO_OPTIONS)
    cells = plain_numbers(cells, {*stations, *columns_of_option(options, "station")})
    time, is_long = _time_place(cells, options), bool(stations)
    units = [] if is_long and time is not None else unit_lines(cells, time)
    ends = end_lines(cells)
    sums = sum_lines(cells.drop(index=[*units, *ends]), time)
    unit_of = dict(zip(names, cells.loc[units[0]].str.strip(), strict=True)) if units else {}
    # A mean such as 1.004,9 shows what the marks of its column mean.
    cells, decimal = _with_points(cells.drop(index=[*units, *ends]), separator, options)
    cells = cells.drop(index=sums)
    titles = [*above.index, *ends]
    if len(above) and str(above.iloc[-1, 0]).strip() == "" and len(set(names)) < len(names):
        cells = _ungroup(cells, above.iloc[-1].str.strip())
        titles.remove(above.index[-1])
    return Sheet(
        cells,
        ENCODINGS[encoding],
        separator,
        decimal,
        header,
        titles=tuple(titles),
        units=tuple(units),
        sums=tuple(sums),
        unit_of=unit_of,
        repeats=int(repeats.sum()),
    )


def _read_cells(path: Path, encoding: str) -> tuple[pd.DataFrame, str, list[list[str]], str]:
    """Return the cells of a csv by line, its separator, its first rows, and its encoding."""
    with unpack(path) as stream:
        start = stream.peek()
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            encoding = "utf-16"
        elif start.startswith(WORKBOOKS):
            raise ValueError(
                "a workbook or an archive, not a text: open it, save its sheet as CSV (File, Save as, "
                "CSV UTF-8), and give that file"
            )
        elif b"\0" in start[: 1 << 16]:
            raise ValueError("a binary file of a kind that is not known: export it as csv")
        lines = start.decode(encoding, "replace").splitlines()[:_SAMPLE]
        separator, rows = _split(lines)
        width = max(map(len, rows), default=1)
        check_size("columns", width)
        frame = read_csv(
            stream,
            separator=separator,
            header=None,
            names=range(width),
            dtype=str,
            na_filter=False,
            skip_blank_lines=False,
            encoding=encoding,
            encoding_errors="replace" if encoding == "cp1252" else "strict",
        )
    lines_of_file = pd.RangeIndex(1, len(frame) + 1, name=LINE)
    frame = frame.fillna("").set_axis(lines_of_file, axis=0)
    return frame[(frame != "").any(axis=1)], separator, rows, encoding


def _check_one_table(body: pd.DataFrame) -> None:
    """Raise a `ValueError` if names of columns stand below an empty line, with rows below them."""
    lines = body.index.to_numpy()
    for i in np.flatnonzero(np.diff(lines) > 1) + 1:
        cells = [str(each).strip() for each in body.iloc[i] if each.strip()]
        if i + 1 < len(lines) and len(cells) > 1 and not re.search(r"\d", "".join(cells)):
            raise ValueError(
                f"a second table begins in line {lines[i]} ({', '.join(cells)}): put it into a file of "
                "its own"
            )


def _check_names(names: pd.Series[str], header: int) -> None:
    """Raise a `ValueError` if a line of names holds a date, and so is one of readings."""
    for name in names:
        if is_date_text(name):
            raise ValueError(
                f"line {header} should have the names of the columns and has {name!r}: write names "
                f"above the readings, or say where they are by {format_option('header', 'LINE')}"
            )


def _unnamed_columns(
    body: pd.DataFrame, names: pd.Series[str], header: int, separator: str
) -> list[int]:
    """Return the columns without a name and without a cell; a cell without a name is a `ValueError`.

    The first column may have cells without a name; it is returned if these only count the rows.
    """
    unnamed = [column for column in names.index if names[column] == ""]
    for column in unnamed:
        filled = body.index[body[column].str.strip() != ""]
        if column and len(filled):
            raise ValueError(
                f"line {filled[0]} has {body.at[filled[0], column]!r} in column {column + 1}, which "
                f"has no name in line {header}: name it, or put a cell with {separator!r} in quotes"
            )
    empty = [column for column in unnamed if (body[column] == "").all()]
    counts = [str(n) for n in range(len(body) + 1)]
    numbers = body[0].str.strip().to_list()
    has_time = not _plain([*names]).isdisjoint(TIMES)
    is_counter = names[0] == "" and has_time and numbers in (counts[:-1], counts[1:])
    return [0, *empty] if is_counter and 0 not in empty else empty


def _with_points(
    cells: pd.DataFrame, separator: str, options: FileOptions
) -> tuple[pd.DataFrame, str]:
    """Return cells whose numbers have decimal points, and the decimal mark that they had."""
    decimal = options.decimal or "point"
    if separator == "," and not options.decimal:
        return cells, decimal
    degrees = [each for each in latitude_and_longitude(cells.columns) if each is not None]
    points = with_points(cells.copy(), options.decimal, DOUBTFUL.get(separator, ""), degrees)
    changes = cells.to_numpy()[(cells != points).to_numpy()]
    return points, "comma" if any("," in each for each in changes) else decimal


def _split(lines: list[str]) -> tuple[str, list[list[str]]]:
    """Return the separator with which most lines have the same number of cells, and their cells."""
    best, rows, agreeing = ",", [[line] for line in lines], 0
    for separator in SEPARATORS:
        try:
            cells = list(csv.reader(lines, delimiter=separator))
        except csv.Error:
            continue
        widths = Counter(len(row) for row in cells if len(row) > 1)
        most = max(widths.values(), default=0)
        if most > agreeing:
            best, rows, agreeing = separator, cells, most
    return best, rows


def _find_header(rows: list[list[str]]) -> int:
    """Return the line of the names: the first with that of a time, or with a name for most columns."""
    times = {*TIMES, *(name for pair in PAIRS for name in pair)}
    filled = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    named = [
        line for line, cells in enumerate(filled, 1) if len(cells) > 1 and _plain(cells) & times
    ]
    widths = Counter(len(cells) for cells in filled if cells)
    usual = max(widths, key=lambda width: widths[width], default=1)
    full = [line for line, cells in enumerate(filled, 1) if len(cells) >= max(usual - 1, 2)]
    first = [line for line, cells in enumerate(filled, 1) if cells]
    return (named or full or first or [1])[0]


def _plain(names: Sequence[str]) -> set[str]:
    return {plain(name) for name in names}


def _time_place(cells: pd.DataFrame, options: FileOptions) -> int | None:
    """Return the place of the column of times, by its name, or the first if it has dates; else None."""
    names = [plain(each) for each in cells.columns]
    for each in (*map(plain, columns_of_option(options, "time")), *map(plain, _time_names(cells))):
        if each in names:
            return names.index(each)
    has_dates = bool(cells.iloc[:, 0].map(is_date_text).any()) if len(cells.columns) else False
    return 0 if has_dates else None


def _time_names(cells: pd.DataFrame) -> tuple[str, ...]:
    return _Columns(cells, NO_OPTIONS).time()


def _ungroup(cells: pd.DataFrame, stations: pd.Series[str]) -> pd.DataFrame:
    """Return rows of station, parameter and value of a table with stations above equal names."""
    above = stations.replace("", None).ffill().fillna("").to_numpy()
    keys = cells.loc[:, above == ""]
    parts = [
        keys.assign(station=above[i], parameter=name, value=cells.iloc[:, i])
        for i, name in enumerate(cells.columns)
        if above[i] and plain(name) not in NO_VALUES
    ]
    rows: pd.DataFrame = pd.concat(parts).sort_index(kind="stable")
    return rows


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
    if not (time and station):
        return Layout(time or tuple(map(str, cells.columns[:1])))
    degrees = latitude_and_longitude(cells.columns)
    places = columns.present("degrees") or tuple(each for each in degrees if each is not None)
    parameter, unit = columns.first(PARAMETERS), columns.first(UNITS)
    value = columns.by_option("value") or columns.first(VALUES)
    if not value:
        others = {*time, *station, *places, *parameter, *unit}
        other_names = {*STATIONS, *TIMES, *NO_VALUES, *AQS}
        value = tuple(
            column
            for column in dict.fromkeys(map(str, cells.columns))
            if column not in others
            and plain(column) not in other_names
            and has_numbers(cells[column])
        )
    places = places if len(places) == 2 else ()
    return Layout(time, station, "".join(parameter), value, "".join(unit), places)


def station_columns(cells: pd.DataFrame, options: FileOptions) -> tuple[str, ...]:
    """Return the columns of the station by an option or by their headings, also without times."""
    return _Columns(cells, options).station()


class _Columns:
    """The columns of a table by their plain names."""

    def __init__(self, cells: pd.DataFrame, options: FileOptions) -> None:
        self._cells, self._options = cells, options
        self._names = {plain(column): str(column) for column in reversed(cells.columns)}

    def first(self, choices: Sequence[str]) -> tuple[str, ...]:
        """Return the first of some names that is there."""
        return next(((self._names[each],) for each in choices if each in self._names), ())

    def by_option(self, option: str) -> tuple[str, ...]:
        """Return the columns that an option names, if any."""
        columns = columns_of_option(self._options, option)
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
        columns = columns_of_option(self._options, option)
        is_here = any(plain(each) in self._names for each in columns)
        return self.by_option(option) if is_here else ()

    def time(self) -> tuple[str, ...]:
        """Return the columns of the time, of which a second one has hours."""
        pairs = [self.first([a]) + self.first([b]) for a, b in PAIRS]
        pairs = [each for each in pairs if len(each) == 2 and are_clocks(self._cells[each[1]])]
        dated, parts = pairs[0] if pairs else self.first(TIMES), date_parts(self._cells.columns)
        # The day of a month is no time: with year and month it is.
        return self.by_option("time") or (parts if {*dated} <= {*parts} else dated)

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

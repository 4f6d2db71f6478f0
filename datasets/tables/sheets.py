"""Sheets, which have the cells of a file with readings as texts, in columns with names.

A sheet also has the numbers of the lines that it leaves out: titles, units, sums and repeated names.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tvbandits.clock import is_date_text
from tvbandits.datasets.tables.cells import simplify_numbers
from tvbandits.datasets.tables.flags import select_readings
from tvbandits.datasets.tables.headings import (
    find_latitude_and_longitude,
    heading_variants,
    simplify_heading,
)
from tvbandits.datasets.tables.layout import (
    LINE,
    NO_OPTIONS,
    NO_VALUES,
    FileOptions,
    columns_of_option,
    find_station_columns,
    find_time_columns,
    move_index_to_column,
)
from tvbandits.datasets.tables.other_rows import (
    find_end_lines,
    find_sum_lines,
    find_unit_lines,
    find_width_lines,
)
from tvbandits.datasets.tables.spreadsheets import (
    convert_decimal_marks,
    is_parquet,
    read_csv,
    read_parquet,
    unpack,
)
from tvbandits.datasets.tables.times import PAIRS, TIMES, expand_years, is_day
from tvbandits.io import check_size
from tvbandits.option_text import format_option

# The first bytes of workbooks: of zip archives, as Excel and LibreOffice write them, and of older Excel.
WORKBOOKS = (b"PK\3\4", b"\xd0\xcf\x11\xe0")

_SAMPLE = 200  # lines from which the separator and the line of names are determined
# Marks before three digits that are ambiguous with each separator of cells: they may be decimal marks or
# separate thousands. Files with commas between cells have decimal points, unless commas are in cells.
DOUBTFUL = {";": ".", "\t": ".,", ",": ","}
SEPARATORS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "vertical bar"}
# The name of a column with the readings of one hour of each day.
_HOUR = re.compile(r"[Hh]?(\d\d)(?::00)?")
# The first cells of lines that InfluxDB writes above the names of each table.
_ANNOTATIONS = {"#group", "#datatype", "#default"}
ENCODINGS = {"utf-8-sig": "UTF-8", "cp1252": "Windows-1252", "utf-16": "UTF-16"}


@dataclass(frozen=True)
class Sheet:
    """The cells of a file in columns with names, and the lines of its other parts.

    Attributes
    ----------
    cells : DataFrame
        Cells, which are texts for a CSV; the index `LINE` has the numbers of their lines.
    encoding, separator, decimal : str
        The decimal mark is empty for a table that is not from a CSV.
    header : int
        The line of the names.
    titles : tuple of int
        Other lines without readings: titles at the beginning, and words at the end.
    units, sums : tuple of int
        Lines of units below the names, and lines of means and sums at the end.
    unit_of : mapping of str to str
        The unit of each column in the first line of units.
    repeats : int
        The number of lines that repeat the names.
    flags : str
        A note on the columns of flags that are left out of a wide table.
    unwanted : tuple of str
        In words, the rows and readings that the option `keep` leaves out.
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
    flags: str = ""
    unwanted: tuple[str, ...] = ()

    @property
    def omissions(self) -> list[str]:
        """Return texts with the numbers of rows of units, of sums and of others that are left out."""
        rows = {"units": len(self.units), "sums": len(self.sums)}
        others = [f"{n} row{'s' * (n > 1)} of {kind}" for kind, n in rows.items() if n]
        return [*others, *self.unwanted]


def read_sheet(
    path: Path, options: FileOptions, *, may_be_empty: bool = False, has_flags: bool = False
) -> Sheet:
    r"""Return the sheet of a CSV file (compressed or not) or of a Parquet file.

    Parameters
    ----------
    path : Path
    options : FileOptions
    may_be_empty : bool
        Whether a file with a header and no rows is allowed, such as that of a day without readings.
    has_flags : bool
        Whether all rows stay, with the columns of flags; `select_rows` chooses among them.

    Raises
    ------
    ValueError, OSError
        If the file cannot be read, or has no rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.layout import FileOptions
    >>> from tvbandits.datasets.tables.sheets import read_sheet
    >>> size = Path("hall.csv").write_text("Hall 3\ntime;a\n;Grad C\n1;1,5\n")
    >>> sheet = read_sheet(Path("hall.csv"), FileOptions())
    >>> print(sheet.cells.to_dict("index"), sheet.titles, sheet.units)
    {4: {'time': '1', 'a': '1.5'}} (1,) (3,)
    """
    sheet = _read_sheet(path, options)
    if sheet.cells.empty and not may_be_empty:
        raise ValueError("the table has a header and no rows")
    return sheet if has_flags else select_rows(sheet, options)


def select_rows(sheet: Sheet, options: FileOptions) -> Sheet:
    """Return a sheet with the rows and readings of the option `keep`, without columns of flags.

    Raises
    ------
    ValueError
        If there is no such column, or no such row.
    """
    if sheet.cells.empty:
        return sheet
    is_wide = not find_station_columns(sheet.cells, NO_OPTIONS) and options.station is None
    cells, unwanted, flags = select_readings(sheet.cells, options, is_wide=is_wide)
    return replace(sheet, cells=cells, unwanted=tuple(unwanted), flags=flags)


def _read_sheet(path: Path, options: FileOptions) -> Sheet:
    if is_parquet(path):
        # pandas writes the index of a frame, which often has the times.
        return Sheet(move_index_to_column(read_parquet(path)), "Parquet")
    try:
        return _read_text(path, options, "utf-8-sig")
    except UnicodeDecodeError:
        return _read_text(path, options, "cp1252")


def _read_text(path: Path, options: FileOptions, encoding: str) -> Sheet:
    frame, separator, rows, encoding = _read_cells(path, encoding)
    if frame.empty:
        raise ValueError("the file has no text but empty lines")
    header = options.header or _find_header(rows)
    if header not in frame.index:
        raise ValueError(
            f"{format_option('header', header)}: there is no such line, or it is empty"
        )
    names = frame.loc[header].str.strip()
    _check_names(names, header)
    above, body = frame.loc[: header - 1], frame.loc[header + 1 :]
    small = body.apply(lambda column: column.str.strip().str.casefold())
    repeats = (small == names.str.casefold()).all(axis=1)
    body = body[~repeats & ~body[0].isin(_ANNOTATIONS)]
    _check_one_table(body, names)
    empty = _unnamed_columns(body, names, header, separator)
    body, above, names = (body.drop(columns=empty), above.drop(columns=empty), names.drop(empty))
    cells = body.set_axis(list(names), axis=1)
    stations = find_station_columns(cells, NO_OPTIONS)
    names_of_stations = {*stations, *columns_of_option(options, "station", cells.columns)}
    cells = simplify_numbers(cells, names_of_stations)
    time, is_long = _time_position(cells, options), bool(stations)
    units = [] if is_long and time is not None else find_unit_lines(cells, time)
    units = units or find_width_lines(cells)
    ends = find_end_lines(cells)
    sums = find_sum_lines(cells.drop(index=[*units, *ends]), time)
    unit_of = dict(zip(names, cells.loc[units[0]].str.strip(), strict=True)) if units else {}
    # Sums are dropped after this, since a mean such as 1.004,9 determines the marks of its column.
    cells, decimal = _with_points(
        cells.drop(index=[*units, *ends]), separator, options, names_of_stations
    )
    cells = cells.drop(index=sums)
    cells = _unfold_hours(cells, is_long=is_long)
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
    """Return the cells of a CSV by line, its separator, its first rows, and its encoding."""
    with unpack(path) as stream:
        start = stream.peek()
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            encoding = "utf-16"
        elif start.startswith(WORKBOOKS):
            raise ValueError(
                "a workbook or an archive, not a text: open it, save its sheet as CSV (File, Save as, "
                "CSV UTF-8), and give that file"
            )
        elif start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[{", b"<")):
            raise ValueError(
                "JSON, HTML or XML, not a table: export it as csv, or read it with pandas and save that"
            )
        elif b"\0" in start[: 1 << 16]:
            raise ValueError(
                "a binary file in an unknown format, or UTF-16 without the mark at its start: export it "
                "as csv in UTF-8"
            )
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


def _check_one_table(body: pd.DataFrame, names: pd.Series[str]) -> None:
    """Raise a `ValueError` if names of columns, with rows below them, follow an empty line.

    A line that begins with the name of the first column counts, too, as its order may be another one.
    """
    lines = body.index.to_numpy()
    for i in np.flatnonzero(np.diff(lines) > 1) + 1:
        cells = [str(cell).strip() for cell in body.iloc[i] if cell.strip()]
        if i + 1 < len(lines) and len(cells) > 1 and not re.search(r"\d", "".join(cells)):
            raise ValueError(
                f"a second table begins in line {lines[i]} ({', '.join(cells)}): put it into a file of "
                "its own"
            )
    is_again = body[0].str.strip().str.casefold() == names.iloc[0].casefold()
    for line in body.index[is_again & (names.iloc[0] != "")]:
        raise ValueError(
            f"line {line} names columns as line {names.name} does, but others, or in another order: "
            "put the rows below it into a file of their own"
        )


def _check_names(names: pd.Series[str], header: int) -> None:
    """Raise a `ValueError` if the line of names has dates or decimals, and so is one of readings."""
    filled = [name for name in names if name]
    numbers = pd.to_numeric(names, errors="coerce")
    has_numbers = bool(numbers.notna().iloc[0] and (numbers % 1 > 0).any())
    if filled[1:] and all(map(is_date_text, filled[1:])):
        raise ValueError(
            f"the names in line {header} are times, such as {filled[1]!r}: transpose the table, so that "
            "each time has a row, and each station a column"
        )
    for name in filled:
        if has_numbers or is_day(name) or is_date_text(name) or expand_years(name):
            raise ValueError(
                f"line {header} should have the names of the columns and has {name!r}: write names "
                f"above the readings, or say where they are by {format_option('header', 'LINE')}"
            )


def _unnamed_columns(
    body: pd.DataFrame, names: pd.Series[str], header: int, separator: str
) -> list[int]:
    """Return the columns without names and cells, and the first column if it only numbers the rows.

    Raises
    ------
    ValueError
        If another column without a name has cells.
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
    has_time = any({*heading_variants(name)} & {*TIMES} for name in names)
    is_counter = names[0] in ("", "#") and has_time and numbers in (counts[:-1], counts[1:])
    return [0, *empty] if is_counter and 0 not in empty else empty


def _with_points(
    cells: pd.DataFrame, separator: str, options: FileOptions, names: Collection[str]
) -> tuple[pd.DataFrame, str]:
    """Return the cells with decimal points in numbers, and the decimal mark of the file.

    Cells in the columns `names`, which are names of stations, are not changed.
    """
    decimal = options.decimal or "point"
    has_commas = separator != "," or any(
        cells.iloc[:, i].str.contains(",", regex=False).any() for i in range(cells.shape[1])
    )
    if not (has_commas or options.decimal):
        return cells, decimal
    degrees = [name for name in find_latitude_and_longitude(cells.columns) if name is not None]
    points, is_name = cells.copy(), cells.columns.isin([*names])
    points.loc[:, ~is_name] = convert_decimal_marks(
        cells.loc[:, ~is_name].copy(), options.decimal, DOUBTFUL.get(separator, ""), degrees
    )
    is_changed = (cells != points).to_numpy()
    changes = zip(cells.to_numpy()[is_changed], points.to_numpy()[is_changed], strict=True)
    has_comma = any("." in new and old.rfind(",") > old.rfind(".") for old, new in changes)
    return points, "comma" if has_comma else decimal


def _split(lines: list[str]) -> tuple[str, list[list[str]]]:
    """Return the separator with which most lines have equally many cells, and the lines' cells."""
    best, rows, best_count = ",", [[line] for line in lines], 0
    for separator in SEPARATORS:
        try:
            cells = list(csv.reader(lines, delimiter=separator))
        except csv.Error:
            continue
        widths = Counter(len(row) for row in cells if len(row) > 1)
        most = max(widths.values(), default=0)
        if most > best_count:
            best, rows, best_count = separator, cells, most
    return best, rows


def _find_header(rows: list[list[str]]) -> int:
    """Return the line of the names: the first with the name of a time, or with enough names."""
    times = {*TIMES, *(name for pair in PAIRS for name in pair)}
    texts = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    with_time = [
        line
        for line, cells in enumerate(texts, 1)
        if len(cells) > 1 and _simplify_all(cells) & times and not any(map(is_date_text, cells))
    ]
    widths = Counter(len(cells) for cells in texts if cells)
    usual = max(widths, key=lambda width: widths[width], default=1)
    full = [line for line, cells in enumerate(texts, 1) if len(cells) >= max(usual - 1, 2)]
    not_empty = [line for line, cells in enumerate(texts, 1) if cells]
    return (with_time or full or not_empty or [1])[0]


def _simplify_all(names: Sequence[str]) -> set[str]:
    return {simplify_heading(name) for name in names}


def _time_position(cells: pd.DataFrame, options: FileOptions) -> int | None:
    """Return the position of the column of times: by its name, or the first column if it has dates."""
    names = [simplify_heading(column) for column in cells.columns]
    option_columns = columns_of_option(options, "time", cells.columns)
    for name in map(simplify_heading, (*option_columns, *find_time_columns(cells))):
        if name in names:
            return names.index(name)
    has_dates = bool(cells.iloc[:, 0].map(is_date_text).any()) if len(cells.columns) else False
    return 0 if has_dates else None


def _unfold_hours(cells: pd.DataFrame, *, is_long: bool) -> pd.DataFrame:
    """Return a table with a row for each hour if it has a row for each day, and columns of hours.

    The columns are 01:00 to 24:00, 00:00 to 23:00, or H01 to H24. Any other table is returned unchanged.
    """
    matches = {name: _HOUR.fullmatch(str(name)) for name in cells.columns}
    hours = {name: int(match[1]) for name, match in matches.items() if match is not None}
    if not is_long or sorted(hours.values()) not in ([*range(24)], [*range(1, 25)]):
        return cells
    others = [name for name in cells.columns if name not in hours]
    clocks = cells.rename(columns={name: f"{hour:02d}:00" for name, hour in hours.items()})
    rows = clocks.melt(others, var_name="hour", value_name="value", ignore_index=False)
    return rows.sort_index(kind="stable")


def _ungroup(cells: pd.DataFrame, stations: pd.Series[str]) -> pd.DataFrame:
    """Return rows of station, parameter and value for a table with stations above repeated names."""
    station_of = stations.replace("", None).ffill().fillna("").to_numpy()
    keys = cells.loc[:, station_of == ""]
    parts = list[pd.DataFrame]()
    for i, name in enumerate(cells.columns):
        if station_of[i] and simplify_heading(name) not in NO_VALUES:
            parts.append(keys.assign(station=station_of[i], parameter=name, value=cells.iloc[:, i]))
        elif station_of[i] and parts:  # the flag or the unit of the readings on its left
            parts[-1] = parts[-1].assign(**{simplify_heading(name): cells.iloc[:, i]})
    rows: pd.DataFrame = pd.concat(parts).sort_index(kind="stable")
    return rows

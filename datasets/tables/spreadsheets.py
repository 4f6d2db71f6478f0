"""Tables from csv and Parquet files that may be broken, hostile or not meant, read within limits.

A few megabytes can unpack to gigabytes, and a device never ends. So every file is looked at before it is
read, what is unpacked is counted while it is, and what goes beyond a limit (`tvbandits.io`) is an error
that names the file, the limit, and how to raise it.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tvbandits.io import check_regular, check_size, limit_of

if TYPE_CHECKING:
    import pandas as pd

File = str | os.PathLike[str]


# What may stand between the cells of a spreadsheet.
SEPARATORS = ",;\t"


# How a number with a mark in it may be meant where the decimal mark is the one or the other.
_GROUPED = r"[1-9]\d{0,2}(?:[X]\d{3})+"


_NUMBER = rf"[-+]?(?:(?:\d+|{_GROUPED})[Y]\d+(?:[eE][-+]?\d+)?|{_GROUPED})"


_MEANT = {
    "comma": re.compile(_NUMBER.replace("X", ".").replace("Y", ",")),
    "point": re.compile(_NUMBER.replace("X", ",").replace("Y", ".")),
}


_MARKS = {"comma": ",", "point": "."}


# Bytes of the first line of a csv.
_LONGEST_HEADING = 1 << 22


class CountedStream(io.RawIOBase):
    """A stream that is read until more than the limit of unpacked bytes has come.

    Examples
    --------
    >>> import io
    >>> from tvbandits.datasets.tables.spreadsheets import CountedStream
    >>> CountedStream(io.BytesIO(b"four")).read(4)
    b'four'
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._count = stream, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As of any raw stream; a `ValueError` beyond the limit."""
        chunk = self._stream.read(len(buffer))
        self._count += len(chunk)
        check_size("unpacked_bytes", self._count)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        """Close what is behind it, too."""
        if not self.closed:
            self._stream.close()
        super().close()


def bounded(stream: IO[bytes]) -> io.BufferedReader:
    r"""A stream that counts what comes out of it, to read tables from.

    Examples
    --------
    >>> import io
    >>> from tvbandits.datasets.tables.spreadsheets import bounded
    >>> bounded(io.BytesIO(b"time,a\n")).readline()
    b'time,a\n'
    """
    return io.BufferedReader(CountedStream(stream), _LONGEST_HEADING)


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[io.BufferedReader]:
    r"""What is in a file, unpacked (.gz, .bz2, .xz, or a .zip of one file) and counted.

    Raises
    ------
    ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError
        If it is no regular file, or cannot be unpacked; see `naming`.

    Examples
    --------
    >>> import gzip
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.spreadsheets import unpacked
    >>> with gzip.open("values.csv.gz", "wb") as file:
    ...     written = file.write(b"time,a\n1,0.5\n")
    >>> with unpacked(Path("values.csv.gz")) as stream:
    ...     print(stream.readline())
    b'time,a\n'
    """
    check_regular(path)
    with contextlib.ExitStack() as stack:
        suffix = path.suffix.lower()
        if suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            inside = archive.namelist()
            if len(inside) != 1:
                raise ValueError(f"expected one file in the zip, got {len(inside)}")
            stream: IO[bytes] = archive.open(inside[0])
        else:
            openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
            stream = openers.get(suffix, open)(path, "rb")
        yield stack.enter_context(bounded(stream))


def read_csv(stream: io.BufferedReader, *, separators: str = ",", **options: Any) -> pd.DataFrame:
    r"""The table of a csv, its size checked while it is read.

    Parameters
    ----------
    stream : buffered binary stream
        From `unpacked` or `bounded`, whose buffers hold the first line.
    separators : str
        Which of these is the commonest in the first line separates the cells.
    options
        As of `pandas.read_csv`.

    Examples
    --------
    >>> import io
    >>> from tvbandits.datasets.tables.spreadsheets import bounded, read_csv
    >>> stream = bounded(io.BytesIO(b"id;x\n007;1.5\n"))
    >>> print(read_csv(stream, separators=",;", dtype={"id": str}))
        id    x
    0  007  1.5
    """
    import pandas as pd

    heading, ended, _ = stream.peek(_LONGEST_HEADING).partition(b"\n")
    if len(heading) >= _LONGEST_HEADING and not ended:
        raise ValueError(f"the first line is longer than {_LONGEST_HEADING} bytes: not a table")
    separator = separator_of(heading, separators)
    check_size("columns", heading.count(separator.encode()) + 1)
    try:
        frame: pd.DataFrame = pd.read_csv(
            stream, sep=separator, nrows=limit_of("rows") + 1, **options
        )
    except pd.errors.EmptyDataError:
        raise ValueError("the file is empty") from None
    check_size("rows", len(frame))
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes the first cells for names of rows
        raise ValueError("its rows have more cells than its first line")
    return frame


def separator_of(heading: bytes, separators: str) -> str:
    """Which of the separators is the commonest in the first line of a csv.

    Examples
    --------
    >>> from tvbandits.datasets.tables.spreadsheets import separator_of
    >>> separator_of(b"time;Hall, west;Hall, east;Hall", ",;")
    ';'
    """
    return max(separators, key=lambda each: heading.count(each.encode()))


def read_spreadsheet(path: Path, decimal: str | None = None, **options: Any) -> pd.DataFrame:
    r"""The table of a csv as spreadsheets of any country write it, also a packed one.

    Commas, semicolons or tabs separate the cells. Unless commas do, texts such as 1,5 become 1.5, and
    1.012 becomes 1012 in a column with 998,5. The file is in UTF-8, or else in Windows-1252.

    Parameters
    ----------
    path : Path
    decimal : str, optional
        The decimal mark, "comma" or "point"; by default as each column shows it.
    options
        As of `pandas.read_csv`.

    Raises
    ------
    ValueError, OSError
        If it cannot be read; see `naming`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.spreadsheets import read_spreadsheet
    >>> written = Path("sites.csv").write_bytes("id;x\nKöln;1,5\n".encode("cp1252"))
    >>> print(read_spreadsheet(Path("sites.csv")))
         id    x
    0  Köln  1.5
    """
    try:
        return _spreadsheet(path, decimal, encoding="utf-8-sig", **options)
    except UnicodeDecodeError:
        return _spreadsheet(path, decimal, encoding="cp1252", encoding_errors="replace", **options)


def _spreadsheet(path: Path, decimal: str | None, **options: Any) -> pd.DataFrame:
    with unpacked(path) as stream:
        start = stream.peek(1 << 16)
        if b"\0" in start:
            raise ValueError("a binary file of a kind that is not known")
        frame = read_csv(stream, separators=SEPARATORS, **options)
    frame = frame[(frame.notna() & (frame != "")).any(axis=1)]  # spreadsheets write ",,"
    if separator_of(start.partition(b"\n")[0], SEPARATORS) == ",":
        return frame
    return _with_points(frame, decimal)


def _with_points(frame: pd.DataFrame, decimal: str | None) -> pd.DataFrame:
    """A frame whose texts of numbers have decimal points, and nothing between thousands.

    What 1.012 means is said by the other cells of its column: in one with 998,5 it is 1012.

    Raises
    ------
    ValueError
        If the cells of a column do not say it, and both are possible.
    """
    if decimal not in (None, *_MARKS):
        raise ValueError(f'decimal must be "comma" or "point", got {decimal!r}')
    columns = [
        {cell: meant for cell in frame.iloc[:, i].unique() if (meant := _meanings(cell))}
        for i in range(frame.shape[1])
    ]
    shown = [{each[0] for each in cells.values() if len(each) == 1} for cells in columns]
    anywhere = set().union(*shown)
    for i, cells in enumerate(columns):
        marks = {} if decimal is None else dict.fromkeys(cells, decimal)
        for cell, meant in cells.items() if decimal is None else ():
            usual = "point" if "." in cell else "comma"
            possible = shown[i] or {usual, *anywhere}
            if len(meant) == 1:
                possible = {*meant}
            elif not shown[i] and any(
                len(each) == 2 and (("." in other) != ("." in cell))
                for other, each in cells.items()
            ):
                possible = {*_MARKS}  # 1.012 and 1,012
            if len(possible) > 1:
                raise ValueError(
                    f"{cell} in column {i + 1} may be {_pointed(cell, 'comma')} or "
                    f"{_pointed(cell, 'point')}: say which mark is the decimal one, by decimal = "
                    '"comma" or "point" (--decimal of a command)'
                )
            (marks[cell],) = possible
        if marks:
            changed = {
                cell: _pointed(cell, mark) for cell, mark in marks.items() if mark in cells[cell]
            }
            frame.isetitem(i, [changed.get(cell, cell) for cell in frame.iloc[:, i]])
    return frame


def _meanings(cell: object) -> list[str]:
    """The decimal marks with which a text is a number that has such a mark, or one between thousands."""
    if not (isinstance(cell, str) and ("," in cell or "." in cell)):
        return []
    return [name for name, form in _MEANT.items() if form.fullmatch(cell.strip())]


def _pointed(cell: str, decimal: str) -> str:
    between = {"comma": ".", "point": ","}[decimal]
    return cell.replace(between, "").replace(_MARKS[decimal], ".")


def is_parquet(path: Path) -> bool:
    r"""Whether a file is in the Parquet format, by its first bytes or its name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.spreadsheets import is_parquet
    >>> written = Path("sites.csv").write_text("id,x,y\n")
    >>> print(is_parquet(Path("sites.csv")))
    False
    """
    check_regular(path)
    with path.open("rb") as file:
        start = file.read(4)
    return start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")


def read_parquet(path: Path) -> pd.DataFrame:
    """The table of a Parquet file, its size checked before it is read.

    Raises
    ------
    ValueError
        If it is too large, or pyarrow, which reads it, is not there: what to install.

    Examples
    --------
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.spreadsheets import read_parquet
    >>> pd.DataFrame({"x": [1.5]}).to_parquet("sites.parquet")
    >>> print(read_parquet(Path("sites.parquet")))
         x
    0  1.5
    """
    check_regular(path)
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError('Parquet needs pyarrow: pip install "tvbandits[parquet]"') from error
    with ParquetFile(path) as file:
        about = file.metadata
        check_size("rows", about.num_rows)
        check_size("columns", about.num_columns)
        groups = map(about.row_group, range(about.num_row_groups))
        packed = sum(group.total_byte_size for group in groups)
        # Cells that are all alike take no room in the file, and 8 bytes each in memory.
        check_size("unpacked_bytes", max(packed, 8 * about.num_rows * about.num_columns))
    import pandas as pd

    return pd.read_parquet(path)


def read_as_text(path: Path) -> pd.DataFrame:
    """The table of a Parquet file; or of a csv, also a packed one, whose cells are texts."""
    if is_parquet(path):
        return read_parquet(path).rename(columns=str)
    with unpacked(path) as stream:
        return read_csv(stream, dtype=str, encoding_errors="replace")

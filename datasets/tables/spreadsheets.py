"""Readers of CSV and Parquet files that may be damaged or hostile, within limits of size.

A few megabytes can unpack to gigabytes, and a device file has no end. So every file is checked before it
is read, and bytes are counted while they are unpacked. A table that exceeds a limit (`tvbandits.io`) is
an error, which names the file, the limit, and how to raise it.
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
from collections.abc import Collection, Iterator, Mapping, Set
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tvbandits.datasets.tables.cells import WITH_CODE
from tvbandits.io import check_regular, check_size, get_limit
from tvbandits.option_text import format_option

if TYPE_CHECKING:
    import pandas as pd

File = str | os.PathLike[str]


# Numbers with a mark, for each decimal mark (Y) and the other mark (X), which separates thousands.
_THOUSANDS = r"[1-9]\d{0,2}(?:[X]\d{3})+"
_NUMBER = rf"[-+]?(?:(?:\d+|{_THOUSANDS})[Y]\d+(?:[eE][-+]?\d+)?|{_THOUSANDS})"
_FORMS = {
    "comma": re.compile(_NUMBER.replace("X", ".").replace("Y", ",")),
    "point": re.compile(_NUMBER.replace("X", ",").replace("Y", ".")),
}
_MARKS = {"comma": ",", "point": "."}

# The largest number of bytes in the first line of a CSV.
_LONGEST_HEADING = 1 << 22


class CountedStream(io.RawIOBase):
    """A stream that raises an error when more bytes are read than the limit of unpacked bytes.

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
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, as any raw stream does; raise a `ValueError` beyond the limit."""
        chunk = self._stream.read(len(buffer))
        self._count += len(chunk)
        check_size("unpacked_bytes", self._count)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        """Close this stream and the underlying one."""
        if not self.closed:
            self._stream.close()
        super().close()


def count_bytes(stream: IO[bytes]) -> io.BufferedReader:
    r"""Return a buffered stream that counts its bytes, for `read_csv`.

    Examples
    --------
    >>> import io
    >>> from tvbandits.datasets.tables.spreadsheets import count_bytes
    >>> count_bytes(io.BytesIO(b"time,a\n")).readline()
    b'time,a\n'
    """
    return io.BufferedReader(CountedStream(stream), _LONGEST_HEADING)


# The first bytes of compressed files, which may have any name.
_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


def check_file(path: Path) -> None:
    """Raise a `ValueError` or an `OSError` unless a path is that of a file with some bytes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.spreadsheets import check_file
    >>> try:
    ...     check_file(Path("https://example.org/readings.csv"))
    ... except ValueError as error:
    ...     print(error)
    a web address, not a file: download it, and give the file
    """
    if re.match(r"\w{2,}:/", path.as_posix()) and not path.exists():
        raise ValueError("a web address, not a file: download it, and give the file")
    if path.is_dir():
        raise ValueError("a folder, not a file: give the files in it one by one")
    check_regular(path)


@contextlib.contextmanager
def unpack(path: Path) -> Iterator[io.BufferedReader]:
    r"""Open a file, unpacked if it is compressed (gzip, bzip2, xz, or a .zip of one file).

    Raises
    ------
    ValueError, OSError, zipfile.BadZipFile, zlib.error, EOFError
        If it is no regular file, or cannot be unpacked; see `name_file_in_errors`.

    Examples
    --------
    >>> import gzip
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.spreadsheets import unpack
    >>> with gzip.open("values.csv.gz", "wb") as file:
    ...     size = file.write(b"time,a\n1,0.5\n")
    >>> with unpack(Path("values.csv.gz")) as stream:
    ...     print(stream.readline())
    b'time,a\n'
    """
    check_file(path)
    with contextlib.ExitStack() as stack:
        if path.suffix.lower() == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            members = archive.namelist()
            if len(members) != 1:
                raise ValueError(
                    f"expected one file in the zip, got {len(members)}: unpack it, and give one of them"
                )
            stream: IO[bytes] = archive.open(members[0])
        else:
            with path.open("rb") as file:
                start = file.read(5)
            opener: Any = next(
                (each for mark, each in _OPENERS.items() if start.startswith(mark)), open
            )
            stream = opener(path, "rb")
        yield stack.enter_context(count_bytes(stream))


def read_csv(stream: io.BufferedReader, *, separator: str = ",", **options: Any) -> pd.DataFrame:
    r"""Return the table of a CSV, whose size is checked while it is read.

    Parameters
    ----------
    stream : buffered binary stream
        A stream of `unpack` or `count_bytes`, whose buffer is large enough for the first line.
    separator : str
        The character between cells.
    options
        Options of `pandas.read_csv`.

    Examples
    --------
    >>> import io
    >>> from tvbandits.datasets.tables.spreadsheets import count_bytes, read_csv
    >>> stream = count_bytes(io.BytesIO(b"id;x\n007;1.5\n"))
    >>> print(read_csv(stream, separator=";", dtype={"id": str}))
        id    x
    0  007  1.5
    """
    import pandas as pd

    heading, newline, _ = stream.peek(_LONGEST_HEADING).partition(b"\n")
    if len(heading) >= _LONGEST_HEADING and not newline:
        raise ValueError(f"the first line is longer than {_LONGEST_HEADING} bytes: not a table")
    check_size("columns", heading.count(separator.encode()) + 1)
    try:
        frame: pd.DataFrame = pd.read_csv(
            stream, sep=separator, nrows=get_limit("rows") + 1, **options
        )
    except pd.errors.EmptyDataError:
        raise ValueError("the file is empty") from None
    except pd.errors.ParserError as error:
        raise ValueError(_explain(str(error), separator)) from None
    check_size("rows", len(frame))
    if not isinstance(frame.index, pd.RangeIndex):  # then pandas uses the first cells as the index
        raise ValueError("its rows have more cells than its first line")
    return frame


def _explain(message: str, separator: str) -> str:
    """Return a message of pandas' parser in terms of the lines and cells of the file."""
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message):
        most, line, cells = match.groups()
        return (
            f"line {line} has {cells} cells, and no line before more than {most}: put a cell that "
            f"holds {separator!r} in quotation marks"
        )
    if match := re.search(r"EOF inside string starting at row (\d+)", message):
        return f"line {int(match[1]) + 1} opens a quotation mark that is never closed: remove it"
    return message


def convert_decimal_marks(
    frame: pd.DataFrame, decimal: str | None, doubtful: str = "", degrees: Collection[str] = ()
) -> pd.DataFrame:
    """Return a frame in which numbers have decimal points, and no separators of thousands.

    The meaning of 1.012 depends on the other cells of its column: with 998,5 among them it is 1012.

    Parameters
    ----------
    frame : DataFrame of str
    decimal : str, optional
        The decimal mark, "comma" or "point", of columns whose cells do not determine it.
    doubtful : str
        Marks that are an error if no cell of the frame determines their meaning.
    degrees : collection of str
        Columns of latitude and longitude, which have no thousands.

    Raises
    ------
    ValueError
        If both meanings of a mark are possible.

    Examples
    --------
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.spreadsheets import convert_decimal_marks
    >>> convert_decimal_marks(pd.DataFrame({"a": ["1.012", "998,5"]}), None)["a"].tolist()
    ['1012', '998.5']
    """
    columns = [
        {cell: marks for cell in frame.iloc[:, i].unique() if (marks := _possible_marks(cell))}
        for i in range(frame.shape[1])
    ]
    for cells, name in zip(columns, frame.columns, strict=True):
        if name in degrees:
            cells.update({cell: ["point" if "." in cell else "comma"] for cell in cells})
    certain = [{marks[0] for marks in cells.values() if len(marks) == 1} for cells in columns]
    certain_anywhere = set().union(*certain)
    for i, cells in enumerate(columns):
        default = None if len(certain[i]) == 1 else decimal
        texts = {}
        for cell, marks in cells.items():
            column = frame.columns[i] or i + 1
            mark = default or _find_mark(
                cell, cells, certain[i], certain_anywhere, column, doubtful
            )
            if mark in marks:
                texts[cell] = _with_point(cell, mark)
        if texts:
            frame.isetitem(i, [texts.get(cell, cell) for cell in frame.iloc[:, i]])
    return frame


def _find_mark(
    cell: str,
    cells: Mapping[str, list[str]],
    certain: Set[str],
    certain_anywhere: Set[str],
    column: object,
    doubtful: str,
) -> str:
    """Return the decimal mark of a cell, which other cells of its column or of the file determine.

    Parameters
    ----------
    cell : str
    cells : mapping of str to list of str
        The possible marks of each cell of the column.
    certain, certain_anywhere : set of str
        The marks that some cell of the column, or of the file, must have.
    column : object
        The name of the column, for errors.
    doubtful : str
        Marks that are an error if no cell of the file determines their meaning.
    """
    usual = "point" if "." in cell else "comma"
    possible = certain or {usual, *certain_anywhere}
    if len(cells[cell]) == 1:
        possible = {*cells[cell]}
    elif not certain and any(
        len(marks) == 2 and (("." in other) != ("." in cell)) for other, marks in cells.items()
    ):
        possible = {*_MARKS}  # 1.012 and 1,012
    elif not certain_anywhere and _MARKS[usual] in doubtful:
        possible = {*_MARKS}
    if len(possible) > 1:
        raise ValueError(
            f"{cell} in column {column} may be {_with_point(cell, 'comma')} or "
            f"{_with_point(cell, 'point')}: say which mark is the decimal one by "
            f"{format_option('decimal', 'comma')} or {format_option('decimal', 'point')}"
        )
    (mark,) = possible
    return mark


def _possible_marks(cell: object) -> list[str]:
    """Return the decimal marks with which a text that contains marks is a number."""
    if not (isinstance(cell, str) and ("," in cell or "." in cell)) or WITH_CODE.fullmatch(cell):
        return []
    return [name for name, form in _FORMS.items() if form.fullmatch(cell.strip())]


def _with_point(cell: str, decimal: str) -> str:
    """Return the text of a number with a decimal point, and without separators of thousands."""
    separator = {"comma": ".", "point": ","}[decimal]
    return cell.replace(separator, "").replace(_MARKS[decimal], ".")


def is_parquet(path: Path) -> bool:
    r"""Return whether a file is a Parquet file, by its first bytes or its name.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets.tables.spreadsheets import is_parquet
    >>> size = Path("sites.csv").write_text("id,x,y\n")
    >>> print(is_parquet(Path("sites.csv")))
    False
    """
    check_file(path)
    with path.open("rb") as file:
        start = file.read(4)
    return start == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")


def read_parquet(path: Path) -> pd.DataFrame:
    """Return the table of a Parquet file, whose size is checked before it is read.

    Raises
    ------
    ValueError
        If the table is too large, or pyarrow is not installed.

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
    check_file(path)
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError('Parquet needs pyarrow: pip install "tvbandits[parquet]"') from error
    with ParquetFile(path) as file:
        metadata = file.metadata
        check_size("rows", metadata.num_rows)
        check_size("columns", metadata.num_columns)
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        size = sum(group.total_byte_size for group in groups)
        # Equal cells take almost no space in the file, but 8 bytes each in memory.
        check_size("unpacked_bytes", max(size, 8 * metadata.num_rows * metadata.num_columns))
    import pandas as pd

    return pd.read_parquet(path)


def read_as_text(path: Path) -> pd.DataFrame:
    """Return the table of a Parquet file, or of a CSV (compressed or not), whose cells are texts."""
    if is_parquet(path):
        return read_parquet(path).rename(columns=str)
    with unpack(path) as stream:
        return read_csv(stream, dtype=str, encoding_errors="replace")

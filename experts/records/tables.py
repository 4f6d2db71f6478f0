"""Recorded evaluations: which columns of a table they are in, and how tables are read."""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.core.arrays import (
    Array,
    as_floats,
    as_points,
    as_times,
    as_values,
    as_variances,
    noise_variance_number,
    positive_number,
)
from tvbandits.core.coercion import cleaned, file_path, several, shown
from tvbandits.core.files.reading import (
    current_limits,
    is_parquet,
    limit_cells,
    naming,
    read_csv,
    read_parquet,
    unpacked,
)

FilePath = str | PathLike[str]


READING_SECONDS = 300.0
"""How long a query of a SQLite file may take."""


@dataclass(frozen=True)
class RecordTables:
    """Answers that were recorded, one a row.

    Attributes
    ----------
    X : array of shape (n, d)
        The points.
    t : array of shape (n,)
        The times the answers speak about.
    value : array of shape (n,)
        The answers (unit of reward).
    variance : array of shape (n,)
        Their noise variances (unit of reward squared).
    """

    X: Array
    t: Array
    value: Array
    variance: Array

    def __len__(self) -> int:
        return len(self.t)

    def check_agreement(self) -> None:
        """Raise a `ValueError` if two rows of one point and time say different things."""
        order = np.lexsort((self.t, *self.X.T[::-1]))
        X, t = self.X[order], self.t[order]
        said = np.column_stack([self.value, self.variance])[order]
        alike = (X[1:] == X[:-1]).all(axis=1) & (t[1:] == t[:-1])
        torn = alike & (said[1:] != said[:-1]).any(axis=1)
        if torn.any():
            row = int(torn.argmax())
            raise ValueError(
                f"the table says two things of the point {X[row].tolist()} at t = {t[row]:g}: "
                f"{said[row, 0]:g} and {said[row + 1, 0]:g}; drop one, or give a column of times that "
                "tells them apart"
            )

    def then(self, later: RecordTables) -> RecordTables:
        """These rows, then `later`."""
        pairs = zip(vars(self).values(), vars(later).values(), strict=True)
        return RecordTables(*map(np.concatenate, pairs))


@dataclass(frozen=True)
class Columns:
    """Where a table has what.

    Parameters
    ----------
    points : tuple of str
        Columns of the coordinates, in their order.
    time, value : str
        Columns of the time and of the answer.
    variance : str or float
        Column of the noise variance, or one variance for all.
    """

    points: tuple[str, ...]
    time: str
    value: str
    variance: str | float

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        points: Sequence[str] | None,
        time: str,
        value: str,
        variance: str | float,
    ) -> Columns:
        """The columns by their names; without names for the points, x0, x1, ... are found.

        Raises
        ------
        ValueError
            If no column of points is there, a column is named for two things, or a fixed variance is
            no usable variance.
        """
        if not isinstance(variance, str):
            variance = noise_variance_number("variance, where it is no column,", variance)
        needs = "a sequence of columns"
        names = _numbered(frame) if points is None else tuple(several("points", points, needs))
        for what, column in (
            *(("points", each) for each in names),
            *(("time", time), ("value", value)),
            *([("variance", variance)] if isinstance(variance, str) else []),
        ):
            if not isinstance(column, str) or column not in frame.columns:
                have = ", ".join(map(str, frame.columns)) or "none"
                raise ValueError(
                    f"{what}={shown(column)}: there must be one column {shown(column)}, "
                    f"got the columns {have}"
                )
        if not names:
            raise ValueError("points must name at least one column, got none")
        used = [*names, time, value, *([variance] if isinstance(variance, str) else [])]
        twice = [name for name, times in Counter(used).items() if times > 1]
        if twice:
            raise ValueError(f"column {twice[0]!r} is named for two things")
        return cls(names, time, value, variance)

    def rows(self, frame: pd.DataFrame) -> tuple[RecordTables, int]:
        """Answers of a table, and the number of refusals (no value) left out of them.

        Raises
        ------
        ValueError
            If a column is missing or not numeric, or a row has a coordinate or a time that is not
            finite, an infinite value, or a value without a positive finite variance.
        """
        n, points = len(frame), np.column_stack([_numbers(frame, name) for name in self.points])
        X = as_points(points, None, f"columns {', '.join(self.points)}")
        t = as_times(_numbers(frame, self.time), n, f"column {self.time!r}")
        value = as_values(_numbers(frame, self.value), n, f"column {self.value!r}", missing=True)
        answered = ~np.isnan(value)
        fixed = not isinstance(self.variance, str)
        stated = np.full(n, self.variance) if fixed else _numbers(frame, str(self.variance))
        # What a refusal has for a variance is looked at by nobody.
        variance = as_variances(np.where(answered, stated, 1.0), n, f"column {self.variance!r}")
        kept = (part[answered] for part in (X, t, value, variance))
        return RecordTables(*kept), int((~answered).sum())


def read_file(path: FilePath) -> pd.DataFrame:
    """Rows of a Parquet or CSV file, with its numbers to the last bit."""
    # From pandas 3.1 on every reader is exact, and naming this one is deprecated.
    major, minor = (int(part) for part in pd.__version__.split(".")[:2])
    exact: dict[str, Any] = {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}
    where = file_path("path", path)
    with naming(where):
        if is_parquet(where):
            return read_parquet(where)
        with unpacked(where) as file:
            return read_csv(file, **exact)


def read_table(
    query: str, connection: Any, params: Any = None, seconds: float = READING_SECONDS
) -> pd.DataFrame:
    """Rows of an SQL query: `connection` as for `CachedLogExpert.from_sql`."""
    if not isinstance(query, str):
        raise ValueError(f"query must be a text of SQL, got {shown(query)}")
    if params is not None and not isinstance(params, Sequence | Mapping):
        raise ValueError(f"params must be a sequence or a mapping, or None; got {shown(params)}")
    if isinstance(connection, str) and "://" in connection:
        try:
            return pd.read_sql_query(query, connection, params=params)
        except ImportError as error:
            raise ImportError(
                f"a database URL needs SQLAlchemy and the driver of the database ({error}): "
                'pip install "tvbandits[sql]"'
            ) from error
    if isinstance(connection, str | PathLike):
        with reading_sqlite(connection, seconds) as opened:
            return _rows(query, opened, params)
    if not isinstance(connection, sqlite3.Connection) and not hasattr(connection, "connect"):
        usable = hasattr(connection, "cursor") or hasattr(connection, "execute")
        if isinstance(connection, type) or not usable:
            raise ValueError(
                "connection must be the path of a SQLite file, a database URL or a connection, "
                f"got {shown(connection)}"
            )
    return _rows(query, connection, params)


def _rows(query: str, connection: Any, params: Any) -> pd.DataFrame:
    """What the database returns; its error names the parameters, which may be what it is about."""
    try:
        return pd.read_sql_query(query, connection, params=params)
    except pd.errors.DatabaseError as error:
        given = "" if params is None else f", params was {shown(params)}"
        said = f"{cleaned(str(error))}; query was {shown(query)}{given}"
        raise pd.errors.DatabaseError(said) from error


def open_sqlite(
    path: FilePath, timeout: float = 30.0, *, read_only: bool = True
) -> sqlite3.Connection:
    """Open a SQLite file that is there: one that is not would be made, and found empty.

    Parameters
    ----------
    path : path
    timeout : float
        Seconds to wait for a process that is writing.
    read_only : bool
        Whether nothing may be written. What a process left half done when it died is taken back all
        the same, by SQLite itself, since the file cannot be read before.
    """
    file = file_path("path", path).absolute()
    if not file.is_file():
        raise FileNotFoundError(f"there is no SQLite file {str(file)!r}")
    unfinished = any(
        rest.is_file() and rest.stat().st_size
        for rest in (file.with_name(f"{file.name}-journal"), file.with_name(f"{file.name}-wal"))
    )
    mode = "ro" if read_only and not unfinished else "rw"
    try:
        connection = sqlite3.connect(
            f"{file.as_uri()}?mode={mode}",
            uri=True,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        limit_cells(connection)
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise ValueError(f"{file}: {error}") from None
    return connection


@contextmanager
def reading_sqlite(
    path: FilePath, seconds: float = READING_SECONDS
) -> Iterator[sqlite3.Connection]:
    """A SQLite file of somebody else: nothing but reading is done, and not for ever.

    Raises
    ------
    ValueError
        If a statement would do anything but read, takes longer than `seconds`, or the file cannot be
        read: the message names the file.
    """
    positive_number("seconds", seconds)
    deadline = time.monotonic() + seconds
    with closing(open_sqlite(path)) as connection:
        connection.set_authorizer(_only_reads)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        try:
            yield connection
        except (sqlite3.Error, pd.errors.DatabaseError, UnicodeError) as error:
            reason = " ".join(str(error).split())
            if "interrupted" in reason:
                reason = (
                    f"reading took longer than {seconds:g} seconds; give seconds= to wait longer, "
                    "if the file is to be trusted"
                )
            elif "too big" in reason:
                most = current_limits().unpacked_bytes
                reason = f"a cell has more than {most} bytes; read it within reading_limits(...)"
            elif "not authorized" in reason or "prohibited" in reason:
                reason = f"only reading is allowed ({reason})"
            raise ValueError(f"{path}: {reason}") from None


def _only_reads(action: int, *_: str | None) -> int:
    reads = (
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    )
    return sqlite3.SQLITE_OK if action in reads else sqlite3.SQLITE_DENY


def _numbered(frame: pd.DataFrame) -> tuple[str, ...]:
    found = [str(name) for name in frame.columns if re.fullmatch(r"x(0|[1-9]\d*)", str(name))]
    names = tuple(f"x{i}" for i in range(len(found)))
    if not found or set(found) != set(names):
        have = ", ".join(found or map(str, frame.columns)) or "none"
        raise ValueError(
            f"columns of points must be x0, x1, ... without a gap, or be named by points=; got {have}"
        )
    return names


def _numbers(frame: pd.DataFrame, name: str) -> Array:
    """One column as floats, NaN where it is empty."""
    column = frame.get(name)
    if not isinstance(column, pd.Series):
        have = ", ".join(map(str, frame.columns)) or "none"
        raise ValueError(f"there must be one column {name!r}, got the columns {have}")
    # A database hands on a column with NULLs as objects.
    return as_floats(column.where(column.notna(), np.nan), f"column {name!r}")

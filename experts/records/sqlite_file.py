"""The file of a `Recording`: a SQLite database.

It is known by its `application_id` (`APPLICATION`) and `user_version` (`SCHEMA`). Its tables are made by
the first question, for points of as many coordinates as that has:

``questions``: one row for each time the expert was asked.
    ``id``; ``asked_at``, ``answered_at`` (UTC, ISO 8601); ``asked_by`` (host and process); ``t`` (the
    time the question is about); ``points`` (how many); ``state``: 'open' (no answer yet), 'answered' or
    'failed'; ``cost`` (of the whole question); ``notes`` (JSON list); ``error`` (why it failed).
``asked``: the points of each question.
    ``question``, ``place`` (0, 1, ... in the question), ``x0``, ``x1``, ...
``answers``: one row for each point of an answered question.
    ``id``; ``question``, ``place``; ``asked_at``; ``x0``, ``x1``, ...; ``t``; ``value`` (NULL: refused);
    ``variance`` (NULL: refused); ``repeat``: 0 for the first answer to this point and time, 1 for the
    second, ... (NULL: refused). A unique index keeps any answer from being there twice.
``seals``: for each of these tables, how many rows it has and the sum of their checksums.

Every row carries its ``checksum`` (`tvbandits.experts.records.schema`). The whole file is verified
when it is opened, and every row again when it is read.

Every change is one transaction, on the disk when it returns: synchronous = EXTRA, which is FULL and
syncs the folder as well, without which a loss of power can take back the last transaction. There is a
rollback journal, no write-ahead log: between two transactions the file is complete, and can be copied.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Answers
from tvbandits.experts.asking import SharedLock
from tvbandits.experts.records.schema import (
    APPLICATION,
    SCHEMA,
    WITHOUT_CHECKSUMS,
    VerifiedRecording,
    checked_rows,
    give_checksums,
    make_tables,
    names,
    naming_damage,
    seal,
    verify,
    version_of,
    warn_of_age,
)
from tvbandits.experts.records.tables import open_sqlite


@dataclass(frozen=True, eq=False)
class Doubt:
    """A question without answers, of which nobody knows whether the expert has worked on it.

    Attributes
    ----------
    question : int
        Its number in the table `questions`.
    asked_at : str
        When it was asked: UTC, ISO 8601.
    asked_by : str
        Host and process that asked.
    t : float
        The time it is about.
    X : array of shape (q, d)
        Its points.

    Examples
    --------
    >>> from tvbandits.experts import CallableExpert, Recording
    >>> recording = Recording(CallableExpert(lambda X, t: X[:, 0], 0.01), "answers.sqlite")
    >>> print(recording.in_doubt)  # a Doubt for each question whose answers nobody knows
    ()
    >>> recording.close()
    """

    question: int
    asked_at: str
    asked_by: str
    t: float
    X: Array


class RecordingFile:
    """Reads and writes the file; any thread may call it.

    Parameters
    ----------
    path : Path
        Absolute.
    timeout : float
        Seconds to wait for another process that is writing.
    make : bool
        Whether to make the file where there is none, and to write to it; otherwise it is only read.
    """

    def __init__(self, path: Path, timeout: float = 30.0, *, make: bool = True) -> None:
        self._path, self._timeout, self._make = path, timeout, make
        self._lock = SharedLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._version = 0
        self._closed = False
        self._dimension = 0  # not known yet

    def open(self) -> sqlite3.Connection:
        """The connection, made where it is not there."""
        with self._lock.now:
            if self._closed:
                raise ValueError(f"the recording {str(self._path)!r} is closed")
            if self._process != os.getpid():  # a connection does not go through a fork
                _INHERITED.append(self._connection)
                self._connection, self._process = None, os.getpid()
            if self._connection is None:
                if not self._path.parent.is_dir():
                    raise FileNotFoundError(f"there is no folder {str(self._path.parent)!r}")
                if self._make and not self._path.exists():
                    self._path.touch()
                connection = open_sqlite(self._path, self._timeout, read_only=not self._make)
                try:
                    self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
                self._connection = connection
            return self._connection

    def verify(self) -> VerifiedRecording:
        """Go through the whole file; a `DamagedRecordingError` names what is not as it was written."""
        with self._lock.now:
            connection = self.open()
            connection.execute("BEGIN")
            try:
                return verify(connection, self._path, self._version)
            finally:
                connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        with self._lock.now:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, points: Array, now: float) -> int:
        """Write down a question about `points` (q, d) before it is asked; its number."""
        with self._transaction() as connection:
            if self._found_dimension(connection) == 0:
                make_tables(connection, points.shape[1])
            else:
                self._check_dimension(points.shape[1])
            cursor = connection.execute(
                "INSERT INTO questions (asked_at, asked_by, t, points, state, checksum) "
                "VALUES (?, ?, ?, ?, 'open', '')",
                (_clock(), f"{platform.node()}:{os.getpid()}", now, len(points)),
            )
            question = int(cursor.lastrowid or 0)
            seal(connection, "questions", "id = ?", [(question,)])
            connection.executemany(
                f"INSERT INTO asked VALUES (?, ?{', ?' * points.shape[1]}, '')",
                [(question, place, *point) for place, point in enumerate(points.tolist())],
            )
            places = [(question, place) for place in range(len(points))]
            seal(connection, "asked", "question = ? AND place = ?", places)
        return question

    def answer(self, question: int, points: Array, now: float, said: Answers) -> None:
        """Write down the answers to a question."""
        columns = names(points.shape[1])
        same = " AND ".join(f"{name} = ?" for name in ("t", *columns))
        count = (
            f"SELECT COALESCE(MAX(repeat) + 1, 0) FROM answers WHERE {same} AND value IS NOT NULL"
        )
        insert = (
            f"INSERT INTO answers (question, place, asked_at, t, {', '.join(columns)}, "
            f"value, variance, repeat, checksum) SELECT id, ?, asked_at, t{', ?' * len(columns)}, "
            "?, ?, ?, '' FROM questions WHERE id = ?"
        )
        with self._transaction() as connection:
            written = []
            for place, point in enumerate(points.tolist()):
                answer: tuple[float | None, ...] = (None, None, None)
                if said.answered[place]:
                    (repeat,) = connection.execute(count, (now, *point)).fetchone()
                    answer = (float(said.values[place]), float(said.variance[place]), repeat)
                cursor = connection.execute(insert, (place, *point, *answer, question))
                written.append((int(cursor.lastrowid or 0),))
            seal(connection, "answers", "id = ?", written)
            self._change(
                connection,
                question,
                "state = 'answered', answered_at = ?, cost = ?, notes = ?",
                (_clock(), said.cost, json.dumps(said.notes)),
            )

    def fail(self, question: int, error: str) -> None:
        """Write down that the expert failed on a question."""
        with self._transaction() as connection:
            changes = "state = 'failed', answered_at = ?, error = ?"
            self._change(connection, question, changes, (_clock(), error))

    def _change(
        self,
        connection: sqlite3.Connection,
        question: int,
        changes: str,
        values: tuple[object, ...],
    ) -> None:
        """Change the row of a question, which must be as it was written."""
        (row,) = checked_rows(connection, self._path, "questions", "WHERE id = ?", (question,))
        connection.execute(f"UPDATE questions SET {changes} WHERE id = ?", (*values, question))
        seal(connection, "questions", "id = ?", [(question,)], before=row[-1])

    def known(self, points: Array, now: float) -> tuple[Array, Array]:
        """Values and variances (q,) of the answers in the file, NaN where there is none."""
        values, variance = np.full(len(points), np.nan), np.full(len(points), np.nan)
        with self._lock.now:
            connection = self.open()
            if self._found_dimension(connection) == 0:
                return values, variance
            self._check_dimension(points.shape[1])
            same = " AND ".join(f"{name} = ?" for name in ("t", *names(points.shape[1])))
            find = f"WHERE {same} AND value IS NOT NULL ORDER BY repeat DESC LIMIT 1"
            for row, point in enumerate(points.tolist()):
                for found in checked_rows(connection, self._path, "answers", find, (now, *point)):
                    values[row], variance[row] = found[-4:-2]
        return values, variance

    def in_doubt(self) -> tuple[Doubt, ...]:
        """Open questions."""
        with self._lock.now, self._reading() as connection:
            if self._found_dimension(connection) == 0:
                return ()
            doubts = []
            which = "WHERE state = 'open' ORDER BY id"
            for question in list(checked_rows(connection, self._path, "questions", which)):
                number, asked_at, _, asked_by, t, *_ = question
                X = [
                    row[2:-1]
                    for row in checked_rows(
                        connection, self._path, "asked", "WHERE question = ?", (number,)
                    )
                ]
                doubts.append(Doubt(number, asked_at, asked_by, t, np.array(X, dtype=np.float64)))
        return tuple(doubts)

    def cost(self) -> float:
        """Sum of the costs of answered questions."""
        with self._lock.now:
            connection = self.open()
            if self._found_dimension(connection) == 0:
                return 0.0
            rows = checked_rows(connection, self._path, "questions")
            return math.fsum(row[7] for row in rows if row[7] is not None)

    def answers(self) -> pd.DataFrame:
        """The table `answers`, in the order of writing."""
        with self._lock.now:
            connection = self.open()
            dimension = self._found_dimension(connection)
            if dimension == 0:
                raise ValueError(
                    f"the recording {str(self._path)!r} is empty: nothing was asked yet"
                )
            columns = (
                "id",
                "question",
                "place",
                "asked_at",
                *names(dimension),
                "t",
                "value",
                "variance",
                "repeat",
            )
            if self._version == SCHEMA:
                every = checked_rows(connection, self._path, "answers", "ORDER BY id")
                rows = [row[:-1] for row in every]
            else:
                with naming_damage(self._path):
                    rows = connection.execute("SELECT * FROM answers ORDER BY id").fetchall()
        frame = pd.DataFrame(rows, columns=list(columns)).drop(columns=["id", "place"])
        return frame.astype(dict.fromkeys(columns[4:], np.float64))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """The file at one moment, whatever other processes write."""
        connection = self.open()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock.now:
            connection = self.open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                with naming_damage(self._path):
                    yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """See whose file it is, and whether it is whole, before anything is written to it."""
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        version = version_of(connection, self._path)
        if version == 0:
            if not self._make:
                raise ValueError(
                    f"{str(self._path)!r} is not a recording: there is nothing in the file"
                )
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
            version = SCHEMA
        if self._make:
            connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("BEGIN")
        try:
            verify(connection, self._path, version)
        finally:
            connection.execute("ROLLBACK")
        if version == WITHOUT_CHECKSUMS and self._make:
            give_checksums(connection, self._path)
            version = SCHEMA
        elif version == WITHOUT_CHECKSUMS:
            warn_of_age(self._path, "a Recording on it gives it checksums")
        self._version = version

    def _found_dimension(self, connection: sqlite3.Connection) -> int:
        """Number of coordinates; 0 as long as nothing was asked."""
        if self._dimension == 0:
            columns = connection.execute("PRAGMA table_info(answers)").fetchall()
            found = {name for _, name, *_ in columns}
            dimension = 0
            while f"x{dimension}" in found:
                dimension += 1
            if connection.in_transaction:  # tables that are being made may yet be taken back
                return dimension
            self._dimension = dimension
        return self._dimension

    def _check_dimension(self, dimension: int) -> None:
        has = self._found_dimension(self.open())
        if dimension != has:
            raise ValueError(
                f"the recording {str(self._path)!r} has points of {has} coordinates, got {dimension}"
            )


_INHERITED: list[sqlite3.Connection | None] = []
"""Connections of a parent process: to close one here could take back what the parent is writing."""


def _clock() -> str:
    return datetime.now(UTC).isoformat()

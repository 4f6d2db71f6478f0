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

Every change is one transaction, on the disk when it returns: synchronous = EXTRA, which is FULL and
syncs the folder as well, without which a loss of power can take back the last transaction. There is a
rollback journal, no write-ahead log: between two transactions the file is complete, and can be copied.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Answers
from tvbandits.experts.records.tables import open_sqlite

APPLICATION = 0x74766264
"""The letters "tvbd"."""


SCHEMA = 1


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
        Whether to make the file where there is none.
    """

    def __init__(self, path: Path, timeout: float = 30.0, *, make: bool = True) -> None:
        self._path, self._timeout, self._make = path, timeout, make
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._dimension = 0  # not known yet

    def open(self) -> sqlite3.Connection:
        """The connection, made where it is not there."""
        with self._lock:
            if self._closed:
                raise ValueError(f"the recording {str(self._path)!r} is closed")
            if self._connection is None:
                if not self._path.parent.is_dir():
                    raise FileNotFoundError(f"there is no folder {str(self._path.parent)!r}")
                if self._make and not self._path.exists():
                    self._path.touch()
                connection = open_sqlite(self._path, self._timeout)
                try:
                    self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
                self._connection = connection
            return self._connection

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
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
            self._make_tables(connection, points.shape[1])
            cursor = connection.execute(
                "INSERT INTO questions (asked_at, asked_by, t, points, state) "
                "VALUES (?, ?, ?, ?, 'open')",
                (_clock(), f"{platform.node()}:{os.getpid()}", now, len(points)),
            )
            question = int(cursor.lastrowid or 0)
            connection.executemany(
                f"INSERT INTO asked VALUES (?, ?{', ?' * points.shape[1]})",
                [(question, place, *point) for place, point in enumerate(points.tolist())],
            )
        return question

    def answer(self, question: int, points: Array, now: float, said: Answers) -> None:
        """Write down the answers to a question."""
        names = _names(points.shape[1])
        same = " AND ".join(f"{name} = ?" for name in ("t", *names))
        count = (
            f"SELECT COALESCE(MAX(repeat) + 1, 0) FROM answers WHERE {same} AND value IS NOT NULL"
        )
        insert = (
            f"INSERT INTO answers (question, place, asked_at, t, {', '.join(names)}, "
            f"value, variance, repeat) SELECT id, ?, asked_at, t{', ?' * len(names)}, ?, ?, ? "
            "FROM questions WHERE id = ?"
        )
        with self._transaction() as connection:
            for place, point in enumerate(points.tolist()):
                answer: tuple[float | None, ...] = (None, None, None)
                if said.answered[place]:
                    (repeat,) = connection.execute(count, (now, *point)).fetchone()
                    answer = (float(said.values[place]), float(said.variance[place]), repeat)
                connection.execute(insert, (place, *point, *answer, question))
            connection.execute(
                "UPDATE questions SET state = 'answered', answered_at = ?, cost = ?, notes = ? "
                "WHERE id = ?",
                (_clock(), said.cost, json.dumps(said.notes), question),
            )

    def fail(self, question: int, error: str) -> None:
        """Write down that the expert failed on a question."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE questions SET state = 'failed', answered_at = ?, error = ? WHERE id = ?",
                (_clock(), error, question),
            )

    def known(self, points: Array, now: float) -> tuple[Array, Array]:
        """Values and variances (q,) of the answers in the file, NaN where there is none."""
        values, variance = np.full(len(points), np.nan), np.full(len(points), np.nan)
        with self._lock:
            connection = self.open()
            if self._found_dimension(connection) == 0:
                return values, variance
            self._check_dimension(points.shape[1])
            same = " AND ".join(f"{name} = ?" for name in ("t", *_names(points.shape[1])))
            find = (
                f"SELECT value, variance FROM answers WHERE {same} AND value IS NOT NULL "
                "ORDER BY repeat DESC LIMIT 1"
            )
            for row, point in enumerate(points.tolist()):
                found = connection.execute(find, (now, *point)).fetchone()
                if found is not None:
                    values[row], variance[row] = found
        return values, variance

    def in_doubt(self) -> tuple[Doubt, ...]:
        """Open questions."""
        with self._lock:
            connection = self.open()
            dimension = self._found_dimension(connection)
            if dimension == 0:
                return ()
            # One statement, so that a question which another process writes now is seen whole.
            rows = connection.execute(
                f"SELECT id, asked_at, asked_by, t, {', '.join(_names(dimension))} FROM questions "
                "JOIN asked ON question = id WHERE state = 'open' ORDER BY id, place"
            ).fetchall()
        points: dict[tuple[int, str, str, float], list[list[float]]] = {}
        for question, asked_at, asked_by, t, *point in rows:
            points.setdefault((question, asked_at, asked_by, t), []).append(point)
        return tuple(Doubt(*key, np.array(X)) for key, X in points.items())

    def cost(self) -> float:
        """Sum of the costs of answered questions."""
        with self._lock:
            connection = self.open()
            if self._found_dimension(connection) == 0:
                return 0.0
            (total,) = connection.execute("SELECT TOTAL(cost) FROM questions").fetchone()
        return float(total)

    def answers(self) -> pd.DataFrame:
        """The table `answers`, in the order of writing."""
        with self._lock:
            connection = self.open()
            dimension = self._found_dimension(connection)
            if dimension == 0:
                raise ValueError(
                    f"the recording {str(self._path)!r} is empty: nothing was asked yet"
                )
            columns = (
                "question",
                "asked_at",
                *_names(dimension),
                "t",
                "value",
                "variance",
                "repeat",
            )
            query = f"SELECT {', '.join(columns)} FROM answers ORDER BY id"
            frame = pd.read_sql_query(query, connection)
        numbers = [name for name in columns if name not in ("question", "asked_at")]
        return frame.astype(dict.fromkeys(numbers, np.float64))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self.open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """See whose file it is before anything is written to it."""
        try:
            application = _pragma(connection, "application_id")
            version = _pragma(connection, "user_version")
            (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, or not to be read: nothing is known of what it is
            raise ValueError(f"{str(self._path)!r} is not a recording: {error}") from error
        if application == version == tables == 0 and self._make:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
        elif application != APPLICATION:
            raise ValueError(
                f"{str(self._path)!r} is not a recording, but another SQLite file "
                f"(application_id {application}, expected {APPLICATION})"
            )
        elif version != SCHEMA:
            raise ValueError(
                f"the recording {str(self._path)!r} has schema {version}, expected {SCHEMA}"
            )
        connection.execute("PRAGMA synchronous = EXTRA")

    def _make_tables(self, connection: sqlite3.Connection, dimension: int) -> None:
        if self._found_dimension(connection):
            self._check_dimension(dimension)
            return
        coordinates = ", ".join(f"{name} REAL NOT NULL" for name in _names(dimension))
        for statement in (
            "CREATE TABLE questions (id INTEGER PRIMARY KEY AUTOINCREMENT, asked_at TEXT NOT NULL, "
            "answered_at TEXT, asked_by TEXT NOT NULL, t REAL NOT NULL, points INTEGER NOT NULL, "
            "state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'failed')), cost REAL, "
            "notes TEXT, error TEXT)",
            "CREATE TABLE asked (question INTEGER NOT NULL REFERENCES questions, "
            f"place INTEGER NOT NULL, {coordinates}, PRIMARY KEY (question, place)) WITHOUT ROWID",
            "CREATE TABLE answers (id INTEGER PRIMARY KEY AUTOINCREMENT, "
            "question INTEGER NOT NULL REFERENCES questions, place INTEGER NOT NULL, "
            f"asked_at TEXT NOT NULL, {coordinates}, t REAL NOT NULL, value REAL, variance REAL, "
            "repeat INTEGER, UNIQUE (question, place))",
            f"CREATE UNIQUE INDEX one_answer ON answers (t, {', '.join(_names(dimension))}, repeat) "
            "WHERE value IS NOT NULL",
            "CREATE INDEX open_questions ON questions (id) WHERE state = 'open'",
        ):
            connection.execute(statement)

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


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _names(dimension: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(dimension))


def _clock() -> str:
    return datetime.now(UTC).isoformat()

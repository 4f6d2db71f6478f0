"""The tables of a recording, and whether a file holds just them, as they were written.

Checksums of rows: what was written is what is read, or there is an error that names the row.

A row's checksum covers the name of its table and every column but the checksum. The checksums of a table
are also summed up, modulo 2^128, and the sum is kept with the number of rows in the table `seals`: a row
that is missing, or there twice, makes another sum. The sum is the same in whatever order rows come, and
a new row costs one addition.
"""

from __future__ import annotations

import re
import sqlite3
import struct
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tvbandits.core.protocols import ExpertError

Cell = int | float | str | None
"""What a column of a recording may hold."""


MODULUS = 2**128


class DamagedRecordingError(ExpertError, ValueError):
    """A recording holds something else than what was written to it."""


def checksum(table: str, cells: Iterable[object]) -> str:
    """Of one row: 32 hexadecimal digits.

    Raises
    ------
    TypeError
        If a cell is of a kind that a recording does not hold.
    """
    digest = blake2b(table.encode(), digest_size=16)
    for cell in cells:
        digest.update(_bytes(cell))
    return digest.hexdigest()


def _bytes(cell: object) -> bytes:
    """A cell with its kind and its length, so that no two rows give the same bytes."""
    if cell is None:
        return b"n"
    if isinstance(cell, float):
        return b"f" + struct.pack("<d", cell)
    if isinstance(cell, int):
        return b"i" + struct.pack("<q", cell)
    if isinstance(cell, str):
        text = cell.encode()
        return b"s" + struct.pack("<q", len(text)) + text
    raise TypeError(f"a cell of a recording cannot be {type(cell).__name__}")


def is_whole(table: str, row: Sequence[object]) -> bool:
    """Whether a row, whose last cell is its checksum, is as it was written."""
    try:
        return bool(row[-1] == checksum(table, row[:-1]))
    except (TypeError, struct.error, UnicodeError):
        return False


def added(total: str, new: str, old: str | None = None) -> str:
    """The sum of checksums after one was added, in the place of another where that is given."""
    value = int(total, 16) + int(new, 16) - (0 if old is None else int(old, 16))
    return f"{value % MODULUS:032x}"


APPLICATION = 0x74766264
"""The letters "tvbd"."""


SCHEMA = 2


WITHOUT_CHECKSUMS = 1
"""Schema of files whose rows carry no checksum."""


TABLES = ("questions", "asked", "answers")


PASSING = {"BUSY", "LOCKED", "READONLY", "IOERR", "CANTOPEN", "PERM", "FULL", "INTERRUPT", "NOMEM"}
"""Errors of SQLite that say nothing about what is in a file."""


_ZERO = f"{0:032x}"


@dataclass(frozen=True)
class VerifiedRecording:
    """What a recording holds that is as it was written.

    Attributes
    ----------
    questions, points, answers : int
        Rows of the three tables: questions, their points, and what became of each point.

    Examples
    --------
    >>> from tvbandits.experts import VerifiedRecording
    >>> print(VerifiedRecording(questions=3, points=6, answers=5))
    3 questions about 6 points, 5 answers: every row is as it was written
    """

    questions: int
    points: int
    answers: int

    def __str__(self) -> str:
        return (
            f"{self.questions} questions about {self.points} points, {self.answers} answers: "
            "every row is as it was written"
        )


def names(dimension: int) -> tuple[str, ...]:
    """Columns of the coordinates."""
    return tuple(f"x{i}" for i in range(dimension))


def statements(dimension: int, version: int = SCHEMA) -> dict[str, str]:
    """Name of each table and index -> the statement that makes it."""
    coordinates = ", ".join(f"{name} REAL NOT NULL" for name in names(dimension))
    mark = ", checksum TEXT NOT NULL" if version == SCHEMA else ""
    made = {
        "questions": "CREATE TABLE questions (id INTEGER PRIMARY KEY AUTOINCREMENT, "
        "asked_at TEXT NOT NULL, answered_at TEXT, asked_by TEXT NOT NULL, t REAL NOT NULL, "
        "points INTEGER NOT NULL, "
        "state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'failed')), cost REAL, "
        f"notes TEXT, error TEXT{mark})",
        "asked": "CREATE TABLE asked (question INTEGER NOT NULL REFERENCES questions, "
        f"place INTEGER NOT NULL, {coordinates}{mark}, PRIMARY KEY (question, place)) "
        "WITHOUT ROWID",
        "answers": "CREATE TABLE answers (id INTEGER PRIMARY KEY AUTOINCREMENT, "
        "question INTEGER NOT NULL REFERENCES questions, place INTEGER NOT NULL, "
        f"asked_at TEXT NOT NULL, {coordinates}, t REAL NOT NULL, value REAL, variance REAL, "
        f"repeat INTEGER{mark}, UNIQUE (question, place))",
        "one_answer": "CREATE UNIQUE INDEX one_answer ON answers "
        f"(t, {', '.join(names(dimension))}, repeat) WHERE value IS NOT NULL",
        "open_questions": "CREATE INDEX open_questions ON questions (id) WHERE state = 'open'",
    }
    if version == SCHEMA:
        made["seals"] = (
            "CREATE TABLE seals (name TEXT PRIMARY KEY, rows INTEGER NOT NULL, "
            "total TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID"
        )
    return made


def make_tables(connection: sqlite3.Connection, dimension: int) -> None:
    """The empty tables, for points of `dimension` coordinates."""
    for statement in statements(dimension).values():
        connection.execute(statement)
    for table in TABLES:
        connection.execute(
            "INSERT INTO seals VALUES (?, 0, ?, ?)",
            (table, _ZERO, checksum("seals", (table, 0, _ZERO))),
        )


def seal(
    connection: sqlite3.Connection,
    table: str,
    key: str,
    keys: Sequence[tuple[Any, ...]],
    before: str | None = None,
) -> None:
    """Give rows their checksums, and add these to the table's seal.

    Parameters
    ----------
    connection : sqlite3.Connection
        Within a transaction.
    table : str
    key : str
        Condition that finds one row, with placeholders for one of `keys`.
    keys : sequence of tuple
    before : str, optional
        Checksum that the one row had before it was changed; None: the rows are new.
    """
    (rows, total) = connection.execute(
        "SELECT rows, total FROM seals WHERE name = ?", (table,)
    ).fetchone()
    for each in keys:
        row = connection.execute(f"SELECT * FROM {table} WHERE {key}", each).fetchone()
        mark = checksum(table, row[:-1])
        connection.execute(f"UPDATE {table} SET checksum = ? WHERE {key}", (mark, *each))
        total = added(total, mark, before)
        rows += before is None
    connection.execute(
        "UPDATE seals SET rows = ?, total = ?, checksum = ? WHERE name = ?",
        (rows, total, checksum("seals", (table, rows, total)), table),
    )


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """The schema of a recording, 0 for a file without anything in it.

    Raises
    ------
    ValueError
        If it is another file, or of a schema that is not known.
    """
    try:
        application = _pragma(connection, "application_id")
        version = _pragma(connection, "user_version")
        (objects,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except (sqlite3.DatabaseError, UnicodeError) as error:  # a broken schema is cited as it is
        if isinstance(error, sqlite3.OperationalError):
            raise  # locked, or not to be read: nothing is known of what it is
        raise ValueError(f"{str(path)!r} is not a recording: {error}") from error
    if application == version == objects == 0:
        return 0
    if application != APPLICATION:
        raise ValueError(
            f"{str(path)!r} is not a recording, but another SQLite file "
            f"(application_id {application}, expected {APPLICATION})"
        )
    if version not in (SCHEMA, WITHOUT_CHECKSUMS):
        raise ValueError(f"the recording {str(path)!r} has schema {version}, expected {SCHEMA}")
    return version


def verify(connection: sqlite3.Connection, path: Path, version: int) -> VerifiedRecording:
    """Go through the whole file.

    Raises
    ------
    DamagedRecordingError
        If it holds anything else than the tables of a recording, or a row is not as it was written,
        is missing, or is there twice: the message names it.
    """
    with naming_damage(path):
        dimension = check_objects(connection, path, version)
        if dimension == 0:
            return VerifiedRecording(0, 0, 0)
        (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise DamagedRecordingError(f"the recording {str(path)!r} is damaged: {said}")
        if version == WITHOUT_CHECKSUMS:
            counts = (
                connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
                for table in TABLES
            )
            return VerifiedRecording(*counts)
        return VerifiedRecording(*(_verified(connection, path, table) for table in TABLES))


def _verified(connection: sqlite3.Connection, path: Path, table: str) -> int:
    """Number of rows of one table, all of them as they were written."""
    seals = connection.execute("SELECT * FROM seals WHERE name = ?", (table,)).fetchall()
    if len(seals) != 1 or not is_whole("seals", seals[0]):
        raise DamagedRecordingError(
            f"the recording {str(path)!r} is damaged: the seal of the table {table} is not as it "
            "was written"
        )
    _, rows, expected, _ = seals[0]
    total, found = _ZERO, 0
    for row in checked_rows(connection, path, table):
        total, found = added(total, row[-1]), found + 1
    if (found, total) != (rows, expected):
        raise DamagedRecordingError(
            f"the recording {str(path)!r} is damaged: the table {table} has {found} rows, and "
            f"{rows} were written" + (", of which some are others" if found == rows else "")
        )
    return found


def checked_rows(
    connection: sqlite3.Connection,
    path: Path,
    table: str,
    clause: str = "",
    values: Sequence[Any] = (),
) -> Iterator[tuple[Any, ...]]:
    """Rows of a table, all columns, each as it was written.

    Raises
    ------
    DamagedRecordingError
        At a row that is not: the message names it.
    """
    with naming_damage(path):
        for row in connection.execute(f"SELECT * FROM {table} {clause}", values):
            if not is_whole(table, row):
                which = f"{row[0]}" if table != "asked" else f"({row[0]}, {row[1]})"
                raise DamagedRecordingError(
                    f"the recording {str(path)!r} is damaged: row {which} of the table {table} is "
                    "not as it was written"
                )
            yield row


def check_objects(connection: sqlite3.Connection, path: Path, version: int) -> int:
    """Number of coordinates, if the file holds just the tables of a recording; 0: none of them."""
    found = {
        name: sql
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master")
        if not (name.startswith("sqlite_") and (sql is None or name == "sqlite_sequence"))
    }
    if not found:
        return 0
    dimension = 0
    while re.search(rf"\bx{dimension} REAL", str(found.get("asked"))):
        dimension += 1
    expected = statements(dimension, version)
    if found != expected:
        odd = sorted(
            name for name in found.keys() | expected if found.get(name) != expected.get(name)
        )
        raise DamagedRecordingError(
            f"{str(path)!r} is not a recording as it was made: {', '.join(map(repr, odd[:5]))} "
            "is missing, changed, or not of ours"
        )
    return dimension


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Turn what SQLite says about a broken file into our error, which names the file."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        kind = str(getattr(error, "sqlite_errorname", "")).removeprefix("SQLITE_")
        if kind.partition("_")[0] in PASSING:
            raise
        raise DamagedRecordingError(f"the recording {str(path)!r} is damaged: {error}") from error


def give_checksums(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a file of the schema without checksums to the one with them, wholly or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        dimension = check_objects(connection, path, WITHOUT_CHECKSUMS)
        kept = {
            table: connection.execute(f"SELECT * FROM {table}").fetchall()
            for table in (TABLES if dimension else ())
        }
        for table in kept:
            connection.execute(f"DROP TABLE {table}")
        if dimension:
            make_tables(connection, dimension)
        for table, rows in kept.items():
            key, width = ("id = ?", 1) if table != "asked" else ("question = ? AND place = ?", 2)
            for row in rows:
                marks = ", ?" * (len(row) + 1)
                connection.execute(f"INSERT INTO {table} VALUES ({marks[2:]})", (*row, ""))
            seal(connection, table, key, [row[:width] for row in rows])
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    warn_of_age(path, "it has them from now on")


def warn_of_age(path: Path, what: str) -> None:
    """Tell people that nothing vouches for a file."""
    warnings.warn(
        f"the recording {str(path)!r} was written without checksums, so that its answers cannot be "
        f"verified; {what}",
        UserWarning,
        stacklevel=2,
    )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

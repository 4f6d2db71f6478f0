"""An expert whose answers are kept in a file: `Recording`.

The file is a journal in a SQLite database.

Two tables. ``journal`` has a row for each thing that happened, numbered by ``seq``: its ``kind``, when
(``at``), a ``body`` in JSON, and a ``digest`` that covers all of it and the digest of the row before
(`tvbandits.core.files.journal`). ``head`` repeats number and digest of the last row, so that rows that
are cut off are missed.

=========  ============================================================================================
kind       body
=========  ============================================================================================
asked      ``by`` whom (host and process), about which points ``X`` and time ``t``
answered   row of the ``question``, ``values`` ("nan": refused), ``variance``, ``cost``, ``notes``
failed     row of the ``question``, and the ``error``
=========  ============================================================================================

A question without an answer or a failure is in doubt. The whole file is verified when it is opened;
what comes after that is read and verified as it comes.

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
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.core.arrays import Array, Index, as_points, as_time, finite_number, flag
from tvbandits.core.coercion import file_path
from tvbandits.core.files.journal import as_text, digest_of, numbers
from tvbandits.core.protocols import Answers, Expert, ExpertError, checked_answers
from tvbandits.experts.asking import SharedLock, Wrapper, checked_expert
from tvbandits.experts.records.tables import FilePath, open_sqlite

APPLICATION = 0x74766264
"""The letters "tvbd"."""

SCHEMA = 3

TABLES = {
    "journal": "CREATE TABLE journal (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, at TEXT NOT NULL, "
    "body TEXT NOT NULL, digest TEXT NOT NULL)",
    "head": "CREATE TABLE head (seq INTEGER NOT NULL, digest TEXT NOT NULL)",
}

PASSING = {"BUSY", "LOCKED", "READONLY", "IOERR", "CANTOPEN", "PERM", "FULL", "INTERRUPT", "NOMEM"}
"""Errors of SQLite that say nothing about what is in a file."""


class DamagedRecordingError(ExpertError, ValueError):
    """A recording holds something else than what was written to it."""


@dataclass(frozen=True)
class VerifiedRecording:
    """What a recording holds that is as it was written.

    Attributes
    ----------
    questions, points, answers : int
        Questions, their points, and what became of each point.

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


@dataclass(frozen=True, eq=False)
class Doubt:
    """A question without answers, of which nobody knows whether the expert has worked on it.

    Attributes
    ----------
    question : int
        Its row in the journal.
    asked_at : str
        UTC, ISO 8601.
    asked_by : str
        Host and process.
    t : float
    X : array of shape (q, d)

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import Doubt
    >>> doubt = Doubt(7, "2026-01-31T10:00:00", "laptop", 3.0, np.array([[1.0]]))
    """

    question: int
    asked_at: str
    asked_by: str
    t: float
    X: Array


@dataclass
class _Read:
    """What the rows up to `seq` say. A row that is taken twice, after an interrupt, counts once."""

    seq: int = 0
    digest: str = ""
    asked: dict[int, Doubt] = field(default_factory=dict)
    settled: dict[int, Answers | None] = field(default_factory=dict)
    known: dict[tuple[float, bytes], tuple[float, float]] = field(default_factory=dict)

    def take(self, seq: int, kind: str, at: str, text: str, digest: str) -> None:
        """The next row; an error of any kind if it is not as it was written."""
        if seq != self.seq + 1:
            raise ValueError(f"row {self.seq + 1} of the journal is missing")
        if digest != digest_of(self.digest, seq, kind, at, text):
            raise ValueError(f"row {seq} of the journal is not as it was written")
        body = json.loads(text)
        if kind == "asked":
            X = numbers(body["X"]).reshape(len(body["X"]), -1)
            self.asked[seq] = Doubt(seq, at, body["by"], body["t"], X)
        elif kind == "failed":
            self.settled[body["question"]] = None
        else:
            asked = self.asked[body["question"]]
            values, variance = numbers(body["values"]), numbers(body["variance"])
            said = Answers(values, variance, body["cost"], body["notes"])
            self.settled[asked.question] = checked_answers(said, len(asked.X))
            for row in np.flatnonzero(said.answered):
                answer = float(said.values[row]), float(said.variance[row])
                self.known[asked.t, asked.X[row].tobytes()] = answer
        self.seq, self.digest = seq, digest

    @property
    def dimension(self) -> int:
        """Number of coordinates; 0 as long as nothing was asked."""
        return next((each.X.shape[1] for each in self.asked.values()), 0)

    @property
    def answered(self) -> list[tuple[Doubt, Answers]]:
        """Questions with what came of them, in the order of their answers."""
        return [(self.asked[i], said) for i, said in self.settled.items() if said is not None]


class RecordingFile:
    """Reads and writes the file; any thread may call it.

    Parameters
    ----------
    path : Path
        Absolute.
    timeout : float
        Seconds to wait for another process that is writing.
    make : bool
        Whether to make the file where there is none, and to write; otherwise it is only read.
    """

    def __init__(self, path: Path, timeout: float = 30.0, *, make: bool = True) -> None:
        self._path, self._timeout, self._make = path, timeout, make
        self._lock = SharedLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._closed = False
        self._read = _Read()

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordingFile, (self._path, self._timeout)  # connected when it is first needed

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

    def verify(self) -> VerifiedRecording:
        """Go through the whole file; a `DamagedRecordingError` names what is not as it was written."""
        with self._lock.now, self._transaction("BEGIN") as connection:
            read = self._verified(connection)
        return VerifiedRecording(
            len(read.asked),
            sum(len(each.X) for each in read.asked.values()),
            sum(len(found.values) for _, found in read.answered),
        )

    def ask(self, points: Array, now: float) -> int:
        """Write down a question about `points` (q, d) before it is asked; its number."""
        by = f"{platform.node()}:{os.getpid()}"
        return self._append("asked", {"by": by, "t": now, "X": points}, points.shape[1])

    def answer(self, question: int, said: Answers) -> None:
        """Write down the answers to a question."""
        body = {name: getattr(said, name) for name in ("values", "variance", "cost", "notes")}
        self._append("answered", {"question": question, **body})

    def fail(self, question: int, error: str) -> None:
        """Write down that the expert failed on a question."""
        self._append("failed", {"question": question, "error": error})

    def known(self, points: Array, now: float) -> tuple[Array, Array]:
        """Values and variances (q,) of the answers in the file, NaN where there is none."""
        found = self._current(points.shape[1]).known
        none = (math.nan, math.nan)
        pairs = np.array([found.get((now, point.tobytes()), none) for point in points])
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def in_doubt(self) -> tuple[Doubt, ...]:
        """Open questions."""
        read = self._current()
        return tuple(each for seq, each in read.asked.items() if seq not in read.settled)

    def cost(self) -> float:
        """Sum of the costs of answered questions."""
        return math.fsum(found.cost for _, found in self._current().answered)

    def answers(self) -> pd.DataFrame:
        """A row for each point that was answered or refused, in the order of writing."""
        read = self._current()
        if read.dimension == 0:
            raise ValueError(f"the recording {str(self._path)!r} is empty: nothing was asked yet")
        names = [f"x{i}" for i in range(read.dimension)]
        rows = [
            (asked.question, asked.asked_at, *point, asked.t, value, variance)
            for asked, found in read.answered
            for point, value, variance in zip(
                asked.X.tolist(), found.values.tolist(), found.variance.tolist(), strict=True
            )
        ]
        columns = ["question", "asked_at", *names, "t", "value", "variance"]
        frame = pd.DataFrame(rows, columns=columns)
        frame = frame.astype(dict.fromkeys(columns[2:], np.float64))
        there = frame["value"].notna()
        again = frame[there].groupby([*names, "t"]).cumcount().astype(np.float64)
        return frame.assign(repeat=again.reindex(frame.index))

    def _append(self, kind: str, body: Mapping[str, Any], dimension: int | None = None) -> int:
        """Write a row behind the last one, whoever wrote that; its number."""
        with self._lock.now, self._transaction() as connection:
            read = self._caught_up(connection, dimension)
            at, text = datetime.now(UTC).isoformat(), as_text(body)
            row = (read.seq + 1, kind, at, text)
            digest = digest_of(read.digest, *row)
            connection.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", (*row, digest))
            connection.execute("UPDATE head SET seq = ?, digest = ?", (row[0], digest))
        return row[0]

    def _current(self, dimension: int | None = None) -> _Read:
        """What the file says at this moment, whatever other processes write."""
        with self._lock.now, self._transaction("BEGIN") as connection:
            return self._caught_up(connection, dimension)

    def _caught_up(self, connection: sqlite3.Connection, dimension: int | None) -> _Read:
        """All rows read, those since the last time verified."""
        read = self._read
        rows = connection.execute("SELECT * FROM journal WHERE seq > ? ORDER BY seq", (read.seq,))
        self._take(read, rows, connection)
        if dimension is not None and read.dimension not in (0, dimension):
            raise ValueError(
                f"the recording {str(self._path)!r} has points of {read.dimension} coordinates, "
                f"got {dimension}"
            )
        return read

    def _verified(self, connection: sqlite3.Connection) -> _Read:
        """The whole file, and everything in it."""
        found = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
        odd = {name for name, _ in {*found} ^ {*TABLES.items()}}
        if odd:
            raise DamagedRecordingError(
                f"{str(self._path)!r} is not a recording as it was made: "
                f"{', '.join(map(repr, sorted(odd)[:5]))} is missing, changed, or not of ours"
            )
        (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if said != "ok":
            raise self._damaged(said)
        read = _Read()
        self._take(read, connection.execute("SELECT * FROM journal ORDER BY seq"), connection)
        return read

    def _take(self, read: _Read, rows: sqlite3.Cursor, connection: sqlite3.Connection) -> None:
        try:
            for row in rows:
                read.take(*row)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise self._damaged(error) from error
        if connection.execute("SELECT * FROM head").fetchall() != [(read.seq, read.digest)]:
            raise self._damaged("the journal ends with another row than the last one")

    def _damaged(self, reason: object) -> DamagedRecordingError:
        return DamagedRecordingError(f"the recording {str(self._path)!r} is damaged: {reason}")

    @contextmanager
    def _transaction(
        self, begin: str = "BEGIN IMMEDIATE", connection: sqlite3.Connection | None = None
    ) -> Iterator[sqlite3.Connection]:
        """The file at one moment; what SQLite says about a broken one names it."""
        opened = self.open() if connection is None else connection
        opened.execute(begin)
        try:
            yield opened
            opened.execute("COMMIT")
        except (sqlite3.Error, UnicodeError) as error:
            kind = str(getattr(error, "sqlite_errorname", "")).removeprefix("SQLITE_")
            if kind.partition("_")[0] in PASSING:
                raise
            raise self._damaged(error) from error
        finally:
            if opened.in_transaction:
                opened.execute("ROLLBACK")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """See whose file it is, and whether it is whole, before anything is written to it."""
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if not self._is_ours(connection):
            if not self._make:
                raise ValueError(
                    f"{str(self._path)!r} is not a recording: there is nothing in the file"
                )
            with self._transaction(connection=connection):
                if not self._is_ours(connection):  # nor made by another process in between
                    for statement in TABLES.values():
                        connection.execute(statement)
                    connection.execute("INSERT INTO head VALUES (0, '')")
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {SCHEMA}")
        if self._make:
            connection.execute("PRAGMA synchronous = EXTRA")
        with self._transaction("BEGIN", connection):
            self._read = self._verified(connection)

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Whether it is a recording; False for a file without anything in it.

        Raises
        ------
        ValueError
            If it is something else, or of a schema that is not known.
        """
        try:
            application, version = (
                int(connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("application_id", "user_version")
            )
            (objects,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except (sqlite3.DatabaseError, UnicodeError) as error:  # a broken schema is cited as it is
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, or not to be read: nothing is known of what it is
            raise ValueError(f"{str(self._path)!r} is not a recording: {error}") from error
        if application == version == objects == 0:
            return False
        if application != APPLICATION:
            raise ValueError(
                f"{str(self._path)!r} is not a recording, but another SQLite file "
                f"(application_id {application}, expected {APPLICATION})"
            )
        if version != SCHEMA:
            raise ValueError(
                f"the recording {str(self._path)!r} has schema {version}, expected {SCHEMA}"
            )
        return True


_INHERITED: list[sqlite3.Connection | None] = []
"""Connections of a parent process: to close one here could take back what the parent is writing."""


class Recording(Wrapper):
    """Asks an expert and writes every answer down before anybody sees it.

    A question is written down before it is asked, and its answers are on the disk before `query`
    returns them, so nothing that was paid for is lost with a process. Where a process died between
    the payment and the writing, `in_doubt` tells which question that was.

    The file is a SQLite database; `tvbandits.experts.records.recording` describes it. Several
    processes may write to one file. It must lie on a disk of this machine: locks of network disks are
    not to be relied on.

    Parameters
    ----------
    expert : Expert
        Who is asked.
    path : str or path
        The file; made where there is none.
    reuse : bool
        Whether an answer in the file, to the very same point and time, is given again instead of asking
        again: a resumed run that repeats its last step pays for nothing twice. The last one written
        counts where there are several. What was refused is asked again. Threads of this process then
        ask one after the other; two processes that ask the same at the same moment both pay.
        With False every question is asked, and the answers to repeated ones are kept side by side,
        numbered by the column `repeat`.
    timeout : float
        How many seconds to wait for another process that is writing.

    Raises
    ------
    ValueError
        If the file is there, but is not a recording.
    DamagedRecordingError
        If it is one, and not as it was written.
    FileNotFoundError
        If its folder is not there.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert, Recording
    >>> recording = Recording(CallableExpert(lambda X, t: X[:, 0], 0.01), "answers.sqlite")
    >>> answers = recording.query(np.array([[1.0], [2.0]]), 1.0)
    >>> print(recording.verify())
    1 questions about 2 points, 2 answers: every row is as it was written
    >>> recording.close()
    """

    def __init__(
        self, expert: Expert, path: FilePath, *, reuse: bool = True, timeout: float = 30.0
    ) -> None:
        self.expert = checked_expert(expert)
        # Absolute, for a run that is resumed in another folder.
        self.path = file_path("path", path).absolute()
        self.reuse = flag("reuse", reuse)
        # SQLite counts it in milliseconds, in 32 bits.
        self.timeout = finite_number("timeout", timeout, low=0.0, high=1e6)
        self._asking = SharedLock()
        self._file = RecordingFile(self.path, self.timeout)
        self._file.open()

    def __repr__(self) -> str:
        return f"Recording({self.expert!r}, {str(self.path)!r}, reuse={self.reuse})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing can be asked afterwards. Closing twice is no error."""
        self._file.close()

    def verify(self) -> VerifiedRecording:
        """Go through the whole file, as is done when it is opened.

        Raises
        ------
        DamagedRecordingError
            If a row is not as it was written, is missing, or is there twice: the message names it.
        """
        with self._written("read"):
            return self._file.verify()

    @property
    def in_doubt(self) -> tuple[Doubt, ...]:
        """Questions that were asked and whose answers never arrived, the oldest first.

        Either the process died before it could write them down, or was interrupted: they may have been
        paid for. Or another process, or thread, is waiting for them at this moment.
        """
        with self._written("read"):
            return self._file.in_doubt()

    @property
    def cost(self) -> float:
        """Sum of the costs of all answered questions in the file."""
        with self._written("read"):
            return self._file.cost()

    def query(self, X: ArrayLike, t: float) -> Answers:
        """Answer from the file, ask the expert about the rest, and write down what it says.

        Raises
        ------
        ExpertError
            If the file cannot be written, or the expert answers in a form that cannot be used. Errors
            of the expert go through; the question is then marked as failed.
        """
        points = as_points(X) + 0.0  # -0.0 is the same point as 0.0
        now = as_time(t) + 0.0
        if len(points) == 0:
            return Answers.none(0)
        if not self.reuse:
            return self._asked(points, now)
        with self._asking.now:
            return self._completed(points, now)

    def _completed(self, points: Array, now: float) -> Answers:
        """Answers from the file, and those of the expert for points that it has none for."""
        with self._written("read"):
            values, variance = self._file.known(points, now)
        missing = np.isnan(values)
        if not missing.any():
            note = f"all {len(points)} answers were in the recording"
            return Answers(values, variance, notes=(note,))
        first, copies = _distinct(points[missing])
        said = self._asked(points[missing][first], now)
        values[missing], variance[missing] = said.values[copies], said.variance[copies]
        notes = said.notes
        if found := int((~missing).sum()):
            notes = (f"{found} of {len(points)} answers were in the recording", *notes)
        return Answers(values, variance, said.cost, notes)

    def _asked(self, points: Array, now: float) -> Answers:
        """Ask, with the question written down before and the answers after."""
        with self._written("write"):
            question = self._file.ask(points, now)
        # An interrupt is not caught: whether the expert has done its work is then in doubt.
        try:
            said = checked_answers(self.expert.query(points.copy(), now), len(points))
        except Exception as error:
            with self._written("write", during=error):
                self._file.fail(question, f"{type(error).__name__}: {error}")
            raise
        # What is returned now must be what the file gives later: it does not keep the sign of zero.
        said = Answers(said.values + 0.0, said.variance, said.cost, said.notes)
        with self._written("write", paid=f"the answers to question {question} arrived, but"):
            self._file.answer(question, said)
        return said

    @contextmanager
    def _written(
        self, verb: str, *, paid: str = "", during: Exception | None = None
    ) -> Iterator[None]:
        """Turn errors of the file into an `ExpertError`, which stops a run: it could not be resumed."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            message = f"cannot {verb} the recording {str(self.path)!r}: {error}"
            if during is None:
                raise ExpertError(f"{paid} {message}".strip()) from error
            during.add_note(message)


def recorded(path: FilePath) -> pd.DataFrame:
    """All answers in the file of a `Recording`, refusals included, in the order they were written.

    Columns: question, asked_at, x0, ..., t, value, variance, repeat; `value` is NaN for a refusal.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is not a recording, or nothing was ever asked.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert, Recording, recorded
    >>> recording = Recording(CallableExpert(lambda X, t: X[:, 0], 0.01), "answers.sqlite")
    >>> answers = recording.query(np.array([[1.0]]), 1.0)
    >>> recording.close()
    >>> print(recorded("answers.sqlite")[["question", "x0", "t", "value"]])
       question   x0    t  value
    0         1  1.0  1.0    1.0
    """
    with closing(RecordingFile(file_path("path", path).absolute(), make=False)) as file:
        return file.answers()


def verify_recording(path: FilePath) -> VerifiedRecording:
    """Go through the file of a `Recording` without changing it.

    Raises
    ------
    DamagedRecordingError
        If a row is not as it was written, is missing, or is there twice: the message names it.
    FileNotFoundError, ValueError
        If there is no such file, or it is not a recording.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert, Recording, verify_recording
    >>> recording = Recording(CallableExpert(lambda X, t: X[:, 0], 0.01), "answers.sqlite")
    >>> answers = recording.query(np.array([[1.0]]), 1.0)
    >>> recording.close()
    >>> print(verify_recording("answers.sqlite").answers)
    1
    """
    with closing(RecordingFile(file_path("path", path).absolute(), make=False)) as file:
        return file.verify()


def _distinct(points: Array) -> tuple[Index, Index]:
    """Rows of the distinct points, in their order, and for each point its number among them."""
    numbers: dict[bytes, int] = {}
    copies = [numbers.setdefault(point.tobytes(), len(numbers)) for point in points]
    number = np.array(copies, dtype=np.int64)
    first = np.array([copies.index(i) for i in range(len(numbers))], dtype=np.int64)
    return first, number

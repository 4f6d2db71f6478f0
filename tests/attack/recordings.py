"""Damaged recordings: none may be read with other values, without a word.

Bytes are flipped, cut off, zeroed and swapped, rows edited, deleted, added and moved from another
recording; each copy is read in every way there is, and gives the right values or an error that names it.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.attack.bad_values import cut_off, flipped, overwritten
from tests.attack.report import CRASHED, SILENT, Count, Found, Trial, in_the_loop, one_of
from tvbandits.core.protocols import Answers
from tvbandits.experts import CachedLogExpert, Recording, recorded

Damage = Callable[[Path, np.random.Generator], None]

POINTS = np.array([[0.25 * i, 1.0 - 0.5 * i] for i in range(6)])
TIMES = 8


class Known:
    """Answers with a number that belongs to the question alone; one point is refused."""

    def query(self, X: np.ndarray, t: float) -> Answers:
        """A formula of point and time."""
        values = X[:, 0] / 3.0 + np.sin(X[:, 1]) + t
        return Answers(np.where(X[:, 0] == 0.5, np.nan, values), 0.1 + 0.01 * t, 0.5)


class Never:
    """An expert that must not be needed."""

    def query(self, X: np.ndarray, t: float) -> Answers:  # noqa: ARG002
        """No answer."""
        return Answers.none(len(X))


def make(path: Path, shift: float = 0.0) -> None:
    """A recording of `TIMES` questions."""
    with Recording(Known(), path) as expert:
        for t in range(TIMES):
            expert.query(POINTS, t + shift)


EDITS = (
    "UPDATE journal SET body = replace(body, '1', '2') WHERE seq = {row}",
    "UPDATE journal SET body = replace(body, '\"nan\"', '0.5') WHERE kind = 'answered'",
    "UPDATE journal SET kind = 'failed' WHERE seq = 2 + {row} - {row} % 2",
    "UPDATE journal SET at = '2020-01-01' WHERE seq = {row}",
    "UPDATE journal SET seq = seq + 1000 WHERE seq = {row}",
    "UPDATE journal SET digest = '0' WHERE seq = {row}",
    "DELETE FROM journal",
    "DELETE FROM journal WHERE seq = {row}",
    "DELETE FROM journal WHERE seq > {row}",
    "DELETE FROM head",
    "UPDATE head SET seq = seq - 1",
    "INSERT INTO head SELECT * FROM head",
    "DROP TABLE journal",
    "DROP TABLE head",
    "ALTER TABLE journal RENAME COLUMN body TO worth",
    "ALTER TABLE journal ADD COLUMN more REAL",
    "CREATE TRIGGER odd AFTER INSERT ON journal BEGIN UPDATE journal SET body = ''; END",
    "CREATE VIEW odd AS SELECT 1",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 1",
    "INSERT INTO journal SELECT 17, kind, at, body, digest FROM journal WHERE seq = {row}",
)


def changed(path: Path, *statements: str) -> None:
    """Change it through SQLite itself: the file is sound, and says something else."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def edited(path: Path, rng: np.random.Generator) -> None:
    """Rows or tables."""
    changed(path, one_of(EDITS, rng).format(row=int(rng.integers(1, 16))))


def endless(path: Path, rng: np.random.Generator) -> None:
    """A view without an end in the place of a table."""
    table = one_of(("journal", "head"), rng)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    changed(
        path,
        "PRAGMA legacy_alter_table = ON",
        f"ALTER TABLE {table} RENAME TO away",
        f"CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        f"SELECT {', '.join(f'i AS {name}' for name in columns)} FROM n",
    )


def swapped(path: Path, rng: np.random.Generator) -> None:
    """A page of another recording of the same shape."""
    other = path.with_name("other.db")
    if not other.exists():
        make(other, shift=100.0)
    content, theirs = path.read_bytes(), other.read_bytes()
    page = int(rng.integers(min(len(content), len(theirs)) // 4096)) * 4096
    path.write_bytes(content[:page] + theirs[page : page + 4096] + content[page + 4096 :])


def _bytes(change: Callable[[bytes, np.random.Generator], bytes]) -> Damage:
    return lambda path, rng: path.write_bytes(change(path.read_bytes(), rng)) and None


DAMAGES: dict[str, Damage] = {
    "bits flipped": _bytes(flipped),
    "bytes overwritten": _bytes(overwritten),
    "cut off": _bytes(cut_off),
    "rows edited": edited,
    "a view without an end": endless,
    "a page of another": swapped,
}


def said(expert: Recording | CachedLogExpert) -> list[tuple[bytes, bytes, float]]:
    """What it answers to all that was asked."""
    answers = [expert.query(POINTS, float(t)) for t in range(TIMES)]
    return [(each.values.tobytes(), each.variance.tobytes(), each.cost) for each in answers]


def again(path: Path) -> object:
    """What a recording gives without its expert, and what that has cost."""
    with Recording(Never(), path) as expert:
        return said(expert), expert.cost


def table(path: Path) -> object:
    """All rows."""
    frame = recorded(path)
    return frame.drop(columns="asked_at").to_numpy(float).tobytes(), tuple(frame["asked_at"])


READERS: dict[str, Callable[[Path], object]] = {
    "recorded": table,
    "from_recording": lambda path: said(CachedLogExpert.from_recording(path)),
    "Recording": again,
}
"""Every way to read a recording; each gives something that can be compared."""


def reading(damage: str, reader: str, copy: Path, right: object, rng: np.random.Generator) -> str:
    """Damage the copy, and read it."""
    shutil.copy(copy.with_name("original.db"), copy)
    DAMAGES[damage](copy, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = READERS[reader](copy)
        except (ValueError, FileNotFoundError, RuntimeError) as error:
            if "copy.db" not in str(error):
                raise Found(CRASHED, f"not named: {type(error).__name__}: {error}") from error
            return f"{damage}: refused by name"
    if found != right:
        raise Found(SILENT, "other values")
    return f"{damage}: the right values"


@in_the_loop(1000)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """Damage so many copies, each in the same way for every reader."""
    with TemporaryDirectory(prefix="attack") as folder:
        original, copy = Path(folder, "original.db"), Path(folder, "copy.db")
        make(original)
        right = {}
        for name, read in READERS.items():
            shutil.copy(original, copy)
            right[name] = read(copy)
        for number, damage in zip(range(count), itertools.cycle(DAMAGES), strict=False):
            for name in READERS:
                rng = np.random.default_rng([seed, number])
                yield (
                    f"{number}, {damage}: {name}",
                    partial(reading, damage, name, copy, right[name], rng),
                )

"""Damaged recordings: none may be read with other values, without a word.

`python -m tests.attack.recordings [--count COPIES]` makes a recording, damages so many copies of it
(1,000 by default: bytes flipped, cut off, zeroed and swapped, rows edited, deleted, added and moved from
another recording) and reads each in every way there is. It prints a count of each outcome, and ends with
status 1 if a copy gave other values in silence, or an error that does not name it.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from tests.attack.report import CRASHED, SILENT, Count, Tally, run_one
from tvbandits.core.protocols import Answers
from tvbandits.experts import CachedLogExpert, Recording, recorded

Damage = Callable[[Path, np.random.Generator], str]

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


def flipped(path: Path, rng: np.random.Generator) -> str:
    """One to eight bits, anywhere."""
    content = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 9))):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    return "bits flipped"


def overwritten(path: Path, rng: np.random.Generator) -> str:
    """A stretch of bytes, by zeros, by noise, or by another stretch."""
    content = bytearray(path.read_bytes())
    size = int(rng.integers(1, 600))
    start, other = (int(each) for each in rng.integers(len(content) - size, size=2))
    new = (bytes(size), rng.bytes(size), bytes(content[other : other + size]))
    content[start : start + size] = new[int(rng.integers(3))]
    path.write_bytes(content)
    return "bytes overwritten"


def truncated(path: Path, rng: np.random.Generator) -> str:
    """Cut off, at a page or anywhere."""
    content = path.read_bytes()
    cut = int(rng.integers(1, len(content)))
    path.write_bytes(content[: cut - cut % 4096 if rng.random() < 0.5 and cut >= 4096 else cut])
    return "cut off"


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


def edited(path: Path, rng: np.random.Generator) -> str:
    """Rows or tables, through SQLite itself: the file is sound, and says something else."""
    statement = EDITS[int(rng.integers(len(EDITS)))].format(row=int(rng.integers(1, 16)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    return "rows edited"


def endless(path: Path, rng: np.random.Generator) -> str:
    """A view without an end in the place of a table."""
    table = ("journal", "head")[int(rng.integers(2))]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA legacy_alter_table = ON")
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        connection.execute(f"ALTER TABLE {table} RENAME TO away")
        connection.execute(
            f"CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            f"SELECT {', '.join(f'i AS {name}' for name in columns)} FROM n"
        )
        connection.commit()
    return "a view without an end"


def swapped(path: Path, rng: np.random.Generator) -> str:
    """A page of another recording of the same shape."""
    other = path.with_name("other.db")
    if not other.exists():
        make(other, shift=100.0)
    content, theirs = bytearray(path.read_bytes()), other.read_bytes()
    pages = min(len(content), len(theirs)) // 4096
    page = int(rng.integers(pages)) * 4096
    content[page : page + 4096] = theirs[page : page + 4096]
    path.write_bytes(content)
    return "a page of another"


DAMAGES: tuple[Damage, ...] = (flipped, overwritten, truncated, edited, endless, swapped)


def readings(path: Path) -> list[tuple[str, Callable[[], object]]]:
    """Every way to read a recording; each gives something that can be compared."""

    def again() -> object:
        with Recording(Never(), path) as expert:
            said = [expert.query(POINTS, float(t)) for t in range(TIMES)]
            cost = expert.cost - sum(each.cost for each in said)
            return [(each.values.tobytes(), each.variance.tobytes()) for each in said], cost

    def table() -> object:
        frame = recorded(path)
        return frame.drop(columns="asked_at").to_numpy(float).tobytes(), tuple(frame["asked_at"])

    def log() -> object:
        expert = CachedLogExpert.from_recording(path)
        said = [expert.query(POINTS, float(t)) for t in range(TIMES)]
        return [(each.values.tobytes(), each.variance.tobytes()) for each in said]

    return [("recorded", table), ("from_recording", log), ("Recording", again)]


def damaged(copies: int, seed: int = 0) -> Counter[tuple[str, str]]:
    """Damage so many copies; counts of (damage, outcome)."""
    rng = np.random.default_rng(seed)
    outcomes: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        original, copy = Path(folder, "original.db"), Path(folder, "copy.db")
        make(original)
        right = {}
        for name, read in readings(copy):
            shutil.copy(original, copy)
            right[name] = read()
        for number in range(copies):
            state = rng.bit_generator.state
            for name, read in readings(copy):
                rng.bit_generator.state = state  # the very same damage for each way of reading
                shutil.copy(original, copy)
                done = DAMAGES[number % len(DAMAGES)](copy, rng)
                outcomes[done, _outcome(read, right[name])] += 1
    return outcomes


def _outcome(read: Callable[[], object], right: object) -> str:
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            found = read()
        except (ValueError, FileNotFoundError, RuntimeError) as error:
            named = "copy.db" in str(error)
            return "refused by name" if named else f"NOT NAMED: {type(error).__name__}: {error}"
        except Exception as error:
            return f"NOT OURS: {type(error).__name__}: {error}"
    return "the right values" if found == right else "SILENT: other values"


def attack(count: int, seed: int) -> Tally:
    """Damage so many copies."""
    found = Count("damaged recordings")
    found.tried(count)
    for (damage, outcome), times in sorted(damaged(count, seed).items()):
        found.also(f"{damage}: {outcome}", times)
        if outcome[:3].isupper():
            kind = SILENT if outcome.startswith("SILENT") else CRASHED
            for _ in range(times):
                found.fault(kind, f"{damage}: {outcome}")
    return found.tally


if __name__ == "__main__":
    run_one(attack, "tests.attack.recordings", 1000)

"""A recording is read as it was written, or not at all."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.attack.recordings import EDITS, POINTS, Never, attack, changed, make
from tvbandits.core.arrays import Array
from tvbandits.core.files.reading import reading_limits
from tvbandits.core.protocols import Answers
from tvbandits.experts import (
    CachedLogExpert,
    DamagedRecordingError,
    Recording,
    recorded,
    verify_recording,
)

CHANGED = "UPDATE journal SET body = replace(body, '1', '2') WHERE seq = {row}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make(tmp_path / "answers.db")
    return tmp_path / "answers.db"


def test_damaged_copies_are_refused_by_name() -> None:
    tally = attack(12, seed=3)
    assert (tally.tried, tally.faults) == (3 * 12, {}), tally.examples


@pytest.mark.parametrize("statement", EDITS)
def test_every_edit_is_seen_at_once(path: Path, statement: str) -> None:
    changed(path, statement.format(row=10))
    with pytest.raises(ValueError, match=r"answers\.db"):
        verify_recording(path)
    with pytest.raises(ValueError, match=r"answers\.db"):
        Recording(Never(), path)


def test_the_row_is_named(path: Path) -> None:
    changed(path, CHANGED.format(row=8))
    match = r"'.*answers\.db' is damaged: row 8 of the journal is not as it was written"
    with pytest.raises(DamagedRecordingError, match=match):
        recorded(path)


def test_verify_is_a_verb(path: Path) -> None:
    said = verify_recording(path)
    assert (said.questions, said.points, said.answers) == (8, 48, 48)
    assert str(said).endswith("every row is as it was written")
    with Recording(Never(), path) as expert:
        assert expert.verify() == said
        changed(path, CHANGED.format(row=5))
        match = r"row 5 of the journal is not as it was written"
        with pytest.raises(DamagedRecordingError, match=match):
            expert.verify()


def test_a_row_that_changes_while_the_file_is_open_is_not_given(path: Path) -> None:
    with Recording(Never(), path) as expert:
        wanted = expert.query(POINTS, 0.0).values
        changed(path, CHANGED.format(row=2))
        np.testing.assert_array_equal(expert.query(POINTS, 0.0).values, wanted)
        changed(path, "DELETE FROM journal WHERE seq > 4")
        with pytest.raises(DamagedRecordingError, match="the journal ends with another row"):
            expert.query(POINTS, 0.0)


def test_reading_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    for query in (
        "DELETE FROM journal",
        "UPDATE journal SET body = ''",
        "DROP TABLE head",
        "PRAGMA query_only = OFF",
        "ATTACH DATABASE ':memory:' AS other",
    ):
        with pytest.raises(ValueError, match=r"answers\.db: only reading is allowed"):
            CachedLogExpert.from_sql(query, path)
    CachedLogExpert.from_sql("SELECT seq AS x0, 1 AS t, 1 AS value, 1 AS variance FROM head", path)
    recorded(path)
    verify_recording(path)
    assert path.read_bytes() == before


def test_a_view_without_an_end_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    changed(
        path,
        "CREATE VIEW log AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT COUNT(*) FROM n",
    )
    with pytest.raises(ValueError, match=r"log\.db: reading took longer than 0\.2 seconds"):
        CachedLogExpert.from_sql("SELECT * FROM log", path, seconds=0.2)


class Slow:
    """Answers when it is let go."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def query(self, X: Array, t: float) -> Answers:
        if t == 1.0:
            self.asked.set()
            assert self.go.wait(60)
        return Answers(np.zeros(len(X)), 1.0)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_asks_leaves_the_child_free(tmp_path: Path) -> None:
    slow = Slow()
    with Recording(slow, tmp_path / "answers.db") as expert:
        thread = threading.Thread(target=expert.query, args=([[0.0]], 1.0))
        thread.start()
        assert slow.asked.wait(60)
        context = multiprocessing.get_context("fork")
        child = context.Process(target=expert.query, args=([[0.0]], 2.0))
        child.start()
        child.join(60)
        hung = child.exitcode is None
        if hung:
            child.kill()
        slow.go.set()
        thread.join()
        assert not hung
        assert child.exitcode == 0
        assert expert.verify().answers == 2


def test_a_cell_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE log (x0, t, value, variance)")
        file.execute("INSERT INTO log VALUES (zeroblob(100001), 1, 1, 1)")
    with (
        reading_limits(unpacked_bytes=100_000),
        pytest.raises(
            ValueError, match=r"log\.db: a cell has more than 100000 bytes; .*reading_limits"
        ),
    ):
        CachedLogExpert.from_sql("SELECT * FROM log", path)

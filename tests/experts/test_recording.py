"""Answers that are kept in a file."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.attack.killed_recordings import kill_often
from tests.attack.recordings import EDITS, POINTS, Never, attack, changed, make
from tests.attack.report import Count
from tests.helpers.refusals import refused
from tvbandits import Answers, ExpertError
from tvbandits.core.arrays import Array
from tvbandits.core.files.reading import reading_limits
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import ExpertUnavailableError
from tvbandits.experts import CallableExpert, DamagedRecordingError, verify_recording
from tvbandits.experts.records.log import CachedLogExpert
from tvbandits.experts.records.recording import APPLICATION, SCHEMA, Recording, recorded


class Counting:
    """Answers with a new number for every answer it gives, and remembers what it was asked."""

    def __init__(self, *refuses: float) -> None:
        self.refuses = refuses
        self.asked: list[tuple[float, ...]] = []
        self.seen: list[int] = []

    def query(self, X: Array, t: float) -> Answers:
        values = []
        for point in X.tolist():
            self.asked.append((*point, t))
            values.append(math.nan if point[0] in self.refuses else len(self.asked) + 0.1)
        return Answers(np.array(values), 0.5, cost=2.0 * len(X), notes=("counted",))

    def observe(self, rewards: Observations) -> None:
        self.seen.append(len(rewards))


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
        raise self.error


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Read by plain SQL, by another connection."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.db"


# --- what is kept -----------------------------------------------------------------------------------


def journal(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """What happened, in its order."""
    found = rows(path, "SELECT kind, body FROM journal ORDER BY seq")
    return [(kind, json.loads(body)) for kind, body in found]


def test_the_journal_says_what_happened(path: Path) -> None:
    before = datetime.now(UTC)
    inner = Counting(2.0)
    with Recording(inner, path) as expert:
        said = expert.query([[1.0, 9.0], [2.0, 9.0]], 5.0)
        (first, asked), (second, answered) = journal(path)
        assert (first, second) == ("asked", "answered")
        assert (asked["t"], asked["X"]) == (5.0, [[1.0, 9.0], [2.0, 9.0]])
        assert answered.pop("variance")[0] == 0.5
        assert answered == {
            "question": 1,
            "values": [1.1, "nan"],
            "cost": 4.0,
            "notes": ["counted"],
        }
        assert expert.cost == 4.0
        assert expert.in_doubt == ()
    np.testing.assert_array_equal(said.values, [1.1, np.nan])
    assert said.notes == ("counted",)
    at = [datetime.fromisoformat(each) for (each,) in rows(path, "SELECT at FROM journal")]
    times = [before, *at, datetime.now(UTC)]
    assert times == sorted(times)
    assert rows(path, "PRAGMA application_id") == [(APPLICATION,)]
    assert rows(path, "PRAGMA user_version") == [(SCHEMA,)]
    assert rows(path, "PRAGMA journal_mode") == [("delete",)]


class Witness:
    """Looks into the file at the moment it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[tuple[Any, ...]] = []

    def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
        self.found = [(kind, body["X"]) for kind, body in journal(self.path)]
        return Answers(np.ones(len(X)), 1.0)


def test_a_question_is_on_the_disk_before_it_is_asked(path: Path) -> None:
    witness = Witness(path)
    Recording(witness, path).query([[1.0], [2.0]], 3.0)
    assert witness.found == [("asked", [[1.0], [2.0]])]


def test_writing_waits_for_the_disk(path: Path) -> None:
    expert = Recording(Counting(), path)
    assert expert._file.open().execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA


def test_nothing_is_asked_twice(path: Path) -> None:
    inner = Counting(2.0)
    expert = Recording(inner, path)
    first = expert.query([[1.0], [2.0]], 5.0)
    again = expert.query([[3.0], [2.0], [1.0], [3.0]], 5.0)
    # 2 was refused, and is asked again; 3 is asked once.
    assert inner.asked == [(1.0, 5.0), (2.0, 5.0), (3.0, 5.0), (2.0, 5.0)]
    np.testing.assert_array_equal(again.values, [3.1, np.nan, first.values[0], 3.1])
    assert again.cost == 4.0
    assert again.notes == ("1 of 4 answers were in the recording", "counted")
    for t, asked in ((5.0, 4), (6.0, 5)):  # another time is another question
        said = expert.query([[1.0]], t)
        assert len(inner.asked) == asked
    assert (said.values[0], said.notes) == (5.1, ("counted",))
    said = expert.query([[1.0], [3.0]], 5.0)
    assert (said.cost, said.notes) == (0.0, ("all 2 answers were in the recording",))
    assert expert.cost == 10.0


def test_without_reuse_answers_are_numbered(path: Path) -> None:
    inner = Counting()
    with Recording(inner, path, reuse=False) as expert:
        expert.query([[1.0], [1.0]], 5.0)
        np.testing.assert_array_equal(expert.query([[1.0]], 5.0).values, [3.1])
    wanted = [(1.1, 0), (2.1, 1), (3.1, 2)]
    assert recorded(path)[["value", "repeat"]].to_numpy().tolist() == [
        list(each) for each in wanted
    ]
    with Recording(inner, path) as expert:  # the last one counts
        np.testing.assert_array_equal(expert.query([[1.0]], 5.0).values, [3.1])
    assert len(inner.asked) == 3


finite = st.floats(-1e49, 1e49)
times = st.floats(-9e15, 9e15)


@given(
    st.lists(st.tuples(finite, finite, finite), min_size=1, max_size=6),
    times,
    st.floats(min_value=1e-50, max_value=1e100),
)
@settings(deadline=None, max_examples=25)
def test_floats_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory,
    points: list[tuple[float, float, float]],
    t: float,
    variance: float,
) -> None:
    path = tmp_path_factory.mktemp("recording") / "answers.db"
    X = np.array(points)[:, :2]
    answers = CallableExpert(lambda X, t: X[:, 0] / 3 - X[:, 1] / 7, variance)  # noqa: ARG005
    with Recording(answers, path) as expert:
        said = expert.query(X, t)
        again = expert.query(X, t)
    cached = CachedLogExpert.from_recording(path).query(X, t)
    for other in (again, cached):
        assert other.values.tobytes() == said.values.tobytes()
        assert other.variance.tobytes() == said.variance.tobytes()


def test_the_sign_of_zero_is_the_same_before_and_after(path: Path) -> None:
    with Recording(CallableExpert(lambda X, t: -0.0 * X[:, 0], 1.0), path) as expert:  # noqa: ARG005
        said = expert.query([[1.0], [-0.0]], -0.0)
        again = expert.query([[1.0], [0.0]], 0.0)
    assert said.values.tobytes() == again.values.tobytes() == np.zeros(2).tobytes()
    assert len(journal(path)) == 2


def test_a_log_is_made_of_a_recording(path: Path) -> None:
    with Recording(Counting(2.0), path) as expert:
        for t in (1.0, 2.0, 4.0):
            expert.query([[1.0], [2.0], [3.0]], t)
        log = CachedLogExpert.from_recording(path, staleness=1.0)  # while it is open
    assert (len(log), log.refusals) == (6, 3)
    said = log.query([[1.0], [2.0], [3.0]], 3.0)
    np.testing.assert_array_equal(said.values, [4.1, np.nan, 6.1])
    frame = recorded(path)
    names = ["question", "asked_at", "x0", "t", "value", "variance", "repeat"]
    assert list(frame.columns) == names
    assert frame["value"].isna().sum() == 3


# --- what goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [OSError("no wire"), ExpertUnavailableError("at night"), ValueError("a mistake")]
)
def test_errors_go_through_and_are_noted(path: Path, error: Exception) -> None:
    expert = Recording(Failing(error), path)
    with pytest.raises(type(error), match=str(error)) as caught:
        expert.query([[1.0]], 5.0)
    assert caught.value is error
    failure = {"question": 1, "error": f"{type(error).__name__}: {error}"}
    assert journal(path)[1:] == [("failed", failure)]
    assert expert.in_doubt == ()


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (np.ones(2), "the expert must return Answers, got ndarray"),
        (Answers(np.ones(1), 1.0), "the expert must answer 2 points, got 1 values"),
    ],
)
def test_malformed_answers_are_not_written(path: Path, said: Any, match: str) -> None:
    class Broken:
        def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
            return said  # type: ignore[no-any-return]

    refused(ExpertError, match, Recording(Broken(), path).query, [[1.0], [2.0]], 5.0)
    assert [kind for kind, _ in journal(path)] == ["asked", "failed"]


def test_an_interrupt_leaves_the_question_in_doubt(path: Path) -> None:
    with (
        Recording(Failing(KeyboardInterrupt("enough")), path) as expert,
        pytest.raises(KeyboardInterrupt, match="enough"),
    ):
        expert.query([[1.0, 2.0], [3.0, 4.0]], 5.0)
    with Recording(Counting(), path) as expert:
        (doubt,) = expert.in_doubt
        assert (doubt.question, doubt.t) == (1, 5.0)
        np.testing.assert_array_equal(doubt.X, [[1.0, 2.0], [3.0, 4.0]])
        assert datetime.fromisoformat(doubt.asked_at) <= datetime.now(UTC)
        expert.query([[1.0, 2.0]], 5.0)  # it is asked again, and stays in doubt
        assert len(expert.in_doubt) == 1


class Locking:
    """Another process begins to write while the expert thinks."""

    def __init__(self, path: Path) -> None:
        self.other = sqlite3.connect(path, isolation_level=None)

    def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
        self.other.execute("BEGIN EXCLUSIVE")
        return Answers(np.ones(len(X)), 1.0)


def test_answers_that_cannot_be_written_stop_the_run(path: Path) -> None:
    expert = Recording(Counting(), path, timeout=0.0)
    expert.expert = locking = Locking(path)
    match = "the answers to question 1 arrived, but cannot write the recording '.*': database is lo"
    refused(ExpertError, match, expert.query, [[1.0]], 5.0)
    with pytest.raises(ExpertError, match=r"^cannot read the recording '.*': database is locked"):
        expert.query([[1.0]], 5.0)
    locking.other.execute("ROLLBACK")
    assert len(expert.in_doubt) == 1
    assert [kind for kind, _ in journal(path)] == ["asked"]
    locking.other.execute("BEGIN IMMEDIATE")
    expert.expert = Counting()
    with pytest.raises(ExpertError, match=r"^cannot write the recording '.*': database is locked"):
        expert.query([[1.0]], 5.0)
    assert expert.expert.asked == []  # what cannot be written down is not asked
    locking.other.close()
    assert expert.query([[1.0]], 5.0).answered.all()


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE answers (x0 REAL)")
        connection.commit()


def later_schema(path: Path) -> None:
    Recording(Counting(), path).query([[1.0]], 1.0)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")


def not_a_database(path: Path) -> None:
    path.write_text("t,x0,value\n" * 100)


def table_of_another(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 17")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            foreign_database,
            r"answers.db' is not a recording, but another SQLite file \(applicat.* 0,",
        ),
        (table_of_another, r"not a recording, but another SQLite file \(application_id 17, expec"),
        (not_a_database, r"answers.db' is not a recording: file is not a database"),
        (later_schema, r"the recording '.*answers.db' has schema 4, expected 3"),
    ],
)
def test_files_of_another_kind_are_left_alone(
    path: Path, make: Callable[[Path], None], match: str
) -> None:
    make(path)
    before = path.read_bytes()
    refused(ValueError, match, Recording, Counting(), path)
    refused(ValueError, match, CachedLogExpert.from_recording, path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["answers.db"]


def test_points_of_another_dimension_are_refused(path: Path) -> None:
    Recording(Counting(), path).query([[1.0]], 1.0)
    for reuse in (True, False):
        with (
            Recording(Counting(), path, reuse=reuse) as expert,
            pytest.raises(ValueError, match="has points of 1 coordinates, got 2"),
        ):
            expert.query([[1.0, 2.0]], 1.0)
    assert len(journal(path)) == 2


def test_bad_arguments(path: Path) -> None:
    refused(ValueError, r"expert must have a method query\(X, t\), got 3", Recording, 3, path)
    refused(ValueError, "expert must have a method query", Recording, Counting, path)
    with pytest.raises(ValueError, match=r"timeout must lie in \[0, 1e\+06\], got -1\.0"):
        Recording(Counting(), path, timeout=-1.0)
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*nowhere'"):
        Recording(Counting(), path.parent / "nowhere" / "answers.db")
    with pytest.raises(FileNotFoundError, match=r"there is no SQLite file '.*answers\.db'"):
        CachedLogExpert.from_recording(path)
    assert not path.exists()
    expert = Recording(Counting(), path)
    with pytest.raises(ValueError, match=r"answers.db' is empty: nothing was asked yet"):
        CachedLogExpert.from_recording(path)
    refused(ValueError, "t must be a finite number, got nan", expert.query, [[1.0]], math.nan)
    refused(ValueError, "X must be finite", expert.query, [[math.nan]], 1.0)
    assert (expert.in_doubt, expert.cost) == ((), 0.0)


def test_a_closed_recording_says_so(path: Path) -> None:
    inner = Counting()
    expert = Recording(inner, path)
    expert.query([[1.0]], 1.0)
    expert.close()
    expert.close()
    for ask in (lambda: expert.query([[1.0]], 1.0), lambda: expert.in_doubt):
        refused(ValueError, r"the recording '.*answers\.db' is closed", ask)
    assert len(inner.asked) == 1


# --- several of them ---------------------------------------------------------------------------------


def test_a_pickled_recording_goes_on(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expert = Recording(Counting(), "answers.db")
    first = expert.query([[1.0]], 1.0)
    stored = pickle.dumps(expert)
    expert.close()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = pickle.loads(stored)
    assert again.query([[1.0]], 1.0).values[0] == first.values[0]
    again.query([[2.0]], 1.0)
    assert len(again.expert.asked) == 2
    assert repr(again) == f"Recording({again.expert!r}, {str(path)!r}, reuse=True)"


def test_threads_pay_once(path: Path) -> None:
    inner = Counting()
    expert = Recording(inner, path)
    start = threading.Barrier(6)
    found = []

    def ask() -> None:
        start.wait()
        found.append(expert.query(np.arange(4.0)[:, None], 1.0).values.tolist())

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inner.asked) == 4
    assert found == [found[0]] * 6


WRITER = """
import sys
import numpy as np
from tvbandits.experts import CallableExpert
from tvbandits.experts import Recording
expert = Recording(CallableExpert(lambda X, t: X[:, 0] + t, 0.1), sys.argv[1], reuse=False)
for t in range(25):
    expert.query(np.arange(3.0)[:, None], t)
"""


def test_a_change_shuts_out_others_from_its_first_moment(path: Path) -> None:
    # One that only read at first could not go on where another has begun to write, not even by waiting.
    expert = Recording(Counting(), path)
    with closing(sqlite3.connect(path, timeout=0.0, isolation_level=None)) as other:
        with (
            expert._file._transaction(),
            pytest.raises(sqlite3.OperationalError, match="database is locked"),
        ):
            other.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")


@pytest.mark.slow
def test_processes_share_a_file(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    found = recorded(path)[["x0", "t", "repeat"]].itertuples(index=False, name=None)
    wanted = [(float(x), float(t), n) for x in range(3) for t in range(25) for n in (0, 1)]
    assert sorted(found) == wanted
    assert len({body["by"] for kind, body in journal(path) if kind == "asked"}) == 2


# --- killed again and again -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_run_loses_nothing_and_pays_nothing_twice(tmp_path: Path) -> None:
    found = Count("kills")
    kill_often(found, tmp_path, 6, random.Random(1))
    assert found.tally.also["sold"] > 50


# --- a recording is read as it was written, or not at all

CHANGED = "UPDATE journal SET body = replace(body, '1', '2') WHERE seq = {row}"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    make(tmp_path / "answers.db")
    return tmp_path / "answers.db"


def test_damaged_copies_are_refused_by_name() -> None:
    tally = attack(12, seed=3)
    assert (tally.tried, tally.faults) == (3 * 12, {}), tally.examples


@pytest.mark.parametrize("statement", EDITS)
def test_every_edit_is_seen_at_once(made: Path, statement: str) -> None:
    changed(made, statement.format(row=10))
    refused(ValueError, r"answers\.db", verify_recording, made)
    refused(ValueError, r"answers\.db", Recording, Never(), made)


def test_verify_is_a_verb(made: Path) -> None:
    said = verify_recording(made)
    assert (said.questions, said.points, said.answers) == (8, 48, 48)
    assert str(said).endswith("every row is as it was written")
    with Recording(Never(), made) as expert:
        assert expert.verify() == said
        changed(made, CHANGED.format(row=5))
        match = r"row 5 of the journal is not as it was written"
        refused(DamagedRecordingError, match, expert.verify)


def test_a_row_that_changes_while_the_file_is_open_is_not_given(made: Path) -> None:
    with Recording(Never(), made) as expert:
        wanted = expert.query(POINTS, 0.0).values
        changed(made, CHANGED.format(row=2))
        np.testing.assert_array_equal(expert.query(POINTS, 0.0).values, wanted)
        changed(made, "DELETE FROM journal WHERE seq > 4")
        with pytest.raises(DamagedRecordingError, match="the journal ends with another row"):
            expert.query(POINTS, 0.0)


def test_reading_changes_nothing(made: Path) -> None:
    before = made.read_bytes()
    for query in (
        "DELETE FROM journal",
        "UPDATE journal SET body = ''",
        "DROP TABLE head",
        "PRAGMA query_only = OFF",
        "ATTACH DATABASE ':memory:' AS other",
    ):
        with pytest.raises(ValueError, match=r"answers\.db: only reading is allowed"):
            CachedLogExpert.from_sql(query, made)
    CachedLogExpert.from_sql("SELECT seq AS x0, 1 AS t, 1 AS value, 1 AS variance FROM head", made)
    recorded(made)
    verify_recording(made)
    assert made.read_bytes() == before


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

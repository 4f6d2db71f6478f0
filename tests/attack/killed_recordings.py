"""Runs with a recording that are killed: every answer that was sold is on record once, and paid once.

A process plays SparQ-GP-UCB and buys answers from a shop that keeps a ledger of its own. It is killed by
SIGKILL at random instants, also between a sale and its record and between the record and its use, and
goes on from its last saved state. In the end ledger and recording must hold the same answers, and the
run must have come out as one that nobody killed, to the last bit.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.gaussian_process.kernels import RBF

from tests.attack.campaigns import NOISE, SITES, Shop, nap, reward, sales, unlike
from tests.attack.report import WRONG, Count, Found, Trial, in_the_loop
from tvbandits import Answers, Bandit, State, policies
from tvbandits.core.arrays import Array
from tvbandits.experts import Recording, recorded
from tvbandits.experts.records.recording import RecordingFile
from tvbandits.queries import KDPP, LogSchedule

NAP = 0.05
"""Seconds to sleep at most after a sale, after its record and after a step."""


class HandedOn:
    """Hands on what a recording says, which must be on the disk by then, after a nap.

    Parameters
    ----------
    recording : Recording
    nap : float
    """

    def __init__(self, recording: Recording, nap: float) -> None:
        self.recording, self.nap = recording, nap

    def query(self, X: Array, t: float) -> Answers:
        """As the recording."""
        said = self.recording.query(X, t)
        known = {row[:2] for row in rows(self.recording.path)}
        missing = {(x, t) for x in X[:, 0].tolist()} - known
        assert not missing, f"{missing} are handed on and not recorded"
        nap(self.nap)
        return said


def rows(path: Path) -> list[tuple[Any, ...]]:
    """(x, t, value) of a recording."""
    with contextlib.suppress(FileNotFoundError, ValueError):  # nothing was asked yet
        return [*recorded(path)[["x0", "t", "value"]].itertuples(index=False, name=None)]
    return []


def saved(folder: Path) -> State | None:
    """The state that a run goes on from."""
    path = folder / "state.pickle"
    return pickle.loads(path.read_bytes()) if path.exists() else None


def play(folder: Path, steps: int, longest: float) -> None:
    """Play up to so many steps, from where it was left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    recording = Recording(Shop(folder / "ledger.jsonl", longest), folder / "answers.db")
    expert, plan = HandedOn(recording, longest), KDPP(LogSchedule(1.5))
    options: Any = {"expert": expert, "queries": plan, "confidence": 2.0, "seed": 3}
    bandit = policies.sparq_gp_ucb(SITES, RBF(1.5), NOISE, **options)
    state = saved(folder)
    bandit = bandit if state is None else Bandit.from_state(bandit.recipe, state)
    for t in range(len(bandit.state.rewards) + 1, steps + 1):
        X = bandit.ask(t)
        bandit.tell(X, reward(X, float(t)), t)
        fresh = folder / "state.fresh"
        fresh.write_bytes(pickle.dumps(bandit.state))
        fresh.replace(folder / "state.pickle")
        nap(longest)


def kill_often(found: Count, folder: Path, kills: int, rng: random.Random) -> None:
    """Kill a run so many times, let it come to its end, and compare it with one that nobody killed."""
    fork, steps = multiprocessing.get_context("fork"), 3 * kills + 30
    killed, twin = folder / "killed", folder / "twin"
    for each in (killed, twin):
        each.mkdir()
    for _ in range(kills):
        child = fork.Process(target=play, args=(killed, steps, NAP))
        child.start()
        time.sleep(rng.uniform(0.0, 6 * NAP))
        if child.exitcode is not None:
            raise Found(WRONG, f"the run ended by itself, with status {child.exitcode}")
        os.kill(child.pid, signal.SIGKILL)  # type: ignore[arg-type]
        child.join()
    for each in (killed, twin):
        child = fork.Process(target=play, args=(each, steps, 0.0))
        child.start()
        child.join()
        if child.exitcode:
            raise Found(WRONG, f"the run ended with status {child.exitcode}")
    if faults := [*faults_of(found, killed, twin)]:
        raise Found(WRONG, "; ".join(faults[:9]))


def faults_of(found: Count, killed: Path, twin: Path) -> Iterator[str]:
    """What is wrong at the end."""
    sold = Counter((x, t) for kind, x, t in sales(killed / "ledger.jsonl") if kind == "sale")
    again = [(x, t) for kind, x, t in sales(killed / "ledger.jsonl") if kind == "again"]
    answers = rows(killed / "answers.db")
    kept = Counter(row[:2] for row in answers)
    for name, counts in (("sold", sold), ("recorded", kept)):
        yield from (f"{each} was {name} {n} times" for each, n in counts.items() if n > 1)
    yield from (f"{each} is not in both books" for each in sorted(set(sold) ^ set(kept)))
    with contextlib.closing(RecordingFile(killed / "answers.db", make=False)) as file:
        doubts = {doubt.t for doubt in file.in_doubt()}
    yield from (
        f"{each} was asked again without a doubt" for each in again if each[1] not in doubts
    )
    if set(rows(twin / "answers.db")) != set(answers):
        yield "the recording is not that of the twin"
    yield from unlike(saved(killed), saved(twin))
    for name, each in (("sold", sold), ("sold again", again), ("in doubt", doubts)):
        found.also(name, len(each))


@in_the_loop(50, 3)
def attack(found: Count, count: int, seed: int) -> Iterator[Trial]:
    """Kill a run so many times."""
    found.tried(count - 1)
    with tempfile.TemporaryDirectory(prefix="attack") as folder:
        yield "kills", partial(kill_often, found, Path(folder), count, random.Random(seed))

"""A run that may be killed at any moment: `python recording_child.py FOLDER STEPS NAP`.

It plays SparQ-GP-UCB with a `Recording` of a shop that sells answers, and goes on from the state in the
folder if there is one. NAP is the longest time, in seconds, to sleep after a sale, after an answer is
recorded, and after the state is saved; so that a kill hits these moments.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from pathlib import Path
from random import SystemRandom

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from tvbandits import Answers, Bandit, Candidates, policies
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.core.observations import Observations
from tvbandits.experts.records.recording import Recording
from tvbandits.queries.plans import KDPP, LogSchedule

VARIANCE = 0.04
CHANCE = SystemRandom()
"""Of sleeping; the run itself must not depend on it."""


def nap(longest: float) -> None:
    time.sleep(CHANCE.uniform(0.0, longest))


def truth(X: Array, t: float) -> Array:
    return np.asarray(np.sin(5.0 * X[:, 0] - 0.07 * t))


class Shop:
    """Sells answers, and notes every sale in a ledger of its own before it hands the answer over.

    What was sold before is handed over again for nothing, and noted as well.
    """

    def __init__(self, ledger: Path, longest: float) -> None:
        self.ledger, self.longest = ledger, longest

    def query(self, X: Array, t: float) -> Answers:
        sold = {(e["x"], e["t"]): e["value"] for e in entries(self.ledger) if e["kind"] == "sale"}
        values = truth(X, t) + VARIANCE**0.5 * keyed_normal(7, 0x5E11, X, t)
        said = []
        with self.ledger.open("ab", buffering=0) as file:
            for x, value in zip(X[:, 0].tolist(), values.tolist(), strict=True):
                kind = "again" if (x, t) in sold else "sale"
                entry = {"kind": kind, "x": x, "t": t, "value": sold.get((x, t), value)}
                file.write(json.dumps(entry).encode() + b"\n")  # at one go
                os.fsync(file.fileno())
                said.append(entry["value"])
                if kind == "sale":
                    nap(self.longest / len(X))
        return Answers(np.array(said), VARIANCE, cost=float(len(X)))


class Slow:
    """Hands answers on after a nap: they are recorded, and nobody has used them yet.

    It notes what it was given before it sleeps: at that moment all of it must be in the recording.
    """

    def __init__(self, recording: Recording, seen: Path, longest: float) -> None:
        self.recording, self.seen, self.longest = recording, seen, longest

    def observe(self, rewards: Observations) -> None:
        self.recording.observe(rewards)

    def query(self, X: Array, t: float) -> Answers:
        said = self.recording.query(X, t)
        rows = zip(X[:, 0].tolist(), said.values.tolist(), strict=True)
        with self.seen.open("ab", buffering=0) as file:
            file.write(b"".join(json.dumps([x, t, value]).encode() + b"\n" for x, value in rows))
        nap(self.longest)
        return said


def entries(ledger: Path) -> list[dict[str, object]]:
    if not ledger.exists():
        return []
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def started(folder: Path, longest: float) -> Bandit:
    """The bandit, from the saved state if there is one."""
    shop = Shop(folder / "ledger.jsonl", longest)
    bandit = policies.sparq_gp_ucb(
        Candidates(np.linspace(0.0, 1.0, 25)[:, None]),
        RBF(0.2),
        VARIANCE,
        expert=Slow(Recording(shop, folder / "answers.db"), folder / "seen.jsonl", longest),
        queries=KDPP(LogSchedule(1.5)),
        confidence=2.0,
        seed=3,
    )
    saved = folder / "state.pickle"
    if saved.exists():
        return Bandit.from_state(bandit.recipe, pickle.loads(saved.read_bytes()))
    return bandit


def save(bandit: Bandit, folder: Path) -> None:
    """Replace the saved state at one go."""
    fresh = folder / "state.fresh"
    with fresh.open("wb") as file:
        pickle.dump(bandit.state, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / "state.pickle")


def run(folder: Path, steps: int, longest: float) -> None:
    bandit = started(folder, longest)
    print("ready", flush=True)
    while len(bandit.state.rewards) < steps:
        X = bandit.ask()
        t = len(bandit.state.rewards) + 1.0
        bandit.tell(X, truth(X, t) + VARIANCE**0.5 * keyed_normal(1, 2, X, t), t)
        save(bandit, folder)
        nap(longest / 4)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        run(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))

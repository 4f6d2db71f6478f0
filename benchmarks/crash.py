"""Kill a run with a `Recording` again and again: `python -m benchmarks.crash --times 50`.

A process (tests/recording_child.py) plays SparQ-GP-UCB and buys answers from a shop that keeps a ledger
of its own. It is killed by SIGKILL at random moments and goes on from its last saved state. In the end
the ledger and the recording must hold every answer once and the same, and the run must have come out as
one that nobody killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvbandits.experts import recorded
from tvbandits.experts.records.recording import RecordingFile

CHILD = Path(__file__).resolve().parents[1] / "tests" / "helpers" / "recording_child.py"

WINDOWS = ("sold, not recorded", "recorded, not used", "elsewhere")
"""Where a kill fell: between sale and commit, between commit and the next saved state, or neither."""


@dataclass(frozen=True)
class Report:
    """What came of it.

    Attributes
    ----------
    kills : int
    windows : dict
        How many of the kills fell where.
    steps, sold, recorded : int
        Length of the run, answers in the ledger and in the recording.
    again : int
        Answers that the shop had to hand over a second time.
    in_doubt : int
        Open questions in the recording at the end.
    faults : list of str
        What is wrong; empty if all is well.
    """

    kills: int
    windows: dict[str, int]
    steps: int
    sold: int
    recorded: int
    again: int
    in_doubt: int
    faults: list[str]


def ledger_of(folder: Path, kind: str) -> list[tuple[float, float, float]]:
    """(x, t, value) of the entries of one kind."""
    ledger = folder / "ledger.jsonl"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    found = [json.loads(line) for line in lines]
    return [(e["x"], e["t"], e["value"]) for e in found if e["kind"] == kind]


def seen_of(folder: Path) -> list[tuple[float, float, float]]:
    """(x, t, value) of all answers that were handed to the bandit, or were about to be."""
    seen = folder / "seen.jsonl"
    lines = seen.read_text().splitlines() if seen.exists() else []
    return [(x, t, value) for x, t, value in map(json.loads, lines)]


def answers_of(folder: Path) -> list[tuple[Any, ...]]:
    """(x, t, value) of the recording."""
    with contextlib.suppress(FileNotFoundError, ValueError):  # nothing was asked yet
        found = recorded(folder / "answers.db")[["x0", "t", "value"]]
        return list(found.itertuples(index=False, name=None))
    return []


def doubts_of(folder: Path) -> list[float]:
    """Times of the questions whose answers never arrived."""
    file = folder / "answers.db"
    if not file.exists() or not file.stat().st_size:
        return []
    with contextlib.closing(RecordingFile(file.absolute(), make=False)) as recording:
        return [doubt.t for doubt in recording.in_doubt()]


def state_of(folder: Path) -> Any:
    saved = folder / "state.pickle"
    return pickle.loads(saved.read_bytes()) if saved.exists() else None


def begun(folder: Path, steps: int, nap: float) -> subprocess.Popen[str]:
    """The child, when it is about to play."""
    command = [sys.executable, str(CHILD), str(folder), str(steps), str(nap)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    if child.stdout.readline() != "ready\n":
        raise RuntimeError(f"the child failed with status {child.wait()}")
    return child


@dataclass(frozen=True)
class Traces:
    """What is on the disk: sales, answers, number of open questions, and time of the saved state."""

    sold: list[tuple[Any, ...]]
    recorded: list[tuple[Any, ...]]
    doubts: int
    used: float


def traces(folder: Path) -> Traces:
    state = state_of(folder)
    return Traces(
        [*ledger_of(folder, "sale")],
        answers_of(folder),
        len(doubts_of(folder)),
        0.0 if state is None else float(state.time),
    )


def window_of(folder: Path, before: Traces) -> str:
    """Where the last kill fell, by what it has left behind that was not there before."""
    after = traces(folder)
    sold, recorded = ({row[:2] for row in rows} for rows in (after.sold, after.recorded))
    if after.doubts > before.doubts and sold - recorded:
        return WINDOWS[0]
    fresh = after.recorded[len(before.recorded) :]
    return WINDOWS[1] if any(t > after.used for _, t, _ in fresh) else WINDOWS[2]


def kill_often(
    folder: Path, times: int, steps: int, nap: float, rng: random.Random
) -> tuple[Counter[str], list[str]]:
    """Start the child and kill it, `times` times: where the kills fell, and what was lost by them."""
    windows: Counter[str] = Counter()
    lost: set[tuple[Any, ...]] = set()
    for _ in range(times):
        before = traces(folder)
        with begun(folder, steps, nap) as child:
            time.sleep(rng.uniform(0.0, 3 * nap))
            if child.poll() is not None:
                raise RuntimeError(f"the child ended by itself, with status {child.returncode}")
            os.kill(child.pid, signal.SIGKILL)
        windows[window_of(folder, before)] += 1
        lost |= set(seen_of(folder)) - set(answers_of(folder))
    return windows, [f"{row} was handed on before it was recorded" for row in sorted(lost)]


def finish(folder: Path, steps: int) -> None:
    """Let the child play to the end."""
    with begun(folder, steps, 0.0) as child:
        pass
    if child.returncode:
        raise RuntimeError(f"the child failed with status {child.returncode}")


def differences(one: Any, other: Any) -> list[str]:
    """Parts of two states that are not the same bit for bit."""
    found = [
        f"{part}.{name} of the killed run are not those of the twin"
        for part in ("rewards", "answers")
        for name in ("X", "t", "y", "variance")
        if getattr(getattr(one, part), name).tobytes()
        != getattr(getattr(other, part), name).tobytes()
    ]
    if one.random != other.random:
        found.append("the random generator of the killed run is not where the twin's is")
    if not np.array_equal(one.visited, other.visited):
        found.append("the points of the killed run are not those of the twin")
    return found


def faults_of(folder: Path, twin: Path) -> list[str]:
    """What is wrong at the end."""
    sold, recorded = ledger_of(folder, "sale"), answers_of(folder)
    found = []
    for name, rows in (("ledger", sold), ("recording", recorded)):
        twice = [key for key, n in Counter(row[:2] for row in rows).items() if n > 1]
        found += [f"{key} is in the {name} more than once" for key in twice]
    # Floats out of JSON and SQLite are compared as they are: both keep every bit.
    found += [f"sold {row} is not in the recording" for row in sorted(set(sold) - set(recorded))]
    found += [f"recorded {row} was not sold" for row in sorted(set(recorded) - set(sold))]
    doubtful = set(doubts_of(folder))
    found += [
        f"({x}, {t}) was asked again, though its question is not in doubt"
        for x, t, _ in ledger_of(folder, "again")
        if t not in doubtful
    ]
    if set(answers_of(twin)) != set(recorded):
        found.append("the recording is not that of the twin")
    if doubts_of(twin) or ledger_of(twin, "again"):
        found.append("the twin has questions in doubt, or asked something again")
    return found + differences(state_of(folder), state_of(twin))


def crash(folder: Path, times: int, nap: float, seed: int) -> Report:
    """Kill a run `times` times; the files stay in `folder`."""
    killed, twin = folder / "killed", folder / "twin"
    killed.mkdir()
    twin.mkdir()
    steps = 3 * times + 30  # more than can be played between the kills
    windows, lost = kill_often(killed, times, steps, nap, random.Random(seed))
    finish(killed, steps)
    finish(twin, steps)
    return Report(
        times,
        {name: windows[name] for name in WINDOWS},
        steps,
        len(ledger_of(killed, "sale")),
        len(answers_of(killed)),
        len(ledger_of(killed, "again")),
        len(doubts_of(killed)),
        lost + faults_of(killed, twin),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crash", description=__doc__)
    parser.add_argument("--times", type=int, default=50, metavar="N", help="kills; 50 by default")
    parser.add_argument(
        "--nap", type=float, default=0.05, metavar="SECONDS", help="0.05 by default"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments; 0 by default")
    parser.add_argument("--folder", type=Path, help="an empty folder, to keep the files in")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        report = crash(folder, options.times, options.nap, options.seed)
    print(json.dumps(asdict(report), indent=2))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())

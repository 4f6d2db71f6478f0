"""Time and memory of a step late in a long run, against peers.

    python -m benchmarks.long_run [--steps 100000] [--minutes 10] [NAME ...]

The bump of SparQ-GP-UCB wanders over 101 candidates of [-50, 50], which peers play as an interval. A
step is an ask and a tell. Our policies keep the latest 10,000 rewards. The table has median
milliseconds of processor time around steps 50, 100, 200, ..., and the megabytes of our process, a new
one for each policy. A peer has `--minutes` of processor time; without `--python` no peer is played.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import clock, heading, line, make_parser
from benchmarks.peers.__main__ import PeerProcess
from tvbandits import Bandit, policies
from tvbandits.datasets import DriftingBump
from tvbandits.experts import SimulatorExpert
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.validation import Array

PROBLEM = DriftingBump(candidates=101)
NOISE = PROBLEM.noise_variance
PARTS: Any = {"domain": PROBLEM.domain, "kernel": PROBLEM.kernel, "noise_variance": NOISE}
OURS: dict[str, Callable[[], Bandit]] = {
    "sw-gp-ucb": lambda: policies.sw_gp_ucb(**PARTS, window=50),
    "tv-gp-ucb": lambda: policies.tv_gp_ucb(**PARTS, forgetting_rate=0.01),
    "sparq-gp-ucb": lambda: policies.sparq_gp_ucb(**PARTS, expert=SimulatorExpert(PROBLEM)),
    "adaptive-gp-ucb": lambda: policies.adaptive_gp_ucb(PROBLEM.domain, noise_variance=NOISE),
    "frugal-gp-ucb": lambda: policies.frugal_gp_ucb(
        PROBLEM.domain, noise_variance=NOISE, expert=SimulatorExpert(PROBLEM), queries_per_step=2
    ),
}
PEERS = {"BoTorch, time as an input": "botorch-time", "Optuna's GPSampler": "optuna-gp"}
# Number of rewards that our policies keep, and half of the number of steps of a median.
HISTORY, HALF = 10_000, 25


def rewards(x: Array, t: float) -> Array:
    """Return the noisy reward of a point."""
    return np.asarray(PROBLEM.value(x, t) + NOISE**0.5 * keyed_normal(0, 1, x, t))


def time_steps(
    step: Callable[[float], float], steps: int, seconds: float
) -> Iterator[tuple[int, float]]:
    """Yield steps 50, 100, 200, 500, ... with milliseconds around each, until `seconds` have passed.

    `step(t)` plays a step, and returns its seconds.
    """
    marks = [50, *(a * 10**b for b in range(2, 8) for a in (1, 2, 5) if a * 10**b <= steps)]
    times: list[float] = []
    for t in range(1, marks[-1] + HALF + 1):
        times.append(step(float(t)))
        if t - HALF in marks:
            yield t - HALF, 1e3 * statistics.median(times[-2 * HALF :])
        seconds -= times[-1]
        if seconds < 0:
            return


def megabytes() -> float:
    """Return the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def ours(name: str, steps: int) -> None:
    """Print the rows of one of our policies."""
    bandit = OURS[name]().with_options(max_history=HISTORY)

    def step(t: float) -> float:
        start = clock()
        x = bandit.ask(t)
        ask_time, y = clock() - start, rewards(x, t)
        start = clock()
        bandit.tell(x, y, t)
        return ask_time + clock() - start

    with threadpool_limits(1):
        for t, ms in time_steps(step, steps, math.inf):
            line(name, f"{t:,}", f"{ms:.2f}", f"{megabytes():.0f}")


def peers(name: str, python: str, seconds: float) -> None:
    """Print the rows of a peer, whose process reports its own time."""
    peer = PeerProcess(python, PEERS[name], [[-50.0, 50.0]], 1000, 0)

    def step(t: float) -> float:
        reply = peer.call({"ask": t})
        y = rewards(np.array([reply["x"]]), t)
        told = peer.call({"tell": [reply["x"], float(y[0]), t]})
        return float(reply["seconds"] + told["seconds"])

    try:
        for t, ms in time_steps(step, 10**6, seconds):
            line(name, f"{t:,}", f"{ms:.2f}", "")
    finally:
        peer.close()


def main() -> None:
    """Play, and print the table."""
    parser = make_parser(__doc__, steps=100_000, minutes=10.0)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(OURS)}; all by default")
    parser.add_argument("--python", default=".venv-peers/bin/python", help="of the peers")
    options = parser.parse_args()
    heading("policy", "step", "ms a step", "MB")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as fresh:
        for name in options.names or OURS:
            fresh.submit(ours, name, options.steps).result()
    for name in PEERS if Path(options.python).exists() else ():
        peers(name, options.python, 60 * options.minutes)


if __name__ == "__main__":
    main()

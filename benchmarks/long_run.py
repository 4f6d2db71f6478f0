"""What a step costs late in a long run, beside peers as far as they get.

    python -m benchmarks.long_run [--steps 100000] [--minutes 10] [NAME ...]

The bump of SparQ-GP-UCB wanders over 101 candidates of [-50, 50], which peers play as an interval. A
step is an ask and a tell. Ours keep the latest 10,000 rewards. Printed are medians of milliseconds of
processor time around steps 50, 100, 200, ...; and the megabytes that our process holds then, each policy
in one of its own. A peer has `--minutes` of processor time, and none is played where `--python` is not
there.
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

from benchmarks.harness import arguments, clock, heading, line
from benchmarks.peers.__main__ import Served
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
# How many rewards ours keep, and how many steps to either side of one are looked at.
HISTORY, HALF = 10_000, 25


def rewards(x: Array, t: float) -> Array:
    """The noisy reward of a point."""
    return np.asarray(PROBLEM.value(x, t) + NOISE**0.5 * keyed_normal(0, 1, x, t))


def around(
    step: Callable[[float], float], steps: int, seconds: float
) -> Iterator[tuple[int, float]]:
    """Step 50, 100, 200, 500, ... and milliseconds around it, while `seconds` are left.

    `step(t)` plays, and returns the seconds that it took.
    """
    looked_at = [50, *(a * 10**b for b in range(2, 8) for a in (1, 2, 5) if a * 10**b <= steps)]
    spent: list[float] = []
    for t in range(1, looked_at[-1] + HALF + 1):
        spent.append(step(float(t)))
        if t - HALF in looked_at:
            yield t - HALF, 1e3 * statistics.median(spent[-2 * HALF :])
        seconds -= spent[-1]
        if seconds < 0:
            return


def megabytes() -> float:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def ours(name: str, steps: int) -> None:
    """Print the rows of one of ours."""
    bandit = OURS[name]().with_options(max_history=HISTORY)

    def step(t: float) -> float:
        begun = clock()
        x = bandit.ask(t)
        asked, y = clock() - begun, rewards(x, t)
        begun = clock()
        bandit.tell(x, y, t)
        return asked + clock() - begun

    with threadpool_limits(1):
        for t, spent in around(step, steps, math.inf):
            line(name, f"{t:,}", f"{spent:.2f}", f"{megabytes():.0f}")


def peers(name: str, python: str, seconds: float) -> None:
    """Print the rows of a peer, whose process tells what it worked."""
    peer = Served(python, PEERS[name], [[-50.0, 50.0]], 1000, 0)

    def step(t: float) -> float:
        asked = peer.call({"ask": t})
        y = rewards(np.array([asked["x"]]), t)
        return float(asked["worked"] + peer.call({"tell": [asked["x"], float(y[0]), t]})["worked"])

    try:
        for t, spent in around(step, 10**6, seconds):
            line(name, f"{t:,}", f"{spent:.2f}", "")
    finally:
        peer.close()


def main() -> None:
    """Play and print."""
    parser = arguments(__doc__, steps=100_000, minutes=10.0)
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

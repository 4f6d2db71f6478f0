"""What a step costs late in a long run, beside peers as far as they get.

    python -m benchmarks.long_run [--steps 100000] [--minutes 10] [--python .venv-peers/bin/python]

The bump of SparQ-GP-UCB wanders over 101 candidates of [-50, 50], which peers play as an interval. A
step is an ask and a tell. Printed, and drawn into `--picture`, are medians of milliseconds of processor
time around steps 100, 1,000, ...; and the megabytes that our process holds then, each policy in one of
its own. A peer has `--minutes` of processor time, and none is played where `--python` is not there.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import clock
from benchmarks.peers.__main__ import Served
from tvbandits import Bandit, policies
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.datasets import DriftingBump
from tvbandits.experts import SimulatorExpert

PROBLEM = DriftingBump(candidates=101)
NOISE = PROBLEM.noise_variance
PARTS = PROBLEM.domain, PROBLEM.kernel, NOISE
OURS: dict[str, Callable[[], Bandit]] = {
    "sw-gp-ucb": lambda: policies.sw_gp_ucb(*PARTS, window=50),
    "tv-gp-ucb": lambda: policies.tv_gp_ucb(*PARTS, epsilon=0.01),
    "sparq-gp-ucb": lambda: policies.sparq_gp_ucb(*PARTS, expert=SimulatorExpert(PROBLEM)),
    "adaptive-gp-ucb": lambda: policies.adaptive_gp_ucb(PROBLEM.domain, None, NOISE),
    "frugal-gp-ucb": lambda: policies.frugal_gp_ucb(
        PROBLEM.domain, None, NOISE, expert=SimulatorExpert(PROBLEM), budget=2
    ),
}
PEERS = {"BoTorch, time as an input": "botorch-time", "Optuna's GPSampler": "optuna-gp"}
HALF = 25
"""Steps to either side of one that is looked at."""


def looked_at(steps: int) -> list[int]:
    """Steps 50, 100, 200, 500, ... as far as the steps go."""
    return [50, *(a * 10**b for b in range(2, 8) for a in (1, 2, 5) if a * 10**b + HALF <= steps)]


def curve(ask: Any, tell: Any, steps: int, seconds: float = np.inf) -> Iterator[tuple[Any, ...]]:
    """Step, milliseconds of a step around it, and megabytes, while `seconds` are left.

    `ask(t)` gives a point and the time of others that it took, `tell(x, y, t)` that time.
    """
    at, spent = looked_at(steps), []
    for step in range(1, at[-1] + HALF + 1):
        x, asked = ask(float(step))
        y = PROBLEM.value(x, step) + NOISE**0.5 * keyed_normal(0, 1, x, step)
        spent.append(asked + tell(x, y, float(step)))
        if step - HALF in at:
            yield step - HALF, 1e3 * statistics.median(spent[-2 * HALF :]), megabytes()
        seconds -= spent[-1]
        if seconds < 0:
            return


def megabytes() -> float:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def ours(name: str, steps: int) -> list[tuple[Any, ...]]:
    """The curve of one of ours."""
    bandit = OURS[name]()

    def ask(t: float) -> tuple[Array, float]:
        begun = clock()
        return bandit.ask(t), clock() - begun

    def tell(x: Array, y: Array, t: float) -> float:
        begun = clock()
        bandit.tell(x, y, t)
        return clock() - begun

    with threadpool_limits(1):
        return list(curve(ask, tell, steps))


def peers(name: str, python: str, seconds: float) -> list[tuple[Any, ...]]:
    """The curve of a peer, whose process tells what it worked."""
    peer = Served(python, name, [[-50.0, 50.0]], 1000, 0)

    def ask(t: float) -> tuple[Array, float]:
        answer = peer.call({"ask": t})
        return np.array([answer["x"]]), answer["worked"]

    def tell(x: Array, y: Array, t: float) -> float:
        return float(peer.call({"tell": [x[0].tolist(), float(y[0]), t]})["worked"])

    try:
        return list(curve(ask, tell, 10**6, seconds))
    finally:
        peer.close()


def picture(curves: dict[str, list[tuple[Any, ...]]], path: Path) -> None:
    """Milliseconds of a step against its number."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    styles = itertools.cycle(["-", "--", ":", "-."])
    for (name, points), marker in zip(curves.items(), "osv^DPX", strict=False):
        steps, spent, _ = zip(*points, strict=True)
        color = "0.55" if name in PEERS else None
        axes.loglog(
            steps, spent, next(styles), marker=marker, markersize=4, color=color, label=name
        )
    axes.set(xlabel="step", ylabel="processor time of a step (ms)")
    axes.grid(True, alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Play, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(OURS)}; all by default")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each peer")
    parser.add_argument("--python", default=".venv-peers/bin/python", help="of the peers")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    fresh = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    print("| policy | step | ms of processor time | MB |\n|---|---:|---:|---:|")
    curves = {}
    with fresh:
        for name in [*(given.names or OURS), *(PEERS if Path(given.python).exists() else [])]:
            if name in PEERS:
                curves[name] = peers(PEERS[name], given.python, 60 * given.minutes)
            else:
                curves[name] = fresh.submit(ours, name, given.steps).result()
            for step, spent, held in curves[name]:
                shown = "" if name in PEERS else f"{held:.0f}"
                print(f"| {name} | {step:,} | {spent:.2f} | {shown} |", flush=True)
    if given.picture:
        picture(curves, given.picture)


if __name__ == "__main__":
    main()

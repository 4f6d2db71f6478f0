"""Two Dask workers against one on 40 runs of the drifting bump, measured in turn.

    python -m benchmarks.workers --repeats 5

Elapsed time is from the first run that arrives to the last, so that starting workers does not count.
On a machine that is busy with something else it says little: two workers then get twice the share of
one. So the ratio is taken in processor time, too: that of the one worker over that of the busier one of
two, which counts what is done twice and how evenly runs are spread, but not what is lost by two cores
to one memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass

import psutil

from tvbandits.comparison.compare import Cluster, Comparison, tasks_of
from tvbandits.datasets import DriftingBump

POLICIES, SEEDS = ("gp-ucb", "sw-gp-ucb", "w-gp-ucb", "tv-gp-ucb:epsilon=0.05"), 10


@dataclass(frozen=True)
class Turn:
    """Seconds of one side: elapsed, and of the processor in its busiest worker; the machine's load."""

    elapsed: float
    busiest: float
    load: float


def worked() -> dict[int, float]:
    """Processor seconds of each worker so far."""
    found = {}
    for child in psutil.Process().children(recursive=True):
        if "spawn_main" in " ".join(child.cmdline()):
            used = child.cpu_times()
            found[child.pid] = used.user + used.system
    return found


def turn(workers: int, horizon: int) -> Turn:
    """Play the 40 runs."""
    plan = Comparison(DriftingBump(candidates=401), list(POLICIES), SEEDS, horizon)
    play = Cluster(f"local:{workers}", lambda _: None)
    arrived = [(time.perf_counter(), worked()) for _ in play(tasks_of(plan))]
    (begun, before), (ended, after) = arrived[0], arrived[-1]
    busiest = max(after[worker] - before.get(worker, 0.0) for worker in after)
    return Turn(ended - begun, busiest, os.getloadavg()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=200)
    given = parser.parse_args()
    print(f"{len(POLICIES) * SEEDS} runs of {given.horizon} steps; {os.cpu_count()} cores")
    elapsed, busiest = [], []
    for i in range(given.repeats):
        # Which side goes first changes, so that neither has the quieter half.
        first = turn(1 + i % 2, given.horizon)
        second = turn(2 - i % 2, given.horizon)
        one, two = (first, second) if i % 2 == 0 else (second, first)
        elapsed.append(one.elapsed / two.elapsed)
        busiest.append(one.busiest / two.busiest)
        print(
            f"one {one.elapsed:.1f} s (processor {one.busiest:.1f} s, load {one.load:.1f}), "
            f"two {two.elapsed:.1f} s ({two.busiest:.1f} s, {two.load:.1f}): "
            f"ratios {elapsed[-1]:.2f} and {busiest[-1]:.2f}",
            flush=True,
        )
    for name, found in (("elapsed", elapsed), ("processor", busiest)):
        print(f"{name}: {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})")


if __name__ == "__main__":
    main()

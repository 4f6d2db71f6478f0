"""Two Dask workers against one on 40 runs of the drifting bump, measured in turn.

    python -m benchmarks.workers --repeats 5

Elapsed time is from the first run that arrives to the last, so that starting workers does not count, and
both sides lose their first run. On a machine that is busy with something else it says little; the
processor time of all workers and the load of the machine stand beside it: two workers that together need
hardly more processor time than one are limited by the machine alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from dataclasses import dataclass

from tvbandits.comparison.compare import Comparison
from tvbandits.comparison.studies.cluster import Cluster
from tvbandits.comparison.studies.tasks import tasks_of
from tvbandits.datasets import DriftingBump

POLICIES, SEEDS = ("gp-ucb", "sw-gp-ucb", "w-gp-ucb", "tv-gp-ucb:epsilon=0.05"), 10


@dataclass(frozen=True)
class Turn:
    """Seconds of one side: elapsed, of the processor (all workers, start and end included); load."""

    elapsed: float
    processor: float
    load: float


def spent() -> float:
    """Processor seconds of processes that this one has started, and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def turn(workers: int, horizon: int) -> Turn:
    """Play the 40 runs."""
    plan = Comparison(DriftingBump(candidates=401), list(POLICIES), SEEDS, horizon)
    before, play = spent(), Cluster(f"local:{workers}", lambda _: None)
    arrived = [time.perf_counter() for _ in play(tasks_of(plan))]
    return Turn(arrived[-1] - arrived[0], spent() - before, os.getloadavg()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=200)
    given = parser.parse_args()
    print(f"{len(POLICIES) * SEEDS} runs of {given.horizon} steps; {os.cpu_count()} cores")
    ratios, kept = [], []
    for i in range(given.repeats):
        # Which side goes first changes, so that neither has the quieter half.
        first = turn(1 + i % 2, given.horizon)
        second = turn(2 - i % 2, given.horizon)
        one, two = (first, second) if i % 2 == 0 else (second, first)
        ratios.append(one.elapsed / two.elapsed)
        kept.append(one.processor / two.processor)
        print(
            f"one {one.elapsed:.1f} s (processor {one.processor:.1f} s, load {one.load:.1f}), "
            f"two {two.elapsed:.1f} s ({two.processor:.1f} s, {two.load:.1f}): "
            f"ratio {ratios[-1]:.2f}",
            flush=True,
        )
    print(
        f"median ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
        f"processor time of one over two {statistics.median(kept):.2f}"
    )


if __name__ == "__main__":
    main()

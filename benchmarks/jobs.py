"""`compare` with two workers against one, for orientation."""

from __future__ import annotations

import time

from benchmarks.harness import Row, alternate, summary
from tvbandits import compare
from tvbandits.datasets import DriftingBump

POLICIES, SEEDS, HORIZON = ("w-gp-ucb", "sparq-gp-ucb"), 2, 300


def run(n_jobs: int, horizon: int = HORIZON) -> None:
    for _ in compare(DriftingBump(), POLICIES, SEEDS, horizon, n_jobs):
        pass


def rows(repeats: int) -> list[Row]:
    """One row; "ours" has two workers."""
    run(2, horizon=2)  # starts the workers, which stay for later calls
    pairs = alternate(lambda _: run(2), lambda _: run(1), repeats, time.perf_counter)
    case = f"{len(POLICIES)} policies x {SEEDS} seeds x {HORIZON} steps"
    note = "ours: n_jobs=2, peer: n_jobs=1, both tvbandits; elapsed time, workers already started"
    return [summary("jobs", case, pairs, note=note)]

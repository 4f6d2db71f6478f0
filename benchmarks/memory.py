"""Peak memory and time of BBKB on very many candidates, in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.harness import clock
from tvbandits import Candidates, policies
from tvbandits.acquisition.confidence import BBKBWidth

CANDIDATES, DIMENSION, HORIZON = 200_000, 8, 2000
BANDWIDTH, NOISE = 30.0, 1e-4
TARGET = 4.0
"""Gigabytes."""


@dataclass(frozen=True)
class MemoryRow:
    """What a run took: gigabytes resident at the most, before it and in it, and seconds."""

    candidates: int
    dimension: int
    steps: int
    bandwidth: float
    gigabytes_before: float
    gigabytes: float
    target: float
    seconds: float
    batches: int
    dictionary_size: int
    regret: float


def resident() -> float:
    """Peak resident gigabytes of this process so far."""
    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def run() -> MemoryRow:
    """Standard normal candidates; the reward is a smooth function of them in [-1, 1]."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((CANDIDATES, DIMENSION))
    truth = np.sin(X @ rng.standard_normal(DIMENSION) / DIMENSION**0.5)
    domain = Candidates(X)
    before = resident()
    width = BBKBWidth(delta=1 / HORIZON)
    bandit = policies.bbkb(domain, RBF(BANDWIDTH), NOISE, confidence=width, mean=0.0, seed=0)
    told = batches = 0
    taken, regret = 0.0, 0.0
    while told < HORIZON:
        begun = clock()
        points = bandit.ask()[: HORIZON - told]
        taken += clock() - begun
        rewards = truth[domain.index(points)]
        begun = clock()
        bandit.tell(points, rewards + NOISE**0.5 * rng.standard_normal(len(points)))
        taken += clock() - begun
        regret += float((truth.max() - rewards).sum())
        told += len(points)
        batches += 1
    size = bandit.info.posterior.dictionary_size or 0
    peak = resident()
    return MemoryRow(
        *(CANDIDATES, DIMENSION, HORIZON, BANDWIDTH, before, peak, TARGET, taken, batches, size),
        regret / told / float(truth.max() - truth.mean()),
    )


def rows(repeats: int, tables: Path | None = None) -> list[MemoryRow]:  # noqa: ARG001 - one run
    """One row, from a process that does nothing else."""
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "benchmarks.memory"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the run for memory failed:\n{done.stderr}")
    return [MemoryRow(**json.loads(done.stdout))]


def show(console: Console, found: Sequence[MemoryRow]) -> None:
    """Print them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    headings = ("A", "d", "T", "bandwidth", "GB before", "GB peak", "target", "seconds", "batches")
    for heading in (*headings, "inducing points", "regret over uniform"):
        table.add_column(heading, justify="right")
    for row in found:
        table.add_row(
            *(str(row.candidates), str(row.dimension), str(row.steps), f"{row.bandwidth:g}"),
            *(f"{row.gigabytes_before:.2f}", f"{row.gigabytes:.2f}", f"< {row.target:g}"),
            *(f"{row.seconds:.1f}", str(row.batches), str(row.dictionary_size)),
            f"{row.regret:.3f}",
        )
    console.print(table)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        print(json.dumps(run().__dict__))

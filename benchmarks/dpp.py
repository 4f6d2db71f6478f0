"""k-DPP by swaps: `tvbandits.queries.k_dpp.sample_mcmc` against dppy's `sample_mcmc_k_dpp`.

Both run the same lazy chain for the same number of steps, from the same greedy set, on the same
jittered kernel. Each time covers everything a user waits for: checks of the kernel, tables, steps.
dppy's chain needs no checks or tables, only the start it is given.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from dppy.finite_dpps import FiniteDPP

from benchmarks.harness import Row, alternate, summary
from tvbandits.queries import k_dpp
from tvbandits.validation import Array

JITTER = 1e-8
TARGET, LARGE_TARGET = 5.0, 20.0


@dataclass(frozen=True)
class Case:
    """A kernel matrix, the size of the set, and the length of the chain in lazy steps."""

    name: str
    K: Array
    k: int
    steps: int
    target: float | None = None


def rbf(X: Array, length: float) -> Array:
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0)
    return np.asarray(np.exp(-distances / (2 * length**2)))


def cases() -> list[Case]:
    """Kernels of fast decay, as a bandit meets them, then easier ones, whose chains move more."""
    rng = np.random.default_rng(0)
    on_line = rng.uniform(-50, 50, (500, 1))
    on_square = rng.random((2000, 2))
    return [
        Case("N=500 k=37 RBF(3.5) on [-50,50]", rbf(on_line, 3.5), 37, 20_000, TARGET),
        Case("N=2000 k=200 RBF(0.1) on [0,1]^2", rbf(on_square, 0.1), 200, 10_000, LARGE_TARGET),
        Case("easy: N=500 k=37 RBF(0.5) on [-50,50]", rbf(on_line, 0.5), 37, 20_000),
        Case("easy: N=2000 k=200 RBF(0.02) on [0,1]^2", rbf(on_square, 0.02), 200, 10_000),
    ]


def compared(case: Case, repeats: int) -> Row:
    """Both chains in turn."""
    K, k, steps = case.K, case.k, case.steps
    start = [int(i) for i in k_dpp.greedy(K, k, jitter=JITTER)]
    peer = FiniteDPP("likelihood", L=K + JITTER * np.mean(np.diagonal(K)) * np.eye(len(K)))
    acceptances: list[float] = []

    def run_ours(seed: int) -> None:
        rng = np.random.default_rng(seed)
        sample = k_dpp.sample_mcmc(K, k, steps=steps, rng=rng, start=start, jitter=JITTER)
        acceptances.append(sample.accepted / steps)

    def run_peer(seed: int) -> None:
        # The peer counts the start as its first iteration.
        peer.sample_mcmc_k_dpp(
            size=k, s_init=start.copy(), nb_iter=steps + 1, random_state=np.random.RandomState(seed)
        )

    pairs = alternate(run_ours, run_peer, repeats)
    chain = peer.list_of_samples[-1]
    moved = sum(a != b for a, b in pairwise(chain)) / steps
    note = (
        f"{steps} lazy steps from the greedy set; swaps per step: "
        f"ours {statistics.mean(acceptances):.3f}, dppy {moved:.3f}"
    )
    return summary("dpp", case.name, pairs, target=case.target, note=note)


def rows(repeats: int, tables: Path | None = None) -> list[Row]:  # noqa: ARG001 - one face
    """One row for each case."""
    return [compared(case, repeats) for case in cases()]

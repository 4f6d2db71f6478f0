"""k-DPP by swaps: `tvbandits.dpp.sample_mcmc` against dppy's `sample_mcmc_k_dpp`.

Both run the same lazy chain for the same number of steps, from the same greedy set, on the same
jittered kernel. Each time covers everything a user waits for: checks of the kernel, tables, steps.
dppy's chain needs no checks or tables, only the start it is given.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
from dppy.finite_dpps import FiniteDPP
from threadpoolctl import threadpool_limits

from tvbandits import dpp
from tvbandits.observations import Array

JITTER = 1e-8
REPEATS = 5


def rbf(X: Array, length: float) -> Array:
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0)
    return np.asarray(np.exp(-distances / (2 * length**2)))


def cases() -> list[tuple[str, Array, int, int]]:
    """Name, kernel, size of the set, lazy steps."""
    rng = np.random.default_rng(0)
    on_line = rng.uniform(-50, 50, (500, 1))
    on_square = rng.random((2000, 2))
    return [
        ("N=500 k=37 RBF(3.5) on [-50,50]", rbf(on_line, 3.5), 37, 20_000),
        ("N=2000 k=200 RBF(0.1) on [0,1]^2", rbf(on_square, 0.1), 200, 10_000),
        ("easy: N=500 k=37 RBF(0.5) on [-50,50]", rbf(on_line, 0.5), 37, 20_000),
        ("easy: N=2000 k=200 RBF(0.02) on [0,1]^2", rbf(on_square, 0.02), 200, 10_000),
    ]


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def compare(name: str, K: Array, k: int, steps: int) -> dict[str, str | float]:
    """Median times of alternating runs, ours first."""
    start = [int(i) for i in dpp.greedy(K, k, jitter=JITTER)]
    peer = FiniteDPP("likelihood", L=K + JITTER * np.mean(np.diagonal(K)) * np.eye(len(K)))
    ours_times, peer_times, acceptances = [], [], []

    def run_ours(seed: int) -> None:
        rng = np.random.default_rng(seed)
        sample = dpp.sample_mcmc(K, k, steps=steps, rng=rng, start=start, jitter=JITTER)
        acceptances.append(sample.acceptance)

    def run_peer(seed: int) -> None:
        # The peer counts the start as its first iteration.
        peer.sample_mcmc_k_dpp(
            size=k, s_init=start.copy(), nb_iter=steps + 1, random_state=np.random.RandomState(seed)
        )

    for seed in range(REPEATS):
        ours_times.append(seconds(partial(run_ours, seed)))
        peer_times.append(seconds(partial(run_peer, seed)))
    chain = peer.list_of_samples[-1]
    moved = sum(a != b for a, b in pairwise(chain)) / steps
    ours_s, peer_s = statistics.median(ours_times), statistics.median(peer_times)
    return {
        "case": name,
        "ours (s)": round(ours_s, 4),
        "peer (s)": round(peer_s, 4),
        "ratio": round(peer_s / ours_s, 1),
        "note": f"{steps} lazy steps; swaps per step {statistics.mean(acceptances):.3f}, "
        f"peer's {moved:.3f}; median of {REPEATS}, 1 BLAS thread",
    }


def rows() -> list[dict[str, str | float]]:
    """One row for each case."""
    with threadpool_limits(limits=1):
        return [compare(*case) for case in cases()]


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(f"{name}: {value}" for name, value in row.items()))

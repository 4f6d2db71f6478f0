"""k-DPP by swaps: `tvbandits.queries.k_dpp.sample_mcmc` against dppy's `sample_mcmc_k_dpp`.

Both run the same lazy chain for the same number of steps, from the same greedy set, on the same kernel
with a jitter. Our time includes the checks of the kernel and the tables of the chain, which dppy does
not have.
"""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from dppy.finite_dpps import FiniteDPP
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, clock, print_ratios
from tvbandits.queries import k_dpp
from tvbandits.validation import Array

JITTER = 1e-8


class Case(NamedTuple):
    """A kernel matrix, the size of the set, and the length of the chain in lazy steps."""

    name: str
    K: Array
    k: int
    steps: int


def cases() -> list[Case]:
    """Return kernels of fast decay, as in a bandit, and easier ones, whose chains swap more often."""
    rng = np.random.default_rng(0)
    line, square = rng.uniform(-50, 50, (500, 1)), rng.random((2000, 2))
    return [
        Case("N=500 k=37 RBF(3.5) on [-50,50]", RBF(3.5)(line), 37, 20_000),
        Case("N=2000 k=200 RBF(0.1) on [0,1]^2", RBF(0.1)(square), 200, 10_000),
        Case("easy: N=500 k=37 RBF(0.5) on [-50,50]", RBF(0.5)(line), 37, 20_000),
        Case("easy: N=2000 k=200 RBF(0.02) on [0,1]^2", RBF(0.02)(square), 200, 10_000),
    ]


def compare(case: Case, repeats: int) -> None:
    """Time both chains in turn, and print a row."""
    K, k, steps = case.K, case.k, case.steps
    start = [int(i) for i in k_dpp.greedy(K, k, jitter=JITTER)]
    peer = FiniteDPP("likelihood", L=K + JITTER * np.mean(np.diagonal(K)) * np.eye(len(K)))
    pairs, swap_rates = [], []
    for seed in range(repeats):
        start_time, rng = clock(), np.random.default_rng(seed)
        sample = k_dpp.sample_mcmc(K, k, steps=steps, rng=rng, start=start, jitter=JITTER)
        ours = clock() - start_time
        swap_rates.append(sample.accepted / steps)
        start_time, state = clock(), np.random.RandomState(seed)
        # The peer counts the start as its first iteration.
        peer.sample_mcmc_k_dpp(size=k, s_init=start.copy(), nb_iter=steps + 1, random_state=state)
        pairs.append(Pair(ours, clock() - start_time))
    chain = peer.list_of_samples[-1]
    peer_rate = sum(a != b for a, b in pairwise(chain)) / steps
    swaps = f"swaps per step: ours {statistics.mean(swap_rates):.3f}, dppy {peer_rate:.3f}"
    print_ratios("dpp", case.name, pairs, f"{steps} lazy steps from the greedy set; {swaps}")


def rows(repeats: int) -> None:
    """Print a row for each case."""
    for case in cases():
        compare(case, repeats)

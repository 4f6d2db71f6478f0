"""Laws of random subsets of k items, by enumerating all of them."""

from collections import Counter
from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

Array = NDArray[np.float64]
Subset = tuple[int, ...]
Sampler = Callable[[np.random.Generator], Subset]


def subsets(n: int, k: int) -> list[Subset]:
    """All of them, in order."""
    return list(combinations(range(n), k))


def law(L: Array, k: int) -> Array:
    """Probability of each subset under a k-DPP, in the order of `subsets`, by determinants."""
    weights = np.array([np.linalg.det(L[np.ix_(Z, Z)]) for Z in subsets(len(L), k)])
    return np.asarray(weights / weights.sum())


def transition_matrix(L: Array, k: int) -> Array:
    """The lazy swap chain of SparQ-GP-UCB, Alg. 2, every entry from two determinants."""
    N, every = len(L), subsets(len(L), k)
    number = {Z: a for a, Z in enumerate(every)}
    P = np.zeros((len(every), len(every)))
    for a, Z in enumerate(every):
        for i in Z:
            for j in set(range(N)) - set(Z):
                other = tuple(sorted((set(Z) - {i}) | {j}))
                ratio = np.linalg.det(L[np.ix_(other, other)]) / np.linalg.det(L[np.ix_(Z, Z)])
                P[a, number[other]] += 0.5 * min(1.0, ratio) / (k * (N - k))
        P[a, a] = 1.0 - P[a].sum()
    return P


def p_value(counts: Counter[Subset], probabilities: Array, every: list[Subset]) -> float:
    """Chi-square of counts of independent draws; rare subsets are pooled into one cell."""
    assert set(counts) <= set(every)
    observed = np.array([counts[Z] for Z in every], dtype=float)
    n = observed.sum()
    rare = probabilities * n < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = n * np.append(probabilities[~rare], probabilities[rare].sum())
    if expected[-1] < 5:  # too little even when pooled: its draws are judged with the last cell
        observed[-2:] = observed[-2:].sum(), 0
        expected[-2:] = expected[-2:].sum(), 0
    used = expected > 0
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    return float(chi2.sf(statistic, used.sum() - 1))


def p_value_of(sampler: Sampler, probabilities: Array, every: list[Subset], n: int) -> float:
    """The same for n draws of a sampler, at a fixed seed."""
    rng = np.random.default_rng(20)
    return p_value(Counter(sampler(rng) for _ in range(n)), probabilities, every)

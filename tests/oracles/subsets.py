"""Laws of random subsets of k items, by enumeration."""

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
    """Return all subsets of size k, in order."""
    return list(combinations(range(n), k))


def law(L: Array, k: int) -> Array:
    """Return the probability of each subset under a k-DPP, in the order of `subsets`."""
    weights = np.array([np.linalg.det(L[np.ix_(Z, Z)]) for Z in subsets(len(L), k)])
    return np.asarray(weights / weights.sum())


def transition_matrix(L: Array, k: int) -> Array:
    """Return the matrix of the lazy swap chain of SparQ-GP-UCB, Alg. 2, by determinants."""
    N, all_subsets = len(L), subsets(len(L), k)
    number = {Z: a for a, Z in enumerate(all_subsets)}
    P = np.zeros((len(all_subsets), len(all_subsets)))
    for a, Z in enumerate(all_subsets):
        for i in Z:
            for j in set(range(N)) - set(Z):
                other = tuple(sorted((set(Z) - {i}) | {j}))
                ratio = np.linalg.det(L[np.ix_(other, other)]) / np.linalg.det(L[np.ix_(Z, Z)])
                P[a, number[other]] += 0.5 * min(1.0, ratio) / (k * (N - k))
        P[a, a] = 1.0 - P[a].sum()
    return P


def p_value(counts: Counter[Subset], probabilities: Array, all_subsets: list[Subset]) -> float:
    """Return the chi-square p-value of counts of independent draws; rare subsets are pooled."""
    assert set(counts) <= set(all_subsets)
    observed = np.array([counts[Z] for Z in all_subsets], dtype=float)
    n = observed.sum()
    rare = probabilities * n < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = n * np.append(probabilities[~rare], probabilities[rare].sum())
    if expected[-1] < 5:  # still too rare when pooled: add it to the last cell
        observed[-2:] = observed[-2:].sum(), 0
        expected[-2:] = expected[-2:].sum(), 0
    used = expected > 0
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    return float(chi2.sf(statistic, used.sum() - 1))


def p_value_of(sampler: Sampler, probabilities: Array, all_subsets: list[Subset], n: int) -> float:
    """Return the p-value of n draws of a sampler, at a fixed seed."""
    rng = np.random.default_rng(20)
    return p_value(Counter(sampler(rng) for _ in range(n)), probabilities, all_subsets)

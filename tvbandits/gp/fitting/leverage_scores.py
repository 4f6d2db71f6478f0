"""A first dictionary for many inputs that are all there already, by leverage scores.

A bandit that starts with existing data has no posterior yet whose variances would give the ridge
leverage scores. They come bottom up, as in BLESS (Rudi, Calandriello, Carratino and Rosasco 2018): with
noise variances s v, s large, prior variances are nearly those of the posterior and few points matter; a
dictionary for s gives approximate scores for s / 2, and so on down to s = 1. On the way only a random
subset of the inputs is looked at, in proportion to a bound of their scores:

    score_i(s) = variance_s(x_i) / (s v_i) <= k(x_i, x_i) / (s v_i).

Rudi et al. have one noise variance for all; here each input has its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index

STEP = 2.0
"""By what the noise falls from level to level, at the most."""


CANDIDATES = 8.0
"""A level above the last looks at an input with this many times the bound of its score."""


CANDIDATES_EACH = 32
"""Such a level looks at this many inputs for each point of the dictionary so far, and for 16 more."""


DICTIONARY = 4.0
"""Oversampling of the dictionaries on the way."""


DEPENDENT = 1e-9
"""Points that keep less than this share of their prior variance add nothing to a dictionary."""


def leverage_dictionary(
    kernel: Any, Z: Array, variance: Array, oversampling: float, rng: np.random.Generator
) -> Index:
    """Rows of a dictionary, each drawn with probability min(1, oversampling score_i).

    O(u m^2) for u inputs and a dictionary of m, without any matrix of u x u.

    Parameters
    ----------
    kernel : scikit-learn kernel
    Z : array of shape (u, p)
        Kernel inputs.
    variance : array of shape (u,)
        Their noise variances; of an input that was observed repeatedly, 1 / sum of 1 / v.
    oversampling : float
        q, by which the scores are multiplied.
    rng : numpy.random.Generator
        One uniform number for each input and level.

    Returns
    -------
    rows : integer array of shape (m,)
        In rising order, never empty where there is an input. Points may depend on each other.
    """
    if len(Z) == 0:
        return np.empty(0, dtype=np.int64)
    bound = np.asarray(kernel.diag(Z)) / variance
    inducing, uniform = np.empty(0, dtype=np.int64), rng.random(len(Z))
    for s in _levels(float(bound.sum())):
        probability = _candidates(bound / s, len(inducing))
        seen = _drawn(probability, uniform)
        scores = _scores(kernel, Z, s * variance, inducing, seen, probability[seen])
        kept = seen[_drawn(np.minimum(probability[seen], DICTIONARY * scores), uniform[seen])]
        inducing, uniform = _independent(kernel, Z, kept), rng.random(len(Z))
    return _drawn(oversampling * leverage_scores(kernel, Z, variance, inducing), uniform)


def leverage_scores(kernel: Any, Z: Array, variance: Array, inducing: Index) -> Array:
    """Approximate ridge leverage scores (u,) of all inputs, on a dictionary of some of them."""
    everything = np.arange(len(Z))
    return _scores(kernel, Z, variance, inducing, everything, np.ones(len(Z)))


def _levels(total: float) -> Array:
    """The factors s of the noise above 1, in falling order; at the first, the scores sum up to 1."""
    steps = math.ceil(math.log(total, STEP)) if total > 1.0 else 0
    return np.asarray(total ** (np.arange(steps, 0, -1) / max(steps, 1)))


def _candidates(bound: Array, size: int) -> Array:
    """With which probability each input is looked at, on a dictionary of `size` points.

    Where so many have a large bound, as with little noise, some of them are enough.
    """
    probability = np.minimum(1.0, CANDIDATES * bound)
    enough = CANDIDATES_EACH * (size + 16)
    return probability * min(1.0, enough / float(probability.sum()))


def _drawn(probability: Array, uniform: Array) -> Index:
    """Rows drawn with these probabilities, at least one."""
    rows = np.flatnonzero(uniform < probability)
    return rows if len(rows) else np.array([probability.argmax()], dtype=np.int64)


def _scores(
    kernel: Any, Z: Array, variance: Array, inducing: Index, seen: Index, probability: Array
) -> Array:
    """Scores of the inputs seen, as the sparse posterior has them (DTC), shape (n,).

    The information of all inputs is estimated from those seen, each counted 1 / probability times.
    """
    prior, noise = np.asarray(kernel.diag(Z[seen])), variance[seen]
    if len(inducing) == 0:
        return np.asarray(prior / noise)
    root = linalg.cholesky(np.asarray(kernel(Z[inducing]))).L
    z = linalg.solve_lower(root, np.asarray(kernel(Z[inducing], Z[seen])))
    V = np.eye(len(inducing)) + (z / (noise * probability)) @ z.T
    half = linalg.solve_lower(linalg.cholesky(V).L, z)
    beyond = np.maximum(prior - np.einsum("ij,ij->j", z, z), 0.0)
    return np.asarray((beyond + np.einsum("ij,ij->j", half, half)) / noise)


def _independent(kernel: Any, Z: Array, rows: Index) -> Index:
    """The rows whose points do not depend on the others."""
    unit = np.sqrt(np.asarray(kernel.diag(Z[rows])))
    rows, unit = rows[unit > 0], unit[unit > 0]
    if len(rows) == 0:
        return rows
    correlation = np.asarray(kernel(Z[rows])) / np.outer(unit, unit)
    return np.sort(rows[linalg.greedy_pivots(correlation, DEPENDENT)])

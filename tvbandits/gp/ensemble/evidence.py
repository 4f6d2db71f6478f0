"""What one step says about the members of a bank: densities, errors of differences, surprises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble.filters import Filters, Innovations

NEGLIGIBLE = 1e-2
"""Members below this share of the largest weight are left out of what the bank says, not of the bank."""

FORGETTING = 0.99
"""What the weights keep of the evidence at each step."""

LARGEST_SURPRISE = 25.0
"""A squared standardised innovation counts for at most this: one outlier is no bad model."""


@dataclass(frozen=True)
class EvidenceStep:
    """What was observed at the present time, until the next: the evidence of one step.

    `before` are the states (M, S, K) that were expected.
    """

    before: tuple[Array, ...]
    rows: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()
    log_density: Array | float = 0.0
    surprises: tuple[float, ...] = ()


def checked(
    rows: Sequence[int] | Index, values: Array, variance: Array | float, points: int
) -> tuple[Index, Array, Array]:
    """Rows, values and noise variances (n,) of what was read among so many points; NaN was not."""
    index = np.asarray(rows, dtype=np.int64).reshape(-1)
    y = np.asarray(values, dtype=np.float64).reshape(-1)
    noise = np.broadcast_to(np.asarray(variance, dtype=np.float64), y.shape)
    if index.shape != y.shape:
        raise ValueError(f"expected a value for each of {len(index)} rows, got {len(y)}")
    if len(index) and (index.min() < 0 or index.max() >= points):
        raise ValueError(f"rows must lie in 0 to {points - 1}, got {index.tolist()}")
    if np.isinf(y).any() or not (np.isfinite(noise).all() and (noise > 0).all()):
        raise ValueError("values must not be infinite, and variances positive and finite")
    read = ~np.isnan(y)
    return index[read], y[read], noise[read]


def difference_errors(
    present: EvidenceStep, filters: Sequence[Filters], z: Array, score: Array
) -> tuple[Array, Array]:
    """Squared errors of differences between the points of one step, for each member and transform.

    Of the error itself where one point was read.

    Parameters
    ----------
    present : Step
        Of n readings.
    filters : sequence of Filters
    z : array of shape (n, K)
        Transformed rewards.
    score : array of shape (sum of M, K)
        Logarithms of the weights so far, up to a constant.

    Returns
    -------
    variance : array of shape (K,)
        Of an error, by the members of each transform together.
    squares : array of shape (sum of M, K)
    """
    rows = np.array(present.rows)
    predicted = [
        np.matmul(each.layout.rows(rows), state)
        for state, each in zip(present.before, filters, strict=True)
    ]
    squares = squares_of_differences(z - np.concatenate(predicted))
    weights = np.exp(score - score.max(axis=0))
    mean = (weights * squares).sum(axis=0) / weights.sum(axis=0)
    return mean / max(len(rows) - 1, 1), squares


def squares_of_differences(errors: Array) -> Array:
    """Sums (M, K) of the squares of errors (M, n, K) less their mean, or of one error itself."""
    if errors.shape[1] > 1:
        errors = errors - errors.mean(axis=1, keepdims=True)
    return np.asarray((errors**2).sum(axis=1))


def evidence_of(log_density: Array, squares: Array, variance: Array) -> Array:
    """Half the log density, and half that of the differences between places, (M, K).

    The latter as if all members' errors were of the same variance.

    Parameters
    ----------
    log_density : array of shape (M, K)
        In the unit of reward.
    squares : array of shape (M, K)
        Of differences.
    variance : array of shape (K,)
        Of a reading of them.
    """
    return np.asarray(0.5 * (log_density - squares / (2.0 * variance)))


def surprises(weights: Array, seen: Sequence[Innovations]) -> tuple[float, ...]:
    """Squared standardised innovations of the mixtures under each transform, on average."""
    errors = np.concatenate([each.errors for each in seen])
    variances = np.concatenate([each.variances for each in seen])
    total = weights.sum(axis=0)
    counts = total >= NEGLIGIBLE * total.max()
    errors, variances, weights = errors[..., counts], variances[..., counts], weights[:, counts]
    total = weights.sum(axis=0)
    share = (weights / total)[:, None, :]
    mean = (share * errors).sum(axis=0)
    variance = (share * (variances + (errors - mean) ** 2)).sum(axis=0)
    return tuple(
        (np.minimum(mean**2 / variance, LARGEST_SURPRISE) @ (total / total.sum())).tolist()
    )

"""What one step says about the members of a bank: densities, errors of differences, surprises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.bank.filters import Filters, Innovations

NEGLIGIBLE = 1e-2
"""Members below this share of the largest weight are left out of what the bank says, not of the bank."""

LARGEST_SURPRISE = 25.0
"""A squared standardised innovation counts for at most this: one outlier is no bad model."""


@dataclass(frozen=True)
class Step:
    """What was observed at the present time, until the next: the evidence of one step."""

    before: tuple[Array, ...]
    rows: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
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
    before: Sequence[Array], filters: Sequence[Filters], rows: Index, z: Array, score: Array
) -> tuple[Array, Array]:
    """Squared errors of differences between the points of one step, for each member and transform.

    Of the error itself where one point was read.

    Parameters
    ----------
    before : sequence of arrays of shape (M, S, K)
        States expected before the step was observed.
    filters : sequence of Filters
    rows : array of shape (n,)
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
    predicted = [
        np.matmul(each.layout.rows(rows), state)
        for state, each in zip(before, filters, strict=True)
    ]
    errors = z - np.concatenate(predicted)
    if len(rows) > 1:
        errors = errors - errors.mean(axis=1, keepdims=True)
    squares = (errors**2).sum(axis=1)
    weights = np.exp(score - score.max(axis=0))
    mean = (weights * squares).sum(axis=0) / weights.sum(axis=0)
    return mean / max(len(rows) - 1, 1), squares


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

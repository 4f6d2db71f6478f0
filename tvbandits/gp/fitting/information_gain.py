"""The largest information gain gamma_T, greedily (Srinivas et al. 2010, docs/references.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.core.linalg import pivoted_cholesky
from tvbandits.gp.kernels.structure import inputs


def information_gains(
    kernel: Any, points: Array, noise_variance: float, observations: int
) -> Array:
    """gamma_1, ..., gamma_T: the largest 1/2 log det(I + K/noise_variance), greedily, shape (T,).

    The greedy value is at least (1 - 1/e) of the maximum (Srinivas 2010): repeatedly observe the point
    of largest posterior variance.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Over points, or over [point, time]; time is held still.
    points : array of shape (A, d)
        The domain, or a sample of it.
    noise_variance : float
        In the unit of the kernel.
    observations : int
        T.
    """
    Z = inputs(kernel, points, np.zeros(len(points)))
    variance = np.array(kernel.diag(Z), dtype=np.float64)
    span = pivoted_cholesky(
        variance,
        lambda i: np.asarray(kernel(Z[i : i + 1], Z)[0], dtype=np.float64),
        min(observations, len(points)),
        1e-12 * float(variance.max(initial=0.0)),
    ).G
    # Weight space: point x has features span[:, x], and P is the posterior covariance of the weights.
    P = np.eye(len(span))
    gains = np.empty(observations)
    for step in range(observations):
        best = int(variance.argmax())
        gains[step] = 0.5 * math.log1p(variance[best] / noise_variance)
        half = P @ span[:, best]
        shrink = 1.0 / (variance[best] + noise_variance)
        P -= shrink * np.outer(half, half)
        variance = np.maximum(variance - shrink * (half @ span) ** 2, 0.0)
    return np.cumsum(gains)

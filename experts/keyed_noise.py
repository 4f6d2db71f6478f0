"""Noise by (seed, point, time)."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from tvbandits.arrays import mixed
from tvbandits.validation import Array

_WORD = 2**64 - 1


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def keyed_normal(seed: int, stream: int, X: Array, t: float) -> Array:
    """Standard normal noise that depends on (seed, stream, point, time) only, shape (n,).

    Whoever meets a point at a time, in whatever order, meets the same noise: this is what makes
    comparisons matched, and simulated experts repeatable. It is a counter-based generator: the bits of
    the key go one after the other through the finaliser of SplitMix64, the last state is a uniform
    number, and its normal quantile the noise.

    Examples
    --------
    >>> from tvbandits.experts.keyed_noise import keyed_normal
    >>> first, again = (keyed_normal(0, 1, [[2.5]], t) for t in (7.0, 7.0))
    >>> print(first == again, first == keyed_normal(0, 1, [[2.5]], 8.0))
    [ True] [False]
    """
    points = np.ascontiguousarray(X, dtype=np.float64) + 0.0  # -0.0 is the same point as 0.0
    columns = points.view(np.uint64).T
    when = np.array([t + 0.0]).view(np.uint64)[0]
    state = np.full(len(points), np.uint64(seed & _WORD))
    for word in (np.uint64(stream & _WORD), when, *columns):
        state = mixed((state ^ word) + _GOLDEN)
    return np.asarray(ndtri(((state >> np.uint64(11)) + 0.5) * 2.0**-53))

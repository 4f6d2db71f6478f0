"""A generator of noise that depends only on seed, point and time."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from tvbandits.domains.rows import mix_bits
from tvbandits.validation import Array


def keyed_normal(seed: int, stream: int, X: Array, t: float) -> Array:
    """Return standard normal noise that depends only on (seed, stream, point, time), shape (n,).

    Every policy gets the same noise at a point and time, whatever it played before: so comparisons are
    paired, and simulated experts repeatable. It is a counter-based generator: the words of the key are
    mixed one after the other by the finaliser of SplitMix64, the final state is a uniform number, and
    the noise is the normal quantile of that.

    Examples
    --------
    >>> from tvbandits.experts.keyed_noise import keyed_normal
    >>> noise, copy = (keyed_normal(0, 1, [[2.5]], t) for t in (7.0, 7.0))
    >>> print(noise == copy, noise == keyed_normal(0, 1, [[2.5]], 8.0))
    [ True] [False]
    """
    points = np.ascontiguousarray(X, dtype=np.float64) + 0.0  # -0.0 is the same point as 0.0
    columns = points.view(np.uint64).T
    time = np.array([t + 0.0]).view(np.uint64)[0]
    mask, golden = 2**64 - 1, np.uint64(0x9E3779B97F4A7C15)
    state = np.full(len(points), np.uint64(seed & mask))
    for word in (np.uint64(stream & mask), time, *columns):
        state = mix_bits((state ^ word) + golden)
    return np.asarray(ndtri(((state >> np.uint64(11)) + 0.5) * 2.0**-53))

"""Arrays of points: their keys, their times, and the largest of values at them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.validation import Array as Array, Index as Index


def row_keys(X: Array) -> list[bytes]:
    """The bytes of each row (n, d), by which equal rows are found; -0.0 is 0.0."""
    raw, width = (X + 0.0).tobytes(), X.itemsize * X.shape[1]
    return [raw[i : i + width] for i in range(0, len(raw), width)]


def at_times(X: Array, t: Array | float) -> Array:
    """[X, t] (n, d + 1) of points (n, d), at one time or at their times (n,)."""
    Z = np.empty((len(X), X.shape[1] + 1))
    Z[:, :-1], Z[:, -1] = X, t
    return Z


def mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea & Flood 2014): every bit depends on every bit."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def checked_values(values: ArrayLike, X: Array) -> Array:
    """Return acquisition values as floats (m,); `ValueError` if one is NaN, naming its point."""
    checked = np.asarray(values, dtype=np.float64)
    if checked.shape != (len(X),):
        raise ValueError(f"acquisition values must have shape ({len(X)},), got {checked.shape}")
    bad = np.isnan(checked)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"acquisition is NaN at the point {X[row].tolist()} (row {row})")
    return checked


def row_of_largest(values: ArrayLike, X: Array, rng: np.random.Generator) -> int:
    """Row of the largest of some acquisition values (m,), or of one of the exactly equal ones."""
    given = np.asarray(values, dtype=np.float64)
    if given.shape != (len(X),) or math.isnan(largest := given[given.argmax()]):
        checked_values(given, X)
    (ties,) = (given == largest).nonzero()
    return int(ties[0] if len(ties) == 1 else ties[rng.integers(len(ties))])

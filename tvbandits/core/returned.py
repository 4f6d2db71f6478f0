"""What the parts that people plug in return: an aging map, a width, a query plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.core.arrays import Array, Index, columned, not_negative
from tvbandits.core.coercion import shown


def as_effective(values: ArrayLike, n: int, name: str = "the aging map") -> Array:
    """Return what an aging map made of `n` variances: positive, infinite where it is forgotten.

    Raises
    ------
    ValueError
        If a variance is NaN or not positive, or there are not `n` of them.
    """
    column = columned(values, n, f"what {name} returns")
    bad = ~(column > 0)
    if bad.any():
        raise ValueError(
            f"{name} must return positive variances, infinite for what is forgotten; "
            f"got {column[bad][0]} at position {bad.argmax()}"
        )
    return column


def as_rows(rows: ArrayLike, most: int, name: str = "the plan") -> Index:
    """Return row numbers below `most`, no two alike, as integers of shape (k,).

    Raises
    ------
    ValueError
        If they are not flat, not integers, out of range, or one comes twice.
    """
    given = np.asarray(rows)
    if given.size == 0 and given.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(f"{name} must give a flat array of row numbers, got {shown(rows)}")
    outside = (given < 0) | (given >= most)
    if outside.any():
        raise ValueError(f"{name} must give rows from 0 to {most - 1}, got {given[outside][0]}")
    found, counts = np.unique(given, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{name} must give each row once, got row {found[counts > 1][0]} twice")
    return given.astype(np.int64)


def checked_width(width: object, name: str = "the confidence width") -> float:
    """Return what a width made; a `ValueError` unless it is finite and not negative."""
    if isinstance(width, np.ndarray) and width.ndim == 0:
        width = width[()]
    return not_negative(name, width)

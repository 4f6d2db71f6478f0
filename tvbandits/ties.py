"""The largest of some scores, where rounding must not decide: what is within a tolerance ties.

What lies symmetrically has equal scores but for their last bits, and these depend on the processor and
on the unit: to go by them would leave a choice, and all that follows from it, to the machine. The
tolerance is far above rounding, and far below what a decision is about.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

TOLERANCE = 1e-9
"""Scores tie within such a share of their spread, or of the largest of them if that is smaller."""

ROUNDING = 0.01
"""And within such a part of that share of the largest: where all tie, their spread is rounding alone."""


def tied_rows(scores: ArrayLike, share: float = TOLERANCE) -> NDArray[np.int64]:
    """Return where the largest of some scores (m,) is, and all that tie with it, ascending.

    Parameters
    ----------
    scores : array of shape (m,)
        One at least. The spread is that of finite ones: minus infinity is what may not be chosen. A
        few that are far below, as where a price is meant to forbid, do not widen the tolerance beyond
        a share of the largest score, and an offset of all of them hardly does. An infinite score ties
        with its like alone.
    share : float
        More than `TOLERANCE` for what has lost digits before.
    """
    values = np.asarray(scores, dtype=np.float64)
    largest, smallest = float(values.max()), float(values.min())
    if not math.isfinite(largest):
        return np.flatnonzero(~(values < largest))
    size = abs(largest)
    rows = np.flatnonzero(values >= largest - share * size)  # the tolerance is no larger than that
    if len(rows) == 1:
        return rows
    if smallest == -math.inf:
        smallest = float(values[values > smallest].min())
    tolerance = share * max(min(largest - smallest, size), ROUNDING * size)
    return np.flatnonzero(values >= largest - tolerance)


def may_tie(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which of n rows of scores (n, m) may have a tie, or have no number; others have none.

    As `tied_rows`, by the widest tolerance that it may have, and for many rows at once.
    """
    largest = scores.max(axis=1, keepdims=True)
    return np.asarray((scores >= largest - TOLERANCE * np.abs(largest)).sum(axis=1) != 1)


def first_of_largest(scores: ArrayLike, share: float = TOLERANCE) -> int:
    """Return where the largest of some scores (m,) is: the first of those that tie."""
    return int(tied_rows(scores, share)[0])


def draw_of_largest(scores: ArrayLike, rng: np.random.Generator) -> int:
    """Return where the largest of some scores (m,) is: one of those that tie, each with one chance.

    `rng` is left alone where nothing ties, which the last bits do not decide either.
    """
    rows = tied_rows(scores)
    return int(rows[0] if len(rows) == 1 else rows[rng.integers(len(rows))])


def check_acquisition(values: ArrayLike, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the acquisition at points (m, d) as floats (m,).

    Raises
    ------
    ValueError
        If there is no value for each point, or one is NaN; the message names the point.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (len(X),):
        raise ValueError(f"acquisition values must have shape ({len(X)},), got {column.shape}")
    bad = np.isnan(column)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"acquisition is NaN at the point {X[row].tolist()} (row {row})")
    return column


def row_of_largest(values: ArrayLike, X: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Return the row of the largest of values (m,) at points (m, d); `rng` breaks ties.

    What ties is as of `tied_rows`.

    Raises
    ------
    ValueError
        As `check_acquisition`.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (len(X),) or math.isnan(column[column.argmax()]):
        check_acquisition(column, X)
    return draw_of_largest(column, rng)

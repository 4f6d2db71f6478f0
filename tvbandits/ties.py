"""The largest of some scores, where scores within a tolerance tie, so that rounding does not decide.

Candidates that lie symmetrically have scores that differ in their last bits only, and these depend on
the processor and on the unit of the rewards. The tolerance is far above rounding errors, and far below
the differences that matter to a decision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

TOLERANCE = 1e-9
"""The tolerance, as a fraction of the range of the scores or, if smaller, of the largest one's size."""

ROUNDING = 0.01
"""The least range, as a fraction of the largest score's size: if all tie, their range is rounding."""


def find_tied_rows(scores: ArrayLike, relative_tolerance: float = TOLERANCE) -> NDArray[np.int64]:
    """Return the rows of the largest of some scores (m,) and of all that tie with it, ascending.

    Parameters
    ----------
    scores : array of shape (m,)
        At least one score. Minus infinity excludes a row, and does not count for the range. Since the
        tolerance never exceeds a fraction of the largest score's size, a few scores far below (such as
        those with a prohibitive price) do not widen it, and a common offset hardly does. Infinite
        scores tie only with each other.
    relative_tolerance : float
        Larger than `TOLERANCE` for scores whose computation loses more digits.
    """
    values = np.asarray(scores, dtype=np.float64)
    largest, smallest = float(values.max()), float(values.min())
    if not math.isfinite(largest):
        return np.flatnonzero(~(values < largest))
    size = abs(largest)
    rows = np.flatnonzero(values >= largest - relative_tolerance * size)  # an upper bound
    if len(rows) == 1:
        return rows
    if smallest == -math.inf:
        smallest = float(values[values > smallest].min())
    tolerance = relative_tolerance * max(min(largest - smallest, size), ROUNDING * size)
    return np.flatnonzero(values >= largest - tolerance)


def may_tie(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask (n,) of the rows of scores (n, m) whose largest score may tie, or is NaN.

    It uses the largest tolerance that `find_tied_rows` may use, on many rows at once.
    """
    largest = scores.max(axis=1, keepdims=True)
    return np.asarray((scores >= largest - TOLERANCE * np.abs(largest)).sum(axis=1) != 1)


def first_argmax(scores: ArrayLike, relative_tolerance: float = TOLERANCE) -> int:
    """Return the row of the largest of some scores (m,): the first row if several tie."""
    return int(find_tied_rows(scores, relative_tolerance)[0])


def random_argmax(scores: ArrayLike, rng: np.random.Generator) -> int:
    """Return the row of the largest of some scores (m,): a uniform draw if several tie.

    `rng` advances only if there is a tie, which does not depend on rounding either.
    """
    rows = find_tied_rows(scores)
    return int(rows[0] if len(rows) == 1 else rows[rng.integers(len(rows))])


def check_acquisition(values: ArrayLike, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the acquisition at points (m, d) as floats (m,).

    Raises
    ------
    ValueError
        If the number of values is not m, or a value is NaN; the message names its point.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (len(X),):
        raise ValueError(f"acquisition values must have shape ({len(X)},), got {column.shape}")
    invalid = np.isnan(column)
    if invalid.any():
        row = int(invalid.argmax())
        raise ValueError(f"acquisition is NaN at the point {X[row].tolist()} (row {row})")
    return column


def acquisition_argmax(values: ArrayLike, X: NDArray[np.float64], rng: np.random.Generator) -> int:
    """Return the row of the largest of acquisition values (m,) at points (m, d).

    If several tie, as in `find_tied_rows`, the row is drawn by `rng`.

    Raises
    ------
    ValueError
        As `check_acquisition`.
    """
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (len(X),) or math.isnan(column[column.argmax()]):
        check_acquisition(column, X)
    return random_argmax(column, rng)

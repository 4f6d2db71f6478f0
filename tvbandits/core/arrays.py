"""Finite float arrays, and the one set of number checks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


Index = NDArray[np.int64]


def as_points(X: ArrayLike, dimension: int | None = None, name: str = "X") -> Array:
    """Return `X` as a finite float array of shape (n, d).

    A single point may be given as a flat sequence of `dimension` numbers.

    Raises
    ------
    ValueError
        If `X` is not numeric, not two-dimensional, not finite, or not of `dimension` columns.
    """
    points = as_floats(X, name)
    if points.ndim == 1 and dimension is not None and points.shape[0] == dimension:
        points = points[None, :]
    expected = f"(n, {'d' if dimension is None else dimension})"
    if points.ndim != 2 or (dimension is not None and points.shape[1] != dimension):
        raise ValueError(f"{name} must have shape {expected}, got {points.shape}")
    bad = ~np.isfinite(points).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name} must be finite, got {points[bad][0].tolist()} in row {bad.argmax()}"
        )
    return points


def as_column(values: ArrayLike, n: int, name: str) -> Array:
    """Return `values` as a finite float array of shape (n,); a scalar is repeated.

    Raises
    ------
    ValueError
        If `values` is not numeric, not finite, or not of length `n`.
    """
    column = as_floats(values, name)
    if column.ndim == 0:
        column = np.full(n, float(column))
    if column.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {column.shape}")
    bad = ~np.isfinite(column)
    if bad.any():
        raise ValueError(f"{name} must be finite, got {column[bad][0]} at position {bad.argmax()}")
    return column


def as_floats(values: ArrayLike, name: str) -> Array:
    """Return a float copy of `values`; a `ValueError` names `name` if they are not numbers."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric, got {values!r}") from error


def is_finite_number(value: object) -> bool:
    """Whether `value` is a plain number, neither NaN nor infinite."""
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)

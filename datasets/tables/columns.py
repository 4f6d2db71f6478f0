"""Columns of a table as candidates and their rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tvbandits.core.arrays import Array


def numbers(column: pd.Series[Any], name: str) -> Array:
    """A column as finite numbers; a `ValueError` names the first cell that is none."""
    # Texts of a CSV are read to the last digit, so that an export is the same table as its original.
    numbers = np.array([_number(value) for value in column])
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{name} must be a finite number, got {column.iloc[row]} in row {row + 1} of {len(bad)}"
        )
    return numbers


def _number(value: Any) -> float:
    """NaN for what is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def standardised(inputs: Array) -> Array:
    """Columns of zero mean and unit deviation; a column that never varies is 0."""
    # The mean of equal numbers can be off by rounding, which must not be blown up to a deviation of 1.
    varies = np.ptp(inputs, axis=0) > 0
    deviations = np.where(varies, inputs.std(axis=0), 1.0)
    return np.where(varies, (inputs - inputs.mean(axis=0)) / deviations, 0.0)


def merged(points: Array, target: Array) -> tuple[Array, Array]:
    """The different points in the order of their first rows, each with its mean target."""
    frame = pd.DataFrame(points)
    which = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    first = np.unique(which, return_index=True)[1]
    means = np.bincount(which, weights=target) / np.bincount(which)
    return points[first], means

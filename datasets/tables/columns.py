"""Columns of a table as candidates and their rewards.

How kinds of tables spell their columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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


def coded(texts: pd.Series[str], codes: Mapping[str, float], needs: str) -> pd.Series[float]:
    """The number of each text, whatever its case; a `ValueError` shows the texts that have none."""
    found = texts.str.lower().map(codes)
    unknown = found.isna()
    if unknown.any():
        raise ValueError(f"{needs}, got {few(texts[unknown])}")
    return found.astype(float)


def standardised(inputs: Array) -> Array:
    """Columns of zero mean and unit deviation; a column that never varies is 0."""
    # The mean of equal numbers can be off by rounding, which must not be blown up to a deviation of 1.
    varies = np.ptp(inputs, axis=0) > 0
    deviations = np.where(varies, inputs.std(axis=0), 1.0)
    return np.where(varies, (inputs - inputs.mean(axis=0)) / deviations, 0.0)


def merged(points: Array, target: Array) -> tuple[Array, Array, NDArray[np.integer]]:
    """The different points in the order of their first rows, their mean targets, and which is which."""
    frame = pd.DataFrame(points)
    which = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    first = np.unique(which, return_index=True)[1]
    means = np.bincount(which, weights=target) / np.bincount(which)
    return points[first], means, which


@dataclass(frozen=True)
class Form:
    """How one kind of file spells our columns: our name -> spellings, the usual one first."""

    required: dict[str, tuple[str, ...]]
    optional: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def match(self, header: Iterable[str]) -> dict[str, str]:
        """Our names of the columns a header has -> the header's own spelling."""
        spelled = {plain(column): column for column in header}
        return {
            ours: next(spelled[plain(theirs)] for theirs in known if plain(theirs) in spelled)
            for ours, known in {**self.required, **self.optional}.items()
            if any(plain(theirs) in spelled for theirs in known)
        }

    def missing(self, header: Iterable[str]) -> list[str]:
        """Usual spelling of the required columns that a header lacks."""
        found = self.match(header)
        return [known[0] for ours, known in self.required.items() if ours not in found]


def named(*columns: str) -> dict[str, tuple[str, ...]]:
    """Columns that we call as their files do, but for case and punctuation."""
    return {plain(column): (column,) for column in columns}


def plain(column: object) -> str:
    """A header without the differences of case and punctuation between the forms."""
    return re.sub(r"[^0-9a-z]+", "_", str(column).lower()).strip("_")


def few(values: Iterable[str], most: int = 8) -> str:
    """The first few different values, for a message."""
    different = sorted(set(values))
    shown = ", ".join(repr(value) for value in different[:most])
    return shown if len(different) <= most else f"{shown}, ... ({len(different)} in all)"

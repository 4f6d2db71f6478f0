"""Gauges of a network that are silent or stand out where many are read at once.

A round is a time at which at least half of all places with a reading have one. A bandit that plays a few
places at a time has no rounds, and nothing is said of its places here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import median_abs_deviation

from tvbandits.data import Dataset
from tvbandits.validation import Array

# A gauge is silent after so many rounds without it, if it was in half of as many before.
SILENT_ROUNDS = 4

# A gauge stands out by so many robust deviations of the offsets of all, over so many rounds or more.
FAR_OFFSET, FEWEST_ROUNDS = 6.0, 6

# Rounds need so many places.
FEWEST_PLACES = 3


@dataclass(frozen=True)
class Rounds:
    """The readings of a network by round.

    Attributes
    ----------
    X : array of shape (p, d)
        The places that have a reading.
    values : array of shape (r, p)
        The latest reading of each place in each round; NaN where there is none.
    """

    X: Array
    values: Array

    @classmethod
    def of(cls, readings: Dataset) -> Rounds:
        """Return the rounds among some readings; other times, which may be many, take no memory."""
        X, place = np.unique(readings.X, axis=0, return_inverse=True)
        _, time = np.unique(readings.t, return_inverse=True)
        cells = np.column_stack([time, place.reshape(-1)])
        counts = np.bincount(np.unique(cells, axis=0)[:, 0])
        is_round = counts >= max(FEWEST_PLACES, len(X) / 2)
        row, part = np.cumsum(is_round) - 1, is_round[time]
        values = np.full((np.count_nonzero(is_round), len(X)), np.nan)
        values[row[time[part]], cells[part, 1]] = readings.y[part]
        return cls(X, values)

    @property
    def missed(self) -> NDArray[np.int64]:
        """The number of rounds (p,) without each place at the end, if it is silent; else 0."""
        present, count = ~np.isnan(self.values), len(self.values)
        missed = np.zeros(len(self.X), dtype=np.int64)
        for place in range(len(self.X)):
            rows = np.flatnonzero(present[:, place])
            after = count - 1 - rows[-1] if len(rows) else 0
            before = present[max(0, count - 2 * after) : count - after, place]
            if after >= SILENT_ROUNDS and before.mean() >= 0.5:
                missed[place] = after
        return missed

    @property
    def offsets(self) -> Array:
        """By how much each place (p,) is off the others if it stands out from them; else NaN."""
        enough = (~np.isnan(self.values)).sum(axis=0) >= FEWEST_ROUNDS
        result = np.full(len(self.X), np.nan)
        if np.count_nonzero(enough) <= FEWEST_PLACES:
            return result
        values = self.values[:, enough]
        offsets = np.nanmedian(values - np.nanmedian(values, axis=1, keepdims=True), axis=0)
        offsets -= np.median(offsets)
        spread = float(median_abs_deviation(offsets, scale="normal"))
        far = np.abs(offsets) > FAR_OFFSET * spread
        result[np.flatnonzero(enough)[far & (spread > 0)]] = offsets[far & (spread > 0)]
        return result

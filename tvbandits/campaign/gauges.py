"""Gauges of a network that are silent or stand out.

A round is a time at which at least half of all places with a reading have one. Where there are rounds,
the gauges are compared in each of them. A bandit that plays a few places at a time has none: there a
reading is compared with the readings of other places that are nearest in time (`offsets_of_plays`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import median_abs_deviation

from tvbandits.data import Dataset
from tvbandits.validation import Array, Index

# A gauge is silent after so many rounds without it, if it was in half of as many before.
SILENT_ROUNDS = 4

# A gauge stands out by so many robust deviations of the offsets of all, over so many rounds or more.
FAR_OFFSET, FEWEST_ROUNDS = 6.0, 6

# Rounds need so many places.
FEWEST_PLACES = 3

# Without rounds a reading is compared with the median of so many of other places. A gauge stands out if
# nearly all of its latest readings, so many at least, lie on one side of that by `FAR_PLAYS` robust
# deviations of those of the others: none does in the networks of temperature, wind and traffic of the
# tests, at any time, and one that is 10 deviations of all readings too high does.
NEAREST, FEWEST_PLAYS, MOST_PLAYS, NEARLY_ALL, FAR_PLAYS = 9, 8, 48, 0.95, 3.7
# These are so many readings, of so many places.
FEWEST_READINGS, MOST_READINGS, FEWEST_OTHERS = 5, 200, 4


# The median distance of a normal value from its mean, in standard deviations.
NORMAL = 0.6745


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


def offsets_of_plays(readings: Dataset) -> list[tuple[Array, float]]:
    """Return the places (d,) that stand out where there are no rounds, and by how much each is off.

    What a bandit predicts follows the readings of a place within a few of them, and so does not tell
    that the place is wrong; the readings of the others do. Where these are far away in time, their own
    readings are about as far from each other, and so is what is usual.
    """
    X, place = np.unique(readings.X, axis=0, return_inverse=True)
    place, found = place.reshape(-1), list[tuple[Array, float]]()
    for which in np.flatnonzero(np.bincount(place, minlength=len(X)) >= FEWEST_PLAYS):
        own = np.flatnonzero(place == which)[-MOST_PLAYS:]
        others = np.flatnonzero(place != which)[-MOST_READINGS:]
        if len(np.unique(place[others])) < FEWEST_OTHERS:
            continue
        theirs = _apart(readings, place, others, others)
        mine = _apart(readings, place, own, others)
        if len(theirs) < FEWEST_READINGS:
            continue
        # Few tell badly what is usual.
        usual = float(np.median(np.abs(theirs))) / NORMAL * (1.0 + 6.0 / len(theirs))
        offset = float(np.median(mine))
        least = float(np.quantile(np.sign(offset) * mine, 1.0 - NEARLY_ALL))
        if least > FAR_PLAYS * usual > 0:
            found.append((X[which], offset))
    return found


def _apart(readings: Dataset, place: Index, rows: Index, others: Index) -> Array:
    """Return how far readings (n,) are from the median of those nearest in time of other places."""
    away = np.abs(readings.t[rows][:, None] - readings.t[others])
    away[place[rows][:, None] == place[others]] = np.inf
    nearest = np.argsort(away, axis=1, kind="stable")[:, :NEAREST]
    known = np.isfinite(np.take_along_axis(away, nearest, axis=1))
    values = np.where(known, readings.y[others][nearest], np.nan)
    enough = known.sum(axis=1) >= FEWEST_PLACES
    return np.asarray(readings.y[rows][enough] - np.nanmedian(values[enough], axis=1))

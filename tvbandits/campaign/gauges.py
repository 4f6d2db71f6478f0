"""Gauges of a network that are silent, stuck or stand out.

Where there are rounds (`tvbandits.datasets.tables.rounds`), the gauges are compared in each of them. A
bandit that plays a few places at a time has none: there a reading is compared with the readings of
other places that are nearest in time (`offsets_of_plays`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tvbandits.data import Dataset
from tvbandits.datasets.tables.rounds import FEWEST_PLACES, FEWEST_ROUNDS, Rounds
from tvbandits.validation import Array, Index

# Without rounds a reading is compared with the median of so many of other places. A gauge stands out if
# nearly all of its latest readings, so many at least, lie on one side of that by `FAR_PLAYS` robust
# deviations of those of the others: none does in the networks of temperature, wind and traffic of the
# tests, at any time, and one that is 10 deviations of all readings too high does.
NEAREST, FEWEST_PLAYS, MOST_PLAYS, NEARLY_ALL, FAR_PLAYS = 9, 8, 48, 0.95, 3.7
# These are so many readings, of so many places.
FEWEST_READINGS, MOST_READINGS, FEWEST_OTHERS = 5, 200, 4


# The median distance of a normal value from its mean, in standard deviations.
NORMAL = 0.6745


# An offset that somebody has confirmed is another one once it differs by more than this share of it.
CHANGE_OF_OFFSET = 0.5


def doubts_about_gauges(
    readings: Dataset, minimize: bool, name: Callable[[Array], str], confirmed: Mapping[str, float]
) -> dict[str, str]:
    """Return a text for each place that is silent, stuck or stands out, by name.

    Parameters
    ----------
    readings : Dataset
    minimize : bool
        Whether the least is looked for: a gauge stands out if its offset attracts plays.
    name : callable
        Returns the name of a point (d,).
    confirmed : mapping of str to float
        The offsets that somebody has found right, by name: nobody is asked again about one until it
        changes.
    """
    texts, rounds = dict[str, str](), Rounds.of(readings)
    for x, missed, equal in zip(rounds.X, rounds.silence, rounds.stuck, strict=True):
        if missed:
            text = f"silent: no reading in the last {missed} times at which others were read"
            texts.setdefault(name(x), text)
        elif equal:
            texts.setdefault(name(x), f"stuck: its last {equal} readings are equal")
    for place, offset in attractive_offsets(readings, rounds, minimize, name).items():
        right = confirmed.get(place, 0.0)
        if abs(offset - right) > CHANGE_OF_OFFSET * abs(right):
            text = f"usually {offset:+.3g} from the median of all places: is it right?"
            texts.setdefault(place, f"stands out: {text}")
    return texts


def attractive_offsets(
    readings: Dataset, rounds: Rounds, minimize: bool, name: Callable[[Array], str]
) -> dict[str, float]:
    """Return the offset of each place that stands out and attracts plays, by name.

    The rounds are those of the readings.
    """
    offsets = [*zip(rounds.X, rounds.offsets.tolist(), strict=True)]
    if len(rounds.values) < FEWEST_ROUNDS:
        offsets = offsets_of_plays(readings)
    sign, largest = -1.0 if minimize else 1.0, dict[str, float]()
    for x, offset in offsets:
        if sign * offset > 0 and abs(offset) > abs(largest.get(name(x), 0.0)):
            largest[name(x)] = offset
    return largest


def offsets_of_plays(readings: Dataset) -> list[tuple[Array, float]]:
    """Return the places (d,) that stand out where there are no rounds, and by how much each is off.

    What a bandit predicts follows the readings of a place within a few of them, and so does not tell
    that the place is wrong; the readings of the others do. Where these are far away in time, their own
    readings are about as far from each other, and so is what is usual.
    """
    X, place = np.unique(readings.X, axis=0, return_inverse=True)
    place, offsets = place.reshape(-1), list[tuple[Array, float]]()
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
            offsets.append((X[which], offset))
    return offsets


def _apart(readings: Dataset, place: Index, rows: Index, others: Index) -> Array:
    """Return how far readings (n,) are from the median of those nearest in time of other places."""
    away = np.abs(readings.t[rows][:, None] - readings.t[others])
    away[place[rows][:, None] == place[others]] = np.inf
    nearest = np.argsort(away, axis=1, kind="stable")[:, :NEAREST]
    is_other = np.isfinite(np.take_along_axis(away, nearest, axis=1))
    values = np.where(is_other, readings.y[others][nearest], np.nan)
    enough = is_other.sum(axis=1) >= FEWEST_PLACES
    return np.asarray(readings.y[rows][enough] - np.nanmedian(values[enough], axis=1))

"""The extremes of rewards: a reward that lies absurdly far outside of all others deserves a warning.

A training that diverged brings a loss of 10,000 among losses of 0.3, and no model of the others survives
it. Heavy tails do not go so far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.observations import check_values_and_variance
from tvbandits.counts import Counted
from tvbandits.data import NewObservations
from tvbandits.errors import warn_caller
from tvbandits.validation import Array

# A reward is an outlier if it lies farther outside of all others than so many of their ranges, and they
# are at least so many.
FAR, FEWEST = 1000.0, 5

# Others that differ by less than this share of their size are equal up to single precision: they do not
# tell what is far, and one that differs from them is no outlier.
PRECISION = 1e-6


class OutlierWarning(UserWarning):
    """A reward lies more than 1,000 ranges of all others outside of them.

    Attributes
    ----------
    row : int
        Its row among the rewards of the call.
    value : float
    usual : tuple of float
        The lowest and the highest of all others.
    """

    def __init__(self, row: int, value: float, usual: tuple[float, float]) -> None:
        super().__init__(
            f"row {row}: the reading {value:g} lies more than {FAR:,.0f} ranges outside of all others, "
            f"{usual[0]:g} to {usual[1]:g}: retract or correct it if it is wrong, or let the bandit set "
            "such readings aside by itself, with Options(robust=True)"
        )
        self.row, self.value, self.usual = row, value, usual

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.row, self.value, self.usual)


def find_outlier(y: Array) -> tuple[float, tuple[float, float]] | None:
    """Return the outlier among rewards (n,), with the lowest and the highest other; None if none is."""
    if len(y) <= FEWEST:
        return None
    lowest, low, high, highest = np.partition(y, (0, 1, -2, -1))[[0, 1, -2, -1]].tolist()
    for value, first, last in ((highest, lowest, high), (lowest, low, highest)):
        off, width = max(value - last, first - value), last - first
        if width > PRECISION * max(abs(first), abs(last)) and off > FAR * width:
            return value, (first, last)
    return None


def warn_of_outlier(before: Array, new: NewObservations, y: ArrayLike | Counted) -> None:
    """Give an `OutlierWarning` if one of the rewards of a call is an outlier.

    One that was told before is none: who comes near to an optimum leaves the first play behind.

    Parameters
    ----------
    before : array of shape (m,)
        All earlier rewards.
    new : NewObservations
    y : array of shape (n,)
        The rewards of the call, as it has them; NaN where there is no reading.
    """
    rewards = new.rewards.y
    outlier = find_outlier(np.concatenate([before, rewards]))
    if outlier is not None and outlier[0] in rewards:
        value, usual = outlier
        column, _ = check_values_and_variance("y", y, len(new.X), None, None)
        warn_caller(OutlierWarning(int(np.flatnonzero(column == value)[0]), value, usual))

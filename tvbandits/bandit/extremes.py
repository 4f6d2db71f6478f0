"""A warning about a reward that is absurdly far from all others.

A training run that diverged has a loss of 10,000 among losses of 0.3, for example, which spoils any
model of the others. Rewards with heavy tails do not reach that far.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.observations import check_values_and_variance
from tvbandits.counts import Counted
from tvbandits.data import NewObservations
from tvbandits.errors import warn_caller
from tvbandits.validation import Array

# A reward is an outlier if its distance from the range of all others exceeds `FAR` times that range; at
# least `FEWEST` others are needed.
FAR, FEWEST = 1000.0, 5

# If the others differ by less than this fraction of their size, they are equal up to single precision.
# Their range is then no scale for distances, and no reward is an outlier.
PRECISION = 1e-6


class OutlierWarning(UserWarning):
    """A warning about a reward whose distance from all others exceeds 1,000 times their range.

    Attributes
    ----------
    row : int
        The row of the reward in the call.
    value : float
        The reward.
    usual : tuple of float
        The lowest and the highest of all others.
    """

    def __init__(self, row: int, value: float, usual: tuple[float, float]) -> None:
        super().__init__(
            f"row {row}: the reading {value:g} is farther from all others, {usual[0]:g} to "
            f"{usual[1]:g}, than {FAR:,.0f} times their range: retract or correct it if it is wrong, "
            "or let the bandit ignore such readings, with Options(robust=True)"
        )
        self.row, self.value, self.usual = row, value, usual

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.row, self.value, self.usual)


def find_outlier(y: Array) -> tuple[float, tuple[float, float]] | None:
    """Return an outlier among rewards (n,) with the lowest and the highest of the others, or None."""
    if len(y) <= FEWEST:
        return None
    lowest, low, high, highest = np.partition(y, (0, 1, -2, -1))[[0, 1, -2, -1]].tolist()
    for value, least, greatest in ((highest, lowest, high), (lowest, low, highest)):
        distance, width = max(value - greatest, least - value), greatest - least
        if width > PRECISION * max(abs(least), abs(greatest)) and distance > FAR * width:
            return value, (least, greatest)
    return None


def warn_of_outlier(before: Array, new: NewObservations, y: ArrayLike | Counted) -> None:
    """Issue an `OutlierWarning` if one of the rewards of a call is an outlier.

    There is no warning about an earlier reward: near an optimum, the first reward may be far from all
    later ones.

    Parameters
    ----------
    before : array of shape (m,)
        All earlier rewards.
    new : NewObservations
        The observations of the call.
    y : array of shape (n,)
        The rewards as the user passed them; NaN if the reading failed.
    """
    rewards = new.rewards.y
    outlier = find_outlier(np.concatenate([before, rewards]))
    if outlier is not None and outlier[0] in rewards:
        value, usual = outlier
        column, _ = check_values_and_variance("y", y, len(new.X), None, None)
        warn_caller(OutlierWarning(int(np.flatnonzero(column == value)[0]), value, usual))

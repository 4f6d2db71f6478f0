"""The extremes of rewards: a reward that lies absurdly far outside of all others deserves a warning.

A training that diverged brings a loss of 10,000 among losses of 0.3, and no model of the others survives
it. Heavy tails do not go so far. The two lowest and the two highest rewards are all that is needed, so
that a reward takes the same time however many there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

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
            f"row {row}: the reward {value:g} lies more than {FAR:,.0f} ranges outside of all others, "
            f"{usual[0]:g} to {usual[1]:g}: retract or correct it if it is wrong, or let the bandit set "
            "such rewards aside by itself, with Options(robust=True)"
        )
        self.row, self.value, self.usual = row, value, usual

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.row, self.value, self.usual)


@dataclass(frozen=True)
class Extremes:
    """The extremes of some rewards.

    Attributes
    ----------
    count : int
        How many rewards there are.
    low, high : tuple of float
        The lowest two, and the highest two, the extreme first; infinite where there are fewer.
    """

    count: int = 0
    low: tuple[float, float] = (math.inf, math.inf)
    high: tuple[float, float] = (-math.inf, -math.inf)

    def after(self, y: Array) -> Extremes:
        """Return the extremes with further rewards (n,)."""
        count = self.count + len(y)
        if len(y) > 4:
            y = np.partition(y, (0, 1, -2, -1))[[0, 1, -2, -1]]
        ends = y.tolist()
        first, second, *_ = sorted([*self.low, *ends])
        *_, last, highest = sorted([*self.high, *ends])
        return Extremes(count, (first, second), (highest, last))

    @property
    def outlier(self) -> tuple[float, tuple[float, float]] | None:
        """A reward that is an outlier, and the lowest and the highest of the others; None if none is."""
        if self.count <= FEWEST:
            return None
        (lowest, low), (highest, high) = self.low, self.high
        for value, first, last in ((highest, lowest, high), (lowest, low, highest)):
            off, width = max(value - last, first - value), last - first
            if width > PRECISION * max(abs(first), abs(last)) and off > FAR * width:
                return value, (first, last)
        return None

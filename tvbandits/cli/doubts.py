"""What is odd about a time or a reading, and the question whether it is right."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from tvbandits.core.arrays import Array

if TYPE_CHECKING:
    from tvbandits.campaign.campaign import Campaign

FEWEST = 3
"""From so many readings there is something to compare with."""

FAR_AHEAD, FAR_OUT = 100, 3
"""A time further ahead than so many usual steps, a value further out than so many ranges of values."""


@dataclass
class Doubts:
    """What is usual in a campaign, grown by what is brought.

    Attributes
    ----------
    campaign : Campaign
    times, values : lists of float
        Of what was told or asked.
    noise : float
        Deviation of a reading.
    """

    campaign: Campaign
    times: list[float]
    values: list[float]
    noise: float

    @classmethod
    def of(cls, campaign: Campaign) -> Doubts:
        """Of a campaign as it is."""
        known = campaign.ledger
        times = [*known.rewards.t, *known.failed.t, *known.pending.t]
        noise = (known.noise_variance or 0.0) ** 0.5  # where it is learned, values alone must do
        return cls(campaign, times, known.rewards.y.tolist(), noise)

    def of_reading(self, X: Array, t: float | None, value: float) -> list[str]:
        """What is odd about it, in words."""
        found = []
        name, at = self.campaign.names.name(X[0]), self.campaign.when(t)
        if t is not None and self._ahead(t, of_now=1):
            found.append(f"{name} at {at} is far ahead of {self._latest}")
        if len(self.values) >= FEWEST and not np.isnan(value):
            low, high = min(self.values), max(self.values)
            most = FAR_OUT * max(high - low, 3 * self.noise)
            # Of equal readings, where the noise is learned, nobody knows yet what is far.
            if most > 0 and not low - most <= value <= high + most:
                found.append(f"{name}: {value:g} is far from the {low:g} to {high:g} told so far")
        return found

    def of_decision(self, t: float) -> list[str]:
        """What is odd about a time to ask for, which may be planned ahead."""
        odd = self._ahead(t, of_now=FAR_AHEAD)
        return [f"{self.campaign.when(t)} is far ahead of {self._latest}"] if odd else []

    @property
    def _latest(self) -> str:
        return self.campaign.when(max(self.times)) if self.times else "now"

    def add(self, t: float | None, value: float) -> None:
        """It is brought."""
        self.times += [] if t is None else [t]
        self.values += [] if np.isnan(value) else [value]

    def _ahead(self, t: float, of_now: float) -> bool:
        """Whether it is far from the times so far, or by more units than that ahead of now."""
        known: Any = np.unique(self.times)
        steps = np.diff(known)
        if len(steps) and t - known[-1] > FAR_AHEAD * max(
            float(np.median(steps)), known[-1] - known[0]
        ):
            return True
        clock = self.campaign.clock
        return clock is not None and t > clock.now + of_now


def sure(doubts: list[str], yes: bool, done: str = "told") -> None:
    """Go on if there are none, or if a person says so.

    Raises
    ------
    ValueError
        If nobody does.
    """
    if not doubts or yes:
        return
    said = doubts[0] + (f" (and {len(doubts) - 1} more like it)" if len(doubts) > 1 else "")
    if not (sys.stdin.isatty() and typer.confirm(f"{said}; is that right?", err=True)):
        raise ValueError(f"{said}; nothing is {done}: say --yes if it is right")

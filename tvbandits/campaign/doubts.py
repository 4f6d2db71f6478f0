"""Readings and times that are unusual: a person shall look at them before they are recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvbandits.campaign.campaign import Campaign
from tvbandits.validation import Array

# Readings that a comparison needs, with those of all places and of one.
FEWEST, FEWEST_OF_PLACE = 3, 10

# So many deviations from the prediction are far.
FAR_DEVIATIONS = 6.0

# Of so many values, the middle nine tenths tell what is usual.
SMALLEST_TABLE = 20


class Doubts:
    """Finds readings that are unusual compared with those before, including others of the same table.

    Parameters
    ----------
    campaign : Campaign
    far_ahead : float
        A time is unusual if it is later than all others by more than this many spans of all times.
    far_out : float
        A value is unusual if it lies more than this many ranges outside of the range of all others.
    fewest : int
        The number of readings that a comparison needs.
    table : sequence of float
        The values of a table. In a campaign with fewer readings than `fewest` its first rows alone do
        not tell what is usual: the middle nine tenths of the table do.
    """

    def __init__(
        self,
        campaign: Campaign,
        far_ahead: float = 100,
        far_out: float = 3,
        fewest: int = FEWEST,
        table: Sequence[float] = (),
    ) -> None:
        self._far_ahead, self._far_out, self._fewest = far_ahead, far_out, fewest
        state = campaign.state
        self._campaign, self._readings = campaign, state.readings
        rewards = state.readings.append(state.answers)
        self._now = math.inf if campaign.clock is None else campaign.clock.now
        self._format_time = campaign.format_time
        self._count = len(rewards)
        # If the noise is learned, the values alone have to do.
        self._noise_variance = campaign.recipe.noise_variance or 0.0
        self._times = _range([*rewards.t, *state.failed.t, *state.pending.t])
        self._values = _usual_range(rewards.y, far_out, 3 * self._noise_variance**0.5)
        if self._count < fewest and len(table) >= SMALLEST_TABLE:
            self._values = np.quantile(table, (0.05, 0.95)).tolist()
            self._count = len(table)

    def about_time(self, t: float, ahead_of_now: float | None = None) -> str:
        """Return a sentence if a time is far ahead of the others, or of now; else an empty text."""
        ahead_of_now = self._far_ahead if ahead_of_now is None else ahead_of_now
        first, last = self._times or (t, t)
        far = t - last > self._far_ahead * (last - first) > 0
        if not far and not t > self._now + ahead_of_now:
            return ""
        reference = self._format_time(last) if self._times else "now"
        return f"{self._format_time(t)} is far ahead of {reference}"

    def about_reading(
        self,
        name: str,
        t: float | None,
        value: float | None,
        variance: float | None = None,
        X: Array | None = None,
    ) -> list[str]:
        """Return what is unusual about a reading; if nothing is, compare later ones with it, too.

        With its point `X` (1, d) it is also compared with the past of its place and the prediction.
        """
        doubts = list[str]()
        if t is not None and (doubt := self.about_time(t, ahead_of_now=1)):
            doubts.append(f"{name} at {doubt}")
        value = None if value is None or math.isnan(value) else value
        if value is not None and self._count >= self._fewest:
            low, high = self._values
            # A rate from few trials is uncertain itself.
            noise = max(self._noise_variance, variance or 0.0) ** 0.5
            margin = self._far_out * max(high - low, 3 * noise)
            # Equal readings with a learned noise do not tell what is far.
            if margin > 0 and not low - margin <= value <= high + margin:
                doubts.append(
                    f"{name}: {value:g} is far from the readings so far, {low:g} to {high:g}"
                )
        if not doubts and value is not None and X is not None:
            doubts += self._about_place(name, X, t, value, variance or 0.0)
        if not doubts and t is not None:
            self._times = _widen(self._times, t)
        if not doubts and value is not None:
            self._values, self._count = _widen(self._values, value), self._count + 1
        return doubts

    def _about_place(
        self, name: str, X: Array, t: float | None, value: float, variance: float
    ) -> list[str]:
        """Return a sentence if a value is far from the past of its place and from the prediction."""
        own = self._readings.y[(self._readings.X == X).all(axis=1)]
        if len(own) < FEWEST_OF_PLACE:
            return []
        noise = self._campaign.info.model.noise
        variance = max(self._noise_variance, variance, 0.0 if noise is None else noise.variance)
        low, high = _usual_range(own, 1.0, 3 * variance**0.5)
        margin = max(high - low, 3 * variance**0.5)
        if low - margin <= value <= high + margin:
            return []
        (mean,), (deviation,) = self._campaign.predict(X, t)
        if abs(value - mean) <= FAR_DEVIATIONS * float(deviation**2 + variance) ** 0.5:
            return []
        return [
            f"{name}: {value:g} is far from its readings so far, {low:g} to {high:g}, and from the "
            f"prediction, {mean:.4g}"
        ]


def _range(numbers: Any) -> list[float]:
    """Return the lowest and the highest number, if there are any."""
    return [float(min(numbers)), float(max(numbers))] if len(numbers) else []


def _usual_range(values: Array, far_out: float, least: float) -> list[float]:
    """Return the lowest and the highest value, without a twentieth (or one) that is far from the rest.

    Such values were accepted by somebody: they shall not let others like them pass unasked.

    Parameters
    ----------
    values : array of shape (n,)
    far_out : float
        How many ranges are far.
    least : float
        The smallest range that tells what is far.
    """
    usual = np.sort(values)
    for _ in range(2):  # the highest, and then, with the signs changed, the lowest
        for far in range(max(1, len(values) // 20), 0, -1):
            rest = usual[:-far]
            if len(rest) < FEWEST:
                continue
            margin = far_out * max(float(rest[-1] - rest[0]), least)
            if margin > 0 and usual[-far] > rest[-1] + margin:
                usual = rest
                break
        usual = -usual[::-1]
    return _range(usual)


def _widen(numbers: list[float], number: float) -> list[float]:
    """Return the lowest and the highest of a range and one more number."""
    low, high = numbers or (number, number)
    return [min(low, number), max(high, number)]

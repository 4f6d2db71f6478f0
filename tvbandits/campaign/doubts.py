"""Checks for unusual readings and times, which a person should confirm before they are recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tvbandits.bandit.bandit import Bandit
from tvbandits.campaign.store.errors import DoubtfulReadingError
from tvbandits.clock import Clock
from tvbandits.data import row_keys
from tvbandits.validation import Array

# Readings that a comparison needs, with those of all places and of one.
FEWEST, FEWEST_OF_PLACE = 3, 10

# So many ranges are far: a peak that a bandit finds in a flat field may be five. Of fewer readings than
# `ENOUGH` the range may be small by chance, and a value must be far from the prediction, too.
FAR_RANGES, ENOUGH = 10.0, 8

# A time is far before or ahead of all others by more than so many spans of these; fewer readings than
# `ENOUGH` may have a short span before by chance.
SPANS_BEFORE, SPANS_AHEAD = 3.0, 100.0

# So many deviations from the prediction are far.
FAR_DEVIATIONS = 6.0

# Of so many values, the middle nine tenths tell what is usual.
SMALLEST_TABLE = 20


@dataclass(frozen=True)
class Doubt:
    """A text and values that say why a reading is unusual.

    Attributes
    ----------
    text : str
        It in words, with the name of the place.
    usual : tuple of float, or None
        The lowest and the highest of the readings that it is far from; None if its time is unusual.
    """

    text: str
    usual: tuple[float, float] | None = None

    def __str__(self) -> str:
        return self.text


class Doubts:
    """Finds readings that are unusual compared with those before, including others of the same table.

    Parameters
    ----------
    bandit : Bandit
        It has what was told so far.
    predictor : callable
        Returns a bandit of the same state, which may remember what it has conditioned.
    clock : Clock or None
        It tells what time it is.
    format_time : callable
        Returns a time as text.
    fewest : int
        The number of readings that a comparison needs.
    table : sequence of float
        The values of a table. In a campaign with fewer readings than `fewest` its first rows alone do
        not tell what is usual: the middle nine tenths of the table do.
    """

    def __init__(
        self,
        bandit: Bandit,
        predictor: Callable[[], Bandit],
        clock: Clock | None,
        format_time: Callable[[float], str],
        fewest: int = FEWEST,
        table: Sequence[float] = (),
    ) -> None:
        self._fewest, state = fewest, bandit.state
        self._bandit, self._readings = bandit, state.readings
        self._predictor = cache(predictor)
        self._own: dict[bytes, Array] = {}
        rewards = state.readings.append(state.answers)
        self._now = math.inf if clock is None else clock.now
        self._format_time = format_time
        self._count = self._told = len(rewards)
        # If the noise is learned, the values alone have to do.
        self._noise_variance = bandit.recipe.noise_variance or 0.0
        self._times = _range(np.concatenate([rewards.t, state.failed.t, state.pending.t]))
        self._values = _usual_range(rewards.y, FAR_RANGES, self._noise_variance**0.5)
        if self._count < fewest and len(table) >= SMALLEST_TABLE:
            self._values = np.quantile(table, (0.05, 0.95)).tolist()
            self._count = len(table)

    def about_time(self, t: float, ahead_of_now: float = SPANS_AHEAD) -> str:
        """Return a sentence if a time is far ahead of the others, or of now, or far before; else ""."""
        first, last = self._times or (t, t)
        if self._told >= ENOUGH and first - t > SPANS_BEFORE * (last - first) > 0:
            return (
                f"{self._format_time(t)} is far before {self._format_time(first)}, the first time"
            )
        far = t - last > SPANS_AHEAD * (last - first) > 0
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
        *,
        is_new_time: bool = True,
    ) -> list[Doubt]:
        """Return what is unusual about a reading; if nothing is, compare later ones with it, too.

        With its point `X` (1, d) it is also compared with the past of its place and the prediction. A
        time that is not new was believed before.
        """
        doubts = list[Doubt]()
        if is_new_time and t is not None and (unusual := self.about_time(t, ahead_of_now=1)):
            doubts.append(Doubt(f"{name} at {unusual}"))
        value = None if value is None or math.isnan(value) else value
        if value is not None and self._count >= self._fewest:
            low, high = self._values
            # A rate from few trials is uncertain itself.
            noise = max(self._noise_variance, variance or 0.0) ** 0.5
            margin = FAR_RANGES * max(high - low, noise)
            # Equal readings, of one place perhaps, do not tell what is far.
            far = low < high and not low - margin <= value <= high + margin
            # Few readings may all be of places that are alike: the bandit knows how others may differ.
            if far and X is not None and self._count < ENOUGH:
                far = not self._is_foreseen(X, t, value, noise**2)[0]
            if far:
                text = f"{name}: {value:g} is far from the readings so far, {low:g} to {high:g}"
                doubts.append(Doubt(text, (low, high)))
        if not doubts and value is not None and X is not None:
            doubts += self._about_place(name, X, t, value, variance or 0.0)
        if not doubts and t is not None:
            self._times = _widen(self._times, t)
        if not doubts and value is not None:
            self._values, self._count = _widen(self._values, value), self._count + 1
        return doubts

    def _about_place(
        self, name: str, X: Array, t: float | None, value: float, variance: float
    ) -> list[Doubt]:
        """Return a sentence if a value is far from the past of its place and from the prediction."""
        own = self._own.get(X.tobytes())
        if own is None:  # many rows of a table are of one place
            own = self._readings.y[(self._readings.X == X).all(axis=1)]
            self._own[X.tobytes()] = own
        if len(own) < FEWEST_OF_PLACE:
            return []
        noise = self._bandit.info.model.noise
        variance = max(self._noise_variance, variance, 0.0 if noise is None else noise.variance)
        low, high = _usual_range(own, 1.0, 3 * variance**0.5)
        margin = max(high - low, 3 * variance**0.5)
        if low - margin <= value <= high + margin:
            return []
        foreseen, mean = self._is_foreseen(X, t, value, variance)
        if foreseen:
            return []
        text = (
            f"{name}: {value:g} is far from its readings so far, {low:g} to {high:g}, and from the "
            f"prediction, {mean:.4g}"
        )
        return [Doubt(text, (low, high))]

    def _is_foreseen(
        self, X: Array, t: float | None, value: float, variance: float
    ) -> tuple[bool, float]:
        """Tell whether a value is near its prediction, and return that."""
        (mean,), (deviation,) = self._predictor().predict(X, t)
        near = abs(value - mean) <= FAR_DEVIATIONS * float(deviation**2 + variance) ** 0.5
        return bool(near), float(mean)


def refuse_doubtful(
    doubts: Doubts,
    name: Callable[[Array], str],
    X: Array,
    t: Array | None,
    values: Array,
    variance: Array | None,
    *,
    is_new_time: bool = True,
) -> None:
    """Raise a `DoubtfulReadingError` about the first of some readings or answers that is unusual.

    Parameters
    ----------
    doubts : Doubts
    name : callable
        Returns the name of a point (d,).
    X : array of shape (n, d)
    t : array of shape (n,), or None
        Their times, as far as somebody said them.
    values : array of shape (n,)
        NaN where there is none.
    variance : array of shape (n,), or None
    is_new_time : bool
        False: the readings are on record at these times already.
    """
    rows_of_doubts, places = list[tuple[int, list[Doubt]]](), row_keys(X)
    names = {place: name(x) for place, x in dict(zip(places, X, strict=True)).items()}
    for row, value in enumerate(values.tolist()):
        time, noise = (None if each is None else float(each[row]) for each in (t, variance))
        x, name_of_place = X[row : row + 1], names[places[row]]
        if unusual := doubts.about_reading(
            name_of_place, time, value, noise, x, is_new_time=is_new_time
        ):
            rows_of_doubts.append((row, unusual))
    if rows_of_doubts:
        row, unusual = rows_of_doubts[0]
        usual = next((each.usual for each in unusual if each.usual is not None), None)
        reason, more = "; ".join(map(str, unusual)), len(rows_of_doubts) - 1
        raise DoubtfulReadingError(
            reason,
            row=row,
            site=names[places[row]],
            value=float(values[row]),
            usual=usual,
            more=more,
        )


def far_values(
    doubts: Doubts, names: Sequence[str], values: Array, variance: Array | None
) -> dict[int, str]:
    """Return what is unusual about answers (n,) of an expert, by row.

    If most of them are far, the reward has changed and none is an error.
    """
    texts: dict[int, str] = {}
    for row, (name, value) in enumerate(zip(names, values.tolist(), strict=True)):
        noise = None if variance is None or math.isnan(value) else float(variance[row])
        if unusual := doubts.about_reading(name, None, value, noise):
            texts[row] = "; ".join(map(str, unusual))
    answered = int(np.count_nonzero(~np.isnan(values)))
    return {} if answered > 1 and 2 * len(texts) > answered else texts


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

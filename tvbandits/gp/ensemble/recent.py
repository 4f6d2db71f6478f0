"""An ensemble with what it has read: late readings count at their own time, a season may be found.

A filter only goes forward. What was known before the latest `WINDOW` times is kept, with what was
observed since: a late observation goes back to its time, and the observations after it are taken once
more. One from before the window counts at the window's beginning, as the noisier reading of that time
that it is by then (`faded`).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.models import SMALL_NETWORK
from tvbandits.gp.ensemble.seasons import course, period_in

# A late observation counts at its own time while no more than so many later times were observed.
WINDOW = 8


def at_each_time(times: Array) -> Iterator[tuple[float, slice]]:
    """The different ones of times (n,) that are in order, and which rows are of each."""
    start = 0
    for t, rows in groupby(times.tolist()):
        end = start + len(list(rows))
        yield t, slice(start, end)
        start = end


class Readings(NamedTuple):
    """Values of some points at one time: what one call of `FilterEnsemble.observe` takes.

    Attributes
    ----------
    rows : integer array of shape (n,)
    values, variance : arrays of shape (n,)
    """

    rows: Index
    values: Array
    variance: Array


@dataclass(frozen=True)
class Recent:
    """An ensemble, as it was some times ago, and what was observed since.

    Attributes
    ----------
    before : FilterEnsemble
        Without the observations of `times`.
    times : tuple of float
        The latest times observed, in order.
    parts : tuple of tuple of Readings
        What was observed at each of them, in the order it is taken.
    """

    before: FilterEnsemble
    times: tuple[float, ...] = ()
    parts: tuple[tuple[Readings, ...], ...] = ()
    # The ensemble after each of the first times: made where it is needed.
    _after: list[FilterEnsemble] = field(default_factory=list, repr=False, compare=False)

    @property
    def latest(self) -> FilterEnsemble:
        """The ensemble with everything that was observed."""
        return self._after_times(len(self.times))

    def at(self, t: float) -> FilterEnsemble:
        """What was known at a time, as far back as is kept: without what was observed later."""
        return self._after_times(bisect_right(self.times, t))

    def observed(self, t: float, readings: Readings) -> Recent:
        """With readings of a time, late or not."""
        if t < self.before.time and t not in self.times:
            return self._long_ago(t, readings)
        at, same = bisect_left(self.times, t), t in self.times
        times = self.times if same else (*self.times[:at], t, *self.times[at:])
        known = self._after[:at]
        grown = (*self.parts[at], readings) if same else (readings,)
        parts = (*self.parts[:at], grown, *self.parts[at + same :])
        if same and at == len(times) - 1:
            # The latest time goes on: nothing has to be taken twice.
            latest = self.latest.observe(*readings, t)
            known = [*self._after[:at], latest]
        out = Recent(self.before, times, parts, known)
        surplus = len(times) - WINDOW
        if surplus <= 0:
            return out
        before = out._after_times(surplus)
        return Recent(before, times[surplus:], parts[surplus:], out._after[surplus:])

    def _long_ago(self, t: float, readings: Readings) -> Recent:
        """With readings of a time before what is kept."""
        noise = faded(self.before, self.before.time - t, readings.variance)
        heard = np.isfinite(noise)
        if not heard.any():
            return self
        rows, values, noise = readings.rows[heard], readings.values[heard], noise[heard]
        before = self.before.observe(rows, values, noise, self.before.time)
        return Recent(before, self.times, self.parts)

    def _after_times(self, count: int) -> FilterEnsemble:
        """The ensemble after the first so many of the times; those behind it wait until they are needed.

        Of many late readings each moves all that came later: they are taken once, after the last one.
        """
        known = self._after
        while len(known) < count:
            ensemble = known[-1] if known else self.before
            for each in self.parts[len(known)]:
                ensemble = ensemble.observe(*each, self.times[len(known)])
            known.append(ensemble)
        return known[count - 1] if count else self.before


def moved(ensemble: FilterEnsemble, t: float) -> FilterEnsemble:
    """The ensemble at a later time without an observation, for questions about that time."""
    if not ensemble.filters or t <= ensemble.time:
        return ensemble
    h = ensemble.steps_until(t)
    return replace(ensemble, time=t, filters=tuple(each.moved(h) for each in ensemble.filters))


def faded(ensemble: FilterEnsemble, age: float | Array, variance: Array) -> Array:
    """Noise variances (n,) with which readings of some time ago, or of times (n,) ago, speak about now.

    A reading says y = f_s + e. Where f_s and f_now have the correlation r before anything is observed,
    that is worth a reading of f_now with the noise variance (k (1 - r^2) + v) / r^2. The correlation is
    that of static and drift together, over the members by their weights; infinite where nothing is left.
    """
    given = np.asarray(variance, dtype=np.float64)
    ages = np.broadcast_to(age, given.shape)
    if not ensemble.filters or not (ages > 0).any():
        return given
    steps = ages / ensemble.step if math.isfinite(ensemble.step) else np.ones(ages.shape)
    shared, total = np.zeros(ages.shape), 0.0
    for weight, unit, each in zip(ensemble.weights, ensemble.scales, ensemble.members, strict=True):
        shared += weight * unit * each.covariance(np.zeros(1), steps, 1.0)
        total += weight * unit * (each.static + each.drift)
    r2 = (shared / total) ** 2
    with np.errstate(divide="ignore", over="ignore"):
        noise = np.where(r2 < 1e-6, np.inf, (total * (1.0 - r2) + given) / r2)
    return np.where(ages > 0, noise, given)


# --- a season that nobody named: found from the readings so far, and then a part of the models ----
# Until so many steps have passed the readings are looked through for a period from time to time
# (`gp.ensemble.seasons`); where one is found, or one that was found proves to be none, another
# ensemble takes the place of the present one, and observes all of them.


# After so many steps the search ends: then a step costs the same.
LAST = 1024

# After so many steps the readings are looked through: four times until they have doubled.
LOOKED_AT = (
    *(octave * quarter // 4 for octave in (32, 64, 128, 256, 512) for quarter in (4, 5, 6, 7)),
    LAST,
)

# With more readings the search ends: what a replay takes is bounded.
MOST_READINGS = 40_000

# A period is looked for where this share of steps is a whole number of the usual one, but for
# `OFF`.
REGULAR, OFF = 0.9, 0.1


@dataclass(frozen=True)
class SeasonSearch:
    """A season that is looked for in the readings so far.

    Attributes
    ----------
    start : FilterEnsemble
        Before any reading, without a season.
    period : float or None
        That was found, in the unit of time.
    steps : int
        Times so far.
    latest : float
        The latest of them.
    """

    start: FilterEnsemble
    period: float | None = None
    steps: int = 0
    latest: float = -math.inf

    @classmethod
    def of(cls, start: FilterEnsemble) -> SeasonSearch | None:
        """For an ensemble whose season is to be found; None: it is not looked for one.

        On a function of many points a season would take more features than a step can afford.
        """
        return cls(start) if len(start.points) <= SMALL_NETWORK else None

    def period_of(self, readings: TimedReadings) -> float | None:
        """The period that readings, in order of time, show."""
        at = _steps(readings.times)
        if at is None:
            return None
        step, steps = at
        series = course(steps, readings.rows, readings.values)
        known = None if self.period is None else self.period / step
        found = period_in(series, known)
        return None if found is None else found * step

    def replayed(self, readings: TimedReadings) -> Recent:
        """An ensemble with that season that has observed all readings, which are in order of time."""
        empty = self.start
        if self.period is not None:
            empty = FilterEnsemble.of(empty.points, empty.noise_variance, season=self.period)
        recent = Recent(empty)
        for t, at in at_each_time(readings.times):
            some = Readings(readings.rows[at], readings.values[at], readings.variance[at])
            recent = recent.observed(t, some)
        return recent


class TimedReadings(NamedTuple):
    """Values of some points: times, numbers of the points, values and noise variances, each (N,)."""

    times: Array
    rows: Index
    values: Array
    variance: Array


def _steps(times: Array) -> tuple[float, Index] | None:
    """The usual time between two of the times (N,), and how many of it each is after the first.

    None where there is no such step, or gaps leave nothing to be compared.
    """
    different = np.unique(times)
    if len(different) < 2:
        return None
    with np.errstate(over="ignore"):
        gaps = np.diff(different)
        step = float(np.median(gaps))
        after = np.round((times - different[0]) / step)
        off = np.abs(gaps / step - np.round(gaps / step))
    regular = math.isfinite(step) and np.mean(off < OFF) >= REGULAR
    return (step, after.astype(np.int64)) if regular and after[-1] <= 2 * LAST else None


def observed(
    recent: Recent,
    search: SeasonSearch | None,
    t: float,
    readings: Readings,
    earlier: Callable[[], TimedReadings],
) -> tuple[Recent, SeasonSearch | None]:
    """An ensemble and its search with what was read at a time; `earlier` are all readings before it."""
    if search is not None and t > search.latest:
        if search.steps in LOOKED_AT:
            known = earlier()
            period = search.period_of(known)
            if period != search.period:
                search = replace(search, period=period)
                recent = search.replayed(known)
            if search.steps >= LAST or len(known.times) > MOST_READINGS:
                return recent.observed(t, readings), None
        search = replace(search, steps=search.steps + 1, latest=t)
    return recent.observed(t, readings), search

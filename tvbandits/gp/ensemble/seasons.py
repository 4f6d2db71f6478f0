"""A season that nobody named: found from the readings so far, and then a part of the models.

Until so many steps have passed the readings are looked through for a period from time to time
(`gp.ensemble.periods`); where one is found, or one that was found proves to be none, another ensemble
takes the place of the present one, and observes all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble import periods
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.models import SMALL_NETWORK
from tvbandits.gp.ensemble.recent import Readings, Recent

LAST = 1024
"""After so many steps the search ends: then a step costs the same."""

LOOKED_AT = (
    *(octave * quarter // 4 for octave in (32, 64, 128, 256, 512) for quarter in (4, 5, 6, 7)),
    LAST,
)
"""After so many steps the readings are looked through: four times until they have doubled."""

MOST_READINGS = 40_000
"""With more readings the search ends: what a replay takes is bounded."""

REGULAR, OFF = 0.9, 0.1
"""A period is looked for where this share of steps is a whole number of the usual one, but for `OFF`."""


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
        course = periods.course(steps, readings.rows, readings.values)
        known = None if self.period is None else self.period / step
        found = periods.found(course, known)
        return None if found is None else found * step

    def replayed(self, readings: TimedReadings) -> Recent:
        """An ensemble with that season that has observed all readings, which are in order of time."""
        empty = self.start
        if self.period is not None:
            empty = FilterEnsemble.of(
                empty.points, empty.noise_variance, capacity=empty.capacity, season=self.period
            )
        recent, times = Recent(empty), readings.times
        ends = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), len(times)]
        for start, end in pairwise(ends):
            at = slice(start, end)
            some = Readings(readings.rows[at], readings.values[at], readings.variance[at])
            recent = recent.observed(float(times[start]), some)
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

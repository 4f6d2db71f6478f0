"""A season that nobody named: found from the readings so far, and then a part of the models.

Until so many steps have passed all readings are kept in a diary. From time to time it is looked through
for a period (`gp.fitting.periods`); where one is found, or one that was found proves to be none, another
bank takes the place of the present one, and is told all that the diary holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble import periods
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.models import SMALL_NETWORK
from tvbandits.gp.ensemble.recent import Readings, Recent

LAST = 1024
"""After so many steps the diary is looked through for the last time: then a step costs the same."""

LOOKED_AT = (
    *(octave * quarter // 4 for octave in (32, 64, 128, 256, 512) for quarter in (4, 5, 6, 7)),
    LAST,
)
"""After so many steps it is looked through: four times until they have doubled."""

MOST_READINGS = 40_000
"""A diary that is longer is closed: what is kept, and what it takes to tell it again, is bounded."""

PAGE = 512
"""Readings of a page; an open page is written anew for each reading, a full one is not."""

REGULAR, OFF = 0.9, 0.1
"""A period is looked for where this share of steps is a whole number of the usual one, but for `OFF`."""


@dataclass(frozen=True)
class Diary:
    """All readings so far, and the period that was found in them.

    Attributes
    ----------
    bank : Bank
        Before any reading, without a season.
    period : float or None
        In the unit of time.
    pages : tuple of arrays of shape (n, 4)
        Time, row, value and noise variance of each reading; the last page is open.
    steps : int
        Times so far.
    latest : float
        The latest of them.
    """

    bank: FilterEnsemble
    period: float | None = None
    pages: tuple[Array, ...] = ()
    steps: int = 0
    latest: float = -math.inf

    def with_readings(self, t: float, readings: Readings) -> Diary:
        """With what was read at a time, late or not."""
        more = np.column_stack(
            [np.full(len(readings.rows), t), readings.rows, readings.values, readings.variance]
        )
        is_open = self.pages and len(self.pages[-1]) < PAGE
        full, page = (self.pages[:-1], self.pages[-1]) if is_open else (self.pages, more[:0])
        return replace(
            self,
            pages=(*full, np.concatenate([page, more])),
            steps=self.steps + (t > self.latest),
            latest=max(self.latest, t),
        )

    @property
    def entries(self) -> Array:
        """All readings (N, 4) in the order of their times."""
        told = np.concatenate([np.empty((0, 4)), *self.pages])
        return np.asarray(told[np.argsort(told[:, 0], kind="stable")])

    def looked_through(self) -> Diary:
        """With the period that the readings show."""
        told = self.entries
        at = _steps(told[:, 0])
        if at is None:
            return replace(self, period=None)
        step, steps = at
        course = periods.course(steps, told[:, 1].astype(np.int64), told[:, 2])
        known = None if self.period is None else self.period / step
        found = periods.found(course, known)
        return replace(self, period=None if found is None else found * step)

    def told_again(self) -> Recent:
        """A bank with that season, that knows all readings."""
        bank = empty = self.bank
        if self.period is not None:
            bank = FilterEnsemble.of(
                empty.points, empty.noise_variance, capacity=empty.capacity, season=self.period
            )
        told, recent = self.entries, Recent(bank)
        ends = [0, *(np.flatnonzero(np.diff(told[:, 0])) + 1).tolist(), len(told)]
        for start, end in pairwise(ends):
            time, rows, values, variance = told[start:end].T
            recent = recent.observed(
                float(time[0]), Readings(rows.astype(np.int64), values, variance)
            )
        return recent


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


def diary_of(bank: FilterEnsemble) -> Diary | None:
    """An empty one, for a bank whose season is to be found; None: it is not looked for one.

    On a function of many points a season would take more features than a step can afford.
    """
    return Diary(bank) if len(bank.points) <= SMALL_NETWORK else None


def told(
    recent: Recent, diary: Diary | None, t: float, readings: Readings
) -> tuple[Recent, Diary | None]:
    """A bank and its diary with what was read at a time."""
    if diary is None:
        return recent.observed(t, readings), None
    if t > diary.latest and diary.steps in LOOKED_AT:
        looked = diary.looked_through()
        if looked.period != diary.period:
            recent = looked.told_again()
        full = diary.steps >= LAST or sum(map(len, diary.pages)) > MOST_READINGS
        diary = None if full else looked
    recent = recent.observed(t, readings)
    return recent, None if diary is None else diary.with_readings(t, readings)

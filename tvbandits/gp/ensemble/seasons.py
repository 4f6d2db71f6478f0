"""A period that a series has, told from weather by a test.

What all places share is regressed on its own last values and on harmonics of a period. The chance
that weather without a period had gained so much by them (an F test), times how many periods were
tried, says whether there is one; of the values and of their ranks, whichever is clearer. Weather
that lasts looks periodic for a while: its own last values take that on themselves, where a
periodogram would not.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri
from scipy.stats import f as f_distribution, rankdata

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index

# Last values that a value is regressed on: weather of two time scales, and noise.
LAGS = 3

# Of a period, where so many fit between two steps.
HARMONICS = 3

# Steps of the shortest period that is looked for.
SHORTEST = 4.0

# Periods that must have passed.
SEEN = 2.0

# A period is found below this chance that there is none.
FOUND = math.log(3e-4)

# And given up above this one.
KEPT = math.log(1e-2)

# Another one takes its place if it is that much less by chance.
BETTER = math.log(1e-3)

# A part of a period takes its place unless its log chance is larger by more.
EQUAL = 7.0

# Periods that are tried at once: what they take of memory.
TOGETHER = 128

ROUNDING = 1e-9
SWEEPS = 20


def course(steps: Index, places: Index, values: Array) -> Array:
    """What all places share at each step, by readings of some of them: NaN where nothing was read.

    The least squares fit of a sum of step and place, whose differences are drawn to 0 by one reading.

    Parameters
    ----------
    steps : integer array of shape (N,)
        Of the readings, from 0 on.
    places : integer array of shape (N,)
    values : array of shape (N,)

    Returns
    -------
    course : array of shape (max(steps) + 1,)
        Less its mean.
    """
    count, often = np.bincount(steps), np.bincount(places) + 1.0
    y = values - values.mean()
    shared = np.zeros(len(count))
    for _ in range(SWEEPS):
        own = np.bincount(places, y - shared[steps]) / often
        shared = np.bincount(steps, y - own[places]) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, shared, np.nan))


def period_in(series: Array, known: float | None = None) -> float | None:
    """The period of a series in steps, or None.

    Parameters
    ----------
    series : array of shape (n,)
        One value a step, NaN where there is none.
    known : float, optional
        A period that was found earlier: it stays while it may be one, unless another is far likelier.
    """
    periods = tried(len(series))
    if len(periods) == 0:
        return None
    both, guesses = (series, in_ranks(series)), math.log(2 * len(periods))
    chances = guesses + np.minimum(*(log_chances(each, periods) for each in both))
    best = _fundamental(periods, chances, len(series))
    if known is not None:
        own = guesses + min(float(log_chances(each, np.array([known]))[0]) for each in both)
        if own < KEPT and not chances[best] < own + BETTER:
            return known
    return float(periods[best]) if chances[best] < FOUND else None


def in_ranks(series: Array) -> Array:
    """Normal scores of the values: a few rush hours that are far off do not hide when they come."""
    known = np.isfinite(series).sum()
    return np.asarray(ndtri((rankdata(series, nan_policy="omit") - 0.5) / known))


def tried(steps: int) -> Array:
    """Periods that so many steps can tell apart: whole ones, and those between where they are short."""
    longest = int(steps / SEEN)
    if longest < SHORTEST:
        return np.empty(0)
    whole = np.arange(SHORTEST, longest + 1.0)
    # Two frequencies less than half a cycle apart over all steps are told apart hardly.
    between = 1.0 / np.arange(1.0 / longest, 1.0 / SHORTEST, 0.5 / steps)
    far = np.abs(between - np.round(between)) > 0.25 * between**2 / steps
    return np.sort(np.concatenate([whole, between[far]]))


def log_chances(series: Array, periods: Array) -> Array:
    """Logarithm of the chance (p,) that harmonics of each period say so much if there is none.

    Of the F test of a regression on the last `LAGS` values and a constant, and harmonics besides.

    Parameters
    ----------
    series : array of shape (n,)
    periods : array of shape (p,)
        In steps, at least `SHORTEST`.
    """
    chances = np.zeros(len(periods))
    rows, y, last = _regression(series)
    free = len(y) - last.shape[1] - 2 * HARMONICS
    rest = float(y @ y)
    if free < 1 or not rest > 0:
        return chances
    most = np.minimum(np.ceil(periods / 2.0) - 1.0, HARMONICS).astype(np.int64)
    for harmonics in range(1, HARMONICS + 1):
        some = np.flatnonzero(most == harmonics)
        for part in np.array_split(some, max(1, -(-len(some) // TOGETHER))):
            gained = np.minimum(_gained(rows, y, last, periods[part], harmonics), rest)
            one, other = 2 * harmonics, len(y) - last.shape[1] - 2 * harmonics
            ratio = (gained / one) / (np.maximum(rest - gained, 1e-12 * rest) / other)
            chances[part] = f_distribution.logsf(ratio, one, other)
    return chances


def _regression(series: Array) -> tuple[Index, Array, Array]:
    """Steps (n,) whose last values are known, what these leave of the value (n,), and a basis of them.

    The basis (n, 1 + LAGS) is orthonormal.
    """
    largest = np.nanmax(np.abs(series)) if np.isfinite(series).any() else 0.0
    scaled = series / largest if largest > 0 else np.full(len(series), np.nan)
    last = [scaled[LAGS - k : max(LAGS, len(series)) - k] for k in range(LAGS + 1)]
    index = np.flatnonzero(np.isfinite(np.array(last)).all(axis=0))
    if len(index) <= LAGS + 1:
        return index, np.empty(0), np.empty((0, 1 + LAGS))
    known = np.column_stack([np.ones(len(index)), *(each[index] for each in last[1:])])
    inner = known.T @ known
    inner[np.diag_indices_from(inner)] *= 1.0 + ROUNDING
    root = linalg.cholesky(inner, "the last values of a series").L
    basis = linalg.solve_lower(root, known.T).T
    y = last[0][index]
    return index + LAGS, np.asarray(y - basis @ (basis.T @ y)), np.asarray(basis)


def _gained(rows: Index, y: Array, last: Array, periods: Array, harmonics: int) -> Array:
    """By how much (p,) harmonics of each period lower the squared errors y of a regression."""
    angle = 2.0 * math.pi * np.arange(1, harmonics + 1) * rows[:, None] / periods[:, None, None]
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=2)
    waves -= np.matmul(last, np.matmul(last.T, waves))
    inner = np.matmul(waves.transpose(0, 2, 1), waves)
    number = np.arange(2 * harmonics)
    inner[:, number, number] += ROUNDING * len(rows)
    _, whitened = linalg.whitened_each(inner, np.matmul(y, waves)[:, :, None])
    return np.asarray((whitened[:, :, 0] ** 2).sum(axis=1))


def _fundamental(periods: Array, chances: Array, steps: int) -> int:
    """The likeliest, or, where its half or third is nearly as likely, that: a wave is all of them."""
    best = int(chances.argmin())
    for part in (3.0, 2.0):
        shorter = periods[best] / part
        told_apart = 0.5 * shorter**2 / steps
        near = np.abs(periods - shorter) <= told_apart
        near &= chances < min(chances[best] + EQUAL, FOUND)
        if near.any():
            return int(np.where(near, chances, np.inf).argmin())
    return best

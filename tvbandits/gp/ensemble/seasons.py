"""The search for a season: whether a series has a period, by a test that weather does not pass.

It is for finding a day or a year that the user has not named. Readings at steps and places go in, as one
series of what all places share; out comes a period in steps, or None.

The series is regressed on its own last values and on harmonics of a period. An F test gives the
probability that a series without the period had gained so much by the harmonics; times the number of
periods tried, it decides. It is done with the values and with their ranks, of which the clearer counts.
Weather that lasts looks periodic for a while: its own last values account for that, which a periodogram
would take for a period.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import f as f_distribution, rankdata

from tvbandits.gp import linalg
from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index, finite_number, require


@cache
def steps_in_octaves(first: int, last: int, per_octave: int) -> tuple[int, ...]:
    """Return steps from the first to the last, so many until their number has doubled.

    Examples
    --------
    >>> from tvbandits.gp.ensemble.seasons import steps_in_octaves
    >>> print(steps_in_octaves(4, 16, 2))
    (4, 6, 8, 12, 16)
    """
    starts = [first * 2**k for k in range(int(math.log2(last / first)))]
    return (
        *(start * (per_octave + i) // per_octave for start in starts for i in range(per_octave)),
        last,
    )


@dataclass(frozen=True)
class SeasonConfig:
    """The constants of the search for a season.

    Attributes
    ----------
    lags : int
        Last values that a value is regressed on: enough for weather of two time scales, and noise.
    harmonics : int
        Harmonics of a period; fewer where not so many fit between two steps.
    shortest : float
        Steps of the shortest period that is tried.
    cycles : float
        Number of periods that must have passed.
    accepted : float
        A period is accepted below this probability.
    rejected : float
        An accepted period is rejected above this one.
    better : float
        Another period replaces an accepted one if its probability is smaller by this factor.
    fundamental : float
        A half or a third of a period replaces it unless its log probability is larger by more: a wave
        has the period of all its multiples.
    periods_at_once : int
        Periods that are tried together, which bounds memory.
    ridge : float
        What is added to a diagonal, relative to it, against rounding.
    sweeps : int
        Sweeps of the fit of steps and places; the tests hold it to 1e-3 of a least squares fit.
    shortest_named : float
        A shorter period than this, which a user names, cannot be distinguished from none by the times of
        readings.
    last_step : int
        After so many steps the search ends: from then on a step costs the same.
    first_octave, looks_per_octave : int
        After 32 steps, and then four times until their number has doubled, the readings are searched.
    most_readings : int
        With more readings the search ends, which bounds what a replay takes.
    regular_share, irregularity : float
        Times have a step if this share of gaps is a whole number of the median gap, up to 0.1 of it.
    """

    lags: int = 3
    harmonics: int = 3
    shortest: float = 4.0
    cycles: float = 2.0
    accepted: float = 3e-4
    rejected: float = 1e-2
    better: float = 1e-3
    fundamental: float = 7.0
    periods_at_once: int = 128
    ridge: float = 1e-9
    sweeps: int = 20
    shortest_named: float = 1e-9
    last_step: int = 1024
    first_octave: int = 32
    looks_per_octave: int = 4
    most_readings: int = 40_000
    regular_share: float = 0.9
    irregularity: float = 0.1

    @property
    def look_steps(self) -> tuple[int, ...]:
        """Return the steps after which the readings are searched."""
        return steps_in_octaves(self.first_octave, self.last_step, self.looks_per_octave)


CONFIG = SeasonConfig()


def check_season(season: object) -> None:
    """Raise a `ValueError` unless this is a period, "find" or None."""
    if isinstance(season, str):
        require(season == "find", "season", 'a positive number, "find" or None', season)
    elif season is not None:
        finite_number("season", season, low=CONFIG.shortest_named)


@dataclass(frozen=True)
class SeasonSearch:
    """The state of a search.

    Attributes
    ----------
    period : float or None
        The accepted period, in the unit of time.
    steps : int
        Number of times with readings so far.
    latest : float
        The latest of them.
    ended : bool
        Whether it has ended.
    """

    period: float | None = None
    steps: int = 0
    latest: float = -math.inf
    ended: bool = False

    @property
    def is_due(self) -> bool:
        """Return whether the readings so far are to be searched when the next time comes."""
        return not self.ended and self.steps in CONFIG.look_steps

    def advance(self, t: float) -> SeasonSearch:
        """Return the search at a later time with readings."""
        return replace(self, steps=self.steps + 1, latest=t)

    def look(self, times: Array, places: Index, values: Array) -> SeasonSearch:
        """Return the search with the period of the readings (N,) so far, which are in order of time."""
        ended = self.steps > CONFIG.last_step or len(times) > CONFIG.most_readings
        return replace(self, period=self.period_of(times, places, values), ended=ended)

    def period_of(self, times: Array, places: Index, values: Array) -> float | None:
        """Return the period of readings in the unit of time; or None."""
        grid = regular_steps(times)
        if grid is None:
            return None
        step, steps = grid
        accepted = None if self.period is None else self.period / step
        period = find_period(shared_series(steps, places, values), accepted)
        return None if period is None else period * step


def regular_steps(times: Array) -> tuple[float, Index] | None:
    """Return the median gap between times (N,), which are in order, and their numbers in such steps.

    None if times are irregular, or gaps leave nothing to compare.
    """
    different = np.unique(times)
    if len(different) < 2:
        return None
    with np.errstate(over="ignore"):
        gaps = np.diff(different)
        step = float(np.median(gaps))
        numbers = np.round((times - different[0]) / step)
        off = np.abs(gaps / step - np.round(gaps / step))
    regular = np.mean(off < CONFIG.irregularity) >= CONFIG.regular_share
    if not (math.isfinite(step) and regular and numbers[-1] <= 2 * CONFIG.last_step):
        return None
    return step, numbers.astype(np.int64)


def shared_series(steps: Index, places: Index, values: Array) -> Array:
    """Return what all places share at each step: NaN where nothing was read.

    The least squares fit of a sum of a term for each step and one for each place, the latter with one
    more reading of 0 at each place.

    Parameters
    ----------
    steps : integer array of shape (N,)
        Of the readings, from 0 on.
    places : integer array of shape (N,)
    values : array of shape (N,)

    Returns
    -------
    array of shape (max(steps) + 1,)
        Less its mean.
    """
    count, reads = np.bincount(steps), np.bincount(places) + 1.0
    y = values - values.mean()
    shared = np.zeros(len(count))
    for _ in range(CONFIG.sweeps):
        own = np.bincount(places, y - shared[steps]) / reads
        shared = np.bincount(steps, y - own[places]) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, shared, np.nan))


def find_period(series: Array, accepted: float | None = None) -> float | None:
    """Return the period of a series in steps; None if there is none.

    Parameters
    ----------
    series : array of shape (n,)
        One value a step, NaN where there is none.
    accepted : float, optional
        A period that was accepted earlier: it stays unless it is rejected, or another is far likelier.
    """
    periods = candidate_periods(len(series))
    if len(periods) == 0:
        return None
    both, log_trials = (series, normal_scores(series)), math.log(2 * len(periods))
    log_p = log_trials + np.minimum(*(log_p_values(each, periods) for each in both))
    best = _fundamental(periods, log_p, len(series))
    if accepted is not None:
        same = np.array([accepted])
        own = log_trials + min(float(log_p_values(each, same)[0]) for each in both)
        if own < math.log(CONFIG.rejected) and not log_p[best] < own + math.log(CONFIG.better):
            return accepted
    return float(periods[best]) if log_p[best] < math.log(CONFIG.accepted) else None


def normal_scores(series: Array) -> Array:
    """Return the normal scores of the ranks: with these, a few extreme values hide no period."""
    count = np.isfinite(series).sum()
    return np.asarray(ndtri((rankdata(series, nan_policy="omit") - 0.5) / count))


def candidate_periods(steps: int) -> Array:
    """Return the periods that so many steps can distinguish: integers, and more where they are short."""
    longest = int(steps / CONFIG.cycles)
    if longest < CONFIG.shortest:
        return np.empty(0)
    whole = np.arange(CONFIG.shortest, longest + 1.0)
    # Two frequencies that differ by less than half a cycle over all steps can hardly be distinguished.
    between = 1.0 / np.arange(1.0 / longest, 1.0 / CONFIG.shortest, 0.5 / steps)
    far = np.abs(between - np.round(between)) > 0.25 * between**2 / steps
    return np.sort(np.concatenate([whole, between[far]]))


def log_p_values(series: Array, periods: Array) -> Array:
    """Return the log probability (p,) that harmonics gain so much if there is no such period.

    Of the F test of a regression on the last values and a constant, with and without the harmonics.

    Parameters
    ----------
    series : array of shape (n,)
    periods : array of shape (p,)
        In steps, at least the shortest.
    """
    log_p = np.zeros(len(periods))
    rows, y, basis = _autoregression(series)
    free = len(y) - basis.shape[1] - 2 * CONFIG.harmonics
    rest = float(y @ y)
    if free < 1 or not rest > 0:
        return log_p
    most = np.minimum(np.ceil(periods / 2.0) - 1.0, CONFIG.harmonics).astype(np.int64)
    for harmonics in range(1, CONFIG.harmonics + 1):
        some = np.flatnonzero(most == harmonics)
        for part in np.array_split(some, max(1, -(-len(some) // CONFIG.periods_at_once))):
            gain = np.minimum(_gain(rows, y, basis, periods[part], harmonics), rest)
            one, other = 2 * harmonics, len(y) - basis.shape[1] - 2 * harmonics
            ratio = (gain / one) / (np.maximum(rest - gain, 1e-12 * rest) / other)
            log_p[part] = f_distribution.logsf(ratio, one, other)
    return log_p


def _autoregression(series: Array) -> tuple[Index, Array, Array]:
    """Return steps (n,) with last values, residuals (n,) of a regression on these, and its basis.

    The basis (n, 1 + lags) is orthonormal.
    """
    lags = CONFIG.lags
    largest = np.nanmax(np.abs(series)) if np.isfinite(series).any() else 0.0
    scaled = series / largest if largest > 0 else np.full(len(series), np.nan)
    shifted = [scaled[lags - k : max(lags, len(series)) - k] for k in range(lags + 1)]
    index = np.flatnonzero(np.isfinite(np.array(shifted)).all(axis=0))
    if len(index) <= lags + 1:
        return index, np.empty(0), np.empty((0, 1 + lags))
    columns = np.column_stack([np.ones(len(index)), *(each[index] for each in shifted[1:])])
    inner = columns.T @ columns
    inner[np.diag_indices_from(inner)] *= 1.0 + CONFIG.ridge
    root = linalg.cholesky(inner, "the last values of a series").L
    basis = linalg.solve_lower(root, columns.T).T
    y = shifted[0][index]
    return index + lags, np.asarray(y - basis @ (basis.T @ y)), np.asarray(basis)


def _gain(rows: Index, y: Array, basis: Array, periods: Array, harmonics: int) -> Array:
    """Return by how much (p,) harmonics of each period lower the sum of squared residuals y."""
    angle = 2.0 * math.pi * np.arange(1, harmonics + 1) * rows[:, None] / periods[:, None, None]
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=2)
    waves -= np.matmul(basis, np.matmul(basis.T, waves))
    inner = np.matmul(waves.transpose(0, 2, 1), waves)
    number = np.arange(2 * harmonics)
    inner[:, number, number] += CONFIG.ridge * len(rows)
    _, white = linalg.whiten_each(inner, np.matmul(y, waves)[:, :, None])
    return np.asarray((white[:, :, 0] ** 2).sum(axis=1))


def _fundamental(periods: Array, log_p: Array, steps: int) -> int:
    """Return the number of the likeliest period, or of its third or half if that is nearly as likely."""
    best = first_argmax(-log_p)
    for part in (3.0, 2.0):
        shorter = periods[best] / part
        resolution = 0.5 * shorter**2 / steps
        near = np.abs(periods - shorter) <= resolution
        near &= log_p < min(log_p[best] + CONFIG.fundamental, math.log(CONFIG.accepted))
        if near.any():
            return first_argmax(np.where(near, -log_p, -np.inf))
    return best

"""Search readings for a season, such as a day or a year, by a test that is robust to weather.

The readings at all places are combined into one series, in which a period is searched. The series is
regressed on its own last values and on harmonics of the period. An F test gives the probability of such
an improvement by the harmonics in a series without the period, which is multiplied by the number of
periods that were tried. The test is applied to the values and to their ranks, and the smaller
probability counts.

Persistent weather looks periodic for a while. The last values in the regression account for it, while a
periodogram would show a period.
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
    """Return the steps from `first` to `last`, with `per_octave` of them in each doubling.

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
    """Constants of the search for a season.

    Attributes
    ----------
    lags : int
        The number of last values in the regression, enough for weather of two time scales and noise.
    harmonics : int
        The largest number of harmonics of a period; short periods have fewer.
    shortest : float
        The shortest period that is tried, in steps.
    cycles : float
        The smallest number of observed cycles of a period.
    accepted : float
        A period is accepted if its probability is below this.
    rejected : float
        An accepted period is rejected if its probability rises above this.
    better : float
        Another period replaces an accepted one if its probability is smaller by this factor.
    fundamental : float
        A half or a third of a period replaces it unless its log probability is larger by more than this,
        because a wave is also periodic with all multiples of its period.
    periods_at_once : int
        The number of periods that are tried together, which bounds memory.
    ridge : float
        Relative increase of a diagonal, against rounding.
    sweeps : int
        Sweeps of the fit of steps and places, which are enough for 1e-3 of a least squares fit.
    shortest_named : float
        The shortest period that a user may name. The times of readings do not resolve shorter ones.
    last_step : int
        The search ends after this step; from then on all steps have the same cost.
    first_octave, searches_per_octave : int
        The readings are first searched after `first_octave` steps, then this many times in each doubling
        of the number of steps.
    most_readings : int
        The search ends if there are more readings, which bounds the time of a replay.
    regular_share, irregularity : float
        Times are regular if this fraction of the gaps are multiples of the median gap, within
        `irregularity` times that gap.
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
    searches_per_octave: int = 4
    most_readings: int = 40_000
    regular_share: float = 0.9
    irregularity: float = 0.1

    @property
    def search_steps(self) -> tuple[int, ...]:
        """Return the steps after which the readings are searched."""
        return steps_in_octaves(self.first_octave, self.last_step, self.searches_per_octave)


CONFIG = SeasonConfig()


def check_season(season: object) -> None:
    """Raise a `ValueError` unless `season` is a period, "find" or None."""
    if isinstance(season, str):
        require(season == "find", "season", 'a positive number, "find" or None', season)
    elif season is not None:
        finite_number("season", season, low=CONFIG.shortest_named)


@dataclass(frozen=True)
class SeasonSearch:
    """The state of a search for a season.

    Attributes
    ----------
    period : float or None
        The accepted period, in the unit of time.
    steps : int
        Number of times with readings so far.
    latest : float
        The latest of these times.
    ended : bool
        Whether the search has ended.
    """

    period: float | None = None
    steps: int = 0
    latest: float = -math.inf
    ended: bool = False

    @property
    def is_due(self) -> bool:
        """Return whether the readings so far are to be searched before those of the next time."""
        return not self.ended and self.steps in CONFIG.search_steps

    def advance(self, t: float) -> SeasonSearch:
        """Return the search with `t` as the latest time with readings."""
        return replace(self, steps=self.steps + 1, latest=t)

    def search(self, times: Array, places: Index, values: Array) -> SeasonSearch:
        """Return the search with the period of the readings (N,) so far, which are sorted by time."""
        ended = self.steps > CONFIG.last_step or len(times) > CONFIG.most_readings
        return replace(self, period=self.period_of(times, places, values), ended=ended)

    def period_of(self, times: Array, places: Index, values: Array) -> float | None:
        """Return the period of readings in the unit of time; None if there is none."""
        grid = find_regular_steps(times)
        if grid is None:
            return None
        step, steps = grid
        accepted = None if self.period is None else self.period / step
        period = find_period(common_series(steps, places, values), accepted)
        return None if period is None else period * step


def find_regular_steps(times: Array) -> tuple[float, Index] | None:
    """Return the median gap between sorted times (N,), and the times as numbers of such steps.

    None if the times are irregular, or extend over too many steps.
    """
    distinct = np.unique(times)
    if len(distinct) < 2:
        return None
    with np.errstate(over="ignore"):
        gaps = np.diff(distinct)
        step = float(np.median(gaps))
        numbers = np.round((times - distinct[0]) / step)
        error = np.abs(gaps / step - np.round(gaps / step))
    regular = np.mean(error < CONFIG.irregularity) >= CONFIG.regular_share
    if not (math.isfinite(step) and regular and numbers[-1] <= 2 * CONFIG.last_step):
        return None
    return step, numbers.astype(np.int64)


def common_series(steps: Index, places: Index, values: Array) -> Array:
    """Return the common part of the readings of each step; NaN for a step without readings.

    It is the least squares fit of a sum of one term for each step and one for each place, with an
    additional reading of 0 at each place.

    Parameters
    ----------
    steps : integer array of shape (N,)
        Step numbers of the readings, from 0 on.
    places : integer array of shape (N,)
    values : array of shape (N,)

    Returns
    -------
    array of shape (max(steps) + 1,)
        The term of each step.
    """
    count, reads = np.bincount(steps), np.bincount(places) + 1.0
    y = values - values.mean()
    step_terms = np.zeros(len(count))
    for _ in range(CONFIG.sweeps):
        place_terms = np.bincount(places, y - step_terms[steps]) / reads
        step_terms = np.bincount(steps, y - place_terms[places]) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, step_terms, np.nan))


def find_period(series: Array, accepted: float | None = None) -> float | None:
    """Return the period of a series in steps; None if there is none.

    Parameters
    ----------
    series : array of shape (n,)
        One value for each step, NaN if missing.
    accepted : float, optional
        A period that was accepted earlier. It stays unless it is rejected or another is far likelier.
    """
    periods = candidate_periods(len(series))
    if len(periods) == 0:
        return None
    variants, log_trials = (series, normal_scores(series)), math.log(2 * len(periods))
    log_p = log_trials + np.minimum(*(log_p_values(variant, periods) for variant in variants))
    best = _fundamental(periods, log_p, len(series))
    if accepted is not None:
        same = np.array([accepted])
        old = log_trials + min(float(log_p_values(variant, same)[0]) for variant in variants)
        if old < math.log(CONFIG.rejected) and not log_p[best] < old + math.log(CONFIG.better):
            return accepted
    return float(periods[best]) if log_p[best] < math.log(CONFIG.accepted) else None


def normal_scores(series: Array) -> Array:
    """Return the normal scores of the ranks, in which extreme values cannot hide a period."""
    count = np.isfinite(series).sum()
    return np.asarray(ndtri((rankdata(series, nan_policy="omit") - 0.5) / count))


def candidate_periods(steps: int) -> Array:
    """Return the periods that a series of `steps` values can distinguish.

    They are all integers, and fractional periods where the resolution is finer.
    """
    longest = int(steps / CONFIG.cycles)
    if longest < CONFIG.shortest:
        return np.empty(0)
    integers = np.arange(CONFIG.shortest, longest + 1.0)
    # Two frequencies that differ by less than half a cycle over all steps can hardly be distinguished.
    fractional = 1.0 / np.arange(1.0 / longest, 1.0 / CONFIG.shortest, 0.5 / steps)
    distinct = np.abs(fractional - np.round(fractional)) > 0.25 * fractional**2 / steps
    return np.sort(np.concatenate([integers, fractional[distinct]]))


def log_p_values(series: Array, periods: Array) -> Array:
    """Return the log p-values (p,) of F tests for periods in a series.

    The tests compare regressions on the last values and a constant with and without the harmonics.

    Parameters
    ----------
    series : array of shape (n,)
    periods : array of shape (p,)
        Periods in steps, at least `SeasonConfig.shortest`.
    """
    log_p = np.zeros(len(periods))
    rows, y, basis = _autoregression(series)
    free = len(y) - basis.shape[1] - 2 * CONFIG.harmonics
    residual = float(y @ y)
    if free < 1 or not residual > 0:
        return log_p
    counts = np.minimum(np.ceil(periods / 2.0) - 1.0, CONFIG.harmonics).astype(np.int64)
    for harmonics in range(1, CONFIG.harmonics + 1):
        group = np.flatnonzero(counts == harmonics)
        for part in np.array_split(group, max(1, -(-len(group) // CONFIG.periods_at_once))):
            gain = np.minimum(_gain(rows, y, basis, periods[part], harmonics), residual)
            df1, df2 = 2 * harmonics, len(y) - basis.shape[1] - 2 * harmonics
            ratio = (gain / df1) / (np.maximum(residual - gain, 1e-12 * residual) / df2)
            log_p[part] = f_distribution.logsf(ratio, df1, df2)
    return log_p


def _autoregression(series: Array) -> tuple[Index, Array, Array]:
    """Regress a series on its last values, and return steps (n,), residuals (n,) and the basis.

    The steps are those at which all last values exist. The basis (n, 1 + lags) is orthonormal.
    """
    lags = CONFIG.lags
    largest = np.nanmax(np.abs(series)) if np.isfinite(series).any() else 0.0
    scaled = series / largest if largest > 0 else np.full(len(series), np.nan)
    shifted = [scaled[lags - k : max(lags, len(series)) - k] for k in range(lags + 1)]
    index = np.flatnonzero(np.isfinite(np.array(shifted)).all(axis=0))
    if len(index) <= lags + 1:
        return index, np.empty(0), np.empty((0, 1 + lags))
    columns = np.column_stack([np.ones(len(index)), *(lagged[index] for lagged in shifted[1:])])
    inner = columns.T @ columns
    inner[np.diag_indices_from(inner)] *= 1.0 + CONFIG.ridge
    root = linalg.cholesky(inner, "the last values of a series").L
    basis = linalg.solve_lower(root, columns.T).T
    y = shifted[0][index]
    return index + lags, np.asarray(y - basis @ (basis.T @ y)), np.asarray(basis)


def _gain(rows: Index, y: Array, basis: Array, periods: Array, harmonics: int) -> Array:
    """Return the reductions (p,) of the sum of squared residuals y by the harmonics of each period."""
    angle = 2.0 * math.pi * np.arange(1, harmonics + 1) * rows[:, None] / periods[:, None, None]
    waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=2)
    waves -= np.matmul(basis, np.matmul(basis.T, waves))
    inner = np.matmul(waves.transpose(0, 2, 1), waves)
    number = np.arange(2 * harmonics)
    inner[:, number, number] += CONFIG.ridge * len(rows)
    _, whitened = linalg.whiten_each(inner, np.matmul(y, waves)[:, :, None])
    return np.asarray((whitened[:, :, 0] ** 2).sum(axis=1))


def _fundamental(periods: Array, log_p: Array, steps: int) -> int:
    """Return the index of the likeliest period, or of its third or half if nearly as likely."""
    best = first_argmax(-log_p)
    for part in (3.0, 2.0):
        shorter = periods[best] / part
        resolution = 0.5 * shorter**2 / steps
        candidates = np.abs(periods - shorter) <= resolution
        candidates &= log_p < min(log_p[best] + CONFIG.fundamental, math.log(CONFIG.accepted))
        if candidates.any():
            return first_argmax(np.where(candidates, -log_p, -np.inf))
    return best

"""Estimate the noise variance of a table of readings of the same few places at many times.

It is for bandits that start with the history of a network. At each place the reward is modelled as a
rough (Ornstein-Uhlenbeck) or smooth (Matern-3/2) process around a mean. A Kalman filter then computes
the evidence of a noise variance from hundreds of times, while `noise.infer_noise` is cubic in the number
of readings. Rough processes only would explain nearly all noise of a smooth reward by quick changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, logsumexp

from tvbandits.data import median_time_step
from tvbandits.gp.noise import CONFIG as NOISE_CONFIG, NoiseEstimate, estimate_on_grid
from tvbandits.validation import SMALLEST_VARIANCE, Array


@dataclass(frozen=True)
class TableNoiseConfig:
    """Constants of the estimate; a triple (smallest, largest, count) defines a geometric grid.

    Attributes
    ----------
    fewest_times : int
        The smallest number of times for an estimate, and of differences for a bound.
    most_times, most_places : int
        The largest number of latest times, and of places, that an estimate uses.
    memories : triple
        Grid of the length scale of the process in time, in steps.
    sizes : triple
        Grid of the variance of the process, in variances of the readings of the place. With steps of a
        factor 4, half of a noise of a fourth of the variance was explained by a faster process. The
        variance is small if the readings are mostly noise.
    noises : triple
        Grid of the noise variance, in the mean variance of the readings, up to `bound_table_noise`.
    smooth_share : float
        Prior probability of smooth relative to rough processes. Correlated places count as if they were
        independent evidence; without this prior, smooth processes for daily ozone would take the changes
        from day to day for noise.
    most_differences : int
        The highest order of the differences from which the bound is computed.
    """

    fewest_times: int = 12
    most_times: int = 256
    most_places: int = 8
    memories: tuple[float, float, int] = (0.5, 300.0, 24)
    sizes: tuple[float, float, int] = (0.0625, 16.0, 17)
    noises: tuple[float, float, int] = (1e-6, 2.0, 32)
    smooth_share: float = 1e-3
    most_differences: int = 3


CONFIG = TableNoiseConfig()


def estimate_table_noise(table: Array, times: Array) -> NoiseEstimate | None:
    """Return the noise variance of the readings of a table; None if it is too short or constant.

    A priori all rough processes and sizes are equally likely, and so are all smooth ones. All places
    have the same process and the same noise variance, which is at most that of `bound_table_noise`.

    Parameters
    ----------
    table : array of shape (T, A)
        A row for each time and a column for each place; NaN for a missing reading.
    times : array of shape (T,)
        The times in rising order.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.gp.table_noise import estimate_table_noise
    >>> rng = np.random.default_rng(0)
    >>> walk = rng.standard_normal((200, 4)).cumsum(axis=0)
    >>> print(estimate_table_noise(walk + 2.0 * rng.standard_normal(walk.shape), np.arange(200.0)))
    3.7 (2.6 to 5.3), from 800 readings
    """
    rows = np.isfinite(table).any(axis=1)
    if np.count_nonzero(rows) < CONFIG.fewest_times:
        return None
    bound = bound_table_noise(table, times)
    table, times = table[rows][-CONFIG.most_times :], times[rows][-CONFIG.most_times :]
    reads = np.isfinite(table).sum(axis=0)
    places = np.argsort(-reads, kind="stable")[: np.count_nonzero(reads > 1)]
    if len(places) == 0:
        return None
    ranks = np.linspace(0, len(places) - 1, min(CONFIG.most_places, len(places)))
    places = places[ranks.round().astype(int)]
    readings = table[:, places]
    squares = np.nanvar(readings, axis=0)
    variance = float(np.mean(squares))
    if not variance > SMALLEST_VARIANCE:
        return None
    smallest, largest, count = CONFIG.noises
    largest = min(largest, max(bound / variance, 2.0 * smallest))
    noises = variance * np.geomspace(smallest, largest, count)
    sizes = np.maximum(squares, noises[0])[:, None] * np.geomspace(*CONFIG.sizes)
    evidence = table_evidence(readings - np.nanmean(readings, axis=0), times, sizes, noises)
    evidence[len(evidence) // 2 :] += math.log(CONFIG.smooth_share)
    ratio = noises / variance / NOISE_CONFIG.prior_share
    log_density = (
        logsumexp(evidence, axis=0) - 0.5 * (np.log(ratio) / NOISE_CONFIG.prior_spread) ** 2
    )
    density = np.exp(log_density - logsumexp(log_density))
    return estimate_on_grid(noises, density, int(np.isfinite(readings).sum()))


def mask_stuck_readings(table: Array) -> Array:
    """Return a table (T, A) of readings with those of stuck sensors replaced by NaN.

    A reading is taken for one of a stuck sensor if it equals the previous one at its place, and the
    value occurs nowhere else in the column. Counts and rounded readings return to earlier values.
    """
    table = table.copy()
    for column in range(table.shape[1]):
        rows = np.flatnonzero(np.isfinite(table[:, column]))
        begins = np.diff(table[rows, column], prepend=np.nan) != 0
        starts = table[rows[begins], column]
        _, number, counts = np.unique(starts, return_inverse=True, return_counts=True)
        once = (counts[number] == 1)[np.cumsum(begins) - 1]
        table[rows[once & ~begins], column] = np.nan
    return table


def table_evidence(deviations: Array, times: Array, sizes: Array, noises: Array) -> Array:
    """Return the log density (2 memories, n) of readings under noise variances (n,), up to a constant.

    It is computed by one Kalman filter for each process, place, size and noise variance. The first half
    of the processes are Ornstein-Uhlenbeck processes, the others have a Matern-3/2 kernel.

    Parameters
    ----------
    deviations : array of shape (T, P)
        Readings minus the mean of their place; NaN for a missing reading.
    times : array of shape (T,)
    sizes : array of shape (P, s)
        Variances of the process at each place, with equal prior probabilities.
    noises : array of shape (n,)
        Noise variances.
    """
    memories = np.geomspace(*CONFIG.memories)
    prior = sizes[:, :, None] + np.zeros((2 * len(memories), 1, 1, len(noises)))
    # The state is value and slope; the slope is scaled so that both have the same prior variance.
    value, slope, log_density = np.zeros((3, *prior.shape))
    variance, covariance, slope_variance = prior.copy(), np.zeros(prior.shape), prior.copy()
    all_steps = np.diff(times, prepend=times[0]) / median_time_step(times)
    for values, steps in zip(deviations, all_steps, strict=True):
        lags = steps / memories
        decay, zero = np.exp(-lags), np.zeros(len(lags))
        smooth = [[1.0 + lags, lags], [-lags, 1.0 - lags]]
        rough = [[decay, zero], [zero, zero]]
        (a, b), (c, d) = (
            [np.append(r, decay * s)[:, None, None, None] for r, s in zip(*rows, strict=True)]
            for rows in zip(rough, smooth, strict=True)
        )
        value, slope = a * value + b * slope, c * value + d * slope
        p, q, r = variance - prior, covariance, slope_variance - prior
        variance = a**2 * p + 2.0 * a * b * q + b**2 * r + prior
        covariance = a * c * p + (a * d + b * c) * q + b * d * r
        slope_variance = c**2 * p + 2.0 * c * d * q + d**2 * r + prior
        finite = np.isfinite(values)
        places = slice(None) if finite.all() else finite  # a view is faster than a copy
        total = variance[:, places] + noises
        innovation = values[finite, None, None] - value[:, places]
        log_density[:, places] -= 0.5 * (np.log(total) + innovation**2 / total)
        gain, slope_gain = variance[:, places] / total, covariance[:, places] / total
        value[:, places] += gain * innovation
        slope[:, places] += slope_gain * innovation
        slope_variance[:, places] -= slope_gain * covariance[:, places]
        covariance[:, places] *= 1.0 - gain
        variance[:, places] *= 1.0 - gain
    return np.asarray(logsumexp(log_density, axis=2).sum(axis=1))


def bound_table_noise(table: Array, times: Array) -> float:
    """Return an upper bound, within error, of the noise variance of a table; infinite if it is short.

    The variance of the k-th difference of successive readings of a place is comb(2 k, k) times the noise
    variance plus that of the differences of the reward [Ga]. The median over the times, which assumes
    chi-square variables, bounds the noise even if the reward changes for a part of the day only. The
    processes of `estimate_table_noise` are stationary and would take the light of a morning for noise.

    Parameters
    ----------
    table : array of shape (T, A)
        A row for each time and a column for each place; NaN for a missing reading.
    times : array of shape (T,)
        The times in rising order. Differences are computed between times that are one step apart.

    References
    ----------
    [Ga] T. Gasser, L. Sroka and C. Jennen-Steinmetz. Residual variance and residual pattern in nonlinear
        regression. Biometrika 1986.
    """
    smallest = CONFIG.noises[0] * float(np.nanvar(table))
    bounds = [math.inf]
    differences = np.diff(table, axis=0)
    if len(differences):
        differences[~np.isclose(np.diff(times), median_time_step(times), atol=0.0)] = np.nan
    for order in range(1, CONFIG.most_differences + 1):
        factor = math.comb(2 * order, order)
        squares = np.nansum(differences**2, axis=1) / factor
        # Readings may be constant for a while, such as light at night or counts of 0.
        rows = np.flatnonzero(squares > 0)
        if len(rows) < CONFIG.fewest_times:
            break
        counts = np.isfinite(differences[rows]).sum(axis=1)
        median = float(np.median(squares[rows] / chdtri(counts, 0.5)))
        # Overlapping differences are dependent, which lowers their effective number.
        independent = len(rows) * factor**2 / math.comb(4 * order, 2 * order)
        error = 2.0 * _error_of_median(float(counts.mean())) / math.sqrt(independent)
        bounds.append(max(median, smallest) * math.exp(error))
        differences = np.diff(differences, axis=0)
    return min(bounds)


def _error_of_median(freedom: float) -> float:
    """Return the relative standard error of the median of n chi-square variables, times sqrt(n).

    It is 1 / (2 m f(m)) with the density f(m) at the median m.
    """
    half = 0.5 * float(chdtri(freedom, 0.5))
    shape = 0.5 * freedom
    return 0.5 * math.exp(half - shape * math.log(half) + math.lgamma(shape))

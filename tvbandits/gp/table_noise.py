"""The noise variance of a table of readings: many times, read at the same few places.

It is for bandits that begin with a history of a network. A table goes in; out comes a `NoiseEstimate`.

At each place the reward is a process about a mean, rough (Ornstein-Uhlenbeck) or smooth (Matern-3/2), so
that a Kalman filter computes the evidence of a noise variance from hundreds of times, where
`noise.estimated_noise` is cubic in the number of readings. Rough processes alone take nearly all of the
noise of a smooth reward for quick changes.
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
    """The constants of the estimate.

    Attributes
    ----------
    fewest_times : int
        A shorter table has no estimate, and a difference that is known at fewer times no bound.
    most_times, most_places : int
        The estimate reads so many of the latest times, and of the places.
    memories : triple (smallest, largest, count)
        Of a geometric grid, as the next two: length scales of the process in time, in steps.
    sizes : triple (smallest, largest, count)
        Variances of the process, in variances of the readings of the place: a grid of factors of 4 took
        half of a noise of a fourth for a faster process. Where all is noise, the process is small.
    noises : triple (smallest, largest, count)
        Noise variances, in the mean variance of the readings, up to the `largest_noise`.
    smooth_share : float
        How likely smooth processes are a priori, beside rough ones. Places that vary together count too
        often as evidence: of daily ozone, smooth ones take what changes from day to day for noise.
    most_differences : int
        The bound follows from differences of orders up to this.
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


def noise_of_table(table: Array, times: Array) -> NoiseEstimate | None:
    """Return the noise variance of the readings of a table; None if it is too short or constant.

    All rough processes and all sizes are equally likely a priori, and so are all smooth ones; places
    share the process and the noise, which is at most the `largest_noise`.

    Parameters
    ----------
    table : array of shape (T, A)
        A row for each time, a column for each place, NaN where nothing was read.
    times : array of shape (T,)
        In order.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.gp.table_noise import noise_of_table
    >>> rng = np.random.default_rng(0)
    >>> walk = rng.standard_normal((200, 4)).cumsum(axis=0)
    >>> print(noise_of_table(walk + 2.0 * rng.standard_normal(walk.shape), np.arange(200.0)))
    3.7 (2.6 to 5.3), from 800 readings
    """
    rows = np.isfinite(table).any(axis=1)
    if np.count_nonzero(rows) < CONFIG.fewest_times:
        return None
    bound = largest_noise(table, times)
    table, times = table[rows][-CONFIG.most_times :], times[rows][-CONFIG.most_times :]
    reads = np.isfinite(table).sum(axis=0)
    places = np.argsort(-reads, kind="stable")[: np.count_nonzero(reads > 1)]
    if len(places) == 0:
        return None
    spread = np.linspace(0, len(places) - 1, min(CONFIG.most_places, len(places)))
    places = places[spread.round().astype(int)]
    part = table[:, places]
    squares = np.nanvar(part, axis=0)
    unit = float(np.mean(squares))
    if not unit > SMALLEST_VARIANCE:
        return None
    smallest, largest, count = CONFIG.noises
    noises = unit * np.geomspace(smallest, min(largest, max(bound / unit, 2.0 * smallest)), count)
    sizes = np.maximum(squares, noises[0])[:, None] * np.geomspace(*CONFIG.sizes)
    evidence = table_evidence(part - np.nanmean(part, axis=0), times, sizes, noises)
    evidence[len(evidence) // 2 :] += math.log(CONFIG.smooth_share)
    share = noises / unit / NOISE_CONFIG.prior_share
    log_density = (
        logsumexp(evidence, axis=0) - 0.5 * (np.log(share) / NOISE_CONFIG.prior_spread) ** 2
    )
    density = np.exp(log_density - logsumexp(log_density))
    return estimate_on_grid(noises, density, int(np.isfinite(part).sum()))


def without_repeats(table: Array) -> Array:
    """Return a table (T, A) of readings less those of stuck sensors, which are NaN then.

    These are equal to the one before them at their place, and no other part of its column has that
    value. Counts, and what is rounded, come back to a value.
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


def table_evidence(above: Array, times: Array, sizes: Array, noises: Array) -> Array:
    """Return the log density (2 memories, n) of readings under noise variances (n,), up to a constant.

    By one Kalman filter for each process, place, size and noise. The first half of the processes are
    Ornstein-Uhlenbeck, which are rough, the others of a Matern-3/2 kernel, which have slopes.

    Parameters
    ----------
    above : array of shape (T, P)
        Readings less the mean of their place, NaN where nothing was read.
    times : array of shape (T,)
    sizes : array of shape (P, s)
        Variances of the process at each place, equally likely.
    noises : array of shape (n,)
    """
    memories = np.geomspace(*CONFIG.memories)
    prior = sizes[:, :, None] + np.zeros((2 * len(memories), 1, 1, len(noises)))
    # Value and slope; a slope is in such a unit that its prior variance is that of the value.
    value, slope, log_density = np.zeros((3, *prior.shape))
    variance, both, variance_of_slope = prior.copy(), np.zeros(prior.shape), prior.copy()
    for values, steps in zip(
        above, np.diff(times, prepend=times[0]) / median_time_step(times), strict=True
    ):
        lags = steps / memories
        decay, zero = np.exp(-lags), np.zeros(len(lags))
        moves = [[1.0 + lags, lags], [-lags, 1.0 - lags]]
        rough = [[decay, zero], [zero, zero]]
        (a, b), (c, d) = (
            [np.append(r, decay * m)[:, None, None, None] for r, m in zip(*rows, strict=True)]
            for rows in zip(rough, moves, strict=True)
        )
        value, slope = a * value + b * slope, c * value + d * slope
        p, q, r = variance - prior, both, variance_of_slope - prior
        variance = a**2 * p + 2.0 * a * b * q + b**2 * r + prior
        both = a * c * p + (a * d + b * c) * q + b * d * r
        variance_of_slope = c**2 * p + 2.0 * c * d * q + d**2 * r + prior
        read = np.isfinite(values)
        at = slice(None) if read.all() else read  # a view is faster
        total = variance[:, at] + noises
        innovation = values[read, None, None] - value[:, at]
        log_density[:, at] -= 0.5 * (np.log(total) + innovation**2 / total)
        gain, gain_of_slope = variance[:, at] / total, both[:, at] / total
        value[:, at] += gain * innovation
        slope[:, at] += gain_of_slope * innovation
        variance_of_slope[:, at] -= gain_of_slope * both[:, at]
        both[:, at] *= 1.0 - gain
        variance[:, at] *= 1.0 - gain
    return np.asarray(logsumexp(log_density, axis=2).sum(axis=1))


def largest_noise(table: Array, times: Array) -> float:
    """Return a variance that the noise of a table's readings hardly exceeds; infinite if it is short.

    The k-th difference of successive readings of a place has comb(2 k, k) times the noise variance, and
    what the reward adds [Ga]. So has the median over the times, for chi-square variables, if the reward
    changes for a part of the day only. The processes of `noise_of_table` change by as much at all times:
    they take a morning of light for noise.

    Parameters
    ----------
    table : array of shape (T, A)
        A row for each time, a column for each place, NaN where nothing was read.
    times : array of shape (T,)
        In order. Where they are not a step apart, there is no difference.

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
        share = math.comb(2 * order, order)
        squares = np.nansum(differences**2, axis=1) / share
        rows = np.flatnonzero(squares > 0)  # at night, and where counts are 0, nothing changes
        if len(rows) < CONFIG.fewest_times:
            break
        counts = np.isfinite(differences[rows]).sum(axis=1)
        median = float(np.median(squares[rows] / chdtri(counts, 0.5)))
        # Differences share readings, so that fewer of them are independent.
        independent = len(rows) * share**2 / math.comb(4 * order, 2 * order)
        error = 2.0 * _error_of_median(float(counts.mean())) / math.sqrt(independent)
        bounds.append(max(median, smallest) * math.exp(error))
        differences = np.diff(differences, axis=0)
    return min(bounds)


def _error_of_median(freedom: float) -> float:
    """Return the relative standard error of a median of chi-square variables, times sqrt(n).

    It is 1 / (2 m f(m)) with the density f at the median m.
    """
    half = 0.5 * float(chdtri(freedom, 0.5))
    shape = 0.5 * freedom
    return 0.5 * math.exp(half - shape * math.log(half) + math.lgamma(shape))

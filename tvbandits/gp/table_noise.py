"""The noise variance of a table of readings: many times, read at the same few places.

It is for bandits that begin with a history of a network. A table goes in; out comes a `NoiseEstimate`.

At each place the reward is an Ornstein-Uhlenbeck process about a mean, so that a Kalman filter computes
the evidence of a noise variance from hundreds of times, where `noise.estimated_noise` is cubic in the
number of readings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, logsumexp

from tvbandits.data import step_of
from tvbandits.gp.noise import CONFIG as NOISE_CONFIG, NoiseEstimate
from tvbandits.validation import SMALLEST_VARIANCE, Array, usable_variances


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
        Of a geometric grid, as the next two: times after which the correlation of the process has
        decayed to 1/e, in steps.
    sizes : triple (smallest, largest, count)
        Variances of the process, in variances of the readings of the place: a grid of factors of 4 took
        half of a noise of a fourth for a faster process.
    noises : triple (smallest, largest, count)
        Noise variances, in the mean variance of the readings.
    most_differences : int
        The bound follows from differences of orders up to this.
    """

    fewest_times: int = 12
    most_times: int = 256
    most_places: int = 8
    memories: tuple[float, float, int] = (0.5, 300.0, 24)
    sizes: tuple[float, float, int] = (0.25, 16.0, 13)
    noises: tuple[float, float, int] = (1e-6, 1.0, 31)
    most_differences: int = 3


CONFIG = TableNoiseConfig()


def noise_of_table(table: Array, times: Array) -> NoiseEstimate | None:
    """Return the noise variance of the readings of a table; None if it is too short or constant.

    All memories and sizes of the process are equally likely a priori; places share the memory and the
    noise, which is at most the `largest_noise`.

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
    4 (2.6 to 5), from 800 readings
    """
    rows = np.isfinite(table).any(axis=1)
    reads = np.isfinite(table).sum(axis=0)
    if np.count_nonzero(rows) < CONFIG.fewest_times:
        return None
    spread = np.linspace(0, len(reads) - 1, min(CONFIG.most_places, len(reads)))
    places = np.argsort(-reads, kind="stable")[spread.round().astype(int)]
    places = places[reads[places] > 1]
    part = table[rows][-CONFIG.most_times :, places]
    squares = np.nanvar(part, axis=0)
    unit = float(np.mean(squares))
    if not unit > SMALLEST_VARIANCE:
        return None
    noises = unit * np.geomspace(*CONFIG.noises)
    sizes = np.maximum(squares, noises[0])[:, None] * np.geomspace(*CONFIG.sizes)
    above = part - np.nanmean(part, axis=0)
    evidence = table_evidence(above, times[rows][-CONFIG.most_times :], sizes, noises)
    share = noises / unit / NOISE_CONFIG.prior_share
    log_density = (
        logsumexp(evidence, axis=0) - 0.5 * (np.log(share) / NOISE_CONFIG.prior_spread) ** 2
    )
    density = np.exp(log_density - logsumexp(log_density))
    cumulative = np.cumsum(density) - density / 2
    quantiles = np.exp(np.interp(NOISE_CONFIG.quantiles, cumulative, np.log(noises)))
    low, high, mean = usable_variances(np.append(quantiles, density @ noises)).tolist()
    estimate = NoiseEstimate(mean, low, high, int(np.isfinite(part).sum()))
    return estimate.at_most(largest_noise(table, times))


def table_evidence(above: Array, times: Array, sizes: Array, noises: Array) -> Array:
    """Return the log density (memories, n) of readings under noise variances (n,), up to a constant.

    By one Kalman filter for each memory, place, size and noise.

    Parameters
    ----------
    above : array of shape (T, P)
        Readings less the mean of their place, NaN where nothing was read.
    times : array of shape (T,)
    sizes : array of shape (P, s)
        Variances of the process at each place, equally likely.
    noises : array of shape (n,)
    """
    prior = sizes[:, :, None]
    memories = np.geomspace(*CONFIG.memories)[:, None, None, None]
    mean = np.zeros((len(memories), *sizes.shape, len(noises)))
    variance, log_density = prior + mean, mean.copy()
    for values, steps in zip(above, np.diff(times, prepend=times[0]) / step_of(times), strict=True):
        decay = np.exp(-steps / memories)
        mean, variance = decay * mean, decay**2 * (variance - prior) + prior
        read = np.isfinite(values)
        total = variance[:, read] + noises
        innovation = values[read, None, None] - mean[:, read]
        log_density[:, read] -= 0.5 * (np.log(total) + innovation**2 / total)
        gain = variance[:, read] / total
        mean[:, read] += gain * innovation
        variance[:, read] *= 1.0 - gain
    return np.asarray(logsumexp(log_density, axis=2).sum(axis=1))


def largest_noise(table: Array, times: Array) -> float:
    """Return a variance that the noise of a table's readings hardly exceeds; infinite if it is short.

    The k-th difference of successive readings of a place has comb(2 k, k) times the noise variance, and
    what the reward adds [Ga]. So has the median over the times, for chi-square variables, if the reward
    changes for a part of the day only. The process of `noise_of_table` has
    one size of changes for all times: it takes a morning of light for noise.

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
        differences[~np.isclose(np.diff(times), step_of(times))] = np.nan
    for order in range(1, CONFIG.most_differences + 1):
        counts = np.isfinite(differences).sum(axis=1)
        rows = np.flatnonzero(counts)
        if len(rows) < CONFIG.fewest_times:
            break
        squares = np.nansum(differences[rows] ** 2, axis=1) / math.comb(2 * order, order)
        median = float(np.median(squares / chdtri(counts[rows], 0.5)))
        # Two standard errors of a median of squares.
        error = 2.5 * math.sqrt(2.0 / counts.sum())
        bounds.append(max(median, smallest) * (1.0 + error))
        differences = np.diff(differences, axis=0)
    return min(bounds)

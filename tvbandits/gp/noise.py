"""The noise variance of readings, where it is not stated: its posterior, given the readings.

It is for bandits whose noise is unknown. Readings go in; out comes a `NoiseEstimate`, a mean and an
interval of the noise variance.

Readings y of a Gaussian process of unknown size and unknown forgetting have the covariance

    a ((1 - n) k(x, x') exp(-|t - t'| / tau) + n 1[x = x', t = t'] + m) + s I,

with m for an unknown mean. The posterior of the noise variance s is a sum over grids of a, tau, n and s.
Readings of one place and time differ by their noise alone: these follow the chi-square law. Without tau,
a drift of the reward would be taken for noise. So would the nugget, the share n of the variance that is
new at every place and time; readings with a variance of their own, which takes the place of s,
distinguish the two, and n is 0 where there are none. Such readings, which come from an expert, have a
mean of their own: an instrument that is off by a constant has no more noise for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tvbandits.data import Dataset, append_times, median_time_step
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.linalg import cholesky, eigenpairs, log_determinant, solve_lower
from tvbandits.validation import SMALLEST_VARIANCE, Array, Index, clip_variances


@dataclass(frozen=True)
class NoiseConfig:
    """The constants of the estimate, most of them its grids.

    Attributes
    ----------
    prior_share, prior_spread : float
        The share s / (a k(x, x)) is log-normal a priori: its median, and the deviation of its logarithm,
        which allows for a factor of 50 to either side.
    memories : tuple of float
        Values of tau, in steps, which are equally likely a priori.
    nuggets : tuple of float
        Values of n, which are equally likely a priori.
    smallest_size, largest_size, sizes : float, float and int
        Values of a k(x, x), in variances of the readings, which are equally likely: a bandit that plays
        near a peak sees little of the whole.
    mean_variance : float
        m, in units of k(x, x): next to flat.
    rounding : float
        A deviation of this share of a value is far above its rounding.
    smallest_noise, largest_noise, noises : float, float and int
        Values of s, in variances of the readings.
    quantiles : pair of float
        Of the posterior, the ends of the interval.
    last : int
        The noise is estimated at every doubling of the number of rewards, up to this.
    most_readings : int
        Most readings of an estimate, as its cost is cubic; half of them may have their own variance.
    most_places : int
        Where there are more readings than that, so many places of a time at most, the same ones of every
        time: three times of forty places say nothing about noise and drift, sixteen of eight do.
    """

    prior_share: float = 0.05
    prior_spread: float = 2.0
    memories: tuple[float, ...] = (math.inf, 100.0, 30.0, 10.0, 3.0)
    nuggets: tuple[float, ...] = (0.0, 0.1, 0.3)
    smallest_size: float = 0.5
    largest_size: float = 64.0
    sizes: int = 8
    mean_variance: float = 100.0
    rounding: float = 5e-7
    smallest_noise: float = 1e-6
    largest_noise: float = 30.0
    noises: int = 201
    quantiles: tuple[float, float] = (0.025, 0.975)
    last: int = 256
    most_readings: int = 128
    most_places: int = 8

    @property
    def size_grid(self) -> Array:
        """Return the values of a k(x, x), in variances of the readings."""
        return np.geomspace(self.smallest_size, self.largest_size, self.sizes)


CONFIG = NoiseConfig()


@dataclass(frozen=True)
class NoiseEstimate:
    """A noise variance that was learned, or one that is stated: then all three are the same.

    Attributes
    ----------
    variance, low, high : float
        The mean of its posterior, which is the variance of the next reading, and the ends of the central
        95% (unit of reward squared). A median is too small early on: a bandit that takes the noise for
        too small trusts its first readings, and stays where they were best.
    readings : int
        Number of readings it was learned from.
    """

    variance: float
    low: float
    high: float
    readings: int = 0

    @property
    def is_known(self) -> bool:
        """Whether it is stated, or was learned from at least one reading."""
        return self.readings > 0 or self.low == self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.variance:g}"
        interval = f"{self.variance:.2g} ({self.low:.2g} to {self.high:.2g})"
        if not self.readings:
            return f"{interval}, a guess: it was learned from no reading so far"
        return f"{interval}, from {self.readings} reading{'s' if self.readings != 1 else ''}"


def due(before: int, now: int) -> bool:
    """Return whether the number of rewards has doubled since the last estimate."""
    return before < CONFIG.last and now.bit_length() > before.bit_length()


def estimated_noise(
    kernel: Any, observations: Dataset, mean: float | None = None, rival: Any | None = None
) -> NoiseEstimate:
    """Return the noise variance of the observations that have none of their own (NaN).

    Parameters
    ----------
    kernel : scikit-learn kernel
        Over points, or over points and times: then time is constant in it, since tau stands for it.
    observations : Dataset
    mean : float, optional
        The prior mean, with a kernel in the unit of the values squared (a = 1); both unknown by default.
    rival : scikit-learn kernel, optional
        Over points, as likely a priori, where the kernel is only a first guess: under one that is too
        smooth, differences between neighbours would count as noise. Where many places are read at a
        time, independent ones are as likely, too: each may have a level of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Dataset
    >>> from tvbandits.gp.noise import estimated_noise
    >>> y = np.random.default_rng(0).normal(5.0, 0.5, 100)
    >>> observations = Dataset.from_columns(np.zeros((100, 1)), np.ones(100), y, np.full(100, np.nan))
    >>> print(estimated_noise(RBF(1.0), observations))
    0.24 (0.18 to 0.32), from 100 readings
    """
    own, unknown = readings_for_noise(observations)
    rows, k = np.concatenate([own, unknown]), len(own)
    X, t, y = observations.X[rows], observations.t[rows], observations.y[rows]
    variance = observations.variance[own]
    kernels = [kernel] if rival is None else [kernel, rival]
    matrices = [np.asarray(each(inputs(each, X, np.zeros(len(X))))) for each in kernels]
    size, *_ = prior_variances = [float(np.mean(np.diagonal(K))) for K in matrices]
    values = y - (y.mean() if mean is None else mean)
    unit = size if mean is not None else _squared_unit(y, values)
    sizes = unit * CONFIG.size_grid if mean is None else np.array([size])
    largest = CONFIG.largest_noise * max(unit, float(np.mean(values**2)))
    noise = np.geomspace(CONFIG.smallest_noise * unit, largest, CONFIG.noises)
    off = np.log(noise / sizes[:, None] / CONFIG.prior_share) / CONFIG.prior_spread
    lags = np.abs(t[:, None] - t) / median_time_step(t)
    same_point = (X[:, None] == X).all(axis=2)
    same = (lags == 0) & same_point
    has_variance = np.arange(len(rows)) < k
    means = CONFIG.mean_variance * np.outer(has_variance, has_variance)
    unknown_mean = CONFIG.mean_variance if mean is None else 0.0
    means += unknown_mean * np.outer(~has_variance, ~has_variance)
    correlations = [K / own for K, own in zip(matrices, prior_variances, strict=True)]
    if rival is not None and _counts(t)[0].max() >= CONFIG.most_places:
        correlations.append(same_point.astype(np.float64))
    nuggets = CONFIG.nuggets if k else CONFIG.nuggets[:1]
    parts = []
    for over_points, memory, nugget in product(correlations, CONFIG.memories, nuggets):
        correlation = (1.0 - nugget) * over_points * np.exp(-lags / memory) + nugget * same + means
        evidence, eigenvalues, squares = _spectra(correlation, values, sizes, variance)
        spread = np.maximum(eigenvalues, 0.0)[:, None] + noise[:, None]
        fit = (squares[:, None] / spread + np.log(spread)).sum(axis=2)
        parts.append(evidence[:, None] - 0.5 * fit - 0.5 * off**2)
    density = np.exp(logsumexp(parts, axis=(0, 1)) - logsumexp(parts))
    return estimate_on_grid(noise, density, len(unknown))


def estimate_on_grid(noise: Array, density: Array, readings: int) -> NoiseEstimate:
    """Return the estimate from the posterior shares (K,) of a rising grid of noise variances (K,)."""
    cumulative = np.cumsum(density) - density / 2
    quantiles = np.exp(np.interp(CONFIG.quantiles, cumulative, np.log(noise)))
    low, high, mean = clip_variances(np.append(quantiles, density @ noise)).tolist()
    return NoiseEstimate(mean, low, high, readings)


def _squared_unit(y: Array, values: Array) -> float:
    """Return the mean square of readings y less their mean.

    Readings that are all equal have no information about their unit: it is 1 then, unless deviations of
    that size would be lost in the rounding of the readings.
    """
    if np.ptp(y) > 0:
        square = float(np.mean(values**2))
    else:
        square = max(1.0, (CONFIG.rounding * float(y[0])) ** 2)
    return max(square, 1e6 * SMALLEST_VARIANCE)


def first_guess(unit: float) -> NoiseEstimate:
    """Return the estimate before any reading, of values with the prior variance `unit`."""
    share, spread = CONFIG.prior_share, CONFIG.prior_spread
    low, high = (unit * share * math.exp(sign * 1.96 * spread) for sign in (-1.0, 1.0))
    return NoiseEstimate(unit * share, low, high)


def noise_of_others(variance: Array) -> NoiseEstimate:
    """Return the estimate where all readings have a variance (n,) of their own.

    The next one is taken to be as noisy as they are; nothing was learned of readings without a variance.
    """
    quantiles = np.quantile(variance, CONFIG.quantiles)
    low, high, mean = clip_variances(np.append(quantiles, np.mean(variance))).tolist()
    return NoiseEstimate(mean, low, high)


def _spectra(
    correlation: Array, values: Array, sizes: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """Return the evidence of values (k,) with variances, and the spectra of the others given these.

    Parameters
    ----------
    correlation : array of shape (n, n)
    values : array of shape (n,)
        The first k of them have noise variances of their own.
    sizes : array of shape (s,)
        Factors on the correlation.
    variance : array of shape (k,)

    Returns
    -------
    evidence : array of shape (s,)
        Log density of the first k, up to a constant.
    eigenvalues, squares : arrays of shape (s, n - k), (1 or s, n - k)
        Of the covariance of the others given these, and of their errors, in its eigenvectors.
    """
    k = len(variance)
    if k == 0:
        eigenvalues, vectors = eigenpairs(correlation)
        return np.zeros(len(sizes)), np.outer(sizes, eigenvalues), (vectors.T @ values)[None] ** 2
    results = []
    for size in sizes:
        covariance = size * correlation
        factor = cholesky(covariance[:k, :k] + np.diag(variance), "readings of known noise").L
        half = solve_lower(factor, np.column_stack([covariance[:k, k:], values[:k]]))
        projection, white = half[:, :-1], half[:, -1]
        eigenvalues, vectors = eigenpairs(covariance[k:, k:] - projection.T @ projection)
        squares = ((values[k:] - white @ projection) @ vectors) ** 2
        results.append((-0.5 * (white @ white + log_determinant(factor)), eigenvalues, squares))
    evidence, spectra, errors = (np.array(each) for each in zip(*results, strict=True))
    return evidence, spectra, errors


def readings_for_noise(observations: Dataset) -> tuple[Index, Index]:
    """Return the rows of readings with a variance of their own that are used, and those of others."""
    unknown = np.isnan(observations.variance)
    own = _latest(observations, np.flatnonzero(~unknown), CONFIG.most_readings // 2)
    return own, _latest(observations, np.flatnonzero(unknown), CONFIG.most_readings - len(own))


def _latest(observations: Dataset, rows: Index, most: int) -> Index:
    """Return at most so many of the rows: repeats of a place and time for up to half, and the latest.

    Repeats of one place and time are most informative.
    """
    if len(rows) <= most:
        return rows
    rows = rows[_of_few_places(observations.X[rows], observations.t[rows])]
    counts, which = _counts(append_times(observations.X, observations.t))
    rows = rows[np.argsort(observations.t[rows], kind="stable")]
    repeats = np.flatnonzero(counts[which][rows] > 1)[-most // 2 :]
    others = np.setdiff1d(np.arange(len(rows)), repeats)
    return np.asarray(rows[np.concatenate([others[len(repeats) - most :], repeats])])


def _of_few_places(X: Array, t: Array) -> NDArray[np.bool_]:
    """Return which readings (n,) to use of the points X (n, d) at times t (n,).

    Of a time with many readings, those of `most_places` places, which are read most often or else lie
    far apart in the order of their coordinates.
    """
    counts, at = _counts(t)
    crowded = counts[at] > CONFIG.most_places
    if not crowded.any():
        return ~crowded
    reads, place = _counts(X)
    spread = np.linspace(0, len(reads) - 1, min(CONFIG.most_places, len(reads)))
    few = np.argsort(-reads, kind="stable")[spread.round().astype(int)]
    return ~crowded | np.isin(place, few)


def _counts(values: Array) -> tuple[Index, Index]:
    """Return how often each distinct value (or row) occurs, and the number of each one's."""
    _, number, counts = np.unique(values, axis=0, return_inverse=True, return_counts=True)
    return counts, number.ravel()

"""Estimate an unknown noise variance: its posterior given the readings.

`infer_noise` takes readings and returns a `NoiseEstimate`: mean and interval of the noise variance.

Readings y of a Gaussian process of unknown amplitude a and unknown time scale tau have the covariance

    a ((1 - n) k(x, x') exp(-|t - t'| / tau) + n 1[x = x', t = t'] + m) + s I,

where m accounts for an unknown mean. The posterior of the noise variance s is computed on grids of a,
tau, n and s. Repeated readings of one place and time differ by their noise only, so that their spread
has a chi-square distribution. Without tau, drift of the reward would be taken for noise, and so would
the nugget: the fraction n of the variance that is independent at each place and time. Readings with a
known noise variance, which replaces s for them, distinguish the nugget from noise; without such readings
n is 0. They come from an expert and have a mean of their own, so that the constant error of an
instrument is not taken for noise.
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
    """Constants of the estimate, most of which define its grids.

    Attributes
    ----------
    prior_share, prior_spread : float
        Median of the log-normal prior of the ratio s / (a k(x, x)), and deviation of its logarithm,
        which allows for a factor of 50 to either side.
    memories : tuple of float
        Values of tau in steps, with equal prior probabilities.
    nuggets : tuple of float
        Values of n, with equal prior probabilities.
    smallest_size, largest_size, sizes : float, float and int
        Grid of a k(x, x) in variances of the readings, with equal prior probabilities. It extends above
        that of the readings, since a bandit that plays near a peak sees little of the range.
    mean_variance : float
        The variance m of the mean in units of k(x, x), which is large enough for a nearly flat prior.
    rounding : float
        A deviation of this fraction of a value is far above the rounding of the value.
    smallest_noise, largest_noise, noises : float, float and int
        Grid of s in variances of the readings.
    quantiles : pair of float
        Posterior quantiles at the ends of the interval.
    last : int
        The noise is estimated at each doubling of the number of rewards, up to this number.
    most_readings : int
        The largest number of readings in an estimate, whose cost is cubic. Up to half of them may have a
        known noise variance.
    most_places : int
        The largest number of places of one time if there are more readings than that; the same places
        for all times. Three times of forty places say nothing about noise and drift, sixteen times of
        eight places do.
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
    """A noise variance with its interval; if it is stated by the user, all three values are equal.

    Attributes
    ----------
    variance, low, high : float
        Posterior mean of the noise variance and the ends of its central 95% interval, in the unit of
        the reward squared. The mean is also the noise variance of the next reading. The median is too
        small early on: a bandit that underestimates the noise trusts its first readings, and stays where
        they were best.
    readings : int
        The number of readings from which it was estimated.
    """

    variance: float
    low: float
    high: float
    readings: int = 0

    @property
    def is_known(self) -> bool:
        """Return whether it is stated, or was estimated from at least one reading."""
        return self.readings > 0 or self.low == self.high

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.variance:g}"
        interval = f"{self.variance:.2g} ({self.low:.2g} to {self.high:.2g})"
        if not self.readings:
            return f"{interval}, a guess before the first reading"
        return f"{interval}, from {self.readings} reading{'s' if self.readings != 1 else ''}"


def is_noise_due(before: int, now: int) -> bool:
    """Return whether an estimate is due when the number of rewards rises from `before` to `now`.

    It is due at each power of two, up to `NoiseConfig.last`.
    """
    return before < CONFIG.last and now.bit_length() > before.bit_length()


def infer_noise(
    kernel: Any, observations: Dataset, mean: float | None = None, rival: Any | None = None
) -> NoiseEstimate:
    """Return the estimated noise variance of the observations whose noise variance is NaN.

    Parameters
    ----------
    kernel : scikit-learn kernel
        A kernel over points, or over points and times; the latter is evaluated at a constant time,
        because tau describes the change in time.
    observations : Dataset
    mean : float, optional
        The prior mean, for a kernel in the unit of the values squared (a = 1). By default both mean and
        a are unknown.
    rival : scikit-learn kernel, optional
        Another kernel over points with the same prior probability, if `kernel` is only a first guess.
        Under a kernel that is too smooth, differences between neighbours would count as noise. If many
        places are read at one time, independent places are a further hypothesis of the same probability,
        since each may have a level of its own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Dataset
    >>> from tvbandits.gp.noise import infer_noise
    >>> y = np.random.default_rng(0).normal(5.0, 0.5, 100)
    >>> observations = Dataset.from_columns(np.zeros((100, 1)), np.ones(100), y, np.full(100, np.nan))
    >>> print(infer_noise(RBF(1.0), observations))
    0.24 (0.18 to 0.32), from 100 readings
    """
    with_variance, unknown = select_readings(observations)
    rows, k = np.concatenate([with_variance, unknown]), len(with_variance)
    X, t, y = observations.X[rows], observations.t[rows], observations.y[rows]
    variance = observations.variance[with_variance]
    kernels = [kernel] if rival is None else [kernel, rival]
    matrices = [np.asarray(k_(inputs(k_, X, np.zeros(len(X))))) for k_ in kernels]
    size, *_ = prior_variances = [float(np.mean(np.diagonal(K))) for K in matrices]
    values = y - (y.mean() if mean is None else mean)
    reading_variance = size if mean is not None else _reading_variance(y, values)
    sizes = reading_variance * CONFIG.size_grid if mean is None else np.array([size])
    largest = CONFIG.largest_noise * max(reading_variance, float(np.mean(values**2)))
    noise = np.geomspace(CONFIG.smallest_noise * reading_variance, largest, CONFIG.noises)
    log_ratio = np.log(noise / sizes[:, None] / CONFIG.prior_share) / CONFIG.prior_spread
    lags = np.abs(t[:, None] - t) / median_time_step(t)
    same_point = (X[:, None] == X).all(axis=2)
    same_input = (lags == 0) & same_point
    has_variance = np.arange(len(rows)) < k
    means = CONFIG.mean_variance * np.outer(has_variance, has_variance)
    unknown_mean = CONFIG.mean_variance if mean is None else 0.0
    means += unknown_mean * np.outer(~has_variance, ~has_variance)
    correlations = [K / prior for K, prior in zip(matrices, prior_variances, strict=True)]
    if rival is not None and _count_values(t)[0].max() >= CONFIG.most_places:
        correlations.append(same_point.astype(np.float64))
    nuggets = CONFIG.nuggets if k else CONFIG.nuggets[:1]
    log_densities = []
    for over_points, memory, nugget in product(correlations, CONFIG.memories, nuggets):
        correlation = (1.0 - nugget) * over_points * np.exp(-lags / memory)
        correlation = correlation + nugget * same_input + means
        evidence, eigenvalues, squares = _spectra(correlation, values, sizes, variance)
        total = np.maximum(eigenvalues, 0.0)[:, None] + noise[:, None]
        misfit = (squares[:, None] / total + np.log(total)).sum(axis=2)
        log_densities.append(evidence[:, None] - 0.5 * misfit - 0.5 * log_ratio**2)
    density = np.exp(logsumexp(log_densities, axis=(0, 1)) - logsumexp(log_densities))
    return estimate_on_grid(noise, density, len(unknown))


def estimate_on_grid(noise: Array, density: Array, readings: int) -> NoiseEstimate:
    """Return the estimate for probabilities (K,) of an ascending grid of noise variances (K,)."""
    cumulative = np.cumsum(density) - density / 2
    quantiles = np.exp(np.interp(CONFIG.quantiles, cumulative, np.log(noise)))
    low, high, mean = clip_variances(np.append(quantiles, density @ noise)).tolist()
    return NoiseEstimate(mean, low, high, readings)


def _reading_variance(y: Array, values: Array) -> float:
    """Return the mean square of `values`, which are the readings y minus their mean.

    Equal readings say nothing about their scale, which is then taken to be 1, or more if deviations of 1
    would be lost in the rounding of the readings.
    """
    if np.ptp(y) > 0:
        square = float(np.mean(values**2))
    else:
        square = max(1.0, (CONFIG.rounding * float(y[0])) ** 2)
    return max(square, 1e6 * SMALLEST_VARIANCE)


def guess_noise(prior_variance: float) -> NoiseEstimate:
    """Return the estimate before any reading, for values with this prior variance."""
    median, spread = prior_variance * CONFIG.prior_share, CONFIG.prior_spread
    low, high = (median * math.exp(sign * 1.96 * spread) for sign in (-1.0, 1.0))
    return NoiseEstimate(median, low, high)


def estimate_from_variances(variance: Array) -> NoiseEstimate:
    """Return the estimate if all readings have known noise variances (n,).

    The next reading is assumed to be as noisy as these.
    """
    quantiles = np.quantile(variance, CONFIG.quantiles)
    low, high, mean = clip_variances(np.append(quantiles, np.mean(variance))).tolist()
    return NoiseEstimate(mean, low, high)


def _spectra(
    correlation: Array, values: Array, sizes: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """Return the evidence of the first k values, and the spectra of the other values given these.

    Parameters
    ----------
    correlation : array of shape (n, n)
    values : array of shape (n,)
        The first k have known noise variances.
    sizes : array of shape (s,)
        Factors on the correlation.
    variance : array of shape (k,)
        The known noise variances.

    Returns
    -------
    evidence : array of shape (s,)
        Log density of the first k values, up to a constant.
    eigenvalues : array of shape (s, n - k)
        Eigenvalues of the covariance of the other values given these, without noise.
    squares : array of shape (1 or s, n - k)
        Squared errors of the other values in the basis of the eigenvectors.
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
        projection, whitened = half[:, :-1], half[:, -1]
        eigenvalues, vectors = eigenpairs(covariance[k:, k:] - projection.T @ projection)
        squares = ((values[k:] - whitened @ projection) @ vectors) ** 2
        evidence = -0.5 * (whitened @ whitened + log_determinant(factor))
        results.append((evidence, eigenvalues, squares))
    evidences, spectra, errors = (np.array(column) for column in zip(*results, strict=True))
    return evidences, spectra, errors


def select_readings(observations: Dataset) -> tuple[Index, Index]:
    """Return the rows that an estimate uses: with a known noise variance, and without one."""
    unknown = np.isnan(observations.variance)
    with_variance = _select_latest(
        observations, np.flatnonzero(~unknown), CONFIG.most_readings // 2
    )
    count = CONFIG.most_readings - len(with_variance)
    return with_variance, _select_latest(observations, np.flatnonzero(unknown), count)


def _select_latest(observations: Dataset, rows: Index, most: int) -> Index:
    """Return at most `most` of the rows: the latest, and repeats of a place and time for up to half.

    Repeats of one place and time are the most informative about noise.
    """
    if len(rows) <= most:
        return rows
    rows = rows[_select_places(observations.X[rows], observations.t[rows])]
    counts, number = _count_values(append_times(observations.X, observations.t))
    rows = rows[np.argsort(observations.t[rows], kind="stable")]
    repeats = np.flatnonzero(counts[number][rows] > 1)[-most // 2 :]
    others = np.setdiff1d(np.arange(len(rows)), repeats)
    return np.asarray(rows[np.concatenate([others[len(repeats) - most :], repeats])])


def _select_places(X: Array, t: Array) -> NDArray[np.bool_]:
    """Return the mask (n,) of readings at the points X (n, d) and times t (n,) that are used.

    At a time with many readings these are the readings of `most_places` places. The places are taken at
    equal distances from the list of places by number of readings.
    """
    counts, number = _count_values(t)
    crowded = counts[number] > CONFIG.most_places
    if not crowded.any():
        return ~crowded
    reads, place = _count_values(X)
    ranks = np.linspace(0, len(reads) - 1, min(CONFIG.most_places, len(reads)))
    selection = np.argsort(-reads, kind="stable")[ranks.round().astype(int)]
    return ~crowded | np.isin(place, selection)


def _count_values(values: Array) -> tuple[Index, Index]:
    """Return the count of each distinct value (or row), and the number of the distinct value of each."""
    _, number, counts = np.unique(values, axis=0, return_inverse=True, return_counts=True)
    return counts, number.ravel()

"""The noise of readings, where nobody states it: an estimate out of the readings, with its doubt.

Readings y of a Gaussian process of unknown size and unknown forgetting have the covariance

    a ((1 - n) k(x, x') exp(-|t - t'| / tau) + n 1[x = x', t = t'] + m) + s I,

with m for a mean that nobody knows. The posterior of the noise variance s is summed over grids of a,
tau, n and s. Readings of one place and time differ by their noise alone: what they say is the chi-square
law. Without tau, a drift of the reward would be taken for noise. So would the share n that is new at
every place and time; readings with a variance of their own, which takes the place of s, tell the two
apart, and n is 0 where there are none. These, an expert's, have a mean of their own: a scale that is off
by a constant is no noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tvbandits.core.linalg import cholesky, eigenpairs, log_determinant, solve_lower
from tvbandits.core.observations import Observations
from tvbandits.gp.fitting.online import step_of
from tvbandits.gp.kernels.structure import inputs
from tvbandits.validation import SMALLEST_VARIANCE, Array, Index, usable_variances

# The share s / (a k(x, x)) is log-normal a priori: its median, and the deviation of its logarithm.
SHARE, SPREAD = 0.05, 2.0

# Values of tau, in steps; all are equally likely a priori.
MEMORIES = (math.inf, 100.0, 30.0, 10.0, 3.0)

# Values of n, where it can be told from noise; all are equally likely a priori.
NEW = (0.0, 0.1, 0.3)

# Values of a k(x, x), in variances of the readings: who plays near a peak sees little of the whole.
SIZES = np.geomspace(0.5, 64.0, 8)

# m, in units of k(x, x): next to nothing is known about the mean.
MEAN = 100.0

# A deviation of this share of a value is far from its rounding.
ROUNDING = 1e-9

# Low end and high end, as quantiles of the posterior.
QUANTILES = (0.025, 0.975)

# Learned at every doubling of the number of rewards up to `LAST`, from so many readings at the
# most; half of them may have a variance of their own.
LAST, MOST = 256, 128


@dataclass(frozen=True)
class NoiseEstimate:
    """A noise variance that was learned, or one that is known: then all three are the same.

    Attributes
    ----------
    variance, low, high : float
        The mean of its posterior, which is the variance of the next reading, and the ends of the central
        95% (unit of reward squared). A median is too small early on: who takes the noise for too small
        takes what was read for all there is, and stays.
    readings : int
        How many readings it was learned from.
    """

    variance: float
    low: float
    high: float
    readings: int = 0

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.variance:g}"
        interval = f"{self.variance:.2g} ({self.low:.2g} to {self.high:.2g})"
        return f"{interval}, from {self.readings} reading{'s' if self.readings != 1 else ''}"


def due(before: int, now: int) -> bool:
    """Whether the number of rewards has doubled since it was last learned, from `before` to `now`."""
    return before < LAST and now.bit_length() > before.bit_length()


def estimated_noise(
    kernel: Any, seen: Observations, mean: float | None = None, rival: Any | None = None
) -> NoiseEstimate:
    """The noise variance of the observations that have none of their own (NaN).

    Parameters
    ----------
    kernel : scikit-learn kernel
        Over points, or over points and times: then time is held still, since tau stands for it.
    seen : Observations
    mean : float, optional
        The prior mean, with a kernel in the unit of the values squared (a = 1); both unknown by default.
    rival : scikit-learn kernel, optional
        Over points, as likely a priori, where the kernel is only what somebody starts from: under one
        that is too smooth, what differs between neighbours would count as noise.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Observations
    >>> from tvbandits.gp.fitting.noise import estimated_noise
    >>> y = np.random.default_rng(0).normal(5.0, 0.5, 100)
    >>> seen = Observations.checked(np.zeros((100, 1)), np.ones(100), y, np.full(100, np.nan))
    >>> print(estimated_noise(RBF(1.0), seen))
    0.24 (0.18 to 0.32), from 100 readings
    """
    stated, rows = readings_for_noise(seen)
    every = np.concatenate([stated, rows])
    X, t, y, variance = seen.X[every], seen.t[every], seen.y[every], seen.variance[stated]
    kernels = [kernel] if rival is None else [kernel, rival]
    over_points = [np.asarray(each(inputs(each, X, np.zeros(len(X))))) for each in kernels]
    size, *_ = own_sizes = [float(np.mean(np.diagonal(K))) for K in over_points]
    values = y - (y.mean() if mean is None else mean)
    unit = size
    if mean is None:
        # Readings that are all equal say nothing of their unit; their size would, of the offset alone.
        # But deviations from it must not be lost in the rounding of their size.
        alone = max(1.0, (ROUNDING * float(y[0])) ** 2)
        square = float(np.mean(values**2)) if np.ptp(y) > 0 else alone
        unit = max(square, 1e6 * SMALLEST_VARIANCE)
    sizes = unit * SIZES if mean is None else np.array([size])
    noise = np.geomspace(1e-6 * unit, 30.0 * max(unit, float(np.mean(values**2))), 201)
    off = np.log(noise / sizes[:, None] / SHARE) / SPREAD
    apart = np.abs(t[:, None] - t) / step_of(t)
    here = (apart == 0) & (X[:, None] == X).all(axis=2)
    shares = NEW if len(stated) else NEW[:1]
    own_variance = np.arange(len(every)) < len(stated)
    means = MEAN * np.outer(own_variance, own_variance)
    means += (MEAN if mean is None else 0.0) * np.outer(~own_variance, ~own_variance)
    alike = [K / own for K, own in zip(over_points, own_sizes, strict=True)]
    parts = []
    for among, memory, new in product(alike, MEMORIES, shares):
        correlation = (1.0 - new) * among * np.exp(-apart / memory) + new * here + means
        evidence, eigenvalues, squares = _spectra(correlation, values, sizes, variance)
        spread = np.maximum(eigenvalues, 0.0)[:, None] + noise[:, None]
        fit = (squares[:, None] / spread + np.log(spread)).sum(axis=2)
        parts.append(evidence[:, None] - 0.5 * fit - 0.5 * off**2)
    density = np.exp(logsumexp(parts, axis=(0, 1)) - logsumexp(parts))
    quantiles = np.interp(QUANTILES, np.cumsum(density) - density / 2, np.log(noise))
    low, high, mean_noise = usable_variances(np.append(np.exp(quantiles), density @ noise)).tolist()
    return NoiseEstimate(mean_noise, low, high, len(rows))


def first_guess(unit: float) -> NoiseEstimate:
    """Before any reading, of values with the prior variance `unit`."""
    low, high = (unit * SHARE * math.exp(sign * 1.96 * SPREAD) for sign in (-1.0, 1.0))
    return NoiseEstimate(unit * SHARE, low, high)


def _spectra(
    correlation: Array, values: Array, sizes: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """What values (n,) of noise variances (k,), the rest unknown, are like for each of s sizes.

    Returns
    -------
    evidence : array of shape (s,)
        Log density of the first k, up to a constant.
    eigenvalues, squares : arrays of shape (s, n - k), (1 or s, n - k)
        Of the covariance of the others given these, and of what they are off, in its eigenvectors.
    """
    k = len(variance)
    if k == 0:
        eigenvalues, vectors = eigenpairs(correlation)
        return np.zeros(len(sizes)), np.outer(sizes, eigenvalues), (vectors.T @ values)[None] ** 2
    found = []
    for size in sizes:
        covariance = size * correlation
        factor = cholesky(covariance[:k, :k] + np.diag(variance), "readings of known noise").L
        half = solve_lower(factor, np.column_stack([covariance[:k, k:], values[:k]]))
        reach, told = half[:, :-1], half[:, -1]
        eigenvalues, vectors = eigenpairs(covariance[k:, k:] - reach.T @ reach)
        squares = ((values[k:] - told @ reach) @ vectors) ** 2
        found.append((-0.5 * (told @ told + log_determinant(factor)), eigenvalues, squares))
    evidence, spectra, errors = (np.array(each) for each in zip(*found, strict=True))
    return evidence, spectra, errors


def readings_for_noise(seen: Observations) -> tuple[Index, Index]:
    """Rows of readings with a variance of their own, at most half of `MOST`, and rows of others."""
    unknown = np.isnan(seen.variance)
    stated = _latest(seen, np.flatnonzero(~unknown), MOST // 2)
    return stated, _latest(seen, np.flatnonzero(unknown), MOST - len(stated))


def _latest(seen: Observations, rows: Index, most: int) -> Index:
    """At most so many of the rows: what shares place and time for up to half, and the latest.

    Repeats of one place and time tell most.
    """
    if len(rows) <= most:
        return rows
    _, which, counts = np.unique(
        np.column_stack([seen.X, seen.t]), axis=0, return_inverse=True, return_counts=True
    )
    rows = rows[np.argsort(seen.t[rows], kind="stable")]
    repeats = np.flatnonzero(counts[which.ravel()][rows] > 1)[-most // 2 :]
    others = np.setdiff1d(np.arange(len(rows)), repeats)
    return np.asarray(rows[np.concatenate([others[len(repeats) - most :], repeats])])

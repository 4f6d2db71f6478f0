"""The noise of readings, where nobody states it: an estimate out of the readings, with its doubt.

Readings y of a Gaussian process of unknown size and unknown forgetting have the covariance

    a (k(x, x') exp(-|t - t'| / tau) + m) + s I,

with m for a mean that nobody knows. The posterior of the noise variance s is summed over grids of a, tau
and s. Readings of one place and time differ by their noise alone: what they say is the chi-square law.
Without tau, a drift of the reward would be taken for noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tvbandits.core.arrays import Index, usable_variances
from tvbandits.core.linalg import eigenpairs
from tvbandits.core.observations import Observations
from tvbandits.gp.fitting.online import step_of
from tvbandits.gp.kernels.structure import inputs

SHARE, SPREAD = 0.05, 2.0
"""The share s / (a k(x, x)) is log-normal a priori: its median, and the deviation of its logarithm."""

MEMORIES = (math.inf, 100.0, 30.0, 10.0, 3.0)
"""Values of tau, in steps; all are equally likely a priori."""

SIZES = np.geomspace(0.5, 64.0, 8)
"""Values of a k(x, x), in variances of the readings: who plays near a peak sees little of the whole."""

MEAN = 100.0
"""m, in units of k(x, x): next to nothing is known about the mean."""

QUANTILES = (0.025, 0.975)
"""Low end and high end, as quantiles of the posterior."""

LAST, MOST = 256, 128
"""Learned at every doubling of the number of rewards up to `LAST`, from so many readings at the most."""


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
        if not self.readings:
            return f"{interval}, before any reading"
        return f"{interval}, from {self.readings} reading{'s' if self.readings > 1 else ''}"


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
    rows = readings_for_noise(seen)
    X, t, y = seen.X[rows], seen.t[rows], seen.y[rows]
    kernels = [kernel] if rival is None else [kernel, rival]
    over_points = [np.asarray(each(inputs(each, X, np.zeros(len(X))))) for each in kernels]
    size, *_ = own_sizes = [float(np.mean(np.diagonal(K))) for K in over_points]
    values = y - (y.mean() if mean is None else mean)
    unit = _unit(values, y) if mean is None else size
    sizes = unit * SIZES if mean is None else np.array([size])
    noise = np.geomspace(1e-6 * unit, 30.0 * max(unit, float(np.mean(values**2))), 201)
    off = np.log(noise / sizes[:, None] / SHARE) / SPREAD
    apart = np.abs(t[:, None] - t) / step_of(t)
    parts = []
    for (K, own), memory in product(zip(over_points, own_sizes, strict=True), MEMORIES):
        correlation = K / own * np.exp(-apart / memory) + (MEAN if mean is None else 0.0)
        eigenvalues, vectors = eigenpairs(correlation)
        squares = (vectors.T @ values) ** 2
        spread = sizes[:, None, None] * np.maximum(eigenvalues, 0.0) + noise[:, None]
        parts.append(-0.5 * (squares / spread + np.log(spread)).sum(axis=2) - 0.5 * off**2)
    density = np.exp(logsumexp(parts, axis=(0, 1)) - logsumexp(parts))
    quantiles = np.interp(QUANTILES, np.cumsum(density) - density / 2, np.log(noise))
    low, high, mean_noise = usable_variances(np.append(np.exp(quantiles), density @ noise)).tolist()
    return NoiseEstimate(mean_noise, low, high, len(rows))


def first_guess(unit: float) -> NoiseEstimate:
    """Before any reading, of values with the prior variance `unit`."""
    low, high = (unit * SHARE * math.exp(sign * 1.96 * SPREAD) for sign in (-1.0, 1.0))
    return NoiseEstimate(unit * SHARE, low, high)


def readings_for_noise(seen: Observations) -> Index:
    """Rows (n,) of at most `MOST` readings without a variance: repeats for up to half, and the latest.

    Repeats of one place and time tell most.
    """
    rows = np.flatnonzero(np.isnan(seen.variance))
    if len(rows) <= MOST:
        return rows
    rows = rows[np.argsort(seen.t[rows], kind="stable")]
    places = np.column_stack([seen.X[rows], seen.t[rows]])
    _, which, counts = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    repeats = np.flatnonzero(counts[which.ravel()] > 1)[-MOST // 2 :]
    others = np.setdiff1d(np.arange(len(rows)), repeats)
    return np.asarray(rows[np.concatenate([others[len(repeats) - MOST :], repeats])])


def _unit(values: Any, y: Any) -> float:
    """The variance of readings; where they are all equal, that of a thousandth of their size, or 1."""
    size = 1e-3 * float(np.abs(y).max())
    return float(np.mean(values**2)) or size**2 or 1.0

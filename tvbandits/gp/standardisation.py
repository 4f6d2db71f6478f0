"""The prior mean and scale of the reward: fixed by the user, or learned online.

It is for standardising rewards. Values and the kernel go in; out comes a `Scaling`, by which values are
standardised and noise variances divided.

A kernel describes a standardised reward. With a fixed prior mean m the reward is m + f, f ~ GP(0, k),
and the kernel is in the user's unit squared. Online, the reward is centre + scale f:

* the scale is a robust deviation of the values so far, each weighted by how much of the domain it stands
  for, because a bandit samples where rewards are high;
* the centre is the generalised-least-squares mean of the observations in use (ordinary kriging), shrunk
  to a robust mean of the values so far with the weight of a few independent values, so that a short
  window at a high reward does not make everything else look high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvbandits.data import Dataset
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class ScalingConfig:
    """The constants of the prior mean and scale.

    Attributes
    ----------
    regrowth : float
        The scale is estimated again when this many times as many values have come. It stays between
        estimates, because a new scale changes every noise variance and so costs a new factorisation.
    fewest, most : int
        The scale follows from the values in use, but from at least and at most so many.
    anchor_weight : float
        Number of independent values that the anchor of the mean is worth.
    least_independent : float
        A sample from one spot has little information about the scale: its variance is multiplied by at
        most ten.
    clipping : float
        Outliers are values further than this many robust deviations from the median, if rare, too.
    mad_factor : float
        The deviation of a normal variable over its median absolute deviation.
    tail : float
        Values outside of these quantiles are rare.
    largest_noise : float
        In units of a prior variance, so that its square root and its inverse can be computed.
    """

    regrowth: float = 1.5
    fewest: int = 100
    most: int = 256
    anchor_weight: float = 5.0
    least_independent: float = 0.1
    clipping: float = 3.0
    mad_factor: float = 1.4826
    tail: float = 0.05
    largest_noise: float = 1e200


CONFIG = ScalingConfig()


@dataclass(frozen=True)
class Scaling:
    """The prior mean of the reward, or what it is shrunk to, and the prior deviation.

    Attributes
    ----------
    anchor : float
        The fixed mean, or the value that the learned mean is shrunk to.
    scale : float
        The prior deviation, in the unit of reward.
    estimated_at : int
        Number of values when anchor and scale were estimated; 0 where nothing was learned.
    """

    anchor: float
    scale: float
    estimated_at: int = 0

    def mean(self, products: Array, origin: float) -> float:
        """Return the prior mean of the reward.

        Parameters
        ----------
        products : array of shape (2, 2)
            Y^T (K + Sigma)^-1 Y with the columns Y = [y - origin, 1] of the observations in use.
        origin : float
        """
        if self.estimated_at == 0:
            return self.anchor
        weight = CONFIG.anchor_weight
        total = weight * (self.anchor - origin) + float(products[0, 1])
        return origin + total / (weight + float(products[1, 1]))

    def in_prior_units(self, variance: Array) -> Array:
        """Return noise variances (n,) over the squared scale; infinite ones stay infinite.

        Finite ones are at most `ScalingConfig.largest_noise`: with more a reading has no information
        either.
        """
        unit, largest = self.scale**2, CONFIG.largest_noise
        # The inner minimum keeps the quotient from overflowing.
        noise = np.minimum(np.minimum(variance, 2.0 * largest * unit) / unit, largest)
        noise[np.isinf(variance)] = np.inf
        return noise


def due(previous: Scaling, n: int) -> bool:
    """Return whether `n` values are enough for another estimate."""
    return n > 0 and n >= math.ceil(CONFIG.regrowth * previous.estimated_at)


def learn(
    previous: Scaling,
    kernel: Any,
    observations: Dataset,
    used: NDArray[np.bool_],
    noise_variance: float,
    before: int = 0,
) -> Scaling:
    """Return anchor and scale of the values in use; `previous` until there are enough new ones.

    Parameters
    ----------
    previous : Scaling
    kernel : scikit-learn kernel
    observations : Dataset
        All values, in the order in which they came.
    used : boolean array of shape (n,)
        Which of them the posterior uses.
    noise_variance : float
        Its root is the smallest scale: less variation cannot be distinguished from noise.
    before : int
        Number of values before these.
    """
    n = len(observations)
    if not due(previous, before + n):
        return previous
    rows = np.flatnonzero(used)
    if len(rows) < CONFIG.fewest:
        rows = np.arange(max(0, n - CONFIG.fewest), n)
    if len(rows) > CONFIG.most:
        rows = _select(observations, rows, CONFIG.most)
    sample = observations.take(rows)
    K = np.asarray(kernel(inputs(kernel, sample.X, np.zeros(len(rows)))))
    correlation = K / np.sqrt(np.outer(np.diagonal(K), np.diagonal(K)))
    weights = declustering_weights(correlation)
    centre, spread = robust_moments(sample.y, weights)
    # Under the prior the spread has mean scale^2 (1 - w^T C w) + sum_i w_i (1 - w_i) noise_i: values
    # that are correlated spread less about their mean than independent ones.
    noise = float((weights * (1.0 - weights)) @ sample.variance)
    independent = max(1.0 - float(weights @ correlation @ weights), CONFIG.least_independent)
    scale = math.sqrt(max((spread - noise) / independent, noise_variance))
    return Scaling(centre, scale, before + n)


def standard(observations: Dataset, noise_variance: float) -> Scaling:
    """Return mean and deviation of the values, for a kernel whose amplitudes are learned.

    They are no more than a unit: what they miss, the amplitudes make up for.
    """
    deviation = max(float(np.std(observations.y)), 2.0 * math.sqrt(noise_variance))
    return Scaling(float(np.mean(observations.y)), deviation, len(observations))


def _select(observations: Dataset, rows: Index, most: int) -> Index:
    """Return at most so many of the rows, of as many points as possible, as batches may repeat one."""
    _, latest = np.unique(observations.X[rows][::-1], axis=0, return_index=True)
    distinct = np.sort(len(rows) - 1 - latest)
    if len(distinct) < most:
        # The rest are repeated plays, evenly over time, which keep their weight in the quantiles.
        others = np.setdiff1d(np.arange(len(rows)), distinct, assume_unique=True)
        room = np.linspace(0, len(others) - 1, most - len(distinct)).astype(np.int64)
        distinct = np.union1d(distinct, others[room])
    even = np.linspace(0, len(distinct) - 1, min(most, len(distinct))).astype(np.int64)
    return np.asarray(rows[distinct[even]], dtype=np.int64)


def declustering_weights(correlation: Array) -> Array:
    """Return weights (n,), whose sum is 1, inverse to the number of neighbours of a point in the sample.

    With correlations C, a point counts for 1 / sum_j |C_ij|: m copies of one point together count as
    one. Preferential sampling of high values would bias a plain mean and deviation (the declustering
    of geostatistics, with the kernel as the neighbourhood).
    """
    weights = 1.0 / np.abs(correlation).sum(axis=1)
    return np.asarray(weights / weights.sum())


def robust_moments(values: Array, weights: Array) -> tuple[float, float]:
    """Return the weighted mean and mean square deviation, with outliers clipped.

    A value is moved to the median +- 3 robust deviations (1.4826 times the weighted median distance to
    the weighted median) if it lies beyond both that and the central 90% of the plain values: a high
    region that a bandit plays often is rare in the domain but no outlier. Where the robust deviation
    is zero, because most values agree, nothing is clipped.
    """
    middle = _weighted_median(values, weights)
    spread = (
        CONFIG.clipping * CONFIG.mad_factor * _weighted_median(np.abs(values - middle), weights)
    )
    clipped = values
    if spread > 0:
        # The order statistics inside the quantiles: interpolation would let outliers in.
        low = np.quantile(values, CONFIG.tail, method="higher")
        high = np.quantile(values, 1.0 - CONFIG.tail, method="lower")
        clipped = np.clip(values, min(middle - spread, low), max(middle + spread, high))
    mean = float(weights @ clipped)
    return mean, float(weights @ (clipped - mean) ** 2)


def _weighted_median(values: Array, weights: Array) -> float:
    """Return the smallest value with at least half of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, 0.5 * below[-1])])

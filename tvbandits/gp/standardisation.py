"""Standardise rewards by a prior mean and scale that are fixed by the user or learned online.

A kernel describes a standardised reward. With a fixed prior mean m the reward is m + f, f ~ GP(0, k),
and the kernel is in the user's unit squared. Learned online (`Scaling`), the reward is mean + scale f:

* the scale is a robust deviation of the values so far, each weighted by the part of the domain that it
  represents, because a bandit samples where rewards are high;
* the mean is the generalised-least-squares mean of the observations in use (ordinary kriging), shrunk
  towards a robust mean of the values so far with the weight of a few independent values. Without it, a
  short window of high rewards would raise the predictions everywhere else.
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
    """Constants of the prior mean and scale.

    Attributes
    ----------
    regrowth : float
        The scale is estimated again when the number of values has grown by this factor. It is constant
        in between, because a new scale changes all noise variances and costs a new factorisation.
    fewest, most : int
        The smallest and the largest number of values from which the scale is estimated.
    anchor_weight : float
        The weight of the robust mean, in independent values.
    least_independent : float
        The lower limit of the variance of a sample relative to that of independent values. A sample from
        one spot says little about the scale: its variance is multiplied by at most ten.
    clipping : float
        Values further than this many robust deviations from the median are outliers if they are rare.
    mad_factor : float
        The ratio of the deviation of a normal variable to its median absolute deviation.
    tail : float
        Values below this quantile, or above one minus it, are rare.
    largest_noise : float
        The largest noise variance in prior variances, whose square root and inverse are still finite.
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
    """The prior mean and deviation of the reward.

    Attributes
    ----------
    anchor : float
        The fixed mean, or the value towards which the learned mean is shrunk.
    scale : float
        The prior deviation, in the unit of the reward.
    estimated_at : int
        Number of values when anchor and scale were estimated; 0 if they are fixed.
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
            The constant that was subtracted from the rewards.
        """
        if self.estimated_at == 0:
            return self.anchor
        weight = CONFIG.anchor_weight
        total = weight * (self.anchor - origin) + float(products[0, 1])
        return origin + total / (weight + float(products[1, 1]))

    def in_prior_units(self, variance: Array) -> Array:
        """Return noise variances (n,) divided by the squared scale; infinite ones stay infinite.

        Finite ones are at most `ScalingConfig.largest_noise`, at which a reading is worthless anyway.
        """
        squared, largest = self.scale**2, CONFIG.largest_noise
        # The inner minimum keeps the quotient from overflowing.
        noise = np.minimum(np.minimum(variance, 2.0 * largest * squared) / squared, largest)
        noise[np.isinf(variance)] = np.inf
        return noise


def is_scaling_due(previous: Scaling, n: int) -> bool:
    """Return whether another estimate is due at `n` values."""
    return n > 0 and n >= math.ceil(CONFIG.regrowth * previous.estimated_at)


def learn_scaling(
    previous: Scaling,
    kernel: Any,
    observations: Dataset,
    used: NDArray[np.bool_],
    noise_variance: float,
    before: int = 0,
) -> Scaling:
    """Return the scaling estimated from the values in use, or `previous` if no estimate is due.

    Parameters
    ----------
    previous : Scaling
    kernel : scikit-learn kernel
    observations : Dataset
        All values, in the order of their arrival.
    used : boolean array of shape (n,)
        Whether the posterior uses each of them.
    noise_variance : float
        Its root is the smallest scale, because less variation cannot be distinguished from noise.
    before : int
        Number of earlier values, which are not in `observations`.
    """
    n = len(observations)
    if not is_scaling_due(previous, before + n):
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
    # Under the prior, `spread` has the expectation scale^2 (1 - w^T C w) + sum_i w_i (1 - w_i) noise_i:
    # correlated values vary less around their mean than independent ones.
    noise = float((weights * (1.0 - weights)) @ sample.variance)
    independent = max(1.0 - float(weights @ correlation @ weights), CONFIG.least_independent)
    scale = math.sqrt(max((spread - noise) / independent, noise_variance))
    return Scaling(centre, scale, before + n)


def scaling_from_moments(observations: Dataset, noise_variance: float) -> Scaling:
    """Return the scaling by mean and deviation of the values, for a kernel with learned amplitudes.

    A rough scale suffices, because the amplitudes adapt to it.
    """
    deviation = max(float(np.std(observations.y)), 2.0 * math.sqrt(noise_variance))
    return Scaling(float(np.mean(observations.y)), deviation, len(observations))


def _select(observations: Dataset, rows: Index, most: int) -> Index:
    """Return at most `most` of the rows, of as many distinct points as possible.

    Batches may repeat a point.
    """
    _, latest = np.unique(observations.X[rows][::-1], axis=0, return_index=True)
    distinct = np.sort(len(rows) - 1 - latest)
    if len(distinct) < most:
        # Repeated plays, evenly spread over time, are added, for their weight in the quantiles.
        others = np.setdiff1d(np.arange(len(rows)), distinct, assume_unique=True)
        added = np.linspace(0, len(others) - 1, most - len(distinct)).astype(np.int64)
        distinct = np.union1d(distinct, others[added])
    even = np.linspace(0, len(distinct) - 1, min(most, len(distinct))).astype(np.int64)
    return np.asarray(rows[distinct[even]], dtype=np.int64)


def declustering_weights(correlation: Array) -> Array:
    """Return weights (n,), with the sum 1, that decrease with the number of neighbours in the sample.

    With correlations C, point i has the weight 1 / sum_j |C_ij| before normalisation, so that m copies
    of a point together count as one. Preferential sampling of high values would bias a plain mean and
    deviation (this is the declustering of geostatistics, with the kernel as the neighbourhood).
    """
    weights = 1.0 / np.abs(correlation).sum(axis=1)
    return np.asarray(weights / weights.sum())


def robust_moments(values: Array, weights: Array) -> tuple[float, float]:
    """Return the weighted mean and mean squared deviation, with outliers clipped.

    A value is clipped to the median +- 3 robust deviations (1.4826 times the weighted median distance to
    the weighted median) if it is beyond both this limit and the central 90% of the unweighted values: a
    high region that a bandit plays often is rare in the domain, but no outlier. If the robust deviation
    is zero, because most values are equal, no value is clipped.
    """
    middle = _weighted_median(values, weights)
    spread = (
        CONFIG.clipping * CONFIG.mad_factor * _weighted_median(np.abs(values - middle), weights)
    )
    clipped = values
    if spread > 0:
        # Order statistics inside the quantiles, since interpolated ones would depend on the outliers.
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

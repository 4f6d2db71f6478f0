"""The prior mean and scale of the reward: fixed by the user, or learned online.

A kernel describes a standardised reward. With a fixed prior mean m the reward is m + f, f ~ GP(0, k),
and the kernel is in the user's unit squared. Online, the reward is centre + scale f:

* the scale is a robust deviation of the values seen, each weighted by how much of the domain it stands
  for, because a bandit samples where rewards are high;
* the centre is the generalised-least-squares mean of the observations in use (ordinary kriging), drawn
  to a robust mean of the values seen with the weight of a few independent values, so that a short
  window at a high reward does not make everything else look high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvbandits.core.observations import Observations
from tvbandits.gp.kernels.structure import inputs
from tvbandits.validation import Array, Index

# The scale is estimated again when this many times as many values have been seen; between estimates
# it stays, because a new scale changes every noise variance and so costs a new factorisation.
REGROWTH = 1.5


# The scale comes from the values in use, but from at least (at most) this many.
FEWEST, MOST = 100, 256


# How many independent values the anchor of the centre is worth.
ANCHOR_WEIGHT = 5.0


# A sample from one spot says little about the scale: its spread is at most multiplied by ten.
LEAST_INDEPENDENT = 0.1


# Outliers are values further than this many robust deviations from the median, if rare too.
CLIP = 3.0


# In units of a prior variance, so that its square root and its inverse can be worked with.
MOST_NOISE = 1e200


@dataclass(frozen=True)
class Scaling:
    """Where rewards are centred, and how large one prior deviation is, in the unit of reward.

    Attributes
    ----------
    anchor : float
        The fixed mean, or the value that the centre is drawn to.
    scale : float
    estimated_at : int
        Number of values seen when anchor and scale were estimated; 0 where nothing was learned.
    """

    anchor: float
    scale: float
    estimated_at: int = 0

    def centre(self, products: Array, origin: float) -> float:
        """The prior mean of the reward.

        Parameters
        ----------
        products : array of shape (2, 2)
            Y^T (K + Sigma)^-1 Y with the columns Y = [y - origin, 1] of the observations in use.
        origin : float
        """
        if self.estimated_at == 0:
            return self.anchor
        drawn = ANCHOR_WEIGHT * (self.anchor - origin) + float(products[0, 1])
        return origin + drawn / (ANCHOR_WEIGHT + float(products[1, 1]))

    def in_prior_units(self, variance: Array) -> Array:
        """Noise variances (n,) over the square of the scale; infinite ones stay so.

        What would be beyond `MOST_NOISE` is that: no prior variance is so large that it could tell.
        """
        unit = self.scale**2
        # No quotient shall overflow.
        scaled = np.minimum(np.minimum(variance, 2.0 * MOST_NOISE * unit) / unit, MOST_NOISE)
        scaled[np.isinf(variance)] = np.inf
        return scaled


def due(previous: Scaling, n: int) -> bool:
    """Whether `n` values are enough for another estimate."""
    return n > 0 and n >= math.ceil(REGROWTH * previous.estimated_at)


def learn(
    previous: Scaling,
    kernel: Any,
    seen: Observations,
    used: Array,
    noise_variance: float,
    before: int = 0,
) -> Scaling:
    """Anchor and scale of the values in use; `previous` while not enough new ones have come.

    Parameters
    ----------
    previous : Scaling
    kernel : scikit-learn kernel
    seen : Observations
        All values, in the order they came.
    used : boolean array of shape (n,)
        Which of them the posterior uses.
    noise_variance : float
        Its root is the smallest scale: no smaller variation can be seen.
    before : int
        How many values came before these.
    """
    n = len(seen)
    if not due(previous, before + n):
        return previous
    rows = np.flatnonzero(used)
    if len(rows) < FEWEST:
        rows = np.arange(max(0, n - FEWEST), n)
    if len(rows) > MOST:
        rows = _thinned(seen, rows)
    sample = seen.take(rows)
    K = np.asarray(kernel(inputs(kernel, sample.X, np.zeros(len(rows)))))
    correlation = K / np.sqrt(np.outer(np.diagonal(K), np.diagonal(K)))
    weights = declustering_weights(correlation)
    centre, spread = robust_moments(sample.y, weights)
    # Under the prior the spread has mean scale^2 (1 - w^T C w) + sum_i w_i (1 - w_i) noise_i: values
    # that are correlated spread less about their mean than independent ones.
    noise = float((weights * (1.0 - weights)) @ sample.variance)
    independent = max(1.0 - float(weights @ correlation @ weights), LEAST_INDEPENDENT)
    scale = math.sqrt(max((spread - noise) / independent, noise_variance))
    return Scaling(centre, scale, before + n)


def standard(seen: Observations, noise_variance: float) -> Scaling:
    """Mean and deviation of the values seen, for a kernel whose amplitudes are learned.

    They are only a unit to count in: what they miss, the amplitudes make up for.
    """
    deviation = float(np.std(seen.y))
    return Scaling(
        float(np.mean(seen.y)), max(deviation, 2.0 * math.sqrt(noise_variance)), len(seen)
    )


def _thinned(seen: Observations, rows: Index) -> Index:
    """At most `MOST` of the rows, of as many points as possible: batches may repeat one for long."""
    _, latest = np.unique(seen.X[rows][::-1], axis=0, return_index=True)
    distinct = np.sort(len(rows) - 1 - latest)
    if len(distinct) < MOST:
        # Room is left: repeated plays, evenly over time, keep their weight in the quantiles.
        others = np.setdiff1d(np.arange(len(rows)), distinct, assume_unique=True)
        room = np.linspace(0, len(others) - 1, MOST - len(distinct)).astype(np.int64)
        distinct = np.union1d(distinct, others[room])
    even = np.linspace(0, len(distinct) - 1, min(MOST, len(distinct))).astype(np.int64)
    return np.asarray(rows[distinct[even]], dtype=np.int64)


def declustering_weights(correlation: Array) -> Array:
    """Weights (n,), of sum 1, inverse to the number of neighbours a point has in the sample.

    With correlations C, a point counts for 1 / sum_j |C_ij|: m copies of one point together count as
    one. Preferential sampling of high values would bias a plain mean and deviation (the declustering
    of geostatistics, with the kernel as the neighbourhood).
    """
    weights = 1.0 / np.abs(correlation).sum(axis=1)
    return np.asarray(weights / weights.sum())


def robust_moments(values: Array, weights: Array) -> tuple[float, float]:
    """Weighted mean and mean square deviation, with outliers clipped.

    A value is moved to the median +- 3 robust deviations (1.4826 times the weighted median distance to
    the weighted median) if it lies beyond both that and the central 90% of the plain values: a high
    region that a bandit plays often is rare in the domain but no outlier. Where the robust deviation
    is zero, because most values agree, nothing is clipped.
    """
    middle = _weighted_median(values, weights)
    spread = CLIP * 1.4826 * _weighted_median(np.abs(values - middle), weights)
    clipped = values
    if spread > 0:
        # The order statistics inside the quantiles: interpolation would let outliers in.
        low = np.quantile(values, 0.05, method="higher")
        high = np.quantile(values, 0.95, method="lower")
        clipped = np.clip(values, min(middle - spread, low), max(middle + spread, high))
    mean = float(weights @ clipped)
    return mean, float(weights @ (clipped - mean) ** 2)


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, 0.5 * below[-1])])

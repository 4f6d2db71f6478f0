"""The estimates of an expert's bias and variance ratio; `calibrated` has the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from tvbandits.core.arrays import Array

FEWEST = 5
"""Pairs below which nothing is corrected."""


LOWEST, HIGHEST = 1e-8, 1e12
"""Ratios that are looked at."""


QUANTILE = 1.959963984540054
"""Of the standard normal, for intervals of 95%."""


@dataclass(frozen=True)
class Calibration:
    """What is known of an expert's bias and variance.

    Attributes
    ----------
    pairs : int
        Answers that could be compared with a reward.
    bias, standard_error : float
        Mean of answer minus reward (unit of reward) and its standard error; NaN without pairs.
    ratio : float
        True variance over stated variance, by the data alone; NaN without pairs.
    interval : tuple of float
        95% interval of the ratio, by the data alone; (0, inf) where they say nothing.
    used : float
        The ratio that answers are corrected by: the prior keeps it nearer to 1 while pairs are few.

    Examples
    --------
    >>> from tvbandits.experts import Calibration
    >>> known = Calibration(40, 0.0, 0.02, ratio=9.0, interval=(6.0, 14.0), used=7.6)
    >>> print(known.biased, known.verdict)
    False over-confident
    """

    __word__ = "ExpertCalibration"

    pairs: int
    bias: float
    standard_error: float
    ratio: float
    interval: tuple[float, float]
    used: float

    @property
    def biased(self) -> bool:
        """Whether the bias is more than three standard errors from zero."""
        return self.pairs >= FEWEST and abs(self.bias) > 3.0 * self.standard_error

    @property
    def verdict(self) -> str:
        """One of: too few pairs, over-confident, too modest, honest."""
        low, high = self.interval
        if self.pairs < FEWEST or (low <= 1.0 and high == math.inf):
            return "too few pairs"
        if low > 1.0:
            return "over-confident"
        return "too modest" if high < 1.0 else "honest"

    def __str__(self) -> str:
        if self.pairs == 0:
            return "too few pairs: 0"
        low, high = self.interval
        parts = [
            f"{self.verdict}: true variance about {self.ratio:.3g} ({low:.3g}-{high:.3g}) times "
            f"the stated one, {self.used:.3g} used" * (self.pairs >= FEWEST),
            f"bias {self.bias:+.3g} (standard error {self.standard_error:.3g})"
            + ", not zero" * self.biased,
            f"{self.pairs} pair{'s' * (self.pairs > 1)}",
        ]
        return "; ".join(parts)


@dataclass(frozen=True)
class _Pairs:
    """Differences (n,), stated variances (n,) and variances of the rewards (n,)."""

    difference: Array
    stated: Array
    reward: Array


def estimate(
    difference: Array, stated: Array, reward: Array, *, prior_weight: float, clip: float
) -> Calibration:
    """Bias and ratio from differences (n,), stated variances (n,) and reward variances (n,)."""
    n = len(difference)
    if n == 0:
        return Calibration(0, math.nan, math.nan, math.nan, (0.0, math.inf), 1.0)
    pairs = _Pairs(
        np.append(difference, 0.0),
        np.append(stated, np.median(stated)),
        np.append(reward, np.median(reward)),
    )

    def score(log_ratio: float) -> float:
        return _score(pairs, math.exp(log_ratio), clip)[0]

    def with_prior(log_ratio: float) -> float:
        return score(log_ratio) + prior_weight / 2 * math.expm1(-log_ratio)

    def beyond(side: float) -> Callable[[float], float]:
        def excess(log_ratio: float) -> float:
            value, deviation = _score(pairs, math.exp(log_ratio), clip)
            return value - side * QUANTILE * deviation

        return excess

    used = min(max(_root(with_prior), LOWEST), HIGHEST)
    ratio = _root(score)
    # A bias is not called sure because the prior on the ratio calls the expert honest.
    total = pairs.reward + min(max(used, ratio), HIGHEST) * pairs.stated
    return Calibration(
        pairs=n,
        bias=_location(pairs.difference, total, clip),
        standard_error=float(1.0 / math.sqrt((1.0 / total).sum())),
        ratio=ratio,
        interval=(_root(beyond(1.0)), _root(beyond(-1.0))),
        used=used,
    )


def _root(function: Callable[[float], float]) -> float:
    """Ratio at which a function of its log falls through zero; 0 or inf where it does not."""
    low, high = math.log(LOWEST), math.log(HIGHEST)
    if function(low) <= 0:
        return 0.0
    if function(high) >= 0:
        return math.inf
    return math.exp(brentq(function, low, high, xtol=1e-6))


def _score(pairs: _Pairs, ratio: float, clip: float) -> tuple[float, float]:
    """U(ratio), and its standard deviation if that ratio is the true one."""
    total = ratio * pairs.stated + pairs.reward
    bias = _location(pairs.difference, total, clip)
    squares = np.minimum(((pairs.difference - bias) / np.sqrt(total)) ** 2, clip**2)
    precision = 1.0 / total
    share = precision / precision.sum()
    second, fourth = _clipped_moments(clip)
    weight = ratio * pairs.stated * precision
    value = 0.5 * float((weight * (squares / second - 1.0 + share)).sum())
    # The made-up pair does not scatter.
    spread = 0.5 * math.sqrt((fourth / second**2 - 1.0) * float((weight[:-1] ** 2).sum()))
    return value, spread


def _location(difference: Array, total: Array, clip: float) -> float:
    """Mean weighted by 1 / variance (n,), in which no pair pulls by more than `clip` deviations."""
    deviation, precision = np.sqrt(total), 1.0 / total
    mean = float((precision * difference).sum() / precision.sum())
    if (np.abs(difference - mean) <= clip * deviation).all():
        return mean  # what is minimised is convex, so that this is the only solution
    order = np.argsort(difference)
    half = np.searchsorted(np.cumsum(precision[order]), precision.sum() / 2)
    centre = float(difference[order[min(int(half), len(order) - 1)]])  # the weighted median
    for _ in range(100):
        away = np.maximum(np.abs(difference - centre) / deviation, 1e-300)
        weights = precision * np.minimum(1.0, clip / away)
        new = float((weights * difference).sum() / weights.sum())
        if abs(new - centre) <= 1e-10 * float(deviation.min()):
            return new
        centre = new
    return centre


def _clipped_moments(clip: float) -> tuple[float, float]:
    """E psi(Z)^2 and E psi(Z)^4 for a standard normal Z."""
    if clip == math.inf:
        return 1.0, 3.0
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    beyond = 2 * float(ndtr(-clip))
    inside = 1.0 - beyond
    second = inside - 2 * clip * density
    fourth = 3 * second - 2 * clip**3 * density
    return second + clip**2 * beyond, fourth + clip**4 * beyond

"""Monotone transforms under which skewed rewards are closer to normal: those of Yeo and Johnson (2000).

With u = (y - origin) / unit, power 1 leaves u as it is, 0 is log(1 + u) where u > 0, and 2 the same for
the lower tail: many small rewards and few large ones ask for a power below 1. All are increasing,
defined for every reward, and have slope 1 at the origin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.lookahead import NODES, WEIGHTS


def _signed(u: Array, power: float) -> Array:
    """For u >= 0: ((1 + u)^power - 1) / power, or its limit."""
    return np.asarray(np.log1p(u) if power == 0 else np.expm1(power * np.log1p(u)) / power)


def _inverse(z: Array, power: float) -> Array:
    """For z >= 0; infinite where no u is as large."""
    if power == 0:
        return np.asarray(np.expm1(np.minimum(z, 300.0)))
    with np.errstate(divide="ignore"):
        grown = np.log1p(np.maximum(power * z, -1.0)) / power
    return np.asarray(np.expm1(np.minimum(grown, 300.0)))


@dataclass(frozen=True)
class Transform:
    """A Yeo-Johnson transform of rewards; its values are in the unit of reward around the origin.

    Attributes
    ----------
    power : float
        From 0 to 2; 1 changes nothing.
    unit : float
    """

    power: float
    unit: float

    def __call__(self, y: Array) -> Array:
        """Of rewards less the origin."""
        if self.power == 1:
            return y
        u = np.abs(y) / self.unit
        upper, lower = _signed(u, self.power), _signed(u, 2.0 - self.power)
        return np.asarray(self.unit * np.where(y >= 0, upper, -lower))

    def log_slope(self, y: Array) -> Array:
        """Logarithm of the derivative, at rewards less the origin."""
        if self.power == 1:
            return np.zeros_like(y)
        return np.asarray((self.power - 1.0) * np.sign(y) * np.log1p(np.abs(y) / self.unit))

    def inverse(self, z: Array) -> Array:
        """Rewards less the origin."""
        if self.power == 1:
            return z
        size = np.abs(z) / self.unit
        upper, lower = _inverse(size, self.power), _inverse(size, 2.0 - self.power)
        return np.asarray(self.unit * np.where(z >= 0, upper, -lower))

    def moments(
        self, mean: Array, variance: Array, seen: tuple[float, float]
    ) -> tuple[Array, Array, Array]:
        """Of the reward whose transform is normal: mean, variance, and mean slope, shapes (A,).

        By Gauss-Hermite quadrature; the slope is E[y e] / s for the standard normal e and the deviation
        s. The mean of a log-normal variable is moved by what no one has ever seen: rewards that are
        further beyond the lowest and the highest that were `seen` than these are apart count as there.
        For what is not known, unlike for the mean, these are a unit apart at least.
        """
        if self.power == 1:
            return mean, variance, np.ones_like(mean)
        deviation = np.sqrt(variance)
        y = self.inverse(mean[:, None] + deviation[:, None] * NODES)
        low, high = seen
        reach = max(high - low, self.unit)
        expected = np.clip(y, low - (high - low), high + (high - low)) @ WEIGHTS
        y = np.clip(y, low - reach, high + reach)
        first = y @ WEIGHTS
        slope = (y @ (WEIGHTS * NODES)) / np.maximum(deviation, 1e-12 * self.unit)
        return expected, np.maximum((y**2) @ WEIGHTS - first**2, 0.0), slope

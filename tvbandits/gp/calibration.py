"""Calibrate the deviations of a fitted kernel from its prediction errors.

`IntervalCalibration` takes the prediction error of each reward at another place than the one before. It
gives a factor that inflates deviations that are too small, and the coverage of 95% intervals.

A kernel that was fitted to the rewards of a bandit predicts well where the bandit stays, and may be
over-confident elsewhere. A repeated reward at the same place tests little but the noise, so that only
rewards at other places count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CalibrationConfig:
    """Constants of the calibration.

    Attributes
    ----------
    forgetting_rate : float
        The fraction by which the sums shrink with each reward; about 50 rewards count.
    prior_count : float
        The weight of the prior, in rewards whose squared errors are as predicted.
    half_width : float
        Half the width of a 95% interval, in deviations.
    largest_square : float
        The limit at which squared standardised innovations are clipped, because one outlier does not
        show that the model is wrong.
    """

    forgetting_rate: float = 0.02
    prior_count: float = 2.0
    half_width: float = 1.959963985
    largest_square: float = 25.0


CONFIG = CalibrationConfig()


@dataclass(frozen=True)
class IntervalCalibration:
    """A running mean of squared standardised innovations.

    For standardised innovations z_i = (y_i - mu_i) / sqrt(sigma_i^2 + noise_i), i = 0, 1, ... with the
    latest first, the forgetting rate f and the prior count n, it is
    (n + sum_i (1 - f)^i min(z_i^2, 25)) / (n + sum_i (1 - f)^i). Under the true model its mean is 1.

    Attributes
    ----------
    squares, count : float
        The sums of the numerator and of the denominator, without the prior.
    inside : float
        The number of rewards inside their 95% intervals, with the same forgetting as the sums.
    """

    squares: float = 0.0
    count: float = 0.0
    inside: float = 0.0

    def update(self, error: float, variance: float) -> IntervalCalibration:
        """Return the calibration updated with one more reward.

        Parameters
        ----------
        error : float
            The reward minus its prediction.
        variance : float
            Predictive variance of the error, including the noise of the reading.
        """
        memory, square = 1.0 - CONFIG.forgetting_rate, error**2 / variance
        return IntervalCalibration(
            memory * self.squares + min(square, CONFIG.largest_square),
            memory * self.count + 1.0,
            memory * self.inside + float(square < (CONFIG.half_width * self.deviation_factor) ** 2),
        )

    @property
    def deviation_factor(self) -> float:
        """Return the factor on deviations; it is above 1 if innovations were larger than predicted."""
        mean = (CONFIG.prior_count + self.squares) / (CONFIG.prior_count + self.count)
        return math.sqrt(max(mean, 1.0))

    @property
    def coverage(self) -> float:
        """Return the fraction of 95% intervals that contained the reward; NaN before the first."""
        return self.inside / self.count if self.count else math.nan

"""Whether the deviations of a fitted kernel are right: rewards at new places against predictions.

It is for inflating deviations that are too small. Errors of predictions go in, one for each reward at
another place than the one before; out come a factor on deviations, and the coverage of 95% intervals.

A kernel that was fitted to the rewards of a bandit is right about the places where the bandit stays, and
may be over-confident about all others. A reward at the same place again tests little but the noise; so
only rewards at other places count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CalibrationConfig:
    """The constants of the calibration.

    Attributes
    ----------
    forgetting_rate : float
        What the sums lose at each reward: about 50 rewards count.
    prior_count : float
        Number of rewards just as large as predicted that are taken for granted.
    half_width : float
        Half of a 95% interval, in deviations.
    largest_square : float
        A squared standardised innovation counts for at most this: one outlier is no sign of a wrong
        model.
    """

    forgetting_rate: float = 0.02
    prior_count: float = 2.0
    half_width: float = 1.959963985
    largest_square: float = 25.0


CONFIG = CalibrationConfig()


@dataclass(frozen=True)
class IntervalCalibration:
    """A mean of squared standardised innovations, the errors of predictions made before the reward.

    With z_i = (y_i - mu_i) / sqrt(sigma_i^2 + noise_i) of the rewards that count, the latest first, and
    the forgetting rate f, it is (n + sum_i (1 - f)^i min(z_i^2, 25)) / (n + sum_i (1 - f)^i) for
    i = 0, 1, ..., where n is the prior count. Under the right model it is 1 on average.

    Attributes
    ----------
    squares, count : float
        The two sums, without the prior.
    inside : float
        Number of rewards in their 95% intervals, forgotten like the sums.
    """

    squares: float = 0.0
    count: float = 0.0
    inside: float = 0.0

    def after(self, error: float, variance: float) -> IntervalCalibration:
        """Return the calibration with one more reward.

        Parameters
        ----------
        error : float
            Reward less its prediction.
        variance : float
            Predictive variance of the error, with the noise of the reading.
        """
        memory, square = 1.0 - CONFIG.forgetting_rate, error**2 / variance
        return IntervalCalibration(
            memory * self.squares + min(square, CONFIG.largest_square),
            memory * self.count + 1.0,
            memory * self.inside + float(square < (CONFIG.half_width * self.deviation_factor) ** 2),
        )

    @property
    def deviation_factor(self) -> float:
        """Return the factor on deviations, above 1 if innovations have been larger than predicted."""
        mean = (CONFIG.prior_count + self.squares) / (CONFIG.prior_count + self.count)
        return math.sqrt(max(mean, 1.0))

    @property
    def coverage(self) -> float:
        """Return the share of 95% intervals that held the reward; NaN before the first."""
        return self.inside / self.count if self.count else math.nan

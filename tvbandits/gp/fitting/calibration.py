"""Whether a fitted kernel's deviations hold: rewards at a changed place against what was said of them.

A kernel that was fitted to what a bandit plays knows the places it stays at, and may be over-confident
about all others. A reward where the bandit has just been tests little but the noise; one at another
place tests what is shown of all of them. So only the latter are watched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# What the tally loses at each reward that is watched.
FADING = 0.02

# So many rewards just as large as expected are taken for granted.
PRIOR_COUNT = 2.0

# Half of a 95% interval, in deviations.
HALF = 1.959963985

# A squared standardised innovation counts for at most this: one outlier is no bad model.
LARGEST = 25.0


@dataclass(frozen=True)
class IntervalCalibration:
    """A faded mean of squared standardised innovations: errors of predictions made before the reward.

    With z_i = (y_i - mu_i) / sqrt(sigma_i^2 + noise_i) of the watched rewards, the latest first, and
    the fading f, it is (n + sum_i (1 - f)^i min(z_i^2, 25)) / (n + sum_i (1 - f)^i) for i = 0, 1, ...,
    where n is the prior count; under the right model, 1 on average.

    Attributes
    ----------
    squares, count : float
        The two sums, without the prior.
    inside : float
        How many of the rewards lay in their 95% intervals, faded like the sums.
    """

    squares: float = 0.0
    count: float = 0.0
    inside: float = 0.0

    def after(self, error: float, variance: float) -> IntervalCalibration:
        """With one more reward.

        Parameters
        ----------
        error : float
            Reward less what was expected of it.
        variance : float
            Of the error, as it was expected: with the noise of the reading.
        """
        kept, square = 1.0 - FADING, error**2 / variance
        return IntervalCalibration(
            kept * self.squares + min(square, LARGEST),
            kept * self.count + 1.0,
            kept * self.inside + float(square < (HALF * self.widening) ** 2),
        )

    @property
    def widening(self) -> float:
        """Factor on deviations: above 1 where innovations have been larger than they should be."""
        mean = (PRIOR_COUNT + self.squares) / (PRIOR_COUNT + self.count)
        return math.sqrt(max(mean, 1.0))

    @property
    def coverage(self) -> float:
        """Share of the 95% intervals that held the reward, of those watched; NaN before the first."""
        return self.inside / self.count if self.count else math.nan

"""Decide when to discard all observations: at a reward outside of its confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvbandits.validation import finite_number


@dataclass(frozen=True)
class EventTrigger:
    """A rule that resets at a reward outside of its confidence interval (ET-GP-UCB, Brunzema 2022/2025).

    With n rewards since the last reset, including the new one, pi_n = pi^2 n^2 / 6 and
    rho_n = 2 log(2 pi_n / delta), the condition is

        |y - mu(x)| > sqrt(rho_n) sigma(x) + sqrt(2 s^2 log(2 pi_n / delta)),

    where mu and sigma are predictions from before the reward, and s^2 is its noise variance. If the
    reward function does not change, all intervals hold simultaneously with probability 1 - delta.

    Parameters
    ----------
    delta : float
        Probability of a false reset, between 0 and 1; 0.1 in the paper.

    Examples
    --------
    >>> from tvbandits.forgetting.event_trigger import EventTrigger
    >>> trigger = EventTrigger(delta=0.1)
    >>> print(trigger(0.3, deviation=0.2, variance=0.01, count=5), trigger(3.0, 0.2, 0.01, 5))
    False True
    """

    delta: float = 0.1

    def __post_init__(self) -> None:
        finite_number("delta", self.delta, above=0.0, below=1.0)

    def __call__(self, error: float, deviation: float, variance: float, count: int) -> bool:
        """Return whether a reward with this error triggers a reset.

        Parameters
        ----------
        error : float
            The prediction error y - mu(x).
        deviation : float
            The deviation sigma(x) of the reward without noise.
        variance : float
            Noise variance of the reward.
        count : int
            The number n >= 1 of rewards since the last reset, including this one.
        """
        rho = 2.0 * math.log(2.0 * (math.pi * count) ** 2 / 6.0 / self.delta)
        return abs(error) > math.sqrt(rho) * (deviation + math.sqrt(variance))

"""Parameters that the authors of the non-stationary policies recommend.

gamma_T is the maximum information gain of T observations, B_T the variation budget: the sum over steps
of the sup-norm change of the reward, in units of the prior deviation (divide by the scale of the
reward). Constants are those of the cited statements; hidden ones are taken as 1.
"""

from __future__ import annotations

import math

import numpy as np


def reset_period_under_drift(horizon: int, epsilon: float) -> int:
    """H = ceil(min(T, 12 epsilon^(-1/4))) of R-GP-UCB for the SE kernel (Bogunovic 2016)."""
    if epsilon <= 0:
        return horizon
    return math.ceil(min(horizon, 12 * float(epsilon**-0.25)))


def elimination_period(
    horizon: int, variation_budget: float, information_gain: float, noise: float, width: float
) -> int:
    """H = ceil((4.8 width sqrt(gamma_T / L) T / B_T)^(2/3)), L = log(1 + 1 / noise), at most T: R-PERP.

    The exponents are derived here from the form of the bound of Iwazaki & Takeno 2025; the constant is
    our own accounting, which makes that bound smallest. Another constant (1), or no restart (H = T), was
    better on most of seven problems. A survivor of a phase of N plays loses at most
    4 width sqrt(2 gamma_T / (L N)) a play; phases that double add up to
    19.3 width sqrt(gamma_T / (L H)), and the drift of H plays to 2 B_T H / T.

    Parameters
    ----------
    horizon, variation_budget, information_gain
        T, B_T and gamma_T.
    noise : float
        Noise variance of a reward, in prior deviations squared.
    width : float
        Of the bounds by which candidates go.
    """
    if variation_budget <= 0:
        return horizon
    least = 4.8 * width * math.sqrt(information_gain / math.log1p(1 / noise))
    period = math.ceil(math.pow(least * horizon / variation_budget, 2 / 3))
    return max(1, min(horizon, period))


def window_length(horizon: int, variation_budget: float, information_gain: float) -> int:
    """ceil(gamma_T^(1/4) sqrt(T / B_T)), at most T (Zhou & Shroff 2021): of SW-GP-UCB and R-GP-UCB."""
    if variation_budget <= 0:
        return horizon
    length = math.ceil(float(information_gain**0.25) * math.sqrt(horizon / variation_budget))
    return max(1, min(horizon, length))


def discount(horizon: int, variation_budget: float, information_gain: float) -> float:
    """1 - gamma_T^(-1/4) sqrt(B_T / T) of W-GP-UCB (Deng 2022), kept within [0.01, 1 - 1/T^2].

    The limits matter only where the formula leaves (0, 1): a reward that moves by more than the prior
    deviation every step, or one that does not move at all.
    """
    forgotten = information_gain**-0.25 * math.sqrt(max(variation_budget, 0.0) / horizon)
    return float(np.clip(1 - forgotten, 0.01, 1 - 1.0 / max(horizon, 2) ** 2))


# eta <= 1/5, the tolerance of SparQ-GP-UCB's sparse inference.
TOLERANCE = 0.2


def regret_bound(
    horizon: int, beta: float, noise_variance: float, information_gain: float
) -> float:
    """Average regret R_T / T that SparQ-GP-UCB stays below ([S], above eq. 27).

    R_T <= 2 beta_T sqrt(1 + sqrt(3 eta)) sqrt(2 T (1 + (noise_variance log T)^2) gamma_T), in units of
    the prior deviation.
    """
    inflation = math.sqrt(1 + math.sqrt(3 * TOLERANCE))
    spread = 1 + (noise_variance * math.log(max(horizon, 1))) ** 2
    return 2 * beta * inflation * math.sqrt(2 * horizon * spread * information_gain) / horizon

"""Parameters that the authors of the non-stationary policies recommend.

gamma_T is the maximum information gain of T observations, B_T the variation budget: the sum over steps
of the norm of the change of the reward, in units of the prior deviation (divide by the scale of the
reward). The norm is that of the kernel's RKHS ([S] eq. 20, V_T there), or the largest change of any
point where the reward does not lie in the RKHS. Constants are those of the cited statements; hidden
ones are taken as 1.
"""

from __future__ import annotations

import math

import numpy as np

from tvbandits.queries import plans


def window_length(horizon: int, variation_budget: float, information_gain: float) -> int:
    """Return ceil(gamma_T^(1/4) sqrt(T / B_T)), at most T, for SW- and R-GP-UCB (Zhou & Shroff 2021)."""
    if variation_budget <= 0:
        return horizon
    length = math.ceil(float(information_gain**0.25) * math.sqrt(horizon / variation_budget))
    return max(1, min(horizon, length))


def discount(horizon: int, variation_budget: float, information_gain: float) -> float:
    """Return 1 - gamma_T^(-1/4) sqrt(B_T / T) of W-GP-UCB (Deng 2022), within [0.01, 1 - 1/T^2].

    The limits matter only where the formula leaves (0, 1): a reward that moves by more than the prior
    deviation every step, or one that does not move at all.
    """
    share = information_gain**-0.25 * math.sqrt(max(variation_budget, 0.0) / horizon)
    return float(np.clip(1 - share, 0.01, 1 - 1.0 / max(horizon, 2) ** 2))


def regret_bound(
    horizon: int, beta: float, noise_variance: float, information_gain: float
) -> float:
    """Return the bound of SparQ-GP-UCB on the average regret R_T / T ([S], above eq. 27).

    R_T <= 2 beta_T sqrt(1 + sqrt(3 eta)) sqrt(2 T (1 + (noise_variance log T)^2) gamma_T), in units of
    the prior deviation.
    """
    inflation = math.sqrt(1 + math.sqrt(3 * plans.CONFIG.tolerance))
    spread = 1 + (noise_variance * math.log(max(horizon, 1))) ** 2
    return 2 * beta * inflation * math.sqrt(2 * horizon * spread * information_gain) / horizon

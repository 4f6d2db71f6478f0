"""Draws of the TV-GP-UCB model on the grids of two papers.

References
----------
I. Bogunovic, J. Scarlett and V. Cevher. Time-varying Gaussian process bandit optimization. AISTATS 2016.
Matthias Mandl and Hanne Kekkonen. Sharper Regret Bounds for Time-Varying Gaussian Process Bandits with
    Constant Exploration. arXiv 2608.18863.
"""

from __future__ import annotations

from typing import Literal

from tvbandits.datasets.synthetic import GPDrift


def bogunovic(
    epsilon: float = 0.01,
    smoothness: Literal["rbf", "matern52"] = "rbf",
    horizon: int = 200,
    seed: int = 0,
) -> GPDrift:
    """The synthetic experiment of Bogunovic (2016): 50 x 50 points, length scale 0.2, noise 0.01.

    Parameters
    ----------
    epsilon : float
        Rate of change; the paper has 0.001, 0.01 and 0.03.
    smoothness : "rbf" or "matern52"
    horizon : int
    seed : int
    """
    return GPDrift(epsilon, 50, 0.2, horizon, 0.01, seed, "bogunovic", smoothness=smoothness)


def mandl(epsilon: float = 0.01, horizon: int = 10_000, seed: int = 0) -> GPDrift:
    """The experiment of Mandl and Kekkonen (2026): 20 x 20 points, length scale 0.1, noise 0.01.

    Parameters
    ----------
    epsilon : float
        Rate of change; the paper has 0.1, 0.01 and 0.001.
    horizon : int
    seed : int
    """
    return GPDrift(epsilon, 20, 0.1, horizon, 0.01, seed, "mandl")

"""What later readings would tell about a state, and which part of its covariance that takes away.

[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.
"""

from __future__ import annotations

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array

LATER = 32
"""So many steps after a decision count as its future."""


def told_by_later(F: Array, fresh: Array, H: Array, noise: float, steps: int = LATER) -> Array:
    """What rewards of the steps after one tell about the state at it, as a precision (S, S).

    From the last step backwards: a reading adds H' H / noise to what is told about a state, and a step
    back with the transition F and fresh covariance Q makes F' (told^-1 + Q)^-1 F of it.

    Parameters
    ----------
    F : array of shape (S, S)
        Moves a state by a step.
    fresh : array of shape (S, S)
        Covariance Q of what is new in a step.
    H : array of shape (A, S)
        What observes a state at all points, which are all read.
    noise : float
        Noise variance of a reading, in the unit of `fresh`.
    steps : int
    """
    reading, told = H.T @ H / noise, np.zeros((len(F), len(F)))
    root = linalg.square_root(fresh)
    for _ in range(steps):
        told = told + reading
        # (told^-1 + Q)^-1 with Q = C C' is told - told C (1 + C' told C)^-1 C' told.
        told = told - _squared(root.T @ told @ root, root.T @ told)
        told = F.T @ told @ F
        told = (told + told.T) / 2
    return np.asarray(told)


def predictable(covariance: Array, told: Array) -> Array:
    """How far (S, S) later rewards would move the expectation of a state: P - (P^-1 + told)^-1.

    It is the covariance of what [LX] sample: what is forgotten at once is not in it.
    """
    root = linalg.square_root(covariance)
    # P^-1 + told with P = C C' is C'^-1 (1 + C' told C) C^-1.
    moved = root @ root.T - _squared(root.T @ told @ root, root.T)
    return np.asarray((moved + moved.T) / 2)


def _squared(M: Array, B: Array) -> Array:
    """B' (1 + M)^-1 B for a positive semidefinite M."""
    factor = linalg.cholesky(np.eye(len(M)) + (M + M.T) / 2, "what later rewards tell").L
    half = linalg.solve_lower(factor, B)
    return np.asarray(half.T @ half)

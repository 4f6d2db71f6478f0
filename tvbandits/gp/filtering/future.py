"""What later readings would tell about a state, and which part of its covariance that takes away.

[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.
"""

from __future__ import annotations

import numpy as np

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
    size = len(F)
    reading, told = H.T @ H / noise, np.zeros((size, size))
    for _ in range(steps):
        told = told + reading
        told = F.T @ np.linalg.solve(np.eye(size) + told @ fresh, told) @ F
        told = (told + told.T) / 2
    return np.asarray(told)


def predictable(covariance: Array, told: Array) -> Array:
    """How far (S, S) later rewards would move the expectation of a state: P - (P^-1 + told)^-1.

    It is the covariance of what [LX] sample: what is forgotten at once is not in it.
    """
    moved = covariance @ told @ np.linalg.inv(np.eye(len(told)) + covariance @ told) @ covariance
    return np.asarray((moved + moved.T) / 2)

"""Which share of what is not known will still matter.

[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.ensemble import FilterEnsemble, by_group
from tvbandits.gp.ensemble.filters import Layout
from tvbandits.gp.ensemble.models import ModelSpec

# The noise in units of the scale is taken to a tenth: it changes little from step to step.
TENTH = math.log(1.1)

# So many models' futures are remembered.
KEPT = 48

# So many steps after a decision count as its future.
LATER = 32


@dataclass(frozen=True)
class _ModelAt:
    """One model on some points; two are the same that have the same setting on the same points."""

    setting: ModelSpec
    shape: tuple[int, ...]
    points: bytes
    layout: Layout = field(compare=False, repr=False)


def lasting_share(ensemble: FilterEnsemble, t: float) -> Array:
    """Share (A,) of the deviation of what can be learned that rewards after a decision would tell.

    The reward of the next decision is expected anew once all places were read for 32 steps: how far
    that moves it, in deviations of what is not known. It is 0 where the reward is forgotten at once,
    and near 1 where places differ for long. As the model of the largest weight has it; 1 before any
    observation.

    Parameters
    ----------
    ensemble : FilterEnsemble
    t : float
        Time of the decision, not before the latest observation.
    """
    if not ensemble.filters:
        return np.ones(len(ensemble.points))
    heaviest = np.arange(len(ensemble.weights)) == ensemble.weights.argmax()
    parts = zip(ensemble.filters, by_group(heaviest, ensemble.filters), strict=True)
    one = next(each.take(part) for each, part in parts if part.any())
    one = one.moved(ensemble.steps_until(t))
    noise = float(one.layout.nugget[0]) + ensemble.noise_variance / float(one.variance[0])
    model = _ModelAt(one.settings[0], ensemble.points.shape, ensemble.points.tobytes(), one.layout)
    told = told_by_later(model, round(math.log(noise) / TENTH))
    # How far later rewards would move the expectation of the state, P - (P^-1 + told)^-1: the
    # covariance of what [LX] sample. P^-1 + told with P = C C' is C'^-1 (1 + C' told C) C^-1.
    root = linalg.square_root(one.covariance[0])
    moved = root @ root.T - _squared(root.T @ told @ root, root.T)
    H = one.layout.rows(np.arange(len(ensemble.points)))
    covariances = (moved + moved.T) / 2, one.covariance[0]
    shown, every = (np.einsum("ij,jk,ik->i", H, each, H) for each in covariances)
    share = np.maximum(shown, 0.0) / np.maximum(every, np.finfo(float).tiny)
    return np.asarray(np.sqrt(np.minimum(share, 1.0)))


@lru_cache(maxsize=KEPT)
def told_by_later(model: _ModelAt, tenths: int) -> Array:
    """What rewards of the steps after one tell about the state at it, as a precision (S, S).

    From the last step backwards: a reading of all points adds H' H / noise to what is told about a
    state, and a step back with the transition F and fresh covariance Q makes F' (told^-1 + Q)^-1 F of
    it. The noise is 1.1^tenths, in units of the squared scale.
    """
    layout = model.layout
    H = layout.rows(np.arange(len(layout.basis)))
    F = layout.moved(np.eye(layout.size)[None], 1.0)[0]
    root = linalg.square_root(layout.prior[0] - F @ layout.prior[0] @ F.T)
    reading, told = H.T @ H / 1.1**tenths, np.zeros((len(F), len(F)))
    for _ in range(LATER):
        told = told + reading
        # (told^-1 + Q)^-1 with Q = C C' is told - told C (1 + C' told C)^-1 C' told.
        told = told - _squared(root.T @ told @ root, root.T @ told)
        told = F.T @ told @ F
        told = (told + told.T) / 2
    return np.asarray(told)


def _squared(M: Array, B: Array) -> Array:
    """B' (1 + M)^-1 B for a positive semidefinite M."""
    factor = linalg.cholesky(np.eye(len(M)) + (M + M.T) / 2, "what later rewards tell").L
    half = linalg.solve_lower(factor, B)
    return np.asarray(half.T @ half)

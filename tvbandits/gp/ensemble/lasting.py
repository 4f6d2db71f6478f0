"""Which share of what is not known will still matter: a place is worth a look for what lasts alone.

[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.filters import Filters, Layout
from tvbandits.gp.ensemble.models import ModelSpec, elapsed

TENTH = math.log(1.1)
"""The noise in units of the scale is taken to a tenth: it changes little from step to step."""

KEPT = 48
"""So many models' futures are remembered."""


LATER = 32
"""So many steps after a decision count as its future."""


@dataclass(frozen=True)
class _Model:
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
    one = single(ensemble, int(ensemble.weights.argmax()), t)
    H = one.layout.rows(np.arange(len(ensemble.points)))
    covariances = predictable_part(ensemble, one), one.covariance[0]
    shown, every = (np.einsum("ij,jk,ik->i", H, each, H) for each in covariances)
    share = np.maximum(shown, 0.0) / np.maximum(every, np.finfo(float).tiny)
    return np.asarray(np.sqrt(np.minimum(share, 1.0)))


def single(ensemble: FilterEnsemble, member: int, t: float) -> Filters:
    """One of the models that are awake, alone, moved to a time."""
    for filters in ensemble.filters:
        if member < len(filters):
            break
        member -= len(filters)
    return filters.take(np.array([member])).moved(elapsed(ensemble.time, t, ensemble.step))


def predictable_part(ensemble: FilterEnsemble, one: Filters) -> Array:
    """How far (S, S) rewards after a decision would move what a single model expects of its state then.

    In units of its squared scale; see `predictable`.
    """
    noise = float(one.layout.nugget[0]) + ensemble.noise_variance / float(one.variance[0])
    model = _Model(one.settings[0], ensemble.points.shape, ensemble.points.tobytes(), one.layout)
    return predictable(one.covariance[0], _told(model, round(math.log(noise) / TENTH)))


@lru_cache(maxsize=KEPT)
def _told(model: _Model, tenths: int) -> Array:
    return told_of(model.layout, 1.1**tenths)


def told_of(layout: Layout, noise: float, steps: int = LATER) -> Array:
    """What rewards of the steps after one tell about the state of a single model, with so much noise."""
    H = layout.rows(np.arange(len(layout.basis)))
    F = layout.moved(np.eye(layout.size)[None], 1.0)[0]
    fresh = layout.prior[0] - F @ layout.prior[0] @ F.T
    return told_by_later(F, fresh, H, noise, steps)


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

"""Which share of what is not known will still matter: a place is worth a look for what lasts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.filters import Filters, Layout
from tvbandits.gp.ensemble.models import ModelSpec, elapsed
from tvbandits.gp.posteriors.kalman import LATER, predictable, told_by_later

TENTH = math.log(1.1)
"""The noise in units of the scale is taken to a tenth: it changes little from step to step."""

KEPT = 48
"""So many models' futures are remembered."""


@dataclass(frozen=True)
class _Model:
    """One model on some points; two are the same that have the same setting on the same points."""

    setting: ModelSpec
    shape: tuple[int, ...]
    points: bytes
    layout: Layout = field(compare=False, repr=False)


def lasting_share(bank: FilterEnsemble, t: float) -> Array:
    """Share (A,) of the deviation of what can be learned that rewards after a decision would tell.

    The reward of the next decision is expected anew once all places were read for 32 steps: how far
    that moves it, in deviations of what is not known. It is 0 where the reward is forgotten at once,
    and near 1 where places differ for long. As the model of the largest weight has it; 1 before any
    observation.

    Parameters
    ----------
    bank : Bank
    t : float
        Time of the decision, not before the latest observation.
    """
    if not bank.filters:
        return np.ones(len(bank.points))
    one = single(bank, int(bank.weights.argmax()), t)
    H = one.layout.rows(np.arange(len(bank.points)))
    covariances = predictable_part(bank, one), one.covariance[0]
    shown, every = (np.einsum("ij,jk,ik->i", H, each, H) for each in covariances)
    share = np.maximum(shown, 0.0) / np.maximum(every, np.finfo(float).tiny)
    return np.asarray(np.sqrt(np.minimum(share, 1.0)))


def single(bank: FilterEnsemble, member: int, t: float) -> Filters:
    """One of the models that are awake, alone, moved to a time."""
    for filters in bank.filters:
        if member < len(filters):
            break
        member -= len(filters)
    return filters.take(np.array([member])).moved(elapsed(bank.time, t, bank.step))


def predictable_part(bank: FilterEnsemble, one: Filters) -> Array:
    """How far (S, S) rewards after a decision would move what a single model expects of its state then.

    In units of its squared scale; see `gp.filtering.future.predictable`.
    """
    noise = float(one.white[0]) + bank.noise_variance / float(one.variance[0, 0])
    model = _Model(one.settings[0], bank.points.shape, bank.points.tobytes(), one.layout)
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

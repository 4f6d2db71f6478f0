"""What an aging map may look at, and what it can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tvbandits.core.arrays import Array, Index
from tvbandits.core.observations import Observations, Source

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Ages:
    """What an aging map may look at: one row for each observation.

    Attributes
    ----------
    age : array of shape (n,)
        Time from the observation to the decision, in the user's unit; not negative.
    newer : integer array of shape (n,)
        Number of told rewards that are newer than the observation (among equal times, the one told
        later is the newer).
    told : int
        Number of rewards told so far: the "t" of the schedules in the literature.
    """

    age: Array
    newer: Index
    told: int

    @classmethod
    def of(cls, observations: Observations, now: float) -> Ages:
        """Ages of rewards and answers as seen at the time `now`."""
        t = observations.t
        is_reward = observations.source == Source.REWARD
        if is_reward.all() and (t[1:] >= t[:-1]).all():  # told in order, as nearly always
            newer = np.arange(len(t) - 1, -1, -1)
            return cls(np.maximum(now - t, 0.0), newer, len(t))
        told = int(is_reward.sum())
        newer = np.empty(len(t), dtype=np.int64)
        reward_times = t[is_reward]
        order = np.argsort(reward_times, kind="stable")
        rank = np.empty(told, dtype=np.int64)
        rank[order] = np.arange(told)
        newer[is_reward] = told - 1 - rank
        # An answer was asked after the rewards of its own time were told.
        older = np.searchsorted(reward_times[order], t[~is_reward], side="right")
        newer[~is_reward] = told - older
        return cls(np.maximum(now - t, 0.0), newer, told)


class Aging(Protocol):
    """A map from noise variances (n,) and ages to effective noise variances (n,)."""

    def __call__(self, variance: Array, ages: Ages) -> Array:
        """Effective variance of each observation; infinite where it is forgotten."""
        ...


@runtime_checkable
class Final(Protocol):
    """A map under which variances never fall again, and that knows what it has forgotten for good."""

    def gone(self, variance: Array, ages: Ages) -> Mask:
        """Which observations are forgotten now and after any rewards that come in order of time."""
        ...


@runtime_checkable
class Paced(Protocol):
    """A map with one number for how fast observations age."""

    @property
    def pace(self) -> float:
        """That number; larger ages faster."""
        ...

    def at_pace(self, pace: float) -> Aging:
        """The same map with another pace, positive."""
        ...

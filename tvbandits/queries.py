"""Query plans: which points to ask the expert about, now.

A plan sees inputs only, never values: the guarantee of SparQ-GP-UCB rests on that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tvbandits import dpp
from tvbandits.observations import Array, Index


@dataclass(frozen=True)
class Pool:
    """What a plan may choose from.

    Attributes
    ----------
    points : array of shape (N, d)
        The distinct points played so far, in the order of their first play.
    told : int
        Number of rewards told so far, the "t" of schedules.
    covariance : callable
        `covariance()` returns the prior covariance (N, N) of the reward at the points, at one time.
    """

    points: Array
    told: int
    covariance: Callable[[], Array]

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Choice:
    """Rows of the pool to ask about, and how the draw went.

    Attributes
    ----------
    rows : integer array of shape (q,)
    acceptance : float
        Share of the chain's steps that moved; NaN where no chain ran.
    """

    rows: Index
    acceptance: float = math.nan


class QueryPlan(Protocol):
    """A rule for the points to ask about; it may choose none."""

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:
        """Distinct rows of the pool."""
        ...


@dataclass(frozen=True)
class LogSchedule:
    """ceil(factor log t) queries after t told rewards; the paper's experiments take factor = 6."""

    factor: float = 6.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor >= 0):
            raise ValueError(f"factor must be finite and not negative, got {self.factor}")

    def __call__(self, told: int) -> int:
        """Number of queries."""
        return math.ceil(self.factor * math.log(max(told, 1)))


@dataclass(frozen=True)
class PolylogSchedule:
    """ceil(factor log^d(t / accuracy)): the number of queries of the theory ([S] eq. 57)."""

    dimension: int
    factor: float = 1.0
    accuracy: float = 0.2

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {self.dimension}")
        if not (math.isfinite(self.factor) and self.factor >= 0):
            raise ValueError(f"factor must be finite and not negative, got {self.factor}")
        if not 0 < self.accuracy <= 1:
            raise ValueError(f"accuracy must lie in (0, 1], got {self.accuracy}")

    def __call__(self, told: int) -> int:
        """Number of queries."""
        return math.ceil(self.factor * math.log(max(told, 1) / self.accuracy) ** self.dimension)


@dataclass(frozen=True)
class KDPP:
    """An approximate k-DPP over the points played so far: SparQ-GP-UCB, Algorithms 1 to 3.

    Parameters
    ----------
    schedule : callable or int
        `schedule(t)` returns how many points to ask about after t told rewards. Where fewer distinct
        points have been played, all of them are asked. A number is a constant schedule.
    sweeps : float
        Length of the chain in lazy steps for each chosen point: `ceil(sweeps k)` steps from the greedy
        set. The paper leaves it open. About 5 N steps on a pool of N cannot be told from an exact draw.
        But the greedy set leaves a smaller trace tr(K - Q), the quantity that the guarantee is about,
        than a typical draw does, and under the theorem's width regret grows with the length of the
        chain (`python -m benchmarks --only chain`), so the default stays near the greedy set.
    accuracy : float, optional
        Where given, the length is the theory's O(N k log(N / accuracy)) instead of `sweeps`.
    jitter : float
        Relative to the mean prior variance; see `tvbandits.dpp`.
    """

    schedule: Callable[[int], int] | int = LogSchedule()
    sweeps: float = 0.5
    accuracy: float | None = None
    jitter: float = 1e-8

    def __post_init__(self) -> None:
        whole = isinstance(self.schedule, int | np.integer) and self.schedule >= 0
        if not (callable(self.schedule) or whole):
            raise ValueError(
                f"schedule must be a function of t or a whole number >= 0, got {self.schedule!r}"
            )
        if not (math.isfinite(self.sweeps) and self.sweeps >= 0):
            raise ValueError(f"sweeps must be finite and not negative, got {self.sweeps}")
        if self.accuracy is not None and not 0 < self.accuracy < 1:
            raise ValueError(f"accuracy must lie in (0, 1), got {self.accuracy}")

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:
        """Run the chain."""
        wanted = self.schedule(pool.told) if callable(self.schedule) else self.schedule
        if not (math.isfinite(wanted) and wanted >= 0 and int(wanted) == wanted):
            raise ValueError(f"schedule({pool.told}) must be a whole number >= 0, got {wanted}")
        N, k = len(pool), int(wanted)
        if k >= N:
            return Choice(np.arange(N))
        if k == 0:
            return Choice(np.empty(0, dtype=np.int64))
        steps = math.ceil(self.sweeps * k)
        if self.accuracy is not None:
            steps = dpp.mixing_steps(N, k, self.accuracy)
        sample = dpp.sample_mcmc(pool.covariance(), k, steps=steps, rng=rng, jitter=self.jitter)
        return Choice(sample.indices, sample.acceptance)

"""What a posterior says about the next decision, and what answers would change about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tvbandits import linalg
from tvbandits.observations import Array


@dataclass(frozen=True)
class Beliefs:
    """Mean and deviation of the reward at some points at the time of the next decision.

    An answer speaks about the reward now, the decision is made later: how much the one tells about the
    other is the posterior covariance across that time.

    Attributes
    ----------
    mean, deviation : arrays of shape (N,)
        In the unit of reward.
    beta : float
        Confidence width, in deviations.
    noise_variance : float
        Of an answer (unit of reward squared).
    reach : callable
        `reach(i)` is the posterior covariance (N,) between the reward at all points at the time of the
        decision and the reward at point i now.
    among : callable
        `among(rows, i)` is the posterior covariance between the reward at points `rows` and at point i,
        all of them now.
    """

    mean: Array
    deviation: Array
    beta: float
    noise_variance: float
    reach: Callable[[int], Array]
    among: Callable[[Sequence[int], int], Array]
    _rows: tuple[int, ...] = ()
    _factor: Array = field(default_factory=lambda: np.empty((0, 0)))
    _known: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def upper(self) -> Array:
        """Upper confidence bounds, shape (N,)."""
        return np.asarray(self.mean + self.beta * self.deviation)

    @property
    def lower(self) -> Array:
        """Lower confidence bounds, shape (N,)."""
        return np.asarray(self.mean - self.beta * self.deviation)

    def after(self, row: int) -> Beliefs:
        """The beliefs once point `row` has been asked about: means stay, deviations shrink.

        The observations so far and the points asked about together have a covariance matrix whose
        Cholesky factor grows by one row; the variance at x falls by the square of the new entry.
        """
        rows = (*self._rows, row)
        covariance = self.among(rows, row)
        n = len(self._rows)
        below = linalg.solve_lower(self._factor, covariance[:-1]) if n else np.empty(0)
        pivot = math.sqrt(max(float(covariance[-1] - below @ below), 0.0) + self.noise_variance)
        fresh = self.reach(row)
        if n:
            fresh = fresh - below @ self._known
        fresh = fresh / pivot
        factor = np.zeros((n + 1, n + 1))
        factor[:n, :n], factor[n, :n], factor[n, n] = self._factor, below, pivot
        known = np.vstack([self._known, fresh]) if n else fresh[None, :]
        variance = np.maximum(self.deviation**2 - fresh**2, 0.0)
        return replace(self, deviation=np.sqrt(variance), _rows=rows, _factor=factor, _known=known)

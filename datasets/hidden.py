"""Rewards that do not drift, with a narrow peak that a run may never find.

[FB] = F. Berkenkamp, A. P. Schoellig and A. Krause. No-regret Bayesian optimization with unknown
hyperparameters. JMLR 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from tvbandits.datasets.base import CandidatesProblem, IntervalProblem, Synthetic
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import Array, as_points, as_time


def normal_density(x: Array, mean: float, deviation: float) -> Array:
    """Return the density of a normal distribution at numbers (n,), shape (n,)."""
    z = (x - mean) / deviation
    return np.asarray(np.exp(-0.5 * z**2) / (deviation * np.sqrt(2.0 * np.pi)))


@dataclass(frozen=True)
class BerkenkampToy(IntervalProblem):
    """The toy problem of [FB]: a slope that leads away from a higher peak.

    f(x, t) = 0.6 x + p(x) / 8 on [0, 1], where p is the density of a normal distribution with mean 0.2
    and standard deviation 0.08. The reward is 0.74 at the peak near 0.2 and 0.6 at the end of the slope.
    The noise, of standard deviation 0.01, is not in [FB].

    Parameters
    ----------
    candidates : int
        Number of evenly spaced candidates; 0 for the whole interval as a `Box`.
    horizon : int
    noise_variance : float

    Examples
    --------
    >>> from tvbandits.datasets import BerkenkampToy
    >>> problem = BerkenkampToy()
    >>> rewards = problem.value(problem.domain.X, 1)
    >>> print(problem.domain.X[rewards.argmax()], round(problem.best(1), 3), round(rewards[-1], 3))
    [0.21] 0.744 0.6
    """

    candidates: int = 101
    horizon: int = 120
    noise_variance: float = 1e-4
    name: str = "berkenkamp-toy"
    ends = (0.0, 1.0)
    variation = 0.0

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, 1), shape (n,)."""
        as_time(t)
        x = as_points(X, 1)[:, 0]
        return np.asarray(0.6 * x + normal_density(x, 0.2, 0.08) / 8.0)

    def largest_reward(self, t: float) -> float:
        """Return the reward at the peak, from a grid with spacing 1e-5."""
        return float(self.value(np.linspace(0.15, 0.25, 10_001)[:, None], t).max())


@dataclass(frozen=True)
class NarrowBump(CandidatesProblem, Synthetic):
    """A bump an eighth as wide as the broad, low hill beside it, on a grid of the unit square.

    f(x, t) = exp(-|x - c|^2 / (2 l^2)) + 0.5 exp(-|x - h|^2 / (2 (8 l)^2)), with l = 0.025, the bump at
    c = (0.7, 0.6) and the hill at h = (0.35, 0.4). With 21 points per axis, the bump adds 1 at one of
    the 441 points, 0.14 at its four neighbours, and less than 0.02 at all others.

    Parameters
    ----------
    points_per_axis : int
    horizon : int
    noise_variance : float

    Examples
    --------
    >>> from tvbandits.datasets import NarrowBump
    >>> problem = NarrowBump()
    >>> rewards = problem.rewards_at(1)
    >>> print(problem.domain.X[rewards.argmax()], problem.best(1) == rewards.max())
    [0.7 0.6] True
    """

    points_per_axis: int = 21
    horizon: int = 120
    noise_variance: float = 0.01
    name: str = "narrow-bump"
    ranges: ClassVar = {"horizon": (1, 10_000_000), "points_per_axis": (1, 1000)}
    variation = 0.0

    width: ClassVar[float] = 0.2
    bump: ClassVar[tuple[float, float]] = (0.7, 0.6)
    hill: ClassVar[tuple[float, float]] = (0.35, 0.4)

    @cached_property
    def domain(self) -> Candidates:
        """Return the grid on the unit square."""
        return Candidates.grid([(0.0, 1.0), (0.0, 1.0)], self.points_per_axis)

    def rewards_at(self, t: float) -> Array:
        """Return the rewards of all candidates, shape (A,), the same at any time."""
        as_time(t)
        squares = cdist(self.domain.X, [self.bump, self.hill], "sqeuclidean")
        bump, hill = np.exp(-squares / (2 * np.array([self.width / 8, self.width]) ** 2)).T
        return np.asarray(bump + 0.5 * hill)


PROBLEMS = (
    NamedProblem("berkenkamp-toy", BerkenkampToy, "a slope that leads away from a higher peak"),
    NamedProblem("narrow-bump", NarrowBump, "a narrow bump beside a broad low hill"),
)

"""Baselines without a model of the reward, with the same ask and tell.

None of them looks at times or noise variances: they are checked, and that is all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from tvbandits.bandit.state import Info
from tvbandits.core.arrays import (
    Array,
    as_column,
    as_floats,
    as_generator,
    as_points,
    as_time,
    finite_number,
    positive_number,
    whole_number,
)
from tvbandits.core.domains import Box, Candidates
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import Domain
from tvbandits.policies.setting import Setting


class _Baseline(ABC):
    """What all of them share: a domain, a generator of their own, and checks before anything moves."""

    def __init__(self, domain: Domain, seed: int | np.random.Generator) -> None:
        self._domain = domain
        rng = as_generator(seed)
        self._rng = rng.spawn(1)[0] if rng is seed else rng
        self._told = 0

    @property
    def info(self) -> Info:
        """Only the number of rewards told."""
        return Info(told=self._told)

    def ask(self, t: float | None = None) -> Array:
        """Where to play next, shape (1, d).

        Raises
        ------
        ValueError
            If `t` is not a finite number.
        """
        if t is not None:
            as_time(t)
        return self._choose()

    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike,
        t: ArrayLike | None = None,
        variance: ArrayLike | None = None,
    ) -> Info:
        """Learn rewards (n,) of points (n, d), asked for or not: wholly, or not at all.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is not finite, a variance is not positive, or a point lies
            outside the domain.
        """
        points = self._domain.check(as_points(X, self._domain.dimension))
        n = len(points)
        if n == 0:
            raise ValueError(f"X must have at least one point, got shape {points.shape}")
        told = Observations(
            points,
            as_column(0.0 if t is None else t, n, "t"),
            as_column(np.atleast_1d(as_floats(y, "y")), n, "y"),
            as_column(1.0 if variance is None else variance, n, "variance"),
        )
        self._learn(told.X, told.y)
        self._told += n
        return self.info

    @abstractmethod
    def _choose(self) -> Array:
        """The next point, shape (1, d)."""

    @abstractmethod
    def _learn(self, X: Array, y: Array) -> None:
        """Take in rewards `y` (n,) of points `X` (n, d), which are checked."""


class Uniform(_Baseline):
    """Plays a point of the domain at random, whatever it is told.

    Parameters
    ----------
    domain : Domain
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.
    """

    def __init__(self, domain: Domain, *, seed: int | np.random.Generator = 0) -> None:
        super().__init__(domain, seed)

    def _choose(self) -> Array:
        return self._domain.sample(1, self._rng)

    def _learn(self, X: Array, y: Array) -> None:
        """Nothing is learned."""


class EpsilonGreedy(_Baseline):
    """Plays the point of the best mean reward so far, and at times one at random (Auer 2002).

    Step t, which is one more than the number of rewards told, plays a uniform point with probability

        epsilon_t = min(epsilon, decay / t),

    the schedule of Auer, Cesa-Bianchi & Fischer 2002 (Theorem 3) where epsilon is 1, and a point of the
    best mean otherwise; ties fall at random. Means are those of each distinct point, without a prior and
    without neighbours: a point that was never played is only ever found at random. The experiments of
    Calandriello et al. 2020, which have this baseline, do not state their schedule.

    Parameters
    ----------
    domain : Domain
        On a `Box`, where no point comes back by chance, the best of the points played.
    epsilon : float
        The largest probability of a uniform point, in [0, 1]. The first point is always uniform.
    decay : float or None
        Positive: so many steps are uniform at first (if epsilon is 1), and decay log(T / decay) of the
        others up to T. None: epsilon_t is epsilon at every step.
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.

    References
    ----------
    P. Auer, N. Cesa-Bianchi and P. Fischer. Finite-time analysis of the multiarmed bandit problem.
    Machine Learning 47, 2002.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        epsilon: float = 1.0,
        decay: float | None = 100.0,
        seed: int | np.random.Generator = 0,
    ) -> None:
        finite_number("epsilon", epsilon, low=0.0, high=1.0)
        if decay is not None:
            positive_number("decay", decay)
        super().__init__(domain, seed)
        self._epsilon, self._decay = float(epsilon), decay
        self._row: dict[bytes, int] = {}
        self._points = np.empty((0, domain.dimension))
        self._means = np.empty(0)
        self._counts = np.empty(0, dtype=np.int64)

    @property
    def exploration(self) -> float:
        """Probability that the next point is uniform."""
        if self._told == 0:
            return 1.0
        if self._decay is None:
            return self._epsilon
        return min(self._epsilon, self._decay / (self._told + 1))

    def _choose(self) -> Array:
        if self._rng.random() < self.exploration:
            return self._domain.sample(1, self._rng)
        best = np.flatnonzero(self._means == self._means.max())
        row = best[0] if len(best) == 1 else best[self._rng.integers(len(best))]
        return self._points[[row]]

    def _learn(self, X: Array, y: Array) -> None:
        # Adding 0.0 turns -0.0, which is the same point in other bytes, into 0.0.
        rows = [self._row.setdefault(x.tobytes(), len(self._row)) for x in X + 0.0]
        new = len(self._row) - len(self._means)
        if new:
            first = dict(zip(rows, X, strict=True))
            fresh = [first[row] for row in range(len(self._means), len(self._row))]
            self._points = np.concatenate([self._points, fresh])
            self._means = np.concatenate([self._means, np.zeros(new)])
            self._counts = np.concatenate([self._counts, np.zeros(new, dtype=np.int64)])
        for row, value in zip(rows, y, strict=True):
            self._counts[row] += 1
            # Rewards that are all equal have exactly that mean, so that ties are ties.
            self._means[row] += (value - self._means[row]) / self._counts[row]


class RegularisedEvolution(_Baseline):
    """Aging evolution (Real 2019, Algorithm 1): the oldest dies, however good it is.

    The population is the last `population` points told, with their rewards. Until it is full, points are
    uniform. Then each step draws `tournament` members at random, with replacement, and plays a mutation
    of the one with the best reward; told, it joins the population, and the oldest member leaves. Points
    that were not asked for join it just the same.

    A mutation changes a little of the winner. The algorithm was made for architectures, where one
    component is changed, and is carried over to points like this:

    * `Candidates`: one of the `mutation` nearest other candidates, uniformly. Distances are Euclidean in
      inputs that are divided by their standard deviation over the candidates.
    * `Box`: a Gaussian step with a deviation of `mutation` times the side along each coordinate, clipped
      to the box.

    Parameters
    ----------
    domain : Candidates or Box
    population : int
        P; 100 by default, and tournaments of 10, are those of the code that the experiments of
        Calandriello et al. 2020 ran (the published benchmark scripts of Ying et al. 2019).
    tournament : int
        S; 1 is a random walk without selection.
    mutation : int or float, optional
        Number of neighbours of a candidate (10 by default), or share of a side of a box (0.1).
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.

    References
    ----------
    E. Real, A. Aggarwal, Y. Huang and Q. V. Le. Regularized evolution for image classifier architecture
    search. AAAI 2019.
    """

    def __init__(
        self,
        domain: Candidates | Box,
        *,
        population: int = 100,
        tournament: int = 10,
        mutation: float | None = None,
        seed: int | np.random.Generator = 0,
    ) -> None:
        for name, size in (("population", population), ("tournament", tournament)):
            whole_number(name, size)
        super().__init__(domain, seed)
        self._mutation: _Neighbour | _Step
        if isinstance(domain, Candidates):
            self._mutation = _Neighbour(domain, 10 if mutation is None else mutation)
        elif isinstance(domain, Box):
            self._mutation = _Step(domain, 0.1 if mutation is None else mutation)
        else:
            raise ValueError(f"mutations are known on Candidates and on a Box, got {domain!r}")
        self._tournament = tournament
        self._members: deque[tuple[Array, float]] = deque(maxlen=population)

    @property
    def population(self) -> tuple[Array, Array]:
        """Its points (p, d) and their rewards (p,), the oldest first."""
        X = np.array([x for x, _ in self._members]).reshape(-1, self._domain.dimension)
        return X, np.array([y for _, y in self._members])

    def _choose(self) -> Array:
        if len(self._members) < (self._members.maxlen or 0):
            return self._domain.sample(1, self._rng)
        drawn = self._rng.integers(len(self._members), size=self._tournament)
        winner, _ = max((self._members[row] for row in drawn), key=lambda member: member[1])
        return self._mutation(winner, self._rng)[None, :]

    def _learn(self, X: Array, y: Array) -> None:
        self._members.extend(zip(X.copy(), y.tolist(), strict=True))


class _Neighbour:
    """A mutation of a candidate: one of the others that are nearest to it."""

    def __init__(self, domain: Candidates, count: float) -> None:
        neighbours = whole_number("mutation, a number of neighbours on Candidates,", count)
        deviation = domain.X.std(axis=0)
        self._domain = domain
        self._standardised = domain.X / np.where(deviation > 0, deviation, 1.0)
        self._tree: cKDTree[None, None] = cKDTree(self._standardised)
        self._count = min(neighbours, len(domain) - 1)

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        """A neighbour of `x` (d,); `x` itself where there is no other candidate."""
        if self._count == 0:
            return x.copy()
        (row,) = self._domain.index(x)
        near = np.asarray(self._tree.query(self._standardised[row], k=self._count + 1)[1])
        others = near[near != row][: self._count]
        return np.asarray(self._domain.X[rng.choice(others)].copy())


class _Step:
    """A mutation of a point in a box: a Gaussian step, clipped to the box."""

    def __init__(self, domain: Box, share: float) -> None:
        positive_number("mutation, a share of a Box,", share)
        self._low, self._high = domain.bounds.T
        self._deviation = share * (self._high - self._low)

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        """A point near `x` (d,)."""
        step = self._deviation * rng.standard_normal(len(x))
        return np.asarray(np.clip(x + step, self._low, self._high))


def make_eps_greedy(setting: Setting, epsilon: float = 1.0, decay: float = 100.0) -> EpsilonGreedy:
    return EpsilonGreedy(setting.domain, epsilon=epsilon, decay=decay, seed=setting.seed)


def make_evolution(
    setting: Setting, population: int = 100, tournament: int = 10
) -> RegularisedEvolution:
    domain = setting.domain
    if not isinstance(domain, Candidates | Box):
        raise ValueError(f"evolution needs Candidates or a Box, got {domain!r}")
    return RegularisedEvolution(
        domain, population=population, tournament=tournament, seed=setting.seed
    )


def make_uniform(setting: Setting) -> Uniform:
    return Uniform(setting.domain, seed=setting.seed)

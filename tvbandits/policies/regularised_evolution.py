"""Regularised evolution, a baseline of the experiments of BBKB.

References
----------
E. Real, A. Aggarwal, Y. Huang and Q. V. Le. Regularized evolution for image classifier architecture
    search. AAAI 2019.
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Near-linear time Gaussian process
    optimization with adaptive batching and resparsification. ICML 2020. ([BB])
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from tvbandits.core.arrays import Array, positive_number, whole_number
from tvbandits.core.box import Box
from tvbandits.core.candidates import Candidates
from tvbandits.core.coercion import shown
from tvbandits.core.protocols import Domain
from tvbandits.policies.player import ModelFree
from tvbandits.policies.setting import PlotStyle, Policy, Seed, described


class RegularisedEvolution(ModelFree):
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
    minimise : bool
        Smaller rewards are better.
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.

    References
    ----------
    E. Real, A. Aggarwal, Y. Huang and Q. V. Le. Regularized evolution for image classifier architecture
    search. AAAI 2019.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        population: int = 100,
        tournament: int = 10,
        mutation: float | None = None,
        minimise: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> None:
        for name, size in (("population", population), ("tournament", tournament)):
            whole_number(name, size)
        super().__init__(domain, seed, minimise)
        self._mutation: _Neighbour | _Step
        if isinstance(domain, Candidates):
            self._mutation = _Neighbour(domain, 10 if mutation is None else mutation)
        elif isinstance(domain, Box):
            self._mutation = _Step(domain, 0.1 if mutation is None else mutation)
        else:
            raise ValueError(f"mutations are known on Candidates and on a Box, got {shown(domain)}")
        self._tournament = tournament
        self._members: deque[tuple[Array, float]] = deque(maxlen=population)

    @property
    def population(self) -> tuple[Array, Array]:
        """Its points (p, d) and their rewards (p,), the oldest first."""
        X = np.array([x for x, _ in self._members]).reshape(-1, self._domain.dimension)
        return X, self._sign * np.array([y for _, y in self._members])

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

    def __saved__(self) -> dict[str, Any]:
        return {"domain": self._domain, "count": max(self._count, 1)}

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

    def __saved__(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def __restored__(cls, _low: Array, _high: Array, _deviation: Array) -> _Step:
        made = object.__new__(cls)
        made._low, made._high, made._deviation = _low, _high, _deviation
        return made

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        """A point near `x` (d,)."""
        step = self._deviation * rng.standard_normal(len(x))
        return np.asarray(np.clip(x + step, self._low, self._high))


@described
def evolution(
    domain: Domain,
    *,
    population: int = 100,
    tournament: int = 10,
    mutation: int | float | None = None,
    minimise: bool = False,
    seed: Seed = 0,
) -> RegularisedEvolution:
    """Regularised evolution (Real 2019): mutations of the best of a few; the oldest dies.

    Parameters
    ----------
    population : int
        P: so many of the latest points are kept.
    tournament : int
        S: so many of them, drawn at random, compete; the best is mutated.
    mutation : int or float, optional
        Number of neighbours of a candidate (10 by default), or share of a side of a box (0.1).

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.evolution(sites, population=5, tournament=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    return RegularisedEvolution(
        domain,
        population=population,
        tournament=tournament,
        mutation=mutation,
        minimise=minimise,
        seed=seed,
    )


POLICIES = (
    Policy(
        "evolution",
        evolution,
        "regularised evolution",
        paper="Real 2019",
        look=PlotStyle("#333314", (0, (4, 1, 4, 1, 1, 1)), 1.8, "h"),
    ),
)

"""Baselines without a model of the reward, with the same ask and tell.

None of them looks at times or noise variances: they are checked, and that is all.

References
----------
P. Auer, N. Cesa-Bianchi and P. Fischer. Finite-time analysis of the multiarmed bandit problem.
    Machine Learning 47, 2002. (epsilon-greedy)
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.state import Info
from tvbandits.core.arrays import Array, as_column, as_floats, as_points, is_finite_number
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import Domain
from tvbandits.policies.setting import Look, Policy, Seed, described


class Baseline(ABC):
    """What all of them share: a domain, a generator of their own, and checks before anything moves."""

    def __init__(self, domain: Domain, seed: int | np.random.Generator) -> None:
        self._domain = domain
        self._rng = (
            seed.spawn(1)[0]
            if isinstance(seed, np.random.Generator)
            else np.random.default_rng(seed)
        )
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
        if t is not None and not is_finite_number(t):
            raise ValueError(f"t must be a finite number, got {t!r}")
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


class Uniform(Baseline):
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


class EpsilonGreedy(Baseline):
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
        if not (is_finite_number(epsilon) and 0 <= epsilon <= 1):
            raise ValueError(f"epsilon must lie in [0, 1], got {epsilon!r}")
        if decay is not None and not (is_finite_number(decay) and decay > 0):
            raise ValueError(f"decay must be positive and finite, or None, got {decay!r}")
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


@described
def uniform(domain: Domain, *, seed: Seed = 0) -> Uniform:
    """A point of the domain at random, whatever it is told."""
    return Uniform(domain, seed=seed)


UNIFORM = Policy(
    "uniform",
    uniform,
    "a point of the domain at random",
    paper="",
    look=Look("#767676", "-", 1.6, "o"),
    first_comparison=True,
)


@described
def eps_greedy(
    domain: Domain, *, epsilon: float = 1.0, decay: float | None = 100.0, seed: Seed = 0
) -> EpsilonGreedy:
    """The point of the best mean reward so far, and at times one at random (Auer 2002).

    Parameters
    ----------
    epsilon : float
        The largest probability of a uniform point, in [0, 1].
    decay : float or None
        Step t plays a uniform point with probability min(epsilon, decay / t); None: always epsilon.
    """
    return EpsilonGreedy(domain, epsilon=epsilon, decay=decay, seed=seed)


EPS_GREEDY = Policy(
    "eps-greedy",
    eps_greedy,
    "the best point so far, at random min(epsilon, decay / t)",
    paper="Auer 2002",
    look=Look("#44607c", (0, (1, 1, 1, 3)), 2.4, "8"),
)


POLICIES = (UNIFORM, EPS_GREEDY)

"""Baselines without a model of the reward, with the same ask and tell.

None of them looks at times or noise variances: they are checked and kept, and that is all.

References
----------
P. Auer, N. Cesa-Bianchi and P. Fischer. Finite-time analysis of the multiarmed bandit problem.
    Machine Learning 47, 2002. (epsilon-greedy)
"""

from __future__ import annotations

import numpy as np

from tvbandits.core.arrays import Array, finite_number, positive_number
from tvbandits.core.protocols import Domain
from tvbandits.policies.player import ModelFree
from tvbandits.policies.setting import PlotStyle, Policy, Seed, described


class Uniform(ModelFree):
    """Plays a point of the domain at random, whatever it is told.

    Parameters
    ----------
    domain : Domain
    minimise : bool
        Smaller rewards are better.
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        minimise: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__(domain, seed, minimise)

    def _choose(self) -> Array:
        return self._domain.sample(1, self._rng)

    def _learn(self, X: Array, y: Array) -> None:
        """Nothing is learned."""


class EpsilonGreedy(ModelFree):
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
    minimise : bool
        Smaller rewards are better.
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
        minimise: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> None:
        finite_number("epsilon", epsilon, low=0.0, high=1.0)
        if decay is not None:
            positive_number("decay", decay)
        super().__init__(domain, seed, minimise)
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
def uniform(domain: Domain, *, minimise: bool = False, seed: Seed = 0) -> Uniform:
    """A point of the domain at random, whatever it is told.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.uniform(sites)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    return Uniform(domain, minimise=minimise, seed=seed)


UNIFORM = Policy(
    "uniform",
    uniform,
    "a point of the domain at random",
    paper="",
    look=PlotStyle("#767676", "-", 1.6, "o"),
    first_comparison=1,
)


@described
def eps_greedy(
    domain: Domain,
    *,
    epsilon: float = 1.0,
    decay: float | None = 100.0,
    minimise: bool = False,
    seed: Seed = 0,
) -> EpsilonGreedy:
    """The point of the best mean reward so far, and at times one at random (Auer 2002).

    Parameters
    ----------
    epsilon : float
        The largest probability of a uniform point, in [0, 1].
    decay : float or None
        Step t plays a uniform point with probability min(epsilon, decay / t); None: always epsilon.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.eps_greedy(sites)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    return EpsilonGreedy(domain, epsilon=epsilon, decay=decay, minimise=minimise, seed=seed)


EPS_GREEDY = Policy(
    "eps-greedy",
    eps_greedy,
    "the best point so far, at random min(epsilon, decay / t)",
    paper="Auer 2002",
    look=PlotStyle("#294e66", (0, (1, 1, 1, 3)), 2.4, "8"),
)


POLICIES = (UNIFORM, EPS_GREEDY)

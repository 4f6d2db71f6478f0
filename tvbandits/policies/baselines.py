"""Baselines without a model of the reward, with the same ask and tell.

None of them looks at times or noise variances: they are checked and kept, and that is all.

References
----------
P. Auer, N. Cesa-Bianchi and P. Fischer. Finite-time analysis of the multiarmed bandit problem.
    Machine Learning 47, 2002. (epsilon-greedy)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.core.arrays import Array, finite_number, positive_number
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain
from tvbandits.policies.ruled import PolicyAdapter, adapted, tried
from tvbandits.policies.setting import PlotStyle, Policy, Seed, described


@dataclass(eq=False)
class Uniform:
    """The rule of `uniform`."""

    domain: Domain

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Any point."""
        return tried(lambda: self.domain.sample(1, rng)[0], allowed, rng)

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:
        """Nothing is learned."""


@dataclass(eq=False)
class EpsilonGreedy:
    """The rule of `eps_greedy`.

    Attributes
    ----------
    row : dict
        Of each distinct point, by its bytes, in the arrays that follow.
    points, means, counts : array of shape (n, d), (n,) and (n,)
        Distinct points, the means of their rewards, and how many these are.
    """

    domain: Domain
    epsilon: float
    decay: float | None
    points: Array
    means: Array = field(default_factory=lambda: np.empty(0))
    counts: Array = field(default_factory=lambda: np.empty(0))
    row: dict[bytes, int] = field(default_factory=dict)

    @property
    def exploration(self) -> float:
        """Probability that the next point is uniform."""
        told = int(self.counts.sum())
        if told == 0:
            return 1.0
        return self.epsilon if self.decay is None else min(self.epsilon, self.decay / (told + 1))

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """A point of the best mean, or any one."""
        return tried(lambda: self._drawn(rng), allowed, rng)

    def _drawn(self, rng: np.random.Generator) -> Array:
        if rng.random() < self.exploration:
            return np.asarray(self.domain.sample(1, rng)[0])
        best = np.flatnonzero(self.means == self.means.max())
        row = best[0] if len(best) == 1 else best[rng.integers(len(best))]
        return np.asarray(self.points[row])

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Means of the points, the new ones among them."""
        # Adding 0.0 turns -0.0, which is the same point in other bytes, into 0.0.
        rows = [self.row.setdefault(x.tobytes(), len(self.row)) for x in rewards.X + 0.0]
        known = len(self.means)
        if new := len(self.row) - known:
            first = dict(zip(rows, rewards.X, strict=True))
            fresh = [first[row] for row in range(known, known + new)]
            self.points = np.concatenate([self.points, fresh])
            self.means = np.concatenate([self.means, np.zeros(new)])
            self.counts = np.concatenate([self.counts, np.zeros(new)])
        for row, value in zip(rows, rewards.y, strict=True):
            self.counts[row] += 1
            # Rewards that are all equal have exactly that mean, so that ties are ties.
            self.means[row] += (value - self.means[row]) / self.counts[row]


@described
def uniform(domain: Domain, *, minimise: bool = False, seed: Seed = 0) -> PolicyAdapter:
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
    return adapted(domain, Uniform(domain), minimise, seed)


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
) -> PolicyAdapter:
    """The point of the best mean reward so far, and at times one at random (Auer 2002).

    Step t, which is one more than the number of rewards told, plays a uniform point with probability

        epsilon_t = min(epsilon, decay / t),

    the schedule of Auer, Cesa-Bianchi & Fischer 2002 (Theorem 3) where epsilon is 1, and a point of the
    best mean otherwise; ties fall at random. Means are those of each distinct point, without a prior and
    without neighbours: a point that was never played is only ever found at random. The experiments of
    Calandriello et al. 2020, which have this baseline, do not state their schedule.

    Parameters
    ----------
    epsilon : float
        The largest probability of a uniform point, in [0, 1]. The first point is always uniform.
    decay : float or None
        Positive: so many steps are uniform at first (if epsilon is 1), and decay log(T / decay) of the
        others up to T. None: epsilon_t is epsilon at every step.

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
    finite_number("epsilon", epsilon, low=0.0, high=1.0)
    if decay is not None:
        positive_number("decay", decay)
    rule = EpsilonGreedy(domain, float(epsilon), decay, np.empty((0, domain.dimension)))
    return adapted(domain, rule, minimise, seed)


EPS_GREEDY = Policy(
    "eps-greedy",
    eps_greedy,
    "the best point so far, at random min(epsilon, decay / t)",
    paper="Auer 2002",
    look=PlotStyle("#294e66", (0, (1, 1, 1, 3)), 2.4, "8"),
)


POLICIES = (UNIFORM, EPS_GREEDY)

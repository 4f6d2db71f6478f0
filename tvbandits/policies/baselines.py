"""Baselines without a model of the reward, with the same ask and tell.

None of them looks at times or noise variances: they are checked and kept, and that is all.

References
----------
P. Auer, N. Cesa-Bianchi and P. Fischer. Finite-time analysis of the multiarmed bandit problem.
    Machine Learning 47, 2002. (epsilon-greedy)
E. Real, A. Aggarwal, Y. Huang and Q. V. Le. Regularized evolution for image classifier architecture
    search. AAAI 2019.
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Near-linear time Gaussian process
    optimization with adaptive batching and resparsification. ICML 2020. ([BB])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from tvbandits.bandit import adapter
from tvbandits.data import Dataset, Plays
from tvbandits.domains.availability import ChoiceSet
from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.ties import random_argmax
from tvbandits.validation import Array, Seed, describe, positive_number, whole_number


@dataclass(eq=False)
class Uniform:
    """The rule of `uniform`."""

    domain: Domain

    def choose(self, now: float, allowed: ChoiceSet, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Any point."""
        return adapter.draw_available(lambda: self.domain.sample(1, rng)[0], allowed, rng)

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Nothing is learned."""


@dataclass(eq=False)
class EpsilonGreedy:
    """The rule of `eps_greedy`.

    Attributes
    ----------
    seen : dict
        Distinct points (d,), the means of their rewards, and how many these are, by the points' bytes.
    """

    domain: Domain
    decay: float
    seen: dict[bytes, tuple[Array, float, int]] = field(default_factory=dict)

    @property
    def exploration(self) -> float:
        """Probability that the next point is uniform."""
        told = sum(count for _, _, count in self.seen.values())
        return min(1.0, self.decay / (told + 1)) if told else 1.0

    def choose(self, now: float, allowed: ChoiceSet, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """A point of the best mean, or any one."""
        return adapter.draw_available(lambda: self._propose(rng), allowed, rng)

    def _propose(self, rng: np.random.Generator) -> Array:
        if rng.random() < self.exploration:
            return np.asarray(self.domain.sample(1, rng)[0])
        points, means, _ = zip(*self.seen.values(), strict=True)
        return np.array(points[random_argmax(means, rng)])

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Means of the points, the new ones among them."""
        # Adding 0.0 turns -0.0, which is the same point in other bytes, into 0.0.
        for x, value in zip(rewards.X + 0.0, rewards.y.tolist(), strict=True):
            point, mean, count = self.seen.get(x.tobytes(), (x.copy(), 0.0, 0))
            # Rewards that are all equal have exactly that mean, so that ties are ties.
            self.seen[x.tobytes()] = point, mean + (value - mean) / (count + 1), count + 1


def uniform(domain: Domain, *, minimize: bool = False, seed: Seed = 0) -> adapter.PolicyAdapter:
    """Play points of the domain at random.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.uniform(sites)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.ask(11).shape)
    10 (1, 1)
    """
    return adapter.adapt(
        domain, Uniform(adapter.get_action_domain(domain)), minimize=minimize, seed=seed
    )


def eps_greedy(
    domain: Domain, *, decay: float = 100.0, minimize: bool = False, seed: Seed = 0
) -> adapter.PolicyAdapter:
    """Play the point of the best mean reward so far, and at times one at random (Auer 2002).

    Step t, which is one more than the number of rewards told, plays a uniform point with probability

        epsilon_t = min(1, decay / t),

    the schedule of Auer, Cesa-Bianchi & Fischer 2002 (Theorem 3), and a point of the best mean
    otherwise; ties fall at random. Means are those of each distinct point, without a prior and without
    neighbours: a point that was never played is only ever found at random. The experiments of
    Calandriello et al. 2020, which have this baseline, do not state their schedule.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    decay : float
        So many steps are uniform at first, and decay log(T / decay) of the others up to T. The first
        point is always uniform.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.eps_greedy(sites)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.ask(11).shape)
    10 (1, 1)
    """
    rule = EpsilonGreedy(adapter.get_action_domain(domain), positive_number("decay", decay))
    return adapter.adapt(domain, rule, minimize=minimize, seed=seed)


# A mutation: one of so many neighbours of a candidate, or such a share of the sides of a box.
NEIGHBOURS, SHARE = 10, 0.1


@dataclass(eq=False)
class RegularisedEvolution:
    """The rule of `evolution`: members are points with their rewards, the oldest first."""

    domain: Candidates | Box
    tournament: int
    population: int
    members: list[tuple[Array, float]] = field(default_factory=list)

    @cached_property
    def _tree(self) -> cKDTree[None, None]:
        """Of the candidates, in inputs that are divided by their deviations."""
        assert isinstance(self.domain, Candidates)
        deviation = self.domain.X.std(axis=0)
        return cKDTree(self.domain.X / np.where(deviation > 0, deviation, 1.0))

    def _mutation(self, x: Array, rng: np.random.Generator) -> Array:
        """A Gaussian step in a box; of a candidate (d,) a neighbour, or itself where it is alone."""
        if isinstance(self.domain, Box):
            low, high = self.domain.bounds.T
            step = SHARE * (high - low) * rng.standard_normal(len(x))
            return np.asarray(np.clip(x + step, low, high))
        count = min(NEIGHBOURS, len(self.domain) - 1)
        if count == 0:
            return x.copy()
        (row,) = self.domain.index(x)
        near = np.asarray(self._tree.query(self._tree.data[row], k=count + 1)[1])
        return np.asarray(self.domain.X[rng.choice(near[near != row][:count])].copy())

    def choose(self, now: float, allowed: ChoiceSet, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """A mutation of the winner of a tournament."""
        return adapter.draw_available(lambda: self._propose(rng), allowed, rng)

    def _propose(self, rng: np.random.Generator) -> Array:
        if len(self.members) < self.population:
            return np.asarray(self.domain.sample(1, rng)[0])
        drawn = rng.integers(len(self.members), size=self.tournament)
        winner, _ = max((self.members[row] for row in drawn), key=lambda member: member[1])
        return self._mutation(winner, rng)

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:  # noqa: ARG002
        """They join, and the oldest leave."""
        self.members.extend(zip(rewards.X.copy(), rewards.y.tolist(), strict=True))
        del self.members[: -self.population]


def evolution(
    domain: Domain,
    *,
    population: int = 100,
    tournament: int = 10,
    minimize: bool = False,
    seed: Seed = 0,
) -> adapter.PolicyAdapter:
    """Regularised evolution (Real 2019, Algorithm 1): mutations of the best of a few; the oldest dies.

    The population is the last `population` points told, with their rewards. Until it is full, points are
    uniform. Then each step draws `tournament` members at random, with replacement, and plays a mutation
    of the one with the best reward; told, it joins the population, and the oldest member leaves. Points
    that were not asked for join it just the same.

    A mutation changes a little of the winner. The algorithm was made for architectures, where one
    component is changed, and is carried over to points like this:

    * `Candidates`: one of the 10 nearest other candidates, uniformly. Distances are Euclidean in
      inputs that are divided by their standard deviation over the candidates.
    * `Box`: a Gaussian step with a deviation of a tenth of the side along each coordinate, clipped to
      the box.

    Parameters
    ----------
    domain : Candidates or Box
        Where it may play.
    population : int
        P; 100 by default, and tournaments of 10, are those of the code that the experiments of
        Calandriello et al. 2020 ran (the published benchmark scripts of Ying et al. 2019).
    tournament : int
        S: so many of them, drawn at random, compete; 1 is a random walk without selection.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.evolution(sites, population=5, tournament=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.ask(11).shape)
    10 (1, 1)
    """
    whole_number("population", population)
    whole_number("tournament", tournament)
    choices = adapter.get_action_domain(domain)
    if not isinstance(choices, Candidates | Box):
        raise ValueError(f"mutations are known on Candidates and on a Box, got {describe(choices)}")
    rule = RegularisedEvolution(choices, tournament, population)
    return adapter.adapt(domain, rule, minimize=minimize, seed=seed)

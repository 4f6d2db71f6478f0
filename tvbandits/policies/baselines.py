"""Baselines without a model of the reward, with the same ask and tell.

They use neither times nor noise variances, which are checked and stored all the same.

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
    """The rule of `uniform`, which plays points at random."""

    domain: Domain

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return a point (d,) at random."""
        return adapter.draw_available(lambda: self.domain.sample(1, rng)[0], allowed, rng)

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Do nothing: the choice does not depend on rewards."""


@dataclass(eq=False)
class EpsilonGreedy:
    """The rule of `eps_greedy`.

    Attributes
    ----------
    domain : Domain
    decay : float
    means : dict
        Of each point with rewards, by its bytes: the point (d,), the mean and the number of its rewards.
    """

    domain: Domain
    decay: float
    means: dict[bytes, tuple[Array, float, int]] = field(default_factory=dict)

    @property
    def exploration(self) -> float:
        """Return the probability that the next point is drawn at random."""
        rewards = sum(count for _, _, count in self.means.values())
        return min(1.0, self.decay / (rewards + 1)) if rewards else 1.0

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return a point (d,) of the best mean, or one at random."""
        return adapter.draw_available(lambda: self._propose(rng), allowed, rng)

    def _propose(self, rng: np.random.Generator) -> Array:
        if rng.random() < self.exploration:
            return np.asarray(self.domain.sample(1, rng)[0])
        points, means, _ = zip(*self.means.values(), strict=True)
        return np.array(points[random_argmax(means, rng)])

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Update the means of the points."""
        # Adding 0.0 turns -0.0, which is the same point in other bytes, into 0.0.
        for x, value in zip(rewards.X + 0.0, rewards.y.tolist(), strict=True):
            point, mean, count = self.means.get(x.tobytes(), (x.copy(), 0.0, 0))
            # Equal rewards have exactly that mean, so that points tie where their rewards are equal.
            self.means[x.tobytes()] = point, mean + (value - mean) / (count + 1), count + 1


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

    Step t, one more than the number of rewards so far, plays a uniform point with probability

        epsilon_t = min(1, decay / t),

    the schedule of Auer, Cesa-Bianchi & Fischer 2002 (Theorem 3), and a point of the best mean
    otherwise, with ties broken at random. Each distinct point has the mean of its own rewards, without a
    prior and without its neighbours, so that a new point is only played at random. Calandriello et al.
    2020 compare with this baseline and do not state their schedule.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    decay : float
        Number of steps at the start that are all random; of the others up to T about decay log(T /
        decay) are. The first point is always random.
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


# A mutation moves to one of so many neighbours of a candidate, or by a deviation of this share of each
# side of a box.
NEIGHBOURS, STEP_SHARE = 10, 0.1


@dataclass(eq=False)
class RegularisedEvolution:
    """The rule of `evolution`; its members are points with their rewards, the oldest first."""

    domain: Candidates | Box
    tournament: int
    population: int
    members: list[tuple[Array, float]] = field(default_factory=list)

    @cached_property
    def _tree(self) -> cKDTree[None, None]:
        """Return a tree of the candidates, whose coordinates are divided by their deviations."""
        assert isinstance(self.domain, Candidates)
        deviation = self.domain.X.std(axis=0)
        return cKDTree(self.domain.X / np.where(deviation > 0, deviation, 1.0))

    def _mutation(self, x: Array, rng: np.random.Generator) -> Array:
        """Return a neighbour of the candidate x (d,), or x after a Gaussian step in a box.

        A candidate without neighbours is its own mutation.
        """
        if isinstance(self.domain, Box):
            low, high = self.domain.bounds.T
            step = STEP_SHARE * (high - low) * rng.standard_normal(len(x))
            return np.asarray(np.clip(x + step, low, high))
        count = min(NEIGHBOURS, len(self.domain) - 1)
        if count == 0:
            return x.copy()
        (row,) = self.domain.index(x)
        neighbours = np.asarray(self._tree.query(self._tree.data[row], k=count + 1)[1])
        return np.asarray(self.domain.X[rng.choice(neighbours[neighbours != row][:count])].copy())

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return a mutation (d,) of the winner of a tournament."""
        return adapter.draw_available(lambda: self._propose(rng), allowed, rng)

    def _propose(self, rng: np.random.Generator) -> Array:
        if len(self.members) < self.population:
            return np.asarray(self.domain.sample(1, rng)[0])
        rows = rng.integers(len(self.members), size=self.tournament)
        winner, _ = max((self.members[row] for row in rows), key=lambda member: member[1])
        return self._mutation(winner, rng)

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Add the points to the population, from which the oldest leave."""
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
    """Regularised evolution (Real 2019, Algorithm 1): mutate the best of a few, drop the oldest.

    The population is the last `population` points with rewards. Until it is full, points are drawn at
    random. Then each step draws `tournament` members at random, with replacement, and plays a mutation
    of the one with the best reward. With its reward this point joins the population, and the oldest
    member leaves. Points that the policy did not choose join it, too.

    The algorithm was made for architectures, of which a mutation changes one component. Of points a
    mutation is:

    * `Candidates`: one of the 10 nearest other candidates at random. Distances are Euclidean, between
      coordinates that are divided by their standard deviation over the candidates.
    * `Box`: a Gaussian step with a deviation of a tenth of the side along each coordinate, clipped to
      the box.

    Parameters
    ----------
    domain : Candidates or Box
        The points that may be played.
    population : int
        P. The defaults, 100 with tournaments of 10, are those of the code that Calandriello et al. 2020
        ran (the published benchmark scripts of Ying et al. 2019).
    tournament : int
        S, the number of members that compete; 1 is a random walk without selection.
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

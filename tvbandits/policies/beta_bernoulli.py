"""Discounted Thompson sampling for arms that succeed or fail.

References
----------
V. Raj and S. Kalyani. Taming non-stationary bandits: a Bayesian approach. arXiv 1707.09727, 2017.
    ([RK]; discounted Thompson sampling)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvbandits.bandit import adapter
from tvbandits.data import Dataset, Plays
from tvbandits.domains.availability import ChoiceSet
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.policies.setting import Policy
from tvbandits.validation import Array, Seed, as_bool, finite_number, refuse


@dataclass(eq=False)
class BetaBernoulli:
    """The rule of `discounted_thompson`.

    Attributes
    ----------
    counts : array of shape (A, 2)
        Discounted successes and failures of each arm.
    time : float
        The latest time of a reward.
    """

    domain: Candidates
    discount: float
    worst: float
    counts: Array
    time: float = -np.inf

    def check(self, rewards: Dataset) -> None:
        """Raise a `ValueError` unless rewards are successes, failures or shares of them."""
        y = rewards.y
        refuse((y < 0) | (y > 1), y, "discounted Thompson sampling takes rewards from 0 to 1")

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return the arm (d,) that is best in a draw, with ties broken at random."""
        theta = rng.beta(1.0 + self.counts[:, 0], 1.0 + self.counts[:, 1])
        return allowed.find_best_candidate(theta, rng)

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Update the counts with rewards of one trial each."""
        self.learn_shares(rewards, np.ones(len(rewards)))

    def learn_shares(self, rewards: Dataset, trials: Array) -> None:
        """Update the counts with rewards that are shares (n,) of so many trials (n,) each.

        A late reward has the weight that it would have if it had come in time.
        """
        latest = max(self.time, float(rewards.t.max()))
        if self.time > -np.inf:
            self.counts *= self.discount ** (latest - self.time)
        success = rewards.y - self.worst  # where less is better, the signed rewards lie in [-1, 0]
        outcomes = np.column_stack([success, 1.0 - success])
        weights = trials * self.discount ** (latest - rewards.t)
        np.add.at(self.counts, self.domain.index(rewards.X), weights[:, None] * outcomes)
        self.time = latest


def discounted_thompson(
    domain: Domain, *, discount: float = 0.99, minimize: bool = False, seed: Seed = 0
) -> adapter.PolicyAdapter:
    """Discounted Thompson sampling for Bernoulli arms ([RK]).

    With the successes S_a and failures F_a of each arm, discounted by gamma in each step, it plays

        argmax_a theta_a,   theta_a ~ Beta(1 + S_a, 1 + F_a),   S_a <- gamma S_a + success of a.

    A step is a unit of time, so that rewards may come late and at uneven times. Rewards lie in [0, 1].
    Each counts as one trial; those of `rate(successes, trials)` count as their trials. Where more plays
    than points are asked for, as by `ask(t, n=500)`, each play goes to the best arm of its own draw.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    discount : float
        gamma, in (0, 1]; 1 is plain Thompson sampling.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> banners = Candidates([[0.0], [1.0], [2.0]])
    >>> bandit = policies.discounted_thompson(banners)
    >>> for t in range(1, 101):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, X[:, 0] == 2.0, t)
    >>> print(bandit.ask(101))
    [[2.]]
    """
    arms = adapter.get_finite_action_domain(domain, "discounted_thompson")
    gamma = finite_number("discount", discount, above=0.0, high=1.0)
    worst = -1.0 if as_bool("minimize", minimize) else 0.0
    rule = BetaBernoulli(arms, gamma, worst, np.zeros((len(arms), 2)))
    return adapter.adapt(domain, rule, minimize=minimize, seed=seed)


# A comparison names it by its path. It is not in `POLICIES`, which play any rewards, and not only
# those in [0, 1].
PLAYED = Policy(discounted_thompson)

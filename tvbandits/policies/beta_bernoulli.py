"""Thompson sampling for arms that succeed or fail, with counts that fade.

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
        Faded successes and failures of each arm.
    time : float
        The latest told.
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

    def choose(self, now: float, allowed: ChoiceSet, out: Plays, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """The best arm of a draw, ties at random."""
        drawn = rng.beta(1.0 + self.counts[:, 0], 1.0 + self.counts[:, 1])
        return allowed.find_best_candidate(drawn, rng)

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Take in rewards of one trial each."""
        self.learn_shares(rewards, np.ones(len(rewards)))

    def learn_shares(self, rewards: Dataset, trials: Array) -> None:
        """Take in shares (n,) of so many trials (n,).

        Counts fade with time; a late reward is as faint as one that was told in time.
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

    With successes S_a and failures F_a of each arm, which fade by the discount gamma in a step, it plays

        argmax_a theta_a,   theta_a ~ Beta(1 + S_a, 1 + F_a),   S_a <- gamma S_a + success of a.

    A step is a unit of time, so that late rewards and uneven gaps are no obstacle. Rewards lie in
    [0, 1]; each counts as one trial, but those of `rate(successes, trials)` as so many. Of more plays
    than points, `ask(t, n=500)`, each goes to the best of a draw of its own.

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


# For comparisons on rewards in [0, 1], by its path: others of `POLICIES` play any rewards.
PLAYED = Policy(discounted_thompson)

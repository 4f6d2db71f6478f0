"""Where the limits on outcomes hold at the time of a decision, and which points to play within them.

Where all plays share the risk, a violation has a price, the multiplier of the limit as a constraint on
their share: the violations v(x) that are expected at x take off the reward what the upper bounds u span,
times v(x) exp(E). The excess E is how many violations more are expected of the plays so far than the
limit allows; so the price rises until the share is what was promised, as in adaptive conformal inference
(Gibbs and Candes 2021), and falls where plays are surer than they have to be. A violation by more than
two prior deviations of the outcome counts once for every two.

Where each play has to be sure, a point may be played where the limit holds with its probability
(SafeOpt, Sui et al. 2015). Its expanders, points at the edge whose readings would open others, have a
value here: with the chance that a reading at x makes it known that z may be played, what is played is

    argmax_x u(x) + h * max_z chance(x, z) * (u(z) - u(best point known to hold)).

In both cases a bandit goes step by step: far from all readings the beliefs are what was read elsewhere,
in a unit that was learned there, so they are surest where they are most often wrong. A point that was
not read may be played if readings have removed at least half as much of the variance of the outcome
there as at the new point of which most is known.

Points that are out make no point safer, since nobody knows yet what comes of them; while one is out, no
other look is made for what it could open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit
from scipy.stats import t as student

from tvbandits.acquisition.limits import Limit
from tvbandits.acquisition.rules import Decision
from tvbandits.data import Dataset
from tvbandits.domains.availability import Available, ChoiceSet, narrow
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.predictions import ScaledPosterior
from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class LimitConfig:
    """The numbers of decisions within limits.

    Attributes
    ----------
    opening_horizon : float
        So many decisions are taken to profit from what a look opens.
    fewest_places : int
        Of fewer places the unit of an outcome is not known.
    most_saved, most_excess : float
        So many violations may be saved up where all plays share the risk, and so many in excess count.
    least_probability : float
        Where they do, a point that is played satisfies the limit with this probability at least.
    far : float
        A violation by more than so many prior deviations of the outcome counts more than once.
    step : float
        So much is known of a new point that is played, as a share of what is of the best known new one.
    points : int
        Points that are compared as looks and as what they could open, where there are more.
    first_tries : int
        So many points at random are tried first for one that is available.
    """

    opening_horizon: float = 5.0
    fewest_places: int = 5
    most_saved: float = 0.5
    most_excess: float = 10.0
    least_probability: float = 0.5
    far: float = 2.0
    step: float = 0.5
    points: int = 512
    first_tries: int = 256


CONFIG = LimitConfig()


def probability_of(limit: Limit, mean: Array, deviation: Array, degrees: float) -> Array:
    """Probability (n,) that a limit holds where the outcome has these means and deviations.

    Student's distribution of some degrees of freedom: a deviation out of few readings is a guess.
    """
    deviation = np.clip(deviation, 1e-300, 1e300)
    low, high = ((each - mean) / deviation for each in limit.bounds)
    return np.asarray(stdtr(degrees, high) - stdtr(degrees, low))


def count_violations(limit: Limit, values: Array, far: float) -> Array:
    """How many violations each of the values (n,) counts as: none, one, or its excess over `far`."""
    excess = limit.excess(values)
    return np.asarray(np.where(excess > 0, np.maximum(excess / far, 1.0), 0.0))


def expected_violations(
    limit: Limit, mean: Array, deviation: Array, degrees: float, far: float
) -> Array:
    """Expectation (n,) of `count_violations` where the outcome has these means and deviations.

    E[max(1, excess / far); excess > 0] = P(excess > 0) + E[max(excess - far, 0)] / far, by Student's
    distribution with two degrees of freedom or more, which has a mean.
    """
    low, high = limit.bounds
    deviation = np.clip(deviation, 1e-8 * far, 1e300)
    ends = high + far - mean, mean - (low - far)
    beyond = [_mean_above(end / deviation, max(degrees, 2.0)) for end in ends]
    more = deviation / far * np.sum(beyond, axis=0)
    return np.asarray(1.0 - probability_of(limit, mean, deviation, degrees) + more)


def _mean_above(a: Array, degrees: float) -> Array:
    """E[max(T - a, 0)] (n,) of Student's T with more than one degree of freedom."""
    a = np.clip(a, -1e9, 1e9)
    density, above = student.pdf(a, degrees), stdtr(degrees, -a)
    return np.maximum((degrees + a**2) / (degrees - 1.0) * density - a * above, 0.0)


def probability_after(
    limit: Limit, mean: Array, deviation: Array, moves: Array, degrees: float
) -> Array:
    """Probability (k, m) that a look makes a limit known to hold where it may.

    Parameters
    ----------
    mean, deviation : arrays of shape (m,)
        Of the outcome there, now.
    moves : array of shape (k, m)
        Deviation of that mean after each of k looks, before anybody has looked.
    degrees : float
        As for `probability_of`.
    """
    low, high = limit.bounds
    deviation = np.maximum(deviation, 1e-150)
    moves = np.clip(np.abs(moves), 1e-12 * deviation, deviation)
    left = stdtrit(degrees, limit.probability) * np.sqrt(deviation**2 - moves**2)
    probability = ndtr((high - left - mean) / moves) - ndtr((low + left - mean) / moves)
    return np.asarray(np.maximum(probability, 0.0))


@dataclass(frozen=True)
class OutcomeBeliefs:
    """What is believed of an outcome at the time of a decision.

    Attributes
    ----------
    limit : Limit
    domain : Domain
    readings : Dataset
    view : ScaledPosterior
    joint : callable
        Beliefs about points (m, d) together.
    risk : float
        Violations that are expected of the plays so far, as they count, less those allowed.
    far : float
        A violation by more counts once for each time that it is so far.
    """

    limit: Limit
    domain: Domain
    readings: Dataset
    view: ScaledPosterior
    joint: Callable[[Array], JointPosterior]
    risk: float = 0.0
    far: float = 2.0

    @property
    def least(self) -> float:
        """Probability with which it must hold where this decision plays."""
        return self.limit.probability if self.limit.each else CONFIG.least_probability

    @property
    def excess(self) -> float:
        """Violations that are expected of the plays so far, as they count, less those allowed.

        Or that were read, less the deviation of what it allows, if these are more: the beliefs may be
        wrong.
        """
        allowed = (1.0 - self.limit.probability) * len(self.readings)
        read = float(count_violations(self.limit, self.readings.y, self.far).sum())
        deviation = math.sqrt(self.limit.probability * allowed)
        return min(max(self.risk, read - allowed - deviation), CONFIG.most_excess)

    def price(self, X: Array) -> Array:
        """What the risk costs at points (m, d) that all plays share; 1: a violation, at no excess."""
        return np.asarray(math.exp(self.excess) * self.violations(X))

    def violations(self, X: Array) -> Array:
        """Violations (m,) that are expected of plays at points (m, d), as they count."""
        mean, deviation = self.view.predict_reward(X)
        beliefs = mean, self.unit * deviation, self.degrees
        return expected_violations(self.limit, *beliefs, self.far)

    @cached_property
    def widest(self) -> float:
        """Deviation of the outcome at the point of which least is known."""
        points = points_of(self.domain, np.random.default_rng(0))
        return max(float(self.view.predict(points)[1].max()), 1e-150)

    def knowledge(self, X: Array) -> Array:
        """Share (m,) of the variance that readings have removed, next to where least is known."""
        return np.asarray(1.0 - np.minimum(self.view.predict(X)[1] / self.widest, 1.0) ** 2)

    @cached_property
    def places(self) -> int:
        """How many points have been read."""
        return len(np.unique(self.readings.X, axis=0))

    @property
    def degrees(self) -> float:
        """Degrees of freedom of Student's distribution: the unit of the outcome is learned, too."""
        return float(max(self.places - 1, 1))

    @cached_property
    def unit(self) -> float:
        """Factor on deviations: few places, which may be alike, do not tell the unit of an outcome.

        Until some are read, or all there are, half of the largest deviation reaches from their mean to
        the limit.
        """
        fewest = CONFIG.fewest_places
        if isinstance(self.domain, Candidates):
            fewest = min(fewest, len(self.domain))
        if self.places >= fewest:
            return 1.0
        low, high = self.limit.bounds
        mean = float(self.readings.y.mean())
        points = points_of(self.domain, np.random.default_rng(0))
        widest = float(self.view.predict_reward(points)[1].max())
        reached = 0.5 * widest * float(stdtrit(self.degrees, self.limit.probability))
        return max(1.0, min(high - mean, mean - low) / reached)

    def probability(self, X: Array) -> Array:
        """Probability (m,) that the limit holds at points (m, d)."""
        mean, deviation = self.view.predict_reward(X)
        return probability_of(self.limit, mean, self.unit * deviation, self.degrees)

    def opening(self, X: Array, looks: Index, closed: Index) -> Array:
        """Chance (k, m) that a reading at one of k rows of `X` makes it known to hold at one of m."""
        joint, unit = self.joint(X), self.unit
        moves, variance, _ = joint.answers(closed.tolist())
        noise = np.broadcast_to(joint.noise_variance, len(X))[looks]
        covariance = (moves * np.sqrt(variance)[:, None])[:, looks].T
        moved = covariance / np.sqrt(joint.deviation[looks] ** 2 + noise)[:, None]
        now = joint.mean[closed], unit * joint.deviation[closed]
        return probability_after(self.limit, *now, unit * moved, self.degrees)


def safety(outcomes: Sequence[OutcomeBeliefs], X: Array) -> Array:
    """Probability over what it must be, of the limit with the least of it, at points (m, d)."""
    return np.asarray(np.min([each.probability(X) / each.least for each in outcomes], axis=0))


def points_of(domain: Domain, rng: np.random.Generator) -> Array:
    """All points of a domain, or many of them at random."""
    if isinstance(domain, Candidates) and len(domain) <= CONFIG.points:
        return domain.X
    return domain.sample(CONFIG.points, rng)


class Beliefs(NamedTuple):
    """Beliefs about outcomes, and a generator of their own for what is searched by them."""

    outcomes: Sequence[OutcomeBeliefs]
    own: np.random.Generator

    def knowledge(self, X: Array) -> Array:
        """Share (m,) of the variance that readings have removed, of the outcome with the least of it."""
        return np.asarray(np.min([each.knowledge(X) for each in self.outcomes], axis=0))

    def was_read(self, X: Array) -> NDArray[np.bool_]:
        """Whether each outcome was read at points (m, d), shape (m,)."""
        read = [set(map(tuple, each.readings.X.tolist())) for each in self.outcomes]
        return np.array(
            [all(x in each for each in read) for x in map(tuple, X.tolist())], dtype=bool
        )


class FeasiblePart(NamedTuple):
    """What may be played within limits.

    Attributes
    ----------
    available : Available or None
    likeliest : array of shape (1, d)
        The point where limits are likeliest to hold.
    exists : bool
        Whether they are known to hold anywhere; elsewhere `available` is all that was.
    """

    available: Available | None
    likeliest: Array
    exists: bool


def feasible_part(decision: Decision, beliefs: Beliefs) -> FeasiblePart:
    """Return what may be played of what is available within the limits."""
    (outcomes, own), domain = beliefs, decision.domain
    available = within_a_step(decision, beliefs)
    allowed = ChoiceSet(domain, available, np.empty((0, domain.dimension)))
    likeliest = allowed.find_best(lambda X: safety(outcomes, X), own)[None]
    exists = bool(safety(outcomes, likeliest)[0] >= 1.0)
    if exists:
        available = narrow(domain, available, lambda X: safety(outcomes, X) >= 1.0)
    return FeasiblePart(available, likeliest, exists)


def within_a_step(decision: Decision, beliefs: Beliefs) -> Available | None:
    """Return what is available and was read, or is known at least half as well as the best new point."""
    domain, available = decision.domain, decision.available
    new = points_of(domain, np.random.default_rng(0))
    new = new if available is None else new[available(new)]
    new = new[~beliefs.was_read(new)]
    if len(new) == 0:
        return available
    least = CONFIG.step * float(beliefs.knowledge(new).max())
    return narrow(
        domain, available, lambda X: (beliefs.knowledge(X) >= least) | beliefs.was_read(X)
    )


def add_price(decision: Decision, beliefs: Beliefs) -> Decision:
    """Return the decision with the price of risks that all plays share.

    It counts in deviations of the upper bounds: their range follows from the few worst points.
    """
    shared = [each for each in beliefs.outcomes if not each.limit.each]
    if not shared:
        return decision
    points = points_of(decision.domain, beliefs.own)
    unit = float(np.std(decision.view.upper_bound(points, decision.beta)))
    return replace(
        decision, price=lambda X: unit * np.sum([each.price(X) for each in shared], axis=0)
    )


def expand(decision: Decision, beliefs: Beliefs, feasible: Available | None, best: Array) -> Array:
    """Return the point (1, d) to play instead of `best` (1, d) for what it could open; or `best`.

    It is one of the feasible points.
    """
    (outcomes, own), domain, available = beliefs, decision.domain, decision.available
    X = points_of(domain, own)
    if isinstance(domain, Candidates) and X is domain.X:
        row = int(domain.index(best)[0])
    else:
        X, row = np.concatenate([best, X]), 0
    upper = decision.view.upper_bound(X, decision.beta)
    chances = [(each.probability(X), each.least) for each in outcomes]
    free = np.ones(len(X), dtype=bool) if available is None else available(X)
    is_safe = free.copy() if feasible is None else feasible(X)
    may_be = free & np.all([chance >= 1.0 - least for chance, least in chances], axis=0)
    if decision.move is not None:
        upper = upper - decision.move.price(X)
    gain = upper - upper[row]
    is_safe[row] = True
    looks, closed = np.flatnonzero(is_safe), np.flatnonzero(may_be & ~is_safe & (gain > 0))
    if len(closed) == 0:
        return best
    chance = np.prod([each.opening(X, looks, closed) for each in outcomes], axis=0)
    worth = gain[looks] + CONFIG.opening_horizon * (chance * gain[closed]).max(axis=1)
    here = int(np.flatnonzero(looks == row)[0])
    there = first_argmax(worth)
    return best if worth[there] <= worth[here] else X[looks[there]][None]

"""Decisions within limits on outcomes.

Where a limit is on the share of all plays (`Limit.each` is False), a violation has a price, the
multiplier of this constraint. With the range of the upper bounds u and the expected violations v(x) of
a play at x, the price of x is range * v(x) * exp(E). The excess E is the number of violations expected
of the plays so far, less the number that the limit allows. The price rises until the share of
violations is as allowed, as in adaptive conformal inference (Gibbs and Candes 2021), and falls while it
is smaller. A violation by more than two prior deviations of the outcome counts once for every two.

Where a limit is on each play, a point is safe if it satisfies the limit with the given probability
(SafeOpt, Sui et al. 2015). Expanders are safe points whose readings may show that others are safe; here
they have a value. With the chance that a reading at x shows that z is safe, the bandit plays

    argmax_x u(x) + h * max_z chance(x, z) * (u(z) - u(best safe point)).

In both cases a bandit moves gradually. Far from all readings the posterior is that of the prior, in a
scale that was learned elsewhere, and is wrong most often. A point without a reading may be played if
readings have removed at least half as much of the variance of the outcome there as at the best known
such point.

Pending points make no point safer, since their outcomes are unknown; and while a point is pending, no
expander is played.
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
    """The constants of decisions within limits.

    Attributes
    ----------
    opening_horizon : float
        h, the number of decisions that profit from a point that an expander shows to be safe.
    fewest_places : int
        Number of points with readings from which on the scale of an outcome is learned.
    most_saved, most_excess : float
        Largest number of allowed violations that are saved for later, and largest excess E, where a
        limit is on the share of all plays.
    least_probability : float
        Smallest probability with which a point that is played satisfies such a limit.
    far : float
        A violation by more than so many prior deviations of the outcome counts more than once.
    step : float
        Smallest reduction of the variance at a point without a reading that may be played, relative to
        that at the best known such point.
    points : int
        Largest number of points that are compared as expanders.
    first_tries : int
        Number of random points that are tried first to find an available one.
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
    """Return the probabilities (n,) of a limit for outcomes of these means and deviations.

    Outcomes have Student's distribution, since a deviation from few readings is uncertain.
    """
    deviation = np.clip(deviation, 1e-300, 1e300)
    low, high = ((each - mean) / deviation for each in limit.bounds)
    return np.asarray(stdtr(degrees, high) - stdtr(degrees, low))


def count_violations(limit: Limit, values: Array, far: float) -> Array:
    """Return the violations (n,) that values count as: 0, or the excess over `far`, at least 1."""
    excess = limit.excess(values)
    return np.asarray(np.where(excess > 0, np.maximum(excess / far, 1.0), 0.0))


def expected_violations(
    limit: Limit, mean: Array, deviation: Array, degrees: float, far: float
) -> Array:
    """Return the expectations (n,) of `count_violations` for outcomes of these means and deviations.

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
    """Return E[max(T - a, 0)] (n,) of Student's T with more than one degree of freedom."""
    a = np.clip(a, -1e9, 1e9)
    density, above = student.pdf(a, degrees), stdtr(degrees, -a)
    return np.maximum((degrees + a**2) / (degrees - 1.0) * density - a * above, 0.0)


def probability_after(
    limit: Limit, mean: Array, deviation: Array, moves: Array, degrees: float
) -> Array:
    """Return the probabilities (k, m) that a reading at one of k points shows that one of m is safe.

    Parameters
    ----------
    mean, deviation : arrays of shape (m,)
        Of the outcome at the m points, now.
    moves : array of shape (k, m)
        Prior deviation of the change of these means by each of the k readings.
    degrees : float
        As for `probability_of`.
    """
    low, high = limit.bounds
    deviation = np.maximum(deviation, 1e-150)
    moves = np.clip(np.abs(moves), 1e-12 * deviation, deviation)
    margin = stdtrit(degrees, limit.probability) * np.sqrt(deviation**2 - moves**2)
    probability = ndtr((high - margin - mean) / moves) - ndtr((low + margin - mean) / moves)
    return np.asarray(np.maximum(probability, 0.0))


@dataclass(frozen=True)
class OutcomePosterior:
    """The posterior of an outcome at the time of a decision.

    Attributes
    ----------
    limit : Limit
    domain : Domain
    readings : Dataset
    view : ScaledPosterior
    joint : callable
        A function of points (m, d) that returns their joint posterior.
    risk : float
        Violations that are expected of the plays so far, less those allowed.
    scale : float
        Prior deviation of the outcome.
    """

    limit: Limit
    domain: Domain
    readings: Dataset
    view: ScaledPosterior
    joint: Callable[[Array], JointPosterior]
    risk: float = 0.0
    scale: float = 1.0

    @property
    def least(self) -> float:
        """Return the smallest probability of the limit at a point that this decision plays."""
        return self.limit.probability if self.limit.each else CONFIG.least_probability

    @property
    def excess(self) -> float:
        """Return E: the violations that are expected of the plays so far, less those allowed.

        If more violations were observed, less a standard deviation of their allowed number, E is the
        observed number, since the posterior may be wrong.
        """
        allowed = (1.0 - self.limit.probability) * len(self.readings)
        observed = float(count_violations(self.limit, self.readings.y, self.far).sum())
        deviation = math.sqrt(self.limit.probability * allowed)
        return min(max(self.risk, observed - allowed - deviation), CONFIG.most_excess)

    @property
    def far(self) -> float:
        """Return the violation that counts once; a larger one counts in proportion."""
        return max(CONFIG.far * self.deviation_factor * self.scale, 1e-150)

    def price(self, X: Array) -> Array:
        """Return the prices (m,) of points (m, d), of which one violation without an excess costs 1."""
        return np.asarray(math.exp(self.excess) * self.violations(X))

    def violations(self, X: Array) -> Array:
        """Return the expected violations (m,) of plays at points (m, d)."""
        mean, deviation = self.view.predict_reward(X)
        deviation = self.deviation_factor * deviation
        return expected_violations(self.limit, mean, deviation, self.degrees, self.far)

    @cached_property
    def widest(self) -> float:
        """Return the largest deviation of the outcome at any point."""
        points = points_of(self.domain, np.random.default_rng(0))
        return max(float(self.view.predict(points)[1].max()), 1e-150)

    def knowledge(self, X: Array) -> Array:
        """Return the knowledge (m,) of points (m, d): 1 - variance / largest variance at any point."""
        return np.asarray(1.0 - np.minimum(self.view.predict(X)[1] / self.widest, 1.0) ** 2)

    @cached_property
    def places(self) -> int:
        """Return the number of distinct points with readings."""
        return len(np.unique(self.readings.X, axis=0))

    @property
    def degrees(self) -> float:
        """Return the degrees of freedom of Student's distribution, as the scale is learned, too."""
        return float(max(self.places - 1, 1))

    @cached_property
    def deviation_factor(self) -> float:
        """Return the factor of deviations, from the distance of the limit if there are few readings.

        Few points may have similar outcomes, from which the scale cannot be learned. Until some, or all,
        have readings, half of the largest deviation reaches from their mean to the limit at least. After
        the first, whose scale is a guess in an unknown unit, it reaches exactly to the limit.
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
        factor = min(high - mean, mean - low) / reached
        return max(abs(factor), 1e-9) if self.places == 1 else max(factor, 1.0)

    def probability(self, X: Array) -> Array:
        """Return the probabilities (m,) of the limit at points (m, d)."""
        mean, deviation = self.view.predict_reward(X)
        return probability_of(self.limit, mean, self.deviation_factor * deviation, self.degrees)

    def opening_probability(self, X: Array, safe: Index, unsafe: Index) -> Array:
        """Return the probabilities (k, m) that a reading at one row shows that another one is safe."""
        joint, factor = self.joint(X), self.deviation_factor
        moves, variance, _ = joint.answer_effects(unsafe.tolist())
        noise = np.broadcast_to(joint.noise_variance, len(X))[safe]
        covariance = (moves * np.sqrt(variance)[:, None])[:, safe].T
        changes = covariance / np.sqrt(joint.deviation[safe] ** 2 + noise)[:, None]
        mean, deviation = joint.mean[unsafe], factor * joint.deviation[unsafe]
        return probability_after(self.limit, mean, deviation, factor * changes, self.degrees)


def safety(outcomes: Sequence[OutcomePosterior], X: Array) -> Array:
    """Return the smallest ratio (m,) of a limit's probability at points (m, d) to the required one."""
    return np.asarray(np.min([each.probability(X) / each.least for each in outcomes], axis=0))


def points_of(domain: Domain, rng: np.random.Generator) -> Array:
    """Return all points of a domain, or many of them at random."""
    if isinstance(domain, Candidates) and len(domain) <= CONFIG.points:
        return domain.X
    return domain.sample(CONFIG.points, rng)


class OutcomePosteriors(NamedTuple):
    """The posteriors of all outcomes, and a separate generator for searches within limits."""

    outcomes: Sequence[OutcomePosterior]
    rng: np.random.Generator

    def knowledge(self, X: Array) -> Array:
        """Return the smallest knowledge (m,) of any outcome at points (m, d)."""
        return np.asarray(np.min([each.knowledge(X) for each in self.outcomes], axis=0))

    def was_read(self, X: Array) -> NDArray[np.bool_]:
        """Return whether every outcome has a reading at points (m, d), shape (m,)."""
        sets = [set(map(tuple, each.readings.X.tolist())) for each in self.outcomes]
        return np.array(
            [all(x in points for points in sets) for x in map(tuple, X.tolist())], dtype=bool
        )


class FeasiblePart(NamedTuple):
    """The points that may be played within limits.

    Attributes
    ----------
    available : Available or None
    likeliest : array of shape (1, d)
        The point where the limits are most probable.
    exists : bool
        Whether any point is safe; if not, `available` is not restricted by the limits.
    """

    available: Available | None
    likeliest: Array
    exists: bool


def feasible_part(decision: Decision, posteriors: OutcomePosteriors) -> FeasiblePart:
    """Return the available points that may be played within the limits."""
    (outcomes, rng), domain = posteriors, decision.domain
    available = within_a_step(decision, posteriors)
    allowed = ChoiceSet(domain, available, np.empty((0, domain.dimension)))
    likeliest = allowed.find_best(lambda X: safety(outcomes, X), rng)[None]
    exists = bool(safety(outcomes, likeliest)[0] >= 1.0)
    if exists:
        available = narrow(domain, available, lambda X: safety(outcomes, X) >= 1.0)
    return FeasiblePart(available, likeliest, exists)


def within_a_step(decision: Decision, posteriors: OutcomePosteriors) -> Available | None:
    """Return the available points with readings, and those within a step of them.

    A point without readings is within a step if its knowledge is at least half of the largest of such
    points.
    """
    domain, available = decision.domain, decision.available
    new = points_of(domain, np.random.default_rng(0))
    new = new if available is None else new[available(new)]
    new = new[~posteriors.was_read(new)]
    if len(new) == 0:
        return available
    least = CONFIG.step * float(posteriors.knowledge(new).max())
    return narrow(
        domain, available, lambda X: (posteriors.knowledge(X) >= least) | posteriors.was_read(X)
    )


def add_price(decision: Decision, posteriors: OutcomePosteriors) -> Decision:
    """Return the decision with the price of violations of limits on the share of all plays.

    It is in deviations of the upper bounds, since their range depends on the few worst points.
    """
    shared = [each for each in posteriors.outcomes if not each.limit.each]
    if not shared:
        return decision
    points = points_of(decision.domain, posteriors.rng)
    scale = float(np.std(decision.view.upper_bound(points, decision.beta)))
    return replace(
        decision, price=lambda X: scale * np.sum([each.price(X) for each in shared], axis=0)
    )


def expand(
    decision: Decision, posteriors: OutcomePosteriors, feasible: Available | None, best: Array
) -> Array:
    """Return the expander (1, d) to play instead of `best` (1, d), or `best` if none is worth more."""
    (outcomes, rng), domain, available = posteriors, decision.domain, decision.available
    X = points_of(domain, rng)
    if isinstance(domain, Candidates) and X is domain.X:
        row = int(domain.index(best)[0])
    else:
        X, row = np.concatenate([best, X]), 0
    upper = decision.view.upper_bound(X, decision.beta)
    probabilities = [(each.probability(X), each.least) for each in outcomes]
    free = np.ones(len(X), dtype=bool) if available is None else available(X)
    is_safe = free.copy() if feasible is None else feasible(X)
    is_possible = free & np.all([p >= 1.0 - least for p, least in probabilities], axis=0)
    if decision.move is not None:
        upper = upper - decision.move.price(X)
    gain = upper - upper[row]
    is_safe[row] = True
    safe, unsafe = np.flatnonzero(is_safe), np.flatnonzero(is_possible & ~is_safe & (gain > 0))
    if len(unsafe) == 0:
        return best
    chance = np.prod([each.opening_probability(X, safe, unsafe) for each in outcomes], axis=0)
    value = gain[safe] + CONFIG.opening_horizon * (chance * gain[unsafe]).max(axis=1)
    expander = first_argmax(value)
    is_better = value[expander] > value[np.flatnonzero(safe == row)[0]]
    return X[safe[expander]][None] if is_better else best

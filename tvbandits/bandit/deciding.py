"""Points to play with a control, with limits, or from where one is; and the point of the best mean.

Where the limits hold at the time of a decision, and what a look at the edge of that could open:

Where all plays share the risk, a violation has a price, the multiplier of the limit as a constraint on
their share: its chance p(x) at x takes off the reward what the upper bounds u span, times p(x) exp(E).
The excess E is how many violations more are expected of the plays so far than the limit allows; so the
price rises until the share is what was promised, as in adaptive conformal inference (Gibbs and Candes
2021), and falls where plays are surer than they have to be.

Where each play has to be sure, a point may be played where the limit holds with its probability
(SafeOpt, Sui et al. 2015). Its expanders, points at the edge whose readings would open others, have a
value here: with the chance that a reading at x makes it known that z may be played, what is played is

    argmax_x u(x) + OPEN_FOR * max_z chance(x, z) * (u(z) - u(best point known to hold)).

Points that are out make no point safer, since nobody knows yet what comes of them; while one is out, no
other look is made for what it could open.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr, stdtrit

from tvbandits.acquisition.limits import Limit, LimitWarning, as_outcomes, check_outcome
from tvbandits.acquisition.rules import Decision, chosen
from tvbandits.bandit.consulting import joint_beliefs
from tvbandits.bandit.inference import Model
from tvbandits.bandit.learning import retold
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State, generator_of
from tvbandits.bandit.told import ToldReadings, usual_variance, values_and_variance, with_rewards
from tvbandits.data import Dataset, Told, changed
from tvbandits.domains.availability import Allowed, Available, NothingAvailableError, narrowed
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.context import at_values_of, chosen_of
from tvbandits.domains.domain import Domain
from tvbandits.domains.moving import Move, Position, check_near, distances, nearby, tour
from tvbandits.errors import PlayError
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.predictions import View
from tvbandits.gp.top_candidates import Request
from tvbandits.validation import Array, Index

# So many decisions are taken to profit from what a look opens.
OPEN_FOR = 5.0

# Of fewer places the unit of an outcome is not known.
FEW = 5

# So many violations may be saved up where all plays share the risk, and so many in excess count.
MOST_SAVED, MOST_EXCESS = 0.5, 10.0

# Where they do, a point that is played is as likely as not to satisfy the limit, at least.
LIKELY = 0.5

# Of no outcome.
NO_READINGS: Mapping[str, Array] = {}

# Points that are compared as looks and as what they could open, where there are more.
POOL = 512

# So many points at random are tried first for one that is available.
FEW_TRIED = 256


def probability_of(limit: Limit, mean: Array, deviation: Array, degrees: float) -> Array:
    """Probability (n,) that a limit holds where the outcome has these means and deviations.

    Student's distribution of some degrees of freedom: a deviation out of few readings is a guess.
    """
    deviation = np.clip(deviation, 1e-300, 1e300)
    low, high = ((each - mean) / deviation for each in limit.bounds)
    return np.asarray(stdtr(degrees, high) - stdtr(degrees, low))


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
    known = ndtr((high - left - mean) / moves) - ndtr((low + left - mean) / moves)
    return np.asarray(np.maximum(known, 0.0))


@dataclass(frozen=True)
class OutcomeBeliefs:
    """What is believed of an outcome at the time of a decision.

    Attributes
    ----------
    limit : Limit
    domain : Domain
    seen : Dataset
        Its readings.
    view : View
    joint : callable
        Beliefs about points (m, d) together.
    risk : float
        Violations that are expected of the plays so far, less those that the limit allows.
    """

    limit: Limit
    domain: Domain
    seen: Dataset
    view: View
    joint: Callable[[Array], JointPosterior]
    risk: float = 0.0

    @property
    def least(self) -> float:
        """Probability with which it must hold where this decision plays."""
        return self.limit.probability if self.limit.each else LIKELY

    @property
    def excess(self) -> float:
        """Violations that are expected of the plays so far, less those that the limit allows.

        Or that were read, less the deviation of what it allows, if these are more: the beliefs may be
        wrong.
        """
        allowed = (1.0 - self.limit.probability) * len(self.seen)
        read = float((~self.limit.holds(self.seen.y)).sum())
        deviation = math.sqrt(self.limit.probability * allowed)
        return min(max(self.risk, read - allowed - deviation), MOST_EXCESS)

    def price(self, X: Array) -> Array:
        """What the risk costs at points (m, d) that all plays share; 1: a violation, at no excess."""
        return np.asarray(math.exp(self.excess) * (1.0 - self.probability(X)))

    @cached_property
    def places(self) -> int:
        """How many points have been read."""
        return len(np.unique(self.seen.X, axis=0))

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
        few = min(FEW, len(self.domain)) if isinstance(self.domain, Candidates) else FEW
        if self.places >= few:
            return 1.0
        low, high = self.limit.bounds
        mean = float(self.seen.y.mean())
        widest = float(self.view.reward(points_of(self.domain, np.random.default_rng(0)))[1].max())
        reached = 0.5 * widest * float(stdtrit(self.degrees, self.limit.probability))
        return max(1.0, min(high - mean, mean - low) / reached)

    def probability(self, X: Array) -> Array:
        """Probability (m,) that the limit holds at points (m, d)."""
        mean, deviation = self.view.reward(X)
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


def share(outcomes: Sequence[OutcomeBeliefs], X: Array) -> Array:
    """Probability over what it must be, of the limit with the least of it, at points (m, d)."""
    return np.asarray(np.min([each.probability(X) / each.least for each in outcomes], axis=0))


def points_of(domain: Domain, rng: np.random.Generator) -> Array:
    """All points of a domain, or many of them at random."""
    if isinstance(domain, Candidates) and len(domain) <= POOL:
        return domain.X
    return domain.sample(POOL, rng)


class Believed(NamedTuple):
    """Beliefs about outcomes, and a generator of their own for what is looked for by them."""

    outcomes: Sequence[OutcomeBeliefs]
    own: np.random.Generator


def where_limits_hold(
    decision: Decision, believed: Believed
) -> tuple[Available | None, Array, bool]:
    """What may be played of what is available, where limits are likeliest to hold, and if they do."""
    (outcomes, own), domain, free = believed, decision.domain, decision.available
    allowed = Allowed(domain, free, np.empty((0, domain.dimension)))
    likeliest = allowed.best(lambda X: share(outcomes, X), own)[None]
    holds = bool(share(outcomes, likeliest)[0] >= 1.0)
    within = narrowed(domain, free, lambda X: share(outcomes, X) >= 1.0) if holds else free
    return within, likeliest, holds


def priced(decision: Decision, believed: Believed) -> Decision:
    """The decision with the price of risks that all plays share.

    It counts in deviations of the upper bounds: their range follows from the few worst points.
    """
    shared = [each for each in believed.outcomes if not each.limit.each]
    if not shared:
        return decision
    points = points_of(decision.domain, believed.own)
    unit = float(np.std(decision.view.upper_bound(points, decision.beta)))
    return replace(
        decision, price=lambda X: unit * np.sum([each.price(X) for each in shared], axis=0)
    )


def look_at_the_edge(decision: Decision, believed: Believed, best: Array) -> Array:
    """The point (1, d) to play instead of `best` (1, d) for what it could open; or `best`."""
    (outcomes, own), domain, free = believed, decision.domain, decision.available
    X = points_of(domain, own)
    if isinstance(domain, Candidates) and X is domain.X:
        row = int(domain.index(best)[0])
    else:
        X, row = np.concatenate([best, X]), 0
    upper = decision.view.upper_bound(X, decision.beta)
    chances = [(each.probability(X), each.least) for each in outcomes]
    available = np.ones(len(X), dtype=bool) if free is None else free(X)
    known = available & np.all([chance >= least for chance, least in chances], axis=0)
    may = available & np.all([chance >= 1.0 - least for chance, least in chances], axis=0)
    if decision.move is not None:
        upper = upper - decision.move.price(X)
    gain = upper - upper[row]
    known[row] = True
    looks, closed = np.flatnonzero(known), np.flatnonzero(may & ~known & (gain > 0))
    if len(closed) == 0:
        return best
    opened = np.prod([each.opening(X, looks, closed) for each in outcomes], axis=0)
    worth = gain[looks] + OPEN_FOR * (opened * gain[closed]).max(axis=1)
    here = int(np.flatnonzero(looks == row)[0])
    there = int(worth.argmax())
    return best if worth[there] <= worth[here] else X[looks[there]][None]


class Outcomes:
    """The beliefs about each outcome that has a limit, by name; a bandit's state holds theirs.

    Parameters
    ----------
    recipe : Recipe
        Of the bandit.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        # Nothing can be taken off rewards that a rule does not weigh: then each play has to be sure.
        sure = not getattr(recipe.acquisition, "weighs_reward", True)
        limits = [replace(limit, each=limit.each or sure) for limit in recipe.options.limits]
        self._warned = False
        self._parts = {limit.name: (limit, Model(recipe.of_outcome(limit))) for limit in limits}

    def __len__(self) -> int:
        return len(self._parts)

    def warn(self, text: str | None) -> None:
        """Give a `LimitWarning`, once until there is nothing to warn of.

        It speaks of the line that asked; another bandit's warning there is no reason to be silent.
        """
        if text is not None and not self._warned:
            line = sys._getframe(5)
            where = line.f_code.co_filename, line.f_lineno
            warnings.warn_explicit(text, LimitWarning, *where, registry={})
        self._warned = text is not None

    def told(
        self, state: State, told: Told, outcomes: Mapping[str, ArrayLike] | None
    ) -> Mapping[str, State]:
        """Their states once what was read of the points told is known, and what was not."""
        known = dict(state.outcomes)
        unread = dict.fromkeys(self._parts, np.full(len(told.X), np.nan))
        for name, values in (unread | as_outcomes(outcomes)).items():
            check_outcome(name, self._parts)
            model, before = self._parts[name][1], known[name]
            usual = len(told.X), None, model.recipe.noise_variance
            read = Told.of(told.X, told.t, *values_and_variance(name, values, *usual))
            rng = generator_of(before.random)
            after = with_rewards(model, before, read, rng)
            known[name] = changed(after, random=rng.bit_generator.state)
        return known

    def right(self, outcomes: Mapping[str, ArrayLike] | None, n: int) -> dict[str, Array]:
        """Right readings (n,) of outcomes, by name; None: there are none."""
        found = {}
        for name, values in as_outcomes(outcomes).items():
            check_outcome(name, self._parts)
            found[name] = values_and_variance(name, values, n, None, 1.0)[0]
        return found

    def retold(
        self,
        state: State,
        X: Array,
        t: Array,
        to: Array | None = None,
        right: Mapping[str, Array] = NO_READINGS,
    ) -> Mapping[str, State]:
        """Their states, with other readings of points (n, d) that were told at times (n,).

        Parameters
        ----------
        to : array of shape (n,), optional
            The right times; None: what was read there is taken back.
        right : mapping of str to array of shape (n,), optional
            The right readings of outcomes, by name.
        """
        made = dict(state.outcomes)
        for name, (_, model) in self._parts.items():
            usual = model.recipe.noise_variance
            read = ToldReadings.of(made[name], usual)
            rows = read.found(X, t)
            known, fresh = rows >= 0, (rows < 0) & (name in right)
            if not (known | fresh).any():
                continue
            if to is None:
                read = read.without(rows[known])
            else:
                y = right[name] if name in right else read.y[rows]
                noise = usual_variance(int(fresh.sum()), usual)
                read = read.with_rows(rows[known], t=to[known], y=y[known])
                # When the other plays were told, it was not read.
                read = read.with_others(X[fresh], to[fresh], y[fresh], noise)
            # What was risked stays risked.
            made[name] = replace(retold(model, made[name], read), spent=made[name].spent)
        return made

    def predict(self, state: State, name: str, X: Array, now: float) -> tuple[Array, Array]:
        """Mean and deviation of an outcome at points (m, d)."""
        check_outcome(name, self._parts)
        known, model = state.outcomes[name], self._parts[name][1]
        _, view = model.conditioned(known, now, generator_of(known.random))
        return view.shown(X)

    def believed(self, state: State, now: float) -> tuple[State, Believed]:
        """The state with outcomes conditioned, and what is believed of them."""
        known, found = {}, []
        for name, (limit, model) in self._parts.items():
            rng = generator_of(state.outcomes[name].random)
            inner, view = model.conditioned(state.outcomes[name], now, rng)
            own = np.random.default_rng(rng.integers(2**62))
            known[name] = replace(inner, random=rng.bit_generator.state)
            joint = partial(joint_beliefs, model, inner, view, about=now)
            seen, risk = inner.rewards, inner.spent
            found.append(OutcomeBeliefs(limit, model.recipe.domain, seen, view, joint, risk))
        return replace(state, outcomes=known), Believed(found, own)

    def play_within(
        self, decision: Decision, believed: Believed, start: Array, rng: np.random.Generator
    ) -> Array:
        """As the rule chooses, among the points that are known to satisfy all limits.

        Points (s, d) to `start` from, which were not played yet, come first.
        """
        count, rule = 1 if decision.n is None else decision.n, self.recipe.acquisition
        if len(start):
            return start[np.arange(count) % len(start)]
        unread = [each.limit.name for each in believed.outcomes if len(each.seen) == 0]
        if unread:
            self.warn(
                f"nothing is known of {', '.join(unread)} yet: the play is a guess; give safe=, points "
                "to start from, or tell readings"
            )
            return chosen(rule, decision, rng)

        within, likeliest, holds = where_limits_hold(decision, believed)
        if not holds:
            chances = ", ".join(
                f"{each.limit.name} {each.probability(likeliest)[0]:.2g}"
                for each in believed.outcomes
            )
            self.warn(
                f"no point is known to satisfy the limits at t = {decision.view.now:g} with their "
                f"probability: the play is where it is likeliest ({chances})"
            )
            return np.repeat(likeliest, count, axis=0)
        self.warn(None)
        decision = priced(decision, believed)
        try:
            X = chosen(rule, replace(decision, available=within), rng)
        except NothingAvailableError:  # there is so little of it that points at random miss it
            return np.repeat(likeliest, count, axis=0)
        narrower = within is not decision.available and decision.price is None
        if narrower and len(X) == 1 and len(decision.pending) == 0:
            X = look_at_the_edge(decision, believed, X)
        return X

    def played(self, state: State, believed: Believed, X: Array) -> State:
        """The state once the risk of playing points (n, d) counts, where that is shared by all plays."""
        known = dict(state.outcomes)
        for each in believed.outcomes:
            limit = each.limit
            if not limit.each and len(each.seen):
                risk = each.risk + float((limit.probability - each.probability(X)).sum())
                known[limit.name] = replace(known[limit.name], spent=max(risk, -MOST_SAVED))
        return replace(state, outcomes=known)

    def start(self, state: State, decision: Decision) -> Array:
        """Points to start from that are available, with an outcome not read there, shape (s, d).

        Where a context is measured, they are places: at its value now, read at any.
        """
        whole, free = self.recipe.domain, decision.available
        start, d = np.array(self.recipe.options.safe), chosen_of(whole).dimension
        start = at_values_of(decision.domain, whole, start.reshape(-1, whole.dimension))
        played = [*(each.rewards.X for each in state.outcomes.values()), state.pending.X]
        *known, out = ((start[:, None, :d] == X[:, :d]).all(axis=2).any(axis=1) for X in played)
        start = start[~(np.all(known, axis=0) | out)]
        left: Array = start if free is None or not len(start) else start[free(start)]
        return left


# --- decisions ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Placement:
    """Where one decision may play: checked before an expert is asked, whose answers cost something.

    Attributes
    ----------
    domain : Domain
    available : Available, optional
    control : array of shape (c, d)
        What comes before all other points.
    n : int, optional
        How many other points; None: as the batch rule says.
    start : Position, optional
        Where one is, if that matters.
    """

    domain: Domain
    available: Available | None
    control: Array
    n: int | None
    start: Position | None = None


def placement(
    recipe: Recipe,
    state: State,
    domain: Domain,
    free: Available | None,
    now: float,
    n: int | None,
    near: float | None,
) -> Placement:
    """Return what a decision at time `now` may choose from; the arguments are as of `Bandit.ask`.

    Raises
    ------
    ValueError
        If `near` is no distance from anywhere, or `n` has no room beside a control.
    NothingAvailableError
        If nothing available is within `near`.
    """
    start = None
    if near is not None or recipe.options.move_cost is not None:
        start = _position(recipe, state)
    reach = None if near is None else check_near(near, start)
    control = _control_first(recipe, state, free, now, n, reach, start)
    left = None if n is None else n - len(control)
    if start is not None:  # one is where one is, whatever the context is now
        start = replace(start, x=at_values_of(domain, recipe.domain, start.x[None])[0])
    if reach is not None and left != 0:
        assert start is not None  # a reach is from somewhere
        domain, free = _within(domain, free, recipe.domain, reach, start)
    return Placement(domain, free, control, left, start)


def check_reachable(place: Placement) -> None:
    """Raise a `NothingAvailableError` if points at random of a domain that is not finite say so.

    Of candidates it is known already.
    """
    domain, free = place.domain, place.available
    if free is None or place.n == 0 or isinstance(domain, Candidates):
        return
    rng = np.random.default_rng(0)
    if not free(domain.sample(FEW_TRIED, rng)).any():
        Allowed(domain, free, np.empty((0, domain.dimension))).sample(rng)


def points_of_decision(
    outcomes: Outcomes, decision: Decision, state: State, place: Placement, rng: np.random.Generator
) -> tuple[State, Array]:
    """Where to play with a control, with limits, or from where one is.

    The control comes first, then others, in the order of a tour where moves cost something.

    Parameters
    ----------
    outcomes : Outcomes
        Of the recipe's limits.
    decision : Decision
        As if there were none of these.
    state : State
        Conditioned for its time.
    place : Placement
    rng : numpy.random.Generator
        Of the acquisition.

    Returns
    -------
    state : State
        With what was learned of the outcomes.
    X : array of shape (b, d)
    """
    recipe, control, start = outcomes.recipe, place.control, place.start
    if place.n == 0:  # the control is all that is played
        return state, control
    decision = replace(decision, n=place.n, domain=place.domain, available=place.available)
    if start is not None and recipe.options.move_cost is not None:
        decision = replace(decision, move=Move(recipe.domain, recipe.options.move_cost, start))
    if outcomes:
        state, believed = outcomes.believed(state, decision.view.now)
        first = outcomes.start(state, decision)
        X = outcomes.play_within(decision, believed, first, rng)
        state = state if len(first) else outcomes.played(state, believed, X)
    else:
        X = chosen(recipe.acquisition, decision, rng)
    if decision.move is not None and len(X) > 1:
        X = X[tour(recipe.domain, control[-1] if len(control) else decision.move.start.x, X)]
    return state, np.concatenate([control, X])


def _position(recipe: Recipe, state: State) -> Position | None:
    """Where one is: at what was played last, or asked and not dropped.

    A control, which comes with every batch, ends no stay at another point.
    """
    plays = (state.readings, state.failed, state.pending)
    X, t = (np.concatenate([getattr(each, name) for each in plays]) for name in ("X", "t"))
    others = ~recipe.is_control(X)
    if others.any():
        X, t = X[others], t[others]
    return Position.after(recipe.domain, X, t)


def _within(
    domain: Domain, free: Available | None, whole: Domain, reach: float, start: Position
) -> tuple[Domain, Available | None]:
    """The points that are no farther than `reach` from where one is: a domain, and what is available."""
    here = start.x
    free = narrowed(domain, free, lambda X: distances(whole, here, X) <= reach)
    if free is not None and free.mask is not None and not free.mask.any():
        raise NothingAvailableError(
            "nothing available is within near={reach} of {here}", reach=f"{reach:g}", here=here
        )
    return nearby(domain, here, reach), free


def _control_first(
    recipe: Recipe,
    state: State,
    free: Available | None,
    now: float,
    n: int | None,
    reach: float | None,
    start: Position | None,
) -> Array:
    """The control (c, d), as often as it is to be played at a time before others are chosen.

    Once, where it is available and within reach; of more points than there are candidates, in its equal
    share of them.
    """
    none = np.empty((0, recipe.domain.dimension))
    if recipe.options.control is None:
        return none
    control = np.array(recipe.options.control)[None]
    known = any(
        (recipe.is_control(each.X) & (each.t == now)).any()
        for each in (state.pending, state.rewards, state.failed)
    )
    if known or not (free is None or free(control)[0]):
        return none
    near = reach is None or start is None or distances(recipe.domain, start.x, control)[0] <= reach
    if not near:
        return none
    if n == 1:
        raise PlayError("a batch with a control has at least 2 points, got n=1 at {t}", t=now)
    count = 1
    if n is not None and isinstance(recipe.domain, Candidates):
        there = len(recipe.domain) if free is None else int(free(recipe.domain.X).sum())
        count = max(1, n // there)
    return np.repeat(control, count, axis=0)


def best_point(
    outcomes: Outcomes, decision: Decision, state: State, rng: np.random.Generator
) -> Array:
    """The point (d,) of the best mean of a conditioned state, where limits are known to hold.

    Where they do nowhere, the point where they are likeliest to.
    """
    if any(len(each.rewards) for each in state.outcomes.values()):
        _, believed = outcomes.believed(state, decision.view.now)
        free, likeliest, holds = where_limits_hold(decision, believed)
        if not holds:
            return np.asarray(likeliest[0])
        decision = priced(replace(decision, available=free), believed)
    if decision.leaders is not None:
        decision = decision.narrowed(Request(with_mean=True, times=0.0, enough=1))
    none = decision.taken[:0]
    allowed = Allowed(decision.domain, decision.available, none, price=decision.price)
    return allowed.best(decision.view.mean_to_climb(), rng)

"""Points to play with a control, with limits, or from where one is; and the point of the best mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvbandits.acquisition.availability import (
    Allowed,
    Available,
    NothingAvailableError,
    narrowed,
)
from tvbandits.acquisition.rules import Decision, chosen
from tvbandits.bandit.inference import Model
from tvbandits.bandit.limited import (
    OutcomeBeliefs,
    Outcomes,
    play_within,
    priced,
    where_limits_hold,
)
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import Candidates
from tvbandits.core.context import at_values_of
from tvbandits.core.moving import Move, Position, check_near, distances, nearby, tour
from tvbandits.core.protocols import Domain
from tvbandits.gp.posteriors.leaders import Request


def points_of_decision(
    recipe: Recipe,
    model: Model,
    outcomes: Outcomes,
    state: State,
    now: float,
    beta: float,
    n: int | None,
    domain: Domain,
    free: Available | None,
    near: float | None,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Where to play with a control, with limits, or from where one is.

    The control comes first, then others, in the order of a tour where moves cost something.

    Parameters
    ----------
    outcomes : Outcomes
        Of the recipe's limits.
    state : State
        Conditioned for the time `now`.
    beta : float
    n, near
        As of `Bandit.ask`.
    domain, free
        What is chosen from.
    rng : numpy.random.Generator
        Of the acquisition.

    Returns
    -------
    state : State
        With what was learned of the outcomes.
    X : array of shape (b, d)
    """
    control = _control_first(recipe, state, now, n, free, near)
    rest = None if n is None else n - len(control)
    if rest == 0:  # the control is all that is played
        return state, control
    decision = model.decision(state, now, beta, rest, domain, free)
    if near is not None or recipe.move_cost is not None:
        start = _position(recipe, state)
        if start is not None:  # one is where one is, whatever the context is now
            start = replace(start, x=at_values_of(domain, recipe.domain, start.x[None])[0])
            if recipe.move_cost is not None:
                decision = replace(decision, move=Move(recipe.domain, recipe.move_cost, start))
        if near is not None:
            decision = _within(decision, recipe.domain, check_near(near, start), start)
    if outcomes:
        state, beliefs, own = outcomes.believed(state, now)
        first, rule = outcomes.start(state, decision.available), recipe.acquisition
        X = play_within(rule, decision, beliefs, first, rng, own, outcomes.warn)
        state = state if len(first) else outcomes.played(state, beliefs, X)
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


def _within(decision: Decision, whole: Domain, reach: float, start: Position | None) -> Decision:
    """The decision among the points that are no farther than `reach` from where one is."""
    assert start is not None  # a reach is from somewhere
    domain, here = decision.domain, start.x
    free = narrowed(domain, decision.available, lambda X: distances(whole, here, X) <= reach)
    if free is not None and free.mask is not None and not free.mask.any():
        raise NothingAvailableError(
            f"nothing that is available is within near={reach:g} of {here.tolist()}"
        )
    return replace(decision, domain=nearby(domain, here, reach), available=free)


def _control_first(
    recipe: Recipe,
    state: State,
    now: float,
    n: int | None,
    free: Available | None,
    near: float | None,
) -> Array:
    """The control (c, d), as often as it is to be played at a time before others are chosen.

    Once, where it is available and within reach; of more points than there are candidates, in its equal
    share of them.
    """
    none = np.empty((0, recipe.domain.dimension))
    if recipe.control is None:
        return none
    control = np.array(recipe.control)[None]
    known = any(
        (recipe.is_control(each.X) & (each.t == now)).any()
        for each in (state.pending, state.rewards, state.failed)
    )
    if known or not (free is None or free(control)[0]):
        return none
    if near is not None:
        reach = check_near(near, start := _position(recipe, state))
        if start is not None and distances(recipe.domain, start.x, control)[0] > reach:
            return none
    if n == 1:
        raise ValueError(
            f"a batch with a control has at least 2 points, got n=1 at t = {now:g}: the control, "
            "and another that is held against it"
        )
    count = 1
    if n is not None and isinstance(recipe.domain, Candidates):
        there = len(recipe.domain) if free is None else int(free(recipe.domain.X).sum())
        count = max(1, n // there)
    return np.repeat(control, count, axis=0)


def best_point(
    model: Model,
    outcomes: Outcomes,
    state: State,
    now: float,
    domain: Domain,
    free: Available | None,
    rng: np.random.Generator,
) -> Array:
    """The point (d,) of the best mean of a conditioned state, where limits are known to hold.

    Where they do nowhere, the point where they are likeliest to.
    """
    beliefs: list[OutcomeBeliefs] = []
    own = rng
    if any(len(each.rewards) for each in state.outcomes.values()):
        _, beliefs, own = outcomes.believed(state, now)
        free, likeliest, holds = where_limits_hold(domain, free, beliefs, own)
        if not holds:
            return np.asarray(likeliest[0])
    decision = model.decision(state, now, 0.0, None, domain, free)
    decision = priced(decision, beliefs, own)
    if decision.leaders is not None:
        decision = decision.narrowed(Request(with_mean=True, times=0.0, enough=1))
    none = decision.taken[:0]
    allowed = Allowed(decision.domain, decision.available, none, price=decision.price)
    return allowed.best(decision.view.mean_to_climb(), rng)

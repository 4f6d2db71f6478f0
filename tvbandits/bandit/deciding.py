"""What an acquisition is asked: the beliefs, what is out, what is available, and where one is.

And what comes of it: the points to play, and the point of the best mean.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tvbandits.acquisition.availability import (
    Allowed,
    Available,
    NothingAvailableError,
    narrowed,
)
from tvbandits.acquisition.batch_rules import One
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
from tvbandits.core.observations import Plays
from tvbandits.core.protocols import Domain
from tvbandits.gp.posteriors.leaders import Request


def decision_of(
    recipe: Recipe,
    model: Model,
    state: State,
    now: float,
    beta: float,
    n: int | None = None,
    domain: Domain | None = None,
    free: Available | None = None,
    near: float | None = None,
) -> Decision:
    """The decision of a conditioned state at the time `now` in a domain, by default the recipe's.

    The rest is as of `Bandit.ask`.
    """
    domain = recipe.domain if domain is None else domain
    out, taken = state.pending, state.pending.X[state.pending.t == now]
    if recipe.control is not None:  # it is no news of any effect, and comes once
        out = Plays(*(each[~is_control(recipe, out.X)] for each in (out.X, out.t)))
        taken = np.concatenate([taken, np.array(recipe.control)[None]])
    most = None if recipe.asking is None else recipe.asking.informed_width
    informed = state.questions.informed and most is not None
    noise = model.pending_noise(state, now, out) if len(out.t) else np.empty(0)
    heard = np.isfinite(noise)
    # Without a unit of the reward, a batch rule has nothing to compare the noise with.
    known = recipe.mean != "online" or len(state.rewards.y) + len(state.answers.y) > 0
    batching = recipe.batching if known else replace(recipe.batching, rule=One())
    decision = Decision(
        domain=domain,
        view=model.view(state, now),
        beta=min(beta, most) if informed and most is not None else beta,
        noise_variance=model.noise_variance(state),
        batching=batching,
        n=n,
        pending=out.X[heard],
        pending_noise=noise[heard],
        taken=taken,
        available=free,
        leaders=model.leaders(state),
    )
    if near is None and recipe.move_cost is None:
        return decision
    start = _position(recipe, state)
    if start is not None:  # one is where one is, whatever the context is now
        start = replace(start, x=at_values_of(domain, recipe.domain, start.x[None])[0])
    if start is not None and recipe.move_cost is not None:
        decision = replace(decision, move=Move(recipe.domain, recipe.move_cost, start))
    return (
        decision
        if near is None
        else _within(decision, recipe.domain, check_near(near, start), start)
    )


def _position(recipe: Recipe, state: State) -> Position | None:
    """Where one is: at what was played last, or asked and not dropped."""
    plays = (state.readings, state.failed, state.pending)
    X, t = (np.concatenate([getattr(each, name) for each in plays]) for name in ("X", "t"))
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


def is_control(recipe: Recipe, X: Array) -> NDArray[np.bool_]:
    """Which of the points (n, d) are the control."""
    if recipe.control is None:
        return np.zeros(len(X), dtype=bool)
    return np.asarray((np.array(recipe.control) == X).all(axis=1))


def control_first(
    recipe: Recipe,
    state: State,
    now: float,
    n: int | None,
    free: Available | None,
    near: float | None = None,
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
        (is_control(recipe, each.X) & (each.t == now)).any()
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


def points_of_decision(
    recipe: Recipe,
    outcomes: Outcomes,
    state: State,
    decision: Decision,
    control: Array,
    now: float,
    free: Available | None,
    rng: np.random.Generator,
) -> tuple[State, Array, int]:
    """Where to play: the control, then others, in the order of a tour where moves cost something.

    Parameters
    ----------
    recipe : Recipe
    outcomes : Outcomes
        Of the recipe's limits.
    state : State
        Conditioned for the time `now`.
    decision : Decision
        Of that state, about the others.
    control : array of shape (c, d)
        What comes first.
    now : float
    free : Available, optional
        What is available, however far it is.
    rng : numpy.random.Generator
        Of the acquisition.

    Returns
    -------
    state : State
        With what was learned of the outcomes.
    X : array of shape (b, d)
    looks : int
        Variances that had to be computed for them.
    """
    if decision.n == 0:  # the control is all that is played
        return state, control, 0
    if outcomes:
        state, beliefs, own = outcomes.believed(state, now)
        start, rule = outcomes.start(state, free), recipe.acquisition
        X, looks = play_within(rule, decision, beliefs, start, rng, own, outcomes.warn)
        state = state if len(start) else outcomes.played(state, beliefs, X)
    else:
        X, looks = chosen(recipe.acquisition, decision, rng)
    if decision.move is not None and len(X) > 1:
        X = X[tour(recipe.domain, control[-1] if len(control) else decision.move.start.x, X)]
    return state, np.concatenate([control, X]), looks


def best_point(
    recipe: Recipe,
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
    decision = decision_of(recipe, model, state, now, 0.0, None, domain, free)
    decision = priced(decision, beliefs, own)
    if decision.leaders is not None:
        decision = decision.narrowed(Request(with_mean=True, times=0.0, enough=1))
    none = decision.taken[:0]
    allowed = Allowed(decision.domain, decision.available, none, price=decision.price)
    return allowed.best(decision.view.mean_to_climb(), rng)

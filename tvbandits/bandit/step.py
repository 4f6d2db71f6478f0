"""The two steps of a bandit: from a state and rewards to the next state, and from a state to points.

They are written for any policy; SparQ-GP-UCB's Algorithm 1 reads like this: `observe` is line 3, the
queries in it are lines 5 and 6, and `suggest` is line 4 and lines 7 and 8. What surrounds a decision,
where it may play (availability, `near`), what comes first (a control) and what a move costs, is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.acquisition.rules import Decision, choose_points
from tvbandits.bandit.inference import Inference
from tvbandits.bandit.outcomes import CONFIG as LIMIT_CONFIG, Outcomes, add_price, feasible_part
from tvbandits.bandit.querying import allow_questions_about, query_after_tell, query_before_ask
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.bandit.update import update
from tvbandits.data import NewObservations
from tvbandits.domains.availability import Available, ChoiceSet, NothingAvailableError, narrow
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain, move_to_context
from tvbandits.domains.moving import Move, Position, check_near, distances, tour
from tvbandits.errors import PlayError
from tvbandits.gp.top_candidates import Request as TopRequest
from tvbandits.validation import Array


@dataclass(frozen=True, eq=False)
class Request:
    """What a decision is asked for; as of `Bandit.ask`.

    Attributes
    ----------
    t : float
        Its time.
    n : int or None
        How many points; None: as the batch rule says.
    domain : Domain
        That of the context now.
    available : Available or None
    near : float or None
    """

    t: float
    n: int | None
    domain: Domain
    available: Available | None = None
    near: float | None = None


def observe(
    inference: Inference,
    outcomes: Outcomes,
    before: State,
    new: NewObservations,
    readings: Mapping[str, ArrayLike] | None,
    rng: np.random.Generator,
) -> State:
    """Return the state once it knows rewards and outcomes, and its expert was asked if it is due."""
    states = before.outcomes
    if states or readings is not None:
        states = outcomes.update(before, new, readings)
    state = update(inference, before, new, rng)
    if inference.recipe.asking is not None:
        state = query_after_tell(inference, before, state, new, rng)
    return replace(state, outcomes=states)


def suggest(
    inference: Inference,
    outcomes: Outcomes,
    state: State,
    request: Request,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Return the state after a decision, and its points (b, d), which are pending from now on."""
    recipe, domain, available = inference.recipe, request.domain, request.available
    # Where it may play is checked first: an expert is not paid for a call that is refused.
    place = None
    if not (recipe.is_unrestricted and request.near is None):
        place = find_place(recipe, state, request)
    changes = available is not state.queries.available or domain is not recipe.domain
    changes = changes or state.queries.due or recipe.consult == "before ask"
    if recipe.asking is not None and changes:
        if recipe.asking.expert is not None:
            check_reachable(place or Place(domain, available, state.pending.X[:0], request.n))
        state = query_before_ask(inference, state, request.t, domain, available, rng)
    state, view = inference.condition(state, request.t, rng)
    beta = inference.beta(state, view)
    decision = inference.decision(state, view, beta, request.n, domain, available)
    if place is None and request.n is None:
        X = recipe.acquisition.choose(decision, rng)
    elif place is None:
        X = choose_points(recipe.acquisition, decision, rng)
    else:
        state, X = choose_at_place(outcomes, decision, state, place, rng)
    state = allow_questions_about(state, X)
    queries, due = state.queries, state.queries.due or recipe.consult == "after tell"
    if queries.answered or due != queries.due:
        queries = replace(queries, answered=False, due=due)
    pending = state.pending.append(X, np.full(len(X), request.t))
    state = replace(
        state.with_record(pending=pending, asked_for=request.t),
        queries=queries,
        info=replace(state.info, beta=beta),
    )
    return state, X


def recommend(
    inference: Inference,
    outcomes: Outcomes,
    state: State,
    request: Request,
    rng: np.random.Generator,
) -> Array:
    """Return the point (d,) of the best mean, where limits are known to hold.

    Where they do nowhere, the point where they are likeliest to.
    """
    state, view = inference.condition(state, request.t, rng)
    decision = inference.decision(state, view, 0.0, None, request.domain, request.available)
    if any(len(each.rewards) for each in state.outcomes.values()):
        _, beliefs = outcomes.condition(state, decision.view.now)
        feasible = feasible_part(decision, beliefs)
        if not feasible.exists:
            return np.asarray(feasible.likeliest[0])
        decision = add_price(replace(decision, available=feasible.available), beliefs)
    if decision.top is not None:
        decision = decision.among_top(TopRequest(with_mean=True, times=0.0, size=1))
    nothing = decision.same_time[:0]
    allowed = ChoiceSet(decision.domain, decision.available, nothing, price=decision.price)
    return allowed.best(decision.view.mean_function(), rng)


# --- where a decision may play ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Place:
    """Where one decision may play.

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


def find_place(recipe: Recipe, state: State, request: Request) -> Place:
    """Return what a decision may choose from.

    Raises
    ------
    ValueError
        If `near` is no distance from anywhere, or `n` has no room beside a control.
    NothingAvailableError
        If nothing available is within `near`.
    """
    domain, available, near = request.domain, request.available, request.near
    start = None
    if near is not None or recipe.options.move_cost is not None:
        start = _position(recipe, state)
    reach = None if near is None else check_near(near, start)
    control = _control_first(recipe, state, request, reach, start)
    left = None if request.n is None else request.n - len(control)
    if start is not None:  # one is where one is, whatever the context is now
        start = replace(start, x=move_to_context(domain, recipe.domain, start.x[None])[0])
    if reach is not None and left != 0:
        assert start is not None  # a reach is from somewhere
        domain, available = _within_reach(domain, available, recipe.domain, reach, start)
    return Place(domain, available, control, left, start)


def check_reachable(place: Place) -> None:
    """Raise a `NothingAvailableError` if points at random of a domain that is not finite say so.

    Of candidates it is known already.
    """
    domain, available = place.domain, place.available
    if available is None or place.n == 0 or isinstance(domain, Candidates):
        return
    rng = np.random.default_rng(0)
    if not available(domain.sample(LIMIT_CONFIG.first_tries, rng)).any():
        ChoiceSet(domain, available, np.empty((0, domain.dimension))).sample(rng)


def choose_at_place(
    outcomes: Outcomes, decision: Decision, state: State, place: Place, rng: np.random.Generator
) -> tuple[State, Array]:
    """Return points to play with a control, within limits, or from where one is.

    The control comes first, then others, in the order of a tour where moves cost something.

    Parameters
    ----------
    outcomes : Outcomes
        Of the recipe's limits.
    decision : Decision
        As if there were none of these.
    state : State
        Conditioned for its time.
    place : Place
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
        state, beliefs = outcomes.condition(state, decision.view.now)
        first = outcomes.safe_points(state, decision)
        X = outcomes.choose(decision, beliefs, first, rng)
        state = state if len(first) else outcomes.add_risk(state, beliefs, X)
    else:
        X = choose_points(recipe.acquisition, decision, rng)
    if decision.move is not None and len(X) > 1:
        X = X[tour(recipe.domain, control[-1] if len(control) else decision.move.start.x, X)]
    return state, np.concatenate([control, X])


def _position(recipe: Recipe, state: State) -> Position | None:
    """Return where one is: at what was played last, or asked and not dropped.

    A control, which comes with every batch, ends no stay at another point.
    """
    plays = (state.readings, state.failed, state.pending)
    X, t = np.concatenate([p.X for p in plays]), np.concatenate([p.t for p in plays])
    others = ~recipe.is_control(X)
    if others.any():
        X, t = X[others], t[others]
    return Position.after(recipe.domain, X, t)


def _within_reach(
    domain: Domain, available: Available | None, whole: Domain, reach: float, start: Position
) -> tuple[Domain, Available | None]:
    """Return the domain and what is available no farther than `reach` from where one is."""
    here = start.x
    available = narrow(domain, available, lambda X: distances(whole, here, X) <= reach)
    if available is not None and available.mask is not None and not available.mask.any():
        raise NothingAvailableError(
            "nothing available is within near={reach} of {here}", reach=f"{reach:g}", here=here
        )
    return domain.near(here, reach), available


def _control_first(
    recipe: Recipe, state: State, request: Request, reach: float | None, start: Position | None
) -> Array:
    """Return the control (c, d), as often as it is to be played at a time before others are chosen.

    Once, where it is available and within reach; of more points than there are candidates, in its equal
    share of them.
    """
    n, available = request.n, request.available
    nothing = np.empty((0, recipe.domain.dimension))
    if recipe.options.control is None:
        return nothing
    control = np.array(recipe.options.control)[None]
    was_played = any(
        (recipe.is_control(each.X) & (each.t == request.t)).any()
        for each in (state.pending, state.rewards, state.failed)
    )
    if was_played or not (available is None or available(control)[0]):
        return nothing
    near = reach is None or start is None or distances(recipe.domain, start.x, control)[0] <= reach
    if not near:
        return nothing
    if n == 1:
        raise PlayError("a batch with a control has at least 2 points, got n=1 at {t}", t=request.t)
    count = 1
    if n is not None and isinstance(recipe.domain, Candidates):
        size = len(recipe.domain)
        there = size if available is None else int(available(recipe.domain.X).sum())
        count = max(1, n // there)
    return np.repeat(control, count, axis=0)

"""Expert queries: when and about which points the expert is queried, and how its answers are stored.

If the expert raises an error, it is down: its points count as refused, the user is warned once for each
outage, and the bandit continues without answers. If the expert answers in a wrong form, or raises an
error that shows a mistake in its code, there is an `ExpertError`, and nothing changes.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits.bandit.inference import Inference
from tvbandits.bandit.observations import count_unasked
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import QueryState, State
from tvbandits.data import Dataset, NewObservations, make_answers, median_time_step
from tvbandits.domains.availability import Available, check_availability
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain, move_to_context
from tvbandits.errors import warn_caller
from tvbandits.experts.protocol import (
    Answers,
    Expert,
    ExpertDownWarning,
    ExpertError,
    check_answers,
    inform,
    is_mistake,
)
from tvbandits.queries.plans import Pool, QueryConfig
from tvbandits.validation import Array, as_rows, as_time, describe_error

# The number of random points of an infinite domain among which a plan chooses; and the number of latest
# rewards whose median time step is taken for the time between two decisions.
POINTS, LATEST = 256, 100


def query_after_tell(
    inference: Inference,
    before: State,
    state: State,
    new: NewObservations,
    rng: np.random.Generator,
) -> State:
    """Return the state after the expert was shown new rewards, and queried if a query is due.

    There is one query for each decision, and none for a late reward. A query is also due if rewards of
    points that the bandit did not choose are later than the last query.
    """
    recipe, latest = inference.recipe, new.latest_time
    if recipe.query_config is None or recipe.query_config.expert is None:
        return state
    if len(new.rewards.t):
        show_rewards(recipe.query_config.expert, inference.with_noise(state, new.rewards))
    if recipe.consult != "after tell" or (before.time is not None and latest < before.time):
        return state
    # The latest time that occurred so far is taken for the present.
    pending_time = state.record.pending_time
    query_time = latest if pending_time is None else max(latest, pending_time)
    unasked = count_unasked(before.record, state.record, len(new.X))
    if state.queries.due or (unasked and _is_query_due(state.queries, query_time)):
        return query_expert(inference, state, query_time, rng)
    return state


def concerns_questions(
    recipe: Recipe, state: State, domain: Domain, available: Available | None
) -> bool:
    """Return whether expert queries may precede a decision, or depend on what is available in it."""
    changes = available is not state.queries.available or domain is not recipe.domain
    return changes or state.queries.due or recipe.consult == "before ask"


def query_before_ask(
    inference: Inference,
    state: State,
    now: float,
    domain: Domain,
    available: Available | None,
    rng: np.random.Generator,
) -> State:
    """Return the state after the expert was queried before a decision at `now`, if a query is due.

    Queries for that decision are about points that are available in it. If the expert is queried after a
    tell and the last decision has had no tell yet, its query is made now.
    """
    recipe = inference.recipe
    if available is None and domain is not recipe.domain:
        available = Available(domain, None, None)  # only for the queries of this decision
    state = _remember_available(inference, state, available, rng)
    queries, pending_time = state.queries, state.record.pending_time
    if recipe.query_config is None or recipe.query_config.expert is None:
        return state
    if recipe.consult == "before ask" and _is_query_due(queries, now):
        return query_expert(inference, state, now, rng)
    is_late = recipe.consult == "after tell" and queries.due
    if is_late and pending_time is not None and pending_time < now:
        return query_expert(inference, state, pending_time, rng)
    return state


def _is_query_due(queries: QueryState, query_time: float) -> bool:
    """Return whether a query about a time is due: after an event, or later than the last query."""
    return queries.due or queries.latest is None or query_time > queries.latest


def query_expert(
    inference: Inference, state: State, query_time: float, rng: np.random.Generator
) -> State:
    """Return the state after the expert was queried about points that the plan chose, at one time."""
    config = inference.recipe.query_config
    assert config is not None
    expert = config.expert
    assert expert is not None  # otherwise no query is due
    state, points = choose_queries(inference, state, query_time, rng)
    reply, failure = ask_expert(expert, points, query_time)
    answers = make_answers(points, query_time, reply.values, reply.variance)
    answers = answers.with_noise(inference.recipe.noise_variance)  # if the expert states none
    is_down = failure is not None
    before, q = state.info.queries, len(points)
    state = update_answers(
        config,
        state,
        answers,
        q - len(answers.t),
        replaces=True,
        asked=q,
        total_asked=before.total_asked + q,
        failures=before.failures + is_down,
        notes=reply.notes,
        cost=reply.cost,
        total_cost=before.total_cost + reply.cost,
    )
    # A query about no points does not show whether the expert is still down.
    if q > 0 and state.queries.down != is_down:
        if failure is not None:
            warn_of_outage(failure, query_time)
        state = state.with_queries(down=is_down)
    return state


def choose_queries(
    inference: Inference, state: State, query_time: float, rng: np.random.Generator
) -> tuple[State, Array]:
    """Return the points that the plan chooses for a query about one time.

    Returns
    -------
    state : State
        The state in which these points are counted.
    points : array of shape (q, d)
    """
    recipe, config = inference.recipe, inference.recipe.query_config
    assert config is not None
    before_ask = recipe.consult == "before ask"
    decision_time = query_time if before_ask else query_time + _usual_time_step(recipe, state)
    if state.queries.pool.visited < len(state.visited):  # an earlier recipe had no query plan
        state = state.with_queries(pool=inference.extend_query_pool(state, state.visited))
    points, posterior = list_query_candidates(recipe, state, rng), None
    if config.plan.looks_at_posterior and len(points):
        state, view = inference.condition(state, decision_time, rng)
        posterior = inference.make_joint_posterior(state, view, points, query_time)
    pool = Pool(
        points,
        state.count,
        lambda: state.model.kernel(inference.make_inputs(points, query_time)),
        posterior,
        state.queries.asked,
        state.queries.decisions + 1,
        noise_variance=inference.noise_variance(state) / state.model.scaling.scale**2,
    )
    rows = as_rows(config.plan.choose(pool, rng), len(points), "rows that a query plan chooses")
    count = state.queries.asked + len(rows)
    state = state.with_queries(asked=count, decisions=pool.decisions, due=False, latest=query_time)
    return state, points[rows]


def _usual_time_step(recipe: Recipe, state: State) -> float:
    """Return the time between two decisions: 1, or the median step if the model learns that unit."""
    in_steps = recipe.posterior.self_learning or (
        recipe.learn is not None and recipe.learn.in_steps
    )
    return median_time_step(state.rewards.t[-LATEST:]) if in_steps else 1.0


def _remember_available(
    inference: Inference, state: State, available: Available | None, rng: np.random.Generator
) -> State:
    """Return the state with the availability of a decision, for later queries.

    A function cannot be saved. It is evaluated at all points of possible queries, the pool and random
    points of the domain, and the available ones are stored instead.
    """
    if available is not None and (available.test is not None or available.within is not None):
        if state.queries.pool.visited < len(state.visited):
            state = state.with_queries(pool=inference.extend_query_pool(state, state.visited))
        points = _pool_points(inference.recipe, state, available.domain, rng)
        available = Available(available.domain, None, None, points=points[available(points)])
    return state.with_queries(available=available)


def _pool_points(recipe: Recipe, state: State, domain: Domain, rng: np.random.Generator) -> Array:
    """Return the points of the pool, and random points if queries may be about any point."""
    config = recipe.query_config
    assert config is not None
    pool = move_to_context(domain, recipe.domain, state.visited[state.queries.pool.rows])
    if config.pool == "played":
        return pool
    return np.concatenate([pool, domain.sample(POINTS, rng)])


def list_query_candidates(recipe: Recipe, state: State, rng: np.random.Generator) -> Array:
    """Return the points (N, d) among which a query plan may choose."""
    config, available = recipe.query_config, state.queries.available
    assert config is not None
    domain = recipe.domain if available is None else available.domain
    if available is not None and available.points is not None and config.pool != "played":
        return available.points
    if config.pool == "played" or not isinstance(domain, Candidates):
        points = _pool_points(recipe, state, domain, rng)
    else:
        points = domain.X
    if available is None and isinstance(domain, Candidates) and domain.retired:
        available = check_availability(domain, None, None, any_context=True)
    return points if available is None else points[available(points)]


def find_query_time(recipe: Recipe, state: State, t: float | None) -> float:
    """Return the time that queries are about: `t`, or by default that of the decision they serve."""
    if t is not None:
        return as_time(t)
    if state.record.pending_time is not None:
        return state.record.pending_time
    latest = state.time
    if latest is None:
        return 1.0
    return latest if recipe.consult == "after tell" else latest + 1.0


def choose_queries_to_carry(
    inference: Inference,
    state: State,
    query_time: float,
    available: Available | None,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Return the points (q, d) of a query that the user sends to the expert; none if none is due."""
    if not _is_query_due(state.queries, query_time):
        return state, np.empty((0, inference.recipe.domain.dimension))
    if available is not None:
        state = _remember_available(inference, state, available, rng)
    state, points = choose_queries(inference, state, query_time, rng)
    info, q = state.info.queries, len(points)
    info = replace(info, asked=q, total_asked=info.total_asked + q)
    return replace(state, info=replace(state.info, queries=info)), points


def update_answers(
    config: QueryConfig,
    state: State,
    answers: Dataset,
    refused: int,
    *,
    replaces: bool,
    **info: Any,
) -> State:
    """Return the state with new answers about one time, from a query or from `Bandit.answer`.

    Parameters
    ----------
    config : QueryConfig
    state : State
    answers : Dataset
    refused : int
        The number of points without an answer.
    replaces : bool
        Whether these are all answers of a query. If answers are not reused, they then replace all
        earlier ones. Otherwise, as answers may arrive in parts, they replace those about earlier times.
    info
        New values of other fields of `QueryInfo`.
    """
    rows, (rewards, forgotten) = state.answers, state.model.reset_index
    if not config.reuse_answers and replaces:
        rows, forgotten = answers, 0
    else:
        if not config.reuse_answers and len(answers) and (rows.t < answers.t[0]).any():
            newest = rows.t >= answers.t.max()
            forgotten = int(newest[:forgotten].sum())
            rows = rows.take(newest)
        rows = rows.append(answers)
        surplus = len(rows) - (config.most_answers or len(rows))
        if surplus > 0:
            rows, forgotten = rows.take(slice(surplus, None)), max(forgotten - surplus, 0)
    before, queries, count = state.info.queries, state.queries, len(answers.t)
    query_info = replace(
        before,
        answered=count,
        refused=refused,
        total_answered=before.total_answered + count,
        total_refused=before.total_refused + refused,
        **info,
    )
    if count:
        has_variance = np.isfinite(answers.variance).all()  # otherwise it is learned
        median = statistics.median(answers.variance.tolist()) if has_variance else queries.variance
        queries = replace(queries, answered=True, variance=median)
    model = state.model
    if model.reset_index != (rewards, forgotten):
        model = replace(model, reset_index=(rewards, forgotten))
    return replace(
        state.with_record(answers=rows),
        model=model,
        queries=queries,
        info=replace(state.info, queries=query_info),
    )


# --- the expert ---------------------------------------------------------------------------------------


def ask_expert(expert: Expert, points: Array, t: float) -> tuple[Answers, Exception | None]:
    """Return the expert's checked answers about points (q, d), and the error if the expert is down.

    Raises
    ------
    ExpertError
        If the expert answers in a wrong form, or its error shows a mistake in its code.
    """
    q = len(points)
    if q == 0:
        return Answers.none(0), None
    try:
        answers = expert.query(points.copy(), t)
    except Exception as error:
        if is_mistake(error):
            message = f"the expert failed on {q} points at t = {t}: {describe_error(error)}"
            raise ExpertError(message) from error
        return Answers.none(q, notes=(describe_error(error),)), error
    return check_answers(answers, q), None


def show_rewards(expert: Expert, rewards: Dataset) -> None:
    """Show rewards to an expert that has a method for that; an `ExpertError` if the method fails."""
    try:
        inform(expert, rewards)
    except Exception as error:
        message = (
            f"the expert failed on being shown {len(rewards)} rewards: {describe_error(error)}"
        )
        raise ExpertError(message) from error


def warn_of_outage(failure: Exception, t: float) -> None:
    """Warn the user that the expert is down."""
    message = (
        f"the expert cannot be reached at t = {t:g} ({describe_error(failure)}); "
        "the bandit continues without its answers until it can"
    )
    try:
        warn_caller(ExpertDownWarning(message))
    except ExpertDownWarning as warning:  # warnings are errors
        raise warning from failure

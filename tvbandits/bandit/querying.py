"""Ask an expert: when, about what, and what becomes of its answers.

An expert that raises is down: its points count as refused, people are warned once for every outage, and
the bandit goes on with what it has. An expert that answers in a form that cannot be used, or raises what
Python raises for mistakes in a program, is broken: that is an `ExpertError`, and nothing is changed.
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

# Points drawn from a domain that is not finite, for a plan to choose from; and the latest rewards, the
# usual time between which is that between two decisions.
POINTS, LATEST = 256, 100


def query_after_tell(
    inference: Inference,
    before: State,
    state: State,
    new: NewObservations,
    rng: np.random.Generator,
) -> State:
    """Return the state once the expert was shown what was told, and asked if it is its turn.

    It is once a decision, and never for a late reward. Rewards of points that were asked belong to a
    decision, which is due or has had its questions. Those of points that nobody asked are news of their
    own, if their time is.
    """
    recipe, latest = inference.recipe, new.latest_time
    if recipe.query_config is None or recipe.query_config.expert is None:
        return state
    if len(new.rewards.t):
        show_rewards(recipe.query_config.expert, inference.with_noise(state, new.rewards))
    if recipe.consult != "after tell" or (before.time is not None and latest < before.time):
        return state
    # The present, as far as it is known.
    pending_time = state.record.pending_time
    about = latest if pending_time is None else max(latest, pending_time)
    unasked = count_unasked(before.record, state.record, len(new.X))
    if state.queries.due or (unasked and _is_new(state.queries, about)):
        return query_expert(inference, state, about, rng)
    return state


def concerns_questions(
    recipe: Recipe, state: State, domain: Domain, available: Available | None
) -> bool:
    """Return whether a decision may have questions before it, or changes what questions are about."""
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
    """Return the state once the expert was asked before a decision at `now`, if it is its turn.

    Questions about that decision keep to what was available in its domain. Where the expert is asked
    after a tell, a decision whose rewards have not come by the next one has its questions then.
    """
    recipe = inference.recipe
    if available is None and domain is not recipe.domain:
        available = Available(domain, None, None)  # for questions: nobody else looks at that
    state = _remember_available(inference, state, available, rng)
    queries, last = state.queries, state.record.pending_time
    if recipe.query_config is None or recipe.query_config.expert is None:
        return state
    if recipe.consult == "before ask" and _is_new(queries, now):
        return query_expert(inference, state, now, rng)
    late = recipe.consult == "after tell" and queries.due
    if late and last is not None and last < now:
        return query_expert(inference, state, last, rng)
    return state


def _is_new(queries: QueryState, about: float) -> bool:
    return queries.due or queries.latest is None or about > queries.latest


def query_expert(
    inference: Inference, state: State, about: float, rng: np.random.Generator
) -> State:
    """Return the state once the plan has chosen and the expert was asked about the time `about`."""
    config = inference.recipe.query_config
    assert config is not None
    expert = config.expert
    assert expert is not None  # otherwise nothing is due
    state, points = choose_questions(inference, state, about, rng)
    reply, failure = ask_expert(expert, points, about)
    answers = make_answers(points, about, reply.values, reply.variance)
    answers = answers.with_noise(inference.recipe.noise_variance)  # where the expert states none
    down = failure is not None
    before, q = state.info.queries, len(points)
    state = update_answers(
        config,
        state,
        answers,
        q - len(answers.t),
        replaces=True,
        asked=q,
        total_asked=before.total_asked + q,
        failures=before.failures + down,
        notes=reply.notes,
        cost=reply.cost,
        total_cost=before.total_cost + reply.cost,
    )
    # An expert that is asked nothing may be down still.
    if q > 0 and state.queries.down != down:
        if failure is not None:
            warn_of_outage(failure, about)
        state = state.with_queries(down=down)
    return state


def choose_questions(
    inference: Inference, state: State, about: float, rng: np.random.Generator
) -> tuple[State, Array]:
    """Return what the plan asks about the time `about`; the state counts the questions.

    Returns
    -------
    state : State
    points : array of shape (q, d)
    """
    recipe, config = inference.recipe, inference.recipe.query_config
    assert config is not None
    decision = about if recipe.consult == "before ask" else about + _usual_time_step(recipe, state)
    if state.queries.pool.visited < len(state.visited):  # some were played without a plan
        state = state.with_queries(pool=inference.extend_query_pool(state, state.visited))
    points, beliefs = list_query_candidates(recipe, state, rng), None
    if config.plan.looks_at_posterior and len(points):
        state, view = inference.condition(state, decision, rng)
        beliefs = inference.make_joint_posterior(state, view, points, about)
    pool = Pool(
        points,
        state.count,
        lambda: state.model.kernel(inference.make_inputs(points, about)),
        beliefs,
        state.queries.asked,
        state.queries.decisions + 1,
        noise_variance=inference.noise_variance(state) / state.model.scaling.scale**2,
    )
    rows = as_rows(config.plan.choose(pool, rng), len(points), "rows that a query plan chooses")
    count = state.queries.asked + len(rows)
    state = state.with_queries(asked=count, decisions=pool.decisions, due=False, latest=about)
    return state, points[rows]


def _usual_time_step(recipe: Recipe, state: State) -> float:
    """Return the time between two decisions: 1, unless the model counts time in steps that it learns."""
    in_steps = recipe.posterior.self_learning or (
        recipe.learn is not None and recipe.learn.in_steps
    )
    return median_time_step(state.rewards.t[-LATEST:]) if in_steps else 1.0


def _remember_available(
    inference: Inference, state: State, available: Available | None, rng: np.random.Generator
) -> State:
    """Return the state that keeps what is available for questions: points, where a function says it.

    A function cannot be saved. What it says is asked once of all points that questions may be about: the
    pool, and points drawn from the domain.
    """
    if available is not None and (available.test is not None or available.within is not None):
        if state.queries.pool.visited < len(state.visited):
            state = state.with_queries(pool=inference.extend_query_pool(state, state.visited))
        points = _pool_points(inference.recipe, state, available.domain, rng)
        available = Available(available.domain, None, None, points=points[available(points)])
    return state.with_queries(available=available)


def _pool_points(recipe: Recipe, state: State, domain: Domain, rng: np.random.Generator) -> Array:
    """Return the points of the pool, and more of a domain that is not finite unless they are enough."""
    config = recipe.query_config
    assert config is not None
    played = move_to_context(domain, recipe.domain, state.visited[state.queries.pool.rows])
    if config.pool == "played":
        return played
    return np.concatenate([played, domain.sample(POINTS, rng)])


def list_query_candidates(recipe: Recipe, state: State, rng: np.random.Generator) -> Array:
    """Return the points that may be asked about, shape (N, d)."""
    config, available = recipe.query_config, state.queries.available
    assert config is not None
    domain = recipe.domain if available is None else available.domain
    if available is not None and available.points is not None and config.pool != "played":
        return available.points
    if config.pool == "played" or not isinstance(domain, Candidates):
        points = _pool_points(recipe, state, domain, rng)
    else:
        points = domain.X
    if available is None and isinstance(domain, Candidates) and domain.retired:  # not asked about
        available = check_availability(domain, None, None, any_context=True)
    return points if available is None else points[available(points)]


def find_query_time(recipe: Recipe, state: State, t: float | None) -> float:
    """Return the time that questions are about: `t`, or that of the decision they are for."""
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
    about: float,
    available: Available | None,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Return questions (q, d) for somebody else to carry; none once the decision has had its own."""
    if not _is_new(state.queries, about):
        return state, np.empty((0, inference.recipe.domain.dimension))
    if available is not None:
        state = _remember_available(inference, state, available, rng)
    state, points = choose_questions(inference, state, about, rng)
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
    **about: Any,
) -> State:
    """Return the state with answers about one time: of a query, or such as somebody brought.

    Parameters
    ----------
    refused : int
        How many points have none.
    replaces : bool
        Whether they are all answers of a query. Where answers are not reused, they replace those before
        them; answers that are brought in parts replace those about earlier times.
    about
        What else people are told of it, as `QueryInfo` calls it.
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
    info = replace(
        before,
        answered=count,
        refused=refused,
        total_answered=before.total_answered + count,
        total_refused=before.total_refused + refused,
        **about,
    )
    if count:
        has_noise = np.isfinite(answers.variance).all()  # else it is learned
        stated = statistics.median(answers.variance.tolist()) if has_noise else queries.variance
        queries = replace(queries, answered=True, variance=stated)
    model = state.model
    if model.reset_index != (rewards, forgotten):
        model = replace(model, reset_index=(rewards, forgotten))
    return replace(
        state.with_record(answers=rows),
        model=model,
        queries=queries,
        info=replace(state.info, queries=info),
    )


# --- the expert ---------------------------------------------------------------------------------------


def ask_expert(expert: Expert, points: Array, t: float) -> tuple[Answers, Exception | None]:
    """Return what the expert answers, and the error of one that could not be reached.

    Raises
    ------
    ExpertError
        If the expert is broken.
    """
    q = len(points)
    if q == 0:
        return Answers.none(0), None
    try:
        answers = expert.query(points.copy(), t)
    except Exception as error:
        if is_mistake(error):
            why = f"the expert failed on {q} points at t = {t}: {describe_error(error)}"
            raise ExpertError(why) from error
        return Answers.none(q, notes=(describe_error(error),)), error
    return check_answers(answers, q), None


def show_rewards(expert: Expert, rewards: Dataset) -> None:
    """Show rewards to an expert that wants to see them; an `ExpertError` if it fails on them."""
    try:
        inform(expert, rewards)
    except Exception as error:
        why = f"the expert failed on being shown {len(rewards)} rewards: {describe_error(error)}"
        raise ExpertError(why) from error


def warn_of_outage(failure: Exception, t: float) -> None:
    """Tell people that the expert is down."""
    message = (
        f"the expert cannot be reached at t = {t:g} ({describe_error(failure)}); "
        "going on without its answers until it can"
    )
    try:
        warn_caller(ExpertDownWarning(message))
    except ExpertDownWarning as strict:
        raise strict from failure

"""Questions and answers in the life of a bandit: when, about what, and what becomes of them.

An expert that raises is down: its points count as refused, people are warned once for every outage, and
the bandit goes on with what it has. An expert that answers in a form that cannot be used, or raises what
Python raises for mistakes in a program, is broken: that is an `ExpertError`, and nothing is changed.
"""

from __future__ import annotations

import statistics
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits.bandit.inference import Model
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import Questions, State
from tvbandits.bandit.told import kept_answers
from tvbandits.data import Dataset, Told, answers_of, changed
from tvbandits.domains.availability import Available, availability_of
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.context import at_values_of
from tvbandits.domains.domain import Domain
from tvbandits.experts.protocol import (
    Answers,
    Expert,
    ExpertDownWarning,
    ExpertError,
    check_answers,
    inform,
    is_mistake,
)
from tvbandits.gp.fitting.online import step_of
from tvbandits.gp.lookahead import EVERY, JointPosterior, Rows
from tvbandits.gp.predictions import View
from tvbandits.queries.plans import Asking, Pool
from tvbandits.validation import Array, Index, as_rows, as_time, error_line

# Points drawn from a domain that is not finite, for a plan to choose from.
DRAWN = 256

# The usual time between two decisions is that between so many of the latest rewards.
LATEST = 100


def after_tell(
    model: Model, before: State, state: State, told: Told, rng: np.random.Generator
) -> State:
    """The state once the expert was shown what was told, and asked if it is its turn.

    It is once a decision, and never for a late reward. Rewards of points that were asked belong to a
    decision, which is due or has had its questions. Those of points that nobody asked are news of their
    own, if their time is.
    """
    asking, latest = model.recipe.asking, told.latest
    if asking is None or asking.expert is None:
        return state
    if len(told.rewards.t):
        show(asking.expert, model.known(state, told.rewards))
    if model.recipe.consult != "after tell" or (before.time is not None and latest < before.time):
        return state
    # The present, as far as it is known.
    about = latest if state.asked_for is None else max(latest, state.asked_for)
    unasked = len(before.pending.t) - len(state.pending.t) < len(told.X)
    if state.questions.due or (unasked and _is_new(state.questions, about)):
        return _with_answers_of_the_expert(model, state, about, rng)
    return state


def before_ask(
    model: Model,
    state: State,
    now: float,
    domain: Domain,
    free: Available | None,
    rng: np.random.Generator,
) -> State:
    """The state once the expert was asked before a decision at `now`, if it is its turn.

    Questions about that decision keep to what was available in its domain. Where the expert is asked
    after a tell, a decision whose rewards have not come by the next one has its questions then.
    """
    recipe = model.recipe
    if free is None and domain is not recipe.domain:
        free = Available(domain, None, None)  # for questions: nobody else looks at that
    state = _with_available(model, state, free, rng)
    questions, last = state.questions, state.asked_for
    if recipe.asking is None or recipe.asking.expert is None:
        return state
    if recipe.consult == "before ask" and _is_new(questions, now):
        return _with_answers_of_the_expert(model, state, now, rng)
    late = recipe.consult == "after tell" and questions.due
    if late and last is not None and last < now:
        return _with_answers_of_the_expert(model, state, last, rng)
    return state


def _is_new(questions: Questions, about: float) -> bool:
    return questions.due or questions.latest is None or about > questions.latest


def _with_answers_of_the_expert(
    model: Model, state: State, about: float, rng: np.random.Generator
) -> State:
    """The state once the plan has chosen and the expert was asked about the time `about`."""
    asking = model.recipe.asking
    assert asking is not None
    expert = asking.expert
    assert expert is not None  # otherwise nothing is due
    state, points = chosen(model, state, about, rng)
    said, failure = asked(expert, points, about)
    fresh = answers_of(points, about, said.values, said.variance)
    down = failure is not None
    before, q = state.info.queries, len(points)
    state = with_answers(
        asking,
        state,
        fresh,
        q - len(fresh.t),
        replaces=True,
        asked=q,
        total_asked=before.total_asked + q,
        failures=before.failures + down,
        notes=said.notes,
        cost=said.cost,
        total_cost=before.total_cost + said.cost,
    )
    # An expert that is asked nothing may be down still.
    if q > 0 and state.questions.down != down:
        if failure is not None:
            warn_of(failure, about)
        state = changed(state, questions=changed(state.questions, down=down))
    return state


def chosen(
    model: Model, state: State, about: float, rng: np.random.Generator
) -> tuple[State, Array]:
    """What the plan asks about the time `about`; the state counts the questions.

    Returns
    -------
    state : State
    points : array of shape (q, d)
    """
    recipe, asking = model.recipe, model.recipe.asking
    assert asking is not None
    decision = about if recipe.consult == "before ask" else about + _usual_step(recipe, state)
    if state.questions.pool.seen < len(state.visited):  # some were played without a plan
        grown = model.members(state, state.visited)
        state = replace(state, questions=replace(state.questions, pool=grown))
    points, beliefs = _askable(recipe, state, rng), None
    if getattr(asking.plan, "looks_at_posterior", True) and len(points):
        state, view = model.conditioned(state, decision, rng)
        beliefs = joint_beliefs(model, state, view, points, about)
    pool = Pool(
        points,
        state.gone.rewards + len(state.rewards.t),
        lambda: state.model.kernel(model.inputs(points, about)),
        beliefs,
        state.questions.asked,
        state.questions.decisions + 1,
    )
    rows = as_rows(asking.plan.choose(pool, rng), len(points), "rows that a query plan chooses")
    known, total = state.questions, state.questions.asked + len(rows)
    known = changed(known, asked=total, decisions=pool.decisions, due=False, latest=about)
    return changed(state, questions=known), points[rows]


def _usual_step(recipe: Recipe, state: State) -> float:
    """Return the time between two decisions: 1, unless the model counts time in steps that it learns."""
    in_steps = recipe.posterior.self_learning or (
        recipe.learn is not None and recipe.learn.in_steps
    )
    return step_of(state.rewards.t[-LATEST:]) if in_steps else 1.0


def _with_available(
    model: Model, state: State, free: Available | None, rng: np.random.Generator
) -> State:
    """The state that keeps what is available for questions: points, where a function says it.

    A function cannot be saved. What it says is asked once of all points that questions may be about: the
    pool, and points drawn from the domain.
    """
    if free is not None and (free.test is not None or free.within is not None):
        if state.questions.pool.seen < len(state.visited):
            grown = model.members(state, state.visited)
            state = replace(state, questions=replace(state.questions, pool=grown))
        points = _candidates(model.recipe, state, free.domain, rng)
        free = Available(free.domain, None, None, points=points[free(points)])
    return changed(state, questions=changed(state.questions, available=free))


def with_available(state: State, X: Array) -> State:
    """The state in which questions may be about points (b, d) that a decision has chosen, too."""
    free = state.questions.available
    if free is None or free.points is None:
        return state
    free = replace(free, points=np.concatenate([free.points, X[~free(X)]]))
    return replace(state, questions=replace(state.questions, available=free))


def _candidates(recipe: Recipe, state: State, domain: Domain, rng: np.random.Generator) -> Array:
    """The points of the pool, and more of a domain that is not finite unless they are enough."""
    asking = recipe.asking
    assert asking is not None
    played = at_values_of(domain, recipe.domain, state.visited[state.questions.pool.rows])
    if asking.about == "played":
        return played
    return np.concatenate([played, domain.sample(DRAWN, rng)])


def _askable(recipe: Recipe, state: State, rng: np.random.Generator) -> Array:
    """The points that may be asked about."""
    asking, available = recipe.asking, state.questions.available
    assert asking is not None
    domain = recipe.domain if available is None else available.domain
    if available is not None and available.points is not None and asking.about != "played":
        return available.points
    if asking.about == "played" or not isinstance(domain, Candidates):
        points = _candidates(recipe, state, domain, rng)
    else:
        points = domain.X
    if available is None and isinstance(domain, Candidates) and domain.retired:  # not asked about
        available = availability_of(domain, None, None, any_context=True)
    return points if available is None else points[available(points)]


def joint_beliefs(
    model: Model, state: State, view: View, points: Array, about: float
) -> JointPosterior:
    """Of a state that is conditioned for a decision, and its view, in the unit of reward."""
    posterior, stated = view.posterior, state.questions.variance
    noise = model.noise_variance(state) if stated is None else stated
    own = posterior.lookahead(points, about, model.beta(state, view), noise)
    if own is not None:
        return own
    mean, deviation = view.predict(points)
    asked_now, later = model.inputs(points, about), view.inputs(points)
    unit = view.scale**2

    def reach(rows: Rows, others: Index | slice = EVERY) -> Array:
        return np.asarray(unit * posterior.cross_covariance(asked_now[list(rows)], later[others]))

    def among(rows: Rows, others: Rows) -> Array:
        some, more = asked_now[list(rows)], asked_now[list(others)]
        return np.asarray(unit * posterior.cross_covariance(some, more))

    return JointPosterior(mean, deviation, model.beta(state, view), noise, reach, among)


def question_time(recipe: Recipe, state: State, t: float | None) -> float:
    """The time that questions are about: `t`, or that of the decision they are for."""
    if t is not None:
        return as_time(t)
    if state.asked_for is not None:
        return state.asked_for
    latest = state.time
    if latest is None:
        return 1.0
    return latest if recipe.consult == "after tell" else latest + 1.0


def asked_out(
    model: Model, state: State, about: float, free: Available | None, rng: np.random.Generator
) -> tuple[State, Array]:
    """Questions (q, d) for somebody else to carry; none once the decision has had its own."""
    if not _is_new(state.questions, about):
        return state, np.empty((0, model.recipe.domain.dimension))
    if free is not None:
        state = _with_available(model, state, free, rng)
    state, points = chosen(model, state, about, rng)
    queries, q = state.info.queries, len(points)
    queries = changed(queries, asked=q, total_asked=queries.total_asked + q)
    return changed(state, info=changed(state.info, queries=queries)), points


def with_answers(
    asking: Asking, state: State, fresh: Dataset, refused: int, *, replaces: bool, **more: Any
) -> State:
    """The state with answers about one time: of a query, or such as somebody brought.

    Parameters
    ----------
    refused : int
        How many points have none.
    replaces : bool
        They are all of a query; see `kept_answers`.
    more
        What else people are told of it, as `QueryInfo` calls it.
    """
    rule = asking.reuse_answers, asking.most_answers
    answers, since = kept_answers(rule, state.answers, state.since, fresh, replaces)
    about, questions, count = state.info.queries, state.questions, len(fresh.t)
    total = {
        "total_answered": about.total_answered + count,
        "total_refused": about.total_refused + refused,
    }
    queries = changed(about, answered=count, refused=refused, **total, **more)
    if count:
        known = np.isfinite(fresh.variance).all()  # else it is learned
        stated = statistics.median(fresh.variance.tolist()) if known else questions.variance
        questions = changed(questions, informed=True, variance=stated)
    info = changed(state.info, queries=queries)
    return changed(state, answers=answers, since=since, questions=questions, info=info)


# --- asking ----------------------------------------------------------------------------------------


def asked(expert: Expert, points: Array, t: float) -> tuple[Answers, Exception | None]:
    """What was said, and the error of an expert that could not be reached.

    Raises
    ------
    ExpertError
        If the expert is broken.
    """
    q = len(points)
    if q == 0:
        return Answers.none(0), None
    try:
        # [S] Algorithm 1, line 6.
        said = expert.query(points.copy(), t)
    except Exception as error:
        if is_mistake(error):
            why = f"the expert failed on {q} points at t = {t}: {error_line(error)}"
            raise ExpertError(why) from error
        return Answers.none(q, notes=(error_line(error),)), error
    return check_answers(said, q), None


def show(expert: Expert, rewards: Dataset) -> None:
    """Show rewards to an expert that wants to see them; an `ExpertError` if it fails on them."""
    try:
        inform(expert, rewards)
    except Exception as error:
        why = f"the expert failed on being shown {len(rewards)} rewards: {error_line(error)}"
        raise ExpertError(why) from error


def warn_of(failure: Exception, t: float) -> None:
    """Tell people that the expert is down."""
    message = (
        f"the expert cannot be reached at t = {t:g} ({error_line(failure)}); "
        "going on without its answers until it can"
    )
    try:
        warnings.warn(message, ExpertDownWarning, stacklevel=6)  # the line that called `tell`
    except ExpertDownWarning as strict:
        raise strict from failure

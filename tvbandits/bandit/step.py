"""The two steps of a bandit: from a state and rewards to the next state, and from a state to points.

They are the same for all policies; docs/papers.md lists the lines of the papers' algorithms that they
implement. The expert queries between them are in `tvbandits.bandit.querying`. This module also restricts
decisions (`near`, control, limits, move cost), replays the steps after a correction, and learns a prior
from another bandit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.acquisition.constraints import (
    CONFIG as LIMIT_CONFIG,
    OutcomePosterior,
    OutcomePosteriors,
    add_price,
    expand,
    feasible_part,
)
from tvbandits.acquisition.limits import LimitWarning, as_outcomes, check_outcome
from tvbandits.acquisition.rules import Decision, choose_points
from tvbandits.bandit.inference import Inference
from tvbandits.bandit.initial_state import adapt_state, make_initial_state
from tvbandits.bandit.observations import (
    PLAYS,
    UNREAD_PLAYS,
    Correction,
    ReadingTable,
    append_visited,
    check_values_and_variance,
    fill_variance,
    find_pending_time,
    find_signs_of_trouble,
)
from tvbandits.bandit.outliers import set_outliers_aside
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State, check_after_first, restore_generator
from tvbandits.data import Dataset, NewObservations
from tvbandits.domains.availability import Available, ChoiceSet, NothingAvailableError, narrow
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain, move_to_context
from tvbandits.domains.moving import Move, Position, check_near, distances, plan_tour
from tvbandits.errors import PlayError, warn_caller
from tvbandits.forgetting.aging import has_rate
from tvbandits.gp.calibration import IntervalCalibration
from tvbandits.gp.online import scale_times
from tvbandits.gp.top_candidates import TopRequest as TopRequest
from tvbandits.option_text import choose_words
from tvbandits.validation import Array, check_instance


@dataclass(frozen=True, eq=False)
class Request:
    """The arguments of a decision, as for `Bandit.ask`.

    Attributes
    ----------
    t : float
        The time of the decision.
    n : int or None
        The number of points; None: the batch rule decides.
    domain : Domain
        The domain in the present context.
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
    outcome_models: OutcomeModels,
    before: State,
    new: NewObservations,
    outcome_values: Mapping[str, ArrayLike] | None,
    rng: np.random.Generator,
) -> State:
    """Return the state after new rewards and readings of outcomes."""
    states = before.outcomes
    if states or outcome_values is not None:
        states = outcome_models.update(before, new, outcome_values)
    state = update(inference, before, new, rng)
    if signs := find_unread_outcomes(states):
        state = replace(state, info=replace(state.info, health=(*state.info.health, *signs)))
    return replace(state, outcomes=states)


def find_unread_outcomes(outcomes: Mapping[str, State]) -> tuple[str, ...]:
    """Return a sign, in words, for each outcome with a limit that the latest plays did not read."""
    signs = []
    for name, outcome in outcomes.items():
        latest = outcome.rewards.t.max(initial=-np.inf)
        count = int(np.count_nonzero(outcome.failed.t > latest))
        if count >= (PLAYS if len(outcome.rewards) else UNREAD_PLAYS):
            signs.append(
                f"the latest {count} plays have no reading of {name}: "
                "the limit on it cannot be kept until there are some"
            )
    return tuple(signs)


def suggest(
    inference: Inference,
    outcome_models: OutcomeModels,
    state: State,
    request: Request,
    region: Region | None,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Return the state after a decision, and the points (b, d), which are pending in that state.

    `region` is the result of `find_region`.
    """
    recipe = inference.recipe
    state, view = inference.condition(state, request.t, rng)
    beta = inference.beta(state, view)
    decision = inference.make_decision(
        state, view, beta, request.n, request.domain, request.available
    )
    if region is None:
        X = choose_points(recipe.acquisition, decision, rng)
    else:
        state, X = choose_in_region(outcome_models, decision, state, region, rng)
    state = allow_questions_about(state, X)
    queries, due = state.queries, is_query_due_after("decision", recipe, state)
    if queries.answered or due != queries.due:
        queries = replace(queries, answered=False, due=due)
    pending = state.pending.append(X, np.full(len(X), request.t))
    state = replace(
        state.with_record(pending=pending, pending_time=request.t),
        queries=queries,
        info=replace(state.info, beta=beta),
    )
    return state, X


def is_query_due_after(event: Literal["decision", "tell"], recipe: Recipe, state: State) -> bool:
    """Return whether an expert query is due after an event.

    If the expert is queried after a tell, a decision makes the query due; if it is queried before a
    decision, new observations do.
    """
    trigger = "decision" if recipe.consult == "after tell" else "tell"
    return state.queries.due or event == trigger


def allow_questions_about(state: State, X: Array) -> State:
    """Return the state in which the expert may also be queried about points (b, d) of a decision."""
    available = state.queries.available
    if available is None or available.points is None:
        return state
    points = np.concatenate([available.points, X[~available(X)]])
    return state.with_queries(available=replace(available, points=points))


def recommend(
    inference: Inference,
    outcome_models: OutcomeModels,
    state: State,
    request: Request,
    rng: np.random.Generator,
) -> Array:
    """Return the point (d,) of the best mean among those known to satisfy all limits.

    If there are none, return the point that is most likely to satisfy them.
    """
    state, view = inference.condition(state, request.t, rng)
    decision = inference.make_decision(state, view, 0.0, None, request.domain, request.available)
    if any(len(outcome.rewards) for outcome in state.outcomes.values()):
        _, beliefs = outcome_models.condition(state, decision.view.now)
        feasible = feasible_part(decision, beliefs)
        if not feasible.exists:
            return np.asarray(feasible.likeliest[0])
        decision = add_price(replace(decision, available=feasible.available), beliefs)
    if decision.top is not None:
        decision = decision.among_top(TopRequest(with_mean=True, width=0.0, size=1))
    no_points = decision.same_time[:0]
    allowed = ChoiceSet(decision.domain, decision.available, no_points, price=decision.price)
    return allowed.find_best(decision.view.mean_function(), rng)


def compute_control_level(recipe: Recipe, rewards: Dataset, scale: float) -> tuple[float, float]:
    """Return mean and standard deviation of the control's rewards, or of all if it has none.

    If there are fewer than two, the deviation is that of the prior, `scale`.
    """
    levels = rewards.y[recipe.is_control(rewards.X)]
    levels = levels if len(levels) else rewards.y
    mean = float(levels.mean()) if len(levels) else 0.0
    return mean, float(levels.std()) if len(levels) > 1 else scale


# --- learning from rewards ----------------------------------------------------------------------------


def update(
    inference: Inference, state: State, new: NewObservations, rng: np.random.Generator
) -> State:
    """Return the state after new observations, from which everything due was learned."""
    recipe, all_rewards = inference.recipe, new.rewards
    if recipe.options.robust:
        state, new = set_outliers_aside(inference, state, new)
    rewards = inference.with_noise(state, new.rewards)
    calibration = calibrate(inference, state, rewards)
    total = state.model.bbkb_information + inference.compute_bbkb_information(state, rewards)
    model = replace(state.model, calibration=calibration, bbkb_information=total)
    state = inference.reset_at_events(replace(state, model=model), rewards, rng)
    visited, count_before = append_visited(state.visited, new.X), state.count
    record = replace(state.record, **state.record.compute_update(new))
    if len(all_rewards.t) > len(new.rewards.t):  # a play with an outlier is not a failed one
        failed = state.failed.exclude(all_rewards.X, all_rewards.t)
        record = replace(record, failed=failed.append(new.failed.X, new.failed.t))
    queries = state.queries
    if recipe.query_config is not None:
        due = is_query_due_after("tell", recipe, state)
        queries = replace(queries, pool=inference.extend_query_pool(state, visited), due=due)
    expired, outliers = state.expired, 0 if state.outliers is None else len(state.outliers)
    info = replace(
        state.info,
        readings=expired.rewards + len(record.rewards.t) + outliers,
        failed=expired.failed + len(record.failed.t),
        outliers=outliers,
        health=find_signs_of_trouble(
            recipe.domain,
            record.rewards,
            inference.noise_variance(state),
            state.info.model.coverage,
        ),
    )
    state = replace(state, record=record, visited=visited, queries=queries, info=info)
    if recipe.learn is not None or state.model.noise is not None:
        state = inference.learn(state, count_before)
    if recipe.options.max_history is not None:
        state = inference.trim(state, count_before)
    return state


def replay(inference: Inference, before: State, table: ReadingTable) -> State:
    """Return the state after all readings of a table, with the answers and queries of `before`.

    Readings that are no longer stored are not replayed.
    """
    recipe, rng = inference.recipe, restore_generator(before.random)
    state, count = make_initial_state(recipe, rng), 0
    answer_times = np.maximum.accumulate(before.answers.t)
    side: Literal["left", "right"] = "right" if recipe.consult == "before ask" else "left"
    # A bandit that never made a decision has not conditioned its model. `info` is needed since the
    # posterior is removed when the noise variance is learned again.
    decides = before.posterior is not None or before.info.posterior.in_use > 0
    for new in table.split_by_time():
        count = max(count, int(np.searchsorted(answer_times, new.latest_time, side)))
        state = state.with_record(answers=before.answers.take(slice(count)))
        if decides and (state.time is None or new.latest_time >= state.time):
            state, _ = inference.condition(state, new.latest_time, rng)
        state = update(inference, state, new, rng)
    expired = before.expired
    if expired.rewards and len(state.rewards):
        expired = replace(expired, first=float(state.rewards.y[0]))
    state = state.with_record(answers=before.answers, expired=expired)
    pending_time = find_pending_time(before.record.pending_time, state.time)
    if decides and pending_time is not None:
        state, _ = inference.condition(state, pending_time, rng)
    info = replace(
        state.info,
        readings=state.count + state.info.outliers,
        failed=expired.failed + len(state.failed),
        queries=before.info.queries,
        beta=before.info.beta,
    )
    return replace(
        state.with_record(pending=before.pending, pending_time=pending_time),
        queries=replace(before.queries, pool=state.queries.pool),
        random=before.random,
        outcomes=before.outcomes,
        info=info,
    )


def calibrate(
    inference: Inference, state: State, new: Dataset, most_late: int = 7
) -> IntervalCalibration:
    """Return the calibration of a fitted kernel's intervals after new rewards.

    Each reward is compared with its prediction from all that arrived before it, also in the same call. A
    reward at the point of the previous one is skipped, as it shows little (see `IntervalCalibration`).
    Before the first fit nothing is compared.

    Parameters
    ----------
    most_late : int
        The largest number of late rewards in a call that is compared. The prediction of a late reward is
        slow, as a filter must go back to its time, and more of them are rather an old history.
    """
    recipe, calibration, fit = inference.recipe, state.model.calibration, state.model.fit
    if recipe.learn is None or fit is None or fit.fits == 0:
        return calibration
    X = np.concatenate([state.rewards.X[-1:], new.X])
    rows = np.flatnonzero((X[1:] != X[:-1]).any(axis=1)).tolist()
    late_count = 0 if state.time is None else int((new.t < state.time).sum())
    if late_count > most_late:
        return calibration
    sign, count = -1.0 if recipe.minimize else 1.0, 0
    for i in rows:
        earlier = new.take(slice(count, i))
        if len(earlier):
            times = earlier.t if state.time is None else np.append(earlier.t, state.time)
            rewards = state.rewards.append(earlier)
            state = state.with_record(rewards=rewards, time=float(times.max()))
        # Each prediction continues from the previous state, since the time would be quadratic otherwise.
        state, mean, deviation = inference.predict(state, new.X[i : i + 1], float(new.t[i]))
        count = i
        error = sign * float(new.y[i]) - float(mean[0])
        variance = float(deviation[0]) ** 2 + float(new.variance[i])
        calibration = calibration.update(error, variance)
    return calibration


# --- the region of a decision -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Region:
    """The points among which a decision chooses.

    Attributes
    ----------
    domain : Domain
    available : Available, optional
    control : array of shape (c, d)
        The control, if it comes before all other points.
    n : int, optional
        The number of other points; None: the batch rule decides.
    start : Position, optional
        The present position, if the distance or the cost of a move matters.
    """

    domain: Domain
    available: Available | None
    control: Array
    n: int | None
    start: Position | None = None


def find_region(recipe: Recipe, state: State, request: Request) -> Region | None:
    """Return the region of a decision; None if it is only restricted to what is available.

    Raises
    ------
    ValueError
        If `near` is invalid or there is no position yet, or `n` is too small for a batch with a control.
    NothingAvailableError
        If nothing available is within `near`.
    """
    domain, available, near = request.domain, request.available, request.near
    if recipe.is_unrestricted and near is None:
        return None
    start = None
    if near is not None or recipe.options.move_cost is not None:
        start = _find_position(recipe, state)
    reach = None if near is None else check_near(near, start)
    control = _repeat_control(recipe, state, request, reach, start)
    n = None if request.n is None else request.n - len(control)
    if start is not None:  # with the present context, which may differ from that of the last play
        start = replace(start, x=move_to_context(domain, recipe.domain, start.x[None])[0])
    if reach is not None and n != 0:
        assert start is not None  # it was found above
        domain, available = _restrict_to_reach(domain, available, recipe.domain, reach, start)
    return Region(domain, available, control, n, start)


def check_reachable(request: Request, region: Region | None) -> None:
    """Raise a `NothingAvailableError` if random points of an infinite domain are all unavailable.

    For candidates, `find_region` has checked that.
    """
    domain, available, n = request.domain, request.available, request.n
    if region is not None:
        domain, available, n = region.domain, region.available, region.n
    if available is None or n == 0 or isinstance(domain, Candidates):
        return
    rng = np.random.default_rng(0)
    if not available(domain.sample(LIMIT_CONFIG.first_tries, rng)).any():
        ChoiceSet(domain, available, np.empty((0, domain.dimension))).sample(rng)


def choose_in_region(
    outcome_models: OutcomeModels,
    decision: Decision,
    state: State,
    region: Region,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Return the points of a decision with a control, limits, a largest distance or a move cost.

    The control comes first. With a move cost, the others are in the order of a tour.

    Parameters
    ----------
    outcome_models : OutcomeModels
        The models of the limited outcomes.
    decision : Decision
        The decision without these restrictions.
    state : State
        The state conditioned at the time of the decision.
    region : Region
    rng : numpy.random.Generator
        The generator for the acquisition.

    Returns
    -------
    state : State
        The state with conditioned outcomes.
    X : array of shape (b, d)
    """
    recipe, control, start = outcome_models.recipe, region.control, region.start
    if region.n == 0:  # only the control is played
        return state, control
    decision = replace(decision, n=region.n, domain=region.domain, available=region.available)
    if start is not None and recipe.options.move_cost is not None:
        decision = replace(decision, move=Move(recipe.domain, recipe.options.move_cost, start))
    if outcome_models:
        state, beliefs = outcome_models.condition(state, decision.view.now)
        safe = outcome_models.find_safe_points(state, decision)
        X = outcome_models.choose(decision, beliefs, safe, rng)
        state = state if len(safe) else outcome_models.add_risk(state, beliefs, X)
    else:
        X = choose_points(recipe.acquisition, decision, rng)
    if decision.move is not None and len(X) > 1:
        X = X[plan_tour(recipe.domain, control[-1] if len(control) else decision.move.start.x, X)]
    return state, np.concatenate([control, X])


def _find_position(recipe: Recipe, state: State) -> Position | None:
    """Return the present position: the last point that was played or is pending.

    A control, which is part of every batch, is left out if there are other points.
    """
    parts = (state.readings, state.failed, state.pending)
    X, t = np.concatenate([part.X for part in parts]), np.concatenate([part.t for part in parts])
    others = ~recipe.is_control(X)
    if others.any():
        X, t = X[others], t[others]
    return Position.after(recipe.domain, X, t)


def _restrict_to_reach(
    domain: Domain, available: Available | None, whole: Domain, reach: float, start: Position
) -> tuple[Domain, Available | None]:
    """Return the domain and what is available within the distance `reach` of the start."""
    x = start.x
    available = narrow(domain, available, lambda X: distances(whole, x, X) <= reach)
    if available is not None and available.mask is not None and not available.mask.any():
        raise NothingAvailableError(
            "nothing available is within {reach} of {point}",
            reach=f"{choose_words('near=', '--near ')}{reach:g}",
            point=x,
        )
    return domain.near(x, reach), available


def _repeat_control(
    recipe: Recipe, state: State, request: Request, reach: float | None, start: Position | None
) -> Array:
    """Return the control (c, d), once for each time that the decision plays it.

    That is once, or as often as other points on average if there are more plays than candidates; or not
    at all, if it is unavailable, too far away, or was played for this time already.
    """
    n, available = request.n, request.available
    no_points = np.empty((0, recipe.domain.dimension))
    if recipe.options.control is None:
        return no_points
    control = np.array(recipe.options.control)[None]
    was_played = any(
        (recipe.is_control(part.X) & (part.t == request.t)).any()
        for part in (state.pending, state.rewards, state.failed)
    )
    if was_played or not (available is None or available(control)[0]):
        return no_points
    near = reach is None or start is None or distances(recipe.domain, start.x, control)[0] <= reach
    if not near:
        return no_points
    if n == 1:
        raise PlayError("a batch with a control has at least 2 points, got n=1 at {t}", t=request.t)
    count = 1
    if n is not None and isinstance(recipe.domain, Candidates):
        size = len(recipe.domain)
        available_count = size if available is None else int(available(recipe.domain.X).sum())
        count = max(1, n // available_count)
    return np.repeat(control, count, axis=0)


# --- limited outcomes ---------------------------------------------------------------------------------


class OutcomeModels:
    """The models of the limited outcomes, by name; their states are in the bandit's state.

    Parameters
    ----------
    recipe : Recipe
        The recipe of the bandit.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        # An acquisition that does not use rewards cannot trade them for risk: each play must be safe.
        each = not recipe.acquisition.weighs_reward
        limits = [replace(limit, each=limit.each or each) for limit in recipe.options.limits]
        self._warned = False
        self._parts = {
            limit.name: (limit, Inference(recipe.make_outcome_recipe(limit))) for limit in limits
        }

    def __len__(self) -> int:
        return len(self._parts)

    def warn(self, text: str | None) -> None:
        """Issue a `LimitWarning` unless the last call did; None: there is nothing to warn of."""
        if text is not None and not self._warned:
            warn_caller(LimitWarning(text))
        self._warned = text is not None

    def update(
        self, state: State, new: NewObservations, outcome_values: Mapping[str, ArrayLike] | None
    ) -> Mapping[str, State]:
        """Return the outcomes' states after the readings of new plays, some of which may be missing."""
        states = dict(state.outcomes)
        missing = dict.fromkeys(self._parts, np.full(len(new.X), np.nan))
        for name, values in (missing | as_outcomes(outcome_values)).items():
            check_outcome(name, self._parts)
            inference, before = self._parts[name][1], states[name]
            noise = inference.recipe.noise_variance
            columns = check_values_and_variance(name, values, len(new.X), None, noise)
            readings = NewObservations.from_columns(new.X, new.t, *columns)
            rng = restore_generator(before.random)
            after = update(inference, before, readings, rng)
            states[name] = replace(after, random=rng.bit_generator.state)
        return states

    def validate(self, outcome_values: Mapping[str, ArrayLike] | None, n: int) -> dict[str, Array]:
        """Return checked values (n,) of outcomes, by name."""
        columns = {}
        for name, values in as_outcomes(outcome_values).items():
            check_outcome(name, self._parts)
            columns[name] = check_values_and_variance(name, values, n, None, 1.0)[0]
        return columns

    def correct(
        self,
        state: State,
        correction: Correction,
        outcome_values: Mapping[str, Array] | None = None,
        *,
        retract: bool = False,
    ) -> Mapping[str, State]:
        """Return the outcomes' states after a correction of rewards or of readings of outcomes.

        Parameters
        ----------
        state : State
        correction : Correction
            The correction of the rewards.
        outcome_values : mapping of str to array of shape (n,), optional
            The right values of outcomes, by name.
        retract : bool
            Whether the readings are removed; otherwise they get the corrected times.
        """
        states, outcome_values = dict(state.outcomes), outcome_values or {}
        X, old_times, new_times = correction.points, correction.old_times, correction.new_times
        for name, (_, inference) in self._parts.items():
            noise_variance = inference.recipe.noise_variance
            table = ReadingTable.from_history(states[name], noise_variance)
            rows = table.find(X, old_times)
            exists, is_new = rows >= 0, (rows < 0) & (name in outcome_values)
            if not (exists | is_new).any():
                continue
            if retract:
                table = table.without(rows[exists])
            else:
                y = outcome_values[name] if name in outcome_values else table.y[rows]
                variance = fill_variance(int(is_new.sum()), noise_variance)
                table = table.replace_rows(rows[exists], t=new_times[exists], y=y[exists])
                # The outcome was not read when these plays were told.
                table = table.insert(
                    X[is_new], new_times[is_new], y[is_new], variance, np.zeros(len(variance))
                )
            risk = states[name].model.risk  # a correction does not undo the risk of past plays
            states[name] = replay(inference, states[name], table).with_model(risk=risk)
        return states

    def predict(self, state: State, name: str, X: Array, now: float) -> tuple[Array, Array]:
        """Return posterior mean and standard deviation (m,) of an outcome at points (m, d)."""
        check_outcome(name, self._parts)
        before, inference = state.outcomes[name], self._parts[name][1]
        check_after_first(before, now)
        _, view = inference.condition(before, now, restore_generator(before.random))
        return view.predict_reward(X, test=True)

    def condition(self, state: State, now: float) -> tuple[State, OutcomePosteriors]:
        """Return the state with conditioned outcomes, and their posteriors (`OutcomePosteriors`)."""
        states, outcomes = {}, []
        for name, (limit, inference) in self._parts.items():
            rng = restore_generator(state.outcomes[name].random)
            outcome, view = inference.condition(state.outcomes[name], now, rng)
            outcome_rng = np.random.default_rng(rng.integers(2**62))
            states[name] = replace(outcome, random=rng.bit_generator.state)
            joint = partial(inference.make_joint_posterior, outcome, view, query_time=now)
            readings, risk = outcome.rewards, outcome.model.risk
            domain = inference.recipe.domain
            scale = outcome.info.model.scale
            outcomes.append(OutcomePosterior(limit, domain, readings, view, joint, risk, scale))
        return replace(state, outcomes=states), OutcomePosteriors(outcomes, outcome_rng)

    def choose(
        self, decision: Decision, beliefs: OutcomePosteriors, safe: Array, rng: np.random.Generator
    ) -> Array:
        """Return the points that the rule chooses among those known to satisfy all limits.

        Safe points (s, d) that were not played yet come first.
        """
        count, rule = 1 if decision.n is None else decision.n, self.recipe.acquisition
        if len(safe):
            return safe[np.arange(count) % len(safe)]
        names = [outcome.limit.name for outcome in beliefs.outcomes if not len(outcome.readings)]
        if names:
            self.warn(
                f"there is no reading of {', '.join(names)} yet, so that the play is a guess: give "
                "points to start from as safe=, or tell readings"
            )
            return choose_points(rule, decision, rng)

        feasible = feasible_part(decision, beliefs)
        if not feasible.exists:
            chances = "; ".join(
                f"the limit on {outcome.limit.name} holds there with a probability of "
                f"{outcome.probability(feasible.likeliest)[0]:.2g}, and {outcome.least:g} is needed"
                for outcome in beliefs.outcomes
            )
            self.warn(
                f"no point is known to satisfy the limits at t = {decision.view.now:g}: the bandit "
                f"plays the point that is most likely to ({chances})"
            )
            return np.repeat(feasible.likeliest, count, axis=0)
        self.warn(None)
        decision = add_price(decision, beliefs)
        try:
            X = choose_points(rule, replace(decision, available=feasible.available), rng)
        except NothingAvailableError:  # the feasible part is so small that random points miss it
            return np.repeat(feasible.likeliest, count, axis=0)
        is_restricted = feasible.available is not decision.available and decision.price is None
        if is_restricted and len(X) == 1 and len(decision.pending) == 0:
            X = expand(decision, beliefs, feasible.available, X)
        return X

    def add_risk(self, state: State, beliefs: OutcomePosteriors, X: Array) -> State:
        """Return the state with the risk of playing points (n, d), for limits on many plays together."""
        states = dict(state.outcomes)
        for outcome in beliefs.outcomes:
            limit = outcome.limit
            if not limit.each and len(outcome.readings):
                excess = outcome.violations(X) - (1.0 - limit.probability)
                risk = max(outcome.risk + float(excess.sum()), -LIMIT_CONFIG.most_saved)
                states[limit.name] = states[limit.name].with_model(risk=risk)
        return replace(state, outcomes=states)

    def find_safe_points(self, state: State, decision: Decision) -> Array:
        """Return the available safe points (s, d) at which some outcome was not read yet.

        Those at which fewer readings of outcomes failed come first. If a context is measured, they have
        its present value, and readings in any context count.
        """
        whole, available = self.recipe.domain, decision.available
        safe, d = np.array(self.recipe.options.safe), whole.action_domain.dimension
        safe = move_to_context(decision.domain, whole, safe.reshape(-1, whole.dimension))

        def is_at(X: Array) -> NDArray[np.bool_]:
            """Return whether each safe point is each of the points, shape (s, n)."""
            return np.asarray((safe[:, None, :d] == X[:, :d]).all(axis=2))

        outcomes = state.outcomes.values()
        was_read = [is_at(outcome.rewards.X).any(axis=1) for outcome in outcomes]
        is_done = np.all(was_read, axis=0) | is_at(state.pending.X).any(axis=1)
        failures = np.sum([is_at(outcome.failed.X).sum(axis=1) for outcome in outcomes], axis=0)
        order = np.argsort(failures, kind="stable")
        safe = safe[order[~is_done[order]]]
        if available is not None and len(safe):
            safe = safe[available(safe)]
        return np.asarray(safe)


# --- a prior from another bandit ----------------------------------------------------------------------


def warm_start(recipe: Recipe, state: State, other: object) -> tuple[Recipe, State]:
    """Return a recipe with a prior learned from another bandit or its state, and the state for it.

    The other bandit's readings show how such a reward varies, but not its values here. A model with the
    new recipe's parts learns from them, and the result becomes the prior. The bandit's own readings can
    overrule all of it:

    - The prior weights of an ensemble's models are half the posterior weights of that model, half the
      former ones. If the situations differ, the right model loses a factor of at most two.
    - The numbers of a fitted kernel become the medians of their prior, whose spread is as usual.
    - A forgetting rate, and the first guess of an ensemble's unit, become initial values. The noise
      variance is not adopted: changes of the reward were taken for noise, which increased regret.
    """
    source: Any = getattr(other, "state", other)
    check_instance("other", source, State, "a bandit or a campaign, or its state")
    recipe = learn_prior(recipe, source)
    table = ReadingTable.from_history(state, recipe.noise_variance)
    return recipe, replay(Inference(recipe), adapt_state(recipe, state), table)


def learn_prior(recipe: Recipe, other: State) -> Recipe:
    """Return the recipe with a prior learned from the readings of another bandit's state.

    Raises
    ------
    ValueError
        If the other points have another number of coordinates, the other state has no rewards, or the
        recipe learns nothing.
    """
    d, other_d = recipe.domain.dimension, other.domain.dimension
    if other_d != d:
        raise ValueError(
            f"the points have {d} coordinates, but those of the other bandit {other_d}"
        )
    if len(other.rewards) == 0:
        raise ValueError("there is nothing to learn from: the other bandit has no rewards")
    state = _learn_from_source(recipe, other)
    model = state.model
    parts: dict[str, Any] = {}
    posterior = recipe.posterior.warm_start(state.posterior)
    if posterior is not recipe.posterior and recipe.options.control is None:
        parts["posterior"] = posterior  # with a control, the models are different ones
    if recipe.learn is not None and model.fit is not None:
        step = model.fit.step if recipe.learn.in_steps else 1.0
        kernel, *rivals = (scale_times(fitted, 1.0 / step) for fitted in model.fit.kernels)
        parts |= {"kernel": kernel, "learn": replace(recipe.learn, rivals=tuple(rivals))}
    elif recipe.learn is not None and has_rate(model.aging):
        parts["aging"] = model.aging
    if not parts:
        raise ValueError(
            "the bandit has no rate, scale or weight that it could adopt: learn_from needs a policy "
            "that learns them, without a control"
        )
    return replace(recipe, **parts)


def _learn_from_source(recipe: Recipe, other: State) -> State:
    """Return the state of a bandit with the recipe's model after the other bandit's readings."""
    domain = other.domain
    if recipe.posterior.self_learning and not isinstance(domain, Candidates):
        domain = Candidates(np.unique(other.rewards.X, axis=0))
    options = replace(recipe.options, limits=(), safe=(), control=None)
    recipe = replace(recipe, domain=domain, query_config=None, options=options)
    inference, rng = Inference(recipe), np.random.default_rng(0)
    state = make_initial_state(recipe, rng)
    for new in ReadingTable.from_history(other, recipe.noise_variance).split_by_time():
        if len(new.rewards):
            state = update(inference, state, new, rng)
    return inference.condition(state, float(other.rewards.t.max()), rng)[0]

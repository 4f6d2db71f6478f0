"""The two steps of a bandit: from a state and rewards to the next state, and from a state to points.

They are written for any policy; docs/papers.md says which lines of the papers' algorithms they are. The
queries between them are in `tvbandits.bandit.querying`. What surrounds a decision, where it may play
(availability, `near`), what comes first (a control) and what a move costs, is here, and so are steps
that are taken again: once a reward is corrected, or with what another bandit was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

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
from tvbandits.bandit.state import State, restore_generator
from tvbandits.data import Dataset, NewObservations
from tvbandits.domains.availability import Available, ChoiceSet, NothingAvailableError, narrow
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain, move_to_context
from tvbandits.domains.moving import Move, Position, check_near, distances, tour
from tvbandits.errors import PlayError, warn_caller
from tvbandits.forgetting.aging import has_rate
from tvbandits.gp.calibration import IntervalCalibration
from tvbandits.gp.online import at_step
from tvbandits.gp.top_candidates import Request as TopRequest
from tvbandits.validation import Array, check_instance


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
    outcome_models: OutcomeModels,
    before: State,
    new: NewObservations,
    outcome_values: Mapping[str, ArrayLike] | None,
    rng: np.random.Generator,
) -> State:
    """Return the state once it knows rewards and outcomes."""
    states = before.outcomes
    if states or outcome_values is not None:
        states = outcome_models.update(before, new, outcome_values)
    return replace(update(inference, before, new, rng), outcomes=states)


def suggest(
    inference: Inference,
    outcome_models: OutcomeModels,
    state: State,
    request: Request,
    place: Region | None,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Return the state after a decision, and its points (b, d), which are pending from now on.

    `place` is that of `find_region`.
    """
    recipe = inference.recipe
    state, view = inference.condition(state, request.t, rng)
    beta = inference.beta(state, view)
    decision = inference.make_decision(
        state, view, beta, request.n, request.domain, request.available
    )
    if place is None:
        X = choose_points(recipe.acquisition, decision, rng)
    else:
        state, X = choose_in_region(outcome_models, decision, state, place, rng)
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
    """Return whether the expert is to be consulted, once this event has happened, too.

    An expert that is asked after a tell is asked about a decision; one that is asked before a decision
    is asked once there is something new.
    """
    awaited = "decision" if recipe.consult == "after tell" else "tell"
    return state.queries.due or event == awaited


def allow_questions_about(state: State, X: Array) -> State:
    """Return the state in which questions may be about points (b, d) of a decision, too."""
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
    """Return the point (d,) of the best mean, where limits are known to hold.

    Where they do nowhere, the point where they are likeliest to.
    """
    state, view = inference.condition(state, request.t, rng)
    decision = inference.make_decision(state, view, 0.0, None, request.domain, request.available)
    if any(len(each.rewards) for each in state.outcomes.values()):
        _, beliefs = outcome_models.condition(state, decision.view.now)
        feasible = feasible_part(decision, beliefs)
        if not feasible.exists:
            return np.asarray(feasible.likeliest[0])
        decision = add_price(replace(decision, available=feasible.available), beliefs)
    if decision.top is not None:
        decision = decision.among_top(TopRequest(with_mean=True, times=0.0, size=1))
    nothing = decision.same_time[:0]
    allowed = ChoiceSet(decision.domain, decision.available, nothing, price=decision.price)
    return allowed.best(decision.view.mean_function(), rng)


def compute_control_level(recipe: Recipe, rewards: Dataset, scale: float) -> tuple[float, float]:
    """Return mean and deviation of the levels at which a control was read, or else all points.

    Of fewer than two readings, the deviation is that of the prior, `scale`.
    """
    levels = rewards.y[recipe.is_control(rewards.X)]
    levels = levels if len(levels) else rewards.y
    mean = float(levels.mean()) if len(levels) else 0.0
    return mean, float(levels.std()) if len(levels) > 1 else scale


# --- what is learned from rewards ---------------------------------------------------------------------


def update(
    inference: Inference, state: State, new: NewObservations, rng: np.random.Generator
) -> State:
    """Return the state once it knows what was told, and has learned from it what is due."""
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
    if len(all_rewards.t) > len(new.rewards.t):  # nobody has to read the outliers once more
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
    """Return the state that a table leads to, after what an earlier state was asked and answered.

    What has left the history tells nothing any more.
    """
    recipe, rng = inference.recipe, restore_generator(before.random)
    state, count = make_initial_state(recipe, rng), 0
    about = np.maximum.accumulate(before.answers.t)
    side: Literal["left", "right"] = "right" if recipe.consult == "before ask" else "left"
    # Who was only ever told has conditioned nothing; a posterior goes once the noise is learned anew.
    decides = before.posterior is not None or before.info.posterior.in_use > 0
    for new in table.split_by_time():
        count = max(count, int(np.searchsorted(about, new.latest_time, side)))
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
    """Return how well the deviations of a fitted kernel hold, once more rewards are told.

    Each is held against what is said of its own time by all that was told before it, late or not: how
    many are told at once does not matter. One at the point of the reward before it says little (see
    `IntervalCalibration`), and before the first fit there is nothing to watch.

    Parameters
    ----------
    most_late : int
        A late reward takes a filter back to its time: more than so many at once are history that is
        brought in, and are not held against anything.
    """
    recipe, calibration, fit = inference.recipe, state.model.calibration, state.model.fit
    if recipe.learn is None or fit is None or fit.fits == 0:
        return calibration
    X = np.concatenate([state.rewards.X[-1:], new.X])
    elsewhere = np.flatnonzero((X[1:] != X[:-1]).any(axis=1)).tolist()
    late = 0 if state.time is None else int((new.t < state.time).sum())
    if late > most_late:
        return calibration
    sign, count = -1.0 if recipe.minimize else 1.0, 0
    for i in elsewhere:
        more = new.take(slice(count, i))
        if len(more):
            times = more.t if state.time is None else np.append(more.t, state.time)
            rewards = state.rewards.append(more)
            state = state.with_record(rewards=rewards, time=float(times.max()))
        # Each goes on from the one before: the time taken would be the square of their number.
        state, mean, deviation = inference.predict(state, new.X[i : i + 1], float(new.t[i]))
        count = i
        error = sign * float(new.y[i]) - float(mean[0])
        variance = float(deviation[0]) ** 2 + float(new.variance[i])
        calibration = calibration.after(error, variance)
    return calibration


# --- where a decision may play ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Region:
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


def find_region(recipe: Recipe, state: State, request: Request) -> Region | None:
    """Return what a decision may choose from; None if nothing restricts it but the request's domain.

    Raises
    ------
    ValueError
        If `near` is no distance from anywhere, or `n` has no room beside a control.
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
    left = None if request.n is None else request.n - len(control)
    if start is not None:  # one is where one is, whatever the context is now
        start = replace(start, x=move_to_context(domain, recipe.domain, start.x[None])[0])
    if reach is not None and left != 0:
        assert start is not None  # a reach is from somewhere
        domain, available = _restrict_to_reach(domain, available, recipe.domain, reach, start)
    return Region(domain, available, control, left, start)


def check_reachable(request: Request, place: Region | None) -> None:
    """Raise a `NothingAvailableError` if points at random of a domain that is not finite say so.

    Of candidates it is known already.
    """
    domain, available, n = request.domain, request.available, request.n
    if place is not None:
        domain, available, n = place.domain, place.available, place.n
    if available is None or n == 0 or isinstance(domain, Candidates):
        return
    rng = np.random.default_rng(0)
    if not available(domain.sample(LIMIT_CONFIG.first_tries, rng)).any():
        ChoiceSet(domain, available, np.empty((0, domain.dimension))).sample(rng)


def choose_in_region(
    outcome_models: OutcomeModels,
    decision: Decision,
    state: State,
    place: Region,
    rng: np.random.Generator,
) -> tuple[State, Array]:
    """Return points to play with a control, within limits, or from where one is.

    The control comes first, then others, in the order of a tour where moves cost something.

    Parameters
    ----------
    outcome_models : OutcomeModels
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
    recipe, control, start = outcome_models.recipe, place.control, place.start
    if place.n == 0:  # the control is all that is played
        return state, control
    decision = replace(decision, n=place.n, domain=place.domain, available=place.available)
    if start is not None and recipe.options.move_cost is not None:
        decision = replace(decision, move=Move(recipe.domain, recipe.options.move_cost, start))
    if outcome_models:
        state, beliefs = outcome_models.condition(state, decision.view.now)
        first = outcome_models.safe_points(state, decision)
        X = outcome_models.choose(decision, beliefs, first, rng)
        state = state if len(first) else outcome_models.add_risk(state, beliefs, X)
    else:
        X = choose_points(recipe.acquisition, decision, rng)
    if decision.move is not None and len(X) > 1:
        X = X[tour(recipe.domain, control[-1] if len(control) else decision.move.start.x, X)]
    return state, np.concatenate([control, X])


def _find_position(recipe: Recipe, state: State) -> Position | None:
    """Return where one is: at what was played last, or asked and not dropped.

    A control, which comes with every batch, ends no stay at another point.
    """
    plays = (state.readings, state.failed, state.pending)
    X, t = np.concatenate([p.X for p in plays]), np.concatenate([p.t for p in plays])
    others = ~recipe.is_control(X)
    if others.any():
        X, t = X[others], t[others]
    return Position.after(recipe.domain, X, t)


def _restrict_to_reach(
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


def _repeat_control(
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


# --- outcomes that have limits ------------------------------------------------------------------------


class OutcomeModels:
    """The beliefs about each outcome that has a limit, by name; a bandit's state holds theirs.

    Parameters
    ----------
    recipe : Recipe
        Of the bandit.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        # Nothing can be taken off rewards that a rule does not weigh: then each play has to be sure.
        sure = not recipe.acquisition.weighs_reward
        limits = [replace(limit, each=limit.each or sure) for limit in recipe.options.limits]
        self._warned = False
        self._parts = {
            limit.name: (limit, Inference(recipe.make_outcome_recipe(limit))) for limit in limits
        }

    def __len__(self) -> int:
        return len(self._parts)

    def warn(self, text: str | None) -> None:
        """Give a `LimitWarning`, once until there is nothing to warn of."""
        if text is not None and not self._warned:
            warn_caller(LimitWarning(text))
        self._warned = text is not None

    def update(
        self, state: State, new: NewObservations, outcome_values: Mapping[str, ArrayLike] | None
    ) -> Mapping[str, State]:
        """Return their states once what was read of the points told is known, and what was not."""
        states = dict(state.outcomes)
        unread = dict.fromkeys(self._parts, np.full(len(new.X), np.nan))
        for name, values in (unread | as_outcomes(outcome_values)).items():
            check_outcome(name, self._parts)
            inference, before = self._parts[name][1], states[name]
            usual = len(new.X), None, inference.recipe.noise_variance
            read = NewObservations.from_columns(
                new.X, new.t, *check_values_and_variance(name, values, *usual)
            )
            rng = restore_generator(before.random)
            after = update(inference, before, read, rng)
            states[name] = replace(after, random=rng.bit_generator.state)
        return states

    def validate(self, outcome_values: Mapping[str, ArrayLike] | None, n: int) -> dict[str, Array]:
        """Return values (n,) of outcomes, by name; none where there are none."""
        columns = {}
        for name, values in as_outcomes(outcome_values).items():
            check_outcome(name, self._parts)
            columns[name] = check_values_and_variance(name, values, n, None, 1.0)[0]
        return columns

    def correct(
        self,
        state: State,
        correction: Correction,
        right: Mapping[str, Array] | None = None,
        *,
        retract: bool = False,
    ) -> Mapping[str, State]:
        """Return their states, with other values of points that were told.

        Parameters
        ----------
        state : State
        correction : Correction
            Of the rewards there.
        right : mapping of str to array of shape (n,), optional
            The right values of outcomes, by name.
        retract : bool
            Whether they are taken back; else they have the times of the correction.
        """
        states, right = dict(state.outcomes), right or {}
        X, old, to = correction.points, correction.old_times, correction.new_times
        for name, (_, inference) in self._parts.items():
            usual = inference.recipe.noise_variance
            table = ReadingTable.from_history(states[name], usual)
            rows = table.find(X, old)
            exists, fresh = rows >= 0, (rows < 0) & (name in right)
            if not (exists | fresh).any():
                continue
            if retract:
                table = table.without(rows[exists])
            else:
                y = right[name] if name in right else table.y[rows]
                noise = fill_variance(int(fresh.sum()), usual)
                table = table.replace_rows(rows[exists], t=to[exists], y=y[exists])
                # When the other plays were told, it was not read.
                table = table.insert(X[fresh], to[fresh], y[fresh], noise, np.zeros(len(noise)))
            risk = states[name].model.risk  # what was risked stays risked
            states[name] = replay(inference, states[name], table).with_model(risk=risk)
        return states

    def predict(self, state: State, name: str, X: Array, now: float) -> tuple[Array, Array]:
        """Return mean and deviation of an outcome at points (m, d)."""
        check_outcome(name, self._parts)
        before, inference = state.outcomes[name], self._parts[name][1]
        _, view = inference.condition(before, now, restore_generator(before.random))
        return view.predict_reward(X, test=True)

    def condition(self, state: State, now: float) -> tuple[State, OutcomePosteriors]:
        """Return the state with outcomes conditioned, and what is believed of them."""
        states, outcomes = {}, []
        for name, (limit, inference) in self._parts.items():
            rng = restore_generator(state.outcomes[name].random)
            inner, view = inference.condition(state.outcomes[name], now, rng)
            own = np.random.default_rng(rng.integers(2**62))
            states[name] = replace(inner, random=rng.bit_generator.state)
            joint = partial(inference.make_joint_posterior, inner, view, about=now)
            readings, risk = inner.rewards, inner.model.risk
            domain = inference.recipe.domain
            far = max(LIMIT_CONFIG.far * inner.info.model.scale, 1e-150)
            outcomes.append(OutcomePosterior(limit, domain, readings, view, joint, risk, far))
        return replace(state, outcomes=states), OutcomePosteriors(outcomes, own)

    def choose(
        self, decision: Decision, beliefs: OutcomePosteriors, start: Array, rng: np.random.Generator
    ) -> Array:
        """Return points as the rule chooses, among those that are known to satisfy all limits.

        Points (s, d) to `start` from, which were not played yet, come first.
        """
        count, rule = 1 if decision.n is None else decision.n, self.recipe.acquisition
        if len(start):
            return start[np.arange(count) % len(start)]
        unread = [each.limit.name for each in beliefs.outcomes if len(each.readings) == 0]
        if unread:
            self.warn(
                f"nothing is known of {', '.join(unread)} yet: the play is a guess; give safe=, points "
                "to start from, or tell readings"
            )
            return choose_points(rule, decision, rng)

        feasible = feasible_part(decision, beliefs)
        if not feasible.exists:
            chances = "; ".join(
                f"the limit on {each.limit.name} holds there with a probability of "
                f"{each.probability(feasible.likeliest)[0]:.2g}, and {each.least:g} is needed"
                for each in beliefs.outcomes
            )
            self.warn(
                f"no point is known to satisfy the limits at t = {decision.view.now:g}: the play is "
                f"where they are likeliest to hold ({chances})"
            )
            return np.repeat(feasible.likeliest, count, axis=0)
        self.warn(None)
        decision = add_price(decision, beliefs)
        try:
            X = choose_points(rule, replace(decision, available=feasible.available), rng)
        except NothingAvailableError:  # there is so little of it that points at random miss it
            return np.repeat(feasible.likeliest, count, axis=0)
        narrower = feasible.available is not decision.available and decision.price is None
        if narrower and len(X) == 1 and len(decision.pending) == 0:
            X = expand(decision, beliefs, feasible.available, X)
        return X

    def add_risk(self, state: State, beliefs: OutcomePosteriors, X: Array) -> State:
        """Return the state once the risk of playing points (n, d) counts, where plays share it."""
        states = dict(state.outcomes)
        for each in beliefs.outcomes:
            limit = each.limit
            if not limit.each and len(each.readings):
                risk = each.risk + float((each.violations(X) - (1.0 - limit.probability)).sum())
                risk = max(risk, -LIMIT_CONFIG.most_saved)
                states[limit.name] = states[limit.name].with_model(risk=risk)
        return replace(state, outcomes=states)

    def safe_points(self, state: State, decision: Decision) -> Array:
        """Return points to start from that are available, with an outcome not read there, shape (s, d).

        Where a context is measured, they are places: at its value now, read at any.
        """
        whole, available = self.recipe.domain, decision.available
        start, d = np.array(self.recipe.options.safe), whole.action_domain.dimension
        start = move_to_context(decision.domain, whole, start.reshape(-1, whole.dimension))
        plays = [*(each.rewards.X for each in state.outcomes.values()), state.pending.X]
        *was_read, is_pending = (
            (start[:, None, :d] == X[:, :d]).all(axis=2).any(axis=1) for X in plays
        )
        start = start[~(np.all(was_read, axis=0) | is_pending)]
        if available is not None and len(start):
            start = start[available(start)]
        return np.asarray(start)


# --- a start from what another bandit has learned -----------------------------------------------------


def warm_start(recipe: Recipe, state: State, other: object) -> tuple[Recipe, State]:
    """Return a recipe that has learned from another bandit, or its state; and its own state for it.

    Its readings themselves do not carry over: what is told of another place says how a reward like this
    one varies, and not what it is here. They are told to beliefs of the new recipe, which learn from
    them as from their own, and what these come to becomes its prior. Own evidence overrules all of it:

    - Half of the prior weight of an ensemble's models is what the others' readings left of it, half is
      as before. Who learned of something else costs the right model a factor of two at most.
    - A kernel that is fitted has its learned numbers as the median of their prior, of the usual spread.
    - A rate and the first guess of an ensemble's unit are where learning begins. A noise variance is not
      taken: what changes passes for noise, which did harm.
    """
    source: Any = getattr(other, "state", other)
    check_instance("other", source, State, "a bandit or a campaign, or its state")
    recipe = learn_prior(recipe, source)
    table = ReadingTable.from_history(state, recipe.noise_variance)
    return recipe, replay(Inference(recipe), adapt_state(recipe, state), table)


def learn_prior(recipe: Recipe, other: State) -> Recipe:
    """Return the recipe with what it would have learned from another bandit's readings as its prior.

    Raises
    ------
    ValueError
        If points there have another number of coordinates, nothing was told there, or there is nothing
        to be taken.
    """
    here, d = recipe.domain.dimension, other.domain.dimension
    if d != here:
        raise ValueError(f"points have {here} coordinates here, and {d} where the other one plays")
    if len(other.rewards) == 0:
        raise ValueError("there is nothing to learn from: the other one was told no reward")
    state = _learn_from_source(recipe, other)
    model = state.model
    parts: dict[str, Any] = {}
    posterior = recipe.posterior.warm_start(state.posterior)
    if posterior is not recipe.posterior and recipe.options.control is None:
        parts["posterior"] = posterior  # beside a control it has other models
    if recipe.learn is not None and model.fit is not None:
        step = model.fit.step if recipe.learn.in_steps else 1.0
        kernel, *rivals = (at_step(each, 1.0 / step) for each in model.fit.kernels)
        parts |= {"kernel": kernel, "learn": replace(recipe.learn, rivals=tuple(rivals))}
    elif recipe.learn is not None and has_rate(model.aging):
        parts["aging"] = model.aging
    if not parts:
        raise ValueError("there is nothing that it could learn from another one: all is given")
    return replace(recipe, **parts)


def _learn_from_source(recipe: Recipe, other: State) -> State:
    """Return what beliefs of the recipe come to where the other one has played."""
    domain = other.domain
    if recipe.posterior.self_learning and not isinstance(domain, Candidates):
        domain = Candidates(np.unique(other.rewards.X, axis=0))
    options = replace(recipe.options, limits=(), safe=(), control=None)
    beliefs = replace(recipe, domain=domain, query_config=None, options=options)
    inference, rng = Inference(beliefs), np.random.default_rng(0)
    state = make_initial_state(beliefs, rng)
    for new in ReadingTable.from_history(other, recipe.noise_variance).split_by_time():
        if len(new.rewards):
            state = update(inference, state, new, rng)
    return inference.condition(state, float(other.rewards.t.max()), rng)[0]

"""From a state to the next one once rewards are told, or told again."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tvbandits.bandit.health import signs_of_trouble
from tvbandits.bandit.inference import Inference
from tvbandits.bandit.initial_state import first_state
from tvbandits.bandit.observations import ReadingTable, append_visited, decision_waiting
from tvbandits.bandit.outliers import set_outliers_aside
from tvbandits.bandit.state import State, generator_of
from tvbandits.data import Dataset, NewObservations
from tvbandits.gp.calibration import IntervalCalibration


def update(
    inference: Inference, state: State, new: NewObservations, rng: np.random.Generator
) -> State:
    """Return the state once it knows what was told, and has learned from it what is due."""
    recipe, readings = inference.recipe, new.rewards
    if recipe.options.robust:
        state, new = set_outliers_aside(inference, state, new)
    if state.model.fit is not None or inference.counts_information or recipe.reset is not None:
        rewards = inference.with_noise(state, new.rewards)
        calibration = calibrate(inference, state, rewards)
        gain = state.model.information_gain + inference.information(state, rewards)
        model = replace(state.model, calibration=calibration, information_gain=gain)
        state = inference.reset_at_events(replace(state, model=model), rewards, rng)
    visited, count = append_visited(state.visited, new.X), state.count
    record = replace(state.record, **state.record.changes_from(new))
    if len(readings.t) > len(new.rewards.t):  # nobody has to read the outliers once more
        failed = state.failed.exclude(readings.X, readings.t)
        record = replace(record, failed=failed.append(new.failed.X, new.failed.t))
    queries = state.queries
    if recipe.asking is not None:
        due = queries.due or recipe.consult == "before ask"
        queries = replace(queries, pool=inference.query_pool(state, visited), due=due)
    expired, outliers = state.expired, 0 if state.outliers is None else len(state.outliers)
    info = replace(
        state.info,
        readings=expired.rewards + len(record.rewards.t) + outliers,
        failed=expired.failed + len(record.failed.t),
        outliers=outliers,
        health=signs_of_trouble(
            recipe.domain,
            record.rewards,
            inference.noise_variance(state),
            state.info.model.coverage,
        ),
    )
    state = replace(state, record=record, visited=visited, queries=queries, info=info)
    if recipe.learn is not None or state.model.noise is not None:
        state = inference.learn(state, count)
    if recipe.options.max_history is not None:
        state = inference.trim(state, count)
    return state


def replay(inference: Inference, before: State, readings: ReadingTable) -> State:
    """Return the state that these readings lead to, after what an earlier state was asked and answered.

    What has left the history tells nothing any more.
    """
    recipe, rng = inference.recipe, generator_of(before.random)
    state, count = first_state(recipe, rng), 0
    about = np.maximum.accumulate(before.answers.t)
    side: Literal["left", "right"] = "right" if recipe.consult == "before ask" else "left"
    # Who was only ever told has conditioned nothing; a fit estimates the scale, too.
    decides = before.posterior is not None or (
        before.model.fit is None and before.model.scaling.estimated_at > 0
    )
    for new in readings.in_turn():
        count = max(count, int(np.searchsorted(about, new.latest, side)))
        state = state.with_record(answers=before.answers.take(slice(count)))
        if decides and (state.time is None or new.latest >= state.time):
            state, _ = inference.condition(state, new.latest, rng)
        state = update(inference, state, new, rng)
    expired = before.expired
    if expired.rewards and len(state.rewards):
        expired = replace(expired, first=float(state.rewards.y[0]))
    state = state.with_record(answers=before.answers, expired=expired)
    waiting = decision_waiting(before.record.asked_for, state.time)
    if decides and waiting is not None:
        state, _ = inference.condition(state, waiting, rng)
    info = replace(
        state.info,
        readings=state.count + state.info.outliers,
        failed=expired.failed + len(state.failed),
        queries=before.info.queries,
        beta=before.info.beta,
    )
    return replace(
        state.with_record(pending=before.pending, asked_for=waiting),
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

"""What becomes of a state when it is told rewards, or other ones than before."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tvbandits.bandit.inference import Model
from tvbandits.bandit.outliers import set_aside
from tvbandits.bandit.recipe import Recipe, first_state
from tvbandits.bandit.state import Info, State, generator_of
from tvbandits.bandit.told import ToldReadings, calibrated, noted, still_out, visited_with
from tvbandits.core.observations import Told, changed


def with_rewards(
    recipe: Recipe, model: Model, state: State, told: Told, rng: np.random.Generator
) -> State:
    """The state once it knows what was told."""
    every = told.rewards
    if recipe.robust:
        state, told = set_aside(model, state, told)
    calibration, spent = state.calibration, state.spent
    if state.model.learned is not None or model.counts_spent or recipe.reset is not None:
        rewards = model.known(state, told.rewards)
        errors = model.errors if model.speaks_jointly(state) else None
        calibration = calibrated(recipe, state, rewards, model.expected, errors)
        spent += model.information(state, rewards)
        state = model.reset_at_events(state, rewards, rng)
    questions = state.questions
    visited = visited_with(state.visited, told.X)
    known = noted(state, told)
    if len(every.t) > len(told.rewards.t):  # nobody has to read the outliers once more
        failed = state.failed.replaced_by(every.X, every.t)
        known["failed"] = failed.append(told.failed.X, told.failed.t)
    if recipe.asking is not None:
        due = questions.due or recipe.consult == "before ask"
        questions = changed(questions, pool=model.members(state, visited), due=due)
    known |= {"visited": visited, "spent": spent, "calibration": calibration}
    made = changed(state, questions=questions, **known)
    if recipe.learn is not None or made.model.noise is not None:
        made = model.learned(made, state.told)
    if recipe.history is not None:
        made = model.trimmed(made, state.told)
    return made


def retold(recipe: Recipe, model: Model, state: State, readings: ToldReadings) -> State:
    """The state that these readings lead to; what has left the history tells nothing any more."""
    rng = generator_of(state.random)
    made, known = first_state(recipe, rng), 0
    about = np.maximum.accumulate(state.answers.t)
    side: Literal["left", "right"] = "right" if recipe.consult == "before ask" else "left"
    # Who was only ever told has conditioned nothing; a fit estimates the scale, too.
    decides = state.posterior is not None or (
        state.model.learned is None and state.model.scaling.estimated_at > 0
    )
    for told in readings.in_turn():
        known = max(known, int(np.searchsorted(about, told.latest, side)))
        made = replace(made, answers=state.answers.take(slice(known)))
        if decides and (made.time is None or told.latest >= made.time):
            made = model.conditioned(made, told.latest, rng)
        made = with_rewards(recipe, model, made, told, rng)
    gone = state.gone
    if gone.rewards and len(made.rewards):
        gone = replace(gone, first=float(made.rewards.y[0]))
    made = replace(made, answers=state.answers, gone=gone)
    out = still_out(state.asked_for, made.time)
    if decides and out is not None:
        made = model.conditioned(made, out, rng)
    info = replace(counted(made), queries=state.info.queries, beta=state.info.beta)
    questions = replace(state.questions, pool=made.questions.pool)
    return replace(
        made, pending=state.pending, asked_for=out, questions=questions, random=state.random,
        outcomes=state.outcomes, expert=state.expert,
        info=info,
    )  # fmt: skip


def counted(state: State) -> Info:
    """With numbers of what was told."""
    outliers = 0 if state.outliers is None else len(state.outliers)
    failed = state.gone.failed + len(state.failed.t)
    told = state.gone.rewards + len(state.rewards.t) + outliers
    return Info(**vars(state.info) | {"told": told, "failed": failed, "outliers": outliers})

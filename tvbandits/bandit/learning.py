"""What is learned from readings that are told again: one's own, corrected, or those of another bandit.

What a bandit on similar ground has learned is the start of another one: rates, scales and weights.

Its readings themselves do not carry over: what is told of another place says how a reward like this one
varies, and not what it is here. They are told to beliefs of the new recipe, which learn from them as
from their own, and what these come to becomes its prior. Own evidence overrules all of it:

- Half of the prior weight of an ensemble's models is what the others' readings left of it, half is as
  before. Who learned of something else costs the right model a factor of two at most.
- A kernel that is fitted has its learned numbers as the median of their prior, of the usual spread.
- A pace and the first guess of an ensemble's unit are where learning begins. A noise variance is not
  taken: what changes passes for noise, which did harm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tvbandits.bandit.inference import Model
from tvbandits.bandit.recipe import Recipe, first_state, state_for
from tvbandits.bandit.state import State, generator_of
from tvbandits.bandit.told import ToldReadings, still_out, with_rewards
from tvbandits.domains.candidates import Candidates
from tvbandits.forgetting.aging import has_pace
from tvbandits.gp.fitting.online import at_step
from tvbandits.validation import of_kind


def retold(model: Model, state: State, readings: ToldReadings) -> State:
    """The state that these readings lead to; what has left the history tells nothing any more."""
    recipe, rng = model.recipe, generator_of(state.random)
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
            made, _ = model.conditioned(made, told.latest, rng)
        made = with_rewards(model, made, told, rng)
    gone = state.gone
    if gone.rewards and len(made.rewards):
        gone = replace(gone, first=float(made.rewards.y[0]))
    made = replace(made, answers=state.answers, gone=gone)
    out = still_out(state.asked_for, made.time)
    if decides and out is not None:
        made, _ = model.conditioned(made, out, rng)
    info = replace(
        made.info,
        told=gone.rewards + len(made.rewards) + made.info.outliers,
        failed=gone.failed + len(made.failed),
        queries=state.info.queries,
        beta=state.info.beta,
    )
    questions = replace(state.questions, pool=made.questions.pool)
    return replace(
        made, pending=state.pending, asked_for=out, questions=questions, random=state.random,
        outcomes=state.outcomes, expert=state.expert,
        info=info,
    )  # fmt: skip


def begun_with(recipe: Recipe, state: State, other: object) -> tuple[Recipe, State]:
    """A recipe that has learned from another bandit, or its state; and what becomes of its own state."""
    known: Any = getattr(other, "state", other)
    of_kind("other", known, State, "a bandit or a campaign, or its state")
    recipe = inherited(recipe, known)
    told = ToldReadings.of(state, recipe.noise_variance)
    return recipe, retold(Model(recipe), state_for(recipe, state), told)


def inherited(recipe: Recipe, other: State) -> Recipe:
    """`recipe` with what it would have learned from another bandit's readings as its prior.

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
    state = _told(recipe, other)
    model = state.model
    found: dict[str, object] = {}
    own = recipe.posterior.informed_by(state.posterior)
    if (
        own is not recipe.posterior and recipe.options.control is None
    ):  # beside one it has other models
        found["posterior"] = own
    if recipe.learn is not None and model.learned is not None:
        step = model.learned.step if recipe.learn.in_steps else 1.0
        kernel, *rivals = (at_step(each, 1.0 / step) for each in model.learned.kernels)
        found |= {"kernel": kernel, "learn": replace(recipe.learn, rivals=tuple(rivals))}
    elif recipe.learn is not None and has_pace(model.aging):
        found["aging"] = model.aging
    if not found:
        raise ValueError("there is nothing that it could learn from another one: all is given")
    return replace(recipe, **found)  # type: ignore[arg-type]


def _told(recipe: Recipe, other: State) -> State:
    """What beliefs of the recipe come to where the other one has played."""
    domain = other.domain
    if recipe.posterior.self_learning and not isinstance(domain, Candidates):
        domain = Candidates(np.unique(other.rewards.X, axis=0))
    options = replace(recipe.options, limits=(), safe=(), control=None)
    beliefs = replace(recipe, domain=domain, asking=None, options=options)
    model, rng = Model(beliefs), np.random.default_rng(0)
    state = first_state(beliefs, rng)
    for told in ToldReadings.of(other, recipe.noise_variance).in_turn():
        if len(told.rewards):
            state = with_rewards(model, state, told, rng)
    return model.conditioned(state, float(other.rewards.t.max()), rng)[0]

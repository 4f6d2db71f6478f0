"""A state for a recipe: the first one, and one that another recipe has left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import ModelState, Questions, State
from tvbandits.core.observations import Observations, Plays
from tvbandits.forgetting.aging import Paced
from tvbandits.gp.fitting.calibration import IntervalCalibration
from tvbandits.gp.fitting.standardisation import Scaling
from tvbandits.gp.kernels.terms import same_form
from tvbandits.queries.pool import CandidatePool


def first_state(recipe: Recipe, rng: np.random.Generator) -> State:
    """Nothing was told."""
    none, no_plays = (
        Observations.empty(recipe.domain.dimension),
        Plays.none(recipe.domain.dimension),
    )
    return State(
        rewards=none,
        answers=none,
        failed=no_plays,
        pending=no_plays,
        visited=none.X,
        time=None,
        asked_for=None,
        model=ModelState(_first_scaling(recipe), recipe.kernel, recipe.aging),
        posterior=None,
        questions=Questions(CandidatePool.none()),
        random=rng.bit_generator.state,
        domain=recipe.domain,
    )


def generator_of(random: Mapping[str, Any]) -> np.random.Generator:
    """A generator that continues from a stored state."""
    bits = getattr(np.random, random["bit_generator"])()
    bits.state = random
    return np.random.Generator(bits)


def state_for(recipe: Recipe, state: State) -> State:
    """`state` without what was computed by parts that are not the recipe's."""
    if recipe.mean != "online" or state.model.scaling.estimated_at == 0:
        state = replace(state, model=replace(state.model, scaling=_first_scaling(recipe)))
    state = _with_kernel_of(recipe, _with_aging_of(recipe, state))
    same = state.domain == recipe.domain and (
        state.posterior is not None and bool(state.posterior.kernel == state.model.kernel)
    )
    questions = state.questions
    if state.domain != recipe.domain:
        questions = replace(questions, available=None)  # it speaks of points of the other one
    return replace(
        state,
        domain=recipe.domain,
        posterior=state.posterior if same else None,
        questions=questions,
    )


def _first_scaling(recipe: Recipe) -> Scaling:
    sign = -1.0 if recipe.minimise else 1.0
    return Scaling(0.0 if recipe.mean == "online" else sign * recipe.mean, 1.0)


def _with_aging_of(recipe: Recipe, state: State) -> State:
    """`state` with the recipe's aging map, or that map at the pace that was learned."""
    given, known = recipe.aging, state.model.aging
    if (
        recipe.learn is not None
        and isinstance(given, Paced)
        and isinstance(known, Paced)
        and known.pace > 0  # not that of a composition without one, which is not a number
        and given.at_pace(1.0) == known.at_pace(1.0)
    ):
        return state
    about = replace(state.info.model, pace=math.nan)
    return replace(
        state,
        model=replace(state.model, aging=given),
        info=replace(state.info, model=about),
    )


def _with_kernel_of(recipe: Recipe, state: State) -> State:
    """`state` with the recipe's kernel, or what was learned from kernels of that form."""
    learned = state.model.learned
    if recipe.learn is not None and learned is not None:
        given, known = (recipe.kernel, *recipe.learn.rivals), learned.kernels
        if len(given) == len(known) and all(map(same_form, known, given)):
            return replace(state, model=replace(state.model, kernel=learned.kernel))
    model = replace(state.model, kernel=recipe.kernel, learned=None)
    state = replace(state, calibration=IntervalCalibration())
    if learned is None:
        return replace(state, model=model)
    about = replace(state.info.model, terms=())
    return replace(state, model=model, info=replace(state.info, model=about))

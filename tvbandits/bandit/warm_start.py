"""Start from what a bandit on similar ground has learned: rates, scales and weights of models.

Its readings themselves do not carry over: what is told of another place says how a reward like this one
varies, and not what it is here. They are told to beliefs of the new recipe, which learn from them as
from their own, and what these come to becomes its prior. Own evidence overrules all of it:

- Half of the prior weight of an ensemble's models is what the others' readings left of it, half is as
  before. Who learned of something else costs the right model a factor of two at most.
- A kernel that is fitted has its learned numbers as the median of their prior, of the usual spread.
- A rate and the first guess of an ensemble's unit are where learning begins. A noise variance is not
  taken: what changes passes for noise, which did harm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits.bandit.inference import Inference
from tvbandits.bandit.initial_state import first_state, state_for
from tvbandits.bandit.observations import ReadingTable
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.bandit.update import replay, update
from tvbandits.domains.candidates import Candidates
from tvbandits.forgetting.aging import has_rate
from tvbandits.gp.online import at_step
from tvbandits.validation import of_kind


def warm_start(recipe: Recipe, state: State, other: object) -> tuple[Recipe, State]:
    """Return a recipe that has learned from another bandit, or its state; and its own state for it."""
    source: Any = getattr(other, "state", other)
    of_kind("other", source, State, "a bandit or a campaign, or its state")
    recipe = learn_prior(recipe, source)
    readings = ReadingTable.of(state, recipe.noise_variance)
    return recipe, replay(Inference(recipe), state_for(recipe, state), readings)


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
    state = _learn_there(recipe, other)
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


def _learn_there(recipe: Recipe, other: State) -> State:
    """Return what beliefs of the recipe come to where the other one has played."""
    domain = other.domain
    if recipe.posterior.self_learning and not isinstance(domain, Candidates):
        domain = Candidates(np.unique(other.rewards.X, axis=0))
    options = replace(recipe.options, limits=(), safe=(), control=None)
    beliefs = replace(recipe, domain=domain, asking=None, options=options)
    inference, rng = Inference(beliefs), np.random.default_rng(0)
    state = first_state(beliefs, rng)
    for new in ReadingTable.of(other, recipe.noise_variance).in_turn():
        if len(new.rewards):
            state = update(inference, state, new, rng)
    return inference.condition(state, float(other.rewards.t.max()), rng)[0]

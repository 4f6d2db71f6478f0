"""The state from which a bandit starts: an empty one, or one of another recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits.bandit.recipe import Recipe, estimate_noise, make_initial_kernel
from tvbandits.bandit.state import ModelState, QueryState, State
from tvbandits.data import Record
from tvbandits.domains.candidates import (
    Candidates,
    CandidatesInContext,
    add_retired,
    get_candidates,
    replace_candidates,
)
from tvbandits.domains.space import Arms
from tvbandits.domains.space_kernel import add_arms
from tvbandits.forgetting.aging import RatedAging
from tvbandits.gp.calibration import IntervalCalibration
from tvbandits.gp.kernels.space_time import have_same_form
from tvbandits.gp.standardisation import Scaling
from tvbandits.queries.plans import PlayedPool
from tvbandits.validation import as_points, check_instance


def make_initial_state(recipe: Recipe, rng: np.random.Generator) -> State:
    """Return the state of a bandit without observations."""
    record = Record.empty(recipe.domain.dimension)
    noise = estimate_noise(recipe, record.rewards)
    return State(
        record=record,
        visited=record.rewards.X,
        outliers=None,
        model=ModelState(_make_initial_scaling(recipe), recipe.kernel, recipe.aging, noise=noise),
        posterior=None,
        queries=QueryState(PlayedPool.none()),
        random=rng.bit_generator.state,
        domain=recipe.domain,
        outcomes=_make_outcome_states(recipe, {}),
    )


def check_state(recipe: object, state: object) -> None:
    """Raise a `ValueError` unless a bandit with `recipe` can continue from `state`."""
    if not (isinstance(recipe, Recipe) and isinstance(state, State)):
        names = f"{type(recipe).__name__} and {type(state).__name__} as recipe and state"
        raise ValueError(f"from_state takes a Recipe and then a State, got {names}")
    state_d, d = state.rewards.dimension, recipe.domain.dimension
    if state_d != d:
        raise ValueError(
            f"the state has points of {state_d} coordinates, the recipe's domain of {d}"
        )
    recipe.domain.check(state.visited, "points played")
    recipe.domain.check(state.pending.X, "points pending")


def adapt_state(recipe: Recipe, state: State) -> State:
    """Return `state` with the recipe's parts; whatever depends on other parts is left out."""
    if recipe.mean != "online" or state.model.scaling.estimated_at == 0:
        state = state.with_model(scaling=_make_initial_scaling(recipe))
    if state.outliers is not None and not recipe.options.robust:
        readings = state.readings
        state = state.with_outliers(readings, np.zeros(len(readings), dtype=bool))
        state = replace(state, posterior=None)
    state = _apply_noise(recipe, _apply_kernel(recipe, _apply_aging(recipe, state)))
    kernel = state.model.kernel if recipe.options.control is None else recipe.kernel_with_control
    same = state.domain == recipe.domain and (
        state.posterior is not None and bool(state.posterior.summary.kernel == kernel)
    )
    if state.domain != recipe.domain:
        state = state.with_queries(available=None)  # it refers to points of the other domain
    return replace(
        state,
        domain=recipe.domain,
        posterior=state.posterior if same else None,
        outcomes=_make_outcome_states(recipe, state.outcomes),
    )


def change_candidates(recipe: Recipe, state: State, X: Any) -> Candidates | CandidatesInContext:
    """Return candidates `X` (A, d), or arms of these names, with all points of recipe and state.

    If a context is measured, `X` is without it.

    Raises
    ------
    ValueError
        If the recipe's domain does not consist of candidates, or `X` does not suit it.
    """
    domain = recipe.domain
    if isinstance(domain, Arms):
        return domain.with_names(X)
    choices = get_candidates(domain)
    if type(choices) is not Candidates:
        raise ValueError(f"with_candidates needs a domain of Candidates, got {domain!r}")
    candidates = Candidates(as_points(X, choices.dimension), choices.context)
    control = recipe.options.control
    points_of_options = [*recipe.options.safe, *([] if control is None else [control])]
    points = np.array(points_of_options).reshape(-1, domain.dimension)
    points = np.concatenate([state.visited, state.pending.X, state.answers.X, points])
    return replace_candidates(domain, add_retired(candidates, points[:, : choices.dimension]))


def move_to_candidates(
    recipe: Recipe, state: State, domain: Candidates | CandidatesInContext
) -> tuple[Recipe, State]:
    """Return recipe and state on other candidates, with further coordinates if arms were added."""
    check_instance("domain", domain, (Candidates, CandidatesInContext), "candidates")
    columns, learn = domain.dimension - recipe.domain.dimension, recipe.learn
    if columns == 0:
        return replace(recipe, domain=domain), state
    kernel = add_arms(recipe.kernel, columns)
    if learn is not None:
        learn = replace(learn, rivals=tuple(add_arms(rival, columns) for rival in learn.rivals))
    zeros = (0.0,) * columns
    safe = [(*point, *zeros) for point in recipe.options.safe]
    control = None if recipe.options.control is None else (*recipe.options.control, *zeros)
    options = replace(recipe.options, safe=safe, control=control)
    recipe = replace(recipe, domain=domain, kernel=kernel, learn=learn, options=options)
    return recipe, state.add_coordinates(columns)


def _make_outcome_states(recipe: Recipe, states: Mapping[str, State]) -> dict[str, State]:
    """Return a state for each limited outcome: an adapted one of `states`, or an empty one."""
    outcome_states = {}
    for limit in recipe.options.limits:
        outcome_recipe, state = recipe.make_outcome_recipe(limit), states.get(limit.name)
        outcome_states[limit.name] = (
            make_initial_state(outcome_recipe, np.random.default_rng(0))
            if state is None
            else adapt_state(outcome_recipe, state)
        )
    return outcome_states


def _apply_noise(recipe: Recipe, state: State) -> State:
    """Return `state` with the recipe's noise variance, or with an estimate if the recipe has none."""
    noise, estimate = recipe.noise_variance, state.model.noise
    if noise is None:
        if estimate is not None:
            return state
        estimate = estimate_noise(recipe, state.rewards.concatenate(state.answers))
        return state.with_model(noise=estimate)
    posterior = state.posterior if estimate is None or estimate.variance == noise else None
    rewards, answers = state.rewards.with_noise(noise), state.answers.with_noise(noise)
    state = state.with_model(noise=None, next_model=None)
    return replace(state.with_record(rewards=rewards, answers=answers), posterior=posterior)


def _make_initial_scaling(recipe: Recipe) -> Scaling:
    """Return the scaling before any observation."""
    sign = -1.0 if recipe.minimize else 1.0
    return Scaling(0.0 if recipe.mean == "online" else sign * recipe.mean, 1.0)


def _apply_aging(recipe: Recipe, state: State) -> State:
    """Return `state` with the recipe's aging map, at the learned rate if there is one."""
    aging, learned = recipe.aging, state.model.aging
    if (
        recipe.learn is not None
        and isinstance(aging, RatedAging)
        and isinstance(learned, RatedAging)
        and learned.forgetting_rate > 0  # NaN for a composition without a rate
        and aging.at_rate(1.0) == learned.at_rate(1.0)
    ):
        return state
    return state.with_model(aging=aging, info={"forgetting_rate": math.nan})


def _apply_kernel(recipe: Recipe, state: State) -> State:
    """Return `state` with the recipe's kernel, or the fitted one if it has the same form."""
    fit = state.model.fit
    if recipe.learn is not None and fit is not None:
        kernels, fitted = (recipe.kernel, *recipe.learn.rivals), fit.kernels
        if len(kernels) == len(fitted) and all(map(have_same_form, fitted, kernels)):
            return state.with_model(kernel=fit.kernel)
    kernel = make_initial_kernel(recipe, state.rewards)
    return state.with_model(kernel=kernel, fit=None, calibration=IntervalCalibration())

"""The state of a bandit that starts with a table of earlier readings.

The table has a row for each time and a column for each candidate, such as the measurements of a network
before the first decision. The bandit learns all of them, without querying its expert about them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.bandit.inference import Inference
from tvbandits.bandit.initial_state import make_initial_state
from tvbandits.bandit.observations import ReadingTable, skip_numbers, validate_observations
from tvbandits.bandit.recipe import Recipe, estimate_noise
from tvbandits.bandit.state import State
from tvbandits.bandit.step import update
from tvbandits.domains.candidates import as_finite
from tvbandits.domains.space import Arms
from tvbandits.gp.ensemble.empirical import remove_season
from tvbandits.gp.ensemble.seasons import CONFIG as SEASON_CONFIG, SeasonSearch
from tvbandits.gp.table_noise import estimate_table_noise, mask_stuck_readings
from tvbandits.validation import Array, as_floats, as_times, describe


def make_state_with_history(recipe: Recipe, history: Any, rng: np.random.Generator) -> State:
    """Return the first state of a recipe with the readings of a table.

    Parameters
    ----------
    recipe : Recipe
        On candidates or arms.
    history : DataFrame or array of shape (T, A)
        A table as for `parse_history`.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        If the table does not fit the candidates, or has no reading.
    """
    table, times = parse_history(recipe.domain, history)
    X, y, t = list_readings(recipe.domain, table, times)
    state, inference = make_initial_state(recipe, rng), Inference(recipe)
    new = validate_observations(recipe, state.record, X, y, t, None)
    rewards = new.rewards
    columns = rewards.X, rewards.t, rewards.y, rewards.variance, rewards.trials
    for readings in ReadingTable(*columns).split_by_time():
        state = update(inference, state, readings, rng)
    if state.model.noise is not None:  # `update` estimates it from the first rewards only
        noise = None
        if recipe.options.control is None:  # with a control, the common level may jump
            noise = estimate_table_noise(subtract_season(mask_stuck_readings(table), times), times)
        state = state.with_noise(noise or estimate_noise(recipe, state.rewards))
    skip_numbers(rng, len(rewards))
    return replace(state, random=rng.bit_generator.state)


def subtract_season(table: Array, times: Array) -> Array:
    """Return a table (T, A) of readings at times (T,) minus its season, if it has one.

    The season would count as noise, since a cycle of a few steps changes as fast.
    """
    rows, places = np.nonzero(~np.isnan(table))
    period = SeasonSearch().period_of(times[rows], places, table[rows, places])
    if period is None:
        return table
    return remove_season(table, (times - times[0]) / period, SEASON_CONFIG.harmonics)


def list_readings(domain: Any, table: Array, times: Array) -> tuple[Array, Array, Array]:
    """Return the points (n, d), values (n,) and times (n,) of the readings in a table (T, A)."""
    rows, columns = np.nonzero(~np.isnan(table))
    return as_finite(domain, "history").X[columns], table[rows, columns], times[rows]


def parse_history(domain: Any, history: Any) -> tuple[Array, Array]:
    """Return the values (T, A) of a table, a column for each candidate, and its increasing times (T,).

    Parameters
    ----------
    domain : Candidates or Arms
        A domain of A points.
    history : DataFrame or array of shape (T, A)
        A row for each time before the first decision and a column for each candidate, in the domain's
        order; columns with the names of arms may be in any order. NaN: no reading. The index of a frame
        has the times; the rows of an array are one unit of time apart, the last at 0.

    Raises
    ------
    ValueError
        If the table does not fit the candidates, its times do not increase, or it has no reading.
    """
    points, times = as_finite(domain, "history").X, None
    if isinstance(history, str | os.PathLike):
        raise ValueError(
            "history must be a table in memory, with a column for each candidate, got "
            f"{describe(history)}: tvbandits.datasets.sensor_field(readings, sites) reads files, "
            "and its values are such a table"
        )
    if isinstance(history, pd.DataFrame):
        names = list(domain.names) if isinstance(domain, Arms) else []
        if names and set(history.columns) == set(names):
            history = history[names]
        index = history.index
        if not pd.api.types.is_numeric_dtype(index):
            raise ValueError(
                "the index of history must have times as numbers, in the unit of t, "
                f"got {describe(index[0] if len(index) else index)}: "
                "Clock(...).number(index) returns them"
            )
        times, history = as_times(index.to_numpy(), len(index)), history.to_numpy()
    table = as_floats(history, "history")
    if table.ndim != 2 or table.shape[1] != len(points):
        raise ValueError(
            f"history must have a column for each of {len(points)} candidates, got shape {table.shape}"
        )
    if times is None:
        times = np.arange(1.0 - len(table), 1.0)
    unordered = np.flatnonzero(np.diff(times) <= 0)
    if len(unordered):
        i = int(unordered[0])
        raise ValueError(
            f"the times of history must increase, got {times[i + 1]:g} after {times[i]:g} in row {i + 1}"
        )
    if np.isnan(table).all():
        raise ValueError("history must have at least one reading, got none")
    return table, times

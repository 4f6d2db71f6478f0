"""What a bandit remembers, and what stands in the journal alone: what was told wrong, or is too old."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.bandit.told import usual_variance
from tvbandits.campaign.store.store import Row, optional, points
from tvbandits.core.files.journal import numbers
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.tables import history_columns, in_time


def columns_of(recipe: Recipe, state: State, put_right: Iterable[Row]) -> dict[str, Any]:
    """The columns of a history, with what was told wrong as rows of "corrected" and "retracted"."""
    domain = recipe.domain
    said = state.readings, state.answers, state.failed, state.pending
    read = {limit: state.outcomes[limit.name].rewards for limit in recipe.limits}
    parts = [history_columns(domain, *said, read, recipe.control, recipe.move_cost)]
    none, no_plays = Observations.empty(domain.dimension), Plays.none(domain.dimension)
    unread = dict.fromkeys(recipe.limits, none)
    for row in put_right:
        was, X = numbers(row.body["got"]), points(row.body["X"], domain.dimension)
        old = Observations(X, was[:, 0], np.zeros(len(X)), np.ones(len(X)))
        part = history_columns(domain, old, none, no_plays, no_plays, unread, recipe.control)
        order = np.argsort(was[:, 0], kind="stable")
        gone = np.full(len(X), np.nan)
        kind = np.full(len(X), row.kind, dtype=object)
        of_old = {"reward": was[order, 1], "variance": gone, "kind": kind, "move_cost": gone}
        parts.append({**part, **of_old})
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return in_time(columns)


def readings_before(until: float, recipe: Recipe, told: Iterable[Row]) -> Observations:
    """Readings from before a time, as they were told."""
    found = Observations.empty(recipe.domain.dimension)
    for row in told:
        X, t = points(row.body["X"], recipe.domain.dimension), numbers(row.body["got"])
        y, said = numbers(row.body["y"]).reshape(-1), optional(row.body["variance"])
        variance = usual_variance(len(t), recipe.noise_variance)
        variance = variance if said is None else np.broadcast_to(said, len(t))
        old = (t < until) & ~np.isnan(y)
        found = found.append(Observations.checked(X[old], t[old], y[old], variance[old]))
    return found

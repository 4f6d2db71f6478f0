"""The readings of a campaign: those that are repeated, were changed, or have expired."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.acquisition.limits import check_outcome
from tvbandits.bandit.history import history_columns, in_time
from tvbandits.bandit.observations import find_readings, usual_variance, validate_observations
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.campaign.store.journal import to_array, to_points
from tvbandits.campaign.store.store import Row
from tvbandits.counts import Counted
from tvbandits.data import Dataset, NewObservations, Plays, at_times, row_keys
from tvbandits.validation import Array, as_times, as_values

if TYPE_CHECKING:
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State


def history_with_changes(recipe: Recipe, state: State, changes: Iterable[Row]) -> dict[str, Any]:
    """Return the columns of a history, with what was there before each of these changes."""
    domain, d = recipe.domain, recipe.domain.dimension
    outcomes = {limit: state.outcomes[limit.name].rewards for limit in recipe.options.limits}
    plays = state.readings, state.answers, state.failed, state.pending
    parts = [
        history_columns(domain, *plays, outcomes, recipe.options.control, recipe.options.move_cost)
    ]
    empty, no_plays = Dataset.empty(d), Plays.empty(d)
    no_outcomes = dict.fromkeys(outcomes, empty)
    for row in changes:
        X, (t, y) = to_points(row.arguments["X"], d), to_array(row.body["result"]).T
        old = Dataset(X, t, np.zeros(len(X)), np.ones(len(X)))
        is_answer = row.kind == "correct_answers"
        rewards, answers = (empty, old) if is_answer else (old, empty)
        part = history_columns(
            domain, rewards, answers, no_plays, no_plays, no_outcomes, recipe.options.control
        )
        order, missing = np.argsort(t, kind="stable"), np.full(len(X), np.nan)
        kind = np.full(len(X), "retracted" if row.kind == "retract" else "corrected", dtype=object)
        if is_answer:
            kind[np.isnan(to_array(row.arguments["values"]).reshape(-1))] = "retracted"
        parts.append(
            {
                **part,
                "reward": y[order],
                "variance": missing,
                "kind": kind[order],
                "move_cost": missing,
            }
        )
    return in_time({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def observations_of(recipe: Recipe, state: State, arguments: Mapping[str, Any]) -> NewObservations:
    """Return the readings of the arguments of `tell`, each with its time.

    Raises
    ------
    ValueError
        If they cannot be used.
    """
    X, y = to_points(arguments["X"], recipe.domain.dimension), to_array(arguments["y"])
    t, variance, trials = (
        None if (column := arguments.get(name)) is None else to_array(column)
        for name in ("t", "noise_variance", "trials")
    )
    if trials is not None and variance is not None:
        return validate_observations(recipe, state.record, X, Counted(y, variance, trials), t, None)
    return validate_observations(recipe, state.record, X, y, t, variance)


class RecordedReadings:
    """The readings in a journal, to be looked up by place and time.

    Parameters
    ----------
    recipe : Recipe
    read_rows : callable
        Returns the rows of the journal of kind "tell".
    """

    def __init__(self, recipe: Recipe, read_rows: Callable[[], Iterable[Row]]) -> None:
        self._recipe, self._dimension = recipe, recipe.domain.dimension
        self._read_rows = read_rows

    @cached_property
    def _rows(self) -> list[Row]:
        return list(self._read_rows())

    @cached_property
    def _counts(self) -> dict[bytes, Any]:
        """The counts that rates were computed from, by place and time."""
        rows = [row for row in self._rows if "counts" in row.arguments]
        return {
            row_keys(at_times(self._points(row), to_array(row.body["result"])))[0]: row.arguments[
                "counts"
            ]
            for row in rows
        }

    def _points(self, row: Row) -> Array:
        return to_points(row.arguments["X"], self._dimension)

    def _expired(self, until: float) -> Dataset:
        """Return the readings from before `until`, which have left the bandit's history."""
        expired = Dataset.empty(self._dimension)
        for row in self._rows:
            arguments, t, X = row.arguments, to_array(row.body["result"]), self._points(row)
            y = to_array(arguments["y"]).reshape(-1)
            variance = usual_variance(len(t), self._recipe.noise_variance)
            if arguments.get("noise_variance") is not None:
                variance = np.broadcast_to(to_array(arguments["noise_variance"]), len(t))
            old = (t < until) & ~np.isnan(y)
            expired = expired.append(Dataset.from_columns(X[old], t[old], y[old], variance[old]))
        return expired

    @cached_property
    def _as_told(self) -> dict[bytes, list[list[float]]]:
        """The values and variances as they were told, before any correction, by play."""
        told = self._expired(math.inf)
        return _by_play(told, told.y, told.variance)

    def check_new(
        self,
        state: State,
        new: NewObservations,
        arguments: Mapping[str, Any],
        name: Callable[[Array], str],
        format_time: Callable[[float], str],
    ) -> None:
        """Raise a `ConflictError` if there is a reading of the same place and time already.

        A play without a reading does not conflict with a reading, and adds nothing to one. The error
        says whether it is the same reading, or was until it was corrected.
        """
        readings, until = state.readings, state.expired.until
        if state.expired.rewards and (new.t < until).any():
            readings = self._expired(until).append(readings)
        readings = readings.take(np.isin(readings.t, new.t))
        by_play = _by_play(readings, readings.y, readings.variance)
        failed = {*_play_keys(state.failed.take(np.isin(state.failed.t, new.t)))}
        conflicts, same, rewards = set[bytes](), True, new.rewards
        for play, y, variance in zip(_play_keys(rewards), rewards.y, rewards.variance, strict=True):
            if play in by_play:
                conflicts.add(play)
                # The variance of a rate changes if other counts are recorded at its time.
                same_counts = (
                    "counts" in arguments and self._counts.get(play) == arguments["counts"]
                )
                # A file may still have what was corrected since.
                same = same and (
                    _is_among(by_play[play], y, variance, same_counts)
                    or _is_among(self._as_told.get(play, []), y, variance, same_counts)
                )
        conflicts |= {x for x in _play_keys(new.failed) if x in by_play or x in failed}
        if not conflicts:
            return
        plays = row_keys(at_times(new.X, new.t))
        limits = {limit.name: limit for limit in self._recipe.options.limits}
        for outcome, values in arguments.get("outcomes", {}).items():
            check_outcome(outcome, limits)
            old = state.outcomes[outcome].rewards
            outcomes = _by_play(old, old.y)
            column = as_values(to_array(values), len(plays), outcome, missing=True)
            for play, t, value in zip(plays, new.t, column, strict=True):
                if play in conflicts and t >= until and not np.isnan(value):
                    same = same and [value] in outcomes.get(play, [])
        first = min(map(plays.index, conflicts))
        value = by_play.get(plays[first], [[np.nan]])[-1][0]
        raise ConflictError(
            f"there is already a reading of {name(new.X[first])} at {format_time(float(new.t[first]))}: "
            f"{value:g}",
            "give {key} if both readings are to count, or replace the old one by {correct}",
            same=bool(same),
        )


def refuse_taken_times(
    recipe: Recipe,
    state: State,
    arguments: Mapping[str, Any],
    name: Callable[[Array], str],
    format_time: Callable[[float], str],
) -> None:
    """Raise a `ConflictError` if a reading is moved to a time at which its place has another one."""
    X, t = to_points(arguments["X"], recipe.domain.dimension), arguments.get("t")
    moved = find_readings(recipe, state, X, None if t is None else to_array(t))
    times = as_times(to_array(arguments["to"]), len(X), "to")
    others = moved.before.without(moved.rows)
    keys = {*row_keys(at_times(others.X, others.t))}
    for x, to, key in zip(X, times, row_keys(at_times(X, times)), strict=True):
        if key in keys:
            raise ConflictError(
                f"there is already a reading of {name(x)} at {format_time(float(to))}",
                "give {key} if both readings are to count, or replace that one by {correct}",
            )


def _play_keys(plays: Dataset | Plays) -> list[bytes]:
    """Return keys of places and times."""
    return row_keys(at_times(plays.X, plays.t))


def _is_among(readings: list[list[float]], y: float, variance: float, same_counts: bool) -> bool:
    """Return whether a value and its variance, or what these counts come to, are among readings."""
    return any(
        old == y and (same_counts or np.array_equal(noise, variance, equal_nan=True))
        for old, noise in readings
    )


def _by_play(plays: Dataset, *columns: Array) -> dict[bytes, list[list[float]]]:
    """Return the values at each place and time, the latest last."""
    values: dict[bytes, list[list[float]]] = {}
    for play, row in zip(_play_keys(plays), np.column_stack(columns).tolist(), strict=True):
        values.setdefault(play, []).append(row)
    return values

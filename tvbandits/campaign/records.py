"""Lookups of the readings in a journal: repeated, changed and expired ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tvbandits.acquisition.limits import check_outcome
from tvbandits.bandit.history import make_history_columns, sort_by_time
from tvbandits.bandit.observations import fill_variance, find_readings, validate_observations
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.campaign.store.store import Row, to_array, to_points
from tvbandits.campaign.withdrawals import Withdrawal, Withdrawals
from tvbandits.counts import Counted
from tvbandits.data import Dataset, NewObservations, Plays, append_times, row_keys
from tvbandits.validation import Array, as_times, as_values

if TYPE_CHECKING:
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State


# What a journal has of a reading: see `RecordedReadings.compare`.
Verdict = Literal["new", "recorded", "other"] | Withdrawal


def history_with_changes(recipe: Recipe, state: State, changes: Iterable[Row]) -> dict[str, Any]:
    """Return the columns of a history, with what was there before each of these changes."""
    domain, d = recipe.domain, recipe.domain.dimension
    outcomes = {limit: state.outcomes[limit.name].rewards for limit in recipe.options.limits}
    plays = state.readings, state.answers, state.failed, state.pending
    parts = [
        make_history_columns(
            domain, *plays, outcomes, recipe.options.control, recipe.options.move_cost
        )
    ]
    empty, no_plays = Dataset.empty(d), Plays.empty(d)
    no_outcomes = dict.fromkeys(outcomes, empty)
    for row in changes:
        X, (t, y) = to_points(row.arguments["X"], d), to_array(row.body["result"]).T
        old = Dataset(X, t, np.zeros(len(X)), np.ones(len(X)))
        is_answer = row.kind == "correct_answers"
        rewards, answers = (empty, old) if is_answer else (old, empty)
        part = make_history_columns(
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
    return sort_by_time({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


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


def times_of(recipe: Recipe, state: State, arguments: Mapping[str, Any]) -> Array:
    """Return the time (n,) of each reading of the arguments of `tell`, which the bandit checks."""
    if arguments.get("t") is None:
        return observations_of(recipe, state, arguments).t
    return as_times(to_array(arguments["t"]), len(arguments["X"]))


class RecordedReadings:
    """The readings in a journal, to be looked up by place and time.

    Parameters
    ----------
    recipe : Recipe
    read_rows : callable
        Returns the rows of the journal of kind "tell".
    withdrawals : Withdrawals
        The readings that were retracted or moved.
    """

    def __init__(
        self, recipe: Recipe, read_rows: Callable[[], Iterable[Row]], withdrawals: Withdrawals
    ) -> None:
        self._recipe, self._dimension = recipe, recipe.domain.dimension
        self._read_rows, self._withdrawals = read_rows, withdrawals

    @cached_property
    def _rows(self) -> list[Row]:
        return list(self._read_rows())

    @cached_property
    def _counts(self) -> dict[bytes, Any]:
        """Return the counts from which rates were computed, by place and time."""
        counts: dict[bytes, Any] = {}
        for row in self._rows:
            if "counts" in row.arguments:
                plays = row_keys(append_times(self._points(row), to_array(row.body["result"])))
                counts |= zip(plays, row.arguments["counts"], strict=True)
        return counts

    def _points(self, row: Row) -> Array:
        return to_points(row.arguments["X"], self._dimension)

    def _expired(self, until: float) -> Dataset:
        """Return the readings from before `until`, which have left the bandit's history."""
        expired = Dataset.empty(self._dimension)
        for row in self._rows:
            arguments, t, X = row.arguments, to_array(row.body["result"]), self._points(row)
            y = to_array(arguments["y"]).reshape(-1)
            variance = fill_variance(len(t), self._recipe.noise_variance)
            if arguments.get("noise_variance") is not None:
                variance = np.broadcast_to(to_array(arguments["noise_variance"]), len(t))
            old = (t < until) & ~np.isnan(y)
            expired = expired.append(Dataset.from_columns(X[old], t[old], y[old], variance[old]))
        return expired

    @cached_property
    def _original_values(self) -> dict[bytes, list[list[float]]]:
        """Return the reported values and variances, before corrections, by place and time."""
        readings = self._expired(math.inf)
        return _by_play(readings, readings.y, readings.variance)

    def _readings_at(self, state: State, t: Array) -> dict[bytes, list[list[float]]]:
        """Return the values and variances now of all readings at some times (n,), by play."""
        readings, until = state.readings, state.expired.until
        if state.expired.rewards and (t < until).any():
            readings = self._expired(until).append(readings)
        readings = readings.take(_are_at(readings.t, t))
        return _by_play(readings, readings.y, readings.variance)

    def compare(
        self, state: State, X: Array, t: Array, y: Array, variance: Array, counts: Any = None
    ) -> list[Verdict]:
        """Return what the journal has of each of some readings.

        A play without a reading (NaN) does not conflict with a reading, and adds nothing to one.

        Parameters
        ----------
        state : State
        X : array of shape (n, d)
        t, y, variance : arrays of shape (n,)
        counts : list of length n, optional
            The counts that they were computed from.

        Returns
        -------
        verdicts : list of length n
            "new": nothing of its place and time. "recorded": the same, or what was the same until it was
            corrected: a file may still have that. "other": another one. A `Withdrawal`: the same, which
            was retracted or moved since.
        """
        by_play = self._readings_at(state, t)
        failed = {*_play_keys(state.failed.take(_are_at(state.failed.t, t)))}
        verdicts = list[Verdict]()
        for i, play in enumerate(row_keys(append_times(X, t))):
            if np.isnan(y[i]) and (play in by_play or play in failed):
                verdicts.append("recorded")
                continue
            value, noise = float(y[i]), float(variance[i])
            # The variance of a rate changes if other counts are recorded at its time.
            same_counts = counts is not None and self._counts.get(play) == counts[i]
            if play in by_play:
                same = _is_among(by_play[play], value, noise, same_counts) or _is_among(
                    self._original_values.get(play, []), value, noise, same_counts
                )
                verdicts.append("recorded" if same else "other")
                continue
            withdrawal = self._withdrawals.find(X[i].tolist(), float(t[i]), value)
            if withdrawal is not None and not np.isnan(value):
                originals = [
                    each for each in self._original_values.get(play, []) if each[0] == value
                ]
                if originals and not _is_among(originals, value, noise, same_counts):
                    withdrawal = None  # it had another variance
            verdicts.append(withdrawal or "new")
        return verdicts

    def check_new(
        self,
        state: State,
        new: NewObservations,
        arguments: Mapping[str, Any],
        name: Callable[[Array], str],
        format_time: Callable[[float], str],
    ) -> None:
        """Raise a `ConflictError` if there is a reading of the same place and time already, or was.

        The error says whether all readings are in the journal as they are, or were until they were
        corrected or withdrawn.
        """
        y, variance = np.full(len(new.X), np.nan), np.full(len(new.X), np.nan)
        is_reading = ~np.isnan(to_array(arguments["y"]).reshape(-1))
        y[is_reading], variance[is_reading] = new.rewards.y, new.rewards.variance
        verdicts = self.compare(state, new.X, new.t, y, variance, arguments.get("counts"))
        if all(each == "new" for each in verdicts):
            return
        same = not {"new", "other"} & {*verdicts}
        limits = {limit.name: limit for limit in self._recipe.options.limits}
        plays = row_keys(append_times(new.X, new.t))
        for outcome, values in arguments.get("outcomes", {}).items():
            check_outcome(outcome, limits)
            old = state.outcomes[outcome].rewards
            outcomes = _by_play(old, old.y)
            column = as_values(to_array(values), len(plays), outcome, missing=True)
            for play, t, value, verdict in zip(plays, new.t, column, verdicts, strict=True):
                on_record = verdict in ("recorded", "other") and t >= state.expired.until
                if on_record and not np.isnan(value):
                    same = same and [value] in outcomes.get(play, [])
        first = next((i for i, each in enumerate(verdicts) if each in ("recorded", "other")), None)
        if first is None:
            row, withdrawal = next(
                (i, each) for i, each in enumerate(verdicts) if isinstance(each, Withdrawal)
            )
            raise ConflictError(
                withdrawal_text(name(new.X[row]), float(new.t[row]), withdrawal, format_time),
                "give {key} to bring it back",
                same=same,
                withdrawn=True,
            )
        there = self._readings_at(state, new.t).get(plays[first], [[np.nan]])
        raise ConflictError(
            f"there is already a reading of {name(new.X[first])} at {format_time(float(new.t[first]))}: "
            f"{there[-1][0]:g}",
            "give {key} if both readings are to count, or replace the old one by {correct}",
            same=same,
            withdrawn=any(isinstance(each, Withdrawal) for each in verdicts),
        )


def withdrawal_text(
    place: str, t: float, withdrawal: Withdrawal, format_time: Callable[[float], str]
) -> str:
    """Return what became of a reading, in words."""
    value = "no reading" if math.isnan(withdrawal.value) else f"{withdrawal.value:g}"
    to = withdrawal.to
    change = "retracted" if to is None else f"moved to {format_time(to)}"
    what = f"{place} at {format_time(t)}: {value}"
    return f"{what} was {change} by {withdrawal.who} (row {withdrawal.seq})"


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
    keys = {*row_keys(append_times(others.X, others.t))}
    for x, to, key in zip(X, times, row_keys(append_times(X, times)), strict=True):
        if key in keys:
            raise ConflictError(
                f"there is already a reading of {name(x)} at {format_time(float(to))}",
                "give {key} if both readings are to count, or replace that one by {correct}",
            )


def _are_at(times: Array, t: Array) -> NDArray[np.bool_]:
    """Return which times (n,) are among others (m,), most often a single one."""
    return times == t[0] if len(t) == 1 else np.isin(times, t)


def _play_keys(plays: Dataset | Plays) -> list[bytes]:
    """Return keys of places and times."""
    return row_keys(append_times(plays.X, plays.t))


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

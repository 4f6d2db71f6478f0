"""What stands in a journal beside what a bandit knows: readings that are told again, wrong, or old."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.acquisition.limits import check_outcome
from tvbandits.bandit.history import history_columns, in_time
from tvbandits.bandit.observations import usual_variance, validate_observations
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.campaign.store.journal import numbers, points
from tvbandits.campaign.store.store import Row
from tvbandits.data import Dataset, NewObservations, Plays, at_times, row_keys
from tvbandits.validation import Array, as_values

if TYPE_CHECKING:
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State


def columns_of(recipe: Recipe, state: State, changes: Iterable[Row]) -> dict[str, Any]:
    """Return the columns of a history, with what was told wrong as "corrected" and "retracted"."""
    domain, d = recipe.domain, recipe.domain.dimension
    read = {limit: state.outcomes[limit.name].rewards for limit in recipe.options.limits}
    plays = state.readings, state.answers, state.failed, state.pending
    parts = [
        history_columns(domain, *plays, read, recipe.options.control, recipe.options.move_cost)
    ]
    none, no_plays = Dataset.empty(d), Plays.empty(d)
    unread = dict.fromkeys(read, none)
    for row in changes:
        was, X = numbers(row.body["got"]), points(row.given["X"], d)
        old = Dataset(X, was[:, 0], np.zeros(len(X)), np.ones(len(X)))
        part = history_columns(
            domain, old, none, no_plays, no_plays, unread, recipe.options.control
        )
        order = np.argsort(was[:, 0], kind="stable")
        gone = np.full(len(X), np.nan)
        kind = np.full(len(X), row.kind, dtype=object)
        of_old = {"reward": was[order, 1], "variance": gone, "kind": kind, "move_cost": gone}
        parts.append({**part, **of_old})
    return in_time({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def told_of(recipe: Recipe, state: State, given: Mapping[str, Any]) -> NewObservations:
    """Return what an operation tells, with the time of each reading; a `ValueError` if it cannot be."""
    X, variance, t = (
        points(given["X"], recipe.domain.dimension),
        given.get("noise_variance"),
        given.get("t"),
    )
    times = None if t is None else numbers(t)
    noise = None if variance is None else numbers(variance)
    return validate_observations(recipe, state.record, X, numbers(given["y"]), times, noise)


class Readings:
    """The readings of a campaign, in which those of a place and time can be found again.

    Parameters
    ----------
    recipe : Recipe
    told : callable
        The rows of the journal that tell something.
    """

    def __init__(self, recipe: Recipe, told: Callable[[], Iterable[Row]]) -> None:
        self._recipe, self._dimension = recipe, recipe.domain.dimension
        self._told = told

    @cached_property
    def _rows(self) -> list[Row]:
        return list(self._told())

    @cached_property
    def _counts(self) -> dict[bytes, Any]:
        """What readings were made of that were counted, by place and time."""
        rows = [row for row in self._rows if "counts" in row.given]
        at = [
            at_times(points(row.given["X"], self._dimension), numbers(row.body["got"]))
            for row in rows
        ]
        return {row_keys(x)[0]: row.given["counts"] for x, row in zip(at, rows, strict=True)}

    def _expired(self, until: float) -> Dataset:
        """Return the readings that have left the history, as they were told."""
        found = Dataset.empty(self._dimension)
        for row in self._rows:
            given, t = row.given, numbers(row.body["got"])
            X, y = points(given["X"], self._dimension), numbers(given["y"]).reshape(-1)
            variance = usual_variance(len(t), self._recipe.noise_variance)
            if given.get("noise_variance") is not None:
                variance = np.broadcast_to(numbers(given["noise_variance"]), len(t))
            old = (t < until) & ~np.isnan(y)
            found = found.append(Dataset.from_columns(X[old], t[old], y[old], variance[old]))
        return found

    def check(
        self,
        state: State,
        told: NewObservations,
        given: Mapping[str, Any],
        name: Callable[[Array], str],
        when: Callable[[float], str],
    ) -> None:
        """Raise a `ConflictError` if a reading of the same place and time is on record.

        A play without a reading is no obstacle to a reading, and adds nothing to one.
        """
        readings, until = state.readings, state.expired.until
        if state.expired.rewards and (told.t < until).any():
            readings = self._expired(until).append(readings)
        readings = readings.take(np.isin(readings.t, told.t))
        by_play = _by_play(readings, readings.y, readings.variance)
        failed = {*_plays(state.failed.take(np.isin(state.failed.t, told.t)))}
        found, same, new = set[bytes](), True, told.rewards
        for play, y, variance in zip(_plays(new), new.y, new.variance, strict=True):
            if play in by_play:
                found.add(play)
                # Of counts the variance is another one when more is counted at their time.
                counted = "counts" in given and self._counts.get(play) == given["counts"]
                same = same and any(
                    was == y and (counted or np.array_equal(noise, variance, equal_nan=True))
                    for was, noise in by_play[play]
                )
        found |= {play for play in _plays(told.failed) if play in by_play or play in failed}
        if not found:
            return
        plays = row_keys(at_times(told.X, told.t))
        limits = {limit.name: limit for limit in self._recipe.options.limits}
        for outcome, values in given.get("outcomes", {}).items():
            check_outcome(outcome, limits)
            seen = state.outcomes[outcome].rewards
            outcomes = _by_play(seen, seen.y)
            column = as_values(numbers(values), len(plays), outcome, missing=True)
            for play, t, value in zip(plays, told.t, column, strict=True):
                if play in found and t >= until and not np.isnan(value):
                    same = same and [value] in outcomes.get(play, [])
        first = min(map(plays.index, found))
        was = by_play.get(plays[first], [[np.nan]])[-1][0]
        raise ConflictError(
            f"{name(told.X[first])} at {when(float(told.t[first]))} was told already, as {was:g}: "
            "give a key (--key) if another reading is to count beside it, or let `campaign correct` "
            "replace it",
            same=bool(same),
        )


def _plays(plays: Dataset | Plays) -> list[bytes]:
    """Return keys of places and times."""
    return row_keys(at_times(plays.X, plays.t))


def _by_play(plays: Dataset, *columns: Array) -> dict[bytes, list[list[float]]]:
    """Return what was read at each place and time, the latest last."""
    found: dict[bytes, list[list[float]]] = {}
    for play, values in zip(_plays(plays), np.column_stack(columns).tolist(), strict=True):
        found.setdefault(play, []).append(values)
    return found

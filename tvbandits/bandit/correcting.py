"""What was told, to be told again otherwise: readings as one table, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.bandit.told import Record, Told, checked_told, decision_time, values_and_variance
from tvbandits.core.arrays import Array, Index, as_times
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain


class Played(Protocol):
    """What readings are of: a recipe, or what is on record of it."""

    @property
    def domain(self) -> Domain:
        """Where it may play."""
        ...

    @property
    def noise_variance(self) -> float:
        """Of a reading that is told without one of its own."""
        ...


@dataclass(frozen=True)
class ToldReadings:
    """Everything told, with NaN where a point was played without a reading.

    Attributes
    ----------
    X : array of shape (n, d)
    t, y, variance : arrays of shape (n,)
    """

    X: Array
    t: Array
    y: Array
    variance: Array

    @classmethod
    def of(cls, state: Record, noise_variance: float) -> ToldReadings:
        """Of a state; a play without a reading stands behind the rewards of its time."""
        rewards, failed = state.rewards, state.failed
        after = [np.flatnonzero(rewards.t <= t)[-1:] for t in failed.t]
        places = [float(rows[0]) + 0.5 if len(rows) else -0.5 for rows in after]
        order = np.argsort(np.concatenate([np.arange(len(rewards)), places]), kind="stable")
        n = len(failed)
        return cls(
            np.concatenate([rewards.X, failed.X])[order],
            np.concatenate([rewards.t, failed.t])[order],
            np.concatenate([rewards.y, np.full(n, np.nan)])[order],
            np.concatenate([rewards.variance, np.full(n, noise_variance)])[order],
        )

    def rows_of(self, X: Array, t: Array | None) -> Index:
        """The row of each of the points (n, d) at its time, the latest told; each row once.

        Raises
        ------
        ValueError
            If nothing was told there: the message says what was told of the point.
        """
        found: list[int] = []
        for i, x in enumerate(X):
            here = np.flatnonzero((x == self.X).all(axis=1))
            then = here if t is None else here[self.t[here] == t[i]]
            left = [row for row in then.tolist() if row not in found]
            if not left:
                times = ", ".join(f"{each:.15g}" for each in self.t[here][-8:])
                at = "" if t is None else f" at t = {t[i]:.15g}"
                told = f"it was told at t = {times}" if times else "nothing was told of it"
                raise ValueError(f"no reading of {x.tolist()}{at} was told; {told}")
            found.append(left[-1])
        return np.array(found, dtype=np.int64)

    def with_rows(self, rows: Index, **columns: Array) -> ToldReadings:
        """With other values in some rows of some columns."""
        made: dict[str, Any] = {name: getattr(self, name).copy() for name in columns}
        for name, values in columns.items():
            made[name][rows] = values
        return replace(self, **made)

    def without(self, rows: Index) -> ToldReadings:
        """Less some rows."""
        return ToldReadings(*(np.delete(each, rows, axis=0) for each in vars(self).values()))

    def in_turn(self) -> Iterator[Told]:
        """What is told at once: the readings of one time, as far as they follow each other."""
        for rows in np.split(np.arange(len(self.t)), np.flatnonzero(np.diff(self.t)) + 1):
            if len(rows):
                X, t, y, variance = self.X[rows], self.t[rows], self.y[rows], self.variance[rows]
                read = ~np.isnan(y)
                rewards = Observations(X[read], t[read], y[read], variance[read])
                yield Told(X, t, rewards, Plays(X[~read], t[~read]))


def readings_at(
    recipe: Played, state: Record, X: ArrayLike, t: ArrayLike | None
) -> tuple[ToldReadings, Array, Index]:
    """Everything told, the points that are meant, and which rows they are."""
    points = recipe.domain.check(X)
    told = ToldReadings.of(state, recipe.noise_variance)
    times = None if t is None else as_times(t, len(points))
    return told, points, told.rows_of(points, times)


def corrected(
    recipe: Played,
    state: Record,
    X: ArrayLike,
    y: ArrayLike | None,
    t: ArrayLike | None,
    variance: ArrayLike | None,
    to: ArrayLike | None,
) -> ToldReadings:
    """Everything told, with what is right in the place of what was wrong, as `Bandit.correct`."""
    told, points, rows = readings_at(recipe, state, X, t)
    given = told.variance[rows] if variance is None else variance
    right = told.y[rows] if y is None else y
    values, variances = values_and_variance("y", right, len(points), given)
    times = told.t[rows] if to is None else as_times(to, len(points), "to")
    return told.with_rows(rows, t=times, y=values, variance=variances)


def still_out(asked_for: float | None, time: float | None) -> float | None:
    """The time of the decision that is out, unless it has its reward by `time`."""
    return None if asked_for is not None and time is not None and time >= asked_for else asked_for


def told_again(
    recipe: Played, state: Record, X: Array, y: Array, t: Any, variance: Any
) -> tuple[ToldReadings, Index, bool] | None:
    """What is on record of the places and times that are told once more.

    A play without a reading is no obstacle to a reading.

    Returns
    -------
    readings : ToldReadings
    rows : array of shape (k,)
    same : bool
        Whether all of it is told as it is on record.
    """
    asked_for = decision_time(state) if state.asked_for is None else state.asked_for
    noise = recipe.noise_variance
    told = checked_told(recipe.domain, noise, state.pending, asked_for, X, y, t, variance)
    given = np.broadcast_to(noise if variance is None else variance, len(told.t))
    values = np.asarray(y, dtype=np.float64).reshape(-1)
    known = ToldReadings.of(state, noise)
    found: list[int] = []
    same = True
    for i, x in enumerate(told.X):
        there = np.flatnonzero((x == known.X).all(axis=1) & (told.t[i] == known.t))
        read = there if np.isnan(values[i]) else there[~np.isnan(known.y[there])]
        found += read.tolist()[-1:]
        if not np.isnan(values[i]):  # a reading that failed adds nothing where one is on record
            equal = np.array_equal(known.y[read[-1:]], values[[i]])
            same = same and equal and bool(known.variance[read[-1]] == given[i])
    return (known, np.array(found, dtype=np.int64), same) if found else None

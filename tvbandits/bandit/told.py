"""What is told: checked before anything moves, held against predictions, handed to an ensemble.

What was told, to be told again otherwise: readings as one table, in the order in which they came.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import PosteriorInfo, State
from tvbandits.core.arrays import Array, Index, as_times, as_values, as_variances
from tvbandits.core.observations import Observations, Plays, Source
from tvbandits.core.protocols import Domain
from tvbandits.gp.ensemble.rule import EnsemblePosterior, ModelEnsemble
from tvbandits.gp.fitting.calibration import IntervalCalibration
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid


@dataclass(frozen=True)
class Told:
    """Rewards, and points that were played without a reading.

    Attributes
    ----------
    X : array of shape (n, d)
        All points.
    t : array of shape (n,)
    rewards : Observations
    failed : Plays
    """

    X: Array
    t: Array
    rewards: Observations
    failed: Plays

    @property
    def latest(self) -> float:
        """The latest time of all."""
        return float(self.t.max())


def checked_told(
    domain: Domain,
    noise_variance: float,
    pending: Plays,
    asked_for: float,
    X: ArrayLike,
    y: ArrayLike,
    t: ArrayLike | None,
    variance: ArrayLike | None,
) -> Told:
    """What was told, if it can be used.

    Parameters
    ----------
    domain : Domain
    noise_variance : float
        Of a reward told without one of its own.
    pending : Plays
        A point of these is told at the time it was asked for, if no time is given.
    asked_for : float
        The time of all other points then.
    X, y, t, variance
        As `Bandit.tell` takes them.

    Raises
    ------
    ValueError
        If something has no form that can be used.
    """
    points = domain.check(X)
    n = len(points)
    if n == 0:
        raise ValueError(f"X must have at least one point, got shape {points.shape}")
    rewards, variances = values_and_variance("y", zero_or_one(y), n, variance, noise_variance)
    times = _times_asked(pending, points, asked_for) if t is None else as_times(t, n)
    read = ~np.isnan(rewards)
    told = Observations.checked(points[read], times[read], rewards[read], variances[read])
    return Told(points, times, told, Plays(points[~read], times[~read]))


def zero_or_one(y: Any) -> Any:
    """Rewards with the truth values among them as numbers: what converted is 1, what did not is 0."""
    if isinstance(y, list | tuple):
        return [float(each) if isinstance(each, bool | np.bool_) else each for each in y]
    kind = getattr(y, "dtype", None)
    if isinstance(kind, pd.BooleanDtype):
        return y.to_numpy(dtype=np.float64, na_value=np.nan)
    plain = isinstance(y, bool) or (kind == np.dtype(bool) and not np.ma.isMaskedArray(y))
    return np.asarray(y, dtype=np.float64) if plain else y


def checked_answers(
    recipe: Recipe, X: ArrayLike, values: ArrayLike, t: float, variance: ArrayLike | None
) -> tuple[Observations, int]:
    """Answers about one time, and how many of them are none.

    Raises
    ------
    ValueError
        If something has no form that can be used.
    """
    points = recipe.domain.check(X)
    n = len(points)
    said, variances = values_and_variance("values", values, n, variance, recipe.noise_variance)
    has = ~np.isnan(said)
    columns = points[has], np.full(int(has.sum()), t), said[has], variances[has]
    return Observations.checked(*columns, Source.EXPERT), int((~has).sum())


def values_and_variance(
    name: str, values: ArrayLike, n: int, variance: ArrayLike | None, otherwise: float
) -> tuple[Array, Array]:
    """Columns (n,) of values, of which NaN is allowed, and of positive variances, or a usual one."""
    # One number for several points would be one reading told as many.
    if n != 1 and np.ndim(values) == 0:
        as_values(values, 1, name, missing=True)
        raise ValueError(f"{name} must have shape ({n},), got ()")
    column = as_values(values, n, name, missing=True)
    return column, np.full(n, float(otherwise)) if variance is None else as_variances(variance, n)


def _times_asked(pending: Plays, points: Array, otherwise: float) -> Array:
    """The times that points were asked for."""
    times = np.full(len(points), otherwise)
    for i, row in enumerate(pending.rows_of(points)):
        if row is not None:
            times[i] = pending.t[row]
    return times


def visited_with(visited: Array, X: Array) -> Array:
    """`visited` and those rows of `X` that are not in it, each once, in their order."""
    # A long batch repeats few points: each of them is looked for once.
    _, first = np.unique(X, axis=0, return_index=True)
    for x in X[np.sort(first)]:
        if not (visited == x).all(axis=1).any():
            visited = np.concatenate([visited, x[None, :]])
    visited.setflags(write=False)
    return visited


Expected = Callable[[State, Array, float], tuple[State, Array, Array]]
"""A state as it speaks about a time, and what it says of points (n, d): mean and deviation."""

Errors = Callable[[State, Observations], tuple[Array, Array]]
"""Errors (n,) of rewards against what all that was told before each says of it, and their variances."""

MANY_LATE = 8
"""From so many late rewards on, what is said of them is taken from their joint distribution."""


def calibrated(
    recipe: Recipe,
    state: State,
    told: Observations,
    expected: Expected,
    errors_of: Errors | None = None,
) -> IntervalCalibration:
    """How well the deviations of a learned kernel hold, once more rewards are told.

    Each is held against what is said of its own time by all that was told before it, late or not: how
    many are told at once does not matter. One where the last one was says little (see
    `IntervalCalibration`),
    and before the first fit there is nothing to watch.

    A late reward takes a filter back to its time: of many, `errors_of` says at once what `expected` says
    one by one, to rounding.
    """
    known, learned = state.calibration, state.model.learned
    if recipe.learn is None or learned is None or learned.fits == 0:
        return known
    X = np.concatenate([state.rewards.X[-1:], told.X])
    changed = np.flatnonzero((X[1:] != X[:-1]).any(axis=1)).tolist()
    late = 0 if state.time is None else int((told.t < state.time).sum())
    if late >= MANY_LATE and errors_of is not None:
        errors, variances = errors_of(state, told)
        for i in changed:
            known = known.after(float(errors[i]), float(variances[i]))
        return known
    sign, count = -1.0 if recipe.minimise else 1.0, 0
    for i in changed:
        more = told.take(slice(count, i))
        if len(more):
            times = more.t if state.time is None else np.append(more.t, state.time)
            state = replace(state, rewards=state.rewards.append(more), time=float(times.max()))
        # Each goes on from the one before: the time taken would be the square of their number.
        state, mean, deviation = expected(state, told.X[i : i + 1], float(told.t[i]))
        count = i
        error = sign * float(told.y[i]) - float(mean[0])
        known = known.after(error, float(deviation[0]) ** 2 + float(told.variance[i]))
    return known


def told_to_bank(recipe: Recipe, state: State, surface: CandidateGrid | None, now: float) -> State:
    """The state with its bank told what it does not know yet, speaking about the time `now`.

    An ensemble of another rule, noise variance or sign starts again from everything that was told.
    """
    rule, started = recipe.posterior, time.perf_counter()
    assert isinstance(rule, ModelEnsemble)  # only an ensemble is told
    assert surface is not None  # and it is for candidates alone
    sign, known = -1.0 if recipe.minimise else 1.0, state.posterior
    made_for = (rule, recipe.noise_variance, sign)
    if not isinstance(known, EnsemblePosterior) or known.made_for != made_for:
        known = rule.start(state.model.kernel, surface, *made_for[1:])
    told = zip((state.rewards, state.answers), known.told, strict=True)
    rewards, answers = (each.take(slice(count, None)) for each, count in told)
    if sign < 0:
        rewards, answers = (replace(each, y=-each.y) for each in (rewards, answers))
    posterior = known.observed(rewards, answers, now)
    count = len(state.rewards) + len(state.answers)
    info = replace(
        state.info,
        posterior=PosteriorInfo(count, 0, float(count), math.nan),
        model=replace(
            state.info.model,
            centre=sign * posterior.bank.origin,
            scale=posterior.scale,
            white=math.sqrt(posterior.white),
            members=posterior.heaviest,
            widening=posterior.bank.widening,
        ),
        seconds={"posterior": time.perf_counter() - started},
    )
    return replace(state, posterior=posterior, info=info)


# --- to be told again otherwise ---------------------------------------------------------------------


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
    def of(cls, state: State, noise_variance: float) -> ToldReadings:
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
    recipe: Recipe, state: State, X: ArrayLike, t: ArrayLike | None
) -> tuple[ToldReadings, Array, Index]:
    """Everything told, the points that are meant, and which rows they are."""
    points = recipe.domain.check(X)
    told = ToldReadings.of(state, recipe.noise_variance)
    times = None if t is None else as_times(t, len(points))
    return told, points, told.rows_of(points, times)


def told_again(
    recipe: Recipe, state: State, X: Array, y: Array, t: Any, variance: Any
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
    now = 1.0 if state.time is None else state.time + 1.0
    asked_for = now if state.asked_for is None else state.asked_for
    noise, out = recipe.noise_variance, state.pending
    told = checked_told(recipe.domain, noise, out, asked_for, X, y, t, variance)
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

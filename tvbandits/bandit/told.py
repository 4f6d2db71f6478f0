"""What is told: checked before anything moves, noted, held against predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.core.arrays import Array, as_times, as_values, as_variances
from tvbandits.core.coercion import is_of
from tvbandits.core.observations import Observations, Plays, Source
from tvbandits.core.protocols import Domain

if TYPE_CHECKING:
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State
    from tvbandits.gp.fitting.calibration import IntervalCalibration


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


class Record(Protocol):
    """What is on record before a tell: a bandit's state, or what a journal says of it."""

    @property
    def rewards(self) -> Observations:
        """Told."""
        ...

    @property
    def failed(self) -> Plays:
        """Played without a reading."""
        ...

    @property
    def pending(self) -> Plays:
        """Asked and not told."""
        ...

    @property
    def time(self) -> float | None:
        """The latest time told."""
        ...

    @property
    def asked_for(self) -> float | None:
        """The time of the decision that is still out."""
        ...


def noted(before: Record, told: Told) -> dict[str, Any]:
    """What a tell changes of what is on record."""
    # A late reward does not take the time of the decision that is still out.
    out = before.asked_for is not None and told.latest < before.asked_for
    failed = before.failed.replaced_by(told.rewards.X, told.rewards.t)
    return {
        "rewards": before.rewards.append(told.rewards),
        "failed": failed.append(told.failed.X, told.failed.t),
        "pending": before.pending.without(told.X, told.t),
        "time": told.latest if before.time is None else max(before.time, told.latest),
        "asked_for": before.asked_for if out else None,
    }


def decision_time(before: Record) -> float:
    """The time of the next decision, if nobody says another."""
    return 1.0 if before.time is None else before.time + 1.0


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
    rewards, variances = values_and_variance(
        "y", zero_or_one(y), n, noise_variance if variance is None else variance
    )
    times = as_times(_times_asked(pending, points, asked_for) if t is None else t, n)
    read = ~np.isnan(rewards)
    told = Observations(points[read], times[read], rewards[read], variances[read])
    return Told(points, times, told, Plays(points[~read], times[~read]))


def zero_or_one(y: Any) -> Any:
    """Rewards with the truth values among them as numbers: what converted is 1, what did not is 0."""
    if isinstance(y, list | tuple):
        return [float(each) if isinstance(each, bool | np.bool_) else each for each in y]
    kind = getattr(y, "dtype", None)
    if is_of(kind, "pandas", "BooleanDtype"):
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
    said, variances = values_and_variance(
        "values", values, n, recipe.noise_variance if variance is None else variance
    )
    has = ~np.isnan(said)
    k = int(has.sum())
    source = np.full(k, Source.EXPERT, dtype=np.uint8)
    return Observations(points[has], np.full(k, t), said[has], variances[has], source), n - k


class Keeping(Protocol):
    """How many answers are kept: an `Asking`, or what is on record of it."""

    @property
    def reuse_answers(self) -> bool:
        """Whether answers stay when others come."""
        ...

    @property
    def most_answers(self) -> int | None:
        """How many at the most."""
        ...


def kept_answers(
    asking: Keeping,
    before: Observations,
    since: tuple[int, int],
    fresh: Observations,
    replaces: bool,
) -> tuple[Observations, tuple[int, int]]:
    """The answers to keep when others come, and what an event has made forgotten of them.

    Where answers are not reused, those of a query replace those before it. Answers that are brought in
    parts replace those about earlier times.
    """
    rewards, forgotten = since
    if not asking.reuse_answers:
        if replaces:
            return fresh, (rewards, 0)
        if len(fresh) and (before.t < fresh.t[0]).any():
            newest = before.t >= fresh.t.max()
            forgotten = int(newest[:forgotten].sum())
            before = before.take(newest)
    answers = before.append(fresh)
    surplus = len(answers) - (asking.most_answers or len(answers))
    if surplus <= 0:
        return answers, (rewards, forgotten)
    return answers.take(slice(surplus, None)), (rewards, max(forgotten - surplus, 0))


def values_and_variance(
    name: str, values: ArrayLike, n: int, variance: ArrayLike
) -> tuple[Array, Array]:
    """Columns (n,) of values, of which NaN is allowed, and of positive variances."""
    # One number for several points would be one reading told as many.
    if n != 1 and np.ndim(values) == 0:
        as_values(values, 1, name, missing=True)
        raise ValueError(f"{name} must have shape ({n},), got ()")
    column = as_values(values, n, name, missing=True)
    return column, as_variances(variance, n)


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


Expected: TypeAlias = "Callable[[State, Array, float], tuple[State, Array, Array]]"
"""A state as it speaks about a time, and what it says of points (n, d): mean and deviation."""


def calibrated(
    recipe: Recipe, state: State, told: Observations, expected: Expected
) -> IntervalCalibration:
    """How well the deviations of a learned kernel hold, once more rewards are told.

    Each is held against what is said of its own time by all that was told before it, late or not: how
    many are told at once does not matter. One where the last one was says little (see
    `IntervalCalibration`),
    and before the first fit there is nothing to watch.
    """
    known, learned = state.calibration, state.model.learned
    if recipe.learn is None or learned is None or learned.fits == 0:
        return known
    X = np.concatenate([state.rewards.X[-1:], told.X])
    sign, count = -1.0 if recipe.minimise else 1.0, 0
    for i in np.flatnonzero((X[1:] != X[:-1]).any(axis=1)).tolist():
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

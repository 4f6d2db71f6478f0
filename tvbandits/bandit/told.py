"""What is told: checked before anything moves, held against predictions, and what becomes of a state.

What was told, to be told again otherwise: readings as one table, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.arrays import row_keys
from tvbandits.counts import Counted, with_variance
from tvbandits.data import Dataset, Record, Told, answers_of, changed
from tvbandits.domains.domain import Domain
from tvbandits.errors import PlayError
from tvbandits.validation import Array, Index, as_times, as_values, as_variances, is_of

if TYPE_CHECKING:
    from tvbandits.bandit.inference import Model
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State
    from tvbandits.gp.fitting.calibration import IntervalCalibration


def told_next(
    recipe: DomainAndNoise,
    before: Record,
    X: Any,
    y: ArrayLike | Counted,
    t: ArrayLike | None,
    variance: ArrayLike | None,
) -> Told:
    """What is told after all that is on record, if it can be used.

    A point that is pending is told at the time it was asked for, if no time is given; another one at
    that of the decision that is out, or else of the next.

    Raises
    ------
    ValueError
        If something has no form that can be used.
    """
    points = recipe.domain.check(X)
    n = len(points)
    if n == 0:
        raise ValueError(f"X must have at least one point, got shape {points.shape}")
    rewards, variances = values_and_variance("y", y, n, variance, recipe.noise_variance)
    if t is not None:
        return Told.of(points, as_times(t, n), rewards, variances)
    usual = before.decision_time if before.asked_for is None else before.asked_for
    asked = before.pending.rows_of(points)
    times = np.array([usual if row is None else before.pending.t[row] for row in asked])
    return Told.of(points, times, rewards, variances)


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
    recipe: Recipe, X: Any, values: ArrayLike, t: float, variance: ArrayLike | None
) -> tuple[Dataset, int]:
    """Answers about one time, and how many of them are none.

    Raises
    ------
    ValueError
        If something has no form that can be used.
    """
    points = recipe.domain.check(X)
    usual = recipe.noise_variance
    said, variances = values_and_variance("values", values, len(points), variance, usual)
    fresh = answers_of(points, t, said, variances)
    return fresh, len(points) - len(fresh)


def kept_answers(
    rule: tuple[bool, int | None],
    before: Dataset,
    since: tuple[int, int],
    fresh: Dataset,
    replaces: bool,
) -> tuple[Dataset, tuple[int, int]]:
    """The answers to keep when others come, and what an event has made forgotten of them.

    Where answers are not reused, those of a query replace those before it. Answers that are brought in
    parts replace those about earlier times.
    """
    (reuses, most), (rewards, forgotten) = rule, since
    if not reuses:
        if replaces:
            return fresh, (rewards, 0)
        if len(fresh) and (before.t < fresh.t[0]).any():
            newest = before.t >= fresh.t.max()
            forgotten = int(newest[:forgotten].sum())
            before = before.take(newest)
    answers = before.append(fresh)
    surplus = len(answers) - (most or len(answers))
    if surplus <= 0:
        return answers, (rewards, forgotten)
    return answers.take(slice(surplus, None)), (rewards, max(forgotten - surplus, 0))


def values_and_variance(
    name: str, values: Any, n: int, variance: ArrayLike | None, otherwise: float | None
) -> tuple[Array, Array]:
    """Columns (n,) of values, of which NaN is allowed, and of positive variances, or a usual one."""
    if isinstance(values, Counted):
        values, variance = with_variance(values, variance)
    elif type(values) is not np.ndarray or values.dtype != np.float64:
        values = zero_or_one(values)
    # One number for several points would be one reading told as many.
    if n != 1 and np.ndim(values) == 0:
        as_values(values, 1, name, missing=True)
        raise ValueError(f"{name} must have shape ({n},), got ()")
    column = as_values(values, n, name, missing=True)
    own = (
        usual_variance(n, otherwise)
        if variance is None
        else as_variances(variance, n, "noise_variance")
    )
    return column, own


def usual_variance(n: int, noise_variance: float | None) -> Array:
    """The variance of n readings without one of their own: NaN where it is learned."""
    return np.full(n, np.nan if noise_variance is None else float(noise_variance))


def visited_with(visited: Array, X: Array) -> Array:
    """`visited` and those rows of `X` that are not in it, each once, in their order."""
    if len(X) == 1:
        unseen = X[:0] if np.count_nonzero((visited == X[0]).all(axis=1)) else X
    else:  # by key: comparing all pairs of rows would take the square of their number
        seen = set(row_keys(visited))
        first: dict[bytes, int] = {}
        for i, key in enumerate(row_keys(X)):
            if key not in seen:
                first.setdefault(key, i)
        unseen = X[list(first.values())]
    if len(unseen):
        visited = np.concatenate([visited, unseen])
    visited.setflags(write=False)
    return visited


# So many late rewards at once are history that is brought in, and no test of what is said.
MANY_LATE = 8


def calibrated(model: Model, state: State, told: Dataset) -> IntervalCalibration:
    """How well the deviations of a learned kernel hold, once more rewards are told.

    Each is held against what is said of its own time by all that was told before it, late or not: how
    many are told at once does not matter. One where the last one was says little (see
    `IntervalCalibration`),
    and before the first fit there is nothing to watch.

    A late reward takes a filter back to its time: many at once are not held against anything.
    """
    recipe, known, learned = model.recipe, state.calibration, state.model.learned
    if recipe.learn is None or learned is None or learned.fits == 0:
        return known
    X = np.concatenate([state.rewards.X[-1:], told.X])
    elsewhere = np.flatnonzero((X[1:] != X[:-1]).any(axis=1)).tolist()
    late = 0 if state.time is None else int((told.t < state.time).sum())
    if late >= MANY_LATE:
        return known
    sign, count = -1.0 if recipe.minimize else 1.0, 0
    for i in elsewhere:
        more = told.take(slice(count, i))
        if len(more):
            times = more.t if state.time is None else np.append(more.t, state.time)
            state = replace(state, rewards=state.rewards.append(more), time=float(times.max()))
        # Each goes on from the one before: the time taken would be the square of their number.
        state, mean, deviation = model.expected(state, told.X[i : i + 1], float(told.t[i]))
        count = i
        error = sign * float(told.y[i]) - float(mean[0])
        known = known.after(error, float(deviation[0]) ** 2 + float(told.variance[i]))
    return known


def with_rewards(model: Model, state: State, told: Told, rng: np.random.Generator) -> State:
    """The state once it knows what was told."""
    recipe, every = model.recipe, told.rewards
    if recipe.options.robust:
        from tvbandits.bandit.outliers import set_aside

        state, told = set_aside(model, state, told)
    calibration, spent = state.calibration, state.spent
    if state.model.learned is not None or model.counts_spent or recipe.reset is not None:
        rewards = model.known(state, told.rewards)
        calibration = calibrated(model, state, rewards)
        spent += model.information(state, rewards)
        state = model.reset_at_events(state, rewards, rng)
    questions = state.questions
    visited = visited_with(state.visited, told.X)
    known = state.noted(told)
    if len(every.t) > len(told.rewards.t):  # nobody has to read the outliers once more
        failed = state.failed.replaced_by(every.X, every.t)
        known["failed"] = failed.append(told.failed.X, told.failed.t)
    if recipe.asking is not None:
        due = questions.due or recipe.consult == "before ask"
        questions = changed(questions, pool=model.members(state, visited), due=due)
    gone, outliers = state.gone, 0 if state.outliers is None else len(state.outliers)
    count = gone.rewards + len(known["rewards"].t) + outliers
    missed = gone.failed + len(known["failed"].t)
    info = changed(state.info, told=count, failed=missed, outliers=outliers)
    known |= {"visited": visited, "spent": spent, "calibration": calibration, "info": info}
    made = changed(state, questions=questions, **known)
    if recipe.learn is not None or made.model.noise is not None:
        made = model.learned(made, state.told)
    if recipe.options.max_history is not None:
        made = model.trimmed(made, state.told)
    return made


# --- to be told again otherwise ---------------------------------------------------------------------


class DomainAndNoise(Protocol):
    """What readings are of: a recipe, or what is on record of it."""

    @property
    def domain(self) -> Domain:
        """Where it may play."""

    @property
    def noise_variance(self) -> float | None:
        """Of a reading that is told without one of its own."""


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
    def of(cls, state: Record, noise_variance: float | None) -> ToldReadings:
        """Of a state; a play without a reading stands behind the rewards of its time."""
        rewards, failed = state.readings.with_noise(noise_variance), state.failed
        n = len(failed)
        noise = usual_variance(n, noise_variance)
        known = cls(rewards.X, rewards.t, rewards.y, rewards.variance)
        return known.with_others(failed.X, failed.t, np.full(n, np.nan), noise)

    def with_others(self, *columns: Array) -> ToldReadings:
        """With others (X, t, y, variance), each behind those of its time."""
        after = [np.flatnonzero(self.t <= t)[-1:] for t in columns[1]]
        places = [float(rows[0]) + 0.5 if len(rows) else -0.5 for rows in after]
        order = np.argsort(np.concatenate([np.arange(len(self.t)), places]), kind="stable")
        pairs = zip(vars(self).values(), columns, strict=True)
        return ToldReadings(*(np.concatenate(pair)[order] for pair in pairs))

    def found(self, X: Array, t: Array | None) -> Index:
        """The row of each of the points (n, d) at its time, the latest told; each row once; -1: none."""
        rows = np.full(len(X), -1)
        for i, x in enumerate(X):
            there = (x == self.X).all(axis=1) & (True if t is None else self.t == t[i])
            there[rows[rows >= 0]] = False
            rows[i] = max(np.flatnonzero(there), default=-1)
        return rows

    def rows_of(self, X: Array, t: Array | None) -> Index:
        """As `found`, of all of them.

        Raises
        ------
        ValueError
            If nothing was told there: the message says what was told of the point.
        """
        rows = self.found(X, t)
        if rows.min(initial=0) < 0:
            i = int(rows.argmin())
            times = self.t[(X[i] == self.X).all(axis=1)][-8:].tolist()
            said = {f"t{k}": each for k, each in enumerate(times)}
            listed = ", ".join(f"{{{name}}}" for name in said)
            told = f"it was told at {listed}" if said else "nothing was told of it"
            at = "" if t is None else " at {t}"
            said |= {} if t is None else {"t": float(t[i])}
            raise PlayError(f"no reading of {{point}}{at} was told; {told}", point=X[i], **said)
        return rows

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
                yield Told.of(self.X[rows], self.t[rows], self.y[rows], self.variance[rows])


def readings_at(
    recipe: DomainAndNoise, state: Record, X: ArrayLike, t: ArrayLike | None
) -> tuple[ToldReadings, Array, Index]:
    """Everything told, the points that are meant, and which rows they are."""
    points = recipe.domain.check(X)
    told = ToldReadings.of(state, recipe.noise_variance)
    times = None if t is None else as_times(t, len(points))
    try:
        return told, points, told.rows_of(points, times)
    except PlayError as error:
        gone = state.gone
        if not gone.rewards:
            raise
        left = "{gone} rewards from before {until} have left the history"
        said = error.values | {"gone": gone.rewards, "until": gone.until}
        raise PlayError(f"{error.sentence}; {left}", **said) from error


def corrected(
    recipe: DomainAndNoise,
    state: Record,
    X: ArrayLike,
    y: ArrayLike | Counted | None,
    t: ArrayLike | None,
    variance: ArrayLike | None,
    to: ArrayLike | None,
) -> tuple[ToldReadings, ToldReadings, Array, Index]:
    """Everything told, and with what is right in the place of what was wrong, as `Bandit.correct`.

    And the points that are meant, and which rows they are.
    """
    count = len(recipe.domain.check(X))  # what is wrong with the rest is said first
    given = np.zeros(count) if y is None else y
    values, variances = values_and_variance("y", given, count, variance, recipe.noise_variance)
    told, points, rows = readings_at(recipe, state, X, t)
    values = told.y[rows] if y is None else values
    keeps = variance is None and not isinstance(y, Counted)
    variances = told.variance[rows] if keeps else variances
    times = told.t[rows] if to is None else as_times(to, len(points), "to")
    return told, told.with_rows(rows, t=times, y=values, variance=variances), points, rows


def still_out(asked_for: float | None, time: float | None) -> float | None:
    """The time of the decision that is out, unless it has its reward by `time`."""
    return None if asked_for is not None and time is not None and time >= asked_for else asked_for

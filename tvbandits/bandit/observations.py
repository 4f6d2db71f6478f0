"""Check what a user tells of rewards and answers, before anything changes; and readings as a table.

What was read so far may also show a person that a run is lost (`find_signs_of_trouble`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.counts import Counted, estimate_proportion_variances, split_variance
from tvbandits.data import Dataset, NewObservations, Plays, Record, Source, make_answers, row_keys
from tvbandits.domains.domain import Domain
from tvbandits.errors import PlayError
from tvbandits.validation import (
    Array,
    Index,
    as_time,
    as_times,
    as_values,
    as_variances,
    describe,
    is_library_instance,
)


class DomainAndNoise(Protocol):
    """What readings are of: a recipe, or what is on record of it."""

    @property
    def domain(self) -> Domain:
        """Where it may play."""

    @property
    def noise_variance(self) -> float | None:
        """Noise variance of a reading that is told without one of its own."""


class ObservationHistory(Protocol):
    """What was observed before: a state, or a record of a campaign."""

    @property
    def readings(self) -> Dataset:
        """All rewards in the order they were told."""

    @property
    def failed(self) -> Plays:
        """Points that were played without a reading."""

    @property
    def expired(self) -> Any:
        """What has left the history."""


def validate_observations(
    recipe: DomainAndNoise,
    record: Record,
    X: Any,
    y: ArrayLike | Counted,
    t: ArrayLike | None,
    noise_variance: ArrayLike | None,
) -> NewObservations:
    """Return what is told after all that is on record, if it can be used.

    A point that is pending is told at the time it was asked for, if no time is given; another one at
    that of the decision that waits for its reward, or else of the next.

    Raises
    ------
    ValueError
        If something has no form that can be used, or plain numbers, shares of trials and counts of
        events are mixed.
    """
    points = recipe.domain.check(X)
    n = len(points)
    if n == 0:
        raise ValueError(f"X must have at least one point, got shape {points.shape}")
    rewards, variances = check_values_and_variance("y", y, n, noise_variance, recipe.noise_variance)
    trials = get_trials(y, n)
    refuse_mixture(points, rewards, trials, record.rewards.trials[-1:])
    if t is not None:
        return NewObservations.from_columns(points, as_times(t, n), rewards, variances, trials)
    usual = record.decision_time if record.pending_time is None else record.pending_time
    rows = record.pending.find_rows(points)
    times = np.array([usual if row is None else record.pending.t[row] for row in rows])
    return NewObservations.from_columns(points, times, rewards, variances, trials)


def convert_booleans(y: Any) -> Any:
    """Return rewards with truth values as numbers: what converted is 1, what did not is 0."""
    if isinstance(y, list | tuple):
        return [float(each) if isinstance(each, bool | np.bool_) else each for each in y]
    kind = getattr(y, "dtype", None)
    if is_library_instance(kind, "pandas", "BooleanDtype"):
        return y.to_numpy(dtype=np.float64, na_value=np.nan)
    plain = isinstance(y, bool) or (kind == np.dtype(bool) and not np.ma.isMaskedArray(y))
    return np.asarray(y, dtype=np.float64) if plain else y


def validate_answers(
    recipe: DomainAndNoise, X: Any, values: ArrayLike, t: float, noise_variance: ArrayLike | None
) -> tuple[Dataset, int]:
    """Return answers about one time, and how many points have none.

    Raises
    ------
    ValueError
        If something has no form that can be used.
    """
    points = recipe.domain.check(X)
    usual = recipe.noise_variance
    column, variances = check_values_and_variance(
        "values", values, len(points), noise_variance, usual
    )
    answers = make_answers(points, t, column, variances)
    return answers, len(points) - len(answers)


def replace_answers(
    recipe: DomainAndNoise,
    answers: Dataset,
    X: Any,
    values: ArrayLike,
    t: float | None,
    noise_variance: ArrayLike | None,
) -> tuple[Dataset, Index]:
    """Return answers with right values (NaN: without them) in the place of wrong ones, and their rows.

    Raises
    ------
    ValueError
        If something has no form that can be used, or there is no answer about a point.
    """
    points = recipe.domain.check(X)
    times = None if t is None else np.full(len(points), as_time(t))
    column, variances = check_values_and_variance(
        "values", values, len(points), noise_variance, None
    )
    rows = ReadingTable.from_dataset(answers).find(points, times)
    if rows.min(initial=0) < 0:
        texts = "there is no answer about {point}%s", "there are some at", "there are none about it"
        raise _make_missing_row_error(answers, points[int(rows.argmin())], t, *texts)
    y, variance = answers.y.copy(), answers.variance.copy()
    y[rows] = column
    if noise_variance is not None:
        variance[rows] = variances
    kept = ~np.isnan(y)
    X, about = answers.X[kept], answers.t[kept]
    return Dataset.from_columns(X, about, y[kept], variance[kept], Source.EXPERT), rows


def _make_missing_row_error(
    rows: Dataset | ReadingTable, point: Array, t: float | None, what: str, some: str, none: str
) -> PlayError:
    """Return the error of a row that is not there; it says which times there are of the point."""
    times = rows.t[(point == rows.X).all(axis=1)][-8:].tolist()
    values: dict[str, Any] = {f"t{k}": each for k, each in enumerate(times)}
    others = f"{some} {', '.join(f'{{{name}}}' for name in values)}" if values else none
    at = "" if t is None else " at {t}"
    values |= {} if t is None else {"t": float(t)}
    return PlayError(f"{what % at}; {others}", point=point, **values)


def check_values_and_variance(
    name: str, values: Any, n: int, variance: ArrayLike | None, otherwise: float | None
) -> tuple[Array, Array]:
    """Return columns (n,) of values, which may be NaN, and of positive variances, or a usual one."""
    if isinstance(values, Counted):
        values, variance = split_variance(values, variance)
    elif type(values) is not np.ndarray or values.dtype != np.float64:
        values = convert_booleans(values)
    column = as_values(values, n, name, missing=True)
    # One number for several points would be one reading told as many.
    if n != 1 and np.ndim(values) == 0:
        raise ValueError(f"{name} must have shape ({n},), got ()")
    own = (
        fill_variance(n, otherwise)
        if variance is None
        else as_variances(variance, n, "noise_variance")
    )
    return column, own


def get_trials(y: object, n: int) -> Array:
    """Return the trials (n,) that readings are shares of; 0: measured; infinite: events."""
    return y.trials if isinstance(y, Counted) else np.zeros(n)


# What is told of each kind of reading, as a text says it of one and of others, and how to tell it.
KINDS = {
    "measured": ("a plain number", "plain numbers", ""),
    "share": (
        "a share of {trials} trials",
        "shares of trials",
        "its successes and trials, as by rate(successes, trials)",
    ),
    "events": (
        "a count of events",
        "counts of events",
        "its events and exposure, as by count(events, exposure)",
    ),
}


def _classify_trials(trials: Array) -> list[str]:
    """Return the kind of each reading (n,) of so many trials."""
    return ["measured" if n == 0 else "share" if math.isfinite(n) else "events" for n in trials]


def refuse_mixture(X: Array, y: Array, trials: Array, others: Array) -> None:
    """Raise a `PlayError` about a reading of another kind than the others.

    Plain numbers, shares of trials and counts of events are different rewards.

    Parameters
    ----------
    X : array of shape (n, d)
    y, trials : arrays of shape (n,)
        What is told of these points.
    others : array of shape (m,)
        The trials of other readings.
    """
    rows = np.flatnonzero(~np.isnan(y))
    if len(rows) == 0 or len(others) == 0:
        return
    row = int(rows[0])
    (kind,), before = _classify_trials(trials[row : row + 1]), _classify_trials(others)
    if kind in before:
        return
    usual = before[-1]
    remedy = f"tell {KINDS[usual][2]}"
    if usual == "measured":
        parts = "successes and trials" if kind == "share" else "events and exposure"
        remedy = f"tell it as one, or correct those to {parts} first, all at once"
    where = "row {row}: " if len(X) > 1 else ""
    text = f"{{value}} is {KINDS[kind][0]}, but the other readings are {KINDS[usual][1]}: {remedy}"
    raise PlayError(
        f"{where}{{point}}: {text}",
        row=row,
        point=X[row],
        value=f"{y[row]:g}",
        trials=f"{trials[row]:g}",
    )


def fill_variance(n: int, noise_variance: float | None) -> Array:
    """Return the variance of n readings without one of their own: NaN where it is learned."""
    return np.full(n, np.nan if noise_variance is None else float(noise_variance))


def append_visited(visited: Array, X: Array) -> Array:
    """Return `visited` and those rows of `X` that are not in it, each once, in their order."""
    if len(X) == 1:
        fresh = X[:0] if np.count_nonzero((visited == X[0]).all(axis=1)) else X
    else:  # by key: comparing all pairs of rows would take the square of their number
        before = set(row_keys(visited))
        first: dict[bytes, int] = {}
        for i, key in enumerate(row_keys(X)):
            if key not in before:
                first.setdefault(key, i)
        fresh = X[list(first.values())]
    if len(fresh):
        visited = np.concatenate([visited, fresh])
    visited.setflags(write=False)
    return visited


# --- readings that are told again --------------------------------------------------------------------


@dataclass(frozen=True)
class ReadingTable:
    """Everything told, in the order it came, with NaN where a point was played without a reading.

    Attributes
    ----------
    X : array of shape (n, d)
    t, y, variance, trials : arrays of shape (n,)
    """

    X: Array
    t: Array
    y: Array
    variance: Array
    trials: Array

    @classmethod
    def from_history(
        cls, history: ObservationHistory, noise_variance: float | None
    ) -> ReadingTable:
        """Return the table of a state; plays without a reading come after the rewards of their time."""
        rewards, failed = history.readings.with_noise(noise_variance), history.failed
        n = len(failed)
        noise = fill_variance(n, noise_variance)
        return cls.from_dataset(rewards).insert(
            failed.X, failed.t, np.full(n, np.nan), noise, np.zeros(n)
        )

    @classmethod
    def from_dataset(cls, data: Dataset) -> ReadingTable:
        """Return the table of some observations."""
        return cls(data.X, data.t, data.y, data.variance, data.trials)

    def insert(self, *columns: Array) -> ReadingTable:
        """Return the table with other rows, of all columns, each behind those of its time."""
        after = [np.flatnonzero(self.t <= t)[-1:] for t in columns[1]]
        places = [float(rows[0]) + 0.5 if len(rows) else -0.5 for rows in after]
        order = np.argsort(np.concatenate([np.arange(len(self.t)), places]), kind="stable")
        pairs = zip(vars(self).values(), columns, strict=True)
        return ReadingTable(*(np.concatenate(pair)[order] for pair in pairs))

    def find(self, X: Array, t: Array | None) -> Index:
        """Return the row of each point (n, d) at its time, the latest told; each row once; -1: none."""
        rows = np.full(len(X), -1)
        for i, x in enumerate(X):
            there = (x == self.X).all(axis=1) & (True if t is None else self.t == t[i])
            there[rows[rows >= 0]] = False
            rows[i] = max(np.flatnonzero(there), default=-1)
        return rows

    def find_all(self, X: Array, t: Array | None) -> Index:
        """Return the rows as `find` does, of all points.

        Raises
        ------
        PlayError
            If nothing was told there: the message says what was told of the point.
        """
        rows = self.find(X, t)
        if rows.min(initial=0) < 0:
            i = int(rows.argmin())
            time = None if t is None else float(t[i])
            texts = "no reading of {point}%s was told", "it was told at", "nothing was told of it"
            raise _make_missing_row_error(self, X[i], time, *texts)
        return rows

    def replace_rows(self, rows: Index, **columns: Array) -> ReadingTable:
        """Return the table with other values in some rows of some columns."""
        parts: dict[str, Any] = {name: getattr(self, name).copy() for name in columns}
        for name, values in columns.items():
            parts[name][rows] = values
        return replace(self, **parts)

    def without(self, rows: Index) -> ReadingTable:
        """Return the table less some rows."""
        return ReadingTable(*(np.delete(each, rows, axis=0) for each in vars(self).values()))

    def split_by_time(self) -> Iterator[NewObservations]:
        """Yield what is told at once: the readings of one time, as far as they follow each other."""
        for rows in np.split(np.arange(len(self.t)), np.flatnonzero(np.diff(self.t)) + 1):
            if len(rows):
                yield NewObservations.from_columns(*(each[rows] for each in vars(self).values()))


@dataclass(frozen=True)
class Correction:
    """Readings that are told again.

    Attributes
    ----------
    before, after : ReadingTable
        Everything told, and with what is right in the place of what was wrong.
    points : array of shape (n, d)
        What is corrected.
    rows : integer array of shape (n,)
        Its rows.
    """

    before: ReadingTable
    after: ReadingTable
    points: Array
    rows: Index

    @property
    def old_times(self) -> Array:
        """The times (n,) at which they were told."""
        return self.before.t[self.rows]

    @property
    def new_times(self) -> Array:
        """The right times (n,)."""
        return self.after.t[self.rows]

    @property
    def rest(self) -> ReadingTable:
        """Everything told but these readings, as if they had never been told."""
        nothing = np.full(len(self.rows), np.nan)
        after = self.before.replace_rows(self.rows, y=nothing)
        return _with_shared_mean(self.before, after, self.rows).without(self.rows)


def find_readings(
    recipe: DomainAndNoise, history: ObservationHistory, X: ArrayLike, t: ArrayLike | None
) -> Correction:
    """Return everything told, the points that are meant, and their rows; nothing is corrected yet."""
    points = recipe.domain.check(X)
    table = ReadingTable.from_history(history, recipe.noise_variance)
    times = None if t is None else as_times(t, len(points))
    try:
        return Correction(table, table, points, table.find_all(points, times))
    except PlayError as error:
        expired = history.expired
        if not expired.rewards:
            raise
        left = "{gone} readings from before {until} have left the history"
        values = error.values | {"gone": expired.rewards, "until": expired.until}
        raise PlayError(f"{error.sentence}; {left}", **values) from error


def validate_correction(
    recipe: DomainAndNoise,
    history: ObservationHistory,
    X: ArrayLike,
    y: ArrayLike | Counted | None,
    t: ArrayLike | None,
    noise_variance: ArrayLike | None,
    to: ArrayLike | None,
    outcomes: Mapping[str, ArrayLike] | None,
) -> Correction:
    """Return readings with what is right in the place of what was wrong, as `Bandit.correct`.

    Raises
    ------
    ValueError
        If something has no form that can be used, nothing was told of a point, or nothing is corrected.
    """
    count = len(recipe.domain.check(X))  # what is wrong with the rest is said first
    right = np.zeros(count) if y is None else y
    values, variances = check_values_and_variance(
        "y", right, count, noise_variance, recipe.noise_variance
    )
    correction = find_readings(recipe, history, X, t)
    if y is None and to is None and noise_variance is None and not outcomes:
        raise ValueError(
            "correct needs at least one of y, to, noise_variance and outcomes beside X and t, "
            f"got t={describe(t)} alone"
        )
    table, rows = correction.before, correction.rows
    values = table.y[rows] if y is None else values
    stays = noise_variance is None and not isinstance(y, Counted)
    variances = table.variance[rows] if stays else variances
    trials = table.trials[rows] if y is None else get_trials(y, count)
    if y is not None:
        rest = table.without(rows)
        refuse_mixture(correction.points, values, trials, rest.trials[~np.isnan(rest.y)])
    times = table.t[rows] if to is None else as_times(to, count, "to")
    after = table.replace_rows(rows, t=times, y=values, variance=variances, trials=trials)
    if isinstance(y, Counted):
        after = _with_shared_mean(table, after, rows)
    return replace(correction, after=after)


def _with_shared_mean(before: ReadingTable, after: ReadingTable, rows: Index) -> ReadingTable:
    """Return a table after some rows changed, with the variances that its shares would have.

    `rate` estimates the variance of a share from all that it is given: of what is told from a time, and
    of what is corrected from that alone. Variances of another mean (`around`) stay.
    """
    variance = after.variance.copy()
    changed = _is_estimate(after, rows)
    for t in np.unique([before.t[rows], after.t[rows]]):
        fresh = _is_estimate(before, np.flatnonzero(before.t == t))
        fresh[rows] = changed[rows]
        there = np.flatnonzero(_are_shares(after) & (after.t == t))
        estimates = estimate_proportion_variances(after.y[there], after.trials[there])
        variance[there] = np.where(fresh[there], estimates, variance[there])
    return replace(after, variance=variance)


def _are_shares(table: ReadingTable) -> NDArray[np.bool_]:
    return (table.trials > 0) & np.isfinite(table.trials) & ~np.isnan(table.y)


def _is_estimate(table: ReadingTable, rows: Index) -> NDArray[np.bool_]:
    """Return which of all readings are shares of these rows with the variance of `rate` of these."""
    result = np.zeros(len(table.t), dtype=bool)
    rows = rows[_are_shares(table)[rows]]
    estimates = estimate_proportion_variances(table.y[rows], table.trials[rows])
    result[rows] = np.isclose(table.variance[rows], estimates, rtol=1e-9)
    return result


def find_pending_time(pending_time: float | None, time: float | None) -> float | None:
    """Return the time of the pending decision; None if a reward was told at `time`, no earlier."""
    is_over = pending_time is not None and time is not None and time >= pending_time
    return None if is_over else pending_time


# --- signs of trouble, in words ------------------------------------------------------------------------


# So many plays are looked at, and so many are needed to say something.
PLAYS = 20
# A flat reward is a sign where the latest plays were at several points.
MOST_PLAYS, FEWEST_POINTS = 400, 5
# A play is at the edge within this share of the range of a coordinate.
EDGE = 0.01
# The variance of rewards, and that of the means of points, is that of the noise up to this factor: the
# 99% quantile for 20 of them.
FLAT = 1.9
# Of intervals that hold 95% of readings, fewer than this share do in less than 1 of 1,000 cases.
LEAST_COVERAGE = 0.8


def find_signs_of_trouble(
    domain: Domain, rewards: Dataset, noise_variance: float, coverage: float
) -> tuple[str, ...]:
    """Return what a person should look at who sees a bandit once a day; in good health, nothing.

    Nothing that a bandit does depends on it.

    Parameters
    ----------
    domain : Domain
    rewards : Dataset
        All rewards, in the order they were told.
    noise_variance : float
        Of a reward without one of its own.
    coverage : float
        Share of the latest 95% intervals that held the reading; NaN where nobody watches them.
    """
    signs: list[str] = []
    if len(rewards) >= PLAYS:
        signs += _find_edges(domain, rewards.X[-PLAYS:])
        # The latest first: a long history is rarely looked at, then.
        latest = rewards.take(slice(-MOST_PLAYS, None)).with_noise(noise_variance)
        if _is_flat(latest) and _is_within_noise(rewards.with_noise(noise_variance)):
            signs.append(
                "no reading has differed from the others by more than the noise: "
                "the plays may all be where the reward is flat"
            )
    if not math.isnan(coverage) and coverage < LEAST_COVERAGE:
        signs.append(
            f"only {coverage:.0%} of the latest 95% intervals held their reading: "
            "deviations are too small"
        )
    return tuple(signs)


def _scaled_variance(y: Array, variance: Array) -> float:
    """Return the mean square of values about their mean, in units of the variance of their noise."""
    mean = np.average(y, weights=1.0 / variance)
    return float(np.mean((y - mean) ** 2 / variance))


def _is_within_noise(rewards: Dataset) -> bool:
    """Return whether rewards differ from each other by no more than their noise."""
    return _scaled_variance(rewards.y, rewards.variance) <= FLAT


def _is_flat(rewards: Dataset) -> bool:
    """Return whether rewards are within noise, and of several points whose means do not differ, either.

    A click tells nothing beyond its noise, and many clicks of each arm do.
    """
    if not _is_within_noise(rewards):
        return False
    points, of_point = np.unique(rewards.X, axis=0, return_inverse=True)
    if len(points) < FEWEST_POINTS:
        return False
    weights = 1.0 / rewards.variance
    sums = np.bincount(of_point, weights), np.bincount(of_point, weights * rewards.y)
    return _scaled_variance(sums[1] / sums[0], 1.0 / sums[0]) <= FLAT


def _find_edges(domain: Domain, X: Array) -> list[str]:
    """Return a sign for each coordinate at one of whose ends all plays (n, d) lie."""
    if domain.intervals is None:
        return []
    low, high = domain.intervals.T
    latest = (X[-1, : len(low)] - low) / (high - low)
    if (
        latest.min() > EDGE and latest.max() < 1.0 - EDGE
    ):  # the usual case: all need not be looked at
        return []
    shares = (X[:, : len(low)] - low) / (high - low)
    ends = ("lower", shares <= EDGE), ("upper", shares >= 1.0 - EDGE)
    return [
        f"the latest {PLAYS} plays lie at the {end} end of {domain.coordinate_names[i]}: "
        "the best may lie beyond it"
        for end, near in ends
        for i in np.flatnonzero(near.all(axis=0)).tolist()
    ]


# --- rewards that nobody asked for ----------------------------------------------------------------


def count_unasked(before: Record, after: Record, points: int) -> int:
    """Return how many of so many points told were not pending between two records."""
    return points - len(before.pending) + len(after.pending)


def skip_unasked(
    rng: np.random.Generator, before: Record, after: Record, new: NewObservations
) -> None:
    """Skip the random numbers of those of some new rewards that nobody asked for."""
    skip_numbers(rng, min(count_unasked(before, after, len(new.X)), len(new.rewards)))


def skip_numbers(rng: np.random.Generator, rewards: int) -> None:
    """Skip the random numbers that belong to so many rewards that nobody asked for.

    Else a bandit that is made anew from a longer log each night, with the same seed, would draw the
    numbers of its first play again. A generator of another kind than NumPy's usual one goes on as it is.
    """
    if rewards and isinstance(rng.bit_generator, np.random.PCG64):
        rng.bit_generator.advance(rewards << 64)

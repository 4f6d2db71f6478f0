"""Checks of new rewards and answers, corrections of old ones, and signs of trouble in a history."""

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
    """A domain and a noise variance: a recipe, or a record of it."""

    @property
    def domain(self) -> Domain:
        """Return the domain of all points."""

    @property
    def noise_variance(self) -> float | None:
        """Return the noise variance of readings without one of their own; None if it is learned."""


class ObservationHistory(Protocol):
    """Earlier observations: a state, or a record of a campaign."""

    @property
    def readings(self) -> Dataset:
        """Return all rewards in the order of arrival."""

    @property
    def failed(self) -> Plays:
        """Return the plays whose reading failed."""

    @property
    def expired(self) -> Any:
        """Return a summary of the observations that are no longer stored."""


def validate_observations(
    recipe: DomainAndNoise,
    record: Record,
    X: Any,
    y: ArrayLike | Counted,
    t: ArrayLike | None,
    noise_variance: ArrayLike | None,
) -> NewObservations:
    """Return the checked observations of a call of `tell`.

    If `t` is None, the time of a pending point is that for which it was asked; the time of another point
    is that of the pending decision, or else that of the next decision.

    Raises
    ------
    ValueError
        If an argument is invalid, or plain numbers, proportions of trials and event counts are mixed.
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
    default = record.decision_time if record.pending_time is None else record.pending_time
    rows = record.pending.find_rows(points)
    times = np.array([default if row is None else record.pending.t[row] for row in rows])
    return NewObservations.from_columns(points, times, rewards, variances, trials)


def convert_booleans(y: Any) -> Any:
    """Return rewards with truth values, such as conversions, as numbers: True is 1, False is 0."""
    if isinstance(y, list | tuple):
        return [float(value) if isinstance(value, bool | np.bool_) else value for value in y]
    dtype = getattr(y, "dtype", None)
    if is_library_instance(dtype, "pandas", "BooleanDtype"):
        return y.to_numpy(dtype=np.float64, na_value=np.nan)
    is_boolean = isinstance(y, bool) or (dtype == np.dtype(bool) and not np.ma.isMaskedArray(y))
    return np.asarray(y, dtype=np.float64) if is_boolean else y


def validate_answers(
    recipe: DomainAndNoise, X: Any, values: ArrayLike, t: float, noise_variance: ArrayLike | None
) -> tuple[Dataset, int]:
    """Return the checked answers of an expert about one time, and the number of points without one.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """
    points = recipe.domain.check(X)
    column, variances = check_values_and_variance(
        "values", values, len(points), noise_variance, recipe.noise_variance
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
    """Return answers with some values replaced, or removed (NaN), and the rows of these.

    Raises
    ------
    ValueError
        If an argument is invalid, or a point has no answer.
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
    remains = ~np.isnan(y)
    X, query_times = answers.X[remains], answers.t[remains]
    answers = Dataset.from_columns(X, query_times, y[remains], variance[remains], Source.EXPERT)
    return answers, rows


def _make_missing_row_error(
    rows: Dataset | ReadingTable, point: Array, t: float | None, text: str, some: str, none: str
) -> PlayError:
    """Return the error about a row that does not exist, with the times of those at its point.

    `text` has %s in the place of the time; `some` is followed by the times of other rows, and `none`
    says that there are none.
    """
    times = rows.t[(point == rows.X).all(axis=1)][-8:].tolist()
    values: dict[str, Any] = {f"t{k}": time for k, time in enumerate(times)}
    others = f"{some} {', '.join(f'{{{name}}}' for name in values)}" if values else none
    time_text = "" if t is None else " at {t}"
    values |= {} if t is None else {"t": float(t)}
    return PlayError(f"{text % time_text}; {others}", point=point, **values)


def check_values_and_variance(
    name: str, values: Any, n: int, variance: ArrayLike | None, default: float | None
) -> tuple[Array, Array]:
    """Return checked values (n,), which may be NaN, and noise variances (n,), by default `default`."""
    if isinstance(values, Counted):
        values, variance = split_variance(values, variance)
    elif type(values) is not np.ndarray or values.dtype != np.float64:
        values = convert_booleans(values)
    column = as_values(values, n, name, missing=True)
    # A single number for several points would turn one reading into several.
    if n != 1 and np.ndim(values) == 0:
        raise ValueError(f"{name} must have shape ({n},), got ()")
    if variance is None:
        return column, fill_variance(n, default)
    return column, as_variances(variance, n, "noise_variance")


def get_trials(y: object, n: int) -> Array:
    """Return the number of trials (n,) of each reading; 0: measured; infinite: an event count."""
    return y.trials if isinstance(y, Counted) else np.zeros(n)


# For each kind of reading its name in the singular and the plural, and how to tell it.
KINDS = {
    "measured": ("a plain number", "plain numbers", ""),
    "proportion": (
        "a proportion of {trials} trials",
        "proportions of trials",
        "its successes and trials, as by rate(successes, trials)",
    ),
    "events": (
        "a count of events",
        "counts of events",
        "its events and exposure, as by count(events, exposure)",
    ),
}


def _classify_trials(trials: Array) -> list[str]:
    """Return the kind of each reading (n,) by its number of trials."""
    return [
        "measured" if n == 0 else "proportion" if math.isfinite(n) else "events" for n in trials
    ]


def refuse_mixture(X: Array, y: Array, trials: Array, others: Array) -> None:
    """Raise a `PlayError` if a reading is of another kind than the others.

    Plain numbers, proportions of trials and counts of events are different rewards.

    Parameters
    ----------
    X : array of shape (n, d)
        The points of new readings.
    y, trials : arrays of shape (n,)
        Their values and numbers of trials.
    others : array of shape (m,)
        The numbers of trials of other readings.
    """
    rows = np.flatnonzero(~np.isnan(y))
    if len(rows) == 0 or len(others) == 0:
        return
    row = int(rows[0])
    (kind,), other_kinds = _classify_trials(trials[row : row + 1]), _classify_trials(others)
    if kind in other_kinds:
        return
    other = other_kinds[-1]
    remedy = f"tell {KINDS[other][2]}"
    if other == "measured":
        parts = "successes and trials" if kind == "proportion" else "events and exposure"
        remedy = f"tell it as a plain number, or first correct all others to {parts} in one call"
    prefix = "row {row}: " if len(X) > 1 else ""
    text = f"{{value}} is {KINDS[kind][0]}, but the other readings are {KINDS[other][1]}: {remedy}"
    raise PlayError(
        f"{prefix}{{point}}: {text}",
        row=row,
        point=X[row],
        value=f"{y[row]:g}",
        trials=f"{trials[row]:g}",
    )


def fill_variance(n: int, noise_variance: float | None) -> Array:
    """Return the noise variance (n,) of readings without one of their own: NaN if it is learned."""
    return np.full(n, np.nan if noise_variance is None else float(noise_variance))


def append_visited(visited: Array, X: Array) -> Array:
    """Return the points `visited` (m, d), followed by the distinct new points of `X` (n, d)."""
    if len(X) == 1:
        new = X[:0] if np.count_nonzero((visited == X[0]).all(axis=1)) else X
    else:  # by key, since comparing all pairs of rows would take quadratic time
        keys = set(row_keys(visited))
        first_rows: dict[bytes, int] = {}
        for i, key in enumerate(row_keys(X)):
            if key not in keys:
                first_rows.setdefault(key, i)
        new = X[list(first_rows.values())]
    if len(new):
        visited = np.concatenate([visited, new])
    visited.setflags(write=False)
    return visited


# --- corrections ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadingTable:
    """All readings in the order of arrival, including failed ones, whose value is NaN.

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
        """Return the table of a history, with failed readings after the rewards of their time."""
        rewards, failed = history.readings.with_noise(noise_variance), history.failed
        n = len(failed)
        noise = fill_variance(n, noise_variance)
        return cls.from_dataset(rewards).insert(
            failed.X, failed.t, np.full(n, np.nan), noise, np.zeros(n)
        )

    @classmethod
    def from_dataset(cls, data: Dataset) -> ReadingTable:
        """Return the table of a data set."""
        return cls(data.X, data.t, data.y, data.variance, data.trials)

    def insert(self, *columns: Array) -> ReadingTable:
        """Return the table with further rows, given by all columns, each after the rows of its time."""
        previous = [np.flatnonzero(self.t <= t)[-1:] for t in columns[1]]
        positions = [float(rows[0]) + 0.5 if len(rows) else -0.5 for rows in previous]
        order = np.argsort(np.concatenate([np.arange(len(self.t)), positions]), kind="stable")
        pairs = zip(vars(self).values(), columns, strict=True)
        return ReadingTable(*(np.concatenate(pair)[order] for pair in pairs))

    def find(self, X: Array, t: Array | None) -> Index:
        """Return the last row (n,) of each point (n, d) and time, or -1; no row is returned twice."""
        rows = np.full(len(X), -1)
        for i, x in enumerate(X):
            matches = (x == self.X).all(axis=1) & (True if t is None else self.t == t[i])
            matches[rows[rows >= 0]] = False
            rows[i] = max(np.flatnonzero(matches), default=-1)
        return rows

    def find_all(self, X: Array, t: Array | None) -> Index:
        """Return the rows of all points, as `find`.

        Raises
        ------
        PlayError
            If a point has no row; the message has the times of its readings.
        """
        rows = self.find(X, t)
        if rows.min(initial=0) < 0:
            i = int(rows.argmin())
            time = None if t is None else float(t[i])
            texts = "there is no reading of {point}%s", "there are some at", "there are none of it"
            raise _make_missing_row_error(self, X[i], time, *texts)
        return rows

    def replace_rows(self, rows: Index, **columns: Array) -> ReadingTable:
        """Return the table with new values in some rows of some columns."""
        replaced: dict[str, Any] = {name: getattr(self, name).copy() for name in columns}
        for name, values in columns.items():
            replaced[name][rows] = values
        return replace(self, **replaced)

    def without(self, rows: Index) -> ReadingTable:
        """Return the table without some rows."""
        return ReadingTable(*(np.delete(column, rows, axis=0) for column in vars(self).values()))

    def split_by_time(self) -> Iterator[NewObservations]:
        """Yield the readings in groups of successive rows with the same time."""
        for rows in np.split(np.arange(len(self.t)), np.flatnonzero(np.diff(self.t)) + 1):
            if len(rows):
                yield NewObservations.from_columns(
                    *(column[rows] for column in vars(self).values())
                )


@dataclass(frozen=True)
class Correction:
    """A correction of some readings.

    Attributes
    ----------
    before, after : ReadingTable
        All readings before and after the correction.
    points : array of shape (n, d)
        The points of the corrected readings.
    rows : integer array of shape (n,)
        The rows of the corrected readings.
    """

    before: ReadingTable
    after: ReadingTable
    points: Array
    rows: Index

    @property
    def old_times(self) -> Array:
        """Return the times (n,) of the readings before the correction."""
        return self.before.t[self.rows]

    @property
    def new_times(self) -> Array:
        """Return the corrected times (n,)."""
        return self.after.t[self.rows]

    @property
    def rest(self) -> ReadingTable:
        """Return all other readings, as if these had never been told."""
        missing = np.full(len(self.rows), np.nan)
        after = self.before.replace_rows(self.rows, y=missing)
        return _update_proportion_variances(self.before, after, self.rows).without(self.rows)


def find_readings(
    recipe: DomainAndNoise, history: ObservationHistory, X: ArrayLike, t: ArrayLike | None
) -> Correction:
    """Return a correction of some readings that does not change anything yet.

    Raises
    ------
    ValueError
        If an argument is invalid, or a point has no reading at its time.
    """
    points = recipe.domain.check(X)
    table = ReadingTable.from_history(history, recipe.noise_variance)
    times = None if t is None else as_times(t, len(points))
    try:
        return Correction(table, table, points, table.find_all(points, times))
    except PlayError as error:
        expired = history.expired
        if not expired.rewards:
            raise
        reason = "{expired} readings from before {until} are no longer stored"
        values = error.values | {"expired": expired.rewards, "until": expired.until}
        raise PlayError(f"{error.sentence}; {reason}", **values) from error


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
    """Return a checked correction; parameters are those of `Bandit.correct`.

    Raises
    ------
    ValueError
        If an argument is invalid, a point has no reading at its time, or nothing changes.
    """
    count = len(recipe.domain.check(X))  # an invalid argument is reported before a missing reading
    values, variances = check_values_and_variance(
        "y", np.zeros(count) if y is None else y, count, noise_variance, recipe.noise_variance
    )
    correction = find_readings(recipe, history, X, t)
    if y is None and to is None and noise_variance is None and not outcomes:
        raise ValueError(
            "correct needs at least one of y, to, noise_variance and outcomes in addition to X and t, "
            f"got only t={describe(t)}"
        )
    table, rows = correction.before, correction.rows
    values = table.y[rows] if y is None else values
    has_variances = noise_variance is not None or isinstance(y, Counted)
    variances = variances if has_variances else table.variance[rows]
    trials = table.trials[rows] if y is None else get_trials(y, count)
    if y is not None:
        rest = table.without(rows)
        refuse_mixture(correction.points, values, trials, rest.trials[~np.isnan(rest.y)])
    times = table.t[rows] if to is None else as_times(to, count, "to")
    after = table.replace_rows(rows, t=times, y=values, variance=variances, trials=trials)
    if isinstance(y, Counted):
        after = _update_proportion_variances(table, after, rows)
    return replace(correction, after=after)


def _update_proportion_variances(
    before: ReadingTable, after: ReadingTable, rows: Index
) -> ReadingTable:
    """Return a table after a correction of some rows, with the variances of one call of `rate`.

    `rate` estimates the variances from all proportions of a call: before a correction, those of a time;
    in the correction, only the corrected ones. After it, they are estimated from all of a time again.
    Variances with a mean that the user stated (`around`) stay.
    """
    variance = after.variance.copy()
    is_corrected_estimate = _find_estimates(after, rows)
    for t in np.unique([before.t[rows], after.t[rows]]):
        is_estimate = _find_estimates(before, np.flatnonzero(before.t == t))
        is_estimate[rows] = is_corrected_estimate[rows]
        of_time = np.flatnonzero(_find_proportions(after) & (after.t == t))
        estimates = estimate_proportion_variances(after.y[of_time], after.trials[of_time])
        variance[of_time] = np.where(is_estimate[of_time], estimates, variance[of_time])
    return replace(after, variance=variance)


def _find_proportions(table: ReadingTable) -> NDArray[np.bool_]:
    """Return a mask (n,) of the readings that are proportions of trials."""
    return (table.trials > 0) & np.isfinite(table.trials) & ~np.isnan(table.y)


def _find_estimates(table: ReadingTable, rows: Index) -> NDArray[np.bool_]:
    """Return a mask (n,) of proportions in some rows with the variance of one call of `rate`."""
    result = np.zeros(len(table.t), dtype=bool)
    rows = rows[_find_proportions(table)[rows]]
    estimates = estimate_proportion_variances(table.y[rows], table.trials[rows])
    result[rows] = np.isclose(table.variance[rows], estimates, rtol=1e-9)
    return result


def find_pending_time(pending_time: float | None, time: float | None) -> float | None:
    """Return the time of the pending decision, or None if a reward at `time` has ended it."""
    is_over = pending_time is not None and time is not None and time >= pending_time
    return None if is_over else pending_time


# --- signs of trouble -----------------------------------------------------------------------------


# The number of latest plays that are examined for edges, and the least number of rewards for any sign.
PLAYS = 20
# The number of latest plays that are examined for a flat reward, and the least number of their points.
MOST_PLAYS, FEWEST_POINTS = 400, 5
# A play is at the edge within this fraction of the range of a coordinate.
EDGE = 0.01
# The reward is flat if the variance of rewards, and that of the means of points, is at most this
# multiple of the noise variance: the 99% quantile for 20 of them.
FLAT = 1.9
# If 95% intervals are right, the observed coverage is smaller with a probability below 0.001.
LEAST_COVERAGE = 0.8
# So many plays without any reading of an outcome that has a limit are a sign of trouble; once there was
# a reading, `PLAYS` are.
UNREAD_PLAYS = 3


def find_signs_of_trouble(
    domain: Domain, rewards: Dataset, noise_variance: float, coverage: float
) -> tuple[str, ...]:
    """Return signs of trouble, in words, for a user who checks a bandit once a day; usually none.

    No decision depends on them.

    Parameters
    ----------
    domain : Domain
    rewards : Dataset
        All rewards, in the order of arrival.
    noise_variance : float
        Noise variance of a reward without one of its own.
    coverage : float
        The fraction of the latest 95% intervals that covered the reading; NaN if it is not computed.
    """
    signs: list[str] = []
    if len(rewards) >= PLAYS:
        signs += _find_edges(domain, rewards.X[-PLAYS:])
        # The latest plays are examined first, so that a long history rarely has to be.
        latest = rewards.take(slice(-MOST_PLAYS, None)).with_noise(noise_variance)
        if _is_flat(latest) and _is_within_noise(rewards.with_noise(noise_variance)):
            signs.append(
                "no reading has differed from the others by more than the noise: "
                "the plays may all be where the reward is flat"
            )
    if not math.isnan(coverage) and coverage < LEAST_COVERAGE:
        signs.append(
            f"only {coverage:.0%} of the latest 95% intervals covered their reading: "
            "the predicted deviations are too small"
        )
    return tuple(signs)


def _scaled_variance(y: Array, variance: Array) -> float:
    """Return the mean squared deviation of values (n,) from their mean, over their noise variance."""
    mean = np.average(y, weights=1.0 / variance)
    return float(np.mean((y - mean) ** 2 / variance))


def _is_within_noise(rewards: Dataset) -> bool:
    """Return whether the rewards differ from each other by no more than their noise."""
    return _scaled_variance(rewards.y, rewards.variance) <= FLAT


def _is_flat(rewards: Dataset) -> bool:
    """Return whether the rewards, and the means of several points, differ by no more than their noise.

    Single clicks never exceed their noise, but the means of many clicks of each arm do.
    """
    if not _is_within_noise(rewards):
        return False
    points, groups = np.unique(rewards.X, axis=0, return_inverse=True)
    if len(points) < FEWEST_POINTS:
        return False
    weights = 1.0 / rewards.variance
    sums = np.bincount(groups, weights), np.bincount(groups, weights * rewards.y)
    return _scaled_variance(sums[1] / sums[0], 1.0 / sums[0]) <= FLAT


def _find_edges(domain: Domain, X: Array) -> list[str]:
    """Return a sign for each coordinate for which all plays (n, d) lie at the same end."""
    if domain.intervals is None:
        return []
    low, high = domain.intervals.T
    latest = (X[-1, : len(low)] - low) / (high - low)
    if latest.min() > EDGE and latest.max() < 1.0 - EDGE:
        return []  # the usual case, in which the other plays do not matter
    scaled = (X[:, : len(low)] - low) / (high - low)
    ends = ("lower", scaled <= EDGE), ("upper", scaled >= 1.0 - EDGE)
    return [
        f"the latest {PLAYS} plays lie at the {end} end of {domain.coordinate_names[i]}: "
        "the best may lie beyond it"
        for end, is_at_end in ends
        for i in np.flatnonzero(is_at_end.all(axis=0)).tolist()
    ]


# --- rewards of points that the bandit did not choose ---------------------------------------------


def count_unasked(before: Record, after: Record, count: int) -> int:
    """Return how many of `count` new observations are of points that were not pending."""
    return count - len(before.pending) + len(after.pending)


def skip_unasked(
    rng: np.random.Generator, before: Record, after: Record, new: NewObservations
) -> None:
    """Skip the random numbers of the new rewards whose points were not pending."""
    skip_numbers(rng, min(count_unasked(before, after, len(new.X)), len(new.rewards)))


def skip_numbers(rng: np.random.Generator, count: int) -> None:
    """Skip the random numbers of `count` rewards of points that the bandit did not choose.

    Otherwise a bandit that is created each night with the same seed, from a log that grows, would always
    draw the random numbers of its first play. Only NumPy's default generator can skip; others do not.
    """
    if count and isinstance(rng.bit_generator, np.random.PCG64):
        rng.bit_generator.advance(count << 64)

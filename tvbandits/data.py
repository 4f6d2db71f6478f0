"""Data sets of observations, as frozen columns that are checked once; helpers for frozen values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.errors import PlayError
from tvbandits.validation import (
    Array,
    Index,
    as_column,
    as_points,
    as_times,
    as_values,
    as_variances,
    as_vector,
    refuse,
    whole_number,
)

T = TypeVar("T")


def replace_fields(value: T, **fields: Any) -> T:
    """Return a copy of a frozen value with some fields replaced, without any checks.

    This is faster than `dataclasses.replace`. The copy has no cached properties. Neither the names nor
    the values of the fields are checked.

    Examples
    --------
    >>> from tvbandits.data import Expired, replace_fields
    >>> print(replace_fields(Expired(rewards=2), answers=1))
    Expired(rewards=2, answers=1, failed=0, until=-inf, first=nan)
    """
    copy, attributes = object.__new__(type(value)), value.__dict__ | fields
    for name in _cached_property_names(type(value)):  # type: ignore[arg-type]  # classes are hashable
        attributes.pop(name, None)
    object.__setattr__(copy, "__dict__", attributes)
    return copy


@cache
def _cached_property_names(kind: type) -> list[str]:
    """Return the names of the cached properties of a class."""
    members = (member for base in kind.__mro__ for member in vars(base).items())
    return [name for name, member in members if isinstance(member, cached_property)]


# --- rows -----------------------------------------------------------------------------------------


def row_keys(X: Array) -> list[bytes]:
    """Return the bytes of each row of `X` (n, d), which are equal if rows are; -0.0 counts as 0.0."""
    raw, width = (X + 0.0).tobytes(), X.itemsize * X.shape[1]
    return [raw[i : i + width] for i in range(0, len(raw), width)]


def median_time_step(t: Array) -> float:
    """Return the median difference of successive distinct times `t` (n,); 1 if all are equal."""
    gaps = np.diff(np.unique(t))
    return float(np.median(gaps)) if len(gaps) else 1.0


def append_times(X: Array, t: Array | float) -> Array:
    """Return points (n, d) with a last column for the time: rows [x, t] (n, d + 1).

    `t` is one time, or has shape (n,).
    """
    Z = np.empty((len(X), X.shape[1] + 1))
    Z[:, :-1], Z[:, -1] = X, t
    return Z


class GrowingColumns:
    """Storage for columns to which rows are appended, and whose rows never change once written.

    Data sets that extend each other are views of the same storage, so that appending n rows one by one
    takes time O(n). If different rows are appended to the same data set twice, the second result is
    copied to storage of its own.

    Parameters
    ----------
    columns : arrays of n rows each
        The first rows, which are copied.
    capacity : int
        The least number of rows that must fit.
    """

    def __init__(self, columns: tuple[NDArray[Any], ...], capacity: int = 0) -> None:
        self.size = len(columns[0])
        rows = max(self.size, capacity)
        shape = (max(64, rows + rows // 2),)
        self.columns = tuple(np.empty(shape + column.shape[1:], column.dtype) for column in columns)
        for target, column in zip(self.columns, columns, strict=True):
            target[: self.size] = column

    def append(
        self, n: int, rows: tuple[NDArray[Any], ...]
    ) -> tuple[list[NDArray[Any]], GrowingColumns]:
        """Append rows to the first `n`; return read-only views of all of them, and their storage."""
        end = n + len(rows[0])
        if end <= self.size and all(map(_same_bytes, self._get_views(n, end), rows)):
            # A step that was computed in advance has appended the same rows already.
            return self._get_views(0, end), self
        storage = self
        if n != self.size or end > len(self.columns[0]):
            storage = GrowingColumns(tuple(column[:n] for column in self.columns), end)
        for column, addition in zip(storage.columns, rows, strict=True):
            column[n:end] = addition
        storage.size = end
        return storage._get_views(0, end), storage

    def _get_views(self, start: int, end: int) -> list[NDArray[Any]]:
        """Return read-only views of a range of rows, one for each column."""
        views = [column[start:end] for column in self.columns]
        for view in views:
            view.setflags(write=False)
        return views


def _same_bytes(first: NDArray[Any], second: NDArray[Any]) -> bool:
    """Return whether two arrays are equal, bit for bit; NaN equals NaN."""
    same_type = first.shape == second.shape and first.dtype == second.dtype
    return same_type and first.tobytes() == second.tobytes()


# --- observations ---------------------------------------------------------------------------------


class Source(IntEnum):
    """The origin of an observation: a play or an expert."""

    REWARD = 0
    """The bandit played the point and learned its reward."""
    EXPERT = 1
    """An expert answered a query about the point."""


@dataclass(frozen=True)
class Dataset:
    """A frozen data set of noisy values of a function of point and time, in the order of arrival.

    Parameters
    ----------
    X : array of shape (n, d)
        The points.
    t : array of shape (n,)
        The time of each value, in the user's unit of time; in any order, with any gaps.
    y : array of shape (n,)
        The values, in the user's unit of reward.
    variance : array of shape (n,)
        Noise variance of each value (unit of reward squared); positive. In the data of a bandit it is
        NaN where the user states none, and the bandit learns it.
    source : array of shape (n,), optional
        A `Source` for each row; by default all are `Source.REWARD`.
    trials : array of shape (n,), optional
        The number of trials, if the value is a proportion of successes; infinite, if it is a count of
        events divided by the exposure; 0 (the default), if it was measured.

    Raises
    ------
    ValueError
        If shapes disagree, a value is not finite, a variance is not positive, or a number is beyond
        the range that can be computed with (`tvbandits.validation`).

    Examples
    --------
    >>> from tvbandits import Dataset
    >>> data = Dataset([[0.0], [1.0]], t=[1.0, 2.0], y=[0.2, 0.5], variance=[0.01, 0.01])
    >>> print(len(data), data.take([1]).y)
    2 [0.5]
    """

    X: Array
    t: Array
    y: Array
    variance: Array
    source: NDArray[np.uint8] = None  # type: ignore[assignment]  # filled in below
    trials: Array = None  # type: ignore[assignment]  # filled in below
    storage: GrowingColumns | None = field(default=None, init=False, repr=False, compare=False)
    """The storage of which the columns are views; None if they are arrays of their own."""

    def __post_init__(self) -> None:
        X = as_points(self.X)
        n = len(X)
        columns: dict[str, NDArray[Any]] = {
            "X": X,
            "t": as_times(self.t, n),
            "y": as_values(self.y, n),
            "variance": as_variances(self.variance, n),
            "source": _check_source(self.source, n),
            "trials": np.zeros(n) if self.trials is None else as_vector(self.trials, n, "trials"),
        }
        refuse(~(columns["trials"] >= 0), columns["trials"], "trials must be 0 or more")
        for name, column in columns.items():
            column.setflags(write=False)
            object.__setattr__(self, name, column)

    @classmethod
    def from_columns(
        cls,
        X: Array,
        t: Array,
        y: Array,
        variance: Array,
        source: Source = Source.REWARD,
        trials: Array | None = None,
    ) -> Dataset:
        """Return the data set of columns that were checked before, and make them read-only."""
        sources = np.full(len(t), int(source), dtype=np.uint8)
        trials = np.zeros(len(t)) if trials is None else trials
        return _from_checked(X, t, y, variance, sources, trials)

    @classmethod
    def __restored__(
        cls, X: Array, t: Array, y: Array, variance: Array, source: NDArray[np.uint8], trials: Array
    ) -> Dataset:
        """Return the data set of the columns of a saved file, after checking them."""
        missing = variance == 0
        data = cls(X, t, y, np.where(missing, 1.0, variance), source, trials)
        variances = np.where(missing, np.nan, data.variance)
        return _from_checked(data.X, data.t, data.y, variances, data.source, data.trials)

    def __saved__(self) -> dict[str, Any]:
        """Return the columns for a saved file, in which a missing variance is 0."""
        variance = np.where(np.isnan(self.variance), 0.0, self.variance)
        return {name: getattr(self, name) for name in _COLUMNS} | {"variance": variance}

    @classmethod
    def empty(cls, dimension: int) -> Dataset:
        """Return an empty data set of points with `dimension` coordinates."""
        column = np.empty(0)
        coordinates = whole_number("dimension", dimension, at_most=1_000_000)
        return cls(np.empty((0, coordinates)), column, column, column)

    def __len__(self) -> int:
        return len(self.t)

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to unpickle the data set, so that its columns are read-only again."""
        return _from_checked, tuple(getattr(self, name) for name in _COLUMNS)

    @property
    def dimension(self) -> int:
        """Return the number of coordinates of a point."""
        return int(self.X.shape[1])

    def append(self, other: Dataset) -> Dataset:
        """Return the observations of this data set, followed by those of `other`.

        Raises
        ------
        ValueError
            If points have different numbers of coordinates.
        """
        if other.X.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"points must have {self.X.shape[1]} coordinates, got {other.X.shape[1]}"
            )
        if len(other.t) == 0:
            return self
        rows, additions = (
            tuple(getattr(data, name) for name in _COLUMNS) for data in (self, other)
        )
        columns, storage = (self.storage or GrowingColumns(rows)).append(len(self.t), additions)
        data = _from_checked(*columns)
        object.__setattr__(data, "storage", storage)
        return data

    def concatenate(self, other: Dataset) -> Dataset:
        """Return the same observations as `append`, copied to arrays of their own."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in _COLUMNS)
        return _from_checked(*map(np.concatenate, pairs))

    def begins_with(self, other: Dataset) -> bool:
        """Return True only if the first rows of this data set are known to be those of `other`.

        They are known to be if `append` made this data set from `other` in the same storage.
        """
        same_storage = self.storage is not None and self.storage is other.storage
        return self is other or (same_storage and len(other.t) <= len(self.t))

    def look_up_values(self, plays: Array) -> Array:
        """Return the latest value (n,) of each play [x, t] (n, d + 1); NaN if it has no value."""
        values = dict(zip(row_keys(append_times(self.X, self.t)), self.y, strict=True))
        return np.array([values.get(key, np.nan) for key in row_keys(plays)])

    def add_coordinates(self, count: int) -> Dataset:
        """Return a copy whose points have `count` more coordinates, all 0."""
        X = np.pad(self.X, ((0, 0), (0, count)))
        return _from_checked(X, self.t, self.y, self.variance, self.source, self.trials)

    def compute_time_contrasts(self) -> Dataset:
        """Return the deviations of the values from the mean of their time, scaled to the same noise.

        Deviations of n values from their mean have (n - 1) / n of the noise variance of a single value;
        they are scaled up by the root of n / (n - 1). A value that is alone at its time is left out.
        """
        _, groups, sizes = np.unique(self.t, return_inverse=True, return_counts=True)
        n = sizes[groups]
        mean = np.bincount(groups, self.y, len(sizes))[groups] / n
        return self.with_values((self.y - mean) * np.sqrt(n / np.maximum(n - 1, 1))).take(n > 1)

    def with_values(self, y: Array) -> Dataset:
        """Return a copy with other values (n,), which were checked before."""
        return _from_checked(self.X, self.t, y, self.variance, self.source, self.trials)

    def take(self, rows: NDArray[Any] | slice) -> Dataset:
        """Return the observations in some rows: an index array, a boolean mask or a slice."""
        return _from_checked(*(getattr(self, name)[rows] for name in _COLUMNS))

    def with_noise(self, variance: float | None) -> Dataset:
        """Return a copy in which missing noise variances (NaN) are `variance`; None changes nothing."""
        missing = np.isnan(self.variance)
        if variance is None or not np.count_nonzero(missing):
            return self
        filled = np.where(missing, variance, self.variance)
        return _from_checked(self.X, self.t, self.y, filled, self.source, self.trials)


def make_answers(X: Array, t: float, values: Array, variance: Array | None) -> Dataset:
    """Return the data set of an expert's checked answers about points (q, d) at one time.

    Points without an answer (NaN) are left out. If `variance` is None, all variances are NaN.
    """
    variance = np.full(len(values), np.nan) if variance is None else variance
    answered = ~np.isnan(values)
    times = np.full(np.count_nonzero(answered), t)
    return Dataset.from_columns(
        X[answered], times, values[answered], variance[answered], Source.EXPERT
    )


@dataclass(frozen=True)
class Outliers:
    """The observations that a robust bandit excludes from its model.

    Attributes
    ----------
    observations : Dataset
    rows : integer array of shape (k,)
        The number of each outlier among all rewards, outliers included, in the order of arrival.
    """

    observations: Dataset
    rows: Index

    @classmethod
    def from_mask(cls, readings: Dataset, is_outlier: NDArray[np.bool_]) -> Outliers:
        """Return the outliers among all readings, which a mask (n,) marks."""
        rows = np.flatnonzero(is_outlier)
        return cls(readings.take(rows), rows)

    def __len__(self) -> int:
        return len(self.rows)

    def merge(self, rewards: Dataset) -> Dataset:
        """Return all readings, the outliers included, in the order of arrival."""
        is_outlier = np.zeros(len(rewards) + len(self), dtype=bool)
        is_outlier[self.rows] = True
        order = np.empty(len(is_outlier), dtype=np.int64)
        order[np.flatnonzero(~is_outlier)] = np.arange(len(rewards))
        order[self.rows] = len(rewards) + np.arange(len(self))
        # A copy, so that later rewards can still be appended to the storage of `rewards`.
        return rewards.concatenate(self.observations).take(order)


@dataclass(frozen=True, eq=False)
class Plays:
    """Points that were played or are to be played, without rewards.

    Attributes
    ----------
    X : array of shape (k, d)
        The points.
    t : array of shape (k,)
        The time of each play.
    """

    X: Array
    t: Array

    def __post_init__(self) -> None:
        for column in (self.X, self.t):
            column.setflags(write=False)

    @classmethod
    def empty(cls, dimension: int) -> Plays:
        """Return an empty list of plays of points with `dimension` coordinates."""
        return cls(np.empty((0, dimension)), np.empty(0))

    def __len__(self) -> int:
        return len(self.t)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plays) and all(
            map(np.array_equal, (self.X, self.t), (other.X, other.t))
        )

    __hash__ = None  # type: ignore[assignment]

    def append(self, X: Array, t: Array) -> Plays:
        """Return these plays, followed by those at points `X` (n, d) and times `t` (n,)."""
        if len(t) == 0:
            return self
        return Plays(np.concatenate([self.X, X]), np.concatenate([self.t, t]))

    def take(self, rows: NDArray[np.bool_]) -> Plays:
        """Return the plays in some rows, which a mask (k,) marks."""
        return Plays(self.X[rows], self.t[rows])

    def add_coordinates(self, count: int) -> Plays:
        """Return a copy whose points have `count` more coordinates, all 0."""
        return Plays(np.pad(self.X, ((0, 0), (0, count))), self.t)

    def exclude(self, X: Array, t: Array) -> Plays:
        """Return the plays but for all at a point of `X` (n, d) and its time in `t` (n,)."""
        if not len(self.t):
            return self
        keys = set(row_keys(append_times(X, t)))
        remaining = np.array([key not in keys for key in row_keys(append_times(self.X, self.t))])
        return self if remaining.all() else self.take(remaining)

    def find_rows(self, X: Array, t: Array | None = None) -> list[int | None]:
        """Return a row for each of the points `X` (n, d), or None; no row is returned twice.

        The first row of a point comes first; with times `t` (n,), the first row of the point's time.
        """
        if len(X) == 1:  # the usual case: one of many pending points
            rows = (self.X == X).all(axis=1).nonzero()[0].tolist()
            rows_of_time = (row for row in rows if t is None or self.t[row] == t[0])
            return [next(rows_of_time, rows[0] if rows else None)]
        keys = row_keys(X)
        rows_by_key: dict[bytes, list[int]] = {key: [] for key in keys}
        for row, key in enumerate(row_keys(self.X)):
            if key in rows_by_key:
                rows_by_key[key].append(row)
        result: list[int | None] = []
        for i, key in enumerate(keys):
            rows = rows_by_key[key]
            of_time = (k for k, row in enumerate(rows) if t is None or self.t[row] == t[i])
            result.append(rows.pop(next(of_time, 0)) if rows else None)
        return result

    def drop(self, X: Array) -> Plays:
        """Return the plays without one row for each point of `X` (n, d), all of which must be here.

        Raises
        ------
        PlayError
            If a point has no row left; the message names the first such point.
        """
        rows = self.find_rows(X)
        if None in rows:
            missing = rows.index(None)
            raise PlayError(
                "{point} is not pending; {count} points are",
                point=X[missing],
                count=len(self) - missing,
            )
        return self.without(X)

    def without(self, X: Array, t: Array | None = None) -> Plays:
        """Return the plays without the rows that `find_rows` returns for `X` (n, d) and `t` (n,)."""
        rows = [row for row in self.find_rows(X, t) if row is not None]
        if not rows:
            return self
        remaining = np.ones(len(self.t), dtype=bool)
        remaining[rows] = False
        return self.take(remaining)


@dataclass(frozen=True)
class NewObservations:
    """The observations of one call of `tell`: rewards, and plays whose reading failed.

    Attributes
    ----------
    X : array of shape (n, d)
        All points, also those whose reading failed.
    t : array of shape (n,)
        The time of each play.
    rewards : Dataset
    failed : Plays
    """

    X: Array
    t: Array
    rewards: Dataset
    failed: Plays

    @classmethod
    def from_columns(
        cls, X: Array, t: Array, y: Array, variance: Array, trials: Array | None = None
    ) -> NewObservations:
        """Return the observations of columns that were checked; a failed reading is NaN in `y`."""
        is_reading = ~np.isnan(y)
        trials = np.zeros(len(y)) if trials is None else trials.copy()
        if np.count_nonzero(is_reading) == len(y):
            rewards = Dataset.from_columns(X.copy(), t.copy(), y, variance, trials=trials)
            return cls(X, t, rewards, Plays(X[:0], t[:0]))
        rewards = Dataset.from_columns(
            X[is_reading],
            t[is_reading],
            y[is_reading],
            variance[is_reading],
            trials=trials[is_reading],
        )
        return cls(X, t, rewards, Plays(X[~is_reading], t[~is_reading]))

    @property
    def latest_time(self) -> float:
        """Return the latest time of all plays."""
        return float(max(self.t.tolist()))

    @property
    def plays_with_trials(self) -> tuple[Array, Array]:
        """Return points (k, d) and times (k,) of proportions of trials.

        Such a proportion is the result of all plays of its point at its time.
        """
        rows = (self.rewards.trials > 0) & np.isfinite(self.rewards.trials)
        return self.rewards.X[rows], self.rewards.t[rows]


@dataclass(frozen=True)
class Expired:
    """A summary of the part of a history that is no longer stored (`Options.max_history`).

    Attributes
    ----------
    rewards, answers, failed : int
        The numbers of rewards, answers and failed plays that expired.
    until : float
        All of them are earlier than this time. A reward that arrives late may be as early and is stored.
    first : float
        The origin of stored values: the first reward of all, or the first one since a correction.
    """

    rewards: int = 0
    answers: int = 0
    failed: int = 0
    until: float = -math.inf
    first: float = math.nan


@dataclass(frozen=True)
class Record:
    """All observations and pending points of a bandit, without any model of them.

    Attributes
    ----------
    rewards, answers : Dataset
        In the sign and unit of the user.
    failed : Plays
        Plays whose reading failed.
    pending : Plays
        Points whose rewards have not arrived yet.
    time : float or None
        The latest time of a reward or a failed play.
    pending_time : float or None
        The time of the decision whose points are pending.
    expired : Expired
        A summary of the rewards, answers and failed plays that are no longer stored.
    """

    rewards: Dataset
    answers: Dataset
    failed: Plays
    pending: Plays
    time: float | None
    pending_time: float | None
    expired: Expired

    @classmethod
    def empty(cls, dimension: int) -> Record:
        """Return an empty record of points with `dimension` coordinates."""
        data, plays = Dataset.empty(dimension), Plays.empty(dimension)
        return Record(data, data, plays, plays, None, None, Expired())

    @property
    def readings(self) -> Dataset:
        """Return all rewards in the order of arrival."""
        return self.rewards

    @property
    def plays(self) -> Plays:
        """Return all plays that are not pending: failed ones first, then those with a reward."""
        return self.failed.append(self.rewards.X, self.rewards.t)

    @property
    def decision_time(self) -> float:
        """Return the time of the next decision, unless the user states another."""
        return 1.0 if self.time is None else self.time + 1.0

    def compute_update(self, new: NewObservations) -> dict[str, Any]:
        """Return the fields of the record that new observations change, with their new values."""
        # Rewards that are earlier than the pending decision do not end it.
        latest = new.latest_time
        is_pending = self.pending_time is not None and latest < self.pending_time
        failed = self.failed
        if len(failed.t):
            failed = failed.exclude(new.rewards.X, new.rewards.t)
        if len(new.failed.t):
            failed = failed.append(new.failed.X, new.failed.t)
        return {
            "rewards": self.rewards.append(new.rewards),
            "failed": failed,
            "pending": self.pending.without(new.X, new.t).exclude(*new.plays_with_trials),
            "time": latest if self.time is None else max(self.time, latest),
            "pending_time": self.pending_time if is_pending else None,
        }

    def compute_expiry(self, until: float) -> dict[str, Any]:
        """Return the fields of the record that change if all before the time `until` expires."""
        parts = {name: getattr(self, name) for name in ("rewards", "answers", "failed")}
        remaining = {name: part.take(part.t >= until) for name, part in parts.items()}
        counts = {
            name: getattr(self.expired, name) + len(part) - len(remaining[name])
            for name, part in parts.items()
        }
        first = self.expired.first if self.expired.rewards else float(self.rewards.y[0])
        return {**remaining, "expired": Expired(**counts, until=until, first=first)}

    def compute_padding(self, count: int) -> dict[str, Any]:
        """Return the fields that contain points, with `count` more coordinates of each, all 0."""
        names = ("rewards", "answers", "failed", "pending")
        return {name: getattr(self, name).add_coordinates(count) for name in names}


def _check_source(source: ArrayLike | None, n: int) -> NDArray[np.uint8]:
    """Return the codes (n,) of the sources of `n` rows; a `ValueError` names an invalid one."""
    if source is None:
        return np.full(n, Source.REWARD, dtype=np.uint8)
    codes = as_column(source, n, "source")
    # Checked before the cast, which would turn 257 into 1 and 0.7 into 0.
    unknown = ~np.isin(codes, [code.value for code in Source])
    if unknown.any():
        raise ValueError(f"source must be one of {list(Source)}, got {codes[unknown][0]:g}")
    return codes.astype(np.uint8)


_COLUMNS = ("X", "t", "y", "variance", "source", "trials")


def _from_checked(*columns: NDArray[Any]) -> Dataset:
    """Return the data set of columns that were checked before, without checking them again."""
    data = object.__new__(Dataset)
    for column in columns:
        column.setflags(write=False)
    object.__setattr__(data, "__dict__", dict(zip(_COLUMNS, columns, strict=True)))
    return data

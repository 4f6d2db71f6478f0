"""Observations as frozen columns that are checked once, and helpers for frozen values and rows."""

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
    """Return a frozen value with other fields, faster than `dataclasses.replace` and without checks.

    What is cached with the value stays behind. The names of the fields are not checked either.

    Examples
    --------
    >>> from tvbandits.data import Expired, replace_fields
    >>> print(replace_fields(Expired(rewards=2), answers=1))
    Expired(rewards=2, answers=1, failed=0, until=-inf, first=nan)
    """
    copy, parts = object.__new__(type(value)), value.__dict__ | fields
    for name in _names_of_cached(type(value)):  # type: ignore[arg-type]  # classes are hashable
        parts.pop(name, None)
    object.__setattr__(copy, "__dict__", parts)
    return copy


@cache
def _names_of_cached(kind: type) -> list[str]:
    parts = (part for base in kind.__mro__ for part in vars(base).items())
    return [name for name, part in parts if isinstance(part, cached_property)]


# --- rows -----------------------------------------------------------------------------------------


def row_keys(X: Array) -> list[bytes]:
    """Return the bytes of each row (n, d), by which equal rows are found; -0.0 counts as 0.0."""
    raw, width = (X + 0.0).tobytes(), X.itemsize * X.shape[1]
    return [raw[i : i + width] for i in range(0, len(raw), width)]


def step_of(t: Array) -> float:
    """Return the median gap between different times `t`; 1 if there is only one time."""
    gaps = np.diff(np.unique(t))
    return float(np.median(gaps)) if len(gaps) else 1.0


def at_times(X: Array, t: Array | float) -> Array:
    """Return [X, t] (n, d + 1) of points (n, d), at one time or at their times (n,)."""
    Z = np.empty((len(X), X.shape[1] + 1))
    Z[:, :-1], Z[:, -1] = X, t
    return Z


class GrowingColumns:
    """Storage behind frozen columns that grow: a row that was written never changes.

    Columns with rows behind those of another view share its storage, so that n rows that come one by one
    cost O(n) together. A view that was overtaken (two other views were made from it) gets storage of its
    own.

    Parameters
    ----------
    columns : arrays of n rows each
        The first rows, which are copied.
    least : int
        Rows that there is to be room for.
    """

    def __init__(self, columns: tuple[NDArray[Any], ...], least: int = 0) -> None:
        self.filled = len(columns[0])
        size = max(self.filled, least)
        shape = (max(64, size + size // 2),)
        self.columns = tuple(np.empty(shape + each.shape[1:], each.dtype) for each in columns)
        for own, column in zip(self.columns, columns, strict=True):
            own[: self.filled] = column

    def append(
        self, n: int, rows: tuple[NDArray[Any], ...]
    ) -> tuple[list[NDArray[Any]], GrowingColumns]:
        """Return the first `n` rows and then others, as read-only views, and their storage."""
        end = n + len(rows[0])
        if end <= self.filled and all(map(_same_bytes, self._views(n, end), rows)):
            return self._views(0, end), self  # they were appended before, to look ahead
        storage = self
        if n != self.filled or end > len(self.columns[0]):
            storage = GrowingColumns(tuple(column[:n] for column in self.columns), end)
        for column, fresh in zip(storage.columns, rows, strict=True):
            column[n:end] = fresh
        storage.filled = end
        return storage._views(0, end), storage

    def _views(self, start: int, end: int) -> list[NDArray[Any]]:
        """Return rows of all columns, which cannot be written to."""
        views = [column[start:end] for column in self.columns]
        for each in views:
            each.setflags(write=False)
        return views


def _same_bytes(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Tell whether two arrays are equal, bit for bit; NaN equals NaN."""
    same = one.shape == other.shape and one.dtype == other.dtype
    return same and one.tobytes() == other.tobytes()


# --- observations ---------------------------------------------------------------------------------


class Source(IntEnum):
    """Who made an observation."""

    REWARD = 0
    """The bandit played the point and learned its reward."""
    EXPERT = 1
    """An expert answered a query about the point."""


@dataclass(frozen=True)
class Dataset:
    """Noisy values of a function of point and time, in the order they arrived.

    Parameters
    ----------
    X : array of shape (n, d)
        The points.
    t : array of shape (n,)
        The times the values speak about, in the user's unit of time; any order, uneven gaps.
    y : array of shape (n,)
        The values, in the user's unit of reward.
    variance : array of shape (n,)
        Noise variance of each value (unit of reward squared); positive. In the data of a bandit it is
        NaN where nobody states it, and it is learned.
    source : array of shape (n,), optional
        A `Source` for each row; all `Source.REWARD` where left out.
    trials : array of shape (n,), optional
        How many trials each value is the share of; infinite: events of an exposure were counted; 0, as
        where left out: the value was measured.

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
    """The storage behind the columns, where it has room for more."""

    def __post_init__(self) -> None:
        X = as_points(self.X)
        n = len(X)
        columns: dict[str, NDArray[Any]] = {
            "X": X,
            "t": as_times(self.t, n),
            "y": as_values(self.y, n),
            "variance": as_variances(self.variance, n),
            "source": _as_source(self.source, n),
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
        """Return observations of columns that were checked before; these become read-only."""
        sources = np.full(len(t), int(source), dtype=np.uint8)
        trials = np.zeros(len(t)) if trials is None else trials
        return _from_checked(X, t, y, variance, sources, trials)

    @classmethod
    def __restored__(
        cls, X: Array, t: Array, y: Array, variance: Array, source: NDArray[np.uint8], trials: Array
    ) -> Dataset:
        """Return the observations of a saved file."""
        missing = variance == 0
        data = cls(X, t, y, np.where(missing, 1.0, variance), source, trials)
        own = np.where(missing, np.nan, data.variance)
        return _from_checked(data.X, data.t, data.y, own, data.source, data.trials)

    def __saved__(self) -> dict[str, Any]:
        """Return the columns; in a file, 0 stands where there is no variance."""
        variance = np.where(np.isnan(self.variance), 0.0, self.variance)
        return {name: getattr(self, name) for name in _COLUMNS} | {"variance": variance}

    @classmethod
    def empty(cls, dimension: int) -> Dataset:
        """Return no observations, of points with `dimension` coordinates."""
        none = np.empty(0)
        columns = whole_number("dimension", dimension, at_most=1_000_000)
        return cls(np.empty((0, columns)), none, none, none)

    def __len__(self) -> int:
        return len(self.t)

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to unpickle it: columns that cannot be written to either."""
        return _from_checked, tuple(getattr(self, name) for name in _COLUMNS)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.X.shape[1])

    def append(self, other: Dataset) -> Dataset:
        """Return these observations with `other`'s behind them."""
        here, there = self.X.shape[1], other.X.shape[1]
        if there != here:
            raise ValueError(f"points must have {here} coordinates, got {there}")
        if len(other.t) == 0:
            return self
        own, theirs = (tuple(getattr(each, name) for name in _COLUMNS) for each in (self, other))
        columns, storage = (self.storage or GrowingColumns(own)).append(len(self.t), theirs)
        data = _from_checked(*columns)
        object.__setattr__(data, "storage", storage)
        return data

    def concatenate(self, other: Dataset) -> Dataset:
        """Return what `append` returns, in storage of its own: what is appended here is elsewhere."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in _COLUMNS)
        return _from_checked(*map(np.concatenate, pairs))

    def begins_with(self, other: Dataset) -> bool:
        """Tell whether these begin with `other`'s rows, as far as is known.

        They do where they came from `other` by `append`; at times that is not known any more.
        """
        shared = self.storage is not None and self.storage is other.storage
        return self is other or (shared and len(other.t) <= len(self.t))

    def values_at(self, plays: Array) -> Array:
        """Return the latest value (n,) of each play [x, t] (n, d + 1), NaN where there is none."""
        values = dict(zip(row_keys(at_times(self.X, self.t)), self.y, strict=True))
        return np.array([values.get(key, np.nan) for key in row_keys(plays)])

    def add_coordinates(self, columns: int) -> Dataset:
        """Return a copy with so many more coordinates, all 0."""
        X = np.pad(self.X, ((0, 0), (0, columns)))
        return _from_checked(X, self.t, self.y, self.variance, self.source, self.trials)

    def time_contrasts(self) -> Dataset:
        """Return contrasts within each time: less their mean, and as far apart as single readings.

        Of n readings that share a level, the deviations from their mean have (n - 1) / n of the variance
        of their noise; a reading that is alone at its time says nothing, and is dropped.
        """
        _, which, counts = np.unique(self.t, return_inverse=True, return_counts=True)
        n = counts[which]
        mean = np.bincount(which, self.y, len(counts))[which] / n
        return self.with_values((self.y - mean) * np.sqrt(n / np.maximum(n - 1, 1))).take(n > 1)

    def with_values(self, y: Array) -> Dataset:
        """Return a copy with other values (n,), which were checked."""
        return _from_checked(self.X, self.t, y, self.variance, self.source, self.trials)

    def take(self, rows: NDArray[Any] | slice) -> Dataset:
        """Return some rows, by an index array, a boolean mask or a slice."""
        return _from_checked(*(getattr(self, name)[rows] for name in _COLUMNS))

    def with_noise(self, variance: float | None) -> Dataset:
        """Return a copy with this variance where there is none (NaN); None changes nothing."""
        missing = np.isnan(self.variance)
        if variance is None or not np.count_nonzero(missing):
            return self
        filled = np.where(missing, variance, self.variance)
        return _from_checked(self.X, self.t, self.y, filled, self.source, self.trials)


def answers_of(X: Array, t: float, values: Array, variance: Array | None) -> Dataset:
    """Return checked answers of an expert about points (q, d) at one time; NaN are no answers.

    Without a variance it is NaN.
    """
    variance = np.full(len(values), np.nan) if variance is None else variance
    rows = ~np.isnan(values)
    times = np.full(np.count_nonzero(rows), t)
    return Dataset.from_columns(X[rows], times, values[rows], variance[rows], Source.EXPERT)


@dataclass(frozen=True)
class Outliers:
    """Observations that a robust bandit sets aside.

    Attributes
    ----------
    observations : Dataset
    rows : integer array of shape (k,)
        Which of all readings they are, in the order of their arrival.
    """

    observations: Dataset
    rows: Index

    @classmethod
    def of(cls, readings: Dataset, is_outlier: NDArray[np.bool_]) -> Outliers:
        """Return the outliers among all readings, by a mask (n,)."""
        rows = np.flatnonzero(is_outlier)
        return cls(readings.take(rows), rows)

    def __len__(self) -> int:
        return len(self.rows)

    def merge(self, rewards: Dataset) -> Dataset:
        """Return all readings, the outliers included, in the order of their arrival."""
        is_outlier = np.zeros(len(rewards) + len(self), dtype=bool)
        is_outlier[self.rows] = True
        order = np.empty(len(is_outlier), dtype=np.int64)
        order[np.flatnonzero(~is_outlier)] = np.arange(len(rewards))
        order[self.rows] = len(rewards) + np.arange(len(self))
        # In storage of its own: what is appended to the rewards later goes on in theirs.
        return rewards.concatenate(self.observations).take(order)


@dataclass(frozen=True, eq=False)
class Plays:
    """Points that were played, or are about to be, without their rewards.

    Attributes
    ----------
    X : array of shape (k, d)
    t : array of shape (k,)
        When.
    """

    X: Array
    t: Array

    def __post_init__(self) -> None:
        for column in (self.X, self.t):
            column.setflags(write=False)

    @classmethod
    def empty(cls, dimension: int) -> Plays:
        """Return no plays, of points with `dimension` coordinates."""
        return cls(np.empty((0, dimension)), np.empty(0))

    def __len__(self) -> int:
        return len(self.t)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plays) and all(
            map(np.array_equal, (self.X, self.t), (other.X, other.t))
        )

    __hash__ = None  # type: ignore[assignment]

    def append(self, X: Array, t: Array) -> Plays:
        """Return these plays with others behind them."""
        if len(t) == 0:
            return self
        return Plays(np.concatenate([self.X, X]), np.concatenate([self.t, t]))

    def take(self, rows: NDArray[np.bool_]) -> Plays:
        """Return some of the plays."""
        return Plays(self.X[rows], self.t[rows])

    def add_coordinates(self, columns: int) -> Plays:
        """Return a copy with so many more coordinates, all 0."""
        return Plays(np.pad(self.X, ((0, 0), (0, columns))), self.t)

    def exclude(self, X: Array, t: Array) -> Plays:
        """Return the plays without those of the same point and time as one of `X` (n, d), `t` (n,)."""
        if not len(self.t):
            return self
        theirs = set(row_keys(at_times(X, t)))
        stays = np.array([key not in theirs for key in row_keys(at_times(self.X, self.t))])
        return self if stays.all() else self.take(stays)

    def rows_of(self, X: Array, t: Array | None = None) -> list[int | None]:
        """Return the row of each of the points `X` (n, d), or None; each row counts once, in order.

        With times `t` (n,), rows of these times come before others of the same point.
        """
        if len(X) == 1:  # of many that are pending, as nearly always
            rows = (self.X == X).all(axis=1).nonzero()[0].tolist()
            at = (row for row in rows if t is None or self.t[row] == t[0])
            return [next(at, rows[0] if rows else None)]
        keys = row_keys(X)
        waiting: dict[bytes, list[int]] = {key: [] for key in keys}
        for row, key in enumerate(row_keys(self.X)):
            if key in waiting:
                waiting[key].append(row)
        result: list[int | None] = []
        for i, key in enumerate(keys):
            rows = waiting[key]
            of_time = (k for k, row in enumerate(rows) if t is None or self.t[row] == t[i])
            result.append(rows.pop(next(of_time, 0)) if rows else None)
        return result

    def drop(self, X: Array) -> Plays:
        """Return the plays without points `X` (n, d), as `without`, if all of them are here.

        Raises
        ------
        PlayError
            If one is not; the message names the first one.
        """
        rows = self.rows_of(X)
        if None in rows:
            missing = rows.index(None)
            raise PlayError(
                "{point} is not pending; {count} points are",
                point=X[missing],
                count=len(self) - missing,
            )
        return self.without(X)

    def without(self, X: Array, t: Array | None = None) -> Plays:
        """Return the plays without a row for each point `X` (n, d) at time `t` (n,), as in `rows_of`."""
        rows = [row for row in self.rows_of(X, t) if row is not None]
        if not rows:
            return self
        stays = np.ones(len(self.t), dtype=bool)
        stays[rows] = False
        return self.take(stays)


@dataclass(frozen=True)
class NewObservations:
    """The content of one `tell`: rewards, and points that were played without a reading.

    Attributes
    ----------
    X : array of shape (n, d)
        All points.
    t : array of shape (n,)
    rewards : Dataset
    failed : Plays
    """

    X: Array
    t: Array
    rewards: Dataset
    failed: Plays

    @classmethod
    def of(
        cls, X: Array, t: Array, y: Array, variance: Array, trials: Array | None = None
    ) -> NewObservations:
        """Return those of columns that were checked; NaN in `y` where there was no reading."""
        is_reading = ~np.isnan(y)
        trials = np.zeros(len(y)) if trials is None else trials.copy()
        if np.count_nonzero(is_reading) == len(y):
            rewards = Dataset.from_columns(X.copy(), t.copy(), y, variance, trials=trials)
            return cls(X, t, rewards, Plays(X[:0], t[:0]))
        X_read, t_read, y, variance, trials = (
            each[is_reading] for each in (X, t, y, variance, trials)
        )
        rewards = Dataset.from_columns(X_read, t_read, y, variance, trials=trials)
        return cls(X, t, rewards, Plays(X[~is_reading], t[~is_reading]))

    @property
    def latest(self) -> float:
        """The latest time of all."""
        return float(max(self.t.tolist()))

    @property
    def counted(self) -> tuple[Array, Array]:
        """Points and times of shares of trials: each reports all plays of its point and time."""
        rows = (self.rewards.trials > 0) & np.isfinite(self.rewards.trials)
        return self.rewards.X[rows], self.rewards.t[rows]


@dataclass(frozen=True)
class Expired:
    """The part of a history that is not stored any more (`Options.max_history`), in numbers.

    Attributes
    ----------
    rewards, answers, failed : int
        How many of each.
    until : float
        The time before which they were; a late reward may be as old, and stored.
    first : float
        The reward that values are counted from: the first of all, or since a correction.
    """

    rewards: int = 0
    answers: int = 0
    failed: int = 0
    until: float = -math.inf
    first: float = math.nan


@dataclass(frozen=True)
class Record:
    """All observations, of a bandit's state or of a journal: without any beliefs.

    Attributes
    ----------
    rewards, answers : Dataset
        In the sign and unit of the user.
    failed : Plays
        Points that were played without a reading.
    pending : Plays
        Points whose rewards have not come yet.
    time : float or None
        The latest time of a reward or a failed play.
    pending_time : float or None
        The time of the decision whose points are pending.
    expired : Expired
        What is no longer among rewards, answers and failed plays.
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
        none, no_plays = Dataset.empty(dimension), Plays.empty(dimension)
        return Record(none, none, no_plays, no_plays, None, None, Expired())

    @property
    def readings(self) -> Dataset:
        """All rewards in the order of their arrival."""
        return self.rewards

    @property
    def plays(self) -> Plays:
        """All plays whose rewards have come, or failed: those without a reading first."""
        return self.failed.append(self.rewards.X, self.rewards.t)

    @property
    def decision_time(self) -> float:
        """The time of the next decision, if nobody says another."""
        return 1.0 if self.time is None else self.time + 1.0

    def changes_from(self, new: NewObservations) -> dict[str, Any]:
        """Return the fields of the record that new observations change."""
        # A late reward does not take the time of the decision that is still pending.
        latest = new.latest
        is_pending = self.pending_time is not None and latest < self.pending_time
        failed = self.failed
        if len(failed.t):
            failed = failed.exclude(new.rewards.X, new.rewards.t)
        if len(new.failed.t):
            failed = failed.append(new.failed.X, new.failed.t)
        return {
            "rewards": self.rewards.append(new.rewards),
            "failed": failed,
            "pending": self.pending.without(new.X, new.t).exclude(*new.counted),
            "time": latest if self.time is None else max(self.time, latest),
            "pending_time": self.pending_time if is_pending else None,
        }

    def changes_by_expiry(self, until: float) -> dict[str, Any]:
        """Return the fields of the record that change if all before a time expires."""
        parts = {name: getattr(self, name) for name in ("rewards", "answers", "failed")}
        stored = {name: each.take(each.t >= until) for name, each in parts.items()}
        counts = {
            name: getattr(self.expired, name) + len(each) - len(stored[name])
            for name, each in parts.items()
        }
        first = self.expired.first if self.expired.rewards else float(self.rewards.y[0])
        return {**stored, "expired": Expired(**counts, until=until, first=first)}

    def with_coordinates(self, columns: int) -> dict[str, Any]:
        """Return the fields of the record with so many more coordinates of points, all 0."""
        names = ("rewards", "answers", "failed", "pending")
        return {name: getattr(self, name).add_coordinates(columns) for name in names}


def _as_source(source: ArrayLike | None, n: int) -> NDArray[np.uint8]:
    if source is None:
        return np.full(n, Source.REWARD, dtype=np.uint8)
    codes = as_column(source, n, "source")
    # Compared before the cast, which would wrap 257 around to 1 and cut 0.7 to 0.
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

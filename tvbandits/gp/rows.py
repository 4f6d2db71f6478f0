"""What a posterior is conditioned on, which observations share an input, and where it is wanted.

A `CandidateGrid` holds the fixed points at which it is wanted again and again, with what is kept of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tvbandits.arrays import at_times, row_keys
from tvbandits.data import Room, changed
from tvbandits.gp.kernels.structure import advance, is_space_time
from tvbandits.validation import Array, Index

# An observation whose noise variance exceeds the largest prior variance by this factor cannot move
# the posterior by one rounding error; it is left out, so a long discounted history costs nothing.
NEGLIGIBLE = 1e16


@dataclass(frozen=True)
class Data:
    """What a posterior is conditioned on.

    Attributes
    ----------
    Z : array of shape (n, p)
        Kernel inputs: points, or points and times for a space-time kernel.
    Y : array of shape (n, c)
        Value columns.
    variance : array of shape (n,)
        Finite positive noise variances.
    levels : integer array of shape (n,), optional
        Numbers: rows of one number share a level that nobody knows, and that is none of what is learned.
    """

    Z: Array
    Y: Array
    variance: Array
    levels: Index | None = None
    room: Room | None = field(default=None, init=False, repr=False, compare=False)
    """Storage behind the columns, where it has room for more."""

    def __reduce__(self) -> tuple[object, ...]:
        """Only the rows are stored."""
        return Data, (self.Z, self.Y, self.variance, self.levels)

    def __len__(self) -> int:
        return len(self.Z)

    def __iter__(self) -> Iterator[Array]:
        return iter((self.Z, self.Y, self.variance))

    def starts_with(self, other: Data, skip: int = 0) -> bool:
        """Whether these rows begin with `other`'s rows from `skip` on, bit for bit."""
        m = len(other.Z) - skip
        return (
            len(self.Z) >= m
            and np.array_equal(self.variance[:m], other.variance[skip:])
            and np.array_equal(self.Z[:m], other.Z[skip:])
            and np.array_equal(self.Y[:m], other.Y[skip:])
        )

    def beyond(self, other: Data) -> Data | None:
        """The rows that `other` lacks, in their order; None where it has rows that are not here."""
        if self.starts_with(other):
            return self.rows(len(other))
        here, there = (np.column_stack(tuple(each)) for each in (self, other))
        n = min(len(self), len(other))
        differ = np.flatnonzero((here[:n] != there[:n]).any(axis=1))
        start = int(differ[0]) if len(differ) else n
        left = Counter(row.tobytes() for row in there[start:])
        fresh = []
        for i in range(start, len(self)):
            key = here[i].tobytes()
            if left[key] == 0:
                fresh.append(i)
            else:
                left[key] -= 1
        return None if left.total() else Data(self.Z[fresh], self.Y[fresh], self.variance[fresh])

    @property
    def apart(self) -> Array:
        """What tells apart rows that are no repeats (n, p): inputs, and levels."""
        return self.Z if self.levels is None else np.column_stack([self.Z, self.levels])

    def append(self, other: Data) -> Data:
        """These rows and then `other`'s, in storage that is shared where it can be."""
        own, theirs = (self.Z, self.Y, self.variance), (other.Z, other.Y, other.variance)
        (Z, Y, variance), room = (self.room or Room(own)).grown(len(self.Z), theirs)
        made = Data(Z, Y, variance)
        object.__setattr__(made, "room", room)
        return made

    def row(self, i: int) -> Data:
        """Row i alone."""
        return self.rows(i, i + 1)

    def rows(self, start: int, end: int | None = None) -> Data:
        """The rows from `start` on, to before `end`."""
        return Data(self.Z[start:end], self.Y[start:end], self.variance[start:end])

    def in_time(self) -> Data:
        """The same rows, the earlier first; itself where they are so already."""
        times = self.Z[:, -1]
        if len(times) < 2 or (times[1:] >= times[:-1]).all():
            return self
        order = np.argsort(times, kind="stable")
        return Data(self.Z[order], self.Y[order], self.variance[order])

    def since(self, t: float) -> Data:
        """The rows, which are in order of time, from that time on."""
        return self.rows(int(np.searchsorted(self.Z[:, -1], t)))


def without_negligible(kernel: Any, data: Data) -> Data:
    """Leave out the observations that are too noisy to move the posterior at all."""
    if len(data.Z) == 0:
        return data
    heard = data.variance <= NEGLIGIBLE * float(np.max(kernel.diag(data.Z)))
    if heard.all():
        return data
    levels = None if data.levels is None else data.levels[heard]
    return Data(data.Z[heard], data.Y[heard], data.variance[heard], levels)


# Prior variance of a level beyond that of what is read; its mean is taken off before.
WIDE = 1e6


def level_noise(levels: Index, variance: Array, prior: float) -> Array:
    """What levels that nobody knows add to the noise covariance (n, n) of readings.

    Parameters
    ----------
    levels : integer array of shape (n,)
    variance : array of shape (n,)
    prior : float
        Variance of what is read.
    """
    known = np.bincount(levels, 1.0 / variance)[levels]
    return np.where(levels[:, None] == levels, WIDE * (prior + 1.0 / known), 0.0)


def without_levels(groups: Array | Index, values: Array, variance: Array) -> Array:
    """Columns (n, c) less their means by precision over those of their group, such as their time."""
    _, levels = np.unique(groups, return_inverse=True)
    total = np.bincount(levels, 1.0 / variance)
    means = [np.bincount(levels, column / variance) / total for column in values.T]
    return np.asarray(values - np.column_stack(means)[levels])


@dataclass(frozen=True)
class Groups:
    """Which observations share an input.

    Attributes
    ----------
    Z : array of shape (n, p)
        Kernel inputs.
    group : integer array of shape (n,)
        Number of the input of each row, in order of first appearance.
    first : integer array of shape (u,)
        The row in which each input appears first.
    keys : mapping of bytes to int
        Numbers by input.
    """

    Z: Array
    group: Index
    first: Index
    keys: Mapping[bytes, int]

    @classmethod
    def of(cls, Z: Array, previous: Groups | None = None) -> Groups:
        """Group `Z`; only the rows behind those of `previous` are looked at, if it begins with them."""
        known = 0 if previous is None else len(previous.Z)
        if previous is None or known > len(Z) or not np.array_equal(Z[:known], previous.Z):
            previous, known = _UNGROUPED, 0
        keys, fresh = dict(previous.keys), row_keys(Z[known:])
        group = [keys.setdefault(key, len(keys)) for key in fresh]
        numbers = np.concatenate([previous.group, np.array(group, dtype=np.int64)])
        rows = dict(zip(reversed(group), range(len(Z) - 1, known - 1, -1), strict=True))
        first = [rows[number] for number in range(len(previous.first), len(keys))]
        return cls(Z, numbers, np.append(previous.first, np.array(first, dtype=np.int64)), keys)

    def merge(self, data: Data) -> Data:
        """Join observations of one input: precisions add up, values average by precision.

        Returns the joined rows in order of first appearance.
        """
        if len(self.first) == len(self.group):
            return data
        precision = 1.0 / data.variance
        total = np.bincount(self.group, precision)
        Y = np.empty((len(total), data.Y.shape[1]))
        for column, y in enumerate(data.Y.T):
            Y[:, column] = np.bincount(self.group, precision * y) / total
        levels = None if data.levels is None else data.levels[self.first]
        return Data(data.Z[self.first], Y, 1.0 / total, levels)


_UNGROUPED = Groups(np.empty((0, 0)), np.empty(0, np.int64), np.empty(0, np.int64), {})


# --- the fixed points ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class AppendBuffer:
    """The first rows of shared storage; `append` returns a longer view.

    A view never changes: rows are written only behind the last one that any view has seen, and a
    view that was overtaken (two appends to the same view) gets storage of its own.

    Attributes
    ----------
    storage : array of shape (capacity, columns)
        Behind many views; rows that are written never change again.
    free : list of int
        The number of the first row that is not written. Who takes it out may write that row, and puts
        the next one back; an interrupt in between leaves it empty, and nobody writes here any more.
    array : array of shape (n, columns), or (n, n) where square
        The rows, without a copy.
    square : bool
        Rows and columns grow together, for triangular factors.
    """

    storage: Array = field(repr=False, compare=False)
    free: list[int] = field(repr=False, compare=False)
    array: Array = field(repr=False, compare=False)
    square: bool = False

    @classmethod
    def of(cls, rows: Array, *, square: bool = False) -> AppendBuffer:
        """A copy of `rows` with room behind it."""
        n = len(rows)
        capacity = max(16, n + n // 2)
        storage = np.zeros((capacity, capacity if square else rows.shape[1]))
        storage[:n, : rows.shape[1]] = rows
        return cls(storage, [n], storage[:n, : n if square else None], square)

    def append(self, row: Array) -> AppendBuffer:
        """These rows and one more, of shape (columns,), or (n + 1,) where square."""
        storage, free, n = self.storage, self.free, len(self.array)
        try:
            free.remove(n if n < len(storage) else -1)
        except ValueError:  # it is taken, or there is none
            storage, free = AppendBuffer.of(self.array, square=self.square).storage, []
        storage[n, : len(row)] = row
        free.append(n + 1)
        view = storage[: n + 1, : n + 1 if self.square else None]
        return AppendBuffer(storage, free, view, self.square)

    def __reduce__(self) -> tuple[object, ...]:
        """Only the rows of this view are stored."""
        return AppendBuffer.__restored__, (self.array.copy(), self.square)

    def __saved__(self) -> dict[str, object]:
        """As `__reduce__`."""
        return {"rows": self.array.copy(), "square": self.square}

    @classmethod
    def __restored__(cls, rows: Array, square: bool) -> AppendBuffer:
        return cls.of(rows, square=square)


T = TypeVar("T")


class CandidateGrid:
    """The fixed points at which a posterior is wanted again and again, and kernel rows to them.

    Rows of a kernel that does not see time are kept: each input is evaluated once.

    Parameters
    ----------
    kernel : scikit-learn kernel
    points : array of shape (A, d)
    """

    def __init__(self, kernel: Any, points: Array) -> None:
        self.kernel, self.points = kernel, points
        self.space_time = is_space_time(kernel)
        # Which rows are known, and they: one value, so that neither is ever there without the other.
        self._known: tuple[dict[bytes, int], AppendBuffer] = (
            {},
            AppendBuffer.of(np.empty((0, len(points)))),
        )
        self._remembered: dict[Any, Any] = {}

    def __saved__(self) -> dict[str, Any]:
        """Without what is kept, which is computed again."""
        return {"kernel": self.kernel, "points": self.points}

    def at(self, now: float) -> Array:
        """Kernel inputs of the points at the time `now`."""
        if not self.space_time:
            return self.points
        return at_times(self.points, now)

    def prior_variance(self, now: float) -> Array:
        """k(x, x) at the points, shape (A,)."""
        return np.asarray(self.kernel.diag(self.at(now)))

    @cached_property
    def largest_prior(self) -> float:
        """No input of an observation has a larger prior variance; infinite where that is not known."""
        known = not self.space_time and self.kernel.is_stationary()
        return float(self.prior_variance(0.0).max()) if known else math.inf

    def rows(self, Z: Array, now: float) -> Array:
        """Kernel rows k(Z, points at now), shape (n, A), in an array of their own."""
        if self.space_time:
            return np.array(self.kernel(Z, self.at(now)), order="C")
        keys = row_keys(Z)
        where, known = self._known
        fresh = [key for key in dict.fromkeys(keys) if key not in where]
        if fresh:
            rows = self.kernel(np.array([np.frombuffer(key) for key in fresh]), self.points)
            where = dict(where)
            for key, row in zip(fresh, rows, strict=True):
                where[key] = len(known.array)
                known = known.append(row)
            self._known = (where, known)
        return known.array[[where[key] for key in keys]]

    def among(self, Z: Array, across: Array) -> Array:
        """k(Z, Z) (n, n), in an array of its own: of k(Z, points) (n, A), where they are points."""
        where = [] if self.space_time else [self._points_by_key.get(key) for key in row_keys(Z)]
        if None in where or len(where) < len(Z):
            return np.array(self.kernel(Z))
        return across[:, np.array(where, dtype=np.int64)]

    def index(self, x: Array) -> int | None:
        """Which of the points `x` (d,) is, if any."""
        return self._points_by_key.get((x + 0.0).tobytes())

    def holds(self, keys: Iterable[bytes]) -> bool:
        """Whether all inputs, given as the bytes of their coordinates, are points of the surface."""
        return self._points_by_key.keys() >= set(keys)

    def remember(self, make: Callable[[CandidateGrid], T]) -> T:
        """`make(self)`, computed once."""
        if make not in self._remembered:
            self._remembered[make] = make(self)
        found: T = self._remembered[make]
        return found

    @cached_property
    def _points_by_key(self) -> dict[bytes, int]:
        return {key: i for i, key in enumerate(row_keys(self.points))}


@dataclass(frozen=True)
class GridPosterior:
    """A posterior's view of the fixed points: V = L^-1 k(Z, points), and what follows from it.

    All of it speaks about the time `now`; for a kernel that only shrinks covariances as time goes on,
    later times cost one number (`shrink`), which multiplies every row of V.
    """

    V: AppendBuffer
    now: float
    shrink: float
    means: Array  # (A, c): V^T L^-1 Y, without `shrink`
    explained: Array  # (A,): squared column lengths of V, without `shrink`
    prior: Array  # (A,)

    @classmethod
    def of(cls, V: Array, weights: Array, prior: Array, now: float) -> GridPosterior:
        """Of V (n, A) and L^-1 Y (n, c)."""
        explained = np.einsum("ij,ij->j", V, V)
        return cls(AppendBuffer.of(V), now, 1.0, V.T @ weights, explained, prior)

    def moved(self, surface: CandidateGrid, Z: Array, now: float) -> GridPosterior | None:
        """The same for a later time, if the kernel allows it; `Z` are the inputs of the rows."""
        if now == self.now:
            return self
        if not surface.space_time:
            return replace(self, now=now)
        # Inputs that were in the future of `self.now` do not all shrink by one number.
        later = now > self.now and Z[:, -1].max(initial=-math.inf) <= self.now
        factor = advance(surface.kernel, now - self.now) if later else None
        if factor is None:
            return None
        moved = changed(self, now=now, shrink=self.shrink * factor)
        return moved._rescaled() if moved.shrink < 1e-6 else moved

    def _rescaled(self) -> GridPosterior:
        """Fold `shrink` into the rows, so that new rows need not be divided by a tiny number."""
        return changed(
            self,
            V=AppendBuffer.of(self.V.array * self.shrink),
            shrink=1.0,
            means=self.means * self.shrink,
            explained=self.explained * self.shrink**2,
        )

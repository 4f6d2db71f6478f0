"""What a posterior is conditioned on, and which observations share an input."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array, Index, row_keys
from tvbandits.core.observations import Room

NEGLIGIBLE = 1e16
"""An observation whose noise variance exceeds the largest prior variance by this factor cannot move
the posterior by one rounding error; it is left out, so a long discounted history costs nothing."""


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

    def joined(self, other: Data) -> Data:
        """As `append`, in storage of their own."""
        Z, Y, variance = map(np.concatenate, zip(self, other, strict=True))
        return Data(Z, Y, variance)

    def row(self, i: int) -> Data:
        """Row i alone."""
        return Data(self.Z[i : i + 1], self.Y[i : i + 1], self.variance[i : i + 1])

    def rows(self, start: int, end: int | None = None) -> Data:
        """The rows from `start` on, to before `end`."""
        return Data(self.Z[start:end], self.Y[start:end], self.variance[start:end])

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


WIDE = 1e6
"""Prior variance of a level beyond that of what is read; its mean is taken off before."""


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
        keys, first, group = dict(previous.keys), previous.first.tolist(), []
        for row, key in enumerate(row_keys(Z[known:]), start=known):
            number = keys.setdefault(key, len(keys))
            if number == len(first):
                first.append(row)
            group.append(number)
        numbers = np.concatenate([previous.group, np.array(group, dtype=np.int64)])
        return cls(Z, numbers, np.array(first, dtype=np.int64), keys)

    def merge(self, data: Data) -> tuple[Data, Array]:
        """Join observations of one input: precisions add up, values average by precision.

        Returns the joined rows in order of first appearance, and the log density (c,) of the values
        within their groups, which the joined rows no longer hold.
        """
        if len(self.first) == len(self.group):
            return data, np.zeros(data.Y.shape[1])
        precision = 1.0 / data.variance
        total = np.bincount(self.group, precision)
        Y = np.empty((len(total), data.Y.shape[1]))
        for column, y in enumerate(data.Y.T):
            Y[:, column] = np.bincount(self.group, precision * y) / total
        misfit = (precision[:, None] * (data.Y - Y[self.group]) ** 2).sum(axis=0)
        constant = np.log(2 * math.pi * data.variance).sum() - np.log(2 * math.pi / total).sum()
        levels = None if data.levels is None else data.levels[self.first]
        return Data(data.Z[self.first], Y, 1.0 / total, levels), -0.5 * (misfit + constant)


_UNGROUPED = Groups(np.empty((0, 0)), np.empty(0, np.int64), np.empty(0, np.int64), {})

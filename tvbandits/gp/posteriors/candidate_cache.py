"""The fixed points at which a posterior is wanted again and again, and what is kept about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tvbandits.core.arrays import Array, row_keys
from tvbandits.gp.kernels.structure import advance, inputs, is_space_time


@dataclass(frozen=True)
class _Buffer:
    """Storage behind many views; rows that are written never change again.

    `free` holds the number of the first row that is not. Who takes it out may write that row, and puts
    the next one back; an interrupt in between leaves it empty, and nobody writes here any more.
    """

    data: Array
    free: list[int]


@dataclass(frozen=True)
class AppendBuffer:
    """The first `n` rows of a shared buffer; `append` returns a longer view.

    A view never changes: rows are written only behind the last one that any view has seen, and a
    view that was overtaken (two appends to the same view) gets a buffer of its own.

    Attributes
    ----------
    n : int
    array : array of shape (n, columns), or (n, n) where square
        The rows, without a copy.
    square : bool
        Rows and columns grow together, for triangular factors.
    """

    buffer: _Buffer = field(repr=False, compare=False)
    n: int
    array: Array = field(repr=False, compare=False)
    square: bool = False

    @classmethod
    def of(cls, rows: Array, *, square: bool = False) -> AppendBuffer:
        """A copy of `rows` with room behind it."""
        n = len(rows)
        capacity = max(16, n + n // 2)
        width = capacity if square else rows.shape[1]
        data = np.zeros((capacity, width))
        data[:n, : rows.shape[1]] = rows
        return cls(_Buffer(data, [n]), n, data[:n, : n if square else None], square)

    def append(self, row: Array) -> AppendBuffer:
        """These rows and one more, of shape (columns,), or (n + 1,) where square."""
        buffer, n = self.buffer, self.n + 1
        try:
            free = buffer.free.pop()
        except IndexError:
            free = -1
        if free != self.n or n > len(buffer.data):  # it is taken, or there is none
            if free >= 0:
                buffer.free.append(free)
            buffer = AppendBuffer.of(self.array, square=self.square).buffer
            buffer.free.clear()
        buffer.data[self.n, : len(row)] = row
        buffer.free.append(n)
        return AppendBuffer(buffer, n, buffer.data[:n, : n if self.square else None], self.square)

    def __reduce__(self) -> tuple[object, ...]:
        """Only the rows of this view are stored."""
        return _rebuilt, (self.array.copy(), self.square)

    def __saved__(self) -> dict[str, object]:
        """As `__reduce__`."""
        return {"rows": self.array.copy(), "square": self.square}

    @classmethod
    def __restored__(cls, rows: Array, square: bool) -> AppendBuffer:
        return cls.of(rows, square=square)


def _rebuilt(rows: Array, square: bool) -> AppendBuffer:
    return AppendBuffer.of(rows, square=square)


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
        return inputs(self.kernel, self.points, np.full(len(self.points), now))

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
                where[key] = known.n
                known = known.append(row)
            self._known = (where, known)
        return known.array[[where[key] for key in keys]]

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
        moved = replace(self, now=now, shrink=self.shrink * factor)
        return moved._rescaled() if moved.shrink < 1e-6 else moved

    def _rescaled(self) -> GridPosterior:
        """Fold `shrink` into the rows, so that new rows need not be divided by a tiny number."""
        return replace(
            self,
            V=AppendBuffer.of(self.V.array * self.shrink),
            shrink=1.0,
            means=self.means * self.shrink,
            explained=self.explained * self.shrink**2,
        )

    def appended(self, row: Array, weights: Array) -> GridPosterior:
        """With one more row of V (speaking about `now`) and its weights (c,)."""
        row = row / self.shrink
        return replace(
            self,
            V=self.V.append(row),
            means=self.means + row[:, None] * weights,
            explained=self.explained + row**2,
        )

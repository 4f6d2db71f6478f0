"""Append-only arrays that frozen values can share: appending a row costs the row, not a copy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tvbandits.observations import Array


@dataclass
class _Buffer:
    """Storage behind many views; the first `filled` rows are written and never change again."""

    data: Array
    filled: int


@dataclass(frozen=True)
class GrowingRows:
    """The first `n` rows of a shared buffer; `append` returns a longer view.

    A view never changes: rows are written only behind the last one that any view has seen, and a
    view that was overtaken (two appends to the same view) gets a buffer of its own.

    Attributes
    ----------
    square : bool
        Rows and columns grow together, for triangular factors.
    """

    buffer: _Buffer = field(repr=False, compare=False)
    n: int
    square: bool = False

    @classmethod
    def of(cls, rows: Array, *, square: bool = False) -> GrowingRows:
        """A copy of `rows` with room behind it."""
        n = len(rows)
        capacity = max(16, n + n // 2)
        width = capacity if square else rows.shape[1]
        data = np.zeros((capacity, width))
        data[:n, : rows.shape[1]] = rows
        return cls(_Buffer(data, n), n, square)

    @property
    def array(self) -> Array:
        """The rows, without a copy: shape (n, columns), or (n, n) where square."""
        return self.buffer.data[: self.n, : self.n if self.square else None]

    def append(self, row: Array) -> GrowingRows:
        """These rows and one more, of shape (columns,), or (n + 1,) where square."""
        grown = self
        if self.buffer.filled != self.n or self.n == len(self.buffer.data):
            grown = GrowingRows.of(self.array, square=self.square)
        buffer = grown.buffer
        buffer.data[self.n, : len(row)] = row
        buffer.filled = self.n + 1
        return GrowingRows(buffer, self.n + 1, self.square)

    def __reduce__(self) -> tuple[object, ...]:
        """Only the rows of this view are stored."""
        return _rebuilt, (self.array.copy(), self.square)


def _rebuilt(rows: Array, square: bool) -> GrowingRows:
    return GrowingRows.of(rows, square=square)

"""The sets of points a bandit may play, and how to find the best of them.

`Candidates` is a finite set, searched exactly; `Box` a product of intervals, searched by sampling,
evolution and refinement in vectorised calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from tvbandits.core.arrays import Array, Index, as_points, whole_number
from tvbandits.core.box_search import (
    Acquisition,
    _argmax,
    _boundary,
    _search,
    _sobol,
    checked_values,
)

LARGEST_GRID = 10_000_000
"""Most points of a grid."""


MOST_SAMPLES = 2**20
"""Most points of a box's first sample, and most of its starts."""


TOLERANCE = 1e-9
"""How far off a point may be, relative to the domain's extent along each coordinate."""


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """A finite set of points, searched exactly.

    Parameters
    ----------
    X : array of shape (A, d)
        The candidates: at least one, no two of them equal. A read-only copy is kept.

    Raises
    ------
    ValueError
        If `X` is not a finite matrix with a row and a column, or has two equal rows.
    """

    X: Array

    def __post_init__(self) -> None:
        X = as_points(self.X, name="candidates") + 0.0  # turns -0.0 into 0.0: equal sets hash alike
        if X.size == 0:
            raise ValueError(f"candidates must have a row and a column, got shape {X.shape}")
        order = np.lexsort(X.T)
        repeated = (X[order[1:]] == X[order[:-1]]).all(axis=1)
        if repeated.any():
            at = int(repeated.argmax())
            first, again = sorted((int(order[at]), int(order[at + 1])))
            raise ValueError(
                f"candidates must differ, but row {again} repeats row {first}: {X[again].tolist()}"
            )
        X.setflags(write=False)
        object.__setattr__(self, "X", X)

    @classmethod
    def grid(cls, bounds: ArrayLike, points_per_axis: int | Sequence[int]) -> Candidates:
        """Regular grid over `bounds` (d, 2), ends included; the last coordinate runs fastest."""
        intervals = as_bounds(bounds)
        given = np.asarray(points_per_axis)
        if given.shape not in ((), (len(intervals),)):
            raise ValueError(
                f"points_per_axis must be a whole number or {len(intervals)} of them, "
                f"got {points_per_axis!r}"
            )
        counts = [
            whole_number("points_per_axis", count, at_most=LARGEST_GRID)
            for count in np.broadcast_to(given, (len(intervals),))
        ]
        if math.prod(counts) > LARGEST_GRID:
            raise ValueError(
                f"points_per_axis makes {math.prod(counts)} points, more than {LARGEST_GRID}: "
                "take a Box, or fewer points"
            )
        axes = [np.linspace(a, b, n) for (a, b), n in zip(intervals, counts, strict=True)]
        return cls(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        return f"Candidates({len(self)} points, d={self.dimension})"

    def __len__(self) -> int:
        return len(self.X)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        return np.array_equal(self.X, other.X)

    def __hash__(self) -> int:
        return hash((self.X.shape, self.X.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Candidates, (self.X,)  # the search tree is rebuilt where it is needed

    @cached_property
    def _extent(self) -> Array:
        """Extent of the set along each coordinate, (d,); the size of the numbers where it is 0."""
        extent = np.ptp(self.X, axis=0)
        size = np.abs(self.X).max(axis=0)
        # Of a set with a wide offset and a tiny extent, rounding decides what can be told apart.
        floor = np.where(extent > 0, 16 * np.finfo(float).eps / TOLERANCE * size, size)
        extent = np.maximum(extent, floor)
        return np.asarray(np.where(extent > 0, extent, 1.0))

    @cached_property
    def _tree(self) -> cKDTree[None, Any]:
        return cKDTree(self.X / self._extent)

    @cached_property
    def _row_by_bytes(self) -> dict[bytes, int]:
        return {point.tobytes(): row for row, point in enumerate(self.X)}

    def index(self, X: ArrayLike, name: str = "X") -> Index:
        """Row of each point in the set, shape (n,), within 1e-9 of the extent of each coordinate.

        `ValueError` names the first point that is no candidate, and its nearest candidate.
        """
        points = as_points(X, self.dimension, name)
        if len(points) <= 64 and len(self) <= 50_000:
            # A bandit plays candidates bit for bit: a look into a table spares the search tree.
            found = [self._row_by_bytes.get(point.tobytes()) for point in points]
            if None not in found:
                return np.array(found, dtype=np.int64)
        distance, nearest = map(np.asarray, self._tree.query(points / self._extent, p=np.inf))
        outside = distance > TOLERANCE
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{name} must be candidates, but {points[row].tolist()} in row {row} is none; "
                f"the nearest candidate is {self.X[nearest[row]].tolist()}"
            )
        return np.asarray(nearest, dtype=np.int64)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as the candidates it names, free of rounding; see `index`."""
        return self.X[self.index(X, name)]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """`n` candidates drawn uniformly, with replacement, shape (n, d)."""
        return self.X[rng.integers(len(self), size=n)]

    def best_of(self, values: ArrayLike, rng: np.random.Generator) -> int:
        """Row of the largest of `values` (A,); one of the exactly equal ones, drawn by `rng`."""
        return _argmax(checked_values(values, self.X), rng)

    def maximise(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """The candidate (d,) of largest acquisition, and that value; ties are broken by `rng`."""
        values = checked_values(acquisition(self.X), self.X)
        best = _argmax(values, rng)
        return self.X[best].copy(), float(values[best])


def as_bounds(bounds: ArrayLike) -> Array:
    """Return `bounds` as a float array of shape (d, 2) with low < high in every row."""
    intervals = as_points(bounds, 2, name="bounds")
    if len(intervals) == 0:
        raise ValueError("bounds must have at least one row, got shape (0, 2)")
    empty = ~(intervals[:, 0] < intervals[:, 1])
    if empty.any():
        row = int(empty.argmax())
        raise ValueError(f"bounds must have low < high, got {intervals[row].tolist()} in row {row}")
    return intervals


@dataclass(frozen=True, eq=False)
class Box:
    """A product of closed intervals, searched to a tolerance.

    Parameters
    ----------
    bounds : array of shape (d, 2)
        Lowest and highest value of each coordinate. A read-only copy is kept.
    samples : int, optional
        Points of the first sample, rounded up to a power of two; by default 512, 1024, 2048, ...
        for d = 1, 2, 3, ..., at most 16,384.
    starts : int, optional
        Points that are refined; by default 4 + 4 d.

    Raises
    ------
    ValueError
        If `bounds` is not a finite (d, 2) matrix with low < high, or a count is not positive.

    Notes
    -----
    `maximise` takes about 100 calls of the acquisition: 1,000 to 2,000 points at d = 1, 2,000 to
    5,000 at d = 2, 25,000 to 40,000 at d = 6. Its accuracy is not known beyond d = 6.
    """

    bounds: Array
    samples: int | None = None
    starts: int | None = None

    def __post_init__(self) -> None:
        bounds = as_bounds(self.bounds)
        bounds.setflags(write=False)
        object.__setattr__(self, "bounds", bounds)
        for name, count in (("samples", self.samples), ("starts", self.starts)):
            if count is not None:
                whole_number(name, count, at_most=MOST_SAMPLES)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.bounds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        counts = (self.samples, self.starts) == (other.samples, other.starts)
        return counts and np.array_equal(self.bounds, other.bounds)

    def __hash__(self) -> int:
        return hash((tuple(self.bounds.ravel().tolist()), self.samples, self.starts))

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d), moved inside where it is out by less than 1e-9 of an interval.

        `ValueError` names the first point that is outside by more.
        """
        points = as_points(X, self.dimension, name)
        low, high = self.bounds.T
        slack = TOLERANCE * (high - low)
        outside = ((points < low - slack) | (points > high + slack)).any(axis=1)
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{name} must be inside the box {self.bounds.tolist()}, "
                f"got {points[row].tolist()} in row {row}"
            )
        return np.asarray(np.clip(points, low, high))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """`n` points drawn uniformly, shape (n, d)."""
        return self._scaled(rng.random((n, self.dimension)))

    def maximise(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """The point (d,) of largest acquisition found, and that value; ties are broken by `rng`.

        A randomly shifted Sobol sample with the corners and a part of it pushed to the boundary,
        then differential evolution of the best of it, then gradient ascent from the best
        well-separated points of both. On a plateau the point is a random one of the sample.
        """

        def evaluate(U: Array) -> Array:
            X = self._scaled(U)
            return checked_values(acquisition(X), X)

        d = self.dimension
        samples = min(256 << d, 16_384) if self.samples is None else self.samples
        interior = _sobol(d, samples, rng)
        values = evaluate(interior)
        best = _argmax(values, rng)
        if values[best] > values.min() and np.isfinite(values[best]):
            U = np.concatenate([interior, _boundary(interior, rng)])
            values = np.concatenate([values, evaluate(U[len(interior) :])])
            found, height = _search(evaluate, U, values, self.starts or 4 + 4 * d, rng)
            # A maximum that the sample had already is a plateau: keep the uniformly drawn point.
            if height > values[best]:
                return self._scaled(found[None, :])[0], height
        return self._scaled(interior[[best]])[0], float(values[best])

    def _scaled(self, U: Array) -> Array:
        """Points of the box from points of the unit cube; 0 and 1 become the bounds exactly."""
        low, high = self.bounds.T
        return np.asarray(np.clip(low * (1.0 - U) + high * U, low, high))

"""A finite set of points, searched exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.core.arrays import Array, Index, as_floats, as_points, whole_number
from tvbandits.core.box import TOLERANCE, as_bounds
from tvbandits.core.box_search import Acquisition, _argmax, checked_values
from tvbandits.core.coercion import shown
from tvbandits.core.context import as_measured, joined
from tvbandits.core.parameters import Category, Parameter

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

LARGEST_GRID = 10_000_000
"""Most points of a grid."""


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """A finite set of points, searched exactly.

    Parameters
    ----------
    X : array of shape (A, d)
        The candidates: at least one, no two of them equal. A read-only copy is kept.
    context : sequence of int, or mapping of str to parameters, optional
        Columns that are given by the world when a point is to be chosen, not chosen with it. A mapping
        such as `{"outside": (-15, 20)}`: what is measured then, further coordinates of any value; this
        makes `CandidatesInContext`.
    retired : sequence of int, optional
        Rows that are not played any more; what was read there still tells about the others.

    Raises
    ------
    ValueError
        If `X` is not a finite matrix with a row and a column, or has two equal rows; or `context` is
        not made of different columns of it, with at least one left to choose.

    Examples
    --------
    >>> from tvbandits import Candidates
    >>> grid = Candidates.grid([(0, 10), (0, 4)], points_per_axis=5)
    >>> print(grid.X.shape, grid.index([[2.5, 1.0]]))
    (25, 2) [6]
    """

    X: Array
    context: Sequence[int] = ()
    retired: Sequence[int] = ()

    def __new__(cls, X: Any = None, context: Any = (), retired: Any = ()) -> Any:  # noqa: D102
        if cls is Candidates and isinstance(context, Mapping):
            return CandidatesInContext(Candidates(X, retired=retired), context)
        return super().__new__(cls)

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
        context = _as_numbers("context", self.context, X.shape[1], "column", "to choose")
        object.__setattr__(self, "context", context)
        retired = _as_numbers("retired", self.retired, len(X), "row", "to play")
        object.__setattr__(self, "retired", retired)

    @classmethod
    def grid(cls, bounds: ArrayLike, points_per_axis: int | Sequence[int]) -> Candidates:
        """Regular grid over `bounds` (d, 2), ends included; the last coordinate runs fastest."""
        intervals = as_bounds(bounds)
        given = _counts(points_per_axis)
        if given.shape not in ((), (len(intervals),)):
            raise ValueError(
                f"points_per_axis must be a whole number or {len(intervals)} of them, "
                f"got {shown(points_per_axis)}"
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
        context = f", context={list(self.context)}" if self.context else ""
        retired = f", {len(self.retired)} of them retired" if self.retired else ""
        return f"Candidates({len(self)} points, d={self.dimension}{context}{retired})"

    def __len__(self) -> int:
        return len(self.X)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        same = self.context == other.context and self.retired == other.retired
        return same and np.array_equal(self.X, other.X)

    def __hash__(self) -> int:
        return hash((self.X.shape, self.X.tobytes(), self.context, self.retired))

    def __reduce__(self) -> tuple[Any, ...]:
        return Candidates, (
            self.X,
            self.context,
            self.retired,
        )  # the search tree is rebuilt where it is needed

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
        from scipy.spatial import cKDTree

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

    def with_retired(self, X: Array) -> Candidates:
        """These candidates, and behind them those of `X` (n, d) that are none, each once, as retired."""
        apart, _ = self._tree.query(X / self._extent, p=np.inf)
        gone = np.unique(X[np.asarray(apart) > TOLERANCE], axis=0)
        rows = range(len(self), len(self) + len(gone))
        return Candidates(np.concatenate([self.X, gone]), self.context, (*self.retired, *rows))

    def rows_of(self, context: ArrayLike) -> Index:
        """Rows of the candidates of a context, in their order, shape (m,) with m >= 1.

        Parameters
        ----------
        context : array of shape (c,)
            A value for each context column, in the order of `self.context`; a number where there is
            one. They are met within 1e-9 of the extent of a column.

        Raises
        ------
        ValueError
            If there are no context columns or another number of them, or no candidate has these values;
            the message names the nearest context.
        """
        columns = list(self.context)
        if not columns:
            raise ValueError(
                f"candidates without context columns have no context, got {shown(context)}"
            )
        given = np.atleast_1d(as_floats(context, "context"))
        if given.size != len(columns) or given.ndim > 2:
            raise ValueError(f"context must have shape ({len(columns)},), got {given.shape}")
        values = as_points(given.ravel(), len(columns), "context")
        away = np.abs(self.X[:, columns] - values) / self._extent[columns]
        distance = away.max(axis=1)
        rows = np.flatnonzero(distance <= TOLERANCE)
        if len(rows) == 0:
            nearest = self.X[distance.argmin(), columns]
            raise ValueError(
                f"no candidate has the context {values[0].tolist()} in columns {columns}; "
                f"the nearest context is {nearest.tolist()}"
            )
        return np.asarray(rows, dtype=np.int64)

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


@dataclass(frozen=True, init=False, repr=False)
class CandidatesInContext:
    """Candidates, at any value of what is measured when one of them is chosen.

    A point is a candidate with the columns of the context behind it.

    Attributes
    ----------
    chosen : Candidates
    measured : mapping of str to parameters

    Examples
    --------
    >>> from tvbandits import Candidates
    >>> domain = Candidates([[0.0], [1.0]], context={"outside": (-15, 20)})
    >>> print(domain, domain.dimension)
    CandidatesInContext(2 points, d=1, context=['outside']) 2
    """

    chosen: Candidates
    measured: Mapping[str, Parameter]

    def __init__(self, chosen: Candidates, measured: Mapping[str, Any]) -> None:
        object.__setattr__(self, "chosen", chosen)
        given = as_measured(measured)
        for name, part in given.items():
            if isinstance(part, Category):
                raise ValueError(
                    f"{name} must be numbers: a Space has contexts of words, got {part}"
                )
        object.__setattr__(self, "measured", given)

    def __repr__(self) -> str:
        points = f"{len(self.chosen)} points, d={self.chosen.dimension}"
        return f"CandidatesInContext({points}, context={list(self.measured)})"

    def __hash__(self) -> int:
        return hash((self.chosen, tuple(self.measured.items())))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point, those of the context included."""
        return self.chosen.dimension + sum(part.width for part in self.measured.values())

    @property
    def bounds(self) -> Array:
        """Lowest and highest value of each coordinate, (d, 2); 1 apart where all candidates agree."""
        X = self.chosen.X
        low, high = X.min(axis=0), X.max(axis=0)
        ranges = [(part.low, part.high) for part in self.measured.values()]  # type: ignore[union-attr]
        return np.vstack([np.column_stack([low, np.where(high > low, high, low + 1.0)]), ranges])

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as candidates and contexts, free of rounding."""
        points = as_points(X, self.dimension, name)
        start = self.chosen.dimension
        columns = [self.chosen.check(points[:, :start], name)]
        for key, part in self.measured.items():
            given = points[:, start : start + part.width]
            columns.append(part.columns(part.codes(given, key)))
            start += part.width
        return np.hstack(columns)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """`n` points drawn uniformly, with replacement, shape (n, d)."""
        parts = self.measured.values()
        drawn = [part.columns(part.from_unit(rng.random(n))) for part in parts]
        return np.hstack([self.chosen.sample(n, rng), *drawn])

    def at(self, values: Array) -> Candidates:
        """All candidates at one value of the context, as columns (c,)."""
        return Candidates(joined(self.chosen.X, values), retired=self.chosen.retired)

    def maximise(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """The point (d,) of largest acquisition among the candidates at 64 values drawn."""
        width = self.dimension - self.chosen.dimension
        found = [
            self.at(values).maximise(acquisition, rng)
            for values in self.sample(64, rng)[:, -width:]
        ]
        return max(found, key=lambda each: each[1])


def candidates_of(domain: object) -> Candidates | None:
    """The candidates that a domain chooses from, whatever the context; None of any other domain."""
    if isinstance(domain, CandidatesInContext):
        return domain.chosen
    return domain if isinstance(domain, Candidates) else None


def _counts(points_per_axis: object) -> NDArray[Any]:
    """What was given as counts; of no shape that is welcome if it is no flat sequence."""
    try:
        return np.asarray(points_per_axis)
    except ValueError:  # nested unevenly, or too deeply
        return np.empty((0, 0))


def _as_numbers(name: str, given: object, count: int, kind: str, purpose: str) -> tuple[int, ...]:
    """Different columns or rows out of `count`, not all of them."""
    several = isinstance(given, Sequence) or (isinstance(given, np.ndarray) and given.ndim > 0)
    parts: tuple[Any, ...] = tuple(given) if several else (given,)  # type: ignore[arg-type]
    for part in parts:
        whole = isinstance(part, int | np.integer) and not isinstance(part, bool | np.timedelta64)
        if not whole or not 0 <= part < count:
            raise ValueError(
                f"{name} must be {kind} numbers from 0 to {count - 1}, got {shown(part)}"
            )
    numbers = tuple(map(int, parts))
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{name} must be different {kind}s, got {list(numbers)}")
    if len(numbers) == count:
        raise ValueError(f"{name} must leave a {kind} {purpose}, got all {count} of them")
    return numbers

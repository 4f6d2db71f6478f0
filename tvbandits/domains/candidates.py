"""A finite set of points, searched exactly."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.arrays import checked_values, row_keys, row_of_largest
from tvbandits.domains.box import TOLERANCE, as_bounds
from tvbandits.domains.box_search import Acquisition
from tvbandits.domains.context import INSTEAD_OF_WORDS, as_measured, joined
from tvbandits.domains.parameters import Category, Parameter
from tvbandits.domains.rows import HeldRows, Rows, keys_of, rows_elsewhere
from tvbandits.errors import PlayError
from tvbandits.validation import (
    Array,
    Index,
    as_floats,
    as_points,
    as_rows,
    describe,
    is_whole,
    require,
    settle,
    several,
    whole_number,
)

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

# Most points of a grid.
LARGEST_GRID = 10_000_000


# So many points are looked for one by one, where there is no table of all.
MOST_PLAYED = 64

# Of more candidates there is no table: a point is looked for in block after block.
MOST_INDEXED = 50_000


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """A finite set of points, searched exactly.

    Parameters
    ----------
    X : array of shape (A, d), Dask array, or path of a .npy file
        The candidates: at least one, no two of them equal. Of an array, such as a memory map that fits
        into memory, a read-only copy is kept. All else is read in blocks when it is looked at
        (`tvbandits.domains.rows`), for upper confidence bounds on `Nystrom`: `tvbandits.policies.bbkb`,
        `bkb`, or `gp_ucb(..., posterior="nystrom")`. That rows differ is then taken on trust. The
        chunks of a Dask array are computed by the current client when they are looked at.
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

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            X: ArrayLike | str | os.PathLike[str] | Rows,
            context: Sequence[int] | Mapping[str, Any] = (),
            retired: Sequence[int] = (),
        ) -> None: ...

    def __new__(cls, *given: Any, **named: Any) -> Any:  # noqa: D102
        context = given[1] if len(given) > 1 else named.get("context")
        if cls is Candidates and isinstance(context, Mapping) and context:
            X: Any = given[0] if given else named.get("X")
            retired = given[2] if len(given) > 2 else named.get("retired", ())
            return CandidatesInContext(Candidates(X, retired=retired), context)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        X: Any = rows_elsewhere(self.X)
        if X is None:
            X = _different(as_points(self.X, name="candidates"))
        count, dimension = X.shape
        context = _some_of("context", self.context, dimension, "column to choose")
        retired = _some_of("retired", self.retired, count, "row to play")
        settle(self, X=X, context=context, retired=retired)

    @classmethod
    def grid(cls, bounds: ArrayLike, points_per_axis: int | Sequence[int]) -> Candidates:
        """Return a regular grid over `bounds` (d, 2), ends included; the last column runs fastest."""
        intervals = as_bounds(bounds)
        d, name, given = len(intervals), "points_per_axis", points_per_axis
        needs = "a whole number, or one for each axis"
        each = [given] * d if is_whole(given) else several(name, given, needs)
        require(len(each) == d, name, needs, given)
        counts = [whole_number(name, n, at_most=LARGEST_GRID) for n in each]
        needs = f"for at most {LARGEST_GRID} points: take a Box, or fewer points"
        require(math.prod(counts) <= LARGEST_GRID, name, needs, given)
        axes = [np.linspace(a, b, n) for (a, b), n in zip(intervals, counts, strict=True)]
        return cls(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.X.shape[1])

    @cached_property
    def held(self) -> bool:
        """Whether all candidates are in memory, as `X`."""
        return isinstance(self.X, np.ndarray)

    @cached_property
    def rows(self) -> Rows:
        """The candidates in blocks."""
        X: Any = self.X
        return HeldRows(X) if self.held else X

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """First row, and points (n, d), of each block."""
        starts = np.cumsum([0, *self.rows.sizes])
        for number, start in enumerate(starts[:-1].tolist()):
            yield start, self.rows.read(number, slice(None))

    def _of_all(self, function: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate a function of points (m, d) at all candidates, shape (A,)."""
        if self.held:
            return function(self.X)
        return np.concatenate([function(X) for _, X in self.blocks()])

    def _points_at(self, rows: Index) -> Array:
        """Points (n, d) of some rows."""
        if self.held:
            return self.X[rows]
        starts = np.cumsum([0, *self.rows.sizes])
        X = np.empty((len(rows), self.dimension))
        of = np.searchsorted(starts, rows, side="right") - 1
        for number in np.unique(of).tolist():
            here = of == number
            X[here] = self.rows.read(number, rows[here] - starts[number])
        return X

    def __repr__(self) -> str:
        context = f", context={list(self.context)}" if self.context else ""
        retired = f", {len(self.retired)} of them retired" if self.retired else ""
        return f"Candidates({len(self)} points, d={self.dimension}{context}{retired})"

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        same = self.context == other.context and self.retired == other.retired
        if not (self.held and other.held):
            return same and self.rows == other.rows
        return same and np.array_equal(self.X, other.X)

    def __hash__(self) -> int:
        content = self.X.tobytes() if self.held else self.X
        return hash((self.X.shape, content, self.context, self.retired))

    def __reduce__(self) -> tuple[Any, ...]:
        # The search tree is rebuilt where it is needed.
        return type(self).__restored__, tuple(self.__saved__().values())

    def __saved__(self) -> dict[str, Any]:
        return {"X": self.X, "context": self.context, "retired": self.retired}

    @classmethod
    def __restored__(
        cls, X: Array | Rows, context: Sequence[int], retired: Sequence[int]
    ) -> Candidates:
        kept: Any = X
        return cls(kept, context, retired)

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """Lowest and highest value of each coordinate, (d,) each."""
        ends = [(X.min(axis=0), X.max(axis=0)) for _, X in self.blocks()]
        return np.min([a for a, _ in ends], axis=0), np.max([b for _, b in ends], axis=0)

    @property
    def bounds(self) -> Array:
        """Lowest and highest value of each coordinate, (d, 2); 1 apart where all candidates agree."""
        low, high = self.ends
        return np.column_stack([low, np.where(high > low, high, low + 1.0)])

    @cached_property
    def _extent(self) -> Array:
        """Extent of the set along each coordinate, (d,); the size of the numbers where it is 0."""
        low, high = self.ends
        extent, size = high - low, np.maximum(np.abs(low), np.abs(high))
        # Of a set with a wide offset and a tiny extent, rounding decides what can be told apart.
        floor = np.where(extent > 0, 16 * np.finfo(float).eps / TOLERANCE * size, size)
        extent = np.maximum(extent, floor)
        return np.asarray(np.where(extent > 0, extent, 1.0))

    @cached_property
    def _tree(self) -> cKDTree[None, Any]:
        from scipy.spatial import cKDTree

        return cKDTree(self.X / self._extent)

    @cached_property
    def _all_known(self) -> bool:
        """Whether a table has the rows of all of them."""
        return self.held and len(self) <= MOST_INDEXED

    @cached_property
    def _known(self) -> dict[bytes, int]:
        """Rows by the bytes of their points: of all, or of so many candidates of what was played."""
        if not self._all_known:
            return {}
        return {key: row for row, key in enumerate(row_keys(self.X))}

    def index(self, X: ArrayLike, name: str = "X") -> Index:
        """Return the row of each point, shape (n,), within 1e-9 of the extent of each coordinate.

        `ValueError` names the first point that is no candidate, and its nearest candidate.
        """
        points = as_points(X, self.dimension, name) + 0.0
        rows = np.array([self._known.get(key, -1) for key in row_keys(points)], dtype=np.int64)
        if (rows < 0).any() and not self._all_known:
            # A table of all is what there is no room for: what was played is known, all else looked for.
            keys, first, of_key = np.unique(keys_of(points), return_index=True, return_inverse=True)
            found = np.full(len(keys), -1)
            for start, block in self.blocks():
                of_block = keys_of(block)
                there = np.flatnonzero(np.isin(of_block, keys))
                at = np.searchsorted(keys, of_block[there])
                same = (block[there] == points[first[at]]).all(axis=1)
                found[at[same]] = start + there[same]
            rows = found[of_key]
            self._remember(rows[rows >= 0], points[rows >= 0])
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            distance, rows[unknown] = self._nearest(points[unknown])
            if (distance > TOLERANCE).any():
                row = unknown[(distance > TOLERANCE).argmax()]
                raise PlayError(
                    "{name} must be candidates, but {point} in row {row} is none; "
                    "the nearest candidate is {nearest}",
                    name=name,
                    point=points[row],
                    row=row,
                    nearest=self._points_at(rows[[row]])[0],
                )
        return rows

    def _remember(self, rows: Index, X: Array) -> None:
        """Remember the rows of points (n, d) that are about to be played, since they come again.

        Some of them may: a table of all candidates is what there is no room for.
        """
        if self._all_known:
            return
        if len(self._known) + len(rows) > MOST_INDEXED:
            self._known.clear()
        self._known.update(
            zip(row_keys(X[:MOST_INDEXED]), rows[:MOST_INDEXED].tolist(), strict=True)
        )

    def _nearest(self, X: Array) -> tuple[Array, Index]:
        """How far the nearest candidate is from each of points (n, d), in extents, and its row."""
        if self._all_known or (self.held and len(X) > MOST_PLAYED):
            apart, rows = self._tree.query(X / self._extent, p=np.inf)
            return np.asarray(apart), np.asarray(rows, dtype=np.int64)
        distance, nearest = np.full(len(X), np.inf), np.zeros(len(X), dtype=np.int64)
        for start, block in self.blocks():
            for i, x in enumerate(X):
                away = np.abs((block - x) / self._extent).max(axis=1)
                if away.min() < distance[i]:
                    distance[i], nearest[i] = away.min(), start + away.argmin()
        return distance, nearest

    def rows_of(self, context: Any) -> Index:
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
            raise ValueError(f"candidates have no context columns, got context={describe(context)}")
        given = np.atleast_1d(as_floats(context, "context"))
        if given.size != len(columns) or given.ndim > 2:
            raise ValueError(f"context must have shape ({len(columns)},), got {given.shape}")
        values = as_points(given.ravel(), len(columns), "context")
        away = (np.abs(X[:, columns] - values) / self._extent[columns] for _, X in self.blocks())
        distance = np.concatenate([each.max(axis=1) for each in away])
        rows = np.flatnonzero(distance <= TOLERANCE)
        if len(rows) == 0:
            nearest = self._points_at(np.array([distance.argmin()]))[0, columns]
            raise ValueError(
                f"no candidate has the context {values[0].tolist()} in columns {columns}; "
                f"the nearest context is {nearest.tolist()}"
            )
        return np.asarray(rows, dtype=np.int64)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as the candidates it names, free of rounding; see `index`."""
        points = as_points(X, self.X.shape[1], name) + 0.0
        # A bandit plays candidates bit for bit: a look into a table spares the search tree.
        if all(point.tobytes() in self._known for point in points):
            return points
        return self._points_at(self.index(points, name))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` candidates drawn uniformly, with replacement, shape (n, d)."""
        return self._points_at(rng.integers(len(self), size=n))

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the candidate (d,) of largest acquisition, and that value; `rng` breaks ties."""
        if self.held:
            values = acquisition(self.X)
        else:
            values = self._of_all(lambda X: checked_values(acquisition(X), X))
        best = row_of_largest(values, self.X, rng)
        x = self.X[best].copy() if self.held else self._points_at(np.array([best]))[0]
        return x, float(values[best])


def _different(X: Array) -> Array:
    """Candidates (A, d) in memory, free of -0.0, so that equal sets hash alike, and read-only.

    Rows are compared where their keys are equal: a sort of keys takes an eighth of the memory.
    """
    if X.size == 0:
        raise ValueError(f"candidates must have a row and a column, got shape {X.shape}")
    X += 0.0
    _, first, which = np.unique(keys_of(X), return_index=True, return_inverse=True)
    rows, like = np.arange(len(X)), first[which]
    again = rows[like < rows]
    again = again[(X[again] == X[like[again]]).all(axis=1)]
    if len(again):
        repeat = f"row {again[0]} repeats row {like[again[0]]}"
        raise ValueError(f"candidates must differ, but {repeat}: {X[again[0]].tolist()}")
    X.setflags(write=False)
    return X


@dataclass(frozen=True, init=False, repr=False)
class CandidatesInContext:
    """Candidates together with a context that is measured when one of them is chosen.

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
        if not chosen.held:
            raise ValueError(f"candidates in a measured context must be in memory, got {chosen.X}")
        given = as_measured(measured)
        for name, part in given.items():
            if isinstance(part, Category):
                raise ValueError(
                    f"{name} must be numbers; {INSTEAD_OF_WORDS}; got {describe(part)}"
                )
        settle(self, chosen=chosen, measured=given)

    def __repr__(self) -> str:
        points = f"{len(self.chosen)} points, d={self.chosen.dimension}"
        return f"CandidatesInContext({points}, context={list(self.measured)})"

    def __hash__(self) -> int:
        return hash((self.chosen, tuple(self.measured.items())))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point, those of the context included."""
        return self.chosen.dimension + len(self.measured)

    @property
    def bounds(self) -> Array:
        """Lowest and highest value of each coordinate, (d, 2)."""
        ranges = [(part.low, part.high) for part in self.measured.values()]  # type: ignore[union-attr]
        return np.vstack([self.chosen.bounds, ranges])

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as candidates and contexts, free of rounding."""
        points = as_points(X, self.dimension, name)
        start = self.chosen.dimension
        parts = zip(self.measured.items(), points[:, start:].T, strict=True)
        codes = [part.codes(column[:, None], key) for (key, part), column in parts]
        return np.column_stack([self.chosen.check(points[:, :start], name), *codes])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly, with replacement, shape (n, d)."""
        drawn = [part.from_unit(rng.random(n)) for part in self.measured.values()]
        return np.column_stack([self.chosen.sample(n, rng), *drawn])

    def _at(self, values: Array) -> Candidates:
        """All candidates at one value of the context, as columns (c,)."""
        return Candidates(joined(self.chosen.X, values), retired=self.chosen.retired)

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """The point (d,) of largest acquisition among the candidates at 64 values drawn."""
        contexts = self.sample(64, rng)[:, self.chosen.dimension :]
        found = [self._at(values).maximize(acquisition, rng) for values in contexts]
        return max(found, key=lambda each: each[1])


def rows_apart(X: Array) -> Candidates:
    """Some rows of other candidates, which are known to differ."""
    made = object.__new__(Candidates)
    made.__dict__.update(X=X, context=(), retired=())
    return made


def with_retired(chosen: Candidates, X: Array) -> Candidates:
    """The candidates, and behind them those of `X` (n, d) that are none, each once, as retired."""
    gone = np.unique(X[chosen._nearest(X)[0] > TOLERANCE], axis=0)
    rows = range(len(chosen), len(chosen) + len(gone))
    return Candidates(np.concatenate([chosen.X, gone]), chosen.context, (*chosen.retired, *rows))


def with_others(domain: object, chosen: Candidates) -> Candidates | CandidatesInContext:
    """Return the domain with other candidates, in its measured context, if it has one."""
    if isinstance(domain, CandidatesInContext):
        return CandidatesInContext(chosen, domain.measured)
    return chosen


def candidates_of(domain: object) -> Candidates | None:
    """Return the candidates that a domain chooses from; None if it chooses from something else."""
    if isinstance(domain, CandidatesInContext):
        return domain.chosen
    return domain if isinstance(domain, Candidates) else None


def as_finite(domain: object, who: str) -> Candidates:
    """Return `domain` if it is made of candidates; a `ValueError` names who needs that.

    Examples
    --------
    >>> from tvbandits import Candidates
    >>> from tvbandits.domains.candidates import as_finite
    >>> print(as_finite(Candidates([[0.0], [1.0]]), "expected improvement"))
    Candidates(2 points, d=1)
    """
    if not isinstance(domain, Candidates):
        raise ValueError(f"{who} needs a finite domain: give Candidates, got {describe(domain)}")
    return domain


def _some_of(name: str, given: Sequence[int], count: int, left: str) -> tuple[int, ...]:
    """Different columns or rows out of `count`, not all of them."""
    numbers = as_rows(given, count, name)
    if len(numbers) == count:
        raise ValueError(f"{name} must leave a {left}, got all {count} of them")
    return tuple(numbers.tolist())

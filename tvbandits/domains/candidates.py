"""A finite set of points, searched exactly."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.data import row_keys
from tvbandits.domains.domain import (
    INSTEAD_OF_WORDS,
    Acquisition,
    Domain,
    append_context,
    as_context_parameters,
    context_row,
)
from tvbandits.domains.parameters import TOLERANCE, Category, Parameter, as_bounds
from tvbandits.domains.rows import MemoryRows, Rows, keys_of, rows_outside_memory
from tvbandits.errors import PlayError
from tvbandits.ties import acquisition_argmax, check_acquisition, first_argmax
from tvbandits.validation import (
    Array,
    Index,
    as_floats,
    as_list,
    as_points,
    as_rows,
    check_function as check_function,
    describe,
    is_whole,
    require,
    set_fields,
    whole_number,
)

if TYPE_CHECKING:
    from scipy.spatial import cKDTree


@dataclass(frozen=True, eq=False, repr=False)
class Candidates(Domain):
    """A finite set of points, searched exactly.

    Parameters
    ----------
    X : array of shape (A, d), Dask array, or path of a .npy file
        The candidates: at least one, no two of them equal. Of an array, such as a memory map that fits
        into memory, a read-only copy is kept. All else is read in blocks when it is looked at
        (`tvbandits.domains.rows`), for upper confidence bounds on `Nystrom`: `tvbandits.policies.bbkb`,
        `bkb`, or `gp_ucb` with `Options(posterior="nystrom")`. That rows differ is then taken on trust.
        The chunks of a Dask array are computed by the current client when they are looked at.
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

    # Of more candidates there is no table of rows: a point is looked for in block after block.
    largest_table: ClassVar[int] = 50_000
    # So many points are looked for one by one where there is no table, and more by a search tree.
    most_one_by_one: ClassVar[int] = 64

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            X: ArrayLike | str | os.PathLike[str] | Rows,
            context: Sequence[int] | Mapping[str, Any] = (),
            retired: Sequence[int] = (),
        ) -> None: ...

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        context = args[1] if len(args) > 1 else kwargs.get("context")
        if cls is Candidates and isinstance(context, Mapping) and context:
            X: Any = args[0] if args else kwargs.get("X")
            retired = args[2] if len(args) > 2 else kwargs.get("retired", ())
            return CandidatesInContext(Candidates(X, retired=retired), context)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        X: Any = rows_outside_memory(self.X)
        if X is None:
            X = _check_distinct(as_points(self.X, name="candidates"))
        count, dimension = X.shape
        context = _check_part("context", self.context, dimension, "column to choose")
        retired = _check_part("retired", self.retired, count, "row to play")
        set_fields(self, X=X, context=context, retired=retired)

    @classmethod
    def grid(cls, bounds: ArrayLike, points_per_axis: int | Sequence[int]) -> Candidates:
        """Return a regular grid over `bounds` (d, 2), ends included; the last column runs fastest."""
        intervals = as_bounds(bounds)
        d, name, largest = len(intervals), "points_per_axis", 10_000_000
        needs = "a whole number, or one for each axis"
        single = is_whole(points_per_axis)
        each = [points_per_axis] * d if single else as_list(name, points_per_axis, needs)
        require(len(each) == d, name, needs, points_per_axis)
        counts = [whole_number(name, n, at_most=largest) for n in each]
        needs = f"for at most {largest} points: take a Box, or fewer points"
        require(math.prod(counts) <= largest, name, needs, points_per_axis)
        axes = [np.linspace(a, b, n) for (a, b), n in zip(intervals, counts, strict=True)]
        return cls(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.X.shape[1])

    @property
    def context_columns(self) -> tuple[int, ...]:
        """Columns that are given by the world when a point is to be chosen."""
        return tuple(self.context)

    @property
    def active(self) -> Array:
        """The points (n, d) that are not retired."""
        return self.points_at(np.setdiff1d(np.arange(len(self)), self.retired))

    @cached_property
    def in_memory(self) -> bool:
        """Whether all candidates are in memory, as `X`."""
        return isinstance(self.X, np.ndarray)

    @cached_property
    def rows(self) -> Rows:
        """The candidates in blocks."""
        X: Any = self.X
        return MemoryRows(X) if self.in_memory else X

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield the number of the first row, and the points (n, d), of each block."""
        starts = np.cumsum([0, *self.rows.sizes])
        for number, start in enumerate(starts[:-1].tolist()):
            yield start, self.rows.read(number, slice(None))

    def evaluate(self, function: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
        """Return the values (A,) of a function of points (m, d) at all candidates."""
        check_function("function", function)
        if self.in_memory:
            return function(self.X)
        return np.concatenate([function(X) for _, X in self.blocks()])

    def points_at(self, rows: Index) -> Array:
        """Return the points (n, d) of some rows."""
        if self.in_memory:
            return self.X[rows]
        starts = np.cumsum([0, *self.rows.sizes])
        X = np.empty((len(rows), self.dimension))
        block_of = np.searchsorted(starts, rows, side="right") - 1
        for number in np.unique(block_of).tolist():
            here = block_of == number
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
        if not (self.in_memory and other.in_memory):
            return same and self.rows == other.rows
        return same and np.array_equal(self.X, other.X)

    def __hash__(self) -> int:
        content = self.X.tobytes() if self.in_memory else self.X
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
        points: Any = X
        return cls(points, context, retired)

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
    def _has_table(self) -> bool:
        """Whether there is a table of the rows of all candidates."""
        return self.in_memory and len(self) <= self.largest_table

    @cached_property
    def _row_of(self) -> dict[bytes, int]:
        """The rows by the bytes of their points: of all candidates, or of those that were played."""
        if not self._has_table:
            return {}
        return {key: row for row, key in enumerate(row_keys(self.X))}

    def index(self, X: ArrayLike, name: str = "X") -> Index:
        """Return the row of each point, shape (n,), within 1e-9 of the extent of each coordinate.

        `ValueError` names the first point that is no candidate, and its nearest candidate.
        """
        points = as_points(X, self.dimension, name) + 0.0
        rows = np.array([self._row_of.get(key, -1) for key in row_keys(points)], dtype=np.int64)
        if (rows < 0).any() and not self._has_table:
            # A table of all does not fit: the rows of what was played are known, all else is looked for.
            rows = self._find_in_blocks(points)
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
                    nearest=self.points_at(rows[[row]])[0],
                )
        return rows

    def _find_in_blocks(self, X: Array) -> Index:
        """Return the rows (n,) of candidates that equal points (n, d), -1 where there is none."""
        keys, first, of_key = np.unique(keys_of(X), return_index=True, return_inverse=True)
        rows = np.full(len(keys), -1)
        for start, block in self.blocks():
            of_block = keys_of(block)
            there = np.flatnonzero(np.isin(of_block, keys))
            at = np.searchsorted(keys, of_block[there])
            same = (block[there] == X[first[at]]).all(axis=1)
            rows[at[same]] = start + there[same]
        return rows[of_key]

    def _remember(self, rows: Index, X: Array) -> None:
        """Remember the rows of points (n, d) that are about to be played, since they come again.

        They are remembered where there is no table of all candidates, and only so many.
        """
        if self._has_table:
            return
        if len(self._row_of) + len(rows) > self.largest_table:
            self._row_of.clear()
        self._row_of.update(
            zip(row_keys(X[: self.largest_table]), rows[: self.largest_table].tolist(), strict=True)
        )

    def _nearest(self, X: Array) -> tuple[Array, Index]:
        """Return the distance (n,) of the nearest candidate, in extents, and its row (n,)."""
        if self._has_table or (self.in_memory and len(X) > self.most_one_by_one):
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
        row = np.atleast_1d(as_floats(context, "context"))
        if row.size != len(columns) or row.ndim > 2:
            raise ValueError(f"context must have shape ({len(columns)},), got {row.shape}")
        values = as_points(row.ravel(), len(columns), "context")
        away = (np.abs(X[:, columns] - values) / self._extent[columns] for _, X in self.blocks())
        distance = np.concatenate([each.max(axis=1) for each in away])
        rows = np.flatnonzero(distance <= TOLERANCE)
        if len(rows) == 0:
            nearest = self.points_at(np.array([distance.argmin()]))[0, columns]
            raise ValueError(
                f"no candidate has the context {values[0].tolist()} in columns {columns}; "
                f"the nearest context is {nearest.tolist()}"
            )
        return np.asarray(rows, dtype=np.int64)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as the candidates it names, free of rounding; see `index`."""
        points = as_points(X, self.X.shape[1], name) + 0.0
        # A bandit plays candidates bit for bit: a look into a table spares the search tree.
        if all(point.tobytes() in self._row_of for point in points):
            return points
        return self.points_at(self.index(points, name))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` candidates drawn uniformly, with replacement, shape (n, d)."""
        return self.points_at(rng.integers(len(self), size=n))

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the candidate (d,) of largest acquisition, and that value; `rng` breaks ties."""
        if self.in_memory:
            values = acquisition(self.X)
        else:
            values = self.evaluate(lambda X: check_acquisition(acquisition(X), X))
        best = acquisition_argmax(values, self.X, rng)
        x = self.X[best].copy() if self.in_memory else self.points_at(np.array([best]))[0]
        return x, float(values[best])


def _check_distinct(X: Array) -> Array:
    """Return candidates (A, d) in memory, read-only and free of -0.0, so that equal sets hash alike.

    Rows are compared where their keys are equal: a sort of keys takes an eighth of the memory.

    Raises
    ------
    ValueError
        If two rows are equal, or there is no row or no column.
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
class CandidatesInContext(Domain):
    """Candidates together with a context that is measured when one of them is chosen.

    A point is a candidate with the columns of the context behind it.

    Attributes
    ----------
    candidates : Candidates
    context : mapping of str to parameters

    Examples
    --------
    >>> from tvbandits import Candidates
    >>> domain = Candidates([[0.0], [1.0]], context={"outside": (-15, 20)})
    >>> print(domain, domain.dimension)
    CandidatesInContext(2 points, d=1, context=['outside']) 2
    """

    candidates: Candidates
    context: Mapping[str, Parameter]

    def __init__(self, candidates: Candidates, context: Mapping[str, Any]) -> None:
        if not candidates.in_memory:
            needs = "candidates in a measured context must be in memory"
            raise ValueError(f"{needs}, got {candidates.X}")
        parameters = as_context_parameters(context)
        for name, part in parameters.items():
            if isinstance(part, Category):
                raise ValueError(
                    f"{name} must be numbers; {INSTEAD_OF_WORDS}; got {describe(part)}"
                )
        set_fields(self, candidates=candidates, context=parameters)

    def __repr__(self) -> str:
        points = f"{len(self.candidates)} points, d={self.candidates.dimension}"
        return f"CandidatesInContext({points}, context={list(self.context)})"

    def __hash__(self) -> int:
        return hash((self.candidates, tuple(self.context.items())))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point, those of the context included."""
        return self.candidates.dimension + sum(part.width for part in self.context.values())

    @property
    def context_parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the measured context, by name."""
        return self.context

    @property
    def action_domain(self) -> Candidates:
        """The candidates, without the context."""
        return self.candidates

    @property
    def bounds(self) -> Array:
        """Lowest and highest value of each coordinate, (d, 2)."""
        ranges = [row for part in self.context.values() for row in part.bounds]
        return np.vstack([self.candidates.bounds, ranges])

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as candidates and contexts, free of rounding."""
        points = as_points(X, self.dimension, name)
        start = self.candidates.dimension
        checked = [self.candidates.check(points[:, :start], name)]
        for key, part in self.context.items():
            columns = points[:, start : start + part.width]
            checked.append(part.columns(part.codes(columns, key)))
            start += part.width
        return np.hstack(checked)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly, with replacement, shape (n, d)."""
        contexts = [part.columns(part.from_unit(rng.random(n))) for part in self.context.values()]
        return self.check(np.hstack([self.candidates.sample(n, rng), *contexts]))

    def at_context(self, values: Array) -> Candidates:
        """Return all candidates at one value of the context, as columns (c,).

        They stay candidates: searched one by one, by row or mask.
        """
        row = context_row(values, len(self.context_columns))
        points = append_context(self.candidates.X, row)
        return Candidates(points, retired=self.candidates.retired)

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition among the candidates at 64 contexts drawn."""
        contexts = self.sample(64, rng)[:, self.candidates.dimension :]
        best = [self.at_context(values).maximize(acquisition, rng) for values in contexts]
        return best[first_argmax([value for _, value in best])]


def from_distinct_rows(X: Array) -> Candidates:
    """Return candidates of points (n, d), such as rows of others, that are known to differ."""
    candidates = object.__new__(Candidates)
    candidates.__dict__.update(X=X, context=(), retired=())
    return candidates


def with_retired(candidates: Candidates, X: Array) -> Candidates:
    """Return the candidates with those of points (n, d) that are none, each once, as retired ones."""
    missing = np.unique(X[candidates._nearest(X)[0] > TOLERANCE], axis=0)
    rows = range(len(candidates), len(candidates) + len(missing))
    points = np.concatenate([candidates.X, missing])
    return Candidates(points, candidates.context, (*candidates.retired, *rows))


def replace_candidates(domain: object, candidates: Candidates) -> Candidates | CandidatesInContext:
    """Return the domain with other candidates, in its measured context, if it has one."""
    if isinstance(domain, CandidatesInContext):
        return CandidatesInContext(candidates, domain.context)
    return candidates


def candidates_of(domain: object) -> Candidates | None:
    """Return the candidates that a domain chooses from; None if it chooses from something else."""
    if isinstance(domain, CandidatesInContext):
        return domain.candidates
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


def _check_part(name: str, numbers: Sequence[int], count: int, rest: str) -> tuple[int, ...]:
    """Return different columns or rows out of `count`; a `ValueError` unless one is left."""
    part = as_rows(numbers, count, name)
    if len(part) == count:
        raise ValueError(f"{name} must leave a {rest}, got all {count} of them")
    return tuple(part.tolist())

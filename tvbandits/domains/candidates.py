"""Candidates: a finite set of points, whose maximum is found exactly; and a measured context of them."""

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
    check_context_values,
)
from tvbandits.domains.parameters import TOLERANCE, Category, Parameter, as_bounds
from tvbandits.domains.rows import MemoryRows, Rows, hash_rows, open_rows
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
    """A finite set of points, whose maximum is found exactly.

    Parameters
    ----------
    X : array of shape (A, d), Dask array, or path of a .npy file
        The candidates: at least one, no two of them equal. An array, also a memory map, is copied into
        memory. A Dask array or a file is read in blocks (`tvbandits.domains.rows`), for upper confidence
        bounds on `Nystrom`: `tvbandits.policies.bbkb`, `bkb`, or `gp_ucb` with
        `Options(posterior="nystrom")`. Their rows are then not checked to be distinct. The current
        client computes the chunks of a Dask array whenever they are read.
    context : sequence of int, or mapping of str to parameters, optional
        Columns whose values are given for each decision instead of chosen. Or a mapping such as
        `{"outside": (-15, 20)}`: further coordinates, which are measured before a decision and may have
        any value; the result is then of class `CandidatesInContext`.
    retired : sequence of int, optional
        Rows that are not played any more; their readings still inform about the others.

    Raises
    ------
    ValueError
        If `X` is not a finite matrix with a row and a column, or has two equal rows; or if `context`
        does not consist of distinct columns of it, or leaves none to choose.

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

    # The largest number of candidates in a table of rows; of more, points are searched block by block.
    largest_table: ClassVar[int] = 50_000
    # The largest number of points that are searched one by one without a table; more by a search tree.
    most_one_by_one: ClassVar[int] = 64

    if TYPE_CHECKING:  # the arguments may be of more types than the fields

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
        X: Any = open_rows(self.X)
        if X is None:
            X = _check_distinct(as_points(self.X, name="candidates"))
        count, dimension = X.shape
        context = _check_part("context", self.context, dimension, "column to choose")
        retired = _check_part("retired", self.retired, count, "row to play")
        set_fields(self, X=X, context=context, retired=retired)

    @classmethod
    def grid(cls, bounds: ArrayLike, points_per_axis: int | Sequence[int]) -> Candidates:
        """Return a regular grid over `bounds` (d, 2), ends included; the last column varies fastest."""
        intervals = as_bounds(bounds)
        d, name, largest = len(intervals), "points_per_axis", 10_000_000
        needs = "a whole number, or one for each axis"
        is_single = is_whole(points_per_axis)
        numbers = [points_per_axis] * d if is_single else as_list(name, points_per_axis, needs)
        require(len(numbers) == d, name, needs, points_per_axis)
        counts = [whole_number(name, n, at_most=largest) for n in numbers]
        needs = f"for at most {largest} points: take a Box, or fewer points"
        require(math.prod(counts) <= largest, name, needs, points_per_axis)
        axes = [np.linspace(a, b, n) for (a, b), n in zip(intervals, counts, strict=True)]
        return cls(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)))

    @property
    def dimension(self) -> int:
        """Return the number of coordinates of a point."""
        return int(self.X.shape[1])

    @property
    def context_columns(self) -> tuple[int, ...]:
        """Return the columns whose values are given for each decision."""
        return tuple(self.context)

    @property
    def active(self) -> Array:
        """Return the points (n, d) that are not retired."""
        return self.points_at(np.setdiff1d(np.arange(len(self)), self.retired))

    @cached_property
    def in_memory(self) -> bool:
        """Return whether all candidates are in memory, as the array `X`."""
        return isinstance(self.X, np.ndarray)

    @cached_property
    def rows(self) -> Rows:
        """Return the candidates in blocks."""
        X: Any = self.X
        return MemoryRows(X) if self.in_memory else X

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield the first row number and the points (n, d) of each block."""
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
        blocks = np.searchsorted(starts, rows, side="right") - 1
        for number in np.unique(blocks).tolist():
            in_block = blocks == number
            X[in_block] = self.rows.read(number, rows[in_block] - starts[number])
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
        # Without the search tree, which can be built again.
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
        """Return the lowest and the highest value of each coordinate, (d,) each."""
        ends = [(X.min(axis=0), X.max(axis=0)) for _, X in self.blocks()]
        return np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)

    @property
    def bounds(self) -> Array:
        """Return the lowest and highest value of each coordinate, (d, 2), at least 1 apart if equal."""
        low, high = self.ends
        return np.column_stack([low, np.where(high > low, high, low + 1.0)])

    @cached_property
    def _extent(self) -> Array:
        """Return the extent of the set along each coordinate, (d,), or the numbers' size if it is 0."""
        low, high = self.ends
        extent, size = high - low, np.maximum(np.abs(low), np.abs(high))
        # If the extent is tiny compared with the offset, rounding limits which points can differ.
        floor = np.where(extent > 0, 16 * np.finfo(float).eps / TOLERANCE * size, size)
        extent = np.maximum(extent, floor)
        return np.asarray(np.where(extent > 0, extent, 1.0))

    @cached_property
    def _tree(self) -> cKDTree[None, Any]:
        from scipy.spatial import cKDTree

        return cKDTree(self.X / self._extent)

    @cached_property
    def _has_table(self) -> bool:
        """Return whether there is a table of the rows of all candidates."""
        return self.in_memory and len(self) <= self.largest_table

    @cached_property
    def _row_of(self) -> dict[bytes, int]:
        """Return the rows by the bytes of their points: of all candidates, or of recently found ones."""
        if not self._has_table:
            return {}
        return {key: row for row, key in enumerate(row_keys(self.X))}

    def index(self, X: ArrayLike, name: str = "X") -> Index:
        """Return the row of each point, shape (n,), within 1e-9 of the extent of each coordinate.

        Raises
        ------
        PlayError
            If a point is no candidate; the message shows the point and its nearest candidate.
        """
        points = as_points(X, self.dimension, name) + 0.0
        rows = np.array([self._row_of.get(key, -1) for key in row_keys(points)], dtype=np.int64)
        if (rows < 0).any() and not self._has_table:
            # There are too many candidates for a table, which only has the points found recently.
            rows = self._find_in_blocks(points)
            self._remember(rows[rows >= 0], points[rows >= 0])
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            distance, rows[missing] = self._find_nearest(points[missing])
            if (distance > TOLERANCE).any():
                row = missing[(distance > TOLERANCE).argmax()]
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
        """Return the rows (n,) of candidates that equal points (n, d), or -1."""
        keys, first, inverse = np.unique(hash_rows(X), return_index=True, return_inverse=True)
        rows = np.full(len(keys), -1)
        for start, block in self.blocks():
            block_keys = hash_rows(block)
            matches = np.flatnonzero(np.isin(block_keys, keys))
            positions = np.searchsorted(keys, block_keys[matches])
            equal = (block[matches] == X[first[positions]]).all(axis=1)
            rows[positions[equal]] = start + matches[equal]
        return rows[inverse]

    def _remember(self, rows: Index, X: Array) -> None:
        """Add the rows of points (n, d) to the table, as they will probably be looked up again.

        If the table would get too large, it is emptied first. A table of all candidates is complete.
        """
        if self._has_table:
            return
        if len(self._row_of) + len(rows) > self.largest_table:
            self._row_of.clear()
        self._row_of.update(
            zip(row_keys(X[: self.largest_table]), rows[: self.largest_table].tolist(), strict=True)
        )

    def _find_nearest(self, X: Array) -> tuple[Array, Index]:
        """Return the distance (n,) to the nearest candidate, in extents, and its row (n,)."""
        if self._has_table or (self.in_memory and len(X) > self.most_one_by_one):
            distance, rows = self._tree.query(X / self._extent, p=np.inf)
            return np.asarray(distance), np.asarray(rows, dtype=np.int64)
        least, nearest = np.full(len(X), np.inf), np.zeros(len(X), dtype=np.int64)
        for start, block in self.blocks():
            for i, x in enumerate(X):
                distances = np.abs((block - x) / self._extent).max(axis=1)
                if distances.min() < least[i]:
                    least[i], nearest[i] = distances.min(), start + distances.argmin()
        return least, nearest

    def find_context_rows(self, context: Any) -> Index:
        """Return the rows (m,) of the candidates with a context, ascending, m >= 1.

        Parameters
        ----------
        context : array of shape (c,)
            A value for each context column, in the order of `self.context`, or a number if there is one
            column. Values are matched within 1e-9 of the extent of a column.

        Raises
        ------
        ValueError
            If there are no context columns or another number of them, or no candidate has these values;
            the message shows the nearest context.
        """
        columns = list(self.context)
        if not columns:
            raise ValueError(f"candidates have no context columns, got context={describe(context)}")
        row = np.atleast_1d(as_floats(context, "context"))
        if row.size != len(columns) or row.ndim > 2:
            raise ValueError(f"context must have shape ({len(columns)},), got {row.shape}")
        values = as_points(row.ravel(), len(columns), "context")
        extent = self._extent[columns]
        differences = (np.abs(X[:, columns] - values) / extent for _, X in self.blocks())
        distance = np.concatenate([block.max(axis=1) for block in differences])
        rows = np.flatnonzero(distance <= TOLERANCE)
        if len(rows) == 0:
            nearest = self.points_at(np.array([distance.argmin()]))[0, columns]
            raise ValueError(
                f"no candidate has the context {values[0].tolist()} in columns {columns}; "
                f"the nearest context is {nearest.tolist()}"
            )
        return np.asarray(rows, dtype=np.int64)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return points `X` (n, d) as exact candidates, without rounding errors; see `index`."""
        points = as_points(X, self.X.shape[1], name) + 0.0
        # A bandit plays exact candidates, which the table contains; the search tree is rarely needed.
        if all(point.tobytes() in self._row_of for point in points):
            return points
        return self.points_at(self.index(points, name))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` uniform random candidates (n, d), with replacement."""
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
    """Return candidates (A, d), made read-only, with 0.0 for -0.0, so that equal sets hash alike.

    Only rows with equal keys are compared: to sort keys takes an eighth of the memory of rows.

    Raises
    ------
    ValueError
        If two rows are equal, or there is no row or no column.
    """
    if X.size == 0:
        raise ValueError(f"candidates must have a row and a column, got shape {X.shape}")
    X += 0.0
    _, first, inverse = np.unique(hash_rows(X), return_index=True, return_inverse=True)
    rows, first_rows = np.arange(len(X)), first[inverse]
    repeats = rows[first_rows < rows]
    repeats = repeats[(X[repeats] == X[first_rows[repeats]]).all(axis=1)]
    if len(repeats):
        row = repeats[0]
        raise ValueError(
            f"candidates must differ, but row {row} repeats row {first_rows[row]}: {X[row].tolist()}"
        )
    X.setflags(write=False)
    return X


@dataclass(frozen=True, init=False, repr=False)
class CandidatesInContext(Domain):
    """Candidates with a context that is measured before each decision.

    A point consists of the coordinates of a candidate, followed by those of the context.

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
        for name, parameter in parameters.items():
            if isinstance(parameter, Category):
                raise ValueError(
                    f"{name} must be numbers; {INSTEAD_OF_WORDS}; got {describe(parameter)}"
                )
        set_fields(self, candidates=candidates, context=parameters)

    def __repr__(self) -> str:
        points = f"{len(self.candidates)} points, d={self.candidates.dimension}"
        return f"CandidatesInContext({points}, context={list(self.context)})"

    def __hash__(self) -> int:
        return hash((self.candidates, tuple(self.context.items())))

    @property
    def dimension(self) -> int:
        """Return the number of coordinates of a point, including the context."""
        widths = [parameter.width for parameter in self.context.values()]
        return self.candidates.dimension + sum(widths)

    @property
    def context_parameters(self) -> Mapping[str, Parameter]:
        """Return the parameters of the measured context, by name."""
        return self.context

    @property
    def action_domain(self) -> Candidates:
        """Return the candidates without the context."""
        return self.candidates

    @property
    def bounds(self) -> Array:
        """Return the lowest and highest value of each coordinate, (d, 2)."""
        ranges = [row for parameter in self.context.values() for row in parameter.bounds]
        return np.vstack([self.candidates.bounds, ranges])

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return points `X` (n, d) as exact candidates and contexts, without rounding errors."""
        points = as_points(X, self.dimension, name)
        start = self.candidates.dimension
        parts = [self.candidates.check(points[:, :start], name)]
        for key, parameter in self.context.items():
            columns = points[:, start : start + parameter.width]
            parts.append(parameter.columns(parameter.codes(columns, key)))
            start += parameter.width
        return np.hstack(parts)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` uniform random points (n, d), with replacement."""
        contexts = [
            parameter.columns(parameter.from_unit(rng.random(n)))
            for parameter in self.context.values()
        ]
        return self.check(np.hstack([self.candidates.sample(n, rng), *contexts]))

    def at_context(self, values: Array) -> Candidates:
        """Return the candidates at one value (c,) of the context, in the same rows."""
        row = check_context_values(values, len(self.context_columns))
        points = append_context(self.candidates.X, row)
        return Candidates(points, retired=self.candidates.retired)

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition among all candidates at 64 random contexts."""
        contexts = self.sample(64, rng)[:, self.candidates.dimension :]
        best = [self.at_context(values).maximize(acquisition, rng) for values in contexts]
        return best[first_argmax([value for _, value in best])]


def from_distinct_rows(X: Array) -> Candidates:
    """Return candidates of points (n, d) that are known to differ, such as rows of other candidates."""
    candidates = object.__new__(Candidates)
    candidates.__dict__.update(X=X, context=(), retired=())
    return candidates


def add_retired(candidates: Candidates, X: Array) -> Candidates:
    """Return the candidates and, as retired ones, the points `X` (n, d) that are not among them."""
    missing = np.unique(X[candidates._find_nearest(X)[0] > TOLERANCE], axis=0)
    rows = range(len(candidates), len(candidates) + len(missing))
    points = np.concatenate([candidates.X, missing])
    return Candidates(points, candidates.context, (*candidates.retired, *rows))


def replace_candidates(domain: object, candidates: Candidates) -> Candidates | CandidatesInContext:
    """Return the domain with other candidates, and with its measured context if it has one."""
    if isinstance(domain, CandidatesInContext):
        return CandidatesInContext(candidates, domain.context)
    return candidates


def get_candidates(domain: object) -> Candidates | None:
    """Return the candidates from which a domain chooses, or None if it is of another kind."""
    if isinstance(domain, CandidatesInContext):
        return domain.candidates
    return domain if isinstance(domain, Candidates) else None


def as_finite(domain: object, user: str) -> Candidates:
    """Return `domain` if it consists of candidates; otherwise a `ValueError` names who needs them.

    Examples
    --------
    >>> from tvbandits import Candidates
    >>> from tvbandits.domains.candidates import as_finite
    >>> print(as_finite(Candidates([[0.0], [1.0]]), "expected improvement"))
    Candidates(2 points, d=1)
    """
    if not isinstance(domain, Candidates):
        raise ValueError(f"{user} needs a finite domain: give Candidates, got {describe(domain)}")
    return domain


def _check_part(name: str, numbers: Sequence[int], count: int, remainder: str) -> tuple[int, ...]:
    """Return distinct columns or rows out of `count`; a `ValueError` unless one is left out."""
    part = as_rows(numbers, count, name)
    if len(part) == count:
        raise ValueError(f"{name} must leave a {remainder}, got all {count} of them")
    return tuple(part.tolist())

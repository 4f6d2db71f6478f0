"""The parameters of a space: intervals, whole numbers and categories.

A parameter has a code, one number: its value, or the place of its category among the others. In a point
(d,) an interval and whole numbers are one column, the code itself, and a category is a column for each
of its levels, with a 1 in its own and 0 in the others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeGuard, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.validation import (
    Array,
    as_points,
    describe,
    finite_number,
    is_finite_number,
    is_of,
    of_kind,
    refuse,
    require,
    settle,
    several,
    whole_number,
)

if TYPE_CHECKING:
    import pandas as pd

# Whole numbers up to this size are floats.
EXACT = 2**53

# How far off a coordinate may be by rounding, relative to its range.
TOLERANCE = 1e-9


def as_bounds(bounds: ArrayLike) -> Array:
    """Return `bounds` as a float array of shape (d, 2) with low < high in every row.

    Examples
    --------
    >>> from tvbandits.domains.parameters import as_bounds
    >>> print(as_bounds([(0, 10), (-1, 1)]))
    [[ 0. 10.]
     [-1.  1.]]
    """
    intervals = as_points(bounds, 2, name="bounds")
    if len(intervals) == 0:
        raise ValueError("bounds must have at least one row, got shape (0, 2)")
    refuse(~(intervals[:, 0] < intervals[:, 1]), intervals, "bounds must have low < high")
    return intervals


class _Ordered:
    """The base of intervals and whole numbers: a code is the number itself, in one column."""

    low: Any
    high: Any
    width: ClassVar[int] = 1
    needs: ClassVar[str]

    def __post_init__(self) -> None:
        settle(self, low=self._end("low", self.low), high=self._end("high", self.high))
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low:g} and {self.high:g}")

    @staticmethod
    def _end(name: str, value: object) -> float:
        """Return an end of the range as a number of this kind."""
        return finite_number(name, value)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 1) of codes (n,)."""
        return codes[:, None]

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a value as people give it; `codes` finds out whether it is inside."""
        if not is_finite_number(value):
            raise ValueError(f"{name} must be {self.needs}, got {describe(value)} in row {row}")
        return float(value)  # type: ignore[arg-type]

    @property
    def extent(self) -> float:
        """Highest code minus lowest."""
        return float(self.high - self.low)


@dataclass(frozen=True)
class Real(_Ordered):
    """All numbers from `low` to `high`, both included.

    Examples
    --------
    >>> from tvbandits.domains.parameters import Real
    >>> print(Real(10.0, 80.0).width)
    1
    """

    low: float
    high: float

    needs: ClassVar[str] = "a finite number"
    size: ClassVar[int] = 0
    """Number of values; 0 where they are not counted."""

    def __str__(self) -> str:
        return f"({exactly(self.low)}, {exactly(self.high)})"

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1), moved inside where they are out by rounding."""
        values = columns[:, 0]
        slack = TOLERANCE * (self.high - self.low)
        outside = ~((values >= self.low - slack) & (values <= self.high + slack))
        needs = f"{name} must be from {exactly(self.low)} to {exactly(self.high)}"
        _refuse(outside, columns, needs)
        return np.asarray(np.clip(values, self.low, self.high))

    def values(self, codes: Array) -> Any:
        """Return the values (n,) of codes, as people read them."""
        return codes.copy()

    def from_unit(self, u: Array) -> Array:
        """Return codes for numbers (n,) of the unit interval; uniform numbers give uniform codes."""
        return np.asarray(np.clip(self.low * (1.0 - u) + self.high * u, self.low, self.high))

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) of the unit interval for codes (n,)."""
        return np.asarray((codes - self.low) / self.extent)


def exactly(number: float) -> str:
    """Return a number as text, without the ".0" of whole ones, from which it can be read again."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _refuse(bad: NDArray[np.bool_], columns: Array, needs: str) -> None:
    """Raise a `ValueError` that names the first row of columns (n, width) that is bad."""
    if bad.any():
        row = int(bad.argmax())
        values = columns[row].tolist()
        text = exactly(values[0]) if len(values) == 1 else values
        raise ValueError(f"{needs}, got {text} in row {row}")


class _Stepped:
    """The base of whole numbers and categories: each value has a cell of the unit interval."""

    low: Any
    size: Any

    def from_unit(self, u: Array) -> Array:
        """Return codes for numbers (n,) of the unit interval; uniform numbers give uniform codes."""
        return np.asarray(self.low + np.minimum(np.floor(u * self.size), self.size - 1))

    def to_unit(self, codes: Array) -> Array:
        """Return the middles (n,) of the cells of the unit interval for codes (n,)."""
        return np.asarray((codes - self.low + 0.5) / self.size)


@dataclass(frozen=True)
class Integer(_Stepped, _Ordered):
    """The whole numbers from `low` to `high`, both included.

    Examples
    --------
    >>> from tvbandits import Integer, Space
    >>> space = Space(stirrers=Integer(1, 4))
    >>> print(space.size, space.encode({"stirrers": 3}))
    4 [[3.]]
    """

    low: int
    high: int

    needs: ClassVar[str] = "a whole number"

    @staticmethod
    def _end(name: str, value: object) -> int:
        return whole_number(name, value, -EXACT, EXACT)

    def __str__(self) -> str:
        return f"Integer({self.low}, {self.high})"

    @property
    def size(self) -> int:
        """Number of values."""
        return self.high - self.low + 1

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1), which must be whole up to rounding."""
        values = columns[:, 0]
        whole = np.rint(values)
        slack = min(TOLERANCE * self.extent, 1e-6)
        wrong = ~((np.abs(values - whole) <= slack) & (whole >= self.low) & (whole <= self.high))
        _refuse(wrong, columns, f"{name} must be {self.needs} from {self.low} to {self.high}")
        return np.asarray(whole + 0.0)

    def values(self, codes: Array) -> Any:
        """Return the values (n,) of codes, as people read them."""
        return codes.astype(np.int64)


@dataclass(frozen=True)
class Category(_Stepped):
    """One of several texts, which have no order.

    Examples
    --------
    >>> from tvbandits.domains.parameters import Category
    >>> print(Category(("water", "ethanol")).size)
    2
    """

    levels: tuple[str, ...]

    low: ClassVar[int] = 0  # type: ignore[misc]  # of an instance there

    def __post_init__(self) -> None:
        texts = several("categories", self.levels, "texts")
        levels = tuple(str(level) if isinstance(level, str) else level for level in texts)
        for level in levels:
            of_kind("categories", level, str, "texts")
        require(len(levels) >= 2, "categories", "at least two texts", list(levels))
        for level in levels:
            if levels.count(level) > 1:
                raise ValueError(f"categories must differ, got {describe(level)} twice")
        object.__setattr__(self, "levels", levels)

    def __str__(self) -> str:
        return str(list(self.levels))

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.levels)

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.levels)

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, width), each a 1 among 0s up to rounding."""
        codes = np.asarray(columns.argmax(axis=1))
        wrong = (np.abs(columns - np.eye(self.width)[codes]) > TOLERANCE).any(axis=1)
        _refuse(wrong, columns, f"{name} must be a 1 among 0s, for one of {self}")
        return codes.astype(np.float64)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, width) of codes (n,)."""
        return np.asarray(np.eye(self.width)[codes.astype(np.int64)])

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a value as people give it."""
        if not isinstance(value, str) or value not in self.levels:
            raise ValueError(f"{name} must be one of {self}, got {describe(value)} in row {row}")
        return float(self.levels.index(value))

    def values(self, codes: Array) -> Any:
        """Return the values (n,) of codes, as people read them."""
        return [self.levels[int(code)] for code in codes]

    @property
    def extent(self) -> float:
        """Distance of two points that differ in this alone."""
        return math.sqrt(2.0)


Parameter = Real | Integer | Category


def as_parameter(value: object, name: str) -> Parameter:
    """Return the parameter that people write as (10, 80), Integer(1, 5) or ["a", "b"].

    Raises
    ------
    ValueError
        If it is none of them, or not a good one; the message names the parameter.
    """
    if isinstance(value, Real | Integer | Category):
        return value
    cell = isinstance(value, np.ndarray) and value.ndim == 0  # a masked one, for example
    try:
        if isinstance(value, tuple | list | np.ndarray) and not cell and len(value) > 0:
            if any(isinstance(part, str) for part in value):
                return Category(tuple(value))
            if len(value) == 2:
                return Real(*value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    needs = 'an interval (low, high), Integer(low, high) or texts ["a", "b"]'
    raise ValueError(f"{name} must be {needs}, got {describe(value)}")


# --- points with names -------------------------------------------------------------------------------

# Points with names: a frame, a dictionary for one point, or a sequence of dictionaries.
Named: TypeAlias = Union["pd.DataFrame", Mapping[str, Any], Sequence[Mapping[str, Any]]]


def has_names(X: object) -> bool:
    """Tell whether points have names: a frame, a dictionary, or several of these or texts."""
    if type(X) is np.ndarray and X.dtype.kind == "f":
        return False
    first = X[0] if isinstance(X, list | tuple) and len(X) > 0 else X
    return isinstance(first, Mapping) or _is_frame(first) or texts(X) is not None


def texts(value: Any) -> list[Any] | None:
    """Return several things of which at least one is a text, or one text; None for all else."""
    if isinstance(value, str):
        return [value]
    # Arrays and columns have a number of dimensions, those of pandas too.
    is_column = hasattr(value, "ndim") and value.ndim == 1
    if not (is_column or isinstance(value, list | tuple)):
        return None
    return list(value) if any(isinstance(each, str) for each in value) else None


def _is_frame(value: object) -> TypeGuard[pd.DataFrame]:
    return is_of(value, "pandas", "DataFrame")


def rows_by_name(points: object) -> list[Mapping[str, Any]]:
    """Return a dictionary of values by name for each point."""
    if _is_frame(points):
        repeated = points.columns[points.columns.duplicated()]
        if len(repeated):
            raise ValueError(
                f"a frame must have different columns, got {describe(repeated[0])} twice"
            )
        records: list[Any] = points.to_dict(orient="records")
        return records
    listed = isinstance(points, Sequence) and not isinstance(points, str)
    rows: Any = points if listed else [points]
    for row in rows:
        of_kind("points", row, Mapping, "a frame or dictionaries")
    return [dict(row) for row in rows]


def check_names(
    what: str, values: Mapping[str, Any], names: Collection[str], where: str = ""
) -> None:
    """Raise a `ValueError` that says which of some names is unknown or missing."""
    if unknown := [name for name in values if name not in names]:
        raise ValueError(f"unknown {what} {unknown[0]!r}{where}; there are: {', '.join(names)}")
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"{what} {missing[0]!r} is missing{where}, got {dict(values)}")

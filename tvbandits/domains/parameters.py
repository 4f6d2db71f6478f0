"""What a space with names is made of: intervals, whole numbers and categories, and a kernel over them.

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
from numpy.typing import NDArray

from tvbandits.validation import (
    Array,
    describe,
    finite_number,
    is_finite_number,
    is_of,
    of_kind,
    require,
    settle,
    several,
    whole_number,
)

if TYPE_CHECKING:
    import pandas as pd

# Whole numbers up to this size are floats.
EXACT = 2**53

# How far off a value may be by rounding, relative to the range of its parameter.
TOLERANCE = 1e-9


class _Ordered:
    """What intervals and whole numbers share: a code is the number itself, in one column."""

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
        """An end of the range as a number of this kind."""
        return finite_number(name, value)

    def columns(self, codes: Array) -> Array:
        """Columns (n, 1) of codes (n,)."""
        return codes[:, None]

    def code_of(self, value: object, name: str, row: int) -> float:
        """The code of a value as people give it; whether it is inside, `codes` finds out."""
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
        """Codes (n,) of columns (n, 1), moved inside where they are out by rounding."""
        values = columns[:, 0]
        slack = TOLERANCE * (self.high - self.low)
        outside = ~((values >= self.low - slack) & (values <= self.high + slack))
        needs = f"{name} must be from {exactly(self.low)} to {exactly(self.high)}"
        _refuse(outside, columns, needs)
        return np.asarray(np.clip(values, self.low, self.high))

    def values(self, codes: Array) -> Any:
        """Values as people read them, (n,)."""
        return codes.copy()

    def from_unit(self, u: Array) -> Array:
        """Return codes for numbers (n,) of the unit interval; uniform numbers give uniform codes."""
        return np.asarray(np.clip(self.low * (1.0 - u) + self.high * u, self.low, self.high))

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) of the unit interval for codes (n,)."""
        return np.asarray((codes - self.low) / self.extent)


def exactly(number: float) -> str:
    """A number without the ".0" of whole ones, from which it can be read again."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _refuse(bad: NDArray[np.bool_], columns: Array, needs: str) -> None:
    """Raise a `ValueError` that names the first row of columns (n, width) that is bad."""
    if bad.any():
        row = int(bad.argmax())
        got = columns[row].tolist()
        said = exactly(got[0]) if len(got) == 1 else got
        raise ValueError(f"{needs}, got {said} in row {row}")


class _Stepped:
    """What whole numbers and categories share: a cell of the unit interval for each value."""

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
        """Codes (n,) of columns (n, 1), which must be whole up to rounding."""
        values = columns[:, 0]
        whole = np.rint(values)
        slack = min(TOLERANCE * self.extent, 1e-6)
        wrong = ~((np.abs(values - whole) <= slack) & (whole >= self.low) & (whole <= self.high))
        _refuse(wrong, columns, f"{name} must be {self.needs} from {self.low} to {self.high}")
        return np.asarray(whole + 0.0)

    def values(self, codes: Array) -> Any:
        """Values as people read them, (n,)."""
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
        given = several("categories", self.levels, "texts")
        levels = tuple(str(level) if isinstance(level, str) else level for level in given)
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
        """Codes (n,) of columns (n, width), which must be a 1 among 0s up to rounding."""
        codes = np.asarray(columns.argmax(axis=1))
        wrong = (np.abs(columns - np.eye(self.width)[codes]) > TOLERANCE).any(axis=1)
        _refuse(wrong, columns, f"{name} must be a 1 among 0s, for one of {self}")
        return codes.astype(np.float64)

    def columns(self, codes: Array) -> Array:
        """Columns (n, width) of codes (n,)."""
        return np.asarray(np.eye(self.width)[codes.astype(np.int64)])

    def code_of(self, value: object, name: str, row: int) -> float:
        """The code of a value as people give it."""
        if not isinstance(value, str) or value not in self.levels:
            raise ValueError(f"{name} must be one of {self}, got {describe(value)} in row {row}")
        return float(self.levels.index(value))

    def values(self, codes: Array) -> Any:
        """Values as people read them, (n,)."""
        return [self.levels[int(code)] for code in codes]

    @property
    def extent(self) -> float:
        """Distance of two points that differ in this alone."""
        return math.sqrt(2.0)


Parameter = Real | Integer | Category


def as_parameter(given: object, name: str) -> Parameter:
    """Return the parameter that people write as (10, 80), Integer(1, 5) or ["a", "b"].

    Raises
    ------
    ValueError
        If it is none of them, or not a good one; the message names the parameter.
    """
    if isinstance(given, Real | Integer | Category):
        return given
    cell = isinstance(given, np.ndarray) and given.ndim == 0  # a masked one, for example
    try:
        if isinstance(given, tuple | list | np.ndarray) and not cell and len(given) > 0:
            if any(isinstance(part, str) for part in given):
                return Category(tuple(given))
            if len(given) == 2:
                return Real(*given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    needs = 'an interval (low, high), Integer(low, high) or texts ["a", "b"]'
    raise ValueError(f"{name} must be {needs}, got {describe(given)}")


# --- points with names -------------------------------------------------------------------------------

# Points with names: a frame, a dictionary for one point, or a sequence of dictionaries.
Named: TypeAlias = Union["pd.DataFrame", Mapping[str, Any], Sequence[Mapping[str, Any]]]


def has_names(X: object) -> bool:
    """Tell whether points have names: a frame, a dictionary, or several of these or texts."""
    if type(X) is np.ndarray and X.dtype.kind == "f":
        return False
    first = X[0] if isinstance(X, list | tuple) and len(X) > 0 else X
    return isinstance(first, Mapping) or _is_frame(first) or texts(X) is not None


def texts(given: Any) -> list[Any] | None:
    """Several things of which one at least is a text, or one text; None if that is something else."""
    if isinstance(given, str):
        return [given]
    # Arrays and columns have a number of dimensions, those of pandas too.
    if not isinstance(given, list | tuple) and getattr(given, "ndim", 0) != 1:
        return None
    return list(given) if any(isinstance(each, str) for each in given) else None


def _is_frame(value: object) -> TypeGuard[pd.DataFrame]:
    return is_of(value, "pandas", "DataFrame")


def rows_by_name(points: object) -> list[Mapping[str, Any]]:
    """Return a dictionary for each point."""
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
    what: str, given: Mapping[str, Any], names: Collection[str], where: str = ""
) -> None:
    """Raise a `ValueError` that says which of some names is unknown, or is missing."""
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"unknown {what} {unknown[0]!r}{where}; there are: {', '.join(names)}")
    if missing := [name for name in names if name not in given]:
        raise ValueError(f"{what} {missing[0]!r} is missing{where}, got {dict(given)}")

"""The parameters of a space: intervals, log scales, circles, whole numbers, choices and categories.

A parameter translates a value of the user's into a code, one number, and a code into columns of a point
(d,), and back; everything else sees columns.

- Intervals, whole numbers: the code is the value, and the one column, too.
- Log scales: the code is the value, the column its logarithm to base 10.
- Circles: the code is the value, the two columns are its place on a circle as long as the period.
- Choices among numbers: the code and the column are the rank.
- Categories: the code is the place in the list; each has a column, 1 in its own and 0 in the others.
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
    as_list,
    as_points,
    check_instance,
    describe,
    finite_number,
    is_finite_number,
    is_library_instance,
    refuse,
    require,
    set_fields,
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
        set_fields(self, low=self._end("low", self.low), high=self._end("high", self.high))
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

    @property
    def bounds(self) -> list[list[float]]:
        """Lowest and highest value of the column."""
        return [[float(self.low), float(self.high)]]

    def values(self, codes: Array) -> Any:
        """Return the values (n,) of codes, as people read them."""
        return codes.copy()

    def near(self, columns: Array, distance: float) -> Any:  # noqa: ARG002
        """Return a parameter with all values within a distance of columns (1,)."""
        return self


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

    def from_unit(self, u: Array) -> Array:
        """Return codes for numbers (n,) of the unit interval; uniform numbers give uniform codes."""
        return np.asarray(np.clip(self.low * (1.0 - u) + self.high * u, self.low, self.high))

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) of the unit interval for codes (n,)."""
        return np.asarray((codes - self.low) / self.extent)

    def along(self, columns: Array, slopes: Array) -> Array:  # noqa: ARG002
        """Return slopes (n,) along the unit interval for slopes (n, 1) along the column."""
        return np.asarray(self.extent * slopes[:, 0])

    def near(self, columns: Array, distance: float) -> Real:
        """Return the part of the interval within a distance of columns (1,)."""
        (x,) = columns.tolist()
        return Real(max(self.low, x - distance), min(self.high, x + distance))


# Values on a log scale are rounded to so many significant digits: then a point and what people read
# of it are one another's translation.
SIGNIFICANT = 12


@dataclass(frozen=True)
class Log(_Ordered):
    """All numbers from `low` to `high` on a log scale, both included: a learning rate, a dose.

    The model sees the logarithm to base 10: a unit of distance is a factor of ten. Values are rounded to
    12 significant digits.

    Raises
    ------
    ValueError
        If `low` is not above 0, or not below `high`.

    Examples
    --------
    >>> from tvbandits import Log, Space
    >>> space = Space(rate=Log(1e-6, 0.1))
    >>> print(space.encode({"rate": 1e-4}), space.decode([[-3.0]])["rate"].tolist())
    [[-4.]] [0.001]
    """

    low: float
    high: float

    needs: ClassVar[str] = "a finite number"
    size: ClassVar[int] = 0

    @staticmethod
    def _end(name: str, value: object) -> float:
        return finite_number(name, value, above=0.0)

    def __str__(self) -> str:
        return f"Log({exactly(self.low)}, {exactly(self.high)})"

    @property
    def _scale(self) -> Real:
        """The interval of logarithms."""
        return Real(math.log10(self.low), math.log10(self.high))

    @property
    def extent(self) -> float:
        """Highest column minus lowest."""
        return self._scale.extent

    @property
    def bounds(self) -> list[list[float]]:
        """Lowest and highest value of the column."""
        return self._scale.bounds

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a value as people give it."""
        code = super().code_of(value, name, row)
        return _inside(self, code, TOLERANCE * abs(code), name, row)

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1)."""
        logs = self._scale.codes(columns, f"log10({name})")
        values = [float(f"{each:.{SIGNIFICANT}g}") for each in self._values(logs).tolist()]
        return np.clip(np.array(values, dtype=np.float64), self.low, self.high)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 1) of codes (n,)."""
        return np.log10(codes)[:, None]

    def _values(self, logs: Array) -> Array:
        with np.errstate(over="ignore"):  # by rounding, at the largest numbers there are
            return np.asarray(np.clip(10.0**logs, self.low, self.high))

    def from_unit(self, u: Array) -> Array:
        """Return codes for numbers (n,) of the unit interval, uniform on the log scale."""
        return self._values(self._scale.from_unit(u))

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) of the unit interval for codes (n,)."""
        return self._scale.to_unit(np.log10(codes))

    def along(self, columns: Array, slopes: Array) -> Array:
        """Return slopes (n,) along the unit interval for slopes (n, 1) along the column."""
        return self._scale.along(columns, slopes)

    def near(self, columns: Array, distance: float) -> Log:
        """Return the part of the range within a distance of columns (1,)."""
        scale = self._scale.near(columns, distance)
        low, high = self._values(np.array([scale.low, scale.high])).tolist()
        return Log(low, high) if low < high else self


@dataclass(frozen=True, init=False)
class Periodic(_Ordered):
    """All numbers from `low` to `high` on a circle, whose ends are one: an angle, an hour, a weekday.

    `Periodic(7)` is from 0 to 7. The model sees the place on a circle, where 23:30 and 0:30 are near
    each other: any stationary kernel of such places is one of the values. The circumference is the
    period, so that small distances are in the unit of the parameter. The value `high` is `low`. Values
    are rounded to 13 digits of the larger end.

    Raises
    ------
    ValueError
        If `low` is not below `high`, or the period is so small or so large that numbers of that size, or
        beside the ends, have no digits for it.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits import Periodic, Space
    >>> day = Space(hour=Periodic(0, 24))
    >>> X = day.encode([{"hour": 23.5}, {"hour": 0.5}, {"hour": 12}])
    >>> print(np.linalg.norm(X - X[0], axis=1).round(2), day.decode(X)["hour"].tolist())
    [0.   1.   7.62] [23.5, 0.5, 12.0]
    """

    low: float
    high: float

    needs: ClassVar[str] = "a finite number"
    size: ClassVar[int] = 0
    width: ClassVar[int] = 2

    def __init__(self, low: float, high: float | None = None) -> None:
        if high is None:
            low, high = 0.0, finite_number("the period (low)", low, above=0.0)
        set_fields(self, low=low, high=high)
        self.__post_init__()
        largest = self._largest
        if not (1e-9 <= largest <= 1e30 and largest <= 1e6 * self.extent):
            needs = "at most 1e6 periods away from 0, and of a size from 1e-9 to 1e30"
            raise ValueError(f"low and high must be {needs}, got {self.low:g} and {self.high:g}")

    def __str__(self) -> str:
        return f"Periodic({exactly(self.low)}, {exactly(self.high)})"

    @property
    def _largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def radius(self) -> float:
        """The radius of the circle."""
        return self.extent / (2.0 * math.pi)

    @property
    def bounds(self) -> list[list[float]]:
        """Lowest and highest value of each column."""
        return [[-self.radius, self.radius]] * 2

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a value as people give it."""
        code = super().code_of(value, name, row)
        return _inside(self, code, TOLERANCE * self.extent, name, row)

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 2), which must be on the circle up to rounding."""
        off = np.abs(np.hypot(*columns.T) / self.radius - 1.0) > TOLERANCE
        _refuse(off, columns, f"{name} must be on a circle about 0 of radius {self.radius:g}")
        turn = np.arctan2(columns[:, 1], columns[:, 0]) / (2.0 * math.pi) % 1.0
        digits = 13 - math.ceil(math.log10(self._largest))
        values = np.maximum(np.round(self.low + turn * self.extent, digits), self.low)
        return np.where(values >= self.high, self.low, values)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 2) of codes (n,)."""
        angles = (codes - self.low) / self.radius
        return self.radius * np.column_stack([np.cos(angles), np.sin(angles)])

    def from_unit(self, u: Array) -> Array:
        """Return codes for numbers (n,) of the unit interval; uniform numbers give uniform codes."""
        return np.asarray(self.low * (1.0 - u) + self.high * u)

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) of the unit interval for codes (n,)."""
        return np.asarray((codes - self.low) / self.extent)

    def along(self, columns: Array, slopes: Array) -> Array:
        """Return slopes (n,) along the unit interval for slopes (n, 2) at columns (n, 2)."""
        x, y = columns.T
        return np.asarray(2.0 * math.pi * (x * slopes[:, 1] - y * slopes[:, 0]))


def _inside(part: Log | Periodic, code: float, slack: float, name: str, row: int) -> float:
    """Return a code that is in the range of a parameter up to a slack; else raise a `ValueError`."""
    if not part.low - slack <= code <= part.high + slack:
        needs = f"{name} must be from {exactly(part.low)} to {exactly(part.high)}"
        raise ValueError(f"{needs}, got {exactly(code)} in row {row}")
    return min(max(code, part.low), part.high)


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

    def along(self, columns: Array, slopes: Array) -> Array:  # noqa: ARG002
        """Return 0 (n,): nothing is between two values."""
        return np.zeros(len(slopes))

    def near(self, columns: Array, distance: float) -> Any:  # noqa: ARG002
        """Return a parameter with all values within a distance of columns (w,): all, as they are few."""
        return self


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

    def near(self, columns: Array, distance: float) -> Integer:
        """Return those within a distance of columns (1,); all of them within less than a step."""
        if distance < 1:
            return self
        (x,) = columns.tolist()
        least, most = math.ceil(x - distance), math.floor(x + distance)
        return Integer(max(self.low, least), min(self.high, most))


@dataclass(frozen=True)
class Choice(_Stepped):
    """One of several numbers, which have an order: a batch size of 16, 32 or 64.

    The model sees the rank: the next larger number is as near as the next smaller one, however far apart
    the numbers are. They are in ascending order, in whichever they are listed.

    Raises
    ------
    ValueError
        If there are fewer than two numbers, or two are equal.

    Examples
    --------
    >>> from tvbandits import Space
    >>> from tvbandits.domains.parameters import Choice
    >>> space = Space(batch=[64, 16, 32])  # a list of numbers is a `Choice`
    >>> print(space.encode({"batch": 64}), space, space.parameters[0] == Choice((16, 32, 64)))
    [[2.]] Space(batch=[16, 32, 64]) True
    """

    levels: tuple[int | float, ...]

    low: ClassVar[int] = 0  # type: ignore[misc]  # of an instance there
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        needs = "at least two different numbers"
        listed = as_list("choices", self.levels, needs)
        for each in listed:
            if not is_finite_number(each):
                hint = 'for words and truth values write texts: ["yes", "no"]'
                raise ValueError(f"choices must be numbers, got {describe(each)}; {hint}")
        numbers: list[Any] = [finite_number("choices", each) for each in listed]
        if all(each.is_integer() and abs(each) <= EXACT for each in numbers):
            numbers = [int(each) for each in numbers]
        levels = tuple(sorted(set(numbers)))
        require(len(levels) == len(listed) >= 2, "choices", needs, listed)
        set_fields(self, levels=levels)

    def __str__(self) -> str:
        return f"[{', '.join(map(exactly, self.levels))}]"

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.levels)

    @property
    def extent(self) -> float:
        """Highest rank."""
        return float(self.size - 1)

    @property
    def bounds(self) -> list[list[float]]:
        """Lowest and highest rank."""
        return [[0.0, self.extent]]

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1), which must be whole up to rounding."""
        return Integer(0, self.size - 1).codes(columns, f"the rank of {name}")

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 1) of codes (n,)."""
        return codes[:, None]

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a value as people give it."""
        if not is_finite_number(value) or value not in self.levels:
            raise ValueError(f"{name} must be one of {self}, got {describe(value)} in row {row}")
        return float(self.levels.index(value))

    def values(self, codes: Array) -> Any:
        """Return the values (n,) of codes, as people read them."""
        return np.array(self.levels)[codes.astype(np.int64)]


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
        texts = as_list("categories", self.levels, "texts")
        levels = tuple(str(level) if isinstance(level, str) else level for level in texts)
        for level in levels:
            check_instance("categories", level, str, "texts")
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

    @property
    def bounds(self) -> list[list[float]]:
        """Lowest and highest value of each column."""
        return [[0.0, 1.0]] * self.width


Parameter = Real | Log | Periodic | Integer | Choice | Category


def as_parameter(value: object, name: str) -> Parameter:
    """Return the parameter that people write as (10, 80), [16, 32, 64], ["a", "b"], or as an object.

    An interval is a tuple, and a list is a choice: of numbers in their order, or of texts.

    Raises
    ------
    ValueError
        If it is none of them, or not a good one; the message names the parameter.
    """
    if isinstance(value, Parameter):
        return value
    try:
        if isinstance(value, list) and value:
            texts_among = any(isinstance(each, str) for each in value)
            return Category(tuple(value)) if texts_among else Choice(tuple(value))
        if isinstance(value, tuple) and len(value) == 2 and texts(value) is None:
            return Real(*value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    needs = "an interval (low, high), a list of numbers or of texts, Integer(1, 5), Log(1e-6, 0.1)"
    raise ValueError(f"{name} must be {needs} or Periodic(0, 360), got {describe(value)}")


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
    return is_library_instance(value, "pandas", "DataFrame")


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
        check_instance("points", row, Mapping, "a frame or dictionaries")
    return [dict(row) for row in rows]


def check_names(
    what: str, values: Mapping[str, Any], names: Collection[str], where: str = ""
) -> None:
    """Raise a `ValueError` that says which of some names is unknown or missing."""
    if unknown := [name for name in values if name not in names]:
        there = f"there are: {', '.join(names)}" if names else "there is none"
        raise ValueError(f"unknown {what} {unknown[0]!r}{where}; {there}")
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"{what} {missing[0]!r} is missing{where}, got {dict(values)}")

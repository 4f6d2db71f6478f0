"""The parameters of a space: intervals, log scales, circles, whole numbers, choices and categories.

A parameter converts the user's value to a code (a number), and a code to columns of a point (d,), and
back. Models and searches use the columns.

- Intervals, whole numbers: code and column are the value.
- Log scales: the code is the value, the column its logarithm to base 10.
- Circles: the code is the value, the two columns are its position on a circle whose circumference is the
  period.
- Choices among numbers: code and column are the rank.
- Categories: the code is the position in the list; each category has a column, which is 1 for it and 0
  for others.
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

# Floats represent all whole numbers up to this size.
EXACT = 2**53

# The largest rounding error of a coordinate, relative to its range.
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
    """A base class for intervals and whole numbers, whose code is the number, in one column."""

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
        """Return an end of the range as a number of the right type."""
        return finite_number(name, value)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 1) of codes (n,)."""
        return codes[:, None]

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a user's value; `codes` checks whether it is in the range."""
        if not is_finite_number(value):
            raise ValueError(f"{name} must be {self.needs}, got {describe(value)} in row {row}")
        return float(value)  # type: ignore[arg-type]

    @property
    def extent(self) -> float:
        """Return the highest code minus the lowest."""
        return float(self.high - self.low)

    @property
    def bounds(self) -> list[list[float]]:
        """Return the lowest and the highest value of the column."""
        return [[float(self.low), float(self.high)]]

    def values(self, codes: Array) -> Any:
        """Return the user's values (n,) of codes."""
        return codes.copy()

    def near(self, columns: Array, distance: float) -> Any:  # noqa: ARG002
        """Return a parameter that has all values within a distance of columns (1,)."""
        return self


@dataclass(frozen=True)
class Real(_Ordered):
    """An interval: all numbers from `low` to `high`, both included.

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
    """The number of values; 0 if they are not countable."""

    def __str__(self) -> str:
        return f"({format_exactly(self.low)}, {format_exactly(self.high)})"

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1), moved inside if rounding has put them outside."""
        values = columns[:, 0]
        tolerance = TOLERANCE * (self.high - self.low)
        outside = ~((values >= self.low - tolerance) & (values <= self.high + tolerance))
        needs = f"{name} must be from {format_exactly(self.low)} to {format_exactly(self.high)}"
        _refuse(outside, columns, needs)
        return np.asarray(np.clip(values, self.low, self.high))

    def from_unit(self, u: Array) -> Array:
        """Return codes (n,) for numbers (n,) in the unit interval; uniform ones give uniform codes."""
        return np.asarray(np.clip(self.low * (1.0 - u) + self.high * u, self.low, self.high))

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) in the unit interval for codes (n,)."""
        return np.asarray((codes - self.low) / self.extent)

    def convert_slopes(self, columns: Array, slopes: Array) -> Array:  # noqa: ARG002
        """Return slopes (n,) on the unit interval for slopes (n, 1) along the column."""
        return np.asarray(self.extent * slopes[:, 0])

    def near(self, columns: Array, distance: float) -> Real:
        """Return the part of the interval within a distance of columns (1,)."""
        (x,) = columns.tolist()
        return Real(max(self.low, x - distance), min(self.high, x + distance))


# The number of significant digits of values on a log scale. With more digits, a value that is converted
# to a column and back could change.
SIGNIFICANT = 12


@dataclass(frozen=True)
class Log(_Ordered):
    """A log scale: all numbers from `low` to `high`, both included, such as a learning rate or a dose.

    The model uses the logarithm to base 10, so that a factor of ten is a distance of 1. Values are
    rounded to 12 significant digits.

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
        return f"Log({format_exactly(self.low)}, {format_exactly(self.high)})"

    @property
    def _scale(self) -> Real:
        """Return the interval of the logarithms."""
        return Real(math.log10(self.low), math.log10(self.high))

    @property
    def extent(self) -> float:
        """Return the highest value of the column minus the lowest."""
        return self._scale.extent

    @property
    def bounds(self) -> list[list[float]]:
        """Return the lowest and the highest value of the column."""
        return self._scale.bounds

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a user's value."""
        code = super().code_of(value, name, row)
        return _clip_code(self, code, TOLERANCE * abs(code), name, row)

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1)."""
        logs = self._scale.codes(columns, f"log10({name})")
        values = [
            float(f"{value:.{SIGNIFICANT}g}") for value in self._raise_to_power(logs).tolist()
        ]
        return np.clip(np.array(values, dtype=np.float64), self.low, self.high)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 1) of codes (n,)."""
        return np.log10(codes)[:, None]

    def _raise_to_power(self, logs: Array) -> Array:
        """Return the numbers (n,) with these logarithms, clipped to the range."""
        with np.errstate(over="ignore"):  # rounding may exceed the largest float
            return np.asarray(np.clip(10.0**logs, self.low, self.high))

    def from_unit(self, u: Array) -> Array:
        """Return codes (n,) for numbers (n,) in the unit interval, uniform on the log scale."""
        return self._raise_to_power(self._scale.from_unit(u))

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) in the unit interval for codes (n,)."""
        return self._scale.to_unit(np.log10(codes))

    def convert_slopes(self, columns: Array, slopes: Array) -> Array:
        """Return slopes (n,) on the unit interval for slopes (n, 1) along the column."""
        return self._scale.convert_slopes(columns, slopes)

    def near(self, columns: Array, distance: float) -> Log:
        """Return the part of the range within a distance of columns (1,)."""
        scale = self._scale.near(columns, distance)
        low, high = self._raise_to_power(np.array([scale.low, scale.high])).tolist()
        return Log(low, high) if low < high else self


@dataclass(frozen=True, init=False)
class Periodic(_Ordered):
    """A circle: all numbers from `low` to `high`, which are equal, such as an angle, an hour, a weekday.

    `Periodic(7)` is from 0 to 7. The model uses the position on a circle, where 23:30 is close to 0:30;
    any stationary kernel of positions is a kernel of the values. The circumference is the period, so
    that small distances are in the unit of the parameter. The value `high` is converted to `low`. Values
    are rounded to 13 digits of the larger end.

    Raises
    ------
    ValueError
        If `low` is not below `high`, or the period is too small or too large for the precision of
        floats, also in comparison with `low` and `high`.

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
        return f"Periodic({format_exactly(self.low)}, {format_exactly(self.high)})"

    @property
    def _largest(self) -> float:
        """Return the larger absolute value of the two ends."""
        return max(abs(self.low), abs(self.high))

    @property
    def radius(self) -> float:
        """Return the radius of the circle."""
        return self.extent / (2.0 * math.pi)

    @property
    def bounds(self) -> list[list[float]]:
        """Return the lowest and the highest value of each column."""
        return [[-self.radius, self.radius]] * 2

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a user's value."""
        code = super().code_of(value, name, row)
        return _clip_code(self, code, TOLERANCE * self.extent, name, row)

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 2), which must be on the circle up to rounding."""
        is_off = np.abs(np.hypot(*columns.T) / self.radius - 1.0) > TOLERANCE
        _refuse(is_off, columns, f"{name} must be on a circle about 0 of radius {self.radius:g}")
        fraction = np.arctan2(columns[:, 1], columns[:, 0]) / (2.0 * math.pi) % 1.0
        digits = 13 - math.ceil(math.log10(self._largest))
        values = np.maximum(np.round(self.low + fraction * self.extent, digits), self.low)
        return np.where(values >= self.high, self.low, values)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 2) of codes (n,)."""
        angles = (codes - self.low) / self.radius
        return self.radius * np.column_stack([np.cos(angles), np.sin(angles)])

    def from_unit(self, u: Array) -> Array:
        """Return codes (n,) for numbers (n,) in the unit interval; uniform ones give uniform codes."""
        return np.asarray(self.low * (1.0 - u) + self.high * u)

    def to_unit(self, codes: Array) -> Array:
        """Return numbers (n,) in the unit interval for codes (n,)."""
        return np.asarray((codes - self.low) / self.extent)

    def convert_slopes(self, columns: Array, slopes: Array) -> Array:
        """Return slopes (n,) on the unit interval for slopes (n, 2) at columns (n, 2)."""
        x, y = columns.T
        return np.asarray(2.0 * math.pi * (x * slopes[:, 1] - y * slopes[:, 0]))


def _clip_code(
    parameter: Log | Periodic, code: float, tolerance: float, name: str, row: int
) -> float:
    """Return a code, clipped to the parameter's range; a `ValueError` if it exceeds the tolerance."""
    low, high = parameter.low, parameter.high
    if not low - tolerance <= code <= high + tolerance:
        needs = f"{name} must be from {format_exactly(low)} to {format_exactly(high)}"
        raise ValueError(f"{needs}, got {format_exactly(code)} in row {row}")
    return min(max(code, low), high)


def format_exactly(number: float) -> str:
    """Return a number as text without loss of precision, and without the ".0" of whole numbers."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _refuse(invalid: NDArray[np.bool_], columns: Array, needs: str) -> None:
    """Raise a `ValueError` that shows the first invalid row of columns (n, width), if there is one."""
    if invalid.any():
        row = int(invalid.argmax())
        values = columns[row].tolist()
        text = format_exactly(values[0]) if len(values) == 1 else values
        raise ValueError(f"{needs}, got {text} in row {row}")


class _Stepped:
    """A base class for discrete parameters: each value has a cell of the unit interval."""

    low: Any
    size: Any

    def from_unit(self, u: Array) -> Array:
        """Return codes (n,) for numbers (n,) in the unit interval; uniform ones give uniform codes."""
        return np.asarray(self.low + np.minimum(np.floor(u * self.size), self.size - 1))

    def to_unit(self, codes: Array) -> Array:
        """Return the middles (n,) of the cells in the unit interval for codes (n,)."""
        return np.asarray((codes - self.low + 0.5) / self.size)

    def convert_slopes(self, columns: Array, slopes: Array) -> Array:  # noqa: ARG002
        """Return zeros (n,), as there are no slopes between discrete values."""
        return np.zeros(len(slopes))

    def near(self, columns: Array, distance: float) -> Any:  # noqa: ARG002
        """Return the parameter unchanged, as it has only a few values."""
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
        """Return the number of values."""
        return self.high - self.low + 1

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1), which must be whole up to rounding."""
        values = columns[:, 0]
        rounded = np.rint(values)
        tolerance = min(TOLERANCE * self.extent, 1e-6)
        is_whole = np.abs(values - rounded) <= tolerance
        invalid = ~(is_whole & (rounded >= self.low) & (rounded <= self.high))
        _refuse(invalid, columns, f"{name} must be {self.needs} from {self.low} to {self.high}")
        return np.asarray(rounded + 0.0)

    def values(self, codes: Array) -> Any:
        """Return the user's values (n,) of codes."""
        return codes.astype(np.int64)

    def near(self, columns: Array, distance: float) -> Integer:
        """Return the whole numbers within a distance of columns (1,); all if it is below 1."""
        if distance < 1:
            return self
        (x,) = columns.tolist()
        low, high = math.ceil(x - distance), math.floor(x + distance)
        return Integer(max(self.low, low), min(self.high, high))


@dataclass(frozen=True)
class Choice(_Stepped):
    """A choice among several numbers, such as a batch size of 16, 32 or 64.

    The model uses the rank in ascending order, so that neighbouring numbers are at distance 1, whatever
    their difference.

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

    low: ClassVar[int] = 0  # type: ignore[misc]  # an instance attribute of the base class
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        needs = "at least two different numbers"
        values = as_list("choices", self.levels, needs)
        for value in values:
            if not is_finite_number(value):
                hint = 'for words and truth values write texts: ["yes", "no"]'
                raise ValueError(f"choices must be numbers, got {describe(value)}; {hint}")
        numbers: list[Any] = [finite_number("choices", value) for value in values]
        if all(number.is_integer() and abs(number) <= EXACT for number in numbers):
            numbers = [int(number) for number in numbers]
        levels = tuple(sorted(set(numbers)))
        require(len(levels) == len(values) >= 2, "choices", needs, values)
        set_fields(self, levels=levels)

    def __str__(self) -> str:
        return f"[{', '.join(map(format_exactly, self.levels))}]"

    @property
    def size(self) -> int:
        """Return the number of values."""
        return len(self.levels)

    @property
    def extent(self) -> float:
        """Return the highest rank."""
        return float(self.size - 1)

    @property
    def bounds(self) -> list[list[float]]:
        """Return the lowest and the highest rank."""
        return [[0.0, self.extent]]

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, 1), which must be whole up to rounding."""
        return Integer(0, self.size - 1).codes(columns, f"the rank of {name}")

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, 1) of codes (n,)."""
        return codes[:, None]

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a user's value."""
        if not is_finite_number(value) or value not in self.levels:
            raise ValueError(f"{name} must be one of {self}, got {describe(value)} in row {row}")
        return float(self.levels.index(value))

    def values(self, codes: Array) -> Any:
        """Return the user's values (n,) of codes."""
        return np.array(self.levels)[codes.astype(np.int64)]


@dataclass(frozen=True)
class Category(_Stepped):
    """A choice among several texts, which have no order.

    Examples
    --------
    >>> from tvbandits.domains.parameters import Category
    >>> print(Category(("water", "ethanol")).size)
    2
    """

    levels: tuple[str, ...]

    low: ClassVar[int] = 0  # type: ignore[misc]  # an instance attribute of the base class

    def __post_init__(self) -> None:
        items = as_list("categories", self.levels, "texts")
        levels = tuple(str(level) if isinstance(level, str) else level for level in items)
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
        """Return the number of columns."""
        return len(self.levels)

    @property
    def size(self) -> int:
        """Return the number of values."""
        return len(self.levels)

    def codes(self, columns: Array, name: str) -> Array:
        """Return the codes (n,) of columns (n, width), each with a 1 among 0s up to rounding."""
        codes = np.asarray(columns.argmax(axis=1))
        invalid = (np.abs(columns - np.eye(self.width)[codes]) > TOLERANCE).any(axis=1)
        _refuse(invalid, columns, f"{name} must be a 1 among 0s, for one of {self}")
        return codes.astype(np.float64)

    def columns(self, codes: Array) -> Array:
        """Return the columns (n, width) of codes (n,)."""
        return np.asarray(np.eye(self.width)[codes.astype(np.int64)])

    def code_of(self, value: object, name: str, row: int) -> float:
        """Return the code of a user's value."""
        if not isinstance(value, str) or value not in self.levels:
            raise ValueError(f"{name} must be one of {self}, got {describe(value)} in row {row}")
        return float(self.levels.index(value))

    def values(self, codes: Array) -> Any:
        """Return the user's values (n,) of codes."""
        return [self.levels[int(code)] for code in codes]

    @property
    def extent(self) -> float:
        """Return the distance of two points that differ only in this parameter."""
        return math.sqrt(2.0)

    @property
    def bounds(self) -> list[list[float]]:
        """Return the lowest and the highest value of each column."""
        return [[0.0, 1.0]] * self.width


Parameter = Real | Log | Periodic | Integer | Choice | Category


def as_parameter(value: object, name: str) -> Parameter:
    """Return the parameter for (10, 80), [16, 32, 64], ["a", "b"], or a parameter object.

    A tuple is an interval, a list of numbers a `Choice`, and a list of texts a `Category`.

    Raises
    ------
    ValueError
        If the value is none of them, or invalid; the message names the parameter.
    """
    if isinstance(value, Parameter):
        return value
    try:
        if isinstance(value, list) and value:
            has_texts = any(isinstance(level, str) for level in value)
            return Category(tuple(value)) if has_texts else Choice(tuple(value))
        if isinstance(value, tuple) and len(value) == 2 and as_texts(value) is None:
            return Real(*value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    needs = "an interval (low, high), a list of numbers or of texts, Integer(1, 5), Log(1e-6, 0.1)"
    raise ValueError(f"{name} must be {needs} or Periodic(0, 360), got {describe(value)}")


# --- points with names -------------------------------------------------------------------------------

# Points with names: a frame, a dictionary for one point, or a sequence of dictionaries.
Named: TypeAlias = Union["pd.DataFrame", Mapping[str, Any], Sequence[Mapping[str, Any]]]


def has_names(X: object) -> bool:
    """Return whether points have names: a frame, dictionaries, or texts, alone or in a sequence."""
    if type(X) is np.ndarray and X.dtype.kind == "f":
        return False
    first = X[0] if isinstance(X, list | tuple) and len(X) > 0 else X
    return isinstance(first, Mapping) or _is_frame(first) or as_texts(X) is not None


def as_texts(value: Any) -> list[Any] | None:
    """Return the items of a sequence with at least one text, or a single text in a list; else None."""
    if isinstance(value, str):
        return [value]
    # Arrays and columns of pandas have a number of dimensions.
    is_column = hasattr(value, "ndim") and value.ndim == 1
    if not (is_column or isinstance(value, list | tuple)):
        return None
    return list(value) if any(isinstance(item, str) for item in value) else None


def _is_frame(value: object) -> TypeGuard[pd.DataFrame]:
    """Return whether a value is a pandas DataFrame."""
    return is_library_instance(value, "pandas", "DataFrame")


def rows_by_name(points: object) -> list[Mapping[str, Any]]:
    """Return a dictionary of values by name for each point.

    Raises
    ------
    ValueError
        If points are neither a frame with distinct columns nor dictionaries.
    """
    if _is_frame(points):
        duplicates = points.columns[points.columns.duplicated()]
        if len(duplicates):
            raise ValueError(
                f"a frame must have different columns, got {describe(duplicates[0])} twice"
            )
        records: list[Any] = points.to_dict(orient="records")
        return records
    is_sequence = isinstance(points, Sequence) and not isinstance(points, str)
    rows: Any = points if is_sequence else [points]
    for row in rows:
        check_instance("points", row, Mapping, "a frame or dictionaries")
    return [dict(row) for row in rows]


def check_names(
    kind: str, values: Mapping[str, Any], names: Collection[str], place: str = ""
) -> None:
    """Raise a `ValueError` that shows a name that is unknown or missing, if there is one."""
    if unknown := [name for name in values if name not in names]:
        options = f"there are: {', '.join(names)}" if names else "there is none"
        raise ValueError(f"unknown {kind} {unknown[0]!r}{place}; {options}")
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"{kind} {missing[0]!r} is missing{place}, got {dict(values)}")

"""Checks of arrays and numbers at the entrance, and the range of numbers to compute with.

Every array and every number that people give passes through this file, so that the same thing is
welcome, or refused by name, everywhere alike:

* welcome are numbers of any real type, sequences and arrays of them, and pandas objects;
* refused are texts, bytes, complex numbers, dates and spans of time, truth values, records, masked
  cells, and numbers beyond the range that later computations can represent;
* a count is a whole number of an integer type: 3, not 3.0.

Every refusal is a `ValueError` that names what is wrong and shows what was given.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.validation import Array as Array, Index as Index


def row_keys(X: Array) -> list[bytes]:
    """Return the bytes of each row (n, d), which are equal for equal rows; -0.0 is 0.0."""
    raw, width = (X + 0.0).tobytes(), X.itemsize * X.shape[1]
    return [raw[i : i + width] for i in range(0, len(raw), width)]


def at_times(X: Array, t: Array | float) -> Array:
    """Return [X, t] (n, d + 1) of points (n, d), at one time or at their times (n,)."""
    Z = np.empty((len(X), X.shape[1] + 1))
    Z[:, :-1], Z[:, -1] = X, t
    return Z


def mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea & Flood 2014): every bit depends on every bit."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def checked_values(values: ArrayLike, X: Array) -> Array:
    """Return acquisition values as floats (m,); `ValueError` if one is NaN, naming its point."""
    checked = np.asarray(values, dtype=np.float64)
    if checked.shape != (len(X),):
        raise ValueError(f"acquisition values must have shape ({len(X)},), got {checked.shape}")
    bad = np.isnan(checked)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"acquisition is NaN at the point {X[row].tolist()} (row {row})")
    return checked


def row_of_largest(values: ArrayLike, X: Array, rng: np.random.Generator) -> int:
    """Return the row of the largest acquisition value (m,), or of one of several equal ones."""
    given = np.asarray(values, dtype=np.float64)
    if given.shape != (len(X),) or math.isnan(largest := given[given.argmax()]):
        checked_values(given, X)
    (ties,) = (given == largest).nonzero()
    return int(ties[0] if len(ties) == 1 else ties[rng.integers(len(ties))])


def check_sizes(values: Array, name: str) -> None:
    """Raise a `ValueError` that names the first of `values` beyond `LARGEST_VALUE`; NaN passes."""
    large = np.abs(values) > LARGEST_VALUE
    refuse(large, values, f"{name} must be at most {LARGEST_VALUE:g} in size")


def as_rows(values: ArrayLike, size: int, name: str) -> Index:
    """Return distinct rows from 0 to `size` - 1, in order; a `ValueError` names one that is not."""
    try:
        rows = np.asarray(values)
    except ValueError:  # ragged
        rows = np.empty((0, 0))
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a flat sequence of integers, got {shown(values)}")
    numbers = rows.tolist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < size:
        outside = next(each for each in numbers if not 0 <= each < size)
        raise ValueError(f"{name} must be from 0 to {size - 1}, got {outside}")
    if len(set(numbers)) < len(numbers):
        twice = next(each for each in numbers if numbers.count(each) > 1)
        raise ValueError(f"{name} must be distinct, got {twice} twice")
    return rows.astype(np.int64)


def as_variances(values: ArrayLike, n: int, name: str = "variance") -> Array:
    """Return noise variances as floats of shape (n,) in the range that can be computed with.

    Raises
    ------
    ValueError
        If one is not positive and finite, below `SMALLEST_VARIANCE` or above `LARGEST_VARIANCE`.
    """
    column = columned(values, n, name)
    if np.count_nonzero((column >= SMALLEST_VARIANCE) & (column <= LARGEST_VARIANCE)) < n:
        column = as_column(column, n, name)
        refuse(column <= 0, column, f"{name} must be positive")
        refuse(column < SMALLEST_VARIANCE, column, f"{name} must be at least {SMALLEST_VARIANCE:g}")
        refuse(column > LARGEST_VARIANCE, column, f"{name} must be at most {LARGEST_VARIANCE:g}")
    return column


def usable_variances(values: Array) -> Array:
    """Move computed variances into the range that can be computed with; NaN stays.

    A mean of answers at the smallest variance has one below it: that is no mistake of anybody.
    """
    return np.clip(values, SMALLEST_VARIANCE, LARGEST_VARIANCE)


def as_times(values: ArrayLike, n: int, name: str = "t") -> Array:
    """Return times as floats of shape (n,), smaller than `LARGEST_TIME` in size.

    Raises
    ------
    ValueError
        If they are not numeric, not finite, not `n`, or so large that t + 1 is t.
    """
    if type(values) in (int, float) and abs(values) < LARGEST_TIME:  # type: ignore[arg-type]
        return np.full(n, values, dtype=np.float64)
    column = columned(values, n, name)
    if np.count_nonzero(np.abs(column) < LARGEST_TIME) < n:
        column = as_column(column, n, name)
        refuse(np.abs(column) >= LARGEST_TIME, column, f"{name} {_TOO_LATE}", _NEARER)
    return column


# --- numbers --------------------------------------------------------------------------------------


def is_finite_number(value: object) -> bool:
    """Tell whether `value` is a plain real number: not NaN, not infinite, and no bool."""
    # A span of time is an integer to numpy.
    if isinstance(value, bool | np.timedelta64):
        return False
    if not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of a float
        return False


def is_infinite(value: object) -> bool:
    """Tell whether `value` is a plain float that is plus infinity."""
    return isinstance(value, float | np.floating) and float(value) == math.inf


def finite_number(
    name: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return `value` as a float between bounds.

    Parameters
    ----------
    name : str
    value : object
    low, high : float
        Bounds that it may take.
    above, below : float, optional
        Bounds that it may not take; they go before `low` and `high`.

    Raises
    ------
    ValueError
        If it is not a number, not finite, or out of bounds.
    """
    inside = is_finite_number(value)
    if inside:
        number = float(value)  # type: ignore[arg-type]
        inside = number >= low if above is None else number > above
        inside = inside and (number <= high if below is None else number < below)
    if not inside:
        first, last = low if above is None else above, high if below is None else below
        needs = _interval(first, last, above is not None, below is not None)
        hint = f": {DATES}" if is_date(value) else ""
        raise ValueError(f"{name} must {needs}, got {shown(value)}{hint}")
    return number


def positive_number(name: str, value: object) -> float:
    """Return `value` as a float; a `ValueError` unless it is positive and finite."""
    return finite_number(name, value, above=0.0)


def not_negative(name: str, value: object) -> float:
    """Return `value` as a float; a `ValueError` unless it is finite and at least 0."""
    if type(value) is float and 0.0 <= value < math.inf:
        return value
    return finite_number(name, value, low=0.0)


def noise_variance_number(name: str, value: object) -> float:
    """Return `value` as a float; a `ValueError` unless it is a usable noise variance."""
    positive_number(name, value)
    return finite_number(name, value, low=SMALLEST_VARIANCE, high=LARGEST_VARIANCE)


def as_time(value: object, name: str = "t") -> float:
    """Return `value` as a time.

    Raises
    ------
    ValueError
        If it is not a finite number, or so large that t + 1 is t.
    """
    if type(value) in (int, float) and abs(value) < LARGEST_TIME:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    number = finite_number(name, value)
    if abs(number) >= LARGEST_TIME:
        raise ValueError(f"{name} {_TOO_LATE}, got {number}{_NEARER}")
    return number


def is_whole(value: object) -> TypeGuard[int]:
    """Tell whether `value` is of an integer type: 3.0 is not, nor is True."""
    # A span of time is an integer to numpy.
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def whole_number(name: str, value: object, at_least: int = 1, at_most: int = LARGEST_WHOLE) -> int:
    """Return `value` as an int.

    Raises
    ------
    ValueError
        If it is not of an integer type (3.0 is not, nor is True), or out of bounds.
    """
    if not (is_whole(value) and value >= at_least):
        pointed = isinstance(value, float) and value.is_integer()
        hint = ": write it without a decimal point" if pointed else ""
        raise ValueError(
            f"{name} must be a whole number of at least {at_least}, got {shown(value)}{hint}"
        )
    if value > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {shown(value)}")
    return int(value)


def flag(name: str, value: object) -> bool:
    """Return `value` as a bool; a `ValueError` unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def as_generator(seed: object) -> np.random.Generator:
    """Return a random generator: a child of a generator, or a new one from a whole number.

    Raises
    ------
    ValueError
        If it is neither, such as None: a run that cannot be repeated is not made by leaving
        something out.
    """
    if isinstance(seed, np.random.Generator):
        return seed.spawn(1)[0]
    if is_whole(seed) and seed >= 0:
        return np.random.default_rng(seed)
    needs = "a whole number of at least 0 or a numpy.random.Generator"
    raise ValueError(f"seed must be {needs}, got {shown(seed)}")


# --- within ---------------------------------------------------------------------------------------


def columned(values: ArrayLike, n: int, name: str) -> Array:
    """Return `values` as floats of shape (n,), NaN and infinities too; a scalar is repeated."""
    column = as_floats(values, name)
    if column.ndim == 0:
        column = np.full(n, float(column))
    if column.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {column.shape}")
    return column


def _interval(low: float, high: float, low_open: bool, high_open: bool) -> str:
    """Describe in words which numbers are allowed."""
    if low == -math.inf and high == math.inf:
        return "be a finite number"
    if high == math.inf and low == 0:
        return "be positive and finite" if low_open else "be finite and not negative"
    if high == math.inf:
        return f"be finite and {'above' if low_open else 'at least'} {low:g}"
    if low == -math.inf:
        return f"be finite and {'below' if high_open else 'at most'} {high:g}"
    return f"lie in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"

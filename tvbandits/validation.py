"""Checks of every array, number, text and path that people pass.

The rules are the same everywhere:

* accepted are numbers of any real type, sequences and arrays of them, and pandas objects;
* refused are texts, bytes, complex numbers, dates and spans of time, truth values, records, masked
  cells, and numbers beyond the range that later computations can represent;
* a count is a whole number of an integer type: 3, not 3.0.

Every refusal is a `ValueError` that names the argument and shows its value. numpy and scikit-learn
convert much of this silently ("1", True, a masked cell), which is why their checks are not enough.
"""

from __future__ import annotations

import datetime
import math
import numbers
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

T = TypeVar("T")

# Largest size of a reward or an answer: its square over the smallest variance is 1e175, which can be
# represented. Rewards of a size of 1e-30 have a noise variance of 1e-66.
LARGEST_VALUE = 1e50
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-75, 1e100
# Largest size of a coordinate: squared distances can be represented.
LARGEST_COORDINATE = 1e150
# Times are smaller in size: from here on t + 1 is t.
LARGEST_TIME = 2.0**53
# Largest whole number: what an integer array can hold.
LARGEST_WHOLE = 2**63 - 1
# Characters of a note, and of a value in a message; bytes of the name of a file or a folder.
LONGEST_NOTE, LONGEST_SHOWN, LONGEST_NAME = 1000, 200, 255

# A hint, for dates in the place of numbers.
DATES = "turn dates and spans of time into numbers first, as a Clock does"
_TOO_LATE = "must be smaller than 2^53 in size, where t + 1 is t"
_NEARER = ": count from a nearer origin or in a larger unit, as a Clock does"
_TRUTH, _MASKED = "truth values are no numbers", "values are masked"
# Reasons why arrays of these kinds hold no real numbers.
_KINDS = {
    "b": _TRUTH,
    "c": "complex numbers are not ordered",
    "M": DATES,
    "m": DATES,
    "U": "texts are no numbers",
    "S": "bytes are no numbers",
    "V": "records are no numbers",
}


# --- values in messages ---------------------------------------------------------------------------


def cut(text: str, longest: int) -> str:
    """Return a text of at most so many characters, with "..." for the rest."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def clean(text: str, longest: int = LONGEST_NOTE) -> str:
    """Return a text without control characters, which a terminal would obey."""
    plain = "".join(each if each.isprintable() else " " for each in text[: 4 * longest])
    return cut(plain, longest)


def describe(value: object) -> str:
    """Return a value for a message: one line, and not too long."""
    try:
        text = repr(value.item() if isinstance(value, np.number) else value)
    except Exception:  # an object of somebody else, or an int of thousands of digits
        return f"something of type {type(value).__name__}"
    return cut(" ".join(text.split()), LONGEST_SHOWN)


def error_line(error: BaseException) -> str:
    """Return an error in one line: its type, and what it says."""
    return f"{type(error).__name__}: {error}"


def either(words: Sequence[str]) -> str:
    """Return `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def require(valid: object, name: str, needs: str, value: object) -> None:
    """Raise a `ValueError` with what an argument must be and its value, unless that is valid."""
    if not valid:
        raise ValueError(f"{name} must be {needs}, got {describe(value)}")


def refuse(
    invalid: NDArray[np.bool_] | np.bool_, values: Array, needs: str, hint: str = ""
) -> None:
    """Raise a `ValueError` that names the first of values (n,), or points (n, d), that is invalid."""
    if np.count_nonzero(invalid):
        where = int(invalid.argmax())
        place = "in row" if values.ndim > 1 else "at position"
        raise ValueError(f"{needs}, got {values[where].tolist()} {place} {where}{hint}")


# --- arrays ---------------------------------------------------------------------------------------


def as_floats(values: ArrayLike, name: str) -> Array:
    """Return a float copy of `values`, of any shape; NaN and infinities pass.

    Raises
    ------
    ValueError
        If they are not real numbers: texts, complex numbers, dates, truth values, masked cells, ...
    """
    plain = type(values) in (int, float) and abs(values) < LARGEST_TIME  # type: ignore[arg-type]
    if plain or (type(values) is np.ndarray and values.dtype == np.float64):
        return np.array(values, dtype=np.float64)
    cause: Exception | None = None
    try:
        why = _odd_within(values) if isinstance(values, list | tuple) else ""
        if not why:
            raw = _raw_array(values)
            why = _why_no_numbers(values, raw)
        if not why:
            with np.errstate(over="ignore"):  # a longer float becomes infinite
                return np.array(raw, dtype=np.float64)
    except OverflowError as error:
        cause, why = error, "a number is too large for a float"
    except (TypeError, ValueError, RecursionError) as error:
        cause, why = error, ""
    reason = f": {why}" if why else ""
    raise ValueError(f"{name} must be numeric, got {describe(values)}{reason}") from cause


def _raw_array(values: Any) -> NDArray[Any]:
    """Return the array of values; pandas' own kinds of numbers with their gaps as NaN."""
    dtype = getattr(values, "dtype", None)
    extended = dtype is not None and not isinstance(dtype, np.dtype)
    if extended and getattr(dtype, "kind", "O") in "iuf" and hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values)


def _why_no_numbers(values: object, raw: NDArray[Any]) -> str:
    """Return why values are not numbers, in a few words; an empty text if they are."""
    if raw.dtype.kind == "O":
        return next(filter(None, map(_odd, raw.ravel())), "")
    return _KINDS.get(raw.dtype.kind) or (_MASKED if np.ma.is_masked(values) else "")


def _odd(element: object) -> str:
    """Return why an element of an array of objects is no real number; an empty text if it is one."""
    if isinstance(element, bool | np.bool_):
        return _TRUTH
    if isinstance(element, numbers.Real | Decimal):
        return ""
    return DATES if is_date(element) else f"{describe(element)} is no number"


def _odd_within(values: Sequence[Any]) -> str:
    """Return what numpy would take for numbers in a nested sequence: truth values, masked cells."""
    for each in values:
        if isinstance(each, list | tuple):
            if why := _odd_within(each):
                return why
        elif isinstance(each, bool | np.bool_):
            return _TRUTH
        elif isinstance(each, np.ndarray) and (each.dtype.kind == "b" or np.ma.is_masked(each)):
            return _TRUTH if each.dtype.kind == "b" else _MASKED
    return ""


def as_points(X: ArrayLike, dimension: int | None = None, name: str = "X") -> Array:
    """Return `X` as a finite float array of shape (n, d).

    A single point may be given as a flat sequence of `dimension` numbers.

    Raises
    ------
    ValueError
        If `X` is not numeric, not two-dimensional, not finite, beyond `LARGEST_COORDINATE`, or not of
        `dimension` columns.
    """
    points = as_floats(X, name)
    if points.ndim == 1 and dimension is not None and points.shape[0] == dimension:
        points = points[None, :]
    expected = f"(n, {'d' if dimension is None else dimension})"
    if points.ndim != 2 or (dimension is not None and points.shape[1] != dimension):
        column = dimension in (None, 1) and points.ndim == 1
        hint = ": give a column, as np.reshape(X, (-1, 1))" if column else ""
        raise ValueError(f"{name} must have shape {expected}, got {points.shape}{hint}")
    _check_order(X, points.shape[1], name)
    if np.count_nonzero(np.abs(points) <= LARGEST_COORDINATE) < points.size:
        refuse(~np.isfinite(points).all(axis=1), points, f"{name} must be finite")
        far = (np.abs(points) > LARGEST_COORDINATE).any(axis=1)
        refuse(far, points, f"coordinates of {name} must be at most {LARGEST_COORDINATE:g} in size")
    return points


def _check_order(X: Any, dimension: int, name: str) -> None:
    """Raise a `ValueError` for a frame with the columns x0, x1, ... in another order."""
    columns = [] if isinstance(X, np.ndarray) else [*getattr(X, "columns", [])]
    order = [f"x{i}" for i in range(dimension)]
    if columns != order and set(columns) == set(order):
        raise ValueError(f"columns of {name} must be in the order {order}, got {columns}")


def as_vector(values: ArrayLike, n: int, name: str) -> Array:
    """Return `values` as floats of shape (n,), NaN and infinities too; a scalar is repeated."""
    column = as_floats(values, name)
    if column.ndim == 0:
        column = np.full(n, float(column))
    if column.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {column.shape}")
    return column


def as_column(values: ArrayLike, n: int, name: str) -> Array:
    """Return `values` as a finite float array of shape (n,); a scalar is repeated."""
    column = as_vector(values, n, name)
    refuse(~np.isfinite(column), column, f"{name} must be finite")
    return column


def as_values(values: ArrayLike, n: int, name: str = "y", *, missing: bool = False) -> Array:
    """Return rewards or answers as floats of shape (n,), at most `LARGEST_VALUE` in size.

    Parameters
    ----------
    values : array of shape (n,) or a number
    n : int
    name : str
    missing : bool
        Whether a NaN may stand where there is none.

    Raises
    ------
    ValueError
        If they are not numeric, not `n`, infinite, too large, or NaN where that may not be.
    """
    column = as_vector(values, n, name)
    if np.count_nonzero(np.abs(column) <= LARGEST_VALUE) < n:
        if not missing:
            refuse(~np.isfinite(column), column, f"{name} must be finite")
        check_sizes(column, name)
    return column


def check_sizes(values: Array, name: str) -> None:
    """Raise a `ValueError` that names the first of `values` beyond `LARGEST_VALUE`; NaN passes."""
    large = np.abs(values) > LARGEST_VALUE
    refuse(large, values, f"{name} must be at most {LARGEST_VALUE:g} in size")


def as_variances(values: ArrayLike, n: int, name: str = "variance") -> Array:
    """Return noise variances as floats of shape (n,) in the range that can be computed with.

    Raises
    ------
    ValueError
        If one is not positive and finite, below `SMALLEST_VARIANCE` or above `LARGEST_VARIANCE`.
    """
    column = as_vector(values, n, name)
    if np.count_nonzero((column >= SMALLEST_VARIANCE) & (column <= LARGEST_VARIANCE)) < n:
        refuse(~np.isfinite(column), column, f"{name} must be finite")
        refuse(column <= 0, column, f"{name} must be positive")
        refuse(column < SMALLEST_VARIANCE, column, f"{name} must be at least {SMALLEST_VARIANCE:g}")
        refuse(column > LARGEST_VARIANCE, column, f"{name} must be at most {LARGEST_VARIANCE:g}")
    return column


def usable_variances(values: Array) -> Array:
    """Return computed variances, moved into the range that can be computed with; NaN stays.

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
    column = as_vector(values, n, name)
    if np.count_nonzero(np.abs(column) < LARGEST_TIME) < n:
        refuse(~np.isfinite(column), column, f"{name} must be finite")
        refuse(np.abs(column) >= LARGEST_TIME, column, f"{name} {_TOO_LATE}", _NEARER)
    return column


def as_rows(values: ArrayLike, size: int, name: str) -> Index:
    """Return distinct row numbers below `size`, in their order; a `ValueError` names a wrong one."""
    try:
        rows = np.asarray(values)
    except ValueError:  # ragged
        rows = np.empty((0, 0))
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a flat sequence of integers, got {describe(values)}")
    numbers = rows.tolist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < size:
        outside = next(each for each in numbers if not 0 <= each < size)
        raise ValueError(f"{name} must be from 0 to {size - 1}, got {outside}")
    if len(set(numbers)) < len(numbers):
        twice = next(each for each in numbers if numbers.count(each) > 1)
        raise ValueError(f"{name} must be distinct, got {twice} twice")
    return rows.astype(np.int64)


# --- numbers --------------------------------------------------------------------------------------


def is_date(value: object) -> bool:
    """Return whether `value` is a date, a time of day or a span of time."""
    kinds = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    return isinstance(value, kinds)  # pandas' Timestamp and Timedelta are of these kinds, too


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether `value` is of an integer type: 3.0 is not, nor is True."""
    # A span of time is an integer to numpy.
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_finite_number(value: object) -> bool:
    """Return whether `value` is a plain real number, neither NaN nor infinite, and no truth value."""
    if not (is_whole(value) or isinstance(value, float | np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of a float
        return False


def is_infinite(value: object) -> bool:
    """Return whether `value` is a plain float that is plus infinity."""
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
        raise ValueError(f"{name} must {needs}, got {describe(value)}{hint}")
    return number


def _interval(low: float, high: float, low_open: bool, high_open: bool) -> str:
    """Return what a number must be, in words."""
    if low == -math.inf and high == math.inf:
        return "be a finite number"
    if high == math.inf and low == 0:
        return "be positive and finite" if low_open else "be finite and not negative"
    if high == math.inf:
        return f"be finite and {'above' if low_open else 'at least'} {low:g}"
    if low == -math.inf:
        return f"be finite and {'below' if high_open else 'at most'} {high:g}"
    return f"lie in {'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"


def positive_number(name: str, value: object) -> float:
    """Return `value` as a float; a `ValueError` unless it is positive and finite."""
    return finite_number(name, value, above=0.0)


def not_negative(name: str, value: object) -> float:
    """Return `value` as a float; a `ValueError` unless it is finite and at least 0."""
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
    number = finite_number(name, value)
    if abs(number) >= LARGEST_TIME:
        raise ValueError(f"{name} {_TOO_LATE}, got {number}{_NEARER}")
    return number


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
            f"{name} must be a whole number of at least {at_least}, got {describe(value)}{hint}"
        )
    if value > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {describe(value)}")
    return int(value)


def flag(name: str, value: object) -> bool:
    """Return `value` as a bool; a `ValueError` unless it is True or False."""
    require(isinstance(value, bool | np.bool_), name, "True or False", value)
    return bool(value)


# What a generator of random numbers is made from.
Seed: TypeAlias = int | np.random.Generator


def as_generator(seed: object) -> np.random.Generator:
    """Return a generator of random numbers: a child of a generator, or one from a whole number.

    Raises
    ------
    ValueError
        If it is neither, such as None: nobody gets a run that cannot be repeated by leaving out a seed.
    """
    if isinstance(seed, np.random.Generator):
        return seed.spawn(1)[0]
    needs = "a whole number of at least 0 or a numpy.random.Generator"
    require(is_whole(seed) and seed >= 0, "seed", needs, seed)
    return np.random.default_rng(seed)  # type: ignore[arg-type]


# --- texts, paths and objects ---------------------------------------------------------------------


def is_of(value: object, module: str, *classes: str) -> bool:
    """Return whether a value is of a class of a library, without importing the library.

    Before it is imported no value is of one of its classes.
    """
    library = sys.modules.get(module)
    return library is not None and isinstance(
        value, tuple(vars(library).get(each, ()) for each in classes)
    )


def text(name: str, value: object) -> str:
    """Return `value`; a `ValueError` unless it is a text without control characters."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {describe(value)}")
    if has_controls(value):
        raise ValueError(f"{name} must be a text without control characters, got {describe(value)}")
    return value


def has_controls(value: str) -> bool:
    """Return whether a text has control characters, or halves of characters that cannot be shown."""
    return any(unicodedata.category(each) in ("Cc", "Cs") for each in value)


def choice(name: str, value: object, options: Collection[str]) -> str:
    """Return `value`; a `ValueError` unless it is one of the options."""
    if not isinstance(value, str) or value not in options:
        words = [f'"{each}"' for each in options]
        raise ValueError(f"{name} must be {either(words)}, got {describe(value)}")
    return value


def function(name: str, value: object, needs: str = "a function") -> None:
    """Raise a `ValueError` unless `value` can be called, and is no class."""
    require(callable(value) and not isinstance(value, type), name, needs, value)


def optional(
    check: Callable[..., T], name: str, value: object, *more: Any, **rest: Any
) -> T | None:
    """Return the result of a check, or None for None."""
    return None if value is None else check(name, value, *more, **rest)


def of_kind(name: str, value: object, kind: type | tuple[type, ...], needs: str) -> None:
    """Raise a `ValueError` unless `value` is an instance of `kind`: what it must be, in words."""
    require(isinstance(value, kind), name, needs, value)


def several(name: str, value: object, needs: str) -> list[Any]:
    """Return the items of `value` in a list.

    Raises
    ------
    ValueError
        If it is no sequence: a text is one thing, and a mapping or a set has no order.
    """
    single = isinstance(value, str | bytes | bytearray | Mapping | Set)
    if not (single or is_of(value, "pandas", "DataFrame")) and isinstance(value, Iterable):
        # An array of no dimension, or what only looks like a sequence.
        with suppress(TypeError, ValueError):
            return list(value)
    raise ValueError(f"{name} must be {needs}, got {describe(value)}")


def file_path(name: str, value: object) -> Path:
    """Return `value` as a path.

    Raises
    ------
    ValueError
        If it is neither a text nor a path, is empty, is an address such as `file:///tmp`, or has control
        characters, which a terminal that shows the path would obey.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path.strip() or has_controls(path):
        raise ValueError(f"{name} must be the path of a file, got {describe(value)}")
    address = re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path)
    require(not address, name, "the path of a file, not an address", value)
    longest = max((len(os.fsencode(part)) for part in Path(path).parts), default=0)
    needs = f"the path of a file, whose name has at most {LONGEST_NAME} bytes"
    require(longest <= LONGEST_NAME, name, needs, value)
    return Path(path)


def file_paths(name: str, value: object) -> list[Path]:
    """Return one path, or several, in a list; a `ValueError` unless they are paths."""
    if isinstance(value, str | os.PathLike):
        return [file_path(name, value)]
    needs = "the path of a file, or a list of them"
    return [file_path(f"each of {name}", each) for each in several(name, value, needs)]


def check_part(name: str, part: object, needs: str, method: str) -> None:
    """Raise a `ValueError` unless `part` is an object (not a class, nor an array) with the method."""
    # Arrays have many methods.
    array = isinstance(part, type | np.ndarray | np.generic)
    array = array or is_of(part, "pandas", "Series", "DataFrame")
    require(not array and callable(getattr(part, method, None)), name, needs, part)


def settle(instance: object, **fields: object) -> None:
    """Set fields of a frozen dataclass in its `__post_init__`."""
    for name, value in fields.items():
        object.__setattr__(instance, name, value)

"""Checks of the arrays, numbers, texts and paths that users pass.

The rules are the same everywhere:

* numbers of any real type are accepted, and sequences, arrays and pandas objects of them;
* texts, bytes, complex numbers, dates and spans of time, truth values, records, masked cells, and
  numbers beyond the range that later computations can represent are refused;
* a count must be of an integer type: 3, not 3.0.

Each check raises a `ValueError` that names the argument and shows its value. The checks of numpy and
scikit-learn are not enough, as they convert "1", True or a masked cell silently.
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

# The largest absolute reward or answer. Its square over the smallest variance is 1e175, which a float
# can represent; the smallest variance allows for rewards of size 1e-30, whose noise variance is 1e-66.
LARGEST_VALUE = 1e50
SMALLEST_VARIANCE, LARGEST_VARIANCE = 1e-75, 1e100
# The largest absolute coordinate: a float can represent squared distances.
LARGEST_COORDINATE = 1e150
# All times are smaller in absolute value: a float t of this size equals t + 1.
LARGEST_TIME = 2.0**53
# The largest whole number, which an integer array can still contain.
LARGEST_WHOLE = 2**63 - 1
# Characters of a note, and of a value in a message; bytes of the name of a file or a folder.
LONGEST_NOTE, LONGEST_SHOWN, LONGEST_NAME = 1000, 200, 255

# A remedy for messages about dates in the place of numbers.
DATES = "turn dates and spans of time into numbers first, as a Clock does"
_TOO_LATE = "must be smaller than 2^53 in size, where t + 1 is t"
_NEARER = ": count from a nearer origin or in a larger unit, as a Clock does"
_TRUTH, _MASKED = "truth values are no numbers", "values are masked"
# Why arrays of these kinds contain no real numbers.
_REASONS = {
    "b": _TRUTH,
    "c": "complex numbers are not ordered",
    "M": DATES,
    "m": DATES,
    "U": "texts are no numbers",
    "S": "bytes are no numbers",
    "V": "records are no numbers",
}


# --- values in messages ---------------------------------------------------------------------------


def cut(text: str, max_length: int) -> str:
    """Return a text with at most `max_length` characters, ending in "..." if it was cut."""
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def clean(text: str, max_length: int = LONGEST_NOTE) -> str:
    """Return a text with spaces for control characters, which a terminal would execute."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * max_length])
    return cut(printable, max_length)


def describe(value: object) -> str:
    """Return the `repr` of a value on one line of limited length, for a message."""
    try:
        text = repr(value.item() if isinstance(value, np.number) else value)
    except Exception:  # an object of the user, or an int of thousands of digits
        return f"something of type {type(value).__name__}"
    return cut(" ".join(text.split()), LONGEST_SHOWN)


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an error."""
    return f"{type(error).__name__}: {error}"


def join_options(words: Sequence[str]) -> str:
    """Return the words as the text `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def require(valid: object, name: str, needs: str, value: object) -> None:
    """Raise a `ValueError` that says what an argument must be and shows it, unless `valid`."""
    if not valid:
        raise ValueError(f"{name} must be {needs}, got {describe(value)}")


def refuse(
    invalid: NDArray[np.bool_] | np.bool_, values: Array, needs: str, hint: str = ""
) -> None:
    """Raise a `ValueError` that shows the first invalid one of values (n,) or points (n, d), if any."""
    if np.count_nonzero(invalid):
        index = int(invalid.argmax())
        place = "in row" if values.ndim > 1 else "at position"
        raise ValueError(f"{needs}, got {values[index].tolist()} {place} {index}{hint}")


# --- arrays ---------------------------------------------------------------------------------------


def as_floats(values: ArrayLike, name: str) -> Array:
    """Return a float copy of `values`, of any shape; NaN and infinities are accepted.

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
        reason = _why_not_real_within(values) if isinstance(values, list | tuple) else ""
        if not reason:
            raw = _as_array(values)
            reason = _why_not_numbers(values, raw)
        if not reason:
            with np.errstate(over="ignore"):  # too large a long double becomes infinite
                return np.array(raw, dtype=np.float64)
    except OverflowError as error:
        cause, reason = error, "a number is too large for a float"
    except (TypeError, ValueError, RecursionError) as error:
        cause, reason = error, ""
    ending = f": {reason}" if reason else ""
    raise ValueError(f"{name} must be numeric, got {describe(values)}{ending}") from cause


def _as_array(values: Any) -> NDArray[Any]:
    """Return values as an array of any type; gaps in pandas' nullable numbers become NaN."""
    dtype = getattr(values, "dtype", None)
    extended = dtype is not None and not isinstance(dtype, np.dtype)
    if extended and getattr(dtype, "kind", "O") in "iuf" and hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values)


def _why_not_numbers(values: object, raw: NDArray[Any]) -> str:
    """Return the reason why values are not real numbers, or "" if they are."""
    if raw.dtype.kind == "O":
        return next(filter(None, map(_why_not_real, raw.ravel())), "")
    return _REASONS.get(raw.dtype.kind) or (_MASKED if np.ma.is_masked(values) else "")


def _why_not_real(element: object) -> str:
    """Return the reason why an element of an object array is not a real number, or "" if it is."""
    if isinstance(element, bool | np.bool_):
        return _TRUTH
    if isinstance(element, numbers.Real | Decimal):
        return ""
    return DATES if is_date(element) else f"{describe(element)} is no number"


def _why_not_real_within(values: Sequence[Any]) -> str:
    """Return the reason why a nested sequence is not numeric although numpy converts it, or "".

    numpy takes truth values and masked cells for numbers.
    """
    for item in values:
        if isinstance(item, list | tuple):
            if reason := _why_not_real_within(item):
                return reason
        elif isinstance(item, bool | np.bool_):
            return _TRUTH
        elif isinstance(item, np.ndarray) and (item.dtype.kind == "b" or np.ma.is_masked(item)):
            return _TRUTH if item.dtype.kind == "b" else _MASKED
    return ""


def as_points(X: ArrayLike, dimension: int | None = None, name: str = "X") -> Array:
    """Return `X` as a finite float array of shape (n, d).

    A flat sequence of `dimension` numbers is a single point.

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
        too_large = (np.abs(points) > LARGEST_COORDINATE).any(axis=1)
        refuse(
            too_large,
            points,
            f"coordinates of {name} must be at most {LARGEST_COORDINATE:g} in size",
        )
    return points


def _check_order(X: Any, dimension: int, name: str) -> None:
    """Raise a `ValueError` for a frame with the columns x0, x1, ... in another order."""
    columns = [] if isinstance(X, np.ndarray) else [*getattr(X, "columns", [])]
    order = [f"x{i}" for i in range(dimension)]
    if columns != order and set(columns) == set(order):
        raise ValueError(f"columns of {name} must be in the order {order}, got {columns}")


def as_vector(values: ArrayLike, n: int, name: str) -> Array:
    """Return `values` as floats of shape (n,), which may be NaN or infinite; a scalar is repeated."""
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
        Whether values may be missing (NaN).

    Raises
    ------
    ValueError
        If the values are not numeric, not `n`, infinite, too large, or NaN though none may be missing.
    """
    column = as_vector(values, n, name)
    if np.count_nonzero(np.abs(column) <= LARGEST_VALUE) < n:
        if not missing:
            refuse(~np.isfinite(column), column, f"{name} must be finite")
        check_sizes(column, name)
    return column


def check_sizes(values: Array, name: str) -> None:
    """Raise a `ValueError` that shows the first of `values` beyond `LARGEST_VALUE`; accept NaN."""
    too_large = np.abs(values) > LARGEST_VALUE
    refuse(too_large, values, f"{name} must be at most {LARGEST_VALUE:g} in size")


def as_variances(values: ArrayLike, n: int, name: str = "variance") -> Array:
    """Return noise variances as floats of shape (n,).

    Raises
    ------
    ValueError
        If a variance is not finite, or not from `SMALLEST_VARIANCE` to `LARGEST_VARIANCE`.
    """
    column = as_vector(values, n, name)
    if np.count_nonzero((column >= SMALLEST_VARIANCE) & (column <= LARGEST_VARIANCE)) < n:
        refuse(~np.isfinite(column), column, f"{name} must be finite")
        refuse(column <= 0, column, f"{name} must be positive")
        refuse(column < SMALLEST_VARIANCE, column, f"{name} must be at least {SMALLEST_VARIANCE:g}")
        refuse(column > LARGEST_VARIANCE, column, f"{name} must be at most {LARGEST_VARIANCE:g}")
    return column


def clip_variances(values: Array) -> Array:
    """Return computed variances, clipped to the range that `as_variances` accepts; NaN stays NaN.

    The mean of several answers of the smallest variance, for example, has a smaller variance.
    """
    return np.clip(values, SMALLEST_VARIANCE, LARGEST_VARIANCE)


def as_times(values: ArrayLike, n: int, name: str = "t") -> Array:
    """Return times as floats of shape (n,), smaller than `LARGEST_TIME` in size.

    Raises
    ------
    ValueError
        If the times are not numeric, not finite, not `n`, or so large that t + 1 is t.
    """
    column = as_vector(values, n, name)
    if np.count_nonzero(np.abs(column) < LARGEST_TIME) < n:
        refuse(~np.isfinite(column), column, f"{name} must be finite")
        refuse(np.abs(column) >= LARGEST_TIME, column, f"{name} {_TOO_LATE}", _NEARER)
    return column


def as_rows(values: ArrayLike, size: int, name: str) -> Index:
    """Return distinct row numbers below `size` in the same order; a `ValueError` names a wrong one."""
    try:
        rows = np.asarray(values)
    except ValueError:  # sequences of different lengths
        rows = np.empty((0, 0))
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a flat sequence of integers, got {describe(values)}")
    numbers = rows.tolist()
    if numbers and not 0 <= min(numbers) <= max(numbers) < size:
        invalid = next(row for row in numbers if not 0 <= row < size)
        raise ValueError(f"{name} must be from 0 to {size - 1}, got {invalid}")
    if len(set(numbers)) < len(numbers):
        duplicate = next(row for row in numbers if numbers.count(row) > 1)
        raise ValueError(f"{name} must be distinct, got {duplicate} twice")
    return rows.astype(np.int64)


# --- numbers --------------------------------------------------------------------------------------


def is_date(value: object) -> bool:
    """Return whether `value` is a date, a time of day or a span of time."""
    kinds = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    return isinstance(value, kinds)  # pandas' Timestamp and Timedelta inherit from them


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether `value` is of an integer type, unlike 3.0 or True."""
    # numpy's spans of time are a subclass of its integers.
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_finite_number(value: object) -> bool:
    """Return whether `value` is a finite number of an integer or float type, and no truth value."""
    if not (is_whole(value) or isinstance(value, float | np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of a float
        return False


def is_infinite(value: object) -> bool:
    """Return whether `value` is a float that is plus infinity."""
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
        Bounds that the value may equal.
    above, below : float, optional
        Bounds that the value may not equal, used instead of `low` and `high`.

    Raises
    ------
    ValueError
        If the value is not a number, not finite, or out of bounds.
    """
    is_valid = is_finite_number(value)
    if is_valid:
        number = float(value)  # type: ignore[arg-type]
        is_valid = number >= low if above is None else number > above
        is_valid = is_valid and (number <= high if below is None else number < below)
    if not is_valid:
        bounds = low if above is None else above, high if below is None else below
        needs = _describe_interval(*bounds, above is not None, below is not None)
        hint = f": {DATES}" if is_date(value) else ""
        raise ValueError(f"{name} must {needs}, got {describe(value)}{hint}")
    return number


def _describe_interval(low: float, high: float, low_open: bool, high_open: bool) -> str:
    """Return the words after "must" in a message about a number out of bounds."""
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


def nonnegative_number(name: str, value: object) -> float:
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
        If the value is not a finite number, or so large that t + 1 is t.
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
        If the value is not of an integer type (3.0 and True are not), or out of bounds.
    """
    if not (is_whole(value) and value >= at_least):
        has_point = isinstance(value, float) and value.is_integer()
        hint = ": write it without a decimal point" if has_point else ""
        raise ValueError(
            f"{name} must be a whole number of at least {at_least}, got {describe(value)}{hint}"
        )
    if value > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {describe(value)}")
    return int(value)


def as_bool(name: str, value: object) -> bool:
    """Return `value` as a bool; a `ValueError` unless it is True or False."""
    require(isinstance(value, bool | np.bool_), name, "True or False", value)
    return bool(value)


# The seed of a generator of random numbers, or a generator from which a child is spawned.
Seed: TypeAlias = int | np.random.Generator


def as_generator(seed: object) -> np.random.Generator:
    """Return a generator of random numbers from a whole number, or a child of a generator.

    Raises
    ------
    ValueError
        If the seed is anything else. None is refused, so that every run can be repeated.
    """
    if isinstance(seed, np.random.Generator):
        return seed.spawn(1)[0]
    needs = "a whole number of at least 0 or a numpy.random.Generator"
    require(is_whole(seed) and seed >= 0, "seed", needs, seed)
    return np.random.default_rng(seed)  # type: ignore[arg-type]


# --- texts, paths and objects ---------------------------------------------------------------------


def is_library_instance(value: object, module: str, *classes: str) -> bool:
    """Return whether a value is an instance of a class of a library, without importing the library.

    If nobody has imported the library, there are no instances of its classes.
    """
    library = sys.modules.get(module)
    return library is not None and isinstance(
        value, tuple(vars(library).get(name, ()) for name in classes)
    )


def check_text(name: str, value: object) -> str:
    """Return `value`; a `ValueError` unless it is a text without control characters."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {describe(value)}")
    if has_controls(value):
        raise ValueError(f"{name} must be a text without control characters, got {describe(value)}")
    return value


def has_controls(value: str) -> bool:
    """Return whether a text has control characters or unpaired surrogates, which cannot be shown."""
    return any(unicodedata.category(char) in ("Cc", "Cs") for char in value)


def check_choice(name: str, value: object, options: Collection[str]) -> str:
    """Return `value`; a `ValueError` unless it is one of the options."""
    if not isinstance(value, str) or value not in options:
        words = [f'"{option}"' for option in options]
        raise ValueError(f"{name} must be {join_options(words)}, got {describe(value)}")
    return value


def check_function(name: str, value: object, needs: str = "a function") -> None:
    """Raise a `ValueError` unless `value` is callable and not a class."""
    require(callable(value) and not isinstance(value, type), name, needs, value)


def check_optional(
    check: Callable[..., T], name: str, value: object, *args: Any, **kwargs: Any
) -> T | None:
    """Return the result of a check of `value`, or None if `value` is None."""
    return None if value is None else check(name, value, *args, **kwargs)


def check_instance(name: str, value: object, kind: type | tuple[type, ...], needs: str) -> None:
    """Raise a `ValueError` unless `value` is an instance of `kind`, which `needs` describes."""
    require(isinstance(value, kind), name, needs, value)


def as_list(name: str, value: object, needs: str) -> list[Any]:
    """Return the items of `value` in a list.

    Raises
    ------
    ValueError
        If the value is not a sequence. A text is a single item; a mapping or a set has no order.
    """
    unsuitable = isinstance(value, str | bytes | bytearray | Mapping | Set)
    unsuitable = unsuitable or is_library_instance(value, "pandas", "DataFrame")
    if not unsuitable and isinstance(value, Iterable):
        # Iteration fails for an array without dimensions, and for some objects of users.
        with suppress(TypeError, ValueError):
            return list(value)
    raise ValueError(f"{name} must be {needs}, got {describe(value)}")


def file_path(name: str, value: object) -> Path:
    """Return `value` as a path.

    Raises
    ------
    ValueError
        If the value is neither a text nor a path, is empty, is an address such as `file:///tmp`, or has
        control characters, which a terminal that shows the path would execute.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path.strip() or has_controls(path):
        raise ValueError(f"{name} must be the path of a file, got {describe(value)}")
    address = re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path)
    require(not address, name, "the path of a file, not an address", value)
    length = max((len(os.fsencode(part)) for part in Path(path).parts), default=0)
    needs = f"the path of a file, whose name has at most {LONGEST_NAME} bytes"
    require(length <= LONGEST_NAME, name, needs, value)
    return Path(path)


def file_paths(name: str, value: object) -> list[Path]:
    """Return one path or a sequence of paths as a list; a `ValueError` names an invalid one."""
    if isinstance(value, str | os.PathLike):
        return [file_path(name, value)]
    needs = "the path of a file, or a list of them"
    return [file_path(f"each of {name}", item) for item in as_list(name, value, needs)]


def check_part(name: str, part: object, needs: str, method: str) -> None:
    """Raise a `ValueError` unless `part` has the method, and is neither a class nor an array."""
    # Classes and arrays are refused because they have many methods, by chance also this one.
    unsuitable = isinstance(part, type | np.ndarray | np.generic)
    unsuitable = unsuitable or is_library_instance(part, "pandas", "Series", "DataFrame")
    require(not unsuitable and callable(getattr(part, method, None)), name, needs, part)


def set_fields(instance: object, **fields: object) -> None:
    """Set fields of a frozen dataclass, for use in its `__post_init__`."""
    for name, value in fields.items():
        object.__setattr__(instance, name, value)

"""What may enter: every array, number, text and path that people give is checked here.

The same thing is welcome, or refused by name, everywhere alike:

* welcome are numbers of any real type, sequences and arrays of them, and pandas objects;
* refused are texts, bytes, complex numbers, dates and spans of time, truth values, records, masked
  cells, and numbers beyond the range that later computations can represent;
* a count is a whole number of an integer type: 3, not 3.0.

Every refusal is a `ValueError` that names what is wrong and shows what was given. numpy and scikit-learn
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
from typing import Any, TypeGuard, TypeVar

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
# Characters of a note, and of what was given in a message; bytes of the name of a file or a folder.
LONGEST_NOTE, LONGEST_SHOWN, LONGEST_NAME = 1000, 200, 255

# What to do about dates where a number is meant.
DATES = "turn dates and spans of time into numbers first, as a Clock does"
_TOO_LATE = "must be smaller than 2^53 in size, where t + 1 is t"
_NEARER = ": count from a nearer origin or in a larger unit, as a Clock does"
_TRUTH, _MASKED = "truth values are no numbers", "values are masked"
# Why arrays of these kinds hold no real numbers.
_KINDS = {
    "b": _TRUTH,
    "c": "complex numbers are not ordered",
    "M": DATES,
    "m": DATES,
    "U": "texts are no numbers",
    "S": "bytes are no numbers",
    "V": "records are no numbers",
}


# --- what was given, in messages ------------------------------------------------------------------


def cut(text: str, longest: int) -> str:
    """Return a text of at most so many characters, with "..." for what is left out."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def cleaned(text: str, longest: int = LONGEST_NOTE) -> str:
    """Return a text of somebody else without control characters, which a terminal obeys."""
    plain = "".join(each if each.isprintable() else " " for each in text[: 4 * longest])
    return cut(plain, longest)


def shown(value: object) -> str:
    """Return what was given, for a message: one line, and not too long."""
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


def require(good: object, name: str, needs: str, given: object) -> None:
    """Raise a `ValueError` that says what must be and what was given, unless that is good."""
    if not good:
        raise ValueError(f"{name} must be {needs}, got {shown(given)}")


def refuse(bad: NDArray[np.bool_] | np.bool_, values: Array, needs: str, hint: str = "") -> None:
    """Raise a `ValueError` that names the first of some values (n,), or points (n, d), that is bad."""
    if np.count_nonzero(bad):
        where = int(bad.argmax())
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
    raise ValueError(f"{name} must be numeric, got {shown(values)}{reason}") from cause


def _raw_array(values: Any) -> NDArray[Any]:
    """The array that numpy sees; pandas' own kinds of numbers with their gaps as NaN."""
    dtype = getattr(values, "dtype", None)
    extended = dtype is not None and not isinstance(dtype, np.dtype)
    if extended and getattr(dtype, "kind", "O") in "iuf" and hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values)


def _why_no_numbers(values: object, raw: NDArray[Any]) -> str:
    """Why these are not numbers, in a few words; empty if they are."""
    if raw.dtype.kind == "O":
        return next(filter(None, map(_odd, raw.ravel())), "")
    return _KINDS.get(raw.dtype.kind) or (_MASKED if np.ma.is_masked(values) else "")


def _odd(element: object) -> str:
    """Why an element of an array of objects is no real number; empty if it is one."""
    if isinstance(element, bool | np.bool_):
        return _TRUTH
    if isinstance(element, numbers.Real | Decimal):
        return ""
    return DATES if is_date(element) else f"{shown(element)} is no number"


def _odd_within(values: Sequence[Any]) -> str:
    """What numpy would take for a number in a nested sequence: truth values, masked cells."""
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
        raise ValueError(f"{name} must have shape {expected}, got {points.shape}")
    if np.count_nonzero(np.abs(points) <= LARGEST_COORDINATE) < points.size:
        refuse(~np.isfinite(points).all(axis=1), points, f"{name} must be finite")
        far = (np.abs(points) > LARGEST_COORDINATE).any(axis=1)
        refuse(far, points, f"coordinates of {name} must be at most {LARGEST_COORDINATE:g} in size")
    return points


def columned(values: ArrayLike, n: int, name: str) -> Array:
    """Return `values` as floats of shape (n,), NaN and infinities too; a scalar is repeated."""
    column = as_floats(values, name)
    if column.ndim == 0:
        column = np.full(n, float(column))
    if column.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {column.shape}")
    return column


def as_column(values: ArrayLike, n: int, name: str) -> Array:
    """Return `values` as a finite float array of shape (n,); a scalar is repeated."""
    column = columned(values, n, name)
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
    column = columned(values, n, name)
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
    column = columned(values, n, name)
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
    column = columned(values, n, name)
    if np.count_nonzero(np.abs(column) < LARGEST_TIME) < n:
        refuse(~np.isfinite(column), column, f"{name} must be finite")
        refuse(np.abs(column) >= LARGEST_TIME, column, f"{name} {_TOO_LATE}", _NEARER)
    return column


def as_rows(values: ArrayLike, size: int, name: str) -> Index:
    """Return distinct row numbers below `size`, in their order; a `ValueError` says which is none."""
    try:
        rows = np.asarray(values)
    except ValueError:  # ragged
        rows = np.empty((0, 0))
    if rows.ndim != 1 or (len(rows) and rows.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a flat sequence of integers, got {shown(values)}")
    given = rows.tolist()
    if given and not 0 <= min(given) <= max(given) < size:
        outside = next(each for each in given if not 0 <= each < size)
        raise ValueError(f"{name} must be from 0 to {size - 1}, got {outside}")
    if len(set(given)) < len(given):
        twice = next(each for each in given if given.count(each) > 1)
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
        raise ValueError(f"{name} must {needs}, got {shown(value)}{hint}")
    return number


def _interval(low: float, high: float, low_open: bool, high_open: bool) -> str:
    """What a number must be, in words."""
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
            f"{name} must be a whole number of at least {at_least}, got {shown(value)}{hint}"
        )
    if value > at_most:
        raise ValueError(f"{name} must be at most {at_most}, got {shown(value)}")
    return int(value)


def flag(name: str, value: object) -> bool:
    """Return `value` as a bool; a `ValueError` unless it is True or False."""
    require(isinstance(value, bool | np.bool_), name, "True or False", value)
    return bool(value)


def as_generator(seed: object) -> np.random.Generator:
    """Return a generator of random numbers: a child of the one given, or one from a whole number.

    Raises
    ------
    ValueError
        If it is neither, such as None: a run that cannot be repeated is not made by leaving
        something out.
    """
    if isinstance(seed, np.random.Generator):
        return seed.spawn(1)[0]
    needs = "a whole number of at least 0 or a numpy.random.Generator"
    require(is_whole(seed) and seed >= 0, "seed", needs, seed)
    return np.random.default_rng(seed)  # type: ignore[arg-type]


# --- texts, paths and objects ---------------------------------------------------------------------


def is_of(value: object, module: str, *classes: str) -> bool:
    """Whether a value is of a class of a library, which is not imported to find out.

    Before it is imported nothing is of a class of it.
    """
    library = sys.modules.get(module)
    return isinstance(value, tuple(getattr(library, name, ()) for name in classes))


def text(name: str, value: object) -> str:
    """Return `value`; a `ValueError` unless it is a text without control characters."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {shown(value)}")
    if has_controls(value):
        raise ValueError(f"{name} must be a text without control characters, got {shown(value)}")
    return value


def has_controls(value: str) -> bool:
    """Whether a text has control characters, or halves of characters that cannot be shown."""
    return any(unicodedata.category(each) in ("Cc", "Cs") for each in value)


def choice(name: str, value: object, known: Collection[str]) -> str:
    """Return `value`; a `ValueError` unless it is one of the texts that are known."""
    if not isinstance(value, str) or value not in known:
        words = [f'"{each}"' for each in known]
        raise ValueError(f"{name} must be {either(words)}, got {shown(value)}")
    return value


def function(name: str, value: object, needs: str = "a function") -> None:
    """Raise a `ValueError` unless `value` can be called, and is no class."""
    require(callable(value) and not isinstance(value, type), name, needs, value)


def optional(
    check: Callable[..., T], name: str, value: object, *more: Any, **rest: Any
) -> T | None:
    """What a check returns of a value, where there is one."""
    return None if value is None else check(name, value, *more, **rest)


def of_kind(name: str, value: object, kind: type | tuple[type, ...], needs: str) -> None:
    """Raise a `ValueError` unless `value` is an instance of `kind`: what it must be, in words."""
    require(isinstance(value, kind), name, needs, value)


def several(name: str, value: object, needs: str) -> list[Any]:
    """The items of `value` in a list.

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
    raise ValueError(f"{name} must be {needs}, got {shown(value)}")


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
        raise ValueError(f"{name} must be the path of a file, got {shown(value)}")
    address = re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path)
    require(not address, name, "the path of a file, not an address", value)
    longest = max((len(os.fsencode(part)) for part in Path(path).parts), default=0)
    needs = f"the path of a file, whose name has at most {LONGEST_NAME} bytes"
    require(longest <= LONGEST_NAME, name, needs, value)
    return Path(path)


def file_paths(name: str, value: object) -> list[Path]:
    """One path, or several, in a list; a `ValueError` unless they are paths."""
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


def settle(made: object, **fields: object) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in fields.items():
        object.__setattr__(made, name, value)

"""Tell numbers from what only looks like numbers, and show values in messages."""

from __future__ import annotations

import datetime
import numbers
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

# What to do about dates where a number is meant.
DATES = "turn dates and spans of time into numbers first, as a Clock does"


# So many characters of what was given are shown.
_LONGEST = 200


# Why arrays of these kinds hold no real numbers.
_KINDS = {
    "b": "truth values are no numbers",
    "c": "complex numbers are not ordered",
    "M": DATES,
    "m": DATES,
    "U": "texts are no numbers",
    "S": "bytes are no numbers",
    "V": "records are no numbers",
}


def raw_array(values: Any) -> NDArray[Any]:
    """Return the array that numpy makes of a value; gaps in pandas' own types become NaN."""
    dtype = getattr(values, "dtype", None)
    extended = dtype is not None and not isinstance(dtype, np.dtype)
    if extended and getattr(dtype, "kind", "O") in "iuf" and hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(values)


def why_no_numbers(values: object, raw: NDArray[Any]) -> str:
    """Say in a few words why these are not numbers; return an empty text if they are."""
    kind = raw.dtype.kind
    if kind == "O":
        return next(filter(None, map(_odd, raw.ravel())), "")
    if kind in _KINDS:
        return _KINDS[kind]
    return "values are masked" if np.ma.is_masked(values) else ""


def _odd(element: object) -> str:
    """Say why an element of an array of objects is no real number; empty if it is one."""
    if isinstance(element, bool | np.bool_):
        return _KINDS["b"]
    if isinstance(element, numbers.Real | Decimal):
        return ""
    if is_date(element):
        return DATES
    return f"{shown(element)} is no number"


def odd_within(values: list[Any] | tuple[Any, ...]) -> str:
    """Find what numpy would take for numbers in a nested sequence: bools and masked cells."""
    for each in values:
        if isinstance(each, list | tuple):
            if why := odd_within(each):
                return why
        elif isinstance(each, bool | np.bool_):
            return _KINDS["b"]
        elif isinstance(each, np.ndarray):
            if each.dtype.kind == "b":
                return _KINDS["b"]
            if np.ma.is_masked(each):
                return "values are masked"
    return ""


def is_of(value: object, module: str, *classes: str) -> bool:
    """Tell whether a value is of a class of a library, without an import of that library.

    Before it is imported nothing is of a class of it.
    """
    library = sys.modules.get(module)
    return isinstance(value, tuple(getattr(library, name, ()) for name in classes))


def is_date(value: object) -> bool:
    """Tell whether `value` is a date, a time of day or a span of time."""
    kinds = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    return isinstance(value, kinds)  # pandas' Timestamp and Timedelta are of these kinds, too


# So many characters of a note are kept.
LONGEST_NOTE = 1000


def cut(text: str, longest: int) -> str:
    """Shorten a text to so many characters, with "..." for the rest."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def cleaned(text: str, longest: int = LONGEST_NOTE) -> str:
    """Replace control characters, which a terminal obeys, by spaces in a text from elsewhere."""
    plain = "".join(each if each.isprintable() else " " for each in text[: 4 * longest])
    return cut(plain, longest)


def shown(value: object) -> str:
    """Show a value in one short line of a message."""
    try:
        text = repr(value.item() if isinstance(value, np.number) else value)
    except Exception:  # an object of somebody else, or an int of thousands of digits
        return f"something of type {type(value).__name__}"
    return cut(" ".join(text.split()), _LONGEST)


def error_line(error: BaseException) -> str:
    """Show an error in one line: its type and its message."""
    return f"{type(error).__name__}: {error}"


# --- what is no number ----------------------------------------------------------------------------


def require(good: object, name: str, needs: str, given: object) -> None:
    """Raise a `ValueError` that names what is needed and the value, unless the value is good."""
    if not good:
        raise ValueError(f"{name} must be {needs}, got {shown(given)}")


def text(name: str, value: object) -> str:
    """Return `value`; a `ValueError` unless it is a text without control characters."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {shown(value)}")
    if has_controls(value):
        raise ValueError(f"{name} must be a text without control characters, got {shown(value)}")
    return value


def has_controls(value: str) -> bool:
    """Tell whether a text has control characters, or halves of characters that cannot be shown."""
    return any(unicodedata.category(each) in ("Cc", "Cs") for each in value)


def choice(name: str, value: object, known: Collection[str]) -> str:
    """Return `value`; a `ValueError` unless it is one of the texts that are known."""
    if not isinstance(value, str) or value not in known:
        words = [f'"{each}"' for each in known]
        raise ValueError(f"{name} must be {either(words)}, got {shown(value)}")
    return value


def either(words: Sequence[str]) -> str:
    """Join words as in `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def function(name: str, value: object, needs: str = "a function") -> None:
    """Raise a `ValueError` unless `value` can be called, and is no class."""
    require(callable(value) and not isinstance(value, type), name, needs, value)


def optional(
    check: Callable[..., T], name: str, value: object, *more: Any, **rest: Any
) -> T | None:
    """Return what a check makes of a value, or None where there is no value."""
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
    raise ValueError(f"{name} must be {needs}, got {shown(value)}")


# Bytes of the name of a file, or of a folder, that the usual file systems take.
LONGEST_NAME = 255


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

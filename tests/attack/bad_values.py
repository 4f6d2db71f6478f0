"""Values that people give by mistake, or to do harm, and whether an annotation welcomes one."""

from __future__ import annotations

import collections.abc
import datetime
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Bad:
    """A value by name; made anew for each call, so that no call can spoil it for the next."""

    name: str
    make: Callable[[], Any]


def _const(value: Any) -> Callable[[], Any]:
    return lambda: value


def _raising(*_: Any, **__: Any) -> Any:
    raise LookupError("a part of somebody else")


class _Odd:
    """An object that is nothing in particular, and cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


class _OddLength:
    """Looks like a sequence, and is none."""

    def __len__(self) -> int:
        return -3

    def __getitem__(self, i: object) -> object:
        raise LookupError(i)


def _nested() -> list[Any]:
    inner: list[Any] = [1.0]
    for _ in range(200):
        inner = [inner]
    return inner


def _itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


SCALARS: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "numpy True": np.True_,
    "text of a number": "9",
    "text of a fraction": "0.5",
    "text": "ten",
    "no text": "",
    "text with an escape": "\x1b[31mred\x1b[0m\n",
    "text with a zero": "a\0b",
    "bytes": b"9",
    "complex": 1 + 2j,
    "numpy complex": np.complex128(0.5),
    "datetime64": np.datetime64("2024-01-01"),
    "timedelta64": np.timedelta64(3, "h"),
    "date": datetime.date(2024, 1, 1),
    "timedelta": datetime.timedelta(hours=1),
    "Timestamp": pd.Timestamp("2024-01-01"),
    "NaT": pd.NaT,
    "NA": pd.NA,
    "NaN": NAN,
    "inf": INF,
    "-inf": -INF,
    "10**400": 10**400,
    "-10**400": -(10**400),
    "2**63": 2**63,
    "2**40": 2**40,
    "-1": -1,
    "0": 0,
    "2.5": 2.5,
    "3.0": 3.0,
    "-0.5": -0.5,
    "1e300": 1e300,
    "1e150": 1e150,
    "1e100": 1e100,
    "1e60": 1e60,
    "1e-60": 1e-60,
    "1e-300": 1e-300,
    "5e-324": 5e-324,
    "nodata": -1.7976931348623157e308,
    "masked": np.ma.masked,
    "ellipsis": ...,
    "Decimal NaN": Decimal("NaN"),
    "Decimal signalling NaN": Decimal("sNaN"),
    "Fraction": Fraction(1, 3),
    "a type": int,
    "a module": math,
}

OTHERS: dict[str, Callable[[], Any]] = {
    "empty list": list,
    "empty tuple": tuple,
    "empty dict": dict,
    "empty array": lambda: np.empty(0),
    "empty table": lambda: np.empty((0, 2)),
    "zero-dimensional NaN": lambda: np.array(NAN),
    "array of texts": lambda: np.array([["1.0"]]),
    "array of bytes": lambda: np.array([b"1.0"]),
    "array of complex": lambda: np.array([[1j]]),
    "array of truth values": lambda: np.array([True, False]),
    "array of datetime64": lambda: np.array(["2024-01-01"], dtype="M8[D]"),
    "array of timedelta64": lambda: np.array([[3]], dtype="m8[h]"),
    "array of objects": lambda: np.array([None, {}], dtype=object),
    "structured array": lambda: np.array([(1.0, 2)], dtype=[("a", "f8"), ("b", "i4")]),
    "masked array": lambda: np.ma.array([[0.5], [1e6]], mask=[[False], [True]]),
    "masked flat array": lambda: np.ma.array([0.5, 1e6], mask=[False, True]),
    "array of NaN": lambda: np.array([[NAN]]),
    "array of inf": lambda: np.array([INF]),
    "array of nodata": lambda: np.array([[-1.7976931348623157e308]]),
    "array of five dimensions": lambda: np.zeros((1, 1, 1, 1, 1)),
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "list with a huge number": lambda: [10**400],
    "list with a truth value": lambda: [[True]],
    "list with None": lambda: [None],
    "list of texts": lambda: ["a", "a"],
    "deeply nested": _nested,
    "a list of itself": _itself,
    "set": lambda: {1.0},
    "generator": lambda: (each for each in (1.0, 2.0)),
    "dict": lambda: {"a": 1.0},
    "dict of odd keys": lambda: {1: NAN, None: "x"},
    "Series of NA": lambda: pd.Series([1, None], dtype="Int64"),
    "frame of texts": lambda: pd.DataFrame({"a": ["x"]}),
    "categorical": lambda: pd.Categorical(["a"]),
    "object": object,
    "object that cannot be shown": _Odd,
    "object of a wrong length": _OddLength,
    "RandomState": lambda: np.random.RandomState(0),
    "SeedSequence": lambda: np.random.SeedSequence(1),
    "path": lambda: Path("/nowhere/at/all"),
    "function of NaN": lambda: lambda *_a, **_k: NAN,
    "function of inf": lambda: lambda *_a, **_k: INF,
    "function of -1": lambda: lambda *_a, **_k: -1,
    "function of a text": lambda: lambda *_a, **_k: "ten",
    "function of None": lambda: lambda *_a, **_k: None,
    "function of a huge number": lambda: lambda *_a, **_k: 10**400,
    "function of a wrong shape": lambda: lambda *_a, **_k: np.zeros((2, 3, 4)),
    "function of rows twice": lambda: lambda *_a, **_k: np.array([0, 0]),
    "function that raises": lambda: _raising,
    "function without parameters": lambda: lambda: 1.0,
}

BAD: tuple[Bad, ...] = (
    *(Bad(name, _const(value)) for name, value in SCALARS.items()),
    *(Bad(name, make) for name, make in OTHERS.items()),
)
"""All of them."""


def is_real(value: object) -> bool:
    """Whether it is a plain real number, NaN and infinities too."""
    if isinstance(value, bool | np.bool_ | np.timedelta64 | np.ma.core.MaskedConstant):
        return False
    return isinstance(value, int | float | np.integer | np.floating)


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of the type that an annotation names, as the package understands it.

    A truth value is no number, a text is none, and an array of these is no array of numbers; what an
    annotation leaves open (a callable, a protocol) is judged by how the value can be used.
    """
    origin = typing.get_origin(annotation)
    if annotation in (Any, object) or isinstance(annotation, str | typing.TypeVar):
        return True
    if origin is typing.Union or isinstance(annotation, types.UnionType):
        return any(fits(value, each) for each in typing.get_args(annotation))
    if origin is typing.Literal:
        return isinstance(value, str) and value in typing.get_args(annotation)
    if annotation in PLAIN:
        return PLAIN[annotation](value)
    kind = origin or annotation
    if kind is collections.abc.Callable:
        return callable(value)
    if origin is np.ndarray or _is_array_like(annotation):
        return _numeric(value)
    if kind in (tuple, list, collections.abc.Sequence, collections.abc.Iterable):
        return isinstance(value, list | tuple | np.ndarray | types.GeneratorType | set | pd.Series)
    return _of(value, kind) if isinstance(kind, type) else True


PLAIN: dict[Any, Callable[[Any], bool]] = {
    None: lambda value: value is None,
    type(None): lambda value: value is None,
    bool: lambda value: isinstance(value, bool | np.bool_),
    int: lambda value: is_real(value) and isinstance(value, int | np.integer),
    float: is_real,
}
"""Types with rules of their own."""


def _of(value: Any, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be looked at: by what it is called for
        return callable(value)


def _is_array_like(annotation: Any) -> bool:
    name = str(annotation)
    return "ArrayLike" in name or "NDArray" in name or "SupportsArray" in name


def _numeric(value: Any) -> bool:
    if value is None or np.ma.is_masked(value):
        return False
    if is_real(value) or isinstance(value, Fraction | Decimal):
        return True
    if isinstance(value, list | tuple):
        return all(_numeric(each) for each in value) if value is not _first(value) else False
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    return isinstance(value, pd.Series)


def _first(value: Any) -> Any:
    return value[0] if len(value) else None

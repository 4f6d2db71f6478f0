"""Values that people give by mistake, or to do harm, and whether an annotation welcomes one."""

import collections.abc
import datetime
import math
import types
import typing
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

NAN, INF = math.nan, math.inf
# What file formats write for "no data": of GDAL in double and single precision, of NetCDF.
NODATA = (-1.7976931348623157e308, -3.4028234663852886e38, 1e308, 1e200, 9.969209968386869e36)

NUMBERS = (NAN, INF, -INF, 10**400, -(10**400), 2**63, 2**53, 2**40, -1, 0, 2.5, 3.0, -0.5)
SIZES = (1e300, 1e150, 1e100, 1e60, 1e51, 1e-51, 1e-60, 1e-300, 5e-324, NODATA[0])
# Texts of numbers, and texts with what a terminal would obey.
TEXTS = ("9", "0.5", "ten", "", "a\0b", "a\nb\tc", "\x1b[31mred\x1b]0;title\x07", "\u202e\u2066")

ODD_JSON = (None, True, False, "x" * 100_000, [], {}, [[]], [1.0], {"a": 1})
# What a message may hold where it should not.
JSON = (*NUMBERS[3:], *SIZES, *TEXTS, *ODD_JSON)

OTHER_SCALARS = (
    *(None, True, False, np.True_, b"9", 1 + 2j, np.complex128(0.5), pd.NaT, pd.NA, np.ma.masked),
    *(np.datetime64("2024-01-01"), np.timedelta64(3, "h"), pd.Timestamp("2024-01-01")),
    *(datetime.date(2024, 1, 1), datetime.timedelta(hours=1), Decimal("NaN"), Decimal("sNaN")),
    *(Fraction(1, 3), ..., int, math, object(), Path("/nowhere/at/all")),
)


class Bad(NamedTuple):
    """A value by name; made anew for each call, so that no call can spoil it for the next."""

    name: str
    make: Callable[[], Any]


class Odd:
    """An object that is nothing in particular, and cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


class OddLength:
    """Looks like a sequence, and is none."""

    def __len__(self) -> int:
        return -3

    def __getitem__(self, i: object) -> object:
        raise LookupError(i)


def raising(*_: Any, **__: Any) -> Any:
    """A function that fails."""
    raise LookupError("a part of somebody else")


def nested(depth: int = 200) -> list[Any]:
    """Lists within lists."""
    inner: list[Any] = [1.0]
    for _ in range(depth):
        inner = [inner]
    return inner


def of_itself() -> list[Any]:
    """A list of itself."""
    loop: list[Any] = []
    loop.append(loop)
    return loop


SEQUENCES: tuple[Any, ...] = (
    *([], (), {}, [10**400], [[True]], [None], ["a", "a"], [[1.0], [1.0, 2.0]]),
    *({1: NAN, None: "x"}, {1.0}, {"a": 1.0}, pd.DataFrame({"a": ["x"]})),
)
ARRAYS: tuple[Any, ...] = (
    *([["1.0"]], [b"1.0"], [[1j]], [True, False], [[NAN]], [INF], [[NODATA[0]]], NAN),
    *(np.zeros((1, 1, 1, 1, 1)), np.empty(0), np.empty((0, 2)), np.array([None, {}], dtype=object)),
    *(np.array(["2024-01-01"], "M8[D]"), np.array([[3]], "m8[h]")),
    np.array([(1.0, 2)], dtype=[("a", "f8"), ("b", "i4")]),
)
# What a function of anything gives.
RETURNED = (NAN, INF, -1, "ten", None, 10**400, np.zeros((2, 3, 4)), np.array([0, 0]))

OTHERS: dict[str, Callable[[], Any]] = {
    "masked array": lambda: np.ma.array([[0.5], [1e6]], mask=[[False], [True]]),
    "masked flat array": lambda: np.ma.array([0.5, 1e6], mask=[False, True]),
    "deeply nested": nested,
    "a list of itself": of_itself,
    "generator": lambda: (each for each in (1.0, 2.0)),
    "Series of NA": lambda: pd.Series([1, None], dtype="Int64"),
    "categorical": lambda: pd.Categorical(["a"]),
    "object that cannot be shown": Odd,
    "object of a wrong length": OddLength,
    "RandomState": lambda: np.random.RandomState(0),
    "SeedSequence": lambda: np.random.SeedSequence(1),
    "function that raises": lambda: raising,
    "function without parameters": lambda: lambda: 1.0,
}


def _copied(value: Any) -> Callable[[], Any]:
    return value.copy if hasattr(value, "copy") else lambda: value


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: lambda *_a, **_k: value


# All of them.
BAD: tuple[Bad, ...] = (
    *(Bad(str(each)[:30], _copied(each)) for each in (*NUMBERS, *SIZES)),
    *(Bad(repr(each)[:40], _copied(each)) for each in (*TEXTS, *OTHER_SCALARS, *SEQUENCES)),
    *(Bad(f"array of {each!r}"[:40], np.array(each).copy) for each in ARRAYS),
    *(Bad(f"function of {each!r}"[:40], _giving(each)) for each in RETURNED),
    *(Bad(name, make) for name, make in OTHERS.items()),
)


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
    if kind is collections.abc.Mapping:
        return isinstance(value, dict)
    if origin is np.ndarray or any(
        word in str(annotation) for word in ("ArrayLike", "NDArray", "SupportsArray")
    ):
        return _numeric(value)
    if kind in (tuple, list, collections.abc.Sequence, collections.abc.Iterable):
        return isinstance(value, list | tuple | np.ndarray | types.GeneratorType | set | pd.Series)
    try:
        return isinstance(value, kind) if isinstance(kind, type) else True
    except TypeError:  # a protocol that cannot be looked at: by what it is called for
        return callable(value)


# Types with rules of their own.
PLAIN: dict[Any, Callable[[Any], bool]] = {
    None: lambda value: value is None,
    type(None): lambda value: value is None,
    bool: lambda value: isinstance(value, bool | np.bool_),
    int: lambda value: is_real(value) and isinstance(value, int | np.integer),
    float: is_real,
}


def _numeric(value: Any) -> bool:
    if value is None or np.ma.is_masked(value):
        return False
    if isinstance(value, list | tuple):
        return all(each is not value and _numeric(each) for each in value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    return is_real(value) or isinstance(value, Fraction | Decimal | pd.Series)


# --- bad bytes ------------------------------------------------------------------------------------


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """One to eight bits, anywhere."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwritten(content: bytes, rng: np.random.Generator) -> bytes:
    """A stretch of bytes, by zeros, by noise, or by another stretch."""
    size = int(rng.integers(1, 600))
    start, other = (int(each) for each in rng.integers(len(content) - size, size=2))
    new = (bytes(size), rng.bytes(size), content[other : other + size])[int(rng.integers(3))]
    return content[:start] + new + content[start + size :]


def cut_off(content: bytes, rng: np.random.Generator) -> bytes:
    """Its beginning, to the end of a page or to anywhere."""
    cut = int(rng.integers(1, len(content)))
    return content[: cut - cut % 4096 if rng.random() < 0.5 and cut >= 4096 else cut]

"""Whether what a file gives a part is what the part says that it takes."""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np


def check_types(kind: type, parts: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first part of a value that is not of its annotated type."""
    hints = _hints(kind)
    for name, part in parts.items():
        if name in hints and not fits(part, hints[name]):
            raise ValueError(f"{name} of {kind.__name__} cannot be {str(part)[:80]!r}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    restored = getattr(kind, "__restored__", None)
    if restored is not None:
        return get_type_hints(restored)
    if issubclass(kind, tuple):
        return get_type_hints(kind)
    # A dataclass's own names, not what its bases are given.
    return get_type_hints(inspect.unwrap(kind.__init__))


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; of what cannot be looked into, such as callables, that it is one."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inside)
    if origin is Literal:
        return value in inside
    if origin is np.ndarray:
        kind = get_args(inside[1])[0]
        return isinstance(value, np.ndarray) and (kind is Any or np.issubdtype(value.dtype, kind))
    if origin is tuple and inside[-1:] != (...,):
        alike = isinstance(value, tuple) and len(value) == len(inside)
        return alike and all(map(fits, value, inside))
    if origin in (tuple, list, deque, Sequence):
        return isinstance(value, origin) and all(fits(each, inside[0]) for each in value)
    if origin is not None and issubclass(origin, Mapping):
        pairs = value.items() if isinstance(value, Mapping) else ((None, None),)
        return all(fits(key, inside[0]) and fits(each, inside[1]) for key, each in pairs)
    return _is_a(value, origin or hint)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is None or kind is types.NoneType:
        return value is None
    if kind is float:
        return isinstance(value, float | int | np.floating) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is Callable:
        return callable(value)
    if not isinstance(kind, type) or kind is Any:
        return True
    if getattr(kind, "_is_protocol", False):
        named = {name for name in vars(kind) if not name.startswith("_") or name == "__call__"}
        has = set(dir(type(value))) | getattr(value, "__dict__", {}).keys()
        return not isinstance(value, type) and named <= has
    return isinstance(value, kind)

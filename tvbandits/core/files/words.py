"""Parts of the project by a word of their own: a move of a module breaks no saved file.

The word of a class is its name, or what it says as `__word__` where two classes share a name.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from typing import TypeGuard

from sklearn.gaussian_process.kernels import Kernel

HOUSES = (
    "core",
    "gp",
    "forgetting",
    "acquisition",
    "queries",
    "bandit",
    "policies",
    "experts",
    "datasets",
)
"""Packages whose values can be read back: frozen ones, and those that say what they are made of."""

OUTSIDE = (
    "core.files",
    "core.tables",
    "datasets.epa_ozone",
    "datasets.regression",
    "datasets.tables",
    "experts.conformance",
    "experts.records",
    "experts.sensors",
)
"""But not those that reach out to files or hosts when they are made: who reads hands them
over."""


def word_of(kind: type) -> str:
    """What a class is called in files."""
    word: str = vars(kind).get("__word__", kind.__name__)
    return word


def is_part(kind: object) -> TypeGuard[type]:
    """Whether this is a class of the project that can be made again from its parts."""
    if not isinstance(kind, type):
        return False
    package, _, module = kind.__module__.partition(".")
    if package != "tvbandits" or module.split(".")[0] not in HOUSES or module.startswith(OUTSIDE):
        return False
    plain = is_dataclass(kind) or is_named_tuple(kind) or issubclass(kind, Kernel)
    return "<" not in kind.__qualname__ and (hasattr(kind, "__saved__") or plain)


def is_named_tuple(kind: type) -> bool:
    """Whether it is one."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def part_by(word: str) -> type | None:
    """The class that has a word, if there is one."""
    return next((found[word] for found in map(parts_of, HOUSES) if word in found), None)


@cache
def parts_of(house: str) -> dict[str, type]:
    """The parts that a package defines, by their words.

    Raises
    ------
    ValueError
        If two of them have one word.
    """
    found: dict[str, type] = {}
    for module in _modules(f"tvbandits.{house}"):
        for kind in vars(import_module(module)).values():
            mine = is_part(kind) and kind.__module__ == module
            if mine and found.setdefault(word_of(kind), kind) is not kind:
                raise ValueError(f"{module} and another module have a part {word_of(kind)!r}")
    return found


def _modules(name: str) -> Iterator[str]:
    """A module, and those inside of it, but for what is `OUTSIDE`."""
    if name.removeprefix("tvbandits.").startswith(OUTSIDE):
        return
    yield name
    for inside in pkgutil.iter_modules(getattr(import_module(name), "__path__", ())):
        yield from _modules(f"{name}.{inside.name}")

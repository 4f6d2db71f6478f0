"""Parts of the project by a word of their own: a move of a module breaks no saved file.

The word of a class is its name, or what it says as `__word__` where two classes share a name.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TypeGuard

SKLEARN = "sklearn.gaussian_process.kernels"
"""Where kernels come from; it is imported where one is made, since that takes two seconds."""

SAID = re.compile(r"^(?:class |    __word__ = \")(\w+)", re.MULTILINE)
"""What a class is called in a text, and what word it gives itself."""

PACKAGE = Path(__file__).parents[2]

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
    plain = is_dataclass(kind) or is_named_tuple(kind) or is_kernel(kind)
    return "<" not in kind.__qualname__ and (
        hasattr(kind, "__saved__") or plain or is_wrapper(kind)
    )


def is_kernel(kind: type) -> bool:
    """Whether it is a kernel of scikit-learn, or made from one."""
    return any((each.__module__, each.__name__) == (SKLEARN, "Kernel") for each in kind.__mro__)


def is_wrapper(kind: type) -> bool:
    """Whether it is an expert around others: it is asked, and made with `expert` or `experts`."""
    made_with = inspect.signature(kind).parameters if hasattr(kind, "query") else {}
    return "expert" in made_with or "experts" in made_with


def is_named_tuple(kind: type) -> bool:
    """Whether it is one."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


@cache
def part_by(word: str) -> type | None:
    """The class that has a word, if there is one; only modules that may define it are imported."""
    for house in HOUSES:
        for module in modules_by_word(house).get(word, ()):
            found = parts_in(module)
            if word in found:
                return found[word]
    return None


@cache
def modules_by_word(house: str) -> dict[str, list[str]]:
    """The modules of a package that say a word: the name of a class in them, or a word of its own."""
    found: dict[str, list[str]] = {}
    for module, source in sources_of(house).items():
        for word in dict.fromkeys(SAID.findall(source)):
            found.setdefault(word, []).append(module)
    return found


@cache
def sources_of(house: str) -> dict[str, str]:
    """The text of every module of a package, but for what is `OUTSIDE`, by the module's name."""
    found = {}
    for path in sorted((PACKAGE / house).rglob("*.py")):
        inside = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(inside).removesuffix(".__init__")
        if not name.startswith(OUTSIDE):
            found[f"tvbandits.{name}"] = path.read_text(encoding="utf-8")
    return found


@cache
def parts_in(module: str) -> dict[str, type]:
    """The parts that a module defines, by their words.

    Raises
    ------
    ValueError
        If two of them have one word.
    """
    found: dict[str, type] = {}
    for kind in vars(import_module(module)).values():
        mine = is_part(kind) and kind.__module__ == module
        if mine and found.setdefault(word_of(kind), kind) is not kind:
            raise ValueError(f"{module} has two parts {word_of(kind)!r}")
    return found

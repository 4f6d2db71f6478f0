"""What is public: what packages offer by name, and what a page or an example imports or names."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(tvbandits(?:\.\w+)+)")


EXTRAS = {"tvbandits.integrations.xopt": "xopt"}
"""What a module needs that developers need not have; `make integrations` has it."""


def absent() -> set[str]:
    """Modules whose extra is missing."""
    return {name for name, extra in EXTRAS.items() if not importlib.util.find_spec(extra)}


def public_modules() -> dict[str, ModuleType]:
    """Packages and modules that say by `__all__` what is public."""
    package, missing = importlib.import_module("tvbandits"), absent()
    found = {"tvbandits": package}
    for info in pkgutil.walk_packages(package.__path__, "tvbandits."):
        if any(part.startswith("_") for part in info.name.split(".")) or info.name in missing:
            continue
        module = importlib.import_module(info.name)
        if getattr(module, "__all__", None):
            found[info.name] = module
    return found


def canonical(module: ModuleType, name: str) -> str | None:
    """Where a public name is defined; None for a module, which has a page of its own."""
    value = getattr(module, name)
    if inspect.ismodule(value):
        return None
    home, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if (
        not (inspect.isclass(value) or inspect.isroutine(value))
        or home is None
        or qualified is None
    ):
        return f"{module.__name__}.{name}"
    return f"{home}.{qualified}" if home.startswith("tvbandits.") else f"{module.__name__}.{name}"


def _said() -> Iterator[str]:
    """Names that pages and examples import from the package, or write out in full."""
    codes = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        yield from NAMED.findall(text)
        codes += FENCED.findall(text)
    for code in codes:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tvbandits"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_named() -> dict[str, list[str]]:
    """Of modules without an `__all__`: the names that pages and examples speak of, sorted."""
    offered = {
        canonical(module, name) for module in public_modules().values() for name in module.__all__
    }
    found: dict[str, set[str]] = {}
    for said in _said():
        try:
            value = pkgutil.resolve_name(said)
        except (ModuleNotFoundError, AttributeError):
            if said.startswith(tuple(absent())):
                continue
            raise
        if inspect.ismodule(value):
            continue
        module = importlib.import_module(getattr(value, "__module__", said.rpartition(".")[0]))
        name = getattr(value, "__name__", said.rpartition(".")[2])
        if module.__name__.startswith("tvbandits") and canonical(module, name) not in offered:
            found.setdefault(module.__name__, set()).add(name)
    return {module: sorted(names, key=str.lower) for module, names in sorted(found.items())}


def public_names() -> dict[str, object]:
    """Every public class, function and value, by where it is defined."""
    places = [(module, list(module.__all__)) for module in public_modules().values()]
    places += [(importlib.import_module(name), names) for name, names in parts_named().items()]
    found = {}
    for module, names in places:
        for name in names:
            path = None if name.startswith("__") else canonical(module, name)
            if path is not None:
                found[path] = getattr(module, name)
    return found

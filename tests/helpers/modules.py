"""All modules of the package that can be imported here."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType

import tvbandits

EXTRAS = {"tvbandits.integrations.xopt": "xopt"}
"""What a module needs that developers need not have; `make integrations` has it."""


def absent() -> set[str]:
    """Modules whose extra is missing."""
    return {name for name, extra in EXTRAS.items() if not importlib.util.find_spec(extra)}


def modules() -> list[ModuleType]:
    """Every module, but for those that start a program and those that are absent."""
    names = [found.name for found in pkgutil.walk_packages(tvbandits.__path__, "tvbandits.")]
    missing = absent()
    wanted = [name for name in names if not name.endswith(".__main__") and name not in missing]
    return [importlib.import_module(name) for name in wanted]

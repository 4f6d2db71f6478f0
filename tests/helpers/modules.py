"""All modules of the package that can be imported here."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType

import tvbandits

EXTRAS = {"tvbandits.integrations.xopt": "xopt"}
"""The optional package that each module needs; `make integrations` installs it."""


def missing_modules() -> set[str]:
    """Return the modules whose optional package is missing."""
    return {name for name, extra in EXTRAS.items() if not importlib.util.find_spec(extra)}


def modules() -> list[ModuleType]:
    """Return every module, except those that start a program and those without their package."""
    names = [each.name for each in pkgutil.walk_packages(tvbandits.__path__, "tvbandits.")]
    missing = missing_modules()
    importable = [name for name in names if not name.endswith(".__main__") and name not in missing]
    return [importlib.import_module(name) for name in importable]

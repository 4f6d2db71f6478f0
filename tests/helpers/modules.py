"""All modules of the package that can be imported here."""

import importlib
import pkgutil
from types import ModuleType

import tvbandits
from docs.making.public_names import absent


def modules() -> list[ModuleType]:
    """Every module, but for those that start a program and those that are absent."""
    names = [found.name for found in pkgutil.walk_packages(tvbandits.__path__, "tvbandits.")]
    missing = absent()
    wanted = [name for name in names if not name.endswith(".__main__") and name not in missing]
    return [importlib.import_module(name) for name in wanted]

"""Find the public modules of the package: those that have an `__all__`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from types import ModuleType

# Modules that need a package which developers may lack; `make integrations` installs it.
EXTRAS = {"tvbandits.integrations.xopt": "xopt"}


def modules_without_extra() -> set[str]:
    """Return the names of the modules that cannot be imported here, since their extra is missing."""
    return {name for name, extra in EXTRAS.items() if not importlib.util.find_spec(extra)}


def public_modules() -> dict[str, ModuleType]:
    """Return the packages and modules that have an `__all__`, by name."""
    package, missing = importlib.import_module("tvbandits"), modules_without_extra()
    modules = {"tvbandits": package}
    for info in pkgutil.walk_packages(package.__path__, "tvbandits."):
        if any(part.startswith("_") for part in info.name.split(".")) or info.name in missing:
            continue
        module = importlib.import_module(info.name)
        if getattr(module, "__all__", None):
            modules[info.name] = module
    return modules

"""Classes of the package, found by what they can do."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import tvbandits


def classes_with(method: str, *parameters: str) -> dict[str, type]:
    """Every class of the package with this method, and that method with these parameters, by its name.

    Protocols are left out: they say what a class should be able to do, and do nothing.
    """
    found: dict[str, type] = {}
    for info in pkgutil.walk_packages(tvbandits.__path__, "tvbandits."):
        if info.name.endswith(".__main__"):
            continue
        module = importlib.import_module(info.name)
        for name, cls in inspect.getmembers(module, inspect.isclass):
            own = cls.__module__ == module.__name__ and not getattr(cls, "_is_protocol", False)
            if own and callable(getattr(cls, method, None)):
                signature = inspect.signature(getattr(cls, method))
                if set(parameters) <= set(signature.parameters):
                    assert name not in found, f"two classes are called {name}"
                    found[name] = cls
    return found

"""Classes of the package, selected by their methods."""

import inspect

from tests.attack.parts import classes


def classes_with(method: str, *parameters: str) -> dict[str, type]:
    """Return by name every class of the package whose method has these parameters.

    Protocols are left out, as they do nothing.
    """
    selected: dict[str, type] = {}
    for cls in classes():
        if callable(getattr(cls, method, None)):
            signature = inspect.signature(getattr(cls, method))
            if set(parameters) <= set(signature.parameters):
                assert cls.__name__ not in selected, f"two classes are called {cls.__name__}"
                selected[cls.__name__] = cls
    return selected


def is_wrapper(kind: type) -> bool:
    """Return whether a class is an expert that is constructed with another expert."""
    parameters = inspect.signature(kind).parameters if hasattr(kind, "query") else {}
    return "expert" in parameters

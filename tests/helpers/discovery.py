"""Classes of the package, found by what they can do."""

import inspect

from tests.attack.parts import classes


def classes_with(method: str, *parameters: str) -> dict[str, type]:
    """Every class of the package with this method, and that method with these parameters, by its name.

    Protocols are left out: they say what a class should be able to do, and do nothing.
    """
    found: dict[str, type] = {}
    for cls in classes():
        if callable(getattr(cls, method, None)):
            signature = inspect.signature(getattr(cls, method))
            if set(parameters) <= set(signature.parameters):
                assert cls.__name__ not in found, f"two classes are called {cls.__name__}"
                found[cls.__name__] = cls
    return found


def is_wrapper(kind: type) -> bool:
    """Whether it is an expert around others: it is asked, and made with `expert` or `experts`."""
    made_with = inspect.signature(kind).parameters if hasattr(kind, "query") else {}
    return "expert" in made_with

"""Functions with faults that an attack must detect."""

from collections.abc import Callable
from typing import Any

from tests.attack.calls import Call


def takes_all(size: int) -> object:
    """Return the argument, whatever it is."""
    return size


def bare(size: int) -> object:
    """Raise the bare error of Python for an unknown key."""
    return {3: "three"}[size]


def as_call(function: Callable[..., Any]) -> Call:
    """Return the function as a call, as discovery does."""
    return Call(function.__name__, lambda: function, {"size": int}, ())

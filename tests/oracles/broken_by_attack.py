"""Functions with the faults that an attacker has to see."""

from collections.abc import Callable
from typing import Any

from tests.attack.calls import Call


def takes_all(size: int) -> object:
    """Takes whatever it is given."""
    return size


def bare(size: int) -> object:
    """Fails as Python does."""
    return {3: "three"}[size]


def as_call(function: Callable[..., Any]) -> Call:
    """What discovery makes of it."""
    return Call(function.__name__, lambda: function, {"size": int}, ())

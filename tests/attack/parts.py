"""The parts that a bandit can be made of, found by what they can do: a new one is attacked unasked."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sklearn_kernels

from tests.helpers.modules import modules
from tvbandits.gp.kernels import space_time

# The method that tells a part of each kind, with parameters that it has.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "aging map": ("__call__", ("variance", "ages")),
    "width": ("__call__", ("situation",)),
    "batch rule": ("monitor", ()),
    "acquisition": ("choose", ("decision", "rng")),
    "posterior": ("condition", ("conditioning",)),
    "budget": ("__call__", ("count", "asked")),
    "plan": ("choose", ("pool", "rng")),
    "expert": ("query", ("X", "t")),
}

Options = Mapping[str, Callable[[np.random.Generator], Any]]


@cache
def classes() -> tuple[type, ...]:
    """Every class of the package, in the module that defines it; protocols are left out.

    A protocol says what a class should be able to do, and does nothing.
    """
    return tuple(
        cls
        for module in modules()
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and not getattr(cls, "_is_protocol", False)
    )


@cache
def parts(kind: str) -> dict[str, type]:
    """Every public class of the package of this kind, by its name."""
    method, parameters = KINDS[kind]
    found = {
        cls.__name__: cls
        for cls in classes()
        if not cls.__name__.startswith("_")
        and callable(cls.__dict__.get(method))
        and set(parameters) <= set(inspect.signature(getattr(cls, method)).parameters)
    }
    assert found, f"there is no {kind}"
    return found


def wrappers() -> dict[str, type]:
    """Every expert that a user may put around other experts.

    A campaign has one of its own, which answers from a journal: it is not for others.
    """
    return {
        name: cls
        for name, cls in parts("expert").items()
        if cls.__module__.startswith("tvbandits.experts.")
        and next(iter(inspect.signature(cls).parameters)) in ("expert", "experts")
    }


@cache
def space_kernels() -> dict[str, type]:
    """Every stationary kernel of scikit-learn with a length scale, of variance one."""
    return {
        name: cls
        for name, cls in inspect.getmembers(sklearn_kernels, inspect.isclass)
        if issubclass(cls, sklearn_kernels.StationaryKernelMixin)
        and "length_scale" in inspect.signature(cls).parameters
        and "periodicity" not in inspect.signature(cls).parameters
    }


@cache
def time_kernels() -> dict[str, type]:
    """Every kernel of the package that forgets with time by itself, and needs no other kernel."""
    return {
        name: cls
        for name, cls in inspect.getmembers(space_time, inspect.isclass)
        if issubclass(cls, sklearn_kernels.StationaryKernelMixin)
        and cls.__module__ == space_time.__name__
        and "kernel" not in inspect.signature(cls).parameters
    }


def example(cls: type, options: Options, rng: np.random.Generator, *, more: float = 0.3) -> Any:
    """An object of a class, with every parameter that has to be given and some of the others.

    Parameters
    ----------
    cls : type
    options : mapping of str to callable
        A value of a parameter, by its name.
    rng : numpy.random.Generator
    more : float
        How likely a parameter that has a default and an option is given.

    Raises
    ------
    LookupError
        If a parameter has neither a default nor an option: then an option has to be added.
    """
    given = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        needed = parameter.default is inspect.Parameter.empty
        if needed and name not in options:
            raise LookupError(f"no value is known for the parameter {name} of {cls.__name__}")
        if name in options and (needed or rng.random() < more):
            given[name] = options[name](rng)
    return cls(**given)

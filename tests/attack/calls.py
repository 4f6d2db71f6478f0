"""Everything public that can be called, found by itself, with arguments that are good."""

import importlib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.attack.good_values import GOOD, OBJECTS, SPECIAL, TOGETHER
from tests.attack.parts import parts

# Whose `__all__` is public; "" is `tvbandits` itself.
PACKAGES = ("", "bandit", "policies", "queries", "experts", "datasets")

# Kinds of parts that people put into a recipe, wherever they stand.
PARTS = ("aging map", "width", "batch rule", "budget", "plan")

# What the package makes and hands out, or uses within: nobody calls it with values of their own.
INSIDE = frozenset(
    """
    experts.Calibration experts.Finding experts.Outcome experts.Reading experts.Report experts.Spending
    policies.Policy policies.Setting
    queries.JointPosterior queries.Pool
    tvbandits.Info tvbandits.Dataset.from_columns tvbandits.State
    """.split()  # noqa: SIM905 - names, as a text
)


@dataclass(frozen=True)
class Call:
    """A public callable.

    Attributes
    ----------
    name : str
    make : callable
        Makes what is called: the callable itself, or a method of a new object.
    parameters : mapping of str to annotation
        What may be given by name.
    required : tuple of str
        What must be given.
    """

    name: str
    make: Callable[[], Callable[..., Any]]
    parameters: Mapping[str, Any]
    required: tuple[str, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """Required parameters for which no good value is known: the list below wants a line."""
        return tuple(name for name in self.required if _good(self.name, name) is None)

    def good(self) -> dict[str, Any]:
        """Good values of all that is required."""
        found = {name: _good(self.name, name)() for name in self.required}  # type: ignore[misc]
        return found | dict(TOGETHER.get(self.name, {}))

    def __call__(self, **given: Any) -> Any:
        """Call it with good values, but for those given."""
        return self.make()(**{**self.good(), **given})


# Classes that people make by a class method alone, as their docstrings say.
NOT_MADE = frozenset({"tvbandits.Campaign"})

# Whose methods people call.
METHODS_OF = """
    tvbandits.Bandit tvbandits.Campaign tvbandits.Space tvbandits.Clock tvbandits.Candidates
    tvbandits.Box experts.SensorExpert experts.SimulatorExpert experts.CallableExpert
    experts.CachedLogExpert experts.Budgeted experts.Retrying experts.Calibrated
    experts.StubTransport datasets.DriftingBump datasets.GPDrift
    datasets.Switching datasets.TableProblem policies.uniform policies.eps_greedy
    policies.evolution
""".split()  # noqa: SIM905 - names, as a text

# Parameters for the package's own messages.
UNSAID = frozenset({("tvbandits.Candidates.index", "name")})

# Methods that the package calls, and not people; or that are called as class methods.
NOT_CALLED = """
    anchors check convert_slopes from_state from_unit from_values make_rng maximize near observe
    points_at restore sample to_unit values_by_name weigh_categories
""".split()  # noqa: SIM905 - names, as a text


def _good(call: str, parameter: str) -> Callable[[], Any] | None:
    return SPECIAL.get(f"{call}.{parameter}") or GOOD.get(parameter)


# --- discovery ------------------------------------------------------------------------------------


def _named() -> Iterator[tuple[str, Any]]:
    """Every public thing once, and its name."""
    seen = set()
    for package in PACKAGES:
        module = importlib.import_module(f"tvbandits.{package}".rstrip("."))
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found) and id(found) not in seen:
                seen.add(id(found))
                yield f"{package or 'tvbandits'}.{name}", found
    for part in (each for kind in PARTS for each in parts(kind).values()):
        if id(part) not in seen:
            yield f"{part.__module__.removeprefix('tvbandits.')}.{part.__name__}", part


def _is_inside(name: str) -> bool:
    levels = name.split(".")
    return any(".".join(levels[: i + 1]) in INSIDE for i in range(len(levels)))


def _call(name: str, function: Any, make: Callable[[], Callable[..., Any]]) -> Call | None:
    made = function.__init__ if _made_by_init(function) else function
    try:
        found = inspect.signature(made).parameters
    except (TypeError, ValueError):
        return None
    hints = _hints(function)
    usable = {
        each.name: hints.get(each.name, Any)
        for each in found.values()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and each.name != "self"
        and not each.name.startswith("_")
        and (name, each.name) not in UNSAID
    }
    required = tuple(each for each in usable if found[each].default is inspect.Parameter.empty)
    return Call(name, make, usable, required)


def _made_by_init(function: Any) -> bool:
    """Whether it is a class whose `__new__` hands everything on."""
    return (
        inspect.isclass(function) and "__new__" in vars(function) and "__init__" in vars(function)
    )


def _hints(function: Any) -> dict[str, Any]:
    target = function.__init__ if inspect.isclass(function) else function
    try:
        return typing.get_type_hints(target)
    except (NameError, TypeError):
        return dict(getattr(target, "__annotations__", {}))


def _not_called(found: Any) -> bool:
    """Whether it is none to be called: a protocol, an error, or no function and no class."""
    if inspect.isclass(found):
        return bool(getattr(found, "_is_protocol", False)) or issubclass(found, BaseException)
    return not inspect.isfunction(found)


def calls() -> list[Call]:
    """Every public callable and, of the objects that people hold, every public method."""
    found: list[Call] = []
    for name, thing in _named():
        if _is_inside(name) or _not_called(thing):
            continue
        call = _call(name, thing, lambda thing=thing: thing)  # type: ignore[misc]
        if call is None:
            continue
        if name not in NOT_MADE:
            found.append(call)
        if inspect.isclass(thing):
            found += _class_methods(name, thing)
        if name in METHODS_OF:
            found += _methods(name, OBJECTS.get(name, call))
    return found


def _class_methods(name: str, cls: type) -> Iterator[Call]:
    for each, raw in vars(cls).items():
        hidden = each.startswith("_") or _is_inside(f"{name}.{each}")
        if isinstance(raw, classmethod) and not hidden:
            call = _call(f"{name}.{each}", getattr(cls, each), lambda e=each: getattr(cls, e))  # type: ignore[misc]
            if call is not None:
                yield call


def _methods(name: str, make: Callable[[], Any]) -> Iterator[Call]:
    try:
        known = make()
    except TypeError:  # a parameter without a good value: `Call.unknown` says which
        return
    for each in dir(type(known)):
        if each.startswith("_") or each in NOT_CALLED:
            continue
        if not inspect.isfunction(inspect.getattr_static(type(known), each)):
            continue
        call = _call(f"{name}.{each}", getattr(known, each), lambda e=each: getattr(make(), e))  # type: ignore[misc]
        if call is not None and call.parameters:
            yield call


def spelled(name: str) -> tuple[str, ...]:
    """What a message may call a parameter: its name, in words too, or alone."""
    return (name, name.replace("_", " "), *SAME.get(name, ()))


# Other words for a parameter in messages.
SAME: dict[str, tuple[str, ...]] = {
    "X": ("points", "point", "candidates", "site"),
    "frame": ("parameter", "columns"),
    "values": ("sensor",),
    "safe": ("available",),
    "points": ("candidates", "X", "parameter"),
    "context": ("candidates",),
    "available": ("available",),
    "width": ("beta",),
    "N": ("k",),
    "params": ("bindings", "parameters"),
    "policies": ("policy",),
    "ids": ("id",),
    "retire": ("site",),
    "confirm": ("site",),
    "outcome": ("limit",),
    "outcomes": ("limit",),
}

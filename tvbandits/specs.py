"""The small language of the command line: "name:key=value,key=value"."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """Split "name:key=value,key=value"; values become int, float or bool where they look like it."""
    name, _, rest = text.partition(":")
    parameters: dict[str, Any] = {}
    for part in rest.split(",") if rest else []:
        key, equals, value = part.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise ValueError(f'"{text}": expected key=value after the colon, got "{part}"')
        parameters[key.strip()] = _literal(value.strip())
    return name.strip(), parameters


def check_parameters(
    make: Callable[..., Any], text: str, parameters: Iterable[str], given: int = 0
) -> None:
    """Raise a `ValueError` that lists the parameters of `make`, if one of `parameters` is unknown.

    The first `given` parameters of `make` are not for the user.
    """
    known = list(inspect.signature(make).parameters)[given:]
    for key in parameters:
        if key not in known:
            have = ", ".join(known) if known else "none"
            raise ValueError(f'"{text}": unknown parameter "{key}"; its parameters: {have}')


def _literal(value: str) -> Any:
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(value.lower(), value)


def accepts(make: Callable[..., Any], parameter: str) -> bool:
    """Whether `make` takes a parameter of that name."""
    return parameter in inspect.signature(make).parameters

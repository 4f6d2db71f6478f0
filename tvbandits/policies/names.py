"""The small language of the command line: "name:key=value,key=value"."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, get_args

WORDS = {"true": True, "false": False}


NUMBER_OR_RANGE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(-\d+)?")
"""What goes on after the first value of an option that takes several: 2, 0.5, 1e3, 2008-2010."""


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """Split "name:key=value,key=value"; values become int, float or bool where they look like it."""
    name, values = _split(text)
    return name, {key: _literal(value) for key, value in values.items()}


def parse_call(make: Callable[..., Any], text: str, given: int = 0) -> dict[str, Any]:
    """The parameters in `text`, in the types that `make` declares.

    Parameters
    ----------
    make : callable
        What the name in `text` stands for.
    text : str
        "name:key=value,key=value".
    given : int
        The first `given` parameters of `make` are not for the user.

    Raises
    ------
    ValueError
        If a parameter is unknown (the message lists the known ones), or a value of another type.
    """
    _, values = _split(text)
    check_parameters(make, text, values, given)
    declared = inspect.signature(make, eval_str=True).parameters
    return {
        key: _converted(f'"{text}": {key}', value, declared[key].annotation)
        for key, value in values.items()
    }


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


def accepts(make: Callable[..., Any], parameter: str) -> bool:
    """Whether `make` takes a parameter of that name."""
    return parameter in inspect.signature(make).parameters


def written(make: Callable[..., Any], given: int = 0) -> str:
    """The parameters of `make` as they can be written, with their defaults: "window, keep=true".

    The first `given` parameters are not for the user. A default of None, which stands for a value that
    is found out, is left out, and so is an empty text.
    """
    known = list(inspect.signature(make).parameters.values())[given:]
    return ", ".join(
        parameter.name
        if parameter.default in (None, "", parameter.empty)
        else f"{parameter.name}={_as_word(parameter.default)}"
        for parameter in known
    )


def in_the_user_s_words(message: str, parameters: Mapping[str, Any]) -> str:
    """Let "last must be ..., got 0" speak of the parameter that was given as 0, if there is one."""
    about, _, rest = message.partition(" ")
    blamed = [
        key
        for key, value in parameters.items()
        if rest.endswith((f"got {value}", f"got {value!r}"))
    ]
    if about in parameters or len(blamed) != 1 or not rest.startswith("must "):
        return message
    return f"{blamed[0]} {rest}"


def _as_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(text: str) -> tuple[str, dict[str, str]]:
    """The name, and the values as they are written."""
    name, colon, rest = text.partition(":")
    values: dict[str, str] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f'"{text}": expected key=value after the colon, got "{part}"')
        if key in values:
            raise ValueError(f'"{text}": {key} is given twice')
        values[key] = value
    return name.strip(), values


def _literal(value: str) -> Any:
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    return WORDS.get(value.lower(), value)


def _converted(name: str, value: str, declared: Any) -> Any:
    """`value` in the declared type; parameters that declare none take what it looks like."""
    kinds = [kind for kind in get_args(declared) or (declared,) if kind is not NoneType]
    found = _literal(value)
    if str in kinds:
        return value
    if bool in kinds and isinstance(found, bool):
        return found
    number = isinstance(found, int | float) and not isinstance(found, bool)
    if int in kinds and number and float(found).is_integer():
        return int(found)
    if float in kinds and number:
        return float(found)
    for kind, wanted in ((float, "a number"), (int, "a whole number"), (bool, "true or false")):
        if kind in kinds:
            raise ValueError(f"{name} must be {wanted}, got {value}")
    return found

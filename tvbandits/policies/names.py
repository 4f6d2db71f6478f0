"""Texts of the command line that name an object and its parameters: "name:key=value,key=value".

The name is one of a list, in any case, or "package.module:attribute", which is imported.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from tvbandits.validation import clean, describe_error

WORDS = {"true": True, "false": False}

# package.module:attribute
PATH = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")

# table:FILE or table:FILE:key=value,...
TABLE = re.compile(r"table:(.+?)(:[^\W\d]\w*=[^:]*)?")

Parameters = Mapping[str, inspect.Parameter]


# --- texts -------------------------------------------------------------------------------------------


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """Split "name:key=value,key=value"; values become int, float or bool where they look like it."""
    name, values = _split(text)
    return name, {key: _literal(value) for key, value in values.items()}


def parse_call(parameters: Parameters, text: str) -> dict[str, Any]:
    """Return the parameters in `text`, converted to the types that they declare.

    Parameters
    ----------
    parameters : mapping of name to inspect.Parameter
        The parameters that may be set, such as `parameters_of(function)`.
    text : str
        "name:key=value,key=value".

    Raises
    ------
    ValueError
        If a parameter is unknown (the message lists the valid ones), or a value has another type.
    """
    _, values = _split(text)
    for key in values:
        if key not in parameters:
            raise ValueError(
                f'"{text}": unknown parameter "{key}"; {suggest(key, parameters)}'
                f"its parameters: {', '.join(parameters) or 'none'}"
            )
    return {
        key: _convert(f'"{text}": {key}', value, parameters[key]) for key, value in values.items()
    }


def parameters_of(make: Callable[..., Any], skip: int = 0) -> Parameters:
    """Return the parameters of a function by name, without the first `skip` of them."""
    return dict(list(inspect.signature(make, eval_str=True).parameters.items())[skip:])


def parameter_text(parameters: Parameters) -> str:
    """Return parameters as a user writes them, with their defaults: "window, keep=true".

    Defaults that are None or an empty text are not shown.
    """
    return ", ".join(
        name if each.default in (None, "", each.empty) else f"{name}={_as_word(each.default)}"
        for name, each in parameters.items()
    )


def find_spec(kind: str, text: str, names: Iterable[str]) -> str | None:
    """Return the text with its name spelled as in `names`; None for a "package.module:attribute".

    Raises
    ------
    ValueError
        If the name is neither; the message lists the names and says which one is most similar.
    """
    name = text.partition(":")[0].strip()
    by_key = {each.casefold().replace("_", "-"): each for each in names}
    match = by_key.get(name.casefold().replace("_", "-"))
    if match is not None:
        return match + text.strip()[len(name) :]
    if path_of(text):
        return None
    raise ValueError(
        f'unknown {kind} "{clean(name, 80)}"; {suggest(name, by_key.values())}'
        f"there are: {', '.join(by_key.values())}"
    )


# --- imports -----------------------------------------------------------------------------------------


def path_of(text: str) -> str:
    """Return the "package.module:attribute" at the start of a text, or an empty text."""
    match = PATH.match(text.strip())
    rest = text.strip()[match.end() :] if match else ""
    return match[0] if match and (not rest or rest.startswith(":")) else ""


def load(path: str) -> Any:
    """Return the object that "package.module:attribute" names.

    Raises
    ------
    ValueError
        If it cannot be imported, or the module has no such attribute.
    """
    module, _, attribute = path.partition(":")
    if module.endswith(".py"):
        raise ValueError(f'"{path}": a module is named without .py: {module[:-3]}:{attribute}')
    try:
        value: Any = importlib.import_module(module)
    except Exception as error:  # a module may raise anything when it is imported
        raise ValueError(f'"{path}": cannot import {module}: {describe_error(error)}') from error
    for name in attribute.split("."):
        if not hasattr(value, name):
            hint = suggest(name, [each for each in vars(value) if not each.startswith("_")])
            raise ValueError(f'"{path}": {module} has no "{name}"; {hint}'.rstrip("; "))
        value = getattr(value, name)
    return value


def instance_of(value: Any) -> Any:
    """Return an object, or call a class or function that needs no arguments and return its result."""
    makes = isinstance(value, type) or inspect.isroutine(value)
    if makes and not any(is_needed(each) for each in inspect.signature(value).parameters.values()):
        try:
            return value()
        except Exception as error:  # the user's code may raise anything
            raise ValueError(f"{value!r} fails: {describe_error(error)}") from error
    return value


def is_needed(parameter: inspect.Parameter) -> bool:
    """Return whether a call must give this parameter."""
    open_ended = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in open_ended


# --- one value ---------------------------------------------------------------------------------------


def suggest(name: str, names: Iterable[str]) -> str:
    """Return the question whether the most similar of some names was meant; empty if none is similar."""
    by_fold = {each.casefold(): each for each in names}
    close = difflib.get_close_matches(name.casefold(), by_fold, n=1)
    return f'did you mean "{by_fold[close[0]]}"? ' if close else ""


def _as_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(text: str) -> tuple[str, dict[str, str]]:
    """Return the name of a text, and its values by parameter, not yet converted."""
    path = path_of(text)
    rest = text.strip()[len(path) :] if path else text
    name, colon, rest = rest.partition(":")
    values: dict[str, str] = {}
    for part in rest.split(",") if colon else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f'"{text}": expected key=value after the colon, got "{part}"')
        if key in values:
            raise ValueError(f'"{text}": {key} is given twice')
        values[key] = value
    return path or name.strip(), values


def _literal(value: str) -> Any:
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    return WORDS.get(value.lower(), value)


PLAIN = (str, int, float, bool, NoneType)


def _convert(name: str, value: str, parameter: inspect.Parameter) -> Any:
    """Return `value` in the declared type; without one, as int, float or bool where it looks like it."""
    declared = parameter.annotation
    kinds, words = _kinds(declared)
    objects = [kind for kind in kinds if kind not in PLAIN]
    literal = _literal(value)
    if objects and PATH.fullmatch(value):
        return instance_of(load(value))
    if declared in (Any, inspect.Parameter.empty):
        return literal
    if value.casefold() in words:
        return value.casefold()
    if means_none(value, declared):
        return None
    if str in kinds:
        return value
    if bool in kinds and isinstance(literal, bool):
        return literal
    number = isinstance(literal, int | float) and not isinstance(literal, bool)
    if int in kinds and number and (isinstance(literal, int) or literal.is_integer()):
        return int(literal)
    if float in kinds and number:
        try:
            return float(literal)
        except OverflowError:
            return literal  # the function that gets it reports that it is too large
    needed = ((float, "a number"), (int, "a whole number"), (bool, "true or false"))
    allowed = [text for kind, text in needed if kind in kinds][:1]
    allowed += [f'"{word}"' for word in words]
    if parameter.default is not None and means_none("none", declared):
        allowed += ['"none"']  # where None is the default, a user leaves the parameter out
    allowed += ["package.module:attribute"] if objects else []
    raise ValueError(f"{name} must be {' or '.join(allowed)}, got {clean(value, 200)}")


def means_none(value: object, declared: Any) -> bool:
    """Return whether a value is the text "none" and stands for None, since no other text is valid."""
    kinds, _ = _kinds(declared)
    is_none = isinstance(value, str) and value.casefold() == "none"
    return is_none and NoneType in kinds and str not in kinds


def _kinds(declared: Any) -> tuple[list[Any], list[str]]:
    """Return the types in a declared type, and the words of its `Literal`s."""
    members = get_args(declared) if get_origin(declared) in (UnionType, Union) else (declared,)
    literal = [each for each in members if get_origin(each) is Literal]
    kinds = [get_origin(each) or each for each in members if each not in literal]
    return kinds, [word for each in literal for word in get_args(each) if isinstance(word, str)]

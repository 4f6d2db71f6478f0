"""Problems by their names: "drifting-bump:horizon=200", "table:FILE", "package.module:problem"."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tvbandits.datasets import FileOptions, table
from tvbandits.datasets.registry import problems
from tvbandits.domains.problem import Problem
from tvbandits.policies import POLICIES
from tvbandits.policies.names import (
    TABLE,
    find_spec,
    load,
    parameters_of,
    parse_call,
    parse_spec,
    path_of,
)

PROBLEMS = problems()

READS_FILES = {name for name, problem in PROBLEMS.items() if problem.files != 0}

# Those whose tables may need options (`FileOptions`).
READS_OPTIONS = {
    name for name, problem in PROBLEMS.items() if "options" in parameters_of(problem.make)
}


def problem_label(text: str) -> str:
    """Return the text with the usual spelling of the problem's name.

    Raises
    ------
    ValueError
        If it is neither a known name nor "package.module:problem".
    """
    try:
        return find_spec("problem", text, PROBLEMS) or text
    except ValueError as error:
        name = text.partition(":")[0].strip()
        if name.casefold() in POLICIES:
            raise ValueError(f'{error}; "{name}" is a policy: write --policy {text}') from None
        raise


def make_problem(
    text: str,
    files: list[Path],
    horizon: int | None,
    tables: Mapping[str, Any] = MappingProxyType({}),
) -> Problem:
    """Make the problem that "name:key=value,..." describes.

    "package.module:problem:key=value,..." is a problem of the user's, or what makes it. `tables` are
    fields of `FileOptions` for a problem whose tables may need them.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, a value cannot be used, or files are missing.
    """
    spec = problem_label(text)
    if (match := TABLE.fullmatch(spec)) is not None:
        return _call_maker(table, f"table{match[2] or ''}", [match[1]], horizon, "horizon")
    if path_of(spec) and spec.partition(":")[0] not in PROBLEMS:
        return _load_problem(spec, horizon)
    spec = _name_first_parameter(spec)
    name, _ = parse_spec(spec)
    problem = PROBLEMS[name]
    if name in READS_FILES and (not files or problem.files not in (None, len(files))):
        count = problem.files or "some"
        raise ValueError(
            f'"{name}" reads files: give {count} by --data FILE, got {len(files)} '
            f"({problem.summary}); in Python make it by a function of tvbandits.datasets"
        )
    arguments: list[Any] = [files] if problem.files is None else files[: problem.files]
    make = problem.make
    if name in READS_OPTIONS and tables:
        make = functools.partial(make, options=FileOptions(**tables))
    return _call_maker(make, spec, arguments, horizon, problem.length)


def _name_first_parameter(spec: str) -> str:
    """Turn "lifted:hartmann3" into "lifted:function=hartmann3"; ":key=value" may follow it, too."""
    name, colon, rest = spec.partition(":")
    leading, again, more = rest.partition(":")
    if again and "=" not in leading:
        rest = f"{leading},{more}"
    parameter = PROBLEMS[name].leading if name in PROBLEMS else ""
    if not parameter or not colon or "=" in rest.partition(",")[0]:
        return spec
    return f"{name}:{parameter}={rest.strip()}"


def _call_maker(
    make: Callable[..., Problem], text: str, arguments: list[Any], horizon: int | None, length: str
) -> Problem:
    """Make a problem with the parameters in the text, and the horizon if it has one."""
    options = settable(parameters_of(make, given=len(arguments)))
    parameters = parse_call(options, text)
    if horizon is not None and length in options:
        parameters.setdefault(length, horizon)
    try:
        return make(*arguments, **parameters)
    except TypeError as error:
        raise ValueError(f'"{text}": {error}') from error


def settable(parameters: Mapping[str, inspect.Parameter]) -> dict[str, inspect.Parameter]:
    """Return the parameters that a text can give, and not an option of the command."""
    return {name: each for name, each in parameters.items() if "FileOptions" not in str(each)}


def _load_problem(text: str, horizon: int | None) -> Problem:
    """Return the problem of "package.module:problem:key=value,...": an object, or what makes it."""
    problem = load(path_of(text))
    if isinstance(problem, type) or inspect.isroutine(problem):
        return _call_maker(problem, text, [], horizon, "horizon")
    parse_call({}, text)  # an object has no parameters
    instance: Problem = problem
    return instance

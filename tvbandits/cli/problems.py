"""The problems by command-line name, and what there is to choose from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvbandits.datasets import table
from tvbandits.datasets.registry import problems
from tvbandits.domains.problem import Problem
from tvbandits.policies import POLICIES
from tvbandits.policies.names import (
    find_spec,
    load,
    parameter_text,
    parameters_of,
    parse_call,
    parse_spec,
    path_of,
)
from tvbandits.policies.setting import written_options

PROBLEMS = problems()

READS_FILES = {name for name, problem in PROBLEMS.items() if problem.files != 0}

# table:FILE, perhaps with :key=value,... behind it.
TABLE = re.compile(r"table:(.+?)(:[^\W\d]\w*=[^:]*)?")


def problem_label(text: str) -> str:
    """The text with the name of the problem as it is known.

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


def make_problem(text: str, files: list[Path], horizon: int | None) -> Problem:
    """Make the problem that "name:key=value,..." describes.

    "package.module:problem:key=value,..." is a problem of the user's, or what makes it.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, a value cannot be used, or files are missing.
    """
    spec = problem_label(text)
    if (found := TABLE.fullmatch(spec)) is not None:
        return _made(table, f"table{found[2] or ''}", [found[1]], horizon, "horizon")
    if path_of(spec) and spec.partition(":")[0] not in PROBLEMS:
        return _loaded(spec, horizon)
    spec = _with_leading_name(spec)
    name, _ = parse_spec(spec)
    problem = PROBLEMS[name]
    if name in READS_FILES and (not files or problem.files not in (None, len(files))):
        count = problem.files or "some"
        raise ValueError(f'"{name}" reads files: give {count} by --data FILE, got {len(files)}')
    given: list[Any] = [files] if problem.files is None else files[: problem.files]
    return _made(problem.make, spec, given, horizon, problem.length)


def _with_leading_name(spec: str) -> str:
    """Turn "lifted:hartmann3" into "lifted:function=hartmann3"; ":key=value" may follow it, too."""
    name, colon, rest = spec.partition(":")
    leading, again, more = rest.partition(":")
    if again and "=" not in leading:
        rest = f"{leading},{more}"
    parameter = PROBLEMS[name].leading if name in PROBLEMS else ""
    if not parameter or not colon or "=" in rest.partition(",")[0]:
        return spec
    return f"{name}:{parameter}={rest.strip()}"


def _made(
    make: Callable[..., Problem], text: str, given: list[Any], horizon: int | None, length: str
) -> Problem:
    """Call a maker with the parameters in the text, and the horizon where it takes one."""
    known = parameters_of(make, given=len(given))
    parameters = parse_call(known, text)
    if horizon is not None and length in known:
        parameters.setdefault(length, horizon)
    try:
        return make(*given, **parameters)
    except TypeError as error:
        raise ValueError(f'"{text}": {error}') from error


def _loaded(text: str, horizon: int | None) -> Problem:
    """The problem that "package.module:problem:key=value,..." describes: an object, or what makes it."""
    found = load(path_of(text))
    if isinstance(found, type) or inspect.isroutine(found):
        return _made(found, text, [], horizon, "horizon")
    parse_call({}, text)  # an object has no parameters
    made: Problem = found
    return made


def list_policies() -> None:
    """Print the policies: name, what it is, its parameters; and the options that most of them take."""
    entries = []
    for each in POLICIES.values():
        more = ", options" if len(each.parameters) > len(each.own_parameters) else ""
        entries.append((each.name, each.title, parameter_text(each.own_parameters) + more))
    _print_list(entries)
    print(f"\noptions: {parameter_text(written_options())}")


def list_problems() -> None:
    """Print the problems: name, what it is, and its parameters."""
    entries: list[tuple[str, str, str]] = []
    for name, each in PROBLEMS.items():
        files = 1 if each.files is None or name == "table" else each.files
        entries.append((name, each.summary, parameter_text(parameters_of(each.make, given=files))))
    _print_list(entries)


def _print_list(entries: list[tuple[str, str, str]]) -> None:
    """Columns, a line for each entry."""
    widths = [max(map(len, column)) for column in zip(*entries, strict=True)]
    for entry in entries:
        cells = (f"{cell:<{width}}" for cell, width in zip(entry, widths, strict=True))
        print("  ".join(cells).rstrip())

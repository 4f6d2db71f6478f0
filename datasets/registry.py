"""The problems by command-line name: each module of this folder says which ones it has."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from tvbandits.protocols import NamedProblem


@cache
def problems() -> dict[str, NamedProblem]:
    """The `PROBLEMS` of every module of this folder and of those inside of it, by name.

    Raises
    ------
    ValueError
        If two have one name.
    """
    found: dict[str, NamedProblem] = {}
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], "tvbandits.datasets."):
        for problem in getattr(import_module(module.name), "PROBLEMS", ()):
            if found.setdefault(problem.name, problem) is not problem:
                raise ValueError(f'two problems are called "{problem.name}"')
    return found

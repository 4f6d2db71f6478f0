"""A registry of problems by command-line name: the `PROBLEMS` of each module of this folder."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from tvbandits.domains.problem import NamedProblem


@cache
def problems() -> dict[str, NamedProblem]:
    """Return the problems of every module of this folder and its subfolders, by name.

    Raises
    ------
    ValueError
        If two problems have the same name.
    """
    by_name: dict[str, NamedProblem] = {}
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], "tvbandits.datasets."):
        for problem in vars(import_module(module.name)).get("PROBLEMS", ()):
            if by_name.setdefault(problem.name, problem) is not problem:
                raise ValueError(f'two problems are called "{problem.name}": rename one of them')
    return by_name

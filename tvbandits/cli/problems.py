"""The problems by command-line name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvbandits.core.protocols import Problem
from tvbandits.datasets import (
    DriftingBump,
    GPDrift,
    Switching,
    abalone,
    california,
    ozone,
    ozone_network,
    sensor_field_from_files,
)
from tvbandits.policies.names import (
    known_spec,
    load,
    parameters_of,
    parse_call,
    parse_spec,
    path_of,
)

PROBLEMS: dict[str, tuple[Callable[..., Problem], str]] = {
    "drifting-bump": (DriftingBump, "the synthetic experiment of SparQ-GP-UCB on [-50, 50]"),
    "gp-drift": (GPDrift, "sample paths of the TV-GP-UCB model on the unit square"),
    "switching": (Switching, "a new draw of a Gaussian process every so many steps"),
    "ozone": (ozone, "daily ozone at EPA sites, from files given by --data"),
    "abalone": (abalone, "a fixed table of 4177 rows: the age of shellfish"),
    "california": (california, "a fixed table of 20640 rows: house values"),
    "ozone-network": (ozone_network, "simulated daily ozone at 28 stations"),
    "sensor-field": (
        sensor_field_from_files,
        "your own network: two --data files, values and sites",
    ),
}


READS_FILES = {"ozone", "abalone", "california", "sensor-field"}


NEEDS_FILES = {"ozone", "sensor-field"}


LENGTHS = {"ozone-network": "days"}
"""What makes a problem longer, where it is not called horizon."""


def make_problem(text: str, files: list[Path], horizon: int | None) -> Problem:
    """Make the problem that "name:key=value,..." describes.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, a value cannot be used, or files are missing.
    """
    spec = known_spec("problem", text, PROBLEMS)
    if spec is None:
        return _loaded(text, horizon)
    name, _ = parse_spec(spec)
    make, _ = PROBLEMS[name]
    given: list[Any] = []
    if name in NEEDS_FILES and not files:
        raise ValueError(f'"{name}" reads files: give them by --data FILE')
    if name in READS_FILES:
        given = [files]
    return _made(make, spec, given, horizon, LENGTHS.get(name, "horizon"))


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

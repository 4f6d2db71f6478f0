"""The problems by command-line name, and what there is to choose from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvbandits.core.protocols import Problem
from tvbandits.datasets import (
    AutoregressiveArms,
    DriftingBump,
    Exoskeleton,
    GeneralisedMovingPeaks,
    GPDrift,
    Lifted,
    MovingPeaks,
    NewPeak,
    Switching,
    SwitchingArms,
    WearingArms,
    abalone,
    california,
    nas_bench,
    ozone,
    ozone_network,
    sensor_field_from_files,
    table,
)
from tvbandits.datasets.peaks import bogunovic, mandl
from tvbandits.policies import POLICIES
from tvbandits.policies.names import (
    known_spec,
    load,
    parameters_of,
    parse_call,
    parse_spec,
    path_of,
    written,
)

PROBLEMS: dict[str, tuple[Callable[..., Problem], str]] = {
    "drifting-bump": (DriftingBump, "the synthetic experiment of SparQ-GP-UCB on [-50, 50]"),
    "gp-drift": (GPDrift, "sample paths of the TV-GP-UCB model on the unit square"),
    "switching": (Switching, "a new draw of a Gaussian process every so many steps"),
    "new-peak": (NewPeak, "a peak that appears while another one is played"),
    "lifted": (Lifted, "a test function whose last coordinate is time: lifted:hartmann3"),
    "ozone": (ozone, "daily ozone at EPA sites, from files given by --data"),
    "abalone": (abalone, "a fixed table of 4177 rows: the age of shellfish"),
    "california": (california, "a fixed table of 20640 rows: house values"),
    "ozone-network": (ozone_network, "simulated daily ozone at 28 stations"),
    "sensor-field": (
        sensor_field_from_files,
        "your own network: two --data files, values and sites",
    ),
    "bogunovic": (bogunovic, "paths of the TV-GP-UCB model on 50 x 50 points, as in its paper"),
    "mandl": (mandl, "paths of the TV-GP-UCB model on 20 x 20 points, short length scale"),
    "moving-peaks": (MovingPeaks, "peaks on a box that move every so many steps (Branke 1999)"),
    "gmpb": (GeneralisedMovingPeaks, "rotated, irregular peaks that move (arXiv 2106.06174)"),
    "switching-arms": (SwitchingArms, "arms on a sphere that switch at once (Hong 2023)"),
    "ar-arms": (AutoregressiveArms, "a grid of arms that drift with a memory of 20 steps"),
    "wearing-arms": (WearingArms, "arms that wear out by being played"),
    "exoskeleton": (Exoskeleton, "a cost with a kink whose best setting wanders"),
    "nas-bench": (nas_bench, "cells of NAS-Bench-101, from the .tfrecord file given by --data"),
    "table": (table, "table:FILE, a csv or Parquet file of points, rewards and perhaps times"),
}


READS_FILES = {"ozone", "abalone", "california", "sensor-field", "nas-bench"}


NEEDS_FILES = {"ozone", "sensor-field", "nas-bench"}


TABLE = re.compile(r"table:(.+?)(:[^\W\d]\w*=[^:]*)?")
"""table:FILE, perhaps with :key=value,... behind it."""


LENGTHS = {"ozone-network": "days"}
"""What makes a problem longer, where it is not called horizon."""


LEADING = {"lifted": "function"}
"""The parameter that may be written without its name, right after the colon."""


def problem_label(text: str) -> str:
    """The text with the name of the problem as it is known.

    Raises
    ------
    ValueError
        If it is neither a known name nor "package.module:problem".
    """
    try:
        return known_spec("problem", text, PROBLEMS) or text
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
    make, _ = PROBLEMS[name]
    given: list[Any] = []
    if name in NEEDS_FILES and not files:
        raise ValueError(f'"{name}" reads files: give them by --data FILE')
    if name in READS_FILES:
        given = [files]
    return _made(make, spec, given, horizon, LENGTHS.get(name, "horizon"))


def _with_leading_name(spec: str) -> str:
    """Turn "lifted:hartmann3" into "lifted:function=hartmann3"; ":key=value" may follow it, too."""
    name, colon, rest = spec.partition(":")
    leading, again, more = rest.partition(":")
    if again and "=" not in leading:
        rest = f"{leading},{more}"
    if name not in LEADING or not colon or "=" in rest.partition(",")[0]:
        return spec
    return f"{name}:{LEADING[name]}={rest.strip()}"


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
    """Print the policies: name, what it is, and its parameters."""
    _print_list([(each.name, each.title, written(each.parameters)) for each in POLICIES.values()])


def list_problems() -> None:
    """Print the problems: name, what it is, and its parameters."""
    _print_list(
        [
            (
                name,
                summary,
                written(parameters_of(make, given=int(name in READS_FILES or name == "table"))),
            )
            for name, (make, summary) in PROBLEMS.items()
        ]
    )


def _print_list(entries: list[tuple[str, str, str]]) -> None:
    """Columns, a line for each entry."""
    widths = [max(map(len, column)) for column in zip(*entries, strict=True)]
    for entry in entries:
        cells = (f"{cell:<{width}}" for cell, width in zip(entry, widths, strict=True))
        print("  ".join(cells).rstrip())

"""Functions that all benchmarks share: arguments, runs, times of two calls in turn, and tables."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.stats import t as student

from tvbandits.datasets.environment import Environment
from tvbandits.domains.problem import Problem
from tvbandits.validation import Array

Case = TypeVar("Case")

# The folder of measurements beside the repository.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


class Pair(NamedTuple):
    """The seconds of both sides, measured one after the other."""

    ours: float
    peer: float


# Processor time, which depends little on other programs. Wall time would favour short calls, which are
# rarely interrupted, over long ones.
clock = time.process_time


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = clock()
    call()
    return clock() - start


def print_ratios(name: str, case: str, pairs: Sequence[Pair], note: str = "") -> None:
    """Print medians of both sides in milliseconds, and of peer / ours the median and the range."""
    times = (f"{1e3 * statistics.median(side):.4g}" for side in zip(*pairs, strict=True))
    ratios = [pair.peer / pair.ours for pair in pairs]
    interval = f"{min(ratios):.1f} to {max(ratios):.1f}"
    line(name, case, *times, f"{statistics.median(ratios):.1f}", interval, note)


def make_parser(doc: str | None, **numbers: float) -> argparse.ArgumentParser:
    """Return a parser with the docstring of a module, and an option for each number with its default."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{Path(sys.argv[0]).stem}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, default in numbers.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default, metavar="N")
    return parser


def make_files_parser(doc: str | None, **numbers: float) -> argparse.ArgumentParser:
    """Return a parser as `make_parser`, for a folder of files and the names of cases."""
    parser = make_parser(doc, **numbers)
    parser.add_argument("folder")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    return parser


def select_cases(cases: Mapping[str, Case], only: Sequence[str] | None) -> dict[str, Case]:
    """Return the cases with these names, in their order; all cases if there are no names."""
    return {name: case for name, case in cases.items() if not only or name in only}


class Course(NamedTuple):
    """The mean regret of each step of a run, and the processor seconds of its ask and tell."""

    regret: Array
    seconds: Array


def play_course(player: Any, problem: Problem, seed: int, steps: int) -> Course:
    """Return the course of a run over steps 1, 2, ... with the noise of a comparison."""
    environment = Environment.of(problem)
    regret, elapsed = np.empty(steps), np.empty(steps)
    for step in range(steps):
        t = step + 1.0
        start = clock()
        X = player.ask(t)
        elapsed[step] = clock() - start
        truth, y = np.array([environment.play(x, t, seed) for x in X[:, None]]).T
        start = clock()
        player.tell(X, y, t)
        elapsed[step] += clock() - start
        regret[step] = problem.best(t) - truth.mean()
    return Course(regret, elapsed)


def cache_result(file: Path | None, key: Sequence[Any], play: Callable[[], Any]) -> Any:
    """Return the result of `play`, or the one in the file, which has a line of JSON for each key."""
    if file is not None and file.exists():
        for line in file.read_text().splitlines():
            stored_key, stored_result = json.loads(line)
            if stored_key == list(key):
                return stored_result
    result = play()
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps([key, result]) + "\n")
    return result


def half_interval(values: Array) -> float:
    """Return half of the 95% interval of the mean of values (n,) by Student's t; NaN for one value."""
    n = len(values)
    return float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / n**0.5) if n > 1 else math.nan


def cell(values: Array, form: str = ".3f") -> str:
    """Return the mean of values (n,) with half of its 95% interval."""
    return f"{np.mean(values):{form}} ± {half_interval(np.asarray(values)):{form}}"


def line(*cells: object) -> None:
    """Print a row of a table in Markdown."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def heading(*cells: str) -> None:
    """Print the heading of a table in Markdown."""
    line(*cells)
    print("|" + "---|" * len(cells))


def machine() -> str:
    """Return versions and load, on which timings depend."""
    versions = (f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "dppy"))
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return ", ".join([f"python {platform.python_version()}", *versions, load])

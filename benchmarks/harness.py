"""What all benchmarks share: arguments, runs, timing two calls in turn, and how results are printed."""

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

# Real measurements, where they lie beside the repository.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


class Pair(NamedTuple):
    """Seconds of both sides, measured one after the other."""

    ours: float
    peer: float


# Processor time, which other programs on the machine do not change much. With waiting counted,
# short calls that slip through between interruptions would look better against long ones than they
# are.
clock = time.process_time


def seconds(call: Callable[[], object]) -> float:
    """Processor time of one call."""
    begun = clock()
    call()
    return clock() - begun


def ratios(name: str, case: str, pairs: Sequence[Pair], note: str = "") -> None:
    """Print medians of both sides in milliseconds, and of peer / ours the median and the range."""
    times = (f"{1e3 * statistics.median(side):.4g}" for side in zip(*pairs, strict=True))
    found = [pair.peer / pair.ours for pair in pairs]
    spread = f"{min(found):.1f} to {max(found):.1f}"
    line(name, case, *times, f"{statistics.median(found):.1f}", spread, note)


def arguments(doc: str | None, **numbers: float) -> argparse.ArgumentParser:
    """A parser that describes a module by its docstring; each number is an option with its default."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{Path(sys.argv[0]).stem}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, default in numbers.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default, metavar="N")
    return parser


def files_arguments(doc: str | None, **numbers: float) -> argparse.ArgumentParser:
    """A parser as of `arguments`, for a folder of files and some of the cases that are made of them."""
    parser = arguments(doc, **numbers)
    parser.add_argument("folder")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    return parser


def some_of(cases: Mapping[str, Case], only: Sequence[str] | None) -> dict[str, Case]:
    """Return the cases of these names, in their order; all, where none are named."""
    return {name: case for name, case in cases.items() if not only or name in only}


class Course(NamedTuple):
    """A run: the mean regret of each step, and the processor seconds of its ask and tell."""

    regret: Array
    seconds: Array


def course(player: Any, problem: Problem, seed: int, steps: int) -> Course:
    """Play steps 1, 2, ... with the noise of every comparison."""
    environment = Environment.of(problem)
    regret, taken = np.empty(steps), np.empty(steps)
    for step in range(steps):
        t = step + 1.0
        begun = clock()
        X = player.ask(t)
        taken[step] = clock() - begun
        truth, told = np.array([environment.play(x, t, seed) for x in X[:, None]]).T
        begun = clock()
        player.tell(X, told, t)
        taken[step] += clock() - begun
        regret[step] = problem.best(t) - truth.mean()
    return Course(regret, taken)


def kept(file: Path | None, key: Sequence[Any], play: Callable[[], Any]) -> Any:
    """What `play` returns, once: it is kept under its key in a line of JSON of the file."""
    if file is not None and file.exists():
        for line in file.read_text().splitlines():
            if (known := json.loads(line))[0] == list(key):
                return known[1]
    found = play()
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps([key, found]) + "\n")
    return found


def half_interval(values: Array) -> float:
    """Half of the 95% interval of a mean (Student's t), of shape (n,); NaN for a single value."""
    n = len(values)
    return float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / n**0.5) if n > 1 else math.nan


def cell(values: Array, form: str = ".3f") -> str:
    """Mean of some seeds, and half of its 95% interval."""
    return f"{np.mean(values):{form}} ± {half_interval(np.asarray(values)):{form}}"


def line(*cells: object) -> None:
    """Print a row of a table in Markdown."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def heading(*cells: str) -> None:
    """Print the first two rows of such a table."""
    line(*cells)
    print("|" + "---|" * len(cells))


def machine() -> str:
    """Versions and load, which timings depend on."""
    versions = (f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn", "dppy"))
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return ", ".join([f"python {platform.python_version()}", *versions, load])

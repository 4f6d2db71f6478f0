"""The loop that all attacks go through, what it counts, and how that is shown."""

import contextlib
import functools
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tvbandits import ExpertDownWarning
from tvbandits.acquisition.batches import BatchLimitWarning
from tvbandits.bandit.extremes import OutlierWarning
from tvbandits.gp.linalg import FactorisationError

# The columns: an error without a name, a wrong answer, a call that was neither made nor not made,
# and something bad that was taken without a word. Faults of any other name are counted together.
CRASHED, WRONG, HALF_DONE, SILENT = FAULTS = ("crashed", "wrong", "half-done", "silent")

# So many of each fault are kept as examples.
MOST_EXAMPLES = 12


@dataclass
class Count:
    """What one attack has found up to now.

    Attributes
    ----------
    name : str
        What was attacked.
    tried : int
        How many attempts were made.
    faults : counter
        How many times each fault was met, best by a name of `FAULTS`; none: nothing was found.
    examples : list of str
        Enough to repeat some of them.
    also : counter
        What happened and is no fault, such as attempts that were refused by name.
    """

    name: str
    tried: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    also: Counter[str] = field(default_factory=Counter)

    def fault(self, kind: str, example: str) -> None:
        """A fault, and how to repeat it."""
        self.faults[kind] += 1
        if self.faults[kind] <= MOST_EXAMPLES:
            self.examples.append(f"{kind}: {example}"[:400])


class Found(Exception):  # noqa: N818 - a finding, which ends a trial
    """A fault that a trial has met."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind


class TooLongError(Exception):
    """A call did not come to an end."""


@contextlib.contextmanager
def in_time(seconds: int) -> Iterator[None]:
    """Raise a `TooLongError` if what is within takes longer."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError(f"no end after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def strictly() -> Iterator[None]:
    """Warnings are errors, but those that an honest use may meet."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in (ExpertDownWarning, BatchLimitWarning, OutlierWarning, ResourceWarning):
            warnings.simplefilter("ignore", each)
        yield


# How to repeat it, and a call that gives an outcome that is no fault, or raises `Found` or another.
Trial = tuple[str, Callable[[], str | None]]

# `attack(count, seed)`: about so many attempts, drawn from a seed.
Attack = Callable[[int, int], Count]


def once(
    found: Count,
    example: str,
    trial: Callable[[], str | None],
    allowed: tuple[type[Exception], ...],
) -> None:
    """Make one trial, and count what came of it; errors that are allowed say what to do."""
    try:
        with strictly():
            outcome = trial()
    except Found as fault:
        found.fault(fault.kind, f"{example}: {fault}")
    except allowed:
        found.also["refused with a remedy"] += 1
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
        found.fault(CRASHED, f"{example}: {type(error).__name__}: {error}"[:300] + f" ({place})")
    else:
        if outcome:
            found.also[outcome] += 1


def in_the_loop(
    count: int = 1000, quick: int = 20, allowed: tuple[type[Exception], ...] = (FactorisationError,)
) -> Callable[[Callable[[Count, int, int], Iterable[Trial]]], Attack]:
    """Make an attack of a function that gives trials, with its usual and its quick count."""

    def decorate(trials: Callable[[Count, int, int], Iterable[Trial]]) -> Attack:
        name = trials.__module__.rpartition(".")[2].replace("_", " ")

        @functools.wraps(trials)
        def attack(count: int, seed: int) -> Count:
            found, screen = Count(name), Console(stderr=True)
            every = trials(found, count, seed)
            for example, trial in track(
                every, name, console=screen, disable=not sys.stderr.isatty()
            ):
                found.tried += 1
                once(found, example, trial, allowed)
            return found

        attack.usual = count, quick  # type: ignore[attr-defined]
        return attack

    return decorate


T = TypeVar("T")


def some(every: Sequence[T], count: int, seed: int) -> list[T]:
    """So many of them at random, in their order; all, if there are not as many."""
    rows = np.random.default_rng(seed).permutation(len(every))[:count]
    return [every[row] for row in sorted(rows)]


def one_of(every: Sequence[T], rng: np.random.Generator) -> T:
    """One of them, each as likely as the others."""
    return every[int(rng.integers(len(every)))]


def show(tallies: Iterable[Count], console: Console | None = None) -> int:
    """Print a table of counts and what was found; how many faults there were."""
    console = console or Console(highlight=False, soft_wrap=True)
    tallies = list(tallies)
    table = Table("attack", "tried", *FAULTS, "other")
    for column in table.columns[1:]:
        column.justify = "right"
    for tally in tallies:
        counts = [tally.faults[kind] for kind in FAULTS]
        cells = [tally.tried, *counts, tally.faults.total() - sum(counts)]
        table.add_row(tally.name, *(f"{cell:,}" for cell in cells))
    console.print(table)
    for tally in tallies:
        for outcome, times in sorted(tally.also.items()):
            console.print(f"{tally.name}: {times:,} {outcome}", markup=False)
        for example in tally.examples:
            console.print(f"{tally.name}: {example}", markup=False)
    return sum(tally.faults.total() for tally in tallies)

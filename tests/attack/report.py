"""What an attack found, and how that is shown."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import track
from rich.table import Table

CRASHED, WRONG, HALF_DONE, SILENT = FAULTS = ("crashed", "wrong", "half-done", "silent")
"""The columns: an error without a name, a wrong answer, a call that was neither made nor not made,
and something bad that was taken without a word. Faults of any other name are counted together."""

MOST_EXAMPLES = 12
"""So many of each fault are kept as examples."""


@dataclass(frozen=True)
class Tally:
    """What one attack found.

    Attributes
    ----------
    name : str
        What was attacked.
    tried : int
        How many attempts were made.
    faults : mapping of str to int
        How many times each fault was met, best by a name of `FAULTS`; none: nothing was found.
    examples : tuple of str
        Enough to repeat some of them.
    also : mapping of str to int
        What happened and is no fault, such as attempts that were refused by name.
    """

    name: str
    tried: int
    faults: Mapping[str, int]
    examples: tuple[str, ...] = ()
    also: Mapping[str, int] = field(default_factory=dict)

    @property
    def found(self) -> int:
        """How many faults."""
        return sum(self.faults.values())


class Count:
    """Counts faults while an attack goes on.

    >>> count = Count("locks")
    >>> for seed in (1, 2):
    ...     count.tried()
    >>> count.fault(WRONG, "seed 2: open")
    >>> count.tally
    Tally(name='locks', tried=2, faults={'wrong': 1}, examples=('wrong: seed 2: open',), also={})
    """

    def __init__(self, name: str) -> None:
        self._name, self._tried = name, 0
        self._faults, self._also = Counter[str](), Counter[str]()
        self._examples: list[str] = []

    def tried(self, attempts: int = 1) -> None:
        """So many attempts more."""
        self._tried += attempts

    def also(self, outcome: str, times: int = 1) -> None:
        """An outcome that is no fault."""
        self._also[outcome] += times

    def fault(self, kind: str, example: str) -> None:
        """A fault, and how to repeat it."""
        self._faults[kind] += 1
        if self._faults[kind] <= MOST_EXAMPLES:
            self._examples.append(f"{kind}: {example}"[:400])

    @property
    def tally(self) -> Tally:
        """What was found up to now."""
        return Tally(
            self._name, self._tried, dict(self._faults), tuple(self._examples), dict(self._also)
        )


Attack = Callable[[int, int], Tally]
"""`attack(count, seed)`: about so many attempts, drawn from a seed."""


def steps(things: Sequence[int] | range, about: str) -> Iterator[int]:
    """The same, with a progress bar on a terminal."""
    yield from track(things, about, console=Console(stderr=True), disable=not sys.stderr.isatty())


def show(tallies: Iterable[Tally], console: Console | None = None) -> int:
    """Print a table of counts and what was found; how many faults there were."""
    console = console or Console(highlight=False, soft_wrap=True)
    tallies = list(tallies)
    table = Table("attack", "tried", *FAULTS, "other")
    for column in table.columns[1:]:
        column.justify = "right"
    for tally in tallies:
        counts = [tally.faults.get(kind, 0) for kind in FAULTS]
        cells = [tally.tried, *counts, tally.found - sum(counts)]
        table.add_row(tally.name, *(f"{cell:,}" for cell in cells))
    console.print(table)
    for tally in tallies:
        for outcome, times in sorted(tally.also.items()):
            console.print(f"{tally.name}: {times:,} {outcome}", markup=False)
        for example in tally.examples:
            console.print(f"{tally.name}: {example}", markup=False)
    return sum(tally.found for tally in tallies)


def run_one(attack: Attack, module: str, count: int) -> None:
    """`python -m MODULE [--count N] [--seed N]`: the exit status is 1 if something was found."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(1 if show([attack(given.count, given.seed)]) else 0)

"""How processor time grows with the number of steps T.

BBKB plays a regression table: one run of the largest T, with the delta of that T, whose time is read at
the smaller ones. SparQ-GP-UCB plays the drifting bump likewise, with the exact and the sparse posterior;
what its simulated expert takes to answer is left out. The exponent is the slope of log time over log T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import regression
from benchmarks.drifting import Course, course
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom

BBKB_STEPS = (2000, 4000, 8000, 16000, 32000)
SPARQ_STEPS = (1000, 2000, 5000, 10000)
WIDTH, TARGET = 2.0, 1.15


@dataclass(frozen=True)
class GrowthRow:
    """Times of one policy, and the slope of log time over log T."""

    name: str
    case: str
    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    exponent: float
    target: float
    note: str


def exponent(steps: Sequence[int], seconds: Sequence[float]) -> float:
    """Least-squares slope of log seconds over log steps."""
    return float(np.polyfit(np.log(steps), np.log(seconds), 1)[0])


def on_table(name: str, tables: Path | None) -> GrowthRow | None:
    """BBKB on a regression table."""
    problem = regression.table(name, tables)
    if problem is None:
        print(f"growth: skipped on {name}, its table is not there (--tables DIR)")
        return None
    horizon = BBKB_STEPS[-1]
    bandit = regression.bbkb(problem, horizon, 0)
    run = regression.play(bandit, problem, horizon, 0, BBKB_STEPS)
    regret = np.cumsum(run.regret)[np.array(BBKB_STEPS) - 1] / np.array(BBKB_STEPS)
    shares = ", ".join(f"{r / regression.uniform_regret(problem):.3f}" for r in regret)
    return GrowthRow(
        "bbkb",
        f"{name}, A = {len(problem.domain)}",
        BBKB_STEPS,
        run.marks,
        exponent(BBKB_STEPS, run.marks),
        TARGET,
        f"regret over uniform {shares}; {run.batches} batches; "
        f"{bandit.info.posterior.dictionary_size} inducing points at the end",
    )


def on_bump(posterior: Exact | Nystrom) -> GrowthRow:
    """SparQ-GP-UCB on the drifting bump."""
    run: Course = course("sparq-gp-ucb", posterior, 0, SPARQ_STEPS[-1], confidence=WIDTH)
    seconds = tuple(float(run.seconds[:steps].sum()) for steps in SPARQ_STEPS)
    averages = ", ".join(f"{run.regret[:steps].mean():.4f}" for steps in SPARQ_STEPS)
    return GrowthRow(
        "sparq-gp-ucb",
        f"drifting bump, {type(posterior).__name__}()",
        SPARQ_STEPS,
        seconds,
        exponent(SPARQ_STEPS, seconds),
        TARGET,
        f"average regret {averages}; width {WIDTH:g}, expert's time left out",
    )


def rows(repeats: int, tables: Path | None = None) -> list[GrowthRow]:  # noqa: ARG001 - one run each
    """A row for each case that can be played."""
    found = [on_table(name, tables) for name in ("california", "abalone")]
    return [*(row for row in found if row), on_bump(Exact()), on_bump(Nystrom())]


def show(console: Console, found: Sequence[GrowthRow]) -> None:
    """A table for each sequence of T, and the notes."""
    for steps in dict.fromkeys(row.steps for row in found):
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("seconds up to T =")
        table.add_column("")
        for heading in (*map(str, steps), "exponent", "target", "note"):
            table.add_column(heading, justify="right", no_wrap=True)
        for number, row in enumerate(found, 1):
            if row.steps == steps:
                times = (f"{seconds:.3g}" for seconds in row.seconds)
                fitted = f"{row.exponent:.2f}"
                table.add_row(row.name, row.case, *times, fitted, f"<= {row.target:g}", str(number))
        console.print(table)
    for number, row in enumerate(found, 1):
        console.print(f"{number:3d}. {row.note}", highlight=False)

"""Regret over that of uniform choice on the abalone table, as in the experiments of the BBKB paper.

`python -m benchmarks.abalone --out DIR` draws the figure and prints the table, `python -m benchmarks
--only abalone` prints the table. The target is the number of rings, scaled to [0, 1]; a reward has noise
of deviation 0.01. The kernel is the paper's for BBKB and BKB (bandwidth 17.5); GP-BUCB and Thompson
sampling play with it, and with their own of [BB] Table 1 (12.5 and 10). "As programmed" is the width
that the authors' program plays, not that of their theorem. Everywhere lambda = noise
variance, F = 1, delta = 1/T, q = 2, C = 2. All policies have a fixed prior mean of 0 as in the paper;
BBKB is also shown with the mean that is learned online, which is the default of the package. GP-BUCB and
BKB play fewer steps, because each of theirs takes longer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks import regression
from benchmarks.harness import half_interval
from benchmarks.regression import Played, Player
from tvbandits import policies
from tvbandits.acquisition.confidence import BBKBProgramWidth, BKBWidth, Theory
from tvbandits.core.arrays import Array
from tvbandits.datasets.tables.problem import TableProblem

HORIZON, SEEDS = 10_000, 5
# Curves begin here: before, they are noise.
FIRST = 30

# Makes a policy for a problem, a horizon and a seed.
Make = Callable[[TableProblem, int, int], Player]


@dataclass(frozen=True)
class Contestant:
    """A policy, how many steps and seeds it plays, and how its curve is drawn."""

    name: str
    make: Make
    horizon: int = HORIZON
    line: Any = "-"
    shade: str = "black"
    weight: float = 1.6


@dataclass(frozen=True)
class AbaloneRow:
    """A policy's line of the table; `low` and `high` are the 95% interval of the mean ratio."""

    name: str
    steps: int
    seeds: int
    ratio: float
    low: float
    high: float
    ratio_at_1000: float
    batches: float
    dictionary_size: float | None
    seconds: float


@dataclass(frozen=True)
class Curve:
    """Ratio of cumulative regrets, shape (seeds, T), and the row that goes with it."""

    contestant: Contestant
    ratios: Array
    row: AbaloneRow


def _bbkb(rule: str, *, online: bool) -> Make:
    return lambda problem, horizon, seed: regression.bbkb(
        problem, horizon, seed, online=online, rule=rule
    )


def _plain(policy: Any, width: Any = None, bandwidth: float | None = None, **given: Any) -> Make:
    """Without a learned mean; with the bandwidth of BBKB, or its own."""

    def make(problem: TableProblem, horizon: int, seed: int) -> Player:
        confidence = {} if width is None else {"confidence": width(delta=1 / horizon)}
        kernel = problem.kernel if bandwidth is None else RBF(bandwidth)
        parts = (problem.domain, kernel, problem.noise_variance)
        return policy(*parts, **confidence, mean=0.0, seed=seed, **given)  # type: ignore[no-any-return]

    return make


def contestants() -> list[Contestant]:
    """Everyone, in the order of the table."""
    return [
        # A wide pale line under a narrow dark one: neither hides the other where they run together.
        Contestant("BBKB, global", _bbkb("global", online=False), shade="#c3aef0", weight=5.0),
        Contestant("BBKB, local", _bbkb("local", online=False), line="--", shade="#5d24b2"),
        Contestant("BBKB, global, online mean", _bbkb("global", online=True), shade="#d55e00"),
        Contestant(
            "BBKB, local, online mean", _bbkb("local", online=True), line="--", shade="#7f6000"
        ),
        Contestant(
            "BKB",
            _plain(policies.bkb, BKBWidth),
            horizon=2000,
            line=":",
            shade="#0072b2",
            weight=2.0,
        ),
        Contestant(
            "BBKB, global, as programmed",
            _plain(policies.bbkb, BBKBProgramWidth),
            line=":",
            shade="#991f5c",
        ),
        Contestant(
            "GP-BUCB", _plain(policies.gp_bucb, Theory), horizon=1000, line="-.", shade="#00805d"
        ),
        Contestant(
            "GP-BUCB, 12.5",
            _plain(policies.gp_bucb, Theory, 12.5),
            horizon=1000,
            line="-.",
            shade="#3a86c8",
        ),
        Contestant(
            "Thompson, batch 30", _plain(policies.thompson, batch=30), line=(0, (6, 1, 1, 1, 1, 1))
        ),
        Contestant(
            "Thompson, 10",
            _plain(policies.thompson, None, 10.0, batch=30),
            line="--",
            shade="0.6",
            weight=2.4,
        ),
        Contestant(
            "regularised evolution",
            lambda problem, _, seed: policies.evolution(problem.domain, seed=seed),
            line=(0, (1, 1)),
            shade="#333314",
        ),
        Contestant(
            "epsilon-greedy",
            lambda problem, _, seed: policies.eps_greedy(problem.domain, seed=seed),
            line=(0, (8, 2)),
            shade="#294e66",
        ),
        Contestant(
            "uniform",
            lambda problem, _, seed: policies.uniform(problem.domain, seed=seed),
            shade="0.75",
            weight=1.0,
        ),
    ]


def interval(values: Array) -> tuple[Array, Array]:
    """Ends of the 95% interval of the mean over seeds, along the first axis."""
    mean = values.mean(axis=0)
    half = np.nan_to_num([half_interval(each) for each in values.T])  # of one seed 0
    return mean - half, mean + half


def curve(contestant: Contestant, problem: TableProblem, seeds: int) -> Curve:
    """Play all seeds."""
    runs: list[Played] = []
    sizes: list[int | None] = []
    for seed in range(seeds):
        player = contestant.make(problem, contestant.horizon, seed)
        runs.append(regression.play(player, problem, contestant.horizon, seed))
        sizes.append(player.info.posterior.dictionary_size)  # type: ignore[attr-defined]
    steps = np.arange(1, contestant.horizon + 1)
    uniform = regression.uniform_regret(problem)
    ratios = np.array([np.cumsum(run.regret) / steps for run in runs]) / uniform
    low, high = (float(end[0]) for end in interval(ratios[:, -1:]))
    known = [size for size in sizes if size is not None]
    row = AbaloneRow(
        contestant.name,
        contestant.horizon,
        seeds,
        float(ratios[:, -1].mean()),
        low,
        high,
        float(ratios[:, 999].mean()),
        float(np.mean([run.batches for run in runs])),
        float(np.mean(known)) if known else None,
        float(np.mean([run.seconds for run in runs])),
    )
    return Curve(contestant, ratios, row)


def curves(seeds: int, tables: Path | None = None) -> list[Curve]:
    """All policies, or none where the table is not there."""
    problem = regression.table("abalone", tables)
    if problem is None:
        print("abalone: skipped, its table is not there (--tables DIR)")
        return []
    return [curve(contestant, problem, seeds) for contestant in contestants()]


def rows(repeats: int, tables: Path | None = None) -> list[AbaloneRow]:
    """A row for each policy."""
    return [one.row for one in curves(repeats, tables)]


def show(console: Console, found: Sequence[AbaloneRow]) -> None:
    """Print them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("abalone, A = 4177")
    headings = ("T", "seeds", "regret / uniform", "95% interval", "at T = 1000")
    for heading in (*headings, "batches", "inducing points", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in found:
        table.add_row(
            *(row.name, str(row.steps), str(row.seeds), f"{row.ratio:.4f}"),
            *(f"{row.low:.4f} - {row.high:.4f}", f"{row.ratio_at_1000:.3f}", f"{row.batches:.0f}"),
            "" if row.dictionary_size is None else f"{row.dictionary_size:.0f}",
            f"{row.seconds:.2f}",
        )
    console.print(table)


def draw(found: Sequence[Curve], path: Path) -> None:
    """Mean ratios with bands of 95%, both axes logarithmic; the legend has the order of the ends."""
    figure = Figure(figsize=(10.5, 6), layout="constrained")
    axes = figure.subplots()
    for place, one in sorted(enumerate(found), key=lambda each: -each[1].row.ratio):
        steps = np.arange(1, one.ratios.shape[1] + 1)
        shown = np.unique(np.geomspace(FIRST, len(steps), 300).astype(int)) - 1
        mean = one.ratios.mean(axis=0)
        low, high = interval(one.ratios)
        style = one.contestant
        axes.fill_between(
            *(steps[shown], np.maximum(low, 1e-4)[shown], high[shown]),
            color=style.shade,
            alpha=0.13,
            linewidth=0,
        )
        axes.plot(
            *(steps[shown], mean[shown]),
            linestyle=style.line,
            color=style.shade,
            linewidth=style.weight,
            zorder=2.0 + 0.01 * place,  # as the contestants stand
            label=style.name if len(steps) == HORIZON else f"{style.name}, to t = {len(steps)}",
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="plays t",
        ylabel="cumulative regret / that of uniform choice",
        xlim=(FIRST, HORIZON),
    )
    axes.set_ylim(0.7 * min(one.row.ratio for one in found), 1.6)
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, handlelength=4)
    axes.set_title(
        f"Abalone, A = 4177, bandwidth 17.5: mean and 95% band, seeds: {found[0].row.seeds}",
        loc="left",
        fontsize=11,
    )
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print the table, draw the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.abalone", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the figure")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help=f"{SEEDS} by default")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="where abalone.csv is")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")
    with threadpool_limits(limits=1):
        found = curves(options.seeds, options.tables)
    if not found:
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    show(console if console.is_terminal else Console(width=140), [one.row for one in found])
    draw(found, options.out / "abalone_regret.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())

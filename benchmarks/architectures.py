"""Architectures of networks as in [BB] figures 4 and 7: cumulative and simple regret.

    python -m benchmarks.architectures DIR [--table FILE] [--plays 1000] [--seeds 3]

`FILE` is a table that `tvbandits.datasets.nas_bench` reads. Without it the 12,416 cells of NAS-Bench-101
have made-up accuracies (`simulate_nas_bench`), so that the figures say nothing about networks. As in
[BB] D.2: bandwidth 100, no initial sample, F = 1, delta = 1/T, q = 2, prior mean 0. The theorems' widths
are for these; 2 is the width that the package plays by default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from benchmarks import regression
from benchmarks.harness import arguments, cell, heading, line
from benchmarks.regression import Maker, free, modelled
from tvbandits import policies
from tvbandits.acquisition.widths import BBKBWidth, Theory, ThompsonWidth
from tvbandits.datasets import TableProblem, nas_bench, simulate_nas_bench
from tvbandits.validation import Array

FIRST = 30  # curves begin there: before, they are noise


class Contestant(NamedTuple):
    """Makes a policy for a problem, a horizon and a seed; how it is drawn."""

    make: Maker
    line: Any
    grey: str


CONTESTANTS = {
    "BBKB, global": Contestant(modelled(policies.bbkb, BBKBWidth), "-", "0.6"),
    "BBKB, local": Contestant(modelled(policies.bbkb, BBKBWidth, rule="local"), "--", "0.0"),
    "BBKB, global, width 2": Contestant(modelled(policies.bbkb, beta=2.0), "-", "0.0"),
    "GP-BUCB": Contestant(modelled(policies.gp_bucb, Theory), ":", "0.0"),
    "Thompson, batch 30": Contestant(modelled(policies.thompson, ThompsonWidth), "-.", "0.0"),
    "regularised evolution": Contestant(free(policies.evolution), "--", "0.6"),
    "epsilon-greedy": Contestant(free(policies.eps_greedy), "-.", "0.6"),
    "uniform": Contestant(free(policies.uniform), ":", "0.6"),
}


def table(problem: TableProblem, plays: int, seeds: int) -> dict[str, Array]:
    """Print a row for each policy; the regret of its plays, shape (seeds, T), by name."""
    regrets: dict[str, Array] = {}
    heading("policy", "regret / uniform", "simple regret", "batches", "seconds")
    for name, one in CONTESTANTS.items():
        runs = [
            regression.play(one.make(problem, plays, seed), problem, plays, seed)
            for seed in range(seeds)
        ]
        regret = regrets[name] = np.array([run.regret for run in runs])
        batches, seconds = (np.mean([run[i] for run in runs]) for i in (1, 2))
        ratio = regret.mean(axis=1) / regression.uniform_regret(problem)
        line(name, cell(ratio), cell(regret.min(axis=1), ".4f"), f"{batches:.0f}", f"{seconds:.1f}")
    return regrets


def draw(problem: TableProblem, regrets: dict[str, Array], path: Path) -> None:
    """Means over seeds of both regrets."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, regret in regrets.items():
        plays = np.arange(1, regret.shape[1] + 1)
        ratio = np.cumsum(regret, axis=1) / plays / regression.uniform_regret(problem)
        simple = np.minimum.accumulate(regret, axis=1)
        style: dict[str, Any] = {
            "linestyle": CONTESTANTS[name].line,
            "color": CONTESTANTS[name].grey,
            "label": name,
        }
        left.plot(plays[FIRST:], ratio.mean(axis=0)[FIRST:], **style)
        right.plot(plays[FIRST:], simple.mean(axis=0)[FIRST:], **style)
    left.set(xlabel="plays t", ylabel="cumulative regret / that of uniform choice")
    right.set(xlabel="plays t", ylabel="simple regret (accuracy)")
    handles = left.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False, handlelength=3.5)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Play, print the table, draw the figure."""
    parser = arguments(__doc__, plays=1000, seeds=3)
    parser.add_argument("out", type=Path, metavar="DIR", help="for the figure")
    parser.add_argument("--table", type=Path, metavar="FILE", help="architectures and accuracies")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    source = simulate_nas_bench(architectures=12_416) if options.table is None else options.table
    problem = nas_bench(source, horizon=options.plays)
    print(problem)
    with threadpool_limits(limits=1):
        regrets = table(problem, options.plays, options.seeds)
    draw(problem, regrets, options.out / "architectures.png")


if __name__ == "__main__":
    main()

"""Architectures of networks as in [BB] figures 3, 4 and 7: regret, simple regret, batches and time.

    python -m benchmarks.architectures DIR [--table FILE] [--plays 1000] [--seeds 3] [--initial N]

`FILE` is a table that `tvbandits.datasets.nas_bench` reads. Without it the 12,416 cells of NAS-Bench-101
have made-up accuracies (`simulate_nas_bench`), so that the figures say nothing about networks. As in
[BB] D.2: bandwidth 100, F = 1, delta = 1/T, q = 2, prior mean 0. With `--initial 2000` each policy of
Figure 4 first learns the rewards of so many uniform points, and the bandwidth is 125. The theorems'
widths are for these; 2 is the width that the package plays by default.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks import regression
from benchmarks.harness import arguments, cell, heading, line
from benchmarks.regression import Maker, Played, free, modelled
from tvbandits import policies
from tvbandits.acquisition.widths import BBKBWidth, Theory, ThompsonWidth
from tvbandits.datasets import TableProblem, nas_bench, simulate_nas_bench
from tvbandits.domains.problem import noise_to_add

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


# Those that [BB] play with an initial sample, and the bandwidth that they have then.
WITH_INITIAL = ("BBKB, global", "BBKB, local", "BBKB, global, width 2", "regularised evolution")
INITIAL_BANDWIDTH = 125.0


def learn_sample(player: Any, problem: TableProblem, size: int, seed: int) -> None:
    """Tell a policy the rewards of uniform points, the same to each policy."""
    rng = np.random.default_rng([seed, 0xA0])
    X = problem.domain.sample(size, rng)
    noise = math.sqrt(noise_to_add(problem)) * rng.standard_normal(size)
    player.tell(X, problem.value(X, 1.0) + noise)


def table(problem: TableProblem, plays: int, seeds: int, initial: int) -> dict[str, list[Played]]:
    """Print a row for each policy; its runs by name."""
    runs: dict[str, list[Played]] = {}
    heading("policy", "regret / uniform", "simple regret", "batches", "seconds")
    for name in WITH_INITIAL if initial else CONTESTANTS:
        runs[name] = []
        for seed in range(seeds):
            player = CONTESTANTS[name].make(problem, plays, seed)
            if initial:
                learn_sample(player, problem, initial, seed)
            runs[name].append(regression.play(player, problem, plays, seed))
        regret = np.array([run.regret for run in runs[name]])
        batches = np.mean([run.batches for run in runs[name]])
        seconds = np.mean([run.seconds for run in runs[name]])
        ratio = regret.mean(axis=1) / regression.uniform_regret(problem)
        line(name, cell(ratio), cell(regret.min(axis=1), ".4f"), f"{batches:.0f}", f"{seconds:.1f}")
    return runs


def draw(problem: TableProblem, runs: dict[str, list[Played]], path: Path) -> None:
    """Means over seeds of both regrets, of the size of the batch at each play, and of the time."""
    figure = Figure(figsize=(10, 7.6), layout="constrained")
    (left, right), (size, time) = figure.subplots(2, 2)
    for name, each in runs.items():
        regret = np.array([run.regret for run in each])
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
        size.plot(plays, np.mean([run.sizes for run in each], axis=0), **style)
        time.plot(plays, np.mean([run.elapsed for run in each], axis=0), **style)
    left.set(xlabel="plays", ylabel="cumulative regret / that of uniform choice")
    right.set(xlabel="plays", ylabel="simple regret (accuracy)")
    size.set(xlabel="plays", ylabel="points in the batch", yscale="log")
    # Fixed limits: the times of another day leave the other panels where they are.
    time.set(xlabel="plays", ylabel="processor seconds", yscale="log", ylim=(0.01, 100))
    handles = left.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False, handlelength=3.5)
    regression.save_greys(figure, path, dpi=120)


def main() -> None:
    """Play, print the table, draw the figure."""
    parser = arguments(__doc__, plays=1000, seeds=3, initial=0)
    parser.add_argument("out", type=Path, metavar="DIR", help="for the figure")
    parser.add_argument("--table", type=Path, metavar="FILE", help="architectures and accuracies")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    source = simulate_nas_bench(architectures=12_416) if options.table is None else options.table
    problem = nas_bench(source, horizon=options.plays)
    if options.initial:
        problem = replace(problem, kernel=RBF(INITIAL_BANDWIDTH))
    print(problem)
    with threadpool_limits(limits=1):
        runs = table(problem, options.plays, options.seeds, options.initial)
    name = "architectures_initial.png" if options.initial else "architectures.png"
    draw(problem, runs, options.out / name)


if __name__ == "__main__":
    main()

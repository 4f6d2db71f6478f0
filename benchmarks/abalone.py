"""Regret over that of uniform choice on the abalone table, as in the experiments of the BBKB paper.

`python -m benchmarks.abalone --out DIR` prints the table and draws the figure, `python -m benchmarks
--only abalone` prints the table. The target is the number of rings, scaled to [0, 1]; a reward has noise
of deviation 0.01. The kernel is the paper's for BBKB and BKB (bandwidth 17.5); GP-BUCB and Thompson
sampling play with it, and with their own of [BB] Table 1 (12.5 and 10). "As programmed" is the width
that the authors' program plays, not that of their theorem. Everywhere lambda = noise
variance, F = 1, delta = 1/T, q = 2, C = 2. All policies have a fixed prior mean of 0 as in the paper;
BBKB is also shown with the mean that is learned online, which is the default of the package. GP-BUCB and
BKB play fewer steps, because each of theirs takes longer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from benchmarks import regression
from benchmarks.harness import arguments, cell, half_interval, heading, line
from benchmarks.regression import Maker, bbkb_maker, free, modelled
from tvbandits import policies
from tvbandits.acquisition.widths import BBKBProgramWidth, BKBWidth, Theory, ThompsonWidth
from tvbandits.validation import Array

HORIZON, FIRST = 10_000, 30  # curves begin at the latter: before, they are noise


class Contestant(NamedTuple):
    """Makes a policy for a problem, a horizon and a seed; how many steps it plays, how it is drawn."""

    make: Maker
    line: Any
    shade: str
    horizon: int = HORIZON
    weight: float = 1.6


# A wide pale line under a narrow dark one: neither hides the other where they run together.
CONTESTANTS = {
    "BBKB, global": Contestant(bbkb_maker("global"), "-", "#c3aef0", weight=5.0),
    "BBKB, local": Contestant(bbkb_maker("local"), "--", "#5d24b2"),
    "BBKB, global, online mean": Contestant(bbkb_maker("global", "online"), "-", "#d55e00"),
    "BBKB, local, online mean": Contestant(bbkb_maker("local", "online"), "--", "#7f6000"),
    "BKB": Contestant(modelled(policies.bkb, BKBWidth), ":", "#0072b2", 2000, 2.0),
    "BBKB, global, as programmed": Contestant(
        modelled(policies.bbkb, BBKBProgramWidth), ":", "#991f5c"
    ),
    "GP-BUCB": Contestant(modelled(policies.gp_bucb, Theory), "-.", "#00805d", 1000),
    "GP-BUCB, 12.5": Contestant(modelled(policies.gp_bucb, Theory, 12.5), "-.", "#3a86c8", 1000),
    "Thompson, batch 30": Contestant(
        modelled(policies.thompson, ThompsonWidth, batch_size=30), (0, (6, 1, 1, 1, 1, 1)), "black"
    ),
    "Thompson, 10": Contestant(
        modelled(policies.thompson, ThompsonWidth, 10.0, batch_size=30), "--", "0.6", weight=2.4
    ),
    "regularised evolution": Contestant(free(policies.evolution), (0, (1, 1)), "#333314"),
    "epsilon-greedy": Contestant(free(policies.eps_greedy), (0, (8, 2)), "#294e66"),
    "uniform": Contestant(free(policies.uniform), "-", "0.75", weight=1.0),
}


def table(repeats: int, tables: Path | None = None) -> dict[str, Array]:
    """Print a row for each policy; its ratios of cumulative regrets, shape (seeds, T), by name."""
    found: dict[str, Array] = {}
    problem = regression.table("abalone", tables)
    if problem is None:
        return found
    heading("policy", "T", "regret / uniform", "at 1000", "batches", "inducing points", "seconds")
    for name, one in CONTESTANTS.items():
        runs, sizes = [], []
        for seed in range(repeats):
            player = one.make(problem, one.horizon, seed)
            runs.append(regression.play(player, problem, one.horizon, seed))
            sizes.append(player.info.posterior.dictionary_size or np.nan)
        total = np.cumsum([run.regret for run in runs], axis=1) / np.arange(1, one.horizon + 1)
        ratios = found[name] = total / regression.uniform_regret(problem)
        batches, seconds = (np.mean([run[i] for run in runs]) for i in (1, 2))
        ends = cell(ratios[:, -1], ".4f"), f"{ratios[:, 999].mean():.3f}"
        line(
            name,
            one.horizon,
            *ends,
            f"{batches:.0f}",
            f"{np.mean(sizes):.0f}".replace("nan", ""),
            f"{seconds:.2f}",
        )
    return found


def draw(found: dict[str, Array], path: Path) -> None:
    """Mean ratios with bands of 95%, both axes logarithmic; the legend has the order of the ends."""
    figure = Figure(figsize=(10.5, 6), layout="constrained")
    axes = figure.subplots()
    places = list(found)
    for name, ratios in sorted(found.items(), key=lambda each: -each[1][:, -1].mean()):
        one, length = CONTESTANTS[name], ratios.shape[1]
        shown = np.unique(np.geomspace(FIRST, length, 300).astype(int)) - 1
        mean = ratios.mean(axis=0)[shown]
        half = np.nan_to_num([half_interval(each) for each in ratios.T[shown]])  # of one seed 0
        band = np.maximum(mean - half, 1e-4), mean + half
        axes.fill_between(shown + 1, *band, color=one.shade, alpha=0.13, linewidth=0)
        axes.plot(
            shown + 1,
            mean,
            linestyle=one.line,
            color=one.shade,
            linewidth=one.weight,
            zorder=2.0 + 0.01 * places.index(name),
            label=name if length == HORIZON else f"{name}, to t = {length}",
        )
    axes.set(xscale="log", yscale="log", xlim=(FIRST, HORIZON), xlabel="plays t")
    axes.set(ylabel="cumulative regret / that of uniform choice")
    axes.set_ylim(0.7 * min(ratios[:, -1].mean() for ratios in found.values()), 1.6)
    axes.grid(which="major", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, handlelength=4)
    seeds = len(found[places[0]])
    title = f"Abalone, A = 4177, bandwidth 17.5: mean and 95% band, seeds: {seeds}"
    axes.set_title(title, loc="left", fontsize=11)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Play, print the table, draw the figure."""
    parser = arguments(__doc__, seeds=5)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the figure")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="where abalone.csv is")
    options = parser.parse_args()
    with threadpool_limits(limits=1):
        found = table(options.seeds, options.tables)
    if found:
        options.out.mkdir(parents=True, exist_ok=True)
        draw(found, options.out / "abalone_regret.png")


if __name__ == "__main__":
    main()

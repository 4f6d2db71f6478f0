"""Learned rates of change against hand-tuned ones, without an expert: `python -m benchmarks.tuned`.

R, SW, W and TV-GP-UCB are played with every setting of a grid, and each is shown at the one of least
average regret. That is more than anybody has who must choose a setting before the first step: the best
is known only afterwards, on the very runs it is judged by. The learned policies choose nothing by hand.
All of them meet the same realisations, the same noise and the same preparation.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness import DATA, arguments, heading, line
from tvbandits import compare
from tvbandits.comparison.arguments import READS_FILES, make_problem
from tvbandits.comparison.summary import summarise
from tvbandits.policies.names import parse_spec

PROBLEMS = (
    "drifting-bump",
    "gp-drift:epsilon=0.01",
    "gp-drift:epsilon=0.03",
    "gp-drift:epsilon=0.1",
    "switching",
    "ozone:sites=28",
)
# The policies that learn their rate.
LEARNED = ("adaptive-gp-ucb", "ui-gp-ucb:forgetting_rate=learn", "w-gp-ucb:discount=learn")

# Settings of a hand-tuned policy.
SETTINGS = 8

# Steps between resets, and in a window.
SHORTEST, LONGEST = 5, 320

# Ends of the grids of 1 - discount and of epsilon.
DISCOUNTED, EPSILONS = (0.5, 0.002), (0.0003, 0.5)

# Daily ozone, where it lies beside the repository.
FILES = [DATA / "ozone" / f"daily_ozone_{year}.csv" for year in (2008, 2009)]


def grids(horizon: int) -> list[list[str]]:
    """Each hand-tuned policy with its settings, as names; no reset or window is longer than the run."""
    lengths = np.geomspace(min(SHORTEST, horizon), min(LONGEST, horizon), SETTINGS)
    steps = dict.fromkeys(f"{round(length)}" for length in lengths)
    return [
        [f"r-gp-ucb:reset_every={each}" for each in steps],
        [f"sw-gp-ucb:window={each}" for each in steps],
        [f"w-gp-ucb:discount={1 - lost:.4g}" for lost in np.geomspace(*DISCOUNTED, SETTINGS)],
        [
            f"tv-gp-ucb:forgetting_rate={epsilon:.2g}"
            for epsilon in np.geomspace(*EPSILONS, SETTINGS)
        ],
    ]


def with_settings(summary: pd.DataFrame, tuned: list[list[str]]) -> pd.DataFrame:
    """The summary with policy and setting apart; `best` says which setting loses least.

    `at_end` says that it is an end of its grid, beyond which a still better one may be.
    """
    name = summary["policy"]
    means = summary.set_index("policy")["average_regret"]
    best = [means[grid].idxmin() for grid in tuned]
    ends = [end for grid in tuned for end in (grid[0], grid[-1])]
    return summary.assign(
        policy=[parse_spec(each)[0] for each in name],
        setting=["learned" if each in LEARNED else each.partition(":")[2] for each in name],
        best=name.isin([*LEARNED, *best]),
        at_end=name.isin(best) & name.isin(ends),
    )


def picture(tables: dict[str, pd.DataFrame]) -> Figure:
    """Average regret with 95% intervals, a panel a problem; all settings as small strokes."""
    lines = math.ceil(len(tables) / 3)
    figure = Figure(figsize=(14.6, 3.4 * lines + 0.5), layout="constrained")
    grid = figure.subplots(lines, 3, squeeze=False).ravel()
    for axes, (problem, table) in zip(grid, tables.items(), strict=False):
        draw(axes, table)
        axes.set_xlabel("average regret per step")
        axes.set_title(f"{problem}, {table['seeds'].iloc[0]} seeds", fontsize=10)
    for axes in grid[len(tables) :]:
        axes.set_axis_off()
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def draw(axes: Axes, table: pd.DataFrame) -> None:
    """One panel: learned policies above, hand-tuned ones below."""
    learned = table["setting"] == "learned"
    shown = pd.concat([table[learned], table[table["best"] & ~learned]])
    places = np.arange(len(shown), 0, -1)
    row_of = dict(zip(shown["policy"][len(LEARNED) :], places[len(LEARNED) :], strict=True))
    others = table[~learned]
    rows, label = others["policy"].map(row_of), "other settings of the grid"
    axes.scatter(others["average_regret"], rows, s=80, marker="|", color="0.65", label=label)
    for part, marker, face, label in (
        (slice(len(LEARNED)), "o", "black", "learned, 95% interval"),
        (slice(len(LEARNED), None), "s", "white", "best by hand, 95% interval"),
    ):
        some = shown[part]
        half = some["average_regret_ci95"].fillna(0.0)
        axes.errorbar(
            some["average_regret"],
            places[part],
            xerr=half,
            markerfacecolor=face,
            markersize=6,
            capsize=3,
            label=label,
            fmt=marker,
            color="black",
        )
    axes.set_yticks(places, shown["policy"] + "\n" + shown["setting"], fontsize=8)
    axes.axhline(len(shown) - len(LEARNED) + 0.5, color="0.8", linewidth=0.8, zorder=0)
    axes.set(ylim=(0.4, len(shown) + 0.6), xlim=(0, None), axisbelow=True)
    axes.grid(axis="x", color="0.92")


def main() -> None:
    """Play, print the policies at their best, and draw."""
    parser = arguments(__doc__, seeds=10, jobs=-1, width=2.0)
    parser.add_argument("--horizon", type=int, help="steps; the problems' own by default")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=PROBLEMS, metavar="PROBLEM")
    parser.add_argument("--data", nargs="+", type=Path, default=FILES, help="daily ozone")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    tables = {}
    heading("problem", "policy", "setting", "at an end", "regret")
    for label in options.only:
        if parse_spec(label)[0] in READS_FILES and not all(map(Path.is_file, options.data)):
            print(f"{label}: skipped, its files are not there (--data FILE)")
            continue
        problem = make_problem(label, options.data, options.horizon)
        tuned = grids(min(options.horizon or problem.horizon, problem.horizon))
        names = [*LEARNED, *(name for grid in tuned for name in grid)]
        plan = options.seeds, options.horizon, options.jobs
        played = compare({label: problem}, names, *plan, beta=options.width, expert=None)
        tables[label] = with_settings(summarise(played), tuned)
        for row in tables[label][tables[label]["best"]].itertuples():
            regret = f"{row.average_regret:.3f} ± {row.average_regret_ci95:.3f}"
            line(label, row.policy, row.setting, row.at_end, regret)
    if options.picture is not None:
        picture(tables).savefig(options.picture, dpi=120)


if __name__ == "__main__":
    main()

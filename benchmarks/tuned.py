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

from benchmarks.harness import DATA, arguments
from tvbandits import compare
from tvbandits.cli.problems import READS_FILES, make_problem
from tvbandits.comparison.summary import counted
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
LEARNED = ("adaptive-gp-ucb", "ui-gp-ucb:learn=true", "w-gp-ucb:learn=true")

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
        [f"tv-gp-ucb:epsilon={epsilon:.2g}" for epsilon in np.geomspace(*EPSILONS, SETTINGS)],
    ]


def summed_up(summary: pd.DataFrame, tuned: list[list[str]]) -> pd.DataFrame:
    """The summary with a setting for each policy.

    `best` says which setting of a policy has the least average regret, and `at_end` that it is an end of
    its grid, beyond which a still better one may be.
    """
    name = summary["policy"]
    means = summary.set_index("policy")["average_regret"]
    best = [means[grid].idxmin() for grid in tuned]
    ends = [end for grid in tuned for end in (grid[0], grid[-1])]
    return summary.assign(
        name=name,
        policy=[parse_spec(each)[0] for each in name],
        setting=["learned" if each in LEARNED else each.partition(":")[2] for each in name],
        best=name.isin([*LEARNED, *best]),
        at_end=name.isin(best) & name.isin(ends),
    )


def picture(table: pd.DataFrame, units: dict[str, str]) -> Figure:
    """Average regret with 95% intervals, a panel a problem; all settings as small strokes."""
    problems = list(table["problem"].unique())
    columns = min(len(problems), 3)
    lines = math.ceil(len(problems) / columns)
    figure = Figure(figsize=(4.6 * columns + 0.8, 3.4 * lines + 0.5), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, problem in zip(grid, problems, strict=False):
        mine = table[table["problem"] == problem]
        draw(axes, mine)
        unit = f" ({units[problem]})" if units.get(problem) else ""
        axes.set_xlabel(f"average regret per step{unit}")
        seeds, length = counted(mine["seeds"], "seed"), counted(mine["horizon"], "step")
        axes.set_title(f"{problem}, {seeds}, {length}", fontsize=10)
    for axes in grid[len(problems) :]:
        axes.set_axis_off()
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def draw(axes: Axes, mine: pd.DataFrame) -> None:
    """One panel: learned policies above, hand-tuned ones below."""
    shown = mine[mine["best"]]
    shown = pd.concat([shown[shown["setting"] == "learned"], shown[shown["setting"] != "learned"]])
    places = dict(zip(shown["name"], range(len(shown), 0, -1), strict=True))
    by_hand = shown[shown["setting"] != "learned"]
    row_of = {line.policy: places[line.name] for line in by_hand.itertuples(index=False)}
    others = mine[mine["setting"] != "learned"]
    axes.scatter(
        others["average_regret"],
        [row_of[policy] for policy in others["policy"]],
        s=80,
        marker="|",
        color="0.65",
        label="other settings of the grid",
    )
    for is_learned, marker, face, label in (
        (True, "o", "black", "learned, 95% interval"),
        (False, "s", "white", "best by hand, 95% interval"),
    ):
        some = shown[(shown["setting"] == "learned") == is_learned]
        axes.errorbar(
            some["average_regret"],
            [places[name] for name in some["name"]],
            xerr=some["average_regret_ci95"].fillna(0.0),
            fmt=marker,
            color="black",
            markerfacecolor=face,
            markersize=6,
            capsize=3,
            label=label,
        )
    labels = [f"{line.policy}\n{line.setting}" for line in shown.itertuples()]
    axes.set_yticks([places[name] for name in shown["name"]], labels, fontsize=8)
    axes.axhline(len(shown) - len(LEARNED) + 0.5, color="0.8", linewidth=0.8, zorder=0)
    axes.set_ylim(0.4, len(shown) + 0.6)
    axes.set_xlim(0, None)
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)


def main() -> None:
    """Play, print the policies at their best, and draw."""
    parser = arguments(__doc__, seeds=10, jobs=-1, width=2.0)
    parser.add_argument("--horizon", type=int, help="steps; the problems' own by default")
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=PROBLEMS, metavar="PROBLEM")
    parser.add_argument("--data", nargs="+", type=Path, default=FILES, help="daily ozone")
    parser.add_argument("--out", type=Path, help="folder for tuned.csv and tuned.png")
    given = parser.parse_args()
    tables, units = [], {}
    for label in given.only:
        if parse_spec(label)[0] in READS_FILES and not all(map(Path.is_file, given.data)):
            print(f"{label}: skipped, its files are not there (--data FILE)")
            continue
        problem = make_problem(label, given.data, given.horizon)
        tuned = grids(min(given.horizon or problem.horizon, problem.horizon))
        names = [*LEARNED, *(name for grid in tuned for name in grid)]
        played = compare(
            {label: problem},
            names,
            given.seeds,
            given.horizon,
            given.jobs,
            confidence=given.width,
            expert=None,
        )
        table = summed_up(played.summary(), tuned)
        tables.append(table)
        units[label] = problem.unit
        columns = ["problem", "policy", "setting", "at_end", "average_regret"]
        columns += ["average_regret_ci95", "last_fifth_regret"]
        shown = table[table["best"]][columns]
        print(shown.to_string(index=False, float_format="{:.3f}".format), flush=True)
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        table = pd.concat(tables, ignore_index=True)
        table.to_csv(given.out / "tuned.csv", index=False)
        picture(table, units).savefig(given.out / "tuned.png", dpi=120)


if __name__ == "__main__":
    main()

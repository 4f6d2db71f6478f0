"""Learned rates of change against hand-tuned ones, without an expert: `python -m benchmarks.tuned`.

R, SW, W and TV-GP-UCB are played with every setting of a grid, and each is shown at the one of least
average regret. That is more than anybody has who must choose a setting before the first step: the best
is known only afterwards, on the very runs it is judged by. The learned policies choose nothing by hand.
All of them meet the same realisations, the same noise and the same preparation.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.harness import half_interval, machine
from tvbandits.cli.problems import READS_FILES, make_problem
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.playing import Run
from tvbandits.comparison.summary import counted
from tvbandits.core.protocols import Problem
from tvbandits.policies.names import parse_spec

PROBLEMS = (
    "drifting-bump",
    "gp-drift:epsilon=0.01",
    "gp-drift:epsilon=0.03",
    "gp-drift:epsilon=0.1",
    "switching",
    "ozone:sites=28",
)

LEARNED = ("adaptive-gp-ucb", "ui-gp-ucb:learn=true", "w-gp-ucb:learn=true")
"""The policies that learn their rate; verdicts are about the first."""

SETTINGS = 8
"""Settings of a hand-tuned policy."""

SHORTEST, LONGEST = 5, 320
"""Steps between resets, and in a window."""

DISCOUNTED, EPSILONS = (0.5, 0.002), (0.0003, 0.5)
"""Ends of the grids of 1 - discount and of epsilon."""

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data" / "ozone"
FILES = tuple(BESIDE / f"daily_ozone_{year}.csv" for year in (2008, 2009))
"""Daily ozone, where it lies beside the repository."""


@dataclass(frozen=True)
class Tuned:
    """A hand-tuned policy, and its settings as text."""

    policy: str
    parameter: str
    values: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """As a comparison takes them: "sw-gp-ucb:window=20"."""
        return tuple(f"{self.policy}:{self.parameter}={value}" for value in self.values)


def grids(horizon: int) -> tuple[Tuned, ...]:
    """The hand-tuned policies; no reset or window is longer than the run."""
    lengths = np.geomspace(min(SHORTEST, horizon), min(LONGEST, horizon), SETTINGS)
    steps = tuple(dict.fromkeys(f"{round(length)}" for length in lengths))
    discounts = tuple(f"{1 - lost:.4g}" for lost in np.geomspace(*DISCOUNTED, SETTINGS))
    epsilons = tuple(f"{epsilon:.2g}" for epsilon in np.geomspace(*EPSILONS, SETTINGS))
    return (
        Tuned("r-gp-ucb", "reset_every", steps),
        Tuned("sw-gp-ucb", "window", steps),
        Tuned("w-gp-ucb", "discount", discounts),
        Tuned("tv-gp-ucb", "epsilon", epsilons),
    )


def scored(run: Run) -> dict[str, Any]:
    """What is kept of a run."""
    regret = np.array([row["regret"] for row in run.rows])
    last = max(len(regret) // 5, 1)
    return {
        "problem": run.problem,
        "policy": run.policy,
        "seed": run.seed,
        "average_regret": float(regret.mean()),
        "last_fifth_regret": float(regret[-last:].mean()),
    }


def summed_up(scores: pd.DataFrame, tuned: Sequence[Tuned]) -> pd.DataFrame:
    """A line for each policy and setting of a problem.

    `best` says which setting of a policy has the least average regret, and `at_end` that it is an end of
    its grid, beyond which a still better one may be.
    """
    means = scores.groupby("policy", sort=False)["average_regret"].mean()
    best = {means[list(one.names)].idxmin(): one for one in tuned}
    lines = []
    for name, group in scores.groupby("policy", sort=False):
        policy, _ = parse_spec(str(name))
        learned, grid = name in LEARNED, best.get(name)
        lines.append(
            {
                "problem": group["problem"].iloc[0],
                "policy": policy,
                "setting": "learned" if learned else str(name).partition(":")[2],
                "seeds": len(group),
                "average_regret": group["average_regret"].mean(),
                "ci95": half_interval(group["average_regret"].to_numpy()),
                "last_fifth_regret": group["last_fifth_regret"].mean(),
                "best": learned or grid is not None,
                "at_end": grid is not None and name in (grid.names[0], grid.names[-1]),
                "name": name,
            }
        )
    return pd.DataFrame(lines)


@dataclass(frozen=True)
class Margin:
    """Average regret of a learned policy less that of a hand-tuned one, paired over seeds.

    Attributes
    ----------
    problem, learned, tuned : str
    difference : float
        In the unit of reward; negative: the learned one is better.
    ci95 : float
        Half of its 95% interval; NaN for one seed.
    relative : float
        The difference as a share of the hand-tuned one's regret.
    """

    problem: str
    learned: str
    tuned: str
    difference: float
    ci95: float
    relative: float

    @property
    def verdict(self) -> str:
        """Beats, equals or loses to: an interval that holds 0 decides nothing."""
        if math.isnan(self.ci95):
            return "against"
        if abs(self.difference) <= self.ci95:
            return "level with"
        return "beats" if self.difference < 0 else "loses to"


def margins(scores: pd.DataFrame, table: pd.DataFrame) -> list[Margin]:
    """Every learned policy of a problem against every hand-tuned one at its best."""
    by_seed = scores.pivot_table(index="seed", columns="policy", values="average_regret")
    chosen = table[table["best"] & (table["setting"] != "learned")]["name"]
    problem, made = str(table["problem"].iloc[0]), []
    for learned in LEARNED:
        for tuned in chosen:
            apart = by_seed[learned] - by_seed[tuned]
            mean, missed = float(apart.mean()), float(by_seed[tuned].mean())
            share = mean / missed if missed else math.nan
            made.append(
                Margin(problem, learned, str(tuned), mean, half_interval(apart.to_numpy()), share)
            )
    return made


@dataclass(frozen=True)
class Contest:
    """What came of one problem: a line for each policy and setting, and the paired differences."""

    table: pd.DataFrame
    margins: list[Margin]


def sentence(found: Sequence[Margin], unit: str) -> str:
    """One line on the first of the learned policies."""
    about = [margin for margin in found if margin.learned == LEARNED[0]]
    parts = []
    for margin in about:
        interval = "one seed" if math.isnan(margin.ci95) else f"± {margin.ci95:.2g}"
        apart = f"{margin.difference:+.3g} {interval} ({margin.relative:+.0%})"
        parts.append(f"{margin.verdict} {margin.tuned}: {apart}")
    inside = f" [{unit}]" if unit else ""
    return f"{about[0].problem}{inside}: {LEARNED[0]}, learned, {'; '.join(parts)}"


def picture(table: pd.DataFrame, units: dict[str, str], steps: dict[str, int]) -> Figure:
    """Average regret with 95% intervals, a panel a problem; all settings as small strokes."""
    problems = list(table["problem"].unique())
    columns = min(len(problems), 3)
    lines = math.ceil(len(problems) / columns)
    figure = Figure(figsize=(4.6 * columns + 0.8, 3.4 * lines + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, problem in zip(grid, problems, strict=False):
        mine = table[table["problem"] == problem]
        draw(axes, mine)
        unit = f" ({units[problem]})" if units.get(problem) else ""
        axes.set_xlabel(f"average regret per step{unit}")
        seeds, length = counted(mine["seeds"], "seed"), counted([steps[problem]], "step")
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
            xerr=some["ci95"].fillna(0.0),
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


def show(console: Console, table: pd.DataFrame, title: str) -> None:
    """Print the learned policies, and the hand-tuned ones at their best."""
    shown = Table(title=title)
    for name in ("problem", "policy", "best setting"):
        shown.add_column(name, no_wrap=True)
    for name in ("average regret", "95% ±", "last fifth"):
        shown.add_column(name, justify="right", no_wrap=True)
    for problem, mine in table[table["best"]].groupby("problem", sort=False):
        for line in mine.to_dict(orient="records"):
            end = " (end of grid)" if line["at_end"] else ""
            figures = (line[name] for name in ("average_regret", "ci95", "last_fifth_regret"))
            shown.add_row(
                str(problem),
                line["policy"],
                line["setting"] + end,
                *(f"{figure:.3f}" for figure in figures),
            )
        shown.add_section()
    console.print(shown)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuned", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=-1, help="processes; all cores by default")
    parser.add_argument("--width", type=float, default=2.0, help="confidence width; 2 by default")
    parser.add_argument(
        "--horizon", type=int, help="steps at the most; the problems' own by default"
    )
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, metavar="PROBLEM")
    parser.add_argument(
        "--data",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="daily ozone (by default 2008 and 2009 in shared/data/ozone beside the repository)",
    )
    parser.add_argument("--out", type=Path, help="folder for tuned.csv, margins.csv and tuned.png")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")
    if options.horizon is not None and options.horizon < 1:
        parser.error(f"--horizon must be at least 1, got {options.horizon}")
    if options.jobs == 0:
        parser.error("--jobs must be a number of processes, or -1 for all cores, got 0")
    if not (math.isfinite(options.width) and options.width >= 0):
        parser.error(f"--width must be finite and not negative, got {options.width:g}")
    for file in options.data or ():
        if not file.is_file():
            parser.error(f"--data must be files, got {file}")
    return options


def asked_for(options: argparse.Namespace, console: Console) -> dict[str, Problem]:
    """The problems by name, without those whose files are missing."""
    files = options.data or [file for file in FILES if file.is_file()]
    made: dict[str, Problem] = {}
    for name in dict.fromkeys(options.only or PROBLEMS):
        if parse_spec(name)[0] in READS_FILES and not files:
            console.print(f"{name}: SKIPPED, no files at {BESIDE}; give them by --data FILE")
            continue
        try:
            made[name] = make_problem(name, files, options.horizon)
        except (OSError, ValueError) as error:
            raise SystemExit(f"{name}: {error}") from error
    return made


def steps_taken(problem: Problem, horizon: int | None) -> int:
    """The steps asked for, or all that a problem has."""
    return problem.horizon if horizon is None else min(horizon, problem.horizon)


def contested(name: str, problem: Problem, options: argparse.Namespace) -> Contest:
    """All policies and settings on one problem."""
    steps = steps_taken(problem, options.horizon)
    tuned = grids(steps)
    names = [*LEARNED, *(each for one in tuned for each in one.names)]
    # All settings in one call: preparation is shared.
    runs = iterate(
        Comparison(
            {name: problem},
            names,
            options.seeds,
            steps,
            options.jobs,
            confidence=options.width,
            expert=None,
        )
    )
    errors = Console(stderr=True)
    hidden, total = not errors.is_terminal, len(names) * options.seeds
    bar = track(runs, name, total=total, console=errors, disable=hidden, transient=True)
    scores = pd.DataFrame([scored(run) for run in bar])
    table = summed_up(scores, tuned)
    return Contest(table, margins(scores, table))


def write(folder: Path, table: pd.DataFrame, found: Sequence[Margin], figure: Figure) -> None:
    """The figures of all settings, all margins, and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    table.drop(columns="name").to_csv(folder / "tuned.csv", index=False)
    pd.DataFrame(found).to_csv(folder / "margins.csv", index=False)
    figure.savefig(folder / "tuned.png", dpi=120)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    # Units stand in brackets, which are no markup.
    console = Console(width=None if sys.stdout.isatty() else 130, markup=False, emoji=False)
    console.print(machine())
    problems = asked_for(options, console)
    if not problems:
        return 1
    contests = {name: contested(name, problem, options) for name, problem in problems.items()}
    table = pd.concat([contest.table for contest in contests.values()], ignore_index=True)
    seeds = counted([options.seeds], "seed")
    show(console, table, f"no expert, width {options.width:g}, {seeds}")
    units = {name: problem.unit for name, problem in problems.items()}
    for name, contest in contests.items():
        console.print(sentence(contest.margins, units[name]), highlight=False, soft_wrap=True)
    if options.out is not None:
        found = [margin for contest in contests.values() for margin in contest.margins]
        steps = {name: steps_taken(each, options.horizon) for name, each in problems.items()}
        write(options.out, table, found, picture(table, units, steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The board: what a suite of runs comes to, as tables and pictures with all that made them.

What is measured besides regret at plays: the held action, ranks over problems, profiles, pairs.

[De] = J. Demsar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006. (mean
ranks, the critical difference of Nemenyi)
[DM] = E. Dolan and J. More. Benchmarking optimization software with performance profiles. Mathematical
Programming 91, 2002.

Named suites: problems, policies, seeds and steps of a board.

Pictures of a board: mean ranks with the critical difference, and performance profiles.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, studentized_range

from tvbandits.comparison.files import versions
from tvbandits.comparison.regret_plot import styles_of
from tvbandits.comparison.summary import Row, by_run, paired, summarise
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Problem
from tvbandits.plots.figure import NotebookFigure


def held_regret(problem: Problem, rows: Sequence[Row], *, parts: int = 2) -> float:
    """Time-average regret of the action that is held, over the time of a run.

    The point of step s is held until that of the next step takes its place. The integral of
    best(t) - value(x_held, t) over time is taken by
    `parts` midpoints a step. Where a problem is known at whole steps alone, it stands still between
    them.

    Parameters
    ----------
    problem : Problem
        The realisation that was played.
    rows : sequence of dict
        Of one run, with the columns t and x0, ....
    parts : int
    """
    begin = getattr(problem, "begin", None)
    world = problem if begin is None else begin()
    wear = getattr(world, "wear", None)
    points = np.array([[row[f"x{j}"] for j in range(problem.domain.dimension)] for row in rows])
    times = [float(row["t"]) for row in rows]
    moves = wear is None and _is_known_between(world, points[:1], times)
    total, charged = 0.0, 0.0
    for i, start in enumerate(times):
        end = times[i + 1] if i + 1 < len(times) else start + 1.0
        for k in range(parts):
            now = start + (end - start) * (k + 0.5) / parts
            when = now if moves and now <= times[-1] else start
            width = (end - start) / parts
            value = float(world.value(points[i : i + 1], when)[0])
            total, charged = total + width * (world.best(when) - value), charged + width
        if wear is not None:
            wear(points[i : i + 1])
    return total / charged if charged else math.nan


def _is_known_between(problem: Problem, X: Array, times: Sequence[float]) -> bool:
    """Whether a problem says what happens between two steps."""
    if len(times) < 2:
        return False
    try:
        problem.value(X, (times[0] + times[1]) / 2)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Ranks:
    """Ranks of k policies over N problems; 1 is the best.

    Attributes
    ----------
    mean : Series
        By policy, the best first.
    critical_difference : float
        Mean ranks that differ by less do not differ at the 5% level (Nemenyi); NaN for one problem or
        policy.
    p_value : float
        That all are alike (Friedman); NaN for fewer than 3 policies or 2 problems.
    problems : int
    """

    mean: pd.Series[float]
    critical_difference: float
    p_value: float
    problems: int


def by_problem(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean regret over steps and seeds, a line a problem and a column a policy.

    Only seeds that all policies of the problem have played count, so that policies are paired.
    """
    return by_run(rows).dropna().groupby(level="problem", sort=False).mean()


def ranks(table: pd.DataFrame) -> Ranks:
    """Mean ranks over the problems of a table (problems x policies), less being better ([De]).

    The critical difference is q sqrt(k (k + 1) / (6 N)), with the quantile q of the studentised range
    over sqrt 2.
    """
    N, k = table.shape
    mean = table.rank(axis=1).mean().sort_values(kind="stable")
    difference = p_value = math.nan
    if N > 1 and k > 1:
        quantile = float(studentized_range.ppf(0.95, k, np.inf)) / math.sqrt(2)
        difference = quantile * math.sqrt(k * (k + 1) / (6 * N))
    if N > 1 and k > 2:
        p_value = float(friedmanchisquare(*table.to_numpy().T).pvalue)
    return Ranks(mean, difference, p_value, N)


def profile(table: pd.DataFrame, factors: Sequence[float]) -> pd.DataFrame:
    """Share of problems on which a policy's regret is within a factor of the best one's ([DM])."""
    least = table.min(axis=1)
    ratios = table.div(least.where(least > 0, np.nan), axis=0)
    ratios = ratios.where(table.ne(least, axis=0), 1.0).fillna(math.inf)
    return pd.DataFrame({factor: (ratios <= factor).mean() for factor in factors}).T


def winners(table: pd.DataFrame, ours: Sequence[str]) -> pd.DataFrame:
    """Who wins where: problem, the best policy and its regret, our best one and how much more it has.

    What speaks against ours comes first.
    """
    least = table.min(axis=1)
    own = table[[name for name in table.columns if name.partition(":")[0] in ours]]
    found = pd.DataFrame({"best": table.idxmin(axis=1), "regret": least, "ours": ""})
    if len(own.columns):
        found["ours"] = own.idxmin(axis=1)
    found["times_the_best"] = own.min(axis=1) / least.where(least > 0)
    found = found.rename_axis("problem").reset_index()
    return found.sort_values("times_the_best", ascending=False, kind="stable", ignore_index=True)


def held_table(rows: pd.DataFrame, problems: Mapping[str, Problem]) -> pd.DataFrame:
    """Time-average regret of the held action of each run: problem, policy, seed, held_regret."""
    lines = []
    for (problem, seed), of_seed in rows.groupby(["problem", "seed"], sort=False):
        played = problems[str(problem)]
        realise = getattr(played, "realise", None)
        realised = played if realise is None else realise(int(str(seed)))
        for policy, run in of_seed.groupby("policy", sort=False):
            records: Any = run.to_dict(orient="records")
            lines.append((problem, policy, seed, held_regret(realised, records)))
    return pd.DataFrame(lines, columns=["problem", "policy", "seed", "held_regret"])


# Policies that this suite proposes itself: a board says first where they are beaten.
OURS = ("adaptive-gp-ucb", "frugal-gp-ucb")

POLICIES = (
    *("uniform", "gp-ucb", "time-gp-ucb", "r-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "ui-gp-ucb"),
    *("et-gp-ucb", "mk-gp-ucb", "adaptive-gp-ucb", "w-dbo", "w-dbo:removal=oldest"),
    *("w-dbo:removal=random", "predictive-sampling", "ada-opkb", "master"),
)


# By the quick suite: like another one, or, as MASTER, made of copies that start anew all the time.
LEFT_OUT = ("r-gp-ucb", "ui-gp-ucb", "w-dbo:removal=random", "master")


@dataclass(frozen=True)
class Suite:
    """What a board plays.

    Attributes
    ----------
    problems : mapping of text to int
        Steps of a run of each problem, which is written as on the command line.
    policies : tuple of str
    seeds : int
    """

    problems: Mapping[str, int]
    policies: tuple[str, ...]
    seeds: int


# By name: "quick" takes minutes on two cores, "paper" a night, "peaks" is played on boxes.
SUITES: Mapping[str, Suite] = {
    "quick": Suite(
        {
            "drifting-bump:candidates=101": 80,
            "gp-drift:epsilon=0.03,points_per_axis=8": 80,
            "switching:every=40,candidates=61": 80,
            "ar-arms:side=6": 80,
            "wearing-arms:arms=40,length_scale=0.1": 80,
            "exoskeleton:candidates=71": 80,
            "lifted:hartmann3,candidates=200": 80,
        },
        tuple(name for name in POLICIES if name not in LEFT_OUT),
        3,
    ),
    "paper": Suite(
        {
            "drifting-bump:candidates=401": 500,
            "gp-drift:epsilon=0.01": 500,
            "gp-drift:epsilon=0.03": 500,
            "bogunovic:epsilon=0.01": 200,
            "mandl:epsilon=0.01": 500,
            "switching": 500,
            "switching-arms": 1000,
            "ar-arms": 500,
            "wearing-arms:length_scale=0.1": 500,
            "exoskeleton": 80,
            "lifted:hartmann3,candidates=500": 120,
            "lifted:ackley4,candidates=500": 120,
            "lifted:shekel4,candidates=500": 120,
            "lifted:hartmann6,candidates=500": 120,
            "ozone-network": 400,
            **dict.fromkeys(("field-bumps", "field-ridge", "field-waves", "field-graph"), 100),
            "xopt-drift": 250,
        },
        POLICIES,
        10,
    ),
    "peaks": Suite(
        {
            "moving-peaks:dimension=2": 200,
            "moving-peaks": 500,
            "gmpb:dimension=2": 200,
            "gmpb": 500,
        },
        ("uniform", "gp-ucb", "time-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "adaptive-gp-ucb", "w-dbo"),
        10,
    ),
}


def rank_figure(found: Ranks) -> Figure:
    """Mean ranks as points, best on top; the bar is the critical difference from the best one."""
    n = len(found.mean)
    figure = NotebookFigure((8.0, 1.4 + 0.28 * n))
    axes = figure.add_subplot()
    places = range(n)
    axes.plot(found.mean.to_numpy(), places, "o", color="#444444", markersize=6)
    if not math.isnan(found.critical_difference) and n:
        best = float(found.mean.iloc[0])
        axes.axvspan(best, best + found.critical_difference, color="#dddddd", zorder=0)
        axes.set_title(
            f"not different from the best at the 5% level: within {found.critical_difference:.2f} "
            "(grey)",
            fontsize=9,
        )
    axes.set_yticks(list(places), [str(name) for name in found.mean.index], fontsize=9)
    axes.invert_yaxis()
    axes.grid(axis="x", color="#cccccc", linewidth=0.6)
    axes.set_xlabel(f"mean rank over {found.problems} problems (1 is best)")
    return figure


def profile_figure(shares: pd.DataFrame) -> Figure:
    """Share of problems within a factor of the best policy's regret, a line a policy."""
    figure = NotebookFigure((9.0, 5.2))
    axes = figure.add_subplot()
    styles = styles_of([str(name) for name in shares.columns])
    every = max(len(shares) // 6, 1)
    for i, name in enumerate(shares.columns):
        line = styles[str(name)].line | {"markersize": 6, "markevery": (i % every, every)}
        axes.step(shares.index, shares[name], where="post", label=str(name), **line)
    axes.set_xscale("log")
    ticks = [1, 1.5, 2, 3, 5, 10]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("factor of the best policy's average regret")
    axes.set_ylabel("share of problems")
    axes.set_ylim(-0.02, 1.02)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    return figure


# Where the performance profile is drawn.
FACTORS = tuple(np.round(np.geomspace(1.0, 10.0, 41), 4).tolist())


@dataclass(frozen=True)
class Made:
    """What a board was made by, for its heading.

    Attributes
    ----------
    suite, command : str
    versions : mapping of name to version
    machine, date : str
    """

    suite: str
    command: str
    versions: Mapping[str, str]
    machine: str
    date: str

    @classmethod
    def now(cls, suite: str, command: str) -> Made:
        """On this machine, today."""
        machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}"
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        return cls(suite, command, versions(), machine, date)


@dataclass(frozen=True)
class Board:
    """Tables of a suite.

    Attributes
    ----------
    summary : DataFrame
        A line a problem and policy: regret at plays with its interval, regret of the held action, time a
        step.
    table : DataFrame
        Regret at plays, problems x policies, over the seeds that all policies played.
    """

    summary: pd.DataFrame
    table: pd.DataFrame
    rows: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame, problems: Mapping[str, Problem]) -> Board:
        """Out of the rows of all runs."""
        summary = summarise(rows)
        means = held_table(rows, problems).groupby(["problem", "policy"])["held_regret"].mean()
        where = pd.MultiIndex.from_frame(summary[["problem", "policy"]])
        summary = summary.assign(
            held_regret=means.reindex(where).to_numpy(),
            ms_per_step=1e3 * summary["seconds_per_step"],
        )
        return cls(summary, by_problem(rows), rows)


def write(board: Board, made: Made, out: Path) -> list[str]:
    """Write tables and pictures into a folder; the names of the files."""
    out.mkdir(parents=True, exist_ok=True)
    found = ranks(board.table)
    shares = profile(board.table, FACTORS)
    board.summary.to_csv(out / "summary.csv", index=False)
    board.table.to_csv(out / "regret.csv")
    found.mean.rename("mean_rank").to_csv(out / "ranks.csv")
    shares.to_csv(out / "profile.csv", index_label="factor")
    if OURS[0] in board.table:
        paired(board.rows, OURS[0]).to_csv(out / "paired.csv", index=False)
    rank_figure(found).savefig(out / "ranks.png", dpi=110)
    profile_figure(shares).savefig(out / "profile.png", dpi=110)
    (out / "made.json").write_text(json.dumps(vars(made), indent=2) + "\n")
    (out / "board.md").write_text(text(board, made))
    return sorted(path.name for path in out.iterdir() if path.is_file())


def text(board: Board, made: Made) -> str:
    """The board as Markdown, what speaks against ours first."""
    found = ranks(board.table)
    ranked = found.mean.map("{:.2f}".format).rename("rank").rename_axis("policy").reset_index()
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    beaten = {
        "problem": "problem",
        "best": "best",
        "regret": "average regret",
        "ours": "best of ours",
        "times_the_best": "times the best",
    }
    of_problem = {
        "policy": "policy",
        "average_regret": "regret at plays",
        "average_regret_ci95": "95% +-",
        "held_regret": "regret of the held action",
        "ms_per_step": "ms a step",
    }
    lines = [
        f"# Board {made.suite}",
        "",
        f"`{made.command}`, {made.date}, {made.machine}; {versions}.",
        "",
        "## Who wins where",
        "",
        f"First where the policies of this suite ({', '.join(OURS)}) are beaten most.",
        "",
        *_markdown(beaten, winners(board.table, OURS)),
        "",
        "## Mean ranks",
        "",
        _tested(found),
        "",
        *_markdown({"policy": "policy", "rank": "mean rank"}, ranked),
    ]
    for problem, part in board.summary.groupby("problem", sort=False):
        played = f"{part.iloc[0]['horizon']} steps, {part['seeds'].min()} seeds."
        lines += ["", f"## {problem}", "", played, ""]
        shown = part.assign(ms_per_step=part["ms_per_step"].map("{:.1f}".format))
        lines += _markdown(of_problem, shown.sort_values("average_regret"))
    return "\n".join(lines) + "\n"


def _tested(found: Ranks) -> str:
    """What the ranks say, and what of it could be chance."""
    if found.problems < 2:
        return "Over one problem alone: nothing can be tested."
    return (
        f"Over {found.problems} problems; mean ranks that differ by less than "
        f"{_cell(found.critical_difference)} do not differ at the 5% level (Nemenyi); "
        f"Friedman p = {_cell(found.p_value)}."
    )


def _markdown(headings: Mapping[str, str], table: pd.DataFrame) -> list[str]:
    """Columns of a table as Markdown, under their headings."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    cells = [[_cell(value) for value in line] for line in table[list(headings)].to_numpy()]
    return [f"| {' | '.join(line)} |" for line in (headings.values(), rule, *cells)]


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return "-" if math.isnan(value) else f"{value:.4g}"

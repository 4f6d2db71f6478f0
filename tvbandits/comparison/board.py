"""Boards, which show the results of a suite of runs in tables and pictures.

A suite names problems, policies, seeds and steps. Besides regret a board has ranks over problems,
performance profiles and pairwise differences.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.comparison import plots
from tvbandits.comparison.sources import versions
from tvbandits.comparison.summary import (
    Ranks,
    by_problem,
    mean_ranks,
    pairwise_differences,
    performance_profile,
    summarise,
    winners,
)
from tvbandits.text import format_number

# Policies that this package proposes itself; a board first shows the problems where others beat them.
OURS = ("adaptive-gp-ucb", "frugal-gp-ucb")

POLICIES = (
    *("uniform", "gp-ucb", "time-gp-ucb", "r-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "ui-gp-ucb"),
    *("et-gp-ucb", "mk-gp-ucb", "adaptive-gp-ucb", "w-dbo", "w-dbo:removal=oldest"),
    *("w-dbo:removal=random", "predictive-sampling", "ada-opkb", "master"),
)


# Policies that the quick suite leaves out: they resemble another one or, as MASTER does, take long.
NOT_QUICK = ("r-gp-ucb", "ui-gp-ucb", "w-dbo:removal=random", "master")


@dataclass(frozen=True)
class Suite:
    """A suite of runs for a board.

    Attributes
    ----------
    problems : mapping of text to int
        Number of steps by problem, which is written as on the command line.
    policies : tuple of str
    seeds : int
    """

    problems: Mapping[str, int]
    policies: tuple[str, ...]
    seeds: int


# Suites by name: "quick" takes minutes on two cores, "paper" a night; "peaks" has problems on boxes.
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
        tuple(name for name in POLICIES if name not in NOT_QUICK),
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


@dataclass(frozen=True)
class Board:
    """The tables of a board.

    Attributes
    ----------
    summary : DataFrame
        A line for each problem and policy: regret with its interval, time per step.
    table : DataFrame
        Regret, problems x policies, over the seeds that all policies have played.
    rows : DataFrame
        The rows of all runs.
    """

    summary: pd.DataFrame
    table: pd.DataFrame
    rows: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame) -> Board:
        """Return the board for the rows of all runs."""
        summary = summarise(rows)
        summary["ms_per_step"] = 1e3 * summary["seconds_per_step"]
        return cls(summary, by_problem(rows), rows)


def provenance(suite: str, command: str) -> dict[str, Any]:
    """Return the provenance of a board: suite, command, versions, machine and date."""
    return {
        "suite": suite,
        "command": command,
        "versions": versions(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }


def write_board(board: Board, origin: Mapping[str, Any], folder: Path) -> list[str]:
    """Write tables and pictures into a folder, and return the names of the files.

    `origin` is the result of `provenance`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    board.summary.to_csv(folder / "summary.csv", index=False)
    board.table.to_csv(folder / "regret.csv")
    if OURS[0] in board.table:
        differences = pairwise_differences(board.rows, OURS[0])
        differences.to_csv(folder / "paired.csv", index=False)
    write_ranks(board.table, folder)
    (folder / "made.json").write_text(json.dumps(origin, indent=2) + "\n")
    (folder / "board.md").write_text(board_text(board, origin))
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def write_ranks(table: pd.DataFrame, folder: Path) -> None:
    """Write ranks and performance profile of a table (problems x policies), with their pictures."""
    factors = np.round(np.geomspace(1.0, 10.0, 41), 4).tolist()
    ranks, profile = mean_ranks(table), performance_profile(table, factors)
    ranks.mean.rename("mean_rank").to_csv(folder / "ranks.csv")
    profile.to_csv(folder / "profile.csv", index_label="factor")
    plots.rank_figure(ranks).savefig(folder / "ranks.png", dpi=110)
    plots.profile_figure(profile).savefig(folder / "profile.png", dpi=110)


def board_text(board: Board, origin: Mapping[str, Any]) -> str:
    """Return the board in Markdown; problems where others beat our policies most come first."""
    ranks = mean_ranks(board.table)
    # Ranks need no significant digits, as regrets do: they have no unit.
    ranking = ranks.mean.map("{:.2f}".format).rename_axis("policy").reset_index(name="mean rank")
    packages = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    wins, ours = winners(board.table, OURS).rename(columns=WINNERS), ", ".join(OURS)
    parts = [
        f"# Board {origin['suite']}",
        f"`{origin['command']}`, {origin['date']}, {origin['machine']}; {packages}.",
        "## Who wins where",
        f"The first problems are those on which others beat the policies of this package ({ours}) most.",
        _format_markdown(wins),
        "## Mean ranks",
        _describe_test(ranks),
        _format_markdown(ranking),
    ]
    for problem, lines in board.summary.groupby("problem", sort=False):
        steps, seeds = lines["horizon"].iloc[0], lines["seeds"].min()
        lines = lines.assign(ms_per_step=lines["ms_per_step"].map(lambda ms: format_number(ms, 2)))
        columns = lines.sort_values("average_regret")[list(OF_PROBLEM)].rename(columns=OF_PROBLEM)
        parts += [f"## {problem}", f"{steps} steps, {seeds} seeds.", _format_markdown(columns)]
    return "\n\n".join(parts) + "\n"


# Headings of the columns of Markdown tables.
WINNERS = {"regret": "average regret", "ours": "best of ours", "times_the_best": "times the best"}
OF_PROBLEM = {
    "policy": "policy",
    "average_regret": "average regret",
    "average_regret_ci95": "95% +-",
    "ms_per_step": "ms a step",
}


def _describe_test(ranks: Ranks) -> str:
    """Return a sentence on the tests of ranks, and on which differences may be due to chance."""
    if ranks.problems < 2:
        return "Only one problem: no test of ranks."
    return (
        f"Over {ranks.problems} problems. A difference between mean ranks of less than "
        f"{_format_cell(ranks.critical_difference, 3)} is not significant at the 5% level (Nemenyi); "
        f"Friedman p = {_format_cell(ranks.p_value, 3)}."
    )


def _format_markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown; intervals and ratios have three digits, other numbers four."""
    digits = [3 if name in ("95% +-", "times the best") else 4 for name in table]
    cells = [
        [_format_cell(value, count) for value, count in zip(line, digits, strict=True)]
        for line in table.to_numpy(dtype=object)
    ]
    rule = ["---", *["---:"] * (len(table.columns) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (list(table.columns), rule, *cells))


def _format_cell(value: object, digits: int) -> str:
    """Return the text of a cell, which is a dash for NaN."""
    if not isinstance(value, float):
        return str(value)
    return "-" if math.isnan(value) else format_number(value, digits)

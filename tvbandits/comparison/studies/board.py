"""The board: what a suite of runs comes to, as tables and pictures with all that made them."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tvbandits._version import __version__
from tvbandits.comparison.files import PACKAGES
from tvbandits.comparison.studies.metrics import (
    Ranks,
    by_problem,
    held_table,
    paired,
    profile,
    ranks,
    winners,
)
from tvbandits.comparison.studies.pictures import profile_figure, rank_figure
from tvbandits.comparison.summary import summarise
from tvbandits.core.protocols import Problem

FACTORS = tuple(np.round(np.geomspace(1.0, 10.0, 41), 4).tolist())
"""Where the performance profile is drawn."""


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
        versions = {"tvbandits": __version__, "python": platform.python_version()}
        versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
        machine = f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}"
        date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        return cls(suite, command, versions, machine, date)


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
        # A width that is found out by seed must not make a policy of every seed.
        widths = rows.groupby(["problem", "policy"])["confidence"].transform("nunique")
        summary = summarise(
            rows.assign(confidence=rows["confidence"].where(widths == 1, "by seed"))
        )
        held = held_table(rows, problems)
        means = held.groupby(["problem", "policy"], sort=False)["held_regret"].mean()
        where = pd.MultiIndex.from_frame(summary[["problem", "policy"]])
        summary = summary.assign(
            held_regret=means.reindex(where).to_numpy(),
            ms_per_step=1e3 * summary["seconds_per_step"],
        )
        return cls(summary, by_problem(rows), rows)


def write(board: Board, made: Made, out: Path, ours: Sequence[str], reference: str) -> list[str]:
    """Write tables and pictures into a folder; the names of the files."""
    out.mkdir(parents=True, exist_ok=True)
    found = ranks(board.table)
    shares = profile(board.table, FACTORS)
    board.summary.to_csv(out / "summary.csv", index=False)
    board.table.to_csv(out / "regret.csv")
    found.mean.rename("mean_rank").to_csv(out / "ranks.csv")
    shares.to_csv(out / "profile.csv", index_label="factor")
    against = paired(board.rows, reference) if reference in board.table else None
    if against is not None:
        against.to_csv(out / "paired.csv", index=False)
    rank_figure(found).savefig(out / "ranks.png", dpi=110)
    profile_figure(shares).savefig(out / "profile.png", dpi=110)
    (out / "made.json").write_text(json.dumps(vars(made), indent=2) + "\n")
    (out / "board.md").write_text(text(board, made, ours))
    names = ["board.md", "summary.csv", "regret.csv", "ranks.csv", "profile.csv", "made.json"]
    names += ["ranks.png", "profile.png"] + (["paired.csv"] if against is not None else [])
    return names


def text(board: Board, made: Made, ours: Sequence[str]) -> str:
    """The board as Markdown, what speaks against ours first."""
    found = ranks(board.table)
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    wins = winners(board.table, ours)
    lines = [
        f"# Board {made.suite}",
        "",
        f"`{made.command}`, {made.date}, {made.machine}; {versions}.",
        "",
        "## Who wins where",
        "",
        f"First where the policies of this suite ({', '.join(ours)}) are beaten most.",
        "",
        *_markdown(
            ["problem", "best", "average regret", "best of ours", "times the best"],
            [
                [
                    str(line["problem"]),
                    str(line["best"]),
                    f"{line['regret']:.4g}",
                    str(line["ours"]),
                    _number(line["times_the_best"]),
                ]
                for line in wins.to_dict(orient="records")
            ],
        ),
        "",
        "## Mean ranks",
        "",
        _tested(found),
        "",
        *_markdown(
            ["policy", "mean rank"],
            [[str(name), f"{rank:.2f}"] for name, rank in found.mean.items()],
        ),
    ]
    for problem, part in board.summary.groupby("problem", sort=False):
        lines += _section(str(problem), part)
    return "\n".join(lines) + "\n"


def _section(problem: str, part: pd.DataFrame) -> list[str]:
    """The lines of one problem."""
    return [
        "",
        f"## {problem}",
        "",
        f"{part.iloc[0]['horizon']} steps, {part['seeds'].min()} seeds.",
        "",
        *_markdown(
            ["policy", "regret at plays", "95% +-", "regret of the held action", "ms a step"],
            [
                [
                    str(line["policy"]),
                    f"{line['average_regret']:.4g}",
                    _number(line["average_regret_ci95"]),
                    f"{line['held_regret']:.4g}",
                    f"{line['ms_per_step']:.1f}",
                ]
                for line in part.sort_values("average_regret").to_dict(orient="records")
            ],
        ),
    ]


def _tested(found: Ranks) -> str:
    """What the ranks say, and what of it could be chance."""
    if found.problems < 2:
        return "Over one problem alone: nothing can be tested."
    return (
        f"Over {found.problems} problems; mean ranks that differ by less than "
        f"{_number(found.critical_difference)} do not differ at the 5% level (Nemenyi); "
        f"Friedman p = {_number(found.p_value)}."
    )


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3g}"


def _markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in (headings, rule, *lines)]

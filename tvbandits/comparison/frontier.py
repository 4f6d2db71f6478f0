"""What questions are worth: average regret against queries per step, a curve for each query plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tvbandits.comparison.summary import counted, panels_of, summarise
from tvbandits.plots.figure import NotebookFigure
from tvbandits.policies.expert import PLANS
from tvbandits.policies.names import parse_spec

# What the curves are read against: the same learning without an expert, and the paper's policy.
WITHOUT, PAPER = "adaptive-gp-ucb", "sparq-gp-ucb"


# Of the plans: colour, dashes and marker.
STYLES = (
    *(("#000000", "-", "o"), ("#d55e00", "--", "s")),
    *(("#0072b2", "-.", "D"), ("#00805d", ":", "^")),
)


def policies(budgets: Sequence[float], plans: Sequence[str]) -> list[str]:
    """The policies of a frontier, as `tvbandits.comparison.compare` takes them.

    Raises
    ------
    ValueError
        If a budget is not positive, or a plan is not known.
    """
    for budget in budgets:
        if not 0 < budget < math.inf:
            raise ValueError(f"budgets must be positive and finite, got {budget:g}")
    for plan in plans:
        if plan not in PLANS:
            raise ValueError(f'unknown plan "{plan}"; there are: {", ".join(PLANS)}')
    asked = [
        f"frugal-gp-ucb:budget={budget:g},plan={plan}"
        for plan in dict.fromkeys(plans)
        for budget in sorted(set(budgets))
    ]
    return [WITHOUT, PAPER, *asked]


def frontier(rows: pd.DataFrame) -> pd.DataFrame:
    """The summary of a frontier's rows with the columns plan and budget (NaN for the others)."""
    summary = summarise(rows)
    parsed = [parse_spec(text) for text in summary["policy"]]
    summary["plan"] = [parameters.get("plan", name) for name, parameters in parsed]
    summary["budget"] = [float(parameters.get("budget", "nan")) for _, parameters in parsed]
    return summary


def picture(rows: pd.DataFrame, units: Mapping[str, str] | None = None) -> Figure:
    """One panel a problem: means and 95% intervals over seeds, queries per step in powers of two."""
    summary = frontier(rows)
    problems = list(summary["problem"].unique())
    figure = NotebookFigure((8.6 * len(problems), 4.8))
    grid = figure.subplots(1, len(problems), squeeze=False)[0]
    for axes, problem in zip(grid, problems, strict=True):
        mine = summary[summary["problem"] == problem]
        _draw(axes, mine)
        _scale(axes, mine)
        unit = (units or {}).get(str(problem), "")
        seeds = counted(mine["seeds"], "seed")
        steps = counted([int(mine["horizon"].max())], "step")
        axes.set_title(f"{problem}, {panels_of(mine)[0].width}, {seeds}, {steps}")
        axes.set_xlabel("queries per step")
        axes.set_ylabel("average regret" + (f" ({unit})" if unit else ""))
        axes.legend(
            title="bars: 95% intervals", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5)
        )
    return figure


def _draw(axes: Axes, mine: pd.DataFrame) -> None:
    """A curve for each plan, which looks the same whatever else is drawn.

    The policy that asks nobody is a line, the paper's a point.
    """
    for plan, lines in mine.groupby("plan", sort=False):
        if plan == WITHOUT:
            (level,) = lines["average_regret"]
            axes.axhline(level, color="0.5", linewidth=1.2, label=f"{WITHOUT}, no questions")
            continue
        style: dict[str, Any] = {"color": "0.35", "ls": "none", "marker": "*", "markersize": 11}
        if plan != PAPER:
            colour, dashes, marker = STYLES[list(PLANS).index(str(plan)) % len(STYLES)]
            style = {"color": colour, "ls": dashes, "marker": marker}
        axes.errorbar(
            lines["queries_per_step"],
            lines["average_regret"],
            yerr=lines["average_regret_ci95"].fillna(0.0),
            label=str(plan),
            capsize=3,
            **style,
        )


def _scale(axes: Axes, mine: pd.DataFrame) -> None:
    """Queries in powers of two; regret from zero, or by its logarithm where it spans much."""
    axes.set_xscale("log", base=2)
    asked = mine["queries_per_step"][mine["queries_per_step"] > 0]
    if len(asked):  # a frontier that was cut short may have no curve yet
        low, high = math.floor(math.log2(asked.min())), math.ceil(math.log2(asked.max()))
        ticks = [2.0**power for power in range(low, high + 1)]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    regret = mine["average_regret"]
    if regret.min() > 0 and regret.max() > 8 * regret.min():
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, None)

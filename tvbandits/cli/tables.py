"""The tables that `compare` and `frontier` print."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tvbandits.comparison.summary import (
    BEST_OF_BATCH,
    count_text,
    pairwise_differences,
    panels_of,
    regret_texts,
    summarise,
)
from tvbandits.datasets.tables.references import References
from tvbandits.domains.problem import Problem
from tvbandits.text import format_number
from tvbandits.validation import clean

# Columns of the summary that are regrets, and those of the differences to the best policy.
REGRETS = (
    *("average_regret", "average_regret_sd", "average_regret_ci95", "last_fifth_regret"),
    BEST_OF_BATCH,
)
DIFFERENCES = ("difference", "ci95")

# Columns that are left out if no policy has a value.
OPTIONAL = ("best of batch", "cost", "violations", "move cost")


def print_tables(
    rows: pd.DataFrame, references: dict[str, References], problems: dict[str, Problem]
) -> None:
    """Print the summary of every problem, and the regret of the references."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    sign = "±" if console.encoding.startswith("utf") else "+-"
    differences = {
        (line["problem"], line["policy"]): line
        for line in pairwise_differences(rows).to_dict("records")
    }
    for name, width, group in panels_of(summarise(rows)):
        problem = problems[name]
        # A comparison that was stopped has fewer seeds of its last policy.
        counts = count_text(group["seeds"], "seed"), count_text(group["horizon"].iloc[:1], "step")
        unit = f", regret in {problem.unit}" if problem.unit else ""
        title = f"{name}, {width}, {', '.join(counts)}{unit}"
        console.print(Text(clean(title), style="italic"), soft_wrap=True)
        policies = group.to_dict(orient="records")
        pairs = [differences.get((name, line["policy"]), {}) for line in policies]
        lines = _format_lines(policies, pairs, sign)
        missing = {each for each in OPTIONAL if all(line[each] == "-" for line in lines)}
        if width != "several widths":
            missing.add("width")
        headings = [each for each in lines[0] if each not in missing]
        table = Table()
        for heading in headings:
            side: Any = "left" if heading == "policy" else "right"
            # A narrow terminal wraps names and numbers instead of cutting them.
            table.add_column(heading, justify=side, overflow="fold")
        for line in lines:
            table.add_row(*(Text(line[heading]) for heading in headings))
        console.print(table)
        console.print(_reference_text(references[name]), soft_wrap=True)
        if summary := data_summary(problem):
            console.print(clean(f"data: {summary}", 10_000), markup=False)


def _reference_text(references: References) -> str:
    """Return a line on the players without a model."""
    texts = regret_texts([*references.averages.values()], decimals=2)
    uniform, fixed, last, forecast = texts
    n, best_of = references.points, (references.best_of_uniform, references.best_of_fixed)
    if best_of[0] is None or best_of[1] is None:
        return (
            f"references: uniform {uniform}, best fixed point {fixed}, last step's best {last}, "
            f"forecast from all readings {forecast}"
        )
    best_uniform, best_fixed = regret_texts(best_of, decimals=2)  # type: ignore[arg-type]
    return (
        f"references: uniform {uniform}, {n} best fixed points {fixed}, last step's {n} best {last}, "
        f"{n} best of a forecast with all read {forecast}; best of the batch: {n} random points "
        f"{best_uniform}, {n} best fixed points {best_fixed}"
    )


def data_summary(problem: Problem) -> str:
    """Return what a problem says of its data, which a problem of the user's need not do."""
    return problem.summary if hasattr(problem, "summary") else ""


def _format_lines(
    policies: Sequence[dict[Any, Any]], pairs: Sequence[dict[Any, Any]], sign: str
) -> list[dict[str, str]]:
    """Return the cells of each policy by heading; all regrets have the same number of digits."""
    regrets = [
        [
            *(line.get(name, math.nan) for name in REGRETS),
            *(pair.get(name, math.nan) for name in DIFFERENCES),
        ]
        for line, pair in zip(policies, pairs, strict=True)
    ]
    texts = iter(regret_texts([value for line in regrets for value in line]))
    lines = []
    for line in policies:
        average, deviation, interval, last, best, difference, half_width = (
            next(texts) for _ in (*REGRETS, *DIFFERENCES)
        )
        lines.append(
            {
                "policy": clean(str(line["policy"])),
                "width": str(line["width"]),
                "average regret": average,
                "sd": deviation,
                f"95% {sign}": interval,
                "over the best": difference
                if half_width == "-"
                else f"{difference} {sign} {half_width}",
                "last fifth": last,
                "best of batch": best,
                "queries": format_number(line["queries_per_step"], 3),
                "ms": format_number(1e3 * line["seconds_per_step"], 3),
                "cost": _or_dash(line.get("cost_per_step") or None, ".3g"),
                "violations": _or_dash(line.get("violations_per_step"), ".1%"),
                "move cost": _or_dash(line.get("move_cost_per_step"), ".3g"),
            }
        )
    return lines


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None or math.isnan(value) else format(value, form)

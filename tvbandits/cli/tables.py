"""The tables that `compare` and `frontier` print."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tvbandits.comparison.summary import count_text, panels_of, summarise
from tvbandits.comparison.tables import panel_table, reference_text
from tvbandits.datasets.tables.references import References
from tvbandits.domains.problem import Problem
from tvbandits.validation import clean


def print_tables(
    rows: pd.DataFrame, references: dict[str, References], problems: dict[str, Problem]
) -> None:
    """Print the summary of every problem, and the regret of the references."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    sign = "±" if console.encoding.startswith("utf") else "+-"
    for panel in panels_of(rows):
        problem, summary = problems[panel.problem], summarise(panel.rows)
        # A comparison that was stopped has fewer seeds of its last policy.
        seeds, steps = summary["seeds"], summary["horizon"].iloc[:1]
        counts = f"{count_text(seeds, 'seed')}, {count_text(steps, 'step')}"
        unit = f", regret in {problem.unit}" if problem.unit else ""
        title = f"{panel.problem}, {panel.width}, {counts}{unit}"
        console.print(Text(clean(title), style="italic"), soft_wrap=True)
        lines, table = panel_table(panel), Table()
        for heading in map(str, lines):
            side: Any = "left" if heading == "policy" else "right"
            # A narrow terminal wraps names and numbers instead of cutting them.
            table.add_column(heading.replace("±", sign), justify=side, overflow="fold")
        for line in lines.itertuples(index=False, name=None):
            table.add_row(*(Text(cell.replace("±", sign)) for cell in line))
        console.print(table)
        console.print(reference_text(references[panel.problem]), soft_wrap=True)
        if summary_of_data := data_summary(problem):
            console.print(clean(f"data: {summary_of_data}", 10_000), markup=False)


def data_summary(problem: Problem) -> str:
    """Return what a problem says of its data, which a problem of the user's need not do."""
    return problem.summary if hasattr(problem, "summary") else ""

"""The summary of a comparison as a table for LaTeX."""

from __future__ import annotations

import pandas as pd

from tvbandits.comparison.summary import BEST_OF_BATCH, panels_of, regret_texts, summarise
from tvbandits.text import format_number

# Headings of the columns, those of regrets first.
REGRETS = {
    "average_regret": "Average regret",
    "average_regret_ci95": r"$\pm$ 95\%",
    "last_fifth_regret": "Last fifth",
    BEST_OF_BATCH: "Best of batch",
}
SEEDS = "seeds"
OTHERS = {
    SEEDS: "Seeds",
    "queries_per_step": "Queries",
    "cost_per_step": "Cost",
    "violations_per_step": "Violations",
    "move_cost_per_step": "Move cost",
}

# What letters that mean something to LaTeX are written as.
ESCAPES = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


def latex_table(rows: pd.DataFrame) -> str:
    r"""Return the summary as a tabular for LaTeX, with the rules of the package booktabs.

    Names are escaped, and regrets have significant digits whatever their unit. Columns that are zero or
    unknown throughout are left out; several problems stand below each other under their names. Where
    numbers of seeds differ, a column has that of each line.

    Parameters
    ----------
    rows : DataFrame
        The rows of `tvbandits.compare`.

    Examples
    --------
    >>> from tvbandits import compare
    >>> from tvbandits.comparison.latex import latex_table
    >>> from tvbandits.datasets import DriftingBump
    >>> rows = compare(DriftingBump(candidates=51, horizon=20), {"my_policy": "uniform"}, seeds=2)
    >>> print(latex_table(rows).splitlines()[4].partition(" &")[0])
    my\_policy
    """
    summary = summarise(rows)
    columns = {
        name: heading
        for name, heading in {**REGRETS, **OTHERS}.items()
        if name in summary and _is_needed(name, summary[name])
    }
    headings = ["Policy", *columns.values()]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
        r"\toprule",
        " & ".join(headings) + r" \\",
    ]
    panels = panels_of(summary)
    for panel in panels:
        lines.append(r"\midrule")
        if len(panels) > 1:
            title = f"{panel.problem}, {panel.width}".translate(ESCAPES)
            lines.append(rf"\multicolumn{{{len(headings)}}}{{l}}{{{title}}} \\")
        lines += _body(panel.rows, list(columns))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _is_needed(name: str, values: pd.Series[float]) -> bool:
    """Return whether a column says something: numbers of seeds do where they differ."""
    return values.nunique() > 1 if name == SEEDS else bool(values.fillna(0.0).any())


def _body(lines: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return a line for each policy of a panel."""
    regrets = [name for name in columns if name in REGRETS]
    texts = iter(regret_texts(lines[regrets].to_numpy(dtype=float).ravel().tolist()))
    body = []
    for _, line in lines.iterrows():
        cells = [str(line["policy"]).translate(ESCAPES)]
        cells += [next(texts) if name in REGRETS else _other(line[name]) for name in columns]
        body.append(" & ".join(cells) + r" \\")
    return body


def _other(value: float) -> str:
    return "-" if pd.isna(value) else format_number(value, 3)

"""A LaTeX table of the summary of a comparison."""

from __future__ import annotations

import pandas as pd

from tvbandits.comparison.summary import BEST_OF_BATCH, panels_of, regret_texts, summarise
from tvbandits.text import number_text

# Headings of the columns with regrets, and of the others.
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

# Replacements of the characters that have a meaning in LaTeX.
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
    r"""Return the summary as a LaTeX tabular with the rules of the package booktabs.

    Names are escaped, and regrets have significant digits whatever their unit. Columns that are zero or
    unknown in all lines are left out. Several problems are below each other, under their names. If the
    numbers of seeds differ, they are a column.

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
        lines += _format_body(panel.rows, list(columns))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _is_needed(name: str, values: pd.Series[float]) -> bool:
    """Return whether a column has a number other than 0, or, for numbers of seeds, different ones."""
    return values.nunique() > 1 if name == SEEDS else bool(values.fillna(0.0).any())


def _format_body(lines: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return a line of LaTeX for each policy of a panel."""
    regrets = [name for name in columns if name in REGRETS]
    texts = iter(regret_texts(lines[regrets].to_numpy(dtype=float).ravel().tolist()))
    body = []
    for _, line in lines.iterrows():
        cells = [str(line["policy"]).translate(ESCAPES)]
        cells += [
            next(texts) if name in REGRETS else _format_number(line[name]) for name in columns
        ]
        body.append(" & ".join(cells) + r" \\")
    return body


def _format_number(value: float) -> str:
    return "-" if pd.isna(value) else number_text(value, 3)

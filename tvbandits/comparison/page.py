"""A comparison as one page of HTML: tables, picture, command, versions, seeds."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from tvbandits.comparison.files import BROKEN, RUN, Stored, read
from tvbandits.comparison.html import cards, page, section, table
from tvbandits.comparison.regret_plot import REFERENCE_NAMES, regret_figure
from tvbandits.comparison.summary import Panel, panels_of, summarise
from tvbandits.datasets.tables.references import References

# Of the summary, by their headings.
COLUMNS = {
    "policy": "policy",
    "width": "confidence",
    "average regret": "average_regret",
    "± 95%": "average_regret_ci95",
    "last fifth": "last_fifth_regret",
    "asked a step": "queries_per_step",
    "ms a step": "milliseconds",
}


def comparison_report(folder: Path) -> str:
    """The page of a comparison that `tvbandits compare --out` left in a folder.

    Raises
    ------
    ValueError
        If the folder does not hold a comparison.
    """
    found = read(folder)
    record = json.loads((folder / RUN).read_text(encoding="utf-8"))
    parts = [_head(found.rows, found.references, found.interrupted)]
    parts.append(section("Average regret against the step", _picture(found)))
    for panel in panels_of(found.rows):
        unit = found.units.get(panel.problem, "")
        parts.append(_panel(panel, found.references.get(panel.problem), unit))
    try:
        made, version = _made(record), record["tvbandits"]
    except BROKEN as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f'"{folder / RUN}" cannot be read: {reason}') from error
    parts.append(section("How it was made", made))
    problems = ", ".join(str(name) for name in found.rows["problem"].unique())
    return page(
        f"Comparison on {problems}",
        "What each policy loses a step against the best point of that step: its regret.",
        "".join(parts),
        f"tvbandits {version}",
    )


def command_of(arguments: Mapping[str, Any]) -> str:
    """The command line that plays a comparison again, from the record of its run."""
    words = ["tvbandits", "compare"]  # which plays the policies of a frontier, too
    words += [str(each) for each in arguments.get("problems", ())]
    for policy in arguments.get("policies") or ():
        words += ["--policy", str(policy)]
    for name in ("confidence", "horizon", "seeds", "batch", "expert"):
        if arguments.get(name) is not None:
            words += [f"--{name}", str(arguments[name])]
    for each in arguments.get("data") or ():
        words += ["--data", str(each)]
    words += ["--equal-information"] if arguments.get("equal_information") else []
    return shlex.join(words)


def _head(rows: pd.DataFrame, references: Mapping[str, References], interrupted: bool) -> str:
    said = []
    for panel in panels_of(rows):
        lines = summarise(panel.rows).sort_values("average_regret")
        best = lines.iloc[0]
        text = f"{best['policy']} loses least: {best['average_regret']:.4g} a step"
        if len(lines) > 1:
            second = lines.iloc[1]
            text += f"; next {second['policy']} with {second['average_regret']:.4g}"
        found = references.get(panel.problem)
        if found is not None:
            text += f". The best fixed point loses {found.best_fixed:.4g}"
        said.append(
            f"<p>{escape(panel.problem)}, {escape(panel.width)}: <b>{escape(text)}</b>.</p>"
        )
    stopped = "<p>It was cut short: what follows is what was finished.</p>" if interrupted else ""
    return f'<div class="now{" warn" if interrupted else ""}">{"".join(said)}{stopped}</div>'


def _picture(found: Stored) -> str:
    """The picture of the folder, in the page itself."""
    drawn = regret_figure(found.rows, found.references, found.units)._repr_png_()
    source = f"data:image/png;base64,{base64.b64encode(drawn).decode()}"
    about = "Average regret of each policy: the tables below have where the curves end"
    return f'<figure><img src="{source}" alt="{about}" style="max-width: 100%"></figure>'


def _panel(panel: Panel, references: References | None, unit: str) -> str:
    lines = summarise(panel.rows).sort_values("average_regret")
    lines["milliseconds"] = 1e3 * lines["seconds_per_step"]
    columns = dict(COLUMNS)
    for name in ("violations", "move_cost"):
        if lines.get(f"{name}_per_step", pd.Series(dtype=float)).notna().any():
            columns[f"{name.replace('_', ' ')} a step"] = f"{name}_per_step"
    header, rows = list(columns), lines[list(columns.values())].values.tolist()
    if references is not None:
        rows += [
            [f"({REFERENCE_NAMES[name]})", "", float(value), *[None] * (len(header) - 3)]
            for name, value in references._asdict().items()
        ]
    label = f" in {unit}" if unit else ""
    seeds, steps = int(panel.rows["seed"].nunique()), int(panel.rows["t"].max())
    return section(
        f"{panel.problem}, {panel.width}",
        cards(
            [("seeds", seeds), ("steps", steps), ("policies", len(lines)), ("unit", unit or "none")]
        ),
        f'<div class="scroll">{table(header, rows)}</div>',
        f'<p class="soft">± is half of a 95% interval over the seeds{escape(label)}.</p>',
    )


def _made(record: Mapping[str, Any]) -> str:
    seeds = ", ".join(str(seed) for seed in record["seeds"])
    command = escape(command_of(record["arguments"]))
    return (
        f"<p>The command:</p><pre>{command}</pre><p>Seeds {escape(seeds)}.</p>"
        f'<div class="scroll">{table(["package", "version"], list(record["versions"].items()))}</div>'
    )

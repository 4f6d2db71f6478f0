"""A comparison as one page of HTML: tables, picture, command, versions, seeds."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from tvbandits import plots
from tvbandits.comparison.files import RUN, Stored, read
from tvbandits.comparison.html import cards, page, section, table
from tvbandits.comparison.summary import Panel, panels_of, summarise
from tvbandits.datasets.tables.references import References

# Of the summary, by their headings; the last two are there where a problem counts them.
COLUMNS = {
    "policy": "policy",
    "width": "width",
    "average regret": "average_regret",
    "± 95%": "average_regret_ci95",
    "last fifth": "last_fifth_regret",
    "asked a step": "queries_per_step",
    "ms a step": "milliseconds",
    "violations a step": "violations_per_step",
    "move cost a step": "move_cost_per_step",
}


def comparison_report(folder: Path) -> str:
    """Return the page of a comparison that `tvbandits compare --out` left in a folder.

    Raises
    ------
    ValueError
        If the folder does not hold a comparison.
    """
    stored = read(folder)
    panels = panels_of(stored.rows)
    try:
        how = _provenance(stored.record)
    except (KeyError, TypeError) as error:
        raise ValueError(f'"{folder / RUN}" cannot be read: {error}') from error
    parts = [
        _head(stored, panels),
        section("Average regret against the step", _figure(stored)),
        *(_panel(stored, panel) for panel in panels),
        section("How it was made", how),
    ]
    return page(
        f"Comparison on {', '.join(stored.rows['problem'].unique())}",
        "What each policy loses a step against the best point of that step: its regret.",
        "".join(parts),
        f"tvbandits {stored.record['tvbandits']}",
    )


def command_of(arguments: Mapping[str, Any]) -> str:
    """Return the command line that plays a comparison again, from the record of its run."""
    words = ["tvbandits", "compare"]  # which plays the policies of a frontier, too
    words += [str(each) for each in arguments.get("problems", ())]
    words += [word for each in arguments.get("policies") or () for word in ("--policy", str(each))]
    for name in ("beta", "horizon", "seeds", "batch", "expert"):
        if arguments.get(name) is not None:
            words += [f"--{name}", str(arguments[name])]
    words += [word for each in arguments.get("data") or () for word in ("--data", str(each))]
    words += ["--equal-information"] if arguments.get("equal_information") else []
    return shlex.join(words)


def _figure(stored: Stored) -> str:
    """Return the picture of the folder, in the page itself; a narrow screen scrolls it."""
    drawn = plots.regret_figure(stored.rows, stored.references, stored.units)._repr_png_()
    source = f"data:image/png;base64,{base64.b64encode(drawn).decode()}"
    about = "Average regret of each policy: the tables below have where the curves end"
    style = "width: 100%; min-width: 40rem; max-width: 60rem"
    return f'<figure class="scroll"><img src="{source}" alt="{about}" style="{style}"></figure>'


def _head(stored: Stored, panels: list[Panel]) -> str:
    lines = []
    for panel in panels:
        best, *others = summarise(panel.rows).sort_values("average_regret").to_dict("records")
        text = f"{best['policy']} loses least: {best['average_regret']:.4g} a step"
        if others:
            text += f"; next {others[0]['policy']} with {others[0]['average_regret']:.4g}"
        reference = stored.references.get(panel.problem)
        if reference is not None:
            text += f". The best fixed point loses {reference.best_fixed:.4g}"
        where = escape(f"{panel.problem}, {panel.width}")
        lines.append(f"<p>{where}: <b>{escape(text)}</b>.</p>")
    interrupted = bool(stored.record["arguments"].get("interrupted", False))
    if interrupted:
        lines.append("<p>It was cut short: what follows is what was finished.</p>")
    return f'<div class="now{" warn" if interrupted else ""}">{"".join(lines)}</div>'


def _panel(stored: Stored, panel: Panel) -> str:
    lines = summarise(panel.rows).sort_values("average_regret")
    lines["milliseconds"] = 1e3 * lines["seconds_per_step"]
    there = lines.columns[lines.notna().any()]
    columns = {
        heading: name
        for heading, name in COLUMNS.items()
        if name in there or name == "average_regret_ci95"
    }
    cells = lines[list(columns.values())].values.tolist()
    references: References | None = stored.references.get(panel.problem)
    for name, value in ({} if references is None else references._asdict()).items():
        label, _ = plots.REFERENCES[name]
        cells.append([f"({label})", "", float(value), *[None] * (len(columns) - 3)])
    unit = stored.units.get(panel.problem, "")
    counts: list[tuple[str, object]] = [
        ("seeds", int(panel.rows["seed"].nunique())),
        ("steps", int(panel.rows["t"].max())),
        ("policies", len(lines)),
        ("unit", unit or "none"),
    ]
    label = f" in {unit}" if unit else ""
    return section(
        f"{panel.problem}, {panel.width}",
        cards(counts),
        f'<div class="scroll">{table(list(columns), cells)}</div>',
        f'<p class="soft">± is half of a 95% interval over the seeds{escape(label)}.</p>',
    )


def _provenance(record: Mapping[str, Any]) -> str:
    seeds = escape(", ".join(str(seed) for seed in record["seeds"]))
    command = escape(command_of(record["arguments"]))
    packages = table(["package", "version"], list(record["versions"].items()))
    return (
        f"<p>The command:</p><pre>{command}</pre><p>Seeds {seeds}.</p>"
        f'<div class="scroll">{packages}</div>'
    )

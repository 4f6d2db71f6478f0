"""A comparison as one page of HTML: tables, pictures with tooltips, command, versions, seeds."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from tvbandits.comparison.files import RUN, read
from tvbandits.comparison.regret_plot import REFERENCE_NAMES, styles_of
from tvbandits.comparison.summary import Panel, panels_of, summarise
from tvbandits.core.files.page import Plot, cards, page, section, table
from tvbandits.datasets.tables.references import References

PLOTLY_DASHES = ("solid", "dash", "dashdot", "longdash", "longdashdot", "dot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "x", "cross", "star")
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

# Of a curve: more are not seen.
MOST_POINTS = 400


def comparison_report(folder: Path) -> str:
    """The page of a comparison that `tvbandits compare --out` left in a folder.

    Raises
    ------
    ValueError
        If the folder does not hold a comparison.
    ImportError
        If plotly is not installed.
    """
    found = read(folder)
    record = json.loads((folder / RUN).read_text(encoding="utf-8"))
    parts = [_head(found.rows, found.references, found.interrupted)]
    for i, panel in enumerate(panels_of(found.rows)):
        unit = found.units.get(panel.problem, "")
        parts.append(_panel(i, panel, found.references.get(panel.problem), unit))
    parts.append(section("How it was made", _made(record)))
    problems = ", ".join(str(name) for name in found.rows["problem"].unique())
    return page(
        f"Comparison on {problems}",
        "What each policy loses a step against the best point of that step: its regret.",
        "".join(parts),
        f"tvbandits {record['tvbandits']}",
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


def _panel(i: int, panel: Panel, references: References | None, unit: str) -> str:
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
        _curves(f"regret-{i}", panel, references, unit).html(),
        f'<p class="soft">± is half of a 95% interval over the seeds{escape(label)}.</p>',
    )


def _curves(name: str, panel: Panel, references: References | None, unit: str) -> Plot:
    """Average regret against the step: a curve a policy, a band of one deviation over the seeds."""
    styles = styles_of(panel.rows["policy"].unique())
    data: list[dict[str, Any]] = []
    steps = int(panel.rows["t"].max())
    every = max(steps // MOST_POINTS, 1)
    ends: dict[str, list[object]] = {}
    for i, (policy, rows) in enumerate(panel.rows.groupby("policy", sort=False)):
        by_seed = rows.pivot_table(index="t", columns="seed", values="average_regret").iloc[::every]
        mean = by_seed.mean(axis=1)
        colour = styles[str(policy)].colour
        # Black is drawn in the ink of the reader's theme.
        data += _traces(str(policy), by_seed, "INK" if colour == "#000000" else colour, i)
        at = [by_seed.index[int(share * (len(mean) - 1))] for share in (0.1, 0.25, 0.5, 1.0)]
        ends[str(policy)] = [float(mean.loc[step]) for step in at]
        marked = [f"step {int(step)}" for step in at]
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "step t"}, "range": [0, steps]},
        "yaxis": {
            "title": {"text": f"average regret R_t / t{f' [{unit}]' if unit else ''}"},
            "rangemode": "tozero",
        },
        "hovermode": "x unified",
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "maxheight": 0.9},
        "margin": {"t": 20, "r": 20},
        "shapes": _reference_lines(references),
    }
    content = table(["policy", *marked], [[policy, *values] for policy, values in ends.items()])
    caption = f"Average regret on {panel.problem}: mean over seeds, band of one standard deviation"
    return Plot(name, caption, data, layout, content)


def _traces(policy: str, by_seed: pd.DataFrame, colour: str, i: int) -> list[dict[str, Any]]:
    """The band and the curve of the i-th policy, from its steps (rows) and seeds (columns)."""
    mean, spread = by_seed.mean(axis=1), by_seed.std(axis=1, ddof=1).fillna(0.0)
    t = by_seed.index.to_numpy(dtype=float)
    symbol, dash = SYMBOLS[i % len(SYMBOLS)], PLOTLY_DASHES[i % len(PLOTLY_DASHES)]
    return [
        {
            "type": "scatter", "mode": "lines", "legendgroup": policy, "showlegend": False,
            "x": [*t, *t[::-1]], "y": [*(mean + spread), *(mean - spread)[::-1]],
            "fill": "toself", "fillcolor": colour, "opacity": 0.15, "line": {"width": 0},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter", "mode": "lines+markers", "legendgroup": policy, "name": policy,
            "x": t, "y": mean.to_numpy(), "customdata": spread.to_numpy(),
            "line": {"color": colour, "width": 2, "dash": dash},
            "marker": {"symbol": symbol, "size": 8, "color": colour, "maxdisplayed": 9},
            "hovertemplate": "step %{x}: %{y:.4g} ± %{customdata:.2g}",
        },
    ]  # fmt: skip


def _reference_lines(references: References | None) -> list[dict[str, Any]]:
    """Dotted lines with their names, right and left in turn: two lines may lie close together."""
    found = {} if references is None else references._asdict()
    return [
        {
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": float(value), "y1": float(value),
            "line": {"dash": "dot", "width": 1, "color": "INK"},
            "label": {
                "text": REFERENCE_NAMES[name], "font": {"size": 10}, "yanchor": "bottom",
                "textposition": "start" if i % 2 else "end",
            },
        }
        for i, (name, value) in enumerate(sorted(found.items(), key=lambda line: float(line[1])))
    ]  # fmt: skip


def _made(record: Mapping[str, Any]) -> str:
    versions = {"tvbandits": record["tvbandits"], "Python": record["python"], **record["versions"]}
    seeds = ", ".join(str(seed) for seed in record["seeds"])
    command = escape(command_of(record["arguments"]))
    return (
        f"<p>The command:</p><pre>{command}</pre><p>Seeds {escape(seeds)}.</p>"
        f'<div class="scroll">{table(["package", "version"], list(versions.items()))}</div>'
    )

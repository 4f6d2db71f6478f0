"""A comparison as one page of HTML that needs no other file: tables, picture, command, versions, seeds.

Frame and style of the page are `page.html` and `page.css` beside this module.
"""

from __future__ import annotations

import base64
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import style
from PIL import Image

from tvbandits.comparison import plots
from tvbandits.comparison.files import RUN, Content, read
from tvbandits.comparison.summary import BEST_OF_BATCH, Panel, panels_of, summarise
from tvbandits.datasets.tables.references import References
from tvbandits.text import number_text

# Columns of the summary by their headings; only some problems have the last two.
COLUMNS = {
    "policy": "policy",
    "width": "width",
    "average regret": "average_regret",
    "± 95%": "average_regret_ci95",
    "last fifth": "last_fifth_regret",
    "best of batch": BEST_OF_BATCH,
    "queries a step": "queries_per_step",
    "cost a step": "cost_per_step",
    "ms a step": "milliseconds",
    "violations a step": "violations_per_step",
    "move cost a step": "move_cost_per_step",
}
# The colours of a dark page, as in `page.css`.
DARK = {"figure.facecolor": "#16191a", "axes.facecolor": "#16191a", "grid.color": "#454c4d"}

# Those in the unit of the reward.
REGRETS = ("average_regret", "average_regret_ci95", "last_fifth_regret", BEST_OF_BATCH)


def comparison_report(folder: Path) -> str:
    """Return the page of a comparison that `tvbandits compare --out` left in a folder.

    Raises
    ------
    ValueError
        If the folder does not hold a comparison.
    """
    content = read(folder)
    panels = panels_of(content.rows)
    try:
        how = _provenance(content.record)
    except (KeyError, TypeError) as error:
        raise ValueError(f'"{folder / RUN}" cannot be read: {error}') from error
    parts = [
        _head(content, panels),
        section("Average regret against the step", _figure(content)),
        *(_panel(content, panel) for panel in panels),
        section("How to repeat it", how),
    ]
    return page(
        f"Comparison on {', '.join(content.rows['problem'].unique())}",
        "Regret is the loss of a policy in a step compared with the best point of that step.",
        "".join(parts),
        f"tvbandits {content.record['tvbandits']}",
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


def _figure(content: Content) -> str:
    """Return the picture, which is part of the page itself; a narrow screen scrolls it.

    A dark page has a picture of its own.
    """
    light = _picture(content)
    with style.context(["dark_background", DARK]):
        dark = _picture(content)
    about = "Average regret of each policy: the tables below have the final values"
    look = "width: 100%; min-width: 40rem; max-width: 60rem"
    return (
        f'<figure class="scroll"><picture><source srcset="{dark}" '
        f'media="(prefers-color-scheme: dark)"><img src="{light}" alt="{about}" style="{look}">'
        "</picture></figure>"
    )


def _fewer_colours(png: bytes, colours: int = 64) -> bytes:
    """Return a picture of lines and text with so many colours, which takes a quarter of the place."""
    picture = BytesIO()
    Image.open(BytesIO(png)).convert("RGB").quantize(colours).save(picture, "PNG", optimize=True)
    return picture.getvalue()


def _picture(content: Content, most: int = 350_000) -> str:
    """Return the picture as an address of data of at most so many letters, or of few dots an inch."""
    figure = plots.regret_figure(content.rows, content.references, content.units)
    text = ""
    for dpi in (100, 70, 50):
        text = base64.b64encode(_fewer_colours(figure.png(dpi))).decode()
        if len(text) <= most:
            break
    return f"data:image/png;base64,{text}"


def _head(content: Content, panels: list[Panel]) -> str:
    """Return a sentence on the best policy of each panel."""
    lines = []
    for panel in panels:
        best, *others = summarise(panel.rows).sort_values("average_regret").to_dict("records")
        text = f"{best['policy']} loses least: {number_text(best['average_regret'])} a step"
        if others:
            text += f"; next {others[0]['policy']} with {number_text(others[0]['average_regret'])}"
        reference = content.references.get(panel.problem)
        if reference is not None:
            text += f". The best fixed point loses {number_text(reference.best_fixed)}"
        where = escape(f"{panel.problem}, {panel.width}")
        lines.append(f"<p>{where}: <b>{escape(text)}</b>.</p>")
    interrupted = bool(content.record["arguments"].get("interrupted", False))
    if interrupted:
        lines.append(
            "<p>This comparison was stopped: the page shows the runs that were complete.</p>"
        )
    return f'<div class="now{" warn" if interrupted else ""}">{"".join(lines)}</div>'


def _panel(content: Content, panel: Panel) -> str:
    """Return the section of a panel: numbers and a table."""
    lines = summarise(panel.rows).sort_values("average_regret")
    lines["milliseconds"] = 1e3 * lines["seconds_per_step"]
    unit = content.units.get(panel.problem, "")
    present = [*lines.columns[lines.notna().any()], "average_regret_ci95"]
    columns = {
        f"{heading} [{unit}]" if unit and name in REGRETS else heading: name
        for heading, name in COLUMNS.items()
        if name in present
    }
    cells = lines[list(columns.values())].values.tolist()
    references: References | None = content.references.get(panel.problem)
    if references is not None:
        cells += _reference_cells(references, list(columns.values()))
    counts: list[tuple[str, object]] = [
        ("seeds", int(panel.rows["seed"].nunique())),
        ("steps", int(panel.rows["t"].max())),
        ("policies", len(lines)),
        ("unit", unit or "none"),
    ]
    return section(
        f"{panel.problem}, {panel.width}",
        cards(counts),
        f'<div class="scroll">{table(list(columns), cells)}</div>',
        '<p class="soft">± is half of a 95% interval over the seeds.</p>',
    )


def _reference_cells(references: References, columns: list[str]) -> list[list[object]]:
    """Return a row for each player without a model."""
    best_of = {"uniform": references.best_of_uniform, "best_fixed": references.best_of_fixed}
    rows: list[list[object]] = []
    for name, value in references.averages.items():
        label = f"({plots.reference_label(name, references)})"
        values = {
            "policy": label,
            "width": "",
            "average_regret": float(value),
            BEST_OF_BATCH: best_of.get(name),
        }
        rows.append([values.get(column) for column in columns])
    return rows


def _provenance(record: Mapping[str, Any]) -> str:
    """Return command, seeds and versions."""
    seeds = escape(", ".join(str(seed) for seed in record["seeds"]))
    command = escape(command_of(record["arguments"]))
    packages = table(["package", "version"], list(record["versions"].items()))
    return (
        f"<p>The command:</p><pre>{command}</pre><p>Seeds: {seeds}.</p>"
        f'<div class="scroll">{packages}</div>'
    )


# --- HTML ---------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table: numbers to the right with four digits, everything escaped.

    On a narrow screen each row of three columns or more becomes a list, by the names of its columns.
    """
    lines = [list(row) for row in rows]
    numeric = [
        bool(lines) and all(isinstance(row[i], int | float | None) for row in lines)
        for i in range(len(header))
    ]
    sides = [" class=number" if right else "" for right in numeric]
    columns = list(zip(header, sides, strict=True))
    head = "".join(f'<th scope="col"{side}>{escape(name)}</th>' for name, side in columns)

    def cells(row: Sequence[object]) -> str:
        return "".join(
            f'<td{side} data-label="{escape(name)}">{escape(_cell(value))}</td>'
            for (name, side), value in zip(columns, row, strict=True)
        )

    body = "".join(f"<tr>{cells(row)}</tr>" for row in lines)
    kind = " class=stacks" if len(header) > 2 else ""
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return number_text(value) if isinstance(value, float) else str(value)


def cards(rows: Iterable[tuple[str, object]]) -> str:
    """Return numbers that are read at a glance: name and value."""
    items = "".join(f"<li>{escape(name)}<b>{escape(_cell(value))}</b></li>" for name, value in rows)
    return f'<ul class="cards">{items}</ul>'


def section(title: str, *parts: str) -> str:
    """Return a part of a page under a heading."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def page(title: str, subtitle: str, body: str, footer: str) -> str:
    """Return a whole page.

    Parameters
    ----------
    title, subtitle, footer : str
        Text.
    body : str
        HTML, of `section`, `cards` and `table`.
    """
    return _beside("page.html").format(
        generator="tvbandits",
        title=escape(title),
        subtitle=escape(subtitle),
        style=_beside("page.css"),
        body=body,
        footer=escape(footer),
    )


def _beside(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")

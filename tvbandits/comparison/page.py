"""A comparison as one page of HTML that needs no other file: tables, picture, command, versions, seeds.

Frame and style of the page are `page.html` and `page.css` beside this module.
"""

from __future__ import annotations

import base64
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
from tvbandits.comparison.summary import Panel, panels_of, summarise
from tvbandits.comparison.tables import REGRETS, panel_table, reference_text
from tvbandits.text import format_cell, format_number

# The colours of a dark page, as in `page.css`.
DARK = {"figure.facecolor": "#16191a", "axes.facecolor": "#16191a", "grid.color": "#454c4d"}


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
        section("How it was made", how),
    ]
    return page(
        f"Comparison on {', '.join(content.rows['problem'].unique())}",
        "Regret: what each policy loses in each step against the best point of that step.",
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
    about = "Average regret of each policy: the tables below have where the curves end"
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
        text = f"{best['policy']} loses least: {format_number(best['average_regret'])} a step"
        if others:
            text += (
                f"; next {others[0]['policy']} with {format_number(others[0]['average_regret'])}"
            )
        reference = content.references.get(panel.problem)
        if reference is not None:
            text += f". The best fixed point loses {format_number(reference.best_fixed)}"
        where = escape(f"{panel.problem}, {panel.width}")
        lines.append(f"<p>{where}: <b>{escape(text)}</b>.</p>")
    interrupted = bool(content.record["arguments"].get("interrupted", False))
    if interrupted:
        lines.append(
            "<p>Somebody stopped this comparison: these are the runs that were complete.</p>"
        )
    return f'<div class="now{" warn" if interrupted else ""}">{"".join(lines)}</div>'


def _panel(content: Content, panel: Panel) -> str:
    """Return the section of a panel: numbers and a table, the best policy first."""
    lines, summary = panel_table(panel), summarise(panel.rows)
    lines = lines.iloc[summary["average_regret"].argsort()]
    unit, references = content.units.get(panel.problem, ""), content.references.get(panel.problem)
    headings = [
        f"{name} [{unit}]" if unit and name in REGRETS else name for name in map(str, lines)
    ]
    counts: list[tuple[str, object]] = [
        ("seeds", int(panel.rows["seed"].nunique())),
        ("steps", int(panel.rows["t"].max())),
        ("policies", len(lines)),
        ("unit", unit or "none"),
    ]
    about = "± is half of a 95% interval over the seeds; queries, cost and ms are of a step."
    return section(
        f"{panel.problem}, {panel.width}",
        cards(counts),
        f'<div class="scroll">{table(headings, lines.to_numpy().tolist())}</div>',
        "" if references is None else f"<p>{escape(reference_text(references))}</p>",
        f'<p class="soft">{about}</p>',
    )


def _provenance(record: Mapping[str, Any]) -> str:
    """Return command, seeds and versions."""
    seeds = escape(", ".join(str(seed) for seed in record["seeds"]))
    command = escape(command_of(record["arguments"]))
    packages = table(["package", "version"], list(record["versions"].items()))
    return (
        f"<p>The command:</p><pre>{command}</pre><p>Seeds {seeds}.</p>"
        f'<div class="scroll">{packages}</div>'
    )


# --- HTML ---------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with names to the left and the rest to the right, everything escaped.

    On a narrow screen each row of three columns or more becomes a list, by the names of its columns.
    """
    columns = list(zip(header, ["", *[" class=number"] * (len(header) - 1)], strict=True))
    head = "".join(f'<th scope="col"{side}>{escape(name)}</th>' for name, side in columns)

    def cells(row: Sequence[object]) -> str:
        return "".join(
            f'<td{side} data-label="{escape(name)}">{escape(format_cell(value))}</td>'
            for (name, side), value in zip(columns, row, strict=True)
        )

    body = "".join(f"<tr>{cells(row)}</tr>" for row in rows)
    kind = " class=stacks" if len(header) > 2 else ""
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def cards(rows: Iterable[tuple[str, object]]) -> str:
    """Return numbers that are read at a glance: name and value."""
    items = "".join(
        f"<li>{escape(name)}<b>{escape(format_cell(value))}</b></li>" for name, value in rows
    )
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

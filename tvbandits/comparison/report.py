"""A report on a comparison as one HTML page that needs no other file.

It has tables, a picture, the command, versions and seeds. Its template and style are `page.html` and
`page.css` beside this module.
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
    """Return the report on a comparison that `tvbandits compare --out` wrote into a folder.

    Raises
    ------
    ValueError
        If the folder does not contain a comparison.
    """
    content = read(folder)
    panels = panels_of(content.rows)
    try:
        provenance = _format_provenance(content.record)
    except (KeyError, TypeError) as error:
        raise ValueError(f'"{folder / RUN}" cannot be read: {error}') from error
    parts = [
        _format_head(content, panels),
        format_section("Average regret against the step", _format_figure(content)),
        *(_format_panel(content, panel) for panel in panels),
        format_section("How to repeat it", provenance),
    ]
    return format_page(
        f"Comparison on {', '.join(content.rows['problem'].unique())}",
        "Regret is the loss of a policy in a step compared with the best point of that step.",
        "".join(parts),
        f"tvbandits {content.record['tvbandits']}",
    )


def command_of(arguments: Mapping[str, Any]) -> str:
    """Return the command line that repeats a comparison, from the recorded arguments."""
    words = ["tvbandits", "compare"]  # it also plays the policies of a frontier
    words += [str(problem) for problem in arguments.get("problems", ())]
    policies = arguments.get("policies") or ()
    words += [word for policy in policies for word in ("--policy", str(policy))]
    for name in ("beta", "horizon", "seeds", "batch", "expert"):
        if arguments.get(name) is not None:
            words += [f"--{name}", str(arguments[name])]
    words += [word for path in arguments.get("data") or () for word in ("--data", str(path))]
    words += ["--equal-information"] if arguments.get("equal_information") else []
    return shlex.join(words)


def _format_figure(content: Content) -> str:
    """Return HTML with the embedded picture of regrets, in light and in dark colours.

    On a narrow screen it can be scrolled.
    """
    light = _encode_picture(content)
    with style.context(["dark_background", DARK]):
        dark = _encode_picture(content)
    description = "Average regret of each policy: the tables below have the final values"
    size = "width: 100%; min-width: 40rem; max-width: 60rem"
    return (
        f'<figure class="scroll"><picture><source srcset="{dark}" '
        f'media="(prefers-color-scheme: dark)"><img src="{light}" alt="{description}" '
        f'style="{size}"></picture></figure>'
    )


def _reduce_colours(png: bytes, colours: int = 64) -> bytes:
    """Return a PNG with fewer colours, which is a quarter as large for pictures of lines and text."""
    picture = BytesIO()
    Image.open(BytesIO(png)).convert("RGB").quantize(colours).save(picture, "PNG", optimize=True)
    return picture.getvalue()


def _encode_picture(content: Content, most: int = 350_000) -> str:
    """Return the picture of regrets as a data URL, with the best resolution below a size.

    The size is `most` characters; at the lowest resolution it may be larger.
    """
    figure = plots.regret_figure(content.rows, content.references, content.units)
    text = ""
    for dpi in (100, 70, 50):
        text = base64.b64encode(_reduce_colours(figure.png(dpi))).decode()
        if len(text) <= most:
            break
    return f"data:image/png;base64,{text}"


def _format_head(content: Content, panels: list[Panel]) -> str:
    """Return HTML with a sentence on the best policy of each panel."""
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
        title = escape(f"{panel.problem}, {panel.width}")
        lines.append(f"<p>{title}: <b>{escape(text)}</b>.</p>")
    interrupted = bool(content.record["arguments"].get("interrupted", False))
    if interrupted:
        lines.append(
            "<p>This comparison was stopped: the page shows the runs that were complete.</p>"
        )
    return f'<div class="now{" warn" if interrupted else ""}">{"".join(lines)}</div>'


def _format_panel(content: Content, panel: Panel) -> str:
    """Return the section of a panel, with cards and a table in which the best policy is first."""
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
    caption = "± is half of a 95% interval over the seeds; queries, cost and ms are per step."
    return format_section(
        f"{panel.problem}, {panel.width}",
        format_cards(counts),
        f'<div class="scroll">{format_table(headings, lines.to_numpy().tolist())}</div>',
        "" if references is None else f"<p>{escape(reference_text(references))}</p>",
        f'<p class="soft">{caption}</p>',
    )


def _format_provenance(record: Mapping[str, Any]) -> str:
    """Return HTML with command, seeds and versions."""
    seeds = escape(", ".join(str(seed) for seed in record["seeds"]))
    command = escape(command_of(record["arguments"]))
    packages = format_table(["package", "version"], list(record["versions"].items()))
    return (
        f"<p>The command:</p><pre>{command}</pre><p>Seeds: {seeds}.</p>"
        f'<div class="scroll">{packages}</div>'
    )


# --- HTML ---------------------------------------------------------------------------------------------


def format_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table with escaped texts: the first column left-aligned, the others right-aligned.

    On a narrow screen, each row of a table with more than two columns becomes a list with the headings.
    """
    columns = list(zip(header, ["", *[" class=number"] * (len(header) - 1)], strict=True))
    head = "".join(f'<th scope="col"{attribute}>{escape(name)}</th>' for name, attribute in columns)

    def format_row(row: Sequence[object]) -> str:
        return "".join(
            f'<td{attribute} data-label="{escape(name)}">{escape(format_cell(value))}</td>'
            for (name, attribute), value in zip(columns, row, strict=True)
        )

    body = "".join(f"<tr>{format_row(row)}</tr>" for row in rows)
    attribute = " class=stacks" if len(header) > 2 else ""
    return f"<table{attribute}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def format_cards(rows: Iterable[tuple[str, object]]) -> str:
    """Return an HTML list of names with large values."""
    items = "".join(
        f"<li>{escape(name)}<b>{escape(format_cell(value))}</b></li>" for name, value in rows
    )
    return f'<ul class="cards">{items}</ul>'


def format_section(title: str, *parts: str) -> str:
    """Return an HTML section with a heading."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def format_page(title: str, subtitle: str, body: str, footer: str) -> str:
    """Return a whole HTML page.

    Parameters
    ----------
    title, subtitle, footer : str
        Plain texts, which are escaped.
    body : str
        HTML from `format_section`, `format_cards` and `format_table`.
    """
    return _read_template("page.html").format(
        generator="tvbandits",
        title=escape(title),
        subtitle=escape(subtitle),
        style=_read_template("page.css"),
        body=body,
        footer=escape(footer),
    )


def _read_template(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")

"""A page of HTML that needs nothing but itself: text, tables, and pictures with tooltips.

The pictures are drawn by plotly.js, which stands in the page as a whole, so that it opens without a
network. What a picture shows is also a table under it, for readers of screens.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

MARKUP = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="{generator}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline';
 style-src 'unsafe-inline'; img-src data: blob:; connect-src {connect}; base-uri 'none';
 form-action {connect}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">To the content</a>
<header><h1>{title}</h1><p>{subtitle}</p></header>
<main id="main">{body}</main>
<footer>{footer}</footer>
{scripts}
</body>
</html>
"""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --soft: #595959; --paper: #ffffff; --tint: #f2f4f4;
  --line: #c9cfcf; --accent: #00695c; --warn: #8a3b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --soft: #b0b0b0; --paper: #16191a;
  --tint: #202526; --line: #454c4d; --accent: #6fd3c3; --warn: #ffb77a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 0 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 1rem 0 0; font-size: 1.6rem; } h2 { margin: 2rem 0 .5rem; font-size: 1.2rem; }
header p, footer, .soft { color: var(--soft); }
a { color: var(--accent); }
.skip { position: absolute; left: -100rem; } .skip:focus { left: 1rem; }
.now { border-left: .4rem solid var(--accent); background: var(--tint); padding: .8rem 1rem;
  margin: 1rem 0; }
.now strong { font-size: 1.35rem; display: block; }
.warn { border-color: var(--warn); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .8rem;
  margin: 1rem 0; padding: 0; list-style: none; }
.cards li { background: var(--tint); padding: .6rem .8rem; }
.cards b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; white-space: nowrap; }
td.number, th.number { text-align: right; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); }
.plot { width: 100%; height: 26rem; }
@media (max-width: 40rem) { .plot { height: calc(20rem + 1.6rem * var(--names)); } }
details { margin: .5rem 0; } summary { cursor: pointer; } summary:focus-visible { outline: 2px solid; }
pre { background: var(--tint); padding: .8rem; overflow-x: auto; }
label, select, input { font: inherit; }
@media print { .skip { display: none; } details { display: none; } }
"""

DRAW = """
(function () {
  "use strict";
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function colours() {
    var style = getComputedStyle(document.documentElement);
    var of = function (name) { return style.getPropertyValue(name).trim(); };
    return { ink: of("--ink"), line: of("--line"), paper: of("--paper") };
  }
  function themed(layout) {
    var c = colours(), out = Object.assign({}, layout);
    out.paper_bgcolor = out.plot_bgcolor = "rgba(0,0,0,0)";
    out.font = { color: c.ink, size: 13 };
    out.modebar = { bgcolor: "rgba(0,0,0,0)", color: c.line, activecolor: c.ink };
    Object.keys(out).forEach(function (key) {
      if (/^[xy]axis/.test(key)) { out[key] = Object.assign({ gridcolor: c.line, zerolinecolor: c.line,
        automargin: true }, out[key]); }
    });
    return out;
  }
  function lighter(quoted, hex) {
    return '"#' + hex.replace(/../g, function (two) {
      return Math.round(115 + 0.55 * parseInt(two, 16)).toString(16);
    }) + '"';
  }
  function inked(data) {
    var c = colours(), text = JSON.stringify(data);
    if (dark.matches) { text = text.replace(/"#([0-9a-f]{6})"/g, lighter); }
    return JSON.parse(text.replace(/"INK"/g, JSON.stringify(c.ink))
      .replace(/"PAPER"/g, JSON.stringify(c.paper)).replace(/"LINE"/g, JSON.stringify(c.line)));
  }
  function draw(place) {
    var said = JSON.parse(document.getElementById(place.id + "-data").textContent);
    Plotly.react(place, inked(said.data), themed(inked(said.layout)),
      { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] });
  }
  function drawAll() { document.querySelectorAll(".plot").forEach(draw); }
  drawAll();
  dark.addEventListener("change", drawAll);
})();
"""


@dataclass(frozen=True)
class Plot:
    """A picture: plotly's data and layout, what it shows in a sentence, and the same as a table.

    Attributes
    ----------
    name : str
        Letters and hyphens; of one picture of a page.
    caption : str
    data : sequence of dict
        Traces. The colours "INK", "PAPER" and "LINE" become those of the reader's theme.
    layout : dict
    table : str
        HTML of a table with the same content.
    """

    name: str
    caption: str
    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    table: str = ""

    def html(self) -> str:
        """The figure, its data, and its table behind a fold."""
        found = {"data": list(self.data), "layout": self.layout}
        label = escape(self.caption, quote=True)
        fold = (
            "<details><summary>The same as a table</summary>"
            f"{scrolled(self.table, self.caption)}</details>"
            if self.table
            else ""
        )
        names = sum("name" in trace for trace in self.data)  # each needs a line on a phone
        return (
            f'<figure><div class="plot" id="{self.name}" style="--names: {names}" role="img" '
            f'aria-label="{label}"></div>'
            f'<script type="application/json" id="{self.name}-data">{as_json(found)}</script>'
            f"<figcaption>{escape(self.caption)}</figcaption>{fold}</figure>"
        )


def as_json(value: Any) -> str:
    """JSON that can stand inside of a script element: no NaN, no end of the element, no comment."""
    text = json.dumps(without_nan(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def without_nan(value: Any) -> Any:
    """Plain values for JSON, which knows no NaN and no infinity: they become null."""
    if isinstance(value, Mapping):
        return {str(key): without_nan(each) for key, each in value.items()}
    if hasattr(value, "tolist"):
        return without_nan(value.tolist())
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(header: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table; numbers to the right with four digits, everything escaped."""
    lines = [list(row) for row in rows]
    numeric = [
        bool(lines) and all(isinstance(row[i], int | float) or row[i] is None for row in lines)
        for i in range(len(header))
    ]
    head = "".join(
        f'<th scope="col"{" class=number" if right else ""}>{escape(name)}</th>'
        for name, right in zip(header, numeric, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if right else ''}>{escape(_shown(value))}</td>"
            for value, right in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in lines
    )
    title = f"<caption class=soft>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: object) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def scrolled(content: str, about: str) -> str:
    """What may be wider than a phone: it scrolls by itself, also by keys."""
    label = escape(about, quote=True)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def cards(rows: Iterable[tuple[str, object]]) -> str:
    """Numbers that are read at a glance: name and value."""
    found = "".join(
        f"<li>{escape(name)}<b>{escape(_shown(value))}</b></li>" for name, value in rows
    )
    return f'<ul class="cards">{found}</ul>'


def section(title: str, *parts: str) -> str:
    """A part of a page under a heading."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def page(
    title: str,
    subtitle: str,
    body: str,
    footer: str,
    *,
    drawing: bool = True,
    served: bool = False,
    generator: str = "tvbandits",
) -> str:
    """Put a page together.

    Parameters
    ----------
    title, subtitle, footer : str
        Text.
    body : str
        HTML, of `section`, `cards`, `table` and `Plot.html`.
    drawing : bool
        It has pictures: plotly.js goes in.
    served : bool
        The page may speak to the server that it came from, and to nobody else.
    generator : str
        What the page was made by and of; `generated_by` finds it again.

    Raises
    ------
    ImportError
        For pictures, where plotly is not installed.
    """
    scripts = [_plotly(), DRAW] if drawing else []
    return MARKUP.format(
        generator=escape(generator),
        title=escape(title),
        subtitle=escape(subtitle),
        style=STYLE,
        body=body,
        footer=escape(footer),
        connect="'self'" if served else "'none'",
        scripts="".join(f"<script>{each}</script>" for each in scripts),
    )


def generated_by(path: Path, generator: str) -> bool:
    """Whether a file is a page that says so of itself, at its beginning."""
    start = MARKUP[: MARKUP.index('">\n<meta name="viewport"')].format(generator=escape(generator))
    with path.open("rb") as file:
        return file.read(len(start.encode()) + 2) == f'{start}">'.encode()


def _plotly() -> str:
    try:
        found = resources.files("plotly") / "package_data" / "plotly.min.js"
    except ModuleNotFoundError:
        raise ImportError("a report needs plotly: pip install 'tvbandits[report]'") from None
    return found.read_text(encoding="utf-8").replace("</script", "<\\/script")

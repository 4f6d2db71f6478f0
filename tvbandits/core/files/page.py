"""A page of HTML that needs nothing but itself: text, tables, and pictures with tooltips.

The pictures are drawn by plotly.js, which stands in the page as a whole, so that it opens without a
network. What a picture shows is also a table under it, for readers of screens. Frame, style and script
of a page are `page.html`, `page.css` and `page.js` beside this module.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from tvbandits.core.files.journal import without_nan

HERE = Path(__file__).parent


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
    frames : sequence of dict
        What a slider over time shows in place of `data`: each a `name`, which is said beside it, and
        its own `data`.
    shown : int
        The frame at first.
    """

    name: str
    caption: str
    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    table: str = ""
    frames: Sequence[dict[str, Any]] = ()
    shown: int = 0

    def html(self) -> str:
        """The figure, its data, and its table behind a fold."""
        found = {"data": list(self.data), "layout": self.layout, "frames": list(self.frames)}
        label = escape(self.caption, quote=True)
        fold = ""
        if self.table:
            shown = scrolled(self.table, self.caption)
            fold = f"<details><summary>The same as a table</summary>{shown}</details>"
        names = sum("name" in trace for trace in self.data)  # each needs a line on a phone
        return (
            f'<figure><div class="plot" id="{self.name}" style="--names: {names}" role="img" '
            f'aria-label="{label}"></div>'
            f'<script type="application/json" id="{self.name}-data">{as_json(found)}</script>'
            f"{self._slider()}<figcaption>{escape(self.caption)}</figcaption>{fold}</figure>"
        )

    def _slider(self) -> str:
        """An input of the browser's own, which keys move and readers of screens read out."""
        if not self.frames:
            return ""
        first = escape(str(self.frames[self.shown]["name"]), quote=True)
        return (
            f'<div class="slider"><label for="{self.name}-slider">time '
            f'<output id="{self.name}-at">{first}</output></label>'
            f'<input type="range" id="{self.name}-slider" max="{len(self.frames) - 1}" '
            f'value="{self.shown}" autocomplete="off" aria-valuetext="{first}"></div>'
        )


def as_json(value: Any) -> str:
    """JSON that can stand inside of a script element: no NaN, no end of the element, no comment."""
    text = json.dumps(without_nan(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(header: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table; numbers to the right with four digits, everything escaped."""
    lines = [list(row) for row in rows]
    numeric = [
        bool(lines) and all(isinstance(row[i], int | float | None) for row in lines)
        for i in range(len(header))
    ]

    def cells(start: str, row: Sequence[object], end: str) -> str:
        sides = [" class=number>" if right else ">" for right in numeric]
        pairs = zip(sides, row, strict=True)
        return "".join(start + side + escape(_shown(value)) + end for side, value in pairs)

    head = cells('<th scope="col"', header, "</th>")
    body = "".join(f"<tr>{cells('<td', row, '</td>')}</tr>" for row in lines)
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
    scripts = [_plotly(), _beside("page.js")] if drawing else []
    return _beside("page.html").format(
        generator=escape(generator),
        title=escape(title),
        subtitle=escape(subtitle),
        style=_beside("page.css"),
        body=body,
        footer=escape(footer),
        connect="'self'" if served else "'none'",
        scripts="".join(f"<script>{each}</script>" for each in scripts),
    )


def generated_by(path: Path, generator: str) -> bool:
    """Whether a file is a page that says so of itself, at its beginning."""
    before, _, _ = _beside("page.html").partition("{generator}")
    start = f'{before}{escape(generator)}">'.encode()
    with path.open("rb") as file:
        return file.read(len(start)) == start


def _beside(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _plotly() -> str:
    try:
        found = resources.files("plotly") / "package_data" / "plotly.min.js"
    except ModuleNotFoundError:
        raise ImportError("a report needs plotly: pip install 'tvbandits[report]'") from None
    return found.read_text(encoding="utf-8").replace("</script", "<\\/script")

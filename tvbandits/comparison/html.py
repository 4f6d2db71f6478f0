"""A page of HTML that needs nothing but itself: text, tables and cards.

Frame and style of a page are `page.html` and `page.css` beside this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

HERE = Path(__file__).parent


def table(header: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table: numbers to the right with four digits, everything escaped.

    On a narrow screen each row of three columns or more becomes a list, by the names of its columns.
    """
    lines = [list(row) for row in rows]
    numeric = [
        bool(lines) and all(isinstance(row[i], int | float | None) for row in lines)
        for i in range(len(header))
    ]
    sides = [" class=number" if right else "" for right in numeric]
    head = "".join(
        f'<th scope="col"{side}>{escape(name)}</th>'
        for side, name in zip(sides, header, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{side} data-label="{escape(name)}">{escape(_shown(value))}</td>'
            for side, name, value in zip(sides, header, row, strict=True)
        )
        + "</tr>"
        for row in lines
    )
    title = f"<caption class=soft>{escape(caption)}</caption>" if caption else ""
    kind = ' class="stacks"' if len(header) > 2 else ""
    return f"<table{kind}>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: object) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def cards(rows: Iterable[tuple[str, object]]) -> str:
    """Numbers that are read at a glance: name and value."""
    found = "".join(
        f"<li>{escape(name)}<b>{escape(_shown(value))}</b></li>" for name, value in rows
    )
    return f'<ul class="cards">{found}</ul>'


def section(title: str, *parts: str) -> str:
    """A part of a page under a heading."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def page(title: str, subtitle: str, body: str, footer: str) -> str:
    """Put a page together.

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


def generated_by(path: Path, generator: str) -> bool:
    """Whether a file is a page that says so of itself, at its beginning."""
    before, _, _ = _beside("page.html").partition("{generator}")
    start = f'{before}{escape(generator)}">'.encode()
    with path.open("rb") as file:
        return file.read(len(start)) == start


def _beside(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")

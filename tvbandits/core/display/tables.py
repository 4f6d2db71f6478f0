"""How values show themselves: a small table for notebooks, and one line for terminals."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

LONGEST = 200
"""Characters of a line at the most."""

_CELL = "text-align:left;padding:0.1em 0.8em 0.1em 0;border:none;background:none"


def as_html(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A table of two columns, names and values, under a title; nothing in it is taken for HTML.

    Parameters
    ----------
    title : str
    rows : iterable of (str, object)
        A float is shown with four digits, anything else as its `str`, cut at 200 characters.

    Examples
    --------
    >>> from tvbandits.core.display import as_html
    >>> print(as_html("Info", [("told", 3)])[:6])
    <table
    """
    lines = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:normal;opacity:0.7">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(_cut(_shown(value)))}</td></tr>'
        for name, value in rows
    )
    caption = f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
    return f'<table style="border-collapse:collapse">{caption}<tbody>{lines}</tbody></table>'


def as_text(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """`<title: name value, name value>` on one line of at most 200 characters.

    Parameters are those of `as_html`. What does not fit is left out from the end, with "..." for it.

    Examples
    --------
    >>> from tvbandits.core.display import as_text
    >>> print(as_text("Info", [("told", 3), ("failed", 0)]))
    <Info: told 3, failed 0>
    """
    parts = [" ".join(f"{name} {_shown(value)}".split()) for name, value in rows]
    head = " ".join(title.split())
    line = f"<{head}: {', '.join(parts)}>" if parts else f"<{head}>"
    while len(line) > LONGEST and parts:
        parts.pop()
        line = f"<{head}: {', '.join([*parts, '...'])}>"
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 4]}...>"


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."

"""A value and its interval stay on one line of a table's cell, and what made a table is folded away."""

from __future__ import annotations

import re
from typing import Any

ROW = re.compile(r"^\|.*$", re.MULTILINE)
MADE = re.compile(r"^\*(Made by `[^*]+)\*$", re.MULTILINE)


def _folded(found: re.Match[str]) -> str:
    return f'??? made "How this was made"\n    {" ".join(found[1].split())}'


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    kept = ROW.sub(lambda row: row[0].replace(" ± ", "&nbsp;±&nbsp;"), markdown)
    return MADE.sub(_folded, kept)

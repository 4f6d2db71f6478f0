"""Equations of the pages become MathML, which browsers draw by themselves: nothing is fetched."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<![\\$`])\$(?![\s$])([^$`\n]+?)(?<!\s)\$(?![\d$])")


def _inline(found: re.Match[str]) -> str:
    """In a span: Markdown takes a line that begins with an equation for a block of its own."""
    return f"<span>{convert(found[1])}</span>"


def with_mathml(markdown: str) -> str:
    r"""Every `$...$` and `$$` block outside of code, as MathML."""
    parts = FENCED.split(markdown)
    for at in range(0, len(parts), 2):
        text = SHOWN.sub(lambda m: convert(m[1], display="block"), parts[at])
        # Code in backticks keeps its dollars.
        words = re.split(r"(`[^`]*`)", text)
        words[::2] = [INLINE.sub(_inline, word) for word in words[::2]]
        parts[at] = "".join(words)
    return "".join(parts)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return with_mathml(markdown)

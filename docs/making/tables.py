"""A value and its interval stay on one line of a table's cell."""

from __future__ import annotations

import re
from typing import Any

ROW = re.compile(r"^\|.*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return ROW.sub(lambda row: row[0].replace(" ± ", "&nbsp;±&nbsp;"), markdown)

"""A page fetches nothing from another host: it opens from the disk, without a network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//[^\s\">]+"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preload|preconnect|icon))[^>]*\bhref=\"?(?:https?:)?//[^\s\">]+"
)


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Fail on a script, a style or a picture of another host."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = FETCHED.search(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.name} fetches from another host: {found[0]}")

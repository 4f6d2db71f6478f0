"""Pages at the root of the project are pages of the site, too, and links to them lead there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "README.md": "index.md",
    "benchmarks/results/quick/board.md": "board-quick.md",
    "benchmarks/results/paper/board.md": "board-paper.md",
}
LINK = re.compile(r"\]\(((?:\.\./)?[^)#:\s]+)(#[^)]*)?\)")


def _leads_to(link: str, page: str) -> str:
    """Where a link of `page`, said as in the repository, leads on the site."""
    bare = link.removeprefix("../").removeprefix("docs/")
    if page not in PAGES.values() and not link.startswith("../"):
        return link
    if bare in PAGES:
        return PAGES[bare]
    if bare.startswith("examples/"):
        name = Path(bare).stem
        return f"examples/{name}.md" if name else "examples.md"
    return bare


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the root's pages that the site does not have."""
    for name, page in PAGES.items():
        if page != "index.md" and (ROOT / name).exists():
            text = (ROOT / name).read_text(encoding="utf-8")
            files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links of the repository into links of the site."""
    return LINK.sub(lambda m: f"]({_leads_to(m[1], page.file.src_uri)}{m[2] or ''})", markdown)

"""Hooks of mkdocs: pages from the project's root, links, equations, tables, and the wheel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# Files outside of docs/ that are pages of the site, too; `docs/index.md` stands for the README.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "benchmarks/results/quick/board.md": "board-quick.md",
    "benchmarks/results/paper/board.md": "board-paper.md",
    "benchmarks/results/networks/board.md": "board-networks.md",
}
LINK = re.compile(r"\]\(((?:\.\./)?[^)#:\s]+)(#[^)]*)?\)")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
DISPLAYED = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!\\)\$(?![\s$])([^$\n]+?)(?<!\s)\$(?![\d$])")
ROW = re.compile(r"^\|.*$", re.MULTILINE)
PROVENANCE = re.compile(r"^\*(Made by `[^*]+)\*$", re.MULTILINE)
SOURCE = '<details class="mkdocstrings-source"'
REMOTE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//[^\s\">]+"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preload|preconnect|icon))[^>]*\bhref=\"?(?:https?:)?//[^\s\">]+"
)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages from outside of docs/, and the wheel that `in-the-browser.md` installs."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        files.append(File.generated(config, f"wheels/{wheel.name}", content=wheel.read_bytes()))
    name = json.dumps({"wheel": wheel.name})
    files.append(File.generated(config, "wheels/made.json", content=name))
    return files


def site_link(link: str, page: str) -> str:
    """Return the link on the site for a link on a page of the repository."""
    bare = link.removeprefix("../").removeprefix("docs/")
    if page not in (*PAGES.values(), "index.md") and not link.startswith("../"):
        return link
    if bare.startswith("examples/"):
        page = re.sub(r"(examples/\d.*)\.py$", r"\1.md", bare)  # examples with a number have a page
        return "examples.md" if page == "examples/" else page
    return {**PAGES, "README.md": "index.md"}.get(bare, bare)


def with_mathml(markdown: str) -> str:
    r"""Replace each `$...$` and `$$` block outside of code by MathML, which browsers can draw."""
    parts = CODE.split(markdown)
    for i in range(0, len(parts), 2):
        text = DISPLAYED.sub(lambda match: convert(match[1], display="block"), parts[i])
        # Without the span, Markdown would make a block of a line that begins with an equation.
        parts[i] = INLINE.sub(lambda match: f"<span>{convert(match[1])}</span>", text)
    return "".join(parts)


def fold_provenance(match: re.Match[str]) -> str:
    """Return the provenance of a table or a picture as a block that the reader can open."""
    return f'??? made "How this was made"\n    {" ".join(match[1].split())}'


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Convert links, equations and tables for the site."""
    uri = page.file.src_uri
    text = LINK.sub(lambda match: f"]({site_link(match[1], uri)}{match[2] or ''})", markdown)
    text = ROW.sub(lambda row: row[0].replace(" ± ", "&nbsp;±&nbsp;"), with_mathml(text))
    return PROVENANCE.sub(fold_provenance, text)


def on_page_content(html: str, **_: Any) -> str:
    """Exclude source code from the search, since it has far more matches than the pages."""
    return html.replace(SOURCE, f"{SOURCE} data-search-exclude")


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Fail if a page loads something from another host, since the site must work offline."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        if match := REMOTE.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path.name} loads from another host: {match[0]}")

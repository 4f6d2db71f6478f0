"""What mkdocs does with the pages: files of the project's root, equations, tables, and the wheel."""

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
# Files at the root that are pages of the site, too; README is there as index.md.
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
MADE = re.compile(r"^\*(Made by `[^*]+)\*$", re.MULTILINE)
SOURCE = '<details class="mkdocstrings-source"'
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//[^\s\">]+"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preload|preconnect|icon))[^>]*\bhref=\"?(?:https?:)?//[^\s\">]+"
)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages of the root, and the wheel that `in-the-browser.md` installs."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        files.append(File.generated(config, f"wheels/{wheel.name}", content=wheel.read_bytes()))
    made = json.dumps({"wheel": wheel.name})
    files.append(File.generated(config, "wheels/made.json", content=made))
    return files


def site_link(link: str, page: str) -> str:
    """Where a link of a page, as it stands in the repository, leads on the site."""
    bare = link.removeprefix("../").removeprefix("docs/")
    if page not in (*PAGES.values(), "index.md") and not link.startswith("../"):
        return link
    if bare.startswith("examples/"):
        page = re.sub(r"(examples/\d.*)\.py$", r"\1.md", bare)  # those with a number have a page
        return "examples.md" if page == "examples/" else page
    return {**PAGES, "README.md": "index.md"}.get(bare, bare)


def with_mathml(markdown: str) -> str:
    r"""Every `$...$` and `$$` block outside of code as MathML, which browsers draw by themselves."""
    parts = CODE.split(markdown)
    for at in range(0, len(parts), 2):
        text = DISPLAYED.sub(lambda found: convert(found[1], display="block"), parts[at])
        # In a span: Markdown takes a line that begins with an equation for a block of its own.
        parts[at] = INLINE.sub(lambda found: f"<span>{convert(found[1])}</span>", text)
    return "".join(parts)


def folded(found: re.Match[str]) -> str:
    """What made a table, in a block that opens."""
    return f'??? made "How this was made"\n    {" ".join(found[1].split())}'


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links, equations and tables into those of the site."""
    uri = page.file.src_uri
    text = LINK.sub(lambda found: f"]({site_link(found[1], uri)}{found[2] or ''})", markdown)
    text = ROW.sub(lambda row: row[0].replace(" ± ", "&nbsp;±&nbsp;"), with_mathml(text))
    return MADE.sub(folded, text)


def on_page_content(html: str, **_: Any) -> str:
    """Leave the source of names out of the search: it would bury what the pages say of a word."""
    return html.replace(SOURCE, f"{SOURCE} data-search-exclude")


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Fail on a script, a style or a picture of another host: the site works without a network."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        if found := FETCHED.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path.name} fetches from another host: {found[0]}")

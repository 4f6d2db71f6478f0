"""Two pictures in the place of each one of the site: one of them is shown, by the reader's theme."""

from __future__ import annotations

import io
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from PIL import Image

from docs.making.dark import darkened, pixels

PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s#]+)\.png\)(\{[^}]*\})?")
"""A picture in Markdown, with its attributes."""


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a picture for dark pages for each picture of the site that has none."""
    names = {file.src_uri for file in files}
    for file in list(files):
        dark_name = file.src_uri.removesuffix(".png") + "-dark.png"
        if file.src_uri.endswith(".png") and not {dark_name, light_name(file.src_uri)} & names:
            made, drawn = io.BytesIO(), pixels(io.BytesIO(file.content_bytes))
            Image.fromarray(darkened(drawn)).save(made, "PNG", optimize=True)
            files.append(File.generated(config, dark_name, content=made.getvalue()))
    return files


def light_name(name: str) -> str:
    """The name of the picture that a dark one belongs to; empty for any other picture."""
    return name.removesuffix("-dark.png") + ".png" if name.endswith("-dark.png") else ""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show one of two pictures, by the reader's theme."""
    both = r"![\1](\2.png#only-light)\3![\1](\2-dark.png#only-dark)\3"
    return PICTURE.sub(both, markdown)

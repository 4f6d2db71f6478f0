"""A light and a dark version of each picture of the site; the reader's theme decides which one shows."""

from __future__ import annotations

import io
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from PIL import Image

from docs.making.dark import darken, read_pixels

# A picture in Markdown, with its attributes.
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s#]+)\.png\)(\{[^}]*\})?")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a dark version of each picture of the site that has none."""
    names = {file.src_uri for file in files}
    for file in list(files):
        dark_name = file.src_uri.removesuffix(".png") + "-dark.png"
        if file.src_uri.endswith(".png") and not {dark_name, light_name(file.src_uri)} & names:
            content, pixels = io.BytesIO(), read_pixels(io.BytesIO(file.content_bytes))
            Image.fromarray(darken(pixels)).save(content, "PNG", optimize=True)
            files.append(File.generated(config, dark_name, content=content.getvalue()))
    return files


def light_name(name: str) -> str:
    """Return the name of the light version of a dark picture; an empty text for any other picture."""
    return name.removesuffix("-dark.png") + ".png" if name.endswith("-dark.png") else ""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each picture by its light and its dark version."""
    both = r"![\1](\2.png#only-light)\3![\1](\2-dark.png#only-dark)\3"
    return PICTURE.sub(both, markdown)

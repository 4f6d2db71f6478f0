"""The reference: every public name of every public module, and a check that none is missing."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from public_names import canonical, parts_named, public_modules  # beside this file

PROMPT = re.compile(r"(?:^>>>.*\n(?:(?!>>>).+\n)*)+", re.MULTILINE)
"""Examples in the docstring of a module: each prompt, and the lines down to the next."""


def _page(name: str, module: ModuleType, names: list[str], placed: dict[str, str]) -> str:
    said = PROMPT.sub(r"```pycon\n\g<0>```\n", (inspect.getdoc(module) or "") + "\n")
    lines = [f"# {name}\n", said, ""]
    for public in names:
        if public.startswith("__"):
            continue
        path = canonical(module, public)
        if path is None:
            lines.append(f"- the module `{name}.{public}`\n")
        elif path in placed:
            lines.append(f"- [`{public}`][{path}], at [{placed[path]}]({placed[path]}.md)\n")
        else:
            placed[path] = name
            lines.append(f"::: {path}\n    options:\n      heading_level: 2\n")
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a page for each public module, and the page that lists them."""
    placed: dict[str, str] = {}
    index = [
        "# Reference\n\nWhat can be imported. A name that two modules offer is described once.\n"
    ]
    modules = public_modules()
    offered = {name: sorted(module.__all__, key=str.lower) for name, module in modules.items()}
    for name, names in {**offered, **parts_named()}.items():
        module = importlib.import_module(name)

        page = _page(name, module, names, placed)
        files.append(File.generated(config, f"reference/{name}.md", content=page))
        first = (inspect.getdoc(module) or "").partition("\n")[0]
        index.append(f"- [`{name}`](reference/{name}.md): {first}")
    files.append(File.generated(config, "reference.md", content="\n".join(index)))
    config.extra["public_names"] = sorted(placed)
    return files


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Fail on a public name that no page describes."""
    pages = "".join(
        path.read_text(encoding="utf-8")
        for path in (Path(config.site_dir) / "reference").glob("*.html")
    )
    missing = [name for name in config.extra["public_names"] if f'id="{name}"' not in pages]
    if missing:
        raise PluginError(
            f"public names that the reference does not describe: {', '.join(missing)}"
        )

"""The reference: every public name of every public module, and a check that none is missing."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]


def public_modules() -> dict[str, ModuleType]:
    """Packages that say what is public, and the modules of parts that people combine."""
    package = importlib.import_module("tvbandits")
    found = {"tvbandits": package}
    for info in pkgutil.walk_packages(package.__path__, "tvbandits."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        module = importlib.import_module(info.name)
        if getattr(module, "__all__", None):
            found[info.name] = module
    return found


def canonical(module: ModuleType, name: str) -> str | None:
    """Where a public name is defined; None for a module, which has a page of its own."""
    value = getattr(module, name)
    if inspect.ismodule(value):
        return None
    home, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if (
        not (inspect.isclass(value) or inspect.isroutine(value))
        or home is None
        or qualified is None
    ):
        return f"{module.__name__}.{name}"
    return f"{home}.{qualified}" if home.startswith("tvbandits.") else f"{module.__name__}.{name}"


def _page(name: str, module: ModuleType, placed: dict[str, str]) -> str:
    said = inspect.getdoc(module) or ""
    lines = [f"# {name}\n", said, ""]
    for public in sorted(module.__all__, key=str.lower):
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
    for name, module in public_modules().items():
        files.append(
            File.generated(config, f"reference/{name}.md", content=_page(name, module, placed))
        )
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

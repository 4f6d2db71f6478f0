"""Every example becomes a page: what it prints, what it draws, and its code, from a run just now."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from notebooks import run  # beside this file

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
KEPT = ROOT / "build" / "gallery"
"""Runs of examples that have not changed since, by the hash of example and package."""


@contextmanager
def _environment(**more: str) -> Iterator[None]:
    """What the kernel inherits."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _package_hash() -> str:
    """Of all code that an example could run."""
    digest = hashlib.sha256()
    for folder in ("tvbandits", "experts", "datasets"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(path: Path, package: str, said: str) -> Path:
    """A folder with the example's notebook, output and pictures."""
    kept = (
        KEPT
        / hashlib.sha256((package + path.read_text(encoding="utf-8")).encode()).hexdigest()[:20]
    )
    if (kept / "run.json").exists():
        return kept
    kept.mkdir(parents=True, exist_ok=True)
    # Pictures are written beside the script, so that it runs as a copy where the page's files are kept.
    script = kept / path.name
    script.write_bytes(path.read_bytes())
    for beside in EXAMPLES.iterdir():  # examples may import each other, or read small files
        if beside.is_file() and beside != path and beside.suffix != ".png":
            (kept / beside.name).write_bytes(beside.read_bytes())
    with _environment(PYTHONPATH=str(ROOT), MPLBACKEND="Agg", COLUMNS="100"):
        output = run(script, said)
    (kept / "run.json").write_text(json.dumps({"output": output}), encoding="utf-8")
    return kept


def _pages() -> Iterator[tuple[Path, str, str, str]]:
    """Example, its title, what it says about itself, its code."""
    for path in sorted(EXAMPLES.glob("[0-9]*.py")):
        code = path.read_text(encoding="utf-8")
        said = ast.get_docstring(ast.parse(code)) or path.stem
        first, _, rest = said.partition("\n")
        title = first.partition(":")[0].rstrip(".")
        yield path, title, f"{first}\n{rest}", code


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Run the examples and add their pages, and the page that lists them."""
    package = _package_hash()
    pages = list(_pages())
    index = ["# Examples\n\nEach page is a script of `examples/`, run while this site was built.\n"]
    for number, (path, title, said, code) in enumerate(pages, 1):
        print(f"example {number} of {len(pages)}: {path.name}", flush=True)
        kept = _run(path, package, said)
        output = json.loads((kept / "run.json").read_text(encoding="utf-8"))["output"]
        pictures = sorted(kept.glob("*.png"))
        page = [
            f"# {title}\n",
            said,
            f"\n`python examples/{path.name}` prints (also [as a notebook]({path.stem}.ipynb))\n",
            "```text",
            output.rstrip(),
            "```\n",
        ]
        notebook = f"{path.stem}.ipynb"
        content = (kept / notebook).read_bytes()
        files.append(File.generated(config, f"examples/{notebook}", content=content))
        for picture in pictures:
            uri = f"examples/{picture.name}"
            files.append(File.generated(config, uri, content=picture.read_bytes()))
            page.append(f"![What {path.name} draws]({picture.name})\n")
        page += ["```python", code.rstrip(), "```\n"]
        files.append(File.generated(config, f"examples/{path.stem}.md", content="\n".join(page)))
        index.append(f"## [{title}](examples/{path.stem}.md)\n\n{said}\n")
        index += [
            f"![What {path.name} draws](examples/{p.name}){{ width=480 }}\n" for p in pictures[:1]
        ]
    files.append(File.generated(config, "examples.md", content="\n".join(index)))
    return files

"""Every example becomes a page and a notebook: its output, its pictures and its code, from a run."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
KEPT = ROOT / "build" / "gallery"
"""Runs of examples that have not changed since, by the hash of example and package."""
LIMIT = 600
"""Seconds that a cell may take."""


def notebook_of(code: str, said: str) -> Any:
    """A cell for each part of a script between two empty lines; the last part becomes `main()`."""
    body = code.split("\n", ast.parse(code).body[0].end_lineno or 0)[-1]
    body = body.replace("Path(__file__).resolve().parent", "Path.cwd()")
    new = nbformat.v4
    parts = [part.strip("\n") for part in body.split("\n\n\n")][:-1]
    cells = [new.new_markdown_cell(f"# {said}")]
    cells += [new.new_code_cell(part) for part in [*parts, "main()"]]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # not drawn at random: the same script, the same file
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run(path: Path, said: str, package: str) -> Path:
    """A folder with an example's notebook, its pictures, and what it prints; it fails if a cell does."""
    code = path.read_text(encoding="utf-8")
    folder = KEPT / hashlib.sha256((package + code).encode()).hexdigest()[:20]
    if (folder / "output.txt").exists():
        return folder
    # Pictures are written beside the script; examples may import each other, or read small files.
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("*.png"), dirs_exist_ok=True)
    notebook = notebook_of(code, said)
    options = {"timeout": LIMIT, "startup_timeout": LIMIT}
    quiet = ["--IPKernelApp.log_level=40"]  # no warning of its local ports
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, resources=place, extra_arguments=quiet, **options).execute()
    nbformat.write(notebook, folder / f"{path.stem}.ipynb")
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(each["text"] for each in outputs if each.get("name") == "stdout")
    (folder / "output.txt").write_text(printed, encoding="utf-8")
    return folder


def about(path: Path) -> str:
    """What an example says of itself."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem


def run_all(paths: list[Path], package: str) -> list[Path]:
    """The folders of the examples, which run side by side, as many as there are processors."""
    with (
        patch.dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg", COLUMNS="100"),
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        return list(pool.map(lambda path: run(path, about(path), package), paths))


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Run the examples and add their pages, and the page that lists them."""
    digest = hashlib.sha256()
    for source in (ROOT / "tvbandits", ROOT / "experts", ROOT / "datasets"):
        for path in sorted(source.rglob("*.py")):
            digest.update(path.read_bytes())
    for path in EXAMPLES.glob("[a-z]*.py"):  # it needs more than is installed here: the code alone
        uri = f"examples/{path.name}"
        files.append(File.generated(config, uri, content=path.read_bytes()))
    index = ["# Examples\n\nEach page is a script of `examples/`, run while this site was built.\n"]
    paths = sorted(EXAMPLES.glob("[0-9]*.py"))
    for path, folder in zip(paths, run_all(paths, digest.hexdigest()), strict=True):
        code, name, said = path.read_text(encoding="utf-8").rstrip(), path.stem, about(path)
        title = said.partition("\n")[0].partition(":")[0].rstrip(".")
        made = [folder / f"{name}.ipynb", *sorted(folder.glob("*.png"))]
        for each in made:
            uri = f"examples/{each.name}"
            files.append(File.generated(config, uri, content=each.read_bytes()))
        pictures = [f"![What {path.name} draws]({each.name})\n" for each in made[1:]]
        printed = f"```text\n{(folder / 'output.txt').read_text(encoding='utf-8').rstrip()}\n```\n"
        how = f"`python examples/{path.name}` prints (also [as a notebook]({name}.ipynb))\n"
        page = [f"# {title}\n", said, "", how, printed, *pictures, f"```python\n{code}\n```\n"]
        files.append(File.generated(config, f"examples/{name}.md", content="\n".join(page)))
        index.append(f"## [{title}](examples/{name}.md)\n\n{said}\n")
        index += [
            each.replace("](", "](examples/").rstrip() + "{ width=480 }\n" for each in pictures[:1]
        ]
    files.append(File.generated(config, "examples.md", content="\n".join(index)))
    return files

"""Turn every example into a page and a notebook, with the output and the pictures of a run."""

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

# Folders of runs, named by the hash of example and package: an example runs again only if one changes.
RUNS = ROOT / "build" / "gallery"

# Seconds that a cell may take.
LIMIT = 600


def make_notebook(code: str, description: str) -> Any:
    """Return a notebook with a cell for each block of a script; the last block becomes `main()`.

    Two empty lines separate the blocks.
    """
    body = code.split("\n", ast.parse(code).body[0].end_lineno or 0)[-1]
    body = body.replace("Path(__file__).resolve().parent", "Path.cwd()")
    new = nbformat.v4
    parts = [part.strip("\n") for part in body.split("\n\n\n")][:-1]
    cells = [new.new_markdown_cell(f"# {description}")]
    cells += [new.new_code_cell(part) for part in [*parts, "main()"]]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # nbformat's ids are random, and would change the file
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run(path: Path, description: str, package: str) -> Path:
    """Run an example; return the folder with its notebook, its pictures and its output.

    Parameters
    ----------
    path : Path
        The script.
    description : str
        Its docstring.
    package : str
        The hash of the package's code.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell of the notebook fails.
    """
    code = path.read_text(encoding="utf-8")
    folder = RUNS / hashlib.sha256((package + code).encode()).hexdigest()[:20]
    if (folder / "output.txt").exists():
        return folder
    # Pictures are written beside the script; examples may import each other, or read small files.
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns("*.png"), dirs_exist_ok=True)
    notebook = make_notebook(code, description)
    options = {"timeout": LIMIT, "startup_timeout": LIMIT}
    quiet = ["--IPKernelApp.log_level=40"]  # no warning about its local ports
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, resources=place, extra_arguments=quiet, **options).execute()
    nbformat.write(notebook, folder / f"{path.stem}.ipynb")
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(each["text"] for each in outputs if each.get("name") == "stdout")
    (folder / "output.txt").write_text(text, encoding="utf-8")
    return folder


def describe(path: Path) -> str:
    """Return the docstring of an example."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem


def run_all(paths: list[Path], package: str) -> list[Path]:
    """Run the examples in parallel, one on each processor, and return their folders."""
    with (
        patch.dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg", COLUMNS="100"),
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        return list(pool.map(lambda path: run(path, describe(path), package), paths))


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Run the examples, and add a page for each and a page that lists them."""
    digest = hashlib.sha256()
    for source in (ROOT / "tvbandits", ROOT / "experts", ROOT / "datasets"):
        for path in sorted(source.rglob("*.py")):
            digest.update(path.read_bytes())
    for path in EXAMPLES.glob("[a-z]*.py"):  # these need other packages: only the code is shown
        uri = f"examples/{path.name}"
        files.append(File.generated(config, uri, content=path.read_bytes()))
    index = [
        "# Examples\n\nEach page is a script of `examples/`, which ran when this site was built.\n"
    ]
    paths = sorted(EXAMPLES.glob("[0-9]*.py"))
    for path, folder in zip(paths, run_all(paths, digest.hexdigest()), strict=True):
        code, name = path.read_text(encoding="utf-8").rstrip(), path.stem
        description = describe(path)
        title = description.partition("\n")[0].partition(":")[0].rstrip(".")
        attachments = [folder / f"{name}.ipynb", *sorted(folder.glob("*.png"))]
        for each in attachments:
            uri = f"examples/{each.name}"
            files.append(File.generated(config, uri, content=each.read_bytes()))
        pictures = [f"![The picture of {path.name}]({each.name})\n" for each in attachments[1:]]
        output = f"```text\n{(folder / 'output.txt').read_text(encoding='utf-8').rstrip()}\n```\n"
        how = f"`python examples/{path.name}` prints (also [as a notebook]({name}.ipynb)):\n"
        page = [
            f"# {title}\n",
            description,
            "",
            how,
            output,
            *pictures,
            f"```python\n{code}\n```\n",
        ]
        files.append(File.generated(config, f"examples/{name}.md", content="\n".join(page)))
        index.append(f"## [{title}](examples/{name}.md)\n\n{description}\n")
        index += [
            each.replace("](", "](examples/").rstrip() + "{ width=480 }\n" for each in pictures[:1]
        ]
    files.append(File.generated(config, "examples.md", content="\n".join(index)))
    return files

"""A script of `examples/` as a notebook: a cell for each thought, run in a kernel of its own."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

LIMIT = 600
"""Seconds that a cell may take."""


def _cells(code: str) -> list[str]:
    """The code of a script: its imports, its constants, each function and class, the call of `main`."""
    _, *parts = ast.parse(code).body
    lines = code.replace("Path(__file__).resolve().parent", "Path.cwd()").splitlines()
    texts: list[tuple[object, str]] = []
    last = parts[0].lineno - 1
    for part in parts[:-1]:  # the last is `if __name__ == "__main__":`
        together = isinstance(part, ast.Import | ast.ImportFrom), isinstance(part, ast.Assign)
        text = "\n".join(lines[last : part.end_lineno])  # with the comment above it
        texts.append((together if any(together) else part, text))
        last = part.end_lineno or last
    return [
        "\n".join(text for _, text in each).strip("\n")
        for _, each in groupby(texts, lambda pair: pair[0])
    ] + ["main()"]


def notebook_of(script: Path, said: str) -> Any:
    """The notebook of an example, without outputs; its last cell shows what `main` has drawn."""
    new = nbformat.v4
    cells = [new.new_markdown_cell(f"# {said}")]
    cells += [new.new_code_cell(cell) for cell in _cells(script.read_text(encoding="utf-8"))]
    cells.append(
        new.new_code_cell(f'from IPython.display import Image\n\nImage("{script.stem}.png")')
    )
    for number, cell in enumerate(cells):
        cell["id"] = (
            f"cell-{number}"  # instead of one drawn at random: the same script, the same file
        )
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run(script: Path, said: str) -> str:
    """Run an example as a notebook beside its script, keep it with its outputs, and give what it prints.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell does not run to its end.
    """
    notebook = notebook_of(script, said)
    NotebookClient(
        notebook,
        timeout=LIMIT,
        startup_timeout=LIMIT,
        resources={"metadata": {"path": str(script.parent)}},
        extra_arguments=["--IPKernelApp.log_level=40"],  # no warning of its local ports
    ).execute()
    nbformat.validate(notebook)
    nbformat.write(notebook, script.with_suffix(".ipynb"))
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")

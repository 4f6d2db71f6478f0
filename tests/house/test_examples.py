"""Every example runs as it stands, and leaves its picture; benchmarks can be imported."""

import importlib
import runpy
from pathlib import Path

import numpy as np
import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_leaves_its_picture(path, tmp_path, capsys):
    figure = runpy.run_path(str(path))["main"](tmp_path)
    assert not np.isnan(figure)
    assert capsys.readouterr().out.strip()
    picture = tmp_path / f"{path.stem}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_a_benchmark_finds_what_it_imports(path: Path) -> None:
    if "import optuna" in path.read_text():
        pytest.importorskip("optuna")
    importlib.import_module(f"benchmarks.{path.stem}")

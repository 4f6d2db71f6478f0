"""Every example runs unchanged and saves its picture."""

import runpy

import numpy as np
import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_prints_and_saves_its_picture(path, tmp_path, capsys):
    figure = runpy.run_path(str(path))["main"](tmp_path)
    assert not np.isnan(figure)
    assert capsys.readouterr().out.strip()
    picture = tmp_path / f"{path.stem}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")

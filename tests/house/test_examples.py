"""The README's code and every example run as they stand."""

import re
import runpy

import pytest

from tests.places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def test_examples_are_found():
    assert [path.name[:2] for path in EXAMPLES] == ["01", "02", "03", "04", "05"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_leaves_its_picture(path, tmp_path, capsys):
    figure = runpy.run_path(str(path))["main"](tmp_path)
    assert figure == figure  # not NaN
    assert capsys.readouterr().out.strip()
    picture = tmp_path / f"{path.stem}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_readme_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert namespace["average"] < 0.5
    assert namespace["info"].queries.total_cost > 0


def test_readme_shows_pictures_that_exist():
    for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).is_file(), link

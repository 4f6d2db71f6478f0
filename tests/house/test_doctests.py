"""The examples in docstrings print their stated output."""

import doctest
from pathlib import Path

import pytest

import tvbandits
from tests.helpers.modules import modules

FOUND = {
    example.name: example
    for module in (tvbandits, *modules())
    for example in doctest.DocTestFinder().find(module)
    if example.examples
}


@pytest.mark.parametrize("example", FOUND.values(), ids=FOUND)
def test_docstring_example_prints_its_stated_output(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner, said = doctest.DocTestRunner(verbose=False), list[str]()
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)

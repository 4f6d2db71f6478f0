"""The examples in docstrings say what happens."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tvbandits

MODULES = [
    "tvbandits",
    *(
        info.name
        for info in pkgutil.walk_packages(tvbandits.__path__, "tvbandits.")
        if not info.name.endswith(".__main__")
    ),
]


def examples(module: str) -> list[doctest.DocTest]:
    """The docstrings of a module, of its functions and classes that hold examples."""
    found = doctest.DocTestFinder().find(importlib.import_module(module))
    return [each for each in found if each.examples]


WITH_EXAMPLES = [name for name in MODULES if examples(name)]


def test_there_are_some() -> None:
    assert WITH_EXAMPLES


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings(module: str) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    said: list[str] = []
    for each in examples(module):
        runner.run(each, out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 0

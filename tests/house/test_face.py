"""The names of the package: imported when they are used first, and known to type checkers."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tvbandits
from docs.making.public_names import public_modules
from tests.places import ROOT


def test_every_name_is_there_and_declared() -> None:
    tree = ast.parse((ROOT / "tvbandits" / "__init__.py").read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    declared = {
        alias.name
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert declared | {"__version__"} == set(tvbandits.__all__)
    for name in tvbandits.__all__:
        assert getattr(tvbandits, name) is not None
    assert set(tvbandits.__all__) <= set(dir(tvbandits))
    with pytest.raises(AttributeError, match="module 'tvbandits' has no attribute 'Bandid'"):
        _ = tvbandits.Bandid


PACKAGES = [name for name, module in public_modules().items() if hasattr(module, "__path__")]


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_of_a_package_shows_public_names_and_its_modules_alone(name: str) -> None:
    module = importlib.import_module(name)
    inside = {found.name for found in pkgutil.iter_modules(module.__path__)}
    shown = {each for each in dir(module) if not each.startswith("_")}
    assert shown - inside <= set(module.__all__)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.slow
def test_an_import_in_a_notebook_without_widgets_is_silent(tmp_path: Path) -> None:
    """There tqdm, which a dependency takes where it is, warns of a bar that nobody here uses."""
    (tmp_path / "tqdm").mkdir()
    (tmp_path / "tqdm" / "__init__.py").write_text("")
    warns = 'warnings.warn("IProgress not found. Please update jupyter and ipywidgets.")'
    (tmp_path / "tqdm" / "auto.py").write_text(f"import warnings\n{warns}\ntqdm = None\n")
    asked = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import tvbandits.datasets"
    )
    said = subprocess.run(
        [sys.executable, "-W", "always", "-c", f"{asked}; print('tqdm.auto' in sys.modules)"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "True\n"
    assert "IProgress" not in said.stderr


@pytest.mark.slow
def test_help_does_not_import_the_world() -> None:
    asked = "import sys, tvbandits.cli.main; print([m for m in sys.modules if m in %r])"
    heavy = ("numpy", "scipy", "pandas", "sklearn", "matplotlib", "joblib")
    said = subprocess.run(
        [sys.executable, "-c", asked % (heavy,)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "[]\n"

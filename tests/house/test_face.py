"""The public names of the package, which are imported at first use and declared for type checkers."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import tvbandits
from docs.making.package_modules import public_modules
from tests.places import ROOT


def test_package_declares_and_imports_every_public_name() -> None:
    tree = ast.parse((ROOT / "tvbandits" / "__init__.py").read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    declared = {alias.name for node in imports for alias in node.names}
    assert declared | {"__version__"} == set(tvbandits.__all__)
    assert all(getattr(tvbandits, name) is not None for name in tvbandits.__all__)
    assert set(tvbandits.__all__) <= set(dir(tvbandits))
    with pytest.raises(AttributeError, match="Bandid"):
        _ = tvbandits.Bandid


PACKAGES = [name for name, module in public_modules().items() if hasattr(module, "__path__")]


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_of_a_package_shows_only_public_names_and_modules(name: str) -> None:
    module = importlib.import_module(name)
    inside = {found.name for found in pkgutil.iter_modules(module.__path__)}
    shown = {each for each in dir(module) if not each.startswith("_")}
    assert shown - inside <= set(module.__all__)
    assert set(module.__all__) <= set(dir(module))


def outcome(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.slow
def test_import_of_the_package_hides_the_warning_of_tqdm_without_widgets(tmp_path: Path) -> None:
    """A dependency imports tqdm if it is installed, and tqdm warns if ipywidgets are missing."""
    (tmp_path / "tqdm").mkdir()
    (tmp_path / "tqdm" / "__init__.py").write_text("")
    warns = 'warnings.warn("IProgress not found. Please update jupyter and ipywidgets.")'
    (tmp_path / "tqdm" / "auto.py").write_text(f"import warnings\n{warns}\ntqdm = None\n")
    path = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]"
    found = outcome(f"{path}; import tvbandits.datasets; print('tqdm.auto' in sys.modules)")
    assert (found.stdout, "IProgress" in found.stderr) == ("True\n", False)


@pytest.mark.slow
def test_command_line_module_imports_no_heavy_package() -> None:
    heavy = {"numpy", "scipy", "pandas", "sklearn", "matplotlib", "joblib"}
    code = f"import sys, tvbandits.__main__; print({heavy} & sys.modules.keys())"
    assert outcome(code).stdout == "set()\n"

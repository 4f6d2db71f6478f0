"""The folder for OptunaHub: the files that its registry requires, and the sampler that it loads."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

optuna = pytest.importorskip("optuna", reason="needs the extra tvbandits[optuna]")

from tests.places import ROOT  # noqa: E402
from tvbandits.integrations.optuna import TVSampler  # noqa: E402

FOLDER = ROOT / "package" / "samplers" / "tv_bandits"


def load(folder: Path) -> Any:
    """Load a package as OptunaHub does: from its folder, under a name of its own."""
    spec = importlib.util.spec_from_file_location("hub_package", folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hub_folder_has_the_sampler_metadata_and_license_that_the_registry_requires() -> None:
    assert load(FOLDER).TVSampler is TVSampler
    head = (FOLDER / "README.md").read_text(encoding="utf-8").split("---")[1]
    keys = re.findall(r"^(\w+):", head, re.M)
    assert keys == ["author", "title", "description", "tags", "optuna_versions", "license"]
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_hub_example_prints_the_present_best_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = SimpleNamespace(load_module=lambda name: load(ROOT / "package" / name))
    monkeypatch.setitem(sys.modules, "optunahub", hub)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    runpy.run_path(str(FOLDER / "example.py"), run_name="__main__")
    assert re.search(r"now: \{'setting': 0\.\d+\}", capsys.readouterr().out)

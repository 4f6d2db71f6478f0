"""The conda recipe has the requirements of `pyproject.toml`."""

import tomllib

import yaml

from tests.places import ROOT
from tvbandits import __version__


def test_conda_recipe_matches_pyproject() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run = {line.replace("matplotlib-base", "matplotlib") for line in recipe["requirements"]["run"]}
    wanted = {each.replace(">=", " >=") for each in project["dependencies"]}
    assert run == wanted | {f"python {project['requires-python']}"}
    assert recipe["context"]["version"] == __version__
    assert recipe["about"]["summary"] == project["description"]
    scripts = [f"{name} = {where}" for name, where in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts

"""The calls of the pages pass type checkers."""

import ast
import dataclasses
import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.house.test_documents import PYTHON, Block
from tests.places import ROOT

CALLS = """
from pathlib import Path
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from tvbandits import Answers, Bandit, Box, Candidates, Options, Recipe, Space, policies
from tvbandits.acquisition.limits import Limit
from tvbandits.datasets import BumpAndWall, DriftingBump, SwitchingArms
from tvbandits.domains.problem import Problem

problems: list[Problem] = [DriftingBump(), SwitchingArms(), BumpAndWall()]
Answers([0.3, float("nan")], variance=0.01, cost=2.0)
Answers(np.zeros(2), [0.01, 0.02], notes=["refused"])
box = Box([(0, 10)])
Box(np.zeros((1, 2)), context={"outside": (-15, 20)})
Candidates([[0.0], [1.0]], context=[0], retired=[1])
Candidates([(0, 1), (2, 3)], context={"outside": (-15, 20)})
Candidates(Path("points.npy"))
Candidates("points.npy")
Candidates(np.zeros((3, 1)))
recipe = Recipe(box, RBF(1.0), 0.01, beta=2.0)
Recipe(box, RBF(1.0), 0.01, beta="theory", options=Options([Limit("noise", at_most=60.0)]))
bandit = Bandit(recipe)
bandit.tell([[1.0]], [0.5], 1)
space = Space(power=(0, 10))
named = policies.adaptive_gp_ucb(space)
named.tell({"power": 3.0}, 0.5, 1)
named.tell([{"power": 3.0}, {"power": 4.0}], [0.5, 0.6], 1)
named.predict({"power": 3.0}, 2)
named.correct({"power": 3.0}, [0.7], 1)
named.retract({"power": 4.0}, 1)
named.drop({"power": 4.0})
"""

# Valid calls that a checker refuses, by the page and a part of its message.
UNKNOWABLE = {
    # mypy infers the type of the first domain.
    "mypy": {("docs/banners-by-day.md", 'variable has type "Arms"')},
    # paho imports this name without exporting it.
    "basedpyright": {("docs/mqtt.md", '"CallbackAPIVersion" is not exported')},
}


def of_mypy(folder: Path) -> list[tuple[str, str]]:
    """The errors of mypy in the modules of a folder, whose functions need no annotations."""
    options = [
        *("--strict", "--implicit-reexport", "--no-warn-unreachable", "--no-error-summary"),
        *("--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls"),
        *("--config-file", str(ROOT / "pyproject.toml")),
    ]
    where = {"MYPYPATH": os.pathsep.join([str(ROOT), str(folder)]), "PYTHONPATH": str(ROOT)}
    said = checked("mypy", [*options, *map(str, sorted(folder.glob("*.py")))], ROOT, where)
    lines = [line for line in said.splitlines() if ": error: " in line]
    return [(Path(line.partition(":")[0]).stem, line) for line in lines]


def of_pyright(folder: Path) -> list[tuple[str, str]]:
    """The errors of basedpyright, which is pyright without a download, in a folder."""
    settings = {"extraPaths": [str(ROOT), "."], "typeCheckingMode": "basic"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    options = ["--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    said = json.loads(checked("basedpyright", options, folder, {}))
    assert said["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py")))
    return [
        (Path(each["file"]).stem, each["message"])
        for each in said["generalDiagnostics"]
        if each["severity"] == "error"
    ]


def checked(checker: str, options: list[str], folder: Path, where: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", checker, *options],
        env=os.environ | where,
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checker", "complaints"), [("mypy", of_mypy), ("basedpyright", of_pyright)]
)
def test_type_checkers_accept_documented_calls_and_refuse_a_wrong_one(
    checker: str, complaints: Callable[[Path], list[tuple[str, str]]], tmp_path: Path
) -> None:
    pytest.importorskip(checker)
    (tmp_path / "calls.py").write_text(CALLS)
    (tmp_path / "wrong_call.py").write_text("from tvbandits import Box\nBox(object())\n")
    blocks: dict[str, Block] = {}
    for number, block in enumerate(PYTHON):
        name = block.module or f"block_{number}"
        blocks[name] = block
        (tmp_path / f"{name}.py").write_text(block.text)
    found: list[str] = []
    wrong, used = 0, set()
    for name, text in complaints(tmp_path):
        if name == "wrong_call":
            wrong += 1
            continue
        page = blocks[name].page if name in blocks else name
        known = [each for each in UNKNOWABLE[checker] if each[0] == page and each[1] in text]
        used.update(known)
        found += [] if known else [f"{blocks.get(name, name)}: {text}"]
    assert found == []
    assert wrong == 1
    assert used == UNKNOWABLE[checker]


DECLARED = [
    *("tvbandits.domains.candidates:Candidates", "tvbandits.domains.box:Box"),
    *("tvbandits.experts.protocol:Answers", "tvbandits.bandit.recipe:Recipe"),
]


@pytest.mark.parametrize("path", DECLARED)
def test_declared_init_has_the_fields_and_defaults_of_the_dataclass(path: str) -> None:
    """The signature for type checkers has the fields of the dataclass, with their defaults."""
    module, _, name = path.partition(":")
    made: Any = getattr(importlib.import_module(module), name)
    (declared,) = [
        each
        for each in ast.walk(ast.parse(inspect.cleandoc(inspect.getsource(made))))
        if isinstance(each, ast.FunctionDef) and each.name == "__init__"
    ]
    arguments = declared.args.args[1:]
    fields = [each for each in dataclasses.fields(made) if each.init]
    assert [each.arg for each in arguments] == [each.name for each in fields]
    plain = dataclasses.MISSING
    needed = [each for each in fields if each.default is plain and each.default_factory is plain]
    assert len(arguments) - len(declared.args.defaults) == len(needed)
    for each, default in zip(fields[len(needed) :], declared.args.defaults, strict=True):
        if each.default is not plain:
            assert ast.literal_eval(default) == each.default

"""A width, a problem, a policy and an expert of the user's, each from one file in the current folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow

OURS = '''
from dataclasses import dataclass, field
import numpy as np
from tvbandits import Answers, Bandit, Recipe
from tvbandits.datasets import DriftingBump
from tvbandits.policies import PlotStyle, Policy
from tvbandits.policies.setting import Common, assembled, described


@dataclass(frozen=True)
class Shrinking:
    """A width that falls with the number of rewards told."""

    first: float = 3.0

    def __call__(self, situation):
        return self.first / (1 + situation.told) ** 0.5


narrow = Shrinking(0.5)


def made():
    return Shrinking(1.0)


def itself(situation):
    return 0.25


@dataclass(frozen=True)
class Halving:
    """A new way of forgetting: the noise variance doubles every `life` units of time."""

    life: float

    def __call__(self, variance, ages):
        return variance * 2.0 ** (ages.age / self.life)


@described
def halving(domain, kernel, noise_variance, *, life: float = 20.0, confidence=2.0,
            posterior="exact", mean="online", seed=0):
    """Forgets half in every life.

    Parameters
    ----------
    life : float
        In units of time.
    """
    common = Common(confidence, posterior, mean, seed)
    return assembled(domain, kernel, noise_variance, common, aging=Halving(life))


look = PlotStyle("#123456", "-", 1.0, "o")
policy = Policy("halving", halving, "forgets half in every life", paper="", look=look)


def greedy(setting, mean: float = 0.0):
    return Bandit(Recipe(*setting.parts, confidence=0.0, mean=mean), seed=setting.seed)


def problem(candidates: int = 21, horizon: int = 30):
    return DriftingBump(candidates, horizon=horizon)


fixed = DriftingBump(11, horizon=25)


class Flat:
    """Says the same of every point."""

    def query(self, X, t):
        return Answers(np.full(len(X), 1.5), 0.01)


def flat(problem, seed):
    assert isinstance(seed, int) and problem.domain
    return Flat()
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("plug") / "here"
    (made / "lab").mkdir(parents=True)
    (made / "lab" / "__init__.py").touch()
    (made / "lab" / "ours.py").write_text(OURS)
    return made


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tvbandits", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def compared(folder: Path, problem: str, *arguments: str, jobs: int = 1) -> list[dict[str, Any]]:
    said = run(
        folder, "compare", problem, "--horizon=8", "--seeds=2", f"--jobs={jobs}",
        "--format=json", *arguments,
    )  # fmt: skip
    assert (said.returncode, said.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(said.stdout)["summary"]
    return [{k: v for k, v in line.items() if k != "seconds_per_step"} for line in found]


def test_all_of_them_at_once_in_one_process_and_in_two(folder: Path) -> None:
    given = [
        "--policy=lab.ours:policy:life=5,confidence=1",
        "--policy=lab.ours:greedy:mean=1",
        "--policy=sparq-gp-ucb",
        "--confidence=lab.ours:Shrinking",
        "--expert=lab.ours:flat",
    ]
    one = compared(folder, "lab.ours:problem:candidates=31", *given)
    assert one == compared(folder, "lab.ours:problem:candidates=31", *given, jobs=2)
    assert [line["policy"] for line in one] == [
        text.removeprefix("--policy=") for text in given[:3]
    ]
    widths = [line["confidence"] for line in one]
    assert widths == ["1", "lab.ours:Shrinking", "lab.ours:Shrinking"]
    assert {line["problem"] for line in one} == {"lab.ours:problem:candidates=31"}
    assert one[2]["answered_per_step"] > 1
    honest = compared(folder, "lab.ours:problem:candidates=31", *given[2:4])
    assert honest[0]["average_regret"] != one[2]["average_regret"]


def test_a_width_is_a_class_an_instance_a_factory_or_a_function(folder: Path) -> None:
    names = ("Shrinking", "narrow", "made", "itself")
    found = [
        compared(folder, "lab.ours:fixed", "--policy=gp-ucb", f"--confidence=lab.ours:{name}")[0]
        for name in names
    ]
    assert [line["confidence"] for line in found] == [f"lab.ours:{name}" for name in names]
    assert len({line["average_regret"] for line in found}) > 1
    (within,) = compared(folder, "lab.ours:fixed", "--policy=gp-ucb:confidence=lab.ours:narrow")
    assert within["average_regret"] == found[1]["average_regret"]


def test_an_expert_is_a_class_too(folder: Path) -> None:
    given = ["--policy=sparq-gp-ucb", "--expert=lab.ours:flat"]
    of_class = [given[0], "--expert=lab.ours:Flat"]
    assert compared(folder, "lab.ours:fixed", *given) == compared(
        folder, "lab.ours:fixed", *of_class
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere:problem", '"nowhere:problem": cannot import nowhere: ModuleNotFoundError'),
        ("lab.ours:problm", '"lab.ours:problm": lab.ours has no "problm"; did you mean "problem"?'),
        ("lab.ours:problem:size=3", 'unknown parameter "size"; its parameters: candidates, horizon'),
        ("lab.ours:fixed:size=3", 'unknown parameter "size"; its parameters: none'),
        ("lab.ours:narrow", "is not a problem: it has no best, domain"),
        ("lab.ours:fixed --policy lab.ours:fixed", "must be a policy, or a function of a Setting"),
        ("lab.ours:fixed --policy lab.ours:greedy:x=1", 'unknown parameter "x"; its parameters: mean'),
        ("lab.ours:fixed --confidence lab.ours:fixed", 'confidence must be "theory", a number or'),
        ("lab.ours:fixed --expert lab.ours:fixed", "--expert must be package.module:maker"),
        ("lab.ours:fixed --expert flat", "--expert must be package.module:maker"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line(folder: Path, arguments: str, message: str) -> None:
    said = run(folder, "compare", *arguments.split())
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.count("\n") == 1
    assert message in said.stderr

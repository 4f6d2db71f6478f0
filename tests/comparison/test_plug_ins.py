"""Code of a user's own is part of what makes a run the same: its source is kept with the runs."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import Command, one_line
from tvbandits.comparison import files
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.files import RunStore
from tvbandits.datasets import DriftingBump
from tvbandits.policies.names import sources_of

MODULES = {
    "paper.py": "import paper_parts.inner\nfrom tvbandits.policies import POLICIES\n"
    "maker = POLICIES['uniform'].make\n",
    "paper_parts/__init__.py": "",
    "paper_parts/inner.py": "WIDTH = 1.0\n",
    "paper_problem.py": "from tvbandits.datasets import DriftingBump\n"
    "problem = DriftingBump(candidates=21)\n",
    "paper_expert.py": "from tvbandits.comparison.compare import simulator as expert\n",
    "paper_width.py": "from tvbandits.acquisition.widths import Fixed\nwidth = Fixed(1.5)\n",
    "paper_other.py": "from tvbandits.acquisition.widths import Theory as width\n",
    "aside.py": "",
}
ALL = {
    *("paper", "paper_parts", "paper_parts.inner", "paper_problem"),
    *("paper_expert", "paper_width", "paper_other"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with modules of a user's own."""
    (tmp_path / "paper_parts").mkdir()
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        place = getattr(sys.modules[name], "__file__", None)
        if place is not None and Path(place).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def play(command: Command) -> Any:
    given = [
        *("compare", "paper_problem:problem", "--policy=paper:maker", "--policy=uniform"),
        *("--policy=gp-ucb:beta=paper_other:width", "--expert=paper_expert:expert"),
        *("--beta=paper_width:width", "--horizon=3", "--seeds=1", "--jobs=1", "--out=done"),
    ]
    return lambda: command(*given)


def test_compare_keeps_the_sources_of_plug_ins(folder: Path, play: Any) -> None:
    assert play().status == 0
    record = json.loads((folder / "done" / files.RUN).read_text())
    assert set(record["arguments"][files.SOURCES]) == ALL
    (folder / "aside.py").write_text("# of no consequence")
    assert play().status == 0


@pytest.mark.parametrize("name", sorted(set(MODULES) - {"aside.py"}))
def test_compare_refuses_a_plug_in_that_was_changed(folder: Path, play: Any, name: str) -> None:
    assert play().status == 0
    rows = (folder / "done" / files.ROWS).read_bytes()
    (folder / name).write_text(MODULES[name] + "# changed\n")
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    one_line(play(), rf'"done" holds runs of another {module}, ')
    assert (folder / "done" / files.ROWS).read_bytes() == rows
    (folder / name).write_text(MODULES[name])
    assert play().status == 0


def test_compare_refuses_a_changed_plug_in_after_an_interruption(
    folder: Path, play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(plan: Comparison, there: Any) -> Any:
        yield next(iterate(plan, there))
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("tvbandits.cli.comparing.iterate", interrupted)
        assert play().status == 130
    (folder / "paper.py").write_text("changed = True\n" + MODULES["paper.py"])
    one_line(play(), r"runs of another paper, ")


def test_board_refuses_a_newcomer_that_was_changed(folder: Path, command: Command) -> None:
    def play(*more: str) -> Any:
        given = ("--problem=drifting-bump:candidates=21", "--only=uniform", "--only=eps-greedy")
        more = ("--horizon=3", "--seeds=2", "--jobs=1", "--out=done", *more)
        return command("board", "quick", *given, *more)

    assert play().status == 0
    assert play("--policy=paper:maker").status == 0  # a board may take up another one
    assert play("--policy=paper_two:maker").status == 2  # no such module
    record = json.loads((folder / "done" / files.RUN).read_text())
    assert set(record["arguments"][files.SOURCES]) >= {"paper", "paper_parts.inner"}
    (folder / "paper.py").write_text(MODULES["paper.py"] + "# changed\n")
    one_line(play("--policy=paper:maker"), "runs of another paper, ")
    assert play().status == 0  # without it


def test_a_store_keeps_the_sources_of_all_its_runs(tmp_path: Path) -> None:
    plan = Comparison(DriftingBump(candidates=21), ["uniform"], 3, 3)
    runs = list(iterate(plan))
    for run, sources in zip(runs, ({"a": 1}, {"b": 2}, {}), strict=True):
        RunStore(tmp_path, {"x": 1, files.SOURCES: sources}, plan.steps).save(run)
    record = json.loads((tmp_path / files.RUN).read_text())
    assert record["arguments"][files.SOURCES] == {"a": 1, "b": 2}
    for sources in ({"a": 2}, {"c": 0, "b": 1}):
        with pytest.raises(ValueError, match=r"runs of another [ab], "):
            RunStore(tmp_path, {"x": 1, files.SOURCES: sources}, plan.steps)
    assert len(RunStore(tmp_path, {"x": 1}, plan.steps).load()) == 3


def test_sources_of_what_is_no_plug_in_are_left_out(folder: Path) -> None:
    texts = ["gp-ucb", "lifted:hartmann3", "table:points.csv", "sw-gp-ucb:window=40", "no_such:one"]
    assert sources_of(texts) == {}
    assert sources_of(["tvbandits.policies:POLICIES"]) == {}
    assert set(sources_of(["x:kernel=sklearn.base:clone"])) == {"sklearn.base"}
    assert folder.is_dir()

"""Runs of plug-ins are repeated if their sources change, whose checksums are saved with the runs."""

import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.commands import Command
from tests.helpers.refusals import assert_refused
from tvbandits.comparison import files
from tvbandits.comparison.compare import Comparison, compare, iterate
from tvbandits.comparison.files import RunStore
from tvbandits.comparison.sources import sources_of
from tvbandits.datasets import DriftingBump

pytestmark = pytest.mark.usefixtures("no_pictures")

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
    """The current folder, with the modules of plug-ins."""
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


def test_compare_command_saves_the_checksums_of_plug_in_sources(folder: Path, play: Any) -> None:
    assert play().status == 0
    saved = sources(folder / "done")
    assert {name for each in saved.values() for name in each} == ALL
    # The sources of a policy include those of its own width, but of no width or expert it does not use.
    assert {label: set(each) for label, each in saved.items() if label != "paper:maker"} == {
        "paper_problem:problem": {"paper_problem"},
        "gp-ucb:beta=paper_other:width": {"paper_other"},
    }
    (folder / "aside.py").write_text("# of no consequence")
    assert play().status == 0


def sources(folder: Path) -> dict[str, dict[str, int]]:
    saved: dict[str, dict[str, int]] = json.loads((folder / files.RUN).read_text())["arguments"][
        files.SOURCES
    ]
    return saved


def rows_of(folder: Path) -> pd.DataFrame:
    return files.read(folder).rows


@pytest.mark.parametrize(
    "name", ["paper.py", "paper_parts/inner.py", "paper_problem.py", "paper_other.py"]
)
def test_compare_command_repeats_the_runs_of_a_changed_plug_in(
    folder: Path, play: Any, name: str
) -> None:
    assert play().status == 0
    before = rows_of(folder / "done").assign(seconds=0.0)
    (folder / name).write_text(MODULES[name] + "# changed\n")
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    again = 3 if name == "paper_problem.py" else 1
    runs = "3 runs" if again == 3 else "1 run"
    said = play()
    changed, *left, _ = said.err.splitlines()
    assert changed == f"{module} has changed: {runs} of it will be played again"
    assert left == ([] if again == 3 else ["2 of 3 runs exist already"])
    pd.testing.assert_frame_equal(rows_of(folder / "done").assign(seconds=0.0), before)
    assert "has changed" not in play().err


@pytest.mark.parametrize(("name", "again"), [("paper_width", 3), ("paper_expert", 2)])
def test_compare_command_repeats_the_runs_that_use_a_changed_width_or_expert(
    folder: Path, command: Command, name: str, again: int
) -> None:
    def play() -> Any:
        policies = ("uniform", "gp-ucb", "gp-ucb:beta=1", "sparq-gp-ucb", "paper:maker")
        return command(
            *("compare", "paper_problem:problem", *(f"--policy={each}" for each in policies)),
            *("--expert=paper_expert:expert", "--beta=paper_width:width"),
            *("--horizon=3", "--seeds=1", "--jobs=1", "--out=done"),
        )

    assert play().status == 0
    (folder / f"{name}.py").write_text(MODULES[f"{name}.py"] + "# changed\n")
    changed, left, _ = play().err.splitlines()
    assert changed == f"{name} has changed: {again} runs of it will be played again"
    assert left == f"{5 - again} of 5 runs exist already"


def test_compare_command_runs_the_new_code_of_a_changed_plug_in(folder: Path, play: Any) -> None:
    assert play().status == 0
    for policy in ("uniform", "eps-greedy"):
        (folder / "paper.py").write_text(MODULES["paper.py"].replace("uniform", policy))
        for module in ("paper", "paper_parts", "paper_parts.inner"):
            sys.modules.pop(module, None)  # as in another process
        assert play().status == 0
        rows = rows_of(folder / "done")
        mine = rows[rows["policy"] == "paper:maker"]
        problem = sys.modules["paper_problem"].problem
        expected = compare(problem, [policy], 1, 3)
        np.testing.assert_array_equal(mine["x0"], expected["x0"])
        assert set(rows["policy"]) == {*("paper:maker", "uniform", "gp-ucb:beta=paper_other:width")}


def test_compare_command_repeats_a_changed_plug_in_after_an_interruption(
    folder: Path, play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(plan: Comparison, there: Any) -> Any:
        yield next(iterate(plan, there))
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("tvbandits.cli.comparing.iterate", interrupted)
        assert play().status == 130
    (folder / "paper.py").write_text("changed = True\n" + MODULES["paper.py"])
    # Stopped before its run was repeated: the old run is gone.
    with monkeypatch.context() as context:
        context.setattr("tvbandits.cli.comparing.iterate", lambda *_: iter(()))
        assert "paper has changed: 1 run of it" in play().err
    assert "exist already" not in play().err
    assert sources(folder / "done")["paper:maker"]["paper"] == zlib.crc32(
        (folder / "paper.py").read_bytes()
    )


def test_compare_command_removes_runs_of_a_changed_policy_that_is_not_named(
    folder: Path, command: Any
) -> None:
    shared = ("compare", "drifting-bump:candidates=21", "--horizon=3", "--seeds=1", "--jobs=1")
    assert command(*shared, "--policy=paper:maker", "--out=done").status == 0
    (folder / "paper_parts" / "inner.py").write_text("WIDTH = 2.0\n")
    said = command(*shared, "--policy=uniform", "--out=done")
    removed = "1 run of paper:maker removed (name it to play it again)"
    assert said.err.splitlines()[0] == f"paper_parts.inner has changed: {removed}"
    assert set(rows_of(folder / "done")["policy"]) == {"uniform"}


def test_compare_command_keeps_runs_of_a_policy_with_a_missing_module(
    folder: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = ("compare", "drifting-bump:candidates=21", "--horizon=3", "--seeds=1", "--jobs=1")
    assert command(*shared, "--policy=paper:maker", "--out=done").status == 0
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(folder)])
    del sys.modules["paper"]
    (folder / "paper.py").rename(folder / "gone.py")
    assert command(*shared, "--policy=uniform", "--out=done").status == 0
    assert set(rows_of(folder / "done")["policy"]) == {"paper:maker", "uniform"}


def test_board_command_repeats_the_runs_of_a_changed_added_policy(
    folder: Path, command: Command
) -> None:
    def play(*more: str) -> Any:
        given = ("--problem=drifting-bump:candidates=21", "--only=uniform", "--only=eps-greedy")
        more = ("--horizon=3", "--seeds=2", "--jobs=1", "--out=done", *more)
        return command("board", "quick", *given, *more)

    assert play().status == 0
    assert play("--policy=paper:maker").status == 0  # a board accepts another policy
    assert play("--policy=paper_two:maker").status == 2  # no such module
    assert set(sources(folder / "done")["paper:maker"]) >= {"paper", "paper_parts.inner"}
    (folder / "paper.py").write_text(MODULES["paper.py"] + "# changed\n")
    said = play("--policy=paper:maker").err
    assert "paper has changed: 2 runs of it will be played again" in said
    assert "4 of 6 runs exist already" in said


def test_run_store_keeps_the_sources_of_all_its_runs(tmp_path: Path) -> None:
    plan = Comparison(DriftingBump(candidates=21), ["uniform", "eps-greedy"], 1, 3)
    uniform, greedy = iterate(plan)

    def store(**sums: int) -> RunStore:
        return RunStore(tmp_path, {"x": 1, files.SOURCES: {"uniform": sums} if sums else {}}, {})

    RunStore(tmp_path, {"x": 1, files.SOURCES: {"uniform": {"a": 1}}}, plan.steps).save(uniform)
    store().save(greedy)
    assert sources(tmp_path) == {"uniform": {"a": 1}}
    assert store(a=1, b=2).remove_changed() == ([], [])
    assert len(store(a=1).load()) == 2
    changed = store(a=2)
    assert changed.remove_changed() == (["a"], [uniform.key])
    assert list(changed.load()) == [greedy.key]
    assert list(store(a=1).load()) == [greedy.key]


def test_run_store_with_equal_information_removes_all_runs_after_any_change(tmp_path: Path) -> None:
    plan = Comparison(DriftingBump(candidates=21), ["uniform", "eps-greedy"], 1, 3)
    keys = [run.key for run in iterate(plan)]
    arguments = {"equal_information": True, "policies": list(plan.policies)}
    before = RunStore(tmp_path, {**arguments, files.SOURCES: {"uniform": {"a": 1}}}, plan.steps)
    for run in iterate(plan):
        before.save(run)
    after = RunStore(tmp_path, {**arguments, files.SOURCES: {"uniform": {"a": 2}}}, plan.steps)
    assert set(after.remove_changed().keys) == set(keys)
    fewer = {**arguments, "policies": ["uniform"]}
    assert_refused(
        ValueError, "policies with equal information", RunStore, tmp_path, fewer, plan.steps
    )


def test_compare_accepts_problem_names_of_the_command_line(folder: Path, command: Command) -> None:
    texts = ["paper_problem:problem", "Drifting-Bump:candidates=21"]
    out = [
        "--policy=uniform",
        "--seeds=2",
        "--horizon=4",
        "--jobs=1",
        "--out",
        str(folder / "runs"),
    ]
    command("compare", *texts, *out)
    rows = compare(texts, "uniform", seeds=2, horizon=4).drop(columns="seconds")
    assert [*rows["problem"].unique()] == [texts[0], "drifting-bump:candidates=21"]
    pd.testing.assert_frame_equal(rows_of(folder / "runs").drop(columns="seconds"), rows)
    labelled = compare({"mine": texts[0]}, "uniform", seeds=2, horizon=4)
    assert [*labelled["problem"].unique()] == ["mine"]
    assert labelled["regret"].tolist() == rows["regret"].tolist()[:8]


@pytest.mark.parametrize(
    ("problems", "match"),
    [
        ("paper_problem:problems", "paper_problem.*problems"),
        ("drifting-bomp", "drifting-bump"),
        (["paper_problem:problem"] * 2, "different names"),
        ({"mine": "ozone"}, '"ozone" reads files'),
        ({"mine": "paper_width:width"}, "problems must be"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_compare_refuses_an_invalid_problem_name(problems: Any, match: str) -> None:
    assert_refused(ValueError, match, compare, problems, "uniform", 1)


def test_sources_of_a_module_include_its_imports_without_importing_them(folder: Path) -> None:
    (folder / "lazy.py").write_text("def maker(setting):\n    from paper_parts import inner\n")
    (folder / "broken.py").write_text("def (")
    assert set(sources_of(["lazy:maker"])) == {"lazy", "paper_parts", "paper_parts.inner"}
    assert set(sources_of(["broken:maker"])) == {"broken"}
    assert "lazy" not in sys.modules  # nothing is imported for it
    (folder / "points.csv").write_text("1,2\n")
    assert sources_of(["table:points.csv:noise=1"]) == {"points.csv": zlib.crc32(b"1,2\n")}


@pytest.mark.usefixtures("folder")
def test_sources_of_omits_texts_without_a_plug_in_and_imports_of_installed_packages() -> None:
    texts = ["gp-ucb", "lifted:hartmann3", "table:points.csv", "sw-gp-ucb:window=40", "no_such:one"]
    assert sources_of(texts) == {}
    assert sources_of(["tvbandits.policies:POLICIES"]) == {}
    assert set(sources_of(["x:kernel=sklearn.base:clone"])) == {"sklearn.base"}

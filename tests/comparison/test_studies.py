"""Saved runs, equal rows on a cluster, the board command, and the files of a comparison."""

import contextlib
import gzip
import json
import math
import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, policies
from tvbandits.__main__ import main
from tvbandits.cli import comparing
from tvbandits.cli.options import BoardOptions
from tvbandits.comparison import board as suites, files, plots
from tvbandits.comparison.arguments import make_problem
from tvbandits.comparison.board import Board
from tvbandits.comparison.compare import Comparison, compare, iterate, play_on_cluster
from tvbandits.comparison.files import RunStore, file_name
from tvbandits.comparison.report import comparison_report
from tvbandits.comparison.summary import Run, panels_of, summarise
from tvbandits.datasets import DriftingBump, Exoskeleton, GPDrift
from tvbandits.datasets.tables.references import References
from tvbandits.policies import POLICIES, Setting
from tvbandits.policies.names import find_spec

PLAN = Comparison(
    [DriftingBump(candidates=21), GPDrift(points_per_axis=4)], ["uniform", "gp-ucb"], 2, 12
)


def plain(runs: Any) -> dict[Any, Any]:
    """Rows without their times, by run."""
    return {
        run.key: [
            {k: repr(v) for k, v in row.items() if k != "seconds"}
            for row in run.rows.to_dict("records")
        ]
        for run in runs
    }


def test_iterate_omits_finished_runs() -> None:
    assert {run.key for run in iterate(PLAN, PLAN.runs[2:])} == set(PLAN.runs[:2])


def test_run_store_loads_saved_runs_bitwise(tmp_path: Path) -> None:
    runs = list(RunStore(tmp_path, {"x": 1}, PLAN.steps).save_each(iterate(PLAN)))
    assert len(list((tmp_path / "runs").glob("*.csv.gz"))) == len(runs)
    again = RunStore(tmp_path, {"x": 1}, PLAN.steps).load()
    assert plain(Run(*key, rows) for key, rows in again.items()) == plain(runs)


def test_run_store_ignores_damaged_and_short_files(tmp_path: Path) -> None:
    store = RunStore(tmp_path, {}, PLAN.steps)
    run = next(iterate(PLAN))
    store.save(run)
    path = tmp_path / "runs" / file_name(run.key)
    assert len(store.load()) == 1
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"not gzip"):
        path.write_bytes(damaged)
        assert store.load() == {}
    for at in range(7, len(whole), len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        for key, rows in store.load().items():
            assert plain([Run(*key, rows)]) == plain([run])
    store.save(Run(run.problem, run.policy, run.seed, run.rows.iloc[:-1]))
    assert store.load() == {}


def test_run_store_refuses_runs_of_another_comparison(tmp_path: Path) -> None:
    RunStore(tmp_path, {"horizon": 5}, PLAN.steps).save(next(iterate(PLAN)))
    with pytest.raises(ValueError, match=r"horizon .*5.* 6"):
        RunStore(tmp_path, {"horizon": 6}, PLAN.steps)
    kept = RunStore(tmp_path, {"horizon": 5}, PLAN.steps).load()
    assert list(kept) == PLAN.runs[:1]
    (tmp_path / files.RUN).write_text("{")
    assert_refused(ValueError, "cannot be read", RunStore, tmp_path, {"horizon": 5}, PLAN.steps)


# --- Dask -------------------------------------------------------------------------------------------


class KillsItsWorkerOnce:
    """A maker whose first call kills its process."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, setting: Any) -> Any:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return POLICIES["uniform"].make(setting)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_play_on_cluster_gives_equal_rows_and_repeats_the_run_of_a_killed_worker(
    tmp_path: Path,
) -> None:
    distributed = pytest.importorskip("distributed")
    killed = {"uniform": KillsItsWorkerOnce(tmp_path / "mark")}
    plan = Comparison(DriftingBump(candidates=21), killed, 2, 5)
    said: list[str] = []
    options = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": 0}
    with distributed.LocalCluster(**options, dashboard_address="127.0.0.1:0") as cluster:
        found = plain(play_on_cluster(cluster.scheduler_address, [plan], [], said.append))
    assert (tmp_path / "mark").exists()
    rows = plain(iterate(Comparison(DriftingBump(candidates=21), ["uniform"], 2, 5)))
    for key, expected in rows.items():
        for one, other in zip(found[key], expected, strict=True):
            assert {**one, "width": other["width"]} == other
    assert said[0].startswith("dashboard: http")


@pytest.mark.parametrize("where", ["", "local", "local:2", "somewhere", "http://x:1"])
def test_play_on_cluster_refuses_an_invalid_address(where: str) -> None:
    assert_refused(ValueError, "--cluster must ", lambda: next(play_on_cluster(where, [], [])))


# --- the board --------------------------------------------------------------------------------------


def small(**changes: Any) -> None:
    only = ["uniform", "gp-ucb", "tv-gp-ucb:forgetting_rate=0.1"]
    played = ["exoskeleton:candidates=11", "gp-drift:points_per_axis=3"]
    given = BoardOptions("quick", None, only, played, seeds=2, horizon=8, jobs=1)
    comparing.board(replace(given, **changes))


def test_board_command_resumes_and_adds_a_row_for_another_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["tvbandits", "board", "quick"])
    out = tmp_path / "board"
    small(out=str(out))
    kept = sorted((out / "runs").iterdir())
    assert len(kept) == 12
    times = {path: path.stat().st_mtime_ns for path in kept[1:]}
    kept[0].unlink()
    small(out=str(out), policy=["sw-gp-ucb:window=4"])
    assert all(path.stat().st_mtime_ns == before for path, before in times.items())
    assert len(list((out / "runs").iterdir())) == 16
    said = capsys.readouterr()
    assert "11 of 16 runs exist already" in said.err
    assert re.search(r"^\| sw-gp-ucb:window=4 \| \d\.\d\d \|$", said.out, re.M)  # mean rank
    assert re.search(
        r"^\| sw-gp-ucb:window=4 \| .* \| \d+\.\d+ \|$", said.out, re.M
    )  # milliseconds
    table = pd.read_csv(out / "regret.csv", index_col="problem")
    assert table.shape == (2, 4)
    summary = pd.read_csv(out / "summary.csv")
    mean = summary.loc[summary["policy"] == "gp-ucb", "average_regret"].to_list()
    assert mean == pytest.approx(table["gp-ucb"].to_list())
    made = json.loads((out / "made.json").read_text())
    assert made["command"] == "tvbandits board quick"
    assert {"suite", "versions", "machine", "date"} <= set(made)
    for name in ("ranks.png", "profile.png"):
        assert (out / name).stat().st_size > 5000


def test_board_groups_widths_that_vary_by_seed_under_one_policy() -> None:
    problem = Exoskeleton(candidates=11)

    def wide(setting: Setting) -> Bandit:
        width = 1.0 + setting.forgetting_rate
        return policies.gp_ucb(**setting.parts, beta=width, seed=setting.seed)

    plan = Comparison(problem, {"wide": wide, "gp-ucb": POLICIES["gp-ucb"].make}, 3, 8)
    rows = pd.concat([run.rows for run in iterate(plan)])
    assert rows["width"].nunique() > 2
    summary = Board.of(rows).summary
    assert summary["policy"].to_list() == ["wide", "gp-ucb"]
    assert summary["seeds"].to_list() == [3, 3]
    assert summary["width"].to_list() == ["by seed", "2"]
    pd.testing.assert_frame_equal(summarise(rows), summary[summarise(rows).columns])
    assert [panel.width for panel in panels_of(rows)] == ["several widths"]


def test_board_command_refuses_an_unknown_suite_by_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("sys.argv", ["tvbandits", "board", "slow"])
    assert_refused(SystemExit, "2", main)
    assert 'SUITE must be one of quick, paper, peaks, got "slow"' in capsys.readouterr().err


def test_suites_name_existing_problems_and_policies() -> None:
    for suite in suites.SUITES.values():
        for text in suite.problems:
            assert make_problem(text, [], None).horizon
        for text in suite.policies:
            assert find_spec("policy", text, POLICIES)


# --- the files of a comparison: complete or absent, and read as they were written

REFERENCES = {"1": References(1.25, 0.1 + 0.2, math.pi, 1 / 3)}
UNITS = {"1": "ppb"}
ARGUMENTS = {"problems": ["1"], "interrupted": False}
FILES = {files.ROWS, files.SUMMARY, files.PICTURE, files.RUN}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Rows whose labels look like a number and a missing value."""
    names = ["uniform", "sparq-gp-ucb"]
    made = compare({"1": DriftingBump(51, horizon=6)}, names, [4, 2], beta=2)
    return made.assign(policy=made["policy"].replace({"uniform": "NA"}))


@pytest.fixture(scope="module")
def whole(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a comparison wrote; tests change copies of it."""
    out = tmp_path_factory.mktemp("whole")
    write(out, rows)
    return out


def write(out: Path, rows: pd.DataFrame) -> None:
    files.write(out, rows, REFERENCES, UNITS, ARGUMENTS)
    files.write_picture(out, plots.regret_figure(rows, REFERENCES, UNITS))


def test_files_read_returns_the_written_comparison(rows: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "new" / "deep"
    write(out, rows)
    assert {path.name for path in out.iterdir()} == FILES
    found, references, units, record = files.read(out)
    assert record["arguments"] == ARGUMENTS
    pd.testing.assert_frame_equal(found, rows, check_exact=True)
    assert (references, units) == (REFERENCES, UNITS)
    assert found["policy"].unique().tolist() == ["NA", "sparq-gp-ucb"]
    assert found["problem"].unique().tolist() == ["1"]
    assert found["width"].unique().tolist() == ["none", "2"]


def test_files_write_gives_equal_bytes_for_equal_rows(rows: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, rows)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


@pytest.mark.parametrize("failing", ["to_csv", "savefig", "write_text"])
@pytest.mark.parametrize("before", [True, False])
def test_files_write_leaves_complete_files_after_a_failure(
    rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, before: bool
) -> None:
    if before:
        write(tmp_path, rows[rows["seed"] == 2])
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def half(written: Any, path: Any, *_: Any, **__: Any) -> None:
        Path(written if failing == "write_text" else path).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    owner = {
        "to_csv": pd.DataFrame,
        "savefig": __import__("matplotlib.figure").figure.Figure,
        "write_text": Path,
    }[failing]
    monkeypatch.setattr(owner, failing, half)
    assert_refused(OSError, "No space left", write, tmp_path, rows)
    monkeypatch.undo()
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(left) <= FILES
    assert b"half of it" not in left.values()
    broken = {"to_csv": files.ROWS, "savefig": files.PICTURE, "write_text": files.RUN}[failing]
    assert left.get(broken) == old.get(broken)
    RunStore(tmp_path, ARGUMENTS, {})  # raises nothing, so the comparison can be resumed


# --- folders


def test_writable_folder_leaves_the_folder_unchanged(tmp_path: Path) -> None:
    assert files.writable_folder(tmp_path) == tmp_path
    new = tmp_path / "a" / "b"
    assert files.writable_folder(new) == new
    assert list(tmp_path.iterdir()) == []


def truncated(out: Path) -> None:
    path = out / files.ROWS
    path.write_bytes(path.read_bytes()[:-40])


def scrambled(out: Path) -> None:
    path = out / files.ROWS
    content = bytearray(path.read_bytes())
    content[60:120] = bytes(60)
    path.write_bytes(content)


def plain_files(text: str) -> Callable[[Path], None]:
    return lambda out: (out / files.ROWS).write_bytes(gzip.compress(text.encode())) and None


def record(text: str) -> Callable[[Path], None]:
    return lambda out: (out / files.RUN).write_text(text) and None


NUMBERS = '{"uniform": 1, "best_fixed": 1, "last_best": 1, "all_read": %s}'


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        scrambled,
        plain_files(""),
        plain_files("a,b\n1,2\n"),
        plain_files("problem,policy,width,t,seed,regret,average_regret,queries,bound\n"),
        plain_files(
            "problem,policy,width,t,seed,regret,average_regret,queries,bound\na,b,c,x,1,1,1,1,1"
        ),
        lambda out: (out / files.ROWS).write_bytes(b"not gzip"),
        record(""),
        record("[]"),
        record("{}"),
        record('{"references": 3, "units": {}}'),
        record('{"references": {"1": {"odd": 1}}, "units": {}}'),
        record('{"references": {"1": [1, 2]}, "units": {}}'),
        record(f'{{"references": {{"1": {NUMBERS % "2"}}}, "units": {{"1": 5}}}}'),
        record(f'{{"references": {{"1": {NUMBERS % "2"}}}, "units": ["ab"]}}'),
        record(f'{{"references": {{"1": {NUMBERS % "null"}}}, "units": {{}}}}'),
        record(f'{{"references": {{"1": {NUMBERS % "[]"}}}, "units": {{}}}}'),
        record('{"references": {}, "units": {}, "arguments": "ab"}'),
    ],
)
def test_files_read_report_and_run_store_refuse_damaged_files(
    whole: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    damage(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for reader in (files.read, comparison_report, partial(RunStore, arguments={}, steps={})):
        assert_refused(ValueError, f'"{re.escape(str(tmp_path))}', reader, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("name", ["arguments", "versions", "tvbandits"])
@pytest.mark.parametrize("value", [5, None, ["a"], {"problems": 5, "policies": 5, "data": 5}])
def test_comparison_report_handles_a_record_with_a_value_of_the_wrong_type(
    whole: Path, tmp_path: Path, name: str, value: Any
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    record = json.loads((tmp_path / files.RUN).read_text())
    (tmp_path / files.RUN).write_text(json.dumps({**record, name: value}))
    if name == "arguments":
        assert_refused(ValueError, rf"{files.RUN}|cannot be read", comparison_report, tmp_path)
        return
    with contextlib.suppress(ValueError):
        assert "<html" in comparison_report(tmp_path)


@pytest.mark.parametrize("value", ["ab", 5, [1], None])
def test_run_store_refuses_recorded_arguments_of_the_wrong_type(
    tmp_path: Path, value: object
) -> None:
    record = json.dumps({"tvbandits": "1", "arguments": value})
    (tmp_path / files.RUN).write_text(record)
    assert_refused(ValueError, files.RUN, files.RunStore, tmp_path, {}, {})
    assert (tmp_path / files.RUN).read_text() == record

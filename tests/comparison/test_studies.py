"""Runs kept on disk, engines that give equal rows, and the board on the command line."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tvbandits.cli import comparing
from tvbandits.cli.main import main
from tvbandits.cli.problems import PROBLEMS
from tvbandits.comparison import board as suites
from tvbandits.comparison.board import Board
from tvbandits.comparison.compare import Cluster, Comparison, Here, iterate, play_task, tasks_of
from tvbandits.comparison.files import RunStore, file_name
from tvbandits.comparison.playing import Run
from tvbandits.datasets import DriftingBump, Exoskeleton, GPDrift
from tvbandits.policies import POLICIES
from tvbandits.policies.names import known_spec

PLAN = Comparison(
    [DriftingBump(candidates=21), GPDrift(points_per_axis=4)], ["uniform", "gp-ucb"], 2, 12
)


def plain(runs: Any) -> dict[Any, Any]:
    """Rows without their times, by run."""
    return {
        (run.problem, run.policy, run.seed): [
            {k: repr(v) for k, v in row.items() if k != "seconds"} for row in run.rows
        ]
        for run in runs
    }


@pytest.mark.slow
def test_tasks_give_the_rows_of_a_comparison_in_any_process() -> None:
    expected = plain(iterate(PLAN))
    assert plain(play_task(task) for task in reversed(tasks_of(PLAN))) == expected
    assert plain(Here(2)(tasks_of(PLAN))) == expected


def test_finished_runs_are_left_out() -> None:
    tasks = tasks_of(PLAN, [("gp-drift", "uniform", 1)])
    assert len(tasks) == 7
    assert ("gp-drift", "uniform", 1) not in {task.key for task in tasks}
    with pytest.raises(ValueError, match="played together"):
        tasks_of(Comparison(DriftingBump(), ["sparq-gp-ucb"], 1, 3, equal_information=True))


def test_a_store_gives_back_what_it_was_given_to_the_last_bit(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs", {"x": 1}, PLAN.steps)
    runs = [play_task(task) for task in tasks_of(PLAN)]
    for run in runs:
        store.keep(run)
    again = RunStore(tmp_path / "runs", {"x": 1}, PLAN.steps).finished()
    assert plain(Run(*key, rows) for key, rows in again.items()) == plain(runs)
    store.clear()
    assert not (tmp_path / "runs").exists()


def test_damaged_short_and_foreign_files_count_as_missing(tmp_path: Path) -> None:
    store = RunStore(tmp_path, {}, PLAN.steps)
    run = play_task(tasks_of(PLAN)[0])
    store.keep(run)
    path = tmp_path / file_name((run.problem, run.policy, run.seed))
    whole = path.read_bytes()
    (tmp_path / "renamed.parquet").write_bytes(whole)
    assert len(store.finished()) == 1
    path.write_bytes(whole[: len(whole) // 2])
    assert store.finished() == {}
    store.keep(Run(run.problem, run.policy, run.seed, run.rows[:-1]))
    assert store.finished() == {}


def test_runs_of_another_comparison_are_refused(tmp_path: Path) -> None:
    RunStore(tmp_path, {"horizon": 5}, PLAN.steps).keep(play_task(tasks_of(PLAN)[0]))
    with pytest.raises(ValueError, match="another comparison: its horizon is 5, not 6"):
        RunStore(tmp_path, {"horizon": 6}, PLAN.steps)
    (tmp_path / "arguments.json").write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        RunStore(tmp_path, {"horizon": 5}, PLAN.steps)


# --- Dask -------------------------------------------------------------------------------------------


class KillsItsWorkerOnce:
    """A maker that kills the process it is called in, the first time."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, setting: Any) -> Any:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return POLICIES["uniform"].make(setting)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_rows_are_the_same_on_dask_and_a_killed_workers_run_is_played_again(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    killed = {"uniform": KillsItsWorkerOnce(tmp_path / "mark")}
    plan = Comparison(DriftingBump(candidates=21), killed, 2, 5)
    said: list[str] = []
    found = plain(Cluster("local:1", said.append)(tasks_of(plan)))
    assert (tmp_path / "mark").exists()
    undisturbed = Comparison(DriftingBump(candidates=21), ["uniform"], 2, 5)
    rows = plain(iterate(undisturbed))
    for key, expected in rows.items():
        assert [{**row, "confidence": ""} for row in found[key]] == [
            {**row, "confidence": ""} for row in expected
        ]
    assert said[0].startswith("dashboard: http")


@pytest.mark.parametrize("where", ["", "local", "local:0", "somewhere", "http://x:1"])
def test_clusters_that_are_none(where: str) -> None:
    with pytest.raises(ValueError, match="--cluster must be local:N, or the address"):
        Cluster(where)


# --- the board --------------------------------------------------------------------------------------


def small(**changes: Any) -> comparing.BoardOrder:
    given: dict[str, Any] = {
        "suite": "quick",
        "policies": [],
        "only": ["uniform", "gp-ucb", "tv-gp-ucb:epsilon=0.1"],
        "problems": ["exoskeleton:candidates=11", "gp-drift:points_per_axis=3"],
        "seeds": 2,
        "horizon": 8,
        "jobs": 1,
        "cluster": None,
        "out": None,
    }
    return comparing.BoardOrder(**{**given, **changes})


def test_a_board_is_resumed_and_a_newcomer_gets_its_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "board"
    comparing.board(small(out=str(out)), ["board", "quick"])
    kept = sorted((out / "runs").glob("*.parquet"))
    assert len(kept) == 12
    times = {path: path.stat().st_mtime_ns for path in kept[1:]}
    kept[0].unlink()
    comparing.board(small(out=str(out), policies=["sw-gp-ucb:window=4"]), ["board", "quick"])
    assert all(path.stat().st_mtime_ns == before for path, before in times.items())
    assert len(list((out / "runs").glob("*.parquet"))) == 16
    said = capsys.readouterr()
    assert "11 of 16 runs are there already" in said.err
    assert "| sw-gp-ucb:window=4 |" in said.out
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


def test_a_width_that_is_found_out_by_seed_is_one_policys() -> None:
    problem = Exoskeleton(candidates=11)
    plan = Comparison(problem, ["mk-gp-ucb", "gp-ucb"], 3, 8)
    rows = pd.DataFrame([row for run in iterate(plan) for row in run.rows])
    assert rows["confidence"].nunique() > 2
    summary = Board.of(rows, {problem.name: problem}).summary
    assert summary["policy"].to_list() == ["mk-gp-ucb", "gp-ucb"]
    assert summary["seeds"].to_list() == [3, 3]
    assert summary["confidence"].to_list() == ["by seed", "2"]


def test_unknown_suites_are_named(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.argv", ["tvbandits", "board", "slow"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert 'SUITE must be one of quick, paper, peaks, got "slow"' in capsys.readouterr().err


def test_suites_name_what_there_is() -> None:
    for suite in suites.SUITES.values():
        for text in suite.problems:
            assert known_spec("problem", text, PROBLEMS)
        for text in suite.policies:
            assert known_spec("policy", text, POLICIES)

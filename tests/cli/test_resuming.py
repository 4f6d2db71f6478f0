"""A folder that holds a comparison: the same is resumed, another is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cli.test_main import OnTerminal
from tvbandits.cli.main import main
from tvbandits.comparison import files
from tvbandits.comparison.compare import iterate
from tvbandits.comparison.playing import Run

pytestmark = pytest.mark.slow

PROBLEMS = ["drifting-bump:candidates=21", "gp-drift:points_per_axis=3"]
GIVEN = [
    "compare", *PROBLEMS, "--policy=uniform", "--policy=sparq-gp-ucb", "--horizon=7", "--seeds=3",
    "--jobs=1",
]  # fmt: skip

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tvbandits", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def stopped_after(count: int) -> Callable[..., Iterator[Run]]:
    def runs(*given: Any) -> Iterator[Run]:
        going = iterate(*given)
        yield from (next(going) for _ in range(count))
        raise KeyboardInterrupt

    return runs


def rows_of(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / files.ROWS, dtype=str, keep_default_na=False).drop(
        columns="seconds"
    )


@pytest.mark.parametrize("count", [1, 5, 8])
@pytest.mark.parametrize("equally", [False, True])
def test_a_run_that_was_stopped_is_resumed(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, equally: bool
) -> None:
    given = [*GIVEN, *["--equal-information"][:equally]]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert command(*given, "--out", whole)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr("tvbandits.cli.comparing.iterate", stopped_after(count))
        assert command(*given, "--out", parts)[0] == 130
    assert len(rows_of(parts)) == count * 7
    before = pd.read_csv(parts / files.ROWS)["seconds"]
    status, _, err = command(*given, "--out", parts)
    assert status == 0
    assert f"{count} of 12 runs are there already\n" in err
    pd.testing.assert_frame_equal(rows_of(parts), rows_of(whole))
    if not equally:  # there all policies of a seed are played again
        assert before.isin(pd.read_csv(parts / files.ROWS)["seconds"]).all()
    assert json.loads((parts / files.RUN).read_text())["arguments"]["interrupted"] is False


def test_a_run_that_is_done_is_not_played_again(command: Command, tmp_path: Path) -> None:
    assert command(*GIVEN, "--out", tmp_path)[0] == 0
    before = (tmp_path / files.ROWS).read_bytes()
    status, out, err = command(*GIVEN[:-1], "--jobs=2", "--bound", "--out", tmp_path)
    assert status == 0
    assert "12 of 12 runs are there already\n" in err
    assert "sparq-gp-ucb" in out
    assert (tmp_path / files.ROWS).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--seeds=3": "--seeds=2"}, "its seeds is 3, not 2"),
        ({"--horizon=7": "--horizon=6"}, "its horizon is 7, not 6"),
        ({"--policy=uniform": "--policy=gp-ucb"}, 'its policies is \\["uniform", "sparq-gp-ucb"\\]'),
        ({"--jobs=1": "--confidence=2"}, 'its confidence is null, not "2"'),
        ({"compare": "frontier", "--policy=uniform": "--plan=kdpp", "--policy=sparq-gp-ucb": "--jobs=1"},
         'its command is "compare", not "frontier"'),
    ],
)  # fmt: skip
def test_another_run_is_refused(
    command: Command, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    assert command(*GIVEN, "--out", tmp_path)[0] == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status, out, err = command(*(change.get(each, each) for each in GIVEN), "--out", tmp_path)
    assert (status, out) == (2, "")
    assert re.search(message, err), err
    assert "give another folder" in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_rows_without_their_record_are_not_written_over(command: Command, tmp_path: Path) -> None:
    (tmp_path / files.ROWS).write_text("mine")
    status, _, err = command(*GIVEN, "--out", tmp_path)
    assert status == 2
    assert "run.json is missing" in err
    assert (tmp_path / files.ROWS).read_text() == "mine"


def test_a_request_to_end_keeps_what_is_done(tmp_path: Path) -> None:
    running = OnTerminal(
        "compare", PROBLEMS[0], "--policy=uniform", "--policy=frugal-gp-ucb", "--horizon=4000",
        "--seeds=1", "--jobs=1", "--out", str(tmp_path / "out"),
    )  # fmt: skip
    try:
        assert running.read_until("1/2"), running.said
        os.kill(running.process.pid, signal.SIGTERM)
        status, _ = running.end()
    finally:
        running.kill()
    assert status == 143, running.said
    assert "terminated: 1 of 2 runs are done and kept" in running.said
    assert "Traceback" not in running.said
    assert rows_of(tmp_path / "out")["policy"].unique().tolist() == ["uniform"]


@pytest.mark.parametrize("module", ["typer.core", "numpy.exceptions", "pandas"])
def test_an_interrupt_while_modules_are_imported_leaves_no_trace(module: str) -> None:
    running = subprocess.Popen(
        [
            sys.executable, "-X", "importtime", "-m", "tvbandits", "compare", PROBLEMS[0],
            "--seeds=1", "--jobs=1",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stderr is not None
    assert any(line.split("|")[-1].strip() == module for line in running.stderr)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    # Just while it makes a class, Python itself ends by the signal: 130 in a shell, too.
    assert running.returncode in (130, -signal.SIGINT), err
    assert "Traceback" not in err


def test_a_terminal_that_knows_ascii_alone() -> None:
    said = subprocess.run(
        [
            sys.executable, "-m", "tvbandits", "compare", PROBLEMS[0], "--policy=uniform",
            "--horizon=4", "--seeds=2", "--jobs=1",
        ],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "dumb"},
        capture_output=True, check=True,
    )  # fmt: skip
    assert said.stderr == b""
    assert b"95% +-" in said.stdout
    assert "| uniform |" in said.stdout.decode("ascii")

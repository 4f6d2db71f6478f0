"""The command line, in this process and as a command of its own."""

import functools
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from rich.console import Console

import tvbandits
from tests.helpers.commands import Command, check_error_line, check_success
from tests.helpers.ozone_samples import airdata, csv, field
from tests.helpers.refusals import assert_refused
from tvbandits.comparison import files
from tvbandits.comparison.arguments import PROBLEMS
from tvbandits.comparison.compare import compare, iterate
from tvbandits.comparison.summary import (
    Run,
    pairwise_differences,
    problem_references,
    regret_texts,
    summarise,
)
from tvbandits.datasets import DriftingBump, ozone
from tvbandits.policies import FIRST_COMPARISON, POLICIES
from tvbandits.policies.names import parse_spec

SMALL = "drifting-bump:candidates=41"
FILES = {files.ROWS, files.SUMMARY, files.PICTURE, files.RUN}


def strictly(text: str) -> Any:
    def refuse(token: str) -> NoReturn:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


# --- compare


def test_compare_command_prints_a_table(command: Command) -> None:
    out = check_success(command("compare", SMALL, "--horizon", 6, "--seeds", 2, "--jobs", 1))
    assert f"{SMALL}, width 2, 2 seeds, 6 steps" in out
    for policy in FIRST_COMPARISON:
        assert re.search(rf"│ {policy} +│", out), policy
    found = problem_references(DriftingBump(candidates=41, horizon=6))
    uniform, fixed, *_ = regret_texts(found[:4], decimals=2)
    assert f"uniform {uniform}, best fixed point {fixed}" in out


def test_compare_command_prints_the_unit_and_a_dash_for_one_seed(command: Command) -> None:
    network = ("ozone-network:stations=3", "--horizon=740")
    out = check_success(command("compare", *network, "--seeds=1", "--jobs=1", "--policy=uniform"))
    assert "1 seed, 740 steps, regret in ppb" in out
    assert re.search(r"│ uniform +│ +[\d.]+ │ +- │ +- │", out)
    assert "data: simulated, 3 stations, 740 days\n" in out


@pytest.mark.parametrize("width", [40, 60, 120])
def test_compare_command_prints_whole_names_on_a_narrow_terminal(
    command: Command, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    made = functools.partial(Console, width=width)
    monkeypatch.setattr("tvbandits.cli.tables.Console", lambda **_: made())
    long = "sparq-gp-ucb:queries_per_step=2.0,forgetting_rate=1.0,robust=true,posterior=exact"
    said = command("compare", SMALL, "--policy", long, "--horizon=3", "--seeds=1", "--jobs=1")
    assert said.status == 0
    cells = re.findall(r"^│ (.+?) *│", said.out, re.MULTILINE)
    assert "".join(cells) == long
    assert "…" not in said.out


@pytest.mark.parametrize("seeds", [1, 2])
def test_compare_command_prints_one_json_object_only(command: Command, seeds: int) -> None:
    given = ("--policy=sw-gp-ucb:window=3", "--horizon=5", f"--seeds={seeds}", "--jobs=1")
    found = strictly(check_success(command("compare", SMALL, SMALL, *given, "--format=JSON")))
    assert list(found) == ["summary", "references"]
    problem = {SMALL: DriftingBump(41, horizon=5)}
    expected = summarise(compare(problem, ["sw-gp-ucb:window=3"], seeds, beta="2"))
    shown = pd.DataFrame(found["summary"]).astype(expected.dtypes)
    clock = "seconds_per_step"
    pd.testing.assert_frame_equal(
        shown.drop(columns=clock), pd.DataFrame(expected).drop(columns=clock)
    )
    assert found["references"] == {SMALL: problem_references(problem[SMALL], seeds)._asdict()}


def test_compare_command_writes_rows_summary_picture_and_record(
    command: Command, tmp_path: Path
) -> None:
    out = tmp_path / ("a long name [bold] of a folder " * 5) / "b"
    said = command(
        "compare", SMALL, "--policy", "sparq-gp-ucb", "--policy", "uniform", "--horizon", 8,
        "--seeds", 2, "--jobs", 1, "--batch", 2, "--out", out,
    )  # fmt: skip
    assert said.status == 0
    assert said.err == f"wrote rows.csv.gz, summary.csv, regret.png, run.json in {out}\n"
    assert {path.name for path in out.iterdir()} == FILES
    rows = pd.read_csv(out / files.ROWS)
    problem = {SMALL: DriftingBump(41, horizon=8)}
    expected = compare(problem, ["sparq-gp-ucb", "uniform"], 2, batch=2)
    (pair,) = pairwise_differences(expected).to_dict(orient="records")
    over = f"{pair['difference']:.3f} ± {pair['ci95']:.3f}"
    assert re.search(rf"│ {pair['policy']} +(│ +[\d.]+ ){{3}}│ +{over} │", said.out)
    assert list(rows.columns) == list(expected.columns)
    pd.testing.assert_frame_equal(
        rows.drop(columns="seconds"), expected.drop(columns="seconds"), rtol=1e-14
    )
    record = json.loads((out / files.RUN).read_text())
    assert record["tvbandits"] == tvbandits.__version__
    assert record["seeds"] == [0, 1]
    said = {"command": "compare", "problems": [SMALL], "policies": ["sparq-gp-ucb", "uniform"]}
    said |= {"horizon": 8, "seeds": 2, "jobs": 1, "data": [], "interrupted": False}
    assert record["arguments"].items() >= said.items()
    assert pd.read_csv(out / files.SUMMARY)["policy"].tolist() == ["sparq-gp-ucb", "uniform"]


@pytest.mark.usefixtures("no_pictures")
def test_compare_command_adds_seeds_policies_and_problems_to_a_folder(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[Any] = []

    def counted(plan: Any, finished: Any) -> Iterator[Run]:
        for run in iterate(plan, finished):
            played.append(run.key)
            yield run

    monkeypatch.setattr("tvbandits.cli.comparing.iterate", counted)
    other = SMALL.replace("41", "21")

    def play(problem: str, policy: str, seeds: int) -> Any:
        played.clear()
        said = command(
            "compare", problem, f"--policy={policy}", f"--seeds={seeds}", "--horizon=4", "--jobs=1",
            "--out", tmp_path,
        )  # fmt: skip
        assert said.status == 0
        return said

    play(SMALL, "uniform", 2)
    first = pd.read_csv(tmp_path / files.ROWS)
    play(SMALL, "uniform", 3)
    assert played == [(SMALL, "uniform", 2)]
    said = play(SMALL, "eps-greedy", 1)
    assert played == [(SMALL, "eps-greedy", 0)]
    assert "uniform" in said.out
    assert said.err.startswith("0 of 1 runs exist already; the folder keeps 3 more\n")
    play(other, "uniform", 1)
    assert played == [(other, "uniform", 0)]
    play(SMALL, "uniform", 1)
    assert played == []
    rows = pd.read_csv(tmp_path / files.ROWS)
    keys = list(
        dict.fromkeys(rows[["problem", "policy", "seed"]].itertuples(index=False, name=None))
    )
    assert keys == [
        *((SMALL, "uniform", seed) for seed in range(3)),
        *((SMALL, "eps-greedy", 0), (other, "uniform", 0)),
    ]
    pd.testing.assert_frame_equal(rows[: len(first)], first)
    record = json.loads((tmp_path / files.RUN).read_text())
    said = {"problems": [SMALL, other], "policies": ["uniform", "eps-greedy"], "seeds": 3}
    assert record["arguments"].items() >= {**said, "interrupted": False}.items()
    assert set(record["references"]) == set(record["units"]) == {SMALL, other}
    assert command("report", tmp_path).status == 0


@pytest.mark.usefixtures("no_pictures")
def test_compare_command_refuses_a_folder_with_another_horizon(
    command: Command, tmp_path: Path
) -> None:
    given = ("compare", SMALL, "--policy=uniform", "--seeds=1", "--jobs=1", "--out", tmp_path)
    assert command(*given, "--horizon=3").status == 0
    check_error_line(command(*given, "--horizon=4"), "its horizon is 3, not 4")


def test_report_command_writes_a_page_beside_the_rows(command: Command, tmp_path: Path) -> None:
    command("compare", SMALL, "--horizon", 6, "--seeds", 1, "--jobs", 1, "--out", tmp_path)
    assert command("report", tmp_path).status == 0
    assert SMALL in (tmp_path / "report.html").read_text(encoding="utf-8")
    said = command("report", tmp_path, "--out", tmp_path / "none" / "page.html")
    assert (said.status, "No such file" in said.err) == (2, True)


@pytest.mark.slow
def test_plot_command_draws_the_same_picture_again(command: Command, tmp_path: Path) -> None:
    names = [f"--policy={name}" for name in POLICIES]
    command(
        "compare", SMALL, "ozone-network:days=9", *names, "--horizon=9", "--seeds=3", "--jobs=1",
        "--out", tmp_path,
    )  # fmt: skip
    before = imread(tmp_path / files.PICTURE)
    (tmp_path / files.PICTURE).unlink()
    assert command("plot", tmp_path) == (0, "", f"wrote regret.png in {tmp_path}\n")
    np.testing.assert_array_equal(imread(tmp_path / files.PICTURE), before)


def test_compare_command_reads_a_file_of_ozone(command: Command, tmp_path: Path) -> None:
    file = csv(tmp_path / "ozone.csv", airdata(field(12)))
    said = command(
        "compare", "ozone:sites=3", "--data", file, "--policy=uniform", "--seeds=1", "--jobs=1",
        "--format=json", "--out", tmp_path / "out",
    )  # fmt: skip
    assert said.status == 0
    (row,) = strictly(said.out)["summary"]
    assert row["horizon"] == 12
    rows = pd.read_csv(tmp_path / "out" / files.ROWS)
    expected = ozone(file, sites=3)
    np.testing.assert_allclose(rows["best"], [expected.best(t) for t in range(1, 13)])
    record = json.loads((tmp_path / "out" / files.RUN).read_text())
    assert record["arguments"]["data"] == ["ozone.csv"]


# --- the other commands


def test_policies_and_problems_commands_list_every_name(command: Command) -> None:
    for name, known in (("policies", POLICIES), ("problems", PROBLEMS)):
        lines = check_success(command(name)).partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in lines] == list(known)


def test_policies_command_lists_common_options_once(command: Command) -> None:
    listed, _, common = check_success(command("policies")).partition("\n\n")
    for option in ("robust", "mean", "posterior", "season", "largest_batch"):
        assert option in common
    assert "season" not in listed


def test_policies_and_problems_commands_list_settings_that_parse(command: Command) -> None:
    for listed in ("policies", "problems"):
        specs = [
            f"{line.split()[0]}:{setting}"
            for line in check_success(command(listed)).splitlines()
            for setting in re.findall(r"[a-z_]+=[^ ,|]+(?=,|$)", line)
        ]
        assert len(specs) > 10
        for spec in specs:
            parse_spec(spec)


def test_command_line_prints_version_and_help(command: Command) -> None:
    assert command("--version") == (0, f"{tvbandits.__version__}\n", "")
    for name in ("compare", "plot", "policies", "problems"):
        said = command("--help")
        assert said.status == 0
        assert name in said.out
        assert command(name, "--help").status == 0
    options = command("compare", "--help").out
    for option in ("policy", "beta", "horizon", "seeds", "jobs", "data", "out", "format"):
        assert f"--{option}" in options


# --- bad arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compare nope", 'unknown problem "nope"; there are: switching-arms, ar-arms, '),
        ("compare gp-drift:x=1", 'unknown parameter "x"; its parameters: epsilon, '),
        ("compare ozone:files=1 --data x", 'unknown parameter "files"; did you mean "sites"[?]'),
        ("compare gp-drift:epsilon", "expected key=value after the colon, got"),
        ("compare gp-drift:epsilon=2", r"epsilon must lie in \[0, 1\], got 2"),
        ("compare drifting-bump --policy nope", 'unknown policy "nope"; there are: uniform, '),
        ("compare drifting-bump --policy sw-gp-ucb:window=a", "window must be a whole number"),
        ("compare drifting-bump --horizon 0", "--horizon.*: .* equal to 1, got .0"),
        ("compare drifting-bump --horizon abc", '--horizon.*: .* a valid integer, .*, got "abc"'),
        ("campaign tell x.db --site A --reward abc", '--reward.*valid number.*, got "abc"'),
        ("campaign tell x.db --site A --reward 12,5", '--reward.*, got "12,5": write 12.5'),
        ("compare drifting-bump:horizon=9 --horizon 10", "has 9 steps, got horizon = 10"),
        ("compare drifting-bump --out=", '--out must name a folder, got ""'),
        ("compare drifting-bump --jobs -2", "--jobs.*: .* equal to -1, got .-2"),
        ("compare drifting-bump --jobs 0", "--jobs must be -1 for all cores, .* got 0"),
        ("board quick --jobs 0", "--jobs must be -1 for all cores, .* got 0"),
        ("compare drifting-bump --policy master:scale=1e300", "1e300.: scale must lie in .* 1e[+]300"),
        ("board quick --seeds 0", "--seeds.*: .* equal to 1, got .0"),
        ("data fetch ozone --years 1900", "--years.*: .* equal to 1980, got .1900"),
        ("compare drifting-bump --no-equal-information", "No such option: --no-equal-information"),
        ("compare drifting-bump --policy master:scale=inf", "scale must lie in .*, got inf"),
        ("compare drifting-bump --jobs=1 --policy predictive-sampling --beta theory", "a number"),
        # The same from other processes, which take seconds to start.
        pytest.param(
            "compare drifting-bump --jobs=2 --policy predictive-sampling --beta theory", "a number",
            marks=pytest.mark.slow,
        ),
        ("compare drifting-bump --beta abc", 'beta must be "theory" or .*abc'),
        ("compare drifting-bump --format xml", "'xml' is not one of 'table', 'json'"),
        ("compare ozone", '"ozone" reads files: give some by --data FILE, got 0'),
        ("compare drifting-bump --data x.csv", "--data is for problems that read files: abalone"),
        ("compare drifting-bump --nope", "No such option: --nope"),
        ("frontier drifting-bump --budgets 0", "budgets must be positive and finite, got 0"),
        ("frontier drifting-bump --beta=", "beta must be .*, got ''"),
        ("frontier drifting-bump --plan nope", 'unknown plan "nope"; there are: next, plausible'),
        ("compare", "Missing argument"),
        ("nope", "No such command 'nope'"),
        ("plot none", 'no comparison in "none": rows.csv.gz is missing'),
        ("report none", 'no comparison in "none": rows.csv.gz is missing'),
        ("plot ", 'FOLDER must name a folder, got ""'),
        ("compare ozone --data none.csv", r"none\.csv: No such file or directory"),
        ("compare ozone --data a.csv", "not an EPA daily ozone file: columns missing: .*Site"),
        ("compare drifting-bump --out a.csv/below", '"a.csv/below": Not a directory'),
        ("plot damaged", 'the comparison in "damaged" cannot be read: '),
        ("compare drifting-bump --cluster=tcp://10.0.0.1:8786 --equal-information",
         "^tvbandits: --cluster and --equal-information cannot be combined"),
    ],
)  # fmt: skip
def test_commands_refuse_a_bad_argument_in_one_line_with_status_2(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("a,b\n1,2\n")
    Path("damaged").mkdir()
    for name, content in ((files.ROWS, "x"), (files.RUN, "{}")):
        Path("damaged", name).write_text(content)
    given: list[object] = [*arguments.split(" ")]
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    if (
        given[0] in ("compare", "frontier")
        and not {"--out", "--out="} & set(given)
        and len(given) > 1
    ):
        given = [*given, "--out", tmp_path / "new" / "folder"]
    check_error_line(command(*given), message)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_compare_command_reports_a_full_disk_in_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    given = ("compare", SMALL, "--policy=uniform", "--horizon=3", "--seeds=1", "--jobs=1")
    said = command(*given, "--out", tmp_path)
    assert said.status == 1
    assert said.err == "tvbandits: [Errno 28] No space left on device\n"
    assert "uniform" in said.out


def test_compare_command_names_the_run_with_an_error_or_raises_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "tests.comparison.test_compare:silent:more=1"
    given = ("compare", "lifted", f"--policy={own}", "--horizon=3", "--seeds=1", "--jobs=1")
    check_error_line(command(*given), rf"got \(1, 1\) \({own} on lifted, seed 0, step 1\)$")
    monkeypatch.setenv("TVBANDITS_TRACEBACK", "1")
    assert_refused(ValueError, "unknown problem", command, "compare", "nope")


# --- as a command of its own

SCRIPT = Path(sys.executable).with_name("tvbandits")
MODULE = [sys.executable, "-m", "tvbandits"]


@pytest.mark.slow
def test_module_and_script_print_the_same() -> None:
    ways = [MODULE, [str(SCRIPT)]] if SCRIPT.is_file() else [MODULE]
    for way in ways:
        ran = subprocess.run([*way, "--version"], capture_output=True, text=True, check=True)
        assert (ran.stdout, ran.stderr) == (f"{tvbandits.__version__}\n", "")
    bad = subprocess.run(
        [*ways[-1], "compare", "nope"], capture_output=True, text=True, check=False
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    assert re.fullmatch(r'tvbandits: unknown problem "nope"[^\n]+\n', bad.stderr)


@pytest.mark.slow
def test_compare_command_shows_no_bar_without_a_terminal(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*MODULE, "compare", SMALL, "--policy=uniform", "--policy=sparq-gp-ucb", "--horizon=4",
         "--seeds=2", "--jobs=2", "--format=json", "--out", str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(strictly(ran.stdout)["summary"]) == 2
    assert ran.stderr == f"wrote rows.csv.gz, summary.csv, regret.png, run.json in {tmp_path}\n"


class OnTerminal:
    """A command whose messages go to a terminal."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*MODULE, *arguments],
            stdout=subprocess.PIPE,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
            start_new_session=True,
        )
        os.close(slave)
        self.said = ""

    def read_until(self, pattern: str, seconds: float = 180.0) -> bool:
        """Return whether the terminal shows the pattern before the command ends."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            ready, _, _ = select.select([self.master], [], [], 0.2)
            if ready:
                try:
                    said = os.read(self.master, 65536)
                except OSError:  # the other end is closed
                    said = b""
                if not said:
                    return False
                self.said += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode(errors="replace"))
            if re.search(pattern, self.said):
                return True
        raise AssertionError(f"neither {pattern} nor the end within {seconds} s: {self.said}")

    def end(self) -> tuple[int, str]:
        """Wait for the end, and return exit status and standard output."""
        self.read_until("$^")
        out, _ = self.process.communicate(timeout=180)
        os.close(self.master)
        return self.process.returncode, out.decode()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jobs", "sent", "said", "expected"),
    [
        (1, signal.SIGINT, "interrupted", 130),
        (2, signal.SIGINT, "interrupted", 130),
        (1, signal.SIGTERM, "terminated", 143),
    ],
)
def test_compare_command_keeps_complete_runs_when_interrupted(
    tmp_path: Path, jobs: int, sent: signal.Signals, said: str, expected: int
) -> None:
    steps = 2000
    running = OnTerminal(
        "compare", "drifting-bump:candidates=61", "--policy=uniform", "--policy=sparq-gp-ucb",
        "--policy=gp-ucb", f"--horizon={steps}", "--seeds=1", f"--jobs={jobs}", "--out",
        str(tmp_path / "out"),
    )  # fmt: skip
    try:
        assert running.read_until(r"1/3"), running.said
        assert "━" in running.said  # a bar, as this is a terminal
        os.killpg(running.process.pid, sent)  # as a terminal does: to all processes
        status, out = running.end()
    finally:
        running.kill()
    assert status == expected, running.said
    assert f"{said}: 1 of 3 runs are complete and saved" in running.said
    assert "wrote rows.csv.gz" in running.said
    assert "Traceback" not in running.said
    assert "Warning" not in running.said
    assert "uniform" in out
    assert "sparq-gp-ucb" not in out
    rows = pd.read_csv(tmp_path / "out" / files.ROWS)
    assert rows["policy"].unique().tolist() == ["uniform"]
    assert rows["t"].tolist() == list(range(1, steps + 1))
    record = json.loads((tmp_path / "out" / files.RUN).read_text())
    assert record["arguments"]["interrupted"] is True


def test_compare_command_writes_nothing_if_interrupted_before_the_first_run(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> NoReturn:
        raise KeyboardInterrupt

    given = ["compare", SMALL, "--horizon=3", "--seeds=1", "--jobs=1", "--out", tmp_path / "out"]
    monkeypatch.setattr("tvbandits.comparison.compare.prepare", interrupted)
    said = command(*given)
    assert (said.status, said.out) == (130, "")
    assert said.err.splitlines() == [
        f"interrupted: 0 of {len(FIRST_COMPARISON)} runs are complete and saved",
        "stopped before the first run was complete: there is nothing to show",
    ]
    assert list(tmp_path.iterdir()) == []


def test_compare_command_shows_a_policy_interrupted_before_its_last_seed(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def four(*arguments: Any, **options: Any) -> Iterator[Run]:
        runs = iterate(*arguments, **options)
        yield from (next(runs) for _ in range(4))
        raise KeyboardInterrupt

    monkeypatch.setattr("tvbandits.cli.comparing.iterate", four)
    said = command(
        "compare", SMALL, "--policy=uniform", "--policy=eps-greedy", "--horizon=3", "--seeds=3",
        "--jobs=1", "--out", tmp_path,
    )  # fmt: skip
    assert said.status == 130
    assert f"{SMALL}, no width, 1-3 seeds, 3 steps\n" in said.out
    assert command("plot", tmp_path).status == 0


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    "place",
    [
        "__main__.app",
        "cli.comparing.files.read",
        "cli.comparing.say",
        "cli.comparing.problem_references",
    ],
)
def test_commands_end_with_status_130_when_interrupted(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> NoReturn:
        raise KeyboardInterrupt

    given = ["compare", SMALL, "--policy=uniform", "--horizon=3", "--seeds=1", "--jobs=1"]
    assert command(*given, "--out", tmp_path).status == 0
    if place in ("cli.comparing.files.read", "cli.comparing.say"):
        given = ["plot", str(tmp_path)]
    monkeypatch.setattr(f"tvbandits.{place}", interrupted)
    assert command(*given) == (130, "", "tvbandits: interrupted\n")


@pytest.mark.slow
def test_command_line_ends_silently_if_its_output_is_closed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [*MODULE, "problems"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")

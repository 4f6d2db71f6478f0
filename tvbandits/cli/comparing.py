"""What the commands compare, frontier and plot do."""

from __future__ import annotations

import json
import shlex
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from tvbandits.campaign.store.journal import without_nan
from tvbandits.cli.options import Arguments, SuiteRun
from tvbandits.cli.problems import READS_FILES, make_problem, problem_label
from tvbandits.cli.stopping import StoppedError
from tvbandits.cli.terminal import collect, print_tables, say, write_page
from tvbandits.comparison import files, plots
from tvbandits.comparison.arguments import NamedExpert
from tvbandits.comparison.board import SUITES, Board, provenance, write_board
from tvbandits.comparison.cluster import Cluster
from tvbandits.comparison.compare import Comparison, iterate, simulator
from tvbandits.comparison.files import RunStore
from tvbandits.comparison.frontier import frontier_policies, frontier_table
from tvbandits.comparison.page import comparison_report
from tvbandits.comparison.summary import Key, Run, problem_references, summarise
from tvbandits.datasets.tables.references import References
from tvbandits.domains.problem import Problem
from tvbandits.policies import FIRST_COMPARISON
from tvbandits.policies.frugal import PLANS
from tvbandits.policies.names import sources_of
from tvbandits.validation import file_path


@dataclass(frozen=True)
class Result:
    """What came of it; `stopped` is the exit status of who stopped it, or 0."""

    rows: pd.DataFrame
    stopped: int
    problems: dict[str, Problem]
    references: dict[str, References]
    arguments: dict[str, Any]
    folder: Path | None

    @property
    def units(self) -> dict[str, str]:
        """Of the rewards, by problem."""
        return {text: problem.unit for text, problem in self.problems.items()}

    def end(self, *more: str) -> None:
        """Write rows, summary and picture, if there is a folder for them; say who stopped it."""
        if self.folder is not None:
            files.write(self.folder, self.rows, self.references, self.units, self.arguments)
            names = ", ".join((files.ROWS, files.SUMMARY, files.PICTURE, files.RUN, *more))
            say(f"wrote {names} in {self.folder}")
        if self.stopped:
            raise StoppedError(self.stopped)


def compare(order: Arguments, policies: list[str], out: str | None, format_: str) -> None:
    """Play, print, and write files into the folder `out`."""
    done = _played("compare", order, policies or list(FIRST_COMPARISON), out)
    if format_ == "json":
        summary = without_nan(summarise(done.rows).to_dict(orient="records"))
        references = {name: each._asdict() for name, each in done.references.items()}
        print(json.dumps({"summary": summary, "references": references}, allow_nan=False))
    else:
        print_tables(done.rows, done.references, done.problems)
    done.end()


def frontier(order: Arguments, budgets: list[float], plans: list[str], out: str | None) -> None:
    """Play every plan with every budget, print, and write files into the folder `out`."""
    policies = frontier_policies(budgets, plans or list(PLANS))
    order = replace(order, beta="2") if order.beta is None else order
    done = _played("frontier", order, policies, out)
    print_tables(done.rows, done.references, done.problems)
    if done.folder is not None:
        frontier_table(done.rows).to_csv(done.folder / "frontier.csv", index=False)
        plots.frontier_figure(done.rows, done.units).savefig(done.folder / "frontier.png", dpi=120)
    done.end("frontier.csv", "frontier.png")


def plot(text: str) -> None:
    """Draw the picture of a comparison again."""
    path = _folder("FOLDER", text)
    rows, references, units, _ = files.read(path)
    files.draw(files.writable_folder(path), rows, references, units)
    say(f"wrote {files.PICTURE} in {path}")


def _played(command: str, order: Arguments, policies: list[str], out: str | None) -> Result:
    """Play it, as far as the user lets it go on; of a run that is resumed, what is missing."""
    folder = None if out is None else files.writable_folder(_folder("--out", out))
    plan = _plan(order, policies)
    arguments = _recorded(command, order, plan)
    store = None if folder is None else RunStore(folder, arguments, plan.steps)
    done, stopped = _collected([plan], store, order.cluster)
    if not done:
        say("stopped before the first run was done: nothing to show")
        raise StoppedError(stopped)
    return Result(
        pd.concat([done[key] for key in plan.runs if key in done], ignore_index=True),
        stopped,
        plan.problems,
        {
            text: problem_references(problem, order.seeds, order.horizon)
            for text, problem in plan.problems.items()
        },
        {**arguments, "interrupted": len(done) < len(plan.runs)},
        folder,
    )


def _plan(order: Arguments, policies: list[str]) -> Comparison:
    """What is to be played; what its files hold is said."""
    if order.cluster is not None and order.equal_information:
        raise ValueError("--cluster plays runs apart, --equal-information together: give one")
    data, reads = order.data or [], ", ".join(sorted(READS_FILES))
    problems = {
        problem_label(text): make_problem(text, data, order.horizon) for text in order.problems
    }
    if data and not any(label.partition(":")[0] in READS_FILES for label in problems):
        raise ValueError(f"--data is for problems that read files: {reads}")
    for text, problem in problems.items():
        summary = getattr(problem, "summary", "")
        if data and summary:
            say(f"{text}: {summary}")
    return Comparison(
        problems,
        policies,
        order.seeds,
        order.horizon,
        order.jobs,
        order.beta,
        NamedExpert(order.expert) if order.expert else simulator,
        order.batch,
        order.equal_information,
    )


def _recorded(command: str, order: Arguments, plan: Comparison) -> dict[str, Any]:
    """The arguments as they are kept with the rows; where runs are played is no part of them."""
    given = {name: value for name, value in vars(order).items() if name != "cluster"}
    data = order.data or []
    said = [*plan.problems, *plan.policies, order.beta or "", order.expert or ""]
    return {
        "command": command,
        **given,
        "problems": list(plan.problems),
        "policies": list(plan.policies),
        "data": [path.name for path in data],
        "checksums": [_checksum(path) for path in data],
        files.SOURCES: sources_of(said),
    }


def _checksum(path: Path) -> int:
    """Of a file of any size, which has been read as a table before."""
    found = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            found = zlib.crc32(chunk, found)
    return found


def _collected(
    plans: Sequence[Comparison], store: RunStore | None, cluster: str | None
) -> tuple[dict[Key, pd.DataFrame], int]:
    """All runs of these, those that are kept and those that were missing; and who stopped them."""
    wanted = {key for plan in plans for key in plan.runs}
    kept = {} if store is None else store.load()
    there = {key: rows for key, rows in kept.items() if key in wanted}
    runs: Iterator[Run] = (run for plan in plans for run in iterate(plan, there))
    if cluster is not None:
        left = there.keys() != wanted
        runs = Cluster(cluster, say)(plans, there) if left else iter(())
    done, stopped = collect(runs if store is None else store.save_each(runs), len(wanted), there)
    if stopped and store is not None:  # another process may be further, in the same folder
        done = store.load() | done
    return done, stopped


def _folder(name: str, text: str) -> Path:
    """An empty text, such as a shell variable that is not set, is not the folder we are in."""
    if not text.strip():
        raise ValueError(f'{name} must name a folder, got "{text}"')
    return file_path(name, text)


# --- the command board: play a suite, keep every run ----------------------------------------------


def board(order: SuiteRun) -> None:
    """Play what is missing, and write the board.

    `only` and `problem` are policies and problems instead of the suite's; problems have as many steps as
    they are made with, or `horizon`. Those of `policy` are a newcomer's, and played besides.
    """
    name, horizon = order.suite, order.horizon
    if name not in SUITES:
        raise ValueError(f'SUITE must be one of {", ".join(SUITES)}, got "{name}"')
    suite = SUITES[name]
    seeds = suite.seeds if order.seeds is None else order.seeds
    out = files.writable_folder(Path(order.out or f"board-{name}"))
    played = list(dict.fromkeys([*(order.only or suite.policies), *(order.policy or [])]))
    steps = dict.fromkeys(order.problem or ()) or dict(suite.problems)
    problems = {
        problem_label(text): make_problem(text, [], length if horizon is None else horizon)
        for text, length in steps.items()
    }
    plans = [
        Comparison({label: problem}, played, seeds, order.horizon or steps.get(label), order.jobs)
        for label, problem in problems.items()
    ]
    lengths = {label: plan.steps[label] for plan, label in zip(plans, problems, strict=True)}
    sources = sources_of([*problems, *played])
    arguments = {"command": "board", "suite": name, **lengths, files.SOURCES: sources}
    store = RunStore(out, arguments, lengths)
    done, stopped = _collected(plans, store, order.cluster)
    if stopped or not done:
        raise StoppedError(stopped)
    rows = pd.concat([done[key] for plan in plans for key in plan.runs], ignore_index=True)
    made_by = provenance(name, shlex.join(["tvbandits", *sys.argv[1:]]))
    written = write_board(Board.of(rows, problems), made_by, out)
    print((out / "board.md").read_text())
    say(f"wrote {', '.join(written)} in {out}; every run in {out / files.RUNS}")


def report(place: str, out: str | None) -> None:
    """Write the page of a comparison."""
    path = _folder("FOLDER", place)
    write_page(lambda: comparison_report(path), Path(out) if out else path / "report.html")

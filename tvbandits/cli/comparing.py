"""The commands compare, frontier, board, plot and report."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import MofNCompleteColumn

from tvbandits.cli.options import BoardOptions, Comparing, TableOptions
from tvbandits.cli.output import plural
from tvbandits.cli.stopping import (
    INTERRUPTED,
    TERMINATED,
    StoppedError,
    Terminated,
    interrupt_on_termination,
)
from tvbandits.cli.tables import data_summary, print_tables
from tvbandits.cli.terminal import progress_bars, say, write_page
from tvbandits.comparison import files, plots
from tvbandits.comparison.arguments import (
    READS_FILES,
    READS_OPTIONS,
    NamedExpert,
    make_problem,
    problem_label,
)
from tvbandits.comparison.board import SUITES, Board, provenance, write_board
from tvbandits.comparison.compare import Comparison, iterate, play_on_cluster, simulator
from tvbandits.comparison.files import RunStore
from tvbandits.comparison.frontier import frontier_policies, frontier_table
from tvbandits.comparison.report import comparison_report
from tvbandits.comparison.summary import Key, Run, problem_references, summarise
from tvbandits.datasets.tables.references import References
from tvbandits.domains.problem import Problem
from tvbandits.io import replace_nan
from tvbandits.policies import FIRST_COMPARISON
from tvbandits.queries.plans import PLANS
from tvbandits.validation import file_path


@dataclass(frozen=True)
class Result:
    """The result of a comparison; `exit_status` is that of a user who has stopped it, or 0."""

    rows: pd.DataFrame
    exit_status: int
    problems: dict[str, Problem]
    references: dict[str, References]
    units: dict[str, str]
    arguments: dict[str, Any]
    folder: Path | None

    @property
    def shown(self) -> pd.DataFrame:
        """Return the rows of the problems that the command names; the folder may have others."""
        return self.rows[self.rows["problem"].isin(list(self.problems))]

    def print(self) -> None:
        """Print the tables."""
        print_tables(self.shown, self.references, self.problems)

    def write(self, *more: str) -> None:
        """Write rows, summary and picture, if there is a folder; exit if the user has stopped it."""
        if self.folder is not None:
            files.write(self.folder, self.rows, self.references, self.units, self.arguments)
            files.write_picture(
                self.folder, plots.regret_figure(self.rows, self.references, self.units)
            )
            names = ", ".join((files.ROWS, files.SUMMARY, files.PICTURE, files.RUN, *more))
            say(f"wrote {names} in {self.folder}")
        if self.exit_status:
            raise StoppedError(self.exit_status)


def compare(
    options: Comparing, tables: TableOptions, policies: list[str], out: str | None, form: str
) -> None:
    """Run policies on problems, print a summary, and write files into the folder `out`."""
    result = _run("compare", options, tables, policies or list(FIRST_COMPARISON), out)
    if form == "json":
        summary = replace_nan(summarise(result.shown).to_dict(orient="records"))
        references = {name: result.references[name]._asdict() for name in result.problems}
        print(json.dumps({"summary": summary, "references": references}, allow_nan=False))
    else:
        result.print()
    result.write()


def frontier(
    options: Comparing,
    tables: TableOptions,
    budgets: list[float],
    plans: list[str],
    out: str | None,
) -> None:
    """Run every query plan with every budget, print, and write files into the folder `out`."""
    policies = frontier_policies(budgets, plans or list(PLANS))
    options = replace(options, beta="2") if options.beta is None else options
    result = _run("frontier", options, tables, policies, out)
    result.print()
    if result.folder is not None:
        frontier_table(result.rows).to_csv(result.folder / "frontier.csv", index=False)
        figure = plots.frontier_figure(result.rows, result.units)
        figure.savefig(result.folder / "frontier.png", dpi=120)
    result.write("frontier.csv", "frontier.png")


def plot(text: str) -> None:
    """Draw the picture of a comparison again."""
    path = _folder("FOLDER", text)
    rows, references, units, _ = files.read(path)
    files.write_picture(files.writable_folder(path), plots.regret_figure(rows, references, units))
    say(f"wrote {files.PICTURE} in {path}")


def report(folder: str, out: str | None) -> None:
    """Write the page of a comparison."""
    path = _folder("FOLDER", folder)
    write_page(comparison_report(path), Path(out) if out else path / "report.html")


def board(options: BoardOptions) -> None:
    """Run what is missing of a suite, and write its tables and pictures.

    `only` and `problem` replace the policies and problems of the suite; `policy` adds policies. Problems
    have as many steps as the suite says, or `horizon`.
    """
    name, horizon = options.suite, options.horizon
    if name not in SUITES:
        raise ValueError(f'SUITE must be one of {", ".join(SUITES)}, got "{name}"')
    suite = SUITES[name]
    seeds = suite.seeds if options.seeds is None else options.seeds
    out = files.writable_folder(Path(options.out or f"board-{name}"))
    policies = list(dict.fromkeys([*(options.only or suite.policies), *(options.policy or [])]))
    steps = dict.fromkeys(options.problem or ()) or dict(suite.problems)
    problems = {
        problem_label(text): make_problem(text, [], length if horizon is None else horizon)
        for text, length in steps.items()
    }
    plans = [
        Comparison({label: problem}, policies, seeds, horizon or steps.get(label), options.jobs)
        for label, problem in problems.items()
    ]
    lengths = {label: plan.steps[label] for plan, label in zip(plans, problems, strict=True)}
    arguments = {"command": "board", "suite": name, **lengths}
    arguments[files.SOURCES] = files.label_sources([*problems, *policies], {})
    store = RunStore(out, arguments, lengths)
    runs, exit_status = _collect_runs(plans, store, options.cluster)
    if exit_status or not runs:
        raise StoppedError(exit_status)
    rows = pd.concat([runs[key] for plan in plans for key in plan.runs], ignore_index=True)
    origin = provenance(name, shlex.join(["tvbandits", *sys.argv[1:]]))
    names = write_board(Board.of(rows), origin, out)
    print((out / "board.md").read_text())
    say(f"wrote {', '.join(names)} in {out}; every run in {out / files.RUNS}")


def _run(
    command: str, options: Comparing, tables: TableOptions, policies: list[str], out: str | None
) -> Result:
    """Run a comparison until it is complete or the user stops it; resume one that was stopped."""
    folder = None if out is None else files.writable_folder(_folder("--out", out))
    plan = _plan(options, tables.given, policies)
    arguments = _arguments(command, options, plan)
    if tables.given:
        arguments["tables"] = tables.given
    store = None if folder is None else RunStore(folder, arguments, plan.steps)
    earlier = None if folder is None or not (folder / files.ROWS).exists() else files.read(folder)
    runs, exit_status = _collect_runs([plan], store, options.cluster)
    if not runs:
        say("stopped before the first run was complete: there is nothing to show")
        raise StoppedError(exit_status)
    arguments = arguments if store is None else store.arguments
    arguments["interrupted"] = not runs.keys() >= {*plan.runs}
    references = {
        text: problem_references(problem, arguments["seeds"], options.horizon, options.batch)
        for text, problem in plan.problems.items()
    }
    units = {text: problem.unit for text, problem in plan.problems.items()}
    if earlier is not None:
        references, units = earlier.references | references, earlier.units | units
    order = [arguments["problems"], arguments["policies"]]
    keys = sorted(runs, key=lambda key: (order[0].index(key[0]), order[1].index(key[1]), key[2]))
    rows = pd.concat([runs[key] for key in keys], ignore_index=True)
    return Result(rows, exit_status, plan.problems, references, units, arguments, folder)


def _plan(options: Comparing, tables: Mapping[str, Any], policies: list[str]) -> Comparison:
    """Return the comparison, after printing what the data files hold."""
    if options.cluster is not None and options.equal_information:
        raise ValueError(
            "--cluster and --equal-information cannot be combined: a cluster plays runs one by one"
        )
    data = options.data or []
    problems = {
        problem_label(text): make_problem(text, data, options.horizon, tables)
        for text in options.problems
    }
    if tables and not any(READS_OPTIONS & {label.partition(":")[0]} for label in problems):
        raise ValueError(f"--{next(iter(tables))} is for {', '.join(sorted(READS_OPTIONS))}")
    if data and not any(label.partition(":")[0] in READS_FILES for label in problems):
        raise ValueError(
            f"--data is for problems that read files: {', '.join(sorted(READS_FILES))}"
        )
    for text, problem in problems.items():
        if data and (summary := data_summary(problem)):
            say(f"{text}: {summary}")
    return Comparison(
        problems,
        policies,
        options.seeds,
        options.horizon,
        options.jobs,
        options.beta,
        NamedExpert(options.expert) if options.expert else simulator,
        options.batch,
        options.equal_information,
    )


def _arguments(command: str, options: Comparing, plan: Comparison) -> dict[str, Any]:
    """Return the arguments that are kept with the rows, without the cluster that runs are played on."""
    arguments = {name: value for name, value in vars(options).items() if name != "cluster"}
    data = options.data or []
    arguments |= {"problems": list(plan.problems), "policies": list(plan.policies)}
    return {
        "command": command,
        **arguments,
        "data": [path.name for path in data],
        "checksums": [_checksum(path) for path in data],
        files.SOURCES: files.label_sources([*plan.problems, *plan.policies], arguments),
    }


def _checksum(path: Path) -> int:
    """Return the checksum of a file of any size."""
    checksum = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            checksum = zlib.crc32(chunk, checksum)
    return checksum


def _collect_runs(
    plans: Sequence[Comparison], store: RunStore | None, cluster: str | None
) -> tuple[dict[Key, pd.DataFrame], int]:
    """Return the rows of all runs, of which those in the store are not repeated, and the exit status."""
    keys = {key for plan in plans for key in plan.runs}
    stored = {} if store is None else _load(store, keys)
    earlier = {key: rows for key, rows in stored.items() if key in keys}
    others = len(stored) - len(earlier)
    if stored:
        more = f"; the folder keeps {others} more" if others else ""
        say(f"{len(earlier)} of {len(keys)} runs exist already{more}")
    runs: Iterator[Run] = (run for plan in plans for run in iterate(plan, earlier))
    if cluster is not None:
        missing = earlier.keys() != keys
        runs = play_on_cluster(cluster, plans, earlier, say) if missing else iter(())
    rows, exit_status = _play(runs if store is None else store.save_each(runs), len(keys), earlier)
    if store is not None:  # another process may have played more in the same folder
        rows = store.load() | rows
    return rows, exit_status


def _load(store: RunStore, keys: Collection[Key]) -> dict[Key, pd.DataFrame]:
    """Return the rows in a folder, without those whose code has changed: a line says which."""
    modules, removed = store.remove_changed()
    if removed:
        again = sum(key in keys for key in removed)
        unlisted = sorted({key[1] for key in removed if key not in keys})
        many = len(modules) > 1
        fates = (
            [f"{plural(again, 'run')} of {'them' if many else 'it'} will be played again"]
            if again
            else []
        )
        if unlisted:
            count = plural(len(removed) - again, "run")
            fates.append(f"{count} of {', '.join(unlisted)} removed (name it to play it again)")
        say(f"{', '.join(modules)} {'have' if many else 'has'} changed: {'; '.join(fates)}")
    return store.load()


def _play(
    runs: Iterator[Run], total: int, earlier: Mapping[Key, pd.DataFrame]
) -> tuple[dict[Key, pd.DataFrame], int]:
    """Return the rows of earlier runs and of all others, and the exit status of an interrupt, or 0."""
    rows, exit_status = dict(earlier), 0
    with interrupt_on_termination(), progress_bars(MofNCompleteColumn()) as bars:
        task = bars.add_task("preparing", total=total, completed=len(rows))
        try:
            for run in runs:
                rows[run.key] = run.rows
                bars.update(task, completed=len(rows), description=f"{run.problem} {run.policy}")
        except KeyboardInterrupt as interrupt:
            terminated = isinstance(interrupt, Terminated)
            exit_status = TERMINATED if terminated else INTERRUPTED
            bars.stop()
            word = "terminated" if terminated else "interrupted"
            say(f"{word}: {len(rows)} of {total} runs are complete and saved")
            with contextlib.suppress(Exception):
                runs.close()  # type: ignore[attr-defined]
    return rows, exit_status


def _folder(name: str, text: str) -> Path:
    """Return a path; an empty text, such as an unset variable, is not the working directory."""
    if not text.strip():
        raise ValueError(f'{name} must name a folder, got "{text}"')
    return file_path(name, text)

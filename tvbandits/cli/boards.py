"""What the command board does: play a suite, keep every run, write tables and pictures.

What the command report does with a comparison.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tvbandits.cli.problems import make_problem, problem_label
from tvbandits.cli.stopping import StoppedError, ending_like_an_interrupt
from tvbandits.cli.terminal import check_numbers, collect, say, write_page
from tvbandits.comparison import files
from tvbandits.comparison.board import OURS, SUITES, Board, Made, write
from tvbandits.comparison.compare import Comparison
from tvbandits.comparison.files import RunStore, can_keep
from tvbandits.comparison.page import comparison_report
from tvbandits.comparison.tasks import Cluster, Engine, Here, tasks_of


@dataclass(frozen=True)
class BoardOrder:
    """What is to be played, as it stands on the command line.

    Attributes
    ----------
    suite : str
    policies : list of str
        Of a newcomer: they are played besides the suite's.
    only : list of str
        Policies instead of the suite's.
    problems : list of str
        Problems instead of the suite's, for as many steps as they have, or `horizon`.
    seeds, horizon : int or None
    jobs : int
    cluster : str or None
    out : str or None
    """

    suite: str
    policies: list[str]
    only: list[str]
    problems: list[str]
    seeds: int | None
    horizon: int | None
    jobs: int
    cluster: str | None
    out: str | None


def board(order: BoardOrder, command: list[str]) -> None:
    """Play what is missing, and write the board."""
    if order.suite not in SUITES:
        raise ValueError(f'SUITE must be one of {", ".join(SUITES)}, got "{order.suite}"')
    suite = SUITES[order.suite]
    seeds = suite.seeds if order.seeds is None else order.seeds
    check_numbers(seeds, order.jobs, order.horizon, None)
    if not can_keep():
        raise ValueError(
            "a board keeps its runs in Parquet files: pip install 'tvbandits[parquet]'"
        )
    out = files.writable_folder(Path(order.out or f"board-{order.suite}"))
    names = list(dict.fromkeys([*(order.only or suite.policies), *order.policies]))
    steps = dict.fromkeys(order.problems) if order.problems else dict(suite.problems)
    problems = {
        problem_label(text): make_problem(text, [], order.horizon or length)
        for text, length in steps.items()
    }
    plans = [
        Comparison({label: problem}, names, seeds, order.horizon or steps.get(label))
        for label, problem in problems.items()
    ]
    lengths = {label: plan.steps[label] for plan, label in zip(plans, problems, strict=True)}
    store = RunStore(out / "runs", {"command": "board", "suite": order.suite, **lengths}, lengths)
    wanted = {key for plan in plans for key in plan.runs}
    there = {key: rows for key, rows in store.finished().items() if key in wanted}
    if there:
        say(f"{len(there)} of {len(wanted)} runs are there already")
    tasks = [task for plan in plans for task in tasks_of(plan, there)]
    engine = engine_of(order.cluster, order.jobs)
    with ending_like_an_interrupt():
        done, stopped = collect(store.keeping(engine(tasks) if tasks else ()), len(wanted), there)
    if stopped or not done:
        raise StoppedError(stopped)
    rows = pd.DataFrame([row for plan in plans for key in plan.runs for row in done[key]])
    made = Made.now(order.suite, shlex.join(["tvbandits", *command]))
    found = write(Board.of(rows, problems), made, out, OURS, "adaptive-gp-ucb")
    print((out / "board.md").read_text())
    say(f"wrote {', '.join(found)} in {out}; every run in {store.folder}")


def engine_of(cluster: str | None, jobs: int) -> Engine:
    """Processes of this machine, or a cluster."""
    return Here(jobs) if cluster is None else Cluster(cluster, say)


PAGE = "report.html"


def report(place: str, out: str | None) -> None:
    """Write the page of a comparison."""
    write_page(lambda: comparison_report(Path(place)), Path(out) if out else Path(place) / PAGE)

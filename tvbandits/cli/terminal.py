"""What the commands say: progress while runs go on, and tables when they are done.

Pages that a command leaves behind.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from tvbandits.cli.stopping import INTERRUPTED, TERMINATED, Terminated, ending_like_an_interrupt
from tvbandits.comparison.summary import (
    Key,
    Run,
    count_text,
    pairwise_differences,
    panels_of,
    regret_texts,
    summarise,
)
from tvbandits.datasets.tables.references import References
from tvbandits.domains.problem import Problem
from tvbandits.io import replace_file
from tvbandits.validation import clean

messages = Console(stderr=True)

# Columns that only some problems have.
MORE = ("violations", "move cost")


# Columns of the summary that are regrets, and those of the differences to the best policy.
REGRETS = ("average_regret", "average_regret_sd", "average_regret_ci95", "last_fifth_regret")
OVER = ("difference", "ci95")


# So many characters of what a problem says of its data are printed.
LONGEST_SUMMARY = 10_000


def collect(
    runs: Iterator[Run], total: int, there: Mapping[Key, pd.DataFrame]
) -> tuple[dict[Key, pd.DataFrame], int]:
    """Rows of the runs that are there, and of the others as soon as each is played; who stopped it.

    The second is the exit status after an interrupt, or 0.
    """
    done, stopped = dict(there), 0
    if there:
        say(f"{len(there)} of {total} runs are there already")
    with ending_like_an_interrupt(), bars(MofNCompleteColumn()) as progress:
        task = progress.add_task("preparing", total=total, completed=len(done))
        try:
            for run in runs:
                done[run.key] = run.rows
                said = f"{run.problem} {run.policy}"
                progress.update(task, completed=len(done), description=said)
        except KeyboardInterrupt as interrupt:
            ended = isinstance(interrupt, Terminated)
            stopped = TERMINATED if ended else INTERRUPTED
            progress.stop()
            word = "terminated" if ended else "interrupted"
            say(f"{word}: {len(done)} of {total} runs are done and kept")
            with contextlib.suppress(Exception):
                runs.close()  # type: ignore[attr-defined]
    return done, stopped


def say(line: str) -> None:
    """One line for people, as it is: neither wrapped nor taken for markup."""
    messages.print(clean(line), soft_wrap=True, markup=False, highlight=False, emoji=False)


def bars(*columns: ProgressColumn) -> Progress:
    """Bars with a text on a terminal, and silence elsewhere."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    )


def print_tables(
    rows: pd.DataFrame, references: dict[str, References], problems: dict[str, Problem]
) -> None:
    """The summary of every problem, and the references it is read against."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    beside = {
        (line["problem"], line["policy"]): line
        for line in pairwise_differences(rows).to_dict("records")
    }
    for problem, width, group in panels_of(summarise(rows)):
        unit = f", regret in {problems[problem].unit}" if problems[problem].unit else ""
        # A comparison that was cut short has fewer seeds of its last policy.
        seeds, steps = (
            count_text(group["seeds"], "seed"),
            count_text(group["horizon"].iloc[:1], "step"),
        )
        title = f"{problem}, {width}, {seeds}, {steps}{unit}"
        console.print(Text(clean(title), style="italic"), soft_wrap=True)
        sign = "±" if console.encoding.startswith("utf") else "+-"
        policies = group.to_dict(orient="records")
        pairs = [beside.get((problem, line["policy"]), {}) for line in policies]
        regrets = [
            [*(line[name] for name in REGRETS), *(pair.get(name, math.nan) for name in OVER)]
            for line, pair in zip(policies, pairs, strict=True)
        ]
        texts = regret_texts([value for line in regrets for value in line])
        parts = zip(*[iter(texts)] * (len(REGRETS) + len(OVER)), strict=True)
        lines = [_cells(line, part, sign) for line, part in zip(policies, parts, strict=True)]
        left_out = {each for each in MORE if all(cells[each] == "-" for cells in lines)}
        if width != "several widths":
            left_out.add("width")
        shown = [heading for heading in lines[0] if heading not in left_out]
        table = Table()
        for heading in shown:
            side: Any = "left" if heading == "policy" else "right"
            # On a narrow terminal names and numbers go on below, so that none is cut.
            table.add_column(heading, justify=side, overflow="fold")
        for cells in lines:
            table.add_row(*(Text(cells[heading]) for heading in shown))
        console.print(table)
        uniform, fixed, last, read = regret_texts(references[problem], decimals=2)
        console.print(
            f"references: uniform {uniform}, best fixed point {fixed}, last step's best {last}, "
            f"forecast with all read {read}"
        )
        summary = getattr(problems[problem], "summary", "")
        if summary:
            console.print(clean(f"data: {summary}", LONGEST_SUMMARY), markup=False)


def _cells(line: dict[Any, Any], texts: Sequence[str], sign: str) -> dict[str, str]:
    """Of a policy, by heading; `texts` are its `REGRETS`, and `OVER` the best one, paired by seed."""
    average, deviation, interval, last, over, over_interval = texts
    return {
        "policy": clean(str(line["policy"])),
        "width": str(line["width"]),
        "average regret": average,
        "sd": deviation,
        f"95% {sign}": interval,
        "over the best": over if over_interval == "-" else f"{over} {sign} {over_interval}",
        "last fifth": last,
        "queries": f"{line['queries_per_step']:.1f}",
        "ms": f"{1e3 * line['seconds_per_step']:.2f}",
        "violations": _or_dash(line.get("violations_per_step"), ".1%"),
        "move cost": _or_dash(line.get("move_cost_per_step"), ".3g"),
    }


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None or value != value else format(value, form)


def write_page(
    make: Callable[[], str], place: Path, replaces: Callable[[Path], bool] | None = None
) -> None:
    """Put a page in place once it is whole; of what is there, only what `replaces` says, if given.

    Raises
    ------
    ValueError
        If plotly is missing, or the page cannot be written.
    """
    try:
        text = make()
    except ImportError as error:
        raise ValueError(str(error)) from error
    try:
        replace_file(
            place, lambda draft: draft.write_text(text, encoding="utf-8"), replaces=replaces
        )
    except FileExistsError as error:
        raise ValueError(f"{error} that is no earlier page of this campaign") from error
    except OSError as error:
        raise ValueError(f'cannot write "{place}": {error.strerror or error}') from error
    say(f"{place}")

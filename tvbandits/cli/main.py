"""The command line: compare, plot, policies, problems."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from tvbandits._version import __version__
from tvbandits.cli import data
from tvbandits.cli.console import check_numbers, collect, print_margins, print_tables, say
from tvbandits.cli.problems import PROBLEMS, READS_FILES, make_problem
from tvbandits.comparison import files, frontier
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.entrants import Named
from tvbandits.comparison.regret_plot import asks
from tvbandits.comparison.summary import problem_references, summarise
from tvbandits.core.protocols import ExpertError, Problem
from tvbandits.datasets.tables.references import References
from tvbandits.policies import AS_IN_THE_PAPER, FIRST_COMPARISON, POLICIES
from tvbandits.policies.expert import PLANS
from tvbandits.policies.names import parameters_of, parse_spec, written

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Gaussian-process bandits for rewards that drift.",
)


app.add_typer(data.app, name="data")


SEVERAL = (*data.SPREAD, "--budgets")
"""Options that take several numbers."""


INTERRUPTED = 130
"""Exit status after Ctrl-C."""


NUMBER_OR_RANGE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(-\d+)?")
"""What goes on after the first value of an option that takes several: 2, 0.5, 1e3, 2008-2010."""


class _StoppedError(Exception):
    """The user has stopped a comparison, and knows what became of it."""


def main() -> None:
    """Run the command line: a bad argument is one line and exit status 2, and Ctrl-C 130."""
    try:
        status = _status()
    except KeyboardInterrupt:
        status = _complain("interrupted") and INTERRUPTED
    sys.exit(status)


def _status() -> int:
    """Exit status, after the message that belongs to it."""
    try:
        arguments = spread(sys.argv[1:], SEVERAL)
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except _StoppedError:
        status = INTERRUPTED
    except (ValueError, ExpertError) as error:
        status = _complain(str(error))
    except BrokenPipeError:
        # Who reads the output has had enough; what is left of it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        status = _complain(str(error)) and 1
    except Exception as error:
        # What the command-line parser raises knows how to speak for itself.
        if not hasattr(error, "format_message"):
            raise
        status = _complain(error.format_message()) if error.format_message() else 2
    else:
        if status == INTERRUPTED:
            # The command-line parser has met Ctrl-C, and kept silent.
            raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _complain(message: str) -> int:
    print("tvbandits: " + " ".join(message.split()), file=sys.stderr)
    return 2


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f'expected a whole number, got "{text}"') from None


def _whole_number(explanation: str) -> Any:
    return typer.Option(help=explanation, parser=_whole, metavar="INTEGER")


Problems = Annotated[list[str], typer.Argument(help="PROBLEM[:key=value,...]")]


Width = Annotated[str, typer.Option(help='The width: "theory", or a number for a constant width.')]


Steps = Annotated[int | None, _whole_number("Steps; the problem's own by default.")]


Seeds = Annotated[int, _whole_number("Number of seeds.")]


Jobs = Annotated[int, _whole_number("Runs at the same time; -1 for all cores.")]


Files = Annotated[
    list[Path] | None, typer.Option("--data", help="A data file; may be given several times.")
]


Folder = Annotated[str | None, typer.Option(metavar="DIR", help="Folder for tables and picture.")]


@app.command("compare")
def compare_command(
    problem: Problems,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="NAME[:key=value,...]; eight by default.")
    ] = None,
    confidence: Width = "theory",
    horizon: Steps = None,
    seeds: Seeds = 10,
    jobs: Jobs = -1,
    data: Files = None,
    out: Folder = None,
    format_: Annotated[str, typer.Option("--format", help="table or json")] = "table",
    equal_information: Annotated[
        bool,
        typer.Option(
            "--equal-information",
            help="Give policies that ask nobody as many answers, at random points.",
        ),
    ] = False,
    bound: Annotated[
        bool, typer.Option("--bound", help="Draw the theorem's bound in the picture of --out.")
    ] = False,
) -> None:
    """Run policies on problems, print a summary, and write rows and a picture."""
    if format_.lower() not in ("table", "json"):
        raise ValueError(f'--format must be table or json, got "{format_}"')
    order = _Order(problem, confidence, horizon, seeds, jobs, data or [])
    folder = None if out is None else files.writable_folder(_folder("--out", out))
    policies = list(dict.fromkeys(policy or FIRST_COMPARISON))
    # A comparison that names none repeats the paper's; a name that is given means what it says.
    known = {name: Named(AS_IN_THE_PAPER.get(name, name)) for name in FIRST_COMPARISON}
    if bound and folder is None:
        say("no bound is drawn: --bound is for the picture, which --out DIR writes")
    done = _played(order, policies if policy else known, equal_information)
    rows, references = done.rows, done.references
    if format_.lower() == "json":
        print(json.dumps(_json(rows, references), allow_nan=False))
    else:
        print_tables(rows, references, done.problems, done.units)
    if folder is not None:
        arguments = {
            **done.arguments,
            "equal_information": equal_information,
            "stands_for": {} if policy else AS_IN_THE_PAPER,
        }
        if bound and not asks(rows):
            say("no bound is drawn: none of the policies asked an expert")
        files.write(folder, rows, references, done.units, arguments, bound=bound)
        names = ", ".join((files.ROWS, files.SUMMARY, files.PICTURE, files.RUN))
        say(f"wrote {names} in {folder}")
    if done.interrupted:
        raise _StoppedError


@dataclass(frozen=True)
class _Order:
    """What is to be played, as it stands on the command line."""

    problems: list[str]
    confidence: str
    horizon: int | None
    seeds: int
    jobs: int
    data: list[Path]

    def __post_init__(self) -> None:
        check_numbers(self.seeds, self.jobs, self.horizon, self.confidence)
        if self.data and not any(parse_spec(text)[0] in READS_FILES for text in self.problems):
            raise ValueError(
                f"--data is for problems that read files: {', '.join(sorted(READS_FILES))}"
            )


@dataclass(frozen=True)
class _Done:
    """What came of it."""

    rows: pd.DataFrame
    interrupted: bool
    problems: dict[str, Problem]
    references: dict[str, References]
    units: dict[str, str]
    arguments: dict[str, Any]


def _played(
    order: _Order, policies: list[str] | dict[str, Named], equal_information: bool = False
) -> _Done:
    """Play it, as far as the user lets it go on."""
    problems = {text: make_problem(text, order.data, order.horizon) for text in order.problems}
    plan = Comparison(
        problems,
        policies,
        order.seeds,
        order.horizon,
        order.jobs,
        order.confidence,
        equal_information=equal_information,
    )
    runs = iterate(plan)
    rows, interrupted = collect(runs, len(problems) * len(policies) * order.seeds)
    if rows.empty:
        say("stopped before the first run was done: nothing to show")
        raise _StoppedError
    return _Done(
        rows,
        interrupted,
        problems,
        {
            text: problem_references(made, order.seeds, order.horizon)
            for text, made in problems.items()
        },
        {text: made.unit for text, made in problems.items()},
        {
            "problems": order.problems,
            "policies": list(policies),
            "confidence": order.confidence,
            "horizon": order.horizon,
            "seeds": order.seeds,
            "jobs": order.jobs,
            "data": [path.name for path in order.data],
            "interrupted": interrupted,
        },
    )


@app.command("frontier")
def frontier_command(
    problem: Problems,
    budgets: Annotated[
        list[float] | None,
        typer.Option("--budgets", metavar="NUMBER...", help="Queries a step; 1 2 4 8 by default."),
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option("--plan", help=f"{', '.join(PLANS)}; all of them by default."),
    ] = None,
    confidence: Width = "2",
    horizon: Steps = None,
    seeds: Seeds = 10,
    jobs: Jobs = -1,
    data: Files = None,
    out: Folder = None,
) -> None:
    """Show what questions are worth: regret against queries per step, for each query plan."""
    order = _Order(problem, confidence, horizon, seeds, jobs, data or [])
    policies = frontier.policies(budgets or [1, 2, 4, 8], plan or list(PLANS))
    folder = None if out is None else files.writable_folder(_folder("--out", out))
    done = _played(order, policies)
    rows = done.rows
    print_tables(rows, done.references, done.problems, done.units)
    for text in problem:
        print_margins(text, frontier.margins(frontier.frontier(rows[rows["problem"] == text])))
    if folder is not None:
        files.write(folder, rows, done.references, done.units, done.arguments, bound=False)
        frontier.frontier(rows).to_csv(folder / "frontier.csv", index=False)
        frontier.picture(rows, done.units).savefig(folder / "frontier.png", dpi=120)
        names = ", ".join((files.ROWS, files.SUMMARY, files.RUN, "frontier.csv, frontier.png"))
        say(f"wrote {names} in {folder}")
    if done.interrupted:
        raise _StoppedError


@app.command("plot")
def plot_command(
    folder: Annotated[str, typer.Argument(help="A folder made by compare.")],
) -> None:
    """Draw the picture of a comparison again from its rows."""
    path = _folder("FOLDER", folder)
    found = files.read(path)
    files.draw(files.writable_folder(path), found)
    say(f"wrote {files.PICTURE} in {path}")


@app.command("policies")
def policies_command() -> None:
    """List the policies: name, what it is, and its parameters with their defaults.

    Without a default, a value is recommended or estimated for the problem at hand.
    """
    _print_list([(each.name, each.title, written(each.parameters)) for each in POLICIES.values()])


@app.command("problems")
def problems_command() -> None:
    """List the problems: name, what it is, and its parameters with their defaults."""
    _print_list(
        [
            (name, summary, written(parameters_of(make, given=int(name in READS_FILES))))
            for name, (make, summary) in PROBLEMS.items()
        ]
    )


def _folder(name: str, text: str) -> Path:
    """An empty text, such as a shell variable that is not set, is not the folder we are in."""
    if not text.strip():
        raise ValueError(f'{name} must name a folder, got "{text}"')
    return Path(text)


def _json(rows: pd.DataFrame, references: dict[str, References]) -> dict[str, Any]:
    """One object; what is not a number becomes null."""
    summary = summarise(rows).astype(object)
    records = summary.where(summary.notna(), None).to_dict(orient="records")
    return {"summary": records, "references": files.as_plain(references)}


def _print_list(entries: list[tuple[str, str, str]]) -> None:
    """Columns, a line for each entry."""
    widths = [max(map(len, column)) for column in zip(*entries, strict=True)]
    for entry in entries:
        cells = (f"{cell:<{width}}" for cell, width in zip(entry, widths, strict=True))
        print("  ".join(cells).rstrip())


def spread(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """Let an option take several numbers: "--years 2008 2009" is "--years 2008 --years 2009".

    Only numbers and ranges of numbers (2008-2010) follow the first value, so that names after them
    are left alone; and so is everything after "--".

    Parameters
    ----------
    arguments : sequence of str
        As the shell gives them, without the name of the program.
    options : collection of str
        The options this is for, with their hyphens.
    """
    found: list[str] = []
    option, expected = "", False
    for place, argument in enumerate(arguments):
        if argument == "--":
            return [*found, *arguments[place:]]
        if option and not expected and NUMBER_OR_RANGE.fullmatch(argument):
            found += [option, argument]
            continue
        found.append(argument)
        if expected:
            expected = False
        else:
            name, equals, _ = argument.partition("=")
            option = name if name in options else ""
            expected = bool(option) and not equals
    return found

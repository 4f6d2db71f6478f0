"""The command line: compare, plot, policies, problems."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tvbandits import data_commands, output
from tvbandits._version import __version__
from tvbandits.compare import Run, as_width, iterate
from tvbandits.datasets import (
    DriftingBump,
    GPDrift,
    Switching,
    abalone,
    california,
    ozone,
    ozone_network,
    sensor_field_from_files,
)
from tvbandits.plots import asks
from tvbandits.policies import FIRST_COMPARISON, POLICIES
from tvbandits.protocols import ExpertError, Problem
from tvbandits.references import References
from tvbandits.specs import accepts, parse_call, parse_spec, spread, written
from tvbandits.tables import counted, problem_references, summarise

PROBLEMS: dict[str, tuple[Callable[..., Problem], str]] = {
    "drifting-bump": (DriftingBump, "the synthetic experiment of SparQ-GP-UCB on [-50, 50]"),
    "gp-drift": (GPDrift, "sample paths of the TV-GP-UCB model on the unit square"),
    "switching": (Switching, "a new draw of a Gaussian process every so many steps"),
    "ozone": (ozone, "daily ozone at EPA sites, from files given by --data"),
    "abalone": (abalone, "a fixed table of 4177 rows: the age of shellfish"),
    "california": (california, "a fixed table of 20640 rows: house values"),
    "ozone-network": (ozone_network, "simulated daily ozone at 28 stations"),
    "sensor-field": (
        sensor_field_from_files,
        "your own network: two --data files, values and sites",
    ),
}
READS_FILES = {"ozone", "abalone", "california", "sensor-field"}
NEEDS_FILES = {"ozone", "sensor-field"}
LENGTHS = {"ozone-network": "days"}
"""What makes a problem longer, where it is not called horizon."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Gaussian-process bandits for rewards that drift.",
)
app.add_typer(data_commands.app, name="data")
messages = Console(stderr=True)

SEVERAL = (*data_commands.SPREAD, "--budgets")
"""Options that take several numbers."""

INTERRUPTED = 130
"""Exit status after Ctrl-C."""


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


@app.command("compare")
def compare_command(
    problem: Annotated[list[str], typer.Argument(help="PROBLEM[:key=value,...]")],
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="NAME[:key=value,...]; eight by default.")
    ] = None,
    confidence: Annotated[
        str, typer.Option(help='The width: "theory", or a number for a constant width.')
    ] = "theory",
    horizon: Annotated[int | None, _whole_number("Steps; the problem's own by default.")] = None,
    seeds: Annotated[int, _whole_number("Number of seeds.")] = 10,
    jobs: Annotated[int, _whole_number("Runs at the same time; -1 for all cores.")] = -1,
    data: Annotated[
        list[Path] | None, typer.Option("--data", help="A data file; may be given several times.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for rows, summary and picture.")
    ] = None,
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
    _check_numbers(seeds, jobs, horizon, confidence)
    if data and not any(parse_spec(text)[0] in READS_FILES for text in problem):
        raise ValueError(
            f"--data is for problems that read files: {', '.join(sorted(READS_FILES))}"
        )
    folder = None if out is None else output.writable_folder(_folder("--out", out))
    problems = {text: make_problem(text, data or [], horizon) for text in problem}
    policies = list(dict.fromkeys(policy or FIRST_COMPARISON))
    runs = iterate(
        problems,
        policies,
        seeds,
        horizon,
        jobs,
        confidence=confidence,
        equal_information=equal_information,
    )
    if bound and folder is None:
        _say("no bound is drawn: --bound is for the picture, which --out DIR writes")
    rows, interrupted = _collect(runs, len(problems) * len(policies) * seeds)
    if rows.empty:
        _say("stopped before the first run was done: nothing to show")
        raise _StoppedError
    references = {text: problem_references(made, seeds, horizon) for text, made in problems.items()}
    units = {text: made.unit for text, made in problems.items()}
    if format_.lower() == "json":
        print(json.dumps(_json(rows, references), allow_nan=False))
    else:
        _print_tables(rows, references, problems, units)
    if folder is not None:
        arguments = {
            "problems": problem,
            "policies": policies,
            "confidence": confidence,
            "horizon": horizon,
            "seeds": seeds,
            "jobs": jobs,
            "equal_information": equal_information,
            "data": [path.name for path in data or []],
            "interrupted": interrupted,
        }
        if bound and not asks(rows):
            _say("no bound is drawn: none of the policies asked an expert")
        output.write(folder, rows, references, units, arguments, bound=bound)
        names = ", ".join((output.ROWS, output.SUMMARY, output.PICTURE, output.RUN))
        _say(f"wrote {names} in {folder}")
    if interrupted:
        raise _StoppedError


@app.command("plot")
def plot_command(
    folder: Annotated[str, typer.Argument(help="A folder made by compare.")],
) -> None:
    """Draw the picture of a comparison again from its rows."""
    path = _folder("FOLDER", folder)
    found = output.read(path)
    output.draw(output.writable_folder(path), found)
    _say(f"wrote {output.PICTURE} in {path}")


@app.command("policies")
def policies_command() -> None:
    """List the policies: name, what it is, and its parameters with their defaults.

    Without a default, a value is recommended or estimated for the problem at hand.
    """
    _print_list(
        [(name, policy.summary, written(policy.make, given=1)) for name, policy in POLICIES.items()]
    )


@app.command("problems")
def problems_command() -> None:
    """List the problems: name, what it is, and its parameters with their defaults."""
    _print_list(
        [
            (name, summary, written(make, given=int(name in READS_FILES)))
            for name, (make, summary) in PROBLEMS.items()
        ]
    )


def _folder(name: str, text: str) -> Path:
    """An empty text, such as a shell variable that is not set, is not the folder we are in."""
    if not text.strip():
        raise ValueError(f'{name} must name a folder, got "{text}"')
    return Path(text)


def make_problem(text: str, files: list[Path], horizon: int | None) -> Problem:
    """Make the problem that "name:key=value,..." describes.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, a value cannot be used, or files are missing.
    """
    name, _ = parse_spec(text)
    if name not in PROBLEMS:
        raise ValueError(f'unknown problem "{name}"; there are: {", ".join(PROBLEMS)}')
    make, _ = PROBLEMS[name]
    given: list[Any] = []
    if name in NEEDS_FILES and not files:
        raise ValueError(f'"{name}" reads files: give them by --data FILE')
    if name in READS_FILES:
        given = [files]
    parameters = parse_call(make, text, given=len(given))
    length = LENGTHS.get(name, "horizon")
    if horizon is not None and accepts(make, length):
        parameters.setdefault(length, horizon)
    try:
        return make(*given, **parameters)
    except TypeError as error:
        raise ValueError(f'"{text}": {error}') from error


def _collect(runs: Iterator[Run], total: int) -> tuple[pd.DataFrame, bool]:
    """The rows of all runs; of those that are done, if interrupted."""
    done: list[Run] = []
    interrupted = False
    with _progress() as progress:
        task = progress.add_task("preparing", total=total)
        try:
            for run in runs:
                done.append(run)
                progress.update(
                    task, advance=1, description=f"{run.problem} {run.policy}{_batches(run)}"
                )
        except KeyboardInterrupt:
            interrupted = True
            progress.stop()
            _say(f"interrupted: {len(done)} of {total} runs are done and kept")
            with contextlib.suppress(Exception):
                runs.close()  # type: ignore[attr-defined]
    return pd.DataFrame([row for run in done for row in run.rows]), interrupted


def _say(line: str) -> None:
    """One line for people, as it is: neither wrapped nor taken for markup."""
    messages.print(line, soft_wrap=True, markup=False, highlight=False, emoji=False)


def _check_numbers(seeds: int, jobs: int, horizon: int | None, confidence: str) -> None:
    """Refuse in the words of the command line."""
    if seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {seeds}")
    if jobs == 0 or jobs < -1:
        raise ValueError(f"--jobs must be at least 1, or -1 for all cores, got {jobs}")
    if horizon is not None and horizon < 1:
        raise ValueError(f"--horizon must be at least 1, got {horizon}")
    try:
        as_width(confidence)
    except ValueError as error:
        raise ValueError(f"--{error}") from error


def _batches(run: Run) -> str:
    """How many batches a run took, if it played in batches."""
    batches = round(sum(1 / row["batch_size"] for row in run.rows))
    return "" if batches == len(run.rows) else f", {batches} batches"


def _progress() -> Progress:
    """A bar on a terminal, and silence elsewhere."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    )


def _json(rows: pd.DataFrame, references: dict[str, References]) -> dict[str, Any]:
    """One object; what is not a number becomes null."""
    summary = summarise(rows).astype(object)
    records = summary.where(summary.notna(), None).to_dict(orient="records")
    return {"summary": records, "references": output.as_plain(references)}


def _print_tables(
    rows: pd.DataFrame,
    references: dict[str, References],
    problems: dict[str, Problem],
    units: dict[str, str],
) -> None:
    console = Console(width=None if sys.stdout.isatty() else 120)
    for (problem, confidence), group in summarise(rows).groupby(
        ["problem", "confidence"], sort=False
    ):
        unit = f", regret in {units[str(problem)]}" if units[str(problem)] else ""
        first = group.iloc[0]
        # A comparison that was cut short has fewer seeds of its last policy.
        seeds, steps = counted(group["seeds"], "seed"), counted([first["horizon"]], "step")
        title = f"{problem}, width {confidence}, {seeds}, {steps}{unit}"
        console.print(Text(title, style="italic"), soft_wrap=True)
        table = Table()
        # On a narrow terminal names and numbers go on below, so that none is cut.
        table.add_column("policy", overflow="fold")
        for heading in ("average regret", "sd", "95% ±", "last fifth", "queries", "ms"):
            table.add_column(heading, justify="right", overflow="fold")
        for line in group.to_dict(orient="records"):
            table.add_row(Text(str(line["policy"])), *_cells(line))
        console.print(table)
        found = references[str(problem)]
        console.print(
            f"references: uniform {found.uniform:.2f}, best fixed point {found.best_fixed:.2f}, "
            f"last step's best {found.last_best:.2f}"
        )
        summary = getattr(problems[str(problem)], "summary", "")
        if summary:
            console.print(f"data: {summary}", markup=False)


def _cells(line: dict[Any, Any]) -> list[str]:
    return [
        f"{line['average_regret']:.3f}",
        _or_dash(line["average_regret_sd"], ".3f"),
        _or_dash(line["average_regret_ci95"], ".3f"),
        f"{line['last_fifth_regret']:.3f}",
        f"{line['queries_per_step']:.1f}",
        f"{1e3 * line['seconds_per_step']:.2f}",
    ]


def _or_dash(value: float, form: str) -> str:
    return "-" if value != value else format(value, form)


def _print_list(entries: list[tuple[str, str, str]]) -> None:
    """Columns, a line for each entry."""
    widths = [max(map(len, column)) for column in zip(*entries, strict=True)]
    for entry in entries:
        cells = (f"{cell:<{width}}" for cell, width in zip(entry, widths, strict=True))
        print("  ".join(cells).rstrip())

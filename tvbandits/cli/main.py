"""The command line: compare, frontier, board, plot, report, policies, problems, data, campaign.

Only options are declared here. What a command does is imported when it is called, so that help is quick.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from tvbandits._version import __version__
from tvbandits.cli import campaigns as commands
from tvbandits.cli.options import Arguments, Folder, SuiteRun, Text, Texts, command
from tvbandits.cli.stopping import INTERRUPTED, TERMINATED, Later, StoppedError, Terminated

if TYPE_CHECKING:
    from tvbandits.cli import comparing, fetching, problems
else:
    comparing, fetching = Later("comparing"), Later("fetching")
    problems = Later("problems")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Gaussian-process bandits for rewards that drift.",
)


data = typer.Typer(no_args_is_help=True, help="Get data.")
app.add_typer(data, name="data")
app.add_typer(commands.app, name="campaign")


# Options that take several numbers.
SEVERAL = ("--years", "--budgets")


# So many characters of a message are printed.
LONGEST = 1500


# package.module:attribute: code of the user's own, whose mistakes are told in one line, too.
PLUG_IN = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


# Environment variable: let mistakes in code of one's own show where they are.
TRACEBACK = "TVBANDITS_TRACEBACK"


# What goes on after the first value of an option that takes several.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def main() -> None:
    """Run the command line: a bad argument is one line and exit status 2, and Ctrl-C 130."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that knows no more than ASCII shows the rest as escapes.
        if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = lambda said, *_, **__: f"tvbandits: warning: {_in_one_line(said)}\n"
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as it stands in the path
        sys.path.append(os.getcwd())  # noqa: PTH109 - package.module:name may lie here
    try:
        status = _status()
    except Terminated:
        status = _complain("terminated") and TERMINATED
    except KeyboardInterrupt:
        status = _complain("interrupted") and INTERRUPTED
    sys.exit(status)


def _status() -> int:
    """Exit status, after the message that belongs to it."""
    try:
        arguments = spread(sys.argv[1:], SEVERAL)
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except StoppedError as stopped:
        status = stopped.status
    except ValueError as error:
        if os.environ.get(TRACEBACK):
            raise
        status = _complain(_with_notes(error))
    except BrokenPipeError:
        # Who reads the output has had enough; what is left of it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        status = _complain(str(error)) and 1
    except (MemoryError, OverflowError, RecursionError) as error:
        said = f": {error}" if str(error) else ""
        status = _complain(f"what is asked for is too large ({type(error).__name__}{said})")
    except Exception as error:
        status = _odd(error)
    else:
        if status == INTERRUPTED:
            # The command-line parser has met Ctrl-C, and kept silent.
            raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _odd(error: Exception) -> int:
    """Exit status of what has no kind of ours; what is a mistake of the package is raised again."""
    # What the command-line parser raises knows how to speak for itself.
    if hasattr(error, "format_message"):
        said = error.format_message()
        cause: Any = error.__cause__
        if hasattr(cause, "errors"):  # pydantic's, of a number: they do not say what was given
            given = str(cause.errors()[0]["input"])
            said += "" if repr(given) in said else f', got "{given}"'
        return _complain(said) if said else 2
    missing = isinstance(error, ImportError) and error.name is None  # an extra
    if missing or any(kind.__name__ == "ExpertError" for kind in type(error).__mro__):
        return _complain(str(error))
    plugged = [each for each in sys.argv[1:] if PLUG_IN.search(each)]
    if not plugged or os.environ.get(TRACEBACK):
        raise error
    said = f"{type(error).__name__}: {_with_notes(error)}; {TRACEBACK}=1 shows where"
    return _complain(f"{', '.join(plugged)}: {said}")


def _with_notes(error: Exception) -> str:
    """What an error says, and where in a comparison it came up."""
    notes = ", ".join(getattr(error, "__notes__", ()))
    return (str(error) or type(error).__name__) + (f" ({notes})" if notes else "")


def _complain(message: str) -> int:
    print(f"tvbandits: {_in_one_line(message)}", file=sys.stderr)
    return 2


def _in_one_line(message: object) -> str:
    # What a file, a station or a server says may hold what a terminal obeys, and be of any length.
    plain = "".join(each if each.isprintable() else " " for each in str(message)[: 4 * LONGEST])
    line = " ".join(plain.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@command(app, "compare")
def compare_command(
    order: Arguments,
    policy: Annotated[
        Texts,
        Option(
            "--policy",
            help="NAME[:key=value,...], or package.module:maker; once for each; eight by default.",
        ),
    ] = None,
    out: Folder = None,
    format_: Annotated[
        Literal["table", "json"], Option("--format", case_sensitive=False)
    ] = "table",
) -> None:
    """Run policies on problems, print a summary, and write rows and a picture.

    Without --beta each policy has its own width, which is 2 for most.
    """
    comparing.compare(order, policy or [], out, format_)


@command(app, "frontier")
def frontier_command(
    order: Arguments,
    budgets: Annotated[
        list[float] | None,
        Option("--budgets", metavar="NUMBER...", help="Queries a step; 1 2 4 8 by default."),
    ] = None,
    plan: Annotated[
        Texts, Option("--plan", help="next, plausible, kdpp or random; all of them by default.")
    ] = None,
    out: Folder = None,
) -> None:
    """Show what questions are worth: regret against queries per step, for each query plan.

    Without --beta the width of every policy is 2.
    """
    comparing.frontier(order, budgets or [1, 2, 4, 8], plan or [], out)


@command(app, "board")
def board_command(order: SuiteRun) -> None:
    """Play a named suite, every run kept and resumed, and write tables and pictures."""
    comparing.board(order)


@command(app, "plot")
def plot_command(folder: Annotated[str, Argument(help="A folder made by compare.")]) -> None:
    """Draw the picture of a comparison again from its rows."""
    comparing.plot(folder)


@command(app, "report")
def report_command(
    folder: Annotated[str, Argument(help="A folder made by compare.")],
    out: Annotated[
        Text, Option(metavar="FILE", help="Where; report.html in the folder by default.")
    ] = None,
) -> None:
    """Write a comparison as one page of HTML, which opens without a network."""
    comparing.report(folder, out)


@command(app, "policies")
def policies_command() -> None:
    """List the policies: name, what it is, and its parameters with their defaults.

    Without a default, a value is recommended or estimated for the problem at hand.
    """
    problems.list_policies()


@command(app, "problems")
def problems_command() -> None:
    """List the problems: name, what it is, and its parameters with their defaults."""
    problems.list_problems()


@data.callback()
def _several() -> None:
    """One command alone would be taken for the whole."""


@command(data, "fetch")
def fetch_command(
    dataset: Annotated[Literal["ozone"], Argument()],  # noqa: ARG001 - there is no other yet
    years: Annotated[
        list[int], Option(min=1980, help="2008 2009, or --years once for each; from 1980 on.")
    ],
    state: Annotated[
        Text, Option(help='One state: "New York", or 36; adds a small csv a year.')
    ] = None,
) -> None:
    """Download a data set, once, and say how to use it: into $TVBANDITS_CACHE, where it is given.

    A download that is cut short is continued by the next call.
    """
    fetching.fetch(years, state)


def spread(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """Let an option take several numbers: "--years 2008 2009" is "--years 2008 --years 2009".

    Names after them are left alone.

    Parameters
    ----------
    arguments : sequence of str
        As the shell gives them, without the name of the program.
    options : collection of str
        The options this is for, with their hyphens.
    """
    found: list[str] = []
    option = ""
    for argument in arguments:
        if option and found[-1] == option:
            found.append(argument)
        elif option and NUMBER.fullmatch(argument):
            found += [option, argument]
        else:
            option = argument if argument in options else ""
            found.append(argument)
    return found

"""The command line: compare, frontier, board, plot, report, policies, problems, data, campaign.

`python -m tvbandits` is the command `tvbandits`. This module only declares options. The code of a
command is imported when it is called, so that help is quick.
"""

from __future__ import annotations

from tvbandits.cli.stopping import (
    INTERRUPTED,
    TERMINATED,
    Later,
    StoppedError,
    Terminated,
    exit_on_interrupt,
)

with exit_on_interrupt():  # Ctrl-C while these are imported leaves without a traceback
    import os
    import re
    import sys
    import warnings
    from collections.abc import Collection, Sequence
    from pathlib import Path
    from typing import TYPE_CHECKING, Annotated, Any, Literal

    import typer
    from typer import Argument, Option

    from tvbandits._version import __version__
    from tvbandits.cli import campaigns
    from tvbandits.cli.options import (
        BoardOptions,
        Comparing,
        Folder,
        TableOptions,
        Text,
        Texts,
        command,
    )
    from tvbandits.option_text import command_line_words

if TYPE_CHECKING:
    from tvbandits.cli import comparing, fetching, inspecting, problems
else:
    comparing, fetching = Later("cli.comparing"), Later("cli.fetching")
    inspecting, problems = Later("cli.inspecting"), Later("cli.problems")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Gaussian-process bandits for rewards that drift.",
)


data = typer.Typer(
    no_args_is_help=True, help="Download data, and show how the package reads a file."
)
app.add_typer(data, name="data")
app.add_typer(campaigns.app, name="campaign")


# Options that take several numbers.
SEVERAL = ("--years", "--budgets")

# A text that may name the user's own code: package.module:attribute.
PLUG_IN = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")

# An environment variable that lets errors of the user's own code show their traceback.
TRACEBACK = "TVBANDITS_TRACEBACK"

# How messages of pydantic, which the command-line parser passes on, begin.
PYDANTIC = "Value error, "

# A further value of an option that takes several numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def main() -> None:
    """Run the command line: a bad argument gives one line and exit status 2, Ctrl-C 130."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that has only ASCII shows other characters as escapes.
        if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = lambda text, *_, **__: f"tvbandits: warning: {_one_line(text)}\n"
    if os.getcwd() not in sys.path:  # noqa: PTH109 - as it is written in the path
        sys.path.append(os.getcwd())  # noqa: PTH109 - package.module:name may be here
    try:
        with command_line_words():
            status = _run()
    except Terminated:
        status = _print_error("terminated", TERMINATED)
    except KeyboardInterrupt:
        status = _print_error("interrupted", INTERRUPTED)
    sys.exit(status)


def _run() -> int:
    """Run the command and return the exit status, after printing the error."""
    try:
        arguments = spread(sys.argv[1:], SEVERAL)
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except StoppedError as stop:
        status = stop.status
    except ValueError as error:
        if os.environ.get(TRACEBACK):
            raise
        status = _print_error(_with_notes(error))
    except BrokenPipeError:
        # The reader of the output has closed it; the rest of the output goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    except OSError as error:
        status = _print_error(str(error), 1)
    except (MemoryError, OverflowError, RecursionError) as error:
        reason = f": {error}" if str(error) else ""
        status = _print_error(f"the request is too large ({type(error).__name__}{reason})")
    except Exception as error:
        status = _handle_other(error)
    else:
        if status == INTERRUPTED:
            # The command-line parser has caught Ctrl-C without a word.
            raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _handle_other(error: Exception) -> int:
    """Return the exit status of an error of another package; raise a mistake of this package again."""
    # Errors of the command-line parser have a message of their own.
    if hasattr(error, "format_message"):
        message = error.format_message().replace(PYDANTIC, "")
        cause: Any = error.__cause__
        if hasattr(cause, "errors"):  # pydantic's error about a number does not show the value
            value = str(cause.errors()[0]["input"])
            message += "" if repr(value) in message else f', got "{value}"'
            if NUMBER.fullmatch(with_point := value.replace(",", ".")) and with_point != value:
                message += f": write {with_point}"
        return _print_error(message) if message else 2
    is_extra = isinstance(error, ImportError) and error.name is None  # an extra is not installed
    if is_extra or any(kind.__name__ == "ExpertError" for kind in type(error).__mro__):
        return _print_error(str(error))
    plug_ins = [each for each in sys.argv[1:] if PLUG_IN.search(each)]
    if not plug_ins or os.environ.get(TRACEBACK):
        raise error
    message = f"{type(error).__name__}: {_with_notes(error)}; set {TRACEBACK}=1 to see where"
    return _print_error(f"{', '.join(plug_ins)}: {message}")


def _with_notes(error: Exception) -> str:
    """Return the message of an error, and its notes: where in a comparison it was raised."""
    notes = ", ".join(error.__notes__) if hasattr(error, "__notes__") else ""
    return (str(error) or type(error).__name__) + (f" ({notes})" if notes else "")


def _print_error(message: str, status: int = 2) -> int:
    print(f"tvbandits: {_one_line(message)}", file=sys.stderr)
    return status


def _one_line(message: object, longest: int = 1500) -> str:
    # Text from a file, a station or a server may be long and hold what a terminal obeys.
    plain = "".join(each if each.isprintable() else " " for each in str(message)[: 4 * longest])
    line = " ".join(plain.split())
    return line if len(line) <= longest else f"{line[:longest]}..."


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@command(app, "compare")
def compare_command(
    options: Comparing,
    tables: TableOptions,
    policy: Annotated[
        Texts,
        Option(
            "--policy",
            help="NAME[:key=value,...], or your own package.module:function. Repeat it for more; "
            "eight policies by default.",
        ),
    ] = None,
    out: Folder = None,
    format_: Annotated[
        Literal["table", "json"],
        Option("--format", case_sensitive=False, help="The form of the summary."),
    ] = "table",
) -> None:
    """Run policies on problems, print a summary, and write rows and a picture.

    Without --beta each policy has its own width, 2 for most.
    """
    comparing.compare(options, tables, policy or [], out, format_)


@command(app, "frontier")
def frontier_command(
    options: Comparing,
    tables: TableOptions,
    budgets: Annotated[
        list[float] | None,
        Option("--budgets", metavar="NUMBER...", help="Queries per step: 1 2 4 8 by default."),
    ] = None,
    plan: Annotated[
        Texts,
        Option(
            "--plan", help="next, plausible, kdpp or random. Repeat it for more; all by default."
        ),
    ] = None,
    out: Folder = None,
) -> None:
    """Compare the regret of query plans at several numbers of queries per step.

    Without --beta the width of every policy is 2.
    """
    comparing.frontier(options, tables, budgets or [1, 2, 4, 8], plan or [], out)


@command(app, "board")
def board_command(options: BoardOptions) -> None:
    """Run a named suite, or continue one that was stopped, and write tables and pictures."""
    comparing.board(options)


@command(app, "plot")
def plot_command(
    folder: Annotated[str, Argument(help="A folder that `compare` has written.")],
) -> None:
    """Draw the picture of a comparison again from its rows."""
    comparing.plot(folder)


@command(app, "report")
def report_command(
    folder: Annotated[str, Argument(help="A folder that `compare` has written.")],
    out: Annotated[
        Text, Option(metavar="FILE", help="The page: by default report.html in the folder.")
    ] = None,
) -> None:
    """Write a comparison as one page of HTML, which needs no network."""
    comparing.report(folder, out)


@command(app, "policies")
def policies_command() -> None:
    """List the policies: name, title, and parameters with their defaults.

    A parameter without a default gets the value that the problem recommends, or a fitted value.
    """
    problems.list_policies()


@command(app, "problems")
def problems_command() -> None:
    """List the problems: name, summary, and parameters with their defaults."""
    problems.list_problems()


@command(data, "info")
def info_command(
    paths: Annotated[
        list[Path], Argument(metavar="FILE...", help="Tables of readings, or of sites.")
    ],
    tables: TableOptions,
    form: Annotated[
        Literal["text", "json"], Option("--format", help="The form of the output.")
    ] = "text",
) -> None:
    """Show what is in files of readings, how the package reads them, and which options change that."""
    inspecting.inspect(paths, tables, form)


@command(data, "fetch")
def fetch_command(
    dataset: Annotated[Literal["ozone"], Argument()],  # noqa: ARG001 - there is no other yet
    years: Annotated[
        list[int], Option(min=1980, help="Years from 1980 on: 2008 2009, or repeat --years.")
    ],
    state: Annotated[
        Text, Option(help='Also write a small csv of one state, "New York" or 36, for each year.')
    ] = None,
) -> None:
    """Download a data set once, into $TVBANDITS_CACHE if that is set, and print how to use it.

    To resume a download that was interrupted, repeat the command.
    """
    fetching.fetch(years, state)


def spread(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """Let an option take several numbers: "--years 2008 2009" becomes "--years 2008 --years 2009".

    Parameters
    ----------
    arguments : sequence of str
        The arguments of the shell, without the name of the program.
    options : collection of str
        The options that take several numbers, with their hyphens.
    """
    result: list[str] = []
    option = ""
    for argument in arguments:
        if option and result[-1] == option:
            result.append(argument)
        elif option and NUMBER.fullmatch(argument):
            result += [option, argument]
        else:
            option = argument if argument in options else ""
            result.append(argument)
    return result


if __name__ == "__main__":
    main()

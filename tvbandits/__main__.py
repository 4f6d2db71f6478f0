"""The command line: compare, frontier, board, plot, report, policies, problems, data, campaign.

`python -m tvbandits` is the command `tvbandits`. This module declares the options; the code of a
command is imported when the command runs, so that help is quick.
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
    from tvbandits.option_text import use_command_line_names

if TYPE_CHECKING:
    from tvbandits.cli import comparing, inspecting
else:
    comparing, inspecting = Later("cli.comparing"), Later("cli.inspecting")

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


# The options that take several numbers.
LIST_OPTIONS = ("--years", "--budgets")

# Text that may name the user's own code: package.module:attribute.
PLUG_IN = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")

# The environment variable with which errors in the user's own code show their traceback.
TRACEBACK = "TVBANDITS_TRACEBACK"

# The beginning of messages of pydantic, which the command-line parser passes on.
PYDANTIC = "Value error, "

# A further value of an option that takes several numbers.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def main() -> None:
    """Run the command line; exit with status 2 and one line for a bad argument, 130 after Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        # On a terminal without UTF-8, characters that it lacks are printed as escapes.
        if hasattr(stream, "reconfigure") and not (stream.encoding or "").lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = lambda text, *_, **__: f"tvbandits: warning: {_join_lines(text)}\n"
    if os.getcwd() not in sys.path:  # noqa: PTH109 - sys.path contains texts
        sys.path.append(os.getcwd())  # noqa: PTH109 - package.module:name may be in this folder
    try:
        with use_command_line_names():
            status = _run()
    except Terminated:
        status = _print_error("terminated", TERMINATED)
    except KeyboardInterrupt:
        status = _print_error("interrupted", INTERRUPTED)
    sys.exit(status)


def _run() -> int:
    """Run the command, print its error if it fails, and return the exit status."""
    try:
        arguments = repeat_options(sys.argv[1:], LIST_OPTIONS)
        status = app(arguments, standalone_mode=False)
        sys.stdout.flush()
    except StoppedError as stop:
        status = stop.status
    except ValueError as error:
        if os.environ.get(TRACEBACK):
            raise
        status = _print_error(_format_with_notes(error))
    except BrokenPipeError:
        # The program that reads the output has closed it: discard the rest.
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
            # The command-line parser has caught Ctrl-C and printed nothing.
            raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _handle_other(error: Exception) -> int:
    """Print an error of the parser, an expert or a plug-in, and return the status; raise any other."""
    if hasattr(error, "format_message"):  # an error of the command-line parser
        message = error.format_message().replace(PYDANTIC, "")
        cause: Any = error.__cause__
        if hasattr(cause, "errors"):  # pydantic's message about a number lacks the value
            value = str(cause.errors()[0]["input"])
            message += "" if repr(value) in message else f', got "{value}"'
            if NUMBER.fullmatch(with_point := value.replace(",", ".")) and with_point != value:
                message += f": write {with_point}"
        return _print_error(message) if message else 2
    lacks_extra = isinstance(error, ImportError) and error.name is None
    if lacks_extra or any(kind.__name__ == "ExpertError" for kind in type(error).__mro__):
        return _print_error(str(error))
    plug_ins = [argument for argument in sys.argv[1:] if PLUG_IN.search(argument)]
    if not plug_ins or os.environ.get(TRACEBACK):
        raise error
    message = f"{type(error).__name__}: {_format_with_notes(error)}"
    hint = f"set {TRACEBACK}=1 to see the traceback"
    return _print_error(f"{', '.join(plug_ins)}: {message}; {hint}")


def _format_with_notes(error: Exception) -> str:
    """Return the message of an error with its notes, which name the run of a comparison."""
    notes = ", ".join(error.__notes__) if hasattr(error, "__notes__") else ""
    return (str(error) or type(error).__name__) + (f" ({notes})" if notes else "")


def _print_error(message: str, status: int = 2) -> int:
    """Print an error message in one line, and return the exit status."""
    print(f"tvbandits: {_join_lines(message)}", file=sys.stderr)
    return status


def _join_lines(message: object, max_length: int = 1500) -> str:
    """Return a message in one line, without control characters."""
    # Text from a file, a station or a server may be long and contain codes that terminals execute.
    text = str(message)[: 4 * max_length]
    printable = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(printable.split())
    return line if len(line) <= max_length else f"{line[:max_length]}..."


@app.callback(invoke_without_command=True)
def _print_version(
    version: Annotated[bool, Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version if `--version` is given."""
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

    Without --beta each policy has its own confidence width, 2 for most.
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

    Without --beta the confidence width of every policy is 2.
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
    inspecting.list_policies()


@command(app, "problems")
def problems_command() -> None:
    """List the problems: name, summary, and parameters with their defaults."""
    inspecting.list_problems()


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
    """Show the content of files of readings, how it is read, and which options change that."""
    inspecting.inspect(paths, tables, form)


@command(data, "fetch")
def fetch_command(
    dataset: Annotated[Literal["ozone"], Argument()],  # noqa: ARG001 - the only one so far
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
    inspecting.fetch(years, state)


def repeat_options(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """Repeat an option before each of its numbers: "--years 1 2" becomes "--years 1 --years 2".

    Parameters
    ----------
    arguments : sequence of str
        The arguments of the command line, without the name of the program.
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

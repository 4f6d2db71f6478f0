"""The `data` sub-commands of the command line: fetch, info."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars

from tvbandits.datasets.description import describe
from tvbandits.datasets.epa_ozone.download import Progress
from tvbandits.datasets.epa_ozone.fetch import AIRDATA_URL, CACHE_VARIABLE, fetch_ozone

SPREAD = ("--years",)
"""Options that take several numbers, which `tvbandits.cli.main.spread` makes the parser understand."""


WITHOUT_STATE = "ozone:sites=28"
"""The problem to suggest for the whole country, which has more than a thousand sites."""


app = typer.Typer(no_args_is_help=True, help="Get data, and look at them.")


messages = Console(stderr=True)


@app.command("fetch")
def fetch_command(
    dataset: Annotated[str, typer.Argument(help="ozone")],
    years: Annotated[
        list[str] | None,
        typer.Option("--years", metavar="YEAR...", help="2008 2009, or 2008-2010."),
    ] = None,
    state: Annotated[
        str | None, typer.Option(help='One state: "New York", or 36; adds a small csv a year.')
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(metavar="DIR", help=f"Folder of downloads; ${CACHE_VARIABLE} by default."),
    ] = None,
    base_url: Annotated[str, typer.Option("--base-url", help="A mirror.")] = AIRDATA_URL,
) -> None:
    """Download a data set, once, and say how to use it.

    A download that is cut short is continued by the next call.
    """
    if dataset != "ozone":
        raise ValueError(f'unknown data set "{dataset}"; there is: ozone')
    if not years:
        raise ValueError("--years must name at least one year, such as --years 2008 2009")
    if cache is not None and not cache.strip():
        raise ValueError(f'--cache must name a folder, got "{cache}"')
    with _bars() as progress:
        paths = fetch_ozone(
            years_of(years), state=state, cache=cache, base_url=base_url, progress=progress
        )
    for path in paths:
        print(path)
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    print(f"tvbandits compare {WITHOUT_STATE if state is None else 'ozone'} {data}")


@app.command("info")
def info_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to look at.")],
) -> None:
    """Say what files are, and whether and how they can be used."""
    failed = False
    for place, file in enumerate(files):
        if place:
            print()
        try:
            print(describe(file))
        except ValueError as error:
            sys.stdout.flush()
            print("tvbandits: " + " ".join(str(error).split()), file=sys.stderr)
            failed = True
    if failed:
        raise typer.Exit(2)


def years_of(texts: Iterable[str]) -> list[int]:
    """The years that "2008", "2008-2010" stand for, in the order given.

    Raises
    ------
    ValueError
        If a text is neither a year nor a range that goes up.
    """
    years: list[int] = []
    for text in texts:
        found = re.fullmatch(r"(\d{4})(?:-(\d{4}))?", text.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise ValueError(f'--years must be years such as 2008 or 2008-2010, got "{text}"')
        years += range(first, last + 1)
    return years


@contextmanager
def _bars() -> Iterator[Progress]:
    """A bar a file on a terminal, and silence elsewhere."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done, total=total)

        yield progress

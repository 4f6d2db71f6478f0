"""The `data` sub-commands of the command line: fetch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from tvbandits.cli.stopping import Later

if TYPE_CHECKING:
    from tvbandits.cli import fetching
else:
    fetching = Later("fetching")

# Options that take several numbers, which `tvbandits.cli.main.spread` makes the parser understand.
SPREAD = ("--years",)


Text = str | None
Texts = list[str] | None

app = typer.Typer(no_args_is_help=True, help="Get data, and look at them.")


@app.command("fetch")
def fetch_command(
    dataset: Annotated[str, Argument(help="ozone")],
    years: Annotated[
        Texts, Option("--years", metavar="YEAR...", help="2008 2009, or 2008-2010.")
    ] = None,
    state: Annotated[
        Text, Option(help='One state: "New York", or 36; adds a small csv a year.')
    ] = None,
    cache: Annotated[
        Text, Option(metavar="DIR", help="Folder of downloads; $TVBANDITS_CACHE by default.")
    ] = None,
    base_url: Annotated[Text, Option("--base-url", help="A mirror of the EPA's files.")] = None,
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
    fetching.fetch(years_of(years), state, cache, base_url)


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

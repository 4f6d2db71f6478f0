"""The `data` sub-commands of the command line: fetch."""

from __future__ import annotations

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

app = typer.Typer(no_args_is_help=True, help="Get data, and look at them.")


@app.command("fetch")
def fetch_command(
    dataset: Annotated[str, Argument(help="ozone")],
    years: Annotated[
        list[str] | None, Option("--years", metavar="YEAR...", help="Such as 2008 2009.")
    ] = None,
    cache: Annotated[
        Text, Option(metavar="DIR", help="Folder of downloads; $TVBANDITS_CACHE by default.")
    ] = None,
    base_url: Annotated[Text, Option("--base-url", help="A mirror of the EPA's files.")] = None,
) -> None:
    """Download a data set, once, and say how to use it."""
    if dataset != "ozone":
        raise ValueError(f'unknown data set "{dataset}"; there is: ozone')
    if not years:
        raise ValueError("--years must name at least one year, such as --years 2008 2009")
    if cache is not None and not cache.strip():
        raise ValueError(f'--cache must name a folder, got "{cache}"')
    for year in years:
        if not year.isdecimal():
            raise ValueError(f'--years must be years such as 2008, got "{year}"')
    fetching.fetch([int(year) for year in years], cache, base_url)

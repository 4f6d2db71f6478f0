"""The `campaign` sub-commands of the command line, for people with a phone and for cron jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvbandits.cli.stopping import leaving

app = typer.Typer(no_args_is_help=True, help="Run a bandit for weeks: a campaign in a file.")

File = Annotated[str, typer.Argument(metavar="FILE", help="The campaign, or postgresql://...")]

At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="A number, or a date with a clock.")
]

Who = Annotated[str | None, typer.Option(help="Who does it; user and host by default.")]

Key = Annotated[str | None, typer.Option(help="A name for this call: tried again, it counts once.")]

Shape = Annotated[str, typer.Option("--format", help="text or json")]

ByName = Annotated[
    str | None,
    typer.Option("--expert", metavar="MODULE:NAME", help="The campaign's own expert."),
]

Among = Annotated[
    str | None, typer.Option(metavar="SITE,...", help="Only these sites are available.")
]

Where = Annotated[
    str | None, typer.Option("--site", metavar="SITE", help="A site, or coordinates: 3.2,4.5.")
]

Table = Annotated[
    Path | None, typer.Option("--csv", help="A table with site (or coordinates), time, reward.")
]


@app.command("new")
def new_command(
    file: File,
    config: Annotated[Path, typer.Option(help="What it is about: a TOML file.")],
    expert: ByName = None,
    who: Who = None,
) -> None:
    """Begin a campaign: sites, policy, noise, clock and expert out of a TOML file."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.new(file, config, expert, who)


@app.command("ask")
def ask_command(
    file: File,
    at: At = None,
    n: Annotated[int | None, typer.Option("-n", help="So many points.")] = None,
    among: Among = None,
    key: Key = None,
    who: Who = None,
    expert: ByName = None,
    format_: Shape = "text",
) -> None:
    """Say where to go next; the same answer again under the same --key."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.ask(campaigning.Call(file, format_, expert, who, key), at, n, among)


@app.command("tell")
def tell_command(
    file: File,
    site: Where = None,
    reward: Annotated[float | None, typer.Option(help="The reading; nan: there was none.")] = None,
    at: At = None,
    variance: Annotated[float | None, typer.Option(help="Noise variance of the reading.")] = None,
    csv: Table = None,
    key: Key = None,
    who: Who = None,
    expert: ByName = None,
    format_: Shape = "text",
) -> None:
    """Tell a reading, or those of a table; the same ones again count once."""
    with leaving():
        from tvbandits.cli import campaigning
    call = campaigning.Call(file, format_, expert, who, key)
    campaigning.bring("tell", call, site, reward, at, variance, csv)


@app.command("questions")
def questions_command(
    file: File,
    at: At = None,
    among: Among = None,
    key: Key = None,
    who: Who = None,
    format_: Shape = "text",
) -> None:
    """Say what to ask somebody who knows, where answers are brought by people."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.questions(campaigning.Call(file, format_, None, who, key), at, among)


@app.command("answer")
def answer_command(
    file: File,
    site: Where = None,
    value: Annotated[float | None, typer.Option(help="The answer; nan: there was none.")] = None,
    at: At = None,
    variance: Annotated[float | None, typer.Option(help="Noise variance of the answer.")] = None,
    csv: Table = None,
    key: Key = None,
    who: Who = None,
    format_: Shape = "text",
) -> None:
    """Bring an answer, or those of a table; the same ones again count once."""
    with leaving():
        from tvbandits.cli import campaigning
    call = campaigning.Call(file, format_, None, who, key)
    campaigning.bring("answer", call, site, value, at, variance, csv)


@app.command("drop")
def drop_command(
    file: File,
    site: Where = None,
    key: Key = None,
    who: Who = None,
    format_: Shape = "text",
) -> None:
    """Give up on a point that was asked and nobody goes to."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.drop(campaigning.Call(file, format_, None, who, key), site)


@app.command("status")
def status_command(file: File, format_: Shape = "text") -> None:
    """Say how things stand, in one line."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.status(campaigning.Call(file, format_))


@app.command("history")
def history_command(
    file: File,
    last: Annotated[int, typer.Option(help="So many rows; 0 for all.")] = 20,
    format_: Shape = "text",
) -> None:
    """Show what was asked, told and answered."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.history(campaigning.Call(file, format_), last)


@app.command("forecast")
def forecast_command(
    file: File,
    at: At = None,
    site: Where = None,
    format_: Shape = "text",
) -> None:
    """Say what to expect, at one site or at all, the best first."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.forecast(campaigning.Call(file, format_), at, site)


@app.command("watch")
def watch_command(
    file: File,
    seconds: Annotated[
        float | None, typer.Option("--for", help="So many seconds; until Ctrl-C by default.")
    ] = None,
    format_: Shape = "text",
) -> None:
    """Show what happens as it happens, a line each."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.watch(campaigning.Call(file, format_), seconds)


@app.command("export")
def export_command(
    file: File, out: Annotated[Path, typer.Argument(metavar="OUT", help=".csv or .parquet")]
) -> None:
    """Write everything that happened as a table."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.export(campaigning.Call(file), out)


@app.command("backup")
def backup_command(
    file: File, out: Annotated[Path, typer.Argument(metavar="OUT", help="A new file.")]
) -> None:
    """Copy a campaign while others go on with it."""
    with leaving():
        from tvbandits.cli import campaigning
    campaigning.backup(campaigning.Call(file), out)


@app.command("verify")
def verify_command(file: File, format_: Shape = "text") -> None:
    """Play everything again and compare; exit status 2 if something is not as it was written."""
    with leaving():
        from tvbandits.cli import campaigning
    if not campaigning.verify(campaigning.Call(file, format_)):
        raise typer.Exit(2)

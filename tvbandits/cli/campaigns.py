"""The `campaign` sub-commands of the command line, for people with a phone and for cron jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tvbandits.cli.stopping import Later

if TYPE_CHECKING:
    from tvbandits.cli import (
        bringing,
        campaign_actions as actions,
        campaign_config as configuring,
        serving,
    )
else:
    bringing, serving = Later("bringing"), Later("serving")
    actions = Later("campaign_actions")
    configuring = Later("campaign_config")

app = typer.Typer(no_args_is_help=True, help="Run a bandit for weeks: a campaign in a file.")

File = Annotated[str, typer.Argument(metavar="FILE", help="The campaign, or postgresql://...")]

At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="A number, or a date with a clock.")
]

Outcome = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="What else was read, for a limit; again for others."),
]
Who = Annotated[str | None, typer.Option(help="Who does it; user and host by default.")]

Key = Annotated[str | None, typer.Option(help="A name for this call: tried again, it counts once.")]

Shape = Annotated[str, typer.Option("--format", help="text or json")]

ByName = Annotated[
    str | None, typer.Option("--expert", metavar="MODULE:NAME", help="The campaign's own expert.")
]

Among = Annotated[
    str | None, typer.Option(metavar="SITE,...", help="Only these sites are available.")
]

Without = Annotated[
    str | None, typer.Option(metavar="SITE,...", help="All sites are available but these.")
]

Context = Annotated[
    str | None,
    typer.Option(metavar="NAME=VALUE,...", help="What is measured and not chosen: outside=3.2."),
]

Where = Annotated[
    str | None, typer.Option("--site", metavar="SITE", help="A site, or coordinates: 3.2,4.5.")
]

Told = Annotated[
    str,
    typer.Option("--site", metavar="SITE", help="Of the reading; the latest told without --at."),
]

Yes = Annotated[bool, typer.Option("--yes", help="It is right, however odd it looks.")]

Table = Annotated[
    Path | None, typer.Option("--csv", help="A table with site (or coordinates), time, reward.")
]


@app.command("new")
def new_command(
    file: File,
    config: Annotated[
        Path | None,
        typer.Option(help="What it is about: a TOML file; campaign.toml with --policy."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME[:key=value,...]", help="Write that file for this policy."),
    ] = None,
    sites: Annotated[str | None, typer.Option(help="With --policy: the table of sites.")] = None,
    noise_sd: Annotated[
        float | None,
        typer.Option(help="With --policy: standard deviation of a reading; learned by default."),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="CAMPAIGN", help="Begin with what this one has learned, not with its readings."
        ),
    ] = None,
    expert: ByName = None,
    who: Who = None,
) -> None:
    """Begin a campaign: sites, policy, noise, clock and expert out of a TOML file."""
    draft = None if policy is None else configuring.Draft(policy, sites, noise_sd)
    if draft is None and (sites is not None or noise_sd is not None):
        raise ValueError("--sites and --noise-sd are for --policy; a --config says both itself")
    configuring.new(file, config, expert, who, draft, like)


@app.command("ask")
def ask_command(
    file: File,
    at: At = None,
    n: Annotated[int | None, typer.Option("-n", help="So many points.")] = None,
    among: Among = None,
    without: Without = None,
    near: Annotated[
        float | None, typer.Option(help="No farther than this from the last point.")
    ] = None,
    context: Context = None,
    yes: Yes = False,
    key: Key = None,
    who: Who = None,
    expert: ByName = None,
    format_: Shape = "text",
) -> None:
    """Say where to go next; the same answer again under the same --key."""
    call = actions.Call(file, format_, expert, who, key)
    actions.ask(call, at, n, among, without, near, context, yes=yes)


@app.command("tell")
def tell_command(
    file: File,
    site: Where = None,
    reward: Annotated[float | None, typer.Option(help="The reading; nan: there was none.")] = None,
    at: At = None,
    variance: Annotated[float | None, typer.Option(help="Noise variance of the reading.")] = None,
    outcome: Outcome = None,
    context: Context = None,
    csv: Table = None,
    yes: Yes = False,
    key: Key = None,
    who: Who = None,
    expert: ByName = None,
    format_: Shape = "text",
) -> None:
    """Tell a reading, or those of a table; the same ones again count once.

    Another reading of the same place and time needs a --key of its own.
    """
    call = actions.Call(file, format_, expert, who, key)
    bringing.bring("tell", call, site, reward, at, variance, csv, outcome, context, yes=yes)


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
    actions.questions(actions.Call(file, format_, None, who, key), at, among)


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
    call = actions.Call(file, format_, None, who, key)
    bringing.bring("answer", call, site, value, at, variance, csv)


@app.command("correct")
def correct_command(
    file: File,
    site: Told,
    at: At = None,
    reward: Annotated[float | None, typer.Option(help="The right reading; nan: none.")] = None,
    to: Annotated[str | None, typer.Option(metavar="TIME", help="The right time.")] = None,
    variance: Annotated[float | None, typer.Option(help="The right noise variance.")] = None,
    outcome: Outcome = None,
    yes: Yes = False,
    key: Key = None,
    who: Who = None,
    format_: Shape = "text",
) -> None:
    """Put a reading right that was told wrong: its value, its time, or both; both are kept."""
    change = bringing.Change(site, at, reward, variance, yes, outcome)
    bringing.correct(actions.Call(file, format_, None, who, key), to, change)


@app.command("retract")
def retract_command(
    file: File, site: Told, at: At = None, key: Key = None, who: Who = None, format_: Shape = "text"
) -> None:
    """Take back a reading that should not have been told; the journal keeps it."""
    bringing.retract(actions.Call(file, format_, None, who, key), bringing.Change(site, at))


@app.command("drop")
def drop_command(
    file: File, site: Where = None, key: Key = None, who: Who = None, format_: Shape = "text"
) -> None:
    """Give up on a point that was asked and nobody goes to."""
    actions.drop(actions.Call(file, format_, None, who, key), site)


@app.command("sites")
def sites_command(
    what: Annotated[Literal["add", "retire"], typer.Argument(help="What becomes of them.")],
    file: File,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME[=X,Y]...", help="Sites; with coordinates, if they are new."),
    ],
    key: Key = None,
    who: Who = None,
    expert: ByName = None,
    format_: Shape = "text",
) -> None:
    """Add sites or arms, or retire some: beliefs go on, readings of retired ones are welcome."""
    actions.sites(actions.Call(file, format_, expert, who, key), what, names)


@app.command("status")
def status_command(
    file: File,
    best: Annotated[
        bool, typer.Option("--best", help="And which point is the best, which takes the beliefs.")
    ] = False,
    context: Context = None,
    format_: Shape = "text",
) -> None:
    """Say how things stand, in one line."""
    actions.status(actions.Call(file, format_), context, best=best)


@app.command("history")
def history_command(
    file: File,
    last: Annotated[int, typer.Option(help="So many rows; 0 for all.")] = 20,
    format_: Shape = "text",
) -> None:
    """Show what was asked, told and answered."""
    actions.history(actions.Call(file, format_), last)


@app.command("forecast")
def forecast_command(
    file: File,
    at: At = None,
    site: Where = None,
    outcome: Annotated[str | None, typer.Option(help="Of this outcome under a limit.")] = None,
    context: Context = None,
    format_: Shape = "text",
) -> None:
    """Say what to expect, at one site or at all, the best first."""
    actions.forecast(actions.Call(file, format_), at, site, outcome, context)


@app.command("watch")
def watch_command(
    file: File,
    seconds: Annotated[
        float | None, typer.Option("--for", help="So many seconds; until Ctrl-C by default.")
    ] = None,
    format_: Shape = "text",
) -> None:
    """Show what happens as it happens, a line each."""
    actions.watch(actions.Call(file, format_), seconds)


@app.command("export")
def export_command(
    file: File, out: Annotated[Path, typer.Argument(metavar="OUT", help=".csv or .parquet")]
) -> None:
    """Write everything that happened as a table."""
    actions.export(actions.Call(file), out)


@app.command("backup")
def backup_command(
    file: File, out: Annotated[Path, typer.Argument(metavar="OUT", help="A new file.")]
) -> None:
    """Copy a campaign while others go on with it."""
    actions.backup(actions.Call(file), out)


@app.command("verify")
def verify_command(file: File, format_: Shape = "text") -> None:
    """Play everything again and compare; exit status 2 if something is not as it was written."""
    if not actions.verify(actions.Call(file, format_)):
        raise typer.Exit(2)


@app.command("report")
def report_command(
    file: File,
    out: Annotated[
        str | None, typer.Option(metavar="PAGE", help="Where; FILE.html by default.")
    ] = None,
) -> None:
    """Write the campaign as one page of HTML, which opens anywhere and needs no network."""
    actions.report(file, out)


@app.command("token")
def token_command(
    file: File,
    name: Annotated[str, typer.Argument(help="Who will have it; it stands in the journal.")],
    role: Annotated[
        list[str] | None, typer.Option("--role", help="read, tell or ask; read by default.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="FILE.tokens.json by default.")
    ] = None,
    take_back: Annotated[bool, typer.Option("--take-back", help="Make it worthless.")] = False,
) -> None:
    """Make a token for the service, shown once, or take one back."""
    serving.token(file, name, role or ["read"], tokens, take_back=take_back)


@app.command("serve")
def serve_command(
    file: File,
    host: Annotated[str, typer.Option(help="Where to listen; elsewhere needs TLS.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    certificate: Annotated[
        str | None, typer.Option(metavar="PEM", help="For TLS, with --private-key.")
    ] = None,
    private_key: Annotated[str | None, typer.Option("--private-key", metavar="PEM")] = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="A host name under which it is reached.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="FILE.tokens.json by default.")
    ] = None,
    expert: ByName = None,
) -> None:
    """Serve the campaign over HTTP, with its page at /, until stopped."""
    place = serving.Listening(host, port, certificate, private_key, tuple(name or ()))
    serving.serve(file, place, tokens, expert)

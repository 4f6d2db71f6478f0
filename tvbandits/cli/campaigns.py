"""The `campaign` sub-commands of the command line, for people with a phone and for cron jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from tvbandits.cli.options import ByName, Call, Change, File, Text, Texts, Who, command
from tvbandits.cli.stopping import Later

if TYPE_CHECKING:
    from tvbandits.cli import (
        campaign_actions as actions,
        campaign_config as configuring,
        campaign_readings as readings,
        serving,
    )
else:
    actions, configuring = Later("campaign_actions"), Later("campaign_config")
    readings, serving = Later("campaign_readings"), Later("serving")

app = typer.Typer(no_args_is_help=True, help="Run a bandit for weeks: a campaign in a file.")

At = Annotated[Text, Option("--at", metavar="TIME", help="A number, or a date with a clock.")]

Outcome = Annotated[
    Texts, Option(metavar="NAME=VALUE", help="What else was read, for a limit; again for others.")
]
COMMAS = "again for others, or A,B; a name with a comma alone, or as A; B."

ON_A_BOX = "On a box or a space: ranges, as x0=0..5."

Availability = Annotated[
    Texts, Option(metavar="SITE,...", help=f"Only these sites are available: {COMMAS} {ON_A_BOX}")
]

Without = Annotated[
    Texts, Option(metavar="SITE,...", help=f"All sites are available but these: {COMMAS}")
]

Context = Annotated[
    Texts,
    Option(
        metavar="NAME=VALUE,...",
        help="What is measured and not chosen: outside=3.2; again for others.",
    ),
]

Where = Annotated[Text, Option("--site", metavar="SITE", help="A site, or coordinates: 3.2,4.5.")]

Told = Annotated[
    str, Option("--site", metavar="SITE", help="Of the reading; the latest told without --at.")
]

Yes = Annotated[bool, Option("--yes", help="It is right, however odd it looks.")]

Table = Annotated[
    Path | None, Option("--csv", help="A table with site (or coordinates), time, reward.")
]


@command(app, "new")
def new_command(
    file: File,
    config: Annotated[
        Path | None, Option(help="What it is about: a TOML file; campaign.toml with --policy.")
    ] = None,
    policy: Annotated[
        Text, Option(metavar="NAME[:key=value,...]", help="Write that file for this policy.")
    ] = None,
    sites: Annotated[Text, Option(help="With --policy: the table of sites.")] = None,
    noise_sd: Annotated[
        float | None, Option(help="With --policy: standard deviation of a reading.")
    ] = None,
    like: Annotated[
        Text,
        Option(
            metavar="CAMPAIGN", help="Begin with what this one has learned, not with its readings."
        ),
    ] = None,
    expert: ByName = None,
    who: Who = None,
) -> None:
    """Begin a campaign: sites, policy, noise, clock and expert out of a TOML file."""
    if policy is not None:
        config = Path("campaign.toml") if config is None else config
        configuring.draft(file, config, policy, sites, noise_sd)
        print(f"{config} is written" + (": fill in sites, and then" if sites is None else ""))
        if sites is None:
            print(f"tvbandits campaign new {file} --config {config}")
            return
    elif config is None or sites is not None or noise_sd is not None:
        raise ValueError("give --config FILE, or --policy NAME with --sites and --noise-sd")
    configuring.new(file, config, expert, who, like)


@command(app, "ask")
def ask_command(
    call: Change,
    at: At = None,
    n: Annotated[int | None, Option("-n", help="So many points.")] = None,
    available: Availability = None,
    without: Without = None,
    near: Annotated[float | None, Option(help="No farther than this from the last point.")] = None,
    context: Context = None,
    yes: Yes = False,
) -> None:
    """Say where to go next; the same answer again under the same --key."""
    with actions.opened(call) as campaign:
        t = actions.time_of(campaign, at)
        if t is not None:
            readings.check_sure([readings.Doubts(campaign).of_time(t)], yes, "asked")
        free, out = actions.available(campaign, available), actions.listed(campaign, without) or []
        where = campaign.names.context(actions.joined(context))
        X = campaign.ask(t, n, free, where, near, without=out, key=call.key)
        text = "; ".join(campaign.names.name(x) for x in X)
        actions.say(call, text, {"points": actions.for_json(campaign, X), "t": t})


@command(app, "tell")
def tell_command(
    call: Change,
    site: Where = None,
    reward: Annotated[float | None, Option(help="The reading; nan: there was none.")] = None,
    at: At = None,
    variance: Annotated[float | None, Option(help="Noise variance of the reading.")] = None,
    outcome: Outcome = None,
    context: Context = None,
    csv: Table = None,
    decimal: Annotated[
        Text, Option(metavar="comma|point", help="With --csv: its decimal mark, where unclear.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Tell a reading, or those of a table; the same ones again count once.

    Another reading of the same place and time needs a --key of its own.
    """
    given = readings.Input(
        site, reward, at, variance, call.key, actions.read(outcome), actions.joined(context)
    )
    actions.tell(call, given, csv, decimal, yes=yes)


@command(app, "questions")
def questions_command(call: Change, at: At = None, available: Availability = None) -> None:
    """Say what to ask somebody who knows, where answers are brought by people."""
    with actions.opened(call) as campaign:
        t = actions.time_of(campaign, at)
        X = campaign.questions(t, actions.available(campaign, available), key=call.key)
        text = "; ".join(campaign.names.name(x) for x in X) or "nothing to ask"
        actions.say(call, text, {"questions": actions.for_json(campaign, X), "t": t})


@command(app, "answer")
def answer_command(
    call: Change,
    site: Annotated[str, Option("--site", metavar="SITE", help="About which it is.")],
    value: Annotated[float, Option(help="The answer; nan: there was none.")],
    at: At = None,
    variance: Annotated[float | None, Option(help="Noise variance of the answer.")] = None,
) -> None:
    """Bring an answer; the same one again counts once."""
    actions.answer(call, site, value, at, variance)


@command(app, "correct")
def correct_command(
    call: Change,
    site: Told,
    at: At = None,
    reward: Annotated[float | None, Option(help="The right reading; nan: none.")] = None,
    to: Annotated[Text, Option(metavar="TIME", help="The right time.")] = None,
    variance: Annotated[float | None, Option(help="The right noise variance.")] = None,
    outcome: Outcome = None,
    yes: Yes = False,
) -> None:
    """Put a reading right that was told wrong: its value, its time, or both; both are kept."""
    y, noise, read = readings.several(reward), readings.several(variance), actions.read(outcome)
    with actions.opened(call) as campaign:
        t, moved = actions.time_of(campaign, at), actions.time_of(campaign, to, "--to")
        X = campaign.placed(site, t=t, played=True)
        name, when = campaign.names.name(X[0]), t if moved is None else moved
        odd = readings.Doubts(campaign).of_reading(name, when, reward, variance)
        readings.check_sure(odd, yes)
        campaign.correct(X, y, t, noise, to=moved, outcomes=read, key=call.key)
        actions.say_changed(call, campaign, "corrected")


@command(app, "retract")
def retract_command(call: Change, site: Told, at: At = None) -> None:
    """Take back a reading that should not have been told; the journal keeps it."""
    with actions.opened(call) as campaign:
        campaign.retract(site, actions.time_of(campaign, at), key=call.key)
        actions.say_changed(call, campaign, "retracted")


@command(app, "drop")
def drop_command(
    call: Change, site: Annotated[str, Option(metavar="SITE", help="Where it is.")]
) -> None:
    """Give up on a point that was asked and nobody goes to."""
    with actions.opened(call) as campaign:
        campaign.drop(site, key=call.key)
        left = campaign.status.pending
        actions.say(call, f"dropped; {left} pending", {"pending": left})


@command(app, "sites")
def sites_command(
    what: Annotated[Literal["add", "retire"], Argument(help="What becomes of them.")],
    call: Change,
    names: Annotated[
        list[str],
        Argument(
            metavar="NAME[=X,Y]...",
            help="Sites; with coordinates in the order of the table of sites, if they are new.",
        ),
    ],
    yes: Yes = False,
) -> None:
    """Add sites or arms, or retire some: beliefs go on, readings of retired ones are welcome."""
    with actions.opened(call) as campaign:
        if what == "retire":
            campaign.change_sites(retire=names, key=call.key)
        else:
            add = actions.placed(names)
            readings.check_sure(actions.remote(campaign, add), yes, "added")
            campaign.change_sites(add, key=call.key)
        left = campaign.sites
        actions.say(call, f"{len(left)} sites may be played", {"sites": left})


@command(app, "status")
def status_command(
    call: Call,
    best: Annotated[
        bool, Option("--best", help="And which point is the best, which takes the beliefs.")
    ] = False,
    context: Context = None,
) -> None:
    """Say how things stand, in one line."""
    actions.status(call, actions.joined(context), best=best)


@command(app, "history")
def history_command(
    call: Call, last: Annotated[int, Option(help="So many rows; 0 for all.")] = 20
) -> None:
    """Show what was asked, told and answered."""
    actions.history(call, last)


@command(app, "forecast")
def forecast_command(
    call: Call,
    at: At = None,
    site: Where = None,
    outcome: Annotated[Text, Option(help="Of this outcome under a limit.")] = None,
    context: Context = None,
    relative: Annotated[bool, Option("--relative", help="Beside the control.")] = False,
) -> None:
    """Say what to expect, at one site or at all, the best first."""
    actions.forecast(call, at, site, outcome, actions.joined(context), relative=relative)


@command(app, "backup")
def backup_command(
    file: File, out: Annotated[Path, Argument(metavar="OUT", help="A new file.")]
) -> None:
    """Copy a campaign while others go on with it."""
    with actions.opened(Call(file)) as campaign:
        campaign.backup(out)
        print(out)


@command(app, "verify")
def verify_command(call: Call) -> None:
    """Play everything again and compare; exit status 2 if something is not as it was written."""
    with actions.opened(call) as campaign:
        found = campaign.verify()
    counted = f"{found.rows} rows, {found.operations} operations, {found.snapshots} snapshots"
    text = f"{counted}: all as written" if found.fine else "; ".join(found.problems)
    actions.say(call, text, {"fine": found.fine, **vars(found)})
    if not found.fine:
        raise typer.Exit(2)


@command(app, "report")
def report_command(
    file: File,
    out: Annotated[Text, Option(metavar="PAGE", help="Where; FILE.html by default.")] = None,
) -> None:
    """Write the campaign as one page of HTML, which opens anywhere and needs no network."""
    actions.report(file, out)


@command(app, "token")
def token_command(
    file: File,
    name: Annotated[str, Argument(help="Who will have it; it stands in the journal.")],
    role: Annotated[Texts, Option("--role", help="read, tell or ask; read by default.")] = None,
    revoke: Annotated[bool, Option("--revoke", help="Make it worthless.")] = False,
) -> None:
    """Make a token for the service, shown once, or revoke one."""
    serving.token(file, name, role or ["read"], revoke=revoke)


@command(app, "serve")
def serve_command(
    file: File,
    host: Annotated[str, Option(help="Where to listen on this machine.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535)] = 8000,
    name: Annotated[Texts, Option("--name", help="A host name of a proxy before it.")] = None,
    expert: ByName = None,
) -> None:
    """Serve the campaign over HTTP, with its page at /, until stopped."""
    serving.serve(file, expert, host=host, port=port, names=tuple(name or ()))

"""The `campaign` sub-commands of the command line, for people and for cron jobs."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from tvbandits.cli.options import (
    Call,
    Change,
    CountOptions,
    ExpertName,
    File,
    SiteAction,
    SitesCommand,
    TableOptions,
    Text,
    Texts,
    Who,
    command,
    reward_option,
    variance_option,
)
from tvbandits.cli.stopping import Later
from tvbandits.cli.waiting import bar_if_slow
from tvbandits.option_text import use_command_line_names

if TYPE_CHECKING:
    from tvbandits.campaign.service import app as service, tokens
    from tvbandits.cli import (
        campaign_actions as actions,
        campaign_config as configuration,
        campaign_readings as readings,
        campaign_tables as reading_tables,
        terminal,
    )
    from tvbandits.integrations import mcp
else:
    actions, configuration = Later("cli.campaign_actions"), Later("cli.campaign_config")
    readings, reading_tables = Later("cli.campaign_readings"), Later("cli.campaign_tables")
    terminal = Later("cli.terminal")
    service, tokens = Later("campaign.service.app"), Later("campaign.service.tokens")
    mcp = Later("integrations.mcp")

app = typer.Typer(no_args_is_help=True, help="Run a bandit for weeks: a campaign in a database.")

At = Annotated[
    Text,
    Option(
        "--at", metavar="TIME", help="The time: a number, or a date if the campaign has a clock."
    ),
]

Outcome = Annotated[
    Texts,
    Option(
        metavar="NAME=VALUE", help="The reading of an outcome under a limit. Repeat it for more."
    ),
]

NAMES = 'Repeat it, or write A,B; if a name contains a comma, write "A; B".'

Availability = Annotated[
    Texts,
    Option(
        metavar="SITE,...",
        help=f"The only sites available now. {NAMES} On a box or a space: a range, such as x0=0..5.",
    ),
]

Without = Annotated[
    Texts, Option(metavar="SITE,...", help=f"Sites that are not available now. {NAMES}")
]

Context = Annotated[
    Texts,
    Option(
        metavar="NAME=VALUE,...",
        help="The context, which you measure and do not choose: outside=3.2. Repeat it for more.",
    ),
]

Site = Annotated[Text, Option("--site", metavar="SITE", help="A site, or coordinates: 3.2,4.5.")]

ReadingSite = Annotated[
    str,
    Option("--site", metavar="SITE", help="The site; without --at, its latest reading is meant."),
]

Yes = Annotated[bool, Option("--yes", help="Accept unusual values without asking.")]


@command(app, "new")
def new_command(
    file: File,
    tables: TableOptions,
    config: Annotated[
        Path | None,
        Option(
            help="The TOML file to read; with --policy, the file to write, by default campaign.toml."
        ),
    ] = None,
    policy: Annotated[
        Text, Option(metavar="NAME[:key=value,...]", help="Write the TOML file for this policy.")
    ] = None,
    sites: Annotated[Text, Option(help="With --policy: the table of sites.")] = None,
    noise_sd: Annotated[
        float | None, Option(help="With --policy: the standard deviation of a reading.")
    ] = None,
    clock: Annotated[
        Text,
        Option(metavar="UNIT", help="With --policy: the unit of time, such as 1h, 15min or 1D."),
    ] = None,
    like: Annotated[
        Text,
        Option(
            metavar="CAMPAIGN",
            help="Start from what this campaign has learned, but without its readings.",
        ),
    ] = None,
    history: Annotated[
        Path | None,
        Option(
            help="A table of earlier readings, from which the policy learns how the sites vary "
            "together; the command reads it like `tell --csv`."
        ),
    ] = None,
    yes: Yes = False,
    expert: ExpertName = None,
    who: Who = None,
) -> None:
    """Start a campaign: sites, policy, noise, clock and expert from a TOML file."""
    has_clock, draft = True, None
    if policy is not None:
        config = Path("campaign.toml") if config is None else config
        has_clock = configuration.write_draft(
            file, config, policy, sites, noise_sd, clock, history, tables.given
        )
        if sites is None:
            later = "" if history is None else f" --history {history}"
            print(f"wrote {config}: fill in sites, and then run")
            print(f"tvbandits campaign new {file} --config {config}{later}")
            return
        draft = config
    elif config is None or any(each is not None for each in (sites, noise_sd, clock)):
        raise ValueError(
            "give --config FILE, or --policy NAME with --sites, --noise-sd and --clock"
        )
    elif tables.given and history is None:
        option = next(iter(tables.given))
        raise ValueError(
            f"--{option} is for the tables of --sites and --history: write it into [domain] read of "
            f"{config}"
        )
    read_history = (
        None
        if history is None
        else partial(
            readings.read_history,
            path=history,
            # A table of sites that was read without some has none of their readings.
            tables={
                name: value
                for name, value in tables.given.items()
                if name != "without" or draft is None
            },
            doubtful="accept" if yes else "ask",
        )
    )
    try:
        configuration.create(file, config, expert, who, like, read_history)
    except BaseException:
        if draft is not None:
            draft.unlink()  # so that the command can be repeated
        raise
    if draft is not None:
        print(f"wrote {draft}")
    if not has_clock:
        print("no clock: times are numbers; with --clock 1h they may be dates")


@command(app, "ask")
def ask_command(
    call: Change,
    at: At = None,
    n: Annotated[int | None, Option("-n", min=1, help="The number of points.")] = None,
    available: Availability = None,
    without: Without = None,
    near: Annotated[float | None, Option(help="The largest distance from the last point.")] = None,
    context: Context = None,
    yes: Yes = False,
) -> None:
    """Print the next points to play; a repeated --key prints the same points.

    Without --at they are for one unit of time after the latest reading, not for the present time.
    """
    with actions.open_campaign(call) as campaign:
        t = actions.parse_at(campaign, at)
        if t is not None:
            readings.confirm_time(campaign, t, yes)
        points = actions.parse_available(campaign, available)
        values = actions.parse_context(campaign, context)
        excluded = actions.parse_sites(campaign, without)
        with bar_if_slow("ask", is_shown=call.expert is None):
            X, left_out = campaign.choose(
                t, n, points, values, near, without=excluded, key=call.key
            )
        pending = campaign.pending_points if t is None else []
        usual_time = pending[-1].t if pending else None
        actions.print_points(call, campaign, "points", X, usual_time if t is None else t)
        actions.print_notes(call, campaign, X, usual_time, left_out)


@command(app, "tell")
def tell_command(
    call: Change,
    tables: TableOptions,
    counts: CountOptions,
    site: Site = None,
    reward: Annotated[float | None, reward_option("The reading; nan if it failed.")] = None,
    at: At = None,
    variance: Annotated[float | None, variance_option("The noise variance of the reading.")] = None,
    outcome: Outcome = None,
    context: Context = None,
    csv: Annotated[
        Path | None,
        Option(
            "--csv",
            help="A table with columns site, time and reward, or counts instead of reward (successes "
            "and trials, or events and exposure). `tvbandits data info` shows how it reads others.",
        ),
    ] = None,
    yes: Yes = False,
    skip_doubtful: Annotated[
        bool,
        Option(
            "--skip-doubtful",
            help="With --csv: leave out unusual rows without asking, list them, and exit with status 2.",
        ),
    ] = False,
) -> None:
    """Record a reading or a table of readings; a repeated reading counts once.

    To record a second reading of the same place and time, give it its own --key.
    """
    reading = reading_tables.Reading(
        site=site,
        value=reward,
        at=at,
        variance=variance,
        key=call.key,
        outcomes=readings.parse_outcomes(outcome),
        context=None if context is None else ", ".join(context),
        counts=(*counts.given.values(),),
    )
    if csv is not None and reading != reading_tables.Reading():
        raise ValueError(
            "--csv cannot be combined with options of a single reading: use columns of the table"
        )
    if csv is None and tables.given:
        raise ValueError(
            f"--{next(iter(tables.given))} is for the table of --csv: give one reading by --site and "
            "--reward"
        )
    if csv is None and (site is None or (reward is None) is not bool(reading.counts)):
        raise ValueError("tell needs --site and either --reward or counts, or --csv")
    if csv is None and reading.counts:
        if variance is not None:
            raise ValueError(
                f"counts determine their variance: leave out --variance, got {variance:g}"
            )
        compute = reading_tables.COUNTS[(*counts.given,)]
        (reading,) = reading_tables.with_rates([reading], compute)
    if skip_doubtful and (yes or csv is None):
        raise ValueError("--skip-doubtful is for --csv, and cannot be combined with --yes")
    with actions.open_campaign(call) as campaign:  # a file that is no campaign is named first
        lines = readings.tell(
            call,
            campaign,
            reading,
            csv,
            tables.given,
            doubtful="skip" if skip_doubtful else "accept" if yes else "ask",
        )
    if lines:
        raise typer.Exit(2)


@command(app, "questions")
def questions_command(call: Change, at: At = None, available: Availability = None) -> None:
    """Print the questions for an expert who answers later.

    Without --at the questions are for the time of the pending points, or else of the latest reading.
    """
    with actions.open_campaign(call) as campaign:
        t = actions.parse_at(campaign, at)
        X = campaign.questions(t, actions.parse_available(campaign, available), key=call.key)
        time = campaign.time_of_questions(X) if t is None and len(X) else t
        actions.print_points(call, campaign, "questions", X, time)
        if t is None and time is not None:
            about = f"questions for {campaign.format_time(time)}: use --at for another time"
            actions.print_messages([about])


@command(app, "answer")
def answer_command(
    call: Change,
    site: Annotated[str, Option("--site", metavar="SITE", help="The site of the question.")],
    value: Annotated[float, Option(help="The answer; nan if there is none.")],
    at: At = None,
    variance: Annotated[float | None, variance_option("The noise variance of the answer.")] = None,
    yes: Yes = False,
) -> None:
    """Record an answer to a question; a repeated answer counts once.

    Without --at it answers the latest open question about the site. `correct --answer` changes it.
    """
    with actions.open_campaign(call) as campaign:
        t = actions.parse_at(campaign, at)
        readings.answer(call, campaign, site, value, t, variance, yes=yes)


@command(app, "correct")
def correct_command(
    call: Change,
    tables: TableOptions,
    counts: CountOptions,
    site: Annotated[
        Text,
        Option(
            "--site", metavar="SITE", help="The site; without --at, its latest reading is meant."
        ),
    ] = None,
    at: At = None,
    reward: Annotated[float | None, reward_option("The correct reading; nan if it failed.")] = None,
    to: Annotated[Text, Option(metavar="TIME", help="The correct time.")] = None,
    variance: Annotated[float | None, variance_option("The correct noise variance.")] = None,
    outcome: Outcome = None,
    context: Context = None,
    answer: Annotated[
        float | None, Option(help="Correct the expert's answer to this, instead of a reading.")
    ] = None,
    csv: Annotated[
        Path | None,
        Option(
            "--csv",
            help="A table of right readings, as for `tell --csv`: it corrects all that differ, or none.",
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Correct the value or the time of a reading, or an answer; the journal keeps both versions.

    With --csv, correct all readings of a table that have another value.
    """
    single = (site, at, reward, to, variance, outcome, context, answer)
    if csv is not None:
        if counts.given or any(each is not None for each in single):
            raise ValueError(
                "--csv cannot be combined with options of a single reading: use columns of the table"
            )
        with actions.open_campaign(call) as campaign:
            readings.correct_table(call, campaign, csv, tables.given, yes=yes)
        return
    if tables.given:
        raise ValueError(
            f"--{next(iter(tables.given))} is for the table of --csv: correct one reading by --site"
        )
    if site is None:
        raise ValueError("correct needs --site, or --csv for a table")
    outcomes, options = readings.parse_outcomes(outcome), counts.given
    counted = reading_tables.COUNTS[(*options,)](**options) if options else None
    if counted is not None and (reward is not None or variance is not None):
        raise ValueError(
            f"--{next(iter(options))} replaces --reward and --variance: leave these out"
        )
    is_changed = bool(outcomes or counted is not None or reward is not None or to is not None)
    if answer is not None and is_changed:
        raise ValueError(
            "--answer corrects an answer: --reward, --to and --outcome are for readings"
        )
    with actions.open_campaign(call) as campaign:
        t, right_time = actions.parse_at(campaign, at), actions.parse_at(campaign, to, "--to")
        values = actions.parse_context(campaign, context)
        X = campaign.resolve_points(site, values, t, played=True)
        if answer is not None:
            readings.correct_answer(call, campaign, X, answer, t, variance, yes=yes)
            return
        if not is_changed and variance is None:
            raise ValueError(
                "correct needs the right reward, counts, time, noise variance or outcome: give "
                "--reward, --successes and --trials, --events and --exposure, --to, --variance or "
                "--outcome"
            )
        y = readings.as_column(reward) if counted is None else counted
        noise = readings.as_column(variance)
        change = partial(campaign.correct, X, y, t, noise)
        change = partial(change, to=right_time, outcomes=outcomes, key=call.key)
        readings.make_change(change, yes)
        right = reward if counted is None else float(counted.values[0])
        readings.print_change(call, campaign, "corrected", "correct", right, right_time)


@command(app, "retract")
def retract_command(
    call: Change,
    site: ReadingSite,
    at: At = None,
    context: Context = None,
    answer: Annotated[
        bool, Option("--answer", help="Withdraw an answer of the expert instead of a reading.")
    ] = False,
) -> None:
    """Withdraw a reading or an answer; the journal keeps it."""
    with actions.open_campaign(call) as campaign:
        if answer:
            campaign.correct_answers(
                [site], [math.nan], actions.parse_at(campaign, at), key=call.key
            )
            readings.print_change(call, campaign, "retracted", "correct_answers")
            return
        t, values = actions.parse_at(campaign, at), actions.parse_context(campaign, context)
        X = campaign.resolve_points(site, values, t, played=True)
        campaign.retract(X, t, key=call.key)
        readings.print_change(call, campaign, "retracted", "retract")


@command(app, "drop")
def drop_command(
    call: Change,
    site: Annotated[Text, Option(metavar="SITE", help="The pending site.")] = None,
    every: Annotated[
        bool,
        Option("--all", help="Drop all pending points, of the site or, without --site, of all."),
    ] = False,
) -> None:
    """Drop a pending point that nobody will play; if a site has several, the oldest."""
    if site is None and not every:
        raise ValueError("drop needs --site, or --all for all pending points")
    with actions.open_campaign(call) as campaign:
        if every:
            actions.drop_all(campaign, site, call.key)
        else:
            campaign.drop(str(site), key=call.key)
        actions.print_dropped(call, campaign)


@command(app, "sites", SitesCommand)
def sites_command(
    action: Annotated[
        SiteAction, Argument(help="What to do with the sites; `sites FILE` lists them.")
    ],
    call: Change,
    names: Annotated[
        Texts,
        Argument(
            metavar="NAME[=X,Y]...",
            help="Names of sites; give new sites coordinates, in the order of the table of sites.",
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """List, add or retire sites or arms, or confirm that sites which stand out are right.

    You may still report readings of a retired site. The campaign asks about a confirmed site again if
    its readings are off by another amount.
    """
    if (action == "list") != (not names):
        raise ValueError(f"sites {action} takes {'no names' if names else 'names of sites'}")
    if not names:
        actions.list_sites(call)
        return
    with actions.open_campaign(call) as campaign:
        if action == "confirm":
            campaign.change_sites(confirm=names, key=call.key)
            actions.print_confirmed(call, names)
            return
        if action == "retire":
            campaign.change_sites(retire=names, key=call.key)
        else:
            add = actions.parse_new_sites(names)
            readings.confirm(actions.doubts_about_sites(campaign, add), yes)
            campaign.change_sites(add, key=call.key)
        actions.print_sites(call, campaign)


@command(app, "status")
def status_command(
    call: Call,
    best: Annotated[
        bool, Option("--best", help="Also print the best point, which takes longer.")
    ] = False,
    at: At = None,
    context: Context = None,
) -> None:
    """Print the status in one line."""
    actions.status(call, context, at, best=best)


@command(app, "history")
def history_command(
    call: Call, last: Annotated[int, Option(min=0, help="The number of rows; 0 for all.")] = 20
) -> None:
    """Print readings, answers and pending points."""
    actions.history(call, last)


@command(app, "forecast")
def forecast_command(
    call: Call,
    at: At = None,
    site: Site = None,
    outcome: Annotated[Text, Option(help="Predict this outcome under a limit.")] = None,
    context: Context = None,
    relative: Annotated[
        bool, Option("--relative", help="Predict the difference to the control.")
    ] = False,
) -> None:
    """Predict the reward at one site or at all sites, the best first.

    The number after +- is half of a 95% interval of the level, without the noise of a single reading.
    """
    actions.forecast(call, at, site, outcome, context, relative=relative)


@command(app, "backup")
def backup_command(
    file: File, out: Annotated[Path, Argument(metavar="OUT", help="The new file to write.")]
) -> None:
    """Copy a campaign while others use it."""
    with actions.open_campaign(Call(file)) as campaign:
        campaign.backup(out)
        print(out)


@command(app, "verify")
def verify_command(call: Call) -> None:
    """Replay the journal and compare the results; exit with status 2 if any differs."""
    if not actions.verify(call):
        raise typer.Exit(2)


@command(app, "report")
def report_command(
    file: File,
    out: Annotated[Text, Option(metavar="PAGE", help="The page: by default FILE.html.")] = None,
) -> None:
    """Write the campaign as one page of HTML, which needs no network."""
    actions.report(file, out)


@command(app, "token")
def token_command(
    file: File,
    name: Annotated[str, Argument(help="The holder's name, as the journal shows it.")],
    role: Annotated[
        Texts, Option("--role", help="read, tell or ask. Repeat it for more; read by default.")
    ] = None,
    revoke: Annotated[bool, Option("--revoke", help="Revoke the token.")] = False,
) -> None:
    """Create a token for the service and print it once, or revoke one."""
    roles = role or ["read"]
    with tokens.Tokens(file) as table:
        if revoke:
            table.revoke(name)
            terminal.say(f"the token of {name} is revoked")
        else:
            print(table.new(name, roles))
            terminal.say(
                f"the token of {name}, to {', '.join(roles)}: store it now, it is not printed again"
            )


@command(app, "serve")
def serve_command(
    file: File,
    host: Annotated[str, Option(help="The address of this machine to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="The port to listen on.")] = 8000,
    name: Annotated[
        Texts, Option("--name", help="A host name of the proxy in front. Repeat it for more.")
    ] = None,
    expert: ExpertName = None,
) -> None:
    """Serve the campaign over HTTP, with its page at /, until stopped."""
    call = Change(file, expert=expert, who="service")
    # The clients of the service use no command line.
    with (
        actions.open_campaign(call) as campaign,
        tokens.Tokens(file) as table,
        use_command_line_names(is_command=False),
    ):
        service.serve(campaign, table, host=host, port=port, names=tuple(name or ()))


@command(app, "mcp")
def mcp_command(file: File, who: Who = None, expert: ExpertName = None) -> None:
    """Serve the campaign to an agent, over the Model Context Protocol, on standard input and output."""
    call = Change(file, expert=expert, who=who)
    with actions.open_campaign(call) as campaign, use_command_line_names(is_command=False):
        mcp.serve(campaign)

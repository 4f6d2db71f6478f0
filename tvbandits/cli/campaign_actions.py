"""The `campaign` sub-commands: what they parse and print."""

from __future__ import annotations

import csv
import json
import math
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.forecasts import doubts_about, forecast as predictions
from tvbandits.campaign.status import age_text, drop_command, with_answer
from tvbandits.campaign.store.errors import CampaignError
from tvbandits.cli.options import Call, Change
from tvbandits.cli.output import REMEDIES, escape, plural, print_result, without_formula
from tvbandits.cli.waiting import bar_if_slow
from tvbandits.clock import parse_time, to_number
from tvbandits.domains.candidates import get_candidates
from tvbandits.domains.space import Arms
from tvbandits.io import replace_nan
from tvbandits.text import format_interval
from tvbandits.validation import Array, file_path

if TYPE_CHECKING:
    from tvbandits.gp.noise import NoiseEstimate


@contextmanager
def open_campaign(call: Call) -> Iterator[Campaign]:
    """Open the campaign, whose errors speak of options here; its expert only if the call names it."""
    try:
        with _opened(call) as campaign:
            yield campaign
    except CampaignError as error:
        error.words = REMEDIES
        raise


@contextmanager
def _opened(call: Call) -> Iterator[Campaign]:
    """Open the campaign; its expert is imported only if the call names it."""
    who, expert_name = (call.who, call.expert) if isinstance(call, Change) else (None, None)
    with Campaign.open(call.file, who=who) as campaign:
        if expert_name is None:
            yield campaign
            return
        from tvbandits.cli.campaign_config import check_expert, make_expert
        from tvbandits.policies.names import load

        check_expert(expert_name, campaign.about.get("expert", ""))
        expert = make_expert(load(expert_name), campaign.budget)
    with Campaign.open(call.file, expert=expert, who=who) as campaign:
        yield campaign


# --- what the options mean ---------------------------------------------------------------------------


def parse_at(campaign: Campaign, text: str | None, name: str = "--at") -> float | None:
    """Return a time: a number, or a date if there is a clock."""
    return to_number(campaign.clock, parse_time(text), name)


def parse_context(campaign: Campaign, texts: list[str] | None) -> dict[str, object] | None:
    """Return the context of one option or several."""
    return campaign.names.context(None if texts is None else ", ".join(texts))


def parse_available(
    campaign: Campaign, texts: list[str] | None
) -> list[str] | dict[str, Any] | None:
    """Return the available sites; on a box or a space ranges, as in "x0=0..5; fuel=gas, oil"."""
    if texts is None:
        return None
    if get_candidates(campaign.domain) is not None:
        return parse_sites(campaign, texts)
    ranges: dict[str, Any] = {}
    for part in (part.strip() for text in texts for part in text.split(";")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        low, dots, high = (piece.strip() for piece in value.partition(".."))
        if not (name and equals and value) or name in ranges:
            raise ValueError(
                f'--available on a box or a space takes a range for each name, "x0=0..5", got "{part}"'
            )
        try:
            ranges[name] = [float(low), float(high)] if dots else _split(value, ",")
        except ValueError as error:
            raise ValueError(f'--available: "{part}": {error}') from error
    return ranges


def parse_sites(campaign: Campaign, texts: list[str] | None) -> list[str]:
    """Return the names of sites in each of "name", "name,name" and "name; name"."""
    return [name for text in texts or () for name in _parse_names(campaign, text.strip())]


def _parse_names(campaign: Campaign, text: str) -> list[str]:
    names = campaign.names
    with suppress(ValueError):
        return [names.sites[names.row(text)]]  # a name may contain a comma
    parts = _split(text, ";" if ";" in text else ",")
    try:
        return [names.sites[names.row(part)] for part in parts]
    except ValueError as error:
        if len(parts) == 1:
            raise
        hint = 'if a name has a comma, separate names with semicolons: "A, B; C"'
        raise ValueError(f"{error}; {hint}") from error


def _split(text: str, separator: str) -> list[str]:
    return [piece.strip() for piece in text.split(separator)]


def parse_new_sites(texts: list[str]) -> dict[str, list[float] | None]:
    """Return the names of sites with their coordinates, if any, in texts such as "A=3.2,4.5"."""
    sites: dict[str, list[float] | None] = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        name = name if equals else text
        if name in sites:
            raise ValueError(f'"{name}" is given twice')
        try:
            sites[name] = [float(each) for each in numbers.split(",")] if equals else None
        except ValueError as error:
            raise ValueError(f'NAME=X,Y needs numbers after "=", got "{text}"') from error
    return sites


def doubts_about_sites(campaign: Campaign, add: Mapping[str, Any]) -> list[str]:
    """Return what is unusual about new sites; errors are reported when they are added."""
    with suppress(ValueError):
        return campaign.names.doubts_about(add)
    return []


# --- what the commands print -------------------------------------------------------------------------


def print_points(call: Call, campaign: Campaign, name: str, X: Array, t: float | None) -> None:
    """Print the names of points, each with how often if it is there several times, or them as JSON."""
    names = campaign.names
    sites = [names.name(x) for x in X]
    points = [{"site": site, "x": x.tolist()} for site, x in zip(sites, X, strict=True)]
    text = "; ".join(with_counts(sites)) or "nothing to ask"
    print_result(call.form, text, {name: points, "t": t})


def print_notes(
    call: Call, campaign: Campaign, X: Array, usual_time: float | None, left_out: Mapping[str, str]
) -> None:
    """Print on standard error what a person should know of an ask: a time in the past, silent sites.

    `usual_time` is the time that it is for if the person said none.
    """
    notes, clock = [], campaign.clock
    if usual_time is not None and clock is not None and clock.now > usual_time + 1.0:
        notes.append(
            f"points for {campaign.format_time(usual_time)}, one unit of the clock after the last "
            f"reading; it is now {campaign.format_time(clock.now).partition('.')[0]}: use --at for "
            "another time"
        )
    notes += _doubts(call, campaign, map(campaign.names.name, X))
    notes += [
        f"{name} is left out, {text}: use --available {shlex.quote(name)} to choose it anyway"
        for name, text in left_out.items()
    ]
    print_messages(notes)


def _doubts(call: Call, campaign: Campaign, sites: Iterable[str]) -> list[str]:
    """Return a remark for each of some sites that may be wrong, with the command to answer it."""
    doubts = doubts_about(campaign, sites)
    return [f"{name}: {with_answer(text, call.file, name)}" for name, text in doubts.items()]


def print_messages(notes: Iterable[str]) -> None:
    """Print notes for people on standard error, a line for each."""
    for note in notes:
        print(f"tvbandits: {escape(note)}", file=sys.stderr)


def with_counts(texts: Iterable[str]) -> list[str]:
    """Return each text once, with how often it is there if that is not once."""
    return [each if n == 1 else f"{each} ({n} times)" for each, n in Counter(texts).items()]


def drop_all(campaign: Campaign, site: str | None, key: str | None) -> None:
    """Drop all pending points, or those of one site."""
    X = campaign.pending
    if site is not None:
        (row,) = campaign.names.point(site)[:1]
        X = X[(X[:, : len(row)] == row).all(axis=1)]
    if not len(X):
        where = "" if site is None else f" at {site}"
        raise ValueError(f"nothing is pending{where}")
    campaign.drop(X, key=key)


def print_dropped(call: Call, campaign: Campaign) -> None:
    """Print how many points are still pending."""
    pending = campaign.status.pending
    print_result(call.form, f"dropped; {pending} still pending", {"pending": pending})


def print_sites(call: Call, campaign: Campaign) -> None:
    """Print how many sites are active."""
    sites = campaign.sites
    print_result(call.form, f"{plural(len(sites), 'active site')}", {"sites": sites})


def print_confirmed(call: Call, names: list[str]) -> None:
    """Print which sites are right although they stand out."""
    text = f"confirmed: {', '.join(names)}; the campaign asks again only if that changes"
    print_result(call.form, text, {"confirmed": names})


def list_sites(call: Call) -> None:
    """Print the sites with their coordinates, as a table of sites, and which of them are retired."""
    with open_campaign(call) as campaign:
        names, candidates = campaign.names, get_candidates(campaign.domain)
        if candidates is None:
            raise ValueError(f"the campaign plays on {campaign.domain!r}, not on sites")
        columns = [each for each in names.columns if each not in names.context_names]
        X = np.column_stack(list(names.table.values())) if names.table else candidates.X
        if isinstance(candidates, Arms):
            columns, X = [], X[:, :0]
        sites, retired = [names.name(x) for x in candidates.X], {*candidates.retired}
    rows = [
        {"site": site, "x": x.tolist(), "retired": row in retired}
        for row, (site, x) in enumerate(zip(sites, X, strict=True))
    ]
    if call.form == "json":
        print(json.dumps({"columns": columns, "sites": rows}))
        return
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["site", *columns, *(["retired"] if retired else [])])
    for row in rows:
        mark = ["yes" if row["retired"] else ""] if retired else []
        table.writerow([_cell(row["site"]), *row["x"], *mark])


def status(
    call: Call, context: list[str] | None = None, at: str | None = None, *, best: bool = False
) -> None:
    """Print the status; only the best point needs a bandit."""
    for name, value in (("at", at), ("context", context)):
        if value is not None and not best:
            raise ValueError(f"--{name} is for --best")
    with open_campaign(call) as campaign:
        status, points = campaign.status, campaign.pending_points
        ages = [age_text(each.asked) for each in points]
        places = [f"{each.place} (asked {age})" for each, age in zip(points, ages, strict=True)]
        last = None if status.time is None else campaign.format_time(status.time)
        parts = [plural(status.readings, "reading") + (f", the last at {last}" if last else "")]
        if status.limits:
            excess = ", ".join(f"{name} by {each:.3g}" for name, each in status.mean_excess.items())
            mean = f" ({excess} on average)" if excess else ""
            parts.append(plural(status.violations, "limit violation") + mean)
        parts.append(f"pending: {'; '.join(with_counts(places)) or 'none'}")
        questions = plural(status.questions, "question")
        questions += f" at a cost of {status.cost:g}" if status.cost else ""
        questions += f", {status.in_doubt} in doubt" if status.in_doubt else ""
        parts.append(questions)
        overdue = [each.place for each in points if each.t < (status.time or -math.inf)]
        if overdue:
            parts.append(
                f"overdue: report the reading of {overdue[0]}, or drop it: "
                f"{drop_command(call.file, overdue[0])}"
            )
        values = {
            **status.summary,
            "pending_sites": [each.place for each in points],
            "ages": ages,
            "last": last,
        }
        if best:
            beliefs, lines = _best(call, campaign, context, parse_at(campaign, at))
            values, parts = {**values, **beliefs}, [*parts, *lines]
        print_result(call.form, "; ".join(parts), values)


def _best(
    call: Call, campaign: Campaign, context: list[str] | None, t: float | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the best point, the number of outliers and the learned noise: values and texts."""
    values: dict[str, Any] = {"best": None} | ({} if t is None else {"best_at": t})
    if campaign.status.readings:
        best = campaign.recommend(t, context=parse_context(campaign, context))
        values["best"] = campaign.names.name(best)
    when = "" if t is None else f" at {campaign.format_time(t)}"
    parts = [f"best{when}: {values['best'] or 'unknown without readings'}"]
    if outliers := campaign.info.outliers:
        values["outliers"] = outliers
        parts.append(f"outliers, not used: {outliers}")
    # Where each reading has a variance of its own, none tells about the noise.
    if (noise := campaign.info.model.noise) is not None and noise.is_known:
        values["noise_variance"] = asdict(noise)
        parts.append(f"noise variance: {_noise_text(noise)}")
    if health := [*campaign.info.health, *_doubts(call, campaign, campaign.sites)]:
        values["health"] = health
        parts += [f"please check: {each}" for each in health]
    return values, parts


def _noise_text(noise: NoiseEstimate) -> str:
    if noise.low == noise.high:
        return f"{noise.variance:g}"
    interval = f"{noise.low:.2g} to {noise.high:.2g} (95%)"
    return f"{noise.variance:.2g}, {interval}, from {plural(noise.readings, 'reading')}"


def forecast(
    call: Call,
    at: str | None,
    site: str | None,
    outcome: str | None,
    context: list[str] | None,
    *,
    relative: bool,
) -> None:
    """Print the mean and 95% interval at one site or at all, the best first."""
    with open_campaign(call) as campaign:
        t, places = parse_at(campaign, at), None if site is None else [site]
        time = campaign.state.record.decision_time if t is None else t
        where = parse_context(campaign, context)
        with bar_if_slow("forecast"):
            rows = predictions(campaign, places, t, outcome, where, relative=relative)
        unit = campaign.about.get("unit", "") if outcome is None else ""
        notes = _doubts(call, campaign, [row.site for row in rows])
        state = campaign.state if outcome is None else campaign.state.outcomes[outcome]
        if state.count == 1 and not state.rewards.trials.any():
            notes.append("a single reading does not tell how much readings vary: +- is a guess")
    if t is None and call.form != "json":
        about = (
            f"forecast for {campaign.format_time(time)}, one unit of time after the last reading"
        )
        notes.insert(0, f"{about}: use --at for another time")
    print_messages(notes)
    lines = []
    for row in rows:
        value = f"{format_interval(row.mean, row.half, '+-')} {unit}".rstrip()
        lines.append(f"{row.site}: {value} (95%)")
    values = {
        "t": time,
        "at": campaign.format_time(time),
        "unit": unit,
        "forecast": [row._asdict() for row in rows],
    }
    print_result(call.form, lines, values)


def history(call: Call, last: int) -> None:
    """Print the last rows of the history as CSV."""
    with open_campaign(call) as campaign:
        columns = {name: np.asarray(each) for name, each in campaign.history_columns.items()}
    rows = list(zip(*(column[-last:].tolist() for column in columns.values()), strict=True))
    if call.form == "json":
        print(json.dumps([replace_nan(dict(zip(columns, row, strict=True))) for row in rows]))
        return
    total = len(next(iter(columns.values())))
    if len(rows) < total:
        print(f"{len(rows)} of {total} rows; --last 0 shows all", file=sys.stderr)
    table = csv.writer(sys.stdout, lineterminator="\n")
    for cells in (columns, *rows):
        table.writerow(["" if each != each else _cell(each) for each in cells])


def _cell(value: Any) -> Any:
    return escape(without_formula(value)) if isinstance(value, str) else value


def verify(call: Call) -> bool:
    """Replay the journal, print the result, and return whether it is consistent."""
    with open_campaign(call) as campaign, bar_if_slow("verify"):
        result = campaign.verify()
    counts = ("row", result.rows), ("operation", result.operations), ("snapshot", result.snapshots)
    compared = ", ".join(plural(count, noun) for noun, count in counts)
    text = f"{compared}: consistent" if result.consistent else "; ".join(result.problems)
    print_result(call.form, text, {"consistent": result.consistent, **vars(result)})
    return result.consistent


def report(file: str, out: str | None) -> None:
    """Write the page of a campaign, which replaces an earlier one and nothing else.

    Raises
    ------
    ValueError
        If there is something else at its path, or the campaign is on a server and no path is given.
    """
    from tvbandits.campaign.service.page import campaign_page, generator_of, has_generator
    from tvbandits.campaign.store.databases import check_file_name
    from tvbandits.cli.terminal import write_page

    if out is None and "://" in file:
        raise ValueError("--out is needed for the page of a campaign on a server")
    path = file_path("--out", out or f"{file}.html")
    check_file_name(path)
    with open_campaign(Call(file)) as campaign:
        generator = generator_of(campaign.id)
        write_page(campaign_page(campaign), path, lambda page: has_generator(page, generator))

"""What the `campaign` sub-commands do: one line out, or JSON."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from tvbandits.campaign import sites
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.status import HALF_WIDTH, drop_command, since, without_formula
from tvbandits.campaign.store.journal import without_nan
from tvbandits.campaign.times import number_of, time_in
from tvbandits.cli.campaign_readings import Input, bring, several
from tvbandits.cli.options import Call, Change, escaped
from tvbandits.domains.candidates import candidates_of
from tvbandits.validation import Array, file_path

if TYPE_CHECKING:
    from tvbandits.gp.fitting.noise import NoiseEstimate


@contextmanager
def opened(call: Call) -> Iterator[Campaign]:
    """Open the campaign; its own expert is imported only if it was named here."""
    who, named = (call.who, call.expert) if isinstance(call, Change) else (None, None)
    with Campaign.open(call.file, who=who) as campaign:
        if named is None:
            yield campaign
            return
        from tvbandits.cli.campaign_config import check_expert, made_expert
        from tvbandits.policies.names import load

        check_expert(named, campaign.about.get("expert", ""))
        expert = made_expert(load(named), campaign.budget)
    with Campaign.open(call.file, expert=expert, who=who) as campaign:
        yield campaign


def say(call: Call, text: str | list[str], about: Mapping[str, Any]) -> None:
    """One line, or several, or JSON."""
    lines = [text] if isinstance(text, str) else text
    shown = "\n".join(map(escaped, lines))
    print(json.dumps(without_nan(about)) if call.shape == "json" else shown)


def time_of(campaign: Campaign, text: str | None, name: str = "--at") -> float | None:
    """A number, or a date where there is a clock."""
    return number_of(campaign.clock, time_in(text), name)


def joined(context: list[str] | None) -> str | None:
    """The values of a context that is given once or in several parts, as one text."""
    return None if context is None else ", ".join(context)


def available(campaign: Campaign, given: list[str] | None) -> list[str] | dict[str, Any] | None:
    """Names of sites that are available; on a box or a space ranges, as in "x0=0..5; fuel=gas, oil"."""
    if given is None or candidates_of(campaign.domain) is not None:
        return listed(campaign, given)
    ranges: dict[str, Any] = {}
    for part in (part.strip() for text in given for part in text.split(";")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        low, dots, high = (piece.strip() for piece in value.partition(".."))
        if not (name and equals and value) or name in ranges:
            raise ValueError(
                f'--available on a box or a space takes a range for each name, "x0=0..5", got "{part}"'
            )
        try:
            ranges[name] = [float(low), float(high)] if dots else as_names(value)
        except ValueError as error:
            raise ValueError(f'--available: "{part}": {error}') from error
    return ranges


def as_names(text: str) -> list[str]:
    """Return the texts between commas."""
    return [piece.strip() for piece in text.split(",")]


def listed(campaign: Campaign, given: list[str] | None) -> list[str] | None:
    """The names in each of "name", "name,name" or "name; name", the form in which `ask` prints them."""
    if given is None:
        return None
    return [name for text in given for name in _names_in(campaign, text.strip())]


def _names_in(campaign: Campaign, text: str) -> list[str]:
    row = campaign.names.row
    with suppress(ValueError):
        return [campaign.names.sites[row(text)]]  # a name may have a comma
    names = [part.strip() for part in text.split(";" if ";" in text else ",")]
    try:
        return [campaign.names.sites[row(name)] for name in names]
    except ValueError as error:
        if len(names) == 1:
            raise
        form = 'a name with a comma is given alone, or with semicolons: "A, B; C"'
        raise ValueError(f"{error}; {form}") from error


def for_json(campaign: Campaign, X: Array) -> list[dict[str, Any]]:
    """Points with their names."""
    return [{"site": campaign.names.name(x), "x": x.tolist()} for x in X]


def remote(campaign: Campaign, add: Mapping[str, Any]) -> list[str]:
    """What is odd about the places of new sites; what is wrong with them is said when they are added."""
    with suppress(ValueError):
        return sites.remote(campaign.names, add)
    return []


# --- the commands ------------------------------------------------------------------------------------


def placed(texts: list[str]) -> dict[str, list[float] | None]:
    """Names, and coordinates where they are given."""
    found: dict[str, list[float] | None] = {}
    for text in texts:
        name, equals, said = text.rpartition("=")
        name = name if equals else text
        if name in found:
            raise ValueError(f'"{name}" is given twice')
        try:
            found[name] = [float(each) for each in said.split(",")] if equals else None
        except ValueError as error:
            raise ValueError(f'NAME=X,Y needs numbers behind "=", got "{text}"') from error
    return found


def status(call: Call, context: str | None = None, *, best: bool = False) -> None:
    """How things stand, as far as the journal says it; which point is best takes a bandit."""
    with opened(call) as campaign:
        found = campaign.status
        points = campaign.outstanding
        ages = [since(each.asked) for each in points]
        asked = [f"{each.place} (asked {age})" for each, age in zip(points, ages, strict=True)]
        out, said = "; ".join(each.place for each in points) or "none", "; ".join(asked) or "none"
        overdue = [each.place for each in points if each.t < (found.time or -math.inf)]
        drop = drop_command(call.file, overdue[0]) if overdue else ""
        hint = f"; overdue, to tell or drop: {drop}" if overdue else ""
        doubt = f", {found.in_doubt} questions in doubt" if found.in_doubt else ""
        cost = f" at a cost of {found.cost:g}" if found.cost else ""
        broken = f", {found.violations} limits violated" if found.limits else ""
        text = (
            f"{found.told} told{broken}, pending: {said}; "
            f"{found.questions} questions asked{cost}{doubt}; "
            f"last at {campaign.when(found.time)}{hint}"
        )
        shown = {**dict(found.summary), "pending_sites": out}
        if best:
            shown["best"] = "not known yet"
            if found.told:
                given = campaign.names.context(context)
                shown["best"] = campaign.names.name(campaign.recommend(context=given))
            text += f"; best: {shown['best']}"
            if aside := campaign.info.outliers:
                shown["outliers"] = aside
                text += f"; set aside as outliers: {aside}"
            if (noise := campaign.info.model.noise) is not None:
                shown["noise_variance"] = asdict(noise)
                text += f"; noise variance: {_noise_text(noise)}"
        say(call, text, {**shown, "last": campaign.when(found.time), "ages": ages})


def _noise_text(noise: NoiseEstimate) -> str:
    if noise.low == noise.high:
        return f"{noise.variance:g}"
    interval = f"{noise.low:.2g} to {noise.high:.2g} (95%)"
    readings = "1 reading" if noise.readings == 1 else f"{noise.readings} readings"
    return f"{noise.variance:.2g}, {interval}, from {readings}"


def forecast(
    call: Call,
    at: str | None,
    site: str | None,
    outcome: str | None,
    context: str | None,
    *,
    relative: bool,
) -> None:
    """Say what to expect, at one site or at all, the best first."""
    with opened(call) as campaign:
        names, candidates = campaign.names, candidates_of(campaign.domain)
        where: Any = site
        if where is None:
            if candidates is None:
                on = repr(campaign.domain)
                raise ValueError(f"the campaign plays on {on}, not on sites: give --site")
            where = candidates.X
        t = time_of(campaign, at)
        X = campaign.placed(where, names.context(context))
        predicted = campaign.predict(X, t, outcome, relative=relative)
        mean, deviation = (each.tolist() for each in predicted)
        lower_first = bool(campaign.recipe.minimize)
        unit = campaign.about.get("unit", "") if outcome is None else ""
        rows, lines = [], []
        for i in sorted(range(len(X)), key=mean.__getitem__, reverse=not lower_first):
            name, half = names.name(X[i]), HALF_WIDTH * deviation[i]
            bounds = [mean[i] - half, mean[i] + half]
            row = {"site": name, "mean": mean[i], "deviation": deviation[i], "interval_95": bounds}
            rows.append(row)
            lines.append(f"{name}: {mean[i]:.4g} +- {half:.2g}{f' {unit}' if unit else ''} (95%)")
        say(call, lines, {"t": t, "unit": unit, "forecast": rows})


def history(call: Call, last: int) -> None:
    """What was asked, told and answered."""
    if last < 0:
        raise ValueError(f"--last must be at least 0, got {last}")
    with opened(call) as campaign:
        columns = campaign.history_columns
        found = [np.asarray(column) for column in columns.values()]
        rows = list(zip(*(column[-last:].tolist() for column in found), strict=True))
        if call.shape == "json":
            print(json.dumps([without_nan(dict(zip(columns, row, strict=True))) for row in rows]))
            return
        if len(rows) < len(found[0]):
            print(f"{len(rows)} of {len(found[0])} rows; --last 0 for all", file=sys.stderr)
        table = csv.writer(sys.stdout, lineterminator="\n")
        for cells in (columns, *rows):
            table.writerow(["" if each != each else _cell(each) for each in cells])


def _cell(value: Any) -> Any:
    return escaped(without_formula(value)) if isinstance(value, str) else value


def report(place: str, out: str | None) -> None:
    """Write the page of a campaign, in place of an earlier one and of nothing else.

    Raises
    ------
    ValueError
        If there is none, or something else where the page goes, or nobody said where the page of a
        campaign on a server goes.
    """
    from tvbandits.campaign.service.page import campaign_page, generated_by, generator_of
    from tvbandits.campaign.store.places import check_name
    from tvbandits.cli.terminal import write_page

    if out is None and "://" in place:
        raise ValueError("--out must say where to write the page of a campaign on a server")
    there = file_path("--out", out or f"{place}.html")
    check_name(there)
    with opened(Call(place)) as campaign:
        generator = generator_of(campaign)
        write_page(
            lambda: campaign_page(campaign), there, lambda path: generated_by(path, generator)
        )


def tell(
    call: Change, one: Input, path: Path | None, decimal: str | None = None, *, yes: bool
) -> None:
    """Tell a reading, or all of a table but the rows in which something is wrong, which are named."""
    if path is not None and one != Input():
        raise ValueError("tell --csv stands alone: a table has a column for everything else")
    if path is None and decimal is not None:
        raise ValueError("--decimal is for the table of --csv")
    if path is None and (one.site is None or one.value is None):
        raise ValueError("tell needs --site and --reward, or --csv")
    with opened(call) as campaign:
        brought = bring(campaign, one, path, decimal, yes=yes)
        lines = [f"{path}, line {line}: {error}" for line, error in brought.wrong.items()]
        if lines and not brought.count:
            more = f" (and {len(lines) - 1} more rows are wrong)" if len(lines) > 1 else ""
            raise ValueError(lines[0] + more)
        refused = [{"line": line, "error": str(each)} for line, each in brought.wrong.items()]
        more_said = {"refused": refused} if refused else {}
        say_brought(call, campaign, brought.count, brought.new, more_said)
    for line in lines:
        print(f"tvbandits: {escaped(line)}; it is not told", file=sys.stderr)
    if lines:
        raise typer.Exit(2)


def answer(call: Change, site: str, value: float, at: str | None, variance: float | None) -> None:
    """Bring an answer; without a time it is about what `Bandit.answer` takes it for."""
    with opened(call) as campaign:
        t, before = time_of(campaign, at), campaign.status.rows
        X = campaign.placed(site, t=t)
        if t is None:  # which takes a bandit
            from tvbandits.bandit.querying import question_time

            t = question_time(campaign.recipe, campaign.state, campaign.state.queries.latest)
        # By its place and time it counts once; after one that failed another may follow.
        failed = ", failed" * math.isnan(value)
        key = call.key or f"answer {campaign.names.name(X[0])} at {t!r}{failed}"
        campaign.answer(X, [value], t, several(variance), key=key)
        say_brought(call, campaign, 1, int(campaign.status.rows > before))


def say_brought(
    call: Change, campaign: Campaign, count: int, fresh: int, more: Mapping[str, Any] | None = None
) -> None:
    """Say how many readings are on record now, and how many are new."""
    status = campaign.status
    new = {0: "known already", count: "new"}.get(fresh, f"{fresh} of them new")
    text = f"{count} brought, {new}; {status.told} told, {status.pending} pending"
    say(call, text, {"brought": count, "new": fresh, "told": status.told, **(more or {})})


def read(said: list[str] | None) -> dict[str, list[float]]:
    """What else was read, out of texts name=value."""
    found: dict[str, list[float]] = {}
    for text in said or []:
        name, _, value = map(str.strip, text.partition("="))
        if name in found:
            raise ValueError(f'--outcome {name} is given twice, as "{text}" the second time')
        try:
            found[name] = [float(value)]
        except ValueError:
            raise ValueError(f'--outcome must be name=number, got "{text}"') from None
    return found


def say_changed(call: Change, campaign: Campaign, what: str) -> None:
    """What was on record, and how things stand."""
    row = next(row for row in reversed(campaign.journal()) if row.kind == what)
    told = campaign.status.told
    ((at, value),) = np.asarray(row.body["got"], dtype=np.float64)
    name = campaign.names.name(np.asarray(row.given["X"][0]))
    text = f"{what}: {name} at {campaign.when(at)} was told as {value:g}; {told} told"
    say(call, text, {what: name, "t": at, "was": value, "told": told})

"""The readings that people bring to a campaign, one by one or as a table: parsed, doubted and recorded.

Each row of a table stands for itself: an error in one is reported with its line, and the others are
recorded.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.names import Names
from tvbandits.campaign.shared import Errors, collect_errors
from tvbandits.cli.options import Call, Change
from tvbandits.cli.output import escape, plural, print_result
from tvbandits.clock import parse_time, to_number
from tvbandits.counts import Counted, count, rate
from tvbandits.domains.space import Arms
from tvbandits.io import naming
from tvbandits.validation import Array

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.datasets.tables.layout import FileOptions, Layout

# Readings that are recorded in one transaction.
CHUNK = 5000

# Other names of columns.
SYNONYMS = {"value": "reward", "reading": "reward", "t": "time"}

# Columns in the place of a reward, and the function that computes a rate from them.
COUNTS: dict[tuple[str, ...], Callable[..., Counted]] = {
    ("successes", "trials"): rate,
    ("events", "exposure"): count,
}


@dataclass(frozen=True)
class Reading:
    """A reading as people write it.

    Attributes
    ----------
    site, at : str or None
        The place and the time.
    value, variance : float or None
    key : str or None
    outcomes : mapping of str to list of float
        Readings of further outcomes.
    context, who : str or None
    counts : tuple of float, optional
        The counts that the value was computed from.
    trials : float or None
        How many trials the value is the share of.
    line : int
        The line in the table; the first line has the names of the columns.
    """

    site: str | None = None
    value: float | None = None
    at: str | None = None
    variance: float | None = None
    key: str | None = None
    outcomes: Mapping[str, list[float]] = field(default_factory=dict)
    context: str | None = None
    who: str | None = None
    counts: tuple[float, ...] = ()
    trials: float | None = None
    line: int = 1

    @property
    def y(self) -> list[float | None] | Counted:
        """The value as `Campaign.tell` takes it: with its trials, where it is a share of them."""
        if self.value is None or self.trials is None:
            return [self.value]
        columns = self.value, self.variance, self.trials
        return Counted(*(np.array([each], dtype=np.float64) for each in columns))


class Doubts:
    """Finds readings that are unusual compared with those before, including others of the same table.

    Parameters
    ----------
    campaign : Campaign
    far_ahead : float
        A time is unusual if it is later than all others by more than this many spans of all times.
    far_out : float
        A value is unusual if it lies more than this many ranges outside of the range of all others.
    fewest : int
        The number of readings that a comparison needs.
    """

    def __init__(
        self, campaign: Campaign, far_ahead: float = 100, far_out: float = 3, fewest: int = 3
    ) -> None:
        self._far_ahead, self._far_out, self._fewest = far_ahead, far_out, fewest
        state = campaign.state
        rewards = state.readings
        self._clock, self._format_time = campaign.clock, campaign.format_time
        self._count = len(rewards)
        # If the noise is learned, the values alone have to do.
        self._noise_variance = campaign.recipe.noise_variance or 0.0
        self._times = _range([*rewards.t, *state.failed.t, *state.pending.t])
        self._values = _range(rewards.y)

    def about_time(self, t: float, ahead_of_now: float | None = None) -> str:
        """Return a sentence if a time is far ahead of the others, or of now; else an empty text."""
        ahead_of_now = self._far_ahead if ahead_of_now is None else ahead_of_now
        first, last = self._times or (t, t)
        far = t - last > self._far_ahead * (last - first) > 0
        if not far and not (self._clock and t > self._clock.now + ahead_of_now):
            return ""
        reference = self._format_time(last) if self._times else "now"
        return f"{self._format_time(t)} is far ahead of {reference}"

    def about_reading(
        self, name: str, t: float | None, value: float | None, variance: float | None = None
    ) -> list[str]:
        """Return what is unusual about a reading; if nothing is, compare later ones with it, too."""
        doubts = list[str]()
        if t is not None and (doubt := self.about_time(t, ahead_of_now=1)):
            doubts.append(f"{name} at {doubt}")
        value = None if value is None or math.isnan(value) else value
        if value is not None and self._count >= self._fewest:
            low, high = self._values
            # A rate from few trials is uncertain itself.
            noise = max(self._noise_variance, variance or 0.0) ** 0.5
            margin = self._far_out * max(high - low, 3 * noise)
            # Equal readings with a learned noise do not tell what is far.
            if margin > 0 and not low - margin <= value <= high + margin:
                doubts.append(
                    f"{name}: {value:g} is far from the readings so far, {low:g} to {high:g}"
                )
        if not doubts and t is not None:
            self._times = _range([*self._times, t])
        if not doubts and value is not None:
            self._values, self._count = _range([*self._values, value]), self._count + 1
        return doubts


def _range(numbers: Any) -> list[float]:
    """Return the lowest and the highest number, if there are any."""
    return [float(min(numbers)), float(max(numbers))] if len(numbers) else []


def confirm(doubts: Sequence[str], yes: bool) -> None:
    """Ask the person at the terminal about doubts; raise a `ValueError` unless all is right."""
    if yes or not doubts:
        return
    text = doubts[0] + (f" (and {len(doubts) - 1} more like it)" if len(doubts) > 1 else "")
    if not (sys.stdin.isatty() and typer.confirm(f"{escape(text)}; is that right?", err=True)):
        raise ValueError(f"{text}; nothing has changed: add --yes if it is right")


def as_column(number: float | None) -> list[float] | None:
    """Return a number, if there is one, as a column of length one."""
    return None if number is None else [number]


def parse_outcomes(texts: list[str] | None) -> dict[str, list[float]]:
    """Return the readings of outcomes in texts such as "noise_level=52"."""
    outcomes: dict[str, list[float]] = {}
    for text in texts or []:
        name, _, value = map(str.strip, text.partition("="))
        if name in outcomes:
            raise ValueError(f'--outcome {name} is given twice, the second time as "{text}"')
        try:
            outcomes[name] = [float(value)]
        except ValueError:
            raise ValueError(f'--outcome must be name=number, got "{text}"') from None
    return outcomes


# --- the commands tell, answer, correct and retract --------------------------------------------------


def tell(
    call: Change,
    campaign: Campaign,
    reading: Reading,
    path: Path | None,
    tables: Mapping[str, Any],
    *,
    yes: bool,
) -> list[str]:
    """Record a reading, or those of a table; return a line for each row that was refused.

    `tables` are fields of `FileOptions` for the table.

    Raises
    ------
    ValueError
        If something is wrong with the reading, with the whole table or with all of its rows.
    """
    errors: Errors | None = None if path is None else []
    readings, left_out = [reading], ""
    if path is not None:
        readings, left_out = read_table(path, campaign, errors, tables, yes=yes)
    rows = _check_readings(campaign, readings, errors, yes)
    new, starts = 0, range(0, len(rows), CHUNK)
    with ExitStack() as stack:
        chunks: Iterable[int] = starts
        if len(starts) > 1:
            from tvbandits.cli.terminal import progress_bars

            chunks = stack.enter_context(progress_bars()).track(starts, description="tell")
        for start in chunks:
            chunk = rows[start : start + CHUNK]
            chunk_errors: Errors | None = None if errors is None else []
            new += campaign.record([arguments for _, arguments in chunk], chunk_errors)
            if errors is not None:
                errors += [(chunk[number][0], error) for number, error in chunk_errors or ()]
    by_line = dict(sorted(errors or (), key=lambda each: each[0]))
    lines = [f"{path}, line {line}: {error}" for line, error in by_line.items()]
    total = len({line for line, _ in rows} - {*by_line})
    if lines and not total:
        raise ValueError(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""))
    refused = [{"line": line, "error": str(each)} for line, each in by_line.items()]
    values: dict[str, Any] = {"refused": refused} if refused else {}
    values |= {"left_out": left_out} if left_out else {}
    _print_recorded(call, campaign, total, new, values)
    for line in lines:
        print(f"tvbandits: {escape(line)}; this row is left out", file=sys.stderr)
    return lines


def answer(
    call: Change,
    campaign: Campaign,
    site: str,
    value: float,
    t: float | None,
    variance: float | None,
) -> None:
    """Record an answer; without a time it has the time that `Bandit.answer` gives it."""
    before, X = campaign.status.rows, campaign.resolve_points(site, t=t)
    if t is None:
        from tvbandits.bandit.querying import question_time

        state = campaign.state
        t = question_time(campaign.recipe, state, state.queries.latest)
    # An answer counts once for its place and time; after one that failed there may be another.
    failed = ", failed" * math.isnan(value)
    key = call.key or f"answer {campaign.names.name(X[0])} at {t!r}{failed}"
    campaign.answer(X, [value], t, as_column(variance), key=key)
    _print_recorded(call, campaign, 1, int(campaign.status.rows > before), noun="answer")


def _print_recorded(
    call: Change,
    campaign: Campaign,
    total: int,
    new: int,
    others: Mapping[str, Any] | None = None,
    noun: str = "reading",
) -> None:
    """Print how many readings of a call are in the campaign now, and how many of them are new."""
    status = campaign.status
    text = (
        f"{plural(new, f'new {noun}')}{f', {total - new} already recorded' if new < total else ''}"
    )
    text += f"; {plural(status.readings, 'reading')} in all, {status.pending} pending"
    values = {"received": total, "new": new, "readings": status.readings, **(others or {})}
    if "left_out" in values:
        text += f"; left out: {values['left_out']}"
    print_result(call.form, text, values)


def print_change(call: Call, campaign: Campaign, change: str, kind: str) -> None:
    """Print the old value of the latest reading that was corrected or retracted."""
    row = next(row for row in reversed(campaign.journal()) if row.kind == kind)
    ((t, value),) = np.asarray(row.body["result"], dtype=np.float64)
    name = campaign.names.name(np.asarray(row.arguments["X"][0]))
    count = campaign.status.readings
    text = f"{change}: {name} at {campaign.format_time(t)}, which was {value:g}"
    values = {change: name, "t": t, "was": value, "readings": count}
    print_result(call.form, f"{text}; {plural(count, 'reading')} in all", values)


def _check_readings(
    campaign: Campaign, readings: list[Reading], errors: Errors | None, yes: bool
) -> list[tuple[int, dict[str, Any]]]:
    """Return the line and the arguments for `Campaign.record` of each reading without an error.

    If nobody can be asked whether an unusual row of a table is right, it is an error.
    """
    names, usual, rows = campaign.names, Doubts(campaign), list[tuple[int, dict[str, Any]]]()
    doubts, first_lines = list[str](), dict[tuple[bytes, float], int]()
    is_table = errors is not None
    has_context, can_ask = bool(names.context_names), not is_table or sys.stdin.isatty()

    @cache
    def resolve(site: str, context: str | None, t: float | None) -> Array:
        return campaign.resolve_points(site, names.context(context), t)

    for reading in readings:
        with collect_errors(errors, reading.line):
            t, key = to_number(campaign.clock, parse_time(reading.at), "--at"), reading.key
            if is_table and t is None and key is None:
                raise ValueError("a row needs a time or a key, by which a repeated row counts once")
            site = str(reading.site)
            arguments: dict[str, Any] = {
                "y": reading.y,
                "t": t,
                "noise_variance": as_column(reading.variance) if reading.trials is None else None,
                "key": key,
                "who": reading.who,
                "outcomes": reading.outcomes,
            }
            if reading.counts:
                arguments["counts"] = [reading.counts]
            if key is not None:  # a repeated call is recognised by the place as it is written
                arguments |= {"X": [site], "context": names.context(reading.context)}
            try:
                X = resolve(site, reading.context, t if has_context else None)
            except ValueError:
                if key is None:
                    raise
                rows.append((reading.line, arguments))  # if it is known, its place does not matter
                continue
            name = names.name(X[0])
            unusual = usual.about_reading(name, t, reading.value, reading.variance)
            if unusual and not yes and not can_ask:
                raise ValueError(f"{'; '.join(unusual)}: add --yes if it is right")
            doubts += unusual
            if key is None:
                arguments["X"] = X
                play = X.tobytes(), math.nan if t is None else t
                if (first := first_lines.setdefault(play, reading.line)) != reading.line:
                    raise ValueError(
                        f"line {first} already has a reading of {name} at "
                        f"{campaign.format_time(play[1])}: remove one, or give each a key in a column "
                        "key if both should count"
                    )
            rows.append((reading.line, arguments))
    confirm(doubts, yes)
    return rows


# --- tables ---------------------------------------------------------------------------------------


def read_table(
    path: Path,
    campaign: Campaign,
    errors: Errors | None,
    tables: Mapping[str, Any] = MappingProxyType({}),
    *,
    yes: bool = False,
) -> tuple[list[Reading], str]:
    """Return the readings of a CSV, and in words what of it is left out.

    A table with columns site or coordinates, context, time, reward, variance, key, who may have
    successes and trials, or events and exposure, instead of a reward. Any other table of readings is
    one that `data info` understands. The error of a row goes to `errors` with its line.
    """
    import pandas as pd

    from tvbandits.datasets.tables.layout import (
        GAPS,
        FileOptions,
        find_columns,
        find_sentinels,
        is_gap,
        iso_times,
        read_sheet,
        sentinel_text,
    )

    options = FileOptions(**tables)
    with naming(path):
        cells = read_sheet(path, options).cells.astype(str)
        names, limits = campaign.names, [limit.name for limit in campaign.recipe.options.limits]
        header = [str(name).strip().lower() for name in cells.columns]
        header = [each if SYNONYMS.get(each, each) in header else SYNONYMS[each] for each in header]
        arms = isinstance(campaign.domain, Arms)  # whose coordinates nobody writes
        layout = find_columns(cells, options)
        has_place = "site" in header or {each.lower() for each in names.columns} <= {*header}
        is_own = has_place and bool({"reward", *sum(COUNTS, ())} & {*header})
        is_chosen = bool(layout.parameter or options.station or options.value)
        if (is_chosen or not is_own) and (layout.is_long or {*cells.columns} & {*names.sites}):
            return _foreign_readings(cells, layout, options, names, errors, yes=yes)
        if "time" not in header and layout.is_long and len(layout.time) == 1:
            header[[*cells.columns].index(layout.time[0])] = "time"
        count_columns = _check_header(header, names, limits, arms)
        if "time" in header:
            place = header.index("time")
            cells.isetitem(place, list(iso_times(cells.iloc[:, place], options.dates)))
        codes: dict[str, int] = {}
        if "reward" in header:
            place = header.index("reward")
            column = cells.iloc[:, place].str.strip()
            failed = is_gap(column, options) & ~column.str.casefold().isin(GAPS)
            cells.isetitem(place, list(column.mask(failed, "")))
            values = pd.to_numeric(column.mask(failed, ""), errors="coerce")
            codes = {} if yes else find_sentinels(values.to_frame(), options)
        readings = []
        for line, *texts in cells.itertuples(name=None):
            row = {name: str(text).strip() for name, text in zip(header, texts, strict=True)}
            with collect_errors(errors, line):
                reading = _parse_row(row, names, limits, count_columns, line)
                if reading.value is not None and f"{reading.value:.10g}" in codes:
                    raise ValueError(sentinel_text(f"{reading.value:.10g}"))
                readings.append(reading)
        rates = _with_rates(readings, COUNTS[count_columns]) if count_columns else readings
        return rates, ""


def _foreign_readings(
    cells: pd.DataFrame,
    layout: Layout,
    options: FileOptions,
    names: Names,
    errors: Errors | None,
    *,
    yes: bool,
) -> tuple[list[Reading], str]:
    """Return the readings of a table of others, means where there are several of a station and time.

    Stations and columns that are no site, and gaps, are left out.
    """
    from tvbandits.datasets.tables.layout import find_sentinels, sentinel_text, tidy
    from tvbandits.datasets.tables.readings import few

    left_out = []
    if not layout.is_long:
        keep = [name in layout.time or name in names.sites for name in cells.columns]
        if others := [name for name, kept in zip(cells.columns, keep, strict=True) if not kept]:
            left_out.append(f"columns that are no site ({few(others)})")
        cells = cells.loc[:, keep]
    rows = tidy(cells, layout, options)
    known = rows["station"].isin(names.sites)
    if not known.any():
        raise ValueError(
            f"no station is a site: the table has {few(rows['station'])}, the campaign "
            f"{few(names.sites)}; --station names another column"
        )
    if not known.all():
        left_out.append(f"stations that are no site ({few(rows['station'][~known])})")
    gap = rows["value"].isna() & known
    if gap.any():
        left_out.append(f"{plural(int(gap.sum()), 'gap')}")
    rows = rows[known & ~gap]
    codes = {} if yes else find_sentinels(rows[["value"]], options)
    is_code = rows["value"].isin([float(code) for code in codes])
    for line, row in rows[is_code].iterrows():
        with collect_errors(errors, int(str(line))):
            raise ValueError(sentinel_text(f"{row['value']:.10g} of {row['station']}"))
    rows = rows[~is_code].rename_axis(index="line").reset_index()
    grouped = rows.groupby(["time", "station"], sort=False, as_index=False)
    means = grouped.agg({"value": "mean", "line": "first"})
    if len(means) < len(rows):
        left_out.append(f"{len(rows) - len(means)} rows, averaged with others of the same time")
    readings = [
        Reading(site=site, at=str(time), value=float(value), line=int(line))
        for time, site, value, line in means.itertuples(index=False)
    ]
    return readings, ", ".join(left_out)


def _check_header(
    header: list[str], names: Names, limits: list[str], arms: bool
) -> tuple[str, ...]:
    """Return the columns that a rate is computed from, if there are any.

    Raises
    ------
    ValueError
        If a column is there twice, or missing, or has almost the name of an outcome.
    """
    if twice := [name for name in header if name and header.count(name) > 1]:
        raise ValueError(f'there are two columns "{twice[0]}"')
    columns = set(header)
    pairs = [pair for pair in COUNTS if set(pair) <= columns]
    counts = pairs[0] if pairs else ()
    if pairs and (others := {"reward", "variance", *sum(pairs[1:], ())} & columns):
        raise ValueError(f"{' and '.join(counts)} replace {min(others)}: split the table in two")
    has_place = "site" in columns or {name.lower() for name in names.columns} <= columns
    if not (counts or "reward" in columns) or not has_place:
        places = "site" if arms else f"site (or {', '.join(names.columns)})"
        raise ValueError(
            f"there must be columns {places}, and reward (or successes and trials, or events and "
            f"exposure); there are: {', '.join(header)}"
        )
    expected = {"site", "time", "reward", "variance", "key", "who", *counts}
    expected |= {name.lower() for name in (*names.columns, *names.context_names)}
    for column in sorted(columns - expected):
        near = difflib.get_close_matches(column, limits, n=1)
        if near and column != near[0].lower():
            raise ValueError(f'there is no outcome {column!r}: did you mean "{near[0]}"?')
    return counts


def _parse_row(
    cells: Mapping[str, str], names: Names, limits: list[str], columns: tuple[str, ...], line: int
) -> Reading:
    """Return the reading of a row, of which `columns` have counts."""

    def number(name: str) -> float:
        return float(cells[name] or "nan")

    context = {name: cells.get(name.lower()) for name in names.context_names}
    context_texts = [f"{name}={cell}" for name, cell in context.items() if cell and "site" in cells]
    counts = tuple(map(number, columns))
    if counts:
        COUNTS[columns](*counts)  # raises an error if they are no counts
    site = cells.get("site")
    if site is None:
        site = names.place_text([cells[each.lower()] for each in names.columns])
    return Reading(
        site=site,
        value=None if counts else number("reward"),
        at=cells.get("time") or None,
        variance=number("variance") if cells.get("variance") else None,
        key=cells.get("key") or None,
        who=cells.get("who") or None,
        counts=counts,
        outcomes={name: [number(name.lower())] for name in limits if name.lower() in cells},
        context=", ".join(context_texts) or None,
        line=line,
    )


def _with_rates(readings: list[Reading], compute: Callable[..., Counted]) -> list[Reading]:
    """Return the readings with rates and variances, computed from all counts of the same time."""
    by_time: dict[str | None, list[int]] = {}
    for number, reading in enumerate(readings):
        by_time.setdefault(reading.at, []).append(number)
    result = readings.copy()
    for rows in by_time.values():
        rates = compute(*np.transpose([readings[row].counts for row in rows]))
        trials = [None] * len(rows) if rates.trials is None else rates.trials.tolist()
        columns = rates.values.tolist(), rates.variance.tolist(), trials
        for row, value, variance, of in zip(rows, *columns, strict=True):
            result[row] = replace(result[row], value=value, variance=variance, trials=of)
    return result

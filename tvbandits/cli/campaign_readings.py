"""The readings that people bring to a campaign, one by one or as a table: parsed, doubted and recorded.

Each row of a table stands for itself: an error in one is reported with its line, and the others are
recorded.
"""

from __future__ import annotations

import difflib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import typer

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.extremes import OutlierWarning
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.names import Names
from tvbandits.campaign.shared import Errors, collect_errors
from tvbandits.campaign.store.errors import CampaignError, ConflictError, DoubtfulReadingError
from tvbandits.cli.options import Call, Change
from tvbandits.cli.output import WORDS, escape, plural, print_result
from tvbandits.clock import Clock, parse_time, to_number
from tvbandits.counts import Counted, count, rate
from tvbandits.domains.candidates import as_finite
from tvbandits.domains.space import Arms
from tvbandits.io import naming
from tvbandits.validation import Array

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.campaign.doubts import Doubt
    from tvbandits.datasets.tables.layout import FileOptions, Layout

# What becomes of an unusual reading: a person is asked, or it is recorded, or its row is left out.
Doubtful = Literal["ask", "accept", "skip"]

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


def confirm(doubts: Sequence[Doubt | str], yes: bool) -> None:
    """Ask the person at the terminal about doubts; raise a `ValueError` unless all is right."""
    if yes or not doubts:
        return
    text = str(doubts[0]) + (f" (and {len(doubts) - 1} more like it)" if len(doubts) > 1 else "")
    if not (sys.stdin.isatty() and typer.confirm(f"{escape(text)}; is that right?", err=True)):
        raise ValueError(f"{text}; nothing has changed: add --yes if it is right")


def confirm_time(campaign: Campaign, t: float, yes: bool) -> None:
    """Ask about a time if it is unusual."""
    doubt = campaign.doubts().about_time(t)
    confirm([doubt] if doubt else [], yes)


def make_change(change: Callable[..., object], yes: bool) -> None:
    """Call a method of a campaign; ask about a reading or an answer that it refuses as unusual."""
    try:
        change(sure=yes)
    except DoubtfulReadingError as error:
        confirm([error.reason], yes)
        change(sure=True)


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
    doubtful: Doubtful,
) -> list[str]:
    """Record a reading, or those of a table; return a line for each that was refused.

    `tables` are fields of `FileOptions` for the table.

    Raises
    ------
    ValueError
        If something is wrong with the reading, with the whole table or with all of its rows.
    """
    errors: Errors | None = None if path is None else []
    readings, omissions = [reading], ""
    if path is not None:
        readings, omissions = read_table(path, campaign, errors, tables, yes=doubtful == "accept")
    rows = _check_readings(campaign, readings, errors, doubtful)
    refusals = len(errors or ())
    new = _record(campaign, rows, errors)
    total = len(rows) - (len(errors or ()) - refusals)
    texts = [(line, _text(error)) for line, error in errors or ()]
    by_line = sorted(dict.fromkeys(texts), key=lambda each: each[0])
    if by_line and not total:
        line, error = by_line[0]
        more = f" (and {len(by_line) - 1} more)" if len(by_line) > 1 else ""
        raise ValueError(f"{path}, line {line}: {error}{more}")
    lines_of: dict[str, list[int]] = {}
    for line, error in by_line:
        lines_of.setdefault(error, []).append(line)
    refusals_text = [f"{path}, {_lines_text(each)}: {error}" for error, each in lines_of.items()]
    refused = [{"line": line, "error": error} for line, error in by_line]
    values: dict[str, Any] = {"refused": refused} if refused else {}
    values |= {"left_out": omissions} if omissions else {}
    is_failed = path is None and reading.value is not None and math.isnan(reading.value)
    _print_recorded(
        call, campaign, total, new, values, noun="failed reading" if is_failed else "reading"
    )
    for text in refusals_text:
        print(f"tvbandits: {escape(text)}; left out", file=sys.stderr)
    return refusals_text


def _lines_text(lines: Sequence[int], most: int = 5) -> str:
    """Return "line 2", or "line 2, 3, 5, 8, 9 and 40 more"."""
    shown = ", ".join(map(str, lines[:most]))
    more = f" and {len(lines) - most} more" if len(lines) > most else ""
    return f"line {shown}{more}"


def _text(error: ValueError) -> str:
    return error.message(WORDS) if isinstance(error, CampaignError) else str(error)


def read_history(
    bandit: Bandit,
    clock: Clock | None,
    about: Mapping[str, str],
    path: Path,
    tables: Mapping[str, Any],
    *,
    doubtful: Doubtful,
) -> pd.DataFrame:
    """Return the readings of a table as a history of the bandit's candidates, a row for each time.

    The table is read and checked as by `campaign tell --csv`, in a campaign that nobody sees: the expert
    is not asked about the past.

    Raises
    ------
    ValueError
        If the domain is no list of places, or something is wrong with the table or with one of its rows.
    """
    import pandas as pd

    # Without a noise of the policy's, a variance is one that the table states.
    recipe = replace(bandit.recipe, asking=None, noise_variance=None)
    places = as_finite(recipe.domain, "--history")
    with (
        TemporaryDirectory() as folder,
        Campaign.create(
            Path(folder) / "history.db", Bandit(recipe), clock=clock, about=about
        ) as draft,
    ):
        errors: Errors = []
        readings, omissions = read_table(path, draft, errors, tables, yes=doubtful == "accept")
        rows = _check_readings(draft, readings, errors, doubtful)
        if not errors:
            _record(draft, rows, errors)
        rewards = draft.state.readings
    if errors:
        line, error = min(errors, key=lambda each: each[0])
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ValueError(f"{path}, line {line}: {_text(error)}{more}; nothing has changed")
    if len(rewards) == 0:
        raise ValueError(f"{path} has no reading of a site")
    if np.isfinite(rewards.variance).any() or rewards.trials.any():
        raise ValueError(
            f"{path}: readings of a history have no variances and no counts: leave out --history, and "
            "import the table by `campaign tell --csv`"
        )
    table = pd.DataFrame(
        {"t": rewards.t, "place": places.index(rewards.X), "y": rewards.y}
    ).pivot_table(index="t", columns="place", values="y")
    left_out = f"; left out: {omissions}" if omissions else ""
    times = plural(len(table), "time")
    print(escape(f"{path}: {plural(len(rewards), 'reading')} of {times} as a history{left_out}"))
    return table.reindex(columns=range(len(places.X)))


def _record(
    campaign: Campaign, rows: list[tuple[int, dict[str, Any]]], errors: Errors | None
) -> int:
    """Record readings by line, many in one transaction; return how many of them are new."""
    new, starts = 0, range(0, len(rows), CHUNK)
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", OutlierWarning)  # a person was asked, or has said yes
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
    return new


def answer(
    call: Change,
    campaign: Campaign,
    site: str,
    value: float,
    t: float | None,
    variance: float | None,
    *,
    yes: bool,
) -> None:
    """Record an answer, once for its place and time unless it has a key."""
    before, X = campaign.status.rows, campaign.resolve_points(site, t=t)
    noise = as_column(variance)
    try:
        make_change(partial(campaign.answer, X, [value], t, noise, key=call.key), yes)
    except ConflictError as error:
        if not error.same:
            raise
    _print_recorded(call, campaign, 1, int(campaign.status.rows > before), noun="answer")


def correct_answer(
    call: Change,
    campaign: Campaign,
    X: Array,
    value: float,
    t: float | None,
    variance: float | None,
    *,
    yes: bool,
) -> None:
    """Replace the answer about a place."""
    noise = as_column(variance)
    make_change(partial(campaign.correct_answers, X, [value], t, noise, key=call.key), yes)
    print_change(call, campaign, "corrected", "correct_answers", value)


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


def print_change(
    call: Call,
    campaign: Campaign,
    change: str,
    kind: str,
    value: float | None = None,
    t: float | None = None,
) -> None:
    """Print the old value of the latest reading that was changed, and its new value and time, if any."""
    row = next(row for row in reversed(campaign.journal()) if row.kind == kind)
    ((old_time, old_value),) = np.asarray(row.body["result"], dtype=np.float64)
    name = campaign.names.name(np.asarray(row.arguments["X"][0]))
    noun = "answer" if kind == "correct_answers" else "reading"
    count = campaign.status.answers if noun == "answer" else campaign.status.readings
    text = f"{change}: {name} at {campaign.format_time(old_time)}, which was {old_value:g}"
    values = {change: name, "t": old_time, "was": old_value, f"{noun}s": count}
    if value is not None:
        text += f" and is {value:g} now"
        values["is"] = value
    if t is not None:
        text += f", its time now {campaign.format_time(t)}"
        values["to"] = t
    print_result(call.form, f"{text}; {plural(count, noun)} in all", values)


def _check_readings(
    campaign: Campaign, readings: list[Reading], errors: Errors | None, doubtful: Doubtful
) -> list[tuple[int, dict[str, Any]]]:
    """Return the line and the arguments for `Campaign.record` of each reading without an error.

    If nobody can be asked whether an unusual row of a table is right, it is an error.
    """
    values = [] if errors is None else [each.value for each in readings if each.value is not None]
    table = [value for value in values if math.isfinite(value)]
    usual, rows = campaign.doubts(table), list[tuple[int, dict[str, Any]]]()
    doubts: list[Doubt] = []
    checks = _RowChecks(campaign, is_table=errors is not None)
    can_ask = errors is None or (doubtful == "ask" and sys.stdin.isatty())
    for reading in readings:
        with collect_errors(errors, reading.line):
            t, arguments = checks.arguments(reading)
            place = checks.place(reading, t)
            if place is None:
                rows.append((reading.line, arguments))
                continue
            X, name = place
            if doubtful != "accept" and (
                unusual := usual.about_reading(name, t, reading.value, reading.variance, X)
            ):
                if not can_ask:
                    raise ValueError(f"{'; '.join(map(str, unusual))}: add --yes if it is right")
                doubts += unusual
            if reading.key is None:
                arguments["X"] = X
                checks.once(reading.line, X, name, t)
            rows.append((reading.line, arguments))
    confirm(doubts, doubtful == "accept")
    return rows


class _RowChecks:
    """Checks time, place and repetition of the rows of one command.

    Parameters
    ----------
    campaign : Campaign
    is_table : bool
        Whether the rows are those of a table, each of which needs a time or a key.
    """

    def __init__(self, campaign: Campaign, *, is_table: bool) -> None:
        self._campaign, self._names, self._is_table = campaign, campaign.names, is_table
        self._has_context = bool(self._names.context_names)
        self._first_lines = dict[tuple[bytes, float], int]()
        # Many rows share their place or their time.
        self._resolve = cache(self._resolve_place)
        name = "time" if is_table else "--at"
        self._time = cache(lambda at: to_number(campaign.clock, parse_time(at), name))

    def arguments(self, reading: Reading) -> tuple[float | None, dict[str, Any]]:
        """Return the time of a reading, and its arguments for `Campaign.record`, of which X may lack."""
        t, key = self._time(reading.at), reading.key
        if self._is_table and t is None and key is None:
            raise ValueError("a row needs a time or a key, by which a repeated row counts once")
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
            context = self._names.context(reading.context)
            arguments |= {"X": [str(reading.site)], "context": context}
        return t, arguments

    def place(self, reading: Reading, t: float | None) -> tuple[Array, str] | None:
        """Return the point of a reading and its name; None for an unknown place with a key.

        If the key is that of an earlier call, its place does not matter.
        """
        try:
            return self._resolve(
                str(reading.site), reading.context, t if self._has_context else None
            )
        except ValueError:
            if reading.key is None:
                raise
            return None

    def _resolve_place(self, site: str, context: str | None, t: float | None) -> tuple[Array, str]:
        X = self._campaign.resolve_points(site, self._names.context(context), t)
        return X, self._names.name(X[0])

    def once(self, line: int, X: Array, name: str, t: float | None) -> None:
        """Raise a `ValueError` if another line has a reading of this place and time."""
        play = X.tobytes(), math.nan if t is None else t
        if (first := self._first_lines.setdefault(play, line)) != line:
            raise ValueError(
                f"line {first} already has a reading of {name} at "
                f"{self._campaign.format_time(play[1])}: remove one, or give each a key in a column "
                "key if both should count"
            )


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
    from tvbandits.datasets.tables.layout import FileOptions, find_columns, read_sheet

    options = FileOptions(**tables)
    with naming(path):
        cells = read_sheet(path, options, may_be_empty=True).cells.astype(str)
        layout, header = find_columns(cells, options), _plain_header(cells)
        names = campaign.names
        has_place = "site" in header or {each.lower() for each in names.columns} <= {*header}
        is_own = has_place and bool({"reward", *sum(COUNTS, ())} & {*header})
        if cells.empty and not is_own:
            raise ValueError("the table has a header and no rows")
        has_choice = bool(layout.parameter or options.station or options.value)
        has_sites = layout.is_long or bool({*cells.columns} & {*names.sites})
        if has_sites and (has_choice or not is_own):
            return _foreign_readings(cells, layout, options, names, errors, yes=yes)
        if options.time or len(layout.time) > 1 or (layout.is_long and "time" not in header):
            cells, header = _with_time(cells, header, layout, options)
        readings = _own_readings(cells.set_axis(header, axis=1), campaign, options, errors, yes)
        # A row of counts without trials or exposure is no play that failed: there was none.
        played = [each for each in readings if not (each.counts and each.counts[1] == 0)]
        unplayed = len(readings) - len(played)
        return played, f"{plural(unplayed, 'row')} without trials" if unplayed else ""


def _plain_header(cells: pd.DataFrame) -> list[str]:
    """Return the names of columns in small letters, with ours for the usual ones of others."""
    header = [str(name).strip().lower() for name in cells.columns]
    return [each if SYNONYMS.get(each, each) in header else SYNONYMS[each] for each in header]


def _with_time(
    cells: pd.DataFrame, header: list[str], layout: Layout, options: FileOptions
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with the column `time` that the layout says, in the place of its own columns."""
    from tvbandits.datasets.tables.layout import times_of

    places = [
        i for i, name in enumerate(cells.columns) if name in layout.time or header[i] == "time"
    ]
    rest = cells.drop(columns=[cells.columns[i] for i in places])
    times = times_of(cells, layout, options)
    return rest.assign(time=times), [h for i, h in enumerate(header) if i not in places] + ["time"]


def _own_readings(
    cells: pd.DataFrame, campaign: Campaign, options: FileOptions, errors: Errors | None, yes: bool
) -> list[Reading]:
    """Return the readings of a table with columns site, time and reward, or their counts."""
    import pandas as pd

    from tvbandits.datasets.tables.layout import GAPS, is_gap, iso_times, stations_used
    from tvbandits.datasets.tables.sentinels import find_sentinels, sentinel_text

    names, limits = campaign.names, [limit.name for limit in campaign.recipe.options.limits]
    # Nobody writes the coordinates of arms.
    header, arms = [*cells.columns], isinstance(campaign.domain, Arms)
    count_columns = _check_header(header, names, limits, arms)
    if "site" in header:
        cells = cells[stations_used(cells["site"].str.strip(), options)]
    if "time" in header:
        cells["time"] = iso_times(cells["time"], options.dates)
    codes: dict[str, int] = {}
    if "reward" in header:
        column = cells["reward"].str.strip()
        failed = is_gap(column, options) & ~column.str.casefold().isin(GAPS)
        cells["reward"] = column.mask(failed, "")
        values = pd.to_numeric(cells["reward"], errors="coerce")
        codes = {} if yes else find_sentinels(values.to_frame(), options)
    readings = []
    for line, *texts in cells.itertuples(name=None):
        row = {name: str(text).strip() for name, text in zip(header, texts, strict=True)}
        with collect_errors(errors, line):
            reading = _parse_row(row, names, limits, count_columns, line)
            if reading.value is not None and codes and f"{reading.value:.10g}" in codes:
                raise ValueError(sentinel_text(f"{reading.value:.10g}"))
            readings.append(reading)
    return _with_rates(readings, COUNTS[count_columns]) if count_columns else readings


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
    from tvbandits.datasets.tables.layout import tidy
    from tvbandits.datasets.tables.sentinels import find_sentinels, sentinel_text

    cells, omissions = _columns_of_sites(cells, layout, options, names)
    rows, more = _rows_of_sites(tidy(cells, layout, options), names)
    omissions += more
    codes = {} if yes else find_sentinels(rows[["value"]], options)
    is_code = rows["value"].isin([float(code) for code in codes])
    for line, row in rows[is_code].iterrows():
        with collect_errors(errors, int(str(line))):
            raise ValueError(sentinel_text(f"{row['value']:.10g} of {row['station']}"))
    rows = rows[~is_code].rename_axis(index="line").reset_index()
    grouped = rows.groupby(["time", "station"], sort=False, as_index=False)
    means = grouped.agg({"value": "mean", "line": "first"})
    if len(means) < len(rows):
        omissions.append(f"{len(rows) - len(means)} rows, averaged with others of the same time")
    readings = [
        Reading(site=site, at=str(time), value=float(value), line=int(line))
        for time, site, value, line in means.itertuples(index=False)
    ]
    return readings, ", ".join(omissions)


def _columns_of_sites(
    cells: pd.DataFrame, layout: Layout, options: FileOptions, names: Names
) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns of times and of sites in a wide table, and in words what else it has.

    Columns that the options leave out stay, for `tidy` to find them.
    """
    from tvbandits.datasets.tables.headings import as_id
    from tvbandits.datasets.tables.readings import few

    if layout.is_long:
        return cells, []
    used = {*layout.time, *names.sites, *options.without}
    others = [each for each in cells.columns if each not in used and as_id(each) not in used]
    text = [f"columns that are no site ({few(others)})"] if others else []
    return cells.drop(columns=others), text


def _rows_of_sites(rows: pd.DataFrame, names: Names) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of sites that have a value, and in words which others there are.

    Raises
    ------
    ValueError
        If no station of the table is a site.
    """
    from tvbandits.datasets.tables.readings import few

    omissions, is_site = list[str](), rows["station"].isin(names.sites)
    if not is_site.any():
        raise ValueError(
            f"no station is a site: the table has {few(rows['station'])}, the campaign "
            f"{few(names.sites)}; --station names another column"
        )
    if not is_site.all():
        omissions.append(f"stations that are no site ({few(rows['station'][~is_site])})")
    gap = rows["value"].isna() & is_site
    if gap.any():
        omissions.append(plural(int(gap.sum()), "gap"))
    return rows[is_site & ~gap], omissions


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
        try:
            return float(cells[name] or "nan")
        except ValueError:
            raise ValueError(f'{name} must be a number, got "{cells[name]}"') from None

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

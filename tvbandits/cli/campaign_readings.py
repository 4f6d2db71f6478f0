"""Commands that parse the readings of a user, check them and record them in a campaign.

Each row of a table stands for itself: an error in one is reported with its line, and the others are
recorded.
"""

from __future__ import annotations

import math
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import typer

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.extremes import OutlierWarning
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.shared import Errors, Withdrawn, collect_errors
from tvbandits.campaign.store.errors import CampaignError, ConflictError, DoubtfulReadingError
from tvbandits.cli.campaign_tables import Reading, TableReadings, read_table
from tvbandits.cli.options import Call, Change
from tvbandits.cli.output import REMEDIES, escape, plural, print_result
from tvbandits.cli.waiting import bar_if_slow
from tvbandits.clock import Clock, parse_time, to_number
from tvbandits.counts import Counted
from tvbandits.datasets.tables.readings import quote_few
from tvbandits.domains.candidates import as_finite
from tvbandits.text import first_few
from tvbandits.validation import Array

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.campaign.doubts import Doubt

# What becomes of an unusual reading: a person is asked, or it is recorded, or its row is left out.
Doubtful = Literal["ask", "accept", "skip"]

# Readings that are recorded in one transaction.
CHUNK = 5000

# Readings of a kind that a summary names.
MOST_LISTED = 3


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
    table = TableReadings([reading])
    if path is not None:
        with bar_if_slow(f"read {path.name}"):
            table = read_table(
                path, campaign.names, campaign.recipe, errors, tables, yes=doubtful == "accept"
            )
    rows = _check_readings(campaign, table.readings, errors, doubtful)
    refusals, withdrawn = len(errors or ()), Withdrawn()
    pending = campaign.status.pending
    new = _record(campaign, rows, errors, withdrawn)
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
    refusals_text = [
        f"{path}, line {first_few([*map(str, each)])}: {error}" for error, each in lines_of.items()
    ]
    refused = [{"line": line, "error": error} for line, error in by_line]
    values: dict[str, Any] = {"refused": refused} if refused else {}
    values |= table.notes
    if withdrawn:
        values["withdrawn"] = [{"line": line, "reading": text} for line, text in withdrawn]
    if codes := _recorded_codes(campaign, tables):
        values["recorded_codes"] = codes
    is_failed = path is None and reading.value is not None and math.isnan(reading.value)
    _print_recorded(
        call, campaign, total, new, values, noun="failed reading" if is_failed else "reading"
    )
    is_unasked = new == 1 and not is_failed and campaign.status.pending == pending
    if path is None and reading.at is None and is_unasked:
        time = campaign.format_time(float(campaign.state.readings.t[-1]))
        note = f"{reading.site} was not pending, so this reading is for {time}"
        print(f"tvbandits: {escape(note)}: use --at for another time", file=sys.stderr)
    for text in refusals_text:
        print(f"tvbandits: {escape(text)}; left out", file=sys.stderr)
    if codes:
        print(f"tvbandits: {escape(_codes_text(campaign, codes, call.file))}", file=sys.stderr)
    return refusals_text


def _recorded_codes(campaign: Campaign, tables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the readings of the campaign that the options of a table call no readings."""
    if not tables.get("missing"):
        return []
    from tvbandits.datasets.tables.layout import FileOptions, missing_codes

    codes, readings = missing_codes(FileOptions(**tables)), campaign.state.readings
    return [
        {
            "site": campaign.names.name(readings.X[i]),
            "t": float(readings.t[i]),
            "reading": float(readings.y[i]),
        }
        for i in np.flatnonzero(np.isin(readings.y, codes))
    ]


def _codes_text(campaign: Campaign, codes: Sequence[Mapping[str, Any]], file: str) -> str:
    """Return which readings stand for none by --missing, and the command that withdraws the first."""
    first, texts = (
        codes[0],
        [
            f"{each['site']} at {campaign.format_time(each['t'])}: {each['reading']:g}"
            for each in codes
        ],
    )
    at = campaign.format_time(first["t"]) if campaign.clock is not None else f"{first['t']:.17g}"
    place = f"--site {shlex.quote(first['site'])} --at {shlex.quote(at)}"
    return (
        f"by --missing, {plural(len(codes), 'recorded reading')} would be none "
        f"({first_few(texts, MOST_LISTED)}); they stay until you withdraw them one by one: "
        f"tvbandits campaign retract "
        f"{shlex.quote(file)} {place}"
    )


def _text(error: ValueError) -> str:
    return error.message(REMEDIES) if isinstance(error, CampaignError) else str(error)


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

    # Without a noise of the policy's, a variance is one that the table states. Outliers are judged when
    # the bandit learns its history: time by time it would take as long as all times before.
    options = replace(bandit.recipe.options, robust=False)
    recipe = replace(bandit.recipe, query_config=None, noise_variance=None, options=options)
    places = as_finite(recipe.domain, "--history")
    with (
        TemporaryDirectory() as folder,
        Campaign.create(
            Path(folder) / "history.db", Bandit(recipe), clock=clock, about=about
        ) as draft,
    ):
        errors: Errors = []
        is_sure = doubtful == "accept"
        table = read_table(
            path, draft.names, draft.recipe, errors, tables, yes=is_sure, is_alone=False
        )
        rows = _check_readings(draft, table.readings, errors, doubtful)
        if not errors:
            _record(draft, rows, errors, [])
        rewards, name = draft.state.readings, draft.names.name
    _raise_first(path, errors)
    if len(rewards) == 0:
        raise ValueError(f"{path} has no reading of a site")
    if np.isfinite(rewards.variance).any() or rewards.trials.any():
        raise ValueError(
            f"{path}: a history cannot have variances or counts: leave out --history, and import the "
            "table by `campaign tell --csv`"
        )
    history = pd.DataFrame(
        {"t": rewards.t, "place": places.index(rewards.X), "y": rewards.y}
    ).pivot_table(index="t", columns="place", values="y")
    times = plural(len(history), "time")
    text = f"{path}: {plural(len(rewards), 'reading')} of {times} as a history"
    print(escape(text + _notes_text(table.notes)))
    history = history.reindex(columns=range(len(places.X)))
    index: Any = history.index if clock is None else clock.time(history.index.to_numpy())
    named = history.set_axis([name(x) for x in places.X], axis=1).set_axis(index)
    for note in _history_notes(named, tables):
        print(escape(f"note: {note}"))
    return history


def _history_notes(history: pd.DataFrame, tables: Mapping[str, Any]) -> list[str]:
    """Return what a person should know about a history, whose columns have the names of the sites."""
    from tvbandits.datasets.tables.layout import FileOptions
    from tvbandits.datasets.tables.rounds import doubts_about_stations
    from tvbandits.datasets.tables.sentinels import describe_isolated_values
    from tvbandits.datasets.tables.times import describe_doubtful_times

    empty = history.columns[history.isna().all()]
    notes = [f"no reading of {quote_few(empty)}"] if len(empty) else []
    notes += describe_doubtful_times(history.index) + doubts_about_stations(
        history.drop(columns=empty)
    )
    return notes + describe_isolated_values(history, FileOptions(**tables))


def _record(
    campaign: Campaign,
    rows: list[tuple[int, dict[str, Any]]],
    errors: Errors | None,
    withdrawn: Withdrawn,
) -> int:
    """Record readings by line, many in one transaction; return how many of them are new.

    What a table has of one time is told at once. If one row is refused there, each is told by itself.
    """
    new, starts = 0, range(0, len(rows), CHUNK)
    # An expert is asked after each reading.
    is_joined = campaign.recipe.query_config is None
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", OutlierWarning)  # a person was asked, or has said yes
        show_share = stack.enter_context(bar_if_slow("tell", is_shown=is_joined))
        for start in starts:
            if start:
                show_share(start / len(rows))
            chunk = rows[start : start + CHUNK]
            groups, rest = [*_by_time(chunk)] if is_joined else [], chunk
            if len(groups) < len(chunk) and groups:
                refused: Errors = []
                changed: Withdrawn = []
                joined = [_join([arguments for _, arguments in group]) for group in groups]
                new += campaign.record(joined, refused, changed)
                again = sorted({number for number, _ in (*refused, *changed)})
                rest = [row for number in again for row in groups[number]]
            chunk_errors: Errors | None = None if errors is None else []
            chunk_withdrawn: Withdrawn = []
            arguments = [arguments for _, arguments in rest]
            new += campaign.record(arguments, chunk_errors, chunk_withdrawn)
            withdrawn += [(rest[number][0], text) for number, text in chunk_withdrawn]
            if errors is not None:
                errors += [(rest[number][0], error) for number, error in chunk_errors or ()]
    return new


def _by_time(
    rows: Sequence[tuple[int, dict[str, Any]]],
) -> Iterable[list[tuple[int, dict[str, Any]]]]:
    """Return the rows that can be told at once: of one time and author, with the same columns."""
    groups: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
    for line, row in rows:
        columns = {name for name, value in row.items() if value is not None}
        alike = row["t"], row["who"], frozenset(columns), frozenset(row["outcomes"])
        # A key belongs to one call.
        groups.setdefault(alike if row["key"] is None else line, []).append((line, row))
    return groups.values()


def _join(readings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the arguments that tell several readings at once."""
    first = readings[0]
    if len(readings) == 1:
        return first

    def column(name: str) -> Any:
        parts = (each[name] for each in readings)
        return None if first[name] is None else [*chain.from_iterable(parts)]

    joined = {**first, "X": np.concatenate([each["X"] for each in readings])}
    joined["noise_variance"] = column("noise_variance")
    joined["outcomes"] = {
        name: [value for each in readings for value in each["outcomes"][name]]
        for name in first["outcomes"]
    }
    if "counts" in first:
        joined["counts"] = column("counts")
    if not isinstance(first["y"], Counted):
        return joined | {"y": column("y")}
    columns = ([getattr(each["y"], name) for each in readings] for name in _COUNTED)
    return joined | {"y": Counted(*map(np.concatenate, columns))}


# The columns of `Counted`.
_COUNTED = ("values", "variance", "trials")


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


def _raise_first(path: Path, errors: Errors) -> None:
    """Raise a `ValueError` for the error of the first line of a table, if there is any."""
    if errors:
        line, error = min(errors, key=lambda each: each[0])
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ValueError(f"{path}, line {line}: {_text(error)}{more}; nothing has changed")


def correct_table(
    call: Change, campaign: Campaign, path: Path, tables: Mapping[str, Any], *, yes: bool
) -> None:
    """Correct the readings that differ in a table, all or none, and print what has changed.

    `tables` are fields of `FileOptions` for the table.

    Raises
    ------
    ValueError
        If something is wrong with a row, or the campaign has no reading of its site and time.
    """
    errors: Errors = []
    with bar_if_slow(f"read {path.name}"):
        table = read_table(path, campaign.names, campaign.recipe, errors, tables, yes=yes)
    state, checks = campaign.state, _RowChecks(campaign, is_table=True)
    recorded = dict[tuple[bytes, float], list[float]]()
    for X, t, y in zip(state.readings.X, state.readings.t, state.readings.y, strict=True):
        recorded.setdefault((X.tobytes(), float(t)), []).append(float(y))
    changes = list[tuple[Reading, Array, float, float]]()
    for reading in table.readings:
        with collect_errors(errors, reading.line):
            changes += _find_change(campaign, checks, reading, recorded)
    _raise_first(path, errors)
    names = [campaign.names.name(X[0]) for _, X, *_ in changes]
    texts = [
        f"{name} at {campaign.format_time(t)}: {was:g} -> {reading.value:g}"
        for name, (reading, _, t, was) in zip(names, changes, strict=True)
    ]
    if changes:
        X = np.concatenate([each[1] for each in changes])
        y = [float(reading.value or 0.0) for reading, *_ in changes]
        times = [t for _, _, t, _ in changes]
        make_change(partial(campaign.correct, X, y, times, key=call.key), yes)
    same = len(table.readings) - len(changes)
    text = f"{plural(len(changes), 'reading')} corrected, {same} as recorded"
    corrected = [
        {"site": name, "t": t, "was": was, "is": reading.value}
        for name, (reading, _, t, was) in zip(names, changes, strict=True)
    ]
    values = {"corrected": corrected, "same": same, **table.notes}
    print_result(call.form, [text + _notes_text(table.notes), *texts], values)


def _find_change(
    campaign: Campaign,
    checks: _RowChecks,
    reading: Reading,
    recorded: Mapping[tuple[bytes, float], list[float]],
) -> list[tuple[Reading, Array, float, float]]:
    """Return a right reading with its place, its time and the recorded value, if these values differ.

    Raises
    ------
    ValueError
        If the row has no time or no value, another column than these, or there is no single reading.
    """
    others = [
        name
        for name in ("variance", "key", "counts", "outcomes")
        if getattr(reading, name) not in (None, (), {})
    ]
    if others:
        raise ValueError(
            f"a table of corrections has sites, times and rewards, and this row has {others[0]}: leave "
            "it out, or correct the reading by options"
        )
    t, _ = checks.arguments(reading)
    place = checks.place(reading, t)
    if t is None or place is None or reading.value is None or math.isnan(reading.value):
        raise ValueError(
            "a correction needs a time and a reward; `campaign retract` withdraws a reading"
        )
    X, name = place
    checks.once(reading.line, X, name, t)
    values = recorded.get((X[0].tobytes(), t), [])
    if len(values) != 1:
        count = f"{len(values)} readings" if values else "no reading"
        remedy = "correct them by options" if values else "`campaign tell --csv` records new ones"
        raise ValueError(f"there is {count} of {name} at {campaign.format_time(t)}: {remedy}")
    return [] if values[0] == reading.value else [(reading, X, t, values[0])]


def _print_recorded(
    call: Change,
    campaign: Campaign,
    total: int,
    new: int,
    others: Mapping[str, Any] | None = None,
    noun: str = "reading",
) -> None:
    """Print how many readings of a call are in the campaign now, and how many of them are new."""
    status, withdrawn = campaign.status, (others or {}).get("withdrawn", ())
    text, recorded = plural(new, f"new {noun}"), total - new - len(withdrawn)
    text += f", {recorded} already recorded" if recorded else ""
    if withdrawn:
        readings = first_few([each["reading"] for each in withdrawn], MOST_LISTED)
        text += (
            f", {len(withdrawn)} left out as withdrawn before ({readings}; "
            "to record one again, give it its own --key)"
        )
    text += f"; {plural(status.readings, 'reading')} in all, {status.pending} pending"
    values = {"received": total, "new": new, "readings": status.readings, **(others or {})}
    print_result(call.form, text + _notes_text(values), values)


def _notes_text(notes: Mapping[str, Any]) -> str:
    """Return what became of the other rows of a table as the end of a sentence."""
    averaged = f"; {notes['averaged']}" if "averaged" in notes else ""
    left_out = f"; left out: {notes['left_out']}" if "left_out" in notes else ""
    return averaged + left_out


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
        text += f", moved to {campaign.format_time(t)}"
        values["to"] = t
    print_result(call.form, f"{text}; {plural(count, noun)} in all", values)


def _check_readings(
    campaign: Campaign, readings: list[Reading], errors: Errors | None, doubtful: Doubtful
) -> list[tuple[int, dict[str, Any]]]:
    """Return the line and the arguments for `Campaign.record` of each reading without an error.

    If nobody can be asked whether an unusual row of a table is right, it is an error. What the journal
    has was believed before.
    """
    rows = list[tuple[Reading, dict[str, Any]]]()
    new = list[tuple[Reading, float | None, Array, str]]()
    checks = _RowChecks(campaign, is_table=errors is not None)
    for reading in readings:
        with collect_errors(errors, reading.line):
            t, arguments = checks.arguments(reading)
            place = checks.place(reading, t)
            if place is not None:
                X, name = place
                if reading.key is None:
                    arguments["X"] = X
                    checks.once(reading.line, X, name, t)
                new.append((reading, t, X, name))
            rows.append((reading, arguments))
    if doubtful == "accept":
        return [(reading.line, arguments) for reading, arguments in rows]
    values = [] if errors is None else [each.value for each in readings if each.value is not None]
    usual = campaign.doubts([value for value in values if math.isfinite(value)])
    can_ask = errors is None or (doubtful == "ask" and sys.stdin.isatty())
    doubts: list[Doubt] = []
    refused = set[tuple[int, str | None]]()  # a line may have a reading of each site
    for reading, t, X, name in _not_recorded(campaign, new):
        unusual = usual.about_reading(name, t, reading.value, reading.variance, X)
        if not unusual:
            continue
        doubts += unusual
        if not can_ask:
            refused.add((reading.line, reading.site))
            with collect_errors(errors, reading.line):
                raise ValueError(f"{'; '.join(map(str, unusual))}: add --yes if it is right")
    if can_ask:
        confirm(doubts, yes=False)
    return [
        (reading.line, arguments)
        for reading, arguments in rows
        if (reading.line, reading.site) not in refused
    ]


def _not_recorded(
    campaign: Campaign, readings: list[tuple[Reading, float | None, Array, str]]
) -> list[tuple[Reading, float | None, Array, str]]:
    """Return the readings, with their times and places, that the journal does not have."""
    keys = campaign.recorded_keys([read.key for read, *_ in readings if read.key is not None])
    readings = [each for each in readings if each[0].key not in keys]
    looked_up = [each for each in readings if each[0].key is None and each[1] is not None]
    if not looked_up:
        return readings
    columns = [[read.value, read.variance, t] for read, t, _, _ in looked_up]
    y, variance, t = np.array(columns, dtype=np.float64).T
    counts = [[*read.counts] for read, *_ in looked_up]
    X = np.concatenate([each[2] for each in looked_up])
    is_recorded = campaign.are_recorded(X, y, t, variance, counts if all(counts) else None)
    lines = {read.line for (read, *_), there in zip(looked_up, is_recorded, strict=True) if there}
    return [each for each in readings if each[0].line not in lines]


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
        clock = campaign.clock
        self._time = cache(lambda at: to_number(clock, parse_time(at), name, from_table=is_table))

    def arguments(self, reading: Reading) -> tuple[float | None, dict[str, Any]]:
        """Return the time of a reading, and its arguments for `Campaign.record`, of which X may lack."""
        t, key = self._time(reading.at), reading.key
        if self._is_table and t is None and key is None:
            raise ValueError("a row needs a time or a key, so that it counts once if repeated")
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
                f"{self._campaign.format_time(play[1])}: remove one of them, or, if both should count, "
                'add a column "key" with a different key for each'
            )

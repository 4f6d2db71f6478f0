"""Readings that people bring to a campaign, one by one or as a table: read, doubted, and recorded.

Of a table every row stands for itself: what is wrong with one is named with its line, and the others are
told.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import typer

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.names import Names
from tvbandits.campaign.shared import Refused, skip_refused
from tvbandits.campaign.times import number_of, time_in
from tvbandits.cli.options import escaped
from tvbandits.counts import Counted, count, rate
from tvbandits.domains.space import Arms
from tvbandits.io import naming
from tvbandits.validation import Array

# Readings that are told in one transaction.
PART = 5000

# From so many readings there is something to compare with.
FEWEST = 3

# A time further ahead than so many spans of all times, a value further out than so many ranges.
FAR_AHEAD, FAR_OUT = 100, 3

# Columns of a table by other names.
ALIKE = {"value": "reward", "reading": "reward", "t": "time"}

# What may stand in the place of a reward, and what makes one of it.
COUNTS: dict[tuple[str, ...], Callable[..., Counted]] = {
    ("successes", "trials"): rate,
    ("events", "exposure"): count,
}


@dataclass(frozen=True)
class Input:
    """A reading.

    Attributes
    ----------
    site, at : str or None
        Which, as people write it.
    value, variance : float or None
    key : str or None
    outcomes : mapping of str to list of float
        What else was read.
    context, who : str or None
    counts : tuple of float, optional
        Of what the value was made, if it was.
    line : int
        Of the table, whose first says what its columns are.
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
    line: int = 1


class Doubts:
    """What is odd beside what was told so far, which grows by what is brought."""

    def __init__(self, campaign: Campaign) -> None:
        state, readings = campaign.state, campaign.state.readings
        self.clock, self.when, self.count = campaign.clock, campaign.when, len(readings)
        self.noise_variance = campaign.recipe.noise_variance or 0.0  # learned: values alone must do
        self.times = _ends([*readings.t, *state.failed.t, *state.pending.t])
        self.values = _ends(readings.y)

    def of_time(self, t: float, of_now: float = FAR_AHEAD) -> str:
        """Say whether it is far from the times so far, or by more units than that ahead of now."""
        first, last = self.times or (t, t)
        far = t - last > FAR_AHEAD * (last - first) > 0
        if not far and not (self.clock and t > self.clock.now + of_now):
            return ""
        return f"{self.when(t)} is far ahead of {self.when(last) if self.times else 'now'}"

    def of_reading(
        self, name: str, t: float | None, value: float | None, variance: float | None = None
    ) -> list[str]:
        """Say what is odd about it; if nothing is, it is counted among the usual then."""
        found = list[str]()
        if t is not None and (odd := self.of_time(t, of_now=1)):
            found.append(f"{name} at {odd}")
        value = None if value is None or math.isnan(value) else value
        if value is not None and self.count >= FEWEST:
            low, high = self.values
            # A share of few visits is uncertain by itself.
            noise = max(self.noise_variance, variance or 0.0) ** 0.5
            most = FAR_OUT * max(high - low, 3 * noise)
            # Of equal readings, where the noise is learned, nobody knows yet what is far.
            if most > 0 and not low - most <= value <= high + most:
                found.append(f"{name}: {value:g} is far from the {low:g} to {high:g} told so far")
        if not found and t is not None:
            self.times = _ends([*self.times, t])
        if not found and value is not None:
            self.values, self.count = _ends([*self.values, value]), self.count + 1
        return found


def _ends(numbers: Any) -> list[float]:
    """Return the lowest and the highest."""
    return [float(min(numbers)), float(max(numbers))] if len(numbers) else []


def check_sure(doubts: list[str], yes: bool, done: str = "told") -> None:
    """Raise a `ValueError` if there are doubts and no person says that it is right."""
    if yes or not any(doubts):
        return
    said = doubts[0] + (f" (and {len(doubts) - 1} more like it)" if len(doubts) > 1 else "")
    question = f"{escaped(said)}; is that right?"
    if not (sys.stdin.isatty() and typer.confirm(question, err=True)):
        raise ValueError(f"{said}; nothing is {done}: say --yes if it is right")


@dataclass(frozen=True)
class TellResult:
    """What came of readings.

    Attributes
    ----------
    count, new : int
        Readings that are on record, and how many of them were not before.
    wrong : dict of int to ValueError
        What is wrong with the rows of a table, by their lines.
    """

    count: int
    new: int
    wrong: dict[int, ValueError]


def bring(
    campaign: Campaign, one: Input, path: Path | None, decimal: str | None, *, yes: bool
) -> TellResult:
    """Tell a reading, or all of a table but the rows in which something is wrong.

    Raises
    ------
    ValueError
        If something is wrong with the reading, or with the table as a whole.
    """
    wrong: Refused = []
    readings = [one] if path is None else readings_of(path, campaign, wrong, decimal)
    checked = _check_readings(campaign, readings, wrong, path is not None, yes)
    new, parts = 0, range(0, len(checked), PART)
    with ExitStack() as stack:
        starts: Iterable[int] = parts
        if len(parts) > 1:  # on a terminal there is a bar
            from tvbandits.cli.terminal import bars

            starts = stack.enter_context(bars()).track(parts, description="tell")
        for start in starts:
            part = checked[start : start + PART]
            refused: Refused | None = None if path is None else []
            new += campaign.record([said for _, said in part], refused)
            wrong += [(part[number][0], error) for number, error in refused or ()]
    by_line = dict(sorted(wrong, key=lambda each: each[0]))
    return TellResult(len({line for line, _ in checked} - {*by_line}), new, by_line)


def _check_readings(
    campaign: Campaign, readings: list[Input], wrong: Refused, is_table: bool, yes: bool
) -> list[tuple[int, dict[str, Any]]]:
    """Return lines and what `Campaign.record` takes, without those in which something is wrong.

    Where nobody can be asked whether what is odd in a table is right, it counts as wrong.
    """
    names, usual, found = campaign.names, Doubts(campaign), list[tuple[int, dict[str, Any]]]()
    doubts, first = list[str](), dict[tuple[bytes, float], int]()
    in_context, can_ask = bool(names.context_names), not is_table or sys.stdin.isatty()

    @cache
    def placed(site: str, context: str | None, t: float | None) -> Array:
        return campaign.placed(site, names.context(context), t)

    for reading in readings:
        with skip_refused(wrong, reading.line, is_table):
            t, key = number_of(campaign.clock, time_in(reading.at), "--at"), reading.key
            if is_table and t is None and key is None:
                raise ValueError("there must be a time, or a key: brought again, it counts once")
            site = str(reading.site)
            said: dict[str, Any] = {"y": [reading.value], "t": t}
            said["noise_variance"] = several(reading.variance)
            said |= {"key": key, "who": reading.who, "outcomes": reading.outcomes}
            said |= {"counts": [reading.counts]} if reading.counts else {}
            if key is not None:  # by what was written it is known again
                said |= {"X": [site], "context": names.context(reading.context)}
            try:
                X = placed(site, reading.context, t if in_context else None)
            except ValueError:
                if key is None:
                    raise
                found.append((reading.line, said))  # on record, it needs no place any more
                continue
            name = names.name(X[0])
            odd = usual.of_reading(name, t, reading.value, reading.variance)
            if odd and not yes and not can_ask:
                raise ValueError(f"{'; '.join(odd)}: say --yes if it is right")
            doubts += odd
            if key is None:
                said["X"] = X
                play = X.tobytes(), math.nan if t is None else t
                if first.setdefault(play, reading.line) != reading.line:
                    raise ValueError(
                        f"{name} at {campaign.when(t)} stands in line {first[play]} already: give "
                        "each a key in a column key if both are to count, or leave one out"
                    )
            found.append((reading.line, said))
    check_sure(doubts, yes)
    return found


def several(number: float | None) -> list[float] | None:
    """Return a number as a column of one, where there is one."""
    return None if number is None else [number]


# --- tables ---------------------------------------------------------------------------------------


def readings_of(
    path: Path, campaign: Campaign, wrong: Refused, decimal: str | None = None
) -> list[Input]:
    """Return the readings of a CSV: site or coordinates, context, time, reward, variance, key, who.

    Rows that cannot be read are put down in `wrong` by their lines. In the place of a reward may stand
    successes and trials, or events and exposure.
    """
    from tvbandits.datasets.tables.spreadsheets import (
        read_spreadsheet,  # takes pandas: not for a status
    )

    with naming(path):
        # Names as they stand there: of two that are the same pandas makes different ones.
        as_texts = {"dtype": str, "keep_default_na": False, "skip_blank_lines": False}
        frame = read_spreadsheet(path, decimal, header=None, **as_texts)
        limits = [limit.name for limit in campaign.recipe.options.limits]
        heading = [str(name).strip().lower() for name in frame.iloc[0]]
        heading = [each if ALIKE.get(each, each) in heading else ALIKE[each] for each in heading]
        arms = isinstance(campaign.domain, Arms)  # whose coordinates nobody writes
        counted = _check_heading(heading, campaign.names, limits, arms)
        readings = []
        for row, *said in frame[1:].itertuples(name=None):
            cells = {name: str(cell).strip() for name, cell in zip(heading, said, strict=True)}
            with skip_refused(wrong, row + 1, True):
                readings.append(_reading(cells, campaign.names, limits, counted, row + 1))
        return _with_variances(readings, COUNTS[counted]) if counted else readings


def _check_heading(
    heading: list[str], names: Names, limits: list[str], arms: bool
) -> tuple[str, ...]:
    """Return the columns that stand in the place of a reward, if there are such.

    Raises
    ------
    ValueError
        If a column is there twice, or missing, or called almost as an outcome.
    """
    if twice := [name for name in heading if name and heading.count(name) > 1]:
        raise ValueError(f'there are two columns "{twice[0]}"')
    columns = set(heading)
    pairs = [pair for pair in COUNTS if set(pair) <= columns]
    counted = pairs[0] if pairs else ()
    if pairs and (given := {"reward", "variance", *sum(pairs[1:], ())} & columns):
        raise ValueError(f"{' and '.join(counted)} replace {min(given)}: give two tables")
    placed = "site" in columns or {name.lower() for name in names.columns} <= columns
    if not (counted or "reward" in columns) or not placed:
        places = "site" if arms else f"site (or {', '.join(names.columns)})"
        raise ValueError(
            f"there must be columns {places}, and reward (or successes and trials, or events and "
            f"exposure); there are: {', '.join(heading)}"
        )
    known = {"site", "time", "reward", "variance", "key", "who", *counted}
    known |= {name.lower() for name in (*names.columns, *names.context_names)}
    for column in sorted(columns - known):
        near = difflib.get_close_matches(column, limits, n=1)
        if near and column != near[0].lower():
            raise ValueError(f'there is no outcome {column!r}: did you mean "{near[0]}"?')
    return counted


def _reading(
    cells: Mapping[str, str], names: Names, limits: list[str], counted: tuple[str, ...], line: int
) -> Input:
    """Return the reading of a row."""

    def number(name: str) -> float:
        return float(cells[name] or "nan")

    context = {name: cells.get(name.lower()) for name in names.context_names}
    said = [f"{name}={cell}" for name, cell in context.items() if cell and "site" in cells]
    counts = tuple(map(number, counted))
    if counts:
        COUNTS[counted](*counts)  # or it says what is wrong with them
    site = cells.get("site")
    if site is None:
        site = names.written([cells[each.lower()] for each in names.columns])
    return Input(
        site=site,
        value=None if counts else number("reward"),
        at=cells.get("time") or None,
        variance=number("variance") if cells.get("variance") else None,
        key=cells.get("key") or None,
        who=cells.get("who") or None,
        counts=counts,
        outcomes={name: [number(name.lower())] for name in limits if name.lower() in cells},
        context=", ".join(said) or None,
        line=line,
    )


def _with_variances(readings: list[Input], made: Callable[..., Counted]) -> list[Input]:
    """Return readings with what is made of counts, of those of one time together."""
    together: dict[str | None, list[int]] = {}
    for number, reading in enumerate(readings):
        together.setdefault(reading.at, []).append(number)
    found = readings.copy()
    for rows in together.values():
        all_of = made(*np.transpose([readings[row].counts for row in rows]))
        for row, value, variance in zip(rows, all_of.values, all_of.variance, strict=True):
            found[row] = replace(found[row], value=float(value), variance=float(variance))
    return found

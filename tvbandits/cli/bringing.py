"""Readings and answers that people bring, one or a table, and put right.

One that looks like a slip of the pen is asked about before it is told.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvbandits.campaign.naming import Names
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.cli.campaign_actions import Call, Doubts, Sites, sure
from tvbandits.core.counts import count, rate
from tvbandits.core.files.reading import naming, read_spreadsheet

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Change:
    """A reading as it stands on the command line: one that is brought, or what is right of one.

    Attributes
    ----------
    site, at : str or None
        Which; to put one right without a time, the latest told of the site.
    value, variance : float or None
        To put one right: as they should be; None: as they were.
    yes : bool
        It is right, however odd it looks.
    outcomes : list of str or None
        What else was read, as name=value.
    """

    site: str | None
    at: str | None = None
    value: float | None = None
    variance: float | None = None
    yes: bool = False
    outcomes: list[str] | None = None


@dataclass(frozen=True)
class Brought:
    """A reading, or an answer."""

    site: str
    value: float
    at: str | None
    variance: float | None
    key: str | None
    who: str | None
    outcomes: dict[str, list[float]]
    context: str | None


def bring(verb: str, call: Call, one: Change, csv: Path | None, context: str | None = None) -> None:
    """Tell a reading or bring an answer, or all of a table."""
    what = "--reward" if verb == "tell" else "--value"
    site, value, outcomes = one.site, one.value, one.outcomes
    if (csv is None) == (site is None or value is None):
        given: dict[str, object] = {"--site": site, what: value, "--csv": csv, "--at": one.at}
        given |= {"--variance": one.variance, "--outcome": outcomes}
        given |= {
            "--context": context,
            "--key": call.key,
            "--who": call.who,
            "--expert": call.expert,
        }
        there = " and ".join(name for name, each in given.items() if each is not None)
        raise ValueError(f"{verb} needs --site and {what}, or --csv; got {there or 'none of them'}")
    for name, each, column in (
        ("--outcome", outcomes or None, "for each"),
        ("--context", context, "for each of its names"),
        ("--key", call.key, "key"),
    ):
        if csv is not None and each is not None:
            raise ValueError(f"{name} is for one reading; a table has a column {column}")
    with call.opened() as sites:
        if site is None or value is None:
            assert csv is not None
            readings = table(csv, sites)
        else:
            read = _outcomes(outcomes)
            readings = [
                Brought(site, value, one.at, one.variance, call.key, call.who, read, context)
            ]
        count = _bring(verb, sites, readings, csv, one.yes)
        status = sites.campaign.status
        new = {0: "known already", len(readings): "new"}.get(count, f"{count} of them new")
        text = f"{len(readings)} brought, {new}; {status.told} told, {status.pending} pending"
        call.say(text, {"brought": len(readings), "new": count, "told": status.told})


def _bring(verb: str, sites: Sites, readings: list[Brought], csv: Path | None, yes: bool) -> int:
    """One after the other, once every site and time is known; how many are new."""
    places, doubts, usual = [], [], Doubts.of(sites.campaign)
    first: dict[tuple[str, float], int] = {}
    for number, reading in enumerate(readings, start=1):
        with _row(csv, number):
            X, t = sites.point(reading.site, reading.context), sites.time(reading.at)
            places.append((X, t))
            if verb != "tell":
                continue
            doubts += usual.of_reading(X, t, reading.value)
            usual.add(t, reading.value)
            if reading.key is None and t is not None:
                there = first.setdefault((sites.name(X[0]), t), number)
                if there != number:
                    raise ValueError(
                        f"{sites.name(X[0])} at {sites.when(t)} stands in row {there} already: give "
                        "each a key in a column key if both are to count, or leave one out"
                    )
    sure(doubts, yes)
    before = sites.campaign.status.rows
    for number, (reading, (X, t)) in enumerate(zip(readings, places, strict=True), start=1):
        key = reading.key
        if verb == "answer" and key is None and t is not None:
            # Brought again, it counts once; one that failed has a key of its own: another may follow.
            failed = ", failed" if math.isnan(reading.value) else ""
            key = f"{verb} {sites.name(X[0])} at {t!r}{failed}"
        variance = None if reading.variance is None else [reading.variance]
        with _row(csv, number, f"; the {number - 1} before it are told" if number > 1 else ""):
            try:
                said = X, [reading.value], t, variance
                if verb == "tell":
                    sites.campaign.tell(*said, reading.outcomes, key=key, who=reading.who)
                else:
                    sites.campaign.answer(*said, key=key, who=reading.who)
            except ConflictError as error:
                if not error.same:
                    raise  # what is on record already is brought once more
    done = [row for row in sites.campaign.journal(before) if row.kind in ("told", "answers")]
    return min(len(done), len(readings))


@contextmanager
def _row(csv: Path | None, number: int, more: str = "") -> Iterator[None]:
    """Name the row of a table in what is wrong with it."""
    try:
        yield
    except ValueError as error:
        if csv is None:
            raise
        raise ValueError(f"{csv}, row {number}: {error}{more}") from error


def table(path: Path, sites: Sites) -> list[Brought]:
    """The readings of a CSV: site or coordinates, context, time, reward or value, variance, key, who.

    In the place of a reward: successes and trials, or events and exposure.
    """
    with naming(path):
        frame = read_spreadsheet(path, dtype=str, keep_default_na=False)
        frame.columns = [str(name).strip().lower() for name in frame.columns]
        frame = _with_counts(frame)
        value = next((c for c in ("reward", "value", "reading") if c in frame.columns), None)
        columns = sites.names.columns
        coordinates = [name.lower() for name in columns]
        placed = "site" in frame.columns or set(coordinates) <= set(frame.columns)
        if value is None or not placed:
            raise ValueError(
                f"there must be columns site (or {', '.join(columns)}), and reward (or successes and "
                "trials, or events and exposure); "
                f"there are: {', '.join(map(str, frame.columns))}"
            )
        limits = [limit.name for limit in sites.campaign.recipe.limits]
        for column in frame.columns:
            near = difflib.get_close_matches(column, limits, n=1)
            if near and column != near[0].lower():
                raise ValueError(f'there is no outcome {column!r}: did you mean "{near[0]}"?')
        readings = []
        for number, (_, row) in enumerate(frame.iterrows(), start=1):
            try:
                readings.append(_reading(row, value, sites.names, limits))
            except ValueError as error:
                raise ValueError(f"row {number}: {error}") from error
        return readings


def _with_counts(frame: pd.DataFrame) -> pd.DataFrame:
    """With the columns reward and variance where there are counts, those of one time together."""
    for made, names in ((rate, ("successes", "trials")), (count, ("events", "exposure"))):
        if not set(names) <= set(frame.columns):
            continue
        if given := {"reward", "value", "reading", "variance"} & set(frame.columns):
            raise ValueError(f"{' and '.join(names)} say reward and variance, got {min(given)} too")
        counts = frame[list(names)].apply(lambda column: column.str.strip().replace("", "nan"))
        time = next((name for name in ("time", "t") if name in frame.columns), None)
        together = np.zeros(len(frame)) if time is None else frame[time].to_numpy()
        for at in dict.fromkeys(together.tolist()):
            rows = frame.index[together == at]
            counted = made(*(counts.loc[rows, name].to_numpy(np.float64) for name in names))
            frame.loc[rows, "reward"] = [repr(float(y)) for y in counted.values]
            frame.loc[rows, "variance"] = [repr(float(v)) for v in counted.variance]
    return frame


def _outcomes(said: list[str] | None) -> dict[str, list[float]]:
    """What else was read, out of texts name=value."""
    found = {}
    for text in said or []:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = [float(value)]
        except ValueError:
            raise ValueError(f'--outcome must be name=number, got "{text}"') from None
    return found


def _reading(row: pd.Series, value: str, names: Names, limits: list[str]) -> Brought:
    cells = {str(name): str(cell).strip() for name, cell in row.items()}
    variance = cells.get("variance", "")
    context = {name: cells.get(name.lower()) for name in names.context_names}
    said = [f"{name}={cell}" for name, cell in context.items() if cell and "site" in cells]
    return Brought(
        site=cells["site"]
        if "site" in cells
        else names.written([cells[each.lower()] for each in names.columns]),
        value=float(cells[value] or "nan"),
        at=cells.get("time") or cells.get("t") or None,
        variance=float(variance) if variance else None,
        key=cells.get("key") or None,
        who=cells.get("who") or None,
        outcomes={
            name: [float(cells[name.lower()] or "nan")] for name in limits if name.lower() in cells
        },
        context=", ".join(said) or None,
    )


# --- what is put right ----------------------------------------------------------------------


def correct(call: Call, to: str | None, change: Change) -> None:
    """Put a reading right."""
    with call.opened() as sites:
        assert change.site is not None
        X, t, moved = sites.point(change.site, played=True), sites.time(change.at), sites.time(to)
        y = None if change.value is None else [change.value]
        read = _outcomes(change.outcomes)
        if y is None and moved is None and change.variance is None and not read:
            raise ValueError("correct needs what is right: --reward, --to, --variance or --outcome")
        variance = None if change.variance is None else [change.variance]
        about = Doubts.of(sites.campaign)
        when = t if moved is None else moved
        sure(about.of_reading(X, when, math.nan if y is None else y[0]), change.yes)
        sites.campaign.correct(X, y, t, variance, to=moved, outcomes=read, key=call.key)
        _say_changed(call, sites, "corrected")


def retract(call: Call, change: Change) -> None:
    """Take a reading back."""
    with call.opened() as sites:
        assert change.site is not None
        X, t = sites.point(change.site, played=True), sites.time(change.at)
        sites.campaign.retract(X, t, key=call.key)
        _say_changed(call, sites, "retracted")


def _say_changed(call: Call, sites: Sites, what: str) -> None:
    """What was on record, and how things stand."""
    row = next(row for row in reversed(sites.campaign.journal()) if row.kind == what)
    told = sites.campaign.status.told
    ((at, value),) = np.asarray(row.body["got"], dtype=np.float64)
    name = sites.name(np.asarray(row.body["X"][0]))
    text = f"{what}: {name} at {sites.when(at)} was told as {value:g}; {told} told"
    call.say(text, {what: name, "t": at, "was": value, "told": told})

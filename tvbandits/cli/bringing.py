"""Readings and answers that people bring, one or a table, and put right.

One that looks like a slip of the pen is asked about before it is told.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.naming import Names
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.cli.campaign_actions import Call, Doubts, sure, time_of
from tvbandits.core.counts import count, rate
from tvbandits.core.files.reading import naming, read_spreadsheet

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Reading:
    """A reading, or an answer; or what is right of one, where None is as it was.

    Attributes
    ----------
    site, at : str or None
        Which, as people write it.
    value, variance : float or None
    key : str or None
    outcomes : mapping of str to list of float
        What else was read.
    context, who : str or None
    """

    site: str | None = None
    value: float | None = None
    at: str | None = None
    variance: float | None = None
    key: str | None = None
    outcomes: Mapping[str, list[float]] = field(default_factory=dict)
    context: str | None = None
    who: str | None = None


def bring(verb: str, call: Call, one: Reading, csv: Path | None, *, yes: bool = False) -> None:
    """Tell a reading or bring an answer, or all of a table."""
    if csv is not None and one != Reading():
        raise ValueError(f"{verb} --csv stands alone: a table has a column for everything else")
    if csv is None and (one.site is None or one.value is None):
        what = "--reward" if verb == "tell" else "--value"
        there = {**vars(one), "who": call.who, "expert": call.expert}
        named = {name: f"--{name}" for name in there} | {"value": what, "outcomes": "--outcome"}
        given = ", ".join(named[name] for name, each in there.items() if each not in (None, {}))
        raise ValueError(f"{verb} needs --site and {what}, or --csv; got {given or 'none of them'}")
    with call.opened() as campaign:
        readings = [one] if csv is None else table(csv, campaign)
        count = _bring(verb, campaign, readings, csv, yes)
        status = campaign.status
        new = {0: "known already", len(readings): "new"}.get(count, f"{count} of them new")
        text = f"{len(readings)} brought, {new}; {status.told} told, {status.pending} pending"
        call.say(text, {"brought": len(readings), "new": count, "told": status.told})


def _bring(
    verb: str, campaign: Campaign, readings: list[Reading], csv: Path | None, yes: bool
) -> int:
    """One after the other, once every site and time is known; how many are new."""
    places, doubts, usual = [], [], Doubts.of(campaign)
    first: dict[tuple[str, float], int] = {}
    for number, reading in enumerate(readings, start=1):
        with _row(csv, number):
            X = campaign.placed(str(reading.site), campaign.names.context(reading.context))
            t = time_of(campaign, reading.at)
            places.append((X, t))
            if verb != "tell":
                continue
            doubts += usual.of_reading(X, t, reading.value)
            usual.add(t, reading.value)
            name = campaign.names.name(X[0])
            if t is None or reading.key is not None:
                continue
            if (there := first.setdefault((name, t), number)) != number:
                raise ValueError(
                    f"{name} at {campaign.when(t)} stands in row {there} already: give each a key in "
                    "a column key if both are to count, or leave one out"
                )
    sure(doubts, yes)
    before = campaign.status.rows
    for number, (reading, (X, t)) in enumerate(zip(readings, places, strict=True), start=1):
        key, value = reading.key, np.array([reading.value], dtype=np.float64)
        if verb == "answer" and key is None and t is not None:
            # Brought again, it counts once; one that failed has a key of its own: another may follow.
            failed = ", failed" if np.isnan(value[0]) else ""
            key = f"{verb} {campaign.names.name(X[0])} at {t!r}{failed}"
        said = X, value, t, _several(reading.variance)
        with _row(csv, number, f"; the {number - 1} before it are told" if number > 1 else ""):
            try:
                if verb == "tell":
                    campaign.record(*said, reading.outcomes, key=key, who=reading.who)
                else:
                    campaign.answer(*said, key=key, who=reading.who)
            except ConflictError as error:
                if not error.same:
                    raise  # what is on record already is brought once more
    done = [row for row in campaign.journal(before) if row.kind in ("told", "answers")]
    return min(len(done), len(readings))


def _several(number: float | None) -> list[float] | None:
    return None if number is None else [number]


@contextmanager
def _row(csv: Path | None, number: int, more: str = "") -> Iterator[None]:
    """Name the row of a table in what is wrong with it."""
    try:
        yield
    except ValueError as error:
        if csv is None:
            raise
        raise ValueError(f"{csv}, row {number}: {error}{more}") from error


def table(path: Path, campaign: Campaign) -> list[Reading]:
    """The readings of a CSV: site or coordinates, context, time, reward or value, variance, key, who.

    In the place of a reward: successes and trials, or events and exposure.
    """
    with naming(path):
        frame = read_spreadsheet(path, dtype=str, keep_default_na=False)
        frame.columns = [str(name).strip().lower() for name in frame.columns]
        frame = _with_counts(frame)
        value = next((c for c in ("reward", "value", "reading") if c in frame.columns), None)
        columns = campaign.names.columns
        coordinates = [name.lower() for name in columns]
        placed = "site" in frame.columns or set(coordinates) <= set(frame.columns)
        if value is None or not placed:
            raise ValueError(
                f"there must be columns site (or {', '.join(columns)}), and reward (or successes and "
                "trials, or events and exposure); "
                f"there are: {', '.join(map(str, frame.columns))}"
            )
        limits = [limit.name for limit in campaign.ledger.outcomes]
        for column in frame.columns:
            near = difflib.get_close_matches(column, limits, n=1)
            if near and column != near[0].lower():
                raise ValueError(f'there is no outcome {column!r}: did you mean "{near[0]}"?')
        readings = []
        for number, (_, row) in enumerate(frame.iterrows(), start=1):
            try:
                readings.append(_reading(row, value, campaign.names, limits))
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


def read(said: list[str] | None) -> dict[str, list[float]]:
    """What else was read, out of texts name=value."""
    found = {}
    for text in said or []:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = [float(value)]
        except ValueError:
            raise ValueError(f'--outcome must be name=number, got "{text}"') from None
    return found


def _reading(row: pd.Series, value: str, names: Names, limits: list[str]) -> Reading:
    cells = {str(name): str(cell).strip() for name, cell in row.items()}
    variance = cells.get("variance", "")
    context = {name: cells.get(name.lower()) for name in names.context_names}
    said = [f"{name}={cell}" for name, cell in context.items() if cell and "site" in cells]
    return Reading(
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


def correct(call: Call, right: Reading, to: str | None, *, yes: bool) -> None:
    """Put a reading right, also its time."""
    y, variance = _several(right.value), _several(right.variance)
    if y is None and to is None and variance is None and not right.outcomes:
        raise ValueError("correct needs what is right: --reward, --to, --variance or --outcome")
    with call.opened() as campaign:
        t, moved = time_of(campaign, right.at), time_of(campaign, to)
        X = campaign.placed(str(right.site), played=True)
        when = t if moved is None else moved
        sure(Doubts.of(campaign).of_reading(X, when, right.value), yes)
        more = {"to": moved, "outcomes": right.outcomes, "key": right.key}
        campaign.correct(X, y, t, variance, **more)
        _say_changed(call, campaign, "corrected")


def retract(call: Call, site: str, at: str | None, key: str | None) -> None:
    """Take a reading back."""
    with call.opened() as campaign:
        campaign.retract(site, time_of(campaign, at), key=key)
        _say_changed(call, campaign, "retracted")


def _say_changed(call: Call, campaign: Campaign, what: str) -> None:
    """What was on record, and how things stand."""
    row = next(row for row in reversed(campaign.journal()) if row.kind == what)
    told = campaign.status.told
    ((at, value),) = np.asarray(row.body["got"], dtype=np.float64)
    name = campaign.names.name(np.asarray(row.body["X"][0]))
    text = f"{what}: {name} at {campaign.when(at)} was told as {value:g}; {told} told"
    call.say(text, {what: name, "t": at, "was": value, "told": told})

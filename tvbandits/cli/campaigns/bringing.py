"""Readings and answers that people bring: one, or a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tvbandits.cli.campaigns.actions import Call, Sites
from tvbandits.core.files.reading import naming, read_csv, unpacked


@dataclass(frozen=True)
class Brought:
    """A reading, or an answer."""

    site: str
    value: float
    at: str | None
    variance: float | None
    key: str | None
    who: str | None


def bring(
    verb: str,
    call: Call,
    site: str | None,
    value: float | None,
    at: str | None,
    variance: float | None,
    csv: Path | None,
) -> None:
    """Tell a reading or bring an answer, or all of a table."""
    one = "--reward" if verb == "tell" else "--value"
    if (csv is None) == (site is None or value is None):
        given = {
            "--site": site,
            one: value,
            "--csv": csv,
            "--at": at,
            "--variance": variance,
            "--key": call.key,
        }
        there = [name for name, each in given.items() if each is not None]
        raise ValueError(
            f"{verb} needs --site and {one}, or --csv; got {' and '.join(there) or 'none of them'}"
        )
    if csv is not None and call.key is not None:
        raise ValueError("--key is for one reading; a table has a column key")
    with call.opened() as sites:
        if csv is not None:
            readings = table(csv, sites)
        else:
            assert site is not None
            assert value is not None
            readings = [Brought(site, value, at, variance, call.key, call.who)]
        before = sites.campaign.status.rows
        _bring(verb, sites, readings, csv)
        status = sites.campaign.status
        new = "new" if status.rows > before else "known already"
        text = f"{len(readings)} brought, {new}; {status.told} told, {status.pending} out"
        call.say(text, {"brought": len(readings), "new": status.rows > before, "told": status.told})


def _bring(verb: str, sites: Sites, readings: list[Brought], csv: Path | None) -> None:
    """One after the other, once every site and time is known."""
    do = sites.campaign.tell if verb == "tell" else sites.campaign.answer
    places = []
    for number, reading in enumerate(readings, start=1):
        with _row(csv, number):
            places.append((sites.point(reading.site), sites.time(reading.at)))
    seen: Counter[str] = Counter()
    for number, (reading, (X, t)) in enumerate(zip(readings, places, strict=True), start=1):
        key = reading.key
        if key is None and t is not None:  # brought again, it counts once
            # A reading that failed has a key of its own: one that comes later takes its place.
            failed = ", failed" if math.isnan(reading.value) else ""
            name = f"{verb} {sites.name(X[0])} at {t!r}{failed}"
            seen[name] += 1
            key = name if seen[name] == 1 else f"{name}, number {seen[name]}"
        variance = None if reading.variance is None else [reading.variance]
        with _row(csv, number, f"; the {number - 1} before it are told" if number > 1 else ""):
            do(X, [reading.value], t, variance, key=key, who=reading.who)


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
    """The readings of a CSV: site or coordinates, time, reward or value, variance, key, who."""
    with naming(path), unpacked(path) as stream:
        frame = read_csv(stream, separators=",;\t", dtype=str, keep_default_na=False)
        frame.columns = [str(name).strip().lower() for name in frame.columns]
        value = next((c for c in ("reward", "value", "reading") if c in frame.columns), None)
        coordinates = [name.lower() for name in sites.coordinates]
        placed = "site" in frame.columns or set(coordinates) <= set(frame.columns)
        if value is None or not placed:
            raise ValueError(
                f"there must be columns site (or {', '.join(sites.coordinates)}), and reward; "
                f"there are: {', '.join(map(str, frame.columns))}"
            )
        return [_reading(row, value, coordinates) for _, row in frame.iterrows()]


def _reading(row: pd.Series, value: str, coordinates: list[str]) -> Brought:
    cells = {str(name): str(cell).strip() for name, cell in row.items()}
    variance = cells.get("variance", "")
    return Brought(
        site=cells["site"] if "site" in cells else ",".join(cells[c] for c in coordinates),
        value=float(cells[value] or "nan"),
        at=cells.get("time") or cells.get("t") or None,
        variance=float(variance) if variance else None,
        key=cells.get("key") or None,
        who=cells.get("who") or None,
    )

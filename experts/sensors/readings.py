"""What a station says, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvbandits.core.arrays import (
    Array,
    as_time,
    check_sizes,
    finite_number,
    is_finite_number,
    noise_variance_number,
)
from tvbandits.core.coercion import cleaned, shown

MOST_NAMED = 5
"""So many stations, or points, are named in a note."""


_LONGEST_TEXT = 80


@dataclass(frozen=True)
class Reading:
    """What a station says. It is not checked here: the expert judges it.

    Attributes
    ----------
    station : str
        The id of the station.
    time : float
        When it was measured, in the bandit's unit of time.
    value : float
        What was measured (unit of reward); NaN where there is nothing.
    variance : float, optional
        Its noise variance (unit of reward squared); by default the station's.
    note : str
        Why there is no value, for people; not looked at where there is one.

    Examples
    --------
    >>> from tvbandits.experts import Reading
    >>> print(Reading("station 3", time=8.0, value=0.4).variance)  # None: the station's own
    None
    """

    station: str
    time: float
    value: float
    variance: float | None = None
    note: str = ""


def wrong_with(reading: Reading) -> str:
    """What makes a reading useless, whatever the time; empty if nothing does."""
    if not is_finite_number(reading.value) and isinstance(reading.note, str) and reading.note:
        return clipped(cleaned(reading.note))
    try:
        check_sizes(np.array([finite_number("its value", reading.value)]), "its value")
        as_time(reading.time, "its time")
        if reading.variance is not None:
            noise_variance_number("its variance", reading.variance)
    except ValueError as error:
        return str(error)
    return ""


def place_of(point: Array) -> list[float]:
    """A point, for a note."""
    return [float(f"{coordinate:.6g}") for coordinate in point]


def named(names: Sequence[str]) -> str:
    """Up to five names, and how many more there are."""
    listed = ", ".join(shown_briefly(name) for name in names[:MOST_NAMED])
    return listed + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def and_more(count: int, what: str) -> list[str]:
    """A note on what is not named, if there is any."""
    return [f"and {count} more {what}"] if count > 0 else []


def shown_briefly(value: object) -> str:
    """What was given, for a note."""
    return clipped(shown(value))


def clipped(text: str) -> str:
    """A text, cut to what a note has room for."""
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."

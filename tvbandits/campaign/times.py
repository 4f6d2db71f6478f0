"""Times of a campaign: numbers, or dates where it has a clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from tvbandits.campaign.clock import Clock
from tvbandits.validation import as_floats, as_time, positive_number, require


def clock_of(unit: str, origin: str, zone: str = "") -> Clock:
    """The clock that is kept; a zone with summer time has a name such as Europe/Berlin."""
    start = datetime.fromisoformat(origin).astimezone(ZoneInfo(zone)) if "/" in zone else origin
    return Clock(unit, start)


def length_of(said: str) -> float | None:
    """`drop_after`, as it is kept."""
    return positive_number("drop_after", float(said)) if said else None


def time_in(text: str | None) -> float | str | None:
    """The time that a text means: a number, or else a date."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def number_of(clock: Clock | None, t: Any, name: str = "t") -> float | None:
    """A time as a number, given as one or, where there is a clock, as a date."""
    if t is None:
        return None
    if not isinstance(t, int | float | np.number):
        require(clock is not None, name, "a number, as the campaign has no clock", t)
        return float(clock.number(t))  # type: ignore[union-attr]
    number = as_time(t, name)
    if clock is not None:
        clock.text(number)  # or it says that no date is so far away: nobody could read the history
    return number


def numbers_of(clock: Clock | None, t: Any, name: str = "t") -> Any:
    """A time, or one for each point."""
    if t is None or (not isinstance(t, list | tuple) and np.ndim(t) == 0):
        return number_of(clock, t, name)
    return [number_of(clock, each, name) for each in t] if clock else as_floats(t, name).tolist()

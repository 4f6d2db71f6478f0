"""The readings that were retracted or moved: a file that still has one does not bring it back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tvbandits.campaign.questions import coordinates
from tvbandits.campaign.store.store import Row, to_array

# A place without the zeros at its end, and a time.
Play = tuple[tuple[float, ...], float]


class Withdrawal(NamedTuple):
    """What became of a reading.

    Attributes
    ----------
    value : float
        What it was; NaN: played without a reading.
    to : float or None
        The time that it was moved to; None if it was retracted, or there was no reading.
    who : str
        Who did it.
    seq : int
        The row of the journal.
    """

    value: float
    to: float | None
    who: str
    seq: int


class Withdrawals:
    """The readings of a journal that were retracted or moved, with all the values that each had."""

    def __init__(self) -> None:
        self._withdrawn: dict[Play, list[Withdrawal]] = {}
        # What readings were before they were corrected.
        self._earlier: dict[Play, list[float]] = {}

    def __bool__(self) -> bool:
        return bool(self._withdrawn)

    def follow(self, row: Row) -> None:
        """Follow a row of the journal that corrects or retracts readings."""
        arguments, result = row.arguments, to_array(row.body["result"])
        times, values = result.T
        right = values if "y" not in arguments else to_array(arguments["y"])
        to = times if "to" not in arguments else to_array(arguments["to"])
        columns = (times, values, *(np.broadcast_to(each, len(times)) for each in (right, to)))
        for x, *cells in zip(arguments["X"], *(each.tolist() for each in columns), strict=True):
            t, value, right_value, right_time = cells
            play = coordinates(x), t
            before = [*self._earlier.pop(play, []), value]
            is_moved = right_time != t
            is_gone = row.kind == "retract" or (math.isnan(right_value) and not math.isnan(value))
            if not (is_gone or is_moved):
                self._earlier[play] = before
                continue
            new_time = right_time if is_moved and not is_gone else None
            self._withdrawn.setdefault(play, []).extend(
                Withdrawal(each, new_time, row.who, row.seq) for each in before
            )

    def find(self, x: Sequence[float], t: float, value: float) -> Withdrawal | None:
        """Return the latest withdrawal of a reading of this place, time and value, if there is one."""
        for each in reversed(self._withdrawn.get((coordinates(x), t), [])):
            if each.value == value or (math.isnan(each.value) and math.isnan(value)):
                return each
        return None

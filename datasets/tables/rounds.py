"""The readings of a network by time: their step, and stations that are silent or stand out.

A round is a time at which at least half of all places with a reading have one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import median_abs_deviation

from tvbandits.data import Dataset
from tvbandits.option_text import format_option
from tvbandits.validation import Array

# A gauge is silent after so many rounds without it, if it was in half of as many before.
SILENT_ROUNDS = 4

# A gauge stands out by so many robust deviations of the offsets of all, over so many rounds or more.
FAR_OFFSET, FEWEST_ROUNDS = 6.0, 6

# Rounds need so many places.
FEWEST_PLACES = 3

# A station stands still after so many equal readings.
STUCK_ROUNDS = 12

# Readings that change again after they were equal were stuck if they were so many times more than ever
# else at this place, and if so many of its others, as a share, differ from that value.
STUCK_TIMES, OTHER_VALUES = 4, 0.9


@dataclass(frozen=True)
class Rounds:
    """The readings of a network by round.

    Attributes
    ----------
    X : array of shape (p, d)
        The places that have a reading.
    values : array of shape (r, p)
        The latest reading of each place in each round; NaN where there is none.
    """

    X: Array
    values: Array

    @classmethod
    def of(cls, readings: Dataset) -> Rounds:
        """Return the rounds among some readings; other times, which may be many, take no memory."""
        X, place = np.unique(readings.X, axis=0, return_inverse=True)
        _, time = np.unique(readings.t, return_inverse=True)
        cells = np.column_stack([time, place.reshape(-1)])
        counts = np.bincount(np.unique(cells, axis=0)[:, 0])
        is_round = _are_rounds(counts, len(X))
        row, part = np.cumsum(is_round) - 1, is_round[time]
        values = np.full((np.count_nonzero(is_round), len(X)), np.nan)
        values[row[time[part]], cells[part, 1]] = readings.y[part]
        return cls(X, values)

    @classmethod
    def of_table(cls, table: pd.DataFrame) -> Rounds:
        """Return the rounds of a table of floats by time and station, in the order of its columns."""
        values = table.to_numpy(float)
        counts = (~np.isnan(values)).sum(axis=1)
        is_round = _are_rounds(counts, values.shape[1])
        return cls(np.arange(float(values.shape[1]))[:, None], values[is_round])

    @property
    def missed(self) -> NDArray[np.int64]:
        """The number of rounds (p,) without each place at the end, if it is silent; else 0."""
        present, count = ~np.isnan(self.values), len(self.values)
        missed = np.zeros(len(self.X), dtype=np.int64)
        for place in range(len(self.X)):
            rows = np.flatnonzero(present[:, place])
            after = count - 1 - rows[-1] if len(rows) else 0
            before = present[max(0, count - 2 * after) : count - after, place]
            if after >= SILENT_ROUNDS and before.mean() >= 0.5:
                missed[place] = after
        return missed

    @property
    def offsets(self) -> Array:
        """By how much each place (p,) is off the others if it stands out from them; else NaN."""
        enough = (~np.isnan(self.values)).sum(axis=0) >= FEWEST_ROUNDS
        result = np.full(len(self.X), np.nan)
        if np.count_nonzero(enough) <= FEWEST_PLACES:
            return result
        values = self.values[:, enough]
        offsets = np.nanmedian(values - np.nanmedian(values, axis=1, keepdims=True), axis=0)
        offsets -= np.median(offsets)
        spread = float(median_abs_deviation(offsets, scale="normal"))
        # Few places tell badly what is usual.
        far = np.abs(offsets) > FAR_OFFSET * (1.0 + 6.0 / len(offsets)) * spread
        result[np.flatnonzero(enough)[far & (spread > 0)]] = offsets[far & (spread > 0)]
        return result

    @property
    def stuck(self) -> NDArray[np.int64]:
        """The number of equal readings (p,) at the end of each place, if it stands still; else 0.

        It does if they are many, more than ever before at this place, and few others stand still.
        """
        equal = np.zeros(len(self.X), dtype=np.int64)
        for place, values in enumerate(self.values.T):
            read = values[~np.isnan(values)]
            changes = np.flatnonzero(np.diff(read)) + 1
            runs = np.diff([0, *changes, len(read)])
            if len(read) and runs[-1] >= STUCK_ROUNDS and runs[-1] > 2 * max(runs[:-1], default=0):
                equal[place] = runs[-1]
        return equal if np.count_nonzero(equal) <= max(len(equal) / 4, 1) else np.zeros_like(equal)

    @property
    def stretches(self) -> list[slice]:
        """The rounds of each place (p,) in which it repeats a value and then changes again; or none.

        They are many, far more than ever else at this place, the value is not usual there, such as none
        is at night, and few others do it.
        """
        found = [_stretch(values) for values in self.values.T]
        few = sum(each.stop > 0 for each in found) <= max(len(found) / 4, 1)
        return found if few else [slice(0, 0)] * len(found)


def _stretch(values: Array) -> slice:
    """Return the rows of values (n,), NaN where there is none, between which one is repeated."""
    rows = np.flatnonzero(~np.isnan(values))
    starts = np.flatnonzero(np.diff(values[rows], prepend=np.nan) != 0)
    runs = np.diff([*starts, len(rows)])
    # One value over and over is no stretch, and one at the end is `stuck`.
    if len(runs) < 2 or runs[:-1].max() < STUCK_ROUNDS:
        return slice(0, 0)
    which = int(runs[:-1].argmax())
    first, count = int(starts[which]), int(runs[which])
    others = np.delete(values[rows], slice(first, first + count))
    unusual = np.mean(others != values[rows[first]]) >= OTHER_VALUES
    if not unusual or count < STUCK_TIMES * np.delete(runs, which).max():
        return slice(0, 0)
    return slice(int(rows[first]), int(rows[first + count - 1]) + 1)


def _are_rounds(counts: NDArray[np.int64], places: int) -> NDArray[np.bool_]:
    """Return which times are rounds, by the number of places that have a reading at each."""
    return counts >= max(FEWEST_PLACES, places / 2)


def doubts_about(table: pd.DataFrame) -> list[str]:
    """Return a sentence for each station of a table by time that is silent, stands still or stands out.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.rounds import doubts_about
    >>> hours = np.arange(40.0)
    >>> table = pd.DataFrame({name: np.sin(hours + i) for i, name in enumerate("ABCDE")})
    >>> table.loc[30:, "B"] = np.nan
    >>> print(doubts_about(table)[0].partition(": ")[0])
    B has no reading in the last 10 times at which others were read
    """
    rounds, found = Rounds.of_table(table), list[str]()
    is_round = _are_rounds(table.notna().to_numpy().sum(axis=1), len(table.columns))
    times, values = table.index[is_round], rounds.values
    stretches = rounds.stretches
    facts = zip(table.columns, rounds.missed, rounds.stuck, rounds.offsets, strict=True)
    for place, (name, missed, equal, offset) in enumerate(facts):
        text, stretch = "", stretches[place]
        if table[name].isna().all():
            text = "has no reading at all"
        elif missed:
            text = f"has no reading in the last {missed} times at which others were read"
        elif equal:
            text = f"stands still: its last {equal} readings are equal"
        elif stretch.stop:
            text = (
                f"repeats {values[stretch.start, place]:g} in {stretch.stop - stretch.start} rounds, "
                f"{times[stretch.start]} to {times[stretch.stop - 1]}, is that right?"
            )
        elif not np.isnan(offset):
            text = f"is usually {offset:+.3g} from the median of all stations, is that right?"
        if text:
            found.append(f"{name} {text}: {format_option('without', name)} leaves it out")
    return found


@dataclass(frozen=True)
class Grid:
    """The steps of times that are nearly regular, for messages: how long, and how much is there."""

    step: str
    share: float
    regular: bool = field(default=True)


# Steps that show how regular times are.
FEWEST_STEPS = 4

STEPS = ("1min", "5min", "10min", "15min", "30min", "1h", "3h", "6h", "12h", "1D", "7D")


def find_step(times: pd.Series[Any], stations: pd.Series[Any], enough: float = 0.9) -> Grid | None:
    """Return the shortest usual step in which most stations have a reading, of dates; None without any.

    A step is too long if it averages a few times into fewer than `FEWEST_STEPS` steps.

    Parameters
    ----------
    times : Series of datetime
    stations : Series
        Of the same readings.
    enough : float
        The share of steps and stations that must have a reading.
    """
    moments = pd.Series(times.unique()).sort_values()
    if len(moments) < 2:
        return None
    steps = moments.diff().dropna()
    best = Grid("", 0.0)
    for step in STEPS:
        width = pd.Timedelta(step)
        begins = times.dt.floor(width)
        filled = pd.DataFrame({"time": begins, "station": stations}).drop_duplicates()
        if begins.nunique() < min(len(moments), FEWEST_STEPS):
            break
        span = (begins.max() - begins.min()) / width + 1
        share = len(filled) / (span * stations.nunique())
        regular = bool((steps.dt.total_seconds() % width.total_seconds() == 0).all())
        if share > best.share:
            best = Grid(step, share, regular)
        if share >= enough:
            return Grid(step, share, regular)
    return best

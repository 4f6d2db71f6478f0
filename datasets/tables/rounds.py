"""Checks of a network's readings by time: their usual step, and stations that are silent or stand out.

A round is a time at which at least half of all places that have readings have one.
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

# A station is silent if it has no reading in so many last rounds or more, and had one in at least half
# of as many rounds before these.
SILENT_ROUNDS = 4

# A station stands out if its offset is so many robust deviations of all offsets, over at least so many
# rounds.
FAR_OFFSET, FEWEST_ROUNDS = 6.0, 6

# The smallest number of places in a round.
FEWEST_PLACES = 3

# A station is stuck after so many equal readings.
STUCK_ROUNDS = 12

# A station was stuck earlier if a run of equal readings is so many times as long as any other of this
# station, and at least this fraction of its other readings differ from that value.
STUCK_TIMES, OTHER_VALUES = 4, 0.9


@dataclass(frozen=True)
class Rounds:
    """The readings of a network by round.

    Attributes
    ----------
    X : array of shape (p, d)
        The places that have readings.
    values : array of shape (r, p)
        The latest reading of each place in each round; NaN for none.
    """

    X: Array
    values: Array

    @classmethod
    def of(cls, readings: Dataset) -> Rounds:
        """Return the rounds among some readings; other times, which may be many, are dropped."""
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
        """Return the rounds of a table of floats (times x stations), in the order of its columns."""
        values = table.to_numpy(float)
        counts = (~np.isnan(values)).sum(axis=1)
        is_round = _are_rounds(counts, values.shape[1])
        return cls(np.arange(float(values.shape[1]))[:, None], values[is_round])

    @property
    def silence(self) -> NDArray[np.int64]:
        """Return the number of last rounds (p,) without a reading of each silent place; else 0."""
        present, count = ~np.isnan(self.values), len(self.values)
        silence = np.zeros(len(self.X), dtype=np.int64)
        for place in range(len(self.X)):
            rows = np.flatnonzero(present[:, place])
            after = count - 1 - rows[-1] if len(rows) else 0
            before = present[max(0, count - 2 * after) : count - after, place]
            if after >= SILENT_ROUNDS and before.mean() >= 0.5:
                silence[place] = after
        return silence

    @property
    def offsets(self) -> Array:
        """Return the offset (p,) of each place that stands out from the others; NaN for other places."""
        has_enough = (~np.isnan(self.values)).sum(axis=0) >= FEWEST_ROUNDS
        result = np.full(len(self.X), np.nan)
        if np.count_nonzero(has_enough) <= FEWEST_PLACES:
            return result
        values = self.values[:, has_enough]
        offsets = np.nanmedian(values - np.nanmedian(values, axis=1, keepdims=True), axis=0)
        offsets -= np.median(offsets)
        deviation = float(median_abs_deviation(offsets, scale="normal"))
        # With few places the deviation is uncertain, so the limit is larger.
        limit = FAR_OFFSET * (1.0 + 6.0 / len(offsets)) * deviation
        stands_out = (np.abs(offsets) > limit) & (deviation > 0)
        result[np.flatnonzero(has_enough)[stands_out]] = offsets[stands_out]
        return result

    @property
    def stuck(self) -> NDArray[np.int64]:
        """Return the number of equal last readings (p,) of each place that is stuck; else 0.

        A place is stuck if these are many, and more than twice as many as in any earlier run of equal
        readings. If many places are, none counts as stuck.
        """
        equal = np.zeros(len(self.X), dtype=np.int64)
        for place, values in enumerate(self.values.T):
            readings = values[~np.isnan(values)]
            changes = np.flatnonzero(np.diff(readings)) + 1
            runs = np.diff([0, *changes, len(readings)])
            is_long = len(readings) and runs[-1] >= STUCK_ROUNDS
            if is_long and runs[-1] > 2 * max(runs[:-1], default=0):
                equal[place] = runs[-1]
        return equal if np.count_nonzero(equal) <= max(len(equal) / 4, 1) else np.zeros_like(equal)

    @property
    def stuck_intervals(self) -> list[slice]:
        """Return the rounds (p,) in which each place was stuck until it changed again, or none.

        A place was stuck if it repeated a value in many rounds, far more than any other value, and the
        value is unusual there (0 mm of rain is not). If many places were, none counts as stuck.
        """
        intervals = [_find_stuck_interval(values) for values in self.values.T]
        are_few = sum(interval.stop > 0 for interval in intervals) <= max(len(intervals) / 4, 1)
        return intervals if are_few else [slice(0, 0)] * len(intervals)


def _find_stuck_interval(values: Array) -> slice:
    """Return the rows of values (n,), NaN for none, in which a value is repeated, or no rows."""
    rows = np.flatnonzero(~np.isnan(values))
    starts = np.flatnonzero(np.diff(values[rows], prepend=np.nan) != 0)
    runs = np.diff([*starts, len(rows)])
    # A value that never changes does not count, and a run at the end is found by `stuck`.
    if len(runs) < 2 or runs[:-1].max() < STUCK_ROUNDS:
        return slice(0, 0)
    longest = int(runs[:-1].argmax())
    start, count = int(starts[longest]), int(runs[longest])
    others = np.delete(values[rows], slice(start, start + count))
    is_unusual = np.mean(others != values[rows[start]]) >= OTHER_VALUES
    if not is_unusual or count < STUCK_TIMES * np.delete(runs, longest).max():
        return slice(0, 0)
    return slice(int(rows[start]), int(rows[start + count - 1]) + 1)


def _are_rounds(counts: NDArray[np.int64], places: int) -> NDArray[np.bool_]:
    """Return a mask of the times that are rounds, by the number of places with a reading at each."""
    return counts >= max(FEWEST_PLACES, places / 2)


def doubts_about_stations(table: pd.DataFrame) -> list[str]:
    """Return a sentence for each station of a table (times x stations) that may be faulty.

    Such a station is silent, is or was stuck, or stands out from the others.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tvbandits.datasets.tables.rounds import doubts_about_stations
    >>> hours = np.arange(40.0)
    >>> table = pd.DataFrame({name: np.sin(hours + i) for i, name in enumerate("ABCDE")})
    >>> table.loc[30:, "B"] = np.nan
    >>> print(doubts_about_stations(table)[0].partition(": ")[0])
    B has no reading in the last 10 times at which others were read
    """
    rounds, doubts = Rounds.of_table(table), list[str]()
    is_round = _are_rounds(table.notna().to_numpy().sum(axis=1), len(table.columns))
    times, values = table.index[is_round], rounds.values
    intervals = rounds.stuck_intervals
    facts = zip(table.columns, rounds.silence, rounds.stuck, rounds.offsets, strict=True)
    for place, (name, silence, equal, offset) in enumerate(facts):
        text, interval = "", intervals[place]
        if table[name].isna().all():
            text = "has no reading at all"
        elif silence:
            text = f"has no reading in the last {silence} times at which others were read"
        elif equal:
            text = f"stands still: its last {equal} readings are equal"
        elif interval.stop:
            text = (
                f"repeats {values[interval.start, place]:g} in {interval.stop - interval.start} rounds, "
                f"{times[interval.start]} to {times[interval.stop - 1]}, is that right?"
            )
        elif not np.isnan(offset):
            text = f"is usually {offset:+.3g} from the median of all stations, is that right?"
        if text:
            doubts.append(f"{name} {text}: {format_option('without', name)} leaves it out")
    return doubts


@dataclass(frozen=True)
class Grid:
    """A grid of nearly regular times, for messages.

    Attributes
    ----------
    step : str
        The length of a step; empty for none.
    share : float
        Fraction of the pairs of a step and a station that have a reading.
    regular : bool
        Whether all times are multiples of the step apart.
    """

    step: str
    share: float
    regular: bool = field(default=True)


# The smallest number of steps in which regularity can be seen.
FEWEST_STEPS = 4

STEPS = ("1min", "5min", "10min", "15min", "30min", "1h", "3h", "6h", "12h", "1D", "7D")


def find_step(times: pd.Series[Any], stations: pd.Series[Any], enough: float = 0.9) -> Grid | None:
    """Return the grid of the shortest common step with readings of most stations; None for one time.

    If no step has enough readings, it is the grid with most. A step is too long if it averages the times
    into fewer than `FEWEST_STEPS` steps.

    Parameters
    ----------
    times : Series of datetime
        Times of readings.
    stations : Series
        Stations of the same readings.
    enough : float
        The fraction of pairs of a step and a station that must have a reading.
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

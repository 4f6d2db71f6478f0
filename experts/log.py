"""`CachedLogExpert` answers from a log of evaluations."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from tvbandits.experts.protocol import Answers
from tvbandits.forgetting.aging import Ages, Aging, Constant, check_effective
from tvbandits.validation import (
    LARGEST_VARIANCE,
    Array,
    as_floats,
    as_points,
    as_time,
    as_times,
    as_values,
    as_variances,
    check_function,
    clip_variances,
    is_infinite,
    nonnegative_number,
)


class CachedLogExpert:
    """Answers from a log of evaluations, and refuses points that are not in it.

    A question (x, t) is answered by the nearest recorded point, if it lies within `tolerance`: by its
    latest row whose time t' is not after t and at most `staleness` before it. Rows without a value are
    refusals: they answer nothing, and take nothing back. Two rows with different values for the very
    same point and time are an error.

    Parameters
    ----------
    frame : pandas.DataFrame
        One evaluation a row: its coordinates x0, x1, ..., its time `t`, its `value`
        (empty: a refusal), and the noise `variance` of that (unit of reward squared).
    tolerance : float
        Largest Euclidean distance of a row's point from x; 0: only the very same numbers.
    staleness : float
        Largest age of an answer, in the unit of time; may be infinite.
    aging : Aging, optional
        A map of the variance of an answer at its age t - t'; by default the variance stays. Where it
        becomes infinite there is no answer. The map sees `newer` 0 and `told` 1, so only maps of age
        make sense: `Linear`, `Wiener`, `Exponential`, `Constant`, `Window(within=)`.
    cost : float
        Cost of one answer.

    Raises
    ------
    ValueError
        If a column is missing, a row is bad (the message names it), or a parameter is.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from tvbandits.experts import CachedLogExpert
    >>> log = pd.DataFrame({"x0": [1.0, 2.0], "t": [1.0, 1.0], "value": [0.3, 0.9], "variance": 0.01})
    >>> print(CachedLogExpert(log).query(np.array([[2.0], [5.0]]), 1.0).values)
    [0.9 nan]
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        tolerance: float = 0.0,
        staleness: float = 0.0,
        aging: Aging | None = None,
        cost: float = 0.0,
    ) -> None:
        self._tolerance = nonnegative_number("tolerance", tolerance)
        self._staleness = staleness
        if not is_infinite(staleness):
            nonnegative_number("staleness", staleness)
        self._aging = Constant() if aging is None else aging
        check_function("aging", self._aging, "an aging map such as Linear(0.1)")
        self._cost = nonnegative_number("cost", cost)
        X, rows = _answers_in(frame)
        places, place = np.unique(X, axis=0, return_inverse=True)
        rows = rows.assign(place=place.ravel()).drop_duplicates()
        _check_agreement(rows, places)
        rows = rows.sort_values("t", kind="stable")
        self._place, self._t, self._value, self._variance = (
            rows[name].to_numpy() for name in ("place", "t", "value", "variance")
        )
        self._tree = cKDTree(places)

    def __repr__(self) -> str:
        return f"<CachedLogExpert: {len(self._t)} answers at {self._tree.n} points>"

    def query(self, X: ArrayLike, t: float) -> Answers:
        """Return the answers in the log; the notes count the other points."""
        points, now = as_points(X, self._tree.m), as_time(t)
        q = len(points)
        values, variance = np.full(q, np.nan), np.full(q, np.nan)
        expired = 0
        if q and len(self._t):
            distance, place = self._tree.query(points)
            past = int(np.searchsorted(self._t, now, side="right"))
            latest = np.full(self._tree.n, -1)
            latest[self._place[:past]] = np.arange(past)  # of several rows the last one holds
            row = latest[place]
            near = (distance <= self._tolerance) & (row >= 0)
            near &= now - self._t[row] <= self._staleness
            question, row = np.flatnonzero(near), row[near]
            # One reward, and none that is newer: the counts mean nothing.
            ages = Ages(now - self._t[row], np.zeros(len(row), dtype=np.int64), 1)
            effective = check_effective(self._aging(self._variance[row], ages), len(row))
            valid = effective <= LARGEST_VARIANCE
            values[question[valid]] = self._value[row[valid]]
            variance[question[valid]] = clip_variances(effective[valid])
            expired = len(row) - int(valid.sum())
        answered = int((~np.isnan(values)).sum())
        notes = []
        if missing := q - answered - expired:
            notes.append(f"{missing} of {q} points have no recorded answer for t = {now:g}")
        if expired:
            notes.append(f"{expired} of {q} recorded answers are too old at t = {now:g}")
        return Answers(values, variance, self._cost * answered, tuple(notes))


def _coordinates(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns of the coordinates."""
    columns = [str(name) for name in frame.columns if re.fullmatch(r"x(0|[1-9]\d*)", str(name))]
    names = tuple(f"x{i}" for i in range(len(columns)))
    if not columns or set(columns) != set(names):
        have = ", ".join(columns or map(str, frame.columns)) or "none"
        raise ValueError(f"columns of points must be x0, x1, ... without a gap; got {have}")
    return names


def _answers_in(frame: pd.DataFrame) -> tuple[Array, pd.DataFrame]:
    """Return the points of a table's answers, with their times, values and variances, without refusals.

    Raises
    ------
    ValueError
        If a column is missing or not numeric, or a row has a coordinate or a time that is not finite, an
        infinite value, or a value without a positive finite variance.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"frame must be a pandas.DataFrame, got {type(frame).__name__}")
    names, n = _coordinates(frame), len(frame)
    points = np.column_stack([_column(frame, name) for name in names])
    X = as_points(points, None, f"columns {', '.join(names)}") + 0.0  # -0.0 is the same as 0.0
    t = as_times(_column(frame, "t"), n, "column 't'")
    value = as_values(_column(frame, "value"), n, "column 'value'", missing=True)
    answered = ~np.isnan(value)
    # The variance of a refusal does not matter.
    stated = np.where(answered, _column(frame, "variance"), 1.0)
    variance = as_variances(stated, n, "column 'variance'")
    rows = pd.DataFrame({"t": t, "value": value, "variance": variance})
    return X[answered], rows[answered]


def _check_agreement(rows: pd.DataFrame, places: Array) -> None:
    """Raise a `ValueError` if two rows of one place and time have different values."""
    pairs = rows[rows.duplicated(["place", "t"], keep=False)].sort_values(["place", "t"])
    if len(pairs):
        first, second = pairs.iloc[0], pairs.iloc[1]
        raise ValueError(
            f"the table has two values of the point {places[int(first['place'])].tolist()} at "
            f"t = {first['t']:g}: {first['value']:g} and {second['value']:g}; drop one, or give them "
            "times that tell them apart"
        )


def _column(frame: pd.DataFrame, name: str) -> Array:
    """Return one column as floats, NaN where it is empty."""
    column = frame.get(name)
    if not isinstance(column, pd.Series):
        have = ", ".join(map(str, frame.columns)) or "none"
        raise ValueError(f"there must be one column {name!r}, got the columns {have}")
    # A database hands on a column with NULLs as objects.
    return as_floats(column.where(column.notna(), np.nan), f"column {name!r}")

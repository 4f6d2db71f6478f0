"""`CachedLogExpert` answers queries from a log of evaluations."""

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
    """An expert that answers from a log of evaluations, and refuses points that the log lacks.

    The answer for x at time t is from the nearest logged point, if that is within `tolerance`: the value
    of its latest row with a time t' from t - `staleness` to t. Rows without a value record refusals, and
    are ignored. Two rows with the same point and time must not have different values.

    Parameters
    ----------
    frame : pandas.DataFrame
        One evaluation per row: its coordinates x0, x1, ..., its time `t`, its `value` (empty: a
        refusal), and the noise `variance` of the value (unit of reward squared).
    tolerance : float
        Largest Euclidean distance of a row's point from x; 0: only equal coordinates.
    staleness : float
        Largest age of an answer, in the unit of time; may be infinite.
    aging : Aging, optional
        A map from the variance of an answer and its age t - t' to an effective variance; None: the
        variance stays. A point has no answer if it is infinite. The map gets no counts of rewards, so
        only maps of age make sense: `Linear`, `Wiener`, `Exponential`, `Constant`, `Window(within=)`.
    cost : float
        Cost of one answer.

    Raises
    ------
    ValueError
        If a column is missing, or a row (the message names it) or a parameter is not valid.

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
        X, rows = _select_answers(frame)
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
        """Return the answers in the log; notes count the points without an answer."""
        points, t = as_points(X, self._tree.m), as_time(t)
        q = len(points)
        values, variance = np.full(q, np.nan), np.full(q, np.nan)
        expired = 0
        if q and len(self._t):
            distance, place = self._tree.query(points)
            past = int(np.searchsorted(self._t, t, side="right"))
            latest = np.full(self._tree.n, -1)
            latest[self._place[:past]] = np.arange(past)  # later rows overwrite earlier ones
            row = latest[place]
            is_usable = (distance <= self._tolerance) & (row >= 0)
            is_usable &= t - self._t[row] <= self._staleness
            query_row, row = np.flatnonzero(is_usable), row[is_usable]
            # The counts of rewards have no meaning here: each answer is the only one.
            ages = Ages(t - self._t[row], np.zeros(len(row), dtype=np.int64), 1)
            effective = check_effective(self._aging(self._variance[row], ages), len(row))
            valid = effective <= LARGEST_VARIANCE
            values[query_row[valid]] = self._value[row[valid]]
            variance[query_row[valid]] = clip_variances(effective[valid])
            expired = len(row) - int(valid.sum())
        answered = int((~np.isnan(values)).sum())
        notes = []
        if missing := q - answered - expired:
            notes.append(f"{missing} of {q} points have no logged answer for t = {t:g}")
        if expired:
            notes.append(f"{expired} of {q} logged answers are too old at t = {t:g}")
        return Answers(values, variance, self._cost * answered, tuple(notes))


def _coordinate_columns(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the names of the coordinates' columns, x0, x1, ...; raise a `ValueError` for a gap."""
    columns = [str(name) for name in frame.columns if re.fullmatch(r"x(0|[1-9]\d*)", str(name))]
    names = tuple(f"x{i}" for i in range(len(columns)))
    if not columns or set(columns) != set(names):
        present = ", ".join(columns or map(str, frame.columns)) or "none"
        raise ValueError(f"columns of points must be x0, x1, ... without a gap; got {present}")
    return names


def _select_answers(frame: pd.DataFrame) -> tuple[Array, pd.DataFrame]:
    """Return the points (n, d) and the times, values and variances of all rows with a value.

    Raises
    ------
    ValueError
        If a column is missing or not numeric, or a row has a coordinate or a time that is not finite, an
        infinite value, or a value without a positive finite variance.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"frame must be a pandas.DataFrame, got {type(frame).__name__}")
    names, n = _coordinate_columns(frame), len(frame)
    points = np.column_stack([_read_column(frame, name) for name in names])
    X = as_points(points, None, f"columns {', '.join(names)}") + 0.0  # -0.0 is the same as 0.0
    t = as_times(_read_column(frame, "t"), n, "column 't'")
    value = as_values(_read_column(frame, "value"), n, "column 'value'", missing=True)
    answered = ~np.isnan(value)
    # The variance of a refusal does not matter.
    variances = np.where(answered, _read_column(frame, "variance"), 1.0)
    variance = as_variances(variances, n, "column 'variance'")
    rows = pd.DataFrame({"t": t, "value": value, "variance": variance})
    return X[answered], rows[answered]


def _check_agreement(rows: pd.DataFrame, places: Array) -> None:
    """Raise a `ValueError` if two rows with the same point and time have different values."""
    pairs = rows[rows.duplicated(["place", "t"], keep=False)].sort_values(["place", "t"])
    if len(pairs):
        row, other = pairs.iloc[0], pairs.iloc[1]
        raise ValueError(
            f"the table has two values of the point {places[int(row['place'])].tolist()} at "
            f"t = {row['t']:g}: {row['value']:g} and {other['value']:g}; drop one, or give them "
            "different times"
        )


def _read_column(frame: pd.DataFrame, name: str) -> Array:
    """Return one column as floats, with NaN for empty cells."""
    column = frame.get(name)
    if not isinstance(column, pd.Series):
        columns = ", ".join(map(str, frame.columns)) or "none"
        raise ValueError(f"there must be one column {name!r}, got the columns {columns}")
    # Columns with NULLs that come from a database contain objects.
    return as_floats(column.where(column.notna(), np.nan), f"column {name!r}")

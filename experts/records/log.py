"""An expert that answers from recorded evaluations: `CachedLogExpert`.

The index of a log: which row of very many answers a question about a point and a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from tvbandits.core.arrays import (
    LARGEST_VARIANCE,
    Array,
    Index,
    as_floats,
    as_points,
    as_time,
    as_times,
    as_values,
    as_variances,
    is_infinite,
    not_negative,
    usable_variances,
)
from tvbandits.core.coercion import shown
from tvbandits.core.protocols import Answers, as_effective
from tvbandits.experts.asking import SharedLock
from tvbandits.forgetting.aging import (
    Ages,
    Aging,
    Composition,
    Constant,
    DiscardAbove,
    ResetEvery,
    Window,
)


@dataclass(frozen=True)
class RecordTables:
    """Answers that were recorded, one a row.

    Attributes
    ----------
    X : array of shape (n, d)
        The points.
    t : array of shape (n,)
        The times the answers speak about.
    value : array of shape (n,)
        The answers (unit of reward).
    variance : array of shape (n,)
        Their noise variances (unit of reward squared).
    """

    X: Array
    t: Array
    value: Array
    variance: Array

    def __len__(self) -> int:
        return len(self.t)

    def check_agreement(self) -> None:
        """Raise a `ValueError` if two rows of one point and time say different things."""
        order = np.lexsort((self.t, *self.X.T[::-1]))
        X, t = self.X[order], self.t[order]
        said = np.column_stack([self.value, self.variance])[order]
        alike = (X[1:] == X[:-1]).all(axis=1) & (t[1:] == t[:-1])
        torn = alike & (said[1:] != said[:-1]).any(axis=1)
        if torn.any():
            row = int(torn.argmax())
            raise ValueError(
                f"the table says two things of the point {X[row].tolist()} at t = {t[row]:g}: "
                f"{said[row, 0]:g} and {said[row + 1, 0]:g}; drop one, or give them times that "
                "tell them apart"
            )

    def then(self, later: RecordTables) -> RecordTables:
        """These rows, then `later`."""
        pairs = zip(vars(self).values(), vars(later).values(), strict=True)
        return RecordTables(*map(np.concatenate, pairs))


@dataclass(frozen=True)
class Reach:
    """How far from a question an answer may be: see `CachedLogExpert`."""

    tolerance: float
    staleness: float

    def __post_init__(self) -> None:
        not_negative("tolerance", self.tolerance)
        if not is_infinite(self.staleness):
            not_negative("staleness", self.staleness)


@dataclass(frozen=True)
class SortedRecords:
    """Rows sorted by coordinates, the first one first, then by time; no (point, time) twice."""

    rows: RecordTables
    columns: tuple[Array, ...]
    starts: Index
    tree: cKDTree | None

    @classmethod
    def of(cls, rows: RecordTables, reach: Reach) -> SortedRecords:
        """Sort; of duplicates the last holds; a tree where points near by are looked for."""
        order = np.lexsort((rows.t, *rows.X.T[::-1]))  # stable: duplicates stay in their order
        X, t = rows.X[order], rows.t[order]
        another = (X[1:] != X[:-1]).any(axis=1)
        last = np.append(np.flatnonzero(another | (t[1:] != t[:-1])), len(t) - 1)
        X, t, order = X[last], t[last], order[last]
        columns = tuple(np.ascontiguousarray(column) for column in X.T)
        starts = np.append(0, np.flatnonzero((X[1:] != X[:-1]).any(axis=1)) + 1)
        tree = None
        if reach.tolerance > 0:
            tree = cKDTree(X[starts], compact_nodes=False, balanced_tree=False)
        kept = RecordTables(X, t, rows.value[order], rows.variance[order])
        return cls(kept, columns, np.append(starts, len(t)), tree)

    def best(self, points: Array, now: float, reach: Reach) -> tuple[Index, Index]:
        """Questions that have an answer, and the one row that answers each."""
        asked, low, high, far = self._within(points, reach)
        t = self.rows.t
        after = _bisect(t, low, high, np.full(len(low), now), right=True)
        before = np.maximum(after - 1, 0)
        good = (after > low) & (now - t[before] <= reach.staleness)
        question, distance, row = asked[good], far[good], before[good]
        age = now - t[row]
        # Most of very many are not the freshest: they need not be sorted.
        freshest = np.full(len(points), np.inf)
        np.minimum.at(freshest, question, age)
        kept = np.flatnonzero(age == freshest[question])
        question, distance, row = question[kept], distance[kept], row[kept]
        order = np.lexsort((*self.rows.X[row].T[::-1], distance, question))
        answered, heads = np.unique(question[order], return_index=True)
        return answered, row[order[heads]]

    def _within(self, points: Array, reach: Reach) -> tuple[Index, Index, Index, Array]:
        """Question, first row, row after the last, and distance, of each point within reach."""
        if self.tree is None:
            question = np.arange(len(points))
            low, high = np.zeros_like(question), np.full_like(question, len(self.rows))
            for column, wanted in zip(self.columns, points.T, strict=True):
                low, high = (
                    _bisect(column, low, high, wanted, right=False),
                    _bisect(column, low, high, wanted, right=True),
                )
            return question, low, high, np.zeros(len(points))
        # The tree rounds in its own way: it is asked for a little more, and distances are taken here.
        slack = reach.tolerance * (1 + 1e-9)
        found = self.tree.query_ball_point(points, slack, return_sorted=False)
        lists: list[list[int]] = np.asarray(found, dtype=object).tolist()
        question = np.repeat(np.arange(len(points)), [len(near) for near in lists])
        group = np.fromiter(chain.from_iterable(lists), np.int64, len(question))
        low, high = self.starts[group], self.starts[group + 1]
        gaps = self.rows.X[low] - points[question]
        distance = np.sqrt((gaps**2).sum(axis=1))
        near = distance <= reach.tolerance
        return question[near], low[near], high[near], distance[near]


def _bisect(column: Array, low: Index, high: Index, wanted: Array, *, right: bool) -> Index:
    """As `bisect`, in many sorted stretches [low, high) of a column at once."""
    while (wide := low < high).any():
        middle = (low + high) // 2
        entry = column[np.minimum(middle, len(column) - 1)]
        before = entry <= wanted if right else entry < wanted
        low = np.where(wide & before, middle + 1, low)
        high = np.where(wide & ~before, middle, high)
    return low


class CachedLogExpert:
    """Answers questions from a log of recorded evaluations; what is not there is refused.

    A question (x, t) is answered by a row whose point lies within `tolerance` of x and whose time t'
    is not after t and at most `staleness` before it. Of several such rows the freshest answers; of
    equally fresh ones the nearest; of equally near ones that of the smallest coordinates, from the
    first on. A row that arrives late counts from its own time. Rows without a value are refusals: they
    answer nothing, and take nothing back. Two rows of one table that say different things of the very
    same point and time are an error; a table that comes later, by `extend`, corrects those before it.

    Parameters
    ----------
    frame : pandas.DataFrame
        One evaluation a row: its coordinates x0, x1, ..., the time `t` that it speaks about, its `value`
        (empty: a refusal), and the noise `variance` of that (unit of reward squared).
    tolerance : float
        Largest Euclidean distance of a row's point from x; 0: only the very same numbers.
    staleness : float
        Largest age of an answer, in the unit of time; may be infinite.
    aging : Aging, optional
        What the variance of an answer becomes at its age t - t'; nothing changes it by default. Where
        it becomes infinite there is no answer. Maps that count rewards have nothing to count here.
        A map of one's own sees `newer` 0 and `told` 1.
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
        self._names = _numbered(_as_frame(frame))
        self._reach = Reach(tolerance, staleness)
        self._aging = _timed(Constant() if aging is None else aging)
        self._cost = not_negative("cost", cost)
        self._lock = SharedLock()
        self._sorted: SortedRecords | None = None
        self._written = self._refusals = 0
        self.extend(frame)

    def __repr__(self) -> str:
        reach, spoken = self._reach, "none"
        if self._sorted is not None:
            times = self._sorted.rows.t
            spoken = f"{self._written} at times {times.min():g} to {times.max():g}"
        return (
            f"<CachedLogExpert on {self.dimension} coordinates: answers {spoken}, "
            f"{self._refusals} refusals; tolerance={reach.tolerance}, staleness={reach.staleness:g}, "
            f"aging={self._aging!r}>"
        )

    def __len__(self) -> int:
        """Number of answers written, corrected ones among them."""
        return self._written

    @property
    def refusals(self) -> int:
        """Number of rows without a value."""
        return self._refusals

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self._names)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock.now:
            return dict(vars(self))

    def extend(self, frame: pd.DataFrame) -> None:
        """Write more rows, with the same columns; wholly or not at all."""
        rows, refusals = _answers_in(_as_frame(frame), self._names)
        rows.check_agreement()
        written = len(rows)
        with self._lock.now:
            if written:
                rows = rows if self._sorted is None else self._sorted.rows.then(rows)
                self._sorted = SortedRecords.of(rows, self._reach)
            self._written += written
            self._refusals += refusals

    def query(self, X: ArrayLike, t: float) -> Answers:
        """Answer what the log has an answer for; the notes count the rest."""
        points = as_points(X, self.dimension)
        now = as_time(t)
        q = len(points)
        if q == 0:
            return Answers.none(0)
        values, variance = np.full(q, np.nan), np.full(q, np.nan)
        records = self._sorted  # replaced as a whole by `extend`, never changed
        forgotten = 0
        if records is not None:
            question, row = records.best(points, now, self._reach)
            n = len(row)
            # One reward was told, and none is newer: there are no counts to speak of.
            ages = Ages(now - records.rows.t[row], np.zeros(n, dtype=np.int64), 1)
            effective = as_effective(self._aging(records.rows.variance[row], ages), n)
            kept = effective <= LARGEST_VARIANCE
            values[question[kept]] = records.rows.value[row[kept]]
            variance[question[kept]] = usable_variances(effective[kept])
            forgotten = n - int(kept.sum())
        answered = int((~np.isnan(values)).sum())
        notes = []
        if missing := q - answered - forgotten:
            notes.append(f"{missing} of {q} points have no recorded answer for t = {now:g}")
        if forgotten:
            notes.append(f"{forgotten} of {q} recorded answers are too old at t = {now:g}")
        return Answers(values, variance, self._cost * answered, tuple(notes))


def _timed(aging: Aging) -> Aging:
    """Return `aging`; a `ValueError` if it counts rewards, of which a log has none."""
    if not callable(aging) or isinstance(aging, type):
        raise ValueError(f"aging must be an aging map such as Linear(0.1), got {shown(aging)}")
    parts = aging.maps if isinstance(aging, Composition) else ()
    for part in parts:
        _timed(part)
    counts = isinstance(aging, ResetEvery | DiscardAbove)
    if counts or (isinstance(aging, Window) and aging.last is not None):
        raise ValueError(
            f"aging must go by age alone, but {aging!r} counts rewards; "
            "a log can take Constant, Linear, Wiener, Exponential, Window(within=) and compositions"
        )
    return aging


def _as_frame(frame: object) -> pd.DataFrame:
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"frame must be a pandas.DataFrame, got {type(frame).__name__}")
    return frame


def _numbered(frame: pd.DataFrame) -> tuple[str, ...]:
    """The columns of the coordinates."""
    found = [str(name) for name in frame.columns if re.fullmatch(r"x(0|[1-9]\d*)", str(name))]
    names = tuple(f"x{i}" for i in range(len(found)))
    if not found or set(found) != set(names):
        have = ", ".join(found or map(str, frame.columns)) or "none"
        raise ValueError(f"columns of points must be x0, x1, ... without a gap; got {have}")
    return names


def _answers_in(frame: pd.DataFrame, names: Sequence[str]) -> tuple[RecordTables, int]:
    """Answers of a table, and the number of refusals (no value) left out of them.

    Raises
    ------
    ValueError
        If a column is missing or not numeric, or a row has a coordinate or a time that is not finite, an
        infinite value, or a value without a positive finite variance.
    """
    n, points = len(frame), np.column_stack([_numbers(frame, name) for name in names])
    X = as_points(points, None, f"columns {', '.join(names)}")
    t = as_times(_numbers(frame, "t"), n, "column 't'")
    value = as_values(_numbers(frame, "value"), n, "column 'value'", missing=True)
    answered = ~np.isnan(value)
    # What a refusal has for a variance is looked at by nobody.
    stated = np.where(answered, _numbers(frame, "variance"), 1.0)
    variance = as_variances(stated, n, "column 'variance'")
    kept = (part[answered] for part in (X, t, value, variance))
    return RecordTables(*kept), int((~answered).sum())


def _numbers(frame: pd.DataFrame, name: str) -> Array:
    """One column as floats, NaN where it is empty."""
    column = frame.get(name)
    if not isinstance(column, pd.Series):
        have = ", ".join(map(str, frame.columns)) or "none"
        raise ValueError(f"there must be one column {name!r}, got the columns {have}")
    # A database hands on a column with NULLs as objects.
    return as_floats(column.where(column.notna(), np.nan), f"column {name!r}")

"""Recorded evaluations: which columns of a table they are in, and how tables are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tvbandits.core.arrays import (
    Array,
    as_floats,
    as_points,
    as_times,
    as_values,
    as_variances,
    noise_variance_number,
)
from tvbandits.core.coercion import several, shown


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
                f"{said[row, 0]:g} and {said[row + 1, 0]:g}; drop one, or give a column of times that "
                "tells them apart"
            )

    def then(self, later: RecordTables) -> RecordTables:
        """These rows, then `later`."""
        pairs = zip(vars(self).values(), vars(later).values(), strict=True)
        return RecordTables(*map(np.concatenate, pairs))


@dataclass(frozen=True)
class Columns:
    """Where a table has what.

    Parameters
    ----------
    points : tuple of str
        Columns of the coordinates, in their order.
    time, value : str
        Columns of the time and of the answer.
    variance : str or float
        Column of the noise variance, or one variance for all.
    """

    points: tuple[str, ...]
    time: str
    value: str
    variance: str | float

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        points: Sequence[str] | None,
        time: str,
        value: str,
        variance: str | float,
    ) -> Columns:
        """The columns by their names; without names for the points, x0, x1, ... are found.

        Raises
        ------
        ValueError
            If no column of points is there, a column is named for two things, or a fixed variance is
            no usable variance.
        """
        if not isinstance(variance, str):
            variance = noise_variance_number("variance, where it is no column,", variance)
        needs = "a sequence of columns"
        names = _numbered(frame) if points is None else tuple(several("points", points, needs))
        for what, column in (
            *(("points", each) for each in names),
            *(("time", time), ("value", value)),
            *([("variance", variance)] if isinstance(variance, str) else []),
        ):
            if not isinstance(column, str) or column not in frame.columns:
                have = ", ".join(map(str, frame.columns)) or "none"
                raise ValueError(
                    f"{what}={shown(column)}: there must be one column {shown(column)}, "
                    f"got the columns {have}"
                )
        if not names:
            raise ValueError("points must name at least one column, got none")
        used = [*names, time, value, *([variance] if isinstance(variance, str) else [])]
        twice = [name for name, times in Counter(used).items() if times > 1]
        if twice:
            raise ValueError(f"column {twice[0]!r} is named for two things")
        return cls(names, time, value, variance)

    def rows(self, frame: pd.DataFrame) -> tuple[RecordTables, int]:
        """Answers of a table, and the number of refusals (no value) left out of them.

        Raises
        ------
        ValueError
            If a column is missing or not numeric, or a row has a coordinate or a time that is not
            finite, an infinite value, or a value without a positive finite variance.
        """
        n, points = len(frame), np.column_stack([_numbers(frame, name) for name in self.points])
        X = as_points(points, None, f"columns {', '.join(self.points)}")
        t = as_times(_numbers(frame, self.time), n, f"column {self.time!r}")
        value = as_values(_numbers(frame, self.value), n, f"column {self.value!r}", missing=True)
        answered = ~np.isnan(value)
        fixed = not isinstance(self.variance, str)
        stated = np.full(n, self.variance) if fixed else _numbers(frame, str(self.variance))
        # What a refusal has for a variance is looked at by nobody.
        variance = as_variances(np.where(answered, stated, 1.0), n, f"column {self.variance!r}")
        kept = (part[answered] for part in (X, t, value, variance))
        return RecordTables(*kept), int((~answered).sum())


def _numbered(frame: pd.DataFrame) -> tuple[str, ...]:
    found = [str(name) for name in frame.columns if re.fullmatch(r"x(0|[1-9]\d*)", str(name))]
    names = tuple(f"x{i}" for i in range(len(found)))
    if not found or set(found) != set(names):
        have = ", ".join(found or map(str, frame.columns)) or "none"
        raise ValueError(
            f"columns of points must be x0, x1, ... without a gap, or be named by points=; got {have}"
        )
    return names


def _numbers(frame: pd.DataFrame, name: str) -> Array:
    """One column as floats, NaN where it is empty."""
    column = frame.get(name)
    if not isinstance(column, pd.Series):
        have = ", ".join(map(str, frame.columns)) or "none"
        raise ValueError(f"there must be one column {name!r}, got the columns {have}")
    # A database hands on a column with NULLs as objects.
    return as_floats(column.where(column.notna(), np.nan), f"column {name!r}")

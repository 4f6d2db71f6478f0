"""The index of a log: which row of very many answers a question about a point and a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from tvbandits.core.arrays import Array, Index, as_floats, flag, is_infinite, not_negative
from tvbandits.core.coercion import shown
from tvbandits.experts.records.tables import Rows

Duplicates = Literal["last", "first", "mean"]


@dataclass(frozen=True)
class Reach:
    """How far from a question an answer may be: see `CachedLogExpert`."""

    axes: Array
    radius: float
    scaled: bool
    staleness: float
    future: bool

    @classmethod
    def of(cls, tolerance: ArrayLike, staleness: float, future: bool, dimension: int) -> Reach:
        """Checked parameters."""
        sizes = as_floats(tolerance, "tolerance")
        scaled = sizes.ndim > 0
        if scaled and not (
            sizes.shape == (dimension,) and ((sizes > 0) & np.isfinite(sizes)).all()
        ):
            raise ValueError(
                f"tolerance must be a number or {dimension} positive finite numbers, "
                f"got {shown(tolerance)}"
            )
        if not scaled:
            not_negative("tolerance", float(sizes))
        if not is_infinite(staleness):
            not_negative("staleness", staleness)
        axes = sizes if scaled else np.ones(dimension)
        radius = 1.0 if scaled else float(sizes)
        return cls(axes, radius, scaled, float(staleness), flag("future", future))


@dataclass(frozen=True)
class Matches:
    """Rows that may answer: number of the question, and what they are chosen by."""

    question: Index
    age: Array
    ahead: np.ndarray[Any, np.dtype[np.bool_]]
    distance: Array
    X: Array
    value: Array
    variance: Array

    def take(self, rows: Index) -> Matches:
        """The chosen rows."""
        return Matches(*(part[rows] for part in vars(self).values()))


@dataclass(frozen=True)
class Shelf:
    """Rows sorted by coordinates, the first one first, then by time; no (point, time) twice."""

    rows: Rows
    columns: tuple[Array, ...]
    starts: Index
    tree: cKDTree | None

    @classmethod
    def of(cls, rows: Rows, duplicates: Duplicates, reach: Reach) -> Shelf:
        """Sort, and settle duplicates; a tree where points near by are looked for."""
        order = np.lexsort((rows.t, *rows.X.T[::-1]))  # stable: duplicates stay in their order
        X, t = rows.X[order], rows.t[order]
        another = (X[1:] != X[:-1]).any(axis=1)
        runs = _starts(another | (t[1:] != t[:-1]))
        value, variance = _settled(rows.value[order], rows.variance[order], runs, duplicates)
        X, t = X[runs], t[runs]
        columns = tuple(np.ascontiguousarray(column) for column in X.T)
        starts = _starts((X[1:] != X[:-1]).any(axis=1))
        tree = None
        if reach.radius > 0:
            tree = cKDTree(X[starts] / reach.axes, compact_nodes=False, balanced_tree=False)
        return cls(Rows(X, t, value, variance), columns, np.append(starts, len(t)), tree)

    @cached_property
    def first(self) -> float:
        """The oldest time."""
        return float(self.rows.t.min())

    @cached_property
    def last(self) -> float:
        """The newest time."""
        return float(self.rows.t.max())

    def matches(self, points: Array, now: float, reach: Reach) -> Matches:
        """For every question and point within reach, the freshest row of that point."""
        question, low, high, distance = self._within(points, reach)
        t = self.rows.t
        after = _bisect(t, low, high, np.full(len(low), now), right=True)
        before = np.maximum(after - 1, 0)
        good = (after > low) & (now - t[before] <= reach.staleness)
        sides = [(before[good], good, False)]
        if reach.future:
            first = np.minimum(after, len(t) - 1)
            good = (after < high) & (t[first] - now <= reach.staleness)
            sides.append((first[good], good, True))
        found = [
            Matches(
                question[good],
                np.abs(now - t[row]),
                np.full(len(row), ahead),
                distance[good],
                self.rows.X[row],
                self.rows.value[row],
                self.rows.variance[row],
            )
            for row, good, ahead in sides
        ]
        return _joined(found)

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
        slack = reach.radius * (1 + 1e-9)
        found = self.tree.query_ball_point(points / reach.axes, slack, return_sorted=False)
        lists: list[list[int]] = np.asarray(found, dtype=object).tolist()
        question = np.repeat(np.arange(len(points)), [len(near) for near in lists])
        group = np.fromiter(chain.from_iterable(lists), np.int64, len(question))
        low, high = self.starts[group], self.starts[group + 1]
        gaps = (self.rows.X[low] - points[question]) / reach.axes
        distance = np.sqrt((gaps**2).sum(axis=1))
        near = distance <= reach.radius
        return question[near], low[near], high[near], distance[near]


def best_of(matches: Sequence[Matches], duplicates: Duplicates) -> Matches | None:
    """The one row that answers each question that has one; shelves are in the order of writing."""
    every = _joined(matches)
    if not len(every.question):
        return None
    # Most of very many are not the freshest: they need not be sorted.
    freshest = np.full(every.question.max() + 1, np.inf)
    np.minimum.at(freshest, every.question, every.age)
    every = every.take(np.flatnonzero(every.age == freshest[every.question]))
    # Stable: what is alike in all of these is a duplicate, and stays in the order of writing.
    keys = (*every.X.T[::-1], every.distance, every.ahead, every.age, every.question)
    ranked = every.take(np.lexsort(keys))
    heads = _starts(ranked.question[1:] != ranked.question[:-1])
    head = np.repeat(heads, np.diff(np.append(heads, len(ranked.question))))
    first = ranked.take(head)
    alike = (
        (ranked.age == first.age)
        & (ranked.ahead == first.ahead)
        & (ranked.distance == first.distance)
        & (ranked.X == first.X).all(axis=1)
    )
    members = ranked.take(np.flatnonzero(alike))
    runs = _starts(members.question[1:] != members.question[:-1])
    value, variance = _settled(members.value, members.variance, runs, duplicates)
    best = ranked.take(heads)
    return Matches(best.question, best.age, best.ahead, best.distance, best.X, value, variance)


def _joined(matches: Sequence[Matches]) -> Matches:
    if len(matches) == 1:
        return matches[0]
    columns = zip(*(vars(part).values() for part in matches), strict=True)
    return Matches(*(np.concatenate(column) for column in columns))


def _settled(
    value: Array, variance: Array, runs: Index, duplicates: Duplicates
) -> tuple[Array, Array]:
    """One value and variance for each run of duplicates."""
    ends = np.append(runs[1:], len(value))
    if duplicates != "mean":
        chosen = runs if duplicates == "first" else ends - 1
        return value[chosen], variance[chosen]
    # Weights relative to the run's best, so that they do not overflow, and are 1 for a run of one.
    smallest = np.minimum.reduceat(variance, runs)
    weight = np.repeat(smallest, ends - runs) / variance
    total = np.add.reduceat(weight, runs)
    return np.add.reduceat(weight * value, runs) / total, smallest / total


def _starts(another: np.ndarray[Any, np.dtype[np.bool_]]) -> Index:
    """First rows of runs, given where a row differs from the one before it."""
    return np.append(0, np.flatnonzero(another) + 1)


def _bisect(column: Array, low: Index, high: Index, wanted: Array, *, right: bool) -> Index:
    """As `bisect`, in many sorted stretches [low, high) of a column at once."""
    while (wide := low < high).any():
        middle = (low + high) // 2
        entry = column[np.minimum(middle, len(column) - 1)]
        before = entry <= wanted if right else entry < wanted
        low = np.where(wide & before, middle + 1, low)
        high = np.where(wide & ~before, middle, high)
    return low

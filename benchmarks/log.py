"""How fast `CachedLogExpert` answers out of a million rows, and takes more of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.harness import seconds
from tvbandits.core.arrays import Array
from tvbandits.experts.records.log import CachedLogExpert

ROWS, QUESTIONS, POINTS, BATCHES, BATCH = 1_000_000, 200, 40, 100, 1000
TARGET = 0.010
"""Seconds for one question, by the median."""


@dataclass(frozen=True)
class Shape:
    """A log and how it is asked; `distinct` points in [0, 1]^d, at times 0, 1, ..."""

    dimension: int
    distinct: int
    tolerance: float
    staleness: float

    def __str__(self) -> str:
        times = ROWS // self.distinct
        return f"{self.distinct} points x {times} times, d = {self.dimension}"


SHAPES = [
    *(
        Shape(2, 100, tolerance, staleness)
        for tolerance in (0.0, 0.05)
        for staleness in (2, math.inf)
    ),
    *(Shape(2, 10_000, tolerance, math.inf) for tolerance in (0.0, 0.02)),
    *(
        Shape(dimension, ROWS, tolerance, staleness)
        for dimension, reach in ((2, 0.002), (8, 0.1))
        for tolerance in (0.0, reach)
        for staleness in (ROWS / 100, math.inf)
    ),
    Shape(2, ROWS, 0.02, math.inf),  # over a thousand points near each question
]


@dataclass(frozen=True)
class LogRow:
    """Seconds of processor time: to build, of a question (median and longest), of a batch (likewise).

    `answered` is the share of points that had an answer, `near` the mean number of recorded points
    within the tolerance of one.
    """

    case: str
    tolerance: float
    staleness: float
    build: float
    query: float
    longest_query: float
    extend: float
    longest_extend: float
    answered: float
    near: float
    target: float


def table(points: Array, number: Array, t: Array, rng: np.random.Generator) -> pd.DataFrame:
    """A log of one row for each number of a point and time."""
    columns = {f"x{j}": column[number] for j, column in enumerate(points.T)}
    value, variance = rng.standard_normal(len(t)), rng.uniform(0.1, 1.0, len(t))
    return pd.DataFrame({**columns, "t": t, "value": value, "variance": variance})


def measured(shape: Shape, repeats: int) -> LogRow:
    """Build, write more, and ask what is then in several parts."""
    rng = np.random.default_rng(0)
    points = rng.random((shape.distinct, shape.dimension))
    number = np.tile(np.arange(shape.distinct), ROWS // shape.distinct)
    if shape.distinct == ROWS:
        t = np.arange(ROWS) + 0.0
    else:
        t = np.repeat(np.arange(ROWS // shape.distinct), shape.distinct) + 0.0
    order = rng.permutation(ROWS)  # rows come late
    frame = table(points, number[order], t[order], rng)
    experts: list[CachedLogExpert] = []
    options = {"tolerance": shape.tolerance, "staleness": shape.staleness}

    def build() -> None:
        experts.append(CachedLogExpert(frame, **options))  # type: ignore[arg-type]

    built = seconds(build)
    expert = experts[0]
    written = []
    for batch in range(BATCHES):
        more = table(
            points,
            rng.integers(shape.distinct, size=BATCH),
            t.max() + batch + rng.random(BATCH),
            rng,
        )
        written.append(seconds(partial(expert.extend, more)))
    taken, answered = [], 0
    for _ in range(QUESTIONS * repeats):
        chosen = rng.integers(shape.distinct, size=POINTS)
        gap = rng.standard_normal((POINTS, shape.dimension))
        gap *= 0.5 * shape.tolerance / np.linalg.norm(gap, axis=1, keepdims=True)
        now = float(rng.uniform(0, t.max()))
        question = partial(expert.query, points[chosen] + gap, now)
        taken.append(seconds(question))
        answered += int(question().answered.sum())
    return LogRow(
        str(shape),
        shape.tolerance,
        shape.staleness,
        built,
        statistics.median(taken),
        max(taken),
        statistics.median(written),
        max(written),
        answered / len(taken) / POINTS,
        near(points, shape, rng),
        TARGET,
    )


def near(points: Array, shape: Shape, rng: np.random.Generator) -> float:
    """Mean number of points within the tolerance of a question, counted on some."""
    if shape.tolerance == 0:
        return 1.0
    asked = points[rng.integers(len(points), size=20)]
    counts = [(np.linalg.norm(points - x, axis=1) <= shape.tolerance).sum() for x in asked]
    return float(np.mean(counts))


def rows(repeats: int, tables: Path | None = None) -> list[LogRow]:  # noqa: ARG001 - no tables
    """A row for each shape."""
    return [measured(shape, repeats) for shape in SHAPES]


def show(console: Console, found: Sequence[LogRow]) -> None:
    """Print them."""
    console.print(
        f"a log of {ROWS} rows; a question is about {POINTS} points, a batch has {BATCH} rows; "
        "milliseconds of processor time",
        highlight=False,
    )
    printed = Table(box=None, pad_edge=False, header_style="bold")
    printed.add_column("log")
    headings = (
        "tolerance",
        "near",
        "staleness",
        "answered",
        "build",
        "question",
        "longest",
        "target",
    )
    for heading in (*headings, "batch", "longest"):
        printed.add_column(heading, justify="right")
    for row in found:
        printed.add_row(
            *(row.case, f"{row.tolerance:g}", f"{row.near:.0f}", f"{row.staleness:g}"),
            *(f"{row.answered:.0%}", f"{1e3 * row.build:.0f}", f"{1e3 * row.query:.2f}"),
            *(f"{1e3 * row.longest_query:.1f}", f"< {1e3 * row.target:g}"),
            *(f"{1e3 * row.extend:.2f}", f"{1e3 * row.longest_extend:.0f}"),
        )
    console.print(printed)

"""Any finite table of rewards as a problem: a row a point, or a row a point and time.

NAS-Bench-101 as a problem: its cells as points, for whoever has the file.

The file (`nasbench_only108.tfrecord` or `nasbench_full.tfrecord` of google-research/nasbench, 2019) is a
sequence of records in TensorFlow's framing; each is a JSON list of hash, epochs, adjacency, operations
and a message of measurements. It is read here without TensorFlow.

Encoding and choice of cells are those of Calandriello et al. 2020, appendix D.2: cells of exactly four
inner nodes that are 3x3 convolutions or max-poolings; the upper half of the adjacency matrix (15
numbers) without its first and last one, which are 1 in every cell, and a 1 for each convolution among
the inner nodes; each of the two halves is divided by its largest norm over the cells.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF

from tvbandits.core.arrays import Array, flag, noise_variance_number, positive_number, whole_number
from tvbandits.core.coercion import file_path, file_paths, text
from tvbandits.core.files.reading import File, check_regular, naming, read_as_text
from tvbandits.core.protocols import NamedProblem
from tvbandits.datasets.regression import RegressionProblem
from tvbandits.datasets.tables.columns import merged, numbers, standardised
from tvbandits.datasets.tables.problem import TableProblem

TIME = ("t", "time")


def table(
    file: File,
    *,
    reward: str = "reward",
    scale_inputs: bool = True,
    horizon: int | None = None,
    noise_variance: float | None = None,
) -> TableProblem | RegressionProblem:
    r"""A table of rewards: the column `reward`, an optional column "t" or "time", and inputs.

    Without times each row is a candidate with its reward, rows of equal inputs are one candidate with
    their mean, and nothing moves. With times the rewards of every point at every time must be there,
    once; times are taken in their order, as steps 1, 2, ...

    Parameters
    ----------
    file : path
        CSV (packed or not) or Parquet, with a header.
    reward : str
        Name of the column of rewards, of which more is better.
    scale_inputs : bool
        Divide inputs by their deviation over the points.
    horizon : int, optional
        Steps of a run: 500, or as many as there are times.
    noise_variance : float, optional
        Of a told reward; the variance of rows of equal inputs around their means, and 1e-4 of the
        variance of all rewards where there are none.

    Raises
    ------
    ValueError
        If the file cannot be read, a column is missing, or a cell is no number.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets import table
    >>> written = Path("recipes.csv").write_text("salt,heat,reward\n1,20,0.3\n2,40,0.9\n3,60,0.4\n")
    >>> problem = table("recipes.csv", horizon=50, noise_variance=0.01)
    >>> print(len(problem.domain), problem.best(1))
    3 0.9
    """
    path = file_path("file", file)
    text("reward", reward)
    flag("scale_inputs", scale_inputs)
    if horizon is not None:
        whole_number("horizon", horizon)
    if noise_variance is not None:
        noise_variance_number("noise_variance", noise_variance)
    with naming(path):
        frame = read_as_text(path)
        named = {str(name).casefold(): str(name) for name in frame.columns}
        if reward not in frame.columns:
            raise ValueError(
                f'reward must be a column; there is no "{reward}" in {", ".join(map(str, frame))}'
            )
        time = next((named[each] for each in TIME if each in named), None)
        inputs = [str(name) for name in frame.columns if name not in (reward, time)]
        if not inputs or frame.empty:
            raise ValueError("the table needs rows, and an input besides the reward")
        X = np.column_stack([numbers(frame[name], name) for name in inputs])
        y = numbers(frame[reward], reward)
        t = None if time is None else numbers(frame[time], time)
        if t is None:
            return _still(path, X, y, scale_inputs, horizon, noise_variance)
        return _moving(path, X, y, t, scale_inputs, horizon, noise_variance)


def _still(
    path: Path, X: Array, y: Array, scale: bool, horizon: int | None, noise: float | None
) -> RegressionProblem:
    points, means = merged(X, y)
    if noise is None:
        freedom = len(y) - len(points)
        within = (float((y**2).sum()) - float((_counts(X) * means**2).sum())) if freedom else 0.0
        noise = within / freedom if freedom and within > 0 else _little(y)
    return RegressionProblem(
        rewards=means,
        points=standardised(points) if scale else points,
        name=path.name,
        kernel=None,
        horizon=500 if horizon is None else horizon,
        noise_variance=noise,
        summary=f"{len(y)} rows, {len(points)} different points",
    )


def _counts(X: Array) -> Array:
    """How many rows each different point has, in the order of their first rows."""
    frame = pd.DataFrame(X)
    which = frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()
    return np.asarray(np.bincount(which), dtype=np.float64)


def _little(y: Array) -> float:
    return max(1e-4 * float(np.var(y)), 1e-12)


def _moving(
    path: Path,
    X: Array,
    y: Array,
    t: Array,
    scale: bool,
    horizon: int | None,
    noise: float | None,
) -> TableProblem:
    points, _ = merged(X, y)
    row = {point.tobytes(): i for i, point in enumerate(points + 0.0)}
    times: Any = np.unique(t)
    values = np.full((len(times), len(points)), np.nan)
    for x, when, reward in zip(X + 0.0, np.searchsorted(times, t), y, strict=True):
        place = (int(when), row[x.tobytes()])
        if not np.isnan(values[place]):
            raise ValueError(f"two rewards of {x.tolist()} at time {times[when]:g}")
        values[place] = reward
    if (missing := int(np.isnan(values).sum())) > 0:
        when, i = (int(k) for k in np.argwhere(np.isnan(values))[0])
        raise ValueError(
            f"{missing} rewards are missing: every point needs one at every time, such as "
            f"{points[i].tolist()} at {times[when]:g}"
        )
    if horizon is not None and horizon > len(values):
        raise ValueError(f"there are {len(values)} times, got horizon = {horizon}")
    return TableProblem(
        values=values[:horizon],
        points=standardised(points) if scale else points,
        name=path.name,
        unit="",
        noise_variance=_little(values) if noise is None else noise,
        summary=f"{values.shape[0]} times, {values.shape[1]} points",
    )


NODES = 6
"""Input, four inner nodes, output."""

CODES = {"conv3x3-bn-relu": 1.0, "maxpool3x3": 0.0}
LONGEST = 1 << 24
"""Bytes of the longest record."""

VALIDATION_ACCURACY, EPOCHS = 4, 1
"""Field numbers in a measurement; a message holds one at the start, half-way and at the end."""


def nas_bench(
    files: File | Iterable[File],
    *,
    bandwidth: float = 100.0,
    horizon: int = 10_000,
    epochs: int = 108,
) -> RegressionProblem:
    """Find the cell of the best validation accuracy in NAS-Bench-101 (Calandriello 2020, D.2).

    A cell's reward is the mean of its trainings' accuracies, and the noise variance that of a training
    around its cell's mean. (The paper returns one of the three trainings at random; the text gives 19
    dimensions, and the encoding it describes has 17.)

    Parameters
    ----------
    files : path, or a sequence with one path
        The .tfrecord file.
    bandwidth : float
        Length scale of the recommended RBF kernel; the paper has 100 without an initial sample.
    horizon : int
    epochs : int
        Trainings of this length count.

    Raises
    ------
    ValueError
        If the file is none of NAS-Bench-101, or holds no such cell.
    """
    positive_number("bandwidth", bandwidth)
    whole_number("horizon", horizon)
    whole_number("epochs", epochs)
    paths = file_paths("files", files)
    if len(paths) != 1:
        raise ValueError(f"files: nas-bench reads one file, got {len(paths)}")
    path = paths[0]
    with naming(path):
        check_regular(path)
        cells, rewards = read_cells(path, epochs)
    points, means = merged(cells, rewards)
    if means.min() == means.max():
        raise ValueError(f"{path}: all {len(means)} cells have the accuracy {means[0]:g}")
    spread = _within(cells, rewards)
    return RegressionProblem(
        rewards=means,
        points=points,
        name="nas-bench",
        kernel=RBF(float(bandwidth)),
        horizon=horizon,
        noise_variance=spread if spread > 0 else 1e-6,
        unit="accuracy",
        summary=f"{len(points)} cells, {len(rewards)} trainings of {epochs} epochs",
    )


def read_cells(path: Path, epochs: int) -> tuple[Array, Array]:
    """Points (n, 17) and accuracies (n,) of the trainings of all cells that count."""
    halves: list[tuple[list[float], list[float]]] = []
    accuracies: list[float] = []
    with path.open("rb") as file:
        for record in records(file):
            found = _cell(record, epochs)
            if found is not None:
                halves.append(found[:2])
                accuracies.append(found[2])
    if not halves:
        raise ValueError(
            f"no cell of four inner nodes, convolutions or poolings, with {epochs} epochs"
        )
    parts = [np.array(half) for half in zip(*halves, strict=True)]
    norms = [float(np.sqrt((part**2).sum(axis=1)).max()) or 1.0 for part in parts]
    scaled = [part / norm for part, norm in zip(parts, norms, strict=True)]
    return np.column_stack(scaled), np.array(accuracies)


def encoded(adjacency: str, operations: str) -> tuple[list[float], list[float]] | None:
    """The two halves of a cell's code: 13 edges and 4 operations; None for a cell of another kind.

    Parameters
    ----------
    adjacency : str
        36 digits, the matrix row by row; edges go from lower to higher nodes.
    operations : str
        Names of the six nodes, with commas between them.
    """
    names = operations.split(",")
    if len(adjacency) != NODES**2 or len(names) != NODES:
        return None
    if any(name not in CODES for name in names[1:-1]):
        return None
    matrix = np.array([float(digit) for digit in adjacency]).reshape(NODES, NODES)
    upper = matrix[np.triu_indices(NODES, 1)].tolist()
    return upper[1:-1], [CODES[name] for name in names[1:-1]]


def _cell(record: bytes, epochs: int) -> tuple[list[float], list[float], float] | None:
    try:
        _, trained, adjacency, operations, message = json.loads(record)
        if trained != epochs or (code := encoded(adjacency, operations)) is None:
            return None
        return (*code, _final_accuracy(base64.b64decode(message)))
    except (ValueError, TypeError, IndexError, binascii.Error, struct.error) as error:
        raise ValueError(f"a record is none of NAS-Bench-101: {error}") from error


def records(file: BinaryIO) -> Iterator[bytes]:
    """What is framed: 8 bytes of length, 4 of checksum, the record, 4 of checksum."""
    while header := file.read(12):
        if len(header) < 12:
            raise ValueError("the file ends within a record")
        (length,) = struct.unpack("<Q", header[:8])
        if length > LONGEST:
            raise ValueError(f"a record of {length} bytes: this is no .tfrecord file")
        framed = file.read(length + 4)
        if len(framed) < length + 4:
            raise ValueError("the file ends within a record")
        yield framed[:length]


def _final_accuracy(message: bytes) -> float:
    """Validation accuracy of the last measurement in a message."""
    measured = [value for number, value in fields_of(message) if number == 1]
    last = dict(fields_of(measured[-1]))  # type: ignore[arg-type]
    return float(struct.unpack("<d", last[VALIDATION_ACCURACY])[0])  # type: ignore[arg-type]


def fields_of(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Numbers and values of a protocol buffer's fields: bytes, or an integer."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            whole, place = _varint(message, place)
            yield number, whole
            continue
        if kind == 2:
            length, place = _varint(message, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if place + length > len(message):
            raise ValueError("a field is longer than its message")
        yield number, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
        if shift > 63:
            raise ValueError("a number is too long")


def _within(cells: Array, rewards: Array) -> float:
    """Variance of trainings around the mean of their cell; 0 where each cell was trained once."""
    _, which = np.unique(cells, axis=0, return_inverse=True)
    which = which.ravel()
    counts = np.bincount(which)
    means = np.bincount(which, weights=rewards) / counts
    freedom = len(rewards) - len(counts)
    return float(((rewards - means[which]) ** 2).sum() / freedom) if freedom else 0.0


PROBLEMS = (
    NamedProblem(
        "nas-bench",
        nas_bench,
        "cells of NAS-Bench-101, from the .tfrecord file given by --data",
        files="needed",
    ),
    NamedProblem(
        "table", table, "table:FILE, a csv or Parquet file of points, rewards and perhaps times"
    ),
)

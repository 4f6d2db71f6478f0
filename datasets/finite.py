"""Any finite table of rewards as a problem: a row a point, or a row a point and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.core.arrays import Array, flag, noise_variance_number, whole_number
from tvbandits.core.coercion import file_path, text
from tvbandits.core.files.reading import File, naming, read_as_text
from tvbandits.core.protocols import NamedProblem
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
) -> TableProblem:
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
) -> TableProblem:
    points, means = merged(X, y)
    if noise is None:
        freedom = len(y) - len(points)
        within = (float((y**2).sum()) - float((_counts(X) * means**2).sum())) if freedom else 0.0
        noise = within / freedom if freedom and within > 0 else _little(y)
    return TableProblem(
        values=means[None],
        points=standardised(points) if scale else points,
        name=path.name,
        unit="",
        noise_variance=noise,
        steps=500 if horizon is None else horizon,
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
    path: Path, X: Array, y: Array, t: Array, scale: bool, horizon: int | None, noise: float | None
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


PROBLEMS = (
    NamedProblem(
        "table", table, "table:FILE, a csv or Parquet file of points, rewards and perhaps times"
    ),
)

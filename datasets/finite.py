"""Any finite table of rewards as a problem: a row a point, or a row a point and time."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tvbandits.core.arrays import Array, flag, noise_variance_number, whole_number
from tvbandits.core.coercion import file_path, optional, text
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
    optional(whole_number, "horizon", horizon)
    optional(noise_variance_number, "noise_variance", noise_variance)
    with naming(path):
        frame = read_as_text(path)
        if reward not in frame.columns:
            raise ValueError(
                f'reward must be a column; there is no "{reward}" in {", ".join(frame.columns)}'
            )
        time = next((name for name in frame.columns if name.casefold() in TIME), None)
        inputs = [name for name in frame.columns if name not in (reward, time)]
        if not inputs or frame.empty:
            raise ValueError("the table needs rows, and an input besides the reward")
        if any(name.startswith("Unnamed: ") for name in inputs):  # as pandas calls it
            raise ValueError("a column without a name, such as a frame's index, is no input")
        X = np.column_stack([numbers(frame[name], name) for name in inputs])
        y = numbers(frame[reward], reward)
        points, means, which = merged(X, y)
        if time is None:
            values, steps = means[None], 500 if horizon is None else horizon
            noise = _within(y, means, which)
            size = f"{len(y)} rows, {len(points)} different points"
        else:
            rows = pd.DataFrame({"point": which, "t": numbers(frame[time], time), "reward": y})
            values, steps = _by_time(rows, X, points), None
            if horizon is not None and horizon > len(values):
                raise ValueError(f"there are {len(values)} times, got horizon = {horizon}")
            noise = _little(values)
            size = f"{len(values)} times, {len(points)} points"
        return TableProblem(
            values=values[:horizon],
            points=standardised(points) if scale_inputs else points,
            name=path.name,
            unit="",
            noise_variance=noise if noise_variance is None else noise_variance,
            steps=steps,
            summary=size,
        )


def _little(y: Array) -> float:
    return max(1e-4 * float(np.var(y)), 1e-12)


def _within(y: Array, means: Array, which: NDArray[np.integer]) -> float:
    """Variance of rows of equal inputs around their means, or a little where there are none."""
    within = float(((y - means[which]) ** 2).sum())
    # What rounding leaves between equal rewards is no noise.
    return within / (len(y) - len(means)) if within > 1e-24 * float(y @ y) else _little(y)


def _by_time(rows: pd.DataFrame, X: Array, points: Array) -> Array:
    """Rewards of every point at every time, shape (T, A), out of rows with the inputs X (n, d)."""
    again = rows.duplicated(["point", "t"]).to_numpy()
    if again.any():
        row = int(again.argmax())
        raise ValueError(f"two rewards of {X[row].tolist()} at time {rows['t'][row]:g}")
    table = rows.pivot(index="t", columns="point", values="reward")
    missing = np.argwhere(table.isna())
    if len(missing):
        when, point = missing[0]
        raise ValueError(
            f"{len(missing)} rewards are missing: every point needs one at every time, such as "
            f"{points[point].tolist()} at {table.index[when]:g}"
        )
    return table.to_numpy()


PROBLEMS = (
    NamedProblem(
        "table", table, "table:FILE, a csv or Parquet file of points, rewards and perhaps times"
    ),
)

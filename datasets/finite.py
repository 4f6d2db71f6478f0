"""Finite tables of rewards as problems: a table of one's own, and the two fixed ones of BBKB.

No table comes with the package. Abalone and California housing are the experiments of Calandriello,
Carratino, Lazaric, Valko and Rosasco (2020), "Near-linear time Gaussian process optimization with
adaptive batching and resparsification"; each is read from a file, such as what scikit-learn's
`fetch_openml("abalone", version=1)` and `fetch_california_housing` have as `frame`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from tvbandits.datasets.table_problem import TableProblem
from tvbandits.datasets.tables.readings import (
    Form,
    encode,
    finite_column,
    merge_rows,
    same_names,
    standardise,
)
from tvbandits.datasets.tables.spreadsheets import File, read_as_text
from tvbandits.domains.problem import NamedProblem
from tvbandits.io import name_file_in_errors
from tvbandits.validation import (
    Array,
    as_bool,
    check_optional,
    check_text,
    file_path,
    noise_variance_number,
    whole_number,
)


def table(
    file: File,
    *,
    reward: str = "reward",
    scale_inputs: bool = True,
    horizon: int | None = None,
    noise_variance: float | None = None,
) -> TableProblem:
    r"""Read a table of rewards: the column `reward`, an optional column "t" or "time", and inputs.

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
        That of a reward; the variance of rows of equal inputs around their means, and 1e-4 of the
        variance of all rewards where there are none.

    Raises
    ------
    ValueError
        If the file cannot be read, a column is missing, or a cell is no number.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets import table
    >>> size = Path("recipes.csv").write_text("salt,heat,reward\n1,20,0.3\n2,40,0.9\n3,60,0.4\n")
    >>> problem = table("recipes.csv", horizon=50, noise_variance=0.01)
    >>> print(len(problem.domain), problem.best(1))
    3 0.9
    """
    path = file_path("file", file)
    check_text("reward", reward)
    as_bool("scale_inputs", scale_inputs)
    check_optional(whole_number, "horizon", horizon)
    check_optional(noise_variance_number, "noise_variance", noise_variance)
    with name_file_in_errors(path):
        frame = read_as_text(path)
        if reward not in frame.columns:
            raise ValueError(
                f'reward must be a column; there is no "{reward}" in {", ".join(frame.columns)}'
            )
        time = next((name for name in frame.columns if name.casefold() in ("t", "time")), None)
        inputs = [name for name in frame.columns if name not in (reward, time)]
        if not inputs or frame.empty:
            raise ValueError("the table needs rows, and an input besides the reward")
        if any(name.startswith("Unnamed: ") for name in inputs):  # as pandas calls it
            raise ValueError("a column without a name, such as a frame's index, is no input")
        X = np.column_stack([finite_column(frame[name], name) for name in inputs])
        y = finite_column(frame[reward], reward)
        points, means, which = merge_rows(X, y)
        if time is None:
            values, steps = means[None], 500 if horizon is None else horizon
            noise = noise_within(y, means, which)
            size = f"{len(y)} rows, {len(points)} different points"
        else:
            rows = pd.DataFrame(
                {"point": which, "t": finite_column(frame[time], time), "reward": y}
            )
            values, steps = _by_time(rows, X, points), None
            if horizon is not None and horizon > len(values):
                raise ValueError(f"there are {len(values)} times, got horizon = {horizon}")
            noise = _small_noise(values)
            size = f"{len(values)} times, {len(points)} points"
        return TableProblem(
            values=values[:horizon],
            points=standardise(points) if scale_inputs else points,
            name=path.name,
            unit="",
            noise_variance=noise if noise_variance is None else noise_variance,
            steps=steps,
            summary=size,
        )


def _small_noise(y: Array) -> float:
    """Return 1e-4 of the variance of rewards."""
    return max(1e-4 * float(np.var(y)), 1e-12)


def noise_within(y: Array, means: Array, which: NDArray[np.integer]) -> float:
    """Return the variance of rows of equal inputs around their means; a small one without such rows."""
    within = float(((y - means[which]) ** 2).sum())
    # The rounding of equal rewards is no noise.
    return within / (len(y) - len(means)) if within > 1e-24 * float(y @ y) else _small_noise(y)


def _by_time(rows: pd.DataFrame, X: Array, points: Array) -> Array:
    """Return rewards of every point at every time, shape (T, A), of rows with the inputs X (n, d)."""
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


# Codes of the only input that is not a number; I is an infant.
SEX = {"m": 0.0, "f": 1.0, "i": 2.0}


# The inputs, and the target last.
ABALONE = Form(
    same_names("sex", "length", "diameter", "height", "whole_weight", "shucked_weight")
    | same_names("viscera_weight", "shell_weight")
    | {"rings": ("rings", "Class_number_of_rings")}
)
CALIFORNIA = Form(
    same_names("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup")
    | same_names("Latitude", "Longitude", "MedHouseVal")
)


def abalone(file: File) -> TableProblem:
    """Find the abalone with the most rings among 4177, by 8 measurements.

    Inputs are standardised to zero mean and unit deviation over the rows, rings scaled to [0, 1].
    The paper does not say how it turns sex into a number: here M, F, I are 0, 1, 2, the order of the
    table's own description. Rows with the same inputs are one candidate with their mean target.

    Parameters
    ----------
    file : path
        A CSV or Parquet file with a header: sex, length, diameter, height, whole_weight,
        shucked_weight, viscera_weight, shell_weight, rings (case and punctuation are free).

    Raises
    ------
    ValueError
        If the file cannot be used (one line that names it and why).
    """
    return _problem("abalone", ABALONE, RBF(17.5), file)


def california(file: File) -> TableProblem:
    """Find the dearest of 20,640 Californian blocks of houses ("cadata"), by 8 of its figures.

    Inputs are standardised to zero mean and unit deviation over the rows, the median house value
    scaled to [0, 1]. The inputs are those of scikit-learn's table: rooms, bedrooms and occupants are
    means over households. Rows with the same inputs are one candidate with their mean target.

    Parameters
    ----------
    file : path
        A CSV or Parquet file with a header: MedInc, HouseAge, AveRooms, AveBedrms, Population,
        AveOccup, Latitude, Longitude, MedHouseVal (case and punctuation are free).

    Raises
    ------
    ValueError
        If the file cannot be used (one line that names it and why).
    """
    return _problem("california", CALIFORNIA, RBF(12.5), file)


def _problem(name: str, form: Form, kernel: RBF, file: File) -> TableProblem:
    """Return the problem of a file with inputs and a target, which is scaled to [0, 1]."""
    path = file_path("file", file)
    *_, (heading, *_) = form.required.values()
    with name_file_in_errors(path):
        inputs, target = _columns(name, form, read_as_text(path))
        points, means, _ = merge_rows(standardise(inputs), target)
        low, high = float(means.min()), float(means.max())
        if low == high:
            raise ValueError(f"{heading} is {low} in every row")
    return TableProblem(
        values=((means - low) / (high - low))[None],
        points=points,
        name=name,
        unit="",
        noise_variance=1e-4,  # a deviation of 0.01 on rewards in [0, 1]
        kernel=kernel,
        steps=10_000,
        summary=(
            f"{len(target)} rows, {len(target) - len(points)} of them merged into others with the "
            f"same inputs; {heading} from {low:g} to {high:g}, scaled to [0, 1]"
        ),
    )


def _columns(name: str, form: Form, raw: pd.DataFrame) -> tuple[Array, Array]:
    """Return inputs (n, d) and target (n,), as numbers."""
    if missing := form.missing(raw.columns):
        raise ValueError(f"not the {name} table: columns missing: {', '.join(missing)}")
    if raw.empty:
        raise ValueError("the table has a header and no rows")
    names = form.match(raw.columns)
    if "sex" in names:
        texts = raw[names["sex"]].map(str).str.strip()
        raw = raw.assign(**{names["sex"]: encode(texts, SEX, "sex must be M, F or I")})
    *inputs, target = (finite_column(raw[names[ours]], names[ours]) for ours in form.required)
    return np.column_stack(inputs), target


PROBLEMS = (
    NamedProblem(
        "table", table, "table:FILE, a csv or Parquet file of points, rewards and perhaps times"
    ),
    NamedProblem("abalone", abalone, "a fixed table of 4177 rows: the age of shellfish", files=1),
    NamedProblem("california", california, "a fixed table of 20640 rows: house values", files=1),
)

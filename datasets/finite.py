"""Problems with finitely many candidates from a file: your own table, and the two fixed ones of BBKB.

No table comes with the package. Abalone and California housing are the experiments of Calandriello,
Carratino, Lazaric, Valko and Rosasco (2020), "Near-linear time Gaussian process optimization with
adaptive batching and resparsification". Their files may be the `frame` of scikit-learn's
`fetch_openml("abalone", version=1)` and `fetch_california_housing`, written as CSV or Parquet.
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
    headings_by_key,
    merge_rows,
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
    r"""Read a problem from a table of rewards, inputs and perhaps times (a column "t" or "time").

    Without times, rewards are constant: each row is a candidate with its reward, and rows with equal
    inputs are one candidate with their mean reward. With times, every point needs one reward at every
    time; the sorted times are the steps 1, 2, ...

    Parameters
    ----------
    file : path
        A CSV file (compressed or not) or a Parquet file, with a header.
    reward : str
        Name of the column of rewards, which are maximized.
    scale_inputs : bool
        Standardise each input over the points.
    horizon : int, optional
        Steps of a run. None: the number of times, or 500 if the table has none.
    noise_variance : float, optional
        Noise variance of a reward. None: the variance of the rewards of equal inputs around their mean,
        or 1e-4 of the variance of all rewards if no inputs are equal.

    Raises
    ------
    ValueError
        If the file cannot be read, a column is missing, or a cell is not a number.

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
                f'reward must be the name of a column: there is no "{reward}" among '
                f"{', '.join(frame.columns)}"
            )
        time = next((name for name in frame.columns if name.casefold() in ("t", "time")), None)
        inputs = [name for name in frame.columns if name not in (reward, time)]
        if not inputs or frame.empty:
            raise ValueError("the table needs rows, and a column of inputs besides the reward")
        if any(name.startswith("Unnamed: ") for name in inputs):  # pandas names such columns so
            raise ValueError(
                "the table has a column without a name, such as a frame's index: name or delete it"
            )
        X = np.column_stack([finite_column(frame[name], name) for name in inputs])
        y = finite_column(frame[reward], reward)
        points, means, groups = merge_rows(X, y)
        if time is None:
            values, steps = means[None], 500 if horizon is None else horizon
            noise = variance_within_groups(y, means, groups)
            size = f"{len(y)} rows, {len(points)} different points"
        else:
            rows = pd.DataFrame(
                {"point": groups, "t": finite_column(frame[time], time), "reward": y}
            )
            values, steps = _pivot_times(rows, X, points), None
            if horizon is not None and horizon > len(values):
                raise ValueError(
                    f"horizon must be at most the {len(values)} times of the table, got {horizon}"
                )
            noise = _small_variance(values)
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


def _small_variance(y: Array) -> float:
    """Return 1e-4 of the variance of rewards."""
    return max(1e-4 * float(np.var(y)), 1e-12)


def variance_within_groups(y: Array, means: Array, groups: NDArray[np.integer]) -> float:
    """Return the pooled variance of rewards (n,) around the means (m,) of their groups (n,).

    If no group has different rewards, it is 1e-4 of the variance of all rewards.
    """
    squares = float(((y - means[groups]) ** 2).sum())
    # The mean of equal rewards may differ from them by rounding, which is no noise.
    if squares > 1e-24 * float(y @ y):
        return squares / (len(y) - len(means))
    return _small_variance(y)


def _pivot_times(rows: pd.DataFrame, X: Array, points: Array) -> Array:
    """Return the rewards of every point at every time, shape (T, A).

    `X` (n, d) are the inputs of the rows, for messages.
    """
    repeated = rows.duplicated(["point", "t"]).to_numpy()
    if repeated.any():
        row = int(repeated.argmax())
        raise ValueError(
            f"the table has two rewards of {X[row].tolist()} at time {rows['t'][row]:g}: delete one"
        )
    table = rows.pivot(index="t", columns="point", values="reward")
    missing = np.argwhere(table.isna())
    if len(missing):
        step, point = missing[0]
        raise ValueError(
            f"{len(missing)} rewards are missing, such as that of {points[point].tolist()} at time "
            f"{table.index[step]:g}: every point needs one at every time"
        )
    return table.to_numpy()


# Codes of the only input that is not a number; I stands for infant.
SEX = {"m": 0.0, "f": 1.0, "i": 2.0}


# The columns of inputs; the last column is the target.
ABALONE = Form(
    headings_by_key("sex", "length", "diameter", "height", "whole_weight", "shucked_weight")
    | headings_by_key("viscera_weight", "shell_weight")
    | {"rings": ("rings", "Class_number_of_rings")}
)
CALIFORNIA = Form(
    headings_by_key("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup")
    | headings_by_key("Latitude", "Longitude", "MedHouseVal")
)


def abalone(file: File) -> TableProblem:
    """Find the abalone with the most rings among 4177, from 8 measurements of each.

    Inputs are standardised to zero mean and unit deviation over the rows, rings are scaled to [0, 1].
    The paper does not say how it codes sex; here M, F, I are 0, 1, 2, in the order of the table's
    description. Rows with equal inputs are one candidate with their mean target.

    Parameters
    ----------
    file : path
        A CSV or Parquet file with a header: sex, length, diameter, height, whole_weight,
        shucked_weight, viscera_weight, shell_weight, rings (in any case and punctuation).

    Raises
    ------
    ValueError
        If the file cannot be used; the one-line message names the file and the reason.
    """
    return _read_regression_problem("abalone", ABALONE, RBF(17.5), file)


def california(file: File) -> TableProblem:
    """Find the block with the highest house value among 20,640 in California, from 8 features.

    Inputs are standardised to zero mean and unit deviation over the rows, the median house value is
    scaled to [0, 1]. The inputs are those of scikit-learn's table: rooms, bedrooms and occupants are
    means over households. Rows with equal inputs are one candidate with their mean target.

    Parameters
    ----------
    file : path
        A CSV or Parquet file with a header: MedInc, HouseAge, AveRooms, AveBedrms, Population,
        AveOccup, Latitude, Longitude, MedHouseVal (in any case and punctuation).

    Raises
    ------
    ValueError
        If the file cannot be used; the one-line message names the file and the reason.
    """
    return _read_regression_problem("california", CALIFORNIA, RBF(12.5), file)


def _read_regression_problem(name: str, form: Form, kernel: RBF, file: File) -> TableProblem:
    """Return the problem of a file with inputs and a target; the target is scaled to [0, 1]."""
    path = file_path("file", file)
    *_, (heading, *_) = form.required.values()
    with name_file_in_errors(path):
        inputs, target = _split_columns(name, form, read_as_text(path))
        points, means, _ = merge_rows(standardise(inputs), target)
        low, high = float(means.min()), float(means.max())
        if low == high:
            raise ValueError(f"{heading} is {low} in every row: there is nothing to find")
    return TableProblem(
        values=((means - low) / (high - low))[None],
        points=points,
        name=name,
        unit="",
        noise_variance=1e-4,  # a deviation of 0.01 on rewards in [0, 1]
        kernel=kernel,
        steps=10_000,
        summary=(
            f"{len(target)} rows, {len(target) - len(points)} of them merged into others with equal "
            f"inputs; {heading} from {low:g} to {high:g}, scaled to [0, 1]"
        ),
    )


def _split_columns(name: str, form: Form, raw: pd.DataFrame) -> tuple[Array, Array]:
    """Return the inputs (n, d) and the target (n,) of a table of texts, as numbers."""
    if missing := form.missing(raw.columns):
        raise ValueError(f"this is not the {name} table: columns missing: {', '.join(missing)}")
    if raw.empty:
        raise ValueError("the table has a header and no rows")
    names = form.match(raw.columns)
    if "sex" in names:
        texts = raw[names["sex"]].map(str).str.strip()
        raw = raw.assign(**{names["sex"]: encode(texts, SEX, "sex must be M, F or I")})
    *inputs, target = (finite_column(raw[names[key]], names[key]) for key in form.required)
    return np.column_stack(inputs), target


PROBLEMS = (
    NamedProblem(
        "table", table, "table:FILE, a csv or Parquet file of points, rewards and perhaps times"
    ),
    NamedProblem("abalone", abalone, "a fixed table of 4177 rows: the age of shellfish", files=1),
    NamedProblem("california", california, "a fixed table of 20640 rows: house values", files=1),
)

"""Regression tables as stationary problems: every row is a candidate, its target the reward.

The two tables are those of section 5 of Calandriello et al. (2020), "Near-linear time Gaussian process
optimization with adaptive batching and resparsification". No table comes with the package: each is
read from a file, such as what scikit-learn's `fetch_openml("abalone", version=1)` and
`fetch_california_housing` have as `frame`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF

from tvbandits.core.arrays import Array, noise_variance_number, positive_number, whole_number
from tvbandits.core.coercion import file_path
from tvbandits.core.files.reading import File, naming, read_as_text
from tvbandits.core.protocols import NamedProblem
from tvbandits.datasets.tables.columns import Form, coded, merged, named, numbers, standardised
from tvbandits.datasets.tables.problem import TableProblem

# Codes of the only input that is not a number; I is an infant.
SEX = {"m": 0.0, "f": 1.0, "i": 2.0}


# Default noise variance of a told reward: a deviation of 0.01 on rewards in [0, 1].
NOISE_VARIANCE = 1e-4


# The inputs, and then the target.
ABALONE = Form(
    named("sex", "length", "diameter", "height", "whole_weight", "shucked_weight")
    | named("viscera_weight", "shell_weight")
    | {"rings": ("rings", "Class_number_of_rings")}
)
CALIFORNIA = Form(
    named("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup")
    | named("Latitude", "Longitude", "MedHouseVal")
)


def abalone(
    file: File,
    *,
    bandwidth: float = 17.5,
    horizon: int = 10_000,
    noise_variance: float = NOISE_VARIANCE,
) -> TableProblem:
    """Find the abalone with the most rings among 4177, by 8 measurements.

    Inputs are standardised to zero mean and unit deviation over the rows, rings scaled to [0, 1].
    The paper does not say how it turns sex into a number: here M, F, I are 0, 1, 2, the order of the
    table's own description. Rows with the same inputs are one candidate with their mean target.

    Parameters
    ----------
    file : path
        A CSV or Parquet file with a header: sex, length, diameter, height, whole_weight,
        shucked_weight, viscera_weight, shell_weight, rings (case and punctuation are free).
    bandwidth : float
        Length scale of the recommended RBF kernel, in deviations of the inputs.
    horizon : int
        Number of steps of a full run.
    noise_variance : float
        Noise variance of a told reward, whose range is [0, 1].

    Raises
    ------
    ValueError
        If the file cannot be used (one line that names it and why), or a parameter is not positive.
    """
    return _problem("abalone", ABALONE, file, bandwidth, horizon, noise_variance)


def california(
    file: File,
    *,
    bandwidth: float = 12.5,
    horizon: int = 10_000,
    noise_variance: float = NOISE_VARIANCE,
) -> TableProblem:
    """Find the dearest of 20,640 Californian blocks of houses ("cadata"), by 8 of its figures.

    Inputs are standardised to zero mean and unit deviation over the rows, the median house value
    scaled to [0, 1]. The inputs are those of scikit-learn's table: rooms, bedrooms and occupants are
    means over households. Rows with the same inputs are one candidate with their mean target.

    Parameters
    ----------
    file : path
        A CSV or Parquet file with a header: MedInc, HouseAge, AveRooms, AveBedrms, Population,
        AveOccup, Latitude, Longitude, MedHouseVal (case and punctuation are free).
    bandwidth : float
        Length scale of the recommended RBF kernel, in deviations of the inputs.
    horizon : int
        Number of steps of a full run.
    noise_variance : float
        Noise variance of a told reward, whose range is [0, 1].

    Raises
    ------
    ValueError
        If the file cannot be used (one line that names it and why), or a parameter is not positive.
    """
    return _problem("california", CALIFORNIA, file, bandwidth, horizon, noise_variance)


def _problem(
    name: str, form: Form, file: File, bandwidth: float, horizon: int, noise_variance: float
) -> TableProblem:
    positive_number("bandwidth", bandwidth)
    path = file_path("file", file)
    *_, (rewarded, *_) = form.required.values()
    with naming(path):
        inputs, target = _columns(name, form, read_as_text(path))
        points, means, _ = merged(standardised(inputs), target)
        low, high = float(means.min()), float(means.max())
        if low == high:
            raise ValueError(f"{rewarded} is {low} in every row")
    return TableProblem(
        values=((means - low) / (high - low))[None],
        points=points,
        name=name,
        unit="",
        noise_variance=noise_variance_number("noise_variance", noise_variance),
        kernel=RBF(float(bandwidth)),
        steps=whole_number("horizon", horizon),
        summary=(
            f"{len(target)} rows, {len(target) - len(points)} of them merged into others with the "
            f"same inputs; {rewarded} from {low:g} to {high:g}, scaled to [0, 1]"
        ),
    )


def _columns(name: str, form: Form, raw: pd.DataFrame) -> tuple[Array, Array]:
    """Inputs (n, d) and target (n,), as numbers."""
    if missing := form.missing(raw.columns):
        raise ValueError(f"not the {name} table: columns missing: {', '.join(missing)}")
    if raw.empty:
        raise ValueError("the table has a header and no rows")
    spelled = form.match(raw.columns)
    if "sex" in spelled:
        texts = raw[spelled["sex"]].map(str).str.strip()
        raw = raw.assign(**{spelled["sex"]: coded(texts, SEX, "sex must be M, F or I")})
    *inputs, target = (numbers(raw[spelled[ours]], spelled[ours]) for ours in form.required)
    return np.column_stack(inputs), target


PROBLEMS = (
    NamedProblem("abalone", abalone, "a fixed table of 4177 rows: the age of shellfish", files=1),
    NamedProblem("california", california, "a fixed table of 20640 rows: house values", files=1),
)

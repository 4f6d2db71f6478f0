"""Regression tables as stationary problems: every row is a candidate, its target the reward.

The two tables are those of section 5 of Calandriello et al. (2020), "Near-linear time Gaussian process
optimization with adaptive batching and resparsification". No table comes with the package: each is
read from a file, such as what scikit-learn's `fetch_openml("abalone", version=1)` and
`fetch_california_housing` have as `frame`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF, Kernel

from tvbandits.core.arrays import (
    Array,
    as_points,
    as_time,
    as_values,
    noise_variance_number,
    positive_number,
    whole_number,
)
from tvbandits.core.candidates import Candidates
from tvbandits.core.coercion import file_paths, of_kind, settle, text
from tvbandits.core.files.reading import File, naming, read_as_text
from tvbandits.core.protocols import NamedProblem
from tvbandits.datasets.tables.columns import Form, few, merged, numbers, standardised
from tvbandits.datasets.tables.problem import OnCandidates
from tvbandits.datasets.tables.references import References, references

# Codes of the only input that is not a number; I is an infant.
SEX = {"M": 0.0, "F": 1.0, "I": 2.0}


# Default noise variance of a told reward: a deviation of 0.01 on rewards in [0, 1].
NOISE_VARIANCE = 1e-4


ABALONE = Form.of(
    *("sex", "length", "diameter", "height", "whole_weight", "shucked_weight"),
    *("viscera_weight", "shell_weight", "rings"),
    rings=("rings", "Class_number_of_rings"),
)
# The inputs, and then the target.
CALIFORNIA = Form.of(
    *("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup"),
    *("Latitude", "Longitude", "MedHouseVal"),
)


@dataclass(frozen=True, eq=False)
class RegressionProblem(OnCandidates):
    """A reward that never moves, known at A points; a `tvbandits.core.protocols.Problem`.

    Parameters
    ----------
    rewards : array of shape (A,)
        Noise-free reward of each point.
    points : array of shape (A, d)
        The candidates; no two alike.
    name : str
        What rows and pictures call the problem.
    kernel : scikit-learn kernel, optional
        Recommended prior over points.
    horizon : int
        Number of steps of a full run; at least 1.
    noise_variance : float
        Noise variance of a told reward (unit of reward squared); positive.
    unit : str, optional
        Unit of the reward; none where rewards are scaled.
    summary : str, optional
        Where the rewards come from, in one line.

    Raises
    ------
    ValueError
        If shapes disagree, a number is not finite, two points are equal, or the horizon or the noise
        variance is not positive.
    """

    rewards: Array
    points: Array
    name: str
    kernel: Any
    horizon: int = 10_000
    noise_variance: float = NOISE_VARIANCE
    unit: str = ""
    summary: str = ""
    domain: Candidates = field(init=False)

    def __post_init__(self) -> None:
        domain = Candidates(as_points(self.points, name="points"))
        for name in ("name", "unit", "summary"):
            text(name, getattr(self, name))
        if self.kernel is not None:
            of_kind("kernel", self.kernel, Kernel, "a scikit-learn kernel, or None")
        rewards = as_values(self.rewards, len(domain), "rewards")
        whole_number("horizon", self.horizon)
        variance = noise_variance_number("noise_variance", self.noise_variance)
        rewards.setflags(write=False)
        settle(self, rewards=rewards, points=domain.X, noise_variance=variance, domain=domain)

    def __str__(self) -> str:
        return f"{self.name}: {self.summary}" if self.summary else self.name

    @property
    def variation(self) -> float:
        """0: the reward never moves."""
        return 0.0

    def rewards_at(self, t: float) -> Array:
        """The same at every time `t`, which must be finite."""
        as_time(t)
        return self.rewards

    def references(self) -> References:
        """Average regret of the players without a model; `uniform` is what regret is divided by."""
        # Two equal steps stand for all: the means of any longer run are the same.
        return references(np.tile(self.rewards, (min(self.horizon, 2), 1)))


def abalone(
    files: File | Iterable[File],
    *,
    bandwidth: float = 17.5,
    horizon: int = 10_000,
    noise_variance: float = NOISE_VARIANCE,
) -> RegressionProblem:
    """Find the abalone with the most rings among 4177, by 8 measurements.

    Inputs are standardised to zero mean and unit deviation over the rows, rings scaled to [0, 1].
    The paper does not say how it turns sex into a number: here M, F, I are 0, 1, 2, the order of the
    table's own description. Rows with the same inputs are one candidate with their mean target.

    Parameters
    ----------
    files : path, or a sequence with one path
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
        If there is not one file, it cannot be used (one line that names it and why), or a parameter is
        not positive.
    """
    return _problem("abalone", ABALONE, files, bandwidth, horizon, noise_variance)


def california(
    files: File | Iterable[File],
    *,
    bandwidth: float = 12.5,
    horizon: int = 10_000,
    noise_variance: float = NOISE_VARIANCE,
) -> RegressionProblem:
    """Find the dearest of 20,640 Californian blocks of houses ("cadata"), by 8 of its figures.

    Inputs are standardised to zero mean and unit deviation over the rows, the median house value
    scaled to [0, 1]. The inputs are those of scikit-learn's table: rooms, bedrooms and occupants are
    means over households. Rows with the same inputs are one candidate with their mean target.

    Parameters
    ----------
    files : path, or a sequence with one path
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
        If there is not one file, it cannot be used (one line that names it and why), or a parameter is
        not positive.
    """
    return _problem("california", CALIFORNIA, files, bandwidth, horizon, noise_variance)


def _problem(
    name: str,
    form: Form,
    files: File | Iterable[File],
    bandwidth: float,
    horizon: int,
    noise_variance: float,
) -> RegressionProblem:
    positive_number("bandwidth", bandwidth)
    paths = file_paths("files", files)
    if len(paths) != 1:
        given = ", ".join(map(str, paths)) or "none"
        raise ValueError(f"files must be one file for {name}, got {len(paths)}: {given}")
    (path,) = paths
    with naming(path):
        inputs, target = _columns(name, form, read_as_text(path))
    points, means = merged(standardised(inputs), target)
    low, high = float(means.min()), float(means.max())
    rewarded = list(form.required)[-1]
    if low == high:
        raise ValueError(f"{path}: {rewarded} is {low} in every row")
    return RegressionProblem(
        rewards=(means - low) / (high - low),
        points=points,
        name=name,
        kernel=RBF(float(bandwidth)),
        horizon=horizon,
        noise_variance=noise_variance,
        summary=(
            f"{len(target)} rows, {len(target) - len(points)} of them merged into others with the "
            f"same inputs; {rewarded} from {low:g} to {high:g}, scaled to [0, 1]"
        ),
    )


def _columns(name: str, form: Form, raw: pd.DataFrame) -> tuple[Array, Array]:
    """Inputs (n, d) and target (n,), as numbers."""
    raw = raw.rename(columns=str)
    header = list(raw.columns)
    missing = form.missing(header)
    if missing:
        raise ValueError(f"not the {name} table: columns missing: {', '.join(missing)}")
    if raw.empty:
        raise ValueError("the table has a header and no rows")
    spelled = form.match(header)
    columns = [
        _sexes(raw[spelled[ours]]) if ours == "sex" else numbers(raw[spelled[ours]], spelled[ours])
        for ours in form.required
    ]
    return np.column_stack(columns[:-1]), columns[-1]


def _sexes(column: pd.Series[Any]) -> Array:
    texts = [str(value).strip() for value in column]
    unknown = [text for text in texts if text.upper() not in SEX]
    if unknown:
        raise ValueError(f"sex must be M, F or I, got {few(unknown)}")
    return np.array([SEX[text.upper()] for text in texts])


PROBLEMS = (
    NamedProblem(
        "abalone", abalone, "a fixed table of 4177 rows: the age of shellfish", files="needed"
    ),
    NamedProblem(
        "california", california, "a fixed table of 20640 rows: house values", files="needed"
    ),
)

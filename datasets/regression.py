"""Regression tables as stationary problems: every row is a candidate, its target the reward.

The two tables are those of section 5 of Calandriello et al. (2020), "Near-linear time Gaussian process
optimization with adaptive batching and resparsification". No table comes with the package: each is
read from a file, or fetched and cached by scikit-learn (`fetch_openml`, `fetch_california_housing`).
"""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets as sklearn_datasets
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

SEX = {"M": 0.0, "F": 1.0, "I": 2.0}
"""Codes of the only input that is not a number; I is an infant."""


NOISE_VARIANCE = 1e-4
"""Default noise variance of a told reward: a deviation of 0.01 on rewards in [0, 1]."""


@dataclass(frozen=True)
class TableSource:
    """Where a table comes from, and what it holds.

    Parameters
    ----------
    name : str
        What rows and pictures call the problem.
    form : Form
        The columns and their spellings: the inputs, then the target.
    fetch : callable
        Gets scikit-learn's bunch, whose `frame` has the same columns.
    """

    name: str
    form: Form
    fetch: Callable[[], Any]

    @property
    def inputs(self) -> list[str]:
        """Our names of the inputs, in the order of the coordinates."""
        return list(self.form.required)[:-1]

    @property
    def target(self) -> str:
        """Our name of the target."""
        return list(self.form.required)[-1]


ABALONE = TableSource(
    "abalone",
    Form.of(
        *("sex", "length", "diameter", "height", "whole_weight", "shucked_weight"),
        *("viscera_weight", "shell_weight", "rings"),
        rings=("rings", "Class_number_of_rings"),
    ),
    lambda: sklearn_datasets.fetch_openml(name="abalone", version=1, as_frame=True, parser="auto"),
)
CALIFORNIA = TableSource(
    "california",
    Form.of(
        *("MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup"),
        *("Latitude", "Longitude", "MedHouseVal"),
    ),
    lambda: sklearn_datasets.fetch_california_housing(as_frame=True),
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
    files: File | Iterable[File] | None = None,
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
    files : path, or a sequence with one path, optional
        A CSV or Parquet file with a header: sex, length, diameter, height, whole_weight,
        shucked_weight, viscera_weight, shell_weight, rings (case and punctuation are free). None:
        fetched from OpenML by scikit-learn, once.
    bandwidth : float
        Length scale of the recommended RBF kernel, in deviations of the inputs.
    horizon : int
        Number of steps of a full run.
    noise_variance : float
        Noise variance of a told reward, whose range is [0, 1].

    Raises
    ------
    ValueError
        If the download fails, there is more than one file, the file cannot be used (one line that
        names it and why), or a parameter is not positive.
    """
    return _problem(ABALONE, files, bandwidth, horizon, noise_variance)


def california(
    files: File | Iterable[File] | None = None,
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
    files : path, or a sequence with one path, optional
        A CSV or Parquet file with a header: MedInc, HouseAge, AveRooms, AveBedrms, Population,
        AveOccup, Latitude, Longitude, MedHouseVal (case and punctuation are free). None: fetched by
        scikit-learn, once.
    bandwidth : float
        Length scale of the recommended RBF kernel, in deviations of the inputs.
    horizon : int
        Number of steps of a full run.
    noise_variance : float
        Noise variance of a told reward, whose range is [0, 1].

    Raises
    ------
    ValueError
        If the download fails, there is more than one file, the file cannot be used (one line that
        names it and why), or a parameter is not positive.
    """
    return _problem(CALIFORNIA, files, bandwidth, horizon, noise_variance)


def _problem(
    source: TableSource,
    files: File | Iterable[File] | None,
    bandwidth: float,
    horizon: int,
    noise_variance: float,
) -> RegressionProblem:
    positive_number("bandwidth", bandwidth)
    path = _only_file(source.name, files)
    inputs, target = _fetched(source) if path is None else _read(source, path)
    points, means = merged(standardised(inputs), target)
    low, high = float(means.min()), float(means.max())
    if low == high:
        raise ValueError(f"{path or source.name}: {source.target} is {low} in every row")
    return RegressionProblem(
        rewards=(means - low) / (high - low),
        points=points,
        name=source.name,
        kernel=RBF(float(bandwidth)),
        horizon=horizon,
        noise_variance=noise_variance,
        summary=(
            f"{len(target)} rows, {len(target) - len(points)} of them merged into others with the "
            f"same inputs; {source.target} from {low:g} to {high:g}, scaled to [0, 1]"
        ),
    )


def _only_file(name: str, files: File | Iterable[File] | None) -> Path | None:
    """The one file that was given, if any."""
    if files is None:
        return None
    paths = file_paths("files", files)
    if len(paths) > 1:
        given = ", ".join(str(path) for path in paths)
        raise ValueError(f"files must be one file for {name}, got {len(paths)}: {given}")
    if not paths:
        raise ValueError(f"files must be one file for {name}, got none; None downloads it")
    return paths[0]


def _fetched(source: TableSource) -> tuple[Array, Array]:
    """Inputs (n, d) and target (n,) by scikit-learn's fetcher, which keeps a copy of its own."""
    try:
        with warnings.catch_warnings():
            # Every retry warns; what matters is whether the last one fails, which is an error below.
            for retry in ("A network error occurred while downloading", "Retry downloading"):
                warnings.filterwarnings("ignore", message=retry, category=UserWarning)
            frame = source.fetch().frame
    except (OSError, ValueError, EOFError, HTTPException, tarfile.TarError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{source.name}: the download failed ({reason}); give its table as a file"
        ) from error
    try:
        return _columns(source, frame)
    except ValueError as error:
        raise ValueError(f"{source.name}: the table that was downloaded: {error}") from None


def _read(source: TableSource, path: Path) -> tuple[Array, Array]:
    """Inputs (n, d) and target (n,) of a file."""
    with naming(path):
        return _columns(source, read_as_text(path))


def _columns(source: TableSource, raw: pd.DataFrame) -> tuple[Array, Array]:
    """Inputs (n, d) and target (n,), as numbers."""
    raw = raw.rename(columns=str)
    header = list(raw.columns)
    missing = source.form.missing(header)
    if missing:
        raise ValueError(f"not the {source.name} table: columns missing: {', '.join(missing)}")
    if raw.empty:
        raise ValueError("the table has a header and no rows")
    spelled = source.form.match(header)
    columns = {
        ours: _sexes(raw[theirs]) if ours == "sex" else numbers(raw[theirs], theirs)
        for ours, theirs in spelled.items()
    }
    return np.column_stack([columns[ours] for ours in source.inputs]), columns[source.target]


def _sexes(column: pd.Series[Any]) -> Array:
    texts = [str(value).strip() for value in column]
    unknown = [text for text in texts if text.upper() not in SEX]
    if unknown:
        raise ValueError(f"sex must be M, F or I, got {few(unknown)}")
    return np.array([SEX[text.upper()] for text in texts])


PROBLEMS = (
    NamedProblem(
        "abalone", abalone, "a fixed table of 4177 rows: the age of shellfish", files="optional"
    ),
    NamedProblem(
        "california", california, "a fixed table of 20640 rows: house values", files="optional"
    ),
)

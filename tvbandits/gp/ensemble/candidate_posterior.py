"""Implement the protocol `Posterior` for ensembles of models that predict all candidates at once.

Such ensembles learn mean and scale of the reward themselves. Their readings at inputs [x, t] are
converted to candidate numbers, and their means and covariances are those of candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np

from tvbandits.gp.cholesky import ExactPosterior, condition_by_cholesky
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.posterior import (
    CandidateGrid,
    Data,
    Groups,
    KernelPrior,
    Posterior,
    PosteriorSummary,
    Prior,
    discard_before,
)
from tvbandits.gp.predictions import ScaledPosterior, look_ahead
from tvbandits.validation import Array, Index


class Readings(NamedTuple):
    """Readings of some candidates at one time.

    Attributes
    ----------
    rows : integer array of shape (n,)
        Numbers of the candidates.
    values, variance : arrays of shape (n,)
        Rewards and their noise variances.
    """

    rows: Index
    values: Array
    variance: Array


def candidate_rows(grid: CandidateGrid, Z: Array) -> Index:
    """Return the numbers (n,) of the candidates at inputs [x, t] (n, p).

    Raises
    ------
    ValueError
        If a point is not a candidate.
    """
    X = Z[:, : grid.points.shape[1]]
    rows = grid.indices(X)
    if None in rows:
        raise ValueError(f"an ensemble observes candidates, got the point {X[rows.index(None)]}")
    return np.array(rows, dtype=np.int64)


def readings_by_time(grid: CandidateGrid, data: Data) -> Iterator[tuple[float, Readings]]:
    """Yield each distinct time of data that are sorted by time, with its readings."""
    start = 0
    for t, group in groupby(data.Z[:, -1].tolist()):
        part = slice(start, start + len(list(group)))
        rows = candidate_rows(grid, data.Z[part])
        yield t, Readings(rows, data.Y[part, 0], data.variance[part])
        start = part.stop


def prior_posterior(
    kernel: Any, data: Data, grid: CandidateGrid, now: float
) -> ExactPosterior | None:
    """Return the prior of the kernel as a posterior, or None if there are readings up to `now`.

    The data are sorted by time.
    """
    if len(data) and now >= data.Z[0, -1]:
        return None
    no_data = Data(grid.at(now)[:0], data.Y[:0], data.variance[:0])
    return condition_by_cholesky(kernel, no_data, grid=grid, now=now)


class CandidatePosterior:
    """The methods of a `Posterior` that follow from the joint posterior of all candidates.

    Attributes
    ----------
    kernel : scikit-learn kernel
    grid : CandidateGrid
    data : Data
        All readings, sorted by time.
    now : float
        The time of the predictions.
    fantasy : JointPosterior or None
        The posterior at that time given unknown values of pending points.
    """

    kernel: Any
    grid: CandidateGrid
    data: Data
    now: float
    fantasy: JointPosterior | None

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for pickling, without values that can be computed again."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # a dataclass
        return {name: self.__dict__[name] for name in names} | {"fantasy": None}

    def joint_posterior(
        self, answer_time: float, beta: float, noise_variance: Any = None
    ) -> JointPosterior:
        """Return the joint posterior of all candidates at `now` and of readings at `answer_time`."""
        raise NotImplementedError

    def predict_candidates(self) -> tuple[Array, Array]:
        """Return means (A, 1) and variances (A,) at the candidates."""
        raise NotImplementedError

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> Self | None:
        """Return the posterior given more readings; None if it must be conditioned on all readings."""
        raise NotImplementedError

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Return centred samples (count, A) at the candidates."""
        raise NotImplementedError

    @property
    def prior(self) -> Prior:
        """Return the learned prior of the reward."""
        raise NotImplementedError

    @property
    def summary(self) -> PosteriorSummary:
        """Return descriptive values; those of a mean that is linear in the values are NaN.

        The information gain is NaN as well, since the theorems that use it assume one known kernel.
        """
        nan = np.full((1, 1), np.nan)
        size = len(self.data)
        return PosteriorSummary(self.kernel, self.data, size, nan, math.nan, lambda: math.nan)

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, 1) and variances (n,) at the candidates of inputs [x, t], at `now`."""
        mean, variance = self.predict_candidates()
        if isinstance(Z, CandidateGrid):
            return mean, variance
        rows = candidate_rows(self.grid, Z)
        return mean[rows], variance[rows]

    @property
    def nugget_variance(self) -> float:
        """Return the variance of the models' nugget."""
        return 0.0

    @cached_property
    def _joint_now(self) -> JointPosterior:
        """Return the joint posterior of all candidates and of further readings, both at `now`."""
        return self.joint_posterior(self.now, 1.0) if self.fantasy is None else self.fantasy

    def fantasize(self, Z: Array, noise: float | Array, grid: CandidateGrid | None) -> Self:  # noqa: ARG002
        """Return the posterior given readings of candidates Z (k, p) whose values are unknown."""
        readings = Data(Z, np.empty((len(Z), 0)), np.full(len(Z), noise) + self.nugget_variance)
        readings = Groups.of(Z).merge(readings)
        rows = candidate_rows(self.grid, readings.Z)
        variance = np.zeros(len(self.grid.points))
        variance[rows] = readings.variance
        fantasy = replace(self._joint_now, noise_variance=variance).condition_on(*rows.tolist())
        return replace(self, fantasy=fantasy)  # type: ignore[type-var]  # a dataclass

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of the candidates of inputs [x, t], at `now`."""
        all_rows = list(range(len(self.grid.points)))
        rows, others = (
            all_rows if isinstance(Z, CandidateGrid) else candidate_rows(self.grid, Z).tolist()
            for Z in (Z1, Z2)
        )
        return self._joint_now.covariance(rows, others)


def prior_of(posterior: Posterior) -> Prior:
    """Return the learned prior of a posterior, or that of its kernel before any reading."""
    if isinstance(posterior, CandidatePosterior):
        return posterior.prior
    return KernelPrior(posterior.summary.kernel)


@discard_before.register
def _(posterior: CandidatePosterior, t: float) -> Any:
    """Return the posterior without the readings before `t`, which are in the state of the models."""
    return replace(posterior, data=posterior.data.rows_since(t))  # type: ignore[type-var]


@look_ahead.register
def _(
    posterior: CandidatePosterior,
    scaled: ScaledPosterior,  # noqa: ARG001 - an ensemble's posterior is in the unit of the reward
    points: Array,
    answer_time: float,
    beta: float,
    noise_variance: float,
) -> JointPosterior:
    """Return the joint posterior of the models, which include the nugget of an answer."""
    joint = posterior.joint_posterior(answer_time, beta, noise_variance)
    if len(points) == len(joint):
        return joint
    return joint.take(candidate_rows(posterior.grid, points))

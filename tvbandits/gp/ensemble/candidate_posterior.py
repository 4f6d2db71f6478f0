"""What the posteriors of candidates share that learn mean and scale of the reward themselves.

It is for answering the questions of `gp.posterior.Posterior` from a forecast of all
candidates. Readings at inputs [x, t] go in, and become numbers of candidates; out come means and
covariances of some candidates.
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
        Rewards, and variances of their noise.
    """

    rows: Index
    values: Array
    variance: Array


def candidate_rows(grid: CandidateGrid, Z: Array) -> Index:
    """Return the numbers (n,) of the candidates at inputs [x, t] (n, p).

    Raises
    ------
    ValueError
        If a point is no candidate.
    """
    X = Z[:, : grid.points.shape[1]]
    rows = grid.indices(X)
    if None in rows:
        raise ValueError(f"an ensemble observes candidates, got the point {X[rows.index(None)]}")
    return np.array(rows, dtype=np.int64)


def readings_by_time(grid: CandidateGrid, data: Data) -> Iterator[tuple[float, Readings]]:
    """Yield the different times of data, which are in order of time, and the readings of each."""
    start = 0
    for t, same in groupby(data.Z[:, -1].tolist()):
        part = slice(start, start + len(list(same)))
        rows = candidate_rows(grid, data.Z[part])
        yield t, Readings(rows, data.Y[part, 0], data.variance[part])
        start = part.stop


def prior_posterior(
    kernel: Any, data: Data, grid: CandidateGrid, now: float
) -> ExactPosterior | None:
    """Return the prior of the kernel; None if data, which are in order of time, has a reading by now."""
    if len(data) and now >= data.Z[0, -1]:
        return None
    none = Data(grid.at(now)[:0], data.Y[:0], data.variance[:0])
    return condition_by_cholesky(kernel, none, grid=grid, now=now)


class CandidatePosterior:
    """The part of a `Posterior` that follows from the joint posterior of all candidates.

    Attributes
    ----------
    kernel : scikit-learn kernel
    grid : CandidateGrid
    data : Data
        All readings, in order of time.
    now : float
        The time it is about.
    fantasy : JointPosterior or None
        About that time, if some more candidates had been read.
    """

    kernel: Any
    grid: CandidateGrid
    data: Data
    now: float
    fantasy: JointPosterior | None

    def __getstate__(self) -> dict[str, Any]:
        """Return all fields but what can be computed again."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # a dataclass
        return {name: self.__dict__[name] for name in names} | {"fantasy": None}

    def joint_posterior(
        self, about: float, beta: float, noise_variance: Any = None
    ) -> JointPosterior:
        """Return the posterior of all candidates now, with what readings of a time would change."""
        raise NotImplementedError

    def predict_candidates(self) -> tuple[Array, Array]:
        """Return means (A, 1) and variances (A,) at the candidates."""
        raise NotImplementedError

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> Self | None:
        """Return the posterior with more readings; None where that needs conditioning."""
        raise NotImplementedError

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Return centred draws (count, A) at the candidates."""
        raise NotImplementedError

    @property
    def prior(self) -> Prior:
        """What was learned of the reward."""
        raise NotImplementedError

    @property
    def summary(self) -> PosteriorSummary:
        """Facts about it: the mean is not linear in the values.

        Widths that depend on the information gain belong to theorems about a single known kernel.
        """
        nan = np.full((1, 1), np.nan)
        size = len(self.data)
        return PosteriorSummary(self.kernel, self.data, size, nan, math.nan, lambda: math.nan)

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, 1) and variances (n,) at candidates [x, t], all of them now."""
        mean, variance = self.predict_candidates()
        if isinstance(Z, CandidateGrid):
            return mean, variance
        rows = candidate_rows(self.grid, Z)
        return mean[rows], variance[rows]

    @property
    def own_nugget(self) -> float:
        """Return the variance of the nugget, as the models have it."""
        return 0.0

    @cached_property
    def _joint_now(self) -> JointPosterior:
        """Return the posterior of all candidates now, with what readings of now would change."""
        return self.joint_posterior(self.now, 1.0) if self.fantasy is None else self.fantasy

    def fantasize(self, Z: Array, noise: float | Array, grid: CandidateGrid | None) -> Self:  # noqa: ARG002
        """Return the same with more readings of candidates Z (k, p), whose values are unknown."""
        readings = Data(Z, np.empty((len(Z), 0)), np.full(len(Z), noise) + self.own_nugget)
        readings = Groups.of(Z).merge(readings)
        rows = candidate_rows(self.grid, readings.Z)
        variance = np.zeros(len(self.grid.points))
        variance[rows] = readings.variance
        fantasy = replace(self._joint_now, noise_variance=variance).after(*rows.tolist())
        return replace(self, fantasy=fantasy)  # type: ignore[type-var]  # a dataclass

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of candidates [x, t], all of them now."""
        every = list(range(len(self.grid.points)))
        rows, others = (
            every if isinstance(Z, CandidateGrid) else candidate_rows(self.grid, Z).tolist()
            for Z in (Z1, Z2)
        )
        return self._joint_now.covariance(rows, others)


def prior_of(posterior: Posterior) -> Prior:
    """Return what a posterior has learned of the reward; before any reading, that of its kernel."""
    if isinstance(posterior, CandidatePosterior):
        return posterior.prior
    return KernelPrior(posterior.summary.kernel)


@discard_before.register
def _(posterior: CandidatePosterior, t: float) -> Any:
    """Without those readings: the models do not need them again."""
    return replace(posterior, data=posterior.data.rows_since(t))  # type: ignore[type-var]


@look_ahead.register
def _(
    posterior: CandidatePosterior,
    scaled: ScaledPosterior,  # noqa: ARG001 - rewards are in their own unit
    points: Array,
    about: float,
    beta: float,
    noise_variance: float,
) -> JointPosterior:
    """From the models, which know how noisy an answer of that time is."""
    joint = posterior.joint_posterior(about, beta, noise_variance)
    if len(points) == len(joint):
        return joint
    return joint.take(candidate_rows(posterior.grid, points))

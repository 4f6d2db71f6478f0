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
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from tvbandits.gp.cholesky import ExactPosterior, by_cholesky
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.rows import CandidateGrid, Data, Groups
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


def candidate_rows(surface: CandidateGrid, Z: Array) -> Index:
    """Return the numbers (n,) of the candidates at inputs [x, t] (n, p).

    Raises
    ------
    ValueError
        If a point is no candidate.
    """
    X = Z[:, : surface.points.shape[1]]
    rows = [surface.index(x) for x in X]
    if None in rows:
        raise ValueError(f"an ensemble observes candidates, got the point {X[rows.index(None)]}")
    return np.array(rows, dtype=np.int64)


def readings_by_time(surface: CandidateGrid, data: Data) -> Iterator[tuple[float, Readings]]:
    """Yield the different times of data, which are in order of time, and the readings of each."""
    start = 0
    for t, same in groupby(data.Z[:, -1].tolist()):
        part = slice(start, start + len(list(same)))
        rows = candidate_rows(surface, data.Z[part])
        yield t, Readings(rows, data.Y[part, 0], data.variance[part])
        start = part.stop


def prior_posterior(
    kernel: Any, data: Data, surface: CandidateGrid, now: float
) -> ExactPosterior | None:
    """Return the prior of the kernel; None if data, which are in order of time, has a reading by now."""
    if len(data) and now >= data.Z[0, -1]:
        return None
    none = Data(surface.at(now)[:0], data.Y[:0], data.variance[:0])
    return by_cholesky(kernel, none, surface=surface, now=now)


class CandidatePosterior:
    """The part of a `Posterior` that follows from the joint posterior of all candidates.

    Attributes
    ----------
    surface : CandidateGrid
    data : Data
        All readings, in order of time.
    now : float
        The time it is about.
    fantasy : JointPosterior or None
        About that time, if some more candidates had been read.
    """

    surface: CandidateGrid
    data: Data
    now: float
    fantasy: JointPosterior | None

    dictionary_size: ClassVar[None] = None
    dense: ClassVar[bool] = False
    jitter: ClassVar[float] = 0.0
    products: ClassVar[Array] = np.full((1, 1), np.nan)
    """Not a number: the mean is not linear in the values."""
    log_det_ratio: ClassVar[float] = math.nan
    """Widths that depend on it belong to theorems about a single known kernel."""

    def __getstate__(self) -> dict[str, Any]:
        """Return all fields but what can be computed again."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # a dataclass
        return {name: self.__dict__[name] for name in names} | {"fantasy": None}

    def joint_posterior(
        self, about: float, beta: float, noise_variance: Any = None
    ) -> JointPosterior:
        """Return the posterior of all candidates now, with what readings of a time would change."""
        raise NotImplementedError

    def on_surface(self) -> tuple[Array, Array]:
        """Return means (A, 1) and variances (A,) at the candidates."""
        raise NotImplementedError

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Return means (n, 1) and variances (n,) at candidates [x, t], all of them now."""
        rows = candidate_rows(self.surface, Z)
        mean, variance = self.on_surface()
        return mean[rows], variance[rows]

    def means_on_surface(self) -> Array:
        """Return the means (A, 1) of `on_surface`."""
        return self.on_surface()[0]

    def since(self, t: float) -> Self:
        """Return the same without the readings before a time: the models do not need them again."""
        return replace(self, data=self.data.since(t))  # type: ignore[type-var]  # a dataclass

    @property
    def own_nugget(self) -> float:
        """Return the variance of the nugget, as the models have it."""
        return 0.0

    @property
    def size(self) -> int:
        """Return the number of readings."""
        return len(self.data)

    def lookahead(
        self, points: Array, about: float, beta: float, noise_variance: float
    ) -> JointPosterior:
        """Return the posterior of candidates (n, d) now, with what answers of a time would change."""
        joint = self.joint_posterior(about, beta, noise_variance)
        if len(points) == len(joint):
            return joint
        return joint.take(candidate_rows(self.surface, points))

    @cached_property
    def _joint_now(self) -> JointPosterior:
        """Return the posterior of all candidates now, with what readings of now would change."""
        return self.joint_posterior(self.now, 1.0) if self.fantasy is None else self.fantasy

    def shrunk(self, Z: Array, noise: float | Array, surface: CandidateGrid | None) -> Self:  # noqa: ARG002
        """Return the same with more readings of candidates Z (k, p), whose values are unknown."""
        readings = Data(Z, np.empty((len(Z), 0)), np.full(len(Z), noise) + self.own_nugget)
        readings = Groups.of(Z).merge(readings)
        rows = candidate_rows(self.surface, readings.Z)
        variance = np.zeros(len(self.surface.points))
        variance[rows] = readings.variance
        fantasy = replace(self._joint_now, noise_variance=variance).after(*rows.tolist())
        return replace(self, fantasy=fantasy)  # type: ignore[type-var]  # a dataclass

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Return the posterior covariance (n1, n2) of candidates [x, t], all of them now."""
        return self._joint_now.among(*(candidate_rows(self.surface, Z).tolist() for Z in (Z1, Z2)))

    def expansion(self, worst: float) -> None:
        """Return None: this posterior is no sum of kernel rows."""

    def effective_dimension(self) -> float:
        """Return NaN, as `log_det_ratio`."""
        return math.nan

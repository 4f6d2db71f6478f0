"""The sparse posterior of a drifting reward, step by step.

For a kernel k(x, x') rho(t - t') whose correlation in time is Markov (`Drift`, or a Matern-1/2 in time),
the reward in the span of a spatial dictionary is f(x, t) = z(x)^T w_t, with weights that drift as

    w_{t+h} = rho(h) w_t + sqrt(1 - rho(h)^2) * standard normal noise,

so its posterior is a Kalman filter on m weights: O(m^2 + m A) an observation, however many came before.
It is the exact posterior when the dictionary spans every point, and where a point joins later, all
observations from then on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvbandits.kernels import advance, separate
from tvbandits.observations import Array, Index
from tvbandits.posterior import Data, ExactPosterior, Factored
from tvbandits.sparse_posterior import embed
from tvbandits.surface import Surface

UNHEARD = 1e-9
"""Observations whose correlation with the present is below this are not gone through again."""


@dataclass(frozen=True)
class DriftPosterior:
    """A filtered drifting process. Made by `Nystrom.condition`.

    Attributes
    ----------
    kernel : scikit-learn kernel
        Over [point, time].
    space : scikit-learn kernel
        Its part over points.
    data : Data
        What it is conditioned on; times do not decrease.
    dictionary : ExactPosterior
        A noise-free process on m inducing points.
    mean : array of shape (m, c)
    covariance : array of shape (m, m)
        Of the weights at the time `last`.
    last : float
        Time of the latest observation; minus infinity where there is none.
    now : float
        The time that `on_surface` speaks about, not before `last`.
    means_at, spread_at : arrays of shape (A, c) and (A,), or None
        z^T mean and z^T covariance z at the fixed points, at the time `last`.
    products : array of shape (c, c)
        Y^T (Q + Sigma)^-1 Y, by the decomposition of prediction errors.
    log_det_ratio : float
        Twice the information gain.
    """

    kernel: Any
    space: Any
    data: Data
    dictionary: ExactPosterior
    mean: Array
    covariance: Array
    last: float
    now: float
    means_at: Array | None
    spread_at: Array | None
    products: Array
    log_det_ratio: float

    @classmethod
    def prior(
        cls, kernel: Any, space: Any, columns: int, dictionary: ExactPosterior, now: float
    ) -> DriftPosterior:
        """Before any observation, on a dictionary that may have points already."""
        m = dictionary.size
        on = dictionary.surface
        empty = Data(
            np.empty((0, dictionary.rows.Z.shape[1] + 1)), np.empty((0, columns)), np.empty(0)
        )
        return cls(
            kernel,
            space,
            empty,
            dictionary,
            np.zeros((m, columns)),
            np.eye(m),
            -math.inf,
            now,
            None if on is None else np.zeros((len(on.prior), columns)),
            None if on is None else on.explained.copy(),
            np.zeros((columns, columns)),
            0.0,
        )

    @property
    def size(self) -> int:
        """Number of observations."""
        return len(self.data)

    @property
    def dictionary_size(self) -> int:
        """Number of inducing points m."""
        return self.dictionary.size

    @property
    def jitter(self) -> float:
        """What the root needed on its diagonal."""
        return self.dictionary.jitter

    @property
    def condition_number(self) -> float:
        """Lower estimate of the condition number of the covariance of the weights."""
        diagonal = np.diagonal(self.covariance)
        return float(diagonal.max() / diagonal.min()) if len(diagonal) else 1.0

    def observed(self, row: Data, decay: float) -> DriftPosterior:
        """With one observation more, `decay` = rho(its time - last): predict, then correct."""
        t = float(row.Z[0, -1])
        prior = (1.0 - decay**2) * np.eye(len(self.mean)) if decay < 1.0 else 0.0
        mean, P = decay * self.mean, decay**2 * self.covariance + prior
        z = embed(self.dictionary, row.Z[:, :-1])[0]
        carried = P @ z
        surprise = float(z @ carried) + float(row.variance[0])
        error = row.Y[0] - z @ mean
        gain = carried / surprise
        means_at, spread_at = self._surface_at(decay)
        on = self.dictionary.surface
        if on is not None and means_at is not None and spread_at is not None:
            reach = carried @ on.V.array
            means_at = means_at + np.outer(reach / surprise, error)
            spread_at = spread_at - reach**2 / surprise
        return replace(
            self,
            mean=mean + np.outer(gain, error),
            covariance=P - np.outer(gain, carried),
            last=t,
            means_at=means_at,
            spread_at=spread_at,
            products=self.products + np.outer(error, error) / surprise,
            log_det_ratio=self.log_det_ratio + math.log(surprise / float(row.variance[0])),
        )

    def on_dictionary(self, grown: ExactPosterior) -> DriftPosterior:
        """On a dictionary with more points: their weights are at their prior."""
        before, m = self.dictionary.size, grown.size
        mean = np.zeros((m, self.mean.shape[1]))
        mean[:before] = self.mean
        covariance = np.eye(m)
        covariance[:before, :before] = self.covariance
        spread_at = self.spread_at
        if spread_at is not None and grown.surface is not None:
            spread_at = spread_at + (grown.surface.V.array[before:] ** 2).sum(axis=0)
        return replace(
            self, dictionary=grown, mean=mean, covariance=covariance, spread_at=spread_at
        )

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, c) and variances (n,) at kernel inputs [point, time], none before `last`."""
        decay = np.array([self._decay(float(t)) for t in Z[:, -1]])
        z = embed(self.dictionary, Z[:, :-1])
        lengths = np.einsum("ij,ij->i", z, z)
        spread = np.einsum("ij,ij->i", z @ self.covariance, z)
        prior = np.asarray(self.kernel.diag(Z))
        variance = prior - lengths * decay**2 + spread * decay**2
        return decay[:, None] * (z @ self.mean), np.maximum(variance, 0.0)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time `now`."""
        means_at, spread_at = self._surface_at(self._decay(self.now))
        on = self.dictionary.surface
        if on is None or means_at is None or spread_at is None:
            raise ValueError("this posterior was conditioned without fixed points")
        return means_at, np.maximum(on.prior - on.explained + spread_at, 0.0)

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) between inputs of one time, not before `last`."""
        z1, z2 = embed(self.dictionary, Z1[:, :-1]), embed(self.dictionary, Z2[:, :-1])
        decay = self._decay(float(Z1[0, -1]))
        beyond = np.asarray(self.kernel(Z1, Z2)) - decay**2 * z1 @ z2.T
        return np.asarray(beyond + decay**2 * z1 @ self.covariance @ z2.T)

    def shrunk(self, z: Array, noise: float, surface: Any) -> DriftPosterior:  # noqa: ARG002
        """The same with one more observation at the input `z` (1, p), its value unknown."""
        decay = self._decay(float(z[0, -1]))
        row = Data(z, decay * embed(self.dictionary, z[:, :-1]) @ self.mean, np.array([noise]))
        return self.observed(row, decay)

    def effective_dimension(self) -> float:
        """tr(I - P): how many of the weights the observations still determine."""
        return float(len(self.covariance) - np.trace(self.covariance))

    def _decay(self, t: float) -> float:
        if math.isinf(self.last) or t == self.last:
            return 1.0 if t == self.last else 0.0
        if t < self.last:
            raise ValueError(f"a filtered posterior speaks about t >= {self.last}, got t = {t}")
        factor = advance(self.kernel, t - self.last)
        assert factor is not None  # only Markov kernels come here
        return factor

    def _surface_at(self, decay: float) -> tuple[Array | None, Array | None]:
        on = self.dictionary.surface
        if on is None or self.means_at is None or self.spread_at is None:
            return None, None
        return decay * self.means_at, decay**2 * self.spread_at + (1.0 - decay**2) * on.explained


@dataclass(frozen=True)
class Filter:
    """Conditions a drifting process, growing its dictionary by leverage scores.

    Parameters
    ----------
    oversampling : float
        A new observation's point joins with probability min(1, oversampling variance / noise).
    tolerance : float
        Share of its prior variance below which a point depends on the dictionary, and does not join.
    """

    oversampling: float
    tolerance: float

    def condition(
        self,
        kernel: Any,
        data: Data,
        surface: Surface | None,
        now: float,
        previous: object,
        rng: np.random.Generator,
    ) -> DriftPosterior:
        """Condition on `data`: on its new rows, where they follow those of `previous` in time too."""
        space = separate(kernel)
        points = None if surface is None else surface.remember(_over_points)
        if (
            isinstance(previous, DriftPosterior)
            and data.starts_with(previous.data)
            and (data.Z[len(previous.data) :, -1] >= previous.last).all()
        ):
            made, rows = previous, np.arange(len(previous.data), len(data))
        else:
            none = Data(np.empty((0, data.Z.shape[1] - 1)), np.empty((0, 0)), np.empty(0))
            empty = Factored().condition(space, none, surface=points)
            made = DriftPosterior.prior(kernel, space, data.Y.shape[1], empty, now)
            rows = _heard(kernel, data)
        for i in rows:
            made = self._observed(made, data.row(int(i)), points, rng)
        return replace(made, data=data, now=max(now, made.last))

    def _observed(
        self, made: DriftPosterior, row: Data, points: Surface | None, rng: np.random.Generator
    ) -> DriftPosterior:
        prior = float(made.kernel.diag(row.Z)[0])
        z = embed(made.dictionary, row.Z[:, :-1])[0]
        beyond = prior - float(z @ z)
        variance = float(made.predict(row.Z)[1][0])
        joins = rng.random() < self.oversampling * variance / float(row.variance[0])
        if made.dictionary.size == 0 or (joins and beyond > self.tolerance * prior):
            made = made.on_dictionary(_joined(made.dictionary, row.Z[:, :-1], points))
        return made.observed(row, made._decay(float(row.Z[0, -1])))


def _joined(dictionary: ExactPosterior, z: Array, points: Surface | None) -> ExactPosterior:
    """The dictionary with one point more."""
    Z = np.concatenate([dictionary.rows.Z, z])
    noise = 1e-12 * np.asarray(dictionary.kernel.diag(Z))
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return Factored().condition(dictionary.kernel, data, surface=points, previous=dictionary)


def _over_points(surface: Surface) -> Surface:
    """The surface of the part over points."""
    return Surface(separate(surface.kernel), surface.points)


def _heard(kernel: Any, data: Data) -> Index:
    """Rows in order of time, without those that the present no longer hears of."""
    times = data.Z[:, -1]
    order = np.asarray(np.argsort(times, kind="stable"), dtype=np.int64)
    if len(order) == 0:
        return order
    latest = float(times.max())
    decay = np.array([advance(kernel, latest - float(t)) or 0.0 for t in times[order]])
    return np.asarray(order[decay > UNHEARD], dtype=np.int64)

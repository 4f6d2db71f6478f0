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

from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.gp.kernels.structure import advance, separate
from tvbandits.gp.posteriors.candidate_cache import Surface
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.protocol import Posterior
from tvbandits.gp.posteriors.sparse import beyond_dictionary, embed

AT_ONCE = 32
"""Of more new observations than this, only the last one's effect on the fixed points is computed."""


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
        What it is conditioned on, in any order of time.
    dictionary : ExactPosterior
        A noise-free process on m inducing points.
    mean : array of shape (m, c)
    covariance : array of shape (m, m)
        Of the weights at the time `last`.
    last : float
        Time of the latest observation; minus infinity where there is none. No question may be about a
        time before it.
    now : float
        The time that `on_surface` speaks about.
    means_at, spread_at : arrays of shape (A, c) and (A,), or None
        z^T mean and z^T covariance z at the fixed points, at the time `last`.
    products : array of shape (c, c)
        Y^T (Q + Sigma)^-1 Y of the value columns of the data, by the decomposition of prediction
        errors; Q is the covariance z^T z rho.
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

    @property
    def settled(self) -> bool:
        """True: variances at the fixed points follow from step to step."""
        return True

    def observed(self, row: Data, z: Array) -> DriftPosterior:
        """With one observation more, of embedding `z` (m,), not before `last`: predict, then correct."""
        t = float(row.Z[0, -1])
        noise = float(row.variance[0])
        mean, P, means_at, spread_at = self._advanced(t)
        carried = P @ z
        surprise = max(float(z @ carried), 0.0) + noise
        error = row.Y[0] - z @ mean
        half = carried / math.sqrt(surprise)
        on = self.dictionary.surface
        if on is not None and means_at is not None and spread_at is not None:
            reach = half @ on.V.array
            means_at = means_at + np.outer(reach, error) / math.sqrt(surprise)
            spread_at = spread_at - reach**2
        return replace(
            self,
            mean=mean + np.outer(carried / surprise, error),
            covariance=P - np.outer(half, half),
            last=t,
            means_at=means_at,
            spread_at=spread_at,
            products=self.products + np.outer(error, error) / surprise,
            log_det_ratio=self.log_det_ratio + math.log(surprise / noise),
        )

    def _advanced(self, t: float) -> tuple[Array, Array, Array | None, Array | None]:
        """Mean and covariance of the weights, and `means_at` and `spread_at`, as of the time `t`."""
        decay = self._decay(t)
        if decay == 1.0:
            return self.mean, self.covariance, self.means_at, self.spread_at
        P = decay**2 * self.covariance
        P[np.diag_indices_from(P)] += 1.0 - decay**2
        return decay * self.mean, P, *self._surface_at(decay)

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
        decay = self._decays(Z)
        z = embed(self.dictionary, Z[:, :-1])
        lengths = np.einsum("ij,ij->i", z, z)
        spread = np.einsum("ij,ij->i", z @ self.covariance, z)
        prior = np.asarray(self.kernel.diag(Z))
        variance = prior - (lengths - spread) * decay**2
        return decay[:, None] * (z @ self.mean), np.maximum(variance, 0.0)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time `now`."""
        on = self.dictionary.fixed_points
        means_at, spread_at = self._surface_at(self._decay(self.now))
        assert means_at is not None  # kept wherever there are fixed points
        assert spread_at is not None
        return means_at, np.maximum(on.prior - on.explained + spread_at, 0.0)

    def means_on_surface(self) -> Array:
        """Means (A, c) at the fixed points, at the time `now`."""
        return self.on_surface()[0]

    def samples(self, surface: Surface, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the fixed points at the time `now`, shape (count, A).

        What is known of the weights has decayed since the latest observation, by rho, and new variance
        has come in its place: their covariance is rho^2 P + (1 - rho^2) I. What the dictionary leaves
        out is drawn for each point on its own.
        """
        on, decay = self.dictionary.fixed_points, self._decay(self.now)
        covariance = decay**2 * self.covariance + (1.0 - decay**2) * np.eye(self.dictionary_size)
        root = linalg.square_root(covariance)
        weights = rng.standard_normal((count, root.shape[1])) @ root.T
        spread = weights @ (on.V.array * on.shrink)
        return np.asarray(spread + beyond_dictionary(self.dictionary, count, rng))

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) between inputs [point, time], none before `last`.

        k - rho z1^T (I - P) z2 rho', with the decay rho since `last` of each input.
        """
        z1, z2 = embed(self.dictionary, Z1[:, :-1]), embed(self.dictionary, Z2[:, :-1])
        known = np.eye(len(self.covariance)) - self.covariance
        decays = np.outer(self._decays(Z1), self._decays(Z2))
        return np.asarray(self.kernel(Z1, Z2) - decays * (z1 @ known @ z2.T))

    def shrunk(self, z: Array, noise: float, surface: Any) -> DriftPosterior:  # noqa: ARG002
        """The same with one more observation at the input `z` (1, p), its value unknown.

        Variances are those of the larger set; means stay.
        """
        embedding = embed(self.dictionary, z[:, :-1])[0]
        expected = self._decay(float(z[0, -1])) * embedding @ self.mean
        return self.observed(Data(z, expected[None, :], np.array([noise])), embedding)

    def effective_dimension(self) -> float:
        """tr(I - P): how many of the weights the observations still determine."""
        return float(len(self.covariance) - np.trace(self.covariance))

    def _decay(self, t: float) -> float:
        """rho(t - last): what is left at the time `t` of what is known; 0 where nothing is."""
        if t == self.last:
            return 1.0
        if math.isinf(self.last):
            return 0.0
        if t < self.last:
            raise ValueError(
                f"a filter speaks about times from its latest observation, t = {self.last}, on, "
                f"got t = {t}; the exact posterior also speaks about earlier ones"
            )
        factor = advance(self.kernel, t - self.last)
        assert factor is not None  # only Markov kernels come here
        return factor

    def _decays(self, Z: Array) -> Array:
        """`_decay` at the times of kernel inputs, shape (n,)."""
        times, which = np.unique(Z[:, -1], return_inverse=True)
        return np.array([self._decay(float(t)) for t in times])[which]

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
        previous: Posterior | None,
        rng: np.random.Generator,
    ) -> DriftPosterior:
        """Condition on `data`: on its new rows, where none is older than those of `previous`.

        Otherwise all rows are gone through again, in order of time, from an empty dictionary.
        """
        points = None if surface is None else surface.remember(_over_points)
        times = data.Z[:, -1]
        if (
            isinstance(previous, DriftPosterior)
            and (previous.means_at is None) == (points is None)
            and data.starts_with(previous.data)
            and (times[len(previous.data) :] >= previous.last).all()
        ):
            made, start = previous, len(previous.data)
        else:
            made, start = _nothing(kernel, data, points, now), 0
        if len(data) - start > AT_ONCE:
            # What is known at the fixed points follows from the weights at the end.
            made = replace(made, means_at=None, spread_at=None)
        for i in start + np.argsort(times[start:], kind="stable"):
            made = self._observed(made, data.row(int(i)), points, rng)
        if points is not None and made.means_at is None:
            made = _on_points(made)
        return replace(made, data=data, now=now)

    def _observed(
        self, made: DriftPosterior, row: Data, points: Surface | None, rng: np.random.Generator
    ) -> DriftPosterior:
        """With one observation more, whose point may join the dictionary."""
        x, t = row.Z[:, :-1], float(row.Z[0, -1])
        prior = float(made.kernel.diag(row.Z)[0])
        z = _embedding(made.dictionary, x, points)
        decay = made._decay(t)
        variance = prior - decay**2 * float(z @ z - z @ made.covariance @ z)
        beyond = prior - float(z @ z)
        drawn = rng.random() < self.oversampling * variance / float(row.variance[0])
        if (drawn or made.dictionary.size == 0) and beyond > self.tolerance * prior:
            joined = _joined(made.dictionary, x, points)
            if joined is not None:
                made = made.on_dictionary(joined)
                z = _embedding(joined, x, points)
        return made.observed(row, z)


def _nothing(kernel: Any, data: Data, points: Surface | None, now: float) -> DriftPosterior:
    """Before any observation, with an empty dictionary."""
    space = separate(kernel)
    none = Data(np.empty((0, data.Z.shape[1] - 1)), np.empty((0, 0)), np.empty(0))
    empty = Factored().condition(space, none, surface=points)
    return DriftPosterior.prior(kernel, space, data.Y.shape[1], empty, now)


def _on_points(made: DriftPosterior) -> DriftPosterior:
    """With what is known at the fixed points, from the weights, O(m^2 A)."""
    assert made.dictionary.surface is not None  # its dictionary was made with fixed points
    V = made.dictionary.surface.V.array
    spread = np.einsum("ij,ij->j", V, made.covariance @ V)
    return replace(made, means_at=V.T @ made.mean, spread_at=spread)


def _embedding(dictionary: ExactPosterior, x: Array, points: Surface | None) -> Array:
    """z(x) for one point x (1, d), shape (m,): at hand where x is one of the fixed points."""
    where = None if points is None else points.index(x[0])
    if where is None or dictionary.surface is None:
        return np.asarray(embed(dictionary, x)[0])
    return np.ascontiguousarray(dictionary.surface.V.array[:, where])


def _joined(dictionary: ExactPosterior, x: Array, points: Surface | None) -> ExactPosterior | None:
    """The dictionary with one point more; None where its root would not stay the same."""
    noise = 1e-12 * np.asarray(dictionary.kernel.diag(x))
    before = dictionary.data
    data = Data(
        np.concatenate([before.Z, x]),
        np.empty((len(before) + 1, 0)),
        np.concatenate([before.variance, noise]),
    )
    grown = Factored().condition(dictionary.kernel, data, surface=points, previous=dictionary)
    m = dictionary.size
    same = np.array_equal(grown.factor.array[:m, :m], dictionary.factor.array)
    return grown if same and grown.size == m + 1 else None


def _over_points(surface: Surface) -> Surface:
    """The surface of the part over points."""
    return Surface(separate(surface.kernel), surface.points)

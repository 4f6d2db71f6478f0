"""The sparse posterior of a drifting reward, step by step.

For a kernel k(x, x') rho(t - t') whose correlation in time is Markov (`Drift`, or a Matern-1/2 in time),
the reward in the span of a spatial dictionary is f(x, t) = z(x)^T w_t, with weights that drift as

    w_{t+h} = rho(h) w_t + sqrt(1 - rho(h)^2) * standard normal noise,

so its posterior is the Kalman filter on m weights (`tvbandits.gp.posteriors.kalman`): O(m^2 + m A) an
observation, however many came before. It is the exact posterior when the dictionary spans every point,
and where a point joins later, all observations from then on. Questions about times before the latest
observation are answered by smoothing, O(m^2) for each observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.gp.kernels.structure import advance
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import ExactPosterior, beyond_dictionary, embed
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.kalman import FeatureRows, Filter, lowest_noise, recall


@dataclass(frozen=True)
class Weights:
    """How the weights of a dictionary move: independent of each other, all at one rate.

    Attributes
    ----------
    kernel : scikit-learn kernel
        Whose correlation in time is Markov.
    size : int
        Number of weights m.
    """

    kernel: Any
    size: int

    @property
    def prior(self) -> Array:
        """Ones (m,)."""
        return np.ones(self.size)

    def decay(self, h: float) -> float:
        """rho(h), what is left after a time h >= 0; 0 after an infinite one."""
        if math.isinf(h):
            return 0.0
        factor = advance(self.kernel, h)
        assert factor is not None  # only Markov kernels come here
        return factor

    def moved(self, M: Array, h: float) -> Array:
        """What is left after a time h >= 0 of states (m, n)."""
        return self.decay(h) * M

    def advanced(self, mean: Array, P: Array, h: float) -> tuple[Array, Array]:
        """Mean (m, c) and covariance (m, m) of the weights after a time h >= 0."""
        if h == 0 or math.isinf(h):
            return mean, P
        decay = self.decay(h)
        P = decay**2 * P
        P[np.diag_indices_from(P)] += 1.0 - decay**2
        return decay * mean, P


@dataclass(frozen=True)
class DriftPosterior:
    """A filtered drifting process. Made by `tvbandits.gp.posteriors.nystrom.Growing`.

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
        Time of the latest observation; minus infinity where there is none.
    now : float
        The time that `on_surface` speaks about.
    means_at, spread_at : arrays of shape (A, c) and (A,), or None
        z^T mean and z^T covariance z at the fixed points, at the time `last`.
    products : array of shape (c, c)
        Y^T (Q + Sigma)^-1 Y of the value columns of the data, by the decomposition of prediction
        errors; Q is the covariance z^T z rho.
    log_det_ratio : float
        Twice the information gain.
    joined : integer array of shape (n,)
        How many inducing points there were when each row of `data` was observed.
    raised : float
        The most that was added to a noise variance below rounding.
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
    joined: Index
    raised: float = 0.0

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
            np.empty(0, dtype=np.int64),
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
        """The most that the root needed on its diagonal, or a noise too small for rounding."""
        return max(self.dictionary.jitter, self.raised)

    @property
    def condition_number(self) -> float:
        """Lower estimate of the condition number of the covariance of the weights."""
        return linalg.spread_of(np.diagonal(self.covariance))

    @property
    def settled(self) -> bool:
        """True: variances at the fixed points follow from step to step."""
        return True

    def observed(self, row: Data, z: Array) -> DriftPosterior:
        """With one observation more, of embedding `z` (m,), not before `last`."""
        t = float(row.Z[0, -1])
        means_at, spread_at = self._surface_at(self._decay(t))
        mean, P = self._model.advanced(self.mean, self.covariance, t - self.last)
        if P is self.covariance:
            mean, P = mean.copy(), P.copy()
        made = Filter(self._model, mean, P, t, self.products.copy(), self.log_det_ratio)
        rows, raised = self._as_rows(row, z[None, :])
        half, error, spread = made.correct(rows, 0)
        on = self.dictionary.surface
        if on is not None and means_at is not None and spread_at is not None:
            reach = half @ on.V.array
            means_at = means_at + np.outer(reach, error) / math.sqrt(spread)
            spread_at = spread_at - reach**2
        return replace(
            self,
            mean=made.mean,
            covariance=made.covariance,
            last=t,
            means_at=means_at,
            spread_at=spread_at,
            products=made.products,
            log_det_ratio=made.log_det_ratio,
            raised=max(self.raised, raised),
        )

    @property
    def _model(self) -> Weights:
        return Weights(self.kernel, self.dictionary.size)

    def _as_rows(self, data: Data, H: Array) -> tuple[FeatureRows, float]:
        """Observations seen through `H` (n, m), and the most that a noise was raised by."""
        lowest = lowest_noise(self._model, H)
        noise = np.maximum(data.variance, lowest)
        raised = float((lowest - data.variance).max(initial=0.0))
        return FeatureRows(data.Z[:, -1], H, data.Y, noise, data.variance), raised

    def _history(self) -> FeatureRows:
        """All observations in order of time, each seen by the inducing points that there were then."""
        order = np.argsort(self.data.Z[:, -1], kind="stable")
        data = Data(self.data.Z[order], self.data.Y[order], self.data.variance[order])
        z = embed(self.dictionary, data.Z[:, :-1])
        z[np.arange(self.dictionary.size) >= self.joined[order][:, None]] = 0.0
        return self._as_rows(data, z)[0]

    def _recalled(self, times: Array, H: Array, *, joint: bool = False) -> tuple[Array, Array]:
        """Means and (co)variances of values H w of the weights at any times, of all observations."""
        start = Filter.prior(self._model, self.mean.shape[1])
        return recall(start, self._history(), times, H, joint=joint)

    def _weights_at(self, t: float) -> tuple[Array, Array]:
        """Mean and covariance of the weights at a time."""
        m = self.dictionary.size
        if t < self.last:
            return self._recalled(np.full(m, t), np.eye(m), joint=True)
        return self._model.advanced(self.mean, self.covariance, t - self.last)

    def with_fixed_points(self) -> DriftPosterior:
        """With what is known at the fixed points, from the weights, O(m^2 A)."""
        V = self.dictionary.fixed_points.V.array
        spread = np.einsum("ij,ij->j", V, self.covariance @ V)
        return replace(self, means_at=V.T @ self.mean, spread_at=spread)

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
        """Means (n, c) and variances (n,) at kernel inputs [point, time]."""
        z = embed(self.dictionary, Z[:, :-1])
        lengths = np.einsum("ij,ij->i", z, z)
        prior = np.asarray(self.kernel.diag(Z))
        early = Z[:, -1] < self.last
        decay = self._decays(np.maximum(Z[:, -1], self.last))
        means = decay[:, None] * (z @ self.mean)
        known = (lengths - np.einsum("ij,ij->i", z @ self.covariance, z)) * decay**2
        if early.any():
            means[early], spread = self._recalled(Z[early, -1], z[early])
            known[early] = lengths[early] - spread
        return means, np.maximum(prior - known, 0.0)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time `now`."""
        on = self.dictionary.fixed_points
        if self.now < self.last:
            mean, P = self._weights_at(self.now)
            V = on.V.array
            means_at, spread_at = V.T @ mean, np.einsum("ij,ij->j", V, P @ V)
        else:
            means, spread = self._surface_at(self._decay(self.now))
            assert means is not None  # kept wherever there are fixed points
            assert spread is not None
            means_at, spread_at = means, spread
        return means_at, np.maximum(on.prior - on.explained + spread_at, 0.0)

    def means_on_surface(self) -> Array:
        """Means (A, c) at the fixed points, at the time `now`."""
        return self.on_surface()[0]

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the fixed points at the time `now`, shape (count, A).

        What is known of the weights has decayed since the latest observation, by rho, and new variance
        has come in its place: their covariance is rho^2 P + (1 - rho^2) I. What the dictionary leaves
        out is drawn for each point on its own.
        """
        on = self.dictionary.fixed_points
        root = linalg.square_root(self._weights_at(self.now)[1])
        weights = rng.standard_normal((count, root.shape[1])) @ root.T
        spread = weights @ (on.V.array * on.shrink)
        return np.asarray(spread + beyond_dictionary(self.dictionary, count, rng))

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) between inputs [point, time].

        From `last` on it is k - rho z1^T (I - P) z2 rho', with the decay rho since `last` of each input.
        """
        z1, z2 = embed(self.dictionary, Z1[:, :-1]), embed(self.dictionary, Z2[:, :-1])
        times = np.concatenate([Z1[:, -1], Z2[:, -1]])
        if (times < self.last).any():
            _, spread = self._recalled(times, np.concatenate([z1, z2]), joint=True)
            apart = np.abs(Z1[:, None, -1] - Z2[:, -1])
            gaps, which = np.unique(apart, return_inverse=True)
            rho = np.array([self._model.decay(h) for h in gaps])[which].reshape(apart.shape)
            known = rho * (z1 @ z2.T) - spread[: len(Z1), len(Z1) :]
        else:
            beyond = np.eye(len(self.covariance)) - self.covariance
            decays = np.outer(self._decays(Z1[:, -1]), self._decays(Z2[:, -1]))
            known = decays * (z1 @ beyond @ z2.T)
        return np.asarray(self.kernel(Z1, Z2) - known)

    def shrunk(self, z: Array, noise: float, surface: CandidateGrid | None) -> DriftPosterior:  # noqa: ARG002
        """The same with one more observation at the input `z` (1, p), its value unknown.

        Variances are those of the larger set; means stay.
        """
        expected = self.predict(z)[0]
        row = Data(z, expected, np.array([noise]))
        data = Data(*(np.concatenate(pair) for pair in zip(self.data, row, strict=True)))
        grown = replace(self, data=data, joined=np.append(self.joined, self.dictionary.size))
        if z[0, -1] >= self.last:
            return grown.observed(row, embed(self.dictionary, z[:, :-1])[0])
        made = Filter.prior(self._model, expected.shape[1]).run(grown._history())
        again = replace(
            grown,
            mean=made.mean,
            covariance=made.covariance,
            products=made.products,
            log_det_ratio=made.log_det_ratio,
        )
        return again if self.means_at is None else again.with_fixed_points()

    def effective_dimension(self) -> float:
        """tr(I - P): how many of the weights the observations still determine."""
        return float(len(self.covariance) - np.trace(self.covariance))

    def _decay(self, t: float) -> float:
        """rho(t - last): what is left at the time `t` of what is known; 0 where nothing is."""
        return 1.0 if t == self.last else self._model.decay(t - self.last)

    def _decays(self, times: Array) -> Array:
        """`_decay` at times (n,), none before `last`."""
        distinct, which = np.unique(times, return_inverse=True)
        return np.array([self._decay(float(t)) for t in distinct])[which]

    def _surface_at(self, decay: float) -> tuple[Array | None, Array | None]:
        on = self.dictionary.surface
        if on is None or self.means_at is None or self.spread_at is None:
            return None, None
        return decay * self.means_at, decay**2 * self.spread_at + (1.0 - decay**2) * on.explained

"""What weighted filters predict, in the unit of reward.

It is for turning states into forecasts. Filters and the weights of their models go in; out come means,
deviations and covariances of rewards, now and at a later time.

The models together are a mixture of normal variables, of which the first two moments are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from tvbandits.gp import linalg
from tvbandits.gp.ensemble.dynamics import Dynamics
from tvbandits.gp.ensemble.filters import Filters
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.gp.lookahead import ALL_POINTS, JointPosterior, Rows
from tvbandits.validation import Array


@dataclass(frozen=True)
class ForecastConfig:
    """The constants of the predictions.

    Attributes
    ----------
    later_steps : int
        Number of steps after a decision that count as its future.
    noise_ratio : float
        The noise of later readings is rounded to powers of this, in units of the squared scale: it
        changes little from step to step, so that results for one power can be used again.
    """

    later_steps: int = 32
    noise_ratio: float = 1.1


CONFIG = ForecastConfig()


@dataclass(frozen=True)
class MixtureMoments:
    """The first two moments of a mixture of models with the same features, in folded states.

    Attributes
    ----------
    weight : float
        Of these models together, in the ensemble.
    basis : array of shape (A, c)
        The features, which observe a folded state.
    mean, later_mean : arrays of shape (c,)
        Now, and at the later time.
    covariance, later_covariance : arrays of shape (c, c)
    cross_covariance : array of shape (c, c)
        Of the folded state now (rows) with that at the later time (columns).
    residual : array of shape (A,)
        Variance that the features leave out.
    nugget : float
        Variance of the nugget.
    """

    weight: float
    basis: Array
    mean: Array
    later_mean: Array
    covariance: Array
    later_covariance: Array
    cross_covariance: Array
    residual: Array
    nugget: float

    @classmethod
    def of(
        cls, parts: Sequence[tuple[Filters, Array]], h: float, with_present: bool
    ) -> MixtureMoments:
        """Return the moments of filters on one basis, with the weights of their models.

        Parameters
        ----------
        parts : sequence of pairs (Filters, array of shape (M,))
        h : float
            Steps to the later time.
        with_present : bool
            Whether the moments of now are computed; else they are empty.
        """
        total = float(sum(weights.sum() for _, weights in parts))
        shares = np.concatenate([weights for _, weights in parts]) / total
        sums, residual, nugget = np.zeros(1), np.zeros(1), 0.0
        means, later_means = [], []
        for filters, weights in parts:
            dynamics, size, later = filters.dynamics, filters.dynamics.size, filters.predict(h)
            # The covariance of a later state (rows) with one now is F P: moved on one side only.
            covariances = [later.covariance]
            if with_present:
                covariances += [filters.covariance, dynamics.propagate(filters.covariance, h)]
                means.append(dynamics.fold(filters.mean))
            later_means.append(dynamics.fold(later.mean))
            factors = weights / total * filters.variance
            mixed = np.array([factors @ each.reshape(len(factors), -1) for each in covariances])
            # Folded from the left; and, transposed, from the right.
            half = dynamics.fold(mixed.reshape(-1, size, size).swapaxes(1, 2))
            sums = sums + dynamics.fold(half.swapaxes(1, 2))
            residual = residual + factors @ dynamics.residual
            nugget += float(factors @ dynamics.nugget)

        def split(means: Sequence[Array]) -> tuple[Array, Array]:
            """Return the mean of all models, and the difference of each of them from it."""
            each = np.concatenate(means)
            return shares @ each, each - shares @ each

        def between(one: Array, other: Array) -> Array | float:
            """Return the covariance between the means of the models, which adds to those within."""
            return (one.T * shares) @ other if len(shares) > 1 else 0.0

        later_mean, later_apart = split(later_means)
        mean = covariance = cross_covariance = np.zeros(0)
        if with_present:
            mean, apart = split(means)
            covariance = sums[1] + between(apart, apart)
            cross_covariance = sums[2].T + between(apart, later_apart)
        later_covariance = sums[0] + between(later_apart, later_apart)
        return cls(
            total,
            dynamics.basis,
            mean,
            later_mean,
            covariance,
            later_covariance,
            cross_covariance,
            residual,
            nugget,
        )


@dataclass(frozen=True)
class Forecast:
    """The prediction of the rewards at all points at one time, in the unit of reward.

    Attributes
    ----------
    mean : array of shape (A,)
    deviation : array of shape (A,)
        Of the reward with its nugget, inflated by what innovations have shown.
    learnable : array of shape (A,)
        The part of the deviation that observations could remove: confidence widths multiply it.
    """

    mean: Array
    deviation: Array
    learnable: Array


class _RewardMoments(NamedTuple):
    """The moments of the rewards at all points at one time.

    Attributes
    ----------
    mean : array of shape (A,)
        Of the rewards less the origin.
    apart : array of shape (mixtures, A)
        Difference of the mean of each mixture from that of all.
    learnable : array of shape (A,)
        Variance of the rewards without the nugget.
    nugget : float
    """

    mean: Array
    apart: Array
    learnable: Array
    nugget: float


@dataclass(frozen=True)
class MixturePrediction:
    """The prediction of a mixture of all models, now and at a later time.

    Attributes
    ----------
    mixtures : sequence of MixtureMoments
        One for each basis.
    origin : float
    inflation : float
        Factor on deviations.
    """

    mixtures: Sequence[MixtureMoments]
    origin: float
    inflation: float

    def _moments(self, states: Sequence[tuple[Array, Array]]) -> _RewardMoments:
        """Return the moments, given mean and covariance of the folded state of each mixture."""
        pairs = list(zip(self.mixtures, states, strict=True))
        shares = np.array([m.weight for m in self.mixtures])
        shares /= shares.sum()
        means = np.array([m.basis @ mean for m, (mean, _) in pairs])
        variances = [
            np.einsum("ij,ij->i", m.basis @ covariance, m.basis) + m.residual
            for m, (_, covariance) in pairs
        ]
        center = shares @ means
        apart = means - center
        learnable = np.maximum(shares @ (np.array(variances) + apart**2), 0.0)
        nugget = float(shares @ np.array([m.nugget for m in self.mixtures]))
        return _RewardMoments(center, apart, learnable, nugget)

    @cached_property
    def _later(self) -> _RewardMoments:
        """Return the moments at the later time."""
        return self._moments([(m.later_mean, m.later_covariance) for m in self.mixtures])

    def forecast(self) -> Forecast:
        """Return the forecast of the later time."""
        later = self._later
        return Forecast(
            self.origin + later.mean,
            self.inflation * np.sqrt(later.learnable + later.nugget),
            self.inflation * np.sqrt(later.learnable),
        )

    def joint_posterior(self, noise_variance: float, beta: float) -> JointPosterior:
        """Return the posterior of the later time, with what readings now would change about it.

        Parameters
        ----------
        noise_variance : float
            Of the sensor.
        beta : float
            Confidence width, in deviations.
        """
        forecast, mixtures, later = self.forecast(), self.mixtures, self._later
        now = self._moments([(m.mean, m.covariance) for m in mixtures])

        def covariance(rows: Rows, others: Rows | slice, at_later: bool) -> Array:
            """Return the covariance of rewards now with those at others, now or at the later time."""
            r = np.asarray(rows, dtype=np.int64)
            s = others if isinstance(others, slice) else np.asarray(others, dtype=np.int64)
            then = later if at_later else now
            total = np.zeros((len(r), len(then.mean[s])))
            for m, here, there in zip(mixtures, now.apart, then.apart, strict=True):
                state = m.cross_covariance if at_later else m.covariance
                total += (m.weight * m.basis[r] @ state) @ m.basis[s].T
                if len(mixtures) > 1:  # a single one is nowhere apart from the mean of all
                    total += (m.weight * here[r])[:, None] * there[s]
                if not (at_later or isinstance(s, slice)):
                    total += m.weight * (r[:, None] == s) * m.residual[r][:, None]
            return total

        return JointPosterior(
            forecast.mean,
            forecast.learnable,
            beta,
            noise_variance + now.nugget,
            lambda rows, others=ALL_POINTS: covariance(rows, others, at_later=True),
            lambda rows, others: covariance(rows, others, at_later=False),
            now.learnable,
        )


# --- the share of a deviation that later readings would remove ------------------------------------
# [LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS
# 2023. They draw the expectation of the next reward given all readings after it; here the deviation of
# that expectation is the width of a bound.


@dataclass(frozen=True)
class _ModelOnPoints:
    """A model on some points, as a key of a cache: equal for the same model on the same points."""

    model: ModelSpec
    shape: tuple[int, ...]
    points: bytes
    dynamics: Dynamics = field(compare=False, repr=False)


def persistent_share(filters: Filters, points: Array, noise_variance: float) -> Array:
    """Return the share (A,) of the deviation of a reward that readings after the decision would remove.

    The next reward is expected anew once all points were read for 32 steps: the share is the deviation
    of that change, over the deviation of the reward without its nugget. It is 0 where the reward is
    forgotten at once, and near 1 where points differ for long.

    Parameters
    ----------
    filters : Filters
        A single model, at the time of the decision.
    points : array of shape (A, d)
    noise_variance : float
        Of the sensor.
    """
    dynamics, P = filters.dynamics, filters.covariance[0]
    noise = float(dynamics.nugget[0]) + noise_variance / float(filters.variance[0])
    model = _ModelOnPoints(filters.models[0], points.shape, points.tobytes(), dynamics)
    J = later_precision(model, round(math.log(noise) / math.log(CONFIG.noise_ratio)))
    # Later readings move the expectation of the state by a variable of the covariance
    # P - (P^-1 + J)^-1, which is what [LX] sample. With P = C C', P^-1 + J is
    # C'^-1 (1 + C' J C) C^-1.
    root = linalg.square_root(P)
    change = root @ root.T - _weighted_square(root.T @ J @ root, root.T)
    H = dynamics.observation(np.arange(len(points)))
    covariances = (change + change.T) / 2, P
    removable, total = (np.einsum("ij,jk,ik->i", H, each, H) for each in covariances)
    share = np.maximum(removable, 0.0) / np.maximum(total, np.finfo(float).tiny)
    return np.asarray(np.sqrt(np.minimum(share, 1.0)))


@lru_cache(maxsize=48)
def later_precision(model: _ModelOnPoints, noise_power: int) -> Array:
    """Return the information of readings after a decision about the state at it, a precision (S, S).

    It is computed from the last step backwards: a reading of all points adds H' H / noise to the
    precision J about a state, and a step back with the transition F and process noise Q turns it into
    F' (J^-1 + Q)^-1 F.

    Parameters
    ----------
    model : _ModelOnPoints
    noise_power : int
        The noise is 1.1 to this power, in units of the squared scale.
    """
    dynamics = model.dynamics
    H = dynamics.observation(np.arange(len(dynamics.basis)))
    F = dynamics.propagate(np.eye(dynamics.size)[None], 1.0)[0]
    root = linalg.square_root(dynamics.prior[0] - F @ dynamics.prior[0] @ F.T)
    reading, J = H.T @ H / CONFIG.noise_ratio**noise_power, np.zeros((len(F), len(F)))
    for _ in range(CONFIG.later_steps):
        J = J + reading
        # (J^-1 + Q)^-1 with Q = C C' is J - J C (1 + C' J C)^-1 C' J.
        J = J - _weighted_square(root.T @ J @ root, root.T @ J)
        J = F.T @ J @ F
        J = (J + J.T) / 2
    return np.asarray(J)


def _weighted_square(M: Array, B: Array) -> Array:
    """Return B' (1 + M)^-1 B for a positive semidefinite M."""
    matrix = np.eye(len(M)) + (M + M.T) / 2
    half = linalg.solve_lower(linalg.cholesky(matrix, "the precision of later readings").L, B)
    return np.asarray(half.T @ half)

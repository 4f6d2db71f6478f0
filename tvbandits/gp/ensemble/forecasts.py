"""Compute forecasts, in the unit of the reward, from filters and the weights of their models.

A forecast consists of means, deviations and covariances of rewards at the present and at a later time:
the first two moments of the mixture of normal distributions of all models.
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
    """Constants of the forecasts.

    Attributes
    ----------
    later_steps : int
        Number of steps after a decision whose readings `compute_persistent_share` takes into account.
    noise_ratio : float
        The noise variance of later readings, in units of the squared scale, is rounded to powers of this
        number. It changes little from step to step, so that results can be cached by their power.
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
        The sum of the weights of these models in the ensemble.
    basis : array of shape (A, c)
        The features: basis @ folded state is the reward at the points.
    mean, later_mean : arrays of shape (c,)
        Means of the folded state at the present and at the later time.
    covariance, later_covariance : arrays of shape (c, c)
        Covariances of the folded state at the present and at the later time.
    cross_covariance : array of shape (c, c)
        Covariance of the present folded state (rows) with the later one (columns).
    residual : array of shape (A,)
        Variances that the features leave out.
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
        """Return the moments of filters with the same basis.

        Parameters
        ----------
        parts : sequence of pairs (Filters, array of shape (M,))
            Filters with the weights of their models.
        h : float
            Steps to the later time.
        with_present : bool
            Whether the present moments are computed; otherwise they are empty.
        """
        total = float(sum(weights.sum() for _, weights in parts))
        shares = np.concatenate([weights for _, weights in parts]) / total
        sums, residual, nugget = np.zeros(1), np.zeros(1), 0.0
        means, later_means = [], []
        for filters, weights in parts:
            dynamics, size, later = filters.dynamics, filters.dynamics.size, filters.predict(h)
            # The covariance of the later state (rows) with the present one is F P.
            covariances = [later.covariance]
            if with_present:
                covariances += [filters.covariance, dynamics.propagate(filters.covariance, h)]
                means.append(dynamics.fold(filters.mean))
            later_means.append(dynamics.fold(later.mean))
            factors = weights / total * filters.variance
            mixture = np.array([factors @ C.reshape(len(factors), -1) for C in covariances])
            # Fold from the left and, after a transposition, from the right.
            half = dynamics.fold(mixture.reshape(-1, size, size).swapaxes(1, 2))
            sums = sums + dynamics.fold(half.swapaxes(1, 2))
            residual = residual + factors @ dynamics.residual
            nugget += float(factors @ dynamics.nugget)

        def split(means: Sequence[Array]) -> tuple[Array, Array]:
            """Return the mean over all models, and the deviations of the models' means from it."""
            model_means = np.concatenate(means)
            mean = shares @ model_means
            return mean, model_means - mean

        def between(rows: Array, columns: Array) -> Array | float:
            """Return the covariance between models, from the deviations of their means."""
            return (rows.T * shares) @ columns if len(shares) > 1 else 0.0

        later_mean, later_deviations = split(later_means)
        mean = covariance = cross_covariance = np.zeros(0)
        if with_present:
            mean, deviations = split(means)
            covariance = sums[1] + between(deviations, deviations)
            cross_covariance = sums[2].T + between(deviations, later_deviations)
        later_covariance = sums[0] + between(later_deviations, later_deviations)
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
    """The prediction of the rewards at all points at one time, in the unit of the reward.

    Attributes
    ----------
    mean : array of shape (A,)
    deviation : array of shape (A,)
        Deviations of the rewards with the nugget, inflated according to past innovations.
    learnable : array of shape (A,)
        Deviations without the nugget, which observations could remove; confidence widths multiply these.
    """

    mean: Array
    deviation: Array
    learnable: Array


class _RewardMoments(NamedTuple):
    """The moments of the rewards at all points at one time.

    Attributes
    ----------
    mean : array of shape (A,)
        Means of the rewards minus the origin.
    deviations : array of shape (mixtures, A)
        Differences of the mean of each mixture from the mean of all.
    learnable : array of shape (A,)
        Variances of the rewards without the nugget.
    nugget : float
        Variance of the nugget.
    """

    mean: Array
    deviations: Array
    learnable: Array
    nugget: float


@dataclass(frozen=True)
class MixturePrediction:
    """The prediction of a mixture of all models, at the present and at a later time.

    Attributes
    ----------
    mixtures : sequence of MixtureMoments
        One for each basis.
    origin : float
        The constant that was subtracted from the rewards.
    inflation : float
        Factor on deviations.
    """

    mixtures: Sequence[MixtureMoments]
    origin: float
    inflation: float

    def _moments(self, states: Sequence[tuple[Array, Array]]) -> _RewardMoments:
        """Return the moments for a mean and covariance of the folded state of each mixture."""
        pairs = list(zip(self.mixtures, states, strict=True))
        shares = np.array([m.weight for m in self.mixtures])
        shares /= shares.sum()
        means = np.array([m.basis @ mean for m, (mean, _) in pairs])
        variances = [
            np.einsum("ij,ij->i", m.basis @ covariance, m.basis) + m.residual
            for m, (_, covariance) in pairs
        ]
        center = shares @ means
        deviations = means - center
        learnable = np.maximum(shares @ (np.array(variances) + deviations**2), 0.0)
        nugget = float(shares @ np.array([m.nugget for m in self.mixtures]))
        return _RewardMoments(center, deviations, learnable, nugget)

    @cached_property
    def _later(self) -> _RewardMoments:
        """Return the moments at the later time."""
        return self._moments([(m.later_mean, m.later_covariance) for m in self.mixtures])

    def forecast(self) -> Forecast:
        """Return the forecast for the later time."""
        later = self._later
        return Forecast(
            self.origin + later.mean,
            self.inflation * np.sqrt(later.learnable + later.nugget),
            self.inflation * np.sqrt(later.learnable),
        )

    def joint_posterior(self, noise_variance: float, beta: float) -> JointPosterior:
        """Return the joint posterior of a decision at the later time and of readings at the present.

        Parameters
        ----------
        noise_variance : float
            Noise variance of the sensor.
        beta : float
            Confidence width, in deviations.
        """
        forecast, mixtures, later = self.forecast(), self.mixtures, self._later
        present = self._moments([(m.mean, m.covariance) for m in mixtures])

        def covariance(rows: Rows, others: Rows | slice, at_later: bool) -> Array:
            """Return the covariance of present rewards with present or later ones at `others`."""
            r = np.asarray(rows, dtype=np.int64)
            s = others if isinstance(others, slice) else np.asarray(others, dtype=np.int64)
            moments = later if at_later else present
            total = np.zeros((len(r), len(moments.mean[s])))
            deviations = zip(mixtures, present.deviations, moments.deviations, strict=True)
            for m, left, right in deviations:
                state = m.cross_covariance if at_later else m.covariance
                total += (m.weight * m.basis[r] @ state) @ m.basis[s].T
                if len(mixtures) > 1:  # the deviations of a single mixture are 0
                    total += (m.weight * left[r])[:, None] * right[s]
                if not (at_later or isinstance(s, slice)):
                    total += m.weight * (r[:, None] == s) * m.residual[r][:, None]
            return total

        return JointPosterior(
            forecast.mean,
            forecast.learnable,
            beta,
            noise_variance + present.nugget,
            lambda rows, others=ALL_POINTS: covariance(rows, others, at_later=True),
            lambda rows, others: covariance(rows, others, at_later=False),
            present.learnable,
        )


# --- the fraction of a deviation that later readings would remove ---------------------------------
# [LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS
# 2023. They sample the expectation of the next reward given all readings after it. Here the
# deviation of that expectation is the width of a bound.


@dataclass(frozen=True)
class _ModelOnPoints:
    """A model on some points, as the key of a cache."""

    model: ModelSpec
    shape: tuple[int, ...]
    points: bytes
    dynamics: Dynamics = field(compare=False, repr=False)


def compute_persistent_share(filters: Filters, points: Array, noise_variance: float) -> Array:
    """Return the fraction (A,) of each reward's deviation that readings after it would remove.

    If all points were read in the `later_steps` after a decision, the expectation of its reward would
    change. The fraction is the deviation of that change over the deviation of the reward without its
    nugget. It is 0 if the reward is forgotten at once, and near 1 if points differ permanently.

    Parameters
    ----------
    filters : Filters
        The filter of a single model, at the time of the decision.
    points : array of shape (A, d)
    noise_variance : float
        Noise variance of the sensor.
    """
    dynamics, P = filters.dynamics, filters.covariance[0]
    noise = float(dynamics.nugget[0]) + noise_variance / float(filters.variance[0])
    model = _ModelOnPoints(filters.models[0], points.shape, points.tobytes(), dynamics)
    J = later_precision(model, round(math.log(noise) / math.log(CONFIG.noise_ratio)))
    # Later readings change the expectation of the state by a random variable with the covariance
    # P - (P^-1 + J)^-1, which [LX] sample. With P = C C', P^-1 + J = C'^-1 (1 + C' J C) C^-1.
    root = linalg.square_root(P)
    change = root @ root.T - _weighted_square(root.T @ J @ root, root.T)
    H = dynamics.observation(np.arange(len(points)))
    covariances = (change + change.T) / 2, P
    removable, total = (np.einsum("ij,jk,ik->i", H, C, H) for C in covariances)
    share = np.maximum(removable, 0.0) / np.maximum(total, np.finfo(float).tiny)
    return np.asarray(np.sqrt(np.minimum(share, 1.0)))


@lru_cache(maxsize=48)
def later_precision(model: _ModelOnPoints, noise_power: int) -> Array:
    """Return the precision (S, S) with which readings after a decision determine its state.

    It is computed from the last step backwards. Readings of all points add H' H / noise to the precision
    J of a state. A step back, with the transition F and process noise Q, changes J to
    F' (J^-1 + Q)^-1 F.

    Parameters
    ----------
    model : _ModelOnPoints
    noise_power : int
        The noise variance is `noise_ratio` to this power, in units of the squared scale.
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

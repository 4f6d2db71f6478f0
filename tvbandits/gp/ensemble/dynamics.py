"""Represent models as linear state-space models: features over points and transitions in time.

`Dynamics` gives the prior covariance, the observation matrix and the transition of the states of M
models, which are stored in one array.

A Gaussian process whose covariance is a sum of products of a kernel over points and a Markovian kernel
over time is a linear state-space model ([HS], [Tod]; docs/references.md). Models with the same features
over points and of the same order in time have one `Dynamics`, so that a step is a few array operations
for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from tvbandits.gp import linalg
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.features import CONFIG as FEATURE_CONFIG
from tvbandits.gp.kernels.matern import matern32_rate, matern32_transition
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class DynamicsConfig:
    """Constants of the state-space models.

    Attributes
    ----------
    constant_variance : float
        Prior variance of the constant in units of the squared scale. It is large, since the origin of
        the rewards is only a first guess.
    largest_residual : float
        A model whose features leave out more than this fraction of the variance is not used, because
        the residual would count as noise and remain uncertain however often it is read.
    season_features : int
        The largest number of features of a season; each has two components for every harmonic.
    relative_noise : float
        The smallest noise variance as a fraction of the prior variance. A smaller one would be lost to
        rounding, and the filter would break down.
    """

    constant_variance: float = 25.0
    largest_residual: float = 0.1
    season_features: int = 12
    relative_noise: float = 1e-9


CONFIG = DynamicsConfig()

# The slice of a state whose two halves are coupled, and the coefficients (M, 2, k, 1) of the second half
# in the first and of the first half in the second.
Coupling: TypeAlias = tuple[slice, Array]


class Transition(NamedTuple):
    """The transition of M states over some time.

    Attributes
    ----------
    diagonal : array of shape (M, S, 1)
        The diagonal of the transition matrix.
    couplings : tuple of Coupling
        Couplings of values and derivatives of a smooth drift, and of the pairs of a season.
    covariance_factor, process_noise : arrays of shape (M, S, S), optional
        Factor on a covariance, and the process noise, if there are no couplings.
    """

    diagonal: Array
    couplings: tuple[Coupling, ...] = ()
    covariance_factor: Array | None = None
    process_noise: Array | None = None


@dataclass(frozen=True)
class Dynamics:
    """M linear state-space models on the same features.

    A state is [constant, trend, static, drift, derivatives of a smooth drift, season], where a season is
    [values of all harmonics, second components of their rotating pairs]. A folded state is
    [constant + trend, static, drift, season], in which static and drift are added if they have the same
    features, and so are the harmonics of the season.

    Attributes
    ----------
    models : tuple of M ModelSpec
    basis : array of shape (A, c)
        The features: basis @ folded state is the reward at the points.
    drift_start, derivative_start, season_start : int
        Indices at which these parts of a state begin.
    prior : array of shape (M, S, S)
        Prior covariances, which are stationary.
    residual : array of shape (M, A)
        Prior variances that the features leave out at each point.
    """

    models: tuple[ModelSpec, ...]
    basis: Array
    drift_start: int
    derivative_start: int
    season_start: int
    prior: Array
    residual: Array
    _latest_transition: list[tuple[float, Transition]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        models: Sequence[ModelSpec],
        points: Array,
        features_of: Callable[[SpatialSpec, int], tuple[Array, Array]],
    ) -> Dynamics:
        """Return the dynamics of models with the same `basis_of` and order in time.

        Parameters
        ----------
        models : sequence of M ModelSpec
        points : array of shape (A, d)
        features_of : callable
            `features_of(space, largest_rank)` returns `spatial_features` on these points.
        """
        first, count = models[0], len(points)
        spaces = [(model.static_space, model.drift_space) for model in models]
        rough = is_rough(first, count)
        if rough:
            # There are as many features as points, so that models with different correlations have the
            # same basis.
            distance, extent = pairwise_distances(points, points), largest_extent(points)
            static = drift = first.drift_space.place_features(count), np.zeros(count)
            correlations = [
                [space.feature_covariance(distance, extent) for space in pair] for pair in spaces
            ]
        else:
            static, drift = (features_of(space, FEATURE_CONFIG.largest_rank) for space in spaces[0])
            identities = [np.eye(static[0].shape[1]), np.eye(drift[0].shape[1])]
            correlations = [identities] * len(models)
        shared = rough or first.static_space == first.drift_space
        parts = [static[0]] if shared else [static[0], drift[0]]
        season, season_residual = np.zeros((count, 0)), np.zeros(count)
        if first.season is not None:  # half of its variance is common to all points
            phi, phi_residual = features_of(first.season.space, CONFIG.season_features)
            season = math.sqrt(0.5) * np.column_stack([np.ones((count, 1)), phi])
            season_residual = 0.5 * phi_residual
        r, q, s = static[0].shape[1], drift[0].shape[1], season.shape[1]
        basis = np.column_stack([np.ones((count, 1)), *parts, season])
        season_start = 2 + r + (2 * q if first.smooth else q)
        pairs = zip(models, correlations, strict=True)
        prior = [_prior_covariance(m, static_C, drift_C, s) for m, (static_C, drift_C) in pairs]
        residual = [
            model.static * static[1]
            + model.drift * drift[1]
            + (model.season.variances.sum() * season_residual if model.season else 0.0)
            for model in models
        ]
        starts = 2 + r, 2 + r + q, season_start
        return cls(tuple(models), basis, *starts, np.array(prior), np.array(residual))

    # --- constants of the models ------------------------------------------------------------------

    @cached_property
    def size(self) -> int:
        """Return the length S of a state."""
        return len(self.prior[0])

    @cached_property
    def nugget(self) -> Array:
        """Return the variances (M,) of the nuggets, in units of the squared scale."""
        return np.array([model.nugget for model in self.models])

    @cached_property
    def local_variance(self) -> Array:
        """Return the variances (M, A) of the part of a reward that is independent at each point."""
        return self.nugget[:, None] + self.residual

    @cached_property
    def hazard(self) -> Array:
        """Return the probabilities (M,) of a restart in a step."""
        return np.array([model.hazard for model in self.models])

    @cached_property
    def smallest_noise(self) -> Array:
        """Return the smallest noise (M, 1) of a reading, in units of the squared scale."""
        trace = np.trace(self.prior, axis1=1, axis2=2)
        return np.asarray(CONFIG.relative_noise * trace[:, None])

    @cached_property
    def basis_key(self) -> str:
        """Return a key that dynamics with the same `basis` have in common."""
        return repr(basis_of(self.models[0], len(self.basis)))

    # --- subsets ------------------------------------------------------------------------------------

    def take(self, rows: NDArray[Any]) -> Dynamics:
        """Return the dynamics of some of the models, selected by their numbers or a mask."""
        index = np.arange(len(self.models))[rows]
        models = tuple(self.models[i] for i in index)
        starts = self.drift_start, self.derivative_start, self.season_start
        dynamics = Dynamics(models, self.basis, *starts, self.prior[index], self.residual[index])
        dynamics.__dict__["_observation"] = self._observation
        return dynamics

    @cached_property
    def restartable(self) -> tuple[Index, Dynamics]:
        """Return the numbers (m,) of the models that may restart, and the dynamics of these."""
        rows = np.flatnonzero(self.hazard > 0)
        return rows, self.take(rows)

    # --- observation ------------------------------------------------------------------------------

    @cached_property
    def _observation(self) -> Array:
        """Return the observation matrix (A, S) of all points."""
        return np.asarray(self.basis @ self.fold(np.eye(self.size)).T)

    def observation(self, points: Index) -> Array:
        """Return the observation matrix H (n, S) of points, given their numbers."""
        return np.asarray(self._observation[points])

    def fold(self, states: Array) -> Array:
        """Return the folded states (..., c) of states (..., S)."""
        static_size, season_size = self.drift_start - 2, self._season_size
        shared = self.basis.shape[1] - season_size == 1 + static_size
        end = self.drift_start if shared else self.derivative_start
        folded = states[..., 1:end].copy(order="K")
        folded[..., 0] += states[..., 0]
        if shared:
            folded[..., 1:] += states[..., self.drift_start : self.derivative_start]
        if season_size:
            season = states[..., self.season_start : (self.season_start + self.size) // 2]
            season = season.reshape(*states.shape[:-1], -1, season_size).sum(axis=-2)
            folded = np.concatenate([folded, season], axis=-1)
        return np.asarray(folded)

    @cached_property
    def _season_size(self) -> int:
        """Return the number of features of the season."""
        season = self.models[0].season
        return 0 if season is None else (self.size - self.season_start) // (2 * season.harmonics)

    # --- transition -------------------------------------------------------------------------------

    def transition(self, h: float) -> Transition:
        """Return the transition over h >= 0 steps.

        The latest one is stored, since most steps have the same duration.
        """
        if self._latest_transition and self._latest_transition[0][0] == h:
            return self._latest_transition[0][1]
        diagonal, couplings = self._compute_transition(h)
        transition = Transition(diagonal, couplings)
        if not couplings:
            factor = diagonal * diagonal[:, None, :, 0]
            transition = Transition(diagonal, (), factor, (1.0 - factor) * self.prior)
        self._latest_transition[:] = [(h, transition)]
        return transition

    def _compute_transition(self, h: float) -> tuple[Array, tuple[Coupling, ...]]:
        """Return the diagonal (M, S, 1) of the transition matrix over h steps, and the couplings."""
        trend, static, drift = (np.exp(-h / times) for times in self._times)
        components = [np.exp(-h / times) for times in self._component_times.T]
        factors, couplings = [np.ones_like(trend), trend, static, *components, drift], []
        if self.derivative_start < self.season_start:
            rate = matern32_rate(self._times[2])
            factors[-1], up, down, slope = matern32_transition(
                rate, np.asarray(h), np.exp(-rate * h)
            )
            factors.append(slope)
            coefficients = np.stack([up, down], axis=1)[:, :, None, None]
            couplings.append((slice(self.drift_start, self.season_start), coefficients))
        if self._season_size:
            rotation = np.exp(self._season_exponents * h)
            factors += [*rotation.real.T] * 2
            sine = rotation.imag.repeat(self._season_size, axis=1)
            coefficients = np.stack([sine, -sine], axis=1)[..., None]
            couplings.append((slice(self.season_start, self.size), coefficients))
        diagonal = np.stack(factors, axis=1).repeat(np.diff([*self._blocks, self.size]), axis=1)
        return diagonal[:, :, None], tuple(couplings)

    @cached_property
    def _blocks(self) -> tuple[int, ...]:
        """Return the start of each block of a state whose components decay by one factor."""
        smooth = self.derivative_start < self.season_start
        derivative = (self.derivative_start,) if smooth else ()
        step = self._season_size
        harmonics = range(self.season_start, self.size, step) if step else ()
        components = range(self.drift_start, self.drift_start + self._component_times.shape[1])
        return (0, 1, 2, *components, components.stop, *derivative, *harmonics)

    @cached_property
    def _times(self) -> tuple[Array, Array, Array]:
        """Return the time scales (M,) of trend, static part and drift, in steps."""
        times = np.array([(m.trend_time, m.static_time, m.drift_time) for m in self.models])
        trend, static, drift = times.T
        return trend, static, drift

    @cached_property
    def _component_times(self) -> Array:
        """Return the time scales (M, k) of the first features of the drift, in steps."""
        times = np.array([model.component_times for model in self.models])
        return times.reshape(len(self.models), -1)

    @cached_property
    def _season_exponents(self) -> NDArray[np.complex128]:
        """Return the logarithms (M, harmonics) of the complex factors of a season per step."""
        exponents = [
            (2j * math.pi * np.arange(1, season.harmonics + 1) - 1.0 / season.decay_periods)
            / season.period
            for season in (model.season for model in self.models)
            if season is not None
        ]
        return np.array(exponents)

    def propagate(self, states: Array, h: float) -> Array:
        """Return F states with the transition matrix F over h steps.

        `states` has the shape (M, S), a state of each model, or (M, S, n), with states as columns.
        """
        if states.ndim == 2:
            return np.asarray(self.propagate(states[:, :, None], h)[:, :, 0])
        transition = self.transition(h)
        result = transition.diagonal * states
        for part, coefficients in transition.couplings:
            halves = _halves(result, part)
            halves += coefficients * _halves(states, part)[:, ::-1]
        return np.asarray(result)

    def propagate_symmetric(self, matrix: Array, h: float) -> Array:
        """Return F matrix F^T for symmetric matrices (M, S, S), with F over h steps."""
        factor = self.transition(h).covariance_factor
        if factor is not None:
            return matrix * factor
        for _ in range(2):  # multiply from the left, then, after a transposition, from the right
            matrix = self.propagate(matrix, h).transpose(0, 2, 1)
        return matrix

    def predict_covariance(self, covariance: Array, h: float) -> Array:
        """Return the covariances (M, S, S) after h steps, F P F^T + Q.

        Because the prior is stationary, Q = prior - F prior F^T, so that only P - prior is propagated.
        """
        transition = self.transition(h)
        if transition.covariance_factor is not None and transition.process_noise is not None:
            return np.asarray(covariance * transition.covariance_factor + transition.process_noise)
        return self.propagate_symmetric(covariance - self.prior, h) + self.prior


def _halves(states: Array, part: slice) -> Array:
    """Return a view (M, 2, k, n) of the two halves of a part of matrices (M, S, n)."""
    return states[:, part].reshape(len(states), 2, -1, states.shape[2])


def _prior_covariance(model: ModelSpec, static: Array, drift: Array, season_size: int) -> Array:
    """Return the prior covariance of a state, given the correlations of the features of its parts."""
    parts = [
        np.diag([CONFIG.constant_variance, model.trend]),
        model.static * static,
        model.drift * drift,
    ]
    if model.smooth:
        parts.append(model.drift * matern32_rate(model.drift_time) ** 2 * drift)
    if model.season is not None:
        parts.append(np.diag(np.tile(np.repeat(model.season.variances, season_size), 2)))
    return np.asarray(block_diag(*parts))


# --- features over points -------------------------------------------------------------------------


def pairwise_distances(X: Array, Y: Array) -> Array:
    """Return the distances (n, m) between points (n, d) and (m, d)."""
    return np.asarray(np.sqrt(((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)))


def largest_extent(points: Array) -> float:
    """Return the largest extent of points (A, d) along an axis; 1 if all extents are 0."""
    return float(np.ptp(points, axis=0).max()) or 1.0


def spatial_features(
    space: SpatialSpec, points: Array, largest_rank: int = FEATURE_CONFIG.largest_rank
) -> tuple[Array, Array]:
    """Return features (A, r) of points (A, d), and the variances (A,) that they leave out.

    They come from a pivoted Cholesky factor, which needs only the correlations with the pivots, O(A r^2)
    operations and memory O(A r).
    """
    extent, count = largest_extent(points), len(points)

    def column(i: int) -> Array:
        return space.correlation(pairwise_distances(points[i : i + 1], points)[0], extent)

    rank = min(largest_rank, count)
    factor = linalg.pivoted_cholesky(np.ones(count), column, rank, FEATURE_CONFIG.tolerance)
    return np.asarray(factor.G.T), np.asarray(factor.residual)


def is_rough(model: ModelSpec, points: int) -> bool:
    """Return whether a model of this number of points needs about as many features as points."""
    shapes = {model.static_space.shape, model.drift_space.shape}
    return points <= FEATURE_CONFIG.largest_rank and shapes <= {"identity", "matern12"}


def basis_of(model: ModelSpec, points: int) -> object:
    """Return a value that models with the same `Dynamics.basis` on `points` points have in common."""
    spaces: object = (model.static_space, model.drift_space)
    if is_rough(model, points):
        spaces = (model.drift_space.features_key, len(model.component_times))
    season = model.season
    return spaces, season and (season.space, season.harmonics)


def representable_models(models: tuple[ModelSpec, ...], points: Array) -> tuple[ModelSpec, ...]:
    """Return the models whose features represent a function on points (A, d); all if none does."""
    if len(points) <= FEATURE_CONFIG.largest_rank:
        return models
    spaces = {model.drift_space for model in models}
    residual = {space: spatial_features(space, points)[1].mean() for space in spaces}
    limit = CONFIG.largest_residual
    return tuple(model for model in models if residual[model.drift_space] <= limit) or models

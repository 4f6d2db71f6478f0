"""Condition M models on readings by a batch of Kalman filters on the same features.

`Filters.predict` and `Filters.update` return new posteriors; an update also returns the innovations and
the log likelihood of the readings under each model.

All variances of a model are known up to one factor, the squared scale. Under an inverse gamma prior its
posterior follows from the sum of squared standardised innovations, and the predictive density is
Student's. Old innovations are forgotten, so that the scale may change. An innovation has as its weight
the fraction of its variance that is not sensor noise: repeated readings of one place show little but
that noise, and say nothing about the scale.

The noise variance of the sensor is known in the unit of the reward, and enters each filter divided by
the present estimate of the squared scale. This is the only approximation; it hardly matters if the
nugget is larger than the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.gp.ensemble.dynamics import Dynamics, basis_of, spatial_features
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class FilterConfig:
    """Constants of the filters.

    Attributes
    ----------
    scale_memory : float
        The largest number of innovations in the estimate of the scale. The squared scale then has a
        relative deviation of 7%, and old innovations are forgotten.
    no_restart : float
        A state is not shrunk to the prior if the probability that it did not restart is at least this.
        Otherwise each step would shrink it a little.
    batch_size : int
        The largest number of readings of one update, because the factorisation of their covariance has
        cubic cost.
    """

    scale_memory: float = 400.0
    no_restart: float = 0.99
    batch_size: int = 128


CONFIG = FilterConfig()

# The fields of `Filters` with one entry for each model.
PER_MODEL = "mean", "covariance", "squares", "count"


class Innovations(NamedTuple):
    """The innovations of readings under M models.

    Attributes
    ----------
    errors, variances : arrays of shape (M, n)
        Readings minus their predictions, and predictive variances of the readings, including noise.
    log_likelihood : array of shape (M,)
        Joint log predictive density of the readings.
    """

    errors: Array
    variances: Array
    log_likelihood: Array


@dataclass(frozen=True)
class Filters:
    """The posteriors of M models at one time.

    Attributes
    ----------
    dynamics : Dynamics
    mean : array of shape (M, S)
        Means of the states, in the unit of the reward.
    covariance : array of shape (M, S, S)
        Covariances of the states, in units of the squared scale.
    squares : array of shape (M,)
        Weighted sums of squared standardised innovations, in the unit of the reward squared.
    count : array of shape (M,)
        Weighted numbers of innovations; the squared scale is squares / count.
    group : int
        The number of the group of models with these dynamics.
    """

    dynamics: Dynamics
    mean: Array
    covariance: Array
    squares: Array
    count: Array
    group: int = 0

    @classmethod
    def from_prior(
        cls, dynamics: Dynamics, variance: float, count: float = 1.0, group: int = 0
    ) -> Filters:
        """Return the filters before any reading, with `variance` as the first squared scale.

        That value has the weight of `count` innovations.
        """
        M, S, _ = dynamics.prior.shape
        squares, counts = np.full(M, count * float(variance)), np.full(M, count)
        return cls(dynamics, np.zeros((M, S)), dynamics.prior.copy(), squares, counts, group)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """Return the models."""
        return self.dynamics.models

    @cached_property
    def variance(self) -> Array:
        """Return the squared scales (M,), in the unit of the reward squared."""
        return np.asarray(self.squares / self.count)

    # --- subsets and conversion -------------------------------------------------------------------

    def take(self, rows: NDArray[Any], dynamics: Dynamics | None = None) -> Filters:
        """Return the filters of some models, selected by their numbers or a mask.

        `dynamics` are those of these models, if the caller has them.
        """
        parts = {name: getattr(self, name)[rows] for name in PER_MODEL}
        return replace_fields(self, dynamics=dynamics or self.dynamics.take(rows), **parts)

    def convert_periods(self, step: float) -> Filters:
        """Return the filters with the periods of seasons converted to steps of this length."""
        if self.models[0].season is None:
            return self
        models = tuple(
            replace(model, season=replace(model.season, period=model.season.period / step))
            for model in self.models
            if model.season is not None
        )
        return replace(self, dynamics=replace(self.dynamics, models=models))

    # --- predict and update -----------------------------------------------------------------------

    def predict(self, h: float) -> Filters:
        """Return the posteriors after h >= 0 steps without a reading: F m, F P F^T + Q."""
        if h == 0:
            return self
        if h not in self._predictions:
            # The next reading is usually of the time of the last forecast.
            self._predictions.clear()
            mean = self.dynamics.propagate(self.mean, h)
            covariance = self.dynamics.predict_covariance(self.covariance, h)
            self._predictions[h] = replace_fields(self, mean=mean, covariance=covariance)
        return self._predictions[h]

    @cached_property
    def _predictions(self) -> dict[float, Filters]:
        """Return the cache of the latest prediction by its number of steps."""
        return {}

    def update(self, points: Index, values: Array, noise: Array) -> tuple[Filters, Innovations]:
        """Return the posteriors given readings of their time, and the innovations.

        Parameters
        ----------
        points : integer array of shape (n,)
            Numbers of the points.
        values : array of shape (n,)
            Rewards minus the origin.
        noise : array of shape (n,)
            Noise variances of the sensor, in the unit of the reward squared.
        """
        dynamics = self.dynamics
        H = dynamics.observation(points)
        local_variance = dynamics.local_variance[:, points]
        noise = np.maximum(local_variance + noise / self.variance[:, None], dynamics.smallest_noise)
        readings = _Whitened.of(self, H, values, noise)
        start, log_likelihood, squares = self, readings.log_likelihood, readings.squares
        errors, variances = readings.errors, readings.diagonal * self.variance[:, None]
        if dynamics.hazard.any():
            start, log_likelihood, squares = self._soft_reset(
                H, values, noise, log_likelihood, squares
            )
            if start is not self:
                readings = _Whitened.of(start, H, values, noise)
                # The scale is updated under the hypothesis with the smallest innovations.
                smaller = np.minimum(squares, readings.squares)
                squares = np.where(dynamics.hazard > 0, smaller, squares)
        gain = readings.projection.transpose(0, 2, 1)
        mean = start.mean + np.matmul(gain, readings.whitened_errors[:, :, None])[:, :, 0]
        # For a single reading, the usual case, `matmul` takes three times as long.
        single = len(values) == 1
        covariance = gain * readings.projection if single else np.matmul(gain, readings.projection)
        np.subtract(start.covariance, covariance, out=covariance)
        share = np.minimum(np.maximum(1.0 - (noise - local_variance) / readings.diagonal, 0.0), 1.0)
        share = share.sum(axis=1) / len(values)
        squares, count = forget_innovations(
            self.squares + share * squares, self.count + share * len(values)
        )
        posterior = replace_fields(
            self, mean=mean, covariance=covariance, squares=squares, count=count
        )
        return posterior, Innovations(errors, variances, log_likelihood)

    # --- models that may restart ------------------------------------------------------------------

    def restart(self) -> Filters:
        """Return the filters with the prior of all components but the constant, which stays."""
        mean, covariance = np.zeros_like(self.mean), self.dynamics.prior.copy()
        mean[:, 0], covariance[:, 0, 0] = self.mean[:, 0], self.covariance[:, 0, 0]
        return replace_fields(self, mean=mean, covariance=covariance)

    def _soft_reset(
        self, H: Array, values: Array, noise: Array, log_likelihood: Array, squares: Array
    ) -> tuple[Filters, Array, Array]:
        """Return filters, log likelihoods and squares, allowing for restarts of models with a hazard.

        In the soft reset of arXiv 2411.10153, with the probability nu of no restart, a state becomes
        nu mean, nu^2 covariance + (1 - nu^2) prior. For nu <= 1/2 it becomes the prior.
        """
        rows, dynamics = self.dynamics.restartable
        filters = self.take(rows, dynamics)
        restart = _Whitened.of(filters.restart(), H, values, noise[rows])
        log_stay = np.log1p(-dynamics.hazard) + log_likelihood[rows]
        log_restart = np.log(dynamics.hazard) + restart.log_likelihood
        log_total = np.logaddexp(log_stay, log_restart)
        log_likelihood[rows] = log_total
        shrunk = filters.shrink_to_prior(log_stay, log_total)
        if shrunk is filters:
            return self, log_likelihood, squares
        squares[rows] = np.minimum(squares[rows], restart.squares)
        mean, covariance = self.mean.copy(), self.covariance.copy()
        mean[rows], covariance[rows] = shrunk.mean, shrunk.covariance
        return replace_fields(self, mean=mean, covariance=covariance), log_likelihood, squares

    def shrink_to_prior(self, log_stay: Array, log_total: Array) -> Filters:
        """Return the filters with states shrunk to the prior by the probability of a restart.

        Parameters
        ----------
        log_stay, log_total : arrays of shape (M,)
            Log joint densities of the readings and no restart, and of the readings only.
        """
        probability = np.exp(log_stay - log_total)
        certain, likely = probability >= CONFIG.no_restart, probability > 0.5
        nu = np.where(certain, 1.0, np.where(likely, probability, 0.0))
        if (nu == 1.0).all():
            return self
        prior, nu = self.restart(), nu[:, None, None]
        mean = nu[:, 0] * self.mean + (1.0 - nu[:, 0]) * prior.mean
        covariance = nu**2 * self.covariance + (1.0 - nu**2) * prior.covariance
        return replace_fields(self, mean=mean, covariance=covariance)


class _Whitened(NamedTuple):
    """Readings (n,) of one time, whitened by the Cholesky factor C of their predictive covariance.

    Attributes
    ----------
    errors : array of shape (M, n)
        Readings minus their predictions.
    projection : array of shape (M, n, S)
        C^-1 H P.
    whitened_errors : array of shape (M, n)
        C^-1 errors.
    diagonal : array of shape (M, n)
        Predictive variances, in units of the squared scale.
    squares : array of shape (M,)
        Squared norms of the whitened errors, in the unit of the reward squared.
    log_likelihood : array of shape (M,)
        Student's log density, with `count` degrees of freedom.
    """

    errors: Array
    projection: Array
    whitened_errors: Array
    diagonal: Array
    squares: Array
    log_likelihood: Array

    @classmethod
    def of(cls, filters: Filters, H: Array, values: Array, noise: Array) -> _Whitened:
        """Return the whitened readings, with noise variances (M, n) in units of the squared scale."""
        HP = np.matmul(H, filters.covariance)
        covariance = np.matmul(HP, H.T)
        diagonal = covariance.reshape(len(covariance), -1)[:, :: len(H) + 1]
        diagonal += noise  # `diagonal` is a view of `covariance`
        errors = values - np.matmul(H, filters.mean[:, :, None])[:, :, 0]
        sides = np.concatenate([HP, errors[:, :, None]], axis=2)
        root, solution = linalg.whiten_each(covariance, sides)
        size, whitened_errors = H.shape[1], solution[:, :, -1]
        squares = (whitened_errors**2).sum(axis=1)
        log_root = np.log(root.diagonal(0, 1, 2).copy("F")).sum(axis=1)
        density = student_log_density(len(H), filters.count, filters.squares, log_root, squares)
        projection = solution[:, :, :size]
        return cls(errors, projection, whitened_errors, diagonal.copy("F"), squares, density)


def student_log_density(
    n: int, count: Array, squares: Array, log_root: Array, error_squares: Array
) -> Array:
    """Return Student's log densities (M,) of n readings.

    Parameters
    ----------
    n : int
        Number of readings.
    count : array of shape (M,)
        Degrees of freedom: the number of innovations in the scale.
    squares : array of shape (M,)
        Sum of the squares of these innovations.
    log_root : array of shape (M,)
        Half the log determinant of the covariance of the readings, in units of the squared scale.
    error_squares : array of shape (M,)
        Squared norm of the whitened errors.
    """
    half = (count + n) / 2
    constant = gammaln(half) - gammaln(count / 2) - log_root
    return np.asarray(
        constant - n / 2 * np.log(math.pi * squares) - half * np.log1p(error_squares / squares)
    )


def forget_innovations(squares: Array, count: Array) -> tuple[Array, Array]:
    """Return sums of squares (M,) and counts (M,), scaled down to a count of `scale_memory`."""
    factor = np.minimum(1.0, CONFIG.scale_memory / count)
    return squares * factor, count * factor


def initial_filters(
    models: Sequence[ModelSpec], points: Array, variance: float, count: float = 1.0
) -> tuple[Filters, ...]:
    """Return the filters of models before any reading, grouped by the features of the models.

    Parameters
    ----------
    models : sequence of ModelSpec
    points : array of shape (A, d)
    variance : float
        First guess of the squared scale.
    count : float
        Weight of the first guess, in innovations.
    """
    groups: dict[object, list[ModelSpec]] = {}
    for model in models:
        key = basis_of(model, len(points)), model.smooth
        groups.setdefault(key, []).append(model)
    features_of = cache(lambda space, largest_rank: spatial_features(space, points, largest_rank))
    return tuple(
        Filters.from_prior(Dynamics.of(members, points, features_of), variance, count, group)
        for group, members in enumerate(groups.values())
    )


def batch_slices(count: int) -> list[slice]:
    """Return slices of `count` readings, each of at most `batch_size`."""
    size = CONFIG.batch_size
    return [slice(start, start + size) for start in range(0, count, size)]

"""A batch of Kalman filters: the posteriors of M models on the same features.

It is for conditioning models on readings, one time after the other (`Filters.predict`, `Filters.update`)
or several times at once (`batched_update`). Readings go in; out come new posteriors and how likely the
readings were under each model.

All variances of a model are known but for one factor, the squared scale. Under an inverse gamma prior
its posterior follows from the sum of squared standardised innovations, and the predictive density is
Student's. Old innovations are forgotten, so that the scale may change. An innovation counts by the share
of its variance that is not the sensor's noise: where one place is read again and again, readings show
next to nothing but that noise, and have no information about the scale.

The sensor's noise is known in the unit of reward, and enters each filter divided by the present estimate
of the squared scale. That is the one approximation; where the nugget exceeds this noise, it hardly
matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.gp.ensemble.dynamics import Dynamics, basis_of, features
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class FilterConfig:
    """The constants of the filters.

    Attributes
    ----------
    scale_memory : float
        Number of innovations that the scale remembers: so many leave a deviation of 7% of the squared
        scale, and old ones are forgotten, so that the scale may change.
    no_restart : float
        A model goes on unchanged while it is that certain that nothing restarted; else every step would
        move each of its states a little towards the prior.
    batch_size : int
        Most readings of one update, as a factorisation of their covariance costs the cube of that.
    joint_readings : int
        A step with more readings is not updated together with others: it would take as long or longer.
    """

    scale_memory: float = 400.0
    no_restart: float = 0.99
    batch_size: int = 128
    joint_readings: int = 8


CONFIG = FilterConfig()

# The fields of `Filters` that have one entry for each model.
PER_MODEL = "mean", "covariance", "squares", "count"


class Innovations(NamedTuple):
    """Readings as M models expected them.

    Attributes
    ----------
    errors, variances : arrays of shape (M, n)
        Readings less expectations, and the predictive variances of the readings, with their noise.
    log_likelihood : array of shape (M,)
        Log predictive density of all of them together.
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
        Of the states, in the unit of reward.
    covariance : array of shape (M, S, S)
        In units of the squared scale.
    squares : array of shape (M,)
        Sum of squared standardised innovations, in the unit of reward squared.
    count : array of shape (M,)
        Their number, each weighted by its information: the squared scale is squares / count.
    group : int
        Number of the group of models with these dynamics.
    """

    dynamics: Dynamics
    mean: Array
    covariance: Array
    squares: Array
    count: Array
    group: int = 0

    @classmethod
    def at_prior(
        cls, dynamics: Dynamics, variance: float, count: float = 1.0, group: int = 0
    ) -> Filters:
        """Return the prior; the first guess of the squared scale is worth `count` innovations."""
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
        """Return the squared scales (M,), in the unit of reward squared."""
        return np.asarray(self.squares / self.count)

    # --- some of the models, or more of them ------------------------------------------------------

    def take(self, rows: NDArray[Any], dynamics: Dynamics | None = None) -> Filters:
        """Return some of the models, by their numbers or a mask, with their `dynamics` if at hand."""
        parts = {name: getattr(self, name)[rows] for name in PER_MODEL}
        return replace_fields(self, dynamics=dynamics or self.dynamics.take(rows), **parts)

    def concatenate(self, other: Filters) -> Filters:
        """Return these models and then others on the same features."""
        parts = {
            name: np.concatenate([getattr(each, name) for each in (self, other)])
            for name in PER_MODEL
        }
        return replace_fields(self, dynamics=self.dynamics.concatenate(other.dynamics), **parts)

    def with_periods_in_steps(self, step: float) -> Filters:
        """Return the same filters, with the periods of seasons in steps of this length."""
        if self.models[0].season is None:
            return self
        models = tuple(
            replace(each, season=replace(each.season, period=each.season.period / step))
            for each in self.models
            if each.season is not None
        )
        return replace(self, dynamics=replace(self.dynamics, models=models))

    # --- predict and update -----------------------------------------------------------------------

    def predict(self, h: float) -> Filters:
        """Return the posteriors after h >= 0 steps without a reading: F m, F P F^T + Q."""
        if h == 0:
            return self
        if h not in self._predictions:
            # A forecast and the next reading are mostly about the same time.
            self._predictions.clear()
            mean = self.dynamics.propagate(self.mean, h)
            covariance = self.dynamics.predict_covariance(self.covariance, h)
            self._predictions[h] = replace_fields(self, mean=mean, covariance=covariance)
        return self._predictions[h]

    @cached_property
    def _predictions(self) -> dict[float, Filters]:
        return {}

    def update(self, points: Index, values: Array, noise: Array) -> tuple[Filters, Innovations]:
        """Return the posteriors with readings of this time, and the innovations.

        Parameters
        ----------
        points : integer array of shape (n,)
        values : array of shape (n,)
            Rewards less the origin.
        noise : array of shape (n,)
            Variances of the sensor, in the unit of reward squared.
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
                # The scale follows from the hypothesis that fits best.
                smaller = np.minimum(squares, readings.squares)
                squares = np.where(dynamics.hazard > 0, smaller, squares)
        gain = readings.projection.transpose(0, 2, 1)
        mean = start.mean + np.matmul(gain, readings.errors_white[:, :, None])[:, :, 0]
        # For a single reading, the usual case, a product of matrices takes three times as long.
        one = len(values) == 1
        covariance = gain * readings.projection if one else np.matmul(gain, readings.projection)
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
        """Return the prior of all but the constant, which is kept."""
        mean, covariance = np.zeros_like(self.mean), self.dynamics.prior.copy()
        mean[:, 0], covariance[:, 0, 0] = self.mean[:, 0], self.covariance[:, 0, 0]
        return replace_fields(self, mean=mean, covariance=covariance)

    def _soft_reset(
        self, H: Array, values: Array, noise: Array, log_likelihood: Array, squares: Array
    ) -> tuple[Filters, Array, Array]:
        """Return filters, log likelihoods and squares where models with a hazard may have restarted.

        The soft reset of arXiv 2411.10153: with the probability nu that nothing has restarted, a state
        becomes nu mean, nu^2 covariance + (1 - nu^2) prior; and the prior itself below nu = 1/2.
        """
        rows, dynamics = self.dynamics.restarting
        filters = self.take(rows, dynamics)
        fresh = _Whitened.of(filters.restart(), H, values, noise[rows])
        log_stay = np.log1p(-dynamics.hazard) + log_likelihood[rows]
        log_restart = np.log(dynamics.hazard) + fresh.log_likelihood
        log_total = np.logaddexp(log_stay, log_restart)
        log_likelihood[rows] = log_total
        shrunken = filters.shrink_to_prior(log_stay, log_total)
        if shrunken is filters:
            return self, log_likelihood, squares
        squares[rows] = np.minimum(squares[rows], fresh.squares)
        mean, covariance = self.mean.copy(), self.covariance.copy()
        mean[rows], covariance[rows] = shrunken.mean, shrunken.covariance
        return replace_fields(self, mean=mean, covariance=covariance), log_likelihood, squares

    def shrink_to_prior(self, log_stay: Array, log_total: Array) -> Filters:
        """Return the states, shrunk to the prior by the probability of a restart.

        Parameters
        ----------
        log_stay, log_total : arrays of shape (M,)
            Log joint densities of the readings with no restart, and with or without one.
        """
        probability = np.exp(log_stay - log_total)
        certain, likely = probability >= CONFIG.no_restart, probability > 0.5
        nu = np.where(certain, 1.0, np.where(likely, probability, 0.0))
        if (nu == 1.0).all():
            return self
        fresh, nu = self.restart(), nu[:, None, None]
        mean = nu[:, 0] * self.mean + (1.0 - nu[:, 0]) * fresh.mean
        covariance = nu**2 * self.covariance + (1.0 - nu**2) * fresh.covariance
        return replace_fields(self, mean=mean, covariance=covariance)


class _Whitened(NamedTuple):
    """Readings (n,) of one time, whitened by the Cholesky factor C of their predictive covariance.

    Attributes
    ----------
    errors : array of shape (M, n)
    projection : array of shape (M, n, S)
        C^-1 H P.
    errors_white : array of shape (M, n)
        C^-1 errors.
    diagonal : array of shape (M, n)
        Predictive variances, in units of the squared scale.
    squares : array of shape (M,)
        Squared lengths of the whitened errors, in the unit of reward squared.
    log_likelihood : array of shape (M,)
        Student's log density, with as many degrees of freedom as the scale has innovations.
    """

    errors: Array
    projection: Array
    errors_white: Array
    diagonal: Array
    squares: Array
    log_likelihood: Array

    @classmethod
    def of(cls, filters: Filters, H: Array, values: Array, noise: Array) -> _Whitened:
        HP = np.matmul(H, filters.covariance)
        covariance = np.matmul(HP, H.T)
        diagonal = covariance.reshape(len(covariance), -1)[:, :: len(H) + 1]
        diagonal += noise  # of `covariance`, of which this is a view
        errors = values - np.matmul(H, filters.mean[:, :, None])[:, :, 0]
        sides = np.concatenate([HP, errors[:, :, None]], axis=2)
        root, solution = linalg.whiten_each(covariance, sides)
        size, errors_white = H.shape[1], solution[:, :, -1]
        squares = (errors_white**2).sum(axis=1)
        log_root = np.log(root.diagonal(0, 1, 2).copy("F")).sum(axis=1)
        density = student_log_density(len(H), filters.count, filters.squares, log_root, squares)
        projection = solution[:, :, :size]
        return cls(errors, projection, errors_white, diagonal.copy("F"), squares, density)


def student_log_density(
    n: int | Index, count: Array, squares: Array, log_root: Array, error_squares: Array
) -> Array:
    """Return Student's log densities (..., M) of n readings.

    Parameters
    ----------
    n : int, or integer array that broadcasts with `count`
    count : array of shape (..., M)
        Degrees of freedom: the number of innovations of the scale.
    squares : array of shape (..., M)
        Their sum of squares.
    log_root : array of shape (..., M)
        Half the log determinant of the covariance of the readings, in units of the squared scale.
    error_squares : array of shape (..., M)
        Squared length of the whitened errors.
    """
    half = (count + n) / 2
    constant = gammaln(half) - gammaln(count / 2) - log_root
    return np.asarray(
        constant - n / 2 * np.log(math.pi * squares) - half * np.log1p(error_squares / squares)
    )


def forget_innovations(squares: Array, count: Array) -> tuple[Array, Array]:
    """Return sums of squares (M,) and counts (M,), scaled down to the memory of the scale."""
    factor = np.minimum(1.0, CONFIG.scale_memory / count)
    return squares * factor, count * factor


def filters_at_prior(
    models: Sequence[ModelSpec], points: Array, variance: float, count: float = 1.0
) -> tuple[Filters, ...]:
    """Return the filters of models before any reading, those with the same features together.

    Parameters
    ----------
    models : sequence of ModelSpec
    points : array of shape (A, d)
    variance : float
        First guess of the squared scale.
    count : float
        Number of innovations that the first guess is worth.
    """
    groups: dict[object, list[ModelSpec]] = {}
    for each in models:
        key = basis_of(each, len(points)), each.smooth
        groups.setdefault(key, []).append(each)
    features_of = cache(lambda space, largest_rank: features(space, points, largest_rank))
    return tuple(
        Filters.at_prior(Dynamics.of(members, points, features_of), variance, count, group)
        for group, members in enumerate(groups.values())
    )


# --- readings of several times at once ------------------------------------------------------------
# A state is a stationary Gauss-Markov process, x(t + h) = F(h) x(t) + noise, whose covariance without
# readings is the prior at all times. Readings at the times h_i after the posterior covariance was P have
# therefore the joint covariance
#
#     H_i F(h_i) (P - prior) F(h_j)^T H_j^T + H_i F(h_i - h_j) prior H_j^T + noise,       h_i >= h_j,
#
# and its Cholesky factor holds what a filter computes step by step: its diagonal blocks belong to the
# innovations. It takes a few products of matrices instead of many passes over all covariances.
#
# Two things differ from the filter: the sensor's noise is divided by the squared scale of the beginning;
# and models that may restart do so before the first reading or not at all.


class StepReadings(NamedTuple):
    """The readings of one time.

    Attributes
    ----------
    t : float
    rows : integer array of shape (n,)
        Numbers of the points.
    values : array of shape (n,)
        Rewards less the origin.
    noise : array of shape (n,)
        Variances of the sensor.
    """

    t: float
    rows: Index
    values: Array
    noise: Array


def batch_slices(count: int) -> list[slice]:
    """Return slices of so many readings, each of them of at most a batch."""
    size = CONFIG.batch_size
    return [slice(start, start + size) for start in range(0, count, size)]


def step_batches(steps: Sequence[StepReadings]) -> Iterator[Sequence[StepReadings]]:
    """Split steps into those to update together; a step with many readings is alone."""
    first, readings = 0, 0
    for i, each in enumerate(steps):
        is_alone = max(len(steps[i - 1].rows), len(each.rows)) > CONFIG.joint_readings
        if i > first and (is_alone or readings + len(each.rows) > CONFIG.batch_size):
            yield steps[first:i]
            first, readings = i, 0
        readings += len(each.rows)
    if steps:
        yield steps[first:]


def batched_update(
    filters: Filters, time: float, steps: Sequence[StepReadings], step_length: float
) -> tuple[Filters, Array]:
    """Return filters at the time of the last readings, given all of them, and their log likelihoods.

    Parameters
    ----------
    filters : Filters
    time : float
        The time of the filters.
    steps : sequence of StepReadings
        In order of time, as of `step_batches`.
    step_length : float
        Duration of a step.

    Returns
    -------
    filters : Filters
    log_likelihood : array of shape (s, M)
        Of the readings of a time together, given those of the times before, in the unit of reward.
    """
    if len(steps) == 1 and len(steps[0].rows) > CONFIG.joint_readings:
        return _update_one_step(filters, time, steps[0], step_length)
    stack = _Stack.of(steps, time, step_length)
    covariances = _PriorCovariances.of(filters.dynamics, stack)
    joint = _JointReadings.of(filters, stack, covariances)
    posterior, density = joint.condition(filters, stack, covariances), joint.log_likelihood
    if filters.dynamics.hazard.any():
        # All but the constant may have restarted before the first reading: the soft reset of
        # `Filters.update`, once for all readings, with the hazard of so many steps.
        rows, dynamics = filters.dynamics.restarting
        some, covariances = filters.take(rows, dynamics), covariances.take(rows)
        fresh = _JointReadings.of(some.restart(), stack, covariances)
        log_survival = np.log1p(-dynamics.hazard) * len(stack.sizes)
        log_stay = log_survival + np.cumsum(density[:, rows], axis=0)
        log_restart = np.log(-np.expm1(log_survival)) + np.cumsum(fresh.log_likelihood, axis=0)
        log_total = np.logaddexp(log_stay, log_restart)
        density[:, rows] = np.diff(log_total, axis=0, prepend=0.0)
        shrunken = some.shrink_to_prior(log_stay[-1], log_total[-1])
        if shrunken is not some:
            joint = _JointReadings.of(shrunken, stack, covariances)
            again = joint.condition(shrunken, stack, covariances)
            posterior.mean[rows], posterior.covariance[rows] = again.mean, again.covariance
    return posterior, density


def _update_one_step(
    filters: Filters, time: float, step: StepReadings, step_length: float
) -> tuple[Filters, Array]:
    """Return what `batched_update` does, for the readings of a single time."""
    posterior = filters.predict((step.t - time) / step_length)
    density = np.zeros(len(posterior))
    for part in batch_slices(len(step.rows)):
        posterior, innovations = posterior.update(
            step.rows[part], step.values[part], step.noise[part]
        )
        density += innovations.log_likelihood
    return posterior, density[None]


class _Stack(NamedTuple):
    """The readings of s times in one row.

    Attributes
    ----------
    sizes, starts : integer arrays of shape (s,)
        How many there are of each time, and the number of the first of them.
    times : array of shape (s,)
        Since the time of the filters, in steps.
    step : integer array of shape (N,)
        The number of the time of each reading.
    rows, values, noise : arrays of N rows
    """

    sizes: Index
    starts: Index
    times: Array
    step: Index
    rows: Index
    values: Array
    noise: Array

    @classmethod
    def of(cls, steps: Sequence[StepReadings], time: float, step_length: float) -> _Stack:
        sizes = np.array([len(each.rows) for each in steps])
        names = ("rows", "values", "noise")
        columns = (np.concatenate([getattr(each, name) for each in steps]) for name in names)
        times = np.array([(each.t - time) / step_length for each in steps])
        step = np.repeat(np.arange(len(sizes)), sizes)
        return cls(sizes, np.cumsum(sizes) - sizes, times, step, *columns)

    def sum_by_time(self, values: Array) -> Array:
        """Return the sums (s, M) of values (M, N) over the readings of each time."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=1).T)


class _PriorCovariances(NamedTuple):
    """The prior covariances of N readings under M models, before anything is observed.

    Attributes
    ----------
    observation : array of shape (M, S, N)
        F(h)^T H^T: how readings observe the state at the time of the filters.
    joint : array of shape (M, N, N)
        Covariance of the readings, without noise.
    final : array of shape (M, S, N)
        Covariance of the state at the last time with the readings.
    """

    observation: Array
    joint: Array
    final: Array

    @classmethod
    def of(cls, dynamics: Dynamics, stack: _Stack) -> _PriorCovariances:
        H, prior = dynamics.observation(stack.rows), dynamics.prior
        scalar, variances = dynamics.has_scalar_blocks, np.einsum("mii->mi", prior)[:, :, None]
        of_state = variances * H.T if scalar else np.matmul(prior, H.T)
        # Many readings are equally far apart in time: the decay is computed once for each lag, together
        # with the lags to the time of the filters, which is number 0.
        times, number = np.append(0.0, stack.times), stack.step + 1
        decay = dynamics.decay(np.abs(times[:, None] - times).ravel())
        lag = len(times) * number[:, None] + number
        lag_to_last = len(times) * stack.sizes.size + number
        factors, joint = decay[0], np.zeros((len(prior), len(number), len(number)))
        for i, (start, end) in enumerate(pairwise([*dynamics.blocks, dynamics.size])):
            if (part := np.ascontiguousarray(H[:, start:end])).any():
                if scalar:
                    covariance = variances[:, start, :, None] * (part @ part.T)
                else:
                    block = prior[:, start:end, start:end]
                    covariance = np.matmul(part, np.matmul(block, part.T))
                if i > 0:  # the constant does not decay
                    covariance *= factors[:, i].take(lag, axis=1)
                joint += covariance
        to_reading = dynamics.transition_over(decay, number)
        to_last = dynamics.transition_over(decay, lag_to_last)
        observation = dynamics.propagate(H.T[None], to_reading, transposed=True)
        return cls(observation, joint, dynamics.propagate(of_state, to_last))

    def take(self, rows: Index) -> _PriorCovariances:
        """Return the covariances under some of the models."""
        return _PriorCovariances(*(each[rows] for each in self))


class _JointReadings(NamedTuple):
    """N readings of several times under M models that have observed none of them.

    Attributes
    ----------
    change : array of shape (M, S, S)
        The covariances of the filters less the prior.
    cross : array of shape (M, S, N)
        Its product with the observation of the readings.
    inverse_root : array of shape (M, N, N)
        Inverse of the Cholesky factor of the covariance of the readings.
    errors_white : array of shape (M, N)
    scale_squares, scale_count : arrays of shape (M,)
        Sums of squares and counts of the scales, given the readings.
    log_likelihood : array of shape (s, M)
        Of the readings of each time, given those of the times before.
    """

    change: Array
    cross: Array
    inverse_root: Array
    errors_white: Array
    scale_squares: Array
    scale_count: Array
    log_likelihood: Array

    @classmethod
    def of(cls, filters: Filters, stack: _Stack, prior: _PriorCovariances) -> _JointReadings:
        dynamics = filters.dynamics
        local_variance = dynamics.local_variance[:, stack.rows]
        sensor = stack.noise / filters.variance[:, None]
        noise = np.maximum(local_variance + sensor, dynamics.smallest_noise)
        change = filters.covariance - dynamics.prior
        cross = np.matmul(change, prior.observation)
        observation = prior.observation.transpose(0, 2, 1)
        joint = np.matmul(observation, cross)
        joint += prior.joint
        diagonal = np.einsum("mii->mi", joint)
        diagonal += noise  # of `joint`, of which this is a view
        expected = np.matmul(observation, filters.mean[:, :, None])
        root, inverse_root = linalg.invert_factors_each(joint)
        errors = stack.values[:, None] - expected
        errors_white = np.matmul(inverse_root, errors)[:, :, 0]
        n = stack.sizes[:, None]
        blocks = np.where(stack.step[:, None] == stack.step, root, 0.0)
        error_squares = stack.sum_by_time(errors_white**2)
        log_root = stack.sum_by_time(np.log(np.einsum("mii->mi", root)))
        # An innovation counts by the share of its variance that is not the sensor's noise.
        share = 1.0 - (noise - local_variance) / (blocks**2).sum(axis=2)
        share = stack.sum_by_time(np.minimum(np.maximum(share, 0.0), 1.0)) / n
        scales = [(filters.squares, filters.count)]
        for square, count in zip(share * error_squares, share * n, strict=True):
            scales.append(forget_innovations(scales[-1][0] + square, scales[-1][1] + count))
        squares, counts = np.array(scales).swapaxes(0, 1)
        density = student_log_density(n, counts[:-1], squares[:-1], log_root, error_squares)
        return cls(change, cross, inverse_root, errors_white, squares[-1], counts[-1], density)

    def condition(self, filters: Filters, stack: _Stack, prior: _PriorCovariances) -> Filters:
        """Return the posteriors of the filters at the last time, given all readings."""
        dynamics, end = filters.dynamics, stack.times[-1]
        cross = dynamics.propagate(self.cross, end) + prior.final
        projection = np.matmul(self.inverse_root, cross.transpose(0, 2, 1))
        gain = projection.transpose(0, 2, 1)
        mean = dynamics.propagate(filters.mean, end)
        mean = mean + np.matmul(gain, self.errors_white[:, :, None])[:, :, 0]
        covariance = dynamics.propagate_symmetric(self.change, end)
        covariance += dynamics.prior
        covariance -= np.matmul(gain, projection)
        return replace_fields(
            filters,
            mean=mean,
            covariance=covariance,
            squares=self.scale_squares,
            count=self.scale_count,
        )

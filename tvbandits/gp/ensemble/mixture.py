"""Weight Kalman filters by their predictions: dynamic model averaging.

The ensemble learns which models predict well, without fitting any of them. It is updated with the
readings of one time after the other, and returns forecasts of all points and the joint posterior with
which expert queries are selected.

After each step the log weight of a model is multiplied by a forgetting factor, and grows by half of its
log predictive density of the readings. There are three additions:

- On a smooth function the first guess of the filters' scale has the weight of many innovations. It comes
  from the first steps, which are replayed with it.
- All deviations are inflated if innovations were larger than predicted.
- Models of low weight are dropped, to save time.

Prior art: dynamic model averaging [Raf], ensembles of Gaussian processes on random features [IE], BONE
[BN]; a Kalman filter as an exact Gaussian process in space and time [Tod] (`docs/references.md`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvbandits.data import replace_fields
from tvbandits.gp.calibration import CONFIG as CALIBRATION_CONFIG
from tvbandits.gp.ensemble.candidate_posterior import Readings
from tvbandits.gp.ensemble.dynamics import representable_models
from tvbandits.gp.ensemble.filters import (
    CONFIG as FILTER_CONFIG,
    Filters,
    Innovations,
    batch_slices,
    initial_filters,
)
from tvbandits.gp.ensemble.forecasts import (
    Forecast,
    MixtureMoments,
    MixturePrediction,
    compute_persistent_share,
)
from tvbandits.gp.ensemble.models import (
    CONFIG as MODEL_CONFIG,
    ModelSpec,
    allows_both_kinds,
    models_for,
)
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class MixtureConfig:
    """Constants of the weights and of the first steps.

    Attributes
    ----------
    forgetting : float
        Factor on the log weights in each step, so that evidence counts for about 100 steps.
    evidence_power : float
        Factor on the log density of a step. It is below 1 because no model is true: with 1 the weights
        settled after a few readings, and in half of the runs on a network with one place far above all
        others the bandit never found that place.
    predicting_weight : float
        Models below this fraction of the largest weight are left out of predictions, to save time.
    innovation_rate : float
        Weight of the latest step in the running means of squared innovations and of the coverage, which
        therefore extend over about 20 steps.
    start_steps : tuple of int
        The steps after which an ensemble whose first guess of the scale has the weight of many
        innovations restarts with the origin and scale of the readings so far.
    function_scale_count : float
        Weight of the first guess of the scale on a smooth function, in innovations. A bandit that plays
        near a peak sees little of the range of the function; with a small weight the whole function
        would soon seem as flat as the peak.
    smallest_signal : float
        The first variance of the rewards is at least this times the noise variance, because the readings
        of one step may be equal by chance. If the variance of later readings is below this limit, the
        noise variance, which is then most of it, is subtracted.
    smallest_share : float
        The variance after that subtraction is at least this fraction of the noise variance, because 16
        readings do not distinguish less from zero.
    capacity : int
        The largest number of entries in the covariances of all models, which bounds memory and the time
        of a step.
    prune_steps : tuple of int
        The steps after which models that are left out of predictions or exceed the capacity are
        dropped, at most half of all.
    """

    forgetting: float = 0.99
    evidence_power: float = 0.5
    predicting_weight: float = 1e-2
    innovation_rate: float = 0.05
    start_steps: tuple[int, ...] = (4, 16)
    function_scale_count: float = 30.0
    smallest_signal: float = 4.0
    smallest_share: float = 0.15
    capacity: int = 300_000
    prune_steps: tuple[int, ...] = (16, 32, 64, 128)


CONFIG = MixtureConfig()


# --- weights --------------------------------------------------------------------------------------


def standardise_innovations(
    weights: Array, errors: Array, innovations: Sequence[Innovations]
) -> tuple[float, ...]:
    """Return the squared standardised innovations of the mixture, from its models' errors (M, n)."""
    variances = np.concatenate([batch.variances for batch in innovations])
    mean = weights @ errors
    variance = weights @ (variances + (errors - mean) ** 2)
    return tuple(np.minimum(mean**2 / variance, CALIBRATION_CONFIG.largest_square).tolist())


def split_by_group(values: NDArray[Any], filters: Sequence[Filters]) -> list[NDArray[Any]]:
    """Split an array over all models into one array for each batch of filters."""
    return np.split(values, np.cumsum([len(batch) for batch in filters])[:-1])


def prune(filters: Sequence[Filters], log_weights: Array) -> tuple[tuple[Filters, ...], Array]:
    """Return filters and log weights without the models that are dropped; at least half of them stay.

    A model is dropped if its weight is small, or if it and all models of larger weight exceed the
    capacity.
    """
    order = np.argsort(-log_weights, kind="stable")
    sizes = np.concatenate([np.full(len(batch), batch.dynamics.size**2) for batch in filters])
    stays = log_weights >= log_weights.max() + math.log(CONFIG.predicting_weight)
    stays[order[np.cumsum(sizes[order]) > CONFIG.capacity]] = False
    stays[order[: (len(order) + 1) // 2]] = True
    parts = zip(filters, split_by_group(stays, filters), strict=True)
    return tuple(batch.take(mask) for batch, mask in parts if mask.any()), log_weights[stays]


# --- the ensemble ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurrentStep:
    """What the readings of the present time say about the models.

    Attributes
    ----------
    log_likelihood : array of shape (sum of M,)
        Log likelihoods of the models, in the unit of the reward.
    squared_innovations : tuple of float
        Squared standardised innovations of the mixture.
    """

    log_likelihood: Array
    squared_innovations: tuple[float, ...] = ()

    @classmethod
    def empty(cls, filters: Sequence[Filters]) -> CurrentStep:
        """Return the step before its first reading."""
        return cls(np.zeros(sum(map(len, filters))))


@dataclass(frozen=True)
class FilterEnsemble:
    """An immutable ensemble of weighted Kalman filters on fixed points; `of` returns a new one.

    Attributes
    ----------
    points : array of shape (A, d)
    models : tuple of ModelSpec
        All models, of which `current_models` are those that were not dropped.
    noise_variance : float
        Noise variance of the sensor, for readings without a stated one; the learned nugget is added.
    step_length : float
        Duration of a step, the unit of the models' time scales; by default that between the first two
        times.
    filters : tuple of Filters
        The filters of the remaining models.
    origin : float
        Constant that is subtracted from rewards, against cancellation.
    time : float
        The time of the latest readings; NaN before the first.
    steps : int
        Number of times with readings before the present one.
    mean_squared_innovation : float
        Running mean of squared standardised innovations; 1 if deviations are as predicted.
    coverage : float
        Fraction of 95% intervals that contained the reading, over the same steps.
    first_scale : float
        The first guess of the scale, in the unit of the reward; 0 before the first reading.
    scale_count : float
        Weight of the first guess of the scale, in innovations.
    prior_weights : tuple of pairs (ModelSpec, weight)
        Weights learned by other bandits. They are half of the prior weights; the other half is uniform.
    prior_scale : float
        The smallest first guess of the scale; 0 for none.
    """

    points: Array
    models: tuple[ModelSpec, ...]
    noise_variance: float
    step_length: float = float("nan")
    filters: tuple[Filters, ...] = ()
    origin: float = 0.0
    time: float = float("nan")
    steps: int = 0
    mean_squared_innovation: float = 1.0
    coverage: float = 0.95
    first_scale: float = 0.0
    scale_count: float = 1.0
    prior_weights: tuple[tuple[ModelSpec, float], ...] = ()
    prior_scale: float = 0.0
    _log_weights: Array = field(default_factory=lambda: np.zeros(0))
    _current: CurrentStep = field(default_factory=lambda: CurrentStep.empty(()))
    # Times and readings of the first steps, for a replay with another origin and scale.
    _first_readings: tuple[tuple[float, Readings], ...] = ()

    @classmethod
    def of(
        cls,
        points: Array,
        noise_variance: float,
        models: Sequence[ModelSpec] | None = None,
        *,
        both: bool = False,
        season: float | None = None,
    ) -> FilterEnsemble:
        """Return the ensemble before any reading.

        Parameters
        ----------
        points : array of shape (A, d)
        noise_variance : float
        models : sequence of ModelSpec, optional
            By default those of `models_for(points)` that features can represent.
        both : bool
            See `models_for`. If it adds models, the first guess of the scale has the weight that it has
            for a function.
        season : float, optional
            Period of a season; see `models_for`.
        """
        network = models is None and len(points) <= MODEL_CONFIG.largest_network
        rivals = both and allows_both_kinds(points, season)
        plain = bool(models) or (network and not rivals)
        return cls(
            points,
            tuple(models or representable_models(models_for(points, season, both), points)),
            noise_variance,
            scale_count=1.0 if plain else CONFIG.function_scale_count,
        )

    # --- weights and scales -----------------------------------------------------------------------

    @cached_property
    def current_models(self) -> tuple[ModelSpec, ...]:
        """Return the models of the filters, in the order of `weights`."""
        return tuple(model for filters in self.filters for model in filters.models)

    @cached_property
    def squared_scales(self) -> Array:
        """Return the squared scales of the models, in the unit of the reward squared."""
        return np.concatenate([filters.variance for filters in self.filters])

    @cached_property
    def weights(self) -> Array:
        """Return the weights of the models, with the sum 1."""
        log_weights = self._updated_log_weights
        weights = np.exp(log_weights - log_weights.max())
        return np.asarray(weights / weights.sum())

    @cached_property
    def _updated_log_weights(self) -> Array:
        """Return the log weights of the models after the present step."""
        return CONFIG.forgetting * self._log_weights + (
            CONFIG.evidence_power * self._current.log_likelihood
        )

    @property
    def inflation(self) -> float:
        """Return the factor on deviations; it is above 1 if innovations were larger than predicted."""
        return float(np.sqrt(max(self.mean_squared_innovation, 1.0)))

    @property
    def nugget(self) -> float:
        """Return the variance of the nugget, averaged over the models."""
        nuggets = np.concatenate([filters.dynamics.nugget for filters in self.filters])
        return float((self.weights * self.squared_scales * nuggets).cumsum()[-1])

    # --- predictions ------------------------------------------------------------------------------

    def count_steps(self, t: float) -> float:
        """Return the number of steps until `t`; 1 or 0 as long as the duration of a step is unknown."""
        if math.isfinite(self.step_length):
            return (t - self.time) / self.step_length
        return float(t > self.time)

    def advance(self, t: float) -> FilterEnsemble:
        """Return the ensemble predicted to a later time, without new readings."""
        if not self.filters or t <= self.time:
            return self
        h = self.count_steps(t)
        filters = tuple(filters.predict(h) for filters in self.filters)
        return replace(self, time=t, filters=filters)

    def predict(self, t: float) -> Forecast:
        """Return the forecast of all points at time `t`, which is not before the latest readings."""
        return self._prediction(t, with_present=False).forecast()

    def joint_posterior(self, t: float, beta: float = 2.0) -> JointPosterior:
        """Return the joint posterior of rewards at time `t` and of readings at the present time.

        The noise of a reading is sensor noise plus the nugget; both say nothing about time `t`.
        """
        prediction = self._prediction(t, with_present=True)
        return prediction.joint_posterior(self.noise_variance, beta)

    def persistent_share(self, t: float) -> Array:
        """Return the fraction (A,) of deviations at time `t` that later readings would remove.

        It is computed by `forecasts.compute_persistent_share` under the model of the largest weight; it
        is 1 before any reading.
        """
        if not self.filters:
            return np.ones(len(self.points))
        heaviest = np.arange(len(self.weights)) == first_argmax(self.weights)
        parts = zip(self.filters, split_by_group(heaviest, self.filters), strict=True)
        model = next(filters.take(mask) for filters, mask in parts if mask.any())
        model = model.predict(self.count_steps(t))
        return compute_persistent_share(model, self.points, self.noise_variance)

    def _prediction(self, t: float, with_present: bool) -> MixturePrediction:
        """Return the prediction for time `t` and, `with_present`, for the present time.

        Models of very low weight are left out.
        """
        h = self.count_steps(t)
        weights = self.weights
        weights = np.where(weights >= CONFIG.predicting_weight * weights.max(), weights, 0.0)
        weights /= weights.sum()
        parts_by_basis: dict[str, list[tuple[Filters, Array]]] = {}
        for filters, part in zip(self.filters, split_by_group(weights, self.filters), strict=True):
            if np.count_nonzero(part):
                parts_by_basis.setdefault(filters.dynamics.basis_key, []).append((filters, part))
        mixtures = [MixtureMoments.of(parts, h, with_present) for parts in parts_by_basis.values()]
        return MixturePrediction(mixtures, self.origin, self.inflation)

    # --- readings ---------------------------------------------------------------------------------

    def update(
        self, rows: Sequence[int] | Index, values: Array, variance: Array | float | None, t: float
    ) -> FilterEnsemble:
        """Return the ensemble given readings of one time, which is not before the latest readings.

        Parameters
        ----------
        rows : sequence of n int
            Numbers of the points.
        values : array of shape (n,)
            Rewards.
        variance : array of shape (n,) or float, optional
            Noise variances of the readings; by default `noise_variance`.
        t : float
            The time of the readings.
        """
        index, y = np.asarray(rows), values
        noise = np.full(y.shape, self.noise_variance if variance is None else variance)
        ensemble = self
        if not self.filters:
            smallest = CONFIG.smallest_signal * float(noise.mean())
            first = max(float(y.var()), smallest, self.prior_scale**2)
            ensemble = self._start_from_prior(float(y.mean()), first)
        if len(y) > FILTER_CONFIG.batch_size:
            for part in batch_slices(len(y)):
                ensemble = ensemble.update(index[part], y[part], noise[part], t)
            return ensemble
        restarts = ensemble._learns_scale() and ensemble.steps + 1 in CONFIG.start_steps
        if restarts and t != ensemble.time:
            ensemble = ensemble._restart()
        return ensemble._begin_step(t)._add_readings(index, y, noise)

    def _add_readings(self, index: Index, y: Array, noise: Array) -> FilterEnsemble:
        """Return the ensemble given readings of the present time."""
        pairs = [filters.update(index, y - self.origin, noise) for filters in self.filters]
        innovations, current = [innovations for _, innovations in pairs], self._current
        errors = np.concatenate([batch.errors for batch in innovations])
        squares = standardise_innovations(self.weights, errors, innovations)
        likelihood = np.concatenate([batch.log_likelihood for batch in innovations])
        first = (*self._first_readings, (self.time, Readings(index, y, noise)))
        return replace_fields(
            self,
            filters=tuple(filters for filters, _ in pairs),
            _current=CurrentStep(
                current.log_likelihood + likelihood, (*current.squared_innovations, *squares)
            ),
            _first_readings=first if self._learns_scale() else (),
        )

    def _begin_step(self, t: float) -> FilterEnsemble:
        """Return the ensemble at time `t`, with weights updated by the readings before `t`."""
        if t == self.time:
            return self
        if np.isnan(self.time):
            return replace_fields(self, time=t)
        step_length = self.step_length if np.isfinite(self.step_length) else t - self.time
        innovation, coverage = self.mean_squared_innovation, self.coverage
        rate, squared = CONFIG.innovation_rate, self._current.squared_innovations
        if squared:
            squares = np.array(squared)
            edge = (CALIBRATION_CONFIG.half_width * self.inflation) ** 2
            inside = squares < min(edge, CALIBRATION_CONFIG.largest_square)
            coverage += rate * (np.count_nonzero(inside) / len(inside) - coverage)
            innovation += rate * (float(squares.mean()) - innovation)
        filters, log_weights, steps = self.filters, self._updated_log_weights, self.steps + 1
        if steps in CONFIG.prune_steps:
            filters, log_weights = prune(filters, log_weights)
        if not np.isfinite(self.step_length):
            filters = tuple(batch.convert_periods(step_length) for batch in filters)
        filters = tuple(batch.predict((t - self.time) / step_length) for batch in filters)
        return replace_fields(
            self,
            step_length=step_length,
            time=t,
            steps=steps,
            mean_squared_innovation=innovation,
            coverage=coverage,
            filters=filters,
            _log_weights=log_weights,
            _current=CurrentStep.empty(filters),
        )

    def replace_group(self, filters: Filters, t: float) -> FilterEnsemble:
        """Return the ensemble at time `t`, with `filters` in place of the group of the same number.

        The new filters have the total weight of that group; if there was none, of all others.
        """
        ensemble = self._begin_step(t)
        parts = split_by_group(ensemble._log_weights, ensemble.filters)
        pairs = list(zip(ensemble.filters, parts, strict=True))
        same = [part for batch, part in pairs if batch.group == filters.group]
        others = [pair for pair in pairs if pair[0].group != filters.group]
        previous = CONFIG.forgetting * np.concatenate(same or [part for _, part in others])
        log_weight = float(np.logaddexp.reduce(previous)) - math.log(len(filters))
        all_filters = (*(batch for batch, _ in others), filters)
        new_log_weights = np.full(len(filters), log_weight / CONFIG.forgetting)
        return replace_fields(
            ensemble,
            filters=all_filters,
            _log_weights=np.concatenate([*(part for _, part in others), new_log_weights]),
            _current=CurrentStep.empty(all_filters),
        )

    # --- the first steps --------------------------------------------------------------------------

    def _start_from_prior(self, origin: float, variance: float) -> FilterEnsemble:
        """Return the ensemble before any reading, with this first guess of the squared scale."""
        guess = variance, self.scale_count
        # An ensemble that restarts reuses its dynamics, and does not compute the features again.
        filters = tuple(
            Filters.from_prior(batch.dynamics, *guess, batch.group) for batch in self.filters
        )
        filters = filters or initial_filters(self.models, self.points, *guess)
        return replace_fields(
            self,
            filters=filters,
            origin=origin,
            first_scale=math.sqrt(variance),
            _log_weights=self._prior_log_weights(filters),
            _current=CurrentStep.empty(filters),
        )

    def _prior_log_weights(self, filters: Sequence[Filters]) -> Array:
        """Return the logarithms of the prior weights of all models, up to a constant."""
        prior = dict(self.prior_weights)
        models = [model for batch in filters for model in batch.models]
        weights = np.array([prior.get(model, 0.0) for model in models])
        return np.asarray(np.log1p(weights * len(models)))

    def _learns_scale(self) -> bool:
        """Return whether the ensemble will restart with another origin and scale."""
        return self.scale_count > 1 and self.steps < CONFIG.start_steps[-1]

    def _restart(self) -> FilterEnsemble:
        """Return the ensemble with its readings replayed, with their origin and scale."""
        first = self._first_readings
        y = np.concatenate([readings.values for _, readings in first])
        noise = float(np.concatenate([readings.variance for _, readings in first]).mean())
        variance = float(y.var())
        if variance < CONFIG.smallest_signal * noise:
            variance = max(variance - noise, CONFIG.smallest_share * noise)
        ensemble = replace_fields(
            self._start_from_prior(float(np.median(y)), variance),
            time=math.nan,
            steps=0,
            mean_squared_innovation=1.0,
            coverage=0.95,
            _first_readings=(),
        )
        for t, readings in first:
            ensemble = ensemble._begin_step(t)._add_readings(*readings)
        return ensemble

"""Weight Kalman filters by their predictions: dynamic model averaging.

The ensemble learns which models predict well, without fitting any of them. It is updated with the
readings of one time after the other, and returns forecasts of all points and the joint posterior with
which expert queries are selected.

After each step the log weight of a model is multiplied by a forgetting factor, and grows by half of its
log predictive density of the readings. There are three additions:

- A model of low weight becomes inactive. Its state stays, and later steps are stored as a backlog. Once
  in each period, or after a step with large innovations, the models of a group are updated with the
  backlog at once and weighted by each of its steps, as if they had been active. Predictions lack them
  for at most 16 steps.
- On a smooth function the first guess of the filters' scale has the weight of many innovations. It comes
  from the first steps, which are replayed with it.
- All deviations are inflated if innovations were larger than predicted.

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
from tvbandits.gp.ensemble.dynamics import representable_models
from tvbandits.gp.ensemble.filters import (
    CONFIG as FILTER_CONFIG,
    Filters,
    Innovations,
    StepReadings,
    batch_slices,
    initial_filters,
    step_batches,
    update_batch,
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
    active_weight : float
        A model is inactive if its weight is below this fraction of the largest one.
    update_period : int
        Steps between two updates of a group of inactive models.
    large_innovation : float
        After a step with a larger mean squared standardised innovation, all inactive models are updated
        with their backlog, because one of them may explain it.
    predicting_weight : float
        Active models below this fraction of the largest weight are left out of predictions, to save
        time.
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
        The steps after which the models of lower weight are dropped if they exceed the capacity.
    """

    forgetting: float = 0.99
    evidence_power: float = 0.5
    active_weight: float = 1e-3
    update_period: int = 16
    large_innovation: float = 4.0
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


def update_weights(log_weights: Array, log_likelihood: Array) -> Array:
    """Return the log weights (M,) of models after s steps with log predictive densities (s, M)."""
    for step in log_likelihood:
        log_weights = CONFIG.forgetting * log_weights + CONFIG.evidence_power * step
    return log_weights


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
    """Return filters and log weights without the models of lower weight, if above the capacity.

    At least half of the models stay.
    """
    sizes = np.concatenate([np.full(len(batch), batch.dynamics.size**2) for batch in filters])
    if sizes.sum() <= CONFIG.capacity:
        return tuple(filters), log_weights
    order = np.argsort(-log_weights, kind="stable")
    fits = np.cumsum(sizes[order]) <= CONFIG.capacity
    heavy = np.zeros(len(order), dtype=bool)
    heavy[order[: max((len(order) + 1) // 2, int(fits.sum()), 1)]] = True
    parts = zip(filters, split_by_group(heavy, filters), strict=True)
    return tuple(batch.take(mask) for batch, mask in parts if mask.any()), log_weights[heavy]


# --- inactive models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelGroup:
    """Models with the same features and their log weights (M,), at the time of their latest update."""

    filters: Filters
    log_weights: Array
    time: float

    def catch_up(self, backlog: Sequence[StepReadings], step_length: float) -> ModelGroup:
        """Return the group updated with the readings of the backlog after its time."""
        filters, log_weights, time = self.filters, self.log_weights, self.time
        for steps in step_batches([step for step in backlog if step.t > self.time]):
            filters, log_likelihood = update_batch(filters, time, steps, step_length)
            log_weights = update_weights(log_weights, log_likelihood)
            time = steps[-1].t
        return ModelGroup(filters, log_weights, time)


@dataclass(frozen=True)
class InactiveModels:
    """The inactive models, one `ModelGroup` for the same features, and the steps that they lack."""

    groups: tuple[ModelGroup, ...] = ()
    backlog: tuple[StepReadings, ...] = ()

    def exchange(
        self,
        active: Sequence[Filters],
        log_weights: Array,
        step: StepReadings,
        due_group: int | None,
        step_length: float,
    ) -> tuple[tuple[Filters, ...], Array, InactiveModels]:
        """Return the active models, their log weights, and the inactive models, after a step.

        Parameters
        ----------
        active : sequence of Filters
            The active models at the end of the step.
        log_weights : array of shape (active models,)
        step : StepReadings
        due_group : int or None
            The group that is updated with its backlog; None for all groups.
        step_length : float
            Duration of a step.
        """
        backlog = (*self.backlog, step) if self.groups else ()
        numbers = {filters.group for filters in active}
        numbers |= {group.filters.group for group in self.groups}
        due = [number for number in sorted(numbers) if due_group in (None, number)]
        if not due:
            return tuple(active), log_weights, InactiveModels(self.groups, backlog)
        pairs = zip(active, split_by_group(log_weights, active), strict=True)
        active_groups = {
            filters.group: ModelGroup(filters, part, step.t) for filters, part in pairs
        }
        inactive_groups = {group.filters.group: group for group in self.groups}
        comparable = list(active_groups.values())
        for number in due:
            if number in inactive_groups:
                inactive_groups[number] = inactive_groups[number].catch_up(backlog, step_length)
                comparable.append(inactive_groups[number])
        largest = max(float(group.log_weights.max()) for group in comparable)
        threshold = largest + math.log(CONFIG.active_weight)
        for number in due:
            _split_by_weight(number, active_groups, inactive_groups, threshold)
        inactive = tuple(inactive_groups[number] for number in sorted(inactive_groups))
        earliest = min((group.time for group in inactive), default=math.inf)
        backlog = tuple(readings for readings in backlog if readings.t > earliest)
        groups = [active_groups[number] for number in sorted(active_groups)]
        log_weights = np.concatenate([group.log_weights for group in groups])
        filters = tuple(group.filters for group in groups)
        return filters, log_weights, InactiveModels(inactive, backlog)


def _split_by_weight(
    number: int, active: dict[int, ModelGroup], inactive: dict[int, ModelGroup], threshold: float
) -> None:
    """Reassign the models of the group `number` to the active or inactive ones by their weights."""
    parts = [groups[number] for groups in (active, inactive) if number in groups]
    active_stay = number not in active or (active[number].log_weights >= threshold).all()
    inactive_stay = number not in inactive or (inactive[number].log_weights < threshold).all()
    if active_stay and inactive_stay:
        return
    filters, *others = (part.filters for part in parts)
    filters = filters.concatenate(others[0]) if others else filters
    log_weights = np.concatenate([part.log_weights for part in parts])
    heavy = log_weights >= threshold
    for groups, mask in ((active, heavy), (inactive, ~heavy)):
        groups.pop(number, None)
        if mask.any():
            groups[number] = ModelGroup(filters.take(mask), log_weights[mask], parts[0].time)


# --- the ensemble ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurrentStep:
    """The readings of the present time, with their log likelihood and innovations.

    Attributes
    ----------
    readings : StepReadings
    log_likelihood : array of shape (sum of M,)
        Log likelihoods of the active models, in the unit of the reward.
    squared_innovations : tuple of float
        Squared standardised innovations of the mixture.
    """

    readings: StepReadings
    log_likelihood: Array
    squared_innovations: tuple[float, ...] = ()

    @classmethod
    def empty(cls, filters: Sequence[Filters], t: float) -> CurrentStep:
        """Return the step before its first reading."""
        readings = StepReadings(t, np.empty(0, np.int64), np.empty(0), np.empty(0))
        return cls(readings, np.zeros(sum(map(len, filters))))


@dataclass(frozen=True)
class FilterEnsemble:
    """An immutable ensemble of weighted Kalman filters on fixed points; `of` returns a new one.

    Attributes
    ----------
    points : array of shape (A, d)
    models : tuple of ModelSpec
        All models, of which `active_models` are a subset.
    noise_variance : float
        Noise variance of the sensor, for readings without a stated one; the learned nugget is added.
    step_length : float
        Duration of a step, the unit of the models' time scales; by default that between the first two
        times.
    filters : tuple of Filters
        The filters of the active models.
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
    _current: CurrentStep = field(default_factory=lambda: CurrentStep.empty((), math.nan))
    # Readings of the first steps in the unit of the reward, for a replay with another origin and scale.
    _first_readings: tuple[StepReadings, ...] = ()
    _inactive: InactiveModels = field(default_factory=InactiveModels)

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
    def active_models(self) -> tuple[ModelSpec, ...]:
        """Return the active models, in the order of `weights`."""
        return tuple(model for filters in self.filters for model in filters.models)

    @cached_property
    def squared_scales(self) -> Array:
        """Return the squared scales of the active models, in the unit of the reward squared."""
        return np.concatenate([filters.variance for filters in self.filters])

    @cached_property
    def weights(self) -> Array:
        """Return the weights of the active models, with the sum 1."""
        log_weights = self._updated_log_weights
        weights = np.exp(log_weights - log_weights.max())
        return np.asarray(weights / weights.sum())

    @cached_property
    def _updated_log_weights(self) -> Array:
        """Return the log weights of the active models after the present step."""
        return update_weights(self._log_weights, self._current.log_likelihood[None])

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
        raw = StepReadings(self.time, index, y, noise)
        z = y - self.origin
        pairs = [filters.update(index, z, noise) for filters in self.filters]
        innovations, current = [innovations for _, innovations in pairs], self._current
        errors = np.concatenate([batch.errors for batch in innovations])
        squares = standardise_innovations(self.weights, errors, innovations)
        old = current.readings
        readings = StepReadings(
            self.time,
            np.concatenate([old.rows, index]),
            np.concatenate([old.values, z]),
            np.concatenate([old.noise, noise]),
        )
        likelihood = np.concatenate([batch.log_likelihood for batch in innovations])
        likelihood = current.log_likelihood + likelihood
        return replace_fields(
            self,
            filters=tuple(filters for filters, _ in pairs),
            _current=CurrentStep(readings, likelihood, (*current.squared_innovations, *squares)),
            _first_readings=(*self._first_readings, raw) if self._learns_scale() else (),
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
        filters, inactive, log_weights = self.filters, self._inactive, self._updated_log_weights
        steps = self.steps + 1
        if steps in CONFIG.prune_steps:
            filters, log_weights = prune(filters, log_weights)
        if steps >= CONFIG.start_steps[-1]:
            is_large = np.array(squared).mean() > CONFIG.large_innovation
            due_group = None if is_large else steps % CONFIG.update_period
            filters, log_weights, inactive = inactive.exchange(
                filters, log_weights, self._current.readings, due_group, step_length
            )
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
            _current=CurrentStep.empty(filters, t),
            _inactive=inactive,
        )

    def replace_group(self, filters: Filters, t: float) -> FilterEnsemble:
        """Return the ensemble at time `t`, with `filters` in place of the group of the same number.

        If that group was active, the new filters have its total weight; otherwise that of all others.
        """
        ensemble = self._begin_step(t)
        parts = split_by_group(ensemble._log_weights, ensemble.filters)
        pairs = list(zip(ensemble.filters, parts, strict=True))
        same = [part for batch, part in pairs if batch.group == filters.group]
        others = [pair for pair in pairs if pair[0].group != filters.group]
        previous = CONFIG.forgetting * np.concatenate(same or [part for _, part in others])
        log_weight = float(np.logaddexp.reduce(previous)) - math.log(len(filters))
        inactive = ensemble._inactive
        groups = tuple(g for g in inactive.groups if g.filters.group != filters.group)
        active = (*(batch for batch, _ in others), filters)
        new_log_weights = np.full(len(filters), log_weight / CONFIG.forgetting)
        log_weights = [*(part for _, part in others), new_log_weights]
        return replace_fields(
            ensemble,
            filters=active,
            _log_weights=np.concatenate(log_weights),
            _current=CurrentStep.empty(active, t),
            _inactive=replace(inactive, groups=groups),
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
            _current=CurrentStep.empty(filters, self.time),
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
        y = np.concatenate([readings.values for readings in self._first_readings])
        noises = np.concatenate([readings.noise for readings in self._first_readings])
        noise, variance = float(np.mean(noises)), float(y.var())
        if variance < CONFIG.smallest_signal * noise:
            variance = max(variance - noise, CONFIG.smallest_share * noise)
        return self._start_from_prior(float(np.median(y)), variance)._replay()

    def _replay(self) -> FilterEnsemble:
        """Return the ensemble updated with the first readings.

        Those before the last time are processed in batches. Separate steps would take as long as all
        steps so far.
        """
        first = self._first_readings
        times = sorted({readings.t for readings in first})
        past = [self._merge([part for part in first if part.t == t]) for t in times[:-1]]
        ensemble = replace_fields(
            self, time=times[0], steps=-1, mean_squared_innovation=1.0, coverage=0.95
        )
        for steps in step_batches(past):
            pairs = [
                update_batch(batch, ensemble.time, steps, self.step_length)
                for batch in ensemble.filters
            ]
            filters, likelihoods = zip(*pairs, strict=True)
            log_likelihood = np.concatenate(likelihoods, axis=1)
            ensemble = replace_fields(
                ensemble,
                filters=filters,
                time=steps[-1].t,
                steps=ensemble.steps + len(steps),
                _log_weights=update_weights(ensemble._log_weights, log_likelihood),
            )
        current = CurrentStep.empty(ensemble.filters, times[-1])
        ensemble = replace_fields(ensemble, _current=current)
        for part in first:
            if part.t == times[-1]:
                ensemble = ensemble.update(part.rows, part.values, part.noise, part.t)
        return replace_fields(ensemble, _first_readings=first)

    def _merge(self, parts: Sequence[StepReadings]) -> StepReadings:
        """Return the concatenated readings of one time, with rewards minus the origin."""
        rows = np.concatenate([part.rows for part in parts])
        values = np.concatenate([part.values for part in parts]) - self.origin
        noise = np.concatenate([part.noise for part in parts])
        return StepReadings(parts[0].t, rows, values, noise)

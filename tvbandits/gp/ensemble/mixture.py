"""An ensemble of models, weighted by how well they predict: dynamic model averaging of Kalman filters.

It is for learning which models hold, without ever fitting one again. The readings of one time after the
other go in; out come forecasts of all points, and the joint posterior that questions are chosen by.

After each step the log weight of a model is multiplied by a forgetting factor, and grows by half of its
log predictive density of the readings.

Three things are special:

- A model of little weight is inactive: it keeps its state, and the steps since are a backlog. When it is
  the turn of its group, or after a step with large innovations, it is updated with the backlog at once
  and weighted by each of its steps, as if it had been active. Predictions miss it for at most 16 steps.
- On a smooth function the first guess of the filters' scale counts for many innovations. It follows from
  the first steps, which are replayed with it.
- All deviations are inflated if innovations have been larger than predicted.

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
from scipy.special import softmax

from tvbandits.data import replace_fields
from tvbandits.gp.calibration import CONFIG as CALIBRATION_CONFIG
from tvbandits.gp.ensemble.dynamics import representable_models
from tvbandits.gp.ensemble.filters import (
    CONFIG as FILTER_CONFIG,
    Filters,
    Innovations,
    StepReadings,
    batch_slices,
    batched_update,
    filters_at_prior,
    step_batches,
)
from tvbandits.gp.ensemble.forecasts import (
    Forecast,
    MixtureMoments,
    MixturePrediction,
    persistent_share,
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
    """The constants of the weights, and of what follows from the first steps.

    Attributes
    ----------
    forgetting : float
        Factor on the log weights in each step, so that evidence counts for about 100 steps.
    evidence_power : float
        Factor on the log density of a step, below 1 because no model is right: with 1 the weights
        settle after a few readings, and in half of the runs on a network with one place far above all
        others it was never found.
    active_weight : float
        A model is inactive below this share of the largest weight.
    turn_period : int
        Steps between two turns of a group of inactive models.
    large_innovation : float
        After a step with a larger mean squared standardised innovation all models are updated with their
        backlog, as one of them may explain it.
    predicting_weight : float
        Active models below this share of the largest weight are left out of predictions, to save time.
    innovation_rate : float
        Weight of the latest step in the mean squared innovation and in the coverage: about 20 steps.
    start_steps : tuple of int
        After so many steps an ensemble whose first guess of the scale counts for many innovations starts
        anew, with the origin and scale of the readings so far.
    function_scale_count : float
        Number of innovations that the first guess of the scale is worth on a smooth function. A bandit
        that plays near a peak sees little of how far the function varies: with a small count it would
        soon take all of it for as flat as the peak.
    smallest_signal : float
        The first variance of rewards is at least this times that of the noise, as one step's readings
        may be equal by chance. From later readings the noise is subtracted if their variance is below
        this, since it is most of it then.
    smallest_share : float
        What is left of the variance then is at least this share of the noise: 16 readings do not
        distinguish less from zero.
    capacity : int
        Most numbers in the covariances of all models: it bounds memory and the time of a step.
    prune_steps : tuple of int
        After so many steps the lighter half of the models is dropped, if they are above the capacity.
    """

    forgetting: float = 0.99
    evidence_power: float = 0.5
    active_weight: float = 1e-3
    turn_period: int = 16
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
    """Return the log weights (M,) of models after s steps with these log predictive densities (s, M)."""
    for step in log_likelihood:
        log_weights = CONFIG.forgetting * log_weights + CONFIG.evidence_power * step
    return log_weights


def squared_innovations(
    weights: Array, errors: Array, innovations: Sequence[Innovations]
) -> tuple[float, ...]:
    """Return the squared standardised innovations of the mixture, by errors (M, n) of its models."""
    variances = np.concatenate([each.variances for each in innovations])
    mean = weights @ errors
    variance = weights @ (variances + (errors - mean) ** 2)
    return tuple(np.minimum(mean**2 / variance, CALIBRATION_CONFIG.largest_square).tolist())


def split_by_group(values: NDArray[Any], filters: Sequence[Filters]) -> list[NDArray[Any]]:
    """Return values of all models as those of each batch of filters."""
    return np.split(values, np.cumsum([len(each) for each in filters])[:-1])


def prune(filters: Sequence[Filters], log_weights: Array) -> tuple[tuple[Filters, ...], Array]:
    """Drop the lighter half of the models if their covariances are above the capacity."""
    sizes = np.concatenate([np.full(len(each), each.dynamics.size**2) for each in filters])
    if sizes.sum() <= CONFIG.capacity:
        return tuple(filters), log_weights
    order = np.argsort(-log_weights, kind="stable")
    fits = np.cumsum(sizes[order]) <= CONFIG.capacity
    heavy = np.zeros(len(order), dtype=bool)
    heavy[order[: max((len(order) + 1) // 2, int(fits.sum()), 1)]] = True
    parts = zip(filters, split_by_group(heavy, filters), strict=True)
    return tuple(each.take(part) for each, part in parts if part.any()), log_weights[heavy]


# --- inactive models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelGroup:
    """Models of the same features, with their log weights (M,), at the time of their latest readings."""

    filters: Filters
    log_weights: Array
    time: float

    def catch_up(self, backlog: Sequence[StepReadings], step_length: float) -> ModelGroup:
        """Return the group, updated with all readings of the backlog since its time."""
        filters, log_weights, time = self.filters, self.log_weights, self.time
        for steps in step_batches([each for each in backlog if each.t > self.time]):
            filters, log_likelihood = batched_update(filters, time, steps, step_length)
            log_weights = update_weights(log_weights, log_likelihood)
            time = steps[-1].t
        return ModelGroup(filters, log_weights, time)


@dataclass(frozen=True)
class InactiveModels:
    """The inactive models, at most one `ModelGroup` of the same features, and the steps they lack."""

    groups: tuple[ModelGroup, ...] = ()
    backlog: tuple[StepReadings, ...] = ()

    def exchange(
        self,
        active: Sequence[Filters],
        log_weights: Array,
        step: StepReadings,
        turn: int | None,
        step_length: float,
    ) -> tuple[tuple[Filters, ...], Array, InactiveModels]:
        """Return the active models, their log weights, and the inactive models, after a step.

        Parameters
        ----------
        active : sequence of Filters
            At the end of the step.
        log_weights : array of shape (active models,)
        step : StepReadings
        turn : int or None
            The group whose turn it is to be updated with its backlog; None: all groups.
        step_length : float
            Duration of a step.
        """
        backlog = (*self.backlog, step) if self.groups else ()
        groups = {each.group for each in active} | {each.filters.group for each in self.groups}
        turns = [group for group in sorted(groups) if turn in (None, group)]
        if not turns:
            return tuple(active), log_weights, InactiveModels(self.groups, backlog)
        pairs = zip(active, split_by_group(log_weights, active), strict=True)
        active_groups = {each.group: ModelGroup(each, part, step.t) for each, part in pairs}
        inactive_groups = {each.filters.group: each for each in self.groups}
        comparable = list(active_groups.values())
        for group in turns:
            if group in inactive_groups:
                inactive_groups[group] = inactive_groups[group].catch_up(backlog, step_length)
                comparable.append(inactive_groups[group])
        largest = max(float(each.log_weights.max()) for each in comparable)
        threshold = largest + math.log(CONFIG.active_weight)
        for group in turns:
            _sort_by_weight(group, active_groups, inactive_groups, threshold)
        inactive = tuple(inactive_groups[group] for group in sorted(inactive_groups))
        earliest = min((each.time for each in inactive), default=math.inf)
        backlog = tuple(each for each in backlog if each.t > earliest)
        ordered = [active_groups[group] for group in sorted(active_groups)]
        log_weights = np.concatenate([each.log_weights for each in ordered])
        filters = tuple(each.filters for each in ordered)
        return filters, log_weights, InactiveModels(inactive, backlog)


def _sort_by_weight(
    group: int, active: dict[int, ModelGroup], inactive: dict[int, ModelGroup], threshold: float
) -> None:
    """Move the models of a group to the active or to the inactive ones, by their weights."""
    parts = [groups[group] for groups in (active, inactive) if group in groups]
    heavy_stay = group not in active or (active[group].log_weights >= threshold).all()
    light_stay = group not in inactive or (inactive[group].log_weights < threshold).all()
    if heavy_stay and light_stay:
        return
    filters, *others = (each.filters for each in parts)
    filters = filters.concatenate(others[0]) if others else filters
    log_weights = np.concatenate([each.log_weights for each in parts])
    heavy = log_weights >= threshold
    for groups, mask in ((active, heavy), (inactive, ~heavy)):
        groups.pop(group, None)
        if mask.any():
            groups[group] = ModelGroup(filters.take(mask), log_weights[mask], parts[0].time)


# --- the ensemble ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurrentStep:
    """The readings of the present time, and how well the active models predicted them.

    Attributes
    ----------
    readings : StepReadings
    log_likelihood : array of shape (sum of M,)
        Of the active models, in the unit of reward.
    squared_innovations : tuple of float
        Of the mixture, standardised.
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
    """Weighted Kalman filters on fixed points, an immutable value that `FilterEnsemble.of` makes.

    Attributes
    ----------
    points : array of shape (A, d)
    models : tuple of ModelSpec
        All models; `active_models` are a part of them.
    noise_variance : float
        Of a reading without its own: that of the sensor, to which the learned nugget adds.
    step_length : float
        Duration of a step, the unit of the models' times: by default that between the first two times.
    filters : tuple of Filters
        Of the active models.
    origin : float
        Rewards are stored relative to it, against cancellation.
    time : float
        Of the latest readings; NaN before the first.
    steps : int
        Number of times with readings before the present one.
    mean_squared_innovation : float
        Of the standardised innovations; 1 if the deviations are right.
    coverage : float
        Share of 95% intervals that held the reading, over the same steps.
    first_scale : float
        The first guess of the scale, in the unit of reward; 0 before the first reading.
    scale_count : float
        Number of innovations that the first guess of the scale is worth.
    prior_weights : tuple of pairs (ModelSpec, weight)
        From other bandits: they are half of the prior weights, the other half is equal for all.
    prior_scale : float
        Smallest first guess of the scale; 0: none.
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
    # Of the first steps, in the unit of reward: they are replayed with another origin and scale.
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
            None: `models_for(points)`, as far as features can represent them.
        both : bool
            As of `models_for`; the first guess of the scale counts as for a function then.
        season : float, optional
            Period of a season, as of `models_for`.
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

    # --- what it has learned ----------------------------------------------------------------------

    @cached_property
    def active_models(self) -> tuple[ModelSpec, ...]:
        """Return the active models, in the order of `weights`."""
        return tuple(each for filters in self.filters for each in filters.models)

    @cached_property
    def squared_scales(self) -> Array:
        """Return the squared scales of the active models, in the unit of reward squared."""
        return np.concatenate([each.variance for each in self.filters])

    @cached_property
    def weights(self) -> Array:
        """Return the weights of the active models, whose sum is 1."""
        return np.asarray(softmax(self._updated_log_weights))

    @cached_property
    def _updated_log_weights(self) -> Array:
        """Return the log weights of the active models after the present step."""
        return update_weights(self._log_weights, self._current.log_likelihood[None])

    @property
    def inflation(self) -> float:
        """Return the factor on deviations, above 1 if innovations have been larger than predicted."""
        return float(np.sqrt(max(self.mean_squared_innovation, 1.0)))

    @property
    def nugget(self) -> float:
        """Return the variance of the nugget, the mean over the models."""
        nuggets = np.concatenate([each.dynamics.nugget for each in self.filters])
        return float((self.weights * self.squared_scales * nuggets).cumsum()[-1])

    # --- predictions ------------------------------------------------------------------------------

    def steps_until(self, t: float) -> float:
        """Return the steps to a time; 1 or 0 while the duration of a step is unknown."""
        if math.isfinite(self.step_length):
            return (t - self.time) / self.step_length
        return float(t > self.time)

    def advance(self, t: float) -> FilterEnsemble:
        """Return the ensemble at a later time, for questions about that time; it has no new readings."""
        if not self.filters or t <= self.time:
            return self
        h = self.steps_until(t)
        return replace(self, time=t, filters=tuple(each.predict(h) for each in self.filters))

    def predict(self, t: float) -> Forecast:
        """Return the forecast of all points at a time, not before the latest readings."""
        return self._prediction(t, with_present=False).forecast()

    def joint_posterior(self, t: float, beta: float = 2.0) -> JointPosterior:
        """Return the posterior of the rewards at a time, with what readings now would change about it.

        The noise of a reading is that of the sensor and the nugget: neither is informative about the
        next step.
        """
        prediction = self._prediction(t, with_present=True)
        return prediction.joint_posterior(self.noise_variance, beta)

    def persistent_share(self, t: float) -> Array:
        """Return the persistent share (A,) of a decision at a time, not before the latest readings.

        As `forecasts.persistent_share`, under the model of the largest weight; 1 before any reading.
        """
        if not self.filters:
            return np.ones(len(self.points))
        heaviest = np.arange(len(self.weights)) == first_argmax(self.weights)
        parts = zip(self.filters, split_by_group(heaviest, self.filters), strict=True)
        model = next(each.take(part) for each, part in parts if part.any())
        model = model.predict(self.steps_until(t))
        return persistent_share(model, self.points, self.noise_variance)

    def _prediction(self, t: float, with_present: bool) -> MixturePrediction:
        """Return the prediction of all models but the lightest, for a time and, if asked, for now."""
        h = self.steps_until(t)
        weights = self.weights
        weights = np.where(weights >= CONFIG.predicting_weight * weights.max(), weights, 0.0)
        weights /= weights.sum()
        by_basis: dict[str, list[tuple[Filters, Array]]] = {}
        for each, part in zip(self.filters, split_by_group(weights, self.filters), strict=True):
            if np.count_nonzero(part):
                by_basis.setdefault(each.dynamics.basis_key, []).append((each, part))
        mixtures = [MixtureMoments.of(parts, h, with_present) for parts in by_basis.values()]
        return MixturePrediction(mixtures, self.origin, self.inflation)

    # --- readings ---------------------------------------------------------------------------------

    def update(
        self, rows: Sequence[int] | Index, values: Array, variance: Array | float | None, t: float
    ) -> FilterEnsemble:
        """Return the ensemble with readings of some points at a time, not before the latest.

        Parameters
        ----------
        rows : sequence of n int
            Numbers of the points.
        values : array of shape (n,)
        variance : array of shape (n,) or float, optional
            Noise variances of the readings. None: `noise_variance`.
        t : float
        """
        index, y = np.asarray(rows), values
        noise = np.full(y.shape, self.noise_variance if variance is None else variance)
        ensemble = self
        if not self.filters:
            smallest = CONFIG.smallest_signal * float(noise.mean())
            first = max(float(y.var()), smallest, self.prior_scale**2)
            ensemble = self._at_prior(float(y.mean()), first)
        if len(y) > FILTER_CONFIG.batch_size:
            for part in batch_slices(len(y)):
                ensemble = ensemble.update(index[part], y[part], noise[part], t)
            return ensemble
        starts = ensemble._learns_scale() and ensemble.steps + 1 in CONFIG.start_steps
        if starts and t != ensemble.time:
            ensemble = ensemble._start_anew()
        return ensemble._begin_step(t)._add_readings(index, y, noise)

    def _add_readings(self, index: Index, y: Array, noise: Array) -> FilterEnsemble:
        """Return the ensemble with readings of the present time."""
        raw = StepReadings(self.time, index, y, noise)
        z = y - self.origin
        pairs = [each.update(index, z, noise) for each in self.filters]
        innovations, current = [each for _, each in pairs], self._current
        errors = np.concatenate([each.errors for each in innovations])
        squares = squared_innovations(self.weights, errors, innovations)
        old = current.readings
        readings = StepReadings(
            self.time,
            np.concatenate([old.rows, index]),
            np.concatenate([old.values, z]),
            np.concatenate([old.noise, noise]),
        )
        likelihood = np.concatenate([each.log_likelihood for each in innovations])
        likelihood = current.log_likelihood + likelihood
        return replace_fields(
            self,
            filters=tuple(filters for filters, _ in pairs),
            _current=CurrentStep(readings, likelihood, (*current.squared_innovations, *squares)),
            _first_readings=(*self._first_readings, raw) if self._learns_scale() else (),
        )

    def _begin_step(self, t: float) -> FilterEnsemble:
        """Return the ensemble at a time; the readings before it have changed the weights then."""
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
            surprising = np.array(squared).mean() > CONFIG.large_innovation
            turn = None if surprising else steps % CONFIG.turn_period
            filters, log_weights, inactive = inactive.exchange(
                filters, log_weights, self._current.readings, turn, step_length
            )
        if not np.isfinite(self.step_length):
            filters = tuple(each.with_periods_in_steps(step_length) for each in filters)
        filters = tuple(each.predict((t - self.time) / step_length) for each in filters)
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

    def with_group(self, filters: Filters, t: float) -> FilterEnsemble:
        """Return the ensemble at a time of readings, with filters in place of the group of their number.

        Together they have the weight that this group had, if it was active; else that of all others.
        """
        ensemble = self._begin_step(t)
        parts = split_by_group(ensemble._log_weights, ensemble.filters)
        pairs = list(zip(ensemble.filters, parts, strict=True))
        same = [part for each, part in pairs if each.group == filters.group]
        others = [pair for pair in pairs if pair[0].group != filters.group]
        before = CONFIG.forgetting * np.concatenate(same or [part for _, part in others])
        log_weight = float(np.logaddexp.reduce(before)) - math.log(len(filters))
        inactive = ensemble._inactive
        groups = tuple(g for g in inactive.groups if g.filters.group != filters.group)
        active = (*(each for each, _ in others), filters)
        share = np.full(len(filters), log_weight / CONFIG.forgetting)
        log_weights = [*(part for _, part in others), share]
        return replace_fields(
            ensemble,
            filters=active,
            _log_weights=np.concatenate(log_weights),
            _current=CurrentStep.empty(active, t),
            _inactive=replace(inactive, groups=groups),
        )

    # --- the first steps --------------------------------------------------------------------------

    def _at_prior(self, origin: float, variance: float) -> FilterEnsemble:
        """Return the ensemble before any reading, with this first guess of the squared scale."""
        first = variance, self.scale_count
        # An ensemble that starts anew has computed the features before.
        filters = tuple(
            Filters.at_prior(each.dynamics, *first, each.group) for each in self.filters
        )
        filters = filters or filters_at_prior(self.models, self.points, *first)
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
        models = [each for group in filters for each in group.models]
        shares = np.array([prior.get(each, 0.0) for each in models])
        return np.asarray(np.log1p(shares * len(models)))

    def _learns_scale(self) -> bool:
        """Return whether the ensemble will start anew with another origin and scale."""
        return self.scale_count > 1 and self.steps < CONFIG.start_steps[-1]

    def _start_anew(self) -> FilterEnsemble:
        """Return the ensemble with the origin and scale of all readings so far."""
        y = np.concatenate([each.values for each in self._first_readings])
        noises = np.concatenate([each.noise for each in self._first_readings])
        noise, variance = float(np.mean(noises)), float(y.var())
        if variance < CONFIG.smallest_signal * noise:
            variance = max(variance - noise, CONFIG.smallest_share * noise)
        return self._at_prior(float(np.median(y)), variance)._replay()

    def _replay(self) -> FilterEnsemble:
        """Return the ensemble with the first readings; those before the last time as batches.

        One time after the other they would take as long as all steps so far.
        """
        first, times = self._first_readings, sorted({each.t for each in self._first_readings})
        past = [self._merge([each for each in first if each.t == t]) for t in times[:-1]]
        ensemble = replace_fields(
            self, time=times[0], steps=-1, mean_squared_innovation=1.0, coverage=0.95
        )
        for steps in step_batches(past):
            pairs = [
                batched_update(each, ensemble.time, steps, self.step_length)
                for each in ensemble.filters
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
        for each in first:
            if each.t == times[-1]:
                ensemble = ensemble.update(each.rows, each.values, each.noise, each.t)
        return replace_fields(ensemble, _first_readings=first)

    def _merge(self, parts: Sequence[StepReadings]) -> StepReadings:
        """Return the readings of a time, which came in parts, with rewards less the origin."""
        rows = np.concatenate([each.rows for each in parts])
        above = np.concatenate([each.values for each in parts]) - self.origin
        noise = np.concatenate([each.noise for each in parts])
        return StepReadings(parts[0].t, rows, above, noise)

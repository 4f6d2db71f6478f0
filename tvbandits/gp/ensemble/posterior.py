"""Implement the protocol of `gp.posterior` by a `FilterEnsemble`.

`ModelEnsemble.condition` takes all readings of a bandit, updates the ensemble with the new ones, and
returns a `Posterior` of all candidates. Before any reading that is the prior of the recipe's kernel. The
mean is not linear in the rewards, because the ensemble learns origin, scale and drift itself.

A step costs the same however long the history is. Of a history that is given at once the models read
only the latest times. The latest readings are stored, so that a late reading is processed at its own
time. In small networks all readings are searched for a season.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior
from tvbandits.gp.ensemble.candidate_posterior import (
    CandidatePosterior,
    Readings,
    candidate_rows,
    prior_of,
    prior_posterior,
    readings_by_time,
)
from tvbandits.gp.ensemble.dynamics import largest_extent, pairwise_distances
from tvbandits.gp.ensemble.empirical import CONFIG as EMPIRICAL_CONFIG, TimedReadings
from tvbandits.gp.ensemble.forecasts import Forecast
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import CONFIG as MODEL_CONFIG, ModelSpec
from tvbandits.gp.ensemble.seasons import SeasonSearch, check_season
from tvbandits.gp.kernels.units import column_units, scale_columns
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.posterior import (
    CandidateGrid,
    Conditioning,
    Data,
    Posterior,
    PosteriorRule,
    Prior,
    equivalent_noise,
)
from tvbandits.ties import first_argmax
from tvbandits.validation import Array, as_list, check_instance, finite_number, nonnegative_number


@dataclass(frozen=True)
class PosteriorConfig:
    """Constants of the posterior.

    Attributes
    ----------
    replay_times : int
        A late reading is processed at its own time if there are at most this many later times with
        readings, for which the ensemble has to be updated again.
    smallest_correlation : float
        An earlier reading is ignored if its squared correlation with the present is smaller.
    kriging_points : int
        The largest number of candidates from which other points are predicted.
    kriging_residual : float
        Fewer candidates are used if they leave at most this fraction of the variance at each candidate.
    listed_models : int
        The number of models of the largest weights in `EnsemblePrior.parameters`.
    smallest_prior_weight : float
        Models of smaller weight are left out of the prior weights for another bandit.
    latest_times, latest_readings : int
        Of a history the models read this many latest times, or as many as contain `latest_readings` for
        each candidate if those are more. Evidence for a model counts for about 100 steps. A season and
        a covariance over places are learned from up to 1,024 times.
    """

    replay_times: int = 8
    smallest_correlation: float = 1e-6
    kriging_points: int = 500
    kriging_residual: float = 1e-6
    listed_models: int = 5
    smallest_prior_weight: float = 1e-3
    latest_times: int = 256
    latest_readings: int = 20


CONFIG = PosteriorConfig()


# --- late readings --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayBuffer:
    """An earlier ensemble and the readings since, for late readings.

    A filter only moves forward in time. After a late reading it therefore starts again from an earlier
    ensemble. A reading from before the buffer is processed at the start of the buffer, with the larger
    noise variance that it has as a reading of that time (`compute_effective_noise`).

    Attributes
    ----------
    start : FilterEnsemble
        The ensemble without the readings of `times`.
    times : tuple of float
        The latest times with readings, sorted.
    readings : tuple of tuple of Readings
        The readings of each time, in the order of their updates.
    """

    start: FilterEnsemble
    times: tuple[float, ...] = ()
    readings: tuple[tuple[Readings, ...], ...] = ()
    # The ensembles after each of the first times, which are computed when they are needed.
    _ensembles: list[FilterEnsemble] = field(default_factory=list, repr=False, compare=False)

    @property
    def latest(self) -> FilterEnsemble:
        """Return the ensemble with all readings."""
        return self._ensemble_after(len(self.times))

    def at(self, t: float) -> FilterEnsemble:
        """Return the ensemble without readings after `t`, or `start` if that is later."""
        return self._ensemble_after(bisect_right(self.times, t))

    def add(self, t: float, readings: Readings) -> ReplayBuffer:
        """Return the buffer with readings of time `t`, which may be late."""
        if t < self.start.time and t not in self.times:
            return self._add_before_start(t, readings)
        i, exists = bisect_left(self.times, t), t in self.times
        times = self.times if exists else (*self.times[:i], t, *self.times[i:])
        at_time = (*self.readings[i], readings) if exists else (readings,)
        parts = (*self.readings[:i], at_time, *self.readings[i + exists :])
        # The ensemble with more readings of the latest time is an update of the latest ensemble.
        is_latest = exists and i == len(times) - 1
        updated = [self.latest.update(*readings, t)] if is_latest else []
        buffer = ReplayBuffer(self.start, times, parts, [*self._ensembles[:i], *updated])
        surplus = len(times) - CONFIG.replay_times
        if surplus <= 0:
            return buffer
        start = buffer._ensemble_after(surplus)
        return ReplayBuffer(start, times[surplus:], parts[surplus:], buffer._ensembles[surplus:])

    def _add_before_start(self, t: float, readings: Readings) -> ReplayBuffer:
        """Return the buffer with readings of a time before its start."""
        noise = compute_effective_noise(self.start, self.start.time - t, readings.variance)
        finite = np.isfinite(noise)
        if not finite.any():
            return self
        rows, values, noise = readings.rows[finite], readings.values[finite], noise[finite]
        start = self.start.update(rows, values, noise, self.start.time)
        return ReplayBuffer(start, self.times, self.readings)

    def _ensemble_after(self, count: int) -> FilterEnsemble:
        """Return the ensemble after the first `count` times.

        Ensembles are computed only when they are needed; otherwise each of many late readings in a row
        would repeat the updates of all later times.
        """
        ensembles = self._ensembles
        while len(ensembles) < count:
            ensemble, i = ensembles[-1] if ensembles else self.start, len(ensembles)
            for readings in self.readings[i]:
                ensemble = ensemble.update(*readings, self.times[i])
            ensembles.append(ensemble)
        return ensembles[count - 1] if count else self.start


def compute_effective_noise(ensemble: FilterEnsemble, age: float | Array, variance: Array) -> Array:
    """Return the noise variances (n,) of earlier readings as readings of the present.

    They follow from `equivalent_noise` and the prior correlation of static part plus drift, averaged
    over the models by their weights; infinite for a reading that says almost nothing.

    Parameters
    ----------
    ensemble : FilterEnsemble
    age : float or array of shape (n,)
        Ages of the readings.
    variance : array of shape (n,)
        Noise variances of the readings.
    """
    variance = np.asarray(variance, dtype=np.float64)
    ages = np.broadcast_to(age, variance.shape)
    if not ensemble.filters or not (ages > 0).any():
        return variance
    step = ensemble.step_length
    steps = ages / step if math.isfinite(step) else np.ones(ages.shape)
    covariance, total = np.zeros(ages.shape), 0.0
    models = zip(ensemble.weights, ensemble.squared_scales, ensemble.current_models, strict=True)
    for weight, scale, model in models:
        covariance += weight * scale * model.covariance(np.zeros(1), steps, 1.0)
        total += weight * scale * (model.static + model.drift)
    r2 = (covariance / total) ** 2
    noise = np.where(
        r2 < CONFIG.smallest_correlation, np.inf, equivalent_noise(variance, total, r2)
    )
    return np.where(ages > 0, noise, variance)


# --- the rule -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelEnsemble(PosteriorRule):
    """A posterior rule with an ensemble of space-time models, weighted by their predictions.

    Parameters
    ----------
    both : bool
        Whether models of a network and of a smooth function compete on up to 96 candidates. By default
        the number of candidates decides which models are used.
    season : float, "find" or None
        Period of a part of the reward. "find": the period is searched in the readings of up to 64
        candidates, for 1,024 steps. None: there is no season.
    prior_weights : tuple of pairs (ModelSpec, weight)
        Weights learned by another bandit on a similar problem. They are half of the prior weights.
    prior_scale : float
        The first guess of the deviation of the reward, learned by that bandit; 0 for none.

    Examples
    --------
    >>> from tvbandits import Candidates, Options, policies
    >>> from tvbandits.gp.ensemble.posterior import ModelEnsemble
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> ensemble = Options(posterior=ModelEnsemble())
    >>> bandit = policies.adaptive_gp_ucb(sites, noise_variance=0.01, options=ensemble)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """

    both: bool = False
    season: float | Literal["find"] | None = "find"
    prior_weights: tuple[tuple[ModelSpec, float], ...] = ()
    prior_scale: float = 0.0

    self_learning: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_season(self.season)
        nonnegative_number("prior_scale", self.prior_scale)
        pairs = "a tuple of pairs (ModelSpec, weight)"
        for pair in as_list("prior_weights", self.prior_weights, pairs):
            model, weight = pair if isinstance(pair, tuple) and len(pair) == 2 else (pair, None)
            name = "each model of prior_weights"
            check_instance(name, model, ModelSpec, "a ModelSpec, with its weight")
            finite_number("each weight of prior_weights", weight, low=0.0, high=1.0)

    @property
    def fewest_candidates_for_fit(self) -> int:
        """Return the number of candidates from which on an outcome gets a fitted kernel instead.

        It is 1 if models of networks and functions compete.
        """
        return 1 if self.both else super().fewest_candidates_for_fit

    def for_other_outcome(self) -> ModelEnsemble:
        """Return the rule for an outcome of another scale, without a first guess of the scale."""
        return replace(self, prior_scale=0.0)

    def warm_start(self, posterior: Any) -> ModelEnsemble:
        """Return the rule with the weights and scale of another bandit's posterior as its prior."""
        ensemble: FilterEnsemble = posterior.ensemble
        pairs = zip(ensemble.current_models, ensemble.weights.tolist(), strict=True)
        # Empirical models, which are not in `models`, are valid for the places of that bandit only.
        prior_weights = tuple(
            (model, weight)
            for model, weight in pairs
            if weight >= CONFIG.smallest_prior_weight and model in ensemble.models
        )
        return replace(self, prior_weights=prior_weights, prior_scale=ensemble.first_scale)

    def initial_ensemble(
        self, points: Array, noise_variance: float, period: float | None
    ) -> FilterEnsemble:
        """Return the ensemble before any reading.

        Parameters
        ----------
        points : array of shape (A, d)
        noise_variance : float
        period : float or None
            Period of a season from a search.
        """
        if period is not None:
            return FilterEnsemble.of(points, noise_variance, season=period)
        season = None if isinstance(self.season, str) else self.season
        ensemble = FilterEnsemble.of(points, noise_variance, both=self.both, season=season)
        return replace_fields(
            ensemble, prior_weights=self.prior_weights, prior_scale=self.prior_scale
        )

    def prior(self, posterior: Posterior) -> Prior:
        """Return the learned prior of a posterior, or that of its kernel before any reading."""
        return prior_of(posterior)

    def condition(self, conditioning: Conditioning) -> EnsemblePosterior | ExactPosterior:
        """Return the posterior given rewards of candidates, updating the previous one if possible.

        The rewards are in their own unit, at inputs [x, t] in any order. The kernel is only the prior
        before the first reading.
        """
        kernel, data, grid, now, previous, _, noise_variance = conditioning
        if grid is None:
            raise ValueError("an ensemble of models needs candidates")
        data = data.sort_by_time()
        prior = prior_posterior(kernel, data, grid, now)
        if prior is not None:
            return prior
        if isinstance(previous, EnsemblePosterior) and (
            (previous.rule, previous.buffer.start.noise_variance) == (self, noise_variance)
        ):
            new = data.rows_missing_from(previous.data)
            if new is not None and len(new) == 0 and now == previous.now:
                return previous
            if new is not None:
                start = replace_fields(previous, kernel=kernel, grid=grid)
                return start.observe(new, data, now)
        points, times = scale_columns(grid.points), data.Z[:, -1]
        buffer = ReplayBuffer(self.initial_ensemble(points, noise_variance, None))
        # On a function of many points the features of a season would make a step too slow.
        searches = self.season == "find" and len(points) <= MODEL_CONFIG.largest_network
        search = SeasonSearch() if searches else None
        fewest = CONFIG.latest_readings * len(points)
        first = find_start_of_latest(times, CONFIG.latest_times, fewest)
        earlier = len(np.unique(times[:first]))
        start = EnsemblePosterior(
            kernel, grid, self, data, buffer, now, search, float(times[first]), earlier
        )
        return start.add_season_of_history().observe(data.rows(first), data, now)


def find_start_of_latest(times: Array, count: int, fewest: int = 0) -> int:
    """Return the first row of the latest times; 0 if there are no earlier ones.

    Parameters
    ----------
    times : array of shape (N,)
        Sorted times of readings.
    count : int
        Number of distinct latest times.
    fewest : int
        Smallest number of readings; more times are included if necessary.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.gp.ensemble.posterior import find_start_of_latest
    >>> print(find_start_of_latest(np.array([1.0, 1.0, 2.0, 2.0, 3.0]), count=2))
    2
    """
    starts = np.flatnonzero(np.diff(times, prepend=-math.inf))
    latest = max(len(starts) - count, 0)
    enough = int(np.searchsorted(starts, len(times) - fewest, side="right")) - 1
    return int(starts[max(min(latest, enough), 0)])


# --- the posterior --------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnsemblePosterior(CandidatePosterior):
    """A `Posterior` of candidates, from an ensemble of filters.

    Means have one column, and variances are in the unit of the reward squared.

    Attributes
    ----------
    kernel : scikit-learn kernel
    grid : CandidateGrid
    rule : ModelEnsemble
    data : Data
        All readings, sorted by time.
    buffer : ReplayBuffer
    now : float
        The time of the predictions.
    search : SeasonSearch or None
        The search for a season; None if there is none.
    first_time : float
        The first time of the readings in the ensemble.
    earlier_times : int
        Number of distinct times before it.
    fantasy : JointPosterior or None
        The posterior at the time `now` given unknown values of pending points.
    """

    kernel: Any
    grid: CandidateGrid
    rule: ModelEnsemble
    data: Data
    buffer: ReplayBuffer
    now: float
    search: SeasonSearch | None = None
    first_time: float = -math.inf
    earlier_times: int = 0
    fantasy: JointPosterior | None = field(default=None, repr=False, compare=False)

    # --- readings ---------------------------------------------------------------------------------

    def add_season_of_history(self) -> EnsemblePosterior:
        """Return the posterior before its first reading, with the season of all data.

        The season is searched here only if the models do not read all times.
        """
        if self.search is None or self.earlier_times == 0:
            return self
        readings = self._readings_before(math.inf, self.data)
        count = len(np.unique(self.data.Z[:, -1]))
        search = SeasonSearch(None, count, float(readings.times[-1])).search(*readings[:3])
        ensemble = self.buffer.start
        if search.period is not None:
            points, noise = ensemble.points, ensemble.noise_variance
            ensemble = self.rule.initial_ensemble(points, noise, search.period)
        return replace_fields(self, search=search, buffer=ReplayBuffer(ensemble))

    def observe(self, new: Data, data: Data, now: float) -> EnsemblePosterior:
        """Return the posterior at `now` given `data`, of which the ensemble lacks the rows `new`."""
        buffer, search, grid = self.buffer, self.search, self.grid
        for t, readings in readings_by_time(grid, new):
            if search is not None and t > search.latest:
                buffer, search = self._search_season(search, buffer, t, data)
            buffer = self._learn_covariance(buffer, t, data).add(t, readings)
        return replace_fields(self, data=data, now=now, buffer=buffer, search=search, fantasy=None)

    def _search_season(
        self, search: SeasonSearch, buffer: ReplayBuffer, t: float, data: Data
    ) -> tuple[ReplayBuffer, SeasonSearch]:
        """Return the buffer and the search before the readings of a later time `t`.

        If the period has changed, a new ensemble is updated with all readings before `t`.
        """
        is_due, search = search.is_due, search.advance(t)
        if not is_due:
            return buffer, search
        period = search.period
        search = search.search(*self._readings_before(t, data)[:3])
        if search.period != period:
            buffer = self.replay(buffer.start, search.period, t, data)
        return buffer, search

    def _readings_before(self, t: float, data: Data) -> TimedReadings:
        """Return the readings of the latest times before `t`, with the numbers of their candidates."""
        times = data.Z[:, -1]
        end = int(np.searchsorted(times, t))
        part = data.rows(find_start_of_latest(times[:end], EMPIRICAL_CONFIG.most_times), end)
        places = candidate_rows(self.grid, part.Z)
        return TimedReadings(part.Z[:, -1], places, part.Y[:, 0], part.variance)

    def _learn_covariance(self, buffer: ReplayBuffer, t: float, data: Data) -> ReplayBuffer:
        """Return the buffer before the readings of time `t`, with new empirical models if due."""
        start, times = buffer.start, buffer.times
        steps, due_steps = start.steps + 1 + len(times), EMPIRICAL_CONFIG.estimation_steps
        # Times that the models do not read are in the covariance from the first estimate on.
        is_due = steps == due_steps[0] or steps + self.earlier_times in due_steps
        network = len(self.grid.points) <= MODEL_CONFIG.largest_network
        # If the start of the buffer has one time only, the duration of a step is unknown.
        has_steps = bool(start.filters) and math.isfinite(start.step_length)
        if not (network and is_due and has_steps and t > times[-1]):
            return buffer
        history = self._readings_before(t, data)
        models = history.models(
            len(self.grid.points), start.step_length, start.current_models[0].season
        )
        if not models:
            return buffer
        filters = history.filters(models, start, times[0])
        return ReplayBuffer(start.replace_group(filters, times[0]), times, buffer.readings)

    def replay(
        self, start: FilterEnsemble, period: float | None, t: float, data: Data
    ) -> ReplayBuffer:
        """Return the buffer of a new ensemble with this season, updated with the readings before `t`."""
        ensemble = self.rule.initial_ensemble(start.points, start.noise_variance, period)
        buffer = ReplayBuffer(ensemble)
        rows = data.rows(*np.searchsorted(data.Z[:, -1], [self.first_time, t]).tolist())
        for time, readings in readings_by_time(self.grid, rows):
            buffer = buffer.add(time, readings)
        return buffer

    def update(
        self, rows: Data, now: float, grid: CandidateGrid | None
    ) -> EnsemblePosterior | None:
        """Return the posterior given more readings; None if `now` is before all readings."""
        if grid is not self.grid or now < self.data.Z[0, -1]:
            return None
        if len(rows.Z) == 0:
            return self if now == self.now else replace_fields(self, now=now)
        return self.observe(rows.sort_by_time(), self.data.append(rows).sort_by_time(), now)

    # --- predictions ------------------------------------------------------------------------------

    @cached_property
    def ensemble(self) -> FilterEnsemble:
        """Return the ensemble without readings after the time `now`."""
        return self.buffer.at(self.now)

    @cached_property
    def forecast(self) -> Forecast:
        """Return the forecast of all candidates at the time `now`."""
        return self.ensemble.predict(max(self.now, self.ensemble.time))

    def joint_posterior(
        self, answer_time: float, beta: float, noise_variance: float | None = None
    ) -> JointPosterior:
        """Return the joint posterior of all candidates at `now` and of readings at `answer_time`."""
        start = max(answer_time, self.buffer.latest.time)
        ensemble = self.buffer.at(start).advance(answer_time)
        joint = ensemble.joint_posterior(max(self.now, ensemble.time), beta)
        if noise_variance is None:
            return joint
        noise = joint.noise_variance + (noise_variance - ensemble.noise_variance)
        return replace_fields(joint, noise_variance=np.maximum(noise, 1e-300))

    def predict_candidates(self) -> tuple[Array, Array]:
        """Return means (A, 1) and learnable variances (A,) at the candidates."""
        deviation = self.forecast.learnable if self.fantasy is None else self.fantasy.deviation
        return self.forecast.mean[:, None], deviation**2

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, 1) and variances (n,) at the points of inputs [x, t], at `now`.

        A point that is not a candidate is predicted from the candidates by the correlations of the
        models (simple kriging around the mean of all candidates). Its variance includes the residual
        variance of kriging.
        """
        if isinstance(Z, CandidateGrid):
            return self.predict_candidates()
        X = Z[:, : self.grid.points.shape[1]]
        rows = self.grid.indices(X)
        mean, variance = self.predict_candidates()
        if None not in rows:
            index = np.array(rows, dtype=np.int64)
            return mean[index], variance[index]
        weights, residual = self._kriging(X, float(variance.max()))
        all_rows = range(len(mean))
        covariance = self._joint_now.covariance(all_rows, all_rows)
        total = np.einsum("ij,jk,ik->i", weights, covariance, weights) + residual
        means = weights @ mean
        variances = self.ensemble.inflation**2 * np.maximum(total, 0.0)
        for i, row in enumerate(rows):
            if row is not None:
                means[i], variances[i] = mean[row], variance[row]
        return means, variances

    @cached_property
    def _units(self) -> Array:
        """Return the units (d,) by which the ensemble divides the coordinates of the candidates."""
        points = self.grid.points
        return column_units(points.min(axis=0), points.max(axis=0))

    def _kriging(self, X: Array, largest: float) -> tuple[Array, Array]:
        """Return kriging weights (n, A) and residual variances (n,) of points (n, d).

        `largest` is the largest variance of a candidate.
        """
        ensemble = self.ensemble
        points, X = ensemble.points, X / self._units
        extent = largest_extent(points)
        models = zip(
            ensemble.weights, ensemble.squared_scales, ensemble.current_models, strict=True
        )
        parts = [
            (weight * scale * variance, space)
            for weight, scale, model in models
            for variance, space in (
                (model.static, model.static_space),
                (model.drift, model.drift_space),
            )
        ]
        total = sum(variance for variance, _ in parts)

        def covariance(others: Array) -> Array:
            """Return the prior covariance (m, A) of points (m, d) with the candidates."""
            distances = pairwise_distances(others, points)
            terms = (variance * space.correlation(distances, extent) for variance, space in parts)
            return np.asarray(sum(terms))

        # Of many candidates, a subset that nearly spans them is enough.
        pivoted = linalg.pivoted_cholesky(
            np.full(len(points), total),
            lambda i: covariance(points[[i]])[0],
            CONFIG.kriging_points,
            CONFIG.kriging_residual * total,
        )
        pivots, factor = pivoted.pivots, pivoted.G[:, pivoted.pivots].T
        half = linalg.solve_lower(factor, covariance(X)[:, pivots].T)
        simple = linalg.solve_lower(factor, half, transposed=True).T
        weights = np.zeros((len(X), len(points)))
        weights[:, pivots] = simple + (1.0 - simple.sum(axis=1, keepdims=True)) / len(pivots)
        # A distant point is at least as uncertain as any candidate.
        smallest = largest / ensemble.inflation**2
        residual = np.maximum(total - (half**2).sum(axis=0), 0.0) * max(1.0, smallest / total)
        return weights, residual

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return centred samples (count, A) at the candidates at the time `now`."""
        all_rows = range(len(self.grid.points))
        root = linalg.square_root(self._joint_now.covariance(all_rows, all_rows))
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)

    # --- the learned prior ------------------------------------------------------------------------

    @cached_property
    def nugget_variance(self) -> float:
        """Return the variance of the models' nugget, without inflation."""
        return self.ensemble.nugget

    @cached_property
    def prior(self) -> EnsemblePrior:
        """Return the learned prior of the reward."""
        return EnsemblePrior(
            self.kernel, self.ensemble, self._units, self.now, self.nugget_variance
        )


@dataclass(frozen=True)
class EnsemblePrior:
    """The `Prior` of candidates that follows from the weights of an ensemble.

    Attributes
    ----------
    kernel : scikit-learn kernel
        The prior before any reading.
    ensemble : FilterEnsemble
        The ensemble without readings after the time `now`.
    units : array of shape (d,)
        The units by which the ensemble divides the coordinates of the candidates.
    now : float
    nugget_variance : float
        Variance of the models' nugget, without inflation.
    """

    kernel: Any
    ensemble: FilterEnsemble
    units: Array
    now: float
    nugget_variance: float

    @property
    def nugget(self) -> float:
        """Return the variance of the nugget, which is unpredictable, inflated like all variances."""
        return self.ensemble.inflation**2 * self.nugget_variance

    def covariance(self, Z: Array) -> Array:
        """Return the prior covariance (n, n) of static part plus drift in the heaviest model."""
        ensemble, X, times = self.ensemble, Z[:, :-1] / self.units, Z[:, -1]
        heaviest = first_argmax(ensemble.weights)
        step = ensemble.step_length if math.isfinite(ensemble.step_length) else 1.0
        lags, extent = np.abs(times[:, None] - times) / step, largest_extent(ensemble.points)
        model = ensemble.current_models[heaviest]
        covariance = model.covariance(pairwise_distances(X, X), lags, extent)
        return np.asarray(ensemble.squared_scales[heaviest] * covariance)

    @property
    def persistent_share(self) -> Array:
        """Return `FilterEnsemble.persistent_share` for a decision at the time `now`."""
        return self.ensemble.persistent_share(max(self.now, self.ensemble.time))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return mean, scale, nugget and deviation factor, and the models of the largest weights."""
        ensemble, weights = self.ensemble, self.ensemble.weights
        heaviest = (-weights).argsort(kind="stable")[: CONFIG.listed_models].tolist()
        return {
            "mean": ensemble.origin,
            "scale": math.sqrt(float(weights @ ensemble.squared_scales)),
            "nugget": math.sqrt(self.nugget_variance),
            "models": tuple((float(weights[i]), ensemble.current_models[i]) for i in heaviest),
            "deviation_factor": ensemble.inflation,
            "coverage": ensemble.coverage,
        }

    def effective_noise(self, current: Array, earlier: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """Return the noise variances (n,) of earlier values as readings of the time `now`."""
        return compute_effective_noise(self.ensemble, ages, noise)

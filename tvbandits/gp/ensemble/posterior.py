"""The ensemble as the posterior of a recipe.

It is for putting a `FilterEnsemble` behind the protocol of `gp.posterior`. All readings of a bandit go
in, and the ensemble is updated with the new ones; out come the answers of a `Posterior` about every
candidate.

A step costs the same however long history is, and a history that is told at once not much more than
its latest times: the models read these alone. Before any reading it is the prior of the recipe's kernel.
Its mean is not linear in the rewards, and origin, scale and drift are its own. The latest readings are
stored beside it, so that a late one counts at its own time; in small networks all readings are searched
for a season.
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
    """The constants of the posterior.

    Attributes
    ----------
    replay_times : int
        A late reading counts at its own time if at most so many later times were read: as many
        ensembles may have to be updated again.
    smallest_correlation : float
        Older readings are ignored if their squared correlation with now is smaller.
    kriging_points : int
        Most candidates that a point which is no candidate is predicted from.
    kriging_residual : float
        Fewer are used where they leave only this share of the variance at each candidate.
    shown_models : int
        Models of the largest weight that `EnsemblePrior.parameters` names.
    carried_weight : float
        Models of less weight are left out of the prior weights for another bandit.
    latest_times, latest_readings : int
        Of a history the models read so many of the latest times, or as many as have so many readings a
        candidate, if those are more: evidence for a model counts for about 100 steps. A season and a
        covariance over places are learned from up to 1,024 times.
    """

    replay_times: int = 8
    smallest_correlation: float = 1e-6
    kriging_points: int = 500
    kriging_residual: float = 1e-6
    shown_models: int = 5
    carried_weight: float = 1e-3
    latest_times: int = 256
    latest_readings: int = 20


CONFIG = PosteriorConfig()


# --- late readings --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayBuffer:
    """An ensemble some times ago, and the readings since, so that a late one counts at its own time.

    A filter only goes forward. A late reading goes back to its time, and those after it are used
    once more. One from before the buffer counts at its beginning, as the noisier reading of that time
    that it is by then (`effective_noise`).

    Attributes
    ----------
    start : FilterEnsemble
        Without the readings of `times`.
    times : tuple of float
        The latest times with readings, in order.
    readings : tuple of tuple of Readings
        Those of each time, in the order of their updates.
    """

    start: FilterEnsemble
    times: tuple[float, ...] = ()
    readings: tuple[tuple[Readings, ...], ...] = ()
    # The ensembles after each of the first times, computed when they are needed.
    _ensembles: list[FilterEnsemble] = field(default_factory=list, repr=False, compare=False)

    @property
    def latest(self) -> FilterEnsemble:
        """Return the ensemble with all readings."""
        return self._ensemble_after(len(self.times))

    def at(self, t: float) -> FilterEnsemble:
        """Return the ensemble without readings after a time, as far back as the buffer goes."""
        return self._ensemble_after(bisect_right(self.times, t))

    def add(self, t: float, readings: Readings) -> ReplayBuffer:
        """Return the buffer with readings of a time, late or not."""
        if t < self.start.time and t not in self.times:
            return self._add_before_start(t, readings)
        i, exists = bisect_left(self.times, t), t in self.times
        times = self.times if exists else (*self.times[:i], t, *self.times[i:])
        at_time = (*self.readings[i], readings) if exists else (readings,)
        parts = (*self.readings[:i], at_time, *self.readings[i + exists :])
        # More readings of the latest time do not need the earlier ones of that time again.
        latest = exists and i == len(times) - 1
        more = [self.latest.update(*readings, t)] if latest else []
        buffer = ReplayBuffer(self.start, times, parts, [*self._ensembles[:i], *more])
        surplus = len(times) - CONFIG.replay_times
        if surplus <= 0:
            return buffer
        start = buffer._ensemble_after(surplus)
        return ReplayBuffer(start, times[surplus:], parts[surplus:], buffer._ensembles[surplus:])

    def _add_before_start(self, t: float, readings: Readings) -> ReplayBuffer:
        """Return the buffer with readings of a time before its beginning."""
        noise = effective_noise(self.start, self.start.time - t, readings.variance)
        finite = np.isfinite(noise)
        if not finite.any():
            return self
        rows, values, noise = readings.rows[finite], readings.values[finite], noise[finite]
        start = self.start.update(rows, values, noise, self.start.time)
        return ReplayBuffer(start, self.times, self.readings)

    def _ensemble_after(self, count: int) -> FilterEnsemble:
        """Return the ensemble after so many of the times; later times wait until they are needed.

        Many late readings in a row would otherwise each repeat all that came later.
        """
        ensembles = self._ensembles
        while len(ensembles) < count:
            ensemble, i = ensembles[-1] if ensembles else self.start, len(ensembles)
            for each in self.readings[i]:
                ensemble = ensemble.update(*each, self.times[i])
            ensembles.append(ensemble)
        return ensembles[count - 1] if count else self.start


def effective_noise(ensemble: FilterEnsemble, age: float | Array, variance: Array) -> Array:
    """Return the noise variances (n,) of earlier readings as readings of now; infinite if worthless.

    By `equivalent_noise`, with the prior correlation of static part and drift together, averaged over
    the active models by their weights.

    Parameters
    ----------
    ensemble : FilterEnsemble
    age : float or array of shape (n,)
        Time since the readings.
    variance : array of shape (n,)
        Their noise variances.
    """
    variance = np.asarray(variance, dtype=np.float64)
    ages = np.broadcast_to(age, variance.shape)
    if not ensemble.filters or not (ages > 0).any():
        return variance
    step = ensemble.step_length
    steps = ages / step if math.isfinite(step) else np.ones(ages.shape)
    shared, total = np.zeros(ages.shape), 0.0
    models = zip(ensemble.weights, ensemble.squared_scales, ensemble.active_models, strict=True)
    for weight, scale, model in models:
        shared += weight * scale * model.covariance(np.zeros(1), steps, 1.0)
        total += weight * scale * (model.static + model.drift)
    r2 = (shared / total) ** 2
    noise = np.where(
        r2 < CONFIG.smallest_correlation, np.inf, equivalent_noise(variance, total, r2)
    )
    return np.where(ages > 0, noise, variance)


# --- the rule -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelEnsemble(PosteriorRule):
    """The rule: an ensemble of space-time models on the candidates, weighted by how well they predict.

    Parameters
    ----------
    both : bool
        Up to 96 candidates may be a network's or lie on a smooth function, and the models of the two are
        rivals; by default the models follow from the number of candidates.
    season : float, "find" or None
        Time after which a part of the reward comes again. "find": searched for in the readings of up to
        64 candidates, for 1,024 steps. None: there is no season.
    prior_weights : tuple of pairs (ModelSpec, weight)
        Learned by another bandit on similar ground: half of the prior weight of the models.
    prior_scale : float
        The prior deviation of the reward there, the first guess of that here; 0: there is none.

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
        """Fewest candidates on which a kernel is fitted to an outcome: any if both kinds vie."""
        return 1 if self.both else super().fewest_candidates_for_fit

    def for_other_outcome(self) -> ModelEnsemble:
        """Return the rule without a first guess of the unit."""
        return replace(self, prior_scale=0.0)

    def warm_start(self, posterior: Any) -> ModelEnsemble:
        """Return the rule with weights and scale of another posterior as prior."""
        ensemble: FilterEnsemble = posterior.ensemble
        pairs = zip(ensemble.active_models, ensemble.weights.tolist(), strict=True)
        # An empirical model is about those places alone: `models` has none.
        heavy = tuple(
            (each, w) for each, w in pairs if w >= CONFIG.carried_weight and each in ensemble.models
        )
        return replace(self, prior_weights=heavy, prior_scale=ensemble.first_scale)

    def initial_ensemble(
        self, points: Array, noise_variance: float, period: float | None
    ) -> FilterEnsemble:
        """Return the ensemble before any reading.

        Parameters
        ----------
        points : array of shape (A, d)
        noise_variance : float
        period : float or None
            Of a season that was found.
        """
        if period is not None:
            return FilterEnsemble.of(points, noise_variance, season=period)
        season = None if isinstance(self.season, str) else self.season
        ensemble = FilterEnsemble.of(points, noise_variance, both=self.both, season=season)
        return replace_fields(
            ensemble, prior_weights=self.prior_weights, prior_scale=self.prior_scale
        )

    def prior(self, posterior: Posterior) -> Prior:
        """Return what a posterior has learned of the reward; before any reading, that of the kernel."""
        return prior_of(posterior)

    def condition(self, conditioning: Conditioning) -> EnsemblePosterior | ExactPosterior:
        """Return the posterior given rewards of candidates, some of which the previous one may have.

        They are in their own unit, at inputs [x, t], in any order. The kernel is the prior before the
        first of them; nothing later depends on it.
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
        # On a function of many points a season would take more features than a step can afford.
        searches = self.season == "find" and len(points) <= MODEL_CONFIG.largest_network
        search = SeasonSearch() if searches else None
        fewest = CONFIG.latest_readings * len(points)
        first = first_row_of_latest(times, CONFIG.latest_times, fewest)
        earlier = len(np.unique(times[:first]))
        start = EnsemblePosterior(
            kernel, grid, self, data, buffer, now, search, float(times[first]), earlier
        )
        return start.with_season_of_history().observe(data.rows(first), data, now)


def first_row_of_latest(times: Array, count: int, fewest: int = 0) -> int:
    """Return the row at which the latest times begin, 0 if there are no more than asked for.

    Parameters
    ----------
    times : array of shape (N,)
        Of readings, in order.
    count, fewest : int
        Number of different times, and the fewest readings of them together.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.gp.ensemble.posterior import first_row_of_latest
    >>> print(first_row_of_latest(np.array([1.0, 1.0, 2.0, 2.0, 3.0]), count=2))
    2
    """
    starts = np.flatnonzero(np.diff(times, prepend=-math.inf))
    latest = max(len(starts) - count, 0)
    enough = int(np.searchsorted(starts, len(times) - fewest, side="right")) - 1
    return int(starts[max(min(latest, enough), 0)])


# --- the posterior --------------------------------------------------------------------------------


@dataclass(frozen=True)
class EnsemblePosterior(CandidatePosterior):
    """An ensemble at one time: a `Posterior` of `gp.posterior`.

    Means have one column, variances are in the unit of reward squared.

    Attributes
    ----------
    kernel : scikit-learn kernel
    grid : CandidateGrid
    rule : ModelEnsemble
    data : Data
        All readings of the ensemble, in order of time.
    buffer : ReplayBuffer
    now : float
        The time it is about.
    search : SeasonSearch or None
        The search for a season, where there is one.
    first_time : float
        Of the readings in the ensemble.
    earlier_times : int
        Number of different times before it.
    fantasy : JointPosterior or None
        About that time, if some more candidates had been read.
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

    def with_season_of_history(self) -> EnsemblePosterior:
        """Return the posterior before any reading, if it skips times with the season of all data."""
        if self.search is None or self.earlier_times == 0:
            return self
        readings = self._readings_before(math.inf, self.data)
        count = len(np.unique(self.data.Z[:, -1]))
        search = SeasonSearch(None, count, float(readings.times[-1])).look(*readings[:3])
        ensemble = self.buffer.start
        if search.period is not None:
            points, noise = ensemble.points, ensemble.noise_variance
            ensemble = self.rule.initial_ensemble(points, noise, search.period)
        return replace_fields(self, search=search, buffer=ReplayBuffer(ensemble))

    def observe(self, new: Data, data: Data, now: float) -> EnsemblePosterior:
        """Return the posterior at a time, of all `data`, of which `new` is not in the ensemble yet."""
        buffer, search, grid = self.buffer, self.search, self.grid
        for t, readings in readings_by_time(grid, new):
            if search is not None and t > search.latest:
                buffer, search = self._search_season(search, buffer, t, data)
            buffer = self._learn_covariance(buffer, t, data).add(t, readings)
        return replace_fields(self, data=data, now=now, buffer=buffer, search=search, fantasy=None)

    def _search_season(
        self, search: SeasonSearch, buffer: ReplayBuffer, t: float, data: Data
    ) -> tuple[ReplayBuffer, SeasonSearch]:
        """Return the buffer and the search before the readings of a later time.

        Where the period has changed, an ensemble with it is updated with all readings before that time.
        """
        due, search = search.is_due, search.advance(t)
        if not due:
            return buffer, search
        period = search.period
        search = search.look(*self._readings_before(t, data)[:3])
        if search.period != period:
            buffer = self.replay(buffer.start, search.period, t, data)
        return buffer, search

    def _readings_before(self, t: float, data: Data) -> TimedReadings:
        """Return the readings of the latest times before a time, with the numbers of the candidates."""
        times = data.Z[:, -1]
        end = int(np.searchsorted(times, t))
        part = data.rows(first_row_of_latest(times[:end], EMPIRICAL_CONFIG.most_times), end)
        places = candidate_rows(self.grid, part.Z)
        return TimedReadings(part.Z[:, -1], places, part.Y[:, 0], part.variance)

    def _learn_covariance(self, buffer: ReplayBuffer, t: float, data: Data) -> ReplayBuffer:
        """Return the buffer before the readings of a time, where due with empirical models."""
        start, times = buffer.start, buffer.times
        steps, looks = start.steps + 1 + len(times), EMPIRICAL_CONFIG.look_steps
        # Where times are skipped, these are in the covariance from the first look on.
        is_due = steps == looks[0] or steps + self.earlier_times in looks
        network = len(self.grid.points) <= MODEL_CONFIG.largest_network
        # After one time, which is where the start may still be, no step has a length.
        has_steps = bool(start.filters) and math.isfinite(start.step_length)
        if not (network and is_due and has_steps and t > times[-1]):
            return buffer
        history = self._readings_before(t, data)
        models = history.models(
            len(self.grid.points), start.step_length, start.active_models[0].season
        )
        if not models:
            return buffer
        filters = history.filters(models, start, times[0])
        return ReplayBuffer(start.with_group(filters, times[0]), times, buffer.readings)

    def replay(
        self, start: FilterEnsemble, period: float | None, t: float, data: Data
    ) -> ReplayBuffer:
        """Return a new ensemble, updated with what it reads before a time, with this season."""
        ensemble = self.rule.initial_ensemble(start.points, start.noise_variance, period)
        buffer = ReplayBuffer(ensemble)
        rows = data.rows(*np.searchsorted(data.Z[:, -1], [self.first_time, t]).tolist())
        for time, readings in readings_by_time(self.grid, rows):
            buffer = buffer.add(time, readings)
        return buffer

    def update(
        self, rows: Data, now: float, grid: CandidateGrid | None
    ) -> EnsemblePosterior | None:
        """Return the posterior with more readings; None where `now` is before all of its own."""
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
        self, about: float, beta: float, noise_variance: float | None = None
    ) -> JointPosterior:
        """Return the posterior of all candidates now, with what readings of a time would change."""
        start = max(about, self.buffer.latest.time)
        ensemble = self.buffer.at(start).advance(about)
        joint = ensemble.joint_posterior(max(self.now, ensemble.time), beta)
        if noise_variance is None:
            return joint
        more = noise_variance - ensemble.noise_variance
        return replace_fields(joint, noise_variance=np.maximum(joint.noise_variance + more, 1e-300))

    def predict_candidates(self) -> tuple[Array, Array]:
        """Return means (A, 1) and learnable variances (A,) at the candidates."""
        deviation = self.forecast.learnable if self.fantasy is None else self.fantasy.deviation
        return self.forecast.mean[:, None], deviation**2

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, 1) and variances (n,) at inputs [x, t], all of them now.

        A point that is no candidate is predicted from the candidates by the correlations of the models
        (simple kriging around the mean of all candidates); what these leave adds to its variance.
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
        everyone = range(len(mean))
        covariance = self._joint_now.covariance(everyone, everyone)
        spread = np.einsum("ij,jk,ik->i", weights, covariance, weights) + residual
        means = weights @ mean
        variances = self.ensemble.inflation**2 * np.maximum(spread, 0.0)
        for i, row in enumerate(rows):
            if row is not None:
                means[i], variances[i] = mean[row], variance[row]
        return means, variances

    @cached_property
    def _units(self) -> Array:
        """Return the units (d,) in which the ensemble has the coordinates of the candidates."""
        points = self.grid.points
        return column_units(points.min(axis=0), points.max(axis=0))

    def _kriging(self, X: Array, largest: float) -> tuple[Array, Array]:
        """Return kriging weights (n, A) of the candidates at points (n, d), and residual variances (n,).

        `largest` is the largest variance of a candidate.
        """
        ensemble = self.ensemble
        points, X = ensemble.points, X / self._units
        extent = largest_extent(points)
        models = zip(ensemble.weights, ensemble.squared_scales, ensemble.active_models, strict=True)
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
            apart = pairwise_distances(others, points)
            terms = (variance * space.correlation(apart, extent) for variance, space in parts)
            return np.asarray(sum(terms))

        # Of many candidates, those that the others hardly add to are enough.
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
        # A far point is at least as uncertain as any candidate.
        most = largest / ensemble.inflation**2
        residual = np.maximum(total - (half**2).sum(axis=0), 0.0) * max(1.0, most / total)
        return weights, residual

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return centred draws (count, A) at the candidates at the time `now`."""
        everyone = range(len(self.grid.points))
        root = linalg.square_root(self._joint_now.covariance(everyone, everyone))
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)

    # --- what it has learned ----------------------------------------------------------------------

    @cached_property
    def nugget_variance(self) -> float:
        """Return the variance of the nugget, as the models have it."""
        return self.ensemble.nugget

    @cached_property
    def prior(self) -> EnsemblePrior:
        """Return what the ensemble has learned of the reward."""
        return EnsemblePrior(
            self.kernel, self.ensemble, self._units, self.now, self.nugget_variance
        )


@dataclass(frozen=True)
class EnsemblePrior:
    """What an ensemble has learned of the reward: a `Prior` of `gp.posterior`.

    Attributes
    ----------
    kernel : scikit-learn kernel
        The prior before any reading.
    ensemble : FilterEnsemble
        Without readings after the time `now`.
    units : array of shape (d,)
        The units in which the ensemble has the coordinates of the candidates.
    now : float
    nugget_variance : float
        Variance of the nugget, as the models have it.
    """

    kernel: Any
    ensemble: FilterEnsemble
    units: Array
    now: float
    nugget_variance: float

    @property
    def nugget(self) -> float:
        """Return the variance of the nugget, inflated as all variances are; no forecast can know it."""
        return self.ensemble.inflation**2 * self.nugget_variance

    def covariance(self, Z: Array) -> Array:
        """Return the prior covariance (n, n) of static part and drift in the heaviest model."""
        ensemble, X, times = self.ensemble, Z[:, :-1] / self.units, Z[:, -1]
        heaviest = first_argmax(ensemble.weights)
        step = ensemble.step_length if math.isfinite(ensemble.step_length) else 1.0
        lags, extent = np.abs(times[:, None] - times) / step, largest_extent(ensemble.points)
        model = ensemble.active_models[heaviest]
        covariance = model.covariance(pairwise_distances(X, X), lags, extent)
        return np.asarray(ensemble.squared_scales[heaviest] * covariance)

    @property
    def persistent_share(self) -> Array:
        """Return `FilterEnsemble.persistent_share` of a decision at the time `now`."""
        return self.ensemble.persistent_share(max(self.now, self.ensemble.time))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return mean, scale, nugget and deviation factor, and the models of the largest weights."""
        ensemble, weights = self.ensemble, self.ensemble.weights
        heaviest = (-weights).argsort(kind="stable")[: CONFIG.shown_models].tolist()
        return {
            "mean": ensemble.origin,
            "scale": math.sqrt(float(weights @ ensemble.squared_scales)),
            "nugget": math.sqrt(self.nugget_variance),
            "models": tuple((float(weights[i]), ensemble.active_models[i]) for i in heaviest),
            "deviation_factor": ensemble.inflation,
            "coverage": ensemble.coverage,
        }

    def effective_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """Return the effective noise (n,) of values of some ages ago, as readings of the time `now`."""
        return effective_noise(self.ensemble, ages, noise)

"""Predict arms that share a level by small filters for each model of a grid, weighted by evidence.

It is for arms that have no position, or for effects relative to a control arm, where a step has to cost
next to nothing. Means and covariances of the arms are averages over all models by Bayes' rule, without
forgetting.

`ArmFilters` are scalar Kalman filters for each model and arm: the reward is a shared level plus an
independent difference of each arm plus noise. `EffectFilters` are for a control: each time has its own
level, and arms may be correlated. `CountFilters` (`counted_arms`) are for rewards that are counts.
`IndependentArms` is the posterior rule that uses one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from statistics import median
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from scipy.special import softmax

from tvbandits.data import replace_fields
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior
from tvbandits.gp.ensemble.candidate_posterior import (
    CandidatePosterior,
    candidate_rows,
    prior_of,
    prior_posterior,
    readings_by_time,
)
from tvbandits.gp.ensemble.counted_arms import CountFilters
from tvbandits.gp.ensemble.dynamics import largest_extent, pairwise_distances
from tvbandits.gp.kernels.units import scale_columns
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.posterior import (
    NOISE_LIMITS,
    CandidateGrid,
    Conditioning,
    Data,
    Posterior,
    PosteriorRule,
    Prior,
    equivalent_noise,
    subtract_level_means,
)
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class ArmConfig:
    """Constants of the models of arms.

    Attributes
    ----------
    difference_times : tuple of float
        Decimal logarithms of the time scales of differences between arms, in steps.
    effect_times : tuple of float
        The same for effects relative to a control.
    smallest_power : int
        The smallest variance of a difference is 4 to this power times the noise variance; the largest
        follows from the readings.
    prior_power : float
        The prior weight of a model is proportional to (time scale / variance) to this power, so that
        small and slow differences are more likely a priori. The powers 0 and 1/2 had the same regret
        within noise on rates that are constant, walk or switch; 0 was better on the last.
    first_readings : int
        Noise variance and step of the models follow from this number of first readings, so that later
        ones do not change them.
    stored_times : int
        Number of past filters that are stored. After a late reading, filtering starts again from the one
        before its time.
    """

    difference_times: tuple[float, ...] = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5)
    effect_times: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)
    smallest_power: int = -6
    prior_power: float = 0.25
    first_readings: int = 16
    stored_times: int = 16


CONFIG = ArmConfig()


class GridSpec(NamedTuple):
    """The parameters of a grid of models.

    Attributes
    ----------
    noise : float
        Noise variance of a reading.
    largest_power : int
        The largest variance of a difference is 4 to this power times the noise variance.
    step : float
        Duration of a step.
    counted : bool
        Whether all readings are counts, whose models do not depend on noise and power.
    """

    noise: float
    largest_power: int
    step: float
    counted: bool = False

    @property
    def variances(self) -> Array:
        """Return the variances of differences, ascending."""
        powers = 4.0 ** np.arange(CONFIG.smallest_power, self.largest_power + 1)
        return np.asarray(self.noise * powers)

    def log_prior(self, variance: Array, time: Array) -> Array:
        """Return the log prior weights (M,) of models, up to a constant."""
        return CONFIG.prior_power * np.log(time * self.noise / (self.step * variance))


# --- independent arms -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ArmFilters:
    """Filters of M models reward = level + difference of the arm + noise.

    The differences of the arms are independent Ornstein-Uhlenbeck processes. The level is the same for
    all arms and times and has a flat prior. Each filter has its mean under the level 0 and the
    derivative of the mean with respect to the level (`sensitivity`), so that level and evidence are
    exact sums.

    Attributes
    ----------
    time : float
        The time of the filters.
    signal, scale : arrays of shape (M,)
        Variance and time scale of the differences.
    mean, sensitivity, variance : arrays of shape (M, A)
        Moments of the differences.
    precision, product : arrays of shape (M,)
        The level has the mean product / precision and the variance 1 / precision.
    evidence : array of shape (M,)
        Log density of the readings at level 0 plus the log prior weight.
    """

    time: float
    signal: Array
    scale: Array
    mean: Array
    sensitivity: Array
    variance: Array
    precision: Array
    product: Array
    evidence: Array

    @classmethod
    def of(cls, arms: int, spec: GridSpec) -> ArmFilters:
        """Return the filters of all variances and time scales, before any reading."""
        times = spec.step * 10.0 ** np.array(CONFIG.difference_times)
        signal, scale = (mesh.ravel() for mesh in np.meshgrid(spec.variances, times))
        zeros, zero = np.zeros((len(signal), arms)), np.zeros(len(signal))
        variance = np.repeat(signal[:, None], arms, axis=1)
        prior = spec.log_prior(signal, scale)
        return cls(-math.inf, signal, scale, zeros, zeros, variance, zero, zero, prior)

    def predict(self, t: float) -> ArmFilters:
        """Return the filters at the time `t`; `self` if `t` is not after their time."""
        if not self.time < t:
            return self
        if not math.isfinite(self.time):
            return replace_fields(self, time=t)
        decay = np.exp((self.time - t) / self.scale)[:, None]
        decay2 = decay**2
        mean, sensitivity = decay * self.mean, decay * self.sensitivity
        variance = decay2 * self.variance + self.signal[:, None] * (1.0 - decay2)
        return replace_fields(self, time=t, mean=mean, sensitivity=sensitivity, variance=variance)

    def update(self, t: float, rows: Index, y: Array, noise: Array) -> ArmFilters:
        """Return the filters given readings (n,) of arms `rows`, at a time not before their own."""

        def sum_over_arms(values: Array) -> Array:
            return values if values.ndim == 1 else np.asarray(values.sum(axis=1))

        prediction = self.predict(t)
        arms, total, value = rows[0], 1.0 / noise, y / noise
        if len(rows) > 1:
            # Readings of one arm at one time are merged by their precisions, which is exact.
            sums = [np.bincount(rows, column).astype(np.float64) for column in (total, value)]
            arms = np.flatnonzero(sums[0])
            total, value = (column[arms] for column in sums)
        m, s = prediction.mean[:, arms], prediction.sensitivity[:, arms]
        P = prediction.variance[:, arms]
        error, share, variance = value / total - m, 1.0 - s, P + 1.0 / total
        gain = P / variance
        mean, sensitivity = prediction.mean.copy(), prediction.sensitivity.copy()
        posterior_variance = prediction.variance.copy()
        mean[:, arms] = m + gain * error
        sensitivity[:, arms] = s + gain * share
        posterior_variance[:, arms] = P * (1.0 - gain)
        log_densities = -0.5 * sum_over_arms(np.log(variance) + error**2 / variance)
        return replace_fields(
            prediction,
            mean=mean,
            sensitivity=sensitivity,
            variance=posterior_variance,
            precision=prediction.precision + sum_over_arms(share**2 / variance),
            product=prediction.product + sum_over_arms(share * error / variance),
            evidence=prediction.evidence + log_densities,
        )

    @cached_property
    def weights(self) -> Array:
        """Return the posterior weights (M,) of the models, with the level integrated out."""
        log = self.evidence + 0.5 * (self.product**2 / self.precision - np.log(self.precision))
        return np.asarray(softmax(log))

    @cached_property
    def level_share(self) -> Array:
        """Return the fraction (M, A) of the level that is not included in the means."""
        return np.asarray(1.0 - self.sensitivity)

    @cached_property
    def means(self) -> Array:
        """Return the means of the rewards under each model, (M, A)."""
        return self.mean + self.level_share * (self.product / self.precision)[:, None]

    @cached_property
    def level_variances(self) -> Array:
        """Return the variances (M, A) that come from the uncertainty of the level."""
        return self.level_share**2 / self.precision[:, None]

    @property
    def level(self) -> float:
        """Return the mean of the level over all models."""
        return float(self.weights @ (self.product / self.precision))

    @property
    def total_variance(self) -> Array:
        """Return the variances of the rewards under each model, (M, A)."""
        return self.variance + self.level_variances

    def covariance(self, decay: Array | float = 1.0) -> Array:
        """Return the covariance of the arms (A, A) over all models.

        Parameters
        ----------
        decay : array of shape (M,) or float
            For the covariance with the arms at another time, the correlation of the differences.
        """
        weights, share = self.weights, self.level_share
        deviations = self.means - weights @ self.means
        covariance = (share * (weights / self.precision)[:, None]).T @ share
        covariance += (deviations * weights[:, None]).T @ deviations
        return covariance + np.diag((weights * decay) @ self.variance)

    def persistent_variance(self, spec: GridSpec) -> Array:
        """Return the part (A,) of the next rewards' variances that later readings would remove."""
        removable = self.variance**2 / (self.variance + _later_noise(spec))
        return np.asarray(self.weights @ (removable + self.level_variances))

    def prior_covariance(self, rows: Index, lags: Array) -> Array:
        """Return the prior covariance of differences of arms (n,) at lags (n, n), over all models."""
        scales, variances = _sum_by_scale(self.scale, self.weights * self.signal)
        covariance, same = np.zeros(lags.shape), rows[:, None] == rows
        covariance[same] = variances @ np.exp(-lags[same] / scales[:, None])
        return covariance

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return centred normal samples (count, A) of the rewards, with the mixture's covariance."""
        weights = np.sqrt(self.weights)[:, None]
        level = weights * self.level_share / np.sqrt(self.precision)[:, None]
        deviations = weights * (self.means - self.weights @ self.means)
        deviation = np.sqrt(self.weights @ self.variance)
        shape = count, len(weights)
        samples = deviation * rng.standard_normal((count, len(deviation)))
        samples = samples + rng.standard_normal(shape) @ level
        return samples + rng.standard_normal(shape) @ deviations


def _sum_by_scale(scale: Array, values: Array) -> tuple[Array, Array]:
    """Return the distinct time scales of models (M,), and the sums of their values (M,)."""
    scales, index = np.unique(scale, return_inverse=True)
    return scales, np.asarray(np.bincount(index, values), dtype=np.float64)


@lru_cache(maxsize=64)
def _later_noise(spec: GridSpec) -> Array:
    """Return the noise (M, 1) of one reading as informative as those of all later steps together."""
    models = ArmFilters.of(1, spec)
    decay2 = np.exp(-2.0 * spec.step / models.scale)
    process_noise = models.signal * (1.0 - decay2)
    return 1.0 / steady_precision(decay2, process_noise, spec.noise)[:, None]


def steady_precision(decay2: Array, process_noise: Array, noise: float) -> Array:
    """Return the precision J with which readings of all later steps determine the present difference.

    A step later the difference is f' = k f + sqrt(q) e, and is read with the noise variance v. All later
    readings together are as informative as one of f with the precision J = k^2 a / (1 + q a), where
    a = J + 1/v.

    Parameters
    ----------
    decay2, process_noise : arrays of one shape
        The values k^2 and q.
    noise : float
        The noise variance v.
    """
    g = 1.0 / noise
    b = 1.0 + process_noise * g - decay2
    root = np.sqrt(b**2 + 4.0 * process_noise * decay2 * g)
    return np.asarray(2.0 * decay2 * g / (b + root))


# --- effects relative to a control ----------------------------------------------------------------
# The readings of one time share an unknown level:
#
#     y_i = level(t) + g_i(t) + noise_i,   g = f - f(control),
#
# with independent levels that have a flat prior. Readings of one time with the noise covariance R
# are informative about the effects through their contrasts C y only:
#
#     C = Q R^(-1/2),   the rows of Q orthonormal, and orthogonal to R^(-1/2) 1.
#
# C 1 = 0 removes the level, and C R C' = 1: n readings become n - 1 readings with independent
# noise, without loss. The only reading of a time has no information.


def contrast_matrix(variance: Array) -> Array:
    """Return C (n - 1, n) for n readings of one time with these noise variances."""
    weight = 1.0 / np.sqrt(variance)
    # A Householder reflection that maps the weights to the first axis.
    normal = weight / np.linalg.norm(weight)
    normal[0] += 1.0
    reflection = np.eye(len(weight)) - np.outer(normal, normal) / normal[0]
    return np.asarray(reflection[1:] * weight)


@dataclass(frozen=True, eq=False)
class EffectFilters:
    """Filters of M models of the effects g of A arms relative to a control.

    f is a Gaussian process over the arms, and an Ornstein-Uhlenbeck process in time.

    Attributes
    ----------
    time : float
        The time of the filters.
    signal, scale : arrays of shape (M,)
        Variance and time scale of f.
    prior, covariances : arrays of shape (M, A, A)
        Prior and present covariances of the effects.
    means : array of shape (M, A)
        Present means of the effects.
    evidence : array of shape (M,)
        Log density of the contrasts plus the log prior weight.
    """

    time: float
    signal: Array
    scale: Array
    prior: Array
    covariances: Array
    means: Array
    evidence: Array

    @classmethod
    def of(
        cls, points: Array, control: int, lengths: Sequence[float], spec: GridSpec
    ) -> EffectFilters:
        """Return the filters of all variances, time scales and lengths, before any reading.

        Points (A, d) at a distance r have the correlation exp(-(r / l)^2 / 2), where the length scale l
        is in units of the largest extent of the points; with the length scale 0 they are independent.
        """
        times = spec.step * 10.0 ** np.array(CONFIG.effect_times)
        axes = spec.variances, times, np.arange(len(lengths))
        mesh = np.meshgrid(*axes, indexing="ij")
        signal, scale = mesh[0].ravel(), mesh[1].ravel()
        distance = pairwise_distances(points, points) / largest_extent(points)
        correlations = [
            np.exp(-0.5 * (distance / length) ** 2) if length else np.eye(len(points))
            for length in lengths
        ]
        relative = [S - S[control] - S[:, [control]] + S[control, control] for S in correlations]
        prior = signal[:, None, None] * np.array(relative)[mesh[2].ravel()]
        log_prior = spec.log_prior(signal, scale)
        return cls(-math.inf, signal, scale, prior, prior, np.zeros(prior.shape[:2]), log_prior)

    def predict(self, t: float) -> EffectFilters:
        """Return the filters at the time `t`; `self` if `t` is not after their time."""
        if not self.time < t:
            return self
        if not math.isfinite(self.time):
            return replace(self, time=t)
        decay = np.exp((self.time - t) / self.scale)[:, None]
        change = decay[:, :, None] ** 2 * (self.covariances - self.prior)
        return replace(self, time=t, means=decay * self.means, covariances=self.prior + change)

    def update(self, t: float, rows: Index, y: Array, noise: Array) -> EffectFilters:
        """Return the filters given readings (n,) of arms `rows`, at a time not before their own."""
        prediction = self.predict(t)
        total = np.bincount(rows, 1.0 / noise, prediction.means.shape[1])
        arms = np.flatnonzero(total)
        if len(arms) < 2:
            return prediction
        value = np.bincount(rows, y / noise, len(total))[arms] / total[arms]
        C = contrast_matrix(1.0 / total[arms])
        CP = C @ prediction.covariances[:, arms]
        covariance = CP[:, :, arms] @ C.T + np.eye(len(C))
        errors = (value - prediction.means[:, arms]) @ C.T
        sides = np.concatenate([CP, errors[:, :, None]], axis=2)
        root, solution = linalg.whiten_each(covariance, sides)
        projection, whitened = solution[:, :, :-1], solution[:, :, -1]
        log_root = np.log(np.einsum("mii->mi", root)).sum(axis=1)
        return replace(
            prediction,
            means=prediction.means + np.einsum("mia,mi->ma", projection, whitened),
            covariances=prediction.covariances - projection.transpose(0, 2, 1) @ projection,
            evidence=prediction.evidence - log_root - 0.5 * (whitened**2).sum(axis=1),
        )

    @cached_property
    def weights(self) -> Array:
        """Return the posterior weights (M,) of the models."""
        weights = np.exp(self.evidence - self.evidence.max())
        return np.asarray(weights / weights.sum())

    @property
    def level(self) -> float:
        """Return 0, because effects are relative to the control."""
        return 0.0

    @cached_property
    def variance(self) -> Array:
        """Return the variances of the effects under each model, (M, A)."""
        return np.asarray(np.maximum(np.einsum("maa->ma", self.covariances), 0.0))

    @property
    def total_variance(self) -> Array:
        """Return the variances of the effects, which do not include a level, (M, A)."""
        return self.variance

    def covariance(self, decay: Array | float = 1.0) -> Array:
        """Return the covariance of the effects (A, A) over all models; see `ArmFilters.covariance`."""
        weights, deviations = self.weights, self.means - self.weights @ self.means
        within = np.tensordot(weights * decay, self.covariances, axes=1)
        return np.asarray(within + (deviations * weights[:, None]).T @ deviations)

    def persistent_variance(self, spec: GridSpec) -> Array:
        """Return the part (A,) of the variances that later readings with the control would remove."""
        decay2 = np.exp(-2.0 * spec.step / self.scale)[:, None]
        process_noise = np.einsum("maa->ma", self.prior) * (1.0 - decay2)
        later_noise = 1.0 / steady_precision(decay2, process_noise, 2.0 * spec.noise)
        removable = self.variance**2 / (self.variance + later_noise)
        return np.asarray(self.weights @ removable)

    def prior_covariance(self, rows: Index, lags: Array) -> Array:
        """Return the prior covariance of effects of arms (n,) at lags (n, n), over all models."""
        decay = np.exp(-lags / self.scale[:, None, None])
        return np.asarray(
            np.tensordot(self.weights, self.prior[:, rows][:, :, rows] * decay, axes=1)
        )

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return centred normal samples (count, A) of the effects."""
        root = linalg.square_root(self.covariance())
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)


AnyFilters: TypeAlias = ArmFilters | EffectFilters | CountFilters

# The filters after each of the latest times, sorted by time.
Past: TypeAlias = tuple[AnyFilters, ...]


# --- the rule and the posterior -------------------------------------------------------------------


@dataclass(frozen=True)
class IndependentArms(PosteriorRule):
    """A posterior rule for independent arms, which learns the variance and time scale of differences.

    If all rewards are `rate(successes, trials)` and there is no control, they are counts
    (`CountFilters`). If only some are, these are measured values with the variance that `rate` states.

    Parameters
    ----------
    control : tuple of float, optional
        The arm to which the others are compared. Rewards are then effects relative to it, and each time
        has a level of its own (`EffectFilters`).
    lengths : tuple of float
        With a control, the length scales of the models over the arms, in units of the largest extent of
        the points; 0 for independent arms.

    Examples
    --------
    >>> from tvbandits import Arms, policies
    >>> arms = Arms(["red", "green", "blue"])
    >>> bandit = policies.adaptive_gp_ucb(arms, noise_variance=0.01)
    >>> for t in range(1, 41):
    ...     name = arms.decode(bandit.ask(t))["arm"].tolist()
    ...     info = bandit.tell(name, [float(name == ["green"])], t)
    >>> print(arms.decode(bandit.recommend())["arm"].tolist())
    ['green']
    """

    control: tuple[float, ...] | None = None
    lengths: tuple[float, ...] = (0.0,)

    self_learning: ClassVar[bool] = True
    independent_points: ClassVar[bool] = True
    counts_trials: ClassVar[bool] = True

    def prior(self, posterior: Posterior) -> Prior:
        """Return the learned prior of a posterior, or that of its kernel before any reading."""
        return prior_of(posterior)

    def condition(self, conditioning: Conditioning) -> ArmsPosterior | ExactPosterior:
        """Return the posterior given the data, or the prior of the kernel before any reading."""
        kernel, data, grid, now, previous, *_ = conditioning
        if grid is None:
            raise ValueError("IndependentArms needs the arms as candidates, and got none")
        data = data.sort_by_time()
        prior = prior_posterior(kernel, data, grid, now)
        if prior is not None:
            return prior
        spec, reward_range = _spec_of(data, relative=self.control is not None)
        past: Past = ()
        if isinstance(previous, ArmsPosterior) and previous.spec == spec:
            new = data.rows_missing_from(previous.data)
            if new is not None:
                past = _drop_since(previous.past, float(new.Z[:, -1].min(initial=math.inf)))
        past = past or (self._filters_at_prior(grid, spec),)
        past = _update_past(past, past[-1], data, grid, spec)
        if now < past[-1].time:  # a prediction for the past uses the readings up to that time only
            earlier = data.rows(0, int(np.searchsorted(data.Z[:, -1], now, "right")))
            posterior = self.condition(Conditioning(kernel, earlier, grid, now))
            assert isinstance(posterior, ArmsPosterior)  # there is at least one reading
            return replace(posterior, data=data, past=past, spec=spec, reward_range=reward_range)
        filters = past[-1].predict(now)
        return ArmsPosterior(kernel, grid, data, now, spec, past, filters, reward_range)

    def _filters_at_prior(self, grid: CandidateGrid, spec: GridSpec) -> AnyFilters:
        """Return the filters before any reading."""
        if spec.counted:
            return CountFilters.of(len(grid.points), spec.step)
        if self.control is None:
            return ArmFilters.of(len(grid.points), spec)
        row = grid.index(np.array(self.control))
        assert row is not None  # the recipe has checked that the control is a candidate
        return EffectFilters.of(scale_columns(grid.points), row, self.lengths, spec)


def _drop_since(past: Past, t: float) -> Past:
    """Return the past filters whose times are before `t`."""
    return tuple(filters for filters in past if filters.time < t)


def _use_trials(data: Data) -> Data:
    """Return the data with trials in place of variances, as `CountFilters.update` needs them."""
    return Data(data.Z, data.Y[:, :1], data.Y[:, 1])


def _are_counts(data: Data) -> bool:
    """Return whether all readings are fractions of trials."""
    return data.Y.shape[1] > 1 and bool(data.Y[:, 1].all())


def _update_past(
    past: Past, latest: AnyFilters, data: Data, grid: CandidateGrid, spec: GridSpec
) -> Past:
    """Return the past filters, updated with all later readings.

    `latest` are the last of these filters, possibly predicted to a later time such as that of the latest
    decision. Most readings are of that time, so that the prediction need not be computed again.
    """
    new = data.rows(int(data.Z[:, -1].searchsorted(past[-1].time, "right")))
    for t, readings in readings_by_time(grid, _use_trials(new) if spec.counted else new):
        latest = (latest if latest.time == t else past[-1]).update(t, *readings)
        past = (*past[1 - CONFIG.stored_times :], latest)
    return past


def _spec_of(data: Data, *, relative: bool) -> tuple[GridSpec, tuple[float, float] | None]:
    """Return the parameters of the models, and the range of the rewards.

    The range is None until it is the only value through which more readings can change the parameters.
    If `relative` to a control, it is the range of differences at one time.
    """
    first = CONFIG.first_readings
    Y = subtract_level_means(data.Z[:, -1], data.Y, data.variance) if relative else data.Y
    reward_range = float(Y[:, 0].min()), float(Y[:, 0].max())
    noise = median(data.variance[:first].tolist())  # numpy takes twenty times as long for so few
    times = np.unique(data.Z[: 4 * first, -1])
    is_settled = len(times) > first and len(data) >= 4 * first and not relative
    times = times if len(times) > first else np.unique(data.Z[:, -1])
    gaps = np.diff(times[: first + 1]).tolist()
    step = median(gaps) if gaps else 1.0
    if not relative and _are_counts(data):
        return GridSpec(1.0, 0, step, counted=True), reward_range if is_settled else None
    spec = GridSpec(noise, _largest_power(reward_range, noise), step)
    return spec, reward_range if is_settled else None


def _largest_power(reward_range: tuple[float, float], noise: float) -> int:
    """Return the power p >= 0 of 4 with 4^p at least the squared range over the noise variance."""
    squared = (reward_range[1] - reward_range[0]) ** 2
    return 0 if squared <= noise else math.ceil(math.log(squared / noise, 4.0))


@dataclass(frozen=True)
class ArmsPosterior(CandidatePosterior):
    """A `Posterior` of arms, from filters.

    Means have one column, and variances are in the unit of the reward squared.

    Attributes
    ----------
    kernel : scikit-learn kernel
    grid : CandidateGrid
    data : Data
        All readings, sorted by time.
    now : float
        The time of the predictions.
    spec : GridSpec
        The parameters of the models.
    past : tuple of filters
        The filters after each of the latest times.
    filters : ArmFilters, EffectFilters or CountFilters
        The filters at the time `now`.
    reward_range : pair of float or None
        Smallest and largest reading; None as long as more readings can change the models otherwise.
    fantasy : JointPosterior or None
        The posterior at the time `now` given unknown values of pending arms.
    """

    kernel: Any
    grid: CandidateGrid
    data: Data
    now: float
    spec: GridSpec
    past: Past = field(repr=False, compare=False)
    filters: AnyFilters = field(repr=False, compare=False)
    reward_range: tuple[float, float] | None = field(default=None, repr=False, compare=False)
    fantasy: JointPosterior | None = field(default=None, repr=False, compare=False)

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> ArmsPosterior | None:
        """Return the posterior given more readings; None if some are late, or need other models."""
        if grid is not self.grid:
            return None
        rows = rows.sort_by_time()
        data, past, reward_range = self.data, self.past, self.reward_range
        if len(rows):
            first = float(rows.Z[0, -1])
            if first < data.Z[-1, -1]:
                return None
            data, past = data.append(rows), _drop_since(past, first)
            if reward_range is None:
                relative = isinstance(self.filters, EffectFilters)
                spec, reward_range = _spec_of(data, relative=relative)
            elif self.spec.counted:
                spec = self.spec._replace(counted=_are_counts(rows))
            else:
                y, noise = rows.Y[:, 0].tolist(), self.spec.noise
                reward_range = min(reward_range[0], *y), max(reward_range[1], *y)
                spec = self.spec._replace(largest_power=_largest_power(reward_range, noise))
            if not past or spec != self.spec:
                return None
        latest = self.filters if past is self.past else past[-1]
        past = _update_past(past, latest, data, grid, self.spec)
        if now < past[-1].time:
            return None
        filters = past[-1].predict(now)
        return ArmsPosterior(self.kernel, grid, data, now, self.spec, past, filters, reward_range)

    @cached_property
    def mean(self) -> Array:
        """Return the means of the rewards (A,)."""
        return np.asarray(self.filters.weights @ self.filters.means)

    @cached_property
    def variance(self) -> Array:
        """Return the variances of the rewards (A,), within and between the models."""
        if self.fantasy is not None:
            return self.fantasy.deviation**2
        filters = self.filters
        variances = filters.total_variance + (filters.means - self.mean) ** 2
        return np.asarray(filters.weights @ variances)

    @property
    def prior(self) -> ArmsPrior:
        """Return the learned prior of the reward."""
        return ArmsPrior(self.kernel, self.filters, self.grid, self.spec)

    def predict_candidates(self) -> tuple[Array, Array]:
        """Return means (A, 1) and variances (A,) of the arms."""
        return self.mean[:, None], self.variance

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return centred normal samples (count, A) at the arms, with the mixture's covariance."""
        return self.filters.sample(count, rng)

    def joint_posterior(
        self, answer_time: float, beta: float, noise_variance: Any = 0.0
    ) -> JointPosterior:
        """Return the joint posterior of the arms at `now` and of readings at `answer_time`."""
        earlier = (filters for filters in reversed(self.past) if filters.time <= answer_time)
        filters = next(earlier, self.past[0]).predict(answer_time)
        cross = filters.covariance(np.exp(-abs(self.now - answer_time) / filters.scale))
        covariance = filters.covariance()
        return JointPosterior(
            self.mean, np.sqrt(self.variance), beta, noise_variance,
            cross_covariance=lambda rows, others=slice(None): cross[list(rows)][:, others],
            covariance=lambda rows, others: covariance[np.ix_(list(rows), list(others))],
            variance=np.diagonal(covariance),
        )  # fmt: skip


@dataclass(frozen=True)
class ArmsPrior:
    """The `Prior` of arms that follows from the weights of the models.

    Attributes
    ----------
    kernel : scikit-learn kernel
        The prior before any reading.
    filters : ArmFilters, EffectFilters or CountFilters
    candidates : CandidateGrid
    spec : GridSpec
        The parameters of the models.
    """

    kernel: Any
    filters: AnyFilters
    candidates: CandidateGrid
    spec: GridSpec

    nugget: ClassVar[float] = 0.0

    def covariance(self, Z: Array) -> Array:
        """Return the prior covariance (n, n) of the differences, over all models."""
        lags = np.abs(Z[:, -1, None] - Z[:, -1])
        return self.filters.prior_covariance(candidate_rows(self.candidates, Z), lags)

    @property
    def persistent_share(self) -> Array:
        """Return the fraction (A,) of the deviations that readings of later steps would remove."""
        total = self.filters.weights @ self.filters.total_variance
        # The variance of the control is 0.
        return np.sqrt(
            self.filters.persistent_variance(self.spec) / np.where(total <= 0.0, 1.0, total)
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the mean of the level and the deviation of the differences."""
        filters, weights = self.filters, self.filters.weights
        return {"mean": filters.level, "scale": math.sqrt(float(weights @ filters.signal))}

    def effective_noise(self, current: Array, earlier: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """Return the noise variances (n,) of earlier values as readings of the present."""
        filters = self.filters
        signal = filters.weights * filters.signal
        total = signal.sum()
        scales, signals = _sum_by_scale(filters.scale, signal)
        decay = np.exp(-np.asarray(ages)[:, None] / scales)
        r2 = (decay @ signals / total) ** 2
        variance = equivalent_noise(noise, total, r2)
        limit = NOISE_LIMITS.faint * (total + noise)
        return np.asarray(np.where(variance <= limit, variance, np.inf))

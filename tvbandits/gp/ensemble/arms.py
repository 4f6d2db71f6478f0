"""Arms that share a level: small filters for each of many models, weighted by their evidence.

It is for arms that have no position, or effects beside a control arm, where a step has to cost next to
nothing. Readings of arms go in; out come means and covariances of the arms, averaged over all models.

`ArmFilters` are scalar Kalman filters, one for each model and arm: the reward is a level, a difference
of the arm that is independent of all others, and noise. `EffectFilters` are for a control: every time
has a level of its own, and arms may resemble each other. `CountFilters` (`counted_arms`) are for rewards
that are counts. All are averaged by Bayes' rule over a grid of models, without forgetting.
`IndependentArms` is the rule that puts one of them behind the protocol of `gp.posterior`.
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
from tvbandits.gp.kernels.units import in_column_units
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
    """The constants of the models of arms.

    Attributes
    ----------
    difference_times : tuple of float
        Powers of ten of the steps after which a difference between arms has decayed to 1/e.
    effect_times : tuple of float
        The same of effects beside a control.
    smallest_power : int
        The smallest variance of a difference is 4 to this power times the noise variance; the largest
        follows from the readings.
    prior_power : float
        The prior weight of a model is proportional to (time scale / variance) to this power: that arms
        hardly differ, and hardly change, is believed until readings show otherwise. The powers 0 and 1/2
        had the same regret within noise on rates that stay, walk or switch; 0 was better on the last.
    first_readings : int
        The noise variance and the step that models are made for follow from so many first readings, so
        that later ones do not change them.
    stored_times : int
        Number of past filters that are stored: a late reading goes back to the one before its time.
    """

    difference_times: tuple[float, ...] = (2.0, 2.5, 3.0, 3.5, 4.0, 4.5)
    effect_times: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)
    smallest_power: int = -6
    prior_power: float = 0.25
    first_readings: int = 16
    stored_times: int = 16


CONFIG = ArmConfig()


class GridSpec(NamedTuple):
    """What a grid of models follows from.

    Attributes
    ----------
    noise : float
        Variance of a reading.
    largest_power : int
        The largest variance of a difference is 4 to this power times the noise.
    step : float
        Duration of a step.
    counted : bool
        Whether all readings are counts: their models do not follow from noise and power.
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
    """M models of reward = level + difference of the arm + noise, filtered up to one time.

    A difference is an independent Ornstein-Uhlenbeck process at every arm. The level is the same for all
    arms and times, with a flat prior: each filter has the mean under a level of 0, and `sensitivity`,
    how much of a level its mean would hold, so that level and evidence are exact sums.

    Attributes
    ----------
    time : float
    signal, scale : arrays of shape (M,)
        Variance and time scale of the differences.
    mean, sensitivity, variance : arrays of shape (M, A)
    precision, product : arrays of shape (M,)
        Of the level, whose mean is product / precision and whose variance is 1 / precision.
    evidence : array of shape (M,)
        Log density of the readings at level 0, and the log prior weight.
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
        signal, scale = (each.ravel() for each in np.meshgrid(spec.variances, times))
        zeros, zero = np.zeros((len(signal), arms)), np.zeros(len(signal))
        variance = np.repeat(signal[:, None], arms, axis=1)
        prior = spec.log_prior(signal, scale)
        return cls(-math.inf, signal, scale, zeros, zeros, variance, zero, zero, prior)

    def predict(self, t: float) -> ArmFilters:
        """Return the filters at a later time; itself if it is not later."""
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
        """Return the filters with readings (n,) of some arms, at a time not before their own."""

        def sum_over_arms(each: Array) -> Array:
            return each if each.ndim == 1 else np.asarray(each.sum(axis=1))

        now = self.predict(t)
        arms, total, value = rows[0], 1.0 / noise, y / noise
        if len(rows) > 1:
            # Readings of one arm at one time are merged by their precisions: that loses nothing.
            sums = [np.bincount(rows, each).astype(np.float64) for each in (total, value)]
            arms = np.flatnonzero(sums[0])
            total, value = (each[arms] for each in sums)
        m, s, P = (each[:, arms] for each in (now.mean, now.sensitivity, now.variance))
        error, rest, variance = value / total - m, 1.0 - s, P + 1.0 / total
        gain = P / variance
        mean, sensitivity = now.mean.copy(), now.sensitivity.copy()
        posterior_variance = now.variance.copy()
        mean[:, arms] = m + gain * error
        sensitivity[:, arms] = s + gain * rest
        posterior_variance[:, arms] = P * (1.0 - gain)
        return replace_fields(
            now,
            mean=mean,
            sensitivity=sensitivity,
            variance=posterior_variance,
            precision=now.precision + sum_over_arms(rest**2 / variance),
            product=now.product + sum_over_arms(rest * error / variance),
            evidence=now.evidence - 0.5 * sum_over_arms(np.log(variance) + error**2 / variance),
        )

    @cached_property
    def weights(self) -> Array:
        """Return the weights of the models (M,), whose sum is 1, with the level integrated out."""
        log = self.evidence + 0.5 * (self.product**2 / self.precision - np.log(self.precision))
        return np.asarray(softmax(log))

    @cached_property
    def level_share(self) -> Array:
        """Return how much of the level is not yet in the means, (M, A)."""
        return np.asarray(1.0 - self.sensitivity)

    @cached_property
    def means(self) -> Array:
        """Return the means of the rewards under each model, (M, A)."""
        return self.mean + self.level_share * (self.product / self.precision)[:, None]

    @cached_property
    def level_variances(self) -> Array:
        """Return what the uncertainty of the level adds to the variances, (M, A)."""
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
            Correlation of the differences with those of another time, if it is that with another time.
        """
        weights, share = self.weights, self.level_share
        apart = self.means - weights @ self.means
        covariance = (share * (weights / self.precision)[:, None]).T @ share
        covariance += (apart * weights[:, None]).T @ apart
        return covariance + np.diag((weights * decay) @ self.variance)

    def persistent_variance(self, spec: GridSpec) -> Array:
        """Return the variances (A,) of the next reward that readings of all later steps would remove."""
        removable = self.variance**2 / (self.variance + _later_noise(spec))
        return np.asarray(self.weights @ (removable + self.level_variances))

    def prior_covariance(self, rows: Index, lags: Array) -> Array:
        """Return the prior covariance of differences of arms (n,) at lags (n, n), over all models."""
        scales, part = _sum_by_scale(self.scale, self.weights * self.signal)
        covariance, same = np.zeros(lags.shape), rows[:, None] == rows
        covariance[same] = part @ np.exp(-lags[same] / scales[:, None])
        return covariance

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return centred normal draws (count, A) of the rewards, with the covariance of the mixture."""
        weights = np.sqrt(self.weights)[:, None]
        level = weights * self.level_share / np.sqrt(self.precision)[:, None]
        apart = weights * (self.means - self.weights @ self.means)
        deviation = np.sqrt(self.weights @ self.variance)
        shape = count, len(weights)
        draws = deviation * rng.standard_normal((count, len(deviation)))
        return draws + rng.standard_normal(shape) @ level + rng.standard_normal(shape) @ apart


def _sum_by_scale(scale: Array, part: Array) -> tuple[Array, Array]:
    """Return the few different time scales of models (M,), and the sums of their parts (M,)."""
    scales, which = np.unique(scale, return_inverse=True)
    return scales, np.asarray(np.bincount(which, part), dtype=np.float64)


@lru_cache(maxsize=64)
def _later_noise(spec: GridSpec) -> Array:
    """Return the noise (M, 1) of one reading with the information of those of all later steps."""
    models = ArmFilters.of(1, spec)
    decay2 = np.exp(-2.0 * spec.step / models.scale)
    process_noise = models.signal * (1.0 - decay2)
    return 1.0 / steady_precision(decay2, process_noise, spec.noise)[:, None]


def steady_precision(decay2: Array, process_noise: Array, noise: float) -> Array:
    """Return the information of readings of every later step about a difference now, a precision J.

    A step later the difference is f' = k f + sqrt(q) e, and is read with the noise v. Together
    these readings are worth one of f with the precision J = k^2 a / (1 + q a), where a = J + 1/v.

    Parameters
    ----------
    decay2, process_noise : arrays of one shape
        k^2 and q.
    noise : float
        v.
    """
    g = 1.0 / noise
    b = 1.0 + process_noise * g - decay2
    root = np.sqrt(b**2 + 4.0 * process_noise * decay2 * g)
    return np.asarray(2.0 * decay2 * g / (b + root))


# --- effects beside a control ---------------------------------------------------------------------
# The readings of one time share an unknown level:
#
#     y_i = level(t) + g_i(t) + noise_i,   g = f - f(control),
#
# with an independent level at every time, of which nothing is known before. Readings of one time with
# the noise covariance R are informative about the effects through their contrasts C y alone:
#
#     C = Q R^(-1/2),   the rows of Q orthonormal, and orthogonal to R^(-1/2) 1.
#
# C 1 = 0, so that no level is left in them, and C R C' = 1: n readings become n - 1 readings with
# independent noise, without loss. A reading that is alone at its time has no information.


def contrasts(variance: Array) -> Array:
    """Return C (n - 1, n) of n readings of one time with these noise variances."""
    weight = 1.0 / np.sqrt(variance)
    mirror = weight / np.linalg.norm(weight)
    mirror[0] += 1.0  # of a Householder reflection that takes the weights to the first axis
    reflection = np.eye(len(weight)) - np.outer(mirror, mirror) / mirror[0]
    return np.asarray(reflection[1:] * weight)


@dataclass(frozen=True, eq=False)
class EffectFilters:
    """M models of the effects g of A arms beside a control, filtered up to one time.

    f is a Gaussian process over the arms, and an Ornstein-Uhlenbeck process in time.

    Attributes
    ----------
    time : float
    signal, scale : arrays of shape (M,)
        Variance and time scale of f.
    prior, covariances : arrays of shape (M, A, A)
        Of the effects: before any reading, and now.
    means : array of shape (M, A)
    evidence : array of shape (M,)
        Log density of the contrasts that were read, and the log prior weight.
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

        Points (A, d) at a distance r have the correlation exp(-(r / l)^2 / 2), with lengths l in extents
        of the points; at a length of 0 they are independent.
        """
        times = spec.step * 10.0 ** np.array(CONFIG.effect_times)
        axes = spec.variances, times, np.arange(len(lengths))
        mesh = np.meshgrid(*axes, indexing="ij")
        signal, scale = mesh[0].ravel(), mesh[1].ravel()
        distance = pairwise_distances(points, points) / largest_extent(points)
        correlations = [
            np.exp(-0.5 * (distance / each) ** 2) if each else np.eye(len(points))
            for each in lengths
        ]
        beside = [S - S[control] - S[:, [control]] + S[control, control] for S in correlations]
        prior = signal[:, None, None] * np.array(beside)[mesh[2].ravel()]
        log_prior = spec.log_prior(signal, scale)
        return cls(-math.inf, signal, scale, prior, prior, np.zeros(prior.shape[:2]), log_prior)

    def predict(self, t: float) -> EffectFilters:
        """Return the filters at a later time; itself if it is not later."""
        if not self.time < t:
            return self
        if not math.isfinite(self.time):
            return replace(self, time=t)
        decay = np.exp((self.time - t) / self.scale)[:, None]
        change = decay[:, :, None] ** 2 * (self.covariances - self.prior)
        return replace(self, time=t, means=decay * self.means, covariances=self.prior + change)

    def update(self, t: float, rows: Index, y: Array, noise: Array) -> EffectFilters:
        """Return the filters with readings (n,) of some arms, at a time not before their own."""
        now = self.predict(t)
        total = np.bincount(rows, 1.0 / noise, now.means.shape[1])
        arms = np.flatnonzero(total)
        if len(arms) < 2:
            return now
        value = np.bincount(rows, y / noise, len(total))[arms] / total[arms]
        C = contrasts(1.0 / total[arms])
        CP = C @ now.covariances[:, arms]
        covariance = CP[:, :, arms] @ C.T + np.eye(len(C))
        errors = (value - now.means[:, arms]) @ C.T
        sides = np.concatenate([CP, errors[:, :, None]], axis=2)
        root, solution = linalg.whiten_each(covariance, sides)
        projection, errors_white = solution[:, :, :-1], solution[:, :, -1]
        log_root = np.log(np.einsum("mii->mi", root)).sum(axis=1)
        return replace(
            now,
            means=now.means + np.einsum("mia,mi->ma", projection, errors_white),
            covariances=now.covariances - projection.transpose(0, 2, 1) @ projection,
            evidence=now.evidence - log_root - 0.5 * (errors_white**2).sum(axis=1),
        )

    @cached_property
    def weights(self) -> Array:
        """Return the weights of the models (M,), whose sum is 1."""
        return np.asarray(softmax(self.evidence))

    @property
    def level(self) -> float:
        """Return 0: effects are relative to the control."""
        return 0.0

    @cached_property
    def variance(self) -> Array:
        """Return the variances of the effects under each model, (M, A)."""
        return np.asarray(np.maximum(np.einsum("maa->ma", self.covariances), 0.0))

    @property
    def total_variance(self) -> Array:
        """Return the same: no level is in the effects."""
        return self.variance

    def covariance(self, decay: Array | float = 1.0) -> Array:
        """Return the covariance of the effects (A, A) over all models, as of `ArmFilters.covariance`."""
        weights, apart = self.weights, self.means - self.weights @ self.means
        within = np.tensordot(weights * decay, self.covariances, axes=1)
        return np.asarray(within + (apart * weights[:, None]).T @ apart)

    def persistent_variance(self, spec: GridSpec) -> Array:
        """Return the variances (A,) that later readings beside the control would remove."""
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
        """Return centred normal draws (count, A) of the effects."""
        root = linalg.square_root(self.covariance())
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)


AnyFilters: TypeAlias = ArmFilters | EffectFilters | CountFilters

# The filters after the latest times, in order of time.
Past: TypeAlias = tuple[AnyFilters, ...]


# --- the rule and the posterior -------------------------------------------------------------------


@dataclass(frozen=True)
class IndependentArms(PosteriorRule):
    """The rule: arms that do not resemble each other, with differences of learned size and pace.

    Where all rewards are `rate(successes, trials)`, they are counts (`CountFilters`), but beside a
    control; where some are, they are measured shares with the variance that `rate` states.

    Parameters
    ----------
    control : tuple of float, optional
        The arm that the others are held against: everything is about effects beside it then, and every
        time has a level of its own (`EffectFilters`).
    lengths : tuple of float
        With a control also how far arms resemble each other, in extents of the points; 0: not at all.

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
        """Return what a posterior has learned of the reward; before any reading, that of the kernel."""
        return prior_of(posterior)

    def condition(self, conditioning: Conditioning) -> ArmsPosterior | ExactPosterior:
        """Return the posterior as `ModelEnsemble.condition`; readings have their own noise."""
        kernel, data, grid, now, previous, *_ = conditioning
        if grid is None:
            raise ValueError("arms are candidates: there are none")
        data = data.sort_by_time()
        prior = prior_posterior(kernel, data, grid, now)
        if prior is not None:
            return prior
        spec, reward_range = _spec_of(data, relative=self.control is not None)
        past: Past = ()
        if isinstance(previous, ArmsPosterior) and previous.spec == spec:
            new = data.rows_missing_from(previous.data)
            if new is not None:
                past = _before(previous.past, float(new.Z[:, -1].min(initial=math.inf)))
        past = past or (self._filters_at_prior(grid, spec),)
        past = _update_past(past, past[-1], data, grid, spec)
        if now < past[-1].time:  # a time in the past, without the later readings
            earlier = data.rows(0, int(np.searchsorted(data.Z[:, -1], now, "right")))
            posterior = self.condition(Conditioning(kernel, earlier, grid, now))
            assert isinstance(posterior, ArmsPosterior)  # it has a reading
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
        assert row is not None  # a recipe checks it
        return EffectFilters.of(in_column_units(grid.points), row, self.lengths, spec)


def _before(past: Past, t: float) -> Past:
    """Return the filters of the past that have no readings from a time on."""
    return tuple(each for each in past if each.time < t)


def _with_trials(data: Data) -> Data:
    """Return the same with trials instead of variances: `CountFilters.update` takes these."""
    return Data(data.Z, data.Y[:, :1], data.Y[:, 1])


def _are_counts(data: Data) -> bool:
    """Return whether all readings are shares of trials."""
    return data.Y.shape[1] > 1 and bool(data.Y[:, 1].all())


def _update_past(
    past: Past, latest: AnyFilters, data: Data, grid: CandidateGrid, spec: GridSpec
) -> Past:
    """Return the past, updated with all readings since, time after time.

    `latest` are the last of the filters at their time or a later one, such as that of the latest
    decision: most readings are of that time, and nothing has to be predicted again.
    """
    fresh = data.rows(int(data.Z[:, -1].searchsorted(past[-1].time, "right")))
    for t, readings in readings_by_time(grid, _with_trials(fresh) if spec.counted else fresh):
        latest = (latest if latest.time == t else past[-1]).update(t, *readings)
        past = (*past[1 - CONFIG.stored_times :], latest)
    return past


def _spec_of(data: Data, *, relative: bool) -> tuple[GridSpec, tuple[float, float] | None]:
    """Return what models are made for, and the range of the rewards as soon as only that can change it.

    Relative to a control, differences are those of one time.
    """
    first = CONFIG.first_readings
    Y = subtract_level_means(data.Z[:, -1], data.Y, data.variance) if relative else data.Y
    reward_range = float(Y[:, 0].min()), float(Y[:, 0].max())
    noise = median(data.variance[:first].tolist())  # of so few numpy's takes twenty times as long
    times = np.unique(data.Z[: 4 * first, -1])
    settled = len(times) > first and len(data) >= 4 * first and not relative
    times = times if len(times) > first else np.unique(data.Z[:, -1])
    gaps = np.diff(times[: first + 1]).tolist()
    step = median(gaps) if gaps else 1.0
    if not relative and _are_counts(data):
        return GridSpec(1.0, 0, step, counted=True), reward_range if settled else None
    spec = GridSpec(noise, _largest_power(reward_range, noise), step)
    return spec, reward_range if settled else None


def _largest_power(reward_range: tuple[float, float], noise: float) -> int:
    """Return the power of 4 of the squared range of the rewards, in units of the noise; at least 0."""
    squared = (reward_range[1] - reward_range[0]) ** 2
    return 0 if squared <= noise else math.ceil(math.log(squared / noise, 4.0))


@dataclass(frozen=True)
class ArmsPosterior(CandidatePosterior):
    """Filters of arms at one time: a `Posterior` of `gp.posterior`.

    Means have one column, variances are in the unit of reward squared.

    Attributes
    ----------
    kernel : scikit-learn kernel
    grid : CandidateGrid
    data : Data
        All readings, in order of time.
    now : float
        The time it is about.
    spec : GridSpec
        What the models are made for.
    past : tuple of filters
        After each of the latest times.
    filters : ArmFilters, EffectFilters or CountFilters
        At the time `now`.
    reward_range : pair of float or None
        Smallest and largest reading, as soon as further readings can change the models only by these.
    fantasy : JointPosterior or None
        About that time, if some more arms had been read.
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
        """Return the posterior with more readings; None where some are late, or need other models."""
        if grid is not self.grid:
            return None
        rows, data, past, reward_range = (
            rows.sort_by_time(),
            self.data,
            self.past,
            self.reward_range,
        )
        if len(rows):
            first = float(rows.Z[0, -1])
            if first < data.Z[-1, -1]:
                return None
            data, past = data.append(rows), _before(past, first)
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
        """Return the variances of the rewards (A,), within the models and between them."""
        if self.fantasy is not None:
            return self.fantasy.deviation**2
        filters = self.filters
        each = filters.total_variance + (filters.means - self.mean) ** 2
        return np.asarray(filters.weights @ each)

    @property
    def prior(self) -> ArmsPrior:
        """Return what the filters have learned of the reward."""
        return ArmsPrior(self.kernel, self.filters, self.grid, self.spec)

    def predict_candidates(self) -> tuple[Array, Array]:
        """Return means (A, 1) and variances (A,) of the arms."""
        return self.mean[:, None], self.variance

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Return centred normal draws (count, A) at the arms, with the covariance of the mixture."""
        return self.filters.sample(count, rng)

    def joint_posterior(
        self, about: float, beta: float, noise_variance: Any = 0.0
    ) -> JointPosterior:
        """Return the posterior of the arms now, with what readings of the time `about` would change."""
        then = next((each for each in reversed(self.past) if each.time <= about), self.past[0])
        then = then.predict(about)
        across = then.covariance(np.exp(-abs(self.now - about) / then.scale))
        among = then.covariance()
        return JointPosterior(
            self.mean, np.sqrt(self.variance), beta, noise_variance,
            cross_covariance=lambda rows, others=slice(None): across[list(rows)][:, others],
            covariance=lambda rows, others: among[np.ix_(list(rows), list(others))],
            variance=np.diagonal(among),
        )  # fmt: skip


@dataclass(frozen=True)
class ArmsPrior:
    """What filters have learned of the reward: a `Prior` of `gp.posterior`.

    Attributes
    ----------
    kernel : scikit-learn kernel
        The prior before any reading.
    filters : ArmFilters, EffectFilters or CountFilters
    candidates : CandidateGrid
    spec : GridSpec
        What the models are made for.
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
        """Return the share (A,) of the deviations that readings of later steps would remove."""
        total = self.filters.weights @ self.filters.total_variance
        # That of the control is 0.
        return np.sqrt(
            self.filters.persistent_variance(self.spec) / np.where(total <= 0.0, 1.0, total)
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Return the level, and the deviation of the differences."""
        filters, weights = self.filters, self.filters.weights
        return {"mean": filters.level, "scale": math.sqrt(float(weights @ filters.signal))}

    def effective_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """Return the effective noise (n,) of values of some ages ago, as readings of now."""
        filters = self.filters
        part = filters.weights * filters.signal
        total = part.sum()
        scales, parts = _sum_by_scale(filters.scale, part)
        decay = np.exp(-np.asarray(ages)[:, None] / scales)
        r2 = (decay @ parts / total) ** 2
        variance = equivalent_noise(noise, total, r2)
        limit = NOISE_LIMITS.faint * (total + noise)
        return np.asarray(np.where(variance <= limit, variance, np.inf))

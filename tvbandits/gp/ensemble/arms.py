"""Arms that share a level and nothing else: scalar filters side by side, weighted by their evidence.

The small sister of `ModelEnsemble`: a step costs a few operations on arrays of models x arms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from statistics import median
from typing import Any, ClassVar, TypeAlias

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.core.observations import changed
from tvbandits.gp.ensemble.effects import EffectFilters, precision_of_later
from tvbandits.gp.ensemble.rule import (
    CandidatePosterior,
    at_each_time,
    before_readings,
    candidate_rows,
)
from tvbandits.gp.kernels.units import in_column_units
from tvbandits.gp.posteriors.cholesky import ExactPosterior
from tvbandits.gp.posteriors.data import CandidateGrid, Data, without_levels
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.gp.posteriors.protocol import FAINT, Conditioning, PosteriorRule, as_of_now

# Steps in which a difference between arms is forgotten, up to 1/e.
SCALES = 10.0 ** np.arange(2.0, 5.0, 0.5)

# The smallest variance of a difference is 4 to this power of the noise variance.
SMALLEST = -6

# From so many first readings the noise variance and the step are taken that the models are made
# for.
FIRST = 16

# So many past filters are kept: a late reading goes back to the one before its time.
KEPT = 16


@dataclass(frozen=True, eq=False)
class ArmFilters:
    """M models of y = level + difference of the arm + noise, filtered up to one time.

    A difference is an Ornstein-Uhlenbeck process of its own at every arm. The level is the same for all
    and always, with a flat prior: each filter follows what it would say at level 0, and how much of a
    level it would explain (`share`), so that level and evidence are exact sums.

    Attributes
    ----------
    time : float
    signal, scale : arrays of shape (M,)
        Variance and time scale of the differences.
    mean, share, variance : arrays of shape (M, A)
    precision, product : arrays of shape (M,)
        Of the level: it is product / precision, with the variance 1 / precision.
    evidence : array of shape (M,)
        Log density of what was read at level 0, and the log prior weight.
    """

    time: float
    signal: Array
    scale: Array
    mean: Array
    share: Array
    variance: Array
    precision: Array
    product: Array
    evidence: Array

    @classmethod
    def of(cls, arms: int, noise: float, largest: int, step: float) -> ArmFilters:
        """Before any reading: all time scales with variances of 4^SMALLEST to 4^largest of the noise.

        A model's prior weight is proportional to (time scale / variance)^(1/4): that arms hardly
        differ, and hardly change, is believed until readings say otherwise. The powers 0 and 1/2 have
        the same regret within noise on rates that stay, walk or switch: 0 is better on the last.
        """
        powers = 4.0 ** np.arange(SMALLEST, largest + 1)
        signal, scale = (each.ravel() for each in np.meshgrid(noise * powers, step * SCALES))
        none = np.zeros((len(signal), arms))
        prior = 0.25 * np.log(scale * noise / (step * signal))
        variance = np.repeat(signal[:, None], arms, axis=1)
        zero = np.zeros(len(signal))
        return cls(-math.inf, signal, scale, none, none, variance, zero, zero, prior)

    def moved(self, t: float) -> ArmFilters:
        """At a later time."""
        if not self.time < t:
            return self
        if not math.isfinite(self.time):
            return changed(self, time=t)
        kept = np.exp((self.time - t) / self.scale)[:, None]
        kept2 = kept**2
        mean, share = kept * self.mean, kept * self.share
        variance = kept2 * self.variance + self.signal[:, None] * (1.0 - kept2)
        return changed(self, time=t, mean=mean, share=share, variance=variance)

    def observed(self, t: float, rows: Index, y: Array, noise: Array) -> ArmFilters:
        """With readings (n,) of some arms at a time that is not before that of the filters."""

        def over_arms(each: Array) -> Array:
            return each if each.ndim == 1 else np.asarray(each.sum(axis=1))

        now = self.moved(t)
        arms, total, value = rows[0], 1.0 / noise, y / noise
        if len(rows) > 1:
            # Readings of one arm at one time are one, by their precisions: no model can tell them apart.
            sums = [np.bincount(rows, each).astype(np.float64) for each in (total, value)]
            arms = np.flatnonzero(sums[0])
            total, value = (each[arms] for each in sums)
        known = [each[:, arms] for each in (now.mean, now.share, now.variance)]
        off, unexplained, spread = value / total - known[0], 1.0 - known[1], known[2] + 1.0 / total
        gain = known[2] / spread
        mean, share, variance = now.mean.copy(), now.share.copy(), now.variance.copy()
        mean[:, arms] = known[0] + gain * off
        share[:, arms] = known[1] + gain * unexplained
        variance[:, arms] = known[2] * (1.0 - gain)
        return changed(
            now,
            mean=mean,
            share=share,
            variance=variance,
            precision=now.precision + over_arms(unexplained**2 / spread),
            product=now.product + over_arms(unexplained * off / spread),
            evidence=now.evidence - 0.5 * over_arms(np.log(spread) + off**2 / spread),
        )

    @cached_property
    def weights(self) -> Array:
        """Of the models, (M,), of sum 1; the level is integrated out."""
        log = self.evidence + 0.5 * (self.product**2 / self.precision - np.log(self.precision))
        weights = np.exp(log - log.max())
        return np.asarray(weights / weights.sum())

    @cached_property
    def unexplained(self) -> Array:
        """How much of a level is left to be explained, (M, A)."""
        return np.asarray(1.0 - self.share)

    @cached_property
    def means(self) -> Array:
        """Of the rewards under each model, (M, A)."""
        return self.mean + self.unexplained * (self.product / self.precision)[:, None]

    @cached_property
    def level_variances(self) -> Array:
        """What the doubt about the level adds to the variances, (M, A)."""
        return self.unexplained**2 / self.precision[:, None]

    @property
    def level(self) -> float:
        """Its mean over all models."""
        return float(self.weights @ (self.product / self.precision))

    @property
    def total_variance(self) -> Array:
        """Of the rewards under each model, (M, A)."""
        return self.variance + self.level_variances

    def covariance(self, kept: Array | float = 1.0) -> Array:
        """Between the arms (A, A), over all models; `kept` (M,) of the differences to another time."""
        weights, unexplained = self.weights, self.unexplained
        apart = self.means - weights @ self.means
        shared = (unexplained * (weights / self.precision)[:, None]).T @ unexplained
        shared += (apart * weights[:, None]).T @ apart
        return shared + np.diag((weights * kept) @ self.variance)

    def lasting(self, *made_for: Any) -> Array:
        """Variances (A,) of what rewards of every later step would tell about the next reward.

        `made_for` are noise, power and step that the models were made for.
        """
        told = self.variance**2 / (self.variance + _noise_of_later(*made_for))
        return np.asarray(self.weights @ (told + self.level_variances))

    def prior_covariance(self, rows: Index, lags: Array) -> Array:
        """Of differences at arms (n,) with lags (n, n) between their times, over all models."""
        scales, part = _by_scale(self.scale, self.weights * self.signal)
        covariance, alike = np.zeros(lags.shape), rows[:, None] == rows
        covariance[alike] = part @ np.exp(-lags[alike] / scales[:, None])
        return covariance

    def draws(self, count: int, rng: np.random.Generator) -> Array:
        """Centred draws of the rewards, shape (count, A): normal, with the covariance of the mixture."""
        weights = np.sqrt(self.weights)[:, None]
        level = weights * self.unexplained / np.sqrt(self.precision)[:, None]
        apart = weights * (self.means - self.weights @ self.means)
        own = np.sqrt(self.weights @ self.variance)
        shape = count, len(weights)
        drawn = own * rng.standard_normal((count, len(own)))
        return drawn + rng.standard_normal(shape) @ level + rng.standard_normal(shape) @ apart


def _by_scale(scale: Array, part: Array) -> tuple[Array, Array]:
    """The different time scales, few of those (M,) of many models, and the sum of their parts (M,)."""
    scales, which = np.unique(scale, return_inverse=True)
    return scales, np.asarray(np.bincount(which, part), dtype=np.float64)


@lru_cache(maxsize=64)
def _noise_of_later(noise: float, largest: int, step: float) -> Array:
    """The noise variance (M, 1) that readings of every later step have together, under each model.

    It follows from what the models are made for, as they do (`ArmFilters.of`).
    """
    models = ArmFilters.of(1, noise, largest, step)
    kept2 = np.exp(-2.0 * step / models.scale)
    return 1.0 / precision_of_later(kept2, models.signal * (1.0 - kept2), noise)[:, None]


AnyFilters: TypeAlias = ArmFilters | EffectFilters

# Filters after the latest times, in their order.
Past: TypeAlias = tuple[AnyFilters, ...]


@dataclass(frozen=True)
class IndependentArms(PosteriorRule):
    """The rule: arms that resemble each other not at all, with differences of learned size and pace.

    Parameters
    ----------
    control : tuple of float, optional
        The arm that the others are held against: all is about effects beside it then, and every time has
        a level of its own (`effects.EffectFilters`).
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
    points_apart: ClassVar[bool] = True

    def condition(self, given: Conditioning) -> ArmsPosterior | ExactPosterior:
        """As `ModelEnsemble.condition`; readings say of themselves how noisy they are."""
        kernel, data, surface, now, previous, *_ = given
        if surface is None:
            raise ValueError("arms are candidates: there are none")
        data = data.in_time()
        prior = before_readings(kernel, data, surface, now)
        if prior is not None:
            return prior
        made_for, between = _made_for(data, beside=self.control is not None)
        past: Past = ()
        if isinstance(previous, ArmsPosterior) and previous.made_for == made_for:
            fresh = data.beyond(previous.data)
            if fresh is not None:
                past = _before(previous.past, float(fresh.Z[:, -1].min(initial=math.inf)))
        past = past or (self._first(surface, *made_for),)
        past = _observed(past, past[-1], data, surface)
        if now < past[-1].time:  # a look at the past, without what was read later
            before = data.rows(0, int(np.searchsorted(data.Z[:, -1], now, "right")))
            looked = self.condition(Conditioning(kernel, before, surface, now))
            assert isinstance(looked, ArmsPosterior)  # it has a reading
            return replace(looked, data=data, past=past, made_for=made_for, between=between)
        filters = past[-1].moved(now)
        return ArmsPosterior(kernel, surface, data, now, made_for, past, filters, between)

    def _first(self, surface: CandidateGrid, noise: float, largest: int, step: float) -> AnyFilters:
        """Before any reading."""
        if self.control is None:
            return ArmFilters.of(len(surface.points), noise, largest, step)
        row = surface.index(np.array(self.control))
        assert row is not None  # a recipe checks it
        powers = np.asarray(4.0 ** np.arange(SMALLEST, largest + 1), dtype=np.float64)
        points = in_column_units(surface.points)
        return EffectFilters.of(points, row, self.lengths, noise, powers, step)


def _before(past: Past, t: float) -> Past:
    """The filters of the past, less those that know of readings from a time on."""
    return tuple(each for each in past if each.time < t)


def _observed(past: Past, ahead: AnyFilters, data: Data, surface: CandidateGrid) -> Past:
    """The latest filters, once what was read since those of the past is observed, time after time.

    `ahead` are the last of them at that time or a later one, such as that of the latest decision: what
    was played then is read at its time, and nothing has to be moved again.
    """
    start = int(data.Z[:, -1].searchsorted(past[-1].time, "right"))
    for t, readings in at_each_time(surface, data.rows(start)):
        ahead = (ahead if ahead.time == t else past[-1]).observed(t, *readings)
        past = (*past[1 - KEPT :], ahead)
    return past


def _made_for(
    data: Data, *, beside: bool
) -> tuple[tuple[float, int, float], tuple[float, float] | None]:
    """What models are made for: noise variance, power of the largest difference, and step.

    And between which readings that difference lies, once further readings change nothing else. Beside a
    control, differences are those of one time.
    """
    Y = without_levels(data.Z[:, -1], data.Y, data.variance) if beside else data.Y
    between = float(Y[:, 0].min()), float(Y[:, 0].max())
    noise = median(data.variance[:FIRST].tolist())  # of so few numpy's takes twenty times as long
    times = np.unique(data.Z[: 4 * FIRST, -1])
    settled = len(times) > FIRST and len(data) >= 4 * FIRST and not beside
    times = times if len(times) > FIRST else np.unique(data.Z[:, -1])
    gaps = np.diff(times[: FIRST + 1]).tolist()
    made_for = noise, _largest(between, noise), median(gaps) if gaps else 1.0
    return made_for, between if settled else None


def _largest(between: tuple[float, float], noise: float) -> int:
    """The power of 4 that a difference between readings has in the unit of the noise, 0 or more."""
    spread = (between[1] - between[0]) ** 2
    return 0 if spread <= noise else math.ceil(math.log(spread / noise, 4.0))


@dataclass(frozen=True)
class ArmsPosterior(CandidatePosterior):
    """What the filters say at one time: a `Posterior` of `gp.posteriors.protocol`.

    Means have one column, variances are in the unit of reward squared.

    Attributes
    ----------
    kernel : scikit-learn kernel
    surface : CandidateGrid
    data : Data
        All that was read, in order of time.
    now : float
        The time that it speaks about.
    made_for : tuple
        Noise variance, power of the largest difference and step of the models.
    past : tuple of ArmFilters
        After each of the latest times.
    filters : ArmFilters
        At the time `now`.
    between : pair of float or None
        Smallest and largest reading, once the models follow from what further readings change of these.
    fantasy : JointPosterior or None
        About that time, if some points more had been observed.
    """

    kernel: Any
    surface: CandidateGrid
    data: Data
    now: float
    made_for: tuple[float, int, float]
    past: Past = field(repr=False, compare=False)
    filters: AnyFilters = field(repr=False, compare=False)
    between: tuple[float, float] | None = field(default=None, repr=False, compare=False)
    fantasy: JointPosterior | None = field(default=None, repr=False, compare=False)

    nugget: ClassVar[float] = 0.0

    def continued(
        self, rows: Data, now: float, surface: CandidateGrid | None
    ) -> ArmsPosterior | None:
        """With readings more; None where some are older than its own, or other models are made."""
        if surface is not self.surface:
            return None
        rows, data, past, between = rows.in_time(), self.data, self.past, self.between
        if len(rows):
            first = float(rows.Z[0, -1])
            if first < data.Z[-1, -1]:
                return None
            data, past = data.append(rows), _before(past, first)
            if between is None:
                made_for, between = _made_for(data, beside=isinstance(self.filters, EffectFilters))
            else:
                y, noise = rows.Y[:, 0].tolist(), self.made_for[0]
                between = min(between[0], *y), max(between[1], *y)
                made_for = noise, _largest(between, noise), self.made_for[2]
            if not past or made_for != self.made_for:
                return None
        past = _observed(past, self.filters if past is self.past else past[-1], data, surface)
        if now < past[-1].time:
            return None
        made = self.kernel, surface, data, now, self.made_for, past, past[-1].moved(now), between
        return ArmsPosterior(*made)

    @cached_property
    def mean(self) -> Array:
        """Of the rewards (A,)."""
        return np.asarray(self.filters.weights @ self.filters.means)

    @cached_property
    def variance(self) -> Array:
        """Of the rewards (A,), with what the models disagree about."""
        if self.fantasy is not None:
            return self.fantasy.deviation**2
        filters = self.filters
        each = filters.total_variance + (filters.means - self.mean) ** 2
        return np.asarray(filters.weights @ each)

    @property
    def learned(self) -> Mapping[str, Any]:
        """The level, and the deviation of the differences."""
        filters, weights = self.filters, self.filters.weights
        return {"centre": filters.level, "scale": math.sqrt(float(weights @ filters.signal))}

    def prior_covariance(self, Z: Array) -> Array:
        """Of the differences, over all models."""
        lags = np.abs(Z[:, -1, None] - Z[:, -1])
        return self.filters.prior_covariance(candidate_rows(self.surface, Z), lags)

    @cached_property
    def lasting_share(self) -> Array:
        """Share (A,) of the deviations that rewards of later steps would tell."""
        own = self.filters.weights @ self.filters.total_variance
        # That of the control is 0.
        return np.sqrt(self.filters.lasting(*self.made_for) / np.where(own <= 0.0, 1.0, own))

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, 1) and variances (A,) of the arms."""
        return self.mean[:, None], self.variance

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the arms, shape (count, A): normal, with the covariance of the mixture."""
        return self.filters.draws(count, rng)

    def beliefs(self, about: float, beta: float, noise_variance: Any = 0.0) -> JointPosterior:
        """About the arms now, and what readings of the time `about` would change."""
        then = next((each for each in reversed(self.past) if each.time <= about), self.past[0])
        then = then.moved(about)
        across = then.covariance(np.exp(-abs(self.now - about) / then.scale))
        among = then.covariance()
        return JointPosterior(
            self.mean, np.sqrt(self.variance), beta, noise_variance,
            reach=lambda rows, others=slice(None): across[list(rows)][:, others],
            among=lambda rows, others: among[np.ix_(list(rows), list(others))],
            present=np.diagonal(among),
        )  # fmt: skip

    def pending_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """With what noise (n,) values seen some ages ago speak about the time `now`."""
        filters = self.filters
        part = filters.weights * filters.signal
        total = part.sum()
        scales, parts = _by_scale(filters.scale, part)
        kept = np.exp(-np.asarray(ages)[:, None] / scales)
        r2 = (kept @ parts / total) ** 2
        found = as_of_now(noise, total, r2)
        return np.asarray(np.where(found <= FAINT * (total + noise), found, np.inf))

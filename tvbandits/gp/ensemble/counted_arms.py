"""Predict arms whose rewards are counts, k successes of n trials, by Beta-Binomial models.

A model has a discount g per step and a prior strength s. For each arm a it has discounted sums of the
successes, S_a, and of the successes that its trials would have had at the level of their times, E_a:

    ratio        q_a = (s + S_a) / (s + E_a)     of the arm's chance to the level, with the prior mean 1
    chance       p_a ~ Beta(s + S_a, ...) with the mean l q_a at the level l
    prediction   k_a ~ BetaBinomial(n_a, p_a)
    discount     S_a <- g S_a,  E_a <- g E_a                  for each step
    reading      S_a <- S_a + k_a,  E_a <- E_a + n_a l

At a constant level, p_a ~ Beta(s + S_a, s / l - s + trials - S_a), which is discounted Thompson sampling
with a prior around the level. The level of all arms may change together, as with the hour of the day. If
several arms are read at one time, the level is estimated from them, with one success at the usual level:

    l = (1 + sum_a k_a) / (1 / usual level + sum_a n_a q_a).

For such a time the evidence of a model is its prediction of how the successes are distributed over arms,

    log evidence += sum_a log BetaBinomial(k_a | n_a, l q_a) - log BetaBinomial(sum k | sum n),

in which the second term has the mean and the variance of the sum. Without it models that forget within
hours would win, since they follow the day. An arm that is read alone at its time is read at the usual
level, and its whole prediction is evidence. The weights of the models follow by Bayes' rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import betaln

from tvbandits.data import replace_fields
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class CountConfig:
    """Constants of the models of counts.

    Attributes
    ----------
    discounts : tuple of float
        Discounts of counts per step.
    strengths : tuple of float
        Strengths of the prior in successes. The prior deviation of a ratio is 1 / sqrt(strength).
    prior_power : float
        The prior weight of a model is proportional to its memory in steps, 1 / (1 - discount), to this
        power, so that slow changes are more likely a priori.
    longest_memory : float
        The largest memory, in steps, in that prior.
    largest_chance : float
        The upper limit of the product of level and ratio.
    """

    discounts: tuple[float, ...] = (1.0, 0.999, 0.997, 0.99, 0.97, 0.9, 0.7)
    strengths: tuple[float, ...] = (3.0, 10.0, 30.0)
    prior_power: float = 0.5
    longest_memory: float = 1e4
    largest_chance: float = 0.999


CONFIG = CountConfig()


def log_beta_binomial(k: Array, n: Array, alpha: Array, mean: Array) -> Array:
    """Return log probabilities of k successes in n trials, without log (n choose k).

    The chance has a Beta distribution with the first parameter alpha and the mean `mean`. The omitted
    term is the same for all models.
    """
    beta = alpha * (1.0 - mean) / mean
    return np.asarray(betaln(alpha + k, beta + n - k) - betaln(alpha, beta))


@dataclass(frozen=True, eq=False)
class CountFilters:
    """Filters of M models of the chances of A arms.

    Attributes
    ----------
    time : float
        The time of the filters.
    step : float
        Duration of a step.
    discount, strength : arrays of shape (M,)
        Discounts per step and prior strengths.
    successes, expected : arrays of shape (M, A)
        The discounted sums S and E.
    levels, level_trials : arrays of shape (M,)
        The usual level, and the discounted number of trials of which it is the mean.
    evidence : array of shape (M,)
        Log evidence of the models.
    sign : float
        -1 if fewer successes are better, so that rewards are negative fractions; else 1.
    """

    time: float
    step: float
    discount: Array
    strength: Array
    successes: Array
    expected: Array
    levels: Array
    level_trials: Array
    evidence: Array
    sign: float = 1.0

    @classmethod
    def of(cls, arms: int, step: float) -> CountFilters:
        """Return the filters of all discounts and strengths, before any reading."""
        models = np.array([*product(CONFIG.discounts, CONFIG.strengths)])
        M = len(models)
        zeros = np.zeros((M, arms))
        level = np.full(M, 0.5), np.ones(M)  # the prior level counts as one trial
        memory = 1.0 / np.maximum(1.0 - models[:, 0], 1.0 / CONFIG.longest_memory)
        prior = CONFIG.prior_power * np.log(memory)
        return cls(-math.inf, step, models[:, 0], models[:, 1], zeros, zeros, *level, prior)

    def predict(self, t: float) -> CountFilters:
        """Return the filters at the time `t`; `self` if `t` is not after their time."""
        if not self.time < t:
            return self
        if not math.isfinite(self.time):
            return replace_fields(self, time=t)
        decay = self.discount ** ((t - self.time) / self.step)
        return replace_fields(
            self,
            time=t,
            successes=decay[:, None] * self.successes,
            expected=decay[:, None] * self.expected,
            level_trials=np.maximum(decay * self.level_trials, 1.0),  # the level is never forgotten
        )

    def update(self, t: float, rows: Index, y: Array, trials: Array) -> CountFilters:
        """Return the filters given readings (n,) of some arms, at a time not before their own.

        Parameters
        ----------
        t : float
            The time of the readings.
        rows : integer array of shape (n,)
            The arms.
        y : array of shape (n,)
            Fractions of successful trials, with the sign of `trials`.
        trials : array of shape (n,)
            Numbers of trials; negative if fewer successes are better.
        """
        prediction, size = self.predict(t), self.expected.shape[1]
        columns = np.abs(trials), y * trials
        n, k = (np.bincount(rows, column, size).astype(np.float64) for column in columns)
        arms = np.flatnonzero(n)
        n, k = n[arms], k[arms]
        ratio = prediction.ratios[:, arms]
        total, new_trials = k.sum(), ratio @ n
        is_first = not math.isfinite(self.time)
        level_trials = prediction.level_trials + new_trials
        usual = prediction.levels + (total - prediction.levels * new_trials) / level_trials
        prior_level = usual if is_first else prediction.levels
        is_alone = len(arms) == 1
        level = prior_level if is_alone else (1.0 + total) / (1.0 / prior_level + new_trials)
        evidence = prediction._log_predictive(arms, n, k, level, given_total=not is_alone)
        successes, expected = prediction.successes.copy(), prediction.expected.copy()
        successes[:, arms] += k
        expected[:, arms] += level[:, None] * n
        return replace_fields(
            prediction,
            successes=successes,
            expected=expected,
            levels=usual,
            level_trials=level_trials,
            evidence=prediction.evidence + evidence,
            sign=math.copysign(1.0, trials[0]),
        )

    def _log_predictive(
        self, arms: Index, n: Array, k: Array, level: Array, *, given_total: bool
    ) -> Array:
        """Return the log predictive probability (M,) of k successes in n trials of each arm.

        If `given_total`, it is conditional on the total number of successes.
        """
        alpha, mean = self.alpha[:, arms], self._chances(level)[:, arms]
        evidence = log_beta_binomial(k, n, alpha, mean).sum(axis=1)
        if not given_total:
            return np.asarray(evidence)
        size, variance = n.sum(), (mean**2 * (1.0 - mean) / (alpha + mean)) @ n**2
        sum_mean = mean @ n / size
        # The first parameter of the Beta distribution with this mean and variance.
        sum_alpha = sum_mean**2 * (1.0 - sum_mean) / (variance / size**2) - sum_mean
        return np.asarray(evidence - log_beta_binomial(k.sum(), size, sum_alpha, sum_mean))

    @cached_property
    def alpha(self) -> Array:
        """Return the first parameters of the Beta distributions, (M, A)."""
        return np.asarray(self.strength[:, None] + self.successes)

    @cached_property
    def ratios(self) -> Array:
        """Return the means of the ratios of chances to the level, (M, A)."""
        return np.asarray(self.alpha / (self.strength[:, None] + self.expected))

    def _chances(self, level: Array) -> Array:
        """Return the means of the chances (M, A) at levels (M,)."""
        return np.asarray(np.minimum(level[:, None] * self.ratios, CONFIG.largest_chance))

    @cached_property
    def chances(self) -> Array:
        """Return the means of the chances at the usual level under each model, (M, A)."""
        return self._chances(self.levels)

    @cached_property
    def weights(self) -> Array:
        """Return the posterior weights (M,) of the models."""
        weights = np.exp(self.evidence - self.evidence.max())
        return np.asarray(weights / weights.sum())

    @property
    def means(self) -> Array:
        """Return the means of the rewards under each model, (M, A)."""
        return self.sign * self.chances

    @property
    def total_variance(self) -> Array:
        """Return the variances of the rewards under each model, (M, A)."""
        mean = self.chances
        return np.asarray(mean**2 * (1.0 - mean) / (self.alpha + mean))

    @property
    def signal(self) -> Array:
        """Return the prior variance of the chances under each model, (M,)."""
        return np.asarray(self.levels**2 / self.strength)

    @property
    def scale(self) -> Array:
        """Return the times (M,) in which counts are discounted to 1/e."""
        with np.errstate(divide="ignore"):
            return np.asarray(-self.step / np.log(self.discount))

    @property
    def level(self) -> float:
        """Return the mean of the usual level over all models."""
        return self.sign * float(self.weights @ self.levels)

    def covariance(self, decay: Array | float = 1.0) -> Array:
        """Return the covariance of the arms (A, A) over all models; see `ArmFilters.covariance`."""
        weights, deviations = self.weights, self.means - self.weights @ self.means
        between = (deviations * weights[:, None]).T @ deviations
        return between + np.diag((weights * decay) @ self.total_variance)

    def persistent_variance(self, spec: Any) -> Array:  # noqa: ARG002 - part of the interface
        """Return the variances (A,), which readings of all later steps would remove completely."""
        return np.asarray(self.weights @ self.total_variance)

    def prior_covariance(self, rows: Index, lags: Array) -> Array:
        """Return the prior covariance of arms (n,) at lags (n, n), over all models."""
        same = rows[:, None] == rows
        decay = np.exp(-lags[..., None] / self.scale)
        return np.asarray(np.where(same, decay @ (self.weights * self.signal), 0.0))

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return centred samples (count, A) of the rewards, from models sampled by their weights."""
        models = rng.choice(len(self.weights), count, p=self.weights)
        alpha, mean = self.alpha[models], self.chances[models]
        chances = rng.beta(alpha, alpha * (1.0 - mean) / mean)
        return np.asarray(self.sign * (chances - self.weights @ self.chances))

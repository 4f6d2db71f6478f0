"""Arms whose rewards are counts, k successes of n trials: Beta-Binomial models side by side.

A model has a discount g a step and a prior strength s. Of each arm a it holds the successes S_a, and
the successes E_a that were expected of its trials at the level of their times, both discounted:

    ratio        q_a = (s + S_a) / (s + E_a)     to the level; s says how close to 1 it is
    chance       p_a ~ Beta(s + S_a, ...) with the mean l q_a at the level l
    prediction   k_a ~ BetaBinomial(n_a, p_a)
    discount     S_a <- g S_a,  E_a <- g E_a                  for each step
    reading      S_a <- S_a + k_a,  E_a <- E_a + n_a l

At a level that stays, p_a ~ Beta(s + S_a, s / l - s + trials - S_a): discounted Thompson sampling with
a prior around the level. The level may change with the hour, for all arms alike. Where several
arms are read at one time, it is what they have in common there, with one success of the usual level:

    l = (1 + sum_a k_a) / (1 / usual level + sum_a n_a q_a).

Of such a time a model's evidence is how well it predicted the shares of the arms in all successes,

    log evidence += sum_a log BetaBinomial(k_a | n_a, l q_a) - log BetaBinomial(sum k | sum n),

in which the second term has the mean and the variance of the sum: else the models that forget within
hours would win, since they follow the day. An arm that is read alone at its time is read at the usual
level, and its evidence is all of its prediction. The weights of the models follow by Bayes' rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import betaln, softmax

from tvbandits.data import replace_fields
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class CountConfig:
    """The constants of the models of counts.

    Attributes
    ----------
    discounts : tuple of float
        Of counts, for each step.
    strengths : tuple of float
        Of the prior, in successes: before any reading a ratio deviates by 1 / sqrt(strength).
    prior_power : float
        The prior weight of a model is proportional to the steps that it remembers, 1 / (1 - discount),
        to this power: that arms hardly change is believed until counts show otherwise.
    longest_memory : float
        Of so many steps at most.
    largest_chance : float
        Where level and ratio have a larger product.
    """

    discounts: tuple[float, ...] = (1.0, 0.999, 0.997, 0.99, 0.97, 0.9, 0.7)
    strengths: tuple[float, ...] = (3.0, 10.0, 30.0)
    prior_power: float = 0.5
    longest_memory: float = 1e4
    largest_chance: float = 0.999


CONFIG = CountConfig()


def log_beta_binomial(k: Array, n: Array, alpha: Array, mean: Array) -> Array:
    """Return log probabilities of k of n successes less log (n choose k), which all models share.

    The chance has a Beta distribution with the first parameter alpha, and this mean.
    """
    beta = alpha * (1.0 - mean) / mean
    return np.asarray(betaln(alpha + k, beta + n - k) - betaln(alpha, beta))


@dataclass(frozen=True, eq=False)
class CountFilters:
    """M models of the chances of A arms, up to one time.

    Attributes
    ----------
    time : float
    step : float
        Duration of a step.
    discount, strength : arrays of shape (M,)
    successes, expected : arrays of shape (M, A)
        Discounted.
    levels, level_trials : arrays of shape (M,)
        The usual level, and of how many trials, discounted, it is the mean.
    evidence : array of shape (M,)
        Log evidence of the models.
    sign : float
        -1: fewer successes are better, and rewards are their negative.
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
        level = np.full(M, 0.5), np.ones(M)  # of one trial, until something is read
        memory = 1.0 / np.maximum(1.0 - models[:, 0], 1.0 / CONFIG.longest_memory)
        prior = CONFIG.prior_power * np.log(memory)
        return cls(-math.inf, step, models[:, 0], models[:, 1], zeros, zeros, *level, prior)

    def predict(self, t: float) -> CountFilters:
        """Return the filters at a later time; itself if it is not later."""
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
            level_trials=np.maximum(decay * self.level_trials, 1.0),  # it is never forgotten
        )

    def update(self, t: float, rows: Index, y: Array, trials: Array) -> CountFilters:
        """Return the filters with readings (n,) of some arms, at a time not before their own.

        Parameters
        ----------
        t : float
        rows : integer array of shape (n,)
            The arms.
        y : array of shape (n,)
            Shares of trials that succeeded; negative where trials are.
        trials : array of shape (n,)
            Negative where fewer successes are better.
        """
        now, size = self.predict(t), self.expected.shape[1]
        columns = np.abs(trials), y * trials
        n, k = (np.bincount(rows, each, size).astype(np.float64) for each in columns)
        arms = np.flatnonzero(n)
        n, k = n[arms], k[arms]
        ratio = now.ratios[:, arms]
        total, usual_trials = k.sum(), ratio @ n
        is_first = not math.isfinite(self.time)
        trials_before = now.level_trials + usual_trials
        usual = now.levels + (total - now.levels * usual_trials) / trials_before
        before = usual if is_first else now.levels
        is_alone = len(arms) == 1
        level = before if is_alone else (1.0 + total) / (1.0 / before + usual_trials)
        evidence = now._log_predictive(arms, n, k, level, shares=not is_alone)
        successes, expected = now.successes.copy(), now.expected.copy()
        successes[:, arms] += k
        expected[:, arms] += level[:, None] * n
        return replace_fields(
            now,
            successes=successes,
            expected=expected,
            levels=usual,
            level_trials=trials_before,
            evidence=now.evidence + evidence,
            sign=math.copysign(1.0, trials[0]),
        )

    def _log_predictive(
        self, arms: Index, n: Array, k: Array, level: Array, *, shares: bool
    ) -> Array:
        """Return the log evidence (M,) of k of n successes: of all, or of their shares in the sum."""
        alpha, mean = self.alpha[:, arms], self._chances(level)[:, arms]
        evidence = log_beta_binomial(k, n, alpha, mean).sum(axis=1)
        if not shares:
            return np.asarray(evidence)
        size, variance = n.sum(), (mean**2 * (1.0 - mean) / (alpha + mean)) @ n**2
        sum_mean = mean @ n / size
        # The first parameter of the Beta distribution of this mean and this variance.
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
        """Return the weights of the models (M,), whose sum is 1."""
        return np.asarray(softmax(self.evidence))

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
        """Return the variance of chances before any reading under each model, (M,)."""
        return np.asarray(self.levels**2 / self.strength)

    @property
    def scale(self) -> Array:
        """Return the times (M,) after which counts are discounted to 1/e."""
        with np.errstate(divide="ignore"):
            return np.asarray(-self.step / np.log(self.discount))

    @property
    def level(self) -> float:
        """Return the mean of the usual level over all models."""
        return self.sign * float(self.weights @ self.levels)

    def covariance(self, decay: Array | float = 1.0) -> Array:
        """Return the covariance of the arms (A, A) over all models, as of `ArmFilters.covariance`."""
        weights, apart = self.weights, self.means - self.weights @ self.means
        return (apart * weights[:, None]).T @ apart + np.diag(
            (weights * decay) @ self.total_variance
        )

    def persistent_variance(self, spec: Any) -> Array:  # noqa: ARG002 - as of `ArmFilters`
        """Return the variances (A,) that readings of all later steps would remove: all of them."""
        return np.asarray(self.weights @ self.total_variance)

    def prior_covariance(self, rows: Index, lags: Array) -> Array:
        """Return the prior covariance of arms (n,) at lags (n, n), over all models."""
        same = rows[:, None] == rows
        decay = np.exp(-lags[..., None] / self.scale)
        return np.asarray(np.where(same, decay @ (self.weights * self.signal), 0.0))

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return centred draws (count, A) of the rewards: of a model by weight, and of its chances."""
        models = rng.choice(len(self.weights), count, p=self.weights)
        alpha, mean = self.alpha[models], self.chances[models]
        drawn = rng.beta(alpha, alpha * (1.0 - mean) / mean)
        return np.asarray(self.sign * (drawn - self.weights @ self.chances))

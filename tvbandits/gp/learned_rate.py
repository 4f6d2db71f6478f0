"""Learn the forgetting rate of an aging map by maximum prequential likelihood.

`learn_rate` returns the rate under which the latest rewards, each predicted from earlier ones, are most
likely. An aging map is not a probability model of a drifting reward, but it predicts each reward from
the earlier ones, and these predictions have a likelihood (the prequential likelihood of Dawid 1984;
without aging it is the log evidence).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from tvbandits.data import Dataset, median_time_step
from tvbandits.forgetting.aging import Ages, Aging, adds_variance, has_rate
from tvbandits.gp import linalg
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.ties import first_argmax


@dataclass(frozen=True)
class RateConfig:
    """Constants of the search for a forgetting rate.

    Attributes
    ----------
    targets, predictors : int
        The largest number of latest rewards that are predicted, and of earlier rewards from which each
        is predicted. They bound the time of a search.
    fewest : int
        The smallest number of rewards from which a rate is learned.
    slowest, fastest : float
        The range of rates in units of `rate_scale`. At the rate 1 a step adds the noise variance
        (`Linear`) or the variance of the reward (`Wiener`), or multiplies by e (`Exponential`).
    grid : int
        The number of rates that are compared first, because the likelihood may have several maxima.
    iterations : int
        Iterations of the search around the best of these.
    """

    targets: int = 40
    predictors: int = 30
    fewest: int = 8
    slowest: float = 1e-4
    fastest: float = 10.0
    grid: int = 8
    iterations: int = 8


CONFIG = RateConfig()


def learn_rate(
    aging: Aging, kernel: Any, rewards: Dataset, mean: float, scale: float, before: int = 0
) -> float | None:
    """Return the forgetting rate that predicts best; None if there is no rate, or too few rewards.

    Parameters
    ----------
    aging : Aging
    kernel : scikit-learn kernel
        The kernel over points of the standardised reward.
    rewards : Dataset
        The rewards in any order.
    mean, scale : float
        Mean and scale by which the rewards are standardised.
    before : int
        Number of earlier rewards that are no longer stored.
    """
    if not has_rate(aging) or len(rewards) < CONFIG.fewest:
        return None
    order = np.argsort(rewards.t, kind="stable")
    latest = rewards.take(order[-(CONFIG.targets + CONFIG.predictors) :])
    likelihood = Predictions(kernel, latest, mean, scale, before + len(rewards))
    factor = rate_scale(aging, scale, median_time_step(latest.t))

    def loss(log_rate: float) -> float:
        return -likelihood(aging.at_rate(math.exp(log_rate)))

    ends = math.log(CONFIG.slowest * factor), math.log(CONFIG.fastest * factor)
    grid = np.linspace(*ends, CONFIG.grid)
    losses = np.array([loss(x) for x in grid])
    best = first_argmax(-losses)
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    result = minimize_scalar(
        loss, bounds=bracket, method="bounded", options={"maxiter": CONFIG.iterations}
    )
    return math.exp(float(result.x) if result.fun < losses[best] else float(grid[best]))


class Predictions:
    """The prequential log likelihood of the latest rewards, as a function of an aging map.

    Parameters
    ----------
    kernel : scikit-learn kernel
        The kernel of the standardised reward.
    rewards : Dataset
        The latest rewards, sorted by time; the last `RateConfig.targets` of them are predicted.
    mean, scale : float
        Mean and scale by which the rewards are standardised.
    total : int
        Number of all rewards of the bandit.
    """

    def __init__(
        self, kernel: Any, rewards: Dataset, mean: float, scale: float, total: int
    ) -> None:
        n = len(rewards)
        first = max(min(n - CONFIG.targets, n - 1), 1)
        self.targets = np.arange(first, n)
        # Entry j of row i is the index of the (j + 1)-th reward before target i; negative if none.
        predictors = self.targets[:, None] - 1 - np.arange(min(CONFIG.predictors, n - 1))
        self.exists = predictors >= 0
        self.rows = np.maximum(predictors, 0)
        self.values = (rewards.y - mean) / scale
        self.variance, self.scale = rewards.variance, scale
        self.age = rewards.t[self.targets][:, None] - rewards.t[self.rows]
        self.total = total - n + self.targets
        # A space-time kernel is evaluated at a constant time, since the aging map models the change.
        K = np.asarray(kernel(inputs(kernel, rewards.X, np.zeros(n))))
        self.prior = np.diagonal(K)[self.targets]
        self.covariance = K[self.rows[:, :, None], self.rows[:, None, :]]
        self.cross = np.where(self.exists, K[self.rows, self.targets[:, None]], 0.0)

    def __call__(self, aging: Aging) -> float:
        """Return the log likelihood of the targets under an aging map."""
        count, m = self.rows.shape
        effective = np.empty((count, m))
        for i in range(count):
            ages = Ages(self.age[i], np.arange(m), int(self.total[i]))
            effective[i] = aging(self.variance[self.rows[i]], ages)
        used = self.exists & np.isfinite(effective)
        # Unused rewards are made independent of all others.
        K = np.where(used[:, :, None] & used[:, None, :], self.covariance, 0.0)
        diagonal = np.arange(m)
        K[:, diagonal, diagonal] += np.where(used, effective / self.scale**2, 1.0)
        cross = np.where(used, self.cross, 0.0)
        means, explained = linalg.predict_each(K, cross, self.values[self.rows])
        noise = self.variance[self.targets] / self.scale**2
        variance = np.maximum(self.prior - explained, 0.0) + noise
        error = self.values[self.targets] - means
        return float(-0.5 * (error**2 / variance + np.log(2.0 * math.pi * variance)).sum())


def rate_scale(aging: Aging, scale: float, step: float = 1.0) -> float:
    """Return the natural scale of a forgetting rate: 1 / step, times scale^2 if it is a variance."""
    return (scale**2 if adds_variance(aging) else 1.0) / step

"""How fast observations age, learned by prediction.

It is for aging maps whose forgetting rate is unknown. A map and the rewards so far go in; out comes the
rate under which the latest rewards, each predicted from those before it, were most likely.

An aging map is no probability model of a drifting reward, but in every step it predicts the next reward
from the earlier ones, and predictions have a likelihood (the prequential likelihood of Dawid 1984; for a
map that does not age it is the log evidence).
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
    """The constants of the search for a forgetting rate.

    Attributes
    ----------
    targets, predictors : int
        So many of the latest rewards are predicted, each from at most so many before it, which bounds
        the time of a search.
    fewest : int
        With fewer rewards nothing is learned.
    slowest, fastest : float
        The range of rates, times `rate_unit`: with the rate 1 a step adds a noise variance (`Linear`),
        the variance of the reward (`Wiener`) or a factor e (`Exponential`).
    grid, iterations : int
        Rates that are compared first, as the likelihood may have several maxima, and iterations of the
        search around the best of them.
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
    """Return the forgetting rate that predicts best; None where there is none to learn.

    Parameters
    ----------
    aging : Aging
    kernel : scikit-learn kernel
        Over points, of the standardised reward.
    rewards : Dataset
        In any order.
    mean, scale : float
        The values are standardised by these.
    before : int
        Number of rewards before them, which are not stored any more.
    """
    if not has_rate(aging) or len(rewards) < CONFIG.fewest:
        return None
    order = np.argsort(rewards.t, kind="stable")
    latest = rewards.take(order[-(CONFIG.targets + CONFIG.predictors) :])
    likelihood = Predictions(kernel, latest, mean, scale, before + len(rewards))
    unit = rate_unit(aging, scale, median_time_step(latest.t))

    def loss(log_rate: float) -> float:
        return -likelihood(aging.at_rate(math.exp(log_rate)))

    ends = math.log(CONFIG.slowest * unit), math.log(CONFIG.fastest * unit)
    grid = np.linspace(*ends, CONFIG.grid)
    losses = np.array([loss(x) for x in grid])
    best = first_argmax(-losses)
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    result = minimize_scalar(
        loss, bounds=bracket, method="bounded", options={"maxiter": CONFIG.iterations}
    )
    return math.exp(float(result.x) if result.fun < losses[best] else float(grid[best]))


class Predictions:
    """The log likelihood of the latest rewards, each predicted from those before it, under an aging map.

    Parameters
    ----------
    kernel : scikit-learn kernel
    rewards : Dataset
        In order of time, with those to predict at the end.
    mean, scale : float
        The values are standardised by these.
    total : int
        Number of all rewards, of which these are the latest.
    """

    def __init__(
        self, kernel: Any, rewards: Dataset, mean: float, scale: float, total: int
    ) -> None:
        n = len(rewards)
        first = max(min(n - CONFIG.targets, n - 1), 1)
        self.targets = np.arange(first, n)
        # Row j of block i is the reward number i - 1 - j before target i; negative if there is none.
        predictors = self.targets[:, None] - 1 - np.arange(min(CONFIG.predictors, n - 1))
        self.exists = predictors >= 0
        self.rows = np.maximum(predictors, 0)
        self.values = (rewards.y - mean) / scale
        self.variance, self.scale = rewards.variance, scale
        self.age = rewards.t[self.targets][:, None] - rewards.t[self.rows]
        self.total = total - n + self.targets
        # In a space-time kernel time is constant: the change of the reward is for the aging map.
        K = np.asarray(kernel(inputs(kernel, rewards.X, np.zeros(n))))
        self.prior = np.diagonal(K)[self.targets]
        self.among = K[self.rows[:, :, None], self.rows[:, None, :]]
        self.across = np.where(self.exists, K[self.rows, self.targets[:, None]], 0.0)

    def __call__(self, aging: Aging) -> float:
        """Return the sum over the targets."""
        blocks, m = self.rows.shape
        effective = np.empty((blocks, m))
        for i in range(blocks):
            ages = Ages(self.age[i], np.arange(m), int(self.total[i]))
            effective[i] = aging(self.variance[self.rows[i]], ages)
        used = self.exists & np.isfinite(effective)
        # Rows that are not used become independent of all others.
        K = np.where(used[:, :, None] & used[:, None, :], self.among, 0.0)
        diagonal = np.arange(m)
        K[:, diagonal, diagonal] += np.where(used, effective / self.scale**2, 1.0)
        across = np.where(used, self.across, 0.0)
        means, explained = linalg.predict_each(K, across, self.values[self.rows])
        noise = self.variance[self.targets] / self.scale**2
        spread = np.maximum(self.prior - explained, 0.0) + noise
        error = self.values[self.targets] - means
        return float(-0.5 * (error**2 / spread + np.log(2.0 * math.pi * spread)).sum())


def rate_unit(aging: Aging, scale: float, step: float = 1.0) -> float:
    """Return the unit of a forgetting rate: per step, and in variances where a map adds them."""
    return (scale**2 if adds_variance(aging) else 1.0) / step

"""How fast observations age, learned by prediction.

An aging map is no probability model of a drifting reward, but at every step it predicts the next reward
from the earlier ones, and predictions can be scored. The pace of the map is the one under which the
latest rewards, each predicted from those before it, were most likely (the prequential likelihood of
Dawid 1984; for a map that does not age it is the log evidence).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from tvbandits.core import linalg
from tvbandits.core.observations import Observations
from tvbandits.forgetting.aging import Ages, Aging, has_pace
from tvbandits.gp.fitting.online import step_of
from tvbandits.gp.kernels.structure import inputs

# So many of the latest rewards are predicted, each from so many before it at the most.
PREDICTED, FROM = 40, 30


# With fewer rewards nothing is learned.
FEWEST = 8


# Paces to choose from, times `pace_unit`: at pace 1 a step adds a noise variance (`Linear`), the
# variance of the reward (`Wiener`) or a factor e (`Exponential`).
SLOWEST, FASTEST = 1e-4, 10.0


def learned_pace(
    aging: Aging, kernel: Any, rewards: Observations, centre: float, scale: float, before: int = 0
) -> float | None:
    """The pace that predicts best, or None where there is none to learn.

    Parameters
    ----------
    aging : Aging
    kernel : scikit-learn kernel
        Over points, of the standardised reward.
    rewards : Observations
        Told, in any order.
    centre, scale : float
        The values are standardised by these.
    before : int
        Rewards told before them, that are kept no more.
    """
    if not has_pace(aging) or len(rewards) < FEWEST:
        return None
    order = np.argsort(rewards.t, kind="stable")
    latest = rewards.take(order[-(PREDICTED + FROM) :])
    score = Predictions(kernel, latest, centre, scale, told=before + len(rewards))
    unit = pace_unit(aging, scale, step_of(latest.t))
    grid = np.linspace(math.log(SLOWEST * unit), math.log(FASTEST * unit), 8)
    losses = [-score(aging.at_pace(math.exp(x))) for x in grid]
    best = int(np.argmin(losses))
    # The likelihood may have several humps; the best point of the grid says which to climb.
    bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda x: -score(aging.at_pace(math.exp(x))),
        bounds=bracket,
        method="bounded",
        options={"maxiter": 8},
    )
    return math.exp(float(found.x) if found.fun < losses[best] else float(grid[best]))


class Predictions:
    """Log likelihood of the latest rewards, each predicted from those before it, under an aging map.

    Parameters
    ----------
    kernel : scikit-learn kernel
    rewards : Observations
        Sorted by time, the ones to predict last.
    centre, scale : float
    told : int
        Rewards told in all, of which these are the latest.
    """

    def __init__(
        self, kernel: Any, rewards: Observations, centre: float, scale: float, told: int
    ) -> None:
        n = len(rewards)
        first = max(min(n - PREDICTED, n - 1), 1)
        self.targets = np.arange(first, n)
        # Row j of block i: the reward that came i - 1 - j before target i; -1 where there is none.
        back = self.targets[:, None] - 1 - np.arange(min(FROM, n - 1))
        self.there = back >= 0
        self.rows = np.maximum(back, 0)
        self.values = (rewards.y - centre) / scale
        self.variance, self.scale = rewards.variance, scale
        self.age = rewards.t[self.targets][:, None] - rewards.t[self.rows]
        self.told = told - n + self.targets
        # A kernel that sees time is held still: how the reward changes is for the aging map to say.
        K = np.asarray(kernel(inputs(kernel, rewards.X, np.zeros(n))))
        self.prior = np.diagonal(K)[self.targets]
        self.among = K[self.rows[:, :, None], self.rows[:, None, :]]
        self.across = np.where(self.there, K[self.rows, self.targets[:, None]], 0.0)

    def __call__(self, aging: Aging) -> float:
        """Sum over the predicted rewards."""
        blocks, m = self.rows.shape
        effective = np.empty((blocks, m))
        for i in range(blocks):
            ages = Ages(self.age[i], np.arange(m), int(self.told[i]))
            effective[i] = aging(self.variance[self.rows[i]], ages)
        used = self.there & np.isfinite(effective)
        # What is not used is cut off from everything else.
        K = np.where(used[:, :, None] & used[:, None, :], self.among, 0.0)
        diagonal = np.arange(m)
        K[:, diagonal, diagonal] += np.where(used, effective / self.scale**2, 1.0)
        across = np.where(used, self.across, 0.0)
        means, explained = linalg.predict_each(K, across, self.values[self.rows])
        noise = self.variance[self.targets] / self.scale**2
        spread = np.maximum(self.prior - explained, 0.0) + noise
        error = self.values[self.targets] - means
        return float(-0.5 * (error**2 / spread + np.log(2.0 * math.pi * spread)).sum())


def pace_unit(aging: Aging, scale: float, step: float = 1.0) -> float:
    """The unit in which a pace is searched for: per step, and in variances where a map adds them."""
    return (scale**2 if getattr(aging, "adds_variance", False) else 1.0) / step

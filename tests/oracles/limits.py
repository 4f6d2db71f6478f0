"""Limits, restated plainly: two bandits apart, a mask, and a look at the edge."""

from collections.abc import Callable

import numpy as np
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates, Limit, policies


def plain_trajectory(
    sites: Candidates,
    limit: Limit,
    told: np.ndarray,
    reward: Callable[[np.ndarray], np.ndarray],
    outcome: Callable[[np.ndarray, float], np.ndarray],
    steps: int,
    seed: int,
) -> np.ndarray:
    """What GP-UCB plays under a limit of the form at_most, once points were told at t = 1."""
    bandit = policies.gp_ucb(sites, kernel=RBF(2.0), noise_variance=0.01, seed=seed)
    beliefs = policies.gp_ucb(sites, kernel=RBF(2.0), noise_variance=limit.noise_variance)
    bandit.tell(told, reward(told), 1)
    beliefs.tell(told, outcome(told, 1), 1)
    rows = []
    for t in range(2, 2 + steps):
        mean, sd = beliefs.predict(sites.X, t)
        degrees = max(len(np.unique(beliefs.state.rewards.X, axis=0)) - 1, 1)
        quantile = stats.t(degrees).ppf(limit.probability)
        known = mean + quantile * sd <= limit.at_most
        may = mean - quantile * sd <= limit.at_most
        (x,) = bandit.ask(t, available=known)
        x = opening(sites, limit, bandit, beliefs, t, x, known, may & ~known, quantile)
        rows.append(x)
        bandit.drop(bandit.pending)
        bandit.tell(x[None], reward(x[None]), t)
        beliefs.tell(x[None], outcome(x[None], t), t)
    return np.array(rows)


def opening(sites, limit, bandit, beliefs, t, best, known, closed, quantile):  # type: ignore[no-untyped-def]
    """The point to play for what it opens, with covariances by the textbook."""
    seen, X = beliefs.state.rewards, sites.X
    mean, sd = beliefs.predict(X, t)
    scale = beliefs.info.model.scale
    kernel = RBF(2.0)
    K = kernel(seen.X) + limit.noise_variance / scale**2 * np.eye(len(seen))
    k = kernel(seen.X, X)
    covariance = scale**2 * (kernel(X) - k.T @ np.linalg.solve(K, k))
    m, s = bandit.predict(X, t)
    upper = m + 2 * s
    gain = upper - upper[(best == X).all(axis=1)]
    looks, closed = np.flatnonzero(known), np.flatnonzero(closed & (gain > 0))
    if not len(closed):
        return best
    worth = np.full(len(X), -np.inf)
    for i in looks:
        moved = covariance[i, closed] / np.sqrt(covariance[i, i] + limit.noise_variance)
        moved = np.clip(np.abs(moved), 1e-12 * sd[closed], sd[closed])
        left = np.sqrt(sd[closed] ** 2 - moved**2)
        chance = stats.norm.cdf((limit.at_most - quantile * left - mean[closed]) / moved)
        worth[i] = gain[i] + 5.0 * (chance * gain[closed]).max()
    return X[worth.argmax()]

"""Limits, restated plainly: two separate bandits, a mask, and the value of opening more points."""

from collections.abc import Callable

import numpy as np
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates, Limit, policies


def plain_trajectory(
    sites: Candidates,
    limit: Limit,
    start: np.ndarray,
    reward: Callable[[np.ndarray], np.ndarray],
    outcome: Callable[[np.ndarray, float], np.ndarray],
    steps: int,
    seed: int,
) -> np.ndarray:
    """Return the plays of GP-UCB under a limit `at_most`, after readings at `start` at t = 1."""
    bandit = policies.gp_ucb(sites, kernel=RBF(2.0), noise_variance=0.01, seed=seed)
    outcome_bandit = policies.gp_ucb(sites, kernel=RBF(2.0), noise_variance=limit.noise_variance)
    bandit.tell(start, reward(start), 1)
    outcome_bandit.tell(start, outcome(start, 1), 1)
    rows = []
    for t in range(2, 2 + steps):
        mean, sd = outcome_bandit.predict(sites.X, t)
        degrees = max(len(np.unique(outcome_bandit.state.rewards.X, axis=0)) - 1, 1)
        quantile = stats.t(degrees).ppf(limit.probability)
        safe = mean + quantile * sd <= limit.at_most
        possible = mean - quantile * sd <= limit.at_most
        (x,) = bandit.ask(t, available=safe)
        x = best_opening_point(
            sites, limit, bandit, outcome_bandit, t, x, safe, possible & ~safe, quantile
        )
        rows.append(x)
        bandit.drop(bandit.pending)
        bandit.tell(x[None], reward(x[None]), t)
        outcome_bandit.tell(x[None], outcome(x[None], t), t)
    return np.array(rows)


def best_opening_point(sites, limit, bandit, outcome_bandit, t, best, safe, closed, quantile):  # type: ignore[no-untyped-def]
    """Return the point of the largest value, with that of opening others, by dense algebra."""
    rewards, X = outcome_bandit.state.rewards, sites.X
    mean, sd = outcome_bandit.predict(X, t)
    scale = outcome_bandit.info.model.scale
    kernel = RBF(2.0)
    K = kernel(rewards.X) + limit.noise_variance / scale**2 * np.eye(len(rewards))
    k = kernel(rewards.X, X)
    covariance = scale**2 * (kernel(X) - k.T @ np.linalg.solve(K, k))
    m, s = bandit.predict(X, t)
    upper = m + 2 * s
    gain = upper - upper[(best == X).all(axis=1)]
    safe_rows, closed = np.flatnonzero(safe), np.flatnonzero(closed & (gain > 0))
    if not len(closed):
        return best
    value = np.full(len(X), -np.inf)
    for i in safe_rows:
        moves = covariance[i, closed] / np.sqrt(covariance[i, i] + limit.noise_variance)
        moves = np.clip(np.abs(moves), 1e-12 * sd[closed], sd[closed])
        remaining = np.sqrt(sd[closed] ** 2 - moves**2)
        chance = stats.norm.cdf((limit.at_most - quantile * remaining - mean[closed]) / moves)
        value[i] = gain[i] + 5.0 * (chance * gain[closed]).max()
    return X[value.argmax()]

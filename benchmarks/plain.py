"""Whole runs of four policies on the drifting bump, against their plain form.

The plain form is as the author of a paper would write it: in every step it builds the kernel matrix of
the observations in use, factors it, and solves for all candidates. Both sides have the same fixed prior
mean and the width of the theory; the time is that of `ask` and `tell`. Ties are broken differently, so
that the runs differ, and the notes have both regrets. Rewards come one a step, at t = 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, play_course, print_ratios
from tvbandits import Options, policies
from tvbandits.acquisition.widths import Theory
from tvbandits.comparison.setup import prepare
from tvbandits.datasets import DriftingBump
from tvbandits.policies import theory
from tvbandits.validation import Array

STEPS, MEAN, LENGTH = 500, 1.6, 3.5
PROBLEM = DriftingBump(horizon=STEPS)

# A function of the times of rewards (n,) and of the last time t that returns noise variances for t + 1.
Forgetting = Callable[[Array, int], Array]


class PlainUCB:
    """A UCB policy on candidates, with `ask` and `tell` as a bandit.

    Parameters
    ----------
    points : array of shape (A, d)
    length : float
        Length scale of an RBF kernel of variance 1.
    noise_variance, mean : float
        Noise variance of a reward, and prior mean.
    forgetting : callable, optional
        By default the noise variance does not depend on age.
    epsilon : float
        Rate of forgetting of the TV-GP-UCB kernel; 0 for none.
    """

    def __init__(
        self,
        points: Array,
        length: float,
        noise_variance: float,
        mean: float,
        forgetting: Forgetting | None = None,
        epsilon: float = 0.0,
    ) -> None:
        self.points, self.kernel, self.mean, self.epsilon = points, RBF(length), mean, epsilon
        self.forgetting = forgetting or (lambda i, _: np.full(len(i), noise_variance))
        self.X, self.y = np.empty((0, points.shape[1])), np.empty(0)

    def ask(self, t: float) -> Array:
        """Return the candidate of the largest upper confidence bound, shape (1, d)."""
        times = np.arange(1.0, len(self.y) + 1)
        variance = self.forgetting(times, len(times))
        rows = np.isfinite(variance)
        X, y, times, variance = self.X[rows], self.y[rows], times[rows], variance[rows]
        mean, deviation = np.full(len(self.points), self.mean), np.ones(len(self.points))
        log_det_ratio = 0.0
        if len(y):
            decay = (1 - self.epsilon) ** 0.5
            K = self.kernel(X) * decay ** np.abs(times[:, None] - times)
            k = self.kernel(X, self.points) * (decay ** (t - times))[:, None]
            L = np.linalg.cholesky(K + np.diag(variance))
            mean = self.mean + k.T @ cho_solve((L, True), y - self.mean)
            V = solve_triangular(L, k, lower=True)
            deviation = np.sqrt(np.maximum(1.0 - (V**2).sum(axis=0), 0.0))
            log_det_ratio = 2 * np.log(np.diag(L)).sum() - np.log(variance).sum()
        best = int((mean + self.width(t, log_det_ratio) * deviation).argmax())
        return self.points[best : best + 1]

    def width(self, t: float, log_det_ratio: float) -> float:  # noqa: ARG002 - others use it
        """Return the width of [S] Theorem 3.1 with delta = 0.05 and B = 1."""
        return math.sqrt(2 * math.log(2 / 0.05) + log_det_ratio) + 1.0

    def tell(self, X: Array, y: Array, t: float) -> None:  # noqa: ARG002 - as of a bandit
        """Add a reward."""
        self.X, self.y = np.vstack([self.X, X]), np.append(self.y, y)


# Name, policy, its options, and the forgetting and the rate of its plain form.
Contest = tuple[str, Any, dict[str, Any], Forgetting | None, float]


def contests() -> list[Contest]:
    """Return the four policies, with the parameters that their authors recommend."""
    setting = prepare(PROBLEM.name, PROBLEM, 0, STEPS).setting_for(Theory(), None)
    window, discount = theory.window_length(*setting.budgets), theory.discount(*setting.budgets)
    epsilon, s2 = setting.forgetting_rate, PROBLEM.noise_variance

    def in_window(i: Array, t: int) -> Array:
        return np.where(i > t - window, s2, np.inf)

    def discounted(i: Array, t: int) -> Array:
        return np.asarray(s2 / discount ** (t + 1 - i))

    return [
        ("gp-ucb", policies.gp_ucb, {}, None, 0.0),
        ("sw-gp-ucb", policies.sw_gp_ucb, {"window": window}, in_window, 0.0),
        ("w-gp-ucb", policies.w_gp_ucb, {"discount": discount}, discounted, 0.0),
        ("tv-gp-ucb", policies.tv_gp_ucb, {"forgetting_rate": epsilon}, None, epsilon),
    ]


def rows(repeats: int) -> None:
    """Print a row for each policy."""
    domain, s2 = PROBLEM.domain, PROBLEM.noise_variance
    parts: Any = {"kernel": RBF(LENGTH), "noise_variance": s2, "beta": "theory"}
    for name, policy, options, forgetting, epsilon in contests():
        pairs, regrets = [], []
        for seed in range(repeats):
            prior = Options(mean=MEAN)
            ours = policy(domain, **parts, options=prior, seed=seed, **options)
            plain = PlainUCB(domain.X, LENGTH, s2, MEAN, forgetting, epsilon)  # type: ignore[union-attr]
            runs = [play_course(player, PROBLEM, seed, STEPS) for player in (ours, plain)]
            pairs.append(Pair(*(float(run.seconds.sum()) for run in runs)))
            regrets.append([run.regret.mean() for run in runs])
        our_regret, plain_regret = np.mean(regrets, axis=0)
        print_ratios(
            "plain",
            name,
            pairs,
            f"{STEPS} steps; regret {our_regret:.3f}, plain {plain_regret:.3f}",
        )

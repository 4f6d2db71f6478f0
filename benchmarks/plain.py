"""The policies as a paper's author would write them: everything from scratch at every step.

The kernel matrix of the observations in use is rebuilt, factored and solved for all candidates; the
k-DPP chain compares determinants of submatrices. Rewards come one a step, at t = 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from tvbandits.experts.protocol import Expert
from tvbandits.validation import Array

# Times of rewards (n,) and of the last one, t -> effective noise variances for step t + 1.
Forgetting = Callable[[Array, int], Array]


def rbf(X: Array, Y: Array, length: float) -> Array:
    squared = ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-0.5 * squared / length**2))


@dataclass
class PlainUCB:
    """A UCB policy on finitely many points, with the face of a bandit.

    Attributes
    ----------
    epsilon : float
        Rate of forgetting of the TV-GP-UCB kernel; 0 for none.
    """

    points: Array
    length: float
    noise_variance: float
    mean: float
    forgetting: Forgetting
    epsilon: float = 0.0
    delta: float = 0.05
    norm_bound: float = 1.0
    seed: int = 0
    X: list[Array] = field(default_factory=list)
    y: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def observed(self) -> tuple[Array, Array, Array, Array]:
        """Points, times, values and effective variances of the rewards in use."""
        t = len(self.y)
        times = np.arange(1.0, t + 1)
        variance = self.forgetting(times, t)
        used = np.isfinite(variance)
        X = np.array(self.X).reshape(t, self.points.shape[1])
        return X[used], times[used], np.array(self.y)[used], variance[used]

    def ask(self, t: float) -> Array:
        """The candidate of the largest upper confidence bound, shape (1, d)."""
        X, times, y, variance = self.observed()
        mean, deviation = np.full(len(self.points), self.mean), np.ones(len(self.points))
        log_det_ratio = 0.0
        if len(y):
            K = rbf(X, X, self.length)
            k = rbf(X, self.points, self.length)
            if self.epsilon:
                K *= (1 - self.epsilon) ** (0.5 * np.abs(times[:, None] - times))
                k *= (1 - self.epsilon) ** (0.5 * (t - times))[:, None]
            L = np.linalg.cholesky(K + np.diag(variance))
            mean = self.mean + k.T @ cho_solve((L, True), y - self.mean)
            V = solve_triangular(L, k, lower=True)
            deviation = np.sqrt(np.maximum(1.0 - (V**2).sum(axis=0), 0.0))
            log_det_ratio = 2 * np.log(np.diag(L)).sum() - np.log(variance).sum()
        self.ucb = mean + self.width(t, log_det_ratio) * deviation
        best = int(self.ucb.argmax())
        return self.points[best : best + 1]

    def width(self, t: float, log_det_ratio: float) -> float:  # noqa: ARG002 - one face
        """SparQ-GP-UCB, Theorem 3.1."""
        return math.sqrt(2 * math.log(2 / self.delta) + log_det_ratio) + self.norm_bound

    def tell(self, X: Array, y: Array, t: float) -> None:  # noqa: ARG002 - the face of a bandit
        """Keep a reward."""
        self.X.append(X[0])
        self.y.append(float(y[0]))


@dataclass
class PlainSparQ(PlainUCB):
    """SparQ-GP-UCB, Algorithms 1 to 3, with as many lazy steps as `tvbandits.queries.plans.KDPP`."""

    expert: Expert | None = None
    factor: float = 6.0
    sweeps: float = 0.5
    jitter: float = 1e-8

    def observed(self) -> tuple[Array, Array, Array, Array]:
        """Rewards in use, then the expert's answers about the last step."""
        X, times, y, variance = super().observed()
        if not self.y:
            return X, times, y, variance
        values, variances = self.answers.values, self.answers.variance
        return (
            np.vstack([X, self.asked]),
            np.concatenate([times, np.full(len(values), float(len(self.y)))]),
            np.concatenate([y, values]),
            np.concatenate([variance, variances]),
        )

    def tell(self, X: Array, y: Array, t: float) -> None:
        """Keep a reward, and ask the expert."""
        assert self.expert is not None
        super().tell(X, y, t)
        visited = np.array(list(dict.fromkeys(tuple(x.tolist()) for x in self.X)))
        k = math.ceil(self.factor * math.log(len(self.y)))
        self.asked = visited if k >= len(visited) else visited[self.diverse(visited, k)]
        self.answers = self.expert.query(self.asked, t)

    def diverse(self, points: Array, k: int) -> list[int]:
        """An approximate k-DPP: the greedy set, then the lazy chain of swaps."""
        if k == 0:
            return []
        N = len(points)
        K = rbf(points, points, self.length) + self.jitter * np.eye(N)
        chosen = self.greedy(K, k)
        logdet = np.linalg.slogdet(K[np.ix_(chosen, chosen)])[1]
        for _ in range(math.ceil(self.sweeps * k)):
            if self.rng.random() < 0.5:
                continue
            others = np.setdiff1d(np.arange(N), chosen)
            proposal = chosen.copy()
            proposal[self.rng.integers(k)] = int(self.rng.choice(others))
            proposed = np.linalg.slogdet(K[np.ix_(proposal, proposal)])[1]
            if math.log(self.rng.random()) < proposed - logdet:
                chosen, logdet = proposal, proposed
        return chosen

    @staticmethod
    def greedy(K: Array, k: int) -> list[int]:
        """Repeatedly the point of the largest Schur complement."""
        chosen = [int(np.diag(K).argmax())]
        while len(chosen) < k:
            B = K[chosen]
            complement = np.diag(K) - (B * np.linalg.solve(B[:, chosen], B)).sum(axis=0)
            complement[chosen] = -np.inf
            chosen.append(int(complement.argmax()))
        return chosen

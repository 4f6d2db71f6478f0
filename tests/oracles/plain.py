"""The policies restated as plainly as they are written down, to hold whole trajectories against.

Rewards come one a step, at t = 1, 2, ... Matrices are dense and solved from scratch at every step, and
nothing of the package is used. `kernel` is a scikit-learn kernel over points.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Noise variances (n,), times (n,) and the number of rewards so far -> effective variances (n,).
Scheme = Callable[[Array, Array, int], Array]


# --- forgetting: what an observation of time i is worth for the decision of time t + 1 --------------


def never(s2: Array, _i: Array, _t: int) -> Array:
    """GP-UCB and TV-GP-UCB."""
    return s2


def resets(every: int) -> Scheme:
    """R-GP-UCB: steps come in blocks of `every`, and a block knows nothing of those before."""

    def scheme(s2: Array, i: Array, t: int) -> Array:
        block_of_the_decision = math.floor(t / every)
        return np.where(np.floor((i - 1) / every) == block_of_the_decision, s2, np.inf)

    return scheme


def window(last: int) -> Scheme:
    """SW-GP-UCB: the steps t - last + 1, ..., t."""
    return lambda s2, i, t: np.where(i >= t - last + 1, s2, np.inf)


def discounts(discount: float) -> Scheme:
    """W-GP-UCB: the weight discount^(t + 1 - i)."""
    return lambda s2, i, t: s2 / discount ** (t + 1 - i)


def wiener(rate: float) -> Scheme:
    """UI-GP-UCB: s^2 + rate (t + 1 - i)."""
    return lambda s2, i, t: s2 + rate * (t + 1 - i)


def linear(rate: float) -> Scheme:
    """UI-GP-UCB: the noise deviation grows linearly."""
    return lambda s2, i, t: s2 * (1 + rate**2 * (t + 1 - i) ** 2)


def sparq(noise_variance: float) -> Scheme:
    """SparQ-GP-UCB, eq. 15 and line 4 of Algorithm 1: as of step t; the newest always stays."""

    def scheme(s2: Array, i: Array, t: int) -> Array:
        grown = s2 * (1 + (t - i) ** 2)
        return np.where((grown > noise_variance * math.log(t)) & (i < t), np.inf, grown)

    return scheme


def chain_steps(K: Array, k: int, t: int, noise_variance: float, eta: float) -> int:
    """SparQ-GP-UCB, Algorithm 2 from the greedy set, until its law is within eq. 56 of the k-DPP.

    All sets are enumerated. The bound is that of Anari et al. 2016 for the chain whose steps from
    one set to a neighbour have probability min(1, ratio) / (2 k (N - k)).
    """
    N = len(K)
    L = K + 1e-8 * np.trace(K) / N * np.eye(N)
    start: list[int] = []
    while len(start) < k:  # Algorithm 3
        rest = [x for x in range(N) if x not in start]
        start.append(max(rest, key=lambda x: np.linalg.det(K[np.ix_([*start, x], [*start, x])])))
    every = [np.linalg.det(L[np.ix_(Z, Z)]) for Z in combinations(range(N), k)]
    probability = np.linalg.det(L[np.ix_(start, start)]) / sum(every)
    epsilon = noise_variance * eta / (4 * t * max(np.diag(K)))
    return math.ceil(2 * k * (N - k) * math.log(1 / (epsilon * probability)))


def variation_budget(values: Array, K: Array) -> float:
    """SparQ-GP-UCB, eq. 20: the sum of |f_{t+1} - f_t|_k of values (T, A) at points of covariance K.

    Of functions that take these values, the smallest has the norm sqrt(d^T K^-1 d).
    """
    budget = 0.0
    for t in range(len(values) - 1):
        d = values[t + 1] - values[t]
        budget += math.sqrt(d @ np.linalg.solve(K, d))
    return budget


# --- widths ---------------------------------------------------------------------------------------


def theorem(log_det_ratio: float) -> float:
    """SparQ-GP-UCB, Theorem 3.1, with delta = 0.05 and a norm of 1."""
    return math.sqrt(2 * math.log(math.exp(log_det_ratio / 2) * 2 / 0.05)) + 1.0


def two(_log_det_ratio: float) -> float:
    """A constant."""
    return 2.0


# --- the mean and the scale of the reward, learned ------------------------------------------------


def weighted_median(values: Array, weights: Array) -> float:
    """The smallest value up to which at least half of the weight lies."""
    total = 0.0
    for row in sorted(range(len(values)), key=lambda row: values[row]):
        total += weights[row]
        if total >= 0.5 * (1 - 1e-12) * weights.sum():
            return float(values[row])
    raise AssertionError("no weight")


def moments(y: Array, s2: Array, correlation: Array, floor: float) -> tuple[float, float]:
    """Robust mean and noise-free deviation of values, each by its share of the domain."""
    weights = np.array([1 / np.abs(row).sum() for row in correlation])
    weights = weights / weights.sum()
    median = weighted_median(y, weights)
    deviation = 1.4826 * weighted_median(abs(y - median), weights)
    if deviation > 0:
        low = min(median - 3 * deviation, sorted(y)[math.ceil(0.05 * (len(y) - 1))])
        high = max(median + 3 * deviation, sorted(y)[math.floor(0.95 * (len(y) - 1))])
        y = np.array([min(max(value, low), high) for value in y])
    mean = sum(weights * y)
    spread = sum(weights * (y - mean) ** 2)
    # What the spread of that sample would be if the reward had a prior deviation of 1, and noise's.
    of_prior = max(1 - sum(sum(np.outer(weights, weights) * np.abs(correlation))), 0.1)
    of_noise = sum(weights * (1 - weights) * s2)
    return float(mean), math.sqrt(max((spread - of_noise) / of_prior, floor))


# --- the policy -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """What a decision rested on."""

    beta: float
    in_use: int
    forgotten: int
    mean: float
    scale: float


@dataclass
class Plain:
    """A UCB policy on finitely many points, by `ask` and `tell` in turn."""

    points: Array
    kernel: Any
    noise_variance: float
    scheme: Scheme
    rng: np.random.Generator
    mean: float | Literal["online"] = "online"
    width: Callable[[float], float] = theorem
    epsilon: float = 0.0
    X: list[Array] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    answered: tuple[Array, Array, Array] | None = None
    anchor: float = 0.0
    scale: float = 1.0
    estimated_at: int = 0
    ucb: Array = field(default_factory=lambda: np.empty(0))

    @property
    def t(self) -> int:
        """Number of rewards so far."""
        return len(self.y)

    @property
    def visited(self) -> Array:
        """The distinct points played, in the order of their first play."""
        return np.array(list(dict.fromkeys(tuple(x.tolist()) for x in self.X)))

    def tell(self, x: Array, y: float) -> None:
        """The reward of the next step; answers of the step before are gone."""
        self.X.append(x)
        self.y.append(y)
        self.answered = None

    def answers(self, points: Array, values: Array, variance: Array) -> None:
        """What the expert says about this step."""
        self.answered = points, values, variance

    def seen(self) -> tuple[Array, Array, Array, Array]:
        """Points, times, values and noise variances: rewards, then the expert's answers."""
        X = np.array(self.X).reshape(self.t, self.points.shape[1])
        i = np.arange(1.0, self.t + 1)
        y, s2 = np.array(self.y), np.full(self.t, self.noise_variance)
        if self.answered is None:
            return X, i, y, s2
        points, values, variance = self.answered
        now = np.full(len(points), float(self.t))
        return (
            np.vstack([X, points]),
            np.concatenate([i, now]),
            np.concatenate([y, values]),
            np.concatenate([s2, variance]),
        )

    def decay(self, i: Array, j: Array) -> Array:
        """TV-GP-UCB, eq. 8 of SparQ-GP-UCB: (1 - epsilon)^(|i - j| / 2)."""
        return np.sqrt(1 - self.epsilon) ** np.abs(i[:, None] - j[None, :])

    def estimate(self, X: Array, y: Array, s2: Array, used: NDArray[np.bool_]) -> None:
        """Mean and scale again, when half as many values again have been seen."""
        n = len(y)
        if n == 0 or n < math.ceil(1.5 * self.estimated_at):
            return
        rows = np.flatnonzero(used) if used.sum() >= 100 else np.arange(n)[-100:]
        assert len(rows) <= 256
        K = self.kernel(X[rows])
        correlation = K / np.sqrt(np.outer(K.diagonal(), K.diagonal()))
        self.anchor, self.scale = moments(y[rows], s2[rows], correlation, self.noise_variance)
        self.estimated_at = n

    def leading(self) -> NDArray[np.int64]:
        """The candidates that tie for the largest bound of the last `ask` (`tvbandits.ties`)."""
        largest = self.ucb.max()
        unit = np.clip(largest - self.ucb.min(), 0.01 * abs(largest), abs(largest))
        return np.flatnonzero(self.ucb >= largest - 1e-9 * unit)

    def ask(self) -> tuple[int, Figures]:
        """The candidate to play at step t + 1."""
        X, i, y, s2 = self.seen()
        effective = self.scheme(s2, i, self.t) if self.t else s2
        used = effective < np.inf
        if self.mean == "online":
            self.estimate(X, y, s2, used)
        else:
            self.anchor = self.mean
        n_seen = len(y)
        X, i, y, noise = X[used], i[used], y[used], effective[used] / self.scale**2
        now = np.full(len(self.points), self.t + 1.0)

        prior = self.kernel.diag(self.points)
        centre, log_det_ratio = self.anchor, 0.0
        mean, variance = np.full(len(self.points), centre), prior
        if len(y):
            A = self.kernel(X) * self.decay(i, i) + np.diag(noise)
            if self.mean == "online":
                by_one, by_y = np.linalg.solve(A, np.ones(len(y))), np.linalg.solve(A, y)
                centre = (5 * self.anchor + by_y.sum()) / (5 + by_one.sum())
            k = self.kernel(X, self.points) * self.decay(i, now)
            mean = centre + k.T @ np.linalg.solve(A, y - centre)
            variance = prior - (k * np.linalg.solve(A, k)).sum(axis=0)
            log_det_ratio = np.linalg.slogdet(A)[1] - np.log(noise).sum()
        beta = self.width(log_det_ratio)
        self.ucb = mean + beta * self.scale * np.sqrt(np.maximum(variance, 0))

        tied = self.leading()
        chosen = tied[self.rng.integers(len(tied))] if len(tied) > 1 else tied[0]
        return int(chosen), Figures(beta, len(y), n_seen - len(y), float(centre), self.scale)

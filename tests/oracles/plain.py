"""The policies restated plainly from their papers, as oracles of whole trajectories.

There is one reward a step, at t = 1, 2, ... Matrices are dense and solved again at every step. Nothing
of the package is used. `kernel` is a scikit-learn kernel over points.
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


# --- forgetting: the effective variance of an observation of time i at the decision of time t + 1 ----


def never(s2: Array, _i: Array, _t: int) -> Array:
    """Return the variances unchanged, as in GP-UCB and TV-GP-UCB."""
    return s2


def resets(every: int) -> Scheme:
    """Return the scheme of R-GP-UCB: steps come in blocks of `every`, and blocks share no data."""

    def scheme(s2: Array, i: Array, t: int) -> Array:
        block_of_the_decision = math.floor(t / every)
        return np.where(np.floor((i - 1) / every) == block_of_the_decision, s2, np.inf)

    return scheme


def window(last: int) -> Scheme:
    """Return the scheme of SW-GP-UCB, with the steps t - last + 1, ..., t."""
    return lambda s2, i, t: np.where(i >= t - last + 1, s2, np.inf)


def discounts(discount: float) -> Scheme:
    """Return the scheme of W-GP-UCB, with the weight discount^(t + 1 - i)."""
    return lambda s2, i, t: s2 / discount ** (t + 1 - i)


def wiener(rate: float) -> Scheme:
    """Return the scheme of UI-GP-UCB: s^2 + rate (t + 1 - i)."""
    return lambda s2, i, t: s2 + rate * (t + 1 - i)


def linear(rate: float) -> Scheme:
    """Return the scheme of UI-GP-UCB with a noise deviation that grows linearly."""
    return lambda s2, i, t: s2 * (1 + rate**2 * (t + 1 - i) ** 2)


def sparq(noise_variance: float) -> Scheme:
    """Return the scheme of SparQ-GP-UCB, eq. 15 and Algorithm 1, line 4; the newest reward stays."""

    def scheme(s2: Array, i: Array, t: int) -> Array:
        aged = s2 * (1 + (t - i) ** 2)
        return np.where((aged > noise_variance * math.log(t)) & (i < t), np.inf, aged)

    return scheme


def chain_steps(K: Array, k: int, t: int, noise_variance: float, eta: float) -> int:
    """Return the steps of SparQ-GP-UCB, Algorithm 2, from the greedy set to within eq. 56 of the k-DPP.

    All sets are enumerated. The bound is that of Anari et al. 2016 for the chain whose steps from
    one set to a neighbour have probability min(1, ratio) / (2 k (N - k)).
    """
    N = len(K)
    L = K + 1e-8 * np.trace(K) / N * np.eye(N)
    start: list[int] = []
    while len(start) < k:  # Algorithm 3
        others = [x for x in range(N) if x not in start]
        start.append(max(others, key=lambda x: np.linalg.det(K[np.ix_([*start, x], [*start, x])])))
    every = [np.linalg.det(L[np.ix_(Z, Z)]) for Z in combinations(range(N), k)]
    probability = np.linalg.det(L[np.ix_(start, start)]) / sum(every)
    epsilon = noise_variance * eta / (4 * t * max(np.diag(K)))
    return math.ceil(2 * k * (N - k) * math.log(1 / (epsilon * probability)))


def variation_budget(values: Array, K: Array) -> float:
    """Return the sum of |f_{t+1} - f_t|_k of values (T, A) at points of covariance K.

    This is eq. 20 of SparQ-GP-UCB.

    The smallest norm of a function with the differences d at these points is sqrt(d^T K^-1 d).
    """
    budget = 0.0
    for t in range(len(values) - 1):
        d = values[t + 1] - values[t]
        budget += math.sqrt(d @ np.linalg.solve(K, d))
    return budget


# --- widths ---------------------------------------------------------------------------------------


def theorem(log_det_ratio: float) -> float:
    """Return the width of SparQ-GP-UCB, Theorem 3.1, with delta = 0.05 and a norm of 1."""
    return math.sqrt(2 * math.log(math.exp(log_det_ratio / 2) * 2 / 0.05)) + 1.0


def two(_log_det_ratio: float) -> float:
    """Return the constant width 2."""
    return 2.0


# --- the mean and the scale of the reward, learned ------------------------------------------------


def weighted_median(values: Array, weights: Array) -> float:
    """Return the smallest value with at least half of the weight at or below it."""
    total = 0.0
    for row in sorted(range(len(values)), key=lambda row: values[row]):
        total += weights[row]
        if total >= 0.5 * (1 - 1e-12) * weights.sum():
            return float(values[row])
    raise AssertionError("no weight")


def moments(y: Array, s2: Array, correlation: Array, floor: float) -> tuple[float, float]:
    """Return robust mean and noise-free deviation of values with declustering weights."""
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
    # The expected spread of the sample under a prior deviation of 1, and that of the noise.
    of_prior = max(1 - sum(sum(np.outer(weights, weights) * np.abs(correlation))), 0.1)
    of_noise = sum(weights * (1 - weights) * s2)
    return float(mean), math.sqrt(max((spread - of_noise) / of_prior, floor))


# --- the policy -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """The figures behind a decision."""

    beta: float
    in_use: int
    forgotten: int
    mean: float
    scale: float


@dataclass
class Plain:
    """A UCB policy on finitely many points, by alternating `ask` and `tell`."""

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
    expert_answers: tuple[Array, Array, Array] | None = None
    anchor: float = 0.0
    scale: float = 1.0
    estimated_at: int = 0
    ucb: Array = field(default_factory=lambda: np.empty(0))

    @property
    def t(self) -> int:
        """Return the number of rewards so far."""
        return len(self.y)

    @property
    def visited(self) -> Array:
        """Return the distinct points played, in the order of their first play."""
        return np.array(list(dict.fromkeys(tuple(x.tolist()) for x in self.X)))

    def tell(self, x: Array, y: float) -> None:
        """Add the reward of the next step, and drop the answers of the previous one."""
        self.X.append(x)
        self.y.append(y)
        self.expert_answers = None

    def answers(self, points: Array, values: Array, variance: Array) -> None:
        """Set the answers of the expert for this step."""
        self.expert_answers = points, values, variance

    def observations(self) -> tuple[Array, Array, Array, Array]:
        """Return points, times, values and noise variances of rewards, then of answers."""
        X = np.array(self.X).reshape(self.t, self.points.shape[1])
        i = np.arange(1.0, self.t + 1)
        y, s2 = np.array(self.y), np.full(self.t, self.noise_variance)
        if self.expert_answers is None:
            return X, i, y, s2
        points, values, variance = self.expert_answers
        now = np.full(len(points), float(self.t))
        return (
            np.vstack([X, points]),
            np.concatenate([i, now]),
            np.concatenate([y, values]),
            np.concatenate([s2, variance]),
        )

    def decay(self, i: Array, j: Array) -> Array:
        """Return (1 - epsilon)^(|i - j| / 2), the time kernel of TV-GP-UCB: SparQ-GP-UCB, eq. 8."""
        return np.sqrt(1 - self.epsilon) ** np.abs(i[:, None] - j[None, :])

    def estimate(self, X: Array, y: Array, s2: Array, used: NDArray[np.bool_]) -> None:
        """Estimate mean and scale again, once the number of values has grown by half."""
        n = len(y)
        if n == 0 or n < math.ceil(1.5 * self.estimated_at):
            return
        rows = np.flatnonzero(used) if used.sum() >= 100 else np.arange(n)[-100:]
        assert len(rows) <= 256
        K = self.kernel(X[rows])
        correlation = K / np.sqrt(np.outer(K.diagonal(), K.diagonal()))
        self.anchor, self.scale = moments(y[rows], s2[rows], correlation, self.noise_variance)
        self.estimated_at = n

    def tied_candidates(self) -> NDArray[np.int64]:
        """Return the candidates that tie for the largest bound of the last `ask` (`tvbandits.ties`)."""
        largest = self.ucb.max()
        unit = np.clip(largest - self.ucb.min(), 0.01 * abs(largest), abs(largest))
        return np.flatnonzero(self.ucb >= largest - 1e-9 * unit)

    def ask(self) -> tuple[int, Figures]:
        """Return the candidate to play at step t + 1, and the figures behind it."""
        X, i, y, s2 = self.observations()
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
                solved_ones, solved_y = np.linalg.solve(A, np.ones(len(y))), np.linalg.solve(A, y)
                centre = (5 * self.anchor + solved_y.sum()) / (5 + solved_ones.sum())
            k = self.kernel(X, self.points) * self.decay(i, now)
            mean = centre + k.T @ np.linalg.solve(A, y - centre)
            variance = prior - (k * np.linalg.solve(A, k)).sum(axis=0)
            log_det_ratio = np.linalg.slogdet(A)[1] - np.log(noise).sum()
        beta = self.width(log_det_ratio)
        self.ucb = mean + beta * self.scale * np.sqrt(np.maximum(variance, 0))

        tied = self.tied_candidates()
        choice = tied[self.rng.integers(len(tied))] if len(tied) > 1 else tied[0]
        return int(choice), Figures(beta, len(y), n_seen - len(y), float(centre), self.scale)

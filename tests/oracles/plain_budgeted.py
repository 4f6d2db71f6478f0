"""The budgeted policies restated plainly from their papers.

BKB and BBKB follow their pseudo-code, GP-BUCB the appendix of BBKB, with dense matrices and every bound
computed again at every step. Nothing of the package is used, and rewards of one point are not merged.
`kernel` is a scikit-learn kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.oracles.dense import Dense
from tests.oracles.sparse import Sparse

Array = NDArray[np.float64]


# --- the dictionary -------------------------------------------------------------------------------


def distinct(rows: list[int]) -> list[int]:
    """Return the distinct rows in order of first appearance."""
    return list(dict.fromkeys(rows))


def independent(kernel: Any, X: Array, dictionary: Array, tolerance: float) -> Array:
    """Return the rows of X that are independent of `dictionary` and of each other, in their order.

    The row of the largest conditional variance is added repeatedly, as long as that is above the
    tolerance, a share of its prior variance.
    """
    prior = kernel.diag(X)
    selected: list[int] = []
    while len(selected) < len(X):
        z = Sparse(kernel, np.concatenate([dictionary, X[selected]]), X, X, prior).Z
        share = 1 - (z**2).sum(axis=1) / prior
        share[selected] = -1.0
        if share.max() <= tolerance:
            break
        selected.append(int(share.argmax()))
    return np.asarray(X[sorted(selected)])


# --- widths ---------------------------------------------------------------------------------------


def bkb_width(
    delta: float, F: float = 1.0, eps: float = 0.5
) -> Callable[[PlainBatchPolicy], float]:
    """Return the width of [B] Theorem 2 with lambda = xi^2 and kappa = 1, relative to the deviation."""

    def width(policy: PlainBatchPolicy) -> float:
        t, alpha = len(policy.rows), (1 + eps) / (1 - eps)
        if t == 0:
            return 2 * math.sqrt(math.log(1 / delta)) + (1 + 1 / math.sqrt(1 - eps)) * F
        variances = policy.start.variance(policy.points)[policy.rows]
        information = alpha * math.log(t) * variances.sum() / policy.noise
        return 2 * math.sqrt(information + math.log(1 / delta)) + (1 + (1 - eps) ** -0.5) * F

    return width


def bbkb_width(delta: float, F: float = 1.0) -> Callable[[PlainBatchPolicy], float]:
    """Return the width of [BB] Theorem 2, in the same units."""

    def width(policy: PlainBatchPolicy) -> float:
        information = sum(math.log(1 + 3 * share) for share in policy.at_start)
        return 2 * math.sqrt(information + math.log(1 / delta)) + (1 + math.sqrt(2)) * F

    return width


# --- when a batch ends ----------------------------------------------------------------------------

BatchEnd = Callable[["PlainBatchPolicy"], bool]


def at_once(_policy: PlainBatchPolicy) -> bool:
    """Return that the batch of BKB ends."""
    return True


def lemma_1(C: float) -> BatchEnd:
    """Return the rule 1 + sum_s sigma~_fb^2(x_s) / lambda > C."""
    return lambda p: 1 + sum(p.start_shares) > C


def lemma_3(C: float) -> BatchEnd:
    """Return Lemma 1 and, for some x, 1 + sum_s k~_fb(x, x_s)^2 / (sigma~_fb^2(x) lambda) > C."""

    def ends(p: PlainBatchPolicy) -> bool:
        if not lemma_1(C)(p):
            return False
        k = p.start.covariance(p.points, p.points[p.batch])
        return bool((1 + ((k**2).sum(axis=1) / (p.start.variance(p.points) * p.noise)) > C).any())

    return ends


def product(C: float) -> BatchEnd:
    """Return the rule prod_s (1 + sigma_{s-1}^2(x_s) / lambda) > C."""
    return lambda p: math.prod(1 + share for share in p.now_shares) > C


# --- the policies ---------------------------------------------------------------------------------


@dataclass
class PlainBatchPolicy:
    """A batch policy on finitely many points: `begin` a batch, `add` its points, `tell` rewards.

    The posterior is exact if `oversampling` is 0.
    """

    points: Array
    kernel: Any
    noise: float
    width: Callable[[PlainBatchPolicy], float]
    ends: BatchEnd
    C: float = 1.0
    mean: float = 0.0
    oversampling: float = 0.0
    keep: bool = False
    tolerance: float = 1e-9
    S: Array | None = None
    rows: list[int] = field(default_factory=list)  # of the points played, in their order
    y: list[float] = field(default_factory=list)
    at_start: list[float] = field(default_factory=list)  # variances before each batch / noise
    batch: list[int] = field(default_factory=list)
    start_shares: list[float] = field(default_factory=list)  # of this batch alone
    now_shares: list[float] = field(default_factory=list)
    mu: Array = field(default_factory=lambda: np.empty(0))
    beta: float = 0.0

    def __post_init__(self) -> None:
        self.start: Sparse | Dense = self.posterior()
        self.now = self.start

    def posterior(self) -> Sparse | Dense:
        """Return the posterior given the rewards so far, and points of the batch at their mean."""
        rows = self.rows + self.batch
        y = np.array(self.y + [self.mean] * len(self.batch)) - self.mean
        X, v = self.points[rows], np.full(len(rows), self.noise)
        if self.oversampling == 0:
            return Dense(self.kernel, X, y[:, None], v)
        S = self.points[:0] if self.S is None else self.S
        return Sparse(self.kernel, S, X, y[:, None], v)

    def draw_dictionary(self, rng: np.random.Generator) -> None:
        """Draw a dictionary by [BB] lines 11 to 16, with variances from the start of the batch."""
        visited = distinct(self.rows)
        X = self.points[visited]
        coin = np.minimum(1, self.oversampling * self.start.variance(X) / self.noise)
        plays = np.array([self.rows.count(i) for i in visited])
        p = 1 - (1 - coin) ** plays  # the probability that at least one play of a point is drawn
        mask = rng.random(len(visited)) < p
        if not mask.any():
            mask[p.argmax()] = True
        new_points = X[mask]
        if not self.keep:
            self.S = new_points
            return
        S = X[:0] if self.S is None else self.S
        new = independent(self.kernel, new_points, S, self.tolerance)
        self.S = np.concatenate([S, new])
        if len(self.S) > 2 * max(p.sum(), 8):
            self.S = independent(self.kernel, new_points, X[:0], self.tolerance)

    def begin(self, rng: np.random.Generator) -> None:
        """Begin a batch, conditioned on all rewards."""
        self.batch, self.start_shares, self.now_shares = [], [], []
        if self.rows and self.oversampling:
            self.draw_dictionary(rng)
        self.start = self.now = self.posterior()
        self.mu = self.mean + self.start.mean(self.points)[:, 0]
        self.beta = self.width(self)

    def ucb(self) -> Array:
        """Return mu_fb + C beta sigma_t at all points."""
        now = self.now.variance(self.points)
        return np.asarray(self.mu + self.C * self.beta * np.sqrt(np.maximum(now, 0)))

    def add(self, row: int) -> bool:
        """Add a point, and return whether the batch ends with it."""
        x = self.points[[row]]
        self.start_shares.append(float(self.start.variance(x)[0]) / self.noise)
        self.now_shares.append(float(self.now.variance(x)[0]) / self.noise)
        self.batch.append(row)
        self.now = self.posterior()
        return self.ends(self)

    def tell(self, y: Array) -> None:
        """Add the rewards of the batch."""
        self.at_start += self.start_shares
        self.rows += self.batch
        self.y += y.tolist()


def uncertainty_sampling(points: Array, kernel: Any, noise: float, P: int) -> list[int]:
    """Return the rows that [BB] Algorithm 3 plays, until no exact variance exceeds noise / P.

    The paper's loop plays one more, as it compares the variance of a point that is already selected.
    """
    rows: list[int] = []
    while True:
        X = points[rows]
        exact = Dense(kernel, X, np.zeros((len(X), 1)), np.full(len(X), noise))
        variance = exact.variance(points)
        if variance.max() <= noise / P:
            return rows
        rows.append(int(variance.argmax()))

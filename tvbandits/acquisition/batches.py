"""Batches: several points to play before any of their rewards is known.

Within a batch the posterior mean stands still and the variances shrink as if the points chosen so far
had been observed (their rewards are not needed for that). The width is inflated by a bound C on the
ratio of the deviations at the batch's start to those now, and the batch ends when it could be exceeded:

==============  ==========================================================  ========================
rule            ends when                                                   used by
==============  ==========================================================  ========================
`One`           one point is chosen                                         sequential policies
`GlobalRatio`   1 + sum_s var_start(x_s) / v > C                            BBKB, Lemma 1
`LocalRatio`    so, and max_x 1 + sum_s cov_start(x, x_s)^2 /
                (var_start(x) v) > C                                        BBKB, Lemma 3
`ProductRatio`  prod_s (1 + var_{s-1}(x_s) / v) > C                         GP-BUCB (Desautels 2014)
==============  ==========================================================  ========================

The point that exceeds the bound is the last of its batch ([BB] Algorithm 1, L4-L9). While the scale of
the reward is to be learned and nothing is told, no variance has a unit: a batch is one point.

For a sparse posterior on fixed points the bounds of all of them are updated with every point of a batch
(`SparseFantasy`), so that the argmax is read off. Where there are many candidates, upper bounds from
before say which of them can lead, in the manner of the lazy bounds of [BB] A.3
(`tvbandits.gp.top_candidates`), and a batch is chosen among these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Domain
from tvbandits.gp import linalg
from tvbandits.gp.posterior import AppendBuffer, CandidateGrid, Data, Groups, Posterior, Prior
from tvbandits.ties import TOLERANCE, draw_of_largest
from tvbandits.validation import Array, Index, finite_number, require, whole_number

# So many candidates at the least are up to date in a batch.
FEWEST_UP_TO_DATE = 64

# Of a batch's bounds to those of its start.
MOST_RATIO = 1e6


@dataclass(frozen=True)
class BatchStep:
    """A point that was added to a batch.

    Attributes
    ----------
    start, now : float
        Its variance over its noise variance, at the batch's start and just before it was added.
    covariances : callable
        `covariances(Z)` returns cov_start(z, x) / v of kernel inputs z in `Z` (k, p) and its
        own point x, shape (k,).
    shares : callable
        `shares(Z)` returns cov_start(x, z)^2 / (var_start(x) v) of inputs z in `Z` (k, p) at all fixed
        points x, shape (k, A).
    z : array of shape (1, p)
        Its kernel input.
    """

    start: float
    now: float
    covariances: Callable[[Array], Array]
    shares: Callable[[Array], Array]
    z: Array = field(default_factory=lambda: np.empty((1, 0)))


class BatchLimitWarning(UserWarning):
    """A batch ended at its largest size, and its rule would have gone on; the message says why."""


# Watches one batch: whether it ends with the point that was added.
Monitor: TypeAlias = Callable[[BatchStep], bool]


class BatchRule(Protocol):
    """When a batch ends."""

    @property
    def ratio_bound(self) -> float:
        """C, which the width is multiplied by."""

    def monitor(self) -> Monitor:
        """A new watch for a new batch."""


# Most points of a batch, however it is asked for.
LARGEST_BATCH = 100_000


# A batch rule alone gives no more points, unless it is said.
USUAL_LARGEST = 1_000


@dataclass(frozen=True)
class One:
    """A batch of one."""

    @property
    def ratio_bound(self) -> float:
        """1."""
        return 1.0

    def monitor(self) -> Monitor:
        """Ends at once."""
        return count_to(1)


def count_to(size: int) -> Monitor:
    """Watches a batch of a given size."""
    left = size

    def full(step: BatchStep) -> bool:  # noqa: ARG001 - one face for all
        nonlocal left
        left -= 1
        return left <= 0

    return full


@dataclass(frozen=True)
class _Ratio:
    """A rule that ends a batch once the ratio of deviations may exceed its bound."""

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        # A batch of n plays of one point shrinks its deviation by about the square root of n: a larger
        # ratio is that of a batch that nobody waits for.
        finite_number("ratio_bound", self.ratio_bound, low=1.0, high=MOST_RATIO)

    @property
    def _most(self) -> float:
        """Return the bound, raised so far that rounding does not end a batch."""
        return self.ratio_bound * (1.0 + TOLERANCE)


@dataclass(frozen=True)
class GlobalRatio(_Ratio):
    """Lemma 1 of BBKB: a sum over the batch, O(1) a point.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.batches import Batching, GlobalRatio
    >>> sites = Candidates([[float(x)] for x in range(20)])
    >>> batching = Batching(GlobalRatio(2.0))
    >>> bandit = Bandit(Recipe(sites, RBF(2.0), 1.0, mean=0.0, batching=batching))
    >>> print(len(bandit.ask(1)), "points at once")
    2 points at once
    """

    def monitor(self) -> Monitor:
        """A running sum."""
        total = 1.0

        def full(step: BatchStep) -> bool:
            nonlocal total
            total += step.start
            return total > self._most

        return full


@dataclass(frozen=True)
class LocalRatio(_Ratio):
    """Lemma 3 of BBKB: a sum at every point of the domain, O(A m) for a point where all are needed.

    Most often the batch itself decides. With G = cov_start(batch, batch) / v, no sum exceeds the largest
    eigenvalue of G, which is below its trace, the sum of Lemma 1; and the sum at a point of the batch is
    (G^2)_ii / G_ii. All points of the domain are looked at between the two alone.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.batches import Batching, LocalRatio
    >>> sites = Candidates([[float(x)] for x in range(20)])
    >>> batching = Batching(LocalRatio(2.0))
    >>> bandit = Bandit(Recipe(sites, RBF(2.0), 1.0, mean=0.0, batching=batching))
    >>> print(len(bandit.ask(1)), "points at once")
    3 points at once
    """

    def monitor(self) -> Monitor:
        """Running sums at the points of the batch, then at all points."""
        return _LocalMonitor(self._most - 1.0)


class _LocalMonitor:
    """Watches one batch for Lemma 3, whose sums may not exceed `bound`."""

    def __init__(self, bound: float) -> None:
        self.bound = bound
        # The distinct points of the batch, how often each is in it, and their cov_start over the noise.
        self.points, self.counts, self.covariance = np.empty((0, 1)), np.empty(0), np.empty((0, 0))
        # What each of them adds to the sums at all points of the domain, once that is needed.
        self.shares: list[Array] = []
        self.sums = np.empty(0)

    def __call__(self, step: BatchStep) -> bool:
        """Return whether a sum exceeds the bound, now that a point was added."""
        number = self._count(step)
        own = self.covariance**2 @ self.counts
        if (own > self.bound * np.diagonal(self.covariance)).any():
            return True
        root = np.sqrt(self.counts)
        gap = self.bound * np.eye(len(root)) - root[:, None] * self.covariance * root
        if linalg.is_positive_definite(gap):
            return False
        if not self.shares:
            self.shares = list(step.shares(self.points))
            self.sums = self.counts @ self.shares
        else:
            if number == len(self.shares):
                self.shares.extend(step.shares(step.z))
            self.sums += self.shares[number]
        return bool(self.sums.max() > self.bound)

    def _count(self, step: BatchStep) -> int:
        """Count the point of a step, and return its number among the distinct ones."""
        u = len(self.points)
        repeated = np.flatnonzero((self.points == step.z).all(axis=1))
        if len(repeated):
            self.counts[repeated] += 1
            return int(repeated[0])
        self.points = np.concatenate([self.points, step.z]) if u else step.z
        self.counts = np.append(self.counts, 1.0)
        grown = np.empty((u + 1, u + 1))
        grown[:u, :u] = self.covariance
        grown[u] = grown[:, u] = step.covariances(self.points)
        self.covariance = grown
        return u


@dataclass(frozen=True)
class ProductRatio(_Ratio):
    """The rule of GP-BUCB: a product of the variances as they shrink.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.batches import Batching, ProductRatio
    >>> sites = Candidates([[float(x)] for x in range(20)])
    >>> batching = Batching(ProductRatio(2.0))
    >>> bandit = Bandit(Recipe(sites, RBF(2.0), 1.0, mean=0.0, batching=batching))
    >>> print(len(bandit.ask(1)), "points at once")
    2 points at once
    """

    def monitor(self) -> Monitor:
        """A running product."""
        bound, log_total = math.log(self._most), 0.0

        def full(step: BatchStep) -> bool:
            nonlocal log_total
            log_total += math.log1p(step.now)
            return log_total > bound

        return full


@dataclass(frozen=True)
class Batching:
    """What ends a batch.

    Parameters
    ----------
    rule : BatchRule
        One point by default.
    smallest : int
        With P > 1, batches begin with P most uncertain points, until no variance exceeds 1/P of the
        noise variance: from then on no batch of BBKB is smaller than P (C - 1) ([BB], section 4).
    largest : int
        A batch ends here at the latest, with a warning if the rule would go on. A rule of variances
        goes on for long where the noise variance is large beside the prior variance.

    Raises
    ------
    ValueError
        If the rule is none, or a number is no whole number of at least 1.
    """

    rule: BatchRule = field(default_factory=One)
    smallest: int = 1
    largest: int = USUAL_LARGEST

    def __post_init__(self) -> None:
        rule: object = self.rule
        good = callable(getattr(rule, "monitor", None)) and not isinstance(rule, type)
        require(good, "rule", "a batch rule such as One() or GlobalRatio(2.0)", rule)
        for name in ("smallest", "largest"):
            whole_number(name, getattr(self, name), at_most=LARGEST_BATCH)


# --- what a batch is built on ------------------------------------------------------------------------


@dataclass(frozen=True)
class UpperBound:
    """An upper confidence bound of deviations in prior units: mean + times * deviation.

    Attributes
    ----------
    mean : callable
    times : float
    smooth : callable, optional
        The bound with its slopes, for a posterior and `times`; or None, if it has none.
    """

    mean: Callable[[Array], Array]
    times: float
    smooth: Callable[[Posterior, float], Callable[[Array], Array] | None] | None = None


@dataclass
class FantasyModel:
    """A posterior that points can be added to without their rewards.

    Attributes
    ----------
    start : Posterior
        That of the batch's start.
    domain : Domain
    grid : CandidateGrid or None
        The candidates of a finite domain.
    inputs : callable
        Kernel inputs (n, p) of points (n, d), now.
    noise : float
        Noise variance of the imagined observations, in prior units.
    upper : UpperBound
    largest : float
        The upper confidence bound of what was best the last time.
    """

    start: Any
    domain: Domain
    grid: CandidateGrid | None
    inputs: Callable[[Array], Array]
    noise: float
    upper: UpperBound
    largest: float = field(default=math.inf, init=False)

    def best(self, rng: np.random.Generator) -> Array:
        """The point (d,) of the largest upper confidence bound."""
        x, self.largest = self.domain.maximize(self.bounds, rng)
        return x

    def add(self, x: Array) -> BatchStep:
        """Shrink the variances as if `x` (d,) had been observed; what a batch rule looks at."""
        raise NotImplementedError

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if points (k, d), which are out, had been observed with noise (k,)."""
        raise NotImplementedError

    def bounds(self, X: Array) -> Array:
        """Upper confidence bounds at points (m, d) of the domain, shape (m,)."""
        return np.asarray(self.upper.mean(X) + self.upper.times * np.sqrt(self.variances(X)))

    def variances(self, X: Array) -> Array:
        """Variances at points (m, d) of the domain, now, shape (m,)."""
        raise NotImplementedError

    def _step(self, x: Array, start: float, now: float) -> BatchStep:
        """Return the step of a point (d,) with its variances over the noise variance."""
        z = self.inputs(x[None, :])

        def covariances(Z: Array) -> Array:
            return np.asarray(self.start.covariance(Z, z)[:, 0] / self.noise)

        return BatchStep(start, now, covariances, self._shares, z)

    def _start_variance(self) -> Array:
        """Variances at the fixed points at the batch's start, shape (A,)."""
        return np.asarray(self.start.predict(self.grid)[1])

    def _shares(self, Z: Array) -> Array:
        """cov_start(x, z)^2 / (var_start(x) v) of inputs (k, p) at all fixed points ([BB] Lemma 3)."""
        if self.grid is None:
            raise ValueError("the local rule needs a finite domain: give Candidates")
        covariance, variance = self.start.covariance(Z, self.grid), self._start_variance()
        is_known = variance <= 0
        noise = np.where(is_known, 1.0, variance) * self.noise
        return np.where(is_known, 0.0, covariance**2 / noise)


@dataclass
class SparseFantasy(FantasyModel):
    """A sparse posterior on candidates with bounds updated lazily: O(n (m + b)) for the b-th point.

    A point that is added takes c^2 / (v + c(x, x)) off the variances, with c its covariances as of then
    in the span of the dictionary. Bounds only fall: n candidates are up to date, and all others have
    bounds of the batch's start below the largest of these ([BB] Algorithm 1, L8, and A.3).
    """

    domain: Candidates
    grid: CandidateGrid

    def __post_init__(self) -> None:
        count = len(self.start.variance)
        # The candidates that are up to date, where each is among them, and their variances.
        self.rows, self.place = np.empty(0, dtype=np.int64), np.full(count, -1)
        self.half, self.variance = np.empty((self.start.dictionary.size, 0)), np.empty(0)
        # L^-1 c(added, rows), with L the lower factor of the covariance of what was added.
        self.reductions, self.count = np.empty((16, 0)), 0
        self.root, self.added = np.empty((16, 16)), np.empty((len(self.half), 16))
        self.mean = self.upper.mean(self.domain.X)
        self.stale = self.mean + self.upper.times * np.sqrt(self.start.variance)

    def best(self, rng: np.random.Generator) -> Array:
        """The point (d,) of the largest upper confidence bound, ties broken by `rng`."""
        while True:
            bound = self.mean[self.rows] + self.upper.times * np.sqrt(self.variance)
            self.largest = float(bound.max(initial=-math.inf))
            if len(self.rows) == len(self.place):
                break
            # What ties with the largest counts, too.
            rows = np.flatnonzero(self.stale >= self.largest - TOLERANCE * abs(self.largest))
            rows = rows[self.place[rows] < 0]
            if len(rows) == 0:
                break
            size = max(FEWEST_UP_TO_DATE, len(self.rows))
            if len(rows) > size:
                rows = np.sort(rows[np.argpartition(self.stale[rows], -size)[-size:]])
            self._bring_up_to_date(rows)
        order = np.argsort(self.rows)  # a draw among ties is that of the candidates' order
        return np.asarray(self.domain.X[self.rows[order[draw_of_largest(bound[order], rng)]]])

    def _bring_up_to_date(self, rows: Index) -> None:
        """Compute the variances of these candidates as of now; none of them is up to date yet."""
        half = self.start.whiten_on_grid(rows)
        b = self.count
        fresh = np.empty((len(self.reductions), len(rows)))
        if b:
            fresh[:b] = linalg.solve_lower(self.root[:b, :b], self.added[:, :b].T @ half)
        variance = np.maximum(self.start.variance[rows] - (fresh[:b] ** 2).sum(axis=0), 0.0)
        self.place[rows] = len(self.rows) + np.arange(len(rows))
        self.rows = np.concatenate([self.rows, rows])
        self.variance = np.concatenate([self.variance, variance])
        self.half = np.concatenate([self.half, half], axis=1)
        self.reductions = np.concatenate([self.reductions, fresh], axis=1)

    def _places(self, rows: Index) -> Index:
        """Where these candidates are among those that are up to date, as all of them are then."""
        late = np.unique(rows[self.place[rows] < 0])
        if len(late):
            self._bring_up_to_date(late)
        return np.asarray(self.place[rows])

    def variances(self, X: Array) -> Array:
        """Variances at candidates (m, d), now, shape (m,)."""
        places = self._places(self.domain.index(X))
        return np.asarray(self.variance[places])

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if candidates (k, d) had been observed with noise (k,)."""
        for x, own in zip(X, noise.tolist(), strict=True):
            self.add(x, own)

    def add(self, x: Array, noise: float | None = None) -> BatchStep:
        """Shrink the variances as if the candidate `x` had been observed, with another noise."""
        noise = self.noise if noise is None else noise
        row = self.grid.index(x)
        row = int(self.domain.index(x[None, :])[0]) if row is None else row
        if self.place[row] < 0:
            self._bring_up_to_date(np.array([row]))
        i = int(self.place[row])
        start, now, b = float(self.start.variance[row]), float(self.variance[i]), self.count
        if b == len(self.reductions):
            self._make_room()
        before = self.reductions[:b]
        own = self.half[:, i] @ self.half - before[:, i] @ before
        pivot = math.sqrt(noise + max(float(own[i]), 0.0))
        self.root[b, :b], self.root[b, b] = before[:, i], pivot
        self.added[:, b] = self.half[:, i]
        self.reductions[b] = own / pivot
        self.variance = np.maximum(self.variance - self.reductions[b] ** 2, 0.0)
        self.count += 1
        return self._step(x, start / noise, now / noise)

    def _make_room(self) -> None:
        """Double the room for points that are added."""
        b = self.count
        self.reductions = np.concatenate([self.reductions, np.empty_like(self.reductions)])
        self.added = np.concatenate([self.added, np.empty_like(self.added)], axis=1)
        root = np.empty((2 * b, 2 * b))
        root[:b, :b] = self.root
        self.root = root

    def _start_variance(self) -> Array:
        return np.asarray(self.start.variance)


@dataclass
class UntoldFantasy(FantasyModel):
    """Candidates of which nothing is known: all of them tie, and none of them takes from others.

    Attributes
    ----------
    prior : Prior
    free : integer array, optional
        Rows that may be played; all by default.
    """

    domain: Candidates
    prior: Prior
    free: Index | None = None

    def best(self, rng: np.random.Generator) -> Array:
        """A point (d,) at random."""
        drawn = rng.integers(len(self.domain if self.free is None else self.free), size=1)
        rows = drawn if self.free is None else self.free[drawn]
        X = self.domain.points_at(rows)
        self.domain._remember(rows, X)
        return np.asarray(X[0].copy())

    def variances(self, X: Array) -> Array:
        """Those of the prior."""
        return np.asarray(self.prior.kernel.diag(self.inputs(X)))

    def add(self, x: Array) -> BatchStep:
        """Nothing shrinks: no dictionary holds it yet ([BB] Algorithm 1, L2)."""
        share = float(self.variances(x[None, :])[0]) / self.noise
        return self._step(x, share, share)


@dataclass
class PlainFantasy(FantasyModel):
    """Any posterior, any domain: every bound is computed anew for every point of the batch."""

    def __post_init__(self) -> None:
        self.now = self.start

    def best(self, rng: np.random.Generator) -> Array:
        """The point (d,) of the largest upper confidence bound."""
        smooth = (
            None if self.upper.smooth is None else self.upper.smooth(self.now, self.upper.times)
        )
        x, self.largest = self.domain.maximize(self.bounds if smooth is None else smooth, rng)
        return x

    def variances(self, X: Array) -> Array:
        """Variances at points (m, d), now, shape (m,)."""
        if self.grid is not None and X is self.grid.points:
            return np.asarray(self.now.predict(self.grid)[1])
        return np.asarray(self.now.predict(self.inputs(X))[1])

    def add(self, x: Array) -> BatchStep:
        """Shrink the variances as if `x` had been observed."""
        z = self.inputs(x[None, :])
        start, now = (float(p.predict(z)[1][0]) for p in (self.start, self.now))
        self.now = self.now.fantasize(z, self.noise, self.grid)
        return self._step(x, start / self.noise, now / self.noise)

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if points (k, d) had been observed with noise (k,)."""
        self.now = self.now.fantasize(self.inputs(X), noise, self.grid)


@dataclass
class JointFantasy(FantasyModel):
    """A posterior on a dictionary, and on what the dictionary leaves out of the kernel.

    With its covariance c as of now, an observation of f(p) with noise variance v leaves
    var(x) - c(x, p)^2 / (var(p) + v): also where x and p are beyond the dictionary, whose own update
    would leave the variance there as it was.
    """

    def __post_init__(self) -> None:
        # What would be observed, and the lower factor L of its covariance; or on a finite domain the
        # variances, and L^-1 c(added, candidates).
        self.added = self.inputs(np.empty((0, self.domain.dimension)))
        self.factor = np.empty((0, 0))
        finite = self.grid is not None
        self.variance = self.start.predict(self.grid)[1].copy() if finite else np.empty(0)
        self.reach = AppendBuffer.of(np.empty((0, len(self.variance))))

    def add(self, x: Array) -> BatchStep:
        """Shrink the variances as if `x` had been observed."""
        z = self.inputs(x[None, :])
        start = float(self.start.predict(z)[1][0])
        if self.grid is None:
            rows = self._solve(z)
        else:
            assert isinstance(self.domain, Candidates)  # they have fixed points
            rows = self.reach.array[:, self.domain.index(x[None, :])]
        (left,) = self._observe_jointly(z, np.array([self.noise]), rows)
        return self._step(x, start / self.noise, float(left) / self.noise)

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if points (k, d) had been observed with noise (k,), before others."""
        Z = self.inputs(X)
        merged = Groups.of(Z).merge(Data(Z, np.empty((len(Z), 0)), noise))
        self._observe_jointly(merged.Z, merged.variance, self._solve(merged.Z))

    def _observe_jointly(self, Z: Array, noise: Array, rows: Array) -> Array:
        """Take in inputs (k, p) together, of which L^-1 c(added, Z) is `rows`.

        Returns the variances (k,) that were left of them.
        """
        joint = self.start.covariance(Z, Z) - rows.T @ rows
        left = np.maximum(self.start.predict(Z)[1] - (rows**2).sum(axis=0), 0.0)
        np.fill_diagonal(joint, left + noise)
        root = linalg.cholesky(joint, "what is observed").L
        if self.grid is not None:
            covariance = self.start.covariance(Z, self.grid)
            fresh = linalg.solve_lower(root, covariance - rows.T @ self.reach.array)
            for row in fresh:
                self.reach = self.reach.append(row)
            self.variance = np.maximum(self.variance - (fresh**2).sum(axis=0), 0.0)
            return np.asarray(left)
        n, k = len(self.added), len(Z)
        grown = np.zeros((n + k, n + k))
        grown[:n, :n], grown[n:, :n], grown[n:, n:] = self.factor, rows.T, root
        self.factor, self.added = grown, np.concatenate([self.added, Z])
        return np.asarray(left)

    def _solve(self, Z: Array) -> Array:
        """L^-1 c(added, Z), shape (k, n)."""
        if len(self.added) == 0:
            return np.empty((0, len(Z)))
        return linalg.solve_lower(self.factor, self.start.covariance(self.added, Z))

    def variances(self, X: Array) -> Array:
        """Variances at points (m, d) of the domain, now, shape (m,)."""
        if self.grid is not None:
            if X is self.grid.points:
                return self.variance
            assert isinstance(self.domain, Candidates)  # they have fixed points
            return self.variance[self.domain.index(X)]
        Z = self.inputs(X)
        left = self.start.predict(Z)[1] - (self._solve(Z) ** 2).sum(axis=0)
        return np.asarray(np.maximum(left, 0.0))

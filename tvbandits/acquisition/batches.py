"""Batches: several points to play before any of their rewards is known.

Within a batch the posterior mean stays the same, and the variances shrink as if the points chosen so far
had been observed, which does not need their rewards. The width is multiplied by a bound C on the ratio
of the deviations at the batch's start to those now. The batch ends when the ratio may exceed C:

==============  ==========================================================  ========================
rule            ends when                                                   used by
==============  ==========================================================  ========================
`One`           one point is chosen                                         sequential policies
`GlobalRatio`   1 + sum_s var_start(x_s) / v > C                            BBKB, Lemma 1
`LocalRatio`    so, and max_x 1 + sum_s cov_start(x, x_s)^2 /
                (var_start(x) v) > C                                        BBKB, Lemma 3
`ProductRatio`  prod_s (1 + var_{s-1}(x_s) / v) > C                         GP-BUCB (Desautels 2014)
==============  ==========================================================  ========================

The point that exceeds the bound is the last of its batch ([BB] Algorithm 1, L4-L9). Before the first
reward the scale of the reward is unknown if it is learned, and a batch is one point.

For a sparse posterior on candidates, `SparseFantasy` updates the bounds with every point of a batch.
Among many candidates a batch is chosen from the top ones, which `tvbandits.gp.top_candidates` finds by
earlier upper bounds, as the lazy bounds of [BB] A.3.
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
from tvbandits.ties import TOLERANCE, random_argmax
from tvbandits.validation import Array, Index, finite_number, require, whole_number

# Smallest number of candidates whose bounds a batch computes at once.
FEWEST_UP_TO_DATE = 64

# Largest C.
MOST_RATIO = 1e6


@dataclass(frozen=True)
class BatchStep:
    """A point that was added to a batch.

    Attributes
    ----------
    start, now : float
        Its variance over its noise variance, at the batch's start and just before it was added.
    covariances : callable
        A function of kernel inputs `Z` (k, p) that returns cov_start(z, x) / v (k,) with this point x.
    terms : callable
        A function of inputs `Z` (k, p) that returns the terms cov_start(x, z)^2 / (var_start(x) v) of
        Lemma 3 at all candidates x, shape (k, A).
    z : array of shape (1, p)
        The kernel input of the point.
    """

    start: float
    now: float
    covariances: Callable[[Array], Array]
    terms: Callable[[Array], Array]
    z: Array = field(default_factory=lambda: np.empty((1, 0)))


class BatchLimitWarning(UserWarning):
    """A warning that a batch ended at its largest size, before its rule ended it."""


# A function of each point added to one batch, which returns whether the batch ends with it.
Monitor: TypeAlias = Callable[[BatchStep], bool]


class BatchRule(Protocol):
    """A rule for the end of a batch."""

    @property
    def ratio_bound(self) -> float:
        """Return C, the factor of the width."""

    def monitor(self) -> Monitor:
        """Return a new monitor, for one batch."""


# Largest number of points of a batch.
LARGEST_BATCH = 100_000

# Default of the largest number of points that a batch rule allows.
DEFAULT_LARGEST = 1_000


@dataclass(frozen=True)
class One:
    """A rule for batches of one point."""

    @property
    def ratio_bound(self) -> float:
        """Return C = 1."""
        return 1.0

    def monitor(self) -> Monitor:
        """Return a monitor that ends the batch with its first point."""
        return count_to(1)


def count_to(size: int) -> Monitor:
    """Return a monitor that ends the batch with its point number `size`."""
    remaining = size

    def full(step: BatchStep) -> bool:  # noqa: ARG001 - as of `Monitor`
        nonlocal remaining
        remaining -= 1
        return remaining <= 0

    return full


@dataclass(frozen=True)
class _Ratio:
    """A rule that ends a batch once the ratio of deviations may exceed its bound."""

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        # n plays of one point divide its deviation by about the square root of n, so that a larger ratio
        # is that of a batch of more than 1e12 plays.
        finite_number("ratio_bound", self.ratio_bound, low=1.0, high=MOST_RATIO)

    @property
    def _most(self) -> float:
        """Return the bound, raised so that rounding errors do not end a batch."""
        return self.ratio_bound * (1.0 + TOLERANCE)


@dataclass(frozen=True)
class GlobalRatio(_Ratio):
    """The rule of Lemma 1 of BBKB: a sum over the batch, in O(1) a point.

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
        """Return a monitor with a running sum."""
        total = 1.0

        def full(step: BatchStep) -> bool:
            nonlocal total
            total += step.start
            return total > self._most

        return full


@dataclass(frozen=True)
class LocalRatio(_Ratio):
    """The rule of Lemma 3 of BBKB: a sum at every point of the domain, in at most O(A m) a point.

    Mostly the points of the batch decide. With G = cov_start(batch, batch) / v, no sum exceeds the
    largest eigenvalue of G, which is not above its trace, the sum of Lemma 1. The sum at a point of the
    batch is (G^2)_ii / G_ii. The sums at all candidates are computed only if the bound is between
    these.

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
        """Return a monitor with running sums at the points of the batch, then at all candidates."""
        return _LocalMonitor(self._most - 1.0)


class _LocalMonitor:
    """A monitor of one batch for Lemma 3, which ends it when a sum exceeds `bound`."""

    def __init__(self, bound: float) -> None:
        self.bound = bound
        # The distinct points of the batch, the count of each, and their cov_start over the noise
        # variance.
        self.points, self.counts, self.covariance = np.empty((0, 1)), np.empty(0), np.empty((0, 0))
        # The term of each of them in the sums at all candidates, once these are computed.
        self.terms: list[Array] = []
        self.sums = np.empty(0)

    def __call__(self, step: BatchStep) -> bool:
        """Return whether a sum exceeds the bound with the point of this step."""
        number = self._count(step)
        sums = self.covariance**2 @ self.counts
        if (sums > self.bound * np.diagonal(self.covariance)).any():
            return True
        root = np.sqrt(self.counts)
        gap = self.bound * np.eye(len(root)) - root[:, None] * self.covariance * root
        if linalg.is_positive_definite(gap):
            return False
        if not self.terms:
            self.terms = list(step.terms(self.points))
            self.sums = self.counts @ self.terms
        else:
            if number == len(self.terms):
                self.terms.extend(step.terms(step.z))
            self.sums += self.terms[number]
        return bool(self.sums.max() > self.bound)

    def _count(self, step: BatchStep) -> int:
        """Count the point of a step, and return its number among the distinct points."""
        u = len(self.points)
        repeated = np.flatnonzero((self.points == step.z).all(axis=1))
        if len(repeated):
            self.counts[repeated] += 1
            return int(repeated[0])
        self.points = np.concatenate([self.points, step.z]) if u else step.z
        self.counts = np.append(self.counts, 1.0)
        covariance = np.empty((u + 1, u + 1))
        covariance[:u, :u] = self.covariance
        covariance[u] = covariance[:, u] = step.covariances(self.points)
        self.covariance = covariance
        return u


@dataclass(frozen=True)
class ProductRatio(_Ratio):
    """The rule of GP-BUCB: a product over the batch, of variances that shrink.

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
        """Return a monitor with a running product."""
        bound, log_total = math.log(self._most), 0.0

        def full(step: BatchStep) -> bool:
            nonlocal log_total
            log_total += math.log1p(step.now)
            return log_total > bound

        return full


@dataclass(frozen=True)
class Batching:
    """The rule for the end of a batch, and limits of its size.

    Parameters
    ----------
    rule : BatchRule
        By default batches of one point.
    smallest : int
        With P > 1, batches have P of the most uncertain points until no variance exceeds 1/P of the
        noise variance. From then on no batch of BBKB is smaller than P (C - 1) ([BB], section 4).
    largest : int
        Largest size of a batch, with a warning if the rule has not ended it. Batches are long where the
        noise variance is much larger than the prior variance.

    Raises
    ------
    ValueError
        If the rule is not a batch rule, or a number is not a whole number of at least 1.
    """

    rule: BatchRule = field(default_factory=One)
    smallest: int = 1
    largest: int = DEFAULT_LARGEST

    def __post_init__(self) -> None:
        rule: object = self.rule
        is_rule = callable(getattr(rule, "monitor", None)) and not isinstance(rule, type)
        require(is_rule, "rule", "a batch rule such as One() or GlobalRatio(2.0)", rule)
        for name in ("smallest", "largest"):
            whole_number(name, getattr(self, name), at_most=LARGEST_BATCH)


# --- fantasies ------------------------------------------------------------------------


@dataclass(frozen=True)
class UpperBound:
    """An upper confidence bound of deviations in prior units: mean + times * deviation.

    Attributes
    ----------
    mean : callable
    times : float
    smooth : callable, optional
        A function of a posterior and `times` that returns the bound with its slopes, or None if the
        kernel has none.
    """

    mean: Callable[[Array], Array]
    times: float
    smooth: Callable[[Posterior, float], Callable[[Array], Array] | None] | None = None


@dataclass
class FantasyModel:
    """A posterior whose variances shrink with points that have no rewards yet.

    Attributes
    ----------
    start : Posterior
        The posterior at the batch's start.
    domain : Domain
    grid : CandidateGrid or None
        The candidates of a finite domain.
    inputs : callable
        Kernel inputs (n, p) of points (n, d), now.
    noise : float
        Noise variance of the imagined observations, in prior units.
    upper : UpperBound
    largest : float
        The upper confidence bound of the latest result of `best`.
    """

    start: Any
    domain: Domain
    grid: CandidateGrid | None
    inputs: Callable[[Array], Array]
    noise: float
    upper: UpperBound
    largest: float = field(default=math.inf, init=False)

    def best(self, rng: np.random.Generator) -> Array:
        """Return the point (d,) of the largest upper confidence bound."""
        x, self.largest = self.domain.maximize(self.bounds, rng)
        return x

    def add(self, x: Array) -> BatchStep:
        """Shrink the variances as if `x` (d,) had been observed, and return the step for batch rules."""
        raise NotImplementedError

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if pending points (k, d) had been observed with noise (k,)."""
        raise NotImplementedError

    def bounds(self, X: Array) -> Array:
        """Return upper confidence bounds (m,) at points (m, d) of the domain."""
        return np.asarray(self.upper.mean(X) + self.upper.times * np.sqrt(self.variances(X)))

    def variances(self, X: Array) -> Array:
        """Return the present variances (m,) at points (m, d) of the domain."""
        raise NotImplementedError

    def _step(self, x: Array, start: float, now: float) -> BatchStep:
        """Return the step of a point (d,) with its variances over the noise variance."""
        z = self.inputs(x[None, :])

        def covariances(Z: Array) -> Array:
            return np.asarray(self.start.covariance(Z, z)[:, 0] / self.noise)

        return BatchStep(start, now, covariances, self._terms, z)

    def _start_variance(self) -> Array:
        """Return the variances (A,) at the candidates at the batch's start."""
        return np.asarray(self.start.predict(self.grid)[1])

    def _terms(self, Z: Array) -> Array:
        """Return cov_start(x, z)^2 / (var_start(x) v) (k, A) of inputs Z (k, p) ([BB] Lemma 3)."""
        if self.grid is None:
            raise ValueError("the local rule needs a finite domain: give Candidates")
        covariance, variance = self.start.covariance(Z, self.grid), self._start_variance()
        is_certain = variance <= 0
        divisor = np.where(is_certain, 1.0, variance) * self.noise
        return np.where(is_certain, 0.0, covariance**2 / divisor)


@dataclass
class SparseFantasy(FantasyModel):
    """A fantasy on candidates for a sparse posterior, with lazy bounds: O(n (m + b)) for the b-th point.

    A point that is added subtracts c^2 / (v + c(x, x)) from the variances, with its present covariances
    c in the span of the dictionary. Bounds only fall. Those of n candidates are up to date; all others
    were below the largest of these at the batch's start already ([BB] Algorithm 1, L8, and A.3).
    """

    domain: Candidates
    grid: CandidateGrid

    def __post_init__(self) -> None:
        count = len(self.start.variance)
        # The candidates that are up to date, the position of each among them, and their variances.
        self.rows, self.place = np.empty(0, dtype=np.int64), np.full(count, -1)
        self.half, self.variance = np.empty((self.start.dictionary.size, 0)), np.empty(0)
        # L^-1 c(added, rows), with the lower factor L of the covariance of the points that were added.
        self.reductions, self.count = np.empty((16, 0)), 0
        self.root, self.added = np.empty((16, 16)), np.empty((len(self.half), 16))
        self.mean = self.upper.mean(self.domain.X)
        self.stale = self.mean + self.upper.times * np.sqrt(self.start.variance)

    def best(self, rng: np.random.Generator) -> Array:
        """Return the point (d,) of the largest upper confidence bound, with ties broken by `rng`."""
        while True:
            bound = self.mean[self.rows] + self.upper.times * np.sqrt(self.variance)
            self.largest = float(bound.max(initial=-math.inf))
            if len(self.rows) == len(self.place):
                break
            # Candidates that may tie with the largest bound are brought up to date, too.
            rows = np.flatnonzero(self.stale >= self.largest - TOLERANCE * abs(self.largest))
            rows = rows[self.place[rows] < 0]
            if len(rows) == 0:
                break
            size = max(FEWEST_UP_TO_DATE, len(self.rows))
            if len(rows) > size:
                rows = np.sort(rows[np.argpartition(self.stale[rows], -size)[-size:]])
            self._bring_up_to_date(rows)
        order = np.argsort(self.rows)  # ties are broken in the order of the candidates
        return np.asarray(self.domain.X[self.rows[order[random_argmax(bound[order], rng)]]])

    def _bring_up_to_date(self, rows: Index) -> None:
        """Compute the present variances of candidates that are not up to date."""
        half = self.start.whiten_on_grid(rows)
        b = self.count
        reductions = np.empty((len(self.reductions), len(rows)))
        if b:
            reductions[:b] = linalg.solve_lower(self.root[:b, :b], self.added[:, :b].T @ half)
        variance = np.maximum(self.start.variance[rows] - (reductions[:b] ** 2).sum(axis=0), 0.0)
        self.place[rows] = len(self.rows) + np.arange(len(rows))
        self.rows = np.concatenate([self.rows, rows])
        self.variance = np.concatenate([self.variance, variance])
        self.half = np.concatenate([self.half, half], axis=1)
        self.reductions = np.concatenate([self.reductions, reductions], axis=1)

    def _places(self, rows: Index) -> Index:
        """Bring candidates up to date, and return their positions among those that are."""
        missing = np.unique(rows[self.place[rows] < 0])
        if len(missing):
            self._bring_up_to_date(missing)
        return np.asarray(self.place[rows])

    def variances(self, X: Array) -> Array:
        """Return the present variances (m,) at candidates (m, d)."""
        places = self._places(self.domain.index(X))
        return np.asarray(self.variance[places])

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if candidates (k, d) had been observed with noise (k,)."""
        for x, variance in zip(X, noise.tolist(), strict=True):
            self.add(x, variance)

    def add(self, x: Array, noise: float | None = None) -> BatchStep:
        """Shrink the variances as if the candidate `x` had been observed; return the step."""
        noise = self.noise if noise is None else noise
        row = self.grid.index(x)
        row = int(self.domain.index(x[None, :])[0]) if row is None else row
        if self.place[row] < 0:
            self._bring_up_to_date(np.array([row]))
        i = int(self.place[row])
        start, now, b = float(self.start.variance[row]), float(self.variance[i]), self.count
        if b == len(self.reductions):
            self._make_room()
        reductions = self.reductions[:b]
        covariance = self.half[:, i] @ self.half - reductions[:, i] @ reductions
        pivot = math.sqrt(noise + max(float(covariance[i]), 0.0))
        self.root[b, :b], self.root[b, b] = reductions[:, i], pivot
        self.added[:, b] = self.half[:, i]
        self.reductions[b] = covariance / pivot
        self.variance = np.maximum(self.variance - self.reductions[b] ** 2, 0.0)
        self.count += 1
        return self._step(x, start / noise, now / noise)

    def _make_room(self) -> None:
        """Double the size of the arrays of points that are added."""
        b = self.count
        self.reductions = np.concatenate([self.reductions, np.empty_like(self.reductions)])
        self.added = np.concatenate([self.added, np.empty_like(self.added)], axis=1)
        root = np.empty((2 * b, 2 * b))
        root[:b, :b] = self.root
        self.root = root

    def _start_variance(self) -> Array:
        return np.asarray(self.start.variance)


@dataclass
class PriorFantasy(FantasyModel):
    """A fantasy of many candidates before the first reward, whose bounds all tie.

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
        """Return a candidate (d,) at random."""
        rows = rng.integers(len(self.domain if self.free is None else self.free), size=1)
        rows = rows if self.free is None else self.free[rows]
        X = self.domain.points_at(rows)
        self.domain._remember(rows, X)
        return np.asarray(X[0].copy())

    def variances(self, X: Array) -> Array:
        """Return the prior variances (m,) at points (m, d)."""
        return np.asarray(self.prior.kernel.diag(self.inputs(X)))

    def add(self, x: Array) -> BatchStep:
        """Return the step of `x`, which is in no dictionary yet ([BB] Algorithm 1, L2)."""
        ratio = float(self.variances(x[None, :])[0]) / self.noise
        return self._step(x, ratio, ratio)


@dataclass
class PlainFantasy(FantasyModel):
    """A fantasy for any posterior and domain, which computes all bounds for every point of a batch."""

    def __post_init__(self) -> None:
        self.now = self.start

    def best(self, rng: np.random.Generator) -> Array:
        """Return the point (d,) of the largest upper confidence bound."""
        smooth = (
            None if self.upper.smooth is None else self.upper.smooth(self.now, self.upper.times)
        )
        x, self.largest = self.domain.maximize(self.bounds if smooth is None else smooth, rng)
        return x

    def variances(self, X: Array) -> Array:
        """Return the present variances (m,) at points (m, d)."""
        if self.grid is not None and X is self.grid.points:
            return np.asarray(self.now.predict(self.grid)[1])
        return np.asarray(self.now.predict(self.inputs(X))[1])

    def add(self, x: Array) -> BatchStep:
        """Shrink the variances as if `x` had been observed; return the step."""
        z = self.inputs(x[None, :])
        start, now = (float(p.predict(z)[1][0]) for p in (self.start, self.now))
        self.now = self.now.fantasize(z, self.noise, self.grid)
        return self._step(x, start / self.noise, now / self.noise)

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if points (k, d) had been observed with noise (k,)."""
        self.now = self.now.fantasize(self.inputs(X), noise, self.grid)


@dataclass
class JointFantasy(FantasyModel):
    """A fantasy for a sparse posterior that also lowers variances outside of the dictionary's span.

    With the present covariance c, an observation of f(p) with noise variance v lowers the variance to
    var(x) - c(x, p)^2 / (var(p) + v), also where x and p are far from the dictionary, whose own update
    would not change the variance there.
    """

    def __post_init__(self) -> None:
        # The inputs that were added, and the lower factor L of their covariance; or on candidates the
        # variances, and L^-1 c(added, candidates).
        self.added = self.inputs(np.empty((0, self.domain.dimension)))
        self.factor = np.empty((0, 0))
        finite = self.grid is not None
        self.variance = self.start.predict(self.grid)[1].copy() if finite else np.empty(0)
        self.reductions = AppendBuffer.of(np.empty((0, len(self.variance))))

    def add(self, x: Array) -> BatchStep:
        """Shrink the variances as if `x` had been observed; return the step."""
        z = self.inputs(x[None, :])
        start = float(self.start.predict(z)[1][0])
        if self.grid is None:
            rows = self._solve(z)
        else:
            assert isinstance(self.domain, Candidates)  # a grid is of candidates
            rows = self.reductions.array[:, self.domain.index(x[None, :])]
        (now,) = self._observe_jointly(z, np.array([self.noise]), rows)
        return self._step(x, start / self.noise, float(now) / self.noise)

    def observe(self, X: Array, noise: Array) -> None:
        """Shrink the variances as if points (k, d) had been observed with noise (k,)."""
        Z = self.inputs(X)
        merged = Groups.of(Z).merge(Data(Z, np.empty((len(Z), 0)), noise))
        self._observe_jointly(merged.Z, merged.variance, self._solve(merged.Z))

    def _observe_jointly(self, Z: Array, noise: Array, rows: Array) -> Array:
        """Add inputs Z (k, p) together, whose L^-1 c(added, Z) is `rows`.

        Returns their variances (k,) before that.
        """
        joint = self.start.covariance(Z, Z) - rows.T @ rows
        variance = np.maximum(self.start.predict(Z)[1] - (rows**2).sum(axis=0), 0.0)
        np.fill_diagonal(joint, variance + noise)
        root = linalg.cholesky(joint, "covariance of pending points").L
        if self.grid is not None:
            covariance = self.start.covariance(Z, self.grid)
            reductions = linalg.solve_lower(root, covariance - rows.T @ self.reductions.array)
            for row in reductions:
                self.reductions = self.reductions.append(row)
            self.variance = np.maximum(self.variance - (reductions**2).sum(axis=0), 0.0)
            return np.asarray(variance)
        n, k = len(self.added), len(Z)
        factor = np.zeros((n + k, n + k))
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = self.factor, rows.T, root
        self.factor, self.added = factor, np.concatenate([self.added, Z])
        return np.asarray(variance)

    def _solve(self, Z: Array) -> Array:
        """Return L^-1 c(added, Z), shape (k, n)."""
        if len(self.added) == 0:
            return np.empty((0, len(Z)))
        return linalg.solve_lower(self.factor, self.start.covariance(self.added, Z))

    def variances(self, X: Array) -> Array:
        """Return the present variances (m,) at points (m, d) of the domain."""
        if self.grid is not None:
            if X is self.grid.points:
                return self.variance
            assert isinstance(self.domain, Candidates)  # a grid is of candidates
            return self.variance[self.domain.index(X)]
        Z = self.inputs(X)
        variance = self.start.predict(Z)[1] - (self._solve(Z) ** 2).sum(axis=0)
        return np.asarray(np.maximum(variance, 0.0))

"""A sum of terms amplitude * space * time as a state that moves in time.

Every term is a vector of independent processes in time, one for each feature of its space kernel:
with features phi(x), phi(x)^T phi(x') = space(x, x'), it is f(x, t) = phi(x)^T s(t), where s moves
by the linear stochastic differential equation of the time kernel ([HS] = Hartikainen & Sarkka 2010,
docs/references.md). The sum is one state of fixed size.

Features are a pivoted Cholesky root on the candidates (or on anchors of a domain that is not
finite). Where they end before the kernel does, what a point keeps of its own variance is left out.

A term is a product of constants, of kernels over points (`OnSpace`), and of at most one kernel over
time: a Matern kernel of nu = 1/2 or 3/2 (`OnTime`) or `Drift`. What is left out is constant: a term
without a space part is a level that all points share, one without a time part never changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import mul
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern

from tvbandits.gp import linalg
from tvbandits.gp.kernels.matern import matern32_rate, matern32_transition
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, products_of
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class Term:
    """amplitude * space(x, x') * time(t, t').

    Attributes
    ----------
    amplitude : float
        Product of the constants.
    space : scikit-learn kernel or None
        Over points; None: constant.
    time : scikit-learn kernel or None
        A Matern kernel over times (n, 1), or a `Drift` over [x, t]; None: constant.
    """

    amplitude: float
    space: Any | None
    time: Any | None

    @property
    def order(self) -> int:
        """Numbers that the state of one feature has: 1, or 2 for a Matern-3/2 kernel over time."""
        return 2 if isinstance(self.time, Matern) and self.time.nu == 1.5 else 1

    @property
    def time_scale(self) -> float:
        """Length scale in time, in which a correlation falls to 1/e (nu = 1/2); infinite if static."""
        if self.time is None:
            return math.inf
        if isinstance(self.time, Drift):
            rate = -0.5 * math.log1p(-self.time.epsilon)
            return 1.0 / rate if rate > 0 else math.inf
        return float(np.asarray(self.time.length_scale).item())

    @property
    def at_one_time(self) -> Any:
        """The kernel over points of one time, where there is one over points."""
        return self.space if self.amplitude == 1.0 else ConstantKernel(self.amplitude) * self.space

    def prior(self) -> tuple[float, ...]:
        """Variance of the state of one feature: of its value, and for order 2 of its derivative."""
        if self.order == 1:
            return (self.amplitude,)
        return self.amplitude, self.amplitude * matern32_rate(self.time_scale) ** 2

    def transition(self, h: float) -> Array:
        """Expected state after a time h >= 0, as a matrix (order, order) times the state now."""
        if self.order == 1:
            return np.array([[math.exp(-h / self.time_scale) if h else 1.0]])
        rate = matern32_rate(self.time_scale)
        value, up, down, derivative = matern32_transition(rate, h, math.exp(-rate * h))
        return np.array([[value, up], [down, derivative]])


def terms_of(kernel: Kernel) -> tuple[Term, ...] | None:
    """The terms of a kernel over [x, t], or None where it is not a sum of such terms."""
    found = [_term([leaf.kernel for leaf in product]) for product in products_of(kernel)]
    return None if any(term is None for term in found) else tuple(t for t in found if t is not None)


def _term(factors: list[Kernel]) -> Term | None:
    amplitude, space, time = 1.0, [], []
    for factor in factors:
        # Exact types: a subclass may have redefined the formula that is relied on here.
        if type(factor) is ConstantKernel:
            amplitude *= float(factor.constant_value)
        elif type(factor) is OnSpace:
            space.append(factor.kernel)
        elif type(factor) is Drift:
            time.append(factor)
        elif type(factor) is OnTime and _is_matern(factor.kernel):
            time.append(factor.kernel)
        else:
            return None
    if len(time) > 1:
        return None
    return Term(amplitude, reduce(mul, space) if space else None, time[0] if time else None)


def _is_matern(kernel: Kernel) -> bool:
    return type(kernel) is Matern and kernel.nu in (0.5, 1.5) and np.size(kernel.length_scale) == 1


@dataclass(frozen=True)
class FeatureConfig:
    """The constants of features.

    Attributes
    ----------
    tolerance : float
        Features end when no point keeps more than this share of its prior variance.
    largest_rank : int
        Features of a term at the most.
    """

    tolerance: float = 1e-4
    largest_rank: int = 96


CONFIG = FeatureConfig()


def spanned(kernel: Kernel, points: Array, rank: int, share: float) -> linalg.PivotedCholesky:
    """The pivoted Cholesky factor of a kernel matrix on points (n, d), of so many rows at the most.

    It ends where no point keeps more than a share of the largest prior variance.
    """
    prior = np.asarray(kernel.diag(points), dtype=np.float64)

    def column(i: int) -> Array:
        return np.asarray(kernel(points[i : i + 1], points)[0], dtype=np.float64)

    least = share * float(prior.max(initial=0.0))
    return linalg.pivoted_cholesky(prior, column, min(rank, len(points)), least)


@dataclass(frozen=True)
class Features:
    """A root of a space kernel: phi(x) = R^-1 k(pivots, x).

    Attributes
    ----------
    kernel : scikit-learn kernel or None
        None: constant, with the one feature 1.
    pivots : array of shape (r, d)
    root : array of shape (r, r)
        Lower triangle R with R R^T = k(pivots, pivots).
    """

    kernel: Any | None
    pivots: Array
    root: Array

    @classmethod
    def of(
        cls,
        kernel: Any | None,
        points: Array,
        tolerance: float = CONFIG.tolerance,
        largest: int = CONFIG.largest_rank,
    ) -> Features:
        """Make features by pivoted Cholesky on `points` (A, d)."""
        if kernel is None:
            return cls(None, points[:0], np.empty((0, 0)))
        pivoted = spanned(kernel, points, largest, tolerance)
        root = np.asfortranarray(np.tril(pivoted.G[:, pivoted.pivots].T))
        return cls(kernel, points[pivoted.pivots], root)

    @classmethod
    def in_order(cls, kernel: Any, points: Array, tolerance: float) -> Features:
        """Make features of `points` (n, d), one after the other.

        A point becomes a pivot if those before it leave more than a share `tolerance` of its prior
        variance: more points change nothing about the features so far, to the last bit.
        """
        pivots, root = points[:0], np.empty((0, 0))
        for x in points[:, None]:
            row, prior = np.empty(0), float(kernel.diag(x)[0])
            if len(pivots):
                row = linalg.solve_lower(root, np.asarray(kernel(pivots, x))[:, 0])
            residual = prior - float(row @ row)
            if residual > tolerance * prior:
                grown = np.zeros((len(row) + 1, len(row) + 1), order="F")
                grown[:-1, :-1], grown[-1, :-1], grown[-1, -1] = root, row, math.sqrt(residual)
                pivots, root = np.concatenate([pivots, x]), grown
                if len(pivots) == CONFIG.largest_rank:
                    break
        return cls(kernel, pivots, root)

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return features (n, r), and the variance (n,) that they leave out."""
        if self.kernel is None:
            return np.ones((len(X), 1)), np.zeros(len(X))
        phi = linalg.solve_lower(self.root, np.asarray(self.kernel(self.pivots, X))).T
        residual = np.asarray(self.kernel.diag(X)) - np.einsum("ij,ij->i", phi, phi)
        return phi, np.maximum(residual, 0.0)


@dataclass(frozen=True)
class SpaceFeatures:
    """The state of all terms: the rows that observe it, how it moves, and its prior.

    The state of a term of order p with r features are p blocks of r numbers: values, then derivatives.

    Attributes
    ----------
    terms : tuple of Term
    features : tuple of Features
        Of each term.
    starts : tuple of int
        Where the state of each term begins.
    prior : array of shape (m,)
        Its variances; the prior covariance is diagonal.
    """

    terms: tuple[Term, ...]
    features: tuple[Features, ...]
    starts: tuple[int, ...]
    prior: Array

    @classmethod
    def of(
        cls,
        terms: tuple[Term, ...],
        points: Array,
        tolerance: float = CONFIG.tolerance,
        largest: int = CONFIG.largest_rank,
    ) -> SpaceFeatures:
        """Make the state of some terms, with features on `points` (A, d)."""
        by_kernel: dict[str, Features] = {}
        features, starts, prior = [], [], []
        at = 0
        for term in terms:
            key = repr((term.space, None if term.space is None else term.space.theta.tobytes()))
            if key not in by_kernel:
                by_kernel[key] = Features.of(term.space, points, tolerance, largest)
            each = by_kernel[key]
            features.append(each)
            starts.append(at)
            rank = max(len(each.pivots), 1) if term.space is None else len(each.pivots)
            for variance in term.prior():
                prior.append(np.full(rank, variance))
                at += rank
        return cls(terms, tuple(features), tuple(starts), np.concatenate(prior))

    def spans(self, X: Array, share: float) -> bool:
        """Return whether points (n, d) keep no more than a share of their prior variance.

        True, too, where there are as many features as there may be: more would not be made.
        """
        if any(len(each.pivots) >= CONFIG.largest_rank for each in self.features):
            return True
        prior = sum(t.amplitude * np.asarray(t.space.diag(X)) for t in self.terms if t.space)
        return bool((self.observe(X)[1] <= share * prior).all())

    def observe(self, X: Array) -> tuple[Array, Array]:
        """Return rows (n, m) that observe the state at points (n, d), and the residual variance (n,)."""
        H, residual = np.zeros((len(X), len(self.prior))), np.zeros(len(X))
        values: dict[int, tuple[Array, Array]] = {}
        for term, features, start in zip(self.terms, self.features, self.starts, strict=True):
            if id(features) not in values:
                values[id(features)] = features(X)
            phi, rest = values[id(features)]
            H[:, start : start + phi.shape[1]] = phi
            residual += term.amplitude * rest
        return H, residual

    def propagate(self, M: Array, h: float) -> Array:
        """Return a matrix (m, n) of states after a time h >= 0, without what is new by then."""
        if h == 0:
            return M
        own, others, partner = self.transition(h)
        # In rows, whatever the order of M: rounding must not depend on what came before.
        out = np.multiply(own, M, order="C")
        if others is not None:
            out += others * M[partner]
        return out

    def predict(self, mean: Array, P: Array, h: float) -> tuple[Array, Array]:
        """Return mean (m, c) and covariance (m, m) of the state after a time h >= 0.

        An infinite time stands for the first one, before which there is only the prior.
        """
        if h == 0 or math.isinf(h):
            return mean, P
        # P is the stationary prior less what observations explain: only the latter moves.
        explained = -P
        diagonal = np.einsum("ii->i", explained)
        diagonal += self.prior  # of `explained`: it is a view
        after = -self.propagate(self.propagate(explained, h).T, h)
        diagonal = np.einsum("ii->i", after)
        diagonal += self.prior
        return self.propagate(mean, h), after

    def transition(self, h: float) -> tuple[Array, Array | None, Index]:
        """Return what a state keeps of itself (m, 1), takes of its partner (m, 1), and its partner (m,).

        Of a value the partner is its derivative, and the other way round; None where no term has
        derivatives. The latest is remembered, since most steps are equally long.
        """
        if self._latest and self._latest[0][0] == h:
            return self._latest[0][1]
        m = len(self.prior)
        own, others, partner = np.ones((m, 1)), np.zeros((m, 1)), np.arange(m)
        ends = (*self.starts[1:], m)
        for term, start, end in zip(self.terms, self.starts, ends, strict=True):
            if term.time is None:
                continue
            step = term.transition(h) if math.isfinite(h) else np.zeros((term.order,) * 2)
            middle = start + (end - start) // term.order
            own[start:middle], own[middle:end] = step[0, 0], step[-1, -1]
            if term.order == 2:
                others[start:middle], others[middle:end] = step[0, 1], step[1, 0]
                partner[start:end] = np.r_[middle:end, start:middle]
        transition = own, (others if others.any() else None), partner
        self._latest[:] = [(h, transition)]
        return transition

    @cached_property
    def _latest(self) -> list[tuple[float, tuple[Array, Array | None, Index]]]:
        return []

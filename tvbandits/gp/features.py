"""Represent a sum of terms amplitude * space * time by a state that evolves in time.

A term is a vector of independent processes in time, one for each feature of its space kernel: with
features phi(x)^T phi(x') = space(x, x') it is f(x, t) = phi(x)^T s(t), where s follows the linear
stochastic differential equation of the time kernel ([HS] = Hartikainen & Sarkka 2010,
docs/references.md). The states of all terms together are one state of fixed size.

Features come from a pivoted Cholesky root on the candidates, or on anchors if the domain is not finite.
If they do not span a point, the residual variance of the point is left out of the state.

A term is a product of constants, of kernels over points (`OnSpace`), and of at most one kernel over
time: a Matern kernel of nu = 1/2 or 3/2 (`OnTime`) or `Drift`. A missing factor is constant: a term
without a kernel over points is a level that all points share, and one without a kernel over time never
changes.
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
    """A term amplitude * space(x, x') * time(t, t') of a kernel.

    Attributes
    ----------
    amplitude : float
        Product of the constants.
    space : scikit-learn kernel or None
        The kernel over points; None if it is constant.
    time : scikit-learn kernel or None
        A Matern kernel over times (n, 1), or a `Drift` over [x, t]; None if it is constant.
    """

    amplitude: float
    space: Any | None
    time: Any | None

    @property
    def order(self) -> int:
        """Return the dimension of one feature's state: 1, or 2 for a Matern-3/2 kernel over time."""
        return 2 if isinstance(self.time, Matern) and self.time.nu == 1.5 else 1

    @property
    def time_scale(self) -> float:
        """Return the length scale in time (correlation 1/e for nu = 1/2); infinite if static."""
        if self.time is None:
            return math.inf
        if isinstance(self.time, Drift):
            rate = -0.5 * math.log1p(-self.time.epsilon)
            return 1.0 / rate if rate > 0 else math.inf
        return float(np.asarray(self.time.length_scale).item())

    @property
    def at_one_time(self) -> Any:
        """Return the kernel between points at one time; the term must have a kernel over points."""
        return self.space if self.amplitude == 1.0 else ConstantKernel(self.amplitude) * self.space

    def prior(self) -> tuple[float, ...]:
        """Return the prior variances of one feature's value and, for order 2, of its derivative."""
        if self.order == 1:
            return (self.amplitude,)
        return self.amplitude, self.amplitude * matern32_rate(self.time_scale) ** 2

    def transition(self, h: float) -> Array:
        """Return the transition matrix (order, order) of one feature's state over a time h >= 0."""
        if self.order == 1:
            return np.array([[math.exp(-h / self.time_scale) if h else 1.0]])
        rate = matern32_rate(self.time_scale)
        value, up, down, derivative = matern32_transition(rate, h, math.exp(-rate * h))
        return np.array([[value, up], [down, derivative]])


def terms_of(kernel: Kernel) -> tuple[Term, ...] | None:
    """Return the terms of a kernel over [x, t]; None if it is not a sum of such terms."""
    terms = [_term_of([leaf.kernel for leaf in product]) for product in products_of(kernel)]
    return None if any(term is None for term in terms) else tuple(t for t in terms if t is not None)


def _term_of(factors: list[Kernel]) -> Term | None:
    """Return the term that is the product of these kernels; None if it is not of that form."""
    amplitude, space, time = 1.0, [], []
    for factor in factors:
        # Subclasses are not accepted, since they may have another formula.
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
    """Return whether it is a Matern kernel of nu = 1/2 or 3/2 with one length scale."""
    return type(kernel) is Matern and kernel.nu in (0.5, 1.5) and np.size(kernel.length_scale) == 1


@dataclass(frozen=True)
class FeatureConfig:
    """Constants of features.

    Attributes
    ----------
    tolerance : float
        Features are added until no residual variance exceeds this fraction of the prior variance.
    largest_rank : int
        The largest number of features of a term.
    """

    tolerance: float = 1e-4
    largest_rank: int = 96


CONFIG = FeatureConfig()


def pivoted_kernel_cholesky(
    kernel: Kernel, points: Array, rank: int, tolerance: float
) -> linalg.PivotedCholesky:
    """Return the pivoted Cholesky factor, of at most `rank` rows, of a kernel matrix on points (n, d).

    It stops when no residual variance exceeds `tolerance` times the largest prior variance.
    """
    prior = np.asarray(kernel.diag(points), dtype=np.float64)

    def column(i: int) -> Array:
        return np.asarray(kernel(points[i : i + 1], points)[0], dtype=np.float64)

    smallest = tolerance * float(prior.max(initial=0.0))
    return linalg.pivoted_cholesky(prior, column, min(rank, len(points)), smallest)


@dataclass(frozen=True)
class Features:
    """The features phi(x) = R^-1 k(pivots, x) of a kernel over points.

    Attributes
    ----------
    kernel : scikit-learn kernel or None
        None for a constant kernel, whose only feature is 1.
    pivots : array of shape (r, d)
        The points on which the features are based.
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
        """Return features by pivoted Cholesky on `points` (A, d), at most `largest` of them."""
        if kernel is None:
            return cls(None, points[:0], np.empty((0, 0)))
        pivoted = pivoted_kernel_cholesky(kernel, points, largest, tolerance)
        root = np.asfortranarray(np.tril(pivoted.G[:, pivoted.pivots].T))
        return cls(kernel, points[pivoted.pivots], root)

    @classmethod
    def in_order(cls, kernel: Any, points: Array, tolerance: float) -> Features:
        """Return features on `points` (n, d), which are processed in their order.

        A point becomes a pivot if the earlier pivots leave more than the fraction `tolerance` of its
        prior variance. Later points do not change the features of earlier ones, to the last bit.
        """
        pivots, root = points[:0], np.empty((0, 0))
        for x in points[:, None]:
            row, prior = np.empty(0), float(kernel.diag(x)[0])
            if len(pivots):
                row = linalg.solve_lower(root, np.asarray(kernel(pivots, x))[:, 0])
            residual = prior - float(row @ row)
            if residual > tolerance * prior:
                larger = np.zeros((len(row) + 1, len(row) + 1), order="F")
                larger[:-1, :-1], larger[-1, :-1], larger[-1, -1] = root, row, math.sqrt(residual)
                pivots, root = np.concatenate([pivots, x]), larger
                if len(pivots) == CONFIG.largest_rank:
                    break
        return cls(kernel, pivots, root)

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return the features (n, r) of points (n, d) and the variances (n,) that they leave out."""
        if self.kernel is None:
            return np.ones((len(X), 1)), np.zeros(len(X))
        phi = linalg.solve_lower(self.root, np.asarray(self.kernel(self.pivots, X))).T
        residual = np.asarray(self.kernel.diag(X)) - np.einsum("ij,ij->i", phi, phi)
        return phi, np.maximum(residual, 0.0)


@dataclass(frozen=True)
class SpaceFeatures:
    """The state-space model of all terms: prior, transition and observation of their joint state.

    The state of a term of order p with r features is p blocks of r components: first the values, then
    the derivatives.

    Attributes
    ----------
    terms : tuple of Term
    features : tuple of Features
        The features of each term.
    starts : tuple of int
        The index of the first component of each term.
    prior : array of shape (m,)
        Prior variances of the state; the prior covariance is diagonal.
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
        """Return the model of the terms, with features on `points` (A, d)."""
        features_by_kernel: dict[str, Features] = {}
        features, starts, prior = [], [], []
        size = 0
        for term in terms:
            key = repr((term.space, None if term.space is None else term.space.theta.tobytes()))
            if key not in features_by_kernel:
                features_by_kernel[key] = Features.of(term.space, points, tolerance, largest)
            phi = features_by_kernel[key]
            features.append(phi)
            starts.append(size)
            rank = max(len(phi.pivots), 1) if term.space is None else len(phi.pivots)
            for variance in term.prior():
                prior.append(np.full(rank, variance))
                size += rank
        return cls(terms, tuple(features), tuple(starts), np.concatenate(prior))

    def spans(self, X: Array, tolerance: float) -> bool:
        """Return whether the features leave at most `tolerance` of the prior variance at points (n, d).

        Also True if a term has the largest number of features, because no more would be added.
        """
        if any(len(phi.pivots) >= CONFIG.largest_rank for phi in self.features):
            return True
        prior = sum(t.amplitude * np.asarray(t.space.diag(X)) for t in self.terms if t.space)
        return bool((self.observe(X)[1] <= tolerance * prior).all())

    def observe(self, X: Array) -> tuple[Array, Array]:
        """Return the observation matrix (n, m) and residual variances (n,) at points (n, d)."""
        H, residual = np.zeros((len(X), len(self.prior))), np.zeros(len(X))
        values: dict[int, tuple[Array, Array]] = {}
        for term, features, start in zip(self.terms, self.features, self.starts, strict=True):
            if id(features) not in values:
                values[id(features)] = features(X)
            phi, phi_residual = values[id(features)]
            H[:, start : start + phi.shape[1]] = phi
            residual += term.amplitude * phi_residual
        return H, residual

    def propagate(self, M: Array, h: float) -> Array:
        """Return the expected states after a time h >= 0, from a matrix (m, n) of states."""
        if h == 0:
            return M
        diagonal, off_diagonal, partner = self.transition(h)
        # In row-major order whatever that of M, so that the rounding does not depend on the history.
        out = np.multiply(diagonal, M, order="C")
        if off_diagonal is not None:
            out += off_diagonal * M[partner]
        return out

    def predict(self, mean: Array, P: Array, h: float) -> tuple[Array, Array]:
        """Return mean (m, c) and covariance (m, m) of the state after a time h >= 0.

        For an infinite h the state is that of the prior, and stays unchanged.
        """
        if h == 0 or math.isinf(h):
            return mean, P
        # P is the stationary prior minus the explained covariance, and only the latter changes in time.
        explained = -P
        diagonal = np.einsum("ii->i", explained)
        diagonal += self.prior  # `diagonal` is a view of `explained`
        covariance = -self.propagate(self.propagate(explained, h).T, h)
        diagonal = np.einsum("ii->i", covariance)
        diagonal += self.prior
        return self.propagate(mean, h), covariance

    def transition(self, h: float) -> tuple[Array, Array | None, Index]:
        """Return the sparse transition matrix over a time h >= 0.

        The partner of a value is its derivative, and conversely. The latest result is stored, since
        most steps are equally long.

        Returns
        -------
        diagonal : array of shape (m, 1)
            The coefficients of the components themselves.
        off_diagonal : array of shape (m, 1) or None
            The coefficients of their partners; None if no term has derivatives.
        partner : integer array of shape (m,)
            The index of each component's partner.
        """
        if self._latest and self._latest[0][0] == h:
            return self._latest[0][1]
        m = len(self.prior)
        diagonal, off_diagonal, partner = np.ones((m, 1)), np.zeros((m, 1)), np.arange(m)
        ends = (*self.starts[1:], m)
        for term, start, end in zip(self.terms, self.starts, ends, strict=True):
            if term.time is None:
                continue
            step = term.transition(h) if math.isfinite(h) else np.zeros((term.order,) * 2)
            middle = start + (end - start) // term.order
            diagonal[start:middle], diagonal[middle:end] = step[0, 0], step[-1, -1]
            if term.order == 2:
                off_diagonal[start:middle], off_diagonal[middle:end] = step[0, 1], step[1, 0]
                partner[start:end] = np.r_[middle:end, start:middle]
        transition = diagonal, (off_diagonal if off_diagonal.any() else None), partner
        self._latest[:] = [(h, transition)]
        return transition

    @cached_property
    def _latest(self) -> list[tuple[float, tuple[Array, Array | None, Index]]]:
        """Return the list with the latest time and its transition, empty at first."""
        return []

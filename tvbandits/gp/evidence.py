"""Compute the log evidence of a kernel and its gradient, and maximize it over hyperparameters.

`Evidence` and `log_evidence` return the evidence of observations under a kernel and its exact gradient,
and `fit` returns the kernel of the largest evidence. `information_gains` returns the greedy maximum
information gain gamma_T (Srinivas et al. 2010, docs/references.md).

Kernels over points are evaluated at the distinct points only, kernels over time at the distinct times,
and the terms are computed from these matrices. Fitting is therefore cheap while a bandit runs: a network
has few sites, and several readings share one time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from tvbandits.data import Dataset
from tvbandits.domains.space_kernel import PerParameter
from tvbandits.gp import linalg
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.matern import SLOPED, VALUES, Coordinates, sum_columns
from tvbandits.gp.kernels.space_time import Drift, Leaf, OnSpace, Terms, leaves_of
from tvbandits.gp.kernels.units import InUnits
from tvbandits.gp.linalg import FactorisationError, cholesky, log_determinant, solve_lower
from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index


@dataclass(frozen=True)
class EvidenceConfig:
    """Constants of the evidence.

    Attributes
    ----------
    mean_variance : float
        Prior variance of the mean of standardised values, which is integrated out.
    penalty : float
        Value of hyperparameters whose matrix has no Cholesky factor, added to twice the highest so far.
    smallest_residual : float
        A point adds a feature if its residual variance exceeds this fraction of the largest variance.
    """

    mean_variance: float = 1.0
    penalty: float = 1e10
    smallest_residual: float = 1e-12


CONFIG = EvidenceConfig()


@dataclass(eq=False)
class Evidence:
    """The negative log posterior density of hyperparameters, as a function of them.

    The values have the distribution N(0, K + constant + diag(variance)), where the constant accounts for
    an unknown mean. The prior of the hyperparameters is log-normal.

    Parameters
    ----------
    kernel : scikit-learn kernel
        A kernel over points, or over [x, t].
    sample : Dataset
        The observations.
    values : array of shape (n,)
        Standardised values of the observations.
    variance : array of shape (n,)
        Noise variances of the standardised values.
    prior : array of shape (p,)
        Logarithms of the prior medians of the hyperparameters, as in `kernel.theta`.
    spread : float or array of shape (p,)
        Prior deviations of the logarithms; infinite for no prior.
    terms : as of `leaves_of`, optional
        The terms of the kernel, if the caller has them.
    """

    kernel: Any
    sample: Dataset
    values: Array
    variance: Array
    prior: Array
    spread: Array | float
    terms: Terms | None = None
    highest: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.terms = leaves_of(self.kernel) if self.terms is None else self.terms
        points, point_index = np.unique(self.sample.X, axis=0, return_inverse=True)
        times, time_index = np.unique(self.sample.t, return_inverse=True)
        over_points = _Distinct.of(points, point_index)
        over_times = _Distinct.of(times[:, None], time_index)
        self.factors = [
            [_Factor.of(leaf, over_points, over_times) for leaf in term]
            for term in self.terms or ()
        ]

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return value and gradient at `theta`; a penalty if the matrix has no Cholesky factor."""
        try:
            value, gradient = self._negative_log_evidence(theta)
        except FactorisationError:
            # The line search takes a shorter step after a value above all others.
            return CONFIG.penalty + 2.0 * self.highest, np.zeros_like(theta)
        self.highest = max(self.highest, abs(value))
        deviation = (theta - self.prior) / self.spread
        return value + 0.5 * float(deviation @ deviation), gradient + deviation / self.spread

    def _negative_log_evidence(self, theta: Array) -> tuple[float, Array]:
        """Return the negative log evidence and its gradient."""
        if self.terms is None:
            kernel = self.kernel.clone_with_theta(theta) + ConstantKernel(
                CONFIG.mean_variance, "fixed"
            )
            Z = inputs(self.kernel, self.sample.X, self.sample.t)
            value, gradient = log_evidence(kernel, Z, self.values, self.variance)
            return -value, -gradient
        cache: dict[tuple[int, int], _Part] = {}  # several terms may have the same factor
        parts = [[factor.at(theta, cache) for factor in term] for term in self.factors]
        products = [_product([part.matrix for part in term]) for term in parts]
        amplitudes = [math.prod(part.amplitude for part in term) for term in parts]
        n = len(self.values)
        K = np.full((n, n), CONFIG.mean_variance)
        for amplitude, product in zip(amplitudes, products, strict=True):
            K += amplitude * product
        K[np.diag_indices(n)] += self.variance
        L = linalg.cholesky(K).L
        weights = linalg.solve_lower(L, linalg.solve_lower(L, self.values), transposed=True)
        value = 0.5 * float(self.values @ weights) + 0.5 * linalg.log_determinant(L)
        # W is only multiplied by symmetric matrices, so twice the triangle of the inverse suffices.
        W = 2.0 * linalg.inverse_lower(L).T
        W[np.diag_indices(n)] *= 0.5
        W -= np.outer(weights, weights)
        gradient = np.zeros_like(theta)
        for term, term_parts, amplitude, product in zip(
            self.factors, parts, amplitudes, products, strict=True
        ):
            for i, (factor, part) in enumerate(zip(term, term_parts, strict=True)):
                own = factor.leaf.where
                if own.start == own.stop:
                    continue
                if part.gradient is None:
                    # The derivative of the amplitude; the product of a term of constants is 1.
                    slope = float(np.vdot(W, product)) if np.ndim(product) else float(W.sum())
                    gradient[own] += 0.5 * amplitude * slope
                    continue
                others = _product([other.matrix for j, other in enumerate(term_parts) if j != i])
                gradient[own] += 0.5 * amplitude * part.gradient(W * others)
        return value + 0.5 * n * math.log(2.0 * math.pi), gradient


def _product(matrices: Sequence[Array | None]) -> Array | float:
    """Return the product of the matrices that are not None; 1 if there is none."""
    present = [matrix for matrix in matrices if matrix is not None]
    return reduce(np.multiply, present) if present else 1.0


@dataclass(frozen=True)
class _Distinct:
    """The distinct points or times of the observations.

    Attributes
    ----------
    Z : array of shape (m, d)
        The distinct rows.
    index : array of shape (n,)
        The row number of each observation.
    pairs : array of shape (n * n,) or None
        The number of the pair of rows of each pair of observations; None if each observation has its
        own row, in order.
    distances : array of shape (q,)
        Distances between rows.
    distance_index : array of shape (n * n,) or None
        The number of the distance of each pair of observations; None if distances are in that order.
    """

    Z: Array
    index: Index
    pairs: Index | None
    distances: Array
    distance_index: Index | None

    @cached_property
    def upper(self) -> tuple[Index, Index]:
        """Return the row numbers (q,) and (q,) of all pairs of two distinct rows."""
        return np.triu_indices(len(self.Z), 1)

    @cached_property
    def differences(self) -> Array:
        """Return the absolute differences (d, q) of these pairs in each coordinate."""
        first, second = self.upper
        return np.abs(self.Z[first] - self.Z[second]).T.copy()

    @classmethod
    def of(cls, Z: Array, index: Index) -> _Distinct:
        """Return the value for distinct sorted rows and the row number of each observation."""
        index = index.ravel()
        m = len(Z)
        same = m == len(index) and bool((index == np.arange(m)).all())
        pairs = None if same else (index[:, None] * m + index).ravel()
        regular = _find_steps(Z)
        if regular is not None:
            step, number = regular
            distance_index = np.abs(number[index][:, None] - number[index]).ravel()
            return cls(Z, index, pairs, step * np.arange(number[-1] + 1.0), distance_index)
        differences = Z[:, None, :] - Z
        distances = np.sqrt(np.einsum("ijk,ijk->ij", differences, differences))
        return cls(Z, index, pairs, distances.ravel(), pairs)


def _find_steps(Z: Array) -> tuple[float, Index] | None:
    """Return a step and the sorted rows (m, 1) as whole multiples of it.

    None if there is no such step, or if the largest multiple is so large that it does not pay.
    """
    if Z.shape[1] != 1 or len(Z) < 2:
        return None
    z = Z[:, 0] - Z[0, 0]
    step = float(np.diff(z).min())
    if z[-1] >= step * len(Z) ** 2:  # also true if rounding makes two rows equal
        return None
    number = np.rint(z / step)
    if not (step * number == z).all():
        return None
    return step, number.astype(np.int64)


def _expand_pairs(values: Array, index: Index | None, n: int) -> Array:
    """Return the value of each pair of observations (n, n), from those of pairs or distances."""
    flat = values.ravel()
    return (flat if index is None else flat.take(index)).reshape(n, n)


def _contract(weights: Array, index: Index | None, slopes: Array) -> Array:
    """Return the sum over pairs of weight (n, n) times slope (q, p), for each hyperparameter."""
    flat: Array = weights.ravel()
    if index is not None:
        # Pairs of observations with the same pair of rows, or distance, have the same slopes.
        flat = np.asarray(np.bincount(index, flat, len(slopes)), dtype=np.float64)
    return np.asarray(flat @ slopes)


@dataclass(frozen=True)
class _Factor:
    """A leaf of a kernel with the distinct rows that it depends on.

    Attributes
    ----------
    leaf : Leaf
    rows : _Distinct
    nu : float or None
        The smoothness of a kernel with a single length scale.
    nus : float or None
        The smoothness of a kernel with a length scale for each coordinate. If both are None, the kernel
        is evaluated by scikit-learn.
    """

    leaf: Leaf
    rows: _Distinct
    nu: float | None = None
    nus: float | None = None

    @classmethod
    def of(cls, leaf: Leaf, points: _Distinct, times: _Distinct) -> _Factor:
        """Return the factor of a leaf over points or over times."""
        rows = points if type(leaf.kernel) is OnSpace else times
        inner: Any = getattr(leaf.kernel, "kernel", None)
        if type(inner) is InUnits:
            leaf = replace(leaf, kernel=OnSpace(inner.kernel))
            rows, inner = _Distinct.of(rows.Z / np.asarray(inner.units), rows.index), inner.kernel
        supported = type(inner) in (Coordinates, PerParameter, RBF, Matern)
        if not supported or any(h.fixed for h in inner.hyperparameters):
            return cls(leaf, rows)
        nu = 2.5 if type(inner) is Coordinates else float(getattr(inner, "nu", math.inf))
        if type(inner) in (Coordinates, PerParameter) or np.ndim(inner.length_scale):
            return cls(leaf, rows, nus=nu if nu in SLOPED else None)
        return cls(leaf, rows, nu if nu in VALUES else None)

    def at(self, theta: Array, cache: dict[tuple[int, int], _Part]) -> _Part:
        """Return amplitude, matrix and gradient at `theta`, or those in the cache for its entries."""
        key = (self.leaf.where.start, self.leaf.where.stop)
        if key[0] == key[1]:
            return self._constant_part
        if key not in cache:
            cache[key] = self._compute(theta)
        return cache[key]

    @cached_property
    def _constant_part(self) -> _Part:
        """Return the part of a leaf without hyperparameters."""
        return self._compute(np.empty(0))

    def _compute(self, theta: Array) -> _Part:
        """Compute amplitude, matrix and gradient at `theta`."""
        kernel, rows, n = self.leaf.kernel, self.rows, len(self.rows.index)
        if type(kernel) is ConstantKernel:
            own = theta[self.leaf.where]
            return _Part(math.exp(own[0]) if len(own) else float(kernel.constant_value))
        if self.nus is not None:
            return self._by_coordinates(theta[self.leaf.where], SLOPED[self.nus])
        if self.nu is not None:
            r = rows.distances * math.exp(-theta[self.leaf.where][0])
            if self.nu in SLOPED:
                values, slope = SLOPED[self.nu](r)
                slope = r * r * slope
            else:
                values = VALUES[self.nu](r)
                slope = r * values
            index, slopes = rows.distance_index, slope[:, None]
            matrix = _expand_pairs(values, index, n)
            return _Part(1.0, matrix, lambda weights: _contract(weights, index, slopes))
        kernel = self.leaf.at(theta)
        inner = kernel if type(kernel) is Drift else kernel.kernel
        matrix, derivatives = inner(rows.Z, eval_gradient=True)
        flat = np.asarray(derivatives).reshape(len(rows.Z) ** 2, -1)
        matrix = _expand_pairs(np.asarray(matrix), rows.pairs, n)
        return _Part(1.0, matrix, lambda weights: _contract(weights, rows.pairs, flat))

    def _by_coordinates(self, own: Array, profile: Profile) -> _Part:
        """Return the part of a kernel with a length scale for each coordinate or group of coordinates.

        It is computed from pairs of two distinct rows, since a row has correlation 1 with itself.
        """
        inner, rows = self.leaf.kernel.kernel, self.rows
        m, upper = len(rows.Z), rows.upper
        additive = float(math.exp(own[0])) if type(inner) is Coordinates else 0.0
        by_parameter = type(inner) is PerParameter
        widths = tuple(width for _, width in inner.parts) if by_parameter else _widths_of(inner)
        scales = np.exp(own[1:] if additive else own)
        r = rows.differences / np.repeat(scales, widths or 1)[:, None]
        squares = r * r
        joint, slope = profile(np.sqrt(squares.sum(axis=0)))
        squares = sum_columns(squares, widths)
        values, slopes = joint, slope[None]
        if additive:
            single, single_slopes = profile(np.sqrt(squares) if widths else r)
            mean = single.mean(axis=0)
            values = (joint + additive * mean) / (1.0 + additive)
            slopes = (slope + (additive / len(single)) * single_slopes) / (1.0 + additive)
        matrix = np.ones((m, m))
        matrix[upper] = values
        matrix.T[upper] = values

        def gradient(weights: Array) -> Array:
            if rows.pairs is not None:
                sums = np.bincount(rows.pairs, weights.ravel(), m * m).reshape(m, m)
                weights = np.asarray(sums, dtype=np.float64)
            pair_weights = weights[upper] + weights.T[upper]
            of_scales = np.einsum("jq,jq->j", squares, pair_weights * slopes)
            if not additive:
                return np.asarray(of_scales)
            of_additive = float(pair_weights @ (mean - joint)) * additive / (1.0 + additive) ** 2
            return np.concatenate([[of_additive], of_scales])

        return _Part(1.0, _expand_pairs(matrix, rows.pairs, len(rows.index)), gradient)


def _widths_of(kernel: Any) -> tuple[int, ...]:
    """Return the numbers of columns that share a length scale; empty if each column has its own."""
    return kernel.widths if type(kernel) is Coordinates else ()


# A function that returns the correlations at distances r, and -1/r times their derivatives.
Profile = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class _Part:
    """A factor at some hyperparameters: amplitude, matrix (n, n), and gradient for given weights."""

    amplitude: float
    matrix: Array | None = None
    gradient: Callable[[Array], Array] | None = None


def log_evidence(
    kernel: Kernel, Z: Array, y: Array, variance: Array, mean: float | None = 0.0
) -> tuple[float, Array]:
    """Return the log marginal likelihood of values, and its gradient in `kernel.theta`.

    log p(y) = -1/2 y^T A^-1 y - 1/2 log det A - n/2 log 2 pi, with A = K + diag(variance), and
    d log p / d theta_j = 1/2 tr((a a^T - A^-1) dK / d theta_j), with a = A^-1 y
    (Rasmussen and Williams 2006, eqs. 2.30 and 5.9).

    Parameters
    ----------
    kernel : scikit-learn kernel
    Z : array of shape (n, p)
        Kernel inputs (`gp.kernel_matrix.inputs`).
    y, variance : arrays of shape (n,)
        Values and their noise variances.
    mean : float, optional
        Prior mean. If None, the generalised least squares estimate 1^T A^-1 y / 1^T A^-1 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.gp.evidence import log_evidence
    >>> Z, y = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 0.8, 0.9])
    >>> value, gradient = log_evidence(RBF(1.0), Z, y, np.full(3, 0.1))
    >>> print(f"{value:.3f}")
    -3.003
    """
    K, slopes = kernel(Z, eval_gradient=True)
    L = cholesky(K + np.diag(variance)).L
    if mean is None:  # the mean maximizes the evidence, so that its gradient has no further term
        ones = solve_lower(L, np.ones(len(y)))
        mean = float(ones @ solve_lower(L, y) / (ones @ ones))
    whitened = solve_lower(L, y - mean)
    value = -0.5 * float(whitened @ whitened + log_determinant(L) + len(y) * np.log(2.0 * np.pi))
    weights = solve_lower(L, whitened, transposed=True)
    inner = np.outer(weights, weights) - linalg.inverse(L)
    return value, 0.5 * np.einsum("ij,ijp->p", inner, slopes)


def fit(
    kernel: Kernel, observations: Dataset, *, mean: float | None = None, max_iterations: int = 200
) -> Any:
    """Return the kernel that maximizes the log evidence over its free hyperparameters, by L-BFGS-B.

    Its evidence is never below that of `kernel` (Rasmussen & Williams 2006, chapter 5). Without a prior
    `mean`, the mean is that of generalised least squares at each evaluation.

    Raises
    ------
    FactorisationError
        If the matrix of `kernel` on the observations has no Cholesky factor.
    """
    data = (inputs(kernel, observations.X, observations.t), observations.y, observations.variance)
    initial, _ = log_evidence(kernel, *data, mean)

    def loss(theta: Array) -> tuple[float, Array]:
        try:
            value, slope = log_evidence(kernel.clone_with_theta(theta), *data, mean)
        except FactorisationError:
            # The line search takes a shorter step after such a large loss.
            return 1.0 + 2.0 * abs(initial), np.zeros_like(theta)
        return -value, -slope

    start, bounds = kernel.theta, kernel.bounds
    result = minimize(loss, start, jac=True, bounds=bounds, options={"maxiter": max_iterations})
    return kernel.clone_with_theta(result.x if result.fun <= -initial else start)


def information_gains(
    kernel: Any, points: Array, noise_variance: float, observations: int
) -> Array:
    """Return the greedy maximum information gains gamma_1, ..., gamma_T, shape (T,).

    The information gain is 1/2 log det(I + K/noise_variance). Greedily observing the point of largest
    posterior variance reaches at least (1 - 1/e) of the maximum (Srinivas 2010).

    Parameters
    ----------
    kernel : scikit-learn kernel
        A kernel over points, or over [point, time], which is evaluated at a constant time.
    points : array of shape (A, d)
        The domain, or a sample of it.
    noise_variance : float
        The noise variance in the unit of the kernel.
    observations : int
        The number T of observations.
    """
    Z = inputs(kernel, points, np.zeros(len(points)))
    variance = np.array(kernel.diag(Z), dtype=np.float64)
    # In weight space point x has the features G[:rank, x], and P is the posterior covariance of the
    # weights. An observed point that the features do not span adds a feature.
    residual, largest_rank, rank = variance.copy(), min(observations, len(Z)), 0
    smallest = CONFIG.smallest_residual * float(variance.max())
    G, P = np.empty((largest_rank, len(Z))), np.eye(largest_rank)
    gains = np.empty(observations)
    for step in range(observations):
        best = first_argmax(variance)
        if residual[best] > smallest:
            row = np.asarray(kernel(Z[[best]], Z))[0] - G[:rank, best] @ G[:rank]
            G[rank] = row / math.sqrt(residual[best])
            residual = np.maximum(residual - G[rank] ** 2, 0.0)
            rank += 1
        gains[step] = 0.5 * math.log1p(variance[best] / noise_variance)
        half = P[:rank, :rank] @ G[:rank, best]
        shrink = 1.0 / (variance[best] + noise_variance)
        P[:rank, :rank] -= shrink * np.outer(half, half)
        variance = np.maximum(variance - shrink * (half @ G[:rank]) ** 2, 0.0)
    return np.cumsum(gains)

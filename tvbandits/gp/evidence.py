"""The log evidence of a kernel and its exact gradient, and the hyperparameters where it is largest.

It is for fitting kernels. A kernel and observations go in; out come evidence and gradient (`Evidence`,
`log_evidence`), the kernel of the largest evidence (`fit`), and the largest information gain gamma_T,
greedily (Srinivas et al. 2010, docs/references.md).

Kernels over points are evaluated at the distinct points alone, and those over time at the distinct
times; the terms are composed of these. That makes learning cheap while a bandit runs: a network has few
sites, and several answers belong to one time.
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
    """The constants of the evidence.

    Attributes
    ----------
    mean_variance : float
        Prior variance of the mean of standardised values, which is integrated out.
    wall : float
        Value where the matrix has no Cholesky factor, above any evidence so far.
    smallest_residual : float
        A point is no feature of its own if it adds less than this share of the largest variance.
    """

    mean_variance: float = 1.0
    wall: float = 1e10
    smallest_residual: float = 1e-12


CONFIG = EvidenceConfig()


@dataclass(eq=False)
class Evidence:
    """Minus the log posterior density of hyperparameters, as a function of them.

    The values are N(0, K + constant + diag(variance)), where the constant stands for an unknown mean.
    Hyperparameters are log-normal around those of `prior`, with deviations `spread` of their logarithms.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Over points, or over [x, t].
    sample : Dataset
    values : array of shape (n,)
        Standardised.
    variance : array of shape (n,)
        Variances of their noise, in the same unit squared.
    prior : array of shape (p,)
        Medians: logarithms of hyperparameters, as in `kernel.theta`.
    spread : float or array of shape (p,)
        Deviation of their logarithms; infinite: no prior.
    terms : as of `leaves_of`, optional
        Of the kernel, where they are at hand.
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
        points, place = np.unique(self.sample.X, axis=0, return_inverse=True)
        times, when = np.unique(self.sample.t, return_inverse=True)
        over_points, over_times = _Distinct.of(points, place), _Distinct.of(times[:, None], when)
        self.factors = [
            [_Factor.of(leaf, over_points, over_times) for leaf in term]
            for term in self.terms or ()
        ]

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return value and gradient at `theta`; a wall where the matrix has no factor."""
        try:
            value, gradient = self._minus_log(theta)
        except FactorisationError:
            # The line search turns back from a value above all others.
            return CONFIG.wall + 2.0 * self.highest, np.zeros_like(theta)
        self.highest = max(self.highest, abs(value))
        off = (theta - self.prior) / self.spread
        return value + 0.5 * float(off @ off), gradient + off / self.spread

    def _minus_log(self, theta: Array) -> tuple[float, Array]:
        """Return minus the log evidence, and its gradient."""
        if self.terms is None:
            kernel = self.kernel.clone_with_theta(theta) + ConstantKernel(
                CONFIG.mean_variance, "fixed"
            )
            Z = inputs(self.kernel, self.sample.X, self.sample.t)
            value, gradient = log_evidence(kernel, Z, self.values, self.variance)
            return -value, -gradient
        cache: dict[tuple[int, int], _Part] = {}  # terms may share a factor
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
        # W is only summed against symmetric matrices: a triangle of the inverse is enough, taken twice.
        W = 2.0 * linalg.inverse_lower(L).T
        W[np.diag_indices(n)] *= 0.5
        W -= np.outer(weights, weights)
        gradient = np.zeros_like(theta)
        for term, term_parts, amplitude, product in zip(
            self.factors, parts, amplitudes, products, strict=True
        ):
            for i, (factor, part) in enumerate(zip(term, term_parts, strict=True)):
                where = factor.leaf.where
                if where.start == where.stop:
                    continue
                if part.gradient is None:
                    # Terms without a part over points or time are constant there: 1.
                    slope = float(np.vdot(W, product)) if np.ndim(product) else float(W.sum())
                    gradient[where] += 0.5 * amplitude * slope
                    continue
                others = _product([each.matrix for j, each in enumerate(term_parts) if j != i])
                gradient[where] += 0.5 * amplitude * part.gradient(W * others)
        return value + 0.5 * n * math.log(2.0 * math.pi), gradient


def _product(matrices: Sequence[Array | None]) -> Array | float:
    """Return the product of the matrices that are not None; 1 if there is none."""
    present = [matrix for matrix in matrices if matrix is not None]
    return reduce(np.multiply, present) if present else 1.0


@dataclass(frozen=True)
class _Distinct:
    """Distinct points or times, and which of them each observation has.

    Attributes
    ----------
    Z : array of shape (m, d)
    index : array of shape (n,)
        The row of each observation.
    pairs : array of shape (n * n,) or None
        The pair of distinct rows of each pair of observations; None: pairs are the same.
    distances : array of shape (q,)
        Distances between rows.
    which : array of shape (n * n,) or None
        The number of the distance of each pair of observations; None: they are in order.
    """

    Z: Array
    index: Index
    pairs: Index | None
    distances: Array
    which: Index | None

    @cached_property
    def upper(self) -> tuple[Index, Index]:
        """Return all pairs of two distinct rows, (q,) and (q,)."""
        return np.triu_indices(len(self.Z), 1)

    @cached_property
    def apart(self) -> Array:
        """Return the distances (d, q) of these pairs along each coordinate."""
        first, second = self.upper
        return np.abs(self.Z[first] - self.Z[second]).T.copy()

    @classmethod
    def of(cls, Z: Array, index: Index) -> _Distinct:
        """Return the distinct rows, which are sorted, with the row of each observation."""
        index = index.ravel()
        m = len(Z)
        same = m == len(index) and bool((index == np.arange(m)).all())
        pairs = None if same else (index[:, None] * m + index).ravel()
        steps = _whole_steps(Z)
        if steps is not None:
            unit, number = steps
            which = np.abs(number[index][:, None] - number[index]).ravel()
            return cls(Z, index, pairs, unit * np.arange(number[-1] + 1.0), which)
        apart = Z[:, None, :] - Z
        distances = np.sqrt(np.einsum("ijk,ijk->ij", apart, apart))
        return cls(Z, index, pairs, distances.ravel(), pairs)


def _whole_steps(Z: Array) -> tuple[float, Index] | None:
    """Return a step, and sorted rows (m, 1) as whole multiples of it; None if there are many or none."""
    if Z.shape[1] != 1 or len(Z) < 2:
        return None
    z = Z[:, 0] - Z[0, 0]
    unit = float(np.diff(z).min())
    if z[-1] >= unit * len(Z) ** 2:  # also if rounding makes two rows equal
        return None
    number = np.rint(z / unit)
    if not (unit * number == z).all():
        return None
    return unit, number.astype(np.int64)


def _spread(values: Array, which: Index | None, n: int) -> Array:
    """Return the value of each pair of observations (n, n)."""
    flat = values.ravel()
    return (flat if which is None else flat.take(which)).reshape(n, n)


def _contract(weighted: Array, which: Index | None, slopes: Array) -> Array:
    """Return the sum over pairs of weight (n, n) times slope (q, p), for each hyperparameter."""
    flat: Array = weighted.ravel()
    if which is not None:
        # Pairs of observations at one pair of distinct rows share their slopes.
        flat = np.asarray(np.bincount(which, flat, len(slopes)), dtype=np.float64)
    return np.asarray(flat @ slopes)


@dataclass(frozen=True)
class _Factor:
    """A leaf of a kernel, and the distinct rows that it depends on.

    Attributes
    ----------
    leaf : Leaf
    rows : _Distinct
    nu : float or None
        Its smoothness, where it has a single length scale; None where scikit-learn computes it.
    nus : float or None
        The same, where each coordinate has a length scale.
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
        if not supported or any(each.fixed for each in inner.hyperparameters):
            return cls(leaf, rows)
        nu = 2.5 if type(inner) is Coordinates else float(getattr(inner, "nu", math.inf))
        if type(inner) in (Coordinates, PerParameter) or np.ndim(inner.length_scale):
            return cls(leaf, rows, nus=nu if nu in SLOPED else None)
        return cls(leaf, rows, nu if nu in VALUES else None)

    def at(self, theta: Array, cache: dict[tuple[int, int], _Part]) -> _Part:
        """Return amplitude, matrix and gradient, from the cache if its hyperparameters are there."""
        key = (self.leaf.where.start, self.leaf.where.stop)
        if key[0] == key[1]:
            return self._fixed
        if key not in cache:
            cache[key] = self._at(theta)
        return cache[key]

    @cached_property
    def _fixed(self) -> _Part:
        """Return the part of a leaf without hyperparameters."""
        return self._at(np.empty(0))

    def _at(self, theta: Array) -> _Part:
        """Return amplitude, matrix and gradient."""
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
            which, steep = rows.which, slope[:, None]
            matrix = _spread(values, which, n)
            return _Part(1.0, matrix, lambda weighted: _contract(weighted, which, steep))
        kernel = self.leaf.at(theta)
        inner = kernel if type(kernel) is Drift else kernel.kernel
        matrix, slopes = inner(rows.Z, eval_gradient=True)
        flat = np.asarray(slopes).reshape(len(rows.Z) ** 2, -1)
        matrix = _spread(np.asarray(matrix), rows.pairs, n)
        return _Part(1.0, matrix, lambda weighted: _contract(weighted, rows.pairs, flat))

    def _by_coordinates(self, own: Array, profile: Profile) -> _Part:
        """Return the part of a kernel with a length scale for each coordinate, or for several of them.

        From pairs of two distinct rows alone: a row is perfectly correlated with itself.
        """
        inner, rows = self.leaf.kernel.kernel, self.rows
        m, upper = len(rows.Z), rows.upper
        additive = float(math.exp(own[0])) if type(inner) is Coordinates else 0.0
        named = type(inner) is PerParameter
        widths = tuple(width for _, width in inner.parts) if named else _widths_of(inner)
        scales = np.exp(own[1:] if additive else own)
        r = rows.apart / np.repeat(scales, widths or 1)[:, None]
        squares = r * r
        joint, slope = profile(np.sqrt(squares.sum(axis=0)))
        squares = sum_columns(squares, widths)
        values, slopes = joint, slope[None]
        if additive:
            each, apart = profile(np.sqrt(squares) if widths else r)
            mean = each.mean(axis=0)
            values = (joint + additive * mean) / (1.0 + additive)
            slopes = (slope + (additive / len(each)) * apart) / (1.0 + additive)
        matrix = np.ones((m, m))
        matrix[upper] = values
        matrix.T[upper] = values

        def gradient(weighted: Array) -> Array:
            if rows.pairs is not None:
                sums = np.bincount(rows.pairs, weighted.ravel(), m * m).reshape(m, m)
                weighted = np.asarray(sums, dtype=np.float64)
            weights = weighted[upper] + weighted.T[upper]
            lengths = np.einsum("jq,jq->j", squares, weights * slopes)
            if not additive:
                return np.asarray(lengths)
            share = float(weights @ (mean - joint)) * additive / (1.0 + additive) ** 2
            return np.concatenate([[share], lengths])

        return _Part(1.0, _spread(matrix, rows.pairs, len(rows.index)), gradient)


def _widths_of(kernel: Any) -> tuple[int, ...]:
    """Return the numbers of columns that share a length scale; none where each has its own."""
    return kernel.widths if type(kernel) is Coordinates else ()


# Correlations at distances, and -1/r times their derivatives.
Profile = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class _Part:
    """A factor at some hyperparameters: its matrix (n, n), and its gradient as a function of weights."""

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
        Its inputs (`gp.kernel_matrix.inputs`).
    y, variance : arrays of shape (n,)
        Values and their noise variances.
    mean : float, optional
        Prior mean. None: that of generalised least squares, 1^T A^-1 y / 1^T A^-1 1.

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
    if mean is None:  # the evidence is flat in it there, so that the gradient is the same
        ones = solve_lower(L, np.ones(len(y)))
        mean = float(ones @ solve_lower(L, y) / (ones @ ones))
    white = solve_lower(L, y - mean)
    value = -0.5 * float(white @ white + log_determinant(L) + len(y) * np.log(2.0 * np.pi))
    weights = solve_lower(L, white, transposed=True)
    inner = np.outer(weights, weights) - linalg.inverse(L)
    return value, 0.5 * np.einsum("ij,ijp->p", inner, slopes)


def fit(
    kernel: Kernel, observations: Dataset, *, mean: float | None = None, max_iterations: int = 200
) -> Any:
    """Return the kernel of the largest log evidence over its free hyperparameters, by L-BFGS-B.

    It is never worse than the kernel itself (Rasmussen & Williams 2006, chapter 5). Without a prior
    `mean`, the constant of generalised least squares is profiled out of the evidence.

    Raises
    ------
    FactorisationError
        If the kernel itself has no Cholesky factor on the observations.
    """
    data = (inputs(kernel, observations.X, observations.t), observations.y, observations.variance)
    initial, _ = log_evidence(kernel, *data, mean)

    def loss(theta: Array) -> tuple[float, Array]:
        try:
            value, slope = log_evidence(kernel.clone_with_theta(theta), *data, mean)
        except FactorisationError:
            # The line search turns back from such a wall.
            return 1.0 + 2.0 * abs(initial), np.zeros_like(theta)
        return -value, -slope

    start, bounds = kernel.theta, kernel.bounds
    result = minimize(loss, start, jac=True, bounds=bounds, options={"maxiter": max_iterations})
    return kernel.clone_with_theta(result.x if result.fun <= -initial else start)


def information_gains(
    kernel: Any, points: Array, noise_variance: float, observations: int
) -> Array:
    """Return gamma_1, ..., gamma_T (T,): the largest 1/2 log det(I + K/noise_variance), greedily.

    The greedy value is at least (1 - 1/e) of the maximum (Srinivas 2010): repeatedly observe the point
    of largest posterior variance.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Over points, or over [point, time], where time is constant.
    points : array of shape (A, d)
        The domain, or a sample of it.
    noise_variance : float
        In the unit of the kernel.
    observations : int
        T.
    """
    Z = inputs(kernel, points, np.zeros(len(points)))
    variance = np.array(kernel.diag(Z), dtype=np.float64)
    # Weight space: point x has features G[:rank, x], and P is the posterior covariance of their weights.
    # What of a point does not follow from the points observed before it is a new feature.
    residual, most, rank = variance.copy(), min(observations, len(Z)), 0
    smallest = CONFIG.smallest_residual * float(variance.max())
    G, P = np.empty((most, len(Z))), np.eye(most)
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

"""The log evidence of a structured kernel and its exact gradient, at a bounded cost.

Kernels over points are evaluated at the distinct points alone, and those over time at the distinct
times; the terms are put together from them. That is what makes learning cheap while a bandit runs:
a network has few sites, and several answers belong to one time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Product, Sum

from tvbandits import linalg
from tvbandits.kernels import Drift, OnSpace, OnTime, inputs, log_evidence
from tvbandits.linalg import FactorisationError
from tvbandits.observations import Array, Index, Observations

MEAN_VARIANCE = 1.0
"""Prior variance of the mean of standardised values, which is integrated out."""


@dataclass(frozen=True)
class Leaf:
    """A part of a kernel that has hyperparameters of its own, and where they are in its theta."""

    kernel: Any
    where: slice

    def at(self, theta: Array) -> Any:
        """The part with its share of the hyperparameters `theta` of the whole."""
        own = theta[self.where]
        return self.kernel.clone_with_theta(own) if len(own) else self.kernel


def leaves_of(kernel: Kernel) -> tuple[tuple[Leaf, ...], ...] | None:
    """The terms of a kernel, each as its factors; None where it has factors of another kind."""
    expanded, _ = _expanded(kernel, 0)
    kinds = (ConstantKernel, OnSpace, OnTime, Drift)
    known = all(type(leaf.kernel) in kinds for term in expanded for leaf in term)
    return tuple(map(tuple, expanded)) if known else None


def _expanded(kernel: Kernel, at: int) -> tuple[list[list[Leaf]], int]:
    """The products that a kernel is the sum of, and where its hyperparameters end."""
    if type(kernel) in (Sum, Product):
        first, middle = _expanded(kernel.k1, at)
        second, end = _expanded(kernel.k2, middle)
        if type(kernel) is Sum:
            return first + second, end
        return [one + other for one in first for other in second], end
    end = at + int(kernel.n_dims)
    return [[Leaf(kernel, slice(at, end))]], end


class Evidence:
    """Minus the log evidence of some values as a function of the hyperparameters, with a prior on them.

    The values are taken as N(0, K + constant + diag(variance)): their mean is unknown, of prior variance
    `MEAN_VARIANCE`. Hyperparameters are log-normal about those of `prior`, of deviation `spread`.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Over points, or over [x, t].
    sample : Observations
    values : array of shape (n,)
        Standardised.
    variance : array of shape (n,)
        Their noise, in the same unit squared.
    prior : array of shape (p,)
        Medians: logarithms of hyperparameters, as in `kernel.theta`.
    spread : float
        Deviation of their logarithms; infinite: no prior.
    """

    def __init__(
        self,
        kernel: Any,
        sample: Observations,
        values: Array,
        variance: Array,
        prior: Array,
        spread: float,
    ) -> None:
        self.kernel, self.sample = kernel, sample
        self.values, self.variance = values, variance
        self.prior, self.spread = prior, spread
        self.terms = leaves_of(kernel)
        points, self.place = np.unique(sample.X, axis=0, return_inverse=True)
        times, self.when = np.unique(sample.t, return_inverse=True)
        self.points, self.times = points, times[:, None]

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient at `theta`; a wall where the matrix has no factor."""
        try:
            value, gradient = self._minus_log(theta)
        except FactorisationError:
            return 1e10, np.zeros_like(theta)
        if math.isinf(self.spread):
            return value, gradient
        off = (theta - self.prior) / self.spread
        return value + 0.5 * float(off @ off), gradient + off / self.spread

    def _minus_log(self, theta: Array) -> tuple[float, Array]:
        if self.terms is None:
            kernel = self.kernel.clone_with_theta(theta) + ConstantKernel(MEAN_VARIANCE, "fixed")
            Z = inputs(self.kernel, self.sample.X, self.sample.t)
            value, gradient = log_evidence(
                kernel, Z, self.values, self.variance, eval_gradient=True
            )
            return -float(value), -np.asarray(gradient)
        parts = [[self._part(leaf, theta) for leaf in term] for term in self.terms]
        products = [math.prod(part.amplitude for part in term) for term in parts]
        matrices = [self._product(term) for term in parts]
        n = len(self.values)
        K = np.full((n, n), MEAN_VARIANCE)
        for amplitude, matrix in zip(products, matrices, strict=True):
            K += amplitude * matrix
        K[np.diag_indices(n)] += self.variance
        L = linalg.cholesky(K).L
        weights = linalg.solve_lower(L, linalg.solve_lower(L, self.values), transposed=True)
        value = 0.5 * float(self.values @ weights) + 0.5 * linalg.log_determinant(L)
        W = linalg.inverse(L) - np.outer(weights, weights)
        gradient = np.zeros_like(theta)
        for term, parted, amplitude, matrix in zip(
            self.terms, parts, products, matrices, strict=True
        ):
            weighted = amplitude * W
            # Terms without a part over points or time are constant there: 1, not a matrix of ones.
            whole = 0.5 * float(np.sum(weighted * matrix))
            for i, (leaf, part) in enumerate(zip(term, parted, strict=True)):
                if leaf.where.start == leaf.where.stop:
                    continue
                if part.matrix is None:
                    gradient[leaf.where] += whole
                    continue
                others = weighted * self._product([p for j, p in enumerate(parted) if j != i])
                gradient[leaf.where] += 0.5 * _contracted(others, part)
        return value + 0.5 * n * math.log(2.0 * math.pi), gradient

    def _part(self, leaf: Leaf, theta: Array) -> _Part:
        """A factor at the distinct points or times."""
        kernel = leaf.at(theta)
        if type(kernel) is ConstantKernel:
            return _Part(float(kernel.constant_value), None, None, self.place)
        over_points = type(kernel) is OnSpace
        Z, index = (self.points, self.place) if over_points else (self.times, self.when)
        inner = kernel if type(kernel) is Drift else kernel.kernel
        matrix, slopes = inner(Z, eval_gradient=True)
        return _Part(1.0, np.asarray(matrix), np.asarray(slopes), index)

    def _product(self, parts: Sequence[_Part]) -> Array | float:
        """The factors at the observations, (n, n), without their amplitudes."""
        out: Array | float = 1.0
        for part in parts:
            if part.matrix is not None:
                out = out * part.matrix[np.ix_(part.index, part.index)]
        return out


@dataclass(frozen=True)
class _Part:
    """A factor: its amplitude, its matrix and slopes at the distinct rows, and the rows."""

    amplitude: float
    matrix: Array | None
    slopes: Array | None
    index: Index


def _contracted(weighted: Array, part: _Part) -> Array:
    """Sum over pairs of weight times slope, for each hyperparameter of a part."""
    assert part.slopes is not None
    size = len(part.slopes)
    # Pairs of observations at one pair of distinct rows share their slopes.
    flat = part.index[:, None] * size + part.index
    summed = np.bincount(flat.ravel(), weighted.ravel(), size * size)
    return np.asarray(summed @ part.slopes.reshape(size * size, -1))

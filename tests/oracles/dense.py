"""The exact posterior of a Gaussian process, by dense elimination.

Nothing of the package is used, and observations of one input are not merged. The kernel is one of
scikit-learn's over inputs, whatever they are: points, or points and times for one over space and time.
Every observation has a noise variance of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dense:
    """A Gaussian process given values Y (n, c) at inputs X (n, p) with noise variances v (n,)."""

    kernel: Any
    X: Array
    Y: Array
    v: Array

    @cached_property
    def A(self) -> Array:
        """Return K + Sigma."""
        return np.asarray(self.kernel(self.X) + np.diag(self.v))

    @cached_property
    def factors(self) -> Any:
        return lu_factor(self.A)

    def solve(self, B: Array) -> Array:
        """Return (K + Sigma)^-1 B."""
        return np.asarray(lu_solve(self.factors, B)) if len(self.X) else B

    def k(self, X: Array) -> Array:
        """Return the kernel between all inputs and X, shape (n, m)."""
        return np.asarray(self.kernel(self.X, X)) if len(self.X) else np.zeros((0, len(X)))

    def mean(self, X: Array) -> Array:
        """Return the means at X, shape (m, c)."""
        return self.k(X).T @ self.solve(self.Y)

    def covariance(self, X1: Array, X2: Array) -> Array:
        return np.asarray(self.kernel(X1, X2) - self.k(X1).T @ self.solve(self.k(X2)))

    def variance(self, X: Array) -> Array:
        k = self.k(X)
        return np.asarray(self.kernel.diag(X) - (k * self.solve(k)).sum(axis=0))

    def deviation(self, X: Array) -> Array:
        return np.sqrt(np.maximum(self.variance(X), 0.0))

    def log_det_ratio(self) -> float:
        """Return log det(K + Sigma) - log det Sigma."""
        if len(self.X) == 0:
            return 0.0
        return float(np.linalg.slogdet(self.A)[1] - np.log(self.v).sum())

    def products(self) -> Array:
        """Return Y^T (K + Sigma)^-1 Y."""
        return np.asarray(self.Y.T @ self.solve(self.Y))

    def effective_dimension(self) -> float:
        """Return tr(K (K + Sigma)^-1)."""
        return float(np.trace(self.solve(self.kernel(self.X)))) if len(self.X) else 0.0


def assert_alike(first: Iterable[Array], second: Iterable[Array], **tolerances: float) -> None:
    """Check that two sequences of arrays, as of means and variances, agree pair by pair."""
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, **tolerances)

"""The sparse posterior of BKB and BBKB on a given dictionary, by dense matrices.

Embeddings go by the pseudo-inverse of a singular value decomposition. Nothing of the package is used,
and observations of one input are not merged.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def pseudo_root(K: Array) -> Array:
    """Return K^{+/2} as a matrix (n, rank)."""
    return _root(K.tobytes(), len(K)) if len(K) else np.zeros((0, 0))


@lru_cache(maxsize=32)
def _root(entries: bytes, n: int, cutoff: float = 1e-13) -> Array:
    """Return the root of a matrix given as bytes; cached, as dictionaries serve many posteriors."""
    U, s, _ = np.linalg.svd(np.frombuffer(entries).reshape(n, n), hermitian=True)
    large = s > cutoff * s[0]
    return np.asarray(U[:, large] / np.sqrt(s[large]))


@dataclass(frozen=True)
class Sparse:
    """The posterior of [B] eqs. 3-5 in Bayesian scaling, on the dictionary S, an array of points."""

    kernel: Any
    S: Array
    X: Array
    Y: Array
    v: Array

    @cached_property
    def root(self) -> Array:
        return pseudo_root(self.kernel(self.S) if len(self.S) else np.zeros((0, 0)))

    def z(self, X: Array) -> Array:
        """Return K_S^{+/2} k_S(x) of points (n, d), shape (n, rank)."""
        if len(self.S) == 0 or len(X) == 0:
            return np.zeros((len(X), self.root.shape[1]))
        return np.asarray(self.kernel(X, self.S) @ self.root)

    @cached_property
    def Z(self) -> Array:
        return self.z(self.X)

    @cached_property
    def V(self) -> Array:
        return np.asarray((self.Z.T / self.v) @ self.Z + np.eye(self.Z.shape[1]))

    def mean(self, X: Array) -> Array:
        moment = self.Z.T @ (self.Y / self.v[:, None])
        return np.asarray(self.z(X) @ np.linalg.solve(self.V, moment))

    def covariance(self, X1: Array, X2: Array) -> Array:
        z1, z2 = self.z(X1), self.z(X2)
        return np.asarray(self.kernel(X1, X2) - z1 @ z2.T + z1 @ np.linalg.solve(self.V, z2.T))

    def variance(self, X: Array) -> Array:
        z = self.z(X)
        explained = (z * np.linalg.solve(self.V, z.T).T).sum(axis=1)
        return np.asarray(self.kernel.diag(X) - (z**2).sum(axis=1) + explained)

    def log_det_ratio(self) -> float:
        half = np.diag(self.v**-0.5)
        Q = self.Z @ self.Z.T
        return float(np.linalg.slogdet(np.eye(len(self.v)) + half @ Q @ half)[1])

    def products(self) -> Array:
        Q = self.Z @ self.Z.T
        return np.asarray(self.Y.T @ np.linalg.solve(Q + np.diag(self.v), self.Y))

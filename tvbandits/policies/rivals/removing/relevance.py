"""How much each observation of a dataset still says: the criterion of W-DBO, of all of them at once.

[WD] = A. Bardou, P. Thiran and G. Ranieri. This too shall pass: removing stale observations in dynamic
Bayesian optimization. NeurIPS 2024.

An observation's relevance is the 2-Wasserstein distance of the posteriors with and without it,
bounded as in [WD] and integrated over all points and all times from now on, as a share of the same
distance between posterior and prior. The authors' program inverts a matrix for each observation,
O(n^4) for all. Here, with Q = (K + s^2 I)^-1, u_i = Q e_i, q_i = Q_ii, a = Q y, and C the
integrated products of kernels,

    relevance_i = sqrt( (u_i^T C u_i) (a_i^2 / q_i + 1) / q_i ) / sqrt( a^T C a + 1^T (Q o C) 1 ),

since removing i takes u_i u_i^T / q_i from Q, and u_i a_i / q_i from a: O(n^3) for all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import erfc, gamma, kv
from sklearn.gaussian_process.kernels import Matern

from tvbandits.core.arrays import Array
from tvbandits.core.linalg import cholesky, inverse_lower


def precision(K: Array, noise: float) -> Array:
    """Q = (K + noise I)^-1, shape (n, n)."""
    lower = inverse_lower(cholesky(K + noise * np.eye(len(K))).L)
    return np.asarray(lower + np.tril(lower, -1).T)


def relevance(Q: Array, y: Array, C: Array) -> Array:
    """Relevance of each of n observations, from Q (n, n), values y (n,) and C (n, n)."""
    a, q = Q @ y, np.diagonal(Q)
    reach = np.einsum("ij,ij->j", Q, C @ Q)
    whole = a @ C @ a + (Q * C).sum()
    shares = np.maximum(reach, 0.0) * (a**2 / q + 1.0) / q
    return np.asarray(np.sqrt(shares) / math.sqrt(max(float(whole), 1e-300)))


def without(Q: Array, i: int) -> Array:
    """Q of the data without observation i, shape (n - 1, n - 1)."""
    left = np.delete(np.arange(len(Q)), i)
    u = Q[left, i]
    return np.asarray(Q[np.ix_(left, left)] - np.outer(u, u) / Q[i, i])


# --- products of kernels, integrated ----------------------------------------------------------------


def over_candidates(cross: Array) -> Array:
    """Products over a finite domain, from the kernel between data and candidates (n, A)."""
    return np.asarray(cross @ cross.T / cross.shape[1])


def over_space(X: Array, length: float, nu: float) -> Array:
    """Products of isotropic Matern kernels over all of R^d, but for a constant factor, (n, n).

    The spectral density of the product is the square of Matern's, (a^2 + w^2)^-(2 nu + d), which is
    that of a Matern kernel of smoothness 2 nu + d / 2 and the same a = sqrt(2 nu) / length. An infinite
    nu is the RBF kernel: exp(-r^2 / (4 length^2)).
    """
    r = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    if math.isinf(nu):
        return np.asarray(np.exp(-(r**2) / (4 * length**2)))
    smooth = 2 * nu + X.shape[1] / 2
    scaled = math.sqrt(2 * nu) / length * r
    apart = scaled > 1e-10
    scaled = np.where(apart, scaled, 1.0)
    found = 2 ** (1 - smooth) / gamma(smooth) * scaled**smooth * kv(smooth, scaled)
    return np.where(apart, found, 1.0)


def over_future(t: Array, now: float, length: float, nu: float) -> Array:
    """Products of kernels over all times from `now` on, (n, n); nu is 1/2, 3/2 or infinite.

    With p = a (now - t_i), q = a (now - t_j):
    1/2: exp(-(p + q)) / (2 a);
    3/2: exp(-(p + q)) / (2 a) ((1 + p)(1 + q) + (2 + p + q) / 2 + 1/2);
    RBF: sqrt(pi) l / 2 exp(-(t_i - t_j)^2 / (4 l^2)) erfc((2 now - t_i - t_j) / (2 l)).
    """
    age = now - t
    if math.isinf(nu):
        apart, both = age[:, None] - age, age[:, None] + age
        bell = np.exp(-(apart**2) / (4 * length**2))
        return np.asarray(0.5 * math.sqrt(math.pi) * length * bell * erfc(both / (2 * length)))
    if nu not in (0.5, 1.5):
        raise ValueError(f"products over the future are known for nu = 0.5, 1.5 and inf, got {nu}")
    a = math.sqrt(2 * nu) / length
    p, q = a * age[:, None], a * age
    fall = np.exp(-(p + q)) / (2 * a)
    if nu == 0.5:
        return np.asarray(fall)
    return np.asarray(fall * ((1 + p) * (1 + q) + (2 + p + q) / 2 + 0.5))


def matern(X: Array, Z: Array, length: float, nu: float) -> Array:
    """An isotropic Matern kernel of unit variance, shape (n, m)."""
    kernel: Any = Matern(length, nu=nu)
    return np.asarray(kernel(X, Z))

"""A posterior in 60 digits, where double precision has few left: for small problems."""

from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array


def exactly(A: Array) -> Any:
    """The same numbers (n, m) with more room behind them."""
    return np.array([[Decimal(float(a)) for a in row] for row in A], dtype=object)


def solved(A: Any, B: Any) -> Any:
    """A^-1 B for a positive definite A, by elimination."""
    A, B = A.copy(), B.copy()
    for i in range(len(A)):
        for j in range(i + 1, len(A)):
            share = A[j, i] / A[i, i]
            A[j], B[j] = A[j] - share * A[i], B[j] - share * B[i]
    for i in reversed(range(len(A))):
        B[i] = (B[i] - sum(A[i, j] * B[j] for j in range(i + 1, len(A)))) / A[i, i]
    return B


def on_dictionary(
    within: Array, across: Array, noise: Array, Y: Array, fades: Array | None = None
) -> tuple[Array, Array]:
    """Means (q, c) at points, and how much (q,) of their variance is explained.

    Parameters
    ----------
    within : array of shape (m, m)
        Prior covariance of the inducing points.
    across : array of shape (m, n + q)
        Theirs with the n observations and then the points.
    noise : array of shape (n,)
    Y : array of shape (n, c)
    fades : array of shape (n, n + q), optional
        Correlation in time of the observations with all.
    """
    n, columns = Y.shape
    with localcontext(Context(prec=60)):
        C = exactly(across)
        Q = C[:, :n].T @ solved(exactly(within), C)
        if fades is not None:
            Q = Q * exactly(fades)
        K = Q[:, :n] + exactly(np.diag(noise))
        found = solved(K, np.hstack([exactly(Y), Q[:, n:]]))
        means = Q[:, n:].T @ found[:, :columns]
        explained = (Q[:, n:] * found[:, columns:]).sum(axis=0)
    return means.astype(np.float64), explained.astype(np.float64)

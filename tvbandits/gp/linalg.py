"""Factorise matrices; other modules call these functions instead of LAPACK.

All matrices are symmetric positive (semi-)definite, and factors are lower triangular, A = L L^T.
A failure raises a `FactorisationError` that names the matrix and a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack, qr_delete

from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index

# Relative jitters, which are tried in this order until one succeeds.
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)

# Residual variances are differences of larger numbers, so they tie within a larger relative tolerance
# (`tvbandits.ties`).
RESIDUAL_TIE = 1e-8


class FactorisationError(ValueError):
    """The error that a matrix is not positive definite, even with the largest jitter."""


def _factorisation_error(name: str, A: Array, reason: str) -> FactorisationError:
    """Return the error for the matrix `A` of that name."""
    return FactorisationError(
        f"{name} of shape {A.shape} {reason}: is the kernel a valid covariance, in the unit of the "
        "rewards? A larger noise variance also helps."
    )


def _check_finite(name: str, A: Array) -> None:
    """Raise a `FactorisationError` if a matrix has entries that are not finite."""
    if not np.isfinite(A).all():
        raise _factorisation_error(name, A, "has entries that are not finite")


@dataclass(frozen=True)
class Cholesky:
    """A lower factor L (n, n) of A + jitter I, and that jitter in the unit of A."""

    L: Array
    jitter: float


def cholesky(A: Array, name: str = "kernel matrix", *, scale: float | None = None) -> Cholesky:
    """Factorise a symmetric positive definite matrix, with the smallest of `JITTERS` that succeeds.

    Parameters
    ----------
    A : array of shape (n, n)
        Only its lower triangle is read.
    name : str
        The name of the matrix in an error.
    scale : float, optional
        The scale of the jitters; by default the mean of the diagonal.

    Raises
    ------
    FactorisationError
        If `A` has an entry that is not finite, or is not positive definite with a jitter of 1e-6
        times `scale`.
    """
    _check_finite(name, A)
    if len(A) == 0:
        return Cholesky(np.empty((0, 0)), 0.0)
    jitter = 0.0
    for relative in JITTERS:
        shifted = np.array(A, dtype=np.float64, order="F")
        if relative:
            jitter = relative * (float(np.mean(np.diagonal(A))) if scale is None else scale)
            shifted[np.diag_indices_from(shifted)] += jitter
        L, status = lapack.dpotrf(shifted, lower=1, clean=1, overwrite_a=1)
        if status == 0:
            return Cholesky(L, jitter)
    reason = f"is not positive definite, even with {jitter:.3g} on its diagonal"
    raise _factorisation_error(name, A, reason)


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return L^-1 B or, if `transposed`, L^-T B, for B of shape (n,) or (n, m)."""
    if len(L) == 0 or B.size == 0:
        return np.array(B, dtype=np.float64)
    columns = B[:, None] if B.ndim == 1 else B
    if columns.flags.c_contiguous and not columns.flags.f_contiguous:
        # The memory of B is that of B^T in column-major order. Solving X^T L^T = B^T avoids a copy.
        transpose = blas.dtrsm(1.0, L, columns.T, side=1, lower=1, trans_a=int(not transposed))
        return np.asarray(transpose.T)
    solution = blas.dtrsm(1.0, L, columns, lower=1, trans_a=int(transposed))
    return np.asarray(solution[:, 0] if B.ndim == 1 else solution)


def is_positive_definite(A: Array) -> bool:
    """Return whether a symmetric matrix is numerically positive definite."""
    return len(A) == 0 or lapack.dpotrf(A, lower=1)[1] == 0


def inverse_lower(L: Array) -> Array:
    """Return the lower triangle of A^-1, with zeros above it, from the lower factor L of A."""
    if len(L) == 0:
        return np.empty((0, 0))
    triangle, info = lapack.dpotri(L, lower=1)
    if info:
        raise _factorisation_error("a factor", L, "has a zero on its diagonal")
    return np.asarray(triangle)


def inverse(L: Array) -> Array:
    """Return A^-1 from the lower factor L of A = L L^T."""
    lower = inverse_lower(np.asfortranarray(L))
    return np.asarray(lower + np.tril(lower, -1).T)


def predict_each(A: Array, b: Array, y: Array) -> tuple[Array, Array]:
    """Return b^T A^-1 y and b^T A^-1 b, each of shape (n,), for n small systems.

    Parameters
    ----------
    A : array of shape (n, m, m)
        Positive definite matrices.
    b, y : arrays of shape (n, m)
    """
    name = "one of several small kernel matrices"
    _check_finite(name, A)
    scale = np.einsum("nii->ni", A).mean(axis=1)
    for relative in JITTERS:
        shifted = A + (relative * scale)[:, None, None] * np.eye(A.shape[1])
        try:
            solutions = np.linalg.solve(shifted, np.stack([y, b], axis=-1))
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(solutions).all():
            break
    else:
        raise _factorisation_error(name, A, f"is singular, even with a jitter of {JITTERS[-1]:g}")
    means, reductions = np.einsum("nm,nmc->nc", b, solutions).T
    return np.asarray(means), np.asarray(reductions)


def log_determinant(L: Array) -> float:
    """Return log det(L L^T)."""
    return 2.0 * float(np.log(np.diagonal(L)).sum())


def quadratic_forms(L: Array, B: Array) -> Array:
    """Return b^T A^-1 b (m,) for the columns b of B (n, m), from the lower factor L of A."""
    half = solve_lower(L, B)
    return np.asarray(np.einsum("ij,ij->j", half, half))


def diagonal_ratio(diagonal: Array, largest_ratio: float = 1e150) -> float:
    """Return the ratio of the largest to the smallest entry; 1 for an empty array.

    Rounding may leave an entry of 0 or below. The ratio is then `largest_ratio`, whose square, as a
    condition number, is still finite.
    """
    if len(diagonal) == 0:
        return 1.0
    largest, smallest = float(diagonal.max()), float(diagonal.min())
    return largest_ratio if smallest * largest_ratio <= largest else largest / smallest


def drop_rows(L: Array, V: Array, first: int, count: int) -> tuple[Array, Array]:
    """Return the factor of A without `count` rows and columns from `first` on, and the matching V.

    With L V = B, V of shape (n, m), these are the factor L' of the smaller A and the V' with L' V' = B
    without those rows. It takes O(n (n + m)) for each row: deleting a row of A is deleting a column of
    the thin "QR" pair (V^T, L^T), where Givens rotations make L^T triangular again and transform V.
    """
    if count == 0:
        return L, V
    n, m = V.shape
    # The routine requires at least as many rows as columns of its "Q", which need not be orthogonal.
    columns = np.zeros((max(n, m), n), order="F")
    columns[:m] = V.T
    Q, R = qr_delete(columns, L.T, first, count, which="col", overwrite_qr=False)
    size = n - count
    factor, rows = R[:size].T.copy(order="F"), Q[:m, :size].T.copy()
    # Rotations may leave a negative diagonal, unlike that of a Cholesky factor.
    signs = np.sign(np.diagonal(factor))
    return np.asfortranarray(factor * signs), np.asarray(rows * signs[:, None], dtype=np.float64)


def rank_one_update(L: Array, x: Array) -> Array:
    """Return the factor of L L^T + x x^T by Givens rotations, in O(n^2)."""
    n = len(L)
    if n == 0:
        return L
    # Deleting row 0 of the factor [[1, 0], [x, L]] leaves the factor of [L, x] [L, x]^T.
    bordered = np.zeros((n + 1, n + 1), order="F")
    bordered[0, 0] = 1.0
    bordered[1:, 0] = x
    bordered[1:, 1:] = L
    return drop_rows(bordered, np.zeros((n + 1, 1)), 0, 1)[0]


@dataclass(frozen=True)
class PivotedCholesky:
    """A greedy low-rank factor A ~ G^T G.

    Attributes
    ----------
    pivots : array of shape (r,)
        Rows in the order of their selection. Each has the largest residual variance at its selection,
        and is the first of those that tie.
    G : array of shape (r, n)
        Row s is the s-th column of the pivoted Cholesky factor.
    residual : array of shape (n,)
        The residual variances diag(A - G^T G), which are never negative.
    """

    pivots: Index
    G: Array
    residual: Array


def pivoted_cholesky(
    diagonal: Array, column: Callable[[int], Array], rank: int, tolerance: float
) -> PivotedCholesky:
    """Factorise greedily, with the row of the largest residual variance as the next pivot.

    Parameters
    ----------
    diagonal : array of shape (n,)
        diag(A).
    column : callable
        `column(i)` returns column i of A, shape (n,); it is called for pivots only.
    rank : int
        The largest number of pivots.
    tolerance : float
        Stop when no residual variance is above this, in the unit of A.
    """
    n = len(diagonal)
    residual = np.array(diagonal, dtype=np.float64)
    G = np.empty((min(rank, n), n))
    pivots: list[int] = []
    for step in range(len(G)):
        if not residual[residual.argmax()] > tolerance:
            break
        pivot = first_argmax(residual, RESIDUAL_TIE)
        row = column(pivot) - G[:step, pivot] @ G[:step]
        row /= np.sqrt(residual[pivot])
        G[step] = row
        residual = np.maximum(residual - row**2, 0.0)
        # Otherwise rounding might select the same pivot again.
        residual[pivot] = 0.0
        pivots.append(pivot)
    return PivotedCholesky(np.array(pivots, dtype=np.int64), G[: len(pivots)], residual)


def greedy_pivots(A: Array, tolerance: float) -> Index:
    """Return the pivots of `pivoted_cholesky` for a whole matrix, computed by LAPACK.

    Ties may be broken differently, since rows of equal residuals serve equally well.
    """
    _check_finite("kernel matrix", A)
    _, pivots, rank, _ = lapack.dpstrf(np.array(A, order="F"), tol=tolerance, lower=1)
    return np.asarray(pivots[:rank] - 1, dtype=np.int64)


def eigenpairs(A: Array, tolerance: float = 1e-12) -> tuple[Array, Array]:
    """Return eigenvalues (ascending) and eigenvectors (columns) of a symmetric matrix.

    They are computed by LAPACK's divide and conquer, which is fast. With many almost equal eigenvalues,
    as in the covariance of a filter with readings of few places, it may fail to converge, or have errors
    in the sixth digit without a warning. If the pairs do not reproduce the matrix within `tolerance`
    times its largest eigenvalue, they are computed by QR iteration instead.
    """
    name = "symmetric matrix"
    _check_finite(name, A)
    try:
        values, vectors = np.linalg.eigh(A)
        error = np.abs((vectors * values) @ vectors.T - A).max(initial=0.0)
        if error <= tolerance * np.abs(values).max(initial=0.0):
            return values, vectors
    except np.linalg.LinAlgError:
        pass
    values, vectors, status = lapack.dsyev(A, lower=1)
    if status:
        raise _factorisation_error(name, A, "has eigenvalues for which no iteration converges")
    return values, vectors


def square_root(A: Array) -> Array:
    """Return a root R (n, r) with R R^T = A, for a positive semi-definite A of rank r."""
    values, vectors = eigenpairs(A)
    positive = values > 1e-14 * float(values.max(initial=0.0))
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def whiten_each(A: Array, B: Array) -> tuple[Array, Array]:
    """Return the Cholesky factors L of a stack of positive definite matrices, and L^-1 B for each.

    Parameters
    ----------
    A : array of shape (M, n, n)
    B : array of shape (M, n, c)

    Returns
    -------
    factors : array of shape (M, n, n)
    whitened : array of shape (M, n, c)

    Raises
    ------
    FactorisationError
        If one of the matrices is not positive definite.
    """
    factors = _factorise_each(A)
    if A.shape[1] == 1:
        return factors, np.asarray(B / factors)
    return factors, np.asarray(np.linalg.solve(factors, B))


def _factorise_each(A: Array) -> Array:
    """Return the Cholesky factors (M, n, n) of a stack of positive definite matrices."""
    name = "a covariance of innovations"
    if A.shape[1] == 1 and (np.isfinite(A) & (A > 0)).all():
        return np.sqrt(A)
    _check_finite(name, A)
    try:
        return np.asarray(np.linalg.cholesky(A))
    except np.linalg.LinAlgError:
        raise _factorisation_error(name, A, "is not positive definite") from None


# Values of c^2 - 1 that `dominating_factor` tries.
EXCESSES = (1e-6, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.5, 1.0, 3.0)


def dominating_factor(A: Array, B: Array) -> float:
    """Return nearly the smallest c >= 1 for which c^2 A - B is positive definite; infinite above 2.

    If `B` is smaller than `A`, it is extended by an identity matrix.
    """
    n, extension = len(B), np.arange(len(B), len(A))
    for excess in EXCESSES:
        # Both are symmetric; their transposes are in the order that LAPACK reads.
        difference = np.multiply(A.T, 1.0 + excess, order="F")
        difference[:n, :n] -= B.T
        difference[extension, extension] -= 1.0
        if lapack.dpotrf(difference, lower=1, clean=0, overwrite_a=1)[1] == 0:
            return float(np.sqrt(1.0 + excess))
    return np.inf

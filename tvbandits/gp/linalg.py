"""Factorisations of matrices; no other module calls one.

All matrices are symmetric positive (semi-)definite and factors are lower triangular, A = L L^T.
A failure is a `FactorisationError` that names the matrix and says what to try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack, qr_delete

from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index

# Relative jitters tried in turn; the first that succeeds is used and reported.
JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)

# Residual variances are what is left of larger ones: they tie within such a share (`tvbandits.ties`).
RESIDUAL_TIE = 1e-8


class FactorisationError(ValueError):
    """A matrix that should be positive definite is not, even with the largest jitter."""


def _failure(what: str, A: Array, why: str) -> FactorisationError:
    return FactorisationError(
        f"{what} of shape {A.shape} {why}: is the kernel a valid covariance, in the unit of the "
        "rewards? A larger noise variance also helps."
    )


def _check_finite(what: str, A: Array) -> None:
    if not np.isfinite(A).all():
        raise _failure(what, A, "has entries that are not finite")


@dataclass(frozen=True)
class Cholesky:
    """A lower factor L (n, n) of A + jitter I, and the jitter that it took (in A's unit)."""

    L: Array
    jitter: float


def cholesky(A: Array, what: str = "kernel matrix", *, scale: float | None = None) -> Cholesky:
    """Factor a symmetric positive definite matrix: no jitter first, then more and more.

    Parameters
    ----------
    A : array of shape (n, n)
        Only its lower triangle is read.
    what : str
        The name of the matrix in an error.
    scale : float, optional
        What jitters are relative to; by default the mean of the diagonal.

    Raises
    ------
    FactorisationError
        If `A` has an entry that is not finite, or is not positive definite with a jitter of 1e-6
        times `scale`.
    """
    _check_finite(what, A)
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
    raise _failure(what, A, f"is not positive definite, even with {jitter:.3g} on its diagonal")


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return L^-1 B, or L^-T B: forward or back substitution for B of shape (n,) or (n, m)."""
    if len(L) == 0 or B.size == 0:
        return np.array(B, dtype=np.float64)
    columns = B[:, None] if B.ndim == 1 else B
    if columns.flags.c_contiguous and not columns.flags.f_contiguous:
        # The same memory read as B^T: L X = B is X^T L^T = B^T, solved from the right, uncopied.
        right = blas.dtrsm(1.0, L, columns.T, side=1, lower=1, trans_a=int(not transposed))
        return np.asarray(right.T)
    solved = blas.dtrsm(1.0, L, columns, lower=1, trans_a=int(transposed))
    return np.asarray(solved[:, 0] if B.ndim == 1 else solved)


def is_positive_definite(A: Array) -> bool:
    """Return whether a symmetric matrix is positive definite, as far as rounding can tell."""
    return len(A) == 0 or lapack.dpotrf(A, lower=1)[1] == 0


def inverse_lower(L: Array) -> Array:
    """Return the lower triangle of A^-1, A = L L^T, from the lower factor; with zeros above it."""
    if len(L) == 0:
        return np.empty((0, 0))
    triangle, info = lapack.dpotri(L, lower=1)
    if info:
        raise _failure("a factor", L, "has a zero on its diagonal")
    return np.asarray(triangle)


def inverse(L: Array) -> Array:
    """Return A^-1 from the lower factor L of A = L L^T."""
    lower = inverse_lower(np.asfortranarray(L))
    return np.asarray(lower + np.tril(lower, -1).T)


def predict_each(A: Array, b: Array, y: Array) -> tuple[Array, Array]:
    """Return b^T A^-1 y and b^T A^-1 b for each of some small systems.

    `A` is (n, m, m), positive definite; `b` and `y` are (n, m).
    """
    what = "one of several small kernel matrices"
    _check_finite(what, A)
    scale = np.einsum("nii->ni", A).mean(axis=1)
    for relative in JITTERS:
        shifted = A + (relative * scale)[:, None, None] * np.eye(A.shape[1])
        try:
            solved = np.linalg.solve(shifted, np.stack([y, b], axis=-1))
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(solved).all():
            break
    else:
        raise _failure(what, A, f"is singular, even with a jitter of {JITTERS[-1]:g}")
    means, reductions = np.einsum("nm,nmc->nc", b, solved).T
    return np.asarray(means), np.asarray(reductions)


def log_determinant(L: Array) -> float:
    """Return log det(L L^T)."""
    return 2.0 * float(np.log(np.diagonal(L)).sum())


def quadratic_forms(L: Array, B: Array) -> Array:
    """Return b^T A^-1 b (m,) of the columns of B (n, m), from the lower factor L of A."""
    half = solve_lower(L, B)
    return np.asarray(np.einsum("ij,ij->j", half, half))


def spread_of(diagonal: Array, largest_spread: float = 1e150) -> float:
    """Return the largest over the smallest entry, at least 1; 1 where there is none.

    Rounding may leave an entry of 0, or below. The spread is then `largest_spread`, whose square, as a
    condition number, is still finite.
    """
    if len(diagonal) == 0:
        return 1.0
    largest, smallest = float(diagonal.max()), float(diagonal.min())
    return largest_spread if smallest * largest_spread <= largest else largest / smallest


def drop_rows(L: Array, V: Array, first: int, count: int) -> tuple[Array, Array]:
    """Drop rows `first .. first + count` of A, in O(n (n + m)) each, without a new factorisation.

    With L V = B (V of shape (n, m)), returns the factor L' of A without those rows and columns and
    the V' with L' V' = B without those rows. Deleting a row of A is deleting a column of the thin
    "QR" pair (V^T, L^T): Givens rotations make L^T triangular again and carry V along.
    """
    if count == 0:
        return L, V
    n, m = V.shape
    # The routine wants at least as many rows as columns in its "Q"; nothing in it needs Q orthogonal.
    columns = np.zeros((max(n, m), n), order="F")
    columns[:m] = V.T
    Q, R = qr_delete(columns, L.T, first, count, which="col", overwrite_qr=False)
    size = n - count
    factor, rows = R[:size].T.copy(order="F"), Q[:m, :size].T.copy()
    # Rotations may leave a negative diagonal; a Cholesky factor has none.
    signs = np.sign(np.diagonal(factor))
    return np.asfortranarray(factor * signs), np.asarray(rows * signs[:, None], dtype=np.float64)


def rank_one_update(L: Array, x: Array) -> Array:
    """Return the factor of L L^T + x x^T, in O(n^2), by Givens rotations."""
    n = len(L)
    if n == 0:
        return L
    # [L, x] [L, x]^T with one more column; deleting row 0 of a bordered factor gives the same thing.
    bordered = np.zeros((n + 1, n + 1), order="F")
    bordered[0, 0] = 1.0
    bordered[1:, 0] = x
    bordered[1:, 1:] = L
    return drop_rows(bordered, np.zeros((n + 1, 1)), 0, 1)[0]


@dataclass(frozen=True)
class PivotedCholesky:
    """Greedy low-rank factor A ~ G^T G.

    Attributes
    ----------
    pivots : array of shape (r,)
        Rows in the order of their choice: each has the largest residual variance of its turn, and is
        the first of those that tie.
    G : array of shape (r, n)
        Row s is the s-th column of the pivoted Cholesky factor.
    residual : array of shape (n,)
        diag(A - G^T G), the conditional variance that is left; never negative.
    """

    pivots: Index
    G: Array
    residual: Array


def pivoted_cholesky(
    diagonal: Array, column: Callable[[int], Array], rank: int, tolerance: float
) -> PivotedCholesky:
    """Factor greedily: take the row of largest conditional variance again and again.

    Parameters
    ----------
    diagonal : array of shape (n,)
        diag(A).
    column : callable
        `column(i)` returns column i of A, shape (n,); only those of pivots are asked for.
    rank : int
        At most so many pivots.
    tolerance : float
        Stop when the largest residual is not above this (in A's unit).
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
        # Rounding must not let a pivot be a pivot again.
        residual[pivot] = 0.0
        pivots.append(pivot)
    return PivotedCholesky(np.array(pivots, dtype=np.int64), G[: len(pivots)], residual)


def greedy_pivots(A: Array, tolerance: float) -> Index:
    """Return the pivots of `pivoted_cholesky` for a whole matrix, down to the tolerance, by LAPACK.

    Ties may fall otherwise: equal residuals are rows of equal merit.
    """
    _check_finite("kernel matrix", A)
    _, pivots, rank, _ = lapack.dpstrf(np.array(A, order="F"), tol=tolerance, lower=1)
    return np.asarray(pivots[:rank] - 1, dtype=np.int64)


def eigenpairs(A: Array, tolerance: float = 1e-12) -> tuple[Array, Array]:
    """Return eigenvalues (ascending) and eigenvectors (columns) of a symmetric matrix.

    By divide and conquer, which is fast. Where many eigenvalues are next to equal, as of a covariance
    of a filter that few places were read of, LAPACK's may not converge, or be wrong in the sixth digit
    without a word. If the pairs do not give the matrix back, but for a share `tolerance` of its largest
    eigenvalue, QR iteration takes its place.
    """
    what = "symmetric matrix"
    _check_finite(what, A)
    try:
        values, vectors = np.linalg.eigh(A)
        off = np.abs((vectors * values) @ vectors.T - A).max(initial=0.0)
        if off <= tolerance * np.abs(values).max(initial=0.0):
            return values, vectors
    except np.linalg.LinAlgError:
        pass
    values, vectors, status = lapack.dsyev(A, lower=1)
    if status:
        raise _failure(what, A, "has eigenvalues that no iteration finds")
    return values, vectors


def square_root(A: Array) -> Array:
    """Return a root R (n, r) with R R^T = A, for a positive semi-definite A of any rank r."""
    values, vectors = eigenpairs(A)
    positive = values > 1e-14 * float(values.max(initial=0.0))
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def whiten_each(A: Array, B: Array) -> tuple[Array, Array]:
    """Return Cholesky factors L of a stack of positive definite matrices, and L^-1 B of each.

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
        If one of them is not positive definite.
    """
    factors = _factors_each(A)
    if A.shape[1] == 1:
        return factors, np.asarray(B / factors)
    return factors, np.asarray(np.linalg.solve(factors, B))


def whitening_each(A: Array) -> tuple[Array, Array]:
    """Return Cholesky factors L (M, n, n) of a stack of positive definite matrices, and their inverses.

    Raises
    ------
    FactorisationError
        If one of them is not positive definite.
    """
    factors = _factors_each(A)
    return factors, np.array([lapack.dtrtri(each, lower=1)[0] for each in factors])


def _factors_each(A: Array) -> Array:
    what = "a covariance of innovations"
    if A.shape[1] == 1 and (np.isfinite(A) & (A > 0)).all():
        return np.sqrt(A)
    _check_finite(what, A)
    try:
        return np.asarray(np.linalg.cholesky(A))
    except np.linalg.LinAlgError:
        raise _failure(what, A, "is not positive definite") from None


# Tried beyond 1 for the ratio of two matrices.
RATIOS = (1e-6, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.04, 0.07, 0.1, 0.2, 0.5, 1.0, 3.0)


def dominance(A: Array, B: Array) -> float:
    """Return a c >= 1, nearly the least, with c^2 A - B positive definite; infinite beyond 2.

    Beyond the rows that B has, it is the unit matrix.
    """
    n, beyond = len(B), np.arange(len(B), len(A))
    for more in RATIOS:
        gap = np.multiply(A.T, 1.0 + more, order="F")  # both are symmetric: as they lie in memory
        gap[:n, :n] -= B.T
        gap[beyond, beyond] -= 1.0
        if lapack.dpotrf(gap, lower=1, clean=0, overwrite_a=1)[1] == 0:
            return float(np.sqrt(1.0 + more))
    return np.inf

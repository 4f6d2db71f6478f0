"""Whether a kernel is a covariance, and fits the inputs that it will see."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel, WhiteKernel

from tvbandits.core.arrays import LARGEST_VARIANCE, SMALLEST_VARIANCE, Array, as_points
from tvbandits.core.coercion import shown
from tvbandits.core.linalg import eigenpairs
from tvbandits.gp.kernels.space_time import OnSpace, _Restricted
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import children

CHECKED_POINTS = 64


class KernelError(ValueError):
    """A kernel is no covariance, or does not fit its inputs."""


def check_kernel(kernel: Any, points: ArrayLike, name: str = "kernel") -> None:
    """Check that a kernel is a covariance on `points` (m, p), the rows that it will see.

    At most `CHECKED_POINTS` of them, evenly spread, are looked at.

    Raises
    ------
    KernelError
        If it is no scikit-learn kernel, contains a `WhiteKernel`, has length scales for another
        dimension, or its matrix is no covariance; the message says which property fails.
    """
    if not isinstance(kernel, Kernel):
        raise KernelError(f"{name} must be a scikit-learn kernel object, got {shown(kernel)}")
    rows = as_points(points)
    picked = np.linspace(0, len(rows) - 1, min(len(rows), CHECKED_POINTS)).astype(np.int64)
    rows = rows[picked]
    _check_structure(kernel, rows.shape[1], name)
    if len(rows) == 0:
        return
    try:
        with np.errstate(all="ignore"):  # what becomes of it is looked at below
            K, diagonal = np.asarray(kernel(rows)), np.asarray(kernel.diag(rows))
    except Exception as error:  # whatever a user's own kernel raises
        raise KernelError(f"{name} fails on points of shape {rows.shape}: {error}") from error
    _check_matrix(K, diagonal, len(rows), name)


def _check_structure(kernel: Kernel, columns: int, name: str) -> None:
    """Refuse what can be told from the parts, each of which sees so many `columns`."""
    if isinstance(kernel, WhiteKernel):
        raise KernelError(f"{name} contains a WhiteKernel: give the noise through noise_variance")
    scales = np.size(getattr(kernel, "length_scale", 1.0))
    if scales not in (1, columns):
        raise KernelError(
            f"{name}: {kernel!r} has {scales} length scales, but sees points of dimension {columns}"
        )
    if isinstance(kernel, _Restricted):
        if columns < 2:
            raise KernelError(f"{name}: {kernel!r} sees rows [x, t], got points of dimension 1")
        if is_space_time(kernel.kernel):
            raise KernelError(f"{name}: a space-time kernel is nested in another in {kernel!r}")
        columns = columns - 1 if isinstance(kernel, OnSpace) else 1
    for child in children(kernel):
        _check_structure(child, columns, name)


def _check_matrix(K: Array, diagonal: Array, n: int, name: str) -> None:
    """Raise a `KernelError` unless `K` is a covariance matrix (n, n) with that diagonal."""
    if K.shape != (n, n) or diagonal.shape != (n,):
        shapes = f"{K.shape} with a diagonal of shape {diagonal.shape}"
        raise KernelError(f"{name} must give a matrix of shape ({n}, {n}) for {n} points: {shapes}")
    if not np.isfinite(K).all():
        raise KernelError(f"{name} must be finite, got {K[~np.isfinite(K)][0]}")
    scale = np.abs(K).max()
    if scale > LARGEST_VARIANCE:
        raise KernelError(
            f"{name} must give variances of at most {LARGEST_VARIANCE:g}, got {scale:.3g}"
        )
    asymmetry = np.abs(K - K.T).max()
    if asymmetry > 1e-8 * scale:
        raise KernelError(f"{name} must be symmetric, but K - K^T is as large as {asymmetry:.3g}")
    lowest = np.diagonal(K).min()
    if not lowest > 0.0:
        raise KernelError(f"{name} must have a positive diagonal, got {lowest:.3g}")
    if lowest < SMALLEST_VARIANCE:
        raise KernelError(
            f"{name} must give variances of at least {SMALLEST_VARIANCE:g}, got {lowest:.3g}"
        )
    gap = np.abs(np.diagonal(K) - diagonal).max()
    if not gap <= 1e-8 * scale:
        raise KernelError(f"{name}: diag(X) differs from the diagonal of the matrix by {gap:.3g}")
    spectrum, _ = eigenpairs(K)
    if spectrum[0] < -1e-8 * spectrum[-1]:
        raise KernelError(
            f"{name} must be positive semi-definite, but the eigenvalues of its matrix on {n} "
            f"points range from {spectrum[0]:.3g} to {spectrum[-1]:.3g}"
        )

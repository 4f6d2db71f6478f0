"""Compute the inputs of a kernel, check that it is a covariance, and compute its features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import Kernel, WhiteKernel

from tvbandits.data import append_times
from tvbandits.gp.kernels.matern import Coordinates
from tvbandits.gp.kernels.space_time import OnSpace, _Restricted, children, is_space_time
from tvbandits.gp.linalg import eigenpairs
from tvbandits.validation import (
    LARGEST_VARIANCE,
    SMALLEST_VARIANCE,
    Array,
    as_points,
    check_instance,
    require,
)


def inputs(kernel: Kernel, X: Array, t: ArrayLike) -> Array:
    """Return the kernel inputs of points `X` (n, d) at times `t` (n,), or at one time for all.

    They are `X` for a kernel over points, and [X, t] of shape (n, d + 1) for a space-time kernel.
    """
    if not is_space_time(kernel):
        return X
    times = np.asarray(t, dtype=np.float64)
    if times.shape not in ((), (len(X),)):
        raise ValueError(f"t must be a number or have shape ({len(X)},), got {times.shape}")
    return append_times(X, times)


CHECKED_POINTS = 64


def check_kernel(kernel: Any, points: ArrayLike, name: str = "kernel") -> None:
    """Check that a kernel is a covariance on kernel inputs `points` (m, p).

    At most `CHECKED_POINTS` of the inputs, evenly spread, are checked.

    Raises
    ------
    ValueError
        If it is not a scikit-learn kernel, contains a `WhiteKernel`, has length scales for another
        dimension, or its matrix is not a covariance; the message names the property that fails.
    """
    check_instance(name, kernel, Kernel, "a scikit-learn kernel object")
    rows = as_points(points)
    sample = np.linspace(0, len(rows) - 1, min(len(rows), CHECKED_POINTS)).astype(np.int64)
    rows = rows[sample]
    _check_structure(kernel, rows.shape[1], name)
    if len(rows) == 0:
        return
    try:
        with np.errstate(all="ignore"):  # the values are checked below
            K, diagonal = np.asarray(kernel(rows)), np.asarray(kernel.diag(rows))
    except Exception as error:  # a user's own kernel may raise any error
        raise ValueError(f"{name} fails on points of shape {rows.shape}: {error}") from error
    _check_matrix(K, diagonal, len(rows), name)


def _check_structure(kernel: Kernel, columns: int, name: str) -> None:
    """Raise a `ValueError` if a part of the kernel does not suit inputs with `columns` columns."""
    if isinstance(kernel, WhiteKernel):
        raise ValueError(f"{name} contains a WhiteKernel: give the noise through noise_variance")
    # `Coordinates.scales` has a length scale for each column, also where columns share one.
    coordinates = type(kernel) is Coordinates
    scales = kernel.scales if coordinates else getattr(kernel, "length_scale", 1.0)
    count = np.size(scales)
    if count not in (1, columns):
        needs = f"but its inputs have dimension {columns}"
        raise ValueError(f"{name}: {kernel!r} has {count} length scales, {needs}")
    if isinstance(kernel, _Restricted):
        if columns < 2:
            raise ValueError(f"{name}: {kernel!r} needs rows [x, t], got points of dimension 1")
        if is_space_time(kernel.kernel):
            raise ValueError(f"{name}: a space-time kernel is nested in another in {kernel!r}")
        columns = columns - 1 if isinstance(kernel, OnSpace) else 1
    for child in children(kernel):
        _check_structure(child, columns, name)


def _check_matrix(K: Array, diagonal: Array, n: int, name: str) -> None:
    """Raise a `ValueError` unless `K` is a covariance matrix (n, n) with that diagonal."""
    shapes = K.shape, diagonal.shape
    needs = f"a kernel whose matrix for {n} points has the shape ({n}, {n}), and a diagonal"
    require(shapes == ((n, n), (n,)), name, needs, shapes)
    require(np.isfinite(K).all(), name, "finite", K.flat[np.isfinite(K).argmin()])
    scale, lowest = float(np.abs(K).max()), float(np.diagonal(K).min())
    needs = f"positive on the diagonal, from {SMALLEST_VARIANCE:g} to {LARGEST_VARIANCE:g}"
    require(lowest >= SMALLEST_VARIANCE and scale <= LARGEST_VARIANCE, name, needs, (lowest, scale))
    asymmetry = float(np.abs(K - K.T).max())
    require(asymmetry <= 1e-8 * scale, name, "symmetric, with K - K^T = 0", asymmetry)
    gap = float(np.abs(np.diagonal(K) - diagonal).max())
    require(gap <= 1e-8 * scale, f"diag(X) of {name}", "the diagonal of its matrix: off by 0", gap)
    spectrum = eigenpairs(K)[0].tolist()
    needs = f"positive semi-definite, without an eigenvalue below 0 on {n} points"
    require(spectrum[0] >= -1e-8 * spectrum[-1], name, needs, spectrum[0])


def eigen_features(kernel: Any, X: Array, smallest: float = 1e-10) -> tuple[Array, Array]:
    """Return features (A, r) of points (A, d), and the eigenvalues (r,) of their kernel matrix.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X : array of shape (A, d)
    smallest : float
        Eigenvalues up to this fraction of the largest are left out.
    """
    check_kernel(kernel, X)
    values, vectors = eigenpairs(np.asarray(kernel(X)))
    rows = values > smallest * float(values.max())
    return np.asarray(vectors[:, rows] * np.sqrt(values[rows])), np.asarray(values[rows])

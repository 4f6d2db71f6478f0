"""The inputs of a kernel, how it forgets by its structure, and whether it is a covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Kernel,
    Matern,
    Product,
    Sum,
    WhiteKernel,
)

from tvbandits.data import at_times
from tvbandits.gp.kernels.coordinates import Coordinates
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, _Restricted
from tvbandits.gp.kernels.terms import children, parts_of
from tvbandits.gp.linalg import PivotedCholesky, eigenpairs, pivoted_cholesky
from tvbandits.validation import (
    LARGEST_VARIANCE,
    SMALLEST_VARIANCE,
    Array,
    as_points,
    of_kind,
    require,
)


def is_space_time(kernel: Kernel) -> bool:
    """Whether `OnSpace`, `OnTime` or `Drift` is part of the kernel: its rows are [x, t]."""
    return any(isinstance(part, _Restricted | Drift) for part in parts_of(kernel))


def space_time(kernel: Kernel) -> Kernel:
    """Return a pure-space kernel wrapped in `OnSpace`, a space-time one unchanged."""
    return kernel if is_space_time(kernel) else OnSpace(kernel)


def without_bounds(kernel: Kernel) -> Kernel:
    """The same kernel with no free hyperparameter: nothing in it is fitted."""
    fixed = kernel.clone_with_theta(kernel.theta)
    bounds = {f"{part.name}_bounds": "fixed" for part in kernel.hyperparameters}
    return fixed.set_params(**bounds)


def inputs(kernel: Kernel, X: Array, t: ArrayLike) -> Array:
    """What the kernel sees of points `X` (n, d) at times `t` (n,), or at one time for all.

    It is `X` itself for a pure-space kernel, [X, t] of shape (n, d + 1) for a space-time one.
    """
    if not is_space_time(kernel):
        return X
    times = np.asarray(t, dtype=np.float64)
    if times.shape not in ((), (len(X),)):
        raise ValueError(f"t must be a number or have shape ({len(X)},), got {times.shape}")
    return at_times(X, times)


def advance(kernel: Kernel, h: float) -> float | None:
    """The c with k((x, t + h), (x', t')) = c k((x, t), (x', t')) for all t >= t', if there is one.

    Moving the present on by h >= 0 then only scales the covariance with the past. None where the
    structure of the kernel guarantees no such number.
    """
    return _factor(kernel, float(h), in_time=False) if is_space_time(kernel) else 1.0


def _factor(kernel: Kernel, h: float, in_time: bool) -> float | None:
    """`advance` of a part; `in_time`: inside of `OnTime`, where a plain kernel sees times alone."""
    # Exact types: a subclass may have redefined the formula that is relied on here.
    kind = type(kernel)
    if kind in (OnSpace, ConstantKernel):
        return 1.0
    if kind is Drift:
        return float((1.0 - kernel._rate()) ** (0.5 * h))
    if kind is OnTime:
        return _factor(kernel.kernel, h, in_time=True)
    if kind is Matern and in_time and kernel.nu == 0.5:
        return float(np.exp(-h / np.asarray(kernel.length_scale).item()))
    if kind in (Sum, Product):
        first, second = _factor(kernel.k1, h, in_time), _factor(kernel.k2, h, in_time)
        if first is None or second is None:
            return None
        return first * second if kind is Product else (first if first == second else None)
    return None


def spanned(kernel: Kernel, points: Array, rank: int, share: float) -> PivotedCholesky:
    """The pivoted Cholesky factor of a kernel matrix on points (n, d), of so many rows at the most.

    It ends where no point keeps more than a share of the largest prior variance.
    """
    prior = np.asarray(kernel.diag(points), dtype=np.float64)

    def column(i: int) -> Array:
        return np.asarray(kernel(points[i : i + 1], points)[0], dtype=np.float64)

    least = share * float(prior.max(initial=0.0))
    return pivoted_cholesky(prior, column, min(rank, len(points)), least)


CHECKED_POINTS = 64


def check_kernel(kernel: Any, points: ArrayLike, name: str = "kernel") -> None:
    """Check that a kernel is a covariance on `points` (m, p), the rows that it will see.

    At most `CHECKED_POINTS` of them, evenly spread, are looked at.

    Raises
    ------
    ValueError
        If it is no scikit-learn kernel, contains a `WhiteKernel`, has length scales for another
        dimension, or its matrix is no covariance; the message says which property fails.
    """
    of_kind(name, kernel, Kernel, "a scikit-learn kernel object")
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
        raise ValueError(f"{name} fails on points of shape {rows.shape}: {error}") from error
    _check_matrix(K, diagonal, len(rows), name)


def _check_structure(kernel: Kernel, columns: int, name: str) -> None:
    """Refuse what can be told from the parts, each of which sees so many `columns`."""
    if isinstance(kernel, WhiteKernel):
        raise ValueError(f"{name} contains a WhiteKernel: give the noise through noise_variance")
    # Those of the columns, of which several may share one.
    each = kernel.scales if type(kernel) is Coordinates else getattr(kernel, "length_scale", 1.0)
    scales = np.size(each)
    if scales not in (1, columns):
        needs = f"but sees points of dimension {columns}"
        raise ValueError(f"{name}: {kernel!r} has {scales} length scales, {needs}")
    if isinstance(kernel, _Restricted):
        if columns < 2:
            raise ValueError(f"{name}: {kernel!r} sees rows [x, t], got points of dimension 1")
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
    smallest : float
        Eigenvalues below this share of the largest are left out.
    """
    check_kernel(kernel, X)
    values, vectors = eigenpairs(np.asarray(kernel(X)))
    rows = values > smallest * float(values.max())
    return np.asarray(vectors[:, rows] * np.sqrt(values[rows])), np.asarray(values[rows])

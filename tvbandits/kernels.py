"""Space-time kernels, built from scikit-learn's and usable as such.

The rows that a space-time kernel sees are [x_1 .. x_d, t]: the time is the last column. `OnSpace`
and `OnTime` restrict a scikit-learn kernel to the one or the other, `Drift` forgets with time, and
sums and products are scikit-learn's own. A kernel with none of the three is a pure-space kernel
and sees points alone; beside one of them, a plain kernel sees all d + 1 columns (or use `OnSpace`).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import (
    ConstantKernel,
    Exponentiation,
    Hyperparameter,
    Kernel,
    Matern,
    Product,
    StationaryKernelMixin,
    Sum,
    WhiteKernel,
)

from tvbandits.linalg import FactorisationError, cholesky, eigenvalues, log_determinant, solve_lower
from tvbandits.observations import Array, Observations, as_points

CHECKED_POINTS = 64


class KernelError(ValueError):
    """A kernel is no covariance, or does not fit its inputs."""


class _Restricted(Kernel):  # type: ignore[misc]
    """A kernel applied to some of the columns; all hyperparameters are the inner kernel's."""

    _part: slice

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def _columns(self, X: Array) -> Array:
        rows = np.atleast_2d(X)
        if rows.ndim != 2 or rows.shape[1] < 2:
            raise ValueError(f"rows [x_1 .. x_d, t] must have shape (n, d + 1), got {rows.shape}")
        return rows[:, self._part]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the inner kernel and, where `deep`, its parameters as `kernel__<name>`."""
        params = {"kernel": self.kernel}
        if deep:
            params |= {f"kernel__{name}": value for name, value in self.kernel.get_params().items()}
        return params

    # Exponentiation wraps one kernel in an attribute of that name, too: these ask nothing else.
    hyperparameters = Exponentiation.hyperparameters
    theta = Exponentiation.theta
    bounds = Exponentiation.bounds
    is_stationary = Exponentiation.is_stationary
    requires_vector_input = Exponentiation.requires_vector_input

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to `theta`."""
        other = None if Y is None else self._columns(Y)
        return self.kernel(self._columns(X), other, eval_gradient=eval_gradient)

    def diag(self, X: Array) -> Array:
        """Return the diagonal of `self(X)`, shape (n,)."""
        return np.asarray(self.kernel.diag(self._columns(X)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r})"


class OnSpace(_Restricted):
    """k((x, t), (x', t')) = kernel(x, x'): a kernel on all columns but the last."""

    _part = slice(None, -1)


class OnTime(_Restricted):
    """k((x, t), (x', t')) = kernel(t, t'): a kernel on the last column, as points (n, 1)."""

    _part = slice(-1, None)


class Drift(StationaryKernelMixin, Kernel):  # type: ignore[misc]
    """k((x, t), (x', t')) = (1 - epsilon)^(|t - t'| / 2): forgetting at a constant rate.

    The time kernel of TV-GP-UCB (Bogunovic, Scarlett and Cevher 2016, section 3).

    Parameters
    ----------
    epsilon : float
        Rate of forgetting for a unit of time, 0 <= epsilon < 1; 0 only with fixed bounds.
    epsilon_bounds : pair of floats or "fixed"
        Where a fit may look for epsilon.
    """

    def __init__(
        self, epsilon: float = 0.03, epsilon_bounds: tuple[float, float] | str = (1e-5, 0.9)
    ) -> None:
        self.epsilon = epsilon
        self.epsilon_bounds = epsilon_bounds
        self._rate()

    @property
    def hyperparameter_epsilon(self) -> Hyperparameter:
        """The one hyperparameter."""
        return Hyperparameter("epsilon", "numeric", self.epsilon_bounds)

    def _rate(self) -> float:
        """Return epsilon; checked at every use, since scikit-learn sets parameters as it likes."""
        if not 0.0 <= self.epsilon < 1.0:
            raise ValueError(f"epsilon must be at least 0 and below 1, got {self.epsilon}")
        if self.epsilon == 0.0 and not self.hyperparameter_epsilon.fixed:
            raise ValueError('epsilon = 0 cannot be fitted: give epsilon_bounds="fixed" with it')
        return float(self.epsilon)

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to log epsilon.

        dk / dlog(epsilon) = -epsilon / (1 - epsilon) |t - t'| / 2 k
        """
        if Y is not None and eval_gradient:
            raise ValueError("the gradient can only be evaluated when Y is None")
        times = np.atleast_2d(X)[:, -1]
        others = times if Y is None else np.atleast_2d(Y)[:, -1]
        epsilon = self._rate()
        half_age = 0.5 * np.abs(times[:, None] - others)
        K = (1.0 - epsilon) ** half_age
        if not eval_gradient:
            return K
        if self.hyperparameter_epsilon.fixed:
            return K, np.empty((*K.shape, 0))
        return K, (-epsilon / (1.0 - epsilon) * half_age * K)[:, :, None]

    def diag(self, X: Array) -> Array:
        """Return ones, shape (n,)."""
        return np.ones(len(np.atleast_2d(X)))

    def __repr__(self) -> str:
        return f"Drift(epsilon={self.epsilon:.3g})"


def _children(kernel: Kernel) -> list[Kernel]:
    """The kernels that a kernel is made of."""
    values = kernel.get_params(deep=False).values()
    lists = [value if isinstance(value, list | tuple) else [value] for value in values]
    return [child for some in lists for child in some if isinstance(child, Kernel)]


def is_space_time(kernel: Kernel) -> bool:
    """Whether `OnSpace`, `OnTime` or `Drift` is part of the kernel: its rows are [x, t]."""
    return isinstance(kernel, _Restricted | Drift) or any(map(is_space_time, _children(kernel)))


def space_time(kernel: Kernel) -> Kernel:
    """Return a pure-space kernel wrapped in `OnSpace`, a space-time one unchanged."""
    return kernel if is_space_time(kernel) else OnSpace(kernel)


def inputs(kernel: Kernel, X: Array, t: ArrayLike) -> Array:
    """What the kernel sees of points `X` (n, d) at times `t` (n,), or at one time for all.

    It is `X` itself for a pure-space kernel, [X, t] of shape (n, d + 1) for a space-time one.
    """
    if not is_space_time(kernel):
        return X
    times = np.asarray(t, dtype=np.float64)
    if times.shape not in ((), (len(X),)):
        raise ValueError(f"t must be a number or have shape ({len(X)},), got {times.shape}")
    return np.column_stack([X, np.broadcast_to(times, len(X))])


def advance(kernel: Kernel, h: float) -> float | None:
    """The c with k((x, t + h), (x', t')) = c k((x, t), (x', t')) for all t >= t', if there is one.

    Moving the present on by h >= 0 then only scales the covariance with the past. None where the
    structure of the kernel guarantees no such number.
    """
    if not 0.0 <= h < np.inf:
        raise ValueError(f"h must be finite and not negative, got {h}")
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
    if kind is Exponentiation:
        base = _factor(kernel.kernel, h, in_time)
        return None if base is None else float(base**kernel.exponent)
    if kind in (Sum, Product):
        first, second = _factor(kernel.k1, h, in_time), _factor(kernel.k2, h, in_time)
        if first is None or second is None:
            return None
        return first * second if kind is Product else (first if first == second else None)
    return None


def separate(kernel: Kernel) -> Kernel | None:
    """The part over points, where `kernel` is k(x, x') rho(t - t') with a Markov correlation rho.

    That is a product of at least one kernel over points (`OnSpace`, possibly times constants) and at
    least one over time (`Drift`, or `OnTime` of products and powers of Matern-1/2 kernels of
    variance 1); None for anything else.
    """
    factors = _factors(kernel)
    # Exact types: a subclass may have redefined the formula that is relied on here.
    space = [f for f in factors if type(f) in (OnSpace, ConstantKernel)]
    time = [f for f in factors if type(f) in (Drift, OnTime)]
    if len(space) + len(time) < len(factors) or not time:
        return None
    if not any(type(f) is OnSpace for f in space) or not all(map(_is_correlation, time)):
        return None
    over_points = [f.kernel if type(f) is OnSpace else f for f in space]
    return reduce(operator.mul, over_points)


def _factors(kernel: Kernel) -> list[Kernel]:
    """The factors of nested products."""
    if type(kernel) is Product:
        return _factors(kernel.k1) + _factors(kernel.k2)
    return [kernel]


def _is_correlation(in_time: Kernel) -> bool:
    """Whether a kernel over time is a Markov correlation, at all distances in time."""
    # `advance` of a sum tells about one distance only.
    if _holds_sum(in_time) or float(in_time.diag(np.zeros((1, 2)))[0]) != 1.0:
        return False
    factor = advance(in_time, 1.0)
    return factor is not None and factor <= 1.0


def _holds_sum(kernel: Kernel) -> bool:
    return isinstance(kernel, Sum) or any(map(_holds_sum, _children(kernel)))


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
        raise KernelError(f"{name} must be a scikit-learn kernel object, got {kernel!r}")
    rows = as_points(points)
    picked = np.linspace(0, len(rows) - 1, min(len(rows), CHECKED_POINTS)).astype(np.int64)
    rows = rows[picked]
    _check_structure(kernel, rows.shape[1], name)
    if len(rows) == 0:
        return
    try:
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
    for child in _children(kernel):
        _check_structure(child, columns, name)


def _check_matrix(K: Array, diagonal: Array, n: int, name: str) -> None:
    """Raise a `KernelError` unless `K` is a covariance matrix (n, n) with that diagonal."""
    if K.shape != (n, n) or diagonal.shape != (n,):
        shapes = f"{K.shape} with a diagonal of shape {diagonal.shape}"
        raise KernelError(f"{name} must give a matrix of shape ({n}, {n}) for {n} points: {shapes}")
    if not np.isfinite(K).all():
        raise KernelError(f"{name} must be finite, got {K[~np.isfinite(K)][0]}")
    scale = np.abs(K).max()
    asymmetry = np.abs(K - K.T).max()
    if asymmetry > 1e-8 * scale:
        raise KernelError(f"{name} must be symmetric, but K - K^T is as large as {asymmetry:.3g}")
    lowest = np.diagonal(K).min()
    if not lowest > 0.0:
        raise KernelError(f"{name} must have a positive diagonal, got {lowest:.3g}")
    gap = np.abs(np.diagonal(K) - diagonal).max()
    if not gap <= 1e-8 * scale:
        raise KernelError(f"{name}: diag(X) differs from the diagonal of the matrix by {gap:.3g}")
    spectrum = eigenvalues(K)
    if spectrum[0] < -1e-8 * spectrum[-1]:
        raise KernelError(
            f"{name} must be positive semi-definite, but the eigenvalues of its matrix on {n} "
            f"points range from {spectrum[0]:.3g} to {spectrum[-1]:.3g}"
        )


def log_evidence(
    kernel: Kernel, Z: Array, y: Array, variance: Array, *, eval_gradient: bool = False
) -> Any:
    """Log marginal likelihood of zero-mean values with a noise variance each.

    log p(y) = -1/2 y^T A^-1 y - 1/2 log det A - n/2 log 2 pi, with A = K + diag(variance), and
    d log p / d theta_j = 1/2 tr((a a^T - A^-1) dK / d theta_j), with a = A^-1 y
    (Rasmussen and Williams 2006, eqs. 2.30 and 5.9).

    `Z` (n, p) are the rows that the kernel sees (see `inputs`), `y` and `variance` are (n,). With
    `eval_gradient`, the gradient with respect to `kernel.theta` comes second.
    """
    value, gradient, _ = _evidence(kernel, Z, y, variance, 0.0, eval_gradient)
    return (value, gradient) if eval_gradient else value


def _evidence(
    kernel: Kernel, Z: Array, y: Array, variance: Array, mean: float | None, eval_gradient: bool
) -> tuple[float, Array, float]:
    """Log evidence, its gradient, and the mean: the one given, or the most likely one."""
    K, slopes = kernel(Z, eval_gradient=True) if eval_gradient else (kernel(Z), np.empty(0))
    L = cholesky(K + np.diag(variance)).L
    ones = solve_lower(L, np.ones(len(y)))
    # Generalised least squares; the evidence is flat there, so its gradient takes it as fixed.
    centre = float(ones @ solve_lower(L, y) / (ones @ ones)) if mean is None else mean
    white = solve_lower(L, y - centre)
    value = -0.5 * float(white @ white + log_determinant(L) + len(y) * np.log(2.0 * np.pi))
    if not eval_gradient:
        return value, slopes, centre
    weights = solve_lower(L, white, transposed=True)
    root = solve_lower(L, np.eye(len(y)))
    inner = np.outer(weights, weights) - root.T @ root
    return value, 0.5 * np.einsum("ij,ijp->p", inner, slopes), centre


@dataclass(frozen=True)
class Fitted:
    """What `fit` found: the kernel, the prior mean used, and how the search went.

    `converged` is about the run that won; `at_bounds` names hyperparameters that ended at a bound.
    """

    kernel: Kernel
    log_evidence: float
    initial_log_evidence: float
    mean: float
    evaluations: int
    converged: bool
    at_bounds: tuple[str, ...] = ()


def fit(
    kernel: Kernel,
    observations: Observations,
    *,
    mean: float | None = None,
    restarts: int = 0,
    rng: np.random.Generator | None = None,
    max_iterations: int = 200,
) -> Fitted:
    """Maximise the log evidence over the free hyperparameters, within their bounds, by L-BFGS-B.

    Starts are the kernel as given and `restarts` more, drawn by `rng` log-uniformly within the
    bounds; the result is never worse than the kernel as given. Without a prior `mean`, the constant
    of generalised least squares, 1^T A^-1 y / 1^T A^-1 1, is profiled out of the evidence.
    """
    if len(observations) == 0:
        raise ValueError("a kernel cannot be fitted to no observations")
    if restarts and rng is None:
        raise ValueError("restarts are random: give rng")
    data = (inputs(kernel, observations.X, observations.t), observations.y, observations.variance)
    initial, _, centre = _evidence(kernel, *data, mean, False)
    start, bounds = kernel.theta, kernel.bounds
    if len(start) == 0:
        return Fitted(kernel, initial, initial, centre, 1, True)

    def loss(theta: Array) -> tuple[float, Array]:
        return _loss(theta, kernel, data, mean, 1.0 + 2.0 * abs(initial))

    starts = [start]
    if rng is not None:
        starts += list(rng.uniform(bounds[:, 0], bounds[:, 1], (restarts, len(start))))
    best, best_loss, converged, evaluations = start, -initial, False, 1
    for begin in starts:
        found = minimize(loss, begin, jac=True, bounds=bounds, options={"maxiter": max_iterations})
        evaluations += int(found.nfev)
        if found.fun <= best_loss:
            best, best_loss, converged = found.x, float(found.fun), bool(found.success)
    fitted = kernel.clone_with_theta(best)
    value, _, centre = _evidence(fitted, *data, mean, False)
    return Fitted(fitted, value, initial, centre, evaluations, converged, _at_bounds(fitted))


def _loss(
    theta: Array, kernel: Kernel, data: tuple[Array, Array, Array], mean: float | None, wall: float
) -> tuple[float, Array]:
    """Minus the log evidence and its gradient; a `wall` where the matrix has no factor."""
    try:
        value, gradient, _ = _evidence(kernel.clone_with_theta(theta), *data, mean, True)
    except FactorisationError:
        return wall, np.zeros_like(theta)  # the line search turns back
    return -value, -gradient


def _at_bounds(kernel: Kernel) -> tuple[str, ...]:
    """Names of the free hyperparameters that are at a bound; elements of a vector by number."""
    names = [
        part.name if part.n_elements == 1 else f"{part.name}[{element}]"
        for part in kernel.hyperparameters
        if not part.fixed
        for element in range(part.n_elements)
    ]
    at = (np.abs(kernel.theta[:, None] - kernel.bounds) < 1e-6).any(axis=1)
    return tuple(name for name, hit in zip(names, at, strict=True) if hit)

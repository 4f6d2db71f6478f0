"""Hyperparameters of largest evidence (Rasmussen & Williams 2006, chapter 5; docs/references.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.core.arrays import Array
from tvbandits.core.linalg import FactorisationError
from tvbandits.core.observations import Observations
from tvbandits.gp.fitting.evidence import profiled_evidence
from tvbandits.gp.kernels.structure import inputs


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

    Raises
    ------
    ValueError
        If there are no observations, or restarts without `rng`.
    FactorisationError
        If the kernel as given has no factor on the observations.
    """
    if len(observations) == 0:
        raise ValueError("a kernel cannot be fitted to no observations")
    if restarts and rng is None:
        raise ValueError("restarts are random: give rng")
    data = (inputs(kernel, observations.X, observations.t), observations.y, observations.variance)
    initial, _, centre = profiled_evidence(kernel, *data, mean, False)
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
    value, _, centre = profiled_evidence(fitted, *data, mean, False)
    return Fitted(fitted, value, initial, centre, evaluations, converged, _at_bounds(fitted))


def _loss(
    theta: Array, kernel: Kernel, data: tuple[Array, Array, Array], mean: float | None, wall: float
) -> tuple[float, Array]:
    """Minus the log evidence and its gradient; a `wall` where the matrix has no factor."""
    try:
        value, gradient, _ = profiled_evidence(kernel.clone_with_theta(theta), *data, mean, True)
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

"""Effects relative to a control by dense algebra, if readings of one time share a level."""

from typing import Any

import numpy as np
from scipy.linalg import null_space

from tvbandits.gp.kernel_matrix import inputs
from tvbandits.validation import Array, Index


def relative_effects(
    kernel: Any,
    points: Array,
    rows: Index,
    t: Array,
    y: Array,
    variance: Array,
    control: int,
    now: float,
) -> tuple[Array, Array]:
    """Return mean (A,) and covariance (A, A) of f - f(control) at all points and the time `now`.

    Readings are multiplied by a basis of the complement of the levels, which removes these.
    """
    levels = (t[:, None] == np.unique(t)).astype(float)
    basis = null_space(levels.T).T
    observed, present = (
        inputs(kernel, points[rows], t),
        inputs(kernel, points, np.full(len(points), now)),
    )
    K = basis @ (kernel(observed) + np.diag(variance)) @ basis.T
    cross = basis @ kernel(observed, present)
    contrast = np.eye(len(points)) - np.eye(len(points))[control]
    gain = np.linalg.solve(K, cross)
    mean, covariance = gain.T @ (basis @ y), kernel(present) - cross.T @ gain
    return contrast @ mean, contrast @ covariance @ contrast.T

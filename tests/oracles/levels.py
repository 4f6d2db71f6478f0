"""Effects beside a control by dense algebra, where readings of a time share a level."""

from typing import Any

import numpy as np
from scipy.linalg import null_space

from tvbandits.gp.kernel_matrix import inputs
from tvbandits.validation import Array, Index


def effects_beside(
    kernel: Any,
    points: Array,
    rows: Index,
    t: Array,
    y: Array,
    variance: Array,
    control: int,
    now: float,
) -> tuple[Array, Array]:
    """Mean (A,) and covariance (A, A) of f - f(control) at all points and the time `now`.

    Whatever is free of the levels is a product with a basis of what is orthogonal to all of them.
    """
    levels = (t[:, None] == np.unique(t)).astype(float)
    free = null_space(levels.T).T
    seen, here = inputs(kernel, points[rows], t), inputs(kernel, points, np.full(len(points), now))
    K = free @ (kernel(seen) + np.diag(variance)) @ free.T
    across = free @ kernel(seen, here)
    beside = np.eye(len(points)) - np.eye(len(points))[control]
    gain = np.linalg.solve(K, across)
    mean, covariance = gain.T @ (free @ y), kernel(here) - across.T @ gain
    return beside @ mean, beside @ covariance @ beside.T

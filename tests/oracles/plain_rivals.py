"""Rivals restated plainly: dense algebra, a loop for every sum, nothing shared with the package."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def matern52(r: Any) -> Any:
    s = math.sqrt(5) * np.abs(r)
    return (1 + s + s**2 / 3) * np.exp(-s)


def matern32(r: Any) -> Any:
    s = math.sqrt(3) * np.abs(r)
    return (1 + s) * np.exp(-s)


def relevances_by_leaving_out(K: Array, noise: float, y: Array, C: Array) -> Array:
    """W-DBO's criterion, with an inverse for every observation that is left out.

    With weights w(z) = k(z)^T A y and A the inverse, the squared difference of means integrates to
    d^T C d for d = A y - (A_i y_i, 0), and the difference of variances to the sum of (A - A_i) o C.
    """
    n = len(y)
    whole = np.linalg.inv(K + noise * np.eye(n))
    size = (whole @ y) @ C @ (whole @ y) + (whole * C).sum()
    found = []
    for i in range(n):
        left = [j for j in range(n) if j != i]
        smaller = np.zeros((n, n))
        smaller[np.ix_(left, left)] = np.linalg.inv(K[np.ix_(left, left)] + noise * np.eye(n - 1))
        d = whole @ y - smaller @ y
        found.append(math.sqrt((d @ C @ d + ((whole - smaller) * C).sum()) / size))
    return np.array(found)


def drift_posterior(
    K: Array,
    epsilon: float,
    rows: list[int],
    t: list[float],
    y: list[float],
    noise: float,
    now: float,
) -> tuple[Array, Array]:
    """Mean and covariance of all candidates at `now` under TV-GP-UCB's model, densely."""
    if not rows:
        return np.zeros(len(K)), K
    times = np.array(t)
    between = (1 - epsilon) ** (np.abs(times[:, None] - times) / 2)
    G = K[np.ix_(rows, rows)] * between + noise * np.eye(len(rows))
    cross = K[rows] * ((1 - epsilon) ** ((now - times) / 2))[:, None]
    return cross.T @ np.linalg.solve(G, np.array(y)), K - cross.T @ np.linalg.solve(G, cross)


def log_evidence(
    K: Array, epsilon: float, rows: list[int], t: list[float], y: list[float], noise: float
) -> float:
    """Of rewards under that model."""
    times, values = np.array(t), np.array(y)
    G = K[np.ix_(rows, rows)] * (1 - epsilon) ** (np.abs(times[:, None] - times) / 2)
    G = G + noise * np.eye(len(rows))
    _, log_det = np.linalg.slogdet(G)
    return float(
        -0.5 * (values @ np.linalg.solve(G, values) + log_det + len(rows) * math.log(2 * math.pi))
    )


def known_by_the_future(V: float, gamma: float, noise: float, steps: int) -> float:
    """Variance of E[theta_{t+1} | later rewards] of one AR(1) arm, with so many later rewards."""
    delta = 1 - gamma**2
    times = np.arange(1, steps + 1)
    # theta_{t+1+k} = gamma^k theta_{t+1} + what came since.
    since = np.zeros((steps, steps))
    for i, a in enumerate(times):
        for j, b in enumerate(times):
            low = min(a, b)
            since[i, j] = delta * sum(
                gamma ** (a - m) * gamma ** (b - m) for m in range(1, low + 1)
            )
    loads = gamma**times
    G = V * np.outer(loads, loads) + since + noise * np.eye(steps)
    return float(V * loads @ np.linalg.solve(G, V * loads))

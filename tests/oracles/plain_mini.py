"""mini-GP-UCB as plain pseudo-code, with the dense inverse."""

from collections.abc import Callable

import numpy as np
from sklearn.gaussian_process.kernels import RBF


def plain_mini_gp_ucb(
    X: np.ndarray,
    reward: Callable[[np.ndarray], np.ndarray],
    first: np.ndarray,
    noise: float,
    ratio: float,
    width: float,
    batches: int,
) -> list[tuple[int, int]]:
    """Return row and number of plays of each batch after the play of `first`, with RBF(2) and mean 0."""
    kernel, rows, batches_played = RBF(2.0), [int(first)], []
    for _ in range(batches):
        inverse = np.linalg.inv(kernel(X[rows]) + noise * np.eye(len(rows)))
        cross = kernel(X, X[rows])
        mean = cross @ inverse @ reward(X[rows])
        variance = 1.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross)
        row = int(np.argmax(mean + width * np.sqrt(variance)))
        times = max(1, int((ratio**2 - 1.0) * noise / variance[row]))
        rows += [row] * times
        batches_played.append((row, times))
    return batches_played

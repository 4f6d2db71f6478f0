"""The rule of move costs, restated plainly: a loop over points, and a count of stays."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates, policies


def plain_trajectory(
    places: Candidates,
    cost: Any,
    reward: Callable[[np.ndarray, float], np.ndarray],
    steps: int,
    first: np.ndarray,
    epsilon: float = 0.05,
    noise: float = 0.01,
) -> np.ndarray:
    """Return the plays of TV-GP-UCB of width 2 from `first` (1, d), with RBF(2) and a learned unit."""
    X, twin = (
        places.X,
        policies.tv_gp_ucb(places, kernel=RBF(2.0), noise_variance=noise, forgetting_rate=epsilon),
    )
    points, stays = [first[0]], 1
    twin.tell(first, reward(first, 1), 1)
    for t in range(2, steps + 1):
        twin.ask(t)  # the unit is learned before decisions
        twin.drop(twin.pending)
        mean, deviation = twin.predict(X, t)
        position, values = points[-1], []
        for x, m, s in zip(X, mean, deviation, strict=True):
            price = (
                cost(position, x) if callable(cost) else cost * np.sqrt(((x - position) ** 2).sum())
            )
            values.append(m + 2.0 * s - price / stays)
        points.append(X[int(np.argmax(values))])
        stays = stays + 1 if (points[-1] == position).all() else 1
        twin.tell(points[-1][None], reward(points[-1][None], t), t)
    return np.array(points)

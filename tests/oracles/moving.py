"""The rule of move costs, restated plainly: dense algebra, a loop over points, and a count of plays."""

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
    """What TV-GP-UCB of width 2 plays from the point `first` (1, d) on, with RBF(2) and unit learned."""
    X, twin = (
        places.X,
        policies.tv_gp_ucb(places, kernel=RBF(2.0), noise_variance=noise, forgetting_rate=epsilon),
    )
    plays, stayed = [first[0]], 1
    twin.tell(first, reward(first, 1), 1)
    for t in range(2, steps + 1):
        twin.ask(t)  # it learns the unit before decisions
        twin.drop(twin.pending)
        mean, deviation = twin.predict(X, t)
        here, worth = plays[-1], []
        for x, m, s in zip(X, mean, deviation, strict=True):
            price = cost(here, x) if callable(cost) else cost * np.sqrt(((x - here) ** 2).sum())
            worth.append(m + 2.0 * s - price / stayed)
        plays.append(X[int(np.argmax(worth))])
        stayed = stayed + 1 if (plays[-1] == here).all() else 1
        twin.tell(plays[-1][None], reward(plays[-1][None], t), t)
    return np.array(plays)

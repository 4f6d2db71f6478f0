"""The plain loop: ask, look the reward up, tell."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Points (n, d) and a time -> what to tell about them, (n,).
Reward = Callable[[Array, float], Any]


class Player(Protocol):
    """What can be asked and told."""

    def ask(self, t: float | None = None) -> Array: ...
    def tell(self, X: Array, y: Any, t: Any = None) -> Any: ...


def play(player: Player, reward: Reward, times: Iterable[float]) -> Array:
    """Play at given times; the first point of every step, shape (steps, d)."""
    points = []
    for t in times:
        X = player.ask(t)
        player.tell(X, reward(X, t), t)
        points.append(X[0])
    return np.array(points)


def play_without_times(player: Any, reward: Reward, steps: int) -> Array:
    """The same where the bandit itself says what time it is."""
    points = []
    for _ in range(steps):
        X = player.ask()
        t = player.state.record.pending_time
        player.tell(X, reward(X, t))
        points.append(X[0])
    return np.array(points)

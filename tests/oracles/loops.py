"""The plain loop of ask, reward and tell."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# (points (n, d), time) -> rewards (n,).
Reward = Callable[[Array, float], Any]


class Player(Protocol):
    """An object with `ask` and `tell`."""

    def ask(self, t: float | None = None) -> Array: ...
    def tell(self, X: Array, y: Any, t: Any = None) -> Any: ...


def play(player: Player, reward: Reward, times: Iterable[float]) -> Array:
    """Play at the given times, and return the first point of every step, shape (steps, d)."""
    points = []
    for t in times:
        X = player.ask(t)
        player.tell(X, reward(X, t), t)
        points.append(X[0])
    return np.array(points)


def play_without_times(player: Any, reward: Reward, steps: int) -> Array:
    """Play some steps at the times that the bandit sets, and return the first points."""
    points = []
    for _ in range(steps):
        X = player.ask()
        t = player.state.record.pending_time
        player.tell(X, reward(X, t))
        points.append(X[0])
    return np.array(points)

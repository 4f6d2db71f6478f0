"""The cost of moves from one point to the next, and the distance between points.

A move from x to z costs c(x, z) once, and its gain is earned at every play from then on. The number of
plays at z is unknown; after k plays at x it is estimated as k. A decision therefore maximizes

    u(z) - c(x, z) / k,

where u is the acquisition. The bandit leaves x once the estimated regret of the k plays there equals the
cost of the move. This is the solution of the ski rental problem [Karl]: before each move, the regret
(as estimated at that time) is at most the cost of the move.

[Karl] = Karlin, Manasse, Rudolph and Sleator 1988 (docs/references.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import TOLERANCE
from tvbandits.option_text import choose_words
from tvbandits.ties import first_argmax
from tvbandits.validation import LARGEST_VALUE, Array, Index, finite_number, positive_number

# The cost of a unit of distance, in the unit of reward, or a function of two points (d,), start and end.
MoveCost = float | Callable[[Array, Array], float]


def distances(domain: Domain, x: Array, X: Array) -> Array:
    """Return the Euclidean distances (m,) of points (m, d) from `x` (d,), without the context.

    Two different categories are at distance 1.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits import Space
    >>> from tvbandits.domains.moving import distances
    >>> space = Space(dose=(0, 10), mode=["a", "b"])
    >>> X = space.encode([{"dose": 3, "mode": "a"}, {"dose": 7, "mode": "a"}, {"dose": 3, "mode": "b"}])
    >>> print(distances(space, X[0], X).round(3))
    [0. 4. 1.]
    """
    return np.asarray(np.linalg.norm(domain.distance_weights * (X - x), axis=1))


def check_move_cost(cost: Any) -> None:
    """Raise a `ValueError` unless `cost` is a number of at least 0, a function, or None."""
    if cost is not None and not (callable(cost) and not isinstance(cost, type)):
        finite_number("move_cost", cost, low=0.0, high=LARGEST_VALUE)


def compute_move_costs(cost: MoveCost, domain: Domain, x: Array, X: Array) -> Array:
    """Return the costs (m,) of moves from `x` (d,) to points (m, d); staying costs nothing.

    Raises
    ------
    ValueError
        If the function returns no number from 0 to the largest reward; the message shows the points.
    """
    distance = distances(domain, x, X)
    if not callable(cost):
        return cost * distance
    costs = np.zeros(len(X))
    for i in np.flatnonzero(distance > 0):
        name = f"move_cost({x.tolist()}, {X[i].tolist()})"
        costs[i] = finite_number(name, cost(x.copy(), X[i].copy()), low=0.0, high=LARGEST_VALUE)
    return costs


def compute_path_costs(cost: MoveCost, domain: Domain, X: Array) -> Array:
    """Return the costs (n,) of moves to points (n, d), each from the point before; the first is 0."""
    costs = [compute_move_costs(cost, domain, start, end[None])[0] for start, end in pairwise(X)]
    return np.array([0.0, *costs][: len(X)])


def plan_tour(domain: Domain, x: Array, X: Array) -> Index:
    """Return the order (n,) of points (n, d) in a tour that starts at `x` (d,).

    The next point of the tour is always the nearest of the remaining ones.
    """
    remaining, order = list(range(len(X))), []
    while remaining:
        order.append(remaining.pop(first_argmax(-distances(domain, x, X[remaining]))))
        x = X[order[-1]]
    return np.array(order, dtype=np.int64)


@dataclass(frozen=True)
class Position:
    """The present position of a bandit.

    Attributes
    ----------
    x : array of shape (d,)
        The point of the last play.
    plays : int
        The number of successive plays at this point up to now, at least 1.
    """

    x: Array
    plays: int

    @classmethod
    def after(cls, domain: Domain, X: Array, t: Array) -> Position | None:
        """Return the position after plays (n, d) at times (n,), or None if there were none.

        Plays of the same time were made in the given order.
        """
        if len(X) == 0:
            return None
        X = X[np.argsort(t, kind="stable")]
        others = np.flatnonzero(distances(domain, X[-1], X) > 0)
        return cls(X[-1], len(X) - 1 - int(others[-1]) if len(others) else len(X))


@dataclass(frozen=True)
class Move:
    """A move from a position, with its price for the next play.

    Attributes
    ----------
    domain : Domain
    cost : number or callable
    start : Position
        The present position.
    """

    domain: Domain
    cost: MoveCost
    start: Position

    def price(self, X: Array) -> Array:
        """Return the prices (m,) of moves to points (m, d): costs divided by the plays at the start."""
        return np.asarray(
            compute_move_costs(self.cost, self.domain, self.start.x, X) / self.start.plays
        )


def check_near(near: Any, start: Position | None) -> float:
    """Return `near` as a number, at least as large as rounding errors of the present position.

    Raises
    ------
    ValueError
        If it is not a number above 0, or there is no position yet.
    """
    distance = positive_number("near", near)
    if start is None:
        name = choose_words("near=", "--near ")
        raise ValueError(
            f"{name}{distance:g} is a distance from the last point, and there is none yet: leave it out"
        )
    return max(distance, TOLERANCE * float(np.abs(start.x).max()))

"""What it costs to move from one point to the next, and how far one may go.

A move from x to z costs c(x, z) once, and brings its gain at every play from then on. How long one will
stay nobody knows; after k plays at x the guess is k more. What is played maximizes

    u(z) - c(x, z) / k

for what a rule maximizes, u: one leaves as soon as what k plays here have missed, as it is believed now,
would have paid for the move. It is how long to rent skis before one buys them [Karl]: before each move
one has missed no more than what it costs, by what is believed then.

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
from tvbandits.ties import first_argmax
from tvbandits.validation import LARGEST_VALUE, Array, Index, finite_number, positive_number

# Reward that a unit of distance costs, or a function of two points (d,): from, to.
MoveCost = float | Callable[[Array, Array], float]


def distances(domain: Domain, x: Array, X: Array) -> Array:
    """Return the Euclidean distances (m,) of points (m, d) from `x` (d,), by what is chosen.

    Another category is at distance 1. A context, which nobody chooses, is no way to go.

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
    """Raise a `ValueError` unless this is a number from 0 to the largest reward, a function, or None."""
    if cost is not None and not (callable(cost) and not isinstance(cost, type)):
        finite_number("move_cost", cost, low=0.0, high=LARGEST_VALUE)


def costs_of(cost: MoveCost, domain: Domain, x: Array, X: Array) -> Array:
    """Return the costs (m,) of moves from `x` (d,) to points (m, d); staying costs nothing.

    Raises
    ------
    ValueError
        If the function returns no number from 0 to the largest reward; the message names the points.
    """
    away = distances(domain, x, X)
    if not callable(cost):
        return cost * away
    costs = np.zeros(len(X))
    for i in np.flatnonzero(away > 0):
        name = f"move_cost({x.tolist()}, {X[i].tolist()})"
        costs[i] = finite_number(name, cost(x.copy(), X[i].copy()), low=0.0, high=LARGEST_VALUE)
    return costs


def costs_along(cost: MoveCost, domain: Domain, X: Array) -> Array:
    """Return the cost of each move of a walk over points (n, d); the first is free."""
    steps = [costs_of(cost, domain, before, x[None])[0] for before, x in pairwise(X)]
    return np.array([0.0, *steps][: len(X)])


def tour(domain: Domain, x: Array, X: Array) -> Index:
    """Return an order of points (n, d): from `x` (d,) on, always the nearest that is left."""
    remaining, order = list(range(len(X))), []
    while remaining:
        order.append(remaining.pop(first_argmax(-distances(domain, x, X[remaining]))))
        x = X[order[-1]]
    return np.array(order, dtype=np.int64)


@dataclass(frozen=True)
class Position:
    """The point where the bandit is, and how many plays it has been there.

    Attributes
    ----------
    x : array of shape (d,)
    plays : int
        At least 1: the latest plays, all of them here.
    """

    x: Array
    plays: int

    @classmethod
    def after(cls, domain: Domain, X: Array, t: Array) -> Position | None:
        """Return the position after plays (n, d) at times (n,); None if there were none.

        Plays of one time are in their order.
        """
        if len(X) == 0:
            return None
        X = X[np.argsort(t, kind="stable")]
        elsewhere = np.flatnonzero(distances(domain, X[-1], X) > 0)
        return cls(X[-1], len(X) - 1 - int(elsewhere[-1]) if len(elsewhere) else len(X))


@dataclass(frozen=True)
class Move:
    """The price of a move from a position, which the reward of a play bears.

    Attributes
    ----------
    domain : Domain
    cost : number or callable
    start : Position
    """

    domain: Domain
    cost: MoveCost
    start: Position

    def price(self, X: Array) -> Array:
        """Return the share (m,) of a move to points (m, d) that the next play bears."""
        return np.asarray(costs_of(self.cost, self.domain, self.start.x, X) / self.start.plays)


def check_near(near: Any, start: Position | None) -> float:
    """Return `near` as a number that rounding does not swallow.

    Raises
    ------
    ValueError
        If it is no number above 0, or nothing was played yet that it could be a distance from.
    """
    distance = positive_number("near", near)
    if start is None:
        raise ValueError(f"near={distance:g} is from the last point, and there is none yet")
    return max(distance, TOLERANCE * float(np.abs(start.x).max()))

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
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tvbandits.domains.box import TOLERANCE, Box
from tvbandits.domains.context import AtContext, measured
from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import Category, Integer, Real
from tvbandits.domains.space import Space, space_of
from tvbandits.validation import LARGEST_VALUE, Array, Index, finite_number, positive_number

# Reward that a unit of distance costs, or a function of two points (d,): from, to.
MoveCost = float | Callable[[Array, Array], float]


def distances(domain: Domain, x: Array, X: Array) -> Array:
    """Euclidean distance (m,) of points (m, d) from `x` (d,), along the coordinates that are chosen.

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
    weights = np.ones(domain.dimension)
    space = space_of(domain)
    if space is not None:
        for part, columns in zip(space.parameters, space.columns.values(), strict=True):
            if isinstance(part, Category):
                weights[columns] = np.sqrt(0.5)
    weights[list(() if measured(domain) else getattr(domain, "context", ()))] = 0.0
    weights[len(weights) - sum(part.width for part in measured(domain).values()) :] = 0.0
    return np.asarray(np.linalg.norm(weights * (X - x), axis=1))


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
    found = np.zeros(len(X))
    for i in np.flatnonzero(away > 0):
        name = f"move_cost({x.tolist()}, {X[i].tolist()})"
        found[i] = finite_number(name, cost(x.copy(), X[i].copy()), low=0.0, high=LARGEST_VALUE)
    return found


def costs_along(cost: MoveCost, domain: Domain, X: Array) -> Array:
    """Return the cost of each move of a walk over points (n, d); the first is free."""
    steps = [costs_of(cost, domain, before, x[None])[0] for before, x in pairwise(X)]
    return np.array([0.0, *steps][: len(X)])


def tour(domain: Domain, x: Array, X: Array) -> Index:
    """Return an order of points (n, d): from `x` (d,) on, always the nearest that is left."""
    left, order = list(range(len(X))), []
    while left:
        order.append(left.pop(int(distances(domain, x, X[left]).argmin())))
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
        """After plays (n, d) at times (n,); those of one time are in order. None: there were none."""
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


def nearby(domain: Domain, x: Array, near: float) -> Domain:
    """Return a part of the domain around `x` with all within `near`, which a full search may miss."""
    if isinstance(domain, AtContext):
        return replace(domain, chosen=nearby(domain.chosen, x[: -len(domain.values)], near))
    low, high = x - near, x + near
    if isinstance(domain, Box):
        bounds = np.clip(np.column_stack([low, high]), *domain.bounds.T[:, :, None])
        return replace(domain, bounds=bounds)
    if not isinstance(domain, Space):
        return domain
    parts: dict[str, Any] = {}
    for name, part in zip(domain.names, domain.parameters, strict=True):
        at = domain.columns[name].start
        if isinstance(part, Real):
            part = Real(max(part.low, low[at]), min(part.high, high[at]))
        elif isinstance(part, Integer) and near >= 1:
            least, most = int(np.ceil(low[at])), int(np.floor(high[at]))
            part = Integer(max(part.low, least), min(part.high, most))
        parts[name] = part
    return Space(**parts)


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

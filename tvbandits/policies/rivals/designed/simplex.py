"""The optimisation problem of OPKB: a distribution over arms, between small gaps and much information.

[HL] = K. Hong, Y. Li and A. Tewari. An optimization-based algorithm for non-stationary kernel bandits
without prior knowledge. AISTATS 2023.
"""

from __future__ import annotations

import math

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.core.linalg import cholesky, inverse_lower

SWEEPS, ENOUGH = 5000, 1e-11
"""Most steps of a search on the simplex, and the gap of its duality, over the weight, that ends it."""

FRESH = 50
"""So many updates of an inverse, before it is computed anew."""


def inverse_moment(features: Array, P: Array, ridge: float) -> Array:
    """S(P)^-1, shape (r, r)."""
    S = (features.T * P) @ features
    S[np.diag_indices_from(S)] += ridge
    lower = inverse_lower(cholesky(S, "second moment").L)
    return np.asarray(lower + np.tril(lower, -1).T)


class Moment:
    """S(P)^-1 (r, r), and x^T S(P)^-1 x of every arm (A,), as mass goes from arm to arm."""

    def __init__(self, features: Array, P: Array, ridge: float) -> None:
        self._features, self._ridge = features, ridge
        self.renew(P)

    def renew(self, P: Array) -> None:
        """Compute both out of the distribution."""
        self.inverse = inverse_moment(self._features, P, self._ridge)
        self.norms = np.einsum("ar,ar->a", self._features @ self.inverse, self._features)
        self.age = 0

    def add(self, row: int, share: float) -> None:
        """Mass for an arm, negative if it loses some: the formula of Sherman and Morrison."""
        u = self.inverse @ self._features[row]
        scale = share / (1.0 + share * float(self._features[row] @ u))
        self.inverse = self.inverse - scale * np.outer(u, u)
        self.norms = self.norms - scale * (self._features @ u) ** 2
        self.age += 1


def strategy(features: Array, gaps: Array, weight: float, ridge: float) -> Array:
    """Argmin over the simplex of P . gaps - weight log det S(P), shape (A,).

    By pairwise Frank-Wolfe steps: mass goes from the arm of the largest slope that has some to the arm
    of the least slope, as much as is best along that line. Gaps of zero give the D-optimal design. With
    hundreds of arms the steps are used up before the gap of duality is small.
    """
    P = np.full(len(features), 1.0 / len(features))
    moment = Moment(features, P, ridge)
    for _ in range(SWEEPS):
        slope = gaps - weight * moment.norms
        to = int(np.argmin(slope))
        close = float(P @ slope - slope[to]) <= ENOUGH * max(weight, 1e-12)
        if close and moment.age == 0:
            break
        if close or moment.age >= FRESH:
            moment.renew(P)
            continue
        held = np.flatnonzero(P > 0)
        source = int(held[np.argmax(slope[held])])
        x, z = features[to], features[source]
        reach = moment.inverse @ x
        products = (float(x @ reach), float(moment.norms[source]), float(z @ reach))
        share = _share(products, float(gaps[to] - gaps[source]), weight, float(P[source]))
        P[to] += share
        P[source] = 0.0 if share == P[source] else P[source] - share
        moment.add(to, share)
        moment.add(source, -share)
    return np.asarray(P / P.sum())


def _share(
    products: tuple[float, float, float], from_here: float, weight: float, most: float
) -> float:
    """How much goes from one arm to another.

    With a = x^T S^-1 x, b = z^T S^-1 z, c = x^T S^-1 z, log det S grows by
    log((1 + s a) (1 - s b) + s^2 c^2) as s goes from z to x: its slope is found to be zero by halving.
    """
    a, b, c = products
    less = c**2 - a * b

    def slope(s: float) -> float:
        grown = 1 + s * (a - b) + s**2 * less
        if grown <= 0:  # nothing else spans that arm's direction: log det falls without end
            return math.inf
        return from_here - weight * (a - b + 2 * s * less) / grown

    # All of an arm's mass goes only if that is best.
    if slope(most) <= 0:
        return most
    low, high = 0.0, most
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return low

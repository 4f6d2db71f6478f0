"""Sobol, evolution and ascent on a box."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc

from tvbandits.core.arrays import Array, Index

Acquisition = Callable[[Array], Array]
"""Maps points (m, d) to values (m,)."""


STEPS = np.array([4.0, 2.0, 1.0, 0.5, 0.2, 0.05, 0.01, 0.001])
"""Multiples of a step that a line search tries in one call."""


def checked_values(values: ArrayLike, X: Array) -> Array:
    """Return acquisition values as floats (m,); `ValueError` if one is NaN, naming its point."""
    checked = np.asarray(values, dtype=np.float64)
    if checked.shape != (len(X),):
        raise ValueError(f"acquisition values must have shape ({len(X)},), got {checked.shape}")
    bad = np.isnan(checked)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"acquisition is NaN at the point {X[row].tolist()} (row {row})")
    return checked


def _argmax(values: Array, rng: np.random.Generator) -> int:
    """Position of the largest value; one of the exactly equal ones, uniformly."""
    ties = np.flatnonzero(values == values.max())
    return int(ties[0] if len(ties) == 1 else ties[rng.integers(len(ties))])


@lru_cache(maxsize=8)
def _sobol_bits(d: int, log2_n: int) -> NDArray[np.uint32]:
    """The first 2^log2_n points of the Sobol sequence as 30-bit integers, shape (n, d)."""
    U = qmc.Sobol(d, scramble=False, bits=30).random_base2(log2_n)
    return np.asarray(U * 2.0**30, dtype=np.uint32)


def _sobol(d: int, n: int, rng: np.random.Generator) -> Array:
    """At least `n` Sobol points under a random digital shift: each is uniform on the unit cube."""
    bits = _sobol_bits(d, (n - 1).bit_length())
    shift = rng.integers(2**30, size=d, dtype=np.uint32)
    return np.asarray(((bits ^ shift) + 0.5) / 2.0**30, dtype=np.float64)


def _boundary(U: Array, rng: np.random.Generator) -> Array:
    """The corners of the unit cube (the first 64), and a quarter of `U` pushed to faces of it."""
    d = U.shape[1]
    corners = np.array(list(product((0.0, 1.0), repeat=min(d, 6))))
    rest = np.rint(rng.random((len(corners), d - corners.shape[1])))
    pushed = U[: len(U) // 4]
    pushed = np.where(rng.random(pushed.shape) < 0.5, np.rint(pushed), pushed)
    return np.concatenate([np.hstack([corners, rest]), pushed])


def _search(
    evaluate: Acquisition, U: Array, values: Array, starts: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """The best point of the unit cube that evolution and refinement of a sample find."""
    d = U.shape[1]
    radius = 0.5 * len(U) ** (-1.0 / d)
    first = _separated(U, values, 16 + 16 * d, radius)
    evolved, heights = _evolve(evaluate, U[first], values[first], 20 + 10 * d, rng)
    U, values = np.concatenate([U, evolved]), np.concatenate([values, heights])
    chosen = _separated(U, values, starts, radius)
    spread = float(np.ptp(values[np.isfinite(values)]))
    U, values = _refine(evaluate, U[chosen], values[chosen], radius, 1e-9 * spread)
    return U[values.argmax()], float(values.max())


def _separated(U: Array, values: Array, count: int, radius: float) -> Index:
    """Up to `count` rows: the best, the best further than `radius` from it, and so on."""
    left = np.where(np.isfinite(values), values, -np.inf)
    chosen: list[int] = []
    while len(chosen) < count and left.max() > -np.inf:
        best = int(left.argmax())
        chosen.append(best)
        left[np.abs(U - U[best]).max(axis=1) <= radius] = -np.inf
    return np.array(chosen, dtype=np.int64)


def _evolve(
    evaluate: Acquisition, U: Array, values: Array, generations: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Differential evolution (Storn and Price 1997), half "rand/1/bin" and half "best/1/bin".

    It gets over ripples that trap local refinement: a whole generation (P, d) is one call.
    """
    U, values = U.copy(), values.copy()
    P, d = U.shape
    for _ in range(generations if P >= 4 else 0):
        base, plus, minus = rng.integers(P, size=(3, P))
        base[::2] = values.argmax()
        mutant = U[base] + rng.uniform(0.4, 0.9, (P, 1)) * (U[plus] - U[minus])
        crossed = rng.random((P, d)) < 0.9
        crossed[np.arange(P), rng.integers(d, size=P)] = True
        trial = np.where(crossed, np.clip(mutant, 0.0, 1.0), U)
        heights = evaluate(trial)
        better = heights >= values
        U[better], values[better] = trial[better], heights[better]
        if np.ptp(U, axis=0).max() < 1e-4:
            break
    return U, values


def _refine(
    evaluate: Acquisition, U: Array, values: Array, radius: float, tolerance: float
) -> tuple[Array, Array]:
    """Projected gradient ascent of all starts (S, d) at once, with Barzilai-Borwein steps (1988).

    Gradients are central differences and a line search tries all `STEPS`, so an iteration is two
    calls. A start that gains no more than `tolerance` takes shorter steps, in the end none; after 8
    iterations the best quarter of the starts goes on alone.
    """
    U, values = U.copy(), values.copy()
    slope = _gradients(evaluate, U)
    size = np.full(len(U), radius)  # length of the next step
    for turn in range(40):
        if turn == 8:
            size[values < np.quantile(values, 0.75)] = 0.0
        live = np.flatnonzero((size > 1e-6) & slope.any(axis=1))
        if len(live) == 0:
            break
        step = slope[live] * (size[live] / np.linalg.norm(slope[live], axis=1))[:, None]
        trial = np.clip(U[live, None] + STEPS[:, None] * step[:, None], 0.0, 1.0)
        heights = evaluate(trial.reshape(-1, U.shape[1])).reshape(len(live), -1)
        pick = heights.argmax(axis=1)
        up = heights.max(axis=1) - values[live] > tolerance
        climbing = live[up]
        size[live[~up]] *= 0.03
        if len(climbing) == 0:
            continue
        moved = trial[up, pick[up]] - U[climbing]
        U[climbing], values[climbing] = trial[up, pick[up]], heights[up, pick[up]]
        fresh = _gradients(evaluate, U[climbing])
        bend = np.linalg.norm(slope[climbing] - fresh, axis=1)
        ratio = np.linalg.norm(fresh, axis=1) / np.maximum(bend, 1e-300)
        size[climbing] = np.minimum(np.linalg.norm(moved, axis=1) * ratio, 1.0)
        slope[climbing] = fresh
    return U, values


def _gradients(evaluate: Acquisition, U: Array) -> Array:
    """Central differences (one-sided at a bound), shape (S, d), without the part out of the box."""
    S, d = U.shape
    shifts = 3e-5 * np.eye(d)  # well above rounding, well below any length scale of use
    above, below = np.minimum(U[:, None] + shifts, 1.0), np.maximum(U[:, None] - shifts, 0.0)
    heights = evaluate(np.concatenate([above, below]).reshape(-1, d)).reshape(2, S, d)
    width = np.diagonal(above - below, axis1=1, axis2=2)
    with np.errstate(invalid="ignore"):  # infinities of an acquisition with forbidden points
        slope = (heights[0] - heights[1]) / width
    outward = ((U == 0.0) & (slope < 0)) | ((U == 1.0) & (slope > 0))
    return np.where(outward | ~np.isfinite(slope), 0.0, slope)

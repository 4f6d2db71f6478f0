"""Sobol, evolution and ascent on a box, some coordinates of which may take a few values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.core.arrays import Array, Index

Acquisition = Callable[[Array], Array]
"""Maps points (m, d) to values (m,)."""


@runtime_checkable
class Smooth(Protocol):
    """An acquisition that knows its slopes: it is climbed from many points at once."""

    @property
    def near(self) -> Array:
        """Points (n, d) about which its maxima may be narrow."""

    def __call__(self, X: Array) -> Array:
        """Values (m,) at points (m, d)."""

    def slopes(self, X: Array) -> Array:
        """Slopes (m, d) at points (m, d)."""


STEPS = np.array([4.0, 2.0, 1.0, 0.5, 0.2, 0.05, 0.01, 0.001])
"""Multiples of a step that a line search tries in one call."""


PATIENCE = 6
"""Generations of an evolution without a new highest value, after which it ends."""


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
    from scipy.stats import qmc  # takes a second of its own

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

    It gets over ripples that trap local refinement: a whole generation (P, d) is one call. It ends with
    the last of so many generations, or once `PATIENCE` in a row have found nothing higher.
    """
    U, values = U.copy(), values.copy()
    P, d = U.shape
    highest, waited = values.max(initial=-np.inf), 0
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
        waited = 0 if values.max() > highest else waited + 1
        highest = values.max()
        if waited == PATIENCE or np.ptp(U, axis=0).max() < 1e-4:
            break
    return U, values


def _refine(
    evaluate: Acquisition,
    U: Array,
    values: Array,
    radius: float,
    tolerance: float,
    free: Index | None = None,
    slopes: Acquisition | None = None,
    turns: int = 40,
) -> tuple[Array, Array]:
    """Projected gradient ascent of all starts (S, d) at once, with Barzilai-Borwein steps (1988).

    Gradients are `slopes`, or else central differences, and a line search tries all `STEPS`, so an
    iteration is two calls. A start that gains no more than `tolerance` takes shorter steps, in the end
    none; after 8 iterations the best quarter of the starts goes on alone. Only coordinates in `free`
    move, by default all.
    """
    U, values = U.copy(), values.copy()

    def gradients(U: Array) -> Array:
        return _gradients(evaluate, U, free) if slopes is None else _inward(U, slopes(U))

    slope = gradients(U)
    size = np.full(len(U), radius)  # length of the next step
    for turn in range(turns):
        if turn == 8:
            with np.errstate(invalid="ignore"):  # between what is available and what is not
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
        fresh = gradients(U[climbing])
        bend = np.linalg.norm(slope[climbing] - fresh, axis=1)
        ratio = np.linalg.norm(fresh, axis=1) / np.maximum(bend, 1e-300)
        size[climbing] = np.minimum(np.linalg.norm(moved, axis=1) * ratio, 1.0)
        slope[climbing] = fresh
    return U, values


def _gradients(evaluate: Acquisition, U: Array, free: Index | None = None) -> Array:
    """Central differences (one-sided at a bound), shape (S, d), without the part out of the box.

    Coordinates that are not in `free` have none.
    """
    S, d = U.shape
    shifts = 3e-5 * np.eye(d)  # well above rounding, well below any length scale of use
    moving = np.arange(d) if free is None else free
    shifts = shifts[moving]
    above, below = np.minimum(U[:, None] + shifts, 1.0), np.maximum(U[:, None] - shifts, 0.0)
    heights = evaluate(np.concatenate([above, below]).reshape(-1, d)).reshape(2, S, len(moving))
    width = (above - below)[:, np.arange(len(moving)), moving]
    with np.errstate(invalid="ignore"):  # infinities of an acquisition with forbidden points
        slope = (heights[0] - heights[1]) / width
    slopes = np.zeros((S, d))
    slopes[:, moving] = _inward(U[:, moving], slope)
    return slopes


def _inward(U: Array, slope: Array) -> Array:
    """Slopes (S, d) at points of the unit cube, without what leads out of it."""
    outward = ((U == 0.0) & (slope < 0)) | ((U == 1.0) & (slope > 0))
    return np.where(outward | ~np.isfinite(slope), 0.0, slope)


# --- the acquisition knows its slopes ---------------------------------------------------------------

NEIGHBOURS, ABOUT, APART = 8, 16, 0.03
"""Points that are drawn about each of so many known ones, at such a distance."""


def climb(
    evaluate: Acquisition,
    slopes: Acquisition,
    near: Array,
    samples: int,
    starts: int,
    rng: np.random.Generator,
    kinds: Sequence[tuple[int, bool]] = (),
) -> tuple[Array, float]:
    """The best point (d,) of the unit cube found, and its value, of an acquisition with slopes.

    A randomly shifted Sobol sample with corners and faces, the points `near` (n, d) about which most is
    known and neighbours of the best of them; then gradient ascent from the best well-separated ones.
    Where there are `kinds`, some coordinates take a few values only, as in `search_mixed`: there the
    ascent takes turns with moves to neighbouring values.
    """
    d = near.shape[1]
    cells = _Cells(kinds or [(0, True)] * d)
    interior = cells.snapped(_sobol(d, samples, rng))
    U = np.concatenate([interior, cells.snapped(_boundary(interior, rng)), near])
    values = evaluate(U)
    known = values[len(U) - len(near) :]
    top = near[np.argsort(-known, kind="stable")[:ABOUT]]
    moved = np.repeat(top, NEIGHBOURS, axis=0)
    moved = cells.snapped(np.clip(moved + APART * rng.standard_normal(moved.shape), 0.0, 1.0))
    U, values = np.concatenate([U, moved]), np.concatenate([values, evaluate(moved)])
    best = _argmax(values, rng)
    if not values[best] > values.min():
        row = int(rng.integers(len(interior)))
        return interior[row], float(values[row])
    radius = 0.5 * samples ** (-1.0 / d)
    chosen = _separated(U, values, starts, radius)
    turns, share = (12, 1e-5) if kinds else (40, 1e-9)
    tolerance = share * float(np.ptp(values))

    def refine(U: Array, heights: Array) -> tuple[Array, Array]:
        return _refine(evaluate, U, heights, radius, tolerance, None, slopes, turns)

    found, heights = refine(U[chosen], values[chosen])
    return _with_neighbours(evaluate, refine, cells, found[heights.argmax()], float(heights.max()))


# --- some coordinates take a few values only --------------------------------------------------------

Refine = Callable[[Array, Array], tuple[Array, Array]]
"""Maps points (m, p) and their heights (m,) to higher ones near them."""

ROUNDS = 12
"""Of moves to neighbours, each followed by a refinement, at the most."""


def search_mixed(
    evaluate: Acquisition,
    kinds: Sequence[tuple[int, bool]],
    samples: int,
    starts: int,
    rng: np.random.Generator,
) -> tuple[Array, float]:
    """The best point (p,) of a unit cube found, where some coordinates take a few values only.

    A randomly shifted Sobol sample and differential evolution of all coordinates; then, from the best
    well-separated points, gradient ascent of the continuous ones in turn with moves of the others to
    neighbouring values; at last the neighbours of the best point, each with an ascent of its own.
    On a plateau the point is a random one of the sample.

    Parameters
    ----------
    evaluate : callable
        Maps points (m, p), which are middles of cells in coordinates of a few values, to heights (m,).
    kinds : sequence of (int, bool)
        Number of values of each coordinate, 0 for a continuous one, and whether they have an order.
    samples, starts : int
        Points of the sample, and of those that are refined.
    rng : numpy.random.Generator
    """
    p = len(kinds)
    cells = _Cells(kinds)
    interior = cells.snapped(_sobol(p, samples, rng))
    values = evaluate(interior)
    best = _argmax(values, rng)
    if not (values[best] > values.min() and np.isfinite(values[best])):
        return interior[best], float(values[best])
    edges = cells.snapped(_boundary(interior, rng))
    U, heights = np.concatenate([interior, edges]), np.concatenate([values, evaluate(edges)])
    radius = 0.5 * len(U) ** (-1.0 / p)
    first = _separated(U, heights, 16 + 16 * p, radius)
    evolved, reached = _evolve(
        lambda V: evaluate(cells.snapped(V)), U[first], heights[first], 20 + 10 * p, rng
    )
    U, heights = np.concatenate([U, cells.snapped(evolved)]), np.concatenate([heights, reached])
    chosen = _separated(U, heights, starts, radius)
    tolerance = 1e-9 * float(np.ptp(heights[np.isfinite(heights)]))

    def refine(U: Array, heights: Array) -> tuple[Array, Array]:
        return _refine(evaluate, U, heights, radius, tolerance, cells.free)

    found, height = _climbed(evaluate, refine, cells, U[chosen], heights[chosen])
    # A maximum that the sample had already is a plateau: keep the uniformly drawn point.
    return (found, height) if height > values[best] else (interior[best], float(values[best]))


def _climbed(
    evaluate: Acquisition,
    refine: Refine,
    cells: _Cells,
    U: Array,
    heights: Array,
) -> tuple[Array, float]:
    """The best point that ascent and moves to neighbours reach from the starts `U` (S, p)."""
    U, heights = refine(U, heights)
    for _ in range(ROUNDS):
        near, owners = cells.neighbours(U)
        reached = evaluate(near)
        # The last one written for an owner is its highest.
        order = np.argsort(reached, kind="stable")
        best = np.full(len(U), -1)
        best[owners[order]] = order
        up = (best >= 0) & (reached[best] > heights)
        if not up.any():
            break
        U[up], heights[up] = near[best[up]], reached[best[up]]
        U, heights = refine(U, heights)
    found, height = U[heights.argmax()], float(heights.max())
    if len(cells.free) == 0:
        return found, height
    return _with_neighbours(evaluate, refine, cells, found, height)


def _with_neighbours(
    evaluate: Acquisition, refine: Refine, cells: _Cells, found: Array, height: float
) -> tuple[Array, float]:
    """The best point (p,) that moves of a refined one to neighbours reach, each refined."""
    for _ in range(ROUNDS):
        near, _ = cells.neighbours(found[None, :])
        if len(near) == 0:
            break
        near, reached = refine(near, evaluate(near))
        if not reached.max() > height:
            break
        found, height = near[reached.argmax()], float(reached.max())
    return found, height


@dataclass(frozen=True)
class _Cells:
    """Coordinates of a unit cube, some of which take a few values only: the middles of their cells."""

    kinds: Sequence[tuple[int, bool]]

    @property
    def free(self) -> Index:
        """The continuous coordinates."""
        return np.flatnonzero([size == 0 for size, _ in self.kinds])

    def snapped(self, U: Array) -> Array:
        """Points (m, p) at the middles of their cells."""
        sizes = np.array([size for size, _ in self.kinds])
        cells = np.maximum(sizes, 1)
        middles = (np.minimum(np.floor(U * cells), cells - 1) + 0.5) / cells
        return np.where(sizes == 0, U, middles)

    def neighbours(self, U: Array) -> tuple[Array, Index]:
        """Points that differ from one of `U` (S, p) in one coordinate of a few values, and from which.

        In an ordered coordinate by 1, 2, 4, ... values up or down, in another by any.
        """
        found, owners = [U[:0]], [np.empty(0, dtype=np.int64)]
        for column, (size, ordered) in enumerate(self.kinds):
            if size == 0:
                continue
            powers = 2 ** np.arange((size - 1).bit_length())
            steps = np.concatenate([-powers, powers]) if ordered else np.arange(1, size)
            there = np.floor(U[:, column] * size).astype(np.int64)[:, None] + steps
            inside = (there >= 0) & (there < size) if ordered else np.full(there.shape, True)
            owner = np.nonzero(inside)[0]
            moved = U[owner]
            moved[:, column] = (there[inside] % size + 0.5) / size
            found.append(moved)
            owners.append(owner)
        return np.concatenate(found), np.concatenate(owners)

"""Sobol, evolution and ascent on a box, some coordinates of which may take a few values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tvbandits.arrays import checked_values, row_of_largest
from tvbandits.validation import Array, Index

# Maps points (m, d) to values (m,).
Acquisition = Callable[[Array], Array]

# Maps points (m, d) to values (m,) and slopes (m, d).
Sloped = Callable[[Array], tuple[Array, Array]]


@runtime_checkable
class Smooth(Protocol):
    """An acquisition that knows its slopes: it is climbed from many points at once."""

    @property
    def near(self) -> Array:
        """Points (n, d) about which its maxima may be narrow."""

    def __call__(self, X: Array) -> Array:
        """Values (m,) at points (m, d)."""

    def sloped(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and slopes (m, d) at points (m, d)."""


class Cube(Protocol):
    """A domain that is searched as a unit cube."""

    def from_unit(self, U: Array) -> Array:
        """Points (m, d) of points (m, p) of the cube."""

    def to_unit(self, X: Array) -> Array:
        """Points (m, p) of the cube from points (m, d)."""

    def along(self, slopes: Array) -> Array:
        """Slopes (m, p) along the cube from slopes (m, d)."""


def best_point(
    acquisition: Acquisition, cube: Cube, kinds: Kinds, screened: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """The point (d,) of largest acquisition found, and that value; ties are broken by `rng`.

    Parameters
    ----------
    acquisition : callable
    cube : Cube
    kinds : sequence of (int, bool)
        Of the cube's coordinates; see `search`.
    screened : int
        Points of the first sample, where the acquisition knows its slopes.
    rng : numpy.random.Generator
    """

    def evaluate(U: Array) -> Array:
        X = cube.from_unit(U)
        return checked_values(acquisition(X), X)

    if isinstance(acquisition, Smooth):

        def sloped(U: Array) -> tuple[Array, Array]:
            values, slopes = acquisition.sloped(cube.from_unit(U))
            return values, cube.along(slopes)

        near = cube.to_unit(acquisition.near)
        found, height = climb(evaluate, sloped, near, screened, CLIMBED, rng, kinds)
    else:
        p = len(kinds)
        found, height = search(evaluate, kinds, min(256 << p, 16_384), 4 + 4 * p, rng)
    return cube.from_unit(found[None, :])[0], height


# Of points that are climbed from.
CLIMBED = 8

# A step that gains nothing is so many times as long the next time; one that does, at most.
SHORTER, LONGER = 0.25, 4.0

# Turns that all starts of an ascent take part in.
ALL_TURNS = 4

# Generations of an evolution without a new highest value, after which it ends.
PATIENCE = 6


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


def _ascended(
    sloped: Sloped, radius: float, tolerance: float, turns: int, U: Array, values: Array
) -> tuple[Array, Array]:
    """Projected gradient ascent of all starts (S, d) at once, with Barzilai-Borwein steps (1988).

    A turn is one call. A start that gains no more than `tolerance` takes a shorter step, at last none;
    after `ALL_TURNS` the best quarter of the starts goes on alone.
    """
    U, values = U.copy(), values.copy()
    slope = _inward(U, sloped(U)[1])
    steep = np.linalg.norm(slope, axis=1)
    size = np.full(len(U), 0.5 * radius)  # length of the next step
    for turn in range(turns):
        if turn == ALL_TURNS:
            with np.errstate(invalid="ignore"):  # between what is available and what is not
                size[values < np.quantile(values, 0.75)] = 0.0
        live = np.flatnonzero(size * steep > tolerance)
        if len(live) == 0:
            break
        trial = np.clip(U[live] + slope[live] * (size[live] / steep[live])[:, None], 0.0, 1.0)
        heights, slopes = sloped(trial)
        up = heights > values[live]
        size[live[~up]] *= SHORTER
        climbing, fresh = live[up], _inward(trial[up], slopes[up])
        moved = np.linalg.norm(trial[up] - U[climbing], axis=1)
        bend = np.linalg.norm(slope[climbing] - fresh, axis=1)
        U[climbing], values[climbing], slope[climbing] = trial[up], heights[up], fresh
        steep[climbing] = np.linalg.norm(fresh, axis=1)
        longest = np.minimum(LONGER * size[climbing], 1.0)
        size[climbing] = np.minimum(moved * steep[climbing] / np.maximum(bend, 1e-300), longest)
    return U, values


def _differences(evaluate: Acquisition, free: Index) -> Sloped:
    """Values and central differences (one-sided at a bound) along the coordinates in `free`."""

    def sloped(U: Array) -> tuple[Array, Array]:
        S, d = U.shape
        shifts = 3e-5 * np.eye(d)[free]  # well above rounding, well below any length scale of use
        above, below = np.minimum(U[:, None] + shifts, 1.0), np.maximum(U[:, None] - shifts, 0.0)
        points = np.concatenate([above.reshape(-1, d), below.reshape(-1, d), U])
        heights = evaluate(points)
        differences = heights[: 2 * S * len(free)].reshape(2, S, len(free))
        slopes = np.zeros((S, d))
        with np.errstate(invalid="ignore"):  # infinities of an acquisition with forbidden points
            slopes[:, free] = (differences[0] - differences[1]) / (above - below)[
                :, np.arange(len(free)), free
            ]
        return heights[len(points) - S :], slopes

    return sloped


def _inward(U: Array, slope: Array) -> Array:
    """Slopes (S, d) at points of the unit cube, without what leads out of it."""
    outward = ((U == 0.0) & (slope < 0)) | ((U == 1.0) & (slope > 0))
    return np.where(outward | ~np.isfinite(slope), 0.0, slope)


# --- an acquisition with slopes, and one without ----------------------------------------------------

# Number of values of each coordinate, 0 for a continuous one, and whether they have an order.
Kinds = Sequence[tuple[int, bool]]

# Points that are drawn about each of so many known ones, at such a distance.
NEIGHBOURS, ABOUT, APART = 4, 16, 0.03

# Of moves to neighbouring values, each followed by an ascent, at the most.
ROUNDS = 12


def climb(
    evaluate: Acquisition,
    sloped: Sloped,
    near: Array,
    samples: int,
    starts: int,
    rng: np.random.Generator,
    kinds: Kinds,
) -> tuple[Array, float]:
    """The best point (d,) of the unit cube found, and its value, of an acquisition with slopes.

    A randomly shifted Sobol sample with corners and faces, the points `near` (n, d) about which most is
    known and neighbours of the best of them; then gradient ascent from the best well-separated ones.
    What differs from the best of them in one coordinate of a few values starts, too (`kinds`, as in
    `search`); and so it goes on from the point found.
    """
    cells = _Cells(kinds)
    interior = cells.snapped(_sobol(near.shape[1], samples, rng))
    U = np.concatenate([interior, cells.snapped(_boundary(interior, rng)), near])
    values = evaluate(U)
    known = values[len(U) - len(near) :]
    top = near[np.argsort(-known, kind="stable")[:ABOUT]]
    moved = np.repeat(top, NEIGHBOURS, axis=0)
    moved = cells.snapped(np.clip(moved + APART * rng.standard_normal(moved.shape), 0.0, 1.0))
    U, values = np.concatenate([U, moved]), np.concatenate([values, evaluate(moved)])
    best = row_of_largest(values, U, rng)
    if not values[best] > values.min():
        row = int(rng.integers(len(interior)))
        return interior[row], float(values[row])
    radius = 0.5 * samples ** (-1.0 / near.shape[1])
    chosen = _separated(U, values, starts, radius)
    tolerance = 1e-5 * float(np.ptp(values))

    refine = partial(_ascended, sloped, radius, tolerance, 20)
    beside, _ = cells.neighbours(U[chosen[:1]])
    heights = evaluate(beside) if len(beside) else np.empty(0)
    U, heights = np.concatenate([U[chosen], beside]), np.concatenate([values[chosen], heights])
    U, heights = refine(U, heights)
    highest = [int(heights.argmax())]
    U, heights = _moved(evaluate, refine, cells, U[highest], heights[highest])
    return U[0], float(heights[0])


def search(
    evaluate: Acquisition, kinds: Kinds, samples: int, starts: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """The best point (p,) of a unit cube found, and its value, of any acquisition.

    A randomly shifted Sobol sample and differential evolution of all coordinates; then, from the best
    well-separated points, gradient ascent of the continuous ones in turn with moves of the others to
    neighbouring values. On a plateau the point is a random one of the sample.

    Parameters
    ----------
    evaluate : callable
        Maps points (m, p), which are middles of cells in coordinates of a few values, to heights (m,).
    kinds : sequence of (int, bool)
    samples, starts : int
        Points of the sample, and of those that are refined.
    rng : numpy.random.Generator
    """
    p = len(kinds)
    cells = _Cells(kinds)
    interior = cells.snapped(_sobol(p, samples, rng))
    values = evaluate(interior)
    best = row_of_largest(values, interior, rng)
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
    sloped = _differences(evaluate, cells.free)

    refine = partial(_ascended, sloped, radius, tolerance, 60)
    U, heights = _moved(evaluate, refine, cells, *refine(U[chosen], heights[chosen]))
    found, height = U[heights.argmax()], float(heights.max())
    # A maximum that the sample had already is a plateau: keep the uniformly drawn point.
    return (found, height) if height > values[best] else (interior[best], float(values[best]))


# Maps points (m, p) and their heights (m,) to higher ones near them.
Refine = Callable[[Array, Array], tuple[Array, Array]]


def _moved(
    evaluate: Acquisition, refine: Refine, cells: _Cells, U: Array, heights: Array
) -> tuple[Array, Array]:
    """What refined points `U` (S, p) come to by moves to higher neighbours, each refined."""
    for _ in range(ROUNDS):
        near, owners = cells.neighbours(U)
        if len(near) == 0:
            break
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
    return U, heights


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

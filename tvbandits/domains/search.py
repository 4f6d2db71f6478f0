"""The search for the largest acquisition: by sampling, evolution and ascent on a unit cube.

Some coordinates of the cube may take a few values only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tvbandits.domains.domain import Acquisition, SmoothAcquisition
from tvbandits.ties import acquisition_argmax, check_acquisition, find_tied_rows, first_argmax
from tvbandits.validation import Array, Index

# Maps points (m, d) to values (m,) and slopes (m, d).
ValuesAndSlopes = Callable[[Array], tuple[Array, Array]]

# Number of values of each coordinate, 0 for a continuous one, and whether they have an order.
Kinds = Sequence[tuple[int, bool]]

# Maps points (m, p) and their values (m,) to higher ones near them.
Refine = Callable[[Array, Array], tuple[Array, Array]]


class Cube(Protocol):
    """A domain that is searched as a unit cube."""

    def from_unit(self, U: Array) -> Array:
        """Return points (m, d) of the domain for points (m, p) of the cube."""

    def to_unit(self, X: Array) -> Array:
        """Return points (m, p) of the cube for points (m, d) of the domain."""

    def along(self, X: Array, slopes: Array) -> Array:
        """Return slopes (m, p) along the cube for slopes (m, d) along the domain at points (m, d)."""


@dataclass(frozen=True)
class SearchConfig:
    """The constants of a search.

    Attributes
    ----------
    starts : int
        Points that an acquisition with slopes is climbed from.
    neighbours, best, spread : int, int, float
        So many points are drawn about each of so many known ones, the best, at such a distance.
    shorter, longer : float
        A step that gains nothing is so many times as long the next time; one that does, at most.
    common_turns : int
        Turns of an ascent that all starts take part in.
    patience : int
        Generations of an evolution without a new highest value, after which it ends.
    rounds : int
        Most moves to neighbouring values, each followed by an ascent.
    """

    starts: int = 8
    neighbours: int = 4
    best: int = 16
    spread: float = 0.03
    shorter: float = 0.25
    longer: float = 4.0
    common_turns: int = 4
    patience: int = 6
    rounds: int = 12


CONFIG = SearchConfig()


def best_point(
    acquisition: Acquisition, cube: Cube, kinds: Kinds, samples: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Return the point (d,) of the largest acquisition that is found, and its value.

    Parameters
    ----------
    acquisition : callable
    cube : Cube
    kinds : sequence of (int, bool)
        Of the cube's coordinates; see `search`.
    samples : int
        Points of the first sample, where the acquisition knows its slopes.
    rng : numpy.random.Generator
        It breaks ties.
    """

    def evaluate(U: Array) -> Array:
        X = cube.from_unit(U)
        return check_acquisition(acquisition(X), X)

    if isinstance(acquisition, SmoothAcquisition):

        def with_slopes(U: Array) -> tuple[Array, Array]:
            X = cube.from_unit(U)
            values, slopes = acquisition.values_and_slopes(X)
            return values, cube.along(X, slopes)

        near = cube.to_unit(acquisition.near)
        best, value = climb(evaluate, with_slopes, near, samples, CONFIG.starts, rng, kinds)
    else:
        p = len(kinds)
        best, value = search(evaluate, kinds, min(256 << p, 16_384), 4 + 4 * p, rng)
    return cube.from_unit(best[None, :])[0], value


@lru_cache(maxsize=8)
def _sobol_bits(d: int, log2_n: int) -> NDArray[np.uint32]:
    """Return the first 2^log2_n points of the Sobol sequence as 30-bit integers, shape (n, d)."""
    from scipy.stats import qmc  # takes a second of its own

    U = qmc.Sobol(d, scramble=False, bits=30).random_base2(log2_n)
    return np.asarray(U * 2.0**30, dtype=np.uint32)


def _sobol(d: int, n: int, rng: np.random.Generator) -> Array:
    """Return at least `n` Sobol points under a random digital shift: each is uniform on the cube."""
    bits = _sobol_bits(d, (n - 1).bit_length())
    shift = rng.integers(2**30, size=d, dtype=np.uint32)
    return np.asarray(((bits ^ shift) + 0.5) / 2.0**30, dtype=np.float64)


def _boundary(U: Array, rng: np.random.Generator) -> Array:
    """Return the corners of the unit cube (the first 64), and a quarter of `U` pushed to faces of it."""
    d = U.shape[1]
    corners = np.array(list(product((0.0, 1.0), repeat=min(d, 6))))
    rest = np.rint(rng.random((len(corners), d - corners.shape[1])))
    pushed = U[: len(U) // 4]
    pushed = np.where(rng.random(pushed.shape) < 0.5, np.rint(pushed), pushed)
    return np.concatenate([np.hstack([corners, rest]), pushed])


def _separate_best(U: Array, values: Array, count: int, radius: float) -> Index:
    """Return up to `count` rows: the best, the best further than `radius` from it, and so on."""
    remaining = np.where(np.isfinite(values), values, -np.inf)
    rows: list[int] = []
    while len(rows) < count and remaining.max() > -np.inf:
        best = first_argmax(remaining)
        rows.append(best)
        remaining[np.abs(U - U[best]).max(axis=1) <= radius] = -np.inf
    return np.array(rows, dtype=np.int64)


def _evolve(
    evaluate: Acquisition, U: Array, values: Array, generations: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Improve points by differential evolution (Storn and Price 1997).

    Half of it is "rand/1/bin" and half "best/1/bin".

    It gets over ripples that trap local refinement: a whole generation (P, d) is one call. It ends with
    the last of so many generations, or once `patience` in a row have found nothing higher.
    """
    U, values = U.copy(), values.copy()
    P, d = U.shape
    highest, waited = values.max(initial=-np.inf), 0
    for _ in range(generations if P >= 4 else 0):
        base, plus, minus = rng.integers(P, size=(3, P))
        base[::2] = first_argmax(values)
        mutant = U[base] + rng.uniform(0.4, 0.9, (P, 1)) * (U[plus] - U[minus])
        crossed = rng.random((P, d)) < 0.9
        crossed[np.arange(P), rng.integers(d, size=P)] = True
        trial = np.where(crossed, np.clip(mutant, 0.0, 1.0), U)
        heights = evaluate(trial)
        better = heights >= values
        U[better], values[better] = trial[better], heights[better]
        waited = 0 if values.max() > highest else waited + 1
        highest = values.max()
        if waited == CONFIG.patience or np.ptp(U, axis=0).max() < 1e-4:
            break
    return U, values


def _ascend(
    with_slopes: ValuesAndSlopes,
    radius: float,
    tolerance: float,
    turns: int,
    U: Array,
    values: Array,
) -> tuple[Array, Array]:
    """Climb from all starts (S, d) at once, by projected gradients.

    The steps are those of Barzilai and Borwein (1988).

    A turn is one call. A start that gains no more than `tolerance` takes a shorter step, at last none;
    after `common_turns` the best quarter of the starts goes on alone.
    """
    U, values = U.copy(), values.copy()
    slope = _inward(U, with_slopes(U)[1])
    steep = np.linalg.norm(slope, axis=1)
    size = np.full(len(U), 0.5 * radius)  # length of the next step
    for turn in range(turns):
        if turn == CONFIG.common_turns:
            with np.errstate(invalid="ignore"):  # between what is available and what is not
                size[values < np.quantile(values, 0.75)] = 0.0
        live = np.flatnonzero(size * steep > tolerance)
        if len(live) == 0:
            break
        trial = np.clip(U[live] + slope[live] * (size[live] / steep[live])[:, None], 0.0, 1.0)
        heights, slopes = with_slopes(trial)
        up = heights > values[live]
        size[live[~up]] *= CONFIG.shorter
        climbing, fresh = live[up], _inward(trial[up], slopes[up])
        moved = np.linalg.norm(trial[up] - U[climbing], axis=1)
        bend = np.linalg.norm(slope[climbing] - fresh, axis=1)
        U[climbing], values[climbing], slope[climbing] = trial[up], heights[up], fresh
        steep[climbing] = np.linalg.norm(fresh, axis=1)
        longest = np.minimum(CONFIG.longer * size[climbing], 1.0)
        size[climbing] = np.minimum(moved * steep[climbing] / np.maximum(bend, 1e-300), longest)
    return U, values


def _differences(evaluate: Acquisition, free: Index) -> ValuesAndSlopes:
    """Return the function of values and of central differences along the coordinates in `free`.

    At a bound they are one-sided.
    """

    def with_slopes(U: Array) -> tuple[Array, Array]:
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

    return with_slopes


def _inward(U: Array, slope: Array) -> Array:
    """Return slopes (S, d) at points of the unit cube, without what leads out of it."""
    outward = ((U == 0.0) & (slope < 0)) | ((U == 1.0) & (slope > 0))
    return np.where(outward | ~np.isfinite(slope), 0.0, slope)


# --- an acquisition with slopes, and one without ----------------------------------------------------


def climb(
    evaluate: Acquisition,
    with_slopes: ValuesAndSlopes,
    near: Array,
    samples: int,
    starts: int,
    rng: np.random.Generator,
    kinds: Kinds,
) -> tuple[Array, float]:
    """Return the best point (d,) of the unit cube that is found, with slopes, and its value.

    A randomly shifted Sobol sample with corners and faces, the points `near` (n, d) about which most is
    known and neighbours of the best of them; then gradient ascent from the best well-separated ones.
    What differs from the best of them in one coordinate of a few values starts, too (`kinds`, as in
    `search`); and so it goes on from the point found.
    """
    cells = _Cells(kinds)
    interior = cells.snap(_sobol(near.shape[1], samples, rng))
    U = np.concatenate([interior, cells.snap(_boundary(interior, rng)), near])
    values = evaluate(U)
    at_near = values[len(U) - len(near) :]
    top = near[np.argsort(-at_near, kind="stable")[: CONFIG.best]]
    around = np.repeat(top, CONFIG.neighbours, axis=0)
    shifts = CONFIG.spread * rng.standard_normal(around.shape)
    around = cells.snap(np.clip(around + shifts, 0.0, 1.0))
    U, values = np.concatenate([U, around]), np.concatenate([values, evaluate(around)])
    if len(find_tied_rows(values)) == len(values):
        row = int(rng.integers(len(interior)))
        return interior[row], float(values[row])
    radius = 0.5 * samples ** (-1.0 / near.shape[1])
    rows = _separate_best(U, values, starts, radius)
    tolerance = 1e-5 * float(np.ptp(values))

    refine = partial(_ascend, with_slopes, radius, tolerance, 20)
    beside, _ = cells.neighbours(U[rows[:1]])
    heights = evaluate(beside) if len(beside) else np.empty(0)
    U, heights = np.concatenate([U[rows], beside]), np.concatenate([values[rows], heights])
    U, heights = refine(U, heights)
    highest = [first_argmax(heights)]
    U, heights = _visit_neighbours(evaluate, refine, cells, U[highest], heights[highest])
    return U[0], float(heights[0])


def search(
    evaluate: Acquisition, kinds: Kinds, samples: int, starts: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Return the best point (p,) of a unit cube that is found, and its value, of any acquisition.

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
    interior = cells.snap(_sobol(p, samples, rng))
    values = evaluate(interior)
    best = acquisition_argmax(values, interior, rng)
    if len(find_tied_rows(values)) == len(values) or not np.isfinite(values[best]):
        return interior[best], float(values[best])
    edges = cells.snap(_boundary(interior, rng))
    U, heights = np.concatenate([interior, edges]), np.concatenate([values, evaluate(edges)])
    radius = 0.5 * len(U) ** (-1.0 / p)
    first = _separate_best(U, heights, 16 + 16 * p, radius)
    evolved, reached = _evolve(
        lambda V: evaluate(cells.snap(V)), U[first], heights[first], 20 + 10 * p, rng
    )
    U, heights = np.concatenate([U, cells.snap(evolved)]), np.concatenate([heights, reached])
    rows = _separate_best(U, heights, starts, radius)
    tolerance = 1e-9 * float(np.ptp(heights[np.isfinite(heights)]))
    with_slopes = _differences(evaluate, cells.free)

    refine = partial(_ascend, with_slopes, radius, tolerance, 60)
    U, heights = _visit_neighbours(evaluate, refine, cells, *refine(U[rows], heights[rows]))
    # A maximum that the sample had already is a plateau: keep the uniformly drawn point.
    U, heights = np.vstack([interior[best], U]), np.append(values[best], heights)
    row = first_argmax(heights)
    return U[row], float(heights[row])


def _visit_neighbours(
    evaluate: Acquisition, refine: Refine, cells: _Cells, U: Array, heights: Array
) -> tuple[Array, Array]:
    """Move refined points `U` (S, p) to higher neighbours as long as there are any; refine each."""
    for _ in range(CONFIG.rounds):
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
    """The coordinates of a unit cube, some of which take a few values only: the middles of cells."""

    kinds: Kinds

    @property
    def free(self) -> Index:
        """The continuous coordinates."""
        return np.flatnonzero([size == 0 for size, _ in self.kinds])

    def snap(self, U: Array) -> Array:
        """Move points (m, p) to the middles of their cells."""
        sizes = np.array([size for size, _ in self.kinds])
        cells = np.maximum(sizes, 1)
        middles = (np.minimum(np.floor(U * cells), cells - 1) + 0.5) / cells
        return np.where(sizes == 0, U, middles)

    def neighbours(self, U: Array) -> tuple[Array, Index]:
        """Return the points that differ from one of `U` (S, p) in one coordinate, and from which.

        It is a coordinate of a few values. In an ordered one they differ by 1, 2, 4, ... values up or
        down, in another by any.
        """
        points, owners = [U[:0]], [np.empty(0, dtype=np.int64)]
        for column, (size, ordered) in enumerate(self.kinds):
            if size == 0:
                continue
            powers = 2 ** np.arange((size - 1).bit_length())
            steps = np.concatenate([-powers, powers]) if ordered else np.arange(1, size)
            there = np.floor(U[:, column] * size).astype(np.int64)[:, None] + steps
            inside = (there >= 0) & (there < size) if ordered else np.full(there.shape, True)
            owner = np.nonzero(inside)[0]
            beside = U[owner]
            beside[:, column] = (there[inside] % size + 0.5) / size
            points.append(beside)
            owners.append(owner)
        return np.concatenate(points), np.concatenate(owners)

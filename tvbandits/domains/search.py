"""The search for the largest acquisition on a unit cube: by sampling, evolution and gradient ascent.

Some coordinates of the cube may be discrete.
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

# A function from points (m, d) to values (m,) and slopes (m, d).
ValuesAndSlopes = Callable[[Array], tuple[Array, Array]]

# For each coordinate its number of values (0: continuous), and whether the values have an order.
Kinds = Sequence[tuple[int, bool]]

# A function from points (m, p) and their values (m,) to points near them with higher values.
Refine = Callable[[Array, Array], tuple[Array, Array]]


class Cube(Protocol):
    """A domain that can be mapped to a unit cube."""

    def from_unit(self, U: Array) -> Array:
        """Return points (m, d) of the domain for points (m, p) of the cube."""

    def to_unit(self, X: Array) -> Array:
        """Return points (m, p) of the cube for points (m, d) of the domain."""

    def convert_slopes(self, X: Array, slopes: Array) -> Array:
        """Return slopes (m, p) on the cube for slopes (m, d) on the domain at points (m, d)."""


@dataclass(frozen=True)
class SearchConfig:
    """The constants of a search.

    Attributes
    ----------
    starts : int
        The number of starting points of gradient ascent for an acquisition with slopes.
    neighbours, best, spread : int, int, float
        The number of neighbours that are drawn of each point, the number of such points, and the
        standard deviation of the neighbours. The points are the best of the acquisition's `near`.
    shorter, longer : float
        Factors on the length of an ascent's step: the first after a step that gains nothing; the second
        is the largest factor after a step that does.
    common_iterations : int
        The number of iterations of an ascent in which all starting points take part.
    patience : int
        An evolution ends after so many generations without a new largest value.
    rounds : int
        The largest number of moves to neighbouring discrete values, each followed by an ascent.
    """

    starts: int = 8
    neighbours: int = 4
    best: int = 16
    spread: float = 0.03
    shorter: float = 0.25
    longer: float = 4.0
    common_iterations: int = 4
    patience: int = 6
    rounds: int = 12


CONFIG = SearchConfig()


def find_maximum(
    acquisition: Acquisition, cube: Cube, kinds: Kinds, samples: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Return the point (d,) with the largest acquisition that the search finds, and its value.

    Parameters
    ----------
    acquisition : callable
    cube : Cube
    kinds : sequence of (int, bool)
        For each coordinate its number of values (0: continuous), and whether they have an order.
    samples : int
        The number of points in the first sample, for an acquisition with slopes.
    rng : numpy.random.Generator
        The generator for samples and ties.
    """

    def evaluate(U: Array) -> Array:
        X = cube.from_unit(U)
        return check_acquisition(acquisition(X), X)

    if isinstance(acquisition, SmoothAcquisition):

        def with_slopes(U: Array) -> tuple[Array, Array]:
            X = cube.from_unit(U)
            values, slopes = acquisition.values_and_slopes(X)
            return values, cube.convert_slopes(X, slopes)

        near = cube.to_unit(acquisition.near)
        u, value = climb(evaluate, with_slopes, near, samples, CONFIG.starts, rng, kinds)
    else:
        p = len(kinds)
        u, value = search(evaluate, kinds, min(256 << p, 16_384), 4 + 4 * p, rng)
    return cube.from_unit(u[None, :])[0], value


@lru_cache(maxsize=8)
def _sobol_bits(d: int, log2_n: int) -> NDArray[np.uint32]:
    """Return the first 2^log2_n points of the Sobol sequence as 30-bit integers, shape (n, d)."""
    from scipy.stats import qmc  # the import takes a second

    U = qmc.Sobol(d, scramble=False, bits=30).random_base2(log2_n)
    return np.asarray(U * 2.0**30, dtype=np.uint32)


def _sobol(d: int, n: int, rng: np.random.Generator) -> Array:
    """Return at least `n` Sobol points with a random digital shift, each uniform on the cube."""
    bits = _sobol_bits(d, (n - 1).bit_length())
    shift = rng.integers(2**30, size=d, dtype=np.uint32)
    return np.asarray(((bits ^ shift) + 0.5) / 2.0**30, dtype=np.float64)


def _sample_boundary(U: Array, rng: np.random.Generator) -> Array:
    """Return corners of the unit cube (64 at most), and a quarter of `U` projected to random faces."""
    d = U.shape[1]
    corners = np.array(list(product((0.0, 1.0), repeat=min(d, 6))))
    further = np.rint(rng.random((len(corners), d - corners.shape[1])))
    projected = U[: len(U) // 4]
    projected = np.where(rng.random(projected.shape) < 0.5, np.rint(projected), projected)
    return np.concatenate([np.hstack([corners, further]), projected])


def _separate_best(U: Array, values: Array, count: int, radius: float) -> Index:
    """Return up to `count` rows of the best points whose distances from each other exceed `radius`."""
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
    """Improve points (P, d) by differential evolution (Storn and Price 1997).

    Half of the mutants are of the kind "rand/1/bin", half "best/1/bin". Evolution overcomes ripples that
    trap gradient ascent. Each generation makes one call of `evaluate`. The last generation is that with
    the number `generations`, or the last of `patience` successive ones without a new largest value.
    """
    U, values = U.copy(), values.copy()
    P, d = U.shape
    highest, stagnation = values.max(initial=-np.inf), 0
    for _ in range(generations if P >= 4 else 0):
        base, plus, minus = rng.integers(P, size=(3, P))
        base[::2] = first_argmax(values)
        mutant = U[base] + rng.uniform(0.4, 0.9, (P, 1)) * (U[plus] - U[minus])
        crossover = rng.random((P, d)) < 0.9
        crossover[np.arange(P), rng.integers(d, size=P)] = True
        trial = np.where(crossover, np.clip(mutant, 0.0, 1.0), U)
        trial_values = evaluate(trial)
        better = trial_values >= values
        U[better], values[better] = trial[better], trial_values[better]
        stagnation = 0 if values.max() > highest else stagnation + 1
        highest = values.max()
        if stagnation == CONFIG.patience or np.ptp(U, axis=0).max() < 1e-4:
            break
    return U, values


def _ascend(
    with_slopes: ValuesAndSlopes,
    radius: float,
    tolerance: float,
    iterations: int,
    U: Array,
    values: Array,
) -> tuple[Array, Array]:
    """Climb from all starting points (S, d) at once, by projected gradient ascent.

    The step lengths are those of Barzilai and Borwein (1988). Each iteration makes one call of
    `with_slopes`. After a step without a gain the next one is shorter; the ascent from a point ends when
    a step would gain less than `tolerance`. After `common_iterations`, only the best quarter of the
    points continues.
    """
    U, values = U.copy(), values.copy()
    slope = _project_inward(U, with_slopes(U)[1])
    steepness = np.linalg.norm(slope, axis=1)
    size = np.full(len(U), 0.5 * radius)  # the length of the next step
    for iteration in range(iterations):
        if iteration == CONFIG.common_iterations:
            with np.errstate(invalid="ignore"):  # infinities of unavailable points
                size[values < np.quantile(values, 0.75)] = 0.0
        active = np.flatnonzero(size * steepness > tolerance)
        if len(active) == 0:
            break
        step = slope[active] * (size[active] / steepness[active])[:, None]
        trial = np.clip(U[active] + step, 0.0, 1.0)
        trial_values, trial_slopes = with_slopes(trial)
        up = trial_values > values[active]
        size[active[~up]] *= CONFIG.shorter
        rows, new_slope = active[up], _project_inward(trial[up], trial_slopes[up])
        distance = np.linalg.norm(trial[up] - U[rows], axis=1)
        slope_change = np.linalg.norm(slope[rows] - new_slope, axis=1)
        U[rows], values[rows], slope[rows] = trial[up], trial_values[up], new_slope
        steepness[rows] = np.linalg.norm(new_slope, axis=1)
        longest = np.minimum(CONFIG.longer * size[rows], 1.0)
        size[rows] = np.minimum(
            distance * steepness[rows] / np.maximum(slope_change, 1e-300), longest
        )
    return U, values


def _make_numerical_slopes(evaluate: Acquisition, continuous: Index) -> ValuesAndSlopes:
    """Return a function to values and slopes, by finite differences along the coordinates `continuous`.

    The differences are central, and one-sided at a bound.
    """

    def with_slopes(U: Array) -> tuple[Array, Array]:
        S, d = U.shape
        shifts = (
            3e-5 * np.eye(d)[continuous]
        )  # far above rounding errors, far below useful length scales
        upper, lower = np.minimum(U[:, None] + shifts, 1.0), np.maximum(U[:, None] - shifts, 0.0)
        points = np.concatenate([upper.reshape(-1, d), lower.reshape(-1, d), U])
        values = evaluate(points)
        shifted_values = values[: 2 * S * len(continuous)].reshape(2, S, len(continuous))
        slopes = np.zeros((S, d))
        with np.errstate(invalid="ignore"):  # infinities of unavailable points
            slopes[:, continuous] = (shifted_values[0] - shifted_values[1]) / (upper - lower)[
                :, np.arange(len(continuous)), continuous
            ]
        return values[len(points) - S :], slopes

    return with_slopes


def _project_inward(U: Array, slope: Array) -> Array:
    """Return slopes (S, d) at points of the unit cube, with 0 for components that point out of it."""
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
    """Return the best point (d,) of the unit cube that gradient ascent finds, and its value.

    The starting points are the best well-separated ones of a randomly shifted Sobol sample with corners
    and faces, of the points `near` (n, d), and of neighbours of the best of these. Points that differ
    from the best one in one discrete coordinate are starting points, too. From the result, moves in
    discrete coordinates and ascents alternate (`kinds` as in `find_maximum`).
    """
    cells = _Cells(kinds)
    interior = cells.snap(_sobol(near.shape[1], samples, rng))
    U = np.concatenate([interior, cells.snap(_sample_boundary(interior, rng)), near])
    values = evaluate(U)
    near_values = values[len(U) - len(near) :]
    best_near = near[np.argsort(-near_values, kind="stable")[: CONFIG.best]]
    neighbours = np.repeat(best_near, CONFIG.neighbours, axis=0)
    shifts = CONFIG.spread * rng.standard_normal(neighbours.shape)
    neighbours = cells.snap(np.clip(neighbours + shifts, 0.0, 1.0))
    U, values = np.concatenate([U, neighbours]), np.concatenate([values, evaluate(neighbours)])
    if len(find_tied_rows(values)) == len(values):
        row = int(rng.integers(len(interior)))
        return interior[row], float(values[row])
    radius = 0.5 * samples ** (-1.0 / near.shape[1])
    rows = _separate_best(U, values, starts, radius)
    tolerance = 1e-5 * float(np.ptp(values))

    refine = partial(_ascend, with_slopes, radius, tolerance, 20)
    neighbours, _ = cells.neighbours(U[rows[:1]])
    neighbour_values = evaluate(neighbours) if len(neighbours) else np.empty(0)
    U = np.concatenate([U[rows], neighbours])
    values = np.concatenate([values[rows], neighbour_values])
    U, values = refine(U, values)
    best = [first_argmax(values)]
    U, values = _visit_neighbours(evaluate, refine, cells, U[best], values[best])
    return U[0], float(values[0])


def search(
    evaluate: Acquisition, kinds: Kinds, samples: int, starts: int, rng: np.random.Generator
) -> tuple[Array, float]:
    """Return the best point (p,) of a unit cube that is found for an acquisition without slopes.

    The second value is that of the acquisition. A randomly shifted Sobol sample is followed by
    differential evolution of all coordinates. From the best well-separated points, gradient ascent in
    the continuous coordinates alternates with moves to neighbouring values of the discrete ones. On a
    plateau, a random point of the sample is returned.

    Parameters
    ----------
    evaluate : callable
        A function from points (m, p) to values (m,); discrete coordinates are the middles of cells.
    kinds : sequence of (int, bool)
        As for `find_maximum`.
    samples, starts : int
        The number of points in the sample, and of points that are refined.
    rng : numpy.random.Generator
    """
    p = len(kinds)
    cells = _Cells(kinds)
    interior = cells.snap(_sobol(p, samples, rng))
    values = evaluate(interior)
    best = acquisition_argmax(values, interior, rng)
    if len(find_tied_rows(values)) == len(values) or not np.isfinite(values[best]):
        return interior[best], float(values[best])
    boundary = cells.snap(_sample_boundary(interior, rng))
    U = np.concatenate([interior, boundary])
    all_values = np.concatenate([values, evaluate(boundary)])
    radius = 0.5 * len(U) ** (-1.0 / p)
    parents = _separate_best(U, all_values, 16 + 16 * p, radius)
    population, population_values = _evolve(
        lambda V: evaluate(cells.snap(V)), U[parents], all_values[parents], 20 + 10 * p, rng
    )
    U = np.concatenate([U, cells.snap(population)])
    all_values = np.concatenate([all_values, population_values])
    rows = _separate_best(U, all_values, starts, radius)
    tolerance = 1e-9 * float(np.ptp(all_values[np.isfinite(all_values)]))
    with_slopes = _make_numerical_slopes(evaluate, cells.continuous)

    refine = partial(_ascend, with_slopes, radius, tolerance, 60)
    U, refined = _visit_neighbours(evaluate, refine, cells, *refine(U[rows], all_values[rows]))
    # If the sample contains the maximum already, it is a plateau: prefer the random point.
    U, refined = np.vstack([interior[best], U]), np.append(values[best], refined)
    row = first_argmax(refined)
    return U[row], float(refined[row])


def _visit_neighbours(
    evaluate: Acquisition, refine: Refine, cells: _Cells, U: Array, values: Array
) -> tuple[Array, Array]:
    """Move points `U` (S, p) to neighbours with higher values, and refine them, while there are any."""
    for _ in range(CONFIG.rounds):
        neighbours, owners = cells.neighbours(U)
        if len(neighbours) == 0:
            break
        neighbour_values = evaluate(neighbours)
        # In ascending order, the last assignment to an owner is its best neighbour.
        order = np.argsort(neighbour_values, kind="stable")
        best = np.full(len(U), -1)
        best[owners[order]] = order
        up = (best >= 0) & (neighbour_values[best] > values)
        if not up.any():
            break
        U[up], values[up] = neighbours[best[up]], neighbour_values[best[up]]
        U, values = refine(U, values)
    return U, values


@dataclass(frozen=True)
class _Cells:
    """The coordinates of a unit cube, of which the discrete ones take the middles of cells as values."""

    kinds: Kinds

    @property
    def continuous(self) -> Index:
        """Return the continuous coordinates."""
        return np.flatnonzero([size == 0 for size, _ in self.kinds])

    def snap(self, U: Array) -> Array:
        """Move points (m, p) to the middles of their cells."""
        sizes = np.array([size for size, _ in self.kinds])
        cells = np.maximum(sizes, 1)
        middles = (np.minimum(np.floor(U * cells), cells - 1) + 0.5) / cells
        return np.where(sizes == 0, U, middles)

    def neighbours(self, U: Array) -> tuple[Array, Index]:
        """Return the neighbours of points `U` (S, p), and for each the row of its point.

        A neighbour differs in one discrete coordinate: by 1, 2, 4, ... values up or down if the values
        have an order, otherwise by any other value.
        """
        points, owners = [U[:0]], [np.empty(0, dtype=np.int64)]
        for column, (size, is_ordered) in enumerate(self.kinds):
            if size == 0:
                continue
            powers = 2 ** np.arange((size - 1).bit_length())
            steps = np.concatenate([-powers, powers]) if is_ordered else np.arange(1, size)
            values = np.floor(U[:, column] * size).astype(np.int64)[:, None] + steps
            exists = (values >= 0) & (values < size) if is_ordered else np.full(values.shape, True)
            owner = np.nonzero(exists)[0]
            neighbours = U[owner]
            neighbours[:, column] = (values[exists] % size + 0.5) / size
            points.append(neighbours)
            owners.append(owner)
        return np.concatenate(points), np.concatenate(owners)

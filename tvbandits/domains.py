"""The sets of points a bandit may play, and how to find the best of them.

`Candidates` is a finite set, searched exactly; `Box` a product of intervals, searched by sampling,
evolution and refinement in vectorised calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from scipy.stats import qmc

from tvbandits.observations import Array, Index, as_points

Acquisition = Callable[[Array], Array]
"""Maps points (m, d) to values (m,)."""

TOLERANCE = 1e-9
"""How far off a point may be, relative to the domain's extent along each coordinate."""

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


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """A finite set of points, searched exactly.

    Parameters
    ----------
    X : array of shape (A, d)
        The candidates: at least one, no two of them equal. A read-only copy is kept.

    Raises
    ------
    ValueError
        If `X` is not a finite matrix with a row and a column, or has two equal rows.
    """

    X: Array

    def __post_init__(self) -> None:
        X = as_points(self.X, name="candidates") + 0.0  # turns -0.0 into 0.0: equal sets hash alike
        if X.size == 0:
            raise ValueError(f"candidates must have a row and a column, got shape {X.shape}")
        order = np.lexsort(X.T)
        repeated = (X[order[1:]] == X[order[:-1]]).all(axis=1)
        if repeated.any():
            at = int(repeated.argmax())
            first, again = sorted((int(order[at]), int(order[at + 1])))
            raise ValueError(
                f"candidates must differ, but row {again} repeats row {first}: {X[again].tolist()}"
            )
        X.setflags(write=False)
        object.__setattr__(self, "X", X)

    @classmethod
    def grid(cls, bounds: ArrayLike, points_per_axis: int | Sequence[int]) -> Candidates:
        """Regular grid over `bounds` (d, 2), ends included; the last coordinate runs fastest."""
        intervals = as_bounds(bounds)
        counts = np.broadcast_to(np.asarray(points_per_axis), (len(intervals),))
        if not np.issubdtype(counts.dtype, np.integer) or (counts < 1).any():
            raise ValueError(f"points_per_axis must be positive integers, got {points_per_axis}")
        axes = [np.linspace(a, b, int(n)) for (a, b), n in zip(intervals, counts, strict=True)]
        return cls(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        return f"Candidates({len(self)} points, d={self.dimension})"

    def __len__(self) -> int:
        return len(self.X)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        return np.array_equal(self.X, other.X)

    def __hash__(self) -> int:
        return hash((self.X.shape, self.X.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Candidates, (self.X,)  # the search tree is rebuilt where it is needed

    @cached_property
    def _extent(self) -> Array:
        """Extent of the set along each coordinate, (d,); the size of the numbers where it is 0."""
        extent = np.ptp(self.X, axis=0)
        size = np.abs(self.X).max(axis=0)
        # Of a set with a wide offset and a tiny extent, rounding decides what can be told apart.
        floor = np.where(extent > 0, 16 * np.finfo(float).eps / TOLERANCE * size, size)
        extent = np.maximum(extent, floor)
        return np.asarray(np.where(extent > 0, extent, 1.0))

    @cached_property
    def _tree(self) -> cKDTree[None, Any]:
        return cKDTree(self.X / self._extent)

    @cached_property
    def _row_by_bytes(self) -> dict[bytes, int]:
        return {point.tobytes(): row for row, point in enumerate(self.X)}

    def index(self, X: ArrayLike, name: str = "X") -> Index:
        """Row of each point in the set, shape (n,), within 1e-9 of the extent of each coordinate.

        `ValueError` names the first point that is no candidate, and its nearest candidate.
        """
        points = as_points(X, self.dimension, name)
        if len(points) <= 64 and len(self) <= 50_000:
            # A bandit plays candidates bit for bit: a look into a table spares the search tree.
            found = [self._row_by_bytes.get(point.tobytes()) for point in points]
            if None not in found:
                return np.array(found, dtype=np.int64)
        distance, nearest = map(np.asarray, self._tree.query(points / self._extent, p=np.inf))
        outside = distance > TOLERANCE
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{name} must be candidates, but {points[row].tolist()} in row {row} is none; "
                f"the nearest candidate is {self.X[nearest[row]].tolist()}"
            )
        return np.asarray(nearest, dtype=np.int64)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as the candidates it names, free of rounding; see `index`."""
        return self.X[self.index(X, name)]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """`n` candidates drawn uniformly, with replacement, shape (n, d)."""
        return self.X[rng.integers(len(self), size=n)]

    def best_of(self, values: ArrayLike, rng: np.random.Generator) -> int:
        """Row of the largest of `values` (A,); one of the exactly equal ones, drawn by `rng`."""
        return _argmax(checked_values(values, self.X), rng)

    def maximise(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """The candidate (d,) of largest acquisition, and that value; ties are broken by `rng`."""
        values = checked_values(acquisition(self.X), self.X)
        best = _argmax(values, rng)
        return self.X[best].copy(), float(values[best])


def as_bounds(bounds: ArrayLike) -> Array:
    """Return `bounds` as a float array of shape (d, 2) with low < high in every row."""
    intervals = as_points(bounds, 2, name="bounds")
    if len(intervals) == 0:
        raise ValueError("bounds must have at least one row, got shape (0, 2)")
    empty = ~(intervals[:, 0] < intervals[:, 1])
    if empty.any():
        row = int(empty.argmax())
        raise ValueError(f"bounds must have low < high, got {intervals[row].tolist()} in row {row}")
    return intervals


def _argmax(values: Array, rng: np.random.Generator) -> int:
    """Position of the largest value; one of the exactly equal ones, uniformly."""
    ties = np.flatnonzero(values == values.max())
    return int(ties[0] if len(ties) == 1 else ties[rng.integers(len(ties))])


@dataclass(frozen=True, eq=False)
class Box:
    """A product of closed intervals, searched to a tolerance.

    Parameters
    ----------
    bounds : array of shape (d, 2)
        Lowest and highest value of each coordinate. A read-only copy is kept.
    samples : int, optional
        Points of the first sample, rounded up to a power of two; by default 512, 1024, 2048, ...
        for d = 1, 2, 3, ..., at most 16,384.
    starts : int, optional
        Points that are refined; by default 4 + 4 d.

    Raises
    ------
    ValueError
        If `bounds` is not a finite (d, 2) matrix with low < high, or a count is not positive.

    Notes
    -----
    `maximise` takes about 100 calls of the acquisition: 1,000 to 2,000 points at d = 1, 2,000 to
    5,000 at d = 2, 25,000 to 40,000 at d = 6. Its accuracy is not known beyond d = 6.
    """

    bounds: Array
    samples: int | None = None
    starts: int | None = None

    def __post_init__(self) -> None:
        bounds = as_bounds(self.bounds)
        bounds.setflags(write=False)
        object.__setattr__(self, "bounds", bounds)
        for name, count in (("samples", self.samples), ("starts", self.starts)):
            if count is not None and count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}")

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.bounds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        counts = (self.samples, self.starts) == (other.samples, other.starts)
        return counts and np.array_equal(self.bounds, other.bounds)

    def __hash__(self) -> int:
        return hash((tuple(self.bounds.ravel().tolist()), self.samples, self.starts))

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d), moved inside where it is out by less than 1e-9 of an interval.

        `ValueError` names the first point that is outside by more.
        """
        points = as_points(X, self.dimension, name)
        low, high = self.bounds.T
        slack = TOLERANCE * (high - low)
        outside = ((points < low - slack) | (points > high + slack)).any(axis=1)
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"{name} must be inside the box {self.bounds.tolist()}, "
                f"got {points[row].tolist()} in row {row}"
            )
        return np.asarray(np.clip(points, low, high))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """`n` points drawn uniformly, shape (n, d)."""
        return self._scaled(rng.random((n, self.dimension)))

    def maximise(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """The point (d,) of largest acquisition found, and that value; ties are broken by `rng`.

        A randomly shifted Sobol sample with the corners and a part of it pushed to the boundary,
        then differential evolution of the best of it, then gradient ascent from the best
        well-separated points of both. On a plateau the point is a random one of the sample.
        """

        def evaluate(U: Array) -> Array:
            X = self._scaled(U)
            return checked_values(acquisition(X), X)

        d = self.dimension
        samples = min(256 << d, 16_384) if self.samples is None else self.samples
        interior = _sobol(d, samples, rng)
        values = evaluate(interior)
        best = _argmax(values, rng)
        if values[best] > values.min() and np.isfinite(values[best]):
            U = np.concatenate([interior, _boundary(interior, rng)])
            values = np.concatenate([values, evaluate(U[len(interior) :])])
            found, height = _search(evaluate, U, values, self.starts or 4 + 4 * d, rng)
            # A maximum that the sample had already is a plateau: keep the uniformly drawn point.
            if height > values[best]:
                return self._scaled(found[None, :])[0], height
        return self._scaled(interior[[best]])[0], float(values[best])

    def _scaled(self, U: Array) -> Array:
        """Points of the box from points of the unit cube; 0 and 1 become the bounds exactly."""
        low, high = self.bounds.T
        return np.asarray(np.clip(low * (1.0 - U) + high * U, low, high))


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

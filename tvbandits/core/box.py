"""A product of intervals, searched by sampling, evolution and refinement in vectorised calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.core.arrays import Array, as_points, checked_values, whole_number
from tvbandits.core.box_search import Acquisition, Smooth, climb, search
from tvbandits.core.coercion import shown
from tvbandits.core.context import INSTEAD_OF_WORDS, AtContext, as_measured
from tvbandits.core.parameters import Parameter, Real

# Most points of a box's first sample, and most of its starts.
MOST_SAMPLES = 2**20

# Points of the first sample and starts, where an acquisition knows its slopes.
SCREENED, CLIMBED = 512, 8

# How far off a point may be, relative to the domain's extent along each coordinate.
TOLERANCE = 1e-9


def as_bounds(bounds: ArrayLike) -> Array:
    """Return `bounds` as a float array of shape (d, 2) with low < high in every row.

    Examples
    --------
    >>> from tvbandits.core.box import as_bounds
    >>> print(as_bounds([(0, 10), (-1, 1)]))
    [[ 0. 10.]
     [-1.  1.]]
    """
    intervals = as_points(bounds, 2, name="bounds")
    if len(intervals) == 0:
        raise ValueError("bounds must have at least one row, got shape (0, 2)")
    empty = ~(intervals[:, 0] < intervals[:, 1])
    if empty.any():
        row = int(empty.argmax())
        raise ValueError(f"bounds must have low < high, got {intervals[row].tolist()} in row {row}")
    return intervals


@dataclass(frozen=True, eq=False)
class Box:
    """A product of closed intervals, searched to a tolerance.

    Parameters
    ----------
    bounds : array of shape (d, 2)
        Lowest and highest value of each coordinate. A read-only copy is kept.
    samples : int, optional
        Points of the first sample, rounded up to a power of two; by default 512, 1024, 2048, ...
        for d = 1, 2, 3, ..., at most 16,384; 512 where an acquisition knows its slopes.
    starts : int, optional
        Points that are refined; by default 4 + 4 d, with slopes 8.
    context : mapping of str to intervals, optional
        What is measured before a choice and not chosen, such as `{"outside": (-15, 20)}`: further
        coordinates of a point, the last ones. `bounds` has their rows then, too.

    Raises
    ------
    ValueError
        If `bounds` is not a finite (d, 2) matrix with low < high, or a count is not positive; or the
        context is not made of intervals.

    Notes
    -----
    Without slopes `maximise` takes 20 to 90 calls of the acquisition: about 1,200 points at d = 1, 3,000
    at d = 2, 25,000 to 30,000 at d = 6. Its accuracy is not known beyond d = 6.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits import Box
    >>> box = Box([(0, 10), (-1, 1)])
    >>> print(box.dimension, box.sample(2, np.random.default_rng(0)).shape)
    2 (2, 2)
    """

    bounds: Array
    samples: int | None = None
    starts: int | None = None
    context: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        bounds = as_bounds(self.bounds)
        given = as_measured({} if self.context is None else self.context)
        for name, part in given.items():
            if not isinstance(part, Real):
                raise ValueError(
                    f"{name} must be an interval (low, high); {INSTEAD_OF_WORDS}; got {shown(part)}"
                )
            bounds = np.concatenate([bounds, [[part.low, part.high]]])
        object.__setattr__(self, "context", given)
        bounds.setflags(write=False)
        object.__setattr__(self, "bounds", bounds)
        for name, count in (("samples", self.samples), ("starts", self.starts)):
            if count is not None:
                whole_number(name, count, at_most=MOST_SAMPLES)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.bounds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        counts = (self.samples, self.starts) == (other.samples, other.starts)
        same = counts and tuple(self.context) == tuple(other.context)
        return same and np.array_equal(self.bounds, other.bounds)

    def __hash__(self) -> int:
        counts = self.samples, self.starts, tuple(self.context)
        return hash((tuple(self.bounds.ravel().tolist()), *counts))

    def __reduce__(self) -> tuple[Any, ...]:
        return Box, tuple(self.__saved__().values())

    def __saved__(self) -> dict[str, Any]:
        count = self.dimension - len(self.context)
        own = {"bounds": self.bounds[:count], "samples": self.samples, "starts": self.starts}
        return own | ({"context": self.context} if self.context else {})

    @property
    def measured(self) -> Mapping[str, Parameter]:
        """What the world gives, by name."""
        return dict(self.context)

    @cached_property
    def chosen(self) -> Box:
        """What is chosen, without the context."""
        count = self.dimension - len(self.context)
        return Box(self.bounds[:count], self.samples, self.starts)

    def _at(self, values: Array) -> AtContext:
        """All points at one value (c,) of the context."""
        return AtContext(self, self.chosen, values)

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
        d, (low, high) = self.dimension, self.bounds.T

        def evaluate(U: Array) -> Array:
            X = self._scaled(U)
            return checked_values(acquisition(X), X)

        starts = self.starts or 4 + 4 * d
        if not isinstance(acquisition, Smooth):
            samples = self.samples or min(256 << d, 16_384)
            found, height = search(evaluate, [(0, True)] * d, samples, starts, rng)
            return self._scaled(found[None, :])[0], height

        def sloped(U: Array) -> tuple[Array, Array]:
            values, slopes = acquisition.sloped(self._scaled(U))
            return values, slopes * (high - low)

        near = np.clip((acquisition.near - low) / (high - low), 0.0, 1.0)
        starts, samples = self.starts or CLIMBED, self.samples or SCREENED
        found, height = climb(evaluate, sloped, near, samples, starts, rng)
        return self._scaled(found[None, :])[0], height

    def _scaled(self, U: Array) -> Array:
        """Points of the box from points of the unit cube; 0 and 1 become the bounds exactly."""
        low, high = self.bounds.T
        return np.asarray(np.clip(low * (1.0 - U) + high * U, low, high))

"""A product of intervals, searched by sampling, evolution and refinement in vectorised calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.domains.domain import INSTEAD_OF_WORDS, Acquisition, Domain, as_context_parameters
from tvbandits.domains.parameters import TOLERANCE, Parameter, Real, as_bounds
from tvbandits.domains.sampled import SampledDomain
from tvbandits.domains.search import best_point
from tvbandits.validation import Array, as_points, check_instance, describe, refuse, set_fields


@dataclass(frozen=True, eq=False)
class Box(Domain):
    """A product of closed intervals, searched to a tolerance.

    Parameters
    ----------
    bounds : array of shape (d, 2)
        Lowest and highest value of each coordinate. A read-only copy is kept.
    context : mapping of str to intervals, optional
        What is measured before a choice and not chosen, such as `{"outside": (-15, 20)}`: further
        coordinates of a point, the last ones. `bounds` has their rows then, too.

    Raises
    ------
    ValueError
        If `bounds` is not a finite (d, 2) matrix with low < high, or the context is not made of
        intervals.

    Notes
    -----
    Without slopes `maximize` takes 20 to 90 calls of the acquisition: about 1,200 points at d = 1, 3,000
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
    context: Any = None

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(self, bounds: ArrayLike, context: Any = None) -> None: ...

    def __post_init__(self) -> None:
        bounds = as_bounds(self.bounds)
        context: Mapping[str, Any] = as_context_parameters(self.context)
        for name, part in context.items():
            needs = "an interval (low, high); for another parameter take a Space"
            check_instance(name, part, Real, f"{needs}; {INSTEAD_OF_WORDS}")
            bounds = np.concatenate([bounds, [[part.low, part.high]]])
        bounds.setflags(write=False)
        set_fields(self, bounds=bounds, context=context)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.bounds)

    @property
    def intervals(self) -> Array:
        """The ranges (d, 2) of the coordinates that are chosen, without those of a context."""
        return self.action_domain.bounds

    def __repr__(self) -> str:
        context = ", ".join(f"{name!r}: {part}" for name, part in self.context.items())
        bounds = describe(self.action_domain.bounds.tolist())
        return f"Box({bounds}, context={{{context}}})" if context else f"Box({bounds})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        same = tuple(self.context) == tuple(other.context)
        return same and np.array_equal(self.bounds, other.bounds)

    def __hash__(self) -> int:
        return hash((tuple(self.bounds.ravel().tolist()), tuple(self.context)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Box, tuple(self.__saved__().values())

    def __saved__(self) -> dict[str, Any]:
        return {"bounds": self.action_domain.bounds, "context": self.context}

    @property
    def context_parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the measured context, by name."""
        return dict(self.context)

    @cached_property
    def action_domain(self) -> Box:
        """The box of the coordinates that are chosen, without the context."""
        return Box(self.bounds[: self.dimension - len(self.context)])

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d), moved inside where it is out by less than 1e-9 of an interval.

        `ValueError` names the first point that is outside by more.
        """
        points = as_points(X, self.dimension, name)
        low, high = self.bounds.T
        slack = TOLERANCE * (high - low)
        outside = ((points < low - slack) | (points > high + slack)).any(axis=1)
        if outside.any():
            refuse(outside, points, f"{name} must be inside the box {self.bounds.tolist()}")
        return np.asarray(np.clip(points, low, high))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly, shape (n, d)."""
        return self.from_unit(rng.random((n, self.dimension)))

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition, and that value; `rng` breaks ties.

        A randomly shifted Sobol sample with the corners and a part of it pushed to the boundary,
        then differential evolution of the best of it, then gradient ascent from the best
        well-separated points of both. On a plateau the point is a random one of the sample.
        """
        return best_point(acquisition, self, [(0, True)] * self.dimension, 512, rng)

    def from_unit(self, U: Array) -> Array:
        """Map points of the unit cube to the box; 0 and 1 become the bounds exactly."""
        low, high = self.bounds.T
        return np.asarray(np.clip(low * (1.0 - U) + high * U, low, high))

    def to_unit(self, X: Array) -> Array:
        """Map points of the box to the unit cube."""
        low, high = self.bounds.T
        return np.asarray(np.clip((X - low) / (high - low), 0.0, 1.0))

    def along(self, X: Array, slopes: Array) -> Array:  # noqa: ARG002
        """Convert slopes at points of the box to slopes along the unit cube."""
        return np.asarray(slopes * (self.bounds[:, 1] - self.bounds[:, 0]))

    @property
    def resolution(self) -> Array:
        """A thousandth of the sides, (d,): points that are nearer along all coordinates count as one."""
        return np.asarray(1e-3 * np.ptp(self.bounds, axis=1))

    def near(self, x: Array, distance: float) -> Box:
        """Return the part of the box within a distance of `x` (d,) along each coordinate."""
        around = np.column_stack([x - distance, x + distance])
        return replace(self, bounds=np.clip(around, *self.bounds.T[:, :, None]))

    def by_sample(self, centres: Array) -> SampledDomain:
        """Return the box, searched by a random sample and neighbours of some points (n, d)."""
        return SampledDomain(
            self, self.check(centres, "centres"), np.zeros(self.dimension, dtype=np.int64)
        )

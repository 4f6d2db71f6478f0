"""A domain that is searched by random sampling.

It is for boxes and spaces on which the exact maximum of an upper confidence bound is a bad choice: it
lies on faces and in corners, where the posterior variance is largest. Only few of some thousand random
points lie there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.domains.domain import Acquisition, Domain
from tvbandits.ties import acquisition_argmax, check_acquisition
from tvbandits.validation import Array, Index


@dataclass(frozen=True, repr=False)
class SampledDomain(Domain):
    """A domain whose maximum is that of a random sample.

    Neighbours of some `centres`, those of the largest acquisition, are added to the sample.

    Attributes
    ----------
    whole : Domain
        A domain with the methods of `Cube`.
    centres : array of shape (n, d)
        Points near which there may be narrow maxima.
    count : int
        The number of points in the sample.
    sizes : array of shape (p,)
        The number of values of each coordinate of the unit cube; 0: an interval.
    best, neighbours, spread : int, int, float
        The number of centres with neighbours, the number of neighbours of each, and their standard
        deviation along the sides of the unit cube. Of the coordinates with a few values, one on average
        is drawn again.
    """

    whole: Any
    centres: Array
    sizes: Index
    count: int = 2000
    best: int = 16
    neighbours: int = 4
    spread: float = 0.03

    def __repr__(self) -> str:
        return repr(self.whole)

    @property
    def dimension(self) -> int:
        """Return the number of coordinates of a point, including the context."""
        return int(self.whole.dimension)

    @property
    def resolution(self) -> Array:
        """Return the distance within which points of the whole domain count as equal."""
        return np.asarray(self.whole.resolution)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the whole domain."""
        return np.asarray(self.whole.check(X, name))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` uniform random points (n, d), with replacement."""
        return np.asarray(self.whole.sample(n, rng))

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of the largest acquisition in a sample, and its value."""
        X = self.sample(self.count, rng)
        values = check_acquisition(acquisition(X), X)
        if len(self.centres):
            centre_values = acquisition(self.centres)
            order = np.argsort(-centre_values, kind="stable")[: self.best]
            U = self.whole.to_unit(self.centres[order].repeat(self.neighbours, axis=0))
            U = np.clip(U + self.spread * rng.standard_normal(U.shape), 0.0, 1.0)
            is_discrete = self.sizes > 0
            if is_discrete.any():
                count = np.count_nonzero(is_discrete)
                is_redrawn = is_discrete & (rng.random(U.shape) * count < 1.0)
                U = np.where(is_redrawn, rng.random(U.shape), U)
            neighbours = self.check(self.whole.from_unit(U))
            X = np.concatenate([X, neighbours])
            values = np.append(values, check_acquisition(acquisition(neighbours), neighbours))
            if values.max() == -np.inf:  # only centres are available, as on a thin slab
                X, values = self.centres, centre_values
        row = acquisition_argmax(values, X, rng)
        return X[row], float(values[row])

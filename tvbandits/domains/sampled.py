"""A domain that is searched by drawing points of it.

It is for boxes and spaces on which the exact maximum of an upper bound is a bad choice: it lies on faces
and in corners, where deviations are largest. The same decision among a few thousand random points goes
there as rarely as they lie there.
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
    """Another domain, whose largest acquisition is that of a random sample.

    Neighbours of a few points join the sample: of the `centres`, those of the largest acquisition.

    Attributes
    ----------
    whole : Domain
        With a unit cube, as of `Cube`.
    centres : array of shape (n, d)
        Points about which maxima may be narrow.
    count : int
        Points of the sample.
    sizes : array of shape (p,)
        Number of values of each coordinate of the unit cube; 0: an interval.
    best, neighbours, spread : int, int, float
        So many points are drawn about each of so many of the centres, at this distance along the sides
        of the unit cube. Of the coordinates with a few values, one is drawn anew on average.
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
        """Number of coordinates of a point, those of the context included."""
        return int(self.whole.dimension)

    @property
    def resolution(self) -> Array:
        """Points that are nearer to each other count as one point, as in the whole domain."""
        return np.asarray(self.whole.resolution)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the whole domain."""
        return np.asarray(self.whole.check(X, name))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly, with replacement, shape (n, d)."""
        return np.asarray(self.whole.sample(n, rng))

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of the largest acquisition in a sample, and its value."""
        X = self.sample(self.count, rng)
        values = check_acquisition(acquisition(X), X)
        if len(self.centres):
            at_centres = acquisition(self.centres)
            order = np.argsort(-at_centres, kind="stable")[: self.best]
            U = self.whole.to_unit(self.centres[order].repeat(self.neighbours, axis=0))
            U = np.clip(U + self.spread * rng.standard_normal(U.shape), 0.0, 1.0)
            few = self.sizes > 0
            if few.any():
                anew = few & (rng.random(U.shape) * np.count_nonzero(few) < 1.0)
                U = np.where(anew, rng.random(U.shape), U)
            around = self.check(self.whole.from_unit(U))
            X = np.concatenate([X, around])
            values = np.append(values, check_acquisition(acquisition(around), around))
            if values.max() == -np.inf:  # nothing else may be chosen, as on a thin slab
                X, values = self.centres, at_centres
        row = acquisition_argmax(values, X, rng)
        return X[row], float(values[row])

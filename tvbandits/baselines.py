"""Baselines without a model, with the same ask and tell."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.observations import Array, as_column, as_floats, as_points
from tvbandits.protocols import Domain
from tvbandits.recipe import Info


class Uniform:
    """Plays a point of the domain at random, whatever it is told.

    Parameters
    ----------
    domain : Domain
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.
    """

    def __init__(self, domain: Domain, *, seed: int | np.random.Generator = 0) -> None:
        self._domain = domain
        self._rng = (
            seed.spawn(1)[0]
            if isinstance(seed, np.random.Generator)
            else np.random.default_rng(seed)
        )
        self._told = 0

    @property
    def info(self) -> Info:
        """Only the number of rewards told."""
        return Info(told=self._told)

    def ask(self, t: float | None = None) -> Array:  # noqa: ARG002 - one face for all
        """A uniform point, shape (1, d)."""
        return self._domain.sample(1, self._rng)

    def tell(
        self,
        X: ArrayLike,
        y: ArrayLike,
        t: ArrayLike | None = None,  # noqa: ARG002
        variance: ArrayLike | None = None,  # noqa: ARG002
    ) -> Info:
        """Count the rewards; nothing is learned from them."""
        points = self._domain.check(as_points(X, self._domain.dimension))
        as_column(np.atleast_1d(as_floats(y, "y")), len(points), "y")
        self._told += len(points)
        return self.info

"""The protocol of domains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.validation import Array


class Domain(Protocol):
    """The set of points a bandit may play."""

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the domain; `ValueError` names the first one outside."""

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly, with replacement, shape (n, d)."""

    def maximize(
        self, acquisition: Callable[[Array], Array], rng: np.random.Generator
    ) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition, and that value; `rng` breaks exact ties.

        `acquisition` maps points (m, d) to values (m,).
        """

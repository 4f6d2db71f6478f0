"""Which of the points played a query plan may choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvbandits.observations import Array, Index
from tvbandits.posterior import Data, ExactPosterior, Factored

DETERMINED = 1e-3
"""A point joins a full pool if this share of its prior variance is left once the pool is known."""

NOISE = 1e-6
"""Relative noise with which the pool counts as known."""


@dataclass(frozen=True)
class Members:
    """The pool: rows of the points played, and the posterior of knowing the reward there.

    Attributes
    ----------
    rows : integer array of shape (P,)
    seen : int
        How many of the points played have been looked at.
    known : ExactPosterior or None
        Made when the pool is full for the first time.
    """

    rows: Index
    seen: int
    known: ExactPosterior | None

    @classmethod
    def none(cls) -> Members:
        """An empty pool."""
        return cls(np.empty(0, dtype=np.int64), 0, None)

    def grown(
        self, visited: Array, kernel: Any, inputs: Callable[[Array], Array], size: int | None
    ) -> Members:
        """With those of the new points that belong to the pool.

        Parameters
        ----------
        visited : array of shape (N, d)
            Distinct points played, the new ones last.
        kernel : scikit-learn kernel
        inputs : callable
            Kernel inputs of points at one time.
        size : int, optional
            Up to this many points all of them belong to it.
        """
        rows, known = self.rows.tolist(), self.known
        for row in range(self.seen, len(visited)):
            if size is None or len(rows) < size:
                rows.append(row)
                continue
            if known is None:
                known = _knowing(kernel, inputs(visited[rows]), None)
            z = inputs(visited[row : row + 1])
            left = float(known.predict(z)[1][0])
            if left > DETERMINED * float(kernel.diag(z)[0]):
                rows.append(row)
                known = _knowing(kernel, inputs(visited[rows]), known)
        return Members(np.array(rows, dtype=np.int64), len(visited), known)


def _knowing(kernel: Any, Z: Array, previous: ExactPosterior | None) -> ExactPosterior:
    noise = NOISE * np.asarray(kernel.diag(Z))
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return Factored().condition(kernel, data, previous=previous)

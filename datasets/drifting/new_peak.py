"""A peak that is not there at first, and becomes the higher of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tvbandits.core.arrays import (
    Array,
    as_points,
    as_time,
    noise_variance_number,
    positive_number,
    whole_number,
)
from tvbandits.core.coercion import text
from tvbandits.core.domains import Candidates

OLD, NEW = 10.0, -35.0
"""Where the two peaks are."""


@dataclass(frozen=True)
class NewPeak:
    """Who has found the best point must notice that there is a better one by now.

    f(x, t) = exp(-0.05 (x - 10)^2) + h(t) exp(-0.05 (x + 35)^2)   on [-50, 50],

    where h is 0 until the step `appears` and grows to `height` in the `growth` steps after it.

    Parameters
    ----------
    candidates : int
        Number of evenly spaced candidates.
    horizon : int
    noise_variance : float
    appears : int
        Last step at which there is one peak alone.
    growth : int
        Steps that the new one takes to grow.
    height : float
        Of the new peak; the old one is 1 high.

    Examples
    --------
    >>> from tvbandits.datasets import NewPeak
    >>> problem = NewPeak()
    >>> print(round(problem.best(150), 3), round(problem.best(300), 3))
    1.0 2.0
    """

    candidates: int = 101
    horizon: int = 500
    noise_variance: float = 0.01
    appears: int = 150
    growth: int = 20
    height: float = 2.0
    name: str = "new-peak"
    unit: str = ""

    def __post_init__(self) -> None:
        whole_number("candidates", self.candidates, at_least=1, at_most=1_000_000)
        whole_number("horizon", self.horizon, at_most=10_000_000)
        noise_variance_number("noise_variance", self.noise_variance)
        whole_number("appears", self.appears, at_least=0)
        whole_number("growth", self.growth)
        positive_number("height", self.height)
        text("name", self.name)
        text("unit", self.unit)

    @cached_property
    def domain(self) -> Candidates:
        """A grid on [-50, 50]."""
        return Candidates(np.linspace(-50.0, 50.0, self.candidates)[:, None])

    @property
    def kernel(self) -> Any:
        """RBF with the width of the peaks."""
        return RBF(10.0**0.5)

    @property
    def variation(self) -> float:
        """Mean of max_x abs(f(x, t+1) - f(x, t)) over the horizon."""
        heights = [self._height(t) for t in range(1, self.horizon + 1)]
        return float(np.abs(np.diff(heights)).sum() / max(self.horizon - 1, 1))

    def _height(self, t: float) -> float:
        return self.height * min(max((as_time(t) - self.appears) / self.growth, 0.0), 1.0)

    def value(self, X: Array, t: float) -> Array:
        """Noise-free reward at points (n, 1), shape (n,)."""
        x = as_points(X, 1)[:, 0]
        new = self._height(t) * np.exp(-0.05 * (x - NEW) ** 2)
        return np.asarray(np.exp(-0.05 * (x - OLD) ** 2) + new)

    def best(self, t: float) -> float:
        """Largest reward over the candidates at time `t`."""
        return float(self.value(self.domain.X, t).max())

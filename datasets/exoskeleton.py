"""Costs whose best setting wanders, as of tuning a device: the formulas of dbo-torch and of Xopt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import Matern

from tvbandits.core.arrays import LARGEST_WHOLE, Array, as_points
from tvbandits.core.protocols import NamedProblem
from tvbandits.datasets.tables.problem import OnInterval


@dataclass(frozen=True)
class Exoskeleton(OnInterval):
    """The formula benchmark of dbo-torch: the best torque goes from 5 to 0 in `horizon` steps.

    The method that dbo-torch (0.2, M. Colley 2026) holds is that of Kim and Sergi, Dynamic Bayesian
    optimization for non-stationary systems, doi 10.1080/10255842.2025.2595150.

    f(x, t) = -|x - 5 (1 - (t - 1) / (horizon - 1))| on [-5, 9], the negative of its cost, which is read
    with noise of deviation 0.35.

    Parameters
    ----------
    candidates : int
        Number of evenly spaced candidates; 0 for the whole interval as a `Box`.
    horizon : int
    noise_variance : float

    Examples
    --------
    >>> from tvbandits.datasets import Exoskeleton
    >>> problem = Exoskeleton()
    >>> print(problem.horizon, len(problem.domain))
    80 281
    """

    candidates: int = 281
    horizon: int = 80
    noise_variance: float = 0.1225
    name: str = "exoskeleton"
    ends = (-5.0, 9.0)
    ranges: ClassVar = {**OnInterval.ranges, "horizon": (2, LARGEST_WHOLE)}
    kernel = Matern(3.0, nu=1.5)  # continuous, with room for a kink

    @property
    def variation(self) -> float:
        """5 / (horizon - 1): far from its best setting, the cost changes by what that moves."""
        return 5.0 / (self.horizon - 1)

    def _target(self, t: float) -> float:
        self.check_known(t)
        return 5.0 * (1.0 - (t - 1.0) / (self.horizon - 1))

    def value(self, X: Array, t: float) -> Array:
        """Noise-free reward at points (n, 1), shape (n,)."""
        return -np.abs(np.asarray(X, dtype=np.float64)[:, 0] - self._target(t))

    def best_of_all(self, t: float) -> float:
        """None: the cost at its best setting."""
        self.check_known(t)
        return 0.0


@dataclass(frozen=True)
class TimedParabola(OnInterval):
    """The time-dependent example of Xopt: a parabola whose lowest point swings, then wanders off.

    f(x, t) = -(x - k(t))^2 on [-1, 1], the negative of its cost. Step s is at t = s / 10 seconds;
    k(t) = 0.25 sin(0.6 t) + 0.001 t before 50 seconds, and -0.015 (t - 50) from then on. It is read
    exactly there; here a noise of deviation 0.01 stands for what every machine adds.

    Parameters
    ----------
    candidates : int
        Number of evenly spaced candidates; 0 for the whole interval as a `Box`.
    horizon : int
    noise_variance : float

    Examples
    --------
    >>> from tvbandits.datasets import TimedParabola
    >>> problem = TimedParabola()
    >>> print(problem.horizon, problem.domain.X[problem.value(problem.domain.X, 26).argmax()])
    250 [0.25]
    """

    candidates: int = 201
    horizon: int = 250
    noise_variance: float = 1e-4
    name: str = "xopt-drift"
    ends = (-1.0, 1.0)
    # Its variation is looked at step by step.
    ranges: ClassVar = {**OnInterval.ranges, "horizon": (1, 1_000_000)}

    def lowest(self, t: float) -> float:
        """Where the parabola is lowest at step `t`."""
        self.check_known(t)
        now = t / 10
        return float(0.25 * np.sin(0.6 * now) + 0.001 * now if now < 50 else -0.015 * (now - 50))

    @cached_property
    def variation(self) -> float:
        """Mean of max_x abs(f(x, t+1) - f(x, t)): at x = 1 or x = -1, |dk| (2 + |k + k'|)."""
        k = np.array([self.lowest(step) for step in range(1, self.horizon + 1)])
        changes = np.abs(np.diff(k)) * (2 + np.abs(k[1:] + k[:-1]))
        return float(changes.mean()) if len(changes) else 0.0

    def value(self, X: Array, t: float) -> Array:
        """Noise-free reward at points (n, 1), shape (n,)."""
        return np.asarray(-((as_points(X, 1)[:, 0] - self.lowest(t)) ** 2))

    def best_of_all(self, t: float) -> float:
        """Largest reward over the interval at time `t`."""
        return float(-(max(abs(self.lowest(t)) - 1.0, 0.0) ** 2))


PROBLEMS = (
    NamedProblem("exoskeleton", Exoskeleton, "a cost with a kink whose best setting wanders"),
    NamedProblem(
        "xopt-drift", TimedParabola, "Xopt's time-dependent example: a parabola that swings"
    ),
)

"""Synthetic rewards with a known drift: a bump, Gaussian-process drift, abrupt switches, two costs.

The bump is the experiment of SparQ-GP-UCB. The costs, whose optimum wanders as that of a device that is
being tuned, are the formulas of dbo-torch and of Xopt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern

from tvbandits.datasets.base import (
    IntervalProblem,
    PathProblem,
    draw_paths,
    make_autoregressive,
    mean_change,
)
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import (
    LARGEST_WHOLE,
    Array,
    as_points,
    as_time,
    check_choice,
    finite_number,
    positive_number,
)


@dataclass(frozen=True)
class DriftingBump(IntervalProblem):
    """A bump that swings to and fro: the synthetic experiment of SparQ-GP-UCB, section 4.1.

    f(x, t) = exp(-0.05 (x - a sin(w t))^2) + 0.5 cos(0.2 x) + 1.5   on [-50, 50],

    with a = 5 and w = 0.1 in the paper.

    Parameters
    ----------
    candidates : int
        Number of evenly spaced candidates; 0 for the whole interval as a `Box`.
    horizon : int
    noise_variance : float
    amplitude : float
        a: how far the bump swings from the middle, at most 50.
    speed : float
        w: angular frequency, radians per step.

    Examples
    --------
    >>> from tvbandits.datasets import DriftingBump
    >>> problem = DriftingBump(candidates=101)
    >>> place = problem.domain.X[problem.value(problem.domain.X, 50).argmax()]
    >>> print(problem.horizon, problem.best(50) == problem.value([place], 50)[0])
    500 True
    """

    candidates: int = 1001
    horizon: int = 500
    noise_variance: float = 0.01
    name: str = "drifting-bump"
    amplitude: float = 5.0
    speed: float = 0.1
    ends = (-50.0, 50.0)
    kernel = RBF(3.5)  # near the length scale that maximizes the evidence of a uniform sample

    def __post_init__(self) -> None:
        super().__post_init__()
        finite_number("amplitude", self.amplitude, low=0.0, high=50.0)
        finite_number("speed", self.speed, low=0.0, high=math.pi)

    @cached_property
    def variation(self) -> float:
        """Return the mean of max_x abs(f(x, t+1) - f(x, t)) over the horizon, on a fine grid."""
        X = np.linspace(-50.0, 50.0, 2001)[:, None]
        values = (self.value(X, step) for step in range(1, self.horizon + 1))
        return mean_change(values, self.horizon)

    @property
    def rkhs_variation(self) -> float:
        """Return the mean RKHS norm of f(., t+1) - f(., t) over the horizon: eq. 20 of SparQ-GP-UCB.

        The bump exp(-0.05 (x - c)^2) is Gaussian with variance 10. In the RKHS of exp(-d^2 / (2 l^2)) on
        the real line, two such bumps with centres c and c' have the inner product

            10 / (l sqrt(2 s)) exp(-(c - c')^2 / (4 s)),    s = 10 - l^2 / 2,

        by Fourier transforms. The norm in the RKHS of the interval is at most that of the real line.
        """
        variance, length = 10.0, float(self.kernel.length_scale)
        s = variance - length**2 / 2
        centres = self.amplitude * np.sin(self.speed * np.arange(1.0, self.horizon + 1))
        # |f - g|^2 = 2 (<f, f> - <f, g>).
        squares = (
            -2
            * variance
            / (length * math.sqrt(2 * s))
            * np.expm1(-(np.diff(centres) ** 2) / (4 * s))
        )
        return float(np.sqrt(squares).sum() / max(self.horizon - 1, 1))

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, 1), shape (n,)."""
        x = as_points(X, 1)[:, 0]
        bump = np.exp(-0.05 * (x - self.amplitude * np.sin(self.speed * as_time(t))) ** 2)
        return np.asarray(bump + 0.5 * np.cos(0.2 * x) + 1.5)

    def largest_reward(self, t: float) -> float:
        """Return the largest reward over the interval at time `t`."""
        # With an amplitude of at most 5, as in the paper, both terms peak within [-5, 5]; otherwise the
        # grid covers the whole interval. Its spacing of 1e-3 leaves an error below 1e-7.
        reach = 6.0 if self.amplitude <= 5.0 else 50.0
        grid = np.linspace(-reach, reach, int(2000 * reach) + 1)
        return float(self.value(grid[:, None], t).max())


@dataclass(frozen=True)
class GPDrift(PathProblem):
    """A sample path of the model of TV-GP-UCB (Bogunovic 2016) at whole steps.

    f_1 = g_1 and f_{t+1} = sqrt(1 - epsilon) f_t + sqrt(epsilon) g_{t+1}, with g_1, g_2, ...
    independent draws of GP(0, k) on a grid of the unit square. `smoothness` selects k: "rbf", or
    "matern52" for a Matern kernel with nu = 5/2.

    Examples
    --------
    >>> from tvbandits.datasets import GPDrift
    >>> problem = GPDrift(epsilon=0.03, points_per_axis=5, horizon=20)
    >>> print(len(problem.domain), problem.realise(1).seed)
    25 1
    """

    epsilon: float = 0.01
    points_per_axis: int = 15
    length_scale: float = 0.2
    horizon: int = 500
    noise_variance: float = 0.01
    name: str = "gp-drift"
    smoothness: Literal["rbf", "matern52"] = "rbf"
    ranges: ClassVar = {"horizon": (1, 10_000_000), "points_per_axis": (1, 100)}

    def __post_init__(self) -> None:
        super().__post_init__()
        finite_number("epsilon", self.epsilon, low=0.0, high=1.0)
        self._check_size(self.horizon * self.points_per_axis**2, self.largest_path)
        positive_number("length_scale", self.length_scale)
        check_choice("smoothness", self.smoothness, ("rbf", "matern52"))

    @cached_property
    def domain(self) -> Candidates:
        """Return the grid on the unit square."""
        return Candidates.grid([(0.0, 1.0), (0.0, 1.0)], self.points_per_axis)

    @property
    def kernel(self) -> Any:
        """Return the kernel k over points."""
        if self.smoothness == "matern52":
            return Matern(self.length_scale, nu=2.5)
        return RBF(self.length_scale)

    @cached_property
    def path(self) -> Array:
        """Return the rewards of all steps and candidates, shape (horizon, A)."""
        draws = draw_paths(self.kernel(self.domain.X), self.horizon, self.make_rng(0x6D))
        return make_autoregressive(draws, (1 - self.epsilon) ** 0.5, self.epsilon**0.5)


@dataclass(frozen=True)
class Switching(PathProblem):
    """A reward that switches abruptly to a new draw of a Gaussian process after every `every` steps.

    The draws are from GP(0, RBF) on a grid of [0, 1]; the reward is constant between switches.

    Examples
    --------
    >>> from tvbandits.datasets import Switching
    >>> problem = Switching(every=10, candidates=51, horizon=30)
    >>> print(problem.best(1) == problem.best(10), problem.best(10) == problem.best(11))
    True False
    """

    every: int = 100
    candidates: int = 201
    length_scale: float = 0.08
    horizon: int = 500
    noise_variance: float = 0.01
    name: str = "switching"
    ranges: ClassVar = {"horizon": (1, 10_000_000), "candidates": (1, 10_000)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size(-(-self.horizon // self.every) * self.candidates, self.largest_path)
        positive_number("length_scale", self.length_scale)

    @cached_property
    def domain(self) -> Candidates:
        """Return the grid on [0, 1]."""
        return Candidates(np.linspace(0.0, 1.0, self.candidates)[:, None])

    @property
    def kernel(self) -> Any:
        """Return the kernel of the draws."""
        return RBF(self.length_scale)

    @cached_property
    def path(self) -> Array:
        """Return the rewards of each piece between switches, shape (pieces, A)."""
        pieces = -(-self.horizon // self.every)
        return draw_paths(self.kernel(self.domain.X), pieces, self.make_rng(0x53))

    def row_at(self, t: float) -> int:
        """Return the index of the piece at time `t`."""
        return self.piece_at(t, self.every)


def bogunovic(
    epsilon: float = 0.01,
    smoothness: Literal["rbf", "matern52"] = "rbf",
    horizon: int = 200,
    seed: int = 0,
) -> GPDrift:
    """Return the synthetic problem of Bogunovic (2016): 50 x 50 points, length scale 0.2.

    The noise variance is 0.01.

    Parameters
    ----------
    epsilon : float
        Forgetting rate; the paper has 0.001, 0.01 and 0.03.
    smoothness : "rbf" or "matern52"
    horizon : int
    seed : int
    """
    return GPDrift(epsilon, 50, 0.2, horizon, 0.01, "bogunovic", smoothness, seed=seed)


def mandl(epsilon: float = 0.01, horizon: int = 10_000, seed: int = 0) -> GPDrift:
    """Return the problem of Mandl and Kekkonen (2026): 20 x 20 points, length scale 0.1.

    The noise variance is 0.01.

    Parameters
    ----------
    epsilon : float
        Forgetting rate; the paper has 0.1, 0.01 and 0.001.
    horizon : int
    seed : int
    """
    return GPDrift(epsilon, 20, 0.1, horizon, 0.01, "mandl", seed=seed)


@dataclass(frozen=True)
class Exoskeleton(IntervalProblem):
    """The analytic benchmark of dbo-torch, whose best torque falls from 5 to 0 within `horizon` steps.

    The method of dbo-torch (0.2, M. Colley 2026) is that of Kim and Sergi, Dynamic Bayesian
    optimization for non-stationary systems, doi 10.1080/10255842.2025.2595150.

    f(x, t) = -|x - 5 (1 - (t - 1) / (horizon - 1))| on [-5, 9], the negative of its cost. The standard
    deviation of the noise is 0.35.

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
    ranges: ClassVar = {**IntervalProblem.ranges, "horizon": (2, LARGEST_WHOLE)}
    kernel = Matern(3.0, nu=1.5)  # an RBF kernel would be too smooth for the kink

    @property
    def variation(self) -> float:
        """Return 5 / (horizon - 1): the slope of the cost is 1, so it changes as the optimum moves."""
        return 5.0 / (self.horizon - 1)

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, 1), shape (n,)."""
        self.check_time(t)
        target = 5.0 * (1.0 - (t - 1.0) / (self.horizon - 1))
        return -np.abs(np.asarray(X, dtype=np.float64)[:, 0] - target)

    def largest_reward(self, t: float) -> float:
        """Return 0: the best setting costs nothing."""
        self.check_time(t)
        return 0.0


@dataclass(frozen=True)
class TimedParabola(IntervalProblem):
    """The time-dependent example of Xopt: a parabola whose optimum swings, then moves away linearly.

    f(x, t) = -(x - k(t))^2 on [-1, 1], the negative of its cost. Step s is at t = s / 10 seconds;
    k(t) = 0.25 sin(0.6 t) + 0.001 t before 50 seconds, and -0.015 (t - 50) from then on. Xopt's example
    has no noise; here its standard deviation is 0.01, as a real machine would add.

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
    # The variation is computed in a loop over steps, so the horizon is limited.
    ranges: ClassVar = {**IntervalProblem.ranges, "horizon": (1, 1_000_000)}

    def optimum_at(self, t: float) -> float:
        """Return k at step `t`, where the cost is zero."""
        self.check_time(t)
        seconds = t / 10
        if seconds < 50:
            return float(0.25 * np.sin(0.6 * seconds) + 0.001 * seconds)
        return float(-0.015 * (seconds - 50))

    @cached_property
    def variation(self) -> float:
        """Return the mean of max_x abs(f(x, t+1) - f(x, t)).

        The change is largest at x = 1 or x = -1, where it is |k - k'| (2 + |k + k'|).
        """
        k = np.array([self.optimum_at(step) for step in range(1, self.horizon + 1)])
        changes = np.abs(np.diff(k)) * (2 + np.abs(k[1:] + k[:-1]))
        return float(changes.mean()) if len(changes) else 0.0

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, 1), shape (n,)."""
        return np.asarray(-((as_points(X, 1)[:, 0] - self.optimum_at(t)) ** 2))

    def largest_reward(self, t: float) -> float:
        """Return the largest reward over the interval at time `t`."""
        return float(-(max(abs(self.optimum_at(t)) - 1.0, 0.0) ** 2))


PROBLEMS = (
    NamedProblem(
        "drifting-bump", DriftingBump, "the synthetic experiment of SparQ-GP-UCB on [-50, 50]"
    ),
    NamedProblem("gp-drift", GPDrift, "sample paths of the TV-GP-UCB model on the unit square"),
    NamedProblem("switching", Switching, "a new draw of a Gaussian process at fixed intervals"),
    NamedProblem(
        "bogunovic", bogunovic, "paths of the TV-GP-UCB model on 50 x 50 points, as in its paper"
    ),
    NamedProblem(
        "mandl", mandl, "paths of the TV-GP-UCB model on 20 x 20 points, short length scale"
    ),
    NamedProblem("exoskeleton", Exoskeleton, "a cost with a kink whose best setting wanders"),
    NamedProblem(
        "xopt-drift", TimedParabola, "Xopt's time-dependent example: a parabola that swings"
    ),
)

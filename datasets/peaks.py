"""Landscapes of peaks on a box, all of which move at every change, and a peak that appears late.

Both moving-peaks benchmarks are implemented from their descriptions, without code of their authors.
Every peak is highest at its centre, so the largest reward is exactly the height of the highest peak.

References
----------
J. Branke. Memory enhanced evolutionary algorithms for changing optimization problems. CEC 1999.
    (the moving peaks benchmark, scenario 2)
D. Yazdani et al. Generalized moving peaks benchmark. arXiv 2106.06174, 2021.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tvbandits.datasets.base import IntervalProblem, RandomProblem
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.box import Box
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import LARGEST_WHOLE, Array, as_points, as_time, nonnegative_number


def reflect(values: Array, low: float, high: float) -> Array:
    """Return values reflected at both ends of [low, high], as often as it takes to be inside."""
    width = high - low
    within = np.mod(values - low, 2 * width)
    return np.asarray(low + np.where(within > width, 2 * width - within, within))


def random_walk(
    start: Array, changes: int, step: float, interval: tuple[float, float], rng: np.random.Generator
) -> Array:
    """Return a Gaussian random walk, reflected into an interval, shape (changes, *start.shape)."""
    path = np.empty((changes, *start.shape))
    path[0] = start
    for k in range(1, changes):
        path[k] = reflect(path[k - 1] + step * rng.standard_normal(start.shape), *interval)
    return path


def _draw_directions(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return uniformly distributed directions, one unit vector per row."""
    normal = rng.standard_normal(shape)
    return np.asarray(normal / np.sqrt((normal**2).sum(axis=1, keepdims=True)))


@dataclass(frozen=True)
class Peaks(RandomProblem, ABC):
    """A landscape of peaks on a box, all of which move after every `every` steps."""

    every: int = 25
    dimension: int = 5
    peaks: int = 10
    shift: float = 1.5
    horizon: int = 500
    noise_variance: float = 1.0
    name: str = ""
    ends: ClassVar[tuple[float, float]]
    ranges: ClassVar = {"dimension": (1, 100)}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size(self.changes * self.peaks * self.dimension**2, 10_000_000)
        nonnegative_number("shift", self.shift)

    @cached_property
    def domain(self) -> Box:
        """Return the box, with the same interval in every coordinate."""
        return Box(np.array([self.ends] * self.dimension))

    @property
    def changes(self) -> int:
        """Return the number of landscapes, the first one included."""
        return -(-self.horizon // self.every)

    @property
    @abstractmethod
    def landscapes(self) -> Mapping[str, Array]:
        """Return the parameters of all landscapes, by name.

        "centres" (c, m, d) and "heights" (c, m) of m peaks in c landscapes, and what `depth_below_top`
        needs.
        """

    @abstractmethod
    def depth_below_top(self, offsets: Array, landscape: Mapping[str, Array]) -> Array:
        """Return height minus value of each peak, shape (n, m), at offsets (n, m, d) from its centre."""

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, d), shape (n,)."""
        row = self.piece_at(t, self.every)
        landscape = {name: parameter[row] for name, parameter in self.landscapes.items()}
        depths = self.depth_below_top(np.asarray(X)[:, None] - landscape["centres"], landscape)
        return np.asarray((landscape["heights"] - depths).max(axis=1))

    def best(self, t: float) -> float:
        """Return the largest reward over the box at time `t`."""
        return float(self.landscapes["heights"][self.piece_at(t, self.every)].max())


@dataclass(frozen=True)
class MovingPeaks(Peaks):
    """The moving peaks benchmark (Branke 1999), scenario 2, with few steps between changes.

    f(x) = max_i h_i - w_i |x - p_i| on [0, 100]^d. At a change p += v with
    v = shift * unit(shift r + v_before), r a uniform direction, h += 7 N(0, 1), w += N(0, 1);
    all of them are reflected at their bounds, h at 30 and 70, w at 1 and 12. The original has 5000
    evaluations between changes, this version `every` steps.

    Parameters
    ----------
    every : int
        Steps between changes.
    dimension, peaks : int
    shift : float
        Distance that a peak moves at a change.
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import MovingPeaks
    >>> problem = MovingPeaks(every=10, dimension=2, peaks=3, horizon=30)
    >>> print(problem.domain.dimension, problem.best(5) == problem.best(6))
    2 True
    """

    name: str = "moving-peaks"
    ends = (0.0, 100.0)

    @cached_property
    def landscapes(self) -> Mapping[str, Array]:
        """Return centres (c, m, d), heights (c, m) and widths (c, m) of c landscapes."""
        rng = self.make_rng(0x9B)
        changes, m, d = self.changes, self.peaks, self.dimension
        centres = np.empty((changes, m, d))
        centres[0] = 100 * rng.random((m, d))
        velocity = self.shift * _draw_directions((m, d), rng)
        heights = random_walk(rng.uniform(30, 70, m), changes, 7.0, (30, 70), rng)
        widths = random_walk(rng.uniform(1.0, 12.0, m), changes, 1.0, (1.0, 12.0), rng)
        for k in range(1, changes):
            mix = 0.5 * _draw_directions((m, d), rng) * self.shift + 0.5 * velocity
            length = np.sqrt((mix**2).sum(axis=1, keepdims=True))
            velocity = self.shift * mix / np.where(length > 0, length, 1.0)
            places = centres[k - 1] + velocity
            # A peak that is reflected at a wall also reverses its velocity there.
            velocity = np.where((places < 0) | (places > 100), -velocity, velocity)
            centres[k] = reflect(places, 0.0, 100.0)
        return {"centres": centres, "heights": heights, "widths": widths}

    def depth_below_top(self, offsets: Array, landscape: Mapping[str, Array]) -> Array:
        """Return width times distance from the centre, shape (n, m): the peaks are cones."""
        return np.asarray(landscape["widths"] * np.sqrt((offsets**2).sum(axis=2)))


@dataclass(frozen=True)
class GeneralisedMovingPeaks(Peaks):
    """The generalised moving peaks benchmark (arXiv 2106.06174) of rotated, irregular, asymmetric peaks.

    f(x) = max_i h_i - sqrt(y^T W_i y) with y = T_i(R_i (x - c_i)) on [-50, 50]^d, W_i diagonal, and
    T(y) = sign(y) exp(log|y| + tau (sin(eta_a log|y|) + sin(eta_b log|y|))), with one pair of eta for
    positive numbers and another for negative ones. At a change the centres move by `shift` in a uniform
    direction. These parameters make a step of a random walk that is reflected at their bounds (bounds,
    standard deviation of a step): h (30 to 70, 7), w (1 to 12, 1), an angle (-pi to pi, pi/9), tau (0 to
    0.4, 0.05) and eta (10 to 25, 2). R is rotated by the angle in every plane of two coordinates.

    Parameters
    ----------
    every : int
        Steps between changes.
    dimension, peaks : int
    shift : float
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import GeneralisedMovingPeaks
    >>> problem = GeneralisedMovingPeaks(every=10, dimension=2, peaks=3, horizon=30)
    >>> print(problem.best(1) == problem.best(10), problem.best(10) == problem.best(11))
    True False
    """

    shift: float = 1.0
    name: str = "gmpb"
    ends = (-50.0, 50.0)

    @cached_property
    def landscapes(self) -> Mapping[str, Array]:
        """Return the parameters of c landscapes of m peaks, by name, shapes (c, m, ...)."""
        rng = self.make_rng(0x6B)
        changes, m, d = self.changes, self.peaks, self.dimension
        angle = random_walk(rng.uniform(-np.pi, np.pi, m), changes, np.pi / 9, (-np.pi, np.pi), rng)
        centres = np.empty((changes, m, d))
        rotations = np.empty((changes, m, d, d))
        centres[0], rotations[0] = rng.uniform(-50, 50, (m, d)), np.eye(d)
        for k in range(changes):
            if k:
                places = centres[k - 1] + self.shift * _draw_directions((m, d), rng)
                centres[k], rotations[k] = reflect(places, -50.0, 50.0), rotations[k - 1]
            for rotation, peak_angle in zip(rotations[k], angle[k], strict=True):
                _rotate(rotation, float(peak_angle))
        return {
            "centres": centres,
            "rotations": rotations,
            "heights": random_walk(rng.uniform(30, 70, m), changes, 7.0, (30, 70), rng),
            "widths": random_walk(rng.uniform(1, 12, (m, d)), changes, 1.0, (1, 12), rng),
            "tau": random_walk(rng.uniform(0, 0.4, m), changes, 0.05, (0, 0.4), rng),
            "eta": random_walk(rng.uniform(10, 25, (m, 4)), changes, 2.0, (10, 25), rng),
        }

    def depth_below_top(self, offsets: Array, landscape: Mapping[str, Array]) -> Array:
        """Return sqrt(y^T W y), shape (n, m), with y = T(R (x - c)) the distorted, rotated offset."""
        rotated = np.einsum("mij,nmj->nmi", landscape["rotations"], offsets)
        Y = _distort(rotated, landscape["tau"][:, None], landscape["eta"])
        return np.asarray(np.sqrt((landscape["widths"] * Y**2).sum(axis=2)))


def _rotate(matrix: Array, angle: float) -> None:
    """Rotate a matrix (d, d) in place, in every plane of two coordinates, one after the other."""
    c, s = np.cos(angle), np.sin(angle)
    for p, q in itertools.combinations(range(len(matrix)), 2):
        matrix[p], matrix[q] = c * matrix[p] - s * matrix[q], s * matrix[p] + c * matrix[q]


def _distort(Y: Array, tau: Array, eta: Array) -> Array:
    """Return T(y) of numbers (n, m, d), which have the same sign; T(0) = 0."""
    size = np.log(np.where(Y == 0, 1.0, np.abs(Y)))
    first, second = (
        np.where(Y > 0, eta[:, i, None] * size, eta[:, i + 2, None] * size) for i in (0, 1)
    )
    return np.asarray(np.sign(Y) * np.exp(size + tau * (np.sin(first) + np.sin(second))))


@dataclass(frozen=True)
class NewPeak(IntervalProblem):
    """A peak that is constant, and a second one that appears later and becomes twice as high.

    f(x, t) = exp(-0.05 (x - 10)^2) + h(t) exp(-0.05 (x + 35)^2)   on [-50, 50],

    where h is 0 until step `appears` and grows linearly to 2 within the 20 steps after it.

    Parameters
    ----------
    candidates : int
        Number of evenly spaced candidates; 0 for the whole interval as a `Box`.
    horizon : int
    noise_variance : float
    appears : int
        Last step with only one peak.

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
    name: str = "new-peak"
    ends = (-50.0, 50.0)
    ranges: ClassVar = {**IntervalProblem.ranges, "appears": (0, LARGEST_WHOLE)}
    kernel = RBF(10.0**0.5)  # its length scale is the width of the peaks

    @property
    def variation(self) -> float:
        """Return the mean of max_x abs(f(x, t+1) - f(x, t)) over the horizon."""
        heights = [self._height(t) for t in range(1, self.horizon + 1)]
        return float(np.abs(np.diff(heights)).sum() / max(self.horizon - 1, 1))

    def _height(self, t: float) -> float:
        """Return the height of the new peak at time `t`."""
        return 2.0 * min(max((as_time(t) - self.appears) / 20, 0.0), 1.0)

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, 1), shape (n,)."""
        x = as_points(X, 1)[:, 0]
        new = self._height(t) * np.exp(-0.05 * (x + 35.0) ** 2)
        return np.asarray(np.exp(-0.05 * (x - 10.0) ** 2) + new)

    def largest_reward(self, t: float) -> float:
        """Return the height of the higher peak at time `t`, since the peaks do not overlap."""
        return max(1.0, self._height(t))


PROBLEMS = (
    NamedProblem("new-peak", NewPeak, "a peak that appears while another one is played"),
    NamedProblem(
        "moving-peaks", MovingPeaks, "peaks on a box that move at fixed intervals (Branke 1999)"
    ),
    NamedProblem(
        "gmpb", GeneralisedMovingPeaks, "rotated, irregular peaks that move (arXiv 2106.06174)"
    ),
)

"""Problems on boxes of several dimensions: test functions whose last coordinate is time.

The functions are test functions of global optimisation, to be minimized (Surjanovic and Bingham, Virtual
library of simulation experiments, 2013; docs/references.md). They map points (n, d) to values (n,).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from tvbandits.datasets.base import Synthetic, mean_change
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import Array, check_choice, positive_number

Formula = Callable[[Array], Array]


class Function(NamedTuple):
    """A function to be minimized on a cube.

    `formula` maps points (n, dimension) to values (n,), and every coordinate is within `bounds`.
    `starts` are points (m, dimension - 1). For any last coordinate, a descent from one of the starts
    with the lowest values ends at the minimum over the other coordinates.
    """

    formula: Formula
    bounds: tuple[float, float]
    starts: Array
    dimension: int


# --- functions of any dimension ----------------------------------------------------------------------


def ackley(Z: Array) -> Array:
    """Return -20 exp(-0.2 sqrt(mean z^2)) - exp(mean cos 2 pi z) + 20 + e."""
    root = np.sqrt((Z**2).mean(axis=1))
    waves = np.cos(2 * np.pi * Z).mean(axis=1)
    return np.asarray(20 + math.e - 20 * np.exp(-0.2 * root) - np.exp(waves))


def griewank(Z: Array) -> Array:
    """Return sum z^2 / 4000 - prod cos(z_i / sqrt i) + 1."""
    roots = np.sqrt(np.arange(1.0, Z.shape[1] + 1))
    return np.asarray((Z**2).sum(axis=1) / 4000 - np.cos(Z / roots).prod(axis=1) + 1)


def schwefel(Z: Array) -> Array:
    """Return 418.9829 d - sum z sin sqrt abs z."""
    return np.asarray(418.9828872724339 * Z.shape[1] - (Z * np.sin(np.sqrt(np.abs(Z)))).sum(axis=1))


# --- functions of a fixed dimension ------------------------------------------------------------------


def eggholder(Z: Array) -> Array:
    """Return -(y + 47) sin sqrt abs(x/2 + y + 47) - x sin sqrt abs(x - y - 47)."""
    x, y = Z.T
    return np.asarray(
        -(y + 47) * np.sin(np.sqrt(np.abs(x / 2 + y + 47)))
        - x * np.sin(np.sqrt(np.abs(x - y - 47)))
    )


def powell(Z: Array) -> Array:
    """Return (a + 10 b)^2 + 5 (c - d)^2 + (b - 2 c)^4 + 10 (a - d)^4, which is convex."""
    a, b, c, d = Z.T
    return np.asarray((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


SHEKEL_CENTRES = np.tile(
    [[4.0, 4], [1, 1], [8, 8], [6, 6], [3, 7], [2, 9], [5, 3], [8, 1], [6, 2], [7, 3.6]], 2
)
SHEKEL_WIDTHS = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10


def shekel(Z: Array) -> Array:
    """Return the sum of ten dips -1 / (|z - centre|^2 + width)."""
    squares = ((Z[:, None] - SHEKEL_CENTRES) ** 2).sum(axis=2)
    return np.asarray(-(1 / (squares + SHEKEL_WIDTHS)).sum(axis=1))


HARTMANN_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN3_A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
HARTMANN3_P = 1e-4 * np.array(
    [[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
)
HARTMANN6_A = np.array(
    [
        [10.0, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
HARTMANN6_P = 1e-4 * np.array(
    [
        [1312.0, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _make_hartmann(A: Array, P: Array) -> Formula:
    """Return the sum of four dips -height exp(-sum of a (z - p)^2) as a function of points."""

    def formula(Z: Array) -> Array:
        exponents = (A * (Z[:, None] - P) ** 2).sum(axis=2)
        return np.asarray(-(np.exp(-exponents) @ HARTMANN_HEIGHTS))

    return formula


def _starts_at_dips(centres: Array) -> Array:
    """Return the centres of dips and the midpoints of all pairs, without the last coordinate."""
    midpoints = [(a + b) / 2 for a, b in itertools.combinations(centres, 2)]
    return np.vstack([centres, midpoints])[:, :-1]


def _starts_of_griewank(dimension: int) -> Array:
    """Return 0, and the points half a wave from it along each coordinate.

    The minimum is near one of the latter where the cosine of the last coordinate is negative.
    """
    waves = np.diag(np.pi * np.sqrt(np.arange(1.0, dimension + 1)))
    return np.vstack([np.zeros(dimension), waves, -waves])


FUNCTIONS: Mapping[str, Function] = {
    "ackley4": Function(ackley, (-32.0, 32.0), np.zeros((1, 3)), 4),
    "eggholder": Function(eggholder, (-512.0, 512.0), np.linspace(-512, 512, 4001)[:, None], 2),
    "griewank6": Function(griewank, (-600.0, 600.0), _starts_of_griewank(5), 6),
    "hartmann3": Function(
        _make_hartmann(HARTMANN3_A, HARTMANN3_P), (0.0, 1.0), _starts_at_dips(HARTMANN3_P), 3
    ),
    "hartmann6": Function(
        _make_hartmann(HARTMANN6_A, HARTMANN6_P), (0.0, 1.0), _starts_at_dips(HARTMANN6_P), 6
    ),
    "powell4": Function(powell, (-4.0, 5.0), np.zeros((1, 3)), 4),
    "schwefel4": Function(schwefel, (-500.0, 500.0), np.full((1, 3), 420.968746), 4),
    "shekel4": Function(shekel, (0.0, 10.0), _starts_at_dips(SHEKEL_CENTRES), 4),
}


@dataclass(frozen=True)
class Lifted(Synthetic):
    """The negative of a test function f(z) of d coordinates, the last of which is time.

    The reward at a point x (d - 1,) of the cube, at step t = 1, ..., horizon, is -f(x, z), where z goes
    evenly from the lower to the upper bound: the protocol of W-DBO (Bardou, Thiran and Ranieri 2024)
    and BOBA (Kelly et al. 2026), with steps instead of seconds. The optima of Ackley's and Schwefel's
    functions do not move.

    Parameters
    ----------
    function : str
        A name in `tvbandits.datasets.lifted.FUNCTIONS`, such as "ackley4".
    horizon : int
    noise_share : float
        Noise variance as a fraction of the variance of f over the cube and time.
    candidates : int
        Number of points of a scrambled Sobol sequence that are the domain instead of the cube, for
        policies that need a finite domain; 0: the cube.

    Raises
    ------
    ValueError
        If there is no function of that name, or a number is out of range.

    Notes
    -----
    On the cube, `best` is computed by descents from the function's starts, with an error of at most 1e-6
    standard deviations of f; among candidates it is the largest of their values.

    Examples
    --------
    >>> from tvbandits.datasets import Lifted
    >>> problem = Lifted("hartmann3", horizon=20)
    >>> print(problem.name, problem.domain.dimension)
    lifted-hartmann3 2
    """

    function: str = "hartmann3"
    horizon: int = 200
    noise_share: float = 0.025
    candidates: int = 0

    ranges: ClassVar = {"horizon": (1, 1_000_000), "candidates": (0, 1_000_000)}

    def __post_init__(self) -> None:
        check_choice("function", self.function, tuple(FUNCTIONS))
        positive_number("noise_share", self.noise_share)
        super().__post_init__()

    @property
    def name(self) -> str:
        """Return the name of the problem: "lifted-" and the function."""
        return f"lifted-{self.function}"

    @cached_property
    def domain(self) -> Box | Candidates:
        """Return the cube without the time coordinate, or points of a Sobol sequence on it."""
        dimension = FUNCTIONS[self.function].dimension - 1
        if self.candidates == 0:
            return Box(np.array([FUNCTIONS[self.function].bounds] * dimension))
        points = self._sobol_points(dimension, (self.candidates - 1).bit_length(), scramble=True)
        return Candidates(points[: self.candidates])

    @cached_property
    def deviation(self) -> float:
        """Return the standard deviation of f over the cube and time, estimated on 2^15 points."""
        function = FUNCTIONS[self.function]
        points = self._sobol_points(function.dimension, 15, scramble=True)
        return float(function.formula(points).std())

    @property
    def noise_variance(self) -> float:
        """Return the noise variance of a reward."""
        return self.noise_share * self.deviation**2

    @cached_property
    def variation(self) -> float:
        """Return the mean of max_x abs(f(x, t+1) - f(x, t)) over the horizon, on 1,024 points."""
        X = self._sobol_points(self.domain.dimension, 10, scramble=False)
        values = (self.value(X, t) for t in range(1, self.horizon + 1))
        return mean_change(values, self.horizon)

    def value(self, X: Array, t: float) -> Array:
        """Return the noise-free reward at points (n, d - 1), shape (n,); 1 <= t <= horizon."""
        X = np.asarray(X, dtype=np.float64)
        points = np.column_stack([X, np.full(len(X), self._time_coordinate(t))])
        return -FUNCTIONS[self.function].formula(points)

    def best(self, t: float) -> float:
        """Return the largest reward over the domain at time `t`."""
        if isinstance(self.domain, Candidates):
            return float(self.value(self.domain.X, t).max())
        return -_find_minimum(self.function, self._time_coordinate(t))

    def _time_coordinate(self, t: float) -> float:
        """Return the last coordinate of f at step `t`."""
        self.check_time(t)
        low, high = FUNCTIONS[self.function].bounds
        return low + (high - low) * (t - 1) / max(self.horizon - 1, 1)

    def _sobol_points(self, dimension: int, power: int, *, scramble: bool) -> Array:
        """Return 2^power points of a Sobol sequence on the cube, shape (2^power, dimension)."""
        low, high = FUNCTIONS[self.function].bounds
        unit = qmc.Sobol(dimension, scramble=scramble, seed=0).random_base2(power)
        return np.asarray(low + (high - low) * unit)


@lru_cache(maxsize=100_000)
def _find_minimum(name: str, time_coordinate: float, descents: int = 4) -> float:
    """Return the minimum over all but the time coordinate, by descents from the best starts."""
    function = FUNCTIONS[name]
    (low, high), d = function.bounds, function.dimension

    def formula(x: Array) -> float:
        return float(function.formula(np.append(x, time_coordinate)[None])[0])

    values = function.formula(
        np.column_stack([function.starts, np.full(len(function.starts), time_coordinate)])
    )
    least = float(values.min())
    for start in function.starts[np.argsort(values, kind="stable")[:descents]]:
        result = minimize(
            formula,
            start,
            method="L-BFGS-B",
            bounds=[(low, high)] * (d - 1),
            options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500},
        )
        least = min(least, float(result.fun))
    return least


PROBLEMS = (
    NamedProblem(
        "lifted",
        Lifted,
        "a test function whose last coordinate is time: lifted:hartmann3",
        leading="function",
    ),
)

"""Test functions of global optimisation, to be minimised, in closed form.

Each is written as it stands in the literature (Surjanovic and Bingham, Virtual library of simulation
experiments, 2013; docs/references.md), for points (n, d) at once.

`near` are points close to the minimisers over the first d - 1 coordinates where the last one is known:
minimisers in closed form where there are any, and otherwise the centres from which a descent finds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from tvbandits.core.arrays import Array

Formula = Callable[[Array], Array]
Near = Callable[[float, int], Array]


@dataclass(frozen=True)
class Function:
    """A function to be minimised on a cube, and where its minimisers are for each last coordinate.

    Attributes
    ----------
    formula : callable
        Maps points (n, d) to values (n,).
    bounds : (float, float)
        Of every coordinate.
    near : callable
        `near(last, d)` are points (m, d - 1), from one of which a descent ends at the minimum.
    moves : bool
        Whether the minimiser over the first coordinates depends on the last one.
    dimension : int or None
        The only one that it has; None: any from 2 on.
    """

    formula: Formula
    bounds: tuple[float, float]
    near: Near
    moves: bool
    dimension: int | None = None


def _constant(value: float) -> Near:
    """The same value in every coordinate, whatever the last one."""
    return lambda last, d: np.full((1, d - 1), value)  # noqa: ARG005 - one face for all


# --- of any dimension --------------------------------------------------------------------------------


def ackley(Z: Array) -> Array:
    """-20 exp(-0.2 sqrt(mean z^2)) - exp(mean cos 2 pi z) + 20 + e."""
    root = np.sqrt((Z**2).mean(axis=1))
    waves = np.cos(2 * np.pi * Z).mean(axis=1)
    return np.asarray(20 + np.e - 20 * np.exp(-0.2 * root) - np.exp(waves))


def griewank(Z: Array) -> Array:
    """Sum of z^2 / 4000, less the product of cos(z_i / sqrt i), plus 1."""
    roots = np.sqrt(np.arange(1.0, Z.shape[1] + 1))
    return np.asarray((Z**2).sum(axis=1) / 4000 - np.cos(Z / roots).prod(axis=1) + 1)


def _near_griewank(last: float, d: int) -> Array:  # noqa: ARG001 - one face for all
    """The middle, or, where the last cosine is negative, half a wave away along a coordinate."""
    apart = np.pi * np.sqrt(np.arange(1.0, d))
    return np.vstack([np.zeros((1, d - 1)), np.diag(apart), np.diag(-apart)])


def levy(Z: Array) -> Array:
    """Of w = 1 + (z - 1) / 4, with sines and squares; 0 at z = 1."""
    W = 1 + (Z - 1) / 4
    first = np.sin(np.pi * W[:, 0]) ** 2
    middle = (W[:, :-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * W[:, :-1] + 1) ** 2)
    last = (W[:, -1] - 1) ** 2 * (1 + np.sin(2 * np.pi * W[:, -1]) ** 2)
    return np.asarray(first + middle.sum(axis=1) + last)


def powell(Z: Array) -> Array:
    """Of four coordinates: (a + 10 b)^2 + 5 (c - d)^2 + (b - 2 c)^4 + 10 (a - d)^4, convex."""
    a, b, c, d = Z.T
    return np.asarray((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


def _near_powell(last: float, d: int) -> Array:  # noqa: ARG001 - one face for all
    return np.array([[0.0, 0.0, 0.0], [last, -last / 10, last]])


def rastrigin(Z: Array) -> Array:
    """10 d plus the sum of z^2 - 10 cos 2 pi z."""
    return np.asarray(10 * Z.shape[1] + (Z**2 - 10 * np.cos(2 * np.pi * Z)).sum(axis=1))


def rosenbrock(Z: Array) -> Array:
    """Sum of 100 (z_{i+1} - z_i^2)^2 + (1 - z_i)^2."""
    here, there = Z[:, :-1], Z[:, 1:]
    return np.asarray((100 * (there - here**2) ** 2 + (1 - here) ** 2).sum(axis=1))


def _near_rosenbrock(last: float, d: int) -> Array:
    """Down the valley z_i = +-sqrt z_{i+1} from the last coordinate, and points beside it."""
    found = []
    for signs in product((1.0, 0.0, -1.0), repeat=min(d - 1, 3)):
        point, there = np.zeros(d - 1), last
        for i in range(d - 2, -1, -1):
            there = signs[i % len(signs)] * math.sqrt(max(there, 0.0))
            point[i] = there
        found.append(point)
    return np.array(found)


def schwefel(Z: Array) -> Array:
    """418.9829 d less the sum of z sin sqrt abs z."""
    return np.asarray(418.9828872724339 * Z.shape[1] - (Z * np.sin(np.sqrt(np.abs(Z)))).sum(axis=1))


def styblinski(Z: Array) -> Array:
    """Half the sum of z^4 - 16 z^2 + 5 z."""
    return np.asarray((Z**4 - 16 * Z**2 + 5 * Z).sum(axis=1) / 2)


# --- of one dimension --------------------------------------------------------------------------------


def branin(Z: Array) -> Array:
    """Branin and Hoo's, with both coordinates scaled to [0, 1]."""
    x, y = 15 * Z[:, 0] - 5, 15 * Z[:, 1]
    valley = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return np.asarray(valley**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10)


def eggholder(Z: Array) -> Array:
    """-(y + 47) sin sqrt abs(x/2 + y + 47) - x sin sqrt abs(x - y - 47)."""
    x, y = Z.T
    first = (y + 47) * np.sin(np.sqrt(np.abs(x / 2 + y + 47)))
    return np.asarray(-first - x * np.sin(np.sqrt(np.abs(x - y - 47))))


def _everywhere(low: float, high: float) -> Near:
    """A fine grid of the only other coordinate."""
    return lambda last, d: np.linspace(low, high, 4001)[:, None]  # noqa: ARG005


SHEKEL_CENTRES = np.array(
    [
        [4.0, 4.0, 4.0, 4.0],
        [1.0, 1.0, 1.0, 1.0],
        [8.0, 8.0, 8.0, 8.0],
        [6.0, 6.0, 6.0, 6.0],
        [3.0, 7.0, 3.0, 7.0],
        [2.0, 9.0, 2.0, 9.0],
        [5.0, 3.0, 5.0, 3.0],
        [8.0, 1.0, 8.0, 1.0],
        [6.0, 2.0, 6.0, 2.0],
        [7.0, 3.6, 7.0, 3.6],
    ]
)
SHEKEL_WIDTHS = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10


def shekel(Z: Array) -> Array:
    """Ten dips -1 / (|z - centre|^2 + width)."""
    apart = ((Z[:, None] - SHEKEL_CENTRES) ** 2).sum(axis=2)
    return np.asarray(-(1 / (apart + SHEKEL_WIDTHS)).sum(axis=1))


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


def _hartmann(A: Array, P: Array) -> Formula:
    """Four dips -height exp(-sum of a (z - p)^2)."""

    def formula(Z: Array) -> Array:
        apart = (A * (Z[:, None] - P) ** 2).sum(axis=2)
        return np.asarray(-(np.exp(-apart) @ HARTMANN_HEIGHTS))

    return formula


def _centres(C: Array) -> Near:
    """The centres of dips, and the points half-way between two of them, without the last coordinate."""
    middles = [(C[i] + C[j]) / 2 for i in range(len(C)) for j in range(i)]
    points = np.vstack([C, middles])[:, :-1]
    return lambda last, d: points  # noqa: ARG005 - one face for all


FUNCTIONS: Mapping[str, Function] = {
    "ackley": Function(ackley, (-32.0, 32.0), _constant(0.0), moves=False),
    "branin": Function(branin, (0.0, 1.0), _everywhere(0, 1), moves=True, dimension=2),
    "eggholder": Function(
        eggholder, (-512.0, 512.0), _everywhere(-512, 512), moves=True, dimension=2
    ),
    "griewank": Function(griewank, (-600.0, 600.0), _near_griewank, moves=True),
    "hartmann3": Function(
        _hartmann(HARTMANN3_A, HARTMANN3_P), (0.0, 1.0), _centres(HARTMANN3_P), True, 3
    ),
    "hartmann6": Function(
        _hartmann(HARTMANN6_A, HARTMANN6_P), (0.0, 1.0), _centres(HARTMANN6_P), True, 6
    ),
    "levy": Function(levy, (-10.0, 10.0), _constant(1.0), moves=False),
    "powell": Function(powell, (-4.0, 5.0), _near_powell, moves=True, dimension=4),
    "rastrigin": Function(rastrigin, (-4.0, 4.0), _constant(0.0), moves=False),
    "rosenbrock": Function(rosenbrock, (-1.0, 1.5), _near_rosenbrock, moves=True),
    "schwefel": Function(schwefel, (-500.0, 500.0), _constant(420.968746), moves=False),
    "shekel": Function(shekel, (0.0, 10.0), _centres(SHEKEL_CENTRES), moves=True, dimension=4),
    "styblinski": Function(styblinski, (-5.0, 5.0), _constant(-2.903534), moves=False),
}
"""By name. A name may end in the dimension: "ackley4"."""

DIMENSIONS = {"ackley": 4, "griewank": 6, "levy": 4, "rastrigin": 5, "rosenbrock": 3, "schwefel": 4}
"""Where a name says none, and the function has any; otherwise 4."""

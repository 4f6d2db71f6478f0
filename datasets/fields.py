"""Random fields for evaluating policies; no default of this package was tuned on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from tvbandits.datasets.base import PathProblem
from tvbandits.datasets.cached import cached_property
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import NamedProblem
from tvbandits.gp.linalg import cholesky, inverse
from tvbandits.validation import Array, check_choice

Draw = Callable[[Array, np.random.Generator, int], Array]


class Kind(NamedTuple):
    """A kind of random field: its candidates (A, d), and a function that draws its rewards."""

    points: Array
    draw: Draw
    summary: str


KINDS: dict[str, Kind] = {}


def _register(name: str, points: Array, summary: str) -> Callable[[Draw], Draw]:
    """Return a decorator that adds a function of points (A, d), rng and steps to `KINDS`.

    The function draws rewards, shape (steps, A).
    """

    def add(draw: Draw) -> Draw:
        KINDS[name] = Kind(points, draw, summary)
        return draw

    return add


def _draw_points(seed: int, low: float, high: float, shape: tuple[int, int]) -> Array:
    """Return points that are uniform on a cube."""
    return np.random.default_rng(seed).uniform(low, high, shape)


def _make_grid(side: int) -> Array:
    """Return the points (side^2, 2) of a grid on the unit square."""
    axis = np.linspace(0.0, 1.0, side)
    return np.array(np.meshgrid(axis, axis)).reshape(2, -1).T


@_register(
    "bumps", np.linspace(0.0, 1.0, 101)[:, None], "two bumps of which one grows as one falls"
)
def _draw_bumps(X: Array, rng: np.random.Generator, steps: int) -> Array:
    phase, a, b, period = (
        rng.uniform(*ends) for ends in ((0, 6.28), (0.15, 0.35), (0.65, 0.85), (35, 60))
    )
    weight = 0.5 * (1 + np.sin(2 * np.pi * np.arange(steps)[:, None] / period + phase))
    left, right = (np.exp(-0.5 * ((X[:, 0] - m) / w) ** 2) for m, w in ((a, 0.06), (b, 0.09)))
    return np.asarray(1.5 * (weight * left + (1 - weight) * right) + 0.3 * X[:, 0])


@_register("ridge", _draw_points(5, -1.0, 1.0, (250, 3)), "a rotating ridge in three dimensions")
def _draw_ridge(X: Array, rng: np.random.Generator, steps: int) -> Array:
    u, v = rng.standard_normal((2, 3))
    u /= np.linalg.norm(u)
    v -= u * (u @ v)
    axes = np.column_stack([u, v / np.linalg.norm(v)])
    angle = 2 * np.pi * np.arange(steps)[:, None] / rng.uniform(80, 160)
    projection = np.hstack([np.cos(angle), np.sin(angle)]) @ (X @ axes).T
    return np.asarray(np.exp(-0.5 * ((projection - 0.5) / 0.3) ** 2))


@_register("waves", _make_grid(14), "a sum of forty waves with different speeds")
def _draw_waves(X: Array, rng: np.random.Generator, steps: int) -> Array:
    W, phase = 6 * rng.standard_normal((40, 2)), rng.uniform(0, 2 * np.pi, 40)
    speed, height = 0.06 * rng.standard_normal(40), np.sqrt(1 / 20) * rng.standard_normal(40)
    return np.array([np.cos(X @ W.T + phase + speed * t) @ height for t in range(steps)])


@_register("graph", _draw_points(11, 0.0, 10.0, (48, 2)), "a random walk on a graph of 48 nodes")
def _draw_graph(X: Array, rng: np.random.Generator, steps: int) -> Array:
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    adjacency = np.zeros(distances.shape)
    for i, neighbours in enumerate(np.argsort(distances, axis=1)[:, 1:5]):
        adjacency[i, neighbours] = adjacency[neighbours, i] = 1.0
    C = inverse(cholesky(np.diag(adjacency.sum(axis=1)) - adjacency + 0.2 * np.eye(len(X))).L)
    root = cholesky(C / np.diagonal(C).mean()).L
    start, *changes = rng.standard_normal((steps, len(X))) @ root.T
    return np.asarray(start + 0.25 * np.cumsum([0 * start, *changes], axis=0))


@_register(
    "jumps", np.linspace(0.0, 10.0, 150)[:, None], "a function that jumps every 28 to 44 steps"
)
def _draw_jumps(X: Array, rng: np.random.Generator, steps: int) -> Array:
    distances = np.abs(X - X.T) / 1.5
    root = cholesky((1 + distances) * np.exp(-distances) + 1e-8 * np.eye(len(X))).L
    count = max(8, steps // 28)
    pieces = (root @ rng.standard_normal((len(X), count + 1))).T
    ends = rng.integers(28, 45, count).cumsum()
    return np.asarray(pieces[[int((t > ends).sum()) for t in range(steps)]])


@_register("tide", np.linspace(-3.0, 3.0, 121)[:, None], "five bumps on a line that move and rise")
def _draw_tide(X: Array, rng: np.random.Generator, steps: int) -> Array:
    centre, height = rng.uniform(-2, 2, 5), rng.uniform(0.5, 1.5, 5)
    speed, width = rng.uniform(-0.02, 0.02, 5), rng.uniform(0.25, 0.8, 5)
    return np.array(
        [
            np.exp(-(((X - centre - speed * t) / width) ** 2)) @ height + 0.004 * t
            for t in range(steps)
        ]
    )


@dataclass(frozen=True)
class Field(PathProblem):
    """A random field at whole steps, with a different realisation for every seed.

    Parameters
    ----------
    kind : "bumps", "ridge", "waves", "graph", "jumps" or "tide"
    horizon : int
    noise_variance : float
    seed : int

    Examples
    --------
    >>> from tvbandits.datasets import Field
    >>> problem = Field("ridge", horizon=20)
    >>> print(len(problem.domain), problem.best(3) == problem.value(problem.domain.X, 3).max())
    250 True
    """

    kind: str = "bumps"
    horizon: int = 100
    noise_variance: float = 0.01
    ranges: ClassVar = {"horizon": (1, 100_000)}

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, tuple(KINDS))
        super().__post_init__()

    @property
    def name(self) -> str:
        """Return the name of the problem: "field-" and the kind."""
        return f"field-{self.kind}"

    @cached_property
    def domain(self) -> Candidates:
        """Return the candidates of the kind, the same for every seed."""
        return Candidates(KINDS[self.kind].points)

    @cached_property
    def path(self) -> Array:
        """Return the rewards of all steps and candidates, shape (horizon, A)."""
        rng = np.random.default_rng([7919, self.seed])
        return KINDS[self.kind].draw(KINDS[self.kind].points, rng, self.horizon + 2)[1:-1]


PROBLEMS = tuple(
    NamedProblem(f"field-{name}", partial(Field, name), kind.summary)
    for name, kind in KINDS.items()
)

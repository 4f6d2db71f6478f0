"""Who asks nobody, on eight fields that no choice of this package was made on.

    python -m benchmarks.alone [--seeds 10] [--policies NAME ...]

Two bumps that trade places, a ridge that turns, a sum of waves, a walk on a graph, a peak on an
orbit, a function that jumps, bumps that a tide moves, and arms of their own rates; 100 steps. Every
policy is told the noise. `mk-gp-ucb` gets its kernel, scale and rate from 200 free plays, `gp-ucb` its
kernel and scale; `adaptive-gp-ucb` is told nothing more.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.boba import half_interval
from tvbandits import Candidates, compare
from tvbandits.core.arrays import Array

STEPS = 100
LINE, TIDES = np.linspace(0.0, 1.0, 101)[:, None], np.linspace(-3.0, 3.0, 121)[:, None]
JUMPED = np.linspace(0.0, 10.0, 150)[:, None]
BALL = np.random.default_rng(5).uniform(-1.0, 1.0, (250, 3))
PLACES = np.random.default_rng(11).uniform(0.0, 10.0, (48, 2))
ARMS = np.random.default_rng(3).uniform(0.0, 1.0, (30, 2))


def grid(side: int) -> Array:
    """Points of the unit square."""
    axis = np.linspace(0.0, 1.0, side)
    return np.array(np.meshgrid(axis, axis)).reshape(2, -1).T


def bumps(X: Array, rng: np.random.Generator) -> Array:
    phase, a, b, period = (
        rng.uniform(*ends) for ends in ((0, 6.28), (0.15, 0.35), (0.65, 0.85), (35, 60))
    )
    share = 0.5 * (1 + np.sin(2 * np.pi * np.arange(STEPS + 2)[:, None] / period + phase))
    left, right = (np.exp(-0.5 * ((X[:, 0] - m) / w) ** 2) for m, w in ((a, 0.06), (b, 0.09)))
    return 1.5 * (share * left + (1 - share) * right) + 0.3 * X[:, 0]


def ridge(X: Array, rng: np.random.Generator) -> Array:
    axes, _ = np.linalg.qr(rng.standard_normal((3, 2)))
    angle = 2 * np.pi * np.arange(STEPS + 2)[:, None] / rng.uniform(80, 160)
    along = np.hstack([np.cos(angle), np.sin(angle)]) @ (X @ axes).T
    return np.exp(-0.5 * ((along - 0.5) / 0.3) ** 2)


def waves(X: Array, rng: np.random.Generator) -> Array:
    W, phase = 6 * rng.standard_normal((40, 2)), rng.uniform(0, 2 * np.pi, 40)
    speed, height = 0.06 * rng.standard_normal(40), np.sqrt(1 / 20) * rng.standard_normal(40)
    return np.array([np.cos(X @ W.T + phase + speed * t) @ height for t in range(STEPS + 2)])


def graph(X: Array, rng: np.random.Generator) -> Array:
    apart = np.linalg.norm(X[:, None] - X[None], axis=2)
    linked = np.zeros(apart.shape)
    for i, near in enumerate(np.argsort(apart, axis=1)[:, 1:5]):
        linked[i, near] = linked[near, i] = 1.0
    C = np.linalg.inv(np.diag(linked.sum(axis=1)) - linked + 0.2 * np.eye(len(X)))
    root = np.linalg.cholesky(C / np.diagonal(C).mean())
    steps = rng.standard_normal((STEPS + 2, len(X))) @ root.T
    return steps[0] + 0.25 * np.cumsum(np.vstack([0 * steps[:1], steps[1:]]), axis=0)


def orbit(X: Array, rng: np.random.Generator) -> Array:
    angle = 2 * np.pi * np.arange(STEPS + 2)[:, None] / rng.uniform(60, 120) + rng.uniform(0, 6.28)
    peak = rng.uniform(0.35, 0.65, 2) + 0.3 * np.hstack([np.cos(angle), np.sin(2 * angle)])
    apart = ((X[None] - peak[:, None]) ** 2).sum(axis=2)
    return 2 * np.exp(-0.5 * apart / 0.12**2) + 0.5 * np.sin(3 * X[:, 0])


def jumps(X: Array, rng: np.random.Generator) -> Array:
    apart = np.abs(X - X.T) / 1.5
    root = np.linalg.cholesky((1 + apart) * np.exp(-apart) + 1e-8 * np.eye(len(X)))
    drawn, ends = (root @ rng.standard_normal((len(X), 9))).T, rng.integers(28, 45, 8).cumsum()
    return drawn[[int((t > ends).sum()) for t in range(STEPS + 2)]]


def tide(X: Array, rng: np.random.Generator) -> Array:
    place, height = rng.uniform(-2, 2, 5), rng.uniform(0.5, 1.5, 5)
    speed, width = rng.uniform(-0.02, 0.02, 5), rng.uniform(0.25, 0.8, 5)
    return np.array(
        [
            np.exp(-(((X - place - speed * t) / width) ** 2)) @ height + 0.004 * t
            for t in range(STEPS + 2)
        ]
    )


def arms(X: Array, rng: np.random.Generator) -> Array:
    mean, kept = 0.7 * rng.standard_normal(len(X)), np.exp(-1 / rng.uniform(5, 80, len(X)))
    path = [0.7 * rng.standard_normal(len(X))]
    for _ in range(STEPS + 1):
        path.append(kept * path[-1] + 0.7 * np.sqrt(1 - kept**2) * rng.standard_normal(len(X)))
    return mean + np.array(path)


@dataclass(frozen=True)
class Field:
    """Rewards of every step at all candidates, drawn for each seed."""

    name: str
    points: Array
    draw: Callable[[Array, np.random.Generator], Array]
    noise_variance: float
    seed: int = 0
    horizon: int = STEPS
    unit: str = ""
    kernel: Any = None
    variation: float | None = None

    @cached_property
    def domain(self) -> Candidates:
        """Where it may be played."""
        return Candidates(self.points)

    @cached_property
    def rewards(self) -> Array:
        """Of all steps, (T + 2, A)."""
        return self.draw(self.points, np.random.default_rng([7919, self.seed]))

    def realise(self, seed: int) -> Field:
        """Another draw."""
        return replace(self, seed=seed)

    def value(self, X: Array, t: float) -> Array:
        """Rewards (n,) of candidates (n, d)."""
        return np.asarray(self.rewards[int(t)][self.domain.index(np.asarray(X))])

    def best(self, t: float) -> float:
        """The largest."""
        return float(self.rewards[int(t)].max())


FIELDS = (
    Field("bumps", LINE, bumps, 0.01),
    Field("ridge", BALL, ridge, 0.01),
    Field("waves", grid(14), waves, 0.04),
    Field("graph", PLACES, graph, 0.1),
    Field("orbit", grid(20), orbit, 0.01),
    Field("jumps", JUMPED, jumps, 0.01),
    Field("tide", TIDES, tide, 0.02),
    Field("arms", ARMS, arms, 0.09),
)


def main() -> None:
    """Play, and print a table with the ratios to the second policy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=10)
    names = ["adaptive-gp-ucb", "mk-gp-ucb", "gp-ucb"]
    parser.add_argument("--policies", nargs="+", default=names, metavar="NAME")
    given = parser.parse_args()
    print("| field |", " | ".join(given.policies), "|\n|---|" + "---|" * len(given.policies))
    ratios = []
    for problem in FIELDS:
        rows = pd.DataFrame(list(compare(problem, given.policies, seeds=given.seeds)))
        runs = rows.pivot_table(index="seed", columns="policy", values="regret")[given.policies]
        cells = [f"{runs[k].mean():.3f} ± {half_interval(runs[k].to_numpy()):.3f}" for k in runs]
        print("|", " | ".join([problem.name, *cells]), "|", flush=True)
        ratios.append(runs.mean().to_numpy() / runs.iloc[:, min(1, len(cells) - 1)].mean())
    geometric = np.exp(np.log(ratios).mean(axis=0))
    print("| geometric mean of ratios |", " | ".join(f"{each:.3f}" for each in geometric), "|")


if __name__ == "__main__":
    main()

"""What the benchmarks on regression tables share: where the tables are, and runs in batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.harness import DATA, clock
from tvbandits import policies
from tvbandits.acquisition.confidence import BBKBWidth
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import added_noise
from tvbandits.datasets import abalone, california
from tvbandits.datasets.tables.problem import TableProblem

TABLES = {
    "abalone": (abalone, "abalone.csv"),
    "california": (california, "california_housing.parquet"),
}


class Player(Protocol):
    """Plays batches."""

    def ask(self) -> Array:
        """The points of the next batch, shape (b, d)."""
        ...

    def tell(self, X: Array, y: Array) -> Any:
        """Learn their rewards."""
        ...


@dataclass(frozen=True)
class Played:
    """One run.

    Attributes
    ----------
    regret : array of shape (T,)
        Of every play, in the order they were made.
    batches : int
    seconds : float
        Processor time of asking and telling.
    marks : tuple of float
        The same up to each of the wanted numbers of plays.
    """

    regret: Array
    batches: int
    seconds: float
    marks: tuple[float, ...] = ()


def table(name: str, directory: Path | None = None) -> TableProblem | None:
    """The problem of that name, or None where its file is absent."""
    make, file = TABLES[name]
    path = (directory or DATA / "tables") / file
    return make(path) if path.is_file() else None


def play(
    player: Player, problem: TableProblem, horizon: int, seed: int, marks: Sequence[int] = ()
) -> Played:
    """Play `horizon` times; a batch that would go beyond it is cut."""
    rng = np.random.default_rng([seed, 0xB0])
    regret = np.empty(horizon)
    taken, batches, done = 0.0, 0, 0
    passed: list[float] = []
    while done < horizon:
        begun = clock()
        X = player.ask()[: horizon - done]
        taken += clock() - begun
        truth = problem.value(X, 1.0)
        y = truth + math.sqrt(added_noise(problem)) * rng.standard_normal(len(X))
        begun = clock()
        player.tell(X, y)
        taken += clock() - begun
        regret[done : done + len(X)] = problem.best(1.0) - truth
        done += len(X)
        batches += 1
        while len(passed) < len(marks) and done >= marks[len(passed)]:
            passed.append(taken)
    return Played(regret, batches, taken, tuple(passed))


def uniform_regret(problem: TableProblem) -> float:
    """Mean regret of a uniform point."""
    return problem.best(1.0) - float(problem.values.mean())


def ratio(played: Played, problem: TableProblem) -> float:
    """Total regret over that of uniform points."""
    return float(played.regret.mean()) / uniform_regret(problem)


def bbkb(
    problem: TableProblem, horizon: int, seed: int, *, online: bool = False, **given: Any
) -> Bandit:
    """BBKB with the settings of its authors: q = 2, C = 2, F = 1, delta = 1/T; mean 0 unless online."""
    return policies.bbkb(
        problem.domain,
        problem.kernel,
        problem.noise_variance,
        confidence=BBKBWidth(delta=1 / horizon),
        mean="online" if online else 0.0,
        seed=seed,
        **given,
    )

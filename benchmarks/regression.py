"""What the benchmarks on regression tables share: where the tables are, and runs in batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import DATA, clock
from tvbandits import Bandit, Options, policies
from tvbandits.acquisition.widths import BBKBWidth
from tvbandits.bandit.options import Mean
from tvbandits.datasets import TableProblem, abalone, california
from tvbandits.domains.problem import noise_to_add
from tvbandits.validation import Array

TABLES = {
    "abalone": (abalone, "abalone.csv"),
    "california": (california, "california_housing.parquet"),
}


class Played(NamedTuple):
    """Regret of every play (T,), the number of batches, and processor seconds of asking and telling."""

    regret: Array
    batches: int
    seconds: float


def table(name: str, directory: Path | None = None) -> TableProblem | None:
    """The problem of that name, or None where its file is absent."""
    make, file = TABLES[name]
    path = (directory or DATA / "tables") / file
    if not path.is_file():
        print(f"{name}: skipped, its table is not there (--tables DIR)")
        return None
    return make(path)


def play(player: Any, problem: TableProblem, horizon: int, seed: int) -> Played:
    """Play `horizon` times; a batch that would go beyond it is cut."""
    rng = np.random.default_rng([seed, 0xB0])
    regret = np.empty(horizon)
    taken, batches, done = 0.0, 0, 0
    while done < horizon:
        begun = clock()
        X = player.ask()[: horizon - done]
        taken += clock() - begun
        truth = problem.value(X, 1.0)
        y = truth + math.sqrt(noise_to_add(problem)) * rng.standard_normal(len(X))
        begun = clock()
        player.tell(X, y)
        taken += clock() - begun
        regret[done : done + len(X)] = problem.best(1.0) - truth
        done += len(X)
        batches += 1
    return Played(regret, batches, taken)


def uniform_regret(problem: TableProblem) -> float:
    """Mean regret of a uniform point."""
    return problem.best(1.0) - float(problem.values.mean())


def bbkb(
    problem: TableProblem, horizon: int, seed: int, *, mean: Mean = 0.0, **values: Any
) -> Bandit:
    """BBKB with the settings of its authors: q = 2, C = 2, F = 1, delta = 1/T."""
    return policies.bbkb(
        problem.domain,
        kernel=problem.kernel,
        noise_variance=problem.noise_variance,
        beta=BBKBWidth(delta=1 / horizon),
        seed=seed,
        options=Options(mean=mean),
        **values,
    )


# Makes a policy for a problem, a horizon and a seed.
Maker: TypeAlias = Callable[[TableProblem, int, int], Any]


def bbkb_maker(rule: str, mean: Mean = 0.0) -> Maker:
    """Return what makes BBKB with the settings of its authors."""
    return lambda problem, horizon, seed: bbkb(problem, horizon, seed, rule=rule, mean=mean)


def modelled(
    policy: Any, width: Any = None, bandwidth: float | None = None, **values: Any
) -> Maker:
    """Return what makes a policy without a learned mean, with the problem's bandwidth or another."""

    def make(problem: TableProblem, horizon: int, seed: int) -> Any:
        beta = {} if width is None else {"beta": width(delta=1 / horizon)}
        kernel = problem.kernel if bandwidth is None else RBF(bandwidth)
        parts: dict[str, Any] = {"kernel": kernel, "noise_variance": problem.noise_variance}
        parts |= {"options": Options(mean=0.0), "seed": seed, **beta, **values}
        return policy(problem.domain, **parts)

    return make


def free(policy: Any) -> Maker:
    """Return what makes a policy without a model."""
    return lambda problem, _, seed: policy(problem.domain, seed=seed)

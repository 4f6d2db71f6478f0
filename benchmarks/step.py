"""One step of GP-UCB at about 1000 observations and 1000 candidates, against a refit.

Ours is a whole step through the public face: `tell` a reward, `ask` for the next point. The peer fits
scikit-learn's `GaussianProcessRegressor` (no optimiser, the same kernel, noise and centred rewards) to
the same observations, and predicts mean and deviation at the same candidates. The two take turns: a
block of our steps, then one refit at the number of observations reached.

Once in a while our step estimates the scale of the reward again, and factors everything anew. Medians
do not see that, so there is a row for the mean over a long stretch of steps as well.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, Row, clock, summary
from tvbandits import Bandit, Candidates, policies
from tvbandits.validation import Array

TARGET, NOISE = 50.0, 0.01
# The stretch of steps, 1000 observations in its middle, and how many steps make a block.
FROM, TO, BLOCK = 750, 1250, 25


class Case(NamedTuple):
    """Candidates, a kernel and a reward; with `distinct`, each of the first points is another one."""

    name: str
    domain: Candidates
    length: float
    mean: Callable[[Array], Array]
    distinct: bool = False

    def reward(self, X: Array, rng: np.random.Generator) -> Array:
        """Noisy rewards (n,)."""
        return np.asarray(self.mean(X) + NOISE**0.5 * rng.standard_normal(len(X)))


def waves(X: Array) -> Array:
    return np.asarray(np.sin(0.2 * X[:, 0]) + np.cos(0.05 * X[:, 0]))


def hills(X: Array) -> Array:
    return np.asarray(np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 0])


def cases() -> list[Case]:
    line = Candidates(np.linspace(-50.0, 50.0, 1000)[:, None])
    square = Candidates.grid([(0.0, 1.0), (0.0, 1.0)], (40, 25))
    return [
        Case("1-d, points as played", line, 3.5, waves),
        Case("2-d, points as played", square, 0.1, hills),
        Case("2-d, first 750 points distinct", square, 0.1, hills, distinct=True),
    ]


def started(case: Case, seed: int) -> tuple[Bandit, np.random.Generator]:
    """A bandit with `FROM` observations."""
    rng = np.random.default_rng([seed, 1])
    bandit = policies.gp_ucb(case.domain, kernel=RBF(case.length), noise_variance=NOISE, seed=seed)
    if case.distinct:
        X = case.domain.X[rng.permutation(len(case.domain))[:FROM]]
        bandit.tell(X, case.reward(X, rng), t=np.arange(1.0, FROM + 1))
    else:
        for _ in range(FROM):
            X = bandit.ask()
            bandit.tell(X, case.reward(X, rng))
    bandit.ask()
    return bandit, rng


def refit(bandit: Bandit, kernel: Any, points: Array) -> tuple[Array, Array]:
    """The peer's mean and deviation at `points`, given what the bandit was told."""
    seen, model = bandit.state.rewards, bandit.info.model
    peer = GaussianProcessRegressor(kernel, alpha=NOISE / model.scale**2, optimizer=None)
    peer.fit(seen.X, (seen.y - model.mean) / model.scale)
    mean, deviation = peer.predict(points, return_std=True)
    return model.mean + model.scale * mean, model.scale * deviation


def stretch(case: Case, seed: int) -> tuple[list[float], list[Pair], float]:
    """Seconds of the steps, blocks beside a refit, and how far both posteriors are apart at most."""
    bandit, rng = started(case, seed)
    points, kernel = case.domain.X, RBF(case.length)
    steps: list[float] = []
    blocks: list[Pair] = []
    gap = 0.0
    X = bandit.ask()
    while len(bandit.state.rewards) < TO:
        for _ in range(BLOCK):
            y = case.reward(X, rng)
            begun = clock()
            bandit.tell(X, y)
            X = bandit.ask()
            steps.append(clock() - begun)
        begun = clock()
        theirs = refit(bandit, kernel, points)
        blocks.append(Pair(statistics.median(steps[-BLOCK:]), clock() - begun))
        gap = max(gap, float(np.abs(np.subtract(bandit.predict(points), theirs)).max()))
    return steps, blocks, gap


def rows(repeats: int, tables: Path | None = None) -> list[Row]:  # noqa: ARG001 - one face
    """Two rows for each case: the typical step, and the mean over the stretch."""
    made = []
    for case in cases():
        found = [stretch(case, seed) for seed in range(repeats)]
        blocks = [pair for _, pairs, _ in found for pair in pairs]
        means = [
            Pair(statistics.mean(steps), statistics.mean(pair.peer for pair in pairs))
            for steps, pairs, _ in found
        ]
        agree = f"agrees with scikit-learn's within {max(gap for *_, gap in found):.0e}"
        note = f"n = {FROM} to {TO}, blocks of {BLOCK} steps; the posterior {agree}"
        made.append(summary("step", f"{case.name}: median", blocks, target=TARGET, note=note))
        worst = statistics.median(max(steps) for steps, *_ in found)
        note = f"{TO - FROM} steps, the slowest of {1e3 * worst:.0f} ms"
        made.append(summary("step", f"{case.name}: mean", means, target=TARGET, note=note))
    return made

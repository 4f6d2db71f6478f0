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
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, Row, clock, seconds, summary
from tvbandits import Bandit, Candidates, policies
from tvbandits.core.arrays import Array

TARGET = 50.0
NOISE = 0.01
# The stretch of steps, 1000 observations in its middle, and how many steps make a block.
FROM, TO, BLOCK = 750, 1250, 25


@dataclass(frozen=True)
class Case:
    """Candidates, a kernel and a reward.

    `distinct`: each of the first observations is of a point of its own; `optimised`: time the peer's
    default optimiser, too.
    """

    name: str
    domain: Candidates
    length: float
    reward: Callable[[Array], Array]
    distinct: bool = False
    optimised: bool = False


@dataclass(frozen=True)
class Stretch:
    """What a stretch of steps took."""

    steps: list[float]
    blocks: list[Pair]
    estimates: int
    rows: int
    gap: float


def waves(X: Array) -> Array:
    return np.asarray(np.sin(0.2 * X[:, 0]) + np.cos(0.05 * X[:, 0]))


def hills(X: Array) -> Array:
    return np.asarray(np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 0])


def cases() -> list[Case]:
    line = Candidates(np.linspace(-50.0, 50.0, 1000)[:, None])
    square = Candidates.grid([(0.0, 1.0), (0.0, 1.0)], (40, 25))
    return [
        Case("1-d, points as played", line, 3.5, waves, optimised=True),
        Case("2-d, points as played", square, 0.1, hills),
        Case("2-d, first 750 points distinct", square, 0.1, hills, distinct=True),
    ]


def started(case: Case, seed: int) -> tuple[Bandit, np.random.Generator]:
    """A bandit with `FROM` observations."""
    rng = np.random.default_rng([seed, 1])
    bandit = policies.gp_ucb(case.domain, RBF(case.length), NOISE, seed=seed)
    if case.distinct:
        X = case.domain.X[rng.permutation(len(case.domain))[:FROM]]
        bandit.tell(X, reward(case, X, rng), t=np.arange(1.0, FROM + 1))
        bandit.ask()
        return bandit, rng
    for _ in range(FROM):
        X = bandit.ask()
        bandit.tell(X, reward(case, X, rng))
    bandit.ask()
    return bandit, rng


def reward(case: Case, X: Array, rng: np.random.Generator) -> Array:
    return np.asarray(case.reward(X) + NOISE**0.5 * rng.standard_normal(len(X)))


def refit(bandit: Bandit, kernel: Any, points: Array, optimizer: str | None = None) -> Any:
    """The peer's posterior of what the bandit was told, at `points`."""
    told, info = bandit.state.rewards, bandit.info
    peer = GaussianProcessRegressor(kernel, alpha=NOISE / info.model.scale**2, optimizer=optimizer)
    peer.fit(told.X, (told.y - info.model.centre) / info.model.scale)
    mean, deviation = peer.predict(points, return_std=True)
    return info.model.centre + info.model.scale * mean, info.model.scale * deviation


def stretch(case: Case, seed: int) -> Stretch:
    """Play on from `FROM` to `TO` observations, with a refit of the peer after every block."""
    bandit, rng = started(case, seed)
    points, kernel = case.domain.X, RBF(case.length)
    steps: list[float] = []
    blocks: list[Pair] = []
    estimates, gap = 0, 0.0
    X = bandit.ask()
    while len(bandit.state.rewards) < TO:
        before = bandit.state.model.scaling.estimated_at
        for _ in range(BLOCK):
            y = reward(case, X, rng)
            begun = clock()
            bandit.tell(X, y)
            X = bandit.ask()
            steps.append(clock() - begun)
        estimates += bandit.state.model.scaling.estimated_at != before
        begun = clock()
        mean, deviation = refit(bandit, kernel, points)
        taken = clock() - begun
        blocks.append(Pair(statistics.median(steps[-BLOCK:]), taken))
        ours = bandit.predict(points)
        gap = max(gap, abs(ours[0] - mean).max(), abs(ours[1] - deviation).max())
    assert bandit.state.posterior is not None
    return Stretch(steps, blocks, estimates, bandit.state.posterior.size, float(gap))


def optimised(case: Case) -> str:
    """What one refit with the peer's default optimiser takes, once, at `FROM` observations."""
    bandit, _ = started(case, 0)
    taken = seconds(
        lambda: refit(bandit, RBF(case.length), case.domain.X, optimizer="fmin_l_bfgs_b")
    )
    return f"with its default optimiser one refit at n = {FROM} takes {taken:.1f} s (once)"


def rows(repeats: int) -> list[Row]:
    """Two rows for each case: the typical step, and the mean over the stretch."""
    made = []
    for case in cases():
        found = [stretch(case, seed) for seed in range(repeats)]
        blocks = [pair for one in found for pair in one.blocks]
        means = [
            Pair(statistics.mean(one.steps), statistics.mean(pair.peer for pair in one.blocks))
            for one in found
        ]
        note = (
            f"n = {FROM} to {TO}, {len(blocks)} blocks of {BLOCK} steps; mean and deviation agree "
            f"with scikit-learn's within {max(one.gap for one in found):.0e}"
        )
        if case.optimised:
            note += "; " + optimised(case)
        made.append(summary("step", f"{case.name}: median", blocks, target=TARGET, note=note))
        worst = statistics.median(max(one.steps) for one in found)
        note = (
            f"{TO - FROM} steps, scale estimated again {found[0].estimates} time(s) among them; "
            f"slowest step {1e3 * worst:.0f} ms; rows of the factor at the end {found[0].rows}"
        )
        made.append(summary("step", f"{case.name}: mean", means, target=TARGET, note=note))
    return made

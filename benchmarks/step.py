"""One step of GP-UCB at about 1000 observations and 1000 candidates, against a refit.

Ours is a whole step through the public face: `tell` a reward, `ask` for the next point. The peer fits
scikit-learn's `GaussianProcessRegressor` (no optimiser, the same kernel, noise and centred rewards) to
the same observations, and predicts mean and deviation at the same candidates. The two take turns: the
mean of a block of our steps, then one refit at the number of observations reached. Once in a while our
step estimates the scale of the reward again and factors everything anew; the note has the slowest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, clock, ratios
from tvbandits import Bandit, Candidates, policies
from tvbandits.validation import Array

NOISE = 0.01
# The stretch of steps, 1000 observations in its middle, and how many steps make a block.
FROM, TO, BLOCK = 750, 1250, 25


class Case(NamedTuple):
    """Candidates, a length scale, and the mean of a reward."""

    name: str
    domain: Candidates
    length: float
    mean: Callable[[Array], Array]

    def reward(self, X: Array, rng: np.random.Generator) -> Array:
        """Noisy rewards (n,)."""
        return np.asarray(self.mean(X) + NOISE**0.5 * rng.standard_normal(len(X)))


def waves(X: Array) -> Array:
    return np.asarray(np.sin(0.2 * X[:, 0]) + np.cos(0.05 * X[:, 0]))


def hills(X: Array) -> Array:
    return np.asarray(np.sin(6 * X[:, 0]) * np.cos(5 * X[:, 1]) + X[:, 0])


def cases() -> list[Case]:
    square = Candidates.grid([(0.0, 1.0), (0.0, 1.0)], (40, 25))
    return [
        Case("1-d", Candidates(np.linspace(-50.0, 50.0, 1000)[:, None]), 3.5, waves),
        Case("2-d", square, 0.1, hills),
    ]


def refit(bandit: Bandit, length: float, points: Array) -> tuple[Array, Array]:
    """The peer's mean and deviation at `points`, given what the bandit was told."""
    seen, model = bandit.state.rewards, bandit.info.model
    peer = GaussianProcessRegressor(RBF(length), alpha=NOISE / model.scale**2, optimizer=None)
    peer.fit(seen.X, (seen.y - model.mean) / model.scale)
    mean, deviation = peer.predict(points, return_std=True)
    return model.mean + model.scale * mean, model.scale * deviation


def stretch(case: Case, seed: int) -> tuple[list[Pair], float, float]:
    """Blocks beside a refit, how far both posteriors are apart at most, and the slowest step."""
    rng, points = np.random.default_rng([seed, 1]), case.domain.X
    bandit = policies.gp_ucb(case.domain, kernel=RBF(case.length), noise_variance=NOISE, seed=seed)
    spent: list[float] = []
    blocks: list[Pair] = []
    gap = 0.0
    X = bandit.ask()
    for told in range(1, TO + 1):
        y = case.reward(X, rng)
        begun = clock()
        bandit.tell(X, y)
        X = bandit.ask()
        spent.append(clock() - begun)
        if told > FROM and told % BLOCK == 0:
            begun = clock()
            theirs = refit(bandit, case.length, points)
            blocks.append(Pair(float(np.mean(spent[-BLOCK:])), clock() - begun))
            gap = max(gap, float(np.abs(np.subtract(bandit.predict(points), theirs)).max()))
    return blocks, gap, max(spent[FROM:])


def rows(repeats: int) -> None:
    """Print a row for each case."""
    for case in cases():
        found = [stretch(case, seed) for seed in range(repeats)]
        gap, slowest = (max(each) for each in list(zip(*found, strict=True))[1:])
        note = (
            f"{FROM} to {TO} observations, the slowest step {1e3 * slowest:.0f} ms; "
            f"the posterior agrees within {gap:.0e}"
        )
        ratios("step", case.name, [pair for blocks, *_ in found for pair in blocks], note)

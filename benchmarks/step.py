"""One step of GP-UCB at about 1000 observations and 1000 candidates, against a refit.

Our step is a `tell` of a reward and an `ask` for the next point. The peer fits scikit-learn's
`GaussianProcessRegressor` (without optimiser, with the same kernel, noise and centred rewards) to the
same observations, and predicts mean and deviation at the same candidates. A block of our steps, of which
the mean is taken, alternates with one fit of the peer. From time to time our step estimates the scale of
the reward anew, and factors the whole matrix; the note has the slowest step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, clock, print_ratios
from tvbandits import Bandit, Candidates, policies
from tvbandits.validation import Array

NOISE = 0.01
# The first and last timed step, with 1000 observations in the middle, and the steps of a block.
FROM, TO, BLOCK = 750, 1250, 25


class Case(NamedTuple):
    """Candidates, a length scale, and the mean of the reward."""

    name: str
    domain: Candidates
    length: float
    mean: Callable[[Array], Array]

    def reward(self, X: Array, rng: np.random.Generator) -> Array:
        """Return noisy rewards (n,)."""
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


def fit_peer(bandit: Bandit, length: float, points: Array) -> tuple[Array, Array]:
    """Return the peer's mean and deviation at points, given the rewards of the bandit."""
    rewards, model = bandit.state.rewards, bandit.info.model
    peer = GaussianProcessRegressor(RBF(length), alpha=NOISE / model.scale**2, optimizer=None)
    peer.fit(rewards.X, (rewards.y - model.mean) / model.scale)
    mean, deviation = peer.predict(points, return_std=True)
    return model.mean + model.scale * mean, model.scale * deviation


def time_blocks(case: Case, seed: int) -> tuple[list[Pair], float, float]:
    """Return blocks with the peer's fits, the largest difference of posteriors, and the slowest step."""
    rng, points = np.random.default_rng([seed, 1]), case.domain.X
    bandit = policies.gp_ucb(case.domain, kernel=RBF(case.length), noise_variance=NOISE, seed=seed)
    times: list[float] = []
    blocks: list[Pair] = []
    gap = 0.0
    X = bandit.ask()
    for count in range(1, TO + 1):
        y = case.reward(X, rng)
        start = clock()
        bandit.tell(X, y)
        X = bandit.ask()
        times.append(clock() - start)
        if count > FROM and count % BLOCK == 0:
            start = clock()
            peer = fit_peer(bandit, case.length, points)
            blocks.append(Pair(float(np.mean(times[-BLOCK:])), clock() - start))
            gap = max(gap, float(np.abs(np.subtract(bandit.predict(points), peer)).max()))
    return blocks, gap, max(times[FROM:])


def rows(repeats: int) -> None:
    """Print a row for each case."""
    for case in cases():
        results = [time_blocks(case, seed) for seed in range(repeats)]
        gap, slowest = (max(each) for each in list(zip(*results, strict=True))[1:])
        note = (
            f"{FROM} to {TO} observations, the slowest step {1e3 * slowest:.0f} ms; "
            f"the posterior agrees within {gap:.0e}"
        )
        print_ratios("step", case.name, [pair for blocks, *_ in results for pair in blocks], note)

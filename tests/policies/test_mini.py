"""mini-GP-UCB: batches of repeated plays of one point."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.oracles.plain_mini import plain_mini_gp_ucb
from tvbandits import Box, Candidates, Options, policies
from tvbandits.validation import Array

SITES = Candidates(np.sort(np.random.default_rng(3).uniform(0, 10, 25))[:, None])


def reward(X: Array) -> Array:
    return np.asarray(np.sin(X[:, 0]))


@pytest.mark.parametrize(("noise", "ratio"), [(0.1, 2.0), (1.0, 1.5), (0.01, 3.0), (0.1, 1.0)])
def test_mini_gp_ucb_matches_its_plain_restatement(noise: float, ratio: float) -> None:
    bandit = policies.mini_gp_ucb(
        SITES,
        kernel=RBF(2.0),
        noise_variance=noise,
        ratio_bound=ratio,
        options=Options(mean=0.0, largest_batch=10**5),
    )
    X = bandit.ask(1)
    assert len(X) == 1
    bandit.tell(X, reward(X), 1)
    batches = []
    for t in range(2, 11):
        X = bandit.ask(t)
        assert (X[0] == X).all()
        batches.append((int(SITES.index(X[:1])[0]), len(X)))
        bandit.tell(X, reward(X), t)
    first = SITES.index(bandit.state.rewards.X[:1])[0]
    assert batches == plain_mini_gp_ucb(SITES.X, reward, first, noise, ratio, 2.0, 9)
    if ratio == 1.0:
        assert {times for _, times in batches} == {1}


@pytest.mark.parametrize("domain", [SITES, Box([(0, 10)])], ids=str)
def test_mini_gp_ucb_shrinks_no_deviation_by_more_than_the_ratio(domain: Any) -> None:
    bandit, X = (
        policies.mini_gp_ucb(
            domain, kernel=RBF(2.0), noise_variance=0.1, options=Options(mean=0.0)
        ),
        SITES.X,
    )
    for t in range(1, 12):
        batch, before = bandit.ask(t), bandit.predict(X, t)[1]
        bandit.tell(batch, reward(batch), t)
        after = bandit.predict(X, t)[1]
        if t > 1 and len(batch) > 1:
            assert (before <= 2.0 * after * (1 + 1e-9)).all()
    assert len(np.unique(bandit.state.rewards.X)) < len(bandit.state.rewards)


def test_mini_gp_ucb_returns_n_distinct_points() -> None:
    bandit = policies.mini_gp_ucb(SITES, kernel=RBF(2.0), noise_variance=1.0)
    bandit.tell(SITES.X[:3], [0.1, 0.2, 0.3], 1)
    assert len(np.unique(bandit.ask(2, n=4), axis=0)) == 4


def test_mini_gp_ucb_bounds_a_batch_with_pending_points() -> None:
    bandit = policies.mini_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=5.0, options=Options(mean=0.0, largest_batch=9)
    )
    bandit.tell(SITES.X[:1], [0.0], 1)
    assert len(bandit.ask(2)) == 9
    assert len(bandit.ask(2)) == 9
    assert len(bandit.pending) == 18

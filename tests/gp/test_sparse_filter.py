"""The sparse posterior as a filter, against dense algebra on its dictionary."""

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.oracles.dense import assert_alike
from tests.oracles.sparse import pseudo_root
from tvbandits import Bandit, Candidates, Exact, NystromFilter, Options, Recipe, policies
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posterior import Conditioning, Data
from tvbandits.gp.sparse import Nystrom
from tvbandits.validation import Array

SPACE, EPSILON = 1.7 * RBF(0.3), 0.08
KERNEL = ConstantKernel(1.7) * OnSpace(RBF(0.3)) * Drift(EPSILON)


def observations(n: int = 40, seed: int = 0) -> Data:
    """Return rewards at the times 0.0, 0.5, ..., four at each."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.random((n, 2)), 0.5 * (np.arange(n) // 4)])
    return Data(Z, rng.standard_normal((n, 1)), 10 ** rng.uniform(-1, 1, n))


def dense(S: Array, data: Data, Z: Array) -> tuple[Array, Array]:
    """Return means and variances of z(x)^T w_t + residual, with w a Gaussian process in time."""
    root = pseudo_root(SPACE(S))
    x, z = SPACE(data.Z[:, :-1], S) @ root, SPACE(Z[:, :-1], S) @ root

    def covariance(a: Array, s: Array, b: Array, t: Array) -> Array:
        return np.asarray(a @ b.T * (1 - EPSILON) ** (np.abs(s[:, None] - t) / 2))

    # The residual variance of the dictionary at a point counts as noise of its readings.
    noise = np.maximum(data.variance, 1.7 - (x**2).sum(axis=1))
    K = covariance(x, data.Z[:, -1], x, data.Z[:, -1]) + np.diag(noise)
    k = covariance(z, Z[:, -1], x, data.Z[:, -1])
    return k @ np.linalg.solve(K, data.Y), 1.7 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("now", [2.2, 4.5, 9.0])
def test_nystrom_filter_matches_dense_algebra_at_any_time(now: float, keep: bool) -> None:
    data, previous = observations(), None
    rule, rng = NystromFilter(0.3, keep), np.random.default_rng(1)
    for end in (12, 24, 40):
        part = data.rows(0, end)
        at = now if end == 40 else float(part.Z[-1, -1])
        previous = rule.condition(Conditioning(KERNEL, part, now=at, previous=previous, rng=rng))
    assert 3 < previous.dictionary.size < 40
    S = previous.dictionary.rows.Z[:, :-1]
    for t in (now, 1.0, 12.0):
        Z = np.column_stack([np.random.default_rng(2).random((9, 2)), np.full(9, t)])
        assert_alike(previous.predict(Z), dense(S, data, Z), atol=1e-8)


@pytest.mark.parametrize("seed", [8, 10])
def test_nystrom_filter_bounds_the_effect_of_precise_readings_off_the_dictionary(seed: int) -> None:
    """Without a bound on their precision, they would move means by 13 and 28 prior deviations."""
    rng, n = np.random.default_rng(seed), 30
    X, kernel = rng.random((60, 1)), OnSpace(RBF(0.1)) * OnTime(Matern(5.0, nu=0.5))
    recipe = Recipe(Candidates(X), kernel, 1e-6, posterior=NystromFilter(keep=False), mean=0.0)
    bandit, rows = Bandit(recipe, seed=seed), rng.integers(60, size=n)
    Z = np.column_stack([X[rows], np.arange(1.0, n + 1)])
    y = np.linalg.cholesky(kernel(Z) + 1e-9 * np.eye(n)) @ rng.normal(size=n)
    for row, reward, t in zip(rows, y, Z[:, -1], strict=True):
        bandit.ask(t)
        bandit.tell(X[[row]], [reward], t)
    exact = Bandit.from_state(replace(recipe, posterior=Exact()), bandit.state)
    assert np.abs(bandit.predict(X)[0] - exact.predict(X)[0]).max() < 1.0


def test_nystrom_filter_averages_thousands_of_readings_in_little_memory() -> None:
    """A matrix over all pairs of readings would take 0.3 GB."""
    means, rule = observations(4), NystromFilter(1e12)
    many = Data(*(np.repeat(column, 1600, axis=0) for column in means))
    Z = np.column_stack([np.random.default_rng(2).random((9, 2)), np.full(9, 1.0)])
    tracemalloc.start()
    predictions = rule.condition(Conditioning(KERNEL, many, now=1.0)).predict(Z)
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()
    means = Data(means.Z, means.Y, means.variance / 1600)
    assert_alike(predictions, dense(means.Z[:, :-1], means, Z), atol=1e-8)


def test_nystrom_filter_counts_late_rewards_at_their_own_time() -> None:
    data, rule = observations(), NystromFilter(1e12)
    order = np.r_[np.arange(20), np.arange(28, 40), np.arange(20, 28)]
    late = Data(*(column[order] for column in data))
    first = rule.condition(Conditioning(KERNEL, Data(*(column[:32] for column in late)), now=9.5))
    posterior = rule.condition(Conditioning(KERNEL, late, now=10.0, previous=first))
    Z = np.column_stack([np.random.default_rng(2).random((9, 2)), np.full(9, 10.0)])
    assert_alike(posterior.predict(Z), dense(data.Z[:, :-1], data, Z), atol=1e-6)


def play(make: Any, steps: int = 12, **options: Any) -> tuple[Array, Array]:
    X = np.random.default_rng(0).random((300, 2))
    bandit, batches = (
        make(Candidates(X), kernel=RBF(0.3), noise_variance=0.02, beta=1.0, seed=3, **options),
        [],
    )
    for t in range(1, steps + 1):
        batches.append(bandit.ask(t))
        bandit.tell(batches[-1], np.sin(5 * batches[-1]).sum(axis=1), t)
    return np.concatenate(batches), np.column_stack(bandit.predict(X, steps + 1.0))


@pytest.mark.parametrize("keep", [True, False])
def test_tv_bbkb_without_forgetting_is_bbkb(keep: bool) -> None:
    points, predictions = play(policies.bbkb, options=Options(posterior=Nystrom(keep=keep)))
    filtered_points, filtered_predictions = play(
        policies.tv_bbkb, forgetting_rate=0.0, options=Options(posterior=NystromFilter(keep=keep))
    )
    np.testing.assert_array_equal(filtered_points, points)
    np.testing.assert_allclose(filtered_predictions, predictions, atol=1e-8)


def test_nystrom_filter_drops_places_that_are_no_longer_visited() -> None:
    rule, rng, previous = NystromFilter(), np.random.default_rng(0), None
    Z = np.column_stack([rng.random((200, 2)), np.arange(200.0)])
    Z[:, 0] += np.where(np.arange(200) < 40, 0.0, 5.0)
    data = Data(Z, np.zeros((200, 1)), np.full(200, 0.1))
    for end in range(20, 201, 20):
        part = data.rows(0, end)
        previous = rule.condition(Conditioning(KERNEL, part, None, float(end), previous, rng))
        assert previous.dictionary.size < 60
    assert previous.dictionary.rows.Z[:, 0].min() > 4.0


def test_growing_dictionary_keeps_its_root_bitwise() -> None:
    """A changed root would make the acquisition evaluate all candidates again."""
    rule, data, previous = NystromFilter(), observations(), None
    for end in (10, 20, 40):
        posterior = rule.condition(
            Conditioning(KERNEL, data.rows(0, end), None, float(end), previous)
        )
        if previous is not None:
            m = previous.dictionary.size
            assert posterior.dictionary.size > m
            root = posterior.dictionary.factor.array[:m, :m]
            np.testing.assert_array_equal(root, previous.dictionary.factor.array)
        previous = posterior

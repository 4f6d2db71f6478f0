"""Scalar filters for arms that resemble nothing: against the dense Gaussian process of every model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvbandits import Arms, load, policies, rate
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.arms import ArmFilters, ArmsPosterior

ARMS = Arms([f"arm {i}" for i in range(5)])
FLAT = 1e5
"""Prior variance of the level in the dense process: all but flat, which is worth 1e-4 of a weight."""


def readings(n: int, seed: int = 0) -> tuple[Array, Any, Array, Array]:
    """Times with repetitions and gaps, arms, values and noise variances."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.choice(np.arange(1.0, 40.0), n))
    rows = rng.integers(4, size=n)  # of the fifth nothing is known
    noise = rng.uniform(0.5, 2.0, n)
    return t, rows, rng.standard_normal(n) + 3.0 + rows, noise


def dense(
    signal: float, scale: float, now: float, t: Array, rows: Any, y: Array, noise: Array
) -> tuple[Array, Array, float]:
    """Mean and covariance of the arms at a time, and the log evidence, of one model."""

    def k(t1: Array, a1: Any, t2: Array, a2: Any) -> Array:
        own = signal * np.exp(-np.abs(t1[:, None] - t2) / scale) * (a1[:, None] == a2)
        return np.asarray(FLAT + own)

    at, arms = np.full(5, now), np.arange(5)
    K, cross = k(t, rows, t, rows) + np.diag(noise), k(at, arms, t, rows)
    inverse = np.linalg.inv(K)
    evidence = -0.5 * (y @ inverse @ y + np.linalg.slogdet(K)[1])
    return cross @ inverse @ y, k(at, arms, at, arms) - cross @ inverse @ cross.T, float(evidence)


def told(bandit: Any, order: Any = None, n: int = 20) -> Any:
    t, rows, y, noise = readings(n)
    for i in np.arange(n) if order is None else order:
        bandit.tell(ARMS.X[rows[[i]]], y[[i]], t[i], noise[[i]])
    bandit.recommend(45.0)
    return bandit


def conditioned(bandit: Any, now: float) -> ArmsPosterior:
    state = bandit._model.conditioned(bandit.state, now, np.random.default_rng(0))
    assert isinstance(state.posterior, ArmsPosterior)
    return state.posterior


def new() -> Any:
    return policies.adaptive_gp_ucb(ARMS, None, 1.0)


def test_beliefs_are_those_of_dense_processes_weighted_by_evidence() -> None:
    now = 45.0
    posterior = conditioned(told(new()), now)
    filters, data = posterior.filters, readings(20)
    priors = 0.25 * np.log(filters.scale / filters.signal)
    each = [dense(s, c, now, *data) for s, c in zip(filters.signal, filters.scale, strict=True)]
    log = np.array([evidence for _, _, evidence in each]) + priors
    weights = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    np.testing.assert_allclose(filters.weights, weights, rtol=1e-3, atol=1e-9)
    mean = sum(w * m for w, (m, _, _) in zip(weights, each, strict=True))
    covariance = sum(
        w * (C + np.outer(m - mean, m - mean)) for w, (m, C, _) in zip(weights, each, strict=True)
    )
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-4)
    np.testing.assert_allclose(filters.covariance(), covariance, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(posterior.variance, np.diagonal(covariance), rtol=1e-4, atol=1e-4)
    Z = np.column_stack([ARMS.X[[4, 1]], [now, now]])
    np.testing.assert_allclose(posterior.predict(Z)[0][:, 0], mean[[4, 1]], atol=1e-4)
    np.testing.assert_allclose(
        posterior.cross_covariance(Z, Z), covariance[np.ix_([4, 1], [4, 1])], rtol=1e-4, atol=1e-4
    )


def test_late_readings_count_at_their_own_time() -> None:
    rng = np.random.default_rng(3)
    in_order = told(new())
    for order in (np.arange(20)[::-1], rng.permutation(20), np.roll(np.arange(20), 3)):
        other = told(new(), order)
        for mine, its in zip(other.predict(ARMS.X, 45), in_order.predict(ARMS.X, 45), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9)


def test_a_look_at_the_past_knows_nothing_of_later() -> None:
    t, rows, y, noise = readings(20)
    early = new()
    early.tell(ARMS.X[rows[:8]], y[:8], t[:8], noise[:8])
    late = conditioned(told(new()), float(t[7]))
    both = late.filters.time, conditioned(early, float(t[7])).mean
    assert both[0] == t[7] < t[8]
    np.testing.assert_allclose(late.mean, both[1], rtol=1e-9)


def test_draws_have_the_covariance_of_the_mixture() -> None:
    posterior = conditioned(told(new()), 45.0)
    drawn = posterior.samples(posterior.surface, 200_000, np.random.default_rng(0))
    error = 4 * np.sqrt(posterior.variance / 200_000)
    assert (np.abs(drawn.mean(axis=0)) < error).all()
    np.testing.assert_allclose(np.cov(drawn.T), posterior.filters.covariance(), rtol=0.1, atol=0.1)


def test_readings_to_come_lower_variances_as_conditioning_does() -> None:
    posterior = conditioned(told(new()), 45.0)
    Z = np.column_stack([ARMS.X[[2, 2, 4]], np.full(3, 45.0)])
    shrunk = posterior.shrunk(Z, 0.7, posterior.surface)
    C = posterior.filters.covariance()
    G = C[:, [2, 2, 4]]
    left = C - G @ np.linalg.solve(C[np.ix_([2, 2, 4], [2, 2, 4])] + 0.7 * np.eye(3), G.T)
    np.testing.assert_allclose(shrunk.variance, np.diagonal(left), rtol=1e-8)
    one = posterior.shrunk(Z[:1], 0.7, posterior.surface).shrunk(Z[1:2], 0.7, posterior.surface)
    both = posterior.shrunk(Z[:2], 0.7, posterior.surface)
    np.testing.assert_allclose(one.variance, both.variance, rtol=1e-8)


def test_what_lasts_is_what_later_readings_would_tell() -> None:
    """Brute force: the dense variance that 4,000 readings of all later steps take away."""
    filters = ArmFilters.of(1, 2.0, 0, 1.0).observed(
        0.0, np.array([0]), np.zeros(1), np.full(1, 9.0)
    )
    for m in (0, 7, 20):
        signal, scale = filters.signal[m], filters.scale[m]
        kept = math.exp(-1.0 / scale)
        known = filters.variance[m, 0]  # of now; what comes is an AR(1) from there
        precision = 0.0
        for _ in range(4000):
            precision += 1 / 2.0
            precision = kept**2 * precision / (1 + signal * (1 - kept**2) * precision)
        expected = known**2 / (known + 1 / precision)
        alone = ArmFilters(
            0.0, *(each[[m]] for each in (filters.signal, filters.scale, filters.mean)),
            np.ones((1, 1)), filters.variance[[m]], np.ones(1), np.zeros(1), np.zeros(1),
        )  # fmt: skip
        np.testing.assert_allclose(alone.lasting(2.0, 1.0), [expected], rtol=1e-6)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e4])
def test_the_unit_of_rewards_and_of_time_do_not_matter(unit: float) -> None:
    t, rows, y, noise = readings(20)
    plain, scaled = told(new()), new()
    for i in range(20):
        scaled.tell(ARMS.X[rows[[i]]], unit * y[[i]], 60 * t[i], unit**2 * noise[[i]])
    mean, deviation = plain.predict(ARMS.X, 45.0)
    its, wide = scaled.predict(ARMS.X, 60 * 45.0)
    np.testing.assert_allclose(its, unit * mean, rtol=1e-8)
    np.testing.assert_allclose(wide, unit * deviation, rtol=1e-8)


def test_it_plays_on_from_a_file_bit_for_bit(tmp_path: Path) -> None:
    bandit = told(new())
    bandit.save(tmp_path / "kept")
    again: Any = load(tmp_path / "kept")
    for t in range(46, 50):
        X = bandit.ask(t)
        np.testing.assert_array_equal(again.ask(t), X)
        for each in (bandit, again):
            each.tell(X, [3.0], t)


def test_traffic_goes_to_the_best_arm() -> None:
    """Eight banners of which one converts: a hundred visits at once, ten times."""
    banners, rng = Arms([f"b{i}" for i in range(8)]), np.random.default_rng(0)
    converts = np.array([0.02] * 7 + [0.2])
    bandit = policies.adaptive_gp_ucb(banners, None, 0.04)
    for t in range(1, 11):
        shown = np.bincount(banners.index(bandit.ask(t, n=100)), minlength=8)
        bandit.drop(bandit.pending)
        bandit.tell(banners.X, rate(rng.binomial(shown, converts), shown), t)
    assert shown[7] >= 95

"""Filters of independent arms against dense Gaussian processes, weighted by evidence."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.views import condition
from tvbandits import Arms, Bandit, policies
from tvbandits.bandit.state import is_same_value
from tvbandits.gp.ensemble.arms import ArmFilters, ArmsPosterior, GridSpec
from tvbandits.validation import Array

ARMS = Arms([f"arm {i}" for i in range(5)])
# Prior variance of the level in the dense process: nearly flat, to 1e-4 of a weight.
FLAT = 1e5


def readings(n: int, seed: int = 0) -> tuple[Array, Any, Array, Array]:
    """Return times with repetitions and gaps, arms, values and noise variances."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.choice(np.arange(1.0, 40.0), n))
    rows = rng.integers(4, size=n)  # the fifth is never read
    noise = rng.uniform(0.5, 2.0, n)
    return t, rows, rng.standard_normal(n) + 3.0 + rows, noise


def dense(
    signal: float, scale: float, now: float, t: Array, rows: Any, y: Array, noise: Array
) -> tuple[Array, Array, float]:
    """Return mean and covariance of the arms at a time, and the log evidence, of one model."""

    def k(t1: Array, a1: Any, t2: Array, a2: Any) -> Array:
        own = signal * np.exp(-np.abs(t1[:, None] - t2) / scale) * (a1[:, None] == a2)
        return np.asarray(FLAT + own)

    at, arms = np.full(5, now), np.arange(5)
    K, cross = k(t, rows, t, rows) + np.diag(noise), k(at, arms, t, rows)
    inverse = np.linalg.inv(K)
    evidence = -0.5 * (y @ inverse @ y + np.linalg.slogdet(K)[1])
    return cross @ inverse @ y, k(at, arms, at, arms) - cross @ inverse @ cross.T, float(evidence)


def bandit_with_readings(bandit: Any, order: Any = None, n: int = 20) -> Any:
    t, rows, y, noise = readings(n)
    for i in np.arange(n) if order is None else order:
        bandit.tell(ARMS.X[rows[[i]]], y[[i]], t[i], noise[[i]])
    bandit.recommend(45.0)
    return bandit


def posterior_at(bandit: Any, now: float) -> ArmsPosterior:
    return condition(bandit, now)[1].posterior


def arms_bandit() -> Any:
    return policies.adaptive_gp_ucb(ARMS, noise_variance=1.0)


def test_arms_posterior_is_a_mixture_of_dense_processes() -> None:
    now = 45.0
    posterior = posterior_at(bandit_with_readings(arms_bandit()), now)
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
        posterior.covariance(Z, Z), covariance[np.ix_([4, 1], [4, 1])], rtol=1e-4, atol=1e-4
    )


def test_arms_posterior_counts_late_readings_at_their_own_time() -> None:
    rng = np.random.default_rng(3)
    in_order = bandit_with_readings(arms_bandit())
    for order in (np.arange(20)[::-1], rng.permutation(20), np.roll(np.arange(20), 3)):
        other = bandit_with_readings(arms_bandit(), order)
        np.testing.assert_allclose(
            other.predict(ARMS.X, 45), in_order.predict(ARMS.X, 45), rtol=1e-9
        )


def test_arms_posterior_of_the_past_ignores_later_readings() -> None:
    t, rows, y, noise = readings(20)
    early = arms_bandit()
    early.tell(ARMS.X[rows[:8]], y[:8], t[:8], noise[:8])
    late = posterior_at(bandit_with_readings(arms_bandit()), float(t[7]))
    both = late.filters.time, posterior_at(early, float(t[7])).mean
    assert both[0] == t[7] < t[8]
    np.testing.assert_allclose(late.mean, both[1], rtol=1e-9)


def test_arms_posterior_samples_have_the_covariance_of_the_mixture() -> None:
    posterior = posterior_at(bandit_with_readings(arms_bandit()), 45.0)
    samples = posterior.sample(posterior.grid, 200_000, np.random.default_rng(0))
    error = 4 * np.sqrt(posterior.variance / 200_000)
    assert (np.abs(samples.mean(axis=0)) < error).all()
    np.testing.assert_allclose(
        np.cov(samples.T), posterior.filters.covariance(), rtol=0.1, atol=0.1
    )


def test_arms_posterior_fantasize_lowers_variances_as_conditioning() -> None:
    posterior = posterior_at(bandit_with_readings(arms_bandit()), 45.0)
    Z = np.column_stack([ARMS.X[[2, 2, 4]], np.full(3, 45.0)])
    fantasy = posterior.fantasize(Z, 0.7, posterior.grid)
    C = posterior.filters.covariance()
    G = C[:, [2, 2, 4]]
    expected = C - G @ np.linalg.solve(C[np.ix_([2, 2, 4], [2, 2, 4])] + 0.7 * np.eye(3), G.T)
    np.testing.assert_allclose(fantasy.variance, np.diagonal(expected), rtol=1e-8)
    one = posterior.fantasize(Z[:1], 0.7, posterior.grid).fantasize(Z[1:2], 0.7, posterior.grid)
    both = posterior.fantasize(Z[:2], 0.7, posterior.grid)
    np.testing.assert_allclose(one.variance, both.variance, rtol=1e-8)


def test_persistent_variance_is_what_later_readings_remove() -> None:
    """The oracle is the dense variance that 4,000 readings of all later steps remove."""
    filters = ArmFilters.of(1, GridSpec(2.0, 0, 1.0)).update(
        0.0, np.array([0]), np.zeros(1), np.full(1, 9.0)
    )
    for m in (0, 7, 20):
        signal, scale = filters.signal[m], filters.scale[m]
        decay = math.exp(-1.0 / scale)
        variance = filters.variance[m, 0]  # of now; later differences are an AR(1)
        precision = 0.0
        for _ in range(4000):
            precision += 1 / 2.0
            precision = decay**2 * precision / (1 + signal * (1 - decay**2) * precision)
        expected = variance**2 / (variance + 1 / precision)
        one = np.where(np.arange(len(filters.signal)) == m, 0.0, -np.inf)
        certain, none = np.ones_like(filters.sensitivity), np.zeros(len(one))
        alone = replace(
            filters, sensitivity=certain, precision=none + 1.0, product=none, evidence=one
        )
        np.testing.assert_allclose(
            alone.persistent_variance(GridSpec(2.0, 0, 1.0)), [expected], rtol=1e-6
        )


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e4])
def test_arms_posterior_ignores_units_of_rewards_and_time(unit: float) -> None:
    t, rows, y, noise = readings(20)
    plain, scaled = bandit_with_readings(arms_bandit()), arms_bandit()
    for i in range(20):
        scaled.tell(ARMS.X[rows[[i]]], unit * y[[i]], 60 * t[i], unit**2 * noise[[i]])
    mean, deviation = plain.predict(ARMS.X, 45.0)
    scaled_mean, scaled_deviation = scaled.predict(ARMS.X, 60 * 45.0)
    np.testing.assert_allclose(scaled_mean, unit * mean, rtol=1e-8)
    np.testing.assert_allclose(scaled_deviation, unit * deviation, rtol=1e-8)


def test_continued_arms_posterior_is_bitwise_a_new_start() -> None:
    """Readings include parts of one time, late ones, two times at once, and a huge value."""
    bandit, rng, reuses = bandit_with_readings(arms_bandit()), np.random.default_rng(0), 0
    for t in range(46, 186):
        before = bandit.state
        X = bandit.ask(t)
        fresh = Bandit.from_state(bandit.recipe, before)
        np.testing.assert_array_equal(fresh.ask(t), X)
        assert is_same_value(posterior_at(fresh, t).mean, posterior_at(bandit, t).mean)
        reuses += posterior_at(bandit, t).data.storage is not None
        y = 50.0 if t == 160 else rng.standard_normal()
        bandit.tell(X, [y], t - {4: 0.5, 7: 3}.get(t % 20, 0))
        if t % 20 in (4, 5, 15):
            bandit.tell(ARMS.X[:1], [y], t)
    assert reuses > 60

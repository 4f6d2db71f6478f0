from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, multivariate_normal
from sklearn.gaussian_process.kernels import RBF, Matern

from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.gp.fitting import noise
from tvbandits.gp.fitting.noise import due, estimated_noise, first_guess, readings_for_noise
from tvbandits.gp.kernels.space_time import Drift, OnSpace


def unknown(X: Array, t: Array, y: Array) -> Observations:
    return Observations.checked(X, t, y, np.full(len(y), np.nan))


def drifting(n: int, seed: int, variance: float) -> Observations:
    """Readings of a draw of the model, at random points."""
    rng = np.random.default_rng(seed)
    X, t = rng.uniform(0.0, 10.0, (n, 1)), np.arange(float(n))
    K = RBF(2.0)(X) * np.exp(-np.abs(t[:, None] - t) / 40.0)
    f = np.linalg.cholesky(K + 1e-10 * np.eye(n)) @ rng.standard_normal(n)
    return unknown(X, t, 7.0 + 3.0 * f + np.sqrt(variance) * rng.standard_normal(n))


def test_repeats_of_one_place_and_time_give_the_chi_square_law() -> None:
    n = 101
    y = np.random.default_rng(3).normal(20.0, 0.7, n)
    found = estimated_noise(RBF(1.0), unknown(np.zeros((n, 2)), np.full(n, 4.0), y))
    squares = float(((y - y.mean()) ** 2).sum())
    expected = [squares / (n - 3), *(squares / chi2.ppf([0.975, 0.025], n - 1))]
    np.testing.assert_allclose([found.variance, found.low, found.high], expected, rtol=0.03)
    assert found.readings == n


def test_what_differs_between_neighbours_is_no_noise_where_the_reward_may_be_rough() -> None:
    rng, smooth, rough = np.random.default_rng(5), RBF(2.0), Matern(2.0, nu=0.5)
    X, y, truth = rng.uniform(0.0, 10.0, (80, 1)), rng.standard_normal(80), 0.01
    y = np.linalg.cholesky(rough(X) + truth * np.eye(80)) @ y
    seen = unknown(X, np.arange(80.0), y)
    one, both, known = (
        estimated_noise(kernel, seen, rival=rival).variance
        for kernel, rival in ((smooth, None), (smooth, rough), (rough, None))
    )
    assert one > 5.0 * both
    assert both == pytest.approx(known, rel=0.05)
    assert estimated_noise(smooth, seen, rival=smooth).variance == pytest.approx(one)
    agree = drifting(40, 2, 0.5)
    assert estimated_noise(RBF(2.0), agree, rival=rough).variance == pytest.approx(
        estimated_noise(RBF(2.0), agree).variance, rel=0.1
    )


@pytest.mark.parametrize("mean", [None, 6.0])
def test_the_posterior_is_that_of_dense_densities(mean: float | None) -> None:
    seen = drifting(12, 1, 0.5)
    kernel = 2.0 * RBF(2.0)
    values = seen.y - (seen.y.mean() if mean is None else mean)
    unit = float(np.mean(values**2)) if mean is None else 2.0
    sizes = unit * noise.SIZES if mean is None else [2.0]
    grid = np.geomspace(1e-6 * unit, 30 * max(unit, float(np.mean(values**2))), 201)
    logs = np.zeros((len(noise.MEMORIES), len(sizes), len(grid)))
    for i, memory in enumerate(noise.MEMORIES):
        forgotten = np.exp(-np.abs(seen.t[:, None] - seen.t) / memory)
        for j, size in enumerate(sizes):
            K = size * (RBF(2.0)(seen.X) * forgotten + (noise.MEAN if mean is None else 0.0))
            for k, variance in enumerate(grid):
                law = multivariate_normal(cov=K + variance * np.eye(12), allow_singular=True)
                off = (np.log(variance / size) - np.log(noise.SHARE)) / noise.SPREAD
                logs[i, j, k] = law.logpdf(values) - off**2 / 2
    density = np.exp(logsumexp(logs, axis=(0, 1)) - logsumexp(logs))
    found = estimated_noise(kernel, seen, mean)
    assert found.variance == pytest.approx(density @ grid, rel=1e-5)
    assert found.low < found.variance < found.high


def test_intervals_hold_under_a_drift_that_nobody_states() -> None:
    found = [estimated_noise(RBF(2.0), drifting(100, seed, 0.5)) for seed in range(40)]
    assert np.mean([each.low <= 0.5 <= each.high for each in found]) >= 0.9
    assert np.exp(np.mean(np.log([each.variance for each in found]))) == pytest.approx(0.5, rel=0.4)


def test_time_is_held_still_in_a_kernel_that_sees_it() -> None:
    seen = drifting(20, 2, 0.1)
    plain = estimated_noise(RBF(2.0), seen)
    assert estimated_noise(OnSpace(RBF(2.0)) * Drift(0.3), seen) == plain


def test_the_estimate_scales_with_the_square_of_the_unit() -> None:
    seen = drifting(30, 5, 0.2)
    small = estimated_noise(RBF(2.0), seen)
    large = estimated_noise(RBF(2.0), unknown(seen.X, seen.t, 1e6 * seen.y))
    assert large.variance == pytest.approx(1e12 * small.variance, rel=1e-6)


@pytest.mark.parametrize("y", [[0.0], [5.0], [5.0, 5.0, 5.0], [1e-200], [0.0, 1e40]])
def test_few_or_equal_readings_give_a_positive_number(y: list[float]) -> None:
    n = len(y)
    found = estimated_noise(RBF(2.0), unknown(np.zeros((n, 1)), np.arange(float(n)), np.array(y)))
    assert 0 < found.low < found.variance < found.high


def test_only_readings_without_a_variance_count() -> None:
    seen = drifting(20, 6, 0.2)
    stated = Observations(seen.X, seen.t, seen.y + 9.0, np.full(20, 0.3))
    assert estimated_noise(RBF(2.0), stated.append(seen)) == estimated_noise(RBF(2.0), seen)


def test_of_many_readings_repeats_and_the_latest_are_looked_at() -> None:
    t = np.concatenate([np.repeat(np.arange(40.0), 2), np.arange(40.0, 340.0)])
    seen = unknown(np.zeros((len(t), 1)), t, np.arange(float(len(t))))
    rows = readings_for_noise(seen)
    assert len(rows) == noise.MOST
    assert set(rows) == {*range(80 - noise.MOST // 2, 80), *range(380 - noise.MOST // 2, 380)}


def test_it_is_due_at_every_doubling() -> None:
    assert [n for n in range(1, 2000) if due(n - 1, n)] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert due(5, 9)
    assert due(0, 100)
    assert not due(9, 15)
    assert not due(300, 600)


def test_the_first_guess_is_the_prior() -> None:
    guess = first_guess(4.0)
    assert guess.variance == pytest.approx(4.0 * noise.SHARE)
    assert guess.low < guess.variance < guess.high


def test_it_says_how_sure_it_is() -> None:
    assert str(noise.NoiseEstimate(0.8, 0.5, 1.3, 64)) == "0.8 (0.5 to 1.3), from 64 readings"
    assert str(noise.NoiseEstimate(0.05, 0.001, 2.5)) == "0.05 (0.001 to 2.5), before any reading"

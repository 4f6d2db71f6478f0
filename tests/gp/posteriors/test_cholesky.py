from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from tests.oracles.cases import random_case
from tests.oracles.dense import Dense
from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.core.linalg import FactorisationError
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import NEGLIGIBLE, Data

modest = settings(deadline=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)


def condition(kernel: Kernel, Z: Array, Y: Array, variance: Array) -> ExactPosterior:
    return Factored().condition(kernel, Data(Z, Y if Y.ndim == 2 else Y[:, None], variance))


@pytest.mark.parametrize("block", range(4))
def test_eighty_cases_equal_sklearn_and_the_dense_inverse(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        kernel, Z, y, variance, X = random_case(seed)
        made = condition(kernel, Z, y, variance)
        mean, var = made.predict(X)
        peer = GaussianProcessRegressor(kernel, alpha=variance, optimizer=None).fit(Z, y)
        peer_mean, peer_sd = peer.predict(X, return_std=True)
        size = max(1.0, float(kernel.diag(X).max()))
        np.testing.assert_allclose(mean[:, 0], peer_mean, rtol=0, atol=1e-8 * size)
        np.testing.assert_allclose(np.sqrt(var), peer_sd, rtol=0, atol=1e-8 * size)
        dense = Dense(kernel, Z, y[:, None], variance)
        np.testing.assert_allclose(mean, dense.mean(X), atol=1e-7 * size)
        covariance = dense.covariance(X, X)
        np.testing.assert_allclose(var, np.diagonal(covariance), atol=1e-7 * size)
        np.testing.assert_allclose(made.covariance(X), covariance, atol=1e-7 * size)
        evidence = peer.log_marginal_likelihood_value_
        assert made.log_evidence()[0] == pytest.approx(evidence, rel=1e-8, abs=1e-7)
        ratio = np.linalg.slogdet(np.eye(len(Z)) + kernel(Z) / variance[:, None])[1]
        assert made.log_det_ratio == pytest.approx(ratio, rel=1e-9, abs=1e-9)
        assert made.size == len(np.unique(Z, axis=0))
        assert made.jitter == 0.0


@modest
@given(seeds)
def test_the_condition_number_is_a_lower_estimate(seed: int) -> None:
    kernel, Z, y, variance, _ = random_case(seed)
    made = condition(kernel, Z, y, variance)
    true = np.linalg.cond(kernel(made.rows.Z) + np.diag(made.rows.variance))
    assert 1.0 <= made.condition_number <= true * (1 + 1e-6)


def test_the_condition_number_follows_the_scales_of_the_noise() -> None:
    Z = np.array([[0.0], [100.0]])
    made = condition(RBF(1.0), Z, np.zeros(2), np.array([9.0, 99.0]))
    assert made.condition_number == pytest.approx(10.0)


def test_negligible_observations_cost_nothing_and_change_nothing() -> None:
    rng = np.random.default_rng(3)
    kernel, Z, y = 2.0 * RBF(0.3), rng.random((20, 1)), rng.standard_normal(20)
    variance = np.full(20, 0.1)
    limit = NEGLIGIBLE * 2.0
    at, above = variance.copy(), variance.copy()
    at[::2], above[::2] = limit, limit * 1.001
    X = rng.random((9, 1))
    left_out = condition(kernel, Z, y, above)
    alone = condition(kernel, Z[1::2], y[1::2], variance[1::2])
    assert left_out.size == len(left_out.data) == 10
    assert condition(kernel, Z, y, at).size == 20
    for a, b, c in zip(
        left_out.predict(X),
        alone.predict(X),
        condition(kernel, Z, y, at).predict(X),
        strict=True,
    ):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, c, atol=1e-14)


def test_all_observations_may_be_negligible() -> None:
    made = condition(RBF(1.0), np.zeros((3, 1)), np.ones(3), np.full(3, 1e30))
    assert made.size == 0
    assert made.predict(np.zeros((1, 1)))[1].tolist() == [1.0]


# Numerics.


def test_plus_and_minus_zero_are_one_input() -> None:
    made = condition(RBF(1.0), np.array([[0.0], [-0.0]]), np.array([1.0, 3.0]), np.full(2, 1e-12))
    assert made.size == 1
    assert made.predict(np.zeros((1, 1)))[0][0, 0] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("noise", [1e-12, 0.1])
def test_length_scales_far_above_the_domain_make_a_constant(noise: float) -> None:
    rng = np.random.default_rng(6)
    Z, y = rng.random((25, 2)), 1.5 + np.sqrt(noise) * rng.standard_normal(25)
    made = condition(RBF(1e7), Z, y, np.full(25, noise))
    mean, var = made.predict(rng.random((4, 2)))
    np.testing.assert_allclose(mean, y.sum() / (25 + noise), rtol=1e-3)
    np.testing.assert_allclose(var, noise / (25 + noise), atol=1e-6)


def test_jitter_is_reported() -> None:
    rng = np.random.default_rng(7)
    Z, y = rng.random((40, 1)), np.ones(40)
    made = condition(RBF(10.0), Z, y, np.full(40, 1e-18))
    assert made.jitter in linalg.JITTERS[1:]
    np.testing.assert_allclose(made.predict(rng.random((5, 1)))[0], 1.0, atol=1e-3)


def test_length_scales_far_below_the_domain_make_points_independent() -> None:
    Z, y = np.linspace(0.0, 1.0, 10)[:, None], np.arange(10.0)
    made = condition(4.0 * RBF(1e-8), Z, y, np.full(10, 1.0))
    mean, var = made.predict(np.vstack([Z, Z + 0.05]))
    np.testing.assert_allclose(mean[:, 0], np.r_[y * 0.8, np.zeros(10)], atol=1e-12)
    np.testing.assert_allclose(var, [0.8] * 10 + [4.0] * 10)
    assert made.log_det_ratio == pytest.approx(10 * math.log(5.0))


class _Broken(RBF):  # type: ignore[misc]
    """No covariance: similar points repel each other."""

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        K = super().__call__(X, Y, eval_gradient)
        return 2.0 - K

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (_Broken(0.3), r"noisy kernel matrix of shape \(5, 5\).*valid covariance"),
        (ConstantKernel(np.inf) * RBF(1.0), r"noisy kernel matrix of shape \(5, 5\).*not finite"),
    ],
)
def test_a_kernel_that_is_none_is_refused_with_the_reason(kernel: Kernel, message: str) -> None:
    Z = np.linspace(0.0, 1.0, 5)[:, None]
    with pytest.raises(FactorisationError, match=message):
        condition(kernel, Z, np.zeros(5), np.full(5, 1e-3))

"""The first dictionary of many inputs: scores, sizes, and the posterior on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tvbandits import policies
from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import Candidates
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.posteriors.cholesky import Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.nystrom import Nystrom, leverage_dictionary, leverage_scores
from tvbandits.gp.posteriors.sparse import NystromPosterior

CASES: dict[str, tuple[Kernel, int, int, float]] = {
    "smooth": (RBF(0.2), 1000, 2, 0.01),
    "noisy": (RBF(0.2), 1000, 2, 1.0),
    "rough": (Matern(0.3, nu=0.5), 600, 2, 1.0),
    "nearly noise-free": (RBF(0.1), 1000, 1, 1e-6),
    "scaled": (ConstantKernel(1e4) * Matern(0.5, nu=1.5), 1000, 3, 1e5),
    "space and time": (OnSpace(RBF(0.3)) * OnTime(RBF(0.5)), 1000, 3, 0.1),
    "linear": (DotProduct(0.5), 1000, 3, 0.1),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def drawn(case: tuple[Kernel, int, int, float], seed: int = 0) -> tuple[Kernel, Array, Array]:
    """A kernel, inputs of which a few lie apart, and unequal noise variances."""
    kernel, u, d, noise = case
    rng = np.random.default_rng(seed)
    Z = rng.random((u, d))
    Z[: u // 50] += 3.0
    return kernel, Z, noise * 10 ** rng.uniform(-0.5, 0.5, u)


def exact_scores(kernel: Kernel, Z: Array, variance: Array) -> Array:
    """The diagonal of K (K + Sigma)^-1."""
    K = kernel(Z)
    return np.asarray(np.diagonal(np.linalg.solve(K + np.diag(variance), K)))


@every_case
def test_its_size_is_the_expected_one(case: tuple[Kernel, int, int, float]) -> None:
    kernel, Z, variance = drawn(case)
    scores = exact_scores(kernel, Z, variance)
    for q in (0.5, 2.0, 8.0):
        expected = np.minimum(1.0, q * scores).sum()
        sizes = [
            len(leverage_dictionary(kernel, Z, variance, q, np.random.default_rng(seed)))
            for seed in range(3)
        ]
        assert abs(np.mean(sizes) - expected) < 0.25 * expected + 3 * np.sqrt(expected)


def test_scores_of_a_dictionary_of_everything_are_exact() -> None:
    kernel, Z, variance = drawn((Matern(0.3, nu=1.5), 80, 2, 0.3))
    found = leverage_scores(kernel, Z, variance, np.arange(80))
    np.testing.assert_allclose(found, exact_scores(kernel, Z, variance), rtol=1e-8)
    none = leverage_scores(kernel, Z, variance, np.empty(0, dtype=np.int64))
    np.testing.assert_allclose(none, 1.0 / variance)


def test_a_point_is_kept_with_its_probability() -> None:
    # Ten observed regions of their own: the score of each input is 1 / (v + 1).
    Z = np.arange(10.0)[:, None]
    variance = np.linspace(0.5, 20.0, 10)
    counts, draws = np.zeros(10), 4000
    rng = np.random.default_rng(5)
    for _ in range(draws):
        counts[leverage_dictionary(RBF(1e-3), Z, variance, 1.5, rng)] += 1
    # On a dictionary without it, an input's score is up to 1 / v, that of the last level 1 / (v + 1).
    low, high = np.minimum(1, 1.5 / (variance + 1)), np.minimum(1, 1.5 / variance)
    error = 4 * np.sqrt(0.25 / draws)
    assert (counts / draws > low - error).all()
    assert (counts / draws < high + error).all()
    assert counts[0] == draws


@pytest.mark.slow
def test_the_sparse_posterior_of_3000_inputs_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(3)
    kernel, Z = RBF(0.15), rng.random((3000, 2))
    variance = 0.1 * 10 ** rng.uniform(-0.5, 0.5, 3000)
    y = np.sin(9 * Z[:, 0]) * np.cos(7 * Z[:, 1]) + np.sqrt(variance) * rng.standard_normal(3000)
    data = Data(Z, y[:, None], variance)
    made = Nystrom(oversampling=2.0).condition(kernel, data, rng=rng)
    assert isinstance(made, NystromPosterior)
    scores = exact_scores(kernel, Z, variance)
    assert 0.5 * scores.sum() < made.dictionary_size < 3 * scores.sum()
    tests = np.vstack([rng.random((300, 2)), Z[:300], rng.random((20, 2)) + 1.0])
    means, found = made.predict(tests)
    exact = Factored().condition(kernel, data)
    expected, right = exact.predict(tests)
    assert (found / right).min() > 1 / 3
    assert (found / right).max() < 3
    assert (np.abs(means - expected)[:, 0] < np.sqrt(right)).all()
    assert 0.9 < made.log_det_ratio / exact.log_det_ratio <= 1.0


def test_no_matrix_of_all_inputs_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0

    class Watched(RBF):  # type: ignore[misc]
        def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
            nonlocal largest
            largest = max(largest, len(X) * len(X if Y is None else Y))
            return super().__call__(X, Y, eval_gradient)

    factored: list[int] = []
    cholesky = linalg.cholesky

    def watched(A: Array) -> linalg.Cholesky:
        factored.append(len(A))
        return cholesky(A)

    monkeypatch.setattr(linalg, "cholesky", watched)
    rng = np.random.default_rng(0)
    u = 20_000
    rows = leverage_dictionary(Watched(0.3), rng.random((u, 2)), np.full(u, 1.0), 2.0, rng)
    assert len(rows) < 200
    assert largest < 300 * u
    assert max(factored) < 300


# --- few inputs, repeated inputs, strange ones ----------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.sampled_from([1e-12, 1e-3, 1.0, 1e3, 1e12]),
    st.sampled_from([1e-3, 0.5, 2.0, 1e6]),
)
def test_never_empty_never_repeated(seed: int, u: int, noise: float, q: float) -> None:
    rng = np.random.default_rng(seed)
    Z = rng.random((u, 2))
    if seed % 2:
        Z = Z[rng.integers(0, max(1, u // 3), u)]
    variance = noise * 10 ** rng.uniform(-1, 1, u)
    rows = leverage_dictionary(RBF(0.3), Z, variance, q, rng)
    assert 1 <= len(rows) <= u
    assert (np.diff(rows) > 0).all()
    assert rows.min() >= 0
    assert rows.max() < u


def test_no_inputs() -> None:
    rows = leverage_dictionary(RBF(), np.empty((0, 2)), np.empty(0), 2.0, np.random.default_rng(0))
    assert (rows.shape, rows.dtype) == ((0,), np.dtype(np.int64))


def test_inputs_of_no_prior_variance() -> None:
    kernel = DotProduct(0.0, "fixed")
    Z = np.zeros((600, 2))
    assert len(leverage_dictionary(kernel, Z, np.ones(600), 2.0, np.random.default_rng(0))) == 1
    Z[7] = 1.0
    assert leverage_dictionary(kernel, Z, np.full(600, 0.1), 2.0, np.random.default_rng(0)) == [7]


def test_repeated_inputs_share_their_scores() -> None:
    rng = np.random.default_rng(2)
    Z = np.repeat(rng.random((40, 2)), 30, axis=0)
    variance = np.full(1200, 3.0)
    merged = exact_scores(RBF(0.3), Z[::30], variance[::30] / 30)
    sizes = [
        len(leverage_dictionary(RBF(0.3), Z, variance, 1.0, np.random.default_rng(seed)))
        for seed in range(5)
    ]
    assert np.mean(sizes) == pytest.approx(merged.sum(), rel=0.3)
    # A dictionary of the sparse posterior has each point once.
    made = Nystrom().condition(RBF(0.3), Data(Z, np.ones((1200, 1)), variance), rng=rng)
    assert len(np.unique(made.dictionary.rows.Z, axis=0)) == made.dictionary_size <= 40


# --- where it is used -----------------------------------------------------------------------------


def test_a_bandit_that_starts_with_existing_data() -> None:
    points = np.random.default_rng(1).random((2500, 2))
    value = np.sin(5 * points[:, 0]) + points[:, 1]
    bandit = policies.bkb(Candidates(points), RBF(0.3), 0.05, confidence=1.0, seed=2)
    noise = np.random.default_rng(2).normal(0.0, 0.2, 2000)
    bandit.tell(points[:2000], value[:2000] + noise, t=0.0)
    x = bandit.ask(1.0)[0]
    size = bandit.info.posterior.dictionary_size
    assert size is not None
    assert 10 < size < 150
    assert np.sin(5 * x[0]) + x[1] > value.max() - 0.15
    mean, deviation = bandit.predict(points)
    assert np.abs(mean - value).max() < 0.3
    assert (np.abs(mean - value) < 4 * deviation).mean() > 0.98

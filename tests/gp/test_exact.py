"""Each way of computing the exact posterior gives that of a new factorisation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from tests.oracles.cases import random_case
from tests.oracles.dense import Dense, assert_alike
from tvbandits import Candidates, Dataset, Exact
from tvbandits.forgetting.aging import Ages, Aging, Exponential, Linear, Wiener
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import (
    CONFIG,
    ExactPosterior,
    condition_by_cholesky,
    find_spanning_dictionary,
    find_spanning_state,
)
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.space_time import Drift, OnSpace, space_time
from tvbandits.gp.linalg import FactorisationError
from tvbandits.gp.posterior import NOISE_LIMITS, CandidateGrid, Conditioning, Data
from tvbandits.gp.sparse import SparsePosterior
from tvbandits.gp.state_space import StateSpacePosterior
from tvbandits.validation import Array

LINE = np.linspace(-50, 50, 401)[:, None]
SQUARE = Candidates.grid([(0.0, 1.0), (0.0, 2.0)], [17, 19]).X
LOW_RANK: dict[str, tuple[Kernel, Array]] = {
    "line": (RBF(8.0), LINE),
    "shifted line": (2.0 * RBF(8.0) + ConstantKernel(0.5), LINE + 1e4),
    "square": (3.0 * RBF([0.6, 1.2]), SQUARE),
    "tiny unit": (1e-8 * RBF([0.6, 1.2]), SQUARE),
}
HIGH_RANK: dict[str, tuple[Kernel, Array]] = {
    "rough line": (Matern(3.0, nu=0.5), LINE),
    "narrow square": (RBF(0.05), SQUARE),
}
AGINGS: dict[str, Aging] = {"linear": Linear(0.1), "wiener": Wiener(0.02), "w": Exponential(0.97)}


def assert_same(posterior: Any, fresh: ExactPosterior, grid: CandidateGrid, at: Array) -> None:
    """Check means to 1e-9 of the largest mean, variances to 1e-9 of the prior variance."""
    for where in (grid, at):
        one, other = (p.predict(where) for p in (posterior, fresh))
        np.testing.assert_allclose(one[0], other[0], rtol=0, atol=1e-9 * np.abs(other[0]).max())
        prior = float(fresh.kernel.diag(at).max())
        np.testing.assert_allclose(one[1], other[1], rtol=0, atol=1e-9 * prior)
    assert posterior.summary.log_det_ratio == pytest.approx(fresh.summary.log_det_ratio, rel=1e-9)
    np.testing.assert_allclose(posterior.summary.products, fresh.summary.products, rtol=1e-8)
    assert posterior.summary.effective_dimension() == pytest.approx(
        fresh.summary.effective_dimension(), rel=1e-8
    )


def play(kernel: Kernel, points: Array, map_: Aging, steps: int, *, check: int = 10) -> list[Any]:
    """Return the posteriors of a run whose effective variances change at every step."""
    grid, rng = CandidateGrid(kernel, points), np.random.default_rng(4)
    unit = float(kernel.diag(points[:1])[0])
    X = points[rng.integers(len(points), size=steps)]
    y, v = rng.standard_normal(steps) * np.sqrt(unit), rng.uniform(0.005, 0.05, steps)
    p, all_ = None, []
    for t in range(1, steps + 1):
        observations = Dataset(X[:t], np.arange(float(t)), y[:t], v[:t])
        variance = map_(observations.variance, Ages.of(observations, float(t))) * unit
        data = Data(X[:t], np.stack([y[:t], np.ones(t)], axis=1), variance)
        p = Exact().condition(Conditioning(kernel, data, grid, float(t), p))
        all_.append(p)
        if t % check == 0:
            assert_same(p, condition_by_cholesky(kernel, data, grid=grid), grid, points)
    return all_


@pytest.mark.parametrize("map_", AGINGS.values(), ids=AGINGS.keys())
@pytest.mark.parametrize(("kernel", "points"), LOW_RANK.values(), ids=LOW_RANK.keys())
def test_exact_with_a_spanning_dictionary_equals_a_factorisation(
    kernel: Kernel, points: Array, map_: Aging
) -> None:
    posteriors = play(kernel, points, map_, 240)
    sparse = [isinstance(p, SparsePosterior) for p in posteriors]
    assert not any(sparse[: CONFIG.few - 1])
    assert all(sparse[-60:])
    assert posteriors[-1].summary.exact
    assert posteriors[-1].dictionary.size < 120


@pytest.mark.parametrize(("kernel", "points"), HIGH_RANK.values(), ids=HIGH_RANK.keys())
def test_exact_factors_without_a_small_spanning_dictionary(kernel: Kernel, points: Array) -> None:
    assert find_spanning_dictionary(CandidateGrid(kernel, points)) is None
    posteriors = play(kernel, points, Linear(0.1), 100)
    assert all(isinstance(p, ExactPosterior) for p in posteriors)


def test_find_spanning_dictionary_is_none_above_the_largest_rank() -> None:
    """Each of unrelated points is a direction of its own."""
    for n, spanned in ((CONFIG.largest_span, True), (CONFIG.largest_span + 1, False)):
        dictionary = find_spanning_dictionary(
            CandidateGrid(RBF(0.01), np.arange(float(n))[:, None])
        )
        assert (dictionary is not None) == spanned
        assert dictionary is None or dictionary.size == n


def test_spanning_dictionary_predicts_points_off_the_candidates() -> None:
    kernel, points = LOW_RANK["line"]
    p = play(kernel, points, Wiener(0.02), 120)[-1]
    assert isinstance(p, SparsePosterior)
    between, outside = points[:-1] + 0.1, points[-1:] + np.array([[1.0], [5.0], [20.0], [90.0]])
    fresh = condition_by_cholesky(kernel, p.data)
    for at, tolerance in ((between, 1e-9), (outside, 1e-6)):
        for one, other in zip(p.predict(at), fresh.predict(at), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * np.abs(other).max())


def test_exact_factors_observations_off_the_candidates() -> None:
    kernel, points = LOW_RANK["square"]
    grid, rng = CandidateGrid(kernel, points), np.random.default_rng(0)
    X = points[rng.permutation(len(points))[:100]]
    Y, v = rng.standard_normal((100, 2)), rng.uniform(0.01, 0.1, 100)
    on = Exact().condition(Conditioning(kernel, Data(X, Y, v), grid))
    assert isinstance(on, SparsePosterior)
    moved = X.copy()
    moved[50] += 1e-3
    off = Exact().condition(Conditioning(kernel, Data(moved, Y, v), grid, previous=on))
    assert isinstance(off, ExactPosterior)
    assert_same(off, condition_by_cholesky(kernel, Data(moved, Y, v), grid=grid), grid, points)
    # The point -0.0 equals 0.0.
    zero = np.where(X == 0.0, -0.0, X)
    assert isinstance(
        Exact().condition(Conditioning(kernel, Data(zero, Y, v), grid)), SparsePosterior
    )
    # Without candidates, or under a space-time kernel, no dictionary spans the domain.
    assert isinstance(Exact().condition(Conditioning(kernel, Data(X, Y, v))), ExactPosterior)
    moving = OnSpace(kernel) * Drift(0.01)
    data = Data(inputs(moving, X, np.arange(100.0)), Y, v)
    posterior = Exact().condition(Conditioning(moving, data, CandidateGrid(moving, points), 100.0))
    assert isinstance(posterior, ExactPosterior)


@pytest.mark.parametrize(("length", "enough"), [(8.0, CONFIG.few), (3.0, 93)])
def test_exact_factors_few_distinct_inputs(length: float, enough: int) -> None:
    """The limit is CONFIG.few, or the size of the spanning dictionary if that is larger."""
    kernel, rng = RBF(length), np.random.default_rng(0)
    grid = CandidateGrid(kernel, LINE)
    assert max(find_spanning_dictionary(grid).size, CONFIG.few) == enough
    X = LINE[rng.permutation(len(LINE))]
    for n, kind in ((enough - 1, ExactPosterior), (enough, SparsePosterior)):
        Z = np.repeat(X[:n], 3, axis=0)
        data = Data(Z, rng.standard_normal((3 * n, 2)), np.full(3 * n, 0.1))
        assert type(Exact().condition(Conditioning(kernel, data, grid))) is kind


def test_exact_keeps_factoring_appended_rows_and_one_change_of_scale() -> None:
    kernel, points = LOW_RANK["square"]
    grid, rng = CandidateGrid(kernel, points), np.random.default_rng(0)
    X = points[rng.permutation(len(points))[:130]]
    data = Data(X, rng.standard_normal((130, 2)), rng.uniform(0.01, 0.1, 130))
    p: Any = None
    for n in range(1, 121):
        p = Exact().condition(Conditioning(kernel, data.rows(0, n), grid, previous=p))
        assert isinstance(p, ExactPosterior)
    assert p.extended
    scaled = Data(X, data.Y, data.variance / 4)
    p = Exact().condition(Conditioning(kernel, scaled.rows(0, 121), grid, previous=p))
    assert isinstance(p, ExactPosterior)
    assert not p.extended
    assert_same(p, condition_by_cholesky(kernel, scaled.rows(0, 121), grid=grid), grid, points)
    p = Exact().condition(Conditioning(kernel, scaled.rows(0, 122), grid, previous=p))
    assert p.extended
    # After variances have changed twice in a row, the dictionary is used.
    p = Exact().condition(Conditioning(kernel, data.rows(0, 123), grid, previous=p))
    p = Exact().condition(Conditioning(kernel, scaled.rows(0, 124), grid, previous=p))
    assert isinstance(p, SparsePosterior)
    assert_same(p, condition_by_cholesky(kernel, scaled.rows(0, 124), grid=grid), grid, points)


# --- one factorisation

modest = settings(deadline=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)


def condition(kernel: Kernel, Z: Array, Y: Array, variance: Array) -> ExactPosterior:
    return condition_by_cholesky(kernel, Data(Z, Y if Y.ndim == 2 else Y[:, None], variance))


@pytest.mark.parametrize("block", range(4))
def test_condition_by_cholesky_matches_sklearn_and_dense_algebra(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        kernel, Z, y, variance, X = random_case(seed)
        posterior = condition(kernel, Z, y, variance)
        mean, var = posterior.predict(X)
        peer = GaussianProcessRegressor(kernel, alpha=variance, optimizer=None).fit(Z, y)
        peer_mean, peer_sd = peer.predict(X, return_std=True)
        size = max(1.0, float(kernel.diag(X).max()))
        np.testing.assert_allclose(mean[:, 0], peer_mean, rtol=0, atol=1e-8 * size)
        np.testing.assert_allclose(np.sqrt(var), peer_sd, rtol=0, atol=1e-8 * size)
        dense = Dense(kernel, Z, y[:, None], variance)
        np.testing.assert_allclose(mean, dense.mean(X), atol=1e-7 * size)
        covariance = dense.covariance(X, X)
        np.testing.assert_allclose(var, np.diagonal(covariance), atol=1e-7 * size)
        np.testing.assert_allclose(posterior.covariance(X, X), covariance, atol=1e-7 * size)
        ratio = np.linalg.slogdet(np.eye(len(Z)) + kernel(Z) / variance[:, None])[1]
        assert posterior.summary.log_det_ratio == pytest.approx(ratio, rel=1e-9, abs=1e-9)
        assert posterior.size == len(np.unique(Z, axis=0))
        assert posterior.summary.jitter == 0.0


@modest
@given(seeds)
def test_condition_number_is_at_most_the_true_one(seed: int) -> None:
    kernel, Z, y, variance, _ = random_case(seed)
    posterior = condition(kernel, Z, y, variance)
    true = np.linalg.cond(kernel(posterior.rows.Z) + np.diag(posterior.rows.variance))
    assert 1.0 <= posterior.condition_number <= true * (1 + 1e-6)


def test_condition_by_cholesky_leaves_negligible_observations_out() -> None:
    rng = np.random.default_rng(3)
    kernel, Z, y = 2.0 * RBF(0.3), rng.random((20, 1)), rng.standard_normal(20)
    variance = np.full(20, 0.1)
    limit = NOISE_LIMITS.negligible * 2.0
    at, above = variance.copy(), variance.copy()
    at[::2], above[::2] = limit, limit * 1.001
    X = rng.random((9, 1))
    without_even_rows = condition(kernel, Z, y, above)
    alone = condition(kernel, Z[1::2], y[1::2], variance[1::2])
    assert without_even_rows.size == len(without_even_rows.data) == 10
    assert condition(kernel, Z, y, at).size == 20
    for a, b, c in zip(
        without_even_rows.predict(X),
        alone.predict(X),
        condition(kernel, Z, y, at).predict(X),
        strict=True,
    ):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, c, atol=1e-14)


def test_condition_by_cholesky_with_only_negligible_observations_is_prior() -> None:
    posterior = condition(RBF(1.0), np.zeros((3, 1)), np.ones(3), np.full(3, 1e30))
    assert posterior.size == 0
    assert posterior.predict(np.zeros((1, 1)))[1].tolist() == [1.0]


# Numerics.


def test_condition_by_cholesky_merges_plus_and_minus_zero() -> None:
    posterior = condition(
        RBF(1.0), np.array([[0.0], [-0.0]]), np.array([1.0, 3.0]), np.full(2, 1e-12)
    )
    assert posterior.size == 1
    assert posterior.predict(np.zeros((1, 1)))[0][0, 0] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("noise", [1e-12, 0.1])
def test_condition_by_cholesky_with_a_huge_length_scale_is_a_constant(noise: float) -> None:
    rng = np.random.default_rng(6)
    Z, y = rng.random((25, 2)), 1.5 + np.sqrt(noise) * rng.standard_normal(25)
    mean, var = condition(RBF(1e7), Z, y, np.full(25, noise)).predict(rng.random((4, 2)))
    np.testing.assert_allclose(mean, y.sum() / (25 + noise), rtol=1e-3)
    np.testing.assert_allclose(var, noise / (25 + noise), atol=1e-6)


def test_condition_by_cholesky_reports_its_jitter() -> None:
    rng = np.random.default_rng(7)
    Z, y = rng.random((40, 1)), np.ones(40)
    posterior = condition(RBF(10.0), Z, y, np.full(40, 1e-18))
    assert posterior.summary.jitter in linalg.JITTERS[1:]
    np.testing.assert_allclose(posterior.predict(rng.random((5, 1)))[0], 1.0, atol=1e-3)


class _InvalidKernel(RBF):  # type: ignore[misc]
    """No covariance: similar points repel each other."""

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        return 2.0 - super().__call__(X, Y, eval_gradient)

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (_InvalidKernel(0.3), r"\(5, 5\).*valid"),
        (ConstantKernel(np.inf) * RBF(1.0), r"\(5, 5\).*not finite"),
    ],
)
def test_condition_by_cholesky_refuses_an_invalid_kernel_with_the_reason(
    kernel: Kernel, message: str
) -> None:
    Z = np.linspace(0.0, 1.0, 5)[:, None]
    with pytest.raises(FactorisationError, match=message):
        condition(kernel, Z, np.zeros(5), np.full(5, 1e-3))


# --- a drifting reward, by a filter of states


def drifting(noise: float, epsilon: float, n: int = 700) -> tuple[Any, CandidateGrid, Data]:
    """Return kernel, grid and observations in order of time at points of a line."""
    rng = np.random.default_rng(11)
    kernel = space_time(RBF(8.0)) * Drift(epsilon, "fixed")
    points = np.linspace(-50.0, 50.0, 60)[:, None]
    times = np.sort(rng.uniform(0.0, n, n))
    Z = np.column_stack([points[rng.integers(60, size=n)], times])
    y = np.sin(Z[:, 0] / 8 + times / 50) + noise**0.5 * rng.standard_normal(n)
    data = Data(Z, np.column_stack([y, np.ones(n)]), np.full(n, noise))
    return kernel, CandidateGrid(kernel, points), data


@pytest.mark.parametrize("epsilon", [0.001, 0.03, 0.3])
@pytest.mark.parametrize("noise", [1e-1, 1e-4])
def test_exact_by_filter_matches_a_factorisation_to_rounding(noise: float, epsilon: float) -> None:
    kernel, grid, data = drifting(noise, epsilon)
    now = float(data.Z[-1, 1]) + 1.5
    posterior = Exact().condition(Conditioning(kernel, data, grid, now))
    dense = condition_by_cholesky(kernel, data, grid=grid, now=now)
    assert isinstance(posterior, StateSpacePosterior)
    assert posterior.summary.exact
    assert_alike(posterior.predict(grid), dense.predict(grid), rtol=1e-8, atol=1e-9)
    Z = np.column_stack([grid.points[:9], np.linspace(0.3 * now, 2 * now, 9)])
    assert_alike(posterior.predict(Z), dense.predict(Z), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(posterior.summary.products, dense.summary.products, rtol=1e-8)
    ratios = posterior.summary.log_det_ratio, dense.summary.log_det_ratio
    np.testing.assert_allclose(*ratios, rtol=1e-10)


def test_exact_factors_few_observations_and_kernels_of_high_rank() -> None:
    kernel, grid, data = drifting(1e-2, 0.03)
    few = Exact().condition(Conditioning(kernel, data.rows(650), grid, 1e3))
    assert isinstance(few, ExactPosterior)
    rough = space_time(Matern(1e-3, nu=0.5)) * Drift(0.03, "fixed")
    points = np.random.default_rng(0).random((300, 1))
    assert find_spanning_state(CandidateGrid(rough, points)) is None
    assert isinstance(Exact().condition(Conditioning(kernel, data, None, 1e3)), ExactPosterior)


def test_state_space_update_is_bitwise_a_new_start() -> None:
    kernel, grid, data = drifting(1e-2, 0.03)
    half = Data(data.Z[:400], data.Y[:400], data.variance[:400])
    start = Exact().condition(Conditioning(kernel, half, grid, 450.0))
    assert isinstance(start, StateSpacePosterior)
    posterior: Any = start
    for i in range(400, 700):
        posterior = posterior.update(data.row(i), 800.0, grid)
    fresh = Exact().condition(Conditioning(kernel, data, grid, 800.0))
    assert_alike(posterior.predict(grid), fresh.predict(grid), rtol=0.0)
    np.testing.assert_array_equal(posterior.data.Z, fresh.data.Z)
    assert posterior.update(data.row(3), 800.0, grid) is None  # the row is earlier than the newest
    assert start.summary.size == 400


def test_exact_merges_repeated_rows_of_a_long_run() -> None:
    rng = np.random.default_rng(2)
    points = np.linspace(0.0, 1.0, 20)[:, None]
    kernel = RBF(0.3)
    grid = CandidateGrid(kernel, points)
    data = Data(np.empty((0, 1)), np.empty((0, 1)), np.empty(0))
    posterior: Any = None
    largest = 0
    for _ in range(500):
        row = Data(points[rng.integers(20)][None], rng.standard_normal((1, 1)), np.full(1, 0.1))
        data = data.append(row)
        posterior = Exact().condition(Conditioning(kernel, data, grid, previous=posterior))
        largest = max(largest, posterior.size)
    assert largest <= 2 * 20 + 192 + 1
    dense = condition_by_cholesky(kernel, data, grid=grid)
    assert_alike(posterior.predict(grid), dense.predict(grid), rtol=1e-8, atol=1e-9)

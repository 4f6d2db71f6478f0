"""The Kalman filter of a sum of terms, against the exact posterior by dense algebra."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from tests.helpers.refusals import assert_refused
from tests.oracles.dense import Dense, assert_alike
from tvbandits import Nystrom, NystromFilter, StateSpace
from tvbandits.gp.cholesky import condition_by_cholesky
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posterior import CandidateGrid, Conditioning, Data
from tvbandits.gp.state_space import CONFIG, FeatureRows
from tvbandits.validation import Array

POINTS = np.random.default_rng(0).uniform(0, 5, (25, 2))


def level(scale: float = 6.0) -> Any:
    return ConstantKernel(0.4) * OnTime(Matern(scale, nu=0.5))


def drifting(scale: float = 8.0) -> Any:
    return ConstantKernel(1.3) * OnSpace(RBF(1.2)) * OnTime(Matern(scale, nu=1.5))


KERNELS: dict[str, Any] = {
    "static": OnSpace(RBF(1.0)),
    "level": level(),
    "drift": OnSpace(RBF(1.2)) * Drift(0.1),
    "matern-3/2": drifting(),
    "all": ConstantKernel(2.0)
    + level()
    + ConstantKernel(0.7) * OnSpace(Matern(2.0, nu=1.5))
    + drifting()
    + ConstantKernel(0.2) * OnSpace(RBF(1.2)) * OnTime(Matern(1.5, nu=0.5)),
    "product of sums": (ConstantKernel(0.5) + OnSpace(RBF(1.0))) * (level(3.0) + drifting(9.0)),
    "drift first": Drift(0.3) * OnSpace(Matern([0.8, 1.6], nu=1.5)),
    "scaled inside": OnSpace(0.3 * RBF(0.8) + 0.2 * Matern(1.5, nu=0.5)) * Drift(0.05),
    "two over points": ConstantKernel(4.0) * OnSpace(Matern(1.0)) * OnSpace(RBF(5.0)) * Drift(0.1),
    "no drift": OnSpace(Matern(1.0, nu=2.5)) * Drift(0.0, "fixed"),
    "fast": OnSpace(Matern(1.0, nu=2.5)) * Drift(0.95),
}


def sample(n: int, seed: int, late: bool = False) -> Data:
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.choice([0.0, 0.0, 1.0, 2.5], n))
    if late:
        t = rng.permutation(t)
    Z = np.column_stack([POINTS[rng.integers(0, 25, n)], t])
    Y = np.column_stack([rng.standard_normal(n), np.ones(n)])
    return Data(Z, Y, rng.uniform(0.05, 2.0, n))


def dense(kernel: Any, data: Data, Z: Array, Z2: Array | None = None) -> tuple[Array, Array]:
    """Return means at Z, and the covariance between Z and Z2, or of Z."""
    oracle = Dense(kernel, *data)
    return oracle.mean(Z), oracle.covariance(Z, Z if Z2 is None else Z2)


def at(t: float, rows: Any = slice(None)) -> Array:
    points = POINTS[rows]
    return np.column_stack([points, np.full(len(points), t)])


def test_state_space_is_nearly_exact_at_points_off_the_features() -> None:
    """There are more points than features, in any order; features leave out 1e-4 of the variance."""
    kernel, data = KERNELS["all"], sample(40, 1, late=True)
    now = float(data.Z[:, -1].max()) + 1.5
    grid = CandidateGrid(kernel, POINTS)
    posterior = StateSpace().condition(Conditioning(kernel, data, grid, now))
    means, covariance = dense(kernel, data, at(now))
    tolerance: Any = {"rtol": 2e-4, "atol": 2e-3}
    for prediction in (posterior.predict(grid), posterior.predict(at(now))):
        assert_alike(prediction, (means, np.diag(covariance)), **tolerance)
    earlier, later = at(now - 1.5, [3, 4, 5]), at(now + 2.0)
    _, expected = dense(kernel, data, earlier, later)
    np.testing.assert_allclose(posterior.covariance(earlier, later), expected, **tolerance)
    oracle = Dense(kernel, *data)
    assert posterior.summary.log_det_ratio == pytest.approx(oracle.log_det_ratio(), rel=1e-3)
    np.testing.assert_allclose(posterior.summary.products, oracle.products(), rtol=1e-3, atol=1e-3)


def test_state_space_starts_again_if_kernel_noise_or_data_change() -> None:
    kernel, data = KERNELS["all"], sample(30, 3)
    grid, rule = CandidateGrid(kernel, POINTS), StateSpace()
    previous = rule.condition(Conditioning(kernel, data, grid, 99.0))
    other = kernel.clone_with_theta(kernel.theta + 0.1)
    changed = Data(data.Z, data.Y, data.variance * 2)
    for kernel_, observations in ((other, data), (kernel, changed), (kernel, sample(30, 4))):
        fresh = rule.condition(Conditioning(kernel_, observations, grid, 99.0))
        continued = rule.condition(Conditioning(kernel_, observations, grid, 99.0, previous))
        np.testing.assert_array_equal(continued.filter.mean, fresh.filter.mean)
        assert not np.array_equal(continued.filter.mean, previous.filter.mean)


def test_state_space_keeps_the_prior_variance_far_from_its_features() -> None:
    # There is one anchor: far from it the residual has all of the variance.
    kernel = OnSpace(RBF(0.5)) * Drift(0.2)
    rule = StateSpace(anchors=np.zeros((1, 2)))
    posterior = rule.condition(Conditioning(kernel, sample(10, 6), now=90.0))
    _, variance = posterior.predict(np.array([[0.0, 0.0, 90.0], [40.0, 40.0, 90.0]]))
    assert variance[1] == pytest.approx(1.0)
    assert 0.0 < variance[0] <= 1.0


@pytest.mark.parametrize("name", ["drift", "all"])
def test_state_space_raises_and_reports_noise_below_rounding(name: str) -> None:
    kernel = KERNELS[name]
    floor = CONFIG.smallest_noise * float(kernel.diag(at(0.0, [0]))[0])
    # Five rewards of each of three points at one time, again and again, of size 10.
    t = np.repeat(np.arange(4.0), 15)
    Z = np.column_stack([np.tile(np.repeat(POINTS[:3], 5, axis=0), (4, 1)), t])
    Y = np.column_stack([10 * np.random.default_rng(0).standard_normal(60), np.ones(60)])
    rule = StateSpace(anchors=POINTS[:3])
    for noise, jitter in ((1e-18, floor), (0.25 * floor, 0.75 * floor), (2.0 * floor, 0.0)):
        posterior = rule.condition(Conditioning(kernel, Data(Z, Y, np.full(60, noise)), now=4.0))
        assert posterior.summary.jitter == pytest.approx(jitter, rel=1e-6)
        # The result is the posterior under the larger noise.
        least = np.full(60, max(noise, floor))
        raised = rule.condition(Conditioning(kernel, Data(Z, Y, least), now=4.0))
        inputs = at(4.0, [0, 1, 2])
        for result, expected in zip(posterior.predict(inputs), raised.predict(inputs), strict=True):
            assert np.isfinite(result).all()
            np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-9)
        above = 60 * np.log(max(noise, floor) / noise)  # log det of the original noise
        assert posterior.summary.log_det_ratio == pytest.approx(
            raised.summary.log_det_ratio + above, rel=1e-6
        )
        assert np.isfinite(posterior.summary.products).all()
        mean = Y[:, 0].reshape(4, 3, 5)[-1].mean(axis=1)
        predicted = posterior.predict(at(3.0, [0, 1, 2]))[0][:, 0]
        np.testing.assert_allclose(predicted, mean, atol=1e-3)  # no noise to speak of


FEW = POINTS[:6]


def data_at_few_points(n: int, seed: int) -> Data:
    """Return rewards at few points, at which features are exact, in order of time."""
    data, rng = sample(n, seed), np.random.default_rng(seed)
    data.Z[:, :-1] = FEW[rng.integers(0, 6, n)]
    return data


@pytest.mark.parametrize(
    ("name", "n"),
    [*((name, 25) for name in KERNELS), *((name, 3 * CONFIG.stride) for name in ("drift", "all"))],
)
def test_state_space_at_past_times_is_exact_given_all_rewards(name: str, n: int) -> None:
    kernel, data = KERNELS[name], data_at_few_points(n, 8)
    rule, grid, posterior = StateSpace(anchors=FEW), CandidateGrid(kernel, FEW), None
    start, end = data.Z[0, -1], data.Z[-1, -1]
    tolerance: Any = {"rtol": 1e-7, "atol": 1e-8}
    late = end - 0.3 * (end - start) / n
    for now in (start - 2.0, start, 0.5 * (start + end), late, data.Z[-5, -1]):
        for count in range(5, n + 1, 20 if n < CONFIG.stride else 50):
            some = data.rows(0, count)
            posterior = rule.condition(Conditioning(kernel, some, grid, now, posterior))
        Z = np.column_stack([FEW, np.full(6, now)])
        means, covariance = dense(kernel, posterior.data, Z)
        for prediction in (
            posterior.predict(grid),
            posterior.predict(Z),
            posterior.predict(Z[[3, 1]]),
        ):
            rows = slice(None) if len(prediction[0]) == 6 else [3, 1]
            assert_alike(prediction, (means[rows], np.diag(covariance)[rows]), **tolerance)
        # Times before, between and after the data, in any order.
        mixed = np.column_stack(
            [FEW[[5, 0, 1, 1, 2, 3, 4]], [end + 1.0, now, end, start, late, end + 4.0, now]]
        )
        many = np.repeat(mixed, 30, axis=0)
        for Z1, Z2 in ((mixed, Z), (Z, mixed), (mixed[3:], mixed[:3]), (many, Z)):
            _, expected = dense(kernel, posterior.data, Z1, Z2)
            np.testing.assert_allclose(posterior.covariance(Z1, Z2), expected, **tolerance)
        for Z1 in (mixed, many):
            means, covariance = dense(kernel, posterior.data, Z1)
            assert_alike(posterior.predict(Z1), (means, np.diag(covariance)), **tolerance)


@pytest.mark.parametrize("name", ["drift", "all"])
def test_state_space_fantasizes_at_an_earlier_time(name: str) -> None:
    kernel, data = KERNELS[name], data_at_few_points(20, 4)
    now = float(data.Z[12, -1]) - 0.4
    grid = CandidateGrid(kernel, FEW)
    posterior = StateSpace().condition(Conditioning(kernel, data, grid, now))
    z, Z = np.array([[*FEW[2], now]]), np.column_stack([FEW, np.full(6, now)])
    fantasy = posterior.fantasize(z, 0.3, grid)
    extended_data = Data(
        np.vstack([data.Z, z]), np.vstack([data.Y, [[0, 1]]]), np.append(data.variance, 0.3)
    )
    _, covariance = dense(kernel, extended_data, Z)
    np.testing.assert_allclose(fantasy.predict(grid)[1], np.diag(covariance), atol=1e-8)
    np.testing.assert_allclose(fantasy.predict(grid)[0], posterior.predict(grid)[0], atol=1e-8)
    np.testing.assert_array_equal(fantasy.data.Z[:, -1], np.sort(extended_data.Z[:, -1]))


@pytest.mark.parametrize(
    "kernel",
    [
        OnSpace(RBF(1.0)) * OnTime(RBF(3.0)),
        OnTime(Matern(2.0, nu=2.5)),
        OnSpace(RBF(1.0)) * Drift(0.1) * OnTime(Matern(2.0, nu=0.5)),
        RBF(1.0) * Drift(0.1),
    ],
    ids=str,
)
def test_filters_refuse_kernels_that_are_no_sum_of_terms(kernel: Any) -> None:
    for rule, message in (
        (StateSpace(anchors=POINTS), "sum of terms"),
        (NystromFilter(), "dictionary"),
    ):
        assert_refused(
            ValueError, message, rule.condition, Conditioning(kernel, sample(3, 0), now=99.0)
        )


def test_state_space_on_an_infinite_domain_needs_anchors() -> None:
    conditioning = Conditioning(KERNELS["all"], sample(3, 0))
    assert_refused(ValueError, "needs anchors", StateSpace().condition, conditioning)


# --- the sparse posterior of a drifting reward, a filter, against the exact one

EVERY_POINT = Nystrom(oversampling=1e12, tolerance=1e-12)


def test_nystrom_filter_has_no_feature_for_a_point_without_prior_variance() -> None:
    kernel = OnSpace(DotProduct(0.0, "fixed")) * Drift(0.1)
    Z = np.array([[0.0, 0.0, 1.0], [0.5, 1.0, 2.0], [0.0, 0.0, 2.0], [1.0, 2.0, 3.0]])
    data = Data(Z, np.arange(4.0)[:, None], np.full(4, 0.1))
    for count in range(1, 5):
        rows = data.rows(0, count)
        sparse, exact = (
            EVERY_POINT.condition(Conditioning(kernel, rows)),
            condition_by_cholesky(kernel, rows),
        )
        assert len(sparse.filter.mean) == (count > 1)
        inputs = np.column_stack([np.random.default_rng(0).random((5, 2)), np.full(5, 4.0)])
        assert_alike(sparse.predict(inputs), exact.predict(inputs), rtol=1e-7, atol=1e-10)


def test_nystrom_on_a_box_adds_features_for_points_beyond_their_span() -> None:
    kernel, rng = OnSpace(RBF(0.3)) * Drift(0.1), np.random.default_rng(0)
    points = rng.random((30, 2))
    Z = np.column_stack([np.vstack([points, points[:10]]), np.arange(40.0)])
    data = Data(Z, rng.standard_normal((40, 1)), np.full(40, 0.1))
    posterior, ranks = None, []
    for n in range(1, 41):
        posterior = Nystrom().condition(
            Conditioning(kernel, data.rows(0, n), now=n, previous=posterior)
        )
        ranks.append(len(posterior.filter.mean))
    assert ranks == sorted(ranks)
    assert ranks[0] == 1
    assert ranks[-1] == ranks[-11] <= 30  # points in the span of the features add none
    exact = condition_by_cholesky(kernel, data)
    assert_alike(posterior.predict(Z + 1.0), exact.predict(Z + 1.0), rtol=1e-5, atol=1e-6)
    near, far = (
        Data(np.array([[*x, 99.0]]), data.Y[:1], data.variance[:1]) for x in (points[0], [9.0, 9.0])
    )
    assert posterior.update(near, 99.0, None) is not None
    assert posterior.update(far, 99.0, None) is None


@pytest.mark.parametrize("joint", [True, False])
def test_feature_rows_batches_partition_readings_by_time_and_size(joint: bool) -> None:
    times = np.repeat(
        [1.0, 2.0, 3.0, 5.0], [3, 2 * CONFIG.largest_batch + 7, 1, CONFIG.largest_batch]
    )
    n = len(times)
    ones = np.ones(n)
    batches = FeatureRows(times, np.ones((n, 1)), ones[:, None], ones, ones, joint).batches
    rows = np.arange(n)
    assert np.concatenate([rows[batch] for batch in batches]).tolist() == rows.tolist()
    assert max(len(rows[batch]) for batch in batches) == (CONFIG.largest_batch if joint else 1)
    assert all(len({*times[batch].tolist()}) == 1 for batch in batches)

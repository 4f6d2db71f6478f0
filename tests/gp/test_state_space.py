"""The Kalman filter of a sum of terms, against the exact posterior by dense algebra."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from tests.helpers.refusals import refused
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
    """Means, and covariance between Z and Z2 (or itself)."""
    oracle = Dense(kernel, *data)
    return oracle.mean(Z), oracle.covariance(Z, Z if Z2 is None else Z2)


def at(t: float, rows: Any = slice(None)) -> Array:
    points = POINTS[rows]
    return np.column_stack([points, np.full(len(points), t)])


def test_points_off_the_features_are_told_nearly_exactly() -> None:
    """More points than features, in any order; features leave out 1e-4 of the variance."""
    kernel, data = KERNELS["all"], sample(40, 1, late=True)
    now = float(data.Z[:, -1].max()) + 1.5
    grid = CandidateGrid(kernel, POINTS)
    made = StateSpace().condition(Conditioning(kernel, data, grid, now))
    means, covariance = dense(kernel, data, at(now))
    close: Any = {"rtol": 2e-4, "atol": 2e-3}
    for found in (made.predict(grid), made.predict(at(now))):
        assert_alike(found, (means, np.diag(covariance)), **close)
    earlier, later = at(now - 1.5, [3, 4, 5]), at(now + 2.0)
    _, across = dense(kernel, data, earlier, later)
    np.testing.assert_allclose(made.covariance(earlier, later), across, **close)
    oracle = Dense(kernel, *data)
    assert made.summary.log_det_ratio == pytest.approx(oracle.log_det_ratio(), rel=1e-3)
    np.testing.assert_allclose(made.summary.products, oracle.products(), rtol=1e-3, atol=1e-3)


def test_it_starts_again_where_it_must() -> None:
    kernel, data = KERNELS["all"], sample(30, 3)
    grid, rule = CandidateGrid(kernel, POINTS), StateSpace()
    made = rule.condition(Conditioning(kernel, data, grid, 99.0))
    other = kernel.clone_with_theta(kernel.theta + 0.1)
    changed = Data(data.Z, data.Y, data.variance * 2)
    for again, told in ((other, data), (kernel, changed), (kernel, sample(30, 4))):
        fresh = rule.condition(Conditioning(again, told, grid, 99.0))
        stale = rule.condition(Conditioning(again, told, grid, 99.0, made))
        np.testing.assert_array_equal(stale.filter.mean, fresh.filter.mean)
        assert not np.array_equal(stale.filter.mean, made.filter.mean)


def test_a_point_beyond_the_features_keeps_its_variance() -> None:
    # One anchor: everything far from it is left to the residual, and nothing is lost.
    kernel = OnSpace(RBF(0.5)) * Drift(0.2)
    rule = StateSpace(anchors=np.zeros((1, 2)))
    made = rule.condition(Conditioning(kernel, sample(10, 6), now=90.0))
    _, variance = made.predict(np.array([[0.0, 0.0, 90.0], [40.0, 40.0, 90.0]]))
    assert variance[1] == pytest.approx(1.0)
    assert 0.0 < variance[0] <= 1.0


@pytest.mark.parametrize("name", ["drift", "all"])
def test_noise_below_rounding_is_raised_and_reported(name: str) -> None:
    kernel = KERNELS[name]
    floor = CONFIG.smallest_noise * float(kernel.diag(at(0.0, [0]))[0])
    # Five rewards of each of three points at one time, again and again, of size 10.
    t = np.repeat(np.arange(4.0), 15)
    Z = np.column_stack([np.tile(np.repeat(POINTS[:3], 5, axis=0), (4, 1)), t])
    Y = np.column_stack([10 * np.random.default_rng(0).standard_normal(60), np.ones(60)])
    rule = StateSpace(anchors=POINTS[:3])
    for noise, jitter in ((1e-18, floor), (0.25 * floor, 0.75 * floor), (2.0 * floor, 0.0)):
        made = rule.condition(Conditioning(kernel, Data(Z, Y, np.full(60, noise)), now=4.0))
        assert made.summary.jitter == pytest.approx(jitter, rel=1e-6)
        # What is left is the posterior of the larger noise.
        least = np.full(60, max(noise, floor))
        raised = rule.condition(Conditioning(kernel, Data(Z, Y, least), now=4.0))
        there = at(4.0, [0, 1, 2])
        for mine, its in zip(made.predict(there), raised.predict(there), strict=True):
            assert np.isfinite(mine).all()
            np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-9)
        above = 60 * np.log(max(noise, floor) / noise)  # the noise as it was told
        assert made.summary.log_det_ratio == pytest.approx(
            raised.summary.log_det_ratio + above, rel=1e-6
        )
        assert np.isfinite(made.summary.products).all()
        mean = Y[:, 0].reshape(4, 3, 5)[-1].mean(axis=1)
        found = made.predict(at(3.0, [0, 1, 2]))[0][:, 0]
        np.testing.assert_allclose(found, mean, atol=1e-3)  # no noise to speak of


FEW = POINTS[:6]


def among_few(n: int, seed: int) -> Data:
    """Rewards of few points, which features leave nothing out of, in order of time."""
    data, rng = sample(n, seed), np.random.default_rng(seed)
    data.Z[:, :-1] = FEW[rng.integers(0, 6, n)]
    return data


@pytest.mark.parametrize(
    ("name", "n"),
    [*((name, 25) for name in KERNELS), *((name, 3 * CONFIG.stride) for name in ("drift", "all"))],
)
def test_the_past_is_the_exact_posterior_given_all_rewards(name: str, n: int) -> None:
    kernel, data = KERNELS[name], among_few(n, 8)
    rule, grid, made = StateSpace(anchors=FEW), CandidateGrid(kernel, FEW), None
    start, end = data.Z[0, -1], data.Z[-1, -1]
    close: Any = {"rtol": 1e-7, "atol": 1e-8}
    late = end - 0.3 * (end - start) / n
    for now in (start - 2.0, start, 0.5 * (start + end), late, data.Z[-5, -1]):
        for count in range(5, n + 1, 20 if n < CONFIG.stride else 50):
            some = data.rows(0, count)
            made = rule.condition(Conditioning(kernel, some, grid, now, made))
        Z = np.column_stack([FEW, np.full(6, now)])
        means, covariance = dense(kernel, made.data, Z)
        for found in (made.predict(grid), made.predict(Z), made.predict(Z[[3, 1]])):
            rows = slice(None) if len(found[0]) == 6 else [3, 1]
            assert_alike(found, (means[rows], np.diag(covariance)[rows]), **close)
        # Times of all kinds at once, in any order.
        mixed = np.column_stack(
            [FEW[[5, 0, 1, 1, 2, 3, 4]], [end + 1.0, now, end, start, late, end + 4.0, now]]
        )
        many = np.repeat(mixed, 30, axis=0)
        for Z1, Z2 in ((mixed, Z), (Z, mixed), (mixed[3:], mixed[:3]), (many, Z)):
            _, across = dense(kernel, made.data, Z1, Z2)
            np.testing.assert_allclose(made.covariance(Z1, Z2), across, **close)
        for Z1 in (mixed, many):
            means, covariance = dense(kernel, made.data, Z1)
            assert_alike(made.predict(Z1), (means, np.diag(covariance)), **close)


@pytest.mark.parametrize("name", ["drift", "all"])
def test_shrinking_at_an_earlier_time(name: str) -> None:
    kernel, data = KERNELS[name], among_few(20, 4)
    now = float(data.Z[12, -1]) - 0.4
    grid = CandidateGrid(kernel, FEW)
    made = StateSpace().condition(Conditioning(kernel, data, grid, now))
    z, Z = np.array([[*FEW[2], now]]), np.column_stack([FEW, np.full(6, now)])
    smaller = made.fantasize(z, 0.3, grid)
    more = Data(
        np.vstack([data.Z, z]), np.vstack([data.Y, [[0, 1]]]), np.append(data.variance, 0.3)
    )
    _, covariance = dense(kernel, more, Z)
    np.testing.assert_allclose(smaller.predict(grid)[1], np.diag(covariance), atol=1e-8)
    np.testing.assert_allclose(smaller.predict(grid)[0], made.predict(grid)[0], atol=1e-8)
    np.testing.assert_array_equal(smaller.data.Z[:, -1], np.sort(more.Z[:, -1]))


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
def test_kernels_that_are_no_sum_of_terms(kernel: Any) -> None:
    for rule, says in (
        (StateSpace(anchors=POINTS), "sum of terms"),
        (NystromFilter(), "dictionary"),
    ):
        refused(ValueError, says, rule.condition, Conditioning(kernel, sample(3, 0), now=99.0))


def test_a_domain_that_is_not_finite_needs_anchors() -> None:
    given = Conditioning(KERNELS["all"], sample(3, 0))
    refused(ValueError, "needs anchors", StateSpace().condition, given)


# --- the sparse posterior of a drifting reward, a filter, against the exact one

EVERY_POINT = Nystrom(oversampling=1e12, tolerance=1e-12)


def test_a_point_whose_reward_is_known_beforehand() -> None:
    kernel = OnSpace(DotProduct(0.0, "fixed")) * Drift(0.1)
    Z = np.array([[0.0, 0.0, 1.0], [0.5, 1.0, 2.0], [0.0, 0.0, 2.0], [1.0, 2.0, 3.0]])
    data = Data(Z, np.arange(4.0)[:, None], np.full(4, 0.1))
    for count in range(1, 5):
        some = data.rows(0, count)
        made, exact = (
            EVERY_POINT.condition(Conditioning(kernel, some)),
            condition_by_cholesky(kernel, some),
        )
        assert len(made.filter.mean) == (count > 1)
        tests = np.column_stack([np.random.default_rng(0).random((5, 2)), np.full(5, 4.0)])
        assert_alike(made.predict(tests), exact.predict(tests), rtol=1e-7, atol=1e-10)


def test_on_a_box_a_point_beyond_the_features_brings_new_ones() -> None:
    kernel, rng = OnSpace(RBF(0.3)) * Drift(0.1), np.random.default_rng(0)
    points = rng.random((30, 2))
    Z = np.column_stack([np.vstack([points, points[:10]]), np.arange(40.0)])
    data = Data(Z, rng.standard_normal((40, 1)), np.full(40, 0.1))
    made, ranks = None, []
    for n in range(1, 41):
        made = Nystrom().condition(Conditioning(kernel, data.rows(0, n), now=n, previous=made))
        ranks.append(len(made.filter.mean))
    assert ranks == sorted(ranks)
    assert ranks[0] == 1
    assert ranks[-1] == ranks[-11] <= 30  # what they span already brings none
    exact = condition_by_cholesky(kernel, data)
    assert_alike(made.predict(Z + 1.0), exact.predict(Z + 1.0), rtol=1e-5, atol=1e-6)
    near, far = (
        Data(np.array([[*x, 99.0]]), data.Y[:1], data.variance[:1]) for x in (points[0], [9.0, 9.0])
    )
    assert made.update(near, 99.0, None) is not None
    assert made.update(far, 99.0, None) is None


@pytest.mark.parametrize("joint", [True, False])
def test_every_reading_is_in_one_batch_and_no_batch_is_too_large_or_of_two_times(
    joint: bool,
) -> None:
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

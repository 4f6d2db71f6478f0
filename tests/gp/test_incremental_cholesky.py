"""Incremental updates of the exact posterior equal a new factorisation; append buffers."""

import itertools
import pickle
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tests.oracles.dense import assert_alike
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior, condition_by_cholesky
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posterior import AppendBuffer, CandidateGrid, Data

SPACE = {
    "rbf": RBF(0.2),
    "matern": 2.0 * Matern([0.3, 0.5], nu=1.5),
    "sum": Matern(0.4, nu=0.5) + 0.3 * DotProduct(1.0),
}
SHRINKING = {
    "drift": OnSpace(RBF(0.2)) * Drift(0.1),
    "drift sum": OnSpace(RBF(0.2)) * Drift(0.1) + ConstantKernel(0.5) * Drift(0.1),
    "exponential": OnSpace(Matern(0.3, nu=2.5)) * OnTime(Matern(5.0, nu=0.5)),
}
NOT_SHRINKING = {
    "smooth in time": OnSpace(RBF(0.2)) * OnTime(RBF(4.0)),
    "two rates": OnSpace(RBF(0.2)) * Drift(0.1) + OnSpace(RBF(0.5)) * Drift(0.3),
}
ALL = SPACE | SHRINKING | NOT_SHRINKING
every_kernel = pytest.mark.parametrize("kernel", ALL.values(), ids=ALL.keys())


def count_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> Mock:
    """Replace a function of `linalg` by one that counts its calls and returns the same values."""
    calls = Mock(wraps=getattr(linalg, name))
    monkeypatch.setattr(linalg, name, calls)
    return calls


class Run:
    """A seeded stream of observations, mostly at fixed points, some at other points, some late."""

    def __init__(self, kernel: Kernel, seed: int, *, elsewhere: float = 0.3, late: float = 0.2):
        self.kernel, self.rng = kernel, np.random.default_rng(seed)
        self.points = self.rng.random((12, 2))
        self.elsewhere, self.late, self.time = elsewhere, late, 0.0
        empty = inputs(kernel, np.empty((0, 2)), np.empty(0))
        self.all = Data(empty, np.empty((0, 2)), np.empty(0))

    def step(self) -> float:
        """Add an observation, and return the time of the next decision."""
        rng = self.rng
        self.time += rng.exponential()
        t = self.time - (5 * rng.random() if rng.random() < self.late else 0.0)
        x = rng.random(2) if rng.random() < self.elsewhere else self.points[rng.integers(12)]
        self.all = Data(
            np.vstack([self.all.Z, inputs(self.kernel, x[None, :], t)]),
            np.vstack([self.all.Y, [rng.standard_normal(), 1.0]]),
            np.append(self.all.variance, 10 ** rng.uniform(-3, 1)),
        )
        return self.time + rng.random()


def assert_same(posterior: ExactPosterior, data: Data, grid: CandidateGrid, now: float) -> None:
    """Check a posterior against a new factorisation, on its grid and at other points."""
    fresh = condition_by_cholesky(posterior.kernel, data, grid=grid, now=now)
    assert_alike(posterior.predict(grid), fresh.predict(grid), atol=1e-9)
    assert_alike(posterior.predict(grid.at(now)), fresh.predict(grid), atol=1e-9)
    elsewhere = inputs(posterior.kernel, np.random.default_rng(0).random((5, 2)), now + 0.5)
    assert_alike(posterior.predict(elsewhere), fresh.predict(elsewhere), atol=1e-9)
    covariances = (each.covariance(elsewhere, elsewhere) for each in (posterior, fresh))
    np.testing.assert_allclose(*covariances, atol=1e-9)
    assert posterior.summary.log_det_ratio == pytest.approx(fresh.summary.log_det_ratio, abs=1e-8)
    assert posterior.data is data


@every_kernel
@pytest.mark.parametrize("late", [0.0, 0.2])
def test_condition_by_cholesky_appends_rows_without_factoring(
    kernel: Kernel, late: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(kernel, 1, late=late)
    grid = CandidateGrid(kernel, run.points)
    factorisations, posterior = count_calls(monkeypatch, "cholesky"), None
    for step in range(150):
        now = run.step()
        posterior = condition_by_cholesky(kernel, run.all, grid=grid, now=now, previous=posterior)
        if step == 0:
            assert factorisations.call_count == 1
        if step % 25 == 24:
            assert_same(posterior, run.all, grid, now)
            assert posterior.size == step + 1
            assert factorisations.call_count == 1 + (step + 1) // 25  # `assert_same` factors, too


def test_condition_by_cholesky_is_exact_over_many_steps_of_fast_drift() -> None:
    """Covariances underflow many times over, so the scale is folded into them on the way."""
    kernel = OnSpace(RBF(0.3)) * Drift(0.95)
    rng = np.random.default_rng(5)
    points = rng.random((6, 2))
    grid, steps = CandidateGrid(kernel, points), 1000
    Z = np.column_stack([points[rng.integers(6, size=steps)], np.arange(steps) + rng.random(steps)])
    Y, variance = rng.standard_normal((steps, 2)), 10 ** rng.uniform(-3, 1, steps)
    posterior: ExactPosterior | None = None
    shrinks = []
    for n in range(1, steps + 1):
        now, recent = n + 0.5, slice(max(0, n - 200), n)
        data = Data(Z[:n], Y[:n], variance[:n])
        posterior = condition_by_cholesky(kernel, data, grid=grid, now=now, previous=posterior)
        assert posterior.on_grid is not None
        shrinks.append(posterior.on_grid.shrink)
        if n % 400 in (1, 37, 43):
            recent_data = Data(Z[recent], Y[recent], variance[recent])
            fresh = condition_by_cholesky(kernel, recent_data, grid=grid, now=now)
            assert_alike(posterior.predict(grid), fresh.predict(grid), atol=1e-9)
    assert posterior.size == steps
    assert min(shrinks) >= 1e-6
    assert sum(b > a for a, b in itertools.pairwise(shrinks)) >= 20  # folded in


def test_condition_by_cholesky_is_exact_after_a_gap_that_underflows() -> None:
    kernel = OnSpace(RBF(0.3)) * Drift(0.5)
    run = Run(kernel, 6)
    grid, posterior = CandidateGrid(kernel, run.points), None
    for step in range(10):
        run.time += 1e5 * (step == 5)
        now = run.step()
        posterior = condition_by_cholesky(kernel, run.all, grid=grid, now=now, previous=posterior)
    assert posterior is not None
    assert_same(posterior, run.all, grid, now)


@every_kernel
def test_condition_by_cholesky_is_exact_at_a_time_before_some_observations(kernel: Kernel) -> None:
    """A posterior may be of a time before some of its data, and then of later times."""
    run = Run(kernel, 7)
    grid = CandidateGrid(kernel, run.points)
    for _ in range(8):
        run.step()
    posterior = None
    for now in (-3.0, 2.0, 4.0, run.time - 0.1, run.time + 1.0, 3.0, run.time + 2.0):
        posterior = condition_by_cholesky(kernel, run.all, grid=grid, now=now, previous=posterior)
        assert_same(posterior, run.all, grid, now)
        run.step()


# Windows.


@pytest.mark.parametrize("kernel", ALL.values(), ids=ALL.keys())
def test_condition_by_cholesky_slides_a_window_without_factoring(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    length, run = 120, Run(kernel, 8, elsewhere=1.0)
    for _ in range(length):
        run.step()
    grid = CandidateGrid(kernel, run.points)
    posterior = condition_by_cholesky(kernel, run.all, grid=grid, now=run.time)
    factorisations, rotations = (
        count_calls(monkeypatch, "cholesky"),
        count_calls(monkeypatch, "drop_rows"),
    )
    for step in range(1, 181):
        now = run.step()
        data = run.all.rows(step)
        posterior = condition_by_cholesky(kernel, data, grid=grid, now=now, previous=posterior)
        if step % 90 == 0:
            before = factorisations.call_count
            assert_same(posterior, data, grid, now)
            factorisations.call_count = before
    assert factorisations.call_count == 0
    assert rotations.call_count == 180
    assert posterior.size == length


def window_of(n: int) -> tuple[ExactPosterior, Data]:
    rng = np.random.default_rng(10)
    Z, Y = rng.random((n + 40, 2)), rng.standard_normal((n + 40, 1))
    data = Data(Z, Y, 10 ** rng.uniform(-2, 1, n + 40))
    return condition_by_cholesky(RBF(0.2), Data(Z[:n], Y[:n], data.variance[:n])), data


def test_condition_by_cholesky_finds_the_window_start_among_repeated_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, data = window_of(120)
    data.Z[:3] = data.Z[0]
    data.variance[:3] = 0.1
    posterior = condition_by_cholesky(RBF(0.2), data.row(0))
    posterior = condition_by_cholesky(RBF(0.2), data, previous=posterior)
    factorisations = count_calls(monkeypatch, "cholesky")
    for first in (1, 2, 3, 4):
        posterior = condition_by_cholesky(RBF(0.2), data.rows(first), previous=posterior)
    assert factorisations.call_count == 0
    fresh = condition_by_cholesky(RBF(0.2), data.rows(4))
    assert_alike(posterior.predict(data.Z), fresh.predict(data.Z), atol=1e-10)


@pytest.mark.parametrize("column", ["Z", "Y", "variance"])
@pytest.mark.parametrize("row", [0, 99])
def test_condition_by_cholesky_detects_a_change_in_older_rows(column: str, row: int) -> None:
    posterior, all_data = window_of(100)
    data = Data(all_data.Z[:105].copy(), all_data.Y[:105].copy(), all_data.variance[:105].copy())
    getattr(data, column)[row] *= 1.5
    updated = condition_by_cholesky(posterior.kernel, data, previous=posterior)
    fresh = condition_by_cholesky(posterior.kernel, data)
    assert_alike(updated.predict(all_data.Z), fresh.predict(all_data.Z), atol=1e-10)


def test_condition_by_cholesky_factors_again_if_a_pivot_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An input nearly repeats without noise: appending would take the root of a rounding error."""
    Z = np.array([[0.0], [0.5], [0.5 + 1e-9]])
    data = Data(Z, np.array([[0.0], [1.0], [1.0]]), np.full(3, 1e-17))
    posterior = condition_by_cholesky(RBF(1.0), Data(Z[:2], data.Y[:2], data.variance[:2]))
    assert posterior.summary.jitter == 0.0
    factorisations = count_calls(monkeypatch, "cholesky")
    updated = condition_by_cholesky(RBF(1.0), data, previous=posterior)
    assert factorisations.call_count == 1
    assert updated.predict(np.array([[0.5]]))[0][0, 0] == pytest.approx(1.0, abs=1e-4)


def test_condition_by_cholesky_appends_to_merged_rows() -> None:
    rng = np.random.default_rng(12)
    Z = rng.random((30, 2))[rng.integers(0, 9, 30)]
    Y, variance = rng.standard_normal((30, 2)), 10 ** rng.uniform(-2, 1, 30)
    previous = condition_by_cholesky(RBF(0.3), Data(Z[:20], Y[:20], variance[:20]))
    assert previous.size < 20
    updated = condition_by_cholesky(RBF(0.3), Data(Z, Y, variance), previous=previous)
    assert updated.size == previous.size + 10
    expected = np.linalg.slogdet(np.eye(30) + RBF(0.3)(Z) / variance[:, None])[1]
    assert updated.summary.log_det_ratio == pytest.approx(expected, rel=1e-10)


# The grid itself.


@every_kernel
def test_candidate_grid_rows_match_the_kernel(kernel: Kernel) -> None:
    rng = np.random.default_rng(16)
    points = rng.random((7, 2))
    grid = CandidateGrid(kernel, points)
    Z = inputs(kernel, rng.random((9, 2)), 5 * rng.random(9))
    at = inputs(kernel, points, 6.5)
    for rows in (Z[:4], Z[[1, 5, 1]], Z, Z[:0]):
        covariances = grid.rows(rows, 6.5)
        np.testing.assert_allclose(covariances, kernel(rows, at), rtol=1e-12)
        covariances[...] = np.nan  # the result is a copy
    np.testing.assert_array_equal(grid.prior_variance(6.5), kernel.diag(at))
    assert [grid.index(point) for point in points] == list(range(7))
    assert grid.index(points[0] + 1e-12) is None


# --- append buffers


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.booleans(), st.integers(0, 20))
def test_append_buffer_views_keep_their_rows_for_any_tree_of_appends(
    parents: list[int], square: bool, first: int
) -> None:
    """Each step appends to some earlier view, and all views keep their contents."""
    start = np.tril(np.full((first, first if square else 3), -1.0))
    views, plains = [AppendBuffer.of(start, square=square)], [start]
    for number, parent in enumerate(parents):
        at = parent % len(views)
        n = len(plains[at])
        row = np.full(n + 1 if square else 3, float(number))
        views.append(views[at].append(row))
        wider = np.pad(plains[at], ((0, 0), (0, 1))) if square else plains[at]
        plains.append(np.vstack([wider, row]))
    for view, plain in zip(views, plains, strict=True):
        assert np.array_equal(view.array, plain)


def test_append_buffer_shares_memory_with_its_newest_view_only() -> None:
    view = AppendBuffer.of(np.zeros((100, 2)))
    longer = view.append(np.ones(2))
    assert np.shares_memory(view.array, longer.array)
    assert not np.shares_memory(view.append(np.ones(2)).array, longer.array)


def test_append_buffer_copies_its_source() -> None:
    rows = np.zeros((2, 2))
    view = AppendBuffer.of(rows)
    rows[:] = 7.0
    assert not view.array.any()


@pytest.mark.parametrize("square", [False, True])
def test_append_buffer_pickles_only_its_own_rows(square: bool) -> None:
    old = AppendBuffer.of(np.tril(np.ones((5, 5))), square=square)
    old.append(np.full(6 if square else 5, 12345.678))
    pickled_bytes = pickle.dumps(old)
    loaded = pickle.loads(pickled_bytes)
    assert np.array_equal(loaded.array, old.array)
    assert loaded.square is square
    assert np.float64(12345.678).tobytes() not in pickled_bytes
    longer = loaded.append(np.full(6 if square else 5, 2.0))
    assert np.array_equal(longer.array[:5, :5], old.array)
    assert (longer.array[5] == 2.0).all()

"""Conditioning step by step: whatever route is taken, the posterior is that of a new start."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.kernels.structure import advance, inputs, is_space_time
from tvbandits.gp.posteriors import cholesky
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import ROTATE_FROM, ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data

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


class Count:
    """Calls of a function of `linalg`, which goes on working."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.calls = 0
        original = getattr(linalg, name)

        def counted(*args: object, **more: object) -> object:
            self.calls += 1
            return original(*args, **more)

        monkeypatch.setattr(linalg, name, counted)


class Run:
    """A seeded stream of observations, mostly at fixed points, some elsewhere, some late."""

    def __init__(self, kernel: Kernel, seed: int, *, elsewhere: float = 0.3, late: float = 0.2):
        self.kernel, self.rng = kernel, np.random.default_rng(seed)
        self.points = self.rng.random((12, 2))
        self.elsewhere, self.late, self.time = elsewhere, late, 0.0
        empty = inputs(kernel, np.empty((0, 2)), np.empty(0))
        self.all = Data(empty, np.empty((0, 2)), np.empty(0))

    def step(self) -> float:
        """One more observation; returns the time of the next decision."""
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


def assert_same(made: ExactPosterior, data: Data, surface: CandidateGrid, now: float) -> None:
    """As a posterior from scratch, and on its surface as at those points."""
    fresh = Factored().condition(made.kernel, data, surface=surface, now=now)
    for a, b in zip(made.on_surface(), fresh.on_surface(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    for a, b in zip(made.predict(surface.at(now)), fresh.on_surface(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    elsewhere = inputs(made.kernel, np.random.default_rng(0).random((5, 2)), now + 0.5)
    for a, b in zip(made.predict(elsewhere), fresh.predict(elsewhere), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    np.testing.assert_allclose(made.covariance(elsewhere), fresh.covariance(elsewhere), atol=1e-9)
    assert made.log_det_ratio == pytest.approx(fresh.log_det_ratio, abs=1e-8)
    np.testing.assert_allclose(made.log_evidence(), fresh.log_evidence(), rtol=1e-9, atol=1e-8)
    assert made.data is data


@every_kernel
@pytest.mark.parametrize("late", [0.0, 0.2])
def test_appending_equals_a_new_start_and_never_factors(
    kernel: Kernel, late: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(kernel, 1, late=late)
    surface = CandidateGrid(kernel, run.points)
    factored, made = Count(monkeypatch, "cholesky"), None
    for step in range(150):
        now = run.step()
        made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
        if step == 0:
            assert factored.calls == 1
        if step % 25 == 24:
            assert_same(made, run.all, surface, now)
            assert made.size == step + 1
            assert factored.calls == 1 + (step + 1) // 25  # those of the comparison


@pytest.mark.parametrize("kernel", [RBF(0.2), SHRINKING["drift"], NOT_SHRINKING["two rates"]])
def test_appending_without_a_surface(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    run, made = Run(kernel, 2), None
    factored = Count(monkeypatch, "cholesky")
    for _ in range(120):
        now = run.step()
        made = Factored().condition(kernel, run.all, now=now, previous=made)
    assert factored.calls == 1
    assert made is not None
    assert made.surface is None
    surface = CandidateGrid(kernel, run.points)
    made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
    assert factored.calls == 1  # only the surface is new
    assert_same(made, run.all, surface, now)


def test_several_rows_at_once_and_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = SHRINKING["drift"]
    run, made = Run(kernel, 3), None
    surface = CandidateGrid(kernel, run.points)
    factored = Count(monkeypatch, "cholesky")
    for count in (3, 1, 0, 7, 0, 12):
        for _ in range(count):
            now = run.step()
        now += 0.25
        made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
        before = factored.calls
        assert_same(made, run.all, surface, now)
        factored.calls = before
    assert factored.calls == 1


@pytest.mark.parametrize("kernel", [RBF(0.2), *SHRINKING.values()], ids=str)
def test_points_of_the_surface_need_no_triangular_solve(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, made = Run(kernel, 4, elsewhere=0.0, late=0.0), None
    surface = CandidateGrid(kernel, run.points)
    solved = Count(monkeypatch, "solve_lower")
    for step in range(60):
        run.step()
        made = Factored().condition(kernel, run.all, surface=surface, now=run.time, previous=made)
        if step == 0:
            solved.calls = 0
    assert solved.calls == 0
    assert made is not None
    assert_same(made, run.all, surface, run.time)


@pytest.mark.parametrize("epsilon", [0.4, 0.95])
def test_thousands_of_steps_of_fast_forgetting(epsilon: float) -> None:
    """Covariances shrink below any float many times over; the scale is folded in on the way."""
    kernel = OnSpace(RBF(0.3)) * Drift(epsilon)
    rng = np.random.default_rng(5)
    points = rng.random((6, 2))
    surface, steps = CandidateGrid(kernel, points), 2000
    Z = np.column_stack([points[rng.integers(6, size=steps)], np.arange(steps) + rng.random(steps)])
    Y, variance = rng.standard_normal((steps, 2)), 10 ** rng.uniform(-3, 1, steps)
    made: ExactPosterior | None = None
    shrinks = []
    for n in range(1, steps + 1):
        now, recent = n + 0.5, slice(max(0, n - 200), n)
        data = Data(Z[:n], Y[:n], variance[:n])
        made = Factored().condition(kernel, data, surface=surface, now=now, previous=made)
        assert made.surface is not None
        shrinks.append(made.surface.shrink)
        if n % 400 in (1, 37, 43):
            kept = Data(Z[recent], Y[recent], variance[recent])
            fresh = Factored().condition(kernel, kept, surface=surface, now=now)
            for a, b in zip(made.on_surface(), fresh.on_surface(), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-9)
    assert made is not None
    assert made.size == steps
    assert min(shrinks) >= 1e-6
    assert sum(b > a for a, b in itertools.pairwise(shrinks)) >= 20  # folded in


def test_a_gap_beyond_the_range_of_a_float() -> None:
    kernel = OnSpace(RBF(0.3)) * Drift(0.5)
    run = Run(kernel, 6)
    surface, made = CandidateGrid(kernel, run.points), None
    for _ in range(5):
        now = run.step()
        made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
    run.time += 1e5
    for _ in range(5):
        now = run.step()
        made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
    assert made is not None
    assert_same(made, run.all, surface, now)


@every_kernel
def test_a_present_before_some_observations(kernel: Kernel) -> None:
    """A posterior may speak about a time before some of its data, then about later ones."""
    run = Run(kernel, 7)
    surface = CandidateGrid(kernel, run.points)
    for _ in range(8):
        run.step()
    made = None
    for now in (-3.0, 2.0, 4.0, run.time - 0.1, run.time + 1.0, 3.0, run.time + 2.0):
        made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
        assert_same(made, run.all, surface, now)
        run.step()


# Windows.


@pytest.mark.parametrize("kernel", ALL.values(), ids=ALL.keys())
def test_a_sliding_window_equals_a_new_start_and_never_factors(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    length, run = 120, Run(kernel, 8, elsewhere=1.0)
    for _ in range(length):
        run.step()
    surface = CandidateGrid(kernel, run.points)
    made = Factored().condition(kernel, run.all, surface=surface, now=run.time)
    factored, rotated = Count(monkeypatch, "cholesky"), Count(monkeypatch, "drop_rows")
    for step in range(1, 181):
        now = run.step()
        data = run.all.rows(step)
        made = Factored().condition(kernel, data, surface=surface, now=now, previous=made)
        if step % 90 == 0:
            before = factored.calls
            assert_same(made, data, surface, now)
            factored.calls = before
    assert factored.calls == 0
    assert rotated.calls == 180
    assert made.size == length


@pytest.mark.parametrize(
    "surface", [None, CandidateGrid(RBF(0.2), np.random.default_rng(0).random((9, 2)))]
)
def test_a_long_window_with_repeated_points(surface: CandidateGrid | None) -> None:
    """Points recur, so that where the window starts must be found by more than one row."""
    rng = np.random.default_rng(9)
    points = np.random.default_rng(0).random((9, 2))
    Z = points[np.minimum(rng.geometric(0.5, 1500) - 1, 8)]
    Y, made = rng.standard_normal((1500, 1)), None
    for n in range(1, 1501):
        data = Data(Z[max(0, n - 130) : n], Y[max(0, n - 130) : n], np.full(min(n, 130), 0.01))
        made = Factored().condition(RBF(0.2), data, surface=surface, previous=made)
        if n % 300 == 0:
            fresh = Factored().condition(RBF(0.2), data)
            for a, b in zip(made.predict(points), fresh.predict(points), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-10)
            if surface is not None:
                for a, b in zip(made.on_surface(), fresh.predict(points), strict=True):
                    np.testing.assert_allclose(a, b, atol=1e-10)


def window_of(n: int) -> tuple[ExactPosterior, Data]:
    rng = np.random.default_rng(10)
    Z, Y = rng.random((n + 40, 2)), rng.standard_normal((n + 40, 1))
    every = Data(Z, Y, 10 ** rng.uniform(-2, 1, n + 40))
    return Factored().condition(RBF(0.2), Data(Z[:n], Y[:n], every.variance[:n])), every


@pytest.mark.parametrize(
    ("n", "dropped", "rotates"),
    [
        (ROTATE_FROM, 1, True),
        (ROTATE_FROM - 1, 1, False),
        (160, 20, True),
        (160, 21, False),
    ],
)
def test_rotation_is_taken_where_it_is_cheaper(
    n: int, dropped: int, rotates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, every = window_of(n)
    data = Data(*(column[dropped : n + 3] for column in (every.Z, every.Y, every.variance)))
    factored, rotated = Count(monkeypatch, "cholesky"), Count(monkeypatch, "drop_rows")
    moved = Factored().condition(made.kernel, data, previous=made)
    assert (rotated.calls == 1, factored.calls == 0) == (rotates, rotates)
    fresh = Factored().condition(made.kernel, data)
    for a, b in zip(moved.predict(every.Z), fresh.predict(every.Z), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert moved.log_det_ratio == pytest.approx(fresh.log_det_ratio, rel=1e-10)
    np.testing.assert_allclose(moved.log_evidence(), fresh.log_evidence(), rtol=1e-10)


def test_repeated_points_do_not_hide_where_a_window_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, every = window_of(120)
    every.Z[:3] = every.Z[0]
    every.variance[:3] = 0.1
    made = Factored().condition(RBF(0.2), every.row(0))
    made = Factored().condition(RBF(0.2), every, previous=made)
    factored = Count(monkeypatch, "cholesky")
    for dropped in (1, 2, 3, 4):
        made = Factored().condition(RBF(0.2), every.rows(dropped), previous=made)
    assert factored.calls == 0
    fresh = Factored().condition(RBF(0.2), every.rows(4))
    for a, b in zip(made.predict(every.Z), fresh.predict(every.Z), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("column", ["Z", "Y", "variance"])
@pytest.mark.parametrize("row", [0, 50, 99])
def test_a_change_in_older_rows_is_never_missed(column: str, row: int) -> None:
    made, every = window_of(100)
    data = Data(every.Z[:105].copy(), every.Y[:105].copy(), every.variance[:105].copy())
    getattr(data, column)[row] *= 1.5
    moved = Factored().condition(made.kernel, data, previous=made)
    fresh = Factored().condition(made.kernel, data)
    for a, b in zip(moved.predict(every.Z), fresh.predict(every.Z), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_forgotten_rows_have_no_influence() -> None:
    """Two pasts that differ in forgotten rows only: nothing of either is left."""
    made, every = window_of(160)
    other = Data(every.Z.copy(), every.Y.copy(), every.variance.copy())
    other.Y[:10] += 1e3
    other.Z[:10] = 0.5
    posts = []
    for whole in (every, other):
        first = Factored().condition(
            made.kernel, Data(whole.Z[:160], whole.Y[:160], whole.variance[:160])
        )
        posts.append(Factored().condition(made.kernel, whole.rows(10), previous=first))
    for a, b in zip(*(post.predict(every.Z) for post in posts), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert posts[0].size == posts[1].size == 190


def test_jittered_factors_are_not_built_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    Z, Y = rng.random((40, 1)), np.ones((40, 1))
    Z[39] = 300.0  # far from the others, it could be appended well
    made = Factored().condition(RBF(10.0), Data(Z[:39], Y[:39], np.full(39, 1e-18)))
    assert made.jitter > 0
    factored = Count(monkeypatch, "cholesky")
    Factored().condition(RBF(10.0), Data(Z, Y, np.full(40, 1e-18)), previous=made)
    assert factored.calls == 1


def test_a_lost_pivot_is_factored_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A nearly repeated input without noise: appending would take a root of rounding."""
    Z = np.array([[0.0], [0.5], [0.5 + 1e-9]])
    data = Data(Z, np.array([[0.0], [1.0], [1.0]]), np.full(3, 1e-17))
    made = Factored().condition(RBF(1.0), Data(Z[:2], data.Y[:2], data.variance[:2]))
    assert made.jitter == 0.0
    factored = Count(monkeypatch, "cholesky")
    grown = Factored().condition(RBF(1.0), data, previous=made)
    assert factored.calls == 1
    assert grown.predict(np.array([[0.5]]))[0][0, 0] == pytest.approx(1.0, abs=1e-4)


def test_appending_after_a_merge() -> None:
    """What merging took out of the evidence stays counted when rows are appended."""
    rng = np.random.default_rng(12)
    Z = rng.random((30, 2))[rng.integers(0, 9, 30)]
    Y, variance = rng.standard_normal((30, 2)), 10 ** rng.uniform(-2, 1, 30)
    merged = Factored().condition(RBF(0.3), Data(Z[:20], Y[:20], variance[:20]))
    assert merged.size < 20
    grown = Factored().condition(RBF(0.3), Data(Z, Y, variance), previous=merged)
    assert grown.size == merged.size + 10
    fresh = Factored().condition(RBF(0.3), Data(Z, Y, variance))
    np.testing.assert_allclose(grown.log_evidence(), fresh.log_evidence(), rtol=1e-10)
    expected = np.linalg.slogdet(np.eye(30) + RBF(0.3)(Z) / variance[:, None])[1]
    assert grown.log_det_ratio == pytest.approx(expected, rel=1e-10)


# Frozen values.


def snapshot(made: ExactPosterior, Z: Array) -> list[Array]:
    return [*made.on_surface(), *made.predict(Z), made.factor.array.copy(), made.log_evidence()]


@pytest.mark.parametrize("kernel", [RBF(0.2), SHRINKING["drift"]], ids=["space", "drift"])
def test_older_posteriors_stay_as_they_were(kernel: Kernel) -> None:
    run = Run(kernel, 13)
    surface, made = CandidateGrid(kernel, run.points), None
    history: list[tuple[ExactPosterior, list[Array]]] = []
    where = inputs(kernel, run.points[:3] + 0.01, 7.0)
    for _ in range(40):
        now = run.step()
        made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
        history.append((made, snapshot(made, where)))
    for old, before in history:
        for a, b in zip(snapshot(old, where), before, strict=True):
            assert np.array_equal(a, b)


@pytest.mark.parametrize("kernel", [RBF(0.2), SHRINKING["drift"]], ids=["space", "drift"])
def test_two_futures_of_one_posterior(kernel: Kernel) -> None:
    run = Run(kernel, 14)
    surface = CandidateGrid(kernel, run.points)
    for _ in range(10):
        now = run.step()
    root = Factored().condition(kernel, run.all, surface=surface, now=now)
    where = inputs(kernel, run.points[:3] + 0.01, 7.0)
    before, common, time = snapshot(root, where), run.all, run.time
    futures: list[tuple[ExactPosterior, Data, float]] = []
    for _ in range(3):
        run.all, run.time, made = common, time, root
        for _ in range(12):
            now = run.step()
            made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
        futures.append((made, run.all, now))
    for made, data, now in futures:
        assert_same(made, data, surface, now)
    for a, b in zip(snapshot(root, where), before, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("kernel", [RBF(0.2), SHRINKING["drift"]], ids=["space", "drift"])
@pytest.mark.parametrize("predicted_first", [False, True])
def test_a_pickled_posterior_continues_bit_for_bit(kernel: Kernel, predicted_first: bool) -> None:
    run = Run(kernel, 15)
    surface, made = CandidateGrid(kernel, run.points), None
    where = inputs(kernel, run.points[:3] + 0.01, 7.0)
    for _ in range(30):
        now = run.step()
        made = Factored().condition(kernel, run.all, surface=surface, now=now, previous=made)
    assert made is not None
    if predicted_first:
        made.predict(where)
    again, fresh_surface = pickle.loads(pickle.dumps(made)), CandidateGrid(kernel, run.points)
    for _ in range(150):
        now = run.step()
        data = run.all if len(run.all) < 140 else run.all.rows(len(run.all) - 139)
        made = Factored().condition(kernel, data, surface=surface, now=now, previous=made)
        again = Factored().condition(kernel, data, surface=fresh_surface, now=now, previous=again)
        for a, b in zip(made.on_surface(), again.on_surface(), strict=True):
            assert np.array_equal(a, b)
    for a, b in zip(snapshot(made, where), snapshot(again, where), strict=True):
        assert np.array_equal(a, b)


# The surface itself.


@every_kernel
def test_kernel_rows_of_a_surface(kernel: Kernel) -> None:
    rng = np.random.default_rng(16)
    points = rng.random((7, 2))
    surface = CandidateGrid(kernel, points)
    Z = inputs(kernel, rng.random((9, 2)), 5 * rng.random(9))
    at = inputs(kernel, points, 6.5)
    for rows in (Z[:4], Z[[1, 5, 1]], Z, Z[:0]):
        given = surface.rows(rows, 6.5)
        np.testing.assert_allclose(given, kernel(rows, at), rtol=1e-12)
        given[...] = np.nan  # an array of its own
    np.testing.assert_array_equal(surface.prior_variance(6.5), kernel.diag(at))
    assert [surface.index(point) for point in points] == list(range(7))
    assert surface.index(points[0] + 1e-12) is None


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    original = RBF.__call__

    def counted(self: RBF, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> object:
        seen.append(len(X))
        return original(self, X, Y, eval_gradient)

    monkeypatch.setattr(RBF, "__call__", counted)
    return seen


def test_a_pure_space_kernel_is_evaluated_once_for_each_input(evaluations: list[int]) -> None:
    surface = CandidateGrid(RBF(0.2), np.random.default_rng(17).random((7, 2)))
    Z = np.random.default_rng(18).random((5, 2))
    surface.rows(Z[[0, 1, 0]], 0.0)
    surface.rows(Z, 1.0)
    surface.rows(Z, 2.0)
    assert sum(evaluations) == 5


def test_the_kernels_of_this_file_take_the_routes_they_are_meant_for() -> None:
    assert not any(is_space_time(kernel) for kernel in SPACE.values())
    assert all(advance(kernel, 1.0) is not None for kernel in SHRINKING.values())
    assert all(advance(kernel, 1.0) is None for kernel in NOT_SHRINKING.values())
    assert cholesky.linalg is linalg  # the calls counted here are those made there

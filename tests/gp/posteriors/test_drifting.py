"""The filter of a drifting reward against the exact posterior of its space-time kernel."""

from __future__ import annotations

import pickle
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tests.oracles import loops
from tvbandits import policies
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array
from tvbandits.core.box import Box
from tvbandits.core.candidates import Candidates
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posteriors import nystrom
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.drifting import DriftPosterior
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.kalman import ROUNDING
from tvbandits.gp.posteriors.nystrom import Growing, Nystrom

EVERY_POINT = Nystrom(oversampling=1e12, tolerance=1e-12)

KERNELS: dict[str, Kernel] = {
    "drift": OnSpace(Matern(0.4, nu=2.5)) * Drift(0.1),
    "drift first": Drift(0.3) * OnSpace(Matern([0.3, 0.6], nu=1.5)),
    "exponential": OnSpace(Matern(0.4, nu=2.5)) * OnTime(Matern(5.0, nu=0.5)),
    "scaled": ConstantKernel(4.0) * OnSpace(Matern(0.3, nu=1.5)) * Drift(0.05),
    "scaled inside": OnSpace(0.3 * RBF(0.3) + 0.2 * Matern(0.5, nu=0.5)) * Drift(0.05),
    "two in time": OnSpace(Matern(0.4, nu=2.5)) * Drift(0.02) * OnTime(Matern(20.0, nu=0.5)),
    "two over points": OnSpace(Matern(0.4, nu=2.5)) * OnSpace(RBF(2.0)) * Drift(0.1),
    "a power": OnSpace(RBF(0.3)) * OnTime(Matern(9.0, nu=0.5) ** 2),
    "no drift": OnSpace(Matern(0.4, nu=2.5)) * Drift(0.0, "fixed"),
    "fast": OnSpace(Matern(0.4, nu=2.5)) * Drift(0.95),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


class Run:
    """A seeded stream of observations: unevenly in time, in groups at one time, of unequal noise."""

    def __init__(self, seed: int, *, late: float = 0.0, points: int = 12) -> None:
        self.rng = np.random.default_rng(seed)
        self.points = self.rng.random((points, 2))
        self.late, self.time = late, 0.0
        self.data = Data(np.empty((0, 3)), np.empty((0, 2)), np.empty(0))

    def step(self) -> float:
        """One more observation; returns the time of the next decision."""
        rng = self.rng
        if rng.random() < 0.7:
            self.time += rng.exponential()
        t = self.time - (4 * rng.random() if rng.random() < self.late else 0.0)
        x = self.points[rng.integers(len(self.points))] if rng.random() < 0.7 else rng.random(2)
        self.data = Data(
            np.vstack([self.data.Z, [*x, t]]),
            np.vstack([self.data.Y, [rng.standard_normal(), 1.0]]),
            np.append(self.data.variance, 10 ** rng.uniform(-2, 1)),
        )
        return self.time + rng.exponential()

    def steps(self, count: int) -> float:
        """Several; returns the time of the next decision."""
        return [self.step() for _ in range(count)][-1]


def exact(kernel: Kernel, data: Data) -> ExactPosterior:
    return Factored().condition(kernel, data)


def filtered(posterior: object) -> DriftPosterior:
    assert isinstance(posterior, DriftPosterior)
    return posterior


def at(points: Array, t: float) -> Array:
    return np.column_stack([points, np.full(len(points), t)])


def assert_same(made: DriftPosterior, kernel: Kernel, data: Data, points: Array | None) -> None:
    """Everything that both posteriors tell, from the last time on."""
    oracle = exact(kernel, data)
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-8 * float(kernel.diag(np.zeros((1, 3)))[0])}
    rng = np.random.default_rng(1)
    for later in (0.0, 0.3, 7.0, 1e4):
        Z = at(np.vstack([rng.random((5, 2)), data.Z[-6:, :2]]), made.last + later)
        # Away from the dictionary both know the same, too: it spans all that was observed.
        for mine, theirs in zip(made.predict(Z), oracle.predict(Z), strict=True):
            np.testing.assert_allclose(mine, theirs, **close)
        others = at(rng.random((4, 2)), made.last + 2.0)
        for Z2 in (Z, others, np.vstack([others, Z])):
            expected = oracle.cross_covariance(Z, Z2)
            np.testing.assert_allclose(made.cross_covariance(Z, Z2), expected, **close)
    noisy = kernel(data.Z) + np.diag(data.variance)
    products = data.Y.T @ np.linalg.solve(noisy, data.Y)
    np.testing.assert_allclose(made.products, products, rtol=1e-6, atol=1e-8)
    assert made.log_det_ratio == pytest.approx(oracle.log_det_ratio, rel=1e-7, abs=1e-9)
    assert made.size == len(data)
    assert (np.diagonal(made.covariance) > 0).all()
    np.testing.assert_allclose(made.covariance, made.covariance.T, rtol=0, atol=1e-12)
    if points is None:
        with pytest.raises(ValueError, match="conditioned without fixed points"):
            made.on_surface()
        return
    for mine, theirs in zip(made.on_surface(), oracle.predict(at(points, made.now)), strict=True):
        np.testing.assert_allclose(mine, theirs, **close)


# --- the exact posterior --------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("on_surface", [True, False], ids=["surface", "none"])
def test_it_is_the_exact_posterior_on_a_dictionary_of_all_points(
    kernel: Kernel, on_surface: bool
) -> None:
    run, rng = Run(3), np.random.default_rng(0)
    surface = CandidateGrid(kernel, run.points) if on_surface else None
    made: DriftPosterior | None = None
    for step in range(40):
        now = run.step()
        made = filtered(
            EVERY_POINT.condition(
                kernel, run.data, surface=surface, now=now, previous=made, rng=rng
            )
        )
        if step % 13 == 0 or step == 39:
            assert_same(made, kernel, run.data, run.points if on_surface else None)
    assert made is not None
    assert made.jitter == 0.0
    assert made.condition_number >= 1.0
    assert 0 < made.effective_dimension() < made.dictionary_size


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(KERNELS)))
def test_step_by_step_is_all_at_once(seed: int, name: str) -> None:
    kernel, run = KERNELS[name], Run(seed, late=0.2)
    surface = CandidateGrid(kernel, run.points)
    made: DriftPosterior | None = None
    for _ in range(3):
        now = run.steps(int(run.rng.integers(1, 25)))
        made = filtered(
            EVERY_POINT.condition(kernel, run.data, surface=surface, now=now, previous=made)
        )
        assert_same(made, kernel, run.data, run.points)


def test_rows_of_a_batch_may_come_in_any_order() -> None:
    kernel, run = KERNELS["drift"], Run(8)
    run.steps(10)
    made = filtered(EVERY_POINT.condition(kernel, run.data, now=run.time))
    Z = at(run.points[:4], 0.0)
    Z[:, 2] = run.time + np.array([3.0, 1.0, 2.0, 1.0])
    batch = Data(Z, np.arange(8.0).reshape(4, 2), np.full(4, 0.1))
    both = Data(*(np.concatenate(pair) for pair in zip(run.data, batch, strict=True)))
    after = filtered(EVERY_POINT.condition(kernel, both, now=run.time + 3, previous=made))
    assert_same(after, kernel, both, None)
    assert after.last == run.time + 3


def test_what_is_known_goes_on_where_it_can() -> None:
    kernel, run = KERNELS["drift"], Run(5)
    surface = CandidateGrid(kernel, run.points)
    now = run.steps(20)
    calls: list[Data] = []

    def condition(data: Data, previous: Any, surface: Any = surface) -> DriftPosterior:
        calls.clear()
        posterior = EVERY_POINT.condition(
            kernel, data, surface=surface, now=now + 9, previous=previous
        )
        assert_same(filtered(posterior), kernel, data, None if surface is None else run.points)
        return filtered(posterior)

    with pytest.MonkeyPatch.context() as patch:
        observed = DriftPosterior.observed

        def counted(self: DriftPosterior, row: Data, z: Array) -> DriftPosterior:
            calls.append(row)
            return observed(self, row, z)

        patch.setattr(DriftPosterior, "observed", counted)
        first = condition(run.data, None)
        assert len(calls) == 20
        condition(run.data, first)  # only the time has moved on
        assert len(calls) == 0
        run.steps(3)
        now = run.time
        second = condition(run.data, first)
        assert len(calls) == 3
        heavier = replace(run.data, variance=run.data.variance * 1.5)
        condition(heavier, second)
        assert len(calls) == 23
        condition(run.data.rows(2), second)  # the oldest are forgotten
        assert len(calls) == 21
        late = run.data.row(0)
        late = Data(late.Z - [0, 0, 0.5], late.Y, late.variance)
        all_rows = Data(*(np.concatenate(pair) for pair in zip(run.data, late, strict=True)))
        third = condition(all_rows, second)
        assert len(calls) == 24
        run.data = all_rows
        run.steps(1)
        condition(run.data, third)  # a late row stays where it is
        assert len(calls) == 1
        condition(run.data, third, None)
        assert len(calls) == 25
        condition(run.data, condition(run.data, None, None))
        assert len(calls) == 25
        condition(run.data, exact(kernel, run.data))
        assert len(calls) == 25


@every_kernel
def test_a_long_history_leaves_no_trace_of_rounding(kernel: Kernel) -> None:
    run, rng = Run(11, points=6), np.random.default_rng(0)
    surface, made = CandidateGrid(kernel, run.points), None
    for _ in range(6):
        now = run.steps(60)
        made = EVERY_POINT.condition(
            kernel, run.data, surface=surface, now=now, previous=made, rng=rng
        )
    at_once = EVERY_POINT.condition(kernel, run.data, surface=surface, now=now)
    for mine, theirs in zip(filtered(made).on_surface(), at_once.on_surface(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8)
    assert filtered(made).log_det_ratio == pytest.approx(at_once.log_det_ratio, rel=1e-9)
    np.testing.assert_allclose(filtered(made).products, at_once.products, rtol=1e-7)


@pytest.mark.parametrize("noise", [1e-12, 1e-6, 1e6])
def test_extreme_noise(noise: float) -> None:
    kernel, run = KERNELS["no drift"], Run(2, points=5)
    run.steps(3)
    Z = at(np.repeat(run.points, 4, axis=0), 1.0)
    data = Data(Z, np.repeat(np.arange(5.0), 4)[:, None], np.full(20, noise))
    made = filtered(
        EVERY_POINT.condition(kernel, data, surface=CandidateGrid(kernel, run.points), now=2.0)
    )
    means, variance = made.on_surface()
    expected = exact(kernel, data).predict(at(run.points, 2.0))
    np.testing.assert_allclose(means, expected[0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-4, atol=ROUNDING)
    assert np.isfinite(made.log_det_ratio)
    assert made.jitter == pytest.approx(ROUNDING - noise if noise < ROUNDING else 0.0, rel=1e-4)


@pytest.mark.parametrize("name", ["drift", "no drift", "scaled"])
def test_noise_below_rounding_is_raised_and_reported(name: str) -> None:
    # Five rewards of size 10 that contradict each other, of each of three points, at one time.
    kernel, points = KERNELS[name], Run(2, points=3).points
    lowest = ROUNDING * float(kernel.diag(at(points[:1], 0.0))[0])
    Z = np.vstack([at(np.repeat(points, 5, axis=0), t) for t in range(4)])
    Y = np.column_stack([10 * np.random.default_rng(0).standard_normal(60), np.ones(60)])
    surface = CandidateGrid(kernel, points)
    for noise, jitter in ((1e-18, lowest), (0.25 * lowest, 0.75 * lowest), (2.0 * lowest, 0.0)):
        made, raised = (
            filtered(
                EVERY_POINT.condition(
                    kernel, Data(Z, Y, np.full(60, some)), surface=surface, now=3.0
                )
            )
            for some in (noise, max(noise, lowest))
        )
        assert made.jitter == pytest.approx(jitter, rel=1e-6)
        for mine, its in zip(made.on_surface(), raised.on_surface(), strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-6, atol=1e-9)
        latest = Y[:, 0].reshape(-1, 3, 5)
        mean = (latest if name == "no drift" else latest[-1:]).mean(axis=(0, 2))
        np.testing.assert_allclose(made.on_surface()[0][:, 0], mean, rtol=0, atol=1e-3)
        assert np.isfinite(made.products).all()


def test_what_is_no_longer_heard_moves_nothing() -> None:
    kernel, run = KERNELS["drift"], Run(4)
    run.steps(30)
    old = Data(run.data.Z - [0.0, 0.0, 600.0], run.data.Y + 100.0, run.data.variance)
    both = Data(*(np.concatenate(pair) for pair in zip(old, run.data, strict=True)))
    Z = at(run.points, run.time + 1)
    with_old, without = (
        EVERY_POINT.condition(kernel, data).predict(Z) for data in (both, run.data)
    )
    for mine, theirs in zip(with_old, without, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-8)
    # The evidence of the old rows and what they told is theirs, however it is computed.
    assert_same(filtered(EVERY_POINT.condition(kernel, both)), kernel, both, None)


# --- nothing, one point, degenerate inputs --------------------------------------------------------


def test_before_any_observation() -> None:
    kernel, run = KERNELS["scaled"], Run(0)
    surface = CandidateGrid(kernel, run.points)
    made = filtered(EVERY_POINT.condition(kernel, run.data, surface=surface, now=5.0))
    assert (made.size, made.dictionary_size, made.log_det_ratio) == (0, 0, 0.0)
    assert made.condition_number == 1.0
    assert made.effective_dimension() == 0.0
    for means, variance in (made.on_surface(), made.predict(at(run.points, -3.0))):
        np.testing.assert_array_equal(means, np.zeros((12, 2)))
        np.testing.assert_allclose(variance, 4.0)
    run.steps(1)
    assert_same(
        filtered(EVERY_POINT.condition(kernel, run.data, surface=surface, now=9.0, previous=made)),
        kernel,
        run.data,
        run.points,
    )


def test_a_point_whose_reward_is_known_beforehand() -> None:
    kernel = OnSpace(DotProduct(0.0, "fixed")) * Drift(0.1)
    Z = np.array([[0.0, 0.0, 1.0], [0.5, 1.0, 2.0], [0.0, 0.0, 2.0], [1.0, 2.0, 3.0]])
    data = Data(Z, np.arange(4.0)[:, None], np.full(4, 0.1))
    for count in range(1, 5):
        some = Data(Z[:count], data.Y[:count], data.variance[:count])
        made = filtered(EVERY_POINT.condition(kernel, some))
        assert made.dictionary_size == (count > 1)
        tests = at(np.random.default_rng(0).random((5, 2)), 4.0)
        for mine, theirs in zip(
            made.predict(tests), exact(kernel, some).predict(tests), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-10)


def test_a_point_that_would_change_the_root_stays_outside() -> None:
    kernel, run = KERNELS["drift"], Run(1)
    run.steps(5)
    made = filtered(EVERY_POINT.condition(kernel, run.data))
    again = made.dictionary.rows.Z[:1]
    assert nystrom._joined(made.dictionary, again, None) is None


# --- questions ------------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("on_surface", [True, False], ids=["surface", "none"])
def test_the_past_is_the_exact_posterior_given_all_rewards(
    kernel: Kernel, on_surface: bool
) -> None:
    run = Run(6, late=0.2)
    end = max(run.steps(30), run.time)
    surface = CandidateGrid(kernel, run.points) if on_surface else None
    oracle = exact(kernel, run.data)
    scale = float(kernel.diag(np.zeros((1, 3)))[0])
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-8 * scale}
    played = run.data.Z[:, :-1]
    for now in (-20.0, 0.3 * end, run.time - 1e-3, float(run.data.Z[7, -1])):
        made = filtered(EVERY_POINT.condition(kernel, run.data, surface=surface, now=now))
        times = np.tile([now, run.time, end + 1.0, -1.0, 0.5 * end], 6)
        mixed = np.column_stack([played, times])
        Z = np.vstack([at(played, now), mixed])
        for some in (Z, Z[3:9], at(np.tile(run.points, (9, 1)), now)):
            for mine, theirs in zip(made.predict(some), oracle.predict(some), strict=True):
                np.testing.assert_allclose(mine, theirs, **close)
        for Z1, Z2 in ((Z, mixed), (mixed[:4], Z[:2]), (at(played, end), Z)):
            expected = oracle.cross_covariance(Z1, Z2)
            np.testing.assert_allclose(made.cross_covariance(Z1, Z2), expected, **close)
        z = at(made.dictionary.rows.Z[2:3], now)
        smaller = made.shrunk(z, 0.2, surface).shrunk(z, 0.5, surface)
        shrunk = oracle.shrunk(z, 0.2, None).shrunk(z, 0.5, None)
        np.testing.assert_allclose(smaller.predict(Z)[1], shrunk.predict(Z)[1], **close)
        np.testing.assert_allclose(smaller.predict(Z)[0], made.predict(Z)[0], **close)
        assert smaller.log_det_ratio == pytest.approx(shrunk.log_det_ratio, rel=1e-7)
        if on_surface:
            there = at(run.points, now)
            for mine, theirs in zip(made.on_surface(), made.predict(there), strict=True):
                np.testing.assert_allclose(mine, theirs, **close)
            np.testing.assert_allclose(smaller.on_surface()[1], smaller.predict(there)[1], **close)


def test_what_it_says_about_the_past_meets_what_it_says_about_the_present() -> None:
    # On a dictionary that grew, observations stay where they were taken to be.
    kernel, run = OnSpace(RBF(0.3)) * Drift(0.01), Run(9, points=40)
    rule, made = Nystrom(oversampling=1.0), None
    for _ in range(20):
        run.steps(4)
        made = rule.condition(kernel, run.data, now=run.time, previous=made)
    made = filtered(made)
    assert len(np.unique(made.joined)) > 5
    just, before = at(run.points, run.time), at(run.points, run.time - 1e-9)
    for mine, theirs in zip(made.predict(before), made.predict(just), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)


def test_a_bandit_speaks_about_the_past() -> None:
    domain = Candidates(np.linspace(0, 1, 5)[:, None])
    told = []
    for part in (Exact(), EVERY_POINT):
        bandit = policies.tv_gp_ucb(domain, RBF(0.3), 0.1, epsilon=0.1, posterior=part, mean=0.0)
        bandit.tell(domain.X, np.arange(5.0), t=4.0)
        bandit.tell(domain.X[:2], [3.0, 1.0], t=6.0)
        before = bandit.state
        told.append([*bandit.predict(domain.X, 3.0), *bandit.predict(domain.X, 5.0)])
        told[-1].append(bandit.recommend(5.0))
        assert bandit.state is before
    for mine, theirs in zip(*told, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7)


@every_kernel
def test_shrunk_is_one_more_observation_of_unknown_value(kernel: Kernel) -> None:
    run = Run(7)
    surface = CandidateGrid(kernel, run.points)
    now = run.steps(25)
    made = filtered(EVERY_POINT.condition(kernel, run.data, surface=surface, now=now))
    z = at(made.dictionary.rows.Z[3:4], now)
    shrunk = made.shrunk(z, 0.05, surface).shrunk(z, 0.2, surface)
    more = Data(
        np.vstack([run.data.Z, z, z]),
        np.vstack([run.data.Y, np.zeros((2, 2))]),
        np.append(run.data.variance, [0.05, 0.2]),
    )
    oracle = exact(kernel, more)
    expected = oracle.predict(at(run.points, now))[1]
    np.testing.assert_allclose(shrunk.on_surface()[1], expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        shrunk.predict(at(run.points, now + 1))[1],
        oracle.predict(at(run.points, now + 1))[1],
        rtol=1e-6,
        atol=1e-8,
    )
    assert shrunk.log_det_ratio == pytest.approx(oracle.log_det_ratio, rel=1e-7)
    np.testing.assert_allclose(shrunk.on_surface()[0], made.on_surface()[0], rtol=0, atol=1e-9)
    assert (shrunk.on_surface()[1] <= made.on_surface()[1] + 1e-12).all()


# --- the dictionary -------------------------------------------------------------------------------


class Draws:
    """A stand-in for a generator: the uniform numbers given, one after another."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def random(self) -> float:
        return self.values.pop(0)


def test_a_point_joins_by_its_leverage() -> None:
    # Two far points; the first always joins, the second with probability q var / noise.
    kernel = OnSpace(RBF(0.1)) * Drift(0.1)
    first, second = np.array([[0.0, 0.0, 1.0]]), np.array([[1.0, 1.0, 2.0]])
    rows = [Data(z, np.ones((1, 1)), np.array([4.0])) for z in (first, second, second)]
    part = Growing(oversampling=2.0, tolerance=1e-9)  # probability 2 * 1 / 4

    def condition(*draws: float) -> DriftPosterior:
        data = Data(*(np.concatenate(column) for column in zip(*rows[: len(draws)], strict=True)))
        rng: Any = Draws(*draws)
        made = part.condition(kernel, data, None, 5.0, None, rng)
        assert rng.values == []
        return made

    assert condition(0.99).dictionary_size == 1
    assert condition(0.99, 0.51).dictionary_size == 1
    assert condition(0.99, 0.49).dictionary_size == 2
    # A visit more is a chance more, but a point that is in does not join again.
    assert condition(0.99, 0.51, 0.49).dictionary_size == 2
    assert condition(0.99, 0.49, 0.0).dictionary_size == 2
    # By then its variance has shrunk, and time has given some of it back.
    data = Data(second, np.ones((1, 1)), np.array([4.0]))
    known = condition(0.99, 0.49)
    later = Data(*(np.concatenate(pair) for pair in zip(known.data, data, strict=True)))
    share = float(known.predict(second)[1][0]) * 2 / 4
    assert 0.3 < share < 0.5
    np.testing.assert_array_equal(known.dictionary.rows.Z, np.array([[0.0, 0.0], [1.0, 1.0]]))
    assert part.condition(kernel, later, None, 5.0, known, Draws(0.0)).dictionary_size == 2  # type: ignore[arg-type]


def test_a_point_that_depends_on_the_dictionary_does_not_join() -> None:
    kernel = OnSpace(RBF(1.0)) * Drift(0.1)
    Z = np.column_stack([np.linspace(0, 1, 200), np.arange(200.0)])
    data = Data(Z, np.ones((200, 1)), np.full(200, 1e-3))
    sizes = [
        Nystrom(oversampling=1e9, tolerance=share).condition(kernel, data).dictionary_size
        for share in (1e-2, 1e-5, 1e-9)
    ]
    assert sizes[0] < sizes[1] < sizes[2] < 16


BELOW, ABOVE = 0.85, 2.0
"""How far a variance on a dictionary of q = 2 is from the exact one, as factors."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("space", [RBF(0.3), Matern(0.5, nu=1.5)], ids=["rbf", "matern"])
def test_a_growing_dictionary_keeps_variances_near_the_exact_ones(space: Kernel, seed: int) -> None:
    # A point that joins brings a weight that earlier observations are silent about, though they were
    # taken to be of the dictionary alone: variances may err on either side.
    rng, kernel = np.random.default_rng(seed), OnSpace(space) * Drift(0.003)
    points = rng.random((100, 2))
    surface, part = CandidateGrid(kernel, points), Nystrom(oversampling=2.0)
    Z = np.column_stack([points[rng.integers(100, size=400)], np.arange(400.0)])
    Y = np.sin(5 * Z[:, :1]) + 2.0 * rng.standard_normal((400, 1))
    made, ratios, errors, sizes = None, [], [], []
    for n in range(25, 401, 25):
        data = Data(Z[:n], Y[:n], np.full(n, 4.0))
        made = part.condition(kernel, data, surface=surface, now=n, previous=made, rng=rng)
        means, found = made.on_surface()
        expected, right = exact(kernel, data).predict(at(points, n))
        ratios.append(found / right)
        errors.append(np.abs(means - expected)[:, 0] / np.sqrt(right))
        sizes.append(made.dictionary_size)
    assert np.min(ratios) > BELOW
    assert np.max(ratios) < ABOVE
    assert np.max(errors) < 2.0
    assert sizes == sorted(sizes)
    assert 2 * sizes[0] < sizes[-1] < 90


# --- in a bandit ----------------------------------------------------------------------------------


def play(bandit: Bandit, steps: int, start: int = 0) -> Array:
    """Points chosen against a moving reward, with gaps in time."""

    def reward(X: Array, t: float) -> Array:
        noise = np.random.default_rng((int(t) - 1, 7)).normal(0.0, 0.1, len(X))
        return 3.0 + 2.0 * np.cos(4.0 * (X[:, 0] - 0.5 - 0.4 * np.sin(0.05 * t))) + noise

    times = [1.0 + step + 0.25 * (step % 3) for step in range(start, start + steps)]
    return loops.play(bandit, reward, times)


LINE = Candidates(np.linspace(0, 1, 41)[:, None])


@pytest.mark.parametrize("mean", ["online", 3.0])
@pytest.mark.parametrize("width", [2.0, "theory"])
def test_tv_gp_ucb_chooses_the_same_points_on_a_full_dictionary(mean: Any, width: Any) -> None:
    made = [
        policies.tv_gp_ucb(
            LINE,
            Matern(0.3, nu=1.5),
            0.01,
            epsilon=0.05,
            mean=mean,
            confidence=width,
            posterior=part,
        )
        for part in (Exact(), Nystrom(oversampling=1e6))
    ]
    runs = [play(bandit, 100) for bandit in made]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert isinstance(made[1].state.posterior, DriftPosterior)
    assert len(np.unique(runs[0])) > 5
    for field in ("beta", "posterior.information_gain", "model.centre", "model.scale"):
        mine, theirs = (attrgetter(field)(bandit.info) for bandit in made)
        assert mine == pytest.approx(theirs, rel=1e-6), field


@pytest.mark.parametrize("domain", [LINE, Box(np.array([[0.0, 1.0]]))], ids=["candidates", "box"])
def test_resumed_is_uninterrupted(domain: Any) -> None:
    def fresh() -> Bandit:
        return policies.tv_gp_ucb(
            domain, RBF(0.2), 0.01, epsilon=0.05, confidence=2.0, posterior=Nystrom(), seed=3
        )

    whole = fresh()
    expected = play(whole, 60)
    bandit, found = fresh(), []
    for start in range(0, 60, 12):
        found.append(play(bandit, 12, start))
        state = pickle.loads(pickle.dumps(bandit.state))
        bandit = Bandit.from_state(bandit.recipe, state)
    np.testing.assert_array_equal(np.concatenate(found), expected)
    for name in ("mean", "covariance", "products", "log_det_ratio", "means_at", "spread_at"):
        mine, theirs = (getattr(b.state.posterior, name) for b in (bandit, whole))
        np.testing.assert_array_equal(mine, theirs)


def test_late_and_batched_rewards_in_a_bandit() -> None:
    parts: list[Any] = [Exact(), Nystrom(oversampling=1e9, tolerance=1e-12)]
    told = []
    for part in parts:
        bandit = policies.tv_gp_ucb(
            LINE, Matern(0.3, nu=1.5), 0.01, epsilon=0.05, confidence=2.0, posterior=part
        )
        play(bandit, 10)
        bandit.tell(LINE.X[[3, 30, 8]], [1.0, 2.0, 3.0], t=[20.0, 15.0, 17.0])
        bandit.tell(LINE.X[[7]], [2.5], t=12.0)
        bandit.ask(21.0)
        bandit.tell(LINE.X[[9, 9]], [2.5, 2.6], t=14.0)
        told.append((bandit.ask(22.0), *bandit.predict(LINE.X, 25.0)))
    for mine, theirs in zip(told[1], told[0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)

"""The sparse posterior of a drifting reward, a filter, against the exact one of its kernel."""

from __future__ import annotations

import pickle
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
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.kalman import ROUNDING
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.state_space import StateSpacePosterior

EVERY_POINT = Nystrom(oversampling=1e12, tolerance=1e-12)

KERNELS: dict[str, Kernel] = {
    "drift": OnSpace(Matern(0.4, nu=2.5)) * Drift(0.1),
    "drift first": Drift(0.3) * OnSpace(Matern([0.3, 0.6], nu=1.5)),
    "exponential": OnSpace(Matern(0.4, nu=2.5)) * OnTime(Matern(5.0, nu=0.5)),
    "scaled": ConstantKernel(4.0) * OnSpace(Matern(0.3, nu=1.5)) * Drift(0.05),
    "scaled inside": OnSpace(0.3 * RBF(0.3) + 0.2 * Matern(0.5, nu=0.5)) * Drift(0.05),
    "two over points": OnSpace(Matern(0.4, nu=2.5)) * OnSpace(RBF(2.0)) * Drift(0.1),
    "no drift": OnSpace(Matern(0.4, nu=2.5)) * Drift(0.0, "fixed"),
    "fast": OnSpace(Matern(0.4, nu=2.5)) * Drift(0.95),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


class Run:
    """A seeded stream of observations: unevenly in time, in groups at one time, of unequal noise."""

    def __init__(
        self, seed: int, *, late: float = 0.0, points: int = 12, beyond: float = 0.0
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.points = self.rng.random((points, 2))
        self.late, self.beyond, self.time = late, beyond, 0.0
        self.data = Data(np.empty((0, 3)), np.empty((0, 2)), np.empty(0))

    def step(self) -> float:
        """One more observation; returns the time of the next decision."""
        rng = self.rng
        if rng.random() < 0.7:
            self.time += rng.exponential()
        t = self.time - (4 * rng.random() if rng.random() < self.late else 0.0)
        x = (
            self.points[rng.integers(len(self.points))]
            if rng.random() >= self.beyond
            else rng.random(2)
        )
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


def filtered(posterior: object) -> StateSpacePosterior:
    assert isinstance(posterior, StateSpacePosterior)
    return posterior


def at(points: Array, t: float) -> Array:
    return np.column_stack([points, np.full(len(points), t)])


def assert_same(
    made: StateSpacePosterior, kernel: Kernel, data: Data, points: Array | None
) -> None:
    """Everything that both posteriors tell, from the last time on."""
    oracle = exact(kernel, data)
    close: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-8 * float(kernel.diag(np.zeros((1, 3)))[0])}
    rng = np.random.default_rng(1)
    for later in (0.0, 0.3, 7.0, 1e4):
        Z = at(np.vstack([rng.random((5, 2)), data.Z[-6:, :2]]), made.last + later)
        # Away from the dictionary both know the same, too: it spans all that was observed.
        for mine, theirs in zip(made.predict(Z), oracle.predict(Z), strict=True):
            np.testing.assert_allclose(mine, theirs, **close)
        Z, others = Z[5:], at(data.Z[:3, :2], made.last + 2.0)
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
    run, rng = Run(3, beyond=0.0 if on_surface else 0.3), np.random.default_rng(0)
    surface = CandidateGrid(kernel, run.points) if on_surface else None
    made: StateSpacePosterior | None = None
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
    assert 0 < made.effective_dimension() < len(made.mean)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(KERNELS)))
def test_step_by_step_is_all_at_once(seed: int, name: str) -> None:
    kernel, run = KERNELS[name], Run(seed, late=0.2)
    surface = CandidateGrid(kernel, run.points)
    made: StateSpacePosterior | None = None
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
    assert (made.size, made.dictionary_size, made.log_det_ratio) == (0, None, 0.0)
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
        assert len(made.mean) == (count > 1)
        tests = at(np.random.default_rng(0).random((5, 2)), 4.0)
        for mine, theirs in zip(
            made.predict(tests), exact(kernel, some).predict(tests), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-10)


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
        z = at(run.points[2:3], now)
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
    z = at(run.points[3:4], now)
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


def test_on_a_box_a_point_beyond_the_features_brings_new_ones() -> None:
    kernel, rng = OnSpace(RBF(0.3)) * Drift(0.1), np.random.default_rng(0)
    points = rng.random((30, 2))
    Z = np.column_stack([np.vstack([points, points[:10]]), np.arange(40.0)])
    data = Data(Z, rng.standard_normal((40, 1)), np.full(40, 0.1))
    made, ranks = None, []
    for n in range(1, 41):
        made = filtered(
            Nystrom().condition(
                kernel, Data(*(column[:n] for column in data)), now=n, previous=made
            )
        )
        ranks.append(len(made.mean))
    assert ranks == sorted(ranks)
    assert ranks[0] == 1
    assert ranks[-1] == ranks[-11] <= 30  # what they span already brings none
    for mine, theirs in zip(
        made.predict(Z + 1.0), exact(kernel, data).predict(Z + 1.0), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    near, far = (
        Data(np.array([[*x, 99.0]]), data.Y[:1], data.variance[:1]) for x in (points[0], [9.0, 9.0])
    )
    assert made.continued(near, 99.0) is not None
    assert made.continued(far, 99.0) is None


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
    assert isinstance(made[1].state.posterior, StateSpacePosterior)
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
    for name in ("mean", "covariance", "products", "log_det_ratio"):
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

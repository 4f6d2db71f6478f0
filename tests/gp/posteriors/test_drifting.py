"""The sparse posterior of a drifting reward, a filter, against the exact one of its kernel."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tests.oracles import loops
from tvbandits import policies
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import Candidates
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact
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


# --- nothing, one point, degenerate inputs --------------------------------------------------------


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


@pytest.mark.parametrize(("mean", "width"), [("online", 2.0), (3.0, "theory")])
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

"""Adaptive-GP-UCB on boxes: predictions, search, learned kernels, memory and width."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.players import decision_deviation
from tests.helpers.views import condition
from tvbandits import Bandit, Box, Options, Space, policies
from tvbandits.datasets import Lifted
from tvbandits.domains.search import climb
from tvbandits.gp.features import terms_of


def play(steps: int, name: str = "ackley4", seed: int = 0) -> tuple[Bandit, Lifted]:
    problem = Lifted(name, horizon=100)
    bandit = policies.adaptive_gp_ucb(
        problem.domain, noise_variance=problem.noise_variance, seed=seed
    )
    rng = np.random.default_rng(seed)
    for t in range(1, steps + 1):
        X = bandit.ask(t)
        noise = problem.noise_variance**0.5 * rng.standard_normal(len(X))
        bandit.tell(X, problem.value(X, t) + noise, t)
    return bandit, problem


def test_adaptive_gp_ucb_on_a_box_predicts_as_dense_algebra() -> None:
    bandit, problem = play(25)
    state = bandit.state
    X = problem.domain.sample(20, np.random.default_rng(5))
    kernel, scaling = state.model.kernel, state.model.scaling
    rewards = state.rewards
    Z, Zs = np.column_stack([rewards.X, rewards.t]), np.column_stack([X, np.full(20, 27.0)])
    K = kernel(Z) + np.diag(rewards.variance) / scaling.scale**2
    (mean, widened), deviation = bandit.predict(X, 27.0), decision_deviation(bandit, X, 27.0)
    centre = condition(bandit, 27.0)[0].info.model.mean
    expected = centre + kernel(Zs, Z) @ np.linalg.solve(K, rewards.y - centre)
    np.testing.assert_allclose(mean, expected, atol=1e-7 * scaling.scale)
    variance = kernel.diag(Zs) - np.einsum(
        "ij,ji->i", kernel(Zs, Z), np.linalg.solve(K, kernel(Z, Zs))
    )
    np.testing.assert_allclose(deviation, scaling.scale * np.sqrt(variance), rtol=1e-6)
    # `predict` adds the uncertainty of the learned prior variance.
    assert (widened > deviation).all()


def test_climb_finds_a_narrow_peak_near_a_start() -> None:
    peak = np.array([0.31, 0.77, 0.52, 0.13])

    def height(U: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-((U - peak) ** 2).sum(axis=1) / 0.001))

    def sloped(U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return height(U), -(U - peak) * height(U)[:, None] / 0.0005

    starts = np.vstack([np.full((3, 4), 0.9), peak[None] + 0.02])
    point, value = climb(height, sloped, starts, 512, 8, np.random.default_rng(0), [(0, False)] * 4)
    assert value == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(point, peak, atol=1e-4)


def test_adaptive_gp_ucb_on_a_box_learns_a_shared_level() -> None:
    box, rng = Box(np.array([[0.0, 1.0]] * 3)), np.random.default_rng(0)
    bandit = policies.adaptive_gp_ucb(box, noise_variance=1e-4)
    for t in range(1, 61):
        X = box.sample(1, rng)
        shared = np.sin(0.7 * t) + np.cos(0.41 * t)
        bandit.tell(X, shared - 2.0 * ((X - 0.6) ** 2).sum(axis=1), t)
    field, level, _ = terms_of(bandit.state.model.kernel) or ()
    assert field.space is not None
    assert field.time_scale > 20.0
    assert level.space is None
    assert level.amplitude > (0.5 / bandit.info.model.scale) ** 2
    assert np.abs(bandit.recommend(61.0) - 0.6).max() < 0.1


def test_adaptive_gp_ucb_on_a_space_remembers_a_category_played_early(monkeypatch: Any) -> None:
    """One mode is no longer played; the rewards in memory are the most informative ones."""
    from tvbandits.bandit import policy

    rule = replace(policy.BOX_RULE, steps=10, first=(10,), remembered=20)
    monkeypatch.setattr(policy, "BOX_RULE", rule)
    space = Space(x=(0.0, 1.0), mode=["eco", "boost"])
    bandit = policies.adaptive_gp_ucb(space, noise_variance=1e-4)
    rng = np.random.default_rng(0)
    for t in range(1, 61):
        x, mode = float(rng.uniform()), "boost" if t <= 5 else "eco"
        reward = np.sin(3.0 * x) - 2.0 * (mode == "boost")
        bandit.tell([{"x": x, "mode": mode}], [reward], t)
    assert bandit.info.posterior.in_use <= 30
    mean, _ = bandit.predict([{"x": 0.5, "mode": mode} for mode in ("eco", "boost")], 61.0)
    np.testing.assert_allclose(mean, np.sin(1.5) - np.array([0.0, 2.0]), atol=0.2)


def test_adaptive_gp_ucb_on_a_box_bounds_the_rewards_in_use(monkeypatch: Any) -> None:
    from tvbandits.bandit import policy
    from tvbandits.forgetting.aging import Window

    monkeypatch.setattr(policy, "CONFIG", replace(policy.CONFIG, box_rewards=12))
    bandit, _ = play(20)
    assert bandit.recipe.aging == Window(last=12)
    assert bandit.info.posterior.in_use <= 12


def test_adaptive_gp_ucb_on_a_box_takes_the_given_or_default_width() -> None:
    box = Box(np.array([[0.0, 1.0]] * 4))
    for beta, times, width in (
        (None, np.arange(20.0), 8.0**0.5 / 4),
        (None, np.repeat(np.arange(5.0), 4), 2 * 8.0**0.5 / 4),
        (None, np.zeros(20), 2.0),
        (2.5, np.zeros(20), 2.5),
    ):
        bandit = policies.adaptive_gp_ucb(
            box, noise_variance=0.01, beta=beta, options=Options(refit=1000)
        )
        X = box.sample(20, np.random.default_rng(0))
        bandit.tell(X, X[:, 0], times)
        bandit.ask(20.0)
        assert bandit.info.beta == pytest.approx(width)


def sum_of_waves(X: np.ndarray, t: float) -> np.ndarray:
    return np.asarray(np.sin(8.0 * X + 0.1 * t).sum(axis=1))


def one_bump(X: np.ndarray, t: float) -> np.ndarray:
    return np.asarray(np.exp(-((X - 0.3 - 0.004 * t) ** 2).sum(axis=1) / 0.2))


@pytest.mark.parametrize(("reward", "best"), [(sum_of_waves, 0), (one_bump, 1)])
def test_adaptive_gp_ucb_on_a_box_selects_an_additive_or_joint_kernel(
    reward: Any, best: int
) -> None:
    box, rng = Box(np.array([[0.0, 1.0]] * 3)), np.random.default_rng(0)
    bandit = policies.adaptive_gp_ucb(box, noise_variance=1e-4)
    for t in range(1, 61):
        X = box.sample(1, rng)
        bandit.tell(X, reward(X, t), t)
    assert bandit.state.model.fit.best == best

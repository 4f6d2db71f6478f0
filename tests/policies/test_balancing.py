"""LB-GP-UCB: the length scales that play or are rejected, and the points played."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from tests.helpers.refusals import assert_refused
from tests.oracles.plain_rivals import plain_length_scale_balancing
from tvbandits import Box, Candidates, Space, policies
from tvbandits.policies.rivals.balancing import log_suspected_regret, with_length_scales

LINE = Candidates(np.linspace(0.0, 1.0, 25)[:, None])


def reward(row: int, t: int) -> float:
    x = float(LINE.X[row, 0])
    y = 0.6 * x + math.exp(-((x - 0.2) ** 2) / 0.0128) * 0.62
    return y if t <= 60 else 1.0 - y


def kernel(length: float) -> Any:
    return RBF(length) * DotProduct(1.0)  # no two points are alike, so that none tie


CASES = {
    "without a rejection": (120, {"noise": 0.01, "width": 2.0, "window": None}, False),
    "with rejections": (120, {"noise": 1e-4, "width": 0.1, "window": None}, True),
    "with a window": (120, {"noise": 1e-4, "width": 0.1, "window": 25}, True),
    "with a window of one reward": (30, {"noise": 0.01, "width": 2.0, "window": 1}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_lb_gp_ucb_matches_its_plain_restatement(case: str) -> None:
    steps, parts, rejecting = CASES[case]
    values: Any = dict(parts)
    rows, thetas, rejections = plain_length_scale_balancing(
        lambda length: kernel(length)(LINE.X),
        reward,
        steps=steps,
        longest=0.4,
        growth=0.5,
        delta=0.01,
        **values,
    )
    player: Any = policies.lb_gp_ucb(
        LINE,
        kernel=kernel(0.4),
        noise_variance=values["noise"],
        beta=values["width"],
        window=values["window"],
    )
    points, length_scales, rejected = [], [], []
    for t in range(1, steps + 1):
        x, before = player.ask(float(t)), dict(player.rule.rejected)
        points.append(int(LINE.index(x)[0]))
        length_scales.append(0.4 * player.rule.ratio(player.rule.pending[-1][1]))
        player.tell(x, [reward(points[-1], t)], float(t))
        new = {j: at for j, at in player.rule.rejected.items() if before.get(j) != at}
        rejected += [(at, 0.4 * player.rule.ratio(j)) for j, at in new.items()]
        assert player.info.posterior.dictionary_size == min(t, values["window"] or t)
    assert points == rows
    np.testing.assert_allclose(length_scales, thetas)
    np.testing.assert_allclose(rejected, rejections)
    assert bool(rejected) is rejecting


def test_lb_gp_ucb_brings_a_rejected_length_scale_back_after_the_window() -> None:
    player: Any = policies.lb_gp_ucb(LINE, kernel=RBF(0.2), noise_variance=0.01, window=10)
    player.rule.rejected, player.rule.reward_count = {0: 1}, 1
    for t in range(2, 11):
        player.tell(player.ask(float(t)), [0.5], float(t))
        assert 0 not in player.rule.candidates(t)
    player.tell(player.ask(11.0), [0.5], 11.0)
    assert 0 in player.rule.candidates(11)


def test_log_suspected_regret_matches_its_formula() -> None:
    assert log_suspected_regret(1, 0.2, 2) == -math.inf
    for n, theta, d in ((2, 0.3, 1), (7, 0.05, 2), (400, 0.2, 4)):
        size = theta**-d * math.log(n) ** (d + 1)
        plain = math.sqrt(n * size) * (math.sqrt(size) + 1)
        assert log_suspected_regret(n, theta, d) == pytest.approx(math.log(plain), rel=1e-12)
    assert math.isfinite(log_suspected_regret(500, 1e-3, 200))


def test_with_length_scales_shortens_all_length_scales() -> None:
    whole = ConstantKernel(2.0) * Matern([0.4, 0.2], nu=2.5) + RBF(1.0)
    shorter = with_length_scales(whole, 0.5)
    X = np.random.default_rng(0).uniform(size=(6, 2))
    expected = 2.0 * Matern([0.2, 0.1], nu=2.5)(X) + RBF(0.5)(X)
    np.testing.assert_allclose(shorter(X), expected, rtol=1e-14)
    np.testing.assert_array_equal(whole.k1.k2.length_scale, [0.4, 0.2])
    of_space = Space(power=(0, 30), mode=["a", "b"]).kernel()
    np.testing.assert_allclose(with_length_scales(of_space, 0.5).scales, 0.5 * of_space.scales)


@pytest.mark.parametrize(
    ("domain", "kernel", "longest"),
    [
        (Box([(0, 10)]), None, 0.3),
        (Box([(0, 10), (0, 0.1)]), None, 0.3),
        (Box([(0, 4)]), RBF(1.0), 0.25),
        (Box([(0, 4), (0, 1)]), Matern([1.0, 1.0]), 0.5),
        (Space(power=(0, 30)), None, 0.25),
    ],
)
def test_lb_gp_ucb_takes_the_longest_length_scale_from_kernel_or_domain(
    domain: Box | Space, kernel: Any, longest: float
) -> None:
    player: Any = policies.lb_gp_ucb(domain, kernel=kernel)
    assert player.rule.longest == pytest.approx(longest)


def test_lb_gp_ucb_counts_all_pending_plays() -> None:
    player: Any = policies.lb_gp_ucb(LINE, kernel=RBF(0.2), noise_variance=0.01)
    X = np.concatenate([player.ask(float(t)) for t in (1, 2, 3, 4)])
    assert [each[1] for each in player.rule.pending] == [0, 1, 2, 3]
    assert len(np.unique(X)) == 4
    player.drop(X[[3]])
    player.tell(X[[2, 0]], [0.2, 0.1], [3.0, 1.0])
    player.tell([[0.5]], [0.3], 2.0)  # without an `ask`
    assert player.rule.sources == [2, 0, -1]
    player.ask(5.0)
    assert [each[1] for each in player.rule.pending] == [1, 3]


def test_lb_gp_ucb_predicts_the_prior_mean_at_an_unknown_point() -> None:
    player: Any = policies.lb_gp_ucb(LINE, kernel=RBF(1e-3), noise_variance=0.01, mean=4.0)
    player.tell([[0.0]], [5.0], 1.0)
    mean, deviation = player.rule.posterior(0, player.record.pending)(LINE.X)
    np.testing.assert_allclose(mean, [4 + 1 / 1.01, *[4.0] * 24])
    np.testing.assert_allclose(deviation, [math.sqrt(1 - 1 / 1.01), *[1.0] * 24])


def test_lb_gp_ucb_refuses_invalid_parameters() -> None:
    assert_refused(
        ValueError, "must have a length scale", policies.lb_gp_ucb, LINE, kernel=DotProduct()
    )
    for name, value in {"window": 0, "growth": 0.0, "delta": 1.0, "beta": "theory"}.items():
        assert_refused(ValueError, name, policies.lb_gp_ucb, LINE, **{name: value})


def test_lb_gp_ucb_with_a_window_follows_a_reversed_reward() -> None:
    mean_regrets = {}
    for window in (None, 30):
        player = policies.lb_gp_ucb(LINE, noise_variance=1e-4, window=window, scale=0.3, beta=1.0)
        regrets = []
        for t in range(1, 121):
            x = player.ask(float(t))
            rewards = [reward(row, t) for row in range(len(LINE))]
            y = rewards[int(LINE.index(x)[0])]
            player.tell(x, [y], float(t))
            regrets.append(max(rewards) - y)
        mean_regrets[window] = np.mean(regrets[60:])
    assert mean_regrets[30] < 0.6 * mean_regrets[None]

"""LB-GP-UCB: which length scale plays, what it plays, and which are rejected."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from tests.helpers.refusals import refused
from tests.oracles.plain_rivals import plain_length_scale_balancing
from tvbandits import Box, Candidates, Space, policies
from tvbandits.policies.rivals.balancing import log_suspected_regret, with_length_scales

LINE = Candidates(np.linspace(0.0, 1.0, 25)[:, None])


def world(row: int, t: int) -> float:
    x = float(LINE.X[row, 0])
    y = 0.6 * x + math.exp(-((x - 0.2) ** 2) / 0.0128) * 0.62
    return y if t <= 60 else 1.0 - y


def kernel(length: float) -> Any:
    return RBF(length) * DotProduct(1.0)  # no two points are alike: nothing ties


CASES = {
    "without a rejection": (120, {"noise": 0.01, "width": 2.0, "window": None}, False),
    "with rejections": (120, {"noise": 1e-4, "width": 0.1, "window": None}, True),
    "with a window": (120, {"noise": 1e-4, "width": 0.1, "window": 25}, True),
    "with a window of one reward": (30, {"noise": 0.01, "width": 2.0, "window": 1}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_it_plays_and_rejects_as_its_restatement(case: str) -> None:
    steps, parts, rejecting = CASES[case]
    values: Any = dict(parts)
    rows, thetas, rejections = plain_length_scale_balancing(
        lambda length: kernel(length)(LINE.X),
        world,
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
    played, by, gone = [], [], []
    for t in range(1, steps + 1):
        x, before = player.ask(float(t)), dict(player.rule.rejected)
        played.append(int(LINE.index(x)[0]))
        by.append(0.4 * player.rule.ratio(player.rule.pending[-1][1]))
        player.tell(x, [world(played[-1], t)], float(t))
        new = {j: at for j, at in player.rule.rejected.items() if before.get(j) != at}
        gone += [(at, 0.4 * player.rule.ratio(j)) for j, at in new.items()]
        assert player.info.posterior.dictionary_size == min(t, values["window"] or t)
    assert played == rows
    np.testing.assert_allclose(by, thetas)
    np.testing.assert_allclose(gone, rejections)
    assert bool(gone) is rejecting


def test_a_rejected_length_scale_comes_back_when_the_window_has_passed() -> None:
    player: Any = policies.lb_gp_ucb(LINE, kernel=RBF(0.2), noise_variance=0.01, window=10)
    player.rule.rejected, player.rule.reward_count = {0: 1}, 1
    for t in range(2, 11):
        player.tell(player.ask(float(t)), [0.5], float(t))
        assert 0 not in player.rule.candidates(t)
    player.tell(player.ask(11.0), [0.5], 11.0)
    assert 0 in player.rule.candidates(11)


def test_logarithm_of_suspected_regret_is_that_of_the_formula() -> None:
    assert log_suspected_regret(1, 0.2, 2) == -math.inf
    for n, theta, d in ((2, 0.3, 1), (7, 0.05, 2), (400, 0.2, 4)):
        size = theta**-d * math.log(n) ** (d + 1)
        plain = math.sqrt(n * size) * (math.sqrt(size) + 1)
        assert log_suspected_regret(n, theta, d) == pytest.approx(math.log(plain), rel=1e-12)
    assert math.isfinite(log_suspected_regret(500, 1e-3, 200))


def test_shorter_kernels_have_all_their_length_scales_shortened() -> None:
    whole = ConstantKernel(2.0) * Matern([0.4, 0.2], nu=2.5) + RBF(1.0)
    shorter = with_length_scales(whole, 0.5)
    X = np.random.default_rng(0).uniform(size=(6, 2))
    expected = 2.0 * Matern([0.2, 0.1], nu=2.5)(X) + RBF(0.5)(X)
    np.testing.assert_allclose(shorter(X), expected, rtol=1e-14)
    np.testing.assert_array_equal(whole.k1.k2.length_scale, [0.4, 0.2])
    of_space = Space(power=(0, 30), mode=["a", "b"]).kernel()
    np.testing.assert_allclose(with_length_scales(of_space, 0.5).scales, 0.5 * of_space.scales)


@pytest.mark.parametrize(
    ("domain", "given", "longest"),
    [
        (Box([(0, 10)]), None, 0.3),
        (Box([(0, 10), (0, 0.1)]), None, 0.3),
        (Box([(0, 4)]), RBF(1.0), 0.25),
        (Box([(0, 4), (0, 1)]), Matern([1.0, 1.0]), 0.5),
        (Space(power=(0, 30)), None, 0.25),
    ],
)
def test_longest_length_scale_is_a_share_of_the_side(
    domain: Box | Space, given: Any, longest: float
) -> None:
    player: Any = policies.lb_gp_ucb(domain, kernel=given)
    assert player.rule.longest == pytest.approx(longest)


def test_plays_that_are_out_together_all_count() -> None:
    player: Any = policies.lb_gp_ucb(LINE, kernel=RBF(0.2), noise_variance=0.01)
    X = np.concatenate([player.ask(float(t)) for t in (1, 2, 3, 4)])
    assert [each[1] for each in player.rule.pending] == [0, 1, 2, 3]
    assert len(np.unique(X)) == 4
    player.drop(X[[3]])
    player.tell(X[[2, 0]], [0.2, 0.1], [3.0, 1.0])
    player.tell([[0.5]], [0.3], 2.0)  # nobody asked for that
    assert player.rule.sources == [2, 0, -1]
    player.ask(5.0)
    assert [each[1] for each in player.rule.pending] == [1, 3]


def test_prior_mean_is_that_of_an_unknown_point() -> None:
    player: Any = policies.lb_gp_ucb(LINE, kernel=RBF(1e-3), noise_variance=0.01, mean=4.0)
    player.tell([[0.0]], [5.0], 1.0)
    mean, deviation = player.rule.posterior(0, player.record.pending)(LINE.X)
    np.testing.assert_allclose(mean, [4 + 1 / 1.01, *[4.0] * 24])
    np.testing.assert_allclose(deviation, [math.sqrt(1 - 1 / 1.01), *[1.0] * 24])


def test_what_it_cannot_use_is_refused() -> None:
    refused(ValueError, "must have a length scale", policies.lb_gp_ucb, LINE, kernel=DotProduct())
    for name, value in {"window": 0, "growth": 0.0, "delta": 1.0, "beta": "theory"}.items():
        refused(ValueError, name, policies.lb_gp_ucb, LINE, **{name: value})


def test_a_run_with_a_window_follows_a_reward_that_turns_round() -> None:
    lost = {}
    for window in (None, 30):
        player = policies.lb_gp_ucb(LINE, noise_variance=1e-4, window=window, scale=0.3, beta=1.0)
        regrets = []
        for t in range(1, 121):
            x = player.ask(float(t))
            rewards = [world(row, t) for row in range(len(LINE))]
            y = rewards[int(LINE.index(x)[0])]
            player.tell(x, [y], float(t))
            regrets.append(max(rewards) - y)
        lost[window] = np.mean(regrets[60:])
    assert lost[30] < 0.6 * lost[None]

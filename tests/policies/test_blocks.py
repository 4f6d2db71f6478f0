"""MASTER and ADA-OPKB: their plays and restarts."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct

from tests.oracles.plain_rivals import plain_master
from tvbandits import Candidates, policies
from tvbandits.gp.kernel_matrix import eigen_features
from tvbandits.policies.rivals.multi_scale import Thresholds
from tvbandits.policies.rivals.opkb import Constants, inverse_moment, strategy

LINE = Candidates(np.linspace(0, 1, 15)[:, None])


def rewards_at(t: float, switch: float = 60) -> Any:
    wave = np.sin(6 * LINE.X[:, 0])
    return wave if t <= switch else -wave


# --- MASTER -----------------------------------------------------------------------------------------


def test_thresholds_match_the_formulas_of_the_paper() -> None:
    tests = Thresholds(horizon=1024, delta=0.1, regret=2.0, factor=6.0)
    assert tests.rho(1) == 1.0
    assert tests.rho(100) == pytest.approx(0.2)
    assert tests.rho_hat(100) == pytest.approx(6 * 11 * math.log(10240) * 0.2)


def master(**changes: float) -> Any:
    return policies.master(
        LINE,
        kernel=RBF(0.2),
        noise_variance=0.01,
        mean=0.0,
        thresholds=Thresholds(200, **changes),
        seed=4,
    )


def test_master_lets_the_shortest_copy_play_alone() -> None:
    player = master()
    orders = set()
    for t in range(1, 64):
        x = player.ask(float(t))
        block, step = player.rule.block, len(player.rule.block.rewards)
        assert block.copies[0].order == block.order
        assert (block.copies[0].start, block.copies[0].end) == (0, 2**block.order - 1)
        covering = [c for c in block.copies if c.start <= step <= c.end]
        active = min(covering, key=lambda c: c.order)
        orders.add(active.order)
        before = [c.bandit.info.readings for c in block.copies]
        player.tell(x, rewards_at(t)[LINE.index(x)], float(t))
        after = [c.bandit.info.readings for c in block.copies]
        new_rewards = [b - a for a, b in zip(before, after, strict=True)]
        assert sum(new_rewards) == 1
        assert block.copies[new_rewards.index(1)] is active
        for c in block.copies:
            assert c.start % 2**c.order == 0
            assert c.end - c.start + 1 == 2**c.order
    assert player.rule.block.order == 6  # after 1 + 2 + 4 + ... + 32 steps
    assert len(orders) > 2
    assert player.rule.restarts == 0


@pytest.mark.parametrize(("factor", "restarting"), [(6.0, False), (0.012, True)])
def test_master_matches_its_plain_restatement(factor: float, restarting: bool) -> None:
    kernel = RBF(0.2) * DotProduct(1.0)  # no two points are alike, so that none tie
    constants: Any = {"horizon": 200, "delta": 0.05, "regret": 2.0, "factor": factor}
    expected_rows, expected_restarts = plain_master(
        kernel(LINE.X),
        lambda row, t: float(rewards_at(t)[row]),
        np.random.default_rng(4),
        steps=120,
        noise=0.01,
        width=1.5,
        **constants,
    )
    player: Any = policies.master(
        LINE,
        kernel=kernel,
        noise_variance=0.01,
        mean=0.0,
        beta=1.5,
        seed=4,
        thresholds=Thresholds(**constants),
    )
    rows, times = [], []
    for t in range(1, 121):
        x, before = player.ask(float(t)), player.rule.restarts
        rows.append(int(LINE.index(x)[0]))
        player.tell(x, rewards_at(t)[rows[-1:]], float(t))
        times += [t] * (player.rule.restarts - before)
    assert (rows, times) == (expected_rows, expected_restarts)
    assert bool(times) is restarting


def has_changed(block: Any, tests: Any) -> bool:
    count = len(block.rewards)
    first = any(
        c.end == count - 1
        and sum(block.rewards[c.start : count]) / (count - c.start)
        >= min(block.optimistic) + 9.0 * tests.rho_hat(count - c.start)
        for c in block.copies
    )
    gap = sum(g - r for g, r in zip(block.optimistic, block.rewards, strict=True)) / count
    return first or gap >= 3.0 * tests.rho_hat(count)


def test_master_restarts_exactly_when_a_test_detects_a_change() -> None:
    player = master(factor=0.012, regret=2.0)
    tests, times = player.rule.tests, []
    for t in range(1, 121):
        x = player.ask(float(t))
        block, before = player.rule.block, player.rule.restarts
        player.tell(x, rewards_at(t)[LINE.index(x)], float(t))
        changed = has_changed(block, tests)
        assert (player.rule.restarts > before) == changed
        if changed:
            times.append(t)
            assert player.rule.block.order == 0
    assert any(60 < t < 80 for t in times)


@pytest.mark.parametrize("name", ["master", "ada-opkb"])
def test_master_and_ada_opkb_count_all_pending_plays(name: str) -> None:
    player = master(factor=6.0) if name == "master" else opkb()
    X = np.concatenate([player.ask(float(t)) for t in (1, 2, 3, 4)])
    player.drop(X[[3]])
    player.tell(X[[2, 0]], [0.2, 0.1], [3.0, 1.0])
    player.tell(X[[1]], [0.3], 2.0)
    if name == "ada-opkb":
        assert len(player.rule.epoch.weighted) == 3
    else:
        assert player.rule.block.order == 2  # after 1 + 2 steps
    player.ask(5.0)
    assert len(player.rule.pending) == 1  # a dropped point is no longer pending


# --- ADA-OPKB ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1.0, 0.05])
def test_opkb_strategy_is_optimal(weight: float) -> None:
    features = eigen_features(RBF(0.2), LINE.X)[0]
    gaps = np.abs(LINE.X[:, 0] - 0.4)
    P = strategy(features, gaps, weight, 0.01)
    assert P.min() >= 0
    assert P.sum() == pytest.approx(1.0)
    # Karush-Kuhn-Tucker: no arm's slope is below that of the arms in use.
    slope = gaps - weight * np.einsum(
        "ar,rs,as->a", features, inverse_moment(features, P, 0.01), features
    )
    assert P @ slope - slope.min() < 1e-10 * weight

    def loss(p: Any) -> float:
        S = (features.T * p) @ features + 0.01 * np.eye(features.shape[1])
        return float(p @ gaps - weight * np.linalg.slogdet(S)[1])

    rng = np.random.default_rng(0)
    assert all(loss(P) <= loss(q) for q in rng.dirichlet(np.ones(15), 200))


def opkb(adaptive: bool = True, **changes: float) -> Any:
    constants: Any = {"horizon": 200, "gain": 4.0, "c3": 0.5} | changes
    return policies.ada_opkb(
        LINE,
        kernel=RBF(0.2),
        noise_variance=0.01,
        constants=Constants(**constants),
        adaptive=adaptive,
        seed=2,
    )


def test_opkb_matches_blocks_strategies_and_estimates_of_its_pseudo_code() -> None:
    player = opkb(adaptive=False)
    features, E = player.rule.features, math.ceil(0.5 * 4.0 * math.log(15 / 0.05))
    ridge = 0.1 / 200
    uniform_strategy = strategy(features, np.zeros(15), 1.0, ridge)
    total, weights, y = np.zeros(features.shape[1]), np.zeros(features.shape[1]), [0.0]
    count = step = 0
    for j in range(3):
        D = np.zeros(15)
        if count:
            r = features @ (total - np.mean(y[1:]) * weights) / count
            D = r.max() - r
        beta, mu = 4.0 * 2 ** (j / 2), min(1.0, 2 ** (-j / 2))
        near = np.flatnonzero(2 * (0.1 / math.log(15 / 0.05)) * 4.0 / beta >= D)
        design = np.zeros(15)
        design[near] = strategy(features[near], np.zeros(len(near)), 1.0, ridge)
        Q = (strategy(features, D, 2 / beta, ridge) + design) / 2
        P = (1 - mu) * Q + mu * uniform_strategy
        S = (features.T * P) @ features + ridge * np.eye(features.shape[1])
        for _ in range(2**j * E):
            step += 1
            x = player.ask(float(step))
            np.testing.assert_allclose(player.rule.epoch.strategies[j], P, atol=1e-6)
            row = int(LINE.index(x)[0])
            y.append(float(rewards_at(step, 999)[row]))
            player.tell(x, y[-1:], float(step))
            weight = np.linalg.solve(S, features[row])
            total, weights = total + weight * y[-1], weights + weight
            count += 1
    assert player.rule.epoch.block == 3
    estimate = player.rule.epoch.before[-1][0]
    np.testing.assert_allclose(estimate, np.column_stack([total, weights]), rtol=1e-6, atol=1e-6)


def test_ada_opkb_schedules_replays_and_plays_the_smallest_order() -> None:
    player = opkb(c3=0.05, c0=1e9)
    for t in range(1, 130):
        x = player.ask(float(t))
        epoch = player.rule.epoch
        step = len(epoch.weighted)
        covering = [r.order for r in epoch.replays if r.start <= step < r.end]
        assert player.rule._order(step) == min([*covering, epoch.block])
        for replay in epoch.replays:
            assert replay.order < epoch.block
            assert replay.end - replay.start == 2**replay.order * player.rule.length
            assert replay.start % (replay.end - replay.start) == 0
        player.tell(x, [0.0], float(t))
    assert player.rule.restarts == 0
    assert player.rule.epoch.block >= 4


def test_ada_opkb_restarts_if_a_replay_disagrees() -> None:
    quiet, loud = opkb(c0=1e9), opkb(c0=0.02)
    for player in (quiet, loud):
        for t in range(1, 101):
            x = player.ask(float(t))
            player.tell(x, 3 * rewards_at(t, 50)[LINE.index(x)], float(t))
    assert quiet.rule.restarts == 0
    assert loud.rule.restarts > 0


def test_ada_opkb_ends_several_blocks_in_one_tell() -> None:
    player: Any = policies.ada_opkb(LINE, kernel=RBF(0.2), noise_variance=0.01)
    plays = 4 * player.rule.length
    player.tell(player.ask(1.0, n=plays), np.zeros(plays), 1.0)
    assert player.rule.epoch.block == 2
    assert len(player.ask(2.0)) == 1


def test_ada_opkb_computes_designs_under_tiny_noise() -> None:
    player: Any = policies.ada_opkb(
        LINE,
        kernel=RBF(0.2),
        noise_variance=1e-50,
        constants=Constants(gain=4.0, c3=0.02),
        adaptive=False,
    )
    for t in range(1, 13):
        player.tell(player.ask(t), [float(t % 3 == 2)], t)
    assert player.rule.epoch.block > 1


@pytest.mark.parametrize("wrong", [{"delta": 5e-324}, {"c3": 1e300, "gain": 1e300}])
def test_ada_opkb_refuses_constants_with_an_infinite_first_block(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"log\(A / delta\) .* inf|c2 \* gain"):
        opkb(**wrong)

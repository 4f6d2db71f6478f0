"""Event-triggered resets, against the paper's algorithm written plainly."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.oracles import loops
from tests.oracles.dense import Dense
from tvbandits import Bandit, Candidates, policies
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.queries.asking import Asking
from tvbandits.queries.plans import RandomPoints

DOMAIN = Candidates(np.sort(np.random.default_rng(5).uniform(0, 10, 60))[:, None])
KERNEL, NOISE, DELTA, BETA = RBF(1.3), 0.02, 0.1, 2.0


def reward(X: Array, t: float) -> Array:
    """A hill that jumps every 40 steps."""
    return np.asarray(1.5 * np.exp(-((X[:, 0] - 2.0 - 3.0 * (t // 40 % 3)) ** 2)))


def told(X: Array, t: float) -> Array:
    return reward(X, t) + math.sqrt(NOISE) * keyed_normal(0, 1, X, t)


def dense(X: Array, y: Array, at: Array) -> tuple[Array, Array]:
    """Mean and deviation."""
    oracle = Dense(KERNEL, X, y[:, None], np.full(len(y), NOISE))
    return oracle.mean(at)[:, 0], oracle.deviation(at)


def plain(steps: int, first: float) -> tuple[list[float], list[int]]:
    """The algorithm of the paper: points, and the steps whose reward was an event."""
    X, y = np.empty((0, 1)), np.empty(0)
    points, events = [], []
    for t in range(1, steps + 1):
        mean, deviation = dense(X, y, DOMAIN.X)
        x = DOMAIN.X[[int(np.argmax(mean + BETA * deviation))]] if t > 1 else np.array([[first]])
        value = told(x, float(t))
        (mu,), (sigma,) = dense(X, y, x)
        n = len(y) + 1
        pi = math.pi**2 * n**2 / 6
        rho = 2 * math.log(2 * pi / DELTA)
        w = math.sqrt(2 * NOISE * math.log(2 * pi / DELTA))
        if len(y) and abs(value[0] - mu) > math.sqrt(rho) * sigma + w:
            events.append(t)
            X, y = np.empty((0, 1)), np.empty(0)
        X, y = np.vstack([X, x]), np.append(y, value)
        points.append(float(x[0, 0]))
    return points, events


def make(**parts: Any) -> Bandit:
    return policies.et_gp_ucb(
        DOMAIN, KERNEL, NOISE, delta=DELTA, confidence=BETA, mean=0.0, seed=0, **parts
    )


def play(bandit: Bandit, first: int, last: int) -> tuple[list[float], list[int]]:
    """The points, and the steps whose reward was an event."""
    resets = []

    def reward(x: Array, t: float) -> Array:
        resets.append(bandit.info.model.resets)
        return told(x, t)

    points = loops.play(bandit, reward, range(first, last + 1))
    resets.append(bandit.info.model.resets)
    return points[:, 0].tolist(), (first + np.flatnonzero(np.diff(resets))).tolist()


def test_the_paper_s_algorithm() -> None:
    points, events = play(make(), 1, 150)
    # The first point is drawn among equals; after that nothing is left to chance.
    wanted, wanted_events = plain(150, points[0])
    assert len(wanted_events) >= 3  # else nothing is tested
    assert events == wanted_events
    assert points == wanted


def test_the_threshold() -> None:
    trigger = EventTrigger(0.1)
    rho = 2 * math.log(2 * (math.pi**2 * 49 / 6) / 0.1)
    limit = math.sqrt(rho) * 0.3 + math.sqrt(rho * 0.04)
    assert trigger(limit * 1.0001, 0.3, 0.04, 7)
    assert trigger(-limit * 1.0001, 0.3, 0.04, 7)
    assert not trigger(limit * 0.9999, 0.3, 0.04, 7)


def test_a_reward_that_stands_still_is_seldom_an_event() -> None:
    rng = np.random.default_rng(0)
    resets = 0
    for seed in range(40):
        bandit = policies.et_gp_ucb(DOMAIN, KERNEL, NOISE, confidence=BETA, mean=0.0, seed=seed)
        weights = rng.standard_normal(60)
        path = np.linalg.cholesky(KERNEL(DOMAIN.X) + 1e-9 * np.eye(60)) @ weights
        for t in range(1, 31):
            x = bandit.ask(t)
            value = path[DOMAIN.index(x)] + math.sqrt(NOISE) * rng.standard_normal(1)
            bandit.tell(x, value, t)
        resets += bandit.info.model.resets > 0
    assert resets <= 8  # 4 expected at the most: P(more than 8 of 40) < 0.02 were it exactly 0.1


def test_a_late_reward_is_no_news() -> None:
    bandit = make()
    x = DOMAIN.X[[30]]
    bandit.tell(np.vstack([x, x]), [0.1, 0.12], [1.0, 2.0])
    bandit.tell(x, [9.0], 1.5)
    assert bandit.info.model.resets == 0
    bandit.tell(x, [90.0], 2.0)  # at the latest time it is
    assert bandit.info.model.resets == 1


def test_an_event_within_a_batch() -> None:
    bandit = make()
    x = DOMAIN.X[[30]]
    bandit.tell(np.vstack([x, x]), [0.1, 0.12], [1.0, 2.0])
    bandit.tell(np.vstack([x, x, x]), [0.1, 9.0, 9.1], [3.0, 4.0, 5.0])
    bandit.ask()
    assert (bandit.info.model.resets, bandit.info.posterior.in_use) == (1, 2)


def test_rewards_are_counted_since_the_last_reset() -> None:
    counts = []

    def trigger(error: float, deviation: float, variance: float, count: int) -> bool:  # noqa: ARG001
        counts.append(count)
        return count == 3

    bandit = Bandit(replace(make().recipe, reset=trigger))  # type: ignore[arg-type]
    bandit.tell(DOMAIN.X[:2], [0.1, 0.2], [1.0, 2.0])
    for t in range(3, 8):
        bandit.tell(DOMAIN.X[[30]], [0.1], t)
    # The reward that was the event is the first since.
    assert counts == [3, 2, 3, 2, 3]


@pytest.mark.parametrize("most", [None, 3])
def test_an_event_forgets_answers_too(most: int | None) -> None:
    asking = Asking(RandomPoints(1), None, about="domain", reuse_answers=True, most_answers=most)
    bandit = Bandit(replace(make().recipe, asking=asking))
    bandit.tell(DOMAIN.X[[30]], [0.1], 1)
    bandit.answer(DOMAIN.X[[10, 40]], [0.2, 0.3], 1.0)
    bandit.tell(DOMAIN.X[[30]], [9.0], 2)
    bandit.answer(DOMAIN.X[[11, 41]], [0.2, 0.3], 2.0)
    bandit.ask(3)
    # In use are the event and what was answered since, whatever was there and is not kept.
    assert (bandit.info.model.resets, bandit.info.posterior.in_use) == (1, 3)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_a_bad_delta(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must lie in \\(0, 1\\), got"):
        EventTrigger(delta)

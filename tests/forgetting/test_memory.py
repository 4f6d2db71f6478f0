"""What is left aside as forgotten for good must make no difference: the tail against the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvbandits.core.observations import Observations, Source
from tvbandits.forgetting.aging import (
    Ages,
    Aging,
    Constant,
    DiscardAbove,
    Exponential,
    Linear,
    LogThreshold,
    ResetEvery,
    Wiener,
    Window,
    compose,
)
from tvbandits.forgetting.memory import FAINT, ActiveWindow, Memory, of_tail

MAPS: dict[str, Aging] = {
    "constant": Constant(),
    "window": Window(last=20),
    "within": Window(within=15.0),
    "both": Window(last=30, within=12.5),
    "reset": ResetEvery(17),
    "exponential": Exponential(0.3),
    "wiener": Wiener(0.5),
    "sparq": compose(Linear(1.0), DiscardAbove(LogThreshold(0.01))),
}
FORGETFUL = ("window", "within", "both", "reset", "exponential", "sparq")


def one(t: float, variance: float, expert: bool = False) -> Observations:
    source = np.array([Source.EXPERT if expert else Source.REWARD], dtype=np.uint8)
    return Observations(np.zeros((1, 1)), np.array([t]), np.ones(1), np.array([variance]), source)


def whole(rewards: Observations, answers: Observations, aging: Aging, now: float) -> Any:
    """Effective variances of everything, with those too faint to count as forgotten."""
    seen = rewards.append(answers)
    effective = np.array(aging(seen.variance, Ages.of(seen, now)), dtype=float)
    effective[effective > FAINT] = np.inf
    return effective


@pytest.mark.parametrize("late", [False, True], ids=["in order", "late"])
@pytest.mark.parametrize("name", MAPS)
def test_the_tail_says_what_the_whole_does(name: str, late: bool) -> None:
    aging, rng, memory = MAPS[name], np.random.default_rng(4), Memory()
    rewards = answers = Observations.empty(1)
    time, shortest = 0.0, 1.0
    for step in range(200):
        time += float(rng.choice([0.0, 0.5, 1.0, 1.0, 2.0]))
        is_late = late and rng.random() < 0.03
        t = float(rng.uniform(0.0, time)) if is_late else time
        rewards = rewards.append(one(t, float(rng.choice([0.01, 0.02]))))
        if rng.random() < 0.3:
            answers = answers.append(one(time, 0.005, expert=True))
        tail = memory.tail(rewards, answers, aging, time, lambda _: 1.0)
        now = time + float(rng.uniform(0.0, 3.0))
        seen, ages = of_tail(rewards, answers, tail, now)
        told = len(rewards) - tail.rewards
        found = np.full(len(rewards) + len(answers), np.inf)
        effective = np.array(aging(seen.variance, ages), dtype=float)
        effective[effective > FAINT] = np.inf
        found[tail.rewards : len(rewards)] = effective[:told]
        found[len(rewards) + tail.answers :] = effective[told:]
        np.testing.assert_array_equal(found, whole(rewards, answers, aging, now), err_msg=str(step))
        shortest = min(shortest, len(seen) / len(found))
    assert (shortest < 0.6) == (name in FORGETFUL)


def test_answers_that_are_replaced_do_not_bring_back_rewards() -> None:
    memory, aging = Memory(), Window(last=5)
    rewards = Observations.empty(1)
    for t in range(200):
        rewards = rewards.append(one(float(t), 0.01))
        answers = one(float(t), 0.01, expert=True)
        tail = memory.tail(rewards, answers, aging, float(t), lambda _: 1.0)
    assert tail.rewards > 100
    assert tail.answers == 0


def test_a_map_of_ones_own_is_asked_about_everything() -> None:
    rewards = Observations(np.zeros((300, 1)), np.arange(300.0), np.ones(300), np.ones(300))

    def own(variance: Any, ages: Ages) -> Any:
        return np.where(ages.newer % 2 == 0, variance, np.inf)

    found = Memory().tail(rewards, Observations.empty(1), own, 299.0, lambda _: 1.0)
    assert found == ActiveWindow()
    composed = compose(own, Window(last=3))
    assert (
        Memory().tail(rewards, Observations.empty(1), composed, 299.0, lambda _: 1.0)
        == ActiveWindow()
    )


def test_a_threshold_of_ones_own_may_rise_again() -> None:
    rewards = Observations(np.zeros((300, 1)), np.arange(300.0), np.ones(300), np.ones(300))
    aging = compose(Linear(1.0), DiscardAbove(lambda _: 2.0))
    assert (
        Memory().tail(rewards, Observations.empty(1), aging, 299.0, lambda _: 1.0) == ActiveWindow()
    )

"""Properties of every policy in the register: the origin of rewards, and pending points."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.helpers.players import (
    RecordingWaveExpert,
    count_distinct,
    make_player,
    noisy_wave,
    setting,
    warm_up,
)
from tvbandits import Answers, Candidates
from tvbandits.policies import POLICIES
from tvbandits.policies.rivals.multi_scale import Thresholds
from tvbandits.policies.rivals.opkb import Constants
from tvbandits.validation import Array

ARMS = Candidates(np.linspace(0.0, 10.0, 15)[:, None])
# These policies draw points at random, and may repeat a pending point at another time.
RANDOM = ("uniform", "eps-greedy", "evolution", "thompson", "predictive-sampling", "ada-opkb")
# With a small width or an expert, a pending point may be by far the best.
CONFIDENT = ("w-dbo", "frugal-gp-ucb")


@dataclass
class ShiftedExpert(RecordingWaveExpert):
    """An expert on rewards with a constant added."""

    shift: float = 0.0

    def query(self, X: Array, t: float) -> Answers:
        answers = super().query(X, t)
        return Answers(answers.values + self.shift, answers.variance)


def points_and_restarts(
    name: str, shift: float, steps: int, **options: Any
) -> tuple[list[float], int]:
    """Return the points of a run of rewards with a constant added, and the number of restarts."""
    player: Any = POLICIES[name].make(setting(ARMS, ShiftedExpert(shift=shift)), **options)
    points = []
    for t in range(1, steps + 1):
        X = player.ask(float(t), 1)
        points.append(float(X[0, 0]))
        player.tell(X, noisy_wave(X, 1.0 if t < 12 else 30.0) + shift, float(t))
    return points, getattr(getattr(player, "rule", None), "restarts", 0)


# Constants under which these policies restart within a test.
EAGER: dict[str, dict[str, Any]] = {
    "master": {"thresholds": Thresholds(60, regret=2.0, factor=0.012)},
    "ada-opkb": {"constants": Constants(60, c3=0.02, c0=0.02)},
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_ignore_a_constant_added_to_all_rewards(name: str) -> None:
    """No policy has a fixed prior mean unless one is given."""
    options = EAGER.get(name, {})
    steps = 24 if name in EAGER else 14
    plain = points_and_restarts(name, 0.0, steps, **options)
    assert (plain[1] > 0) == (name in EAGER)
    assert points_and_restarts(name, -5.0, steps, **options) == plain


@pytest.mark.parametrize("name", [each for each in POLICIES if each not in RANDOM + CONFIDENT])
def test_policies_play_other_points_while_earlier_ones_are_pending(name: str) -> None:
    """Four decisions without rewards are about four points while much is unknown."""
    player = warm_up(make_player(name), steps=2)
    pending = np.concatenate([player.ask(t, 1) for t in (10.0, 11.0, 12.0, 13.0)])
    assert count_distinct(pending) == 4, pending.ravel()

"""What holds of every policy, found in the register: where zero is, and what is out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.helpers.players import Known, distinct, made, noisy, setting, warmed
from tvbandits import Answers, Candidates
from tvbandits.policies import POLICIES
from tvbandits.policies.rivals.multi_scale import Thresholds
from tvbandits.policies.rivals.opkb import Constants
from tvbandits.validation import Array

ARMS = Candidates(np.linspace(0.0, 10.0, 15)[:, None])
# Their law is a draw: the same point may be drawn again while it is out, at another time.
DRAWN = ("uniform", "eps-greedy", "evolution", "thompson", "predictive-sampling", "ada-opkb")
# Of narrow widths, or told by an expert: a point that is out may be by far the best that is known.
SURE = ("w-dbo", "frugal-gp-ucb")


@dataclass
class Shifted(Known):
    """An expert on rewards with a constant added."""

    shift: float = 0.0

    def query(self, X: Array, t: float) -> Answers:
        answers = super().query(X, t)
        return Answers(answers.values + self.shift, answers.variance)


def plays(name: str, shift: float, steps: int, **options: Any) -> tuple[list[float], int]:
    """Points of a run of rewards with a constant added, and how often it started again."""
    given = setting(ARMS, Shifted(shift=shift))
    player: Any = POLICIES[name].make(given, **options)
    found = []
    for t in range(1, steps + 1):
        X = player.ask(float(t), 1)
        found.append(float(X[0, 0]))
        player.tell(X, noisy(X, 1.0 if t < 12 else 30.0) + shift, float(t))
    return found, getattr(getattr(player, "rule", None), "restarts", 0)


# Constants that make them start again within a test.
EAGER: dict[str, dict[str, Any]] = {
    "master": {"thresholds": Thresholds(60, regret=2.0, factor=0.012)},
    "ada-opkb": {"constants": Constants(60, c3=0.02, c0=0.02)},
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_constant_added_to_all_rewards_changes_no_choice(name: str) -> None:
    """No policy takes zero for anything, as long as it is given no prior mean."""
    options = EAGER.get(name, {})
    steps = 24 if name in EAGER else 14
    plain = plays(name, 0.0, steps, **options)
    assert (plain[1] > 0) == (name in EAGER)
    assert plays(name, -5.0, steps, **options) == plain


@pytest.mark.parametrize("name", [each for each in POLICIES if each not in DRAWN + SURE])
def test_points_that_are_out_count_at_later_times(name: str) -> None:
    """Four decisions without a reward in between are about four points, where much is unknown."""
    player = warmed(made(name), steps=2)
    out = np.concatenate([player.ask(t, 1) for t in (10.0, 11.0, 12.0, 13.0)])
    assert distinct(out) == 4, out.ravel()

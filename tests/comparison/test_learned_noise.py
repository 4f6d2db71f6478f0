from __future__ import annotations

import math

import numpy as np
import pytest

from tvbandits import Bandit, compare, policies
from tvbandits.comparison.setup import prepare
from tvbandits.core.protocols import added_noise
from tvbandits.datasets import DriftingBump, TableProblem
from tvbandits.experts import SimulatorExpert
from tvbandits.policies import POLICIES, Setting

POINTS = np.linspace(0.0, 1.0, 12)[:, None]


def measured() -> TableProblem:
    """Measurements: a wave that wanders, with a noise of variance 0.04 that nobody states."""
    t = np.arange(120.0)[:, None]
    noise = 0.2 * np.random.default_rng(0).standard_normal((120, 12))
    values = 10.0 + np.sin(5.0 * POINTS[:, 0] + t / 30.0) + noise
    return TableProblem(values, POINTS, "measured", "", noise_variance=None)


def test_policies_learn_the_noise_of_a_problem_that_does_not_know_it() -> None:
    found: list[Bandit] = []

    def maker(setting: Setting) -> Bandit:
        assert setting.noise_variance is None
        found.append(policies.gp_ucb(*setting.parts, seed=setting.seed))
        return found[-1]

    rows = list(compare(measured(), {"mine": maker}, seeds=1, horizon=20))
    assert len(rows) == 20
    assert found[-1].noise.readings == 16
    assert all(math.isfinite(row["bound"]) for row in rows)


def test_what_a_comparison_needs_it_estimates_from_the_first_sample() -> None:
    prepared = prepare("measured", measured(), 0, 100)
    assert prepared.noise_variance == pytest.approx(0.04, rel=0.6)
    assert prepared.setting(None, None).noise_variance is None
    assert added_noise(prepared.problem) == 0.0


def test_an_expert_on_it_must_state_its_own_noise() -> None:
    with pytest.raises(ValueError, match="variance must be given"):
        SimulatorExpert(measured())
    assert len(SimulatorExpert(measured(), variance=0.1).query(POINTS, 1.0)) == 12


@pytest.mark.parametrize(
    "text",
    [
        "gp-ucb:noise_variance=none",
        "r-perp:noise_variance=none",
        "adaptive-gp-ucb:noise_variance=0.5",
    ],
)
def test_a_policy_may_be_told_another_noise_than_the_problem_has(text: str) -> None:
    problem = DriftingBump(candidates=11, horizon=6)
    assert len(list(compare(problem, [text], seeds=1))) == 6


def test_none_is_taken_at_its_word() -> None:
    setting = prepare("bump", DriftingBump(candidates=11, horizon=6), 0, 6).setting(None, None)
    made = POLICIES["gp-ucb"].make(setting, noise_variance=None)
    assert isinstance(made, Bandit)
    assert made.recipe.noise_variance is None
    assert POLICIES["gp-ucb"].make(setting).recipe.noise_variance == 0.01

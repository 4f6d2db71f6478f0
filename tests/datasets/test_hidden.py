"""Rewards with a peak that a run may miss: their formulas and their best points."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tvbandits import Box, Problem
from tvbandits.datasets import BerkenkampToy, NarrowBump


def test_berkenkamp_toy_is_a_slope_plus_a_normal_density() -> None:
    problem = BerkenkampToy()
    X = problem.domain.X  # type: ignore[union-attr]
    expected = 0.6 * X[:, 0] + norm.pdf(X[:, 0], 0.2, 0.08) / 8
    for t in (1.0, 120.0, 1e6):
        np.testing.assert_allclose(problem.value(X, t), expected, rtol=1e-12)
        assert problem.best(t) == expected.max()
    assert X[expected.argmax()] == pytest.approx(0.21)
    assert problem.variation == 0.0


def test_berkenkamp_toy_returns_the_best_reward_of_the_whole_interval() -> None:
    problem = BerkenkampToy(candidates=0)
    assert isinstance(problem.domain, Box)
    x = np.linspace(0.0, 1.0, 1_000_001)
    best = (0.6 * x + norm.pdf(x, 0.2, 0.08) / 8).max()
    assert problem.best(1.0) == pytest.approx(best, abs=1e-9)
    assert best > BerkenkampToy().best(1.0)


def test_narrow_bump_matches_its_formula() -> None:
    problem = NarrowBump()
    X = problem.domain.X
    assert len(X) == 441
    expected = []
    for a, b in X:
        bump = math.exp(-((a - 0.7) ** 2 + (b - 0.6) ** 2) / (2 * 0.025**2))
        hill = 0.5 * math.exp(-((a - 0.35) ** 2 + (b - 0.4) ** 2) / (2 * 0.2**2))
        expected.append(bump + hill)
    np.testing.assert_allclose(problem.value(X, 3.0), expected, rtol=1e-12)
    np.testing.assert_allclose(X[np.argmax(expected)], [0.7, 0.6])
    assert problem.best(50.0) == pytest.approx(max(expected))


def test_narrow_bump_lifts_one_point_above_the_hill() -> None:
    problem = NarrowBump()
    rewards = problem.rewards_at(1.0)
    away = np.abs(problem.domain.X - [0.7, 0.6]).sum(axis=1) > 1e-9
    assert problem.domain.X[away][rewards[away].argmax()] == pytest.approx([0.35, 0.4])
    assert rewards[away].max() == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("problem", [BerkenkampToy(), BerkenkampToy(0), NarrowBump()])
def test_hidden_problems_follow_the_protocol_and_do_not_drift(
    problem: BerkenkampToy | NarrowBump,
) -> None:
    assert isinstance(problem, Problem)
    X = problem.domain.sample(20, np.random.default_rng(0))
    assert (problem.value(X, 1.0) <= problem.best(1.0)).all()
    np.testing.assert_array_equal(problem.value(X, 1.0), problem.value(X, 77.0))

"""Made-up problems against their formulas and the laws they are drawn from."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tvbandits import Box, Candidates, Problem
from tvbandits.datasets import DriftingBump, GPDrift, NewPeak, Switching

PROBLEMS: list[Any] = [
    DriftingBump(candidates=51),
    DriftingBump(candidates=0),
    GPDrift(points_per_axis=4, horizon=30),
    Switching(every=7, candidates=21, horizon=30),
    DriftingBump(candidates=51, amplitude=40.0, speed=0.3),
    NewPeak(candidates=51, appears=3, growth=2, horizon=30),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_problems_keep_to_the_protocol(problem: Any) -> None:
    assert isinstance(problem, Problem)
    X = problem.domain.sample(20, np.random.default_rng(0))
    for t in (1.0, 2.0, float(problem.horizon)):
        values = problem.value(X, t)
        assert values.shape == (20,)
        assert np.isfinite(values).all()
        assert values.max() <= problem.best(t) + 1e-9
        np.testing.assert_array_equal(problem.value(X[::-1], t), values[::-1])
    assert problem.variation > 0
    assert problem.noise_variance > 0
    K = problem.kernel(X)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    np.testing.assert_array_equal(again.value(X, 2.0), problem.value(X, 2.0))


# --- the drifting bump ----------------------------------------------------------------------------


def bump(x: float, t: float) -> float:
    return math.exp(-0.05 * (x - 5 * math.sin(0.1 * t)) ** 2) + 0.5 * math.cos(0.2 * x) + 1.5


@given(x=st.floats(-50, 50), t=st.floats(0, 1e4))
@settings(deadline=None)
def test_bump_is_its_formula(x: float, t: float) -> None:
    assert DriftingBump().value(np.array([[x]]), t)[0] == pytest.approx(bump(x, t), abs=1e-12)


@pytest.mark.parametrize("t", [1.0, 15.7, 47.0, 333.0, 500.0])
def test_best_of_the_bump(t: float) -> None:
    grid = np.linspace(-50, 50, 400_001)[:, None]
    highest = DriftingBump().value(grid, t).max()
    assert DriftingBump(candidates=0).best(t) == pytest.approx(highest, abs=1e-7)
    few = DriftingBump(candidates=37)
    assert few.best(t) == max(bump(x, t) for x in np.linspace(-50, 50, 37))
    assert few.best(t) <= highest


def test_domains_of_the_bump() -> None:
    line = DriftingBump().domain
    assert isinstance(line, Candidates)
    assert (len(line), line.X.min(), line.X.max()) == (1001, -50.0, 50.0)
    interval = DriftingBump(candidates=0).domain
    assert interval == Box([[-50.0, 50.0]])


def test_variation_of_the_bump() -> None:
    problem = DriftingBump(candidates=11, horizon=40)
    x = np.linspace(-50, 50, 20_001)[:, None]
    steps = [np.abs(problem.value(x, t + 1) - problem.value(x, t)).max() for t in range(1, 40)]
    assert problem.variation == pytest.approx(np.mean(steps), rel=1e-3)
    assert DriftingBump(horizon=1).variation == 0.0


# --- drift of a Gaussian process ------------------------------------------------------------------


def test_drift_is_stationary_and_correlated_as_the_model_says() -> None:
    epsilon, horizon = 0.1, 6000
    path = GPDrift(epsilon, points_per_axis=4, length_scale=0.15, horizon=horizon, seed=2).path
    assert path.shape == (horizon, 16)
    # 6,000 steps of 16 nearly independent points, correlated over some 20 steps: 5,000 effective.
    tolerance = 5 * math.sqrt(2 / 5000)
    assert (path**2).mean() == pytest.approx(1.0, abs=tolerance)
    assert abs(path.mean()) < tolerance
    for lag in (1, 2, 5, 10, 30):
        expected = (1 - epsilon) ** (lag / 2)
        assert (path[:-lag] * path[lag:]).mean() == pytest.approx(expected, abs=tolerance)


def test_drift_is_an_exact_recursion() -> None:
    problem = GPDrift(0.2, points_per_axis=3, length_scale=0.5, horizon=4000, seed=4)
    path = problem.path
    fresh = (path[1:] - math.sqrt(0.8) * path[:-1]) / math.sqrt(0.2)
    K = problem.kernel(problem.domain.X)
    tolerance = 5 * math.sqrt(2 / 4000)
    np.testing.assert_allclose(fresh.T @ fresh / len(fresh), K, atol=tolerance)
    # What is new at a step has nothing to do with what was there, nor with what was new before.
    np.testing.assert_allclose(fresh.T @ path[:-1] / len(fresh), 0, atol=2 * tolerance)
    np.testing.assert_allclose(fresh[1:].T @ fresh[:-1] / len(fresh), 0, atol=tolerance)


def test_drift_starts_from_the_prior() -> None:
    first = np.array(
        [GPDrift(points_per_axis=3, horizon=1, seed=seed).path[0] for seed in range(1500)]
    )
    K = GPDrift(points_per_axis=3).kernel(GPDrift(points_per_axis=3).domain.X)
    np.testing.assert_allclose(first.T @ first / 1500, K, atol=5 * math.sqrt(2 / 1500))
    # The draws of neighbouring seeds are independent.
    assert abs((first[1:] * first[:-1]).mean()) < 5 / math.sqrt(1500)


@pytest.mark.parametrize(("epsilon", "constant"), [(0.0, True), (1.0, False)])
def test_the_extremes_of_drift(epsilon: float, constant: bool) -> None:
    path = GPDrift(epsilon, points_per_axis=3, horizon=400).path
    assert (path == path[0]).all() == constant
    if not constant:
        lag_one = (path[1:] * path[:-1]).mean()
        assert abs(lag_one) < 5 / math.sqrt(400)


def test_drift_is_looked_up_by_candidate_and_step() -> None:
    problem = GPDrift(points_per_axis=4, horizon=10, seed=1)
    rows = [3, 0, 15, 3]
    np.testing.assert_array_equal(problem.value(problem.domain.X[rows], 4.0), problem.path[3, rows])
    assert problem.best(10) == problem.path[9].max()
    assert problem.variation == np.mean(
        [abs(b - a).max() for a, b in zip(problem.path, problem.path[1:], strict=False)]
    )
    with pytest.raises(ValueError, match=r"X must be candidates, but \[0\.1, 0\.1\]"):
        problem.value(np.array([[0.1, 0.1]]), 4.0)


# --- switches -------------------------------------------------------------------------------------


def test_a_switching_reward_stands_still_and_then_jumps() -> None:
    problem = Switching(every=7, candidates=21, horizon=30, seed=3)
    X = problem.domain.X
    values = np.array([problem.value(X, t) for t in range(1, 31)])
    moved = np.abs(np.diff(values, axis=0)).max(axis=1)
    # Switches are after the steps 7, 14, 21 and 28.
    np.testing.assert_array_equal(np.flatnonzero(moved), [6, 13, 20, 27])
    assert moved[[6, 13, 20, 27]].min() > 0.1
    assert problem.variation == pytest.approx(moved.mean())
    np.testing.assert_array_equal([problem.best(t) for t in range(1, 31)], values.max(axis=1))
    # Between the steps it stands still, too.
    np.testing.assert_array_equal(problem.value(X, 7.99), values[6])
    np.testing.assert_array_equal(problem.value(X, 8.0), values[7])


def test_pieces_are_draws_of_the_prior() -> None:
    problem = Switching(every=1, candidates=6, length_scale=0.3, horizon=4000)
    K = problem.kernel(problem.domain.X)
    covariance = problem.pieces.T @ problem.pieces / 4000
    np.testing.assert_allclose(covariance, K, atol=5 * math.sqrt(2 / 4000))
    assert abs((problem.pieces[1:] * problem.pieces[:-1]).mean()) < 5 / math.sqrt(4000)


def test_a_reward_without_a_switch_does_not_vary() -> None:
    assert Switching(every=50, candidates=9, horizon=50).variation == 0.0
    assert Switching(every=1, candidates=9, horizon=1).variation == 0.0


# --- realisations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", PROBLEMS[2:4], ids=lambda problem: problem.name)
def test_a_realisation_is_its_seed(problem: Any) -> None:
    X = problem.domain.X
    first, again, other = problem.realise(5), problem.realise(5), problem.realise(6)
    assert isinstance(first, Problem)
    np.testing.assert_array_equal(first.value(X, 9.0), again.value(X, 9.0))
    assert not np.isclose(first.value(X, 9.0), other.value(X, 9.0)).any()
    assert (first.domain, first.horizon, first.name) == (problem.domain, 30, problem.name)
    np.testing.assert_array_equal(
        problem.realise(problem.seed).value(X, 9.0), problem.value(X, 9.0)
    )


def test_kinds_of_problems_do_not_share_draws() -> None:
    drift = GPDrift(epsilon=1.0, points_per_axis=4, horizon=40, seed=1).path.ravel()[:600]
    pieces = Switching(every=1, candidates=21, horizon=40, seed=1).pieces.ravel()[:600]
    assert abs(np.corrcoef(drift, pieces)[0, 1]) < 0.5


# --- wrong times and parameters -------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.0, -1.0, 31.0, 2.5, math.nan, math.inf])
def test_drift_is_known_at_its_steps_only(t: float) -> None:
    problem = PROBLEMS[2]
    match = rf"gp-drift is known at t = 1, 2, \.\.\., 30; got t = {t}"
    with pytest.raises(ValueError, match=match):
        problem.value(problem.domain.X, t)
    with pytest.raises(ValueError, match=match):
        problem.best(t)


@pytest.mark.parametrize("t", [0.99, -1.0, 31.0, math.nan, math.inf])
def test_switching_is_known_until_its_horizon(t: float) -> None:
    problem = PROBLEMS[3]
    match = rf"switching is known for 1 <= t < 31; got t = {t}"
    with pytest.raises(ValueError, match=match):
        problem.value(problem.domain.X, t)
    with pytest.raises(ValueError, match=match):
        problem.best(t)


@pytest.mark.parametrize("kind", [DriftingBump, GPDrift, Switching])
def test_bad_horizons(kind: Any) -> None:
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got 0"):
        kind(horizon=0)


def test_bad_parameters() -> None:
    with pytest.raises(ValueError, match="candidates must be a whole number of at least 0, got -1"):
        DriftingBump(candidates=-1)
    for epsilon in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=rf"epsilon must lie in \[0, 1\], got {epsilon}"):
            GPDrift(epsilon)
    with pytest.raises(ValueError, match="every must be a whole number of at least 1, got 0"):
        Switching(every=0)


@pytest.mark.parametrize("amplitude", [0.0, 5.0, 25.0, 40.0, 50.0])
def test_the_best_of_a_bump_that_wanders_far(amplitude: float) -> None:
    problem = DriftingBump(candidates=0, amplitude=amplitude, speed=0.07)
    grid = np.linspace(-50.0, 50.0, 200_001)[:, None]
    for t in (1.0, 9.0, 22.0, 40.0, 67.0):
        assert problem.best(t) == pytest.approx(problem.value(grid, t).max(), abs=1e-7)


def test_a_peak_appears() -> None:
    problem = NewPeak(candidates=101, appears=10, growth=4, height=3.0, horizon=20)
    places = [
        float(problem.domain.X[problem.value(problem.domain.X, t).argmax(), 0]) for t in (9, 30)
    ]
    assert places == [10.0, -35.0]
    heights = [problem.best(t) for t in (1, 10, 12, 13, 14, 20)]
    np.testing.assert_allclose(heights, [1.0, 1.0, 1.5, 2.25, 3.0, 3.0])
    assert problem.variation == pytest.approx(3.0 / 19)
    with pytest.raises(ValueError, match=r"appears must be a whole number of at least 0, got -1"):
        NewPeak(appears=-1)
    with pytest.raises(ValueError, match=r"height must be positive and finite, got 0"):
        NewPeak(height=0.0)
    with pytest.raises(ValueError, match=r"amplitude must lie in \[0, 50\], got 51"):
        DriftingBump(amplitude=51.0)

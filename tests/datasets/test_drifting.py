"""Problems of the literature: their formulas, their drift, and their optimum by another search."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from tvbandits import Problem
from tvbandits.cli.problems import PROBLEMS, make_problem
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.datasets import (
    AutoregressiveArms,
    Exoskeleton,
    Field,
    GeneralisedMovingPeaks,
    GPDrift,
    MovingPeaks,
    SwitchingArms,
    TimedParabola,
    WearingArms,
)
from tvbandits.datasets.arms import autoregression
from tvbandits.datasets.fields import KINDS
from tvbandits.datasets.peaks import reflected
from tvbandits.datasets.synthetic import bogunovic, mandl

ALL: list[Any] = [
    MovingPeaks(dimension=2, horizon=100),
    MovingPeaks(dimension=2, horizon=100, shape="function1"),
    GeneralisedMovingPeaks(dimension=2, horizon=100),
    SwitchingArms(horizon=100),
    AutoregressiveArms(side=4, horizon=400),
    WearingArms(arms=20, horizon=40),
    Exoskeleton(),
    Exoskeleton(candidates=0),
    TimedParabola(),
    TimedParabola(candidates=0, horizon=900),
    *map(Field, KINDS),
    GPDrift(points_per_axis=5, horizon=20, smoothness="matern52"),
]


@pytest.mark.parametrize("problem", ALL, ids=lambda problem: problem.name)
def test_problems_keep_to_the_protocol(problem: Any) -> None:
    assert isinstance(problem, Problem)
    X = problem.domain.sample(20, np.random.default_rng(0))
    for t in (1.0, 2.0, float(problem.horizon)):
        values = problem.value(X, t)
        assert values.shape == (20,)
        assert values.max() <= problem.best(t) + 1e-9
        np.testing.assert_array_equal(problem.value(X[::-1], t), values[::-1])
    for t in (0.0, problem.horizon + 1.0):
        with pytest.raises(ValueError, match="known"):
            problem.value(X, t)
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(again.value(X, 2.0), problem.value(X, 2.0))
    if hasattr(problem, "realise"):
        other = problem.realise(7)
        assert other.best(1.0) != problem.best(1.0)
        assert problem.realise(problem.seed) == problem


@pytest.mark.parametrize("problem", [each for each in ALL if not isinstance(each, WearingArms)])
def test_the_best_point_moves_where_it_is_said_to(problem: Any) -> None:
    if not hasattr(type(problem), "moves"):
        pytest.skip("says nothing about it")
    X = problem.domain.sample(4000, np.random.default_rng(1))
    best = {
        X[int(problem.value(X, t).argmax())].tobytes()
        for t in np.linspace(1, problem.horizon, 9).round()
    }
    assert (len(best) > 1) == problem.moves


@pytest.mark.parametrize("problem", ALL, ids=lambda problem: problem.name)
def test_nonsense_is_refused(problem: Any) -> None:
    for name, value in (("horizon", 0), ("noise_variance", 0.0), ("seed", -1)):
        if hasattr(problem, name):
            given = {each.name: getattr(problem, each.name) for each in fields(problem)}
            with pytest.raises(ValueError, match=name):
                type(problem)(**{**given, name: value})


# --- peaks ------------------------------------------------------------------------------------------


def test_reflection_is_as_by_two_mirrors() -> None:
    values = np.array([-3.0, 0.0, 4.0, 10.0, 12.5, 27.0])
    np.testing.assert_allclose(reflected(values, 0.0, 10.0), [3.0, 0.0, 4.0, 10.0, 7.5, 7.0])


def plain_peaks(problem: MovingPeaks, x: np.ndarray[Any, Any], t: int) -> float:
    centres, heights, widths = (each[(t - 1) // problem.every] for each in problem.landscapes)
    found = []
    for p, h, w in zip(centres, heights, widths, strict=True):
        apart = float(sum((a - b) ** 2 for a, b in zip(x, p, strict=True)))
        found.append(h - w * apart**0.5 if problem.shape == "cone" else h / (1 + w * apart))
    return max(found)


@pytest.mark.parametrize("shape", ["cone", "function1"])
def test_moving_peaks_are_their_formula(shape: Any) -> None:
    problem = MovingPeaks(shape=shape, horizon=100, seed=3)
    X = problem.domain.sample(10, np.random.default_rng(0))
    for t in (1, 25, 26, 100):
        expected = [plain_peaks(problem, x, t) for x in X]
        np.testing.assert_allclose(problem.value(X, float(t)), expected, rtol=1e-12)
    centres, heights, widths = problem.landscapes
    moved = np.sqrt((np.diff(centres, axis=0) ** 2).sum(axis=2))
    assert moved.max() == pytest.approx(1.5)  # less only where a wall is met
    assert centres.min() >= 0
    assert centres.max() <= 100
    assert 30 <= heights.min() <= heights.max() <= 70
    narrow, wide = (1.0, 12.0) if shape == "cone" else (1e-4, 0.2)
    assert narrow <= widths.min() <= widths.max() <= wide


def plain_gmpb(problem: GeneralisedMovingPeaks, x: np.ndarray[Any, Any], t: int) -> float:
    now = {name: each[(t - 1) // problem.every] for name, each in problem.landscapes.items()}
    found = []
    for i in range(problem.peaks):
        y = now["turns"][i] @ (x - now["centres"][i])
        total = 0.0
        for j, number in enumerate(y):
            if number == 0:
                continue
            a, b = now["eta"][i][:2] if number > 0 else now["eta"][i][2:]
            size = np.log(abs(number))
            bent = np.exp(size + now["tau"][i] * (np.sin(a * size) + np.sin(b * size)))
            total += now["widths"][i][j] * bent**2
        found.append(now["heights"][i] - total**0.5)
    return float(max(found))


def test_generalised_peaks_are_their_formula() -> None:
    problem = GeneralisedMovingPeaks(dimension=3, horizon=100, seed=2)
    X = problem.domain.sample(10, np.random.default_rng(0))
    X = np.vstack([X, problem.landscapes["centres"][0][0]])
    for t in (1, 26, 100):
        expected = [plain_gmpb(problem, x, t) for x in X]
        np.testing.assert_allclose(problem.value(X, float(t)), expected, rtol=1e-9)
    turns = problem.landscapes["turns"][-1]
    for turn in turns:
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-9)


# --- arms -------------------------------------------------------------------------------------------


def test_arms_switch_where_they_should() -> None:
    assert SwitchingArms().switches == (1500, 5000)
    assert SwitchingArms(environment="tuning").switches == (3000,)
    problem = SwitchingArms(horizon=200)
    X = problem.domain.X
    changed = [t for t in range(1, 200) if (problem.value(X, t) != problem.value(X, t + 1)).any()]
    assert changed == [30, 100]
    np.testing.assert_allclose((X**2).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.abs(problem.pieces).max(axis=1), 0.8)


def test_the_autoregression_has_unit_variance() -> None:
    coefficients, variance = autoregression()
    assert coefficients.sum() == pytest.approx(0.97)
    assert coefficients[1] / coefficients[0] == pytest.approx(np.exp(-1 / 6))
    # The covariances by their own recursion: the state's covariance is a fixed point.
    companion = np.vstack([coefficients, np.eye(20)[:-1]])
    covariance = np.zeros((20, 20))
    for _ in range(6000):
        covariance = companion @ covariance @ companion.T
        covariance[0, 0] += variance
    assert covariance[0, 0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.slow
def test_the_field_has_the_correlation_it_says() -> None:
    problem = AutoregressiveArms(side=3)
    line = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    adjacency = np.kron(line, np.eye(3)) + np.kron(np.eye(3), line)
    dense = np.linalg.inv(np.eye(9) + 5 * (np.diag(adjacency.sum(axis=0)) - adjacency))
    d = np.sqrt(np.diag(dense))
    np.testing.assert_allclose(problem.correlation, dense / d[:, None] / d, rtol=1e-10)
    paths = np.array([problem.realise(seed).path[::200].ravel() for seed in range(100)])
    assert paths.var() == pytest.approx(1.25, rel=0.1)  # of the process, and of its means


def test_arms_wear_out_for_who_plays_them_alone() -> None:
    problem = WearingArms(arms=5, loss=0.5)
    mine, other = problem.begin(), problem.begin()
    x = problem.domain.X[2:3]
    before = float(problem.value(x, 1.0)[0])
    mine.wear(np.vstack([x, x]))
    assert mine.value(x, 2.0)[0] == pytest.approx(before / 4)
    assert other.value(x, 2.0)[0] == before
    assert problem.value(x, 2.0)[0] == before
    assert isinstance(mine, Problem)


def test_a_comparison_wears_each_run_by_itself() -> None:
    problem = WearingArms(arms=6, loss=0.2, horizon=30)
    runs = list(iterate(Comparison(problem, ["uniform", "gp-ucb"], 2)))
    for run in runs:
        left = problem.realise(run.seed).fresh.copy()
        for row in run.rows:
            i = problem.domain.index([[row["x0"]]])[0]
            assert row["reward"] == pytest.approx(left[i])
            assert row["best"] == pytest.approx(left.max())
            assert row["regret"] >= 0
            left[i] *= 0.8


def test_to_play_what_is_best_now_is_optimal_where_arms_wear() -> None:
    fresh, loss = [0.9, 0.8, 0.3], 0.3

    def best_total(left: list[float], plays: int) -> float:
        if plays == 0:
            return 0.0
        totals = []
        for i, value in enumerate(left):
            after = [*left[:i], value * (1 - loss), *left[i + 1 :]]
            totals.append(value + best_total(after, plays - 1))
        return max(totals)

    left, greedy = list(fresh), 0.0
    for _ in range(6):
        i = int(np.argmax(left))
        greedy += left[i]
        left[i] *= 1 - loss
    assert greedy == pytest.approx(best_total(fresh, 6))


# --- the command line -------------------------------------------------------------------------------


def test_draws_are_those_of_their_papers() -> None:
    assert (bogunovic().points_per_axis, bogunovic().length_scale) == (50, 0.2)
    assert (mandl(0.1).points_per_axis, mandl(0.1).length_scale, mandl().horizon) == (
        20,
        0.1,
        10_000,
    )
    rough = bogunovic(smoothness="matern52").kernel
    assert (rough.nu, rough.length_scale) == (2.5, 0.2)


def test_problems_are_known_by_name_and_by_module() -> None:
    for name in (
        "moving-peaks",
        "gmpb",
        "switching-arms",
        "ar-arms",
        "wearing-arms",
        "exoskeleton",
        "xopt-drift",
    ):
        made = make_problem(name, [], None)
        assert made.name == name
        path = f"tvbandits.datasets:{type(made).__name__}"
        assert make_problem(path, [], None) == made
        assert name in PROBLEMS


def test_xopts_parabola_swings_and_wanders_off_after_fifty_seconds() -> None:
    problem = TimedParabola(candidates=0, horizon=1500)
    for step in (1, 137, 499, 500, 1400):
        seconds = step / 10
        k = 0.25 * np.sin(0.6 * seconds) + 0.001 * seconds
        if seconds >= 50:
            k = -0.015 * (seconds - 50)
        np.testing.assert_allclose(problem.value(np.array([[0.3]]), step), [-((0.3 - k) ** 2)])
        inside = np.clip(k, -1, 1)
        assert problem.best(step) == pytest.approx(-((inside - k) ** 2), abs=1e-12)


def test_fields_may_be_longer_than_a_hundred_steps() -> None:
    for name in KINDS:
        problem = make_problem(f"field-{name}:horizon=250", [], None)
        assert problem.realise(1).path.shape == (250, len(problem.domain))

"""Made-up problems against their formulas and the laws they are drawn from."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import differential_evolution, minimize

from tests.datasets.test_regression import MINIMA
from tests.helpers.refusals import assert_refused
from tests.oracles import plain
from tvbandits import Candidates, Problem, compare
from tvbandits.comparison.arguments import PROBLEMS, READS_FILES, make_problem
from tvbandits.comparison.board import SUITES
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.summary import summarise
from tvbandits.datasets import (
    AutoregressiveArms,
    BannersByDay,
    BumpAndWall,
    DriftingBump,
    Exoskeleton,
    Field,
    GeneralisedMovingPeaks,
    GPDrift,
    HeatPump,
    Lifted,
    MovingPeaks,
    NewPeak,
    QuietNetwork,
    Switching,
    SwitchingArms,
    TimedParabola,
    WearingArms,
)
from tvbandits.datasets.arms import autoregressive_coefficients
from tvbandits.datasets.fields import KINDS
from tvbandits.datasets.limited import LimitedProblem
from tvbandits.datasets.peaks import reflect

MADE_UP: list[Any] = [
    DriftingBump(candidates=51),
    DriftingBump(candidates=0),
    GPDrift(points_per_axis=4, horizon=30),
    Switching(every=7, candidates=21, horizon=30),
    NewPeak(candidates=51, appears=3, horizon=30),
    NewPeak(candidates=0, appears=3, horizon=30),
]


DRIFTING: list[Any] = [
    MovingPeaks(dimension=2, horizon=100),
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


LIFTED: list[Any] = [Lifted(name, horizon=5) for name in MINIMA]


@pytest.mark.parametrize("problem", MADE_UP + DRIFTING + LIFTED, ids=lambda each: each.name)
def test_synthetic_problems_follow_the_protocol(problem: Any) -> None:
    assert isinstance(problem, Problem)
    X = problem.domain.sample(20, np.random.default_rng(0))
    for t in (1.0, 2.0, float(problem.horizon)):
        values = problem.value(X, t)
        assert values.shape == (20,)
        assert np.isfinite(values).all()
        assert values.max() <= problem.best(t) + 1e-9
        np.testing.assert_array_equal(problem.value(X[::-1], t), values[::-1])
    for t in (0.0, problem.horizon + 1.0) if problem not in MADE_UP else ():
        assert_refused(ValueError, "is defined", problem.value, X, t)
    assert problem.noise_variance > 0
    if problem in MADE_UP:
        assert problem.variation > 0
        assert np.linalg.eigvalsh(problem.kernel(X)).min() > -1e-9
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    np.testing.assert_array_equal(again.value(X, 2.0), problem.value(X, 2.0))
    if hasattr(problem, "realise"):
        assert problem.realise(7).best(1.0) != problem.best(1.0)
        assert problem.realise(problem.seed) == problem


# --- the drifting bump ----------------------------------------------------------------------------


def bump(x: float, t: float) -> float:
    return math.exp(-0.05 * (x - 5 * math.sin(0.1 * t)) ** 2) + 0.5 * math.cos(0.2 * x) + 1.5


@given(x=st.floats(-50, 50), t=st.floats(0, 1e4))
@settings(deadline=None)
def test_drifting_bump_matches_its_formula(x: float, t: float) -> None:
    assert DriftingBump().value(np.array([[x]]), t)[0] == pytest.approx(bump(x, t), abs=1e-12)


def test_drifting_bump_returns_the_best_reward_of_a_grid() -> None:
    grid = np.linspace(-50, 50, 200_001)[:, None]
    box, few = DriftingBump(candidates=0), DriftingBump(candidates=37)
    for t in (1.0, 9.0, 22.0, 40.0, 67.0, 333.7):
        assert box.best(t) == pytest.approx(box.value(grid, t).max(), abs=1e-7)
        assert few.best(t) == few.value(few.domain.X, t).max()  # type: ignore[union-attr]


def test_drifting_bump_variation_matches_a_grid() -> None:
    problem = DriftingBump(candidates=11, horizon=40)
    x = np.linspace(-50, 50, 20_001)[:, None]
    steps = [np.abs(problem.value(x, t + 1) - problem.value(x, t)).max() for t in range(1, 40)]
    assert problem.variation == pytest.approx(np.mean(steps), rel=1e-3)
    assert DriftingBump(horizon=1).variation == 0.0


@pytest.mark.parametrize(("amplitude", "speed"), [(5.0, 0.1), (30.0, 0.05), (5.0, 2.0)])
def test_drifting_bump_rkhs_variation_matches_dense_algebra(amplitude: float, speed: float) -> None:
    problem = DriftingBump(amplitude=amplitude, speed=speed, horizon=40)
    x = np.linspace(-70, 70, 281)[:, None]
    values = np.array([problem.value(x, t) for t in range(1, 41)])
    K = problem.kernel(x) + 1e-9 * np.eye(len(x))
    budget = plain.variation_budget(values, K)
    assert 39 * problem.rkhs_variation == pytest.approx(budget, rel=1e-4)
    # [S] eq. 22, with k(x, x) = 1.
    assert problem.variation <= problem.rkhs_variation


def test_drifting_bump_rkhs_variation_is_zero_without_motion() -> None:
    assert DriftingBump(horizon=1).rkhs_variation == 0.0
    assert (
        DriftingBump(speed=0.0).rkhs_variation == DriftingBump(amplitude=0.0).rkhs_variation == 0.0
    )


# --- drift of a Gaussian process ------------------------------------------------------------------


def test_gp_drift_follows_its_exact_recursion() -> None:
    problem = GPDrift(0.2, points_per_axis=3, length_scale=0.5, horizon=4000, seed=4)
    path = problem.path
    fresh = (path[1:] - math.sqrt(0.8) * path[:-1]) / math.sqrt(0.2)
    K = problem.kernel(problem.domain.X)
    tolerance = 5 * math.sqrt(2 / 4000)
    np.testing.assert_allclose(fresh.T @ fresh / len(fresh), K, atol=tolerance)
    # What is new at a step has nothing to do with what was there, nor with what was new before.
    np.testing.assert_allclose(fresh.T @ path[:-1] / len(fresh), 0, atol=2 * tolerance)
    np.testing.assert_allclose(fresh[1:].T @ fresh[:-1] / len(fresh), 0, atol=tolerance)


def test_gp_drift_starts_from_the_prior() -> None:
    first = np.array(
        [GPDrift(points_per_axis=3, horizon=1, seed=seed).path[0] for seed in range(1500)]
    )
    K = GPDrift(points_per_axis=3).kernel(GPDrift(points_per_axis=3).domain.X)
    np.testing.assert_allclose(first.T @ first / 1500, K, atol=5 * math.sqrt(2 / 1500))
    # The draws of neighbouring seeds are independent.
    assert abs((first[1:] * first[:-1]).mean()) < 5 / math.sqrt(1500)


def test_gp_drift_returns_values_by_candidate_and_step() -> None:
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


def test_switching_changes_rewards_only_at_switches() -> None:
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


def test_switching_draws_each_piece_from_the_prior() -> None:
    problem = Switching(every=1, candidates=6, length_scale=0.3, horizon=4000)
    K = problem.kernel(problem.domain.X)
    covariance = problem.path.T @ problem.path / 4000
    np.testing.assert_allclose(covariance, K, atol=5 * math.sqrt(2 / 4000))
    assert abs((problem.path[1:] * problem.path[:-1]).mean()) < 5 / math.sqrt(4000)


def test_switching_has_no_variation_without_a_switch() -> None:
    assert Switching(every=50, candidates=9, horizon=50).variation == 0.0
    assert Switching(every=1, candidates=9, horizon=1).variation == 0.0


# --- wrong times and parameters -------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.0, 0.99, -1.0, 31.0, math.nan, math.inf])
def test_gp_drift_and_switching_refuse_times_outside_their_range(t: float) -> None:
    drift, switching = MADE_UP[2:4]
    at_steps = r"gp-drift is defined at t = 1, 2, \.\.\., 30; got t = "
    assert_refused(ValueError, rf"{at_steps}2.5", drift.best, 2.5)
    for problem, says in ((drift, at_steps), (switching, "defined for 1 <= t < 31; got t = ")):
        assert_refused(ValueError, f"{says}{t}", problem.value, problem.domain.X, t)
        assert_refused(ValueError, f"{says}{t}", problem.best, t)


def test_generalised_moving_peaks_refuse_more_numbers_than_memory_holds() -> None:
    assert_refused(
        ValueError, f"store {2**53 * 500} numbers, more than", GeneralisedMovingPeaks, peaks=2**53
    )


@pytest.mark.parametrize("make", [AutoregressiveArms, BannersByDay, TimedParabola])
def test_problems_refuse_a_horizon_too_large_for_memory(make: Any) -> None:
    assert_refused(ValueError, f"horizon .*{2**40}", make, horizon=2**40)


def test_new_peak_grows_a_higher_peak_during_the_run() -> None:
    problem = NewPeak(candidates=101, appears=10, horizon=40)
    places = [
        float(problem.domain.X[problem.value(problem.domain.X, t).argmax(), 0]) for t in (9, 30)
    ]
    assert places == [10.0, -35.0]
    heights = [problem.best(t) for t in (1, 10, 25, 30, 40)]
    np.testing.assert_allclose(heights, [1.0, 1.0, 1.5, 2.0, 2.0])
    assert problem.variation == pytest.approx(2.0 / 39)


# --- problems of the literature: their formulas, their drift, and their optimum by another search


# --- peaks ------------------------------------------------------------------------------------------


def test_reflect_mirrors_values_into_the_interval() -> None:
    values = np.array([-3.0, 0.0, 4.0, 10.0, 12.5, 27.0])
    np.testing.assert_allclose(reflect(values, 0.0, 10.0), [3.0, 0.0, 4.0, 10.0, 7.5, 7.0])


def plain_peaks(problem: MovingPeaks, x: np.ndarray[Any, Any], t: int) -> float:
    centres, heights, widths = (
        each[(t - 1) // problem.every] for each in problem.landscapes.values()
    )
    found = []
    for p, h, w in zip(centres, heights, widths, strict=True):
        found.append(h - w * float(sum((a - b) ** 2 for a, b in zip(x, p, strict=True))) ** 0.5)
    return max(found)


def test_moving_peaks_match_their_formula() -> None:
    problem = MovingPeaks(horizon=100, seed=3)
    X = problem.domain.sample(10, np.random.default_rng(0))
    for t in (1, 25, 26, 100):
        expected = [plain_peaks(problem, x, t) for x in X]
        np.testing.assert_allclose(problem.value(X, float(t)), expected, rtol=1e-12)
    centres, heights, widths = problem.landscapes.values()
    moved = np.sqrt((np.diff(centres, axis=0) ** 2).sum(axis=2))
    assert moved.max() == pytest.approx(1.5)  # less only where a wall is met
    assert centres.min() >= 0
    assert centres.max() <= 100
    assert 30 <= heights.min() <= heights.max() <= 70
    assert 1.0 <= widths.min() <= widths.max() <= 12.0


def plain_gmpb(problem: GeneralisedMovingPeaks, x: np.ndarray[Any, Any], t: int) -> float:
    now = {name: each[(t - 1) // problem.every] for name, each in problem.landscapes.items()}
    found = []
    for i in range(problem.peaks):
        y = now["rotations"][i] @ (x - now["centres"][i])
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


def test_generalised_moving_peaks_match_their_formula() -> None:
    problem = GeneralisedMovingPeaks(dimension=3, horizon=100, seed=2)
    X = problem.domain.sample(10, np.random.default_rng(0))
    X = np.vstack([X, problem.landscapes["centres"][0][0]])
    for t in (1, 26, 100):
        expected = [plain_gmpb(problem, x, t) for x in X]
        np.testing.assert_allclose(problem.value(X, float(t)), expected, rtol=1e-9)
    turns = problem.landscapes["rotations"][-1]
    for turn in turns:
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-9)


# --- arms -------------------------------------------------------------------------------------------


def test_switching_arms_switch_at_scaled_times() -> None:
    assert SwitchingArms().switches == (1500, 5000)
    problem = SwitchingArms(horizon=200)
    X = problem.domain.X
    changed = [t for t in range(1, 200) if (problem.value(X, t) != problem.value(X, t + 1)).any()]
    assert changed == [30, 100]
    np.testing.assert_allclose((X**2).sum(axis=1), 1.0)
    np.testing.assert_allclose(np.abs(problem.path).max(axis=1), 0.8)


def test_autoregressive_coefficients_give_unit_variance() -> None:
    coefficients, variance = autoregressive_coefficients()
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
def test_autoregressive_arms_have_the_documented_correlation() -> None:
    problem = AutoregressiveArms(side=3)
    line = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    adjacency = np.kron(line, np.eye(3)) + np.kron(np.eye(3), line)
    dense = np.linalg.inv(np.eye(9) + 5 * (np.diag(adjacency.sum(axis=0)) - adjacency))
    d = np.sqrt(np.diag(dense))
    np.testing.assert_allclose(problem.correlation, dense / d[:, None] / d, rtol=1e-10)
    paths = np.array([problem.realise(seed).path[::200].ravel() for seed in range(100)])
    assert paths.var() == pytest.approx(1.25, rel=0.1)  # of the process, and of its means


def test_wearing_arms_lose_reward_only_in_the_run_that_plays_them() -> None:
    problem = WearingArms(arms=5, loss=0.5)
    mine, other = problem.begin(), problem.begin()
    x = problem.domain.X[2:3]
    before = float(problem.value(x, 1.0)[0])
    mine.wear(np.vstack([x, x]))
    assert mine.value(x, 2.0)[0] == pytest.approx(before / 4)
    assert other.value(x, 2.0)[0] == before
    assert problem.value(x, 2.0)[0] == before
    assert isinstance(mine, Problem)


def test_comparison_wears_arms_of_each_run_separately() -> None:
    problem = WearingArms(arms=6, loss=0.2, horizon=30)
    runs = list(iterate(Comparison(problem, ["uniform", "gp-ucb"], 2)))
    for run in runs:
        left = problem.realise(run.seed).rewards
        for row in run.rows.to_dict("records"):
            i = problem.domain.index([[row["x0"]]])[0]
            assert row["reward"] == pytest.approx(left[i])
            assert row["best"] == pytest.approx(left.max())
            assert row["regret"] >= 0
            left[i] *= 0.8


# --- the command line -------------------------------------------------------------------------------


def test_make_problem_finds_problems_by_name_and_module() -> None:
    for name in ("moving-peaks", "gmpb", "ar-arms", "wearing-arms", "exoskeleton", "xopt-drift"):
        made = make_problem(name, [], None)
        assert made.name == name
        path = f"tvbandits.datasets:{type(made).__name__}"
        assert make_problem(path, [], None) == made
        assert name in PROBLEMS


def test_timed_parabola_matches_its_formula_before_and_after_fifty_seconds() -> None:
    problem = TimedParabola(candidates=0, horizon=1500)
    for step in (1, 137, 499, 500, 1400):
        seconds = step / 10
        k = 0.25 * np.sin(0.6 * seconds) + 0.001 * seconds
        if seconds >= 50:
            k = -0.015 * (seconds - 50)
        np.testing.assert_allclose(problem.value(np.array([[0.3]]), step), [-((0.3 - k) ** 2)])
        inside = np.clip(k, -1, 1)
        assert problem.best(step) == pytest.approx(-((inside - k) ** 2), abs=1e-12)


# --- `best` of every problem of the command line, against a search that knows nothing but `value`

# What reads files is tested beside its readers.
NAMES = [name for name in PROBLEMS if name not in READS_FILES | {"table"}]

BOXES = [
    "drifting-bump:candidates=0",
    "exoskeleton:candidates=0",
    "moving-peaks:dimension=2,peaks=5",
]

LIFTED_TEXTS = [f"lifted:{name},horizon=101" for name in MINIMA]

# What no search finds in the dimensions that it has otherwise.
LOW = {"moving-peaks": ":dimension=2,peaks=5", "gmpb": ":dimension=2,peaks=3"}

# Their best point satisfies a limit, which this search does not know (`test_limited.py`).
LIMITED = {"bump-and-wall", "heat-pump", "quiet-network"}


def searched(problem: Any, t: float) -> float:
    """The largest value that is found: by looking at all, or by evolution, then downhill."""
    if isinstance(problem.domain, Candidates):
        return float(problem.value(problem.domain.X, t).max())
    low, high = problem.domain.bounds.T

    def loss(x: Any) -> Any:
        return -problem.value(np.clip(x.T if x.ndim == 2 else x[None], low, high), t)

    given: dict[str, Any] = {"vectorized": True, "updating": "deferred", "tol": 1e-12}
    given |= {"bounds": problem.domain.bounds, "maxiter": 400, "popsize": 60}
    found = [differential_evolution(loss, seed=seed, **given) for seed in range(3)]
    start = min(found, key=lambda result: result.fun)
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    downhill = minimize(lambda x: float(loss(x)[0]), start.x, method="Nelder-Mead", options=options)
    return -min(float(start.fun), float(downhill.fun))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [*(each for each in NAMES if each not in LIMITED), *BOXES, *LIFTED_TEXTS]
)
def test_best_of_every_problem_matches_an_independent_search(text: str) -> None:
    problem: Any = make_problem(text + LOW.get(text, ""), [], 60)
    if hasattr(problem, "realise"):
        problem = problem.realise(3)
    scale = float(problem.value(problem.domain.sample(500, np.random.default_rng(0)), 1.0).std())
    for t in (1.0, 30.0, 60.0):
        best, found = problem.best(t), searched(problem, t)
        assert found <= best + 1e-6 * scale
        assert found == pytest.approx(best, abs=2e-2 * scale)


def test_searched_problems_cover_every_suite() -> None:
    played = (text for suite in SUITES.values() for text in suite.problems)
    assert {text.partition(":")[0] for text in played} <= set(NAMES)


# --- problems with limits, and what a comparison makes of them

WITH_LIMITS = [BumpAndWall(horizon=30), HeatPump(horizon=30), QuietNetwork(horizon=30)]


@pytest.mark.parametrize("problem", WITH_LIMITS, ids=lambda problem: problem.name)
def test_limited_problems_have_a_safe_start_and_a_best_point_within_limits(
    problem: LimitedProblem,
) -> None:
    (limit,), X = problem.limits, problem.domain.X
    forbids = 0
    for seed in range(5):
        drawn = problem.realise(seed)  # another one, but for the seed 0, which is that of `problem`
        assert (drawn.outcome_at(5) == problem.outcome_at(5)).all() == (seed == 0)
        for t in (1, 10, 30):
            outcome, rewards = drawn.outcomes(X, t)[limit.name], drawn.value(X, t)
            holds = outcome <= limit.at_most
            assert drawn.best(t) == max(r for r, ok in zip(rewards, holds, strict=True) if ok)
            forbids += rewards.max() > drawn.best(t)
            assert holds.mean() > 0.1
        assert (drawn.outcomes(drawn.safe, 1)[limit.name] <= limit.at_most).all()
    assert forbids > 0
    loud = QuietNetwork(places=6, seed=10)  # all six of them at step 14: nothing else is left
    assert loud.best(14) == loud.rewards_at(14).max()


def test_compare_applies_limits_and_counts_violations() -> None:
    table = compare(BumpAndWall(horizon=9), ["gp-ucb", "uniform"], seeds=2)
    rows = table.to_dict("records")
    assert summarise(table)["violations_per_step"].between(0.0, 1.0).all()
    broken = [row for row in rows if row["violations"] > 0]
    assert broken
    assert all(row["regret"] >= 0.0 for row in broken)
    drawn = BumpAndWall(horizon=9).realise(1)
    for row in rows:
        if row["seed"] == 1:
            there = drawn.outcomes(np.array([[row["x0"]]]), row["t"])["load"]
            assert row["violations"] == (there[0] > 0.0)
    starts = [row["x0"] for row in rows if row["policy"] == "gp-ucb" and row["t"] <= 6]
    assert set(starts) == set(drawn.safe[:, 0])


def test_compare_counts_no_violations_without_limits() -> None:
    rows = compare(DriftingBump(candidates=21, horizon=3), ["uniform"], seeds=1)
    assert "violations" not in rows
    assert "violations_per_step" not in summarise(rows)

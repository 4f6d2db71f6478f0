"""Test functions with time as the last coordinate: their printed minima, and an independent search."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import differential_evolution

from tvbandits import Problem
from tvbandits.cli.problems import make_problem
from tvbandits.datasets import Lifted
from tvbandits.datasets.lifted import FUNCTIONS, function_of

MINIMA = {
    "ackley4": ([0.0] * 4, 0.0, 1e-12),
    "branin": ([(np.pi + 5) / 15, 2.275 / 15], 0.397887, 1e-6),
    "eggholder": ([512.0, 404.2319], -959.6407, 1e-4),
    "griewank6": ([0.0] * 6, 0.0, 1e-12),
    "hartmann3": ([0.114614, 0.555649, 0.852547], -3.86278, 1e-5),
    "hartmann6": ([0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573], -3.32237, 1e-5),
    "levy4": ([1.0] * 4, 0.0, 1e-12),
    "powell4": ([0.0] * 4, 0.0, 1e-12),
    "rastrigin5": ([0.0] * 5, 0.0, 1e-12),
    "rosenbrock3": ([1.0] * 3, 0.0, 1e-12),
    "schwefel4": ([420.9687] * 4, 0.0, 1e-4),
    "shekel4": ([4.0] * 4, -10.536, 1e-3),
    "styblinski4": ([-2.903534] * 4, -39.16617 * 4, 1e-3),
}
"""Minimisers and minima as they are printed (Surjanovic and Bingham 2013), and to which digit."""


@pytest.mark.parametrize("name", MINIMA)
def test_a_function_has_its_printed_minimum(name: str) -> None:
    x, minimum, tolerance = MINIMA[name]
    formula = FUNCTIONS[name.rstrip("0123456789") if name not in FUNCTIONS else name].formula
    assert formula(np.array([x]))[0] == pytest.approx(minimum, abs=tolerance)


def test_every_function_is_among_them() -> None:
    names = {name if name in FUNCTIONS else name.rstrip("0123456789") for name in MINIMA}
    assert names == set(FUNCTIONS)


def test_values_of_the_functions_by_hand() -> None:
    Z = np.array([[1.0, 2.0, 3.0, 4.0]])
    expected = {
        "ackley": 20 + np.e - 20 * np.exp(-0.2 * np.sqrt(7.5)) - np.e,
        "powell": 21.0**2 + 5 + 256 + 810,
        "rastrigin": 40 + 30 - 40,
        "rosenbrock": 100 * ((2 - 1) ** 2 + (3 - 4) ** 2 + (4 - 9) ** 2) + 0 + 1 + 4,
        "styblinski": (354 - 16 * 30 + 5 * 10) / 2,
        "schwefel": 418.9828872724339 * 4 - sum(z * np.sin(z**0.5) for z in range(1, 5)),
        "shekel": -sum(
            1 / (((Z[0] - c) ** 2).sum() + w)
            for c, w in zip(
                [
                    [4, 4, 4, 4], [1, 1, 1, 1], [8, 8, 8, 8], [6, 6, 6, 6], [3, 7, 3, 7],
                    [2, 9, 2, 9], [5, 3, 5, 3], [8, 1, 8, 1], [6, 2, 6, 2], [7, 3.6, 7, 3.6],
                ],
                [0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5],
                strict=True,
            )
        ),
    }  # fmt: skip
    for name, value in expected.items():
        assert FUNCTIONS[name].formula(Z)[0] == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("name", MINIMA)
@pytest.mark.parametrize("t", [1, 101])
def test_the_best_is_what_an_independent_search_finds(name: str, t: int) -> None:
    problem = Lifted(name)
    least = min(
        float(
            differential_evolution(
                lambda x: -problem.value(x.T if x.ndim == 2 else x[None], t),
                problem.domain.bounds,
                vectorized=True,
                updating="deferred",
                maxiter=400,
                tol=1e-10,
                seed=seed,
                popsize=40,
            ).fun
        )
        for seed in range(2)
    )
    # It is a maximum over points, so that no search can end above it.
    assert -least <= problem.best(t) + 1e-6 * problem.deviation
    assert problem.best(t) == pytest.approx(-least, abs=0.02 * problem.deviation)


@pytest.mark.parametrize("name", MINIMA)
def test_it_keeps_to_the_protocol(name: str) -> None:
    problem = Lifted(name, horizon=5)
    assert isinstance(problem, Problem)
    X = problem.domain.sample(300, np.random.default_rng(0))
    for t in (1, 3, 5):
        values = problem.value(X, t)
        assert values.shape == (300,)
        assert values.max() <= problem.best(t) + 1e-9 * problem.deviation
    assert problem.variation > 0
    assert problem.noise_variance == pytest.approx(0.025 * problem.deviation**2)
    again = pickle.loads(pickle.dumps(problem))
    assert again == problem
    np.testing.assert_array_equal(again.value(X, 2), problem.value(X, 2))


def test_candidates_are_scattered_over_the_cube() -> None:
    cube, few = Lifted("schwefel4", horizon=9), Lifted("schwefel4", horizon=9, candidates=100)
    X = few.domain.sample(100, np.random.default_rng(0))
    assert len(np.unique(X, axis=0)) > 50
    assert X.min() < -450
    assert X.max() > 450
    assert len(few.domain) == 100  # type: ignore[arg-type]
    for t in (1, 5, 9):
        np.testing.assert_array_equal(few.value(X, t), cube.value(X, t))
        everywhere = few.value(few.domain.X, t)  # type: ignore[union-attr]
        assert few.best(t) == everywhere.max() <= cube.best(t)
    assert few.variation == cube.variation
    with pytest.raises(ValueError, match="candidates must be"):
        Lifted(candidates=-1)


def test_time_is_the_last_coordinate() -> None:
    problem = Lifted("schwefel4", horizon=11)
    formula = FUNCTIONS["schwefel"].formula
    X = np.array([[1.0, -2.0, 300.0]])
    for t, last in ((1, -500.0), (3.5, -250.0), (6, 0.0), (11, 500.0)):
        assert problem.value(X, t)[0] == -formula(np.append(X[0], last)[None])[0]
    with pytest.raises(ValueError, match=r"known for 1 <= t <= 11; got t = 12"):
        problem.value(X, 12)


@pytest.mark.parametrize("name", MINIMA)
def test_the_best_point_moves_where_it_is_said_to(name: str) -> None:
    problem = Lifted(name, horizon=41)
    d = problem.domain.dimension + 1
    known, _ = function_of(name)
    if problem.moves:
        return
    # The minimiser of a function that does not move is the same for every last coordinate.
    [x] = known.near(0.0, d)
    for t in range(1, 42):
        assert problem.best(t) == pytest.approx(problem.value(x[None], t)[0], abs=1e-6)


def test_the_deviation_is_that_over_the_cube() -> None:
    rng = np.random.default_rng(3)
    for name in ("rastrigin5", "hartmann3"):
        problem = Lifted(name)
        low, high = FUNCTIONS[name.replace("5", "")].bounds
        Z = rng.uniform(low, high, (200_000, problem.domain.dimension + 1))
        values = FUNCTIONS[name.replace("5", "")].formula(Z)
        assert problem.deviation == pytest.approx(values.std(), rel=0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hartman3", 'did you mean "hartmann3"'),
        ("hartmann35", 'got "hartmann35"'),
        ("ackley1", "at least 2 dimensions"),
        ("powell5", "4 dimensions, got 'powell5'"),
    ],
)
def test_an_unknown_function_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lifted(text)


def test_on_the_command_line() -> None:
    assert make_problem("lifted:hartmann3", [], None) == Lifted("hartmann3")
    assert make_problem("lifted:ackley4,horizon=120", [], 7) == Lifted("ackley4", horizon=120)
    assert make_problem("Lifted:function=levy3", [], 7) == Lifted("levy3", horizon=7)
    assert make_problem("lifted", [], None) == Lifted()
    with pytest.raises(ValueError, match='did you mean "ackley"'):
        make_problem("lifted:akley4", [], None)

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare, kstest

from tvbandits.core.box import Box, as_bounds
from tvbandits.core.candidates import Candidates

Surface = Callable[[np.ndarray], np.ndarray]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


SQUARE = Candidates([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


# --- candidates ----------------------------------------------------------------------------------


def test_candidates_keep_a_read_only_copy() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    candidates = Candidates(X)
    X[:] = 0.0
    np.testing.assert_array_equal(candidates.X, [[1.0, 2.0], [3.0, 4.0]])
    assert (len(candidates), candidates.dimension) == (2, 2)
    with pytest.raises(ValueError, match="read-only"):
        candidates.X[0] = 1.0
    found, _ = candidates.maximise(lambda Z: Z[:, 0], generator())
    found[:] = 9.0
    np.testing.assert_array_equal(candidates.X, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 3)), r"must have a row and a column, got shape \(0, 3\)"),
        ([1.0, 2.0], r"candidates must have shape \(n, d\), got \(2,\)"),
        ([[1.0], [np.nan]], r"candidates must be finite, got \[nan\] in row 1"),
        ([[1, 2], [3, 4], [5, 6], [3, 4]], r"row 3 repeats row 1: \[3.0, 4.0\]"),
        ([[0.0], [-0.0]], "row 1 repeats row 0"),
    ],
)
def test_candidates_refuse(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Candidates(X)


def test_grid_runs_through_every_point() -> None:
    grid = Candidates.grid([(0, 1), (-2, 2)], [2, 3])
    expected = [[0, -2], [0, 0], [0, 2], [1, -2], [1, 0], [1, 2]]
    np.testing.assert_array_equal(grid.X, expected)
    assert len(Candidates.grid([(0, 1)] * 3, 4)) == 64
    with pytest.raises(ValueError, match=r"points_per_axis must be a whole number .*, got 0"):
        Candidates.grid([(0, 1)], 0)
    with pytest.raises(ValueError, match=r"points_per_axis must be a whole number .*, got 2\.5"):
        Candidates.grid([(0, 1)], 2.5)  # type: ignore[arg-type]


@given(
    st.integers(1, 40),
    st.integers(1, 4),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.sampled_from([0.0, 1e3]),
    st.integers(0, 10**6),
)
def test_index_finds_every_candidate_in_spite_of_rounding(
    n: int, d: int, scale: float, offset: float, seed: int
) -> None:
    rng = generator(seed)
    candidates = Candidates(offset + scale * rng.standard_normal((n, d)))
    rows = rng.integers(n, size=20)
    rounded = candidates.X[rows] * (1 + 1e-15 * rng.uniform(-1, 1, (20, d)))
    np.testing.assert_array_equal(candidates.index(rounded), rows)
    np.testing.assert_array_equal(candidates.check(rounded), candidates.X[rows])


def test_index_weighs_each_coordinate_by_its_own_extent() -> None:
    candidates = Candidates([[0.0, 0.0], [1e6, 1e-6], [1e6, 2e-6]])
    np.testing.assert_array_equal(candidates.index([[1e6, 2e-6], [1e6 + 1e-4, 1e-6]]), [2, 1])
    with pytest.raises(ValueError, match="in row 0 is none"):
        candidates.index([[1e6, 1.1e-6]])


def test_points_that_are_no_candidates_are_named() -> None:
    with pytest.raises(
        ValueError,
        match=r"asked must be candidates, but \[0.9, 0.2\] in row 1 is none; "
        r"the nearest candidate is \[1.0, 0.0\]",
    ):
        SQUARE.check([[0.0, 1.0], [0.9, 0.2], [7.0, 7.0]], name="asked")
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\), got \(1, 3\)"):
        SQUARE.check([[0.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="X must be finite"):
        SQUARE.check([[0.0, np.inf]])
    assert SQUARE.check(np.empty((0, 2))).shape == (0, 2)
    assert Candidates([[0.0]]).index([[0.0]]).tolist() == [0]
    np.testing.assert_array_equal(SQUARE.check([1.0, 0.0]), [[1.0, 0.0]])


def test_candidates_compare_by_value_and_pickle() -> None:
    SQUARE.index([[0.0, 0.0]])  # builds the search tree, which does not travel
    copy = pickle.loads(pickle.dumps(SQUARE))
    assert copy == SQUARE
    assert hash(copy) == hash(SQUARE)
    assert not copy.X.flags.writeable
    assert copy.index([[1.0, 1.0]]).tolist() == [3]
    assert Candidates([[-0.0], [1.0]]) == Candidates([[0.0], [1.0]])
    assert hash(Candidates([[-0.0]])) == hash(Candidates([[0.0]]))
    assert Candidates(SQUARE.X[::-1]) != SQUARE
    assert SQUARE.X.tolist() != SQUARE


def test_exact_ties_are_broken_uniformly() -> None:
    candidates, rng = Candidates(np.arange(10.0)[:, None]), generator(3)
    values = np.where(np.arange(10) % 2, 1.0, 0.0)
    counts = np.zeros(10)
    for _ in range(1000):
        counts[candidates.best_of(values, rng)] += 1
        x, _ = candidates.maximise(lambda X: values[X[:, 0].astype(int)], rng)
        counts[int(x[0])] += 1
    assert counts[::2].sum() == 0
    assert chisquare(counts[1::2]).pvalue > 0.01


def test_best_of_checks_its_values() -> None:
    assert SQUARE.best_of([0.0, -np.inf, np.inf, 3.0], generator()) == 2
    assert SQUARE.best_of([-np.inf] * 4, generator()) in range(4)
    with pytest.raises(ValueError, match=r"must have shape \(4,\), got \(3,\)"):
        SQUARE.best_of([0.0, 1.0, 2.0], generator())
    with pytest.raises(ValueError, match=r"acquisition is NaN at the point \[1.0, 0.0\] \(row 2\)"):
        SQUARE.maximise(lambda X: np.where(X[:, 0] > X[:, 1], np.nan, 0.0), generator())


def test_candidates_are_sampled_uniformly() -> None:
    drawn = SQUARE.index(SQUARE.sample(4000, generator(1)))
    assert chisquare(np.bincount(drawn, minlength=4)).pvalue > 0.01
    assert SQUARE.sample(0, generator()).shape == (0, 2)


# --- box -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0, 1.0], [2.0, 2.0]],), r"low < high, got \[2.0, 2.0\] in row 1"),
        (([[0.0, np.inf]],), r"bounds must be finite, got \[0.0, inf\] in row 0"),
        (([[0.0, 1.0, 2.0]],), r"bounds must have shape \(n, 2\), got \(1, 3\)"),
        ((np.empty((0, 2)),), r"at least one row, got shape \(0, 2\)"),
        (([[0.0, 1.0]], 0), "samples must be a whole number of at least 1, got 0"),
        (([[0.0, 1.0]], None, -1), "starts must be a whole number of at least 1, got -1"),
    ],
)
def test_box_refuses(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Box(*arguments)


def test_box_checks_points_and_moves_rounding_inside() -> None:
    box = Box([(0.0, 1.0), (-1e6, 1e6)])
    inside = box.check([[1.0 + 1e-10, -1e6 - 1e-4], [0.5, 0.0]])
    np.testing.assert_array_equal(inside, [[1.0, -1e6], [0.5, 0.0]])
    with pytest.raises(ValueError, match=r"asked must be inside .* got \[1.1, 0.0\] in row 1"):
        box.check([[0.5, 0.0], [1.1, 0.0], [2.0, 0.0]], name="asked")
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\), got \(1, 1\)"):
        box.check([[0.5]])


def test_box_compares_by_value_and_pickles() -> None:
    box = Box([(0, 1), (0, 2)], samples=64, starts=3)
    copy = pickle.loads(pickle.dumps(box))
    assert copy == box
    assert hash(copy) == hash(box)
    assert box != Box([(0, 1), (0, 2)])
    assert box != Box([(0, 1), (0, 3)], samples=64, starts=3)
    assert box != "box"
    with pytest.raises(ValueError, match="read-only"):
        box.bounds[0] = 2.0
    assert as_bounds((0, 1)).shape == (1, 2)


def test_box_is_sampled_uniformly() -> None:
    X = Box([(2.0, 4.0), (-1.0, 0.0)]).sample(2000, generator(1))
    assert kstest(X[:, 0], "uniform", (2.0, 2.0)).pvalue > 0.01
    assert kstest(X[:, 1], "uniform", (-1.0, 1.0)).pvalue > 0.01


def branin(X: np.ndarray) -> np.ndarray:
    x, y = X.T
    bowl = y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6
    return -(bowl**2) - 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) - 10


def hartmann(A: Any, P: Any) -> Surface:
    weights, A, P = np.array([1, 1.2, 3, 3.2]), np.array(A), 1e-4 * np.array(P)
    return lambda X: np.exp(-(A * (X[:, None] - P) ** 2).sum(axis=-1)) @ weights


HARTMANN_3 = hartmann(
    [[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]],
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]],
)
HARTMANN_6 = hartmann(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ],
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ],
)


def ackley(X: np.ndarray) -> np.ndarray:
    Z = X - 1.85
    ripples = np.exp(np.cos(2 * np.pi * Z).mean(axis=1))
    return np.asarray(20 * np.exp(-0.2 * np.sqrt((Z**2).mean(axis=1))) + ripples - 20 - np.e)


def bump(width: float) -> Surface:
    return lambda X: np.exp(-((X - 0.61) ** 2).sum(axis=1) / (2 * width**2))


def upper_confidence(d: int, length_scale: float, seed: int) -> Surface:
    """UCB of a Gaussian-process posterior given 40 random observations on the unit cube."""
    rng = generator(seed)
    X, y = rng.random((40, d)), rng.standard_normal(40)

    def kernel(Z: np.ndarray) -> np.ndarray:
        squared = ((Z[:, None] - X) ** 2).sum(axis=-1)
        return np.asarray(np.exp(-0.5 * squared / length_scale**2))

    inverse = np.linalg.inv(kernel(X) + 0.01 * np.eye(40))

    def ucb(Z: np.ndarray) -> np.ndarray:
        k = kernel(Z)
        variance = 1.0 - np.einsum("ij,jk,ik->i", k, inverse, k, optimize=True)
        return np.asarray(k @ inverse @ y + 2.0 * np.sqrt(np.maximum(variance, 1e-12)))

    return ucb


class Counted:
    """An acquisition that counts what it is asked."""

    def __init__(self, surface: Surface) -> None:
        self.surface, self.evaluations, self.calls = surface, 0, 0

    def __call__(self, X: np.ndarray) -> np.ndarray:
        assert len(X) > 0  # nobody is asked about nothing
        self.evaluations += len(X)
        self.calls += 1
        return self.surface(X)


def check_maximum(box: Box, surface: Surface, best: float, spread: float, seed: int) -> None:
    acquisition = Counted(surface)
    x, value = box.maximise(acquisition, generator(seed))
    assert x.shape == (box.dimension,)
    np.testing.assert_array_equal(box.check(x), x[None, :])
    assert value == pytest.approx(float(surface(x[None, :])[0]), rel=1e-9, abs=1e-9)
    assert value >= best - 1e-3 * spread
    assert acquisition.evaluations <= (20_000 if box.dimension <= 3 else 60_000)
    assert acquisition.calls <= 250


KNOWN: dict[str, tuple[Any, Surface, float, float]] = {
    "branin": ([(-5, 10), (0, 15)], branin, -0.397887, 300.0),
    "hartmann-3": ([(0, 1)] * 3, HARTMANN_3, 3.86278, 3.86),
    "hartmann-6": ([(0, 1)] * 6, HARTMANN_6, 3.32237, 3.32),
}
for dimension, width in enumerate([0.005, 0.01, 0.03, 0.06, 0.1, 0.15], start=1):
    KNOWN[f"bump in {dimension}"] = ([(0, 1)] * dimension, bump(width), 1.0, 1.0)
    KNOWN[f"ackley in {dimension}"] = ([(-5, 5)] * dimension, ackley, 0.0, 14.0)
    KNOWN[f"corner in {dimension}"] = (
        [(-3, 2)] * dimension,
        lambda X: X.sum(axis=1) - 0.1 * (X**2).sum(axis=1),
        1.6 * dimension,
        5.5 * dimension,
    )


@pytest.mark.parametrize("name", KNOWN)
def test_box_finds_known_maxima(name: str) -> None:
    bounds, surface, best, spread = KNOWN[name]
    check_maximum(Box(bounds), surface, best, spread, seed=0)


@pytest.mark.parametrize("d", [1, 3, 6])
@pytest.mark.parametrize("length_scale", [0.05, 0.2, 2.0])
def test_box_is_as_good_as_a_dense_grid(d: int, length_scale: float) -> None:
    surface = upper_confidence(d, length_scale, seed=d)
    per_axis = (10_001, 151, 31, 13, 7, 5)[d - 1]
    grid = Candidates.grid([(0, 1)] * d, per_axis)
    values = np.concatenate([surface(X) for X in np.array_split(grid.X, 20)])
    check_maximum(Box([(0, 1)] * d), surface, values.max(), np.ptp(values), seed=1)


def test_a_plateau_gives_a_uniform_point() -> None:
    box, rng = Box([(2.0, 4.0), (0.0, 1.0)]), generator(5)
    flat = Counted(lambda X: np.full(len(X), 1.5))
    found = [box.maximise(flat, rng) for _ in range(400)]
    X = np.array([x for x, _ in found])
    assert {value for _, value in found} == {1.5}
    assert kstest(X[:, 0], "uniform", (2.0, 2.0)).pvalue > 0.01
    assert kstest(X[:, 1], "uniform").pvalue > 0.01
    assert flat.calls == 400


def test_box_lives_with_infinite_values_and_refuses_nan() -> None:
    box = Box([(0.0, 1.0), (0.0, 1.0)])

    def forbidden(X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] > 0.5, -np.inf, X.sum(axis=1))

    x, value = box.maximise(forbidden, generator())
    assert value > 1.5 - 1e-3
    assert x[0] <= 0.5
    assert box.maximise(lambda X: np.full(len(X), -np.inf), generator())[1] == -np.inf
    x, value = box.maximise(lambda X: np.where(X[:, 1] < 0.2, np.inf, 0.0), generator())
    assert value == np.inf
    assert x[1] < 0.2
    with pytest.raises(ValueError, match="acquisition is NaN at the point"):
        box.maximise(lambda X: np.where(X[:, 0] == 1.0, np.nan, X[:, 0]), generator())
    with pytest.raises(ValueError, match=r"must have shape \(1024,\), got \(1024, 2\)"):
        box.maximise(lambda X: X, generator())


@given(
    st.integers(1, 3), st.floats(-1e3, 1e3), st.floats(1e-3, 1e6), st.floats(1e-6, 1e6), st.data()
)
def test_box_is_indifferent_to_units(
    d: int, low: float, width: float, height: float, data: st.DataObject
) -> None:
    top = np.array([data.draw(st.floats(0.0, 1.0)) for _ in range(d)])
    box = Box([(low, low + width)] * d, samples=64, starts=4)
    x, value = box.maximise(
        lambda X: -height * (((X - low) / width - top) ** 2).sum(axis=1), generator()
    )
    assert value >= -1e-5 * height
    np.testing.assert_allclose((x - low) / width, top, atol=5e-3)

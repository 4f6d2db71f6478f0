import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chisquare, kstest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests.helpers.refusals import assert_refused
from tvbandits import Box, Candidates, Dataset, policies
from tvbandits.data import Source
from tvbandits.domains.parameters import as_bounds
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.text import as_text
from tvbandits.ties import acquisition_argmax
from tvbandits.validation import as_list, check_text, file_path

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
    found, _ = candidates.maximize(lambda Z: Z[:, 0], generator())
    found[:] = 9.0
    np.testing.assert_array_equal(candidates.X, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 3)), r"candidates must .*\(0, 3\)"),
        ([1.0, 2.0], r"candidates must .*\(2,\)"),
        ([[1.0], [np.nan]], r"candidates must .*\[nan\] in row 1"),
        ([[1, 2], [3, 4], [5, 6], [3, 4]], r"row 3 repeats row 1: \[3.0, 4.0\]"),
        ([[0.0], [-0.0]], "row 1 repeats row 0"),
    ],
)
def test_candidates_refuse_invalid_points(X: Any, message: str) -> None:
    assert_refused(ValueError, message, Candidates, X)


@pytest.mark.parametrize("rows", [0, "", b"", {}])
def test_candidates_refuse_context_and_retired_without_a_sequence(rows: Any) -> None:
    X = [[0.0, 1.0], [1.0, 1.0]]
    assert_refused(ValueError, "retired must", Candidates, X, retired=rows)
    assert_refused(ValueError, "context must", Candidates, X, context=rows)


def test_candidates_grid_contains_every_point() -> None:
    grid = Candidates.grid([(0, 1), (-2, 2)], [2, 3])
    np.testing.assert_array_equal(grid.X, [[0, -2], [0, 0], [0, 2], [1, -2], [1, 0], [1, 2]])
    assert len(Candidates.grid([(0, 1)] * 3, 4)) == 64


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
    assert_refused(ValueError, "in row 0 is none", candidates.index, [[1e6, 1.1e-6]])


def test_candidates_check_names_a_point_that_is_no_candidate() -> None:
    with pytest.raises(
        ValueError,
        match=r"asked must be candidates, but \[0.9, 0.2\] in row 1 is none; "
        r"the nearest candidate is \[1.0, 0.0\]",
    ):
        SQUARE.check([[0.0, 1.0], [0.9, 0.2], [7.0, 7.0]], name="asked")
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\), got \(1, 3\)"):
        SQUARE.check([[0.0, 0.0, 0.0]])
    assert_refused(ValueError, "X must be finite", SQUARE.check, [[0.0, np.inf]])
    assert SQUARE.check(np.empty((0, 2))).shape == (0, 2)
    assert Candidates([[0.0]]).index([[0.0]]).tolist() == [0]
    np.testing.assert_array_equal(SQUARE.check([1.0, 0.0]), [[1.0, 0.0]])


def test_candidates_find_their_points_after_pickling() -> None:
    SQUARE.index([[0.0, 0.0]])  # builds the search tree, which does not travel
    copy = pickle.loads(pickle.dumps(SQUARE))
    assert not copy.X.flags.writeable
    assert copy.index([[1.0, 1.0]]).tolist() == [3]
    assert hash(Candidates([[-0.0]])) == hash(Candidates([[0.0]]))


def test_candidates_break_exact_ties_uniformly() -> None:
    candidates, rng = Candidates(np.arange(10.0)[:, None]), generator(3)
    values = np.where(np.arange(10) % 2, 1.0, 0.0)
    counts = np.zeros(10)
    for _ in range(1000):
        counts[acquisition_argmax(values, candidates.X, rng)] += 1
        x, _ = candidates.maximize(lambda X: values[X[:, 0].astype(int)], rng)
        counts[int(x[0])] += 1
    assert counts[::2].sum() == 0
    assert chisquare(counts[1::2]).pvalue > 0.01


def test_acquisition_argmax_accepts_infinite_scores_and_refuses_nan() -> None:
    assert acquisition_argmax([0.0, -np.inf, np.inf, 3.0], SQUARE.X, generator()) == 2
    assert acquisition_argmax([-np.inf] * 4, SQUARE.X, generator()) in range(4)
    with pytest.raises(ValueError, match=r"must have shape \(4,\), got \(3,\)"):
        acquisition_argmax([0.0, 1.0, 2.0], SQUARE.X, generator())
    with pytest.raises(ValueError, match=r"acquisition is NaN at the point \[1.0, 0.0\] \(row 2\)"):
        SQUARE.maximize(lambda X: np.where(X[:, 0] > X[:, 1], np.nan, 0.0), generator())


def test_candidates_sample_uniformly() -> None:
    drawn = SQUARE.index(SQUARE.sample(4000, generator(1)))
    assert chisquare(np.bincount(drawn, minlength=4)).pvalue > 0.01
    assert SQUARE.sample(0, generator()).shape == (0, 2)


# --- box -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([[0.0, 1.0], [2.0, 2.0]], r"\[2\.0, 2\.0\] in row 1"),
        ([[0.0, np.inf]], r"bounds must .*\[0.0, inf\] in row 0"),
        ([[0.0, 1.0, 2.0]], r"bounds must .*\(1, 3\)"),
        (np.empty((0, 2)), r"bounds must .*\(0, 2\)"),
    ],
)
def test_box_refuses_invalid_bounds(bounds: Any, message: str) -> None:
    assert_refused(ValueError, message, Box, bounds)


def test_box_checks_points_and_moves_rounding_inside() -> None:
    box = Box([(0.0, 1.0), (-1e6, 1e6)])
    inside = box.check([[1.0 + 1e-10, -1e6 - 1e-4], [0.5, 0.0]])
    np.testing.assert_array_equal(inside, [[1.0, -1e6], [0.5, 0.0]])
    with pytest.raises(ValueError, match=r"asked must be inside .* got \[1.1, 0.0\] in row 1"):
        box.check([[0.5, 0.0], [1.1, 0.0], [2.0, 0.0]], name="asked")
    assert_refused(ValueError, r"X must have shape \(n, 2\), got \(1, 1\)", box.check, [[0.5]])


def test_candidates_and_box_refuse_a_flat_array_of_several_points() -> None:
    assert_refused(
        ValueError, r"got \(3,\): give a column, as np.reshape", Candidates, [1.0, 2.0, 3.0]
    )
    assert_refused(ValueError, r"got \(2,\): give a column", Box([(0, 3)]).check, [1.0, 2.0])


@pytest.mark.parametrize("domain", [SQUARE, Box([(0, 1), (0, 1)])])
def test_domains_refuse_a_frame_with_columns_in_another_order(domain: Any) -> None:
    frame = pd.DataFrame({"x1": [1.0], "x0": [0.0]})
    assert_refused(
        ValueError, r"columns of X must .*\['x0', 'x1'\], got \['x1', 'x0'\]", domain.check, frame
    )
    np.testing.assert_array_equal(domain.check(frame[["x0", "x1"]]), [[0.0, 1.0]])


def test_box_has_read_only_bounds_and_shows_them_in_its_repr() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Box([(0, 1), (0, 2)]).bounds[0] = 2.0
    assert as_bounds((0, 1)).shape == (1, 2)
    assert repr(Box([(0, 1), (2, 3)])) == "Box([[0.0, 1.0], [2.0, 3.0]])"  # in one line
    box = Box([(0, 1)], context={"outside": (-15, 20)})
    assert eval(repr(box), {"Box": Box}) == box


def test_box_samples_uniformly() -> None:
    X = Box([(2.0, 4.0), (-1.0, 0.0)]).sample(2000, generator(1))
    assert kstest(X[:, 0], "uniform", (2.0, 2.0)).pvalue > 0.01
    assert kstest(X[:, 1], "uniform", (-1.0, 1.0)).pvalue > 0.01


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
        return np.asarray(np.exp(-0.5 * ((Z[:, None] - X) ** 2).sum(axis=-1) / length_scale**2))

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
    x, value = box.maximize(acquisition, generator(seed))
    assert x.shape == (box.dimension,)
    np.testing.assert_array_equal(box.check(x), x[None, :])
    assert value == pytest.approx(float(surface(x[None, :])[0]), rel=1e-9, abs=1e-9)
    assert value >= best - 1e-3 * spread
    assert acquisition.evaluations <= (20_000 if box.dimension <= 3 else 60_000)
    assert acquisition.calls <= 250


KNOWN: dict[str, tuple[Any, Surface, float, float]] = {}
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
def test_box_maximize_finds_maxima_of_simple_functions(name: str) -> None:
    bounds, surface, best, spread = KNOWN[name]
    check_maximum(Box(bounds), surface, best, spread, seed=0)


@pytest.mark.parametrize("d", [1, 3, 6])
@pytest.mark.parametrize("length_scale", [0.05, 0.2, 2.0])
def test_box_maximize_finds_the_maximum_of_a_dense_grid(d: int, length_scale: float) -> None:
    surface = upper_confidence(d, length_scale, seed=d)
    grid = Candidates.grid([(0, 1)] * d, (10_001, 151, 31, 13, 7, 5)[d - 1])
    values = np.concatenate([surface(X) for X in np.array_split(grid.X, 20)])
    check_maximum(Box([(0, 1)] * d), surface, values.max(), np.ptp(values), seed=1)


def test_box_maximize_draws_a_uniform_point_on_a_plateau() -> None:
    box, rng = Box([(2.0, 4.0), (0.0, 1.0)]), generator(5)
    flat = Counted(lambda X: np.full(len(X), 1.5))
    found = [box.maximize(flat, rng) for _ in range(400)]
    X = np.array([x for x, _ in found])
    assert {value for _, value in found} == {1.5}
    assert kstest(X[:, 0], "uniform", (2.0, 2.0)).pvalue > 0.01
    assert kstest(X[:, 1], "uniform").pvalue > 0.01
    assert flat.calls == 400


def test_box_maximize_accepts_infinite_values_and_refuses_nan() -> None:
    box = Box([(0.0, 1.0), (0.0, 1.0)])

    def forbidden(X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] > 0.5, -np.inf, X.sum(axis=1))

    x, value = box.maximize(forbidden, generator())
    assert value > 1.5 - 1e-3
    assert x[0] <= 0.5
    assert box.maximize(lambda X: np.full(len(X), -np.inf), generator())[1] == -np.inf
    x, value = box.maximize(lambda X: np.where(X[:, 1] < 0.2, np.inf, 0.0), generator())
    assert value == np.inf
    assert x[1] < 0.2
    with pytest.raises(ValueError, match="acquisition is NaN at the point"):
        box.maximize(lambda X: np.where(X[:, 0] == 1.0, np.nan, X[:, 0]), generator())
    with pytest.raises(ValueError, match=r"must have shape \(1024,\), got \(1024, 2\)"):
        box.maximize(lambda X: X, generator())


@settings(deadline=None)
@given(
    st.integers(1, 3), st.floats(-1e3, 1e3), st.floats(1e-3, 1e6), st.floats(1e-6, 1e6), st.data()
)
def test_box_maximize_is_independent_of_units(
    d: int, low: float, width: float, height: float, data: st.DataObject
) -> None:
    top = np.array([data.draw(st.floats(0.0, 1.0)) for _ in range(d)])
    box = Box([(low, low + width)] * d)
    x, value = box.maximize(
        lambda X: -height * (((X - low) / width - top) ** 2).sum(axis=1), generator()
    )
    assert value >= -1e-5 * height
    np.testing.assert_allclose((x - low) / width, top, atol=5e-3)


# --- observations

COLUMNS = ("X", "t", "y", "variance", "source")


def some(n: int, d: int = 2, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    return Dataset(
        rng.standard_normal((n, d)),
        rng.standard_normal(n),
        rng.standard_normal(n),
        rng.random(n) + 0.1,
        rng.integers(0, 2, n),
    )


def test_dataset_columns_are_read_only_copies_of_the_right_type() -> None:
    X, t = np.ones((2, 3)), np.array([1.0, 2.0])
    made = Dataset(X, t, [1, 2], 0.5)  # type: ignore[arg-type]
    X[0, 0] = t[0] = 99.0
    assert made.X[0, 0] == 1.0
    assert made.t[0] == 1.0
    assert made.variance.tolist() == [0.5, 0.5]
    assert made.source.tolist() == [Source.REWARD, Source.REWARD]
    assert (len(made), made.dimension) == (2, 3)
    assert X.flags.writeable
    assert [getattr(made, name).dtype for name in COLUMNS] == [np.float64] * 4 + [np.uint8]
    for name in COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(made, name)[0] = 1
    with pytest.raises(AttributeError, match="cannot assign"):
        made.X = X  # type: ignore[misc]


def test_dataset_append_and_take_match_plain_indexing() -> None:
    a, b = some(4, seed=1), some(3, seed=2)
    both = a.append(b)
    for name in COLUMNS:
        expected = np.concatenate([getattr(a, name), getattr(b, name)])
        assert np.array_equal(getattr(both, name), expected)
        for rows in (np.array([6, 0, 0]), np.arange(7) % 2 == 0, slice(2, 5), np.array([], int)):
            taken = getattr(both.take(rows), name)
            assert np.array_equal(taken, expected[rows])
            assert not taken.flags.writeable
    assert_refused(ValueError, "points must have 2 coordinates, got 3", a.append, some(1, d=3))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 6), st.integers(1, 3), st.integers(0, 1000))
def test_keyed_normal_depends_only_on_its_key(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, t = rng.standard_normal((n, d)), float(rng.standard_normal())
    noise = keyed_normal(seed, 1, X, t)
    assert noise.shape == (n,)
    order = rng.permutation(n)
    assert np.array_equal(keyed_normal(seed, 1, np.asfortranarray(X[order]), t), noise[order])
    for i in range(n):
        for other in (
            keyed_normal(seed + 1, 1, X[i : i + 1], t),
            keyed_normal(seed, 2, X[i : i + 1], t),
            keyed_normal(seed, 1, X[i : i + 1], np.nextafter(t, np.inf)),
            keyed_normal(seed, 1, np.nextafter(X[i : i + 1], np.inf), t),
        ):
            assert other[0] != noise[i]


def test_keyed_normal_is_standard_normal() -> None:
    noise = keyed_normal(3, 1, np.arange(4000.0)[:, None], 2.0)
    assert abs(noise.mean()) < 4 / np.sqrt(4000)
    assert abs(noise.var() - 1.0) < 4 * np.sqrt(2 / 4000)
    assert abs((noise > 1.96).mean() - 0.025) < 4 * np.sqrt(0.025 / 4000)
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / np.sqrt(4000)


def test_dataset_append_shares_storage_and_changes_no_earlier_dataset() -> None:
    grown, seen = Dataset(np.zeros((3, 2)), np.arange(3.0), np.arange(3.0), np.ones(3)), []
    for i in range(300):
        fresh = Dataset(np.full((1, 2), i), np.array([i]), np.array([i]), np.ones(1))
        grown = grown.append(fresh)
        seen.append(grown)
    for i, each in enumerate(seen):
        assert len(each) == 4 + i
        np.testing.assert_array_equal(each.y[3:], np.arange(i + 1.0))
        assert not any(column.flags.writeable for column in (each.X, each.t, each.y))
    storages = {id(each.y.base) for each in seen}
    assert len(storages) < 12  # not one for each


def test_dataset_append_keeps_two_branches_apart() -> None:
    def one(value: float) -> Dataset:
        return Dataset(np.zeros((1, 1)), np.zeros(1), np.array([value]), np.ones(1))

    start = one(0.0).append(one(1.0))
    left, right = start.append(one(2.0)), start.append(one(3.0))
    assert left.y.tolist() == [0.0, 1.0, 2.0]
    assert right.y.tolist() == [0.0, 1.0, 3.0]
    assert left.begins_with(start)
    assert not right.begins_with(left)
    assert not start.begins_with(left)
    assert start.begins_with(start)


# --- what is no number: texts, choices, sequences, paths and parts, each refused by its name

LINE = Candidates(np.linspace(0.0, 1.0, 5)[:, None])


@pytest.mark.parametrize("bad", [None, 3, b"a", "a\x1b[31m", "a\0", "\ud800", np.str_("a\n")])
def test_check_text_refuses_what_cannot_be_printed(bad: Any) -> None:
    assert_refused(ValueError, "name must be a text", check_text, "name", bad)
    assert check_text("name", "ozone (µg/m³)") == "ozone (µg/m³)"


@pytest.mark.parametrize(
    "bad", ["ab", b"ab", {"a": 1}, {1}, 3, None, np.array(1.0), pd.DataFrame()]
)
def test_as_list_refuses_all_but_sequences(bad: Any) -> None:
    assert_refused(ValueError, "ids must be names, got", as_list, "ids", bad, "names")
    assert as_list("ids", ("a", "b"), "names") == ["a", "b"]


@pytest.mark.parametrize("bad", [None, 3, b"a.csv", "", "  ", "a\0b", "a\x1b[31m.csv", ["a.csv"]])
def test_file_path_refuses_invalid_paths_and_addresses(bad: Any) -> None:
    assert_refused(ValueError, "file must be the path of a file, got", file_path, "file", bad)
    assert_refused(ValueError, "at most 255 bytes", file_path, "file", "9" * 256)
    assert file_path("file", "a.csv") == Path("a.csv")
    for address in ("file:///etc/passwd", "s3://bucket/a.csv", "http://host/a.csv"):
        with pytest.raises(ValueError, match=rf"file must be the path of a file, not .*{address}"):
            file_path("file", address)
    assert file_path("file", "a:b//c") == Path("a:b/c")


# --- recipes speak of their own parameters --------------------------------------------------------


def test_recipe_refuses_an_unknown_option_by_its_name() -> None:
    options = {"kernel": RBF(1.0), "noise_variance": 0.01, "windw": 5}
    assert_refused(TypeError, "sw_gp_ucb.*'windw'", policies.sw_gp_ucb, LINE, **options)


@pytest.mark.parametrize("constant", [1e101, 1e300, 1e-76, 1e-300])
def test_gp_ucb_refuses_a_kernel_with_extreme_variance(constant: float) -> None:
    with pytest.raises(ValueError, match="1e-75 to 1e"):
        policies.gp_ucb(LINE, kernel=ConstantKernel(constant) * RBF(1.0), noise_variance=0.01)


# --- one line


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


def test_as_text_omits_the_last_rows_of_a_long_text() -> None:
    said = as_text("State", [("a", "x" * 90), ("b", "y" * 90), ("c", "z" * 90)])
    assert said == f"<State: a {'x' * 90}, b {'y' * 90}, ...>"


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS | st.floats()), max_size=5))
def test_as_text_returns_one_short_line(title: str, rows: list[tuple[str, object]]) -> None:
    said = as_text(title, rows)
    assert len(said) <= 200
    assert len(said.splitlines()) <= 1
    assert said.startswith("<")
    assert said.endswith(">")

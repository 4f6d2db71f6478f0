"""Spaces with names: translation there and back, checks, search against brute force, kernels."""

import pickle
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, chisquare, kstest, poisson
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.refusals import assert_refused
from tvbandits import Arms, Box, Candidates, Integer, Space, count, policies, rate
from tvbandits.domains.parameters import Category, Real
from tvbandits.domains.space import Table
from tvbandits.domains.space_kernel import PerParameter
from tvbandits.gp.kernel_matrix import check_kernel
from tvbandits.validation import Array

OVEN = Space(temperature=(10, 80), count=Integer(1, 5), mode=["a", "b", "c"])
DICE = Space(left=Integer(1, 6), right=Integer(1, 6), colour=["red", "blue"])
GOOD: dict[str, Any] = {"temperature": 20.5, "count": 3, "mode": "b"}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- inside and outside ---------------------------------------------------------------------------


def test_space_encodes_a_point_as_columns() -> None:
    np.testing.assert_array_equal(OVEN.encode(GOOD), [[20.5, 3.0, 0.0, 1.0, 0.0]])
    assert OVEN.dimension == 5
    assert OVEN.columns == {"temperature": slice(0, 1), "count": slice(1, 2), "mode": slice(2, 5)}


@pytest.mark.parametrize(
    "given_as",
    [
        GOOD,
        [GOOD],
        (GOOD,),
        pd.DataFrame([GOOD]),
        pd.DataFrame([GOOD])[["mode", "count", "temperature"]],
        pd.DataFrame([GOOD]).astype({"mode": "category", "count": "float32"}),
        {"temperature": np.float64(20.5), "count": np.int8(3), "mode": np.str_("b")},
        [20.5, 3.0, 0.0, 1.0, 0.0],
        np.array([[20.5, 3.0, 0.0, 1.0, 0.0]]),
    ],
)
def test_space_check_accepts_every_form_of_a_point(given_as: Any) -> None:
    np.testing.assert_array_equal(OVEN.check(given_as), OVEN.encode(GOOD))


PARAMETERS = st.one_of(
    st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda p: Real(p[0], p[0] + p[1])),
    st.tuples(st.integers(-1000, 1000), st.integers(1, 500)).map(
        lambda p: Integer(p[0], p[0] + p[1])
    ),
    st.lists(st.text(max_size=4), min_size=2, max_size=5, unique=True).map(
        lambda levels: Category(tuple(levels))
    ),
)
SPACES = st.lists(PARAMETERS, min_size=1, max_size=4).map(
    lambda parts: Space(**{f"p{i}": part for i, part in enumerate(parts)})
)


@settings(deadline=None)
@given(SPACES, st.integers(0, 2**32 - 1))
def test_space_encode_inverts_decode(space: Space, seed: int) -> None:
    X = space.sample(20, generator(seed))
    assert X.shape == (20, space.dimension)
    np.testing.assert_array_equal(space.check(X), X)
    frame = space.decode(X)
    np.testing.assert_array_equal(space.encode(frame), X)
    np.testing.assert_array_equal(space.encode(frame.to_dict("records")), X)
    pd.testing.assert_frame_equal(space.decode(space.encode(frame)), frame)
    assert pickle.loads(pickle.dumps(space)) == space
    assert eval(repr(space), {"Space": Space, "Integer": Integer}) == space
    check_kernel(space.kernel(), X)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"count": 2.5}, "count must .*2.5 in row 0"),
        ({"count": True}, "count must .*True in row 0"),
        ({"temperature": 9.9}, "temperature must .*9.9 in row 0"),
        ({"temperature": np.nan}, "temperature must .*nan in row 0"),
        ({"mode": "d"}, "mode must .*'d' in row 0"),
        ({"speed": 3}, "'speed' in row 0; .*: temperature, count, mode"),
    ],
)
def test_space_check_refuses_a_value_outside_its_parameter(
    change: dict[str, Any], said: str
) -> None:
    point = GOOD | change
    assert_refused(ValueError, said, OVEN.check, point)
    assert_refused(ValueError, said.replace("row 0", "row 1"), OVEN.check, [GOOD, point])


def test_space_encode_refuses_absent_or_repeated_columns() -> None:
    frame = pd.DataFrame([GOOD, GOOD])
    with pytest.raises(ValueError, match=r"'count' .*row 0"):
        OVEN.encode(frame.drop(columns="count"))
    with pytest.raises(ValueError, match=r"'mode' .*row 1"):
        OVEN.encode([GOOD, {"temperature": 20.0, "count": 1}])
    with pytest.raises(ValueError, match="'mode' twice"):
        OVEN.encode(pd.concat([frame, frame["mode"]], axis=1))
    assert_refused(ValueError, "points must .*3", OVEN.encode, [GOOD, 3])
    assert_refused(ValueError, "points must .*'hot'", OVEN.encode, "hot")


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ([20, 2, 0.5, 0.5, 0], r"mode must .*\[0.5, 0.5, 0.0\]"),
        ([20, 2, 0, 0, 0], r"mode must .*\[0.0, 0.0, 0.0\]"),
        ([20, 2.5, 1, 0, 0], "count must .*2.5"),
        ([20, 2, 1, 0], r"points must .*\(4,\)"),
        ([20, np.nan, 1, 0, 0], "points must"),
    ],
)
def test_space_check_refuses_an_invalid_array(point: Any, said: str) -> None:
    assert_refused(ValueError, said, OVEN.check, point, "points")


def test_space_check_removes_rounding_errors() -> None:
    X = OVEN.encode(GOOD) + 1e-10
    np.testing.assert_array_equal(OVEN.check(X)[:, 1:], OVEN.encode(GOOD)[:, 1:])
    np.testing.assert_array_equal(OVEN.check([80 + 1e-9, 3, 0, 1, 0])[0, 0], 80.0)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({}, "parameter"),
        ({"a": (2, 1)}, "a: low must .*2 and 1"),
        ({"a": (0, np.inf)}, "a: high must .*inf"),
        ({"a": (1, 2, 3)}, r"a must .*\(1, 2, 3\)"),
        ({"a": [[0, 1], [2]]}, r"a: choices must .*\[0, 1\]"),
        ({"a": ["x"]}, r"a: categories must .*\['x'\]"),
        ({"a": ["x", "x"]}, "a: categories must .*'x' twice"),
        ({"a": ["x", 2]}, "a: categories must .*2"),
    ],
)
def test_space_refuses_an_invalid_parameter(parameters: dict[str, Any], said: str) -> None:
    assert_refused(ValueError, said, Space, **parameters)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1, 1, "low must .*1 and 1"),
        (1.0, 2, r"low must .*1\.0"),
        (0, 2**60, "high must .*1152921504606846976"),
    ],
)
def test_integer_refuses_invalid_ends(low: Any, high: Any, said: str) -> None:
    assert_refused(ValueError, said, Integer, low, high)


def test_space_repr_shows_the_given_parameters() -> None:
    said = "Space(temperature=(10, 80), count=Integer(1, 5), mode=['a', 'b', 'c'])"
    assert repr(OVEN) == said
    assert repr(Space(a=(0.1234567891, 1))) == "Space(a=(0.1234567891, 1))"
    assert Space(self=(0, 1), parameters=(0, 1)).names == ("self", "parameters")


def test_space_samples_uniformly() -> None:
    frame = OVEN.decode(OVEN.sample(6000, generator()))
    assert kstest(frame["temperature"], "uniform", (10, 70)).pvalue > 0.01
    counts = frame.groupby(["count", "mode"]).size()
    assert len(counts) == 15
    assert chisquare(counts).pvalue > 0.01


# --- drawing --------------------------------------------------------------------------------------


def test_space_candidates_contain_every_point_of_a_finite_space() -> None:
    table = DICE.candidates()
    assert len(table) == DICE.size == 72
    assert isinstance(table, Candidates)
    expected = [
        {"left": a, "right": b, "colour": c}
        for a, b, c in product(range(1, 7), range(1, 7), ["red", "blue"])
    ]
    assert table.decode(table.X).to_dict("records") == expected
    assert_refused(ValueError, "inf points are more than 20000", OVEN.candidates)
    with pytest.raises(ValueError, match=r"1e\+06 points are more than 20000: give some"):
        Space(a=Integer(1, 10**6)).candidates()


# --- the search -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_space_maximize_is_exact_on_a_finite_space(seed: int) -> None:
    X = DICE.candidates().X
    heights = generator(seed).standard_normal(len(X))
    rows = {point.tobytes(): i for i, point in enumerate(X)}
    found, height = DICE.maximize(
        lambda Z: np.array([heights[rows[z.tobytes()]] for z in Z]), generator(seed)
    )
    np.testing.assert_array_equal(found, X[heights.argmax()])
    assert height == heights.max()


def test_space_maximize_breaks_ties_uniformly() -> None:
    def red(X: Array) -> Array:
        return X[:, 2]

    found = [tuple(DICE.maximize(red, generator(seed))[0]) for seed in range(720)]
    assert all(point[2] == 1.0 for point in found)
    counts = pd.Series(found).value_counts()
    assert len(counts) == 36
    assert chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize("space", [OVEN, Space(a=Integer(1, 10**6), b=["x", "y"])])
def test_space_maximize_draws_uniformly_on_a_plateau(space: Space) -> None:
    found = np.array(
        [space.maximize(lambda X: np.zeros(len(X)), generator(seed))[0] for seed in range(400)]
    )
    low, high = space.parameters[0].low, space.parameters[0].high  # type: ignore[union-attr]
    assert kstest(found[:, 0], "uniform", (low, high - low)).pvalue > 0.01
    assert chisquare(space.decode(found)[space.names[-1]].value_counts()).pvalue > 0.01


def wavy(X: Array) -> Array:
    """Many local maxima in the interval, at other places for each of the rest."""
    x, count, mode = (X[:, 0] - 10) / 70, X[:, 1], X[:, 2:].argmax(axis=1)
    bump = np.exp(-(((x - 0.13 * count - 0.2 * mode) / 0.05) ** 2))
    return bump * (1 + 0.1 * count * (mode == 1)) + 0.4 * np.sin(37 * x + count) ** 2


def rugged(X: Array) -> Array:
    """Whole numbers of a long range, with an interval that must move along."""
    x, a, b = X[:, 0], X[:, 1], X[:, 2]
    away = ((a - 700) / 400) ** 2 + ((b + 35) / 30) ** 2
    return -away - 8 * (x - a / 1000) ** 2 + 0.3 * np.cos(a / 40) + 0.5 * X[:, 4]


LONG = Space(x=(0, 1), a=Integer(0, 1000), b=Integer(-50, 50), side=["left", "right"])
ONLY_WHOLE = Space(a=Integer(0, 1000), b=Integer(-50, 50), side=["left", "right"])


def brute_force(space: Space, f: Any, points: int) -> float:
    """The largest value on a grid of the interval and all values of the rest."""
    (low, high), rest = (space.parameters[0].low, space.parameters[0].high), space.parameters[1:]  # type: ignore[union-attr]
    others = [part.from_unit((np.arange(part.size) + 0.5) / part.size) for part in rest]
    best = -np.inf
    for codes in product(*others):
        x = np.linspace(low, high, points)
        full = np.column_stack([x, *(np.full(points, code) for code in codes)])
        best = max(best, float(f(space._to_points(full)).max()))
    return best


@pytest.mark.parametrize("seed", range(10))
def test_space_maximize_matches_brute_force_on_a_mixed_space(seed: int) -> None:
    best = brute_force(OVEN, wavy, 5001)
    found, height = OVEN.maximize(wavy, generator(seed))
    assert height >= best - 1e-9
    assert height == pytest.approx(best, abs=1e-3)
    np.testing.assert_array_equal(OVEN.check(found), found[None, :])
    assert wavy(found[None, :])[0] == height


@pytest.mark.parametrize("seed", range(5))
def test_space_maximize_matches_brute_force_on_long_ranges(seed: int) -> None:
    # The best x is a / 1000 for every a, which is on a grid.
    a, b = np.meshgrid(np.arange(1001.0), np.arange(-50.0, 51.0), indexing="ij")
    codes = np.column_stack([a.ravel() / 1000, a.ravel(), b.ravel(), np.ones(a.size)])
    best = float(rugged(LONG._to_points(codes)).max())
    found, height = LONG.maximize(rugged, generator(seed))
    assert height == pytest.approx(best, abs=1e-6)
    np.testing.assert_array_equal(LONG.check(found), found[None, :])

    def whole(X: Array) -> Array:
        return rugged(np.column_stack([X[:, 0] / 1000, X]))

    assert ONLY_WHOLE.size > 20_000
    found, height = ONLY_WHOLE.maximize(whole, generator(seed))
    assert height == best


def test_space_of_intervals_maximizes_as_a_box() -> None:
    space, box = Space(u=(0, 1), v=(-2, 3)), Box([[0, 1], [-2, 3]])

    def f(X: Array) -> Array:
        return np.asarray(-((X - 0.3) ** 2).sum(axis=1))

    np.testing.assert_array_equal(
        space.maximize(f, generator(1))[0], box.maximize(f, generator(1))[0]
    )


# --- the kernel -----------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
def test_space_kernel_matches_scikit_learn_on_scaled_columns(nu: float) -> None:
    X = OVEN.sample(30, generator())
    kernel = OVEN.kernel(nu)
    scales = np.array([0.25 * 70, 0.25 * 4, 1.0])
    np.testing.assert_array_equal(kernel.scales, scales)
    scaled = X / scales[[0, 1, 2, 2, 2]]
    oracle = RBF() if nu == np.inf else Matern(nu=nu)
    np.testing.assert_allclose(kernel(X), oracle(scaled), rtol=1e-12)
    np.testing.assert_allclose(kernel(X, X[:3]), oracle(scaled, scaled[:3]), rtol=1e-12)
    np.testing.assert_array_equal(kernel.diag(X), np.ones(30))


@pytest.mark.parametrize("nu", [0.5, 2.5, np.inf])
def test_space_kernel_gradient_matches_finite_differences(nu: float) -> None:
    X, kernel = OVEN.sample(12, generator()), OVEN.kernel(nu)
    _, gradient = kernel(X, eval_gradient=True)
    assert gradient.shape == (12, 12, 3)
    for i, shift in enumerate(1e-6 * np.eye(3)):
        above, below = (kernel.clone_with_theta(kernel.theta + s)(X) for s in (shift, -shift))
        np.testing.assert_allclose(gradient[:, :, i], (above - below) / 2e-6, atol=1e-8)
    fixed = PerParameter(kernel.scales, "fixed", kernel.parts, nu)
    assert fixed(X, eval_gradient=True)[1].shape == (12, 12, 0)


def test_space_kernel_follows_the_form_of_scikit_learn() -> None:
    kernel = OVEN.kernel()
    assert clone(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel.n_dims == 3
    assert (kernel.bounds[:, 0] < kernel.theta).all()
    assert (kernel.theta < kernel.bounds[:, 1]).all()
    assert repr(kernel) == "PerParameter(temperature=17.5, count=1, mode=1, nu=2.5)"
    one = Space(u=(0, 2)).kernel()
    np.testing.assert_allclose(
        one.clone_with_theta(np.log([0.5]))([[0.0], [1.0]])[0, 1],
        Matern(0.5, nu=2.5)([[0.0], [1.0]])[0, 1],
    )
    assert_refused(ValueError, "is for points of dimension 5, got 2", kernel, np.zeros((3, 2)))
    for nu in (0, 10.1, 100.0, 1e300):
        match = rf"nu, unless it is infinite, must lie in \(0, 10\], got {re.escape(f'{nu}')}"
        assert_refused(ValueError, match, OVEN.kernel, nu)
    for share in (np.inf, 11.0, 0.009, 1e-300):
        match = rf"share must lie in \[0.01, 10\], got {share:g}"
        assert_refused(ValueError, match, OVEN.kernel, share=share)


# --- tables ---------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {"temperature": [20.0, 30.0, 20.0], "count": [1, 2, 3], "mode": ["a", "b", "a"]}
)
TABLE = OVEN.table(FRAME)


def test_space_table_contains_the_rows_of_the_frame() -> None:
    assert isinstance(TABLE, Candidates)
    np.testing.assert_array_equal(TABLE.X, OVEN.encode(FRAME))
    pd.testing.assert_frame_equal(TABLE.decode(TABLE.X[:2]), FRAME.loc[:1])
    assert OVEN.table(TABLE.X) == TABLE
    retired = Table(OVEN, TABLE.X, retired=[1])
    assert pickle.loads(pickle.dumps(retired)) == retired != TABLE


def test_space_table_checks_points_by_name_and_array() -> None:
    point = {"temperature": 30.0, "count": 2, "mode": "b"}
    np.testing.assert_array_equal(TABLE.check(point), TABLE.X[[1]])
    np.testing.assert_array_equal(TABLE.encode([point]), TABLE.X[[1]])
    np.testing.assert_array_equal(TABLE.check(TABLE.X), TABLE.X)
    with pytest.raises(ValueError, match=r"must be candidates, but \[31.0, .* is none"):
        TABLE.check(point | {"temperature": 31.0})
    assert_refused(ValueError, "mode must be one of", TABLE.check, point | {"mode": "z"})


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (FRAME.drop(columns="mode"), "'mode' .*row 0"),
        (FRAME.assign(count=[1, 2, 2.5]), "count must .*2.5 in row 2"),
        (FRAME.assign(mode=["a", "b", None]), "mode must"),
        (FRAME.iloc[[0, 1, 0]], "candidates must"),
        (FRAME.iloc[:0], "candidates must .*shape"),
        (FRAME.assign(site="x"), "'site' in row 0"),
        (3, "X must"),
    ],
)
def test_space_table_refuses_an_invalid_frame(frame: Any, said: str) -> None:
    assert_refused(ValueError, said, OVEN.table, frame)


def test_find_context_rows_accepts_a_context_by_name() -> None:
    table = DICE.candidates(context=["colour", "left"])
    assert table.context == (2, 3, 0)
    rows = table.find_context_rows({"left": 3, "colour": "blue"})
    np.testing.assert_array_equal(rows, table.find_context_rows([0.0, 1.0, 3.0]))
    frame = table.decode(table.X[rows])
    assert set(frame["colour"]) == {"blue"}
    assert list(frame["left"]) == [3] * 6
    assert list(frame["right"]) == [1, 2, 3, 4, 5, 6]
    assert_refused(
        ValueError,
        r"context 'colour' is missing, got {'left': 3}",
        table.find_context_rows,
        {"left": 3},
    )
    with pytest.raises(ValueError, match=r"colour must be one of .* got 'green'"):
        table.find_context_rows({"left": 3, "colour": "green"})
    with pytest.raises(ValueError, match="left must be a whole number from 1 to 6, got 9"):
        table.find_context_rows({"left": 9, "colour": "red"})
    with pytest.raises(ValueError, match=r"context must be .* got 'size'"):
        DICE.candidates(context=["size"])
    with pytest.raises(ValueError, match=r"context must be .* got 'size'"):
        Space(speed=(0.0, 1.0)).candidates(context=["size"])  # before its points are counted
    with pytest.raises(ValueError, match="context must leave a column to choose"):
        DICE.candidates(context=["left", "right", "colour"])
    assert_refused(
        ValueError, "candidates have no context columns", DICE.candidates().find_context_rows, {}
    )


# --- candidates with columns that the world decides about

X = np.array([[0.0, 10.0, 1.0], [5.0, 10.0, 1.0], [0.0, 20.0, 1.0], [5.0, 20.0, 2.0]])
WEATHER = Candidates(X, context=[1, 2])


def test_find_context_rows_tolerates_only_rounding() -> None:
    np.testing.assert_array_equal(WEATHER.find_context_rows([10.0 + 9e-9, 1.0]), [0, 1])
    assert_refused(
        ValueError,
        r"nearest context is \[10.0, 1.0\]",
        WEATHER.find_context_rows,
        [10.0 + 2e-8, 1.0],
    )


def test_find_context_rows_refuses_a_context_of_no_candidate() -> None:
    said = r"context \[19.0, 1.0\] in columns \[1, 2\]; the nearest context is \[20.0, 1.0\]"
    assert_refused(ValueError, said, WEATHER.find_context_rows, [19.0, 1.0])
    assert_refused(ValueError, r"context must .*\(1,\)", WEATHER.find_context_rows, [10.0])
    assert_refused(ValueError, "context must .*'hot'", WEATHER.find_context_rows, "hot")


# A domain, and others that are not it.
OTHERS: dict[str, list[Callable[[], object]]] = {
    "space": [
        lambda: Space(temperature=Real(10.0, 80.0), count=Integer(1, 5), mode=["a", "b", "c"]),
        lambda: Space(count=Integer(1, 5), temperature=(10, 80), mode=["a", "b", "c"]),
        lambda: Space(temperature=(10, 81), count=Integer(1, 5), mode=["a", "b", "c"]),
    ],
    "table": [
        lambda: OVEN.table(FRAME),
        lambda: OVEN.table(FRAME.iloc[:2]),
        lambda: Candidates(TABLE.X),
        lambda: OVEN.table(FRAME, context=["mode"]),
    ],
    "candidates": [
        lambda: Candidates(np.where(X == 0.0, -0.0, X)),
        lambda: Candidates(X[::-1]),
        lambda: Candidates(X, context=[1]),
        lambda: X.tolist(),
    ],
    "context": [lambda: Candidates(X, context=(1, 2)), lambda: Candidates(X, context=[1])],
    "arms": [lambda: Arms(("red", "green", "blue")), lambda: Arms(["green", "red", "blue"])],
    "box": [lambda: Box([(0, 1), (0, 2)]), lambda: Box([(0, 1), (0, 3)]), lambda: "box"],
}


@pytest.mark.parametrize("kind", OTHERS)
def test_domains_are_equal_exactly_if_their_parts_are(kind: str) -> None:
    make, *others = OTHERS[kind]
    one = make()
    for same in (make(), pickle.loads(pickle.dumps(one))):
        assert (same, hash(same), repr(same)) == (one, hash(one), repr(one))
    for other in others:
        assert other() != one


@given(
    st.lists(
        st.tuples(*[st.integers(0, 3)] * 3).map(lambda row: tuple(map(float, row))),
        min_size=1,
        max_size=20,
        unique=True,
    ),
    st.sampled_from([(0,), (2,), (1, 2), (2, 0)]),
)
def test_find_context_rows_partitions_the_candidates(
    points: list[tuple[float, ...]], context: tuple[int, ...]
) -> None:
    candidates = Candidates(np.array(points), context=context)
    contexts = {tuple(point[column] for column in context) for point in points}
    rows = np.concatenate([candidates.find_context_rows(values) for values in contexts])
    assert sorted(rows) == list(range(len(points)))
    for values in contexts:
        expected = [i for i, p in enumerate(points) if tuple(p[c] for c in context) == values]
        assert list(candidates.find_context_rows(values)) == expected


# --- arms that have a name and nothing else, told and decoded by their names

ARMS = Arms(["red", "green", "blue"])


@pytest.mark.parametrize(
    "given", [["blue", "red"], np.array(["blue", "red"]), pd.DataFrame({"arm": ["blue", "red"]}),
              pd.Series(["blue", "red"], ["x", "y"]), pd.Categorical(["blue", "red"]),
              [{"arm": "blue"}, {"arm": "red"}], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
)  # fmt: skip
def test_arms_encode_each_name_as_one_in_its_own_column(given: Any) -> None:
    np.testing.assert_array_equal(ARMS.check(given), [[0, 0, 1], [1, 0, 0]])
    assert ARMS.decode(ARMS.check(given))["arm"].tolist() == ["blue", "red"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: policies.gp_ucb(ARMS, kernel=RBF(0.3), noise_variance=0.01),
        lambda: policies.adaptive_gp_ucb(ARMS, noise_variance=0.01),
        lambda: policies.discounted_thompson(ARMS),
    ],
)
def test_bandit_on_arms_accepts_names_as_points(make: Any) -> None:
    bandit, twin = make(), make()
    for t in range(1, 8):
        X = bandit.ask(t)
        np.testing.assert_array_equal(X, twin.ask(t))
        (name,) = ARMS.decode(X)["arm"]
        bandit.tell(name, [float(name == "green")], t)
        twin.tell(X, [float(X[0, 1])], t)
    if hasattr(bandit, "predict"):
        by_name, by_point = bandit.predict(["green", "red"]), twin.predict(ARMS.X[[1, 0]])
        np.testing.assert_array_equal(by_name, by_point)


def test_arms_refuse_invalid_names() -> None:
    for names, said in (
        (["a", "a"], r"names must be at least two different texts, got \['a', 'a'\]"),
        (["a"], "names must be at least two different texts"),
        (["a", 1], "names must be at least two different texts"),
        ("ab", "names must be at least two different texts, got 'ab'"),
    ):
        assert_refused(ValueError, said, Arms, names)
    bandit = policies.gp_ucb(ARMS, kernel=RBF(0.3), noise_variance=0.01)
    for X in (["pink"], ["red", 1], [{"leg": "red"}]):
        assert_refused(ValueError, r"arm|leg", bandit.tell, X, [1.0] * len(X), 1)
    assert bandit.info.readings == 0


# --- clicks and counts as rewards: unbiased together, and honest where nothing or everything succeeded

pairs = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 1000)).map(sorted), min_size=1, max_size=20
)


@given(pairs)
def test_rate_and_count_weighted_by_variance_give_the_total_rate(drawn: list[list[int]]) -> None:
    k, n = np.array(drawn, dtype=float).T
    made = rate(k, n)
    np.testing.assert_allclose(
        np.average(made.values, weights=1 / made.variance), k.sum() / n.sum()
    )
    calls = count(k, n)
    weighted = np.average(calls.values, weights=1 / calls.variance)
    np.testing.assert_allclose(weighted, k.sum() / n.sum())


@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("p", [0.005, 0.02, 0.1, 0.5, 0.98, 0.995])
def test_rate_is_within_two_deviations_of_the_truth(n: int, p: float) -> None:
    """Enumerated: at least 93% of what is drawn; with the share itself as p it is 14% to 95%."""
    k = np.arange(n + 1)
    made = [rate(each, n) for each in k]
    off = np.abs(np.concatenate([each.values for each in made]) - p)
    holds = off <= 2 * np.sqrt(np.concatenate([each.variance for each in made]))
    assert binom.pmf(k, n, p)[holds].sum() >= 0.93


@pytest.mark.parametrize("expected", [0.05, 0.5, 2.0, 20.0])
def test_count_is_within_two_deviations_of_the_truth(expected: float) -> None:
    k = np.arange(200)
    holds = [abs(made.values[0] - expected) <= 2 * made.variance[0] ** 0.5
             for made in (count(each, 1.0) for each in k)]  # fmt: skip
    assert poisson.pmf(k, expected)[holds].sum() >= 0.93


def test_rate_and_count_have_equal_variance_for_few_successes() -> None:
    k, n = np.array([3.0, 8.0]), np.array([1e6, 2e6])
    np.testing.assert_allclose(rate(k, n).variance, count(k, n).variance, rtol=1e-5)


def test_rate_and_count_take_the_variance_from_around() -> None:
    visits = rate([0, 1], 1, around=0.02)
    assert visits.values.tolist() == [0.0, 1.0]
    np.testing.assert_allclose(visits.variance, 0.02 * 0.98)
    np.testing.assert_allclose(count(3, 2.0, around=1.5).variance, 0.75)


def test_rate_and_count_return_nan_without_trials() -> None:
    made = rate([0, np.nan, 4], [0, 10, 10])
    np.testing.assert_array_equal(made.values, [np.nan, np.nan, 0.4])
    np.testing.assert_allclose(made.variance[2], 6 / 14 * 8 / 14 / 10)
    assert np.isnan(count(0, 0).values).all()
    assert (rate(0, 0).variance > 0).all()


def test_bandit_tell_accepts_rates_with_their_variances() -> None:
    sites, clicks = Candidates([[0.0], [1.0], [2.0]]), rate([0, 3, 0], [100, 50, 0])
    for make in (policies.gp_ucb, policies.bkb):
        told, plain = (make(sites, kernel=RBF(1.0), noise_variance=0.01) for _ in range(2))
        told.tell(sites.X, clicks, 1)
        plain.tell(sites.X, clicks.values, 1, clicks.variance)
        assert told.history.equals(plain.history)
    bandit = policies.gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01)
    bandit.tell(sites.X[:2], [0.0, 0.0], 1)
    bandit.correct(sites.X[:2], rate([0, 3], [100, 50]), 1)
    np.testing.assert_array_equal(bandit.state.rewards.y, clicks.values[:2])
    np.testing.assert_array_equal(bandit.state.rewards.variance, clicks.variance[:2])
    greedy = policies.eps_greedy(sites)
    greedy.tell(sites.X, clicks, 1)
    assert greedy.info.failed == 1


def test_rate_and_count_refuse_invalid_arguments() -> None:
    for k, n, said in (
        ([1, 5], [9, 4], r"successes must be no more than trials, got 5.0 at position 1"),
        ([1, 2], [4, 5, 6], "successes and trials must be of one length, got 2 and 3"),
    ):
        assert_refused(ValueError, said, rate, k, n)
    assert_refused(ValueError, r"there are no events without exposure, got 2\.0", count, 2, 0)
    for around in (0.0, 1.0, np.nan):
        assert_refused(
            ValueError, "around must be above 0 and below 1, got", rate, 1, 2, around=around
        )
    assert_refused(ValueError, r"around must have shape \(1,\)", count, 1, 2, around=[1.0, 2.0])
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    with pytest.raises(ValueError, match=r"noise_variance=0\.1"):
        bandit.tell([[0.0]], rate(1, 2), 1, 0.1)
    with pytest.raises(ValueError, match=r"y must have shape \(2,\), got \(1,\)"):
        bandit.tell([[0.0], [1.0]], rate(1, 2), 1)
    assert bandit.info.readings == 0

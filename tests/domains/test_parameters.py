"""Parameters as people have them: log scales, circles and choices, there and back, and in kernels."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Candidates, Integer, Log, Periodic, Recipe, Space, load, policies
from tvbandits.domains.domain import encode_context
from tvbandits.domains.moving import distances
from tvbandits.domains.parameters import Category, Choice, Parameter, Real, as_parameter
from tvbandits.gp.additive import box_kernel, joint_box_kernel
from tvbandits.gp.kernel_matrix import check_kernel, inputs
from tvbandits.validation import Array

SPACE = Space(
    rate=Log(1e-6, 0.1),
    direction=Periodic(0, 360),
    batch=[16, 32, 64],
    momentum=(0, 1),
    layers=Integer(1, 4),
    kind=["a", "b"],
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- there and back ---------------------------------------------------------------------------------

finite = st.floats(-1e6, 1e6)
reals = st.tuples(finite, st.floats(1e-3, 1e6)).map(lambda p: Real(p[0], p[0] + p[1]))
logs = st.tuples(st.floats(1e-300, 1e290), st.floats(1.001, 1e9)).map(
    lambda p: Log(p[0], p[0] * p[1])
)
circles = st.tuples(finite, st.floats(1e-3, 1e6)).filter(
    lambda p: abs(p[0]) <= 1e5 * p[1]
).map(lambda p: Periodic(p[0], p[0] + p[1]))  # fmt: skip
choices = st.lists(st.integers(-(2**53), 2**53) | finite, min_size=2, max_size=6, unique=True).map(
    lambda levels: Choice(tuple(levels))
)
integers = st.tuples(st.integers(-1000, 1000), st.integers(1, 500)).map(
    lambda p: Integer(p[0], p[0] + p[1])
)
categories = st.lists(st.text(max_size=4), min_size=2, max_size=5, unique=True).map(
    lambda levels: Category(tuple(levels))
)
KINDS = {
    "real": reals,
    "log": logs,
    "circle": circles,
    "choice": choices,
    "integer": integers,
    "category": categories,
}


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(data=st.data())
def test_encode_inverts_decode_for_every_kind_of_parameter(kind: str, data: st.DataObject) -> None:
    part: Parameter = data.draw(KINDS[kind])
    space = Space(p=part)
    X = space.sample(20, generator(data.draw(st.integers(0, 2**32 - 1))))
    assert X.shape == (20, part.width)
    np.testing.assert_array_equal(space.check(X), X)
    frame = space.decode(X)
    np.testing.assert_array_equal(space.encode(frame), X)
    assert space.decode(space.encode(frame))["p"].tolist() == frame["p"].tolist()
    low, high = space.bounds.T
    slack = 1e-12 * np.abs(space.bounds).max()
    assert ((low - slack <= X) & (high + slack >= X)).all()
    codes = part.codes(X, "p")
    steps = part.from_unit(part.to_unit(codes))
    assert np.abs(part.columns(steps) - X).max() <= 1e-9 * part.extent + slack
    names = {"Space": Space, "Integer": Integer, "Log": Log, "Periodic": Periodic}
    assert eval(repr(space), names) == space == pickle.loads(pickle.dumps(space))
    check_kernel(space.kernel(), X)


@given(st.floats(1e-6, 0.1).map(lambda x: float(f"{x:.12g}")))
def test_log_returns_a_value_of_12_digits_exactly(value: float) -> None:
    (back,) = SPACE.decode(SPACE.encode(point(rate=value)))["rate"]
    assert back == value
    assert SPACE.encode(point(rate=value))[0, 0] == pytest.approx(math.log10(value), rel=1e-15)


@given(st.floats(0, 360, exclude_max=True).map(lambda x: round(x, 9) % 360))
def test_periodic_returns_a_value_of_9_decimals_exactly(value: float) -> None:
    (back,) = SPACE.decode(SPACE.encode(point(direction=value)))["direction"]
    assert back == value


@given(st.integers(0, 3 * 24 * 60 - 1))
def test_periodic_returns_minutes_written_as_hours(minute: int) -> None:
    hour = minute / 180
    day = Space(hour=Periodic(24))
    assert day.decode(day.encode({"hour": hour}))["hour"][0] == pytest.approx(hour, abs=1e-10)


def point(**change: Any) -> dict[str, Any]:
    good = {"rate": 1e-3, "direction": 10, "batch": 32, "momentum": 0.5, "layers": 2, "kind": "a"}
    return good | change


def test_periodic_treats_both_ends_as_one_value() -> None:
    X = SPACE.encode([point(direction=0), point(direction=360)])
    np.testing.assert_array_equal(X[0], X[1])
    assert SPACE.decode(X)["direction"].tolist() == [0.0, 0.0]
    half = Space(angle=Periodic(-math.pi, math.pi))
    assert half.decode(half.encode({"angle": math.pi}))["angle"].tolist() == [-math.pi]


def test_choice_encodes_ascending_ranks_and_keeps_whole_numbers() -> None:
    space = Space(batch=[64, 16, 32], share=[0.5, 1.0])
    np.testing.assert_array_equal(space.encode({"batch": 64, "share": 1}), [[2.0, 1.0]])
    frame = space.decode(space.candidates().X)
    assert frame["batch"].tolist() == [16, 16, 32, 32, 64, 64]
    assert frame["batch"].dtype.kind == "i"
    assert frame["share"].tolist() == [0.5, 1.0] * 3


def test_as_parameter_reads_a_list_as_choice_and_a_tuple_as_interval() -> None:
    assert as_parameter([0, 1], "x") == Choice((0, 1))
    assert as_parameter((0, 1), "x") == Real(0.0, 1.0)
    assert Periodic(7) == Periodic(0, 7) == Periodic(0.0, 7.0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([0.0, 1.0]), r"x must be an interval \(low, high\), a list .*array"),
        (("a", "b"), r"x must be .*a list .*\('a', 'b'\)"),
        ((1, 2, 3), r"x must be .*a list .*\(1, 2, 3\)"),
        ([], r"x must be .*\[\]"),
        ({0, 1}, r"x must be .*\{0, 1\}"),
        ([16], r"x: choices must be at least two different numbers, got \[16\]"),
        ([16, 16.0], "x: choices must be at least two different numbers"),
        ([True, False], r"x: choices must be numbers, got True; .*\"yes\""),
        ([1, np.nan], "x: choices must be numbers, got nan"),
        ([1, [2]], r"x: choices must be numbers, got \[2\]"),
        ([1, "a"], "x: categories must be texts, got 1"),
    ],
)
def test_space_refuses_an_invalid_parameter_with_a_remedy(value: Any, said: str) -> None:
    assert_refused(ValueError, said, lambda: Space(x=value))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Log(0, 1), r"low must .*0"),
        (lambda: Log(1, 1), "low must be below high, got 1 and 1"),
        (lambda: Log(1, np.inf), "high must .*inf"),
        (lambda: Periodic(0), "the period .*0"),
        (lambda: Periodic(3, 3), "low must be below high, got 3 and 3"),
        (lambda: Periodic(1e9, 1e9 + 1), "low and high must be at most 1e6 periods away"),
        (lambda: Periodic(1e-12), "low and high must .*1e-12"),
        (lambda: Box([(0, 1)], context={"hour": Periodic(24)}), "hour must .*Space"),
    ],
)
def test_parameters_refuse_an_invalid_range(make: Any, said: str) -> None:
    assert_refused(ValueError, said, make)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate": 0.0}, "rate must be from 1e-06 to 0.1, got 0 in row 0"),
        ({"rate": -1}, "rate must .*-1 in row 0"),
        ({"direction": 361}, "direction must be from 0 to 360, got 361 in row 0"),
        ({"direction": np.nan}, "direction must .*nan in row 0"),
        ({"batch": 48}, r"batch must be one of \[16, 32, 64\], got 48 in row 0"),
        ({"batch": "16"}, "batch must .*'16' in row 0"),
        ({"batch": True}, "batch must .*True in row 0"),
    ],
)
def test_space_encode_refuses_a_value_outside_its_parameter(
    change: dict[str, Any], said: str
) -> None:
    assert_refused(ValueError, said, SPACE.encode, point(**change))


def test_space_check_refuses_columns_off_the_circle_or_between_ranks() -> None:
    X = SPACE.encode(point())
    assert_refused(ValueError, "direction must be on a circle", SPACE.check, X + np.eye(8)[1])
    assert_refused(ValueError, "the rank of batch must .*0.5", SPACE.check, X - 0.5 * np.eye(8)[3])
    assert_refused(ValueError, r"log10\(rate\) must .*from -6 to -1", SPACE.check, X + 5)


# --- kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, math.inf])
def test_space_kernel_of_a_circle_matches_the_kernel_in_the_plane(nu: float) -> None:
    hours = generator().uniform(0, 24, 30)
    day = Space(hour=Periodic(24))
    X = day.encode([{"hour": each} for each in hours])
    kernel = day.kernel(nu)
    angles = 2 * np.pi * hours / 24
    plane = 24 / (2 * np.pi) * np.column_stack([np.cos(angles), np.sin(angles)])
    scale = 0.25 * 24
    oracle = RBF(scale) if nu == math.inf else Matern(scale, nu=nu)
    np.testing.assert_allclose(kernel(X), oracle(plane), rtol=1e-9)
    assert np.linalg.eigvalsh(kernel(X)).min() > -1e-12
    turned = day.encode([{"hour": (each + 5.25) % 24} for each in hours])
    np.testing.assert_allclose(kernel(turned), kernel(X), rtol=1e-9)


def test_space_kernel_uses_logarithms_and_ranks() -> None:
    space = Space(rate=Log(1e-6, 0.1), batch=[1, 2, 1000])
    rows = [{"rate": r, "batch": b} for r, b in zip([1e-6, 1e-5, 0.1], [1, 2, 1000], strict=True)]
    X = space.encode(rows)
    np.testing.assert_allclose(X, [[-6, 0], [-5, 1], [-1, 2]], rtol=1e-14)
    np.testing.assert_allclose(space.kernel()(X), Matern(nu=2.5)(X / [0.25 * 5, 0.25 * 2]))


CIRCLES = {
    "space": SPACE,
    "context": Space(x=(0, 1), context={"hour": Periodic(24)}),
    "candidates": Candidates([[0.0], [1.0]], context={"hour": Periodic(24)}),
}


@pytest.mark.parametrize("make", [box_kernel, joint_box_kernel])
@pytest.mark.parametrize("domain", CIRCLES.values(), ids=CIRCLES)
def test_box_kernels_are_independent_of_the_seam_of_a_circle(make: Any, domain: Any) -> None:
    X = domain.sample(12, generator())
    names = [name for name, part in parts_of(domain) if isinstance(part, Periodic)]
    kernel = make(domain)
    change = 0.3 * generator(1).standard_normal(len(kernel.theta))
    free = kernel.clone_with_theta(kernel.theta + change)
    turned = X.copy()
    for at in (columns_of(domain)[name] for name in names):
        c, s = math.cos(1.1), math.sin(1.1)
        turned[:, at] = X[:, at] @ np.array([[c, s], [-s, c]])
    before, after = (free(inputs(free, each, np.arange(12.0))) for each in (X, turned))
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)
    assert not np.allclose(before, np.eye(12))


def parts_of(domain: Any) -> list[tuple[str, Parameter]]:
    if isinstance(domain, Space):
        return list(zip(domain.names, domain.parameters, strict=True))
    return list(domain.context_parameters.items())


def columns_of(domain: Any) -> dict[str, slice]:
    if isinstance(domain, Space):
        return dict(domain.columns)
    return {"hour": slice(1, 3)}


# --- the search -------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [0.0, 0.01, 359.99, 180.0, 77.0])
def test_space_maximize_finds_a_peak_at_the_seam(best: float) -> None:
    space = Space(direction=Periodic(0, 360), rate=Log(1e-6, 0.1))
    at = space.encode({"direction": best, "rate": 1e-4})

    def peak(X: Array) -> Array:
        away = (X - at) / [10.0, 10.0, 0.3]
        return np.asarray(np.exp(-(away**2).sum(axis=1)))

    for seed in range(3):
        x, height = space.maximize(peak, generator(seed))
        assert height == pytest.approx(1.0, abs=1e-3)
        np.testing.assert_array_equal(space.check(x), x[None])
        (row,) = space.decode(x[None]).to_dict("records")
        assert abs((row["direction"] - best + 180) % 360 - 180) < 0.5
        assert row["rate"] == pytest.approx(1e-4, rel=0.05)


def test_convert_slopes_matches_finite_differences() -> None:
    U = generator().uniform(0.1, 0.9, (7, len(SPACE.names)))
    weights = generator(1).standard_normal(SPACE.dimension)

    def f(V: Array) -> Array:
        return np.sin(SPACE.from_unit(V) * 0.1) @ weights

    X = SPACE.from_unit(U)
    slopes = SPACE.convert_slopes(X, 0.1 * np.cos(0.1 * X) * weights)
    for j, part in enumerate(SPACE.parameters):
        shift = 1e-6 * np.eye(len(SPACE.names))[j]
        expected = np.zeros(7) if part.size else (f(U + shift) - f(U - shift)) / 2e-6
        np.testing.assert_allclose(slopes[:, j], expected, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_space_maximize_returns_choices_exactly(seed: int) -> None:
    heights = generator(seed).standard_normal(3)

    def f(X: Array) -> Array:
        return np.asarray(heights[np.rint(X[:, 3]).astype(int)] - (X[:, 4] - 0.3) ** 2)

    x, _ = SPACE.maximize(f, generator(seed))
    (row,) = SPACE.decode(x[None]).to_dict("records")
    assert row["batch"] == [16, 32, 64][int(heights.argmax())]
    assert row["momentum"] == pytest.approx(0.3, abs=1e-3)


def test_space_near_keeps_all_points_within_the_distance() -> None:
    x = SPACE.encode(point(direction=359, rate=0.09))[0]
    X = SPACE.sample(4000, generator())
    within = X[distances(SPACE, x, X) <= 5.0]
    assert len(within) > 10
    np.testing.assert_array_equal(SPACE.near(x, 5.0).check(within), within)
    rate = SPACE.near(x, 1.0).parameters[0]
    assert isinstance(rate, Log)
    assert (rate.low, rate.high) == (pytest.approx(0.009), 0.1)


def test_distances_on_a_circle_have_the_unit_of_the_parameter() -> None:
    day = Space(hour=Periodic(24))
    X = day.encode([{"hour": 23.75}, {"hour": 0.25}, {"hour": 11.75}])
    np.testing.assert_allclose(distances(day, X[0], X), [0, 0.5, 24 / np.pi], rtol=1e-3)


# --- bandits ----------------------------------------------------------------------------------------


def test_bandit_predicts_alike_at_nearby_hours_across_midnight() -> None:
    domain = Space(x=(0, 1), context={"hour": Periodic(24)})
    bandit = Bandit(Recipe(domain, domain.kernel(), 1e-4))
    bandit.tell([{"x": 0.5}], [2.0], 1, context={"hour": 23.5})
    bandit.tell([{"x": 0.5}], [0.0], 2, context={"hour": 12})
    near, _ = bandit.predict([{"x": 0.5}], 3, context={"hour": 0.5})
    far, _ = bandit.predict([{"x": 0.5}], 3, context={"hour": 13})
    assert near[0] > 1.7
    assert far[0] < 0.3
    assert bandit.history["hour"].tolist() == [23.5, 12.0]


def test_candidates_accept_an_hour_as_context() -> None:
    domain: Any = Candidates([[0.0], [1.0]], context={"hour": Periodic(24), "load": [1, 5, 9]})
    assert domain.dimension == 4
    assert domain.coordinate_names == ["x0", "hour", "load"]
    bandit = Bandit(Recipe(domain, RBF([1.0, 3.0, 3.0, 1.0]), 0.01))
    x = bandit.ask(1, context={"hour": 23.5, "load": 5})
    np.testing.assert_array_equal(
        x[0, 1:], encode_context(domain.context_parameters, {"hour": 23.5, "load": 5})
    )
    bandit.tell(x, [1.0], 1)
    assert bandit.history["hour"].tolist() == [23.5]
    assert bandit.history["load"].tolist() == [5]
    np.testing.assert_array_equal(domain.from_values([x[0, 0], 23.5, 5]), x)
    mean, _ = bandit.predict([[x[0, 0]]], 2, context={"hour": 0.5, "load": 5})
    assert mean[0] > 0.8


@pytest.mark.parametrize("domain", CIRCLES.values(), ids=CIRCLES)
def test_load_restores_a_bandit_with_a_periodic_parameter(domain: Any, tmp_path: Any) -> None:
    bandit = policies.adaptive_gp_ucb(domain, seed=1)
    context = {"hour": 3.25} if domain.context_parameters else None
    for t in range(1, 8):
        x = bandit.ask(t, context=context)
        bandit.tell(x, [float(x.sum() % 1.0)], t)
    bandit.save(tmp_path / "bandit.npz")
    other: Any = load(tmp_path / "bandit.npz")
    assert other.recipe.domain == domain
    np.testing.assert_array_equal(other.ask(9, context=context), bandit.ask(9, context=context))


def test_bandit_tell_matches_a_decoded_point_to_its_pending_play() -> None:
    bandit = policies.adaptive_gp_ucb(SPACE, seed=3)
    for t in range(1, 5):
        x = bandit.ask(t)
        assert len(bandit.pending) == 1
        bandit.tell(SPACE.decode(x), [1.0], t)
        assert len(bandit.pending) == 0


def regrets_of(bandit: Any, reward: Any, seed: int, steps: int) -> Array:
    """The regret of each play; 1 is the largest reward."""
    rng, regrets = generator(100 + seed), []
    for t in range(1, steps + 1):
        x = bandit.ask(t)
        value = reward(bandit.recipe.domain.decode(x).iloc[0], t)
        regrets.append(1.0 - value)
        bandit.tell(x, [value + 0.05 * rng.standard_normal()], t)
    return np.array(regrets)


@pytest.mark.slow
def test_adaptive_gp_ucb_follows_a_peak_across_the_seam_better_on_a_circle() -> None:
    def reward(row: Any, t: int) -> float:
        away = (row["direction"] - 30 * math.sin(t * math.pi / 30) + 180) % 360 - 180
        return math.exp(-0.5 * (away / 20) ** 2)

    later = []
    for space in (Space(direction=Periodic(0, 360)), Space(direction=(0, 360))):
        bandits = [policies.adaptive_gp_ucb(space, seed=seed) for seed in range(5)]
        runs = [regrets_of(each, reward, seed, 80) for seed, each in enumerate(bandits)]
        later.append(np.mean(runs, axis=0)[40:].mean())
    assert later[0] < later[1]


def test_gp_ucb_finds_a_tiny_rate_only_on_a_log_scale() -> None:
    def reward(row: Any, t: int) -> float:  # noqa: ARG001
        return math.exp(-0.5 * ((math.log10(row["rate"]) + 4) / 0.5) ** 2)

    def regret(space: Space, seed: int) -> float:
        bandit = policies.gp_ucb(space, kernel=space.kernel(), noise_variance=0.01, seed=seed)
        return float(regrets_of(bandit, reward, seed, 40)[20:].mean())

    log, interval = Space(rate=Log(1e-6, 0.1)), Space(rate=(1e-6, 0.1))
    for seed in range(3):
        assert regret(log, seed) < 0.1 < regret(interval, seed)

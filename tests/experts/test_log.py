"""Answers out of a log of recorded evaluations."""

import itertools
import math
import pickle
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from tests.helpers.refusals import assert_refused
from tvbandits import Answers, ExpertError
from tvbandits.datasets import DriftingBump
from tvbandits.datasets.environment import Stream
from tvbandits.experts import CachedLogExpert, CallableExpert, SimulatorExpert
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.forgetting.aging import Ages, Aging, Linear, Wiener, Window, compose
from tvbandits.validation import Array


def table(*rows: tuple[float | None, ...], columns: str = "x0 t value variance") -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=columns.split())


# --- the oracle: a search through every row, one point at a time ----------------------------------


@dataclass(frozen=True)
class Rules:
    tolerance: float = 0.0
    staleness: float = 0.0


def plainly(
    frame: pd.DataFrame, x: Array, t: float, rules: Rules
) -> tuple[float, float, float] | None:
    """Value, variance and age of the row that answers (x, t), following the docstring."""
    names = [name for name in frame.columns if name.startswith("x")]
    rows = frame[frame["value"].notna()]
    if rows.empty:
        return None
    distance = np.sqrt(((rows[names].to_numpy() - x) ** 2).sum(axis=1))
    nearest = rows[distance == distance.min()]
    past = nearest[nearest["t"] <= t].sort_values("t")
    if distance.min() > rules.tolerance or past.empty or t - past["t"].iloc[-1] > rules.staleness:
        return None
    row = past.iloc[-1]
    return row["value"], row["variance"], t - row["t"]


def random_table(rng: np.random.Generator, n: int, d: int) -> pd.DataFrame:
    """Few points and times, so that duplicates, ties and late rows are frequent."""
    columns = {f"x{i}": rng.integers(-2, 3, n) * 0.25 for i in range(d)}
    columns["t"] = rng.integers(0, 6, n) * 0.5
    columns["value"] = np.where(rng.random(n) < 0.15, np.nan, rng.standard_normal(n))
    columns["variance"] = rng.integers(1, 5, n) / 4
    return pd.DataFrame(columns).drop_duplicates([f"x{i}" for i in range(d)] + ["t"])


REACHES = [Rules(*each) for each in itertools.product((0.0, 0.25, 0.6), (0.0, 0.5, 1.2, math.inf))]


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from(REACHES))
@settings(deadline=None, max_examples=25)
def test_cached_log_expert_matches_a_search_through_every_row(
    seed: int, d: int, rules: Rules
) -> None:
    rng = np.random.default_rng(seed)
    frame = random_table(rng, int(rng.integers(0, 25)), d)
    expert = CachedLogExpert(frame, aging=Linear(0.7), **vars(rules))
    recorded = frame.dropna()[[f"x{i}" for i in range(d)]].to_numpy()
    for t in (0.0, 1.25, 2.0, 9.0):
        points = np.vstack([recorded[:2], rng.uniform(-0.8, 0.8, (3, d))])
        said = expert.query(points, t)
        wanted = [plainly(frame, x, t, rules) for x in points]
        np.testing.assert_array_equal(said.answered, [each is not None for each in wanted])
        for row, each in enumerate(wanted):
            if each is not None:
                value, variance, age = each
                aged = variance * (1 + (0.7 * age) ** 2)
                assert said.values[row] == value
                assert said.variance[row] == pytest.approx(aged, rel=1e-14)


# --- matching and aging ---------------------------------------------------------------------------


def test_cached_log_expert_ignores_rows_without_a_value() -> None:
    rows = table((0.0, 1.0, 7.0, 1.0), (0.0, 1.0, None, None), (1.0, 1.0, math.nan, -3.0))
    said = CachedLogExpert(rows).query([[0.0], [1.0]], 1.0)
    np.testing.assert_array_equal(said.values, [7.0, np.nan])


def test_cached_log_expert_refuses_two_values_of_one_point_and_time() -> None:
    rows = table((0.0, 1.0, 7.0, 1.0), (1.0, 1.0, 7.0, 1.0), (-0.0, 1.0, 8.0, 1.0))
    said = r"has two values of the point \[0\.0\] at t = 1: 7 and 8"
    assert_refused(ValueError, said, CachedLogExpert, rows)
    assert CachedLogExpert(pd.concat([rows[:2], rows[:2]])).query([[0.0]], 1.0).answered[0]


def test_cached_log_expert_treats_both_signs_of_zero_as_equal() -> None:
    expert = CachedLogExpert(table((-0.0, -0.0, 7.0, 1.0)))
    assert expert.query([[0.0]], 0.0).values[0] == 7.0
    expert = CachedLogExpert(table((0.0, 0.0, 7.0, 1.0)))
    assert expert.query([[-0.0]], -0.0).values[0] == 7.0


def test_cached_log_expert_without_tolerance_matches_only_equal_numbers() -> None:
    frame = table((0.1 + 0.2, 1.0, 7.0, 1.0))
    assert CachedLogExpert(frame).query([[0.1 + 0.2]], 1.0).answered[0]
    assert not CachedLogExpert(frame).query([[0.3]], 1.0).answered[0]
    assert CachedLogExpert(frame, tolerance=1e-15).query([[0.3]], 1.0).answered[0]


def test_cached_log_expert_notes_refused_points_and_charges_only_for_answers() -> None:
    rows = table((0.0, 1.0, 1.0, 1.0), (1.0, 4.0, 2.0, 1.0))
    expert = CachedLogExpert(rows, staleness=9.0, aging=Window(within=2.0), cost=0.5)
    said = expert.query([[0.0], [1.0], [2.0], [3.0]], 5.0)
    np.testing.assert_array_equal(said.answered, [False, True, False, False])
    assert said.cost == 0.5
    assert said.notes == (
        "2 of 4 points have no logged answer for t = 5",
        "1 of 4 logged answers are too old at t = 5",
    )
    assert CachedLogExpert(rows).query([[0.0]], 1.0).notes == ()


def half(variance: Array, ages: Ages) -> Array:
    assert ages.total == 1
    assert not ages.newer.any()
    return variance / 2


@pytest.mark.parametrize(
    ("aging", "wanted"),
    [
        (None, 0.3),
        (Window(within=2.5), 0.3),
        (Window(within=2.0), math.nan),
        (compose(Wiener(0.1), compose(Linear(0.5), Window(within=3.0))), 1.0),
        (half, 0.15),
    ],
)
def test_cached_log_expert_ages_the_logged_variance(aging: Aging | None, wanted: float) -> None:
    expert = CachedLogExpert(table((0.0, 1.0, 7.0, 0.3)), staleness=5.0, aging=aging)
    said = expert.query([[0.0]], 3.0)
    np.testing.assert_allclose(said.variance, [wanted], rtol=1e-15)
    np.testing.assert_array_equal(said.answered, [not math.isnan(wanted)])


# --- columns and bad rows ---------------------------------------------------------------------------


def test_cached_log_expert_sorts_coordinate_columns_by_number() -> None:
    frame = pd.DataFrame({f"x{i}": [float(i)] for i in reversed(range(11))})
    expert = CachedLogExpert(frame.assign(t=1.0, value=2.0, variance=1.0))
    assert expert.query(np.arange(11.0)[None], 1.0).answered[0]


GOOD = {"x0": [0.0, 1.0], "t": [1.0, 2.0], "value": [3.0, 4.0], "variance": [0.1, 0.2]}
BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "coordinate": ({"x0": [0.0, math.nan]}, r"columns x0 must .*\[nan\] in row 1"),
    "time": ({"t": [math.inf, 0.0]}, "column 't' must .*inf at position 0"),
    "value": ({"value": [1.0, -math.inf]}, "'value' must be at most .*got -inf at position 1"),
    "zero": ({"variance": [1.0, 0.0]}, "'variance' must .*0.0 at position 1"),
    "text": ({"value": ["1.0", "2.0"]}, "column 'value' must be numeric, got "),
    "mixed": ({"value": [1.0, "2.0"]}, "column 'value' must be numeric, .* '2.0' is no number"),
    "date": ({"t": pd.to_datetime(["2020-01-01"] * 2)}, "'t' must be numeric, .*as a Clock does"),
    "truth": ({"value": [True, False]}, "column 'value' must be numeric, .*truth values"),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_cached_log_expert_refuses_an_invalid_row_by_column_and_position(bad: str) -> None:
    columns, match = BAD_ROWS[bad]
    assert_refused(ValueError, match, CachedLogExpert, pd.DataFrame({**GOOD, **columns}))


def test_cached_log_expert_refuses_invalid_frames_and_aging() -> None:
    match = r"aging must .*3\.0"
    assert_refused(ValueError, match, CachedLogExpert, pd.DataFrame(GOOD), aging=3.0)
    assert_refused(ValueError, r"frame must .*dict", CachedLogExpert, GOOD)
    with pytest.raises(ValueError, match=r"got x0, x2"):
        CachedLogExpert(pd.DataFrame({**GOOD, "x2": [0.0, 0.0]}))
    with pytest.raises(ValueError, match=r"got a, b"):
        CachedLogExpert(pd.DataFrame({"a": [], "b": []}))
    twice = pd.concat([pd.DataFrame(GOOD), pd.DataFrame({"t": [1.0, 2.0]})], axis=1)
    with pytest.raises(ValueError, match=r"column 't', .* x0, t, va"):
        CachedLogExpert(twice)


def test_cached_log_expert_of_an_empty_frame_refuses_every_point() -> None:
    expert = CachedLogExpert(pd.DataFrame(GOOD).iloc[:0], tolerance=1.0, staleness=math.inf)
    said = expert.query([[0.0], [1.0]], 1.0)
    assert not said.answered.any()
    assert said.notes == ("2 of 2 points have no logged answer for t = 1",)


def test_cached_log_expert_answers_the_same_after_pickling() -> None:
    again = pickle.loads(pickle.dumps(CachedLogExpert(pd.DataFrame(GOOD), tolerance=0.1)))
    np.testing.assert_array_equal(again.query([[0.0], [5.0]], 1.0).values, [3.0, np.nan])


def test_cached_log_expert_accepts_a_column_of_nulls_as_refusals() -> None:
    nulls = pd.DataFrame({"x0": [0.0], "t": [1.0], "value": [None], "variance": [None]})
    assert not CachedLogExpert(nulls).query([[0.0]], 1.0).answered.any()


# --- experts that evaluate a known function, and their answers

BUMP = DriftingBump(candidates=101)
X = BUMP.domain.X[20:60:7]  # type: ignore[union-attr]


# --- the simulator --------------------------------------------------------------------------------


@given(order=st.permutations(range(len(X))), t=st.integers(1, 500), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=30)
def test_simulator_expert_adds_noise_that_depends_only_on_the_query(
    order: list[int], t: int, seed: int
) -> None:
    """The distribution of keyed_normal is tested in tests/domains/test_domains.py."""
    expert = SimulatorExpert(BUMP, variance=0.25, seed=seed)
    expert.query(X[:2], 7.0)  # other questions in between do not matter
    points = X[order]
    noise = 0.5 * keyed_normal(seed, SimulatorExpert.stream, points, float(t))
    said = expert.query(points, float(t))
    np.testing.assert_allclose(said.values, BUMP.value(points, float(t)) + noise, rtol=1e-14)
    assert (said.variance == 0.25).all()


@pytest.mark.parametrize("stream", [Stream.REWARD, Stream.FIRST_SAMPLE])
def test_simulator_expert_adds_noise_independent_of_that_of_rewards(stream: int) -> None:
    points = np.random.default_rng(0).random((900, 2))
    silent: Any = SimpleNamespace(noise_variance=1.0, value=lambda X, _t: np.zeros(len(X)))
    said = SimulatorExpert(silent, variance=1.0, seed=4).query(points, 5.0).values
    told = keyed_normal(4, stream, points, 5.0)
    assert not np.isin(said, told).any()
    assert abs(np.corrcoef(said, told)[0, 1]) < 4.5 / math.sqrt(900)


def test_simulator_expert_charges_its_cost_per_point() -> None:
    assert SimulatorExpert(BUMP, cost=2.5).query(X, 1.0).cost == 2.5 * len(X)
    assert SimulatorExpert(BUMP).query(X, 1.0).cost == 0.0


# --- a plain function -----------------------------------------------------------------------------


def test_callable_expert_answers_with_the_values_of_its_function() -> None:
    said = CallableExpert(lambda points, t: [t + x for (x,) in points], 0.2).query(X, 3.0)
    np.testing.assert_array_equal(said.values, X[:, 0] + 3.0)
    np.testing.assert_array_equal(said.variance, np.full(len(X), 0.2))


def test_callable_expert_raises_if_its_function_returns_nan() -> None:
    with pytest.raises(ExpertError, match=r"\[-30\.0\], t = 2\.0"):
        CallableExpert(lambda x, t: np.where(x[:, 0] < -15, np.nan, t), 0.1).query(X, 2.0)


@pytest.mark.parametrize("shape", [(), (1,), (6, 1)])
def test_callable_expert_raises_if_its_function_returns_a_wrong_shape(
    shape: tuple[int, ...],
) -> None:
    with pytest.raises(ExpertError, match=r"6 .*\("):
        CallableExpert(lambda points, t: np.zeros(shape), 0.1).query(X, 2.0)  # noqa: ARG005


# --- answers --------------------------------------------------------------------------------------


def test_answers_copy_their_values_and_refuse_invalid_arguments() -> None:
    values = np.array([1.0, np.nan])
    said = Answers(values, [0.5, np.nan], cost=3)  # type: ignore[arg-type]
    values[:] = 9.0
    np.testing.assert_array_equal(said.answered, [True, False])
    assert (len(said), said.values[0], said.cost) == (2, 1.0, 3.0)
    with pytest.raises(ValueError, match="read-only"):
        said.values[0] = 2.0
    assert_refused(
        ValueError, r"values must have shape \(q,\), got \(1, 1\)", Answers, [[1.0]], 1.0
    )
    assert_refused(ValueError, r"values must be numeric, got \['a'\]", Answers, ["a"], 1.0)
    assert_refused(
        ValueError, r"variance must have shape \(2,\), got \(1,\)", Answers, [1.0, 2.0], [1.0]
    )
    assert_refused(ValueError, r"got 0\.0 at position 1", Answers, [1.0, 2.0], [1.0, 0.0])
    with pytest.raises(ValueError, match=r"values must be at most 1e\+50 in size, got inf"):
        Answers([1.0, np.inf], 1.0)  # type: ignore[arg-type]
    assert_refused(
        ValueError, "cost must be finite and not negative, got -1", Answers, [1.0], 1.0, -1.0
    )

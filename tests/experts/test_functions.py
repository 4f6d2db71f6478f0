"""Experts that are known functions, and the answers they give."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tvbandits import Answers, Expert, ExpertError
from tvbandits.comparison.setup import REWARD_NOISE, SAMPLE_NOISE
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.datasets import DriftingBump, GPDrift
from tvbandits.experts import CallableExpert, SimulatorExpert

BUMP = DriftingBump(candidates=101)
X = BUMP.domain.X[20:60:7]  # type: ignore[union-attr]


# --- the simulator --------------------------------------------------------------------------------


def test_a_simulator_is_an_expert() -> None:
    assert isinstance(SimulatorExpert(BUMP), Expert)
    assert isinstance(CallableExpert(BUMP.value, 0.1), Expert)
    assert SimulatorExpert(BUMP).variance == BUMP.noise_variance


@given(order=st.permutations(range(len(X))), t=st.integers(1, 500), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=30)
def test_the_same_question_has_the_same_answer(order: list[int], t: int, seed: int) -> None:
    expert = SimulatorExpert(BUMP, variance=0.3, seed=seed)
    said = expert.query(X, float(t))
    again = SimulatorExpert(BUMP, variance=0.3, seed=seed)
    again.query(X[:2], 7.0)  # other questions in between do not matter
    np.testing.assert_array_equal(again.query(X[order], float(t)).values, said.values[order])
    one_by_one = [expert.query(X[[i]], float(t)).values[0] for i in range(len(X))]
    np.testing.assert_array_equal(one_by_one, said.values)


def test_answers_differ_by_time_point_and_seed() -> None:
    def noise(seed: int, points: Array, t: float) -> Array:
        said = SimulatorExpert(BUMP, seed=seed).query(points, t)
        return np.asarray(said.values - BUMP.value(points, t))

    draws = np.concatenate([noise(s, X, t) for s in (0, 1) for t in (1.0, 2.0)])
    assert len(np.unique(draws.round(12))) == 4 * len(X)


def test_the_noise_has_the_stated_variance() -> None:
    problem = GPDrift(points_per_axis=15, horizon=20)
    expert = SimulatorExpert(problem, variance=0.25, seed=3)
    points = problem.domain.X
    said = [expert.query(points, float(t)) for t in range(1, 21)]
    noise = np.array([s.values - problem.value(points, t) for t, s in enumerate(said, start=1)])
    assert all((s.variance == 0.25).all() for s in said)
    n = noise.size  # 4,500: mean and variance within 4.5 of their deviations
    assert abs(noise.mean()) < 4.5 * 0.5 / math.sqrt(n)
    assert abs(noise.var() / 0.25 - 1) < 4.5 * math.sqrt(2 / n)
    standard = (noise / 0.5).ravel()
    assert abs((standard**4).mean() - 3) < 4.5 * math.sqrt(96 / n)
    # Neither neighbours in space nor in time share any of it.
    for first, second in ((noise[:-1], noise[1:]), (noise[:, :-1], noise[:, 1:])):
        correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
        assert abs(correlation) < 4.5 / math.sqrt(first.size)


@pytest.mark.parametrize("stream", [REWARD_NOISE, SAMPLE_NOISE])
def test_the_noise_is_not_that_of_the_rewards(stream: int) -> None:
    points = np.random.default_rng(0).random((900, 2))
    silent = CallableProblem()
    said = SimulatorExpert(silent, variance=1.0, seed=4).query(points, 5.0).values  # type: ignore[arg-type]
    told = keyed_normal(4, stream, points, 5.0)
    assert not np.isin(said, told).any()
    assert abs(np.corrcoef(said, told)[0, 1]) < 4.5 / math.sqrt(900)


@dataclass(frozen=True)
class CallableProblem:
    """Nothing but a reward of zero."""

    noise_variance: float = 1.0

    def value(self, points: Array, t: float) -> Array:  # noqa: ARG002
        return np.zeros(len(points))


def test_costs_add_up() -> None:
    assert SimulatorExpert(BUMP, cost=2.5).query(X, 1.0).cost == 2.5 * len(X)
    assert SimulatorExpert(BUMP).query(X, 1.0).cost == 0.0


def test_experts_can_be_pickled() -> None:
    expert = SimulatorExpert(BUMP, seed=4)
    again = pickle.loads(pickle.dumps(expert))
    np.testing.assert_array_equal(again.query(X, 3.0).values, expert.query(X, 3.0).values)


@pytest.mark.parametrize("variance", [0.0, -1.0, math.nan, math.inf])
def test_bad_variances(variance: float) -> None:
    match = f"variance must be positive and finite, got {variance}"
    with pytest.raises(ValueError, match=match):
        SimulatorExpert(BUMP, variance=variance)
    with pytest.raises(ValueError, match=match):
        CallableExpert(BUMP.value, variance)


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf])
def test_bad_costs(cost: float) -> None:
    with pytest.raises(ValueError, match=f"cost must be finite and not negative, got {cost}"):
        SimulatorExpert(BUMP, cost=cost)


# --- a plain function -----------------------------------------------------------------------------


def test_a_function_is_lifted() -> None:
    said = CallableExpert(lambda points, t: [t + x for (x,) in points], 0.2).query(X, 3.0)
    np.testing.assert_array_equal(said.values, X[:, 0] + 3.0)
    np.testing.assert_array_equal(said.variance, np.full(len(X), 0.2))


def some_missing(points: Array, t: float) -> Array:
    return np.where(points[:, 0] < -15, np.nan, t)


def test_nan_is_an_error_or_a_refusal() -> None:
    with pytest.raises(ExpertError, match=r"returned NaN at \[-30\.0\], t = 2\.0"):
        CallableExpert(some_missing, 0.1).query(X, 2.0)
    said = CallableExpert(some_missing, 0.1, nan_means_no_answer=True).query(X, 2.0)
    np.testing.assert_array_equal(said.answered, X[:, 0] >= -15)


@pytest.mark.parametrize("shape", [(), (1,), (6, 1)])
def test_a_function_must_return_a_number_for_each_point(shape: tuple[int, ...]) -> None:
    with pytest.raises(ExpertError, match=r"the function must return 6 numbers, got shape \("):
        CallableExpert(lambda points, t: np.zeros(shape), 0.1).query(X, 2.0)  # noqa: ARG005


def test_a_function_must_be_one() -> None:
    with pytest.raises(ValueError, match=r"function must be callable, got 3\.0"):
        CallableExpert(3.0, 0.1)  # type: ignore[arg-type]


# --- answers --------------------------------------------------------------------------------------


def test_answers_are_checked_and_frozen() -> None:
    values = np.array([1.0, np.nan])
    said = Answers(values, [0.5, np.nan], cost=3)  # type: ignore[arg-type]
    values[:] = 9.0
    np.testing.assert_array_equal(said.answered, [True, False])
    assert (len(said), said.values[0], said.cost) == (2, 1.0, 3.0)
    with pytest.raises(ValueError, match="read-only"):
        said.values[0] = 2.0
    with pytest.raises(ValueError, match=r"values must have shape \(q,\), got \(1, 1\)"):
        Answers([[1.0]], 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"values must be numeric, got \['a'\]"):
        Answers(["a"], 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"variance must have shape \(2,\), got \(1,\)"):
        Answers([1.0, 2.0], [1.0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"got 0\.0 at position 1"):
        Answers([1.0, 2.0], [1.0, 0.0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="values must be finite, or NaN for no answer; got inf"):
        Answers([1.0, np.inf], 1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cost must be finite and not negative, got -1"):
        Answers([1.0], 1.0, -1.0)  # type: ignore[arg-type]

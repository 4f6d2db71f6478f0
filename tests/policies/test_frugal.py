"""Frugal-GP-UCB: its budget of queries, its observations, and its plays."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import decision_deviation
from tests.oracles import loops
from tvbandits import Answers, Bandit, Box, Candidates, Every, ExpertDownWarning, Options, policies
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.queries import OnAverage, PlausibleMaximizers, RandomPoints
from tvbandits.validation import Array

LINE = Candidates.grid([[0, 3]], 10)
LEARN = Every(steps=8, first=(4,), observations=40, iterations=2)
NOISE = 0.01


def value(X: Array, t: float) -> Array:
    return np.asarray(np.sin(2.0 * X[:, 0] + t / 5.0) + 0.3 * np.cos(X.sum(axis=1) + t / 9.0))


class RecordingExpert:
    """An expert that records its queries and answers, and answers where `answers` is true."""

    def __init__(self, unit: float = 1.0, answers: Any = None, truth: Any = value) -> None:
        self.unit, self.answers, self.truth = unit, answers, truth
        self.points: list[Array] = []
        self.times: list[float] = []
        self.recorded_answers: list[Array] = []

    def query(self, X: Array, t: float) -> Answers:
        self.points.append(X)
        self.times.append(t)
        values = self.truth(X, t) + 0.1 * keyed_normal(0, 2, X, t)
        if self.answers is not None:
            values = np.where(self.answers(X, t), values, np.nan)
        self.recorded_answers.append(self.unit * values)
        return Answers(self.recorded_answers[-1], NOISE * self.unit**2)


class UnreachableExpert:
    def query(self, X: Array, t: float) -> Answers:
        raise ConnectionError(f"no line for {len(X)} questions at {t}")


def frugal(
    expert: Any, domain: Any = LINE, unit: float = 1.0, kernel: Any = None, **more: Any
) -> Bandit:
    space = RBF(0.5) if kernel is None else kernel
    parts = {"queries_per_step": 2.0, "noise": NOISE, "refit": LEARN, **more}
    noise, options = parts.pop("noise"), Options(refit=parts.pop("refit"))
    return policies.frugal_gp_ucb(
        domain,
        kernel=space,
        noise_variance=noise * unit**2,
        expert=expert,
        options=options,
        **parts,
    )


def play(bandit: Bandit, times: Sequence[float], unit: float = 1.0, truth: Any = value) -> Array:
    def reward(x: Array, t: float) -> Array:
        return unit * (truth(x, t) + 0.1 * keyed_normal(0, 1, x, t))

    return loops.play(bandit, reward, times)


STEPS = range(1, 13)


# --- the budget -----------------------------------------------------------------------------------


@given(
    budget=st.sampled_from([0.0, 0.3, 1.0, 2.5, 7.0]),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=20)
def test_frugal_gp_ucb_never_exceeds_its_budget_of_queries(
    budget: float, sizes: list[int], seed: int
) -> None:
    expert, rng = RecordingExpert(answers=lambda X, _t: X[:, 0] < 2.0), np.random.default_rng(seed)
    bandit = frugal(
        expert, queries_per_step=budget, refit=Every(steps=3, observations=30, iterations=1)
    )
    for t, n in enumerate(sizes, 1):
        X = LINE.X[rng.integers(0, 10, n)]  # several rewards at once, some of them late
        info = bandit.tell(X, value(X, t), t - rng.integers(0, 2, n) * 0.5)
        assert sum(map(len, expert.points)) == info.queries.total_asked <= budget * info.readings
        assert info.readings == sum(sizes[:t])
    assert info.queries.total_answered == sum(
        (points[:, 0] < 2.0).sum() for points in expert.points
    )


def test_frugal_gp_ucb_uses_the_given_plan_or_budget() -> None:
    assert frugal(
        RecordingExpert(), queries_per_step=2.5
    ).recipe.query_config.plan == PlausibleMaximizers(OnAverage(2.5))
    assert frugal(RecordingExpert(), plan=RandomPoints(2)).recipe.query_config.plan == RandomPoints(
        2
    )


def test_frugal_gp_ucb_keeps_answers_as_observations() -> None:
    expert = RecordingExpert(answers=lambda X, t: np.full(len(X), t % 3 != 0))
    bandit = frugal(expert)
    play(bandit, STEPS)
    values, times = (
        np.concatenate(expert.recorded_answers),
        np.repeat(expert.times, list(map(len, expert.recorded_answers))),
    )
    answered = ~np.isnan(values)
    assert 0 < answered.sum() < len(values)
    answers = bandit.state.answers
    np.testing.assert_array_equal(answers.y, values[answered])
    np.testing.assert_array_equal(answers.t, times[answered])
    np.testing.assert_array_equal(answers.X, np.concatenate(expert.points)[answered])
    info = bandit.info
    assert info.queries.total_answered == answered.sum()
    assert info.queries.total_refused == info.queries.total_asked - info.queries.total_answered
    assert bandit.state.rewards.t.tolist() == list(STEPS)
    bandit.ask()
    assert bandit.info.posterior.in_use == 12 + len(answers)
    assert bandit.info.posterior.forgotten == 0


# --- the plays ------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", ["theory", 3.0, 0.4])
def test_frugal_gp_ucb_decides_with_a_smaller_width_after_answers(width: Any) -> None:
    expert = RecordingExpert(answers=lambda X, t: np.full(len(X), t % 3 == 0))
    bandit = frugal(expert, beta=width)
    assert bandit.recipe.query_config.informed_width == 1.0
    informed_steps, differences = [], 0
    for t in range(1, 19):
        mean, deviation = bandit.predict(LINE.X, t)[0], decision_deviation(bandit, LINE.X, t)
        explored = bandit.info.queries.answered > 0
        assert bandit.state.queries.answered == explored
        x = bandit.ask(t)
        beta = bandit.info.beta
        if width != "theory":
            assert beta == width  # `info` reports the full width
        upper, informed = mean + beta * deviation, mean + min(beta, 1.0) * deviation
        expected = informed if explored else upper
        np.testing.assert_array_equal(bandit.predict(LINE.X, t)[0], mean)
        assert expected[LINE.index(x)[0]] == pytest.approx(expected.max(), abs=1e-12)
        differences += int(informed.argmax() != upper.argmax())
        informed_steps.append(explored)
        bandit.tell(x, value(x, t), t)
    assert 2 <= sum(informed_steps) <= 9
    # The two widths choose different points, unless the width is small.
    assert differences == 0 if width == 0.4 else differences > 2


@pytest.mark.parametrize("domain", [LINE, Box([[0.0, 3.0]])], ids=str)
@pytest.mark.parametrize("how", ["down", "refusing"])
def test_frugal_gp_ucb_without_answers_plays_as_without_an_expert(how: str, domain: Any) -> None:
    expert = (
        UnreachableExpert()
        if how == "down"
        else RecordingExpert(answers=lambda X, _t: np.zeros(len(X), bool))
    )
    bandit = frugal(expert, domain)
    # On a box, queries draw random numbers, so that only the first step is compared.
    plain = Bandit(replace(bandit.recipe, query_config=None))
    steps = STEPS if isinstance(domain, Candidates) else range(1, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plays = play(bandit, steps)
    np.testing.assert_array_equal(plays, play(plain, steps))
    np.testing.assert_array_equal(bandit.state.model.kernel.theta, plain.state.model.kernel.theta)
    assert bandit.info.queries.total_answered == 0
    assert bandit.info.queries.total_refused == bandit.info.queries.total_asked > 0
    outages = [each for each in caught if issubclass(each.category, ExpertDownWarning)]
    assert len(outages) == len(caught) == (1 if how == "down" else 0)

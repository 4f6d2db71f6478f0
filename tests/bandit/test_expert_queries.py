"""Expert queries and answers: their number, points and times, before or after a decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from tests.helpers.players import KERNEL, LINE, NOISE, RecordingWaveExpert, noisy_wave
from tests.helpers.refusals import assert_refused
from tests.oracles.dense import Dense
from tvbandits import Answers, Bandit, Box, NothingAvailableError, Options, Recipe, policies
from tvbandits.acquisition.widths import Fixed
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.queries import Pool, QueryPlan, RandomPoints
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import Array, Index

Consult = Literal["after tell", "before ask"]
NAN = float("nan")
DRIFT = OnSpace(KERNEL) * Drift(0.1)


def bandit_with(expert: Any, consult: Consult = "after tell", k: int = 2, **parts: Any) -> Bandit:
    config: dict[str, Any] = {"pool": "domain"}
    config |= {
        n: parts.pop(n) for n in ("reuse_answers", "most_answers", "informed_width") if n in parts
    }
    plan = parts.pop("plan", None) or RandomPoints(k)
    recipe = Recipe(
        parts.pop("domain", LINE),
        parts.pop("kernel", KERNEL),
        NOISE,
        **{"beta": Fixed(2.0), "mean": 0.1, **parts},
        query_config=QueryConfig(plan, expert, **config),
        consult=consult,
    )
    return Bandit(recipe, seed=1)


# --- number of queries ------------------------------------------------------------------------------

Tell = Callable[[Bandit, Array, float], Any]


def one_by_one(bandit: Bandit, X: Array, t: float) -> None:
    for x in X:
        bandit.tell(x, noisy_wave(x[None], t), t)


def at_once(bandit: Bandit, X: Array, t: float) -> None:
    bandit.tell(X, noisy_wave(X, t), t)


def without_times(bandit: Bandit, X: Array, t: float) -> None:
    for x in X[::-1]:
        bandit.tell(x, noisy_wave(x[None], t))


def at_increasing_times(bandit: Bandit, X: Array, t: float) -> None:
    """Play the points of a decision one after the other, at their own times."""
    for i, x in enumerate(X):
        bandit.tell(x, noisy_wave(x[None], t + 0.1 * i), t + 0.1 * i)


def with_failures(bandit: Bandit, X: Array, t: float) -> None:
    for i, x in enumerate(X):
        bandit.tell(x, [NAN] if i % 2 == 0 else noisy_wave(x[None], t), t)


def all_failed(bandit: Bandit, X: Array, t: float) -> None:
    bandit.tell(X, np.full(len(X), NAN), t)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(
    "how", [one_by_one, at_once, without_times, at_increasing_times, with_failures, all_failed]
)
@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_bandit_queries_twice_a_decision_however_rewards_are_told(
    consult: Any, how: Tell, n: int
) -> None:
    expert = RecordingWaveExpert()
    bandit = bandit_with(expert, consult)
    for t in range(1, 13):
        how(bandit, bandit.ask(float(t), n=n), float(t))
        assert bandit.info.queries.total_asked == 2 * t
        assert bandit.state.queries.decisions == t
    assert [len(points) for points, _ in expert.queries] == [2] * 12
    assert [int(query_time) for _, query_time in expert.queries] == list(range(1, 13))
    assert len(bandit.pending) == 0


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_bandit_queries_once_a_decision_if_rewards_are_late(consult: Any) -> None:
    expert = RecordingWaveExpert()
    bandit = bandit_with(expert, consult)
    waiting = []
    for t in map(float, range(1, 21)):
        waiting.append((bandit.ask(t), t))
        if len(waiting) > 4:
            X, time = waiting.pop(0)
            bandit.tell(X, noisy_wave(X, time), time)
        # Queries are about the pending decision, never about a past with rewards.
        assert all(query_time <= t for _, query_time in expert.queries)
    # After a tell, or before the next decision while rewards are missing: once for each decision.
    assert [query_time for _, query_time in expert.queries] == list(range(1, 21))


def test_tell_of_a_late_reward_queries_nothing() -> None:
    expert = RecordingWaveExpert()
    bandit = bandit_with(expert)
    for t in (1.0, 2.0, 3.0):
        X = bandit.ask(t)
        bandit.tell(X, noisy_wave(X, t), t)
    assert len(expert.queries) == 3
    for when in ("no point is pending", "a decision is pending, and a query due"):
        state = bandit.state
        bandit.tell(LINE.X[[4]], [0.3], 1.5)
        bandit.tell(LINE.X[[4, 5]], [0.3, 0.2], [0.5, 2.5])
        assert len(expert.queries) == 3, when
        assert bandit.state.answers is state.answers
        X = bandit.ask(4.0)
    bandit.tell(X, noisy_wave(X, 4.0), 4.0)
    assert len(expert.queries) == 4
    assert bandit.info.readings == 10


def test_tell_without_ask_queries_once_a_time() -> None:
    expert = RecordingWaveExpert()
    bandit = bandit_with(expert)
    for t in (1.0, 1.0, 2.0, 2.0, 2.0, 3.5):
        bandit.tell(LINE.X[[3]], [0.1], t)
    assert [query_time for _, query_time in expert.queries] == [1.0, 2.0, 3.5]


def test_query_before_ask_is_about_the_time_of_the_decision() -> None:
    expert = RecordingWaveExpert()
    bandit = bandit_with(expert, "before ask", beta=Fixed(0.0))
    X = bandit.ask(10.5)
    bandit.tell(X, noisy_wave(X, 10.5), 10.5)
    bandit.ask(30.0)
    assert [query_time for _, query_time in expert.queries] == [10.5, 30.0]
    np.testing.assert_array_equal(bandit.state.answers.t, [30.0, 30.0])
    # Without new observations, the same decision queries nothing more.
    bandit.ask(30.0)
    assert len(expert.queries) == 2


def test_query_before_ask_informs_the_same_decision() -> None:
    """Queries about the same time inform the next decision, or this one."""
    after, before = (
        bandit_with(RecordingWaveExpert(), each, k=41) for each in ("after tell", "before ask")
    )
    for bandit in (after, before):
        X = LINE.X[[20]]
        bandit.tell(X, noisy_wave(X, 1.0), 1.0)
    assert len(after.state.answers) == 41
    assert len(before.state.answers) == 0
    x = before.ask(2.0)
    np.testing.assert_array_equal(before.state.answers.t, np.full(41, 2.0))
    mean, deviation = before.predict(LINE.X, 2.0)
    assert LINE.index(x)[0] == np.argmax(mean + 2.0 * deviation)
    assert deviation.max() < 0.15  # all of the line was queried


# --- the pool of a plan -----------------------------------------------------------------------------


@dataclass
class RecordingPlan(QueryPlan):
    """A query plan that records its pools, and selects the first points."""

    pools: list[Pool] = field(default_factory=list)

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:  # noqa: ARG002
        self.pools.append(pool)
        return np.arange(3)


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_pool_posterior_is_at_the_time_of_the_decision(consult: Any) -> None:
    plan = RecordingPlan()
    bandit = bandit_with(
        RecordingWaveExpert(), consult, plan=plan, kernel=DRIFT, reuse_answers=True
    )
    for t in (1.0, 2.0, 4.5):
        X = LINE.X[[int(8 * t)]]
        bandit.ask(t)
        bandit.drop(bandit.pending)
        # The plan's posterior is at the time of the decision, given the data so far.
        bandit.tell(X, noisy_wave(X, t), t)
    pool, posterior = plan.pools[-1], plan.pools[-1].require_posterior()
    decision = 5.5 if consult == "after tell" else 4.5
    rewards = (
        bandit.state.rewards if consult == "after tell" else bandit.state.rewards.take(slice(2))
    )
    observations = rewards.append(bandit.state.answers.take(slice(-3)))
    oracle = Dense(
        DRIFT,
        np.column_stack([observations.X, observations.t]),
        (observations.y - 0.1)[:, None],
        observations.variance,
    )
    at = np.column_stack([LINE.X, np.full(41, decision)])
    np.testing.assert_array_equal(pool.points, LINE.X)
    np.testing.assert_allclose(posterior.mean, 0.1 + oracle.mean(at)[:, 0], atol=1e-8)
    np.testing.assert_allclose(posterior.deviation, oracle.deviation(at), atol=1e-8)
    query_inputs = np.column_stack([LINE.X[[7]], [4.5]])
    np.testing.assert_allclose(
        posterior.cross_covariance([7]), oracle.covariance(query_inputs, at), atol=1e-8
    )
    assert (pool.rewards, pool.asked, pool.decisions) == (len(rewards), 6, 3)


def test_pool_posterior_has_the_median_variance_of_answers() -> None:
    plan = RecordingPlan()
    expert = RecordingWaveExpert(variance=0.3)
    bandit = bandit_with(expert, plan=plan, informed_width=1.0)
    for t in (1.0, 2.0, 3.0):
        expert.variance = 0.3 * t
        bandit.ask(t)
        bandit.tell(LINE.X[[3]], [0.1], t)
    assert [pool.require_posterior().noise_variance for pool in plan.pools] == [NOISE, 0.3, 0.6]
    bandit.answer(LINE.X[:3], [0.1, 0.2, 0.3], 3.0, noise_variance=[0.5, 0.7, 4.0])
    bandit.ask(4.0)
    bandit.tell(LINE.X[[3]], [0.1], 4.0)
    assert plan.pools[-1].require_posterior().noise_variance == 0.7  # the median


# --- questions and answers by hand ------------------------------------------------------------------


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_questions_equal_the_queries_of_an_expert(consult: Any) -> None:
    with_expert, without_expert = (
        bandit_with(RecordingWaveExpert(), consult, k=3),
        bandit_with(None, consult, k=3),
    )
    for t in map(float, range(1, 9)):
        if consult == "before ask":
            answer_questions(without_expert, t)
        X = with_expert.ask(t, n=2)
        np.testing.assert_array_equal(without_expert.ask(t, n=2), X)
        for each in (with_expert, without_expert):
            each.tell(X, noisy_wave(X, t), t)
        if consult == "after tell":
            answer_questions(without_expert, t)
        np.testing.assert_array_equal(without_expert.state.answers.X, with_expert.state.answers.X)
        np.testing.assert_array_equal(without_expert.state.answers.y, with_expert.state.answers.y)
        assert (
            without_expert.info.queries.total_asked == with_expert.info.queries.total_asked == 3 * t
        )
    np.testing.assert_array_equal(with_expert.predict(LINE.X), without_expert.predict(LINE.X))
    assert with_expert.state == without_expert.state


def answer_questions(bandit: Bandit, t: float, parts: Sequence[slice] = (slice(None),)) -> Array:
    """Take the questions, and tell their answers in parts."""
    points = bandit.questions(t)
    answers = RecordingWaveExpert().query(points, t) if len(points) else Answers.none(0)
    for part in parts:
        if len(points[part]):
            bandit.answer(points[part], answers.values[part], t, answers.variance[part])
    return points


@pytest.mark.parametrize("reuse", [False, True])
def test_answer_in_parts_equals_answer_at_once(reuse: bool) -> None:
    whole, parts = (bandit_with(None, "before ask", k=4, reuse_answers=reuse) for _ in range(2))
    for t in map(float, range(1, 7)):
        answer_questions(whole, t)
        answer_questions(parts, t, (slice(0, 1), slice(1, 1), slice(1, 3), slice(3, None)))
        X = whole.ask(t)
        np.testing.assert_array_equal(parts.ask(t), X)
        for each in (whole, parts):
            each.tell(X, noisy_wave(X, t), t)
    assert whole.state == parts.state
    assert len(whole.state.answers) == (24 if reuse else 4)
    assert whole.info.queries.total_answered == parts.info.queries.total_answered == 24


def test_questions_without_answers_change_no_prediction() -> None:
    """The bandit decides without them, and the questions count as asked."""
    bandit, twin = bandit_with(None, "before ask", k=3), bandit_with(None, "before ask", k=3)
    for t in map(float, range(1, 7)):
        assert len(bandit.questions(t)) == 3
        assert len(bandit.questions(t)) == 0  # the decision has had its questions
        bandit.drop(bandit.ask(t))
        twin.drop(twin.ask(t))
        for each in (bandit, twin):
            each.tell(LINE.X[[int(t)]], [0.1], t)
    assert (bandit.info.queries.total_asked, bandit.info.queries.total_answered) == (18, 0)
    np.testing.assert_array_equal(bandit.predict(LINE.X), twin.predict(LINE.X))


def test_answer_counts_nan_as_refused() -> None:
    bandit = bandit_with(None, "before ask", k=3)
    points = bandit.questions(1.0)
    info = bandit.answer(points, [NAN, 0.4, NAN], 1.0)
    assert (info.queries.answered, info.queries.refused) == (1, 2)
    np.testing.assert_array_equal(bandit.state.answers.X, points[[1]])
    np.testing.assert_array_equal(bandit.state.answers.variance, [NOISE])
    info = bandit.answer(points[:1], [NAN], 1.0)
    assert (info.queries.total_answered, info.queries.total_refused) == (1, 3)
    assert len(bandit.state.answers) == 1


def test_questions_and_answer_have_a_default_time() -> None:
    after, before = (bandit_with(None, each) for each in ("after tell", "before ask"))
    for bandit in (after, before):
        points = bandit.questions()
        assert bandit.state.queries.latest == 1.0
        bandit.answer(points, [0.1, 0.2])
        np.testing.assert_array_equal(bandit.state.answers.t, [1.0, 1.0])
        X = bandit.ask(7.25)
        bandit.questions()
        assert bandit.state.queries.latest == 7.25  # the pending decision
        bandit.tell(X, [0.1], 7.25)
    after.questions(8.0)
    before.questions()
    assert before.state.queries.latest == 8.25
    after.answer(LINE.X[:1], [0.5])
    assert after.state.answers.t[-1] == 8.0


@pytest.mark.parametrize("reuse", [False, True])
def test_answer_two_steps_late_counts_at_its_own_time(reuse: bool) -> None:
    bandit = bandit_with(None, "before ask", kernel=DRIFT, k=3, reuse_answers=reuse)
    late: list[tuple[Array, float]] = []
    answers_in_use: list[tuple[Array, float]] = []
    for t in map(float, range(1, 9)):
        late.append((bandit.questions(t), t))
        if len(late) > 2:
            points, time = late.pop(0)
            bandit.answer(points, noisy_wave(points, time), time, noise_variance=0.05)
            answers_in_use = [*answers_in_use, (points, time)] if reuse else [(points, time)]
        X = bandit.ask(t)
        rewards = bandit.state.rewards
        Z = np.column_stack([rewards.X, rewards.t])
        y, v = rewards.y, rewards.variance
        for points, time in answers_in_use:
            Z = np.vstack([Z, np.column_stack([points, np.full(3, time)])])
            y, v = np.append(y, noisy_wave(points, time)), np.append(v, np.full(3, 0.05))
        oracle = Dense(DRIFT, Z, (y - 0.1)[:, None], v)
        at = np.column_stack([LINE.X, np.full(41, t)])
        mean, deviation = bandit.predict(LINE.X, t)
        np.testing.assert_allclose(mean, 0.1 + oracle.mean(at)[:, 0], atol=1e-8)
        np.testing.assert_allclose(deviation, oracle.deviation(at), atol=1e-8)
        bandit.tell(X, noisy_wave(X, t), t)
    assert len(bandit.state.answers) == (18 if reuse else 3)


def test_answer_with_an_earlier_time_keeps_newer_answers() -> None:
    bandit = bandit_with(None, "before ask")
    bandit.answer(LINE.X[[1, 2]], [0.1, 0.2], 5.0)
    bandit.answer(LINE.X[[3]], [0.3], 3.0)
    np.testing.assert_array_equal(bandit.state.answers.t, [5.0, 5.0, 3.0])
    bandit.answer(LINE.X[[4]], [0.4], 6.0)
    np.testing.assert_array_equal(bandit.state.answers.t, [6.0])


@pytest.mark.parametrize("most", [1, 5])
def test_answer_keeps_at_most_most_answers(most: int) -> None:
    bandit = bandit_with(None, "before ask", reuse_answers=True, most_answers=most)
    for t in (1.0, 2.0, 3.0, 4.0):
        bandit.answer(LINE.X[[1, 2]], [t, t], t)
    np.testing.assert_array_equal(bandit.state.answers.y, [1.0, 1, 2, 2, 3, 3, 4, 4][-most:])


def test_answer_narrows_the_width_of_the_next_decision_only() -> None:
    bandit = bandit_with(None, "before ask", informed_width=0.0)
    bandit.tell(LINE.X[[10, 30]], [0.9, -0.5], 1.0)
    bandit.questions(2.0)
    bandit.answer(LINE.X[[40]], [0.2], 2.0)
    mean, deviation = bandit.predict(LINE.X, 2.0)
    x = bandit.ask(2.0)
    bandit.drop(x)
    assert LINE.index(x)[0] == np.argmax(mean)
    assert LINE.index(bandit.ask(2.0))[0] == np.argmax(mean + 2.0 * deviation) != np.argmax(mean)


# --- wrong calls ------------------------------------------------------------------------------------


def test_questions_and_answer_need_a_query_plan() -> None:
    bandit = policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE)
    message = "{} a query plan, and the recipe has none"
    assert_refused(ValueError, message.format("questions need"), bandit.questions)
    assert_refused(ValueError, message.format("answer needs"), bandit.answer, LINE.X[:1], [0.1])


# --- refused calls ----------------------------------------------------------------------------------


def make_refused_calls() -> dict[str, tuple[Callable[[Any], Bandit], dict[str, Any]]]:
    """Return by name a bandit that queries before decisions, and a wrong call of `ask`."""
    box = Box([[0.0, 1.0], [0.0, 1.0]])

    def on(domain: Any, X: Any, **parts: Any) -> Callable[[Any], Bandit]:
        def make(expert: Any) -> Bandit:
            bandit = bandit_with(expert, "before ask", domain=domain, **parts)
            bandit.tell(X, [0.1], 1)
            return bandit

        return make

    line, other = on(LINE, LINE.X[:1]), LINE.X[1:2]
    plane = on(box, [[0.5, 0.5]])
    far = np.arange(len(LINE)) == len(LINE) - 1

    def free(X: Array) -> Any:
        return np.zeros(len(X), dtype=bool)

    return {
        "nothing near": (line, {"available": far, "near": 1e-6}),
        "near is no distance": (line, {"near": -1.0}),
        "near is not a number": (line, {"near": NAN}),
        "no candidate": (line, {"available": np.zeros(len(LINE), dtype=bool)}),
        "wrong mask": (line, {"available": [True]}),
        "wrong n": (line, {"n": 0}),
        "n too large": (line, {"n": 10**9}),
        "wrong time": (line, {"t": float("inf")}),
        "a time that is over": (line, {"t": 0.5}),
        "an unknown context": (line, {"context": [1.0]}),
        "no room beside the control": (on(LINE, other, options=Options(control=LINE.X[0])), {"n": 1}),
        "nothing near a box's last point": (
            plane, {"near": 0.1, "available": lambda X: X[:, 0] > 0.9},
        ),
        "nothing of a box": (plane, {"available": free}),
        "a box's mask of a wrong shape": (plane, {"available": lambda _: np.ones(1, dtype=bool)}),
    }  # fmt: skip


@pytest.mark.parametrize("case", make_refused_calls())
def test_ask_queries_no_expert_if_it_is_refused(case: str) -> None:
    make, options = make_refused_calls()[case]
    expert = RecordingWaveExpert()
    bandit = make(expert)
    before, count = bandit.state, len(expert.queries)
    with pytest.raises(ValueError):  # noqa: PT011 - each case has its own message
        bandit.ask(**{"t": 2.0, **options})
    assert len(expert.queries) == count
    assert bandit.state is before
    bandit.ask(2.0)
    assert len(expert.queries) == count + 1


def test_ask_near_without_a_played_point_queries_no_expert() -> None:
    expert = RecordingWaveExpert()
    bandit = bandit_with(expert, "before ask")
    with pytest.raises(ValueError, match=r"0\.5"):
        bandit.ask(1.0, near=0.5)
    assert expert.queries == []


def test_ask_puts_no_overdue_query_if_it_is_refused() -> None:
    """Queries are due after a tell, and the rewards of the last decision are missing."""
    expert = RecordingWaveExpert()
    bandit = bandit_with(expert)
    X = bandit.ask(1.0)
    bandit.tell(X, [0.1], 1.0)
    bandit.ask(2.0)
    assert len(expert.queries) == 1
    with pytest.raises(NothingAvailableError):
        bandit.ask(3.0, available=LINE.X[:, 0] == LINE.X[-1, 0], near=1e-9)
    assert len(expert.queries) == 1
    bandit.ask(3.0)
    assert len(expert.queries) == 2

"""Questions and answers: how many, about what, about when, and whenever they come."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pytest

from tests.helpers.players import KERNEL, LINE, NOISE, Known, noisy
from tests.helpers.refusals import refused
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


# --- a budget is per decision -----------------------------------------------------------------------

Tell = Callable[[Bandit, Array, float], Any]


def one_by_one(bandit: Bandit, X: Array, t: float) -> None:
    for x in X:
        bandit.tell(x, noisy(x[None], t), t)


def at_once(bandit: Bandit, X: Array, t: float) -> None:
    bandit.tell(X, noisy(X, t), t)


def without_times(bandit: Bandit, X: Array, t: float) -> None:
    for x in X[::-1]:
        bandit.tell(x, noisy(x[None], t))


def played_in_turn(bandit: Bandit, X: Array, t: float) -> None:
    """The points of a decision are played one after the other, at times of their own."""
    for i, x in enumerate(X):
        bandit.tell(x, noisy(x[None], t + 0.1 * i), t + 0.1 * i)


def with_failures(bandit: Bandit, X: Array, t: float) -> None:
    for i, x in enumerate(X):
        bandit.tell(x, [NAN] if i % 2 == 0 else noisy(x[None], t), t)


def all_failed(bandit: Bandit, X: Array, t: float) -> None:
    bandit.tell(X, np.full(len(X), NAN), t)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize(
    "how", [one_by_one, at_once, without_times, played_in_turn, with_failures, all_failed]
)
@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_two_questions_a_decision_however_rewards_are_told(consult: Any, how: Tell, n: int) -> None:
    expert = Known()
    bandit = bandit_with(expert, consult)
    for t in range(1, 13):
        how(bandit, bandit.ask(float(t), n=n), float(t))
        assert bandit.info.queries.total_asked == 2 * t
        assert bandit.state.queries.decisions == t
    assert [len(points) for points, _ in expert.asked] == [2] * 12
    assert [int(about) for _, about in expert.asked] == list(range(1, 13))
    assert len(bandit.pending) == 0


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_two_questions_a_decision_where_rewards_come_late(consult: Any) -> None:
    expert = Known()
    bandit = bandit_with(expert, consult)
    waiting = []
    for t in map(float, range(1, 21)):
        waiting.append((bandit.ask(t), t))
        if len(waiting) > 4:
            X, then = waiting.pop(0)
            bandit.tell(X, noisy(X, then), then)
        # Never about a past that is known: about the decision that is out.
        assert all(about <= t for _, about in expert.asked)
    # After a tell, or, while no reward has come, before the next decision: once for each of them.
    assert [about for _, about in expert.asked] == list(range(1, 21))


def test_a_late_reward_asks_nothing() -> None:
    expert = Known()
    bandit = bandit_with(expert)
    for t in (1.0, 2.0, 3.0):
        X = bandit.ask(t)
        bandit.tell(X, noisy(X, t), t)
    assert len(expert.asked) == 3
    for when in ("nothing is out", "a decision is out, and due"):
        state = bandit.state
        bandit.tell(LINE.X[[4]], [0.3], 1.5)
        bandit.tell(LINE.X[[4, 5]], [0.3, 0.2], [0.5, 2.5])
        assert len(expert.asked) == 3, when
        assert bandit.state.answers is state.answers
        X = bandit.ask(4.0)
    bandit.tell(X, noisy(X, 4.0), 4.0)
    assert len(expert.asked) == 4
    assert bandit.info.readings == 10


def test_rewards_that_nobody_asked_for_are_news_once_a_time() -> None:
    expert = Known()
    bandit = bandit_with(expert)
    for t in (1.0, 1.0, 2.0, 2.0, 2.0, 3.5):
        bandit.tell(LINE.X[[3]], [0.1], t)
    assert [about for _, about in expert.asked] == [1.0, 2.0, 3.5]


def test_before_ask_is_about_the_time_of_the_decision() -> None:
    expert = Known()
    bandit = bandit_with(expert, "before ask", beta=Fixed(0.0))
    X = bandit.ask(10.5)
    bandit.tell(X, noisy(X, 10.5), 10.5)
    bandit.ask(30.0)
    assert [about for _, about in expert.asked] == [10.5, 30.0]
    np.testing.assert_array_equal(bandit.state.answers.t, [30.0, 30.0])
    # Nothing has been told since: a second look at the same decision asks nothing more.
    bandit.ask(30.0)
    assert len(expert.asked) == 2


def test_after_tell_is_about_the_time_told_before_ask_decides_with_it() -> None:
    """The same questions about the same time serve the next decision, or this one."""
    after, before = (bandit_with(Known(), each, k=41) for each in ("after tell", "before ask"))
    for bandit in (after, before):
        X = LINE.X[[20]]
        bandit.tell(X, noisy(X, 1.0), 1.0)
    assert len(after.state.answers) == 41
    assert len(before.state.answers) == 0
    x = before.ask(2.0)
    np.testing.assert_array_equal(before.state.answers.t, np.full(41, 2.0))
    mean, deviation = before.predict(LINE.X, 2.0)
    assert LINE.index(x)[0] == np.argmax(mean + 2.0 * deviation)
    assert deviation.max() < 0.15  # it knows the whole line


# --- what the plan is shown -------------------------------------------------------------------------


@dataclass
class Looking(QueryPlan):
    """A plan that keeps the pools it is shown, and asks about the first points."""

    pools: list[Pool] = field(default_factory=list)

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:  # noqa: ARG002
        self.pools.append(pool)
        return np.arange(3)


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_beliefs_are_about_the_decision_that_answers_are_for(consult: Any) -> None:
    plan = Looking()
    bandit = bandit_with(Known(), consult, plan=plan, kernel=DRIFT, reuse_answers=True)
    for t in (1.0, 2.0, 4.5):
        X = LINE.X[[int(8 * t)]]
        bandit.ask(t)
        bandit.drop(bandit.pending)
        # What is known when the plan looks, spoken about at the decision's time.
        bandit.tell(X, noisy(X, t), t)
    pool, beliefs = plan.pools[-1], plan.pools[-1].require_posterior()
    decision = 5.5 if consult == "after tell" else 4.5
    told = bandit.state.rewards if consult == "after tell" else bandit.state.rewards.take(slice(2))
    seen = told.append(bandit.state.answers.take(slice(-3)))
    data = Dense(DRIFT, np.column_stack([seen.X, seen.t]), (seen.y - 0.1)[:, None], seen.variance)
    at = np.column_stack([LINE.X, np.full(41, decision)])
    np.testing.assert_array_equal(pool.points, LINE.X)
    np.testing.assert_allclose(beliefs.mean, 0.1 + data.mean(at)[:, 0], atol=1e-8)
    np.testing.assert_allclose(beliefs.deviation, data.deviation(at), atol=1e-8)
    asked = np.column_stack([LINE.X[[7]], [4.5]])
    np.testing.assert_allclose(beliefs.cross_covariance([7]), data.covariance(asked, at), atol=1e-8)
    assert (pool.rewards, pool.asked, pool.decisions) == (len(told), 6, 3)


def test_the_variance_that_an_expert_states_reaches_the_plan() -> None:
    plan = Looking()
    expert = Known(variance=0.3)
    bandit = bandit_with(expert, plan=plan, informed_width=1.0)
    for t in (1.0, 2.0, 3.0):
        expert.variance = 0.3 * t
        bandit.ask(t)
        bandit.tell(LINE.X[[3]], [0.1], t)
    assert [pool.require_posterior().noise_variance for pool in plan.pools] == [NOISE, 0.3, 0.6]
    bandit.answer(LINE.X[:3], [0.1, 0.2, 0.3], 3.0, noise_variance=[0.5, 0.7, 4.0])
    bandit.ask(4.0)
    bandit.tell(LINE.X[[3]], [0.1], 4.0)
    assert plan.pools[-1].require_posterior().noise_variance == 0.7  # the middle one


# --- questions to carry -----------------------------------------------------------------------------


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_carried_questions_are_those_that_an_expert_is_asked(consult: Any) -> None:
    with_expert, carrying = bandit_with(Known(), consult, k=3), bandit_with(None, consult, k=3)
    for t in map(float, range(1, 9)):
        if consult == "before ask":
            carried(carrying, t)
        X = with_expert.ask(t, n=2)
        np.testing.assert_array_equal(carrying.ask(t, n=2), X)
        for each in (with_expert, carrying):
            each.tell(X, noisy(X, t), t)
        if consult == "after tell":
            carried(carrying, t)
        np.testing.assert_array_equal(carrying.state.answers.X, with_expert.state.answers.X)
        np.testing.assert_array_equal(carrying.state.answers.y, with_expert.state.answers.y)
        assert carrying.info.queries.total_asked == with_expert.info.queries.total_asked == 3 * t
    np.testing.assert_array_equal(with_expert.predict(LINE.X), carrying.predict(LINE.X))
    assert with_expert.state == carrying.state


def carried(bandit: Bandit, t: float, parts: Sequence[slice] = (slice(None),)) -> Array:
    """Ask what is to be asked, and bring the answers in parts."""
    points = bandit.questions(t)
    said = Known().query(points, t) if len(points) else Answers.none(0)
    for part in parts:
        if len(points[part]):
            bandit.answer(points[part], said.values[part], t, said.variance[part])
    return points


@pytest.mark.parametrize("reuse", [False, True])
def test_answers_in_parts_are_the_answers(reuse: bool) -> None:
    whole, parts = (bandit_with(None, "before ask", k=4, reuse_answers=reuse) for _ in range(2))
    for t in map(float, range(1, 7)):
        carried(whole, t)
        carried(parts, t, (slice(0, 1), slice(1, 1), slice(1, 3), slice(3, None)))
        X = whole.ask(t)
        np.testing.assert_array_equal(parts.ask(t), X)
        for each in (whole, parts):
            each.tell(X, noisy(X, t), t)
    assert whole.state == parts.state
    assert len(whole.state.answers) == (24 if reuse else 4)
    assert whole.info.queries.total_answered == parts.info.queries.total_answered == 24


def test_questions_that_nobody_answers_lose_nothing() -> None:
    """The bandit goes on with what it has; the questions count as asked."""
    bandit, alone = bandit_with(None, "before ask", k=3), bandit_with(None, "before ask", k=3)
    for t in map(float, range(1, 7)):
        assert len(bandit.questions(t)) == 3
        assert len(bandit.questions(t)) == 0  # the decision has had its own
        bandit.drop(bandit.ask(t))
        alone.drop(alone.ask(t))
        for each in (bandit, alone):
            each.tell(LINE.X[[int(t)]], [0.1], t)
    assert (bandit.info.queries.total_asked, bandit.info.queries.total_answered) == (18, 0)
    np.testing.assert_array_equal(bandit.predict(LINE.X), alone.predict(LINE.X))


def test_questions_may_be_refused_in_part() -> None:
    bandit = bandit_with(None, "before ask", k=3)
    points = bandit.questions(1.0)
    info = bandit.answer(points, [NAN, 0.4, NAN], 1.0)
    assert (info.queries.answered, info.queries.refused) == (1, 2)
    np.testing.assert_array_equal(bandit.state.answers.X, points[[1]])
    np.testing.assert_array_equal(bandit.state.answers.variance, [NOISE])
    info = bandit.answer(points[:1], [NAN], 1.0)
    assert (info.queries.total_answered, info.queries.total_refused) == (1, 3)
    assert len(bandit.state.answers) == 1


def test_the_default_time_of_questions_and_answers() -> None:
    after, before = (bandit_with(None, each) for each in ("after tell", "before ask"))
    for bandit in (after, before):
        points = bandit.questions()
        assert bandit.state.queries.latest == 1.0
        bandit.answer(points, [0.1, 0.2])
        np.testing.assert_array_equal(bandit.state.answers.t, [1.0, 1.0])
        X = bandit.ask(7.25)
        bandit.questions()
        assert bandit.state.queries.latest == 7.25  # the decision that is out
        bandit.tell(X, [0.1], 7.25)
    after.questions(8.0)
    before.questions()
    assert before.state.queries.latest == 8.25
    after.answer(LINE.X[:1], [0.5])
    assert after.state.answers.t[-1] == 8.0


@pytest.mark.parametrize("reuse", [False, True])
def test_an_answer_that_comes_two_steps_late_speaks_about_its_own_time(reuse: bool) -> None:
    bandit = bandit_with(None, "before ask", kernel=DRIFT, k=3, reuse_answers=reuse)
    late: list[tuple[Array, float]] = []
    used: list[tuple[Array, float]] = []
    for t in map(float, range(1, 9)):
        late.append((bandit.questions(t), t))
        if len(late) > 2:
            points, then = late.pop(0)
            bandit.answer(points, noisy(points, then), then, noise_variance=0.05)
            used = [*used, (points, then)] if reuse else [(points, then)]
        X = bandit.ask(t)
        seen = bandit.state.rewards
        Z = np.column_stack([seen.X, seen.t])
        y, v = seen.y, seen.variance
        for points, then in used:
            Z = np.vstack([Z, np.column_stack([points, np.full(3, then)])])
            y, v = np.append(y, noisy(points, then)), np.append(v, np.full(3, 0.05))
        oracle = Dense(DRIFT, Z, (y - 0.1)[:, None], v)
        at = np.column_stack([LINE.X, np.full(41, t)])
        mean, deviation = bandit.predict(LINE.X, t)
        np.testing.assert_allclose(mean, 0.1 + oracle.mean(at)[:, 0], atol=1e-8)
        np.testing.assert_allclose(deviation, oracle.deviation(at), atol=1e-8)
        bandit.tell(X, noisy(X, t), t)
    assert len(bandit.state.answers) == (18 if reuse else 3)


def test_late_answers_do_not_push_newer_ones_out() -> None:
    bandit = bandit_with(None, "before ask")
    bandit.answer(LINE.X[[1, 2]], [0.1, 0.2], 5.0)
    bandit.answer(LINE.X[[3]], [0.3], 3.0)
    np.testing.assert_array_equal(bandit.state.answers.t, [5.0, 5.0, 3.0])
    bandit.answer(LINE.X[[4]], [0.4], 6.0)
    np.testing.assert_array_equal(bandit.state.answers.t, [6.0])


@pytest.mark.parametrize("most", [1, 5])
def test_no_more_answers_than_the_recipe_keeps(most: int) -> None:
    bandit = bandit_with(None, "before ask", reuse_answers=True, most_answers=most)
    for t in (1.0, 2.0, 3.0, 4.0):
        bandit.answer(LINE.X[[1, 2]], [t, t], t)
    np.testing.assert_array_equal(bandit.state.answers.y, [1.0, 1, 2, 2, 3, 3, 4, 4][-most:])


def test_an_answer_informs_the_next_decision_and_no_other() -> None:
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


def test_who_has_no_plan_has_no_questions() -> None:
    bandit = policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE)
    says = "{} a query plan, and the recipe has none"
    refused(ValueError, says.format("questions need"), bandit.questions)
    refused(ValueError, says.format("answer needs"), bandit.answer, LINE.X[:1], [0.1])


# --- nobody is asked for a call that is refused -----------------------------------------------------


def refused_calls() -> dict[str, tuple[Callable[[Any], Bandit], dict[str, Any]]]:
    """By name: a bandit that asks its expert before decisions, and an `ask` that cannot be."""
    box = Box([[0.0, 1.0], [0.0, 1.0]])

    def on(domain: Any, X: Any, **parts: Any) -> Callable[[Any], Bandit]:
        def made(expert: Any) -> Bandit:
            bandit = bandit_with(expert, "before ask", domain=domain, **parts)
            bandit.tell(X, [0.1], 1)
            return bandit

        return made

    line, alone = on(LINE, LINE.X[:1]), LINE.X[1:2]
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
        "a context that there is not": (line, {"context": [1.0]}),
        "no room beside the control": (on(LINE, alone, options=Options(control=LINE.X[0])), {"n": 1}),
        "nothing near a box's last point": (
            plane, {"near": 0.1, "available": lambda X: X[:, 0] > 0.9},
        ),
        "nothing of a box": (plane, {"available": free}),
        "a box's mask of a wrong shape": (plane, {"available": lambda _: np.ones(1, dtype=bool)}),
    }  # fmt: skip


@pytest.mark.parametrize("case", refused_calls())
def test_ask_asks_no_expert_for_a_call_that_is_refused(case: str) -> None:
    made, options = refused_calls()[case]
    expert = Known()
    bandit = made(expert)
    before, asked = bandit.state, len(expert.asked)
    with pytest.raises(ValueError):  # noqa: PT011 - each case is refused for a reason of its own
        bandit.ask(**{"t": 2.0, **options})
    assert len(expert.asked) == asked
    assert bandit.state is before
    bandit.ask(2.0)
    assert len(expert.asked) == asked + 1


def test_ask_near_without_a_point_played_asks_no_expert() -> None:
    expert = Known()
    bandit = bandit_with(expert, "before ask")
    with pytest.raises(ValueError, match=r"0\.5"):
        bandit.ask(1.0, near=0.5)
    assert expert.asked == []


def test_late_questions_are_not_put_for_a_call_that_is_refused() -> None:
    """Where the expert is asked after a tell, and the rewards of the last decision have not come."""
    expert = Known()
    bandit = bandit_with(expert)
    X = bandit.ask(1.0)
    bandit.tell(X, [0.1], 1.0)
    bandit.ask(2.0)
    assert len(expert.asked) == 1
    with pytest.raises(NothingAvailableError):
        bandit.ask(3.0, available=LINE.X[:, 0] == LINE.X[-1, 0], near=1e-9)
    assert len(expert.asked) == 1
    bandit.ask(3.0)
    assert len(expert.asked) == 2

"""`Budgeted`: an account that is kept exactly, whoever asks and whatever goes wrong."""

from __future__ import annotations

import math
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tvbandits import Answers, Expert, ExpertError, ExpertUnavailableError, Observations
from tvbandits.core.arrays import Array
from tvbandits.experts.budgeted import Budgeted, Spent
from tvbandits.experts.calibrated import Calibrated
from tvbandits.experts.retrying import Retrying

X = np.arange(10.0)[:, None]


class Meter:
    """Answers t + x, or refuses negative x, at a price; keeps what it was asked."""

    def __init__(self, price: float = 1.0, each_query: float = 0.0) -> None:
        self.price, self.each_query = price, each_query
        self.asked: list[list[float]] = []
        self.shown: list[Observations] = []
        self.cost = 0.0
        self.error: Exception | None = None

    def query(self, points: Array, t: float) -> Answers:
        self.asked.append(points[:, 0].tolist())
        if self.error is not None:
            raise self.error
        values = np.where(points[:, 0] < 0, np.nan, points[:, 0] + t)
        cost = self.each_query + self.price * float((~np.isnan(values)).sum())
        self.cost += cost
        return Answers(values, 0.5, cost, ("inner",))

    def observe(self, rewards: Observations) -> None:
        self.shown.append(rewards)


def test_the_first_points_are_asked_and_a_note_says_so() -> None:
    meter = Meter(price=2.0)
    expert = Budgeted(meter, per_step=3, total=500)
    assert isinstance(expert, Expert)
    said = expert.query(X, 7.0)
    assert meter.asked == [[0.0, 1.0, 2.0]]
    np.testing.assert_array_equal(said.values, [7, 8, 9] + [np.nan] * 7)
    np.testing.assert_array_equal(said.variance[:3], 0.5)
    assert said.cost == 6.0
    note = "budget: 3 of 10 points asked, 3 of 3 at t = 7, 3 of 500 in total"
    assert said.notes == ("inner", note)
    assert expert.spent == Spent(queries=1, asked=3, answered=3, refused=7, cost=6.0)


def test_queries_of_one_step_share_it() -> None:
    meter = Meter()
    expert = Budgeted(meter, per_step=4)
    for t, points in ((1.0, X[:3]), (1.0, X), (2.0, X), (1.0, X), (2, X)):
        expert.query(points, t)
    assert meter.asked == [[0, 1, 2], [0], [0, 1, 2, 3]]


def test_nothing_left_nobody_called() -> None:
    meter = Meter()
    expert = Budgeted(meter, total=0)
    said = expert.query(X, 1.0)
    assert not said.answered.any()
    assert said.notes == ("budget: 0 of 10 points asked, 0 of 0 in total",)
    assert (meter.asked, said.cost) == ([], 0.0)
    assert len(Budgeted(meter, total=9).query(np.empty((0, 1)), 1.0)) == 0
    assert meter.asked == []


def test_a_budget_without_a_limit_is_none() -> None:
    with pytest.raises(ValueError, match="a budget needs a limit: give per_step=, total= or cost="):
        Budgeted(Meter())
    with pytest.raises(ValueError, match="a budget needs a limit"):
        Budgeted(Meter(), price=1.0)


# --- cost -----------------------------------------------------------------------------------------


def test_an_unknown_price_is_tried_on_one_point() -> None:
    meter = Meter(price=2.0)
    expert = Budgeted(meter, cost=9.0)
    said = expert.query(X, 1.0)
    assert meter.asked == [[0], [1, 2, 3]]
    assert said.notes == ("inner", "inner", "budget: 4 of 10 points asked, cost 8 of 9")
    assert expert.spent == Spent(2, 4, 4, 6, 8.0)


def test_a_free_refusal_tells_no_price() -> None:
    meter = Meter(price=5.0)
    expert = Budgeted(meter, cost=12.0)
    expert.query(np.array([[-1.0], [-2.0], [3.0], [4.0], [5.0]]), 1.0)
    assert meter.asked == [[-1], [-2], [3], [4]]
    assert expert.spent.cost == 10.0


def test_the_price_is_that_of_an_answer_not_of_a_question() -> None:
    meter = Meter(price=3.0)
    expert = Budgeted(meter, cost=20.0, price=1.0)
    expert.query(np.array([[-1.0], [-2.0], [3.0], [4.0]]), 1.0)  # 6 for two answers
    expert.query(X, 2.0)
    assert [len(points) for points in meter.asked] == [4, 4]
    assert expert.spent.cost == 18.0


def test_a_known_price_needs_no_trial() -> None:
    meter = Meter(price=0.1)
    assert Budgeted(meter, cost=1.0, price=0.1).query(X, 1.0).answered.all()
    assert len(meter.asked) == 1
    dearer = Meter(price=3.0)  # than was said: what was seen counts from then on
    expert = Budgeted(dearer, cost=20.0, price=1.0)
    expert.query(X[:2], 1.0)
    expert.query(X, 2.0)
    assert [len(points) for points in dearer.asked] == [2, 4]
    cheaper = Meter(price=1.0)  # one question a query, whatever is left of what was set aside
    assert Budgeted(cheaper, cost=10.0, price=2.0).query(X, 1.0).answered.sum() == 5
    assert len(cheaper.asked) == 1
    rounded = Budgeted(Meter(price=0.1), cost=0.3, price=0.1)
    assert sum(rounded.query(X[:1], float(t)).answered.sum() for t in range(9)) == 3
    free = Budgeted(Meter(price=0.0), cost=1.0, price=0.0)
    assert free.query(X, 1.0).answered.all()


def restated(
    limits: dict[str, Any], price: float, known: bool, queries: list[tuple[int, int]]
) -> list[int]:
    """How many points of each query a plain account lets through."""
    asked, steps, passed = 0, dict.fromkeys(range(9), 0), []
    for t, count in queries:
        mine = 0
        for _ in range(count):
            fits = (
                steps[t] < limits["per_step"]
                and asked < limits["total"]
                and (
                    (asked + 1) * price <= limits["cost"] + 1e-9
                    or (asked == 0 and not known)  # the trial
                )
            )
            if not fits:
                break
            asked, mine = asked + 1, mine + 1
            steps[t] += 1
        passed.append(mine)
    return passed


@given(
    per_step=st.integers(0, 6),
    total=st.integers(0, 30),
    cost=st.integers(1, 40),
    price=st.integers(1, 8),
    known=st.booleans(),
    queries=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=12),
)
@settings(deadline=None)
def test_a_plain_account_agrees(
    per_step: int,
    total: int,
    cost: int,
    price: int,
    known: bool,
    queries: list[tuple[int, int]],
) -> None:
    limits = {"per_step": per_step, "total": total, "cost": float(cost)}
    meter = Meter(price=float(price))
    expert = Budgeted(meter, **limits, price=float(price) if known else None)  # type: ignore[arg-type]
    answered = []
    for t, count in queries:
        said = expert.query(X[:count], float(t))
        answered.append(int(said.answered.sum()))
        assert said.answered[: answered[-1]].all()
        expert = pickle.loads(pickle.dumps(expert))  # an account survives
    assert answered == restated(limits, float(price), known, queries)
    assert expert.spent.asked == expert.spent.answered == sum(answered)
    assert expert.spent.cost == price * sum(answered)
    assert expert.spent.refused == sum(count for _, count in queries) - sum(answered)


@given(
    price=st.floats(0.1, 3), each=st.floats(0, 3), sizes=st.lists(st.integers(1, 10), max_size=12)
)
def test_the_limit_holds_with_a_price_of_each_visit_too(
    price: float, each: float, sizes: list[int]
) -> None:
    meter = Meter(price, each)
    expert = Budgeted(meter, cost=10.0)
    for step, size in enumerate(sizes):
        expert.query(X[:size], float(step))
    assert meter.cost <= 10.0 + 1e-6
    assert expert.spent.cost == pytest.approx(meter.cost)


# --- what goes wrong ------------------------------------------------------------------------------


def test_refused_points_count_as_asked() -> None:
    expert = Budgeted(Meter(), total=3)
    expert.query(np.array([[-1.0], [-2.0]]), 1.0)
    assert expert.spent == Spent(1, 2, 0, 0, 0.0)
    assert expert.query(X, 2.0).answered.sum() == 1


def test_failures_count_or_do_not() -> None:
    for counts, asked, cost in ((True, 3, 6.0), (False, 0, 0.0)):
        meter = Meter(price=2.0)
        expert = Budgeted(meter, per_step=3, cost=100.0, price=2.0, count_failures=counts)
        meter.error = ExpertUnavailableError("no line")
        with pytest.raises(ExpertUnavailableError, match="no line"):
            expert.query(X, 1.0)
        assert (expert.spent.asked, expert.spent.cost) == (asked, cost)
        assert expert.spent.queries == 1
        meter.error = None
        assert expert.query(X, 1.0).answered.sum() == 3 - asked
        assert expert.query(X, 2.0).answered.sum() == 3


def test_a_failed_trial_lets_the_next_one_try() -> None:
    meter = Meter()
    expert = Budgeted(meter, cost=5.0)
    meter.error = OSError("down")
    with pytest.raises(OSError, match="down"):
        expert.query(X, 1.0)
    meter.error = None
    assert expert.query(X, 2.0).answered.sum() == 5


class Slow:
    """Counts who is inside, and lets go when told."""

    def __init__(self) -> None:
        self.asked, self.go, self.inside = 0, threading.Event(), threading.Event()

    def query(self, points: Array, _t: float) -> Answers:
        self.asked += len(points)
        self.inside.set()
        assert self.go.wait(30)
        return Answers(points[:, 0], 1.0, float(len(points)))


def test_points_under_way_are_spoken_for() -> None:
    slow = Slow()
    expert = Budgeted(slow, total=8, cost=7.0, price=1.0)
    first = threading.Thread(target=lambda: expert.query(X[:5], 1.0))
    first.start()
    assert slow.inside.wait(30)
    slow.go.set()
    first.join()
    slow.go.clear()
    slow.inside.clear()
    second = threading.Thread(target=lambda: expert.query(X[:2], 1.0))
    second.start()
    assert slow.inside.wait(30)
    # Two of cost are left, and they are set aside for the second query.
    assert not expert.query(X, 1.0).answered.any()
    assert pickle.loads(pickle.dumps(Budgeted(Meter(), total=1))).spent == Spent()
    slow.go.set()
    second.join()
    assert (slow.asked, expert.spent.cost) == (7, 7.0)


def test_two_trials_never_run_at_once() -> None:
    slow = Slow()
    expert = Budgeted(slow, cost=3.0)
    first = threading.Thread(target=lambda: expert.query(X[:1], 1.0))
    first.start()
    assert slow.inside.wait(30)
    assert not expert.query(X, 1.0).answered.any()
    slow.go.set()
    first.join()
    assert expert.query(X, 1.0).answered.sum() == 2


def test_threads_never_overspend() -> None:
    expert = Budgeted(Meter(), per_step=40, total=100)
    threads = [
        threading.Thread(target=lambda t=t: [expert.query(X, float(t)) for _ in range(20)])
        for t in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (expert.spent.asked, expert.spent.refused) == (100, 700)


class Shaky:
    """Every other call fails."""

    def __init__(self) -> None:
        self.calls = 0

    def query(self, points: Array, t: float) -> Answers:
        self.calls += 1
        if self.calls % 2:
            raise OSError("no line")
        return Answers(points[:, 0] + t, 0.5)


def test_attempts_are_counted_inside_and_questions_outside() -> None:
    inside = Budgeted(Shaky(), total=100)
    Retrying(inside, sleep=lambda _: None).query(X, 1.0)
    assert (inside.spent.queries, inside.spent.asked) == (2, 20)
    outside = Budgeted(Retrying(Shaky(), sleep=lambda _: None), total=100)
    outside.query(X, 1.0)
    assert (outside.spent.queries, outside.spent.asked) == (1, 10)


def test_a_probe_is_paid_for_inside() -> None:
    meter = Meter()
    budget = Budgeted(meter, per_step=11)
    expert = Calibrated(budget, probe=True)
    expert.observe(Observations([[99.0]], [1.0], [2.0], [0.1]))  # type: ignore[arg-type]
    assert expert.query(X, 1.0).answered.all()
    assert budget.spent.asked == 11
    assert expert.report().pairs == 1


def test_answers_that_do_not_fit_are_an_error_that_counts() -> None:
    class Short:
        def query(self, points: Array, _t: float) -> Any:
            return Answers(points[1:, 0], 1.0) if len(points) > 1 else "yes"

    expert = Budgeted(Short(), total=500)
    with pytest.raises(ExpertError, match="Short must answer 10 points, got 9 values"):
        expert.query(X, 1.0)
    with pytest.raises(ExpertError, match="Short must return Answers, got str"):
        expert.query(X[:1], 1.0)
    assert expert.spent.asked == 11


def test_rewards_are_handed_on() -> None:
    meter = Meter()
    rewards = Observations(X[:1], [1.0], [2.0], [0.1])  # type: ignore[arg-type]
    Budgeted(Budgeted(meter, total=9), total=9).observe(rewards)
    assert meter.shown == [rewards]


def test_bad_parameters() -> None:
    for limit in ("per_step", "total"):
        with pytest.raises(ValueError, match=f"{limit} must be a whole number of at least 0, got"):
            Budgeted(Meter(), **{limit: -1})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cost must be positive and finite, got 0"):
        Budgeted(Meter(), cost=0.0)
    with pytest.raises(ValueError, match="price must be finite and not negative, got -1"):
        Budgeted(Meter(), price=-1.0)
    with pytest.raises(ValueError, match=r"expert must have a method query\(X, t\), got 3"):
        Budgeted(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expert must have a method query\(X, t\), got <class"):
        Budgeted(Meter)  # type: ignore[arg-type]
    for t in (math.nan, "soon", None):
        with pytest.raises(ValueError, match="t must be a finite number, got"):
            Budgeted(Meter(), total=9).query(X, t)  # type: ignore[arg-type]
    expert = Budgeted(Meter(), total=500)
    with pytest.raises(ValueError, match=r"X must have shape \(n, d\), got \(3,\)"):
        expert.query(np.zeros(3), 1.0)
    assert expert.spent == Spent()


def test_it_says_what_it_is() -> None:
    text = repr(Budgeted(Budgeted(Meter(), total=3), per_step=2, cost=9.0, price=1.5))
    assert text.startswith("Budgeted(Budgeted(<")
    assert text.endswith(", total=3), per_step=2, cost=9.0, price=1.5)")

"""`Budgeted` keeps its limits under failures and threads; `Retrying` repeats failed queries."""

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tenacity
from hypothesis import given, settings, strategies as st

from tests.helpers.refusals import assert_refused
from tvbandits import Answers, Dataset, Expert, ExpertError, ExpertUnavailableError
from tvbandits.experts import Budgeted, Retrying, Spending
from tvbandits.experts.protocol import MISTAKES
from tvbandits.experts.retrying import is_mistake
from tvbandits.validation import Array

X = np.arange(10.0)[:, None]


class Meter:
    """Answers t + x at a price, refuses negative x, and records its queries."""

    def __init__(self, price: float = 1.0, each_query: float = 0.0) -> None:
        self.price, self.each_query = price, each_query
        self.asked: list[list[float]] = []
        self.shown: list[Dataset] = []
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

    def observe(self, rewards: Dataset) -> None:
        self.shown.append(rewards)


def test_budgeted_queries_the_first_points_up_to_the_limit_and_notes_it() -> None:
    meter = Meter(price=2.0)
    expert = Budgeted(meter, per_step=3, total=500)
    assert isinstance(expert, Expert)
    said = expert.query(X, 7.0)
    assert meter.asked == [[0.0, 1.0, 2.0]]
    np.testing.assert_array_equal(said.values, [7, 8, 9] + [np.nan] * 7)
    np.testing.assert_array_equal(said.variance[:3], 0.5)
    assert said.cost == 6.0
    note = "budget: queried 3 of 10 points, 3 of 3 at t = 7, 3 of 500 in total"
    assert said.notes == ("inner", note)
    assert expert.spending == Spending(queries=1, asked=3, answered=3, refused=7, cost=6.0)


def test_budgeted_does_not_call_its_expert_without_budget_or_points() -> None:
    meter = Meter()
    said = Budgeted(meter, total=0).query(X, 1.0)
    assert not said.answered.any()
    assert said.notes == ("budget: queried 0 of 10 points, 0 of 0 in total",)
    assert (meter.asked, said.cost) == ([], 0.0)
    assert len(Budgeted(meter, total=9).query(np.empty((0, 1)), 1.0)) == 0
    assert meter.asked == []


def test_budgeted_refuses_to_have_no_limit_or_no_expert() -> None:
    with pytest.raises(ValueError, match="per_step=, total= or cost="):
        Budgeted(Meter())
    assert_refused(ValueError, "per_step=, total= or cost=", Budgeted, Meter(), price=1.0)
    match = r"expert must .*query\(X, t\)"
    assert_refused(ValueError, match, Budgeted, pd.DataFrame(), total=1)


# --- cost -----------------------------------------------------------------------------------------


def test_budgeted_learns_no_price_from_refusals_without_cost() -> None:
    meter = Meter(price=5.0)
    expert = Budgeted(meter, cost=12.0)
    expert.query(np.array([[-1.0], [-2.0], [3.0], [4.0], [5.0]]), 1.0)
    assert meter.asked == [[-1], [-2], [3], [4]]
    assert expert.spending.cost == 10.0


def test_budgeted_learns_the_price_per_answer_and_not_per_query() -> None:
    meter = Meter(price=3.0)
    expert = Budgeted(meter, cost=20.0, price=1.0)
    expert.query(np.array([[-1.0], [-2.0], [3.0], [4.0]]), 1.0)  # 6 for two answers
    expert.query(X, 2.0)
    assert [len(points) for points in meter.asked] == [4, 4]
    assert expert.spending.cost == 18.0


def test_budgeted_with_a_given_price_queries_all_affordable_points_at_once() -> None:
    meter = Meter(price=0.1)
    assert Budgeted(meter, cost=1.0, price=0.1).query(X, 1.0).answered.all()
    assert len(meter.asked) == 1
    cheaper = Meter(price=1.0)  # one call per query, although less was spent than reserved
    assert Budgeted(cheaper, cost=10.0, price=2.0).query(X, 1.0).answered.sum() == 5
    assert len(cheaper.asked) == 1
    rounded = Budgeted(Meter(price=0.1), cost=0.3, price=0.1)
    assert sum(rounded.query(X[:1], float(t)).answered.sum() for t in range(9)) == 3
    assert Budgeted(Meter(price=0.0), cost=1.0, price=0.0).query(X, 1.0).answered.all()


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
def test_budgeted_matches_a_plain_account_of_its_limits(
    per_step: int, total: int, cost: int, price: int, known: bool, queries: list[tuple[int, int]]
) -> None:
    limits = {"per_step": per_step, "total": total, "cost": float(cost)}
    meter = Meter(price=float(price))
    expert = Budgeted(meter, **limits, price=float(price) if known else None)  # type: ignore[arg-type]
    answered = []
    for t, count in queries:
        said = expert.query(X[:count], float(t))
        answered.append(int(said.answered.sum()))
        assert said.answered[: answered[-1]].all()
        expert = pickle.loads(pickle.dumps(expert))  # which keeps the account
    assert answered == restated(limits, float(price), known, queries)
    assert expert.spending.asked == expert.spending.answered == sum(answered)
    assert expert.spending.cost == price * sum(answered)
    assert expert.spending.refused == sum(count for _, count in queries) - sum(answered)


@settings(deadline=None)
@given(
    price=st.floats(0.1, 3), each=st.floats(0, 3), sizes=st.lists(st.integers(1, 10), max_size=12)
)
def test_budgeted_stays_below_its_cost_limit_if_each_query_has_a_fixed_cost(
    price: float, each: float, sizes: list[int]
) -> None:
    meter = Meter(price, each)
    expert = Budgeted(meter, cost=10.0)
    for step, size in enumerate(sizes):
        expert.query(X[:size], float(step))
    assert meter.cost <= 10.0 + 1e-6
    assert expert.spending.cost == pytest.approx(meter.cost)


# --- failures -------------------------------------------------------------------------------------


def test_budgeted_counts_refused_points_as_asked() -> None:
    expert = Budgeted(Meter(), total=3)
    expert.query(np.array([[-1.0], [-2.0]]), 1.0)
    assert expert.spending == Spending(1, 2, 0, 0, 0.0)
    assert expert.query(X, 2.0).answered.sum() == 1


def test_budgeted_counts_failed_queries_as_asked() -> None:
    meter = Meter(price=2.0)
    expert = Budgeted(meter, per_step=3, cost=100.0, price=2.0)
    meter.error = ExpertUnavailableError("no line")
    assert_refused(ExpertUnavailableError, "no line", expert.query, X, 1.0)
    assert (expert.spending.queries, expert.spending.asked, expert.spending.cost) == (1, 3, 6.0)
    meter.error = None
    assert not expert.query(X, 1.0).answered.any()
    assert expert.query(X, 2.0).answered.sum() == 3


def test_budgeted_repeats_the_trial_query_after_it_failed() -> None:
    meter = Meter()
    expert = Budgeted(meter, cost=5.0)
    meter.error = OSError("down")
    assert_refused(OSError, "down", expert.query, X, 1.0)
    meter.error = None
    assert expert.query(X, 2.0).answered.sum() == 5


class Slow:
    """Counts the points of its queries, and answers only after `go` is set."""

    def __init__(self) -> None:
        self.asked, self.go, self.inside = 0, threading.Event(), threading.Event()

    def query(self, points: Array, _t: float) -> Answers:
        self.asked += len(points)
        self.inside.set()
        assert self.go.wait(30)
        return Answers(points[:, 0], 1.0, float(len(points)))


def test_budgeted_lets_threads_wait_for_the_trial_query() -> None:
    slow = Slow()
    expert = Budgeted(slow, total=8, cost=6.0)
    with ThreadPoolExecutor(2) as threads:
        for _ in range(2):
            threads.submit(expert.query, X[:5], 1.0)
        assert slow.inside.wait(30)
        assert slow.asked == 1  # a trial, which the other one waits for
        assert expert.state()["spending"]["asked"] == 1
        assert pickle.loads(pickle.dumps(expert.spending)) == Spending(1, 1)
        slow.go.set()
    assert (slow.asked, expert.spending.cost, expert.spending.refused) == (6, 6.0, 4)


def test_budgeted_keeps_a_state_restored_during_a_query() -> None:
    class Meddler(Meter):
        def query(self, points: Array, t: float) -> Answers:
            expert.restore(known)
            return super().query(points, t)

    expert = Budgeted(Meddler(), total=8)
    known = expert.state() | {"spending": vars(Spending(asked=5))}
    expert.query(X[:2], 1.0)
    assert expert.spending == Spending(asked=5)


def test_budgeted_raises_and_counts_answers_of_the_wrong_length_or_type() -> None:
    class Short:
        def query(self, points: Array, _t: float) -> Any:
            return Answers(points[1:, 0], 1.0) if len(points) > 1 else "yes"

    expert = Budgeted(Short(), total=500)
    assert_refused(ExpertError, "Short must answer 10 points, got 9 values", expert.query, X, 1.0)
    assert_refused(ExpertError, "Short must return Answers, got str", expert.query, X[:1], 1.0)
    assert expert.spending.asked == 11


def test_budgeted_passes_rewards_to_its_expert() -> None:
    meter = Meter()
    rewards = Dataset(X[:1], [1.0], [2.0], [0.1])  # type: ignore[arg-type]
    Budgeted(Budgeted(meter, total=9), total=9).observe(rewards)
    assert meter.shown == [rewards]


# --- `Retrying`: attempts, waits, calls that hang, and points asked again

X_RETRYING = np.arange(4.0)[:, None]
LONG = 30.0


class Script:
    """Takes the next step of a script: raises an error, calls a function, or answers."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.asked: list[list[float]] = []

    def query(self, points: Array, t: float) -> Answers:
        self.asked.append(points[:, 0].tolist())
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            return step(points, t)  # type: ignore[no-any-return]
        return Answers(points[:, 0] + t, 0.5, 1.0, ("inner",))


def quick(expert: Expert, **parameters: Any) -> Retrying:
    return Retrying(expert, **{"sleep": lambda _: None, **parameters})


# --- attempts -------------------------------------------------------------------------------------


def test_retrying_repeats_a_failed_query_and_notes_the_failure() -> None:
    script = Script(OSError("no line"), ExpertUnavailableError("busy"))
    said = quick(script).query(X_RETRYING, 2.0)
    np.testing.assert_array_equal(said.values, X_RETRYING[:, 0] + 2.0)
    assert len(script.asked) == 3
    assert said.cost == 1.0
    why = "3 of 3 attempts were made; the last failure was ExpertUnavailableError: busy"
    assert said.notes == ("inner", why)
    assert quick(Script()).query(X_RETRYING, 2.0).notes == ("inner",)


@pytest.mark.parametrize("time_out", [None, LONG])
def test_retrying_is_unavailable_after_the_last_attempt(time_out: float | None) -> None:
    script = Script(*[OSError(f"no line {k}") for k in range(9)])
    match = "no answer after 4 attempts; the last error was OSError: no line 3"
    with pytest.raises(ExpertUnavailableError, match=match) as caught:
        quick(script, attempts=4, time_out=time_out).query(X_RETRYING, 1.0)
    assert isinstance(caught.value.__cause__, OSError)
    assert len(script.asked) == 4
    with pytest.raises(
        ExpertUnavailableError, match="no answer after 1 attempt; the last error was OSErr"
    ):
        quick(script, attempts=1, time_out=time_out).query(X_RETRYING, 1.0)


@pytest.mark.parametrize("time_out", [None, LONG])
@pytest.mark.parametrize("kind", [*MISTAKES, ExpertError, KeyboardInterrupt, SystemExit])
def test_retrying_raises_programming_errors_and_interrupts_at_once(
    kind: type[BaseException], time_out: float | None
) -> None:
    script = Script(kind("wrong"))
    assert_refused(kind, "wrong", quick(script, time_out=time_out).query, X_RETRYING, 1.0)
    assert len(script.asked) == 1
    if issubclass(kind, Exception):
        assert is_mistake(kind("wrong"))


def test_retrying_does_not_repeat_a_query_with_invalid_answers() -> None:
    script = Script(lambda points, _t: Answers(points[1:, 0], 1.0))
    with pytest.raises(ExpertError, match="Script must answer 4 points, got 3 values"):
        quick(script).query(X_RETRYING, 1.0)
    assert len(script.asked) == 1


def test_retrying_gives_every_attempt_an_unchanged_copy_of_the_points() -> None:
    def spoil(points: Array, _t: float) -> Answers:
        points += 100.0
        raise OSError("no line")

    script = Script(spoil)
    quick(script).query(X_RETRYING, 1.0)
    assert script.asked[0] == script.asked[1] == X_RETRYING[:, 0].tolist()
    np.testing.assert_array_equal(X_RETRYING[:, 0], np.arange(4.0))


# --- waits ----------------------------------------------------------------------------------------


def waits(wait: Any, attempts: int = 8) -> list[float]:
    slept: list[float] = []
    expert = Retrying(
        Script(*[OSError("no line")] * attempts), attempts=attempts, wait=wait, sleep=slept.append
    )
    with pytest.raises(ExpertUnavailableError, match=f"no answer after {attempts} attempts"):
        expert.query(X_RETRYING, 1.0)
    return slept


def test_retrying_doubles_waits_up_to_30_seconds_and_accepts_waits_of_tenacity() -> None:
    assert waits(None, attempts=9) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert waits(tenacity.wait_fixed(2.5), 3) == [2.5, 2.5]
    assert waits(tenacity.wait_incrementing(1, 2), 4) == [1, 3, 5]


# --- calls that hang ------------------------------------------------------------------------------


class Hang:
    """Hangs until `go` is set, then answers."""

    def __init__(self) -> None:
        self.entered, self.go = threading.Event(), threading.Event()

    def __call__(self, points: Array, _t: float) -> Answers:
        self.entered.set()
        assert self.go.wait(LONG)
        return Answers(points[:, 0] - 1000.0, 1.0, 7.0)


def ended(expert: Retrying) -> None:
    """Wait until no call hangs any more."""
    for thread in threading.enumerate():
        if thread.name == repr(expert):
            thread.join(LONG)


def test_retrying_abandons_a_call_after_its_time_out_and_starts_no_second_one() -> None:
    hang = Hang()
    script = Script(hang)
    expert = quick(script, time_out=0.05)
    with pytest.raises(
        ExpertUnavailableError, match="last error was TimeoutError: an earlier call still"
    ):
        expert.query(X_RETRYING, 3.0)
    assert len(script.asked) == 1
    with pytest.raises(
        ExpertUnavailableError, match="3 attempts; the last error was TimeoutError: an earlie"
    ):
        expert.query(X_RETRYING, 4.0)
    assert len(script.asked) == 1
    hang.go.set()
    ended(expert)
    said = expert.query(X_RETRYING, 5.0)
    np.testing.assert_array_equal(said.values, X_RETRYING[:, 0] + 5.0)  # not the late answer
    assert (said.notes, said.cost) == (("inner",), 1.0)


def test_retrying_repeats_a_query_after_its_timed_out_call_has_ended() -> None:
    hang = Hang()
    expert: Retrying

    def sleep(_: float) -> None:
        hang.go.set()
        ended(expert)

    expert = Retrying(Script(hang), time_out=0.05, sleep=sleep)
    said = expert.query(X_RETRYING, 3.0)
    assert (
        said.notes[1]
        == "2 of 3 attempts were made; the last failure was TimeoutError: no answer within 0.05 s"
    )
    np.testing.assert_array_equal(said.values, X_RETRYING[:, 0] + 3.0)


def test_retrying_allows_two_queries_at_once() -> None:
    both = threading.Barrier(2)

    def meet(points: Array, t: float) -> Answers:
        both.wait(LONG)
        return Answers(points[:, 0] + t, 1.0)

    expert = quick(Script(meet, meet), time_out=LONG)
    with ThreadPoolExecutor(2) as threads:
        said = threads.map(lambda t: expert.query(X_RETRYING, t), (1.0, 2.0))
        assert [float(each.values[0]) for each in said] == [1.0, 2.0]


def test_retrying_calls_its_expert_with_the_floating_point_settings_of_numpy() -> None:
    def overflow(points: Array, _t: float) -> Answers:
        assert np.geterr()["over"] == "ignore"
        return Answers(points[:, 0], 1.0)

    with np.errstate(over="ignore"):
        quick(Script(overflow), time_out=LONG).query(X_RETRYING, 1.0)


@pytest.mark.slow
def test_retrying_lets_a_program_end_while_its_expert_hangs() -> None:
    program = """
import threading, numpy as np
from tvbandits.experts import Retrying
class Hanging:
    def query(self, X, t): threading.Event().wait()
try:
    Retrying(Hanging(), time_out=0.05, attempts=1).query(np.zeros((1, 1)), 1.0)
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert "no answer within 0.05 s" in done.stdout


# --- the rest -------------------------------------------------------------------------------------


def test_retrying_unpickled_has_no_pending_call() -> None:
    expert = Retrying(Script(Hang()), time_out=0.05, attempts=1)
    assert_refused(ExpertUnavailableError, "no answer within", expert.query, X_RETRYING, 1.0)
    again = pickle.loads(pickle.dumps(expert))
    assert again.query(X_RETRYING, 1.0).answered.all()
    assert "time_out=0.05, attempts=1" in repr(again)

"""`Retrying`: attempts, waits, calls that hang, and points asked again."""

from __future__ import annotations

import math
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tenacity
from hypothesis import given, strategies as st

from tvbandits import Answers, Expert, ExpertError, ExpertUnavailableError, Observations
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import MISTAKES
from tvbandits.experts.retrying import BackOff, Retrying, is_mistake

X = np.arange(4.0)[:, None]
LONG = 30.0


class Script:
    """Does what the script says: an error is raised, a function is called, else it answers."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.asked: list[list[float]] = []
        self.shown: list[Observations] = []

    def query(self, points: Array, t: float) -> Answers:
        self.asked.append(points[:, 0].tolist())
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            return step(points, t)  # type: ignore[no-any-return]
        return Answers(points[:, 0] + t, 0.5, 1.0, ("inner",))

    def observe(self, rewards: Observations) -> None:
        self.shown.append(rewards)


def quick(expert: Expert, **parameters: Any) -> Retrying:
    return Retrying(expert, **{"sleep": lambda _: None, **parameters})


# --- attempts -------------------------------------------------------------------------------------


def test_a_failure_that_passes_is_tried_again() -> None:
    script = Script(OSError("no line"), ExpertUnavailableError("busy"))
    said = quick(script).query(X, 2.0)
    np.testing.assert_array_equal(said.values, X[:, 0] + 2.0)
    assert len(script.asked) == 3
    assert said.cost == 1.0
    why = "3 of 3 attempts, one failed with ExpertUnavailableError: busy"
    assert said.notes == ("inner", why)
    assert quick(Script()).query(X, 2.0).notes == ("inner",)


@pytest.mark.parametrize("time_out", [None, LONG])
def test_after_the_last_attempt_it_is_unavailable(time_out: float | None) -> None:
    script = Script(*[OSError(f"no line {k}") for k in range(9)])
    match = "no answer after 4 attempts, at last OSError: no line 3"
    with pytest.raises(ExpertUnavailableError, match=match) as caught:
        quick(script, attempts=4, time_out=time_out).query(X, 1.0)
    assert isinstance(caught.value.__cause__, OSError)
    assert len(script.asked) == 4
    with pytest.raises(ExpertUnavailableError, match="no answer after 1 attempt, at last OSErr"):
        quick(script, attempts=1, time_out=time_out).query(X, 1.0)


@pytest.mark.parametrize("time_out", [None, LONG])
@pytest.mark.parametrize("kind", [*MISTAKES, ExpertError])
def test_mistakes_are_raised_at_once(kind: type[Exception], time_out: float | None) -> None:
    script = Script(kind("wrong"))
    with pytest.raises(kind, match="wrong"):
        quick(script, time_out=time_out).query(X, 1.0)
    assert len(script.asked) == 1
    assert is_mistake(kind("wrong"))


@pytest.mark.parametrize("time_out", [None, LONG])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_at_once(kind: type[BaseException], time_out: float | None) -> None:
    script = Script(kind("stop"))
    with pytest.raises(kind, match="stop"):
        quick(script, time_out=time_out).query(X, 1.0)
    assert len(script.asked) == 1


def test_answers_that_do_not_fit_are_not_asked_for_again() -> None:
    script = Script(lambda points, _t: Answers(points[1:, 0], 1.0))
    with pytest.raises(ExpertError, match="Script must answer 4 points, got 3 values"):
        quick(script).query(X, 1.0)
    assert len(script.asked) == 1


def test_every_attempt_sees_the_question_as_it_was() -> None:
    def spoil(points: Array, _t: float) -> Answers:
        points += 100.0
        raise OSError("no line")

    script = Script(spoil)
    quick(script).query(X, 1.0)
    assert script.asked[0] == script.asked[1] == X[:, 0].tolist()
    np.testing.assert_array_equal(X[:, 0], np.arange(4.0))


# --- waits ----------------------------------------------------------------------------------------


def waits(wait: Any, attempts: int = 8) -> list[float]:
    slept: list[float] = []
    expert = Retrying(
        Script(*[OSError("no line")] * attempts), attempts=attempts, wait=wait, sleep=slept.append
    )
    with pytest.raises(ExpertUnavailableError, match=f"no answer after {attempts} attempts"):
        expert.query(X, 1.0)
    return slept


@given(first=st.floats(0, 10), longest=st.floats(0, 100), seed=st.none() | st.integers(0, 99))
def test_waits_double_up_to_the_longest(first: float, longest: float, seed: int | None) -> None:
    slept = waits(BackOff(first, longest, seed))
    assert len(slept) == 7  # none after the last attempt
    for attempt, seconds in enumerate(slept):
        whole = min(longest, first * 2**attempt)
        assert whole / 2 <= seconds <= whole


def test_waits_can_be_repeated_and_leave_the_global_generators_alone() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]  # noqa: NPY002
    assert waits(BackOff(seed=3)) == waits(BackOff(seed=3))
    assert waits(BackOff(seed=3)) != waits(BackOff(seed=4))
    assert waits(None) != waits(None)
    after = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]  # noqa: NPY002
    assert before == after


def test_waits_of_tenacity_are_welcome() -> None:
    assert waits(tenacity.wait_fixed(2.5), 3) == [2.5, 2.5]
    assert waits(tenacity.wait_incrementing(1, 2), 4) == [1, 3, 5]


# --- calls that hang ------------------------------------------------------------------------------


class Hang:
    """Hangs until it is let go, then answers."""

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


def test_a_call_that_hangs_is_given_up_and_never_joined() -> None:
    hang = Hang()
    script = Script(hang)
    expert = quick(script, time_out=0.05)
    with pytest.raises(ExpertUnavailableError, match="at last TimeoutError: an earlier call still"):
        expert.query(X, 3.0)
    assert len(script.asked) == 1
    with pytest.raises(ExpertUnavailableError, match="3 attempts, at last TimeoutError: an earlie"):
        expert.query(X, 4.0)
    assert len(script.asked) == 1
    hang.go.set()
    ended(expert)
    said = expert.query(X, 5.0)
    np.testing.assert_array_equal(said.values, X[:, 0] + 5.0)  # not the late answer
    late = "a late answer about t = 3 was dropped (cost 7)"
    assert (said.notes, said.cost) == (("inner", late), 8.0)
    assert expert.query(X, 6.0).notes == ("inner",)


def test_a_time_out_is_tried_again_once_the_call_is_over() -> None:
    hang = Hang()
    expert: Retrying

    def sleep(_: float) -> None:
        hang.go.set()
        ended(expert)

    expert = Retrying(Script(hang), time_out=0.05, sleep=sleep)
    said = expert.query(X, 3.0)
    assert said.notes[1] == "2 of 3 attempts, one failed with TimeoutError: no answer within 0.05 s"
    assert said.notes[2] == "a late answer about t = 3 was dropped (cost 7)"
    np.testing.assert_array_equal(said.values, X[:, 0] + 3.0)


def test_a_late_failure_is_told() -> None:
    go = threading.Event()

    def fail(_points: Array, _t: float) -> Answers:
        assert go.wait(LONG)
        raise ValueError("too late to matter")

    expert = quick(Script(fail), time_out=0.05, attempts=1)
    with pytest.raises(ExpertUnavailableError, match=r"no answer within 0\.05 s"):
        expert.query(X, 1.0)
    go.set()
    ended(expert)
    assert expert.query(X, 2.0).notes[1] == "a late failure about t = 1 was dropped (cost 0)"


def test_two_callers_may_ask_at_once() -> None:
    both = threading.Barrier(2)

    def meet(points: Array, t: float) -> Answers:
        both.wait(LONG)
        return Answers(points[:, 0] + t, 1.0)

    expert = quick(Script(meet, meet), time_out=LONG)
    said: list[Answers] = []
    callers = [
        threading.Thread(target=lambda t=t: said.append(expert.query(X, t))) for t in (1.0, 2.0)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(float(each.values[0]) for each in said) == [1.0, 2.0]


def test_the_call_sees_what_is_set_for_numpy() -> None:
    def overflow(points: Array, _t: float) -> Answers:
        assert np.geterr()["over"] == "ignore"
        return Answers(points[:, 0], 1.0)

    with np.errstate(over="ignore"):
        quick(Script(overflow), time_out=LONG).query(X, 1.0)


@pytest.mark.slow
def test_a_hanging_expert_does_not_keep_a_program_from_ending() -> None:
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


# --- points asked again ---------------------------------------------------------------------------


def but(*refused: int) -> Callable[[Array, float], Answers]:
    def answer(points: Array, _t: float) -> Answers:
        return Answers(
            np.where(np.isin(points[:, 0], refused), np.nan, points[:, 0]), 0.5, float(len(points))
        )

    return answer


def test_refused_points_are_asked_again_and_merged() -> None:
    script = Script(but(0, 2), but(2), but(2), but())
    said = quick(script, refusals=True).query(X, 1.0)
    assert script.asked == [[0, 1, 2, 3], [0, 2], [2]]
    np.testing.assert_array_equal(said.values, [0, 1, np.nan, 3])
    np.testing.assert_array_equal(said.variance, [0.5, 0.5, 0.5, 0.5])
    assert said.cost == 7.0
    assert said.notes == ("3 of 3 attempts",)
    untouched = Script(but(0, 2))
    assert quick(untouched).query(X, 1.0).answered.sum() == 2
    assert len(untouched.asked) == 1


def test_what_was_answered_before_a_failure_is_kept() -> None:
    script = Script(but(2), OSError("no line"), OSError("no line"))
    said = quick(script, refusals=True).query(X, 1.0)
    assert script.asked == [[0, 1, 2, 3], [2], [2]]
    np.testing.assert_array_equal(said.values, [0, 1, np.nan, 3])
    assert said.notes == ("3 of 3 attempts, one failed with OSError: no line",)


def test_no_points_are_asked_once() -> None:
    script = Script()
    assert len(quick(script, refusals=True).query(np.empty((0, 1)), 1.0)) == 0
    assert len(script.asked) == 1


# --- the rest -------------------------------------------------------------------------------------


def test_rewards_are_handed_on() -> None:
    script = Script()
    rewards = Observations(X[:1], [1.0], [2.0], [0.1])  # type: ignore[arg-type]
    quick(quick(script)).observe(rewards)
    assert script.shown == [rewards]


def test_a_copy_starts_without_the_calls_that_hang() -> None:
    expert = Retrying(Script(), time_out=LONG, wait=BackOff(0.0))
    expert._hanging = 1
    again = pickle.loads(pickle.dumps(expert))
    assert again.query(X, 1.0).answered.all()
    assert repr(again).endswith(", time_out=30, attempts=3)")
    assert repr(Retrying(Script(), refusals=True)).endswith(">, attempts=3, refusals=True)")


def test_bad_parameters() -> None:
    for time_out in (0.0, -1.0, math.nan, math.inf):
        match = f"time_out must be positive and finite, got {time_out}"
        with pytest.raises(ValueError, match=match):
            Retrying(Script(), time_out=time_out)
    for attempts in (0, 1.5, True, "3"):
        with pytest.raises(ValueError, match="attempts must be a whole number of at least 1, got"):
            Retrying(Script(), attempts=attempts)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wait must be callable, got 3"):
        Retrying(Script(), wait=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sleep must be callable, got 3"):
        Retrying(Script(), sleep=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expert must have a method query\(X, t\), got None"):
        Retrying(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest must be finite and not negative, got -1"):
        BackOff(longest=-1.0)

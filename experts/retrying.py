"""`Retrying`: ask again after a failure, and do not wait for ever."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tenacity

from tvbandits.core.arrays import (
    Array,
    as_points,
    as_time,
    flag,
    positive_number,
    whole_number,
)
from tvbandits.core.coercion import shown
from tvbandits.core.protocols import Answers, Expert, ExpertUnavailableError, is_mistake
from tvbandits.experts.asking import SharedLock, Wrapper, ask, checked_expert

# Seconds of the first wait, and of the longest.
FIRST, LONGEST = 0.5, 30.0


def _back_off(retry_state: tenacity.RetryCallState) -> float:
    """Seconds to wait after this attempt: they double, and each is drawn from its upper half.

    The draw keeps many programs that lost the same expert from all coming back at one moment. It never
    touches the global generators.
    """
    whole = min(LONGEST, FIRST * 2.0 ** min(retry_state.attempt_number - 1, 60))
    return float(whole * np.random.default_rng().uniform(0.5, 1.0))


@dataclass
class _Call:
    """One call in a thread of its own."""

    t: float
    said: Answers | None = None
    error: BaseException | None = None
    given_up: bool = False
    finished: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Calls:
    """Calls that hang, and what came of those that did; they stay behind when an expert is copied."""

    lock: SharedLock = field(default_factory=SharedLock)
    hanging: int = 0
    late: list[_Call] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Calls, ()


@dataclass
class _Course:
    """How one query goes: what was answered so far, over all attempts."""

    points: Array
    t: float
    values: Array
    variance: Array
    cost: float = 0.0
    attempts: int = 0
    returned: bool = False
    error: Exception | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Retrying(Wrapper):
    """Asks an expert again if it fails, with growing waits, and gives up a call that hangs.

    Mistakes (`TypeError`, `ValueError` and the others in `tvbandits.core.protocols.MISTAKES`, and
    answers that do not fit the question) are not tried again. After the last attempt the expert is
    unavailable: a bandit goes on without it.

    Parameters
    ----------
    expert : Expert
    time_out : float, optional
        Seconds for each attempt. The call then runs in a thread of its own, and is given up, not
        stopped: Python cannot stop a thread. Until it returns, no other call joins it, every attempt
        counts as timed out at once, and its late answer is dropped; a note says so, and its cost is
        added to that of the next answers. The thread does not keep a program from ending.
    attempts : int
        At least 1.
    wait : callable
        Seconds to wait before the next attempt: any wait of the package tenacity. By default half a
        second, doubled each time up to half a minute.
    refusals : bool
        Whether points without an answer are asked again, they alone; costs are added.
    sleep : callable, optional
        Called with the seconds to wait.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits import Answers, ExpertUnavailableError
    >>> from tvbandits.experts import Retrying
    >>> class Shaky:
    ...     calls = 0
    ...     def query(self, X, t):
    ...         self.calls += 1
    ...         if self.calls == 1:
    ...             raise ExpertUnavailableError("no carrier")
    ...         return Answers(X[:, 0], 0.01)
    >>> steady = Retrying(Shaky(), attempts=2, sleep=lambda seconds: None)
    >>> print(steady.query(np.array([[1.0]]), 1.0).values)
    [1.]
    """

    expert: Expert
    time_out: float | None = field(default=None, kw_only=True)
    attempts: int = field(default=3, kw_only=True)
    wait: Callable[[tenacity.RetryCallState], float] | None = field(default=None, kw_only=True)
    refusals: bool = field(default=False, kw_only=True)
    sleep: Callable[[float], None] | None = field(default=None, kw_only=True)
    _calls: _Calls = field(default_factory=_Calls, init=False)

    def __post_init__(self) -> None:
        checked_expert(self.expert)
        for name, function in (("wait", self.wait), ("sleep", self.sleep)):
            if not (function is None or callable(function)):
                raise ValueError(f"{name} must be callable, got {shown(function)}")
        if self.time_out is not None:
            self.time_out = positive_number("time_out", self.time_out)
        self.attempts = whole_number("attempts", self.attempts)
        self.refusals = flag("refusals", self.refusals)

    def __repr__(self) -> str:
        limit = "" if self.time_out is None else f", time_out={self.time_out:g}"
        again = ", refusals=True" if self.refusals else ""
        return f"Retrying({self.expert!r}{limit}, attempts={self.attempts}{again})"

    def query(self, X: Array, t: float) -> Answers:
        """Ask until there is an answer.

        Raises
        ------
        ExpertUnavailableError
            If no attempt returned; its cause is the last error.
        """
        points = as_points(X)
        none = np.full(len(points), np.nan)
        course = _Course(points, as_time(t), none, none.copy())
        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=self.wait or _back_off,
            sleep=self.sleep or time.sleep,
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, Exception) and not is_mistake(error)
            )
            | tenacity.retry_if_result(lambda complete: not complete),
            retry_error_callback=lambda _: True,
        )
        retry(self._attempt, course)
        if not course.returned:
            raise ExpertUnavailableError(
                f"no answer after {course.attempts} attempt{'s' * (course.attempts > 1)}, "
                f"at last {_described(course.error)}"
            ) from course.error
        return self._summed(course)

    def _attempt(self, course: _Course) -> bool:
        """Ask about what is still open; whether that was the last of it."""
        course.attempts += 1
        missing = np.isnan(course.values)
        try:
            said = self._asked(course.points[missing], course.t)
        except Exception as error:
            course.error = error
            raise
        course.returned = True
        course.values[missing] = said.values
        course.variance[missing] = said.variance
        course.cost += said.cost
        course.notes += said.notes
        return not self.refusals or bool(said.answered.all())

    def _summed(self, course: _Course) -> Answers:
        notes, cost = course.notes, course.cost
        if course.attempts > 1:
            why = "" if course.error is None else f", one failed with {_described(course.error)}"
            notes.append(f"{course.attempts} of {self.attempts} attempts{why}")
        with self._calls.lock.now:
            late, self._calls.late = self._calls.late, []
        for call in late:
            paid = 0.0 if call.said is None else call.said.cost
            cost += paid
            what = "answer" if call.error is None else "failure"
            notes.append(f"a late {what} about t = {call.t:g} was dropped (cost {paid:g})")
        return Answers(course.values, course.variance, cost, tuple(notes))

    def _asked(self, points: Array, t: float) -> Answers:
        if self.time_out is None:
            return ask(self.expert, points, t)
        with self._calls.lock.now:
            if self._calls.hanging:
                raise TimeoutError("an earlier call still hangs")
        call = _Call(t)
        # A copy of the context: what numpy does on overflow is set there, for one.
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._work, call, points), daemon=True, name=repr(self)
        ).start()
        try:
            call.finished.wait(self.time_out)
        finally:  # an interrupt gives the call up, too
            with self._calls.lock.now:
                call.given_up = not call.finished.is_set()
                self._calls.hanging += call.given_up
        if call.given_up:
            raise TimeoutError(f"no answer within {self.time_out:g} s")
        if call.error is not None:
            raise call.error
        assert call.said is not None
        return call.said

    def _work(self, call: _Call, points: Array) -> None:
        try:
            call.said = ask(self.expert, points, call.t)
        except BaseException as error:  # whoever waits raises it
            call.error = error
        with self._calls.lock.now:
            call.finished.set()
            if call.given_up:
                self._calls.hanging -= 1
                self._calls.late.append(call)


def _described(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"

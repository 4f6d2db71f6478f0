"""`Retrying`: ask again after a failure, and do not wait for ever."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tenacity

from tvbandits.core.arrays import (
    Array,
    as_points,
    as_time,
    flag,
    not_negative,
    positive_number,
    whole_number,
)
from tvbandits.core.coercion import shown
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import (
    Answers,
    Expert,
    ExpertUnavailableError,
    inform,
    is_mistake,
    restored,
    state_of,
)
from tvbandits.experts.asking import SharedLock, ask, checked_expert


@dataclass(frozen=True)
class BackOff:
    """Waits that double, up to a longest one, each drawn from its upper half.

    The draw keeps many programs that lost the same expert from all coming back at one moment. It never
    touches the global generators.

    Parameters
    ----------
    first, longest : float
        Seconds.
    seed : int, optional
        The same waits each time; fresh ones without.

    Examples
    --------
    >>> from tvbandits.experts import BackOff
    >>> wait = BackOff(first=0.5, longest=30.0, seed=0)  # for Retrying(expert, wait=...)
    """

    first: float = 0.5
    longest: float = 30.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("first", "longest"):
            not_negative(name, getattr(self, name))
        if self.seed is not None:
            whole_number("seed", self.seed, at_least=0)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Seconds to wait after this attempt."""
        attempt = retry_state.attempt_number
        whole = min(self.longest, self.first * 2.0 ** min(attempt - 1, 60))
        rng = np.random.default_rng(None if self.seed is None else [self.seed, attempt])
        return float(whole * rng.uniform(0.5, 1.0))


@dataclass
class _Call:
    """One call in a thread of its own."""

    t: float
    said: Answers | None = None
    error: BaseException | None = None
    given_up: bool = False
    finished: threading.Event = field(default_factory=threading.Event)


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


class Retrying:
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
        Seconds to wait before the next attempt: `BackOff()`, or any wait of the package tenacity.
    refusals : bool
        Whether points without an answer are asked again, they alone; costs are added.
    sleep : callable
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

    def __init__(
        self,
        expert: Expert,
        *,
        time_out: float | None = None,
        attempts: int = 3,
        wait: Callable[[tenacity.RetryCallState], float] | None = None,
        refusals: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._expert = checked_expert(expert)
        for name, function in (("wait", wait), ("sleep", sleep)):
            if not (callable(function) or (name == "wait" and wait is None)):
                raise ValueError(f"{name} must be callable, got {shown(function)}")
        self._time_out = None if time_out is None else positive_number("time_out", time_out)
        self._attempts = whole_number("attempts", attempts)
        self._wait = BackOff() if wait is None else wait
        self._refusals, self._sleep = flag("refusals", refusals), sleep
        self._forget_calls()

    def _forget_calls(self) -> None:
        self._lock = SharedLock()
        self._hanging = 0
        self._late: list[_Call] = []

    def __repr__(self) -> str:
        limit = "" if self._time_out is None else f", time_out={self._time_out:g}"
        again = ", refusals=True" if self._refusals else ""
        return f"Retrying({self._expert!r}{limit}, attempts={self._attempts}{again})"

    def observe(self, rewards: Observations) -> None:
        """Show rewards to the expert; this is not tried again."""
        inform(self._expert, rewards)

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
            stop=tenacity.stop_after_attempt(self._attempts),
            wait=self._wait,
            sleep=self._pause,
            retry=tenacity.retry_if_exception(_may_pass)
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

    def _pause(self, seconds: float) -> None:
        self._sleep(seconds)

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
        return not self._refusals or bool(said.answered.all())

    def _summed(self, course: _Course) -> Answers:
        notes, cost = course.notes, course.cost
        if course.attempts > 1:
            why = "" if course.error is None else f", one failed with {_described(course.error)}"
            notes.append(f"{course.attempts} of {self._attempts} attempts{why}")
        with self._lock.now:
            late, self._late = self._late, []
        for call in late:
            paid = 0.0 if call.said is None else call.said.cost
            cost += paid
            what = "answer" if call.error is None else "failure"
            notes.append(f"a late {what} about t = {call.t:g} was dropped (cost {paid:g})")
        return Answers(course.values, course.variance, cost, tuple(notes))

    def _asked(self, points: Array, t: float) -> Answers:
        if self._time_out is None:
            return ask(self._expert, points, t)
        with self._lock.now:
            if self._hanging:
                raise TimeoutError("an earlier call still hangs")
        call = _Call(t)
        # A copy of the context: what numpy does on overflow is set there, for one.
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._work, call, points), daemon=True, name=repr(self)
        ).start()
        try:
            call.finished.wait(self._time_out)
        finally:  # an interrupt gives the call up, too
            with self._lock.now:
                call.given_up = not call.finished.is_set()
                self._hanging += call.given_up
        if call.given_up:
            raise TimeoutError(f"no answer within {self._time_out:g} s")
        if call.error is not None:
            raise call.error
        assert call.said is not None
        return call.said

    def _work(self, call: _Call, points: Array) -> None:
        try:
            call.said = ask(self._expert, points, call.t)
        except BaseException as error:  # whoever waits raises it
            call.error = error
        with self._lock.now:
            call.finished.set()
            if call.given_up:
                self._hanging -= 1
                self._late.append(call)

    def state(self) -> dict[str, Any]:
        """What the expert knows: calls that hang stay behind."""
        return {"expert": state_of(self._expert)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Give the expert back what it knew."""
        if "expert" not in state:
            raise ValueError("not the state of a Retrying: 'expert' is missing")
        restored(self._expert, state["expert"])

    def __getstate__(self) -> dict[str, Any]:
        """Calls that hang stay behind."""
        mine = {"_lock", "_hanging", "_late"}
        return {name: value for name, value in vars(self).items() if name not in mine}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_calls()


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, Exception) and not is_mistake(error)


def _described(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"

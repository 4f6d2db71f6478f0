"""`Retrying`: ask again after a failure, and do not wait for ever."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tenacity

from tvbandits.core.arrays import Array, as_points, as_time, flag, positive_number, whole_number
from tvbandits.core.coercion import check_part, function, optional
from tvbandits.core.protocols import Answers, Expert, ExpertUnavailableError, is_mistake
from tvbandits.experts.asking import NEEDS, SharedLock, Wrapper, ask

# Seconds of the first wait, and of the longest.
FIRST, LONGEST = 0.5, 30.0


@dataclass(eq=False)
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
    _given_up: list[tuple[float, Future[Answers]]] = field(
        default_factory=list, init=False, repr=False
    )
    _lock: SharedLock = field(default_factory=SharedLock, init=False, repr=False)

    def __post_init__(self) -> None:
        check_part("expert", self.expert, NEEDS, "query")
        optional(function, "wait", self.wait)
        optional(function, "sleep", self.sleep)
        self.time_out = optional(positive_number, "time_out", self.time_out)
        self.attempts = whole_number("attempts", self.attempts)
        self.refusals = flag("refusals", self.refusals)

    def query(self, X: Array, t: float) -> Answers:
        """Ask until there is an answer.

        Raises
        ------
        ExpertUnavailableError
            If no attempt returned; its cause is the last error.
        """
        points, when = as_points(X), as_time(t)
        values = np.full(len(points), np.nan)
        variance = values.copy()
        came: list[Answers] = []
        errors: list[Exception] = []

        def attempt() -> bool:
            """Ask about what is still open; whether that was the last of it."""
            missing = np.isnan(values)
            try:
                said = self._asked(points[missing], when)
            except Exception as error:
                errors.append(error)
                raise
            came.append(said)
            values[missing], variance[missing] = said.values, said.variance
            return not self.refusals or bool(said.answered.all())

        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=self.wait or tenacity.wait_exponential(FIRST, LONGEST),
            sleep=self.sleep or time.sleep,
            retry=tenacity.retry_if_exception(_may_pass)
            | tenacity.retry_if_result(lambda complete: not complete),
            retry_error_callback=lambda _: True,
        )
        retry(attempt)
        attempts = len(came) + len(errors)
        if not came:
            raise ExpertUnavailableError(
                f"no answer after {attempts} attempt{'s' * (attempts > 1)}, "
                f"at last {_described(errors[-1])}"
            ) from errors[-1]
        cost = sum(said.cost for said in came)
        notes = [note for said in came for note in said.notes]
        if attempts > 1:
            why = f", one failed with {_described(errors[-1])}" if errors else ""
            notes.append(f"{attempts} of {self.attempts} attempts{why}")
        for asked_at, call in self._late():
            error = call.exception()
            paid = call.result().cost if error is None else 0.0
            cost += paid
            what = "answer" if error is None else "failure"
            notes.append(f"a late {what} about t = {asked_at:g} was dropped (cost {paid:g})")
        return Answers(values, variance, cost, tuple(notes))

    def _asked(self, points: Array, t: float) -> Answers:
        if self.time_out is None:
            return ask(self.expert, points, t)
        if not all(call.done() for _, call in self._given_up):
            raise TimeoutError("an earlier call still hangs")
        call: Future[Answers] = Future()

        def work() -> None:
            try:
                call.set_result(ask(self.expert, points, t))
            except BaseException as error:  # whoever waits raises it
                call.set_exception(error)

        # A copy of the context: what numpy does on overflow is set there, for one.
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), daemon=True, name=repr(self)).start()
        given_up = True
        try:
            given_up = not futures.wait([call], self.time_out).done
        finally:  # an interrupt gives the call up, too
            if given_up:
                self._given_up.append((t, call))
        if given_up:
            raise TimeoutError(f"no answer within {self.time_out:g} s")
        return call.result()

    def _late(self) -> list[tuple[float, Future[Answers]]]:
        """Calls that returned after they were given up; each is listed once."""
        with self._lock.now:
            late = [each for each in self._given_up if each[1].done()]
            for each in late:
                self._given_up.remove(each)
            return late

    def __getstate__(self) -> dict[str, Any]:
        """Calls that hang stay behind."""
        return {**vars(self), "_given_up": []}


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, Exception) and not is_mistake(error)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

"""`Retrying` asks again after a failure, and does not wait for ever."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import tenacity

from tvbandits.experts.protocol import Answers, Expert, ExpertUnavailableError, is_mistake
from tvbandits.experts.wrapper import NEEDS, Wrapper, ask
from tvbandits.validation import (
    Array,
    as_points,
    as_time,
    check_function,
    check_optional,
    check_part,
    describe_error,
    positive_number,
    whole_number,
)


@dataclass(eq=False)
class Retrying(Wrapper):
    """Asks an expert again if it fails, with growing waits, and gives up a call that hangs.

    Mistakes (`TypeError`, `ValueError` and the others in `tvbandits.experts.protocol.MISTAKES`, and
    answers that do not fit the question) are not tried again. After the last attempt the expert is
    unavailable: a bandit goes on without it.

    Parameters
    ----------
    expert : Expert
    time_out : float, optional
        Seconds for each attempt. The call then runs in a thread of its own, and is given up, not
        stopped: Python cannot stop a thread. Until it returns, no other call joins it, every attempt
        counts as timed out at once, and its late answer is dropped. The thread does not keep a program
        from ending.
    attempts : int
        At least 1.
    wait : callable
        Seconds to wait before the next attempt: any wait of the package tenacity. By default half a
        second, doubled each time up to half a minute.
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
    sleep: Callable[[float], None] | None = field(default=None, kw_only=True)
    _hanging: set[Future[Answers]] = field(default_factory=set, init=False, repr=False)

    def __post_init__(self) -> None:
        check_part("expert", self.expert, NEEDS, "query")
        check_optional(check_function, "wait", self.wait)
        check_optional(check_function, "sleep", self.sleep)
        self.time_out = check_optional(positive_number, "time_out", self.time_out)
        self.attempts = whole_number("attempts", self.attempts)

    def query(self, X: Array, t: float) -> Answers:
        """Return the first answers that come.

        Raises
        ------
        ExpertUnavailableError
            If no attempt returned; its cause is the last error.
        """
        points, when = as_points(X), as_time(t)
        errors: list[BaseException] = []

        def add_error(state: tenacity.RetryCallState) -> None:
            error = None if state.outcome is None else state.outcome.exception()
            assert error is not None  # only an attempt that failed is followed by another
            errors.append(error)

        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=self.wait or tenacity.wait_exponential(0.5, 30.0),
            sleep=self.sleep or time.sleep,
            retry=tenacity.retry_if_exception(_may_pass),
            after=add_error,
        )
        try:
            answers = retry(self._ask, points, when)
        except tenacity.RetryError:
            attempts = f"{len(errors)} attempt{'s' * (len(errors) > 1)}"
            raise ExpertUnavailableError(
                f"no answer after {attempts}, at last {describe_error(errors[-1])}"
            ) from errors[-1]
        if not errors:
            return answers
        attempts = f"{len(errors) + 1} of {self.attempts} attempts"
        note = f"{attempts}, one failed with {describe_error(errors[-1])}"
        return replace(answers, notes=(*answers.notes, note))

    def _ask(self, points: Array, t: float) -> Answers:
        """Return the answers of one attempt."""
        if self.time_out is None:
            return ask(self.expert, points, t)
        if self._hanging:
            raise TimeoutError("an earlier call still hangs")
        call: Future[Answers] = Future()

        def work() -> None:
            try:
                call.set_result(ask(self.expert, points, t))
            except BaseException as error:  # the thread that waits raises it
                call.set_exception(error)

        # A copy of the context, which has the error state of numpy, for one.
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), daemon=True, name=repr(self)).start()
        try:
            futures.wait([call], self.time_out)
        finally:  # an interrupt gives the call up, too
            late = not call.done()
            if late:
                self._hanging.add(call)
                call.add_done_callback(self._hanging.discard)
        if late:
            raise TimeoutError(f"no answer within {self.time_out:g} s")
        return call.result()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which has no calls that hang."""
        return {**vars(self), "_hanging": set()}


def _may_pass(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    return isinstance(error, Exception) and not is_mistake(error)

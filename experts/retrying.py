"""`Retrying` repeats failed queries of an expert, and abandons queries that do not return."""

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
from tvbandits.experts.wrapper import NEEDS, Wrapper, query_and_check
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
    """A wrapper that repeats a failed query after increasing waits, and abandons a call that hangs.

    Mistakes are not repeated: `TypeError`, `ValueError` and the others in
    `tvbandits.experts.protocol.MISTAKES`, and invalid answers. After the last attempt the expert is
    unavailable, and a bandit continues without it.

    Parameters
    ----------
    expert : Expert
    time_out : float, optional
        Seconds for each attempt. With a time-out, a call runs in a thread of its own. A call that hangs
        is abandoned, not stopped, since Python cannot stop a thread. Until it returns, further attempts
        time out at once without a call; then its late answers are ignored. The thread does not keep a
        program from ending.
    attempts : int
        Largest number of attempts, at least 1.
    wait : callable
        A function that returns the seconds before the next attempt: any wait of the package tenacity.
        None: half a second, doubled each time up to half a minute.
    sleep : callable, optional
        A function that waits for so many seconds. None: `time.sleep`.

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
    >>> expert = Retrying(Shaky(), attempts=2, sleep=lambda seconds: None)
    >>> print(expert.query(np.array([[1.0]]), 1.0).values)
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
        """Return the answers of the first attempt that succeeds.

        Raises
        ------
        ExpertUnavailableError
            If no attempt succeeds; its cause is the last error.
        """
        X, t = as_points(X), as_time(t)
        errors: list[BaseException] = []

        def add_error(state: tenacity.RetryCallState) -> None:
            error = None if state.outcome is None else state.outcome.exception()
            assert error is not None  # tenacity calls this only after an attempt that failed
            errors.append(error)

        retry = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=self.wait or tenacity.wait_exponential(0.5, 30.0),
            sleep=self.sleep or time.sleep,
            retry=tenacity.retry_if_exception(_should_retry),
            after=add_error,
        )
        try:
            answers = retry(self._attempt, X, t)
        except tenacity.RetryError:
            attempts = f"{len(errors)} attempt{'s' * (len(errors) > 1)}"
            raise ExpertUnavailableError(
                f"no answer after {attempts}; the last error was {describe_error(errors[-1])}"
            ) from errors[-1]
        if not errors:
            return answers
        attempts = f"{len(errors) + 1} of {self.attempts} attempts"
        note = f"{attempts} were made; the last failure was {describe_error(errors[-1])}"
        return replace(answers, notes=(*answers.notes, note))

    def _attempt(self, X: Array, t: float) -> Answers:
        """Return the answers of one attempt."""
        if self.time_out is None:
            return query_and_check(self.expert, X, t)
        if self._hanging:
            raise TimeoutError("an earlier call still hangs")
        call: Future[Answers] = Future()

        def run_call() -> None:
            try:
                call.set_result(query_and_check(self.expert, X, t))
            except BaseException as error:  # the waiting thread raises it
                call.set_exception(error)

        # The thread gets a copy of the context, which includes numpy's handling of errors.
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(run_call,), daemon=True, name=repr(self)).start()
        try:
            futures.wait([call], self.time_out)
        finally:  # an interrupt abandons the call, too
            is_late = not call.done()
            if is_late:
                self._hanging.add(call)
                call.add_done_callback(self._hanging.discard)
        if is_late:
            raise TimeoutError(f"no answer within {self.time_out:g} s")
        return call.result()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes of a copy, which has no hanging calls."""
        return {**vars(self), "_hanging": set()}


def _should_retry(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    return isinstance(error, Exception) and not is_mistake(error)

"""One call of an object at a time, with one BLAS thread where matrices are small: more would only wait.

An interrupt (Ctrl-C, a MemoryError) may come at any line, also at the one that ends a block. What is
started here is therefore ended twice, and ending it again does nothing: an interrupt comes once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from threadpoolctl import ThreadpoolController

from tvbandits.errors import CallWithinCallError

# With more observations than this, several BLAS threads help.
SINGLE_THREAD_ROWS = 2000

P = ParamSpec("P")
T = TypeVar("T")


class Turns:
    """The threads that call an object, and the lock that lets one of them in."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.callers: set[int] = set()
        _turns.add(self)

    @property
    def mine(self) -> bool:
        """Whether this thread is inside of a call."""
        return threading.get_ident() in self.callers


class TakingTurns(Protocol):
    """An object whose calls come one at a time."""

    _turns: Turns

    @property
    def _size(self) -> int:
        """The number of observations that a call computes with."""


One = TypeVar("One", bound=TakingTurns)


def in_turn(method: Callable[Concatenate[One, P], T]) -> Callable[Concatenate[One, P], T]:
    """Let one call at a time in, with one BLAS thread unless there is much to compute.

    Other threads wait, and a call from inside of a call is refused.
    """

    @wraps(method)
    def call(self: One, /, *args: P.args, **kwargs: P.kwargs) -> T:
        callers, me = self._turns.callers, threading.get_ident()
        if me in callers:
            what = f"{method.__name__} was called from inside of a call of the same bandit"
            raise CallWithinCallError(f"{what}, such as by its expert")
        limit = one_blas_thread() if self._size <= SINGLE_THREAD_ROWS else nullcontext()
        try:
            try:
                callers.add(me)
                with self._turns.lock, limit:
                    return method(self, *args, **kwargs)
            finally:
                callers.discard(me)
        finally:
            callers.discard(me)

    return call


_turns: WeakSet[Turns] = WeakSet()
_lock = threading.RLock()
# The blocks that have not ended; the libraries they limit, and how many threads each had.
_blocks: set[object] = set()
_before: list[tuple[Any, int]] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside of the block.

    The limit holds for the whole process: blocks that overlap in several threads share it, and the
    last one to end lifts it.
    """
    block = object()
    try:
        try:
            _begin(block)
            yield
        finally:
            _end(block)
    finally:
        _end(block)


def _begin(block: object) -> None:
    with _lock:
        _blocks.add(block)
        if len(_blocks) == 1 and not _before:
            threads = [(library, library.get_num_threads()) for library in _libraries()]
            _before[:] = [(library, count) for library, count in threads if count != 1]
            _set_threads([(library, 1) for library, _ in _before])


def _end(block: object) -> None:
    with _lock:
        _blocks.discard(block)
        if not _blocks and _before:
            _set_threads(_before)
            _before.clear()


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries of this process, which take milliseconds to find.

    They are looked for in a thread of its own: in the main one Ctrl-C may come inside of a function that
    C calls back, where Python prints an exception and goes on.
    """
    try:
        with ThreadPoolExecutor(1) as executor:
            controller = executor.submit(ThreadpoolController).result()
    except RuntimeError:  # no threads here, as in a browser
        controller = ThreadpoolController()
    return [library for library in controller.lib_controllers if library.user_api == "blas"]


def _set_threads(limits: list[tuple[Any, int]]) -> None:
    """Set how many threads libraries use, whichever thread of Python this is.

    threadpoolctl 3.8 lets one thread alone set the number, the first to do so, until it is released.
    """
    for library, threads in limits:
        _release(library)
        library.set_num_threads(threads)
        _release(library)


def _release(library: Any) -> None:
    """Let any thread set the number of threads next; older versions of threadpoolctl let it always."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


def _start_anew() -> None:
    """Replace all locks in a child process, where their holders in the parent do not exist.

    What was limited in the parent is so in the child, and stays listed: its next block lifts that.
    """
    global _lock, _blocks
    _lock, _blocks = threading.RLock(), set()
    for turns in list(_turns):
        turns.lock, turns.callers = threading.RLock(), set()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_start_anew)

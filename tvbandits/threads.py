"""A lock that admits one call of an object at a time, and a limit of one BLAS thread.

With small matrices, further BLAS threads would only wait for each other.

An interrupt (Ctrl-C, a MemoryError) may come at any line, also at the one that releases a lock or lifts
a limit. Each is therefore released twice: the second release does nothing, unless an interrupt, which
comes once, has prevented the first.
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

# With more observations than this, several BLAS threads are faster than one.
SINGLE_THREAD_ROWS = 2000

P = ParamSpec("P")
T = TypeVar("T")


class CallLock:
    """A lock that admits one thread at a time to an object, and the threads that call the object."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.callers: set[int] = set()
        _call_locks.add(self)

    @property
    def is_within_call(self) -> bool:
        """Return whether the present thread is inside of a call of the object."""
        return threading.get_ident() in self.callers


class LockedObject(Protocol):
    """An object that admits one call at a time."""

    _call_lock: CallLock

    @property
    def _size(self) -> int:
        """Return the number of observations that a call computes with."""


Locked = TypeVar("Locked", bound=LockedObject)


def lock_calls(method: Callable[Concatenate[Locked, P], T]) -> Callable[Concatenate[Locked, P], T]:
    """Make a method admit one call of its object at a time, with one BLAS thread if data are few.

    Calls from other threads wait. A call from inside of another call raises `CallWithinCallError`.
    """

    @wraps(method)
    def call(self: Locked, /, *args: P.args, **kwargs: P.kwargs) -> T:
        callers, me = self._call_lock.callers, threading.get_ident()
        if me in callers:
            raise CallWithinCallError(
                f"{method.__name__} was called from inside of a call of the same bandit, such as by its "
                "expert: call it after that call has returned"
            )
        limit = limit_blas_threads() if self._size <= SINGLE_THREAD_ROWS else nullcontext()
        try:
            try:
                callers.add(me)
                with self._call_lock.lock, limit:
                    return method(self, *args, **kwargs)
            finally:
                callers.discard(me)
        finally:
            callers.discard(me)

    return call


_call_locks: WeakSet[CallLock] = WeakSet()
_lock = threading.RLock()
# The blocks that have not ended, and the libraries that they limit with their former numbers of threads.
_blocks: set[object] = set()
_former_counts: list[tuple[Any, int]] = []


@contextmanager
def limit_blas_threads() -> Iterator[None]:
    """Limit BLAS to one thread within the block of a with statement.

    The limit holds for the whole process. Blocks that overlap in several threads share it, and the last
    block to end lifts it.
    """
    block = object()
    try:
        try:
            _begin_block(block)
            yield
        finally:
            _end_block(block)
    finally:
        _end_block(block)


def _begin_block(block: object) -> None:
    """Record a block, and set the limit if it is the first one."""
    with _lock:
        _blocks.add(block)
        if len(_blocks) == 1 and not _former_counts:
            counts = [(library, library.get_num_threads()) for library in _find_libraries()]
            _former_counts[:] = [(library, count) for library, count in counts if count != 1]
            _set_thread_counts([(library, 1) for library, _ in _former_counts])


def _end_block(block: object) -> None:
    """Forget a block, and lift the limit if no other block is left."""
    with _lock:
        _blocks.discard(block)
        if not _blocks and _former_counts:
            _set_thread_counts(_former_counts)
            _former_counts.clear()


@cache
def _find_libraries() -> list[Any]:
    """Return the BLAS libraries of this process; the search takes milliseconds.

    It runs in a thread of its own. In the main thread Ctrl-C may raise its exception inside of a Python
    function that C calls, where Python prints the exception and ignores it.
    """
    try:
        with ThreadPoolExecutor(1) as executor:
            controller = executor.submit(ThreadpoolController).result()
    except RuntimeError:  # threads cannot be started, as in a browser
        controller = ThreadpoolController()
    return [library for library in controller.lib_controllers if library.user_api == "blas"]


def _set_thread_counts(counts: list[tuple[Any, int]]) -> None:
    """Set the number of threads of each library, from any Python thread.

    In threadpoolctl 3.8 the first thread that sets the number is the only one that may, until released.
    """
    for library, count in counts:
        _release_control(library)
        library.set_num_threads(count)
        _release_control(library)


def _release_control(library: Any) -> None:
    """Allow any Python thread to set the number of threads next, as older threadpoolctl always does."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)


def _reset_after_fork() -> None:
    """Replace all locks in a child process, where the parent's threads that hold them do not exist.

    A limit of the parent still holds in the child, and the end of the child's next block lifts it.
    """
    global _lock, _blocks
    _lock, _blocks = threading.RLock(), set()
    for call_lock in list(_call_locks):
        call_lock.lock, call_lock.callers = threading.RLock(), set()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_reset_after_fork)

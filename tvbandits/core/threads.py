"""One thread at a time, and one BLAS thread where matrices are small: several would only wait.

An interrupt (Ctrl-C, a MemoryError) may come at any line, also at the one that ends a block. What is
begun here is therefore ended twice, and ending it again does nothing: an interrupt comes once. It may
also keep the frames of what it ended alive, as an interactive session does with the last error, so that
nothing may rest on an object being thrown away.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from threadpoolctl import ThreadpoolController

from tvbandits.core.protocols import CallWithinCallError

# With more observations, several BLAS threads help.
LARGE = 2000

P = ParamSpec("P")
T = TypeVar("T")


class Turns:
    """Who is inside of a call of an object whose calls come one at a time."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As nobody is."""
        self.lock = threading.RLock()
        self.callers: set[int] = set()
        self.process = os.getpid()

    @property
    def mine(self) -> bool:
        """Whether this thread is inside of a call."""
        return threading.get_ident() in self.callers and os.getpid() == self.process


class TakingTurns(Protocol):
    """An object whose calls come one at a time."""

    _turns: Turns

    @property
    def _size(self) -> int:
        """How many observations it computes with."""


One = TypeVar("One", bound=TakingTurns)


def in_turn(method: Callable[Concatenate[One, P], T]) -> Callable[Concatenate[One, P], T]:
    """One call at a time, with one BLAS thread unless there is much to compute.

    Other threads wait, and a call from inside of a call is refused.
    """

    @wraps(method)
    def call(self: One, /, *args: P.args, **kwargs: P.kwargs) -> T:
        turns, me = self._turns, threading.get_ident()
        if os.getpid() != turns.process:
            # A child process: who held the lock in the parent is not there.
            turns.renew()
        if me in turns.callers:
            raise CallWithinCallError(
                f"{method.__name__} was called from inside of a call of the same bandit, such as by "
                "its expert"
            )
        inside = _blocks.count(me)
        try:
            try:
                turns.callers.add(me)
                with turns.lock:
                    if self._size <= LARGE:
                        _begin(me)
                    return method(self, *args, **kwargs)
            finally:
                _end(me, inside, turns.lock)
                turns.callers.discard(me)
        finally:
            if me in turns.callers:  # not ended yet
                _end(me, inside, turns.lock)
                turns.callers.discard(me)

    return call


_lock = threading.RLock()
# The threads of the blocks that were begun and not ended.
_blocks: list[int] = []

# The libraries that are limited, and how many threads each had.
_before: list[tuple[Any, int]] = []


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process, which take milliseconds to find.

    They are looked for in a thread of its own. In the main one Ctrl-C may come inside of a function
    that C calls back, where Python prints an exception and goes on: the interrupt would be lost.
    """
    try:
        with ThreadPoolExecutor(1) as executor:
            found = executor.submit(ThreadpoolController).result()
    except RuntimeError:  # no threads here, as in a browser
        found = ThreadpoolController()
    return [lib for lib in found.lib_controllers if lib.user_api == "blas"]


def _forget() -> None:
    """Start anew in a child process: who held the lock in the parent is not there.

    What was limited in the parent is so in the child, and stays listed: its next block lifts that.
    """
    global _lock, _blocks
    _lock, _blocks = threading.RLock(), []


os.register_at_fork(after_in_child=_forget)


def _limit(limits: list[tuple[Any, int]]) -> None:
    """Set how many threads libraries take, whichever thread of Python this is.

    threadpoolctl 3.8 lets one thread alone set the number, the first to do so; what others set is
    silently nothing. Here the first block to begin sets it, and the last to end, which may be in
    another thread, sets it back.
    """
    for library, threads in limits:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)
        library.set_num_threads(threads)
        if release is not None:
            release(force=True)


def _begin(me: int) -> None:
    """Enter a block; the first one limits the libraries."""
    with _lock:  # let go of by `_end`, should an interrupt come at the end of this
        _blocks.append(me)
        if len(_blocks) > 1:
            return
        # Where there is one thread already, as in a comparison, nothing needs to be set.
        if not _before:
            known = [(lib, lib.get_num_threads()) for lib in _libraries()]
            _before[:] = [(lib, threads) for lib, threads in known if threads != 1]
        if _before:
            _limit([(lib, 1) for lib, _ in _before])


def _end(me: int, inside: int, *locks: Any) -> None:
    """Leave the blocks of a thread that were begun after the first so many, and let go of locks.

    With no block left, the libraries take as many threads as before.
    """
    try:
        with _lock:
            for _ in range(_blocks.count(me) - inside):
                _blocks.remove(me)
            if not _blocks and _before:
                _limit(_before)
                _before.clear()
    finally:
        for lock in (_lock, *locks):
            with suppress(RuntimeError):  # until this thread does not hold it any more
                while True:
                    lock.release()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside of the block.

    The limit holds for the whole process: blocks that overlap in several threads share it, and the
    last one to end lifts it.
    """
    me = threading.get_ident()
    inside = _blocks.count(me)
    try:
        try:
            _begin(me)
            yield
        finally:
            _end(me, inside)
    finally:
        if _blocks.count(me) > inside or _before:
            _end(me, inside)

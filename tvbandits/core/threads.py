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
from contextlib import contextmanager
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
            what = f"{method.__name__} was called from inside of a call of the same bandit"
            raise CallWithinCallError(f"{what}, such as by its expert")
        block = object()
        try:
            try:
                turns.callers.add(me)
                with turns.lock:
                    if self._size <= LARGE:
                        _begin(block)
                    return method(self, *args, **kwargs)
            finally:
                _end(block)
                turns.callers.discard(me)
        finally:
            if me in turns.callers:  # not ended yet
                _end(block)
                turns.callers.discard(me)

    return call


_lock = threading.RLock()
# The blocks that were begun and not ended.
_blocks: set[object] = set()

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
    _lock, _blocks = threading.RLock(), set()


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


def _begin(block: object) -> None:
    """Enter a block; the first one limits the libraries."""
    with _lock:
        _blocks.add(block)
        if len(_blocks) > 1:
            return
        # Where there is one thread already, as in a comparison, nothing needs to be set.
        if not _before:
            known = [(lib, lib.get_num_threads()) for lib in _libraries()]
            _before[:] = [(lib, threads) for lib, threads in known if threads != 1]
        if _before:
            _limit([(lib, 1) for lib, _ in _before])


def _end(block: object) -> None:
    """Leave a block; with none left, the libraries take as many threads as before."""
    with _lock:
        _blocks.discard(block)
        if not _blocks and _before:
            _limit(_before)
            _before.clear()


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

"""One BLAS thread where matrices are small: several would only wait for each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_blocks = 0
_before: list[tuple[Any, int]] = []
"""The libraries that are limited, and how many threads each had."""


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process, which take milliseconds to find."""
    return [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]


def _forget() -> None:
    """Start anew in a child process: who held the lock in the parent is not there.

    What was limited in the parent is so in the child, and stays listed: its next block lifts that.
    """
    global _lock, _blocks
    _lock, _blocks = threading.Lock(), 0


os.register_at_fork(after_in_child=_forget)


def _limit(library: Any, threads: int) -> None:
    """Set how many threads a library takes, whichever thread of Python this is.

    threadpoolctl 3.8 lets one thread alone set the number, the first to do so; what others set is
    silently nothing. Here the first block to begin sets it, and the last to end, which may be in
    another thread, sets it back.
    """
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)
    if release is not None:
        release(force=True)


@contextmanager
def one_blas_thread(small: bool = True) -> Iterator[None]:
    """Limit BLAS to one thread inside of the block, if what it computes is small.

    The limit holds for the whole process: blocks that overlap in several threads share it, and the
    last one to end lifts it.
    """
    global _blocks
    if not small:
        yield
        return
    with _lock:
        if _blocks == 0:
            # Where there is one thread already, as in a comparison, nothing needs to be set.
            if not _before:
                known = ((lib, lib.get_num_threads()) for lib in _libraries())
                _before.extend((lib, threads) for lib, threads in known if threads != 1)
            for lib, _ in _before:
                _limit(lib, 1)
        _blocks += 1
        entered = _lock
    try:
        yield
    finally:
        with _lock:
            # In a child that was forked inside of the block, it is its parent's to end.
            if entered is _lock:
                _blocks -= 1
                if _blocks == 0:
                    for lib, threads in _before:
                        _limit(lib, threads)
                    _before.clear()

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
                _before.extend(
                    (lib, n) for lib in _libraries() if (n := lib.get_num_threads()) != 1
                )
            for lib, _ in _before:
                lib.set_num_threads(1)
        _blocks += 1
        entered = _lock
    try:
        yield
    finally:
        with _lock:
            if (
                entered is _lock
            ):  # else this is a child process, which does not end its parent's block
                _blocks -= 1
                if _blocks == 0:
                    for lib, threads in _before:
                        lib.set_num_threads(threads)
                    _before.clear()

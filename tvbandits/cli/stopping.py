"""How a command is stopped: by Ctrl-C, or by a request to end (SIGTERM). Imports next to nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

# Exit status after Ctrl-C, and after a request to end.
INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """A request to end, which is treated as Ctrl-C is."""


class StoppedError(Exception):
    """The user has stopped a command, and knows what became of it."""

    def __init__(self, status: int = INTERRUPTED) -> None:
        super().__init__(status)
        self.status = status


@contextlib.contextmanager
def _handled(
    number: int, usual: Any, handler: Callable[[int, FrameType | None], Any]
) -> Iterator[None]:
    """While a signal is ours: in the main thread, and where nobody else has decided on it."""
    here = threading.current_thread() is threading.main_thread()
    if not (here and signal.getsignal(number) == usual):
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, usual)


def leaving() -> contextlib.AbstractContextManager[None]:
    """While modules are imported Ctrl-C ends the process at once: there is nothing to keep.

    An exception would not do: it may come up in code that takes it for a failed import.
    """
    return _handled(signal.SIGINT, signal.default_int_handler, _leave)


def ending_like_an_interrupt() -> contextlib.AbstractContextManager[None]:
    """A request to end raises `Terminated` here, so that what is done can be kept."""
    return _handled(signal.SIGTERM, signal.SIG_DFL, _terminate)


class Later:
    """A module of this folder, imported when it is used first; Ctrl-C ends the process meanwhile.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        with leaving():
            module = import_module(f"tvbandits.cli.{self._name}")
        return getattr(module, attribute)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"tvbandits: interrupted\n")
    os._exit(INTERRUPTED)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated

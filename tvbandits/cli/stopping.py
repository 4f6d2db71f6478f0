"""The ways to stop a command: Ctrl-C, and a request to terminate (SIGTERM). Imports next to nothing."""

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

# Exit status after Ctrl-C, and after a request to terminate.
INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """A request to terminate, which is treated like Ctrl-C."""


class StoppedError(Exception):
    """The user has stopped a command and was told what became of it."""

    def __init__(self, status: int = INTERRUPTED) -> None:
        super().__init__(status)
        self.status = status


@contextlib.contextmanager
def _handle(
    number: int, default: Any, handler: Callable[[int, FrameType | None], Any]
) -> Iterator[None]:
    """Handle a signal, in the main thread and if nobody else handles it."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not (in_main_thread and signal.getsignal(number) == default):
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, default)


def exit_on_interrupt() -> contextlib.AbstractContextManager[None]:
    """End the process at once on Ctrl-C, while modules are imported.

    An exception would not do: it could be raised in code that takes it for a failed import.
    """
    return _handle(signal.SIGINT, signal.default_int_handler, _exit)


def interrupt_on_termination() -> contextlib.AbstractContextManager[None]:
    """Raise `Terminated` on a request to terminate, so that finished runs can be saved."""
    return _handle(signal.SIGTERM, signal.SIG_DFL, _terminate)


class Later:
    """A module that is imported when it is used first.

    Parameters
    ----------
    name : str
        The name of the module, after "tvbandits.".
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        with exit_on_interrupt():
            module = import_module(f"tvbandits.{self._name}")
        return getattr(module, attribute)


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, b"tvbandits: interrupted\n")
    os._exit(INTERRUPTED)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated

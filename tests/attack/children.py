"""A call in a process of its own, with little memory and an end, and what it said and took."""

import contextlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes
    ----------
    status : int
        Exit status; the negative number of the signal that ended it.
    out, err : str
        What it printed.
    seconds : float
    megabytes : float
        The most memory that it held, above what it held as it began: the kernel's own peak.
    """

    status: int
    out: str
    err: str
    seconds: float
    megabytes: float

    @property
    def too_long(self) -> bool:
        """Whether it was ended because it did not end."""
        return self.status == -signal.SIGALRM


def _held() -> float:
    """Megabytes in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def _limited(memory: int) -> None:
    """Let this process take so many bytes more than it holds."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 32, 1 << 32))


def in_a_child(call: Callable[[], int], *, seconds: int = 30, memory: int = 3 << 30) -> Ended:
    """Make a call in a fork of this process; its result is the exit status, and an exception is 70."""
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryFile() as began_with,
    ):
        sys.stdout.flush()
        sys.stderr.flush()
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            status = 70
            try:
                # Not what the parent holds: a fork shares files that are mapped, and holds less.
                os.pwrite(began_with.fileno(), str(_held()).encode(), 0)
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                # Who is tested may have put streams of its own in their place.
                sys.stdout = os.fdopen(1, "w", closefd=False, errors="backslashreplace")
                sys.stderr = os.fdopen(2, "w", closefd=False, errors="backslashreplace")
                _limited(memory)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(seconds)
                status = call()
            except SystemExit as leaving:
                status = leaving.code if isinstance(leaving.code, int) else 0
            except BaseException:
                traceback.print_exc()
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(status)
        _, ended, used = os.wait4(child, 0)
        status = os.waitstatus_to_exitcode(ended)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read(1 << 20).decode(errors="replace"))
        held = float(os.pread(began_with.fileno(), 64, 0) or 0)
    megabytes = used.ru_maxrss * 1024 / 1e6 - held  # ru_maxrss is in kibibytes
    return Ended(status, texts[0], texts[1], time.monotonic() - began, max(megabytes, 0.0))

"""A progress bar for commands that take more than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

# Seconds after which a person should see that something is done.
SLOW = 2.0

# A part of a command that takes less shows no bar, however long the command has taken.
SHORTEST = 0.2

# When the command began, nearly: each command is a process of its own, which imports this first.
_BEGIN = monotonic()


@contextmanager
def bar_if_slow(text: str, *, is_shown: bool = True) -> Iterator[Callable[[float], None]]:
    """Show a bar from `SLOW` seconds after the command began, if messages go to a terminal.

    It yields a function that moves the bar to a share from 0 to 1; until then the bar shows no end.
    Nothing may be printed or asked meanwhile.
    """
    if not (is_shown and sys.stderr.isatty()):
        yield lambda _: None
        return
    shares: list[float] = []
    bars: list[Progress] = []

    def show() -> None:
        from tvbandits.cli.terminal import progress_bars

        progress = progress_bars()
        progress.add_task(text, total=None)
        progress.start()
        bars.append(progress)
        if shares:
            move(shares[-1])

    def move(share: float) -> None:
        shares.append(share)
        for each in bars:
            each.update(each.task_ids[0], total=1.0, completed=share)

    timer = Timer(max(SHORTEST, SLOW - (monotonic() - _BEGIN)), show)
    timer.daemon = True
    timer.start()
    try:
        yield move
    finally:
        timer.cancel()
        timer.join()  # a bar that starts just now is stopped, too
        for each in bars:
            each.stop()

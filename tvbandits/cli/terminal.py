"""Messages and progress on the terminal, and pages that a command writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from tvbandits.io import replace_file
from tvbandits.validation import clean

messages = Console(stderr=True)


def say(line: str) -> None:
    """Print one line for people as it is: neither wrapped nor taken for markup."""
    messages.print(clean(line), soft_wrap=True, markup=False, highlight=False, emoji=False)


def progress_bars(*columns: ProgressColumn) -> Progress:
    """Return progress bars with a text, which only a terminal shows."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        TimeRemainingColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    )


def write_page(text: str, path: Path, replaces: Callable[[Path], bool] | None = None) -> None:
    """Write a page as a whole; replace a file only if `replaces`, if given, says so.

    Raises
    ------
    ValueError
        If the page cannot be written.
    """
    try:
        replace_file(
            path, lambda draft: draft.write_text(text, encoding="utf-8"), replaces=replaces
        )
    except FileExistsError:
        raise ValueError(
            f"{path} already exists, and is not an earlier page of this campaign"
        ) from None
    except OSError as error:
        raise ValueError(f'cannot write "{path}": {error.strerror or error}') from error
    say(f"{path}")

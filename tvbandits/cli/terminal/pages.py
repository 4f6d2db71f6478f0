"""Pages that a command leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tvbandits.cli.terminal.console import say
from tvbandits.core.files.placing import put_in_place


def write_page(make: Callable[[], str], place: Path) -> None:
    """Put a page in place once it is whole.

    Raises
    ------
    ValueError
        If plotly is missing, or the page cannot be written.
    """
    try:
        text = make()
    except ImportError as error:
        raise ValueError(str(error)) from error
    try:
        put_in_place(place, lambda draft: draft.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise ValueError(f'cannot write "{place}": {error.strerror or error}') from error
    say(f"{place}")

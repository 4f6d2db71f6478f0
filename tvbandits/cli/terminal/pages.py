"""Pages that a command leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tvbandits.cli.terminal.console import say
from tvbandits.core.files.placing import put_in_place


def write_page(
    make: Callable[[], str], place: Path, replaces: Callable[[Path], bool] | None = None
) -> None:
    """Put a page in place once it is whole; of what is there, only what `replaces` says, if given.

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
        put_in_place(
            place, lambda draft: draft.write_text(text, encoding="utf-8"), replaces=replaces
        )
    except FileExistsError as error:
        raise ValueError(f"{error} that is no earlier page of this campaign") from error
    except OSError as error:
        raise ValueError(f'cannot write "{place}": {error.strerror or error}') from error
    say(f"{place}")

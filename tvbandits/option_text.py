"""Text with which a message tells the user to set an option of a table, in Python or in a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# True while messages are to name the options of tables as the command line writes them.
_is_command = ContextVar("_is_command", default=False)


@contextmanager
def use_command_line_names() -> Iterator[None]:
    """Make messages within this context name options as the command line writes them."""
    token = _is_command.set(True)
    try:
        yield
    finally:
        _is_command.reset(token)


# Fields of `FileOptions` that are lists.
LISTS = ("missing", "without", "keep")


def format_option(name: str, value: Any, *more: Any) -> str:
    """Return the text that sets a field of `FileOptions` in Python, or on the command line.

    Further values are for a field that is a list.

    Examples
    --------
    >>> from tvbandits.option_text import format_option, use_command_line_names
    >>> print(format_option("missing", "-999"))
    FileOptions(missing=['-999'])
    >>> with use_command_line_names():
    ...     print(format_option("missing", "-999"))
    --missing -999
    """
    values = [str(value), *map(str, more)]
    if _is_command.get():
        return " ".join(f"--{name} {shlex.quote(each)}" for each in values)
    return f"FileOptions({name}={values if name in LISTS else value!r})"

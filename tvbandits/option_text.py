"""How a message names an option of a table: in the words of Python, or of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Whether messages name the options of tables as the command line writes them.
_is_command = ContextVar("_is_command", default=False)


@contextmanager
def command_line_words() -> Iterator[None]:
    """Let messages within this context name options as the command line writes them."""
    token = _is_command.set(True)
    try:
        yield
    finally:
        _is_command.reset(token)


def option_text(name: str, value: Any) -> str:
    """Return how a person sets a field of `FileOptions`, in Python or, there, on the command line.

    Examples
    --------
    >>> from tvbandits.option_text import command_line_words, option_text
    >>> print(option_text("missing", "-999"))
    FileOptions(missing=['-999'])
    >>> with command_line_words():
    ...     print(option_text("missing", "-999"))
    --missing -999
    """
    if _is_command.get():
        return f"--{name} {shlex.quote(str(value))}"
    return f"FileOptions({name}={[str(value)] if name in ('missing', 'without') else value!r})"

"""Text with which a message tells the user to set an option, in Python or in a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# True while messages are to name the options of tables as the command line writes them.
_is_command = ContextVar("_is_command", default=False)


@contextmanager
def use_command_line_names(*, is_command: bool = True) -> Iterator[None]:
    """Make messages within this context name options as the command line, or as Python, writes them."""
    token = _is_command.set(is_command)
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


def choose_words(python: str, command: str) -> str:
    """Return the words of a message for a user of Python, or for one of the command line.

    Examples
    --------
    >>> from tvbandits.option_text import choose_words
    >>> print(choose_words("near=3", "--near 3"))
    near=3
    """
    return command if _is_command.get() else python


def format_context(names: Iterable[str]) -> str:
    """Return the text that gives a context with some names.

    Examples
    --------
    >>> from tvbandits.option_text import format_context, use_command_line_names
    >>> print(format_context(["outside", "mode"]))
    context={'outside': ..., 'mode': ...}
    >>> with use_command_line_names():
    ...     print(format_context(["outside", "mode"]))
    --context outside=...,mode=...
    """
    listed = [*names]
    python = ", ".join(f"{name!r}: ..." for name in listed)
    command = ",".join(f"{name}=..." for name in listed)
    return choose_words(f"context={{{python}}}", f"--context {shlex.quote(command)}")

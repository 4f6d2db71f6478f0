"""The command line as a user calls it: arguments in, exit status and two texts out."""

import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import typer.main

from tvbandits.__main__ import main

# The parser of all commands is built once in a process, as in a process of the command line.
parser = cache(typer.main.get_command)


class CommandResult(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., CommandResult]


def check_success(result: CommandResult) -> str:
    """Return the output of a command, after a check that it succeeded without a message."""
    assert (result.status, result.err) == (0, ""), result
    return result.out


def check_error_line(result: CommandResult, message: str) -> None:
    """Check that a command failed with status 2 and one line, which matches."""
    assert (result.status, result.out) == (2, ""), result
    assert re.fullmatch(r"tvbandits: [^\n]+\n", result.err), result.err
    assert re.search(message, result.err), result.err


def commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str
) -> Command:
    """Return a function that runs `tvbandits` with the first words and further arguments."""

    def run(*arguments: object) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["tvbandits", *first, *map(str, arguments)])
        monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
        monkeypatch.setattr(typer.main, "get_command", parser)
        with pytest.raises(SystemExit) as caught:
            main()
        status = caught.value.code
        assert isinstance(status, int)
        return CommandResult(status, *capsys.readouterr())

    return run

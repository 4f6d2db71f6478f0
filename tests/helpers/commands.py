"""The command line as a person meets it: words in, exit status and two texts out."""

import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import typer.main

from tvbandits.__main__ import main

# A process builds the parser of all commands once, for the one command line that it gets.
parser = cache(typer.main.get_command)


class Said(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., Said]


def fine(said: Said) -> str:
    """What a command printed that has nothing to complain of."""
    assert (said.status, said.err) == (0, ""), said
    return said.out


def one_line(said: Said, message: str) -> None:
    """A complaint: nothing but one line, which matches, and exit status 2."""
    assert (said.status, said.out) == (2, ""), said
    assert re.fullmatch(r"tvbandits: [^\n]+\n", said.err), said.err
    assert re.search(message, said.err), said.err


def commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *first: str
) -> Command:
    """What says `tvbandits` and the first words, and then what it is given."""

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["tvbandits", *first, *map(str, arguments)])
        monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
        monkeypatch.setattr(typer.main, "get_command", parser)
        with pytest.raises(SystemExit) as ended:
            main()
        status = ended.value.code
        assert isinstance(status, int)
        return Said(status, *capsys.readouterr())

    return run

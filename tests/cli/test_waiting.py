"""The bar of what takes long: on a terminal after two seconds, and not elsewhere."""

import io
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from tvbandits.cli import terminal, waiting


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The terminal of messages, with a bar after a twentieth of a second."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(waiting, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(
        terminal, "messages", Console(file=stream, force_terminal=True, force_interactive=True)
    )
    monkeypatch.setattr(waiting, "SLOW", 0.0)
    monkeypatch.setattr(waiting, "SHORTEST", 0.05)
    return stream


def test_what_is_slow_shows_a_bar_and_its_share_until_it_ends(screen: Terminal) -> None:
    with waiting.bar_if_slow("tell") as move:
        move(0.5)
        time.sleep(0.5)
    text = screen.getvalue()
    assert "tell" in text
    assert "━" in text


def test_what_is_fast_shows_no_bar(screen: Terminal) -> None:
    with waiting.bar_if_slow("tell") as move:
        move(0.5)
    assert screen.getvalue() == ""


def test_no_bar_without_a_terminal_or_where_an_expert_may_ask(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiting.bar_if_slow("tell", is_shown=False):
        time.sleep(0.1)
    assert screen.getvalue() == ""
    monkeypatch.setattr(screen, "isatty", lambda: False)
    with waiting.bar_if_slow("tell"):
        time.sleep(0.1)
    assert screen.getvalue() == ""


def test_parts_that_are_fast_alone_show_a_bar_once_the_command_is_slow(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SLOW", 2.0)
    monkeypatch.setattr(waiting, "_BEGIN", time.monotonic() - 1.7)
    with waiting.bar_if_slow("read"):
        time.sleep(0.1)
    assert screen.getvalue() == ""
    with waiting.bar_if_slow("tell"):
        time.sleep(0.6)
    assert "tell" in screen.getvalue()


def test_an_error_ends_the_bar(screen: Terminal) -> None:
    with pytest.raises(ValueError, match="wrong"), waiting.bar_if_slow("tell"):  # noqa: PT012
        time.sleep(0.3)
        raise ValueError("wrong")
    length = len(screen.getvalue())
    time.sleep(0.3)
    assert len(screen.getvalue()) == length

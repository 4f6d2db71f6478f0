"""The progress bar of slow commands: after two seconds, and on a terminal only."""

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


def test_bar_if_slow_shows_a_bar_for_a_slow_part(screen: Terminal) -> None:
    with waiting.bar_if_slow("tell") as move:
        move(0.5)
        time.sleep(0.5)
    text = screen.getvalue()
    assert "tell" in text
    assert "━" in text


def test_bar_if_slow_shows_nothing_for_a_fast_part(screen: Terminal) -> None:
    with waiting.bar_if_slow("tell") as move:
        move(0.5)
    assert screen.getvalue() == ""


def test_bar_if_slow_shows_nothing_if_hidden_or_without_a_terminal(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiting.bar_if_slow("tell", is_shown=False):
        time.sleep(0.1)
    assert screen.getvalue() == ""
    monkeypatch.setattr(screen, "isatty", lambda: False)
    with waiting.bar_if_slow("tell"):
        time.sleep(0.1)
    assert screen.getvalue() == ""


def test_bar_if_slow_counts_the_time_since_the_command_began(
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


def test_bar_if_slow_ends_the_bar_after_an_error(screen: Terminal) -> None:
    with pytest.raises(ValueError, match="wrong"), waiting.bar_if_slow("tell"):  # noqa: PT012
        time.sleep(0.3)
        raise ValueError("wrong")
    length = len(screen.getvalue())
    time.sleep(0.3)
    assert len(screen.getvalue()) == length

"""Hostile servers: a download ends in time, by a named error or whole, and keeps to its limits.

A server on this machine answers every request in a way that is drawn: odd status lines, headers,
lengths, ranges, redirects, encodings and bodies, at any pace, a byte at a time or without an end. A
download may not take longer than its limit, keep more than its limit, use http unless it is told, or
raise what is not ours.
"""

from __future__ import annotations

import contextlib
import gzip
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from tests.attack.report import SILENT, WRONG, Count, Found, Trial, in_the_loop, one_of
from tvbandits.datasets import DownloadLimits, fetch_ozone
from tvbandits.datasets.epa_ozone.fetch import Transfer, download

SECONDS, LARGEST = 1.5, 300_000
"""Limits of a download."""

Send = Callable[[bytes], None]
Script = tuple[bytes, bytes, int, float]
"""What is sent first, what then, how many times and how many seconds apart."""

BOMB = gzip.compress(bytes(50_000_000))

STATUS = [
    *(b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"HTTP/1.1 206 Partial"),
    *(b"HTTP/1.1 404 \x1b[31mno\x1b[0m", b"HTTP/1.1 500 " + b"x" * 70_000, b"HTTP/1.1 99999 OK"),
    *(b"HTTP/9.9 200 OK", b"hello", b"", b"\xff\xfe\x00", b"HTTP/1.1 304 Not", b"HTTP/1.1 204 No"),
]

LENGTHS = (b"1000", b"-5", b"1, 2", b"x", b"9" * 5000, b"\xb2", b"99999999999")
RANGES = (b"100-999/1000", b"0-5/2", b"9" * 5000 + b"-1/3")
HEADERS = [
    *(b"Content-Length: " + each for each in LENGTHS),
    *(b"Content-Range: bytes " + each for each in RANGES),
    *(b"Content-Encoding: " + each for each in (b"gzip", b"br, gzip, gzip", b"zstd")),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: nonsense", b"Last-Modified: never"),
    *(b"ETag: " + each for each in (b'"a"', b'W/"a"', b"y" * 60_000)),
    *(b"no header at all", b": empty", b"Connection: close", b"Set-Cookie: a=\x1b[31m"),
    b"X: " + b"z" * 100_000,
]

PLACES = [
    *(b"/again", b"//169.254.169.254/latest", b"http://127.0.0.1:1/", b"https://127.0.0.1/", b""),
    *(b"file:///etc/passwd", b"ftp://127.0.0.1/x", b"http://[::1", b"http://127.0.0.1:99999/"),
    *(b"http://" + b"x" * 9000, b"/\x1b[31m", b"http://user:pass@127.0.0.1:2/", b"javascript:1"),
    b"\xff",
]
"""Where redirects go."""

BODIES: list[tuple[bytes, int, float]] = [
    *((b"0" * 1000, 1, 0.0), (b"0" * 100, 1, 0.0), (b"", 1, 0.0), (BOMB, 1, 0.0)),
    *((b"0", 2000, 0.05), (b"0" * 65536, 4000, 0.0)),
    *((b"5\r\nhello\r\nZZZZ\r\n", 1, 0.0), (b"FFFFFFFFFFFFFFF\r\n" + b"0" * 1000, 1, 0.0)),
]
"""What comes after the headers: so many times, so many seconds apart."""

WHOLE: list[Script] = [
    (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 500, 0.12),  # headers, slowly
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 100_000, 0.0),  # not yet, for ever
    (b"HTTP/1.1 200 OK\r\n", b"H: 1\r\n", 5000, 0.0),  # more headers than anybody reads
    (b"", b"", 1, 4.0),  # nothing, and no end
    (b"", b"", 1, 0.0),  # nothing
]
"""Answers that have no body."""


def say(send: Send, script: Script) -> None:
    """Say it."""
    first, then, times, seconds = script
    send(first)
    for _ in range(times):
        send(then)
        time.sleep(seconds)


def redirect(place: bytes) -> Script:
    """Somewhere else."""
    head = b"HTTP/1.1 302 Found\r\nLocation: " + place + b"\r\nContent-Length: 0\r\n"
    return head + b"Connection: close\r\n\r\n", b"", 0, 0.0


def drawn(rng: np.random.Generator) -> Script:
    """One answer of a hostile server."""
    kind = rng.random()
    if kind < 0.4:
        return one_of(WHOLE, rng)
    if kind < 0.5:
        return redirect(one_of(PLACES, rng))
    rows = rng.choice(len(HEADERS), size=int(rng.integers(0, 4)), replace=False)
    status = STATUS[0] if rng.random() < 0.5 else one_of(STATUS, rng)
    head = b"\r\n".join([status, *(HEADERS[row] for row in rows), b"", b""])
    return head, *one_of(BODIES, rng)


@contextlib.contextmanager
def serving(answer: Callable[[bytes, int], Script]) -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server that says `answer(request, number)`, and the requests that it got."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []
    stopped = threading.Event()

    def serve(connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5.0)
            asked.append(connection.recv(65536))
            say(connection.sendall, answer(asked[-1], number))

    def listen() -> None:
        number = 0
        while not stopped.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection, number), daemon=True).start()
                number += 1

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        stopped.set()
        listener.close()


def whole_or_nothing(url: str, target: Path) -> None:
    """A download that keeps to its limits."""
    limits = DownloadLimits(largest=LARGEST, seconds=SECONDS, anywhere=True)
    began, said = time.monotonic(), ""
    try:
        download(Transfer(f"{url}/file", target, "file", None, limits))
    except OSError as error:
        said = str(error)
        if url not in said:
            raise Found("not named", said[:200]) from error
    if time.monotonic() - began > SECONDS + 10:
        raise Found("without end", f"{time.monotonic() - began:.1f} s: {said}")
    size = target.stat().st_size if target.exists() else 0
    if size > LARGEST or (said and size):
        raise Found(WRONG, f"{size} bytes are kept: {said}")
    if said and (not said.isprintable() or len(said) > 1000):
        raise Found("terminal escapes", repr(said[:200]))


def downloaded(seed: int) -> str:
    """Call one server."""

    def answer(_: bytes, number: int) -> Script:
        return drawn(np.random.default_rng([seed, number % 3]))

    with tempfile.TemporaryDirectory(prefix="attack") as name, serving(answer) as (url, asked):
        whole_or_nothing(url, Path(name, "file"))
        before = len(asked)
        try:  # nothing of http, and nothing inside of the network, unless it is told
            fetch_ozone(2008, cache=name, base_url=f"{url}/")
        except OSError as error:
            if len(asked) > before or "https" not in str(error):
                raise Found(WRONG, f"asked over http: {error}") from error
            return "in order"
        raise Found(SILENT, "http was taken")


@in_the_loop(200, 30)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """So many servers."""
    for i in range(count):
        yield f"{i}", partial(downloaded, seed * 1009 + i)

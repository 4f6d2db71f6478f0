"""Hostile servers: a download ends in time, by a named error or whole, and keeps to its limits.

    python -m tests.attack.servers [--count 200] [--seed 0]

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
from pathlib import Path

import numpy as np

from tests.attack.report import CRASHED, SILENT, WRONG, Count, Tally, run_one, steps
from tvbandits.datasets import DownloadLimits, fetch_ozone
from tvbandits.datasets.epa_ozone.download import Transfer, download

COUNT, QUICK = 200, 30

SECONDS, LARGEST = 1.5, 300_000
"""Limits of a download."""

Send = Callable[[bytes], None]

BOMB = gzip.compress(bytes(50_000_000))

STATUS = (
    *(b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"HTTP/1.1 206 Partial"),
    *(b"HTTP/1.1 404 \x1b[31mno\x1b[0m", b"HTTP/1.1 500 " + b"x" * 70_000, b"HTTP/1.1 99999 OK"),
    *(b"HTTP/9.9 200 OK", b"hello", b"", b"\xff\xfe\x00", b"HTTP/1.1 304 Not", b"HTTP/1.1 204 No"),
)

HEADERS = (
    *(
        b"Content-Length: 1000",
        b"Content-Length: -5",
        b"Content-Length: 1, 2",
        b"Content-Length: x",
    ),
    *(b"Content-Length: " + b"9" * 5000, b"Content-Length: \xb2", b"Content-Length: 99999999999"),
    *(b"Content-Encoding: gzip", b"Content-Encoding: br, gzip, gzip", b"Content-Encoding: zstd"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: nonsense", b'ETag: "a"', b'ETag: W/"a"'),
    *(
        b"ETag: " + b"y" * 60_000,
        b"Content-Range: bytes 100-999/1000",
        b"Content-Range: bytes 0-5/2",
    ),
    *(
        b"Content-Range: bytes " + b"9" * 5000 + b"-1/3",
        b"Last-Modified: never",
        b"no header at all",
    ),
    *(b"X: " + b"z" * 100_000, b"Set-Cookie: a=\x1b[31m", b": empty", b"Connection: close"),
)

PLACES = (
    *(b"/again", b"//169.254.169.254/latest", b"http://127.0.0.1:1/", b"https://127.0.0.1/", b""),
    *(
        b"file:///etc/passwd",
        b"ftp://127.0.0.1/x",
        b"http://[::1",
        b"http://127.0.0.1:99999/",
        b"\xff",
    ),
    *(b"http://" + b"x" * 9000, b"/\x1b[31m", b"http://user:pass@127.0.0.1:2/", b"javascript:1"),
)
"""Where redirects go."""


def body_of(rng: np.random.Generator) -> Callable[[Send], None]:
    """What comes after the headers."""

    def slowly(send: Send) -> None:
        for _ in range(2000):
            send(b"0")
            time.sleep(0.05)

    def endless(send: Send) -> None:
        for _ in range(4000):
            send(b"0" * 65536)

    def chunks(send: Send) -> None:
        send(b"5\r\nhello\r\nZZZZ\r\n")

    def chunk_without_end(send: Send) -> None:
        send(b"FFFFFFFFFFFFFFF\r\n" + b"0" * 1000)

    kinds: list[Callable[[Send], None]] = [
        lambda send: send(b"0" * 1000),
        lambda send: send(b"0" * 100),
        lambda send: send(b""),
        lambda send: send(BOMB),
        slowly,
        endless,
        chunks,
        chunk_without_end,
    ]
    return kinds[int(rng.integers(len(kinds)))]


def answer(send: Send, rng: np.random.Generator) -> None:
    """One answer of a hostile server."""
    kind = int(rng.integers(8))
    if kind == 0:  # headers, a byte at a time
        for each in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500:
            send(bytes([each]))
            time.sleep(0.02)
        return
    if kind == 1:  # not yet, for ever
        for _ in range(100_000):
            send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return
    if kind == 2:
        place = PLACES[int(rng.integers(len(PLACES)))]
        send(b"HTTP/1.1 302 Found\r\nLocation: " + place + b"\r\nContent-Length: 0\r\n\r\n")
        return
    if kind == 3:  # more headers than anybody reads
        send(b"HTTP/1.1 200 OK\r\n" + b"".join(b"H%d: 1\r\n" % i for i in range(5000)) + b"\r\n")
        return
    if kind == 4:  # nothing, and the end of it; or nothing, and no end
        time.sleep(0.0 if rng.random() < 0.7 else 4.0)
        return
    send(STATUS[int(rng.integers(len(STATUS)))] + b"\r\n")
    for row in rng.choice(len(HEADERS), size=int(rng.integers(0, 4)), replace=False):
        send(HEADERS[int(row)] + b"\r\n")
    send(b"\r\n")
    body_of(rng)(send)


@contextlib.contextmanager
def serving(seed: int) -> Iterator[tuple[str, list[bytes]]]:
    """The address of such a server, and the requests that it got."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []
    stopped = threading.Event()

    def serve(connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5.0)
            asked.append(connection.recv(65536))
            answer(connection.sendall, np.random.default_rng([seed, number % 3]))

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


def downloaded(url: str, folder: Path) -> tuple[str, str]:
    """A fault and its detail, or nothing."""
    limits = DownloadLimits(largest=LARGEST, seconds=SECONDS, anywhere=True)
    target = folder / "file"
    began = time.monotonic()
    said = ""
    try:
        download(Transfer(f"{url}/file", target, "file", None, limits))
    except OSError as error:
        said = str(error)
        if url not in said:
            return "not named", said[:200]
    except Exception as error:
        return CRASHED, f"{type(error).__name__}: {error}"[:200]
    if time.monotonic() - began > SECONDS + 10:
        return "without end", f"{time.monotonic() - began:.1f} s: {said}"
    size = target.stat().st_size if target.exists() else 0
    if size > LARGEST:
        return WRONG, f"{size} bytes are kept"
    if not (said + " ").isprintable() or len(said) > 1000:
        return "terminal escapes", repr(said[:200])
    return "", ""


def attack(count: int, seed: int) -> Tally:
    """So many servers."""
    found = Count("servers")
    for i in steps(range(count), "servers"):
        found.tried()
        with (
            tempfile.TemporaryDirectory(prefix="attack") as name,
            serving(seed * 1009 + i) as there,
        ):
            url, asked = there
            fault, detail = downloaded(url, Path(name))
            if fault:
                found.fault(fault, f"{i}: {detail}")
                continue
            before = len(asked)
            try:  # nothing of http, and nothing inside of the network, unless it is told
                fetch_ozone(2008, cache=name, base_url=f"{url}/")
            except OSError as error:
                found.also("in order")
                if len(asked) > before or "https" not in str(error):
                    found.fault(WRONG, f"{i}: asked over http: {error}")
            else:
                found.fault(SILENT, f"{i}: http was taken")
    return found.tally


if __name__ == "__main__":
    run_one(attack, "tests.attack.servers", COUNT)

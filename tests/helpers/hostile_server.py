"""Servers on loopback that mean no good."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Behaviour = Callable[[BaseHTTPRequestHandler], None]


def endless(handler: BaseHTTPRequestHandler) -> None:
    """A body without an end."""
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"0" * 8192)


def slow(handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.send_header("ETag", '"slow"')
    handler.end_headers()
    while True:
        handler.wfile.write(b"0")
        handler.wfile.flush()
        time.sleep(0.02)


def away(handler: BaseHTTPRequestHandler) -> None:
    """A redirect to an address inside the network."""
    handler.send_response(302)
    handler.send_header("Location", "http://169.254.169.254/latest/meta-data")
    handler.end_headers()


def round_and_round(handler: BaseHTTPRequestHandler) -> None:
    """A redirect to itself."""
    handler.send_response(302)
    handler.send_header("Location", handler.path)
    handler.end_headers()


def promising(handler: BaseHTTPRequestHandler) -> None:
    """More bytes promised than sent, in parts too."""
    asked = handler.headers.get("Range")
    handler.send_response(206 if asked else 200)
    handler.send_header("ETag", '"promise"')
    if asked:
        start = int(asked.removeprefix("bytes=").removesuffix("-"))
        handler.send_header("Content-Range", f"bytes {start}-999/1000")
        handler.send_header("Content-Length", str(1000 - start))
    else:
        handler.send_header("Content-Length", "1000")
    handler.end_headers()
    if not asked:
        handler.wfile.write(b"0" * 100)


@contextlib.contextmanager
def hostile(behaviour: Behaviour) -> Iterator[str]:
    """The address of a server that answers every request by `behaviour`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                behaviour(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/airdata"
        finally:
            server.shutdown()
            thread.join()

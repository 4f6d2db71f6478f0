"""A file server on loopback, which serves as well or as badly as a test wants it to."""

import contextlib
import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """What is served, how, and what was asked.

    `cut`: bytes after which an answer is cut, once. `length`: a wrong Content-Length. `ranges`:
    whether parts can be asked for. `marks`: headers that mark an edition. `status`: of every answer.
    `silent` and `stalled`: wait for this before an answer, and before its end.
    """

    files: dict[str, bytes]
    ranges: bool = True
    marks: tuple[str, ...] = ("ETag", "Last-Modified")
    cut: int | None = None
    length: int | None = None
    status: int | None = None
    silent: threading.Event | None = None
    stalled: threading.Event | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    answered: list[tuple[int, int]] = field(default_factory=list)
    """Status, and bytes of the body that were sent."""
    url: str = ""

    def tag(self, body: bytes) -> str:
        return f'"{hashlib.md5(body).hexdigest()}"'

    def modified(self, body: bytes) -> str:
        return f"Tue, 03 Mar 2026 10:00:{sum(body) % 60:02d} GMT"


class Handler(BaseHTTPRequestHandler):
    served: Served

    def do_GET(self) -> None:
        served = self.served
        name = self.path.rsplit("/", 1)[-1]
        served.asked.append((name, dict(self.headers)))
        if served.silent is not None:
            served.silent.wait(10)
        status = served.status or (200 if name in served.files else 404)
        if status != 200:
            served.answered.append((status, 0))
            self.send_error(status)
            return
        body = served.files[name]
        start = self.start_of(body)
        if start is not None and start >= len(body):
            served.answered.append((416, 0))
            self.send_error(416)
            return
        self.send_response(200 if start is None else 206)
        if "ETag" in served.marks:
            self.send_header("ETag", served.tag(body))
        if "Last-Modified" in served.marks:
            self.send_header("Last-Modified", served.modified(body))
        if start is not None:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        rest = body[start or 0 :]
        self.send_header("Content-Length", str(served.length or len(rest)))
        self.end_headers()
        if served.cut is not None:
            rest, served.cut = rest[: served.cut], None
        served.answered.append((200 if start is None else 206, len(rest)))
        with contextlib.suppress(ConnectionError):
            self.wfile.write(rest)
        if served.stalled is not None:
            served.stalled.wait(10)

    def start_of(self, body: bytes) -> int | None:
        """Where the part that is asked for begins; None for the whole."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        current = {self.served.tag(body), self.served.modified(body)}
        if not found or not self.served.ranges or (condition and condition not in current):
            return None
        return int(found[1])

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Served]:
    served = Served(files)
    handler = type("Here", (Handler,), {"served": served})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}/airdata"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield served
        finally:
            for event in (served.silent, served.stalled):
                if event is not None:
                    event.set()
            server.shutdown()
            thread.join()

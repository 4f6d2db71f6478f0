"""A file server on loopback, with the faults that a test asks for."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class ServedFiles:
    """The files of a server, its faults, and the names that were requested.

    `cut`: bytes after which an answer is cut, once. `length`: a wrong Content-Length. `status`: that of
    every answer. `silent` and `stalled`: an event to wait for before an answer, or before its end.
    """

    files: dict[str, bytes]
    cut: int | None = None
    length: int | None = None
    status: int | None = None
    silent: threading.Event | None = None
    stalled: threading.Event | None = None
    requests: list[str] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    served: ServedFiles

    def do_GET(self) -> None:
        served = self.served
        name = self.path.rsplit("/", 1)[-1]
        served.requests.append(name)
        if served.silent is not None:
            served.silent.wait(10)
        status = served.status or (200 if name in served.files else 404)
        if status != 200:
            self.send_error(status)
            return
        body = served.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(served.length or len(body)))
        self.end_headers()
        if served.cut is not None:
            body, served.cut = body[: served.cut], None
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)
        if served.stalled is not None:
            served.stalled.wait(10)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serve_files(files: dict[str, bytes]) -> Iterator[ServedFiles]:
    served = ServedFiles(files)
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

"""Redirects of an https server: only https, and only the host that was named, unless told otherwise.

Two TLS servers on this machine, `localhost` and `127.0.0.1`, with a certificate of our own that is
trusted here. The first sends a download elsewhere: to another host, another port, to http, to addresses
of the network, by several hops. It must be refused in one line that names where, and nobody else may be
asked. A path of the same host is followed, and so is everything with `DownloadLimits(anywhere=True)`. A
certificate that nobody trusts, or that is another host's, is refused.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

from tests.attack.report import SILENT, WRONG, Count, Found, Trial, in_the_loop
from tvbandits.datasets import DownloadLimits
from tvbandits.datasets.epa_ozone.fetch import Transfer, download

BODY = b"a file"


class Server(ThreadingHTTPServer):
    """A server that sends whoever asks for `/go?PLACE` to that place, and has a file elsewhere."""

    daemon_threads = True

    def __init__(self, certificate: tuple[Path, Path] | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust us goes: that is no event."""


class Handler(BaseHTTPRequestHandler):
    """Its answers."""

    server: Server

    def do_GET(self) -> None:
        """A file, or a redirect."""
        self.server.asked.append(self.path)
        _, _, place = self.path.partition("?")
        self.send_response(302 if place else 200)
        if place:
            self.send_header("Location", place)
        self.send_header("Content-Length", str(0 if place else len(BODY)))
        self.end_headers()
        if not place:
            self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def why_not() -> str | None:
    """Why this cannot be tried here."""
    return None if shutil.which("openssl") else "openssl is not installed"


def certificate(folder: Path, names: str) -> tuple[Path, Path]:
    """A certificate of our own for some names, and its key."""
    made, key = folder / f"{len(names)}.pem", folder / f"{len(names)}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=attack", "-addext", f"subjectAltName={names}"),
            *("-out", str(made), "-keyout", str(key)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key


@contextlib.contextmanager
def serving(certificate: tuple[Path, Path] | None) -> Iterator[Server]:
    """A server, as long as it is needed."""
    server = Server(certificate)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def refused_places(here: int, there: int, plain: int) -> list[str]:
    """Where no redirect of https://localhost:HERE may lead."""
    other = f"https://127.0.0.1:{there}/file"
    return [
        other,
        f"//127.0.0.1:{there}/file",
        f"https://127.0.0.1:{here}/file",
        f"https://localhost:{there}/file",
        f"https://localhost@127.0.0.1:{there}/file",
        f"https://localhost:{here}@127.0.0.1:{there}/file",
        f"https://LOCALHOST.:{here}/file",
        f"http://localhost:{plain}/file",
        f"http://127.0.0.1:{plain}/file",
        f"//localhost:{plain}/file",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://0x7f000001/",
        "ftp://localhost/file",
        "file:///etc/passwd",
        "javascript:1",
        f"/go?{other}",
        f"/go?/go?{other}",
        f"https://localhost:{here}/go?http://localhost:{plain}/file",
        "/go" + "?/go" * 9,
    ]


def welcome_places(here: int) -> list[str]:
    """Where redirects of https://localhost:HERE are followed."""
    return ["/file", "file", f"https://localhost:{here}/file", f"//LOCALHOST:{here}/a", "/go?/b"]


def fetched(url: str, limits: DownloadLimits) -> bytes:
    """What came."""
    with tempfile.TemporaryDirectory(prefix="attack") as folder:
        part = Path(folder, "file.part")
        download(Transfer(url, part, "file", None, limits))
        return part.read_bytes()


def refused(url: str, others: Sequence[Server] = ()) -> str:
    """What must not be followed, and asked of nobody else."""
    for server in others:
        server.asked.clear()
    try:
        fetched(url, DownloadLimits())
    except OSError as error:
        if any(server.asked for server in others):
            raise Found(WRONG, "another server was asked") from error
        if "https://" not in str(error) or not str(error).isprintable():
            raise Found("not named", str(error)) from error
        return "refused by name"
    raise Found(SILENT, "followed")


def followed(url: str, limits: DownloadLimits) -> str:
    """What is welcome."""
    if fetched(url, limits) != BODY:
        raise Found(WRONG, "something else came")
    return "followed"


@in_the_loop(40, 40)
def attack(found: Count, count: int, seed: int) -> Iterator[Trial]:  # noqa: ARG001 - each once
    """Every redirect; `count` is the most that are tried."""
    if reason := why_not():
        found.also(f"not tried: {reason}")
        return
    with contextlib.ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="attack")))
        ours = certificate(folder, "DNS:localhost,DNS:localhost.,IP:127.0.0.1")
        theirs = certificate(folder, "DNS:example.org")
        here, there = (open_.enter_context(serving(ours)) for _ in range(2))
        plain, another = (open_.enter_context(serving(each)) for each in (None, theirs))
        trusted = {"REQUESTS_CA_BUNDLE": str(ours[0])}
        open_.enter_context(mock.patch.dict(os.environ, trusted))
        ports = [each.server_port for each in (here, there, plain)]
        home, anywhere = f"https://localhost:{ports[0]}", DownloadLimits(anywhere=True)
        for place in refused_places(*ports)[:count]:
            yield place, partial(refused, f"{home}/go?{place}", [there, plain])
        for place in welcome_places(ports[0]):
            yield place, partial(followed, f"{home}/go?{place}", DownloadLimits())
        for place in (f"https://127.0.0.1:{ports[1]}/file", f"http://localhost:{ports[2]}/file"):
            yield place, partial(followed, f"{home}/go?{place}", anywhere)
        url = f"https://localhost:{another.server_port}/file"
        yield "a certificate that is not trusted", partial(refused, url)
        os.environ["REQUESTS_CA_BUNDLE"] = str(theirs[0])
        yield "another host's certificate", partial(refused, url, [another])

"""Redirects of an https server: only https, and only the host that was named, unless told otherwise.

    python -m tests.attack.redirects

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
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

from tests.attack.report import CRASHED, SILENT, WRONG, Count, Tally, run_one
from tvbandits.datasets import DownloadLimits
from tvbandits.datasets.epa_ozone.download import Transfer, download

COUNT = QUICK = 40

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


def fetched(url: str, limits: DownloadLimits) -> tuple[bytes | None, Exception | None]:
    """What came, or the error."""
    with tempfile.TemporaryDirectory(prefix="attack") as folder:
        part = Path(folder, "file.part")
        try:
            download(Transfer(url, part, "file", None, limits))
        except Exception as error:
            return None, error
        return part.read_bytes(), None


def refusal(found: Count, what: str, error: Exception | None, others: list[Server]) -> None:
    """A redirect that must not be followed."""
    found.tried()
    if error is None:
        found.fault(SILENT, f"{what}: followed")
    elif not isinstance(error, OSError):
        found.fault(CRASHED, f"{what}: {type(error).__name__}: {error}")
    elif any(server.asked for server in others):
        found.fault(WRONG, f"{what}: another server was asked")
    elif "https://" not in str(error) or not str(error).isprintable():
        found.fault("not named", f"{what}: {error}")
    else:
        found.also("refused by name")


def attack(count: int, seed: int) -> Tally:  # noqa: ARG001 - all are tried, each once
    """Every redirect; `count` is the most that are tried."""
    found = Count("redirects")
    if reason := why_not():
        found.also(f"not tried: {reason}")
        return found.tally
    with contextlib.ExitStack() as open_:
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory(prefix="attack")))
        ours = certificate(folder, "DNS:localhost,DNS:localhost.,IP:127.0.0.1")
        theirs = certificate(folder, "DNS:example.org")
        here, there = (open_.enter_context(serving(ours)) for _ in range(2))
        plain, another = (open_.enter_context(serving(each)) for each in (None, theirs))
        trusted = {"REQUESTS_CA_BUNDLE": str(ours[0])}
        open_.enter_context(mock.patch.dict(os.environ, trusted))
        ports = [each.server_port for each in (here, there, plain)]
        home, others = f"https://localhost:{ports[0]}", [there, plain]
        for place in refused_places(*ports)[:count]:
            for other in others:
                other.asked.clear()
            refusal(found, place, fetched(f"{home}/go?{place}", DownloadLimits())[1], others)
        for place, limits in [
            *((each, DownloadLimits()) for each in welcome_places(ports[0])),
            (f"https://127.0.0.1:{ports[1]}/file", DownloadLimits(anywhere=True)),
            (f"http://localhost:{ports[2]}/file", DownloadLimits(anywhere=True)),
        ]:
            found.tried()
            body, error = fetched(f"{home}/go?{place}", limits)
            if body != BODY:
                found.fault(WRONG, f"{place}: not followed: {error}")
            else:
                found.also("followed")
        url = f"https://localhost:{another.server_port}/file"
        refusal(found, "a certificate that is not trusted", fetched(url, DownloadLimits())[1], [])
        os.environ["REQUESTS_CA_BUNDLE"] = str(theirs[0])
        refusal(found, "another host's certificate", fetched(url, DownloadLimits())[1], [another])
    return found.tally


if __name__ == "__main__":
    run_one(attack, "tests.attack.redirects", COUNT)

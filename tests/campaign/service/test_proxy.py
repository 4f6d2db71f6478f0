"""`examples/nginx.conf` in front of a service: TLS, slow clients, rates and sizes of requests."""

import re
import shutil
import socket
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from tests.campaign.service.serving import Served, serving
from tests.places import ROOT
from tvbandits.campaign.service import Remote

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="no nginx: its example is not tried"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl: no certificate"),
]

# The example waits ten seconds for slow clients, and these tests one.
PATIENCE = 1


class Proxy(NamedTuple):
    port: int
    certificate: Path
    log: Path
    served: Served

    @property
    def address(self) -> str:
        return f"https://localhost:{self.port}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def certified(folder: Path) -> None:
    """A certificate of localhost, by its own authority."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    more = ["-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command.split(), *more, *files], check=True, capture_output=True)


def configured(folder: Path, port: int, upstream: int) -> str:
    """The example, with places and ports of the test."""
    text = (ROOT / "examples" / "nginx.conf").read_text(encoding="utf-8")
    changes = {
        "/etc/ssl/campaign.pem": str(folder / "cert.pem"),
        "/etc/ssl/private/campaign.key": str(folder / "key.pem"),
        "/var/log/nginx/campaign.log": str(folder / "access.log"),
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "127.0.0.1:8000": f"127.0.0.1:{upstream}",
        "campaign.example.org": "localhost",
        "_timeout 10s;": f"_timeout {PATIENCE}s;",
    }
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    return f"pid {folder / 'nginx.pid'};\n" + text.replace("http {", f"http {{ {paths}", 1)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """The example in front of a service."""
    certified(tmp_path)
    with serving(tmp_path) as served:
        port, file = free_port(), tmp_path / "nginx.conf"
        file.write_text(configured(tmp_path, port, served.port), encoding="utf-8")
        errors = str(tmp_path / "error.log")
        command = [str(NGINX), "-c", str(file), "-e", errors, "-p", str(tmp_path)]
        process = subprocess.Popen([*command, "-g", "daemon off;"])
        try:
            wait(port, process)
            yield Proxy(port, tmp_path / "cert.pem", tmp_path / "access.log", served)
        finally:
            process.terminate()
            process.wait(30)


def wait(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("nginx has not begun")


def test_proxy_serves_a_remote_over_tls_only(proxy: Proxy) -> None:
    token = proxy.served.tokens["all"]
    remote = Remote(proxy.address, token, verify=str(proxy.certificate))
    X = remote.ask(1)
    remote.tell(X, [0.5], 1)
    assert remote.get("/status")["readings"] == proxy.served.campaign.status.readings == 1
    # A client without the certificate sends nothing, and the proxy refuses plain HTTP.
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{proxy.address}/health", timeout=30)
    assert requests.get(f"http://localhost:{proxy.port}/health", timeout=30).status_code == 400


def test_proxy_logs_no_token(proxy: Proxy) -> None:
    token = proxy.served.tokens["all"]
    requests.get(f"{proxy.address}/status?token={token}", verify=proxy.certificate, timeout=30)
    end = time.monotonic() + 10
    while not proxy.log.stat().st_size and time.monotonic() < end:
        time.sleep(0.05)
    text = proxy.log.read_text(encoding="utf-8")
    assert re.search(r"GET /status 401$", text, re.MULTILINE)
    assert token not in text


def test_proxy_marks_the_cookie_of_the_page_as_secure(proxy: Proxy) -> None:
    reply = requests.post(
        f"{proxy.address}/session", data={"token": proxy.served.tokens["read"]},
        headers={"Origin": "https://localhost"}, verify=proxy.certificate, timeout=30,
        allow_redirects=False,
    )  # fmt: skip
    assert reply.status_code == 303
    assert "secure" in reply.headers["set-cookie"].lower()
    assert reply.headers["strict-transport-security"].startswith("max-age=")


def test_proxy_refuses_a_large_body_before_the_service(proxy: Proxy) -> None:
    says = proxy.served.says("all")
    reply = requests.post(
        f"{proxy.address}/tell", data=b" " * 2_000_000, headers=says, verify=proxy.certificate,
        timeout=30,
    )  # fmt: skip
    assert reply.status_code == 413
    assert "nginx" in reply.headers["server"]


def test_proxy_limits_the_rate_of_guessed_tokens(proxy: Proxy) -> None:
    with requests.Session() as session:
        how: dict[str, Any] = {"verify": proxy.certificate, "timeout": 30}
        guess = {"Authorization": "Bearer tvb_guess"}
        found = Counter(
            session.get(f"{proxy.address}/status", headers=guess, **how).status_code
            for _ in range(200)
        )
    assert {*found} == {401, 429}
    assert found[429] > 0


def test_proxy_keeps_slow_clients_from_the_service(proxy: Proxy) -> None:
    context = ssl.create_default_context(cafile=str(proxy.certificate))
    head = b"POST /tell HTTP/1.1\r\nHost: localhost\r\n"
    for first in (head + b"X", head + b"Content-Length: 1000\r\n\r\n{"):
        plain = socket.create_connection(("127.0.0.1", proxy.port), 30)
        with context.wrap_socket(plain, server_hostname="localhost") as wire:
            begun = time.monotonic()
            wire.sendall(first)
            assert b" 200 " not in wire.recv(65536)
            assert time.monotonic() - begun < 20 * PATIENCE
    assert proxy.served.campaign.status.rows == 0

"""What the service refuses, in a line, and goes on."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.campaign.service.serving import LIMITS, Served, serving
from tvbandits.campaign.service.limits import Rate
from tvbandits.campaign.service.serving import serve

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("said", "status", "error"),
    [
        ({"points": [[99.0]], "rewards": [1.0]}, 422, "99"),
        ({"points": [[0.0]], "rewards": [1.0, 2.0]}, 422, "rewards|y"),
        ({"points": [[0.0]], "rewards": [1e200], "t": 1}, 422, "1e"),
        ({"points": [[0.0]], "rewards": ["1"]}, 422, "rewards"),
        ({"points": [[0.0]], "rewards": [True]}, 422, "rewards"),
        ({"points": [], "rewards": []}, 422, "points"),
        ({"points": [[0.0]], "rewards": [1.0], "t": "yesterday"}, 422, "t must be a number"),
        ({"points": [[0.0]], "rewards": [1.0], "evil": 1}, 422, "evil"),
        ({"points": [[0.0]], "rewards": [1.0], "key": "k" * 300}, 422, "key"),
        ({"points": [[0.0]] * 60_000, "rewards": [1.0]}, 413, "at most 100000 bytes"),
    ],
)
def test_bad_requests_are_refused_in_a_line(
    shared: Served, said: dict[str, Any], status: int, error: str
) -> None:
    before = shared.campaign.status.rows
    reply = requests.post(f"{shared.address}/tell", json=said, headers=shared.says("tell"))
    assert reply.status_code == status
    assert list(reply.json()) == ["error"]
    assert "Traceback" not in reply.text
    assert re.search(error, reply.json()["error"])
    assert shared.campaign.status.rows == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{" * 10_000,
        b'{"points": NaN}',
        b'{"points": 1e999}',
    ],
)
def test_what_is_no_json_is_refused(shared: Served, body: bytes) -> None:
    headers = {**shared.says("tell"), "Content-Type": "application/json"}
    reply = requests.post(f"{shared.address}/tell", data=body, headers=headers)
    assert reply.status_code == 422
    assert "Traceback" not in reply.text


@pytest.mark.parametrize(
    "path",
    ["/../tokens.json", "/%2e%2e/tokens.json", "/static/../../etc/passwd", "/docs", "//status"],
)
def test_there_are_no_other_paths(shared: Served, path: str) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as wire:
        wire.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        said = b""
        while part := wire.recv(65536):
            said += part
    assert said.startswith(b"HTTP/1.1 404")


def test_another_host_name_is_refused(shared: Served) -> None:
    headers = {**shared.says("read"), "Host": "evil.example"}
    assert requests.get(f"{shared.address}/status", headers=headers).status_code == 400


FIRST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET /status HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(
        tmp_path_factory.mktemp("impatient"), limits=replace(LIMITS, seconds=0.7)
    ) as found:
        yield found


@pytest.mark.parametrize(
    ("before", "beginning"),
    [
        (b"", HALF),
        (b"", b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"),
        (b"", b""),
        (FIRST, HALF),
    ],
    ids=["headers", "body", "nothing", "headers of a second request"],
)
def test_a_slow_client_is_left(impatient: Served, before: bytes, beginning: bytes) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as wire:
        if before:
            wire.sendall(before)
            assert wire.recv(65536).startswith(b"HTTP/1.1 200")
        wire.sendall(beginning)
        said = wire.recv(65536)  # waits until the service has had enough
        if said and not said.startswith(b"HTTP/1.1 408"):
            said = wire.recv(65536)  # the end of the first reply
    assert said == b"" or said.startswith(b"HTTP/1.1 408")
    assert impatient.campaign.status.rows == 0


def test_a_client_that_rests_between_requests_is_not_slow(impatient: Served) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=60) as wire:
        for _ in range(3):
            wire.sendall(FIRST)
            said = b""
            while b"running" not in said:
                part = wire.recv(65536)
                assert part != b""
                said += part
            time.sleep(1.0)


def test_the_inside_stays_inside(
    shared: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(shared.campaign, "recommend", broken)
    with caplog.at_level(logging.ERROR):
        reply = requests.get(f"{shared.address}/recommend", headers=shared.says("read"))
    assert reply.status_code == 500
    assert "secret" not in reply.text
    number = reply.json()["error"].split()[-1]
    assert number in caplog.text


def test_a_rate() -> None:
    rate = Rate(2.0, 3.0)
    assert [rate.allows("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert rate.allows("b", 0.0)
    assert [rate.allows("a", 0.6) for _ in range(2)] == [True, False]
    assert rate.allows("a", 10.0)


@pytest.mark.parametrize(
    ("host", "more", "error"),
    [
        ("0.0.0.0", {}, "can be reached from elsewhere"),
        ("example.org", {}, "can be reached from elsewhere"),
        ("127.0.0.1", {"certificate": "none.pem", "private_key": "none.pem"}, "no such file"),
    ],
)
def test_it_is_not_served_carelessly(
    shared: Served, host: str, more: dict[str, str], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        serve(shared.campaign, shared.kept, host=host, **more)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are no tokens"):
        serve(shared.campaign, shared.kept.with_name("none"))


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 2\r\nHost: localhost\r\n",
        "Content-Length: 2\r\nContent-Type: text/html\r\nContent-Type: application/json\r\n",
        "Content-Length: 2\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n",
    ],
)
def test_a_request_that_may_be_read_in_two_ways_is_refused(shared: Served, headers: str) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=60) as wire:
        said = f"POST /tell HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{{}}"
        wire.sendall(said.encode())
        reply = b""
        while part := wire.recv(65536):
            reply += part
    assert reply.startswith(b"HTTP/1.1 400")
    assert b"Connection: close" in reply or b"connection: close" in reply


def test_a_crowd_of_connections_does_not_shut_others_out(tmp_path: Path) -> None:
    with (
        serving(tmp_path, limits=replace(LIMITS, connections=20)) as served,
        contextlib.ExitStack() as opened,
    ):
        wires = []
        for number in range(40):
            wire = socket.create_connection(("127.0.0.1", served.port), timeout=60)
            wires.append(opened.enter_context(wire))
            with contextlib.suppress(OSError):
                wire.sendall(b"" if number % 2 else b"POST /tell HTTP/1.1\r\nHost: localhost\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert wires[0].recv(1) == b""  # the one that has waited for longest is closed
        reply = requests.get(f"{served.address}/status", headers=served.says("read"), timeout=60)
        assert reply.status_code == 200

"""What the service bears, and goes on; what it refuses is in `tests.attack.service`."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import requests

from tests.campaign.service.serving import LIMITS, Served, serving
from tvbandits.campaign.service.app import serve
from tvbandits.campaign.service.door import Rate

pytestmark = pytest.mark.slow


FIRST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(
        tmp_path_factory.mktemp("impatient"), limits=replace(LIMITS, seconds=0.7)
    ) as found:
        yield found


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

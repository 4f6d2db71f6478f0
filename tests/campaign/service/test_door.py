"""Who comes in: decided by the headers alone, for every path, before a body is read."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import requests

from tests.campaign.service.serving import LIMITS, Served, serving
from tvbandits.campaign.service.app import VERBS
from tvbandits.campaign.service.door import HEADERS, SIGN_IN, Limits

pytestmark = pytest.mark.slow

TOLD = '{"points": [[0.0]], "rewards": [1.0], "t": 1}'


def said(served: Served, request: str) -> tuple[int, str]:
    """Status and text of the reply to what is sent as it is; lines end as HTTP has it."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as wire:
        wire.sendall(request.replace("\n", "\r\n").encode())
        reply = b""
        while part := wire.recv(65536):
            reply += part
    return int(reply[9:12]), reply.decode()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tell", "Content-Length: 9000000\n\n{", 401),
        ("/tell", "Transfer-Encoding: chunked\n\n5\n", 401),
        ("/nothing", "Transfer-Encoding: chunked\n\n5\n", 404),
        (SIGN_IN, "Content-Length: 9000000\n\n{", 413),
        ("/health", "Content-Length: 1\n\n", 405),
    ],
)
def test_a_stranger_is_refused_before_the_body_is_there(
    shared: Served, path: str, body: str, status: int
) -> None:
    begun = time.monotonic()
    assert said(shared, f"POST {path} HTTP/1.1\nHost: localhost\n{body}")[0] == status
    assert time.monotonic() - begun < LIMITS.seconds / 4


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that has heard enough of strangers."""
    limits = replace(LIMITS, strangers_per_second=1e-3, strangers_burst=2.0)
    with serving(tmp_path_factory.mktemp("busy"), limits=limits) as served:
        for _ in range(2):
            assert requests.get(f"{served.address}/health").status_code == 200
        yield served


@pytest.mark.parametrize("path", [*VERBS, "/nothing"])
def test_the_rate_of_strangers_holds_everywhere(busy: Served, path: str) -> None:
    method = VERBS.get(path, ("GET", None))[0]
    reply = requests.request(method, busy.address + path, headers={"Host": "evil.example"})
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert requests.get(f"{busy.address}/status", headers=busy.says("read")).status_code == 200


@pytest.mark.parametrize("path", [*VERBS, "/nothing"])
@pytest.mark.parametrize("who", ["nobody", "all"])
def test_every_reply_has_the_headers(shared: Served, path: str, who: str) -> None:
    method = VERBS.get(path, ("GET", None))[0]
    if (path, who) == ("/", "all"):
        pytest.importorskip("plotly", reason="no plotly: no page")
    headers = shared.says("all") if who == "all" else {}
    reply = requests.request(method, shared.address + path, headers=headers)
    for name, value in HEADERS:
        assert reply.headers[name.decode()] == value.decode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Origin: http://evil.example", 403),
        ("Origin: null", 403),
        ("Origin: http://localhost:1", 403),
        ("Origin: ftp://localhost", 403),
        ("Origin: http://localhost\nOrigin: http://evil.example", 400),
        ("Sec-Fetch-Site: cross-site", 403),
        ("Sec-Fetch-Site: same-site", 403),
        ("Origin: http://localhost\nSec-Fetch-Site: same-origin", 303),
        ("Origin: https://localhost", 303),  # a proxy ends TLS
        ("X-Nothing: else", 303),
    ],
)
def test_nobody_is_signed_in_by_a_page_of_another_origin(
    shared: Served, headers: str, status: int
) -> None:
    form = f"token={shared.tokens['read']}"
    head = f"POST {SIGN_IN} HTTP/1.1\nHost: localhost\n{headers}\nConnection: close\n"
    found, reply = said(shared, f"{head}Content-Length: {len(form)}\n\n{form}")
    assert found == status
    assert ("set-cookie" in reply.lower()) == (status == 303)


@pytest.mark.parametrize(
    ("host", "status"),
    [("LOCALHOST:80", 200), ("[::1]:8000", 200), ("[::1]", 200), ("evil@localhost", 400),
     ("localhost.evil.example", 400), ("localhost/evil", 400), ("::1", 400), ("", 400)],
)  # fmt: skip
def test_the_names_that_it_has(shared: Served, host: str, status: int) -> None:
    found = said(shared, f"GET /health HTTP/1.1\nHost: {host}\nConnection: close\n\n")
    assert found[0] == status


@pytest.mark.parametrize(
    ("body", "kind", "status", "error"),
    [
        ('{"points": [[0.0]], "rewards": [1.0], "t": 1, "t": 2}', "", 422, "'t' is given twice"),
        ('{"points": [[0.0]], "rewards": [{"a": 1, "a": 1}]}', "", 422, "'a' is given twice"),
        ('{"t": 1, "\\u0074": 1}', "", 422, "'t' is given twice"),
        (TOLD.replace("1.0", "-Infinity"), "", 422, "-Infinity is no number"),
        ('{"a":' * 8_000 + "1" + "}" * 8_000, "", 422, "nested too deeply"),
        ("{" + ",".join(f'"x{i}":1' for i in range(3_000)) + "}", "", 422, "at most 20 fields"),
        (TOLD, "text/plain", 415, "text/plain"),
        (TOLD, "application/json; charset=utf-16", 415, "utf-16"),
        (TOLD, "application/x-www-form-urlencoded", 415, "form-urlencoded"),
    ],
)
def test_json_is_read_in_one_way(
    shared: Served, body: str, kind: str, status: int, error: str
) -> None:
    headers = {**shared.says("tell"), "Content-Type": kind or "application/json"}
    reply = requests.post(f"{shared.address}/tell", data=body, headers=headers)
    assert (reply.status_code, list(reply.json())) == (status, ["error"])
    assert error in reply.json()["error"]
    assert shared.campaign.status.rows == 0


@pytest.mark.parametrize("verb", ["/predict", "/tell", "/answer", "/drop", "/ask", "/questions"])
def test_a_request_has_so_many_points(shared: Served, verb: str) -> None:
    field, value = ("among", 0) if VERBS[verb][1] == "ask" else ("points", [0])
    most = Limits().points
    for count, refused in ((most, False), (most + 1, True)):
        reply = requests.post(
            shared.address + verb, json={field: [value] * count}, headers=shared.says("all")
        )
        assert (reply.status_code == 413) == refused, reply.text


def test_who_may_only_tell_is_not_shown_what_others_told(served: Served) -> None:
    first = {"points": [[0.0]], "rewards": [0.123], "t": 1, "key": "k"}
    requests.post(f"{served.address}/tell", json=first, headers=served.says("all"))
    for who, shown in (("tell", False), ("all", True)):
        other = {**first, "rewards": [0.5]}
        reply = requests.post(f"{served.address}/tell", json=other, headers=served.says(who))
        assert reply.status_code == 409
        assert "'k' is taken" in reply.json()["error"]
        assert ("0.123" in reply.text) == shown
    served.campaign.ask(2.0, n=3)
    out = served.campaign.pending[:1].tolist()
    reply = requests.post(
        f"{served.address}/drop", json={"points": out}, headers=served.says("tell")
    )
    assert reply.json() == {"pending": 2}


@pytest.mark.parametrize(
    "path", ["/status?token={}", "/{}", "/%2574vb_{}", "/recommend?t={}", "/?{}=1"]
)
def test_no_token_stands_in_the_log(
    shared: Served, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    token = shared.tokens["all"]
    with caplog.at_level(logging.DEBUG):
        requests.get(shared.address + path.format(token), headers=shared.says("read"))
    ours = [each.getMessage() for each in caplog.records if not each.name.startswith("urllib3")]
    assert len(ours) == 1
    assert ours[0].startswith("read at 127.0.0.1: GET /")
    assert token.removeprefix("tvb_") not in ours[0]

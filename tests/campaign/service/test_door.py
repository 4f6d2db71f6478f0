"""Who comes in, by the headers alone, before a body is read; who may do what; what is borne."""

import logging
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import requests

from tests.campaign.service.serving import LIMITS, Served, serving
from tests.helpers.browser import looking
from tvbandits.campaign.service import Tokens
from tvbandits.campaign.service.app import MOST, VERBS
from tvbandits.campaign.service.door import HEADERS, SIGN_IN, Rate

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
def test_no_other_origin_signs_anybody_in(shared: Served, headers: str, status: int) -> None:
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
    ("body", "status", "error"),
    [
        ('{"points": [[0.0]], "rewards": [1.0], "t": 1, "t": 2}', 422, "'t' is given twice"),
        ('{"points": [[0.0]], "rewards": [{"a": 1, "a": 1}]}', 422, "'a' is given twice"),
        ('{"t": 1, "\\u0074": 1}', 422, "'t' is given twice"),
        ('{"a":' * 8_000 + "1" + "}" * 8_000, 400, "error parsing the body"),
        (TOLD[:-1], 422, "JSON decode error"),
    ],
)
def test_json_can_be_read_in_one_way(shared: Served, body: str, status: int, error: str) -> None:
    before = shared.campaign.status.rows
    address, json = f"{shared.address}/tell", {"Content-Type": "application/json"}
    reply = requests.post(address, data=body, headers=shared.says("all") | json)
    assert (reply.status_code, error in reply.json()["error"]) == (status, True), reply.text
    assert requests.post(address, data=body, headers=json).status_code == 401
    plain = shared.says("all") | {"Content-Type": "text/plain"}
    assert requests.post(address, data=body, headers=plain).status_code == 415
    assert shared.campaign.status.rows == before


@pytest.mark.parametrize("verb", ["/predict", "/tell", "/answer", "/drop", "/ask", "/questions"])
def test_a_request_has_so_many_points(shared: Served, verb: str) -> None:
    field, value = ("among", 0) if VERBS[verb][1] == "ask" else ("points", [0])
    for count, refused in ((MOST, False), (MOST + 1, True)):
        reply = requests.post(
            shared.address + verb, json={field: [value] * count}, headers=shared.says("all")
        )
        assert ("at most 10000 items" in reply.text) == refused, reply.text


def test_who_may_only_tell_is_not_shown_what_others_told(served: Served) -> None:
    first = {"points": [[0.0]], "rewards": [0.123], "t": 1, "key": "k"}
    requests.post(f"{served.address}/tell", json=first, headers=served.says("all"))
    for who, shown in (("tell", False), ("all", True)):
        for key, why in (("k", "'k' is taken"), (None, "was told already")):
            other = {**first, "rewards": [0.5], "key": key}
            reply = requests.post(f"{served.address}/tell", json=other, headers=served.says(who))
            assert reply.status_code == 409
            assert why in reply.json()["error"]
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
def test_no_token_is_logged(shared: Served, caplog: pytest.LogCaptureFixture, path: str) -> None:
    token = shared.tokens["all"]
    with caplog.at_level(logging.DEBUG):
        requests.get(shared.address + path.format(token), headers=shared.says("read"))
    ours = [each.getMessage() for each in caplog.records if not each.name.startswith("urllib3")]
    assert len(ours) == 1
    assert ours[0].startswith("read at 127.0.0.1: GET /")
    assert token.removeprefix("tvb_") not in ours[0]


# --- who may do what

NEEDS = {
    "POST /ask": ("ask", {}),
    "POST /questions": ("ask", {}),
    "POST /tell": ("tell", {"points": [[0.0]], "rewards": [1.0], "t": 1}),
    "POST /answer": ("tell", {"points": [[0.0]], "values": [1.0], "t": 1}),
    "POST /correct": ("tell", {"points": [[0.0]], "rewards": [1.0]}),
    "POST /retract": ("tell", {"points": [[0.0]]}),
    "POST /drop": ("tell", {"points": [[0.0]]}),
    "POST /predict": ("read", {"points": [[0.0]], "t": 1}),
    "GET /status": ("read", None),
    "GET /pending": ("read", None),
    "GET /recommend": ("read", None),
    "POST /sites": ("ask", {"retire": ["no such site"]}),
    "GET /history": ("read", None),
}


@pytest.mark.parametrize("verb", NEEDS)
@pytest.mark.parametrize("who", ["nobody", "unknown", "read", "tell", "ask"])
def test_a_verb_needs_its_role(shared: Served, verb: str, who: str) -> None:
    method, path = verb.split()
    role, body = NEEDS[verb]
    before = shared.campaign.status.rows
    headers = {} if who == "nobody" else {"Authorization": "Bearer tvb_no"}
    headers = shared.says(who) if who in shared.tokens else headers
    reply = requests.request(method, shared.address + path, json=body, headers=headers)
    if who in ("nobody", "unknown"):
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
    elif who != role:
        assert (reply.status_code, reply.json()) == (403, {"error": f"this token may not {role}"})
    else:
        assert reply.status_code in (200, 422)  # 422: nobody to ask, nothing out
    if who != role:
        assert shared.campaign.status.rows == before


def test_every_verb_is_in_that_list(shared: Served) -> None:
    found = requests.get(f"{shared.address}/openapi.json").json()["paths"]
    verbs = {f"{method.upper()} {path}" for path, each in found.items() for method in each}
    assert verbs == {*NEEDS, "GET /health"}


def test_a_token_that_is_taken_back_is_worthless_at_once(served: Served) -> None:
    def status() -> int:
        return requests.get(f"{served.address}/status", headers=served.says("read")).status_code

    assert status() == 200
    Tokens.at(served.kept).take_back("read")
    assert status() == 401


def test_the_page_needs_a_token(served: Served) -> None:
    assert requests.get(served.address).status_code == 401
    assert "Forty" not in requests.get(served.address).text
    wrong = requests.post(f"{served.address}/session", data={"token": "tvb_wrong"})
    assert wrong.status_code == 401
    may_not = requests.post(f"{served.address}/session", data={"token": served.tokens["tell"]})
    assert may_not.status_code == 403


def test_a_person_signs_in_and_looks(served: Served) -> None:
    pytest.importorskip("plotly", reason="no plotly: no page")
    X = served.campaign.ask(1.0)
    served.campaign.tell(X, [0.5], 1.0)
    served.campaign.ask(2.0)
    with looking(served.address, 390) as looked:
        looked.complaints.clear()  # the sign-in page came with status 401
        looked.page.fill("#token", served.tokens["read"])
        looked.page.click("button")
        looked.page.wait_for_selector(".plot .main-svg", timeout=180_000)
        assert looked.page.title() == "Forty <sites>"
        assert looked.page.inner_text(".now strong").startswith("Go to S")
        assert looked.fits
        assert looked.complaints == []
        assert all(url.startswith(served.address) for url in looked.requests)


# --- what it bears, and goes on; what it refuses is in `tests.attack.service`

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
            heard = b""
            while b"running" not in heard:
                part = wire.recv(65536)
                assert part != b""
                heard += part
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

"""Tokens and roles, hosts, origins and sizes of requests, and the headers of every reply."""

import http.client
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from sklearn.gaussian_process.kernels import RBF

from tests.campaign.service.serving import Served, serving
from tests.helpers.browser import open_page
from tvbandits import Box, Campaign, policies
from tvbandits.campaign.service import Tokens
from tvbandits.campaign.service.app import HEADERS
from tvbandits.campaign.service.bodies import MOST
from tvbandits.domains.space import MOST_SEARCHED

pytestmark = pytest.mark.slow

NEEDS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "POST /ask": ("ask", {}),
    "POST /questions": ("ask", {}),
    "POST /sites": ("ask", {"retire": ["no such site"]}),
    "POST /tell": ("tell", {"points": [[0.0]], "rewards": [1.0], "t": 1}),
    "POST /answer": ("tell", {"points": [[0.0]], "values": [1.0], "t": 1}),
    "POST /correct": ("tell", {"points": [[0.0]], "rewards": [1.0]}),
    "POST /correct_answers": ("tell", {"points": [[0.0]], "values": [1.0]}),
    "POST /retract": ("tell", {"points": [[0.0]]}),
    "POST /drop": ("tell", {"points": [[0.0]]}),
    "POST /predict": ("read", {"points": [[0.0]], "t": 1}),
    "GET /status": ("read", None),
    "GET /sites": ("read", None),
    "GET /pending": ("read", None),
    "GET /recommend": ("read", None),
    "GET /history": ("read", None),
}


@pytest.mark.parametrize("call", NEEDS)
@pytest.mark.parametrize("who", ["nobody", "unknown", "basic", "read", "tell", "ask"])
def test_service_requires_the_role_of_each_call(shared: Served, call: str, who: str) -> None:
    method, path = call.split()
    role, body = NEEDS[call]
    before = shared.campaign.status.rows
    headers = {
        "nobody": {},
        "unknown": {"Authorization": "Bearer tvb_no"},
        "basic": {"Authorization": f"Basic {shared.tokens['all']}"},
    }.get(who) or (shared.says(who) if who in shared.tokens else {})
    reply = requests.request(method, shared.address + path, json=body, headers=headers, timeout=60)
    if who in ("nobody", "unknown", "basic"):
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    elif who != role:
        assert reply.status_code == 403
        assert role in reply.json()["detail"]
    else:
        assert reply.status_code in (200, 422)  # 422: nobody to ask, nothing out
    if who != role:
        assert shared.campaign.status.rows == before


@pytest.mark.parametrize("path", ["/status?token={}", "/{}", "/recommend?t={}", "/?{}=1"])
def test_service_refuses_a_token_in_the_address_and_does_not_log_it(
    shared: Served, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    token = shared.tokens["all"]
    with caplog.at_level(logging.DEBUG):
        reply = requests.get(shared.address + path.format(token), timeout=60)
    assert reply.status_code in (401, 404)
    ours = [each.getMessage() for each in caplog.records if each.name == "tvbandits.service"]
    assert len(ours) == 1
    assert "127.0.0.1: GET " in ours[0]
    assert token not in ours[0]


def test_service_refuses_the_cookie_of_the_page_for_every_call(shared: Served) -> None:
    cookies = {"tvbandits": shared.tokens["all"]}
    before = shared.campaign.status.rows
    for call, (_, body) in NEEDS.items():
        method, path = call.split()
        reply = requests.request(
            method, shared.address + path, json=body, cookies=cookies, timeout=60
        )
        assert reply.status_code == 401, call
    assert shared.campaign.status.rows == before


# --- two servers, and tokens that are revoked


SERVER = """
import sys
from tvbandits import Campaign
from tvbandits.campaign.service import Tokens
from tvbandits.campaign.service.app import serve
with Campaign.open(sys.argv[1]) as campaign, Tokens(sys.argv[1]) as tokens:
    serve(campaign, tokens, port=int(sys.argv[2]))
"""


def start(place: Path, port: int) -> subprocess.Popen[bytes]:
    """Another server of the campaign, as a process of its own, once it answers."""
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(place), str(port)])
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            requests.get(f"http://127.0.0.1:{port}/health", timeout=5)
        except requests.RequestException:
            assert process.poll() is None
            time.sleep(0.1)
        else:
            return process
    raise AssertionError("the server has not begun")


def test_two_services_refuse_a_revoked_token_at_once(served: Served, free_port: int) -> None:
    other = start(served.place, free_port)
    try:
        addresses = served.address, f"http://127.0.0.1:{free_port}"
        for role in ("read", "all"):

            def statuses(role: str = role) -> list[int]:
                says = served.says(role)
                return [
                    requests.get(f"{each}/status", headers=says, timeout=60).status_code
                    for each in addresses
                ]

            assert statuses() == [200, 200]
            with Tokens(served.place) as tokens:
                tokens.revoke(role)
            assert statuses() == [401, 401]
    finally:
        other.send_signal(signal.SIGTERM)
        assert other.wait(60) == -signal.SIGTERM


def test_two_services_count_a_key_once(served: Served, free_port: int) -> None:
    other = start(served.place, free_port)
    try:
        said = {"points": [[0.0]], "rewards": [1.5], "t": 1, "key": "k"}
        replies = [
            requests.post(f"{each}/tell", json=said, headers=served.says("all"), timeout=60)
            for each in (served.address, f"http://127.0.0.1:{free_port}", served.address)
        ]
        assert [each.json() for each in replies] == [{"recorded": 1, "failed": 0}] * 3
        assert served.campaign.status.readings == 1
    finally:
        other.send_signal(signal.SIGTERM)
        other.wait(60)


# --- hosts, origins, bodies


@pytest.mark.parametrize(
    ("host", "status"),
    [("LOCALHOST:80", 200), ("[::1]:8000", 200), ("[::1]", 200), ("evil@localhost", 400),
     ("localhost.evil.example", 400), ("localhost/evil", 400), ("::1", 400), ("", 400),
     ("www.localhost", 400)],
)  # fmt: skip
def test_service_accepts_only_its_own_hosts(shared: Served, host: str, status: int) -> None:
    wire = http.client.HTTPConnection("127.0.0.1", shared.port, timeout=60)
    wire.putrequest("GET", "/health", skip_host=True)
    wire.putheader("Host", host)
    wire.endheaders()
    assert wire.getresponse().status == status
    wire.close()


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("null", 403),
        ("http://localhost:1", 403),
        ("", 403),
        ("http://localhost", 303),
        ("https://localhost", 303),  # a proxy ends TLS
        (None, 303),
    ],
)
def test_service_session_accepts_only_its_own_origin(
    shared: Served, origin: str | None, status: int
) -> None:
    headers = {"Host": "localhost"} | ({} if origin is None else {"Origin": origin})
    reply = requests.post(
        f"{shared.address}/session", data={"token": shared.tokens["read"]}, headers=headers,
        timeout=60, allow_redirects=False,
    )  # fmt: skip
    assert reply.status_code == status
    assert ("set-cookie" in reply.headers) == (status == 303)
    if status == 303:
        kept = reply.headers["set-cookie"].lower()
        assert "httponly" in kept
        assert "samesite=strict" in kept


@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize("who", ["nobody", "all"])
@pytest.mark.parametrize("path", ["/tell", "/session"])
def test_service_refuses_a_body_above_the_limit(
    shared: Served, path: str, who: str, chunks: bool
) -> None:
    headers = {"Content-Type": "application/json"} | ({} if who == "nobody" else shared.says(who))
    body = (b" " * 10_000 for _ in range(20)) if chunks else b" " * 200_000
    reply = requests.post(shared.address + path, data=body, headers=headers, timeout=60)
    assert reply.status_code == 413
    assert shared.get("/status").status_code == 200


@pytest.mark.parametrize(
    ("body", "statuses"),
    [
        ('{"a":' * 8_000 + "1" + "}" * 8_000, (400, 422)),
        ('{"points": [[0.0]], "rewards": [1.0], "t": 1', (422,)),
        ('{"points": [[0.0]], "rewards": [Infinity], "t": 1}', (422,)),
        ('{"points": [[0.0]], "rewards": [true], "t": 1}', (422,)),
        ('{"points": [[0.0]], "rewards": [1.0], "unit": "ppb"}', (422,)),
    ],
)
def test_service_refuses_invalid_json_and_other_content_types(
    shared: Served, body: str, statuses: tuple[int, ...]
) -> None:
    before = shared.campaign.status.rows
    headers = shared.says("all") | {"Content-Type": "application/json"}
    reply = requests.post(f"{shared.address}/tell", data=body, headers=headers, timeout=60)
    assert reply.status_code in statuses
    assert [*reply.json()] == ["detail"]
    plain = shared.says("all") | {"Content-Type": "text/plain"}
    good = json.dumps({"points": [[0.0]], "rewards": [1.0], "t": 1})
    reply = requests.post(f"{shared.address}/tell", data=good, headers=plain, timeout=60)
    assert reply.status_code == 422
    assert "Content-Type: application/json" in reply.json()["detail"]
    assert shared.campaign.status.rows == before


@pytest.mark.parametrize("path", ["/predict", "/tell", "/answer", "/drop", "/ask", "/questions"])
def test_service_refuses_more_points_than_the_limit(shared: Served, path: str) -> None:
    field, value = ("available", 0) if path in ("/ask", "/questions") else ("points", [0])
    for count, refused in ((MOST, False), (MOST + 1, True)):
        reply = shared.post(path, **{field: [value] * count})
        assert (str(MOST) in reply.text and "at most" in reply.text) == refused, reply.text


@pytest.mark.parametrize(
    "path", ["/ask", "/questions", "/sites", "/tell", "/answer", "/correct", "/retract", "/drop"]
)
@pytest.mark.parametrize("key", ["", "k" * 201, "a\nb", 7])
def test_service_refuses_a_key_that_is_no_short_text(
    shared: Served, path: str, key: object
) -> None:
    before = shared.campaign.status.rows
    role, body = NEEDS[f"POST {path}"]
    reply = shared.post(path, role, **{**(body or {}), "key": key})
    assert reply.status_code == 422
    assert "key" in reply.json()["detail"]
    assert shared.campaign.status.rows == before


def test_service_ask_limits_the_number_of_points_on_a_box(tmp_path: Path) -> None:
    place = tmp_path / "box.db"
    campaign = Campaign.create(
        place,
        policies.tv_gp_ucb(
            Box([(0.0, 1.0)]), kernel=RBF(0.3), noise_variance=0.01, forgetting_rate=0.05
        ),
    )
    with serving(tmp_path, campaign=campaign, place=place) as served:
        begun = time.monotonic()
        reply = served.post("/ask", t=1, n=200)
        assert time.monotonic() - begun < 5
        assert reply.status_code == 422
        assert f"n must be at most {MOST_SEARCHED}" in reply.json()["detail"]
        assert "200" in reply.json()["detail"]
        assert served.campaign.status.rows == 0
        assert len(served.post("/ask", t=1, n=3).json()["points"]) == 3


def test_service_shutdown_does_not_wait_for_a_refused_number_of_points(
    tmp_path: Path, free_port: int
) -> None:
    place = tmp_path / "box.db"
    Campaign.create(
        place,
        policies.tv_gp_ucb(
            Box([(0.0, 1.0)]), kernel=RBF(0.3), noise_variance=0.01, forgetting_rate=0.05
        ),
    ).close()
    with Tokens(place) as tokens:
        token = tokens.new("anna", ["ask"])
    server = start(place, free_port)

    def ask() -> None:
        requests.post(
            f"http://127.0.0.1:{free_port}/ask", json={"t": 1, "n": 200},
            headers={"Authorization": f"Bearer {token}"}, timeout=60,
        )  # fmt: skip

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.5)
    begun = time.monotonic()
    server.send_signal(signal.SIGTERM)
    server.wait(60)
    asking.join(60)
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/tell", '{"points": ["S1"], "rewards": [1], "rewards": [2], "t": 1}', "'rewards'"),
        ("/tell", '{"points": ["S1"], "rewards": [1], "t": 1, "t": null}', "'t'"),
        ("/ask", '{"t": 1, "context": {"outside": 1, "outside": 2}}', "'outside'"),
        ("/sites", '{"add": {"N": [11], "N": [12]}}', "'N'"),
        ("/predict", '{"points": ["S1"], "points": ["S2"]}', "'points'"),
    ],
)
def test_service_refuses_a_repeated_field_of_a_body_by_name(
    shared: Served, path: str, body: str, field: str
) -> None:
    before = shared.campaign.status.rows
    headers = {**shared.says("all"), "Content-Type": "application/json"}
    reply = requests.post(shared.address + path, data=body, headers=headers, timeout=60)
    assert reply.status_code == 422
    assert reply.json()["detail"].startswith(f"{field} stands in one object of the body more than")
    assert shared.campaign.status.rows == before


@pytest.mark.parametrize("query", ["/history?last=1&last=2", "/recommend?t=1&t=2"])
def test_service_refuses_a_repeated_parameter_of_an_address_by_name(
    shared: Served, query: str
) -> None:
    reply = requests.get(shared.address + query, headers=shared.says("all"), timeout=60)
    assert reply.status_code == 422
    name = query.partition("?")[2].partition("=")[0]
    assert reply.json()["detail"].startswith(f"'{name}' stands in the address more than once")
    both = f"{shared.address}/recommend?available=3&available=4&t=1"
    assert "more than once" not in requests.get(both, headers=shared.says("all"), timeout=60).text


# --- replies


@pytest.mark.parametrize("path", ["/", "/health", "/status", "/nothing", "/openapi.json"])
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_service_replies_have_the_security_headers(shared: Served, path: str, host: str) -> None:
    reply = requests.get(shared.address + path, headers={"Host": host}, timeout=60)
    assert {name: reply.headers.get(name) for name in HEADERS} == HEADERS


def test_service_hides_other_readings_from_the_role_tell(served: Served) -> None:
    first = {"points": [[0.0]], "rewards": [0.123], "t": 1, "key": "k"}
    assert served.post("/tell", **first).status_code == 200
    for who, shown in (("tell", False), ("all", True)):
        for key in ("k", None):
            reply = served.post("/tell", who, **{**first, "rewards": [0.5], "key": key})
            assert reply.status_code == 409
            assert ("0.123" in reply.text) == shown


def test_service_hides_the_cause_of_an_internal_error(
    shared: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(shared.campaign, "recommend", broken)
    with caplog.at_level(logging.ERROR):
        reply = shared.get("/recommend")
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert reply.headers["X-Frame-Options"] == "DENY"
    assert reply.json()["detail"].split()[-1] in caplog.text


# --- what OpenAPI says


def test_openapi_declares_security_and_errors(shared: Served) -> None:
    found = requests.get(f"{shared.address}/openapi.json", timeout=60).json()
    (scheme,) = found["components"]["securitySchemes"].values()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    calls = {
        f"{method.upper()} {path}": each
        for path, methods in found["paths"].items()
        for method, each in methods.items()
    }
    assert calls.keys() == NEEDS.keys() | {"GET /health"}
    for call, (role, _) in NEEDS.items():
        assert calls[call]["security"] == [{"HTTPBearer": [role]}], call
        assert {"401", "403", "409", "413", "422", "503"} <= calls[call]["responses"].keys()
    assert "security" not in calls["GET /health"]


def test_service_replies_with_422_in_the_form_of_openapi(shared: Served) -> None:
    found = requests.get(f"{shared.address}/openapi.json", timeout=60).json()
    schema = found["paths"]["/tell"]["post"]["responses"]["422"]["content"]["application/json"]
    form = found["components"]["schemas"][schema["schema"]["$ref"].rpartition("/")[2]]
    assert "HTTPValidationError" not in found["components"]["schemas"]
    for body in ({}, {"points": [[99.0]], "rewards": [1.0]}, {"points": 3, "rewards": ["x"]}):
        reply = shared.post("/tell", **body)  # type: ignore[arg-type]
        assert reply.status_code == 422
        assert [*reply.json()] == [*form["properties"]] == form["required"]
        assert isinstance(reply.json()["detail"], str)


# --- people in a browser


def test_page_requires_a_token_with_the_role_read(served: Served) -> None:
    page = requests.get(served.address, timeout=60)
    assert (page.status_code, "Forty" in page.text) == (401, False)
    for token, status in (("tvb_wrong", 401), (served.tokens["tell"], 403)):
        reply = requests.post(f"{served.address}/session", data={"token": token}, timeout=60)
        assert (reply.status_code, "Forty" in reply.text) == (status, False)


@pytest.mark.parametrize("dark", [False, True])
def test_page_signs_in_and_fits_on_a_phone(served: Served, dark: bool) -> None:
    pytest.importorskip("jinja2", reason="no jinja2: no page")
    X = served.campaign.ask(1.0)
    served.campaign.tell(X, [0.5], 1.0)
    served.campaign.ask(2.0)
    with open_page(served.address, 390, dark=dark) as looked:
        looked.complaints.clear()  # the sign-in page came with status 401
        box = looked.page.locator("#token").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert looked.fits
        looked.page.fill("#token", served.tokens["read"])
        looked.page.click("button")
        looked.page.wait_for_selector(".plot svg", timeout=180_000)
        assert looked.page.title() == "Forty <sites>"
        assert looked.page.inner_text(".now strong").startswith("Go to S")
        assert looked.fits
        assert looked.complaints == []
        assert all(url.startswith(served.address) for url in looked.requests)

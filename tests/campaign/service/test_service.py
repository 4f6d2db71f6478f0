"""The service as its clients see it: a real server on loopback."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import requests
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.browser import looking
from tvbandits import Candidates, policies

pytest.importorskip("fastapi", reason="no fastapi: no service")
uvicorn = pytest.importorskip("uvicorn", reason="no uvicorn: no service")

from starlette.requests import Request  # noqa: E402

from tvbandits.campaign import Campaign  # noqa: E402
from tvbandits.campaign.service import Remote, RemoteError, Tokens  # noqa: E402
from tvbandits.campaign.service.app import _Door, service  # noqa: E402
from tvbandits.campaign.service.limits import Limits, Rate, impatient_protocol  # noqa: E402
from tvbandits.campaign.service.serving import serve  # noqa: E402
from tvbandits.campaign.service.tokens import FreshTokens  # noqa: E402

LIMITS = Limits(body=50_000, seconds=1.0, strangers_per_second=1000.0, strangers_burst=1000.0)
DOMAIN = Candidates(np.linspace(0, 10, 40)[:, None])


class Served(NamedTuple):
    address: str
    campaign: Campaign
    tokens: dict[str, str]
    port: int
    kept: Path

    def says(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}


def new_bandit() -> Any:
    return policies.tv_gp_ucb(DOMAIN, RBF(1.0), 0.01, epsilon=0.05, seed=3)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    kept = tmp_path / "tokens.json"
    tokens = {
        role: Tokens.at(kept).new(role, ["read", "tell", "ask"] if role == "all" else [role])
        for role in ("read", "tell", "ask", "all")
    }
    about = {"names": json.dumps([f"S{i}" for i in range(40)]), "title": "Forty <sites>"}
    campaign = Campaign.create(tmp_path / "c.db", new_bandit(), about=about)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = uvicorn.Config(
        service(campaign, kept, limits=LIMITS),
        port=port,
        http=impatient_protocol(LIMITS.seconds),
        ws="none",
        lifespan="off",
        log_config=None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Served(f"http://127.0.0.1:{port}", campaign, tokens, port, kept)
    finally:
        server.should_exit = True
        thread.join(30)
        campaign.close()


def test_a_script_plays_the_service_like_a_bandit(served: Served) -> None:
    remote: Any = Remote(served.address, served.tokens["all"])
    twin: Any = new_bandit()
    for t in range(1, 9):
        chosen = [each.ask(t, n=2) for each in (remote, twin)]
        np.testing.assert_array_equal(*chosen)
        y = np.sin(chosen[0][:, 0] + t / 9)
        y[t % 2] = np.nan if t == 5 else y[t % 2]
        for each in (remote, twin):
            each.tell(chosen[0][:1], y[:1], t)
            if t == 7:
                each.drop(chosen[0][1:])
            else:
                each.tell(chosen[0][1:], y[1:], t, 0.02)
    np.testing.assert_array_equal(remote.pending, twin.pending)
    for mine, its in zip(remote.predict(DOMAIN.X, 9), twin.predict(DOMAIN.X, 9), strict=True):
        np.testing.assert_array_equal(mine, its)
    np.testing.assert_array_equal(remote.recommend(9), twin.recommend(9))
    assert len(remote.history) == len(twin.history)
    assert remote.status["told"] == len(twin.state.rewards)
    assert {row.who for row in served.campaign.journal()} == {"all"}
    assert served.campaign.state == twin.state


def test_questions_and_answers_go_over_it(served: Served) -> None:
    remote: Any = Remote(served.address, served.tokens["all"])
    with pytest.raises(RemoteError, match="nothing to ask"):
        remote.questions(1)
    info = remote.answer(DOMAIN.X[:2], [1.0, np.nan], 1.0, 0.01)
    assert info["answered"] >= 0
    assert served.campaign.status.answers == 1


def test_a_request_said_again_counts_once(served: Served) -> None:
    said = {"points": [[0.0]], "rewards": [1.0], "t": 1, "key": "k1"}
    for _ in range(3):
        reply = requests.post(f"{served.address}/tell", json=said, headers=served.says("tell"))
        assert (reply.status_code, reply.json()["told"]) == (200, 1)
    other = {**said, "rewards": [2.0]}
    reply = requests.post(f"{served.address}/tell", json=other, headers=served.says("tell"))
    assert reply.status_code == 409
    assert "k1" in reply.json()["error"]


def test_many_at_once_lose_nothing(served: Served) -> None:
    def work(number: int) -> None:
        remote = Remote(served.address, served.tokens["all"])
        for i in range(4):
            X = remote.ask(float(i))
            remote.tell(X, [number + i / 10], float(i))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    rewards = served.campaign.history
    told = rewards[rewards["kind"] == "reward"]["reward"].to_numpy()
    expected = [number + i / 10 for number in range(8) for i in range(4)]
    np.testing.assert_allclose(np.sort(told), np.sort(expected))
    assert served.campaign.verify().fine


# --- who may what


VERBS = {
    "POST /ask": ("ask", {}),
    "POST /questions": ("ask", {}),
    "POST /tell": ("tell", {"points": [[0.0]], "rewards": [1.0], "t": 1}),
    "POST /answer": ("tell", {"points": [[0.0]], "values": [1.0], "t": 1}),
    "POST /drop": ("tell", {"points": [[0.0]]}),
    "POST /predict": ("read", {"points": [[0.0]], "t": 1}),
    "GET /status": ("read", None),
    "GET /pending": ("read", None),
    "GET /recommend": ("read", None),
    "GET /history": ("read", None),
    "GET /journal": ("read", None),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("who", ["nobody", "unknown", "read", "tell", "ask"])
def test_a_verb_needs_its_role(served: Served, verb: str, who: str) -> None:
    method, path = verb.split()
    role, said = VERBS[verb]
    headers = {} if who == "nobody" else {"Authorization": "Bearer tvb_no"}
    headers = served.says(who) if who in served.tokens else headers
    reply = requests.request(method, served.address + path, json=said, headers=headers)
    if who in ("nobody", "unknown"):
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"] == "Bearer"
    elif who != role:
        assert (reply.status_code, reply.json()) == (403, {"error": f"this token may not {role}"})
    else:
        assert reply.status_code in (200, 422)  # 422: nobody to ask, nothing out
    if who != role:
        assert served.campaign.status.rows == 0


def test_every_verb_is_in_that_list(served: Served) -> None:
    found = requests.get(f"{served.address}/openapi.json").json()["paths"]
    verbs = {f"{method.upper()} {path}" for path, each in found.items() for method in each}
    assert verbs == {*VERBS, "GET /health"}


def test_a_token_that_is_taken_back_is_worthless_at_once(served: Served) -> None:
    def status() -> int:
        address = f"{served.address}/status"
        return requests.get(address, headers=served.says("read")).status_code

    assert status() == 200
    Tokens.at(served.kept).take_back("read")
    assert status() == 401


# --- what is refused


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
        ({"points": [[0.0]] * 60_000, "rewards": [1.0]}, 413, "at most 50000 bytes"),
    ],
)
def test_bad_requests_are_refused_in_a_line(
    served: Served, said: dict[str, Any], status: int, error: str
) -> None:
    reply = requests.post(f"{served.address}/tell", json=said, headers=served.says("tell"))
    assert reply.status_code == status
    assert list(reply.json()) == ["error"]
    assert "Traceback" not in reply.text
    assert re.search(error, reply.json()["error"])
    assert served.campaign.status.rows == 0


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
def test_what_is_no_json_is_refused(served: Served, body: bytes) -> None:
    headers = {**served.says("tell"), "Content-Type": "application/json"}
    reply = requests.post(f"{served.address}/tell", data=body, headers=headers)
    assert reply.status_code == 422
    assert "Traceback" not in reply.text


@pytest.mark.parametrize(
    "path",
    ["/../tokens.json", "/%2e%2e/tokens.json", "/static/../../etc/passwd", "/docs", "//status"],
)
def test_there_are_no_other_paths(served: Served, path: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as wire:
        wire.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        said = b""
        while part := wire.recv(65536):
            said += part
    assert said.startswith(b"HTTP/1.1 404")


def test_another_host_name_is_refused(served: Served) -> None:
    headers = {**served.says("read"), "Host": "evil.example"}
    assert requests.get(f"{served.address}/status", headers=headers).status_code == 400


@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"POST /tell HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["headers", "body"],
)
def test_a_slow_client_is_left(served: Served, beginning: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as wire:
        wire.sendall(beginning)
        said = wire.recv(65536)  # waits until the service has had enough
    assert said == b"" or said.startswith(b"HTTP/1.1 408")
    assert requests.get(f"{served.address}/health").status_code == 200


def test_the_inside_stays_inside(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(served.campaign, "recommend", broken)
    with caplog.at_level(logging.ERROR):
        reply = requests.get(f"{served.address}/recommend", headers=served.says("read"))
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


def test_too_many_requests_of_a_stranger(tmp_path: Path) -> None:
    door = _Door(FreshTokens(tmp_path / "none"), Limits(strangers_burst=2.0), secure=False)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("1.2.3.4", 1)}
    seen = []
    for _ in range(4):
        with pytest.raises(Exception, match=r"401|429") as refused:
            door.holder(Request(scope), "wrong")
        seen.append(refused.value.status_code)  # type: ignore[attr-defined]
    assert seen == [401, 401, 429, 429]


# --- tokens


def test_a_file_of_tokens_holds_no_token(tmp_path: Path) -> None:
    place = tmp_path / "t.json"
    token = Tokens.at(place).new("anna", ["read"])
    assert token not in place.read_text()
    assert place.stat().st_mode & 0o077 == 0
    found = Tokens.at(place).holder(token)
    assert found is not None
    assert (found.name, found.roles) == ("anna", {"read"})
    assert Tokens.at(place).holder(token[:-1]) is None
    assert token not in repr(Tokens.at(place))


@pytest.mark.parametrize(
    ("name", "roles", "error"),
    [
        ("anna", ["read"], "has a token already"),
        ("a b", ["read"], "name must be letters"),
        ("", ["read"], "name must be letters"),
        ("bert", ["root"], "roles must be of read, tell, ask; got .'root'"),
        ("bert", [], "roles must be of"),
    ],
)
def test_bad_tokens(tmp_path: Path, name: str, roles: list[str], error: str) -> None:
    tokens = Tokens.at(tmp_path / "t.json")
    tokens.new("anna", ["read"])
    with pytest.raises(ValueError, match=error):
        tokens.new(name, roles)
    assert tokens.names == ("anna",)


@pytest.mark.parametrize("text", ["", "[]", '{"tokens": [{"name": "a"}]}', '{"tokens": 3}', "\x00"])
def test_a_damaged_file_of_tokens(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ValueError, match="is not a file of tokens"):
        Tokens.at(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("host", "more", "error"),
    [
        ("0.0.0.0", {}, "can be reached from elsewhere"),
        ("example.org", {}, "can be reached from elsewhere"),
        ("127.0.0.1", {"certificate": "none.pem", "private_key": "none.pem"}, "no such file"),
    ],
)
def test_it_is_not_served_carelessly(
    served: Served, host: str, more: dict[str, str], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        serve(served.campaign, served.kept, host=host, **more)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are no tokens"):
        serve(served.campaign, served.kept.with_name("none"))


# --- the page


def test_the_page_needs_a_token(served: Served) -> None:
    assert requests.get(served.address).status_code == 401
    assert "Forty" not in requests.get(served.address).text
    wrong = requests.post(f"{served.address}/session", data={"token": "tvb_wrong"})
    assert wrong.status_code == 401
    may_not = requests.post(f"{served.address}/session", data={"token": served.tokens["tell"]})
    assert may_not.status_code == 403


def test_a_cookie_cannot_change_anything(served: Served) -> None:
    cookies = {"tvbandits": served.tokens["all"]}
    said = {"points": [[0.0]], "rewards": [1.0], "t": 1}
    reply = requests.post(f"{served.address}/tell", json=said, cookies=cookies)
    assert reply.status_code == 401
    assert requests.get(f"{served.address}/status", cookies=cookies).status_code == 200


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

"""A service under attack: every request that should not be is refused and logged, and it lives on.

The server is a process of its own, started by `tvbandits campaign serve`. Each attack has statuses that
are right. What floods it or sends slowly is left to the proxy before it. After each one the journal must
be as before, the reply may show nothing of the inside, the log must have grown, and the service must
answer.
"""

import contextlib
import json
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import requests

from tests.attack.report import CRASHED, HALF_DONE, SILENT, WRONG, Count, Found, Trial, in_the_loop
from tests.attack.serving import Serving, started
from tvbandits import Campaign

# For a reply to come.
SECONDS = 60.0


@dataclass(frozen=True)
class Attack:
    """What is sent, which statuses of the reply are right, and what it has to speak of."""

    name: str
    send: Callable[[Serving], bytes]
    right: tuple[int, ...]
    said: str = ""


def request(
    there: Serving,
    method: str = "POST",
    path: str = "/tell",
    body: bytes | str = b"{}",
    headers: str = "",
    *,
    role: str | None = "all",
    host: str = "localhost",
) -> bytes:
    """One request as it goes over the wire."""
    said = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    token = "" if role is None else f"Authorization: Bearer {there.tokens[role]}\r\n"
    length = "" if "ncoding: " in headers else f"Content-Length: {len(said)}\r\n"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{token}Content-Type: application/json\r\n"
        f"{length}{headers}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + said


def told(**changed: object) -> str:
    """A reward as it should be, but for something."""
    return json.dumps({"points": [[0.0]], "rewards": [1.0], "t": 1, **changed})


def _of(name: str, right: tuple[int, ...] | int, said: str = "", **how: object) -> Attack:
    statuses = right if isinstance(right, tuple) else (right,)
    return Attack(name, lambda there: request(there, **how), statuses, said)  # type: ignore[arg-type]


def _with(name: str, right: tuple[int, ...], headers: str, body: bytes = b"") -> Attack:
    return Attack(name, lambda there: request(there, body=body, headers=headers), right)


GOOD = told().encode()
CHUNKED = "Transfer-Encoding: chunked\r\n"
STRANGER = 401

WHO = [
    _of("no token", STRANGER, body=told(), role=None),
    _of("another scheme", STRANGER, body=told(), role=None, headers="Authorization: Basic YTpi\r\n"),
    _of("token of 20 kB", STRANGER, body=told(), role=None,
        headers=f"Authorization: Bearer {'x' * 20_000}\r\n"),
    _of("teller looks", 403, method="GET", path="/status", role="tell", body=b""),
    Attack("a cookie tells", lambda there: request(there, body=told(), role=None,
        headers=f"Cookie: tvbandits={there.tokens['all']}\r\n"), (401,)),
    Attack("a token in the address", lambda there: request(
        there, "GET", f"/status?token={there.tokens['all']}", b"", role=None), (401,)),
    Attack("a token cut short", lambda there: request(there, body=told(), role=None,
        headers=f"Authorization: Bearer {there.tokens['all'][:-1]}\r\n"), (401,)),
    Attack("the hash of a token", lambda there: request(there, body=told(), role=None,
        headers=f"Authorization: Bearer {sha256(there.tokens['all'].encode()).hexdigest()}\r\n"),
        (401,)),
    _of("SQL for a token", 401, body=told(), role=None,
        headers="Authorization: Bearer ' OR '1'='1\r\n"),
]  # fmt: skip

WHERE = [
    _of("above the root", 404, method="GET", path="/../campaign.db", body=b""),
    _of("above the root, twice encoded", 404, method="GET", path="/%252e%252e/etc/passwd", body=b""),
    _of("a NUL in the path", 404, method="GET", path="/status%00.html", body=b""),
    _of("control characters in the path", 404, method="GET", path="/%1b%5b31m%0d%0aX:y", body=b""),
    _of("a path of 30 kB", (400, 404), method="GET", path="/" + "a" * 30_000, body=b""),
    _of("another host", 400, body=told(), host="evil.example"),
    _of("an absolute address", (400, 404), path="http://evil.example/tell", body=told()),
    _of("a forwarded host", 401, body=told(), role=None, headers="X-Forwarded-Host: localhost\r\n"),
    _of("another method", 405, method="DELETE", path="/tell", body=b""),
    _of("a tunnel", (400, 404, 405), method="CONNECT", path="evil.example:443", body=b""),
    _of("a web socket", (405, 426), method="GET", path="/tell", body=b"",
        headers="Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"),
]  # fmt: skip

WHAT = [
    _of("no JSON", 422, body=b"{"),
    _of("deep JSON", (400, 422), body=b"[" * 400_000),
    _of("2 MB", 413, body=b" " * 2_000_000),
    _of("2 MB in chunks", 413, headers=CHUNKED, body=(b"ffff\r\n" + b" " * 65_535 + b"\r\n") * 32),
    _of("20,000 points", 422, body=told(points=[[0.0]] * 20_000, rewards=[0.0] * 20_000)),
    _of("a reward too many", 422, "rewards must have a value for each", body=told(rewards=[1.0, 2.0])),
    _of("a truth value", 422, "rewards", body=told(rewards=[True])),
    _of("no points", 422, "points", body=told(points=[], rewards=[])),
    _of("a point elsewhere", 422, "99", body=told(points=[[99.0]])),
    _of("infinite", 422, body=told().replace("1.0", "1e999")),
    _of("huge reward", 422, "1e", body=told(rewards=[1e300])),
    _of("huge time", 422, body=told(t=10**400)),
    _of("a number of 5000 digits", (400, 422), body=told().replace("1.0", "9" * 5000)),
    _of("a billion points asked for", 422, path="/ask", body='{"t": 1, "n": 1000000000}'),
    _of("huge rows", 422, path="/ask", body=json.dumps({"t": 1, "available": [2**70]})),
    _of("no variance", 422, body=told(noise_variance=0.0)),
    _of("a field of one's own", 422, "__class__", body=told(__class__="os.system")),
    _of("a text for a number", 422, "rewards", body=told(rewards=["1'; DROP TABLE journal; --"])),
    _of("a time in SQL", 422, "t must be a number", body=told(t="1'; DROP TABLE journal; --")),
    _of("half a character in the key", (400, 422), body=told(key="KEY").replace("KEY", "\\ud800")),
    _of("a key with a line end", 422, body=told(key="a\r\nSet-Cookie: b=c")),
    _of("an empty key", 422, "key", body=told(key="")),
    _of("a key of 300 letters", 422, "key", body=told(key="k" * 300)),
    _of("history without an end", 422, method="GET", path=f"/history?last={'9' * 20}", body=b""),
    _of("a forecast of nothing", 422, path="/predict", body='{"points": [[null]]}'),
]  # fmt: skip

FORM = [
    _with("a length and chunks", (400, 422), f"Content-Length: 4\r\n{CHUNKED}", b"0\r\n\r\n"),
    _with("two lengths", (400,), "Content-Length: 4\r\nContent-Length: 5\r\nX-Encoding: \r\n", GOOD),
    _with("a length of 5000 digits", (400,), f"Content-Length: {'9' * 5000}\r\nX-Encoding: \r\n"),
    _with("an encoding of nonsense", (400, 501), "Transfer-Encoding: xchunked\r\n", GOOD),
    _with("headers of 100 kB", (400, 422), f"X-Encoding: {'y' * 100_000}\r\n", GOOD),
    Attack("no host", lambda _: b"GET /status HTTP/1.1\r\n\r\n", (400,)),
    Attack("noise", lambda _: bytes(range(256)) * 4, (400,)),
    Attack("a request inside of a body", lambda there: request(
        there, body=request(there, body=told(), role="all")), (422,)),
]  # fmt: skip

AT_ONCE: tuple[Attack, ...] = (*WHO, *WHERE, *WHAT, *FORM)


def reply_to(there: Serving, said: bytes) -> bytes:
    """All that comes back."""
    found = b""
    with socket.create_connection(("127.0.0.1", there.port), timeout=SECONDS) as wire:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            wire.sendall(said)
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            while part := wire.recv(65536):
                found += part
    return found


def status_of(reply: bytes) -> int:
    """Of a reply; 0 for none."""
    found = re.match(rb"HTTP/1\.[01] (\d{3}) ", reply)
    return int(found[1]) if found else 0


def alive(there: Serving) -> bool:
    """Whether it answers who has a token."""
    with contextlib.suppress(requests.RequestException):
        reply = requests.get(f"{there.address}/status", headers=there.says("read"), timeout=SECONDS)
        return reply.status_code == 200
    return False


KEYS = ("'; DROP TABLE journal; --", '" OR 1=1 --', "<script>alert(1)</script>", "{{7*7}}", "$(id)")


def injected(there: Serving) -> None:
    """SQL and markup in keys, which are texts like any other: taken once, as they are."""
    for number, name in enumerate(KEYS):
        said = request(there, body=told(key=name, t=1000 + number))
        if [status_of(reply_to(there, said)) for _ in range(2)] != [200, 200]:
            raise Found(WRONG, f"the key {name!r} was refused")
        if [row.key for row in there.campaign.journal()].count(name) != 1:
            raise Found(WRONG, f"the key {name!r} does not count once")
    page = requests.get(there.address, cookies={"tvbandits": there.tokens["read"]}, timeout=120)
    if page.status_code != 200 or "<script>alert" in page.text:
        raise Found(WRONG, "markup of a name stands in the page")


def sent(there: Serving, each: Attack) -> str:
    """Send it, and look at what came of it."""
    rows, logged = len(there.campaign.journal()), there.log.stat().st_size
    reply = reply_to(there, each.send(there))
    status = status_of(reply)
    if status not in each.right:
        raise Found(SILENT if status == 200 else CRASHED, f"{status} {reply[-200:]!r}")
    if each.said and list(json.loads(reply.partition(b"\r\n\r\n")[2])) != ["detail"]:
        raise Found("not named", f"{reply[-200:]!r}")
    if each.said.encode() not in reply.partition(b"\r\n\r\n")[2]:
        raise Found("not named", f"{each.said}: {reply[-200:]!r}")
    inside = (b"Traceback", b"/site-packages", str(there.folder).encode())
    if any(word in reply for word in inside):
        raise Found(WRONG, f"the reply shows the inside: {reply[:300]!r}")
    if len(there.campaign.journal()) != rows:
        raise Found(HALF_DONE, "the journal has changed")
    end = time.monotonic() + 5.0
    while there.log.stat().st_size == logged and time.monotonic() < end:
        time.sleep(0.01)
    if there.log.stat().st_size == logged:
        raise Found("not logged", f"{status}")
    if not there.running:
        raise Found(CRASHED, "the service has ended")
    return f"refused with {status}"


def unharmed(there: Serving) -> None:
    """After all of it: it answers, and neither its log nor its journal has suffered."""
    if not (there.running and alive(there)):
        raise Found(CRASHED, "the service does not answer any more")
    text = there.log.read_bytes()
    if re.search(rb"[\x00-\x08\x0b-\x1f]", text):
        raise Found("terminal escapes", "control characters in the log")
    if any(token.encode() in text for token in there.tokens.values()):
        raise Found(WRONG, "a token stands in the log")
    _, stack, rest = text.partition(b"Traceback")
    if stack:
        raise Found(CRASHED, f"a stack in the log: {rest[-300:].decode()}")
    with Campaign.open(there.place) as campaign:
        if problems := campaign.verify().problems:
            raise Found(WRONG, "; ".join(problems))


@in_the_loop(120, 48)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """So many attacks at once, and those that take longer once each."""
    order = np.random.default_rng(seed).permutation(count) % len(AT_ONCE)
    with tempfile.TemporaryDirectory(prefix="attack") as name, started(Path(name)) as there:
        for each in (AT_ONCE[i] for i in order):
            yield each.name, partial(sent, there, each)
        yield "injections", partial(injected, there)
        yield "in the end", partial(unharmed, there)

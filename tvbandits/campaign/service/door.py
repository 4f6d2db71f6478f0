"""Who comes in, and with what: decided before a body is read and the application sees anything."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from tvbandits.campaign.service.tokens import Holder, holder_in
from tvbandits.core.coercion import shown

log = logging.getLogger("tvbandits.service")

# --- what a client may use up, refused before anything is computed --------------------------------


# Share of the connections from which on those that wait for their clients are closed.
RESTING = 0.8

# Headers of which a request has one at most: two readers would not agree on which counts.
ONCE = (b"authorization", b"content-length", b"content-type", b"host", b"origin")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True)
class Limits:
    """Of one service.

    Attributes
    ----------
    body : int
        Bytes of a request.
    seconds : float
        For a request to arrive, headers and body each.
    per_second, burst : float
        Requests of one token: steadily, and at once.
    strangers_per_second, strangers_burst : float
        Requests of one address without a token that is known.
    connections : int
        At the same time; more are told to come back. Before that, those that wait for their clients are
        closed, the longest first.
    """

    body: int = 1_000_000
    seconds: float = 10.0
    per_second: float = 200.0
    burst: float = 400.0
    strangers_per_second: float = 5.0
    strangers_burst: float = 20.0
    connections: int = 500


class Rate:
    """A bucket a name, which fills steadily; a name that has not been seen for long is forgotten."""

    MOST_NAMES = 10_000

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, name: str, now: float | None = None) -> bool:
        """Take one from the bucket, if there is one."""
        now = time.monotonic() if now is None else now
        left, since = self._left.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_second)
        allowed = left >= 1.0
        self._left[name] = (left - allowed, now)
        while len(self._left) > self.MOST_NAMES:
            self._left.popitem(last=False)
        return allowed


def ambiguous(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Why a proxy on its way could take a request for another one, or for two; None if it cannot."""
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        return "a request has a length or is sent in chunks, not both"
    twice = [name for name in ONCE if names.count(name) > 1]
    return f"a request has one header {twice[0].decode()}" if twice else None


def impatient_protocol(limits: Limits) -> type[H11Protocol]:
    """The usual protocol, but a connection is closed when headers take longer than `limits.seconds`.

    It logs no requests, since whole addresses would stand there, with what people put into them: the
    service does it.

    That holds for the first request of a connection, which may not come at all, and for each that
    follows once it has begun; between two requests it is the time to keep a connection that counts.
    Before there are too many connections, the one that has been waiting for its client for longest is
    closed for each that comes, so that nobody can shut others out by opening many.
    """

    class ImpatientWithin(_Impatient):
        patience, most = limits.seconds, int(RESTING * limits.connections)

    return ImpatientWithin


class _Impatient(H11Protocol):
    patience: float
    most: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.access_log = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()
        self._timer: Any = self.loop.call_later(self.patience, self._lose_patience)
        if len(self.connections) > self.most:
            others: list[Any] = [each for each in self.connections if each is not self]
            resting = [each for each in others if each.waits]
            if resting:
                min(resting, key=lambda each: each.since).leave("too many connections")

    @property
    def waits(self) -> bool:
        """For its client: no whole request has come that is not answered."""
        cycle = self.cycle
        return cycle is None or cycle.more_body or cycle.response_complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        begun = self.cycle is None or bool(self.conn.trailing_data[0])
        if self.conn.their_state is not h11.IDLE or not begun:
            self._stop()
            self.since = self.loop.time()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.patience, self._lose_patience)

    def leave(self, why: str) -> None:
        """Close the connection, and log why."""
        transport: Any = self.transport
        if not transport.is_closing():
            log.warning("%s: %s", self.client, why)
            self.connections.discard(self)
            transport.close()

    def _lose_patience(self) -> None:
        self.leave(f"no request in {self.patience:g} s")

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)


# --------------------------------------------------------------------------------------------------


COOKIE = "tvbandits"
SIGN_IN, SIGN_IN_BYTES = "/session", 4096
HOST = re.compile(r"(\[[\da-f:.]+\]|[^\s:@/\[\]]+)(:\d{1,5})?")
# What a body may be: a form or plain text any page may send from a browser, and this it may not.
JSON = ("application/json", "application/json;charset=utf-8", 'application/json;charset="utf-8"')
# Seconds in which what a refused client still sends is thrown away, so that it can read why.
LINGERING = 1.0

# Of every reply. With "no-referrer" a browser would say of our own form that its origin is none.
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)

# The method of every path, and the role that it needs; None: it is for everybody.
Verbs = Mapping[str, tuple[str, str | None]]


class RefusedError(Exception):
    """A request that does not come in: the status, the reason, and headers of the reply."""

    def __init__(self, status: int, why: str, **headers: str) -> None:
        super().__init__(why)
        self.status, self.why = status, line(why)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Door:
    """Lets a request in to the application, whole and checked; `request.state.holder` is whose it is.

    In this order: the rate of its token or address, headers that can be read in two ways, host, origin,
    path, token, role, method; only then the body, within size and time, and no key of it twice. Every
    request is a line of the log, which has no query and no token.

    Parameters
    ----------
    app : ASGI application
    tokens : path
        A file of `Tokens`, read for each request: a token that is taken back is worthless at once.
    limits : Limits
    verbs : mapping
        What there is; nothing else is reached.
    hosts : tuple of str
        Names under which it is reached.
    """

    def __init__(
        self, app: App, tokens: Path, limits: Limits, verbs: Verbs, hosts: tuple[str, ...]
    ) -> None:
        self._app, self._tokens, self._limits, self._verbs = app, tokens, limits, verbs
        self._hosts = {host.strip("[]").casefold() for host in hosts}
        self._known = Rate(limits.per_second, limits.burst)
        self._strangers = Rate(limits.strangers_per_second, limits.strangers_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it in, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, why = Request(scope, receive), ""
        holder, address = self._holder(request), _address(request)
        who = address if holder is None else f"{holder.name} at {address}"

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                level = logging.INFO if status < 400 else logging.WARNING
                log.log(level, "%s: %s %s %d%s", who, scope["method"], path_of(scope), status, why)
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            self._enter(request, holder, address)
            said = await self._taken(request, holder)
        except RefusedError as error:
            why = f": {error.why}"
            await _refuse(answer, request, error)
            return
        scope.setdefault("state", {})["holder"] = holder
        await self._app(scope, _handed(said, receive), answer)

    def _holder(self, request: Request) -> Holder | None:
        """Whose token it has; a cookie counts only where nothing can be changed."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.casefold() != "bearer":
            _, role = self._verbs.get(request.scope["path"], ("", None))
            token = request.cookies.get(COOKIE, "") if role in (None, "read") else ""
        return holder_in(self._tokens, token.strip())

    def _enter(self, request: Request, holder: Holder | None, address: str) -> None:
        """Raise a `RefusedError` for whom the headers alone do not let in."""
        rate, whose = (self._strangers, address) if holder is None else (self._known, holder.name)
        if not rate.allows(whose):
            raise RefusedError(429, "too many requests", retry_after="1")
        if twofold := ambiguous(request.scope["headers"]):
            raise RefusedError(400, twofold)
        host = request.headers.get("host", "")
        name = HOST.fullmatch(host.casefold())
        if name is None or name[1].strip("[]") not in self._hosts:
            raise RefusedError(400, f"the service is not called {shown(host)}")
        if _from_elsewhere(request, host):
            raise RefusedError(403, "the request comes from another origin")
        method, role = self._verbs.get(request.scope["path"], ("", None))
        if not method:
            raise RefusedError(404, "there is nothing here")
        if role is not None and holder is None:
            given = "authorization" in request.headers or COOKIE in request.cookies
            why = "that token is wrong" if given else "a token is needed"
            raise RefusedError(401, why, www_authenticate="Bearer")
        if role is not None and holder is not None and role not in holder.roles:
            raise RefusedError(403, f"this token may not {role}")
        if request.scope["method"] != method:
            raise RefusedError(405, f"the method here is {method}", allow=method)

    async def _taken(self, request: Request, holder: Holder | None) -> bytes:
        """The body, within size and time."""
        limits = self._limits
        signs_in = request.scope["path"] == SIGN_IN
        most = limits.body if holder else SIGN_IN_BYTES if signs_in else 0
        try:
            said = await asyncio.wait_for(_whole(request, most), limits.seconds)
        except ClientDisconnect as error:
            raise RefusedError(400, "the client has gone") from error
        except TimeoutError as error:
            raise RefusedError(408, f"a request arrives within {limits.seconds:g} s") from error
        if said and not signs_in:
            kind = request.headers.get("content-type", "").casefold()
            if kind.replace(" ", "") not in JSON:
                raise RefusedError(415, f"a request is application/json, got {shown(kind)}")
            with suppress(ValueError, RecursionError):  # what is no JSON the application refuses
                json.loads(said, object_pairs_hook=_once)
        return said


async def _whole(request: Request, most: int) -> bytes:
    """The body, at most so many bytes, also by what the client says of its length."""
    found, stated = bytearray(), request.headers.get("content-length", "")
    too_large = RefusedError(413, f"a request has at most {most} bytes here")
    if stated.isdigit() and int(stated[:20]) > most:
        raise too_large
    async for part in request.stream():
        found += part
        if len(found) > most:
            raise too_large
    return bytes(found)


async def _thrown_away(request: Request) -> None:
    """The rest of the body."""
    async for _ in request.stream():
        pass


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Raise a `RefusedError` for a key given twice: two readers would not agree on which counts."""
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise RefusedError(422, f"the key {shown(name)} is given twice")


def _from_elsewhere(request: Request, host: str) -> bool:
    """Whether a browser sends it for a page of another origin.

    A link to here from elsewhere is no such thing: it carries no cookie, and changes nothing.
    """
    origin = request.headers.get("origin")
    if origin is not None:
        scheme, _, place = origin.casefold().partition("://")
        if scheme != "https" and (scheme != "http" or request.scope["scheme"] == "https"):
            return True  # a proxy that ends TLS may stand before us, and none that begins it
        default = ":443" if scheme == "https" else ":80"
        return place.removesuffix(default) != host.casefold().removesuffix(default)
    site = request.headers.get("sec-fetch-site", "none")
    return request.scope["method"] != "GET" and site not in ("none", "same-origin")


def _address(request: Request) -> str:
    """Of a client; of IPv6 the network, in which one client has as many addresses as it likes."""
    host = request.client.host if request.client else "unknown"
    try:
        if ipaddress.ip_address(host).version == 6:
            return str(ipaddress.ip_network((host.partition("%")[0], 64), strict=False))
    except ValueError:
        pass
    return host


def _handed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a whole body first."""
    waiting = [body]

    async def whole() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return whole


async def _refuse(send: Send, request: Request, error: RefusedError) -> None:
    """Say why in JSON, throw away what still comes for a moment, and close.

    A connection that is closed on a client that is sending is reset, and the reply lost.
    """
    said = json.dumps({"error": error.why}).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(said)),
        "connection": "close",
        **error.headers,
    }
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": said, "more_body": True})
    with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # the last: it has all come
        await asyncio.wait_for(_thrown_away(request), LINGERING)
    await send({"type": "http.response.body", "body": b""})


def line(text: str) -> str:
    """One line that can be shown: no control characters, at most 500 letters."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))[:500]


def path_of(scope: Scope) -> str:
    """The path as it may stand in a log: nothing in it is as long as a token."""
    return line(re.sub(r"[\w-]{20,}", "...", scope["path"]))

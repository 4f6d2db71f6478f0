"""What a client may use up: bytes, seconds, requests; refused before anything is computed."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("tvbandits.service")

RESTING = 0.8
"""Share of the connections from which on those that wait for their clients are closed."""

ONCE = (b"authorization", b"content-length", b"content-type", b"host", b"origin")
"""Headers of which a request has one at most: two readers would not agree on which counts."""

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
    points : int
        Rows in a request.
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
    points: int = 10_000
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

    class Impatient(_Impatient):
        patience, most = limits.seconds, int(RESTING * limits.connections)

    return Impatient


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

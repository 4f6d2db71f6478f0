"""A connection to an MQTT broker that comes back by itself."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

try:
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError as error:
    raise ImportError(
        'stations over MQTT need the package paho-mqtt: pip install "tvbandits[mqtt]"'
    ) from error


ClientSource = paho.Client | Callable[[], paho.Client] | None
"""A client of paho that is not connected, or a function that makes one; None: a plain one."""


_PREFIX = r"[^+#$/\0]([^+#\0]*[^+#/\0])?"


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where the broker is, how topics are called, and who connects."""

    host: str
    port: int
    prefix: str
    client: ClientSource = field(repr=False)

    def __post_init__(self) -> None:
        host, port, prefix, client = self.host, self.port, self.prefix, self.client
        given: tuple[object, ...] = (host, port, prefix)
        if not (isinstance(given[0], str) and host):
            raise ValueError(f"host must be a name or an address, got {host!r}")
        if isinstance(port, bool) or not isinstance(given[1], int) or not 0 < port < 65536:
            raise ValueError(f"port must be a whole number from 1 to 65535, got {port!r}")
        if not (isinstance(given[2], str) and re.fullmatch(_PREFIX, prefix)):
            raise ValueError(
                "prefix must be a topic without + and #, and must not begin or end with /, "
                f"got {prefix!r}"
            )
        if isinstance(client, paho.Client):
            _check_client(client)
        elif client is not None and not callable(client):
            raise ValueError(f"client must be a client of paho, or make one, got {client!r}")

    def __str__(self) -> str:
        return f"the broker {self.host}:{self.port}/{self.prefix}"

    def topic(self, station: str, *levels: str) -> str:
        """A topic of a station, whose id may hold any character."""
        given: object = station
        if not (isinstance(given, str) and given):
            raise ValueError(f"the id of a station must be a text that is not empty, got {given!r}")
        return "/".join((self.prefix, quote(station, safe=""), *levels))

    def split(self, topic: str) -> tuple[str, str]:
        """The station of a topic, and "say" or "state"."""
        station, kind, *_ = topic.removeprefix(f"{self.prefix}/").split("/")
        return unquote(station), kind

    def make_client(self) -> paho.Client:
        """The client to connect with."""
        if isinstance(self.client, paho.Client):
            return self.client
        if self.client is not None:
            made: object = self.client()
            if not isinstance(made, paho.Client):
                raise ValueError(f"client must make a client of paho, it made {made!r}")
            _check_client(made)
            return made
        plain = paho.Client(CallbackAPIVersion.VERSION2)
        plain.reconnect_delay_set(1, 10)
        return plain


def _nothing() -> None:
    """What is done where nothing is to do."""


def _without_delay(_client: object, _data: object, connection: Any) -> None:
    """Send small messages at once: questions and answers would otherwise wait for one another."""
    with contextlib.suppress(OSError, AttributeError):  # not a TCP connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Link:
    """A connection with its subscriptions.

    Its callbacks run in the thread of the client, which an exception would end: they do not raise, and
    neither may `heard`, `came` and `went`.

    Parameters
    ----------
    client : paho.mqtt.client.Client
    topics : tuple of str
        What to subscribe to.
    heard : callable
        `heard(topic, payload)` takes a message.
    changed : threading.Condition, optional
        Guards the attributes; notified whenever one changes.
    came, went : callable
        Called when the connection is ready for messages, and, under the lock, when it is lost.

    Attributes
    ----------
    ready : bool
        Whether it is connected and subscribed.
    refusal : str
        Why the broker does not let us in; empty if it does, or is not there.
    connections : int
        How many times it became ready.
    """

    def __init__(
        self,
        client: paho.Client,
        topics: tuple[str, ...],
        heard: Callable[[str, bytes | bytearray], None],
        *,
        changed: threading.Condition | None = None,
        came: Callable[[], None] = _nothing,
        went: Callable[[], None] = _nothing,
    ) -> None:
        self.ready = False
        self.refusal = ""
        self.connections = 0
        self._client: paho.Client | None = client
        self._topics = topics
        self._came, self._went = came, went
        self._changed = changed or threading.Condition()
        self._subscription: int | None = None
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        if client.on_socket_open is None:
            client.on_socket_open = _without_delay
        client.on_message = lambda _client, _data, message: heard(message.topic, message.payload)

    def start(self, address: Address) -> None:
        """Connect, now or later, and stay connected."""
        if self._client is not None:
            self._client.connect_async(address.host, address.port)
            self._client.loop_start()

    def is_still(self, connection: int) -> bool:
        """Whether the connection of that number holds."""
        return self.ready and self.connections == connection

    def publish(self, topic: str, payload: str, *, retain: bool = False) -> None:
        """Send at least once; what cannot be sent is logged, and its answer does not come."""
        client = self._client
        if client is None:  # closed by another thread
            return
        sent = client.publish(topic, payload, qos=1, retain=retain)
        if sent.rc not in (paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN):
            _log.warning("cannot send to %s: %s", topic, paho.error_string(sent.rc))

    def close(self) -> None:
        """End the connection, for good."""
        client, self._client = self._client, None
        if client is None:
            return
        client.disconnect()
        client.loop_stop()
        # Nothing of ours refers to the client any more: being let go, it closes its last sockets.
        client.on_connect = client.on_subscribe = client.on_disconnect = client.on_message = None

    def _on_connect(
        self, client: paho.Client, _data: object, _flags: object, code: Any, _more: object
    ) -> None:
        if code.is_failure:
            self._refused(str(code))
        else:
            _, self._subscription = client.subscribe([(topic, 1) for topic in self._topics])

    def _on_subscribe(
        self, _client: object, _data: object, mid: int, codes: Any, _more: object
    ) -> None:
        if mid != self._subscription:
            return
        if any(code.is_failure for code in codes):
            self._refused(f"subscribing to {' and '.join(self._topics)} is not allowed")
            return
        with self._changed:
            self.ready, self.refusal = True, ""
            self.connections += 1
            self._changed.notify_all()
        self._came()

    def _on_disconnect(
        self, _client: object, _data: object, _flags: object, _code: object, _more: object
    ) -> None:
        with self._changed:
            self.ready = False
            self._went()
            self._changed.notify_all()

    def _refused(self, why: str) -> None:
        _log.warning("the broker does not let us in: %s", why)
        with self._changed:
            self.refusal = why
            self._changed.notify_all()


def is_client(client: object) -> bool:
    """Whether this is a client of paho, and not a function that makes one."""
    return isinstance(client, paho.Client)


def _check_client(client: paho.Client) -> None:
    if client.callback_api_version is not CallbackAPIVersion.VERSION2:
        raise ValueError("the client must be made with paho's CallbackAPIVersion.VERSION2")
    if client.is_connected():
        raise ValueError("the client must not be connected yet")

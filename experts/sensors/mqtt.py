"""Stations over MQTT: `MQTTTransport` queries stations, `MQTTStation` is one of them.

Needs the extra `mqtt`. These are the topics, under a prefix of your choice; station ids are
percent-encoded in them:

========================  ===========  ==============================================================
topic                     sent by      payload
========================  ===========  ==============================================================
prefix/STATION/ask        transport    {"request": 7, "client": "9f0c...", "time": 12.0}
prefix/STATION/say/CLIENT  station     {"request": 7, "station": "B12", "time": 12.0, "value": 41.5,
                                       "variance": 4.0, "note": ""}
========================  ===========  ==============================================================

Payloads are JSON; a "value" of null means that there is no reading. Messages are delivered at least once
(quality of service 1), so the transport uses the first valid answer of a station to a request.
`docs/mqtt.md` describes every field.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self
from urllib.parse import quote, unquote

from tvbandits.experts.sensors.expert import Reading, check_id
from tvbandits.experts.sensors.messages import (
    format_answer,
    parse_object,
    parse_question,
    parse_reading,
    parse_request_number,
)
from tvbandits.validation import (
    as_time,
    check_function,
    check_optional,
    describe_error,
    positive_number,
    require,
    whole_number,
)

try:
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError as error:
    raise ImportError(
        'stations over MQTT need the package paho-mqtt: pip install "tvbandits[mqtt]"'
    ) from error

# A function that returns a paho client that is not connected; None: a client with default options.
ClientFactory = Callable[[], paho.Client] | None

_PREFIX = r"[^+#$/\0]([^+#\0]*[^+#/\0])?"

_log = logging.getLogger(__name__)


def _disable_delay(_client: object, _data: object, connection: Any) -> None:
    """Switch off the delay of small TCP packets, by which queries and answers would arrive late."""
    with contextlib.suppress(OSError, AttributeError):  # the connection may not be TCP
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class BrokerConnection(ABC):
    """A connection to a broker with one subscription, which paho renews after it was lost.

    The callbacks run in the thread of the client, which an exception would end, so they do not raise:
    exceptions of `_receive` are logged, and `_on_loss` must not raise any. `_condition` guards the
    state, and is notified of its changes.
    """

    def __init__(self, host: str, port: int, prefix: str, client: ClientFactory) -> None:
        require(isinstance(host, str) and host, "host", "a name or an address", host)
        whole_number("port", port, at_most=65535)
        valid = isinstance(prefix, str) and re.fullmatch(_PREFIX, prefix)
        requirement = "a topic without + and #, and must not begin or end with /"
        require(valid, "prefix", requirement, prefix)
        check_optional(check_function, "client", client, "a function that returns a paho client")
        self._host, self._port, self._prefix, self._make_client = host, port, prefix, client
        self._broker = f"the broker {host}:{port}/{prefix}"
        self._condition = threading.Condition()
        self._client: paho.Client | None = None
        self._topic = ""  # the topic of the subscription
        self._ready = self._closed = False  # ready: connected and subscribed
        self._refusal = ""  # the broker's reason for refusing the connection, if it does

    def __exit__(self, *error: object) -> None:
        self.close()

    def topic(self, station: str, *levels: str) -> str:
        """Return a topic of a station, whose id may contain any characters."""
        check_id(station)
        return "/".join((self._prefix, quote(station, safe=""), *levels))

    def station_of(self, topic: str) -> str:
        """Return the station of a topic."""
        return unquote(topic.removeprefix(f"{self._prefix}/").partition("/")[0])

    def close(self) -> None:
        """Close the connection; it cannot be opened again."""
        with self._condition:
            self._closed = True
            client, self._client = self._client, None
        if client is None:
            return
        client.disconnect()
        client.loop_stop()
        # The client closes its last sockets only if it has no references to this connection.
        client.on_connect = client.on_subscribe = client.on_disconnect = client.on_message = None

    @abstractmethod
    def _receive(self, topic: str, payload: bytes | bytearray) -> None:
        """Process a message."""

    def _on_loss(self) -> None:  # noqa: B027 - a subclass need not override it
        """React to the loss of the connection; the caller has acquired `_condition`."""

    def _new_client(self) -> paho.Client:
        """Return a new, unconnected client; raise a `ValueError` if the user's function returns none."""
        if self._make_client is None:
            default = paho.Client(CallbackAPIVersion.VERSION2)
            default.reconnect_delay_set(1, 10)
            return default
        client: object = self._make_client()
        if not isinstance(client, paho.Client):
            raise ValueError(f"client must return a paho client, it returned {client!r}")
        if client.callback_api_version is not CallbackAPIVersion.VERSION2:
            raise ValueError(
                "client must return a paho client with CallbackAPIVersion.VERSION2, it returned one "
                f"with {client.callback_api_version}"
            )
        return client

    def _connect(self, topic: str) -> None:
        """Start to connect and to subscribe to `topic`, and reconnect when the connection is lost."""
        with self._condition:
            if self._closed:
                raise ValueError(f"{self!r} is closed")
            if self._client is not None:
                return
            client = self._client = self._new_client()
            self._topic = topic
            client.on_connect = self._on_connect
            client.on_subscribe = self._on_subscribe
            client.on_disconnect = self._on_disconnect
            client.on_message = self._on_message
            if client.on_socket_open is None:
                client.on_socket_open = _disable_delay
            client.connect_async(self._host, self._port)
            client.loop_start()

    def _publish(self, topic: str, payload: str) -> None:
        """Send a message at least once, or log a warning if it cannot be sent."""
        client = self._client
        if client is None:  # closed by another thread
            return
        result = client.publish(topic, payload, qos=1)
        if result.rc not in (paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN):
            _log.warning("cannot send to %s: %s", topic, paho.error_string(result.rc))

    def _on_message(self, _client: object, _data: object, message: Any) -> None:
        """Process a message, or log the error, so that the thread of the client continues."""
        try:
            self._receive(message.topic, message.payload)
        except Exception as error:  # such as a topic that is not valid text
            _log.warning("a message is dropped: %s: %s", type(error).__name__, error)

    def _on_connect(
        self, client: paho.Client, _data: object, _flags: object, code: Any, _more: object
    ) -> None:
        if code.is_failure:
            self._update(refusal=str(code))
        else:
            client.subscribe(self._topic, qos=1)

    def _on_subscribe(
        self, _client: object, _data: object, _mid: int, codes: Any, _more: object
    ) -> None:
        is_refused = any(code.is_failure for code in codes)
        reason = f"subscribing to {self._topic} is not allowed" if is_refused else ""
        self._update(ready=not is_refused, refusal=reason)

    def _on_disconnect(self, *_: object) -> None:
        self._update(is_lost=True)

    def _update(self, *, ready: bool = False, refusal: str = "", is_lost: bool = False) -> None:
        """Set the state of the connection, and notify the threads that wait for it."""
        if refusal:
            _log.warning("the broker refuses the connection: %s", refusal)
        with self._condition:
            self._ready = ready
            if is_lost:
                self._on_loss()
            else:
                self._refusal = refusal
            self._condition.notify_all()


class MQTTTransport(BrokerConnection):
    """A transport (`tvbandits.experts.Transport`) that queries stations over an MQTT broker.

    It connects when it is first used, and reconnects after the broker was down. Several threads may use
    it. It can be pickled; a copy makes its own connection.

    Parameters
    ----------
    host : str
    port : int
    prefix : str
        First part of all topics.
    time_out : float
        Seconds that a request waits for the connection and for answers.
    client : callable, optional
        A function without arguments that returns a paho client with your own options, such as
        `username_pw_set` and `tls_set`. The client must have `CallbackAPIVersion.VERSION2` and must not
        be connected; its callbacks are replaced.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 1883,
        *,
        prefix: str = "tvbandits",
        time_out: float = 5.0,
        client: ClientFactory = None,
    ) -> None:
        super().__init__(host, port, prefix, client)
        self._time_out = positive_number("time_out", time_out)
        self._name = secrets.token_hex(8)
        self._count = 0
        self._requests: dict[int, _Request] = {}

    def __repr__(self) -> str:
        return f"<MQTTTransport: {self._broker}, {self._time_out:g} s>"

    def __reduce__(self) -> tuple[object, ...]:
        options: Any = {"time_out": self._time_out, "client": self._make_client}
        return partial(MQTTTransport, self._host, self._port, prefix=self._prefix, **options), ()

    def __enter__(self) -> Self:
        return self

    def request(self, stations: Sequence[str], t: float) -> list[Reading]:
        """Query stations, and return their readings when all have answered or the time is over.

        Raises
        ------
        ConnectionError
            If there is no connection to the broker, or it is lost before all have answered.
        """
        request = _Request(tuple(dict.fromkeys(stations)), as_time(t))
        topics = [self.topic(name, "ask") for name in stations]
        self._connect(f"{self._prefix}/+/say/{self._name}")
        deadline = time.monotonic() + self._time_out
        with self._condition:
            self._condition.wait_for(lambda: self._ready or self._refusal, self._time_out)
            if not self._ready:
                reason = f": {self._refusal}" if self._refusal else ""
                raise ConnectionError(f"no connection to {self._broker}{reason}")
            self._count += 1
            number = self._count
            self._requests[number] = request
        try:
            question = {"request": number, "client": self._name, "time": request.time}
            for topic in topics:
                self._publish(topic, json.dumps(question))
            with self._condition:
                self._condition.wait_for(
                    lambda: request.is_lost or request.is_complete, deadline - time.monotonic()
                )
                if request.is_lost and not request.is_complete:
                    raise ConnectionError(f"lost the connection to {self._broker}")
                return request.readings()
        finally:
            with self._condition:
                del self._requests[number]

    def _on_loss(self) -> None:
        for request in self._requests.values():
            request.is_lost = True

    def _receive(self, topic: str, payload: bytes | bytearray) -> None:
        """Add an answer to its request; ignore a late answer, and one without a request."""
        station = self.station_of(topic)
        with self._condition:
            try:
                content = parse_object(payload)
                request = self._requests.get(parse_request_number(content))
            except ValueError as error:
                # Without a valid number, the answer may belong to any of the requests.
                for request in self._requests.values():
                    request.refuse(station, str(error))
            else:
                if request is not None:
                    request.add(station, content)
            self._condition.notify_all()


@dataclass
class _Request:
    """A request and its answers so far, guarded by the `_condition` of the connection."""

    stations: tuple[str, ...]
    time: float
    is_lost: bool = False
    answers: dict[str, Reading | None] = field(default_factory=dict)
    valid: set[str] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Return whether every station has answered."""
        return len(self.answers) == len(self.stations)

    def add(self, station: str, content: dict[str, Any]) -> None:
        """Add the first valid answer of a station, which may be that it has no reading."""
        if station in self.stations and station not in self.valid:
            try:
                self.answers[station] = parse_reading(content, station)
                self.valid.add(station)
            except ValueError as error:
                self.refuse(station, str(error))

    def refuse(self, station: str, reason: str) -> None:
        """Record an invalid answer of a station, which a later valid answer may replace."""
        if station in self.stations and station not in self.valid:
            self.answers[station] = Reading(station, self.time, math.nan, note=reason)

    def readings(self) -> list[Reading]:
        """Return the readings in the order of the stations; for an invalid answer, one with a note."""
        answers = (self.answers.get(name) for name in self.stations)
        return [reading for reading in answers if reading is not None]


class MQTTStation(BrokerConnection):
    """A station that answers over MQTT, for the program of a measuring device.

    As a context manager, it connects on entry; it reconnects after the broker was down. This is a
    complete program: `MQTTStation("B12", read, host="broker").run()`.

    Parameters
    ----------
    station_id : str
    read : callable
        `read(t)` returns the `Reading` for time `t`, or None for no reading. It is called in the thread
        of the connection, and twice if the broker delivers a query twice. If it raises an exception, the
        station answers that it has no reading, with the exception as the reason.
    host, port, prefix, client
        The parameters of `MQTTTransport`.
    """

    def __init__(
        self,
        station_id: str,
        read: Callable[[float], Reading | None],
        *,
        host: str = "localhost",
        port: int = 1883,
        prefix: str = "tvbandits",
        client: ClientFactory = None,
    ) -> None:
        check_function("read", read, "a function of t")
        super().__init__(host, port, prefix, client)
        self._id, self._read = station_id, read
        self._questions = self.topic(station_id, "ask")
        self._end = threading.Event()

    def __repr__(self) -> str:
        return f"<MQTTStation {self._id!r}: {self._broker}>"

    def __enter__(self) -> Self:
        if self._topic:
            raise ValueError(f"{self!r} has been started before")
        self._connect(self._questions)
        return self

    def run(self) -> None:
        """Answer until `close` is called, in a thread or a signal handler, or Ctrl-C is pressed."""
        with self:
            self._end.wait()

    def close(self) -> None:
        """Close the connection, and let `run` return."""
        self._end.set()
        super().close()

    def _receive(self, _topic: str, payload: bytes | bytearray) -> None:
        try:
            request, client, t = parse_question(payload)
        except ValueError as error:
            _log.warning("station %r received an invalid query: %s", self._id, error)
            return
        try:
            message = format_answer(request, self._id, self._read(t))
        except Exception as error:  # an exception of the user's `read` becomes the reason
            _log.warning("station %r has no reading for t = %g", self._id, t, exc_info=True)
            message = format_answer(
                request, self._id, Reading(self._id, t, math.nan, note=describe_error(error))
            )
        self._publish(self.topic(self._id, "say", client), message)

"""Stations over MQTT: `MQTTTransport` asks them, `MQTTStation` is one of them.

Needs the extra `mqtt`. Topics, under a prefix of your choice; station ids are percent-encoded in them:

========================  ===========  ==============================================================
topic                     sent by      payload
========================  ===========  ==============================================================
prefix/STATION/ask        transport    {"request": 7, "client": "9f0c...", "time": 12.0}
prefix/STATION/say/CLIENT  station     {"request": 7, "station": "B12", "time": 12.0, "value": 41.5,
                                       "variance": 4.0, "note": ""}
========================  ===========  ==============================================================

Payloads are JSON; a "value" of null means that there is no reading. Messages are sent with quality of
service 1, at least once: the transport takes the first valid answer of a station to a request.
`docs/mqtt.md` has every field.
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
    request_number,
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

# A function that makes a client of paho that is not connected; None: a plain one.
ClientFactory = Callable[[], paho.Client] | None

_PREFIX = r"[^+#$/\0]([^+#\0]*[^+#/\0])?"

_log = logging.getLogger(__name__)


def _send_at_once(_client: object, _data: object, connection: Any) -> None:
    """Switch off the delay of small messages: questions and answers would wait for one another."""
    with contextlib.suppress(OSError, AttributeError):  # not a TCP connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class BrokerConnection(ABC):
    """A connection to a broker with one subscription, which paho makes again when it is lost.

    Its callbacks run in the thread of the client, which an exception would end: they do not raise.
    Exceptions of `_receive` are logged; `_on_loss` may not raise any. `_condition` guards the state, and
    is notified of changes.
    """

    def __init__(self, host: str, port: int, prefix: str, client: ClientFactory) -> None:
        require(isinstance(host, str) and host, "host", "a name or an address", host)
        whole_number("port", port, at_most=65535)
        valid = isinstance(prefix, str) and re.fullmatch(_PREFIX, prefix)
        needs = "a topic without + and #, and must not begin or end with /"
        require(valid, "prefix", needs, prefix)
        check_optional(check_function, "client", client, "a function that makes a client of paho")
        self._host, self._port, self._prefix, self._make_client = host, port, prefix, client
        self._broker = f"the broker {host}:{port}/{prefix}"
        self._condition = threading.Condition()
        self._client: paho.Client | None = None
        self._topic = ""  # of the subscription
        self._ready = self._closed = False  # ready: connected and subscribed
        self._refusal = ""  # the broker's reason to refuse the connection; empty if there is none

    def __exit__(self, *error: object) -> None:
        self.close()

    def topic(self, station: str, *levels: str) -> str:
        """Return a topic of a station, whose id may hold any character."""
        check_id(station)
        return "/".join((self._prefix, quote(station, safe=""), *levels))

    def station_of(self, topic: str) -> str:
        """Return the station of a topic."""
        return unquote(topic.removeprefix(f"{self._prefix}/").partition("/")[0])

    def close(self) -> None:
        """End the connection for good."""
        with self._condition:
            self._closed = True
            client, self._client = self._client, None
        if client is None:
            return
        client.disconnect()
        client.loop_stop()
        # Without a reference to the client from here, it closes its last sockets.
        client.on_connect = client.on_subscribe = client.on_disconnect = client.on_message = None

    @abstractmethod
    def _receive(self, topic: str, payload: bytes | bytearray) -> None:
        """Process a message."""

    def _on_loss(self) -> None:  # noqa: B027 - a subclass may do without
        """Note that the connection is lost; called under the lock."""

    def _new_client(self) -> paho.Client:
        """Return a client that is not connected; a `ValueError` if the user's function makes none."""
        if self._make_client is None:
            plain = paho.Client(CallbackAPIVersion.VERSION2)
            plain.reconnect_delay_set(1, 10)
            return plain
        client: object = self._make_client()
        if not isinstance(client, paho.Client):
            raise ValueError(f"client must make a client of paho, it made {client!r}")
        if client.callback_api_version is not CallbackAPIVersion.VERSION2:
            raise ValueError("the client must be made with paho's CallbackAPIVersion.VERSION2")
        return client

    def _connect(self, topic: str) -> None:
        """Connect, now or later, and stay connected, with a subscription to `topic`."""
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
                client.on_socket_open = _send_at_once
            client.connect_async(self._host, self._port)
            client.loop_start()

    def _publish(self, topic: str, payload: str) -> None:
        """Send a message at least once, or log that it cannot be sent: then no answer will come."""
        client = self._client
        if client is None:  # closed by another thread
            return
        result = client.publish(topic, payload, qos=1)
        if result.rc not in (paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN):
            _log.warning("cannot send to %s: %s", topic, paho.error_string(result.rc))

    def _on_message(self, _client: object, _data: object, message: Any) -> None:
        """Process a message, or log why it cannot be: the thread of the client goes on."""
        try:
            self._receive(message.topic, message.payload)
        except Exception as error:  # a topic that is no text, for one
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
        failed = any(code.is_failure for code in codes)
        reason = f"subscribing to {self._topic} is not allowed" if failed else ""
        self._update(ready=not failed, refusal=reason)

    def _on_disconnect(self, *_: object) -> None:
        self._update(lost=True)

    def _update(self, *, ready: bool = False, refusal: str = "", lost: bool = False) -> None:
        """Set the state of the connection, and tell the threads that wait for it."""
        if refusal:
            _log.warning("the broker refuses the connection: %s", refusal)
        with self._condition:
            self._ready = ready
            if lost:
                self._on_loss()
            else:
                self._refusal = refusal
            self._condition.notify_all()


class MQTTTransport(BrokerConnection):
    """Asks stations over an MQTT broker; a `tvbandits.experts.Transport`.

    It connects when it is first used, and again by itself after the broker was away. It may be used by
    several threads, and be pickled: the connection is then made anew.

    Parameters
    ----------
    host : str
    port : int
    prefix : str
        First part of all topics.
    time_out : float
        Seconds that a request waits for the connection and for answers.
    client : callable, optional
        A function without arguments that makes a client of paho with options of your own, such as
        `username_pw_set` and `tls_set`: by `CallbackAPIVersion.VERSION2`, and not connected. Its
        callbacks are replaced.

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
        more: Any = {"time_out": self._time_out, "client": self._make_client}
        return partial(MQTTTransport, self._host, self._port, prefix=self._prefix, **more), ()

    def __enter__(self) -> Self:
        return self

    def request(self, stations: Sequence[str], t: float) -> list[Reading]:
        """Ask stations, and return their readings once all have answered or the time is over.

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
                    lambda: request.lost or request.complete, deadline - time.monotonic()
                )
                if request.lost and not request.complete:
                    raise ConnectionError(f"lost the connection to {self._broker}")
                return request.readings()
        finally:
            with self._condition:
                del self._requests[number]

    def _on_loss(self) -> None:
        for request in self._requests.values():
            request.lost = True

    def _receive(self, topic: str, payload: bytes | bytearray) -> None:
        """Add an answer to its request; one that is late, or was not asked for, is dropped."""
        station = self.station_of(topic)
        with self._condition:
            try:
                content = parse_object(payload)
                request = self._requests.get(request_number(content))
            except ValueError as error:
                for each in self._requests.values():  # it may belong to any of them
                    each.refuse(station, str(error))
            else:
                if request is not None:
                    request.add(station, content)
            self._condition.notify_all()


@dataclass
class _Request:
    """The answers to one request; guarded by the connection."""

    stations: tuple[str, ...]
    time: float
    lost: bool = False
    answers: dict[str, Reading | None] = field(default_factory=dict)
    valid: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        """Whether every station has answered."""
        return len(self.answers) == len(self.stations)

    def add(self, station: str, content: dict[str, Any]) -> None:
        """Add the first valid answer of a station: a reading, or that there is none."""
        if station in self.stations and station not in self.valid:
            try:
                self.answers[station] = parse_reading(content, station)
                self.valid.add(station)
            except ValueError as error:
                self.refuse(station, str(error))

    def refuse(self, station: str, reason: str) -> None:
        """Wait no longer for a station with an invalid answer; a valid one still counts if it comes."""
        if station in self.stations and station not in self.valid:
            self.answers[station] = Reading(station, self.time, math.nan, note=reason)

    def readings(self) -> list[Reading]:
        """Return readings in the order of the stations; an invalid answer is a note."""
        answers = (self.answers.get(name) for name in self.stations)
        return [reading for reading in answers if reading is not None]


class MQTTStation(BrokerConnection):
    """A station that answers over MQTT, for the program of a measuring device.

    It connects on entering it as a context, and again by itself after the broker was away. A whole
    program: `MQTTStation("B12", read, host="broker").run()`.

    Parameters
    ----------
    station_id : str
    read : callable
        `read(t)` returns the `Reading` for time `t`, or None if there is none. It is called in the
        thread of the connection, again for a question that the broker brings twice. If it raises, the
        station answers that it has no reading, with the reason.
    host, port, prefix, client
        As of `MQTTTransport`.
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
        """End the connection for good."""
        self._end.set()
        super().close()

    def _receive(self, _topic: str, payload: bytes | bytearray) -> None:
        try:
            request, client, t = parse_question(payload)
        except ValueError as error:
            _log.warning("station %r received an invalid question: %s", self._id, error)
            return
        try:
            message = format_answer(request, self._id, self._read(t))
        except Exception as error:  # of the device's own program: the answer names it
            _log.warning("station %r has no reading for t = %g", self._id, t, exc_info=True)
            message = format_answer(
                request, self._id, Reading(self._id, t, math.nan, note=describe_error(error))
            )
        self._publish(self.topic(self._id, "say", client), message)

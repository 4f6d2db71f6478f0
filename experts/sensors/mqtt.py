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
service 1, at least once: the transport takes the first good answer of a station to a request.
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
    answer,
    object_in,
    question_in,
    reading_in,
    request_number,
)
from tvbandits.validation import as_time, function, optional, positive_number, require, whole_number

try:
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError as error:
    raise ImportError(
        'stations over MQTT need the package paho-mqtt: pip install "tvbandits[mqtt]"'
    ) from error

# A function that makes a client of paho that is not connected; None: a plain one.
ClientSource = Callable[[], paho.Client] | None


_PREFIX = r"[^+#$/\0]([^+#\0]*[^+#/\0])?"


_log = logging.getLogger(__name__)


def _without_delay(_client: object, _data: object, connection: Any) -> None:
    """Send small messages at once: questions and answers would otherwise wait for one another."""
    with contextlib.suppress(OSError, AttributeError):  # not a TCP connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Link(ABC):
    """What connects to a broker, with one subscription, which paho makes again when it is lost.

    Its callbacks run in the thread of the client, which an exception would end: they do not raise.
    What `_heard` raises is logged; `_lost` may not. `_changed` guards what changes, and is notified.
    """

    def __init__(self, host: str, port: int, prefix: str, client: ClientSource) -> None:
        require(isinstance(host, str) and host, "host", "a name or an address", host)
        whole_number("port", port, at_most=65535)
        good = isinstance(prefix, str) and re.fullmatch(_PREFIX, prefix)
        needs = "a topic without + and #, and must not begin or end with /"
        require(good, "prefix", needs, prefix)
        optional(function, "client", client, "a function that makes a client of paho")
        self._host, self._port, self._prefix, self._make_client = host, port, prefix, client
        self._broker = f"the broker {host}:{port}/{prefix}"
        self._changed = threading.Condition()
        self._client: paho.Client | None = None
        self._topic = ""  # that it is subscribed to, from the start on
        self._ready = self._closed = False  # ready: connected and subscribed
        self._refusal = ""  # why the broker does not let us in; empty if it does, or is not there

    def __exit__(self, *error: object) -> None:
        self.close()

    def topic(self, station: str, *levels: str) -> str:
        """A topic of a station, whose id may hold any character."""
        check_id(station)
        return "/".join((self._prefix, quote(station, safe=""), *levels))

    def station_of(self, topic: str) -> str:
        """The station of a topic."""
        return unquote(topic.removeprefix(f"{self._prefix}/").partition("/")[0])

    def _made_client(self) -> paho.Client:
        if self._make_client is None:
            plain = paho.Client(CallbackAPIVersion.VERSION2)
            plain.reconnect_delay_set(1, 10)
            return plain
        made: object = self._make_client()
        if not isinstance(made, paho.Client):
            raise ValueError(f"client must make a client of paho, it made {made!r}")
        if made.callback_api_version is not CallbackAPIVersion.VERSION2:
            raise ValueError("the client must be made with paho's CallbackAPIVersion.VERSION2")
        return made

    @abstractmethod
    def _heard(self, topic: str, payload: bytes | bytearray) -> None:
        """Take a message."""

    def _lost(self) -> None:  # noqa: B027 - nobody needs to know
        """The connection is lost; called under the lock."""

    def _connect(self, topic: str) -> None:
        """Connect, now or later, and stay connected, with a subscription to `topic`."""
        with self._changed:
            if self._closed:
                raise ValueError(f"{self!r} is closed")
            if self._client is not None:
                return
            client = self._client = self._made_client()
            self._topic = topic
            client.on_connect = self._on_connect
            client.on_subscribe = self._on_subscribe
            client.on_disconnect = self._on_disconnect
            client.on_message = self._on_message
            if client.on_socket_open is None:
                client.on_socket_open = _without_delay
            client.connect_async(self._host, self._port)
            client.loop_start()

    def _publish(self, topic: str, payload: str) -> None:
        """Send at least once; what cannot be sent is logged, and its answer does not come."""
        client = self._client
        if client is None:  # closed by another thread
            return
        sent = client.publish(topic, payload, qos=1)
        if sent.rc not in (paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN):
            _log.warning("cannot send to %s: %s", topic, paho.error_string(sent.rc))

    def close(self) -> None:
        """End the connection, for good."""
        with self._changed:
            self._closed = True
            client, self._client = self._client, None
        if client is None:
            return
        client.disconnect()
        client.loop_stop()
        # Nothing of ours refers to the client any more: being let go, it closes its last sockets.
        client.on_connect = client.on_subscribe = client.on_disconnect = client.on_message = None

    def _on_message(self, _client: object, _data: object, message: Any) -> None:
        """Hand a message on; whatever is wrong with it, the thread of the client goes on."""
        try:
            self._heard(message.topic, message.payload)
        except Exception as error:  # a topic that is no text, for one
            _log.warning("a message is dropped: %s: %s", type(error).__name__, error)

    def _on_connect(
        self, client: paho.Client, _data: object, _flags: object, code: Any, _more: object
    ) -> None:
        if code.is_failure:
            self._refused(str(code))
        else:
            client.subscribe(self._topic, qos=1)

    def _on_subscribe(
        self, _client: object, _data: object, _mid: int, codes: Any, _more: object
    ) -> None:
        if any(code.is_failure for code in codes):
            self._refused(f"subscribing to {self._topic} is not allowed")
            return
        with self._changed:
            self._ready, self._refusal = True, ""
            self._changed.notify_all()

    def _on_disconnect(self, *_: object) -> None:
        with self._changed:
            self._ready = False
            self._lost()
            self._changed.notify_all()

    def _refused(self, why: str) -> None:
        _log.warning("the broker does not let us in: %s", why)
        with self._changed:
            self._refusal = why
            self._changed.notify_all()


class MQTTTransport(Link):
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
        callbacks are taken over.

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
        client: ClientSource = None,
    ) -> None:
        super().__init__(host, port, prefix, client)
        self._time_out = positive_number("time_out", time_out)
        self._name = secrets.token_hex(8)
        self._requests = 0
        self._open: dict[int, _OpenRequest] = {}

    def __repr__(self) -> str:
        return f"<MQTTTransport: {self._broker}, {self._time_out:g} s>"

    def __reduce__(self) -> tuple[object, ...]:
        more: Any = {"time_out": self._time_out, "client": self._make_client}
        return partial(MQTTTransport, self._host, self._port, prefix=self._prefix, **more), ()

    def __enter__(self) -> Self:
        return self

    def request(self, stations: Sequence[str], t: float) -> list[Reading]:
        """Ask stations, and wait until all have answered or the time is out.

        Raises
        ------
        ConnectionError
            If there is no connection to the broker, or it is lost before all have answered.
        """
        now = as_time(t)
        topics = [self.topic(name, "ask") for name in stations]
        asked = _OpenRequest(tuple(dict.fromkeys(stations)), now)
        self._connect(f"{self._prefix}/+/say/{self._name}")
        deadline = time.monotonic() + self._time_out
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._refusal, self._time_out)
            if not self._ready:
                why = f": {self._refusal}" if self._refusal else ""
                raise ConnectionError(f"no connection to {self._broker}{why}")
            self._requests += 1
            number = self._requests
            self._open[number] = asked
        try:
            question = json.dumps({"request": number, "client": self._name, "time": now})
            for topic in topics:
                self._publish(topic, question)
            with self._changed:
                self._changed.wait_for(
                    lambda: asked.lost or asked.complete, deadline - time.monotonic()
                )
                if asked.lost and not asked.complete:
                    raise ConnectionError(f"lost the connection to {self._broker}")
                return asked.result()
        finally:
            with self._changed:
                del self._open[number]

    def _lost(self) -> None:
        for asked in self._open.values():
            asked.lost = True

    def _heard(self, topic: str, payload: bytes | bytearray) -> None:
        """Put an answer where it belongs; what is late, or was not asked, is left out."""
        station = self.station_of(topic)
        with self._changed:
            try:
                content = object_in(payload)
                about = self._open.get(request_number(content))
            except ValueError as error:
                for asked in self._open.values():  # it may have been meant for any of them
                    asked.give_up(station, str(error))
            else:
                if about is not None:
                    about.hear(station, content)
            self._changed.notify_all()


@dataclass
class _OpenRequest:
    """What has come in for one request; guarded by the link."""

    stations: tuple[str, ...]
    time: float
    lost: bool = False
    readings: dict[str, Reading | None] = field(default_factory=dict)
    wrong: dict[str, Reading] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nobody is waited for."""
        return len(self.readings | self.wrong) == len(self.stations)

    def hear(self, station: str, content: dict[str, Any]) -> None:
        """Take the first good answer of a station: a reading, or that there is none."""
        if station in self.stations and station not in self.readings:
            try:
                self.readings[station] = reading_in(content, station)
            except ValueError as error:
                self.give_up(station, str(error))

    def give_up(self, station: str, why: str) -> None:
        """Wait no longer for a station that sends rubbish; a good answer still counts if it comes."""
        if station in self.stations:
            self.wrong[station] = Reading(station, self.time, math.nan, note=why)

    def result(self) -> list[Reading]:
        """Readings in the order of the stations, and what was wrong where there is none."""
        said = self.wrong | self.readings
        found = (said.get(name) for name in self.stations)
        return [reading for reading in found if reading is not None]


class MQTTStation(Link):
    """A station that answers over MQTT, for the program of a measuring device.

    It connects on entering it as a context, and again by itself after the broker was away. A whole
    program: `MQTTStation("B12", read, host="broker").run()`.

    Parameters
    ----------
    station_id : str
    read : callable
        `read(t)` returns the `Reading` for time `t`, or None if there is none. It is called in the
        thread of the connection, again for a question that the broker brings twice. If it raises, the
        station answers that it has no reading and why.
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
        client: ClientSource = None,
    ) -> None:
        function("read", read, "a function of t")
        super().__init__(host, port, prefix, client)
        self._id, self._read = station_id, read
        self._asked = self.topic(station_id, "ask")
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<MQTTStation {self._id!r}: {self._broker}>"

    def __enter__(self) -> Self:
        if self._topic:
            raise ValueError(f"{self!r} has been started before")
        self._connect(self._asked)
        return self

    def run(self) -> None:
        """Answer until `close` is called, in a thread or a signal handler, or Ctrl-C is pressed."""
        with self:
            self._stopped.wait()

    def close(self) -> None:
        """End the connection, for good."""
        self._stopped.set()
        super().close()

    def _heard(self, _topic: str, payload: bytes | bytearray) -> None:
        try:
            request, client, t = question_in(payload)
        except ValueError as error:
            _log.warning("station %r was asked what it does not understand: %s", self._id, error)
            return
        try:
            said = answer(request, self._id, self._read(t))
        except Exception as error:  # the device's own program: whatever is wrong with it is told
            _log.warning("station %r has no reading for t = %g", self._id, t, exc_info=True)
            why = f"{type(error).__name__}: {error}"
            said = answer(request, self._id, Reading(self._id, t, math.nan, note=why))
        self._publish(self.topic(self._id, "say", client), said)

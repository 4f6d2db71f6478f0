"""Stations over MQTT: `MQTTTransport` asks them, `MQTTStation` is one of them.

Needs the extra `mqtt`. Topics, under a prefix of your choice; station ids are percent-encoded in them:

========================  ===========  ==============================================================
topic                     sent by      payload
========================  ===========  ==============================================================
prefix/STATION/ask        transport    {"request": 7, "client": "9f0c...", "time": 12.0}
prefix/STATION/say/CLIENT  station     {"request": 7, "station": "B12", "time": 12.0, "value": 41.5,
                                       "variance": 4.0, "note": ""}
prefix/STATION/state      station      online or offline (plain text, retained; offline by last will)
========================  ===========  ==============================================================

Payloads are JSON; a "value" of null means that there is no reading. Messages are sent with quality of
service 1, at least once: a station answers a repeated request with the very same message, and the
transport takes the first good answer of a station to a request. `docs/mqtt.md` has every field.

A measuring station that answers over MQTT.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from tvbandits.core.arrays import as_time, positive_number
from tvbandits.core.coercion import shown, text
from tvbandits.experts.sensors.expert import Reading
from tvbandits.experts.sensors.mqtt_link import (
    Address,
    ClientSource,
    Link,
    Question,
    answer,
    is_client,
    object_in,
    reading_in,
    refusal,
    request_number,
)

_log = logging.getLogger(__name__)


# Stations of which it is kept whether they are online.
MOST_KNOWN = 10_000


class MQTTTransport:
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
        Seconds that a request waits for answers. Stations that the broker knows to be offline are asked
        too, but not waited for. The first request waits so long for the connection, too.
    client : paho.mqtt.client.Client or callable, optional
        A client with options of your own, such as `username_pw_set` and `tls_set`, made with
        `CallbackAPIVersion.VERSION2` and not connected; its callbacks are taken over. Or a function
        without arguments that makes one, which is what can be pickled.

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
        self._address = Address(host, port, prefix, client)
        self._time_out = positive_number("time_out", time_out)
        self._name = secrets.token_hex(8)
        self._changed = threading.Condition()  # guards all that follows
        self._link: Link | None = None
        self._patience = 0.0  # until when a request waits for the first connection
        self._closed = False
        self._requests = 0
        self._open: dict[int, _Request] = {}
        self._online: dict[str, bool] = {}
        self._dropped: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<MQTTTransport: {self._address}, {self._time_out:g} s>"

    def __reduce__(self) -> tuple[object, ...]:
        address = self._address
        if is_client(address.client):
            raise TypeError(
                "a transport with a client of its own cannot be pickled: "
                "give client= a function that makes the client"
            )
        where = {"prefix": address.prefix, "client": address.client}
        more: Any = {**where, "time_out": self._time_out}
        return partial(MQTTTransport, address.host, address.port, **more), ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many messages were dropped so far, by reason, such as malformed, late or not asked."""
        with self._changed:
            return dict(self._dropped)

    def close(self) -> None:
        """End the connection, for good."""
        with self._changed:
            self._closed = True
            link = self._link
            self._changed.notify_all()
        if link is not None:
            link.close()

    def await_stations(
        self, stations: Sequence[str], time_out: float | None = None
    ) -> tuple[str, ...]:
        """Wait until `stations` are online, by default for the time-out; return those that are not.

        Raises
        ------
        ConnectionError
            If there is no connection to the broker.
        """
        self._connected()
        with self._changed:
            self._changed.wait_for(
                lambda: all(self._online.get(name, False) for name in stations),
                self._time_out if time_out is None else time_out,
            )
            return tuple(name for name in stations if not self._online.get(name, False))

    def request(self, stations: Sequence[str], t: float) -> list[Reading]:
        """Ask stations, and wait until all have answered or the time is out.

        Raises
        ------
        ConnectionError
            If there is no connection to the broker, or it is lost before all have answered.
        """
        now = as_time(t)
        topics = [self._address.topic(name, "ask") for name in stations]
        link = self._connected()
        asked = _Request(tuple(dict.fromkeys(stations)))
        with self._changed:
            self._requests += 1
            number, connection = self._requests, link.connections
            self._open[number] = asked
        try:
            question = Question(number, self._name, now).written()
            deadline = time.monotonic() + self._time_out
            for topic in topics:
                link.publish(topic, question)
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._missing(asked) or not link.is_still(connection),
                    deadline - time.monotonic(),
                )
                if self._missing(asked) and not link.is_still(connection):
                    raise ConnectionError(f"lost the connection to {self._address}")
                return asked.result(now)
        finally:
            with self._changed:
                del self._open[number]

    def _missing(self, asked: _Request) -> bool:
        """Whether a station that is worth waiting for has not answered."""
        return any(self._online.get(name, True) for name in asked.awaited)

    def _connected(self) -> Link:
        with self._changed:
            if self._closed:
                raise ValueError(f"{self!r} is closed")
            if self._link is None:
                address = self._address
                topics = (f"{address.prefix}/+/say/{self._name}", f"{address.prefix}/+/state")
                client = address.make_client()
                self._link = Link(
                    client, topics, self._heard, changed=self._changed, went=self._went
                )
                self._link.start(address)
                self._patience = time.monotonic() + self._time_out
            link = self._link
            # The first connection is waited for; one that was lost is not.
            self._changed.wait_for(
                lambda: link.connections or link.refusal,
                max(self._patience - time.monotonic(), 0.0),
            )
            if not link.ready:
                why = f": {link.refusal}" if link.refusal else ""
                raise ConnectionError(f"no connection to {self._address}{why}")
            return link

    def _went(self) -> None:
        # Who is online is told anew by the next connection.
        self._online.clear()

    def _heard(self, topic: str, payload: bytes | bytearray) -> None:
        found = self._address.split(topic)
        if found is None:
            with self._changed:
                self._dropped["unexpected topic"] += 1
            return
        station, kind = found
        with self._changed:
            if kind == "state":
                if station not in self._online and len(self._online) >= MOST_KNOWN:
                    self._dropped["too many stations"] += 1
                    return
                known = {b"online": True, b"offline": False}.get(bytes(payload))
                if known is None:  # taken back, or not of ours: not known
                    self._online.pop(station, None)
                else:
                    self._online[station] = known
            else:
                if station in self._online:
                    # Who speaks is there, whatever a message that the broker kept says of it.
                    self._online[station] = True
                self._judge(station, payload)
            self._changed.notify_all()

    def _judge(self, station: str, payload: bytes | bytearray) -> None:
        """Put an answer where it belongs, or drop it, count it and leave a note."""
        try:
            content = object_in(payload)
            number = request_number(content)
        except ValueError as error:
            self._dropped["malformed"] += 1
            for asked in self._open.values():  # it may have been meant for any of them
                asked.give_up(station, str(error))
            return
        about = self._open.get(number)
        if about is None:
            self._dropped["late"] += 1
            for asked in self._open.values():
                asked.remark(station, f"it answered request {number}, which is not open")
        elif station not in about.stations:
            self._dropped["not asked"] += 1
        elif station in about.readings:
            self._dropped["duplicate"] += 1
        else:
            try:
                about.answer(station, reading_in(content, station))
            except ValueError as error:
                self._dropped["malformed"] += 1
                about.give_up(station, str(error))


@dataclass
class _Request:
    """What has come in for one request; guarded by the transport."""

    stations: tuple[str, ...]
    awaited: set[str] = field(init=False)
    readings: dict[str, Reading | None] = field(init=False, default_factory=dict)
    remarks: dict[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.awaited = set(self.stations)

    def answer(self, station: str, reading: Reading | None) -> None:
        """Take a good answer: a reading, or that there is none."""
        self.readings[station] = reading
        self.awaited.discard(station)

    def remark(self, station: str, text: str) -> None:
        """Keep what was wrong with a message, in case that no good one comes."""
        if station in self.stations:
            self.remarks[station] = text

    def give_up(self, station: str, text: str) -> None:
        """Wait no longer for a station that sends rubbish; a good answer still counts if it comes."""
        self.remark(station, text)
        self.awaited.discard(station)

    def result(self, t: float) -> list[Reading]:
        """Readings in the order of the stations, and what was wrong where there is none."""
        found = []
        for name in self.stations:
            reading = self.readings.get(name)
            if name not in self.readings and name in self.remarks:
                reading = Reading(name, t, math.nan, note=self.remarks[name])
            if reading is not None:
                found.append(reading)
        return found


_REPLIES_KEPT = 64


class MQTTStation:
    """A station that answers over MQTT, for the program of a measuring device.

    It connects on `start` (or on entering it as a context), and again by itself after the broker was
    away. A whole program: `MQTTStation("B12", read, host="broker").run()`.

    Parameters
    ----------
    station_id : str
    read : callable
        `read(t)` returns the `Reading` for time `t`, or None if there is none. It is called once for a
        request, in the thread of the connection. If it raises, the station answers that it has no
        reading and why.
    host, port, prefix, client
        As of `MQTTTransport`. The last will of a client is set to tell that the station is offline.
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
        if not callable(read):
            raise ValueError(f"read must be a function of t, got {shown(read)}")
        if not (text("station_id", station_id) and station_id):
            raise ValueError("station_id must be a text that is not empty, got ''")
        self._address = Address(host, port, prefix, client)
        self._id = station_id
        self._state_topic = self._address.topic(station_id, "state")
        self._read = read
        self._replies: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._link: Link | None = None
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<MQTTStation {self._id!r}: {self._address}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Connect, and answer from now on in a thread of its own."""
        if self._link is not None:
            raise ValueError(f"{self!r} has been started before")
        client = self._address.make_client()
        client.will_set(self._state_topic, "offline", qos=1, retain=True)
        topics = (self._address.topic(self._id, "ask"),)
        self._link = Link(client, topics, self._heard, came=self._came)
        self._link.start(self._address)

    def run(self) -> None:
        """Answer until `close` is called, in a thread or a signal handler, or Ctrl-C is pressed."""
        with self:
            self._stopped.wait()

    def close(self) -> None:
        """Say that the station goes offline, and end the connection, for good."""
        self._stopped.set()
        if self._link is not None:
            if self._link.ready:
                self._link.publish(self._state_topic, "offline", retain=True)
            self._link.close()

    def _came(self) -> None:
        assert self._link is not None
        self._link.publish(self._state_topic, "online", retain=True)

    def _heard(self, topic: str, payload: bytes | bytearray) -> None:
        assert self._link is not None
        try:
            question = Question.read(payload)
        except ValueError as error:
            _log.warning("station %r was asked what it does not understand: %s", self._id, error)
            return
        asked = (question.client, question.request)
        if asked not in self._replies:
            self._replies[asked] = self._answer(question)
            while len(self._replies) > _REPLIES_KEPT:
                self._replies.popitem(last=False)
        topic = self._address.topic(self._id, "say", question.client)
        self._link.publish(topic, self._replies[asked])

    def _answer(self, question: Question) -> str:
        try:
            return answer(question.request, self._id, self._read(question.time))
        except Exception as error:  # the device's own program: whatever is wrong with it is told
            _log.warning(
                "station %r has no reading for t = %g", self._id, question.time, exc_info=True
            )
            return refusal(question.request, self._id, f"{type(error).__name__}: {error}")

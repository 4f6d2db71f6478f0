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

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from tvbandits.core.arrays import as_time, positive_number
from tvbandits.core.coercion import function
from tvbandits.experts.sensors.expert import Reading
from tvbandits.experts.sensors.mqtt_link import (
    ClientSource,
    Link,
    Question,
    answer,
    object_in,
    reading_in,
    request_number,
)

_log = logging.getLogger(__name__)


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
        return f"<MQTTTransport: {self._address}, {self._time_out:g} s>"

    def __reduce__(self) -> tuple[object, ...]:
        address = self._address
        more: Any = {"prefix": address.prefix, "client": address.client, "time_out": self._time_out}
        return partial(MQTTTransport, address.host, address.port, **more), ()

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
        topics = [self._address.topic(name, "ask") for name in stations]
        asked = _OpenRequest(tuple(dict.fromkeys(stations)), now)
        self._connect(f"{self._address.prefix}/+/say/{self._name}")
        deadline = time.monotonic() + self._time_out
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._refusal, self._time_out)
            if not self._ready:
                why = f": {self._refusal}" if self._refusal else ""
                raise ConnectionError(f"no connection to {self._address}{why}")
            self._requests += 1
            number = self._requests
            self._open[number] = asked
        try:
            question = Question(number, self._name, now).written()
            for topic in topics:
                self._publish(topic, question)
            with self._changed:
                self._changed.wait_for(
                    lambda: asked.lost or asked.complete, deadline - time.monotonic()
                )
                if asked.lost and not asked.complete:
                    raise ConnectionError(f"lost the connection to {self._address}")
                return asked.result()
        finally:
            with self._changed:
                del self._open[number]

    def _lost(self) -> None:
        for asked in self._open.values():
            asked.lost = True

    def _heard(self, topic: str, payload: bytes | bytearray) -> None:
        """Put an answer where it belongs; what is late, or was not asked, is left out."""
        station = self._address.station_of(topic)
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
        self._asked = self._address.topic(station_id, "ask")
        self._stopped = threading.Event()

    def __repr__(self) -> str:
        return f"<MQTTStation {self._id!r}: {self._address}>"

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
            question = Question.read(payload)
        except ValueError as error:
            _log.warning("station %r was asked what it does not understand: %s", self._id, error)
            return
        try:
            said = answer(question.request, self._id, self._read(question.time))
        except Exception as error:  # the device's own program: whatever is wrong with it is told
            _log.warning(
                "station %r has no reading for t = %g", self._id, question.time, exc_info=True
            )
            why = f"{type(error).__name__}: {error}"
            none = Reading(self._id, question.time, math.nan, note=why)
            said = answer(question.request, self._id, none)
        self._publish(self._address.topic(self._id, "say", question.client), said)

"""A measuring station that answers over MQTT."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Self

from tvbandits.core.coercion import shown, text
from tvbandits.experts.mqtt.link import TLS, Address, ClientSource, Link
from tvbandits.experts.mqtt.messages import Question, answer, refusal
from tvbandits.experts.sensors.readings import Reading

_log = logging.getLogger(__name__)


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
    host, port, prefix, client, tls
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
        tls: TLS | None = None,
    ) -> None:
        if not callable(read):
            raise ValueError(f"read must be a function of t, got {shown(read)}")
        if not (text("station_id", station_id) and station_id):
            raise ValueError("station_id must be a text that is not empty, got ''")
        self._address = Address(host, port, prefix, client, tls)
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

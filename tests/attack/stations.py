"""Hostile stations over MQTT: an honest one is heard all the same, and nothing of theirs gets through.

A broker of our own (mosquitto) carries the questions of an expert to two stations: an honest one, and
one that answers as badly as it can: malformed, huge, never, twice, late, for others, on topics that are
none, with bytes that are no text, escapes for a terminal, and numbers that cannot be computed with. The
honest answer must come, in time, and nothing that could do harm: no variance below the floor, no value
beyond the limit, no control character in a note.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.attack.bad_values import JSON, flipped
from tests.attack.report import WRONG, Count, Found, Trial, in_the_loop, one_of
from tests.helpers.broker import MOSQUITTO, run_broker
from tvbandits.experts import SensorExpert, Station
from tvbandits.experts.sensors.mqtt import MQTTTransport
from tvbandits.validation import LARGEST_VALUE

# Seconds that the expert waits for an answer; and where the honest one was not heard within these,
# as on a machine with much else to do: seconds that it waits for the same question on the same
# connection.
TIME_OUT, PATIENT = 1.0, 30.0

# Topic and payload; a topic of a single letter is filled in.
Message = tuple[str, bytes]


def broker_there() -> bool:
    """Whether a broker is installed."""
    return MOSQUITTO is not None


def good(question: dict[str, Any], name: str, **changes: Any) -> bytes:
    """The answer of a station, with changes."""
    asked = {"request": question["request"], "station": name, "time": question["time"]}
    return json.dumps({**asked, "value": 1.5, "variance": 0.01, "note": "", **changes}).encode()


FIELDS = ("request", "station", "time", "value", "variance", "note", "other")

# Payloads that are no answers.
RAW = (
    *(b"", b"\xff\xfe\x00", b"null", b"[]", b"{}", b"1e999", b"NaN", b'{"value": NaN}'),
    *(b'{"request": Infinity}', b"[" * 60_000, b'{"a":' * 20_000, b"9" * 60_000, b"x" * 300_000),
    *(b'{"request": ' + b"9" * 50_000 + b"}", b'{"request": 1, "request": 2}', b"\x1b[2J\x1b[31m"),
)

# Ends of topics that are none, or somebody else's.
TOPICS = (
    *("", "/", "//state", "/liar/say/", "/liar/say/%00", "/%1b%5b31m/state", "/%ff%fe/state"),
    *("/../../state", "/" + "x" * 5000 + "/state", "/honest/state", "/liar/state"),
    *("/liar/state/more", "/é\u202e/state"),
)


def answers(question: dict[str, Any], rng: np.random.Generator) -> list[Message]:
    """What a hostile station sends for a question."""
    say = f"tvbandits/liar/say/{question['client']}"
    as_honest = f"tvbandits/honest/say/{question['client']}"
    kind = int(rng.integers(10))
    if kind <= 3:  # a field or two that are odd
        names = rng.choice(FIELDS, size=int(rng.integers(1, 3)), replace=False)
        return [(say, good(question, "liar", **{str(each): one_of(JSON, rng) for each in names}))]
    if kind == 4:
        return [(say, one_of((*RAW, flipped(good(question, "liar"), rng)), rng))]
    if kind == 5:  # somebody else's topic, or none
        payload = one_of((b"online", b"offline", b"", b"\xff", b"x" * 70_000), rng)
        return [(f"tvbandits{one_of(TOPICS, rng)}", payload)]
    if kind == 6:  # twice, and stale
        stale = good(question, "liar", request=question["request"] - 1)
        twice = [good(question, "liar"), good(question, "liar", value=9.0)]
        return [(say, each) for each in (stale, *twice)]
    if kind == 7:  # a flood
        many = [(f"tvbandits/s{i}/state", b"online") for i in range(300)]
        return [*many, *[(say, RAW[1])] * 300]
    if kind == 8:  # rubbish in the name of the honest one, which answers all the same
        return [(as_honest, one_of(RAW, rng)), (as_honest, b"{}")]
    return []  # never


class Hostile:
    """A client that speaks for the liar, and answers for the honest one."""

    def __init__(self, port: int, seed: int) -> None:
        self._seed, self._ready = seed, threading.Event()
        self.sent: list[Message] = []
        client = self.client = paho.Client(CallbackAPIVersion.VERSION2)
        client.on_connect = lambda *_: client.subscribe([("tvbandits/+/ask", 0)])
        client.on_subscribe = lambda *_: self._ready.set()
        client.on_message = self._heard
        client.connect("127.0.0.1", port)
        client.loop_start()
        self._ready.wait(30)

    def _heard(self, _client: object, _data: object, message: Any) -> None:
        question = json.loads(message.payload)
        if "/liar/" in message.topic:
            # A question of the same time gets the same again.
            rng = np.random.default_rng([self._seed, int(question["time"])])
            self.sent = answers(question, rng)
            for topic, payload in self.sent:
                with contextlib.suppress(ValueError):  # a topic that the client itself refuses
                    retain = payload in (b"online", b"offline") and "honest" in topic
                    self.client.publish(topic, payload, retain=retain)
        else:
            topic = f"tvbandits/honest/say/{question['client']}"
            self.client.publish(topic, good(question, "honest", value=0.5))

    def close(self) -> None:
        """End it."""
        self.client.disconnect()
        self.client.loop_stop()


def wrong_with(said: Any) -> str:
    """What got through; empty if nothing did."""
    if said.values[0] != 0.5:
        return f"the honest answer is {said.values[0]}, notes {said.notes}"
    value, variance = said.values[1], said.variance[1]
    if not (np.isnan(value) or abs(value) <= LARGEST_VALUE):
        return f"a value of {value}"
    if not np.isnan(value) and variance < 1e-5:
        return f"a variance of {variance}"
    if any(not each.isprintable() for note in said.notes for each in note):
        return f"control characters in {said.notes!r}"
    if any(len(note) > 2000 for note in said.notes) or len(said.notes) > 20:
        return f"notes of {[len(note) for note in said.notes]} characters"
    return ""


def patiently(transport: MQTTTransport, ask: Callable[[], Any]) -> Any:
    """Ask with more time, on the same connection: what is lost, and not late, is missed again."""
    transport._time_out = PATIENT
    try:
        return ask()
    finally:
        transport._time_out = TIME_OUT


def asked(expert: SensorExpert, transport: MQTTTransport, hostile: Hostile, t: float) -> str:
    """One question to the two."""
    ask, began = partial(expert.query, np.array([[0.0], [1.0]]), t), time.monotonic()
    said, again = ask(), ""
    if said.values[0] != 0.5:
        said, again = patiently(transport, ask), ", the honest one waited for once more"
    sent = [(topic[:40], payload[:80]) for topic, payload in hostile.sent[:2]]
    if wrong := wrong_with(said):
        raise Found(WRONG, f"{sent}: {wrong}")
    if time.monotonic() - began > TIME_OUT + PATIENT + 20:
        raise Found("without end", f"{sent}")
    return ("left out, and noted" if np.isnan(said.values[1]) else "answered") + again


@in_the_loop(300, 40)
def attack(found: Count, count: int, seed: int) -> Iterator[Trial]:
    """So many questions, asked of the two."""
    if not broker_there():
        found.also["not tried: mosquitto is not installed"] += 1
        return
    stations = [Station("honest", (0.0,), 0.01), Station("liar", (1.0,), 0.01)]
    with TemporaryDirectory(prefix="attack") as folder, contextlib.ExitStack() as open_:
        port = open_.enter_context(run_broker(Path(folder))).port
        hostile = Hostile(port, seed)
        open_.callback(hostile.close)
        transport = open_.enter_context(MQTTTransport("127.0.0.1", port, time_out=TIME_OUT))
        expert = SensorExpert(stations, transport)
        for i in range(count):
            yield f"{i}", partial(asked, expert, transport, hostile, float(i))

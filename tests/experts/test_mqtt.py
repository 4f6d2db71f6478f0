"""Stations over MQTT: messages, and a real broker with stations in processes of their own."""

import gc
import json
import math
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.broker import MOSQUITTO, PATIENCE, Broker, run_broker, wait_until
from tests.helpers.refusals import assert_refused
from tests.places import TESTS
from tvbandits import Bandit, Candidates, policies
from tvbandits.experts import check_expert
from tvbandits.experts.protocol import ExpertDownWarning
from tvbandits.experts.sensors.expert import Reading, SensorExpert, Transport, stations_at
from tvbandits.experts.sensors.stub import StubTransport

paho = pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")

from tvbandits.experts.sensors.messages import (  # noqa: E402
    format_answer,
    parse_object,
    parse_question,
    parse_reading,
)
from tvbandits.experts.sensors.mqtt import BrokerConnection, MQTTStation, MQTTTransport  # noqa: E402


def needs_broker(test: Any) -> Any:
    """Mark a test as slow, and skip it without a broker."""
    reason = "the broker mosquitto is not installed"
    return pytest.mark.slow(pytest.mark.skipif(MOSQUITTO is None, reason=reason)(test))


T, A = 40, 8
LEVELS = np.random.default_rng(0).normal(size=(T, A)).cumsum(axis=0)
IDS = ["plain", "with space", "a/b", "50%", "+", "#", "$SYS/ü", "ozone.7"]
PLACES = np.random.default_rng(1).random((A, 2))
STUB = StubTransport(LEVELS, IDS, noise_variance=np.linspace(0.1, 0.3, A), seed=5)
STATIONS = stations_at(PLACES, IDS, noise_variance=1.0)
PROCESSES = [IDS[0:2], IDS[2:4], IDS[4:6], IDS[6:8]]
# --- messages ---------------------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(value=FLOATS, when=FLOATS, variance=st.none() | st.floats(5e-324, 1e308))
@settings(deadline=None)
def test_messages_transmit_numbers_exactly(
    value: float, when: float, variance: float | None
) -> None:
    sent = Reading("A", when, value, variance)
    assert repr(parse_reading(parse_object(format_answer(3, "A", sent).encode()), "A")) == repr(
        sent
    )
    asked = json.dumps({"request": 3, "client": "c0", "time": when})
    assert repr(parse_question(asked.encode())) == repr((3, "c0", when))


@given(station=st.text(min_size=1).filter(lambda text: text.isprintable()))
@settings(deadline=None)
def test_topic_of_any_station_is_valid_and_invertible(station: str) -> None:
    address = MQTTTransport(prefix="my/prefix")
    topic = address.topic(station, "say", "c0")
    assert not set(topic) & set("+#\0 ")
    assert topic.count("/") == 4
    assert address.station_of(topic) == station


GOOD = {"request": 1, "station": "liar", "time": 5.0, "value": 1.5, "variance": 0.5, "note": ""}
RUBBISH: list[tuple[Any, str]] = [
    ("{", "malformed JSON: "),
    (b"\xff\xfe\x00", "malformed JSON: "),
    ("[" * 50_000, "malformed JSON: "),
    ('{"request": ' + "9" * 5000 + "}", "malformed JSON: "),
    ({**GOOD, "value": math.nan}, "malformed JSON: NaN is not JSON"),
    ('"' + "x" * 70_000 + '"', "a message must have at most 65536 bytes, got 70002"),
    ("[1]", "a message must be a JSON object, got [1]"),
    ({"station": "liar"}, 'the field "request" is missing'),
    ({**GOOD, "request": "1"}, "\"request\" must be a whole number, got '1'"),
    ({**GOOD, "request": True}, '"request" must be a whole number, got T'),
    ({**GOOD, "station": "B"}, "\"station\" must be 'liar', as in the topic, got 'B'"),
    ({"request": 1, "station": "liar"}, 'the field "value" is missing'),
    ({**GOOD, "value": "1.5"}, "\"value\" must be a finite number, got '1.5'"),
    ({"request": 1, "station": "liar", "value": 1.0}, 'the field "time" is missing'),
    ({**GOOD, "variance": 0}, '"variance" must be positive and finite, got 0'),
    ({**GOOD, "note": 3}, '"note" must be a text, got 3'),
]


def test_parse_reading_ignores_extra_fields_and_accepts_absent_optional_ones() -> None:
    short = {"request": 1, "station": "A", "time": 5, "value": 2, "battery": "low"}
    assert parse_reading(short, "A") == Reading("A", 5.0, 2.0, None)
    assert parse_reading({"station": "A", "value": None}, "A") is None


@pytest.mark.parametrize("client", ["", "a/b", "+", "x" * 65, 3, None])
def test_parse_question_refuses_an_invalid_client(client: Any) -> None:
    message = json.dumps({"request": 1, "client": client, "time": 1.0}).encode()
    with pytest.raises(ValueError, match=r'"client" must .*64'):
        parse_question(message)


# --- without a broker -------------------------------------------------------------------------------


@pytest.mark.slow
def test_mqtt_module_without_paho_names_the_extra_to_install() -> None:
    hidden = "import sys; sys.modules['paho'] = None; import tvbandits.experts.sensors.mqtt"
    done = subprocess.run(
        [sys.executable, "-c", hidden], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert last.endswith('pip install "tvbandits[mqtt]"')


@pytest.mark.parametrize("prefix", ["a/+", "", "a/"])
def test_mqtt_transport_refuses_an_invalid_prefix(prefix: str) -> None:
    assert_refused(
        ValueError, rf"prefix must .*, got '{re.escape(prefix)}'", MQTTTransport, prefix=prefix
    )


def test_mqtt_transport_refuses_a_client_of_the_wrong_api_version_or_type() -> None:
    with pytest.warns(DeprecationWarning, match="API version 1"):
        old = paho.Client(paho.CallbackAPIVersion.VERSION1)
    with pytest.raises(ValueError, match=r"CallbackAPIVersion\.VERSION2"):
        MQTTTransport(client=lambda: old).request(["A"], 1.0)
    with pytest.raises(ValueError, match=r"client must .*3"):
        MQTTTransport(client=lambda: 3).request(["A"], 1.0)  # type: ignore[arg-type,return-value]


def test_mqtt_transport_raises_a_connection_error_without_a_broker() -> None:
    with socket.socket() as held:  # so that no other program uses the port
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with MQTTTransport("127.0.0.1", port, time_out=0.05, client=quick) as transport:
            for _ in range(2):
                with pytest.raises(ConnectionError, match=rf"to the broker 127\.0\.0\.1:{port}"):
                    transport.request(["A"], 1.0)
    assert_refused(ValueError, r"<MQTTTransport: .*> is closed", transport.request, ["A"], 1.0)
    transport.close()


# --- a broker ---------------------------------------------------------------------------------------


def awaited(port: int, ids: Sequence[str], **options: Any) -> None:
    """Wait until stations answer."""

    def answer() -> bool:
        try:
            return {reading.station for reading in asking.request(ids, 1.0)} == set(ids)
        except ConnectionError:
            return False

    with MQTTTransport("127.0.0.1", port, time_out=0.2, **options) as asking:
        wait_until(answer, f"{ids}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with run_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture(scope="module")
def start(broker: Broker) -> Iterator[Callable[[Sequence[str]], int]]:
    """A function that starts a process with given stations and returns its process id."""
    table = broker.folder / "table.npz"
    np.savez(table, values=LEVELS, ids=IDS, noise_variance=np.linspace(0.1, 0.3, A))
    script = str(TESTS / "helpers" / "mqtt_station.py")
    command = [sys.executable, script, str(broker.port), str(table), "5"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:

        def started(ids: Sequence[str]) -> int:
            starter.stdin.write(json.dumps(ids) + "\n")
            starter.stdin.flush()
            return int(starter.stdout.readline())

        yield started


@pytest.fixture(scope="module")
def network(broker: Broker, start: Callable[[Sequence[str]], int]) -> list[int]:
    """The process ids of four processes with two stations each."""
    running = [start(ids) for ids in PROCESSES]
    awaited(broker.port, IDS)
    return running


@pytest.fixture
def transport(broker: Broker, network: list[int]) -> Iterator[MQTTTransport]:  # noqa: ARG001 - answers
    with MQTTTransport("127.0.0.1", broker.port, time_out=PATIENCE) as connected:
        yield connected


def sparq(expert: SensorExpert) -> Bandit:
    return policies.sparq_gp_ucb(
        Candidates(PLACES), kernel=RBF(0.5), noise_variance=0.2, expert=expert, seed=3
    )


def played(bandit: Bandit, times: range) -> list[Any]:
    """Points, answers, predictions and notes of a run, step by step."""
    seen: list[Any] = []
    for t in times:
        X = bandit.ask(float(t))
        info = bandit.tell(X, LEVELS[t - 1, [(X[0] == PLACES).all(axis=1).argmax()]], t=float(t))
        answers = bandit.state.answers
        mean, deviation = bandit.predict(PLACES)
        arrays = (X, answers.X, answers.t, answers.y, answers.variance, mean, deviation)
        seen.append(
            ([a.tobytes() for a in arrays], info.queries.answered, info.queries.notes, info.beta)
        )
    return seen


@needs_broker
def test_mqtt_transport_returns_the_readings_of_the_stations(transport: MQTTTransport) -> None:
    assert isinstance(transport, Transport)
    for t in (1.0, 7.0, 7.5, 40.0):
        assert transport.request(IDS, t) == STUB.request(IDS, t)
        assert transport.request(IDS[3:1:-1], t) == STUB.request(IDS[3:1:-1], t)
    assert transport.request(IDS, 0.0) == STUB.request(IDS, 0.0) == []
    assert transport.request([], 1.0) == []
    expert = SensorExpert(STATIONS, transport)
    assert check_expert(expert, PLACES[:3], 5.0, deterministic=True).success


@needs_broker
def test_bandit_over_mqtt_plays_as_without_a_network_also_after_pickling(
    transport: MQTTTransport,
) -> None:
    bandit = sparq(SensorExpert(STATIONS, transport))
    over_mqtt = played(bandit, range(1, 20))
    again = pickle.loads(pickle.dumps(bandit))
    over_mqtt += played(again, range(20, 31))
    again.recipe.query_config.expert.transport.close()
    assert over_mqtt == played(sparq(SensorExpert(STATIONS, STUB)), range(1, 31))
    assert sum(answered for _, answered, _, _ in over_mqtt) > 100


@needs_broker
def test_mqtt_transport_serves_several_threads_at_once(transport: MQTTTransport) -> None:
    times = range(1, 13)
    with ThreadPoolExecutor(len(times)) as threads:
        said = list(threads.map(partial(transport.request, IDS), times))
    assert said == [STUB.request(IDS, t) for t in times]


@needs_broker
def test_mqtt_transport_omits_stations_of_a_killed_process_until_it_restarts(
    broker: Broker, start: Callable[[Sequence[str]], int], network: list[int]
) -> None:
    others = [name for name in IDS if name not in PROCESSES[3]]
    with MQTTTransport("127.0.0.1", broker.port, time_out=1.0) as transport:
        bandit = sparq(SensorExpert(STATIONS, transport))
        played(bandit, range(1, 13))
        os.kill(network[3], signal.SIGKILL)
        for _, answered, notes, _ in played(bandit, range(13, 16)):
            assert answered > 0
            assert all(note.startswith("no answer from ") for note in notes)
            assert all(repr(name) not in note for note in notes for name in others)
        said = SensorExpert(STATIONS, transport).query(PLACES, 9.0)
        assert said.notes == ("no answer from '$SYS/ü', 'ozone.7'",)
        np.testing.assert_array_equal(said.answered, [name in others for name in IDS])
        network[3] = start(PROCESSES[3])
        awaited(broker.port, IDS)
        assert transport.request(IDS, 9.0) == STUB.request(IDS, 9.0)


@needs_broker
def test_mqtt_transport_omits_a_hanging_station_and_its_late_answer(
    broker: Broker,
    network: list[int],  # noqa: ARG001
) -> None:
    awake, hung = threading.Event(), threading.Event()

    def read(t: float) -> Reading:
        if t > 2.0:
            hung.set()
            assert awake.wait(PATIENCE)
        return Reading("slow", t, 1.0)

    with (
        MQTTStation("slow", read, host="127.0.0.1", port=broker.port),
        MQTTTransport("127.0.0.1", broker.port, time_out=1.0) as impatient,
    ):
        awaited(broker.port, ["slow"])
        both = stations_at([[0.0], [1.0]], ["slow", "plain"], noise_variance=1.0)
        said = SensorExpert(both, impatient).query(np.array([[0.0], [1.0]]), 3.0)
        assert hung.is_set()
        assert said.notes == ("no answer from 'slow'",)
        np.testing.assert_array_equal(said.answered, [False, True])
        awake.set()  # its answer now comes too late, and is omitted
        assert impatient.request(["slow"], 2.0) == [Reading("slow", 2.0, 1.0)]


# --- stations that send malformed messages --------------------------------------------------------


@dataclass
class Liar:
    """A station that sends the given messages in answer to a request."""

    client: Any
    says: Callable[[dict[str, Any]], Sequence[Any]] = lambda _question: ()

    def heard(self, _client: object, _data: object, message: Any) -> None:
        question = json.loads(message.payload)
        for each in self.says(question):
            other = isinstance(each, dict) and each.get("station") in ("second", "third")
            station = each["station"] if other else "liar"
            topic = f"tvbandits/{station}/say/{question['client']}"
            sent = json.dumps(each) if isinstance(each, dict) else each
            self.client.publish(topic, sent, qos=1)


@pytest.fixture
def liar(broker: Broker) -> Iterator[Liar]:
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    ready = threading.Event()
    made = Liar(client)
    client.on_subscribe = lambda *_: ready.set()
    client.on_connect = lambda *_: client.subscribe("tvbandits/liar/ask", qos=1)
    client.on_message = made.heard
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    assert ready.wait(PATIENCE)
    yield made
    client.disconnect()
    client.loop_stop()


TRUTH = Reading("liar", 5.0, 1.5, 0.5)


@needs_broker
def test_mqtt_transport_refuses_a_malformed_message_with_a_note(
    liar: Liar, transport: MQTTTransport
) -> None:
    expert = SensorExpert(stations_at([[0.0]], ["liar"], noise_variance=1.0), transport)
    for count, (message, note) in enumerate(RUBBISH, start=1):
        if isinstance(message, dict) and repr(message.get("request")) == "1":
            message = {**message, "request": count}
        liar.says = partial(lambda message, _question: [message], message)
        said = expert.query(np.zeros((1, 1)), 5.0)
        assert not said.answered[0]
        (only,) = said.notes
        assert only.startswith("the reading of 'liar' is refused: ")
        assert note[:77] in only


@needs_broker
def test_mqtt_transport_returns_the_first_valid_answer_of_a_station(
    liar: Liar, transport: MQTTTransport
) -> None:
    def several(question: dict[str, Any]) -> list[Any]:
        good = {**GOOD, "request": question["request"]}
        bad, stranger = {**good, "value": None, "note": 3}, {**good, "request": 9999}
        second, third = {**good, "station": "second"}, {**good, "station": "third"}
        # The request is open until the second station answers, and messages keep their order.
        return [bad, stranger, third, good, {**good, "value": 7.0}, bad, good, second]

    liar.says = several
    assert transport.request(["liar", "second"], 5.0) == [TRUTH, replace(TRUTH, station="second")]


# --- one station ------------------------------------------------------------------------------------


@needs_broker
def test_mqtt_station_ignores_malformed_requests(broker: Broker, liar: Liar) -> None:
    heard: list[bytes] = []
    liar.client.on_message = lambda _client, _data, message: heard.append(message.payload)
    ready = threading.Event()
    liar.client.on_subscribe = lambda *_: ready.set()
    liar.client.subscribe("tvbandits/A/say/me", qos=1)
    assert ready.wait(PATIENCE)
    with MQTTStation("A", lambda t: Reading("A", t, 1.0), host="127.0.0.1", port=broker.port):
        awaited(broker.port, ["A"])
        for bad in ("{", '{"request": 1}', '{"request": 1, "client": "a/b", "time": 2.0}'):
            liar.client.publish("tvbandits/A/ask", bad, qos=1)
        good = json.dumps({"request": 4, "client": "me", "time": 4.0})
        liar.client.publish("tvbandits/A/ask", good, qos=1)
        wait_until(lambda: bool(heard), "an answer")
    assert [json.loads(message)["request"] for message in heard] == [4]


def dry(t: float) -> Reading:
    raise OSError(f"the sensor is dry at {t}")


NO_READING: dict[str, tuple[Any, str]] = {
    "raises": (dry, "the reading of 'A' is refused: OSError: the sensor is dry at 5.0"),
    "says why": (lambda t: Reading("A", t, math.nan, note="calibrating"),
        "the reading of 'A' is refused: calibrating"),
    "NaN": (lambda t: Reading("A", t, math.nan),
        "the reading of 'A' is refused: ValueError: its value must be a finite number, got nan"),
    "no reading": (lambda _t: 3.0,
        "the reading of 'A' is refused: TypeError: read must return a Reading or None, got 3.0"),
}  # fmt: skip


@needs_broker
@pytest.mark.parametrize("why", NO_READING)
def test_mqtt_station_without_a_reading_sends_the_reason(why: str, broker: Broker) -> None:
    read, note = NO_READING[why]
    prefix = why.replace(" ", "/")
    with (
        MQTTStation("A", read, host="127.0.0.1", port=broker.port, prefix=prefix),
        MQTTTransport("127.0.0.1", broker.port, prefix=prefix, time_out=0.2) as transport,
    ):
        expert = SensorExpert(stations_at([[0.0]], ["A"], noise_variance=1.0), transport)
        wait_until(lambda: expert.query(np.zeros((1, 1)), 5.0).notes == (note,), note)


@needs_broker
def test_mqtt_station_runs_until_it_is_closed(broker: Broker) -> None:
    station = MQTTStation("B", lambda t: Reading("B", t, 1.0), host="127.0.0.1", port=broker.port)
    assert repr(station).startswith("<MQTTStation 'B': the broker 127.0.0.1:")
    thread = threading.Thread(target=station.run)
    thread.start()
    awaited(broker.port, ["B"])
    station.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    with MQTTTransport("127.0.0.1", broker.port, time_out=0.2) as transport:
        assert transport.request(["B"], 2.0) == []
    assert_refused(ValueError, "has been started before", station.run)


# --- brokers that restart, or ask for a password or a certificate ---------------------------------


def quick(password: str = "", authority: str = "") -> Any:
    """A client that reconnects soon, with a password or a trusted certificate."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.reconnect_delay_set(0.05, 0.1)
    if password:
        client.username_pw_set("bandit", password)
    if authority:
        client.tls_set(ca_certs=authority)
    return client


@contextmanager
def stations_of(broker: Broker, client: Callable[[], Any]) -> Iterator[None]:
    with ExitStack() as running:
        for name in IDS:
            read = partial(STUB.read, name)
            station = MQTTStation(name, read, host="127.0.0.1", port=broker.port, client=client)
            running.enter_context(station)
        yield


@needs_broker
def test_mqtt_transport_reconnects_after_the_broker_restarts(tmp_path: Path) -> None:
    with (
        run_broker(tmp_path) as broker,
        stations_of(broker, quick),
        MQTTTransport("127.0.0.1", broker.port, time_out=PATIENCE, client=quick) as transport,
    ):
        awaited(broker.port, IDS, client=quick)
        bandit = sparq(SensorExpert(STATIONS, transport))
        played(bandit, range(1, 6))
        broker.stop()
        transport._time_out = 0.2
        with pytest.warns(ExpertDownWarning, match="Connect") as warned:
            played(bandit, range(6, 9))
        assert len(warned) == 1
        assert "no connection to the broker" in bandit.info.queries.notes[0]
        broker.start()
        transport._time_out = PATIENCE
        awaited(broker.port, IDS, client=quick)
        assert transport.request(IDS, 9.0) == STUB.request(IDS, 9.0)
        played(bandit, range(9, 12))
        assert bandit.info.queries.refused == 0


@needs_broker
def test_mqtt_transport_raises_if_the_connection_is_lost_during_a_request(tmp_path: Path) -> None:
    asked = threading.Event()
    with run_broker(tmp_path) as broker:

        def read(t: float) -> Reading | None:
            if t == 1.0:
                return Reading("A", t, 1.0)
            asked.set()
            broker.stop()
            return None

        with (
            MQTTStation("A", read, host="127.0.0.1", port=broker.port, client=quick),
            MQTTTransport("127.0.0.1", broker.port, time_out=PATIENCE, client=quick) as transport,
        ):
            awaited(broker.port, ["A"], client=quick)
            with pytest.raises(ConnectionError, match="lost the connection to the broker 127"):
                transport.request(["A"], 2.0)
            assert asked.is_set()


PASSWORD = "correct horse"


@needs_broker
def test_mqtt_transport_connects_only_with_the_right_password(tmp_path: Path) -> None:
    tool = shutil.which("mosquitto_passwd")
    if tool is None:
        pytest.skip("mosquitto_passwd is not installed")
    passwords = tmp_path / "passwords"
    subprocess.run([tool, "-b", "-c", str(passwords), "bandit", PASSWORD], check=True)
    right = partial(quick, PASSWORD)
    options = ("allow_anonymous false", f"password_file {passwords}")
    with run_broker(tmp_path, *options) as broker, stations_of(broker, right):
        at = partial(MQTTTransport, "127.0.0.1", broker.port, time_out=PATIENCE)
        awaited(broker.port, IDS, client=right)
        with at(client=right) as transport:
            assert transport.request(IDS, 4.0) == STUB.request(IDS, 4.0)
        for stranger in (None, partial(quick, "wrong")):
            with (
                at(client=stranger) as transport,
                pytest.raises(ConnectionError, match=r"no connection to .*: Not authorized"),
            ):
                transport.request(IDS, 4.0)


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for the address 127.0.0.1, and its key."""
    key, made = folder / f"{name}.key", folder / f"{name}.crt"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    output = ["-keyout", str(key), "-out", str(made)]
    subprocess.run([*command.split(), *output], check=True, capture_output=True)
    return made, key


# paho leaves the connection open if it does not trust a certificate.
@needs_broker
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")
def test_mqtt_transport_connects_only_with_a_trusted_certificate(tmp_path: Path) -> None:
    (made, key), (other, _) = certificate(tmp_path, "broker"), certificate(tmp_path, "other")
    options = ("allow_anonymous true", f"certfile {made}", f"keyfile {key}")
    right = partial(quick, authority=str(made))
    with run_broker(tmp_path, *options) as broker, stations_of(broker, right):
        with MQTTTransport("127.0.0.1", broker.port, time_out=PATIENCE, client=right) as transport:
            awaited(broker.port, IDS, client=right)
            assert transport.request(IDS, 4.0) == STUB.request(IDS, 4.0)
        for client in (partial(quick, authority=str(other)), quick):
            with (
                MQTTTransport("127.0.0.1", broker.port, time_out=0.3, client=client) as stranger,
                pytest.raises(ConnectionError, match="no connection to the broker"),
            ):
                stranger.request(IDS, 4.0)
        gc.collect()


# --- hostile messages -----------------------------------------------------------------------------


def test_broker_connection_ignores_messages_that_raise() -> None:
    class Message:
        payload = b""

        @property
        def topic(self) -> str:
            return b"\xff\xfe".decode()  # as paho does it

    heard: list[str] = []

    class Deaf(BrokerConnection):
        def _receive(self, topic: str, payload: bytes | bytearray) -> None:  # noqa: ARG002
            heard.append(topic)
            raise LookupError(topic)

    link = Deaf("localhost", 1883, "tvbandits", None)
    link._on_message(None, None, Message())
    link._on_message(None, None, SimpleNamespace(topic="tvbandits/a/state", payload=b""))
    assert heard == ["tvbandits/a/state"]

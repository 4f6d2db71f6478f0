"""Stations in separate processes, which replay a table over MQTT.

`python mqtt_station.py PORT TABLE SEED`: TABLE is an npz file with `values`, `ids` and `noise_variance`.
For every line of its input, a JSON list of stations, the program starts a process and prints its id.
All processes end with the one that started this program, even if that is killed.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np

from tvbandits.experts.sensors.mqtt import MQTTStation
from tvbandits.experts.sensors.stub import StubTransport


def answer(port: int, stub: StubTransport, stations: Sequence[str], read_end: int) -> None:
    """Answer until the pipe is closed at its other end."""
    with ExitStack() as running:
        for name in stations:
            station = MQTTStation(name, partial(stub.read, name), host="127.0.0.1", port=port)
            running.enter_context(station)
        os.read(read_end, 1)


def main(port: str, table: str, seed: str) -> None:
    with np.load(table) as columns:
        stub = StubTransport(
            columns["values"],
            columns["ids"].tolist(),
            noise_variance=columns["noise_variance"],
            seed=int(seed),
        )
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    read_end, write_end = os.pipe()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.close(write_end)
            answer(int(port), stub, json.loads(line), read_end)
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

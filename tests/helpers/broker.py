"""A local MQTT broker, mosquitto, that runs as long as a test needs it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MOSQUITTO = shutil.which(
    "mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
)
# Seconds to wait for a condition, reached only if a test fails.
PATIENCE = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], description: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{description}: not within {PATIENCE} s"
        time.sleep(0.005)


@dataclass
class Broker:
    """A local mosquitto process."""

    folder: Path
    port: int
    options: Sequence[str] = ("allow_anonymous true",)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert MOSQUITTO is not None
        lines = [
            f"listener {self.port} 127.0.0.1",
            *self.options,
            "user root",
            "set_tcp_nodelay true",
        ]
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        with (self.folder / "mosquitto.log").open("ab") as log:
            self.process = subprocess.Popen(
                [MOSQUITTO, "-c", str(self.folder / "mosquitto.conf")], stdout=log, stderr=log
            )
        wait_until(self.is_listening, (self.folder / "mosquitto.log").read_text())

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()


@contextmanager
def run_broker(folder: Path, *options: str) -> Iterator[Broker]:
    broker = Broker(folder, free_port(), options or ("allow_anonymous true",))
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()

"""A service on a new campaign, as a process of its own on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tvbandits import Campaign
from tvbandits.campaign.service import Tokens

STATIONS = 40
ROLES = {"read": ["read"], "tell": ["tell"], "ask": ["ask"], "all": ["read", "tell", "ask"]}

CONFIG = """
[domain]
sites = "sites.csv"
[policy]
name = "{policy}"
length_scale = 1.5
noise_sd = 0.1
[policy.options]
{options}
"""


@dataclass
class Serving:
    """A service that runs.

    Attributes
    ----------
    folder, place, log : Path
    port : int
    tokens : dict
        By the name of the holder.
    process : Popen
    campaign : Campaign
        The same campaign, opened here to look at.
    """

    folder: Path
    place: Path
    log: Path
    port: int
    tokens: dict[str, str]
    process: subprocess.Popen[bytes]
    campaign: Campaign

    @property
    def address(self) -> str:
        """Its root."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process.poll() is None

    def says(self, who: str) -> dict[str, str]:
        """Headers of somebody."""
        return {"Authorization": f"Bearer {self.tokens[who]}"}


def free_port() -> int:
    """One that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def started(
    folder: Path, names: tuple[str, ...] = (), policy: str = "sw-gp-ucb"
) -> Iterator[Serving]:
    """A service on a new campaign, with a token for every role and for every name."""
    place, log, port = folder / "campaign.db", folder / "log", free_port()
    lines = [f"S{i},{10 * i / (STATIONS - 1):.6f}" for i in range(STATIONS)]
    (folder / "sites.csv").write_text("site,km\n" + "\n".join(lines) + "\n")
    options = {"sw-gp-ucb": "window = 200", "tv-gp-ucb": "forgetting_rate = 0.05"}.get(policy, "")
    (folder / "campaign.toml").write_text(CONFIG.format(policy=policy, options=options))
    command = [sys.executable, "-m", "tvbandits", "campaign"]
    config = ["--config", str(folder / "campaign.toml")]
    subprocess.run([*command, "new", str(place), *config], check=True, capture_output=True)
    wanted = ROLES | dict.fromkeys(names, ROLES["all"])
    with Tokens(place) as kept:
        tokens = {name: kept.new(name, roles) for name, roles in wanted.items()}
    with log.open("wb") as said, Campaign.open(place) as campaign:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [*command, "serve", str(place), "--port", str(port)],
            stdout=said, stderr=said, env=environment,
        )  # fmt: skip
        there = Serving(folder, place, log, port, tokens, process, campaign)
        try:
            _wait(there)
            yield there
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(there: Serving, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and there.running:
        try:
            requests.get(f"{there.address}/health", timeout=5)
        except requests.RequestException:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the service has not begun: {there.log.read_text()[-2000:]}")

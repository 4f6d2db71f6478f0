"""What a service bears: many clients that ask and tell, and nothing lost or counted twice.

    python -m benchmarks.service [--clients 50] [--seconds 60] [--policy sw-gp-ucb]

The server is a process of its own on loopback, started by `tvbandits campaign serve` on a campaign of 40
stations. Every client has a token, asks where to go and tells what came back; one request in ten is
said again under its key, as if the reply had been lost. Afterwards every reward that was reported as
told must be on record once, and nothing else, and `verify` must agree. Printed: requests, errors,
rewards, and the median, the 99th percentile and the longest time of a reply.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import requests
from rich.console import Console
from rich.table import Table

from tvbandits import Campaign
from tvbandits.campaign.service import Tokens

STATIONS, AGAIN = 40, 10
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
    options = {"sw-gp-ucb": "window = 200", "tv-gp-ucb": "epsilon = 0.05"}.get(policy, "")
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


@dataclass
class Played:
    """What one client saw."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"ask": [], "tell": []})
    told: dict[str, float] = field(default_factory=dict)
    again: int = 0
    errors: list[str] = field(default_factory=list)


def play(there: Serving, number: int, end: float, began: float, played: Played) -> None:
    """Ask and tell until the end."""
    session, rng = requests.Session(), np.random.default_rng(number)
    session.headers.update(there.says(f"client-{number}"))

    def say(verb: str, said: dict[str, Any]) -> dict[str, Any]:
        for _ in range(1 + (rng.random() < 1 / AGAIN)):
            since = time.monotonic()
            reply = session.post(f"{there.address}/{verb}", json=said, timeout=120)
            played.seconds[verb].append(time.monotonic() - since)
            if reply.status_code != 200:
                raise RuntimeError(f"{verb}: {reply.status_code} {reply.text[:200]}")
            played.again += 1
        played.again -= 1
        found: dict[str, Any] = reply.json()
        return found

    i = 0
    while time.monotonic() < end:
        i += 1
        t = round(time.monotonic() - began, 3)
        try:
            (point,) = say("ask", {"t": t, "key": f"ask {number} {i}"})["points"]
            value = float(np.sin(point[0] + t / 20)) + 1e-9 * (1000 * number + i)
            key = f"tell {number} {i}"
            say("tell", {"points": [point], "rewards": [value], "t": t, "key": key})
            played.told[key] = value
        except (RuntimeError, ValueError, requests.RequestException) as error:
            played.errors.append(f"client {number}: {error}")


def faults(there: Serving, played: list[Played]) -> list[str]:
    """What is lost, counted twice, or not as it was written."""
    on_record = [row for row in there.campaign.journal() if row.kind == "told"]
    keys = Counter(row.key for row in on_record)
    found = [f"{key} counts {n} times" for key, n in keys.items() if n > 1]
    rewards = {row.key: row.body["y"] for row in on_record}
    said = {key: value for each in played for key, value in each.told.items()}
    found += [f"{key} is lost" for key in said if rewards.get(key) not in ([said[key]], said[key])]
    found += [f"{key} was never told" for key in rewards if key not in said]
    with Campaign.open(there.place) as campaign:
        found += list(campaign.verify().problems)
        if campaign.status.told != len(said):
            found.append(f"{campaign.status.told} rewards are known, and {len(said)} were told")
    return found


def run(clients: int, seconds: float, policy: str, console: Console) -> int:
    """Let them play, and print what came of it; how many faults there were."""
    names = tuple(f"client-{i}" for i in range(clients))
    with tempfile.TemporaryDirectory() as name, started(Path(name), names, policy) as there:
        played = [Played() for _ in names]
        began = time.monotonic()
        threads = [
            threading.Thread(target=play, args=(there, i, began + seconds, began, played[i]))
            for i in range(clients)
        ]
        for thread in threads:
            thread.start()
        glances = look(there, threads)
        took = time.monotonic() - began
        found = [error for each in played for error in each.errors]
        found += faults(there, played)
    table = Table("", "requests", "median", "99%", "longest")
    times = {verb: [s for each in played for s in each.seconds[verb]] for verb in ("ask", "tell")}
    for verb, each in {**times, "status, meanwhile": glances}.items():
        cells = [f"{1000 * x:.0f} ms" for x in (*np.percentile(each, [50, 99]), max(each))]
        table.add_row(verb, f"{len(each):,}", *cells)
    console.print(table)
    rewards, again = (sum(x) for x in zip(*((len(p.told), p.again) for p in played), strict=True))
    console.print(
        f"{clients} clients, {took:.0f} s, {policy} on {STATIONS} stations: {rewards:,} rewards, "
        f"{again:,} requests said again, {len(found)} errors, lost or counted twice"
    )
    for error in found[:20]:
        console.print(error, markup=False)
    return len(found)


def look(there: Serving, threads: list[threading.Thread]) -> list[float]:
    """How long somebody waits who only looks, ten times a second, while others write."""
    found = []
    while any(thread.is_alive() for thread in threads):
        since = time.monotonic()
        requests.get(f"{there.address}/status", headers=there.says("read"), timeout=60)
        found.append(time.monotonic() - since)
        time.sleep(0.1)
    return found


def main() -> int:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--policy", default="sw-gp-ucb", help="sw-gp-ucb by default")
    given = parser.parse_args()
    return 1 if run(given.clients, given.seconds, given.policy, Console(soft_wrap=True)) else 0


if __name__ == "__main__":
    sys.exit(main())

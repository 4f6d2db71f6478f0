"""A board that is killed at random times and said again, against an undisturbed one.

    python -m benchmarks.kills --times 20                # --cluster local:2
    python -m benchmarks.kills --times 20 --scheduler    # a scheduler and two workers of their own

What is killed by SIGKILL is drawn each time: the client (in which a local cluster has its scheduler;
its workers are left to find out by themselves), a worker, or the scheduler that has a process of its
own. After a client or scheduler the same command is said again, until it has ended by itself and the
kills are used up. The board is `paper`, cut down: all its problems, policies that need seconds, fewer
steps and seeds.
"""

from __future__ import annotations

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import psutil

POLICIES = (
    "uniform",
    "gp-ucb",
    "sw-gp-ucb",
    "et-gp-ucb",
    "tv-gp-ucb:epsilon=0.05",
    "w-dbo",
    "r-perp",
)
COMMAND = (
    "board",
    "paper",
    *(word for policy in POLICIES for word in ("--only", policy)),
    *("--horizon", "20", "--seeds", "2"),
)
PAUSES = (2.0, 15.0)
"""Seconds between two kills are uniform between these."""


def started(*words: str) -> subprocess.Popen[bytes]:
    """A module in a process of its own, whose words nobody hears."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", *words], **quiet)  # type: ignore[call-overload, no-any-return]


def said(out: Path, *more: str) -> subprocess.Popen[bytes]:
    """The command, said once more."""
    return started("tvbandits", *COMMAND, *more, "--out", str(out))


def rows_of(out: Path) -> pd.DataFrame:
    """Rows of all runs, without their times."""
    parts = [pd.read_parquet(path) for path in sorted((out / "runs").glob("*.parquet"))]
    return pd.concat(parts, ignore_index=True).drop(columns="seconds")


def ended(process: psutil.Process | subprocess.Popen[bytes]) -> None:
    """Kill, and wait until it is gone."""
    process.kill()
    process.wait()


@dataclass
class Inside:
    """Scheduler and workers that the client has started itself."""

    where: str = "local:2"
    victims: tuple[str, ...] = ("client", "worker")
    left: list[psutil.Process] = field(default_factory=list)

    def ready(self) -> None:
        """There is nothing to be started."""

    def kill(self, victim: str, client: subprocess.Popen[bytes]) -> None:
        """End the client alone, or one of its workers."""
        workers = [
            child
            for child in psutil.Process(client.pid).children(recursive=True)
            if "spawn_main" in " ".join(child.cmdline())
        ]
        if victim == "client":
            self.left += workers
            ended(client)
        elif workers:
            ended(random.choice(workers))

    def close(self) -> str:
        """What became of the workers of killed clients."""
        _, alive = psutil.wait_procs(self.left, timeout=60)
        for process in alive:
            process.kill()
        return f"{len(alive)} of {len(self.left)} workers outlived their killed client by a minute"


@dataclass
class Outside:
    """A scheduler and two workers in processes of their own."""

    port: int
    victims: tuple[str, ...] = ("client", "worker", "scheduler")
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def where(self) -> str:
        """The address of the scheduler."""
        return f"tcp://127.0.0.1:{self.port}"

    def ready(self) -> None:
        """Start whatever is not there."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            words = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
            self.scheduler = started("distributed.cli.dask_scheduler", *words)
            self._wait_for_scheduler()
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < 2:
            words = (self.where, "--nthreads", "1", "--no-nanny", "--no-dashboard")
            self.workers.append(started("distributed.cli.dask_worker", *words))

    def _wait_for_scheduler(self) -> None:
        for _ in range(600):
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        sys.exit("the scheduler does not start")

    def kill(self, victim: str, client: subprocess.Popen[bytes]) -> None:
        """End one of the processes; a worker is put in the place of a killed one."""
        if victim == "worker":
            ended(random.choice(self.workers))
            self.ready()
        elif victim == "scheduler" and self.scheduler is not None:
            ended(self.scheduler)
        else:
            ended(client)

    def close(self) -> str:
        """End what is there."""
        for process in (*self.workers, self.scheduler):
            if process is not None:
                ended(process)
        return "scheduler and workers of their own"


def disturbed(out: Path, cluster: Inside | Outside, times: int) -> tuple[Counter[str], int, int]:
    """Play a board under kills: what was killed, how often it was said, and how often played anew."""
    kills: Counter[str] = Counter()
    starts = anew = 0
    while True:
        cluster.ready()
        client, starts = said(out, "--cluster", cluster.where), starts + 1
        while kills.total() < times:
            try:
                client.wait(random.uniform(*PAUSES))
                break
            except subprocess.TimeoutExpired:
                victim = random.choice(cluster.victims)
                cluster.kill(victim, client)
                kills[victim] += 1
                if victim != "worker":
                    break
        status = client.wait()
        if status == 0 and kills.total() >= times:
            return kills, starts, anew
        if status == 0:  # done before the kills were: half of it is to be played once more
            anew += 1
            for path in sorted((out / "runs").glob("*.parquet"))[::2]:
                path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scheduler", action="store_true", help="in a process of its own")
    parser.add_argument("--port", type=int, default=8899, help="of that scheduler")
    parser.add_argument("--quiet", type=Path, help="keep the undisturbed board here, or use it")
    given = parser.parse_args()
    random.seed(given.seed)
    cluster = Outside(given.port) if given.scheduler else Inside()
    with tempfile.TemporaryDirectory() as folder:
        quiet, loud = given.quiet or Path(folder, "quiet"), Path(folder, "loud")
        if said(quiet, "--jobs", "2").wait() != 0:
            sys.exit("the undisturbed board failed")
        expected = rows_of(quiet)
        begun = time.perf_counter()
        try:
            kills, starts, anew = disturbed(loud, cluster, given.times)
        finally:
            became = cluster.close()
        same = rows_of(loud).equals(expected)
    counted = ", ".join(f"{count} x {victim}" for victim, count in sorted(kills.items()))
    print(f"killed: {counted}, in {time.perf_counter() - begun:.0f} s")
    print(f"the command was said {starts} times; {anew} times half of the runs were played anew")
    print(became)
    print(f"{len(expected)} rows, identical to those of the undisturbed board: {same}")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()

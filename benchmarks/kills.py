"""A board that is killed at random times and said again, against an undisturbed one.

    python -m benchmarks.kills --times 20

Each time the client, in which a local cluster's scheduler is, or a worker is ended by SIGKILL; then the
same command is said again, until it ends by itself.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import psutil

COMMAND = (
    "board quick --only uniform --only gp-ucb --only tv-gp-ucb:epsilon=0.05 "
    "--problem exoskeleton:candidates=71 --problem switching:candidates=61 --horizon 60 --seeds 5"
)


def said(out: Path, cluster: str | None) -> subprocess.Popen[bytes]:
    more = ["--jobs", "2"] if cluster is None else ["--cluster", cluster]
    command = [sys.executable, "-m", "tvbandits", *COMMAND.split(), *more, "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def rows_of(out: Path) -> pd.DataFrame:
    parts = [pd.read_parquet(path) for path in sorted((out / "runs").glob("*.parquet"))]
    return pd.concat(parts, ignore_index=True).drop(columns="seconds")


def kill_one(client: subprocess.Popen[bytes], rng: random.Random) -> str:
    """End the client, or one of the processes it has started."""
    children = psutil.Process(client.pid).children(recursive=True)
    victim = rng.choice(["client", "worker"]) if children else "client"
    if victim == "worker":
        rng.choice(children).kill()
        return victim
    for child in children:
        child.suspend()  # so that none of them outlives the client by tidying up
    client.kill()
    for child in children:
        child.kill()
    return victim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        quiet, loud = Path(folder, "quiet"), Path(folder, "loud")
        if said(quiet, None).wait() != 0:
            sys.exit("the undisturbed board failed")
        expected = rows_of(quiet)
        kills, starts = [], 0
        while True:
            client, starts = said(loud, "local:2"), starts + 1
            while len(kills) < given.times:
                try:
                    client.wait(rng.uniform(2, 15))
                    break
                except subprocess.TimeoutExpired:
                    kills.append(kill_one(client, rng))
                    if kills[-1] == "client":
                        client.wait()
                        break
            status = client.wait()
            if status == 0 and len(kills) >= given.times:
                break
            if status == 0:  # done too soon: some of it is to be played once more
                for path in sorted((loud / "runs").glob("*.parquet"))[::2]:
                    path.unlink()
            time.sleep(0.5)
        same = rows_of(loud).equals(expected)
        counted = {victim: kills.count(victim) for victim in ("client", "worker")}
        print(f"{counted} killed, {starts} starts, {len(expected)} rows: identical {same}")
        if not same:
            sys.exit(1)


if __name__ == "__main__":
    main()

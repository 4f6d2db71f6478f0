"""Campaigns that are killed, cut and starved: nothing that was reported or paid for may be lost.

    python -m tests.attack.campaigns --kills 100 [--seed 0] [--writers 3]
    python -m tests.attack.campaigns --kills 20 --server   # PostgreSQL; its server is killed too

Several processes play one campaign with a query plan and an expert who sells answers and keeps a
ledger. They ask, tell, drop, bring answers of their own and make snapshots, all under the same keys, so
that each of them does what none of the others has done yet. They are killed by SIGKILL at random
instants. In the end every call that was reported as done must be on record once, every sale of the
ledger must be on record, `verify` must agree, and the state must be that of a plain bandit that nobody
killed, bit for bit.

After that, on SQLite: the same with a disk that is full again and again, with a write-ahead log that is
cut as by a loss of power, and from a disk that cannot be written. Counts are printed as JSON; the exit
status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tests.attack.postgresql import Server
from tests.attack.report import WRONG, Count, Tally
from tvbandits import Answers, Bandit, Campaign, Candidates, policies
from tvbandits.bandit.state import same_value
from tvbandits.campaign import BusyError, CampaignError, StorageError
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal

SITES = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
NOISE = 0.01
SNAPSHOT_EVERY = 9

COUNT, QUICK, WRITERS = 100, 4, 3


def reward(X: Array, t: float) -> Array:
    """A drifting reward with the noise of its point and time."""
    return np.sin(X[:, 0] / 2 + t / 20) + 0.1 * keyed_normal(0, 5, X, np.full(len(X), t))


class Shop:
    """An expert who sells each answer once, and hands it over again to who lost it.

    Parameters
    ----------
    ledger : Path
        Sales, on the disk before they are handed over.
    """

    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger

    def query(self, X: Array, t: float) -> Answers:
        """The reward with a noise of its own."""
        sold = {(x, at) for kind, x, at in sales(self.ledger)}
        lines = [
            json.dumps(["again" if (float(x), t) in sold else "sale", float(x), t]) for x in X[:, 0]
        ]
        handle = os.open(self.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, "".join(f"{line}\n" for line in lines).encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        values = np.cos(X[:, 0]) + 0.1 * keyed_normal(0, 6, X, np.full(len(X), t))
        return Answers(values, 0.05, cost=float(len(X)))


def sales(ledger: Path) -> list[tuple[str, float, float]]:
    """(sale or again, x, t) of a ledger."""
    if not ledger.exists():
        return []
    lines = ledger.read_text().split("\n")[:-1]  # a line that was cut is no sale
    return [(kind, x, t) for kind, x, t in map(json.loads, lines)]


def begun(folder: Path) -> Bandit:
    """The bandit of a campaign, before anything."""
    expert = Shop(folder / "ledger.jsonl")
    return policies.frugal_gp_ucb(SITES, RBF(1.5), NOISE, expert=expert, budget=2, seed=7)


Do = Callable[[str], Any]


def step(player: Any, t: int, said: Callable[[str], None], keyed: bool) -> None:
    """One step of the plan, on a campaign or on a bandit."""

    def key(name: str) -> dict[str, str]:
        return {"key": f"{name}-{t}"} if keyed else {}

    now = float(t)
    X = player.ask(now, 3 if t % 5 == 0 else None, **key("ask"))
    said(f"ask-{t}")
    player.tell(X[:2], reward(X[:2], now), now, **key("tell"))
    said(f"tell-{t}")
    if len(X) > 2:
        player.drop(X[2:], **key("drop"))
        said(f"drop-{t}")
    if t % 3 == 0:
        about = SITES.X[[t % 21]]
        player.answer(about, np.cos(about[:, 0]), now, 0.04, **key("answer"))
        said(f"answer-{t}")
    if keyed and t % 4 == 0:
        player.snapshot()


def play(place: str, folder: Path, number: int) -> None:
    """What a writer does: step after step, until the file `stop` says which was the last."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    log = os.open(folder / f"done-{number}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def said(key: str) -> None:
        os.write(log, f"{key}\n".encode())

    t, campaign = 1, None
    while True:
        try:
            if campaign is None:
                campaign = opened(place, folder)
                t = max(t, len({*campaign.state.rewards.t.tolist()}))
            stop = folder / "stop"
            if stop.exists() and t > int(stop.read_text()):
                return
            step(campaign, t, said, keyed=True)
            t += 1
        except (StorageError, BusyError):
            time.sleep(0.05)  # a server that is away, a disk that is full
            campaign = None


def opened(place: str, folder: Path) -> Campaign:
    """The campaign, with its expert."""
    expert = Shop(folder / "ledger.jsonl")
    return Campaign.open(place, expert=expert, snapshot_every=SNAPSHOT_EVERY, patience=60.0)


@dataclass
class Found:
    """What came of it.

    Attributes
    ----------
    kills : int
        Of writers, and of servers.
    servers : int
        Of these, servers.
    windows : dict
        Which row was the last of the journal when a kill fell: within an operation, or after one.
    steps, rows, sold, again : int
        Steps played, rows of the journal, answers sold, and sold answers that were handed over again.
    full, cuts : int
        Times the disk was full, and write-ahead logs that were cut.
    read_only : str
        What came of reading and writing on a disk that cannot be written.
    faults : list of str
        What is wrong; empty if all is well.
    """

    kills: int = 0
    servers: int = 0
    windows: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    rows: int = 0
    sold: int = 0
    again: int = 0
    full: int = 0
    cuts: int = 0
    read_only: str = "not tried"
    faults: list[str] = field(default_factory=list)


def check(place: str, folder: Path, steps: int, found: Found, acknowledged: bool = True) -> None:
    """Compare a campaign at its end with its ledger, its reports and its twin."""
    campaign = opened(place, folder)
    with campaign:
        said = campaign.verify()
        found.faults += [f"verify: {problem}" for problem in said.problems]
        journal = campaign.journal()
        keys = Counter(row.key for row in journal if row.key is not None)
        found.faults += [f"{key} counts {n} times" for key, n in keys.items() if n > 1]
        if acknowledged:
            logs = [path.read_text().split("\n")[:-1] for path in folder.glob("done-*.log")]
            lost = sorted({key for log in logs for key in log} - set(keys))
            found.faults += [f"{key} was reported as done and is not on record" for key in lost]
        bought = Counter(
            (x, row.body["t"])
            for row in journal
            if row.kind == "consulted"
            for (x,) in row.body["X"]
        )
        ledger = sales(folder / "ledger.jsonl")
        sold = {(x, t) for kind, x, t in ledger if kind == "sale"}
        found.faults += [
            f"{each} was sold and is not on record" for each in sorted(sold - set(bought))
        ]
        found.faults += [f"{each} was bought twice" for each, n in bought.items() if n > 1]
        found.sold += len(sold)
        found.again += sum(kind == "again" for kind, *_ in ledger)
        found.rows += len(journal)
        found.steps += steps
        found.faults += differences(campaign, steps)


def differences(campaign: Campaign, steps: int) -> list[str]:
    """What is not the same as in a bandit that nobody disturbed."""
    with tempfile.TemporaryDirectory() as apart:
        twin = begun(Path(apart))
        for t in range(1, steps + 1):
            step(twin, t, lambda _: None, keyed=False)
        one, two = campaign.state, twin.state
        names = [name for name in vars(two) if name not in ("info", "expert")]
        found = [
            f"{name} is not that of the twin"
            for name in names
            if not same_value(getattr(one, name), getattr(two, name))
        ]
        X, Y = (each.predict(SITES.X, steps + 1.0) for each in (campaign, twin))
        if not all(map(np.array_equal, X, Y)):
            found.append("predictions are not those of the twin")
    return found


def kill_often(
    place: str, folder: Path, kills: int, writers: int, rng: random.Random, server: Server | None
) -> Found:
    """Play with several writers, and kill one after the other."""
    Campaign.create(place, begun(folder), snapshot_every=SNAPSHOT_EVERY).close()
    found, fork = Found(), multiprocessing.get_context("fork")

    def start(number: int) -> Any:
        child = fork.Process(target=play, args=(place, folder, number), daemon=True)
        child.start()
        return child

    children = {number: start(number) for number in range(writers)}
    for kill in range(kills):
        time.sleep(rng.uniform(0.0, 0.3))
        if server is not None and kill % 4 == 3:
            server.kill()
            found.servers += 1
            server.start()
        else:
            number = rng.randrange(writers)
            child = children[number]
            if not child.is_alive():
                found.faults.append(f"a writer ended by itself, with status {child.exitcode}")
            else:
                os.kill(child.pid, signal.SIGKILL)
            child.join()
            children[number] = start(number)
        found.kills += 1
        found.windows[last_kind(place)] += 1
    steps = finish(place, folder, list(children.values()), found)
    check(place, folder, steps, found)
    return found


def last_kind(place: str) -> str:
    """The kind of the last row of a journal: where the last kill fell, or soon after it."""
    with Campaign.open(place) as campaign:
        journal = campaign.journal()
    return journal[-1].kind if journal else "nothing yet"


def finish(place: str, folder: Path, children: Sequence[Any], found: Found) -> int:
    """Let the writers play a few steps more to a common end; how many there are."""
    with Campaign.open(place) as campaign:
        steps = 6 + max([0, *(int(t) for t in campaign.history["time"])])
    (folder / "stop").write_text(str(steps))
    for child in children:
        child.join(120)
        if child.exitcode != 0:
            found.faults.append(f"a writer ended with status {child.exitcode}")
            if child.is_alive():
                child.kill()
    return steps


def starve(folder: Path, times: int, rng: random.Random) -> Found:
    """Play while files may grow by a few kB only, again and again."""
    found, place = Found(), str(folder / "campaign.db")
    Campaign.create(place, begun(folder), snapshot_every=SNAPSHOT_EVERY).close()
    t, soft = 1, resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    campaign = opened(place, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no room for a snapshot
        while found.full < times:
            largest = max(path.stat().st_size for path in folder.iterdir())
            room = largest + rng.randrange(1, 300_000)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, soft[1]))
            try:
                for _ in range(30):
                    step(campaign, t, lambda _: None, keyed=True)
                    t += 1
            except StorageError:
                found.full += 1
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, soft)
            if rng.random() < 0.3:
                campaign.close()
                campaign = opened(place, folder)
        step(campaign, t, lambda _: None, keyed=True)
    campaign.close()
    check(place, folder, t, found)
    return found


def cut(folder: Path, times: int, rng: random.Random) -> Found:
    """Cut the write-ahead log of a campaign at random places, as a loss of power may, and go on."""
    found, place = Found(), folder / "campaign.db"
    Campaign.create(place, begun(folder), snapshot_every=SNAPSHOT_EVERY).close()
    with closing(opened(str(place), folder)) as campaign:
        for t in range(1, 13):
            step(campaign, t, lambda _: None, keyed=True)
        whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    log = whole["campaign.db-wal"]
    for number in range(times):
        apart = folder / f"cut-{number}"
        apart.mkdir()
        left = (
            rng.randrange(len(log)) if number % 2 else 32 + 4120 * rng.randrange(len(log) // 4120)
        )
        (apart / "campaign.db").write_bytes(whole["campaign.db"])
        (apart / "campaign.db-wal").write_bytes(log[:left])
        (apart / "ledger.jsonl").write_bytes(whole["ledger.jsonl"])
        found.cuts += 1
        try:
            again = opened(str(apart / "campaign.db"), apart)
        except CampaignError as error:
            found.faults.append(f"cut at {left} of {len(log)}: {error}")
            continue
        with again:
            for t in range(1, 15):  # clients try again what they had no reply to, and go on
                step(again, t, lambda _: None, keyed=True)
        check(str(apart / "campaign.db"), apart, 14, found, acknowledged=False)
        shutil.rmtree(apart)
    return found


def still(folder: Path) -> Found:
    """Read from, and try to write to, a disk that cannot be written; needs the rights to mount one."""
    found, place = Found(), folder / "disk" / "campaign.db"
    place.parent.mkdir()
    if os.geteuid() != 0 or os.system(
        f"mount -t tmpfs -o size=4m tmpfs {place.parent} 2>/dev/null"
    ):
        found.read_only = "not tried: no right to mount a disk"
        return found
    try:
        Campaign.create(place, begun(folder)).close()
        with opened(str(place), folder) as campaign:
            for t in range(1, 6):
                step(campaign, t, lambda _: None, keyed=True)
            X = campaign.predict(SITES.X, 7.0)
        os.system(f"mount -o remount,ro {place.parent}")
        with opened(str(place), folder) as campaign:
            same = all(map(np.array_equal, X, campaign.predict(SITES.X, 7.0)))
            fine = campaign.verify().fine
            try:
                campaign.ask(6.0)
                found.faults.append("a disk that cannot be written was written")
            except StorageError as error:
                found.read_only = f"read: {same and fine}; to ask: {type(error).__name__}"
            if not (same and fine):
                found.faults.append("a campaign on a disk that cannot be written was not read")
    finally:
        os.system(f"umount {place.parent}")
    return found


def together(parts: Sequence[Found]) -> Found:
    """The sums."""
    total = Found()
    for part in parts:
        total.windows += part.windows
        for name, value in vars(part).items():
            if isinstance(value, int | list):
                setattr(total, name, getattr(total, name) + value)
        if part.read_only != "not tried":
            total.read_only = part.read_only
    return total


def campaigns(kills: int, seed: int, writers: int, server: bool, folder: Path) -> Found:
    """All of it."""
    rng = random.Random(seed)
    if server:
        with Server(folder / "server") as running:
            (folder / "killed").mkdir()
            return kill_often(running.url, folder / "killed", kills, writers, rng, running)
    apart = [folder / name for name in ("killed", "starved", "cut", "still")]
    for each in apart:
        each.mkdir()
    killed, starved, cuts, there = apart
    times = max(4, kills // 5)
    parts = [
        kill_often(str(killed / "campaign.db"), killed, kills, writers, rng, None),
        starve(starved, times, rng),
        cut(cuts, times, rng),
        still(there),
    ]
    return together(parts)


def attack(count: int, seed: int) -> Tally:
    """Kill writers so many times, and starve and cut as many as belong to that."""
    counts = Count("campaigns")
    with tempfile.TemporaryDirectory() as temporary:
        found = campaigns(count, seed, WRITERS, False, Path(temporary))
    counts.tried(found.kills + found.full + found.cuts)
    for name in ("kills", "full", "cuts", "steps", "rows", "sold", "again"):
        counts.also(name, getattr(found, name))
    counts.also(f"on a disk that cannot be written: {found.read_only}")
    for fault in found.faults:
        counts.fault(WRONG, fault)
    return counts.tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack.campaigns", description=__doc__)
    parser.add_argument("--kills", type=int, default=COUNT, metavar="N", help=f"{COUNT} by default")
    parser.add_argument("--seed", type=int, default=0, help="of the instants; 0 by default")
    parser.add_argument(
        "--writers", type=int, default=WRITERS, metavar="N", help=f"{WRITERS} by default"
    )
    parser.add_argument("--server", action="store_true", help="on PostgreSQL")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found = campaigns(options.kills, options.seed, options.writers, options.server, folder)
    print(json.dumps({**vars(found), "windows": dict(found.windows)}, indent=2))
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
